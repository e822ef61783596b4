"""The list of the files of a copy on another file system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError


@dataclass(frozen=True)
class CopyManifest:
    """The files of a copy on another file system.

    Attributes: files: size in bytes and digest by name. is_complete: False while files are written.
    """

    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    is_complete: bool = True

    @classmethod
    def read(cls, path: StorePath) -> CopyManifest:
        """Read a manifest. Raises: FileNotFoundError; StoreError for other bytes."""
        try:
            root = json.loads(read_small_file(path))
            files = {str(name): (int(size), str(digest)) for name, (size, digest) in root["files"].items()}
            return cls(files, bool(root["complete"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(f"{path}: is no list of the files of a copy: {error}") from None

    def encode(self) -> bytes:
        return json.dumps({"complete": self.is_complete, "files": self.files}, indent="\t").encode()

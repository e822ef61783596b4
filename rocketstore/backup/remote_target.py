"""Write a copy to another file system: only the files that changed since the copy before."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketstore.backup.copy_report import CopiedFile
from rocketstore.disk.durable import ZEROS
from rocketstore.disk.held_file import CHUNK, HeldFile
from rocketstore.disk.remote.remote_path import RemotePath
from rocketstore.disk.storage import names_in
from rocketstore.errors import StoreError
from rocketstore.root_places import RootPlaces
from rocketstore.state.copy_manifest import CopyManifest

DIGEST_SIZE = 16  # bytes


@dataclass(frozen=True)
class Upload:
    """A file to write. Attributes: digest: of its bytes. is_changed: whether it must be written."""

    file: HeldFile
    digest: str
    is_changed: bool


class RemoteTarget:
    """The root of a copy on a file system of fsspec.

    A manifest lists the files with their digests. Files that will be written are removed from it first, and added when
    all files are written. So the manifest that a killed call leaves names only unchanged files.
    """

    def __init__(self, root: RemotePath) -> None:
        """Read the manifest of an earlier copy.

        Raises: FileExistsError if the directory has files and no manifest; StoreError; OSError.
        """
        self.root = root = RemotePath(root.fs, root.path)  # the caller's path may have old lists
        root.fs.invalidate_cache(root.path)
        self._fs: Any = root.fs
        self._manifest = self._path(RootPlaces(root).copy_manifest.name)
        names = names_in(root)
        if names and self._manifest.name not in names:
            reason = f"{os.strerror(errno.ENOTEMPTY)}: give a directory that is empty, or has an earlier copy"
            raise FileExistsError(errno.ENOTEMPTY, reason, str(root))
        self._old = CopyManifest.read(self._manifest) if names else CopyManifest()

    def write(self, staged: Path, held: Sequence[HeldFile]) -> list[CopiedFile]:
        """Write the files that changed, and remove all others. Return the files of the copy.

        Parameters: staged: a directory with files. held: files that are not in it. Raises: OSError, StoreError.
        """
        files = [*held, *find_staged(staged)]
        try:
            uploads = [self._plan(file) for file in files]
            kept = {each.file.name: self._old.files[each.file.name] for each in uploads if not each.is_changed}
            self._write_manifest(CopyManifest(kept, is_complete=False))
            for each in uploads:
                if each.is_changed:
                    self._write_file(each.file)
            for name in self._old.files.keys() - {file.name for file in files}:
                self._remove(name)
            found = {each.file.name: (each.file.size, each.digest) for each in uploads}
            self._require_sizes(found)
            self._write_manifest(CopyManifest(found))
        finally:
            for file in files[len(held) :]:
                file.close()
        return [CopiedFile(each.file.name, each.file.size, each.is_changed) for each in uploads]

    def _plan(self, file: HeldFile) -> Upload:
        digest = digest_of(file)
        return Upload(file, digest, self._old.files.get(file.name) != (file.size, digest))

    def _write_file(self, file: HeldFile) -> None:
        path = self._path(file.name)
        with path.named():
            self._fs.makedirs(path.parent.path, exist_ok=True)
            with self._fs.open(path.path, "wb") as target:
                place = 0
                for begin, data in file.chunks(file.size):
                    write_zeros(target, begin - place)
                    target.write(data)
                    place = begin + len(data)
                write_zeros(target, file.size - place)

    def _remove(self, name: str) -> None:
        path = self._path(name)
        with path.named():
            if self._fs.exists(path.path):
                self._fs.rm_file(path.path)

    def _require_sizes(self, files: Mapping[str, tuple[int, str]]) -> None:
        """Raise StoreError if a file has not the bytes that were written."""
        for name, (size, _) in files.items():
            path = self._path(name)
            with path.named():
                found = self._fs.info(path.path)["size"]
            if found != size:
                raise StoreError(f"{path}: has {found} bytes, and {size} were written: repeat the call")

    def _write_manifest(self, manifest: CopyManifest) -> None:
        with self._manifest.named():
            self._fs.makedirs(self.root.path, exist_ok=True)
            self._fs.pipe_file(self._manifest.path, manifest.encode())
            self._fs.invalidate_cache(self.root.path)

    def _path(self, name: str) -> RemotePath:
        return RemotePath(self._fs, f"{self.root.path}/{name}")


def find_staged(directory: Path) -> list[HeldFile]:
    """Open all files below a directory, under their names relative to it."""
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return [HeldFile(path, path.relative_to(directory).as_posix()) for path in found]


def digest_of(file: HeldFile) -> str:
    """Return a digest of the bytes of a file. Holes count as zeros."""
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for place, data in file.chunks(file.size):
        digest.update(place.to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def write_zeros(target: Any, count: int) -> None:
    for begin in range(0, count, CHUNK):
        target.write(ZEROS[: min(CHUNK, count - begin)])

"""StorePath: a path of a store, local or remote, with the methods that readers use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, Protocol, TypeVar


class StorePath(Protocol):
    """A path that is read: a ``pathlib.Path`` or a ``RemotePath``. It has the methods that readers use, and no others.

    A function that only reads takes a StorePath. A function that writes takes a Path. ``storage.local_path`` makes a
    Path of a StorePath, and refuses a remote one.
    """

    @property
    def name(self) -> str: ...

    @property
    def parent(self) -> StorePath: ...

    def __truediv__(self, name: str, /) -> StorePath: ...

    def __lt__(self, other: Any, /) -> bool: ...

    def with_name(self, name: str, /) -> StorePath: ...

    def absolute(self) -> StorePath: ...

    def exists(self) -> bool: ...

    def is_file(self) -> bool: ...

    def is_dir(self) -> bool: ...

    def stat(self) -> os.stat_result: ...

    def iterdir(self) -> Iterator[StorePath]: ...

    def glob(self, pattern: str, /) -> Iterator[StorePath]: ...

    def rglob(self, pattern: str, /) -> Iterator[StorePath]: ...

    def open(self, mode: Literal["rb"], buffering: Literal[-1, 0] = ...) -> IO[bytes]: ...


AnyPath = TypeVar("AnyPath", Path, StorePath)  # of a function that returns the kind of path that it gets

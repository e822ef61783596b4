"""Paths of stores: a local path, or a RemotePath on any file system that fsspec has or wraps, which is only read."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeGuard

from rocketstore.disk.remote.remote_path import ListedEntry, RemotePath
from rocketstore.disk.store_path import StorePath
from rocketstore.extras import import_extra

LOCAL_PATH = type(Path())
TYPES_WITH_VERSION = (RemotePath, ListedEntry)  # made once: identity() is called for each listed file
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")


def to_path(path: Any) -> StorePath:
    """Return a local Path, or the RemotePath of a URI (``s3://bucket/store``) or of a path of universal_pathlib.

    A local path becomes absolute, so that it stays valid when the process changes its directory. ``~`` and ``~user`` at
    its beginning are home directories. A file system gets its
    options from its environment, from fsspec's configuration, or from the path.
    Raises: ModuleNotFoundError naming the missing package; ValueError for an unknown protocol, or for another host.
    """
    if type(path) is LOCAL_PATH and path.is_absolute():  # each read of a file comes here
        return path
    if isinstance(path, RemotePath):
        return path
    if hasattr(path, "fs"):
        is_local = path.protocol in ("", "file")
        return Path(path.path).absolute() if is_local else RemotePath(path.fs, path.path)
    if isinstance(path, str) and path.startswith("file:/"):
        host, _, place = path.removeprefix("file:").removeprefix("//").partition("/")
        if host not in ("", "localhost"):
            raise ValueError(f"{path}: names the host {host!r}: file:///... is a path of this machine")
        return Path(f"/{place}")
    if isinstance(path, str) and URI.match(path):
        core = import_extra("fsspec.core", "remote")
        try:
            return RemotePath(*core.url_to_fs(path))
        except ImportError as error:
            raise ModuleNotFoundError(f"{path}: {error}", name=error.name) from error
    return expand_home(path).absolute()


def expand_home(path: str | os.PathLike[str]) -> Path:
    """Return a path with the home directory in place of ``~`` or ``~user``. An unknown user stays as given."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # pathlib raises an error for an unknown user


def is_remote(path: object) -> TypeGuard[RemotePath]:
    return isinstance(path, RemotePath)


def find_matches(path: StorePath) -> list[StorePath] | None:
    """Return the paths that match a pattern such as ``stores/*``, sorted; None for a path that is no pattern.

    The path of an existing file or directory is no pattern, whatever its name is.
    """
    text = str(path)
    signs = "*[" if text.startswith("http") else "*?["  # a URL may have a query
    if not any(sign in text for sign in signs) or path.exists():
        return None
    if is_remote(path):
        return [*path.find_matches()]
    return [Path(match) for match in sorted(glob.glob(text, recursive=True))]  # noqa: PTH207  # pathlib matches hidden names


def local_path(path: Any) -> Path:
    """Return the Path of a local file or directory. Raises: io.UnsupportedOperation for a remote path."""
    local = to_path(path)
    if not isinstance(local, Path):
        why = "a local path is needed here (rocketstore copy makes a local copy of a remote store)"
        raise io.UnsupportedOperation(f"{local} is remote: {why}")
    return local


def scandir(path: StorePath) -> AbstractContextManager[Iterator[Any]]:
    """List a directory as os.scandir does. The entries answer from the list, without new requests.

    Raises: FileNotFoundError, NotADirectoryError.
    """
    return contextlib.nullcontext(map(ListedEntry, path.iterdir())) if is_remote(path) else os.scandir(path)


def names_in(directory: StorePath) -> set[str]:
    """Return the names in a directory; none if it cannot be listed. The next call that reads it then raises."""
    with contextlib.suppress(OSError), scandir(directory) as entries:
        return {entry.name for entry in entries}
    return set()


def held_lists(path: object) -> AbstractContextManager[None]:
    """Use each list of a remote directory until the end of a ``with`` block, so that a plan lists it only once.

    If a file turns out to be missing, its directory is listed again. Parameters: path: any path of the store. A local
    path changes nothing.
    """
    return path.hold_lists() if is_remote(path) else contextlib.nullcontext()


def sparing_reads(path: object) -> AbstractContextManager[None]:
    """Read only the requested bytes of a remote store's files until the end of a ``with`` block.

    Outside the block, files are read in blocks of 8 MiB, some of them ahead. Blocks suit a scan, not a few small reads.
    Parameters: path: the root by which the readers were opened, or another path made of it. A local path changes
    nothing. All threads that use the store read like this.
    """
    return path.blocks.sparing() if is_remote(path) else contextlib.nullcontext()


def identity(path: Any) -> object:
    """Return a value that differs if another file takes the place of a file, so that its mappings are outdated.

    Parameters: path: a path, or an entry of ``scandir``. A remote file that changed counts as another file.
    """
    return path.version() if isinstance(path, TYPES_WITH_VERSION) else path.stat().st_ino

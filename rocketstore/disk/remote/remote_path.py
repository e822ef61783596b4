"""RemotePath: a path on a file system of fsspec, with the methods of pathlib that readers use."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import IO, Any, Protocol

from rocketstore.disk.remote.blocks import Blocks
from rocketstore.disk.remote.directory_lists import DirectoryLists, Listing
from rocketstore.errors import CorruptFileError
from rocketstore.extras import import_extra

LISTED = 1.0  # seconds that a list of a directory is used, longer if the list itself took longer
AT_REST = 60  # seconds after its last change; a file at rest has no writer
CHANGED = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")  # names of the time of change
VERSION = ("ETag", "etag", "generation")
KEPT = ("name", "type", "size", *CHANGED, *VERSION)
Entry = dict[str, Any]


class FileSystem(Protocol):
    """What a RemotePath uses of a file system of fsspec."""

    root_marker: str

    def unstrip_protocol(self, path: str, /) -> str: ...

    def invalidate_cache(self, path: str, /) -> None: ...

    def glob(self, path: str, /) -> list[str]: ...

    def ls(self, path: str, /, *, detail: bool) -> list[Entry]: ...

    def info(self, path: str, /) -> Entry: ...

    def open(self, path: str, mode: str, /, **options: Any) -> IO[bytes]: ...

    def cat_file(self, path: str, /, *, start: int, end: int, **options: Any) -> bytes: ...

    def cat_ranges(self, paths: list[str], starts: list[int], ends: list[int], /, **options: Any) -> list[Any]: ...


class RemotePath:
    """A path on a file system of fsspec, with the methods of pathlib that readers use.

    All paths made from one path share the lists of directories (see DirectoryLists) and the blocks that were read last.
    A path pickles as file system and path. A file from a list pickles with its entry and answers from it, so that a
    task of Spark does not repeat the listings of the driver.

    Examples:
    >>> import fsspec
    >>> import os
    >>> path = RemotePath(fsspec.filesystem("file"), os.path.abspath("demo"))
    >>> len(rocketstore.open(path)["Orders"])
    100
    """

    __slots__ = ("_entry", "_is_as_listed", "_lists", "blocks", "fs", "path")

    def __init__(self, fs: Any, path: str, parent: RemotePath | None = None, entry: Entry | None = None) -> None:
        """Parameters: fs: a file system of fsspec or of pyarrow.fs. path: as the file system names it."""
        is_arrow = not hasattr(fs, "cat_ranges")
        self.fs: FileSystem = (
            import_extra("fsspec.implementations.arrow", "remote").ArrowFSWrapper(fs) if is_arrow else fs
        )
        self.path = path.rstrip("/")
        self._entry = entry
        self._is_as_listed = False  # it answers from its entry, without a new list
        self._lists: DirectoryLists[RemotePath] = parent._lists if parent else DirectoryLists()
        self.blocks: Blocks = parent.blocks if parent else Blocks()

    # ---- names ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.fs, self.path.rpartition("/")[0], self)

    def __truediv__(self, name: str) -> RemotePath:
        """Return a path in this directory, with its listed entry if the list is recent."""
        listed = self._list_known() or {}
        return listed[name] if name in listed else RemotePath(self.fs, f"{self.path}/{name}", self)

    def with_name(self, name: str) -> RemotePath:
        return self.parent / name

    def absolute(self) -> RemotePath:
        return self

    def is_within(self, directory: object) -> bool:
        """Return whether this is a directory, or a path below it, on the same file system."""
        is_remote = isinstance(directory, RemotePath) and self.fs == directory.fs
        return is_remote and f"{self}/".startswith(f"{directory}/")

    def __str__(self) -> str:
        return str(self.fs.unstrip_protocol(self.path))

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and (self.path, self.fs) == (other.path, other.fs)

    def __lt__(self, other: RemotePath) -> bool:
        return self.path < other.path

    def __hash__(self) -> int:
        return hash((self.path, self.fs))

    def __reduce__(self) -> tuple[object, ...]:
        if self._entry is None or self._entry["type"] != "file":
            return RemotePath, (self.fs, self.path)
        kept = {name: self._entry[name] for name in KEPT if name in self._entry}
        return _as_listed, (self.fs, self.path, kept)

    # ---- directories ---------------------------------------------------------------------------------------

    def iterdir(self) -> Iterator[RemotePath]:
        """List a directory. Raises: FileNotFoundError, NotADirectoryError, OSError."""
        return iter(list(self._list().values()))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield the paths in this directory whose names match a pattern."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            yield from (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern))

    def find_matches(self) -> list[RemotePath]:
        """Return the paths that this path matches as a pattern, sorted. Raises: OSError."""
        with self.named():
            found: list[str] = sorted(self.fs.glob(self.path))
        return [RemotePath(self.fs, path, self) for path in found]

    def hold_lists(self) -> AbstractContextManager[None]:
        """Use each list of this store's directories until the end of a ``with`` block."""
        return self._lists.held(LISTED)

    def _list_known(self) -> dict[str, RemotePath] | None:
        listing = self._lists.find(self.path, LISTED)
        return None if listing is None else listing.entries

    def _list(self) -> dict[str, RemotePath]:
        listing: Listing[RemotePath] | None = self._lists.find(self.path, LISTED)
        if listing is None:
            requested = time.monotonic()
            listing = self._lists.keep(self.path, self._list_now(), requested)
        if listing.entries is None:
            raise self.error(FileNotFoundError())
        return listing.entries

    def _list_now(self) -> dict[str, RemotePath] | None:
        """List the directory. Return None if it is missing."""
        where = self.path or self.fs.root_marker
        with self.named():
            self.fs.invalidate_cache(where)
            try:
                entries = self.fs.ls(where, detail=True)
            except FileNotFoundError:
                return None
        listed = {}
        for entry in entries:
            path = entry["name"].rstrip("/")
            if path.lstrip("/") != self.path.lstrip("/"):
                name = path.rpartition("/")[2]
                found = RemotePath(self.fs, f"{self.path}/{name}", self, entry)
                if found._complete(entry):
                    listed[name] = found
            elif entry["type"] != "directory" and not entry["name"].endswith("/"):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self))
        return listed

    def _complete(self, entry: Entry) -> bool:
        """Request the size or the target of a link that a list may omit. Return whether the path exists."""
        kind = entry["type"]
        if kind == "directory" or (kind == "file" and entry.get("size") is not None):
            return True
        try:
            with self.named():
                self._entry = entry | self.fs.info(self.path)
        except FileNotFoundError:
            return False
        return True

    def forget(self) -> None:
        """List the directory again at its next use, because it has changed."""
        self._lists.forget(self.path)

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield the paths at any depth below this directory whose names match a pattern."""
        for path in self.glob("*"):
            if fnmatch.fnmatchcase(path.name, pattern):
                yield path
            if path.is_dir():
                yield from path.rglob(pattern)

    def exists(self) -> bool:
        return self._find_entry() is not None

    def is_file(self) -> bool:
        entry = self._find_entry()
        return entry is not None and entry["type"] == "file"

    def is_dir(self) -> bool:
        listed = self.parent._list_known()
        if listed is not None:
            return self.name in listed and stat.S_ISDIR(listed[self.name].stat().st_mode)
        try:
            self._list()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stat(self) -> os.stat_result:
        """Return type, size and time of change. Raises: FileNotFoundError; OSError for a file of unknown size."""
        entry = self._find_entry()
        if entry is None:
            raise self.error(FileNotFoundError())
        return self._status_of(entry)

    def _status_of(self, entry: Entry) -> os.stat_result:
        mode = stat.S_IFDIR if entry["type"] == "directory" else stat.S_IFREG
        size = entry.get("size")
        if size is None and mode == stat.S_IFREG:
            raise OSError(errno.EOPNOTSUPP, "the file system does not tell its size", str(self))
        times = {"st_mtime": changed(entry), "st_mtime_ns": int(changed(entry) * 1e9)}
        return os.stat_result((mode, 0, 0, 1, 0, 0, size or 0, 0, int(changed(entry)), 0), times)

    def _find_entry(self) -> Entry | None:
        if self._is_as_listed:
            return self._entry
        try:
            found = self.parent._list().get(self.name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if found is None else found._entry

    # ---- bytes ---------------------------------------------------------------------------------------------

    def version(self) -> tuple[object, ...]:
        """Return a value that differs between two versions of the file, as it was listed.

        If the file system shows no version, the value differs at each new list.
        """
        entry = self._entry or self._find_entry() or {}
        at_list = 0.0 if shows_change(entry) else self.list_time()
        return self.path, entry.get("size"), changed(entry), first_of(entry, VERSION), at_list

    def list_time(self) -> float:
        """Return when its directory was listed last if only a new list can show a change of the file, else 0."""
        entry = self._entry or {}
        at_rest = shows_change(entry) and time.time() - changed(entry) > AT_REST
        is_shown = at_rest or first_of(entry, VERSION) is not None
        return 0.0 if is_shown else self._lists.begin_of(self.path.rpartition("/")[0])

    def content_version(self) -> tuple[object, ...]:
        """Return a value that stays the same only while the bytes of the file stay the same."""
        return *self.version(), self.list_time()

    @property
    def reading(self) -> Entry:
        """The options of a read. Without them, fsspec opens a file of pyarrow that cannot seek, and seeks in it."""
        return {"seekable": True} if any(kind.__name__ == "ArrowFSWrapper" for kind in type(self.fs).__mro__) else {}

    def pread(self, begin: int, end: int) -> bytes:
        """Return the bytes of a range of the file. Raises: OSError; CorruptFileError if the file is shorter."""
        if begin >= end:
            return b""
        with self.named():
            data: bytes = self.fs.cat_file(self.path, start=begin, end=end, **self.reading)
        return self.require_all(data, begin, end)

    def require_all(self, data: bytes, begin: int, end: int) -> bytes:
        """Return the bytes of a range. Raises: CorruptFileError if some are missing."""
        if len(data) != end - begin:
            reason = f"{end - begin} bytes were requested, {len(data)} came: the file was cut, or replaced, while open"
            raise CorruptFileError(self, begin + len(data), "file size", reason)
        return data

    def read_bytes(self) -> bytes:
        """Return all bytes of the file. Raises: OSError; CorruptFileError if it was cut meanwhile."""
        status = self.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self))
        return self.pread(0, status.st_size)

    def open(self, mode: str = "rb", buffering: int = -1) -> IO[bytes]:
        """Open the file for reading. Parameters: buffering: 0 fetches only the bytes that are read. Raises: OSError."""
        with self.named():
            return self.fs.open(self.path, mode, cache_type="readahead" if buffering else "none", **self.reading)

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Turn any exception of the file system into an OSError that names this path."""
        try:
            yield
        except FileNotFoundError as error:
            raise self.error(error) from None
        except Exception as error:
            raise self.error(error) from error

    def error(self, error: Exception) -> OSError:
        """Return an exception of the file system as an OSError that names this path."""
        known = {"FileNotFoundError": errno.ENOENT, "PermissionError": errno.EACCES}
        number = known.get(type(error).__name__) or getattr(error, "errno", None) or errno.EIO
        text = os.strerror(number) if number in known.values() else f"{type(error).__name__}: {error}"
        return OSError(number, text, str(self))


def _as_listed(fs: Any, path: str, entry: Entry) -> RemotePath:
    found = RemotePath(fs, path, None, entry)
    found._is_as_listed = True
    return found


class ListedEntry:
    """An entry of a remote directory, with the methods of os.DirEntry that readers use."""

    __slots__ = ("_entry", "_path")

    def __init__(self, path: RemotePath) -> None:
        self._path = path
        self._entry: Entry = path._entry or {}

    @property
    def name(self) -> str:
        return self._path.name

    def is_file(self) -> bool:
        return bool(self._entry["type"] == "file")

    def is_dir(self) -> bool:
        return bool(self._entry["type"] == "directory")

    def stat(self) -> os.stat_result:
        """Return type, size and time of change as they were listed. Raises: OSError for a file without a size."""
        return self._path._status_of(self._entry)

    def version(self) -> tuple[object, ...]:
        """Return the version of the file as it was listed, see ``RemotePath.version``."""
        return self._path.version()


def changed(entry: Entry) -> float:
    """Return when a file was changed last, epoch seconds; 0 if the file system does not report it."""
    found = first_of(entry, CHANGED)
    if isinstance(found, str):
        with contextlib.suppress(ValueError):
            found = datetime.fromisoformat(found)
    if isinstance(found, datetime):
        return found.timestamp()
    return float(found) if isinstance(found, int | float) else 0.0


def shows_change(entry: Entry) -> bool:
    """Return whether an entry shows a change of a file whose size stays."""
    return changed(entry) > 0 or first_of(entry, VERSION) is not None


def first_of(entry: Entry, names: Sequence[str]) -> Any:
    """Return the first value of some names that an entry has, else None."""
    return next((entry[name] for name in names if entry.get(name) is not None), None)

"""IndexDirectory: the index files of one directory, listed and opened. Names of index files."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from rocketstore.disk.file_run_reader import SETTLED
from rocketstore.disk.file_system import is_in_memory
from rocketstore.disk.mapped_file import Mode
from rocketstore.disk.storage import identity, is_remote, local_path, scandir
from rocketstore.disk.store_path import AnyPath, StorePath
from rocketstore.errors import CorruptFileError, StoreClosedError
from rocketstore.index.geometry import IndexGeometry, default_geometry, longest_first, shown_geometry
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_file_list import IndexFileList, ListedIndexFile, max_open_files
from rocketstore.java_text import parse_long


class IndexDirectory:
    """The index files of one directory. A bounded number of them is open.

    Attributes: paths: of the files that were listed last, also the damaged ones. listed: the files, oldest first.
    written: the files open for writing: the newest, and full files until they are flushed. live: all IndexFile objects
    in use. rejected: files that ``load`` rejected. damaged: the error of each ignored file; a refresh replaces the
    dict. closed.
    """

    def __init__(
        self,
        path: StorePath,
        mode: str,
        geometry: IndexGeometry | None,
        compat: str,
        *,
        ignores_damage: bool,
        planned: Sequence[StorePath] | None = None,
        preallocate: bool = True,
    ) -> None:
        """Parameters: planned: the files, oldest first, which are not listed again; None to list the directory.

        preallocate: a file that is written has all its disk space.
        """
        self.preallocate = preallocate or (mode != "r" and is_in_memory(local_path(path)))
        self.path, self.mode, self.geometry, self.compat = path, mode, geometry, compat
        self.ignores_damage = ignores_damage
        self._planned = planned
        self.paths: list[StorePath] = []
        self.listed: list[ListedIndexFile] = []
        self.written: list[ListedIndexFile] = []
        self.live: weakref.WeakSet[IndexFile] = weakref.WeakSet()
        self.rejected: list[StorePath] = []
        self.damaged: dict[object, CorruptFileError] = {}
        self.closed = False
        self._opened: deque[ListedIndexFile] = deque()  # for reading, in the order of their opening
        self._max_open = max_open_files()

    def load(self, trusted_until: int | None) -> None:
        """List the files for the first time.

        Parameters: trusted_until: reject files that end after this time, epoch ms, and delete them unless the mode is
        "r". None accepts all files. Source: IndexService.load.
        """
        damaged: dict[object, CorruptFileError] = {}
        self.paths = self._paths()
        paths = self._find_geometry(self.paths, damaged)
        expired = (FileNotFoundError,) if self.mode == "r" else ()  # a broker may delete the oldest files meanwhile
        kept = []
        for path in paths:
            with contextlib.suppress(*expired):
                if trusted_until is not None and self._end_timestamp(path) > trusted_until:
                    self.rejected.append(path)
                    if self.mode != "r":
                        local_path(path).unlink()
                        continue
                kept.append(path)
        if self.mode != "r" and kept:
            require_successor(kept[-1])
        for path in kept:
            with contextlib.suppress(*expired), self._ignoring_damage(damaged):
                listed = self._list_to_add(path, path == kept[-1]) if self.mode != "r" else self._list(path)
                self.listed.append(listed)
                self.written += [listed] * (self.mode != "r" and listed.file is not None)
        if damaged and not self.listed:
            raise next(iter(damaged.values()))
        self.damaged = damaged

    @contextlib.contextmanager
    def _ignoring_damage(self, damaged: dict[object, CorruptFileError]) -> Iterator[None]:
        """Add a damaged file to ``damaged`` instead of raising, if ``ignores_damage`` is set."""
        try:
            yield
        except CorruptFileError as error:
            if not self.ignores_damage or error.path in damaged:  # a second error of an ignored file
                raise
            damaged[error.path] = error.with_traceback(None)  # its frames would keep the file mapped

    def _find_geometry(self, paths: list[StorePath], damaged: dict[object, CorruptFileError]) -> list[StorePath]:
        """Check the given geometry, or find it. Return the files that are not damaged."""
        self._check_geometry(paths, damaged)
        self._infer_geometry([path for path in paths if path not in damaged], damaged)
        return [path for path in paths if path not in damaged]

    def _paths(self) -> list[StorePath]:
        """Return the planned files. List the directory without a plan, and if a planned file is missing."""
        if self._planned is not None and all(path.exists() for path in self._planned):
            return list(self._planned)
        paths = index_paths(self.path)
        if self.mode == "r" and paths and paths[-1].stat().st_size == 0:
            paths.pop()  # a writer has not given it its length yet, or was killed before it did
        return paths

    def _check_geometry(self, paths: list[StorePath], damaged: dict[object, CorruptFileError]) -> None:
        """Refuse the given geometry if the newest items are found with another geometry alone."""
        slots, items = self.geometry or (None, None)
        for path in reversed(paths if slots else ()):
            with (
                self._ignoring_damage(damaged),
                contextlib.suppress(FileNotFoundError),  # the file has just expired
                IndexFile.open(path, hash_slot_num=slots, index_num=items) as file,
            ):
                if len(file) > 0:
                    return

    def _infer_geometry(self, paths: list[StorePath], damaged: dict[object, CorruptFileError]) -> None:
        """Find the geometry, unless it is known. A reader of an empty directory has none until a file comes."""
        for_writing = self.mode != "r"
        for path in longest_first(paths) if self.geometry is None else ():
            with self._ignoring_damage(damaged):
                self.geometry = shown_geometry(path, for_writing=for_writing, is_newest=path == paths[-1])
            if self.geometry is not None:
                return
        if self.geometry is None:
            sound = [path for path in paths if path not in damaged]
            if sound or for_writing:
                self.geometry = default_geometry(sound)

    def _list(self, path: StorePath) -> ListedIndexFile:
        listed = ListedIndexFile(path)
        self.open_listed(listed)
        return listed

    def _list_to_add(self, path: StorePath, is_newest: bool) -> ListedIndexFile:
        """Undo a torn put, and flush what an earlier writer left. Only the newest file stays open."""
        file = self._open_file(path, "r+")
        if not is_newest:
            file.close()
        return ListedIndexFile(path, file.identity, file if is_newest else None)

    def refresh(self) -> None:
        """List the directory again, in mode "r": a broker adds files and deletes the oldest."""
        known = {listed.path.name: listed for listed in self.listed}
        damaged: dict[object, CorruptFileError] = {}
        self.paths = paths = self._paths()
        if self.geometry is None:
            paths = self._find_geometry(paths, damaged)
        files = []
        for path in paths:
            try:
                with contextlib.nullcontext() if path == paths[-1] else self._ignoring_damage(damaged):
                    listed = known.get(path.name)
                    if listed is None or listed.identity != identity(path):
                        listed = self._list(path)
                    files.append(listed)
            except FileNotFoundError:
                continue  # the file has just expired
            except CorruptFileError:
                if path != paths[-1]:
                    raise  # else a writer is creating the newest file
        for gone in set(self.listed).difference(files):
            self.forget(gone)
        self.damaged = damaged
        self.listed = files

    def _end_timestamp(self, path: StorePath) -> int:
        with self._open_file(path, "r") as file:
            return file.header.end_timestamp

    def open_listed(self, listed: ListedIndexFile) -> IndexFile:
        """Return a file, opened for reading if it is not open. Raises: FileNotFoundError, if it has expired."""
        file = listed.file
        if file is None:
            if self.closed:
                raise StoreClosedError(f"{self.path} is closed")
            file = self._open_file(listed.path, "r")
            listed.identity, listed.file = file.identity, file
            self._opened.append(listed)
            while len(self._opened) > self._max_open:
                self._opened.popleft().file = None  # closed when its last user drops it
        return file

    def _open_file(self, path: StorePath, mode: Mode) -> IndexFile:
        slots, items = self.geometry or (None, None)
        options: dict[str, Any] = {"compat": self.compat, "_is_known": True, "_preallocate": self.preallocate}
        file = IndexFile.open(path, mode, hash_slot_num=slots, index_num=items, **options)
        self.live.add(file)
        return file

    def forget(self, listed: ListedIndexFile) -> None:
        """Drop a deleted file. It is not closed: a query may be reading it."""
        with contextlib.suppress(ValueError):  # not open
            self._opened.remove(listed)
        self.written = [other for other in self.written if other is not listed]

    @property
    def files(self) -> IndexFileList:
        """The index files, oldest first. Each is opened when it is used."""
        return IndexFileList(list(self.listed), self.open_listed)

    @property
    def newest(self) -> IndexFile | None:
        """The newest file, None in an empty directory."""
        return self.open_listed(self.listed[-1]) if self.listed else None

    def check_file_sizes(self) -> None:
        """Raise CorruptFileError if an open file was cut."""
        for file in [listed.file for listed in (*self.written, *self._opened)]:
            if file is not None:
                file._check_file_size()

    def close(self) -> None:
        """Close all files."""
        self.closed = True
        with contextlib.ExitStack() as stack:  # closes each file even if closing another raises
            for file in list(self.live):
                stack.callback(file.close)


def index_paths(directory: AnyPath) -> list[AnyPath]:
    """Return the index files of a directory, oldest first.

    A listing is no snapshot: it may have a file that was created meanwhile, and lack the file before it. If the
    directory changed a moment ago, it is listed again, without files that are newer than the first listing.
    """
    begin = time.time_ns()
    paths = _list_index_paths(directory)
    if not paths or is_remote(directory) or directory.stat().st_mtime_ns < begin - SETTLED:
        return paths
    return [path for path in _list_index_paths(directory) if path.name <= paths[-1].name]


def is_index_name(name: str) -> bool:
    """Return whether a name can be that of an index file. Source: DefaultMappedFile, which calls Long.parseLong."""
    return parse_long(name) is not None


def _list_index_paths(directory: AnyPath) -> list[AnyPath]:
    with scandir(directory) as entries:
        return sorted(directory / entry.name for entry in entries if is_index_name(entry.name) and entry.is_file())


def index_file_name(now: datetime, last_name: str = "") -> str:
    """Return the name of a new index file: its local time to the millisecond, but always after ``last_name``.

    Source: getAndCreateLastIndexFile, where two files made in one millisecond get one name.
    """
    name = _time_name(now)
    if name > last_name:
        return name
    try:
        return _time_name(datetime.strptime(last_name, "%Y%m%d%H%M%S%f") + timedelta(milliseconds=1))
    except (ValueError, OverflowError):  # the name is a number, but not a time
        return f"{int(last_name) + 1:017}"


def require_successor(path: StorePath) -> None:
    """Raise CorruptFileError if no name of a new file can sort after the name of the newest file."""
    if index_file_name(datetime.now(), path.name) <= path.name:
        reason = "a new file would be sorted before it: move it away, or name it by its time, yyyyMMddHHmmssSSS"
        raise CorruptFileError(path, 0, "file name", reason)


def _time_name(time: datetime) -> str:
    return time.strftime("%Y%m%d%H%M%S") + f"{time.microsecond // 1000:03}"

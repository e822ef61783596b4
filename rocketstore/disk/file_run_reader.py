"""FileRunReader: reads a run of numbered files that form one log or queue. Each file is mapped when it is read."""

from __future__ import annotations

import bisect
import contextlib
import errno
import mmap
import operator
import os
import stat
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.mapped_file import ADVICE, MappedFile, is_offset_name
from rocketstore.disk.page_cache import are_cached, stop_read_ahead
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.storage import identity, is_remote, local_path, scandir, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreClosedError
from rocketstore.kernels.buffer import Buffer
from rocketstore.limits import LONG_MAX

NEAR_PARTS = 1 << 15  # bytes between parts that are read ahead as one
SAMPLED_PARTS = 8  # of many, that are looked for in the memory of the system
MAX_MAPPED = 64  # files of one run that are mapped at a time
SETTLED = 2_000_000_000  # ns; the clock of a directory may be coarse, and of another machine
REFUSED = (errno.ENOMEM, errno.ENODEV, errno.EMFILE, errno.ENFILE)  # a file with this error can be read, not mapped
LISTED = 1_000_000_000  # ns that a list is used: some file systems do not report changes of a directory


class RunFile(NamedTuple):
    """One file of a run as it was listed: its offset in the run, path, length in bytes, and identity."""

    file_from_offset: int
    path: StorePath
    size: int
    identity: object

    @property
    def end_offset(self) -> int:
        return self.file_from_offset + self.size


def find_run_files(
    directory: StorePath, entries: Iterable[Any], known: Mapping[int, RunFile] = MappingProxyType({})
) -> Iterator[RunFile]:
    """Yield the files of a run among the entries of a directory, in the order of the entries.

    Parameters: known: files of the directory that were found before, by offset. Their paths are used again, since
    making a path takes longer than all other steps.
    """
    for entry in entries:
        if is_offset_name(entry.name) and entry.is_file():
            start = int(entry.name)
            try:
                size, file_identity = entry.stat().st_size, identity(entry)
            except FileNotFoundError:  # the file has just expired
                continue
            before = known.get(start)
            path = directory / entry.name if before is None or is_remote(directory) else before.path
            yield RunFile(start, path, size, file_identity)


def has_gap(files: Sequence[RunFile]) -> bool:
    """Return whether a file of a run, except the last, does not end where the next file begins."""
    return any(before.end_offset != after.file_from_offset for before, after in pairwise(files))


NO_STARTS = np.empty(0, np.int64)
FROM_OFFSET = operator.itemgetter(0)
FindEnd = Callable[[bytes, int], int]  # returns where an entry ends that begins at a position of some bytes


class Window(NamedTuple):
    """A part of a run in memory: byte ``k`` of ``buffer`` is offset ``from_offset + k``."""

    buffer: Buffer
    from_offset: int


class Mappings:
    """The mappings that were used last, of one run of files or of several runs that share them."""

    def __init__(self, most: int = MAX_MAPPED) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[object, int, str], MappedFile] = OrderedDict()

    def find(self, run: object, start: int, use: str) -> MappedFile | None:
        """Return the kept mapping of the file that begins at ``start``, or None."""
        name = run, start, use
        mapped = self._kept.get(name)
        if mapped is not None:
            try:
                self._kept.move_to_end(name)
            except KeyError:  # another thread has removed it
                return None
        return mapped

    def take(self, run: object, start: int, use: str) -> MappedFile | None:
        """Remove the kept mapping of the file that begins at ``start``, and return it, or None."""
        return self._kept.pop((run, start, use), None)

    def keep(self, run: object, start: int, use: str, mapped: MappedFile) -> None:
        self._kept[run, start, use] = mapped
        while len(self._kept) > self._most:
            with contextlib.suppress(KeyError):  # another thread has cleared all
                self._kept.popitem(last=False)  # unmapped when its last user drops it

    def clear(self) -> None:
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


class FileRunReader:
    """Reads a run of files as one range of offsets. Each file is named by the offset of its first byte, in 20 digits.

    A bounded number of files is mapped at a time. If the system refuses a mapping, the file is read without one. Other
    files in the directories are ignored. Source: MappedFileQueue, MultiPathMappedFileQueue.
    """

    def __init__(
        self,
        directories: Sequence[StorePath],
        *,
        mapped_file_size: int | None = None,
        mappings: Mappings | None = None,
        files: list[RunFile] | None = None,
    ) -> None:
        """List the files of one or several directories. If two files have one name, the first directory's is used.

        Parameters: mapped_file_size: bytes; by default, the size that the files show. mappings: shared by several runs;
        by default, the run has its own. files: a list that was made before, in order. The directories are then not
        listed before ``list_again``.
        Raises: FileNotFoundError if no directory exists.
        """
        self.directories = list(map(to_path, directories))
        self.files: list[RunFile] = []  # replaced by another list, and never changed
        self.given_size = mapped_file_size
        self._shown_size = self.files, 0  # computed once for each list
        self._shown_starts = self.files, NO_STARTS
        self._mappings = Mappings() if mappings is None else mappings
        self._name = object()  # the key among shared mappings, which do not keep this run alive
        self._live: weakref.WeakSet[MappedFile] = weakref.WeakSet()
        self._closed = False
        self._is_tolerant = False
        self._listed: tuple[list[tuple[int, int]], int] = [], 0  # the directories, and the time, epoch ns, of the list
        self.is_planned = files is not None
        self._is_held = False
        if files is not None:
            self.files = files
        self.refresh()

    def span(self, offset: int) -> int:
        """Return the most bytes to read at once at an offset."""
        return LONG_MAX

    def read_beyond(self, window: Window) -> bool:
        """If a window ends where the part of a plan ends, read whole files from now on.

        Returns: whether the window ends there. Local files are not limited to a part.
        """
        return False

    def list_again(self) -> None:
        """List the directories, also if a list was given. Call it if a file differs from the given list."""
        self.is_planned = self._is_held = False
        self.refresh()

    @contextlib.contextmanager
    def hold_list(self) -> Iterator[None]:
        """Use the present list of files until the end of a ``with`` block, so that a plan lists no directory again.

        If a file differs from the list, the directories are listed again, from then on as usual. For the lists of
        remote directories, use ``held_lists``.
        """
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def refresh(self) -> None:
        """List the directories again if they changed. A broker adds, extends and deletes files while it runs.

        A list that was given, and a list in ``hold_list``, are kept.
        """
        if self.is_planned or self._is_held:
            return
        now, directories = time.time_ns(), self._directories()
        if not self._is_listed(directories, now):
            self._list()
            self._listed = directories, now

    def _directories(self) -> list[tuple[int, int]]:
        """Return inode and last change, epoch ns, of each directory."""
        found = []
        for directory in self.directories:
            with contextlib.suppress(FileNotFoundError):
                stat = directory.stat()
                found.append((stat.st_ino, stat.st_mtime_ns))
        return found

    def _is_listed(self, directories: list[tuple[int, int]], now: int) -> bool:
        """Return whether the list is still valid: it was made long enough after the last change."""
        listed, at = self._listed
        is_settled = max((changed for _, changed in listed), default=now) <= at - SETTLED
        if directories != listed or not self.files or not is_settled or not at <= now < at + LISTED:
            return False
        last = self.files[-1]
        try:
            status = last.path.stat()
            return (status.st_size, status.st_ino) == (last.size, last.identity)
        except FileNotFoundError:
            return False

    def _list(self) -> None:
        """List the files, twice if one seems to be missing: a listing of a directory is no snapshot.

        A file that is made during the listing may be in it without the files that were made just before. The second
        listing begins when all of these are there. Files newer than the first listing are left to the next refresh.
        """
        files = self._list_once()
        if has_gap(files) and files != self.files:  # an older gap was checked before
            newest = files[-1].file_from_offset
            for directory in filter(is_remote, self.directories):
                directory.forget()
            files = [file for file in self._list_once() if file.file_from_offset <= newest]
        self.files = files

    def _list_once(self) -> list[RunFile]:
        found: dict[int, RunFile] = {}
        missing = []
        known = {file.file_from_offset: file for file in self.files} if len(self.directories) == 1 else {}
        for directory in self.directories:
            try:
                with scandir(directory) as entries:
                    for file in find_run_files(directory, entries, known):
                        found.setdefault(file.file_from_offset, file)
            except FileNotFoundError as error:
                missing.append(error)
        if len(missing) == len(self.directories):
            raise missing[0]
        return [found[start] for start in sorted(found)]

    def leave_out_behind(self, offset: int) -> None:
        """Leave out the files that end behind an offset, until the directories are listed again."""
        if any(file.end_offset > offset for file in self.files):
            self.files = [file for file in self.files if file.end_offset <= offset]

    def extend(self) -> None:
        """Add complete files that were made behind the last one, without a listing."""
        files, size = list(self.files), self.mapped_file_size
        while files and files[-1].size == size and (made := self._made(files[-1].end_offset, size)) is not None:
            files.append(made)
        if len(files) > len(self.files):
            self.files = files
            self._shown_size = files, size

    def _made(self, start: int, size: int) -> RunFile | None:
        """Return the complete file that begins at an offset, or None if it is missing."""
        for path in (directory / f"{start:020}" for directory in self.directories):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                is_whole = stat.S_ISREG(status.st_mode) and status.st_size == size and start <= LONG_MAX - size
                return RunFile(start, path, size, identity(path)) if is_whole else None
        return None

    @property
    def mapped_file_size(self) -> int:
        """The length of a complete file, bytes; 0 if no file exists. It is given, or shown by the files.

        The longest file is complete if the distances between the files are multiples of its length. Otherwise the least
        distance is the length.
        """
        if self.given_size is not None:
            return self.given_size
        files, size = self._shown_size
        if files is not self.files:
            files = self.files
            longest = max((file.size for file in files), default=0)
            distance = min((b.file_from_offset - a.file_from_offset for a, b in pairwise(files)), default=longest)
            size = longest if longest and distance % longest == 0 else distance
            self._shown_size = files, size
        return size

    def start_behind(self, file: RunFile) -> int:
        """Return the offset of the next file, LONG_MAX for the last file."""
        files = self.files
        at = bisect.bisect_right(files, file.file_from_offset, key=FROM_OFFSET)
        return files[at].file_from_offset if at < len(files) else LONG_MAX

    def between(self, begin: int, end: int) -> Iterator[RunFile]:
        """Yield the files that may have bytes from ``begin`` to before ``end``."""
        files = self.files
        at = max(bisect.bisect_right(files, begin, key=FROM_OFFSET) - 1, 0)
        while at < len(files) and files[at].file_from_offset < end:
            yield files[at]
            at += 1

    def last_before(self, offset: int) -> RunFile | None:
        """Return the last file that begins at an offset or before it, None without one."""
        files = self.files
        at = bisect.bisect_right(files, offset, key=FROM_OFFSET) - 1
        return files[at] if at >= 0 else None

    def starts(self) -> np.ndarray:
        """Return the offsets of the files, int64[n], bytes."""
        files, starts = self._shown_starts
        if files is not self.files:
            files = self.files
            starts = np.array([file.file_from_offset for file in files], np.int64)
            self._shown_starts = files, starts
        return starts

    def find(self, offset: int) -> RunFile | None:
        """Return the file that has the byte at ``offset``, None without one.

        Source: MappedFileQueue.findMappedFileByOffset.
        """
        files = self.files  # another thread may replace the list
        at = bisect.bisect_right(files, offset, key=FROM_OFFSET) - 1
        return files[at] if at >= 0 and offset < files[at].end_offset else None

    def read(self, offset: int, size: int, use: str = "", until: int = LONG_MAX) -> Window | None:
        """Return at least ``size`` bytes at ``offset``, or as many as their file has; None if no file has the offset.

        Parameters: use: "random" or "sequential", as for ``MappedFile.advise``; "exact": sequential, but the system
        reads nothing behind ``until``. until: the offset to which a sequential caller will read.
        """
        file = self.find(offset)
        if file is None:
            return None
        try:
            if use == "exact" and self._is_tolerant:
                use = "sequential"  # one mapping must know all bad sectors that a caller met
            mapped = self.map(file, "random" if use == "exact" else use)
            if use == "exact":
                mapped.advise("willneed", offset - file.file_from_offset, min(until, file.end_offset) - offset)
            return Window(mapped.buffer, file.file_from_offset)
        except FileNotFoundError:  # the file expired since it was listed
            self.list_again()
            return None
        except OSError as error:
            if error.errno not in REFUSED:
                raise
        self._mappings.clear()
        return Window(Buffer(self.pread(offset, size), file.path), offset)

    def read_entry(self, offset: int, size: int, find_end: FindEnd) -> Window | None:
        """Return at least ``size`` bytes at ``offset``, where an entry begins, as ``read`` does.

        Parameters: find_end: where the entry ends; of a remote file exactly the entry is read.
        """
        return self.read(offset, size, "random")

    def read_ahead(self, offsets: np.ndarray, sizes: np.ndarray) -> None:
        """Let the system begin to read many parts of local files, unless a sample of them is in its memory.

        The disk reads many parts at once, but a page fault waits for one. It has no effect on results.
        Parameters: offsets: int64[n], in any order; those that no file has are ignored. sizes: int32[n], bytes.
        """
        sample = np.sort(offsets[:: len(offsets) // SAMPLED_PARTS + 1])
        with contextlib.suppress(OSError):  # a file has just expired, or the system refuses a mapping
            if not all(are_cached(file.path, places.tolist()) for file, _, places in self._parts_by_file(sample)):
                order = np.argsort(offsets, kind="stable")
                sizes = sizes[order]
                for file, rows, places in self._parts_by_file(offsets[order]):
                    self.map(file, "random").read_ahead(*pages_of(places, np.minimum(places + sizes[rows], file.size)))

    def _parts_by_file(self, offsets: np.ndarray) -> Iterator[tuple[RunFile, slice, np.ndarray]]:
        """Yield each file that has some of the offsets, int64[n], ascending; their rows; their positions in it."""
        for file in self.between(int(offsets[0]), int(offsets[-1]) + 1) if len(offsets) else ():
            rows = slice(*offsets.searchsorted((file.file_from_offset, file.end_offset)).tolist())
            if rows.start < rows.stop:
                yield file, rows, offsets[rows] - file.file_from_offset

    def read_parts_ahead(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Read ranges of offsets of remote files, many at once, if reads are sparing. Local files are not read."""

    def limit_to(self, begin: int, end: int) -> None:
        """Read only blocks with bytes from ``begin`` to before ``end``, if the files are remote."""

    def pread(self, offset: int, size: int) -> bytes:
        """Read ``size`` bytes at ``offset``, or as many as their file has, without a mapping."""
        file = self.find(offset)
        if file is None:
            return b""
        fd = os.open(local_path(file.path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            stop_read_ahead(fd)
            return read_at(fd, min(size, file.end_offset - offset), offset - file.file_from_offset, file.path)
        finally:
            os.close(fd)

    def peek(self, offset: int, size: int) -> Window | None:
        """Return at least ``size`` bytes at ``offset``, as ``read`` does. A few bytes are read without a mapping.

        To map a file takes longer than to read a page of it, and a store may have many thousands of short queues.
        """
        file = self.find(offset)
        if (
            file is None
            or size > mmap.PAGESIZE
            or self._mappings.find(self._name, file.file_from_offset, "") is not None
        ):
            return self.read(offset, size)
        try:
            return Window(Buffer(self.pread(offset, size), file.path), offset)
        except FileNotFoundError:  # the file expired since it was listed
            self.list_again()
            return None

    def pread_many(self, offsets: Sequence[int], size: int) -> list[bytes]:
        """Read ``size`` bytes, or as many as the file has, at each of many offsets."""
        return [self.pread(offset, size) for offset in offsets]

    def tolerate_faults(self) -> None:
        """Read zeros from now on where the disk cannot read. ``lost_ranges`` of a window's buffer lists the places."""
        self._is_tolerant = True
        self._mappings.clear()

    def forget(self) -> None:
        """Drop all bytes that were read ahead, because a writer may have changed them since."""

    def map(self, file: RunFile, use: str = "") -> MappedFile:
        """Return a mapping of a file, a kept one if the file did not change."""
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")
        mapped = self._mappings.find(self._name, file.file_from_offset, use)
        # Files that another machine listed may have another identity on this machine.
        is_same = mapped is not None and mapped.buffer.size == file.size and mapped.identity == file.identity
        if mapped is None or mapped.buffer.faulty or not (is_same or self.is_planned):
            mapped = MappedFile(file.path, tolerant=self._is_tolerant)
            if use:
                mapped.advise(use)
            self._live.add(mapped)
            self._mappings.keep(self._name, file.file_from_offset, use, mapped)
        return mapped

    def close(self) -> None:
        """Close every mapping that was returned. Later use of a mapping raises StoreClosedError."""
        self._closed = True
        for mapped in list(self._live):
            for use in ("", *ADVICE):
                self._mappings.take(self._name, mapped.file_from_offset, use)
            mapped.close()


def pages_of(begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the pages of parts of a file begin and where these end; near parts are joined.

    Parameters: begins, ends: int64[n], positions, bytes; begins ascend.
    """
    begins, ends = begins - begins % mmap.PAGESIZE, np.maximum.accumulate(ends)
    is_first = np.append(True, begins[1:] > ends[:-1] + NEAR_PARTS)
    return begins[is_first], ends[np.append(is_first[1:], True)]

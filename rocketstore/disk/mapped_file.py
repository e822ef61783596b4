"""A file as one mapping, and a run of such files: what every kind of store file is made of."""

from __future__ import annotations

import bisect
import contextlib
import errno
import fcntl
import mmap
import operator
import os
import stat
import sys
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from rocketstore.disk.create import create_directory, create_file
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.small_file import open_at_once, require_regular
from rocketstore.disk.storage import BLOCK, closing, identity, is_remote, local_path, scandir, to_path
from rocketstore.errors import CorruptFileError, StoreClosedError, StoreError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.mapping import Mapping
from rocketstore.limits import LONG_MAX

__all__ = ["LogFile", "MappedFile", "MappedFileQueue", "Mappings", "SelectMappedBufferResult", "Window"]

MODES = ("r", "r+", "a")  # read; also write what exists; also make what is missing
CHUNK = 1 << 20
ZEROS = bytes(CHUNK)
MAX_MAPPED = 64  # files of one run that are mapped at a time
RECOVERED_FILES = 3  # of a queue, from its end: among their units its end is looked for
ADVICE = {"random": "MADV_RANDOM", "sequential": "MADV_SEQUENTIAL", "willneed": "MADV_WILLNEED"}
REFUSED = (errno.ENOMEM, errno.ENODEV, errno.EMFILE, errno.ENFILE)
SETTLED = 2_000_000_000  # ns; the clock of a directory may be coarse, and another machine's
LISTED = 1_000_000_000  # ns that a list is believed: some file systems tell no change of a directory
UNKNOWN = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)  # to this file system


class SelectMappedBufferResult(NamedTuple):
    """A slice of a mapped file, not copied: ``start_offset`` in the whole run of files, ``view``, ``size``, ``file``.

    The mapping stays while the view does. Source: SelectMappedBufferResult.
    """

    start_offset: int
    view: memoryview
    size: int
    file: MappedFile


class MappedFile:
    """A whole file in memory, shared with whoever else has it open. A context manager.

    Attributes: ``path``; ``mode``, "r" or "r+"; ``identity``, of the file that was opened; ``buffer``, the mapping as
    kernels take it; ``fd``, the descriptor of a file open for writing, -1 of another.

    Source: DefaultMappedFile. There the file is sparse; here it is allocated before it is mapped, so that a full
    disk is an OSError and not a killed process.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str = "r",
        *,
        create_size: int | None = None,
        tolerant: bool = False,
    ) -> None:
        """Map an existing file, or make one of ``create_size`` bytes of zeros (FileExistsError if it exists).

        Parameters: tolerant: read zeros where the disk cannot read; ``buffer.lost_ranges`` lists these places. False:
        calls that read these bytes raise DiskReadError.
        """
        check_mode(mode, MODES[:2])
        self.path = to_path(path) if mode == "r" else local_path(path)
        self.mode = mode
        copy = self.path.open_copy() if is_remote(self.path) else None
        descriptor = self._open(create_size) if copy is None else copy
        self._descriptor = closing(self, descriptor)
        try:
            if create_size is not None:
                os.ftruncate(descriptor, create_size)  # at once: killed while it grows, it had a length of no file
                allocate(descriptor, create_size)
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
            require_regular(self.path, status)
            if status.st_size == 0:
                raise CorruptFileError(self.path, 0, "file size", "the file is empty")
            place = self.path if copy is None else None
            self._map = Mapping(
                descriptor, status.st_size, self.path, writable=mode != "r", place=place, tolerant=tolerant
            )
        except BaseException:
            self._descriptor()
            if create_size is not None:
                self.path.unlink()
            raise
        self.identity = status.st_ino if copy is None else identity(self.path)
        self.buffer = Buffer(self._map, self.path, mode != "r")
        self.fd = descriptor if mode != "r" else -1
        if mode == "r":
            self._descriptor()  # the mapping needs none

    def _open(self, create_size: int | None) -> int:
        if create_size is not None:
            return create_file(self.path)
        access = os.O_RDONLY if self.mode == "r" else os.O_RDWR
        return open_at_once(self.path, access | os.O_CLOEXEC)

    @property
    def file_from_offset(self) -> int:
        """Where the file begins in its run, bytes: its name; 0 for a file that has another kind of name."""
        return int(self.path.name) if is_offset_name(self.path.name) else 0

    def select_mapped_buffer(self, pos: int, size: int) -> SelectMappedBufferResult | None:
        """Return ``size`` bytes at ``pos`` of the file, or None if the file does not have so many there.

        The view has zeros where the disk cannot read the file, or the file was cut. After using the view, call
        ``buffer.check_faults()``: it raises if that happened.
        Source: DefaultMappedFile.selectMappedBuffer, which also hides what was not written yet.
        """
        view: memoryview = self.buffer.use(memoryview, self._map).toreadonly()
        if pos < 0 or size < 0 or pos > len(view) or size > len(view) - pos:
            return None
        view = view[pos : pos + size]
        return SelectMappedBufferResult(self.file_from_offset + pos, view, size, self)

    def advise(self, use: str, pos: int = 0, size: int | None = None) -> None:
        """Tell the system how bytes will be used: "random", "sequential" or "willneed". It may ignore it."""
        option = getattr(mmap, ADVICE[use], None)
        start = pos - pos % mmap.PAGESIZE
        end = self.buffer.size if size is None else min(pos + size, self.buffer.size)
        if option is not None and start < end:
            self.buffer.use(self._map.madvise, option, start, end - start)

    def allocate(self, pos: int) -> None:
        """Have the disk's room for all bytes from ``pos`` on, which are zeros. Raises: OSError."""
        copy = self._copy()
        try:
            allocate(copy, self.buffer.size, pos)
        finally:
            os.close(copy)

    def allocate_holes(self) -> None:
        """Have the disk's room for all bytes of a file that was made sparse. Raises: OSError."""
        copy, begin = self._copy(), 0
        try:
            for first, last in data_ranges(self.path, 0, self.buffer.size):
                allocate(copy, first, begin)
                begin = last
            allocate(copy, self.buffer.size, begin)
        finally:
            os.close(copy)

    def view(self) -> memoryview:
        """Return the bytes. The mapping stays while the view does, also after ``close``.

        After using the view, call ``buffer.check_faults()``, as for ``select_mapped_buffer``.
        """
        return memoryview(self._map)

    @contextlib.contextmanager
    def reading(self) -> Iterator[memoryview]:
        """Yield the bytes for a ``with`` block. The end of the block raises if some of the bytes could not be read.

        Raises: DiskReadError; CorruptFileError if the file was cut. It replaces an error of the block, since the block
        may have failed because it got zeros.
        """
        try:
            yield self.view()
        finally:
            self.buffer.check_faults()

    def flush(self) -> None:
        """Write what changed to the disk, and return when it is there. Other threads run meanwhile."""
        if sys.platform == "darwin":
            self.buffer.use(self._map.flush)  # there, fsync does not write what was changed through a mapping
        elif sys.platform == "linux":
            # Else the kernel takes each changed page out of the mapping by itself, and interrupts all processors.
            with contextlib.suppress(OSError):  # locked in memory
                self.buffer.use(self._map.madvise, mmap.MADV_DONTNEED)
        copy = self._copy()
        try:
            sync(copy)
        finally:
            os.close(copy)

    def check_file(self) -> None:
        """Raise StoreError unless this file, open for writing, is still the one with its name."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            raise replaced(self.path) from None
        if not os.path.samestat(found, self.buffer.use(os.fstat, self.fd)):
            raise replaced(self.path)

    def _copy(self) -> int:
        """Give a descriptor that stays, whoever closes the file meanwhile."""
        copy: int = self.buffer.use(os.dup, self.fd)
        return copy

    def close(self) -> None:
        """Wait for the calls in flight and unmap; a mapping that views still use goes with the last of them."""
        first = True
        try:
            first = self.buffer.close()
        finally:
            if first:
                with contextlib.suppress(BufferError):
                    self._map.close()
                self._descriptor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.buffer.closed else f"mode {self.mode!r}, {self.buffer.size:,} bytes"
        return f"<MappedFile {str(self.path)!r}, {state}>"


class LogFile(NamedTuple):
    """One file of a run: where it begins, bytes; and as it was listed: its path, its length, bytes, and which it is."""

    file_from_offset: int
    path: Path
    size: int
    identity: object

    @property
    def end_offset(self) -> int:
        return self.file_from_offset + self.size


FROM_OFFSET = operator.itemgetter(0)


class Window(NamedTuple):
    """A part of a run in memory: byte ``k`` of ``buffer`` is offset ``from_offset + k``."""

    buffer: Buffer
    from_offset: int


class Mappings:
    """Mappings that are kept, those used last: of one run of files, or of several that share them."""

    def __init__(self, most: int = MAX_MAPPED) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[object, int, str], MappedFile] = OrderedDict()

    def take(self, run: object, start: int, use: str) -> MappedFile | None:
        """Give what is kept of the file that begins at ``start``, and keep it no more."""
        return self._kept.pop((run, start, use), None)

    def keep(self, run: object, start: int, use: str, mapped: MappedFile) -> None:
        self._kept[run, start, use] = mapped
        while len(self._kept) > self._most:
            with contextlib.suppress(KeyError):  # another thread has let all go
                self._kept.popitem(last=False)  # unmapped when its last user lets it go

    def clear(self) -> None:
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


class MappedFileQueue:
    """A run of files, each named by the offset of its first byte in 20 digits, read as one range of offsets.

    Files are mapped when they are read, a bounded number at a time, and read without a mapping where that is
    refused. Other files in the directories are left alone. Source: MappedFileQueue, MultiPathMappedFileQueue.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        mapped_file_size: int | None = None,
        mappings: Mappings | None = None,
        files: list[LogFile] | None = None,
    ) -> None:
        """List the files of one or several directories; of two with one name the first directory's counts.

        Parameters: mapped_file_size: bytes, else what the files show. mappings: those of several runs, else its own.
        files: a list that was made before, in order; the directories are then not listed before ``list_again``.
        Raises: FileNotFoundError if no directory exists.
        """
        self.directories = list(map(to_path, directories))
        self.files: list[LogFile] = []  # exchanged, and never changed
        self.given_size = mapped_file_size
        self._shown_size = self.files, 0  # which is asked for once for each file
        self._shown_starts = self.files, np.empty(0, np.int64)
        self._mappings = Mappings() if mappings is None else mappings
        self._name = object()  # among the mappings: theirs do not keep this object alive
        self._live: weakref.WeakSet[MappedFile] = weakref.WeakSet()
        self._closed = False
        self._is_tolerant = False
        self._listed: tuple[list[tuple[int, int]], int] = [], 0  # the directories as they were, and when, epoch ns
        self.is_planned = files is not None
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
        """List the directories, also if a list was given, because a file is not as it was when that list was made."""
        self.is_planned = False
        self.refresh()

    def refresh(self) -> None:
        """List the directories again, if they changed: files come, grow and go while a broker runs.

        A list of files that was given is kept.
        """
        if self.is_planned:
            return
        now, directories = time.time_ns(), self._directories()
        if not self._is_listed(directories, now):
            self._list()
            self._listed = directories, now

    def _directories(self) -> list[tuple[int, int]]:
        """Which they are, and when a name in them changed, epoch ns."""
        found = []
        for directory in self.directories:
            with contextlib.suppress(FileNotFoundError):
                stat = directory.stat()
                found.append((stat.st_ino, stat.st_mtime_ns))
        return found

    def _is_listed(self, directories: list[tuple[int, int]], now: int) -> bool:
        """Whether a list that was made long enough after the last change is still right."""
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
        has_gap = any(before.end_offset != after.file_from_offset for before, after in pairwise(files))
        if has_gap and files != self.files:  # a gap that was there before has been checked
            newest = files[-1].file_from_offset
            for directory in filter(is_remote, self.directories):
                directory.forget()
            files = [file for file in self._list_once() if file.file_from_offset <= newest]
        self.files = files

    def _list_once(self) -> list[LogFile]:
        found: dict[int, LogFile] = {}
        missing = []
        for directory in self.directories:
            try:
                with scandir(directory) as entries:
                    for entry in entries:
                        if is_offset_name(entry.name) and entry.is_file():
                            start = int(entry.name)
                            with contextlib.suppress(FileNotFoundError):  # it has expired just now
                                size = entry.stat().st_size
                                found.setdefault(start, LogFile(start, directory / entry.name, size, identity(entry)))
            except FileNotFoundError as error:
                missing.append(error)
        if len(missing) == len(self.directories):
            raise missing[0]
        return [found[start] for start in sorted(found)]

    def extend(self) -> None:
        """Note whole files that were made behind the last one, without a list of all."""
        files, size = list(self.files), self.mapped_file_size
        while files and files[-1].size == size and (made := self._made(files[-1].end_offset, size)) is not None:
            files.append(made)
        if len(files) > len(self.files):
            self.files = files
            self._shown_size = files, size

    def _made(self, start: int, size: int) -> LogFile | None:
        """The whole file that begins at an offset, None if there is none yet."""
        for path in (directory / f"{start:020}" for directory in self.directories):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                is_whole = stat.S_ISREG(status.st_mode) and status.st_size == size and start <= LONG_MAX - size
                return LogFile(start, path, size, identity(path)) if is_whole else None
        return None

    @property
    def mapped_file_size(self) -> int:
        """The length of a whole file, bytes, 0 if there is none: given, or what lengths and beginnings show.

        The longest file is whole, unless the distances of beginnings, which are multiples of the length, say otherwise.
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

    def start_behind(self, file: LogFile) -> int:
        """Where the file behind one begins; of the last one, where none can."""
        files = self.files
        at = bisect.bisect_right(files, file.file_from_offset, key=FROM_OFFSET)
        return files[at].file_from_offset if at < len(files) else LONG_MAX

    def between(self, begin: int, end: int) -> Iterator[LogFile]:
        """Give the files in which bytes from ``begin`` to before ``end`` may be, without a look at the others."""
        files = self.files
        at = max(bisect.bisect_right(files, begin, key=FROM_OFFSET) - 1, 0)
        while at < len(files) and files[at].file_from_offset < end:
            yield files[at]
            at += 1

    def last_before(self, offset: int) -> LogFile | None:
        """Return the last file that begins at an offset or before it, None if none does."""
        files = self.files
        at = bisect.bisect_right(files, offset, key=FROM_OFFSET) - 1
        return files[at] if at >= 0 else None

    def starts(self) -> np.ndarray:
        """Return where the files begin, int64[n], bytes."""
        files, starts = self._shown_starts
        if files is not self.files:
            files = self.files
            starts = np.array([file.file_from_offset for file in files], np.int64)
            self._shown_starts = files, starts
        return starts

    def find(self, offset: int) -> LogFile | None:
        """Give the file that has the byte at ``offset``. Source: MappedFileQueue.findMappedFileByOffset."""
        files = self.files  # which another thread may exchange
        at = bisect.bisect_right(files, offset, key=FROM_OFFSET) - 1
        return files[at] if at >= 0 and offset < files[at].end_offset else None

    def read(self, offset: int, size: int, use: str = "", until: int = LONG_MAX) -> Window | None:
        """Give at least ``size`` bytes at ``offset``, or as many as their file has; None where no file is.

        Parameters: use: "random" or "sequential", as for ``MappedFile.advise``. until: how far it goes on.
        """
        file = self.find(offset)
        if file is None:
            return None
        try:
            return Window(self.map(file, use).buffer, file.file_from_offset)
        except FileNotFoundError:  # it expired since it was listed
            self.list_again()
            return None
        except OSError as error:
            if error.errno not in REFUSED:
                raise
        self._mappings.clear()
        return Window(Buffer(self.pread(offset, size), file.path), offset)

    def pread(self, offset: int, size: int) -> bytes:
        """Read ``size`` bytes at ``offset``, or as many as their file has, without a mapping."""
        file = self.find(offset)
        if file is None:
            return b""
        with file.path.open("rb", buffering=0) as stream:
            size = min(size, file.end_offset - offset)
            return read_at(stream.fileno(), size, offset - file.file_from_offset, file.path)

    def pread_many(self, offsets: Sequence[int], size: int) -> list[bytes]:
        """Read ``size`` bytes, or as many as the file has, at each of many offsets."""
        return [self.pread(offset, size) for offset in offsets]

    def data_ranges(self, file: LogFile, begin: int) -> Iterator[tuple[int, int]]:
        """Give the ranges of a file, from a position in it on, that are not holes."""
        return data_ranges(file.path, begin, file.size)

    def tolerate_faults(self) -> None:
        """From now on read zeros where the disk cannot read. ``lost_ranges`` of a window's buffer lists the places."""
        self._is_tolerant = True
        self._mappings.clear()

    def forget(self) -> None:
        """Read anew what was read ahead: somebody may have written since."""

    def map(self, file: LogFile, use: str = "") -> MappedFile:
        """Map a file, or give the mapping there is."""
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")
        mapped = self._mappings.take(self._name, file.file_from_offset, use)
        # Files that another machine listed may have another identity on this machine.
        is_same = mapped is not None and (mapped.buffer.size, mapped.identity) == (file.size, file.identity)
        if mapped is None or mapped.buffer.faulty or not (is_same or self.is_planned):
            mapped = MappedFile(file.path, tolerant=self._is_tolerant)
            if use:
                mapped.advise(use)
            self._live.add(mapped)
        self._mappings.keep(self._name, file.file_from_offset, use, mapped)
        return mapped

    def close(self) -> None:
        """Close every mapping that was given away; later use of one raises StoreClosedError."""
        self._closed = True
        for mapped in list(self._live):
            for use in ("", *ADVICE):
                self._mappings.take(self._name, mapped.file_from_offset, use)
            mapped.close()


def data_ranges(path: Path, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Give the ranges of a file that are not holes: which are, no remote file system tells."""
    if is_remote(path):
        yield begin, end
        return
    with path.open("rb", buffering=0) as file:
        while begin < end:
            try:
                first = os.lseek(file.fileno(), begin, os.SEEK_DATA)
                last = os.lseek(file.fileno(), first, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole follows
                    return
                if error.errno not in UNKNOWN:
                    raise
                first, last = begin, end
            if first >= end:
                return
            yield first, min(last, end)
            begin = last


def nonzero_end(path: Path, begin: int, end: int) -> int:
    """Where the last byte of a part of a file ends that is not zero, ``begin`` if there is none. Holes are not read."""
    zeros = bytes(BLOCK) if is_remote(path) else ZEROS
    for first, last in reversed(list(data_ranges(path, begin, end))):
        with path.open("rb", buffering=0) as file:
            for position in reversed(range(first, last, len(zeros))):
                size = min(len(zeros), last - position)
                if is_remote(path):
                    file.seek(position)
                    data = file.read(size)
                else:
                    data = read_at(file.fileno(), size, position, path)
                if data != zeros[: len(data)]:  # four times as fast as to strip them
                    return position + len(data.rstrip(b"\0"))
    return begin


def replaced(path: Path) -> StoreError:
    return StoreError(f"{path}: was removed or replaced while it was written: another process is here")


def is_offset_name(name: str) -> bool:
    """Whether a name is that of a file in a run: 20 digits that fit a long."""
    return len(name) == 20 and name.isascii() and name.isdecimal() and int(name) <= LONG_MAX


def check_mode(mode: str, modes: Sequence[str] = MODES) -> None:
    """Raise ValueError for another mode than these."""
    if mode not in modes:
        raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, modes))}")


def make_directory(directory: Path) -> None:
    """Make a directory inside a store, and those above it, so that they are on the disk. Raises: OSError."""
    if not directory.is_dir():
        make_directory(directory.parent)
        with contextlib.suppress(FileExistsError):  # another process has made it just now
            create_directory(directory)
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
        sync_path(directory.parent)


def make_root(directory: Path, mode: int = 0o777) -> None:
    """Make the root of a new store, and the directories above it, so that they are on the disk.

    They belong to the user of this process. Parameters: mode: permissions of the root, less the umask.
    Raises: OSError.
    """
    if not directory.is_dir():
        make_root(directory.parent)
        directory.mkdir(mode, exist_ok=True)
        sync_path(directory.parent)


def sync_path(path: Path) -> None:
    """Bring a file to the disk, or the names in a directory."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    """Return when a file or directory is on the disk, and not in the disk's own memory."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in UNKNOWN:
                raise
    os.fsync(fd)


def allocate(fd: int, size: int, begin: int = 0) -> None:
    """Give a file ``size`` bytes that the disk really has, zeros from ``begin`` on. Raises OSError if it has not."""
    if begin >= size:
        return
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, begin, size - begin)
            return
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise
    while begin < size:
        begin += os.pwrite(fd, ZEROS[: size - begin], begin)

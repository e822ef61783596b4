"""MappedFile: a whole file, mapped into memory."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from rocketstore.disk.closable import Closable
from rocketstore.disk.create import create_file
from rocketstore.disk.descriptors import closing
from rocketstore.disk.durable import allocate, sync_bytes
from rocketstore.disk.held_directory import HeldDirectory, open_path, unlink_path
from rocketstore.disk.holes import data_ranges
from rocketstore.disk.remote.read_parts import open_copy
from rocketstore.disk.small_file import require_regular
from rocketstore.disk.storage import identity, is_remote, local_path, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.mapping import Mapping
from rocketstore.limits import LONG_MAX

if TYPE_CHECKING:
    import numpy as np

Mode = Literal["r", "r+", "a"]
MODES = ("r", "r+", "a")  # read; also write existing files; also make missing files
ADVICE = {"random": "MADV_RANDOM", "sequential": "MADV_SEQUENTIAL", "willneed": "MADV_WILLNEED"}


class SelectMappedBufferResult(NamedTuple):
    """A slice of a mapped file, without a copy. ``start_offset`` is its offset in the run of files.

    The mapping lives as long as the view. Source: SelectMappedBufferResult.

    Examples:
    >>> with MappedFile("demo/commitlog/00000000000000000000") as file:
    ...     part = file.select_mapped_buffer(4, 4)
    ...     print(part.start_offset, bytes(part.view).hex())
    4 daa320a7
    """

    start_offset: int
    view: memoryview
    size: int
    file: MappedFile


class MappedFile(Closable):
    """A whole file in memory, shared with other processes that have it open. A context manager.

    Attributes: ``path``; ``mode``, "r" or "r+"; ``identity``, of the file that was opened; ``buffer``, the mapping for
    kernels; ``size_in_file``, the bytes of the mapping that are in the file, zeros follow; ``fd``, the descriptor of a
    file open for writing, otherwise -1.

    RocketMQ's files are sparse. Here disk space is reserved before bytes are written, so that a full disk raises
    OSError and does not kill the process. Source: DefaultMappedFile.

    Examples:
    >>> with MappedFile("demo/commitlog/00000000000000000000") as file:
    ...     print(file.file_from_offset)
    0
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | StorePath,
        mode: Mode = "r",
        *,
        create_size: int | None = None,
        preallocate: bool = True,
        least_size: int = 0,
        tolerant: bool = False,
        model_directory: str | None = None,
        held: HeldDirectory | None = None,
    ) -> None:
        """Map an existing file, or make one of ``create_size`` bytes of zeros (FileExistsError if it exists).

        Parameters: preallocate: reserve the disk space of a new file. Otherwise the caller reserves it before it writes
        there. least_size: bytes. A shorter file is read as if zeros followed. Open for writing, it is extended
        with zeros to this length, as in RocketMQ. tolerant: read zeros where the disk cannot read;
        ``buffer.lost_ranges`` lists these places. False: calls that read these bytes raise DiskReadError.
        model_directory: as for ``create_file``. held: the directory below which the file is found or made; None to use
        its path.
        """
        check_mode(mode, MODES[:2])
        self.path: StorePath = to_path(path) if mode == "r" else local_path(path)
        self.mode = mode
        copy = open_copy(self.path) if is_remote(self.path) else None
        if copy is not None:
            descriptor = copy
        elif create_size is not None:
            descriptor = create_file(local_path(path), model_directory=model_directory, held=held)
        else:
            access = os.O_RDONLY if mode == "r" else os.O_RDWR
            descriptor = open_path(local_path(path), access | os.O_NONBLOCK, held=held)
        self._descriptor = closing(self, descriptor)
        try:
            if create_size is not None:
                os.ftruncate(descriptor, create_size)  # at once: a killed process leaves no file of another length
                if preallocate:
                    allocate(descriptor, create_size)
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
            require_regular(self.path, status)
            size = max(status.st_size, least_size)
            if size == 0:
                raise CorruptFileError(self.path, 0, "file size", "the file is empty")
            if mode != "r" and size > status.st_size:
                allocate(descriptor, size, status.st_size)
            self.size_in_file = size if mode != "r" else status.st_size
            place = self.path if copy is None else None
            self._map = Mapping(
                descriptor,
                size,
                self.path,
                size_in_file=self.size_in_file,
                writable=mode != "r",
                place=place,
                tolerant=tolerant,
            )
        except BaseException:
            self._descriptor()
            if create_size is not None:
                unlink_path(local_path(path), held)
            raise
        self.identity = status.st_ino if copy is None else identity(self.path)
        self.buffer = Buffer(self._map, self.path, mode != "r")
        self.fd = descriptor if mode != "r" else -1
        if mode == "r":
            self._descriptor()  # the mapping does not need the descriptor

    @property
    def file_from_offset(self) -> int:
        """The offset of the file in its run, bytes, from its name; 0 if the name is no offset."""
        return int(self.path.name) if is_offset_name(self.path.name) else 0

    def select_mapped_buffer(self, pos: int, size: int) -> SelectMappedBufferResult | None:
        """Return ``size`` bytes at ``pos`` of the file, or None if the file does not have so many there.

        The view has zeros where the disk cannot read the file, or the file was cut. After using the view, call
        ``buffer.check_faults()``: it raises if that happened.
        Source: DefaultMappedFile.selectMappedBuffer, which also hides bytes that were not written yet.
        """
        view: memoryview = self.buffer.use(memoryview, self._map).toreadonly()
        if pos < 0 or size < 0 or pos > len(view) or size > len(view) - pos:
            return None
        view = view[pos : pos + size]
        return SelectMappedBufferResult(self.file_from_offset + pos, view, size, self)

    def advise(self, use: str, pos: int = 0, size: int | None = None) -> None:
        """Tell the system how bytes will be used: "random", "sequential" or "willneed". The system may ignore it."""
        option = getattr(mmap, ADVICE[use], None)
        start = pos - pos % mmap.PAGESIZE
        end = self.buffer.size if size is None else min(pos + size, self.buffer.size)
        if option is not None and start < end:
            self.buffer.use(self._map.madvise, option, start, end - start)

    def read_ahead(self, begins: np.ndarray, ends: np.ndarray) -> None:
        """Let the system begin to read many parts of the file.

        Parameters: begins, ends: int64[n], positions, bytes. Each begin is a multiple of the page size.
        """
        self.buffer.use(self._map.read_ahead, begins, ends)

    def allocate(self, begin: int, end: int) -> None:
        """Reserve disk space for the bytes from ``begin`` to before ``end``. Bytes that were written stay.

        Raises: OSError.
        """
        copy = self._copy()
        try:
            for first, last in data_ranges(self.path, begin, end):
                allocate(copy, first, begin)
                begin = last
            allocate(copy, end, begin)
        finally:
            os.close(copy)

    def allocate_holes(self) -> None:
        """Reserve disk space for the holes of a sparse file. Raises: OSError."""
        self.allocate(0, self.buffer.size)

    def view(self) -> memoryview:
        """Return the bytes. The mapping lives as long as the view, also after ``close``.

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
        """Return when all changed bytes, and the length of the file, are on the disk. Other threads run meanwhile."""
        if sys.platform == "darwin":
            self.buffer.use(self._map.flush)  # there, fsync does not write changes made through a mapping
        elif sys.platform == "linux":
            # Otherwise the kernel unmaps each changed page separately, and interrupts all processors each time.
            with contextlib.suppress(OSError):  # the pages are locked in memory
                self.buffer.use(self._map.madvise, mmap.MADV_DONTNEED)
        copy = self._copy()
        try:
            sync_bytes(copy)
        finally:
            os.close(copy)

    def check_file(self) -> None:
        """Raise StoreError if the file, which is open for writing, was removed, replaced or cut."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise replaced(self.path) from None
        if not os.path.samestat(found, self.buffer.use(os.fstat, self.fd)):
            raise replaced(self.path)
        if found.st_size != self.buffer.size:
            raise StoreError(
                f"{self.path}: has {found.st_size} bytes, but had {self.buffer.size} when it was opened: another "
                "process has changed it while it was written"
            )

    def _copy(self) -> int:
        """Return a duplicate descriptor, which stays open if another thread closes the file."""
        copy: int = self.buffer.use(os.dup, self.fd)
        return copy

    def close(self) -> None:
        """Wait for running calls, and unmap. A mapping that views still use is unmapped with the last view."""
        first = True
        try:
            first = self.buffer.close()
        finally:
            if first:
                with contextlib.suppress(BufferError):
                    self._map.close()
                self._descriptor()

    def __repr__(self) -> str:
        state = "closed" if self.buffer.closed else f"mode {self.mode!r}, {self.buffer.size:,} bytes"
        return f"<MappedFile {str(self.path)!r}, {state}>"


def replaced(path: StorePath) -> StoreError:
    """Return the error for a file that was removed or replaced while it was written."""
    return StoreError(f"{path}: was removed or replaced while it was written: another process is here")


def check_mode(mode: str, modes: Sequence[str] = MODES) -> None:
    """Raise ValueError for a mode that is not among ``modes``."""
    if mode not in modes:
        raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, modes))}")


def is_offset_name(name: str) -> bool:
    """Return whether a name is that of a file in a run: 20 digits whose number fits a long."""
    return len(name) == 20 and name.isascii() and name.isdecimal() and int(name) <= LONG_MAX

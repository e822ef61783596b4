"""FileRunWriter: writes a run of numbered files of one length, without a mapping."""

from __future__ import annotations

import contextlib
import os
import weakref
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any, ClassVar

from rocketstore.disk.create import create_directory, create_file
from rocketstore.disk.descriptors import closing
from rocketstore.disk.durable import sync
from rocketstore.disk.file_run_reader import FileRunReader
from rocketstore.disk.held_directory import HeldDirectory, exists, open_path, unlink_path
from rocketstore.disk.holes import data_ranges
from rocketstore.disk.mapped_file import replaced
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.storage import local_path
from rocketstore.errors import CorruptFileError, StoreClosedError, StoreError


class FileRunWriter(ABC):
    """Writes a run of sparse files that grows at its end. Each file is named by the offset of its first byte.

    At most one file is open at a time. Existing files are recovered before the first use. A full disk raises OSError.
    The call can then be repeated: bytes count as written only after they were written.
    Source: MappedFileQueue, DefaultMappedFile.
    """

    model_directory: ClassVar[str | None] = None  # as for ``create_file``: for the mode of the first file

    def __init__(
        self, directory: str | os.PathLike[str], mapped_file_size: int, held: HeldDirectory | None = None
    ) -> None:
        """Open nothing yet.

        Parameters: mapped_file_size: the length of every file, bytes. held: the directory below which the files are
        found and made, the root of a store; None to use their paths.
        """
        self.directory = local_path(directory)
        self.mapped_file_size = mapped_file_size
        self._held = held
        self._starts: list[int] = []
        self._end = 0
        self._recovered = False
        self._closed = False
        self._open_start, self._fd = -1, -1
        self._descriptor: weakref.finalize[..., FileRunWriter] = weakref.finalize(self, int)
        self._opened: dict[int, os.stat_result] = {}  # by start offset: the status of a file when it was first opened
        self._unflushed: set[int] = set()
        self._changed_directories: set[Path] = set()

    @property
    def closed(self) -> bool:
        return self._closed

    def load(self) -> None:
        """List the files, and treat all as full until ``recover`` finds the end. Delete an empty last file.

        Raises: CorruptFileError for a file of another length. Source: MappedFileQueue.load.
        """
        self._require_open()
        try:
            files = FileRunReader([self.directory]).files
        except FileNotFoundError:
            files = []
        if files and files[-1].size == 0:  # a crash came before the file got its length
            unlink_path(self._path(files.pop().file_from_offset), self._held)
            self._changed_directories.add(self.directory)
        for file in files:
            if file.size != self.mapped_file_size or file.file_from_offset % self.mapped_file_size:
                reason = f"{file.size} bytes, but files of {self.mapped_file_size} are written: check the configuration"
                raise CorruptFileError(file.path, file.size, "file size", reason)
        self._starts = [file.file_from_offset for file in files]
        self._end = files[-1].end_offset if files else 0
        self._recovered = True

    def recover(self, *, zero: bool = False) -> None:
        """Find the end as RocketMQ does, and delete the files behind it.

        Parameters: zero: also overwrite the bytes behind the end in the last file. Otherwise old units there would be
        valid again as soon as new units replace the invalid unit before them.
        Raises: CorruptFileError for a file of another length.
        Source: ConsumeQueue.recover, BatchConsumeQueue.recover, ConsumeQueueExt.recover.
        """
        self.load()
        self._recovered = False
        self._recover(zero)
        if self._held is not None:
            self._held.require_in_place()  # the directory was listed by its path
        self._recovered = True

    @abstractmethod
    def _recover(self, zero: bool) -> None: ...

    def flush(self) -> None:
        """Return when all written bytes, and the names of all created and deleted files, are on the disk.

        Another thread may write meanwhile. Raises: StoreError if a written file is missing; OSError. The next call
        retries the files that are not on the disk then.
        """
        self._require_open()
        for start in sorted(self._unflushed):
            try:
                _sync(self._path(start), self._unflushed, start, self._held, self._opened.get(start))
            except (FileNotFoundError, StoreError):
                if start in self._unflushed:  # otherwise this object deleted it meanwhile
                    raise replaced(self._path(start)) from None
        for directory in sorted(self._changed_directories):
            _sync(directory, self._changed_directories, directory, self._held)

    def release(self) -> None:
        """Close the descriptor until it is needed again. A store may have more queues than descriptors."""
        self._open_start = -1
        self._descriptor()

    def close(self) -> None:
        """Close without a flush. Later calls raise StoreClosedError."""
        self._closed = True
        self.release()

    def destroy(self) -> None:
        """Delete all files, and the directory if nothing else is in it. Source: MappedFileQueue.destroy."""
        self._require_open()
        if not self._recovered:
            self.load()
        self._delete(self._starts[::-1])
        self._end, self._recovered = 0, True
        with contextlib.suppress(OSError):  # the directory is missing or not empty
            self.directory.rmdir()
            self._changed_directories = {self.directory.parent}

    # ---- files ---------------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.directory} is closed")

    def _require_recovered(self) -> None:
        self._require_open()
        if not self._recovered:
            self.recover()

    def _path(self, start: int) -> Path:
        return self.directory / f"{start:020}"

    def _open(self, start: int) -> int:
        if start != self._open_start:
            self.release()
            try:
                self._keep(open_path(self._path(start), os.O_RDWR, held=self._held), start)
            except FileNotFoundError:
                raise replaced(self._path(start)) from None
            status = os.fstat(self._fd)
            if not os.path.samestat(self._opened.setdefault(start, status), status):
                self.release()
                raise replaced(self._path(start))
        return self._fd

    def _keep(self, fd: int, start: int) -> None:
        self._fd, self._open_start, self._descriptor = fd, start, closing(self, fd)

    def _create(self, start: int) -> None:
        self.release()
        if self._held is not None:
            self._held.check()
        made = self._missing_directories()
        for path in reversed(made):
            with contextlib.suppress(FileExistsError):  # another queue of this topic has made it just now
                create_directory(path, self._held)
        self._changed_directories.update([self.directory, *(path.parent for path in made)])
        path, end = self._path(start), self._end
        try:
            self._keep(create_file(path, model_directory=self.model_directory, held=self._held), start)
            os.ftruncate(self._fd, self.mapped_file_size)
            self._opened[start] = os.fstat(self._fd)
            self._end = start
            self._unflushed.add(start)
            self._starts.append(start)
        except FileExistsError:
            raise
        except BaseException:  # Ctrl-C too: the next call makes the file again
            self._starts = [other for other in self._starts if other != start]
            self._unflushed.discard(start)
            self._end = end
            self.release()
            unlink_path(path, self._held, missing_ok=True)
            raise

    def _missing_directories(self) -> list[Path]:
        """Return the directories that must be made for a file, the innermost first. A held directory is not made."""
        held = self._held
        places = [path for path in (self.directory, *self.directory.parents) if held is None or held.has(path)]
        return [path for path in places if (held is None or path != held.path) and not exists(path, held)]

    def _last_file(self, first_start: int = 0) -> int:
        """Return the start of the last file that has room. Make a file if all are full. Source: getLastMappedFile."""
        if not self._starts:
            self._create(first_start)
        elif self._end == self._starts[-1] + self.mapped_file_size:
            self._create(self._end)
        return self._starts[-1]

    def _delete(self, starts: list[int]) -> None:
        for start in starts:
            if start == self._open_start:
                self.release()
            self._unflushed.discard(start)
            try:
                unlink_path(self._path(start), self._held, missing_ok=True)
            finally:
                if not exists(self._path(start), self._held):  # Ctrl-C may come after the unlink
                    del self._starts[bisect_left(self._starts, start)]
                    self._opened.pop(start, None)
            self._changed_directories.add(self.directory)

    def _cut(self, end: int, *, zero: bool) -> None:
        """End the run at an offset: delete the files behind it, the last file first.

        Parameters: zero: also overwrite the bytes behind the end. Source: MappedFileQueue.truncateDirtyFiles.
        """
        self._delete([start for start in reversed(self._starts) if start > end])
        self._end = 0
        if not self._starts:
            return
        last = self._starts[-1]
        self._end = min(end, last + self.mapped_file_size)
        if zero:
            for begin, stop in data_ranges(self._path(last), self._end - last, self.mapped_file_size):
                if self._read(last + begin, stop - begin).strip(b"\0"):
                    self._write(bytes(stop - begin), last + begin, last)

    # ---- bytes ---------------------------------------------------------------------------------------------

    def _read(self, position: int, size: int) -> bytes:
        """Read bytes of one file."""
        start = self._starts[bisect_right(self._starts, position) - 1]
        data = read_at(self._open(start), size, position - start, self._path(start))
        if len(data) < size:
            raise CorruptFileError(self._path(start), position - start, "file size", "the file was cut while open")
        return data

    def _write(self, data: bytes, position: int, start: int) -> None:
        """Write all bytes at a position of the file that begins at ``start``."""
        fd = self._open(start)
        written = os.pwrite(fd, data, position - start)
        while written < len(data):
            written += os.pwrite(fd, data[written:], position - start + written)
        self._unflushed.add(start)  # only now: a flush before the last write would remove the mark


def _sync(
    path: Path,
    waiting: set[Any],
    item: object,
    held: HeldDirectory | None,
    opened: os.stat_result | None = None,
) -> None:
    """Bring a file or directory to the disk. Use a new descriptor: another thread may close that of the run."""
    fd = open_path(path, os.O_RDONLY, held=held)
    try:
        if opened is not None and not os.path.samestat(os.fstat(fd), opened):
            raise replaced(path)
        waiting.discard(item)
        sync(fd)
    except BaseException:
        waiting.add(item)
        raise
    finally:
        os.close(fd)

"""LogFileWriter: the files at the end of a log: the file that is written, the next file, and the flush of both."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from pathlib import Path

from rocketstore.disk.allocate_service import AllocateMappedFileService
from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.durable import make_directory, sync_path
from rocketstore.disk.file_system import is_in_memory
from rocketstore.disk.held_directory import HeldDirectory, exists, stat_path, unlink_path
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.disk.reservation import Reservation
from rocketstore.disk.storage import local_path
from rocketstore.errors import StoreError
from rocketstore.kernels.appender import Appender
from rocketstore.root_places import LOG_DIRECTORY


class LogFileWriter:
    """Writes the files of a log in turn, and makes the next file before it is needed.

    Attributes: flushed_where: the log is on the disk before this physical offset. last_flushed: physical offset and
    store time of the last record on the disk; None before the first flush. busy: the threads that are in a call of the
    writer. held: the directories, by path.
    Source: MappedFileQueue.getLastMappedFile, AllocateMappedFileService, MultiPathMappedFileQueue.
    """

    def __init__(
        self,
        directories: Iterable[Path],
        read_only: Iterable[Path],
        mapped_file_size: int,
        phy_offset: int,
        appender: Appender,
        *,
        allocates_ahead: bool,
        preallocate: bool = True,
        busy: BusyThreads | None = None,
        root: HeldDirectory | None = None,
    ) -> None:
        """Make missing directories. Open the file that has a physical offset, bytes, if it exists.

        Parameters: as ``LogWriter``. allocates_ahead, preallocate: as ``allocate_file_ahead`` and ``preallocate`` of
        the configuration.
        """
        # Guards the current file; its holder never blocks. The lock is reentrant because a signal handler may interrupt
        # the holder and ask where the log ends.
        self._switch = threading.RLock()
        self.directories = sorted(directories, key=str)  # RocketMQ sorts by string; paths sort by components
        for directory in self.directories:
            make_directory(directory)
        existing = filter(Path.is_dir, [*self.directories, *read_only])
        self.held = {directory: HeldDirectory(directory) for directory in existing}
        self._places = [*([] if root is None else [root]), *self.held.values()]  # directories that must not be moved
        self.busy = busy or BusyThreads(self.directories[0])
        self.mapped_file_size = mapped_file_size
        self.flushed_where = phy_offset
        self.last_flushed: tuple[int, int] | None = None
        self._appender = appender
        self._preallocate = preallocate
        self._flush_lock = threading.Lock()
        self._flush_error: Exception | None = None  # kept: after a failed fsync, the kernel marks the pages as clean
        self._files: dict[int, MappedFile] = {}  # by their first offset: the unflushed files and the current file
        self._ahead = AllocateMappedFileService(self._open, self.busy) if allocates_ahead else None
        self._first_start = phy_offset - phy_offset % self.mapped_file_size
        try:
            for held in self._places:
                held.require_in_place()  # the directories were opened by their paths
            if self._find(self._first_start) is not None:
                self._append_to(self._open(self._first_start), phy_offset - self._first_start)
        except BaseException:
            self.close()
            raise

    @property
    def phy_offset(self) -> int:
        """The physical offset of the next record, bytes."""
        with self._switch:
            return self._end()

    def _end(self) -> int:
        return self._appender.phy_offset if self._file is not None else self._first_start

    @property
    def _file(self) -> MappedFile | None:
        return self._files.get(self._appender.from_offset)

    @property
    def _next_start(self) -> int:
        return self._first_start if self._file is None else self._appender.from_offset + self.mapped_file_size

    # ---- files ---------------------------------------------------------------------------------------------

    def roll(self) -> None:
        """Append to the next file from now on. Raises: OSError if it cannot be made; the log is then unchanged."""
        start = self._next_start
        file = self._ahead.take(start) if self._ahead is not None else None
        self._append_to(file or self._open(start), 0)

    def _append_to(self, file: MappedFile, position: int) -> None:
        """Append to another file from now on. An interrupt comes before ``set_file`` or after it."""
        start = file.file_from_offset
        whole = self._takes_all(local_path(file.path).parent)
        reservation = Reservation(file.allocate, file.buffer.size, position, is_whole=whole)
        reservation.extend(min(position + 1, file.buffer.size))
        with self._switch:
            self._files[start] = file
            self._appender.set_file(file.buffer, start, position, file.fd, reservation.extend)
        if self._ahead is not None:
            self._ahead.ask(start + self.mapped_file_size)

    def _takes_all(self, directory: Path) -> bool:
        """Return whether new files of a directory take all their disk space at once."""
        return self._preallocate or is_in_memory(directory)

    def _find(self, start: int) -> Path | None:
        paths = ((directory / f"{start:020}", held) for directory, held in self.held.items())
        return next((path for path, held in paths if exists(path, held)), None)

    def _open(self, start: int) -> MappedFile:
        """Open the file that begins at an offset, or make it in the directory whose turn it is."""
        self._check_places()
        path = self._find(start)
        held = None if path is None else self.held[path.parent]
        if path is not None and path.parent in self.directories and stat_path(path, held).st_size == 0:
            unlink_path(path, held)  # an interrupt came before the length of the new file was set
            path = None
        if path is not None:
            file = MappedFile(path, "r+", held=held)  # the process that made it may not have synced it
        else:
            directory = self.directories[start // self.mapped_file_size % len(self.directories)]
            path, held = directory / f"{start:020}", self.held[directory]
            size = self.mapped_file_size
            whole = self._takes_all(path.parent)
            file = MappedFile(path, "r+", create_size=size, preallocate=whole, model_directory=LOG_DIRECTORY, held=held)
        file.flush()  # before the directory: after a crash, the log ignores a file of a wrong length
        sync_path(path.parent, held)
        return file

    def _check_places(self) -> None:
        """Raise StoreError if the root or a directory of the log was moved, removed or replaced; once a second."""
        for held in self._places:
            held.check()

    # ---- flush ---------------------------------------------------------------------------------------------

    def flush(self, end: int | None = None) -> None:
        """Write the log to the disk, at least up to an offset; None for all of it.

        Raises: OSError: unflushed messages may be lost, even if a later flush succeeds; StoreError if a file is gone.
        """
        with self._flush_lock:
            if self._flush_error is not None:
                raise StoreError(f"{self.directories[0]}: a flush has failed: what it was to write may be lost") from (
                    self._flush_error
                )
            if end is not None and end <= self.flushed_where:
                return
            try:
                self._flush()
            except (OSError, StoreError) as error:
                self._flush_error = error
                raise

    def _flush(self) -> None:
        self.check_file()
        with self._switch:
            end, files, last = self._end(), dict(self._files), self._appender.from_offset
            record = self._appender.last_phy_offset, self._appender.last_store_timestamp
        for file in files.values():
            file.flush()
        with self._switch:
            for start in files:
                if start < last:
                    del self._files[start]
            self.flushed_where = end
            self.last_flushed = record if record[0] >= 0 else None

    def check_file(self) -> None:
        """Raise StoreError if the file that is written was removed, replaced or cut, or its store was moved."""
        file = self._file
        if file is not None:
            file.check_file()
        self._check_places()

    def close(self) -> None:
        """Unmap the files without a flush, and delete the file that was made ahead."""
        if self._ahead is not None:
            self._ahead.stop()
            file, self._ahead = self._ahead.take(self._next_start), None  # another writer may use its name later
            if file is not None:
                file.close()
                with contextlib.suppress(OSError):
                    path = local_path(file.path)
                    unlink_path(path, self.held[path.parent])
        for file in self._files.values():
            file.close()
        for held in self.held.values():
            held.close()

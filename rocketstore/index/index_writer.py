"""IndexWriter: append items to the newest index file of a directory, create the next one, flush full files."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.durable import sync_path
from rocketstore.disk.held_directory import HeldDirectory, unlink_path
from rocketstore.disk.storage import local_path
from rocketstore.disk.work_threads import Task, WorkThreads
from rocketstore.errors import NestedCallError, StoreError
from rocketstore.index.geometry import default_geometry
from rocketstore.index.index_directory import IndexDirectory, index_file_name
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_file_list import ListedIndexFile
from rocketstore.index.index_header import IndexHeader
from rocketstore.index.index_space import IndexSpace
from rocketstore.logger import logger
from rocketstore.state.checkpoint import StoreCheckpoint

CREATE_ATTEMPTS = 3
CREATE_RETRY_SECONDS = 1.0
MAX_UNFLUSHED = 8  # full files that are being flushed; each of them is open


class IndexWriter:
    """Appends items to the index files of a directory. A thread flushes full files.

    Attributes: is_replaced: a file open for writing was found removed or replaced, and an error was raised. held: the
    directory.
    """

    def __init__(self, files: IndexDirectory, checkpoint: StoreCheckpoint, busy: Sequence[BusyThreads]) -> None:
        """Parameters: busy: of the writers that wait for the thread that flushes."""
        self.is_replaced = False
        self._files, self._checkpoint, self._busy = files, checkpoint, busy
        self.held = HeldDirectory(local_path(files.path))
        self._space: IndexSpace | None = None  # of the newest file
        self._flushes: list[Task[None]] = []
        self._flushed_header: IndexHeader | None = None  # of the newest file
        self._flusher = WorkThreads(1, "rocketstore-index-flush")
        # Ends the thread of a writer that nobody closed, also at Python's exit.
        self._end_flusher = weakref.finalize(self, self._flusher.end, cancels=False)

    def put(self, hashes: np.ndarray, offsets: np.ndarray, times: np.ndarray, *, messages_after: bool) -> None:
        """Append items to the newest file, and to new files when it is full.

        Parameters: hashes, int32[n]; offsets, int64[n]; times, epoch ms, int64[n]. messages_after: messages without
        items follow.
        """
        done = self._put_into(self._last_file(), hashes, offsets, times)
        while done < len(hashes):
            done += self._put_into(self._last_file(), hashes[done:], offsets[done:], times[done:])
        if messages_after:
            # RocketMQ creates the next file at the next message, even if this message has no key.
            self._last_file()

    def _put_into(self, file: IndexFile, hashes: np.ndarray, offsets: np.ndarray, times: np.ndarray) -> int:
        """Append items to a file, as many as it has room for, and return their number."""
        if not self._files.preallocate:
            if self._space is None or self._space.file is not file:
                self._space = IndexSpace(file)
            self._space.reserve(hashes)
        return int(file.put_key_hashes(hashes, offsets, times))

    def _last_file(self) -> IndexFile:
        """Return the file to append to, a new one if the newest is full. Source: getAndCreateLastIndexFile."""
        last = self._files.newest
        if last is not None and not last.is_write_full:
            return last
        if len(self._flushes) >= MAX_UNFLUSHED:
            self._flushes[-MAX_UNFLUSHED].wait()
        file = self._create_file(last)
        files = self._files
        files.live.add(file)
        files.listed.append(ListedIndexFile(file.path, file.identity, file))
        files.written = [listed for listed in files.written if listed.file is not None] + [files.listed[-1]]
        if last is not None:
            self._flush_soon(files.listed[-2], last)
        return file

    def _flush_soon(self, listed: ListedIndexFile, file: IndexFile) -> None:
        """Flush a full file in another thread, or in this one if no thread can be started."""
        before = self._flushes[-1:]
        try:
            self._flushes.append(self._flusher.submit(self._flush_full, listed, file, before))
        except NestedCallError:  # of a signal handler, which runs here
            raise
        except RuntimeError:
            self._flush_full(listed, file, before)

    def _create_file(self, last: IndexFile | None) -> IndexFile:
        self.held.check()
        slots, items = self._files.geometry or default_geometry([])
        end = last.header if last is not None else None
        for attempt in range(1, CREATE_ATTEMPTS + 1):
            path = self.held.path / index_file_name(datetime.now(), last.path.name if last else "")
            try:
                file = IndexFile.create(
                    path,
                    hash_slot_num=slots,
                    index_num=items,
                    end_phy_offset=end.end_phy_offset if end else 0,
                    end_timestamp=end.end_timestamp if end else 0,
                    compat=self._files.compat,
                    _held=self.held,
                    _preallocate=self._files.preallocate,
                )
                try:
                    sync_path(self.held.path, self.held)
                except OSError:
                    file.close()
                    unlink_path(path, self.held)
                    raise
                return file
            except OSError as error:
                if attempt == CREATE_ATTEMPTS:
                    raise
                logger.warning("%s: not created (%s), attempt %d of %d", path, error, attempt, CREATE_ATTEMPTS)
                time.sleep(CREATE_RETRY_SECONDS)
        raise AssertionError("unreachable")

    def _flush_full(self, listed: ListedIndexFile, file: IndexFile, before: list[Task[None]]) -> None:
        """Flush a full file after the files before it, then the checkpoint. Source: IndexService.flush."""
        with contextlib.ExitStack() as stack:
            for busy in self._busy:
                stack.enter_context(busy.during("the flush of an index file"))
            for flush in before:
                flush.result()
            end_timestamp = file.header.end_timestamp
            self._flush_file(listed, file)
            if end_timestamp > 0:
                self._checkpoint.index_msg_timestamp = end_timestamp
                self._checkpoint.flush()

    def _flush_file(self, listed: ListedIndexFile, file: IndexFile) -> None:
        """Flush a full file. It stays open for writing until then."""
        self.check_file(file)
        file.flush()
        if listed.file is file:
            listed.file = None

    def check_file(self, file: IndexFile) -> None:
        """Raise StoreError if a file open for writing was removed or replaced."""
        try:
            file.check_file()
        except StoreError:
            self.is_replaced = True
            raise

    def flush(self) -> None:
        """Wait for full files, then flush the newest file if it changed."""
        self.await_flushes()
        files = self._files
        for listed in files.written:
            file = listed.file
            if file is not None and file.mode == "r+" and listed is not files.listed[-1]:
                self._flush_file(listed, file)
        newest = files.newest
        if newest is not None:
            newest._check_file_size()
            self.check_file(newest)
            header = newest.header  # every put changes it
            if header != self._flushed_header:
                newest.flush()
                self._flushed_header = header

    def await_flushes(self) -> None:
        """Wait until the full files are on the disk. Raise the first error of a flush."""
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush.result()

    def shutdown(self) -> None:
        """End the thread that flushes, and close the directory."""
        try:
            self._flusher.end(cancels=False)
            # This method calls ``end`` itself, because Python ignores Ctrl-C in a finalizer. After Ctrl-C in ``end``,
            # the finalizer is still there, and ends the thread later.
            self._end_flusher.detach()
        finally:
            self.held.close()

"""IndexService: the set of index files of a store, from the oldest to the one being filled."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from rocketstore.config import DEFAULT_COMPAT, DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM, Compat
from rocketstore.disk.durable import make_directory, sync_path
from rocketstore.disk.mapped_file import check_mode
from rocketstore.disk.mapped_file_queue import SETTLED
from rocketstore.disk.storage import held_lists, identity, is_remote, local_path, scandir, to_path
from rocketstore.errors import CorruptFileError, StoreClosedError, StoreError
from rocketstore.index.index_file import IndexFile, IndexHeader, default_geometry, given_geometry, shown_geometry
from rocketstore.index.index_file_list import IndexFileList, ListedIndexFile, max_open_files
from rocketstore.kernels.columns import checked_offsets, int32_column, int64_column, require_int64
from rocketstore.kernels.index_requests import index_items
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.phy_offsets import PhyOffsets, join_newest_first
from rocketstore.limits import LONG_MAX
from rocketstore.messages.message_batch import MessageBatch, values_of
from rocketstore.state.checkpoint import StoreCheckpoint

__all__ = ["IndexService", "QueryOffsetResult", "index_file_name", "index_key_prefix", "index_paths", "open_index"]

logger = logging.getLogger("rocketstore")

MAX_MSGS_NUM_BATCH = 64
CREATE_ATTEMPTS = 3
CREATE_RETRY_SECONDS = 1.0
MAX_UNFLUSHED = 8  # full files on their way to the disk, each of which is open till then
REQUIRED = ("topic", "phy_offset", "store_timestamp")
OPTIONAL = ("uniq_key", "keys", "tags", "sys_flag")
INDEX_TYPES = (None, "K", "U", "T")


class QueryOffsetResult(NamedTuple):
    """What ``IndexService.query_offset`` found: physical offsets, and where the newest index file ends.

    Offsets are bytes, the time is epoch ms. Source: QueryOffsetResult.
    """

    phy_offsets: list[int]
    index_last_update_timestamp: int
    index_last_update_phy_offset: int


class IndexService:
    """The index files of one directory. Made by ``open``; a context manager.

    Attributes: ``directory``; ``mode``; ``compat``; ``checkpoint``; ``rejected``, the files that a broker
    would delete at this start (open for adding, they are); ``damaged``, the error of each file that is passed over.
    Source: org.apache.rocketmq.store.index.IndexService.
    """

    def __init__(
        self,
        directory: Path,
        mode: str,
        geometry: tuple[int, int] | None,
        compat: str,
        checkpoint: StoreCheckpoint,
        max_msgs_num_batch: int,
        passes_over_damage: bool = False,
    ) -> None:
        self.directory = directory
        self.mode = mode
        self.compat = compat
        self.checkpoint = checkpoint
        self.max_msgs_num_batch = max_msgs_num_batch
        self.rejected: list[Path] = []
        self.damaged: dict[object, CorruptFileError] = {}  # exchanged, and never changed
        self._passes_over_damage = passes_over_damage
        self._geometry = geometry
        self._files: list[ListedIndexFile] = []
        self._opened: deque[ListedIndexFile] = deque()  # for reading, in this order
        self._written: list[ListedIndexFile] = []  # open for writing: the newest, and full ones that are being flushed
        self._max_open = max_open_files()
        self._live: weakref.WeakSet[IndexFile] = weakref.WeakSet()
        self._flushes: list[Future[None]] = []
        self._flushed_header: IndexHeader | None = None  # of the newest file
        self._flusher = ThreadPoolExecutor(1, "rocketstore-index-flush") if mode != "r" else None
        self._is_replaced = False  # whether a file that is written is, and a caller knows it
        self._closed = False

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        mode: str = "r",
        *,
        hash_slot_num: int | None = None,
        index_num: int | None = None,
        compat: str = DEFAULT_COMPAT,
        last_exit_ok: bool = True,
        checkpoint: StoreCheckpoint | None = None,
        max_msgs_num_batch: int = MAX_MSGS_NUM_BATCH,
        _passes_over_damage: bool = False,
    ) -> Self:
        """Open the index files of a directory, in the order of their names.

        Parameters: mode: "r" reads; "r+" also adds; "a" also makes the directory. hash_slot_num, index_num: the
        geometry of all files, else as ``IndexFile.open`` finds it, and RocketMQ's default for a first file. compat:
        the RocketMQ release to write as. last_exit_ok: False after a crash: files that end after
        ``checkpoint.index_msg_timestamp`` are then not to be trusted, and deleted unless mode is "r". checkpoint: moved
        on as files fill.
        max_msgs_num_batch: the most offsets that a query of a key gives.
        Raises: FileNotFoundError; CorruptFileError, ValueError for a file that is no index of the geometry;
        CorruptFileError to add behind a name that is no time; ValueError for ``last_exit_ok=False`` without checkpoint.
        Source: IndexService.load.
        """
        check_mode(mode)
        if not last_exit_ok and checkpoint is None:
            raise ValueError("last_exit_ok=False: a checkpoint is needed, or every file would be taken for a bad one")
        geometry = given_geometry(hash_slot_num, index_num)
        Compat.of(compat)
        directory = to_path(directory) if mode == "r" else local_path(directory)
        if mode == "a":
            make_directory(directory)
        made = checkpoint or StoreCheckpoint()
        self = cls(directory, mode, geometry, compat, made, max_msgs_num_batch, _passes_over_damage)
        try:
            with held_lists(directory):
                self._load(last_exit_ok)
        except BaseException:
            self._abandon()
            raise
        return self

    def _load(self, last_exit_ok: bool) -> None:
        damaged: dict[object, CorruptFileError] = {}
        paths = self._find_geometry(self._paths(), damaged)
        expired = (FileNotFoundError,) if self.mode == "r" else ()  # a broker deletes the oldest meanwhile
        kept = []
        for path in paths:
            with contextlib.suppress(*expired):
                if not last_exit_ok and self._is_rejected(path):
                    self.rejected.append(path)
                    if self.mode != "r":
                        path.unlink()
                        continue
                kept.append(path)
        if self.mode != "r" and kept:
            require_successor(kept[-1])
        for path in kept:
            with contextlib.suppress(*expired), self._passing_over(damaged):
                listed = self._list_to_add(path, path == kept[-1]) if self.mode != "r" else self._list(path)
                self._files.append(listed)
                self._written += [listed] * (self.mode != "r" and listed.file is not None)
        if damaged and not self._files:
            raise next(iter(damaged.values()))
        self.damaged = damaged

    @contextlib.contextmanager
    def _passing_over(self, damaged: dict[object, CorruptFileError]) -> Iterator[None]:
        """Note a damaged file instead of raising, where the others are to be read without it."""
        try:
            yield
        except CorruptFileError as error:
            if not self._passes_over_damage or error.path in damaged:  # which was passed over, and in vain
                raise
            damaged[error.path] = error.with_traceback(None)  # its frames would keep the file mapped

    def _find_geometry(self, paths: list[Path], damaged: dict[object, CorruptFileError]) -> list[Path]:
        """Check or find the geometry. Returns: the files, without those that are passed over."""
        self._check_geometry(paths, damaged)
        self._infer_geometry([path for path in paths if path not in damaged], damaged)
        return [path for path in paths if path not in damaged]

    def _paths(self) -> list[Path]:
        paths = index_paths(self.directory)
        if self.mode == "r" and paths and paths[-1].stat().st_size == 0:
            paths.pop()  # it is being made, or was when the writer was killed
        return paths

    def _check_geometry(self, paths: list[Path], damaged: dict[object, CorruptFileError]) -> None:
        """Refuse a geometry that is given if the newest items are found with another alone."""
        slots, items = self._geometry or (None, None)
        for path in reversed(paths if slots else ()):
            with (
                self._passing_over(damaged),
                contextlib.suppress(FileNotFoundError),  # it has expired just now
                IndexFile.open(path, hash_slot_num=slots, index_num=items) as file,
            ):
                if len(file) > 0:
                    return

    def _infer_geometry(self, paths: list[Path], damaged: dict[object, CorruptFileError]) -> None:
        """Find the geometry, unless it is known. A reader without files has none until there is one."""
        for_writing = self.mode != "r"
        for path in paths if self._geometry is None else ():
            with self._passing_over(damaged):
                self._geometry = shown_geometry(path, for_writing=for_writing, is_newest=path == paths[-1])
            if self._geometry is not None:
                return
        if self._geometry is None:
            sound = [path for path in paths if path not in damaged]
            if sound or for_writing:
                self._geometry = default_geometry(sound)

    def _list(self, path: Path) -> ListedIndexFile:
        listed = ListedIndexFile(path)
        self._open(listed)
        return listed

    def _list_to_add(self, path: Path, is_newest: bool) -> ListedIndexFile:
        """Undo a torn put; the newest file stays open, and what an earlier writer left of the others is flushed."""
        file = self._open_file(path, "r+")
        if not is_newest:
            file.close()
        return ListedIndexFile(path, file.identity, file if is_newest else None)

    def refresh(self) -> None:
        """List the directory again, in mode "r": a broker adds files and deletes the oldest."""
        self._require_open()
        with held_lists(self.directory):
            self._list_again()

    def _list_again(self) -> None:
        known = {listed.path.name: listed for listed in self._files}
        damaged: dict[object, CorruptFileError] = {}
        paths = self._paths()
        if self._geometry is None:
            paths = self._find_geometry(paths, damaged)
        files = []
        for path in paths:
            try:
                with contextlib.nullcontext() if path == paths[-1] else self._passing_over(damaged):
                    listed = known.get(path.name)
                    if listed is None or listed.identity != identity(path):
                        listed = self._list(path)
                    files.append(listed)
            except FileNotFoundError:
                continue  # it has expired just now
            except CorruptFileError:
                if path != paths[-1]:
                    raise  # the newest is being made
        for gone in set(self._files).difference(files):
            self._forget(gone)
        self.damaged = damaged
        self._files = files

    def _is_rejected(self, path: Path) -> bool:
        """Whether items of the file may have been lost in a crash. Source: IndexService.load."""
        with self._open_file(path, "r") as file:
            return file.header.end_timestamp > self.checkpoint.index_msg_timestamp

    def _open(self, listed: ListedIndexFile) -> IndexFile:
        """Give a file, opened for reading if it is not open. Raises: FileNotFoundError, if it has expired."""
        file = listed.file
        if file is None:
            if self._closed:
                raise StoreClosedError(f"{self.directory} is closed")
            file = self._open_file(listed.path, "r")
            listed.identity, listed.file = file.identity, file
            self._opened.append(listed)
            while len(self._opened) > self._max_open:
                self._opened.popleft().file = None  # closed when its last user lets it go
        return file

    def _open_file(self, path: Path, mode: str) -> IndexFile:
        slots, items = self._geometry or (None, None)
        file = IndexFile.open(path, mode, hash_slot_num=slots, index_num=items, compat=self.compat, _is_known=True)
        self._live.add(file)
        return file

    def _forget(self, listed: ListedIndexFile) -> None:
        """Let a deleted file go, which is not closed: a query may be in it."""
        with contextlib.suppress(ValueError):  # it is not open
            self._opened.remove(listed)
        self._written = [other for other in self._written if other is not listed]

    @property
    def files(self) -> IndexFileList:
        """The index files, oldest first; of many, each is opened when it is asked for."""
        return IndexFileList(list(self._files), self._open)

    @property
    def _newest(self) -> IndexFile | None:
        return self._open(self._files[-1]) if self._files else None

    def _end_phy_offset(self) -> int:
        newest = self._newest
        return newest.header.end_phy_offset if newest is not None else 0

    # ---- build ---------------------------------------------------------------------------------------------

    def build_index(self, request: Any) -> None:
        """Index one dispatched message.

        Parameters: request: an object with ``topic``, ``uniq_key``, ``keys``, ``tags`` (str or None), ``phy_offset``
        (bytes), ``store_timestamp`` (epoch ms) and ``sys_flag``.
        Raises: as ``build_indexes``.
        Source: IndexService.buildIndex.
        """
        self.build_indexes({name: [getattr(request, name)] for name in REQUIRED + OPTIONAL})

    def build_indexes(self, requests: MessageBatch | Mapping[str, Any] | Any) -> int:
        """Index dispatched messages, in order.

        Parameters
        ----------
        requests : a MessageBatch, or columns by name, as a dict of arrays or an Arrow, pandas or polars table:
            ``topic``; ``phy_offset``, bytes; ``store_timestamp``, epoch ms; and as far as there are any ``uniq_key``,
            ``keys`` (the KEYS property), ``tags``, null where a message has none, and ``sys_flag``.

        Returns
        -------
        The number of items put. A message before the end of the newest file, and a rolled-back one, gives none.

        Raises
        ------
        ValueError, TypeError : a bad row or length; nothing was written.
        OSError : a new file could not be made, in three attempts.

        Source: IndexService.buildIndex: unique key, then each key, then from 5.4.0 the tags.
        """
        self._require_open(writing=True)
        self.check_file_sizes()
        requests = _columns_of(requests) if isinstance(requests, MessageBatch) else requests
        columns = {name: _column(requests, name) for name in REQUIRED + OPTIONAL}
        n = len(columns["phy_offset"])
        offsets = checked_offsets(columns["phy_offset"], n)
        times = int64_column(columns["store_timestamp"], "store_timestamp", n)
        flags = np.zeros(n, np.int64) if columns["sys_flag"] is None else columns["sys_flag"]
        topic = [columns["topic"]] * n if isinstance(columns["topic"], str) else columns["topic"]
        items = index_items(
            topic, columns["uniq_key"], columns["keys"], columns["tags"], offsets,
            int32_column(flags, "sys_flag", n),
            self._end_phy_offset(),
            Compat.of(self.compat).indexes_tags,
        )
        if n:
            self._put(items.key_hashes, offsets[items.rows], times[items.rows], _messages_after(items.rows, n))
        return len(items.rows)

    def build_items(
        self, key_hashes: np.ndarray, phy_offsets: np.ndarray, store_timestamps: np.ndarray, last_phy_offset: int
    ) -> None:
        """Put the items of dispatched messages, int32[n], int64[n], int64[n], as IndexService.buildIndex makes them.

        Parameters: last_phy_offset: of the last of these messages, which may have no item. Raises: OSError.
        """
        self._require_open(writing=True)
        self.check_file_sizes()
        # What is before the end of the newest file is there already, or says another offset than it has.
        ends = np.maximum.accumulate(phy_offsets)
        is_new = phy_offsets == (np.maximum(ends, self._end_phy_offset()) if self._files else ends)
        hashes, offsets, times = (
            np.ascontiguousarray(column[is_new]) for column in (key_hashes, phy_offsets, store_timestamps)
        )
        self._put(hashes, offsets, times, not len(phy_offsets) or int(phy_offsets[-1]) < last_phy_offset)

    def _put(self, hashes: np.ndarray, offsets: np.ndarray, times: np.ndarray, messages_after: bool) -> None:
        """Put items into the newest file and into those that follow as it fills."""
        file = self._last_file()
        done = file.put_key_hashes(hashes, offsets, times)
        while done < len(hashes):
            file = self._last_file()
            done += file.put_key_hashes(hashes[done:], offsets[done:], times[done:])
        if messages_after:
            # The next file is opened by the next message, whether it has a key or not.
            self._last_file()

    def _last_file(self) -> IndexFile:
        """The file being filled; a new one when there is none or it is full. Source: getAndCreateLastIndexFile."""
        last = self._newest
        if last is not None and not last.is_write_full:
            return last
        if len(self._flushes) >= MAX_UNFLUSHED:
            self._flushes[-MAX_UNFLUSHED].exception()
        file = self._create_file(last)
        self._live.add(file)
        self._files.append(ListedIndexFile(file.path, file.identity, file))
        self._written = [listed for listed in self._written if listed.file is not None] + [self._files[-1]]
        if last is not None and self._flusher is not None:
            self._flushes.append(self._flush_soon(self._flusher, self._files[-2], last, self._flushes[-1:]))
        return file

    def _flush_soon(self, flusher: ThreadPoolExecutor, *full: Any) -> Future[None]:
        """Flush a full file in another thread; in this one where there can be none, as when the interpreter ends."""
        try:
            return flusher.submit(self._flush_full, *full)
        except RuntimeError:
            done: Future[None] = Future()
            try:
                self._flush_full(*full)
                done.set_result(None)
            except Exception as error:
                done.set_exception(error)
            return done

    def _create_file(self, last: IndexFile | None) -> IndexFile:
        slots, items = self._geometry or (DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM)
        end = last.header if last is not None else None
        for attempt in range(1, CREATE_ATTEMPTS + 1):
            path = self.directory / index_file_name(datetime.now(), last.path.name if last else "")
            try:
                file = IndexFile.create(
                    path,
                    hash_slot_num=slots,
                    index_num=items,
                    end_phy_offset=end.end_phy_offset if end else 0,
                    end_timestamp=end.end_timestamp if end else 0,
                    compat=self.compat,
                )
                try:
                    sync_path(self.directory)
                except OSError:
                    file.close()
                    path.unlink()
                    raise
                return file
            except OSError as error:
                if attempt == CREATE_ATTEMPTS:
                    raise
                logger.warning("%s: not created (%s), attempt %d of %d", path, error, attempt, CREATE_ATTEMPTS)
                time.sleep(CREATE_RETRY_SECONDS)
        raise AssertionError("unreachable")

    def _flush_full(self, listed: ListedIndexFile, file: IndexFile, before: list[Future[None]]) -> None:
        """Bring a full file to the disk, then say so in the checkpoint, and of all before it. Source: flush."""
        for flush in before:
            flush.result()
        end_timestamp = file.header.end_timestamp
        self._flush_file(listed, file)
        if end_timestamp > 0:
            self.checkpoint.index_msg_timestamp = end_timestamp
            self.checkpoint.flush()

    def _flush_file(self, listed: ListedIndexFile, file: IndexFile) -> None:
        """Bring a full file to the disk. It is open for writing till then."""
        self._check_file(file)
        file.flush()
        if listed.file is file:
            listed.file = None

    def _check_file(self, file: IndexFile) -> None:
        try:
            file.check_file()
        except StoreError:
            self._is_replaced = True
            raise

    # ---- query ---------------------------------------------------------------------------------------------

    def query_offset(
        self,
        topic: str,
        key: str,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: int = 0,
        end_timestamp: int = LONG_MAX,
        index_type: str | None = None,
    ) -> QueryOffsetResult:
        """Look a key up in all files, exactly as a broker does: by hash, without a look at the messages.

        Parameters: max_num: at most so many offsets come back, and at most ``max_msgs_num_batch``. begin_timestamp,
        end_timestamp: epoch ms, inclusive. index_type: "T" looks for tags; None, "K" and "U" for keys.
        Returns: QueryOffsetResult; offsets newest file first, in a file newest first.
        Raises: TypeError; ValueError for a negative max_num; CorruptFileError.
        Source: IndexService.queryOffset.
        """
        self._require_open()
        for name, text in (("topic", topic), ("key", key)):
            if not isinstance(text, str):
                raise TypeError(f"{name}={text!r}: a str was expected")
        require_int64(begin_timestamp=begin_timestamp, end_timestamp=end_timestamp)
        prefix = index_key_prefix(topic, index_type)
        max_num = self._limit(max_num)
        offsets: list[int] = []
        for file in self._matching_files(begin_timestamp, end_timestamp):
            if file is not None:
                found = file.select_phy_offset(
                    f"{prefix}#{key}", max_num - len(offsets), begin_timestamp, end_timestamp
                )
                offsets.extend(found)
            if len(offsets) >= max_num:
                break
        newest = self._newest
        _, end_timestamp, _, end_phy_offset, *_ = (0,) * 6 if newest is None else newest.header
        return QueryOffsetResult(offsets, end_timestamp, end_phy_offset)

    def query_offsets(
        self,
        topic: Any,
        keys: Any,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: int = 0,
        end_timestamp: int = LONG_MAX,
        index_type: str | None = None,
        *,
        threads: int = 1,
    ) -> PhyOffsets:
        """Look a batch of keys up in all files.

        Parameters: topic: str, or a column of n str (not with ``index_type="T"``). keys: as for ``hash_keys``, n
        strings. threads: so many at once. The others as for ``query_offset``.
        Returns: PhyOffsets of n keys: of each what ``query_offset`` gives.
        Raises: as ``query_offset`` and ``hash_keys``. Source: IndexService.queryOffset, for each key.
        """
        self._require_open()
        self.check_file_sizes()
        require_int64(begin_timestamp=begin_timestamp, end_timestamp=end_timestamp)
        max_num = self._limit(max_num)
        hashes = hash_keys(keys, topic=index_key_prefix(topic, index_type))
        parts = [
            file.select_phy_offsets_by_hash(
                hashes, max_num=max_num, begin_timestamp=begin_timestamp, end_timestamp=end_timestamp, threads=threads
            )
            for file in self._matching_files(begin_timestamp, end_timestamp)
            if file is not None
        ]
        return join_newest_first(parts, len(hashes), max_num)

    def _limit(self, max_num: int) -> int:
        if max_num < 0:
            raise ValueError(f"max_num={max_num}: must not be negative")
        return min(max_num, self.max_msgs_num_batch)

    def _matching_files(self, begin_timestamp: int, end_timestamp: int) -> Iterator[IndexFile | None]:
        """Give the files to search, newest first, None for one whose times do not match."""
        for file in reversed(self.files):
            yield file if file.is_time_matched(begin_timestamp, end_timestamp) else None
            if file.header.begin_timestamp < begin_timestamp:
                return

    # ---- the rest ------------------------------------------------------------------------------------------

    def delete_expired_file(self, min_phy_offset: int) -> list[Path]:
        """Delete the oldest files whose messages are all gone, never the newest file.

        Parameters: min_phy_offset: where the commit log begins now, bytes. Returns: the paths deleted.
        Raises: OSError; io.UnsupportedOperation in mode "r".
        Source: IndexService.deleteExpiredFile.
        """
        self._require_open(writing=True)
        self._await_flushes()
        deleted: list[Path] = []
        n_forgotten = 0
        try:
            for listed in self._files[:-1]:
                if self._open(listed).header.end_phy_offset >= min_phy_offset:
                    break
                n_forgotten += 1
                self._forget(listed)
                listed.path.unlink()
                deleted.append(listed.path)
        finally:
            del self._files[:n_forgotten]
        return deleted

    def flush(self) -> None:
        """Write what changed since the last flush to the disk, and wait for the full files that are under way.

        Raises: OSError; StoreError if a file that is written was removed or replaced; io.UnsupportedOperation in mode
        "r". Source: IndexService.flush.
        """
        self._require_open(writing=True)
        self._await_flushes()
        for listed in self._written:
            file = listed.file
            if file is not None and file.mode == "r+" and listed is not self._files[-1]:
                self._flush_file(listed, file)
        newest = self._newest
        if newest is not None:
            newest._check_file_size()
            self._check_file(newest)
            header = newest.header  # every put changes it
            if header != self._flushed_header:
                newest.flush()
                self._flushed_header = header

    def close(self) -> None:
        """Flush, if open for adding, and close all files. Raises: as ``flush``. Source: IndexService.shutdown."""
        if self._closed:
            return
        newest = self._newest if self.mode != "r" else None
        self._closed = True
        try:
            self._await_flushes()
            if newest is not None and not newest.closed and not self._is_replaced:
                self._check_file(newest)
        finally:
            self._abandon()

    def _await_flushes(self) -> None:
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush.result()

    def _abandon(self) -> None:
        self._closed = True
        if self._flusher is not None:
            self._flusher.shutdown()
        with contextlib.ExitStack() as stack:  # each is closed, whatever closing another raises
            for file in list(self._live):
                stack.callback(file.close)

    def check_file_sizes(self) -> None:
        for file in [listed.file for listed in (*self._written, *self._opened)]:
            if file is not None:
                file._check_file_size()

    def _require_open(self, *, writing: bool = False) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.directory} is closed")
        if writing and self.mode == "r":
            raise io.UnsupportedOperation(f"{self.directory} is open for reading: open it with mode 'a' to add to it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self.mode != "r":
            raise TypeError(f"{self.directory} is open for adding: only a reader can be pickled")
        options = self._geometry, self.compat, self.max_msgs_num_batch
        return _reopen, (type(self), self.directory, *options)

    def __repr__(self) -> str:
        if self._closed:
            return f"<IndexService {str(self.directory)!r}, closed>"
        items = sum(len(file) for file in self.files)
        return f"<IndexService {str(self.directory)!r}, mode {self.mode!r}: {len(self._files)} files, {items:,} items>"


def open_index(
    directory: Path, config: Any, checkpoint: StoreCheckpoint | None = None, *, last_exit_ok: bool = True
) -> IndexService:
    """Open the index of a store to add to it. Parameters: config: has every size."""
    return IndexService.open(
        directory, "a", hash_slot_num=config.max_hash_slot_num, index_num=config.max_index_num, compat=config.compat,
        last_exit_ok=last_exit_ok, checkpoint=checkpoint, max_msgs_num_batch=config.max_msgs_num_batch,
    )


def index_paths(directory: Path) -> list[Path]:
    """Return the index files of a directory, oldest first.

    A listing of a directory is no snapshot: it may have a file that is made meanwhile, and lack the file before it. If
    the directory changed a moment ago, it is listed again, and the result has no file newer than the first listing.
    """
    begin = time.time_ns()
    paths = _list_index_paths(directory)
    if not paths or is_remote(directory) or directory.stat().st_mtime_ns < begin - SETTLED:
        return paths
    return [path for path in _list_index_paths(directory) if path <= paths[-1]]


def _list_index_paths(directory: Path) -> list[Path]:
    with scandir(directory) as entries:
        return sorted(directory / entry.name for entry in entries if entry.name.isdecimal() and entry.is_file())


def index_file_name(now: datetime, last_name: str = "") -> str:
    """Name an index file by its time, local, to the millisecond, and always after ``last_name``.

    Source: getAndCreateLastIndexFile, where two files made in one millisecond get one name.
    """
    name = _time_name(now)
    if name > last_name:
        return name
    try:
        return _time_name(datetime.strptime(last_name, "%Y%m%d%H%M%S%f") + timedelta(milliseconds=1))
    except (ValueError, OverflowError):  # a number, but no time
        return f"{int(last_name) + 1:017}"


def require_successor(path: Path) -> None:
    """Raise CorruptFileError for a newest file whose name no new one can follow: their order is that of names."""
    if index_file_name(datetime.now(), path.name) <= path.name:
        reason = "a new file would be sorted before it: move it away, or name it by its time, yyyyMMddHHmmssSSS"
        raise CorruptFileError(path, 0, "file name", reason)


def _time_name(time: datetime) -> str:
    return time.strftime("%Y%m%d%H%M%S") + f"{time.microsecond // 1000:03}"


def _reopen(
    cls: type[IndexService], directory: Path, geometry: tuple[int, int] | None, compat: str, max_msgs_num_batch: int
) -> IndexService:
    slots, items = geometry or (None, None)
    return cls.open(
        directory, hash_slot_num=slots, index_num=items, compat=compat, max_msgs_num_batch=max_msgs_num_batch
    )


def _column(requests: Any, name: str) -> Any:
    names = getattr(requests, "column_names", getattr(requests, "columns", requests))
    if name in names:
        return requests[name]
    if name in REQUIRED:
        raise ValueError(f"requests have no column {name!r}: {', '.join(REQUIRED)} are needed")
    return None


def _columns_of(batch: MessageBatch) -> dict[str, Any]:
    """Give the columns that a batch has of what is indexed, KEYS as one text again."""
    found = {name: column for name in REQUIRED + OPTIONAL if (column := getattr(batch, name, None)) is not None}
    columns = {name: values_of(name, column, 0, len(batch)) for name, column in found.items()}
    if "keys" in columns:
        columns["keys"] = [" ".join(keys) for keys in columns["keys"]]
    return columns


def _messages_after(rows: np.ndarray, n: int) -> bool:
    return len(rows) == 0 or int(rows[-1]) < n - 1


def index_key_prefix(topic: Any, index_type: str | None) -> Any:
    """What stands before "#key" in an index key of this type. Source: IndexService.buildKey."""
    if index_type not in INDEX_TYPES:
        raise ValueError(f"index_type={index_type!r}: must be one of None, 'K', 'U', 'T'")
    if index_type != "T":
        return topic
    if not isinstance(topic, str):
        raise TypeError("topic: one str is needed with index_type='T'")
    return f"{topic}#T"

"""IndexService: the set of index files of a store, from the oldest to the one being filled."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from rocketstore.compat import DEFAULT_COMPAT, Compat
from rocketstore.config import SizedConfig
from rocketstore.disk.busy_threads import BusyThreads, marks_thread_busy
from rocketstore.disk.closable import Closable
from rocketstore.disk.durable import make_directory
from rocketstore.disk.held_directory import unlink_path
from rocketstore.disk.mapped_file import Mode, check_mode
from rocketstore.disk.storage import held_lists, local_path, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, StoreClosedError
from rocketstore.index.geometry import IndexGeometry, given_geometry
from rocketstore.index.index_directory import IndexDirectory
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_file_list import IndexFileList
from rocketstore.index.index_writer import IndexWriter
from rocketstore.index.query_offset_result import QueryOffsetResult
from rocketstore.index.request_items import INDEXED_COLUMNS, find_items
from rocketstore.kernels.dispatch import new_items
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.phy_offsets import PhyOffsets, join_newest_first
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.made_by import made_by
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.text_values import Time, epoch_ms, format_count

MAX_MSGS_NUM_BATCH = 64
IndexType = Literal["K", "U", "T"]
INDEX_TYPES = (None, "K", "U", "T")


@made_by("IndexService.open(path)")
class IndexService(Closable):
    """The index files of one directory. ``open`` makes it. It is a context manager.

    Attributes: ``directory``; ``mode``; ``compat``; ``checkpoint``.
    Source: org.apache.rocketmq.store.index.IndexService.

    Examples:
    >>> index = rocketstore.open("demo").index
    >>> index.query_offsets("Orders", ["order-0", "order-1"]).to_pylist()
    [[0], [127]]
    """

    def __init__(
        self,
        directory: StorePath,
        mode: str,
        geometry: IndexGeometry | None,
        compat: str,
        checkpoint: StoreCheckpoint,
        max_msgs_num_batch: int,
        *,
        ignores_damage: bool = False,
        busy: BusyThreads | None = None,
        planned: Sequence[StorePath] | None = None,
        preallocate: bool = True,
    ) -> None:
        self.directory = directory
        self.mode = mode
        self.compat = compat
        self.checkpoint = checkpoint
        self.max_msgs_num_batch = max_msgs_num_batch
        options: dict[str, Any] = {"ignores_damage": ignores_damage, "planned": planned, "preallocate": preallocate}
        self._files = IndexDirectory(directory, mode, geometry, compat, **options)
        self.busy = BusyThreads(directory)
        owners = [self.busy] if busy is None else [self.busy, busy]
        self._writer = IndexWriter(self._files, checkpoint, owners) if mode != "r" else None

    @property
    def rejected(self) -> list[StorePath]:
        """The files that a broker would delete at this start. A service open for adding deleted them."""
        return self._files.rejected

    @property
    def damaged(self) -> dict[object, CorruptFileError]:
        """The error of each ignored file."""
        return self._files.damaged

    @property
    def ignores_damage(self) -> bool:
        """Whether damaged files are left out."""
        return self._files.ignores_damage

    @property
    def geometry(self) -> IndexGeometry | None:
        """The geometry of all files; None for a reader of a directory without files."""
        return self._files.geometry

    @property
    def paths(self) -> list[StorePath]:
        """The files that were listed last, also the damaged ones, oldest first."""
        return self._files.paths

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str] | StorePath,
        mode: Mode = "r",
        *,
        hash_slot_num: int | None = None,
        index_num: int | None = None,
        compat: str = DEFAULT_COMPAT,
        last_exit_ok: bool = True,
        checkpoint: StoreCheckpoint | None = None,
        max_msgs_num_batch: int = MAX_MSGS_NUM_BATCH,
        _ignores_damage: bool = False,
        _busy: BusyThreads | None = None,
        _planned: Sequence[StorePath] | None = None,
        _preallocate: bool = True,
    ) -> Self:
        """Open the index files of a directory, in the order of their names.

        Parameters
        ----------
        mode : "r" reads; "r+" also adds; "a" also creates the directory.
        hash_slot_num, index_num : the geometry of all files. By default the geometry is found as in ``IndexFile.open``;
            a first file gets RocketMQ's default.
        compat : the RocketMQ release to write as.
        last_exit_ok : False after a crash. Files that end after ``checkpoint.index_msg_timestamp`` are rejected then,
            and deleted unless the mode is "r".
        checkpoint : its index time is raised when a full file is on the disk.
        max_msgs_num_batch : the most offsets that a query of one key returns.

        Raises
        ------
        FileNotFoundError. CorruptFileError, ValueError : if a file is no index file of the geometry. CorruptFileError :
        if no new file can sort after the newest, whose name is no time. ValueError : for ``last_exit_ok=False`` without
        a checkpoint.

        Source: IndexService.load.
        """
        check_mode(mode)
        if not last_exit_ok and checkpoint is None:
            raise ValueError("last_exit_ok=False: a checkpoint is needed, or every file would be rejected")
        geometry = given_geometry(hash_slot_num, index_num)
        Compat.of(compat)
        place: StorePath = to_path(directory) if mode == "r" else local_path(directory)
        if mode == "a":
            make_directory(local_path(place))
        made = checkpoint or StoreCheckpoint()
        options: dict[str, Any] = {"ignores_damage": _ignores_damage, "busy": _busy, "planned": _planned}
        options["preallocate"] = _preallocate
        self = cls(place, mode, geometry, compat, made, max_msgs_num_batch, **options)
        try:
            with held_lists(place):
                self._files.load(None if last_exit_ok else made.index_msg_timestamp)
        except BaseException:
            self._abandon()
            raise
        return self

    def refresh(self) -> None:
        """List the directory again, in mode "r": a broker adds files and deletes the oldest."""
        self._require_open()
        with held_lists(self.directory):
            self._files.refresh()

    @property
    def files(self) -> IndexFileList:
        """The index files, oldest first. Each is opened when it is used."""
        return self._files.files

    def check_file_sizes(self) -> None:
        """Raise CorruptFileError if an open file was cut."""
        self._files.check_file_sizes()

    # ---- build ---------------------------------------------------------------------------------------------

    def build_index(self, request: Any) -> None:
        """Index one dispatched message.

        Parameters: request: an object with ``topic``, ``uniq_key``, ``keys``, ``tags`` (str or None), ``phy_offset``
        (bytes), ``store_timestamp`` (epoch ms) and ``sys_flag``.
        Raises: as ``build_indexes``.
        Source: IndexService.buildIndex.
        """
        self.build_indexes({name: [getattr(request, name)] for name in INDEXED_COLUMNS})

    @marks_thread_busy("build_indexes")
    def build_indexes(self, requests: MessageBatch | Mapping[str, Any] | Any) -> int:
        """Index dispatched messages, in order.

        Parameters
        ----------
        requests : a MessageBatch, or columns by name, as a dict of arrays or an Arrow, pandas or polars table:
            ``topic``; ``phy_offset``, bytes; ``store_timestamp``, epoch ms. Optional: ``uniq_key``, ``keys`` (the KEYS
            property) and ``tags``, null for a message without them, and ``sys_flag``.

        Returns
        -------
        The number of items put. A message before the end of the newest file, and a rolled-back one, gives none.

        Raises
        ------
        ValueError, TypeError : a bad row or length; nothing was written.
        OSError : a new file could not be made, in three attempts.

        Source: IndexService.buildIndex: unique key, then each key, then from 5.4.0 the tags.
        """
        writer = self._writing()
        self.check_file_sizes()
        items = find_items(requests, self._end_phy_offset(), indexes_tags=Compat.of(self.compat).indexes_tags)
        if items.count_requests:
            writer.put(
                items.key_hashes, items.phy_offsets, items.store_timestamps, messages_after=items.is_last_without_item
            )
        return len(items.key_hashes)

    @marks_thread_busy("build_items")
    def build_items(self, items: np.ndarray, last_phy_offset: int) -> None:
        """Append items, ITEM[n], of dispatched messages.

        Parameters: last_phy_offset: physical offset of the last of these messages, which may have no item.
        Raises: OSError.
        Source: IndexService.buildIndex.
        """
        writer = self._writing()
        self.check_file_sizes()
        # Items before the end of the newest file are in it already, or their record names a wrong offset.
        columns = new_items(items, self._end_phy_offset() if self._files.listed else LONG_MIN)
        messages_after = not len(items) or int(items["phy_offset"][-1]) < last_phy_offset
        writer.put(*columns, messages_after=messages_after)

    def _end_phy_offset(self) -> int:
        newest = self._files.newest
        return newest.header.end_phy_offset if newest is not None else 0

    # ---- query ---------------------------------------------------------------------------------------------

    def query_offset(
        self,
        topic: str,
        key: str,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: Time = 0,
        end_timestamp: Time = LONG_MAX,
        index_type: IndexType | None = None,
    ) -> QueryOffsetResult:
        """Look up a key in all files, exactly as a broker does: by hash, without reading the messages.

        Parameters: max_num: the most offsets to return, but not more than ``max_msgs_num_batch``. begin_timestamp,
        end_timestamp: both inclusive, as for RocketMQ: epoch ms, a datetime, a date or an ISO 8601 text. index_type:
        "T" looks for tags; None, "K" and "U" for keys.
        Returns: QueryOffsetResult; offsets from the newest file to the oldest, in each file newest first.
        Raises: TypeError; ValueError for a negative max_num; CorruptFileError.
        Source: IndexService.queryOffset.
        """
        self._require_open()
        for name, text in (("topic", topic), ("key", key)):
            if not isinstance(text, str):
                raise TypeError(f"{name}={text!r}: a str was expected")
        begin, end = epoch_ms(begin_timestamp, "begin_timestamp"), epoch_ms(end_timestamp, "end_timestamp")
        prefix = index_key_prefix(topic, index_type)
        max_num = self._limit(max_num)
        offsets: list[int] = []
        for file in self._matching_files(begin, end):
            if file is not None:
                found = file.select_phy_offset(f"{prefix}#{key}", max_num - len(offsets), begin, end)
                offsets.extend(found)
            if len(offsets) >= max_num:
                break
        newest = self._files.newest
        _, last_timestamp, _, end_phy_offset, *_ = (0,) * 6 if newest is None else newest.header
        return QueryOffsetResult(offsets, last_timestamp, end_phy_offset)

    def query_offsets(
        self,
        topic: Any,
        keys: Any,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: Time = 0,
        end_timestamp: Time = LONG_MAX,
        index_type: IndexType | None = None,
        *,
        threads: int = 1,
    ) -> PhyOffsets:
        """Look up a batch of keys in all files.

        Parameters: topic: str, or a column of n str (not with ``index_type="T"``). keys: as for ``hash_keys``, n
        strings, or one key. threads: the number of threads. The others as for ``query_offset``.
        Returns: PhyOffsets of n keys, for each key the offsets of ``query_offset``.
        Raises: as ``query_offset`` and ``hash_keys``. Source: IndexService.queryOffset, for each key.
        """
        self._require_open()
        hashes = hash_keys([keys] if isinstance(keys, str) else keys, topic=index_key_prefix(topic, index_type))
        return self.select_phy_offsets_by_hash(
            hashes, max_num=max_num, begin_timestamp=begin_timestamp, end_timestamp=end_timestamp, threads=threads
        )

    def select_phy_offsets_by_hash(
        self,
        key_hashes: np.ndarray,
        *,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: Time = 0,
        end_timestamp: Time = LONG_MAX,
        threads: int = 1,
    ) -> PhyOffsets:
        """Look up a batch of keys in all files by their hashes, int32[n] from ``hash_keys``.

        Parameters, returns, raises: as for ``query_offsets``. Source: IndexService.queryOffset, for each key.
        """
        self._require_open()
        self.check_file_sizes()
        begin, end = epoch_ms(begin_timestamp, "begin_timestamp"), epoch_ms(end_timestamp, "end_timestamp")
        max_num = self._limit(max_num)
        parts = [
            file.select_phy_offsets_by_hash(
                key_hashes, max_num=max_num, begin_timestamp=begin, end_timestamp=end, threads=threads
            )
            for file in self._matching_files(begin, end)
            if file is not None
        ]
        return join_newest_first(parts, len(key_hashes), max_num)

    def _limit(self, max_num: int) -> int:
        if max_num < 0:
            raise ValueError(f"max_num={max_num}: must not be negative")
        return min(max_num, self.max_msgs_num_batch)

    def _matching_files(self, begin_timestamp: int, end_timestamp: int) -> Iterator[IndexFile | None]:
        """Yield the files to search, newest first; None instead of a file outside the times."""
        for file in reversed(self.files):
            yield file if file.is_time_matched(begin_timestamp, end_timestamp) else None
            if file.header.begin_timestamp < begin_timestamp:
                return

    # ---- the rest ------------------------------------------------------------------------------------------

    def find_expired_files(self, min_phy_offset: int) -> list[StorePath]:
        """Return the oldest files whose items all lead to messages before a physical offset, never the newest file."""
        older = takewhile(lambda file: file.header.end_phy_offset < min_phy_offset, self.files[:-1])
        return [file.path for file in older]

    @marks_thread_busy("delete_expired_file")
    def delete_expired_file(self, min_phy_offset: int) -> list[Path]:
        """Delete the oldest files whose messages have all expired, never the newest file.

        Parameters: min_phy_offset: where the commit log begins now, bytes. Returns: the deleted paths.
        Raises: OSError; io.UnsupportedOperation in mode "r".
        Source: IndexService.deleteExpiredFile.
        """
        writer = self._writing()
        writer.await_flushes()
        writer.held.require_in_place()
        deleted: list[Path] = []
        n_forgotten = 0
        try:
            for listed in self._files.listed[:-1]:
                if self._files.open_listed(listed).header.end_phy_offset >= min_phy_offset:
                    break
                n_forgotten += 1
                self._files.forget(listed)
                path = local_path(listed.path)
                unlink_path(path, writer.held)
                deleted.append(path)
        finally:
            del self._files.listed[:n_forgotten]
        return deleted

    @marks_thread_busy("flush")
    def flush(self) -> None:
        """Flush the changes since the last flush, and wait for full files that are being flushed.

        Raises: OSError; StoreError if a file that is written was removed or replaced; io.UnsupportedOperation in mode
        "r". Source: IndexService.flush.
        """
        self._writing().flush()

    @marks_thread_busy("close")
    def close(self) -> None:
        """Flush, if open for adding, and close all files. Raises: as ``flush``. Source: IndexService.shutdown."""
        if self._files.closed:
            return
        writer, newest = self._writer, self._files.newest if self._writer is not None else None
        self._files.closed = True
        try:
            if writer is not None:
                writer.await_flushes()
                if newest is not None and not newest.closed and not writer.is_replaced:
                    writer.check_file(newest)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        self._files.closed = True
        try:
            if self._writer is not None:
                self._writer.shutdown()
        finally:
            self._files.close()

    def _require_open(self) -> None:
        if self._files.closed:
            raise StoreClosedError(f"{self.directory} is closed")

    def _writing(self) -> IndexWriter:
        self._require_open()
        if self._writer is None:
            raise io.UnsupportedOperation(f"{self.directory} is open for reading: open it with mode 'a' to add to it")
        return self._writer

    def __reduce__(self) -> tuple[object, ...]:
        return self._reduce_reader(
            self.directory,
            is_writer=self.mode != "r",
            compat=self.compat,
            max_msgs_num_batch=self.max_msgs_num_batch,
            **(self._files.geometry._asdict() if self._files.geometry else {}),
        )

    def __repr__(self) -> str:
        if self._files.closed:
            return f"<IndexService {str(self.directory)!r}, closed>"
        files = format_count(len(self._files.listed), "file")
        items = format_count(sum(len(file) for file in self.files), "item")
        return f"<IndexService {str(self.directory)!r}, mode {self.mode!r}: {files}, {items}>"


def open_index(
    directory: Path,
    config: SizedConfig,
    checkpoint: StoreCheckpoint | None = None,
    *,
    last_exit_ok: bool = True,
    busy: BusyThreads | None = None,
) -> IndexService:
    """Open the index of a store for adding.

    Parameters: busy: of the store's writer.
    """
    return IndexService.open(
        directory,
        "a",
        hash_slot_num=config.max_hash_slot_num,
        index_num=config.max_index_num,
        compat=config.compat,
        last_exit_ok=last_exit_ok,
        checkpoint=checkpoint,
        max_msgs_num_batch=config.max_msgs_num_batch,
        _busy=busy,
        _preallocate=config.preallocate,
    )


def require_index_type(index_type: object) -> None:
    """Raise ValueError unless a query by key has an index of this type."""
    if index_type not in INDEX_TYPES:
        raise ValueError(f"index_type={index_type!r}: must be one of None, 'K', 'U', 'T'")


def index_key_prefix(topic: Any, index_type: str | None) -> Any:
    """Return the text before "#key" in an index key of this type. Source: IndexService.buildKey."""
    require_index_type(index_type)
    if index_type != "T":
        return topic
    if not isinstance(topic, str):
        raise TypeError("topic: one str is needed with index_type='T'")
    return f"{topic}#T"

"""CachedReads: single reads of a stopped store, without a new listing of its files for each call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rocketstore.disk.file_run_reader import SETTLED
from rocketstore.errors import StoreError
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import IndexService, index_key_prefix
from rocketstore.kernels.queue_id import QueueId
from rocketstore.kernels.record_match import Utf8Texts, match_records
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_heads import find_record_end
from rocketstore.log.record_reader import SPAN
from rocketstore.messages.in_queue import is_in_queue
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.query.coverage import Coverage, overlaps
from rocketstore.query.get_message import GetMessageResult, GetMessageStatus
from rocketstore.query.query_messages import KINDS, QueryMessageResult
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.survey.places import AnyPlaces

MAX_AGE = 1_000_000_000  # ns that a state is used, since some file systems do not report changes of a directory
MAX_FILES = 64  # index files; a store keeps only some files of a larger index open
MAX_MESSAGES = 8  # in an answer
MAX_QUEUES = 256
_Stamp = tuple[tuple[int, int, int], ...]  # inode, last change and size of each directory and file


class _Index(NamedTuple):
    """The index files that have items of the log, newest first, and the reasons why the index may lack messages.

    ``paths`` had the state ``stamp`` at ``time``, epoch ns. ``log_begin``, ``log_end``: the bounds of the log, bytes.
    """

    paths: list[str]
    stamp: _Stamp
    time: int
    files: Sequence[IndexFile]
    reasons: list[str]
    log_begin: int
    log_end: int


class _Queue(NamedTuple):
    """A queue, from the queue offset ``min_offset`` to before ``max_offset``. Other attributes: as for ``_Index``."""

    paths: list[str]
    stamp: _Stamp
    time: int
    queue: ConsumeQueue
    min_offset: int
    max_offset: int
    log_begin: int
    log_end: int


class CachedReads:
    """Answers queries and reads from the state of files that an earlier call found, while the store stays stopped.

    A writer makes and deletes ``abort``, which changes the root directory. New, deleted and replaced files change their
    directory. Only the state of files is cached: each call reads the bytes of records, units and items. A method
    returns None if the state is unknown or has changed, or if the state is not enough for the answer. The caller must
    then answer from a new state.
    """

    def __init__(self, places: AnyPlaces, find_log: Callable[[], CommitLog]) -> None:
        """Parameters: places: of a local store that this process only reads."""
        self._find_log = find_log
        self._directories = [str(places.root), *map(str, places.log_directories)]
        self._abort, self._index_directory = str(places.abort), str(places.index)
        self._indexes: dict[str | None, _Index] = {}
        self._queues: dict[tuple[str, int], _Queue] = {}

    def _is_written(self) -> bool:
        """Return whether the store is open for writing, or has crashed."""
        return os.path.lexists(self._abort)

    def _find_stamp(self, paths: list[str]) -> _Stamp | None:
        """Return the present state of directories and files. None if the store is not stopped, or a path is missing."""
        if self._is_written():
            return None
        try:
            found = [os.stat(path) for path in paths]  # noqa: PTH116  # of a str it takes half the time
        except OSError:
            return None
        return tuple([(status.st_ino, status.st_mtime_ns, status.st_size) for status in found])

    @staticmethod
    def _is_settled(stamp: _Stamp, now: int) -> bool:
        """Return whether the last change is so long ago that a later change will have another time."""
        return max(changed for _, changed, _ in stamp) <= now - SETTLED

    # ---- by key --------------------------------------------------------------------------------------------

    def cache_index(self, coverage: Coverage, index_type: str | None) -> None:
        """Cache the state of index and log for the next query, unless it changes meanwhile."""
        log, index = coverage.log, coverage.index
        if (
            not isinstance(index, IndexService)
            or self._is_written()
            or not log.file_run.files
            or len(index.files) > MAX_FILES
        ):
            return
        files = [file for file in reversed(index.files) if overlaps(file, log)]
        paths = [*self._directories, self._index_directory, str(log.file_run.files[-1].path)]
        paths += [str(file.path) for file in files]
        stamp, now = self._find_stamp(paths), time.time_ns()
        if stamp is None or not self._is_settled(stamp, now):
            return
        bounds = log.min_phy_offset, log.max_phy_offset
        state = _Index(paths, stamp, now, files, coverage.reasons(index_type), *bounds)
        if self._find_stamp(paths) == stamp:
            self._indexes[index_type] = state

    def query_message(
        self, topic: str, key: str, max_num: int, times: tuple[int, int], index_type: str | None
    ) -> QueryMessageResult | None:
        """Find the messages of a key, as ``query_messages`` does. Return None if the cached state does not suffice.

        Parameters: times: the first and the last store time, epoch ms, both inclusive.
        """
        state = self._indexes.get(index_type)
        if state is None or max_num < 1 or not state.time <= time.time_ns() < state.time + MAX_AGE:
            return None
        try:
            return self._query_index(state, topic, key, max_num, times, index_type)
        except (OSError, StoreError):  # the caller reads again, and raises the error
            return None

    def _query_index(
        self, state: _Index, topic: str, key: str, max_num: int, times: tuple[int, int], index_type: str | None
    ) -> QueryMessageResult | None:
        if self._find_stamp(state.paths) != state.stamp:
            return None
        log = self._find_log()
        index_key, offsets = f"{index_key_prefix(topic, index_type)}#{key}", set[int]()
        most = min(max_num, MAX_MESSAGES) + 1
        for file in state.files:
            found = file.select_phy_offset(index_key, most, LONG_MIN, LONG_MAX)
            offsets.update(found)
            if file.met_wild_slot or len(found) == most or len(offsets) >= most:
                return None
        phy_offsets = sorted(offsets, reverse=True)
        if phy_offsets and not (state.log_begin <= phy_offsets[-1] and phy_offsets[0] < state.log_end):
            return None
        if phy_offsets and not self._match(log, phy_offsets, topic, key, times, index_type):
            return None
        messages = self._read(log, phy_offsets)
        if messages is None:
            return None
        return QueryMessageResult(partial(_read_batch, log, phy_offsets), not state.reasons, [*state.reasons], messages)

    @staticmethod
    def _match(
        log: CommitLog, phy_offsets: list[int], topic: str, key: str, times: tuple[int, int], index_type: str | None
    ) -> bool:
        """Return whether the messages at all these physical offsets have the topic, the key and the time."""
        found = (log.file_run.read_entry(phy_offset, SPAN, find_record_end) for phy_offset in phy_offsets)
        windows = [window for window in found if window is not None]
        if len(windows) < len(phy_offsets):
            return False
        offsets, rows = np.array(phy_offsets, np.int64), np.zeros(len(phy_offsets), np.int64)
        window_of, matched = np.arange(len(phy_offsets), dtype=np.int32), np.zeros(len(phy_offsets), np.uint8)
        texts = Utf8Texts([topic], "topic"), Utf8Texts([key], "keys")
        match_records(windows, window_of, offsets, rows, *texts, KINDS[index_type], *times, matched)
        return matched.tobytes() == b"\1" * len(phy_offsets)

    @staticmethod
    def _read(log: CommitLog, phy_offsets: Sequence[int]) -> list[Message] | None:
        """Read the messages at physical offsets. Return None if no message begins at one of them."""
        messages = []
        for phy_offset in phy_offsets:
            fields = log.reader.read_record(phy_offset)[1]
            if fields is None:
                return None
            messages.append(Message.of_fields(fields))
        return messages

    # ---- by queue offset -----------------------------------------------------------------------------------

    def cache_queue(self, topic: str, queue_id: int, queue: StoredQueue) -> None:
        """Cache the state of a queue and the log for the next read, unless it changes meanwhile."""
        log = self._find_log()
        if type(queue) is not ConsumeQueue or not log.file_run.files or not queue.run.files:
            return
        last_files = log.file_run.files[-1], queue.run.files[-1]
        paths = [*self._directories, str(queue.directory), *(str(file.path) for file in last_files)]
        stamp, now = self._find_stamp(paths), time.time_ns()
        if stamp is None or not self._is_settled(stamp, now):
            return
        bounds = queue.min_queue_offset, queue.max_queue_offset, log.min_phy_offset, log.max_phy_offset
        if self._find_stamp(paths) == stamp:
            if len(self._queues) >= MAX_QUEUES:
                self._queues.clear()
            self._queues[topic, queue_id] = _Queue(paths, stamp, now, queue, *bounds)

    def get_message(self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int) -> GetMessageResult | None:
        """Read messages of a queue, as ``get_message`` does. Return None if the cached state does not suffice."""
        state = self._queues.get((topic, queue_id))
        if state is None or not state.time <= time.time_ns() < state.time + MAX_AGE:
            return None
        if not (1 <= max_msg_nums <= MAX_MESSAGES and state.min_offset <= queue_offset < state.max_offset):
            return None
        try:
            end = min(queue_offset + max_msg_nums, state.max_offset)
            return self._read_queue(state, QueueId(topic, queue_id), queue_offset, end)
        except (OSError, StoreError):  # the caller reads again, and raises the error
            return None

    def _read_queue(self, state: _Queue, queue_id: QueueId, begin: int, end: int) -> GetMessageResult | None:
        if self._find_stamp(state.paths) != state.stamp:
            return None
        log, queue = self._find_log(), state.queue
        units = [queue.run.unit_at(offset * queue.unit_size) for offset in range(begin, end)]
        if any(unit.is_filler or not state.log_begin <= unit.phy_offset <= state.log_end - unit.size for unit in units):
            return None
        phy_offsets = [unit.phy_offset for unit in units]
        messages = self._read(log, phy_offsets)
        if messages is None or not all(is_in_queue(message, *queue_id) for message in messages):
            return None
        read = partial(_read_batch, log, phy_offsets)
        return GetMessageResult(GetMessageStatus.FOUND, end, state.min_offset, state.max_offset, read, messages)


def _read_batch(log: CommitLog, phy_offsets: list[int]) -> MessageBatch:
    return log.find_messages(np.array(phy_offsets, np.int64))[0]

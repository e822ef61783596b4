"""StandaloneLogWriter: appends to a log without queues and index, for ``CommitLog``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.busy_threads import marks_thread_busy
from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.storage import local_path
from rocketstore.errors import StoreError
from rocketstore.kernels.dispatch import RequestScanner
from rocketstore.log.encoding import check_each, with_queue_ids
from rocketstore.log.log_writer import LogWriter
from rocketstore.log.record_reader import RecordReader
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.put_result import PutMessageResult, PutMessagesResult
from rocketstore.messages.put_rules import (
    StoreTimestamp,
    illegal,
    is_incomplete,
    message_num,
    with_flags_and_properties,
)

DEFAULT_SIZE = 1 << 30


class LogQueueNumbers:
    """The queue offsets of a log alone: they continue those of its records. Messages get queue 0 by default."""

    def __init__(self, log: RecordReader, end: int, queue_parts: Sequence[Path]) -> None:
        self._log = log
        self._end = end
        self._queue_parts = queue_parts
        self._offsets: dict[tuple[str, int], int] = {}

    def find_queue_offset(self, topic: str, queue_id: int) -> int:
        if not self._offsets:
            self._offsets.update(next_queue_offsets(self._log, self._end))
        if (topic, queue_id) not in self._offsets and self._log.min_phy_offset > 0:
            require_no_queue(self._queue_parts, topic, queue_id)
        return self._offsets.get((topic, queue_id), 0)

    def next_queue_id(self, topic: str) -> int:
        return 0


class StandaloneLogWriter:
    """Appends to a log alone. It checks messages as a store does, and completes inner batches of any topic.

    Attributes: log_writer: appends what was checked, and has the files. busy: the threads that are in a call.
    """

    def __init__(self, log_writer: LogWriter, *, has_light_queues: bool) -> None:
        """Parameters: has_light_queues: whether a broker with this configuration has light queues."""
        self.log_writer = log_writer
        self.busy = log_writer.files.busy
        self._has_light_queues = has_light_queues

    @classmethod
    def of_log(cls, log: RecordReader, end: int, config: StoreConfig, queue_parts: Sequence[Path]) -> Self:
        """Make the writer that continues a log and the queue offsets of its records.

        Parameters: end: of the log, a physical offset. queue_parts: the directories of plain and batch queues of the
        stores beside the log.
        Raises: StoreError if bytes behind its last record are not zero, or a file has another length. A put raises it
        too, for a queue of the store beside the log whose records are all gone.
        """
        size = log.file_run.mapped_file_size or config.mapped_file_size_commit_log or DEFAULT_SIZE
        for file in log.file_run.files:
            if file.size != size:
                raise StoreError(f"{file.path}: {file.size} bytes, not {size}: recover the store first")
            begin = max(end - file.file_from_offset, 0)
            if nonzero_end(file.path, begin, file.size) > begin:
                raise StoreError(f"{file.path}: bytes behind the last record, at {end}: recover the store first")
        config = replace(config, mapped_file_size_commit_log=size)
        numbers = LogQueueNumbers(log, end, queue_parts)
        log_writer = LogWriter(map(local_path, log.directories), config, end, numbers)
        return cls(log_writer, has_light_queues=config.enable_lmq or config.enable_multi_dispatch)

    @marks_thread_busy("append")
    def put(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        """Append a message; with sync flush wait for the disk. Raises: as ``append``."""
        with self.log_writer.lock:
            result = self._put_one(message, store_timestamp)
        if self.log_writer.waits_for_disk:
            self.log_writer.files.flush(result.phy_offset + result.size)
        return result

    @marks_thread_busy("append_batch")
    def put_all(self, messages: Sequence[Message] | MessageBatch, store_timestamp: StoreTimestamp) -> PutMessagesResult:
        """Append messages in order; if a message is refused, none. With sync flush wait for the disk."""
        with self.log_writer.lock:
            encoded = self.log_writer.encode(messages, store_timestamp)
            if encoded.are_incomplete:
                singles = list(with_queue_ids(messages, encoded.queue_ids))
                check_each(singles, self._check)
                result = PutMessagesResult.of([self._put_one(message, store_timestamp) for message in singles])
            else:
                result = self.log_writer.append_together(encoded)
        if self.log_writer.waits_for_disk and result:
            self.log_writer.files.flush(int(result.phy_offsets[-1] + result.sizes[-1]))
        return result

    @marks_thread_busy("flush")
    def flush_all(self) -> None:
        """Write the log to the disk. Raises: as ``flush``."""
        self.log_writer.files.flush()

    @marks_thread_busy("close")
    def close(self) -> None:
        self.log_writer.files.close()

    def _put_one(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        if not is_incomplete(message):
            return self.log_writer.append(message, store_timestamp)
        message = with_flags_and_properties(message)
        queue_id = self.log_writer.choose_queue(message)
        number = self._check(message)
        return self.log_writer.append_completed(self.log_writer.completed(message, queue_id), store_timestamp, number)

    def _check(self, message: Message) -> int:
        """Return the number of messages in a message. Raises: PutMessageError."""
        if self._has_light_queues and "INNER_MULTI_DISPATCH" in message.properties:
            raise illegal("INNER_MULTI_DISPATCH: a log alone has no offsets of other queues: put it into a store")
        return message_num(message)


def next_queue_offsets(log: RecordReader, end: int) -> dict[tuple[str, int], int]:
    """Return the queue offset after the last message of each queue, from the records of a log up to ``end``."""
    scanner = RequestScanner(message_delay_level=StoreConfig.message_delay_level, indexes_tags=False)
    found: dict[tuple[str, int], int] = {}
    for file in log.file_run.files:
        window = log.file_run.read(file.file_from_offset, file.size, "sequential")
        if window is not None and file.file_from_offset < end:
            scanner.scan(window.buffer, window.from_offset, file.file_from_offset, end)
            requests, _ = scanner.take()
            following = (requests["msg_base_offset"] + np.maximum(requests["batch_size"], 1)).tolist()
            queues = map(scanner.queues.__getitem__, requests["queue"].tolist())
            found |= dict(zip(queues, following, strict=True))
    return found


def require_no_queue(queue_parts: Iterable[Path], topic: str, queue_id: int) -> None:
    """Raise StoreError if the store has a queue but its log has no record of it, and so no next queue offset."""
    for part in queue_parts:
        queue = part / topic / str(queue_id)
        if queue.is_dir() and any(queue.iterdir()):
            raise StoreError(f"{queue}: all its records are gone, only the store goes on with it: rocketstore.open")

"""LogWriter: the end of a commit log, where messages are appended."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple, Protocol

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.kernels.appender import Appender
from rocketstore.kernels.message_slots import own_fields
from rocketstore.kernels.plain_put import PlainPut
from rocketstore.limits import INT_MAX
from rocketstore.log.encoding import encode_batch, encoder_of, naming_row
from rocketstore.log.log_files import LogFileWriter
from rocketstore.messages.compression import COMPRESSED, COMPRESSION
from rocketstore.messages.message import Message, encode_message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.put_result import PutMessageResult, PutMessagesResult
from rocketstore.messages.put_rules import (
    StoreTimestamp,
    check_queue,
    field_of_all,
    illegal,
    require_message,
    require_time,
)
from rocketstore.messages.system_flags import INNER_BATCH, TRANSACTION_TYPE
from rocketstore.messages.to_put import to_put
from rocketstore.state.checkpoint import StoreCheckpoint

new_tuple: Any = tuple.__new__  # a NamedTuple's own ``__new__`` takes twice the time
ADDED = 4096  # messages that are encoded before other threads may run


class QueueNumbers(Protocol):
    """Queue ids and first queue offsets of messages that are appended to a log. It knows nothing of the log."""

    def find_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the next queue offset of a queue that the log's writer has not appended to."""

    def next_queue_id(self, topic: str) -> int:
        """Return the queue of the next message without a queue id."""


class EncodedMessages(NamedTuple):
    """Messages whose records wait in the log's encoder to be appended, under the same hold of the log's lock.

    Attributes: heads: the messages with the times and hosts of the records, one for each record. store_timestamp: of
    the put. is_batch: whether the records go into one file. are_incomplete: whether the
    properties of a message must be completed; then the records are not appended, and each message is put on its own.
    queue_ids: of incomplete messages.
    """

    heads: Sequence[Message] | MessageBatch
    store_timestamp: StoreTimestamp
    is_batch: bool
    are_incomplete: bool
    queue_ids: list[int]


class LogWriter:
    """Appends messages to the last file of a commit log.

    Attributes: files: the files that are written, and their flush. lock: the caller of ``append`` and similar methods
    holds it. waits_for_disk: whether a put returns only when its messages are on the disk. plain_put: appends plain
    messages once it is opened. Its caller does not hold the lock.
    Source: CommitLog.asyncPutMessage.
    """

    def __init__(
        self,
        directories: Iterable[Path],
        config: StoreConfig,
        phy_offset: int,
        queues: QueueNumbers,
        read_only: Iterable[Path] = (),
        checkpoint: StoreCheckpoint | None = None,
        busy: BusyThreads | None = None,
        root: HeldDirectory | None = None,
    ) -> None:
        """Append at a physical offset, bytes: to the file that has it, or to a new file.

        Parameters: directories: new files go to these in turn. config: has the size of files. read_only: directories
        that get no new file; a last file in one of them is continued, as RocketMQ does. checkpoint: of the store; None
        for a log alone. busy: of the store's writer; by default, the log has its own. root: of the store.
        """
        self.lock = threading.Lock()
        self.waits_for_disk = config.flush_disk_type == "SYNC_FLUSH"
        self._queues = queues
        self._checkpoint = checkpoint
        self._confirms = Compat.of(config.compat).has_confirm_phy_offset
        self._store_host = config.store_host
        self._max_message_size = config.max_message_size
        self._encoder = encoder_of(config, queues.next_queue_id)
        self._appender = Appender()
        self.files = LogFileWriter(
            directories,
            read_only,
            vars(config)["mapped_file_size_commit_log"],
            phy_offset,
            self._appender,
            allocates_ahead=config.allocate_file_ahead,
            preallocate=config.preallocate,
            busy=busy,
            root=root,
        )
        self.plain_put = PlainPut(self._appender, self._encoder, self.lock, PutMessageResult)

    def queues(self) -> Collection[tuple[str, int]]:
        """Return (topic, queue id) of the queues that were appended to, or whose next offset was asked for."""
        return self._appender.queues()

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the next message of a queue. It is found if the queue is new here."""
        if (topic, queue_id) not in self._appender.queues():
            check_queue(topic, queue_id)
            self._appender.set_queue_offset(topic, queue_id, self._queues.find_queue_offset(topic, queue_id))
        return self._appender.queue_offset(topic, queue_id)

    def _go_on(self) -> None:
        """Do what the appender needs to append the encoded messages: a new file, or the offsets of their queues."""
        if self._appender.is_full:
            self._roll()
        else:
            for topic, queue_id in self._encoder.queues:
                self.next_queue_offset(topic, queue_id)

    def _roll(self) -> None:
        """Append to the next file from now on, after a checkpoint: without one, only the last file may end torn."""
        if self._checkpoint is not None and self._checkpoint.physic_msg_timestamp <= 0:
            self.files.flush()
            self.save_checkpoint()
        self.files.roll()

    def save_checkpoint(self) -> None:
        """Save how much of the log is on the disk. Recovery does not blame a crash for damage before that offset."""
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        if self.files.last_flushed is not None:
            phy_offset, checkpoint.physic_msg_timestamp = self.files.last_flushed
            if self._confirms:
                checkpoint.confirm_phy_offset = phy_offset
        checkpoint.flush()

    # ---- one message ---------------------------------------------------------------------------------------

    def append(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        """Append one message that is not incomplete.

        Raises: PutMessageError, ValueError, TypeError: nothing is written; OSError.
        """
        host: str | None = self._store_host
        time: int | None = None
        if message is None:  # to the appender this means the message of the last call
            require_message(message)
        if store_timestamp is not None:
            host, time = None, self._given_time(message, store_timestamp)
        append, encoder = self._appender.append_message, self._encoder
        try:
            place = append(encoder, message, time, host)
        except (KeyError, AttributeError):  # a message that was read has not all fields of a new one
            message = to_put(require_message(message))
            place = append(encoder, message, time, host)
        except OverflowError as error:
            raise ValueError(f"{message!r}: {error}") from None
        while place is None:
            self._go_on()
            place = append(encoder, None, time, host)
        result: PutMessageResult = new_tuple(PutMessageResult, place)
        return result

    def append_completed(
        self,
        message: Message,
        store_timestamp: StoreTimestamp,
        message_num: int = 1,
        max_size: int = INT_MAX,
        light_queues: Sequence[tuple[str, int]] = (),
    ) -> PutMessageResult:
        """Append one message whose properties are complete.

        Parameters: message_num: queue offsets that it takes. max_size: of its record, bytes, if that is less than for
        other messages. light_queues: its other queues.
        Raises: as ``append``.
        """
        host: str | None = self._store_host
        time: int | None = None
        if store_timestamp is not None:
            host, time = None, self._given_time(message, store_timestamp)
        append, rest = self._appender.append_message, (time, host, message_num, max_size, True, light_queues)
        try:
            place = append(self._encoder, require_message(message), *rest)
        except (KeyError, AttributeError):
            place = append(self._encoder, to_put(message), *rest)
        except OverflowError as error:
            raise ValueError(f"{message!r}: {error}") from None
        while place is None:
            self._go_on()
            place = append(self._encoder, None, *rest)
        return PutMessageResult(*place)

    def _given_time(self, message: Message, store_timestamp: int | str) -> int | None:
        require_time([require_message(message)], store_timestamp)
        return None if isinstance(store_timestamp, str) else store_timestamp

    def choose_queue(self, message: Message) -> int:
        """Return the queue id of the message's next put. Raises: as ``append``."""
        self._encoder.clear()
        self._add(message)
        return int(self._encoder.columns()[1][0])

    def completed(self, message: Message, queue_id: int) -> Message:
        """Return a copy of the message with a queue id. An inner batch also gets INNER_BASE.

        Source: BatchConsumeQueue.assignQueueOffset.
        """
        made = Message.of_fields({**own_fields(message), "properties": dict(message.properties)})
        made.queue_id = queue_id
        if made.sys_flag & INNER_BATCH:
            made.properties["INNER_BASE"] = str(self.next_queue_offset(made.topic, queue_id))
        return made

    # ---- many messages -------------------------------------------------------------------------------------

    def encode(
        self,
        messages: Sequence[Message] | MessageBatch,
        store_timestamp: StoreTimestamp,
        batch: Message | None = None,
        *,
        first_row: int = 0,
    ) -> EncodedMessages:
        """Encode messages that are appended together, all of them or, if a message is refused, none.

        Parameters: batch: if given, the messages are a client's batch: consecutive, in one file, and with this
        message's topic, queue, hosts, times and system flags; their properties are not completed. first_row: the row of
        the first message, for errors.
        Raises: as ``append``. Source: CommitLog.asyncPutMessages.
        """
        if batch is not None:
            messages = list(messages.to_put() if isinstance(messages, MessageBatch) else messages)
            batch = self._checked_batch(batch, messages)
        elif not isinstance(messages, MessageBatch):
            messages = list(messages)  # the caller may change its list meanwhile
        encoder = self._encoder
        with naming_row(encoder, first_row):
            if isinstance(messages, MessageBatch):
                encode_batch(encoder, messages, keeps_store=store_timestamp is not None)
            else:
                self._add_all(messages, batch=batch, keeps_store=store_timestamp is not None)
        self._check_new_queues()
        heads = messages if batch is None else [batch] * len(messages)
        if store_timestamp is not None:
            require_time(heads, store_timestamp)
        are_incomplete = encoder.is_special and batch is None
        queue_ids = encoder.columns()[1].tolist() if are_incomplete else []
        return EncodedMessages(heads, store_timestamp, batch is not None, are_incomplete, queue_ids)

    def append_together(self, encoded: EncodedMessages) -> PutMessagesResult:
        """Append the messages that were encoded last, none of which is incomplete. Raises: as ``append``."""
        heads, store_timestamp, encoder = encoded.heads, encoded.store_timestamp, self._encoder
        hosts = [self._store_host] * len(heads)
        if store_timestamp is None:
            store_timestamp = time_ns() // 1_000_000
        else:
            hosts = [host or self._store_host for host in field_of_all("store_host", heads)]
        offsets = np.empty((2, len(heads)), np.int64)
        self._write(store_timestamp, encoded.is_batch, offsets)
        sizes, queue_ids, times = encoder.columns()
        return PutMessagesResult(offsets[0], sizes, queue_ids, offsets[1], times, hosts)

    def append_encoded(
        self, data: bytes, encoded: np.ndarray, queues: list[tuple[str, int]], store_timestamp: int | None
    ) -> None:
        """Append the dump of another encoder. store_timestamp: epoch ms; None: the records keep theirs."""
        self._encoder.load(data, encoded, queues)
        offsets = np.empty((2, len(encoded)), np.int64)
        self._write("given" if store_timestamp is None else store_timestamp, False, offsets)

    def _add_all(self, messages: Sequence[Message], **options: Any) -> None:
        done = 0
        while done < len(messages):
            stop = min(done + ADDED, len(messages))
            done = self._encoder.add_all(messages, done, stop, **options)
            if done < stop:
                self._add(messages[done], **options)
                done += 1

    def _add(self, message: Message, **options: Any) -> None:
        try:
            self._encoder.add(message, **options)
        except (KeyError, AttributeError):  # as in ``append``
            self._encoder.add(to_put(require_message(message)), **options)
        except OverflowError as error:
            raise ValueError(f"{message!r}: {error}") from None

    def _check_new_queues(self) -> None:
        """Raise PutMessageError for an invalid new queue, before the appender registers any new queue."""
        for queue in self._encoder.queues:
            if queue not in self._appender.queues():
                check_queue(*queue)

    def _checked_batch(self, batch: Message, messages: Sequence[Message]) -> Message:
        if require_message(batch).sys_flag & TRANSACTION_TYPE or batch.delay_time_level > 0:
            raise illegal("a batch has neither a transaction type nor a delay level")
        size = sum(len(encode_message(message)) for message in messages)
        if batch.sys_flag & INNER_BATCH or any("INNER_NUM" in message.properties for message in messages):
            raise illegal("a batch is no inner batch, and has none: these are put by themselves")
        if size > self._max_message_size:
            raise illegal(f"a batch of {size} bytes: {self._max_message_size} is the most")
        if batch.queue_id is not None and not batch.sys_flag & COMPRESSED:
            return batch
        queue_id = self._queues.next_queue_id(batch.topic) if batch.queue_id is None else batch.queue_id
        sys_flag = batch.sys_flag & ~COMPRESSION  # no client compresses a batch
        return Message.of_fields({**own_fields(batch), "queue_id": queue_id, "sys_flag": sys_flag})

    def _write(self, store_timestamp: int | str, is_batch: bool, offsets: np.ndarray) -> None:
        """Write all encoded records, into as many files as needed; a batch into one file."""
        encoder, append = self._encoder, self._appender.append
        given = None if isinstance(store_timestamp, str) else store_timestamp
        done = append(encoder, 0, given, is_batch, offsets[0], offsets[1])
        while done < len(encoder):
            self._go_on()
            done = append(encoder, done, given, is_batch, offsets[0], offsets[1])

"""LogWriter: the end of a commit log, where messages are appended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from time import time_ns
from typing import Any, Protocol

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.errors import PutMessageError
from rocketstore.kernels.appender import Appender
from rocketstore.kernels.message_slots import own_fields
from rocketstore.kernels.plain_put import PlainPut
from rocketstore.limits import INT_MAX
from rocketstore.log.encoding import at_row, encode_batch, encoder_of, naming_row
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
    with_flags_and_properties,
)
from rocketstore.messages.system_flags import INNER_BATCH, TRANSACTION_TYPE
from rocketstore.messages.to_put import to_put

new_tuple: Any = tuple.__new__  # a NamedTuple's own ``__new__`` takes twice the time
ADDED = 4096  # messages that are encoded before other threads may run


class IncompleteMessageError(Exception):
    """A put must complete the message's properties before the message is appended. Nothing was appended."""


class QueueNumbers(Protocol):
    """Where the next messages of topics and queues go."""

    def find_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the next queue offset of a queue that this writer has not appended to."""

    def next_queue_id(self, topic: str) -> int:
        """Return the queue of the next message without a queue id."""


class LogWriter(LogFileWriter):
    """Appends messages to the last file of a commit log.

    Attributes: lock: the caller of ``append`` and similar methods holds it. is_sync: whether a put waits for the disk.
    plain_put: appends plain messages without the lock, once it is opened.
    Source: CommitLog.asyncPutMessage.
    """

    def __init__(
        self,
        directories: Iterable[Path],
        config: StoreConfig,
        phy_offset: int,
        queues: QueueNumbers,
        read_only: Iterable[Path] = (),
        before_roll: Callable[[], object] = lambda: None,
        busy: BusyThreads | None = None,
        root: HeldDirectory | None = None,
    ) -> None:
        """Append at a physical offset, bytes: to the file that has it, or to a new file.

        Parameters: directories: new files go to these in turn. config: has the size of files. read_only: directories
        that get no new file; a last file in one of them is continued, as RocketMQ does. before_roll: called before the
        writer begins a new file because the current one is full. busy: of the store's writer; by default, the log has
        its own. root: of the store.
        """
        self.lock = threading.Lock()
        self.is_sync = config.flush_disk_type == "SYNC_FLUSH"
        self._queues = queues
        self._store_host = config.store_host
        self._max_message_size = config.max_message_size
        self._has_light_queues = config.enable_lmq or config.enable_multi_dispatch
        self._encoder = encoder_of(config, queues.next_queue_id)
        super().__init__(
            directories,
            read_only,
            vars(config)["mapped_file_size_commit_log"],
            phy_offset,
            Appender(self._find_queue_offset),
            allocates_ahead=config.allocate_file_ahead,
            before_roll=before_roll,
            busy=busy,
            root=root,
        )
        self.plain_put = PlainPut(self._appender, self._encoder, self.lock, PutMessageResult)

    def queues(self) -> Collection[tuple[str, int]]:
        """Return (topic, queue id) of the queues that were appended to, or whose next offset was asked for."""
        return self._appender.queue_offsets.keys()

    @property
    def encoded_queue_ids(self) -> list[int]:
        """The queues of the messages that were incomplete in ``append`` or ``append_together``."""
        queue_ids: list[int] = self._encoder.columns()[1].tolist()
        return queue_ids

    def _find_queue_offset(self, topic: str, queue_id: int) -> int:
        check_queue(topic, queue_id)
        return self._queues.find_queue_offset(topic, queue_id)

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        return self._appender.next_queue_offset((topic, queue_id))

    # ---- one message ---------------------------------------------------------------------------------------

    def append(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        """Append one message.

        Raises: IncompleteMessageError for an inner batch or a message for light queues. The caller then calls
        ``append_completed(completed(message))``. PutMessageError, ValueError, TypeError: nothing is written; OSError.
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
            if encoder.is_special:
                raise IncompleteMessageError
            self._roll()
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
        Raises: as ``append``, except IncompleteMessageError.
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
            self._roll()
            place = append(self._encoder, None, *rest)
        return PutMessageResult(*place)

    def _given_time(self, message: Message, store_timestamp: int | str) -> int | None:
        require_time([require_message(message)], store_timestamp)
        return None if isinstance(store_timestamp, str) else store_timestamp

    def completed(self, message: Message) -> Message:
        """Return a copy of the message with the queue id that ``append`` chose. An inner batch also gets INNER_BASE.

        Call this right after ``append`` raised IncompleteMessageError. Source: BatchConsumeQueue.assignQueueOffset.
        """
        made = Message.of_fields({**own_fields(message), "properties": dict(message.properties)})
        queue_id = made.queue_id = self.encoded_queue_ids[0]
        if made.sys_flag & INNER_BATCH:
            made.properties["INNER_BASE"] = str(self.next_queue_offset(made.topic, queue_id))
        return made

    # ---- many messages -------------------------------------------------------------------------------------

    def append_together(
        self,
        messages: Sequence[Message] | MessageBatch,
        store_timestamp: StoreTimestamp,
        batch: Message | None = None,
        *,
        first_row: int = 0,
    ) -> PutMessagesResult:
        """Append messages, all of them or, if a message is refused, none.

        Parameters: batch: if given, the messages are a client's batch: consecutive, in one file, and with this
        message's topic, queue, hosts, times and system flags; their properties are not completed. first_row: the row of
        the first message, for errors.
        Raises: as ``append``; IncompleteMessageError if a message must be completed: pass all of them through
        ``messages_with_queues``. Source: CommitLog.asyncPutMessages.
        """
        if batch is not None:
            messages = list(messages.to_put() if isinstance(messages, MessageBatch) else messages)
            batch = self._checked_batch(batch, messages)
        elif not isinstance(messages, MessageBatch):
            messages = list(messages)  # the caller may change its list meanwhile
        encoder, offsets = self._encoder, np.empty((2, len(messages)), np.int64)
        with naming_row(encoder, first_row):
            if isinstance(messages, MessageBatch):
                encode_batch(encoder, messages, keeps_store=store_timestamp is not None)
            else:
                self._add_all(messages, batch=batch, keeps_store=store_timestamp is not None)
        self._check_new_queues()
        heads = messages if batch is None else [batch] * len(messages)
        if store_timestamp is not None:
            require_time(heads, store_timestamp)
        if encoder.is_special and batch is None:
            raise IncompleteMessageError
        hosts = [self._store_host] * len(messages)
        if store_timestamp is None:
            store_timestamp = time_ns() // 1_000_000
        else:
            hosts = [host or self._store_host for host in field_of_all("store_host", heads)]
        self._write(store_timestamp, batch is not None, offsets)
        sizes, queue_ids, times = encoder.columns()
        return PutMessagesResult(offsets[0], sizes, queue_ids, offsets[1], times, hosts)

    def messages_with_queues(
        self, messages: Sequence[Message] | MessageBatch, check: Callable[[Message], object], first_row: int = 0
    ) -> list[Message]:
        """Return the messages of an ``append_together`` that found an incomplete message, with their queues.

        Parameters: check: raises PutMessageError for a message that is refused. first_row: as for ``append_together``.
        """
        given = messages.to_put() if isinstance(messages, MessageBatch) else map(with_flags_and_properties, messages)
        made = []
        # Each message keeps the queue of its first encoding. The caller may change its list meanwhile.
        for row, (message, queue_id) in enumerate(zip(given, self.encoded_queue_ids, strict=False), first_row):
            try:
                check(message)
            except PutMessageError as error:
                raise at_row(row, error) from None
            made.append(Message.of_fields({**own_fields(message), "queue_id": queue_id}))
        return made

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
            if queue not in self._appender.queue_offsets:
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
            self._roll()
            done = append(encoder, done, given, is_batch, offsets[0], offsets[1])

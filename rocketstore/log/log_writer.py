"""LogWriter: the end of a commit log, where messages are appended."""

from __future__ import annotations

import contextlib
import operator
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import time_ns
from types import FrameType
from typing import Any, Self

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.durable import make_directory, sync_path
from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.errors import PutMessageError, StoreError
from rocketstore.kernels.appender import Appender
from rocketstore.kernels.column_encoder import ColumnEncoder
from rocketstore.kernels.dispatch import RequestScanner
from rocketstore.kernels.record_encoder import RecordEncoder
from rocketstore.limits import INT_MAX
from rocketstore.log.allocate_service import AllocateMappedFileService
from rocketstore.log.put_result import PutMessageResult, PutMessagesResult
from rocketstore.messages.compression import COMPRESSED, COMPRESSION
from rocketstore.messages.message import MAX_BATCH, Message, encode_message
from rocketstore.messages.message_batch import MessageBatch, to_put, values_of
from rocketstore.messages.system_flags import INNER_BATCH, TRANSACTION_TYPE
from rocketstore.messages.topics import is_file_name

__all__ = ["MAX_DIGITS", "LogWriter", "StoreTimestamp", "at_row", "check_queue", "encode_batch", "encoder_of"]
__all__ += ["illegal", "message_num", "naming_row", "require_uninterrupted", "whole"]

new_tuple: Any = tuple.__new__  # a NamedTuple's own takes twice the time
DEFAULT_SIZE = 1 << 30
ADDED = 4096  # messages that are encoded before other threads have a turn
MAX_DIGITS = 100  # int() takes no more than some thousand
StoreTimestamp = int | str | None  # epoch ms; "given": what messages have; None: now


class LogWriter:
    """Appends to the last file of a commit log, and makes the next one ahead.

    Attributes: lock: held by who calls ``append`` and its like; flushed_where: up to where the log is on the disk, and
    last_flushed: physical offset and store time of the last record there, None before; is_sync: whether that is to be
    waited for.
    Source: CommitLog.asyncPutMessage, MappedFileQueue.getLastMappedFile, AllocateMappedFileService,
    MultiPathMappedFileQueue.
    """

    def __init__(
        self,
        directories: Iterable[Path],
        config: StoreConfig,
        phy_offset: int,
        find_queue_offset: Callable[[str, int], int],
        find_queue_id: Callable[[str], int],
        read_only: Iterable[Path] = (),
        before_roll: Callable[[], object] = lambda: None,
    ) -> None:
        """Go on at a physical offset, bytes: in the file that has it, or in a new one.

        Parameters: directories: of a log in several places, in turn. config: has the size of files. find_queue_offset,
        find_queue_id: give what the next message of a queue gets, and the queue of a message without one. read_only:
        directories in which no file is made, but one that is there is gone on with, as RocketMQ does. before_roll:
        called before a file is begun behind a full one.
        """
        options = vars(config)
        self.lock = threading.Lock()
        self._switch = threading.Lock()  # for the file that is written; nothing is waited for while it is held
        self.directories = sorted(directories, key=str)  # as RocketMQ sorts them; paths sort by their parts
        self._all_directories = dict.fromkeys([*self.directories, *read_only])
        self.mapped_file_size: int = options["mapped_file_size_commit_log"]
        self.flushed_where = phy_offset
        self.last_flushed: tuple[int, int] | None = None
        self.is_sync = config.flush_disk_type == "SYNC_FLUSH"
        self._store_host = config.store_host
        self._find_queue_id = find_queue_id
        self._max_message_size = config.max_message_size
        self._has_light_queues = config.enable_lmq or config.enable_multi_dispatch
        self._find_queue_offset = find_queue_offset
        self._appender = Appender(self._checked_queue_offset)
        self._encoder = encoder_of(config, find_queue_id)
        self._flush_lock = threading.Lock()
        self._flush_error: Exception | None = None  # the system says it once, and then takes the bytes for written
        self._files: dict[int, MappedFile] = {}  # by their beginning: those not flushed, and the one that is written
        self._ahead = AllocateMappedFileService(self._open) if config.allocate_file_ahead else None
        self._before_roll = before_roll
        self._first_start = phy_offset - phy_offset % self.mapped_file_size
        try:
            if self._find(self._first_start) is not None:
                self._go_on(self._open(self._first_start), phy_offset - self._first_start)
        except BaseException:
            self.close()
            raise

    @classmethod
    def of_log(cls, log: Any, config: StoreConfig) -> Self:
        """Go on where a CommitLog ends, with queue offsets that go on with those of its records.

        Raises: StoreError if something else than zeros is behind its last record, or a file has another length; also
        from a put, into a queue of the store beside it whose records are all gone.
        """
        size = log.mapped_file_size or config.mapped_file_size_commit_log or DEFAULT_SIZE
        end = log.max_phy_offset
        for file in log.queue.files:
            if file.size != size:
                raise StoreError(f"{file.path}: {file.size} bytes, not {size}: recover the store first")
            begin = max(end - file.file_from_offset, 0)
            if nonzero_end(file.path, begin, file.size) > begin:
                raise StoreError(f"{file.path}: bytes behind the last record, at {end}: recover the store first")
        offsets: dict[tuple[str, int], int] = {}

        def find_queue_offset(topic: str, queue_id: int) -> int:
            if not offsets:
                offsets.update(next_queue_offsets(log, end))
            if (topic, queue_id) not in offsets and log.min_phy_offset > 0:
                require_no_queue(log.directories, topic, queue_id)
            return offsets.get((topic, queue_id), 0)

        config = replace(config, mapped_file_size_commit_log=size)
        return cls(log.directories, config, end, find_queue_offset, lambda topic: 0)

    @property
    def phy_offset(self) -> int:
        """Where the next record goes, bytes."""
        with self._switch:
            return self._end()

    def queues(self) -> Collection[tuple[str, int]]:
        """The queues into which something was put, or may be next, by topic and queue id."""
        return self._appender.queue_offsets.keys()

    def _end(self) -> int:
        return self._appender.phy_offset if self._file is not None else self._first_start

    @property
    def _file(self) -> MappedFile | None:
        return self._files.get(self._appender.from_offset)

    @property
    def _next_start(self) -> int:
        return self._first_start if self._file is None else self._appender.from_offset + self.mapped_file_size

    @property
    def encoded_queue_ids(self) -> list[int]:
        """The queues of the messages that ``append`` or ``append_together`` did not complete."""
        queue_ids: list[int] = self._encoder.columns()[1].tolist()
        return queue_ids

    def _checked_queue_offset(self, topic: str, queue_id: int) -> int:
        check_queue(topic, queue_id)
        return self._find_queue_offset(topic, queue_id)

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        return self._appender.next_queue_offset((topic, queue_id))

    # ---- append --------------------------------------------------------------------------------------------

    def append(
        self,
        message: Message,
        store_timestamp: StoreTimestamp,
        message_num: int = 1,
        max_size: int = INT_MAX,
        light_queues: Sequence[tuple[str, int]] = (),
        *,
        is_completed: bool = True,
    ) -> PutMessageResult | None:
        """Append one message.

        Parameters: message_num: queue offsets that it takes. max_size: of its record, bytes, if that is less than for
        any. light_queues: that it is for besides its own. is_completed: False gives None for a message whose properties
        are to be completed first.
        Raises: PutMessageError, ValueError, TypeError: nothing is written; OSError.
        """
        host: str | None = self._store_host
        time: int | None = None
        if message is None:  # which the appender takes for the one of the last call
            required(message)
        if store_timestamp is not None:
            require_time([required(message)], store_timestamp)
            host = None
            time = None if isinstance(store_timestamp, str) else store_timestamp
        append, encoder = self._appender.append_message, self._encoder
        try:
            where = append(encoder, message, time, host, message_num, max_size, is_completed, light_queues)
        except (KeyError, AttributeError):  # it was read, and has not all fields that one has that is made
            message = to_put(required(message))
            where = append(encoder, message, time, host, message_num, max_size, is_completed, light_queues)
        except OverflowError as error:
            raise ValueError(f"{message!r}: {error}") from None
        while where is None:
            self._roll()
            where = append(encoder, None, time, host, message_num, max_size, is_completed, light_queues)
        return new_tuple(PutMessageResult, where) if where else None

    def append_together(
        self,
        messages: Sequence[Message] | MessageBatch,
        store_timestamp: StoreTimestamp,
        batch: Message | None = None,
        *,
        is_completed: bool = True,
        first_row: int = 0,
    ) -> PutMessagesResult | None:
        """Append messages, all of them or, if one is refused, none.

        Parameters: batch: they are a client's batch, one after the other in one file, and have this message's topic,
        queue, hosts, times and system flags. is_completed: as ``append``. first_row: the number of the first, for
        errors. Raises: as ``append``. Source: CommitLog.asyncPutMessages.
        """
        if batch is not None:
            messages = list(messages.to_put() if isinstance(messages, MessageBatch) else messages)
            batch = self._checked_batch(batch, messages)
        elif not isinstance(messages, MessageBatch):
            messages = list(messages)  # which the caller may change meanwhile
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
        if encoder.is_special and not is_completed:
            return None
        hosts = [self._store_host] * len(messages)
        if store_timestamp is None:
            store_timestamp = time_ns() // 1_000_000
        else:
            hosts = [host or self._store_host for host in all_of("store_host", heads)]
        self._write(store_timestamp, batch is not None, offsets)
        sizes, queue_ids, times = encoder.columns()
        return PutMessagesResult(offsets[0], sizes, queue_ids, offsets[1], times, hosts)

    def one_by_one(
        self, messages: Sequence[Message] | MessageBatch, check: Callable[[Message], object], first_row: int = 0
    ) -> list[Message]:
        """Give messages that ``append_together`` did not complete, with the queues that are theirs by now.

        Parameters: check: raises for one that is refused. first_row: as for ``append_together``.
        """
        given = messages.to_put() if isinstance(messages, MessageBatch) else map(whole, messages)
        made = []
        # Each turn of a topic's queues is taken once; the caller may change a list meanwhile.
        for row, (message, queue_id) in enumerate(zip(given, self.encoded_queue_ids, strict=False), first_row):
            try:
                check(message)
            except PutMessageError as error:
                raise at_row(row, error) from None
            made.append(Message.of_fields({**message.__dict__, "queue_id": queue_id}))
        return made

    def completed(self, message: Message) -> Message:
        """Give a message that ``append`` did not complete, with its queue, and an inner batch with its base.

        Source: BatchConsumeQueue.assignQueueOffset.
        """
        made = Message.of_fields({**message.__dict__, "properties": dict(message.properties)})
        queue_id = made.queue_id = self.encoded_queue_ids[0]
        if made.sys_flag & INNER_BATCH:
            made.properties["INNER_BASE"] = str(self.next_queue_offset(made.topic, queue_id))
        return made

    def check_alone(self, message: Message) -> int:
        """Give the number of messages that a message of a log alone is. Raises: PutMessageError."""
        if self._has_light_queues and "INNER_MULTI_DISPATCH" in message.properties:
            raise illegal("INNER_MULTI_DISPATCH: a log alone has no offsets of other queues: put it into a store")
        return message_num(message)

    def append_alone(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        """Append one message to a log alone. Raises: as ``append``."""
        result = self.append(message, store_timestamp, is_completed=False)
        if result is None:
            message = whole(message)
            number = self.check_alone(message)
            result = self.append(self.completed(message), store_timestamp, number)
        assert result is not None
        return result

    def append_encoded(
        self, data: bytes, encoded: np.ndarray, queues: list[tuple[str, int]], store_timestamp: int | None
    ) -> None:
        """Append what another encoder has dumped. store_timestamp: epoch ms; None: records have theirs."""
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
        except (KeyError, AttributeError):  # as above
            self._encoder.add(to_put(required(message)), **options)
        except OverflowError as error:
            raise ValueError(f"{message!r}: {error}") from None

    def _check_new_queues(self) -> None:
        """Raise for a queue that takes no message, before another is asked for its offset and so known from then on."""
        for queue in self._encoder.queues:
            if queue not in self._appender.queue_offsets:
                check_queue(*queue)

    def _checked_batch(self, batch: Message, messages: Sequence[Message]) -> Message:
        if required(batch).sys_flag & TRANSACTION_TYPE or batch.delay_time_level > 0:
            raise illegal("a batch has neither a transaction type nor a delay level")
        size = sum(len(encode_message(message)) for message in messages)
        if batch.sys_flag & INNER_BATCH or any("INNER_NUM" in message.properties for message in messages):
            raise illegal("a batch is no inner batch, and has none: these are put by themselves")
        if size > self._max_message_size:
            raise illegal(f"a batch of {size} bytes: {self._max_message_size} is the most")
        if batch.queue_id is not None and not batch.sys_flag & COMPRESSED:
            return batch
        queue_id = self._find_queue_id(batch.topic) if batch.queue_id is None else batch.queue_id
        sys_flag = batch.sys_flag & ~COMPRESSION  # no client compresses a batch
        return Message.of_fields({**batch.__dict__, "queue_id": queue_id, "sys_flag": sys_flag})

    def _write(self, store_timestamp: int | str, is_batch: bool, offsets: np.ndarray) -> None:
        """Write all encoded records, in as many files as it takes; a batch in one."""
        encoder, append = self._encoder, self._appender.append
        given = None if isinstance(store_timestamp, str) else store_timestamp
        done = append(encoder, 0, given, is_batch, offsets[0], offsets[1])
        while done < len(encoder):
            self._roll()
            done = append(encoder, done, given, is_batch, offsets[0], offsets[1])

    # ---- files ---------------------------------------------------------------------------------------------

    def _roll(self) -> None:
        """Go on in the next file. Raises OSError if it cannot be made: the log is as it was."""
        self._before_roll()
        start = self._next_start
        file = self._ahead.take(start) if self._ahead is not None else None
        self._go_on(file or self._open(start), 0)

    def _go_on(self, file: MappedFile, position: int) -> None:
        """Append to another file from now on. What interrupts this comes before ``set_file`` or after it."""
        start = file.file_from_offset
        file.allocate(position)
        with self._switch:
            self._files[start] = file
            self._appender.set_file(file.buffer, start, position, file.fd)
        if self._ahead is not None:
            self._ahead.ask(start + self.mapped_file_size)

    def _find(self, start: int) -> Path | None:
        paths = (directory / f"{start:020}" for directory in self._all_directories)
        return next((path for path in paths if path.exists()), None)

    def _open(self, start: int) -> MappedFile:
        """Open the file that begins at an offset, or make it where its turn is."""
        path = self._find(start)
        if path is not None and path.parent in self.directories and path.stat().st_size == 0:
            path.unlink()  # Ctrl-C came when it had but its name
            path = None
        if path is not None:
            file = MappedFile(path, "r+")  # who made it may have failed to sync it
        else:
            directory = self.directories[start // self.mapped_file_size % len(self.directories)]
            make_directory(directory)
            file = MappedFile(directory / f"{start:020}", "r+", create_size=self.mapped_file_size)
        file.flush()  # before its name: a file without its length is none of a log
        sync_path(file.path.parent)
        return file

    # ---- flush ---------------------------------------------------------------------------------------------

    def flush(self, end: int | None = None) -> None:
        """Bring the log to the disk, up to an offset at least; None for all.

        Raises OSError: what was not flushed may be lost then, whatever comes later; StoreError if a file is gone.
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
        """Raise StoreError unless the file that is written is still the one with its name."""
        file = self._file
        if file is not None:
            file.check_file()

    def close(self) -> None:
        """Unmap the files, without a flush, and delete the one that was made ahead."""
        if self._ahead is not None:
            self._ahead.stop()
            file, self._ahead = self._ahead.take(self._next_start), None  # which may be another writer's later
            if file is not None:
                file.close()
                with contextlib.suppress(OSError):
                    file.path.unlink()
        for file in self._files.values():
            file.close()


def require_uninterrupted(writer: object, place: Path) -> None:
    """Raise RuntimeError where a signal's handler interrupts a call of a writer that it would close, and wait for."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_locals.get("self") is not writer:
        frame = frame.f_back
    if frame is not None:
        raise RuntimeError(
            f"{place}: cannot be closed by a signal's handler while this thread puts or flushes: "
            "have it raise, as sys.exit does, or set what the loop that puts looks at"
        )


def encoder_of(config: StoreConfig, find_queue_id: Callable[[str], int]) -> RecordEncoder:
    """Make what encodes the records of a store. find_queue_id: gives the queue of a topic for a message without one."""
    compat, options = Compat.of(config.compat), vars(config)
    return RecordEncoder(
        config.store_host, find_queue_id, append_prop_crc=config.enabled_append_prop_crc and compat.has_prop_crc,
        trailing_separator=compat.trailing_separator, has_v2=compat.has_v2, has_ipv6=compat.has_ipv6,
        has_compression_types=compat.has_compression_types, has_inner_batches=compat.has_inner_batches,
        batch_properties=compat.batch_properties, max_message_size=config.max_message_size,
        mapped_file_size=options["mapped_file_size_commit_log"],
    )


@contextlib.contextmanager
def naming_row(encoder: RecordEncoder, first_row: int) -> Iterator[None]:
    """Encode messages anew; what one is refused for says which, the first having this number."""
    encoder.clear()
    try:
        yield
    except ValueError as error:
        raise at_row(first_row + len(encoder), error) from None


def at_row(row: int, error: ValueError) -> ValueError:
    """Have an error say which it is about of messages that were given together."""
    if isinstance(error, PutMessageError):
        return PutMessageError(error.status, f"row {row}: {error.args[1]}")
    return ValueError(f"row {row}: {error}")


def encode_batch(encoder: RecordEncoder, batch: MessageBatch, *, keeps_store: bool) -> None:
    """Encode rows from their columns, and as messages those whose columns do not say all."""
    columns, done = ColumnEncoder(batch.stored_columns(), len(batch)), 0
    while (done := columns.add(encoder, done, keeps_store)) < len(batch):
        message = batch[done]
        try:
            encoder.add(to_put(message), keeps_store=keeps_store)
        except OverflowError as error:
            raise ValueError(f"{message!r}: {error}") from None
        done += 1


def next_queue_offsets(log: Any, end: int) -> dict[tuple[str, int], int]:
    """Give the queue offset after the last message of each queue, by the records of a log that ends at ``end``."""
    scanner = RequestScanner(message_delay_level=StoreConfig.message_delay_level, indexes_tags=False)
    found: dict[tuple[str, int], int] = {}
    for file in log.queue.files:
        if file.file_from_offset < end:
            window = log.queue.read(file.file_from_offset, file.size, "sequential")
            scanner.scan(window.buffer, window.from_offset, file.file_from_offset, end)
            requests, _ = scanner.take()
            following = (requests["msg_base_offset"] + np.maximum(requests["batch_size"], 1)).tolist()
            queues = map(scanner.queues.__getitem__, requests["queue"].tolist())
            found |= dict(zip(queues, following, strict=True))
    return found


def require_no_queue(directories: Iterable[Path], topic: str, queue_id: int) -> None:
    """Raise StoreError if a store has a queue of which its log has no record, and so does not say where it goes on."""
    for directory in directories:
        for kind in ("consumequeue", "batchconsumequeue"):
            queue = directory.parent / kind / topic / str(queue_id)
            if queue.is_dir() and any(queue.iterdir()):
                raise StoreError(f"{queue}: all its records are gone, only the store goes on with it: rocketstore.open")


def check_queue(topic: str, queue_id: int) -> None:
    """Raise PutMessageError if messages cannot be put into a queue."""
    if not is_file_name(topic) or has_surrogate(topic):
        raise illegal(f"topic {topic!r:.80} cannot be the name of a directory, which its queues need")
    if queue_id < 0:
        raise illegal(f"queue_id={queue_id} must not be negative")


def has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def message_num(message: Message) -> int:
    """Give the number of messages that a message is: of an inner batch, INNER_NUM.

    Raises: PutMessageError if it is none. Source: DefaultMessageStore.getMessageNum.
    """
    text = message.properties.get("INNER_NUM")
    if text is None:  # which is not stored either
        return 1
    if not message.sys_flag & INNER_BATCH:
        raise illegal("INNER_NUM without the flag of inner batches")
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS and 1 <= int(text) <= MAX_BATCH):
        raise illegal(f"INNER_NUM={text!r:.80} must be 1 to {MAX_BATCH}")
    return int(text)


def whole(message: Message) -> Message:
    """Give a message that has system flags and properties, of one that was read without, as the encoder does."""
    return message if {"sys_flag", "properties"} <= message.__dict__.keys() else to_put(message)


def require_time(messages: Sequence[Message] | MessageBatch, store_timestamp: int | str) -> None:
    """Raise unless a store time is epoch ms, or "given" and every message has one."""
    if not isinstance(store_timestamp, str):
        if not -(2**63) <= operator.index(store_timestamp) < 2**63:
            raise ValueError(f"store_timestamp={store_timestamp}: must be epoch ms, a long")
    elif store_timestamp != "given":
        raise ValueError(f"store_timestamp={store_timestamp!r}: must be epoch ms, None or 'given'")
    elif None in all_of("store_timestamp", messages):
        raise ValueError("store_timestamp='given': a message has none")


def all_of(name: str, messages: Sequence[Message] | MessageBatch) -> list[Any]:
    """Give a field of each message, None of one without it."""
    if not isinstance(messages, MessageBatch):
        return [message.__dict__.get(name) for message in messages]
    column = messages.stored_columns().get(name)
    return [None] * len(messages) if column is None else values_of(name, column, 0, len(messages))


def required(message: Message) -> Message:
    if not isinstance(message, Message):
        raise TypeError(f"{message!r:.80}: a Message was expected")
    return message


def illegal(reason: str) -> PutMessageError:
    return PutMessageError("MESSAGE_ILLEGAL", f"the message is refused: {reason}")

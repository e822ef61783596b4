"""StoreWriter: what writes a store: appends, dispatches, flushes, and leaves it as a broker does."""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.descriptors import require_descriptors_to_write
from rocketstore.disk.durable import make_root, sync_path
from rocketstore.disk.lock_file import StoreLock
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.light_queues import check_more_queues
from rocketstore.dispatch.reput import ReputMessageService
from rocketstore.errors import PutMessageError, StoreClosedError, StoreError
from rocketstore.index.index_service import IndexService, open_index
from rocketstore.jobs.prepared_rows import Block
from rocketstore.layout.geometry import require_batch_size, writing_config
from rocketstore.layout.layout import look_at_store, require_file_log
from rocketstore.layout.places import acquire_locks, require_log_directory, require_own_places
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_writer import LogWriter, StoreTimestamp, illegal, message_num, whole
from rocketstore.log.put_result import PutMessageResult, PutMessagesResult
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch, is_arrow
from rocketstore.messages.system_flags import INNER_BATCH
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, SYSTEM_TOPIC_PREFIXES, is_file_name, split_names
from rocketstore.recovery.complete import complete_store
from rocketstore.state.abort import make_abort
from rocketstore.state.broker_config import batch_topics, extend_topics, read_topics
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.store.expiry import ExpiredFiles, delete_expired_files
from rocketstore.store.flush import FlushService

__all__ = ["StoreWriter", "open_writer"]

MAX_DECLARED_QUEUES = 1 << 16  # a broker keeps something for each queue that topics.json says there is
USED_BY_WRITERS = (
    "flush_interval_commit_log", "flush_commit_log_least_pages", "flush_commit_log_thorough_interval",
    "default_topic_queue_nums",
)
PIECE = 4096  # messages of an iterator that are put together


class StoreWriter:
    """The one writer of a store. ``MessageStore`` has one in modes "a" and "r+"; safe to use from several threads.

    Source: DefaultMessageStore, CommitLog.asyncPutMessage, ReputMessageService, FlushRealTimeService,
    FlushConsumeQueueService.
    """

    def __init__(
        self, root: Path, config: StoreConfig, locks: list[StoreLock], log: CommitLog, index: IndexService | None,
        checkpoint: StoreCheckpoint, dispatcher: Dispatcher, batch_topics: set[str], phy_offset: int,
    ) -> None:
        """Go on with a store that was recovered. Parameters: phy_offset: where the log ends, bytes."""
        self.root = root
        self.config: Any = config  # every size is set
        self._compat = Compat.of(config.compat)
        self.index = index
        self.checkpoint = checkpoint
        self.dispatcher = dispatcher
        self._lock_file, *self._other_locks = locks
        self._batch_topics = batch_topics
        self._topics = read_topics(root, config)
        self._new_queues: dict[str, int] = {}  # topics whose queues topics.json does not have yet
        self._turns: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
        self._unbuilt: Counter[str] = Counter()  # of light queues that can be no directory: offsets, without units
        make_abort(root)
        directories = config.commit_log_paths(root, writable=True)
        self._log = LogWriter(
            directories, config, phy_offset, self._find_queue_offset, self._next_queue_id,
            config.commit_log_paths(root), self._before_roll,
        )
        self._read_log = log
        self._topics_lock = threading.Lock()
        self._close_lock = threading.Lock()
        self._failure: BaseException | None = None
        self._is_told = False  # whether a caller knows of the failure
        self._closed = False  # to all but own dispatchers
        self._is_sealed = False
        with contextlib.ExitStack() as stack:  # there may be no more threads
            stack.callback(self._log.close)
            self.reput = ReputMessageService(
                dispatcher, log, phy_offset, lambda: self._log.phy_offset, self._save_topics, self._fail
            )
            stack.callback(self.reput.stop)
            self._flusher = FlushService(self._log, config, self._note_flushed, self._flush_dispatched, self._fail)
            stack.pop_all()

    @property
    def phy_offset(self) -> int:
        """Where the next record goes, bytes."""
        return self._log.phy_offset

    # ---- put -----------------------------------------------------------------------------------------------

    def put_message(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        # Of the few instructions of this way many would be calls: what is true seldom is asked for here.
        if self._closed or self._failure is not None or not self._lock_file.owned:
            self._require_sound()
        log = self._log
        try:
            with log.lock:
                if self._closed:
                    self._require_open()
                result = log.append(message, store_timestamp, is_completed=False)
                if result is None:
                    result = self._put_special(message, store_timestamp)
        except PutMessageError as error:
            raise (error if self._light_queues(whole(message)) is None else illegal(str(error))) from None
        except OSError as error:
            self._fail(error)
            raise
        self.reput.count_records(1)
        if log.is_sync:
            self._wait_for_disk(result.phy_offset + result.size)
        return result

    def put_messages(
        self, messages: Iterable[Message] | MessageBatch | Any, store_timestamp: StoreTimestamp
    ) -> PutMessagesResult:
        if isinstance(messages, Sequence | MessageBatch) and not is_arrow(messages):
            return self._put_all(messages, store_timestamp, 0)
        rows, results = 0, []
        for piece in in_pieces(messages):
            results.append(self._put_all(piece, store_timestamp, rows))
            rows += len(piece)
        return PutMessagesResult.join(results)

    def _put_all(
        self, messages: Sequence[Message] | MessageBatch, store_timestamp: StoreTimestamp, first_row: int
    ) -> PutMessagesResult:
        result = self.put_batch(None, messages, store_timestamp, first_row)
        if isinstance(result, PutMessagesResult):
            return result
        return PutMessagesResult.of([self.put_message(message, store_timestamp) for message in result])

    def put_batch(
        self, batch: Message | None, messages: Sequence[Message] | MessageBatch, store_timestamp: StoreTimestamp,
        first_row: int = 0,
    ) -> PutMessagesResult | list[Message]:
        """Put messages together.

        Parameters: batch: None for messages that are no client's batch. first_row: the number of the first, for errors.
        Returns: if some have properties that are to be completed, the messages in their queues, and nothing is put.
        """
        self._require_sound()
        try:
            with self._log.lock:
                self._require_open()
                result = self._log.append_together(
                    messages, store_timestamp, batch, is_completed=batch is not None, first_row=first_row
                )
                if result is None:
                    return self._log.one_by_one(messages, self._check_special, first_row)
        except OSError as error:
            self._fail(error)
            raise
        if result:
            self.reput.count_records(len(result))
            if self._log.is_sync:
                self._wait_for_disk(int(result.phy_offsets[-1] + result.sizes[-1]))
        return result

    def put_encoded(self, blocks: Iterable[Block], store_timestamp: int | None) -> None:
        """Append what other encoders have made, and bring it to the disk; after any error nothing more is taken.

        Parameters: store_timestamp: epoch ms; None: the records have theirs.
        """
        self._require_sound()
        try:
            for block in blocks:
                with self._log.lock:
                    self._require_open()
                    self._log.append_encoded(*block.with_queues(self._take_turns), store_timestamp)
                self.reput.count_records(len(block.encoded))
        except BaseException as error:  # Ctrl-C too: only some of it is there
            self._fail(error)
            raise
        self.flush()

    def _put_special(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        """Put a message whose properties are completed now: an inner batch, or one for light queues."""
        message = whole(message)
        number = self._check_special(message)
        made = self._log.completed(message)
        names = self._light_queues(made)
        if names is None:
            return self._append(made, store_timestamp, number)
        offsets = {name: self._next_light_offset(name) for name in names if name.startswith(LIGHT_QUEUE_PREFIX)}
        made.properties["INNER_MULTI_QUEUE_OFFSET"] = ",".join(str(offsets.get(name, "")) for name in names)
        if not self._compat.keeps_wait:
            made.properties.pop("WAIT", None)
        light_queues = [(name, 0) for name in names if name in offsets and is_file_name(name)]
        result = self._append(made, store_timestamp, number, self.config.max_message_size, light_queues)
        self._unbuilt.update(name for name in names if name in offsets and not is_file_name(name))
        return result

    def _next_light_offset(self, name: str) -> int:
        return self._log.next_queue_offset(name, 0) if is_file_name(name) else self._unbuilt[name]

    def _append(self, *arguments: Any) -> PutMessageResult:
        result = self._log.append(*arguments)
        assert result is not None
        return result

    def _check_special(self, message: Message) -> int:
        """Give the number of messages that it is. Raises: PutMessageError if it cannot be what it says."""
        number = message_num(message)
        if message.sys_flag & INNER_BATCH and message.topic not in self._batch_topics:
            raise illegal("an inner batch, whose topic is not of queue.type BatchCQ: create_topic makes one")
        if self._compat.has_multi_dispatch and not self._is_light_alike(message):
            raise illegal(f"INNER_MULTI_DISPATCH: {self._compat.release} gives other offsets than 5.3.2 and later do")
        properties, names = message.properties, self._light_queues(message)
        if names is not None:
            offsets = ",".join("0" if name.startswith(LIGHT_QUEUE_PREFIX) else "" for name in names)
            properties = {**properties, "INNER_MULTI_QUEUE_OFFSET": offsets}
        check_more_queues(message.topic, properties, self.config, self._batch_topics)
        return number

    def _light_queues(self, message: Message) -> list[str] | None:
        """The queues besides its own that a message is for, None where none can be.

        Source: LmqDispatch.wrapLmqDispatch, MixAll.topicAllowsLMQ.
        """
        allowed = self.config.enable_lmq and not re.match(self._compat.no_lmq, message.topic)
        names = message.properties.get("INNER_MULTI_DISPATCH", "") if allowed else ""
        return split_names(names) if names.strip() else None

    def _is_light_alike(self, message: Message) -> bool:
        """Whether MultiDispatch, which LmqDispatch followed, gives a message the same offsets in light queues."""
        options = self.config.enable_lmq, self.config.enable_multi_dispatch
        if not any(options) or not message.properties.get("INNER_MULTI_DISPATCH", "").strip():
            return True
        names = self._light_queues(message)
        if names is None or not all(options) or message.topic in self._batch_topics:
            return False
        return len({*names}) == len(names) and all(name.startswith(LIGHT_QUEUE_PREFIX) for name in names)

    def _wait_for_disk(self, end: int) -> None:
        """Return when the log is on the disk up to a physical offset. Raises: OSError, StoreError."""
        self._flusher.wait(end)
        if self._log.flushed_where < end and self._failure is None:
            self._fail(StoreError(f"{self.root}: was closed before what was put was on the disk"))
        if isinstance(error := self._flusher.error, OSError):
            self._is_told = True
            raise OSError(error.errno, error.strerror, error.filename) from error
        self._require_no_failure()

    # ---- topics and queues ---------------------------------------------------------------------------------

    def create_topic(self, topic: str, queue_nums: int | None, queue_type: str | None) -> None:
        if not is_file_name(topic):
            raise ValueError(f"topic {topic!r:.80}: cannot be the name of a directory, which its queues need")
        if queue_type == "BatchCQ" and not self._compat.has_inner_batches:
            raise ValueError(f"queue_type={queue_type!r}: {self._compat.release} has no batch queues, 5.0.0 has")
        types = {} if queue_type is None else {topic: queue_type}
        nums = self.config.default_topic_queue_nums if queue_nums is None else operator.index(queue_nums)
        if queue_type == "BatchCQ":
            require_batch_size(self.config)
        self._require_sound()
        with self._log.lock:
            self._save_topics()
            if queue_type == "BatchCQ" and topic not in self._batch_topics and self._has_queues(topic):
                raise ValueError(f"topic {topic!r:.80} has queues, which cannot become those of type {queue_type}")
            extend_topics(self.root, {topic: nums}, types)
            self._topics = read_topics(self.root, self.config)
            self._batch_topics |= batch_topics(self._topics)

    def _has_queues(self, topic: str) -> bool:
        is_put = any(name == topic for name, _ in self._log.queues())
        return is_put or (self.root / "consumequeue" / topic).exists()

    def _next_queue_id(self, topic: str) -> int:
        return next(self._turns[topic]) % self._queue_nums(topic)

    def _take_turns(self, topic: str, count: int) -> list[int]:
        """Give the queue ids of so many messages, which then begin again."""
        first, queue_nums = next(self._turns[topic]), self._queue_nums(topic)
        self._turns[topic] = itertools.count(first + count)
        return [turn % queue_nums for turn in range(first, first + min(count, queue_nums))]

    def _queue_nums(self, topic: str) -> int:
        found = self._topics.get(topic)
        return max(found.write_queue_nums if found is not None else self.config.default_topic_queue_nums, 1)

    def _find_queue_offset(self, topic: str, queue_id: int) -> int:
        """Give what the next message of a queue gets that nothing was put into yet."""
        found = self._topics.get(topic)
        if found is None or max(found.write_queue_nums, found.read_queue_nums) <= queue_id:
            least = self.config.default_topic_queue_nums if found is None else 1
            needed = queue_id + 1 if queue_id < MAX_DECLARED_QUEUES else least
            with self._topics_lock:
                self._new_queues[topic] = max(self._new_queues.get(topic, least), needed)
        with self.reput.lock:
            return self.dispatcher.queue(topic, queue_id).max_queue_offset

    def _save_topics(self) -> None:
        """Tell the broker of new topics, but for those that it makes itself."""
        if not self._new_queues:
            return
        with self._topics_lock:
            new = {
                topic: count
                for topic, count in self._new_queues.items()
                if not topic.startswith(SYSTEM_TOPIC_PREFIXES)
            }
            if new:
                extend_topics(self.root, new)
            self._new_queues = {}  # not before: who finds it empty may take topics.json for written

    # ---- dispatch and flush --------------------------------------------------------------------------------

    def dispatch_pending(self) -> None:
        """Return when queues and index have all that was put. Raises: StoreError if they could not be written."""
        if self._lock_file.owned and self.reput.dispatched < self._log.phy_offset:
            self.reput.wait()
            self._require_no_failure()

    def flush(self) -> None:
        """Bring all to the disk: the log, then what is dispatched of it, then the checkpoint that says so."""
        self._require_sound()
        self._flush_all()

    def _flush_all(self) -> None:
        with self._failing():
            self._log.check_file()
        self.reput.wait()
        self._require_no_failure()
        self._flush_dispatched()

    def _flush_dispatched(self) -> None:
        with self.reput.lock, self._failing():
            phy_offset, timestamp = self.dispatcher.last_phy_offset, self.dispatcher.last_store_timestamp
            self._log.flush(self.reput.dispatched)
            self.dispatcher.flush()
            self._save_topics()
            if phy_offset >= 0:
                self.checkpoint.logics_msg_timestamp = timestamp
                if self._compat.has_logics_physical_offset:
                    self.checkpoint.logics_physical_offset = phy_offset
            self._save_checkpoint()

    def _note_flushed(self, for_messages: bool) -> None:
        """After the log was flushed: have a broker know the topics of messages that are acknowledged now."""
        if for_messages:
            self._save_topics()
        else:
            self._save_checkpoint()

    def _before_roll(self) -> None:
        """Have a checkpoint before the log has a second file: without one, only the last may end in a torn record."""
        if self.checkpoint.physic_msg_timestamp <= 0:
            self._log.flush()
            self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        """Say how far the log is on the disk: a damage before that was not done by a crash."""
        if self._log.last_flushed is not None:
            phy_offset, self.checkpoint.physic_msg_timestamp = self._log.last_flushed
            if self._compat.has_confirm_phy_offset:
                self.checkpoint.confirm_phy_offset = phy_offset
        self.checkpoint.flush()

    def delete_expired_files(
        self, queues: Iterable[tuple[str, int]], hours: float | None, before_phy_offset: int | None, dry_run: bool
    ) -> ExpiredFiles:
        self._require_sound()
        self.dispatch_pending()
        with self.reput.lock:
            self._read_log.refresh()
            writers = (self.dispatcher.queue(*queue) for queue in queues)
            return delete_expired_files(
                self._read_log.queue.files, self._log.phy_offset, writers, self.index, self.config,
                hours, before_phy_offset, dry_run,
            )

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Take no more after a failure: what was not written may be lost, whatever later calls say."""
        try:
            yield
        except Exception as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        if not (self._flusher.is_current or self.reput.is_current):
            self._is_told = True  # by who raises it

    def _require_sound(self) -> None:
        self._require_open()
        self._require_no_failure()
        if not self._lock_file.owned:
            raise StoreError(f"{self.root}: was opened by another process: open it here, after it was closed there")

    def _require_open(self) -> None:
        if self._closed and (self._is_sealed or not self.reput.is_current):
            raise StoreClosedError(f"{self.root} is closed")

    def _require_no_failure(self) -> None:
        if self._failure is not None:
            self._is_told = True
            raise StoreError(
                f"{self.root}: takes no more messages after {self._failure!r}: close it and open it again"
            ) from self._failure

    def close(self) -> None:
        """Leave the store as a broker that is shut down does; after a failure as one that was killed."""
        if not self._lock_file.owned:  # forked: its locks may be held for ever
            self._closed = True
            return
        with self._close_lock:
            if self._closed:
                if self._lock_file.owned:  # Ctrl-C ended the end itself
                    self._end()
                return
            try:
                with self._log.lock:
                    self._closed = True  # nothing is put any more, but by own dispatchers
                self._seal()
                if not self._is_told:
                    self._flush_all()
            except BaseException as error:  # Ctrl-C too: it is no clean stop then
                self._fail(error)
                raise
            finally:
                self._end()

    def _seal(self) -> None:
        """Have own dispatchers put what they still put; then nobody does."""
        while not self._is_sealed:
            end = self._log.phy_offset
            self.reput.wait(own=True)
            with self._log.lock:
                self._is_sealed = self._log.phy_offset == end

    def _end(self) -> None:
        """Ctrl-C ends one step, or comes between two: then the lock is held until this is called again."""
        index = [] if self.index is None else [self.index.close]  # a dispatcher that does not add to it leaves it open
        parts = [self._log.close, self._read_log.close, self.dispatcher.close, *index]
        locks = [lock.release for lock in (*self._other_locks, self._lock_file)]
        take([self.reput.stop, self._flusher.stop, *parts, self._unmark, *locks])

    def _unmark(self) -> None:
        if self._failure is None:
            (self.root / "abort").unlink(missing_ok=True)
            sync_path(self.root)


def in_pieces(messages: Iterable[Message] | Any) -> Iterator[Sequence[Message] | MessageBatch]:
    """Read messages of an iterator, or of an Arrow table, as many as are put together."""
    if is_arrow(messages):
        return MessageBatch.iter_arrow(messages)
    iterator = iter(messages)
    return iter(lambda: list(itertools.islice(iterator, PIECE)), [])


def take(steps: Sequence[Callable[[], object]]) -> None:
    """Take steps in order, whatever one of them raises."""
    try:
        steps[0]()
    finally:
        if len(steps) > 1:
            take(steps[1:])


def open_writer(root: Path, mode: str, config: StoreConfig | None) -> StoreWriter:
    """Take the lock, recover the store, and go on with it.

    Raises: StoreLockedError, UnsupportedFormatError, StoreError, CorruptFileError, OSError.
    """
    require_descriptors_to_write(root)
    if mode == "a":
        if not root.exists():
            require_own_places(root, config or StoreConfig())  # before anything is made
        make_root(root)
        for path in root.iterdir():
            if path.name.isdecimal() and path.is_file():
                raise StoreError(f"{path}: is of a commit log, a queue or an index: give the root of a store")
    require_file_log(root, config or StoreConfig(), "written")
    layout = look_at_store(root, config)
    layout.require_written_queues("written")
    layout.require_config_files("written")
    if (root / "consumequeue").is_dir():
        require_log_directory(root, config or StoreConfig())
    locks = acquire_locks(root, config or StoreConfig())
    with contextlib.ExitStack() as stack:
        for lock in locks:
            stack.callback(lock.release)
        config = writing_config(root, config)
        config.require_usable(*USED_BY_WRITERS)
        extend_topics(root, {})  # what cannot be extended later is refused now
        if batch_topics(read_topics(root, config)):
            require_batch_size(config)
        end = complete_store(root, config).max_phy_offset
        log = CommitLog.open(
            config.commit_log_paths(root), mapped_file_size=config.mapped_file_size_commit_log,
            message_delay_level=config.message_delay_level,
        )
        stack.callback(log.close)
        log.whole_to = end
        checkpoint = StoreCheckpoint.open(root / "checkpoint")
        index = open_index(root / "index", config, checkpoint)
        stack.callback(index.close)
        batches = batch_topics(read_topics(root, config))
        dispatcher = Dispatcher(root, config, log, index, batches)
        writer = StoreWriter(root, config, locks, log, index, checkpoint, dispatcher, batches, end)
        stack.pop_all()  # all is the writer's now
    return writer

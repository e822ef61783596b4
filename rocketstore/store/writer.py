"""StoreWriter: appends messages, dispatches and flushes them, and closes a store as a broker does."""

from __future__ import annotations

import contextlib
import operator
import threading
from _thread import get_ident
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rocketstore.compat import Compat
from rocketstore.config import SizedConfig
from rocketstore.disk.busy_threads import BusyThreads, marks_thread_busy
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.disk.storage import local_path
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.incomplete_messages import check_incomplete_message, names_of_light_queues
from rocketstore.dispatch.queue_ids import QueueIds
from rocketstore.dispatch.queue_numbers import StoreQueueNumbers
from rocketstore.dispatch.reput import OwnDispatcher, ReputMessageService
from rocketstore.errors import NestedCallError, PutMessageError, StoreClosedError, StoreError
from rocketstore.index.index_service import IndexService
from rocketstore.jobs.prepared_rows import Block
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.encoding import check_each, with_queue_ids
from rocketstore.log.log_writer import LogWriter
from rocketstore.log.writer_failure import WriterFailure
from rocketstore.messages.given_rows import require_several, with_messages, with_times
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch, in_parts, is_arrow
from rocketstore.messages.put_result import PutMessageResult, PutMessagesResult
from rocketstore.messages.put_rules import StoreTimestamp, illegal, is_incomplete, with_flags_and_properties
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, is_file_name
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.state.abort import make_abort, remove_abort
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.lock_file import StoreLock
from rocketstore.store.expiry import ExpiredFiles, delete_expired_files
from rocketstore.store.flush import FlushService
from rocketstore.store.parts_flush import PartsFlush
from rocketstore.survey.broker_config import open_json_tables
from rocketstore.survey.places import LocalPlaces
from rocketstore.survey.sizes import require_batch_size
from rocketstore.text_values import format_count


class StoreWriter:
    """The one writer of a store. ``MessageStore`` has one in modes "a" and "r+"; safe to use from several threads.

    Attributes: waits_for_disk: whether a put returns only when its messages are on the disk. plain_put: appends plain
    messages, and does not wait for the disk.
    Source: DefaultMessageStore, CommitLog.asyncPutMessage, ReputMessageService, FlushRealTimeService,
    FlushConsumeQueueService.
    """

    def __init__(
        self,
        places: LocalPlaces,
        place: HeldDirectory,
        config: SizedConfig,
        locks: list[StoreLock],
        log: CommitLog,
        index: IndexService | None,
        checkpoint: StoreCheckpoint,
        dispatcher: Dispatcher,
        batch_topics: set[str],
        phy_offset: int,
        busy: BusyThreads,
        opening_notes: tuple[str, ...],
    ) -> None:
        """Continue a recovered store.

        Parameters: places, place: of the root. phy_offset: the end of the log, bytes. busy: the threads that are in a
        call of this writer. opening_notes: as of ``MessageStore``.
        """
        self.opening_notes = opening_notes
        self.busy = busy
        self.place = place
        self.root = place.path
        self.places = places
        self.config = config
        self._compat = Compat.of(config.compat)
        self.index = index
        self.checkpoint = checkpoint
        self.dispatcher = dispatcher
        self.lock_file, *self._other_locks = locks
        self._queue_ids = QueueIds(open_json_tables(places, config), place, config, batch_topics)
        self._unbuilt: Counter[str] = Counter()  # next offsets of light queues whose names no directory can have
        make_abort(self.places.abort, place)
        directories = list(map(local_path, config.commit_log_paths(self.root, writable=True)))
        read_only = list(map(local_path, places.log_directories))
        dispatch_lock = threading.Lock()
        numbers = StoreQueueNumbers(self._queue_ids, dispatcher, dispatch_lock)
        self._log = LogWriter(directories, config, phy_offset, numbers, read_only, checkpoint, busy, place)
        self._read_log = log
        self._close_lock = threading.Lock()
        self.plain_put = self._log.plain_put
        self._failure = WriterFailure(place, self.plain_put)
        self._closed = False  # the user's dispatchers may still put until the writer is sealed
        self._is_sealed = False
        with contextlib.ExitStack() as stack:  # if a thread cannot be started, the steps before it are undone
            stack.callback(self._log.files.close)
            self.reput = ReputMessageService(
                dispatcher, log, self._log.files, self._queue_ids, dispatch_lock, self._failure, busy
            )
            stack.callback(self.reput.stop)
            self._parts = PartsFlush(self._log, self.reput, dispatcher, self._queue_ids, checkpoint, self._compat)
            self._flusher = FlushService(self._log.files, config, self._parts, self._failure, busy)
            stack.pop_all()
        self.waits_for_disk = self._log.waits_for_disk
        self.plain_put.open(self.lock_file, self.reput.waiting)

    @property
    def phy_offset(self) -> int:
        """Where the next record goes, bytes."""
        return self._log.files.phy_offset

    # ---- put -----------------------------------------------------------------------------------------------

    def put_message(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        # Hot path: test the rare conditions inline and call the full check only if one of them holds.
        if self._closed or self._failure.is_set or not self.lock_file.owned:
            self._require_sound()
        thread, calls = get_ident(), self.busy.calls
        if thread in calls:
            self.busy.refuse("put_message")
        try:
            calls[thread] = "put_message"  # as ``marks_thread_busy``, without its call
            return self._put_one(message, store_timestamp)
        finally:
            calls.pop(thread, None)

    def _put_one(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        """Append a message, and wait for the disk if puts do so."""
        waits = self.waits_for_disk
        try:
            # Without a wait, ``MessageStore.put_message`` has already tried ``plain_put``.
            result = self.plain_put.put(message) if waits and store_timestamp is None else None
            if result is None:
                result = self._append_one(message, store_timestamp)
            if waits:
                self._wait_for_disk(result.phy_offset + result.size)
            return result
        except PutMessageError as error:
            light_queues = names_of_light_queues(with_flags_and_properties(message), self.config)
            raise (error if light_queues is None else illegal(str(error))) from None
        except OSError as error:
            self._fail(error)
            raise

    def _append_one(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        """Append a message that need not be plain, and do not wait for the disk."""
        with self._log.lock:
            if self._closed:
                self._require_open()
            if is_incomplete(message):
                result = self._complete_and_append(message, store_timestamp)
            else:
                result = self._log.append(message, store_timestamp)
        self.reput.waiting.count_records(1)
        return result

    def put_messages(
        self, messages: Iterable[Message] | MessageBatch | Any, store_timestamp: StoreTimestamp | list[int]
    ) -> PutMessagesResult:
        require_several(messages)
        is_together = isinstance(messages, Sequence | MessageBatch) and not is_arrow(messages)
        parts: Iterable[Any] = [messages] if is_together else in_parts(messages)
        times: list[int] | None = None
        if isinstance(store_timestamp, list):
            times, store_timestamp, parts = store_timestamp, "given", [*parts]
            count = sum(len(part) for part in parts)
            if count != len(times):
                raise ValueError(f"store_timestamp: {format_count(len(times), 'time')} for {count} messages")
        rows, results = 0, []
        for part in parts:
            given = with_messages(part, rows)
            if times is not None:
                given = with_times(given, times[rows : rows + len(part)])
            results.append(self._put_part(given, store_timestamp, rows))
            rows += len(part)
        return results[0] if is_together else PutMessagesResult.join(results)

    @marks_thread_busy("put_messages")
    def _put_part(
        self, messages: Sequence[Message] | MessageBatch, store_timestamp: StoreTimestamp, first_row: int = 0
    ) -> PutMessagesResult:
        return self._put_together(messages, store_timestamp, first_row=first_row)

    @marks_thread_busy("put_batch")
    def put_batch(
        self, batch: Message, messages: Sequence[Message] | MessageBatch, store_timestamp: StoreTimestamp
    ) -> PutMessagesResult:
        return self._put_together(messages, store_timestamp, batch)

    def _put_together(
        self,
        messages: Sequence[Message] | MessageBatch,
        store_timestamp: StoreTimestamp,
        batch: Message | None = None,
        first_row: int = 0,
    ) -> PutMessagesResult:
        """Put messages together, or one by one if the properties of a message must be completed.

        Parameters: batch, first_row: as for ``LogWriter.encode``.
        """
        self._require_sound()
        try:
            with self._log.lock:
                self._require_open()
                encoded = self._log.encode(messages, store_timestamp, batch, first_row=first_row)
                if not encoded.are_incomplete:
                    result = self._log.append_together(encoded)
        except OSError as error:
            self._fail(error)
            raise
        if encoded.are_incomplete:
            singles = list(with_queue_ids(messages, encoded.queue_ids))
            check_each(singles, self._check_incomplete, first_row)
            return PutMessagesResult.of([self._put_one(message, store_timestamp) for message in singles])
        if result:
            self.reput.waiting.count_records(len(result))
            if self.waits_for_disk:
                self._wait_for_disk(int(result.phy_offsets[-1] + result.sizes[-1]))
        return result

    def put_encoded(self, blocks: Iterable[Block], store_timestamp: int | None) -> None:
        """Append the records of other encoders, and write them to the disk. After any error the writer is stopped.

        Parameters: store_timestamp: epoch ms; None: the records keep theirs.
        """
        self._append_encoded(blocks, store_timestamp)
        self.flush()

    @marks_thread_busy("put_encoded")
    def _append_encoded(self, blocks: Iterable[Block], store_timestamp: int | None) -> None:
        self._require_sound()
        try:
            for block in blocks:
                with self._log.lock:
                    self._require_open()
                    self._log.append_encoded(*block.with_queues(self._queue_ids.next_queue_ids), store_timestamp)
                self.reput.waiting.count_records(len(block.encoded))
        except BaseException as error:  # Ctrl-C too: only some records are there
            self._fail(error)
            raise

    def _complete_and_append(self, message: Message, store_timestamp: StoreTimestamp) -> PutMessageResult:
        """Complete the properties of an inner batch or of a message for light queues, and append the message."""
        message = with_flags_and_properties(message)
        queue_id = self._log.choose_queue(message)
        number = self._check_incomplete(message)
        made = self._log.completed(message, queue_id)
        names = names_of_light_queues(made, self.config)
        if names is None:
            return self._log.append_completed(made, store_timestamp, number)
        offsets = {name: self._next_light_offset(name) for name in names if name.startswith(LIGHT_QUEUE_PREFIX)}
        made.properties["INNER_MULTI_QUEUE_OFFSET"] = ",".join(str(offsets.get(name, "")) for name in names)
        if not self._compat.keeps_wait:
            made.properties.pop("WAIT", None)
        light_queues = [(name, 0) for name in names if name in offsets and is_file_name(name)]
        max_size = self.config.max_message_size
        result = self._log.append_completed(made, store_timestamp, number, max_size, light_queues)
        self._unbuilt.update(name for name in names if name in offsets and not is_file_name(name))
        return result

    def _check_incomplete(self, message: Message) -> int:
        return check_incomplete_message(message, self.config, self._queue_ids.batch_topics)

    def _next_light_offset(self, name: str) -> int:
        return self._log.next_queue_offset(name, 0) if is_file_name(name) else self._unbuilt[name]

    def _wait_for_disk(self, end: int) -> None:
        """Return when the log is on the disk up to a physical offset. Raises: OSError, StoreError."""
        self._flusher.wait(end)
        if self._log.files.flushed_where < end and not self._failure.is_set:
            self._fail(StoreError(f"{self.root}: was closed before what was put was on the disk"))
        if isinstance(error := self._flusher.error, OSError):
            self._failure.set_error(error, is_raised=True)
            raise OSError(error.errno, error.strerror, error.filename) from error
        self._failure.require_none()

    # ---- topics and queues ---------------------------------------------------------------------------------

    @marks_thread_busy("create_topic")
    def create_topic(self, topic: str, queue_nums: int | None, queue_type: str | None) -> None:
        if not is_file_name(topic):
            raise ValueError(f"topic {topic!r:.80}: cannot be the name of a directory, which its queues need")
        if queue_type == "BatchCQ" and not self._compat.has_inner_batches:
            raise ValueError(f"queue_type={queue_type!r}: {self._compat.release} has no batch queues, 5.0.0 has")
        nums = self.config.default_topic_queue_nums if queue_nums is None else operator.index(queue_nums)
        if queue_type == "BatchCQ":
            require_batch_size(self.config)
        self._require_sound()
        with self._log.lock:
            self._queue_ids.save()
            if queue_type == "BatchCQ" and topic not in self._queue_ids.batch_topics and self._has_queues(topic):
                raise ValueError(f"topic {topic!r:.80} has queues, which cannot become those of type {queue_type}")
            self._queue_ids.extend(topic, nums, queue_type)

    def _has_queues(self, topic: str) -> bool:
        is_put = any(name == topic for name, _ in self._log.queues())
        return is_put or self.places.topic(ConsumeQueue, topic).exists()

    # ---- dispatch and flush --------------------------------------------------------------------------------

    @marks_thread_busy("add_dispatcher")
    def add_dispatcher(self, dispatcher: OwnDispatcher) -> None:
        self.reput.add(dispatcher)

    def dispatch_pending(self) -> None:
        """Wait until queues and index have all messages, before a query.

        Raises: StoreError if they could not be written; NestedCallError if this thread is in a call of the writer.
        """
        if self.lock_file.owned:
            self.busy.require_idle("a query")
            if self.reput.dispatched < self._log.files.phy_offset:
                self._wait_for_query()

    @marks_thread_busy("a query")
    def _wait_for_query(self) -> None:
        self._wait_for_dispatch()

    def _wait_for_dispatch(self) -> None:
        self.reput.wait()
        self._failure.require_none()

    @marks_thread_busy("flush")
    def flush(self) -> None:
        """Write the log, then queues and index, then the checkpoint to the disk."""
        self._require_sound()
        self._flush_all()

    def _flush_all(self) -> None:
        with self._noting_errors():
            self._log.files.check_file()
        self._wait_for_dispatch()
        with self._noting_errors():
            self._parts.flush_dispatched()

    @marks_thread_busy("delete_expired_files")
    def delete_expired_files(
        self, queues: Iterable[tuple[str, int]], hours: float | None, before_phy_offset: int | None, dry_run: bool
    ) -> ExpiredFiles:
        self._require_sound()
        self._wait_for_dispatch()
        with self.reput.lock:
            self._read_log.refresh()
            self.place.require_in_place()  # the log was listed by its path
            writers = (self.dispatcher.queue(*queue) for queue in queues)
            return delete_expired_files(
                self._read_log.file_run.files,
                self._log.files.phy_offset,
                writers,
                self.index,
                self.config,
                hours,
                before_phy_offset,
                dry_run,
                self._log.files.held,
            )

    @contextlib.contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Stop the writer if the block raises. Unwritten data may be lost, even if a later flush succeeds.

        The error of a signal handler that calls the writer in between says nothing about the data, as Ctrl-C does not.
        """
        try:
            yield
        except NestedCallError:
            raise
        except Exception as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        """Stop the writer. The error is raised in this thread: a user's, or the one that calls a user's dispatchers."""
        self._failure.set_error(error, is_raised=not self.reput.is_current)

    def _require_sound(self) -> None:
        self._require_open()
        self._failure.require_none()
        if not self.lock_file.owned:
            raise StoreError(f"{self.root}: was opened by another process: open it here, after it was closed there")

    def _require_open(self) -> None:
        if self._closed and (self._is_sealed or not self.reput.is_current):
            raise StoreClosedError(f"{self.root} is closed")

    @marks_thread_busy("close")
    def close(self) -> None:
        """Leave the store as a broker that is shut down does; after a failure as one that was killed."""
        if not self.lock_file.owned:  # after a fork, missing threads may hold the other locks forever
            self._closed = True
            return
        with self._close_lock:
            if self._closed:
                if self.lock_file.owned:  # Ctrl-C interrupted an earlier ``_end``
                    self._end()
                return
            try:
                with self._log.lock:
                    self._closed = True  # from now on, only the user's dispatchers may put
                    self.plain_put.close()
                self._seal()
                if not self._failure.is_raised:
                    self._flush_all()
            except BaseException as error:  # Ctrl-C too: the abort file must stay
                self._fail(error)
                raise
            finally:
                self._end()

    def _seal(self) -> None:
        """Wait until the user's dispatchers, which may put as well, put no more messages; then refuse all puts."""
        while not self._is_sealed:
            end = self._log.files.phy_offset
            self.reput.wait(own=True)
            with self._log.lock:
                self._is_sealed = self._log.files.phy_offset == end

    def _end(self) -> None:
        """Stop the threads, close all parts, and release the locks last. Each step runs even if another step raises.

        If Ctrl-C ends a step, or comes between two, the lock is held until this is called again.
        """
        index = [] if self.index is None else [self.index.close]  # a dispatcher without the index does not close it
        parts = [self._log.files.close, self._read_log.close, self.dispatcher.close, *index]
        locks = [lock.release for lock in (*self._other_locks, self.lock_file)]
        with contextlib.ExitStack() as stack:
            for step in reversed([self.reput.stop, self._flusher.stop, *parts, self._unmark, *locks, self.place.close]):
                stack.callback(step)

    def _unmark(self) -> None:
        if not self._failure.is_set:
            remove_abort(self.places.abort, self.place)

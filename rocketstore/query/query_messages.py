"""Find messages by key, tag or id: the index gives candidates, and each is compared with its record."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

import numpy as np

from rocketstore.disk.store_path import StorePath
from rocketstore.disk.work_threads import WorkThreads, run_in_threads
from rocketstore.errors import CorruptFileError
from rocketstore.index.index_service import index_key_prefix
from rocketstore.index.key_lookup import IndexPart
from rocketstore.index.rocks_index import RocksIndex
from rocketstore.kernels.columns import unmasked_values
from rocketstore.kernels.commit_log import END, OK
from rocketstore.kernels.keys import TextColumn, hash_keys
from rocketstore.kernels.phy_offsets import key_numbers
from rocketstore.kernels.record_match import ANY_KEY, HALF_HIT, HIT, MISS, TAGS, UNIQ_KEY, Utf8Texts, match_records
from rocketstore.lazy import lazy_property
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_heads import find_record_end
from rocketstore.log.record_reader import SPAN
from rocketstore.made_by import made_by
from rocketstore.messages.arguments import NOT_GIVEN
from rocketstore.messages.found_messages import FoundMessages
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.preview import preview_messages
from rocketstore.preview import Preview, Previewed
from rocketstore.query.coverage import IndexView
from rocketstore.query.read_few import FEW, OnWrongCrc, read_batch, read_few
from rocketstore.text_values import format_count

MAX_SCAN = 100_000
KINDS = {None: ANY_KEY, "K": ANY_KEY, "U": UNIQ_KEY, "T": TAGS}


@made_by("store.query_message(topic, key)")
class QueryMessageResult(FoundMessages):
    """The messages of one key, newest first.

    Of an index file that covers more than 32 MiB of the log, only samples are compared with the log. If few messages
    were put while the index was turned off, they may not be noticed then.

    Attributes: messages: a MessageBatch. complete: False if messages may be missing. reasons: why they may be missing.
    has_more: True if the key has more messages than ``limit``; then ``complete`` is False. why: why no message was
    found; None if there are messages.
    Source: QueryMessageResult, which does not report missing messages.

    Examples:
    >>> found = rocketstore.open("demo").query_message("Orders", "order-7")
    >>> len(found), found.complete, found[0].tags
    (1, True, 'paid')
    """

    def __init__(
        self,
        messages: MessageBatch | Callable[[], MessageBatch],
        complete: bool,
        reasons: list[str],
        rows: Sequence[Message] | None = None,
        *,
        has_more: bool = False,
        explain: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(messages, rows, explain)
        self.complete = complete
        self.reasons = reasons
        self.has_more = has_more

    def explained_by(self, explain: Callable[[], str]) -> QueryMessageResult:
        """Return the same answer with a reason for no message. Parameters: explain: finds it, if it is asked for."""
        reasons = self.complete, self.reasons, self._rows
        return QueryMessageResult(self._source, *reasons, has_more=self.has_more, explain=explain)

    def _title(self) -> str:
        state = describe_state(self.reasons, is_complete=self.complete, has_more=self.has_more)
        counts = f"QueryMessageResult: {format_count(len(self), 'message')}, {state or 'complete'}"
        return counts if self.why is None else f"{counts}: {self.why}"


@made_by("store.query_messages(topics, keys)")
class QueryMessagesResult(Previewed, Sequence[MessageBatch]):
    """The messages of n keys, as a sequence: ``found[i]`` is a MessageBatch with the messages of key ``i``.

    The number of keys is its length. It is false if no key has a message.

    Attributes: phy_offsets int64[m], of the messages, bytes. offsets int64[n + 1]: the messages of key ``i`` are from
    ``offsets[i]`` to before ``offsets[i + 1]``, newest first. complete bool[n]: False where messages may be missing.
    has_more bool[n]: True where a key has more messages than ``limit``. reasons: why messages may be missing. messages:
    a MessageBatch. why: why keys have no message; None if each key has one.
    Source: none; RocketMQ looks up one key at a time.

    Examples:
    >>> found = rocketstore.open("demo").query_messages("Orders", ["order-1", "none"])
    >>> [batch.body.to_pylist() for batch in found], found.complete
    ([[b'order 1'], []], array([ True,  True]))
    """

    def __init__(
        self,
        log: CommitLog | None,
        phy_offsets: np.ndarray,
        offsets: np.ndarray,
        complete: np.ndarray,
        has_more: np.ndarray,
        reasons: list[str],
        messages: MessageBatch | None = None,
        on_wrong_crc: OnWrongCrc = "raise",
        explain: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        """Parameters: log: None if they are of several stores. messages: if they are read already. Those of tiered
        storage have the physical offset -1. explain: returns why some keys have no message, which it gets by number.
        """
        self._explain = explain
        self._on_wrong_crc: OnWrongCrc = on_wrong_crc
        self._log = log
        self.phy_offsets = phy_offsets
        self.offsets = offsets
        self.complete = complete
        self.has_more = has_more
        self.reasons = reasons
        if messages is not None:
            vars(self)["messages"] = messages

    @lazy_property
    def messages(self) -> MessageBatch:
        """The messages, in the order of ``phy_offsets``. They are read at the first access.

        Messages that have expired by then are removed from ``phy_offsets`` and ``offsets`` too. Raises:
        CorruptFileError if a body does not match its CRC, unless the query was made with verify_crc=False.
        """
        assert self._log is not None  # else they are read already
        raises, marks = self._on_wrong_crc == "raise", self._on_wrong_crc == "mark"
        messages, statuses = self._log.find_messages(self.phy_offsets, verify_crc=raises, marks_crc=marks)
        lost = np.flatnonzero(statuses)
        if len(lost):
            row = lost[self.phy_offsets[lost].argmax()]
            if self.phy_offsets[row] >= self._log.min_phy_offset:
                raise self._log.error(int(self.phy_offsets[row]), int(statuses[row]))
            self.offsets = self.offsets - np.searchsorted(lost, self.offsets)
            self.phy_offsets = np.delete(self.phy_offsets, lost)
        return messages

    @lazy_property
    def why(self) -> str | None:
        """Why keys have no message; None if each key has one. It is found at the first access."""
        missing = np.flatnonzero(np.diff(self.offsets) == 0).tolist()
        return None if not missing or self._explain is None else self._explain(missing)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"why": self.why, "_explain": None}

    def explained_by(self, explain: Callable[[Sequence[int]], str]) -> QueryMessagesResult:
        """Return the same answer with reasons for no message. Parameters: explain: finds them, if they are asked for.
        It gets the numbers of the keys without a message.
        """
        kept = self.complete, self.has_more, self.reasons, vars(self).get("messages"), self._on_wrong_crc
        return QueryMessagesResult(self._log, self.phy_offsets, self.offsets, *kept, explain)

    def with_messages(
        self, batches: Sequence[MessageBatch], complete: np.ndarray, has_more: np.ndarray, reasons: list[str]
    ) -> QueryMessagesResult:
        """Return an answer for the same keys with other messages. Parameters: batches: the messages of each key."""
        messages = MessageBatch.join([self.messages[:0], *batches])
        offsets = np.cumsum([0, *map(len, batches)], dtype=np.int64)
        phy_offsets = unmasked_values(messages.phy_offset)
        return QueryMessagesResult(
            self._log, phy_offsets, offsets, complete, has_more, reasons, messages, self._on_wrong_crc
        )

    def of_only_key(self) -> QueryMessageResult:
        """Return the answer of a query of one key."""
        is_complete, has_more = bool(self.complete[0]), bool(self.has_more[0])
        return QueryMessageResult(self.messages, is_complete, self.reasons, has_more=has_more)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __bool__(self) -> bool:
        return len(self.phy_offsets) > 0

    @overload
    def __getitem__(self, i: int) -> MessageBatch: ...
    @overload
    def __getitem__(self, i: slice) -> list[MessageBatch]: ...
    def __getitem__(self, i: int | slice) -> MessageBatch | list[MessageBatch]:
        n = len(self)
        if isinstance(i, slice):
            return [self[row] for row in range(*i.indices(n))]
        if not -n <= i < n:
            raise IndexError(f"key {i} of {n}")
        messages, i = self.messages, i % n
        return messages.take(np.arange(self.offsets[i], self.offsets[i + 1]))

    def _preview(self) -> Preview:
        keys = format_count(len(self), "key")
        try:
            messages = self.messages  # drops messages that have expired
        except CorruptFileError as error:
            found = format_count(len(self.phy_offsets), "message")
            return Preview(f"QueryMessagesResult: {keys}, {found} that cannot be read: {error}")
        counts = f"{keys}, {format_count(len(messages), 'message')}"
        is_complete, has_more = bool(self.complete.all()), bool(self.has_more.any())
        state = describe_state(self.reasons, is_complete=is_complete, has_more=has_more)
        title = f"QueryMessagesResult: {counts}{state and ', '}{state}"
        return preview_messages(title, messages, messages.names)


def topic_and_key(topic: Any, key: Any) -> tuple[Any, Any]:
    """Return the topic of a query, None for all, and its key. A single argument is the key. Raises: TypeError."""
    if key is None or (key is NOT_GIVEN and topic is None):
        raise TypeError("the key is None: give a key, or a topic and a key")
    return (None, topic) if key is NOT_GIVEN else (topic, key)


def limit_reason(limit: int | None) -> str:
    """Return the reason for an incomplete answer if a key has more messages than the limit."""
    return f"a key has more than limit={limit} messages"


def join_results(
    parts: Sequence[QueryMessagesResult],
    messages: MessageBatch,
    newness: np.ndarray,
    limit: int | None,
    problems: Sequence[str] = (),
) -> QueryMessagesResult:
    """Return one answer for answers to the same keys: of several stores, or of several topics.

    Parameters: messages: of all parts. newness: of each message; those of a key are sorted by it, newest first. limit:
    the largest number of messages of a key; None for all. problems: why more messages may be missing.
    """
    keys = np.concatenate([np.repeat(np.arange(len(part)), np.diff(part.offsets)) for part in parts])
    order = np.lexsort((-newness, keys))
    keys = keys[order]
    ends = np.searchsorted(keys, np.arange(len(parts[0]) + 1)).astype(np.int64)
    has_more = np.logical_or.reduce([part.has_more for part in parts])
    complete = np.logical_and.reduce([part.complete for part in parts]) & (not problems)
    reasons = [*problems, *(text for part in parts for text in part.reasons)]
    if limit is not None:
        has_more |= np.diff(ends) > limit
        complete &= ~has_more
        reasons += [limit_reason(limit)] if has_more.any() else []
        kept = np.arange(len(keys)) - ends[keys] < limit
        order, ends = order[kept], np.concatenate([[0], np.cumsum(np.minimum(np.diff(ends), limit))])
    newest = messages.take(order)
    phy_offsets = unmasked_values(newest.phy_offset)
    return QueryMessagesResult(None, phy_offsets, ends, complete, has_more, [*dict.fromkeys(reasons)], newest)


def describe_state(reasons: Sequence[str], *, is_complete: bool, has_more: bool) -> str:
    """Return the words of a title that say why an answer is not complete; an empty string if it is complete."""
    if is_complete:
        return ""
    return f"{'there are more' if has_more else 'perhaps not all'}: {'; '.join(reasons)}"


def query_message(
    view: IndexView,
    topic: str,
    key: str,
    limit: int | None,
    times: tuple[int, int],
    index_type: str | None,
    max_scan: int,
    on_wrong_crc: OnWrongCrc,
) -> QueryMessageResult:
    """Find the messages of one key. Parameters: as for ``query_messages``."""
    phy_offsets = find_few(view, topic, key, limit, times, index_type) if max_scan > FEW else None
    messages = None if phy_offsets is None else read_few(view.log, phy_offsets, on_wrong_crc)
    if phy_offsets is None or messages is None:
        return query_messages(view, topic, [key], limit, *times, index_type, max_scan, 1, on_wrong_crc).of_only_key()
    read = partial(read_batch, view.log, phy_offsets, on_wrong_crc)
    return QueryMessageResult(read, not view.reasons, [*view.reasons], messages)


def find_few(
    view: IndexView, topic: str, key: str, limit: int | None, times: tuple[int, int], index_type: str | None
) -> list[int] | None:
    """Find the physical offsets of the messages of one key, newest first, in a tenth of the time of a search.

    Return None if there may be more than ``limit`` or ``FEW`` of them, or if an entry leads to another message or to
    damage. A search must find the answer then.
    """
    most = FEW if limit is None else min(limit, FEW)
    if view.files is None or most < 1 or not (isinstance(topic, str) and isinstance(key, str)):
        return None
    index_key, offsets = f"{index_key_prefix(topic, index_type)}#{key}", set[int]()
    for file in view.files:
        found = file.select_phy_offset(index_key, most + 1, LONG_MIN, LONG_MAX)
        offsets.update(found)
        if file.met_wild_slot or len(found) > most or len(offsets) > most:
            return None
    phy_offsets = sorted(offsets, reverse=True)
    is_sure = not phy_offsets or _match_few(view.log, phy_offsets, topic, key, times, KINDS[index_type])
    return phy_offsets if is_sure else None


def _match_few(log: CommitLog, phy_offsets: list[int], topic: str, key: str, times: tuple[int, int], kind: int) -> bool:
    """Return whether all these physical offsets are before the log's end and have messages that match a query."""
    if phy_offsets[0] >= log.end_finder.find_readable_end(phy_offsets[0]):
        return False
    found = (log.file_run.read_entry(phy_offset, SPAN, find_record_end) for phy_offset in phy_offsets)
    windows = [window for window in found if window is not None]
    n = len(phy_offsets)
    if len(windows) < n:
        return False
    offsets, rows = np.array(phy_offsets, np.int64), np.zeros(n, np.int64)
    window_of, matched = np.arange(n, dtype=np.int32), np.zeros(n, np.uint8)
    texts = Utf8Texts([topic], "topic"), Utf8Texts([key], "key")
    match_records(windows, window_of, offsets, rows, *texts, kind, *times, matched)
    return matched.tobytes() == bytes([HIT]) * n


def query_messages(
    view: IndexView,
    topic: Any,
    keys: Any,
    limit: int | None,
    begin_timestamp: int,
    last_timestamp: int,
    index_type: str | None,
    max_scan: int,
    threads: int,
    on_wrong_crc: OnWrongCrc = "raise",
) -> QueryMessagesResult:
    """Find the messages of keys. ``MessageStore.query_messages`` has the documentation.

    Parameters: view: made before the call. Messages that are indexed later may be missed, and do not count as covered.
    on_wrong_crc: when the messages are read.
    """
    most = LONG_MAX if limit is None else operator.index(limit)
    max_scan, threads = map(operator.index, (max_scan, threads))
    if most < 1 or max_scan < 1 or threads < 1:
        raise ValueError(f"limit={limit}, max_scan={max_scan}, threads={threads}: at least 1 is needed")
    keys = TextColumn([keys] if isinstance(keys, str) else keys, "key")
    threads = min(threads, max(keys.length, 1))
    topic = topic if isinstance(topic, str | None) else TextColumn(topic, "topic")
    hashes = hash_keys(keys, topic=index_key_prefix(topic, index_type))
    asked = _Asked(
        view.log,
        Utf8Texts([topic] if isinstance(topic, str) else topic, "topic"),
        Utf8Texts(keys, "key"),
        KINDS[index_type],
        (begin_timestamp, last_timestamp),
        most,
        max_scan,
    )
    groups: Iterable[Sequence[IndexPart]] = view.group_files((begin_timestamp, last_timestamp), len(hashes))
    if isinstance(view.key_index, RocksIndex):
        threads = 1  # one reader of a RocksDB at a time
        texts = asked.topics.to_list(), asked.keys.to_list()
        groups = [list(reversed(view.key_index.parts_for_keys(hashes, *texts, index_type)))]
    searches = [_Search(asked, rows, hashes[rows]) for rows in np.array_split(np.arange(len(hashes)), threads)]
    for files in groups:
        search_files(searches, files)
    complete = np.full(len(hashes), not view.reasons)
    complete &= ~join_arrays([search.damaged for search in searches])
    # If several searches met damage of one file, the damage that the first of them met is given.
    damages = {path: damage for search in reversed(searches) for path, damage in search.damages.items()}
    reasons = [*view.reasons, *damages.values()]
    cut = join_arrays([search.cut for search in searches])
    if cut.any():
        complete &= ~cut
        reasons.append(
            f"more than {max_scan:,} entries of the index with the key's hash are not messages that were asked for"
        )
    has_more = join_arrays([search.counts > most for search in searches])
    if has_more.any():
        complete &= ~has_more
        reasons.append(limit_reason(limit))
    phy_offsets, counts = map(
        join_arrays, zip(*run_in_threads(lambda search, _: search.result(), searches), strict=True)
    )
    offsets = np.zeros(len(hashes) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return QueryMessagesResult(view.log, phy_offsets, offsets, complete, has_more, reasons, on_wrong_crc=on_wrong_crc)


def join_arrays(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return one array with the values of all parts. A single part is returned itself, without a copy."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def search_files(searches: Sequence[_Search], files: Sequence[IndexPart]) -> None:
    """Search files, newest first, for the keys of all searches."""

    def look_into_files(search: _Search, threads: WorkThreads | None) -> None:
        for file in files:
            if threads is not None and threads.are_cancelled:
                return
            search.look_into(file)

    run_in_threads(look_into_files, searches)


class _Asked(NamedTuple):
    """The conditions of a query.

    Attributes: limit: the most messages of a key; a search finds one more, if the key has more. max_scan: the most
    entries of a key, with the key's hash, that are not messages of the query.
    """

    log: CommitLog
    topics: Utf8Texts
    keys: Utf8Texts
    kind: int
    times: tuple[int, int]
    limit: int
    max_scan: int


class _Search:
    """A search for some keys of a query, and the verified hits so far.

    The search numbers its keys from 0 on. Key ``k`` is row ``first + k`` of the query.
    """

    def __init__(self, asked: _Asked, rows: np.ndarray, hashes: np.ndarray) -> None:
        """Parameters: rows: of the keys in the query, without gaps, int64[n]. hashes: of the keys, int32[n]."""
        self.asked, self.log = asked, asked.log
        self.first = int(rows[0]) if len(rows) else 0
        self.wanted = min(asked.limit, LONG_MAX - 1) + 1  # hits of a key; the last one shows that there are more
        self.open_keys, self.open_hashes = np.arange(len(rows)), hashes  # to be searched for in the next file
        self.found: list[tuple[np.ndarray, np.ndarray]] = []  # keys, physical offsets
        self.counts = np.zeros(len(rows), np.int64)
        self.scanned = np.zeros(len(rows), np.int64)
        self.cut = np.zeros(len(rows), np.bool_)
        self.damaged = np.zeros(len(rows), np.bool_)
        self.damages: dict[StorePath, str] = {}  # the first damage of each index file and of the log
        self.least = LONG_MAX  # the least physical offset of a hit

    def look_into(self, file: IndexPart) -> None:
        """Walk the chains of one file. Keys with too few messages are walked again, further each time."""
        keys, hashes, max_scan = self.open_keys, self.open_hashes, self.asked.max_scan
        seen, ask = 0, min(self.wanted, max_scan + 1)
        while len(keys):
            found = file.select_phy_offsets_by_hash(
                hashes, max_num=ask, begin_timestamp=LONG_MIN, end_timestamp=LONG_MAX, threads=1
            )
            if not seen:
                self.note_lost(file, keys, hashes)
            numbers, phy_offsets = key_numbers(found.offsets), found.values
            if seen:
                fresh = np.arange(len(phy_offsets)) - found.offsets[numbers] >= seen
                numbers, phy_offsets = numbers[fresh], phy_offsets[fresh]
            candidates = keys[numbers]
            self.add(candidates, phy_offsets)
            met, counts = count_runs(candidates)
            self.scanned[met] += counts
            further = (counts == ask - seen) & (self.counts[met] < self.wanted)
            met, numbers = met[further], count_runs(numbers)[0][further]
            over = self.scanned[met] - self.counts[met] > max_scan
            self.cut[met[over]] = True
            keys, hashes = keys[numbers[~over]], hashes[numbers[~over]]
            seen, ask = ask, min(8 * ask, ask + max(ask, max_scan))
            self.close_keys(candidates)

    def close_keys(self, keys: np.ndarray) -> None:
        """Search no further file for a key that has enough messages, or too many other entries.

        Parameters: keys: those that had entries since the last call.
        """
        if len(keys) and (self.cut[keys] | (self.counts[keys] >= self.wanted)).any():
            is_open = ~self.cut[self.open_keys] & (self.counts[self.open_keys] < self.wanted)
            self.open_keys, self.open_hashes = self.open_keys[is_open], self.open_hashes[is_open]

    def note_lost(self, file: IndexPart, keys: np.ndarray, hashes: np.ndarray) -> None:
        """Mark the keys with entries that cannot be found."""
        lost, damage = file.find_lost(hashes)
        if len(lost):
            self.damaged[keys[lost]] = True
            self.damages[file.path] = damage

    def add(self, keys: np.ndarray, phy_offsets: np.ndarray) -> None:
        """Keep the candidates that match the query and are before the end of the log."""
        if not len(phy_offsets):
            return
        last = int(phy_offsets.max())
        end = self.log.end_finder.find_readable_end(last)
        if last >= end:
            kept = phy_offsets < end
            keys, phy_offsets = keys[kept], phy_offsets[kept]
        matched = self.match(keys, phy_offsets)
        hits = matched == HIT
        for row in np.flatnonzero(matched == HALF_HIT).tolist():
            hits[row] = self.log.reader.is_at_rest(int(phy_offsets[row]))
        if not hits.all():
            is_doubtful = ~hits & (matched != MISS)
            self.note_damage(keys[is_doubtful], phy_offsets[is_doubtful])
            keys, phy_offsets = keys[hits], phy_offsets[hits]
        keys, phy_offsets = distinct(keys, phy_offsets)
        if self.found and (known := self.are_known(keys, phy_offsets)).any():
            keys, phy_offsets = keys[~known], phy_offsets[~known]
        if len(keys):
            self.found.append((keys, phy_offsets))
            self.least = min(self.least, int(phy_offsets.min()))
            met, counts = count_runs(keys)
            self.counts[met] += counts

    def match(self, keys: np.ndarray, phy_offsets: np.ndarray) -> np.ndarray:
        """Compare the records of candidates with the query. Return HIT, MISS and so on for each, uint8[n]."""
        asked, matched = self.asked, np.zeros(len(keys), np.uint8)
        self.log.reader.read_ahead(phy_offsets)
        windows, window_of = self.log.reader.windows_of(phy_offsets)
        rows = keys + self.first
        match_records(
            windows, window_of, phy_offsets, rows, asked.topics, asked.keys, asked.kind, *asked.times, matched
        )
        return matched

    def note_damage(self, keys: np.ndarray, phy_offsets: np.ndarray) -> None:
        """Mark the keys of candidates whose records are damaged or lost: these may have been messages of the keys.

        A record that may be half written may become a message of the key.
        """
        if not len(keys):
            return
        statuses = self.log.find_messages(phy_offsets, columns=["phy_offset"])[1]
        is_damaged = statuses != OK
        is_missing = statuses == END
        is_damaged[is_missing] = self.are_inside(phy_offsets[is_missing])
        self.damaged[keys[is_damaged]] = True
        if is_damaged.any() and self.log.directories[0] not in self.damages:
            first = int(is_damaged.argmax())
            offset = int(phy_offsets[first])
            reason = f"the index has a message at {offset}: {self.log.error(offset, int(statuses[first]))}"
            self.damages[self.log.directories[0]] = reason

    def are_inside(self, phy_offsets: np.ndarray) -> np.ndarray:
        """Return which offsets lie between the beginning and the end of the log.

        Messages before it have expired, and a crash has removed the messages behind it.
        """
        are_inside = phy_offsets >= self.log.min_phy_offset
        if are_inside.any():
            are_inside &= phy_offsets < self.records_end
        return are_inside

    @lazy_property
    def records_end(self) -> int:
        """Where the log's last record ends, bytes, even if bytes before it are damaged."""
        return self.log.look(again=True).records_end

    def are_known(self, keys: np.ndarray, phy_offsets: np.ndarray) -> np.ndarray:
        """Return which candidates are hits already. Files and chains go back in the log, so there are seldom any."""
        known = np.zeros(len(keys), np.bool_)
        again = np.flatnonzero(phy_offsets >= self.least)
        if len(again):
            pairs = {pair for part in self.found for pair in zip(*(column.tolist() for column in part), strict=True)}
            known[again] = [(int(keys[i]), int(phy_offsets[i])) in pairs for i in again]
        return known

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the physical offsets of all keys, and how many of them each key has.

        The offsets of a key are distinct, newest first, and at most the limit.
        """
        limit = self.asked.limit
        counts = np.minimum(self.counts, limit)
        keys, phy_offsets = self.found[0] if self.found else (np.empty(0, np.int64), np.empty(0, np.int64))
        if len(self.found) > 1:
            keys, phy_offsets = distinct(*map(np.concatenate, zip(*self.found, strict=True)))
        if len(keys) > counts.sum():
            firsts = np.cumsum(self.counts) - self.counts
            phy_offsets = phy_offsets[np.arange(len(keys)) - np.repeat(firsts, self.counts) < limit]
        return phy_offsets, counts


def count_runs(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of numbers, which ascend from 0 or more, and how often each occurs."""
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return numbers[firsts], np.diff(firsts, append=len(numbers))


def distinct(keys: np.ndarray, phy_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort hits by key, newest first of a key, and drop repeated hits. Most hits come in this order already."""
    steps = np.diff(keys)
    if not ((steps > 0) | ((steps == 0) & (np.diff(phy_offsets) < 0))).all():
        order = np.lexsort((-phy_offsets, keys))
        keys, phy_offsets = keys[order], phy_offsets[order]
        first = np.ones(len(keys), np.bool_)
        first[1:] = (np.diff(phy_offsets) != 0) | (np.diff(keys) != 0)
        keys, phy_offsets = keys[first], phy_offsets[first]
    return keys, phy_offsets

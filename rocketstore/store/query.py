"""Queries by key, tag and id: candidates from the index, each verified on its record."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rocketstore.errors import CorruptFileError
from rocketstore.index.geometry import slot_offset
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_file_list import IndexFileList
from rocketstore.index.index_header import IndexHeader
from rocketstore.index.index_service import IndexService, index_key_prefix
from rocketstore.kernels.columns import require_int64
from rocketstore.kernels.commit_log import END, HALF, OK
from rocketstore.kernels.keys import TextColumn, hash_keys
from rocketstore.kernels.record_match import ANY_KEY, TAGS, UNIQ_KEY, Utf8Texts, match_records
from rocketstore.lazy import lazy_property
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import TRANSACTION_ROLLBACK

__all__ = ["Coverage", "QueryMessageResult", "QueryMessagesResult", "query_messages"]

MAX_SCAN = 100_000
MAX_KEPT = 10_000
LAST_PART = 1 << 16  # bytes of the log
_FileId = tuple[str, object]  # name and identity of an index file
KINDS = {None: ANY_KEY, "K": ANY_KEY, "U": UNIQ_KEY, "T": TAGS}


class QueryMessageResult(NamedTuple):
    """The messages of one key, newest first; ``complete`` unless one of ``reasons`` may have hidden some.

    What was put while the index was turned off is seen at a file's ends, not between two messages of one index file.
    Source: QueryMessageResult, which does not say what it lacks.
    """

    messages: MessageBatch
    complete: bool
    reasons: list[str]


class QueryMessagesResult:
    """The messages of n keys.

    Attributes: phy_offsets int64[m], those of key ``i`` from ``offsets[i]`` to ``offsets[i + 1]``, newest first;
    offsets int64[n + 1]; complete bool[n], False where messages may be missing, as of QueryMessageResult; reasons, why;
    messages, a MessageBatch.
    Source: none; RocketMQ asks for one key at a time.
    """

    def __init__(
        self, log: CommitLog, phy_offsets: np.ndarray, offsets: np.ndarray, complete: np.ndarray, reasons: list[str]
    ) -> None:
        self._log = log
        self.phy_offsets = phy_offsets
        self.offsets = offsets
        self.complete = complete
        self.reasons = reasons

    @lazy_property
    def messages(self) -> MessageBatch:
        """The messages, in the order of ``phy_offsets``, which loses what expired before they are first asked for."""
        messages, statuses = self._log.find_messages(self.phy_offsets)
        lost = np.flatnonzero(statuses)
        if len(lost):
            row = lost[self.phy_offsets[lost].argmax()]
            if self.phy_offsets[row] >= self._log.min_phy_offset:
                raise self._log.error(int(self.phy_offsets[row]), int(statuses[row]))
            self.offsets = self.offsets - np.searchsorted(lost, self.offsets)
            self.phy_offsets = np.delete(self.phy_offsets, lost)
        return messages

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> MessageBatch:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"key {i} of {n}")
        messages, i = self.messages, i % n
        return messages.take(np.arange(self.offsets[i], self.offsets[i + 1]))

    def __repr__(self) -> str:
        why = "" if self.complete.all() else f", perhaps not all: {'; '.join(self.reasons)}"
        return f"<QueryMessagesResult: {len(self):,} keys, {len(self.phy_offsets):,} messages{why}>"


def query_messages(
    coverage: Coverage,
    topic: Any,
    keys: Any,
    max_num: int,
    begin_timestamp: int,
    end_timestamp: int,
    index_type: str | None,
    max_scan: int,
    threads: int,
) -> QueryMessagesResult:
    """Find the messages of keys; the documentation is MessageStore.query_messages'."""
    max_num, max_scan, threads = map(operator.index, (max_num, max_scan, threads))
    if max_num < 1 or max_scan < 1 or threads < 1:
        raise ValueError(f"max_num={max_num}, max_scan={max_scan}, threads={threads}: at least 1 is needed")
    require_int64(begin_timestamp=begin_timestamp, end_timestamp=end_timestamp)
    keys = TextColumn(keys, "keys")
    threads = min(threads, max(keys.length, 1))
    topic = topic if isinstance(topic, str | None) else TextColumn(topic, "topic")
    hashes = hash_keys(keys, topic=index_key_prefix(topic, index_type))
    log, index = coverage.log, coverage.index
    search = _Search(
        log,
        Utf8Texts([topic] if isinstance(topic, str) else topic, "topic"),
        Utf8Texts(keys, "keys"),
        KINDS[index_type],
        (begin_timestamp, end_timestamp),
        max_num,
        max_scan,
        threads,
    )
    log.refresh()
    # Asked before: what is indexed from here on may be missed, and is not told to be covered.
    reasons = coverage.reasons(index_type)
    if index is not None:
        for file in reversed(index.files):
            if overlaps(file, log):
                search.look_into(file, hashes)
    complete = np.full(len(hashes), not reasons)
    complete &= ~search.damaged
    reasons = [*reasons, *search.damages.values()]
    if search.cut.any():
        complete &= ~search.cut
        reasons = [*reasons, f"more than {max_scan:,} entries of the index have the key's hash"]
    return QueryMessagesResult(log, *search.result(), complete, reasons)


class _Search:
    """The verified hits of n keys so far."""

    def __init__(
        self,
        log: CommitLog,
        topics: Utf8Texts,
        keys: Utf8Texts,
        kind: int,
        times: tuple[int, int],
        max_num: int,
        max_scan: int,
        threads: int,
    ) -> None:
        self.log, self.topics, self.keys, self.kind, self.times = log, topics, keys, kind, times
        self.max_num, self.max_scan, self.threads = max_num, max_scan, threads
        self.found: list[tuple[np.ndarray, np.ndarray]] = []  # rows, physical offsets
        self.counts = np.zeros(keys.length, np.int64)
        self.scanned = np.zeros(keys.length, np.int64)
        self.cut = np.zeros(keys.length, np.bool_)
        self.damaged = np.zeros(keys.length, np.bool_)
        self.damages: dict[Path, str] = {}  # of each index file, and of the log, the first
        self.least = LONG_MAX  # of the offsets found

    def look_into(self, file: IndexFile, hashes: np.ndarray) -> None:
        """Walk the chains of one file, further and further for keys that have not enough yet."""
        rows = np.flatnonzero((self.counts < self.max_num) & ~self.cut)
        seen, ask = 0, min(self.max_num, self.max_scan + 1)
        while len(rows):
            found = file.select_phy_offsets_by_hash(
                hashes[rows],
                max_num=ask,
                begin_timestamp=LONG_MIN,
                end_timestamp=LONG_MAX,
                threads=self.threads,
            )
            if file.met_wild_slot and not seen:
                self.note_wild_slots(file, rows, hashes)
            lengths = np.diff(found.offsets)
            candidates, phy_offsets = np.repeat(rows, lengths), found.values
            if seen:
                fresh = np.arange(len(phy_offsets)) - np.repeat(found.offsets[:-1], lengths) >= seen
                candidates, phy_offsets = candidates[fresh], phy_offsets[fresh]
            self.add(candidates, phy_offsets)
            self.scanned[rows] += np.maximum(lengths - seen, 0)
            rows = rows[(lengths == ask) & (self.counts[rows] < self.max_num)]
            over = self.scanned[rows] > self.max_scan
            self.cut[rows[over]] = True
            rows, seen, ask = rows[~over], ask, min(8 * ask, ask + self.max_scan)

    def note_wild_slots(self, file: IndexFile, rows: np.ndarray, hashes: np.ndarray) -> None:
        """Mark the keys whose slot names an item that there is not: which it did name is not known."""
        slots = file.wild_slots(hashes[rows])
        wild = np.flatnonzero(slots >= 0)
        if len(wild):
            self.damaged[rows[wild]] = True
            slot = int(slots[wild[0]])
            place, reason = slot_offset(slot), "names an item that there is not: what it had is not found"
            self.damages[file.path] = str(CorruptFileError(file.path, place, f"slot {slot}", reason))

    def add(self, rows: np.ndarray, phy_offsets: np.ndarray) -> None:
        """Keep the candidates that match the query and are before the end of the log."""
        if len(phy_offsets):
            kept = phy_offsets < self.log.ending.find_readable_end(int(phy_offsets.max()))
            rows, phy_offsets = rows[kept], phy_offsets[kept]
        matched = np.zeros(len(rows), np.uint8)

        def match(part: slice) -> None:
            windows, window_of = self.log.windows_of(phy_offsets[part])
            match_records(
                windows, window_of, phy_offsets[part], rows[part], self.topics, self.keys, self.kind, *self.times,
                matched[part],
            )

        ends = np.linspace(0, len(rows), self.threads + 1).astype(int).tolist()
        parts = [slice(begin, end) for begin, end in pairwise(ends)]
        if self.threads == 1:
            match(parts[0])
        else:
            with ThreadPoolExecutor(self.threads, "rocketstore-query") as pool:
                list(pool.map(match, parts))
        hits = matched.view(np.bool_)
        self.note_damage(rows[~hits], phy_offsets[~hits])
        rows, phy_offsets = distinct(rows[hits], phy_offsets[hits])
        known = self.are_known(rows, phy_offsets)
        if known.any():
            rows, phy_offsets = rows[~known], phy_offsets[~known]
        if len(rows):
            self.found.append((rows, phy_offsets))
            self.least = min(self.least, int(phy_offsets.min()))
            self.counts += np.bincount(rows, minlength=len(self.counts))

    def note_damage(self, rows: np.ndarray, phy_offsets: np.ndarray) -> None:
        """Mark the keys of candidates that are damaged or lost records: what they were is not known."""
        if not len(rows):
            return
        statuses = self.log.find_messages(phy_offsets, columns=["phy_offset"])[1]
        is_damaged = statuses != OK
        is_missing = np.isin(statuses, (END, HALF))
        is_damaged[is_missing] = self.are_inside(phy_offsets[is_missing])
        self.damaged[rows[is_damaged]] = True
        if is_damaged.any() and self.log.directories[0] not in self.damages:
            first = int(is_damaged.argmax())
            offset = int(phy_offsets[first])
            reason = f"the index has a message at {offset}: {self.log.error(offset, int(statuses[first]))}"
            self.damages[self.log.directories[0]] = reason

    def are_inside(self, phy_offsets: np.ndarray) -> np.ndarray:
        """Tell which offsets are not of expired messages, nor of those that a crash took from the log's end."""
        are_inside = phy_offsets >= self.log.min_phy_offset
        if are_inside.any():
            are_inside &= phy_offsets < self.records_end
        return are_inside

    @lazy_property
    def records_end(self) -> int:
        """Where the log's last record ends, also if something before it is damaged."""
        log = self.log
        end, limit = log.max_phy_offset, log.find_limit()
        while not log.ending.is_behind(end) and (later := log.find_later(end + 1, limit)) is not None:
            end = log.walk(log.scanner(()), later)
        return min(end, limit)

    def are_known(self, rows: np.ndarray, phy_offsets: np.ndarray) -> np.ndarray:
        """Tell which are hits already. Files and chains go back in the log, so mostly none can be."""
        known = np.zeros(len(rows), np.bool_)
        again = np.flatnonzero(phy_offsets >= self.least)
        if len(again):
            pairs = {pair for part in self.found for pair in zip(*(column.tolist() for column in part), strict=True)}
            known[again] = [(int(rows[i]), int(phy_offsets[i])) in pairs for i in again]
        return known

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Physical offsets key by key, newest first, each once and ``max_num`` at most; and where each key's begin."""
        rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in self.found)])
        phy_offsets = np.concatenate([np.empty(0, np.int64), *(offsets for _, offsets in self.found)])
        rows, phy_offsets = distinct(rows, phy_offsets)
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        rows, phy_offsets = rows[rank < self.max_num], phy_offsets[rank < self.max_num]
        offsets = np.searchsorted(rows, np.arange(self.keys.length + 1))
        return phy_offsets, offsets.astype(np.int64)


def distinct(rows: np.ndarray, phy_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort hits by row, and in it newest first, and drop what is there twice. Mostly they are so already."""
    steps = np.diff(rows)
    if not ((steps > 0) | ((steps == 0) & (np.diff(phy_offsets) < 0))).all():
        order = np.lexsort((-phy_offsets, rows))
        rows, phy_offsets = rows[order], phy_offsets[order]
        first = np.ones(len(rows), np.bool_)
        first[1:] = (np.diff(phy_offsets) != 0) | (np.diff(rows) != 0)
        rows, phy_offsets = rows[first], phy_offsets[first]
    return rows, phy_offsets


# ---- coverage ----------------------------------------------------------------------------------------------


def overlaps(file: IndexFile, log: CommitLog) -> bool:
    """Whether an index file has items of messages that the log still has."""
    header = file.header
    return header.index_count > 1 and header.end_phy_offset >= log.min_phy_offset


class _Headers(dict[_FileId, IndexHeader]):
    """The headers of index files, by file."""

    def __init__(self, headers: dict[_FileId, IndexHeader]) -> None:
        super().__init__(headers)
        bounds = [(header.begin_phy_offset, header.end_phy_offset) for header in headers.values()]
        self._begins, self._ends = np.array(bounds, np.int64).reshape(-1, 2).T
        self._names = [name for name, _ in headers]

    def names_around(self, phy_offset: int) -> list[str]:
        """Return the names of the files between whose first and last message a physical offset is."""
        is_around = (self._begins <= phy_offset) & (phy_offset <= self._ends)
        return [self._names[number] for number in np.flatnonzero(is_around).tolist()]


class Coverage:
    """Which parts of a commit log an index covers. What was looked up once is kept.

    An index file counts as covering all from its first message to its last: a hole in it, as of a broker whose
    ``messageIndexEnable`` was off for a while, is not seen.
    """

    def __init__(self, log: CommitLog, index: IndexService | None) -> None:
        self.log, self.index = log, index
        self._places: dict[tuple[Any, ...], int | None] = {}
        self._split: dict[_FileId, bool] = {}  # of full files
        self._tagged: dict[_FileId, int] = {}  # up to where the last message with tags has its entry
        self._untagged: dict[_FileId, int] = {}  # up to where no message of its part has tags

    def reasons(self, index_type: str | None) -> list[str]:
        """Tell what the index does not have and should, for keys or for tags."""
        if self.index is None:
            return ["the store has no index"]
        self.index.check_file_sizes()
        what = "tags" if index_type == "T" else "keys"
        files = self.index.files
        headers = _Headers({(file.path.name, file.identity): file.header for file in files if overlaps(file, self.log)})
        reasons = [str(error) for error in self.index.damaged.values()]
        reasons += [
            f"messages with {what} from offset {first} to {end} are not indexed"
            for begin, end in self._gaps(files, headers, index_type)
            if (first := self._place(first_indexable, begin, end, index_type)) is not None
        ]
        if index_type == "T":
            untagged = (file for file in headers if not self._has_tags(file, files, headers))
            reasons += [f"{name} lacks entries of tags" for name, _ in untagged]
        return reasons

    def _gaps(
        self, files: IndexFileList, headers: _Headers, index_type: str | None
    ) -> list[tuple[int, int]]:
        gaps, place = [], self.log.min_phy_offset
        begins = [header.begin_phy_offset for header in headers.values()][1:]
        for (file, header), following in zip_longest(headers.items(), begins):
            gaps.append((place, header.begin_phy_offset))
            last = header.end_phy_offset
            # Of a message that the next file begins with, that one tells.
            is_covered = last != following and (index_type == "T" or not self._is_split(file, files, headers))
            place = max(place, last + is_covered)
        gaps.append((place, self.log.max_phy_offset))
        return [(begin, end) for begin, end in gaps if begin < end]

    def _is_split(self, file: _FileId, files: IndexFileList, headers: _Headers) -> bool:
        """Whether a full file's last message lacks entries of keys: they were in the next file, which is lost."""
        if file not in self._split:
            part = files.find(file[0])
            is_full = part is not None and part.is_write_full
            message = self.log.find_message(headers[file].end_phy_offset) if is_full else None
            if message is None:
                return False
            keys = [key for key in (message.uniq_key, *message.keys) if key is not None]
            self._split[file] = not self._has_entries(message, keys, files, headers)
        return self._split[file]

    def _place(
        self, find: Callable[[CommitLog, int, int, str | None], int | None], begin: int, end: int,
        index_type: str | None,
    ) -> int | None:
        """Find a message in a part of the log that should be in the index."""
        place = find, begin, end, index_type
        if place not in self._places:
            if len(self._places) > MAX_KEPT:
                self._places.clear()  # the log's end moves on and on
            self._places[place] = find(self.log, begin, end, index_type)
        return self._places[place]

    def _has_tags(self, file: _FileId, files: IndexFileList, headers: _Headers) -> bool:
        """Whether the first and the last message with tags in a file's part of the log have their entries.

        A release that puts none may have gone on with the file of one that does, or the other way round.
        """
        begin, end = self._tagged.get(file), headers[file].end_phy_offset + 1
        if begin is None:
            begin = self._first_with_tags(file, headers[file])
            if begin is None:
                return True
            if not self._has_tag(begin, files, headers):
                return False
        last = self._place(last_indexable, begin, end, "T")
        if last is not None and not self._has_tag(last, files, headers):
            return False  # and what has none may grow
        self._tagged[file] = end
        return True

    def _first_with_tags(self, file: _FileId, header: IndexHeader) -> int | None:
        """Find the first message with tags in a file's part of the log, from where it was looked for last."""
        begin = self._untagged.get(file, header.begin_phy_offset)
        first = self._place(first_indexable, begin, header.end_phy_offset + 1, "T")
        self._untagged[file] = header.end_phy_offset if first is None else first
        return first

    def _has_tag(self, phy_offset: int, files: IndexFileList, headers: _Headers) -> bool:
        message = self.log.find_message(phy_offset)
        return message is None or self._has_entries(message, [f"T#{message.tags}"], files, headers)

    def _has_entries(
        self, message: Message, keys: list[str], files: IndexFileList, headers: _Headers
    ) -> bool:
        """Whether keys of a message have their entries, which more than one file may have."""
        at, lacking = message.phy_offset, set(hash_keys(keys, topic=message.topic).tolist())
        for name in headers.names_around(at):
            if (file := files.find(name)) is not None:
                lacking.difference_update(hashes_at(file, at))
        return not lacking


def hashes_at(file: IndexFile, phy_offset: int) -> list[int]:
    """Give the hashes of a message's items in a file."""
    items = file.items(1, max(min(file.header.index_count, file.index_num), 1))
    begin = bisect_left(items["phy_offset"], phy_offset)
    hashes: list[int] = items["key_hash"][begin : bisect_right(items["phy_offset"], phy_offset, begin)].tolist()
    return hashes


def first_indexable(log: CommitLog, begin: int, end: int, index_type: str | None) -> int | None:
    """Find the first message in a part of the log that should be in the index."""
    return next(indexable(log, begin, end, index_type), None)


def last_indexable(log: CommitLog, begin: int, end: int, index_type: str | None) -> int | None:
    """Find the last one, in more and more of the log's end."""
    size = LAST_PART
    while begin < end:
        start = max(begin, end - size)
        found = deque(indexable(log, start, end, index_type), 1)
        if found:
            return found[0]
        end, size = start, 8 * size
    return None


def indexable(log: CommitLog, begin: int, end: int, index_type: str | None) -> Iterator[int]:
    """Give the messages in a part of the log that have a key, or tags, and were not rolled back."""
    columns = ("phy_offset", "sys_flag", "keys", "uniq_key", "tags")
    for batch in log.scan(begin, end, columns=columns, on_corrupt="skip", batch_size=256):
        keyed = batch.tags.valid if index_type == "T" else (np.diff(batch.keys.offsets) > 0) | batch.uniq_key.valid
        yield from batch.phy_offset[keyed & (batch.sys_flag & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK)].tolist()

"""Compare the indexes of two stores: their entries by physical offset, or which messages they find by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from rocketstore.compare.differences import INDEX, Difference, Differences
from rocketstore.disk.ranges import Range
from rocketstore.index.index_file import IndexFile
from rocketstore.index.key_lookup import IndexPart, KeyIndex, KeySpan
from rocketstore.index.rocks_index import RocksIndex
from rocketstore.kernels.keys import hash_keys
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch

ENTRIES = 1 << 19  # entries of a file that are compared at once
MOST_RANGES = 1 << 12  # into which a damaged part is divided at most
SPAN = 256 << 20  # bytes of the log whose entries in a RocksDB are compared at once
MARGIN = 2000  # milliseconds: an index file keeps seconds
MOST_FOUND = 1 << 20  # entries of one hash that are searched
NOTHING = np.empty(0, np.int64)
Entries = tuple[np.ndarray, np.ndarray]  # physical offsets and hashes, int64[n] each


class EntryReader:
    """Reads the entries with which an index answers.

    No query finds an item that its chain does not reach. So the entries of a file whose chains are damaged are those
    that a search for their hashes finds.
    """

    def __init__(self, index: KeyIndex | None) -> None:
        self._index = index
        self._spans: list[tuple[str, KeySpan]] = []
        self._counts: list[int] = []  # of the ranges into which the entries of each span are divided
        for part in () if index is None else index.files:
            if (span := part.span) is not None and 0 <= span.first <= span.last < LONG_MAX:
                count, most = (len(part), ENTRIES) if isinstance(part, IndexFile) else (span.last - span.first, SPAN)
                self._spans.append((part.path.name, span))
                self._counts.append(min(count // most, MOST_RANGES) + 1)
        self._are_sound: dict[str, bool] = {}

    def bounds(self, begin: int, end: int) -> Iterator[int]:
        """Yield physical offsets that divide a range into ranges with not too many entries."""
        for (_, span), count in zip(self._spans, self._counts, strict=True):
            first, last = max(span.first, begin), min(span.last + 1, end)
            yield from (first + (last - first) * number // count for number in range(count + 1 if first < last else 0))

    def read(self, begin: int, end: int) -> Entries:
        """Return the entries of the messages that begin in a range of physical offsets: sorted, each pair once."""
        names = [name for name, span in self._spans if span.first < end and span.last >= begin]
        parts = [] if self._index is None else [part for name in names if (part := self._index.files.find(name))]
        found = [(NOTHING, NOTHING), *(self._read_part(part, begin, end) for part in parts)]
        offsets, hashes = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.lexsort((hashes, offsets))
        offsets, hashes = offsets[order], hashes[order]
        is_first = np.ones(len(offsets), np.bool_)
        is_first[1:] = (offsets[1:] != offsets[:-1]) | (hashes[1:] != hashes[:-1])
        return offsets[is_first], hashes[is_first]

    def _read_part(self, part: IndexPart, begin: int, end: int) -> Entries:
        offsets, hashes = part.entries_between(begin, end - 1)
        if isinstance(part, IndexFile) and not self._is_sound(part):
            wanted = np.unique(hashes[hashes >= 0]).astype(np.int32)  # no key has a negative hash
            found = part.select_phy_offsets_by_hash(wanted, max_num=MOST_FOUND)
            hashes = np.repeat(wanted.astype(np.int64), np.diff(found.offsets))
            is_inside = (found.values >= begin) & (found.values < end)
            offsets, hashes = found.values[is_inside], hashes[is_inside]
        return offsets, hashes

    def _is_sound(self, part: IndexFile) -> bool:
        """Return whether the chains of a file reach all its items."""
        name = part.path.name
        if name not in self._are_sound:
            self._are_sound[name] = part.has_sound_chains()
        return self._are_sound[name]


class EntryComparison:
    """Compares the entries of two indexes by physical offset, where both logs have the messages."""

    def __init__(self, log_a: CommitLog, index_a: KeyIndex | None, log_b: CommitLog, index_b: KeyIndex | None) -> None:
        self.logs = log_a, log_b
        self.readers = EntryReader(index_a), EntryReader(index_b)

    def compare(self, ranges: Sequence[Range], differences: Differences) -> None:
        """Compare the entries of ranges of physical offsets that both logs have."""
        only_a, only_b = UnpairedEntries(), UnpairedEntries()
        for begin, end in ranges:
            inside = {bound for reader in self.readers for bound in reader.bounds(begin, end)}
            for first, last in pairwise(sorted({begin, end, *inside})):
                a, b = (reader.read(first, last) for reader in self.readers)
                if not (np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])):
                    in_a, in_b = split_entries(a, b)
                    only_a.add(*in_a)
                    only_b.add(*in_b)
        only_a.report("index-only-in-a", self.logs, differences)
        only_b.report("index-only-in-b", self.logs, differences)


class UnpairedEntries:
    """The entries that only one index has. Only the first, the last and their number are kept.

    Attributes: first: physical offset and hash of the first entry. last: the physical offset of the last one.
    """

    def __init__(self) -> None:
        self.first = (-1, -1)
        self.last = -1
        self.count = 0

    def add(self, offsets: np.ndarray, hashes: np.ndarray) -> None:
        """Add entries in the order of the log."""
        if len(offsets):
            if not self.count:
                self.first = int(offsets[0]), int(hashes[0])
            self.last = int(offsets[-1])
            self.count += len(offsets)

    def report(self, kind: str, logs: tuple[CommitLog, CommitLog], differences: Differences) -> None:
        """Add the difference if there is an entry."""
        if not self.count:
            return
        offset, key_hash = self.first
        a, b = (log.find_message(offset) for log in logs)
        found = Difference(kind, INDEX, offset, self.last + 1, self.count).with_message(a, b)
        key = find_key(a or b, key_hash)
        differences.add(found if key is None else found._replace(key=key))


def find_key(message: Message | None, key_hash: int) -> str | None:
    """Return the key of a message that has a hash; None without one."""
    if message is None:
        return None
    tags = [] if message.tags is None else [f"T#{message.tags}"]
    keys = [key for key in (*message.keys, message.uniq_key, *tags) if key]
    hashes = hash_keys(keys, topic=message.topic).tolist() if keys else []
    return next((key for key, found in zip(keys, hashes, strict=True) if found == key_hash), None)


def split_entries(a: Entries, b: Entries) -> tuple[Entries, Entries]:
    """Return the entries that only A has, and those that only B has. Each is sorted and has every pair once."""
    offsets, hashes = (np.concatenate(columns) for columns in zip(a, b, strict=True))
    is_b = np.arange(len(offsets)) >= len(a[0])
    order = np.lexsort((hashes, offsets))
    offsets, hashes, is_b = offsets[order], hashes[order], is_b[order]
    is_pair = (offsets[1:] == offsets[:-1]) & (hashes[1:] == hashes[:-1])
    is_alone = np.ones(len(offsets), np.bool_)
    is_alone[1:] &= ~is_pair
    is_alone[:-1] &= ~is_pair
    only_a, only_b = is_alone & ~is_b, is_alone & is_b
    return (offsets[only_a], hashes[only_a]), (offsets[only_b], hashes[only_b])


class KeyComparison:
    """Compares which messages two indexes find by their keys, where the physical offsets of the stores differ."""

    def __init__(self, index_a: KeyIndex | None, index_b: KeyIndex | None) -> None:
        self.indexes = index_a, index_b
        self._found = {"index-only-in-a": UnpairedKeys(), "index-only-in-b": UnpairedKeys()}

    def compare(self, a: MessageBatch, b: MessageBatch) -> None:
        """Search for the keys of messages. Parameters: the same messages of A and of B, in the same order."""
        rows, topics, keys = find_keys(a)
        if not keys:
            return
        found_a, found_b = (
            find_entries(index, batch, rows, topics, keys) for index, batch in zip(self.indexes, (a, b), strict=True)
        )
        for kind, lost in (("index-only-in-a", found_a & ~found_b), ("index-only-in-b", found_b & ~found_a)):
            places = np.flatnonzero(lost).tolist()
            if places:
                row = int(rows[places[0]])
                self._found[kind].add(len(places), a[row], b[row], keys[places[0]])

    def report(self, differences: Differences) -> None:
        """Add the differences that were found."""
        for kind, group in self._found.items():
            if group.first is not None:
                a, b, key = group.first
                differences.add(Difference(kind, INDEX, number=group.count).with_message(a, b)._replace(key=key))


class UnpairedKeys:
    """The keys that only one index finds. Only the first one and their number are kept.

    Attributes: first: the first message in A and in B, and its key.
    """

    def __init__(self) -> None:
        self.first: tuple[Message, Message, str] | None = None
        self.count = 0

    def add(self, count: int, a: Message, b: Message, key: str) -> None:
        self.count += count
        if self.first is None:
            self.first = a, b, key


def find_keys(batch: MessageBatch) -> tuple[np.ndarray, list[str], list[str]]:
    """Return the row, the topic and the key of each key of a batch, unique keys included."""
    rows, topics, keys = [], [], []
    columns = zip(batch.topic, batch.keys, batch.uniq_key, strict=True)
    for row, (topic, words, uniq_key) in enumerate(columns):
        for key in dict.fromkeys([*words, *([uniq_key] if uniq_key else [])]):
            rows.append(row)
            topics.append(topic)
            keys.append(key)
    return np.array(rows, np.int64), topics, keys


def find_entries(
    index: KeyIndex | None, batch: MessageBatch, rows: np.ndarray, topics: list[str], keys: list[str]
) -> np.ndarray:
    """Return which keys the index finds with their own message, bool[n]. Parameters: rows: of the keys in the batch."""
    is_found = np.zeros(len(keys), np.bool_)
    if index is None:
        return is_found
    hashes = hash_keys(keys, topic=topics)
    places = batch.phy_offset[rows]
    times = batch.store_timestamp_ms[rows]
    # An index file keeps the time of a message wrongly if the clock was set back: search at any time then.
    for begin, end in ((int(times.min()) - MARGIN, int(times.max()) + MARGIN), (LONG_MIN, LONG_MAX)):
        missing = np.flatnonzero(~is_found)
        if len(missing):
            found = search_entries(
                index,
                hashes[missing],
                [topics[i] for i in missing],
                [keys[i] for i in missing],
                begin,
                end,
                places[missing],
            )
            is_found[missing] = found
    return is_found


def search_entries(
    index: KeyIndex, hashes: np.ndarray, topics: list[str], keys: list[str], begin: int, end: int, places: np.ndarray
) -> np.ndarray:
    """Return which keys have an entry with the physical offset of their message, bool[n].

    Parameters: begin, end: store times, epoch ms, both inclusive. places: physical offsets, int64[n].
    """
    parts: Iterator[IndexPart] = iter(index.files)
    if isinstance(index, RocksIndex):
        topic_texts, key_texts = ([text.encode("utf-8", "replace") for text in texts] for texts in (topics, keys))
        parts = iter(index.parts_for_keys(hashes, topic_texts, key_texts, None))
    is_found = np.zeros(len(hashes), np.bool_)
    for part in parts:
        span = part.span
        if span is None or span.last < places.min() or span.first > places.max():
            continue
        found = part.select_phy_offsets_by_hash(hashes, max_num=MOST_FOUND, begin_timestamp=begin, end_timestamp=end)
        rows = np.repeat(np.arange(len(hashes)), np.diff(found.offsets))
        is_found[rows[found.values == places[rows]]] = True
    return is_found

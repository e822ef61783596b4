"""RocksIndex: the index of a store in RocksDB. It has the keys themselves, not only their hashes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.disk.rocksdb.rocks_database import KeyRange, RocksDatabase
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.index.index_tail import IndexTail, read_index_tail
from rocketstore.index.key_lookup import IndexPart, KeySpan
from rocketstore.index.request_items import INDEXED_COLUMNS
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.phy_offsets import PhyOffsets
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.messages.message import Message

FAMILY = "default"
HOUR, PHY_OFFSET, TIME = struct.Struct(">q"), struct.Struct(">q"), struct.Struct(">q")
HOUR_MS = 3_600_000
LAST_OFFSET = b"lastOffsetPy"
NOTES = (LAST_OFFSET, b"lastStoreTimeStamp")  # rows that are no entries
KEY, UNIQ_KEY, TAGS = b"K", b"U", b"T"
TYPES = {None: (KEY, UNIQ_KEY), "K": (KEY, UNIQ_KEY), "U": (UNIQ_KEY,), "T": (TAGS,)}
RANGES_AT_ONCE = 512
MESSAGES_AT_ONCE = 256
Entry = tuple[int, int]  # physical offset, store time


class RocksIndex(Closable):
    """The index in one RocksDB as one part, and the entries of the log behind it as another part.

    Row of an entry: the hour of the store time in ms int64, "@", topic, "@K@" and a key, or "@T@" and the tags, or
    "@U", "@", the unique key, "@", physical offset int64; value the store time int64. A message without a unique key
    has no entries. Row "lastOffsetPy": the physical offset of the last message that has entries, int64.

    Source: IndexRocksDBStore, IndexRocksDBRecord, MessageRocksDBStorage.
    """

    damaged: Mapping[object, CorruptFileError] = {}  # never changed

    def __init__(self, database: RocksDatabase, log: Any) -> None:
        """Parameters: log: the commit log, whose messages are compared with the entries."""
        self.database = database
        self._log = log
        self._firsts: dict[int, int] = {}  # the least physical offset of an hour: rows are never added to an old hour
        self._tail: IndexTail | None = None

    @property
    def files(self) -> RocksIndexParts:
        """The parts. The entries of the last messages are only in the memory of a broker; the log has their keys."""
        return RocksIndexParts(self._with_tail(RocksIndexPart(self.database, self._log, self._firsts)))

    def _with_tail(self, part: RocksIndexPart) -> tuple[IndexPart, ...]:
        last = part.read_last_offset()
        self._tail = None if self._log is None else read_index_tail(self._log, last, self._tail)
        return (part,) if self._tail is None else (part, self._tail)

    def check_file_sizes(self) -> None:
        """Open the RocksDB again if a broker has written into it."""
        self.database.refresh()

    def parts_for_keys(
        self, hashes: np.ndarray, topics: Sequence[bytes], keys: Sequence[bytes], index_type: str | None
    ) -> RocksIndexParts:
        """Return the parts for a query: in RocksDB, entries are found by its texts.

        Parameters: hashes: of the keys, int32[n]. topics: UTF-8, n of them, or one for all keys. keys: UTF-8.
        """
        of_keys = [topics[0]] * len(keys) if len(topics) == 1 else topics
        prefixes: dict[int, list[bytes]] = {}
        for number, topic, key in zip(hashes.tolist(), of_keys, keys, strict=True):
            made = (_text_of(topic, kind, key) for kind in TYPES[index_type])
            prefixes.setdefault(number, []).extend(made)
        return RocksIndexParts(self._with_tail(RocksIndexPart(self.database, self._log, self._firsts, prefixes)))

    def close(self) -> None:
        """Close the RocksDB."""
        self.database.close()


@dataclass(frozen=True)
class RocksIndexParts:
    """The parts of a RocksIndex, oldest first: the RocksDB, and the entries of the log behind it, if they are read."""

    parts: tuple[IndexPart, ...]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[IndexPart]:
        return iter(self.parts)

    def __reversed__(self) -> Iterator[IndexPart]:
        return reversed(self.parts)

    def find(self, name: str) -> IndexPart | None:
        """Return the part with a name."""
        return next((part for part in self.parts if part.path.name == name), None)


@dataclass(frozen=True)
class RocksIndexPart:
    """All entries of a RocksDB.

    Attributes: firsts: the least physical offset of an hour, cached. prefixes: the texts that a search by hash looks
    for, by hash.
    """

    database: RocksDatabase
    log: Any
    firsts: dict[int, int]
    prefixes: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    identity: ClassVar[str] = "RocksDB"
    is_write_full: ClassVar[bool] = False

    @property
    def path(self) -> StorePath:
        return self.database.path

    @property
    def span(self) -> KeySpan | None:
        """The part of the log that has entries, by the entries of the first and the last hour; None without one."""
        hours = list(self._hours())
        if not hours:
            return None
        if hours[0] not in self.firsts:
            self.firsts[hours[0]] = min(offset for offset, _ in self._entries_of_hour(hours[0]))
        last = self.read_last_offset()
        if last < 0:
            last = max(offset for offset, _ in self._entries_of_hour(hours[-1]))
        return KeySpan(self.firsts[hours[0]], last)

    def select_phy_offsets_by_hash(
        self,
        key_hashes: np.ndarray,
        *,
        max_num: int = LONG_MAX,
        begin_timestamp: int = LONG_MIN,
        end_timestamp: int = LONG_MAX,
        threads: int = 1,
    ) -> PhyOffsets:
        """Find the offsets of hashes, int32[n], whose texts are known, newest first. Parameters: as for KeyLookup."""
        wanted = {prefix for number in key_hashes.tolist() for prefix in self.prefixes.get(number, ())}
        found = self._find_entries(sorted(wanted), begin_timestamp, end_timestamp)
        of_hashes = []
        for number in key_hashes.tolist():
            offsets = {offset for prefix in self.prefixes.get(number, ()) for offset in found.get(prefix, ())}
            of_hashes.append(sorted(offsets, reverse=True)[:max_num])
        ends = np.cumsum([0, *map(len, of_hashes)], dtype=np.int64)
        return PhyOffsets(np.array([offset for offsets in of_hashes for offset in offsets], np.int64), ends)

    def find_lost(self, key_hashes: np.ndarray) -> tuple[np.ndarray, str]:
        """Return that no hash has entries that cannot be found: damage is an error at once."""
        return np.empty(0, np.int64), ""

    def entries_between(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return physical offsets and hashes, int64[k] each, of the entries that messages of the log have.

        Parameters: first, last: physical offsets of messages, both inclusive.
        """
        offsets: list[int] = []
        hashes: list[int] = []
        columns = (*INDEXED_COLUMNS, "store_timestamp")
        for batch in self.log.scan(first, last + 1, columns=columns, on_corrupt="skip", batch_size=MESSAGES_AT_ONCE):
            rows = {row: key for message in batch for row, key in _expected_rows(message)}
            ranges = [KeyRange(row, row + b"\0") for row in sorted(rows)]
            for row, _ in self._read(ranges):
                (offset,) = PHY_OFFSET.unpack(row[-PHY_OFFSET.size :])
                topic, key = rows[row]
                offsets.append(offset)
                hashes.append(int(hash_keys([key], topic=topic)[0]))
        return np.array(offsets, np.int64), np.array(hashes, np.int64)

    # ---- rows ----------------------------------------------------------------------------------------------

    def _find_entries(self, prefixes: Sequence[bytes], begin: int, end: int) -> dict[bytes, list[int]]:
        """Return the physical offsets of entries by the texts with which their keys begin, behind the hour.

        Parameters: begin, end: store times, epoch ms, both inclusive.
        """
        found: dict[bytes, list[int]] = {prefix: [] for prefix in prefixes}
        hours = [hour for hour in self._hours() if begin - HOUR_MS < hour <= end]
        ranges = (KeyRange.of_prefix(HOUR.pack(hour) + prefix) for hour in hours for prefix in prefixes)
        for key, value in self._read(ranges):
            offset, time = self._parse(key, value)
            text = key[HOUR.size : -PHY_OFFSET.size]
            if begin <= time <= end:
                for prefix in _prefixes_of(text):
                    if prefix in found:
                        found[prefix].append(offset)
        return found

    def _hours(self) -> Iterator[int]:
        """Yield the hours that have entries, in ms."""
        place = KeyRange(b"", NOTES[0])
        while (row := self.database.find_first(FAMILY, place)) is not None:
            self._parse(*row)
            (hour,) = HOUR.unpack_from(row[0])
            yield hour
            place = KeyRange(KeyRange.of_prefix(HOUR.pack(hour)).end or NOTES[0], NOTES[0])

    def _entries_of_hour(self, hour: int) -> Iterator[Entry]:
        return (self._parse(key, value) for key, value in self._read([KeyRange.of_prefix(HOUR.pack(hour))]))

    def read_last_offset(self) -> int:
        """Return where the last message begins that has entries, as the RocksDB notes it; -1 if it does not."""
        found = self.database.find_first(FAMILY, KeyRange(LAST_OFFSET, LAST_OFFSET + b"\0"))
        return PHY_OFFSET.unpack(found[1])[0] if found is not None and len(found[1]) == PHY_OFFSET.size else -1

    def _read(self, ranges: Any) -> Iterator[tuple[bytes, bytes]]:
        some: list[KeyRange] = []
        for keys in ranges:
            some.append(keys)
            if len(some) == RANGES_AT_ONCE:
                yield from (row for rows in self.database.read(FAMILY, *some) for row in rows)
                some = []
        yield from (row for rows in self.database.read(FAMILY, *some) for row in rows)

    def _parse(self, key: bytes, value: bytes) -> Entry:
        """Return the physical offset and the store time of an entry. Raises: CorruptFileError for another row."""
        text = key[HOUR.size : -PHY_OFFSET.size]
        if len(value) != TIME.size or not text.startswith(b"@") or not text.endswith(b"@"):
            raise CorruptFileError(self.database.path, 0, "RocksDB", f"the key {key!r:.200} of an entry cannot be")
        return PHY_OFFSET.unpack(key[-PHY_OFFSET.size :])[0], TIME.unpack(value)[0]


def _text_of(topic: bytes, kind: bytes, key: bytes) -> bytes:
    return b"@%s@%s@%s@" % (topic, kind, key)


def _prefixes_of(text: bytes) -> Iterator[bytes]:
    """Yield the begins of a text that end with "@": which of them ends with the key is unknown, as keys may have it."""
    place = text.find(b"@")
    while place >= 0:
        yield text[: place + 1]
        place = text.find(b"@", place + 1)


def _expected_rows(message: Message) -> Iterator[tuple[bytes, tuple[str, str]]]:
    """Yield the key of each row that a message has in the index, with its topic and its key in index files."""
    topic, uniq_key = message.topic, message.uniq_key
    if not uniq_key:
        return
    hour = HOUR.pack(message.store_timestamp // HOUR_MS * HOUR_MS)
    place = PHY_OFFSET.pack(message.phy_offset)
    yield hour + _text_of(_utf8(topic), UNIQ_KEY, _utf8(uniq_key)) + place, (topic, uniq_key)
    for key in message.keys:
        yield hour + _text_of(_utf8(topic), KEY, _utf8(key)) + _utf8(uniq_key) + b"@" + place, (topic, key)
    if message.tags:
        text = _text_of(_utf8(topic), TAGS, _utf8(message.tags))
        yield hour + text + _utf8(uniq_key) + b"@" + place, (topic, f"T#{message.tags}")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

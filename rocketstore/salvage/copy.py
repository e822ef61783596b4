"""What salvage writes: queue offsets without gaps, and the files of the new log."""

from __future__ import annotations

import heapq
import itertools
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.create import create_file
from rocketstore.disk.mapped_file import make_directory, sync_path
from rocketstore.dispatch.light_queues import more_queues
from rocketstore.errors import StoreError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import read_message
from rocketstore.kernels.dispatch import MULTI_DISPATCH, RequestScanner
from rocketstore.kernels.queue_id import QueueId
from rocketstore.kernels.salvage import copy_records
from rocketstore.messages.topics import is_file_name, split_names
from rocketstore.salvage.find import MIN_RECORD
from rocketstore.store.writer import MAX_DECLARED_QUEUES

__all__ = ["LOG_SIZE", "LogCopy", "QueueOffsets", "with_property"]

LOG_SIZE = "mapped_file_size_commit_log"
OUT_SIZE = 4 << 20
MIN_INNER_MESSAGE = 22
MAX_BLANK_FILES = 16
MAX_PROPERTIES = 32767
BLANK_HEAD = struct.Struct(">iI")
BLANK_MAGIC = 0xCBD43194
MAGIC_V1 = bytes.fromhex("DAA320A7")
BODY = 84  # where the length of the body is, if both hosts are of IPv4


class LightMessage(NamedTuple):
    """A message in a queue that INNER_MULTI_DISPATCH names: ``offset`` is the one at ``place`` of its ``offsets``."""

    row: int
    place: int
    queue: QueueId
    offset: int
    offsets: str


class QueueOffsets:
    """Gives the messages of each queue offsets without gaps, the last of them its own."""

    def __init__(self, scanner: RequestScanner, config: StoreConfig) -> None:
        self.scanner, self.config = scanner, config
        self.counts, self.messages, self.ends = (np.zeros(0, np.int64) for _ in range(3))
        self.batches: set[str] = set()
        self.light: dict[tuple[str, QueueId], list[int]] = {}  # by topic, queue that is named: messages, highest offset

    def note(self, requests: np.ndarray, buffer: Buffer, base: int) -> None:
        """Count messages by queue. An offset that is larger than a log can have until then is a mistake."""
        more = np.zeros(len(self.scanner.queues) - len(self.counts), np.int64)
        self.counts, self.messages, self.ends = (np.append(a, more) for a in (self.counts, self.messages, self.ends))
        queues, own, sizes = requests["queue"], requests["msg_base_offset"], np.maximum(requests["batch_size"], 0)
        np.add.at(self.counts, queues, 1)
        np.add.at(self.messages, queues, sizes)
        limit = requests["phy_offset"] // np.where(requests["batch_size"] == 1, MIN_RECORD, MIN_INNER_MESSAGE)
        good = (own >= 0) & (own <= limit)
        np.maximum.at(self.ends, queues[good], own[good] + sizes[good])
        for queue in np.unique(queues[requests["batch_size"] != 1]):
            self.batches.add(self.scanner.queues[queue][0])
        for row, queue, properties in self.multi_dispatched(requests, buffer, base):
            for other, offset in more_queues(queue, properties, self.config, ()):  # batches are known at the end
                known = self.light.setdefault((queue[0], other), [0, -1])
                known[0] += 1
                if offset <= requests["phy_offset"][row] // MIN_RECORD:
                    known[1] = max(known[1], offset)

    def multi_dispatched(
        self, requests: np.ndarray, buffer: Buffer, base: int
    ) -> Iterator[tuple[int, QueueId, dict[str, str]]]:
        """Row, queue and properties of each message that is for more queues than its own, if there are such queues."""
        rows = np.flatnonzero(requests["flags"] & MULTI_DISPATCH) if self.config.enable_multi_dispatch else ()
        for row in rows:
            fields = read_message(buffer, base, int(requests["phy_offset"][row]), at_rest=True)[1]
            if fields is not None:
                yield int(row), self.scanner.queues[requests["queue"][row]], fields["properties"]

    def settle(self, batch_topics: Iterable[str]) -> None:
        """Give each queue its first offset, when all messages were counted."""
        self.batches.update(batch_topics)
        self.numbers = {queue: number for number, queue in enumerate(self.scanner.queues[: len(self.counts)])}
        light = {pair: known for pair, known in self.light.items() if not self.batches & {pair[0], pair[1][0]}}
        for _, queue in light:
            self.numbers.setdefault(queue, len(self.numbers))
        self.is_batch = np.array([topic in self.batches for topic, _ in self.numbers], bool)
        more = np.zeros(len(self.numbers) - len(self.counts), np.int64)
        counts, messages, ends = (np.append(a, more) for a in (self.counts, self.messages, self.ends))
        for (_, queue), (count, highest) in light.items():
            number = self.numbers[queue]
            counts[number] += count
            ends[number] = max(ends[number], highest + 1)
        self.next = np.maximum(ends - np.where(self.is_batch, messages, counts), 0)
        self.changed = np.zeros(len(self.numbers), np.int64)
        self.begins_late = bool(self.next[counts > 0].any())

    def assign(
        self, requests: np.ndarray, buffer: Buffer, base: int
    ) -> tuple[np.ndarray, Iterator[tuple[int, str, str]]]:
        """The queue offsets of messages, int64[n]; row, name and value of properties that have other offsets now."""
        light = list(self.light_messages(requests, buffer, base))
        at = np.array([message.row + 1 for message in light], np.int64)
        own, old = requests["queue"], requests["msg_base_offset"]
        sizes = np.where(self.is_batch[own], np.maximum(requests["batch_size"], 0), 1)
        queues = np.insert(own, at, [self.numbers[message.queue] for message in light])
        new = self.next_offsets(queues, np.insert(sizes, at, 1))
        is_changed = new != np.insert(old, at, [message.offset for message in light])
        np.add.at(self.changed, queues[is_changed], 1)
        places = at + np.arange(len(at))
        numbers = np.delete(new, places)
        batches = self.is_batch[own] & (numbers != old)
        inner = ((int(row), "INNER_BASE", str(numbers[row])) for row in np.flatnonzero(batches))
        return numbers, heapq.merge(inner, light_offsets(light, new[places]))

    def next_offsets(self, queues: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Give messages of queues, of as many messages each, the next offsets of these, int64[n]."""
        order = np.argsort(queues, kind="stable")
        ordered, sizes = queues[order], sizes[order]
        firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        before = np.cumsum(sizes) - sizes
        new = np.empty(len(order), np.int64)
        rank = before - np.repeat(before[firsts], np.diff(np.append(firsts, len(order))))
        new[order] = self.next[ordered] + rank
        np.add.at(self.next, ordered, sizes)
        return new

    def light_messages(self, requests: np.ndarray, buffer: Buffer, base: int) -> Iterator[LightMessage]:
        """What messages are in the queues that their properties name; what is for batch queues has no unit there."""
        for row, queue, properties in self.multi_dispatched(requests, buffer, base):
            offsets = properties.get("INNER_MULTI_QUEUE_OFFSET", "")
            places = [i for i, name in enumerate(split_names(properties["INNER_MULTI_DISPATCH"])) if is_file_name(name)]
            others = more_queues(queue, properties, self.config, self.batches)
            for place, (other, offset) in zip(places, others, strict=False):
                if other[0] not in self.batches:
                    yield LightMessage(row, place, other, offset, offsets)

    def topics(self) -> dict[str, int]:
        """How many queues each topic has at least."""
        found: dict[str, int] = {}
        for (topic, queue_id), count in zip(self.scanner.queues, self.counts.tolist(), strict=False):
            if count and 0 <= queue_id < MAX_DECLARED_QUEUES:
                found[topic] = max(found.get(topic, 1), queue_id + 1)
        return found

    def renumbered(self) -> dict[QueueId, int]:
        return {queue: count for queue, count in zip(self.numbers, self.changed.tolist(), strict=True) if count}


def light_offsets(messages: Iterable[LightMessage], offsets: np.ndarray) -> Iterator[tuple[int, str, str]]:
    """Row and INNER_MULTI_QUEUE_OFFSET of each message that gets other ones."""
    pairs = zip(messages, offsets.tolist(), strict=True)
    for row, group in itertools.groupby(pairs, key=lambda pair: pair[0].row):
        changes = [(message, offset) for message, offset in group if offset != message.offset]
        if changes:
            parts = split_names(changes[0][0].offsets)
            for message, offset in changes:
                parts[message.place] = str(offset)
            yield row, "INNER_MULTI_QUEUE_OFFSET", ",".join(parts)


class LogCopy:
    """Writes the files of the new log, one after the other.

    Attributes: size of a file; phy_offset: where the next record goes; last_phy_offset of a record; moved: records.
    """

    def __init__(self, directory: Path, size: int, phy_offset: int, like: Path) -> None:
        """Make the directory. Parameters: like: a file of the old log, whose mode the new files get."""
        make_directory(directory)
        self.like = like
        self.directory, self.size, self.phy_offset = directory, size, phy_offset
        self.last_phy_offset, self.moved = -1, 0
        self.buffer = bytearray(OUT_SIZE)
        self.fd = -1

    def copy(
        self, source: Buffer, begin: int, end: int, base: int, places: np.ndarray, queue_offsets: np.ndarray
    ) -> int:
        """Append records that follow each other, physical offsets of their own log. Returns: how many."""
        pos, stop, row, records = begin - base, end - base, 0, 0
        while pos < stop:
            room = self.size - self.phy_offset % self.size
            count, following, size, last, row = copy_records(
                source, pos, stop, self.phy_offset, self.buffer, room, places, queue_offsets, row
            )
            if count:
                self.write(size)
                self.moved += count if self.phy_offset != base + pos else 0
                self.last_phy_offset = self.phy_offset + last
                self.phy_offset += size
                pos, records = following, records + count
            else:
                self.make_room(size, room)
        return records

    def write(self, size: int) -> None:
        self.open()
        view, position = memoryview(self.buffer)[:size], self.phy_offset % self.size
        while view:
            written = os.pwrite(self.fd, view, position)
            view, position = view[written:], position + written

    def make_room(self, size: int, room: int) -> None:
        """Have the next record fit into the buffer and the file."""
        if size + 8 > self.size:
            raise StoreError(f"a record has {size} bytes: files of {self.size} are too small: give {LOG_SIZE}")
        if size + 8 > room:
            self.roll()
        else:
            self.buffer = bytearray(size)

    def go_to(self, phy_offset: int) -> None:
        """Have the next record there, if that is where a file begins."""
        files = (phy_offset - self.phy_offset) // self.size
        if phy_offset % self.size == 0 and 0 <= files <= MAX_BLANK_FILES:
            while self.phy_offset < phy_offset:
                self.roll()

    def open(self) -> None:
        if self.fd < 0:
            path = self.directory / f"{self.phy_offset // self.size * self.size:020d}"
            self.fd = create_file(path, like=self.like)
            os.ftruncate(self.fd, self.size)
            sync_path(self.directory)

    def sync(self, phy_offset: int) -> None:
        """Bring the file that has a physical offset to the disk, if it was made; another thread may write it."""
        path = self.directory / f"{phy_offset // self.size * self.size:020d}"
        if path.exists():
            sync_path(path)

    def roll(self) -> None:
        """End the file with a blank."""
        self.open()
        position = self.phy_offset % self.size
        os.pwrite(self.fd, BLANK_HEAD.pack(self.size - position, BLANK_MAGIC), position)
        self.close()
        self.phy_offset += self.size - position

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def with_property(record: bytes, name: str, value: str) -> bytes:
    """A record with another value of a property, as it is if it has no such one or they would be too long."""
    sys_flag = int.from_bytes(record[36:40], "big")
    at = BODY + 12 * ((sys_flag >> 4 & 1) + (sys_flag >> 5 & 1))
    at += 4 + int.from_bytes(record[at : at + 4], "big")
    width = 1 if record[4:8] == MAGIC_V1 else 2
    at += width + int.from_bytes(record[at : at + width], "big")
    head, separator, tail = (b"\2" + record[at + 2 :]).rpartition(b"\2" + name.encode() + b"\1")
    end = tail.find(b"\2")
    properties = (head + separator + value.encode() + (tail[end:] if end >= 0 else b""))[1:]
    if not separator or len(properties) > MAX_PROPERTIES:
        return record
    new = record[:at] + len(properties).to_bytes(2, "big") + properties
    nowhere = b"\xff" * 8  # so that it is another record, whose CRC property is made anew
    return len(new).to_bytes(4, "big") + new[4:28] + nowhere + new[36:]

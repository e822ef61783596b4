"""Numbers of the commit log for a report: messages by time, topic and tag, body sizes, and gaps in store time."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rocketstore.log.commit_log import CommitLog
from rocketstore.log.scan import Skipped
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.text_codes import TextCodes
from rocketstore.progress import Report, report_nothing

COLUMNS = ("topic", "tags", "size", "phy_offset", "store_timestamp_ms", "raw_body")
SAMPLES = 160  # ranges of the log that are read if the log is larger than the limit
BINS, SAMPLED_BINS = 120, 40  # of time, at most; in a sample each bin needs several ranges
MAX_TAGS = 10_000  # pairs of topic and tag that are counted; the others are counted together
MAX_GAPS = 50
MIN_GAP = 1000  # ms
GAP_FACTOR = 30  # median distances of messages in the shortest gap, so that a stream at a steady rate has none
DISTANCE_STEPS = 4  # classes of distances for each power of two
LATEST = 4_102_444_800_000  # the year 2100: a later time is an error, and would make all bins useless
THREADS = 4
STEPS = [  # widths of a bin, ms
    *(1, 10, 100, 1000, 5000, 15_000, 60_000, 300_000, 900_000, 3_600_000),
    *(3 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 86_400_000, 7 * 86_400_000, 30 * 86_400_000),
]


class LogBounds(NamedTuple):
    """The bounds of a log, bytes, and the store times of its first and its last message, ms.

    Attributes: sound_end: where the sound messages before the first damage end, bytes; ``end`` without damage.
    """

    begin: int
    end: int
    begin_timestamp: int
    end_timestamp: int
    sound_end: int


class Gap(NamedTuple):
    """A time without messages: its length and its begin, ms, and the physical offset of the message that ends it."""

    length: int
    begin: int
    phy_offset: int


@dataclass
class TopicNumbers:
    """The messages and the bytes of records of a topic in each bin of time, int64[bins]."""

    messages: np.ndarray
    size: np.ndarray


@dataclass
class LogNumbers:
    """The numbers of a log, or of a sample of it. The counts are those of the sample; ``scale`` is not applied.

    Attributes
    ----------
    begin, end : the bounds of the log, bytes.
    read_bytes : the bytes of all ranges that were read.
    first, step, bins : the begin of the first bin and the width of all bins, ms, and their number.
    topics : by topic.
    tags : messages by topic and tag; the tag None counts messages without a tag.
    other_tags : messages with another tag.
    body_sizes : messages by the bit length of the size of their body as it is stored, int64[33].
    gaps : the longest first, of at least ``gap_limit`` ms; none that ends behind a damaged range, in which there may
        have been messages.
    distances : the distances of messages of different times, by class: int64[64 * DISTANCE_STEPS].
    backward, most_backward : messages that are older than the message before them, and the largest difference, ms.
    outside : messages whose time is before the first or after the last bin. The topics count them in these bins.
    skipped : damaged ranges that were left out.
    """

    begin: int
    end: int
    read_bytes: int
    first: int
    step: int
    bins: int
    topics: dict[str, TopicNumbers] = field(default_factory=dict)
    tags: dict[tuple[str, str | None], int] = field(default_factory=dict)
    other_tags: int = 0
    body_sizes: np.ndarray = field(default_factory=lambda: np.zeros(33, np.int64))
    gaps: list[Gap] = field(default_factory=list)
    distances: np.ndarray = field(default_factory=lambda: np.zeros(64 * DISTANCE_STEPS, np.int64))
    backward: int = 0
    most_backward: int = 0
    outside: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def is_sampled(self) -> bool:
        return self.read_bytes < self.end - self.begin

    @property
    def scale(self) -> float:
        """The bytes of the log for each byte that was read."""
        return (self.end - self.begin) / self.read_bytes if self.read_bytes else 1.0

    @property
    def messages(self) -> int:
        return int(self.body_sizes.sum())

    @property
    def gap_limit(self) -> int:
        """The shortest time without a message that is a gap, ms: a second, or ``GAP_FACTOR`` times the median distance.

        Messages of the same time are left out, since a batch of messages has one.
        """
        total = int(self.distances.sum())
        if not total:
            return MIN_GAP
        median = int(np.searchsorted(np.cumsum(self.distances), (total + 1) // 2))
        return max(MIN_GAP, round(GAP_FACTOR * 2 ** ((median + 0.5) / DISTANCE_STEPS)))

    def ranked_tags(self) -> list[tuple[str, str | None, int]]:
        """Return topic, tag and messages of the log for each pair of topic and tag, the most frequent first."""
        ranked = sorted(self.tags.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
        return [(topic, tag, round(count * self.scale)) for (topic, tag), count in ranked]


def sample_ranges(begin: int, end: int, most: int) -> list[tuple[int, int]]:
    """Return the ranges of a log to read: the whole log, or ranges of together ``most`` bytes, spread evenly over it.

    Parameters: begin, end, most: bytes; ``most`` is at least ``SAMPLES``.
    """
    if end - begin <= most:
        return [(begin, end)] if end > begin else []
    starts = [begin + number * (end - begin) // SAMPLES for number in range(SAMPLES)]
    return [(start, start + most // SAMPLES) for start in starts]


def read_log(
    log: CommitLog,
    times: tuple[int, int],
    most: int,
    progress: Report = report_nothing,
    *,
    end: int | None = None,
    zone_offset: int = 0,
) -> LogNumbers:
    """Read the messages of a log, or a sample of them, and count them. Damaged ranges are left out.

    Parameters: times: the store times of the first and the last message, ms. most: bytes to read at most. progress:
    called with the bytes that were read, and the bytes to read. end: where the last record ends, bytes; None: where
    sound messages end. zone_offset: of the time zone from UTC, ms: bins begin at its round times. Raises: StoreError,
    OSError.
    """
    begin, end = log.min_phy_offset, log.max_phy_offset if end is None else end
    ranges = sample_ranges(begin, end, most)
    total = sum(stop - start for start, stop in ranges)
    first, last = (min(max(time, 0), LATEST) for time in times)
    wanted = SAMPLED_BINS if total < end - begin else BINS
    step = next((step for step in STEPS if (last - first) // step < wanted), STEPS[-1])
    first -= (first + zone_offset) % step
    numbers = LogNumbers(begin, end, total, first, step, max((last - first) // step + 1, 1))
    counter = Counter(numbers)
    done = 0
    for start, stop in ranges:
        counter.begin_range()
        for batch in batches(log, start, stop, numbers):
            counter.add(batch)
            progress(done + int(batch.phy_offset[-1]) - start, total)
        done += stop - start
        progress(done, total)
    counter.finish()
    return numbers


def batches(log: CommitLog, begin: int, end: int, numbers: LogNumbers) -> Iterator[MessageBatch]:
    """Yield the messages of a range of the log. At the end, add its damaged ranges to ``numbers.skipped``."""
    threads = min(os.cpu_count() or 1, THREADS)
    scan = log.scan(begin, end, columns=COLUMNS, verify_crc=False, on_corrupt="skip", threads=threads).adapted(
        warns=False
    )
    yield from scan
    numbers.skipped.extend(scan.skipped)


class Counter:
    """Adds batches to the numbers of a log. The batches must come in the order of the log."""

    def __init__(self, numbers: LogNumbers) -> None:
        self.numbers = numbers
        self._topics, self._tags = TextCodes(), TextCodes()
        self._cells: dict[int, list[int]] = defaultdict(lambda: [0, 0])  # by topic and bin: messages and bytes
        self._pairs: dict[tuple[int, int], int] = defaultdict(int)
        self._last: int | None = None  # time of the last message of the range

    def begin_range(self) -> None:
        """Forget the last message: the time from one range to the next one is no gap."""
        self._last = None

    def add(self, batch: MessageBatch) -> None:
        codes = self._topics.find(batch.topic)
        self._add_times(codes, batch.store_timestamp_ms, batch.size)
        self._add_tags(codes, self._tags.find(batch.tags))
        lengths = np.diff(batch.raw_body.offsets).astype(np.float64)
        self.numbers.body_sizes += np.bincount(np.frexp(lengths)[1], minlength=33)
        self._add_gaps(batch.store_timestamp_ms, batch.phy_offset)

    def _add_times(self, codes: np.ndarray, times: np.ndarray, sizes: np.ndarray) -> None:
        numbers = self.numbers
        bins = (np.clip(times, 0, LATEST) - numbers.first) // numbers.step
        numbers.outside += int(np.count_nonzero((bins < 0) | (bins >= numbers.bins)))
        cells = codes * numbers.bins + np.clip(bins, 0, numbers.bins - 1)
        found, places = np.unique(cells, return_inverse=True)
        counts = np.bincount(places).tolist()
        size = np.bincount(places, sizes).astype(np.int64).tolist()
        for cell, count, n_bytes in zip(found.tolist(), counts, size, strict=True):
            known = self._cells[cell]
            known[0] += count
            known[1] += n_bytes

    def _add_tags(self, codes: np.ndarray, tags: np.ndarray) -> None:
        pairs = codes << 32 | tags
        for pair, count in zip(*(column.tolist() for column in np.unique(pairs, return_counts=True)), strict=True):
            key = pair >> 32, pair & 0xFFFFFFFF
            if key in self._pairs or len(self._pairs) < MAX_TAGS:
                self._pairs[key] += count
            else:
                self.numbers.other_tags += count
        if len(self._tags.names) > 100 * MAX_TAGS:  # the names alone would fill the memory
            self._close_tags()

    def _close_tags(self) -> None:
        """Move the counts by code to counts by name, and forget the codes."""
        for (topic, tag), count in self._pairs.items():
            key = str(self._topics.names[topic]), self._tags.names[tag]
            self.numbers.tags[key] = self.numbers.tags.get(key, 0) + count
        self._pairs.clear()
        self._tags.clear()

    def _add_gaps(self, times: np.ndarray, phy_offsets: np.ndarray) -> None:
        numbers = self.numbers
        times = np.clip(times, 0, LATEST)
        before = np.concatenate([times[:1] if self._last is None else [self._last], times[:-1]])
        lengths = times - before
        self._last = int(times[-1])
        numbers.backward += int(np.count_nonzero(lengths < 0))
        numbers.most_backward = max(numbers.most_backward, -int(lengths.min()))
        apart = lengths[lengths > 0]
        classes = (np.log2(apart) * DISTANCE_STEPS).astype(np.int64)
        numbers.distances += np.bincount(classes, minlength=len(numbers.distances))
        rows = np.flatnonzero(lengths >= max(MIN_GAP, numbers.gaps[-1].length if len(numbers.gaps) == MAX_GAPS else 0))
        found = [Gap(int(lengths[row]), int(before[row]), int(phy_offsets[row])) for row in rows]
        if found:
            numbers.gaps = sorted([*numbers.gaps, *found], reverse=True)[:MAX_GAPS]

    def finish(self) -> None:
        """Complete the numbers after the last batch."""
        self._close_tags()
        lost = {part.end for part in self.numbers.skipped}  # the messages before these offsets are damaged
        least = self.numbers.gap_limit
        self.numbers.gaps = [gap for gap in self.numbers.gaps if gap.phy_offset not in lost and gap.length >= least]
        bins, names = self.numbers.bins, self._topics.names
        for cell, known in self._cells.items():
            code, place = divmod(cell, bins)
            topic = self.numbers.topics.setdefault(
                str(names[code]), TopicNumbers(np.zeros(bins, np.int64), np.zeros(bins, np.int64))
            )
            topic.messages[place], topic.size[place] = known

"""Copy only the messages of some topics: filler records without content take the places of all other records."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.create import create_file
from rocketstore.disk.durable import ZEROS, sync
from rocketstore.disk.held_file import Count, HeldFile
from rocketstore.disk.positioned_write import write_at
from rocketstore.errors import StoreError
from rocketstore.log.commit_log import CommitLog
from rocketstore.lost.bad_ranges import has_crc_property
from rocketstore.lost.record_maker import Neighbour, NewRecord, RecordMaker
from rocketstore.survey.places import LocalPlaces

FILLER_TOPICS = "ROCKETSTORE_LEFT_OUT", "L"  # the second one if the first has no room
MAX_FILLER = 1 << 20  # bytes of a filler record
PAGE = 4096  # bytes that are written at once, or left as a hole
RAW_CHUNK = 4 << 20  # bytes of wanted records that are copied at once
COLUMNS = ("topic", "phy_offset", "size", "store_timestamp_ms", "store_host")


class TopicRun(NamedTuple):
    """Records that follow each other, all wanted or all not. Attributes: begin, end: physical offsets, bytes."""

    begin: int
    end: int
    is_wanted: bool
    neighbour: Neighbour

    def joined(self, other: TopicRun) -> TopicRun | None:
        """Return one run of this and the next one; None if they are not of one kind."""
        is_same = self.is_wanted == other.is_wanted and self.end == other.begin
        return self._replace(end=other.end) if is_same else None


def find_runs(log: CommitLog, begin: int, end: int, topics: Collection[str]) -> Iterator[TopicRun]:
    """Yield the records of a range of one file in runs. Raises: CorruptFileError for damaged bytes."""
    run: TopicRun | None = None
    for found in _find_short_runs(log, begin, end, topics):
        joined = None if run is None else run.joined(found)
        if run is not None and joined is None:
            yield run
        run = found if joined is None else joined
    if run is not None:
        yield run


def _find_short_runs(log: CommitLog, begin: int, end: int, topics: Collection[str]) -> Iterator[TopicRun]:
    """Yield the runs of each batch of records."""
    for batch in log.scan(begin, end, columns=COLUMNS):
        wanted = np.array([topic in topics for topic in batch.topic], np.bool_)
        ends = batch.phy_offset + batch.size
        is_first = np.ones(len(batch), np.bool_)
        is_first[1:] = (wanted[1:] != wanted[:-1]) | (batch.phy_offset[1:] != ends[:-1])
        firsts = np.flatnonzero(is_first)
        lasts = np.append(firsts[1:], len(batch)) - 1
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            neighbour = Neighbour(int(batch.store_timestamp_ms[first]), batch.store_host[first])
            yield TopicRun(int(batch.phy_offset[first]), int(ends[last]), bool(wanted[first]), neighbour)


class PartOfLog:
    """Copies the files of a log with the messages of some topics alone.

    Physical offsets stay. So queues and message ids stay right.
    """

    def __init__(self, log: CommitLog, config: StoreConfig, topics: Collection[str]) -> None:
        self._log, self._topics = log, topics
        first = log.scan(limit=1, columns=("phy_offset", "size"))
        records = [log.file_run.pread(int(batch.phy_offset[0]), int(batch.size[0])) for batch in first if len(batch)]
        has_crc = bool(records) and has_crc_property(records[0])
        self._maker = RecordMaker(config, log.mapped_file_size, append_prop_crc=has_crc, body_byte=b"\0", flag=0)

    def copy(self, file: HeldFile, target: LocalPlaces, end: int, count: Count) -> None:
        """Copy a file up to the physical offset ``end``, and flush the copy. Raises: StoreError, OSError."""
        start = int(file.path.name)
        stop = min(start + file.size, end)
        fd = create_file(target.root / file.name, like=file.local_path)
        try:
            os.ftruncate(fd, file.size)
            place = start
            for run in find_runs(self._log, start, stop, self._topics):
                if run.is_wanted:
                    copy_range(file, fd, run.begin - start, run.end - start)
                else:
                    for filler in self._make_fillers(run):
                        write_pages(fd, self._maker.make(filler), filler.phy_offset - start)
                place = run.end
                count(run.end - run.begin)
            copy_range(file, fd, place - start, stop - start)  # the blank that ends the file
            sync(fd)
        finally:
            os.close(fd)

    def _make_fillers(self, run: TopicRun) -> Iterator[NewRecord]:
        """Yield records over a run of records that are left out."""
        begin = run.begin
        while begin < run.end:
            left = run.end - begin
            size = left if left <= MAX_FILLER else min(MAX_FILLER, left - MAX_FILLER // 2)
            yield self._make_filler(begin, size, run.neighbour)
            begin += size

    def _make_filler(self, begin: int, size: int, neighbour: Neighbour) -> NewRecord:
        for topic in FILLER_TOPICS:
            least = self._maker.measure(topic, {}, neighbour)
            if least is not None and least <= size:
                return NewRecord(begin, size, topic, 0, 0, {}, size - least, neighbour, is_filler=True)
        raise StoreError(f"{self._log.directories[0]}: no record of {size} bytes can take the place at {begin}")


def copy_range(file: HeldFile, target: int, begin: int, end: int) -> None:
    """Copy a range of a file, positions in bytes. Pages of zeros become holes."""
    for place in range(begin, end, RAW_CHUNK):
        write_pages(target, file.read(place, min(place + RAW_CHUNK, end)), place)


def write_pages(target: int, data: bytes, position: int) -> None:
    """Write bytes at a position of a new file. Pages of zeros are left as holes."""
    view = memoryview(data)
    begin = 0
    for place in range(0, len(data), PAGE):
        page = view[place : place + PAGE]
        if page == ZEROS[: len(page)]:
            write_at(target, view[begin:place], position + begin)
            begin = place + len(page)
    write_at(target, view[begin:], position + begin)

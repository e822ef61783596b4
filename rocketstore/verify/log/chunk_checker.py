"""ChunkChecker: check the records of one chunk of the log, and compare them with their units and items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import RunFile, Window
from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.positioned_read import read_path_at
from rocketstore.disk.ranges import find_overlap, merge_ranges
from rocketstore.errors import CorruptFileError, DiskReadError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import BLANK, CUT, OK, bad_reason
from rocketstore.kernels.dispatch import RequestScanner
from rocketstore.kernels.verify import ENTRY_ORDER, NO_PROPERTY_CRC, TIME_FALLS, LogChecker
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_heads import read_length
from rocketstore.verify.index.index_verifier import IndexDifferences, IndexVerifier
from rocketstore.verify.log.bodies import bad_bodies
from rocketstore.verify.queues.queue_verifier import QueueRows, QueueVerifier

STEP = 1 << 20  # bytes; small enough that both passes over a step hit the CPU cache
NO_FILE = -1  # status of an offset that no file has
KIND_OF_FIELD = {
    "magic": "log-magic",
    "size": "log-size",
    "body length": "log-body-length",
    "topic length": "log-topic-length",
    "properties length": "log-properties-length",
    "bodyCrc": "log-body-crc",
    "__CRC32#": "log-property-crc",
    "DELAY": "log-delay",
    "INNER_NUM, INNER_BASE": "log-inner-batch",
    "physicalOffset": "log-phy-offset",
    "entry": "log-entry-head",
}
WITH_SOUND_RECORDS = {
    TIME_FALLS: ("log-time-falls", "the store time is before that of the record before"),
    NO_PROPERTY_CRC: ("log-property-crc-missing", "no __CRC32# ends the properties"),
    ENTRY_ORDER: ("log-entry-order", "the index is not the next one, or the term is before that of the entry before"),
}


@dataclass
class CheckedChunk:
    """The result of checking one chunk of the log.

    Attributes: bounds: the chunk. begin, end: where its records, and the damage before them, begin and end; -1 without
    any. Offsets are physical.
    """

    bounds: tuple[int, int]
    begin: int = -1
    end: int = -1
    status: int = OK  # why the walk ended
    damages: list[tuple[int, int, int]] = field(default_factory=list)  # begin, end, status
    faults: list[tuple[str, int, str, int]] = field(default_factory=list)  # kind, physical offset, detail, count
    n_records: int = 0
    last_phy_offset: int = -1
    times: tuple[int, int, int] = (0, 0, 0)  # store times: of the first record, of the last record, the latest
    rows: list[QueueRows] = field(default_factory=list)
    items: IndexDifferences | None = None
    unreadable: list[tuple[int, int]] = field(default_factory=list)  # begin and end of each range

    @property
    def first_record(self) -> int:
        """The physical offset of the first record, behind damage at the begin of the chunk."""
        return self.damages[0][1] if self.damages and self.damages[0][0] == self.begin else self.begin


class ChunkChecker:
    """Checks chunks of the log, in one thread at a time, and compares each with its units and items."""

    def __init__(self, log: CommitLog, config: StoreConfig, queues: QueueVerifier, index: IndexVerifier) -> None:
        self.log, self.queues, self.index = log, queues, index
        has_crc = config.enabled_append_prop_crc and Compat.of(config.compat).has_prop_crc
        self.buffers: dict[Buffer, int] = {}  # the buffers that the chunk was read from, with their physical offsets
        self.checker = LogChecker(
            force_prop_crc=config.force_verify_prop_crc, expects_prop_crc=has_crc, framing=log.reader.framing
        )
        self.scanner, self.plain_scanner = (
            RequestScanner(
                message_delay_level=config.message_delay_level,
                indexes_tags=indexes_tags,
                anywhere=True,
                framing=log.reader.framing,
            )
            for indexes_tags in (True, False)
        )

    def check(self, begin: int, end: int, is_record: bool) -> CheckedChunk:
        """Check the records that begin in a part of one file.

        Parameters: is_record: a record must begin at ``begin``. Otherwise the first record is searched for.
        """
        chunk = CheckedChunk((begin, end))
        self.checker.begin()
        self.scanner.take()
        self.buffers.clear()
        offset: int | None = begin if is_record else self.log.reader.find_later(begin, end)
        while offset is not None and offset < end:
            following, status = self._scan_step(chunk, offset, min(end, offset + STEP))
            if status == NO_FILE:
                break
            if following > offset:
                chunk.begin = offset if chunk.begin < 0 else chunk.begin
            chunk.end, chunk.status = following, status
            file = self.log.file_run.find(offset)
            if status == BLANK and file is not None:
                self._check_blank(chunk, file, following)
                break
            is_cut_by_window = status == CUT and following > offset
            if status not in (OK, BLANK) and not is_cut_by_window:
                later = self.log.reader.find_later(following + 1, end)
                if later is None:
                    break
                chunk.damages.append((following, later, status))
                chunk.begin = following if chunk.begin < 0 else chunk.begin
                offset = later
                continue
            offset = following
        chunk.unreadable = merge_ranges(
            (start + first, start + last)
            for buffer, start in self.buffers.items()
            for first, last in buffer.lost_ranges(max(begin - start, 0), max(begin, chunk.end, end) - start)
        )
        self._compare(chunk)
        return chunk

    def _scan_step(self, chunk: CheckedChunk, offset: int, end: int) -> tuple[int, int]:
        """Check at least one record, from ``offset`` on. Return where the records end, and the status there."""
        following, status = offset, NO_FILE
        for window in self.log.reader.windows(offset):
            self.buffers[window.buffer] = window.from_offset
            following, status = self.checker.scan(*window, offset, end)
            chunk.faults += bad_bodies(window, self.checker.take_compressed())
            self._collect(self.scanner, window, offset, following, chunk.faults)
            if following > offset or status != CUT:
                break
        return following, status

    def _check_blank(self, chunk: CheckedChunk, file: RunFile, offset: int) -> None:
        position = offset - file.file_from_offset
        size = read_length(read_path_at(file.path, 8, position), self.log.reader.framing)
        if size != file.size - position:
            detail = f"says {size} bytes, {file.size - position} are left"
            chunk.faults.append(("log-blank-size", offset, detail, 1))
        if nonzero_end(file.path, min(position + 8, file.size), file.size) > position + 8:
            chunk.faults.append(("log-blank-bytes", offset, "bytes behind the blank's header", 1))
        chunk.begin = offset if chunk.begin < 0 else chunk.begin
        chunk.end = self.log.reader.end_of(file)

    def _collect(self, scanner: RequestScanner, window: Window, begin: int, end: int, faults: list[Any] | None) -> None:
        """Collect dispatch requests and items from bytes that are known to be records.

        Parameters: faults: gets the findings; None: they are known from an earlier call.
        """
        while begin < end:
            try:
                following = scanner.scan(*window, begin, end)
                if following == begin:  # at a blank
                    return
                begin = following
            except CorruptFileError as error:
                begin = window.from_offset + error.offset
                if error.field not in KIND_OF_FIELD or begin >= end:
                    raise
                if faults is not None:
                    faults.append((KIND_OF_FIELD[error.field], begin, f"{error.field}: {error.reason}", 1))
                begin += max(read_length(self.log.file_run.pread(begin, 8), self.log.reader.framing), 1)

    def _compare(self, chunk: CheckedChunk) -> None:
        for status, (count, places) in self.checker.faults_found().items():
            if status in WITH_SOUND_RECORDS:
                kind, detail = WITH_SOUND_RECORDS[status]
            else:
                name, reason = bad_reason(status)
                kind, detail = KIND_OF_FIELD[name], f"{name}: {reason}"
            numbers = [1] * (len(places) - 1) + [count - len(places) + 1]
            chunk.faults += [(kind, place, detail, n) for place, n in zip(places, numbers, strict=True)]
        requests, items = self.scanner.take()
        if chunk.unreadable:
            requests, items = self._leave_out_unreadable(chunk, requests, items)
        checker = self.checker
        chunk.n_records, chunk.last_phy_offset = checker.n_records, checker.last_phy_offset
        if chunk.n_records:
            chunk.times = checker.first_store_timestamp, checker.last_store_timestamp, checker.max_store_timestamp
        if chunk.begin >= 0:
            chunk.rows = self.queues.compare(requests, self.scanner.queues)
            chunk.items = self.index.compare(chunk.begin, chunk.end, items, lambda: self._items_without_tags(chunk))

    def _leave_out_unreadable(
        self, chunk: CheckedChunk, requests: np.ndarray, items: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Drop requests and items of records that the disk cannot read in full. Missing bytes were read as zeros."""
        begins, ends = requests["phy_offset"], requests["phy_offset"] + requests["size"]
        lost = np.array([*chunk.unreadable, (LONG_MAX, LONG_MAX)], np.int64)
        is_lost = lost[np.searchsorted(lost[:, 1], begins, "right"), 0] < ends
        chunk.faults = [fault for fault in chunk.faults if not self._is_unreadable(chunk, fault[1])]
        return requests[~is_lost], items[~np.isin(items["phy_offset"], begins[is_lost])]

    def _is_unreadable(self, chunk: CheckedChunk, phy_offset: int) -> bool:
        try:
            size = int.from_bytes(self.log.file_run.pread(phy_offset, 4), "big", signed=True)
        except DiskReadError:
            return True
        return find_overlap(chunk.unreadable, phy_offset, phy_offset + max(size, 1)) is not None

    def _items_without_tags(self, chunk: CheckedChunk) -> np.ndarray:
        """Return the items of a chunk as a release that indexes no tags puts them."""
        offset, end = chunk.begin, chunk.end
        for begin, stop in [*((a, b) for a, b, _ in chunk.damages), (end, end)]:
            while offset < begin and (window := self.log.file_run.read(offset, begin - offset, "sequential")):
                last = min(begin, window.from_offset + window.buffer.size)
                self._collect(self.plain_scanner, window, offset, last, None)
                offset = last
            offset = stop
        requests, items = self.plain_scanner.take()
        return self._leave_out_unreadable(chunk, requests, items)[1] if chunk.unreadable else items

"""LogVerifier: check the log in chunks, in several threads, and merge the results in the order of the log."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rocketstore.config import StoreConfig
from rocketstore.disk.ahead import read_ahead
from rocketstore.disk.holes import data_ranges, nonzero_end
from rocketstore.disk.ranges import find_overlap, merge_ranges
from rocketstore.disk.work_threads import Task, work_threads
from rocketstore.kernels.commit_log import BLANK, END, OK, bad_reason, read_message
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import Leftovers
from rocketstore.log.record_heads import find_record_end
from rocketstore.log.tail import find_tails
from rocketstore.progress import Report
from rocketstore.verify.findings import Findings
from rocketstore.verify.index.index_verifier import IndexVerifier
from rocketstore.verify.log.chunk_checker import KIND_OF_FIELD, CheckedChunk, ChunkChecker
from rocketstore.verify.queues.queue_verifier import QueueVerifier

CHUNK = 8 << 20  # bytes of the log that one thread checks at a time
SPAN = 1 << 20  # bytes to read at once if a file cannot be mapped
SAMPLE = 64 << 10  # bytes of the log in one sample of a quick verification
# Kinds of findings at records whose bytes changed.
DAMAGED_RECORDS = {
    "log-body-crc", "log-property-crc", "log-phy-offset", "log-delay", "log-inner-batch", "log-blank-size",
}  # fmt: skip


class LogVerifier:
    """Checks the log: threads check chunks, and their results are merged in the order of the log.

    Attributes: begin: physical offset of the first file. end: physical offset behind the last record or blank.
    n_records. last_phy_offset. max_store_timestamp: epoch ms. is_growing: another process is appending records.
    is_sampled: only samples were checked. damaged: ranges of physical offsets with damage; a record must begin, or end,
    at the begin of each.
    """

    def __init__(
        self, log: CommitLog, config: StoreConfig, findings: Findings, queues: QueueVerifier, index: IndexVerifier
    ) -> None:
        config.require_usable("message_delay_level")
        self.log, self.config, self.findings, self.queues, self.index = log, config, findings, queues, index
        self.begin = self.end = log.min_phy_offset
        self.n_records, self.last_phy_offset, self.max_store_timestamp = 0, -1, 0
        self._last_store_timestamp: int | None = None
        self.is_growing = self.is_sampled = False
        self.damaged: list[tuple[int, int]] = []
        self._unreadable: list[tuple[int, int]] = []  # physical offsets, begin and end

    def run(
        self,
        stop: int | None,
        leftovers: Leftovers | None,
        quick: bool,
        threads: int,
        progress: Report,
    ) -> None:
        """Check the whole log, or only samples.

        Parameters: stop: the end of the log while a broker is appending to it. leftovers: records behind the end that a
        broker cut off, or whose write was not committed.
        """
        self.is_sampled = quick
        self._check_files()
        limit = min(LONG_MAX if stop is None else stop, LONG_MAX if leftovers is None else leftovers.end)
        chunks = list(self._samples(limit) if quick else self._chunks(limit))
        workers: queue.SimpleQueue[ChunkChecker] = queue.SimpleQueue()

        def check(begin: int, end: int, is_record: bool) -> CheckedChunk:
            try:
                worker = workers.get_nowait()
            except queue.Empty:
                worker = ChunkChecker(self.log, self.config, self.queues, self.index)
            try:
                return worker.check(begin, end, is_record)
            finally:
                workers.put(worker)

        total, done = sum(end - begin for begin, end, _ in chunks), 0
        place = -1
        with work_threads(threads, "rocketstore-verify") as pool:
            chains: list[Task[None]] = [] if quick else self.index.start(pool)
            with read_ahead(pool, 2 * threads, check, chunks) as results:  # one slow chunk stops no thread
                for (begin, end, _), task in results:
                    with self.findings.reporting_errors(self.log.directories[0]):
                        checked = task.result()
                        # A chunk that began inside a body, or found no record, is checked again: see join_chunks.
                        if not quick and checked.begin < place and begin <= place < end:
                            checked = check(place, end, True)
                        place = self._merge(checked, place, quick)
                    done += end - begin
                    progress(done, total)
            for chain in chains:
                chain.result()
        self._add_unreadable()
        self.end = max(place, self.begin)
        if quick and chunks and place < chunks[-1][0]:  # all samples are in one large record
            self.end = self.log.max_phy_offset
        if leftovers is None:
            self._check_end(stop)
        else:
            self._add_leftovers(leftovers)

    # ---- parts -----------------------------------------------------------------------------------------------

    def _chunks(self, limit: int) -> Iterator[tuple[int, int, bool]]:
        """Yield chunks of the files, as begin, end and whether a record must begin there. Leave out holes."""
        for file in list(self.log.file_run.files):
            start, stop = self.log.reader.begin_in(file), min(limit, self.log.reader.end_of(file))
            with self.findings.reporting_errors(file.path):
                data = merge_ranges(data_ranges(file.path, 0, file.size))
                for at in range(start, stop, CHUNK):
                    position = at - file.file_from_offset
                    if at == start or find_overlap(data, position, position + CHUNK):
                        yield at, min(at + CHUNK, stop), at == start

    def _samples(self, limit: int) -> Iterator[tuple[int, int, bool]]:
        """Yield samples, as ``_chunks`` does: the first bytes, the middle and the last bytes of each file."""
        files = [file for file in self.log.file_run.files if file.file_from_offset < limit]
        for i, file in enumerate(files):
            start, used = self.log.reader.begin_in(file), 0
            with self.findings.reporting_errors(file.path):
                first, last = start - file.file_from_offset, min(file.size, limit - file.file_from_offset)
                used = (nonzero_end(file.path, first, last) if i >= len(files) - 2 else file.size) - first
            middle, last = used // 2, max(used - SAMPLE, SAMPLE)
            if used:
                yield start, start + min(SAMPLE, used), True
            if middle > SAMPLE:
                yield start + middle, start + min(middle + SAMPLE, last), False
            if used > SAMPLE:
                yield start + last, min(self.log.reader.end_of(file), limit), False

    def _check_files(self) -> None:
        files, size = self.log.file_run.files, self.log.mapped_file_size
        self.findings.check_lengths("log", files, size)
        self.findings.check_names("log", files, size)
        for before, file in pairwise(files):
            missing = file.file_from_offset - before.file_from_offset - max(size, before.size)
            if missing > 0:
                self.findings.add("log-file-missing", file.path, 0, f"{missing} bytes are missing before it")
            elif before.file_from_offset + size > file.file_from_offset:
                self.findings.add("log-file-overlap", file.path, 0, f"{before.path.name} has {before.size} bytes")

    # ---- in order --------------------------------------------------------------------------------------------

    def _merge(self, chunk: CheckedChunk, place: int, quick: bool) -> int:
        """Add the findings of a chunk. Return where the next record must begin."""
        self._unreadable += chunk.unreadable
        if chunk.begin < 0:
            return place if place >= 0 or quick else chunk.bounds[0]
        if 0 <= place < chunk.begin and not quick:
            self._add_gap(place, chunk.begin)
        elif place < 0 and not quick and chunk.begin > self.begin:
            self._add_gap(self.begin, chunk.begin)
        for begin, end, status in chunk.damages:
            self._add_damage(begin, end, status, chunk.unreadable)
        for kind, offset, detail, count in chunk.faults:
            self._add(kind, offset, detail, count)
            if kind in DAMAGED_RECORDS:
                self.damaged.append((offset, offset + 1) if count == 1 else (chunk.first_record, chunk.end))
        if chunk.n_records:
            self._take_records(chunk, quick)
        self.queues.merge(chunk.rows, quick)
        if chunk.items is not None:
            self.index.merge(chunk.items)
        return max(chunk.end, place)

    def _take_records(self, chunk: CheckedChunk, quick: bool) -> None:
        first, last, latest = chunk.times
        if self._last_store_timestamp is not None and first < self._last_store_timestamp and not quick:
            self._add("log-time-falls", chunk.first_record, "the store time is before that of the record before")
        self._last_store_timestamp = last
        self.max_store_timestamp = max(self.max_store_timestamp, latest) if self.n_records else latest
        self.n_records += chunk.n_records
        self.last_phy_offset = chunk.last_phy_offset

    def _add(self, kind: str, offset: int, detail: str, count: int = 1) -> None:
        self.findings.add_at(self.log, kind, offset, detail, count)

    def _add_gap(self, begin: int, end: int) -> None:
        """Report the bytes between two chunks, which are no records."""
        self.index.add_gap(begin, end)
        if self.log.file_run.find(begin) is None:
            return  # a file is missing or too short, which has its own finding
        step = self.log.reader.step(self.log.reader.scanner(()), begin, begin + 1)
        self._add_damage(begin, end, END if step is None else step[1], merge_ranges(self._unreadable))

    def _add_unreadable(self) -> None:
        for begin, end in merge_ranges(self._unreadable):
            self._add("disk-unreadable", begin, f"{end - begin} bytes")

    def _add_damage(self, begin: int, end: int, status: int, unreadable: Sequence[tuple[int, int]] = ()) -> None:
        if find_overlap(unreadable, begin, end):
            return  # the finding disk-unreadable has them
        self.damaged.append((begin, end))
        file = self.log.file_run.find(begin)
        is_last = file is not None and end >= self.log.reader.end_of(file)
        if status == END:
            kind, reason = ("log-blank-missing" if is_last else "log-zeros"), "zeros"
        else:
            name, reason = bad_reason(status) if status not in (OK, BLANK) else ("magic", "no record begins here")
            kind = KIND_OF_FIELD.get(name, "log-magic")
            reason = f"{name}: {reason}"
        self._add(kind, begin, f"{reason}; the next record is at {end}")

    def _add_leftovers(self, leftovers: Leftovers) -> None:
        for tail in find_tails(self.log, leftovers.end):
            detail = f"{tail.end - tail.begin} bytes from {tail.begin} on, the first record at {leftovers.first}"
            self.findings.add("log-leftovers", tail.file.path, tail.begin - tail.file.file_from_offset, detail)

    def _check_end(self, stop: int | None) -> None:
        """Report bytes and files behind the last record, unless another process is appending records."""
        self.is_growing = stop is not None or self.log.reader.begins_record(self.end)
        if self.is_growing:
            return
        for tail in find_tails(self.log, self.end):
            detail = f"{tail.end - tail.begin} bytes from {tail.begin} on"
            self.findings.add("log-tail", tail.file.path, tail.begin - tail.file.file_from_offset, detail)
        for file in self.log.file_run.files:
            if file.file_from_offset >= self.end and file.size and file.file_from_offset > self.begin:
                self.findings.add("log-file-ahead", file.path, 0, f"the log ends at {self.end}")
        may_be_torn = self.last_phy_offset >= self.log.reader.whole_to
        window = self.log.file_run.read_entry(self.last_phy_offset, SPAN, find_record_end) if may_be_torn else None
        if window is not None:
            last = read_message(*window, self.last_phy_offset, at_rest=True)[1]
            last_byte = self.log.file_run.pread(last["phy_offset"] + last["size"] - 1, 1) if last else b""
            if last and last["properties"] and last_byte == b"\0":
                self._add("log-torn-record", self.last_phy_offset, "its properties end in zeros")

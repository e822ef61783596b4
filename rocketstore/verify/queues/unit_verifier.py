"""UnitVerifier: after the whole log was compared with the queues, check the units that no record needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.queue.batch_consume_queue import BatchConsumeQueue
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.delivery_times import are_delivery_times
from rocketstore.queue.queue_end import find_truncated_end
from rocketstore.queue.units import are_fillers, are_valid
from rocketstore.survey.places import LocalPlaces
from rocketstore.text_values import format_count
from rocketstore.verify.findings import DAMAGE_ERRORS, Findings
from rocketstore.verify.queues.database_verifier import ComparedLog
from rocketstore.verify.queues.queue_files import QueueFiles
from rocketstore.verify.queues.queue_verifier import QueueVerifier
from rocketstore.verify.unit_records import choose_samples

BLOCK = 8192  # units to read at once
MAX_PLACES = 16  # findings of one kind that get a place
SAMPLES_AT_ONCE = 500  # samples whose units are looked up together
SAMPLED_COLUMNS = ["topic", "queue_id", "queue_offset", "size", "tags_code"]
COLUMNS = ["topic", "queue_id", "queue_offset", "size", "tags_code", "store_timestamp", "phy_offset", "properties"]


class UnitSample(NamedTuple):
    """Some units of one file of a queue.

    Attributes: queue, files: the queue and all its files. units: UNIT[n] or BATCH_UNIT[n]. numbers: of the units,
    int64[n].
    """

    queue: QueueId
    files: QueueFiles
    units: np.ndarray
    numbers: np.ndarray


class UnitVerifier(NamedTuple):
    """Checks units after the log from ``begin`` to ``end`` was compared with the queues.

    Attributes: dispatch_from: the physical offset from which a broker dispatches records at its next start, None after
    a clean stop. is_live: another process is writing the store. is_stopped: the store was stopped cleanly.
    """

    log: CommitLog
    findings: Findings
    queues: QueueVerifier
    begin: int
    end: int
    dispatch_from: int | None
    is_live: bool
    is_stopped: bool

    def finish(self, places: LocalPlaces, batch_topics: set[str], *, has_database: bool, is_in_database: bool) -> None:
        """Check the units that belong to no record, and report queues that are missing.

        Parameters: has_database: light queues may be in RocksDB only. is_in_database: all queues are in RocksDB.
        """
        database = self.queues.database
        self.queues.lives.finish()
        for queue, files in sorted(self.queues.queues.items()):
            with self.findings.reporting_errors(files.directory):
                self.queues.add_lacking(queue, files)
                self._check_behind(files)
                self._check_units(queue, files)
                for kind, found, total in files.ext.faults(self.is_live) if files.ext is not None else ():
                    self.findings.add_many(kind, found, total)
            if files.count_deleted:
                at = self.queues.made_again_at(queue, files)
                detail = f"{format_count(files.count_deleted, 'record')}, the topic was created again at {at}"
                self.findings.add("topic-deleted", files.directory, 0, detail)
        if database is not None:
            database.finish(self._compared_log(), self.queues.lives)
        self._report_missing_queues(places, batch_topics, has_database=has_database, is_in_database=is_in_database)

    def _report_missing_queues(
        self, places: LocalPlaces, batch_topics: set[str], *, has_database: bool, is_in_database: bool
    ) -> None:
        """Report queues that have records, but no files. Parameters: as of ``finish``."""
        database = self.queues.database
        for (topic, queue_id), (count, first) in sorted(self.queues.records.items()):
            may_be_light = has_database and database is None and topic.startswith(LIGHT_QUEUE_PREFIX)
            is_there = database is not None and QueueId(topic, queue_id) in database.queues
            if is_in_database or may_be_light or (is_there and topic.startswith(LIGHT_QUEUE_PREFIX)):
                continue
            queue_kind = BatchConsumeQueue if topic in batch_topics else ConsumeQueue
            kind = "queue-behind" if self._is_behind(first) else "queue-missing"
            if kind == "queue-missing" and self.queues.lives.is_queue_left_out(QueueId(topic, queue_id)):
                kind = "topic-deleted"
            path = places.queue(queue_kind, topic, queue_id)
            if any(os.path.lexists(part) and not part.is_dir() for part in (path, path.parent, path.parent.parent)):
                kind = "queue-no-directory"
            detail = f"{format_count(count, 'record')}, the first at {first}"
            if kind == "queue-missing" and self.queues.lives.is_queue_doubtful(QueueId(topic, queue_id)):
                detail += ". The directory was lost, or the topic was deleted and created again without this queue"
            self.findings.add(kind, path, 0, detail)

    def _compared_log(self) -> ComparedLog:
        return ComparedLog(self.begin, self.end, self.is_live, self.queues.offset_in)

    def _is_behind(self, phy_offset: int) -> bool:
        return self.is_live or (self.dispatch_from is not None and phy_offset >= self.dispatch_from)

    def _check_behind(self, files: QueueFiles) -> None:
        """Report the last records of a queue that have no units. They may be waiting for their dispatch."""
        if files.behind and self._is_behind(files.behind[0][1]):
            unit, phy_offset = files.behind[0]
            detail = f"{format_count(files.count_behind, 'record')}, the first at {phy_offset}"
            self.findings.add("queue-behind", *files.place(unit, detail))
        else:
            self.queues.add_missing(files, files.behind, files.count_behind)

    def _check_units(self, queue: QueueId, files: QueueFiles) -> None:
        if not files.spans:
            return
        last = files.spans[-1][2]
        if last.size and files.find_written_bytes(len(files.spans) - 1) == 0:
            self.findings.add("queue-file-zeros", last.path, 0, f"{last.size} bytes of zeros")
        if files.has_only_covered_units():  # no unit is left to check, as in most queues
            return
        ranges = files.covered.sorted()
        first_covered, end_covered = (ranges[0][0], ranges[-1][1]) if ranges else (-1, -1)
        is_first, before = True, -1  # no unit was checked yet; physical offset in the unit before
        kept = self._find_kept(files)
        for low, high in self._uncovered(files):
            if low >= kept:
                break
            high = min(high, kept)
            is_tail = low >= end_covered
            is_leading = first_covered < 0 or low < first_covered
            units = files.units(low, high)
            good = are_valid(units)
            if is_tail and not good.all():
                self._add_tail(files, low + int(good.argmin()), units[good.argmin() :])
                units = units[: int(good.argmin())]
            elif not good.all():
                self._add_invalid(files, low + np.flatnonzero(~good))
            numbers = low + np.arange(len(units))
            blanks, good = are_fillers(units), are_valid(units)
            real = np.flatnonzero(good & ~blanks)
            allowed = (np.arange(len(units)) < (real[0] if len(real) else len(units))) & is_first & is_leading
            self._add_units(files, "unit-filler", numbers[blanks & ~allowed], "a filler")
            before = self._check_real(queue, files, units[real], numbers[real], before if is_leading else LONG_MAX)
            is_first = is_first and len(real) == 0
            if is_tail and len(units) < high - low:
                break

    def _find_kept(self, files: QueueFiles) -> int:
        """Return the unit before which a broker ends the queue of a stopped store. Report the units behind it."""
        spans = [(first, last) for first, last, _ in files.spans if first < last]
        if not self.is_stopped or not spans:
            return LONG_MAX

        def read_phy_offset(unit: int) -> int:
            return int(files.units(unit, unit + 1)["phy_offset"][0])

        def skip(unit: int, last: int, log_end: int) -> int:
            written = min(files.find_written_end(unit), last)  # zeros lead to no record
            while unit < written and len(units := files.units(unit, min(unit + BLOCK, written))):
                if (found := np.flatnonzero(units["phy_offset"] >= log_end)).size:
                    return unit + int(found[0])
                unit += len(units)
            return last

        end = max(find_truncated_end(spans, self.end, read_phy_offset, skip), spans[0][0])
        if end >= spans[-1][1]:
            return LONG_MAX
        units = np.concatenate([files.units(max(first, end), last) for first, last in spans if last > end])
        count = int(are_valid(units).sum())
        self.findings.add(
            "unit-leftover", *files.place(end, f"{format_count(count, 'unit')}, the log ends at {self.end}")
        )
        return end

    def _uncovered(self, files: QueueFiles) -> Iterator[tuple[int, int]]:
        for number, (first, last, _) in enumerate(files.spans):
            for low, high in files.covered.gaps(first, last):
                if high == last:  # the rest of the file may be a hole
                    high = files.find_used_units(number, low, high)
                    if high == low and files.covered.end > last:
                        high = last  # the zeros are in the middle of the queue
                for begin in range(low, high, BLOCK):
                    yield begin, min(begin + BLOCK, high)

    def _add_units(self, files: QueueFiles, kind: str, numbers: np.ndarray, detail: str) -> None:
        places = [files.place(unit, f"unit {unit}: {detail}") for unit in numbers[:MAX_PLACES].tolist()]
        self.findings.add_many(kind, places, len(numbers))

    def _add_tail(self, files: QueueFiles, unit: int, units: np.ndarray) -> None:
        """Report old units behind the end of a queue. Parameters: unit: the end of the queue."""
        left = np.flatnonzero(units.view(np.uint8).reshape(len(units), -1).any(axis=1)) + unit
        left = left[~files.missing.are_in(left)]
        if len(left):
            place = files.place(int(left[0]), f"the queue ends at {unit}")
            self.findings.add_many("unit-tail", [place], len(left))

    def _add_invalid(self, files: QueueFiles, numbers: np.ndarray) -> None:
        unclaimed = numbers[~files.missing.are_in(numbers)]
        self._add_units(files, "unit-invalid", unclaimed, "is no unit, and no record belongs to it")

    def _check_real(
        self, queue: QueueId, files: QueueFiles, units: np.ndarray, numbers: np.ndarray, before: int
    ) -> int:
        """Check where units lead. Return the physical offset in the last unit, ``before`` if there are no units."""
        phy_offsets = units["phy_offset"].astype(np.int64)
        expired, beyond = phy_offsets < self.begin, phy_offsets >= self.end
        previous = np.concatenate([[before], phy_offsets[:-1]])
        is_older = expired & (phy_offsets < previous)
        self._add_units(files, "unit-order", numbers[is_older], "of a record older than the last")
        if not self.is_live:
            self._add_units(files, "unit-beyond-log", numbers[beyond], f"the log ends at {self.end}")
        within = ~expired & ~beyond
        for message, unit, place in self._look_up(queue, files, phy_offsets[within], numbers[within]):
            if not self.is_live and (files.is_batch or place != unit):
                detail = f"unit {unit}: the record at {message.phy_offset} has queue offset {place}"
                self.findings.add("unit-again", *files.place(unit, detail))
                self.queues.contradicted.append(message.phy_offset)
        return int(phy_offsets[-1]) if len(phy_offsets) else before

    def _look_up(
        self, queue: QueueId, files: QueueFiles, phy_offsets: np.ndarray, numbers: np.ndarray
    ) -> Iterator[tuple[Message, int, int]]:
        """Yield each message of the queue to which a unit leads, the unit, and the queue offset of the message.

        Report the other units.
        """
        if len(numbers) == 0:
            return
        batch, statuses = self.log.find_messages(phy_offsets, columns=COLUMNS)
        self._add_units(files, "unit-no-record", numbers[statuses != OK], "no record begins where it leads")
        for message, unit in zip(batch, numbers[statuses == OK].tolist(), strict=True):
            place = self.queues.offset_in(queue, message)
            if place is None:
                owner = f"{message.topic}/{message.queue_id}"
                detail = f"unit {unit}: leads to a record of {owner} at {message.phy_offset}"
                self.findings.add("unit-of-another-queue", *files.place(unit, detail))
                self.queues.contradicted.append(message.phy_offset)
            else:
                yield message, unit, place

    # ---- quick -----------------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Check the first, the last and some other units of each queue."""
        if (database := self.queues.database) is not None:
            database.sample(self._compared_log())
        samples: list[UnitSample] = []
        for queue, files in sorted(self.queues.queues.items()):
            with self.findings.reporting_errors(files.directory):
                self._check_behind(files)
                samples += read_samples(queue, files)
        for begin in range(0, len(samples), SAMPLES_AT_ONCE):
            self._compare_samples(samples[begin : begin + SAMPLES_AT_ONCE])

    def _compare_samples(self, samples: list[UnitSample]) -> None:
        """Compare units with their records.

        The records of all samples are looked up together, which takes less time. Only the samples of which this shows
        no complete agreement are then compared one by one.
        """
        try:
            sound = self._find_sound([sample for sample in samples if not sample.files.is_batch])
        except DAMAGE_ERRORS:
            sound = []  # each sample is compared alone, and the error becomes a finding
        for sample in sound:
            sample.files.add_sound_sample(sample.numbers, sample.units)
        sound_ids = {id(sample) for sample in sound}
        for sample in samples:
            if id(sample) not in sound_ids:
                with self.findings.reporting_errors(sample.files.directory):
                    self._compare_sample(*sample)

    def _find_sound(self, samples: list[UnitSample]) -> list[UnitSample]:
        """Return the samples whose units all agree with a record of their own queue.

        The other samples need not be wrong: a unit of a light queue, or with an ext unit, differs from its record.
        """
        if not samples:
            return []
        owners = np.repeat(np.arange(len(samples)), [len(sample.units) for sample in samples])
        units = np.concatenate([sample.units for sample in samples])
        phy_offsets = units["phy_offset"].astype(np.int64)
        agree = are_valid(units) & ~are_fillers(units) & (phy_offsets >= self.begin) & (phy_offsets < self.end)
        rows = np.flatnonzero(agree)
        batch, statuses = self.log.find_messages(phy_offsets[rows], columns=SAMPLED_COLUMNS)
        agree[rows[statuses != OK]] = False
        rows = rows[statuses == OK]
        expected = {
            "queue_id": np.array([sample.queue.queue_id for sample in samples])[owners],
            "queue_offset": np.concatenate([sample.numbers for sample in samples]),
            "size": units["size"],
            "tags_code": units["tags_code"],
        }
        for name, values in expected.items():
            agree[rows] &= getattr(batch, name) == values[rows]
        topics = zip(batch.topic.to_pylist(), owners[rows].tolist(), strict=True)
        agree[rows] &= np.fromiter((topic == samples[owner].queue.topic for topic, owner in topics), bool, len(rows))
        differing = set(owners[~agree].tolist())
        return [sample for number, sample in enumerate(samples) if number not in differing]

    def _compare_sample(self, queue: QueueId, files: QueueFiles, units: np.ndarray, numbers: np.ndarray) -> None:
        """Compare the units that lead into the log with their records. Report the units that lead behind it."""
        good = are_valid(units) & ~are_fillers(units)
        phy_offsets = units["phy_offset"].astype(np.int64)
        if not self.is_live:
            beyond = numbers[good & (phy_offsets >= self.end)]
            kind = "unit-leftover" if self.is_stopped else "unit-beyond-log"
            self._add_units(files, kind, beyond, f"the log ends at {self.end}")
        inside = good & (phy_offsets >= self.begin) & (phy_offsets < self.end)
        units, numbers = units[inside], numbers[inside]
        codes, lost, _ = files.resolved(units)
        rows = {unit: i for i, unit in enumerate(numbers.tolist())}
        for message, unit, place in self._look_up(queue, files, units["phy_offset"].astype(np.int64), numbers):
            i = rows[unit]
            is_time = are_delivery_times(queue[0], codes[i], message.store_timestamp)
            is_wrong = {
                "unit-shifted": not files.is_batch and place != unit,
                "unit-size": int(units["size"][i]) != message.size,
                "ext-missing": bool(lost[i]) and int(codes[i]) != message.tags_code,
                "unit-delivery-time" if is_time else "unit-tags-code": not lost[i]
                and int(codes[i]) != message.tags_code,
            }
            for kind in (kind for kind, wrong in is_wrong.items() if wrong):
                detail = f"unit {unit}: of the record at {message.phy_offset}"
                self.findings.add(kind, *files.place(unit, detail))


def read_samples(queue: QueueId, files: QueueFiles) -> Iterator[UnitSample]:
    """Yield some units of the first and of the last file of a queue."""
    if not files.spans:
        return
    first_of_last = files.spans[-1][0]
    end = files.find_written_end(first_of_last)
    if end == first_of_last:  # the last file has no unit yet: a broker creates a file before it needs the file
        end = files.find_written_end(files.spans[-2:][0][0])
    for first, last, _ in dict.fromkeys((files.spans[0], files.spans[-1])):
        numbers = np.array(choose_samples(first, min(last, end)), np.int64)
        units = files.chosen_units(numbers)
        if len(units) == len(numbers):
            yield UnitSample(queue, files, units, numbers)

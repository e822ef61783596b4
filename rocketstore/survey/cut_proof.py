"""Read what a store's files say about a place where its log may end."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.storage import is_remote
from rocketstore.errors import StoreError
from rocketstore.kernels.layout import MAGIC_BLANK, RECORD_HEAD, RECORD_MAGICS, read_field
from rocketstore.limits import LONG_MAX
from rocketstore.log.log_end import EndCandidate, LogEnd, StoreState
from rocketstore.log.record_reader import RecordReader
from rocketstore.messages.message import Message, number_property
from rocketstore.messages.system_flags import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, TRANSACTION_TYPE
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.survey.condition import find_store_state
from rocketstore.survey.formats import find_formats
from rocketstore.survey.judge_end import CutProof, RunProof, judge_end
from rocketstore.survey.last_file import LastFile, find_last_file, read_last_file
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.queue_units import OwnUnit, QueueUnits, read_queue_units
from rocketstore.survey.store_index import read_item_offsets

MAX_TRIED = 4096  # records behind the bad bytes that are looked up in their queues
WITHOUT_UNIT = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)


@dataclass(frozen=True)
class LastFileFacts:
    """The last file of a log, and the units and items that lead into it.

    Attributes: item_offsets: the physical offsets in the items, int64[n].
    """

    file: LastFile
    units: QueueUnits
    item_offsets: np.ndarray


class StoreEvidence:
    """Decides whether the log of one store ends at a place, from the store's files.

    The last file of the log and the units that lead into it are read once for all bad bytes in it.

    Attributes: last_files: as for ``EndEvidence``.
    """

    def __init__(self, places: AnyPlaces, config: StoreConfig, state: StoreState | None = None) -> None:
        """Parameters: state: how the last writer left the store; None to find it each time."""
        self.last_files = Compat.of(config.compat).last_files
        self._places, self._config, self._state = places, config, state
        self._abort, self._lock = places.abort, places.lock
        self._facts: LastFileFacts | None = None

    def find_store_state(self) -> StoreState:
        """Find whether the store was stopped, is being written, or crashed. A remote store is checked only once."""
        if self._state is not None:
            return self._state
        state = find_store_state(self._abort, self._lock)
        if is_remote(self._abort):
            self._state = state
        return state

    def judge(self, log: RecordReader, candidate: EndCandidate) -> LogEnd:
        """Decide whether the log ends at a place. Parameters: log: with files that were just listed."""
        state = self.find_store_state()
        if candidate.later is None or state == StoreState.CRASHED:
            return judge_end(candidate, None, state)
        if state == StoreState.RUNNING:
            return judge_end(candidate, self._read_run_proof(log, candidate), state)
        proof = None
        with contextlib.suppress(OSError, StoreError, ValueError):  # files that cannot be read prove nothing
            proof = self._read_cut_proof(log, candidate)
        return judge_end(candidate, proof, state)

    def _read_run_proof(self, log: RecordReader, candidate: EndCandidate) -> RunProof:
        """Compare the records behind a place with the time at which the running broker wrote the lock file."""
        if candidate.later is None or candidate.end < log.last_begun_file():
            return RunProof(is_in_last_file=False, are_later_old=False)
        started = read_lock_timestamp(self._places)
        are_old = started is not None and are_all_older(log, candidate.later, started)
        return RunProof(is_in_last_file=True, are_later_old=are_old)

    def _read_cut_proof(self, log: RecordReader, candidate: EndCandidate) -> CutProof | None:
        """Read the proof for a place; None if the store has no queues or index in files, or if they cannot be read."""
        if log.framing:
            return None  # the broker cuts DLedger's log by its checks of entries, which leave no traces in queues
        last = find_last_file(log)
        if last is None or not last.file_from_offset <= candidate.end < last.end_offset:
            return CutProof(is_in_last_file=False)
        facts = self._facts
        if facts is None or facts.file.file != last or candidate.end not in facts.file.bad:
            facts = self._facts = read_facts(self._places, self._config, log)
        return None if facts is None else read_cut_proof(self._places, log, facts, candidate)


def read_lock_timestamp(places: AnyPlaces) -> int | None:
    """Return when the running broker wrote its lock file at its start, epoch ms; None without this file."""
    with contextlib.suppress(OSError):
        return places.lock.stat().st_mtime_ns // 1_000_000
    return None


def are_all_older(log: RecordReader, begin: int, timestamp: int) -> bool:
    """Return whether all records from a physical offset on have store times before ``timestamp``, epoch ms."""
    place: int | None = begin
    while place is not None:
        scanner = log.scanner(("store_timestamp",))
        end = log.walk(scanner, place)
        times = np.asarray(scanner.take()["store_timestamp"], np.int64)
        if ((times < 0) | (times >= timestamp)).any():
            return False
        place = log.find_later(end + 1, LONG_MAX)
    return True


def read_facts(places: AnyPlaces, config: StoreConfig, log: RecordReader) -> LastFileFacts | None:
    """Read the last file of a log, and the units and items that lead into it.

    Returns: None without queues in files, or if the index is damaged. Raises: OSError; StoreError; ValueError.
    """
    formats = find_formats(places, config)
    last = find_last_file(log)
    if formats.queue_database is not None or formats.index_database is not None or last is None:
        return None
    units = read_queue_units(places, last)
    items = None if units is None else read_item_offsets(places, config, last)
    if units is None or items is None:
        return None  # before the file is read: each damaged place of such a store asks again
    file = read_last_file(log, last)
    return None if file is None else LastFileFacts(file, units, items)


def read_cut_proof(places: AnyPlaces, log: RecordReader, facts: LastFileFacts, candidate: EndCandidate) -> CutProof:
    """Read the proof for a place in the last file of a log. Raises: OSError; StoreError."""
    place, file = candidate.end, facts.file
    behind = file.first_behind(place)
    before = read_message(log, int(file.phy_offset[behind - 1]) if behind else candidate.last_phy_offset)
    if before is None or behind == len(file.phy_offset) or not record_ends_at(file, before, place):
        return CutProof(is_in_last_file=True)
    later = int(file.phy_offset[behind])
    confirmed = StoreCheckpoint.open(places.checkpoint).confirm_phy_offset
    return CutProof(
        is_in_last_file=True,
        has_trace=has_trace(log, facts, place),
        is_stored_later=before.store_timestamp > file.store_timestamp[behind:].max(),
        is_confirmed_behind=confirmed > place and file.has_record(confirmed),
        gap=later - place,
        do_times_rise=bool((np.diff(file.store_timestamp[:behind]) >= 0).all()),
        is_born_later=before.born_timestamp > file.born_timestamp[behind:].max(),
        is_joined=has_own_unit(facts.units, before) or facts.units.cover(place, later),
        is_number_repeated=is_number_repeated(log, facts, place, behind),
    )


def record_ends_at(file: LastFile, message: Message, place: int) -> bool:
    """Return whether a record ends at a place, or is the last one before a file that begins there."""
    return place in (message.phy_offset + message.size, file.file.file_from_offset)


def has_trace(log: RecordReader, facts: LastFileFacts, place: int) -> bool:
    """Return whether a unit, an index item or the rest of a header says that a record began at a place."""
    if facts.units.leads_to(place) or bool((facts.item_offsets == place).any()):
        return True
    head = log.file_run.pread(place, RECORD_HEAD.itemsize).ljust(RECORD_HEAD.itemsize, b"\0")
    if read_field(head, RECORD_HEAD, "magic") in (*RECORD_MAGICS, MAGIC_BLANK):
        return True
    return place > 0 and read_field(head, RECORD_HEAD, "phy_offset") == place


def is_number_repeated(log: RecordReader, facts: LastFileFacts, place: int, behind: int) -> bool:
    """Return whether the queue offset of a record behind a place was assigned again, to a record before it.

    Parameters: behind: the index of the first record behind the place in ``facts.file``.
    """
    stop = facts.file.next_bad(place)
    offsets = facts.file.phy_offset[behind : behind + MAX_TRIED]
    for offset in offsets[offsets < stop].tolist():
        old = None if facts.units.leads_to(offset) else read_message(log, offset)
        if old is not None and any(
            _is_of_unit(log, unit, new) for unit in own_units(old) for new in facts.units.find(unit) if new < place
        ):
            return True
    return False


def _is_of_unit(log: RecordReader, unit: OwnUnit, phy_offset: int) -> bool:
    """Return whether the record at a physical offset has this unit in its own queue."""
    message = read_message(log, phy_offset)
    return message is not None and unit in own_units(message)


def has_own_unit(units: QueueUnits, message: Message) -> bool:
    return any(units.has(unit, message.phy_offset, message.size) for unit in own_units(message))


def own_units(message: Message) -> list[OwnUnit]:
    """Return the units that a record may have in its own queue: in a plain one, or in a batch queue.

    Prepared and rolled back messages have none.
    """
    if message.sys_flag & TRANSACTION_TYPE in WITHOUT_UNIT:
        return []
    topic, queue_id, number = message.topic, message.queue_id, message.queue_offset
    if "INNER_NUM" not in message.properties:
        return [OwnUnit(topic, queue_id, number, is_batch) for is_batch in (False, True)]
    if "INNER_BASE" not in message.properties:
        return []
    return [OwnUnit(topic, queue_id, number_property(message, "INNER_BASE", LONG_MAX), is_batch=True)]


def read_message(log: RecordReader, phy_offset: int) -> Message | None:
    """Read the record at a physical offset, also behind the end of the log; None without a record."""
    fields = log.read_record(phy_offset)[1] if phy_offset >= 0 else None
    return None if fields is None else Message.of_fields(fields)

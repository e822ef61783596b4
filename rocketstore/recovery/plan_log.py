"""Plan what recovery does to the commit log: find its end, and check that no sound record stands behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rocketstore.compat import Compat
from rocketstore.errors import DAMAGE_ADVICE, ENTRIES_ADVICE, GAP_ADVICE, CorruptFileError, advice_for
from rocketstore.jobs.intent import UnfinishedWrite, find_unfinished, intent_path
from rocketstore.kernels.commit_log import BLANK, END, OK, bad_reason
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import EndCandidate, SoundEnd, Why
from rocketstore.log.tail import Tail, find_tails
from rocketstore.progress import OffsetReport, ignore_offset
from rocketstore.recovery.index import hashes_of
from rocketstore.recovery.lost import LostMessages, count_lost
from rocketstore.recovery.recovery_report import RecoveryAction
from rocketstore.recovery.saved_tails import SavedTail, is_saved
from rocketstore.recovery.store_files import Reading, StoreFiles
from rocketstore.root_places import SAVED_CUTS

TAIL_SIZE = 64 << 20  # bytes before the end that are read after a clean stop


@dataclass(frozen=True)
class LogRepair:
    """The plan for the commit log. All offsets are physical offsets, in bytes.

    Attributes: end: where the log ends after the repair. last_phy_offset: of the last record, -1 without one.
    checked_from: files that end behind this offset may not be on the disk yet. tails: bytes that are saved before they
    are zeroed. write: a Spark write that was ended in the middle. why: CUT if the tails are old records, DAMAGED if
    they have sound ones. lost: the messages that are cut off with damaged bytes before them.
    """

    end: int
    last_phy_offset: int
    checked_from: int
    tails: tuple[Tail, ...]
    write: UnfinishedWrite | None
    steps: tuple[RecoveryAction, ...]
    why: Why = Why.COMPLETE
    lost: tuple[LostMessages, ...] = ()

    @property
    def is_write_undone(self) -> bool:
        return self.write is not None and self.write.what == "undo"


def plan_log(store: StoreFiles, *, last_file: bool = False) -> LogRepair:
    """Plan what to do to the log alone, from the files that the checkpoint does not know to be on the disk.

    Parameters: last_file: read only the last file if no checkpoint tells where to begin. The caller reads the rest,
    and notices damage there.
    Raises: CorruptFileError.
    """
    check_log_files(store)
    is_clean = store.last_exit_ok and store.has_checkpoint
    flushed = store.checkpoint.physic_msg_timestamp
    if is_clean and last_file and not has_records_behind_end(store):
        return plan_log_from(store, find_tail_begin(store), verify_crc=False)
    if is_clean:
        begin = store.log.reader.begin_of_last_files(Compat.of(store.config.compat).last_files)
    elif last_file and flushed <= 0:
        begin = store.log.reader.last_begun_file()
    else:
        begin = find_file_before(store, flushed, find_flushed_record(store))
    return plan_log_from(store, begin, verify_crc=store.config.check_crc_on_recover)


def plan_log_from(store: StoreFiles, begin: int, *, verify_crc: bool, cut_at_damage: bool = False) -> LogRepair:
    """Read the log from ``begin`` to its end, and plan what to do to its files.

    Parameters: cut_at_damage: cut the log at damaged bytes also if sound records follow them.
    Raises: CorruptFileError if sound records follow damaged bytes, and the log must not be cut there.
    """
    may_end_in_zeros = not Compat.of(store.config.compat).trailing_separator
    whole_to = LONG_MAX if store.last_exit_ok or may_end_in_zeros else begin
    report = partial(store.report, Reading.LOG)
    end, last = _find_sound_end(store.log.as_whole_to(whole_to), begin, verify_crc=verify_crc, report=report)
    store = store.with_sound_log(end)
    log = store.log
    if _is_last_torn(store, end, last):
        end, last = _find_end_before(log, last)
    found = find_tails(log, end)
    write = find_unfinished(store.root, log.reader, end)
    candidate = EndCandidate(end, last, _find_later(store, end, found, write))
    why = store.evidence.judge(log.reader, candidate).why
    if why == Why.DAMAGED and not cut_at_damage:
        raise _damage_error(store, end)
    lost = _count_lost(store, end) if why == Why.DAMAGED else ()
    if write is not None and write.what == "undo":
        end, last = _find_end_before(log, write.begin)
        steps = _log_steps(store, end, found, write, find_tails(log, end))
    else:
        steps = _log_steps(store, end, found, write, found)
    return LogRepair(end, last, begin, tuple(found), write, tuple(steps), why, lost)


def check_log_files(store: StoreFiles) -> None:
    """Raise CorruptFileError for a log file that is too long, or that is too short and not the last one."""
    files, size = store.log.file_run.files, store.config.mapped_file_size_commit_log
    for file in files:
        if file.size > size or (file.size < size and file != files[-1]):
            reason = f"{file.size} bytes, but files of {size} are written: check the configuration"
            raise CorruptFileError(file.path, file.size, "file size", reason)


# ---- where to begin ----------------------------------------------------------------------------------------


def has_records_behind_end(store: StoreFiles) -> bool:
    """Return whether records stand behind the end of the log: a broker cut them off, or bytes were damaged."""
    return store.log.reader.find_bad_bytes(store.log.reader.last_begun_file()).later is not None


def find_tail_begin(store: StoreFiles) -> int:
    """Return where to begin after a clean stop: in the last file, 64 MiB before the last record of a start or stop."""
    file, confirmed = store.log.reader.last_begun_file(), store.checkpoint.confirm_phy_offset
    begin = confirmed - TAIL_SIZE
    found = store.log.reader.find_later(begin, confirmed + 1) if begin > file else None
    return file if found is None else found


def find_flushed_record(store: StoreFiles) -> int:
    """Return the offset of the last record on the disk by the checkpoint.

    LONG_MAX if offset and time of the checkpoint are not those of one record.
    """
    confirmed = store.checkpoint.confirm_phy_offset
    record = store.log.find_message(confirmed)
    is_flushed = record is not None and record.store_timestamp == store.checkpoint.physic_msg_timestamp
    return confirmed if is_flushed else LONG_MAX


def find_file_before(store: StoreFiles, timestamp: int, phy_offset: int) -> int:
    """Return where the last file begins whose first record is not after a time and an offset of the checkpoint.

    Later records may have earlier times, if a clock went back. Parameters: timestamp: milliseconds since the epoch.
    """
    for file in reversed(store.log.file_run.files):
        first = store.log.find_message(store.log.reader.record_at(file.file_from_offset))
        if first is not None and first.store_timestamp <= timestamp and first.phy_offset <= phy_offset:
            return file.file_from_offset
    return store.log.min_phy_offset


# ---- the end -----------------------------------------------------------------------------------------------


def find_record_end(log: CommitLog, phy_offset: int) -> int:
    """Return where the record at an offset ends; 0 if no record begins there."""
    record = log.find_message(phy_offset) if phy_offset >= 0 else None
    return 0 if record is None else phy_offset + record.size


def _find_sound_end(
    log: CommitLog,
    begin: int,
    stop: int = LONG_MAX,
    *,
    verify_crc: bool = False,
    report: OffsetReport = ignore_offset,
) -> SoundEnd:
    """Find where the sound records from ``begin`` on end, before ``stop``. Begin earlier if there is no record."""
    found = log.reader.find_sound_end(begin, stop, verify_crc=verify_crc, passes_zeros=True, report=report)
    before = log.file_run.find(begin - 1)
    if found.last_phy_offset >= 0 or before is None:
        return found
    return _find_sound_end(log, before.file_from_offset, stop, verify_crc=verify_crc)


def _find_end_before(log: CommitLog, phy_offset: int) -> SoundEnd:
    """Find where a log ends that ends before the record at an offset."""
    file = log.file_run.find(phy_offset - 1)
    return _find_sound_end(log, file.file_from_offset if file else phy_offset, phy_offset)


def _is_last_torn(store: StoreFiles, end: int, last_phy_offset: int) -> bool:
    """Return whether the last record ends in zeros, and its properties lack a value that its queue needs."""
    record_end = find_record_end(store.log, last_phy_offset)
    if record_end == 0 or record_end != end or store.log.file_run.pread(end - 1, 1) != b"\0":
        return False
    try:
        hashes_of(store.log, store.config, last_phy_offset, end)
    except CorruptFileError:
        return True
    return False


# ---- behind the end ----------------------------------------------------------------------------------------


def _find_later(store: StoreFiles, end: int, found: list[Tail], write: UnfinishedWrite | None) -> int | None:
    """Find the first record behind the end that may have been acknowledged, and that no recovery has saved."""
    later = store.log.reader.find_later(end + 1, LONG_MAX) if found else None
    is_known = later is None or _is_of_write(write, end, later)
    return None if is_known or all(is_saved(store.places.saved_cuts, tail) for tail in found) else later


def _count_lost(store: StoreFiles, end: int) -> tuple[LostMessages, ...]:
    """Count the messages behind the end. After a clean stop nobody writes there: damage is not read three times."""
    log = store.log.as_whole_to(LONG_MAX) if store.last_exit_ok else store.log
    return count_lost(log, end, store.evidence)


def _is_of_write(write: UnfinishedWrite | None, end: int, later: int) -> bool:
    """Return whether the record at ``later`` belongs to a write that is undone, whose records end at ``end``."""
    return write is not None and write.what != "leave" and write.end == end and later < write.intent.end


def require_sound_records(store: StoreFiles, begin: int, end: int) -> None:
    """Raise CorruptFileError if the log has bytes that are no record between two physical offsets."""
    found = store.log.reader.find_sound_end(begin, end).end
    if found < end:
        raise _damage_error(store, found)


def _damage_error(store: StoreFiles, place: int) -> CorruptFileError:
    """Return the error for damaged bytes, or a missing file, at a place with sound records behind it."""
    file_run = store.log.file_run
    later = store.log.reader.find_later(place + 1, LONG_MAX)
    at_place = file_run.find(place)
    file = at_place or next(file for file in file_run.files if file.end_offset > place)
    of_log = ENTRIES_ADVICE if store.log.reader.framing else DAMAGE_ADVICE if at_place else GAP_ADVICE
    advice = advice_for(of_log, store.root)
    field, what = _find_damage(store.log, place)
    reason = f"{what}, but a message is at {later}: {advice}"
    return CorruptFileError(file.path, max(place - file.file_from_offset, 0), field, reason)


def _find_damage(log: CommitLog, place: int) -> tuple[str, str]:
    """Return the field of a record that is damaged, and why; without a record, that no message begins there."""
    _, statuses = log.find_messages(np.array([place], np.int64), columns=["phy_offset"], verify_crc=True)
    status = int(statuses[0])
    return ("magic", "no message begins here") if status in (OK, END, BLANK) else bad_reason(status)


def describe_tails_to_save(repair: LogRepair) -> tuple[str, ...]:
    """Return a note for each tail that has records: what they are, and that they will be saved."""
    return tuple(
        filter(None, (_describe_tail(repair, tail, f"will be saved in {SAVED_CUTS}") for tail in repair.tails))
    )


def describe_saved_tails(repair: LogRepair, saved: Sequence[SavedTail]) -> tuple[str, ...]:
    """Return a note for each tail that has records: what they are, and where they are saved."""
    return tuple(filter(None, (_describe_tail(repair, tail, f"are saved in {path}") for tail, path in saved)))


def _describe_tail(repair: LogRepair, tail: Tail, place: str) -> str | None:
    """Return None for a tail without sound records."""
    reasons = {Why.CUT: "a broker cut the log", Why.DAMAGED: "the log is cut at damaged bytes"}
    if repair.why not in reasons:
        return None
    cut = f"{tail.file.path}: {reasons[repair.why]} at {repair.end}"
    return f"{cut}. The bytes from {tail.begin} to {tail.end} {place}, and overwritten with zeros"


def _log_steps(
    store: StoreFiles, end: int, saved: list[Tail], write: UnfinishedWrite | None, zeroed: list[Tail]
) -> Iterator[RecoveryAction]:
    """Yield the steps: save, undo, then delete, extend and zero files.

    Files are deleted from the last one on. Killed in the middle, a write is undone in part, and the next recovery
    undoes the rest.
    """
    yield from (_action_on(tail, "save") for tail in saved)
    if write is not None:
        yield RecoveryAction(intent_path(store.root), write.what, write.begin, write.end - write.begin)
    length = store.config.mapped_file_size_commit_log
    for file in reversed(store.log.file_run.files):
        if file.file_from_offset > end or file.size == 0:
            yield RecoveryAction(file.path, "delete")
        elif file.size < length:
            yield RecoveryAction(file.path, "extend", file.size, length - file.size)
    for tail in zeroed:
        if tail.file.file_from_offset <= end:
            yield _action_on(tail, "zero")


def _action_on(tail: Tail, what: str) -> RecoveryAction:
    return RecoveryAction(tail.file.path, what, tail.begin - tail.file.file_from_offset, tail.end - tail.begin)

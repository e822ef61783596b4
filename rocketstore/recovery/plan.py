"""RecoveryPlan: what recovery will do to a store. Making the plan changes no file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rocketstore.log.log_end import Why
from rocketstore.recovery.plan_index import IndexRepair, plan_index, plan_index_after_stop
from rocketstore.recovery.plan_log import (
    LogRepair,
    check_log_files,
    describe_tails_to_save,
    find_file_before,
    find_flushed_record,
    find_tail_begin,
    has_records_behind_end,
    plan_log_from,
    require_sound_records,
)
from rocketstore.recovery.plan_queues import (
    QueueRepair,
    are_ends_sound,
    find_last_units,
    find_newest_end,
    find_queue_ends,
    plan_queues,
    plan_queues_after_stop,
)
from rocketstore.recovery.queues import empty_ext_files
from rocketstore.recovery.recovery_report import RecoveryAction, RecoveryReport
from rocketstore.recovery.settings import Assumptions
from rocketstore.recovery.store_files import StoreFiles, check_queue_types
from rocketstore.recovery.unreadable import UnreadableRecords, count_unreadable
from rocketstore.survey.sizes import describe_assumed_log_size


@dataclass(frozen=True)
class RecoveryPlan:
    """The plans for the log, the queues and the index of a store, and all their steps in order.

    Attributes: units_end: physical offset at which the last record ends to which a unit led before the repair.
    """

    store: StoreFiles
    log: LogRepair
    queues: QueueRepair
    index: IndexRepair
    units_end: int
    steps: tuple[RecoveryAction, ...]

    def report(self, *, dry_run: bool = False) -> RecoveryReport:
        """Return a report of the plan's steps."""
        store, log, deleted = self.store, self.log, self.queues.deleted
        lost_end = self._describe_lost_end()
        return RecoveryReport(
            "complete",
            store.last_exit_ok,
            store.log.min_phy_offset,
            log.end,
            self.steps,
            dry_run,
            notes=(*lost_end, *(describe_tails_to_save(log) if dry_run else ())),
            lost=log.lost,
            deleted=deleted.messages,
            undeclared=deleted.undeclared,
            doubtful=deleted.doubtful,
        )

    def _describe_lost_end(self) -> tuple[str, ...]:
        """Return a note if units lead behind the end of a log whose writer stopped cleanly.

        Without a note if a broker's cut, damage, or an unfinished Spark write explains the end: the steps show these.
        """
        log = self.log
        is_explained = log.why in (Why.CUT, Why.DAMAGED) or log.write is not None
        if is_explained or not self.store.last_exit_ok or self.units_end <= log.end:
            return ()
        return (
            f"units led to messages up to byte {self.units_end}, but the log ends at byte {log.end}. The writer had "
            "stopped cleanly: the log was shortened after that, or these units are damaged",
        )

    def count_unreadable(self, begin: int = 0) -> UnreadableRecords:
        """Count the records from a physical offset on that the release of the configuration cannot read."""
        log = self.store.log
        return count_unreadable(log, self.store.config.compat, max(begin, log.min_phy_offset), self.log.end)

    def with_assumptions(self, report: RecoveryReport, assumed: Assumptions) -> RecoveryReport:
        """Return a report with the settings that are assumed for the records that are dispatched.

        Call this before the plan is applied. Parameters: report: of this plan. assumed: new, of the settings.
        """
        log, end = self.store.log, self.log.end
        index_begin = min(self.index.begin, end)
        assumed.add_log(log, self.queues.begin, index_begin)
        assumed.forget_items()
        assumed.add_log(log, index_begin, end)
        is_noticed = not assumed.settings.has_index or (self.store.last_exit_ok and index_begin < self.queues.begin)
        notes = assumed.index_notes() if is_noticed else ()
        size = describe_assumed_log_size(self.store.survey.sizes, self.store.log.file_run.files, self.log.end)
        return replace(report, notes=(*report.notes, *notes), assumptions=(*size, *assumed.texts()))


def plan_recovery(
    store: StoreFiles, *, thorough: bool = True, cut_at_damage: bool = False, deleted: bool = False
) -> RecoveryPlan:
    """Plan what to do to a store. Close ``store.log`` afterwards.

    Parameters: thorough: read the whole log, and all queues and index files also after a clean stop. cut_at_damage: as
    for ``plan_log_from``. deleted: make units of records of deleted topics too, with ``thorough``.
    Raises: CorruptFileError if sound records follow damaged bytes; StoreError.
    """
    check_log_files(store)
    check_queue_types(store)
    is_clean = store.last_exit_ok and store.has_checkpoint and not empty_ext_files(store)
    plan = None if thorough or not is_clean else _plan_from_ends(store)
    if plan is not None:
        return plan
    return _plan_from_everything(store, whole_log=thorough, cut_at_damage=cut_at_damage, deleted=deleted)


def _plan_from_ends(store: StoreFiles) -> RecoveryPlan | None:
    """Plan after a clean stop, from the ends of log, queues and index. None: something is not as a stop leaves it."""
    queues = find_last_units(store)
    if has_records_behind_end(store):
        return None
    log = plan_log_from(store, find_tail_begin(store), verify_crc=store.config.check_crc_on_recover)
    store = store.with_sound_log(log.end)
    if not are_ends_sound(store, log, queues):
        return None
    index = plan_index_after_stop(store, log, find_newest_end(queues))
    queue_repair = None if index is None else plan_queues_after_stop(store, log, queues)
    if index is None or queue_repair is None:
        return None
    return _plan_of(store, log, queue_repair, index, find_newest_end(queues))


def _plan_from_everything(store: StoreFiles, *, whole_log: bool, cut_at_damage: bool, deleted: bool) -> RecoveryPlan:
    """Plan from all units and items, and from the log behind the first of their ends, or from the whole log.

    Parameters: deleted: as for ``plan_recovery``.
    """
    queues = find_queue_ends(store)
    begin = store.log.min_phy_offset  # the log is cut at the first damage in any file
    if not cut_at_damage:
        begin = find_file_before(store, store.checkpoint.physic_msg_timestamp, find_flushed_record(store))
    verify_crc = store.config.check_crc_on_recover
    log = plan_log_from(store, begin, verify_crc=verify_crc, cut_at_damage=cut_at_damage)
    store = store.with_sound_log(log.end)
    index = plan_index(store, log, whole_log=whole_log)
    queue_repair = plan_queues(store, log, queues, index_begin=index.begin, whole_log=whole_log, deleted=deleted)
    return _plan_of(store, log, queue_repair, index, find_newest_end(queues))


def _plan_of(
    store: StoreFiles, log: LogRepair, queues: QueueRepair, index: IndexRepair, units_end: int
) -> RecoveryPlan:
    """Put the plans together. Raises: CorruptFileError if records that will be dispatched follow damaged bytes."""
    begin = min(queues.begin, index.begin)
    if begin <= log.last_phy_offset:
        require_sound_records(store, begin, log.end)
    return RecoveryPlan(store, log, queues, index, units_end, tuple(_steps(store, log, queues, index)))


def _steps(store: StoreFiles, log: LogRepair, queues: QueueRepair, index: IndexRepair) -> Iterator[RecoveryAction]:
    yield from log.steps
    yield from queues.steps
    for cut in index.cuts:
        place = ("cut", cut.offset, cut.size) if cut.kept else ("delete",)
        yield RecoveryAction(cut.path, *place)
    begin = min(queues.begin, index.begin)
    if begin <= log.last_phy_offset:
        yield RecoveryAction(store.log.directories[0], "dispatch", begin, log.end - begin)

"""Apply a recovery plan to the files of a store."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from rocketstore.compat import Compat
from rocketstore.disk.durable import sync_path, zero_range
from rocketstore.disk.storage import local_path
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.errors import DAMAGE_ADVICE, CorruptFileError, advice_for
from rocketstore.index.index_header import read_header
from rocketstore.index.index_service import open_index
from rocketstore.log.commit_log import CommitLog
from rocketstore.recovery.index import cut_index
from rocketstore.recovery.plan import RecoveryPlan
from rocketstore.recovery.plan_index import paths_of_index
from rocketstore.recovery.plan_log import LogRepair
from rocketstore.recovery.recovery_report import RecoveryAction
from rocketstore.recovery.saved_tails import SavedTail, save_tail
from rocketstore.recovery.store_files import Reading, StoreFiles
from rocketstore.state.abort import make_abort
from rocketstore.state.checkpoint import StoreCheckpoint


def apply_plan(plan: RecoveryPlan) -> list[SavedTail]:
    """Change the files, and flush them before the checkpoint says so. The file ``abort`` stays.

    Returns: the tails of the log, as they were saved.
    Raises: StoreError if the store is not the one, or not in the state, that was planned for; OSError.

    The process may be killed at any moment. ``abort`` is made before anything is changed, so that the next recovery
    reads everything. Bytes are copied to ``rocketstore-cut`` before they are cut off the log. The exception is a Spark
    write that is undone: its job has the messages. A queue that is built again keeps its directory.
    """
    store = plan.store
    if not plan.steps and store.last_exit_ok:
        return []
    store.survey.require_unchanged()
    saved = _apply_steps(store, plan.log, plan.steps)
    for cut in plan.index.cuts:
        if cut.kept:
            cut_index(cut, store.index_geometry, store.config.compat, store.log)
    _sync_files(plan)
    _dispatch(plan)
    for queue in plan.queues.queues:
        if queue.unit is None:
            with suppress(OSError):  # it is not empty
                queue.directory.rmdir()
    finish_repair(store, plan.log)
    return saved


def apply_log_repair(store: StoreFiles, repair: LogRepair) -> list[SavedTail]:
    """Change the files of the log only. Call ``finish_repair`` afterwards.

    Returns: the tails of the log, as they were saved.
    Raises: StoreError if the store is not the one, or not in the state, that was planned for; OSError.
    """
    store.survey.require_unchanged()
    return _apply_steps(store, repair, repair.steps)


def finish_repair(store: StoreFiles, repair: LogRepair) -> None:
    """Write the checkpoint. After that no Spark write is unfinished."""
    save_checkpoint(store, repair.last_phy_offset)
    if repair.write is not None:
        repair.write.remove_intent()


def _apply_steps(store: StoreFiles, repair: LogRepair, steps: Iterable[RecoveryAction]) -> list[SavedTail]:
    if not store.places.abort.exists():
        make_abort(store.local_places.abort)
    saved = [save_tail(store.local_places.saved_cuts, tail) for tail in repair.tails]
    if repair.is_write_undone:  # the checkpoint may know of records that are removed now
        store.checkpoint.clear()
    for step in steps:
        path = local_path(step.path)
        if step.what == "zero":
            zero_range(path, step.offset, step.size)
        elif step.what == "extend":
            os.truncate(path, step.offset + step.size)
        elif step.what == "delete":
            path.unlink()
            sync_path(path.parent)
    store.log.refresh()
    return saved


def _sync_files(plan: RecoveryPlan) -> None:
    """Flush the files that were written before the crash, and are counted as sound from now on."""
    store = plan.store
    paths = [local_path(file.path) for file in store.log.file_run.files if file.end_offset > plan.log.checked_from]
    if not store.last_exit_ok:
        for queue in plan.queues.queues:
            paths += [Path(path) for _, path, _ in queue.files()[-3:] + queue.ext_files()[-3:]]
        paths += paths_of_index(store)
    for path in paths:
        sync_path(path)


def _dispatch(plan: RecoveryPlan) -> None:
    """Dispatch the records that only queues or only the index lack, then those that both lack."""
    store, in_queues, in_index = plan.store, plan.queues.begin, plan.index.begin
    end, last = plan.log.end, plan.log.last_phy_offset
    both = max(in_queues, in_index)
    try:
        if in_queues < min(both, end):
            _dispatch_range(plan, in_queues, min(both, end), has_index=False)
        elif in_index < both and in_index <= last:
            _dispatch_range(plan, in_index, min(both, end), has_queues=False)
        if both <= last:
            _dispatch_range(plan, both, end)
    except CorruptFileError as error:
        if Path(str(error.path)).parent not in store.log.directories:
            raise
        advice = advice_for(DAMAGE_ADVICE, store.root)
        raise CorruptFileError(error.path, error.offset, error.field, f"{error.reason}: {advice}") from None


def _dispatch_range(
    plan: RecoveryPlan, begin: int, end: int, *, has_queues: bool = True, has_index: bool = True
) -> None:
    """Dispatch records to queues and index, or to one of them."""
    store = plan.store
    index = open_index(store.local_places.index, store.config, store.checkpoint) if has_index else None
    dispatcher = Dispatcher(
        store.local_places,
        store.config,
        store.log,
        index,
        store.batch_topics,
        lives=plan.queues.lives,
        has_queues=has_queues,
    )
    dispatcher.dispatch(begin, end, report=partial(store.report, Reading.DISPATCH))
    dispatcher.flush()
    dispatcher.close()


def save_checkpoint(store: StoreFiles, last_phy_offset: int) -> None:
    """Write a checkpoint that says that everything is on the disk, so that a broker's next start keeps all of it.

    Parameters: last_phy_offset: of the last record, -1 without one.
    """
    checkpoint = store.checkpoint
    set_last_record(checkpoint, store.log, store.config.compat, last_phy_offset)
    checkpoint.clear_negative_numbers()
    for path in paths_of_index(store)[:-1]:  # a broker deletes newer full files
        end_timestamp = read_header(path).end_timestamp
        checkpoint.index_msg_timestamp = max(checkpoint.index_msg_timestamp, end_timestamp)
    checkpoint.flush()
    sync_path(store.local_places.root)


def set_last_record(checkpoint: StoreCheckpoint, log: CommitLog, release: str, last_phy_offset: int) -> None:
    """Set the numbers of a checkpoint by which all records of a log, and their units, are on the disk.

    Parameters: release: writes the checkpoint. last_phy_offset: of the last record, -1 without one.
    """
    last = log.find_message(last_phy_offset) if last_phy_offset >= 0 else None
    if last is None:
        return
    compat = Compat.of(release)
    checkpoint.physic_msg_timestamp = checkpoint.logics_msg_timestamp = last.store_timestamp
    if compat.has_confirm_phy_offset:
        checkpoint.confirm_phy_offset = last_phy_offset
    if compat.has_logics_physical_offset:
        checkpoint.logics_physical_offset = last_phy_offset

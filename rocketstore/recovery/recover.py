"""recover: make a store sound before it is written to, as rocketstore or as a broker does it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rocketstore.config import DEFAULT_SIZES, SizedConfig, StoreConfig, require_config
from rocketstore.disk.descriptors import require_descriptors_to_write
from rocketstore.disk.durable import sync_path
from rocketstore.disk.storage import local_path
from rocketstore.errors import CorruptFileError
from rocketstore.recovery.apply import apply_plan
from rocketstore.recovery.broker import RELEASES, dry_run_as_broker, recover_as_broker
from rocketstore.recovery.plan import plan_recovery
from rocketstore.recovery.plan_log import describe_saved_records
from rocketstore.recovery.report import RecoveryReport
from rocketstore.recovery.settings import Assumptions, BrokerSettings, find_settings, warn_of
from rocketstore.recovery.store_files import open_store_files
from rocketstore.state.json_tables import batch_topics
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.formats import look_at_store, require_file_log
from rocketstore.survey.owners import lock_for_writing, require_log_directory, require_own_places
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import (
    planning_config,
    require_batch_size,
    require_store,
    save_geometry,
    writing_config,
)

POLICIES = ("complete", "broker")
LAST_PATCH = {release.rpartition(".")[0]: release for release in RELEASES}  # as Compat takes "5.3"


def recover(
    path: str | os.PathLike[str],
    *,
    policy: Literal["complete", "broker"] = "complete",
    dry_run: bool = False,
    cut_at_damage: bool = False,
    deleted: bool = False,
    config: StoreConfig | None = None,
) -> RecoveryReport:
    """Recover a store that no process is writing, and leave it as a clean stop does.

    Parameters
    ----------
    path : the root of the store.
    policy : "complete", which opening for writing uses, cuts only a torn tail off the commit log: bytes behind which no
        sound record stands. They are saved in ``rocketstore-cut`` first. Queues and index are completed from their own
        last sound entries, and from the whole log if a queue is missing or wrong. After a clean stop, old records
        behind a place at which a broker is proved to have cut the log are saved and zeroed too: the notes of the report
        name them. Opening then searches only the last 64 MiB of the log for records without units or items. It does
        not notice that the directory of a queue is missing. "broker" does what a broker of ``config.compat``, 5.3.3,
        5.5.0 or 5.5.1, does at its next start. Bytes that it cuts off the log are saved too.
    dry_run : change nothing, not even the lock file, and only report the steps. Sizes that no file shows for certain
        are supposed, and the notes of the report say so.
    cut_at_damage : also cut the log at damaged bytes behind which sound records stand. The report lists the messages
        that are lost. Their bytes are saved in ``rocketstore-cut``. Try ``salvage`` first: it loses none of them.
    deleted : with "complete", build queues of deleted topics again. Otherwise their messages are left out, counted and
        named. ``rebuild`` says how a deleted topic is known.
    config : sizes of files, as for ``open``. Given sizes are saved in ``config/rocketstore.json``.

    Returns
    -------
    RecoveryReport.

    Raises
    ------
    CorruptFileError : "complete": sound records follow damaged bytes, and ``cut_at_damage`` is False; nothing was
        changed. "broker": a broker does not start; the changes that it makes before that stay.
    UnsupportedFormatError : the log is DLedger's, or the queues, or the topics, are in RocksDB.
    StoreError : the log has records that ``config.compat`` cannot read, unless ``config.allow_unreadable``; a dry run
        notes them.
    StoreLockedError, ValueError, TypeError, OSError.

    Source: DefaultMessageStore.load.

    Examples:
    >>> report = rocketstore.recover("demo", dry_run=True)
    >>> report.last_exit_ok, report.actions
    (True, ())
    """
    if policy not in POLICIES:
        raise ValueError(f"policy={policy!r}: must be one of {', '.join(map(repr, POLICIES))}")
    if cut_at_damage and policy == "broker":
        raise ValueError("cut_at_damage=True: policy 'broker' cuts where a broker does: use only one of them")
    require_config(config)
    root = local_path(path)
    given = config or StoreConfig()
    require_descriptors_to_write(root)
    require_store(root, given)
    require_file_log(root, given, "recovered")
    layout = look_at_store(root, config)
    layout.require_written_queues("recovered")
    layout.require_config_files("recovered")
    require_log_directory(root, given)
    require_own_places(root, given)
    has_sizes = any(getattr(given, name) is not None for name in DEFAULT_SIZES)
    config, notes = planning_config(root, config) if dry_run else (writing_config(root, config), ())
    if batch_topics(open_tables(StorePlaces.of(root), config).read_topics()):
        require_batch_size(config)
    settings = config
    if policy == "broker":
        config = replace(config, compat=LAST_PATCH.get(config.compat, config.compat))
    if policy == "broker" and config.compat not in RELEASES:
        known = f"{', '.join(RELEASES[:-1])} and {RELEASES[-1]}"
        raise ValueError(f"compat={config.compat!r}: policy 'broker' supports {known}")
    if dry_run:
        learned = find_settings(root, config)
        if policy == "broker":
            report = _with_assumptions(dry_run_as_broker(root, learned.config), root, learned)
        else:
            plan = plan_recovery(root, learned.config, cut_at_damage=cut_at_damage, deleted=deleted)
            with plan.store.log:
                report = plan.with_assumptions(plan.report(dry_run=True), learned)
                report = replace(report, notes=(*report.notes, *plan.count_unreadable().texts()))
        warn_of(report.assumptions, root)
        return replace(report, notes=(*notes, *report.notes))
    with lock_for_writing(root, given):
        learned = find_settings(root, config)
        if policy == "broker":
            report = _with_assumptions(recover_as_broker(root, learned.config), root, learned)
        else:
            plan = plan_recovery(root, learned.config, cut_at_damage=cut_at_damage, deleted=deleted)
            with plan.store.log:
                report = plan.with_assumptions(plan.report(), learned)
                unreadable = plan.count_unreadable().require_none(root, config)
                saved = describe_saved_records(plan.log, apply_plan(plan))
                report = replace(report, notes=(*saved, *report.notes, *unreadable))
        if has_sizes:
            save_geometry(root, settings)
        StorePlaces.of(root).abort.unlink(missing_ok=True)
        sync_path(root)
    warn_of(report.assumptions, root)
    return report


def _with_assumptions(report: RecoveryReport, root: Path, settings: BrokerSettings[SizedConfig]) -> RecoveryReport:
    """Return the report of the policy "broker" with the assumptions about the records that it dispatches."""
    assumed = Assumptions(settings)
    # A broker also dispatches records that are not where they say.
    with open_store_files(root, settings.config).log as log, contextlib.suppress(CorruptFileError):
        for action in report.actions:
            if action.what == "dispatch":
                assumed.add_log(log, action.offset, min(action.offset + action.size, log.max_phy_offset))
    notes = () if settings.has_index else assumed.index_notes()
    return replace(report, notes=(*report.notes, *notes), assumptions=tuple(assumed.texts()))

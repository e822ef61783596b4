"""recover: make a store sound before it is written to, as rocketstore or as a broker does it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import Literal

from rocketstore.config import DEFAULT_SIZES, SizedConfig, StoreConfig
from rocketstore.disk.durable import sync_path
from rocketstore.errors import CorruptFileError
from rocketstore.limits import LONG_MAX
from rocketstore.progress import Progress, Report, report_nothing, show_progress
from rocketstore.recovery.apply import apply_plan
from rocketstore.recovery.broker import RELEASES, dry_run_as_broker, recover_as_broker
from rocketstore.recovery.plan import plan_recovery
from rocketstore.recovery.plan_log import describe_saved_tails
from rocketstore.recovery.recovery_report import RecoveryReport
from rocketstore.recovery.settings import Assumptions, BrokerSettings, find_settings, warn_of
from rocketstore.recovery.store_files import Reading, open_store_files
from rocketstore.survey.requirements import begin_entry, locked
from rocketstore.survey.sizes import describe_assumed_log_size, save_settings, without_assumed_log_size
from rocketstore.survey.survey import Survey

POLICIES = ("complete", "broker")
LAST_PATCH = {release.rpartition(".")[0]: release for release in RELEASES}  # as Compat takes "5.3"


def recover(
    path: str | os.PathLike[str],
    *,
    policy: Literal["complete", "broker"] = "complete",
    dry_run: bool = False,
    cut_at_damage: bool = False,
    deleted: bool = False,
    progress: Progress = False,
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
    progress : True shows a bar on standard error. A function is called with the bytes of the log that were read, and
        all bytes to read. The log counts three times: for its end, for records without units, and to dispatch records.
        Policy "broker" reports nothing: it reads the last files alone.
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
    survey = begin_entry("recover dry run" if dry_run else "recover", path, config)
    with show_progress(progress, "recover") as shown:
        report = recover_surveyed(
            survey, policy, dry_run=dry_run, cut_at_damage=cut_at_damage, deleted=deleted, progress=shown
        )
    warn_of(report.assumptions, survey.root)
    return report


def recover_surveyed(
    survey: Survey,
    policy: str = "complete",
    *,
    dry_run: bool = False,
    cut_at_damage: bool = False,
    deleted: bool = False,
    progress: Report = report_nothing,
) -> RecoveryReport:
    """Recover a store, and leave it to the caller to warn of the assumptions.

    Parameters: survey: of ``begin_entry``. The others: as for ``recover``.
    """
    if dry_run:
        known, notes = survey.assume_sized_config()
        report = _plan_only(survey, _with_release(known, policy), policy, cut_at_damage, deleted, progress)
        return replace(report, notes=(*notes, *report.notes))
    _with_release(survey.find_sized_config(), policy)  # raises before the file of the lock is made
    with locked("recover", survey) as now:
        known = _with_release(now.find_sized_config(), policy)
        return _recover(now, known, policy, cut_at_damage, deleted, progress)


def _with_release(config: SizedConfig, policy: str) -> SizedConfig:
    """Return the configuration with the release that the policy "broker" follows. Raises: ValueError for another."""
    if policy != "broker":
        return config
    release = LAST_PATCH.get(config.compat, config.compat)
    if release not in RELEASES:
        known = f"{', '.join(RELEASES[:-1])} and {RELEASES[-1]}"
        raise ValueError(f"compat={release!r}: policy 'broker' supports {known}")
    return replace(config, compat=release)


def _plan_only(
    survey: Survey, config: SizedConfig, policy: str, cut_at_damage: bool, deleted: bool, progress: Report
) -> RecoveryReport:
    """Return the report of a dry run."""
    learned = find_settings(survey.places, config)
    if policy == "broker":
        return _with_assumptions(dry_run_as_broker(survey, learned.config), survey, learned)
    store = open_store_files(survey, learned.config, progress=progress)
    with store.log:
        plan = plan_recovery(store, cut_at_damage=cut_at_damage, deleted=deleted)
        report = plan.with_assumptions(plan.report(dry_run=True), Assumptions(learned))
        unreadable = plan.count_unreadable().texts()
        store.report(Reading.DISPATCH, LONG_MAX)
        return replace(report, notes=(*report.notes, *unreadable))


def _recover(
    now: Survey, config: SizedConfig, policy: str, cut_at_damage: bool, deleted: bool, progress: Report
) -> RecoveryReport:
    """Recover a store whose lock is held. Parameters: now: the survey under the lock."""
    places, given = now.local_places, now.settings
    learned = find_settings(places, config)
    if policy == "broker":
        report = _with_assumptions(recover_as_broker(now, learned.config), now, learned)
    else:
        store = open_store_files(now, learned.config, progress=progress)
        with store.log:
            plan = plan_recovery(store, cut_at_damage=cut_at_damage, deleted=deleted)
            report = plan.with_assumptions(plan.report(), Assumptions(learned))
            unreadable = plan.count_unreadable().require_none(now.root, allow=config.allow_unreadable)
            saved = describe_saved_tails(plan.log, apply_plan(plan))
            report = replace(report, notes=(*saved, *report.notes, *unreadable))
            store.report(Reading.DISPATCH, LONG_MAX)
    if any(getattr(given, name) is not None for name in DEFAULT_SIZES):
        save_settings(places, without_assumed_log_size(now.find_sized_config(), report.assumptions))
    places.abort.unlink(missing_ok=True)
    sync_path(places.root)
    return report


def _with_assumptions(report: RecoveryReport, survey: Survey, settings: BrokerSettings[SizedConfig]) -> RecoveryReport:
    """Return the report of the policy "broker" with its assumptions.

    They are about the size of log files, and about the records that it dispatches.
    """
    assumed = Assumptions(settings)
    with open_store_files(survey, settings.config).log as log:
        log_size = describe_assumed_log_size(survey.sizes, log.file_run.files, report.max_phy_offset)
        # A broker also dispatches records whose physical offset is not that of their place.
        with contextlib.suppress(CorruptFileError):
            for action in report.actions:
                if action.what == "dispatch":
                    assumed.add_log(log, action.offset, min(action.offset + action.size, log.max_phy_offset))
    notes = () if settings.has_index else assumed.index_notes()
    return replace(report, notes=(*report.notes, *notes), assumptions=(*log_size, *assumed.texts()))

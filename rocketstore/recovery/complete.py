"""The policy "complete": recovery that loses less than a broker's does."""

from __future__ import annotations

from dataclasses import replace

from rocketstore.config import SizedConfig
from rocketstore.disk.durable import make_directory
from rocketstore.disk.storage import local_path
from rocketstore.recovery.apply import apply_plan
from rocketstore.recovery.plan import RecoveryPlan, plan_recovery
from rocketstore.recovery.plan_log import describe_saved_tails
from rocketstore.recovery.recovery_report import RecoveryReport
from rocketstore.recovery.settings import Assumptions, BrokerSettings, find_settings
from rocketstore.recovery.store_files import open_store_files
from rocketstore.survey.sizes import has_messages, read_saved, save_settings, without_assumed_log_size
from rocketstore.survey.survey import Survey


def complete_store(
    survey: Survey, config: SizedConfig, settings: BrokerSettings[SizedConfig] | None = None
) -> RecoveryReport:
    """Recover a store that is opened for writing, and make its missing directories. The caller holds the lock.

    The stated settings are saved, without a size of log files that is assumed. ``abort`` stays if anything was changed.

    Parameters: survey: made under the lock. config: stated settings. settings: those to build with; None to learn them.
    Returns: the report, with the assumptions, and with the files that have saved old records.
    Raises: as ``plan_recovery``; StoreError if the release cannot read records of the log; OSError.
    """
    settings = settings or find_settings(survey.places, config)
    store = open_store_files(survey, settings.config)
    with store.log:
        plan = plan_recovery(store, thorough=False)
        report = plan.with_assumptions(plan.report(), Assumptions(settings))
        unreadable = plan.count_unreadable(_first_unchecked(plan)).require_none(
            survey.root, allow=config.allow_unreadable
        )
        report = replace(report, notes=(*report.notes, *unreadable))
        known = without_assumed_log_size(config, report.assumptions)
        save_settings(survey.local_places, known, is_new=not has_messages(survey.places))
        for path in config.commit_log_paths(survey.root, writable=True):
            make_directory(local_path(path))
        saved = describe_saved_tails(plan.log, apply_plan(plan))
    return replace(report, notes=(*saved, *report.notes))


def _first_unchecked(plan: RecoveryPlan) -> int:
    """Return where to begin a search for unreadable records: at the begin of the log, or of its last file.

    If the store was opened with this release before, all records of that time were checked.
    """
    files, saved = plan.store.log.file_run.files, read_saved(plan.store.places.saved_settings)
    return files[-1].file_from_offset if files and saved.get("compat") == plan.store.config.compat else 0

"""The policy "complete": recovery that loses less than a broker's does."""

from __future__ import annotations

from pathlib import Path

from rocketstore.config import StoreConfig
from rocketstore.disk.durable import make_directory
from rocketstore.layout.geometry import has_messages, save_geometry
from rocketstore.recovery.apply import apply_plan
from rocketstore.recovery.plan import plan_recovery
from rocketstore.recovery.report import RecoveryReport
from rocketstore.recovery.settings import BrokerSettings, find_settings

__all__ = ["complete_store"]


def complete_store(root: Path, config: StoreConfig, settings: BrokerSettings | None = None) -> RecoveryReport:
    """Recover a store that is opened for writing, and make its missing directories. The caller holds the lock.

    The stated settings are saved. ``abort`` stays if anything was changed.

    Parameters: config: stated settings, with every size. settings: those to build with; None to learn them.
    Returns: the report, with the assumptions. Raises: as ``plan_recovery``; OSError.
    """
    settings = settings or find_settings(root, config)
    plan = plan_recovery(root, settings.config, thorough=False)
    with plan.store.log:
        report = plan.with_assumptions(plan.report(), settings)
        save_geometry(root, config, is_new=not has_messages(root, config))
        for path in config.commit_log_paths(root, writable=True):
            make_directory(path)
        apply_plan(plan)
        return report

"""The policy "complete": recovery that loses less than a broker's does."""

from __future__ import annotations

from pathlib import Path

from rocketstore.config import StoreConfig
from rocketstore.disk.durable import make_directory
from rocketstore.layout.geometry import save_geometry
from rocketstore.recovery.apply import apply_plan
from rocketstore.recovery.plan import plan_recovery
from rocketstore.recovery.report import RecoveryReport

__all__ = ["complete_store"]


def complete_store(root: Path, config: StoreConfig) -> RecoveryReport:
    """Recover a store that is opened for writing, and make its missing directories. The caller holds the lock.

    The geometry of the files is saved. ``abort`` stays if anything was changed. Raises: as ``plan_recovery``; OSError.
    """
    plan = plan_recovery(root, config, thorough=False)
    with plan.store.log:
        save_geometry(root, config)
        for path in config.commit_log_paths(root, writable=True):
            make_directory(path)
        apply_plan(plan)
        return plan.report()

"""Tell which records stand in place of lost ones: queues and index know more of these messages than the records."""

from __future__ import annotations

import numpy as np

from rocketstore.kernels.commit_log import OK
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.damaged import DAMAGED_FLAG


def are_patched(log: CommitLog, phy_offsets: np.ndarray) -> np.ndarray:
    """Return which records at physical offsets int64[n] stand in place of lost ones, bool[n]."""
    patched = np.zeros(len(phy_offsets), bool)
    if len(phy_offsets):
        batch, statuses = log.find_messages(phy_offsets, columns=["flag"])
        patched[statuses == OK] = batch.flag == DAMAGED_FLAG
    return patched

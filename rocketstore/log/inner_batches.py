"""Count the messages of inner batches in a log."""

from __future__ import annotations

import contextlib

from rocketstore.errors import CorruptFileError
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import find_inner_batch


def count_batch_messages(log: CommitLog, phy_offset: int) -> int:
    """Return the number of messages in an inner batch; 1 if its record cannot be read."""
    with contextlib.suppress(KeyError, CorruptFileError):
        if (message := log.find_message(phy_offset)) is not None:
            return find_inner_batch(message)[1]
    return 1

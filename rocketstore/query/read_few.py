"""Read a few messages one by one, which takes less time than columns do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch

FEW = 8  # messages that are read one by one


def read_few(log: CommitLog, phy_offsets: Sequence[int]) -> list[Message] | None:
    """Read the messages at physical offsets, bytes. Return None if one of them has no message."""
    messages = []
    for phy_offset in phy_offsets:
        message = log.find_message(phy_offset)
        if message is None:
            return None
        messages.append(message)
    return messages


def read_batch(log: CommitLog, phy_offsets: Sequence[int]) -> MessageBatch:
    """Read the messages at physical offsets, bytes, as columns. Offsets without a message are left out."""
    return log.find_messages(np.array(phy_offsets, np.int64))[0]

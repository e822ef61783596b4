"""Read a few messages one by one, which takes less time than columns do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rocketstore.kernels.commit_log import WRONG_CRC
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch

FEW = 8  # messages that are read one by one
# What a body that does not match its CRC is: an error; None in its column, with the error; or not noticed.
OnWrongCrc = Literal["raise", "mark", "ignore"]


def read_few(log: CommitLog, phy_offsets: Sequence[int], on_wrong_crc: OnWrongCrc) -> list[Message] | None:
    """Read the messages at physical offsets, bytes. Return None if one of them has no message.

    Raises: CorruptFileError for a body that does not match its CRC, with "raise".
    """
    messages = []
    for phy_offset in phy_offsets:
        message = log.find_sound_message(phy_offset, verify_crc=on_wrong_crc == "raise")
        if message is None:
            return None
        messages.append(message)
    return messages


def read_batch(log: CommitLog, phy_offsets: Sequence[int], on_wrong_crc: OnWrongCrc) -> MessageBatch:
    """Read the messages at physical offsets, bytes, as columns. Offsets without a message are left out.

    Raises: CorruptFileError for a body that does not match its CRC, with "raise".
    """
    offsets = np.array(phy_offsets, np.int64)
    batch, statuses = log.find_messages(offsets, verify_crc=on_wrong_crc == "raise", marks_crc=on_wrong_crc == "mark")
    wrong = np.flatnonzero(np.isin(statuses, WRONG_CRC))
    if len(wrong):
        raise log.error(int(offsets[wrong[0]]), int(statuses[wrong[0]]))
    return batch

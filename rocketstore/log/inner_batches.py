"""The messages of inner batches in a log: their number, and the messages."""

from __future__ import annotations

import contextlib

from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.compression import BODY_ERRORS
from rocketstore.messages.message import Message, find_inner_batch
from rocketstore.messages.system_flags import INNER_BATCH, NEEDS_UNWRAP


def count_batch_messages(log: CommitLog, phy_offset: int) -> int:
    """Return the number of messages in an inner batch; 1 if its record cannot be read."""
    with contextlib.suppress(KeyError, CorruptFileError):
        if (message := log.find_message(phy_offset)) is not None:
            return find_inner_batch(message)[1]
    return 1


def messages_of(log: CommitLog, message: Message) -> list[Message]:
    """Return the messages of an inner batch. Return any other message, and a batch that cannot be decoded, itself.

    Parameters: message: with phy_offset and sys_flag; the record is read again for its other fields.
    """
    if not message.sys_flag & INNER_BATCH or message.phy_offset is None:  # the record is in tiered storage
        return [message]
    try:
        record = log.find_message(message.phy_offset)
        found = [] if record is None else record.decode_batch()
    except (StoreError, *BODY_ERRORS):
        return [message]
    for inner in found:
        inner.sys_flag &= ~(INNER_BATCH | NEEDS_UNWRAP)
    return found or [message]

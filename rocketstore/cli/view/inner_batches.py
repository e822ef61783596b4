"""Show the messages of inner batches in place of the records that contain them."""

from collections.abc import Iterable, Iterator, Sequence

from rocketstore.errors import StoreError
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.compression import BODY_ERRORS
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import INNER_BATCH, NEEDS_UNWRAP

NEEDED_COLUMNS = ("phy_offset", "sys_flag")  # of the batches that ``without_containers`` gets


def without_containers(
    log: CommitLog, batches: Iterable[MessageBatch], *, newest_first: bool = False
) -> Iterator[MessageBatch | Sequence[Message]]:
    """Yield batches in which the messages of each inner batch replace the record of the inner batch.

    Parameters: newest_first: the order of the batches, and so of the messages of an inner batch.
    """
    order = -1 if newest_first else 1
    for batch in batches:
        has_containers = bool(len(batch)) and bool((batch.sys_flag & INNER_BATCH).any())
        if has_containers:
            yield [inner for message in batch for inner in messages_of(log, message)[::order]]
        else:
            yield batch


def messages_of(log: CommitLog, message: Message) -> list[Message]:
    """Return the messages of an inner batch. Return any other message, and a batch that cannot be decoded, itself.

    Parameters: message: with ``NEEDED_COLUMNS``; the record is read again for its other fields.
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

"""Show the messages of inner batches in place of the records that a query found."""

from collections.abc import Iterable, Iterator, Sequence

from rocketstore.log.commit_log import CommitLog
from rocketstore.log.inner_batches import messages_of
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import INNER_BATCH

NEEDED_COLUMNS = ("phy_offset", "sys_flag")  # of the batches that ``without_containers`` gets


def without_containers(
    log: CommitLog, batches: Iterable[MessageBatch], *, newest_first: bool = False
) -> Iterator[MessageBatch | Sequence[Message]]:
    """Yield batches in which the messages of each inner batch replace the record of the inner batch.

    Parameters: batches: of records, with ``NEEDED_COLUMNS``. newest_first: the order of the batches, and so of the
    messages of an inner batch.
    """
    order = -1 if newest_first else 1
    for batch in batches:
        has_containers = bool(len(batch)) and bool((batch.sys_flag & INNER_BATCH).any())
        if has_containers:
            yield [inner for message in batch for inner in messages_of(log, message)[::order]]
        else:
            yield batch

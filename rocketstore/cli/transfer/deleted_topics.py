"""Leave out the messages of deleted topics when messages are exported by topic."""

from collections.abc import Collection
from typing import Any

import numpy as np

from rocketstore.dispatch.topic_lives import KnownTopics, TopicLives
from rocketstore.kernels.dispatch import REQUEST
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.inner_batches import count_batch_messages
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import (
    INNER_BATCH,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from rocketstore.store.message_store import MessageStore

LIVES_COLUMNS = ("topic", "queue_id", "queue_offset", "phy_offset", "sys_flag")  # of the batches that are judged
BATCH_SIZE = 1 << 16


def find_lives(store: MessageStore, topics: Collection[str] | None) -> TopicLives:
    """Read the queue offsets of all messages of some topics, or of all topics, and find the lives of the topics."""
    known = KnownTopics.of(store.places, store.config, is_stopped=store.last_exit_ok)
    lives = TopicLives(known)
    log = store.commit_log
    options: dict[str, Any] = {"on_corrupt": "skip", "batch_size": BATCH_SIZE, "containers": True}
    scan = store.scan_log(columns=LIVES_COLUMNS, topic=topics, **options)
    for batch in scan.adapted(warns=False):
        lives.add_requests(*requests_of(log, batch))
    lives.finish()
    return lives


def rows_of_deleted_topics(
    log: CommitLog, lives: TopicLives, batch: MessageBatch
) -> tuple[np.ndarray, dict[QueueId, int]]:
    """Return whether each message belongs to a deleted topic, bool[n], and the number of these messages by queue.

    Parameters: batch: with ``LIVES_COLUMNS``.
    """
    requests, queues = requests_of(log, batch)
    are_left_out = lives.are_requests_left_out(requests, queues)
    counts = np.bincount(requests["queue"][are_left_out], minlength=len(queues)).tolist()
    return are_left_out, {queue: count for queue, count in zip(queues, counts, strict=True) if count}


def requests_of(log: CommitLog, batch: MessageBatch) -> tuple[np.ndarray, list[QueueId]]:
    """Return the requests of messages, REQUEST[n], and their queues by number.

    Only the fields that ``TopicLives`` reads are set.
    """
    requests = np.zeros(len(batch), REQUEST)
    numbers: dict[QueueId, int] = {}
    queues = map(QueueId, batch.topic, batch.queue_id.tolist())
    requests["queue"] = [numbers.setdefault(queue, len(numbers)) for queue in queues]
    requests["phy_offset"], requests["batch_size"] = batch.phy_offset, 1
    kinds = batch.sys_flag & TRANSACTION_TYPE
    has_unit = (kinds != TRANSACTION_PREPARED) & (kinds != TRANSACTION_ROLLBACK)
    requests["msg_base_offset"] = np.where(has_unit, batch.queue_offset, -1)
    for row in np.flatnonzero(batch.sys_flag & INNER_BATCH).tolist():
        requests["batch_size"][row] = count_batch_messages(log, int(batch.phy_offset[row]))
    return requests, list(numbers)

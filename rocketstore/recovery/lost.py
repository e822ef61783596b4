"""LostMessages: the messages that a repair of the log removes, by topic."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from rocketstore.kernels.message_columns import Field
from rocketstore.log.commit_log import CommitLog

__all__ = ["LOST_FIELDS", "LostMessages", "count_lost"]


class LostMessages(NamedTuple):
    """The messages of one topic that a repair of the log removes.

    Attributes: messages: their number; an inner batch counts as one. first_store_timestamp, last_store_timestamp: the
    earliest and the latest store time among them, epoch ms.
    """

    topic: str
    messages: int
    first_store_timestamp: int
    last_store_timestamp: int


LOST_FIELDS = (
    Field("topic", "u"),
    Field("messages", "l"),
    Field("firstStoreTimestamp", "l"),
    Field("lastStoreTimestamp", "l"),
)


def count_lost(log: CommitLog, begin: int) -> tuple[LostMessages, ...]:
    """Count the sound records from a physical offset on, also behind further damage. Sort them by topic."""
    times: dict[str, list[np.ndarray]] = defaultdict(list)
    scan = log.scan(begin, columns=("topic", "store_timestamp"), on_corrupt="skip")
    for batch in scan:
        topics = np.array(batch.topic.to_pylist(), dtype=object)
        for topic in set(topics.tolist()):
            times[topic].append(batch.store_timestamp[topics == topic])
    rows = []
    for topic, parts in sorted(times.items()):
        column = np.concatenate(parts)
        rows.append(LostMessages(topic, len(column), int(column.min()), int(column.max())))
    return tuple(rows)

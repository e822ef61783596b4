"""LostMessages: the messages that a repair of a store loses, by topic."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from rocketstore.kernels.message_columns import Field
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_evidence import EndEvidence
from rocketstore.log.end_finder import find_stopped_end
from rocketstore.log.inner_batches import count_batch_messages
from rocketstore.log.log_end import Why
from rocketstore.messages.system_flags import INNER_BATCH

COLUMNS = ("phy_offset", "sys_flag", "topic", "store_timestamp")


class LostMessages(NamedTuple):
    """The messages of one topic that a repair loses.

    Attributes: messages: their number; an inner batch counts with all its messages. first_store_timestamp,
    last_store_timestamp: the earliest and the latest store time among them, epoch ms; None if it is not known.
    """

    topic: str
    messages: int
    first_store_timestamp: int | None
    last_store_timestamp: int | None


LOST_FIELDS = (
    Field("topic", "u"),
    Field("messages", "l"),
    Field("firstStoreTimestamp", "l"),
    Field("lastStoreTimestamp", "l"),
)


def count_lost(log: CommitLog, begin: int, evidence: EndEvidence) -> tuple[LostMessages, ...]:
    """Count the messages that are lost if the log is cut at a physical offset. Sort them by topic.

    All records behind this offset that readers show are lost, also records behind more damage and records whose body
    does not match its CRC. Records behind a proved cut of a broker are old and do not count.
    """
    found = find_stopped_end(log.reader, begin, evidence)
    end = found.end if found.why == Why.CUT else LONG_MAX
    counts: dict[str, int] = defaultdict(int)
    times: dict[str, list[int]] = defaultdict(list)
    for batch in log.scan(begin, end, columns=COLUMNS, on_corrupt="skip"):
        numbers = np.ones(len(batch), np.int64)
        for row in np.flatnonzero(batch.sys_flag & INNER_BATCH):
            numbers[row] = count_batch_messages(log, int(batch.phy_offset[row]))
        topics = np.array(batch.topic.to_pylist(), dtype=object)
        for topic in set(topics.tolist()):
            is_of_topic = topics == topic
            counts[topic] += int(numbers[is_of_topic].sum())
            column = batch.store_timestamp[is_of_topic]
            times[topic] += [int(column.min()), int(column.max())]
    return tuple(LostMessages(topic, counts[topic], min(times[topic]), max(times[topic])) for topic in sorted(counts))

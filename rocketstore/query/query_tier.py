"""Find the messages of a key in tiered storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.tier.places import TierPlaces
from rocketstore.tier.tier_index import TierIndex


class TierHits(NamedTuple):
    """The messages of a key in a tier, and the reasons why messages may be missing."""

    batches: list[MessageBatch]
    reasons: list[str]


def query_tier(
    places: TierPlaces,
    open_log: Callable[[QueueId], CommitLog],
    topic: str,
    key: str,
    times: tuple[int, int],
    index_type: str | None,
    open_files: Sequence[StorePath],
    slots: int | None,
) -> TierHits:
    """Find the messages of a key by all segments of the tier's index, and verify each message on its record.

    A broker skips segments that were made after its local log began, and misses their messages.

    Parameters: open_log: opens the log of a queue in the tier. times: the first and the last store time, epoch ms, both
    inclusive. index_type: "U" searches only UNIQ_KEY; "T" finds nothing, since the tier indexes no tags. open_files:
    index files of the tier that are still in the store. slots: of such a file; None if the files must show it.
    Source: TieredMessageStore.queryMessageAsync, MessageStoreFetcherImpl.queryMessageAsync.
    """
    if index_type == "T":
        return TierHits([], ["the index of tiered storage has no tags"])
    index = TierIndex(places.index, open_files, slots)
    with closing(index):
        positions = index.find(topic, key)
        reasons = list(index.problems) if len(index) else [f"{places.index}: tiered storage has no index"]
    queues: dict[int, list[int]] = {}
    for queue_id, position in positions:
        queues.setdefault(queue_id, []).append(position)
    batches = []
    for queue_id in sorted(queues.keys() & set(places.queue_ids(topic))):
        with open_log(QueueId(topic, queue_id)) as log:
            messages, _ = log.find_messages(np.array(queues[queue_id], np.int64))
            rows = [
                row
                for row, message in enumerate(messages)
                if (message.topic, message.queue_id) == (topic, queue_id)
                and times[0] <= message.store_timestamp <= times[1]
                and (message.uniq_key == key or (index_type is None and key in message.keys))
            ]
            batches.append(messages.take(rows).without_phy_offsets())
    return TierHits(batches, reasons)


def join_hits(local: MessageBatch, tier: list[MessageBatch], most: int) -> MessageBatch:
    """Return the messages of a store and of a tier, newest first, each message once. Parameters: most: messages."""
    known = set(zip(local.queue_id.tolist(), local.queue_offset.tolist(), strict=True))
    older = []
    for batch in tier:
        places = enumerate(zip(batch.queue_id.tolist(), batch.queue_offset.tolist(), strict=True))
        older.append(batch.take([row for row, place in places if place not in known]))
    joined = MessageBatch.join([local, *older])
    order = np.argsort(-joined.store_timestamp, kind="stable")[:most] if len(joined) > len(local) else None
    return joined if order is None else joined.take(order)

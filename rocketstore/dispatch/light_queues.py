"""Light queues and other queues that get a unit for a message, besides the message's own queue.

A light queue (RocketMQ calls it LMQ, light message queue) holds units only: they lead to messages of other topics. Its
topic begins with ``%LMQ%`` and its queue id is 0. So one stored message can be in the queues of thousands of clients,
as MQTT needs it. The property INNER_MULTI_DISPATCH of a message names its light queues, and INNER_MULTI_QUEUE_OFFSET
has the queue offset of the message in each.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.kernels.dispatch import MORE_DISPATCH, MULTI_DISPATCH, REQUEST
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.put_rules import MAX_DIGITS, illegal
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, is_file_name, split_names

__all__ = ["check_more_queues", "is_multi_dispatched", "more_queues", "with_light_queues", "with_more"]

logger = logging.getLogger("rocketstore")

MAX_QUEUE_OFFSET = LONG_MAX // 20 - INT_MAX  # a higher offset would leave no room for the offsets behind it


def with_more(
    log: CommitLog, config: StoreConfig, requests: np.ndarray, queues: Sequence[QueueId], batch_topics: Collection[str]
) -> tuple[np.ndarray, Sequence[QueueId]]:
    """Insert a request for each queue in a message's properties behind the message's own. Return requests and queues.

    Nothing is inserted unless ``enable_multi_dispatch`` is set.

    Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    rows = np.flatnonzero(requests["flags"] & MULTI_DISPATCH).tolist() if config.enable_multi_dispatch else []
    if not rows:
        return requests, queues
    numbers = {queue: number for number, queue in enumerate(queues)}
    at, made = [], []
    for row in rows:
        request = requests[row]
        properties = log.get_message(int(request["phy_offset"])).properties
        for queue, queue_offset in more_queues(queues[request["queue"]], properties, config, batch_topics):
            more = request.copy()
            more["queue"], more["msg_base_offset"] = numbers.setdefault(queue, len(numbers)), queue_offset
            more["flags"] = MORE_DISPATCH
            at.append(row + 1)
            made.append(more)
    return (np.insert(requests, at, np.array(made, REQUEST)) if made else requests), list(numbers)


def check_more_queues(
    topic: str, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> None:
    """Raise PutMessageError if a message's offset in a queue besides its own is not a number.

    RocketMQ would store the message, dispatch nothing behind it, and not start after a crash.
    """
    names, offsets = names_and_offsets(topic, properties, config, batch_topics)
    if not are_queue_offsets(offsets):
        what = f"INNER_MULTI_DISPATCH={','.join(names)!r:.80}, INNER_MULTI_QUEUE_OFFSET={','.join(offsets)!r:.80}"
        raise illegal(f"{what}: an offset is no number, and a broker's dispatch stops there")


def more_queues(
    queue: QueueId, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> Iterator[tuple[QueueId, int]]:
    """Yield the queues besides its own that get a unit for a message, with the message's offset in each.

    Nothing is yielded if an offset is not a number; a broker stops there. Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    names, offsets = names_and_offsets(queue[0], properties, config, batch_topics)
    if not are_queue_offsets(offsets):
        logger.warning("INNER_MULTI_QUEUE_OFFSET %.80s has no queue offsets: its queues get no unit", offsets)
        return
    for name, offset in zip(names, offsets, strict=True):
        if is_file_name(name):
            is_light = config.enable_lmq and name.startswith(LIGHT_QUEUE_PREFIX)
            yield QueueId(name, 0 if is_light else queue[1]), int(offset)


def names_and_offsets(
    topic: str, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the queue names in a message's properties, and as many offsets; empty if RocketMQ ignores them."""
    names = split_names(properties.get("INNER_MULTI_DISPATCH") or "")
    offsets = split_names(properties.get("INNER_MULTI_QUEUE_OFFSET") or "")
    if not is_multi_dispatched(topic, config, batch_topics) or len(names) != len(offsets):
        return [], []
    return names, offsets


def are_queue_offsets(texts: Iterable[str]) -> bool:
    return all(text.isdecimal() and len(text) <= MAX_DIGITS and int(text) <= MAX_QUEUE_OFFSET for text in texts)


def with_light_queues(config: StoreConfig, topics: Iterable[str]) -> StoreConfig:
    """Return a configuration that builds light queues if a store has light queues. No file of a broker says so.

    Parameters: topics: the names of the directories of queues.
    """
    if config.enable_multi_dispatch or not any(topic.startswith(LIGHT_QUEUE_PREFIX) for topic in topics):
        return config
    return replace(config, enable_multi_dispatch=True, enable_lmq=True)


def is_multi_dispatched(topic: str, config: StoreConfig, batch_topics: Collection[str]) -> bool:
    """Return whether messages of a topic also get units in the queues that their properties name.

    Messages of batch queues do not.

    Source: MultiDispatchUtils.isNeedHandleMultiDispatch, which ConsumeQueue asks and BatchConsumeQueue does not.
    """
    if not config.enable_multi_dispatch or topic in batch_topics:
        return False
    return re.match(Compat.of(config.compat).no_multi_dispatch, topic) is None

"""Queues besides its own that a message is for: light queues, and others that its properties name."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rocketstore.config import Compat, StoreConfig
from rocketstore.kernels.dispatch import MORE_DISPATCH, MULTI_DISPATCH, REQUEST
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_writer import MAX_DIGITS, illegal
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, is_file_name, split_names

__all__ = ["check_more_queues", "is_multi_dispatched", "more_queues", "with_light_queues", "with_more"]

logger = logging.getLogger("rocketstore")

MAX_QUEUE_OFFSET = LONG_MAX // 20 - INT_MAX  # the queue offsets that follow must fit too


def with_more(
    log: CommitLog, config: StoreConfig, requests: np.ndarray, queues: Sequence[QueueId], batch_topics: Collection[str]
) -> tuple[np.ndarray, Sequence[QueueId]]:
    """Insert, behind each request whose properties name more queues, one for each. Returns: all, and their queues.

    Nothing is inserted where ``enable_multi_dispatch`` is not set.

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
    """Raise PutMessageError if a message's offset in a queue besides its own is no number.

    RocketMQ stores it, dispatches nothing more after it, and does not start after a crash.
    """
    names, offsets = names_and_offsets(topic, properties, config, batch_topics)
    if not are_queue_offsets(offsets):
        what = f"INNER_MULTI_DISPATCH={','.join(names)!r:.80}, INNER_MULTI_QUEUE_OFFSET={','.join(offsets)!r:.80}"
        raise illegal(f"{what}: an offset is no number, and a broker's dispatch stops there")


def more_queues(
    queue: QueueId, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> Iterator[tuple[QueueId, int]]:
    """Give the queues besides its own that a message is for, by its properties, with its offset in each.

    None if an offset is no number: a broker does not get over that. Source: ConsumeQueue.multiDispatchLmqQueue.
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
    """Give the queues that a message's properties name, and as many offsets; none where RocketMQ takes none."""
    names = split_names(properties.get("INNER_MULTI_DISPATCH") or "")
    offsets = split_names(properties.get("INNER_MULTI_QUEUE_OFFSET") or "")
    if not is_multi_dispatched(topic, config, batch_topics) or len(names) != len(offsets):
        return [], []
    return names, offsets


def are_queue_offsets(texts: Iterable[str]) -> bool:
    return all(text.isdecimal() and len(text) <= MAX_DIGITS and int(text) <= MAX_QUEUE_OFFSET for text in texts)


def with_light_queues(config: StoreConfig, topics: Iterable[str]) -> StoreConfig:
    """Give a configuration that builds light queues if some are there: no file of a broker says that it does.

    Parameters: topics: the names of directories of queues.
    """
    if config.enable_multi_dispatch or not any(topic.startswith(LIGHT_QUEUE_PREFIX) for topic in topics):
        return config
    return replace(config, enable_multi_dispatch=True, enable_lmq=True)


def is_multi_dispatched(topic: str, config: StoreConfig, batch_topics: Collection[str]) -> bool:
    """Whether messages of a topic are also for the queues that their properties name; those of batch queues are not.

    Source: MultiDispatchUtils.isNeedHandleMultiDispatch, which ConsumeQueue asks and BatchConsumeQueue does not.
    """
    if not config.enable_multi_dispatch or topic in batch_topics:
        return False
    return re.match(Compat.of(config.compat).no_multi_dispatch, topic) is None

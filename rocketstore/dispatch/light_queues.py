"""Light queues and other queues that get a unit for a message, besides the message's own queue.

A light queue (RocketMQ calls it LMQ, light message queue) holds units only: they lead to messages of other topics. Its
topic begins with ``%LMQ%`` and its queue id is 0. So one stored message can be in the queues of thousands of clients,
as MQTT needs it. The property INNER_MULTI_DISPATCH of a message names its light queues, and INNER_MULTI_QUEUE_OFFSET
has the queue offset of the message in each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import AnyConfig, StoreConfig
from rocketstore.java_text import is_blank, parse_long
from rocketstore.kernels.dispatch import MORE_DISPATCH, MULTI_DISPATCH, REQUEST
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.logger import logger
from rocketstore.messages.put_rules import illegal
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, is_file_name, split_names

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
        properties = log.get_message(int(request["phy_offset"]), verify_crc=False).properties
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
    numbers = [parse_long(offset) for name, offset in zip(names, offsets, strict=True) if "/" not in name]
    if not all(number is not None and 0 <= number <= MAX_QUEUE_OFFSET for number in numbers):
        what = f"INNER_MULTI_DISPATCH={','.join(names)!r:.80}, INNER_MULTI_QUEUE_OFFSET={','.join(offsets)!r:.80}"
        raise illegal(f"{what}: an offset is no number, and a broker's dispatch stops there")


def more_queues(
    queue: QueueId, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> Iterator[tuple[QueueId, int]]:
    """Yield the queues besides its own that get a unit for a message, with the message's offset in each.

    Nothing is yielded if an offset is not a number; a broker stops there. A queue whose offset cannot be a place in it
    gets no unit. Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    names, offsets = names_and_offsets(queue[0], properties, config, batch_topics)
    if find_unreadable_offset(names, offsets) is not None:
        logger.warning("INNER_MULTI_QUEUE_OFFSET %.80s has no queue offsets: its queues get no unit", offsets)
        return
    for name, text in zip(names, offsets, strict=True):
        if not is_file_name(name):
            continue
        offset = parse_long(text)
        if offset is None or not 0 <= offset <= MAX_QUEUE_OFFSET:
            logger.warning("INNER_MULTI_QUEUE_OFFSET %.80s: queue %.80r gets no unit at %.80s", offsets, name, text)
            continue
        is_light = config.enable_lmq and name.startswith(LIGHT_QUEUE_PREFIX)
        yield QueueId(name, 0 if is_light else queue[1]), offset


def names_and_offsets(
    topic: str, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the queue names in a message's properties, and as many offsets; empty if RocketMQ ignores them.

    Source: MultiDispatchUtils.checkMultiDispatchQueue, ConsumeQueue.multiDispatchLmqQueue.
    """
    dispatch = properties.get("INNER_MULTI_DISPATCH") or ""
    queue_offsets = properties.get("INNER_MULTI_QUEUE_OFFSET") or ""
    if is_blank(dispatch) or is_blank(queue_offsets) or not is_multi_dispatched(topic, config, batch_topics):
        return [], []
    names, offsets = split_names(dispatch), split_names(queue_offsets)
    return (names, offsets) if len(names) == len(offsets) else ([], [])


def find_unreadable_offset(names: Iterable[str], offsets: Iterable[str]) -> str | None:
    """Return the first offset of a light queue that makes a broker's dispatch of a record throw; None without one.

    A broker skips names with a slash before it reads their offsets.
    Parameters: names: of INNER_MULTI_DISPATCH. offsets: of INNER_MULTI_QUEUE_OFFSET, as many.
    Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    pairs = zip(names, offsets, strict=True)
    return next((offset for name, offset in pairs if "/" not in name and parse_long(offset) is None), None)


def with_light_queues(config: AnyConfig, topics: Iterable[str]) -> AnyConfig:
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

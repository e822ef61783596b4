"""Messages for light queues and inner batches, before they are put: what is refused, and their queue names."""

from __future__ import annotations

import re

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.dispatch.light_queues import check_more_queues
from rocketstore.java_text import is_blank
from rocketstore.messages.message import Message
from rocketstore.messages.put_rules import illegal, message_num
from rocketstore.messages.system_flags import INNER_BATCH
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, split_names


def check_incomplete_message(message: Message, config: StoreConfig, batch_topics: set[str]) -> int:
    """Return the number of messages in an inner batch, 1 for a message for light queues.

    Raises: PutMessageError if the store cannot put the message as RocketMQ does.
    """
    compat, number = Compat.of(config.compat), message_num(message)
    if message.sys_flag & INNER_BATCH and message.topic not in batch_topics:
        raise illegal("an inner batch, whose topic is not of queue.type BatchCQ: create_topic makes one")
    if compat.has_multi_dispatch and not gets_same_offsets(message, config, batch_topics):
        raise illegal(f"INNER_MULTI_DISPATCH: {compat.release} gives other offsets than 5.3.2 and later do")
    properties, names = message.properties, names_of_light_queues(message, config)
    if names is not None:
        offsets = ",".join("0" if name.startswith(LIGHT_QUEUE_PREFIX) else "" for name in names)
        properties = {**properties, "INNER_MULTI_QUEUE_OFFSET": offsets}
    check_more_queues(message.topic, properties, config, batch_topics)
    return number


def names_of_light_queues(message: Message, config: StoreConfig) -> list[str] | None:
    """Return the names in INNER_MULTI_DISPATCH; None if the message or its topic has no light queues.

    Source: LmqDispatch.wrapLmqDispatch, MixAll.topicAllowsLMQ.
    """
    allowed = config.enable_lmq and not re.match(Compat.of(config.compat).no_lmq, message.topic)
    names = message.properties.get("INNER_MULTI_DISPATCH", "") if allowed else ""
    return split_names(names) if not is_blank(names) else None


def gets_same_offsets(message: Message, config: StoreConfig, batch_topics: set[str]) -> bool:
    """Return whether MultiDispatch of older releases gives the offsets in light queues that LmqDispatch gives."""
    options = config.enable_lmq, config.enable_multi_dispatch
    if not any(options) or is_blank(message.properties.get("INNER_MULTI_DISPATCH", "")):
        return True
    names = names_of_light_queues(message, config)
    if names is None or not all(options) or message.topic in batch_topics:
        return False
    return len({*names}) == len(names) and all(name.startswith(LIGHT_QUEUE_PREFIX) for name in names)

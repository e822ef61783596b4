"""Which topics can get records in place of lost ones, and what such a record must have so that it has no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketstore.messages.topics import SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIXES, TRACE_PREFIX, TRACE_TOPIC
from rocketstore.store.pending.half import HALF_TOPIC


class RecordRules(NamedTuple):
    """What records in place of lost ones of a topic have besides their mark.

    Attributes: properties: they need these. has_tags: they have the tags of the lost messages.
    """

    properties: Mapping[str, str]
    has_tags: bool


ORDINARY = RecordRules({}, has_tags=True)
# The service that delivers delayed messages discards a message whose real topic is that of half messages.
# Source: ScheduleMessageService.DeliverDelayedMessageTimerTask, messageTimeup.
DELAYED = RecordRules({"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"}, has_tags=False)


def find_rules(topic: str) -> RecordRules | None:
    """Return the rules for a topic.

    None for one whose records a broker's own services parse, unless brokers were proved to ignore the new records.
    """
    if topic == SCHEDULE_TOPIC:
        return DELAYED
    if topic == TRACE_TOPIC or topic.startswith(TRACE_PREFIX):  # clients alone read them
        return ORDINARY
    return None if topic.startswith(SYSTEM_TOPIC_PREFIXES) else ORDINARY

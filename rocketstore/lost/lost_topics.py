"""Which topics can get records in place of lost ones, and what such a record must have so that it has no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketstore.limits import INT_MAX
from rocketstore.messages.topics import REVIVE_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIXES, TRACE_PREFIX, TRACE_TOPIC
from rocketstore.store.pending.half import HALF_TOPIC, OP_TOPIC
from rocketstore.store.pending.timers import TIMER_TOPIC


class RecordRules(NamedTuple):
    """Rules for the records that replace lost ones of a topic.

    Attributes: properties: those that a record has besides its mark. has_tags: whether a record has the tags of the
    lost message. least_body: the size of the body in bytes, at least; it is made of blanks.
    """

    properties: Mapping[str, str]
    has_tags: bool
    least_body: int = 0


ORDINARY = RecordRules({}, has_tags=True)
# The service that delivers delayed messages discards a message whose real topic is that of half messages.
# Source: ScheduleMessageService.DeliverDelayedMessageTimerTask, messageTimeup.
DELAYED = RecordRules({"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"}, has_tags=False)
# The service that checks transactions gives up a half message that was checked too often: it asks no producer, and
# moves the message to a topic that has no consumers.
# Source: TransactionalMessageServiceImpl.needDiscard; DefaultTransactionalMessageCheckListener.resolveDiscardMsg.
HALF = RecordRules({"TRANSACTION_CHECK_TIMES": str(INT_MAX)}, has_tags=False)
# An op message that names no half message is done at once. The older brokers cannot read one without a body.
# Source: TransactionalMessageServiceImpl.fillOpRemoveMap.
OP = RecordRules({"TAGS": "d"}, has_tags=False, least_body=1)
# The service that brings popped messages back passes over messages that are no check points and acknowledge nothing.
# Source: PopReviveService.consumeReviveMessage.
REVIVE = RecordRules({}, has_tags=False)


def _timer_rules(store_timestamp: int) -> RecordRules:
    """Return the rules for the timer topic: a recall that is due, and that names no message.

    The timer service does not deliver recalls, also if the lost message was in its wheel already.
    Source: TimerMessageStore.enqueue, doPut.
    """
    properties = {"REAL_TOPIC": TIMER_TOPIC, "REAL_QID": "0", "TIMER_OUT_MS": str(store_timestamp)}
    return RecordRules({**properties, "TIMER_DEL_UNIQKEY": "-"}, has_tags=False)


def find_rules(topic: str, store_timestamp: int) -> RecordRules | None:
    """Return the rules for a record of a topic.

    None for a topic whose records a broker's own services parse, unless brokers were proved to ignore the new records.

    Parameters: store_timestamp: of the new record, epoch ms.
    """
    if topic == TIMER_TOPIC:
        return _timer_rules(store_timestamp)
    rules = {SCHEDULE_TOPIC: DELAYED, HALF_TOPIC: HALF, OP_TOPIC: OP}.get(topic)
    if rules is not None:
        return rules
    if topic.startswith(REVIVE_PREFIX):
        return REVIVE
    if topic == TRACE_TOPIC or topic.startswith(TRACE_PREFIX):  # clients alone read them
        return ORDINARY
    return None if topic.startswith(SYSTEM_TOPIC_PREFIXES) else ORDINARY

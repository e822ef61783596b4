"""Checks of the files of config that rocketstore does not use: whether a broker's managers can decode them.

A check returns the file as it was parsed, and raises ValueError for what RocketMQ 5.3.3 and 5.5.1 both refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from reprlib import repr as short
from typing import Any

from rocketstore.state.config_values import (
    LMQ_OFFSETS,
    Decoder,
    decode_lmq_offset_table,
    decode_version,
    read_boolean,
    read_integer,
    read_object,
    read_table,
)

LONG, INT = 64, 32  # bits
NOTHING = (None, "", "null")
Check = Callable[[Any], object]
Root = dict[str, Any]


def _check_filters(root: Root) -> Root:
    """Source: ConsumerFilterManager.decode."""
    if root.get("filterDataByTopic") is not None:
        for topic, filters in read_table(root, "filterDataByTopic").items():
            groups = read_table(read_object(filters, short(topic)), "groupFilterData")
            for group, data in groups.items():
                _check_numbers(read_object(data, short(group)), "bornTime", "deadTime", "clientVersion")
                _check_member(data, "bloomFilterData", _is_object)
    return root


def _check_orders(root: Root) -> Root:
    """Source: ConsumerOrderInfoManager.decode."""
    for key, queues in read_table(root, "table").items():
        for queue_id, order in read_object(queues, short(key)).items():
            read_integer(queue_id, INT)
            _check_numbers(read_object(order, short(key)), "popTime", "i", "l", "cm")
            if isinstance(order.get("o"), list):
                _check_integers(order["o"])
            for member in ("ot", "oc"):
                _check_member(order, member, _is_object)
    return root


def _check_queue_mappings(root: Root) -> Root:
    """Source: TopicQueueMappingManager.decode."""
    _check_version(root)
    for topic, mapping in read_table(root, "topicQueueMappingInfoMap").items():
        _check_numbers(read_object(mapping, short(topic)), "totalQueues", "epoch")
        _check_member(mapping, "dirty", read_boolean)
        _check_member(mapping, "currIdMap", _is_object)
        hosted = mapping.get("hostedQueues")
        _check_integers(() if hosted is None else read_object(hosted, "hostedQueues"))
    return root


def _check_metrics(root: Root) -> Root:
    """Source: TimerMetrics.decode."""
    _check_version(root)
    for topic, metric in read_table(root, "timingCount").items():
        _check_numbers(read_object(metric, short(topic)), "count", "timeStamp")
    return root


def _check_version(root: Root) -> None:
    """Raise ValueError for a version that DataVersion.assignNewOne fails with: these managers refuse null."""
    if "dataVersion" in root:
        decode_version(root["dataVersion"])


def _check_numbers(members: Root, *names: str) -> None:
    for name in names:
        _check_member(members, name, lambda value: value in NOTHING or read_integer(value, LONG))


def _check_integers(values: Any) -> None:
    for value in values:
        if value not in NOTHING:
            read_integer(value, LONG)


def _check_member(members: Root, name: str, check: Check) -> None:
    """Check a member that is there and not null. Raises: ValueError naming it."""
    try:
        if members.get(name) is not None:
            check(members[name])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _is_object(value: Any) -> object:
    return read_object(value, "the value")


def _check_lmq_offsets(root: Root) -> Root:
    """Return the parsed lmqConsumerOffset.json. Raises: ValueError if RocketMQ would refuse the file."""
    decode_lmq_offset_table(root)
    return root


OTHER_FILES: dict[str, Decoder] = {
    LMQ_OFFSETS: _check_lmq_offsets,
    "consumerFilter.json": _check_filters,
    "consumerOrderInfo.json": _check_orders,
    "messageRequestMode.json": dict,
    "topicQueueMapping.json": _check_queue_mappings,
    "timermetrics": _check_metrics,
    "transactionMetrics": dict,
}

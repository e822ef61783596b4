"""The contents of config/*.json: topics, consumer groups and offsets, converted as RocketMQ's decoders convert them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any

from rocketstore.config import camel_case
from rocketstore.state.config_json import MOST_DIGITS, Number

TOPICS, TOPIC_TABLE = "topics.json", "topicConfigTable"
GROUPS, GROUP_TABLE = "subscriptionGroup.json", "subscriptionGroupTable"
OFFSETS, LMQ_OFFSETS = "consumerOffset.json", "lmqConsumerOffset.json"
OFFSET_TABLE = "offsetTable"
TABLE_NAMES = {TOPICS: TOPIC_TABLE, GROUPS: GROUP_TABLE, OFFSETS: OFFSET_TABLE}
LONG_FIELDS = ("broker_id", "which_broker_when_consume_slowly")
FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
NUMBER = re.compile(r"([+-]?[0-9][0-9,]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")
INT, LONG = 32, 64  # bits
NOTHING = (None, "", "null")  # values that fastjson reads as null where it expects a number or a boolean
BOOLEANS = {"true": True, "1": True, "Y": True, "false": False, "0": False, "N": False}
Decoder = Callable[[dict[str, Any]], Any]
Offsets = dict[str, dict[str, dict[int, int]]]


@dataclass(frozen=True)
class TopicConfig:
    """A topic of topics.json; ``perm`` is 4 to read plus 2 to write.

    ``topic_filter_type`` is None where the file has null or a name that RocketMQ does not know.
    Source: TopicConfig.
    """

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str | None = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class SubscriptionGroupConfig:
    """A consumer group of subscriptionGroup.json. Source: SubscriptionGroupConfig."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: Mapping[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"}, hash=False)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] = field(default_factory=list, hash=False)
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


# ---- values ------------------------------------------------------------------------------------------------


def read_object(value: Any, what: str) -> dict[str, Any]:
    """Return a JSON object. Raises: ValueError for anything else."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object, not {short(value)}")
    return value


def read_table(root: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the member ``name`` of a file, which must be an object; an empty one if the file lacks it.

    RocketMQ refuses null here. As in fastjson, the names of members are compared without case, "_" and "-".
    """
    names = [key for key in root if key.replace("_", "").replace("-", "").lower() == name.lower()]
    if not names:
        return {}
    return read_object(root[name if name in names else names[-1]], name)


def read_integer(value: Any, bits: int) -> int:
    """Convert a JSON value to a Java int or long, as fastjson does.

    An integer must fit into ``bits``, also if it is in quotes. A number with a fraction becomes its integer part modulo
    2**bits, as by BigDecimal.longValue. A number with an exponent is limited to the range, as by a cast of a double.

    Source: TypeUtils.cast.
    """
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    text = value.text if isinstance(value, Number) else value
    if isinstance(text, int):  # True is 1
        number = int(text)
    elif text in ("true", "false"):
        number = int(text == "true")
    else:
        found = NUMBER.fullmatch(text) if isinstance(text, str) and len(text) <= MOST_DIGITS else None
        if found is None:
            raise ValueError(f"{short(value)} is no integer")
        if found[3]:
            return int(min(max(float(text.replace(",", "")), least), most))
        number = int(found[1].replace(",", ""))
        if found[2] is not None:
            number = (number - least) % 2**bits + least
    if not least <= number <= most:
        raise ValueError(f"{short(value)} is beyond {bits} bits")
    return number


def read_boolean(value: Any) -> bool:
    """Convert a JSON value to a boolean, as fastjson does: of numbers only 1 is true."""
    if isinstance(value, int | Number):  # True is 1
        return value == 1
    if isinstance(value, str):
        text = value.lower() if len(value) > 1 else value
        if text in BOOLEANS:
            return BOOLEANS[text]
    raise ValueError(f"{short(value)} is no boolean")


def read_text(value: Any) -> str:
    """Convert a JSON value to a string, as fastjson does."""
    if isinstance(value, Number):
        return repr(float(value)) if "e" in value.text.lower() else value.text
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_filter_type(value: Any) -> str | None:
    """Convert a JSON value to the name of a TopicFilterType, None for an unknown name."""
    if isinstance(value, str):
        return value.upper() if value.upper() in FILTER_TYPES else None
    if type(value) is not int or not 0 <= value < len(FILTER_TYPES):
        raise ValueError(f"{short(value)} is no TopicFilterType")
    return FILTER_TYPES[value]


# ---- beans -------------------------------------------------------------------------------------------------


def decode_bean(kind: type[Any], name: str, value: Any) -> Any:
    """Convert a JSON object to a TopicConfig or SubscriptionGroupConfig. Raises: ValueError naming member and bean.

    Members that the object lacks have RocketMQ's defaults. A null becomes 0 or false, as in fastjson2.
    """
    members = read_object(value, short(name))
    bean = dict(vars(kind(name)))
    for key, default in bean.items():
        if (member := camel_case(key)) in members:
            try:
                bean[key] = _field(key, default, members[member])
            except ValueError as error:
                raise ValueError(f"{member} of {short(name)}: {error}") from None
    return kind(**bean)


def _field(key: str, default: Any, value: Any) -> Any:
    """Convert a member of a bean to the type of its default."""
    if key == "topic_filter_type":
        return None if value is None else read_filter_type(value)
    if isinstance(default, bool):
        return value not in NOTHING and read_boolean(value)
    if isinstance(default, int):
        return 0 if value in NOTHING else read_integer(value, LONG if key in LONG_FIELDS else INT)
    if value is None:
        return default
    if isinstance(default, str):
        return read_text(value)
    if not isinstance(value, type(default)):
        raise ValueError(f"must be a JSON {'array' if isinstance(default, list) else 'object'}, not {short(value)}")
    if key != "attributes":
        return value
    return {name: read_text(text) for name, text in value.items() if text is not None}


def _decode_beans(root: dict[str, Any], table: str, kind: type[Any]) -> dict[str, Any]:
    if "dataVersion" in root:
        decode_version(root["dataVersion"])
    return {name: decode_bean(kind, name, value) for name, value in read_table(root, table).items()}


def decode_topics(root: dict[str, Any]) -> dict[str, TopicConfig]:
    """Return the topics of a topics.json by name. Source: TopicConfigManager.decode."""
    return _decode_beans(root, TOPIC_TABLE, TopicConfig)


def decode_groups(root: dict[str, Any]) -> dict[str, SubscriptionGroupConfig]:
    """Return the groups of a subscriptionGroup.json by name. Source: SubscriptionGroupManager.decode."""
    forbidden = root.get("forbiddenTable")
    for group, topics in ({} if forbidden is None else read_object(forbidden, "forbiddenTable")).items():
        for number in read_object(topics, f"forbiddenTable of {short(group)}").values():
            read_integer(number, INT)
    return _decode_beans(root, GROUP_TABLE, SubscriptionGroupConfig)


def decode_version(value: Any) -> int:
    """Return the counter of a DataVersion. All members of a DataVersion must be integers.

    Raises: ValueError. Source: DataVersion.assignNewOne.
    """
    version = read_object(value, "dataVersion")
    for name in ("stateVersion", "timestamp"):
        if version.get(name) not in NOTHING:
            read_integer(version[name], LONG)
    return read_integer(version.get("counter", 0), LONG)


# ---- offsets -----------------------------------------------------------------------------------------------


def decode_pull_offsets(root: dict[str, Any]) -> Offsets:
    """Return the pull offsets of a consumerOffset.json by group, topic and queue id."""
    return decode_offset_table(root, "pullOffsetTable")


def decode_offset_table(root: dict[str, Any], table: str = OFFSET_TABLE) -> Offsets:
    """Return the offsets of a consumerOffset.json by group, topic and queue id.

    Source: ConsumerOffsetManager.decode.
    """
    if root.get("dataVersion") is not None:
        decode_version(root["dataVersion"])
    if root.get("groupTopicMap") is not None:
        read_object(root["groupTopicMap"], "groupTopicMap")
    groups: Offsets = {}
    for key, offsets in read_table(root, table).items():
        topic, _, group = key.partition("@")
        groups.setdefault(group, {})[topic] = _queue_offsets(offsets, key)
    return groups


def decode_lmq_offset_table(root: dict[str, Any]) -> Offsets:
    """Return the offsets of a lmqConsumerOffset.json, as ``decode_offset_table`` does; a light queue is queue 0.

    Source: LmqConsumerOffsetManager.decode.
    """
    groups = decode_offset_table(root)
    for key, offset in read_table(root, "lmqOffsetTable").items():
        topic, _, group = key.partition("@")
        groups.setdefault(group, {})[topic] = {0: _read_named(key, offset, LONG)}
    return groups


def decode_delay_offsets(root: dict[str, Any]) -> dict[int, int]:
    """Return the offsets of a delayOffset.json by delay level. Source: ScheduleMessageService.decode."""
    if root.get("dataVersion") is not None:
        decode_version(root["dataVersion"])
    return _queue_offsets(read_table(root, OFFSET_TABLE), "offsetTable")


def _queue_offsets(value: Any, what: str) -> dict[int, int]:
    members = read_object(value, short(what))
    return {_read_named(what, key, INT): _read_named(what, offset, LONG) for key, offset in members.items()}


def _read_named(what: str, value: Any, bits: int) -> int:
    try:
        return read_integer(value, bits)
    except ValueError as error:
        raise ValueError(f"{short(what)}: {error}") from None


TYPED_FILES: dict[str, Decoder] = {
    TOPICS: decode_topics,
    GROUPS: decode_groups,
    OFFSETS: decode_offset_table,
    "delayOffset.json": decode_delay_offsets,
}

"""The broker's configuration for a store that has some of the topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rocketstore.messages.topics import SCHEDULE_TOPIC
from rocketstore.rebuild.broker_files import encode_json
from rocketstore.state.config_json import parse_json
from rocketstore.state.config_values import GROUP_TABLE, GROUPS, LMQ_OFFSETS, OFFSET_TABLE, OFFSETS, TOPIC_TABLE, TOPICS

SEPARATOR = "@"  # between the topic and the group of consumers in a key
OF_GROUP = ("%RETRY%", "%DLQ%")  # begins of the topics of a group
FORBIDDEN_TABLE = "forbiddenTable"
DELAY_OFFSETS = "delayOffset.json"
# Files with tables whose keys begin with a topic. Source: the decode methods of the managers of these files.
TABLES_BY_TOPIC: dict[str, tuple[str, ...]] = {
    TOPICS: (TOPIC_TABLE,),
    OFFSETS: (OFFSET_TABLE, "pullOffsetTable"),
    LMQ_OFFSETS: (OFFSET_TABLE, "pullOffsetTable", "lmqOffsetTable"),
    "consumerFilter.json": ("filterDataByTopic",),
    "consumerOrderInfo.json": ("table",),
    "messageRequestMode.json": ("messageRequestModeMap",),
    "topicQueueMapping.json": ("topicQueueMappingInfoMap",),
}


def files_for_topics(files: Mapping[str, bytes], topics: Collection[str]) -> dict[str, bytes]:
    """Return the files of a configuration with the entries of some topics, and of the groups that consume them.

    Files that cannot be parsed, and files without topics, are left out.

    Parameters: files: by name. topics: also light queues.
    """
    found, groups = {}, {name.removeprefix(begin) for name in topics for begin in OF_GROUP if name.startswith(begin)}
    for name, tables in TABLES_BY_TOPIC.items():
        root = _parse(files.get(name))
        if root is not None:
            for table in tables:
                if isinstance(root.get(table), dict):
                    root[table] = {key: row for key, row in root[table].items() if _topic_of(key) in topics}
                    groups |= {group for key in root[table] if (group := key.partition(SEPARATOR)[2])}
            root.pop("groupTopicMap", None)  # a broker derives it from the offsets
            found[name] = encode_json(root)
    subscriptions = _parse(files.get(GROUPS))
    if subscriptions is not None:
        for table in (GROUP_TABLE, FORBIDDEN_TABLE):
            if isinstance(subscriptions.get(table), dict):
                subscriptions[table] = {name: row for name, row in subscriptions[table].items() if name in groups}
        found[GROUPS] = encode_json(subscriptions)
    if SCHEDULE_TOPIC in topics and DELAY_OFFSETS in files:
        found[DELAY_OFFSETS] = files[DELAY_OFFSETS]
    return found


def find_unused_files(files: Mapping[str, bytes]) -> list[str]:
    """Return the names of files that ``files_for_topics`` leaves out for all topics, without copies (.bak)."""
    used = {*TABLES_BY_TOPIC, GROUPS, DELAY_OFFSETS}
    return sorted(
        name
        for name, data in files.items()
        if not name.endswith(".bak") and (name not in used or (name != DELAY_OFFSETS and _parse(data) is None))
    )


def _topic_of(key: str) -> str:
    return key.partition(SEPARATOR)[0]


def _parse(data: bytes | None) -> dict[str, Any] | None:
    """Return the object of a file; None if the file is missing or cannot be parsed."""
    try:
        root = None if data is None else parse_json(data)
    except (ValueError, RecursionError):
        return None
    return root if isinstance(root, dict) else None

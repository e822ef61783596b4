"""The broker's configuration of some topics: these topics, their consumer offsets, and the groups that consume them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from rocketstore.messages.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from rocketstore.state.broker_tables import TableContents
from rocketstore.state.config_json import encode_json, parse_json
from rocketstore.state.config_values import GROUP_TABLE, GROUPS, LMQ_OFFSETS, OFFSET_TABLE, OFFSETS, TOPIC_TABLE, TOPICS

SEPARATOR = "@"  # between the topic and the group of consumers in a key
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


def files_of_topics(files: Mapping[str, bytes], topics: Collection[str]) -> dict[str, bytes]:
    """Return the files of a configuration with the entries of some topics, and of the groups that consume them.

    Files that cannot be parsed, and files without topics, are left out.

    Parameters: files: by name. topics: also light queues.
    """
    roots = {name: root for name in (*TABLES_BY_TOPIC, GROUPS) if (root := parse_object(files.get(name))) is not None}
    found = {name: _keep_topics(name, root, topics) for name, root in roots.items() if name != GROUPS}
    if GROUPS in roots:
        found[GROUPS] = _keep_groups(roots[GROUPS], find_groups(found, topics))
    encoded = {name: encode_json(root) for name, root in found.items()}
    if SCHEDULE_TOPIC in topics and DELAY_OFFSETS in files:
        encoded[DELAY_OFFSETS] = files[DELAY_OFFSETS]
    return encoded


def contents_of_topics(contents: TableContents, topics: Collection[str]) -> TableContents:
    """Return tables with the entries that ``files_of_topics`` keeps."""
    others = {
        name: _keep_topics(name, root, topics) for name, root in contents.others.items() if name in TABLES_BY_TOPIC
    }
    offsets = {
        group: kept
        for group, of_group in contents.consumer_offsets.items()
        if (kept := {topic: queues for topic, queues in of_group.items() if topic in topics})
    }
    groups = {*offsets, *find_groups(others, topics)}
    return replace(
        contents,
        topics={name: topic for name, topic in contents.topics.items() if name in topics},
        consumer_offsets=offsets,
        subscription_groups={name: group for name, group in contents.subscription_groups.items() if name in groups},
        delay_offsets=contents.delay_offsets if SCHEDULE_TOPIC in topics else {},
        others=others,
    )


def find_unused_files(files: Mapping[str, bytes]) -> list[str]:
    """Return the names of files that ``files_of_topics`` leaves out for all topics, without copies (.bak)."""
    used = {*TABLES_BY_TOPIC, GROUPS, DELAY_OFFSETS}
    return sorted(
        name
        for name, data in files.items()
        if not name.endswith(".bak") and (name not in used or (name != DELAY_OFFSETS and parse_object(data) is None))
    )


def find_groups(tables: Mapping[str, Mapping[str, Any]], topics: Collection[str]) -> set[str]:
    """Return the groups that consume some topics: those in keys of tables, and those of retry and dead letter topics.

    Parameters: tables: the objects of files in TABLES_BY_TOPIC, by the names of the files, with these topics alone.
    """
    prefixes = RETRY_PREFIX, DEAD_LETTER_PREFIX
    groups = {name.removeprefix(prefix) for name in topics for prefix in prefixes if name.startswith(prefix)}
    keys = [
        key
        for name, root in tables.items()
        for table in TABLES_BY_TOPIC[name]
        if isinstance(root.get(table), dict)
        for key in root[table]
    ]
    return groups | {group for key in keys if (group := key.partition(SEPARATOR)[2])}


def _keep_topics(name: str, root: Mapping[str, Any], topics: Collection[str]) -> dict[str, Any]:
    """Return the object of a file with the entries of some topics."""
    kept = {key: value for key, value in root.items() if key != "groupTopicMap"}  # a broker derives it from the offsets
    for table in TABLES_BY_TOPIC[name]:
        if isinstance(kept.get(table), dict):
            kept[table] = {key: row for key, row in kept[table].items() if key.partition(SEPARATOR)[0] in topics}
    return kept


def _keep_groups(root: Mapping[str, Any], groups: Collection[str]) -> dict[str, Any]:
    """Return the object of subscriptionGroup.json with some groups."""
    tables = GROUP_TABLE, FORBIDDEN_TABLE
    kept = {
        table: {name: row for name, row in root[table].items() if name in groups}
        for table in tables
        if isinstance(root.get(table), dict)
    }
    return {**root, **kept}


def parse_object(data: bytes | None) -> dict[str, Any] | None:
    """Return the object of a file; None if the file is missing or cannot be parsed."""
    try:
        root = None if data is None else parse_json(data)
    except (ValueError, RecursionError):
        return None
    return root if isinstance(root, dict) else None

"""Compare topics, consumer groups, offsets and the other files of the configuration of two stores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rocketstore.compare.differences import Difference, Differences
from rocketstore.state.broker_tables import TableContents
from rocketstore.text_values import shorten

SHOWN = 200  # characters of a value
VERSION = "dataVersion"  # counts the changes of a file


def compare_tables(a: TableContents, b: TableContents, differences: Differences) -> None:
    """Compare all tables. Counters of changes may differ. Values of other files, which may be secret, are not shown."""
    compare_entries("topic", as_texts(a.topics), as_texts(b.topics), differences)
    compare_entries("group", as_texts(a.subscription_groups), as_texts(b.subscription_groups), differences)
    compare_offsets(a, b, differences)
    compare_entries("delay", name_levels(a.delay_offsets), name_levels(b.delay_offsets), differences)
    for name in sorted({*a.others, *b.others}):
        members = find_different_members(a.others.get(name) or {}, b.others.get(name) or {})
        if members:
            found = Difference("config-different", name, number=len(members), a=shorten(", ".join(members), SHOWN))
            differences.add(found)
    for contents in (a, b):
        for problem in contents.problems:
            differences.add(Difference("not-compared", str(problem.path), a=problem.what))


def as_texts(table: Mapping[str, Any]) -> dict[str, str]:
    """Return topics or groups as texts, by name."""
    return {name: json.dumps(asdict(value), sort_keys=True, default=str) for name, value in table.items()}


def name_levels(offsets: Mapping[int, int]) -> dict[str, str]:
    """Return the offsets of delay levels as texts, by names of levels."""
    return {f"level {level}": str(offset) for level, offset in offsets.items()}


def compare_entries(what: str, a: Mapping[str, str], b: Mapping[str, str], differences: Differences) -> None:
    """Compare two tables of texts. Parameters: what: "topic", "group" or "delay", the begin of the kinds."""
    for name in sorted({*a, *b}):
        one, other = a.get(name), b.get(name)
        if one == other:
            continue
        kind = "different" if one is not None and other is not None else "only-in-a" if other is None else "only-in-b"
        topic = name if what == "topic" else None
        differences.add(Difference(f"{what}-{kind}", name, a=one, b=other, topic=topic))


def compare_offsets(a: TableContents, b: TableContents, differences: Differences) -> None:
    """Compare the offsets of consumer groups."""
    tables = [
        {(group, topic, queue_id): offset for group, topic, queue_id, offset in contents.next_offsets()}
        for contents in (a, b)
    ]
    for key in sorted({*tables[0], *tables[1]}):
        one, other = (table.get(key) for table in tables)
        if one == other:
            continue
        group, topic, queue_id = key
        kind = "different" if one is not None and other is not None else "only-in-a" if other is None else "only-in-b"
        a_text, b_text = (None if offset is None else str(offset) for offset in (one, other))
        name = f"{group} {topic}/{queue_id}"
        found = Difference(f"offset-{kind}", name, a=a_text, b=b_text, topic=topic, queue_id=queue_id)
        differences.add(found)


def find_different_members(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the names of the members of two JSON objects that differ, except for the counter of changes."""
    return sorted(name for name in {*a, *b} - {VERSION} if a.get(name) != b.get(name))

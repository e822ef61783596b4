"""Compare topics, consumer groups, offsets and the other files of the configuration of two stores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from rocketstore.compare.differences import Difference, Differences
from rocketstore.state.broker_tables import TableContents
from rocketstore.text_values import shorten

K = TypeVar("K")
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


def compare_entries(prefix: str, a: Mapping[str, str], b: Mapping[str, str], differences: Differences) -> None:
    """Compare two tables of texts. Parameters: prefix: "topic", "group" or "delay", with which the kinds begin."""
    for name, text_a, text_b in find_different_entries(a, b):
        topic = name if prefix == "topic" else None
        kind = f"{prefix}-{kind_of(text_a, text_b)}"
        differences.add(Difference(kind, name, a=text_a, b=text_b, topic=topic))


def find_different_entries(a: Mapping[K, str], b: Mapping[K, str]) -> Iterator[tuple[K, str | None, str | None]]:
    """Yield the keys whose texts differ, sorted, with the text in A and in B; None where the key is missing."""
    keys: set[Any] = {*a, *b}
    for key in sorted(keys):
        if a.get(key) != b.get(key):
            yield key, a.get(key), b.get(key)


def kind_of(text_a: str | None, text_b: str | None) -> str:
    """Return the end of the kind of a difference between two entries, of which one may be missing."""
    if text_b is None:
        return "only-in-a"
    return "only-in-b" if text_a is None else "different"


def compare_offsets(a: TableContents, b: TableContents, differences: Differences) -> None:
    """Compare the offsets of consumer groups."""
    tables = [
        {(group, topic, queue_id): str(offset) for group, topic, queue_id, offset in contents.next_offsets()}
        for contents in (a, b)
    ]
    for (group, topic, queue_id), text_a, text_b in find_different_entries(*tables):
        kind, name = f"offset-{kind_of(text_a, text_b)}", f"{group} {topic}/{queue_id}"
        differences.add(Difference(kind, name, a=text_a, b=text_b, topic=topic, queue_id=queue_id))


def find_different_members(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the names of the members of two JSON objects that differ, except for the counter of changes."""
    return sorted(name for name in {*a, *b} - {VERSION} if a.get(name) != b.get(name))

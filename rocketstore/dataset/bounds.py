"""Bounds: the values of columns that the messages which pass a filter can have."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from rocketstore.kernels.message_columns import MESSAGE_FIELDS
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.messages.arguments import join_tags
from rocketstore.text_values import wrong_unit

TEXTS = {"broker", "topic", "tags", "uniqKey", "keys"}
NUMBERS = {"queueId", "phyOffset", "storeTimestamp", "storeTimestampMs"}
OPERATORS = {  # the operators of ``compare``, by their names in pyarrow and in polars
    "equal": "==",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "Eq": "==",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
}
FLIPPED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # for a value on the left of the column
MAX_QUEUE_IDS = 1024  # a wider interval of queue ids is not a condition of a scan


class Interval(NamedTuple):
    """The integers from ``low`` to ``high``, both inclusive."""

    low: int
    high: int


Values: TypeAlias = frozenset[str] | Interval
# By the name of a column in tables. The value of a message is one of the values. Of the column "keys", which has a list
# of words, one word is among the values. A column without bounds may have any value, null included.
Bounds: TypeAlias = dict[str, Values]


def compare(column: str, operator: str, value: object) -> Bounds:
    """Return the bounds of ``column operator value``.

    Parameters: operator: "==", "<", "<=", ">" or ">=". value: str, or a number; of a column of times in milliseconds
    since the epoch, as a Fraction if the literal has a smaller unit. column: its name in a table or in a batch.
    """
    column = MESSAGE_FIELDS[column].name if column in MESSAGE_FIELDS else column
    if isinstance(value, str):
        return {column: frozenset([value])} if column in TEXTS and operator == "==" else {}
    if column not in NUMBERS or isinstance(value, bool) or not isinstance(value, int | Fraction):
        return {}
    low = LONG_MIN if operator.startswith("<") else math.ceil(value)
    high = LONG_MAX if operator.startswith(">") else math.floor(value)
    return {column: Interval(low, high)}


def one_of(column: str, values: Iterable[object]) -> Bounds:
    """Return the bounds of a column whose value is one of ``values``; none if a value is not known to bounds."""
    found: Bounds | None = None
    for value in values:
        bounds = compare(column, "==", value)
        found = bounds if found is None else either(found, bounds)
    return {} if found is None else found


def both(first: Bounds, second: Bounds) -> Bounds:
    """Return the bounds of two filters joined by AND."""
    joined = first | second
    for name in first.keys() & second.keys():
        joined[name] = intersection(name, first[name], second[name])
    return joined


def intersection(name: str, first: Values, second: Values) -> Values:
    if isinstance(first, Interval) and isinstance(second, Interval):
        return Interval(max(first.low, second.low), min(first.high, second.high))
    assert isinstance(first, frozenset)
    assert isinstance(second, frozenset)
    if name == "keys":  # a message has many: two filters may hold by two words
        return min(first, second, key=len)
    return first & second


def either(first: Bounds, second: Bounds) -> Bounds:
    """Return the bounds of two filters joined by OR. Only columns that both bound have bounds."""
    return {name: union(first[name], second[name]) for name in first if name in second}


def union(first: Values, second: Values) -> Values:
    if isinstance(first, Interval) and isinstance(second, Interval):
        return Interval(min(first.low, second.low), max(first.high, second.high))
    assert isinstance(first, frozenset)
    assert isinstance(second, frozenset)
    return first | second


def is_impossible(bounds: Bounds) -> bool:
    """Return whether no message can be within the bounds."""
    return any(values.low > values.high if isinstance(values, Interval) else not values for values in bounds.values())


def scan_conditions(bounds: Bounds) -> dict[str, Any]:
    """Return the arguments of ``CommitLog.scan`` that read all messages within the bounds, and few others."""
    conditions: dict[str, Any] = {}
    for name, values in bounds.items():
        if isinstance(values, Interval):
            conditions |= interval_conditions(name, values, conditions)
        elif name == "topic":
            conditions["topic"] = sorted(values)
        elif name == "tags" and (expression := join_tags(values)) is not None:
            conditions["tag"] = expression
    keys = bounds.get("uniqKey", bounds.get("keys"))
    if isinstance(keys, frozenset):
        conditions["key"] = sorted(keys)
    return conditions


def interval_conditions(name: str, values: Interval, conditions: dict[str, Any]) -> dict[str, Any]:
    low, high = max(values.low, LONG_MIN), min(values.high, LONG_MAX)
    if name == "queueId":
        is_narrow = high - low < MAX_QUEUE_IDS
        return {"queue_ids": list(range(low, high + 1))} if is_narrow else {}
    if name == "phyOffset":
        return {"begin_offset": max(low, 0), "end_offset": min(high + 1, LONG_MAX)}
    begin = max(low, conditions.get("since", LONG_MIN))  # both columns of the store time give bounds
    end = min(high + 1, conditions.get("until", LONG_MAX + 1))
    times = {"since": begin, "until": end}
    # A scan refuses a time that looks like seconds or microseconds. Without that bound the scan reads more messages.
    return {name: time for name, time in times.items() if LONG_MIN < time <= LONG_MAX and wrong_unit(time) is None}

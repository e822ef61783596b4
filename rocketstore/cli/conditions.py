"""Conditions of --fail-if: a column, a comparison and a number, such as "lag > 1000"."""

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import click

from rocketstore.cli.columns import AGE
from rocketstore.text_values import UNITS, find_similar, parse_size, snake_case

FAILED = 3  # the exit status if a condition is met

ROWS = "rows"  # the number of rows
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
}
CONDITION = re.compile(r"\s*([A-Za-z_]+)\s*(>=|<=|==|!=|>|<|=)\s*([0-9.]+)\s*(%|[A-Za-z]*)\s*")


class Condition(NamedTuple):
    """A comparison of a column with a number. ``text``: as the user wrote it."""

    text: str
    column: str
    comparison: str
    value: float

    def is_met(self, rows: Sequence[Mapping[str, Any]], *others: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether a row meets the condition. Parameters: rows: whose number is "rows". others: sums."""
        compare = COMPARISONS[self.comparison]
        if self.column == ROWS:
            return compare(len(rows), self.value)
        values = (row.get(self.column) for part in (rows, *others) for row in part)
        return any(isinstance(value, int | float) and compare(value, self.value) for value in values)


def require_columns(conditions: Sequence[Condition], columns: Collection[str], where: str) -> None:
    """Raise UsageError for a condition that no row and no sum of this list could meet.

    Parameters: columns: of the rows and sums of the list. where: which list has the other columns, for the error.
    """
    for condition in conditions:
        if condition.column not in {ROWS, *columns}:
            raise click.UsageError(f"--fail-if {condition.text!r}: {condition.column} {where}")


def parse_condition(text: str, columns: Sequence[str]) -> Condition:
    """Return a condition. Raises: ValueError.

    A number may have a unit: "80%"; "10G" of bytes; "90s", "5m", "1h", "2d" or "1w" of a column of seconds.

    Parameters: columns: that the condition may name, also in snake_case. "age" is the column oldestAgeSeconds.
    """
    match = CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.80}: give a column, a comparison and a number, such as '{columns[0]} > 1000'")
    name, comparison, number, unit = match.groups()
    known = {ROWS: ROWS} | {snake_case(column): column for column in columns}
    known |= {column: column for column in columns}
    known |= {"age": AGE} if AGE in columns else {}
    if name not in known:
        similar = find_similar(name, known)
        hint = f"did you mean {similar!r}?" if similar else f"the columns are {', '.join([ROWS, *columns])}"
        raise ValueError(f"unknown column {name!r}: {hint}")
    return Condition(text.strip(), known[name], comparison, _value_of(text, known[name], number, unit))


def _value_of(text: str, column: str, number: str, unit: str) -> float:
    is_time = column.endswith("Seconds")
    try:
        if unit == "%":
            return float(number) / 100
        if unit and is_time:
            return float(number) * UNITS[unit] / 1000
        return parse_size(number + unit) if unit else float(number)
    except (ValueError, KeyError):
        expected = "give a number, perhaps with %"
        if unit and is_time:
            expected = f"a time must be a number with a unit: {', '.join(UNITS)}"
        elif unit and unit != "%":
            expected = "a size must be an integer with a unit, such as 1536m"
        raise ValueError(f"{text!r:.80}: {number + unit}: {expected}") from None

"""The names of columns in tables: RocketMQ's, such as queueId, or Python's, such as queue_id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from rocketstore.kernels.message_columns import Field
from rocketstore.text_values import find_similar, snake_case

# "rocketmq": the names that RocketMQ gives to fields, queueId. "python": the same in snake_case, queue_id.
Names: TypeAlias = Literal["rocketmq", "python"]


def check_column_names(names: str) -> None:
    """Raise ValueError for an unknown convention of names."""
    known = get_args(Names)
    if names not in known:
        similar = find_similar(str(names), known)
        hint = f"did you mean {similar!r}?" if similar else f"must be {' or '.join(map(repr, known))}"
        raise ValueError(f"names={names!r:.80}: {hint}")


def named(columns: Iterable[str], names: Names) -> list[str]:
    """Return the names of columns of a table by a convention. Parameters: columns: their names as in RocketMQ.

    Raises: ValueError for an unknown convention.
    """
    check_column_names(names)
    return [snake_case(name) if names == "python" else name for name in columns]


def named_fields(fields: Iterable[Field], names: Names) -> list[Field]:
    """Return fields with the names of a convention. Raises: ValueError for an unknown convention."""
    fields = list(fields)
    shown = named([field.name for field in fields], names)
    return [field._replace(name=name) for field, name in zip(fields, shown, strict=True)]

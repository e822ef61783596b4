"""BrokerRows: the rows of the answers of several stores, each with the name of its broker."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rocketstore.kernels.message_columns import BROKER, BROKER_FIELD
from rocketstore.made_by import made_by
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview


@made_by("rocketstore.open_many(paths)")
class BrokerRows(Rows[Any]):
    """The rows of several stores. A row is that of one store, with the attribute ``broker`` before the others.

    Attributes: parts: the answer of each store by the name of its broker. reasons: why rows may be missing, also those
    of a store that cannot be read. notes: about the answer.

    Examples:
    >>> lags = rocketstore.open_many(["demo"]).consumer_lag()
    >>> [(lag.broker, lag.group, lag.lag) for lag in lags], lags.reasons
    ([('demo', 'billing', 60)], [])
    """

    def __init__(
        self,
        parts: Mapping[str, Rows[Any]],
        problems: Sequence[str],
        order: Callable[[Any], Any] | None = None,
        limit: int | None = None,
    ) -> None:
        """Parameters: parts: one at least. order: the key by which all rows are sorted; None: store after store.
        limit: the largest number of rows.
        """
        rows = [row_of(broker, row) for broker, part in parts.items() for row in part.cells()]
        rows = rows if order is None else sorted(rows, key=order)
        super().__init__(rows[:limit], [BROKER_FIELD, *next(iter(parts.values())).fields])
        self.parts = dict(parts)
        self.reasons = [*problems, *texts_of(parts, "reasons")]
        self.notes = texts_of(parts, "notes")

    def totals(self) -> BrokerRows:
        """Return the totals of each store. Raises: AttributeError if the answer of a store has none."""
        parts: dict[str, Any] = self.parts
        return BrokerRows({broker: part.totals() for broker, part in parts.items()}, self.reasons)

    def _preview(self) -> Preview:
        preview = super()._preview()
        return replace(preview, title=f"Broker{preview.title}", notes=[*self.notes, *self.reasons])


def texts_of(parts: Mapping[str, object], name: str) -> list[str]:
    """Return the texts that answers have in an attribute, which is missing or a list."""
    return list(dict.fromkeys(text for part in parts.values() for text in getattr(part, name, ())))


def row_of(broker: str, row: Any) -> Any:
    """Return a row with the name of its broker before its values."""
    kind: Any = type(row)
    return type_with_broker(kind)(broker, *row)


@functools.cache
def type_with_broker(kind: Any) -> Any:
    """Return the type of the rows of several stores. Parameters: kind: a NamedTuple; its properties stay."""
    make_type: Any = namedtuple
    base = make_type(kind.__name__, (BROKER, *kind._fields))
    members: dict[str, Any] = {name: value for name, value in vars(kind).items() if isinstance(value, property)}
    members |= {
        "__slots__": (),
        "__doc__": kind.__doc__,
        "__reduce__": lambda self: (row_of, (self[0], kind(*self[1:]))),
    }
    return type(kind.__name__, (base,), members)

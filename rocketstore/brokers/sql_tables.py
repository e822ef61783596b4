"""The tables of several stores for SQL: those of one store, each with the column ``broker``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rocketstore.brokers.broker_scan import raise_first
from rocketstore.brokers.find_stores import FAILURES
from rocketstore.errors import CorruptFileError, text_of
from rocketstore.extras import import_extra
from rocketstore.kernels.message_columns import BROKER
from rocketstore.sql.statement import SqlTable, arrow_of
from rocketstore.store.overview.sql_tables import OnCorrupt, tables_of_store
from rocketstore.store.readable_store import ReadableStore

if TYPE_CHECKING:
    import pyarrow as pa


def tables_of_brokers(
    stores: Mapping[str, ReadableStore],
    dataset: Callable[[], Any],
    on_corrupt: OnCorrupt = "raise",
    more: Callable[[ReadableStore], Mapping[str, SqlTable]] | None = None,
) -> dict[str, SqlTable]:
    """Return the tables of several stores, by the names of their brokers.

    Parameters: dataset: makes the dataset of all messages. on_corrupt: as for ``MessageStore.dataset``. more: returns
    tables of a store besides those of ``tables_of_store``.
    """
    own = {
        broker: {**tables_of_store(store, on_corrupt, has_broker=True), **(more(store) if more is not None else {})}
        for broker, store in stores.items()
    }
    first = next(iter(own.values()))
    tables = {name: table._replace(rows=partial(join_tables, own, name)) for name, table in first.items()}
    tables["messages"] = first["messages"]._replace(rows=dataset)
    tables["groups"] = first["groups"]
    return tables


def join_tables(tables: Mapping[str, Mapping[str, SqlTable]], name: str) -> pa.Table:
    """Return the rows of a table of all stores. A store that cannot be read is left out, with a UserWarning.

    Raises: the error of the first store with damage, or of the first store if none can be read.
    """
    pa = import_extra("pyarrow", "duckdb")
    parts: list[Any] = []
    damages: list[Exception] = []
    failures: dict[str, Exception] = {}  # by broker
    for broker, of_store in tables.items():
        try:
            rows = arrow_of(of_store[name])
        except CorruptFileError as error:
            damages.append(error)
        except FAILURES as error:
            failures[broker] = error
        else:
            column = pa.DictionaryArray.from_arrays(pa.array([0] * rows.num_rows, pa.int32()), pa.array([broker]))
            parts.append(rows.add_column(0, BROKER, column))
    raise_first(damages or ([] if parts else [*failures.values()]))
    for broker, failure in failures.items():
        warnings.warn(f"{broker}: {text_of(failure)}: the store is left out", stacklevel=2)
    return pa.concat_tables(parts).unify_dictionaries()

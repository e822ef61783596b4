"""The tables of a store for SQL. The rows of a table are computed when a statement names it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from rocketstore.extras import import_extra
from rocketstore.kernels.message_columns import BROKER, MESSAGE_FIELDS, Field
from rocketstore.messages.rows import Rows
from rocketstore.queue.queue_source import offset_range, read_units_between
from rocketstore.sql.statement import SqlTable
from rocketstore.store.readable_store import ReadableStore
from rocketstore.tier.joined_queue import NO_OFFSET

if TYPE_CHECKING:
    import pyarrow as pa

OnCorrupt = Literal["raise", "skip"]
UNITS = 1 << 20  # read at once
MESSAGES = "SELECT * REPLACE (CAST(body_json AS JSON) AS body_json) FROM rows_of_messages"
TOPICS = """SELECT {broker}topic, count(*) AS queues, sum(messages)::BIGINT AS messages FROM rows_of_topics
GROUP BY {broker}topic"""
GROUPS = """SELECT {broker}"group", count(DISTINCT topic) AS topics, count(*) AS queues, sum(lag)::BIGINT AS lag,
min(oldestTimestamp) AS oldestTimestamp FROM lag GROUP BY {broker}"group\""""
SPAN_FIELDS = (MESSAGE_FIELDS["topic"], MESSAGE_FIELDS["queue_id"], Field("messages", "l"))
INDEX_FIELDS = (
    Field("path", "u"), Field("items", "l"), Field("capacity", "l"), Field("slots", "l"),
    Field("beginTimestamp", "tsm:UTC", nullable=True), Field("endTimestamp", "tsm:UTC", nullable=True),
    Field("beginPhyOffset", "l"), Field("endPhyOffset", "l"), Field("bytes", "l"),
)  # fmt: skip


def tables_of_store(
    store: ReadableStore,
    on_corrupt: OnCorrupt = "raise",
    *,
    verify_crc: bool = True,
    containers: bool = False,
    has_broker: bool = False,
) -> dict[str, SqlTable]:
    """Return the tables of an open store.

    Parameters: on_corrupt, verify_crc, containers: as for ``MessageStore.dataset``. has_broker: whether the caller adds
    a column ``broker``.
    """
    broker = f"{BROKER}, " if has_broker else ""
    options: dict[str, Any] = {"on_corrupt": on_corrupt, "verify_crc": verify_crc, "containers": containers}
    return {
        "messages": SqlTable(partial(store.dataset, **options), MESSAGES),
        "queues": SqlTable(lambda: read_units(store)),
        "topics": SqlTable(lambda: Rows([*find_spans(store)], SPAN_FIELDS), TOPICS.format(broker=broker)),
        "groups": SqlTable(None, GROUPS.format(broker=broker), ("lag",)),
        "lag": SqlTable(partial(store.consumer_lag, log_bytes=True)),
        "index_files": SqlTable(lambda: Rows([*find_index_files(store)], INDEX_FIELDS)),
        "pending": SqlTable(store.pending),
        "findings": SqlTable(partial(refuse_findings, store)),
    }


def refuse_findings(store: ReadableStore) -> NoReturn:
    """Raise ValueError that says how to add the table ``findings``, whose rows a caller has to compute."""
    tables = f"tables={{'findings': rocketstore.verify({str(store.path)!r})}}"
    raise ValueError(f"The table findings needs a verify report: sql(..., {tables})")


def find_spans(store: ReadableStore) -> Iterator[tuple[str, int, int]]:
    """Yield the topic, the id and the number of messages of each queue."""
    for queue in store.queues():
        yield *queue, len(store.consume_queue(*queue))


def read_units(store: ReadableStore) -> pa.Table:
    """Return the units of all queues. A unit in another log than the store's has no physical offset."""
    pa = import_extra("pyarrow", "duckdb")
    schema = pa.schema(
        {
            "topic": pa.dictionary(pa.int32(), pa.string()),
            "queueId": pa.int32(),
            "queueOffset": pa.int64(),
            "phyOffset": pa.int64(),
            "size": pa.int32(),
            "tagsCode": pa.int64(),
        }
    )
    return pa.Table.from_batches(unit_batches(store, schema), schema).unify_dictionaries()


def unit_batches(store: ReadableStore, schema: Any) -> Iterator[pa.RecordBatch]:
    """Yield the units of each queue, from the first one that leads to a message."""
    pa = import_extra("pyarrow", "duckdb")
    for name in store.queues():
        queue = store.consume_queue(*name)
        for units in read_units_between(queue, *offset_range(queue), UNITS):
            n = len(units)
            topic = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([name.topic]))
            columns = {
                "queueId": np.full(n, name.queue_id, np.int32),
                "queueOffset": units.queue_offsets,
                "phyOffset": np.ma.masked_equal(units.phy_offsets, NO_OFFSET),
                "size": units.sizes,
                "tagsCode": units.tags_codes,
            }
            arrays = [pa.array(values, schema.field(column).type) for column, values in columns.items()]
            yield pa.RecordBatch.from_arrays([topic, *arrays], schema=schema)


def find_index_files(store: ReadableStore) -> Iterator[tuple[Any, ...]]:
    """Yield the values of ``INDEX_FIELDS`` for each index file, oldest first."""
    for file in [] if store.index is None else store.index.files:
        header = file.header
        yield (
            str(file.path),
            header.index_count - 1,
            file.index_num - 1,
            file.hash_slot_num,
            header.begin_timestamp or None,
            header.end_timestamp or None,
            header.begin_phy_offset,
            header.end_phy_offset,
            file.geometry.file_size,
        )

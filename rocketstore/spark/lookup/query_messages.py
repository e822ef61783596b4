"""Find the messages of keys, as rows of a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rocketstore.broker_file import warn_once
from rocketstore.config import StoreConfig
from rocketstore.disk.storage import to_path
from rocketstore.index.geometry import given_geometry
from rocketstore.kernels.columns import require_int64
from rocketstore.keywords import suggests_keywords
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.arrow_import import check_buffers
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.query.coverage import Coverage
from rocketstore.query.query_messages import KINDS, MAX_SCAN, QueryMessagesResult
from rocketstore.query.query_messages import query_messages as find_messages
from rocketstore.query.query_other_logs import add_other_messages, pair_topics_with_keys
from rocketstore.spark.lookup.cache import open_store
from rocketstore.spark.lookup.plans import StorePlan, plan_store
from rocketstore.spark.lookup.udfs import OFFSETS_TOGETHER, ROWS_TOGETHER, group_batches, join_group, udf_columns
from rocketstore.spark.source.messages import finished
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import TableSchema, default_schema, table_schema
from rocketstore.survey.formats import find_elsewhere
from rocketstore.survey.requirements import begin_entry
from rocketstore.text_values import Time, Zone, begin_ms, end_ms, find_time_zone

MAX_BATCH_BYTES = 16 << 20  # limit of the records and their rows in a batch, and of the bodies in a batch
ROWS_OF_OTHER_LOGS = 256  # keys whose messages in other logs are in memory at once
FIRST_ROWS = 1 << 13  # keys of the first lookup, which shows how many messages a key has
MESSAGE, COMPLETE = "message", "complete"


class Query(NamedTuple):
    """The arguments of a query, which Spark carries to the tasks.

    Attributes: topic: None if it is a column. outer: whether rows without a message are in the result. limit,
    index_type: as of ``query_messages``. first_timestamp, last_timestamp: store times, inclusive.
    """

    plan: StorePlan
    options: ReadOptions
    table: TableSchema
    topic: str | None
    outer: bool
    limit: int | None = None
    first_timestamp: int = LONG_MIN
    last_timestamp: int = LONG_MAX
    index_type: str | None = None


@suggests_keywords
def query_messages(
    spark: SparkSession,
    path: str | os.PathLike[str],
    df: Any,
    *,
    topic: str | Column,
    key: str | Column,
    limit: int | None = None,
    since: Time | None = None,
    until: Time | None = None,
    tz: Zone = "UTC",
    index_type: str | None = None,
    columns: Iterable[str] | None = None,
    outer: bool = False,
    tier: str | os.PathLike[str] | None = None,
    compacted: bool = False,
    hash_slot_num: int | None = None,
    index_num: int | None = None,
) -> DataFrame:
    """Find the messages of keys by the index of a store. Each message is verified on its record.

    The answer has the messages that were in the store when this function was called: the files of log and index are
    listed then, and in no task, unless a file is missing or damaged.

    Parameters
    ----------
    path : the root of a store, or its URI. Every worker must have it at the same path. A relative path is relative to
        the driver's working directory.
    df : a DataFrame, or an argument of ``spark.createDataFrame``.
    topic : the topic itself as a str, or a Column of topics.
    key : a column of strings, or its name. A key is a word of the property KEYS, or the value of UNIQ_KEY.
    limit, since, until, tz, index_type : as for ``MessageStore.query_messages``.
    columns : names of columns of the table ``messages``; None for its default columns.
    outer : also return a row, with a null message, for each row of ``df`` without a message.
    tier : also find messages that are only in tiered storage, which is in this directory, or at this URI. Their
        physical offset is null. Every worker must have it at the same path.
    compacted : of compacted topics, find the messages that consumers get, by a scan of their compacted logs.
    hash_slot_num, index_num : the geometry of the index, if its files do not show it.

    Returns
    -------
    DataFrame: the columns of ``df``, the struct ``message``, and ``complete``, which is false if messages of the key
    may be missing. A row of ``df`` is repeated for each of its messages, newest first.

    Raises
    ------
    ValueError, TypeError : an unknown column; a column of the result that ``df`` already has; only one number of the
        geometry; a time that is not a 64-bit integer; no topic. An error on a worker fails the query.

    Source: DefaultMessageStore.queryMessage, which verifies less.
    """
    if limit is not None:
        require_int64(limit=limit)
    zone = find_time_zone(tz)
    first, last = begin_ms(since, "since", zone), end_ms(until, "until", zone)
    if topic is None:
        raise TypeError("topic=None: must be a str or a Column, since each message is compared with its topic")
    if index_type not in KINDS or (limit is not None and limit < 1):
        raise ValueError(f"index_type={index_type!r}, limit={limit}: must be None, 'K', 'U' or 'T', and at least 1")
    geometry = given_geometry(hash_slot_num, index_num)
    wanted = None if columns is None else tuple(columns)
    options = ReadOptions(path=to_path(path), columns=wanted, max_batch_bytes=LONG_MAX)
    message = default_schema(options)
    slots, items = geometry or (None, None)
    directory = None if tier is None else str(to_path(tier))
    config = StoreConfig(max_hash_slot_num=slots, max_index_num=items, tiered_store_file_path=directory)
    begun = begin_entry("spark query_messages", path, config)
    topics = frozenset([topic]) if isinstance(topic, str) else None
    read_too = {"tiered": tier is not None, "compacted": compacted}
    for text in find_elsewhere(begun.places, lambda name: topics is None or name in topics, **read_too):
        warn_once(text)
    plan = plan_store(begun, topics, **read_too)
    df = df if isinstance(df, DataFrame) else spark.createDataFrame(df)
    if taken := {MESSAGE, COMPLETE} & {name.lower() for name in df.columns}:
        raise ValueError(f"df has the column {taken.pop()!r} already: rename it")
    constant, asked_by = udf_columns(topic, key)
    named = [column.alias(name) for column, name in zip(asked_by, ("key", "topic"), strict=False)]
    asked = df.select(*named, F.struct("*").alias("row"))
    names, limits = asked.columns, (limit, first, last, index_type)
    query = Query(plan, options, table_schema(options, message), constant, outer, *limits)

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bad_bodies = BadBodies()
        for batch in join_batches(batches, names):
            yield from find_batch(query, batch, bad_bodies)
        bad_bodies.warn()

    added = [T.StructField(MESSAGE, message), T.StructField(COMPLETE, T.BooleanType())]
    schema = T.StructType([asked.schema["row"], *added])
    return asked.mapInArrow(find, schema).select("row.*", MESSAGE, COMPLETE)


def join_batches(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield batches of Spark joined to larger ones, so that more keys are looked up together.

    Parameters: names: of the columns.
    """
    for group in group_batches((tuple(batch.columns) for batch in batches), ROWS_TOGETHER):
        yield pa.RecordBatch.from_arrays([*join_group(group)], names)


def find_batch(query: Query, batch: pa.RecordBatch, bad_bodies: BadBodies | None = None) -> Iterator[pa.RecordBatch]:
    """Find the messages of one batch with the columns ``key``, ``row``, and ``topic`` if the query has no constant one.

    Parameters: bad_bodies: counts the messages whose bodies cannot be decoded. These bodies are null.
    """
    bad_bodies = BadBodies() if bad_bodies is None else bad_bodies
    check_buffers(batch, pa, full=False)
    begin, rows_together = 0, FIRST_ROWS if query.plan.others is None else ROWS_OF_OTHER_LOGS
    while begin < batch.num_rows:
        count = yield from find_rows(query, batch.slice(begin, rows_together), bad_bodies)
        begin += rows_together
        if query.plan.others is None:
            rows_together = max(1, min(ROWS_TOGETHER, OFFSETS_TOGETHER * rows_together // max(count, 1)))


def find_rows(query: Query, batch: pa.RecordBatch, bad_bodies: BadBodies) -> Generator[pa.RecordBatch, None, int]:
    """Find the messages of all rows of a batch together, and yield them. Return the number of messages."""
    count = 0
    for is_wanted, part in split_nulls(batch):
        if not is_wanted:
            if query.outer:
                yield without_message(query, part.column("row"), np.ones(part.num_rows, np.bool_))
            continue
        coverage = open_store(query.plan)
        found = find_keys(query, coverage, part)
        count += len(found.phy_offsets)
        rows, row_of = part.column("row"), np.repeat(np.arange(len(found)), np.diff(found.offsets))
        has_message = np.zeros(len(found), np.bool_)
        read = read_messages(query, coverage.log, rows, row_of, found.phy_offsets, bad_bodies)
        if query.plan.others is not None:
            read = joined_messages(query, found.messages, row_of)
        for of_messages, messages in read:
            has_message[of_messages] = True
            yield answer(rows.take(pa.array(of_messages)), messages, found.complete[of_messages])
        lonely = np.flatnonzero(~has_message)
        if query.outer and len(lonely):
            yield without_message(query, rows.take(pa.array(lonely)), found.complete[lonely])
    return count


def find_keys(query: Query, coverage: Coverage, part: pa.RecordBatch) -> QueryMessagesResult:
    """Find the messages of the keys of a batch, in the commit log, and in other logs if the plan has them."""
    topic = query.topic if query.topic is not None else part.column("topic")
    times = query.first_timestamp, query.last_timestamp
    view, keys = coverage.look(query.index_type), part.column("key")
    found = find_messages(view, topic, keys, query.limit, *times, query.index_type, MAX_SCAN, 1, "mark")
    if query.plan.others is None:
        return found
    topics, words = pair_topics_with_keys(topic, keys)
    return add_other_messages(found, query.plan.others, topics, words, times, query.index_type, query.limit, "mark")


def split_nulls(batch: pa.RecordBatch) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """Yield (True, the rows with key and topic) and (False, the rows with a null). Parts without rows are left out."""
    valid = np.logical_and.reduce(
        [
            column.is_valid().to_numpy(zero_copy_only=False)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if name != "row"
        ]
    )
    for wanted in (True, False):
        if (valid == wanted).any():
            yield wanted, batch if valid.all() else batch.filter(pa.array(valid == wanted))


def read_messages(
    query: Query,
    log: CommitLog,
    rows: pa.Array,
    row_of: np.ndarray,
    phy_offsets: np.ndarray,
    bad_bodies: BadBodies,
) -> Iterator[tuple[np.ndarray, pa.StructArray]]:
    """Yield the messages at physical offsets, some megabytes at once, each with the number of its row.

    Parameters: row_of: the number of the row of each physical offset. Messages that expired meanwhile are left out.
    """
    sizes, statuses = log.find_messages(phy_offsets, columns=["size"])
    row_of, phy_offsets = row_of[statuses == 0], phy_offsets[statuses == 0]
    batches = np.cumsum(sizes.size + rows.nbytes // len(rows), dtype=np.int64) // MAX_BATCH_BYTES
    sources = [column.source for column in query.table.columns.values() if column.source is not None]
    for batch in np.split(np.arange(len(batches)), np.flatnonzero(np.diff(batches)) + 1):
        found, statuses = log.find_messages(phy_offsets[batch], columns=sources or ["phy_offset"])
        here = row_of[batch][statuses == 0]
        for messages in log.reader.with_bodies(found, MAX_BATCH_BYTES, bad_bodies):
            of_messages, here = here[: len(messages)], here[len(messages) :]
            for columns in finished(query.options, query.table, messages):
                yield of_messages, pa.StructArray.from_arrays(columns.columns, fields=list(query.table.arrow))


def joined_messages(
    query: Query, messages: MessageBatch, row_of: np.ndarray
) -> Iterator[tuple[np.ndarray, pa.StructArray]]:
    """Yield messages of several logs, which were read already, as ``read_messages`` does."""
    for columns in finished(query.options, query.table, messages):
        yield row_of, pa.StructArray.from_arrays(columns.columns, fields=list(query.table.arrow))


def without_message(query: Query, rows: pa.Array, complete: np.ndarray) -> pa.RecordBatch:
    return answer(rows, pa.nulls(len(rows), pa.struct(list(query.table.arrow))), complete)


def answer(rows: pa.Array, messages: pa.Array, complete: np.ndarray) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([rows, messages, pa.array(complete)], names=["row", MESSAGE, COMPLETE])

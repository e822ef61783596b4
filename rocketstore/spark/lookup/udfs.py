"""Arrow and pandas UDFs that map a column of keys to hashes or to physical offsets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyspark.sql.functions
from pyspark.sql import Column

from rocketstore.config import StoreConfig
from rocketstore.index.geometry import given_geometry
from rocketstore.index.key_lookup import KeyLookup
from rocketstore.kernels import keys as kernel
from rocketstore.kernels.columns import require_int64, require_sound_buffers
from rocketstore.kernels.phy_offsets import PhyOffsets
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.query.query_messages import MAX_SCAN, query_messages
from rocketstore.spark.lookup.cache import open_index, open_store
from rocketstore.spark.lookup.plans import KeyIndexPlan, StorePlan, plan_index, plan_store
from rocketstore.survey.requirements import begin_entry
from rocketstore.text_values import Time, epoch_ms

ENGINES = ("arrow", "pandas")
# Batches of Spark are looked up together until they have so many rows, or bytes, or may have so many results.
ROWS_TOGETHER, BYTES_TOGETHER, OFFSETS_TOGETHER = 1 << 16, 16 << 20, 1 << 21

# PySpark's own type hints do not cover UDFs that derive their kind from the hints of the function.
F: Any = pyspark.sql.functions


class Lookup(NamedTuple):
    """The arguments of a lookup, which a UDF carries to the workers.

    Attributes: plan: of a store if offsets are verified, else of its index. topic: None if the topic is a column or a
    part of the keys.
    """

    plan: StorePlan | KeyIndexPlan
    topic: str | None
    max_num: int
    begin_timestamp: int
    end_timestamp: int


def select_phy_offset(
    path: str | os.PathLike[str],
    topic: str | Column | None,
    key: str | Column,
    *,
    max_num: int = 32,
    begin_timestamp: Time = 0,
    end_timestamp: Time = LONG_MAX,
    verify: bool | None = None,
    engine: str = "arrow",
    hash_slot_num: int | None = None,
    index_num: int | None = None,
) -> Column:
    """Return a column with the physical offsets of each key.

    In a store, each offset is verified on its message. In an index alone, keys are found by hash. The column shows the
    files as they were when this function was called: their directories are listed then, and in no task, unless a file
    is missing or damaged. Messages that are only in tiered storage have no physical offset: ``query_messages`` finds
    them.

    Parameters
    ----------
    path : the root of a store, an index file, or a directory of index files. Every worker must have it at the same
        path. It may also be a URI. A relative path is relative to the driver's working directory.
    topic : the topic itself as a str, or a column of topics. None if each key is the whole ``topic#key``; these keys
        cannot be verified.
    key : a column of strings, or its name.
    max_num : the largest number of offsets for each key. Without verification, a directory of index files returns at
        most 64, as RocketMQ's own query.
    begin_timestamp, end_timestamp : epoch milliseconds, a datetime, a date or an ISO 8601 text, both inclusive, as for
        RocketMQ. Without verification, times are known only to the second, rounded down.
    verify : compare topic, key and store time with the message, as ``MessageStore.query_messages`` does, and leave out
        expired messages. With False, offsets of other keys with the same hash may be in the result. Default: True for
        the root of a store. The column does not show whether the index is complete; ``query_messages`` does.
    engine : "arrow" (``arrow_udf``, faster) or "pandas" (``pandas_udf``).
    hash_slot_num, index_num : the geometry of the index, if its files do not show it.

    Returns
    -------
    Column of ``array<bigint>``: physical offsets, newest first; an empty array if no message is found; null for a null
    key or topic. Without verification, the offsets are those of ``IndexFile.select_phy_offset`` for a file, and of
    ``IndexService.query_offset`` for a directory.

    Raises
    ------
    ValueError, TypeError : an unknown engine; ``verify=True`` without messages or topic; only one number of the
        geometry; a time that is not a 64-bit integer. An error on a worker (a missing path, a damaged file, too little
        address space) fails the query.

    Source: IndexFile.selectPhyOffset, IndexService.queryOffset; DefaultMessageStore.queryMessage, which verifies less.
    """
    geometry = given_geometry(hash_slot_num, index_num)
    slots, items = geometry or (None, None)
    require_int64(max_num=max_num)
    begin, end = epoch_ms(begin_timestamp, "begin_timestamp"), epoch_ms(end_timestamp, "end_timestamp")
    begun = begin_entry("spark select_phy_offset", path, StoreConfig(max_hash_slot_num=slots, max_index_num=items))
    places = begun.places
    is_root = places.default_log.is_dir() or places.index.is_dir()
    is_verified = is_root if verify is None else verify
    if is_verified and not is_root:
        raise ValueError(
            "verify=True: an index has only hashes; to verify offsets, give the root of a store with its messages"
        )
    if is_verified and topic is None:
        raise ValueError("topic=None: give a topic to compare with, or verify=False to find keys by hash")
    if max_num < is_verified:
        raise ValueError(f"max_num={max_num}: must not be {'less than 1' if is_verified else 'negative'}")
    constant, columns = udf_columns(topic, key)
    if is_verified:
        plan: StorePlan | KeyIndexPlan = plan_store(begun)
    else:
        plan = plan_index(places.index if is_root else places.root, geometry)
    lookup = Lookup(plan, constant, max_num, begin, end)
    column: Column = batch_udf(
        "select_phy_offset",
        engine,
        partial(look_up_arrow, lookup),
        partial(look_up_pandas, lookup),
        "array<bigint>",
        columns,
        rows_together=min(ROWS_TOGETHER, OFFSETS_TOGETHER // max(max_num, 1)),
    )
    return column


def hash_keys(topic: str | Column | None, key: str | Column, *, engine: str = "arrow") -> Column:
    """Return a column with the hash of each key, as an index item stores it.

    Parameters: topic: the topic itself as a str, or a column of topics; the key to hash is then ``topic#key``. None if
    the keys already begin with ``topic#``. key: a column of strings, or its name. engine: as for ``select_phy_offset``.
    Returns: Column of ``int``, not negative; null for a null key or topic. Raises: ValueError for an unknown engine.
    Source: IndexFile.indexKeyHashMethod, IndexService.buildKey.
    """
    constant, columns = udf_columns(topic, key)
    column: Column = batch_udf(
        "hash_keys", engine, partial(hash_arrow, constant), partial(hash_pandas, constant), "int", columns
    )
    return column


def udf_columns(topic: str | Column | None, key: str | Column) -> tuple[str | None, list[Column]]:
    """Return the topic, None if it is a column or in the keys, and the columns to read: the key, and perhaps topics."""
    if topic is not None and not isinstance(topic, (str, Column)):
        raise TypeError(f"topic: a str or a Column was expected, not {type(topic).__name__}")
    columns = [F.col(key) if isinstance(key, str) else key]
    return (None, [*columns, topic]) if isinstance(topic, Column) else (topic, columns)


# ---- the engines -----------------------------------------------------------------------------------------


def batch_udf(
    name: str,
    engine: str,
    of_arrow: Callable[[Any], pa.Array],
    of_pandas: Callable[[Any], pd.Series],
    type_: str,
    columns: list[Column],
    rows_together: int = 1,
) -> Any:
    """Return a column that is computed by ``of_arrow`` or ``of_pandas``, batch by batch.

    Parameters: name: of the UDF in Spark's plans. columns: the arguments of the function. rows_together: ``of_arrow``
    gets as many batches at once as are needed for so many rows.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r}: must be one of {', '.join(map(repr, ENGINES))}")

    def one(arrays: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return answer_together(of_arrow, ((array,) for array in arrays), rows_together)

    def two(arrays: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        return answer_together(of_arrow, arrays, rows_together)

    def series(*columns: pd.Series) -> pd.Series:
        return of_pandas(columns)

    for function in (one, two, series):
        function.__name__ = name
    if engine == "pandas":
        return F.pandas_udf(series, type_)(*columns)
    return F.arrow_udf(one if len(columns) == 1 else two, type_)(*columns)


def answer_together(
    of_arrow: Callable[[Any], pa.Array], batches: Iterable[tuple[pa.Array, ...]], rows_together: int
) -> Iterator[pa.Array]:
    """Compute the result of several batches at once, and yield the part of each batch.

    A lookup reads the records of its keys in the order of the log. More keys at once have more records in each page.
    """
    for group in group_batches(batches, rows_together):
        result, begin = of_arrow(join_group(group)), 0
        for batch in group:
            yield result.slice(begin, len(batch[0]))
            begin += len(batch[0])


def group_batches(batches: Iterable[tuple[pa.Array, ...]], rows: int) -> Iterator[list[tuple[pa.Array, ...]]]:
    """Yield batches in lists.

    A list ends when it has at least ``rows`` rows. It ends earlier if it would have more than BYTES_TOGETHER bytes with
    the next batch: Arrow cannot join columns of more than 2 GiB.
    """
    group: list[tuple[pa.Array, ...]] = []
    count = size = 0
    for batch in batches:
        for column in batch:
            require_sound_buffers(column, "a column")
        batch_size = sum(column.nbytes for column in batch)
        if group and size + batch_size > BYTES_TOGETHER:
            yield group
            group, count, size = [], 0, 0
        group.append(batch)
        count += len(batch[0])
        size += batch_size
        if count >= rows:
            yield group
            group, count, size = [], 0, 0
    if group:
        yield group


def join_group(group: list[tuple[pa.Array, ...]]) -> tuple[pa.Array, ...]:
    """Join the columns of several batches. Return the columns of one batch with all rows."""
    return group[0] if len(group) == 1 else tuple(map(pa.concat_arrays, zip(*group, strict=True)))


def look_up_arrow(lookup: Lookup, columns: tuple[pa.Array, ...]) -> pa.ListArray:
    """Look up one batch of (keys,) or (keys, topics)."""
    columns, missing = fill_arrays(columns)
    return list_array(find(lookup, columns), missing)


def look_up_pandas(lookup: Lookup, columns: tuple[pd.Series, ...]) -> pd.Series:
    """Look up one batch of (keys,) or (keys, topics)."""
    columns, missing = fill_series(columns)
    return pd.Series(FinishedLists(list_array(find(lookup, columns), missing)))


class FinishedLists(pd.arrays.ArrowExtensionArray):  # type: ignore[misc]
    """A column of Arrow lists that ``map`` returns unchanged.

    PySpark converts an array column to Arrow by way of a Python list for each row, with ``Series.apply``. That takes
    longer than the lookup, and fails on a null. These lists are Arrow already.
    """

    def map(self, mapper: Any, na_action: Any = None) -> FinishedLists:
        return self


def hash_arrow(topic: str | None, columns: tuple[pa.Array, ...]) -> pa.Array:
    columns, missing = fill_arrays(columns)
    return pa.array(hash_filled(topic, columns), mask=missing)


def hash_pandas(topic: str | None, columns: tuple[pd.Series, ...]) -> pd.Series:
    columns, missing = fill_series(columns)
    hashes = hash_filled(topic, columns)
    return pd.Series(hashes if missing is None else pd.arrays.IntegerArray(hashes, missing))


def hash_filled(topic: str | None, columns: tuple[Any, ...]) -> np.ndarray:
    return kernel.hash_keys(columns[0], topic=columns[1] if len(columns) > 1 else topic)


def fill_arrays(columns: tuple[pa.Array, ...]) -> tuple[tuple[pa.Array, ...], np.ndarray | None]:
    """Return columns without nulls, and a mask of the rows that had nulls; None if no row had one."""
    for column in columns:
        require_sound_buffers(column, "a column")
    if not any(column.null_count for column in columns):
        return columns, None
    missing = np.logical_or.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
    return tuple(filled(column) for column in columns), missing


def filled(column: pa.Array) -> pa.Array:
    """Replace nulls by empty strings. A column of untyped NULLs has Arrow's null type and is cast to strings first."""
    return (column.cast(pa.string()) if pa.types.is_null(column.type) else column).fill_null("")


def fill_series(columns: tuple[pd.Series, ...]) -> tuple[tuple[pd.Series, ...], np.ndarray | None]:
    """Return columns without nulls, and a mask of the rows that had nulls; None if no row had one."""
    missing = np.logical_or.reduce([column.isna().to_numpy() for column in columns])
    if not missing.any():
        return columns, None
    return tuple(column.fillna("") for column in columns), missing


def find(lookup: Lookup, columns: tuple[Any, ...]) -> PhyOffsets:
    """Look up one batch of (keys,) or (keys, topics), without nulls."""
    topic = columns[1] if len(columns) > 1 else lookup.topic
    limits = lookup.max_num, lookup.begin_timestamp, lookup.end_timestamp
    if isinstance(lookup.plan, StorePlan):
        found = query_messages(open_store(lookup.plan).look(None), topic, columns[0], *limits, None, MAX_SCAN, 1)
        return PhyOffsets(found.phy_offsets, found.offsets)
    index: KeyLookup = open_index(lookup.plan)
    max_num, begin, end = limits
    hashes = kernel.hash_keys(columns[0], topic=topic)
    return index.select_phy_offsets_by_hash(hashes, max_num=max_num, begin_timestamp=begin, end_timestamp=end)


def list_array(found: PhyOffsets, missing: np.ndarray | None) -> pa.ListArray:
    """Return an Arrow list array of physical offsets. Parameters: missing: the rows that get null, or None."""
    if len(found.values) > INT_MAX:
        raise ValueError(
            f"{len(found.values)} offsets in one batch: lower max_num or spark.sql.execution.arrow.maxRecordsPerBatch"
        )
    return pa.ListArray.from_arrays(
        pa.array(found.offsets.astype(np.int32)),
        pa.array(found.values),
        mask=None if missing is None else pa.array(missing),
    )

"""Scan a store with polars: a lazy frame that reads only the columns and messages which a query needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from rocketstore.dataset.dataset_reader import ROWS_AT_ONCE, THREADS, DatasetReader
from rocketstore.dataset.polars_filter import read_predicate
from rocketstore.kernels.arrow_export import OneStream, export_stream
from rocketstore.kernels.column_names import Names, named_fields
from rocketstore.kernels.message_columns import lazy_fields

BODY_JSON = "body_json"


def lazy_frame(
    reader: DatasetReader,
    columns: Iterable[str] | None,
    names: Names = "rocketmq",
    body_schema: Mapping[str, Any] | None = None,
) -> pl.LazyFrame:
    """Return a lazy frame of messages.

    Parameters: columns: as for ``lazy_fields``. names: as for ``named``. body_schema: the types of the fields of
    ``body_json``, which is then a struct; None for text. Raises: ValueError for a schema without that column.
    """
    fields = named_fields(lazy_fields(columns).values(), names)
    all_columns = [field.name for field in fields]
    schema = pl.DataFrame(OneStream(export_stream(fields, ()))).schema
    body_type = None if body_schema is None else pl.Struct(dict(body_schema))
    if body_type is not None:
        if BODY_JSON not in schema:
            raise ValueError(f"body_schema: {BODY_JSON} is not among the columns: add it to columns")
        schema[BODY_JSON] = body_type

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        shown = all_columns if with_columns is None else with_columns
        needed = list(dict.fromkeys([*shown, *([] if predicate is None else predicate.meta.root_names())]))
        # polars counts rows before it filters them, if it asks for both.
        bounds = {} if predicate is None or n_rows is not None else read_predicate(predicate)
        threads = THREADS if n_rows is None else 1  # threads would read ahead
        size = ROWS_AT_ONCE if n_rows is None else max(1, min(n_rows, ROWS_AT_ONCE))
        left = n_rows
        for batch in reader.read(bounds, needed or ["phyOffset"], threads=threads, batch_size=size):
            frame = batch.to_polars(names=names)
            if body_type is not None and BODY_JSON in frame.columns:
                frame = frame.with_columns(decode_json(frame[BODY_JSON], body_type))
            if left is not None:
                frame, left = frame.head(left), left - len(frame)
            yield (frame if predicate is None else frame.filter(predicate)).select(shown)
            if left is not None and left <= 0:
                return

    return register_io_source(read, schema=schema)


def decode_json(texts: pl.Series, kind: pl.DataType) -> pl.Series:
    """Return texts of JSON as values of a type. A text that is no such value, as polars reads it, is null."""
    try:
        return texts.str.json_decode(kind)
    except pl.exceptions.PolarsError:
        if len(texts) == 1:
            return pl.Series(texts.name, [None], kind)
        half = len(texts) // 2
        return pl.concat([decode_json(texts[:half], kind), decode_json(texts[half:], kind)])

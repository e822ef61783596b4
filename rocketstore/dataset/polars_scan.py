"""Scan a store with polars: a lazy frame that reads only the columns and messages which a query needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl
from polars.io.plugins import register_io_source

from rocketstore.dataset.dataset_reader import ROWS_AT_ONCE, THREADS, DatasetReader
from rocketstore.dataset.polars_filter import read_predicate
from rocketstore.kernels.arrow_export import OneStream, export_stream
from rocketstore.kernels.column_names import Names, named_fields
from rocketstore.kernels.message_columns import lazy_fields


def lazy_frame(reader: DatasetReader, columns: Iterable[str] | None, names: Names = "rocketmq") -> pl.LazyFrame:
    """Return a lazy frame of messages. Parameters: columns: as for ``lazy_fields``. names: as for ``named``."""
    fields = named_fields(lazy_fields(columns).values(), names)
    all_columns = [field.name for field in fields]
    schema = pl.DataFrame(OneStream(export_stream(fields, ()))).schema

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
            if left is not None:
                frame, left = frame.head(left), left - len(frame)
            yield (frame if predicate is None else frame.filter(predicate)).select(shown)
            if left is not None and left <= 0:
                return

    return register_io_source(read, schema=schema)

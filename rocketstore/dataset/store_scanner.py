"""StoreScanner: one query of a StoreDataset, with the methods of ``pyarrow.dataset.Scanner``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds


class StoreScanner:
    """Some columns of the messages of a store that pass a filter. Each method reads the store again.

    It is no subclass of ``pyarrow.dataset.Scanner``, whose threads would read ahead without a limit and would call
    Python even while the interpreter ends. All methods read in the caller's thread.

    Attributes: dataset_schema: of the columns that are read. projected_schema: of the result.
    """

    def __init__(self, read: Callable[[int | None], Iterator[Any]], schema: Any, columns: Any, condition: Any) -> None:
        """Make a scanner.

        Parameters: read: yields record batches of ``schema``; its argument is the number of rows that the
        query needs, None for all. columns, condition: as ``pyarrow.dataset.Dataset.scanner``.
        Raises: errors of pyarrow for columns and a condition that do not fit the schema.
        """
        self._read = read
        self._columns = columns
        self._condition = condition
        self.dataset_schema = schema
        self.projected_schema = self._scanner_of(schema.empty_table()).projected_schema

    def _scanner_of(self, table: Any) -> Any:
        dataset = ds.InMemoryDataset(table)
        return dataset.scanner(columns=self._columns, filter=self._condition, use_threads=False)

    def to_batches(self, rows: int | None = None) -> Iterator[Any]:
        """Yield record batches. Parameters: rows: how many rows the caller needs; None for all."""
        for batch in self._read(rows):
            yield from self._scanner_of(batch).to_batches()

    def scan_batches(self) -> Iterator[Any]:
        """Yield batches of type ``pyarrow.dataset.TaggedRecordBatch``, without a fragment."""
        return (ds.TaggedRecordBatch(batch, None) for batch in self.to_batches())

    def to_reader(self) -> Any:
        """Return a ``pyarrow.RecordBatchReader``."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> Any:
        """Return all rows as a ``pyarrow.Table``."""
        return pa.Table.from_batches(self.to_batches(), self.projected_schema)

    def head(self, num_rows: int) -> Any:
        """Return the first rows as a ``pyarrow.Table``, and read little more than these."""
        batches, rows = [], 0
        for batch in self.to_batches(num_rows):
            batches.append(batch)
            rows += len(batch)
            if rows >= num_rows:
                break
        return pa.Table.from_batches(batches, self.projected_schema).slice(0, num_rows)

    def take(self, indices: Any) -> Any:
        """Return rows by their numbers, in the order of ``indices``, as a ``pyarrow.Table``.

        Raises: IndexError for a row that does not exist.
        """
        wanted = np.asarray(indices, np.int64)
        rows, places = np.unique(wanted, return_inverse=True)
        batches, begin, found = [], 0, 0
        if len(rows) and rows[0] < 0:
            raise IndexError(f"indices: {rows[0]} is negative")
        for batch in self.to_batches(int(rows[-1]) + 1 if len(rows) else 0):
            end = begin + len(batch)
            inside = rows[found : np.searchsorted(rows, end)]
            batches.append(batch.take(pa.array(inside - begin)))
            begin, found = end, found + len(inside)
            if found == len(rows):
                break
        if found < len(rows):
            raise IndexError(f"indices: {rows[found]} is not one of {begin} rows")
        return pa.Table.from_batches(batches, self.projected_schema).take(pa.array(places))

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(self._scanner_of(batch).count_rows() for batch in self._read(None))

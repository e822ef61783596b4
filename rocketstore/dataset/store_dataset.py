"""StoreDataset: a store as a dataset of pyarrow, for DuckDB, polars and other libraries that read datasets."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, Self

import pyarrow as pa
import pyarrow.dataset as ds

from rocketstore.arrow import schema_of
from rocketstore.dataset.arrow_filter import FilterTree, read_filter
from rocketstore.dataset.dataset_reader import ROWS_AT_ONCE, THREADS, BoundedReader
from rocketstore.dataset.store_scanner import StoreScanner
from rocketstore.kernels.column_names import Names, named, named_fields
from rocketstore.kernels.message_columns import batch_fields, batch_name

FEW_ROWS = 256  # in a batch, if a query needs fewer
NO_FILES = "a store has no files that Arrow can read: use to_table, to_batches or scanner of the dataset"


class NoFile(io.RawIOBase):
    """A file of which each read raises an error."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> NoReturn:
        raise io.UnsupportedOperation(NO_FILES)

    def read(self, size: int = -1) -> NoReturn:
        raise io.UnsupportedOperation(NO_FILES)


class StoreDataset(ds.UnionDataset):  # type: ignore[misc]
    """The messages of a store as a ``pyarrow.dataset.Dataset``. ``MessageStore.dataset`` makes it.

    Every scan reads the messages that the store has then. A scan reads only the columns that the query needs. It also
    uses the parts of a filter that compare ``topic``, ``tags``, ``queueId``, ``phyOffset``, ``storeTimestamp`` and
    ``uniqKey`` with values. The index finds the messages if the filter names topics and unique keys.

    Libraries recognise a dataset by its class. Arrow's own code in C++ calls no methods of Python. So a function of
    Arrow that is given this object and does not call its methods, such as ``Scanner.from_dataset``, raises an error: it
    would read the only child of the union, a file that cannot be read.
    """

    def __init__(
        self,
        reader: BoundedReader,
        columns: Iterable[str] | None = None,
        filter: Any = None,
        names: Names = "rocketmq",
    ) -> None:
        """Make a dataset. Parameters: columns: as for ``CommitLog.scan``. filter: an expression; None for all rows."""
        self._reader = reader
        self._filter = filter
        self._names = names
        schema = schema_of(named_fields(reader.fields_of(columns).values(), names))
        form = ds.IpcFileFormat()
        fragment = form.make_fragment(pa.PythonFile(NoFile(), mode="r"))
        super().__init__(schema, [ds.FileSystemDataset([fragment], schema, form)])

    def scanner(
        self,
        columns: Any = None,
        filter: Any = None,
        batch_size: int = 131_072,
        batch_readahead: int = 16,
        fragment_readahead: int = 4,
        fragment_scan_options: Any = None,
        use_threads: bool = True,
        cache_metadata: bool = True,
        memory_pool: Any = None,
    ) -> StoreScanner:
        """Return a scanner of some columns of the rows that pass a filter.

        Parameters: as ``pyarrow.dataset.Dataset.scanner``. use_threads: scan several parts of the log at the same time.
        The other parameters except ``batch_size`` have no effect.
        """
        condition = self._joined(filter)
        tree = FilterTree({}, set()) if condition is None else read_filter(condition)
        names = self._needed(columns, tree)
        most = max(1, min(batch_size, ROWS_AT_ONCE))

        def read(rows: int | None) -> Iterator[Any]:
            threads, size = THREADS if use_threads else 1, most
            if rows is not None:  # threads would read ahead
                threads, size = 1, min(most, max(rows, FEW_ROWS))
            batches = self._reader.read(tree.bounds, names, threads=threads, batch_size=size)
            return (batch.to_arrow(names=self._names) for batch in batches)

        schema = schema_of(named_fields(batch_fields(map(batch_name, names)).values(), self._names))
        return StoreScanner(read, schema, self.schema.names if columns is None else columns, condition)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export all rows as an Arrow stream. So ``pyarrow.dataset.write_dataset`` accepts the dataset."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def _joined(self, filter: Any) -> Any:
        """Return the filter of this dataset and another filter together; None for all rows."""
        if self._filter is None or filter is None:
            return filter if self._filter is None else self._filter
        return self._filter & filter

    def _needed(self, columns: Any, tree: FilterTree) -> list[str]:
        """Return the columns that must be read, in the order of the schema; one column if only rows are counted."""
        needed = tree.columns
        if needed is not None and isinstance(columns, list | tuple):
            needed = needed | set(columns)
        elif needed is not None and isinstance(columns, dict):
            for expression in columns.values():
                more = read_filter(expression).columns
                needed = None if needed is None or more is None else needed | more
        else:
            needed = None
        names: list[str] = self.schema.names
        found = names if needed is None else [name for name in names if name in needed]
        return found or named(["phyOffset"], self._names)

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        """Return the number of rows. Parameters: as ``scanner``."""
        return self.scanner([], filter, **options).count_rows()

    @property
    def why(self) -> str | None:
        """Why the dataset has no row; None if it has one. Each access reads the log up to the first row.

        Raises: as a scan.
        """
        if self.scanner(self.schema.names[:1]).head(1).num_rows:
            return None
        bounds = {} if self._filter is None else read_filter(self._filter).bounds
        return (
            self._reader.explain(bounds) or f"messages of the store may pass the filter, but none does: {self._filter}"
        )

    def filter(self, expression: Any) -> StoreDataset:
        """Return a dataset of the rows of this dataset for which an expression of pyarrow is true."""
        return StoreDataset(self._reader, self._columns, self._joined(expression), self._names)

    def replace_schema(self, schema: Any) -> StoreDataset:
        """Return a dataset of some columns. Raises: ValueError for a column that this dataset does not have."""
        for column in schema:
            if column.name not in self.schema.names or self.schema.field(column.name).type != column.type:
                raise ValueError(f"schema: the column {column.name!r} of the type {column.type} is not in this dataset")
        return StoreDataset(self._reader, [*map(batch_name, schema.names)], self._filter, self._names)

    @property
    def _columns(self) -> list[str]:
        return [*map(batch_name, self.schema.names)]

    def get_fragments(self, filter: Any = None) -> Iterator[Any]:
        """Raise ``io.UnsupportedOperation``, since a store has no files that Arrow can read."""
        raise io.UnsupportedOperation(NO_FILES)

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Read all rows and return them sorted. Parameters, returns: as ``pyarrow.dataset.Dataset.sort_by``."""
        return in_memory(self).sort_by(sorting, **options)

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """Read all rows and join them. Parameters, returns: as ``pyarrow.dataset.Dataset.join``."""
        return in_memory(self).join(in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """Read all rows and join them by the nearest key. As ``pyarrow.dataset.Dataset.join_asof``."""
        return in_memory(self).join_asof(in_memory(right_dataset), *arguments, **options)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), (self._reader, self._columns, self._filter, self._names)

    def __repr__(self) -> str:
        condition = "" if self._filter is None else f", where {self._filter}"
        return f"<StoreDataset of {self._reader.describe()}{condition}: {', '.join(self.schema.names)}>"


def in_memory(dataset: Any) -> Any:
    """Return a dataset that Arrow's own code can read."""
    return ds.InMemoryDataset(dataset.to_table()) if isinstance(dataset, StoreDataset) else dataset

"""ArrowStream: an object that exports itself to Arrow, and so to pandas and polars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rocketstore.extras import import_extra
from rocketstore.kernels.arrow_export import consume
from rocketstore.kernels.column_names import Names, check_column_names
from rocketstore.text_values import snake_case

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class ArrowStream(ABC):
    """An object with rows and columns. DuckDB, polars and all that takes Arrow streams accept it."""

    __slots__ = ()

    @abstractmethod
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export as an Arrow stream of record batches, with the names of tables."""

    def to_arrow(self, *, names: Names = "rocketmq") -> pyarrow.Table:
        """Return all rows as a pyarrow.Table.

        Parameters: names: of the columns: "rocketmq": such as queueId; "python": such as queue_id.
        Raises: ValueError for other names.
        """
        return self._table("arrow", names)

    def to_pandas(self, *, names: Names = "rocketmq") -> pandas.DataFrame:
        """Return all rows as a pandas.DataFrame. Parameters, raises: as ``to_arrow``."""
        import_extra("pandas", "pandas")
        return self._table("pandas", names).to_pandas()

    def to_polars(self, *, names: Names = "rocketmq") -> polars.DataFrame:
        """Return all rows as a polars.DataFrame. Parameters, raises: as ``to_arrow``."""
        check_column_names(names)
        frame: polars.DataFrame = consume(self, import_extra("polars", "polars").DataFrame)
        return frame.rename({name: snake_case(name) for name in frame.columns}) if names == "python" else frame

    def _table(self, extra: str, names: Names) -> pyarrow.Table:
        check_column_names(names)
        table = consume(self, import_extra("pyarrow", extra).table)
        return table.rename_columns([*map(snake_case, table.column_names)]) if names == "python" else table

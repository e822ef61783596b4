"""ArrowStream: an object that exports itself to Arrow, and so to pandas and polars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rocketstore.extras import import_extra
from rocketstore.kernels.arrow_export import consume

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

    def to_arrow(self) -> pyarrow.Table:
        """Return all rows as a pyarrow.Table."""
        return consume(self, import_extra("pyarrow", "arrow").table)

    def to_pandas(self) -> pandas.DataFrame:
        """Return all rows as a pandas.DataFrame."""
        import_extra("pandas", "pandas")
        return consume(self, import_extra("pyarrow", "pandas").table).to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return all rows as a polars.DataFrame."""
        frame: polars.DataFrame = consume(self, import_extra("polars", "polars").DataFrame)
        return frame

"""The data source ``rocketstore``: tables of a store in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader

from rocketstore.spark.messages import MessagesReader, PushdownReader
from rocketstore.spark.options import ReadOptions
from rocketstore.spark.schemas import default_schema, table_schema
from rocketstore.spark.sink import MessageWriter, writer_of
from rocketstore.spark.stream import RocketStoreStreamReader
from rocketstore.spark.tables import TABLE_READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RocketStoreDataSource", "register"]


class RocketStoreDataSource(DataSource):  # type: ignore[misc]
    """What ``format("rocketstore")`` makes. Options: of reading see ``ReadOptions``, of writing ``writer_of``."""

    @classmethod
    def name(cls) -> str:
        return "rocketstore"

    def schema(self) -> Any:
        return default_schema(ReadOptions.parse(self.options))

    def reader(self, schema: Any) -> DataSourceReader:
        options = ReadOptions.parse(self.options, streaming=False)
        table = table_schema(options, schema)
        if options.table != "messages":
            return TABLE_READERS[options.table](options, table)
        return PushdownReader(options, table) if options.pushdown else MessagesReader(options, table)

    def writer(self, schema: Any, overwrite: bool) -> MessageWriter:
        return writer_of(schema, self.options, overwrite)

    def streamReader(self, schema: Any) -> RocketStoreStreamReader:
        options = ReadOptions.parse(self.options, streaming=True)
        return RocketStoreStreamReader(options, table_schema(options, schema))


def register(spark: SparkSession) -> None:
    """Make the format ``rocketstore`` known to a session, for ``spark.read``, ``spark.readStream`` and SQL."""
    spark.dataSource.register(RocketStoreDataSource)

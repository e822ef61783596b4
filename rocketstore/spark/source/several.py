"""Read several stores in Spark: the driver plans each store, and a task reads a part of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, EqualTo, In, InputPartition

from rocketstore.brokers.find_stores import FoundRoots, find_roots
from rocketstore.kernels.message_columns import BROKER
from rocketstore.logger import logger
from rocketstore.spark.source.messages import MessagesReader, PushdownReader
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import TableSchema
from rocketstore.spark.source.tables import TABLE_READERS, TableReader
from rocketstore.survey.requirements import begin_entry

StoreReader = MessagesReader | TableReader


@dataclass
class StorePart(InputPartition):  # type: ignore[misc]
    """A part of one of several stores.

    Attributes: options: of this store. part: as the reader of one store plans it.
    """

    options: ReadOptions
    part: InputPartition


class SeveralReader(DataSourceReader):  # type: ignore[misc]
    """Reads several stores, each as a reader of one store does. The column ``broker`` has their names."""

    def __init__(self, options: ReadOptions, table: TableSchema) -> None:
        self.options = options
        self.table = table

    def partitions(self) -> list[StorePart]:
        found = self.find_stores()
        parts: list[StorePart] = []
        for broker, survey in found.surveys.items():
            if self.wants(broker):
                own = replace(self.options, path=survey.root, paths=None, broker_name=broker)
                reader = self.reader_of(own)
                parts += (StorePart(reader.options, part) for part in reader.partitions())
        return parts

    def find_stores(self) -> FoundRoots:
        """Return the stores. Raises: the error of a store that cannot be read, unless failOnDataLoss=false."""
        entry = "spark read" if self.options.table == "messages" else "spark table"
        found = find_roots(self.options.paths or (), lambda root: begin_entry(entry, root))
        for text in found.skipped:
            logger.warning("%s", text)
        if found.errors and self.options.fail_on_data_loss:
            found.errors[0].add_note("With failOnDataLoss=false the query continues without this store.")
            raise found.errors[0]
        for text in found.problems:
            logger.warning("%s: the query continues without this store", text)
        return found

    def wants(self, broker: str) -> bool:
        """Return whether rows of a store may be in the result."""
        return True

    def reader_of(self, options: ReadOptions) -> StoreReader:
        """Return the reader of one store. Parameters: options: of this store."""
        if options.table != "messages":
            reader: StoreReader = TABLE_READERS[options.table](options, self.table, checks_names=False)
            return reader
        return MessagesReader(options, self.table, checks_names=False)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, StorePart):  # for a query without parts, Spark passes a part of its own type
            yield from self.reader_of(partition.options).read(partition.part)


class SeveralPushdownReader(SeveralReader):
    """Also accepts filters from Spark. Spark checks all filters again on the result."""

    def __init__(self, options: ReadOptions, table: TableSchema) -> None:
        super().__init__(options, table)
        self.filters: list[Any] = []

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        self.filters = filters
        return filters

    def wants(self, broker: str) -> bool:
        for condition in self.filters:
            if getattr(condition, "attribute", ()) == (BROKER,):
                if isinstance(condition, EqualTo) and condition.value != broker:
                    return False
                if isinstance(condition, In) and broker not in condition.value:
                    return False
        return True

    def reader_of(self, options: ReadOptions) -> StoreReader:
        reader = PushdownReader(options, self.table, checks_names=False)
        reader.pushFilters(self.filters)
        return reader

"""Write a stream of Spark to a store. Each batch is stored once, however often Spark repeats it.

Spark makes a writer on the driver to plan each batch, and another one to commit it. So the directory of a batch and its
transaction are named by the id of the query and the number of the batch, which every task knows.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from rocketstore.disk.durable import make_directory, make_root
from rocketstore.jobs.intent import WRITE_PREFIX, prepared_path
from rocketstore.jobs.prepared_rows import PreparedRows
from rocketstore.jobs.transactions import Transaction
from rocketstore.spark.build.directories import sweep
from rocketstore.spark.source.sink import NAMES, StoreSink, known_options, plan_sink, read_to_end

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # local properties of Spark's tasks
OF_TRANSACTIONS = {"txnAppId", "txnVersion"}
STREAM_NAMES = {key: name for key, name in NAMES.items() if name not in OF_TRANSACTIONS}
OF_SPARK = {"checkpointlocation"}  # options that Spark also passes to the sink


@dataclass
class StreamWritten(WriterCommitMessage):  # type: ignore[misc]
    """The rows that a task wrote, None if it had no rows; and the id of its query."""

    query: str
    rows: PreparedRows | None


class StreamMessageWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Puts all rows of a batch into a store, or none of them, in the order of partitions and of the rows in each.

    Tasks make the directory of the batch and write files into it. Their names are unique, also among the attempts of
    another driver. The commit removes the directory, and those of older batches of the query. An attempt that ends
    after the commit removes its own file.
    """

    def __init__(self, sink: StoreSink) -> None:
        self.sink = sink

    def write(self, iterator: Any) -> StreamWritten:
        context = TaskContext.get()
        query, batch = (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID)) if context else (None, None)
        if context is None or query is None or batch is None:
            raise RuntimeError(f"Spark did not pass {QUERY_ID} and {BATCH_ID} to a task: this PySpark is not supported")
        batch_of = Transaction.of(query, int(batch))
        if self.sink.has_committed(batch_of):  # Spark repeats the batch
            read_to_end(iterator)
            return StreamWritten(query, None)
        job = job_of(batch_of)
        directory = prepared_path(self.sink.root, job)
        make_directory(directory)
        name = f"{context.partitionId():06}-{uuid.uuid4().hex}"
        try:
            rows = self.sink.prepare_rows(iterator, job, name)
        except BaseException:
            with contextlib.suppress(OSError):
                directory.rmdir()  # unless other tasks have files in it
            raise
        if self.sink.has_committed(batch_of):  # by another attempt, which may have removed the directory before
            sweep([directory])
            return StreamWritten(query, None)
        return StreamWritten(query, rows)

    def commit(self, messages: Sequence[StreamWritten | None], batchId: int) -> None:
        for query in {message.query for message in messages if message is not None}:
            batch = Transaction.of(query, batchId)
            rows = (message.rows for message in messages if message is not None)
            self.sink.append_rows(job_of(batch), rows, batch)
            self.remove_older(batch)

    def abort(self, messages: Sequence[StreamWritten | None], batchId: int) -> None:
        for query in {message.query for message in messages if message is not None}:
            self.sink.remove_rows(job_of(Transaction.of(query, batchId)))

    def remove_older(self, batch: Transaction) -> None:
        """Remove the directories of older batches of the query: of attempts that ended late, or were killed."""
        prefix = f"{WRITE_PREFIX}{batch.app}-"
        for directory in self.sink.root.glob(f"{prefix}*"):
            number = directory.name.removeprefix(prefix)
            if number.isdecimal() and int(number) < batch.version:
                sweep([directory])


def job_of(batch: Transaction) -> str:
    """Return the name of the job that writes a batch of a query."""
    return f"{batch.app}-{batch.version}"


def stream_writer_of(schema: Any, options: Mapping[str, str | None], overwrite: bool) -> StreamMessageWriter:
    """Return the writer of a batch of a stream. The driver calls this function to plan a batch, and to commit it.

    Parameters: schema, options: as for ``writer_of``, without the options of transactions.
    Raises: ValueError for an option, a column or a setting that cannot be written, and for output mode complete;
    StoreLockedError if a broker or another writer has the store open.
    """
    if overwrite:
        raise ValueError("output mode complete: a store can only be appended to: use output mode append or update")
    given = {name: text for name, text in options.items() if name.lower() not in OF_SPARK}
    if named := sorted(name for name in given if NAMES.get(name.lower()) in OF_TRANSACTIONS):
        raise ValueError(f"option {named[0]}: a stream has the id of its query and the number of the batch instead")
    sink = plan_sink(schema, known_options(given, STREAM_NAMES))
    make_root(sink.root)
    return StreamMessageWriter(sink)

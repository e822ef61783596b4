"""Write a stream of Spark to a store. Each batch is stored once, however often Spark repeats it.

For each batch, Spark makes one writer on the driver to plan it, and another one to commit it. So the tasks report to
the second writer which directory has their rows. The id of the query and the number of the batch, which tasks get from
Spark, are the transaction.
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
from rocketstore.spark.build.tasks import attempt_name
from rocketstore.spark.source.sink import NAMES, StoreSink, known_options, plan_sink, read_to_end

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # local properties of Spark's tasks
OF_TRANSACTIONS = {"txnAppId", "txnVersion"}
STREAM_NAMES = {key: name for key, name in NAMES.items() if name not in OF_TRANSACTIONS}
OF_SPARK = {"checkpointlocation"}  # options that Spark also passes to the sink


@dataclass
class StreamWritten(WriterCommitMessage):  # type: ignore[misc]
    """The rows that a task wrote.

    Attributes: query: the id of the streaming query. job: the name of the job, whose directory has the rows. rows: None
    if the task had no rows, or if the store has the batch already.
    """

    query: str
    job: str
    rows: PreparedRows | None


class StreamMessageWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Puts all rows of a batch into a store, or none of them, in the order of partitions and of the rows in each.

    Tasks make the directory of the batch and write files into it. The commit removes this directory, and the
    directories of earlier attempts at this batch and at those before it. A task that ends after the commit removes the
    directory that it made.

    Attributes: plan: a random name for this planning of the batch. A repeated batch gets another directory, since
    recovery may still remove the first one: with it, it undoes an unfinished write.
    """

    def __init__(self, sink: StoreSink) -> None:
        self.sink = sink
        self.plan = uuid.uuid4().hex

    def write(self, iterator: Any) -> StreamWritten:
        batch = batch_of_task()
        job = f"{batch.app}-{batch.version}-{self.plan}"
        if self.sink.has_committed(batch):  # Spark repeats the batch
            read_to_end(iterator)
            return StreamWritten(batch.app, job, None)
        directory = prepared_path(self.sink.root, job)
        make_directory(directory)
        try:
            rows = self.sink.prepare_rows(iterator, job, attempt_name())
        except BaseException:
            with contextlib.suppress(OSError):
                directory.rmdir()  # unless other tasks have files in it
            raise
        if self.sink.has_committed(batch):  # by another attempt, which may have removed the directory before
            sweep([directory])
            return StreamWritten(batch.app, job, None)
        return StreamWritten(batch.app, job, rows)

    def commit(self, messages: Sequence[StreamWritten | None], batchId: int) -> None:
        written = [message for message in messages if message is not None]
        jobs = {(message.query, message.job) for message in written}
        if len(jobs) > 1:
            raise RuntimeError(f"Spark planned batch {batchId} more than once: {jobs}")
        for query, job in jobs:
            batch = Transaction.of(query, batchId)
            self.sink.append_rows(job, (message.rows for message in written), batch)
            self.remove_until(batch)

    def abort(self, messages: Sequence[StreamWritten | None], batchId: int) -> None:
        for job in {message.job for message in messages if message is not None}:
            self.sink.remove_rows(job)

    def remove_until(self, batch: Transaction) -> None:
        """Remove the directories of a query up to a batch: of attempts that ended late, or were killed."""
        prefix = f"{WRITE_PREFIX}{batch.app}-"
        for directory in self.sink.root.glob(f"{prefix}*"):
            number = directory.name.removeprefix(prefix).partition("-")[0]
            if number.isdecimal() and int(number) <= batch.version:
                sweep([directory])


def batch_of_task() -> Transaction:
    """Return the id of the query and the number of the batch of this task."""
    context = TaskContext.get()
    query, batch = (None if context is None else context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
    if query is None or batch is None:
        raise RuntimeError(f"Spark did not pass {QUERY_ID} and {BATCH_ID} to a task: this PySpark is not supported")
    return Transaction.of(query, int(batch))


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

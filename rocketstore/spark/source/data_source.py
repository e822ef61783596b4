"""The data source ``rocketstore``, as Spark calls it, and its registration."""

from __future__ import annotations

import errno
import logging
import shutil
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader

from rocketstore.logger import logger
from rocketstore.spark.source.messages import MessagesReader, PushdownReader
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import TableSchema, default_schema, table_schema
from rocketstore.spark.source.several import SeveralPushdownReader, SeveralReader
from rocketstore.spark.source.sink import MessageWriter, writer_of
from rocketstore.spark.source.stream import RocketStoreStreamReader
from rocketstore.spark.source.stream_sink import StreamMessageWriter, stream_writer_of
from rocketstore.spark.source.tables import TABLE_READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RocketStoreDataSource(DataSource):  # type: ignore[misc]
    """The data source of ``format("rocketstore")``. ``register`` describes its options."""

    @classmethod
    def name(cls) -> str:
        return "rocketstore"

    def schema(self) -> Any:
        return default_schema(ReadOptions.parse(self.options))

    def reader(self, schema: Any) -> DataSourceReader:
        show_warnings()
        options = ReadOptions.parse(self.options, streaming=False)
        return reader_of(options, table_schema(options, schema))

    def writer(self, schema: Any, overwrite: bool) -> MessageWriter:
        return writer_of(schema, self.options, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamMessageWriter:
        return stream_writer_of(schema, self.options, overwrite)

    def streamReader(self, schema: Any) -> RocketStoreStreamReader:
        show_warnings()
        options = ReadOptions.parse(self.options, streaming=True)
        return RocketStoreStreamReader(options, table_schema(options, schema))


def reader_of(options: ReadOptions, table: TableSchema) -> DataSourceReader:
    """Return the reader of a batch query."""
    if options.paths is not None:
        is_narrowed = options.pushdown and options.table == "messages"
        return SeveralPushdownReader(options, table) if is_narrowed else SeveralReader(options, table)
    if options.table != "messages":
        return TABLE_READERS[options.table](options, table)
    return PushdownReader(options, table) if options.pushdown else MessagesReader(options, table)


def show_warnings() -> None:
    """Let Python write the package's warnings to standard error if the process has not configured logging.

    Spark plans a query in a process of its own, which does not configure logging. Its standard error is the driver's.
    """
    for handler in [handler for handler in logger.handlers if isinstance(handler, logging.NullHandler)]:
        logger.removeHandler(handler)


def register(spark: SparkSession) -> None:
    """Register the format ``rocketstore`` in a session, for ``spark.read``, ``spark.readStream`` and SQL.

    These are the options of reading. Their names may have any case. A size is a number of bytes, or has a unit: 512k,
    16m, 1g.

    | option | form | default | example |
    | --- | --- | --- | --- |
    | path | absolute, or a URI; for several stores a pattern, or paths separated by commas | required | /data/store |
    | paths | JSON: the paths of several stores, in place of path | null | ["/data/a", "/data/b"] |
    | table | messages, consumequeue, index or offsets | messages | offsets |
    | subscribe | topics separated by commas | all | Orders,Payments |
    | subscribePattern | regular expression that matches complete topics | all | Order.* |
    | assign | JSON: topic to queue ids | all | {"Orders": [0, 1]} |
    | queueIds | queue ids separated by commas | all | 0,1 |
    | tags | tags separated by ||, or * | all | paid||sent |
    | keys | words of KEYS, or UNIQ_KEY, separated by spaces | all | order-7 order-8 |
    | startingOffsets | earliest, latest (streams only), or JSON: topic to id to offset | see below | {"T": {"0": 7}} |
    | endingOffsets | latest, or JSON as in startingOffsets | latest | {"Orders": {"0": 42}} |
    | startingOffsetsByTimestamp | JSON: topic to id to store time | null | {"T": {"0": 1763712000000}} |
    | startingTimestamp | store time, epoch ms or ISO 8601, inclusive | all | 2026-11-21T08:00:00 |
    | endingTimestamp | store time, epoch ms or ISO 8601, exclusive | all | 1763798400000 |
    | exactTimes | true or false: read every file of the log | false | true |
    | startingPhyOffset | physical offset of a record, bytes, inclusive | all | 0 |
    | endingPhyOffset | physical offset of a record, bytes, exclusive | all | 1073741824 |
    | failOnDataLoss | true or false | true | false |
    | columns | columns of the table, separated by commas | see below | topic,tags,body |
    | includeHeaders | true or false: also read the properties | false | true |
    | schemaStyle | rocketmq or kafka: the names of columns | rocketmq | kafka |
    | mode | FAILFAST, DROPMALFORMED or PERMISSIVE | FAILFAST | PERMISSIVE |
    | containers | true: the record of an inner batch is one row; false: each message in it is a row | false | true |
    | verifyCrc | true: a record whose body does not match its CRC is damage; false: do not check | see below | true |
    | leftovers | true or false: also read records that a broker cut off | false | true |
    | tiered | true or false: also read messages that are only in tiered storage | false | true |
    | tier | the directory of tiered storage, absolute, or a URI; includes tiered | all | s3://bucket/tiered |
    | compacted | true or false: of compacted topics, read the messages that consumers get | false | true |
    | minPartitions | the least number of tasks | 1 | 16 |
    | maxPartitionBytes | size of the log that a task reads | 1g | 128m |
    | batchSize | the largest number of rows in a batch | 16384 | 4096 |
    | maxBatchBytes | the largest size of a batch of more than one row | 16m | 4m |
    | brokerName | the value of column brokerName | null | broker-a |
    | pushdown | true or false: accept filters from Spark | false | true |
    | plan | auto, or scan (batch queries only): always read the complete log | auto | scan |
    | maxBytesPerTrigger | size of the log in a batch of a stream | all | 1g |
    | maxOffsetsPerTrigger | messages in a batch of a stream | all | 100000 |
    | maxFilesPerTrigger | files of the log in a batch of a stream | all | 1 |
    | minOffsetsPerTrigger | messages for which a batch of a stream waits | null | 1000 |
    | maxTriggerDelay | the longest that a batch waits for them | 15m | 30s |
    | maxHashSlotNum | of the index, with maxIndexNum | from the files | 5000000 |
    | maxIndexNum | of the index, with maxHashSlotNum | from the files | 20000000 |

    Give only one of subscribe, subscribePattern and assign. Do not give assign with queueIds, or columns with
    includeHeaders. Only batch queries have ending options. Only streams have max...PerTrigger, minOffsetsPerTrigger and
    maxTriggerDelay, from PySpark 4.2 on; with PySpark 4.1 they raise an error.

    Without a starting option, a batch query begins at earliest and a stream at latest. In the offsets of queues, -2
    means earliest and -1 latest. A queue that startingOffsets leaves out begins at earliest. A queue that endingOffsets
    leaves out ends at latest. A timestamp takes precedence over the offsets of the same side, and
    startingOffsetsByTimestamp over startingOffsets. It begins each queue at its first message of a store time or later,
    as a broker finds it by a binary search. A time without a zone is UTC. With a timestamp, the
    query skips files of the log whose first messages, and those of their neighbours, are more than a day outside the
    times. It then logs a warning with the assumption: within a file, no clock was wrong by a day or more. With
    exactTimes=true, the query reads every file. A filter by the column is always exact.

    A query fails if data that it should read was deleted or cut off the log. A stream also fails if its starting offset
    does not exist yet. A batch query returns no rows in this case. With failOnDataLoss=false, the query logs a warning
    and continues with the remaining data.

    Without columns or a schema, the table messages has all columns except properties, rawBody, tagsCode,
    bornTimestampMs, storeTimestampMs and _corrupt_record, which mode PERMISSIVE adds. The table offsets has all columns
    except group and consumerOffset. The tables consumequeue and offsets accept only path, table, columns, batchSize,
    subscribe, subscribePattern, assign, queueIds, leftovers, tiered and tier, offsets also compacted. The table index
    accepts only path, table, columns, batchSize, maxHashSlotNum and maxIndexNum.

    With tiered=true or tier, messages that are only in tiered storage are read too, each message once. Their physical
    offset is null. With compacted=true, the messages of a compacted topic are those that its consumers get. Batch
    queries accept these options, without startingPhyOffset and endingPhyOffset.

    Log and queues end where the files prove that a broker cut them. With leftovers=true, the query also reads the old
    records and units behind these ends, which the broker did not erase.

    With several stores, a pattern or several paths, each table begins with the column broker. It has the brokerName, as
    far as the files of a store have it, else the name of the directory. In the style of Kafka it must be named in
    columns or the schema. A path that a pattern matches and that is no store is left out, with a warning. A store that
    cannot be read fails the query, unless failOnDataLoss=false. A stream reads one store. The options brokerName, tier,
    and offsets of the log or of queues are of one store.

    These are the options of writing.

    * path: absolute.
    * storeTimestamp: now (the default), given (the time of the column), or epoch milliseconds.
    * txnAppId and txnVersion, both or none: the name of an application, and the number of a batch, 0 or more. A write
      is skipped if the application has committed the same or a greater version to the store. In ``foreachBatch``, use
      a fixed name and the id of the batch. Then a batch that Spark repeats is stored only once.
    * properties of a broker, such as maxMessageSize, for settings that differ from those of the store's last writer.

    A stream writes with ``writeStream.format("rocketstore")``, in the output modes append and update. Its options are
    path, storeTimestamp, checkpointLocation and properties of a broker. Each batch is stored once, also if Spark
    repeats it after a crash: the id of the query and the number of the batch are its transaction. A query with another
    checkpoint has another id.

    Call this function in each Python thread that writes through a classic session, also in a
    pyspark.InheritableThread. Spark looks for the format in the session that is active in the thread. A thread without
    an active session fails with DATA_SOURCE_NOT_FOUND. This function makes the session active in the calling thread.

    With spark.archives in client mode, the driver also needs a Python at the path of the workers' Python, such as
    ./environment/bin/python. Unpack the archive in the driver's working directory, or make a link there.

    Raises: FileNotFoundError if the driver has no Python at the path of PYSPARK_PYTHON, or spark.pyspark.python.
    """
    context = getattr(spark, "_sc", None)  # None: Spark Connect, where the server looks for the format
    if context is not None:
        require_python(context.pythonExec)
        sessions = getattr(context._jvm, "org.apache.spark.sql.classic.SparkSession")
        sessions.setActiveSession(spark._jsparkSession)
    spark.dataSource.register(RocketStoreDataSource)


def require_python(path: str) -> None:
    """Raise FileNotFoundError if the driver cannot start the workers' Python, with which Spark plans queries."""
    if shutil.which(path) is None:
        reason = (
            "the driver has no Python here, and Spark plans queries of the format rocketstore with the Python of its "
            "workers (PYSPARK_PYTHON, spark.pyspark.python): unpack the archive of spark.archives in the driver's "
            "working directory, or make a link there, such as `ln -s $VIRTUAL_ENV environment`"
        )
        raise FileNotFoundError(errno.ENOENT, reason, path)

"""The data source ``rocketstore``: tables of a store in Spark."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader

from rocketstore.spark.source.messages import MessagesReader, PushdownReader
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema
from rocketstore.spark.source.sink import MessageWriter, writer_of
from rocketstore.spark.source.stream import RocketStoreStreamReader
from rocketstore.spark.source.tables import TABLE_READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RocketStoreDataSource", "register"]


class RocketStoreDataSource(DataSource):  # type: ignore[misc]
    """What ``format("rocketstore")`` makes. Options: see ``register``."""

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
    """Make the format ``rocketstore`` known to a session, for ``spark.read``, ``spark.readStream`` and SQL.

    Options of reading, whose names may have any case. Sizes are bytes, or have a unit: 512k, 16m, 1g.

    | option | form | default | example |
    | --- | --- | --- | --- |
    | path | absolute, or a URI | none: is needed | /data/store |
    | table | messages, consumequeue, index or offsets | messages | offsets |
    | subscribe | topics with commas between | all | Orders,Payments |
    | subscribePattern | regular expression of whole topics | all | Order.* |
    | assign | JSON: topic to queue ids | all | {"Orders": [0, 1]} |
    | queueIds | queue ids with commas between | all | 0,1 |
    | tags | tags with || between, or * | all | paid||sent |
    | keys | words of KEYS, or UNIQ_KEY, with spaces between | all | order-7 order-8 |
    | startingOffsets | earliest, of streams latest, or JSON: topic to id to offset | see below | {"Orders": {"0": 7}} |
    | endingOffsets | latest, or JSON as in startingOffsets | latest | {"Orders": {"0": 42}} |
    | startingTimestamp | store time, epoch ms, inclusive | all | 1763712000000 |
    | endingTimestamp | store time, epoch ms, exclusive | all | 1763798400000 |
    | startingPhyOffset | records that begin there or later | all | 0 |
    | endingPhyOffset | records that begin before | all | 1073741824 |
    | failOnDataLoss | true or false | true | false |
    | columns | the table's, with commas between | see below | topic,tags,body |
    | includeHeaders | true or false: properties, too | false | true |
    | schemaStyle | rocketmq or kafka: names of columns | rocketmq | kafka |
    | mode | FAILFAST, DROPMALFORMED or PERMISSIVE | FAILFAST | PERMISSIVE |
    | verifyCrc | true or false | false | true |
    | leftovers | true or false: also read what a broker cut off | false | true |
    | minPartitions | at least 1 | 1 | 16 |
    | maxPartitionBytes | size of log that a task reads | 1g | 128m |
    | batchSize | rows in a batch at most | 16384 | 4096 |
    | maxBatchBytes | size of a batch at most, unless of one row | 16m | 4m |
    | brokerName | what column brokerName is to have | null | broker-a |
    | pushdown | true or false: filters are taken from Spark | false | true |
    | maxBytesPerTrigger | size of log that a stream reads at once | all | 1g |
    | maxOffsetsPerTrigger | messages that a stream reads at once | all | 100000 |
    | maxFilesPerTrigger | files of the log that a stream reads at once | all | 1 |
    | maxHashSlotNum | of the index, both or none | as files show | 5000000 |
    | maxIndexNum | of the index, both or none | as files show | 20000000 |

    One of subscribe, subscribePattern and assign may be given; not assign with queueIds, nor columns with
    includeHeaders. A batch query begins at earliest, a stream at latest, unless told where. Among offsets of queues -2
    is earliest and -1 latest; queues that startingOffsets leaves out begin at earliest, those that endingOffsets leaves
    out end at latest. A timestamp precedes the offsets of its side. With one, files of the log are passed over by the
    times of their first messages: where store times are not in order, filter by the column instead. A start that was
    deleted is an error, and for a stream one that is not there yet, behind which a batch query finds no rows, and a log
    that was cut, or cut and written again, before where the stream is; failOnDataLoss=false goes on with what is there,
    and logs a warning. Endings are of batch queries alone, max...PerTrigger of streams alone, from PySpark 4.2 on.

    Without columns or a schema a table has all but properties, rawBody, tagsCode, bornTimestampMs, storeTimestampMs and
    _corrupt_record, which mode PERMISSIVE adds; offsets all but group and consumerOffset. Tables consumequeue and
    offsets take path, table, columns, batchSize, subscribe, subscribePattern, assign, queueIds and leftovers; index
    takes path, table, columns, batchSize and its own two.

    Log and queues end where a broker ends them. leftovers=true also reads the old records and units behind these ends,
    which a broker cut off and did not erase.

    Options of writing: path, absolute; storeTimestamp: now, the default, given, for the column's, or epoch ms; and a
    broker's own, such as maxMessageSize, for settings that differ from those of the store's last writer; txnAppId and
    txnVersion, both or none: an application's name and the number of a batch, 0 or more. A write is skipped if this
    application has committed the same or a greater version to the store. In ``foreachBatch``, use a fixed name and the
    batch id: then a batch that Spark repeats is stored once.

    Call this function in each Python thread that writes through a classic session, also in a
    pyspark.InheritableThread. Spark looks for the format in the session that is active in the thread. A thread without
    an active session fails with DATA_SOURCE_NOT_FOUND. This function makes the session active in the calling thread.

    With spark.archives in client mode, the driver also needs a Python at the path of the workers' Python, such as
    ./environment/bin/python: unpack the archive in the driver's working directory, or make a link there.

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

"""The data source without Spark: its readers called as Spark calls them, each batch checked as Spark would."""

import os
import pickle

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema
from reference.record import build_record

import rocketstore
from rocketstore.spark.source.data_source import RocketStoreDataSource

try:
    from pyspark.sql.streaming import datasource as limits  # of what a stream reads at once
except ImportError:
    limits = None  # pyspark 4.1
BEGIN = 1_700_000_000_000


def environment_of_classic(**more):
    """The environment for a process with a session of its own, which pyspark 4.1 makes none of beside Connect's."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_CONNECT_MODE_ENABLED"} | more


def spark_schema(schema):
    """The Arrow schema that Spark wants for a StructType."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # pyspark 4.1, where it is UTC
        return to_arrow_schema(schema)


def data_source(root, **options):
    return RocketStoreDataSource(CaseInsensitiveDict({"path": str(root), **options}))


def reader_of(root, schema=None, **options):
    """A reader, and the schema of its batches."""
    source = pickle.loads(pickle.dumps(data_source(root, **options)))
    schema = schema or source.schema()
    return source.reader(schema), spark_schema(schema)


def partitions_of(root, **options):
    return [part.ranges for part in reader_of(root, **options)[0].partitions()]


def batches_of(reader, schema, partitions):
    """Read partitions as tasks do, from a reader and partitions that were pickled."""
    batches = []
    for partition in partitions:
        task, partition = pickle.loads(pickle.dumps((reader, partition)))
        for batch in task.read(partition):
            assert batch.schema.equals(schema), batch.schema
            assert batch.num_rows
            batch.validate(full=True)
            batches.append(batch)
    return batches


def read_batches(root, schema=None, **options):
    reader, arrow_schema = reader_of(root, schema, **options)
    return batches_of(reader, arrow_schema, reader.partitions()), arrow_schema


def read_table(root, schema=None, **options):
    """Read all partitions of a table, one after the other."""
    return pa.Table.from_batches(*read_batches(root, schema, **options))


def as_spark(table):
    """Give what ``to_arrow`` gave the types that Spark wants."""
    types = {pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC")}
    types[pa.list_(pa.string())] = pa.list_(pa.field("element", pa.string()))
    return table.cast(
        pa.schema([(field.name, types.get(field.type, field.type)) for field in table.schema]), safe=False
    )


def make_colliding_store(path):
    """A store in which the keys Aa and BB, and AaAa and BBBB, have one hash each."""
    with rocketstore.open(path, "a", config=rocketstore.StoreConfig.small()) as store:
        for i in range(60):
            keys = [["Aa"], ["BB", "x"], ["AaAa"], []][i % 4]
            message = rocketstore.Message(f"T{i % 3}", b"%d" % i * 100, keys=keys, tags="t", properties={"i": f"{i}"})
            store.put_message(message, store_timestamp=BEGIN + 100 * i)
    return path


def records_with_one_in_a_body():
    """Records of a log, the sixth with a body that has a record which says rightly where it is; and where that is."""
    small = {"topic": "T", "body": bytes(100)}
    place = 5 * len(build_record(**small)) + 500
    body = bytes(412) + build_record(topic="Fake", body=b"fake", phy_offset=place) + bytes(1500)
    return [small] * 5 + [{"topic": "T", "body": body}] + [small] * 5, place

"""Spark's tables of a store whose log and queues end before old records and units that a broker cut off."""

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from log.test_logical_ends import running, with_units_beyond
from support.cut_store import cut_off, store_of
from support.spark_reads import read_table

from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema
from rocketstore.spark.source.stream import RocketStoreStreamReader


def stream_of(root, **options):
    given = ReadOptions.parse({"path": str(root), **options}, streaming=True)
    return RocketStoreStreamReader(given, table_schema(given, default_schema(given)))


def test_rows_of_messages_end_where_the_log_does(tmp_path):
    store_of(tmp_path, 30)
    cut_off(tmp_path, 10)
    assert read_table(tmp_path, columns="body").num_rows == 12
    assert read_table(tmp_path, columns="body", minPartitions="5").num_rows == 12
    assert read_table(tmp_path, columns="body", leftovers="true", mode="DROPMALFORMED").num_rows == 30


def test_rows_of_messages_end_where_a_running_broker_ended_the_log(tmp_path):
    store_of(tmp_path, 30)
    cut_off(tmp_path, 10)
    with running(tmp_path):
        assert read_table(tmp_path, columns="body").num_rows == 12


def test_rows_of_queues_and_offsets_end_where_queues_do(tmp_path):
    end = with_units_beyond(tmp_path)
    assert read_table(tmp_path, table="consumequeue").column("queueOffset").to_pylist() == list(range(9))
    (row,) = read_table(tmp_path, table="offsets").to_pylist()
    assert (row["maxOffset"], row["maxPhyOffset"]) == (9, end)
    (row,) = read_table(tmp_path, table="offsets", leftovers="true").to_pylist()
    assert row["maxOffset"] == 12
    assert read_table(tmp_path, table="consumequeue", leftovers="true").num_rows == 12


def test_a_stream_ends_where_the_log_does(tmp_path):
    store_of(tmp_path, 30)
    end = cut_off(tmp_path, 10)
    reader = stream_of(tmp_path, startingOffsets="earliest")
    first = reader.initialOffset()
    assert reader.latestOffset(first)["phyOffset"] == end
    parts = reader.partitions(first, reader.latestOffset(first))
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == 12
    reader.stop()

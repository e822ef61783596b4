"""The tables of consume queues, the index and offsets in Spark, against the dumps of golden stores."""

import json
import shutil

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pyarrow as pa
from pyspark.sql import datasource
from support import stores
from support.spark_reads import read_batches, read_table, reader_of

import rocketstore
from rocketstore import IndexFile, StoreError
from rocketstore.spark import register
from rocketstore.spark.source import tables

NAMES = ["rich-5.5.0", "broker-5.5.0", "cut-5.3.3", "batch-5.5.0", "crash-5.3.3", "lmq-5.5.0", "cqext-5.3.3"]


@pytest.fixture(scope="module", params=NAMES)
def golden(request, tmp_path_factory):
    return request.param, stores.unpack(request.param, tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    return stores.unpack("rich-5.5.0", tmp_path_factory.mktemp("rich"))


def units_of(name):
    """The units of the dump as rows, but fillers and what leads to nothing any more."""
    kinds = stores.dump(name)
    least = min(row["at"] for row in kinds["message"])
    rows = [*kinds.get("cq", []), *kinds.get("bcq", [])]
    found = [
        (
            row["topic"],
            row["queueId"],
            row["index"],
            row["offset"],
            row["size"],
            row.get("storedTagsCode", row["tagsCode"]),
        )
        for row in rows
        if row["offset"] >= least and row["size"] != 2**31 - 1
    ]
    return sorted(found)


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


# ---- consume queues ----------------------------------------------------------------------------------------


def test_the_units_of_queues_are_those_of_the_dump(golden):
    name, root = golden
    table = read_table(root, table="consumequeue")
    assert table.column_names == ["topic", "queueId", "queueOffset", "phyOffset", "size", "tagsCode"]
    assert sorted(rows_of(table)) == units_of(name)
    assert len(table) > 100


@pytest.mark.parametrize("option", ["batchSize", "UNITS", "QUEUES"])
def test_queues_are_read_in_parts_without_loss(golden, option, monkeypatch):
    name, root = golden
    options = {"batchSize": "3"} if option == "batchSize" else {}
    if not options:
        monkeypatch.setattr(tables, option, 7)
        assert len(reader_of(root, table="consumequeue")[0].partitions()) > 1
    batches, schema = read_batches(root, table="consumequeue", **options)
    assert sorted(rows_of(pa.Table.from_batches(batches, schema))) == units_of(name)
    assert not options or max(batch.num_rows for batch in batches) == 3


def test_queues_are_selected_and_columns_too(rich):
    rows = [row for row in units_of("rich-5.5.0") if row[0] == "TopicTest" and row[1] in (0, 2)]
    found = read_table(rich, table="consumequeue", assign='{"TopicTest":[0,2]}', columns="phyOffset,queueid")
    assert sorted(rows_of(found)) == sorted((row[3], row[1]) for row in rows)
    for options in ({"subscribePattern": "TopicT.*", "queueIds": "0,2"}, {"subscribe": "TopicTest", "queueIds": "0,2"}):
        assert sorted(rows_of(read_table(rich, table="consumequeue", **options))) == rows


def test_a_damaged_base_of_a_batch_does_not_make_more_parts_than_there_are_files(tmp_path):
    root = stores.unpack("batch-5.5.0", tmp_path)
    before = read_table(root, table="consumequeue")
    path = max((root / "batchconsumequeue").glob("*/*/*"))
    data = bytearray(path.read_bytes())
    last = max(at for at in range(0, len(data) - 45, 46) if int.from_bytes(data[at + 8 : at + 12], "big") > 0)
    data[last + 28] |= 0x40  # of the offset of its first message
    path.write_bytes(data)
    reader, _ = reader_of(root, table="consumequeue")
    assert len(reader.partitions()) < 50
    after = read_table(root, table="consumequeue")
    assert after["phyOffset"].to_pylist() == before["phyOffset"].to_pylist()


@pytest.mark.parametrize("name", ["rich-5.5.0", "batch-5.5.0"])
def test_a_queue_that_ends_before_its_planned_range_is_an_error(tmp_path, name):
    root = stores.unpack(name, tmp_path)
    kind = "batchconsumequeue" if name.startswith("batch") else "consumequeue"
    directory = next(path for path in sorted((root / kind).glob("*/*")) if any(path.iterdir()))
    reader, _ = reader_of(root, table="consumequeue", subscribe=directory.parent.name, queueIds=directory.name)
    parts = reader.partitions()
    for path in directory.iterdir():
        path.unlink()
    with pytest.raises(StoreError, match=r"the queue ends at -?\d+, before its planned end in \d{20}"):
        [list(reader.read(part)) for part in parts]


# ---- the index ---------------------------------------------------------------------------------------------


def test_the_items_of_the_index_are_those_of_the_dump(golden):
    name, root = golden
    headers = {row["file"]: row for row in stores.dump(name)["index"]}
    expected = [
        (row["file"], row["index"], row["keyHash"], row["offset"], row["timeDiff"], row["previous"],
         headers[row["file"]]["beginTimestamp"] + 1000 * row["timeDiff"])
        for row in stores.dump(name)["item"]
    ]  # fmt: skip
    for options in ({}, {"batchSize": "7"}):
        table = read_table(root, table="index", **options)
        times = table["storeTimeApprox"].cast(pa.int64()).to_numpy() // 1000
        rows = [(*row[:-1], int(time)) for row, time in zip(rows_of(table), times, strict=True)]
        assert rows == expected
    assert len(reader_of(root, table="index")[0].partitions()) == sum(
        1 for row in headers.values() if row["indexCount"] > 1
    )


def test_a_store_without_an_index_has_no_items(rich, tmp_path):
    (tmp_path / "commitlog").symlink_to(rich / "commitlog")
    reader, schema = reader_of(tmp_path, table="index")
    assert reader.partitions() == []
    assert list(reader.read(datasource.InputPartition(None))) == []
    assert schema.names == ["file", "ordinal", "keyHash", "phyOffset", "timeDiff", "prevIndex", "storeTimeApprox"]


def test_a_geometry_that_does_not_follow_from_the_files_is_given(tmp_path):
    (tmp_path / "index").mkdir()
    with IndexFile.create(tmp_path / "index" / "20240101000000000", hash_slot_num=7, index_num=20) as file:
        file.put_key("\0", 0, 1_700_000_000_000)  # a hash of 0, so that the item is all zeros
    with pytest.raises(ValueError, match="do not follow from the files") as error:
        read_table(tmp_path, table="index")
    assert str(error.value).endswith(': add .option("maxHashSlotNum", N) and .option("maxIndexNum", N)')
    (row,) = rows_of(read_table(tmp_path, table="index", maxHashSlotNum="7", maxIndexNum="20", columns="phyOffset"))
    assert row == (0,)


# ---- offsets -----------------------------------------------------------------------------------------------


def test_offsets_are_what_rocketmq_says_of_its_queues(golden):
    name, root = golden
    units = {}
    for row in units_of(name):
        units.setdefault(row[:2], []).append(row)
    table = read_table(root, table="offsets")
    assert table.column_names == ["topic", "queueId", "minOffset", "maxOffset", "minPhyOffset", "maxPhyOffset"]
    found = {row[:2]: row[2:] for row in rows_of(table)}
    if not name.startswith("crash"):  # RocketMQ reports it after a recovery
        expected = {(row["topic"], row["queueId"]): (row["min"], row["max"]) for row in stores.reads(name)["queue"]}
        assert {queue: span[:2] for queue, span in found.items() if queue in expected} == expected
    for queue, rows in units.items():
        assert found[queue][2:] == (rows[0][3], rows[-1][3] + rows[-1][4])
    assert {queue: span[2:] for queue, span in found.items() if queue not in units} == dict.fromkeys(
        found.keys() - units.keys(), (None, None)
    )


def test_consumers_are_rows_of_their_queues(rich, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(rich, root)
    (root / "config").mkdir(exist_ok=True)
    consumers = {"TopicTest@g1": {0: 3, 1: 2}, "TopicTest@g2": {0: 1}, "absent@g2": {4: 0}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": consumers}))
    columns = {"columns": "topic,queueId,maxOffset,group,consumerOffset"}
    rows = rows_of(read_table(root, table="offsets", **columns))
    with rocketstore.open(root) as store:
        ends = {queue: store.consume_queue(*queue).max_queue_offset for queue in store.queues()}
        lags = {(lag.topic, lag.queue_id, lag.group): lag.consumer_offset for lag in store.consumer_lag()}
    assert {(topic, i, group): offset for topic, i, _, group, offset in rows if group} == lags
    assert lags["TopicTest", 0, "g1"] == 3
    assert {row[:3] for row in rows} == {(*queue, end) for queue, end in ends.items()} | {("absent", 4, None)}
    assert len(rows) == len(ends) + 2
    assert rows_of(read_table(root, table="offsets", subscribe="absent", **columns)) == [("absent", 4, None, "g2", 0)]


@pytest.mark.spark
def test_spark_joins_the_tables_of_a_store(spark, rich):
    register(spark)
    for table in ("consumequeue", "index", "offsets", "messages"):
        frame = spark.read.format("rocketstore").option("table", table).load(str(rich))
        frame.createOrReplaceTempView(f"rich_{table}")
    (row,) = spark.sql("""
        SELECT count(*) AS units, count(m.topic) AS messages,
            (SELECT sum(maxOffset - minOffset) FROM rich_offsets) AS total
        FROM rich_consumequeue q
            LEFT JOIN rich_messages m ON q.phyOffset = m.phyOffset AND q.queueOffset = m.queueOffset
    """).collect()
    assert row.units == row.messages == row.total == len(units_of("rich-5.5.0"))
    assert spark.table("rich_index").count() == len(stores.dump("rich-5.5.0")["item"])

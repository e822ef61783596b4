"""The table of messages in Spark: golden stores and ones made here, by every option, against a scan of the log."""

import json
import os
import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import datasource
from pyspark.sql import types as T
from reference.commit_log import make_commit_log, write_file
from reference.record import build_record
from support import stores
from support.spark_reads import (
    as_spark,
    batches_of,
    partitions_of,
    read_batches,
    read_table,
    reader_of,
    records_with_one_in_a_body,
)

import rocketstore
from rocketstore import CorruptFileError, StoreConfig, StoreError
from rocketstore.log import end_finder, record_reader
from rocketstore.spark import register
from rocketstore.spark.source import messages
from rocketstore.spark.source import options as source_options
from rocketstore.spark.source import plan as source_plan
from rocketstore.spark.source.messages import PushdownReader

BEGIN = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
FILE = 4096
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE, mapped_file_size_consume_queue=2000, max_hash_slot_num=97, max_index_num=300
)
DEFAULT = ["topic", "brokerName", "queueId", "queueOffset", "phyOffset", "size", "flag", "sysFlag", "bornTimestamp",
           "bornHost", "storeTimestamp", "storeHost", "reconsumeTimes", "preparedTransactionOffset", "bodyCrc", "msgId",
           "tags", "keys", "uniqKey", "body"]  # fmt: skip
TOPICS = ["TopicTest", "主题", "T#1"]
ON_REQUEST = [
    "body_text",
    "body_json",
    "bodyError",
    "rawBody",
    "tagsCode",
    "bornTimestampMs",
    "storeTimestampMs",
    "damaged",
    "properties",
]


@pytest.fixture(autouse=True)
def partitions_of_a_few_bytes(monkeypatch):
    """Small logs are split everywhere. Of users, sizes that are not for a log are refused."""
    monkeypatch.setattr(source_options, "LEAST_PARTITION", 1)
    monkeypatch.setattr(source_plan, "MAX_TASKS", 1 << 20)


@pytest.fixture(
    scope="module", params=["rich-5.5.0", "broker-5.5.0", "cut-5.3.3", "batch-5.5.0", "crash-5.3.3", "lmq-5.5.0"]
)
def golden(request, tmp_path_factory):
    return stores.unpack(request.param, tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    return stores.unpack("rich-5.5.0", tmp_path_factory.mktemp("rich"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of 400 messages in several files of 4 KiB, with queues and index."""
    root = tmp_path_factory.mktemp("store")
    draw = random.Random(7)
    with rocketstore.open(root, "a", config=CONFIG) as written:
        for i in range(400):
            message = rocketstore.Message(
                draw.choice(TOPICS), b"body %d" % i, keys=[f"k{i % 50}"], tags=draw.choice(["a", "b", None, "a b"]),
                queue_id=draw.randrange(3),
            )  # fmt: skip
            written.put_message(message, store_timestamp=BEGIN + 1000 * i)
    return root


def scanned(root, *args, columns=None, **options):
    with rocketstore.open(root) as store:
        return as_spark(store.scan(*args, columns=columns, **options).to_arrow())


def make_log(root, records, **options):
    (root / "commitlog").mkdir(parents=True)
    return make_commit_log(root / "commitlog", FILE, records, **options)


def some(n, **fields):
    return [{"body": b"body %d" % i, "properties": {"KEYS": f"k{i}"}, **fields} for i in range(n)]


def damage(root, offset, data=b"\xde\xad", at=4):
    with (root / "commitlog" / f"{offset // FILE * FILE:020d}").open("r+b") as file:
        file.seek(offset % FILE + at)
        file.write(data)


def phy_offsets(root, **options):
    return read_table(root, columns="phyOffset", **options)["phyOffset"].to_pylist()


# ---- tables and columns ------------------------------------------------------------------------------------


def test_messages_are_those_of_a_scan(golden):
    table = read_table(golden)
    assert table.column_names == DEFAULT
    assert table["brokerName"].null_count == len(table) > 100
    assert table.drop_columns("brokerName").equals(scanned(golden).drop_columns("properties"))


def test_every_column_can_be_asked_for_in_any_order(golden):
    names = [name for name in DEFAULT + ON_REQUEST if name != "brokerName"][::-1]
    fields = {field.name: name for name, field in rocketstore.kernels.message_columns.MESSAGE_FIELDS.items()}
    expected = scanned(golden, columns=[fields[name] for name in names])
    assert read_table(golden, columns=",".join(names)).equals(expected)
    for name in names:
        assert read_table(golden, columns=name).equals(expected.select([name]))


def test_a_schema_of_the_user_s_reads_these_columns_under_its_names(rich):
    schema = T.StructType(
        [T.StructField("STORETIMESTAMP", T.TimestampType()), T.StructField("queueid", T.IntegerType())]
    )
    expected = scanned(rich, columns=["store_timestamp", "queue_id"]).rename_columns(["STORETIMESTAMP", "queueid"])
    assert read_table(rich, schema).equals(expected)
    reader = reader_of(rich, schema)[0]
    assert [column.source for column in reader.table.columns.values()] == ["store_timestamp", "queue_id"]


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("offset", T.LongType(), "column offset is unknown: the table has topic, brokerName"),
        ("queueId", T.LongType(), "column queueId: the type must be int, but the schema has bigint"),
        ("topic", T.StringType(), "column topic: the schema has it twice"),
    ],
)
def test_a_schema_of_other_columns_or_types_is_refused(rich, name, kind, reason):
    schema = T.StructType([T.StructField("Topic", T.StringType()), T.StructField(name, kind)])
    with pytest.raises(ValueError, match=reason):
        reader_of(rich, schema)
    with pytest.raises(ValueError, match="the schema has other columns"):
        reader_of(rich, T.StructType([T.StructField("topic", T.StringType())]), columns="queueId")
    with pytest.raises(ValueError, match="column nope"):
        reader_of(rich, columns="topic,nope")


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (T.StructField("tags", T.StringType(), False), "column tags: values may be missing: make the column nullable"),
        (T.StructField("queueId", T.IntegerType(), False), "column queueId: values may be missing: make"),
        (T.StructField("keys", T.ArrayType(T.StringType(), False)), "column keys: its elements must be nullable"),
        (T.StructField("properties", T.MapType(T.StringType(), T.StringType(), False)),
         "column properties: its elements must be nullable"),
    ],
)  # fmt: skip
def test_a_schema_with_what_cannot_be_null_is_refused(rich, field, reason):
    with pytest.raises(ValueError, match=reason):
        reader_of(rich, T.StructType([field]))


def test_the_broker_s_name_is_a_constant_column(rich):
    table = read_table(rich, brokerName="broker-a", columns="brokerName")
    assert table["brokerName"].to_pylist() == ["broker-a"] * 288


@pytest.mark.parametrize("option", ["includeHeaders", "includeProperties"])
def test_properties_come_with_an_option(rich, option):
    table = read_table(rich, **{option: "true"})
    assert table.column_names == [*DEFAULT[:-1], "properties", "body"]
    assert table["properties"].equals(scanned(rich)["properties"])


def test_messages_in_the_style_of_kafka(rich):
    table = read_table(rich, schemaStyle="kafka", includeHeaders="true")
    with rocketstore.open(rich) as opened:
        messages = [message for batch in opened.scan() for message in batch]
    expected = [
        {
            "key": " ".join(message.keys).encode() or None,
            "value": message.body,
            "topic": message.topic,
            "partition": message.queue_id,
            "offset": message.queue_offset,
            "timestamp": datetime.fromtimestamp(message.store_timestamp / 1000, UTC),
            "timestampType": 1,
            "headers": [{"key": name, "value": text.encode()} for name, text in message.properties.items()],
        }
        for message in messages
    ]
    assert table.to_pylist() == expected
    assert any(row["key"] is None for row in expected)
    assert read_table(rich, schemaStyle="kafka").equals(table.drop_columns("headers"))


def test_a_time_that_spark_cannot_tell_is_null_and_its_milliseconds_are_not(tmp_path):
    times = [BEGIN, -(2**63), 2**63 - 1, -62_135_596_800_001, 253_402_300_799_999, -1]
    make_log(tmp_path, [{"store_timestamp": time, "born_timestamp": time} for time in times])
    table = read_table(tmp_path, columns="storeTimestamp,storeTimestampMs,bornTimestamp,bornTimestampMs")
    expected = [1000 * times[0], None, None, None, 1000 * times[4], -1000]
    for name in ("storeTimestamp", "bornTimestamp"):
        assert table[name].cast(pa.int64()).to_pylist() == expected
        assert table[f"{name}Ms"].to_pylist() == times


# ---- batches -----------------------------------------------------------------------------------------------


def test_batches_have_at_most_the_rows_asked_for(rich):
    batches, schema = read_batches(rich, batchSize="7")
    assert max(batch.num_rows for batch in batches) == 7
    assert pa.Table.from_batches(batches, schema).equals(read_table(rich))


@pytest.mark.parametrize("options", [{}, {"columns": "body"}, {"columns": "properties"}, {"schemaStyle": "kafka"}])
def test_batches_have_at_most_the_bytes_asked_for_but_for_a_single_message(tmp_path, seed, options):
    draw = random.Random(seed)
    sizes = [draw.choice([0, 1, 50, 99, 100, 101, 1500]) for _ in range(200)]
    make_log(tmp_path, [
        {"body": draw.randbytes(size), "properties": {"p": "x" * draw.choice(sizes), "KEYS": "a b"}} for size in sizes
    ])  # fmt: skip
    batches, schema = read_batches(tmp_path, maxBatchBytes="2000", **options)
    assert all(batch.num_rows == 1 or batch.nbytes <= 2000 for batch in batches)
    assert len(batches) < 150, "they are not cut into rows"
    assert pa.Table.from_batches(batches, schema).equals(read_table(tmp_path, **options))


def test_a_part_that_spark_makes_itself_is_empty(tmp_path):
    (tmp_path / "commitlog").mkdir()
    reader, _ = reader_of(tmp_path)
    assert reader.partitions() == []
    assert list(reader.read(datasource.InputPartition(None))) == []


# ---- partitions --------------------------------------------------------------------------------------------


def test_each_file_is_a_partition(store):
    files = sorted(int(path.name) for path in (store / "commitlog").iterdir())
    with rocketstore.open(store) as opened:
        end = opened.commit_log.max_phy_offset
    starts = [start for start in files if start < end]
    assert partitions_of(store) == [[pair] for pair in zip(starts, [*starts[1:], end], strict=True)]


@pytest.mark.parametrize(
    "options", [{"minPartitions": "100"}, {"maxPartitionBytes": "700"}, {"maxPartitionBytes": "1"}]
)
def test_parts_of_a_file_begin_at_records_and_lose_none(golden, options):
    if options == {"maxPartitionBytes": "1"}:
        options = {"maxPartitionBytes": "1", "endingPhyOffset": "200000"}
    whole = read_table(golden, **{name: options[name] for name in options if name == "endingPhyOffset"})
    parts = partitions_of(golden, **options)
    assert len(parts) > 30
    assert {part[0][0] for part in parts} <= set(whole["phyOffset"].to_pylist())
    assert read_table(golden, **options).equals(whole)


def test_a_range_of_the_log_has_the_records_that_begin_in_it(store):
    offsets = phy_offsets(store)
    for begin, end in [
        (0, 100),
        (offsets[3], offsets[5]),
        (offsets[3] + 1, offsets[5] + 1),
        (5000, 10**9),
        (10**8, 10**9),
    ]:
        expected = [offset for offset in offsets if begin <= offset < end]
        assert phy_offsets(store, startingPhyOffset=str(begin), endingPhyOffset=str(end)) == expected


def test_a_log_is_not_split_at_a_record_in_a_body(tmp_path):
    records, place = records_with_one_in_a_body()
    offsets = make_log(tmp_path, records)
    for size in range(100, offsets[-1], 50):
        assert phy_offsets(tmp_path, maxPartitionBytes=str(size)) == offsets
        assert phy_offsets(tmp_path, maxPartitionBytes=str(size), endingPhyOffset=str(place + 1)) == offsets[:6]


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED", "PERMISSIVE"])
def test_a_record_in_the_body_of_a_large_one_is_never_a_row_where_the_log_is_split(tmp_path, mode, monkeypatch):
    records, place = records_with_one_in_a_body()
    offsets = make_log(tmp_path, records)
    assert phy_offsets(tmp_path, mode=mode) == offsets
    with monkeypatch.context() as small:
        small.setattr(record_reader, "LARGE_RECORD", 10)
        reader, schema = reader_of(tmp_path, maxPartitionBytes=str(place - 10), mode=mode)
        before, after = reader.partitions()[:2]
    assert before.ranges[0][1] == after.ranges[0][0] == place
    for part in (before, after):
        with pytest.raises(StoreError, match=f"at {place}, where the log was split.*larger maxPartitionBytes"):
            batches_of(reader, schema, [part])


def test_a_range_begins_and_ends_rightly_within_a_message_that_has_a_record_in_its_body(tmp_path):
    records, place = records_with_one_in_a_body()
    offsets = make_log(tmp_path, records)
    for at in (offsets[5] + 1, place - 1, place, place + 1):
        assert phy_offsets(tmp_path, startingPhyOffset=str(at)) == offsets[6:]
        assert phy_offsets(tmp_path, endingPhyOffset=str(at)) == offsets[:6]


def test_the_end_is_that_of_the_time_of_planning(tmp_path):
    config = StoreConfig(mapped_file_size_commit_log=FILE)
    with rocketstore.open(tmp_path, "a", config=config) as written:
        for _ in range(30):
            written.put_message(rocketstore.Message("T", b"before"))
        reader, schema = reader_of(tmp_path, columns="body")
        partitions = reader.partitions()
        for _ in range(30):
            written.put_message(rocketstore.Message("T", b"after"))
    table = pa.Table.from_batches(batches_of(reader, schema, partitions))
    assert table["body"].to_pylist() == [b"before"] * 30


# ---- selected columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"subscribe": "TopicTest,T#1"}, lambda m: m["topic"] in ("TopicTest", "T#1")),
        ({"subscribe": "absent"}, lambda m: False),
        ({"subscribePattern": "T.*"}, lambda m: m["topic"].startswith("T")),
        ({"assign": '{"TopicTest":[0,2],"主题":[1]}'}, lambda m: (m["topic"], m["queueId"]) in
         [("TopicTest", 0), ("TopicTest", 2), ("主题", 1)]),
        ({"assign": '{"主题":[1]}'}, lambda m: (m["topic"], m["queueId"]) == ("主题", 1)),
        ({"assign": "{}"}, lambda m: False),
        ({"queueIds": "0,1"}, lambda m: m["queueId"] < 2),
        ({"subscribe": "主题", "queueIds": "2"}, lambda m: (m["topic"], m["queueId"]) == ("主题", 2)),
        ({"tags": "a || c"}, lambda m: m["tags"] == "a"),
        ({"tags": "a b"}, lambda m: m["tags"] == "a b"),
        ({"keys": "k7 k13 absent"}, lambda m: m["keys"] in (["k7"], ["k13"])),
        ({"keys": "k7 k13 absent", "subscribe": "T#1,absent"},
         lambda m: m["topic"] == "T#1" and m["keys"] in (["k7"], ["k13"])),
        ({"keys": "k7 k8", "assign": '{"T#1":[0,1]}'},
         lambda m: m["topic"] == "T#1" and m["queueId"] < 2 and m["keys"] in (["k7"], ["k8"])),
        ({"startingTimestamp": str(BEGIN + 100_000), "endingTimestamp": str(BEGIN + 200_000)},
         lambda m: 100 <= m["n"] < 200),
        ({"startingTimestamp": str(BEGIN + 399_001)}, lambda m: False),
        ({"startingOffsets": '{"TopicTest":{"0":5,"1":-2}}',
          "endingOffsets": '{"TopicTest":{"0":9},"主题":{"2":-1,"1":0}}'},
         lambda m: {("TopicTest", 0): 5 <= m["queueOffset"] < 9, ("主题", 1): False}.get(
             (m["topic"], m["queueId"]), True)),
        ({"assign": '{"TopicTest":[1]}', "startingOffsets": '{"TopicTest":{"1":20}}', "tags": "a"},
         lambda m: (m["topic"], m["queueId"], m["tags"]) == ("TopicTest", 1, "a") and m["queueOffset"] >= 20),
        ({"subscribe": "TopicTest", "startingOffsets": '{"TopicTest":{"1":10000}}'},
         lambda m: m["topic"] == "TopicTest" and m["queueId"] != 1),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, lambda m: True),
    ],
)  # fmt: skip
def test_messages_are_selected(store, options, wanted):
    rows = read_table(store).to_pylist()
    for n, row in enumerate(rows):
        row["n"] = n
    expected = [row["phyOffset"] for row in rows if wanted(row)]
    assert bool(expected) == ("absent" not in options.get("subscribe", "").split(",")[0]
                              and options.get("assign") != "{}" and "399001" not in str(options))  # fmt: skip
    assert phy_offsets(store, **options) == expected
    assert phy_offsets(store, **options, maxPartitionBytes="1000") == expected


def test_an_assignment_that_names_where_to_begin_reads_the_log_from_there_only(store):
    options = {"assign": '{"TopicTest":[1,2]}', "startingOffsets": '{"TopicTest":{"1":20,"2":30}}'}
    found = phy_offsets(store, **options)
    assert partitions_of(store, **options)[0][0][0] == found[0] > 10_000


def test_a_gap_in_the_queue_offsets_of_records_hides_no_message(tmp_path):
    offsets = make_log(tmp_path, [{"topic": "T", "queue_offset": i if i < 10 else i + 7} for i in range(40)])
    rocketstore.rebuild(tmp_path, config=CONFIG)
    for begin, first in [(9, 9), (10, 10), (17, 10), (20, 13), (42, 35)]:
        options = {"assign": '{"T":[0]}', "startingOffsets": json.dumps({"T": {"0": begin}})}
        assert phy_offsets(tmp_path, **options) == offsets[first:]


def test_an_inner_batch_is_read_from_any_of_its_messages_on(tmp_path):
    root = stores.unpack("batch-5.5.0", tmp_path)
    with rocketstore.open(root) as opened:
        units = opened.consume_queue("BatchCqTopic", 1)[:]
        firsts, nums = units.queue_offsets.tolist(), units.batch_nums.tolist()
        for at in range(firsts[-1] + nums[-1]):
            begin, end = json.dumps({"BatchCqTopic": {"1": at}}), json.dumps({"BatchCqTopic": {"1": at + 1}})
            for given in ({"assign": '{"BatchCqTopic":[1]}'}, {"subscribe": "BatchCqTopic", "queueIds": "1"}):
                found = read_table(root, startingOffsets=begin, **given)["queueOffset"].to_pylist()
                assert found == [*range(at, firsts[-1] + nums[-1])]
                found = read_table(root, endingOffsets=end, **given)["queueOffset"].to_pylist()
                assert found == [*range(firsts[0], at + 1)]
                given["containers"] = "true"
                found = read_table(root, startingOffsets=begin, **given)["queueOffset"].to_pylist()
                assert found[0] == opened.get_message("BatchCqTopic", 1, at, 1).messages.queue_offset[0]
                assert found == [first for first, n in zip(firsts, nums, strict=True) if first + n > at]
                found = read_table(root, endingOffsets=end, **given)["queueOffset"].to_pylist()
                assert found == [first for first in firsts if first <= at]


def test_keys_are_looked_up_in_the_index_where_it_has_all_and_else_in_the_log(store, tmp_path):
    # 8 messages have the key, and there are 3 topics.
    options = {"keys": "k7", "subscribe": "TopicTest,主题"}
    (part,) = partitions_of(store, **options)
    with rocketstore.open(store) as opened:
        assert sum(end - begin for begin, end in part) < opened.commit_log.max_phy_offset
    assert len(partitions_of(store, keys="k7")) > 5, "of topics that are not known the log has to be asked"
    (tmp_path / "commitlog").symlink_to(store / "commitlog")
    assert len(partitions_of(tmp_path, **options)) > 5, "there is no index"
    assert phy_offsets(tmp_path, **options) == phy_offsets(store, **options)
    assert partitions_of(store, keys="absent", subscribe="T#1") == []
    assert partitions_of(store, keys="k7", assign="{}") == []
    for name in ("rocksdbstore", "consumequeue"):
        (tmp_path / name).mkdir()
    (tmp_path / "rocksdbstore" / "000009.sst").touch()
    (tmp_path / "consumequeue" / "CURRENT").touch()
    starting = '{"TopicTest":{"0":5}}'
    expected = phy_offsets(store, **options, startingOffsets=starting)
    assert phy_offsets(tmp_path, **options, startingOffsets=starting) == expected


def test_keys_are_looked_for_in_the_log_where_no_index_file_shows_its_geometry(tmp_path):
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as store:
        store.put_message(rocketstore.Message("T", b"x"))
    assert phy_offsets(tmp_path, keys="k0", subscribe="T") == phy_offsets(tmp_path, keys="k0") == []


@pytest.mark.parametrize("damaged", [b"x" * 10, b"\x7f" * 7028])
def test_keys_are_looked_for_in_the_log_where_the_index_is_damaged(store, tmp_path, damaged):
    root = shutil.copytree(store, tmp_path / "store")
    expected = phy_offsets(root, keys="k7", subscribe="TopicTest")
    max((root / "index").iterdir()).write_bytes(damaged)
    assert phy_offsets(root, keys="k7", subscribe="TopicTest") == expected != []


def test_keys_find_no_message_that_was_rolled_back(rich, tmp_path):
    with rocketstore.open(rich) as opened:
        rows = [message for batch in opened.scan() for message in batch]
    key = next(message.uniq_key for message in rows if message.sys_flag & 0xC == 0xC)
    topic = next(message.topic for message in rows if message.uniq_key == key)
    assert phy_offsets(rich, keys=key, subscribe=topic) == phy_offsets(rich, keys=key) == []


# ---- time --------------------------------------------------------------------------------------------------


def test_files_of_other_times_are_not_read(tmp_path):
    records = [{"store_timestamp": BEGIN + DAY // 2 * i, "body": bytes(300)} for i in range(100)]
    offsets = make_log(tmp_path, records)
    begin, end = BEGIN + 20 * DAY, BEGIN + 22 * DAY
    options = {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
    parts = partitions_of(tmp_path, **options)
    assert 1 <= len(parts) <= 4 < len(partitions_of(tmp_path)) - 3
    assert phy_offsets(tmp_path, **options) == offsets[40:44]
    assert phy_offsets(tmp_path, startingTimestamp=str(begin)) == offsets[40:]
    assert phy_offsets(tmp_path, endingTimestamp=str(end)) == offsets[:44]
    assert len(partitions_of(tmp_path, **options, exactTimes="true")) == len(partitions_of(tmp_path))


@pytest.mark.parametrize("back", [1000, DAY, 5 * DAY])
def test_clocks_that_were_set_back_hide_no_message(tmp_path, seed, back):
    """By a day at most at any time; by more where the next file begins earlier than the last."""
    draw = random.Random(seed)
    times, now = [], BEGIN
    for i in range(300):
        now += draw.randrange(DAY // 10)
        if back <= DAY and draw.random() < 0.05:
            now -= draw.randrange(back)
            now = max(now, max(times, default=now) - back)
        times.append(now - back * (back > DAY and i >= 150))
    make_log(tmp_path, [{"store_timestamp": time, "body": bytes(200)} for time in times])
    skipped = 0
    for _ in range(60):
        begin = draw.choice(times) - draw.randrange(2)
        end = begin + draw.randrange(1, 4 * DAY)
        options = {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
        found = read_table(tmp_path, columns="storeTimestampMs", **options)["storeTimestampMs"].to_pylist()
        assert found == [time for time in times if begin <= time < end]
        skipped += len(partitions_of(tmp_path)) - len(partitions_of(tmp_path, **options))
    assert skipped


def log_with_a_clock_ahead(root, ahead):
    """A log of 12 files and 12 days. The clock is ahead for some messages of the third file; return their times."""
    times = [BEGIN + DAY // 10 * n + ahead * (25 <= n < 28) for n in range(120)]
    make_log(root, [{"store_timestamp": time, "body": bytes(300)} for time in times])
    return times[25:28]


def assumptions_of(caplog):
    return [record.getMessage() for record in caplog.records if "no clock was wrong" in record.getMessage()]


def test_a_clock_that_ran_ahead_by_hours_within_a_file_hides_no_message(tmp_path):
    times = log_with_a_clock_ahead(tmp_path, 20 * HOUR)
    options = {"startingTimestamp": str(times[0]), "endingTimestamp": str(times[-1] + 1)}
    found = read_table(tmp_path, columns="storeTimestampMs", **options)["storeTimestampMs"].to_pylist()
    assert set(times) <= set(found)


def test_a_read_of_some_times_logs_that_it_assumes_right_clocks(tmp_path, caplog):
    times = log_with_a_clock_ahead(tmp_path, 8 * DAY + 1)
    options = {"startingTimestamp": str(times[0]), "columns": "storeTimestampMs"}
    found = read_table(tmp_path, **options)["storeTimestampMs"].to_pylist()
    (text,) = assumptions_of(caplog)
    assert text.startswith(f"{tmp_path}: ")
    assert text.endswith("option exactTimes=true reads every file")
    exact = read_table(tmp_path, **options, exactTimes="true")["storeTimestampMs"].to_pylist()
    assert len(assumptions_of(caplog)) == 1
    assert [time for time in exact if time not in found] == times


def test_where_no_file_is_skipped_by_time_nothing_is_logged(tmp_path, caplog):
    log_with_a_clock_ahead(tmp_path, 0)
    assert phy_offsets(tmp_path, startingTimestamp=str(BEGIN + DAY)) == phy_offsets(tmp_path)[10:]
    assert assumptions_of(caplog) == []


def test_where_there_is_nothing_to_read_times_find_nothing(store, tmp_path):
    (tmp_path / "commitlog").mkdir()
    for root, options in ((tmp_path, {}), (store, {"endingPhyOffset": "0"})):
        assert phy_offsets(root, startingTimestamp=str(BEGIN), **options) == []
        assert phy_offsets(root, endingTimestamp=str(BEGIN), **options) == []


def test_a_file_whose_first_message_cannot_be_read_is_read(tmp_path):
    offsets = make_log(tmp_path, [{"store_timestamp": BEGIN + DAY * i, "body": bytes(300)} for i in range(60)])
    second = next(offset for offset in offsets if offset >= 2 * FILE)
    damage(tmp_path, second)
    options = {"startingTimestamp": str(BEGIN + 50 * DAY), "mode": "DROPMALFORMED"}
    assert phy_offsets(tmp_path, **options) == offsets[50:]
    with pytest.raises(CorruptFileError):
        phy_offsets(tmp_path, **{**options, "mode": "FAILFAST"})


# ---- data loss ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expired(tmp_path_factory):
    """The golden store whose log begins at 131,072."""
    return stores.unpack("cut-5.3.3", tmp_path_factory.mktemp("expired"))


def test_a_range_that_was_deleted_is_an_error_unless_data_may_be_lost(expired):
    first = phy_offsets(expired)[0]
    with pytest.raises(
        StoreError, match="startingPhyOffset 100 was deleted, the log begins at 131072; with failOnDataLoss"
    ):
        phy_offsets(expired, startingPhyOffset="100")
    assert phy_offsets(expired, startingPhyOffset="100", failOnDataLoss="false")[0] == first
    with rocketstore.open(expired) as opened:
        topic, queue = next(q for q in opened.queues() if opened.consume_queue(*q).min_queue_offset > 0)
        least = opened.consume_queue(topic, queue).min_queue_offset
    options = {"assign": f'{{"{topic}":[{queue}]}}', "startingOffsets": f'{{"{topic}":{{"{queue}":{least - 1}}}}}'}
    with pytest.raises(StoreError, match=f"message {least - 1} of queue {queue} of '{topic}' was deleted"):
        phy_offsets(expired, **options)
    found = read_table(expired, **options, failOnDataLoss="false")["queueOffset"].to_pylist()
    assert found[0] == least
    assert phy_offsets(expired, startingPhyOffset=str(first))[0] == first


def test_a_range_that_is_deleted_after_planning_is_an_error_unless_data_may_be_lost(tmp_path):
    offsets = make_log(tmp_path, some(60))
    strict, schema = reader_of(tmp_path, columns="phyOffset")
    partitions = strict.partitions()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(StoreError, match="the log from 0 to 4096 was deleted after the query was planned"):
        batches_of(strict, schema, partitions)
    lax, schema = reader_of(tmp_path, columns="phyOffset", failOnDataLoss="false")
    table = pa.Table.from_batches(batches_of(lax, schema, partitions))
    assert table["phyOffset"].to_pylist() == [offset for offset in offsets if offset >= FILE]


def test_a_range_that_is_deleted_before_its_task_runs_is_an_error_too(tmp_path, monkeypatch):
    make_log(tmp_path, some(60))
    strict, schema = reader_of(tmp_path)
    new_scan, first = messages.new_scan, tmp_path / "commitlog" / f"{0:020d}"

    def delete_first(*args):
        first.unlink(missing_ok=True)
        return new_scan(*args)

    monkeypatch.setattr(messages, "new_scan", delete_first)
    with pytest.raises(StoreError, match="the log from 0 to 4096 was deleted after the query was planned"):
        batches_of(strict, schema, strict.partitions())


@pytest.mark.parametrize("kept", [0, 2000, FILE])
def test_a_log_that_ends_before_the_planned_range_is_an_error_unless_data_may_be_lost(tmp_path, kept):
    offsets = make_log(tmp_path, some(60))
    strict, schema = reader_of(tmp_path, columns="phyOffset")
    partitions = strict.partitions()
    data = b"".join(path.read_bytes() for path in sorted((tmp_path / "commitlog").iterdir()))[:kept]
    for path in sorted((tmp_path / "commitlog").iterdir())[1:]:
        path.unlink()
    write_file(tmp_path / "commitlog", 0, data.ljust(FILE, b"\0"))
    with pytest.raises(StoreError, match=r"the log ends at \d+, before the planned end \d+"):
        batches_of(strict, schema, partitions)
    lax, schema = reader_of(tmp_path, columns="phyOffset", failOnDataLoss="false")
    table = pa.Table.from_batches(batches_of(lax, schema, partitions), schema)
    assert table["phyOffset"].to_pylist() == [at for at, end in pairwise(offsets) if end <= kept]


# ---- corrupt records ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 5, 20, 31, 59])
def test_a_corrupt_record_fails_the_query_is_dropped_or_is_a_row(tmp_path, place):
    offsets = make_log(tmp_path, some(60, store_timestamp=BEGIN))
    damage(tmp_path, offsets[place])
    expected = offsets[:place] + offsets[place + 1 :]
    options = [{}, {"maxPartitionBytes": "300"}, {"maxPartitionBytes": "1"}]
    for split in options:
        if place < 59:
            with pytest.raises(CorruptFileError):
                phy_offsets(tmp_path, **split)
        assert phy_offsets(tmp_path, mode="DROPMALFORMED", **split) == expected
        table = read_table(tmp_path, mode="PERMISSIVE", **split)
        assert table.column_names == [*DEFAULT, "_corrupt_record"]
        rows = [row for row in table.to_pylist() if row["phyOffset"] is None]
        assert [row for row in table["phyOffset"].to_pylist() if row is not None] == expected
        assert len(rows) == (place < 59)
        for row in rows:
            name = tmp_path / "commitlog" / f"{offsets[place] // FILE * FILE:020d}"
            assert row["_corrupt_record"].startswith(f"{name}: magic at byte {offsets[place] % FILE}: ")
            assert row["_corrupt_record"].endswith(f"(physical offsets {offsets[place]} to {offsets[place + 1]})")
            assert {value for column, value in row.items() if column != "_corrupt_record"} == {None}


def test_a_missing_file_is_corrupt_too(tmp_path):
    offsets = make_log(tmp_path, some(90))
    (tmp_path / "commitlog" / f"{FILE:020d}").unlink()
    with pytest.raises(CorruptFileError, match="a file is missing"):
        phy_offsets(tmp_path)
    expected = [offset for offset in offsets if not FILE <= offset < 2 * FILE]
    assert phy_offsets(tmp_path, mode="DROPMALFORMED") == expected


@pytest.mark.parametrize("begin", [-1, 0, 10])
def test_damage_where_a_range_begins_is_reported(tmp_path, begin):
    """And damage in or right behind the record where it is to begin."""
    offsets = make_log(tmp_path, some(20))
    damage(tmp_path, offsets[5])
    options = {"startingPhyOffset": str(offsets[5] + begin)}
    with pytest.raises(CorruptFileError):
        phy_offsets(tmp_path, **options)
    assert phy_offsets(tmp_path, mode="DROPMALFORMED", **options) == offsets[6:]
    rows = read_table(tmp_path, mode="PERMISSIVE", columns="phyOffset,_corrupt_record", **options).to_pylist()
    assert sorted(row["phyOffset"] or 0 for row in rows) == [0, *offsets[6:]]


@pytest.mark.parametrize("begin", [FILE, FILE + 1000])
def test_a_missing_file_where_a_range_begins_is_reported(tmp_path, begin):
    offsets = make_log(tmp_path, some(90))
    (tmp_path / "commitlog" / f"{FILE:020d}").unlink()
    with pytest.raises(CorruptFileError, match="a file is missing"):
        phy_offsets(tmp_path, startingPhyOffset=str(begin))
    expected = [offset for offset in offsets if offset >= 2 * FILE]
    assert phy_offsets(tmp_path, startingPhyOffset=str(begin), mode="DROPMALFORMED") == expected


def test_a_range_begins_behind_a_large_message_that_it_begins_in(tmp_path, monkeypatch):
    monkeypatch.setattr(record_reader, "LARGE_RECORD", 10)
    offsets = make_log(tmp_path, some(20))
    assert phy_offsets(tmp_path, startingPhyOffset=str(offsets[5] + 50)) == offsets[6:]


def test_a_torn_tail_is_the_end(tmp_path):
    offsets = make_log(tmp_path, some(50))
    damage(tmp_path, offsets[-1])
    assert phy_offsets(tmp_path) == offsets[:-1]
    assert phy_offsets(tmp_path, minPartitions="40") == offsets[:-1]


def test_damage_in_the_last_file_does_not_hide_the_messages_behind_it(tmp_path):
    offsets = make_log(tmp_path, some(8))
    damage(tmp_path, offsets[2], bytes(100), at=0)
    damage(tmp_path, offsets[5])
    assert phy_offsets(tmp_path, mode="DROPMALFORMED") == [offsets[i] for i in (0, 1, 3, 4, 6, 7)]
    with pytest.raises(CorruptFileError):
        phy_offsets(tmp_path)


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
def test_a_message_whose_body_does_not_decompress_has_a_row_in_every_mode(tmp_path, mode):
    offsets = make_log(tmp_path, [*some(3), {"sys_flag": 1, "body": b"no zlib"}, *some(3)])
    assert phy_offsets(tmp_path, mode=mode) == offsets
    columns = "phyOffset,body,bodyError,rawBody" + ",_corrupt_record" * (mode == "PERMISSIVE")
    with pytest.warns(UserWarning, match="1 message has a body that cannot be decoded"):
        table = read_table(tmp_path, mode=mode, columns=columns)
    assert table["phyOffset"].to_pylist() == offsets
    assert [row["phyOffset"] for row in table.to_pylist() if row["body"] is None] == [offsets[3]]
    errors = table["bodyError"].to_pylist()
    assert errors.pop(3).startswith("body: does not decompress with zlib")
    assert errors == [None] * 6
    assert table["rawBody"].to_pylist()[3] == b"no zlib"


def test_the_value_of_a_row_of_kafka_s_style_is_null_where_the_body_does_not_decompress(tmp_path):
    make_log(tmp_path, [{"sys_flag": 1, "body": b"no zlib"}, *some(1)])
    with pytest.warns(UserWarning, match="1 message has a body that cannot be decoded"):
        table = read_table(tmp_path, schemaStyle="kafka", columns="value,bodyError")
    assert table["value"].to_pylist() == [None, b"body 0"]
    assert table["bodyError"].null_count == 1


def test_spark_has_the_row_of_a_body_that_does_not_decompress(spark, tmp_path):
    make_log(tmp_path, [*some(1), {"sys_flag": 1, "body": b"no zlib"}])
    options = {"columns": "body,bodyError,rawBody"}
    rows = spark.read.format("rocketstore").options(**options).load(str(tmp_path)).collect()
    assert [(row.body, row.rawBody) for row in rows] == [(b"body 0", b"body 0"), (None, b"no zlib")]
    assert [row.bodyError and row.bodyError[:22] for row in rows] == [None, "body: does not decompr"]


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "Good"},
        {"subscribePattern": "Go.*"},
        {"assign": '{"Good":[0],"Bad":[7]}'},
        {"endingOffsets": '{"Bad":{"0":0}}'},
    ],
)
def test_a_body_that_does_not_decompress_is_no_matter_if_its_message_is_not_wanted(tmp_path, options):
    bad = {"topic": "Bad", "queue_id": 0, "sys_flag": 1, "body": b"no zlib"}
    good = some(3, topic="Good", queue_id=0)
    offsets = make_log(tmp_path, [*good, bad, *good])
    for mode in ("FAILFAST", "PERMISSIVE"):
        table = read_table(tmp_path, mode=mode, **options)
        assert table["phyOffset"].to_pylist() == offsets[:3] + offsets[4:]


def test_a_body_that_does_not_match_its_crc_is_null_or_on_request_damage(tmp_path):
    offsets = make_log(tmp_path, some(9))
    damage(tmp_path, offsets[4], b"X", at=88)
    assert phy_offsets(tmp_path) == phy_offsets(tmp_path, verifyCrc="false") == offsets
    with pytest.warns(UserWarning, match="1 message has a body that cannot be decoded"):
        table = read_table(tmp_path, columns="body,bodyError")
    wrong = "bodyCrc: is not the CRC of the body"
    assert table["bodyError"].to_pylist() == [None] * 4 + [wrong] + [None] * 4
    assert [body is None for body in table["body"].to_pylist()] == [False] * 4 + [True] + [False] * 4
    unchecked = read_table(tmp_path, columns="body,bodyError", verifyCrc="false")
    assert unchecked["bodyError"].null_count == 9
    with pytest.raises(CorruptFileError, match="CRC"):
        phy_offsets(tmp_path, verifyCrc="true")
    assert phy_offsets(tmp_path, verifyCrc="true", mode="DROPMALFORMED") == offsets[:4] + offsets[5:]


@pytest.mark.parametrize("partitions", ["1", "9"])
def test_a_last_record_of_a_wrong_crc_is_no_end_of_the_log(partitions, tmp_path):
    offsets = make_log(tmp_path, some(9))
    damage(tmp_path, offsets[-1], b"X", at=88)
    with pytest.raises(CorruptFileError, match="CRC"):
        phy_offsets(tmp_path, verifyCrc="true", minPartitions=partitions)
    assert phy_offsets(tmp_path, verifyCrc="true", minPartitions=partitions, mode="DROPMALFORMED") == offsets[:-1]


def test_a_log_whose_end_moves_on_is_followed(tmp_path, monkeypatch):
    """Also past damage that is in between, which is looked for every few seconds."""
    records = some(30)
    offsets = make_log(tmp_path, records)
    data = {path: path.read_bytes() for path in sorted((tmp_path / "commitlog").iterdir())}
    first = next(iter(data))
    place = offsets[10]
    write_file(tmp_path / "commitlog", 0, data[first][:place].ljust(FILE, b"\0"))
    for path in list(data)[1:]:
        path.unlink()
    with rocketstore.open(tmp_path) as opened:
        log = opened.commit_log
        assert log.look().records_end == place
        for path, content in data.items():
            path.write_bytes(content)
        last = len(build_record(**records[-1])) + offsets[-1]
        assert log.look().records_end == last
        damage(tmp_path, last, b"torn", at=0)
        assert log.look().records_end == last
        damage(tmp_path, last, build_record(phy_offset=last + 40, body=b"behind it"), at=40)
        assert log.look().records_end == last
        monkeypatch.setattr(end_finder, "LOOK_AHEAD_SECONDS", -1.0)
        assert log.look().records_end == last + 40 + len(build_record(body=b"behind it"))


# ---- push-down ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "pushed"),
    [
        ([datasource.EqualTo(("topic",), "T#1")], {"subscribe": {"T#1"}}),
        ([datasource.In(("topic",), ("T#1", "主题", None)), datasource.In(("topic",), ("主题",))],
         {"subscribe": {"主题"}}),
        ([datasource.EqualTo(("queueId",), 1), datasource.In(("queueId",), (1, 2))], {"queue_ids": {1}}),
        ([datasource.EqualTo(("tags",), "a")], {"tags": "a"}),
        ([datasource.EqualTo(("tags",), "a||b")], {"tags": None}),
        ([datasource.EqualTo(("tags",), None)], {"tags": ""}),
        ([datasource.GreaterThan(("storeTimestamp",), datetime.fromtimestamp(BEGIN / 1000 + 200.5, UTC)),
          datasource.LessThanOrEqual(("storeTimestamp",), datetime.fromtimestamp(BEGIN / 1000 + 300, UTC))],
         {"starting_timestamp": BEGIN + 200_500, "ending_timestamp": BEGIN + 300_001}),
        ([datasource.EqualTo(("storeTimestamp",), datetime.fromtimestamp(BEGIN / 1000 + 7, UTC))],
         {"starting_timestamp": BEGIN + 7000, "ending_timestamp": BEGIN + 7001}),
        ([datasource.Not(datasource.EqualTo(("topic",), "T#1")), datasource.IsNotNull(("topic",)),
          datasource.EqualTo(("uniqKey",), "x"), datasource.EqualTo(("keys", "x"), "y"),
          datasource.In(("storeTimestamp",), ()), datasource.EqualNullSafe(("storeTimestamp",), None),
          datasource.LessThan(("storeTimestamp",), None)], {}),
    ],
)  # fmt: skip
def test_filters_narrow_the_scan_and_are_all_left_to_spark(store, conditions, pushed):
    reader, schema = reader_of(store, pushdown="true")
    assert isinstance(reader, PushdownReader)
    for _ in range(2):  # Spark may ask more than once
        assert list(reader.pushFilters(conditions)) == conditions
        assert {name: getattr(reader.options, name) for name in pushed} == pushed
    if not pushed:
        assert reader.options == reader.given
    rows = [
        tuple(row.values()) for batch in batches_of(reader, schema, reader.partitions()) for row in batch.to_pylist()
    ]
    assert set(map(str, rows)) <= {str(tuple(row.values())) for row in read_table(store).to_pylist()}


@pytest.mark.parametrize("wanted", [("a|", "b"), ("b", "|c"), ("a|", "|c"), ("*", "b"), (" b", "b"), ("", "b")])
def test_filters_on_tags_that_no_expression_selects_lose_no_message(tmp_path, wanted):
    make_log(tmp_path, [{"properties": {"TAGS": tag}} for tag in ("a|", "|c", "b", "*", " b", "")])
    reader, schema = reader_of(tmp_path, pushdown="true", columns="tags")
    reader.pushFilters([datasource.In(("tags",), wanted)])
    found = pa.Table.from_batches(batches_of(reader, schema, reader.partitions()))
    assert set(wanted) - {""} <= set(found["tags"].to_pylist())  # no row has an empty tag: it is null


def test_filters_on_times_lose_no_message_of_a_log_whose_times_are_not_in_order(tmp_path):
    times = [BEGIN] * 5 + [BEGIN + 48 * HOUR] * 5 + [BEGIN + 2 * HOUR] * 90
    offsets = make_log(tmp_path, [{"store_timestamp": at} for at in times])
    reader, schema = reader_of(tmp_path, pushdown="true", columns="phyOffset,storeTimestampMs")
    reader.pushFilters([datasource.GreaterThan(("storeTimestampMs",), BEGIN + 24 * HOUR)])
    found = pa.Table.from_batches(batches_of(reader, schema, reader.partitions()))
    assert found["phyOffset"].to_pylist() == offsets[5:10]


def test_a_filter_may_leave_out_a_queue_that_has_a_starting_offset(store):
    reader, schema = reader_of(store, pushdown="true", startingOffsets='{"T#1":{"0":2},"主题":{"0":3}}')
    reader.pushFilters([datasource.EqualTo(("topic",), "主题"), datasource.EqualTo(("queueId",), 0)])
    found = pa.Table.from_batches(batches_of(reader, schema, reader.partitions()))
    assert found["queueOffset"].to_pylist() == list(range(3, len(found) + 3))
    assert set(found["topic"].to_pylist()) == {"主题"}


def test_without_the_option_no_filter_is_taken(store):
    reader, _ = reader_of(store)
    assert type(reader).pushFilters is datasource.DataSourceReader.pushFilters


# ---- in Spark ----------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_reads_what_a_scan_reads(spark, rich):
    register(spark)
    table = spark.read.format("rocketstore").load(str(rich)).toArrow()
    assert table.drop_columns("brokerName").to_pylist() == scanned(rich).drop_columns("properties").to_pylist()
    df = spark.read.format("rocketstore").schema("queueid int, storeTimestamp timestamp").load(str(rich))
    assert df.toArrow()["queueid"].to_pylist() == table["queueId"].to_pylist()


@pytest.mark.spark
def test_sql_finds_the_source_by_itself(spark, rich):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING rocketstore OPTIONS (path '{rich}', subscribePattern 'T.*')")
    rows = spark.sql("SELECT topic, count(*) AS n FROM v GROUP BY topic").collect()
    assert [tuple(row) for row in rows] == [("TopicTest", 48)]
    with pytest.raises(AnalysisException, match="use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE t USING rocketstore OPTIONS (path '{rich}')")


@pytest.mark.spark
def test_spark_names_an_option_that_is_wrong_and_a_record_that_is_corrupt(spark, tmp_path):
    offsets = make_log(tmp_path, some(30))
    damage(tmp_path, offsets[3])
    reads = spark.read.format("rocketstore")
    with pytest.raises(AnalysisException, match="option 'topic' is unknown"):
        reads.option("topic", "T").load(str(tmp_path)).count()
    where = f"{tmp_path}/commitlog/{0:020d}: magic at byte {offsets[3]}"
    with pytest.raises(PySparkException, match=f"{where}.*\n.*mode=DROPMALFORMED or mode=PERMISSIVE"):
        spark.read.format("rocketstore").load(str(tmp_path)).count()
    df = spark.read.format("rocketstore").option("mode", "PERMISSIVE").load(str(tmp_path))
    assert [row.phyOffset for row in df.where("_corrupt_record IS NULL").collect()] == offsets[:3] + offsets[4:]
    assert df.where("_corrupt_record LIKE '%magic%'").count() == 1


@pytest.mark.spark
def test_spark_pushes_filters_down_if_it_is_allowed_to(spark, store):
    df = spark.read.format("rocketstore").option("pushdown", "true").load(str(store))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = df.where("topic = 'T#1' AND queueId IN (0, 2) AND storeTimestamp >= '2023-11-14T22:15:00Z'").collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    rows = [row for row in read_table(store).to_pylist() if row["topic"] == "T#1" and row["queueId"] != 1]
    expected = [row["phyOffset"] for row in rows if row["storeTimestamp"] >= datetime(2023, 11, 14, 22, 15, tzinfo=UTC)]
    assert [row.phyOffset for row in found] == expected
    assert 0 < len(expected) < len(rows)


@pytest.mark.spark
def test_spark_reads_a_store_without_messages(spark, tmp_path):
    (tmp_path / "commitlog").mkdir()
    assert spark.read.format("rocketstore").load(str(tmp_path)).collect() == []


# ---- the shim ----------------------------------------------------------------------------------------------


def test_the_shim_imports_nothing_of_rocketstore_and_never_raises():
    script = """
import sys
import pyspark_rocketstore
print(sorted(name for name in ("rocketstore", "pyarrow", "pandas") if name in sys.modules))
source = pyspark_rocketstore.DefaultSource({"path": "/store"})
print(pyspark_rocketstore.DefaultSource.name(), type(source).__name__)
"""
    broken = (
        "import sys; sys.modules['pyspark'] = None; import pyspark_rocketstore as p; print(hasattr(p, 'DefaultSource'))"
    )
    answers = []
    for code in (script, broken):
        environment = {**os.environ, "PYTHONPATH": str(Path(rocketstore.__file__).parent.parent)}
        done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, env=environment)
        assert done.stderr == ""
        answers.append(done.stdout.split("\n"))
    assert answers[0][1:] == ["rocketstore RocketStoreDataSource", ""]
    assert "rocketstore" not in answers[0][0]
    assert answers[1] == ["False", ""]

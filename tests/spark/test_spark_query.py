"""Keys to messages in Spark, against the same queries without Spark."""

import zlib
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pyarrow as pa
from pyspark.sql import functions as F
from support.puts import config_of
from support.spark_reads import BEGIN, make_colliding_store

import rocketstore
from rocketstore.limits import LONG_MAX
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.compression import COMPRESSED
from rocketstore.spark import query_messages, read
from rocketstore.spark.lookup import query_messages as query
from rocketstore.spark.lookup.plans import plan_store
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema
from rocketstore.survey.survey import survey_store

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*there is no queue of topic")]

ASKED = [(topic, key) for topic in ("T0", "T1", "T9", None) for key in ("Aa", "BB", "BBBB", "x", None)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_colliding_store(tmp_path_factory.mktemp("query") / "store")


@pytest.fixture(scope="module")
def asked(spark):
    return spark.createDataFrame([(i, *row) for i, row in enumerate(ASKED)], "id int, topic string, key string")


def expected(store, **conditions):
    """(id, phy offset, body) of every message of every key, newest first."""
    with rocketstore.open(store) as reader:
        return [
            (i, message.phy_offset, message.body)
            for i, (topic, key) in enumerate(ASKED)
            if topic is not None and key is not None
            for message in reader.query_messages(topic, [key], **conditions)[0]
        ]


def query_of(options, *, outer=False):
    """A query of the topic T, as the tasks get it."""
    plan = plan_store(survey_store(options.path))
    return query.Query(plan, options, table_schema(options, default_schema(options)), "T", outer)


def found(df):
    return [(row.id, row.message.phyOffset, bytes(row.message.body)) for row in df.collect()]


def in_order(rows):
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize(
    "conditions",
    [{}, {"limit": 2}, {"since": BEGIN + 1000, "until": BEGIN + 4000}, {"index_type": "K"}],
)
def test_each_key_has_its_messages_newest_first(spark, store, asked, conditions):
    df = query_messages(spark, str(store), asked, topic=F.col("topic"), key="key", **conditions)
    assert in_order(found(df)) == expected(store, **conditions)
    assert df.columns == ["id", "topic", "key", "message", "complete"]


def test_times_without_a_zone_are_of_the_given_zone(spark, store, asked):
    since = datetime.fromtimestamp(BEGIN / 1000 + 1, ZoneInfo("Asia/Shanghai")).replace(tzinfo=None)
    options = {"topic": F.col("topic"), "key": "key", "since": since}
    df = query_messages(spark, str(store), asked, tz="Asia/Shanghai", **options)
    assert in_order(found(df)) == expected(store, since=BEGIN + 1000) != expected(store)
    rows = read(spark, str(store), columns="phyOffset", since=since, tz="Asia/Shanghai").collect()
    with rocketstore.open(store) as opened:
        assert [row.phyOffset for row in rows] == opened.scan(since=BEGIN + 1000).to_arrow()["phyOffset"].to_pylist()


def test_one_topic_for_all_and_the_messages_of_other_topics_are_left_out(spark, store, asked):
    df = query_messages(spark, str(store), asked.where("topic = 'T0'"), topic="T1", key="key")
    wanted = [(i - 5, *rest) for i, *rest in expected(store) if 5 <= i < 10]
    assert in_order(found(df)) == wanted != []


def test_outer_gives_a_row_for_each_key_without_messages(spark, store, asked):
    df = query_messages(spark, str(store), asked, topic=F.col("topic"), key="key", outer=True)
    rows = df.collect()
    with_messages = {i for i, *_ in expected(store)}
    assert sorted(row.id for row in rows if row.message is None) == sorted({*range(len(ASKED))} - with_messages)
    assert in_order(found(df.where("message is not null"))) == expected(store)
    assert all(row.complete for row in rows)


def test_columns_are_those_asked_for(spark, store, asked):
    df = query_messages(spark, str(store), asked, topic="T0", key="key", columns=["queueOffset", "properties"])
    assert df.schema["message"].dataType.names == ["queueOffset", "properties"]
    row = df.where("key = 'Aa'").first()
    assert {"TAGS": "t", "KEYS": "Aa"}.items() <= dict(row.message.properties).items()


def test_columns_that_no_message_has_of_its_own_are_answered(spark, store, asked):
    df = query_messages(spark, str(store), asked.where("key = 'Aa'"), topic="T0", key="key", columns=["brokerName"])
    assert df.count() > 0


def test_a_geometry_that_does_not_show_is_given(spark, asked, tmp_path):
    config = rocketstore.StoreConfig.small()
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        store.put_message(rocketstore.Message("T", b"x"))
    geometry = {"hash_slot_num": config.max_hash_slot_num, "index_num": config.max_index_num}
    df = query_messages(spark, str(tmp_path / "store"), asked, topic="T", key="key", outer=True, **geometry)
    assert all(row.complete for row in df.collect())
    with pytest.raises(ValueError, match="give both or none"):
        query_messages(spark, str(tmp_path / "store"), asked, topic="T", key="key", index_num=5)


def test_an_answer_of_a_store_without_index_says_that_it_is_not_complete(spark, store, asked, tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "commitlog").symlink_to(store / "commitlog")
    df = query_messages(spark, str(tmp_path / "store"), asked, topic="T0", key="key", outer=True)
    assert [row.complete for row in df.where("key is not null").collect()] == [False] * 16


def test_large_messages_come_in_several_batches(spark, tmp_path):
    config = replace(rocketstore.StoreConfig.small(), mapped_file_size_commit_log=8 << 20)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        for i in range(12):
            store.put_message(rocketstore.Message("T", bytes([i]) * 3_000_000, keys=["k"]))
    keys = spark.createDataFrame([("k",), ("none",)], "key string")
    df = query_messages(spark, str(tmp_path / "store"), keys, topic="T", key="key")
    bodies = [bytes(row.message.body) for row in df.collect()]
    assert bodies == [bytes([i]) * 3_000_000 for i in reversed(range(12))]


def count_keys_of_lookups(monkeypatch):
    """Return a list that gets the number of keys of each lookup."""
    counts = []
    find = query.find_messages
    monkeypatch.setattr(query, "find_messages", lambda view, topic, keys, *args: (
        counts.append(len(keys)) or find(view, topic, keys, *args)))  # fmt: skip
    return counts


def test_keys_of_several_batches_are_looked_up_together(store, monkeypatch):
    wanted = query_of(ReadOptions(path=store, max_batch_bytes=LONG_MAX), outer=True)._replace(topic="T0")
    keys = [["Aa", None], [], ["absent"], ["BB", "Aa", "BBBB"], ["x"]]
    batches = [
        pa.record_batch([pa.array(some, pa.string()), pa.array([{"i": i}] * len(some), pa.struct({"i": pa.int64()}))],
                        ["key", "row"]) for i, some in enumerate(keys)]  # fmt: skip
    alone = [row for batch in batches for found in query.find_batch(wanted, batch) for row in found.to_pylist()]
    counts = count_keys_of_lookups(monkeypatch)
    joined = list(query.join_batches(iter(batches), ["key", "row"]))
    together = [row for batch in joined for found in query.find_batch(wanted, batch) for row in found.to_pylist()]
    assert counts == [6]
    assert len(alone) > 6
    assert sorted(map(repr, together)) == sorted(map(repr, alone))


@pytest.mark.parametrize(("most", "counts"), [(1000, [2, 10]), (30, [2, 6, 4]), (5, [2] + 10 * [1])])
def test_few_keys_with_many_messages_are_looked_up_together(tmp_path, monkeypatch, most, counts):
    monkeypatch.setattr(query, "FIRST_ROWS", 2)
    monkeypatch.setattr(query, "OFFSETS_TOGETHER", most)
    with rocketstore.open(tmp_path, "a", config=config_of()) as store:
        store.put_messages([rocketstore.Message("T", b"x", keys=[f"k{i % 12}"]) for i in range(60)])
    wanted = query_of(ReadOptions(path=tmp_path, max_batch_bytes=LONG_MAX))
    asked = pa.record_batch({"key": [f"k{i}" for i in range(12)], "row": [{"i": i} for i in range(12)]})
    found = count_keys_of_lookups(monkeypatch)
    rows = [row["row"]["i"] for batch in query.find_batch(wanted, asked) for row in batch.to_pylist()]
    assert rows == [i for i in range(12) for _ in range(5)]
    assert found == counts


@pytest.mark.parametrize(("body", "row_bytes"), [(1, 100_000), (100_000, 1)])
def test_a_batch_has_no_more_bytes_than_bodies_decompressed_and_repeated_rows_may_have(
    tmp_path, body, row_bytes, monkeypatch
):
    monkeypatch.setattr(query, "MAX_BATCH_BYTES", 300_000)
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as store:
        for i in range(12):
            compressed = zlib.compress(bytes([i]) * body)
            store.put_message(rocketstore.Message("T", compressed, keys=["k"], sys_flag=COMPRESSED))
    options = ReadOptions(path=tmp_path, max_batch_bytes=LONG_MAX)
    wanted = query_of(options)
    asked = pa.record_batch({"key": ["k", "none"], "row": [{"row": "r" * row_bytes * 2}, {"row": ""}]})
    batches = list(query.find_batch(wanted, asked))
    bodies = [row["message"]["body"] for batch in batches for row in batch.to_pylist()]
    assert bodies == [bytes([i]) * body for i in reversed(range(12))]
    assert len(batches) >= 4
    assert max(batch.nbytes for batch in batches) < 700_000


def test_outer_gives_a_row_for_a_message_that_expires_before_it_is_read(tmp_path, monkeypatch):
    with rocketstore.open(tmp_path, "a", config=config_of()) as store:
        for i in range(40):
            store.put_message(rocketstore.Message("T", bytes(100), keys=[f"k{i}"]))
    find = query.find_messages

    def find_then_expire(coverage, *args):
        found = find(coverage, *args)
        (tmp_path / "commitlog" / f"{0:020d}").unlink()
        coverage.log.reader.list_again()  # otherwise the mapping of the deleted file still has the message
        return found

    monkeypatch.setattr(query, "find_messages", find_then_expire)
    options = ReadOptions(path=tmp_path, columns=("body",), max_batch_bytes=LONG_MAX)
    wanted = query_of(options, outer=True)
    asked = pa.record_batch({"key": ["k0", "k39", "none"], "row": [{"i": 0}, {"i": 39}, {"i": 99}]})
    rows = [row for batch in query.find_batch(wanted, asked) for row in batch.to_pylist()]
    assert [(row["row"]["i"], row["message"]) for row in rows] == [(39, {"body": bytes(100)}), (0, None), (99, None)]


def test_a_message_whose_body_does_not_decompress_is_found_with_the_reason(tmp_path):
    with rocketstore.open(tmp_path, "a", config=config_of()) as store:
        store.put_message(rocketstore.Message("T", b"no zlib", keys=["k"], sys_flag=COMPRESSED))
        store.put_message(rocketstore.Message("T", b"sound", keys=["k"]))
    options = ReadOptions(path=tmp_path, columns=("body", "bodyError", "rawBody"), max_batch_bytes=LONG_MAX)
    wanted = query_of(options)
    bad_bodies = BadBodies()
    batches = query.find_batch(wanted, pa.record_batch({"key": ["k"], "row": [{"i": 0}]}), bad_bodies)
    newest, oldest = (row["message"] for batch in batches for row in batch.to_pylist())
    assert newest == {"body": b"sound", "bodyError": None, "rawBody": b"sound"}
    assert oldest.pop("bodyError").startswith("body: does not decompress with zlib")
    assert oldest == {"body": None, "rawBody": b"no zlib"}
    assert bad_bodies.count == 1
    assert f"commitlog/{0:020}: body at byte 0: does not decompress" in bad_bodies.first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["bodies"]}, "column bodies is unknown"),
        ({"index_type": "X"}, "index_type='X'"),
        ({"limit": 0}, "limit=0"),
    ],
)
def test_what_cannot_be_is_refused_before_any_job(spark, store, asked, options, message):
    with pytest.raises(ValueError, match=message):
        query_messages(spark, str(store), asked, topic="T", key="key", **options)


@pytest.mark.parametrize("options", [{"topic": None}, {"since": 1.5}, {"until": 1.5}])
def test_a_topic_and_times_of_other_types_are_refused_before_any_job(spark, store, asked, options):
    with pytest.raises(TypeError, match=f"{next(iter(options))}="):
        query_messages(spark, str(store), asked, **{"topic": "T", "key": "key", **options})


def test_columns_of_the_result_must_be_free(spark, store, asked):
    for name in ("complete", "Complete"):
        with pytest.raises(ValueError, match="'complete' already: rename it"):
            query_messages(spark, str(store), asked.withColumn(name, F.lit(1)), topic="T", key="key")

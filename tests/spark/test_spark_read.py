"""rocketstore.spark.read: the rows of the data source, for each table, option and schema."""

from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from pyspark.errors import PySparkException
from reference.commit_log import make_commit_log
from support import states, stores
from support.repetitions import only_some_quick
from support.several_stores import draw_stores

import rocketstore
from rocketstore.messages.bodies import BadBodies
from rocketstore.spark import read, register
from rocketstore.spark.source.read import PickledParts

BEGIN = 1_700_000_000_000
MANY = "topic,queueId,queueOffset,phyOffset,body_text,body_json,bodyError,rawBody,tagsCode,bornTimestampMs,properties"
QUERIES = [
    {},
    {"columns": MANY},
    {"includeHeaders": True, "minPartitions": 5, "batchSize": 7},
    {"schemaStyle": "kafka", "includeHeaders": "true", "brokerName": "b"},
    {"subscribe": "TopicTest", "queueIds": "0,1", "tags": "TagA||TagB"},
    {"mode": "PERMISSIVE", "verifyCrc": True, "maxPartitionBytes": "4k"},
    {"table": "consumequeue"},
    {"table": "index"},
    {"table": "offsets", "columns": "topic,queueId,maxOffset,group,consumerOffset"},
    {"subscribe": "absent"},
]


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    return stores.unpack("rich-5.5.0", tmp_path_factory.mktemp("rich"))


@pytest.fixture(scope="module")
def session(spark):
    register(spark)
    return spark


def source(spark, path, schema=None, **options):
    reader = spark.read.format("rocketstore")
    return (reader if schema is None else reader.schema(schema)).options(**options).load(path).toArrow()


@pytest.mark.parametrize("options", only_some_quick(QUERIES, QUERIES[1], QUERIES[3], QUERIES[6], QUERIES[9]), ids=str)
def test_rows_are_those_of_the_data_source(session, rich, options):
    table = read(session, rich, **options).toArrow()
    assert table.equals(source(session, str(rich), **options))
    assert bool(len(table)) == (options != {"subscribe": "absent"})


@pytest.mark.parametrize(
    "table", only_some_quick(["messages", "consumequeue", "index", "offsets"], "messages", "index")
)
def test_rows_of_several_stores_are_those_of_the_data_source(session, table, tmp_path):
    roots = [str(root) for root in draw_stores(tmp_path).values()]
    expected = source(session, roots, table=table)
    assert read(session, roots, table=table).toArrow().equals(expected)
    assert read(session, f"{tmp_path}/*/store", table=table).toArrow().equals(expected)
    assert len(set(expected["broker"].to_pylist())) == len(roots)


@pytest.mark.parametrize("name", ["tiered", "compaction"])
def test_rows_of_other_logs_are_those_of_the_data_source(session, name, tmp_path):
    root = states.unpack(name, tmp_path)
    options = {"compacted": "true"} if name == "compaction" else {"tier": f"{tmp_path}/tiered-data"}
    assert read(session, root, **options).toArrow().equals(source(session, str(root), **options))


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Shanghai"])
def test_times_do_not_depend_on_the_time_zone_of_the_session(session, rich, zone):
    session.conf.set("spark.sql.session.timeZone", zone)
    try:
        frames = [read(session, rich), session.read.format("rocketstore").load(str(rich))]
        ours, theirs = [frame.selectExpr("unix_millis(storeTimestamp)").toArrow() for frame in frames]
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
    assert ours.equals(theirs)


def test_a_schema_has_the_columns_to_read_and_their_names(session, rich):
    schema = "STORETIMESTAMP timestamp, queueid int, keys array<string>"
    table = read(session, rich, schema).toArrow()
    assert table.column_names == ["STORETIMESTAMP", "queueid", "keys"]
    assert table.equals(source(session, str(rich), schema))
    with pytest.raises(ValueError, match="column queueId: the type must be int"):
        read(session, rich, "queueId long")


def test_arguments_are_those_of_python(session, tmp_path):
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as store:
        for i in range(40):
            message = rocketstore.Message(f"T{i % 4}", b"%d" % i, tags="abc"[i % 3], queue_id=0)
            store.put_message(message, store_timestamp=BEGIN + 1000 * i)
    since, until = datetime.fromtimestamp(BEGIN / 1000 + 4, UTC), "2023-11-14T22:13:30Z"
    given = {"columns": ["body", "topic"], "topics": ["T0", "T1"], "tags": ["a", "b"], "since": since, "until": until}
    options = {"columns": "body,topic", "subscribe": "T0,T1", "tags": "a||b", "exactTimes": "true"}
    options |= {"startingTimestamp": BEGIN + 4000, "endingTimestamp": BEGIN + 10_000}
    table = read(session, tmp_path, **given, exactTimes=True).toArrow()
    assert table.equals(source(session, str(tmp_path), **options))
    assert table["body"].to_pylist() == [b"4", b"9"]
    assert read(session, tmp_path, topics="T1", columns="body").count() == 10


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topic": "T"}, "option 'topic' is unknown: did you mean subscribe"),
        ({"topics": "T", "subscribe": "T"}, "option subscribe: an argument of read\\(\\) gives it too"),
        (
            {"since": 1, "startingtimestamp": 1},
            "option startingtimestamp: an argument of read\\(\\) gives it too: give only one",
        ),
        ({"since": 1_700_000_000}, "since=1700000000 looks like seconds"),
        ({"topics": ["a,b"]}, "topics: 'a,b' has a comma"),
        ({"columns": ["absent"]}, "column absent is unknown"),
        ({"maxBytesPerTrigger": "1g"}, "option maxBytesPerTrigger: only streams have it"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_refused_when_it_is_given(rich, options, reason):
    with pytest.raises(ValueError, match=reason):
        read(None, rich, **options)


def test_a_missing_store_is_refused_when_it_is_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        read(None, tmp_path / "absent")


def test_damage_fails_the_query_and_names_its_place(session, tmp_path):
    (tmp_path / "commitlog").mkdir()
    records = [{"body": b"body %d" % i} for i in range(9)]
    offsets = make_commit_log(tmp_path / "commitlog", 4096, records)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(offsets[3] + 4)
        file.write(b"\xde\xad")
    with pytest.raises(PySparkException, match=f"magic at byte {offsets[3]}"):
        read(session, tmp_path).count()
    assert read(session, tmp_path, mode="DROPMALFORMED").count() == 8


def test_an_empty_store_has_no_rows(session, tmp_path):
    (tmp_path / "commitlog").mkdir()
    assert read(session, tmp_path).collect() == []


def test_a_frame_has_the_messages_at_the_time_of_the_call(session, tmp_path):
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as store:
        store.put_message(rocketstore.Message("T", b"1"))
    frame = read(session, tmp_path)
    with rocketstore.open(tmp_path, "a") as store:
        store.put_message(rocketstore.Message("T", b"2"))
    assert [frame.count(), read(session, tmp_path).count()] == [1, 2]


def test_a_task_unpickles_only_its_own_part():
    parts = PickledParts.of([{"part": 0}, BadBodies(), {"part": 2}])
    damaged = parts._replace(data=parts.data.replace(b"BadBodies", b"Absentees"))
    assert [damaged.load(0), damaged.load(2)] == [{"part": 0}, {"part": 2}]
    with pytest.raises(AttributeError):
        damaged.load(1)

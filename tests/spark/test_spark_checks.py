"""What the source says of options that match nothing, of times of queues, and of how far a stream is behind."""

import json
import logging
import random
import re

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from support.spark_reads import data_source, limits, read_table, reader_of

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.logger import logger
from rocketstore.spark import StreamLag, stream_lag
from rocketstore.spark.source import plan

BEGIN = 1_700_000_000_000
needs_limits = pytest.mark.skipif(limits is None, reason="limits of a stream need pyspark 4.2")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("checks") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        for i in range(40):
            topic = ["Orders", "Payments"][i % 2]
            message = Message(topic, b"%d" % i, queue_id=i // 2 % 2, keys=[f"k{i}"])
            store.put_message(message, store_timestamp=BEGIN + 1000 * i)
    return root


@pytest.fixture
def warnings(caplog, monkeypatch):
    """The warnings that were logged since the last call."""
    monkeypatch.setattr(logger, "propagate", True)
    caplog.set_level(logging.WARNING, logger.name)
    for name in ("rocketstore.spark.source.checks", "rocketstore.spark.source.plan"):
        monkeypatch.setattr(f"{name}.warn_once", lambda text: logger.warning("%s", text))

    def take():
        texts = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return texts

    return take


def stream_of(root, **options):
    source = data_source(root, **options)
    return source.streamReader(source.schema())


# ---- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "Order"}, "option subscribe: .*topic 'Order'.*did you mean 'Orders'"),
        ({"assign": '{"Paymets":[0]}'}, "option assign: .*'Paymets'.*did you mean 'Payments'"),
        ({"subscribePattern": "Order*"}, r"option subscribePattern='Order\*' matches no topic.*mean 'Order\.\*'"),
        ({"subscribePattern": "orders"}, "matches no topic of the store: did you mean 'Orders'"),
        ({"startingOffsets": '{"Ordres":{"0":5}}'}, "option startingOffsets: .*'Ordres'.*did you mean 'Orders'"),
        ({"endingOffsets": '{"Ordres":{"0":5}}'}, "option endingOffsets: .*'Ordres'.*did you mean 'Orders'"),
        ({"startingOffsetsByTimestamp": '{"Ordres":{"0":5}}'}, "option startingOffsetsByTimestamp: .*'Ordres'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_topic_that_is_nowhere_is_warned_of_with_the_most_similar_one(root, warnings, options, text):
    reader_of(root, **options)[0].partitions()
    (found,) = warnings()
    assert re.search(text, found), found
    if "endingOffsets" not in options:
        stream_of(root, **options).initialOffset()
        assert len(warnings()) == 1
    if "Offsets" not in next(iter(options)):
        reader_of(root, table="offsets", **options)[0].partitions()
        assert len(warnings()) == 1


def test_names_that_match_are_not_warned_of(root, warnings):
    for options in ({"subscribe": "Orders"}, {"subscribePattern": "Order.*"}, {"assign": '{"Payments":[0]}'},
                    {"startingOffsets": '{"Orders":{"0":1}}'}, {"subscribe": "Orders", "keys": "k2"}):  # fmt: skip
        reader_of(root, **options)[0].partitions()
        assert warnings() == []


def test_keys_with_a_comma_that_find_nothing_are_warned_of(root, warnings):
    for options in ({"subscribe": "Orders", "keys": "k2,k4"}, {"keys": "k2,k4"}):
        assert read_table(root, **options).num_rows == 0
        assert warnings() == ["option keys: 'k2,k4' is one key, since keys are separated by spaces, not by commas"]


def test_options_that_make_a_great_many_tasks_are_refused(root, monkeypatch):
    monkeypatch.setattr(plan, "MAX_TASKS", 3)
    with pytest.raises(ValueError, match=r"option maxPartitionBytes: makes [0-9]+ tasks of 1,024 bytes of the log"):
        reader_of(root, maxPartitionBytes="1k")[0].partitions()
    with pytest.raises(ValueError, match=r"option minPartitions: makes [0-9]+ tasks"):
        reader_of(root, minPartitions="100")[0].partitions()


# ---- times of queues ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(8))
def test_queues_begin_at_their_first_message_of_a_time(root, case):
    draw = random.Random(case)
    topics = ("Orders", "Payments")
    times = {topic: {str(id): BEGIN + draw.randrange(-5000, 45_000) for id in draw.sample([0, 1], draw.randrange(3))}
             for topic in topics}  # fmt: skip
    columns = {"columns": "topic,queueId,queueOffset,storeTimestampMs"}
    rows = read_table(root, **columns).to_pylist()
    expected = [row for row in rows
                if row["storeTimestampMs"] >= times[row["topic"]].get(str(row["queueId"]), 0)]  # fmt: skip
    given = {**columns, "startingOffsetsByTimestamp": json.dumps(times)}
    assert read_table(root, **given).to_pylist() == expected
    stream = stream_of(root, **given)
    begin = stream.initialOffset()
    end = stream.latestOffset(begin, limits and limits.ReadAllAvailable())
    found = [row for part in stream.partitions(begin, end) for batch in stream.read(part) for row in batch.to_pylist()]
    assert found == expected
    assert json.loads(json.dumps(begin)) == begin
    stream.stop()


# ---- streams -----------------------------------------------------------------------------------------------


@needs_limits
def test_a_batch_waits_for_the_least_number_of_messages(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("rocketstore.spark.source.stream.time.monotonic", lambda: now[0])
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:

        def put(n):
            store.put_messages([Message("T", b"x") for _ in range(n)])
            store.flush()

        put(3)
        options = {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "30s", "startingOffsets": "earliest"}
        stream = stream_of(tmp_path, subscribe="T", **options)
        limit, at = stream.getDefaultReadLimit(), stream.initialOffset()
        first = stream.latestOffset(at, limit)
        assert first != at  # the first batch does not wait
        put(2)
        assert stream.latestOffset(first, limit) == first
        put(2)
        assert stream.latestOffset(first, limit) == first
        put(1)
        second = stream.latestOffset(first, limit)
        assert sum(batch.num_rows for part in stream.partitions(first, second) for batch in stream.read(part)) == 5
        put(1)
        assert stream.latestOffset(second, limit) == second
        now[0] += 31
        assert stream.latestOffset(second, limit) != second
        put(1)
        stream.prepareForTriggerAvailableNow()
        assert stream.latestOffset(second, limit) != second
        stream.stop()


@needs_limits
def test_the_lag_of_a_stream_is_in_its_newest_offset(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        for i in range(10):
            store.put_message(Message("T", b"x"), store_timestamp=BEGIN + i)
        store.flush()
        stream = stream_of(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="4")
        limit, at = stream.getDefaultReadLimit(), stream.initialOffset()
        lags = []
        while (end := stream.latestOffset(at, limit)) != at:
            latest = stream.reportLatestOffset()
            progress = {"sources": [{"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}]}
            (lag,) = stream_lag(progress)
            assert lag.lag_bytes == latest["lagBytes"] == latest["phyOffset"] - end["phyOffset"]
            assert lag.newest_store_timestamp == BEGIN + 9
            lags.append(lag.lag_bytes)
            at = end
        assert len(lags) == 3
        assert sorted(lags, reverse=True) == lags
        assert lags[-1] == 0
        stream.stop()


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], []),
        ([{"endOffset": None, "latestOffset": None}], []),
        ([{"endOffset": '{"T":{"0":5}}', "latestOffset": '{"T":{"0":9}}'}], []),
        ([{"endOffset": "7", "latestOffset": "9"}, {"latestOffset": "no JSON"}], []),
        ([{"endOffset": {"phyOffset": 7}, "latestOffset": {"phyOffset": 9, "lagBytes": 0}}], [StreamLag(2, None)]),
        ([{"latestOffset": '{"phyOffset": 9, "lagBytes": 5, "newestStoreTimestamp": 8}'}], [StreamLag(5, 8)]),
    ],
)
def test_the_lag_of_other_sources_is_left_out(sources, expected):
    assert stream_lag({"sources": sources}) == expected

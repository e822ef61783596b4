"""Messages as a stream in Spark: each once, whatever the limits, restarts and writers."""

import json
import random
import shutil
import threading
import time
from dataclasses import replace

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from reference.commit_log import make_commit_log
from support import stores
from support.spark_reads import batches_of, data_source, limits, read_table, records_with_one_in_a_body, spark_schema

import rocketstore
from rocketstore import Message, StoreConfig, StoreError
from rocketstore.spark import register
from rocketstore.spark.source import stream
from rocketstore.spark.source.stream import RocketStoreStreamReader

needs_limits = pytest.mark.skipif(limits is None, reason="limits of a stream need pyspark 4.2")

LIMITS = ("maxBytesPerTrigger", "maxOffsetsPerTrigger", "maxFilesPerTrigger")
BEGIN = 1_700_000_000_000
DAY = 86_400_000
FILE = 4096
CONFIG = StoreConfig(mapped_file_size_commit_log=FILE, max_hash_slot_num=97, max_index_num=1000)


def new_reader(root, **options):
    source = data_source(root, **options)
    schema = source.schema()
    return source.streamReader(schema), spark_schema(schema)


def batches(reader, start, limit=None):
    """The (start, end) of batches as Spark would ask for them, until nothing is left."""
    if limits is None:
        end = reader.latestOffset()
        yield from [(start, end)] if start != end else []
        return
    limit = limit or reader.getDefaultReadLimit()
    while (end := reader.latestOffset(start, limit)) != start:
        yield start, end
        start = end


def read_batch(reader, schema, start, end):
    found = batches_of(RocketStoreStreamReader(reader.options, reader.table), schema, reader.partitions(start, end))
    return pa.Table.from_batches(found, schema)


def stream_all(root, **options):
    """Stream all messages, and return the physical offsets of each batch."""
    reader, schema = new_reader(root, **{"columns": "phyOffset", "startingOffsets": "earliest", **options})
    found = [
        read_batch(reader, schema, *batch)["phyOffset"].to_pylist() for batch in batches(reader, reader.initialOffset())
    ]
    reader.stop()
    return found


def flat(lists):
    return [value for values in lists for value in values]


def put(store, n, first=0, **fields):
    for i in range(first, first + n):
        store.put_message(Message("T", b"body %d" % i, queue_id=i % 2, **fields), store_timestamp=BEGIN + 1000 * i)


def damage(root, phy_offset):
    with (root / "commitlog" / f"{phy_offset // FILE * FILE:020d}").open("r+b") as file:
        file.seek(phy_offset % FILE)
        file.write(bytes(60))


@pytest.fixture
def writer(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=CONFIG) as store:
        put(store, 100)
        store.flush()
        yield store


@pytest.fixture
def log(tmp_path):
    """The offsets of a log of 100 records of different sizes in several files."""
    (tmp_path / "commitlog").mkdir()
    draw = random.Random(7)
    return make_commit_log(tmp_path / "commitlog", FILE, [{"body": bytes(draw.randrange(500))} for _ in range(100)])


def all_offsets(root):
    return read_table(root, columns="phyOffset")["phyOffset"].to_pylist()


# ---- offsets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rich-5.5.0", "cut-5.3.3", "crash-5.3.3", "broker-5.5.0"])
def test_a_stream_has_the_messages_of_a_batch_query(name, tmp_path):
    root = stores.unpack(name, tmp_path)
    assert stream_all(root) == [all_offsets(root)]
    assert flat(stream_all(root, maxPartitionBytes="2k")) == all_offsets(root)
    if limits:
        assert flat(stream_all(root, maxBytesPerTrigger="10k", maxPartitionBytes="2k")) == all_offsets(root)


def test_a_stream_begins_at_the_end_and_continues_as_the_log_grows(writer):
    reader, schema = new_reader(writer.path, columns="body")
    start = reader.initialOffset()
    assert (start.pop("v"), start.pop("phyOffset"), start.keys()) == (1, writer.commit_log.max_phy_offset, {"mark"})
    start = reader.initialOffset()
    assert list(batches(reader, start)) == []
    put(writer, 60, first=100)
    ((start, end),) = batches(reader, start)
    assert read_batch(reader, schema, start, end)["body"].to_pylist() == [b"body %d" % i for i in range(100, 160)]
    assert reader.reportLatestOffset()["phyOffset"] == end["phyOffset"]
    reader.stop()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingOffsets": "earliest"}, range(100)),
        ({"startingTimestamp": str(BEGIN + 70_000)}, range(70, 100)),
        ({"startingTimestamp": str(BEGIN + 10**9)}, []),
        ({"startingOffsets": '{"T":{"0":10,"1":-2}}'}, [i for i in range(100) if i % 2 or i >= 20]),
        ({"startingOffsets": '{"T":{"0":10,"1":40}}', "assign": '{"T":[0,1]}'},
         [i for i in range(100) if i >= (80 if i % 2 else 20)]),
        ({"startingOffsets": '{"T":{"0":10,"1":-1}}'}, [i for i in range(20, 100) if i % 2 == 0]),
        ({"startingOffsets": "earliest", "queueIds": "1"}, range(1, 100, 2)),
        ({"startingOffsets": "earliest", "subscribe": "absent"}, []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("limit", [{}, pytest.param({"maxBytesPerTrigger": "1000"}, marks=needs_limits)])
def test_a_stream_begins_at_its_given_start(writer, options, wanted, limit):
    reader, schema = new_reader(writer.path, columns="body", **options, **limit)
    start = reader.initialOffset()
    put(writer, 20, first=100)
    new = [i for i in range(100, 120) if options.get("queueIds") is None or i % 2]
    new = [] if "subscribe" in options or "1000000000" in str(wanted) else new
    if options.get("startingTimestamp") == str(BEGIN + 10**9):
        new = []
    found = [read_batch(reader, schema, *batch)["body"].to_pylist() for batch in batches(reader, start)]
    assert flat(found) == [b"body %d" % i for i in [*wanted, *new]]
    assert not limit or not wanted or len(found) > 1
    reader.stop()


@pytest.mark.parametrize("exact", [False, True])
def test_a_stream_by_time_says_which_clocks_it_assumes(tmp_path, caplog, exact):
    """The clock was a month ahead for one message of the third file."""
    (tmp_path / "commitlog").mkdir()
    times = [BEGIN + DAY // 2 * n + 30 * DAY * (n == 25) for n in range(100)]
    make_commit_log(tmp_path / "commitlog", FILE, [{"store_timestamp": time, "body": bytes(300)} for time in times])
    options = {"startingTimestamp": str(times[25]), **({"exactTimes": "true"} if exact else {})}
    reader, schema = new_reader(tmp_path, columns="storeTimestampMs", **options)
    start = reader.initialOffset()
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == (not exact)
    assert exact or texts[0].endswith("option exactTimes=true reads every file")
    found = flat(read_batch(reader, schema, *batch)["storeTimestampMs"].to_pylist() for batch in batches(reader, start))
    assert found == [time for n, time in enumerate(times) if time >= times[25] and (exact or n != 25)]
    reader.stop()


def test_an_assigned_stream_begins_behind_what_it_does_not_want(writer):
    reader, _ = new_reader(writer.path, assign='{"T":[0]}', startingOffsets='{"T":{"0":40}}')
    assert reader.initialOffset()["phyOffset"] == all_offsets(writer.path)[80]
    reader.stop()


@pytest.mark.parametrize("other", [
    {"startingOffsets": '{"T":{"0":70,"1":70}}'}, {"startingOffsets": "latest"}, {"startingPhyOffset": "10000"},
    {"startingTimestamp": str(BEGIN + 110_000)},
])  # fmt: skip
@pytest.mark.parametrize("first", [
    {"startingOffsets": '{"T":{"0":10,"1":-1}}'}, {"startingTimestamp": str(BEGIN + 70_000)},
    pytest.param({"startingOffsets": '{"T":{"0":10,"1":-1}}', "maxBytesPerTrigger": "1000"}, marks=needs_limits),
])  # fmt: skip
def test_what_a_stream_begins_by_counts_for_a_new_one_only(writer, first, other):
    old, _ = new_reader(writer.path, columns="phyOffset", **first)
    reader, schema = new_reader(writer.path, columns="phyOffset", **other)
    start = json.loads(json.dumps(old.initialOffset()))
    expected = all_offsets(writer.path)
    expected = expected[70:] if "startingTimestamp" in first else expected[20::2]
    put(writer, 20, first=100)
    found = [read_batch(reader, schema, *batch)["phyOffset"].to_pylist() for batch in batches(reader, start)]
    assert flat(found) == expected + all_offsets(writer.path)[100:]
    old.stop()
    reader.stop()


def test_a_queue_that_is_made_again_is_read_from_its_new_beginning(tmp_path):
    (tmp_path / "commitlog").mkdir()
    records = [{"topic": "T", "queue_id": 0, "queue_offset": i % 20} for i in range(40)]
    make_commit_log(tmp_path / "commitlog", FILE, records[:20])
    reader, schema = new_reader(tmp_path, columns="queueOffset", startingOffsets='{"T":{"0":15}}')
    start = reader.initialOffset()
    make_commit_log(tmp_path / "commitlog", FILE, records)
    ((start, end),) = batches(reader, start)
    assert read_batch(reader, schema, start, end)["queueOffset"].to_pylist() == [*range(15, 20), *range(20)]
    assert end.keys() == {"v", "phyOffset", "mark", "begin"}
    reader.stop()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingPhyOffset": "50000"}, "startingPhyOffset 50000 does not exist yet, the log ends at"),
        ({"startingOffsets": '{"T":{"0":9,"1":51}}'}, "message 51 of queue 1 of 'T' does not exist yet"),
    ],
)
def test_a_stream_does_not_begin_behind_the_end_of_the_log(writer, options, reason):
    reader, _ = new_reader(writer.path, **options)
    with pytest.raises(StoreError, match=reason):
        reader.initialOffset()
    reader.stop()
    reader, schema = new_reader(writer.path, columns="phyOffset", failOnDataLoss="false", **options)
    start, end = reader.initialOffset(), writer.commit_log.max_phy_offset
    put(writer, 20, first=100)
    found = [read_batch(reader, schema, *batch)["phyOffset"].to_pylist() for batch in batches(reader, start)]
    assert [offset for offset in flat(found) if offset >= end] == all_offsets(writer.path)[100:]
    reader.stop()


# ---- limits ------------------------------------------------------------------------------------------------


@needs_limits
@pytest.mark.parametrize("size", [1, 100, 500, 1000, 5000, 9999, 10**6])
@pytest.mark.parametrize("window", [1, 700, 8 << 20])
def test_a_batch_has_at_most_so_many_bytes_but_for_a_single_record(tmp_path, log, size, window, monkeypatch):
    monkeypatch.setattr(stream, "LARGE_RECORD", window)
    reader, schema = new_reader(tmp_path, startingOffsets="earliest", maxBytesPerTrigger=str(size), columns="phyOffset")
    offsets = []
    for start, end in batches(reader, reader.initialOffset()):
        begin, stop = start["phyOffset"], end["phyOffset"]
        found = read_batch(reader, schema, start, end)["phyOffset"].to_pylist()
        assert stop - begin <= size or len(found) <= 1
        offsets.append(found)
    assert flat(offsets) == log
    assert len(offsets) == 1 if size == 10**6 else len(offsets) > 1
    reader.stop()


@needs_limits
@pytest.mark.parametrize("size", range(1500, 3500, 100))
def test_a_batch_does_not_end_at_a_record_in_a_body(tmp_path, size, monkeypatch):
    monkeypatch.setattr(stream, "LARGE_RECORD", 1200)
    (tmp_path / "commitlog").mkdir()
    offsets = make_commit_log(tmp_path / "commitlog", FILE, records_with_one_in_a_body()[0])
    assert flat(stream_all(tmp_path, maxBytesPerTrigger=str(size))) == offsets


@needs_limits
@pytest.mark.parametrize("most", [1, 3, 7, 99, 100, 101])
def test_a_batch_has_at_most_so_many_messages(tmp_path, log, most):
    found = stream_all(tmp_path, maxOffsetsPerTrigger=str(most))
    assert flat(found) == log
    assert [len(offsets) for offsets in found] == [most] * (100 // most) + [100 % most] * (100 % most > 0)


@needs_limits
def test_a_batch_with_damage_in_it_has_as_many_messages_as_others(tmp_path, log):
    damage(tmp_path, log[5])
    found = stream_all(tmp_path, mode="DROPMALFORMED", maxOffsetsPerTrigger="10")
    assert [len(offsets) for offsets in found] == [10] * 9 + [9]


@needs_limits
@pytest.mark.parametrize("rows", ["3", "16384"])
@pytest.mark.parametrize(
    "options",
    [
        {"queueIds": "1"},
        {"assign": '{"T":[1],"U":[0]}'},
        {"subscribePattern": "T", "queueIds": "1"},
        {"startingOffsets": '{"T":{"0":-1,"1":0}}'},
    ],
)
def test_only_messages_that_are_wanted_are_counted(writer, options, rows):
    found = stream_all(writer.path, maxOffsetsPerTrigger="10", batchSize=rows, **options)
    assert [len(offsets) for offsets in found if offsets] == [10] * 5
    assert flat(found) == all_offsets(writer.path)[1::2]
    assert len(found) <= 6


@needs_limits
def test_a_batch_has_at_most_so_many_files(tmp_path, log):
    found = stream_all(tmp_path, maxFilesPerTrigger="2")
    assert flat(found) == log
    files = [{offset // FILE for offset in offsets} for offsets in found]
    assert files == [{2 * i, 2 * i + 1} & {offset // FILE for offset in log} for i in range(len(found))]
    assert len(found) > 2


@needs_limits
def test_all_limits_hold_together_and_read_all_available_ignores_them(tmp_path, log):
    options = {"maxOffsetsPerTrigger": "30", "maxBytesPerTrigger": "5000", "maxFilesPerTrigger": "1"}
    found = stream_all(tmp_path, **options)
    assert flat(found) == log
    reader, _ = new_reader(tmp_path, startingOffsets="earliest", **options)
    assert reader.getDefaultReadLimit() == limits.ReadMaxBytes(5000)
    assert len(list(batches(reader, reader.initialOffset(), limits.ReadAllAvailable()))) == 1
    reader.stop()
    for name, limit in {
        "maxOffsetsPerTrigger": limits.ReadMaxRows(9),
        "maxFilesPerTrigger": limits.ReadMaxFiles(9),
    }.items():
        reader, _ = new_reader(tmp_path, **{name: "9"})
        assert reader.getDefaultReadLimit() == limit
    assert new_reader(tmp_path)[0].getDefaultReadLimit() == limits.ReadAllAvailable()


@needs_limits
def test_a_query_with_trigger_available_now_ends_at_the_end_of_its_start(writer):
    reader, _ = new_reader(writer.path, startingOffsets="earliest", maxBytesPerTrigger="2k")
    reader.prepareForTriggerAvailableNow()
    end = writer.commit_log.max_phy_offset
    put(writer, 50, first=100)
    assert list(batches(reader, reader.initialOffset()))[-1][1]["phyOffset"] == end
    reader.stop()


def test_where_pyspark_has_no_limits_they_are_refused(tmp_path, log, monkeypatch):
    monkeypatch.setattr(stream, "SupportsTriggerAvailableNow", None)
    with pytest.raises(ValueError, match="need PySpark 4\\.2"):
        new_reader(tmp_path, maxBytesPerTrigger="1k")
    reader, schema = new_reader(tmp_path, startingOffsets="earliest", columns="phyOffset")
    found = read_batch(reader, schema, reader.initialOffset(), reader.latestOffset())
    assert found["phyOffset"].to_pylist() == log
    reader.stop()


# ---- what goes wrong ---------------------------------------------------------------------------------------


@needs_limits
def test_what_expired_before_it_was_read_obeys_fail_on_data_loss(tmp_path, log):
    strict, schema = new_reader(tmp_path, startingOffsets="earliest", columns="phyOffset")
    start = strict.initialOffset()
    end = strict.latestOffset(start, limits.ReadAllAvailable())
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    for reader in (strict, new_reader(tmp_path)[0]):
        with pytest.raises(StoreError, match="the log from 0 to 4096 was deleted before it was read"):
            reader.partitions(start, end)
        reader.stop()
    lax, schema = new_reader(tmp_path, failOnDataLoss="false", columns="phyOffset", maxFilesPerTrigger="1")
    found = [read_batch(lax, schema, *batch)["phyOffset"].to_pylist() for batch in batches(lax, start)]
    assert flat(found) == [offset for offset in log if offset >= FILE]
    lax.stop()


@needs_limits
def test_a_first_batch_that_was_not_done_is_the_same_again(writer):
    """Spark then has where it ends from the checkpoint, and asks anew where the stream begins."""
    given = {"columns": "body", "startingOffsets": '{"T":{"0":10,"1":-1}}'}
    old, schema = new_reader(writer.path, **given)
    start = old.initialOffset()
    put(writer, 20, first=100)
    end = json.loads(json.dumps(old.latestOffset(start, limits.ReadAllAvailable())))
    put(writer, 20, first=120)
    again, _ = new_reader(writer.path, columns="body", startingOffsets="latest")
    for reader in (old, again):
        found = read_batch(reader, schema, reader.initialOffset(), end)["body"].to_pylist()
        assert found == [b"body %d" % i for i in [*range(20, 100, 2), *range(100, 120)]]
    ((_, last),) = batches(again, end)
    assert read_batch(again, schema, end, last)["body"].to_pylist() == [b"body %d" % i for i in range(120, 140)]
    assert "begin" not in last["begin"]
    old.stop()
    again.stop()


@needs_limits
def test_what_expired_before_a_first_batch_was_done_obeys_fail_on_data_loss(tmp_path, log):
    reader, _ = new_reader(tmp_path, startingOffsets="earliest", columns="phyOffset")
    end = reader.latestOffset(reader.initialOffset(), limits.ReadAllAvailable())
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    again, _ = new_reader(tmp_path, startingOffsets="earliest", columns="phyOffset")
    with pytest.raises(StoreError, match="the log from 0 to 4096 was deleted before it was read"):
        again.partitions(again.initialOffset(), end)
    reader.stop()
    again.stop()


@needs_limits
def test_a_log_that_was_cut_behind_the_checkpoint_is_noticed(tmp_path, log):
    start, end = {"v": 1, "phyOffset": log[-1]}, {"v": 1, "phyOffset": log[-1] + 100_000}
    reader, _ = new_reader(tmp_path)
    with pytest.raises(StoreError, match=f"before the query's position {log[-1] + 100_000}: the log was cut"):
        reader.latestOffset(end, limits.ReadAllAvailable())
    with pytest.raises(StoreError, match=f"before the end {log[-1] + 100_000} of the batch"):
        reader.partitions(start, end)
    with pytest.raises(ValueError, match="another version"):
        reader.partitions({"v": 2, "phyOffset": 0}, end)


def cut(root, offset):
    """Cut a store's log, as a write that is undone or a loss of power does."""
    for path in (root / "commitlog").iterdir():
        if int(path.name) >= offset:
            path.unlink()
        elif int(path.name) + FILE > offset:
            with path.open("r+b") as file:
                file.seek(offset - int(path.name))
                file.write(bytes(FILE - offset % FILE))
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)


@needs_limits
@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("sees", ["the cut", "what was put behind it"])
def test_a_log_that_is_cut_and_written_again_loses_no_more_than_was_cut(writer, sees, is_restarted):
    root, all_of_it = writer.path, limits.ReadAllAvailable()
    writer.close()
    reader, schema = new_reader(root, columns="phyOffset", startingOffsets="earliest", failOnDataLoss="false")
    read = all_offsets(root)
    start = reader.latestOffset(reader.initialOffset(), all_of_it)
    cut(root, read[-3])
    strict, _ = new_reader(root)
    if is_restarted:
        reader.stop()
        reader, _ = new_reader(root, columns="phyOffset", failOnDataLoss="false")
    if sees == "the cut":
        with pytest.raises(StoreError, match=f"ends at {read[-3]}, before the query's position {start['phyOffset']}"):
            strict.latestOffset(start, all_of_it)
        end = reader.latestOffset(start, all_of_it)
        assert len(read_batch(reader, schema, start, end)) == 0
        start = end
        assert start["phyOffset"] == read[-3]
    with rocketstore.open(root, "r+") as again:
        put(again, 30, tags="of another size")
    end = reader.latestOffset(start, all_of_it)
    if sees != "the cut":
        with pytest.raises(StoreError, match=f"the query's position {start['phyOffset']} is within a message"):
            strict.partitions(start, end)
    found = read_batch(reader, schema, start, end)["phyOffset"].to_pylist()
    assert found == [offset for offset in all_offsets(root) if offset >= start["phyOffset"]]
    assert 20 < len(found) <= 30


@needs_limits
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_log_that_is_written_again_with_records_of_the_same_sizes_is_noticed(tmp_path, is_begun):
    root, all_of_it = tmp_path / "store", limits.ReadAllAvailable()
    with rocketstore.open(root, "a", config=CONFIG) as store:
        put(store, 100, first=100)
    reader, schema = new_reader(root, columns="body", startingOffsets="earliest" if is_begun else "latest")
    start = reader.initialOffset()
    if is_begun:
        start = reader.latestOffset(start, all_of_it)
        assert reader.latestOffset(start, all_of_it) == start
    cut(root, all_offsets(root)[-3])
    with rocketstore.open(root, "r+") as again:
        put(again, 30, first=300)
    end = reader.latestOffset(start, all_of_it)
    place, last = start["phyOffset"], all_offsets(root)[99]
    with pytest.raises(StoreError, match=f"the record at {last}, before the query's position {place}, was replaced"):
        reader.partitions(start, end)
    lax, _ = new_reader(root, columns="body", failOnDataLoss="false")
    new = [b"body %d" % i for i in range(303, 330)]
    assert read_batch(lax, schema, start, end)["body"].to_pylist() == new
    old = {"v": 1, "phyOffset": place}
    end = reader.latestOffset(old, all_of_it)
    assert read_batch(reader, schema, old, end)["body"].to_pylist() == new
    stale = end | {"mark": [end["mark"][0], end["mark"][1] ^ 1]}
    with pytest.raises(StoreError, match=f"before the query's position {end['phyOffset']}, was replaced"):
        reader.partitions(old, stale)
    for one in (reader, lax):
        one.stop()


@needs_limits
def test_the_last_record_that_was_read_may_expire(tmp_path, log):
    reader, schema = new_reader(tmp_path, columns="phyOffset", startingOffsets="earliest", maxFilesPerTrigger="1")
    start = reader.latestOffset(reader.initialOffset(), limits.ReadMaxFiles(1))
    assert (start["phyOffset"], start["mark"][0]) == (FILE, max(offset for offset in log if offset < FILE))
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    found = [read_batch(reader, schema, *batch)["phyOffset"].to_pylist() for batch in batches(reader, start)]
    assert flat(found) == [offset for offset in log if offset >= FILE]
    reader.stop()


@needs_limits
@pytest.mark.parametrize("size", [10, 5000, 3 << 20])
def test_an_offset_is_marked_by_the_record_before_it(tmp_path, size):
    config = replace(StoreConfig.small(), mapped_file_size_commit_log=8 << 20)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        for _ in range(3):
            store.put_message(Message("T", bytes(size)))
    offsets = all_offsets(tmp_path / "store")
    reader, _ = new_reader(tmp_path / "store", startingOffsets="earliest", maxOffsetsPerTrigger="1")
    assert [end["mark"][0] for _, end in batches(reader, reader.initialOffset())] == offsets
    assert "mark" not in reader.initialOffset()
    reader.stop()


@pytest.mark.parametrize("limit", [{}, *(pytest.param({name: "1"}, marks=needs_limits) for name in LIMITS)])
@pytest.mark.parametrize("place", [1, 30, 98])
def test_damage_does_not_end_a_stream(tmp_path, log, place, limit):
    damage(tmp_path, log[place])
    expected = log[:place] + log[place + 1 :]
    assert flat(stream_all(tmp_path, mode="DROPMALFORMED", **limit)) == expected
    with pytest.raises(rocketstore.CorruptFileError):
        stream_all(tmp_path, **limit)


def test_a_stream_has_the_row_of_a_body_that_cannot_be_decoded(tmp_path):
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        store.put_message(Message("T", b"sound"))
        store.put_message(Message("T", b"no zlib", sys_flag=1))
    reader, schema = new_reader(tmp_path, columns="body,bodyError,rawBody", startingOffsets="earliest")
    ((start, end),) = batches(reader, reader.initialOffset())
    with pytest.warns(UserWarning, match="1 message has a body that cannot be decoded"):
        sound, bad = read_batch(reader, schema, start, end).to_pylist()
    assert sound == {"body": b"sound", "bodyError": None, "rawBody": b"sound"}
    assert bad.pop("bodyError").startswith("body: does not decompress with zlib")
    assert bad == {"body": None, "rawBody": b"no zlib"}
    reader.stop()


def test_a_stream_that_begins_at_damage_tells_it(tmp_path, log):
    damage(tmp_path, log[30])
    reader, schema = new_reader(tmp_path, columns="phyOffset", startingPhyOffset=str(log[30]))
    start = reader.initialOffset()
    assert start["phyOffset"] == log[30]
    ((start, end),) = batches(reader, start)
    with pytest.raises(rocketstore.CorruptFileError):
        read_batch(reader, schema, start, end)
    reader.stop()


@needs_limits
def test_a_writer_at_work_loses_and_repeats_nothing(tmp_path, seed):
    """Each message once and in order, with readers that begin anew from the last offset."""
    draw = random.Random(seed)
    root = tmp_path / "store"
    done = threading.Event()

    def write():
        with rocketstore.open(root, "a", config=CONFIG) as store:
            for i in range(3000):
                store.put_message(Message("T", b"%d" % i * draw.randrange(1, 30)))
        done.set()

    with rocketstore.open(root, "a", config=CONFIG) as store:
        put(store, 1)
    thread = threading.Thread(target=write)
    thread.start()
    start, found, last = None, [], False
    while not last:
        last = done.is_set()
        reader, schema = new_reader(root, columns="phyOffset", startingOffsets="earliest", maxBytesPerTrigger="20k")
        start = start or reader.initialOffset()
        for _, (begin, end) in zip(range(10), batches(reader, start), strict=False):
            found += read_batch(reader, schema, begin, end)["phyOffset"].to_pylist()
            start = end
        last = last and reader.latestOffset(start, limits.ReadAllAvailable()) == start
        reader.stop()
    thread.join()
    assert found == all_offsets(root)
    assert len(found) == 3001


# ---- in Spark ----------------------------------------------------------------------------------------------


def run(spark, root, out, *, trigger, **options):
    frame = spark.readStream.format("rocketstore").schema("phyOffset long").options(**options).load(str(root))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
    return writer.trigger(**trigger).start(str(out / "rows"))


def rows_of(spark, out):
    return sorted(row.phyOffset for row in spark.read.parquet(str(out / "rows")).collect())


@pytest.mark.spark
def test_spark_streams_a_store_in_limited_batches_and_continues_after_a_restart(spark, writer, tmp_path):
    register(spark)
    options = {"startingOffsets": '{"T":{"0":0,"1":0}}', **({"maxBytesPerTrigger": "5k"} if limits else {})}
    query = run(spark, writer.path, tmp_path / "out", trigger={"availableNow": True}, **options)
    assert query.awaitTermination(120)
    options["startingOffsets"] = '{"T":{"0":70}}'
    assert rows_of(spark, tmp_path / "out") == all_offsets(writer.path)
    assert len(list((tmp_path / "out" / "checkpoint" / "commits").glob("[0-9]*"))) >= (2 if limits else 1)
    put(writer, 80, first=100)
    query = run(spark, writer.path, tmp_path / "out", trigger={"availableNow": True}, **options)
    assert query.awaitTermination(120)
    assert rows_of(spark, tmp_path / "out") == all_offsets(writer.path)
    assert len(all_offsets(writer.path)) == 180


@pytest.mark.spark
def test_spark_streams_a_store_that_is_written_meanwhile(spark, writer, tmp_path):
    register(spark)
    query = run(
        spark, writer.path, tmp_path / "out", trigger={"processingTime": "0 seconds"}, startingOffsets="earliest"
    )
    try:
        for i in range(10):
            put(writer, 50, first=100 + 50 * i)
            time.sleep(0.1)
    finally:
        query.stop()
    for _ in range(2 if limits is None else 1):  # pyspark 4.1 takes availableNow as once: a batch that was begun
        query = run(spark, writer.path, tmp_path / "out", trigger={"availableNow": True}, startingOffsets="earliest")
        assert query.awaitTermination(120)
    assert rows_of(spark, tmp_path / "out") == all_offsets(writer.path)
    assert len(all_offsets(writer.path)) == 600


@pytest.mark.spark
@pytest.mark.slow  # other tests of expired messages check the same error without Spark
def test_spark_fails_a_stream_whose_messages_expired(spark, writer, tmp_path):
    register(spark)
    query = run(spark, writer.path, tmp_path / "out", trigger={"availableNow": True}, startingOffsets="earliest")
    assert query.awaitTermination(120)
    put(writer, 80, first=100)
    writer.close()
    for path in sorted((writer.path / "commitlog").iterdir())[:-1]:
        path.unlink()
    query = run(spark, writer.path, tmp_path / "out", trigger={"availableNow": True})
    with pytest.raises(StreamingQueryException, match="was deleted before it was read"):
        query.awaitTermination(120)

"""What queries of Spark cost at scale: lists, requests and bytes of plans, and calls to the file system in tasks."""

import os
import pickle
import random
import shutil
import threading
import time
import zlib
from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")

import pyarrow as pa
from reference.commit_log import make_commit_log
from reference.record import build_record
from support.remote import CountedFileSystem, counted, made_store
from support.spark_reads import limits, reader_of

import rocketstore
from rocketstore import CommitLog, Message, RemotePath, StoreConfig
from rocketstore.disk.storage import sparing_reads
from rocketstore.log import sparse_search
from rocketstore.log.record_heads import read_store_timestamps
from rocketstore.spark.source.messages import MessagesReader
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema
from rocketstore.spark.source.stream import RocketStoreStreamReader
from rocketstore.spark.source.tables import TABLE_READERS, IndexReader

BEGIN = 1_700_000_000_000
DAY = 86_400_000
MIB = 1 << 20
FILE = 64 * MIB
CONFIG = StoreConfig(mapped_file_size_commit_log=FILE, max_hash_slot_num=97, max_index_num=1000)
SMALL = replace(CONFIG, mapped_file_size_commit_log=4096)


def put(store, n, size=1000):
    store.put_messages([Message("T", b"x" * size) for _ in range(n)])
    store.flush()


def reader_at(path, kind=MessagesReader, **options):
    """A reader of a store on a file system of the test's own."""
    streaming = kind is RocketStoreStreamReader
    parsed = replace(ReadOptions.parse({"path": path.path, **options}, streaming=streaming), path=path)
    return kind(parsed, table_schema(parsed, default_schema(parsed)))


def cost_of(path):
    """The lists and the bytes since the last call."""
    found = len(path.fs.lists), path.fs.bytes_read
    path.fs.lists.clear()
    path.fs.reads.clear()
    return found


def offsets_of(reader, parts):
    """The physical offsets of all rows."""
    tables = [pa.Table.from_batches([batch]) for part in parts for batch in reader.read(part)]
    return [at for table in tables for at in table["phyOffset"].to_pylist()]


# ---- plans of remote stores --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store whose last file of 64 MiB has 30 MiB of messages."""
    root = tmp_path_factory.mktemp("large") / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        put(store, 30_000)
    return root


@pytest.mark.parametrize("options", [{}, {"maxPartitionBytes": "4m"}, {"startingPhyOffset": "1092000"},
                                     {"startingTimestamp": "1"}, {"minPartitions": "7"}], ids=str)  # fmt: skip
def test_a_plan_lists_little_and_does_not_read_the_last_file(large, options):
    path = counted(large)
    reader = reader_at(path, **options)
    parts = reader.partitions()
    lists, read = cost_of(path)
    assert lists <= 3
    assert read <= 4 * MIB
    assert [part.ranges for part in parts] == [part.ranges for part in reader_of(large, **options)[0].partitions()]
    found = offsets_of(reader, parts)
    assert len(found) == 30_000 - (options.get("startingPhyOffset") is not None) * 1000
    lists, read = cost_of(path)
    data = sum(end - begin for part in parts for begin, end in part.ranges)
    assert (lists, read) == (0, pytest.approx(data, abs=1000))


QUEUES_OF_ONE_TOPIC = '{"T1": {"0": 1, "1": 1, "2": 1, "3": 1}}'
LISTS_OF_THE_LOG = [
    ({"table": "consumequeue"}, 1),
    ({"table": "offsets"}, 1),
    ({"table": "index"}, 1),
    ({}, 2),  # the log is opened, and its end is found later
    ({"subscribe": "T1"}, 2),
    ({"subscribe": "T1", "keys": "key"}, 2),
    ({"subscribe": "T1", "startingOffsetsByTimestamp": QUEUES_OF_ONE_TOPIC}, 2),
    ({"startingTimestamp": "1"}, 2),
]


def make_many_files(store):
    """Make a log of 20 files, 10 topics and several index files."""
    for topic in range(10):
        store.put_messages([Message(f"T{topic}", b"x" * 1000, keys=["key", str(i)]) for i in range(130)])
    store.flush()


def lists_of_log(monkeypatch, root, options):
    """Plan a query of a store that is just being written. Return how often its log was listed."""
    listed = []
    scandir = os.scandir
    os.utime(root / "commitlog")  # a list of a directory that has just changed is not used again
    monkeypatch.setattr(os, "scandir", lambda path=".": listed.append(str(path)) or scandir(path))
    assert reader_of(root, **options)[0].partitions()
    monkeypatch.undo()
    return listed.count(str(root / "commitlog"))


def test_a_plan_of_a_local_store_lists_the_log_once_or_twice(tmp_path, monkeypatch):
    with rocketstore.open(tmp_path, "a", config=replace(SMALL, mapped_file_size_commit_log=65536)) as store:
        make_many_files(store)
        running = [lists_of_log(monkeypatch, tmp_path, options) for options, _ in LISTS_OF_THE_LOG]
    stopped = [lists_of_log(monkeypatch, tmp_path, options) for options, _ in LISTS_OF_THE_LOG]
    (tmp_path / "abort").touch()
    crashed = [lists_of_log(monkeypatch, tmp_path, options) for options, _ in LISTS_OF_THE_LOG]
    assert running == stopped == crashed == [most for _, most in LISTS_OF_THE_LOG]


def test_a_log_of_large_messages_is_planned_with_few_bytes(tmp_path):
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        put(store, 200, 100_000)
    path = counted(tmp_path)
    parts = reader_at(path).partitions()
    assert cost_of(path)[1] <= 4 * MIB
    assert [part.ranges for part in parts] == [part.ranges for part in reader_of(tmp_path)[0].partitions()]


@pytest.mark.skipif(limits is None, reason="limits of a stream need pyspark 4.2")
def test_a_trigger_of_a_stream_reads_little_more_than_its_data(tmp_path):
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        put(store, 10_000)
        path = counted(tmp_path)
        stream = reader_at(path, RocketStoreStreamReader, maxBytesPerTrigger="8m")
        at = stream.initialOffset()
        assert cost_of(path)[1] <= 4 * MIB
        for new in (1000, 1, 12_000):
            put(store, new)
            time.sleep(1.1)  # a list is used for a second
            rows = 0
            while (end := stream.latestOffset(at, stream.getDefaultReadLimit())) != at:
                stream.reportLatestOffset()
                rows += len(offsets_of(stream, stream.partitions(at, end)))
                lists, read = cost_of(path)
                assert lists <= 3
                assert read <= end["phyOffset"] - at["phyOffset"] + 2 * MIB
                at = end
            assert rows == new
        stream.stop()


class TaggedFileSystem(CountedFileSystem):
    """Lists files with a tag of their version, as S3 does."""

    protocol = "tagged"

    def ls(self, path, detail=False, **options):
        found = super().ls(path, detail, **options)
        for entry in found if detail else ():
            if entry["type"] == "file":
                with open(entry["name"], "rb") as file:  # noqa: PTH123
                    entry["ETag"] = str(zlib.crc32(file.read()))
        return found


@pytest.mark.skipif(limits is None, reason="limits of a stream need pyspark 4.2")
@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": "500"}, {"maxBytesPerTrigger": "64k"}], ids=str)
def test_an_idle_trigger_of_a_stream_costs_one_list(tmp_path, monkeypatch, options):
    monkeypatch.setattr("rocketstore.disk.remote.remote_path.LISTED", 0.0)
    with rocketstore.open(tmp_path, "a", config=SMALL) as store:
        put(store, 50)
        path = RemotePath(TaggedFileSystem(), str(tmp_path))
        stream = reader_at(path, RocketStoreStreamReader, startingOffsets="earliest", **options)
        at, rows = stream.initialOffset(), 0
        for new in (0, 3, 0):
            put(store, new)
            while (end := stream.latestOffset(at, stream.getDefaultReadLimit())) != at:
                rows += len(offsets_of(stream, stream.partitions(at, end)))
                at = end
            path.fs.lists.clear()
            path.fs.reads.clear()
            for _ in range(3):
                assert stream.latestOffset(at, stream.getDefaultReadLimit()) == at
            assert (len(path.fs.lists), len(path.fs.reads)) == (3, 0)
        assert rows == 53
        stream.stop()


@pytest.mark.skipif(limits is None, reason="limits of a stream need pyspark 4.2")
def test_a_batch_of_many_messages_is_found_with_less_than_a_read_for_each_mebibyte(large):
    path = counted(large)
    stream = reader_at(path, RocketStoreStreamReader, startingOffsets="earliest", maxOffsetsPerTrigger="28000")
    at = stream.initialOffset()
    path.fs.reads.clear()
    end = stream.latestOffset(at, stream.getDefaultReadLimit())
    assert end["phyOffset"] > 28 * MIB
    assert len(path.fs.reads) <= 28
    assert path.fs.bytes_read <= 2 * end["phyOffset"]
    stream.stop()


def test_damage_in_a_remote_log_is_walked_over_in_large_reads(tmp_path):
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        put(store, 12_000)
    with (tmp_path / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(MIB)
        file.write(b"n" * 8 * MIB)
    path = counted(tmp_path)
    reader = reader_at(path, mode="DROPMALFORMED", maxPartitionBytes="4m")
    parts = reader.partitions()
    assert len(path.fs.reads) <= 60
    local = reader_of(tmp_path, mode="DROPMALFORMED", maxPartitionBytes="4m")[0]
    assert offsets_of(reader, parts) == offsets_of(local, local.partitions())
    with sparing_reads(path), rocketstore.open(path) as store:
        path.fs.reads.clear()
        assert len(list(store.commit_log.scan(on_corrupt="skip", columns=["phy_offset"]))) > 0
        assert len(path.fs.reads) <= 40


class WaitingFileSystem(CountedFileSystem):
    """Each read takes a while; knows how many were under way at most."""

    protocol = "waiting"

    def __init__(self, **options):
        super().__init__(**options)
        self.lock = threading.Lock()
        self.reading = self.most = 0

    def cat_file(self, path, start=None, end=None, **options):
        with self.lock:
            self.reading += 1
            self.most = max(self.most, self.reading)
        time.sleep(0.01)
        try:
            return super().cat_file(path, start, end, **options)
        finally:
            with self.lock:
                self.reading -= 1


def log_of_files(root, times):
    """A log with a file for each time, which its first message has, and a second message a minute later."""
    records = [{"body": bytes(1500), "store_timestamp": time + later} for time in times for later in (0, 60_000)]
    (root / "commitlog").mkdir(parents=True)
    return make_commit_log(root / "commitlog", 4096, records)


def test_the_times_of_files_are_read_many_at_once(tmp_path):
    log_of_files(tmp_path, [BEGIN + i * DAY for i in range(200)])
    path = RemotePath(WaitingFileSystem(), str(tmp_path))
    parts = reader_at(path, startingTimestamp=str(BEGIN + 190 * DAY)).partitions()
    assert len(parts) == 13  # of 10 days, and three files for clocks that differ by a day
    assert path.fs.most >= 8
    assert path.fs.bytes_read <= MIB


def test_files_are_chosen_as_locally_where_times_are_not_in_order(tmp_path, seed):
    draw = random.Random(seed)
    for name in range(10):
        root = tmp_path / str(name)
        log_of_files(root, [BEGIN + draw.randrange(12) * DAY for _ in range(20)])
        (root / "commitlog" / f"{draw.randrange(20) * 4096:020}").write_bytes(bytes(4096))
        begin, end = sorted(BEGIN + draw.randrange(12 * DAY) for _ in range(2))
        options = {"startingTimestamp": str(begin), "endingTimestamp": str(end), "mode": "DROPMALFORMED"}
        local, remote = reader_of(root, **options)[0], reader_at(counted(root), **options)
        assert [part.ranges for part in remote.partitions()] == [part.ranges for part in local.partitions()]
        assert offsets_of(remote, remote.partitions()) == offsets_of(local, local.partitions())


@pytest.mark.parametrize("sys_flag", [0, 0x10, 0x20, 0x30])
def test_the_time_in_the_head_of_a_record_is_that_of_the_record(tmp_path, sys_flag):
    (tmp_path / "commitlog").mkdir()
    hosts = {"born_host": "[::1]:1" if sys_flag & 0x10 else "1.2.3.4:1"}
    hosts |= {"store_host": "[::1]:1" if sys_flag & 0x20 else "1.2.3.4:1"}
    records = [{"body": bytes(i), "store_timestamp": BEGIN + i, "topic": "T", "sys_flag": sys_flag, **hosts}
               for i in range(9)]  # fmt: skip
    offsets = make_commit_log(tmp_path / "commitlog", 4096, records)
    with CommitLog.open(counted(tmp_path) / "commitlog") as log:
        assert read_store_timestamps(log.file_run, offsets) == [BEGIN + i for i in range(9)]
        assert read_store_timestamps(log.file_run, [offsets[1] + 1, 4090, 1 << 40]) == [None] * 3


def table_reader(path, table):
    return reader_at(path, TABLE_READERS[table], table=table)


def rows_of_parts(reader, parts):
    """The rows that tasks read, and the file systems that they used."""
    sent = pickle.loads(pickle.dumps(parts))
    rows = [row for part in sent for batch in reader.read(part) for row in batch.to_pylist()]
    return rows, {id(fs): fs for part in sent for place in part.parts for fs in [fs_of(place)]}.values()


def fs_of(place):
    return (place.file.path if hasattr(place, "file") else place.plan.directory).fs


def test_a_plan_of_the_index_reads_only_headers(tmp_path):
    config = replace(CONFIG, max_hash_slot_num=5000, max_index_num=20_001)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        for begin in range(0, 50_000, 10_000):
            store.put_messages([Message("T", b"x", keys=[f"k{i}"]) for i in range(begin, begin + 10_000)])
    files = {file.name for file in (tmp_path / "index").iterdir()}
    assert len(files) > 2
    for kept in (True, False):
        if not kept:  # then only the file itself shows its geometry
            for saved in tmp_path.glob("rocketstore*.json"):
                saved.unlink()
        path = counted(tmp_path)
        reader = table_reader(path, "index")
        parts = reader.partitions()
        reads = [(begin, end) for name, begin, end in path.fs.reads if name in files]
        assert reads == [(0, 40)] * len(files)
        rows, _ = rows_of_parts(reader, parts)
        local = reader_of(tmp_path, table="index")[0]
        assert rows == [row for part in local.partitions() for batch in local.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("table", ["consumequeue", "offsets"])
def test_a_remote_queue_of_few_messages_costs_one_small_read(tmp_path, table):
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        store.put_messages([Message(f"T{i % 10}", b"x", queue_id=i // 10) for i in range(40)])
    path = counted(tmp_path)
    reader = table_reader(path, table)
    parts = reader.partitions()
    assert not [name for name, _, _ in path.fs.reads if name == f"{0:020}" and len(path.fs.reads) > 30]
    rows, systems = rows_of_parts(reader, parts)
    assert len(rows) == 40
    reads = [read for fs in systems for read in fs.reads]
    assert len(reads) <= 40
    assert sum(end - begin for _, begin, end in reads) <= 40 * 100_000


def test_a_large_remote_queue_is_read_about_once(tmp_path):
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        for _ in range(4):
            store.put_messages([Message("T", b"x", queue_id=0)] * 25_000)
    reader = table_reader(counted(tmp_path), "consumequeue")
    rows, systems = rows_of_parts(reader, reader.partitions())
    assert [row["queueOffset"] for row in rows] == list(range(100_000))
    reads = [read for fs in systems for read in fs.reads]
    assert len(reads) <= 10
    assert sum(end - begin for _, begin, end in reads) <= 6_000_000 + 2 * 2_000_000 + MIB


def test_the_plan_of_queues_does_not_read_them_or_ask_for_each_log_file(tmp_path, calls):
    costs = {}
    for files in (4, 400):
        root = tmp_path / str(files)
        with rocketstore.open(root, "a", config=SMALL) as store:
            store.put_messages([Message(f"T{i % 50}", bytes(3000), queue_id=0) for i in range(max(files, 50))])
        reader = reader_of(root, table="consumequeue")[0]
        reader.partitions()
        calls.clear()
        parts = reader.partitions()
        costs[files] = calls["stat"] + calls["open"] + calls["lstat"]
        assert len(parts) == 4  # of 50 queues of 300,000 units at most
        assert sum(len(part.parts) for part in parts) == 50
    assert costs[4] <= 50 * 8 + 100
    assert costs[400] <= costs[4] + 50


# ---- the end of a remote log -------------------------------------------------------------------------------


def damaged_log(root, draw):
    """A log of records of all kinds, cut or damaged somewhere."""
    (root / "commitlog").mkdir(parents=True)
    bodies = [bytes, lambda n: b"x" * n, draw.randbytes]
    records = [{"body": draw.choice(bodies)(draw.choice([0, 30, 900, 3000]))} for _ in range(draw.randrange(60))]
    offsets = make_commit_log(root / "commitlog", 16384, records)
    last = max((root / "commitlog").iterdir())
    data = bytearray(last.read_bytes().ljust(16384, b"\0"))
    kind = draw.choice(["sound", "torn", "cut", "noise"])
    if offsets and kind != "sound":
        at = draw.choice([at for at in offsets if at >= int(last.name)] or [int(last.name)]) - int(last.name)
        if kind == "cut":
            data[at:] = bytes(len(data) - at)
        else:
            data[at + 8 : at + 60] = bytes(52) if kind == "torn" else b"n" * 52
    last.write_bytes(data)
    if draw.random() < 0.3:
        (root / "commitlog" / f"{int(last.name) + 16384:020}").write_bytes(bytes(16384))  # it was made ahead


@pytest.mark.parametrize("probe", [64, 1024, 16 << 10])
def test_the_end_that_is_found_with_few_reads_is_that_of_a_walk(tmp_path, seed, monkeypatch, probe):
    monkeypatch.setattr(sparse_search, "PROBE", probe)
    monkeypatch.setattr(sparse_search, "BEHIND", 16384)
    draw = random.Random(seed)
    for name in range(25):
        root = tmp_path / str(name)
        damaged_log(root, draw)
        with rocketstore.open(root) as local, rocketstore.open(counted(root)) as remote:
            expected, found = local.commit_log.look(), remote.commit_log.look()
            assert found.records_end == expected.records_end
            assert found.last_phy_offset == expected.last_phy_offset
            assert remote.commit_log.look() == found


def test_the_end_of_a_log_that_grows_is_followed(tmp_path, seed, monkeypatch):
    monkeypatch.setattr("rocketstore.disk.remote.remote_path.LISTED", 0.0)
    draw = random.Random(seed)
    with rocketstore.open(tmp_path, "a", config=SMALL) as store, rocketstore.open(counted(tmp_path)) as remote:
        log = remote.commit_log
        assert log.look().records_end == 0
        for _ in range(30):
            put(store, draw.randrange(6), draw.choice([0, 100, 3000]))
            view = log.look()
            assert view.records_end == store.commit_log.max_phy_offset
            assert view.last_phy_offset == store.commit_log.last_phy_offset


def test_the_end_of_a_log_that_was_cut_is_found_again(tmp_path, monkeypatch):
    monkeypatch.setattr("rocketstore.disk.remote.remote_path.LISTED", 0.0)
    (tmp_path / "commitlog").mkdir()
    offsets = make_commit_log(tmp_path / "commitlog", 16384, [{"body": bytes(100)}] * 20)
    file = tmp_path / "commitlog" / f"{0:020}"
    data = file.read_bytes()
    with rocketstore.open(counted(tmp_path)) as store:
        log = store.commit_log
        assert log.look().records_end > offsets[-1]
        time.sleep(0.01)  # the time of change tells
        file.write_bytes(data[: offsets[7]].ljust(16384, b"\0"))
        view = log.look()
        assert view.records_end == offsets[7]
        assert view.last_phy_offset == offsets[6]


# ---- tasks -------------------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch):
    """The calls to the file system, by their names."""
    found = Counter()

    def count(name):
        call = getattr(os, name)

        def counting(*args, **options):
            found[name] += 1
            return call(*args, **options)

        monkeypatch.setattr(os, name, counting)

    for name in ("stat", "lstat", "scandir", "listdir", "open"):
        count(name)
    return found


@pytest.fixture(scope="module")
def many_files(tmp_path_factory):
    root = tmp_path_factory.mktemp("many") / "store"
    with rocketstore.open(root, "a", config=SMALL) as store:
        store.put_messages([Message("T", bytes(1000), queue_id=i % 2, keys=["k"]) for i in range(900)])
    assert len(list((root / "commitlog").iterdir())) >= 300
    return root


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 2), ({"subscribe": "T", "keys": "k"}, 700), ({"columns": "topic"}, 2), ({"table": "index"}, 2),
     ({"table": "consumequeue"}, 40), ({"table": "offsets"}, 50)],
    ids=str,
)  # fmt: skip
def test_a_task_does_not_list_the_log(many_files, calls, options, most):
    reader = reader_of(many_files, **options)[0]
    parts = reader.partitions()
    for part in random.Random(1).sample(parts, min(len(parts), 5)):
        task, pickled = pickle.loads(pickle.dumps((reader, part)))
        calls.clear()
        assert sum(batch.num_rows for batch in task.read(pickled)) > 0
        assert calls.total() <= most
        assert len(pickle.dumps(part)) < 2000 or "keys" in options


def test_a_task_of_a_remote_store_lists_nothing(tmp_path):
    path = counted(made_store(tmp_path / "store"))
    for kind, table in ((MessagesReader, "messages"), (IndexReader, "index")):
        reader = reader_at(path, kind, table=table)
        for part in reader.partitions():
            sent = pickle.loads(pickle.dumps(part))
            fs = (sent.log.directories[0] if table == "messages" else sent.parts[0].file.path).fs
            assert sum(batch.num_rows for batch in reader.read(sent)) > 0
            assert fs is not path.fs
            assert fs.lists == []


def test_a_task_sees_that_a_file_has_expired_since_the_plan(many_files, tmp_path):
    root = shutil.copytree(many_files, tmp_path / "store")
    reader = reader_of(root, failOnDataLoss="false")[0]
    parts = reader.partitions()
    files = sorted((root / "commitlog").iterdir())
    for file in files[:3]:
        file.unlink()
    assert offsets_of(reader, parts[:3]) == []
    assert len(offsets_of(reader, parts)) == len(offsets_of(reader, parts[3:]))
    with pytest.raises(rocketstore.StoreError, match="was deleted after the query was planned"):
        offsets_of(reader_of(root)[0], parts[:1])


def test_damage_at_the_end_of_a_part_is_damage_and_not_the_end_of_the_log(tmp_path):
    (tmp_path / "commitlog").mkdir()
    offsets = make_commit_log(tmp_path / "commitlog", 4096, [{"body": bytes(900)}] * 30)
    at = max(at for at in offsets if at < 8192)
    with (tmp_path / "commitlog" / f"{4096:020}").open("r+b") as file:
        file.seek(at - 4096)
        file.write(b"damaged!")
    for root in (tmp_path, counted(tmp_path)):
        options = {"mode": "DROPMALFORMED"}
        reader = reader_at(root, **options) if isinstance(root, RemotePath) else reader_of(root, **options)[0]
        assert offsets_of(reader, reader.partitions()) == [other for other in offsets if other != at]
        reader = reader_at(root) if isinstance(root, RemotePath) else reader_of(root)[0]
        with pytest.raises(rocketstore.CorruptFileError):
            offsets_of(reader, reader.partitions())


def test_a_part_that_ends_within_a_message_is_reported_where_blocks_end_with_the_part(tmp_path):
    (tmp_path / "commitlog").mkdir()
    inner = build_record(topic="Fake", phy_offset=0)
    (offset,) = make_commit_log(tmp_path / "commitlog", 8192, [{"body": bytes(3000) + inner}])
    path = counted(tmp_path)
    reader = reader_at(path)
    (part,) = reader.partitions()
    (begin, end) = part.ranges[0]
    part.ranges = [(begin, end - 500)]
    part.log = part.log._replace(end=end - 500, whole_to=end - 500)
    assert offsets_of(reader, [part]) == [offset]

"""What queries of Spark cost at scale: lists, requests and bytes of plans, and calls to the file system in tasks."""

import os
import pickle
import random
import shutil
import threading
import time
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
from rocketstore.log import sparse_search
from rocketstore.log.record_heads import read_store_timestamps
from rocketstore.spark.source.messages import MessagesReader
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema
from rocketstore.spark.source.stream import RocketStoreStreamReader
from rocketstore.spark.source.tables import IndexReader

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
            fs = (sent.log.directories[0] if table == "messages" else sent.parts[0][0]).fs
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

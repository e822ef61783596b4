"""Stores on remote file systems: every reader says what it says of the local copy, and few bytes are fetched for it."""

import contextlib
import errno
import io
import os
import pickle
import random
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from reference.commit_log import write_file
from reference.message_store import make_store
from reference.record import build_record
from support import stores
from support.puts import config_of, fields_of, message_of, open_store
from support.remote import (
    BUCKET,
    SPAN,
    CountedFileSystem,
    TimelessFileSystem,
    answers,
    counted,
    failing,
    made_store,
    s3_file_system,
    s3_server,
    scanned,
    small_blocks,
    upload,
)
from support.repetitions import only_some_quick

import rocketstore
from rocketstore import CommitLog, CorruptFileError, IndexFile, RemotePath, StoreClosedError, StoreConfig
from rocketstore.disk.remote import remote_file_run, remote_path
from rocketstore.disk.storage import to_path
from rocketstore.disk.store_path import StorePath

fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")

LOG = f"{0:020}"


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """The root of a golden store, unpacked once."""
    pytest.importorskip("lz4.frame", reason="needs lz4, from the extra 'codecs'")
    pytest.importorskip("zstandard", reason="needs zstandard, from the extra 'codecs'")
    directory = tmp_path_factory.mktemp("golden")
    return lambda name: directory / name if (directory / name).exists() else stores.unpack(name, directory)


@pytest.fixture
def memory(tmp_path):
    """The directory of one test on fsspec's file system in memory, as a URI."""
    fs = fsspec.filesystem("memory")
    yield f"memory://{tmp_path.name}"
    with contextlib.suppress(FileNotFoundError):
        fs.rm(tmp_path.name, recursive=True)


@pytest.fixture(scope="module")
def s3():
    with s3_file_system() as fs:
        yield fs


@pytest.fixture
def no_believing(monkeypatch):
    """Lists of directories are asked for each time."""
    monkeypatch.setattr(remote_path, "LISTED", 0.0)


# ---- the same answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "blocks"),
    only_some_quick(
        [*((name, "small") for name in stores.NAMES), ("rich-5.5.0", "whole"), ("batch-5.5.0", "whole")],
        ("rich-5.5.0", "small"),
        ("crash-5.5.0", "small"),
        ("batch-5.5.0", "whole"),
    ),
)
def test_every_reader_says_of_a_remote_store_what_it_says_of_the_local_one(golden, name, blocks, seed, monkeypatch):
    with rocketstore.open(golden(name)) as local:
        expected = answers(local, seed)
    if blocks == "small":
        small_blocks(monkeypatch)
    with rocketstore.open(f"local://{golden(name)}") as store:
        assert answers(store, seed) == expected


@pytest.mark.parametrize(
    "name",
    only_some_quick(
        ["basic-5.5.0", "batch-5.5.0", "lmq-5.3.3", "cqext-5.5.0", "crash-5.5.0"], "lmq-5.3.3", "crash-5.5.0"
    ),
)
def test_a_store_in_memory_is_read(golden, name, seed, memory):
    upload(fsspec.filesystem("memory"), golden(name), memory)
    with rocketstore.open(golden(name)) as local, rocketstore.open(memory) as store:
        assert answers(store, seed) == answers(local, seed)


@pytest.mark.parametrize("name", [pytest.param("rich-5.5.0", marks=pytest.mark.slow), "batch-5.3.3"])
def test_a_store_on_a_server_of_s3_is_read(golden, name, seed, s3):
    upload(s3, golden(name), f"{BUCKET}/{name}")
    with rocketstore.open(golden(name)) as local, rocketstore.open(RemotePath(s3, f"{BUCKET}/{name}")) as store:
        assert answers(store, seed) == answers(local, seed)


@pytest.mark.parametrize("blocks", ["small", "whole"])
def test_a_store_that_rocketstore_wrote_is_read(tmp_path, blocks, seed, monkeypatch):
    root = made_store(tmp_path / "store")
    with rocketstore.open(root) as local:
        expected = answers(local, seed)
    if blocks == "small":
        small_blocks(monkeypatch)
    with rocketstore.open(counted(root)) as store:
        assert answers(store, seed) == expected


def test_records_longer_than_every_read_are_read(tmp_path, monkeypatch):
    with open_store(tmp_path, mapped_file_size_commit_log=1 << 20) as store:
        for size in (0, 100_000, 3, 300_000, 700, 50_000):
            store.put_message(message_of(fields_of(body=os.urandom(size))))
    small_blocks(monkeypatch)
    with rocketstore.open(tmp_path) as local, rocketstore.open(counted(tmp_path)) as store:
        assert answers(store) == answers(local)


@pytest.mark.filterwarnings("ignore:.* cannot be decoded")  # damage may be in a compressed body
@pytest.mark.parametrize(
    ("name", "logs"), only_some_quick([("rich-5.5.0", 6), ("rich-5.5.0", 20), ("batch-5.5.0", 20)], ("rich-5.5.0", 6))
)
def test_damaged_logs_are_read_as_locally(golden, tmp_path, name, logs, seed, monkeypatch):
    rng = random.Random(seed)
    root = shutil.copytree(golden(name), tmp_path / "store")
    files = {path: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}
    small_blocks(monkeypatch)
    for _ in range(logs):
        path, whole = rng.choice(list(files.items()))
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            at, n = rng.randrange(len(data)), rng.choice([1, 4, 8, 100, 5000])
            data[at : at + n] = rng.choice([bytes(n), rng.randbytes(n), bytes(data[:n])])[: len(data) - at]
        path.write_bytes(bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])]))
        with CommitLog.open(root / "commitlog") as local, CommitLog.open(counted(root / "commitlog")) as log:
            for verify_crc in (False, True):
                options = {"on_corrupt": "skip", "verify_crc": verify_crc}
                assert scanned(log.scan(**options)) == scanned(local.scan(**options))
            assert scanned(log.scan(threads=2, on_corrupt="skip")) == scanned(local.scan(on_corrupt="skip"))
            assert log.max_phy_offset == local.max_phy_offset
            begin = rng.randrange(len(whole) * len(files))
            assert log.reader.find_later(begin, 1 << 62) == local.reader.find_later(begin, 1 << 62)
        path.write_bytes(whole)


def test_a_log_where_mapping_is_refused_is_read_as_one_that_is_mapped(golden, monkeypatch, seed):
    with rocketstore.open(golden("rich-5.5.0")) as store:
        expected = answers(store, seed)
    monkeypatch.setattr("rocketstore.log.record_reader.SPAN", SPAN)
    mapped = rocketstore.disk.file_run_reader.FileRunReader.map

    def refused(self, file, use=""):
        if file.path.parent.name == "commitlog":
            raise OSError(errno.ENOMEM, "no")
        return mapped(self, file, use)

    monkeypatch.setattr("rocketstore.disk.file_run_reader.FileRunReader.map", refused)
    with rocketstore.open(golden("rich-5.5.0")) as store:
        assert answers(store, seed) == expected


@pytest.mark.parametrize("ends", [b"x", b"\0"])
def test_a_record_that_ends_with_its_window_is_not_mistaken_for_half_written(tmp_path, ends, monkeypatch):
    """A zero at the end of a record that is no minute old is only known for its own by what follows."""
    with open_store(tmp_path, mapped_file_size_commit_log=1 << 16, compat="5.0.0") as store:
        for size in range(40):
            store.put_message(message_of(fields_of(body=b"b" * size, properties={"P": "v" * 9 + ends.decode()})))
    small_blocks(monkeypatch)
    with rocketstore.open(tmp_path) as local:
        expected = answers(local)
    for block in (256, 331, 512, 1000):
        monkeypatch.setattr("rocketstore.disk.remote.blocks.BLOCK", block)
        monkeypatch.setattr("rocketstore.disk.remote.remote_file_run.BLOCK", block)
        monkeypatch.setattr("rocketstore.log.record_reader.SPAN", 200)
        with rocketstore.open(counted(tmp_path)) as store:
            assert answers(store) == expected


# ---- where it is -------------------------------------------------------------------------------------------


def test_a_file_uri_is_a_local_path(tmp_path):
    made_store(tmp_path)
    for uri in (f"file://{tmp_path}", f"file:{tmp_path}", f"file://localhost{tmp_path}"):
        with rocketstore.open(uri) as store:
            assert store.path == tmp_path
    with rocketstore.open(f"file://{tmp_path}", "a") as store:
        assert store.mode == "a"


def test_a_file_uri_of_another_host_is_refused():
    with pytest.raises(ValueError, match=r"file://server/store: names the host 'server'"):
        to_path("file://server/store")


def test_a_block_is_read_though_no_thread_can_be_started_to_read_it_ahead(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"data")
    path = counted(tmp_path) / "file"

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        path.blocks.read_ahead(path, 4, 0)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(path.blocks.get, path, 4, 0).result(10) == b"data"


def test_paths_of_universal_pathlib_are_taken(golden, memory, tmp_path):
    upath = pytest.importorskip("upath", reason="universal_pathlib is not installed")
    upload(fsspec.filesystem("memory"), golden("basic-5.5.0"), memory)
    with rocketstore.open(upath.UPath(memory)) as store:
        assert sum(1 for _ in store.queues()) == 14
    assert to_path(upath.UPath(tmp_path)) == tmp_path
    assert to_path(upath.UPath(f"file://{tmp_path}")) == tmp_path


def test_file_systems_of_pyarrow_are_taken(golden, seed):
    arrow = pytest.importorskip("pyarrow.fs", reason="needs pyarrow, from the extra 'arrow'")
    root = golden("basic-5.5.0")
    with (
        rocketstore.open(RemotePath(arrow.LocalFileSystem(), str(root))) as store,
        rocketstore.open(root) as local,
        pickle.loads(pickle.dumps(store)) as copy,
    ):
        assert answers(copy, seed) == answers(store, seed) == answers(local, seed)
    with pytest.raises(FileNotFoundError):
        rocketstore.open(RemotePath(arrow.LocalFileSystem(), f"{root}/none"))


def test_a_log_in_several_places_is_one(golden, memory, tmp_path):
    root = golden("rich-5.5.0")
    fs = fsspec.filesystem("memory")
    for i, path in enumerate(sorted((root / "commitlog").iterdir())):
        fs.pipe_file(f"{memory}/{'ab'[i % 2]}/{path.name}", path.read_bytes())
    upload(fs, root / "consumequeue", f"{memory}/consumequeue")
    config = StoreConfig(store_path_commit_log=f"{memory}/a,{memory}/b")
    with rocketstore.open(memory, config=config) as store, rocketstore.open(root) as local:
        assert scanned(store.scan()) == scanned(local.scan())


def test_options_of_a_uri_come_from_the_configuration_of_fsspec(golden, s3, monkeypatch):
    upload(s3, golden("basic-5.5.0"), f"{BUCKET}/configured")
    options = {"key": "key", "secret": "secret", "endpoint_url": s3.endpoint_url}
    monkeypatch.setitem(fsspec.config.conf, "s3", {**options, "client_kwargs": {"region_name": "eu-west-1"}})
    with rocketstore.open(f"s3://{BUCKET}/configured") as store:
        assert str(store.path) == f"s3://{BUCKET}/configured"
        assert len(list(store.queues())) == 14


@pytest.mark.parametrize("uri", ["foo://bucket/store", "foo::memory://x"])
def test_a_protocol_that_nobody_knows_is_an_error(uri):
    with pytest.raises(ValueError, match="foo"):
        rocketstore.open(uri)


def test_the_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"s3://bucket/store: .*s3fs"):
        rocketstore.open("s3://bucket/store")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"rocketstore\[remote\]"):
        rocketstore.open("memory://store")


def test_strange_names_of_topics_are_found(tmp_path, memory):
    topics = ["%RETRY%group", "a b", "x#y", "what?", "100%", "ä"]
    with open_store(tmp_path) as store:
        for topic in topics:
            store.put_message(message_of(fields_of(topic)))
    upload(fsspec.filesystem("memory"), tmp_path, memory)
    with rocketstore.open(memory) as store:
        assert sorted({topic for topic, _ in store.queues()}) == sorted(topics)
        assert [store.get_message(topic, 0, 0).messages[0].topic for topic in topics] == topics


# ---- readers only ------------------------------------------------------------------------------------------

WRITERS = {
    "open for writing": lambda uri, _: rocketstore.open(uri, "r+"),
    "open to make": lambda uri, _: rocketstore.open(uri, "a"),
    "rebuild": lambda uri, _: rocketstore.rebuild(uri),
    "rebuild there": lambda uri, out: rocketstore.rebuild(out, out=uri),
    "recover": lambda uri, _: rocketstore.recover(uri),
    "verify": lambda uri, _: rocketstore.verify(uri),
    "salvage": lambda uri, out: rocketstore.salvage(uri, out / "new"),
    "salvage there": lambda uri, out: rocketstore.salvage(out, uri),
    "append": lambda uri, _: CommitLog.open(f"{uri}/commitlog", "a"),
    "index": lambda uri, _: rocketstore.IndexService.open(f"{uri}/index", "a"),
    "make an index file": lambda uri, _: IndexFile.create(f"{uri}/index/1"),
    "put": lambda uri, _: IndexFile.open(f"{uri}/index/1", "r+"),
    "checkpoint": lambda uri, _: rocketstore.StoreCheckpoint.open(f"{uri}/checkpoint").flush(),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_writes_is_refused(write, golden, memory, tmp_path):
    fs = fsspec.filesystem("memory")
    upload(fs, golden("basic-5.5.0"), memory)
    before = {path: fs.cat_file(path) for path in fs.find(memory)}
    made_store(tmp_path / "local")
    with pytest.raises(io.UnsupportedOperation, match=f"{tmp_path.name}.* is remote: a local path is"):
        write(memory, tmp_path / "local")
    assert {path: fs.cat_file(path) for path in fs.find(memory)} == before
    assert not Path("memory:").exists()


def test_a_reader_refuses_to_write_as_any_other(memory, golden):
    upload(fsspec.filesystem("memory"), golden("basic-5.5.0"), memory)
    with rocketstore.open(memory) as store, pytest.raises(io.UnsupportedOperation, match="open for reading"):
        store.put_message(message_of(fields_of()))


def test_readers_are_pickled_with_their_file_system(golden, s3, seed):
    upload(s3, golden("basic-5.5.0"), f"{BUCKET}/pickled")
    with rocketstore.open(RemotePath(s3, f"{BUCKET}/pickled")) as store:
        parts = [store, store.commit_log, store.index, store.index.files[0], store.consume_queue(*next(store.queues()))]
        copies = pickle.loads(pickle.dumps(parts))
        assert list(map(repr, copies)) == list(map(repr, parts))
        for copy in copies:  # some are parts of others
            copy.close()


def test_a_closed_reader_says_so(golden):
    store = rocketstore.open(counted(golden("basic-5.5.0")))
    log, queue = store.commit_log, store.consume_queue(*next(store.queues()))
    scan = iter(store.scan(batch_size=1))
    next(scan)
    store.close()
    for call in (lambda: log.get_message(0), lambda: log.get_messages([0]), lambda: queue[0], lambda: next(scan)):
        with pytest.raises(StoreClosedError):
            call()


# ---- fetched ranges ----------------------------------------------------------------------------------------


def long_log(root, n=3000):
    """A log of some files, each larger than many reads."""
    with open_store(root, mapped_file_size_commit_log=1 << 19, max_index_num=10_000) as store:
        messages = [message_of(fields_of(body=b"b" * (i % 1000), properties={"KEYS": f"k{i}"})) for i in range(n)]
        offsets = list(store.put_messages(messages).phy_offsets)
    return sum(path.stat().st_size for path in (root / "commitlog").iterdir()), offsets


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("block", [1 << 14, 1 << 16, 1 << 20])
def test_a_scan_fetches_each_byte_once(tmp_path, threads, block, monkeypatch):
    size, offsets = long_log(tmp_path)
    monkeypatch.setattr("rocketstore.disk.remote.blocks.BLOCK", block)
    monkeypatch.setattr("rocketstore.disk.remote.remote_file_run.BLOCK", block)
    monkeypatch.setattr("rocketstore.log.record_reader.SPAN", block // 8)
    monkeypatch.setattr("rocketstore.disk.remote.remote_file_run.HEAD", 64)  # read once a chunk
    monkeypatch.setattr("rocketstore.log.scan.CHUNK", 4 * block)
    path = counted(tmp_path)
    with rocketstore.open(path) as store:
        found = store.scan(columns=["phy_offset", "topic", "body"], threads=threads)
        assert [at for batch in found for at in batch.phy_offset.tolist()] == offsets
    assert path.fs.bytes_read <= size * (1 if threads == 1 else 1.1)
    assert len(path.fs.reads) <= size / block * (1 if threads == 1 else 1.5) + 4


def test_a_part_is_scanned_with_little_more_than_its_bytes(tmp_path, monkeypatch):
    _, offsets = long_log(tmp_path)
    small_blocks(monkeypatch)
    path = counted(tmp_path)
    begin, end = 100_000, 300_000
    with rocketstore.open(path) as store:
        found = store.scan(begin, end, columns=["phy_offset"])
        assert [at for b in found for at in b.phy_offset.tolist()] == [at for at in offsets if begin <= at < end]
    assert path.fs.bytes_read <= end - begin + 4 * 4096


def test_a_message_costs_one_read_and_a_long_one_two(tmp_path):
    with open_store(tmp_path, mapped_file_size_commit_log=1 << 20) as store:
        places = [store.put_message(message_of(fields_of(body=bytes(size)))) for size in (10, 20_000, 10, 200_000)]
    path = counted(tmp_path)
    with CommitLog.open(path / "commitlog") as log:
        for place, reads in zip(places, [1, 2, 1, 2], strict=True):
            path.fs.reads.clear()
            message = log.get_message(place.phy_offset)
            assert (len(path.fs.reads), message.phy_offset) == (reads, place.phy_offset)
            assert path.fs.bytes_read <= max(message.size + 4, remote_file_run.HEAD)


def test_messages_near_to_each_other_are_read_in_one(tmp_path):
    size, offsets = long_log(tmp_path)
    path = counted(tmp_path)
    with CommitLog.open(path / "commitlog") as log:
        near = log.get_messages(offsets[100:200][::-1], columns=["phy_offset"])
        assert near.phy_offset.tolist() == offsets[100:200][::-1]
        assert len(path.fs.reads) == 1
        path.fs.reads.clear()
        log.get_messages([offsets[0], offsets[1000], offsets[2900]])
        assert len(path.fs.reads) == 3
        path.fs.reads.clear()
        log.get_messages(offsets)
        assert path.fs.bytes_read <= 1.1 * size


def test_an_index_file_is_fetched_once_for_all_its_users(tmp_path):
    root = made_store(tmp_path)
    path = counted(root)
    name = min(path.name for path in (root / "index").iterdir())
    with rocketstore.open(path) as store:
        for _ in range(3):
            assert store.query_message("T1", "key-1").messages[0].keys == ["key-1", "all"]
        with pickle.loads(pickle.dumps(store.index.files[0])) as again:
            assert again.header == store.index.files[0].header
    assert sum(read[0] == name for read in path.fs.reads) == 1


def test_an_index_file_that_is_exchanged_is_fetched_again(tmp_path, no_believing):
    root = made_store(tmp_path)
    path = counted(root)
    file = min((root / "index").iterdir())
    with IndexFile.open(path / "index" / file.name) as index:
        before = index.header
    data = bytearray(file.read_bytes())
    data[7] ^= 1
    file.write_bytes(data)
    with IndexFile.open(path / "index" / file.name) as index:
        assert index.header == before._replace(begin_timestamp=before.begin_timestamp ^ 1)


def test_an_index_that_is_written_is_seen_where_no_times_are_told(tmp_path, no_believing):
    path = RemotePath(TimelessFileSystem(), str(tmp_path))
    with open_store(tmp_path) as writer:
        for i in range(3):
            writer.put_message(message_of(fields_of("T0", properties={"KEYS": f"key-{i}"})))
            assert writer.query_message("T0", f"key-{i}").messages  # it is in the index now
            writer.flush()
            with rocketstore.open(path) as store:
                assert store.index.query_offset("T0", f"key-{i}").phy_offsets == [writer.commit_log.last_phy_offset]


def test_a_reader_sees_that_the_index_was_copied_anew(tmp_path, no_believing):
    root, later = made_store(tmp_path / "store", 20), made_store(tmp_path / "later", 25)
    path = counted(root)
    with rocketstore.open(path) as store:
        name = store.index.files[-1].path.name
        assert not store.query_message("T0", "key-24").messages
        shutil.rmtree(root / "commitlog")
        shutil.copytree(later / "commitlog", root / "commitlog")
        newest = max((later / "index").iterdir())
        (root / "index" / name).write_bytes(newest.read_bytes())
        assert len(store.query_message("T0", "key-24").messages) == 1
        assert store.index.files[-1].path.name == name


def test_a_directory_is_not_listed_for_every_message(tmp_path):
    made_store(tmp_path)
    path = counted(tmp_path)
    with rocketstore.open(path) as store:
        store.get_message("T0", 0, 0)
        path.fs.lists.clear()
        began = time.monotonic()
        for _ in range(20):
            store.get_message("T0", 0, 0, 1)
        assert len(path.fs.lists) <= 6 * (1 + int(time.monotonic() - began))


def test_nothing_is_left_on_the_disk(tmp_path, monkeypatch):
    root = made_store(tmp_path / "store")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with rocketstore.open(counted(root)) as store:
        assert store.query_message("T1", "key-1").complete
        assert [path.name for path in tmp_path.iterdir()] == ["store"]


# ---- what changes meanwhile --------------------------------------------------------------------------------


def test_growth_is_seen(tmp_path, no_believing):
    with open_store(tmp_path) as writer, rocketstore.open(counted(tmp_path), config=config_of()) as store:
        for i in range(50):
            writer.put_message(message_of(fields_of(body=b"x" * 300)))
            writer.flush()
            assert store.commit_log.max_phy_offset == writer.commit_log.max_phy_offset
            assert store.get_message("TopicTest", 0, i).messages[0].queue_offset == i
        assert [request.queue_offset for request in store.follow(poll=None)] == list(range(50))


def test_growth_is_seen_where_no_times_are_told(tmp_path, no_believing):
    path = RemotePath(TimelessFileSystem(), str(tmp_path))
    with open_store(tmp_path) as writer, rocketstore.open(path, config=config_of()) as store:
        for i in range(5):
            writer.put_message(message_of(fields_of(body=b"x" * 300)))
            writer.flush()
            assert sum(map(len, store.scan())) == i + 1


def test_half_a_record_is_not_seen_where_no_times_are_told(tmp_path):
    first, second = build_record(), build_record(phy_offset=len(build_record()))
    write_file(tmp_path, 0, (first + second[:-10]).ljust(4096, b"\0"))
    with CommitLog.open(RemotePath(TimelessFileSystem(), str(tmp_path))) as log:
        assert [at for batch in log.scan(columns=["phy_offset"]) for at in batch.phy_offset.tolist()] == [0]
        assert log.max_phy_offset == len(first)


def test_growth_is_seen_within_two_seconds(tmp_path):
    with open_store(tmp_path) as writer, rocketstore.open(counted(tmp_path), config=config_of()) as store:
        assert store.commit_log.max_phy_offset == 0
        writer.put_message(message_of(fields_of()))
        end = time.monotonic() + 2
        while not store.commit_log.max_phy_offset:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_file_that_expires_while_it_is_read_is_skipped(tmp_path):
    _, offsets = long_log(tmp_path)
    path = counted(tmp_path)
    with rocketstore.open(path) as store:
        assert store.commit_log.get_message(0).phy_offset == 0
        (tmp_path / "commitlog" / LOG).unlink()
        found = [at for batch in store.scan(columns=["phy_offset"]) for at in batch.phy_offset.tolist()]
        assert found == [at for at in offsets if at >= 1 << 19]
        assert store.commit_log.find_message(0) is None
        assert store.commit_log.min_phy_offset == 1 << 19


@pytest.mark.parametrize("use", ["scan", "messages", "one", "units", "index"])
def test_a_file_that_shrinks_after_it_was_listed_is_an_error(tmp_path, use):
    root = made_store(tmp_path)
    path = counted(root)
    with rocketstore.open(path) as store:
        queue = store.consume_queue("T0", 0)
        assert (len(store.commit_log.file_run.files), queue.mapped_file_size) == (6, 200)
        log, index = max((root / "commitlog").iterdir()), min((path / "index").iterdir())
        for file in root.rglob("[0-9]" * 17 + "*"):
            os.truncate(file, 24)
        with pytest.raises(CorruptFileError, match=r"the file was cut, or replaced, while open") as caught:
            {
                "scan": lambda: list(store.scan()),
                "messages": lambda: store.commit_log.get_messages([0, 2000]),
                "one": lambda: store.commit_log.get_message(int(log.name)),
                "units": lambda: queue[0],
                "index": lambda: IndexFile.open(index),
            }[use]()
        assert str(caught.value.path).startswith("counted:///")


# ---- errors ------------------------------------------------------------------------------------------------


class TerseFileSystem(CountedFileSystem):
    """Lists neither sizes, as servers of HTTP, nor what links lead to, as those of SFTP. Asked, it ``tells``."""

    protocol = "terse"
    tells = True

    def ls(self, path, detail=False, **options):
        found = super().ls(path, True, **options)
        for entry in found:
            if entry["type"] == "file":
                entry |= {"size": None} if entry["name"].endswith("0") else {"type": "link", "size": 11}
        return found if detail else [entry["name"] for entry in found]

    def info(self, path, **options):
        found = super().info(path, **options)
        return found if self.tells or found["type"] == "directory" else found | {"size": None}


def test_values_that_a_list_leaves_out_are_requested(tmp_path, seed):
    root = made_store(tmp_path)
    (root / "commitlog" / f"{1 << 40:020}").symlink_to(tmp_path / "nothing")
    with rocketstore.open(root) as local, rocketstore.open(RemotePath(TerseFileSystem(), str(root))) as store:
        assert answers(store, seed) == answers(local, seed)


def test_a_file_whose_size_nobody_tells_is_an_error(tmp_path, monkeypatch):
    root = made_store(tmp_path)
    monkeypatch.setattr(TerseFileSystem, "tells", False)
    with (
        pytest.raises(OSError, match=f"does not tell its size: 'terse://{root}/commitlog/"),
        rocketstore.open(RemotePath(TerseFileSystem(), str(root))) as store,
    ):
        list(store.scan())


def test_a_store_that_is_not_there_is_an_error(memory, s3):
    for path in (memory, RemotePath(s3, f"{BUCKET}/nothing"), RemotePath(s3, "no-bucket/store")):
        with pytest.raises(FileNotFoundError) as caught:
            rocketstore.open(path)
        assert caught.value.filename == str(to_path(path))
    fsspec.filesystem("memory").pipe_file(f"{memory}/file", b"x")
    with pytest.raises(NotADirectoryError):
        rocketstore.open(f"{memory}/file")
    with pytest.raises(rocketstore.StoreError, match="no store is here"):
        rocketstore.open(memory)


def test_a_server_that_does_not_answer_is_an_error_that_names_the_place():
    s3fs = pytest.importorskip("s3fs", reason="needs s3fs, from the test group")
    with s3_server() as url:
        pass
    fs = s3fs.S3FileSystem(key="k", secret="s", endpoint_url=url, config_kwargs={"retries": {"max_attempts": 0}})
    fs.retries = 1
    with pytest.raises(OSError, match=f"s3://{BUCKET}/store") as caught:
        rocketstore.open(RemotePath(fs, f"{BUCKET}/store"))
    assert not isinstance(caught.value, FileNotFoundError)
    s3fs.S3FileSystem.close_session(fs.loop, fs.s3)


@pytest.mark.parametrize("kind", [PermissionError(errno.EACCES, "Forbidden"), OSError("500"), RuntimeError("lost")])
def test_an_error_of_the_server_names_the_file(tmp_path, kind):
    make_store(tmp_path, [{}])
    path = counted(tmp_path)
    with rocketstore.open(path) as store:

        def fail(name, begin, end):
            raise kind

        path.fs.fails = fail
        for call in (lambda: list(store.scan()), lambda: store.commit_log.get_message(0), lambda: store.checkpoint):
            with pytest.raises(PermissionError if isinstance(kind, PermissionError) else OSError) as caught:
                call()
            assert caught.value.filename.startswith(f"counted://{tmp_path}/")
        path.fs.fails = lambda name, begin, end: None
        assert len(next(iter(store.scan()))) == 1


def test_a_file_that_cannot_be_listed_is_not_mistaken_for_missing(tmp_path, monkeypatch, no_believing):
    make_store(tmp_path, [{}])
    path = counted(tmp_path)
    with rocketstore.open(path) as store:
        monkeypatch.setattr(path.fs, "ls", lambda *a, **o: failing()(0, 0, 0))
        for call in (lambda: store.commit_log, lambda: store.checkpoint, lambda: list(store.queues())):
            with pytest.raises(OSError, match="Input/output error"):
                call()


def test_a_read_ahead_that_fails_is_made_again(tmp_path, monkeypatch):
    _, offsets = long_log(tmp_path)
    small_blocks(monkeypatch)
    path = counted(tmp_path)
    failed = threading.Event()

    def fail_once(name, begin, end):
        if begin == 5 * 4096 and not failed.is_set():
            failed.set()
            raise OSError(errno.ETIMEDOUT, "no answer")

    with rocketstore.open(path) as store:
        path.fs.fails = fail_once
        assert [at for b in store.scan(columns=["phy_offset"]) for at in b.phy_offset.tolist()] == offsets
        assert failed.is_set()


def test_many_threads_read_at_once(tmp_path):
    _, offsets = long_log(tmp_path, 1000)
    path = counted(tmp_path)
    with CommitLog.open(path / "commitlog") as log:
        wrong = []

        def read(step):
            for at in offsets[::step]:
                wrong.extend([] if log.get_message(at).phy_offset == at else [at])
            found = [at for b in log.scan(columns=["phy_offset"]) for at in b.phy_offset.tolist()]
            wrong.extend([] if found == offsets else [step])

        threads = [threading.Thread(target=read, args=(step,)) for step in (3, 5, 7, 11)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


# ---- commands ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["info"],
        ["ls"],
        ["lag"],
        ["du", "--by", "topic", "--exact", "--totals", "--columns", "messages,logBytes,otherBytes"],
        ["du", "--by", "hour"],
        ["expire", "--hours", "0", "--groups"],
        ["count", "--by", "topic,hour"],
        ["cat", "--format", "json"],
        ["config", "check"],
        ["get", "TopicTest", "0", "0"],
        ["offset", "--time", "2020-01-01"],
        ["hexdump", "0"],
        ["query", "--topic", "TopicTest", "--key", "key-1"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_take_a_uri_for_a_store(golden, memory, arguments):
    from support.cli import run

    root = golden("basic-5.5.0")
    upload(fsspec.filesystem("memory"), root, memory)
    command, rest = (arguments[:1], arguments[1:]) if arguments[0] != "config" else (arguments, [])
    local, remote = (run(*command, where, *rest) for where in (root, memory))
    assert remote.exit_code == local.exit_code
    assert remote.stdout.replace(str(to_path(memory)), str(root)) == local.stdout
    if arguments[0] == "info":
        assert run("info", f"{memory}/index").stdout == run("info", root / "index").stdout


def test_export_reads_a_remote_store_and_writes_beside_it_but_not_into_it(golden, memory, tmp_path):
    from support.cli import run

    upload(fsspec.filesystem("memory"), golden("basic-5.5.0"), memory)
    for where, name in ((golden("basic-5.5.0"), "local.json"), (memory, "remote.json")):
        assert run("export", where, tmp_path / name).exit_code == 0
    assert (tmp_path / "local.json").read_bytes() == (tmp_path / "remote.json").read_bytes()
    assert run("export", memory, f"{memory}.json").exit_code == 0
    fs = fsspec.filesystem("memory")
    assert fs.cat_file(f"{memory}.json") == (tmp_path / "local.json").read_bytes()
    (first, *_) = fs.ls(f"{memory}/commitlog", detail=False)
    before = fs.cat_file(first)
    refused = run("export", memory, f"memory://{first.lstrip('/')}", "--force", "--format", "json")
    assert (refused.exit_code, "is inside the store" in refused.stderr) == (1, True)
    assert fs.cat_file(first) == before


@pytest.mark.parametrize("command", ["rebuild", "recover", "verify", "salvage", "config repair", "import"])
def test_commands_that_write_refuse_a_uri(memory, command, tmp_path):
    from support.cli import run

    rest = {"salvage": ["--out", tmp_path / "out"], "import": [tmp_path / "messages.json"]}.get(command, [])
    (tmp_path / "messages.json").touch()
    order = [*rest, memory] if command == "import" else [memory, *rest]
    result = run(*command.split(), *order)
    assert (result.exit_code, "is remote" in result.stderr) == (2, True)


@pytest.mark.parametrize("kind", [Path, RemotePath])
def test_each_kind_of_path_has_the_methods_of_a_store_path(kind):
    methods = {name for name in vars(StorePath) if name in ("__lt__", "__truediv__") or name[0] != "_"}
    assert {"name", "parent", "stat", "iterdir", "open"} < methods
    assert [name for name in sorted(methods) if not hasattr(kind, name)] == []


def test_a_log_in_local_and_in_remote_directories_is_refused(tmp_path, memory):
    local = made_store(tmp_path / "store") / "commitlog"
    upload(fsspec.filesystem("memory"), local, tmp_path.name)
    with pytest.raises(ValueError, match=f"{local}: is local, and other directories of the log are remote"):
        CommitLog.open([memory, local])

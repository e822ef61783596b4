"""The one writer of a store: its lock, its threads, what flushing and closing leave, and how it ends when it must."""

import contextlib
import errno
import faulthandler
import fcntl
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from functools import partial
from pathlib import Path

import pytest
from reference.checkpoint import checkpoint_bytes
from reference.commit_log import read_files, scan
from reference.consume_queue import load
from support.interrupts import interrupt
from support.puts import (
    BEGIN,
    PARTS,
    Pair,
    assert_same_files,
    config_of,
    draw_plain,
    fields_of,
    files_under,
    message_of,
    model_of,
    open_paths,
    open_store,
    path_of,
    with_host,
)
from support.waiting import WAIT, wait_for

import rocketstore
from rocketstore import Message, StoreCheckpoint, StoreClosedError, StoreError, StoreLockedError, UnsupportedFormatError
from rocketstore.dispatch import reput as reput_module
from rocketstore.log import log_files
from rocketstore.store import flush as flush_module

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks paths of descriptors up in /proc")
OPEN = """
import sys
import rocketstore
from rocketstore.errors import StoreLockedError
try:
    rocketstore.open(sys.argv[1], sys.argv[2]).close()
except StoreLockedError:
    sys.exit(3)
"""
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


def run_threads(target, count):
    """Run target(0), target(1), ... in threads; what one raises is raised."""
    errors = []

    def run(number):
        try:
            target(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def in_child(call):
    """What a call gives in a forked process that does not hang: repr of the result or the error."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            faulthandler.dump_traceback_later(10, exit=True, file=write)
            try:
                text = repr(call())
            except BaseException as error:
                text = repr(error)
            os.write(write, text.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        text = stream.read().decode()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"the child hung or died: {text}"
    return text


def opened_elsewhere(root, mode="a"):
    """Whether another process can open the store for writing."""
    command = [sys.executable, "-c", OPEN, str(root), mode]
    code = subprocess.run(command, check=False, timeout=60).returncode
    assert code in (0, 3)
    return code == 0


def queue_lengths(root, **options):
    """Count the units of the queues on disk from the bytes of their files."""
    config = config_of(**options)
    found = {}
    for directory in (Path(root) / "consumequeue").glob("*/*"):
        queue = load(directory, config.mapped_file_size_consume_queue)
        found[directory.parent.name, int(directory.name)] = queue.max_offset
    return found


def logged(root):
    """The records in the log's files, as the reference finds them."""
    return [record for _, record in scan(read_files(Path(root) / "commitlog"))]


@pytest.fixture
def syncs(monkeypatch):
    """Count the syncs by the name of the file's directory."""
    if sys.platform != "linux":
        pytest.skip("looks paths of descriptors up in /proc")
    found, real = Counter(), os.fsync

    def fsync(fd):
        found[Path(path_of(fd)).parent.name] += 1
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


# ---- opening -----------------------------------------------------------------------------------------------


def test_appending_makes_a_store_and_updating_needs_one(tmp_path):
    root = tmp_path / "a" / "store"
    with pytest.raises(FileNotFoundError):
        rocketstore.open(root, "r+")
    assert not root.exists()
    root.mkdir(parents=True)
    with pytest.raises(StoreError, match="no store"):
        rocketstore.open(root, "r+")
    assert list(root.iterdir()) == []
    rocketstore.open(root, "a", config=config_of()).close()
    with rocketstore.open(root, "r+") as store:
        assert store.put_message(Message("T", b"")).phy_offset == 0


def test_a_root_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(OSError, match="file"):
        rocketstore.open(tmp_path / "file", "a", config=config_of())
    assert (tmp_path / "file").read_bytes() == b"x"


def test_a_store_without_a_writable_directory_of_its_log_is_read_alone(tmp_path):
    paths = f"{tmp_path}/a,{tmp_path}/b"
    with open_store(tmp_path, store_path_commit_log=paths) as store:
        store.put_message(Message("T", b"x"))
    before = files_under(tmp_path, "")
    options = {"store_path_commit_log": paths, "read_only_commit_log_store_paths": paths}
    with pytest.raises(ValueError, match="read_only_commit_log_store_paths"):
        open_store(tmp_path, **options)
    assert files_under(tmp_path, "") == before
    with rocketstore.open(tmp_path, config=config_of(**options)) as store:
        assert sum(map(len, store.scan())) == 1


def test_the_last_file_of_a_log_is_continued_in_a_directory_that_has_become_read_only(tmp_path):
    """Source: MappedFileQueue.getLastMappedFile: read-only is where no more files are made."""
    paths = {"store_path_commit_log": f"{tmp_path}/a,{tmp_path}/b", "mapped_file_size_commit_log": 4096}
    message = Message("T", bytes(500), queue_id=0)
    with open_store(tmp_path / "store", **paths) as store:
        end = [store.put_message(message) for _ in range(9)][-1]
    with open_store(tmp_path / "store", **paths, read_only_commit_log_store_paths=f"{tmp_path}/b") as store:
        assert store.put_message(message).phy_offset == end.phy_offset + end.size > 4096
        store.put_messages([message] * 20)
        assert sum(map(len, store.scan())) == 30
    assert [path.name for path in (tmp_path / "b").iterdir()] == [f"{4096:020}"]
    assert len(list((tmp_path / "a").iterdir())) == 4


def test_only_a_writer_writes(tmp_path):
    open_store(tmp_path / "store").close()
    with rocketstore.open(tmp_path / "store") as reader:
        for call in (
            lambda: reader.put_message(Message("T", b"")),
            lambda: reader.put_messages([]),
            reader.flush,
            lambda: reader.create_topic("T"),
            lambda: reader.put_batch(Message("T", b""), []),
        ):
            with pytest.raises(OSError, match="mode 'a'"):
                call()


def test_a_writer_does_not_pickle_and_a_reader_does(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"x", queue_id=0))
        with pytest.raises(TypeError, match="writing"):
            pickle.dumps(store)
        store.flush()
    with rocketstore.open(tmp_path / "store") as reader, pickle.loads(pickle.dumps(reader)) as again:
        assert again.look_message_by_offset(0).body == b"x"


def test_opening_and_closing_without_a_message_leaves_no_data(tmp_path):
    root = tmp_path / "store"
    for _ in range(3):
        open_store(root).close()
    assert files_under(root, *PARTS, "index") == {}
    assert not (root / "abort").exists()
    assert (root / "lock").read_bytes() == b"lock"


def test_a_failed_opening_gives_the_lock_back(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b""))
    for _ in range(2):
        with pytest.raises(ValueError, match="mapped_file_size_commit_log"):
            rocketstore.open(root, "a", config=config_of(mapped_file_size_commit_log=8192))
    assert not rocketstore.open(root).is_locked
    open_store(root).close()


@linux_only
@pytest.mark.parametrize("ahead", [False, True])
def test_an_opening_that_fails_late_leaves_nothing_open(ahead, monkeypatch, tmp_path):
    """The abort file cannot be made, on a full disk."""
    root = tmp_path / "store"
    with open_store(root, allocate_file_ahead=ahead) as store:
        store.put_message(Message("T", b"", keys="k", queue_id=0))
    before = files_under(root, *PARTS, "index")

    def refuse(path, held):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patch:
        patch.setattr("rocketstore.state.abort.open_own_file", refuse)
        with pytest.raises(OSError, match="abort"):
            open_store(root, allocate_file_ahead=ahead)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("rocketstore")]
    assert open_paths(root) == []
    assert files_under(root, *PARTS, "index") == before
    assert opened_elsewhere(root)


@linux_only
def test_an_opening_that_cannot_read_a_queue_leaves_nothing_open(monkeypatch, tmp_path):
    root, real = tmp_path / "store", os.pread
    with open_store(root) as store:
        store.put_message(Message("T", b"", queue_id=0))

    def pread(fd, size, offset):
        if "consumequeue" in path_of(fd):
            raise OSError(errno.EIO, "planted")
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(OSError, match=r"Input/output error at byte 0: .*consumequeue/T/0/"):
        open_store(root)
    assert open_paths(root) == []


@linux_only
@pytest.mark.parametrize("name", ["rocketstore-reput", "rocketstore-flush"])
def test_an_opening_without_a_thread_left_leaves_nothing_open(name, monkeypatch, tmp_path):
    root = tmp_path / "store"
    with open_store(root, allocate_file_ahead=True) as store:
        store.put_message(Message("T", b"", queue_id=0))
    before = files_under(root, *PARTS, "index")
    real = threading.Thread.start

    def start(thread):
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        real(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="new thread"):
            open_store(root, allocate_file_ahead=True)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("rocketstore")]
    assert open_paths(root) == []
    assert files_under(root, *PARTS, "index") == before
    with open_store(root) as store:
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 1


def test_a_store_that_was_closed_is_continued(seed, tmp_path):
    rng = random.Random(f"{seed} reopen")
    config = config_of(store_host="10.0.0.1:10911")
    model = model_of(config)
    for _ in range(8):
        with rocketstore.open(tmp_path / "store", "a", config=config) as store:
            for _ in range(rng.randrange(40)):
                fields = draw_plain(rng)
                result = store.put_message(message_of(fields), store_timestamp=BEGIN)
                expected = model.put(with_host(fields, config), BEGIN)
                assert (result.phy_offset, result.queue_offset) == (expected.phy_offset, expected.queue_offset)
        assert_same_files(tmp_path / "store", model)


def test_a_last_record_that_ends_in_zeros_outlives_a_close(tmp_path):
    """After a kill, the end of the record may never have reached the disk."""
    last = fields_of(properties={"n": "\0"})  # before 5.2 the last property has no separator behind it
    with Pair(tmp_path / "store", compat="5.1.4") as pair:
        pair.put()
        offset = pair.put(last).phy_offset
    pair.store = rocketstore.open(tmp_path / "store", "a", config=pair.config)
    assert pair.store.look_message_by_offset(offset).properties == {"n": "\0"}
    pair.put()
    pair.close()


def test_light_queues_and_batches_go_on_after_opening_again(tmp_path):
    options = {"enable_lmq": True, "enable_multi_dispatch": True}
    for number in range(3):
        with open_store(tmp_path / "store", **options) as store:
            store.create_topic("Batched", 1, queue_type="BatchCQ")
            light = Message("T", b"", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
            result = store.put_message(light)
            message = store.look_message_by_offset(result.phy_offset)
            assert message.properties["INNER_MULTI_QUEUE_OFFSET"] == str(number)
            assert result.queue_offset == number
            batch = Message.batch("Batched", [Message("Batched", b"x")] * 3, queue_id=0)
            assert store.put_message(batch).queue_offset == 3 * number


# ---- the lock ----------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_at_once_and_a_reader_is_not(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b"x"))
        for mode in ("a", "r+"):
            with pytest.raises(StoreLockedError):
                rocketstore.open(root, mode)
            assert not opened_elsewhere(root, mode)
        with rocketstore.open(root, config=config_of()) as reader:
            assert reader.is_locked
            assert reader.look_message_by_offset(0).body == b"x"
    assert opened_elsewhere(root)


def test_reading_the_store_that_this_process_writes_does_not_free_its_lock(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b"x", keys="k", queue_id=0))
        store.flush()
        with rocketstore.open(root, config=config_of()) as reader:
            reader.summary()
            assert reader.is_locked
            assert reader.query_message("T", "k").complete
            (root / "lock").stat()
        assert not opened_elsewhere(root)
        assert store.is_locked
    assert not rocketstore.open(root).is_locked


def test_a_store_that_a_broker_holds_is_refused_and_not_changed(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b"x"))
    (root / "abort").write_bytes(b"123")
    before = files_under(root, *PARTS, "index", "config")
    command = [sys.executable, "-c", HOLD, str(root / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError, match=str(process.pid)):
            open_store(root)
        assert files_under(root, *PARTS, "index", "config") == before
        process.stdin.close()
        process.wait(10)
    with open_store(root) as store:
        assert store.put_message(Message("T", b"")).phy_offset == 93


# ---- abort and checkpoint ----------------------------------------------------------------------------------


def test_abort_is_there_while_a_store_is_written(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        assert (root / "abort").read_text() == str(os.getpid())
        assert not store.last_exit_ok
    assert not (root / "abort").exists()


def test_the_checkpoint_of_a_closed_store_names_the_last_message(tmp_path):
    """Corner 83."""
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b""), store_timestamp=BEGIN)
        last = store.put_message(Message("T", b""), store_timestamp=BEGIN + 5)
    fields = {"confirm_phy_offset": last.phy_offset, "logics_physical_offset": last.phy_offset}
    assert (root / "checkpoint").read_bytes() == checkpoint_bytes(BEGIN + 5, BEGIN + 5, **fields)


def test_the_checkpoint_says_what_a_flush_brought_to_the_disk(tmp_path):
    with open_store(tmp_path / "store", flush_interval_commit_log=600_000) as store:
        offsets = []
        for i in range(3):
            offsets.append(store.put_message(Message("T", b""), store_timestamp=BEGIN + i).phy_offset)
            store.flush()
            checkpoint = StoreCheckpoint.open(tmp_path / "store" / "checkpoint")
            assert checkpoint.physic_msg_timestamp == checkpoint.logics_msg_timestamp == BEGIN + i
            assert checkpoint.logics_physical_offset == offsets[-1]
        store.put_message(Message("T", b""), store_timestamp=BEGIN + 9)
        assert StoreCheckpoint.open(tmp_path / "store" / "checkpoint").physic_msg_timestamp == BEGIN + 2


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_the_checkpoint_says_that_the_first_file_is_on_the_disk_before_the_second_is_begun(flush_disk_type, tmp_path):
    """Else, after a loss of power that tears the first and leaves the second, the store was refused."""
    root = tmp_path / "store"
    options = {"flush_disk_type": flush_disk_type, "flush_interval_commit_log": 600_000}
    with open_store(root, **options) as store:
        size = store.config.mapped_file_size_commit_log
        offsets = [
            store.put_message(Message("T", bytes(1000)), store_timestamp=BEGIN + i).phy_offset
            for i in range(3 * size // 1000)
        ]
        assert offsets[-1] > 2 * size
        last = max(i for i, offset in enumerate(offsets) if offset < size)
        checkpoint = StoreCheckpoint.open(root / "checkpoint")
        assert (checkpoint.confirm_phy_offset, checkpoint.physic_msg_timestamp) == (offsets[last], BEGIN + last)


@pytest.mark.parametrize(
    ("compat", "has_confirm", "has_logics"),
    [
        ("4.9.4", False, False),
        ("5.1.0", False, False),
        ("5.1.4", True, False),
        ("5.4.0", True, False),
        ("5.5.0", True, True),
    ],
)
def test_a_checkpoint_has_the_numbers_of_its_release_and_no_more(compat, has_confirm, has_logics, tmp_path):
    root = tmp_path / "store"
    with open_store(root, compat=compat) as store:
        results = [store.put_message(Message("T", b"", queue_id=0)) for _ in range(2)]
        store.flush()
        flushed = StoreCheckpoint.open(root / "checkpoint")
    for checkpoint in (flushed, StoreCheckpoint.open(root / "checkpoint")):
        assert checkpoint.physic_msg_timestamp == results[-1].store_timestamp
        assert checkpoint.logics_msg_timestamp == results[-1].store_timestamp
        assert checkpoint.confirm_phy_offset == has_confirm * results[-1].phy_offset
        assert checkpoint.logics_physical_offset == has_logics * results[-1].phy_offset


def test_an_index_file_that_filled_is_in_the_checkpoint(tmp_path):
    with Pair(tmp_path / "store") as pair:
        for i in range(60):
            pair.put(properties={"KEYS": f"k{i}"})
            pair.time += 1000
    checkpoint = StoreCheckpoint.open(tmp_path / "store" / "checkpoint")
    assert checkpoint.index_msg_timestamp == pair.model.index.index_msg_timestamp > BEGIN


def test_a_checkpoint_is_not_lowered_by_opening_and_closing(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b""), store_timestamp=BEGIN)
    before = (root / "checkpoint").read_bytes()
    open_store(root).close()
    assert (root / "checkpoint").read_bytes() == before


@pytest.mark.parametrize("queue_nums", [4.0, "4", 0, -1, 2**31])
def test_a_number_of_queues_that_cannot_be_is_refused_and_nothing_written(queue_nums, tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("T", 2)
        before = (tmp_path / "store" / "config" / "topics.json").read_bytes()
        with pytest.raises((TypeError, ValueError)):
            store.create_topic("Other", queue_nums)
        assert (tmp_path / "store" / "config" / "topics.json").read_bytes() == before


def test_topics_json_tells_of_a_topic_but_not_of_a_queue_that_is_far_from_all_others(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", queue_id=65536))
        store.flush()
        assert store.topics["T"].write_queue_nums == 4
        store.put_message(Message("T", b"", queue_id=4))
        store.put_message(Message("T", b"", queue_id=2**31 - 1))
        store.flush()
        assert store.topics["T"].write_queue_nums == 5


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_topic_that_has_simple_queues_gets_no_batch_queues(is_opened_again, tmp_path):
    root = tmp_path / "store"
    store = open_store(root)
    store.put_message(Message("T", b"", queue_id=65536))  # topics.json does not have this queue
    if is_opened_again:
        store.close()
        store = open_store(root)
    with store, pytest.raises(ValueError, match="'T' has queues"):
        store.create_topic("T", 1, queue_type="BatchCQ")
    open_store(root).close()


@pytest.mark.parametrize("mode", ["a", "r+"])
@pytest.mark.parametrize("has_abort", [False, True])
def test_batch_queues_whose_type_topics_json_has_lost_are_refused_and_left(has_abort, mode, tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        store.put_message(Message.batch("B", [Message("B", b"x"), Message("B", b"y")], queue_id=0))
    saved = {path: path.read_bytes() for path in (root / "config").glob("topics.json*")}
    for path in saved:
        path.unlink()
    if has_abort:
        (root / "abort").touch()
    before = files_under(root, *PARTS)
    with pytest.raises(StoreError, match=r"batchconsumequeue/B: .*queue\.type BatchCQ: restore it"):
        rocketstore.open(root, mode, config=config_of())
    assert files_under(root, *PARTS) == before
    for path, data in saved.items():
        path.write_bytes(data)
    with open_store(root) as store:
        assert store.put_message(Message("B", b"", queue_id=0)).queue_offset == 2


# ---- formats that are not written --------------------------------------------------------------------------


def everything(root):
    return {path: path.is_file() and path.read_bytes() for path in root.rglob("*")}


@pytest.mark.parametrize("name", ["consumequeue", "consumequeue_rocksdb"])
def test_a_store_with_queues_in_rocksdb_is_not_written_before_rebuild_makes_files_of_them(name, tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b"", queue_id=0))
    (root / "consumequeue").rename(tmp_path / "queues")
    (root / name).mkdir()
    (root / name / "CURRENT").write_text("MANIFEST-000004\n")
    before = everything(root)
    attempts = [partial(rocketstore.open, root, mode) for mode in ("a", "r+")]
    attempts += [partial(rocketstore.recover, root), partial(rocketstore.rebuild, root, consume_queue=False)]
    for attempt in attempts:
        with pytest.raises(UnsupportedFormatError, match=rf"{name}: the queues are in RocksDB.*rebuild"):
            attempt()
        assert everything(root) == before
    rocketstore.rebuild(root)
    with open_store(root) as store:
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 1


@pytest.fixture(params=["beside", "alone", "elsewhere"])
def dledger_store(request, tmp_path):
    """A store whose log is DLedger's, and the configuration: beside the log of before, or elsewhere."""
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b"", queue_id=0))
    if request.param == "alone":
        (root / "commitlog").rename(tmp_path / "log")
    if request.param == "elsewhere":
        return root, rocketstore.StoreConfig(other={"enableDLegerCommitLog": "true"})
    (root / "dledger-n0" / "data").mkdir(parents=True)
    return root, None


@pytest.mark.parametrize(
    "attempt",
    [
        partial(rocketstore.open, mode="a"),
        partial(rocketstore.open, mode="r+"),
        rocketstore.recover,
        partial(rocketstore.recover, policy="broker"),
        rocketstore.rebuild,
        lambda root, config: rocketstore.rebuild(root, out=root / "new", config=config),
        lambda root, config: rocketstore.salvage(root, root.parent / "new", config=config),
    ],
)
def test_a_store_whose_log_is_in_dledger_is_not_written_and_no_other_log_is_used(dledger_store, attempt):
    root, config = dledger_store
    before = everything(root)
    with pytest.raises(UnsupportedFormatError, match="DLedger"):
        attempt(root, config=config)
    assert everything(root) == before


# ---- flushing ----------------------------------------------------------------------------------------------


def test_a_message_is_on_the_disk_when_it_is_acknowledged_under_sync_flush(syncs, tmp_path):
    # A file that is made ahead is synced whenever its thread has its turn.
    options = {"flush_disk_type": "SYNC_FLUSH", "flush_interval_commit_log": 600_000, "allocate_file_ahead": False}
    with open_store(tmp_path / "store", **options) as store:
        for _ in range(20):
            before = syncs["commitlog"]
            store.put_message(Message("T", bytes(500)))
            assert syncs["commitlog"] > before
        before = syncs["commitlog"]
        store.put_messages([Message("T", b"")] * 10)
        assert syncs["commitlog"] == before + 1


def test_what_the_flush_of_the_queues_brought_to_the_disk_is_not_flushed_again(monkeypatch, syncs, tmp_path):
    options = {"flush_disk_type": "SYNC_FLUSH", "mapped_file_size_commit_log": 1 << 20, "allocate_file_ahead": False}
    with open_store(tmp_path / "store", **options) as store:
        flusher = store._writer._flusher

        def flush_when_a_message_waits():
            while not flusher._callers and not flusher._is_stopped:
                time.sleep(0.001)
            store._writer._log.flush()

        store.put_message(Message("T", b""))
        monkeypatch.setattr(flusher, "_flush_dispatched", flush_when_a_message_waits)
        monkeypatch.setattr(flush_module, "QUEUE_FLUSH_SECONDS", 0)
        before = syncs["commitlog"]
        for _ in range(20):
            store.put_message(Message("T", b""))
        assert syncs["commitlog"] <= before + 20


@pytest.mark.parametrize(("ahead", "error"), [(True, OSError(errno.EIO, "fails")), (False, KeyboardInterrupt)])
def test_a_file_whose_name_was_not_synced_is_synced_by_its_next_user(ahead, error, monkeypatch, tmp_path):
    real, failing, synced = log_files.sync_path, [error], []

    def sync_once(path, held):
        name = max(file.name for file in path.iterdir())
        if int(name) == 8192 and failing:
            raise failing.pop()
        synced.append(name)
        real(path, held)

    with open_store(tmp_path / "store", flush_disk_type="SYNC_FLUSH", allocate_file_ahead=ahead) as store:
        store.put_message(Message("T", bytes(3000)))
        monkeypatch.setattr(log_files, "sync_path", sync_once)
        while store.commit_log.max_phy_offset <= 8192:
            with contextlib.suppress(KeyboardInterrupt):
                store.put_message(Message("T", bytes(3000)))
        assert not failing
        assert f"{8192:020}" in synced


def test_many_threads_share_their_flushes(monkeypatch, syncs, tmp_path):
    real = os.fsync  # that counts

    def slow(fd):
        time.sleep(0.005)  # as a disk does
        real(fd)

    options = {"flush_disk_type": "SYNC_FLUSH", "mapped_file_size_commit_log": 1 << 20, "allocate_file_ahead": False}
    threads, each = 16, 40
    with open_store(tmp_path / "store", **options) as store:
        monkeypatch.setattr(os, "fsync", slow)
        run_threads(lambda n: [store.put_message(Message("T", b"%d" % i, queue_id=n)) for i in range(each)], threads)
        assert syncs["commitlog"] < threads * each / 4
    assert queue_lengths(tmp_path / "store") == {("T", n): each for n in range(threads)}


def test_callers_that_wake_each_other_while_the_flusher_wakes_them_do_not_end_it(monkeypatch, tmp_path):
    class Racing(deque):
        """Something was in it a moment ago."""

        def __bool__(self):
            return True

    monkeypatch.setattr(flush_module, "deque", Racing)
    with open_store(tmp_path / "store", flush_disk_type="SYNC_FLUSH") as store:
        store.put_message(Message("T", b""))
        assert store._writer._flusher.error is None


def test_closing_waits_for_no_round_of_dispatch_that_would_come_later(monkeypatch, tmp_path):
    for name in ("WAIT_SECONDS", "MAX_WAIT_SECONDS"):
        monkeypatch.setattr(reput_module, name, 60.0)
    begin = time.monotonic()
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b""))
        assert store.consume_queue("T", 0).max_queue_offset <= 1
    assert time.monotonic() - begin < 30


def test_on_macos_nothing_is_acknowledged_by_a_sync_that_leaves_it_in_the_disk_s_memory(monkeypatch, tmp_path):
    plain, full = [], []
    fsync, real = os.fsync, fcntl.fcntl

    def call(fd, command, *args):
        if command != "F_FULLFSYNC":
            return real(fd, command, *args)
        full.append(fd)
        fsync(fd)
        return 0

    root = tmp_path / "store"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        patch.setattr(fcntl, "F_FULLFSYNC", "F_FULLFSYNC", raising=False)
        patch.setattr(fcntl, "fcntl", call)
        patch.setattr(os, "fsync", plain.append)
        with open_store(root, flush_disk_type="SYNC_FLUSH") as store:
            store.create_topic("T", 4)
            result = store.put_message(Message("T", b"", keys="k", queue_id=0))
            store.flush()
        with (root / "commitlog" / f"{0:020}").open("r+b") as file:
            file.seek(result.size)
            file.write(b"torn")
        (root / "abort").touch()
        with open_store(root) as store:
            store.delete_expired_files(hours=0)
        assert (root / "rocketstore-cut").exists()
    assert len(full) > 10
    assert plain == []


def test_without_sync_flush_a_put_flushes_nothing(syncs, tmp_path):
    options = {"flush_interval_commit_log": 600_000, "allocate_file_ahead": False}
    with open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20, **options) as store:
        store.put_message(Message("T", b"first"))  # makes the file
        syncs.clear()
        for _ in range(50):
            store.put_message(Message("T", bytes(1000)))
        assert syncs["commitlog"] == 0


def test_the_log_is_flushed_in_the_background_after_some_pages(syncs, tmp_path):
    options = {"flush_interval_commit_log": 10, "flush_commit_log_thorough_interval": 600_000}
    options |= {"mapped_file_size_commit_log": 1 << 20, "allocate_file_ahead": False}  # a new file syncs too
    with open_store(tmp_path / "store", **options) as store:
        store.put_message(Message("T", b"first"))
        time.sleep(0.1)
        before = syncs["commitlog"]
        store.put_message(Message("T", bytes(1000)))
        time.sleep(0.1)
        assert syncs["commitlog"] == before  # not four pages yet
        store.put_message(Message("T", bytes(5 * 4096)))
        wait_for(lambda: syncs["commitlog"] > before)


def test_the_log_is_flushed_in_the_background_after_some_time_in_any_case(syncs, tmp_path):
    options = {"flush_interval_commit_log": 10, "flush_commit_log_thorough_interval": 50, "allocate_file_ahead": False}
    with open_store(tmp_path / "store", **options) as store:
        store.put_message(Message("T", b"first"))
        time.sleep(0.1)
        before = syncs["commitlog"]
        store.put_message(Message("T", b""))
        wait_for(lambda: syncs["commitlog"] > before)


def test_flush_brings_every_part_to_the_disk(syncs, tmp_path):
    with open_store(tmp_path / "store", flush_interval_commit_log=600_000) as store:
        for i in range(30):
            store.put_message(Message("T", bytes(500), keys=f"k{i}", queue_id=i % 3))
        syncs.clear()
        store.flush()
        assert all(syncs[name] for name in ("commitlog", "0", "1", "2", "store"))
        assert (tmp_path / "store" / "config" / "topics.json").exists()
        syncs.clear()
        store.flush()
        assert syncs["commitlog"] == syncs["0"] == 0  # nothing is new


# ---- threads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_queue_offsets_never_repeat_with_many_threads(flush_disk_type, seed, tmp_path):
    results = [[] for _ in range(16)]
    with open_store(tmp_path / "store", flush_disk_type=flush_disk_type) as store:

        def put(number):
            rng = random.Random(f"{seed} {number}")
            for _ in range(15):
                rows = [message_of(draw_plain(rng)) for _ in range(rng.randrange(1, 6))]
                topics = [row.topic for row in rows]
                placed = store.put_messages(rows) if rng.random() < 0.5 else [store.put_message(row) for row in rows]
                results[number] += zip(topics, placed, strict=True)

        run_threads(put, 16)
    placed = sorted((one.phy_offset, topic, one) for rows in results for topic, one in rows)
    records = logged(tmp_path / "store")
    assert [(r.phy_offset, r.topic, r.queue_id, r.queue_offset) for r in records] == [
        (phy_offset, topic, one.queue_id, one.queue_offset) for phy_offset, topic, one in placed
    ]
    queues = {}
    for record in records:
        queues.setdefault((record.topic, record.queue_id), []).append(record.queue_offset)
    assert all(offsets == list(range(len(offsets))) for offsets in queues.values())
    assert queue_lengths(tmp_path / "store") == {queue: len(offsets) for queue, offsets in queues.items()}


def test_more_queues_than_descriptors_are_kept_open_are_written_by_many_threads(tmp_path):
    stop = threading.Event()
    with open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 16) as store:

        def put(number):
            try:
                if number == 0:
                    while not stop.is_set():
                        store.flush()
                else:
                    for i in range(150):
                        store.put_message(Message(f"T{i}", b"", queue_id=number % 2))
            finally:
                if number == 1:
                    stop.set()

        run_threads(put, 5)
    lengths = queue_lengths(tmp_path / "store", mapped_file_size_commit_log=1 << 16)
    assert lengths == {(f"T{i}", queue_id): 2 for i in range(150) for queue_id in range(2)}


def test_puts_to_new_queues_and_flushes_wait_for_no_ring_of_locks(tmp_path):
    """Each put asks the dispatcher for a queue, which asks the log for its end, which a flush moves on."""
    stop = time.monotonic() + 0.5
    store = open_store(tmp_path / "store")

    def work(number):
        queue_id = 0
        while time.monotonic() < stop:
            if number < 2:
                store.put_message(Message(f"T{number}", b"", queue_id=queue_id))
                queue_id += 1
            elif number == 2:
                store.flush()
            else:
                store.delete_expired_files(hours=0, dry_run=True)

    run_threads(work, 4)
    assert {topic for topic, _ in store.queues()} == {"T0", "T1"}
    assert {store.consume_queue(*queue).max_queue_offset for queue in store.queues()} == {1}
    store.close()  # not after a failure: it would hang too


def test_every_query_has_an_answer_while_files_expire(tmp_path):
    stop = time.monotonic() + 1
    sizes = {"max_hash_slot_num": 4, "max_index_num": 8, "mapped_file_size_consume_queue": 2000}
    with open_store(tmp_path / "store", **sizes) as store:
        store.put_message(Message("T", b"", keys="k0", queue_id=0))
        columns = {"columns": ["phy_offset"]}
        queries = [
            lambda: store.get_message("T", 0, 0),
            lambda: store.get_message("T", 0, store.get_message("T", 0, 0).next_begin_offset, tags="a"),
            lambda: store.get_message("T", 0, store.get_message("T", 0, 0).next_begin_offset, limits="broker"),
            lambda: store.look_message_by_offset(store.commit_log.min_phy_offset),
            lambda: store.index.query_offset("T", "k1"),
            lambda: store.query_message("T", "k1"),
            lambda: store.query_messages("T", ["k1", "k2"], threads=2)[1],
            lambda: list(store.scan(**columns)),
            lambda: list(store.follow(poll=None)),
            lambda: store.consume_queue("T", 0).min_queue_offset,
            lambda: list(store.consume_queue("T", 0)[0:]),
            lambda: store.consume_queue("T", 0).get_offset_by_time(BEGIN),
        ]

        def work(number):
            while time.monotonic() < stop:
                if number:
                    for query in queries:
                        query()
                else:
                    rows = [Message("T", bytes(1000), keys=f"k{i}", tags="a", queue_id=0) for i in range(20)]
                    end = store.put_messages(rows).phy_offsets[-1]
                    store.delete_expired_files(before_phy_offset=int(end))

        run_threads(work, 3)


def test_reading_and_writing_at_once(seed, tmp_path):
    root = tmp_path / "store"
    done = threading.Event()
    with open_store(root) as store, rocketstore.open(root, config=config_of()) as reader:

        def work(number):
            rng = random.Random(f"{seed} {number} both")
            if number == 0:
                try:
                    for i in range(300):
                        store.put_message(Message("T", b"%d" % i, keys=f"k{i}", queue_id=0))
                finally:
                    done.set()
            while not done.is_set():
                whom = reader if number == 1 else store
                bodies = [m.body for batch in whom.scan() for m in batch]
                assert bodies == [b"%d" % i for i in range(len(bodies))]
                if number == 2 and bodies:
                    i = rng.randrange(len(bodies))
                    assert store.get_message("T", 0, i).messages[0].body == b"%d" % i
                    assert [m.body for m in store.query_message("T", f"k{i}").messages] == [b"%d" % i]

        run_threads(work, 3)


# ---- closing -----------------------------------------------------------------------------------------------


def test_after_closing_every_call_says_so(tmp_path):
    store = open_store(tmp_path / "store")
    store.put_message(Message("T", b"", queue_id=0))
    store.close()
    store.close()
    calls = [
        lambda: store.put_message(Message("T", b"")),
        lambda: store.put_messages([Message("T", b"")]),
        lambda: store.put_batch(Message("T", b""), []),
        store.flush,
        lambda: store.create_topic("X"),
        lambda: store.add_dispatcher(print),
        lambda: store.consume_queue("T", 0),
        lambda: store.index,
        lambda: store.commit_log.get_message(0),
        lambda: store.get_message("T", 0, 0),
        lambda: list(store.scan()),
        lambda: list(store.queues()),
    ]
    for call in calls:
        with pytest.raises(StoreClosedError):
            call()


@pytest.mark.parametrize("is_enabled", [True, False])
def test_closing_leaves_no_thread_and_no_descriptor(tmp_path, is_enabled):
    threads = set(threading.enumerate())
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", keys="k"))
    for _ in range(3):
        store = open_store(tmp_path / "store", message_index_enable=is_enabled)
        for i in range(50):
            store.put_message(Message(f"T{i}", bytes(500), keys="k"))
        store.consume_queue("T0", 0)
        store.close()
        assert set(threading.enumerate()) == threads
        if sys.platform == "linux":
            assert open_paths(tmp_path) == []


@pytest.mark.parametrize("is_noted", [True, False])
def test_messages_that_were_put_without_an_index_are_indexed_when_it_is_on_again(tmp_path, is_noted, monkeypatch):
    """Where it is not noted, as a broker does not, the records behind the index's last show it."""
    monkeypatch.setattr("rocketstore.recovery.plan_index.NEAR", 4096)
    root = tmp_path / "store"
    for key, is_enabled in (("a", True), ("b", False), ("c", True)):
        with open_store(root, message_index_enable=is_enabled) as store:
            if is_noted and not is_enabled:
                store.put_messages([Message("T", bytes(500))] * 20)  # without a key, and more than is near
            store.put_message(Message("T", b"", keys=key))
        if not is_noted:
            (root / "config" / "rocketstore.json").unlink()
    with rocketstore.open(root) as store:
        for key in "abc":
            found = store.query_message("T", key)
            assert (len(found.messages), found.complete) == (1, True)


def test_several_threads_may_close(tmp_path):
    for number in range(10):
        store = open_store(tmp_path / str(number))
        store.put_message(Message("T", b"", queue_id=0))
        run_threads(lambda _, store=store: store.close(), 4)
        assert not (tmp_path / str(number) / "abort").exists()
        assert not rocketstore.open(tmp_path / str(number)).is_locked


def test_messages_that_are_acknowledged_while_a_store_closes_are_in_their_queue(tmp_path):
    for number in range(10):
        root = tmp_path / str(number)
        store, acknowledged = open_store(root), Counter()

        def put(queue_id, store=store, acknowledged=acknowledged):
            try:
                while True:
                    store.put_message(Message("T", b"", queue_id=queue_id))
                    acknowledged[queue_id] += 1
            except StoreClosedError:
                pass

        closer = threading.Timer(0.01, store.close)
        closer.start()
        run_threads(put, 3)
        closer.join()
        assert queue_lengths(root) == {("T", queue_id): count for queue_id, count in acknowledged.items()}


def test_a_message_put_at_the_last_moment_of_closing_is_dispatched_or_refused(monkeypatch, tmp_path):
    root = tmp_path / "store"
    store = open_store(root)
    store.put_message(Message("T", b"", queue_id=0))
    counts, real = Counter(acknowledged=1), StoreCheckpoint.flush

    def flush(checkpoint):
        real(checkpoint)
        thread = threading.Thread(target=put)  # after all was flushed
        thread.start()
        thread.join(0.5)  # it may have to wait until the store is closed

    def put():
        try:
            store.put_message(Message("T", b"", queue_id=0))
            counts["acknowledged"] += 1
        except StoreError:
            counts["refused"] += 1

    monkeypatch.setattr(StoreCheckpoint, "flush", flush)
    store.close()
    monkeypatch.undo()
    wait_for(lambda: counts["acknowledged"] + counts["refused"] >= 2)
    assert queue_lengths(root) == {("T", 0): counts["acknowledged"]} or (root / "abort").exists()


def test_a_store_that_is_dropped_open_is_as_one_that_was_killed(tmp_path):
    root = tmp_path / "store"
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from support.puts import open_store, Message
store = open_store(Path({str(root)!r}))
for i in range(20):
    store.put_message(Message("T", bytes(500), keys="k", queue_id=0))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert (root / "abort").exists()
    with open_store(root) as store:
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 20
        assert len(store.query_message("T", "k").messages) == 20


# ---- fork and Ctrl-C ---------------------------------------------------------------------------------------

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
def test_a_forked_process_may_not_write(tmp_path):
    root = tmp_path / "store"
    with open_store(root, allocate_file_ahead=False) as store:
        store.put_message(Message("T", b"", queue_id=0))
        store.flush()
        before = files_under(root, *PARTS, "index")
        for call in (
            lambda: store.put_message(Message("T", b"")),
            lambda: store.put_messages([Message("T", b"")]),
            store.flush,
            lambda: store.create_topic("X"),
        ):
            assert "another process" in in_child(call)
        assert in_child(store.close) == "None"
        assert files_under(root, *PARTS, "index") == before
        assert (root / "abort").exists()
        assert not opened_elsewhere(root)
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 1


@needs_fork
@pytest.mark.skipif(sys.platform != "linux", reason="looks paths of descriptors up in /proc")
def test_a_process_forked_in_the_middle_of_a_dispatch_continues_nothing_and_does_not_hang(monkeypatch, tmp_path):
    root = tmp_path / "store"
    parent, entered, release, real = os.getpid(), threading.Event(), threading.Event(), os.pwrite

    def pwrite(fd, *args):
        if os.getpid() == parent and "consumequeue" in path_of(fd):
            entered.set()
            assert release.wait(WAIT)
        return real(fd, *args)

    with open_store(root, allocate_file_ahead=False) as store:
        monkeypatch.setattr(os, "pwrite", pwrite)
        store.put_message(Message("T", b"", keys="k", queue_id=0))
        assert entered.wait(WAIT)
        before = files_under(root, *PARTS, "index")
        calls = [
            lambda: store.query_message("T", "k"),
            lambda: store.consume_queue("T", 0).max_queue_offset,
            lambda: list(store.queues()),
            lambda: store.index,
            store.flush,
            store.close,
        ]
        try:
            for call in calls:
                in_child(call)
                assert files_under(root, *PARTS, "index") == before
        finally:
            release.set()
        assert len(store.query_message("T", "k").messages) == 1
    assert queue_lengths(root) == {("T", 0): 1}


@needs_fork
def test_a_process_forked_in_the_middle_of_a_put_is_refused_and_does_not_hang(tmp_path):
    with open_store(tmp_path / "store") as store:
        stop = threading.Event()

        def put():
            while not stop.is_set():
                store.put_message(Message("T", bytes(200), queue_id=0))

        thread = threading.Thread(target=put)
        thread.start()
        try:
            for _ in range(25):
                assert "another process" in in_child(lambda: store.put_message(Message("T", b"")))
                assert in_child(store.close) == "None"
        finally:
            stop.set()
            thread.join()
    assert queue_lengths(tmp_path / "store")["T", 0] == len(logged(tmp_path / "store"))


@needs_fork
def test_a_process_forked_while_the_log_is_locked_is_refused_and_does_not_hang(tmp_path):
    with open_store(tmp_path / "store") as store, store._writer._log.lock:
        for call in (
            lambda: store.create_topic("X"),
            lambda: store.put_message(Message("T", b"")),
            lambda: store.put_messages([Message("T", b"")]),
            lambda: store.put_batch(Message("T", b"", queue_id=0), [Message("T", b"")]),
        ):
            assert "another process" in in_child(call)


@needs_fork
def test_a_process_forked_in_the_middle_of_a_flush_writes_a_store_of_its_own(monkeypatch, tmp_path):
    parent, entered, release, real = os.getpid(), threading.Event(), threading.Event(), os.fsync

    def fsync(fd):
        if os.getpid() == parent and os.fstat(fd).st_size == 4096 and not entered.is_set():  # the checkpoint's
            entered.set()
            assert release.wait(WAIT)
        real(fd)

    def write_another():
        with open_store(tmp_path / "child") as mine:
            return mine.put_message(Message("T", b"", queue_id=0)).queue_offset

    with open_store(tmp_path / "store", mapped_file_size_commit_log=8192) as store:
        store.put_message(Message("T", b"", queue_id=0))
        monkeypatch.setattr(os, "fsync", fsync)
        thread = threading.Thread(target=store.flush)
        thread.start()
        assert entered.wait(WAIT)
        try:
            assert in_child(write_another) == "0"
        finally:
            release.set()
            thread.join()


@needs_fork
def test_a_forked_process_may_open_the_store_when_its_parent_has_closed_it(tmp_path):
    root = tmp_path / "store"
    store = open_store(root)
    store.put_message(Message("T", b"", queue_id=0))
    read, write = os.pipe()

    def wait_and_write():
        os.close(write)
        os.read(read, 1)
        with open_store(root) as mine:
            return mine.put_message(Message("T", b"", queue_id=0)).queue_offset

    threading.Timer(0.2, lambda: (store.close(), os.close(write))).start()
    assert in_child(wait_and_write) == "1"
    os.close(read)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that signals")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # between opening and `with`
def test_ctrl_c_at_any_moment_leaves_a_sound_store(seed, tmp_path):
    rng = random.Random(f"{seed} ctrl-c")
    root = tmp_path / "store"
    acknowledged = []
    store = open_store(root)

    def use():
        rows = [message_of(draw_plain(rng)) for _ in range(rng.randrange(1, 9))]
        if rng.random() < 0.5:
            acknowledged.extend(store.put_messages(rows).phy_offsets.tolist())
        else:
            acknowledged.append(store.put_message(rows[0]).phy_offset)
        if rng.random() < 0.1:
            store.query_message("TopicTest", "k0")
        if rng.random() < 0.05:
            store.flush()

    interrupt(use, (rng.uniform(0.0005, 0.01) for _ in range(60)))
    store.close()
    records = logged(root)
    offsets = [record.phy_offset for record in records]
    assert set(acknowledged) <= set(offsets)
    assert_is_built(root, records)


@pytest.mark.parametrize("part", ["reput", "_flusher"])
def test_ctrl_c_while_close_ends_a_thread_leaves_neither_one_nor_the_lock(part, tmp_path, monkeypatch):
    before = threading.active_count()
    store = open_store(tmp_path / "store")
    service = getattr(store._writer, part)
    stop = service.stop

    def interrupt():
        stop()
        raise KeyboardInterrupt

    monkeypatch.setattr(service, "stop", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.close()
    assert threading.active_count() == before
    open_store(tmp_path / "store").close()


def test_a_store_whose_close_ctrl_c_ended_before_its_flush_was_no_clean_stop(tmp_path, monkeypatch):
    store = open_store(tmp_path / "store")
    store.put_message(Message("T", b""))

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(store._writer, "_seal", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.close()
    store.close()
    assert (tmp_path / "store" / "abort").exists()


AT_EXIT = """
import atexit, sys
sys.path.insert(0, sys.argv[1])
from support.puts import open_store
from rocketstore import Message
store = open_store(sys.argv[2])
atexit.register(store.close)
store.put_messages([Message("T", b"", keys=[f"k{i}"]) for i in range(300)])
"""


def test_a_store_can_be_closed_when_the_interpreter_ends(tmp_path):
    """Index files fill then, and there are no more threads that could flush them."""
    root = tmp_path / "store"
    command = [sys.executable, "-c", AT_EXIT, str(Path(__file__).parent.parent), str(root)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not (root / "abort").exists()
    assert_is_built(root, logged(root))


def test_a_handler_of_a_signal_cannot_close_a_store_that_its_thread_puts_into(tmp_path):
    """It would wait for itself."""
    store, in_handler = open_store(tmp_path / "store"), []

    def handler(*_):
        try:
            store.close()
        except RuntimeError as error:
            in_handler.append(str(error))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for n in range(10):
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0001 * n)
            while len(in_handler) <= n and not store._writer._closed:
                with contextlib.suppress(StoreClosedError):  # it came when the call had not begun to put
                    store.put_messages([Message("T", b"")] * 100)
            if store._writer._closed:  # or between two calls
                store = open_store(tmp_path / "store")
                in_handler.append("closed")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    store.close()
    assert not (tmp_path / "store" / "abort").exists()
    assert any("this thread is in put_messages" in said for said in in_handler)


def test_what_a_handler_of_a_signal_raises_while_many_are_put_is_raised(tmp_path):
    class Turns(dict):
        def __missing__(self, topic):  # where Python runs, a handler does
            raise RuntimeError("timeout")

    with open_store(tmp_path / "store") as store:
        queues = store._writer._topic_queues
        turns, queues._turns = queues._turns, Turns()
        with pytest.raises(RuntimeError, match="timeout"):
            store.put_messages([Message("T", b"")] * 3)
        queues._turns = turns
        assert len(store.put_messages([Message("T", b"")] * 3)) == 3


def assert_is_built(root, records):
    """Compare queues and index with what the reference builds from the records, each once."""
    config = config_of()
    model = model_of(config)
    for record in records:
        model.dispatch(record)
    built = {path: data for path, data in model.data_files().items() if not path.startswith("commitlog")}
    assert files_under(root, *PARTS[1:]) == built
    assert [path.read_bytes() for path in sorted((root / "index").iterdir())] == model.index_files()


# ---- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_copied", [True, False])
@pytest.mark.parametrize("part", ["commitlog", "consumequeue/T/0", "index"])
def test_a_file_that_another_process_takes_away_ends_the_writing(part, is_copied, tmp_path):
    """As a broker does that is started meanwhile: it recovers the store before it asks for the lock."""
    root = tmp_path / "store"
    store = open_store(root, allocate_file_ahead=False, flush_interval_commit_log=600_000)
    store.put_message(Message("T", b"", queue_id=0, keys="k0"))
    store.flush()
    (path,) = (root / part).glob("[0-9]*[0-9]")
    data = path.read_bytes()
    path.unlink()
    if is_copied:
        path.write_bytes(data)
    store.put_message(Message("T", b"", queue_id=0, keys="k1"))
    with pytest.raises(StoreError, match="removed or replaced"):
        store.flush()
    store.close()
    assert (root / "abort").exists()
    if part != "commitlog":
        with open_store(root) as store:
            assert store.consume_queue("T", 0).max_queue_offset == 2
            assert [len(store.query_message("T", key).messages) for key in ("k0", "k1")] == [1, 1]


def fail_on(monkeypatch, name, part, error=errno.EIO, times=1 << 30):
    """Let a system call fail for files of a part of the store."""
    real, left = getattr(os, name), [times]

    def call(fd, *args):
        path = fd if isinstance(fd, (str, os.PathLike)) else path_of(fd)
        if f"/{part}/" in f"{path}/" and left[0] > 0:
            left[0] -= 1
            raise OSError(error, os.strerror(error), str(path))
        return real(fd, *args)

    monkeypatch.setattr(os, name, call)


@linux_only
def test_after_a_failed_sync_nothing_is_acknowledged_any_more(monkeypatch, tmp_path):
    root = tmp_path / "store"
    store = open_store(root, flush_disk_type="SYNC_FLUSH", allocate_file_ahead=False)
    store.put_message(Message("T", b"good", queue_id=0))
    fail_on(monkeypatch, "fsync", "commitlog", times=1)
    with pytest.raises(OSError, match="Input/output"):
        store.put_message(Message("T", b"lost?", queue_id=0))
    for call in (
        lambda: store.put_message(Message("T", b"")),
        store.flush,
        lambda: store.put_messages([Message("T", b"")]),
    ):
        with pytest.raises(StoreError, match="Input/output") as refused:
            call()
        assert isinstance(refused.value.__cause__, OSError)
    assert store.look_message_by_offset(0).body == b"good"
    store.close()
    assert (root / "abort").exists()
    with open_store(root) as store:
        assert store.get_message("T", 0, 0).messages[0].body == b"good"
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset in (1, 2)


@linux_only
def test_one_sync_serves_all_waiting_threads(monkeypatch, tmp_path):
    store, count = open_store(tmp_path / "store", flush_disk_type="SYNC_FLUSH"), [0]
    real = os.fsync

    def slow(fd):
        count[0] += 1
        time.sleep(0.01)
        real(fd)

    store.put_message(Message("T", b"", queue_id=0))
    monkeypatch.setattr(os, "fsync", slow)
    run_threads(lambda _: [store.put_message(Message("T", b"", queue_id=0)) for _ in range(20)], 16)
    assert count[0] < 16 * 20 / 4
    monkeypatch.undo()
    store.close()


@linux_only
def test_a_failed_sync_fails_all_waiting_threads(monkeypatch, tmp_path):
    store = open_store(tmp_path / "store", flush_disk_type="SYNC_FLUSH", allocate_file_ahead=False)
    store.put_message(Message("T", b"good"))
    fail_on(monkeypatch, "fsync", "commitlog")
    failed = []

    def put(number):
        try:
            store.put_message(Message("T", b"%d" % number))
        except (OSError, StoreError):
            failed.append(number)

    run_threads(put, 8)
    assert len(failed) == 8
    monkeypatch.undo()
    store.close()


@linux_only
@pytest.mark.parametrize(
    ("name", "part"), [("fsync", "commitlog"), ("pwrite", "consumequeue"), ("ftruncate", "consumequeue")]
)
def test_a_failure_in_the_background_is_raised_by_the_next_put(name, part, monkeypatch, tmp_path):
    root = tmp_path / "store"
    options = {"flush_interval_commit_log": 5, "flush_commit_log_thorough_interval": 5}
    options |= {"mapped_file_size_commit_log": 1 << 20, "allocate_file_ahead": False}  # so that no put makes a file
    store = open_store(root, **options)
    store.put_message(Message("T", b"", queue_id=1))
    fail_on(monkeypatch, name, part, errno.ENOSPC)
    error = None

    def is_refused():
        nonlocal error
        try:
            store.put_message(Message("T", bytes(300), queue_id=0))
        except (OSError, StoreError) as refused:
            error = refused
        return error is not None

    wait_for(is_refused, "the failure was swallowed")
    assert "No space" in str(error)
    with pytest.raises(StoreError):
        store.put_message(Message("T", b""))
    monkeypatch.undo()
    store.close()
    assert (root / "abort").exists()
    count = len(logged(root)) - 1
    with open_store(root, **options) as store:
        result = store.put_message(Message("T", b"", queue_id=0))
        assert result.queue_offset == count
    assert queue_lengths(root) == {("T", 0): count + 1, ("T", 1): 1}


@linux_only
@pytest.mark.parametrize("ahead", [True, False])
def test_a_full_disk_is_an_os_error_and_the_log_is_as_it_was(ahead, monkeypatch, tmp_path):
    root = tmp_path / "store"
    store = open_store(root, allocate_file_ahead=ahead)
    for _ in range(3):
        store.put_message(Message("T", bytes(1000), queue_id=0))
    wait_for(lambda: len(read_files(root / "commitlog")) == 1 + ahead)
    fail_on(monkeypatch, "posix_fallocate", "commitlog", errno.ENOSPC)
    acknowledged = 3
    error = None
    while error is None:
        try:
            store.put_message(Message("T", bytes(1000), queue_id=0))
            acknowledged += 1
        except OSError as full:
            error = full
    assert error.errno == errno.ENOSPC
    monkeypatch.undo()
    store.close()
    assert len(logged(root)) == acknowledged
    with open_store(root) as store:
        assert store.put_message(Message("T", bytes(1000), queue_id=0)).queue_offset == acknowledged
        assert store.consume_queue("T", 0).max_queue_offset == acknowledged + 1


@linux_only
def test_messages_that_were_written_before_the_disk_was_full_are_messages(monkeypatch, tmp_path):
    root = tmp_path / "store"
    with open_store(root, allocate_file_ahead=False) as store:
        store.put_message(Message("T", bytes(1000), queue_id=0))
        fail_on(monkeypatch, "posix_fallocate", "commitlog", errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            store.put_messages([Message("T", bytes(1000), queue_id=0)] * 10)
        monkeypatch.undo()
        try:
            store.put_message(Message("T", bytes(1000), queue_id=0))
        except StoreError:
            assert not store.last_exit_ok
    with open_store(root) as store:
        store.put_message(Message("T", bytes(1000), queue_id=0))
        records = [message for batch in store.scan() for message in batch]
        assert [message.queue_offset for message in records] == list(range(len(records)))
        assert len(records) >= 2
        assert store.consume_queue("T", 0).max_queue_offset == len(records)


class Stop(BaseException):
    """A BaseException that is no Exception, like KeyboardInterrupt and asyncio.CancelledError."""


@linux_only
def test_ctrl_c_while_closing_is_no_clean_stop(monkeypatch, tmp_path):
    root = tmp_path / "store"
    store = open_store(root, allocate_file_ahead=False)
    store.put_message(Message("T", b"", queue_id=0))
    real = os.fsync

    def interrupted(fd):
        if "/commitlog/" in path_of(fd) and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        real(fd)

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.close()
    monkeypatch.undo()
    assert (root / "abort").exists()
    with open_store(root) as store:
        assert not store.last_exit_ok
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), Stop()], ids=lambda error: type(error).__name__)
def test_whatever_ends_the_dispatching_ends_the_writing(error, tmp_path):
    def fail(batch):
        raise error

    root = tmp_path / "store"
    store = open_store(root)
    store.add_dispatcher(fail)
    store.put_message(Message("T", b"", queue_id=0))

    def is_refused():
        try:
            store.flush()
        except StoreError as refused:
            return refused.__cause__ is error
        return False

    wait_for(is_refused, "the failure was swallowed")
    with pytest.raises(StoreError):
        store.put_message(Message("T", b"", queue_id=0))
    store.close()
    assert (root / "abort").exists()


def test_the_log_is_flushed_while_an_own_dispatcher_is_slow(monkeypatch, tmp_path):
    monkeypatch.setattr(flush_module, "QUEUE_FLUSH_SECONDS", 0.01)
    options = {"flush_interval_commit_log": 1, "flush_commit_log_thorough_interval": 1}
    store = open_store(tmp_path / "store", **options)
    called, go_on = threading.Event(), threading.Event()

    def slow(batch):
        called.set()
        assert go_on.wait(60)

    store.add_dispatcher(slow)
    store.put_message(Message("T", b"", queue_id=0))
    assert called.wait(WAIT)
    try:
        time.sleep(0.05)  # the background is at its flush of queues by now
        result = store.put_message(Message("T", b"later", queue_id=0))
        checkpoint = tmp_path / "store" / "checkpoint"
        wait_for(lambda: StoreCheckpoint.open(checkpoint).confirm_phy_offset == result.phy_offset, "never flushed")
    finally:
        go_on.set()
        store.close()


def test_an_own_dispatcher_may_query_and_put_while_a_store_is_closed(tmp_path):
    root = tmp_path / "store"
    store = open_store(root)
    closing, found = threading.Event(), []

    def copy(batch):
        assert closing.wait(WAIT)
        time.sleep(0.05)  # close has begun
        for message in (batch[i] for i in range(len(batch))):
            found.append(store.look_message_by_offset(message.phy_offset).topic)
            if message.topic == "T":
                store.put_message(Message("Copy", message.body, queue_id=0))

    store.add_dispatcher(copy)
    store.put_message(Message("T", b"x", queue_id=0))
    closing.set()
    store.close()
    assert found[:1] == ["T"]
    assert not (root / "abort").exists()
    assert queue_lengths(root) == {("T", 0): 1, ("Copy", 0): 1}


@pytest.mark.parametrize("how", ["removed", "replaced", "renamed directory"])
@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_log_file_that_is_taken_away_stops_the_writer(how, flush_disk_type, tmp_path):
    root = tmp_path / "store"
    options = {"flush_disk_type": flush_disk_type, "flush_interval_commit_log": 5}
    store = open_store(root, **options)
    store.put_message(Message("T", b"", queue_id=0))
    path = root / "commitlog" / f"{0:020}"
    if how == "renamed directory":
        path.parent.rename(root / "old")
    else:
        path.unlink()
    if how == "replaced":
        path.write_bytes(bytes(4096))

    def is_refused():
        try:
            store.put_message(Message("T", b"", queue_id=0))
        except StoreError:  # of the flush, or of the dispatch that met what stands there now
            return True
        return False

    wait_for(is_refused)
    store.close()
    assert (root / "abort").exists()
    if how == "replaced":
        assert path.read_bytes() == bytes(4096)


def test_flush_and_close_see_a_file_that_is_taken_away(tmp_path):
    root = tmp_path / "store"
    store = open_store(root, flush_interval_commit_log=600_000)
    store.put_message(Message("T", b"", queue_id=0))
    (root / "commitlog" / f"{0:020}").unlink()
    with pytest.raises(StoreError, match="removed or replaced"):
        store.close()
    assert (root / "abort").exists()
    assert not rocketstore.open(root).is_locked


def test_a_store_whose_topics_json_cannot_be_read_is_not_opened_for_writing(tmp_path):
    """Else the first message of a new topic would be one too late to say so."""
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b""))
    for path in (root / "config").glob("topics.json*"):
        path.write_bytes(b"{nonsense")
    before = files_under(root, ".")
    with pytest.raises(StoreError, match=r"topics\.json .*: repair or remove them first"):
        open_store(root)
    assert files_under(root, ".") == before


def test_a_topics_json_that_cannot_be_read_any_more_is_not_overwritten(tmp_path):
    root = tmp_path / "store"
    store = open_store(root)
    store.create_topic("T")
    for path in (root / "config").glob("topics.json*"):
        path.write_bytes(b"{nonsense")
    store.put_message(Message("New", b"", queue_id=0))
    with pytest.raises(StoreError, match=r"topics\.json"):
        store.close()
    assert (root / "config" / "topics.json").read_bytes() == b"{nonsense"


def test_plain_fields_reach_the_disk_through_the_helper(tmp_path):
    with Pair(tmp_path / "store") as pair:
        pair.put(fields_of("T", b"x"))
    assert logged(tmp_path / "store")[0].body == b"x"

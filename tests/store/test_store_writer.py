"""Opening a store to write: its lock, its checkpoint, and the formats that are not written."""

import errno
import os
import pickle
import random
import subprocess
import sys
import threading
from functools import partial

import pytest
from reference.checkpoint import checkpoint_bytes
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
from support.store_writing import linux_only, opened_elsewhere

import rocketstore
from rocketstore import Message, StoreCheckpoint, StoreError, StoreLockedError, UnsupportedFormatError

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


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
        assert store.topic_configs["T"].write_queue_nums == 4
        store.put_message(Message("T", b"", queue_id=4))
        store.put_message(Message("T", b"", queue_id=2**31 - 1))
        store.flush()
        assert store.topic_configs["T"].write_queue_nums == 5


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
    ],
)
def test_a_store_whose_log_is_in_dledger_is_not_written_and_no_other_log_is_used(dledger_store, attempt):
    root, config = dledger_store
    before = everything(root)
    with pytest.raises(UnsupportedFormatError, match="DLedger"):
        attempt(root, config=config)
    assert everything(root) == before

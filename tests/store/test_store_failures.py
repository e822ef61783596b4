"""How the writing ends when a call to the system or a thread fails."""

import errno
import os
import threading
import time

import pytest
from reference.commit_log import read_files
from support.puts import (
    Pair,
    fields_of,
    files_under,
    open_store,
    path_of,
)
from support.store_writing import linux_only, logged, queue_lengths, run_threads
from support.syncs import patch_syncs
from support.waiting import WAIT, wait_for

import rocketstore
from rocketstore import Message, StoreCheckpoint, StoreError
from rocketstore.store import flush as flush_module


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
    fail_on(monkeypatch, "fdatasync", "commitlog", times=1)
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
    patch_syncs(monkeypatch, slow)
    run_threads(lambda _: [store.put_message(Message("T", b"", queue_id=0)) for _ in range(20)], 16)
    assert 0 < count[0] < 16 * 20 / 4
    monkeypatch.undo()
    store.close()


@linux_only
def test_a_failed_sync_fails_all_waiting_threads(monkeypatch, tmp_path):
    store = open_store(tmp_path / "store", flush_disk_type="SYNC_FLUSH", allocate_file_ahead=False)
    store.put_message(Message("T", b"good"))
    fail_on(monkeypatch, "fdatasync", "commitlog")
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
    ("name", "part"), [("fdatasync", "commitlog"), ("pwrite", "consumequeue"), ("ftruncate", "consumequeue")]
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

    patch_syncs(monkeypatch, interrupted)
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

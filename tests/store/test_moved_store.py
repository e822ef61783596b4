"""The root of a store is moved, removed or replaced while a writer has it open."""

import contextlib
import os
import shutil
import time

import pytest
from support.puts import files_under, open_store
from support.waiting import wait_for

import rocketstore
from rocketstore import Message, StoreError
from rocketstore.disk import held_directory
from rocketstore.disk.held_directory import HeldDirectory


@contextlib.contextmanager
def opened(root, **options):
    """A writer whose ``close`` may say, once more, that the store is not there."""
    store = open_store(root, **options)
    try:
        yield store
    finally:
        with contextlib.suppress(StoreError):
            store.close()


def put_until_refused(store, seconds=20, topics=30):
    """Put messages of some topics until a put raises an error. Return the phy offsets of the acknowledged ones."""
    offsets, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        topic = f"T{len(offsets) % topics}"
        try:
            offsets.append(store.put_message(Message(topic, bytes(700), keys="k")).phy_offset)
        except (StoreError, OSError):
            return offsets
    raise AssertionError("the writer went on")


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_what_was_acknowledged_is_in_the_moved_store_alone(ahead, flush_disk_type, is_replaced, tmp_path):
    root, moved = tmp_path / "store", tmp_path / "moved"
    options = {"allocate_file_ahead": ahead, "flush_disk_type": flush_disk_type, "enable_consume_queue_ext": True}
    with open_store(tmp_path / "other", **options) as other:
        other.put_message(Message("Other", b""))
    with opened(root, **options) as store:
        offsets = [store.put_message(Message(f"T{number}", bytes(700), keys="k")).phy_offset for number in range(10)]
        root.rename(moved)
        if is_replaced:
            shutil.copytree(tmp_path / "other", root)
        before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        offsets += put_until_refused(store)
        with pytest.raises(StoreError, match="was moved, removed or replaced"):
            store.put_message(Message("T", b"", properties={"a": "b"}))
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert root.exists() == is_replaced
    with rocketstore.open(moved) as found:
        assert {*offsets} <= {offset for batch in found.scan() for offset in batch.phy_offset.tolist()}
    with open_store(moved, **options) as again:
        again.flush()
    assert rocketstore.verify(moved).ok


@pytest.mark.parametrize("least_pages", [0, 4])
def test_a_writer_without_puts_notices_the_move(least_pages, tmp_path):
    with opened(tmp_path / "store", flush_commit_log_least_pages=least_pages) as store:
        store.put_message(Message("T", b""))
        store.flush()
        (tmp_path / "store").rename(tmp_path / "moved")
        wait_for(lambda: store._writer._failure.is_set)
        with pytest.raises(StoreError, match="was moved, removed or replaced"):
            store.put_message(Message("T", b""))


def test_a_queue_that_was_not_opened_before_the_move_does_not_begin_anew(tmp_path):
    """Its files are listed by the path, where another store is now."""
    with open_store(tmp_path / "store") as store:
        for _ in range(5):
            store.put_message(Message("T", b"", queue_id=0))
    with opened(tmp_path / "store") as store:
        (tmp_path / "store").rename(tmp_path / "moved")
        with open_store(tmp_path / "store"):
            pass
        with pytest.raises(StoreError, match="was moved, removed or replaced"):
            store.put_message(Message("T", b"", queue_id=0))
        with pytest.raises(StoreError, match="was removed or replaced"):
            store.flush()


CHANGES = {
    "a topic": lambda store: store.create_topic("New"),
    "deleted files": lambda store: store.delete_expired_files(before_phy_offset=1 << 40),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_at_the_old_path_is_not_changed(change, tmp_path):
    with opened(tmp_path / "store") as store:
        for number in range(20):
            store.put_message(Message("T", bytes(700), keys=f"k{number}", queue_id=0))
        store.flush()
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
        (tmp_path / "store").rename(tmp_path / "moved")
        (tmp_path / "copy").rename(tmp_path / "store")
        before = files_under(tmp_path / "store", "commitlog", "consumequeue", "index", "config")
        with pytest.raises(StoreError, match="was moved, removed or replaced"):
            CHANGES[change](store)
        assert files_under(tmp_path / "store", "commitlog", "consumequeue", "index", "config") == before
        with pytest.raises(StoreError):
            store.flush()


def test_a_lock_that_was_removed_stops_the_writer(monkeypatch, tmp_path):
    """Another process could take a new one."""
    monkeypatch.setattr(held_directory, "CHECK_SECONDS", 0)
    with opened(tmp_path / "store") as store:
        store.put_message(Message("T", b""))
        (tmp_path / "store" / "lock").unlink()
        with pytest.raises(StoreError, match="lock: was moved, removed or replaced"):
            store.flush()
        with pytest.raises(StoreError, match="takes no more messages"):
            store.put_message(Message("T", b""))


def test_a_file_of_the_log_that_was_cut_stops_the_writer(tmp_path):
    with opened(tmp_path / "store") as store:
        store.put_message(Message("T", b""))
        path = tmp_path / "store" / "commitlog" / f"{0:020}"
        os.truncate(path, 4000)
        with pytest.raises(StoreError, match="has 4000 bytes, but had 4096"):
            store.flush()


def test_a_store_that_was_removed_is_not_made_again(tmp_path):
    with opened(tmp_path / "store", allocate_file_ahead=False) as store:
        store.put_message(Message("T", b""))
        store.flush()
        shutil.rmtree(tmp_path / "store")
        put_until_refused(store)
    assert not (tmp_path / "store").exists()


def test_paths_are_compared_at_most_once_a_second(monkeypatch, tmp_path):
    checks, real = [], HeldDirectory.require_in_place
    options = {"flush_disk_type": "SYNC_FLUSH", "mapped_file_size_commit_log": 1 << 20}
    with open_store(tmp_path / "store", **options) as store:
        store.put_message(Message("T", b"", queue_id=0))
        monkeypatch.setattr(HeldDirectory, "require_in_place", lambda self: (checks.append(self.path), real(self))[1])
        begin = time.monotonic()
        for _ in range(200):
            store.put_message(Message("T", b"", queue_id=0))
        seconds = time.monotonic() - begin
    assert len(checks) <= 3 * (seconds + 1) + 1  # the root, the log, the index; and once when a file was found


def test_records_of_another_store_at_the_old_path_are_not_dispatched(tmp_path):
    """The next file of the log is found by its path."""
    with open_store(tmp_path / "store", allocate_file_ahead=False) as store:
        for _ in range(5):
            store.put_message(Message("T0", bytes(700), queue_id=0))
    shutil.copytree(tmp_path / "store", tmp_path / "other")
    with open_store(tmp_path / "other") as other:
        for _ in range(20):
            other.put_message(Message("Other", bytes(700), queue_id=0))
    with opened(tmp_path / "store", allocate_file_ahead=False, flush_interval_commit_log=60_000) as store:
        store.put_message(Message("T0", bytes(700), queue_id=0))
        store.flush()
        (tmp_path / "store").rename(tmp_path / "moved")
        (tmp_path / "other").rename(tmp_path / "store")
        put_until_refused(store, topics=1)
    assert not (tmp_path / "moved" / "consumequeue" / "Other").exists()
    with open_store(tmp_path / "moved") as again:
        assert again.queue_ids("T0")[0] == 0
    assert rocketstore.verify(tmp_path / "moved").ok

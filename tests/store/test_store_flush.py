"""What a store's writer brings to the disk, and when."""

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections import Counter, deque
from pathlib import Path

import pytest
from support.puts import (
    open_store,
    path_of,
)
from support.store_writing import queue_lengths, run_threads
from support.syncs import patch_syncs
from support.waiting import wait_for

from rocketstore import Message
from rocketstore.dispatch import reput as reput_module
from rocketstore.log import log_files
from rocketstore.store import flush as flush_module


@pytest.fixture
def syncs(monkeypatch):
    """Count the syncs by the name of the file's directory."""
    if sys.platform != "linux":
        pytest.skip("looks paths of descriptors up in /proc")
    found, real = Counter(), os.fsync

    def fsync(fd):
        found[Path(path_of(fd)).parent.name] += 1
        real(fd)

    patch_syncs(monkeypatch, fsync)
    return found


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
            store._writer._log.files.flush()

        store.put_message(Message("T", b""))
        with monkeypatch.context() as patch:  # the store flushes the queues itself when it is closed
            patch.setattr(store._writer._parts, "flush_dispatched", flush_when_a_message_waits)
            patch.setattr(flush_module, "QUEUE_FLUSH_SECONDS", 0)
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
        patch_syncs(monkeypatch, slow)
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

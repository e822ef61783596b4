"""Many threads that write, read and close one store."""

import random
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from support.puts import (
    BEGIN,
    config_of,
    draw_plain,
    message_of,
    open_paths,
    open_store,
)
from support.store_writing import logged, queue_lengths, run_threads
from support.waiting import wait_for

import rocketstore
from rocketstore import Message, StoreCheckpoint, StoreClosedError, StoreError


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
            lambda: store.get_message("T", 0, store.get_message("T", 0, 0).next_begin_offset, tag="a"),
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

"""A writer in forked processes, and Ctrl-C and signals at any moment."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.interrupts import interrupt
from support.puts import (
    PARTS,
    config_of,
    draw_plain,
    files_under,
    message_of,
    model_of,
    open_store,
    path_of,
)
from support.store_writing import in_child, logged, opened_elsewhere, queue_lengths
from support.waiting import WAIT

from rocketstore import Message, StoreClosedError

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
@pytest.mark.parametrize("forks", [10, pytest.param(25, marks=pytest.mark.slow)])
def test_a_process_forked_in_the_middle_of_a_put_is_refused_and_does_not_hang(forks, tmp_path):
    with open_store(tmp_path / "store") as store:
        stop = threading.Event()

        def put():
            while not stop.is_set():
                store.put_message(Message("T", bytes(200), queue_id=0))

        thread = threading.Thread(target=put)
        thread.start()
        try:
            for _ in range(forks):
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


def test_a_store_whose_close_ctrl_c_ended_before_its_flush_was_no_clean_stop(tmp_path):
    """The user's dispatcher lets ``close`` wait until another thread is refused, and interrupts it."""
    store, is_interrupted = open_store(tmp_path / "store"), threading.Event()
    store.add_dispatcher(lambda batch: is_interrupted.wait(60))

    def interrupt_close():
        with contextlib.suppress(StoreClosedError):
            for _ in range(60_000):
                store.put_message(Message("T", b""))
                time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
        is_interrupted.set()

    store.put_message(Message("T", b""))
    thread = threading.Thread(target=interrupt_close)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        store.close()
    thread.join()
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
        queues = store._writer._queue_ids
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

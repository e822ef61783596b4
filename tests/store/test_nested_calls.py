"""Calls of a writer in the middle of another call of the same thread: of signal handlers, finalizers and values."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.puts import open_store
from support.waiting import wait_for

from rocketstore import CommitLog, IndexService, Message
from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.errors import NestedCallError
from rocketstore.index.index_file import IndexFile
from rocketstore.log import log_files

INNER = {
    "put_message": lambda store: store.put_message(Message("T", b"inner", properties={"a": "b"})),
    "put_messages": lambda store: store.put_messages([Message("T", b"inner")]),
    "put_batch": lambda store: store.put_batch(Message("T", b"", queue_id=0), [Message("T", b"inner")]),
    "flush": lambda store: store.flush(),
    "create_topic": lambda store: store.create_topic("New"),
    "delete_expired_files": lambda store: store.delete_expired_files(hours=1),
    "add_dispatcher": lambda store: store.add_dispatcher(print),
    "a query": lambda store: store.query_message("T", "k"),
    "queues": lambda store: list(store.queues()),
    "close": lambda store: store.close(),
}


class Value:
    """An integer that runs a function when it is encoded."""

    def __init__(self, run):
        self.run = run

    def __index__(self):
        self.run()
        return 1


OUTER = {
    "put_message": lambda store, value: store.put_message(Message("T", b"", queue_id=value)),
    "put_messages": lambda store, value: store.put_messages([Message("T", b""), Message("T", b"", queue_id=value)]),
    "put_batch": lambda store, value: store.put_batch(Message("T", b"", queue_id=value), [Message("T", b"")]),
    "create_topic": lambda store, value: store.create_topic("Made", value),
}


@pytest.mark.parametrize("outer", OUTER)
def test_a_call_in_the_middle_of_another_call_is_refused(outer, tmp_path):
    errors = []

    def run():
        for inner, call in INNER.items():
            with pytest.raises(NestedCallError, match=f"this thread is in {outer}") as caught:
                call(store)
            errors.append((inner, str(caught.value)))

    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", keys="k"))
        OUTER[outer](store, Value(run))
        assert {inner for inner, _ in errors} == set(INNER)
        assert not store._writer.busy.calls.get(threading.get_ident())
        for call in list(INNER.values())[:-1]:
            call(store)


@pytest.mark.parametrize("inner", ["put_message", "flush", "a query"])
@pytest.mark.parametrize("outer", ["flush", "a query", "delete_expired_files"])
def test_a_handler_in_a_call_that_waits_is_refused_and_the_writer_goes_on(outer, inner, monkeypatch, tmp_path):
    """Its error ends the outer call, as Ctrl-C does, and says nothing about the disk."""
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", keys="k"))
        store.flush()
        with monkeypatch.context() as patch:
            patch.setattr(store._writer, "_wait_for_dispatch", lambda: INNER[inner](store))
            patch.setattr(store._writer.reput, "dispatched", 0)  # so that a query waits
            # The list of queues, from which files are deleted, is a query of its own.
            names = "(delete_expired_files|a query)" if outer == "delete_expired_files" else outer
            with pytest.raises(NestedCallError, match=f"this thread is in {names}"):
                INNER[outer](store)
        store.put_message(Message("T", b"", keys="k"))
        store.flush()
        assert len(store.query_message("T", "k")) == 2


def test_a_refused_call_leaves_the_mark_of_the_outer_call(tmp_path):
    def run():
        for _ in range(3):
            with pytest.raises(NestedCallError):
                store.put_message(Message("T", b"", properties={"a": "b"}))

    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", queue_id=Value(run)))


@pytest.mark.parametrize("place", ["dispatch", "flush", "allocate", "index"])
def test_a_finalizer_in_a_thread_of_the_writer_is_refused(place, monkeypatch, tmp_path):
    """Python runs finalizers and callbacks of the garbage collector in any thread."""
    errors, store = [], open_store(tmp_path / "store", flush_interval_commit_log=10)
    names = {"dispatch": "reput", "flush": "flush", "allocate": "allocate", "index": "index-flush"}

    def call_all():
        if threading.current_thread().name.startswith(f"rocketstore-{names[place]}") and not errors:
            for call in INNER.values():
                try:
                    call(store)
                except Exception as error:
                    errors.append(error)

    def running(function):
        return lambda *arguments: (call_all(), function(*arguments))[1]

    monkeypatch.setattr(store._writer.dispatcher, "dispatch", running(store._writer.dispatcher.dispatch))
    files = store._writer._log.files
    monkeypatch.setattr(files, "check_file", running(files.check_file))
    monkeypatch.setattr(log_files, "sync_path", running(log_files.sync_path))
    monkeypatch.setattr(IndexFile, "flush", running(IndexFile.flush))
    for number in range(60):
        store.put_message(Message("T", bytes(500), keys=f"k{number}"))
    wait_for(lambda: len(errors) == len(INNER))
    refused = [error for error in errors if isinstance(error, NestedCallError)]
    assert len(refused) >= len(INNER) - 1  # the dispatcher's thread cannot close at all
    store.close()


def test_users_own_dispatchers_may_call_the_writer(tmp_path):
    calls = []

    def own(batch):
        if "T" in batch.topic.to_pylist():
            store.put_message(Message("Own", b"", keys="own"))
            store.flush()
            calls.append(len(store.query_message("T", "k")))

    with open_store(tmp_path / "store", flush_disk_type="SYNC_FLUSH") as store:
        store.add_dispatcher(own)
        store.put_message(Message("T", b"", keys="k"))
    assert calls == [1]


def test_a_log_alone_and_an_index_alone_refuse_nested_calls_too(monkeypatch, tmp_path):
    log = CommitLog.open(tmp_path / "log", "a", mapped_file_size=4096)
    for run in (log.flush, log.close, lambda: log.append(Message("T", b"")), lambda: log.append_batch([])):
        with pytest.raises(NestedCallError, match="this thread is in append of"):
            log.append(Message("T", b"", queue_id=Value(run)))
    log.close()
    with IndexService.open(tmp_path / "index", "a", hash_slot_num=10, index_num=20) as index:
        monkeypatch.setattr(index, "check_file_sizes", index.flush)
        with pytest.raises(NestedCallError, match="flush is refused, because this thread is in build_indexes"):
            index.build_indexes({"topic": ["T"], "phy_offset": [0], "store_timestamp": [0]})


def test_a_fork_in_the_middle_of_a_call_has_no_marks(tmp_path):
    def run():
        pid = os.fork()
        if pid == 0:
            os._exit(len(busy.calls))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    busy, codes = BusyThreads(tmp_path), []
    busy.calls[1] = "put_message"
    run()
    assert codes == [0]
    assert busy.calls == {1: "put_message"}


def test_garbage_collection_that_calls_the_writer_never_hangs(tmp_path):
    """In three threads, for each of the calls."""
    command = [sys.executable, "-W", "ignore", __file__, str(Path(__file__).parent.parent), str(tmp_path / "store")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["put_message", "flush", "a query"])
def test_a_handler_at_any_moment_never_hangs(inner, tmp_path):
    results = []
    end = time.monotonic() + 5

    def start_timer():
        signal.setitimer(signal.ITIMER_REAL, 0.0007)

    def handler(*_):
        if time.monotonic() >= end:
            return
        try:
            INNER[inner](store)
            results.append("done")
        except RuntimeError:
            results.append("refused")
        start_timer()  # only now: a timer that repeats never ends where a call takes longer than its interval

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with open_store(tmp_path / "store") as store:
            start_timer()
            while time.monotonic() < end:
                store.put_messages([Message("T", bytes(100), keys="k")] * 10)
                store.flush()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert "refused" in results


def collect_often(root):
    np.unique([0])  # imports numpy.ma at its first use, and a use in the middle of that import never ends
    store, count = open_store(root), [0]
    calls = list(INNER.values())[:-1]

    def callback(_phase, _info):
        count[0] += 1
        with contextlib.suppress(NestedCallError):
            calls[count[0] % len(calls)](store)

    def work():
        for number in range(12):
            store.put_messages([Message(f"T{number % 20}", bytes(100), keys="k") for _ in range(5)])
            store.query_message("T1", "k")
            if number % 4 == 0:
                store.flush()

    gc.set_threshold(40, 2, 2)
    gc.callbacks.append(callback)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.callbacks.remove(callback)
    store.close()


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    collect_often(Path(sys.argv[2]))

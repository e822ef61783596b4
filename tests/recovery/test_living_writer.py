"""A writer whose lock file was deleted still writes: the number of its process in ``abort`` says so."""

import os
import subprocess
import sys

import pytest

import rocketstore
from rocketstore import CommitLog, Message, StoreConfig, StoreError, StoreLockedError
from rocketstore.disk import processes
from rocketstore.state.abort import read_pid

CONFIG = StoreConfig.small()
WRITER = """
import sys, rocketstore
from rocketstore import Message, StoreConfig
store = rocketstore.open(sys.argv[1], "a", config=StoreConfig.small())
store.put_message(Message("T", b"x"))
store.flush()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """A process that has the store open for writing, and whose lock was deleted."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path / "store"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    (tmp_path / "store" / "lock").unlink()
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def crashed(tmp_path):
    """A function that makes a crashed store whose ``abort`` has a text."""

    def make(text):
        root = tmp_path / "store"
        with rocketstore.open(root, "a", config=CONFIG) as store:
            store.put_message(Message("T", b"x"))
        (root / "abort").write_text(text)
        return root

    return make


def calls(root):
    return {
        "recover": lambda: rocketstore.recover(root),
        "broker": lambda: rocketstore.recover(root, policy="broker"),
        "open a": lambda: rocketstore.open(root, "a"),
        "open r+": lambda: rocketstore.open(root, "r+"),
        "rebuild": lambda: rocketstore.rebuild(root, config=CONFIG),
        "log": lambda: CommitLog.open(root / "commitlog", "r+"),
    }


def contents(root):
    return {path: path.is_file() and path.read_bytes() for path in root.rglob("*")}


def test_beside_a_writer_without_a_lock_file_nothing_writes(writer, tmp_path):
    root = tmp_path / "store"
    before = contents(root)
    for call in calls(root).values():
        with pytest.raises(StoreLockedError, match=f"process {writer.pid} has the store open for writing, but"):
            call()
    assert contents(root) == before
    writer.kill()  # its parent has not waited for it yet
    os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)
    rocketstore.recover(root)
    assert rocketstore.open(root).scan().count() == 1


def test_a_lock_file_that_was_replaced_protects_as_little(writer, tmp_path):
    root = tmp_path / "store"
    (root / "lock").write_bytes(b"lock")
    with pytest.raises(StoreLockedError, match="was deleted or replaced: stop this process first"):
        rocketstore.recover(root)


def test_a_writer_is_found_if_its_store_was_moved(writer, tmp_path):
    moved = (tmp_path / "store").rename(tmp_path / "moved")
    with pytest.raises(StoreLockedError, match=f"process {writer.pid}"):
        rocketstore.recover(moved)


PIDS = [os.getppid(), os.getpid(), 1, 0, 4_194_305, 10**9, 10**11, -1, "", "x", "\u0661"]


@pytest.mark.parametrize("pid", PIDS, ids=["parent", "own", *map(repr, PIDS[2:])])
def test_another_process_with_the_number_in_abort_hinders_nobody(crashed, pid):
    """Numbers are used again, in a container at its next start."""
    root = crashed(str(pid))
    if pid == 1:  # its files cannot be seen everywhere
        os.utime(root / "abort", (1_000_000_000, 1_000_000_000))
    rocketstore.recover(root)
    assert not (root / "abort").exists()


def test_a_process_that_cannot_be_seen_counts_if_it_began_earlier(crashed, monkeypatch):
    root = crashed(str(os.getppid()))
    monkeypatch.setattr("rocketstore.state.abort.has_files_open", lambda *asked: None)
    monkeypatch.setattr("rocketstore.state.abort.read_command", lambda pid: "/usr/bin/java -server BrokerStartup")
    with pytest.raises(StoreLockedError, match="If it is another program, write 0 into"):
        rocketstore.recover(root)
    os.utime(root / "abort", (1_000_000_000, 1_000_000_000))  # before this machine was started
    rocketstore.recover(root)


def test_a_process_that_cannot_be_seen_and_is_no_broker_hinders_nobody(crashed, monkeypatch):
    monkeypatch.setattr("rocketstore.state.abort.has_files_open", lambda *asked: None)
    monkeypatch.setattr("rocketstore.state.abort.read_command", lambda pid: "/sbin/init")
    rocketstore.recover(crashed(str(os.getppid())))


def test_a_writer_of_this_process_counts_without_its_lock_file(tmp_path):
    store = rocketstore.open(tmp_path / "store", "a", config=CONFIG)
    store.put_message(Message("T", b"x"))
    (tmp_path / "store" / "lock").unlink()
    with pytest.raises(StoreLockedError, match="this process has the store open for writing already"):
        rocketstore.recover(tmp_path / "store")
    with pytest.raises(StoreError, match="lock"):  # the writer stops, because another one may hold a new lock
        store.close()


def test_facts_about_processes(tmp_path):
    me = os.getpid()
    assert processes.is_alive(me)
    assert processes.start_time(me) > 1_700_000_000
    assert processes.has_files_open(me, tmp_path, "lock") is False
    with (tmp_path / "file").open("w"):
        assert processes.has_files_open(me, tmp_path, "lock") is True
    assert not processes.is_alive(4_194_305)  # above the largest number of Linux
    assert processes.has_files_open(4_194_305, tmp_path, "lock") is None
    (tmp_path / "abort").write_text("17")
    assert read_pid(tmp_path / "abort") == 17

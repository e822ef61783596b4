"""The holder of a store's lock, which is taken on byte 0 of the file as a JVM does."""

import os
import subprocess
import sys
import threading
import time

import pytest

import rocketstore
from rocketstore import StoreLockedError
from rocketstore.state import lock_file
from rocketstore.state.lock_file import StoreLock, is_held

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""

TRY = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
except BlockingIOError:
    sys.exit(3)
"""


def is_held_by_another(path):
    """Try from another process, as this one's own questions cannot show what it holds."""
    code = subprocess.run([sys.executable, "-IS", "-c", TRY, str(path)], check=False).returncode
    assert code in (0, 3)
    return code == 3


def in_child(call, meanwhile=lambda: None):
    """Whether a call gives True in a forked process; ``meanwhile`` is for this one."""
    pid = os.fork()
    if pid == 0:
        good = False
        try:
            good = call()
        finally:
            os._exit(0 if good is True else 1)
    meanwhile()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def lock(tmp_path):
    lock = StoreLock(tmp_path / "lock")
    yield lock
    lock.release()
    assert lock_file.HELD == {}


@pytest.fixture
def held(tmp_path):
    """A lock file that another process holds, and the process."""
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield path, process
        process.stdin.close()


def test_a_lock_of_another_process_is_seen_and_left_to_it(held):
    path, process = held
    before = path.stat()
    assert is_held(path)
    assert is_held(path)
    assert path.stat() == before
    process.stdin.close()
    process.wait(10)
    assert not is_held(path)


def test_a_file_that_nobody_locked_or_that_is_not_there_is_not_held(tmp_path):
    assert not is_held(tmp_path / "lock")
    (tmp_path / "lock").write_bytes(b"")
    assert not is_held(tmp_path / "lock")


def test_a_lock_on_other_bytes_is_not_the_store_s(tmp_path):
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    other = HOLD.replace("1, 0)", "1, 2)")
    with subprocess.Popen([sys.executable, "-c", other, str(path)], stdin=-1, stdout=-1) as process:
        assert process.stdout.readline() == b"held\n"
        assert not is_held(path)
        process.stdin.close()


@pytest.mark.parametrize(
    ("abort", "locked", "state"),
    [
        (False, False, "stopped cleanly"),
        (True, False, "crashed"),
        (True, True, "a broker runs"),
        (False, True, "a broker runs"),
    ],
)
def test_a_store_says_whether_it_was_stopped_crashed_or_is_in_use(held, abort, locked, state):
    path, process = held
    root = path.parent
    (root / "commitlog").mkdir()
    if abort:
        (root / "abort").write_text("1")
    if not locked:
        process.stdin.close()
        process.wait(10)
    with rocketstore.open(root) as store:
        assert (store.last_exit_ok, store.is_locked) == (not abort, locked)
        assert repr(store).split(", ")[-1].startswith(state)


def test_the_lock_is_taken_as_rocketmq_takes_it(lock):
    assert not lock.owned
    lock.acquire()
    assert lock.owned
    assert lock.path.read_bytes() == b"lock"


def test_another_process_sees_the_lock_until_it_is_released(lock):
    lock.acquire()
    assert is_held_by_another(lock.path)
    lock.release()
    assert not lock.owned
    assert not is_held_by_another(lock.path)
    lock.release()
    lock.acquire()
    assert is_held_by_another(lock.path)


def test_asking_in_the_process_that_holds_the_lock_does_not_give_it_up(lock):
    lock.acquire()
    assert is_held(lock.path)
    assert is_held_by_another(lock.path)


def test_a_lock_that_another_process_holds_is_refused_and_the_error_names_the_process_and_the_remedy(held):
    path, process = held
    with pytest.raises(StoreLockedError, match=rf"{path}: process {process.pid} .*broker.*stop it.*for reading"):
        StoreLock(path).acquire()
    assert is_held_by_another(path)
    process.stdin.close()
    process.wait(10)
    lock = StoreLock(path)
    lock.acquire()
    lock.release()


def test_bytes_behind_the_first_four_are_left(lock):
    lock.path.write_bytes(b"xxxxyz")
    lock.acquire()
    lock.release()
    assert lock.path.read_bytes() == b"lockyz"


@pytest.mark.parametrize("other_name", ["lock", "link", "hard link"])
def test_a_second_lock_in_one_process_is_refused_and_the_first_stays(lock, other_name):
    lock.acquire()
    other = lock.path.with_name(other_name)
    if other_name == "link":
        other.symlink_to(lock.path)
    elif other_name == "hard link":
        other.hardlink_to(lock.path)
    second = StoreLock(other)
    with pytest.raises(StoreLockedError, match="this process"):
        second.acquire()
    with pytest.raises(StoreLockedError, match="this process"):
        lock.acquire()
    assert (lock.owned, second.owned) == (True, False)
    second.release()
    assert lock.owned
    assert is_held_by_another(lock.path)


def test_locks_of_different_stores_are_independent(lock, tmp_path):
    lock.acquire()
    other = StoreLock(tmp_path / "other")
    other.acquire()
    lock.release()
    assert other.owned
    assert is_held_by_another(other.path)
    other.release()


def test_of_many_threads_one_gets_the_lock(lock):
    barrier = threading.Barrier(16)
    answers = []

    def take(lock):
        barrier.wait()
        try:
            lock.acquire()
            answers.append(lock)
        except StoreLockedError:
            answers.append(None)
        assert is_held(lock.path)

    threads = [threading.Thread(target=take, args=[StoreLock(lock.path)]) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [owner] = filter(None, answers)
    assert len(answers) == 16
    assert is_held_by_another(lock.path)
    owner.release()
    assert not is_held_by_another(lock.path)


def test_a_forked_process_does_not_own_the_lock_and_cannot_give_it_up(lock):
    lock.acquire()

    def child():
        lock.release()
        return not lock.owned and is_held(lock.path)

    assert in_child(child)
    assert lock.owned
    assert is_held_by_another(lock.path)


def test_a_forked_process_is_refused_while_its_parent_has_the_lock(lock):
    lock.acquire()

    def child():
        try:
            StoreLock(lock.path).acquire()
        except StoreLockedError as error:
            return f"process {os.getppid()}" in str(error)

    assert in_child(child)


def test_a_forked_process_may_take_the_lock_after_its_parent(lock, tmp_path):
    lock.acquire()

    def child():
        deadline = time.monotonic() + 10
        while not (tmp_path / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        own = StoreLock(lock.path)
        own.acquire()
        lock.release()  # of the parent's nothing is left that could free it
        return own.owned and is_held_by_another(lock.path)

    def parent():
        lock.release()
        (tmp_path / "go").touch()

    assert in_child(child, parent)


def test_a_lock_file_that_cannot_be_written_is_not_held(lock, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space"):
            lock.acquire()
    assert not lock.owned
    assert not is_held_by_another(lock.path)
    lock.acquire()
    assert lock.owned


def test_without_its_directory_there_is_no_lock(tmp_path):
    with pytest.raises(FileNotFoundError):
        StoreLock(tmp_path / "none" / "lock").acquire()
    with pytest.raises(IsADirectoryError):
        StoreLock(tmp_path).acquire()


def test_whatever_cannot_be_asked_of_the_file_leaves_no_lock_held(monkeypatch, tmp_path):
    def fstat(fd):
        raise OSError(5, "Input/output error")

    lock = StoreLock(tmp_path / "lock")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fstat)
        with pytest.raises(OSError, match="Input/output"):
            lock.acquire()
    lock.acquire()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fstat)
        lock.release()
    assert not is_held(tmp_path / "lock")
    assert not is_held_by_another(tmp_path / "lock")

"""Who holds a store's lock: as a JVM takes it, on byte 0 of the file."""

import subprocess
import sys

import pytest

import rocketstore
from rocketstore.files.lock_file import is_held

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


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
    [(False, False, "stopped cleanly"), (True, False, "crashed"), (True, True, "a broker runs"),
     (False, True, "a broker runs")],
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

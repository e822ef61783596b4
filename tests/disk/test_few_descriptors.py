"""If a process may open too few files, an error says how many it needs before anything is changed."""

import contextlib
import errno
import multiprocessing
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_many_files import config_of, messages_of

import rocketstore
from rocketstore import Message

FREE = range(12)  # descriptors: the operations below need up to ten, and the queues that they keep open
QUEUES = 40


def open_count():
    return sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1


@contextlib.contextmanager
def free_descriptors(count):
    """Let this process open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_count() + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def content(root):
    """Return all paths below a directory, with the bytes of the files and the times of their last change."""
    return {
        path.relative_to(root): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in root.rglob("*")
    }


def put(root, config):
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages(messages_of(QUEUES))


def read(root, config):
    with rocketstore.open(root, config=config) as store:
        assert sum(len(batch) for batch in store.scan(threads=4)) == QUEUES
        assert store.summary().queues == QUEUES
        assert all(len(store.consume_queue(*queue)[:]) == 1 for queue in store.queues())
        assert store.query_message("T0", "k0").messages


def verify(root, config):
    rocketstore.verify(root, config=config, threads=4)


CHANGES = {
    "open": put,
    "recover, complete": lambda root, config: rocketstore.recover(root, config=config),
    "recover, broker": lambda root, config: rocketstore.recover(root, policy="broker", config=config),
    "dry run, broker": lambda root, config: rocketstore.recover(root, policy="broker", dry_run=True, config=config),
    "rebuild": lambda root, config: rocketstore.rebuild(root, config=config),
    "rebuild elsewhere": lambda root, config: rocketstore.rebuild(root, out=root.with_name("built"), config=config),
    "salvage": lambda root, config: rocketstore.salvage(root, root.with_name("saved"), config=config),
}


@pytest.fixture
def crashed(tmp_path):
    """A store with work for each recovery: a queue is lost, another one is zeros."""
    root = tmp_path / "places" / "store"
    put(root, config_of())
    (root / "abort").touch()
    shutil.rmtree(root / "consumequeue/T0/1")
    for path in (root / "consumequeue/T0/3").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    return root


@pytest.mark.parametrize("name", CHANGES)
def test_too_few_descriptors_are_an_error_before_anything_is_changed(crashed, name):
    before = content(crashed.parent)
    for free in FREE:
        too_few = pytest.raises(OSError, match=r"needs \d+ more descriptors: .* \(ulimit -n \d+\)")
        with free_descriptors(free), too_few as error:
            CHANGES[name](crashed, config_of())
        assert error.value.errno == errno.EMFILE
        assert content(crashed.parent) == before
    CHANGES[name](crashed, config_of())


def limit_that_is_named(error):
    return int(str(error).rpartition("ulimit -n ")[2].partition(")")[0])


@pytest.mark.parametrize("name", CHANGES)
def test_the_limit_that_the_error_names_is_enough(crashed, name):
    with free_descriptors(8), pytest.raises(OSError, match="ulimit -n") as error:
        CHANGES[name](crashed, config_of())
    with free_descriptors(limit_that_is_named(error.value) - open_count()):
        CHANGES[name](crashed, config_of())


def test_a_new_store_is_not_begun(tmp_path):
    with free_descriptors(8), pytest.raises(OSError, match="writing a store needs"):
        rocketstore.open(tmp_path / "new" / "store", "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("operation", [read, verify])
def test_reading_works_or_says_how_many_descriptors_it_needs(tmp_path, operation):
    root = tmp_path / "store"
    put(root, config_of())
    for free in range(8):
        too_few = pytest.raises(OSError, match="reading a store needs 8 more descriptors")
        with free_descriptors(free), too_few as error:
            operation(root, config_of())
        assert error.value.errno == errno.EMFILE
    for free in range(8, 12):
        with free_descriptors(free):
            operation(root, config_of())


def test_expiry_of_an_open_store_deletes_nothing_with_too_few_descriptors(tmp_path):
    root, config = tmp_path / "store", config_of(message_index_enable=False)
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages([Message("T", bytes(20_000)) for _ in range(12)])
        store.flush()
        before = content(root)
        for free in range(8):
            with free_descriptors(free), pytest.raises(OSError, match="deleting files of a store needs 8 more"):
                store.delete_expired_files(before_phy_offset=store.commit_log.max_phy_offset)
            assert content(root) == before
        assert store.delete_expired_files(before_phy_offset=store.commit_log.max_phy_offset).commit_log


def import_with(descriptors, directory):
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    command = [sys.executable, "-m", "rocketstore", "import", "rows.json", "imported", "--small"]
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert result.returncode == 0 or "(ulimit -n " in result.stderr, result.stderr
    sys.exit(result.returncode)


@pytest.mark.parametrize("descriptors", [18, 64])
def test_import_makes_nothing_with_too_few_descriptors(tmp_path, descriptors):
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    (tmp_path / "rows.json").write_text('{"topic": "T", "body": "b"}\n')
    process = multiprocessing.get_context("spawn").Process(target=import_with, args=(descriptors, tmp_path))
    process.start()
    process.join()
    assert (process.exitcode == 0) == (descriptors == 64) == (tmp_path / "imported").exists()

"""Rebuilding queues and index of a log against what a broker does when it has neither: DefaultMessageStore.load.

And looking at all of such a store, and salvaging its log, of which RocketMQ does neither: against a speed.
"""

import os
import shutil
from contextlib import nullcontext
from unittest.mock import patch

import pytest
from peers import Java
from store_files import QUEUES, write_log

from rocketstore import StoreCheckpoint, StoreConfig, rebuild, salvage, verify
from rocketstore.config import DEFAULT_SIZES
from rocketstore.limits import LONG_MAX

LOG_SIZE = int(os.environ.get("ROCKETSTORE_BENCH_LOG_SIZE", str(2 << 30)))
CONFIG = StoreConfig(**DEFAULT_SIZES)


@pytest.fixture(scope="module")
def java():
    process = Java(QUEUES, main="RebuildBench")
    yield process
    process.close()


@pytest.fixture(scope="module")
def root(scratch):
    """A store of a log alone: each message has a key, a unique key and a tag."""
    root = scratch / "rebuild"
    write_log(root, LOG_SIZE)
    yield root
    shutil.rmtree(root)


def clear(root):
    """Leave nothing but the log, as after a crash; the checkpoint says that it was on the disk, and nothing else."""
    for path in root.iterdir():
        if path.is_dir() and path.name != "commitlog":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()
    (root / "abort").touch()
    StoreCheckpoint(root / "checkpoint", physic_msg_timestamp=LONG_MAX).flush()


def theirs(java, root):
    clear(root)
    return java.round("load", root)


def files_of(root):
    """The bytes of queues by their paths, and of index files, whose names tell when they were made, in order."""
    queues = {str(path.relative_to(root)): path.read_bytes() for path in (root / "consumequeue").rglob("0*0")}
    return queues, [path.read_bytes() for path in sorted((root / "index").iterdir())]


@pytest.fixture(scope="module")
def count(java, root):
    """How many messages there are; both sides make the same of them."""
    _, count, end = theirs(java, root)
    expected = files_of(root)
    clear(root)
    report = rebuild(root, config=CONFIG)
    assert (report.max_phy_offset, report.queues, report.index_items) == (end, QUEUES, 3 * count)
    found = files_of(root)
    assert found[0].keys() == expected[0].keys()
    assert all(found[0][path] == data for path, data in expected[0].items())
    assert found[1] == expected[1]
    return count


@pytest.mark.parametrize("synced", [False, True], ids=("", "synced"))
def test_rebuild(pairs, java, root, count, synced):
    # As it is, all is brought to the disk before it takes the place of the old files.
    context = nullcontext() if synced else patch("rocketstore.disk.durable.os.fsync", lambda fd: None)
    name = f"rebuild queues and index, {LOG_SIZE / (1 << 30):g} GiB" + (", brought to the disk" if synced else "")
    with context:
        pairs(
            name,
            count,
            lambda: rebuild(root, config=CONFIG),
            lambda: theirs(java, root)[0],
            "load",
            goal=10,
            before=lambda: clear(root),
        )


# ---- verify, salvage ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(root, count):
    """The same store with queues and index."""
    clear(root)
    rebuild(root, config=CONFIG)
    return root


def test_verify(speeds, whole, count):
    report = verify(whole)
    assert report.ok
    assert report.messages == count
    speeds(f"verify, {LOG_SIZE / (1 << 30):g} GiB of log", count, lambda: verify(whole), LOG_SIZE, goal=1.5)


def test_salvage(speeds, whole, count, scratch):
    """A sector in each 64 MiB is lost, and with it one or two messages."""
    new, damaged, lost = scratch / "salvaged", scratch / "damaged", range(1 << 20, LOG_SIZE, 64 << 20)
    shutil.copytree(whole / "commitlog", damaged / "commitlog")
    size = CONFIG.mapped_file_size_commit_log
    for at in lost:
        with (damaged / "commitlog" / f"{at // size * size:020}").open("r+b") as file:
            file.seek(at % size)
            file.write(bytes(512))
    report = salvage(damaged, new)
    assert count - 2 * len(lost) <= report.records <= count - len(lost)
    name, before = f"salvage, {LOG_SIZE / (1 << 30):g} GiB of log", lambda: shutil.rmtree(new)
    speeds(name, count, lambda: salvage(damaged, new), LOG_SIZE, goal=1, before=before)
    shutil.rmtree(damaged)

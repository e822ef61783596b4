"""StoreCheckpoint: what a broker left, what older releases left, and files that are damaged."""

import copy
import os
import pickle
import random
import signal
import struct
import tarfile
import threading

import pytest
import reference
from support.stores import GOLDEN

from rocketstore import StoreCheckpoint

FIELDS = [
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "master_flushed_offset",
    "confirm_phy_offset",
    "logics_physical_offset",
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint"


def numbers(checkpoint):
    return [getattr(checkpoint, name) for name in FIELDS]


def golden_checkpoint():
    with tarfile.open(GOLDEN / "broker-5.5.0.tar.xz") as store:
        return store.extractfile("broker-5.5.0/checkpoint").read()


def test_the_checkpoint_of_a_5_5_broker_has_all_six_numbers(path):
    data = golden_checkpoint()
    path.write_bytes(data)
    # As RocketMQ's StoreCheckpoint reads the file.
    values = [1795240785629, 1795240744352, 1795240743433, 0, 579596, 579596]
    assert numbers(StoreCheckpoint.open(path)) == values
    assert data == reference.checkpoint_bytes(*values)


def test_a_flush_without_a_change_leaves_a_brokers_bytes(path):
    path.write_bytes(golden_checkpoint())
    StoreCheckpoint.open(path).flush()
    assert path.read_bytes() == golden_checkpoint()


@pytest.mark.parametrize(
    ("release", "used"), [("4.9", 24), ("5.0", 32), ("5.1.1", 40), ("5.5", 48)], ids=lambda value: str(value)
)
def test_numbers_that_a_release_did_not_write_are_zero(path, release, used):
    """Corner 82."""
    values = [1_700_000_000_000 + n for n in range(6)]
    path.write_bytes(reference.checkpoint_bytes(*values)[:used].ljust(4096, b"\0"))
    assert numbers(StoreCheckpoint.open(path)) == values[: used // 8] + [0] * (6 - used // 8)


def test_a_4_9_checkpoint_becomes_a_5_5_one_when_its_newer_numbers_are_set(path):
    path.write_bytes(reference.checkpoint_bytes(1, 2, 3)[:24].ljust(4096, b"\0"))
    checkpoint = StoreCheckpoint.open(path)
    checkpoint.confirm_phy_offset = 5
    checkpoint.logics_physical_offset = 6
    checkpoint.flush()
    assert path.read_bytes() == reference.checkpoint_bytes(1, 2, 3, 0, 5, 6)


def test_a_missing_checkpoint_is_zeros_and_reading_does_not_make_it(path):
    """Corner 81."""
    assert numbers(StoreCheckpoint.open(path)) == [0] * 6
    assert not path.exists()


def test_a_checkpoint_of_zeros_is_legal(path):
    path.write_bytes(bytes(4096))
    assert numbers(StoreCheckpoint.open(path)) == [0] * 6


@pytest.mark.parametrize("size", [1, 7, 8, 20, 24, 47])
def test_missing_bytes_of_a_short_file_are_zeros(path, size):
    data = reference.checkpoint_bytes(1 << 56, 2 << 56, 3 << 56, 4 << 56, 5 << 56, 6 << 56)[:size]
    path.write_bytes(data)
    padded = data.ljust(48, b"\0")
    assert numbers(StoreCheckpoint.open(path)) == [int.from_bytes(padded[at : at + 8], "big") for at in range(0, 48, 8)]
    assert path.read_bytes() == data


@pytest.mark.parametrize("size", [48, 49, 4095, 4097, 1 << 20])
def test_a_file_of_another_length_gives_its_numbers(path, size):
    values = [1, 2, 3, 4, 5, 6]
    path.write_bytes(reference.checkpoint_bytes(*values)[:48].ljust(size, b"\xff"))
    assert numbers(StoreCheckpoint.open(path)) == values


def test_a_flush_lengthens_a_short_file_with_zeros_and_cuts_no_long_one(path):
    for size, expected in ((48, 4096), (5000, 5000)):
        path.write_bytes(bytes(size))
        StoreCheckpoint.open(path).flush()
        assert path.read_bytes() == bytes(expected)


def test_damaged_numbers_are_given_as_they_are(path, seed):
    rng = random.Random(seed)
    extremes = [0, -1, 2**63 - 1, -(2**63), 1 << 40]
    for _ in range(100):
        values = [rng.choice([*extremes, rng.randrange(-(2**63), 2**63)]) for _ in FIELDS]
        path.write_bytes(struct.pack(">6q", *values).ljust(4096, b"\0"))
        assert numbers(StoreCheckpoint.open(path)) == values


def test_reading_changes_neither_bytes_nor_times(path):
    path.write_bytes(golden_checkpoint())
    before = path.stat()
    StoreCheckpoint.open(path)
    after = path.stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    assert path.read_bytes() == golden_checkpoint()


def test_a_checkpoint_that_cannot_be_read_is_an_os_error(path):
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        StoreCheckpoint.open(path)
    (path / "file").touch()
    with pytest.raises(NotADirectoryError):
        StoreCheckpoint.open(path / "file" / "checkpoint")


def test_a_checkpoint_is_pickled_and_copied_as_its_numbers(path):
    checkpoint = StoreCheckpoint(path, 1, 2, 3, 4, 5, 6)
    for again in (pickle.loads(pickle.dumps(checkpoint)), copy.deepcopy(checkpoint)):
        assert again == checkpoint
        again.flush()
        assert StoreCheckpoint.open(path) == checkpoint


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_in_the_middle_of_a_flush_flushes_its_own_checkpoint(tmp_path, monkeypatch):
    entered, release, real = threading.Event(), threading.Event(), os.fsync

    def wait(fd):
        entered.set()
        assert release.wait(20)
        real(fd)

    monkeypatch.setattr(os, "fsync", wait)
    thread = threading.Thread(target=StoreCheckpoint(tmp_path / "parent", 1).flush)
    thread.start()
    assert entered.wait(20)
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)  # which ends a process that hangs
        os.fsync = real
        StoreCheckpoint(tmp_path / "child", 2).flush()
        os._exit(0)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        release.set()
        thread.join()
    assert StoreCheckpoint.open(tmp_path / "child").physic_msg_timestamp == 2
    assert StoreCheckpoint.open(tmp_path / "parent").physic_msg_timestamp == 1

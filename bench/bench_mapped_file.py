"""What of a log is not in memory yet: mappings are told how they will be used."""

import os
import shutil

import numpy as np
import pytest
from conftest import seconds_of
from keys import splitmix64
from store_files import write_store

from rocketstore import CommitLog

BODY, LOOKUPS = 1024, 2_000


@pytest.fixture(scope="module")
def store(scratch):
    root = scratch / "cold"
    yield root, write_store(root, BODY)
    shutil.rmtree(root)


def forget(root):
    """Take the file out of memory, which the system does where nothing has it mapped."""
    (path,) = (root / "commitlog").iterdir()
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def scan(root):
    with CommitLog.open(root / "commitlog") as log:
        return np.concatenate([batch.phy_offset for batch in log.scan(columns=["phy_offset", "raw_body"])])


def test_scan_cold(pairs, store):
    root, messages = store
    pairs(
        "scan with bodies, cold, 1 KiB",
        messages,
        lambda: scan(root),
        lambda: seconds_of(lambda: scan(root)),
        "the same, warm",
        before=lambda: forget(root),
    )


def test_get_message_cold(pairs, store):
    root, messages = store
    rows = splitmix64(np.arange(LOOKUPS, dtype=np.uint64)) % np.uint64(messages)
    wanted = scan(root)[rows.astype(np.int64)].tolist()

    def read():
        with CommitLog.open(root / "commitlog") as log:
            for phy_offset in wanted:
                log.get_message(phy_offset)

    pairs(
        "get_message, cold, 1 KiB",
        LOOKUPS,
        read,
        lambda: seconds_of(read),
        "the same, warm",
        before=lambda: forget(root),
    )

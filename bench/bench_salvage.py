"""The speed of salvage for a store with one damaged place in the middle of its log. RocketMQ has no salvage to compare.

The damage costs one message. All earlier messages of its queue get another queue offset. Since the log begins at 0, the
new log begins with the second file, and all records get another physical offset: no record is copied unchanged.
"""

import os
import shutil
from contextlib import nullcontext
from unittest.mock import patch

import pytest
from store_files import write_store

from rocketstore import salvage

LOG_SIZE = int(os.environ.get("ROCKETSTORE_BENCH_SALVAGE_SIZE", str(1 << 30)))
BODY_SIZE = 1024


@pytest.fixture(scope="module")
def damaged(scratch):
    """A store with one log file and queues, and the number of its messages that are not damaged."""
    root = scratch / "damaged"
    count = write_store(root, BODY_SIZE, LOG_SIZE)
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(LOG_SIZE // 2)
        file.write(bytes(512))
    yield root, count - 1
    shutil.rmtree(root)


@pytest.mark.parametrize("synced", [False, True], ids=("", "synced"))
def test_salvage_of_one_damaged_place(speeds, damaged, scratch, synced):
    root, count = damaged
    new = scratch / "salvaged-of-one"
    report = salvage(root, new)
    assert (report.records, report.moved, len(report.lost)) == (count, count, 1)
    # Without the patch, salvage flushes the new store to the disk before it returns.
    context = nullcontext() if synced else patch("rocketstore.disk.durable.os.fsync", lambda fd: None)
    name = f"salvage of one damaged place, {LOG_SIZE / (1 << 30):g} GiB" + (", brought to the disk" if synced else "")
    with context:
        speeds(name, count, lambda: salvage(root, new), LOG_SIZE, goal=1.5, before=lambda: shutil.rmtree(new))
    shutil.rmtree(new)

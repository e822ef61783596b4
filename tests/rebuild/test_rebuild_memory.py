"""rebuild uses no more memory than its limit, for any log."""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from reference.record import build_record
from store.test_store_memory import GIB, MIB, anonymous_memory, records

from rocketstore import StoreConfig, rebuild

CONFIG = StoreConfig(
    mapped_file_size_commit_log=GIB,
    mapped_file_size_consume_queue=6_000_000,
    max_hash_slot_num=500_000,
    max_index_num=2_000_000,
)
MEMORY, SIZE = 64 * MIB, 300 * MIB
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures in /proc: only on Linux"),
]


def short_records(phy_offset, size):
    """So many as bytes allow: each has a unit and two items."""
    return records(phy_offset, np.arange(size // 140), body=0)


def long_bodies(phy_offset, size):
    return records(phy_offset, np.arange(size // (1 << 20)), body=1 << 20)


def nothing_but_keys(phy_offset, size):
    """An item for each two bytes."""
    template = build_record("T", b"", properties={"KEYS": "k " * 16_000})
    rows = np.tile(np.frombuffer(template, np.uint8), (size // len(template) // 4, 1))
    places = phy_offset + rows.shape[1] * np.arange(len(rows))
    rows[:, 28:36] = places.astype(">i8").view(np.uint8).reshape(len(rows), -1)
    return rows


SHAPES = {function.__name__: function for function in (short_records, long_bodies, nothing_but_keys)}


@pytest.mark.parametrize("shape", SHAPES)
def test_memory_stays_within_its_limit(shape):
    command = [sys.executable, __file__, shape]
    run = subprocess.run(command, text=True, capture_output=True, timeout=600, check=False)
    print(run.stdout)
    assert run.returncode == 0, run.stderr


def measure(shape):
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "store"
        (root / "commitlog").mkdir(parents=True)
        rows = SHAPES[shape](0, SIZE)
        with (root / "commitlog" / f"{0:020}").open("wb") as file:
            file.write(rows.data)
            file.truncate(GIB)
        n_bytes = rows.size
        del rows
        before = peak = anonymous_memory()
        done = threading.Event()

        def watch():
            nonlocal peak
            while not done.wait(0.002):
                peak = max(peak, anonymous_memory())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            report = rebuild(root, config=CONFIG, memory=MEMORY)
        finally:
            done.set()
            watcher.join()
        print(f"{shape}: {(peak - before) / MIB:.0f} MiB besides {before / MIB:.0f}, {report}")
        assert report.max_phy_offset == n_bytes
        assert peak - before <= MEMORY


if __name__ == "__main__":
    measure(sys.argv[1])

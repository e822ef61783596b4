"""Memory: how much a large build takes, and that nothing leaks."""

import gc
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from support.subprocesses import anonymous_memory, in_subprocess

from rocketstore import IndexFile, hash_keys

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")

MIB = 1 << 20
linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures in /proc: only on Linux")


class Peak:
    """The most anonymous memory beyond what there was at the beginning, looked at each millisecond."""

    def __enter__(self):
        gc.collect()
        self.before = anonymous_memory()
        self.bytes = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(0.001):
            self.bytes = max(self.bytes, anonymous_memory() - self.before)

    def __exit__(self, *exc):
        self.done.set()
        self.thread.join()


# ---- a large build -----------------------------------------------------------------------------------------

ITEMS = 19_999_999


def hex_keys(n):
    """An Arrow column of n random keys of 32 hexadecimal digits."""
    digits = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
    text = digits[np.random.default_rng(7).integers(0, 256, 16 * n, np.uint8)]
    offsets = np.arange(0, 32 * n + 1, 32, dtype=np.int32)
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(text))


def build_largest_file(path, form):
    """Put 20 million keys at once into a file of the default geometry."""
    keys, phy_offsets = hex_keys(ITEMS), np.arange(ITEMS)
    topic = pa.array(np.full(ITEMS, "TopicTest")) if form == "topic column" else "TopicTest"
    store_timestamps = 10**12 + phy_offsets
    file = IndexFile.create(path)
    if form == "in place":
        file.close()
        file = IndexFile.open(path, "r+", hash_slot_num=5_000_000, index_num=20_000_000)
    with file, Peak() as peak:
        assert file.put_keys(keys, phy_offsets, store_timestamps, topic=topic) == ITEMS
        assert len(file) == ITEMS
    print(f"{form}: {peak.bytes / MIB:.0f} MiB of anonymous memory at most")
    assert peak.bytes <= 130e6
    assert peak.bytes >= 60e6, "the hashes alone take more: the peak was not seen"


@linux
@pytest.mark.slow
@pytest.mark.parametrize("form", ["fresh", "in place", "topic column"])
def test_building_a_file_of_twenty_million_items_takes_at_most_130_mb(form, tmp_path):
    in_subprocess(build_largest_file, tmp_path / "index", form)
    (tmp_path / "index").unlink()


# ---- leaks -------------------------------------------------------------------------------------------------


def use_a_million_rows_again_and_again(directory, form):
    """200 imports and exports of a million rows: of 20 bytes each, so that 180 rounds that leak are seen."""
    n = 1_000_000
    keys = pa.array([f"{i:08}" for i in range(n)])
    if form != "chunked":
        keys = {"array": keys, "dictionary": keys.dictionary_encode(), "list": keys.to_pylist()}[form]
    else:
        keys = pa.chunked_array([keys[:10], keys[10:]])
    with IndexFile.create(Path(directory, "index"), hash_slot_num=n, index_num=n + 1) as file:
        file.put_keys(keys, np.arange(n), np.arange(n))
        lists = None
        for round_number in range(200):
            lists = pa.array(file.select_phy_offsets_by_hash(hash_keys(keys)[::10].copy()))
            if round_number == 20:
                before = anonymous_memory()
            if form == "list" and round_number == 60:
                break
        assert len(lists) == n // 10
    gc.collect()
    growth = anonymous_memory() - before
    print(f"{form}: {growth / MIB:.1f} MiB more after the last rounds")
    assert growth < 8 * MIB


@linux
@pytest.mark.slow
@pytest.mark.parametrize("form", ["array", "chunked", "dictionary", "list"])
def test_memory_is_steady_over_many_imports_and_exports(form, tmp_path):
    in_subprocess(use_a_million_rows_again_and_again, tmp_path, form)


def fail_again_and_again(directory):
    """Errors free the memory that was allocated before."""
    n = 100_000
    keys = [f"{i:08}" for i in range(n)]
    columns = [
        pa.array([*keys, None]),
        pa.chunked_array([pa.array(keys), pa.array([None], pa.string())]),
        pa.array([*keys, None]).dictionary_encode(),
        [*keys, 5],
        np.array([*keys, None], object),
        pa.array(range(n)),
    ]
    with IndexFile.create(Path(directory, "index"), hash_slot_num=10, index_num=100) as file:
        for round_number in range(150):
            for column in columns:
                with pytest.raises((TypeError, ValueError)):
                    hash_keys(column)
                with pytest.raises((TypeError, ValueError)):
                    file.put_keys(column, np.arange(len(column)), np.arange(len(column)))
            if round_number == 20:
                before = anonymous_memory()
    gc.collect()
    assert anonymous_memory() - before < 4 * MIB


@linux
@pytest.mark.slow
def test_memory_is_steady_over_many_errors(tmp_path):
    in_subprocess(fail_again_and_again, tmp_path)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

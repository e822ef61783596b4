"""A kill -9 at any write: every older key is findable, and the next put goes on from there."""

import contextlib
import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from reference import ITEM, java_hash
from reference import IndexFile as Reference

from rocketstore import CorruptFileError, IndexFile

pytestmark = pytest.mark.crash

BEGIN = 10**12

# ---- every prefix of the writes ----------------------------------------------------------------------------

SLOTS, ITEMS = 3, 24
GEOMETRY = {"hash_slot_num": SLOTS, "index_num": ITEMS}


def writes_of_put(model, key_hash, phy_offset, store_timestamp):
    """Put into the model, and give its writes in RocketMQ's order, a field each, as (position, bytes)."""
    hash_slot_count, index_count = model.header[4:]
    assert model.put_hash(key_hash, phy_offset, store_timestamp)
    item, slot = model.item_position(index_count), 40 + 4 * (key_hash % model.hash_slot_num)
    fields = [(item, 4), (item + 4, 8), (item + 12, 4), (item + 16, 4), (slot, 4)]
    if index_count == 1:
        fields += [(16, 8), (0, 8)]
    if model.header[4] != hash_slot_count:
        fields += [(32, 4)]
    fields += [(36, 4), (24, 8), (8, 8)]
    return [(position, bytes(model.data[position : position + size])) for position, size in fields]


def put_columns(file, items):
    hashes, offsets, times = zip(*items, strict=True)
    assert file.put_key_hashes(np.array(hashes, np.int32), np.array(offsets), np.array(times)) == len(items)


def items_of(seed):
    """Twelve items: hashes that share slots, some of them equal; times that rise, fall and stay."""
    rng = random.Random(f"{seed}/items")
    return [(rng.randrange(9), 1_000 + n, BEGIN + rng.choice([0, 700, 5_000])) for n in range(12)]


def torn_states(items, old, end_timestamp=0):
    """Put what comes after the `old` first items; give (model of what counts, bytes) after every write."""
    model = Reference(SLOTS, ITEMS, 500 if end_timestamp else 0, end_timestamp)
    for item in items[:old]:
        model.put_hash(*item)
    data = bytearray(model.data)
    for item in items[old:]:
        whole = Reference(SLOTS, ITEMS, data=data)
        writes = writes_of_put(model, *item)
        for position, value in writes:
            data[position : position + len(value)] = value
            if struct.unpack_from(">i", data, 36)[0] > whole.index_count:
                whole = Reference(SLOTS, ITEMS, data=model.data)
            yield whole, bytes(data)
        assert data == model.data


def offsets_by_hash(model):
    """All offsets of each hash, newest first."""
    found = {}
    for ordinal in range(1, model.index_count):
        key_hash, phy_offset, _, _ = model.item(ordinal)
        found.setdefault(key_hash, []).insert(0, phy_offset)
    return found


def select(file, key_hash):
    return file.select_phy_offsets_by_hash(np.array([key_hash], np.int32)).to_pylist()[0]


@pytest.mark.parametrize(("old", "end_timestamp"), [(0, 0), (0, BEGIN - 9_000), (1, 0), (5, 0)])
def test_the_writes_that_are_torn_here_give_a_kernels_file_in_the_end(old, end_timestamp, tmp_path, seed):
    items = items_of(seed)
    *_, (whole, data) = torn_states(items, old, end_timestamp)
    path = tmp_path / "index"
    before = {"end_phy_offset": 500 if end_timestamp else 0, "end_timestamp": end_timestamp}
    with IndexFile.create(path, **GEOMETRY, **before) as file:
        put_columns(file, items)
    assert path.read_bytes() == data == whole.data


@pytest.mark.parametrize(("old", "end_timestamp"), [(0, 0), (0, BEGIN - 9_000), (1, 0), (5, 0)])
def test_every_older_key_is_findable_after_every_write(old, end_timestamp, tmp_path, seed):
    path = tmp_path / "index"
    for whole, data in torn_states(items_of(seed), old, end_timestamp):
        path.write_bytes(data)
        with IndexFile.open(path, **GEOMETRY) as file:
            assert len(file) == whole.index_count - 1
            for key_hash, offsets in offsets_by_hash(whole).items():
                found = select(file, key_hash)
                # Beside them at most the newest item, whose slot is written and not its count.
                assert found[-len(offsets) :] == offsets
                assert len(found) - len(offsets) <= 1
        assert path.read_bytes() == data


@pytest.mark.parametrize(("old", "end_timestamp"), [(0, 0), (0, BEGIN - 9_000), (1, 0), (5, 0)])
def test_a_put_after_any_torn_put_loses_no_older_key(old, end_timestamp, tmp_path, seed):
    """What comes next is the torn item again, as a broker dispatches it, or one of another slot."""
    items = items_of(seed)
    path = tmp_path / "index"
    for whole, data in torn_states(items, old, end_timestamp):
        for key_hash in range(2 * SLOTS):
            path.write_bytes(data)
            expected = offsets_by_hash(whole)
            expected.setdefault(key_hash, []).insert(0, 77)
            with IndexFile.open(path, "r+", **GEOMETRY) as file:
                put_columns(file, [(key_hash, 77, BEGIN + 8_000)])
                assert len(file) == whole.index_count
                assert {key: select(file, key) for key in expected} == expected


def test_opening_a_sound_file_for_writing_changes_no_byte(tmp_path, seed):
    path = tmp_path / "index"
    model = Reference(SLOTS, ITEMS)
    for item in items_of(seed):
        path.write_bytes(model.data)
        IndexFile.open(path, "r+", **GEOMETRY).close()
        model.flush()  # an empty file's count is 1 then, as RocketMQ's is
        assert path.read_bytes() == model.data
        model.put_hash(*item)


# ---- every prefix of the stream form -----------------------------------------------------------------------

FRESH_SLOTS, FRESH_ITEMS = 31, 200


def stream_states(items):
    """Give the bytes of a new file after every four bytes of a first batch: items, slots, header."""
    model = Reference(FRESH_SLOTS, FRESH_ITEMS)
    data = bytearray(model.data)
    for item in items:
        model.put_hash(*item)
    fields = [(n, 4) for n in range(model.item_position(1), model.item_position(len(items) + 1), 4)]
    fields += [(n, 4) for n in range(40, 40 + 4 * FRESH_SLOTS, 4)]
    fields += [(16, 8), (0, 8), (32, 4), (36, 4), (24, 8), (8, 8)]
    for position, size in fields:
        yield bytes(data)
        data[position : position + size] = model.data[position : position + size]
    assert data == model.data
    yield bytes(data)


def test_a_torn_first_batch_leaves_an_empty_file_or_all_of_it(tmp_path, seed):
    rng = random.Random(f"{seed}/stream")
    items = [(rng.randrange(100), n, BEGIN + n) for n in range(100)]
    hashes = np.arange(100, dtype=np.int32)
    whole = Reference(FRESH_SLOTS, FRESH_ITEMS)
    for item in items:
        whole.put_hash(*item)
    everything = [whole.select_hash(key_hash, 32) for key_hash in range(100)]
    path = tmp_path / "index"
    lengths = set()
    for data in stream_states(items):
        path.write_bytes(data)
        geometry = {"hash_slot_num": FRESH_SLOTS, "index_num": FRESH_ITEMS}
        with IndexFile.open(path, **geometry) as file:
            lengths.add(len(file))
            found = file.select_phy_offsets_by_hash(hashes).to_pylist()
            assert found == (everything if len(file) else [[]] * 100)
        with IndexFile.open(path, "r+", **geometry) as file:
            length = len(file)
            put_columns(file, [(1_000 + n, 500 + n, BEGIN) for n in range(90)])
            assert len(file) == length + 90
            assert [select(file, 1_000 + n) for n in range(90)] == [[500 + n] for n in range(90)]
            if length:
                assert file.select_phy_offsets_by_hash(hashes).to_pylist() == everything
    assert lengths == {0, 100}


# ---- real processes, really killed -------------------------------------------------------------------------

KILLS = 40
KILL_SLOTS = 4_001
KILL_ITEMS = 150_000
KILL_GEOMETRY = {"hash_slot_num": KILL_SLOTS, "index_num": KILL_ITEMS}
ITEM_FIELDS = [("key_hash", ">i4"), ("phy_offset", ">i8"), ("time_diff", ">i4"), ("prev_index", ">i4")]
OLD = 5_000


def columns(first, n):
    """Items whose key hash and offset are their ordinal, so that every one is known and is found once."""
    ordinals = np.arange(first, first + n)
    return ordinals.astype(np.int32), ordinals, BEGIN + ordinals


def kill_in(child, rng, longest):
    """Run child(ready) in a fork, and kill it a moment after it called ready()."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            child(lambda: os.write(writing, b"."))
        os._exit(1)
    os.close(writing)
    assert os.read(reading, 1) == b"."
    os.close(reading)
    deadline = time.perf_counter() + rng.random() * longest
    while time.perf_counter() < deadline:
        pass
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, f"the child ended by itself: {status}"


def check_what_a_kill_left(path):
    """All items below the count are whole and findable. Give their number."""
    with IndexFile.open(path, **KILL_GEOMETRY) as file:
        n = len(file)
        hashes, offsets, _ = columns(1, n)
        np.testing.assert_array_equal(file.select_phy_offsets_by_hash(hashes).values, offsets)
        header = file.header
        assert n == 0 or header.begin_timestamp == BEGIN + 1
        assert header.end_phy_offset in (n, max(n - 1, 0))
        assert header.end_timestamp in (BEGIN + n, BEGIN + n - 1, 0)
    items = np.frombuffer(path.read_bytes(), ITEM_FIELDS, offset=40 + 4 * KILL_SLOTS)[1 : n + 1]
    np.testing.assert_array_equal(items["key_hash"], hashes)
    np.testing.assert_array_equal(items["phy_offset"], offsets)
    np.testing.assert_array_equal(items["prev_index"], np.maximum(hashes - KILL_SLOTS, 0))
    return n


def go_on_after(path, n):
    """Put more, from the item that was lost on, and find all of it."""
    more = min(1_000, KILL_ITEMS - 1 - n)
    with IndexFile.open(path, "r+", **KILL_GEOMETRY) as file:
        assert file.put_key_hashes(*columns(n + 1, more)) == more
    assert check_what_a_kill_left(path) == n + more


def kill_puts_in_place(directory, seed):
    rng = random.Random(f"{seed}/in place")
    path = Path(directory, "index")
    reached = []
    for _ in range(KILLS):
        with IndexFile.create(path, **KILL_GEOMETRY) as file:
            file.put_key_hashes(*columns(1, OLD))
        block = rng.choice([1, 7, 300, 5_000])

        def put(ready, block=block):
            with IndexFile.open(path, "r+", **KILL_GEOMETRY) as file:
                for first in range(OLD + 1, KILL_ITEMS - block, block):
                    file.put_key_hashes(*columns(first, block))
                    if first == OLD + 1:
                        ready()
                time.sleep(60)

        kill_in(put, rng, 0.004)
        reached.append(check_what_a_kill_left(path))
        assert reached[-1] > OLD
        go_on_after(path, reached[-1])
        path.unlink()
    print(f"items after each kill: {reached}")
    assert len(set(reached)) > 4, "the kills hardly ever came while items were put"


def kill_first_batches(directory, seed):
    rng = random.Random(f"{seed}/first batch")
    path = Path(directory, "index")
    batch = columns(1, KILL_ITEMS - 1)
    lengths = []
    for _ in range(KILLS):

        def put(ready):
            with IndexFile.create(path, **KILL_GEOMETRY) as file:
                ready()
                file.put_key_hashes(*batch)
                time.sleep(60)

        kill_in(put, rng, 0.008)
        lengths.append(check_what_a_kill_left(path))
        assert lengths[-1] in (0, KILL_ITEMS - 1)
        go_on_after(path, lengths[-1])
        path.unlink()
    print(f"items after each kill: {lengths}")


def kill_builds_under_a_temporary_name(directory, seed):
    """Kill from before the file is there until after it has its name."""
    rng = random.Random(f"{seed}/temporary name")
    path, temporary = Path(directory, "index"), Path(directory, "index.tmp")
    batch = columns(1, KILL_ITEMS - 1)
    lengths = []
    for _ in range(KILLS):

        def build(ready):
            ready()
            with IndexFile.create(temporary, **KILL_GEOMETRY) as file:
                file.put_key_hashes(*batch)
            temporary.rename(path)
            time.sleep(60)

        kill_in(build, rng, 0.03)
        lengths.append(check_what_a_kill_left(path) if path.exists() else None)
        assert lengths[-1] in (None, KILL_ITEMS - 1)
        if temporary.exists():
            with contextlib.suppress(CorruptFileError):  # killed before it had its length
                IndexFile.open(temporary, **KILL_GEOMETRY).close()
        path.unlink(missing_ok=True)
        temporary.unlink(missing_ok=True)
    print(f"items after each kill: {lengths}")


@pytest.mark.parametrize("form", [kill_puts_in_place, kill_first_batches, kill_builds_under_a_temporary_name])
def test_a_killed_writer_leaves_every_older_key_findable(form, tmp_path, seed):
    # In an interpreter of its own, which has no threads and may fork.
    command = [sys.executable, "-X", "faulthandler", __file__, form.__name__, str(tmp_path), str(seed)]
    run = subprocess.run(command, text=True, capture_output=True, timeout=100, check=False)
    assert run.returncode == 0, f"exit {run.returncode}\n{run.stdout}\n{run.stderr}"


def test_the_hash_of_a_torn_item_may_be_any_number(tmp_path):
    """Opening for writing reads the item behind the last one, which nobody has vouched for."""
    path = tmp_path / "index"
    for key_hash in (-1, -(2**31), 2**31 - 1, java_hash("a#k")):
        for prev in (-1, 0, 1, 2, 3, 2**31 - 1):
            model = Reference(SLOTS, ITEMS)
            model.put_hash(0, 1, BEGIN)
            model.put_hash(1, 2, BEGIN)
            ITEM.pack_into(model.data, model.item_position(3), key_hash, 9, 0, prev)
            for slot in range(SLOTS):
                data = bytearray(model.data)
                struct.pack_into(">i", data, 40 + 4 * slot, 3)
                path.write_bytes(data)
                with IndexFile.open(path, "r+", **GEOMETRY) as file:
                    assert len(file) == 2
                    put_columns(file, [(2, 3, BEGIN)])
                    assert select(file, 2)[0] == 3


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

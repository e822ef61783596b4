"""IndexFile against RocketMQ's own, on a file of the default geometry, and the plain loops."""

import filecmp

import numpy as np
import pyarrow as pa
import pytest
from conftest import seconds_of
from keys import TOPIC, arrow_keys, lookup_numbers

from rocketstore import IndexFile

LOOKUPS = 1_000_000
LOOKUP_SEED = 7
PREFIX = f"{TOPIC}#".encode()


@pytest.fixture(scope="module")
def lookups(keys):
    """The columns of keys to look up: there, and not there."""
    numbers = lookup_numbers(LOOKUPS, LOOKUP_SEED, len(keys))
    return {"hit": arrow_keys(numbers), "miss": arrow_keys(numbers + np.uint64(len(keys)))}


@pytest.fixture
def fresh_path(scratch):
    path = scratch / "30000000000000000"
    yield path
    path.unlink(missing_ok=True)


def renew(path):
    path.unlink(missing_ok=True)


def put_all(path, keys, phy_offsets, timestamps):
    """Make a file and put all keys. It is unmapped without the sync of close(), which Java's round has not either."""
    file = IndexFile.create(path)
    assert file.put_keys(keys, phy_offsets, timestamps, topic=TOPIC) == len(keys)
    file._file.close()


def test_both_write_the_same_file(index, java_file):
    index.flush()
    assert filecmp.cmp(index.path, java_file, shallow=False)


def test_put_keys(pairs, java, keys, phy_offsets, timestamps, fresh_path, scratch):
    theirs = scratch / "40000000000000000"
    pairs(
        "put_keys, Arrow column, fresh file",
        len(keys),
        lambda: put_all(fresh_path, keys, phy_offsets, timestamps),
        lambda: java.round("put", theirs, len(keys))[0],
        "IndexFile.putKey",
        goal=10,
        before=lambda: renew(fresh_path),
    )
    renew(theirs)


def test_put_keys_list(pairs, java, keys, phy_offsets, timestamps, fresh_path, scratch):
    theirs = scratch / "40000000000000000"
    strings = keys.to_pylist()
    pairs(
        "put_keys, list[str], fresh file",
        len(keys),
        lambda: put_all(fresh_path, strings, phy_offsets, timestamps),
        lambda: java.round("put", theirs, len(keys))[0],
        "IndexFile.putKey",
        before=lambda: renew(fresh_path),
    )
    renew(theirs)


def test_put_keys_against_the_plain_loop(pairs, plain, keys, phy_offsets, timestamps, fresh_path, scratch, index):
    theirs = scratch / "plain"

    def plain_round():
        renew(theirs)

        def put():
            file = np.memmap(theirs, np.uint8, "w+", shape=index.path.stat().st_size)
            plain.put(file, index.hash_slot_num, PREFIX, keys, phy_offsets, timestamps)

        return seconds_of(put)

    plain_round()
    assert filecmp.cmp(index.path, theirs, shallow=False)
    pairs(
        "put_keys, Arrow column, fresh file",
        len(keys),
        lambda: put_all(fresh_path, keys, phy_offsets, timestamps),
        plain_round,
        "plain C loop",
        goal=3,
        before=lambda: renew(fresh_path),
    )
    renew(theirs)


@pytest.mark.parametrize(("threads", "goal"), [(1, 12), (2, 20)])
@pytest.mark.parametrize("kind", ["hit", "miss"])
def test_select_phy_offsets(pairs, java, java_file, index, lookups, kind, threads, goal):
    _, count, checksum = java.round("select", java_file, LOOKUPS, LOOKUP_SEED, kind)
    found = index.select_phy_offsets(lookups[kind], topic=TOPIC, threads=threads)
    assert (len(found.values), int(found.values.sum())) == (count, checksum)
    pairs(
        f"select_phy_offsets, Arrow column, {kind}, {threads} thread{'s' * (threads > 1)}",
        LOOKUPS,
        lambda: index.select_phy_offsets(lookups[kind], topic=TOPIC, threads=threads),
        lambda: java.round("select", java_file, LOOKUPS, LOOKUP_SEED, kind)[0],
        "IndexFile.selectPhyOffset",
        goal=goal,
    )


@pytest.mark.parametrize("kind", ["hit", "miss"])
def test_select_phy_offsets_list(pairs, java, java_file, index, lookups, kind):
    strings = lookups[kind].to_pylist()
    pairs(
        f"select_phy_offsets, list[str], {kind}, 1 thread",
        LOOKUPS,
        lambda: index.select_phy_offsets(strings, topic=TOPIC),
        lambda: java.round("select", java_file, LOOKUPS, LOOKUP_SEED, kind)[0],
        "IndexFile.selectPhyOffset",
    )


def test_select_phy_offset_cold(pairs, java, java_file, index, lookups):
    strings = [f"{TOPIC}#{key}" for key in lookups["hit"].to_pylist()]

    def one_by_one():
        for key in strings:
            index.select_phy_offset(key)

    pairs(
        "select_phy_offset, one by one, cold",
        LOOKUPS,
        one_by_one,
        lambda: java.round("select", java_file, LOOKUPS, LOOKUP_SEED, "hit")[0],
        "IndexFile.selectPhyOffset",
        goal=1,
    )


def test_select_phy_offset_hot(pairs, java, java_file, index, keys):
    key = f"{TOPIC}#{keys[len(keys) // 2]}"
    calls = 500_000

    def the_same():
        for _ in range(calls):
            index.select_phy_offset(key)

    pairs(
        "select_phy_offset, one key again and again",
        calls,
        the_same,
        lambda: java.round("select_one", java_file, calls)[0],
        "IndexFile.selectPhyOffset",
    )


def test_arrow_out_costs_nothing(index, lookups):
    found = index.select_phy_offsets(lookups["hit"], topic=TOPIC)
    assert seconds_of(lambda: pa.array(found)) < 0.01
    assert len(pa.array(found)) == LOOKUPS

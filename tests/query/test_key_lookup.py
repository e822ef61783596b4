"""A search by key works with any index that answers its questions, also one without files."""

from pathlib import Path

import numpy as np
import pytest

import rocketstore
from rocketstore.index.key_lookup import KeySpan
from rocketstore.kernels.phy_offsets import PhyOffsets
from rocketstore.limits import LONG_MAX
from rocketstore.query.coverage import Coverage
from rocketstore.query.query_messages import query_messages


class ArrayPart:
    """Entries as two arrays, in the order of the log."""

    path = Path("array")
    identity = "array"
    is_write_full = False

    def __init__(self, phy_offsets, hashes):
        self.phy_offsets, self.hashes = phy_offsets, hashes

    @property
    def span(self):
        return KeySpan(int(self.phy_offsets[0]), int(self.phy_offsets[-1])) if len(self.phy_offsets) else None

    def select_phy_offsets_by_hash(self, key_hashes, *, max_num, begin_timestamp, end_timestamp, threads):
        found = [self.phy_offsets[self.hashes == key_hash][::-1][:max_num] for key_hash in key_hashes]
        return PhyOffsets(np.concatenate(found), np.cumsum([0, *map(len, found)]))

    def find_lost(self, key_hashes):
        return np.empty(0, np.int64), ""

    def entries_between(self, first, last):
        is_between = (self.phy_offsets >= first) & (self.phy_offsets <= last)
        return self.phy_offsets[is_between], self.hashes[is_between]


class ArrayParts(list):
    def find(self, name):
        return next((part for part in self if part.path.name == name), None)


class ArrayIndex:
    def __init__(self, *parts):
        self.files, self.damaged = ArrayParts(parts), {}

    def check_file_sizes(self):
        pass


@pytest.fixture
def store(tmp_path):
    config = rocketstore.StoreConfig.small()
    with rocketstore.open(tmp_path, "a", config=config) as store:
        for n in range(40):
            store.put_message(rocketstore.Message("T", b"x", keys=[f"k{n % 10}", "all"], tags="A"))
    with rocketstore.open(tmp_path) as store:
        yield store


def entries_of(store):
    columns = [file.entries_between(0, LONG_MAX) for file in store.index.files]
    return tuple(map(np.concatenate, zip(*columns, strict=True)))


def ask(log, index, keys, index_type=None):
    return query_messages(Coverage(log, index).look(index_type), "T", keys, 100, 0, LONG_MAX, index_type, 100_000, 1)


def test_an_index_of_arrays_answers_as_the_index_files_do(store):
    index = ArrayIndex(ArrayPart(*entries_of(store)))
    for keys, index_type in ((["k3", "all", "none"], None), (["A"], "T")):
        expected, found = (ask(store.commit_log, one, keys, index_type) for one in (store.index, index))
        assert found.phy_offsets.tolist() == expected.phy_offsets.tolist() != []
        assert found.offsets.tolist() == expected.offsets.tolist()
        assert (found.complete.tolist(), found.reasons) == ([True] * len(keys), [])


def test_entries_that_an_index_of_arrays_lacks_are_reported(store):
    phy_offsets, hashes = entries_of(store)
    kept = (phy_offsets < phy_offsets[60]) | (phy_offsets > phy_offsets[75])
    found = ask(store.commit_log, ArrayIndex(ArrayPart(phy_offsets[kept], hashes[kept])), ["all"])
    assert not found.complete.any()
    assert found.reasons == [
        f"messages with keys between the offsets {phy_offsets[60]} and {phy_offsets[75]} are not indexed"
    ]

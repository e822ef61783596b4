"""Spill files: what a partition writes, its order against the others', and reading it back in slices."""

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import numpy as np
import pyarrow as pa

from rocketstore.spark.build import spill
from rocketstore.spark.build.spill import Run, Slice, Spill, check_order, read_entries, write_spill

pytestmark = pytest.mark.spark

NOW = 1_700_000_000_000
LABELS = {"keyHash": "key", "phyOffset": "phy_offset", "storeTimestamp": "store_timestamp"}


def batch(rows, **columns):
    entries = {
        "keyHash": pa.array([key_hash for key_hash, _, _ in rows], pa.int32()),
        "phyOffset": pa.array([offset for _, offset, _ in rows], pa.int64()),
        "storeTimestamp": pa.array([time for _, _, time in rows], pa.int64()),
    }
    return pa.RecordBatch.from_pydict({**entries, **columns})


def test_attempts_of_one_partition_spill_to_their_own_files(tmp_path):
    rows = [(i, 10 * i, NOW + i) for i in range(5)]

    def break_off():
        yield batch(rows[:2])
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_spill(break_off(), tmp_path / "000000-7.spill", LABELS)
    path = tmp_path / "000000-8.spill"
    assert write_spill([batch(rows[:2]), batch([]), batch(rows[2:])], path, LABELS) == Spill(
        str(path), 5, 0, 0, 40, 0, ""
    )
    (entries,) = read_entries([Slice(Run(str(path), 0, 5), 0, 5)])
    assert entries.tolist() == rows
    with pytest.raises(FileExistsError):
        write_spill([batch(rows)], path, LABELS)


def test_an_empty_partition_leaves_no_file(tmp_path):
    assert write_spill([batch([])], tmp_path / "0", LABELS) is None
    assert list(tmp_path.iterdir()) == []


# ---- order and slices --------------------------------------------------------------------------------------


def test_a_tie_across_two_batches_is_noticed(tmp_path):
    two = [batch([(1, 10, NOW), (1, 20, NOW)]), batch([(2, 20, NOW), (2, 30, NOW)])]
    written = write_spill(two, tmp_path / "0", LABELS)
    with pytest.raises(ValueError, match="two rows have 20 in phy_offset: give ordinal="):
        check_order([written], LABELS)


def test_one_offset_may_go_on_in_the_next_batch_with_a_greater_ordinal(tmp_path):
    two = [batch([(1, 20, NOW)], ordinal=[-1]), batch([(2, 20, NOW)], ordinal=[0])]
    labels = {**LABELS, "ordinal": "ordinal"}
    written = write_spill(two, tmp_path / "0", labels)
    assert check_order([written], labels) == [Spill(written.path, 2, 20, -1, 20, 0, "")]


def test_a_tie_across_two_partitions_is_noticed():
    first, second = Spill("a", 2, 0, 0, 20, 0, ""), Spill("b", 1, 20, 0, 20, 0, "")
    with pytest.raises(ValueError, match="two rows have 20 in phy_offset"):
        check_order([second, first], LABELS)
    later = second._replace(first_ordinal=1, last_ordinal=1)
    assert check_order([later, first], LABELS) == [first, later]


def test_partitions_that_overlap_are_noticed():
    first, second = Spill("a", 2, 0, 0, 20, 0, ""), Spill("b", 2, 19, 0, 40, 0, "")
    with pytest.raises(ValueError, match="phy_offset from 19 to 20 is in two partitions"):
        check_order([second, first], LABELS)


def test_slices_cover_every_entry_once_across_spills():
    a, empty, b, c = runs = [Run("a", 0, 3), Run("empty", 3, 0), Run("b", 7, 5), Run("c", 0, 1)]
    bounds = [(2, 9), (3, 7), (4, 5)]
    assert list(spill.slices_of(runs, bounds)) == [
        [Slice(a, 2, 3), Slice(b, 0, 5), Slice(c, 0, 1)],
        [Slice(b, 0, 4)],
        [Slice(b, 1, 2)],
    ]
    assert list(spill.slices_of([], [(0, 0)])) == list(spill.slices_of([empty], [(0, 0)])) == [[]]


def test_long_slices_are_read_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "BLOCK", 4)
    write_spill([batch([(1, i, NOW) for i in range(11)])], tmp_path / "0", LABELS)
    blocks = list(read_entries([Slice(Run(str(tmp_path / "0"), 1, 10), 0, 10)]))
    assert [len(block) for block in blocks] == [4, 4, 2]
    assert np.concatenate(blocks)["phy_offset"].tolist() == list(range(1, 11))

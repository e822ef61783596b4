"""Columns of numbers that a caller gives, where they do not lie as C takes them."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest

from rocketstore import IndexFile, hash_keys
from rocketstore.cli.transfer.sources import reading_errors
from rocketstore.extras import find_imported
from rocketstore.kernels.columns import aligned, checked_hashes, checked_offsets, int32_column, int64_column

PACKED = np.dtype([("key_hash", np.int32), ("phy_offset", np.int64), ("store_timestamp", np.int64)])


def packed(n):
    rows = np.zeros(n, PACKED)
    rows["key_hash"] = np.arange(n) + 1
    rows["phy_offset"] = np.arange(n) * 100
    rows["store_timestamp"] = 1_700_000_000_000 + np.arange(n)
    return rows


def shifted(column):
    """The same column, a byte beside where its type belongs."""
    buffer = bytearray(column.nbytes + 1)
    buffer[1:] = column.tobytes()
    return np.frombuffer(buffer, column.dtype, len(column), 1)


@pytest.mark.parametrize(
    "take",
    [
        lambda rows: checked_hashes(shifted(rows["key_hash"])),
        lambda rows: checked_offsets(rows["phy_offset"], len(rows)),
        lambda rows: checked_offsets(shifted(rows["phy_offset"]), len(rows)),
        lambda rows: int64_column(rows["store_timestamp"], "store_timestamps", len(rows)),
        lambda rows: int32_column(shifted(rows["key_hash"]), "queue_ids", len(rows)),
        lambda rows: aligned(shifted(rows["phy_offset"]), np.int64),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 100])
def test_a_column_that_is_not_aligned_is_taken_as_its_aligned_copy(take, n):
    rows = packed(n)
    column = take(rows)
    assert column.flags.aligned
    assert column.flags.c_contiguous
    assert any(np.array_equal(column, rows[name]) for name in PACKED.names)


@pytest.mark.parametrize("kind", [lambda column: column, shifted])
@pytest.mark.parametrize("n", [1, 2, 100])
def test_items_of_columns_that_are_not_aligned_are_those_of_aligned_ones(tmp_path, n, kind):
    rows = packed(n)
    columns = [rows[name] for name in PACKED.names]
    for name, given in (("aligned", map(np.array, columns)), ("other", map(kind, columns))):
        with IndexFile.create(tmp_path / name, hash_slot_num=10, index_num=200) as index:
            assert index.put_key_hashes(*given) == n
    assert (tmp_path / "other").read_bytes() == (tmp_path / "aligned").read_bytes()


@pytest.mark.parametrize("n", [1, 2, 100])
def test_hashes_of_strings_that_are_not_aligned_are_those_of_aligned_ones(n):
    keys = np.array([f"key-{i}" for i in range(n)])
    assert np.array_equal(hash_keys(shifted(keys)), hash_keys(keys))


@pytest.mark.parametrize("n", [0, 1, 2, 100])
@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize("kind", ["string", "large_string", "int16", "int32", "uint64"])
def test_hashes_of_arrow_buffers_that_are_not_aligned_are_those_of_aligned_ones(kind, cut, n):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    keys = [f"key-{i % 7}" for i in range(n)]
    if kind.endswith("string"):
        column = pa.array(keys, pa.type_for_alias(kind))
    else:
        column = pa.DictionaryArray.from_arrays(pa.array([i % 7 for i in range(n)], kind), sorted({*keys}))
    validity, values, *rest = column.buffers()
    buffers = [validity, pa.py_buffer(shifted(np.frombuffer(values, np.uint8))), *rest][: 3 if rest else 2]
    if kind.endswith("string"):
        other = pa.Array.from_buffers(column.type, n, buffers)
    else:
        indices = pa.Array.from_buffers(column.type.index_type, n, buffers[:2])
        other = pa.DictionaryArray.from_arrays(indices, column.dictionary)
    assert other.buffers()[1].address % 2
    assert np.array_equal(hash_keys(other[cut:]), hash_keys(keys[cut:]))


@pytest.mark.parametrize("is_importing", [True, False])
def test_a_module_that_is_half_imported_or_of_another_kind_is_no_pyarrow(monkeypatch, is_importing):
    """While a thread imports pyarrow, ``sys.modules`` has it without its names. A user's folder may have its name."""
    half = ModuleType("pyarrow")
    half.__spec__ = ModuleSpec("pyarrow", None)
    half.__spec__._initializing = is_importing
    monkeypatch.setitem(sys.modules, "pyarrow", half)
    assert find_imported("pyarrow", "Array") is None
    assert int64_column([1, 2], "phy_offsets", 2).tolist() == [1, 2]
    assert reading_errors()[:5] == (ValueError, TypeError, OSError, MemoryError, EOFError)
    assert not [error for error in reading_errors() if error.__module__.startswith("pyarrow")]


def test_a_module_counts_as_imported_when_it_is_complete(monkeypatch):
    assert find_imported("numpy", "ndarray") is np
    assert find_imported("no_such_module") is None
    monkeypatch.setitem(sys.modules, "blocked", None)
    assert find_imported("blocked") is None

"""Arrow data in and out: capsules are used once and given back, and arrays keep what they need alive."""

import ctypes
import gc
import sys

import numpy as np
import pytest

from rocketstore import IndexFile, PhyOffsets, hash_keys

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")


class Capsules:
    """What a consumer gets that asks for an array or stream more than once: the same capsules each time."""

    def __init__(self, **methods):
        for name, capsules in methods.items():
            setattr(self, name, lambda requested_schema=None, given=capsules: given)


def array_capsules(column):
    return Capsules(__arrow_c_array__=column.__arrow_c_array__())


def stream_capsule(column):
    return Capsules(__arrow_c_stream__=pa.chunked_array([column]).__arrow_c_stream__())


LONG = pa.array(["a key that is longer than sixty-four bytes " * 2, "b"])


@pytest.mark.parametrize("capsules", [array_capsules, stream_capsule])
def test_a_capsule_is_consumed_once(capsules):
    """A second use finds what the first left: an error, and not the memory that is gone."""
    given = capsules(LONG)
    assert hash_keys(given).tolist() == hash_keys(LONG).tolist()
    for _ in range(3):
        with pytest.raises(ValueError, match="consumed"):
            hash_keys(given)
    # And one that another library has consumed.
    given = capsules(LONG)
    (pa.array if capsules is array_capsules else pa.chunked_array)(given)
    with pytest.raises(ValueError, match="consumed"):
        hash_keys(given)


def test_a_capsule_refused_for_its_type_is_given_back():
    released = []

    class Memory:
        """A buffer that tells when it goes."""

        def __init__(self):
            self.array = np.arange(100)
            self.__array_interface__ = self.array.__array_interface__

        def __del__(self):
            released.append(True)

    for kind in (array_capsules, stream_capsule):
        column = pa.array(np.asarray(Memory()))
        given = kind(column)
        with pytest.raises(TypeError, match="strings"):
            hash_keys(given)
        del column, given
        gc.collect()
        assert released == [True]
        released.clear()


@pytest.mark.parametrize(
    "column",
    [
        Capsules(__arrow_c_array__=LONG.__arrow_c_array__()[::-1]),
        Capsules(__arrow_c_array__=LONG.__arrow_c_array__()[:1]),
        Capsules(__arrow_c_array__=(None, None)),
        Capsules(__arrow_c_array__=None),
        Capsules(__arrow_c_array__=LONG.__arrow_c_array__()[0]),
        Capsules(__arrow_c_stream__=None),
        Capsules(__arrow_c_stream__=b"arrow_array_stream"),
        Capsules(__arrow_c_stream__=LONG.__arrow_c_array__()[1]),
        pa.table({"key": LONG}),
        pa.array([1, 2]),
        pa.array([b"a", b"b"]),
        pa.array([["a"], ["b"]]),
        pa.array([1, 2]).dictionary_encode(),
        pa.chunked_array([[1.5]]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_anything_but_a_column_of_strings_is_refused(column):
    for _ in range(2):
        with pytest.raises((TypeError, ValueError)):
            hash_keys(column)


def test_an_error_of_the_stream_is_raised_with_its_reason():
    def batches():
        yield pa.record_batch({"key": LONG}).to_struct_array()
        raise OSError("the disk is on fire")

    class Failing:
        def __arrow_c_stream__(self, requested_schema=None):
            kind = pa.struct([("key", pa.string())])
            schema = pa.schema(list(kind))
            rows = (pa.RecordBatch.from_struct_array(array) for array in batches())
            return pa.RecordBatchReader.from_batches(schema, rows).__arrow_c_stream__()

    with pytest.raises((ValueError, TypeError)):
        hash_keys(Failing())


def test_a_column_is_given_back_when_its_hashes_are_there():
    before = pa.total_allocated_bytes()
    column = pa.array([f"key {n}" for n in range(100_000)])
    chunked, large = pa.chunked_array([column, column]), column.cast(pa.large_string())
    for keys in (column, chunked, large, column.dictionary_encode()):
        hash_keys(keys)
        hash_keys(keys, topic=keys)
    del column, chunked, large, keys
    assert pa.total_allocated_bytes() == before


# ---- Arrow lists that go out -------------------------------------------------------------------------------


def found(path, n=1_000):
    """PhyOffsets of n keys. Key i has the offsets 2 * i + 1 and 2 * i."""
    with IndexFile.create(path, hash_slot_num=100, index_num=2 * n + 1) as file:
        hashes = np.arange(n, dtype=np.int32)
        file.put_key_hashes(np.repeat(hashes, 2), np.arange(2 * n), np.zeros(2 * n, np.int64))
        return file.select_phy_offsets_by_hash(hashes)


def references(offsets):
    return sys.getrefcount(offsets.values), sys.getrefcount(offsets.offsets)


def overwrite_freed_memory():
    """Allocate the memory that was just freed and fill it, so that a stale pointer shows wrong values."""
    gc.collect()
    return [bytes([n % 251]) * size for size in (64, 96, 112, 8_000, 8_008, 16_000) for n in range(500)]


def test_exported_lists_outlive_the_offsets_the_file_and_each_other(tmp_path):
    offsets = found(tmp_path / "index")
    expected = [[2 * i + 1, 2 * i] for i in range(1_000)]
    lists, small = pa.array(offsets), pa.array(offsets, pa.list_(pa.int64()))
    assert (lists.type, small.type) == (pa.large_list(pa.int64()), pa.list_(pa.int64()))
    child, piece = lists.values, lists.slice(500, 3)
    small_child = small.values
    del offsets
    rubbish = overwrite_freed_memory()
    lists.validate(full=True)
    small.validate(full=True)
    assert lists.to_pylist() == small.to_pylist() == expected
    del lists, small
    rubbish += overwrite_freed_memory()
    assert child.to_pylist() == small_child.to_pylist() == np.ravel(expected).tolist()
    del child
    rubbish += overwrite_freed_memory()
    assert piece.to_pylist() == expected[500:503]


@pytest.mark.parametrize("kind", [None, pa.list_(pa.int64()), pa.large_list(pa.int64())], ids=str)
def test_offsets_are_given_back_when_the_last_array_of_them_goes(kind, tmp_path):
    offsets = found(tmp_path / "index")
    before = references(offsets)
    capsules = offsets.__arrow_c_array__(kind and kind.__arrow_c_schema__())
    held = references(offsets)
    assert held[0] == before[0] + 1
    del capsules  # never consumed
    given_back = references(offsets)
    assert given_back == before
    array = pa.array(offsets, kind)
    child = array.values
    del array
    held = references(offsets)
    assert held[0] == before[0] + 1
    del child
    given_back = references(offsets)
    assert given_back == before


class ArrowArray(ctypes.Structure):
    """The struct of the Arrow C data interface, as far as a consumer that moves a child needs it."""


ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))),
    ("private_data", ctypes.c_void_p),
]


@pytest.mark.parametrize(
    ("values", "offsets"),
    [
        (np.arange(5, dtype=np.int32), np.array([0, 2, 5])),
        (np.arange(5), np.array([0, 2, 5], np.int32)),
        (np.arange(5), np.array([0, 2, 6])),
        (np.arange(5), np.array([-1, 2, 5])),
        (np.arange(5), np.array([0, 4, 2, 5])),
        (np.arange(5), np.empty(0, np.int64)),
    ],
)
def test_offsets_made_of_other_arrays_are_not_exported(values, offsets):
    with pytest.raises(ValueError, match=r"offsets|values"):
        PhyOffsets(values, offsets).__arrow_c_array__()


def test_offsets_that_lie_apart_are_exported():
    offsets = PhyOffsets(np.arange(10)[::2], np.array([0, 9, 2, 9, 5])[::2])
    assert pa.array(offsets).to_pylist() == [[0, 2], [4, 6, 8]]


def test_a_child_may_be_moved_out_of_its_parent_and_released_after_it(tmp_path):
    offsets = found(tmp_path / "index")
    before = references(offsets)
    _, capsule = offsets.__arrow_c_array__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    parent = ArrowArray.from_address(pointer(capsule, b"arrow_array"))
    given, child = parent.children[0].contents, ArrowArray()
    ctypes.memmove(ctypes.byref(child), ctypes.byref(given), ctypes.sizeof(child))
    given.release = type(given.release)()
    parent.release(ctypes.byref(parent))
    assert not parent.release
    del capsule, parent, given
    rubbish = overwrite_freed_memory()
    assert child.length == 2_000
    assert child.buffers[1][:4] == [1, 0, 3, 2]
    held = references(offsets)
    assert held == (before[0] + 1, before[1])
    child.release(ctypes.byref(child))
    del rubbish
    given_back = references(offsets)
    assert given_back == before

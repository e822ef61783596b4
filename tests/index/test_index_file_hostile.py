"""Damaged files and misuse: an error or RocketMQ's own answer, never a crash, a hang or a changed byte."""

import os
import random
import resource
import struct
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
import reference
from reference import LONG_MAX, CorruptIndex, key_for_hash, key_hash

from rocketstore import CorruptFileError, IndexFile, StoreClosedError, StoreError
from rocketstore.index import geometry as index_geometry
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.index_file import IndexFileKernel

SLOTS, ITEMS = 7, 20
GEOMETRY = {"hash_slot_num": SLOTS, "index_num": ITEMS}
KEYS = [f"T#{n % 5}" for n in range(15)] + ["T#absent", ""]
LENGTH = 40 + 4 * SLOTS + 20 * ITEMS
ITEMS_END = 40 + 4 * SLOTS + 20 * 16  # of the file that ``filled`` makes


def filled():
    """A file of 15 entries in 7 slots, as the reference writes it."""
    model = reference.IndexFile(SLOTS, ITEMS)
    for n in range(15):
        model.put_key(KEYS[n], 100 * n, 10**12 + 700 * n)
    return model


def slot_position(key):
    return 40 + 4 * (key_hash(key) % SLOTS)


def patch(data, position, value):
    struct.pack_into(">i", data, position, value)


def prev_position(ordinal):
    return 40 + 4 * SLOTS + 20 * ordinal + 16


def model_of(data):
    return reference.IndexFile(SLOTS, ITEMS, data=data)


def write(path, data):
    path.write_bytes(data)
    return path


def check_answers(path, data, limits=((32, 0, LONG_MAX), (2, 0, LONG_MAX), (10**6, 10**12 + 2000, 10**12 + 5000))):
    """Ask for every key in every way. Where the reference answers so must the file; else it may raise."""
    model = model_of(data)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert tuple(file.header) == model.header
        for max_num, begin, end in limits:
            expected = [answer(model.select_phy_offset, CorruptIndex, key, max_num, begin, end) for key in KEYS]
            for key, phy_offsets in zip(KEYS, expected, strict=True):
                got = answer(file.select_phy_offset, CorruptFileError, key, max_num, begin, end)
                assert got == phy_offsets or phy_offsets is None
            limited = partial(file.select_phy_offsets, max_num=max_num, begin_timestamp=begin, end_timestamp=end)
            batch = answer(limited, CorruptFileError, KEYS)
            if None not in expected:
                assert batch.to_pylist() == expected
    assert path.read_bytes() == data


def answer(call, corrupt, *arguments):
    """The result, or None if the chain is corrupt."""
    try:
        return call(*arguments)
    except corrupt:
        return None


def check_put(path, data):
    """A put into a damaged file gives the reference's bytes."""
    model = model_of(data)
    model.undo_torn_put()
    with IndexFile.open(path, "r+", **GEOMETRY) as file:
        assert file.put_key("T#new", 5000, 10**12 + 20_000) == model.put_key("T#new", 5000, 10**12 + 20_000)
        assert file.put_keys(["T#1", "T#x"], [5000, 5001], [10**12, LONG_MAX]) == (
            model.put_key("T#1", 5000, 10**12) + model.put_key("T#x", 5001, LONG_MAX)
        )
        assert path.read_bytes() == model.data


def check_is_refused(path, data):
    for mode in ("r", "r+"):
        with pytest.raises(CorruptFileError) as caught:
            IndexFile.open(path, mode, **GEOMETRY)
        assert caught.value.field == "indexCount"
    assert path.read_bytes() == data


@pytest.mark.parametrize("length", [ITEMS_END, ITEMS_END + 1, LENGTH - 20, LENGTH - 1])
def test_a_file_that_lost_nothing_but_zeros_is_read_and_made_longer_as_rocketmq_does(length, tmp_path):
    data = bytes(filled().data)
    path = write(tmp_path / "index", data[:length])
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        model = model_of(bytearray(data))
        assert [file.select_phy_offset(key) for key in KEYS] == [
            model.select_phy_offset(key, 32, 0, LONG_MAX) for key in KEYS
        ]
        assert file.items(ITEMS - 1, ITEMS)["phy_offset"] == 0
        file._check_file_size()
    assert path.read_bytes() == data[:length]
    IndexFile.open(path, "r+", **GEOMETRY).close()
    assert path.read_bytes() == data


def test_a_short_file_that_is_cut_again_while_it_is_open_is_an_error(tmp_path):
    path = write(tmp_path / "index", bytes(filled().data)[: LENGTH - 20])
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        os.truncate(path, LENGTH - 40)
        with pytest.raises(CorruptFileError, match="was cut from"):
            file._check_file_size()


def test_every_truncation_that_loses_slots_or_items_is_refused_and_not_extended(tmp_path):
    data = bytes(filled().data)
    for length in range(ITEMS_END):
        path = write(tmp_path / "index", data[:length])
        for mode in ("r", "r+"):
            with pytest.raises((StoreError, ValueError)):
                IndexFile.open(path, mode, **GEOMETRY)
        assert path.read_bytes() == data[:length]


@pytest.mark.parametrize("tail", [1, 4, 20, 4096])
def test_a_longer_file_is_refused(tail, tmp_path):
    path = write(tmp_path / "index", filled().data + bytes(tail))
    with pytest.raises((StoreError, ValueError)):
        IndexFile.open(path, "r", **GEOMETRY)


@pytest.mark.parametrize("position", range(40))
def test_every_byte_of_the_header_may_be_anything(position, tmp_path):
    for value in (0x00, 0x01, 0x0F, 0x7F, 0x80, 0xFF):
        data = filled().data
        data[position] = value
        path = write(tmp_path / "index", data)
        if model_of(data).index_count > ITEMS:
            check_is_refused(path, data)
            continue
        check_answers(path, data)
        check_put(path, data)


def flip_bytes(seed, count, path):
    rng = random.Random(f"{seed}/flips")
    for _ in range(count):
        data = filled().data
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            data[rng.randrange(40, LENGTH)] ^= 1 << rng.randrange(8)
        write(path, data)
        check_answers(path, data)
        check_put(path, data)


def test_byte_flips_in_slots_and_items(seed, tmp_path):
    flip_bytes(seed, 1000, tmp_path / "index")


@pytest.mark.slow
@pytest.mark.no_soak
def test_many_byte_flips_in_slots_and_items(seed, tmp_path):
    flip_bytes(seed + 1, 10_000, tmp_path / "index")


def test_random_bytes_behind_a_sound_header(seed, tmp_path):
    rng = random.Random(f"{seed}/noise")
    for _ in range(300):
        data = filled().data[:40] + rng.randbytes(LENGTH - 40)
        path = write(tmp_path / "index", data)
        check_answers(path, data)
        check_put(path, data)


def test_small_random_numbers_make_wild_chains(seed, tmp_path):
    """Numbers near the right ones reach deeper than noise does. Corner 60."""
    rng = random.Random(f"{seed}/chains")
    for _ in range(300):
        data = filled().data
        for slot in range(SLOTS):
            patch(data, 40 + 4 * slot, rng.randrange(-1, 22))
        for ordinal in range(1, 16):
            patch(data, prev_position(ordinal), rng.randrange(-1, 22))
        path = write(tmp_path / "index", data)
        check_answers(path, data)
        check_put(path, data)


@pytest.mark.parametrize("select", ["scalar", "batch", "two threads", "hashes"])
@pytest.mark.parametrize(("link", "ordinal"), [("upwards", 15), ("cycle of two", 11), ("out of the file", 10**9)])
def test_a_link_to_a_newer_item_is_corrupt(link, ordinal, select, tmp_path):
    data = filled().data
    patch(data, prev_position(6), ordinal)
    patch(data, slot_position(KEYS[5]), 11)
    patch(data, prev_position(11), 6)
    path = write(tmp_path / "index", data)
    hashes = np.array([key_hash(KEYS[5])], dtype=np.int32)
    with IndexFile.open(path, "r", **GEOMETRY) as file, pytest.raises(CorruptFileError) as caught:
        {
            "scalar": lambda: file.select_phy_offset(KEYS[5]),
            "batch": lambda: file.select_phy_offsets(["T#absent", KEYS[5]]),
            "two threads": lambda: file.select_phy_offsets(["T#absent", KEYS[5]] * 9000, threads=2),
            "hashes": lambda: file.select_phy_offsets_by_hash(hashes),
        }[select]()
    assert caught.value.field == "prevIndex"
    assert caught.value.offset == prev_position(6)
    assert str(path) in str(caught.value)


def test_a_link_to_itself_ends_the_chain_as_in_rocketmq(tmp_path):
    data = filled().data
    patch(data, prev_position(11), 11)
    path = write(tmp_path / "index", data)
    check_answers(path, data)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert file.select_phy_offset(KEYS[10]) == [1000]


def test_a_negative_time_difference_ends_the_chain(tmp_path):
    data = filled().data
    patch(data, prev_position(11) - 4, -1)
    path = write(tmp_path / "index", data)
    check_answers(path, data)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert file.select_phy_offset(KEYS[10]) == []


@pytest.mark.parametrize("value", [-1, -(2**31), 17, 2**31 - 1])
def test_a_slot_that_points_nowhere_holds_nothing(value, tmp_path):
    data = filled().data
    patch(data, slot_position(KEYS[0]), value)
    path = write(tmp_path / "index", data)
    check_answers(path, data)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert file.select_phy_offset(KEYS[0]) == []


@pytest.mark.parametrize("count", [ITEMS + 1, ITEMS + 100, 2**31 - 1])
def test_a_count_beyond_the_file_is_an_error(count, tmp_path):
    data = filled().data
    patch(data, 36, count)
    check_is_refused(write(tmp_path / "index", data), data)


def test_a_slot_that_equals_the_count_of_a_full_file_lies_outside_it(tmp_path):
    """Corner 60."""
    model = filled()
    while model.put_key("T#0", 10**6, 10**12):
        pass
    patch(model.data, slot_position("T#0"), ITEMS)
    path = write(tmp_path / "index", model.data)
    with IndexFile.open(path, "r", **GEOMETRY) as file, pytest.raises(CorruptFileError) as caught:
        file.select_phy_offset("T#0")
    assert caught.value.field == "slot"
    assert caught.value.offset == slot_position("T#0")


@pytest.mark.parametrize(
    "content", [b"", b"x", b"not an index file\n" * 100, bytes(39), bytes(40), bytes(5000)], ids=len
)
def test_anything_but_an_index_file_is_an_error(content, tmp_path):
    path = write(tmp_path / "index", content)
    for geometry in ({}, GEOMETRY):
        for mode in ("r", "r+"):
            with pytest.raises((StoreError, ValueError)):
                IndexFile.open(path, mode, **geometry)
    assert path.read_bytes() == content


def test_a_geometry_that_does_not_fit_is_refused(tmp_path):
    path = write(tmp_path / "index", filled().data)
    for slots, items in [
        (SLOTS + 1, ITEMS),
        (SLOTS, ITEMS - 1),
        (SLOTS - 5, ITEMS + 2),
        (0, ITEMS),
        (SLOTS, 0),
        (-7, ITEMS),
        (2**62, 2**62),
        (2**40, 1),
        (10**30, 5),
    ]:
        with pytest.raises((StoreError, ValueError)):
            IndexFile.open(path, "r", hash_slot_num=slots, index_num=items)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_geometry_of_the_file_s_length_is_refused_if_the_items_are_found_with_another_alone(mode, tmp_path):
    path = write(tmp_path / "index", filled().data)
    with pytest.raises(CorruptFileError, match=rf"\({SLOTS}, {ITEMS}\) alone") as caught:
        IndexFile.open(path, mode, hash_slot_num=SLOTS + 5, index_num=ITEMS - 1)
    assert (caught.value.offset, caught.value.field) == (36, "indexCount")
    assert path.read_bytes() == filled().data


def test_items_that_no_geometry_finds_leave_the_given_one(tmp_path):
    data = filled().data
    data[40 : 40 + 4 * SLOTS] = bytes(4 * SLOTS)
    path = write(tmp_path / "index", data)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert len(file) == 15


def test_no_other_geometry_is_searched_if_a_crash_lost_only_the_newest_items(tmp_path, monkeypatch):
    """Among all that a large file can have, that takes seconds."""
    data = filled().data
    for slot in range(SLOTS):
        if struct.unpack_from(">i", data, 40 + 4 * slot) == (14,):
            struct.pack_into(">i", data, 40 + 4 * slot, 0)
    path = write(tmp_path / "index", data)
    monkeypatch.setattr(index_geometry, "infer_geometry", None)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert len(file) == 15


def test_a_geometry_that_is_found_as_the_only_one_while_items_are_put_is_no_other(tmp_path, monkeypatch):
    data = filled().data
    data[40 : 40 + 4 * SLOTS] = bytes(4 * SLOTS)
    path = write(tmp_path / "index", data)
    monkeypatch.setattr(index_geometry, "infer_geometry", lambda *_, **__: (SLOTS, ITEMS))
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert len(file) == 15


def of_many_geometries(items):
    """A file of one item, to which each slot leads in as many geometries."""
    return bytearray(struct.pack(">qqqqii", 1, 2, 0, 100, 2, 2) + struct.pack(">i", 2) * (5 * items + SLOTS))


def test_of_many_geometries_not_all_are_tried(tmp_path):
    path = write(tmp_path / "index", of_many_geometries(10_000))
    with pytest.raises(ValueError, match="do not follow"):
        IndexFile.open(path)
    with IndexFile.open(path, hash_slot_num=SLOTS, index_num=10_000) as file:
        assert len(file) == 1


def test_a_geometry_does_not_follow_from_ways_to_items_that_are_not_gone_to_the_end(tmp_path, monkeypatch):
    path = write(tmp_path / "index", filled().data)
    monkeypatch.setattr(index_geometry, "MOST_STEPS", 10)
    with pytest.raises(ValueError, match="do not follow"):
        IndexFile.open(path)


@pytest.fixture
def no_large_files():
    """Make a file beyond 1 MiB an OSError, so that a failing test does not fill the disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize(
    "geometry", [(0, 10), (10, 0), (10, 1), (-1, 10), (10, -1), (2**31, 10), (10, 2**31), (10**30, 10)]
)
def test_a_file_cannot_be_created_with_an_impossible_geometry(geometry, tmp_path, no_large_files):
    slots, items = geometry
    with pytest.raises(ValueError, match="are possible"):
        IndexFile.create(tmp_path / "index", hash_slot_num=slots, index_num=items)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "seeds",
    [{"end_phy_offset": 2**63}, {"end_timestamp": 2**63}, {"end_timestamp": 1.5e12}, {"compat": "3.0.0"}],
    ids=str,
)
def test_a_create_that_fails_leaves_no_file(seeds, tmp_path):
    with pytest.raises((ValueError, TypeError), match=r"beyond int64|a datetime, .* was expected|compat"):
        IndexFile.create(tmp_path / "index", **GEOMETRY, **seeds)
    assert list(tmp_path.iterdir()) == []


def test_a_create_that_is_interrupted_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(IndexFile, "_seed_header", Mock(side_effect=KeyboardInterrupt), raising=False)
    with pytest.raises(KeyboardInterrupt):
        IndexFile.create(tmp_path / "index", **GEOMETRY)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_or_a_directory_is_the_system_s_error(tmp_path):
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError):
            IndexFile.open(tmp_path / "missing", mode, **GEOMETRY)
        with pytest.raises(OSError, match=r"[Dd]irectory"):
            IndexFile.open(tmp_path, mode, **GEOMETRY)
    assert list(tmp_path.iterdir()) == []


def test_create_does_not_take_the_place_of_a_file(tmp_path):
    path = write(tmp_path / "index", b"precious")
    with pytest.raises(FileExistsError):
        IndexFile.create(path, **GEOMETRY)
    assert path.read_bytes() == b"precious"


def test_an_unknown_mode_or_release_is_a_value_error(tmp_path):
    path = write(tmp_path / "index", filled().data)
    with pytest.raises(ValueError, match="mode"):
        IndexFile.open(path, "w", **GEOMETRY)
    for compat in ("3.0.0", "6.0", "x"):
        with pytest.raises(ValueError, match="compat"):
            IndexFile.open(path, "r", **GEOMETRY, compat=compat)


@pytest.fixture
def writable(tmp_path):
    """An open file whose bytes must be unchanged at the end."""
    path = write(tmp_path / "index", filled().data)
    file = IndexFile.open(path, "r+", **GEOMETRY)
    yield file
    file.close()
    assert path.read_bytes() == filled().data


@pytest.mark.parametrize(
    "arguments",
    [
        (["a", "b"], [1], [1, 2]),
        (["a", "b"], [1, 2], [1]),
        (["a"], [1, 2], [1, 2]),
        (["a", None], [1, 2], [1, 2]),
        (["a", "b"], [1, -1], [1, 2]),
        (["a"], [-(2**63)], [1]),
        (["a"], [[1]], [1]),
        (["a"], np.array([[1]]), [1]),
        (["a", "b"], np.ma.array([1, 2], mask=[False, True]), [1, 2]),
    ],
    ids=repr,
)
def test_a_batch_with_one_bad_row_is_refused_whole(arguments, writable):
    with pytest.raises(ValueError):  # noqa: PT011 - each row has its own words
        writable.put_keys(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (["a", 1], [1, 2], [1, 2]),
        (["a"], ["1"], [1]),
        (["a"], [1.5], [1]),
        (["a"], [1], [None]),
        ("a", [1], [1]),
        (["a"], 1, [1]),
        (None, [1], [1]),
        (["a"], np.array([1.0]), [1]),
        (["a"], [1], np.array(["x"])),
        (["a"], np.array([1], dtype="M8[ms]"), [1]),
        ([b"a"], [1], [1]),
    ],
    ids=repr,
)
def test_a_batch_of_the_wrong_types_is_refused_whole(arguments, writable):
    with pytest.raises((TypeError, ValueError)):
        writable.put_keys(*arguments)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_numbers_that_are_no_longs_are_refused(number, writable):
    for call in (
        lambda: writable.put_key("k", number, 1),
        lambda: writable.put_key("k", 1, number),
        lambda: writable.put_keys(["k"], [number], [1]),
        lambda: writable.put_keys(["k"], [1], [number]),
        lambda: writable.select_phy_offset("k", 32, number, 0),
        lambda: writable.select_phy_offset("k", 32, 0, number),
        lambda: writable.select_phy_offsets(["k"], end_timestamp=number),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()


@pytest.mark.parametrize("name", ["max_num", "begin_timestamp", "end_timestamp"])
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_of_a_select_that_no_long_can_be_is_named(writable, name, number):
    for select in (
        lambda **numbers: writable.select_phy_offset("k", **numbers),
        lambda **numbers: writable.select_phy_offsets(["k"], **numbers),
        lambda **numbers: writable.select_phy_offsets_by_hash(np.array([5], np.int32), **numbers),
    ):
        with pytest.raises(ValueError, match=f"^{name}={number} is beyond int64$"):
            select(**{name: number})


def test_unsigned_offsets_too_large_for_a_long_are_refused(writable):
    with pytest.raises((ValueError, TypeError)):
        writable.put_keys(["k"], np.array([2**63], dtype=np.uint64), [1])


def test_integers_in_an_object_array_are_integers(tmp_path):
    with IndexFile.create(tmp_path / "index", **GEOMETRY) as file:
        with pytest.raises(ValueError, match=f"phy_offsets: {2**63} is beyond int64"):
            file.put_keys(["a", "b"], np.array([1, 2**63], object), [1, 2])
        assert file.put_keys(["a", "b"], np.array([1, 2], object), np.array([3, 4], object)) == 2
        assert file.select_phy_offset("b") == [2]


def test_a_str_of_a_class_of_its_own_is_a_key(tmp_path):
    with IndexFile.create(tmp_path / "index", **GEOMETRY) as file:
        assert file.put_key(np.str_("a"), 1, 2)
        assert file.select_phy_offset(np.str_("a")) == file.select_phy_offset("a") == [1]
        for key in (None, b"a", 1):
            with pytest.raises(TypeError):
                file.put_key(key, 1, 2)
            with pytest.raises(TypeError):
                file.select_phy_offset(key)


def test_a_kernel_asks_for_an_open_buffer():
    buffer = Buffer(bytearray(40 + 4 + 2 * 20), "index")
    assert IndexFileKernel(buffer, 1, 2).index_num == 2
    buffer.close()
    with pytest.raises(StoreClosedError):
        IndexFileKernel(buffer, 1, 2)
    with pytest.raises(TypeError, match="buffer"):
        IndexFileKernel(None, 1, 2)


def test_a_put_of_a_bad_row_is_refused(writable):
    with pytest.raises(ValueError, match="phy_offset"):
        writable.put_key("k", -1, 1)
    for arguments in (
        (5, 1, 1),
        (None, 1, 1),
        (b"k", 1, 1),
        ("k", "1", 1),
        ("k", 1.5, 1),
        ("k", 1, 1.5),
        ("k", None, 1),
    ):
        with pytest.raises(TypeError):
            writable.put_key(*arguments)


def test_negative_hashes_are_refused_by_row(writable):
    hashes = np.array([5, -1], dtype=np.int32)
    for call in (
        lambda: writable.put_key_hashes(hashes, [1, 2], [1, 2]),
        lambda: writable.select_phy_offsets_by_hash(hashes),
    ):
        with pytest.raises(ValueError, match=r"\b1\b"):
            call()


def test_hashes_that_are_no_ints_are_refused(writable):
    for hashes in (np.array([1.0]), np.array([2**31]), ["a"], [None], np.array([[1]], dtype=np.int32), 5):
        with pytest.raises((TypeError, ValueError)):
            writable.put_key_hashes(hashes, [1], [1])
        with pytest.raises((TypeError, ValueError)):
            writable.select_phy_offsets_by_hash(hashes)


def test_a_select_with_wrong_arguments_is_refused(writable):
    for key in (5, None, b"k", ["k"]):
        with pytest.raises(TypeError):
            writable.select_phy_offset(key)
    for keys in (b"k", None, [5], 7):
        with pytest.raises(TypeError):
            writable.select_phy_offsets(keys)
    for threads in (0, -1):
        with pytest.raises(ValueError, match="threads"):
            writable.select_phy_offsets(["k"], threads=threads)
    names = "max_num", "begin_timestamp", "end_timestamp"
    wrong = [({name: limit}, TypeError) for limit in (1.5, None, b"1") for name in names]
    wrong += [({"max_num": "1"}, TypeError), *(({name: "soon"}, ValueError) for name in names[1:])]
    for limits, error in wrong:
        with pytest.raises(error):
            writable.select_phy_offset("k", **limits)
        with pytest.raises(error):
            writable.select_phy_offsets(["k"], **limits)


def test_a_limit_beyond_any_memory_is_no_reason_to_reserve_it(writable):
    for max_num in (2**31, 2**62):
        assert writable.select_phy_offset(KEYS[0], max_num) == [1000, 500, 0]
        assert writable.select_phy_offsets([KEYS[0]], max_num=max_num).to_pylist() == [[1000, 500, 0]]


def test_a_read_only_file_takes_no_keys(tmp_path):
    path = write(tmp_path / "index", filled().data)
    stamp = path.stat().st_mtime_ns
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        for put in (
            lambda: file.put_key("k", 1, 1),
            lambda: file.put_keys(["k"], [1], [1]),
            lambda: file.put_key_hashes(np.array([1], dtype=np.int32), [1], [1]),
        ):
            with pytest.raises((ValueError, OSError), match=r"reading|mode"):
                put()
        assert file.select_phy_offset(KEYS[0]) == [1000, 500, 0]
    assert path.read_bytes() == filled().data
    assert path.stat().st_mtime_ns == stamp


def test_a_closed_file_answers_nothing_more(tmp_path):
    path = write(tmp_path / "index", filled().data)
    file = IndexFile.open(path, "r+", **GEOMETRY)
    file.close()
    file.close()
    hashes = np.array([1], dtype=np.int32)
    for call in (
        lambda: file.put_key("k", 1, 1),
        lambda: file.put_keys(["k"], [1], [1]),
        lambda: file.put_key_hashes(hashes, [1], [1]),
        lambda: file.select_phy_offset("k"),
        lambda: file.select_phy_offsets(["k"]),
        lambda: file.select_phy_offsets_by_hash(hashes),
        lambda: file.header,
        lambda: len(file),
        file.flush,
        lambda: file.is_time_matched(0, 1),
        lambda: file.is_write_full,
        lambda: file._seed_header(1, 1),
    ):
        with pytest.raises(StoreClosedError):
            call()
    assert "closed" in repr(file)
    assert path.read_bytes() == filled().data


def test_an_answer_outlives_its_file(tmp_path):
    path = write(tmp_path / "index", filled().data)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        phy_offsets = file.select_phy_offsets(KEYS[:2])
    path.unlink()
    assert phy_offsets.to_pylist() == [[1000, 500, 0], [1100, 600, 100]]


@pytest.mark.skipif(os.geteuid() == 0, reason="root has every right")
def test_a_directory_without_rights_is_the_system_s_error(tmp_path):
    path = write(tmp_path / "index", filled().data)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            IndexFile.create(tmp_path / "new", **GEOMETRY)
        with IndexFile.open(path, "r", **GEOMETRY) as file:
            assert len(file) == 15
    finally:
        tmp_path.chmod(0o700)


def test_a_read_only_file_can_be_read_and_not_opened_for_writing(tmp_path):
    path = write(tmp_path / "index", filled().data)
    path.chmod(0o400)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert file.select_phy_offset(KEYS[0]) == [1000, 500, 0]
    if os.geteuid() != 0:
        with pytest.raises(PermissionError):
            IndexFile.open(path, "r+", **GEOMETRY)


def test_a_file_that_shrank_under_the_mapping_is_an_error_of_a_batch(tmp_path):
    path = write(tmp_path / "index", filled().data)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        os.truncate(path, 100)
        with pytest.raises((StoreError, OSError)):
            file.select_phy_offsets(KEYS)


def test_geometry_is_never_guessed_for_writing(tmp_path):
    path = write(tmp_path / "index", filled().data)
    with pytest.raises(ValueError, match="hash_slot_num"):
        IndexFile.open(path, "r+")


def test_a_key_whose_hash_meets_another_is_answered_like_it(tmp_path):
    path = write(tmp_path / "index", filled().data)
    with IndexFile.open(path, "r", **GEOMETRY) as file:
        assert file.select_phy_offset(key_for_hash(key_hash(KEYS[3]))) == [1300, 800, 300]

"""Whole index files and all answers from them, against the reference."""

import itertools
import random

import numpy as np
import pytest
import reference
from reference import key_for_hash, key_hash

import rocketstore

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
LETTERS = ["abcdefghij", "主题键消息", "😀🚀\U0010ffff", "\ud800\udfff\udbffz", "é\xff\x80", "a主😀\ud834"]
LIMITS = [0, 1, 2, 32, 33, 64, 100, 10**6]
COMPATS = {"4.7.0": True, "4.7.1": False, "5.5.1": False}


class Pair:
    """A file and its model, which take the same calls and must stay the same bytes."""

    def __init__(self, path, slots, items, end_phy_offset=0, end_timestamp=0, compat="5.5.1"):
        self.path = path
        self.geometry = {"hash_slot_num": slots, "index_num": items}
        self.compat = compat
        self.model = reference.IndexFile(slots, items, end_phy_offset, end_timestamp, every_put_counts=COMPATS[compat])
        self.file = rocketstore.IndexFile.create(
            path, **self.geometry, end_phy_offset=end_phy_offset, end_timestamp=end_timestamp, compat=compat
        )

    def put_key(self, key, phy_offset, store_timestamp):
        assert self.file.put_key(key, phy_offset, store_timestamp) == self.model.put_key(
            key, phy_offset, store_timestamp
        )

    def put_keys(self, keys, phy_offsets, store_timestamps, *, topic=None):
        index_keys = keys if topic is None else [f"{topic}#{key}" for key in keys]
        taken = sum(map(self.model.put_key, index_keys, map(int, phy_offsets), map(int, store_timestamps)))
        assert self.file.put_keys(keys, phy_offsets, store_timestamps, topic=topic) == taken

    def put_key_hashes(self, keys, phy_offsets, store_timestamps):
        hashes = np.array([key_hash(key) for key in keys], dtype=np.int32)
        taken = sum(map(self.model.put_hash, hashes.tolist(), phy_offsets, store_timestamps))
        assert self.file.put_key_hashes(hashes, phy_offsets, store_timestamps) == taken

    def reopen(self):
        self.file.close()
        self.model.flush()
        self.file = rocketstore.IndexFile.open(self.path, "r+", **self.geometry, compat=self.compat)

    def check(self):
        assert self.path.read_bytes() == self.model.data
        assert tuple(self.file.header) == self.model.header
        assert len(self.file) == self.model.index_count - 1
        assert self.file.is_write_full == self.model.is_write_full


def draw_keys(rng, count):
    """Keys of a small pool, so that chains are long and hashes meet."""
    pool = [""] + ["".join(rng.choices(rng.choice(LETTERS), k=rng.randint(1, 40))) for _ in range(rng.randint(1, 60))]
    return rng.choices(pool, k=count)


def draw_timestamps(rng, count):
    shape = rng.choice(["rising", "falling", "equal", "zero", "negative", "far", "extreme", "any"])
    start = rng.randrange(1, 2 * 10**12)
    return {
        "rising": lambda: list(itertools.accumulate([start] + [rng.randrange(3000) for _ in range(count - 1)])),
        "falling": lambda: list(itertools.accumulate([start] + [-rng.randrange(3000) for _ in range(count - 1)])),
        "equal": lambda: [start] * count,
        "zero": lambda: [0] * count,
        "negative": lambda: [-rng.randrange(1, 10**13) for _ in range(count)],
        "far": lambda: [rng.randrange(1, 2**31 * 2000) for _ in range(count)],
        "extreme": lambda: rng.choices([LONG_MIN, LONG_MIN + 1, -1, 0, 1, LONG_MAX - 999, LONG_MAX], k=count),
        "any": lambda: [rng.randrange(LONG_MIN, LONG_MAX) for _ in range(count)],
    }[shape]()


def draw_rows(rng, count):
    return (
        draw_keys(rng, count),
        [rng.choice([n, rng.getrandbits(63)]) for n in range(count)],
        draw_timestamps(rng, count),
    )


def draw_pair(rng, path):
    return Pair(
        path,
        rng.choice([1, 2, 7, 97]),
        rng.randint(2, 400),
        rng.choice([0, 0, 5, rng.getrandbits(62)]),
        rng.choice([0, 0, 1, rng.getrandbits(41)]),
        rng.choice(list(COMPATS)),
    )


def put_something(rng, pair):
    """One call of a random kind."""
    count = rng.choice([1, 1, 2, 7, 50, 150])
    keys, phy_offsets, store_timestamps = draw_rows(rng, count)
    how = rng.choice(["put_key", "put_keys", "lists", "topic", "hashes"])
    if how == "put_key":
        for row in zip(keys, phy_offsets, store_timestamps, strict=True):
            pair.put_key(*row)
    elif how == "put_keys":
        pair.put_keys(keys, np.array(phy_offsets, dtype=np.int64), np.array(store_timestamps, dtype=np.int64))
    elif how == "lists":
        pair.put_keys(keys, phy_offsets, store_timestamps)
    elif how == "topic":
        pair.put_keys(keys, phy_offsets, store_timestamps, topic=rng.choice(["T", "主题", "😀", ""]))
    else:
        pair.put_key_hashes(keys, phy_offsets, store_timestamps)


@pytest.mark.parametrize("case", range(80))
def test_a_file_is_the_reference_s_after_every_call(case, seed, tmp_path):
    """Corner 58."""
    rng = random.Random(f"{seed}/bytes/{case}")
    pair = draw_pair(rng, tmp_path / "index")
    pair.check()
    for _ in range(rng.randint(1, 6)):
        put_something(rng, pair)
        pair.check()
        if rng.random() < 0.3:
            pair.reopen()
            pair.check()
    pair.file.close()
    pair.model.flush()
    assert pair.path.read_bytes() == pair.model.data


@pytest.mark.parametrize("compat", COMPATS)
@pytest.mark.parametrize("whole", [True, False], ids=["one call on a fresh file", "after a first put"])
def test_a_large_batch_gives_the_same_bytes(whole, compat, seed, tmp_path):
    """A fresh file may be written in another order; what it is in the end may not differ."""
    rng = random.Random(f"{seed}/large")
    pair = Pair(tmp_path / "index", 5003, 90_000, 77, 1_700_000_000_000, compat)
    phy_offsets = range(100, 100 + 120_000)
    store_timestamps = [1_700_000_000_000 + rng.randrange(10**7) for _ in phy_offsets]
    keys = [f"T#{rng.randrange(40_000)}" for _ in phy_offsets]
    if not whole:
        pair.put_key("first", 99, 1_700_000_000_000)
    pair.put_keys(keys, np.array(phy_offsets), np.array(store_timestamps))
    assert pair.file.is_write_full
    pair.check()


@pytest.mark.parametrize("first", [1, 1000, 5000])
def test_a_file_partly_filled_by_a_batch_can_be_continued(first, seed, tmp_path):
    rng = random.Random(f"{seed}/continued")
    pair = Pair(tmp_path / "index", 97, 9000)
    for count in (first, 1, 2500, 4000):
        pair.put_keys(*draw_rows(rng, count))
        pair.check()
        pair.reopen()
    pair.check()


def test_what_a_flush_writes_to_a_file_without_entries(tmp_path):
    """Corner 58."""
    pair = Pair(tmp_path / "index", 7, 10)
    assert not any(pair.path.read_bytes())
    pair.file.flush()
    pair.model.flush()
    pair.check()
    pair.put_key("k", 5, 1000)
    pair.check()


def test_a_full_file_takes_no_more_keys(tmp_path):
    """Corner 59."""
    pair = Pair(tmp_path / "index", 7, 4)
    pair.put_keys(["a", "b", "c", "d", "e"], range(5), range(5))
    assert pair.file.is_write_full
    before = pair.path.read_bytes()
    assert pair.file.put_key("f", 6, 6) is False
    assert pair.file.put_keys(["f"], [6], [6]) == 0
    assert pair.file.put_key_hashes(np.array([6], dtype=np.int32), [6], [6]) == 0
    assert pair.path.read_bytes() == before
    pair.check()


def test_an_empty_batch_changes_nothing(tmp_path):
    pair = Pair(tmp_path / "index", 7, 4)
    pair.put_keys([], [], [])
    pair.put_key_hashes([], [], [])
    pair.check()


def bounds_of(rng, model):
    """Bounds at, beside and far from the times that a file can answer with."""
    times = [model.begin_timestamp, model.end_timestamp, 0, LONG_MIN, LONG_MAX]
    times += [
        reference.to_long(model.begin_timestamp + 1000 * model.item(n)[2])
        for n in rng.choices(range(1, model.index_count), k=2)
    ]
    near = [reference.to_long(rng.choice(times) + rng.choice([-1001, -1000, -1, 0, 1, 999, 1000])) for _ in range(2)]
    return near if rng.random() < 0.8 else sorted(near)


@pytest.mark.parametrize("case", range(40))
def test_every_select_answers_as_the_reference(case, seed, tmp_path):
    """Corner 72."""
    rng = random.Random(f"{seed}/select/{case}")
    pair = draw_pair(rng, tmp_path / "index")
    for _ in range(rng.randint(1, 3)):
        put_something(rng, pair)
    keys = list(dict.fromkeys([*draw_keys(rng, 40), "T#absent", "absent", ""]))
    present = [key_for_hash(pair.model.item(n)[0]) for n in range(1, min(pair.model.index_count, 60))]
    keys = rng.sample(keys + present, k=len(keys + present))
    for begin, end in [(0, LONG_MAX), (LONG_MIN, LONG_MAX), *(bounds_of(rng, pair.model) for _ in range(4))]:
        assert pair.file.is_time_matched(begin, end) == pair.model.is_time_matched(begin, end)
        for max_num in rng.sample(LIMITS, 3):
            check_selects(pair, keys, max_num, begin, end)


def check_selects(pair, keys, max_num, begin, end):
    expected = [pair.model.select_phy_offset(key, max_num, begin, end) for key in keys]
    limits = {"max_num": max_num, "begin_timestamp": begin, "end_timestamp": end}
    assert [pair.file.select_phy_offset(key, **limits) for key in keys] == expected
    hashes = np.array([key_hash(key) for key in keys], dtype=np.int32)
    for threads in (1, 2):
        assert pair.file.select_phy_offsets(keys, **limits, threads=threads).to_pylist() == expected
        assert pair.file.select_phy_offsets_by_hash(hashes, **limits, threads=threads).to_pylist() == expected


@pytest.mark.parametrize("max_num", LIMITS)
def test_many_keys_are_selected_in_the_order_asked(max_num, seed, tmp_path):
    """Enough keys for several pieces of work, in both threads; hits and misses mixed."""
    rng = random.Random(f"{seed}/many")
    pair = Pair(tmp_path / "index", 997, 6000)
    stored = [f"{rng.randrange(3000)}" for _ in range(5500)]
    pair.put_keys(stored, range(5500), [10**12 + 500 * n for n in range(5500)], topic="T")
    asked = [f"{rng.randrange(6000)}" for _ in range(20_000)]
    expected = {key: pair.model.select_phy_offset("T#" + key, max_num) for key in set(asked)}
    for threads in (1, 2):
        answer = pair.file.select_phy_offsets(asked, topic="T", max_num=max_num, threads=threads)
        assert answer.to_pylist() == [expected[key] for key in asked]
        assert answer.values.dtype == answer.offsets.dtype == np.int64
        assert len(answer) == len(asked)
        assert answer.offsets[-1] == len(answer.values)


def test_the_default_limit_is_32_and_no_time_bound(tmp_path):
    pair = Pair(tmp_path / "index", 7, 100)
    pair.put_keys(["k"] * 50, range(50), [10**12] * 50)
    newest = list(range(49, 17, -1))
    assert pair.file.select_phy_offset("k") == newest
    assert pair.file.select_phy_offsets(["k", "x"]).to_pylist() == [newest, []]


def test_no_keys_select_nothing(tmp_path):
    pair = Pair(tmp_path / "index", 7, 100)
    pair.put_key("k", 1, 1)
    assert pair.file.select_phy_offsets([]).to_pylist() == []


def test_a_negative_limit_is_a_value_error(tmp_path):
    pair = Pair(tmp_path / "index", 7, 10)
    pair.put_key("k", 1, 1)
    for select in (
        lambda: pair.file.select_phy_offset("k", -1),
        lambda: pair.file.select_phy_offsets(["k"], max_num=-1),
        lambda: pair.file.select_phy_offsets_by_hash(np.array([1], dtype=np.int32), max_num=-1),
    ):
        with pytest.raises(ValueError, match="max_num"):
            select()


@pytest.mark.parametrize("max_num", [1, 32, 4999, 5000, 10**6])
def test_a_chain_of_thousands_of_equal_hashes(max_num, tmp_path):
    pair = Pair(tmp_path / "index", 97, 6000)
    pair.put_keys(["Aa", "BB"] * 2500, range(5000), [10**12] * 5000)
    assert pair.file.select_phy_offset("Aa", max_num) == list(range(4999, -1, -1))[:max_num]
    check_selects(pair, ["BB", "no", "Aa"], max_num, 0, LONG_MAX)
    neighbour = key_for_hash(key_hash("Aa") + 97)
    assert pair.file.select_phy_offset(neighbour, max_num) == []


def test_four_keys_of_hashes_48_48_50_48_in_one_slot(tmp_path):
    pair = Pair(tmp_path / "index", 2, 10)
    pair.put_keys(["0", "\x01\x11", "2", "\x000"], [100, 200, 300, 400], [1000] * 4)
    pair.check()
    assert [pair.model.item(n) for n in range(1, 5)] == [
        (48, 100, 0, 0),
        (48, 200, 0, 1),
        (50, 300, 0, 2),
        (48, 400, 0, 3),
    ]
    assert pair.file.select_phy_offsets(["0", "2", "4"]).to_pylist() == [[400, 200, 100], [300], []]


def test_two_keys_of_one_hash_100(tmp_path):
    pair = Pair(tmp_path / "index", 97, 10)
    pair.put_key("d", 7, 1000)
    pair.put_key("\x03\x07", 8, 1000)
    pair.check()
    assert pair.file.select_phy_offset("d") == pair.file.select_phy_offset("\x03\x07") == [8, 7]


def test_the_smallest_hash_is_stored_as_zero_in_slot_zero(tmp_path):
    """Corner 64."""
    pair = Pair(tmp_path / "index", 7, 10)
    pair.put_key("polygenelubricants", 9, 1000)
    pair.put_keys([key_for_hash(-(2**31), "T#")], [10], [1000], topic="T")
    pair.check()
    assert pair.model.slot(0) == 2
    assert pair.file.select_phy_offset("polygenelubricants") == [10, 9]


def test_releases_until_4_7_0_count_every_put_and_later_ones_filled_slots(tmp_path):
    counts = {}
    for compat in COMPATS:
        pair = Pair(tmp_path / compat, 7, 10, compat=compat)
        pair.put_keys(["k", "k", "k"], [1, 2, 3], [1, 1, 1])
        counts[compat] = pair.file.header.hash_slot_count
    assert counts == {"4.7.0": 3, "4.7.1": 1, "5.5.1": 1}


def test_a_rolled_file_measures_its_first_entry_from_the_end_of_the_previous_one(tmp_path):
    """Corner 61."""
    pair = Pair(tmp_path / "index", 7, 10, 900, 100_000)
    pair.check()
    pair.put_key("k", 1000, 160_000)
    pair.check()
    assert pair.file.select_phy_offset("k", 1, 160_000, 161_000) == []
    assert pair.file.select_phy_offset("k", 1, 220_000, 221_000) == [1000]


@pytest.mark.parametrize("end", [LONG_MIN, -1, 0, LONG_MAX])
def test_a_file_may_follow_one_that_ended_at_any_long(end, tmp_path):
    with rocketstore.IndexFile.create(
        tmp_path / "index", hash_slot_num=1, index_num=2, end_phy_offset=end, end_timestamp=end
    ) as file:
        assert file.header[:4] == (max(end, 0),) * 4


@pytest.mark.parametrize("column", ["list", "tuple", "int64", "big-endian", "strided", "read-only"])
def test_offsets_and_times_may_be_any_column_of_longs(column, tmp_path):
    make = {
        "list": list,
        "tuple": tuple,
        "int64": lambda values: np.array(values, dtype=np.int64),
        "big-endian": lambda values: np.array(values, dtype=">i8"),
        "strided": lambda values: np.array([values, values], dtype=np.int64).T[:, 0],
        "read-only": lambda values: np.frombuffer(np.array(values, dtype=np.int64).tobytes(), dtype=np.int64),
    }[column]
    pair = Pair(tmp_path / "index", 7, 10)
    pair.put_keys(["a", "b"], make([10, 2**62]), make([10**12, 10**12 + 5000]))
    pair.check()

"""Directories of index files and all answers from them, against the reference."""

import errno
import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from reference import LONG_MAX
from reference.commit_log import make_commit_log

import rocketstore
from rocketstore import (
    CommitLog,
    CorruptFileError,
    IndexFile,
    IndexService,
    Message,
    MessageBatch,
    StoreCheckpoint,
    StoreConfig,
    StoreError,
)
from rocketstore.index import index_writer
from rocketstore.kernels.index_requests import index_items

SLOTS, ITEMS = 7, 25
GEOMETRY = {"hash_slot_num": SLOTS, "index_num": ITEMS}
COMPATS = {
    "5.5.1": {"every_put_counts": False, "index_tags": True},
    "5.3.3": {"every_put_counts": False, "index_tags": False},
    "4.7.0": {"every_put_counts": True, "index_tags": False},
}
COLUMNS = ["topic", "uniq_key", "keys", "tags", "phy_offset", "store_timestamp", "sys_flag"]
CHECKPOINT_FIELDS = [
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "master_flushed_offset",
    "confirm_phy_offset",
    "logics_physical_offset",
]
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC


def request(phy_offset, keys=None, *, topic="T", uniq_key=None, tags=None, store_timestamp=10**12, sys_flag=0):
    return SimpleNamespace(
        topic=topic,
        uniq_key=uniq_key,
        keys=keys,
        tags=tags,
        phy_offset=phy_offset,
        store_timestamp=store_timestamp,
        sys_flag=sys_flag,
    )


def columns(requests):
    return {name: [getattr(row, name) for row in requests] for name in COLUMNS}


def numpy_columns(requests):
    table = columns(requests)
    for name in COLUMNS[:4]:
        table[name] = np.array(table[name], dtype=object)
    for name in COLUMNS[4:6]:
        table[name] = np.array(table[name], dtype=np.int64)
    return {**table, "sys_flag": np.array(table["sys_flag"], dtype=np.int32)}


def arrow_columns(requests):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    strings = [pa.string(), pa.large_string(), pa.string_view(), pa.string()]
    types = dict(zip(COLUMNS, [*strings, pa.int64(), pa.int64(), pa.int32()], strict=True))
    return {name: pa.array(values, types[name]) for name, values in columns(requests).items()}


def arrow_table(requests):
    arrays = arrow_columns(requests)
    return pytest.importorskip("pyarrow").table({**arrays, "topic": arrays["topic"].dictionary_encode()})


def chunked_arrow_table(requests):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    table = arrow_table(requests)
    return pa.concat_tables([table.slice(0, 3), table.slice(3, 0), table.slice(3)])


INPUTS = {
    "lists": columns,
    "numpy": numpy_columns,
    "arrow": arrow_columns,
    "table": arrow_table,
    "chunked table": chunked_arrow_table,
}


def draw_requests(rng, count):
    """Messages of every kind that a dispatcher can see, in about the order of a commit log."""
    # From 1973 on: a query refuses times of 1970 that look like seconds.
    phy_offset, store_timestamp, rows = 0, rng.randrange(10**11, 10**12), []
    for _ in range(count):
        again = rng.random()
        if again < 0.8:
            phy_offset += rng.randrange(1, 500)
        elif again > 0.9:
            phy_offset = max(phy_offset - rng.randrange(1, 500), 0)
        store_timestamp += rng.choice([0, 1, 999, 1000, 60_000, -5000])
        words = rng.choices(["a", "b", "主题", "😀", "", "T#x", f"key-{rng.randrange(30)}"], k=rng.randrange(5))
        rows.append(
            request(
                phy_offset,
                rng.choice([None, " ", " ".join(words), " ".join(words)]),
                topic=rng.choice(["T", "Topic", "主题"]),
                uniq_key=rng.choice([None, "", f"{rng.getrandbits(64):X}"]),
                tags=rng.choice([None, "", "x", "Tag A"]),
                store_timestamp=store_timestamp,
                sys_flag=rng.choice([0, 0, 0x1, PREPARED, COMMIT, ROLLBACK, 0x301, ROLLBACK | 0x30]),
            )
        )
    return rows


class Pair:
    """A service and its model, which take the same calls and must stay the same bytes."""

    def __init__(self, directory, compat="5.5.1", **geometry):
        self.directory = directory
        self.options = {**GEOMETRY, **geometry, "compat": compat}
        self.model = reference.IndexService(self.options["hash_slot_num"], self.options["index_num"], **COMPATS[compat])
        self.service = IndexService.open(directory, "a", **self.options)

    def build_index(self, row):
        self.service.build_index(row)
        self.model.build_index(row)

    def build_indexes(self, rows, as_columns=columns):
        self.service.build_indexes(as_columns(rows))
        for row in rows:
            self.model.build_index(row)

    def reopen(self, mode="a", **options):
        self.service.close()
        for file in self.model.files:
            file.flush()
        self.service = IndexService.open(self.directory, mode, **self.options, **options)

    def names(self):
        return sorted(path.name for path in self.directory.iterdir())

    def check(self):
        names = self.names()
        assert all(len(name) == 17 and name.isdigit() for name in names)
        assert [(self.directory / name).read_bytes() for name in names] == [file.data for file in self.model.files]
        assert [tuple(file.header) for file in self.service.files] == [file.header for file in self.model.files]


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


@pytest.mark.parametrize("compat", COMPATS)
@pytest.mark.parametrize("case", range(6))
def test_files_are_the_reference_s_over_several_rolls(case, compat, seed, index):
    rng = random.Random(f"{seed}/service/{case}")
    pair = Pair(index, compat)
    rows = draw_requests(rng, 120)
    while rows:
        count = rng.choice([1, 1, 5, 30, 120])
        now, rows = rows[:count], rows[count:]
        if count == 1:
            pair.build_index(now[0])
        else:
            pair.build_indexes(now, rng.choice([columns, numpy_columns]))
        pair.check()
        if rng.random() < 0.2:
            pair.reopen()
            pair.check()
    assert len(pair.model.files) > 1


@pytest.mark.parametrize("kind", INPUTS)
def test_columns_of_every_kind_build_the_same(kind, seed, index):
    pair = Pair(index)
    pair.build_indexes(draw_requests(random.Random(f"{seed}/columns"), 150), INPUTS[kind])
    pair.check()


def test_a_batch_of_many_messages_over_many_files(seed, index):
    rng = random.Random(f"{seed}/many")
    pair = Pair(index, hash_slot_num=97, index_num=3000)
    pair.build_indexes(draw_requests(rng, 10_000))
    pair.check()
    assert len(pair.model.files) > 2


def test_no_messages_make_no_file(index):
    pair = Pair(index)
    pair.build_indexes([])
    pair.check()
    assert pair.names() == []
    answer = pair.service.query_offset("T", "a")
    assert (answer.phy_offsets, answer.index_last_update_timestamp, answer.index_last_update_phy_offset) == (
        [],
        0,
        0,
    )


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "row",
    [
        request(10),
        request(10, " "),
        request(10, "a", sys_flag=ROLLBACK),
        request(10, tags=""),
    ],
    ids=["keyless", "blank keys", "rolled back", "empty tags"],
)
def test_a_message_without_entries_makes_the_first_file(row, batch, index):
    """Corner 57."""
    pair = Pair(index)
    (pair.build_indexes if batch else pair.build_index)([row] if batch else row)
    pair.check()
    assert len(pair.names()) == 1
    assert len(pair.service.files[0]) == 0


def test_messages_that_were_scanned_are_indexed_as_they_were_dispatched(tmp_path):
    config = StoreConfig(mapped_file_size_commit_log=1 << 16, max_hash_slot_num=SLOTS, max_index_num=ITEMS)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        for n, sys_flag in enumerate([0, PREPARED, ROLLBACK, COMMIT, 0]):
            keys, tags = ["a", f"k{n}"][: n % 3], "x" if n % 2 else None
            store.put_message(Message("主题", b"", keys=keys, tags=tags, sys_flag=sys_flag))
        store.flush()
        (batch,) = store.scan()
    with IndexService.open(tmp_path / "index", "a", **GEOMETRY) as service:
        assert service.build_indexes(batch) == len(service.files[0])
    (expected,), (found,) = (list((root / "index").iterdir()) for root in (tmp_path / "store", tmp_path))
    assert found.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_indexed_as_its_columns_are(seed, tmp_path):
    """The keys of a message may be none, empty, or have spaces; a slice of a batch begins inside its columns."""
    pa = pytest.importorskip("pyarrow")
    rng = random.Random(seed)
    words = ["a", "", "b c", " d ", "é", "主题", "😀", "x" * 70]
    keys = [rng.choices(words, k=rng.randrange(4)) for _ in range(300)]
    columns = {
        "topic": rng.choices(["T", "主题"], k=300),
        "body": [b""] * 300,
        "keys": keys,
        "tags": rng.choices(["", "x", None], k=300),
        "uniq_key": rng.choices(["", "u v", None], k=300),
        "sys_flag": rng.choices([0, PREPARED, ROLLBACK], k=300),
        "phy_offset": list(range(0, 30_000, 100)),
        "store_timestamp": [10**12 + i for i in range(300)],
    }
    batch = MessageBatch.of_arrow(pa.table(columns))[50:]
    rest = {name: column[50:] for name, column in columns.items()}
    for name, requests in ("batch", batch), ("columns", rest | {"keys": [" ".join(texts) for texts in keys[50:]]}):
        with IndexService.open(tmp_path / name, "a", **GEOMETRY) as service:
            service.build_indexes(requests)
    found, expected = (sorted((tmp_path / name).iterdir()) for name in ("batch", "columns"))
    assert [path.read_bytes() for path in found] == [path.read_bytes() for path in expected]
    assert len(found) > 1


def test_messages_without_a_column_that_is_needed_are_refused(tmp_path, index):
    make_commit_log(tmp_path / "log", 4096, [{}])
    with CommitLog.open(tmp_path / "log") as log, IndexService.open(index, "a", **GEOMETRY) as service:
        (batch,) = log.scan(columns=["topic", "phy_offset"])
        with pytest.raises(ValueError, match="no column 'store_timestamp'"):
            service.build_indexes(batch)


def test_times_beyond_a_long_are_refused(index):
    with IndexService.open(index, "a", **GEOMETRY) as service:
        for query in (service.query_offset, lambda topic, key, **times: service.query_offsets(topic, [key], **times)):
            for name in ("begin_timestamp", "end_timestamp"):
                with pytest.raises(ValueError, match=f"{name}=.* is beyond int64"):
                    query("T", "k", **{name: 2**63})


def test_system_flags_beyond_an_int_are_refused(index):
    row = {"topic": "T", "phy_offset": [0], "store_timestamp": [1], "sys_flag": [8 + (1 << 32)]}
    refused = pytest.raises(ValueError, match="sys_flag: 4294967304 is beyond int32")
    with IndexService.open(index, "a", **GEOMETRY) as service, refused:
        service.build_indexes(row)


@pytest.mark.parametrize("batch", [False, True])
def test_prepared_is_indexed_and_rolled_back_is_not(batch, index):
    pair = Pair(index)
    rows = [request(n, "a", sys_flag=flag) for n, flag in enumerate([PREPARED, ROLLBACK, COMMIT])]
    if batch:
        pair.build_indexes(rows)
    else:
        for row in rows:
            pair.build_index(row)
    pair.check()
    assert pair.service.query_offset("T", "a").phy_offsets == [2, 0]


@pytest.mark.parametrize("batch", [False, True])
def test_the_last_message_is_indexed_again_and_an_older_one_is_not(batch, index):
    """Corner 68."""
    pair = Pair(index)
    rows = [request(n, "a") for n in (50, 50, 49, 51)]
    if batch:
        pair.build_indexes(rows)
    else:
        for row in rows:
            pair.build_index(row)
    pair.check()
    assert pair.service.query_offset("T", "a").phy_offsets == [51, 50, 50]


def test_unique_key_then_keys_then_tags(index):
    """Corners 66 and 67."""
    pair = Pair(index, hash_slot_num=1)
    pair.build_index(request(5, "b  a ", uniq_key="U", tags="t x"))
    pair.check()
    assert [pair.model.files[0].item(n)[0] for n in range(1, 5)] == [
        reference.key_hash(key) for key in ("T#U", "T#b", "T#a", "T#T#t x")
    ]


def test_columns_of_messages_that_differ_in_length_are_refused():
    row, offset = ["T"], np.zeros(1, np.int64)
    for columns in [
        ([], None, None, None, offset, np.zeros(1, np.int32)),
        (row, row * 2, None, None, offset, np.zeros(1, np.int32)),
        (row, None, None, None, offset, np.zeros(0, np.int32)),
    ]:
        with pytest.raises(ValueError, match="rows"):
            index_items(*columns, 0, True)


@pytest.mark.parametrize("batch", [False, True])
def test_keys_of_one_message_straddle_files(batch, index):
    pair = Pair(index, index_num=4)
    row = request(77, "a b c d e f g h", uniq_key="U", tags="t")
    (pair.build_indexes if batch else pair.build_index)([row] if batch else row)
    pair.check()
    assert [len(file) for file in pair.service.files] == [3, 3, 3, 1]


@pytest.mark.parametrize("batch", [False, True])
def test_a_file_exactly_full_gets_its_successor_with_the_next_message(batch, index):
    pair = Pair(index, index_num=4)
    first, second = request(5, "a b c", store_timestamp=10**12), request(6)
    if batch:
        pair.build_indexes([first])
        pair.check()
        assert len(pair.names()) == 1
        pair.build_indexes([second])
    else:
        pair.build_index(first)
        pair.check()
        assert len(pair.names()) == 1
        pair.build_index(second)
    pair.check()
    assert tuple(pair.service.files[1].header) == (10**12, 10**12, 5, 5, 0, 1)


def test_an_old_message_makes_the_successor_of_a_full_file_too(index):
    pair = Pair(index, index_num=4)
    pair.build_indexes([request(5, "a b c"), request(4, "a")])
    pair.check()
    assert [len(file) for file in pair.service.files] == [3, 0]


def test_files_made_in_one_millisecond_have_names_of_their_own(index):
    """Corner 79."""
    pair = Pair(index, index_num=2)
    pair.build_indexes([request(n, "k") for n in range(60)])
    pair.check()
    assert len(set(pair.names())) == 60


@pytest.mark.parametrize("name", ["3", "99999999999999999"])
def test_a_newest_file_whose_name_none_can_follow_is_read_and_not_added_to(name, index):
    pair = Pair(index, index_num=4)
    pair.build_index(request(1, "k"))
    pair.service.close()
    next(index.iterdir()).rename(index / name)
    for mode in ("r+", "a"):
        with pytest.raises(CorruptFileError, match=rf"/{name}: file name .* by its time"):
            IndexService.open(index, mode, **pair.options)
    with IndexService.open(index, **pair.options) as reader:
        assert len(reader.query_offset("T", "k").phy_offsets) == 1


def check_queries(pair, rng, keys):
    times = [time for file in pair.model.files for time in (file.begin_timestamp, file.end_timestamp)]
    bounds = [(0, LONG_MAX), (-(2**63), LONG_MAX), (LONG_MAX, 0)]
    bounds += [
        (rng.choice(times) + rng.choice([-1, 0, 1, 1000]), rng.choice(times) + rng.choice([-1000, 0, 1]))
        for _ in range(6)
    ]
    for (begin, end), max_num in itertools.product(bounds, rng.sample([0, 1, 2, 32, 63, 64, 65, 1000], 3)):
        limits = {"max_num": max_num, "begin_timestamp": begin, "end_timestamp": end}
        for index_type in (None, "K", "U", "T"):
            expected = [pair.model.query_offset("T", key, max_num, begin, end, index_type) for key in keys]
            got = [pair.service.query_offset("T", key, **limits, index_type=index_type) for key in keys]
            assert [
                (g.phy_offsets, g.index_last_update_timestamp, g.index_last_update_phy_offset) for g in got
            ] == expected
            batch = pair.service.query_offsets("T", keys, **limits, index_type=index_type)
            assert batch.to_pylist() == [phy_offsets for phy_offsets, _, _ in expected]


@pytest.mark.parametrize("case", range(8))
def test_every_query_answers_as_the_reference(case, seed, index):
    """Corner 71."""
    rng = random.Random(f"{seed}/query/{case}")
    pair = Pair(index)
    pair.build_indexes(draw_requests(rng, 100))
    check_queries(pair, rng, ["a", "b", "主题", "T#x", "x", "Tag A", "absent", "", "key-3"])
    pair.reopen("r")
    check_queries(pair, rng, ["a", "x", "absent"])


def test_a_query_gives_at_most_64_and_a_negative_limit_is_an_error(index):
    """Corner 69."""
    pair = Pair(index)
    pair.build_indexes([request(n, "a") for n in range(100)])
    assert pair.service.query_offset("T", "a", 1000).phy_offsets == list(range(99, 35, -1))
    assert pair.service.query_offset("T", "a").phy_offsets == list(range(99, 35, -1))
    assert pair.service.query_offsets("T", ["a"]).to_pylist() == [list(range(99, 35, -1))]
    for call in (
        lambda: pair.service.query_offset("T", "a", -1),
        lambda: pair.service.query_offsets("T", ["a"], max_num=-1),
    ):
        with pytest.raises(ValueError, match="max_num"):
            call()


def test_tags_share_the_name_space_of_keys(index):
    """Corner 67."""
    pair = Pair(index)
    pair.build_index(request(5, tags="x"))
    assert pair.service.query_offset("T", "T#x").phy_offsets == [5]
    assert pair.service.query_offset("T", "x", index_type="T").phy_offsets == [5]
    assert pair.service.query_offset("T", "x").phy_offsets == []


@pytest.mark.parametrize("row", range(4))
def test_a_batch_with_one_bad_message_is_refused_whole(row, index):
    pair = Pair(index)
    pair.build_indexes([request(0, "a")])
    rows = [request(n + 1, "b") for n in range(4)]
    rows[row].phy_offset = -1
    with pytest.raises(ValueError, match="phy_offset"):
        pair.service.build_indexes(columns(rows))
    with pytest.raises(ValueError, match="phy_offset"):
        pair.service.build_index(rows[row])
    pair.check()


def test_columns_that_are_missing_or_of_other_lengths_are_refused(index):
    pair = Pair(index)
    pair.build_indexes([request(0, "a")])
    good = columns([request(1, "b"), request(2, "c")])
    for name in ("topic", "phy_offset", "store_timestamp"):
        with pytest.raises((ValueError, KeyError), match=name):
            pair.service.build_indexes({key: column for key, column in good.items() if key != name})
    for name in COLUMNS:
        with pytest.raises(ValueError, match=r"rows|shape"):
            pair.service.build_indexes({**good, name: good[name][:1]})
    with pytest.raises(ValueError, match="topic"):
        pair.service.build_indexes({**good, "topic": ["T", None]})
    pair.check()


def test_a_service_in_mode_r_plus_adds_to_what_exists(index):
    with pytest.raises(FileNotFoundError):
        IndexService.open(index, "r+")
    pair = rolled(index)
    pair.reopen("r+")
    pair.build_indexes([request(n, "a b", store_timestamp=10**12 + 60_000 * n) for n in range(4, 8)])
    pair.check()
    pair.service.flush()


def test_a_service_in_mode_r_builds_nothing(index):
    pair = Pair(index)
    pair.build_indexes([request(0, "a")])
    pair.reopen("r")
    for call in (
        lambda: pair.service.build_index(request(1, "b")),
        lambda: pair.service.build_indexes(columns([request(1, "b")])),
        lambda: pair.service.delete_expired_file(100),
    ):
        with pytest.raises((ValueError, OSError), match=r"reading|mode"):
            call()
    pair.check()


@pytest.mark.parametrize("number", range(9))
def test_expiry_deletes_leading_files_and_never_the_last(number, index):
    """Corner 78."""
    pair = Pair(index, index_num=4)
    pair.build_indexes([request(10 * n, "a b") for n in range(10)])
    ends = [file.end_phy_offset for file in pair.model.files]
    min_phy_offset = [
        0,
        ends[0],
        ends[0] + 1,
        ends[1],
        ends[2] + 1,
        ends[-2],
        ends[-2] + 1,
        ends[-1] + 1,
        LONG_MAX,
    ][number]
    pair.service.delete_expired_file(min_phy_offset)
    pair.model.delete_expired_file(min_phy_offset)
    pair.check()
    assert pair.service.query_offset("T", "a").phy_offsets == pair.model.query_offset("T", "a", 64)[0]


def rolled(index):
    """Three full files and one that is not, a minute apart."""
    pair = Pair(index, index_num=4)
    pair.build_indexes([request(n, "a b c" if n < 3 else "a", store_timestamp=10**12 + 60_000 * n) for n in range(4)])
    assert len(pair.names()) == 4
    return pair


@pytest.mark.parametrize("kept", range(5))
def test_after_an_unclean_exit_files_newer_than_the_checkpoint_are_deleted(kept, index, tmp_path):
    """Corner 76."""
    pair = rolled(index)
    checkpoint = StoreCheckpoint(tmp_path / "checkpoint")
    checkpoint.index_msg_timestamp = 10**12 + 60_000 * (kept - 1)
    names = pair.names()
    pair.reopen("r", last_exit_ok=False, checkpoint=checkpoint)
    assert [path.name for path in pair.service.rejected] == names[kept:]
    pair.check()
    assert len(pair.service.query_offset("T", "a").phy_offsets) == 4

    pair.reopen("a", last_exit_ok=False, checkpoint=checkpoint)
    rejected = pair.model.load_after_unclean_exit(checkpoint.index_msg_timestamp)
    assert [names[n] for n in rejected] == names[kept:]
    assert pair.names() == names[:kept]
    pair.check()
    pair.build_index(request(50, "new"))
    pair.check()


def test_after_an_unclean_exit_with_a_checkpoint_that_says_nothing_no_file_is_left(index):
    pair = rolled(index)
    pair.reopen("a", last_exit_ok=False, checkpoint=StoreCheckpoint())
    assert pair.names() == []


def test_an_unclean_exit_without_a_checkpoint_is_refused_and_no_file_is_deleted(index):
    pair = rolled(index)
    names = pair.names()
    with pytest.raises(ValueError, match="a checkpoint is needed"):
        pair.reopen("a", last_exit_ok=False)
    assert pair.names() == names


@pytest.mark.parametrize(("topic", "key"), [("T", None), ("T", 7), ("T", b"a"), (None, "a")])
def test_a_value_that_is_no_text_is_no_topic_and_no_key(index, topic, key):
    with pytest.raises(TypeError, match="a str was expected"):
        rolled(index).service.query_offset(topic, key)


def test_a_clean_exit_keeps_every_file(index, tmp_path):
    """Corner 77."""
    pair = rolled(index)
    pair.reopen("a", last_exit_ok=True, checkpoint=StoreCheckpoint(tmp_path / "checkpoint"))
    assert list(pair.service.rejected) == []
    pair.build_index(request(50, "new"))
    pair.check()


def test_a_full_file_moves_the_checkpoint_when_its_successor_is_made(index, tmp_path):
    """Corner 76."""
    path = tmp_path / "checkpoint"
    checkpoint = StoreCheckpoint(path)
    service = IndexService.open(index, "a", hash_slot_num=SLOTS, index_num=4, checkpoint=checkpoint)
    service.build_index(request(5, "a b c", store_timestamp=10**12))
    assert checkpoint.index_msg_timestamp == 0
    service.build_index(request(6, "a b c", store_timestamp=10**12 + 1))
    service.flush()
    assert checkpoint.index_msg_timestamp == 10**12
    service.close()
    assert checkpoint.index_msg_timestamp == 10**12
    assert path.read_bytes() == reference.checkpoint_bytes(index_msg_timestamp=10**12)


def test_a_full_file_that_is_not_on_the_disk_keeps_the_checkpoint_before_it(index, monkeypatch):
    checkpoint, first, real = StoreCheckpoint(), [], IndexFile.flush

    def flush(file):
        first[:] = first or [file.path]
        if file.path == first[0]:
            raise OSError(errno.EIO, "planted")
        real(file)

    monkeypatch.setattr(IndexFile, "flush", flush)
    service = IndexService.open(index, "a", hash_slot_num=SLOTS, index_num=4, checkpoint=checkpoint)
    for number in range(3):
        service.build_index(request(number, "a b c", store_timestamp=10**12 + number))
    with pytest.raises(OSError, match="planted"):
        service.close()
    assert checkpoint.index_msg_timestamp == 0


def test_a_file_whose_name_is_not_on_the_disk_is_made_again_and_not_left(index, monkeypatch):
    failures, real = [OSError(errno.EIO, "planted")], index_writer.sync_path

    def sync_path(path, held):
        if failures:
            raise failures.pop()
        real(path, held)

    monkeypatch.setattr(index_writer, "sync_path", sync_path)
    monkeypatch.setattr(index_writer, "CREATE_RETRY_SECONDS", 0)
    with IndexService.open(index, "a", hash_slot_num=SLOTS, index_num=4) as service:
        service.build_index(request(1, "a"))
        assert [file.path for file in service.files] == list(index.iterdir())


def test_names_that_are_no_numbers_are_skipped_when_loading(index):
    """Corner 74."""
    pair = rolled(index)
    (index / "notes.txt").write_text("mine")
    pair.reopen("r")
    assert len(pair.service.files) == 4
    assert (index / "notes.txt").read_text() == "mine"


def test_a_reader_passes_over_a_newest_file_of_length_0(index):
    """It is being made, or was when its writer was killed; an older one is damaged."""
    pair, name = rolled(index), "29990101000000000"
    expected = pair.service.query_offset("T", "a", 64).phy_offsets
    pair.service.close()
    (index / name).touch()
    for options in (pair.options, {}):
        with IndexService.open(index, **options) as reader:
            assert len(reader.files) == 4
            assert reader.query_offset("T", "a", 64).phy_offsets == expected
    with pytest.raises((StoreError, ValueError), match=name):
        IndexService.open(index, "a", **pair.options)
    assert (index / name).read_bytes() == b""
    (index / "20200101000000000").touch()
    with pytest.raises(CorruptFileError, match="20200101000000000"):
        IndexService.open(index, **pair.options)


def test_a_file_that_cannot_be_read_fails_the_load(index):
    """Corner 74."""
    pair = rolled(index)
    pair.service.close()
    (index / "20200101000000000").write_bytes(b"short")
    for mode in ("r", "a"):
        with pytest.raises((StoreError, ValueError), match="20200101000000000"):
            IndexService.open(index, mode, **pair.options)
    assert (index / "20200101000000000").read_bytes() == b"short"


def test_a_checkpoint_has_its_six_longs_at_their_places(tmp_path):
    path = tmp_path / "checkpoint"
    checkpoint = StoreCheckpoint.open(path)
    assert not path.exists()
    values = {name: 10**12 + n for n, name in enumerate(CHECKPOINT_FIELDS)}
    for name, value in values.items():
        setattr(checkpoint, name, value)
    checkpoint.flush()
    assert path.read_bytes() == reference.checkpoint_bytes(**values)
    again = StoreCheckpoint.open(path)
    assert {name: getattr(again, name) for name in CHECKPOINT_FIELDS} == values


def test_a_missing_checkpoint_is_all_zeros(tmp_path):
    checkpoint = StoreCheckpoint.open(tmp_path / "checkpoint")
    assert [getattr(checkpoint, name) for name in CHECKPOINT_FIELDS] == [0] * 6
    checkpoint.flush()
    assert (tmp_path / "checkpoint").read_bytes() == bytes(4096)


def test_a_checkpoint_of_an_older_release_has_zeros_for_the_newer_numbers(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(reference.checkpoint_bytes(1, 2, 3))
    checkpoint = StoreCheckpoint.open(path)
    assert [getattr(checkpoint, name) for name in CHECKPOINT_FIELDS] == [1, 2, 3, 0, 0, 0]


def test_what_stands_behind_the_numbers_of_a_checkpoint_is_kept(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(reference.checkpoint_bytes(1, 2, 3)[:48] + b"\x07" * 4048)
    StoreCheckpoint.open(path).flush()
    assert path.read_bytes() == reference.checkpoint_bytes(1, 2, 3)[:48] + b"\x07" * 4048


def test_numbers_that_a_cut_checkpoint_lacks_are_zeros(tmp_path):
    path = tmp_path / "checkpoint"
    data = reference.checkpoint_bytes(1 << 56, 2 << 56, 3 << 56)
    for length in range(1, 48):
        path.write_bytes(data[:length])
        point = StoreCheckpoint.open(path)
        found = point.physic_msg_timestamp, point.logics_msg_timestamp, point.index_msg_timestamp
        assert found == tuple(number << 56 if 8 * number - 8 < length else 0 for number in (1, 2, 3))
        assert path.read_bytes() == data[:length]


def test_an_empty_checkpoint_which_a_loss_of_power_leaves_is_all_zeros(tmp_path):
    (tmp_path / "checkpoint").touch()
    assert StoreCheckpoint.open(tmp_path / "checkpoint") == StoreCheckpoint(tmp_path / "checkpoint")

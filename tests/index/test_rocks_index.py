"""The index in RocksDB: the store of a real broker without its index files, and small databases made row by row."""

import shutil
import struct
import sys

import pytest
from support import brokers
from support.rocks import make_rocksdb, replace_rocksdb
from support.rocks import rows_of as rows_of_rocksdb

import rocketstore
from rocketstore import CorruptFileError, UnsupportedFormatError
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.index import index_tail
from rocketstore.index.rocks_index import RocksIndex
from rocketstore.kernels.keys import hash_keys

HOUR = 3_600_000
T0 = 472_222 * HOUR


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The store of a broker that wrote both indexes, without the index files."""
    unpacked = brokers.unpack("rocksdb-index", tmp_path_factory.mktemp("rocks"))
    shutil.rmtree(unpacked / "index")
    return unpacked


def assert_keys_lead_to_messages(store):
    """Each key leads to the messages that the Java client found by it."""
    for words, places in brokers.truth("rocksdb-index")["keys"].items():
        topic, _, key = words.partition(" ")
        found = store.query_message(topic, key)
        got = [(one.topic, one.queue_id, one.queue_offset, one.phy_offset) for one in found.messages]
        assert sorted(got) == sorted(map(tuple, places))
        assert found.complete


def test_keys_lead_to_the_messages_that_a_query_found(root):
    with rocketstore.open(root) as store:
        assert_keys_lead_to_messages(store)


def test_unique_keys_and_tags_lead_to_messages(root):
    rows = [row for row in brokers.rows("rocksdb-index", "Plain").values() if row["properties"].get("TAGS")]
    with rocketstore.open(root) as store:
        for row in rows[:5]:
            (message,) = store.query_message_by_unique_key("Plain", row["properties"]["UNIQ_KEY"]).messages
            assert message.phy_offset == row["phyOffset"]
        tag = rows[0]["properties"]["TAGS"]
        expected = sorted((row["phyOffset"] for row in rows if row["properties"]["TAGS"] == tag), reverse=True)
        found = store.query_message_by_tag("Plain", tag, limit=1000)
        assert [message.phy_offset for message in found.messages] == expected
        assert [message.phy_offset for message in store.query_message_by_tag("Plain", tag, 3).messages] == expected[:3]


def test_many_keys_are_found_at_once(root):
    keys = [f"b-{number}" for number in range(0, 300, 7)] + ["nothing"]
    with rocketstore.open(root) as store:
        found = store.query_messages("Plain", keys)
        assert [[message.keys for message in batch] for batch in found] == [*([[key]] for key in keys[:-1]), []]
        by_topic = store.query_messages(["Plain", "Orders", "Orders"], ["b-7", "b-7", "tc-0"])
        assert [len(batch) for batch in by_topic] == [1, 0, 1]


@pytest.fixture
def cut_root(root, tmp_path):
    """The store as a live broker leaves it: entries of the last messages are only in its memory."""
    copy = shutil.copytree(root, tmp_path / "copy")
    families = rows_of_rocksdb(root / "rocksdbstore")
    last = 83_330
    kept = {key: value for key, value in families["default"].items() if struct.unpack(">q", key[-8:])[0] <= last}
    kept = {key: value for key, value in kept.items() if not key.startswith(b"last")}
    with rocketstore.open(root) as store:
        offsets = [offset for batch in store.scan() for offset in batch.phy_offset.tolist()]
    kept[b"lastOffsetPy"] = struct.pack(">q", max(offset for offset in offsets if offset <= last))
    kept[b"lastStoreTimeStamp"] = families["default"][b"lastStoreTimeStamp"]
    replace_rocksdb(copy / "rocksdbstore", {**families, "default": kept})
    return copy


def test_messages_behind_the_last_entry_are_found_in_the_log(cut_root):
    with rocketstore.open(cut_root) as store:
        assert_keys_lead_to_messages(store)
        rows = [*brokers.rows("rocksdb-index", "Plain").values()]
        tagged = [row for row in rows if row["properties"].get("TAGS") == "Tag4"]
        assert len(store.query_message_by_tag("Plain", "Tag4", 1000)) == len(tagged)
        last = max(rows, key=lambda row: row["phyOffset"])
        assert (
            store.query_message_by_unique_key("Plain", last["properties"]["UNIQ_KEY"])[0].phy_offset
            == last["phyOffset"]
        )


def test_messages_behind_an_entry_that_is_far_behind_make_the_answer_incomplete(cut_root, monkeypatch):
    monkeypatch.setattr(index_tail, "MOST", 1000)
    with rocketstore.open(cut_root) as store:
        found = store.query_message("Plain", "b-299")
        assert not found
        assert not found.complete


def test_without_rocksdict_the_error_names_the_extra(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with rocketstore.open(root) as store, pytest.raises(UnsupportedFormatError, match=r"rocketstore\[rocksdb\]"):
        store.query_message("Plain", "b-0")


# ---- rows --------------------------------------------------------------------------------------------------


def entry_keys(topic, key, uniq_key, phy_offset, time, kind="K"):
    text = f"@{topic}@U@{uniq_key}@" if kind == "U" else f"@{topic}@{kind}@{key}@{uniq_key}@"
    return [struct.pack(">q", time // HOUR * HOUR) + text.encode() + struct.pack(">q", phy_offset)]


def rows_of(*entries):
    rows = {}
    for topic, key, uniq_key, phy_offset, time in entries:
        for kind in ("K", "U"):
            (row,) = entry_keys(topic, key, uniq_key, phy_offset, time, kind)
            rows[row] = struct.pack(">q", time)
    return rows | {b"lastOffsetPy": struct.pack(">q", 900), b"lastStoreTimeStamp": struct.pack(">q", T0)}


def offsets_of(index, topic, keys, index_type=None, **options):
    hashes = hash_keys(keys, topic=topic)
    (part,) = index.parts_for_keys(hashes, [topic.encode()], [key.encode() for key in keys], index_type)
    return part.select_phy_offsets_by_hash(hashes, **options).to_pylist()


ENTRIES = [
    ("T", "a", "u1", 100, T0),
    ("T", "a", "u2", 300, T0 + HOUR),
    ("T", "a", "u3", 200, T0 + HOUR + 1),
    ("T", "a@b", "u4", 400, T0 + 50 * HOUR),
    ("T", "b", "a", 500, T0 + 50 * HOUR),
    ("U", "a", "u@6", 900, T0 + 50 * HOUR + 5),
    ("T", "键😀", "u7", 800, T0 + 50 * HOUR),
]


@pytest.fixture
def index(tmp_path):
    with RocksIndex(
        RocksDatabase(make_rocksdb(tmp_path / "rocksdbstore", {"default": rows_of(*ENTRIES)})), None
    ) as opened:
        yield opened


def test_offsets_are_newest_first_and_candidates_have_the_key_as_a_word(index):
    assert offsets_of(index, "T", ["a", "a@b", "b", "键😀", "none"]) == [
        [500, 400, 300, 200, 100],
        [400],
        [500],
        [800],
        [],
    ]
    assert offsets_of(index, "U", ["a", "u@6"]) == [[900], [900]]
    assert offsets_of(index, "T", ["u1", "a"], "U") == [[100], [500]]
    assert offsets_of(index, "T", ["a"], max_num=2) == [[500, 400]]


def test_times_bound_the_offsets(index):
    times = {"begin_timestamp": T0 + HOUR, "end_timestamp": T0 + HOUR}
    assert offsets_of(index, "T", ["a"], **times) == [[300]]
    assert offsets_of(index, "T", ["a"], begin_timestamp=T0 + HOUR + 1) == [[500, 400, 200]]


def test_the_span_is_from_the_first_hour_to_the_last_offset(index):
    (part,) = index.files
    assert part.span == (100, 900)
    assert index.files.find(part.path.name).path == part.path
    assert next(reversed(index.files)).path == part.path


def test_a_database_without_entries_has_no_span(tmp_path):
    for number, rows in enumerate(({}, rows_of())):
        path = make_rocksdb(tmp_path / f"rocks{number}", {"default": rows})
        with RocksIndex(RocksDatabase(path), None) as index:
            (part,) = index.files
            assert part.span is None
            assert offsets_of(index, "T", ["a"]) == [[]]


@pytest.mark.parametrize(
    "row", [b"\0" * 8, b"\0" * 8 + b"T@K" + bytes(8), struct.pack(">q", T0) + b"@T@K@a@u1@" + bytes(8)]
)
def test_a_row_that_cannot_be_is_an_error(tmp_path, row):
    path = make_rocksdb(tmp_path / "rocks", {"default": rows_of() | {row: b"short"}})
    with RocksIndex(RocksDatabase(path), None) as index, pytest.raises(CorruptFileError) as caught:
        offsets_of(index, "T", ["a"])
    assert caught.value.path == path

"""Reads of a stopped store use kept views of index and queues: same answers, and every change is noticed."""

import os
import shutil
import time

import numpy as np
import pytest
from support import stores
from support.repetitions import only_some_quick

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.query.coverage import Coverage
from rocketstore.query.get_message import QueueView
from rocketstore.store import stamped_values

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no queue of topic")
CONFIG = StoreConfig.small()


def age(root, timestamp=1_700_000_000):
    """Make all files and directories of a store old enough, so that their times show any later change."""
    for path in (root, *root.rglob("*")):
        os.utime(path, (timestamp, timestamp))


def make(root, n=30):
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.put_messages([Message("T", f"body {i}", keys=[f"k{i}"], tags="a", queue_id=i % 2) for i in range(n)])
    age(root)


@pytest.fixture
def root(tmp_path):
    make(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def made(monkeypatch):
    """Record each view of the index and of a queue that is made."""
    calls = []
    monkeypatch.setattr(stamped_values, "MAX_AGE", 1 << 60)
    look, of_queue = Coverage.look, QueueView.of_queue
    monkeypatch.setattr(Coverage, "look", lambda *args: calls.append("index") or look(*args))
    monkeypatch.setattr(QueueView, "of_queue", lambda *args: calls.append("queue") or of_queue(*args))
    return calls


def query(store, key):
    return [(message.queue_id, message.body) for message in store.query_message("T", key)]


def test_the_second_query_and_read_make_no_view(root, made):
    with rocketstore.open(root) as store:
        for i in (3, 4, 5):
            assert query(store, f"k{i}") == [(i % 2, f"body {i}".encode())]
        assert query(store, "nothing") == []
        assert made == ["index"]
        for i in (0, 5, 14):
            found = store.get_message("T", 1, i, 1)
            assert (found.status, found.next_begin_offset) == ("FOUND", i + 1)
            assert (found.min_offset, found.max_offset) == (0, 15)
            assert [message.body for message in found] == [f"body {2 * i + 1}".encode()]
        assert [message.queue_offset for message in store.get_message("T", 1, 13, 5)] == [13, 14]
        for place in (15, 16, -1):
            assert not store.get_message("T", 1, place, 1)
        assert made == ["index", "queue"]


def test_an_answer_of_a_kept_view_has_the_same_messages_and_columns(root, made):
    with rocketstore.open(root) as store, rocketstore.open(root) as other:
        for _ in range(2):
            found, got = store.query_message("T", "k7"), store.get_message("T", 1, 3, 2)
        assert made == ["index", "queue"]
        expected = other.query_messages("T", ["k7"])[0]
        assert list(found) == list(found.messages) == list(expected)
        assert found.messages.names == expected.names
        assert list(got) == list(got.messages) == list(other.get_message("T", 1, 3, 32))[:2]
        assert found[:1][0] == found[0]


@pytest.mark.parametrize(
    "name", only_some_quick(["basic-5.5.0", "rich-5.5.0", "batch-5.5.0", "cut-5.5.0"], "batch-5.5.0", "cut-5.5.0")
)
def test_answers_of_golden_stores_are_the_same_with_kept_views(tmp_path, name, made):
    root = stores.unpack(name, tmp_path)
    (root / "abort").unlink(missing_ok=True)
    age(root)
    twin = shutil.copytree(root, tmp_path / "twin")
    age(twin, timestamp=4_000_000_000)  # a file of the future may change without another time: no view is kept
    with rocketstore.open(root) as with_cache, rocketstore.open(twin) as without_cache:
        for row in stores.queries(name):
            asked = row["topic"], row["key"], row["max"], row["begin"], min(row["end"], 2**62)
            with_cache.query_message(*asked, index_type=row.get("type"))
            made.clear()
            found = with_cache.query_message(*asked, index_type=row.get("type"))
            assert not made
            expected = without_cache.query_message(*asked, index_type=row.get("type"))
            assert [message.phy_offset for message in found] == expected.messages.phy_offset.tolist(), row
            assert list(found) == list(expected)
            assert (found.complete, found.reasons) == (expected.complete, expected.reasons)
        for topic, queue_id in with_cache.queues():
            for place in range(-1, 40):
                for count in (1, 3):
                    for _ in range(2):
                        got = with_cache.get_message(topic, queue_id, place, count)
                    expected = without_cache.get_message(topic, queue_id, place, count)
                    fields = "status", "next_begin_offset", "min_offset", "max_offset"
                    assert [getattr(got, field) for field in fields] == [getattr(expected, field) for field in fields]
                    assert list(got) == list(expected)


# ---- changes -----------------------------------------------------------------------------------------------


def test_messages_that_are_put_later_are_found(root):
    with rocketstore.open(root) as store:
        for _ in range(2):
            assert query(store, "new") == []
            assert not store.get_message("T", 0, 15, 1)
        with rocketstore.open(root, "a") as writer:
            writer.put_message(Message("T", "first", keys="new", queue_id=0))
            assert len(query(writer, "new")) == 1  # it is dispatched now
            assert query(store, "new") == [(0, b"first")]
            assert store.get_message("T", 0, 15, 1)[0].body == b"first"
            writer.put_message(Message("T", "second", keys="new", queue_id=0))
            assert len(query(writer, "new")) == 2
            assert query(store, "new") == [(0, b"second"), (0, b"first")]
        assert query(store, "new") == [(0, b"second"), (0, b"first")]
        assert len(store.get_message("T", 0, 15, 5)) == 2


def test_a_store_that_was_written_and_aged_again_is_read_anew(root):
    """A session of a writer changes the root directory, even if all times of the files are set back."""
    with rocketstore.open(root) as store:
        for _ in range(2):
            assert query(store, "new") == []
        with rocketstore.open(root, "a") as writer:
            writer.put_message(Message("T", "x", keys="new", queue_id=0))
        age(root)
        time.sleep(1.1)  # as long as a cached state is used
        assert query(store, "new") == [(0, b"x")]


def test_an_index_that_is_lost_or_replaced_is_noticed(root, tmp_path):
    with rocketstore.open(root) as store:
        for _ in range(2):
            assert store.query_message("T", "k1").complete
        (root / "index").rename(tmp_path / "moved")
        found = store.query_message("T", "k1")
        assert (list(found), found.complete) == ([], False)
        (tmp_path / "moved").rename(root / "index")
        assert query(store, "k1") == [(1, b"body 1")]


def test_an_index_file_that_is_cut_is_an_error(root):
    with rocketstore.open(root) as store:
        for _ in range(2):
            assert query(store, "k1")
        (file,) = (root / "index").iterdir()
        os.truncate(file, 100)
        with pytest.raises(rocketstore.StoreError):
            store.query_message("T", "k1")


def test_a_record_that_is_damaged_is_no_answer(root):
    with rocketstore.open(root) as store:
        for _ in range(2):
            (message,) = store.query_message("T", "k9")
            assert store.get_message("T", 1, 4, 1)
        (file,) = (root / "commitlog").iterdir()
        with file.open("r+b") as stream:
            stream.seek(message.phy_offset + 4)
            stream.write(b"\0\0\0\0")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        found = store.query_message("T", "k9")
        assert (list(found), found.complete) == ([], False)
        assert not store.get_message("T", 1, 4, 1)


def test_a_queue_that_is_deleted_is_noticed(root):
    with rocketstore.open(root) as store:
        for _ in range(2):
            assert store.get_message("T", 1, 4, 1)
        shutil.rmtree(root / "consumequeue/T/1")
        assert store.get_message("T", 1, 4, 1).status == "NO_MATCHED_LOGIC_QUEUE"


def test_a_closed_store_raises(root):
    with rocketstore.open(root) as store:
        for _ in range(2):
            store.query_message("T", "k1")
            store.get_message("T", 1, 4, 1)
    for call in (lambda: store.query_message("T", "k1"), lambda: store.get_message("T", 1, 4, 1)):
        with pytest.raises(rocketstore.StoreClosedError):
            call()


def test_many_messages_of_a_key_and_hash_collisions_are_found_too(tmp_path, made):
    root = tmp_path / "many"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.put_messages([Message("T", str(i), keys=["same"], queue_id=0) for i in range(20)])
        store.put_messages([Message("T", key, keys=[key], queue_id=0) for key in ("AaAa", "BBBB")])  # one hash
    age(root)
    with rocketstore.open(root) as store:
        for _ in range(2):
            assert [message.body for message in store.query_message("T", "same")][:2] == [b"19", b"18"]
            assert [message.body for message in store.query_message("T", "same", 3)] == [b"19", b"18", b"17"]
            assert [message.body for message in store.query_message("T", "AaAa")] == [b"AaAa"]
    assert made == ["index"]


def test_wrong_arguments_are_refused_with_and_without_kept_views(root):
    with rocketstore.open(root) as store:
        for _ in range(2):
            store.query_message("T", "k1")
            store.get_message("T", 1, 4, 1)
            for options in ({"limit": -1}, {"index_type": "X"}, {"max_scan": 0}):
                with pytest.raises(ValueError, match=next(iter(options))):
                    store.query_message("T", "k1", **options)
            with pytest.raises(ValueError, match="limits"):
                store.get_message("T", 1, 4, 1, limits="x")
            with pytest.raises(ValueError, match="negative"):
                store.get_message("T", 1, 4, -1)
            with pytest.raises((TypeError, ValueError)):
                store.query_message("T", 5)
            with pytest.raises((TypeError, ValueError)):
                store.query_message()
        assert np.int64(store.get_message("T", 1, np.int64(4), np.int64(1)).next_begin_offset) == 5

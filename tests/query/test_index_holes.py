"""Messages within the range of an index file that lack items are reported."""

import shutil
from dataclasses import replace

import pytest
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.index.index_service import IndexService
from rocketstore.query import index_holes

CONFIG = StoreConfig(**SMALL, allocate_file_ahead=False)


@pytest.fixture(params=[index_holes.MAX_COMPARED, 0], ids=("compared", "sampled"))
def small_samples(request, monkeypatch):
    """Compare all messages, or samples as of a large part of the log."""
    monkeypatch.setattr(index_holes, "MAX_COMPARED", request.param)
    monkeypatch.setattr(index_holes, "SAMPLE", 1000)
    monkeypatch.setattr(index_holes, "SAMPLES", 40)


def put_tagged(root, numbers, **settings):
    with rocketstore.open(root, "a", config=replace(CONFIG, **settings)) as store:
        store.put_messages([Message("Orders", b"x", keys=[f"k{n}"], tags="A") for n in numbers])


@pytest.mark.usefixtures("small_samples")
def test_tags_that_an_older_release_did_not_index_are_reported(tmp_path):
    root = tmp_path / "store"
    for numbers, compat in ((range(20), "5.5.1"), (range(20, 40), "5.3.3"), (range(40, 60), "5.5.1")):
        put_tagged(root, numbers, compat=compat)
    with rocketstore.open(root) as store:
        found = store.query_message_by_tag("Orders", "A", limit=100)
        assert (len(found), found.complete) == (40, False)
        assert "messages with tags between the offsets" in found.reasons[0]
        assert store.query_message("Orders", "k25").complete


def make_hole(root, count, *indexed):
    """Make a store whose index has only some messages. Parameters: indexed: slices of messages."""
    put_tagged(root, range(count))
    with rocketstore.open(root) as store:
        messages = next(iter(store.scan()))
    shutil.rmtree(root / "index")
    with IndexService.open(root / "index", "a", hash_slot_num=100, index_num=400) as index:
        for rows in indexed:
            index.build_indexes(messages[rows])
    return root


def test_keys_that_were_not_indexed_for_a_while_are_reported(tmp_path):
    root = make_hole(tmp_path / "store", 60, slice(0, 20), slice(40, 60))
    with rocketstore.open(root) as store:
        messages = next(iter(store.scan()))
        first, last = messages.phy_offset[20], messages.phy_offset[39]
        for _ in range(2):
            found = store.query_message("Orders", "k25")
            assert (len(found), found.complete) == (0, False)
            assert found.reasons == [f"messages with keys between the offsets {first} and {last} are not indexed"]


@pytest.mark.usefixtures("small_samples")
def test_a_hole_of_keys_is_found_by_samples_too(tmp_path):
    root = make_hole(tmp_path / "store", 100, slice(0, 30), slice(70, 100))
    with rocketstore.open(root) as store:
        found = store.query_message("Orders", "k50")
        assert (len(found), found.complete) == (0, False)


@pytest.mark.usefixtures("small_samples")
def test_an_index_without_holes_is_complete(tmp_path):
    root = tmp_path / "store"
    for numbers in (range(300), range(300, 700)):
        put_tagged(root, numbers)
    with rocketstore.open(root) as store:
        assert len(store.index.files) > 2
        assert store.query_message("Orders", "k500").complete
        assert store.query_message_by_tag("Orders", "A").complete


def test_messages_that_are_put_after_a_query_are_compared_too(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for n in range(5):
            store.put_message(Message("Orders", b"x", keys=[f"k{n}"], tags="A"))
            found = store.query_message("Orders", f"k{n}")
            assert (len(found), found.complete) == (1, True)

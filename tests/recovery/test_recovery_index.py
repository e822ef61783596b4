"""Recovery of the index: which items are kept, and which are put again."""

import dataclasses
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from reference.commit_log import CommitLog, read_files
from reference.index_file import IndexFile
from reference.message_store import build_index, make_store
from support import damages
from support.recovered import (
    CONFIG,
    CQ_FILE,
    FILE,
    ITEMS,
    SLOTS,
    assert_complete,
    complete_store_of,
    empty,
    some_messages,
    zeros,
)

import rocketstore
from rocketstore import CorruptFileError, Message, StoreCheckpoint, recover
from rocketstore.recovery.complete import complete_store
from rocketstore.survey.survey import survey_store


def test_an_index_that_lost_a_sector_is_cut_before_it(store, seed):
    rng = random.Random(seed)
    root = store()
    path = max((root / "index").iterdir())
    count = IndexFile(SLOTS, ITEMS, data=path.read_bytes()).index_count
    data = bytearray(path.read_bytes())
    sector = rng.randrange(512, 40 + 4 * SLOTS + 20 * count) // 512 * 512
    data[sector : sector + 512] = bytes(512)
    path.write_bytes(data)
    damages.unclean(root, None)
    actions = recover(root, config=CONFIG).actions
    assert any(action.path == path and action.what in ("cut", "delete") for action in actions)
    assert_complete(root)


def test_an_item_whose_hash_was_at_the_end_of_a_lost_sector_is_put_again(store):
    """The first item of its slot: without the hash it is one of slot 0, and also leads nowhere."""
    root = store()
    path = max((root / "index").iterdir())
    data, file = bytearray(path.read_bytes()), IndexFile(SLOTS, ITEMS, data=path.read_bytes())
    ordinal = next(n for n in range(2, file.index_count) if file.item(n)[3] == 0)
    place = 40 + 4 * SLOTS + 20 * ordinal
    data[place : place + 4] = bytes(4)
    path.write_bytes(data)
    damages.unclean(root, None)
    recover(root, config=CONFIG)
    assert_complete(root)


def test_an_index_that_lost_the_sector_of_its_header_is_put_again(store):
    root = store()
    path = max((root / "index").iterdir())
    path.write_bytes(bytes(512) + path.read_bytes()[512:])
    damages.unclean(root, None)
    assert [action.what for action in recover(root, config=CONFIG).actions] == ["delete", "dispatch"]
    assert recover(root, config=CONFIG).actions == ()
    assert_complete(root)


def test_items_of_lost_records_behind_a_lost_header_are_gone(store):
    """Of an index the first sectors did not come to the disk, of the log the last records."""
    root = store()
    path = max((root / "index").iterdir())
    path.write_bytes(bytes(512) + path.read_bytes()[512:])
    start, position, _ = damages.records(root)[-5]
    damages.zero_log_from(root, start, position)
    damages.unclean(root, None)
    recover(root, config=CONFIG)
    assert_complete(root)


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("change", [{24: b"\1"}, {36: bytes(4)}, {36: b"\0\0\0\5"}], ids=("end", "none", "fewer"))
def test_an_index_whose_header_does_not_know_its_items_is_put_again_after_a_clean_stop(store, change, complete):
    root = store()
    path = max((root / "index").iterdir())
    data = bytearray(path.read_bytes())
    for place, value in change.items():
        data[place : place + len(value)] = value
    path.write_bytes(data)
    assert complete(root, config=CONFIG).actions
    assert_complete(root)


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_the_index_is_not_continued_at_an_item_that_leads_to_no_record(store, complete):
    root = store()
    path = max((root / "index").iterdir())
    data, file = bytearray(path.read_bytes()), IndexFile(SLOTS, ITEMS, data=path.read_bytes())
    place = 40 + 4 * SLOTS + 20 * (file.index_count - 3)
    (phy_offset,) = struct.unpack_from(">q", data, place + 4)
    struct.pack_into(">q", data, place + 4, phy_offset + 1)
    data[place + 20 :] = bytes(len(data) - place - 20)
    path.write_bytes(data)
    damages.unclean(root, None)
    complete(root, config=CONFIG)
    assert_complete(root)


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("part", [512, None], ids=("header", "all"))
def test_an_index_file_between_others_that_never_came_to_the_disk_is_put_again(tmp_path, seed, part, complete):
    root = tmp_path / "store"
    root.mkdir()
    rows = some_messages(random.Random(seed), 45)
    make_store(root, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=40)
    config = dataclasses.replace(CONFIG, max_index_num=40)
    path = sorted((root / "index").iterdir())[1]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[part:].rjust(size, b"\0") if part else bytes(size))
    damages.unclean(root, None)
    assert complete(root, config=config).actions
    index = build_index(CommitLog(read_files(root / "commitlog")), SLOTS, 40)
    wanted = [file.item(ordinal)[:2] for file in index.files for ordinal in range(1, file.index_count)]
    files = [IndexFile(SLOTS, 40, data=path.read_bytes()) for path in sorted((root / "index").iterdir())]
    assert [file.item(ordinal)[:2] for file in files for ordinal in range(1, file.index_count)] == wanted


def test_an_index_file_that_is_not_full_is_not_trusted_for_a_time_that_an_older_one_was_flushed_with(store):
    root = store()
    path = max((root / "index").iterdir())
    data = bytearray(path.read_bytes())
    file = IndexFile(SLOTS, ITEMS, data=bytes(data))
    last = 40 + 4 * SLOTS + 20 * (file.index_count - 1)
    data[last : last + 20] = bytes(20)  # it never came to the disk
    path.write_bytes(data)
    checkpoint = StoreCheckpoint.open(root / "checkpoint")
    (checkpoint.index_msg_timestamp,) = struct.unpack_from(">q", data, 8)
    checkpoint.flush()
    damages.unclean(root, None)
    complete_store(survey_store(root, CONFIG), CONFIG)
    assert_complete(root)


def test_an_index_whose_slots_are_old_is_repaired(store):
    root = store()
    path = max((root / "index").iterdir())
    data = bytearray(path.read_bytes())
    data[40 : 40 + 4 * SLOTS] = bytes(4 * SLOTS)
    path.write_bytes(data)
    damages.unclean(root, None)
    recover(root, config=CONFIG)
    log = CommitLog(read_files(root / "commitlog"))
    assert path.read_bytes() == bytes(build_index(log, SLOTS, ITEMS).files[-1].data)


@pytest.mark.parametrize("name", ["2000", "2099"])
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("is_enabled", [True, False])
def test_an_index_file_that_never_got_its_length_is_deleted(store, is_enabled, mode, name):
    root = store()
    empty = root / "index" / f"{name}0101000000000"
    empty.touch()
    mode(root, None)
    with rocketstore.open(root, "a", config=dataclasses.replace(CONFIG, message_index_enable=is_enabled)):
        assert not empty.exists()
    assert_complete(root)


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_items_of_a_last_record_that_is_another_now_are_put_again(store, complete):
    """Its unique key ends otherwise, as if the end of the record had not come to the disk."""
    root = store()
    start, position, size = damages.records(root)[-1]
    damages.zero_log_from(root, start, position + size - 1)
    assert "cut" in [action.what for action in complete(root, config=CONFIG).actions]
    assert_complete(root)


def indexed_store(root, count=20):
    """A store with several index files, at whose ends are messages that have one key in each of two files."""
    config = dataclasses.replace(CONFIG, mapped_file_size_commit_log=1 << 16, max_hash_slot_num=3, max_index_num=10)
    with rocketstore.open(root, "a", config=config) as store:
        for i in range(count):
            store.put_message(Message("A", b"", keys=[f"k{i}", f"m{i}"], queue_id=0))
    return root


def index_contents(root):
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("number", [0, 1, 3, -1])
@pytest.mark.parametrize("lose", [zeros, Path.unlink], ids=("zeros", "missing"))
def test_an_index_file_that_is_lost_anywhere_is_built_again_by_recover(tmp_path, mode, number, lose):
    root = indexed_store(tmp_path / "store")
    expected = index_contents(root)
    lose(sorted((root / "index").iterdir())[number])
    mode(root, None)
    recover(root)
    assert index_contents(root) == expected
    assert recover(root).actions == ()


@pytest.mark.parametrize("count", [4, 5, 6, 9, 20])
@pytest.mark.parametrize("lose", [zeros, empty, Path.unlink], ids=("zeros", "empty", "missing"))
def test_an_index_whose_newest_file_is_lost_continues_where_it_ends_now(tmp_path, count, lose):
    """With the rest of a message's keys, too."""
    root = indexed_store(tmp_path / "store", count)
    expected = index_contents(root)
    lose(max((root / "index").iterdir()))
    with rocketstore.open(root, "a") as store:
        assert index_contents(root)[: len(expected)] == expected
        found = store.query_messages("A", [f"{name}{i}" for i in range(count) for name in "km"])
    assert (np.diff(found.offsets).tolist(), found.complete.all()) == ([1] * 2 * count, True)


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("keys", [[], ["k"]])
def test_an_index_whose_last_record_has_expired_is_whole(tmp_path, keys, complete):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.put_message(Message("A", b"", keys=keys, queue_id=0))
        store.put_messages([Message("A", bytes(500), queue_id=0)] * 20)
        assert store.delete_expired_files(before_phy_offset=8192).min_phy_offset == 8192
    assert complete(root, config=CONFIG).actions == ()


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_damage_behind_the_last_record_with_a_key_is_no_matter_of_opening(tmp_path, complete):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.put_message(Message("A", b"", keys="k", queue_id=0))
        store.put_messages([Message("A", bytes(500), queue_id=0)] * 40)
    start, position, _ = damages.records(root)[2]
    damages.change_log(root, start, position + 4, bytes(4))
    if complete is recover:
        with pytest.raises(CorruptFileError, match="salvage"):
            recover(root, config=CONFIG)
    else:
        assert complete(root, config=CONFIG).actions == ()


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_an_index_of_a_release_without_items_of_tags_is_not_built_again(tmp_path, complete):
    root = tmp_path / "store"
    config = dataclasses.replace(CONFIG, max_hash_slot_num=3, max_index_num=10)
    with rocketstore.open(root, "a", config=dataclasses.replace(config, compat="5.3")) as store:
        for i in range(60):
            keys = [f"k{i}"] if i % 3 == 1 else []
            store.put_message(Message("A", b"", tags="t", keys=keys, queue_id=0))
        store.put_message(Message("A", b"", keys="last", queue_id=0))
    assert len(index_contents(root)) > 2
    assert complete(root, config=config).actions == ()

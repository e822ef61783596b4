"""Stores of StoreConfig.small(), and stores of other sizes that are opened with it."""

import contextlib
import json
import os
import shutil
from dataclasses import replace

import pytest

import rocketstore
from rocketstore import Message, PutMessageError, StoreConfig
from rocketstore.config import DEFAULT_SIZES, SMALL_SIZES
from rocketstore.survey.survey import survey_store

LOG, QUEUE, SLOTS, ITEMS = (
    "mapped_file_size_commit_log",
    "mapped_file_size_consume_queue",
    "max_hash_slot_num",
    "max_index_num",
)
OTHERS = {
    "as a broker's": DEFAULT_SIZES,
    "of older small stores": {LOG: 64 << 20},
    "with several log files": {LOG: 1 << 12},
    "with other queue files": {QUEUE: 400},
    "with another index": {SLOTS: 97, ITEMS: 400},
}
SIZES_WITHOUT_LOG = {name: size for name, size in SMALL_SIZES.items() if name != LOG}
OTHER = pytest.mark.parametrize("sizes", OTHERS.values(), ids=OTHERS)


def put(root, config, numbers=range(60)):
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages([Message("T", b"%d" % n, keys=[f"k{n}"], queue_id=0) for n in numbers])
        return store.config


def make(root, **sizes):
    """Make a store that has some sizes of a broker, or others."""
    put(root, StoreConfig(**SMALL_SIZES | sizes, allocate_file_ahead=False))


def make_without_settings(root, **sizes):
    """Make a store as a broker leaves it."""
    make(root, **sizes)
    (root / "config" / "rocketstore.json").unlink()


def file_lengths(root):
    return {path: path.stat().st_size for part in ("commitlog", "consumequeue", "index") for path in files(root / part)}


def files(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file())


def saved_settings(root):
    return json.loads((root / "config" / "rocketstore.json").read_text())


@OTHER
@pytest.mark.parametrize("left", ["settings", "no settings"])
def test_small_opens_a_store_with_the_sizes_it_has(sizes, left, tmp_path):
    make(tmp_path, **sizes)
    if left == "no settings" and SLOTS not in sizes:  # as a broker leaves it
        (tmp_path / "config" / "rocketstore.json").unlink()
    before = file_lengths(tmp_path)
    with rocketstore.open(tmp_path, config=StoreConfig.small()) as store:
        assert len(store.query_message("T", "k7").messages) == 1
        assert sum(map(len, store.scan())) == 60
    is_assumed = left == "no settings" and sizes == OTHERS["of older small stores"]
    with pytest.warns(UserWarning, match="is assumed") if is_assumed else contextlib.nullcontext():
        used = put(tmp_path, StoreConfig.small(), range(60, 120))
    assert {name: getattr(used, name) for name in SMALL_SIZES} == SMALL_SIZES | sizes
    assert before.items() <= file_lengths(tmp_path).items()
    with rocketstore.open(tmp_path) as store:
        found = store.query_messages("T", [f"k{n}" for n in range(120)])
        assert [len(batch) for batch in found] == [1] * 120
    assert rocketstore.verify(tmp_path, config=StoreConfig.small()).ok


@OTHER
def test_a_store_opened_with_small_names_the_sizes_it_keeps(sizes, tmp_path):
    make(tmp_path, **sizes)
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        (note,) = store.summary().notes
        assert note in repr(store)
    kept = {name: size for name, size in sizes.items() if size != SMALL_SIZES[name]}
    for name, size in kept.items():
        assert f"{name}={size}" in note
    assert note.count("=") == len(kept)


def test_a_store_of_the_small_sizes_needs_no_note(tmp_path):
    for _ in range(2):
        with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
            assert store.summary().notes == []
    with rocketstore.open(tmp_path, "a", config=replace(StoreConfig.small(), flush_disk_type="SYNC_FLUSH")) as store:
        assert store.opening_notes == ()


def test_the_sizes_of_small_may_be_left_to_it(tmp_path):
    used = put(tmp_path, StoreConfig(small_if_new=True, max_index_num=1000))
    assert {name: getattr(used, name) for name in SMALL_SIZES} == SMALL_SIZES | {ITEMS: 1000}
    assert not used.small_if_new  # all sizes are known


@pytest.mark.parametrize(("name", "size"), [(LOG, 2 << 20), (QUEUE, 4000), (ITEMS, 1000)])
def test_a_size_in_place_of_that_of_small_must_be_that_of_the_store(name, size, tmp_path):
    make(tmp_path)
    before = file_lengths(tmp_path)
    for config in (replace(StoreConfig.small(), **{name: size}), StoreConfig(**{name: size})):
        with pytest.raises(ValueError, match=f"{name}.*; a configuration without {name} opens the store with the siz"):
            rocketstore.open(tmp_path, "a", config=config)
    assert file_lengths(tmp_path) == before


def test_sizes_by_a_brokers_file_are_those_of_the_broker(tmp_path):
    make(tmp_path / "store")
    (tmp_path / "broker.conf").touch()
    with pytest.raises(ValueError, match="1073741824 by the given size, 1048576 by") as refused:
        rocketstore.open(tmp_path / "store", "a", config=StoreConfig.from_broker_conf(tmp_path / "broker.conf"))
    assert "a configuration without" not in str(refused.value)


@pytest.mark.parametrize(("lost", "names"), [("index", [SLOTS, ITEMS]), ("consumequeue", [QUEUE])])
def test_sizes_that_no_file_shows_are_not_those_of_small(lost, names, tmp_path):
    """A broker with other sizes would not read what is written with them."""
    make_without_settings(tmp_path)
    shutil.rmtree(tmp_path / lost)
    with pytest.raises(ValueError, match=rf"{names[0]}.*small\(\) are for a new store: pass config=") as refused:
        rocketstore.open(tmp_path, "a", config=StoreConfig.small())
    assert [*refused.value.settings] == names
    put(tmp_path, StoreConfig(**SMALL_SIZES), range(60, 61))
    assert rocketstore.verify(tmp_path).ok


def test_an_index_of_neither_brokers_nor_small_sizes_must_be_given(tmp_path):
    make_without_settings(tmp_path, **{SLOTS: 97, ITEMS: 400})
    with pytest.raises(ValueError, match=rf"pass config=StoreConfig\({SLOTS}=97, {ITEMS}=400\)$"):
        rocketstore.open(tmp_path, "a", config=StoreConfig.small())
    put(tmp_path, replace(StoreConfig.small(), **{SLOTS: 97, ITEMS: 400}), range(60, 120))
    assert rocketstore.verify(tmp_path).ok


# ---- the only file of a log ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1000, 4096, 5000, 1_000_000, 1 << 20], ids="{:,}".format)
@pytest.mark.parametrize("config", [None, StoreConfig.small()], ids=["None", "small()"])
def test_a_log_file_that_may_be_cut_off_shows_no_size(length, config, tmp_path):
    make_without_settings(tmp_path, **{LOG: 64 << 20})
    with rocketstore.open(tmp_path, "a", config=replace(StoreConfig.small(), **{LOG: 64 << 20})) as store:
        store.put_messages([Message("T", os.urandom(50_000), queue_id=0)] * 30)
    (tmp_path / "config" / "rocketstore.json").unlink()
    (file,) = files(tmp_path / "commitlog")
    os.truncate(file, length)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=f"{LOG}: give it: .*{length}, may be .* cut off.*: pass config=") as refused:
        rocketstore.open(tmp_path, "a", config=config)
    assert LOG in refused.value.settings
    assert file.read_bytes() == before


def test_a_log_file_that_was_cut_off_is_continued_with_a_given_size(tmp_path):
    make_without_settings(tmp_path, **{LOG: 64 << 20})
    (file,) = files(tmp_path / "commitlog")
    os.truncate(file, 1000)
    with rocketstore.open(tmp_path) as store:
        count = sum(map(len, store.scan()))
    put(tmp_path, replace(StoreConfig.small(), **{LOG: 64 << 20}), range(60, 120))
    assert file.stat().st_size == 64 << 20
    with rocketstore.open(tmp_path) as store:
        assert sum(map(len, store.scan())) == count + 60
    assert rocketstore.verify(tmp_path).ok


def test_a_size_that_a_cut_off_file_may_show_is_assumed_and_not_saved(tmp_path):
    make_without_settings(tmp_path, **{LOG: 2 << 20})
    (file,) = files(tmp_path / "commitlog")
    os.truncate(file, 1 << 19)
    expected = f"mappedFileSizeCommitLog={1 << 19} is assumed: {file} is the only file"
    with pytest.warns(UserWarning, match=expected):
        report = rocketstore.recover(tmp_path, dry_run=True, config=StoreConfig.small())
    assert report.assumptions[0].startswith(expected)
    with pytest.warns(UserWarning, match=expected):
        store = rocketstore.open(tmp_path, "a", config=StoreConfig.small())
    with store:
        note = store.opening_notes[-1]
        assert note.startswith(expected)
        assert note in repr(store)
        assert note in store.summary().notes
    assert LOG not in saved_settings(tmp_path)
    put(tmp_path, replace(StoreConfig.small(), **{LOG: 1 << 19}), range(60, 120))  # the user states it
    put(tmp_path, StoreConfig.small(), range(120, 180))
    assert rocketstore.verify(tmp_path).ok


def test_a_size_is_no_assumption_when_the_log_has_two_files(tmp_path):
    make_without_settings(tmp_path, **{LOG: 1 << 19})
    with pytest.warns(UserWarning, match="is assumed"):
        store = rocketstore.open(tmp_path, "a", config=StoreConfig.small())
    with store:
        store.put_messages([Message("T", bytes(1 << 16), queue_id=0)] * 10)
    with rocketstore.open(tmp_path, "a") as store:
        assert store.opening_notes == ()


@pytest.mark.parametrize("policy", ["complete", "broker"])
def test_a_recovery_names_an_assumed_size_and_does_not_save_it(policy, tmp_path):
    make_without_settings(tmp_path, **{LOG: 1 << 19})
    given = StoreConfig(**SIZES_WITHOUT_LOG, compat="5.5.1")
    with pytest.warns(UserWarning, match="is assumed"):
        report = rocketstore.recover(tmp_path, policy=policy, config=given)
    assert report.assumptions[0].startswith(f"mappedFileSizeCommitLog={1 << 19} is assumed: ")
    assert LOG not in saved_settings(tmp_path)


def test_a_recovery_saves_the_size_that_two_log_files_show(tmp_path):
    make_without_settings(tmp_path, **{LOG: 1 << 19})
    with rocketstore.open(tmp_path, "a", config=replace(StoreConfig.small(), **{LOG: 1 << 19})) as store:
        store.put_messages([Message("T", bytes(1 << 16), queue_id=0)] * 10)
    (tmp_path / "config" / "rocketstore.json").unlink()
    assert rocketstore.recover(tmp_path, config=StoreConfig(**SIZES_WITHOUT_LOG)).assumptions == ()
    assert saved_settings(tmp_path)[LOG] == 1 << 19


def test_a_rebuild_does_not_save_an_assumed_size(tmp_path):
    make_without_settings(tmp_path, **{LOG: 1 << 19})
    rocketstore.rebuild(tmp_path, config=StoreConfig(**SIZES_WITHOUT_LOG))
    saved = saved_settings(tmp_path)
    assert LOG not in saved
    assert saved.items() >= SIZES_WITHOUT_LOG.items()


def test_an_opening_says_that_the_log_was_shortened_after_a_clean_stop(tmp_path):
    make(tmp_path)
    with rocketstore.open(tmp_path) as store:
        end = store.commit_log.max_phy_offset
    (file,) = files(tmp_path / "commitlog")
    os.truncate(file, end // 2)
    expected = f"units led to messages up to byte {end}, but the log ends at byte "
    assert any(note.startswith(expected) for note in rocketstore.recover(tmp_path, dry_run=True).notes)
    with rocketstore.open(tmp_path, "a") as store:
        (note,) = store.opening_notes
        assert note.startswith(expected)
        assert note in repr(store)
    with rocketstore.open(tmp_path, "a") as store:
        assert store.opening_notes == ()


@pytest.mark.parametrize("room", [8, 9, 60])
def test_a_full_log_file_shows_its_size(room, tmp_path):
    """It ends in a blank."""
    config = StoreConfig(**SMALL_SIZES | {LOG: 1 << 12}, allocate_file_ahead=False)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        rest = (1 << 12) - store.put_message(Message("T", b"", queue_id=0)).size
        length = store.put_message(Message("T", bytes(rest - room - 200), queue_id=0)).size
        store.put_message(Message("T", bytes(rest - length - room - 92), queue_id=0))
        assert store.commit_log.max_phy_offset == (1 << 12) - room
        store.put_message(Message("T", bytes(room), queue_id=0))
    (tmp_path / "config" / "rocketstore.json").unlink()
    first, second = files(tmp_path / "commitlog")
    second.unlink()
    assert survey_store(tmp_path).sizes.known[LOG] == (first.stat().st_size, "files") == (1 << 12, "files")


def test_a_message_that_does_not_fit_a_small_log_file_is_refused(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        store.put_message(Message("T", bytes((1 << 20) - 100)))
        with pytest.raises(PutMessageError, match="fit a file of 1048576: a store whose mapped_file_size_commit_log"):
            store.put_message(Message("T", bytes(1 << 20)))


def test_small_tells_the_geometry_of_an_index_of_few_items(tmp_path):
    """Several geometries agree with it."""
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        store.put_message(Message("T", b"", keys=["k"]))
    (tmp_path / "config" / "rocketstore.json").unlink()
    with rocketstore.open(tmp_path, config=StoreConfig.small()) as store:
        assert len(store.query_message("T", "k").messages) == 1
    assert rocketstore.verify(tmp_path, config=StoreConfig.small()).ok

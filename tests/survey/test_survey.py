"""A survey is one value about a directory, and its cost does not depend on the number of queues."""

import os
import shutil
from dataclasses import FrozenInstanceError, replace

import pytest
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig, StoreError
from rocketstore.config import DEFAULT_SIZES
from rocketstore.log.log_end import StoreState
from rocketstore.rebuild.rebuild import Rebuilder
from rocketstore.recovery import recover as recover_module
from rocketstore.recovery.apply import apply_plan
from rocketstore.recovery.plan import plan_recovery
from rocketstore.recovery.store_files import open_store_files
from rocketstore.survey.condition import find_store_state
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.sizes import SizeSource
from rocketstore.survey.survey import survey_store

CONFIG = StoreConfig(**SMALL)


def make(root, queues=1):
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for i in range(queues):
            store.put_message(Message(f"T{i}", b"body", keys=[f"key-{i}"]))
    return root


# ---- what it says --------------------------------------------------------------------------------------------


def test_a_missing_or_empty_directory_is_a_new_store(tmp_path):
    for root in (tmp_path, tmp_path / "missing"):
        found = survey_store(root)
        assert not found.has_store
        assert found.problems == found.notes == []
        assert found.find_sized_config().mapped_file_size_commit_log == DEFAULT_SIZES["mapped_file_size_commit_log"]
    assert found.identity is None
    assert not found.root.exists()


def test_directories_of_other_programs_are_no_parts_of_a_store(tmp_path):
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "main.html").touch()
    (tmp_path / "dledger-src" / "docs").mkdir(parents=True)
    (tmp_path / "dledger-notes.txt").touch()
    assert not survey_store(tmp_path).has_store
    with pytest.raises(StoreError, match="no store is here"):
        rocketstore.open(tmp_path)
    (tmp_path / "index" / "20231114221320000").touch()
    assert survey_store(tmp_path).has_store


def test_queues_are_a_store_also_if_the_system_refuses_the_path_of_the_log(tmp_path):
    make(tmp_path)
    assert survey_store(tmp_path, StoreConfig(store_path_commit_log=str(tmp_path / ("x" * 300)))).has_store


def test_a_store_beside_a_directory_named_like_dledgers_has_its_own_log(tmp_path):
    root = make(tmp_path / "store")
    (root / "dledger-src").mkdir()
    (root / "dledger-src" / "README").touch()
    assert not survey_store(root).formats.is_dledger
    with rocketstore.open(root) as store:
        assert store.scan().count() == 1
    (root / "dledger-src" / "currterm").touch()
    assert survey_store(root).formats.is_dledger


def test_the_state_is_found_again_each_time(tmp_path):
    places = survey_store(make(tmp_path / "store")).places
    assert find_store_state(places.abort, places.lock) == StoreState.STOPPED
    with rocketstore.open(places.root, "r+"):
        assert find_store_state(places.abort, places.lock) == StoreState.RUNNING
    places.abort.touch()
    assert find_store_state(places.abort, places.lock) == StoreState.CRASHED


def test_a_survey_does_not_change(tmp_path):
    with pytest.raises(FrozenInstanceError):
        survey_store(tmp_path).given = CONFIG


def test_each_size_names_its_source(tmp_path):
    root = make(tmp_path / "store")
    saved = {name: size.source for name, size in survey_store(root).sizes.known.items()}
    assert set(saved.values()) == {SizeSource.SAVED}
    given = survey_store(root, StoreConfig(max_index_num=400)).sizes
    assert given.known["max_index_num"] == (400, SizeSource.GIVEN)
    assert given.known["max_hash_slot_num"] == (97, SizeSource.SAVED)
    survey_store(root).places.saved_settings.unlink()
    shown = survey_store(root, StoreConfig(max_index_num=400, max_hash_slot_num=97)).sizes.known
    assert shown["mapped_file_size_commit_log"] == (65536, SizeSource.FILES)
    assert shown["mapped_file_size_consume_queue"] == (2000, SizeSource.FILES)


def test_one_error_names_all_sizes_that_contradict_the_files(tmp_path):
    root = make(tmp_path / "store")
    wrong = StoreConfig(mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=4000)
    with pytest.raises(ValueError, match=r"commit_log: 4096 by .*; mapped_file_size_consume_queue: 4000 by ") as caught:
        survey_store(root, wrong).find_sized_config()
    assert caught.value.settings == ("mapped_file_size_commit_log", "mapped_file_size_consume_queue")


def test_one_error_has_the_candidates_of_unknown_sizes(tmp_path):
    root = make(tmp_path / "store")
    survey_store(root).places.saved_settings.unlink()
    shutil.rmtree(survey_store(root).places.index)
    found = survey_store(root)
    with pytest.raises(ValueError, match="no file shows max_hash_slot_num, max_index_num"):
        found.find_sized_config()
    config, notes = found.assume_sized_config()
    assert config.max_index_num == DEFAULT_SIZES["max_index_num"]
    assert "max_hash_slot_num" in notes[0]


# ---- what it costs -------------------------------------------------------------------------------------------


def requests_of(root):
    """The number of requests of a survey and of the parts that list no queues, by their kinds."""
    from support.remote import counted

    path = counted(root)
    found = survey_store(path)
    assert found.has_store
    assert not found.formats.is_dledger
    assert find_store_state(found.places.abort, found.places.lock) == StoreState.STOPPED
    return len(path.fs.lists), len(path.fs.reads)


def test_the_cost_does_not_depend_on_the_number_of_queues(tmp_path):
    pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    few = requests_of(make(tmp_path / "few"))
    assert requests_of(make(tmp_path / "many", 50)) == few
    assert few[0] <= 5
    assert few[1] <= 1


def test_a_local_survey_lists_no_topic(tmp_path, monkeypatch):
    root = make(tmp_path / "store", 3)
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path=".": listed.append(str(path)) or scandir(path))
    found = survey_store(root)
    assert found.formats.is_plain
    assert found.files.index_files
    assert sorted(set(listed)) == [str(root), *(str(root / name) for name in ("commitlog", "config", "index"))]


def test_the_survey_of_a_reader_lists_neither_log_nor_index(tmp_path, monkeypatch):
    root = make(tmp_path / "store")
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path=".": listed.append(str(path)) or scandir(path))
    assert begin_entry("open r", root).files is None
    assert not {str(root / "commitlog"), str(root / "index")} & {*listed}


# ---- plans ---------------------------------------------------------------------------------------------------


def crashed(root):
    """A store whose recovery has something to do, and its plan."""
    make(root)
    survey_store(root).places.abort.touch()
    plan = plan_recovery(open_store_files(survey_store(root), survey_store(root).find_sized_config()))
    plan.store.log.close()
    return plan


def grow_log(places):
    (places.default_log / f"{65536:020}").write_bytes(bytes(65536))


def move_root(places):
    copy = places.root.with_name("copy")
    shutil.copytree(places.root, copy)
    places.root.rename(places.root.with_name("old"))
    copy.rename(places.root)


CHANGES = [
    (grow_log, "the commit log"),
    (move_root, "the root directory"),
    (lambda places: places.checkpoint.write_bytes(bytes(4096)), "the checkpoint"),
    (lambda places: next(places.index.iterdir()).unlink(), "the index"),
]


@pytest.mark.parametrize(("change", "what"), CHANGES)
def test_a_plan_is_not_applied_to_a_store_that_changed(tmp_path, change, what):
    plan = crashed(tmp_path / "store")
    change(plan.store.survey.local_places)
    with pytest.raises(StoreError, match=rf"store: {what} changed after the plan was made"):
        apply_plan(plan)


def test_a_plan_is_applied_to_the_store_that_it_names(tmp_path):
    plan = crashed(tmp_path / "store")
    plan.store.survey.require_unchanged()
    assert replace(plan.store.survey, timestamp=0).root == plan.store.root


def recover_as_broker(root, change, monkeypatch):
    """Recover a store that is changed after the settings were learned from it."""
    learn = recover_module.find_settings

    def learn_then_change(places, config):
        found = learn(places, config)
        change(places)
        return found

    monkeypatch.setattr(recover_module, "find_settings", learn_then_change)
    rocketstore.recover(root, policy="broker")


def rebuild(root, change, monkeypatch):
    """Rebuild a store that is changed while its queues are built."""
    swap = Rebuilder._swap

    def change_then_swap(rebuilder, *args):
        change(rebuilder.places)
        return swap(rebuilder, *args)

    monkeypatch.setattr(Rebuilder, "_swap", change_then_swap)
    rocketstore.rebuild(root)


@pytest.mark.parametrize(("change", "what"), [case for case in CHANGES if case[0] is not move_root])
@pytest.mark.parametrize("repair", [recover_as_broker, rebuild])
def test_a_repair_does_not_change_a_store_that_is_not_as_it_was_planned(tmp_path, monkeypatch, repair, change, what):
    root = make(tmp_path / "store", 3)
    survey_store(root).places.abort.touch()
    with pytest.raises(StoreError, match=rf"store: {what} changed after the plan was made"):
        repair(root, change, monkeypatch)

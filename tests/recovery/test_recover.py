"""A run of recovery: dry runs, kills, stores that need nothing, refused arguments, what is saved."""

import dataclasses
import random
import shutil
import struct

import pytest
from reference.commit_log import CommitLog, read_files
from reference.message_store import make_store
from reference.recovery import CHECKPOINT, CONFIRM, LOGICS, LOGICS_OFFSET
from support import damages, stores
from support.broker_tables import extend_topics
from support.killed import killed_at
from support.recovered import CONFIG, CQ_FILE, FILE, REFUSED, SLOTS, assert_complete, damage, everything, some_messages

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig, StoreError, StoreLockedError, recover
from rocketstore.recovery.complete import complete_store
from rocketstore.state.lock_file import StoreLock
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import save_settings
from rocketstore.survey.survey import survey_store


def test_another_policy_is_refused(store):
    with pytest.raises(ValueError, match="policy='quick'"):
        recover(store(), policy="quick", config=CONFIG)


@pytest.mark.parametrize("policy", ["complete", "broker"])
def test_given_sizes_are_saved_with_the_release_that_was_given(tmp_path, policy):
    config = dataclasses.replace(CONFIG, compat="5.3")
    with rocketstore.open(tmp_path, "a", config=config) as store:
        store.put_message(Message("TopicTest", b"body", queue_id=0))
    saved = tmp_path / "config" / "rocketstore.json"
    before = saved.read_bytes()
    recover(tmp_path, policy=policy, config=config)
    assert saved.read_bytes() == before


def test_the_checkpoint_says_that_all_is_on_the_disk(store):
    root = store()
    damages.zeroed_checkpoint(root, None)
    damages.unclean(root, None)
    recover(root, config=CONFIG)
    fields = CHECKPOINT.unpack_from((root / "checkpoint").read_bytes())
    offset, last = CommitLog(read_files(root / "commitlog")).records[-1]
    assert (fields[LOGICS], fields[CONFIRM], fields[LOGICS_OFFSET]) == (last.store_timestamp, offset, offset)


def test_a_broker_s_store_that_is_refused_for_its_damage_is_as_it_was(store):
    root = store()
    start, position, _ = damages.records(root)[-3]
    damages.change_log(root, start, position + 4, b"none")
    before = everything(root)
    with pytest.raises(CorruptFileError):
        rocketstore.open(root, "a", config=CONFIG)
    assert everything(root) == before


def test_after_a_clean_stop_nothing_is_done(store):
    root = store()
    save_settings(StorePlaces.of(root), CONFIG)
    before = everything(root)
    assert complete_store(survey_store(root, CONFIG), CONFIG).actions == ()
    assert everything(root) == before


@pytest.mark.parametrize("name", [name for name in stores.NAMES if not name.startswith("crash")])
def test_a_store_that_a_broker_stopped_needs_nothing(name, tmp_path):
    settings = {key: value for key, value in stores.settings(name).items() if hasattr(CONFIG, key)}
    config = StoreConfig(**settings, compat=name.rpartition("-")[2])
    root = stores.unpack(name, tmp_path)
    if (root / "batchconsumequeue").exists():  # what made it has no topics.json, which a broker has
        extend_topics(root, {"BatchCqTopic": 1}, {"BatchCqTopic": "BatchCQ"})
    assert recover(root, dry_run=True, config=config).actions == ()


def test_a_store_of_nothing_is_recovered(tmp_path):
    (tmp_path / "commitlog").mkdir()
    assert recover(tmp_path, config=CONFIG).actions == ()
    assert recover(tmp_path, policy="broker", config=CONFIG).actions == []


def test_a_store_that_is_written_is_not_recovered(store):
    root = store()
    lock = StoreLock(root / "lock")
    lock.acquire()
    with pytest.raises(StoreLockedError):
        recover(root, config=CONFIG)
    lock.release()


@pytest.mark.parametrize("policy", ["complete", pytest.param("broker", marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", damages.DAMAGES, ids=lambda what: what.__name__)
def test_a_dry_run_reports_the_actions_and_changes_nothing(store, seed, what, policy):
    root = store()
    (root / "lock").unlink()
    damage(root, random.Random(f"{seed} {what.__name__}"), what, damages.unclean)
    before = everything(root)
    try:
        dry = recover(root, policy=policy, config=CONFIG, dry_run=True)
    except StoreError:
        assert what.__name__ in REFUSED
        return
    assert everything(root) == before
    assert dry.dry_run
    report = recover(root, policy=policy, config=CONFIG)
    assert dataclasses.replace(dry, dry_run=False, actions=list(dry.actions)) == dataclasses.replace(
        report, actions=list(report.actions)
    )


def test_a_dry_run_as_a_broker_leaves_an_older_index_file_whose_last_put_was_torn(tmp_path, seed):
    """Opening it for writing takes the item out of its slot: in a copy."""
    root = tmp_path / "store"
    root.mkdir()
    rows = some_messages(random.Random(seed), 45)
    make_store(root, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=40)
    path = min((root / "index").iterdir())
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 36, struct.unpack_from(">i", data, 36)[0] - 1)
    path.write_bytes(data)
    before = everything(root)
    recover(root, policy="broker", dry_run=True, config=dataclasses.replace(CONFIG, max_index_num=40))
    assert everything(root) == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_a_broker_refuses_is_named_where_it_is(store, dry_run):
    root = store()
    path = root / "batchconsumequeue" / "TopicTest" / "0"
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match=f"^{path}: queue.type"):
        recover(root, policy="broker", config=CONFIG, dry_run=dry_run)


def test_a_dry_run_as_a_broker_copies_no_queues_that_a_rebuild_has_put_aside(store, monkeypatch):
    root, copied = store(), []
    shutil.copytree(root / "consumequeue", root / "consumequeue.bak-20240101T000000")
    real = shutil.copy
    monkeypatch.setattr(shutil, "copy", lambda path, target: (copied.append(path), real(path, target)))
    recover(root, policy="broker", dry_run=True, config=CONFIG)
    assert copied
    assert not any("bak-" in str(path) for path in copied)


KILLED = (
    damages.missing_queues,
    damages.zeroed_queue_file,
    damages.missing_index,
    damages.queues_behind,
    damages.torn_last_unit,
    damages.cut_between_records,
)


@pytest.mark.parametrize(
    "what",
    [damages.noise_instead_of_the_last_record, *(pytest.param(what, marks=pytest.mark.slow) for what in KILLED)],
    ids=lambda what: what.__name__,
)
def test_recovery_that_is_killed_is_done_again(store, tmp_path, seed, what):
    source = store()
    damages.unclean(source, None)
    what(source, random.Random(f"{seed} {what.__name__}"))
    call = 1
    while True:
        root = tmp_path / "killed"
        shutil.copytree(source, root)
        was_killed = killed_at(call, lambda root=root: recover(root, config=CONFIG))
        recover(root, config=CONFIG)
        assert_complete(root)
        shutil.rmtree(root)
        if not was_killed:
            break
        call += 1 + call // 12  # the first ones each, then fewer
    assert call > 8


@pytest.mark.parametrize("policy", ["complete", "broker"])
@pytest.mark.parametrize("name", ["commitlog", "consumequeue/TopicTest/0", "index"])
def test_a_directory_inside_a_store_is_not_mistaken_for_a_store(name, policy, tmp_path):
    root = tmp_path / "store"
    make_store(root, [{"properties": {"KEYS": "k"}}], file_size=FILE, cq_file_size=CQ_FILE)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    with pytest.raises(StoreError, match="no store is here"):
        recover(root / name, policy=policy, config=CONFIG)
    with pytest.raises(StoreError, match="give the root of a store"):
        rocketstore.open(root / name, "a", config=CONFIG)
    assert sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before

"""Policy "broker": a store is left as RocketMQ's broker leaves it after its start."""

import dataclasses
import os
import random

import pytest
from reference.commit_log import CommitLog, read_files
from reference.message_store import build_queues
from reference.recovery import Broker
from support import damages
from support.broker_tables import extend_topics
from support.recovered import CONFIG, CQ_FILE, FILE, SIZES, assert_complete, contents, damage

from rocketstore import StoreError, recover


@pytest.mark.parametrize("release", ["5.5.1", pytest.param("5.3.3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("what", damages.DAMAGES, ids=lambda what: what.__name__)
def test_policy_broker_leaves_what_a_broker_leaves(store, seed, what, mode, release):
    """Corners 43 and 92."""
    ours, theirs = store("ours", release), store("theirs", release)
    for root in (ours, theirs):
        damage(root, random.Random(f"{seed} {what.__name__}"), what, mode)
    config = dataclasses.replace(CONFIG, compat=release)
    if Broker(theirs, SIZES, release).restart():
        report = recover(ours, policy="broker", config=config)
        assert contents(ours) == contents(theirs)
        assert (ours / "checkpoint").read_bytes() == (theirs / "checkpoint").read_bytes()
        assert not (ours / "abort").exists()
        assert report.last_exit_ok == (mode is damages.clean)
    else:
        with pytest.raises(StoreError, match="broker"):
            recover(ours, policy="broker", config=config)


@pytest.mark.parametrize("says", [0, 5, 50_000_000])
@pytest.mark.parametrize("number", [1, 30, -1])
def test_policy_broker_takes_records_for_where_they_say_that_they_are_as_a_broker_does(store, number, says):
    """It indexes no message before the end of the index, and those behind a record that says so are not its last."""
    ours, theirs = store("ours"), store("theirs")
    for root in (ours, theirs):
        start, position, _ = damages.records(root)[number]
        damages.change_log(root, start, position + 28, says.to_bytes(8, "big"))
        for damage_to in (damages.missing_queues, damages.missing_index, damages.unclean):
            damage_to(root, None)
    recover(ours, policy="broker", config=CONFIG)
    assert Broker(theirs, SIZES, "5.5.1").restart()
    assert contents(ours) == contents(theirs)


@pytest.mark.parametrize(("release", "is_the_end"), [("5.3.3", False), ("5.5.0", False), ("5.5.1", True)])
def test_policy_broker_ends_the_log_at_a_blank_of_a_negative_size_from_5_5_1_on(store, release, is_the_end):
    ours, theirs = store("ours", release), store("theirs", release)
    for root in (ours, theirs):
        blank = damages.negative_blank(root)
        damages.unclean(root, None)
        damages.missing_checkpoint(root, None)
        damages.missing_queues(root, None)
    assert Broker(theirs, SIZES, release).restart()
    report = recover(ours, policy="broker", config=dataclasses.replace(CONFIG, compat=release))
    assert (report.max_phy_offset == blank) == is_the_end
    assert contents(ours) == contents(theirs)


def test_policy_broker_looks_at_no_more_files_than_a_broker(store, seed):
    """Corner 96."""
    ours, theirs = store("ours"), store("theirs")
    for root in (ours, theirs):
        damages.missing_queues(root, None)
    config = dataclasses.replace(CONFIG, commit_log_recover_max_num=2)
    recover(ours, policy="broker", config=config)
    Broker(theirs, {**SIZES, "commitLogRecoverMaxNum": 2}, "5.5.1").restart()
    assert contents(ours) == contents(theirs)
    whole = CommitLog(read_files(ours / "commitlog"))
    assert contents(ours) != {
        f"consumequeue/{t}/{q}/{s:020d}": d
        for (t, q), x in build_queues(whole, CQ_FILE).items()
        for s, d in x.files.items()
    }


def test_policy_broker_trusts_the_index_as_message_index_safe_says(store):
    ours, theirs = store("ours"), store("theirs")
    for root in (ours, theirs):
        damages.unclean(root, None)
    recover(ours, policy="broker", config=dataclasses.replace(CONFIG, message_index_safe=True))
    Broker(theirs, {**SIZES, "messageIndexSafe": True}, "5.5.1").restart()
    assert contents(ours) == contents(theirs)


@pytest.mark.parametrize(("name", "release"), [("5.3", "5.3.3"), ("5.5", "5.5.1")])
def test_policy_broker_takes_a_release_without_its_patch_for_the_last_one(store, name, release):
    ours, same = (store(directory, release) for directory in ("ours", "same"))
    for root, compat in ((ours, name), (same, release)):
        damages.unclean(root, None)
        recover(root, policy="broker", config=dataclasses.replace(CONFIG, compat=compat))
    assert contents(ours) == contents(same)


def test_policy_broker_is_known_of_three_releases(store):
    with pytest.raises(ValueError, match=r"5\.4\.0.*5\.3\.3, 5\.5\.0 and 5\.5\.1"):
        recover(store(), policy="broker", config=dataclasses.replace(CONFIG, compat="5.4.0"))


@pytest.mark.parametrize("dry_run", [False, True])
def test_policy_broker_passes_over_what_java_does_not_take_for_a_queue_id(store, dry_run):
    root = store()
    topic = root / "consumequeue" / "TopicTest"
    for name in ("--5", "abc", "99999999999", "\N{MATHEMATICAL BOLD DIGIT ONE}"):
        (topic / name).mkdir()
        (topic / name / f"{0:020}").write_bytes(b"of another length")
    for name in ("notes.txt", "7"):
        (topic / name).write_bytes(b"hello")
    assert not recover(root, policy="broker", config=CONFIG, dry_run=dry_run).actions


@pytest.mark.parametrize("kept", [0, -20, -4000])
def test_policy_broker_makes_a_short_index_file_longer_with_zeros(store, kept):
    root = store()
    path = sorted((root / "index").iterdir())[-1] if kept else root / "index" / "20991231235959999"
    if kept == 0:
        path.touch()
    data = path.read_bytes()
    size = 40 + 4 * CONFIG.max_hash_slot_num + 20 * CONFIG.max_index_num
    os.truncate(path, (len(data) + kept if kept < 0 else kept))
    length = path.stat().st_size
    (step,) = recover(root, policy="broker", config=CONFIG, dry_run=True).actions
    assert step == (path, "extend", length, size - length)
    assert path.stat().st_size == length
    assert step in recover(root, policy="broker", config=CONFIG).actions
    assert path.stat().st_size == size
    assert path.read_bytes()[40:] == data[40:length].ljust(size - 40, b"\0")  # the header counts the next item


@pytest.mark.parametrize("name", ["+7", "007", "\u0667"])
def test_policy_broker_loads_the_usual_directory_of_a_number_that_is_written_otherwise(store, name):
    """Corner 51."""
    root = store()
    topic = root / "consumequeue" / "TopicTest"
    (topic / name).mkdir()
    (topic / name / f"{0:020}").write_bytes(b"of another length")
    assert not recover(root, policy="broker", config=CONFIG).actions
    (topic / "7").mkdir()
    empty = topic / "7" / f"{0:020}"
    empty.touch()
    assert [action.path for action in recover(root, policy="broker", config=CONFIG).actions] == [empty]


def test_policy_broker_refuses_a_topic_of_batches_by_any_name_of_a_queue(store):
    root = store()
    extend_topics(root, {"Batches": 4}, {"Batches": "BatchCQ"})
    (root / "consumequeue" / "Batches" / "abc").mkdir(parents=True)
    recover(root, policy="broker", config=CONFIG)
    (root / "consumequeue" / "Batches" / "007").mkdir()
    with pytest.raises(StoreError, match=r"Batches/007: queue\.type"):
        recover(root, policy="broker", config=CONFIG)


def test_policy_broker_keeps_stray_files_when_it_deletes_all_queues(store):
    root = store()
    damages.missing_log(root, None)
    other = root / "consumequeue" / "TopicTest" / "abc" / f"{0:020}"
    other.parent.mkdir()
    other.write_bytes(b"x")
    recover(root, policy="broker", config=CONFIG)
    assert [path for path in (root / "consumequeue").rglob("*") if path.is_file()] == [other]


def test_policy_broker_keeps_what_it_cuts_off(store, seed):
    """Corner 89."""
    root = store()
    start, position, _ = damages.records(root)[-3]
    damages.change_log(root, start, position + 4, b"\0\0\0\0")
    log = read_files(root / "commitlog")
    report = recover(root, policy="broker", config=CONFIG)
    (saved, *_) = sorted((root / "rocketstore-cut").iterdir(), key=lambda path: path.name[-20:])
    start = report.max_phy_offset // FILE * FILE
    assert saved.name.endswith(f"{report.max_phy_offset:020d}")
    assert saved.read_bytes() == log[start][report.max_phy_offset - start :].rstrip(b"\0")


def test_policy_broker_saves_a_tail_once_though_it_leaves_it_where_it_is(store, seed):
    root = store()
    damages.unclean(root, None)
    damages.noise_instead_of_the_last_record(root, random.Random(seed))
    first = recover(root, policy="broker", config=CONFIG)
    assert "save" in [action.what for action in first.actions]
    saved = list((root / "rocketstore-cut").iterdir())
    for dry_run in (True, False):
        damages.unclean(root, None)
        again = recover(root, policy="broker", config=CONFIG, dry_run=dry_run)
        assert "save" not in [action.what for action in again.actions]
    assert list((root / "rocketstore-cut").iterdir()) == saved


def test_policy_broker_is_a_way_on_after_damage(store, seed):
    """Corner 31."""
    root = store()
    start, position, _ = damages.records(root)[-3]
    damages.change_log(root, start, position + 4, b"\0\0\0\0")
    recover(root, policy="broker", config=CONFIG)
    report = recover(root, config=CONFIG)
    assert report.max_phy_offset == start + position
    assert not any(read_files(root / "commitlog")[start][position:])
    assert_complete(root)

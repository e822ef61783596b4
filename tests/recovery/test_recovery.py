"""recover: a store is left as a broker leaves it, or with all that can be saved of it, whatever happened before."""

import dataclasses
import errno
import functools
import os
import random
import shutil
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from reference import consume_queue as cq
from reference.commit_log import CommitLog, build_record, make_commit_log, read_files
from reference.index_file import IndexFile
from reference.message_store import build_index, build_queues, make_store
from reference.record import INNER_BATCH, PREPARED, ROLLBACK
from reference.recovery import CHECKPOINT, CONFIRM, LOGICS, LOGICS_OFFSET, Broker
from support import damages, stores
from support.broker_tables import extend_topics
from support.killed import killed_at
from support.puts import Pair
from support.rebuilt import broker_config

import rocketstore
from rocketstore import (
    CorruptFileError,
    Message,
    StoreCheckpoint,
    StoreConfig,
    StoreError,
    StoreLockedError,
    rebuild,
    recover,
    verify,
)
from rocketstore.recovery import saved_tails
from rocketstore.recovery.complete import complete_store
from rocketstore.recovery.plan import plan_recovery
from rocketstore.state.lock_file import StoreLock
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import save_settings
from rocketstore.survey.survey import survey_store

FILE, CQ_FILE, SLOTS, ITEMS = 4096, 200, 97, 1000
SIZES = {
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": CQ_FILE,
    "mapperFileSizeBatchConsumeQueue": 460,
    "maxHashSlotNum": SLOTS,
    "maxIndexNum": ITEMS,
}
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE,
    mapped_file_size_consume_queue=CQ_FILE,
    mapper_file_size_batch_consume_queue=460,
    mapped_file_size_consume_queue_ext=4096,
    max_hash_slot_num=SLOTS,
    max_index_num=ITEMS,
)
# What complete recovery refuses, sometimes: bytes that records follow.
REFUSED = ("damaged_body_of_a_record", "damaged_magic_of_a_record", "wrong_size_of_a_record", "missing_log")


def complete_store_of(root, config):
    return complete_store(survey_store(root, config), config)


def messages(rng):
    """So many that several are in the last file of the log."""
    made, end = [], 0
    for message in some_messages(rng, 90):
        size = len(build_record(**message))
        end = end + size if end + size + 8 <= FILE else size  # the room of a blank is kept
        made.append(message)
        if len(made) > 60 and end > FILE // 2:
            break
    return made


def some_messages(rng, count):
    return [
        {
            "topic": rng.choice(("TopicTest", "Orders")),
            "queue_id": rng.randrange(2),
            "body": rng.randbytes(rng.randint(1, 250)),
            "store_timestamp": 1_700_000_000_000 + 5000 * i,
            "properties": {
                "KEYS": " ".join(f"k{rng.randrange(30)}" for _ in range(rng.randint(1, 3))),
                "TAGS": rng.choice(("A", "B")),
                "UNIQ_KEY": f"{i:032X}",
            },
        }
        for i in range(count)
    ]


@functools.cache
def made(directory, seed, release):
    root = directory / f"{seed}-{release}"
    root.mkdir()
    make_store(
        root,
        messages(random.Random(seed)),
        file_size=FILE,
        cq_file_size=CQ_FILE,
        hash_slot_num=SLOTS,
        index_num=ITEMS,
        index_tags=release >= "5.4",
    )
    return root


@pytest.fixture
def store(tmp_path_factory, tmp_path, seed):
    """A function that makes a store, cleanly stopped, of some name."""

    def make(name="store", release="5.5.1"):
        source = made(tmp_path_factory.getbasetemp(), f"recovery {seed}", release)
        return shutil.copytree(source, tmp_path / name)

    return make


def contents(root, *, with_index=True):
    """All files but the state, by name; index files, whose names tell times, by their number."""
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for name in ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext")
        for path in (root / name).rglob("*")
        if path.is_file()
    }
    index = sorted((root / "index").glob("*")) if with_index else []
    return found | {f"index {i}": path.read_bytes() for i, path in enumerate(index)}


def everything(root):
    return {path: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def index_items(root):
    files = [IndexFile(SLOTS, ITEMS, data=path.read_bytes()) for path in sorted((root / "index").glob("*"))]
    return sorted(file.item(ordinal)[:2] for file in files for ordinal in range(1, file.index_count))


def damage(root, rng, what, mode):
    what(root, rng)
    if (root / "checkpoint").exists() and read_files(root / "commitlog"):
        rng.choice(damages.OF_CHECKPOINT)(root, rng)
    mode(root, rng)


def is_blank(data):
    return struct.unpack_from(">iI", data) == (len(data), 0xCBD43194) and not any(data[8:])


def assert_complete(root):
    """The queues and the index are those of the log, and nothing is behind its end."""
    log = CommitLog(read_files(root / "commitlog"))
    expected = {
        f"consumequeue/{topic}/{queue_id}/{start:020d}": bytes(data)
        for (topic, queue_id), queue in build_queues(log, CQ_FILE).items()
        for start, data in queue.files.items()
    }
    found = contents(root, with_index=False)
    assert {name: data for name, data in found.items() if name.startswith("consumequeue/")} == expected
    index = build_index(log, SLOTS, ITEMS)
    assert index_items(root) == sorted(
        file.item(ordinal)[:2] for file in index.files for ordinal in range(1, file.index_count)
    )
    for start, data in log.files.items():
        behind = data[max(log.max_offset - start, 0) :]
        assert start + FILE <= log.max_offset or not any(behind) or is_blank(behind)


# ---- policy "broker" -------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("restore", [functools.partial(recover, policy="broker"), recover, rebuild])
def test_a_message_for_more_queues_whose_record_ends_in_zeros_has_its_units(tmp_path, restore):
    """Just after it was written, it might be half written; but nobody writes now."""
    config = dataclasses.replace(CONFIG, enable_lmq=True, enable_multi_dispatch=True)
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0", "n": "x"}
    make_commit_log(tmp_path / "commitlog", FILE, [{"topic": "TopicTest", "properties": properties}])
    ((start, position, size),) = damages.records(tmp_path)
    damages.change_log(tmp_path, start, position + size - 1, b"\0")  # instead of the last separator
    restore(tmp_path, config=config)
    for topic in ("TopicTest", "%LMQ%a"):
        assert damages.units(tmp_path / "consumequeue" / topic / "0") == [(0, 0, start + position, size)]


LIGHT = {"enable_lmq": True, "enable_multi_dispatch": True}


def light_of_batches(root):
    """A store in which messages of batch queues have offsets in a light queue, and no units."""
    with Pair(root, batch_topics=("Batched",), **LIGHT) as pair:
        for topic in ("Batched", "T", "Batched", "T", "Batched"):
            pair.put(topic=topic, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    return pair.config


@pytest.fixture(params=[damages.missing_queues, damages.queues_behind, damages.unclean], ids=lambda what: what.__name__)
def damaged_light(request, tmp_path):
    """A damaged copy of the store, its configuration, and its messages."""
    config = light_of_batches(tmp_path / "store")
    before = contents(tmp_path / "store")
    request.param(tmp_path / "store", random.Random(5))
    return tmp_path / "store", config, before


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_light_queues_are_completed_without_messages_of_batch_queues(damaged_light, complete):
    root, config, before = damaged_light
    complete(root, config=config)
    assert contents(root) == before


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_policy_broker_leaves_light_queues_as_a_broker_does_that_has_batch_queues(damaged_light, tmp_path, mode):
    root, config, _ = damaged_light
    mode(root, None)
    theirs = shutil.copytree(root, tmp_path / "theirs")
    recover(root, policy="broker", config=config)
    Broker(theirs, broker_config(config), config.compat, ("Batched",)).restart()
    assert contents(root) == contents(theirs)


def test_policy_broker_asks_no_message_of_a_batch_queue_for_offsets_of_light_queues(tmp_path):
    """Of another one, a broker does not start with these."""
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "none"}
    make_commit_log(tmp_path / "commitlog", FILE, [{"topic": "B", "properties": properties}])
    config = dataclasses.replace(CONFIG, **LIGHT)
    with pytest.raises(StoreError, match="INNER_MULTI_QUEUE_OFFSET"):
        recover(tmp_path, policy="broker", config=config)
    extend_topics(tmp_path, {"B": 1}, {"B": "BatchCQ"})
    assert recover(tmp_path, policy="broker", config=config).max_phy_offset > 0
    assert not (tmp_path / "consumequeue" / "%LMQ%a").exists()


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("age", [0, 3600])
def test_a_batch_torn_within_the_number_of_its_messages_is_a_torn_tail(tmp_path, complete, mode, age):
    """No queue can have it, and a broker cuts the log there, whenever that is."""
    batch = {"topic": "B", "sys_flag": INNER_BATCH, "properties": {"INNER_BASE": "0", "KEYS": "k", "INNER_NUM": "12"}}
    make_commit_log(tmp_path / "commitlog", FILE, [{"topic": "TopicTest"}, batch])
    extend_topics(tmp_path, {"B": 1}, {"B": "BatchCQ"})
    (_, _, before), (start, position, size) = damages.records(tmp_path)
    damages.change_log(tmp_path, start, position + size - 2, b"\0\0")
    mode(tmp_path, None)
    written = time.time() - age
    os.utime(tmp_path / "commitlog" / f"{start:020d}", (written, written))
    torn = read_files(tmp_path / "commitlog")[start][position:].rstrip(b"\0")
    assert complete(tmp_path, config=CONFIG).max_phy_offset == before
    (saved,) = (tmp_path / "rocketstore-cut").iterdir()
    assert saved.read_bytes() == torn
    assert damages.units(tmp_path / "consumequeue" / "TopicTest" / "0") == [(0, 0, 0, before)]


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


def test_another_policy_is_refused(store):
    with pytest.raises(ValueError, match="policy='quick'"):
        recover(store(), policy="quick", config=CONFIG)


@pytest.mark.parametrize("policy", ["complete", "broker"])
def test_a_body_that_is_not_its_crc_s_is_kept_where_recovery_does_not_look_at_it(store, policy):
    ends = {}
    for checks in (True, False):
        root = store(f"{policy} {checks}")
        start, position, _ = damages.records(root)[-1]
        first = damages.log_files(root)[start][position + 88]  # byte of the body
        damages.change_log(root, start, position + 88, bytes([first ^ 1]))
        damages.unclean(root, None)
        config = dataclasses.replace(CONFIG, check_crc_on_recover=checks)
        ends[checks] = recover(root, policy=policy, config=config).max_phy_offset
    assert ends[True] == start + position < ends[False]


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


# ---- policy "complete" -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", [pytest.param(damages.clean, marks=pytest.mark.slow), damages.unclean], ids=lambda mode: mode.__name__
)
@pytest.mark.parametrize("what", damages.DAMAGES, ids=lambda what: what.__name__)
def test_queues_and_index_are_completed_from_the_log(store, seed, what, mode):
    """Corners 43, 44 and 76."""
    root = store()
    damage(root, random.Random(f"{seed} {what.__name__}"), what, mode)
    before = everything(root)
    try:
        recover(root, config=CONFIG)
    except StoreError:
        assert what.__name__ in REFUSED
        assert everything(root) == before | {root / "lock": b"lock"}
        return
    assert not (root / "abort").exists()
    assert recover(root, config=CONFIG).actions == ()
    if what is not damages.missing_first_log_files and what.__name__ not in REFUSED:
        assert_complete(root)


def test_a_lone_unit_of_a_last_file_that_leads_to_the_queue_s_first_record_is_not_believed(tmp_path, seed):
    """It is a unit of a record of this queue, and of the same tag, but not in order."""
    root = tmp_path / "store"
    root.mkdir()
    rows = [{**row, "topic": "T", "queue_id": 0} for row in some_messages(random.Random(seed), CQ_FILE // 20 + 1)]
    rows[-1]["properties"]["TAGS"] = rows[0]["properties"]["TAGS"]
    make_store(root, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=ITEMS)
    damages.unit_of_another_record(root, random.Random(seed))
    damages.unclean(root, None)
    assert recover(root, config=CONFIG).actions
    assert recover(root, config=CONFIG).actions == ()
    assert_complete(root)


@pytest.mark.slow
@pytest.mark.parametrize("what", damages.DAMAGES, ids=lambda what: what.__name__)
def test_a_broker_s_next_start_keeps_all_that_was_completed(store, seed, what):
    root = store()
    damage(root, random.Random(f"{seed} {what.__name__}"), what, damages.unclean)
    try:
        end = recover(root, config=CONFIG).max_phy_offset
    except StoreError:
        assert what.__name__ in REFUSED
        return
    before = contents(root)
    for mode in (damages.clean, damages.unclean):
        mode(root, None)
        index = index_items(root)
        assert Broker(root, SIZES, "5.5.1").restart()
        if what.__name__ not in REFUSED:  # whose checkpoint may lead before the damage
            assert {name: data for name, data in contents(root).items() if not name.startswith("index")} == {
                name: data for name, data in before.items() if not name.startswith("index")
            }
            log = CommitLog(read_files(root / "commitlog"))
            assert end == log.max_offset or (end % FILE == 0 and 0 < end - log.max_offset < FILE)  # a blank
        if mode is damages.clean:
            assert index_items(root) == index


def holes_are_unknown(monkeypatch):
    real = os.lseek

    def lseek(fd, position, whence):
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(fd, position, whence)

    monkeypatch.setattr(os, "lseek", lseek)


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


@pytest.mark.parametrize("knows_holes", [True, False])
def test_a_torn_tail_is_saved_and_zeroed(knows_holes, store, seed, monkeypatch):
    """Also on a file system that does not know what a hole is."""
    root = store()
    if not knows_holes:
        holes_are_unknown(monkeypatch)
    start, position, _ = damages.records(root)[-1]
    damages.unclean(root, None)
    damages.noise_instead_of_the_last_record(root, random.Random(seed))
    torn = read_files(root / "commitlog")[start][position:].rstrip(b"\0")
    report = recover(root, config=CONFIG)
    assert report.max_phy_offset == start + position
    (saved,) = (root / "rocketstore-cut").iterdir()
    assert saved.read_bytes() == torn
    assert saved.name.endswith(f"-{start + position:020d}")
    assert not any(read_files(root / "commitlog")[start][position:])
    assert [action.what for action in report.actions][:2] == ["save", "zero"]
    assert_complete(root)


def test_of_a_tail_that_the_disk_has_no_room_for_nothing_is_left(store, seed, monkeypatch):
    root = store()
    damages.noise_instead_of_the_last_record(root, random.Random(seed))
    log = read_files(root / "commitlog")

    def fail(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(saved_tails, "sync", fail)
    with pytest.raises(OSError, match="No space"):
        recover(root, config=CONFIG)
    assert not list((root / "rocketstore-cut").iterdir())
    assert read_files(root / "commitlog") == log


def test_damage_before_sound_records_is_refused_and_says_what_to_do(store, seed):
    """Corners 31 and 89."""
    root = store()
    start, position, _ = damages.records(root)[-3]
    damages.change_log(root, start, position + 4, b"\0\0\0\0")
    before = everything(root)
    with pytest.raises(CorruptFileError, match=r"salvage.*--policy broker") as caught:
        recover(root, config=CONFIG)
    assert (caught.value.path, caught.value.offset) == (root / "commitlog" / f"{start:020d}", position)
    assert everything(root) == before


@pytest.mark.parametrize("checkpoint", [damages.missing_checkpoint, damages.zeroed_checkpoint])
@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_without_a_checkpoint_damage_before_sound_records_is_refused(store, complete, checkpoint):
    """In an earlier file and in the last one."""
    root = store()
    *_, before, last = sorted({start for start, _, _ in damages.records(root)})
    place = {start: position for start, position, _ in damages.records(root)[::-1] if position}
    checkpoint(root, None)
    damages.unclean(root, None)
    torn = shutil.copytree(root, root.with_name("torn"))
    damages.change_log(root, before, place[before] + 4, b"\0\0\0\0")
    files = everything(root)
    with pytest.raises(CorruptFileError, match=r"salvage.*--policy broker") as caught:
        complete(root, config=CONFIG)
    assert (caught.value.path.name, caught.value.offset) == (f"{before:020d}", place[before])
    assert everything(root) == files | {root / "lock": b"lock"}
    damages.change_log(torn, last, place[last] + 4, b"\0\0\0\0")
    with pytest.raises(CorruptFileError, match=r"salvage.*--cut-at-damage.*--policy broker"):
        complete(torn, config=CONFIG)
    report = recover(torn, cut_at_damage=True, config=CONFIG)
    assert report.max_phy_offset == last + place[last]
    lost = [start for start, position, _ in damages.records(root) if start == last and position > place[last]]
    assert sum(row.messages for row in report.lost) == len(lost) > 0


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


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_records_that_a_broker_cut_off_for_a_body_s_crc_do_not_come_back(store, complete):
    root = store()
    start, position, _ = damages.records(root)[-3]
    first = damages.log_files(root)[start][position + 88]  # byte of the body
    damages.change_log(root, start, position + 88, bytes([first ^ 1]))
    assert recover(root, policy="broker", config=CONFIG).max_phy_offset == start + position
    assert complete(root, config=CONFIG).max_phy_offset == start + position
    assert not any(read_files(root / "commitlog")[start][position:])
    assert_complete(root)


@pytest.mark.parametrize("noted", [0, 1])
@pytest.mark.parametrize("position", [4, 88], ids=["magic", "body"])
@pytest.mark.parametrize("compat", ["5.5.1", "5.1.0"])
@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_damage_behind_the_record_that_a_broker_started_from_is_no_cut_of_a_broker(
    tmp_path, complete, compat, position, noted
):
    """It notes the last record when it starts, before 5.1.1 never, and that stays when it stops cleanly."""
    config = dataclasses.replace(CONFIG, compat=compat)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        store.put_messages([Message("TopicTest", b"body", queue_id=0)] * 5)
    (_, before, _), (_, damaged, _) = damages.records(tmp_path)[noted : noted + 2]
    checkpoint = StoreCheckpoint.open(tmp_path / "checkpoint")
    checkpoint.confirm_phy_offset = before
    checkpoint.flush()
    damages.change_log(tmp_path, 0, damaged + position, b"\xff")
    before = read_files(tmp_path / "commitlog")
    with pytest.raises(CorruptFileError, match="magic"):
        complete(tmp_path, config=config)
    assert read_files(tmp_path / "commitlog") == before


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("compat", ["4.9.1", "5.1.4"])
def test_a_last_record_whose_properties_end_in_a_zero_is_kept(tmp_path, complete, mode, compat):
    """These releases write no separator behind the last property."""
    config = dataclasses.replace(CONFIG, compat=compat)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        put = store.put_message(Message("TopicTest", b"body", properties={"a": "b\0"}, queue_id=0))
    mode(tmp_path, None)
    assert complete(tmp_path, config=config).max_phy_offset == put.phy_offset + put.size
    assert not (tmp_path / "rocketstore-cut").exists()


@pytest.mark.parametrize("policy", ["complete", "broker"])
def test_given_sizes_are_saved_with_the_release_that_was_given(tmp_path, policy):
    config = dataclasses.replace(CONFIG, compat="5.3")
    with rocketstore.open(tmp_path, "a", config=config) as store:
        store.put_message(Message("TopicTest", b"body", queue_id=0))
    saved = tmp_path / "config" / "rocketstore.json"
    before = saved.read_bytes()
    recover(tmp_path, policy=policy, config=config)
    assert saved.read_bytes() == before


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_delayed_messages_keep_the_times_that_another_s_levels_gave_them(tmp_path, complete, mode):
    message = Message("SCHEDULE_TOPIC_XXXX", b"body", queue_id=0, delay_time_level=1)
    with rocketstore.open(tmp_path, "a", config=dataclasses.replace(CONFIG, message_delay_level="7h 9h")) as store:
        store.put_messages([message] * 5)
    (tmp_path / "config" / "rocketstore.json").unlink()
    before = read_files(tmp_path / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "0")
    mode(tmp_path, None)
    complete(tmp_path, config=CONFIG)
    assert read_files(tmp_path / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "0") == before


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_a_cut_after_which_nothing_was_written_is_refused_as_damage(store, complete):
    """Corner 90."""
    root = store()
    start, position, _ = damages.records(root)[-3]
    damages.change_log(root, start, position, b"\0" * 8)
    Broker(root, SIZES, "5.5.1").restart()
    before = read_files(root / "commitlog")
    with pytest.raises(CorruptFileError, match="--cut-at-damage"):
        complete(root, config=CONFIG)
    assert read_files(root / "commitlog") == before
    behind = before[start][position:].rstrip(b"\0")
    assert recover(root, cut_at_damage=True, config=CONFIG).max_phy_offset == start + position
    assert not any(read_files(root / "commitlog")[start][position:])
    (saved,) = (root / "rocketstore-cut").iterdir()
    assert saved.read_bytes() == behind
    assert_complete(root)


def test_a_queue_that_began_later_keeps_its_offsets(store, seed):
    """As after the first files of the log expired: of a queue that is built again the offsets are the records'.

    Corner 95.
    """
    root = store()
    first = sorted(read_files(root / "commitlog"))[0]
    (root / "commitlog" / f"{first:020d}").unlink()
    directory = damages.queue_directories(root)[0]
    shutil.rmtree(directory)
    damages.unclean(root, None)
    recover(root, config=CONFIG)
    log = CommitLog(read_files(root / "commitlog"))
    queue = cq.load(directory, CQ_FILE)
    wanted = [
        (offset, record.queue_offset)
        for offset, record in log.records
        if (record.topic, record.queue_id) == (directory.parent.name, int(directory.name))
    ]
    units = [unit for start in queue.starts for unit in queue.units(start) if not unit.is_filler]
    assert [(unit.offset, unit.queue_offset) for unit in units] == wanted


@pytest.mark.parametrize("how", ["missing", "empty"])
@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_a_queue_without_a_file_in_its_middle_is_built_again_from_the_log(tmp_path, seed, how, complete):
    root = tmp_path / "store"
    root.mkdir()
    rows = [{**row, "topic": "T", "queue_id": 0} for row in some_messages(random.Random(seed), 45)]
    make_store(root, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=ITEMS)
    path = root / "consumequeue" / "T" / "0" / f"{2 * CQ_FILE:020d}"
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(b"")
        save_settings(StorePlaces.of(root), CONFIG)  # as a writer does with these files after a power loss
    checkpoint = StoreCheckpoint.open(root / "checkpoint")
    checkpoint.logics_physical_offset = 0
    checkpoint.flush()
    damages.unclean(root, None)
    assert complete(root, config=CONFIG).actions
    assert_complete(root)


def queue_with_a_zeroed_unit(root, seed):
    """One of four files, whose second last has a unit of zeros."""
    root.mkdir()
    rows = [{**row, "topic": "T", "queue_id": 0} for row in some_messages(random.Random(seed), 35)]
    make_store(root, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=ITEMS)
    path = root / "consumequeue" / "T" / "0" / f"{2 * CQ_FILE:020d}"
    data = bytearray(path.read_bytes())
    data[100:120] = bytes(20)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_a_queue_with_a_bad_unit_in_a_file_before_its_last_is_built_again_from_there(tmp_path, seed, mode):
    """The checkpoint says that the file was on the disk."""
    root = tmp_path / "store"
    path = queue_with_a_zeroed_unit(root, seed)
    mode(root, None)
    actions = recover(root, config=CONFIG).actions
    assert (path, "zero", 100) in [action[:3] for action in actions]
    assert recover(root, config=CONFIG).actions == ()
    assert_complete(root)


def test_a_queue_with_a_bad_unit_in_a_file_before_its_last_takes_no_message_and_loses_none(tmp_path, seed):
    """Opening after a clean stop looks at last files only; what writes would end the queue there, as RocketMQ does."""
    root = tmp_path / "store"
    path = queue_with_a_zeroed_unit(root, seed)
    before = contents(root)
    with rocketstore.open(root, "a", config=CONFIG) as opened:
        with pytest.raises(CorruptFileError, match=r"recover\(\)") as caught:
            opened.put_message(rocketstore.Message("T", b"", queue_id=0))
        assert (caught.value.path, caught.value.offset) == (path, 100)
        with pytest.raises(CorruptFileError, match=r"recover\(\)"):
            opened.delete_expired_files(dry_run=True)
    assert contents(root) == before
    recover(root, config=CONFIG)
    with rocketstore.open(root, "a", config=CONFIG) as opened:
        assert opened.put_message(rocketstore.Message("T", b"", queue_id=0)).queue_offset == 35
    assert_complete(root)


def test_a_queue_without_its_first_file_is_built_again_from_the_log(tmp_path, seed):
    root = tmp_path / "store"
    root.mkdir()
    rows = some_messages(random.Random(seed), 45)
    rows = [{**row, "topic": "T", "queue_id": i % 5 // 4} for i, row in enumerate(rows)]
    make_store(root, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=ITEMS)
    (root / "consumequeue" / "T" / "0" / f"{0:020d}").unlink()
    assert recover(root, config=CONFIG).actions
    assert_complete(root)
    assert recover(root, config=CONFIG).actions == ()


def test_a_queue_that_begins_with_a_file_of_its_own_is_left_unchanged(tmp_path, seed):
    """Its first unit is not of message 0, and the log begins with others: those before were of a log that is gone."""
    rows = some_messages(random.Random(seed), 20)
    first = 2 * CQ_FILE // 20
    late = [{**row, "topic": "Late", "queue_id": 0, "queue_offset": first + i} for i, row in enumerate(rows)]
    make_commit_log(tmp_path / "commitlog", FILE, rows[:5] + late)
    complete_store(survey_store(tmp_path, CONFIG), CONFIG)
    (tmp_path / "abort").unlink()
    assert min((tmp_path / "consumequeue" / "Late" / "0").iterdir()).name == f"{20 * first:020d}"
    before = everything(tmp_path)
    assert recover(tmp_path, config=CONFIG).actions == ()
    assert everything(tmp_path) == before | {tmp_path / "lock": b"lock"}


def test_an_expired_queue_keeps_its_end(store, seed):
    root = store()
    log = CommitLog(read_files(root / "commitlog"))
    for start in sorted(log.files)[:-1]:
        (root / "commitlog" / f"{start:020d}").unlink()
    directory = damages.queue_directories(root)[0]
    gone = [unit for unit in damages.units(directory) if unit[2] >= max(log.files)]
    if gone:
        damages.zero_units(directory, len(gone))
    for start, position, _ in damages.records(root):
        record = log.record_at[start + position]
        if (record.topic, record.queue_id) == (directory.parent.name, int(directory.name)):
            damages.change_log(root, start, position + 12, struct.pack(">i", 77))  # of another queue now
    before = contents(root)
    damages.unclean(root, None)
    recover(root, config=CONFIG)
    name = str(directory.relative_to(root))
    after = {key: data for key, data in contents(root).items() if key.startswith(name + "/")}
    assert after == {key: data for key, data in before.items() if key.startswith(name + "/") and any(data)}


def test_a_short_last_log_file_gets_its_length(store):
    root = store()
    start = max(read_files(root / "commitlog"))
    path = root / "commitlog" / f"{start + FILE:020d}"
    os.truncate(root / "commitlog" / f"{start:020d}", damages.records(root)[-1][1] + damages.records(root)[-1][2])
    damages.unclean(root, None)
    assert "extend" in [action.what for action in recover(root, config=CONFIG).actions]
    assert (root / "commitlog" / f"{start:020d}").stat().st_size == FILE
    assert not path.exists()
    assert_complete(root)


def test_files_of_another_length_are_refused(store):
    root = store()
    os.truncate(root / "commitlog" / f"{0:020d}", FILE - 1)
    with pytest.raises(CorruptFileError, match="check the configuration"):
        plan_recovery(survey_store(root, CONFIG), CONFIG)
    other = store("other")
    path = min(damages.queue_directories(other)[0].iterdir())
    os.truncate(path, CQ_FILE - 1)
    with pytest.raises(CorruptFileError, match="check the configuration"):
        plan_recovery(survey_store(other, CONFIG), CONFIG)


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_plain_queues_of_a_topic_of_batches_are_refused_and_left(store, mode):
    root = store()
    extend_topics(root, {"Orders": 4}, {"Orders": "BatchCQ"})
    mode(root, None)
    before = everything(root)
    for complete in (recover, complete_store_of):
        with pytest.raises(StoreError, match=r"consumequeue/Orders: .*queue\.type BatchCQ"):
            complete(root, config=CONFIG)
    assert everything(root) == before | {root / "lock": b"lock"}


def test_a_topic_of_batches_may_have_directories_without_files(store):
    root = store()
    extend_topics(root, {"Batches": 4}, {"Batches": "BatchCQ"})
    (root / "consumequeue" / "Batches" / "0").mkdir(parents=True)
    recover(root, config=CONFIG)
    assert recover(root, config=CONFIG).actions == ()


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("name", ["--5", "\u0663", "007", "+3", "-0", "99999999999", "abc"])
def test_directories_that_are_no_queues_are_left_as_they_are(store, name, mode):
    """Corner 51."""
    root = store()
    mode(root, None)
    (root / "consumequeue" / "TopicTest" / name).mkdir()
    before = contents(root)
    for complete in (recover, complete_store_of):
        complete(root, config=CONFIG)
        assert (root / "consumequeue" / "TopicTest" / name).is_dir()
    assert contents(root) == before


def test_a_record_that_cannot_be_dispatched_is_an_error_that_says_what_to_do(tmp_path):
    records = [{"topic": "SCHEDULE_TOPIC_XXXX", "properties": {"DELAY": delay}} for delay in ("1", "abc", "2")]
    offsets = make_commit_log(tmp_path / "commitlog", FILE, records)
    with pytest.raises(CorruptFileError, match=r"DELAY.*salvage.*--policy broker") as caught:
        complete_store(survey_store(tmp_path, CONFIG), CONFIG)
    assert (caught.value.path, caught.value.offset) == (tmp_path / "commitlog" / f"{0:020d}", offsets[1])


@pytest.mark.parametrize("topic", ["../../evil", "a/b", "nul\0", "x" * 300])
def test_a_topic_that_is_no_name_of_a_directory_gets_no_queue_and_leads_nowhere(tmp_path, topic):
    root = tmp_path / "a" / "b" / "store"
    make_commit_log(root / "commitlog", FILE, [{"topic": topic}, {"topic": "T", "properties": {"KEYS": "k"}}])
    assert complete_store(survey_store(root, CONFIG), CONFIG).max_phy_offset > 0
    assert [path.name for path in (root / "consumequeue").iterdir()] == ["T"]
    assert [path.name for path in (tmp_path / "a").rglob("*") if path.parent != root][:2] == ["b", "store"]
    (root / "abort").unlink()
    assert recover(root, config=CONFIG).actions == ()


def test_a_queue_offset_that_no_queue_has_is_an_error_that_names_the_queue(tmp_path):
    make_commit_log(tmp_path / "commitlog", FILE, [{"topic": "T", "queue_offset": -5}])
    with pytest.raises(StoreError, match=r"queue 0 of 'T' cannot have a unit: a rec.*-5: .*salvage.*--policy broker"):
        complete_store(survey_store(tmp_path, CONFIG), CONFIG)


def test_damage_that_is_met_by_building_a_queue_again_is_an_error_that_says_what_to_do(store):
    """It is before where the log is looked through for its end."""
    root = store()
    start, position, _ = damages.records(root)[1]
    damages.change_log(root, start, position + 4, b"\0\0\0\0")
    damages.missing_queues(root, None)
    with pytest.raises(CorruptFileError, match=r"salvage.*--policy broker") as caught:
        complete_store(survey_store(root, CONFIG), CONFIG)
    assert (caught.value.path, caught.value.offset) == (root / "commitlog" / f"{start:020d}", position)


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_a_record_that_says_another_physical_offset_is_damage_too(store, complete, mode):
    """Later units of the queue would be before the unit of this record, and would count as existing."""
    root = store()
    start, position, _ = damages.records(root)[1]
    damages.change_log(root, start, position + 28, b"\x40")
    damages.missing_queues(root, None)
    mode(root, None)
    before = contents(root)
    with pytest.raises(CorruptFileError, match=r"physicalOffset.*salvage") as caught:
        complete(root, config=CONFIG)
    assert (caught.value.path, caught.value.offset) == (root / "commitlog" / f"{start:020d}", position)
    assert contents(root) == before


EXT = dataclasses.replace(CONFIG, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=128)


def ext_files(root):
    """Make a store whose queue has ext units; the files of these."""
    with rocketstore.open(root, "a", config=EXT) as opened:
        for i in range(20):
            opened.put_message(Message("T", b"", queue_id=0, tags=f"t{i}"))
    return sorted((root / "consumequeue_ext/T/0").iterdir())


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("how", ["zeros", "empty", "gone", "all"])
def test_units_whose_ext_units_did_not_come_to_the_disk_are_put_again(tmp_path, how, mode):
    """Else those of the next messages would be where these lead, with other tags."""
    path = ext_files(tmp_path)[-1]
    if how == "all":
        shutil.rmtree(path.parent)
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(128 if how == "zeros" else 0))
    mode(tmp_path, None)
    recover(tmp_path, config=EXT)
    assert recover(tmp_path, config=EXT).actions == ()
    with rocketstore.open(tmp_path, "a", config=EXT) as opened:
        opened.put_message(Message("T", b"", queue_id=0, tags="new"))
        found = [opened.get_message("T", 0, 0, 32, tags=f"t{i}").messages.queue_offset.tolist() for i in range(20)]
    assert found == [[i] for i in range(20)]
    assert [finding for finding in verify(tmp_path, config=EXT).findings if finding.kind.startswith("ext")] == []


@pytest.mark.parametrize("units", ["there", "gone"])
@pytest.mark.parametrize("how", ["zeros", "empty", "gone"])
def test_units_before_the_last_whose_ext_units_did_not_come_to_the_disk_are_put_again(tmp_path, how, units):
    files = ext_files(tmp_path)
    if units == "gone":  # made again, it goes on behind the ext units that are there
        shutil.rmtree(tmp_path / "consumequeue/T")
    path = files[len(files) // 2]
    path.unlink() if how == "gone" else path.write_bytes(bytes(128 if how == "zeros" else 0))
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").unlink()
    recover(tmp_path, config=EXT)
    assert recover(tmp_path, config=EXT).actions == ()
    with rocketstore.open(tmp_path, config=EXT) as opened:
        found = [opened.get_message("T", 0, 0, 32, tags=f"t{i}").messages.queue_offset.tolist() for i in range(20)]
    assert found == [[i] for i in range(20)]


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("ext", [False, True], ids=["plain", "ext"])
def test_a_unit_that_lost_its_tags_code_at_the_end_of_a_file_is_put_again(tmp_path, ext, complete):
    """Nothing else is in that sector, and the units of the next file look as if it were whole."""
    config = dataclasses.replace(EXT, mapped_file_size_consume_queue=520, enable_consume_queue_ext=ext)
    with rocketstore.open(tmp_path, "a", config=config) as opened:
        for i in range(60):
            opened.put_message(Message("T", b"", queue_id=0, tags=f"t{i}"))
    before = contents(tmp_path)
    path = min((tmp_path / "consumequeue/T/0").iterdir())
    path.write_bytes(path.read_bytes()[:512] + bytes(8))
    (tmp_path / "checkpoint").unlink()
    damages.unclean(tmp_path, None)
    complete(tmp_path, config=config)
    (tmp_path / "abort").unlink(missing_ok=True)
    assert recover(tmp_path, config=config).actions == ()
    with rocketstore.open(tmp_path, config=config) as opened:
        assert opened.get_message("T", 0, 0, 32, tags="t25").messages[0].queue_offset == 25
    if not ext:
        assert contents(tmp_path) == before


@pytest.mark.parametrize("units", ["there", "gone"])
@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_an_ext_file_of_another_length_is_refused_before_anything_is_changed(tmp_path, mode, complete, units):
    path = ext_files(tmp_path)[-1]
    if units == "gone":
        shutil.rmtree(tmp_path / "consumequeue/T")
    os.truncate(path, 100)
    mode(tmp_path, None)
    before = contents(tmp_path)
    for options in ({"dry_run": True}, {}) if complete is recover else ({},):
        with pytest.raises(CorruptFileError, match="check the configuration") as caught:
            complete(tmp_path, config=EXT, **options)
        assert (caught.value.path, caught.value.offset) == (path, 100)
    assert contents(tmp_path) == before


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


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_the_last_record_is_found_before_a_file_whose_first_record_is_torn(store, complete):
    """That file began to be flushed: so the checkpoint says, and recovery begins there."""
    root = store()
    records = damages.records(root)
    last = max(start for start, _, _ in records)
    (first,) = (size for start, position, size in records if (start, position) == (last, 0))
    damages.zero_log_from(root, last, first)
    damages.change_log(root, last, 88, bytes([damages.log_files(root)[last][88] ^ 1]))
    for directory in damages.queue_directories(root):
        gone = [unit for unit in damages.units(directory) if unit[2] >= last]
        if gone:
            damages.zero_units(directory, len(gone))
    checkpoint = StoreCheckpoint.open(root / "checkpoint")
    checkpoint.physic_msg_timestamp = 2**62
    checkpoint.flush()
    damages.unclean(root, None)
    assert complete(root, config=CONFIG).max_phy_offset == last
    assert_complete(root)


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


def test_opening_builds_the_queues_of_a_topic_that_a_loss_of_power_deleted(tmp_path, seed):
    """The disk had queues of later records, though nobody had asked for that."""
    root = tmp_path / "store"
    root.mkdir()
    rows = some_messages(random.Random(seed), 45)
    rows = [{**row, "topic": "Early" if i < 5 else "Late", "queue_id": 0} for i, row in enumerate(rows)]
    make_store(root, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=ITEMS)
    shutil.rmtree(root / "consumequeue" / "Early")
    checkpoint = StoreCheckpoint.open(root / "checkpoint")
    checkpoint.logics_msg_timestamp = checkpoint.logics_physical_offset = 0
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


def test_the_checkpoint_says_that_all_is_on_the_disk(store):
    root = store()
    damages.zeroed_checkpoint(root, None)
    damages.unclean(root, None)
    recover(root, config=CONFIG)
    fields = CHECKPOINT.unpack_from((root / "checkpoint").read_bytes())
    offset, last = CommitLog(read_files(root / "commitlog")).records[-1]
    assert (fields[LOGICS], fields[CONFIRM], fields[LOGICS_OFFSET]) == (last.store_timestamp, offset, offset)


# ---- opening ---------------------------------------------------------------------------------------------


def test_a_broker_s_store_that_is_refused_for_its_damage_is_as_it_was(store):
    root = store()
    start, position, _ = damages.records(root)[-3]
    damages.change_log(root, start, position + 4, b"none")
    before = everything(root)
    with pytest.raises(CorruptFileError):
        rocketstore.open(root, "a", config=CONFIG)
    assert everything(root) == before


@pytest.fixture
def crashed(tmp_path):
    """A store that lost its power after 3 messages were flushed, and 13 were not, of a clock that was set back."""
    config = dataclasses.replace(CONFIG, flush_interval_commit_log=2**31 - 1)
    with rocketstore.open(tmp_path / "written", "a", config=config) as store:
        store.put_messages([Message("T", bytes(500), queue_id=0)] * 3, store_timestamp=2000)
        store.flush()
        store.put_message(Message("New", bytes(500), queue_id=0), store_timestamp=1000)
        store.put_messages([Message("T", bytes(500), queue_id=0)] * 12, store_timestamp=1000)
        assert store.get_message("T", 0, 0).max_offset == 15
        shutil.copytree(tmp_path / "written", tmp_path / "crashed")
    return tmp_path / "crashed"


@pytest.mark.parametrize("number", [4, 12])
def test_after_a_crash_the_log_is_cut_before_sound_records_on_request_only(number, crashed):
    start, position, size = damages.records(crashed)[number]
    damages.change_log(crashed, start, position, bytes(size))
    with pytest.raises(CorruptFileError, match="--cut-at-damage"):
        rocketstore.open(crashed, "a", config=CONFIG)
    recover(crashed, cut_at_damage=True, config=CONFIG)
    with rocketstore.open(crashed, "a", config=CONFIG) as store:
        assert sum(map(len, store.scan())) == number
        assert store.consume_queue("T", 0).max_queue_offset == number - 1


def test_a_lost_queue_is_built_though_its_records_are_older_than_those_of_others(crashed):
    shutil.rmtree(crashed / "consumequeue" / "New")
    for path in (crashed / "config").glob("topics.json*"):
        path.unlink()
    with rocketstore.open(crashed, "a", config=CONFIG) as store:
        assert store.get_message("New", 0, 0).status == "FOUND"


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


def test_after_a_clean_stop_records_behind_the_queues_are_dispatched(store):
    """Corner 91."""
    root = store()
    damages.zeroed_newest_unit(root, None)
    report = complete_store(survey_store(root, CONFIG), CONFIG)
    assert report.actions[-1].what == "dispatch"
    assert (root / "abort").exists()
    assert_complete(root)


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_after_a_clean_stop_units_of_a_queue_that_is_not_the_newest_are_put_again(store, complete):
    """Corner 91."""
    root = store()
    *_, directory, _ = sorted(damages.queue_directories(root), key=lambda path: damages.units(path)[-1][2])
    damages.zero_units(directory, 1)
    assert complete(root, config=CONFIG).actions[-1].what == "dispatch"
    assert_complete(root)


@pytest.mark.parametrize(("complete", "is_built"), [(recover, True), (complete_store_of, False)])
def test_a_queue_that_is_gone_after_a_clean_stop_is_built_again_by_recover_alone(store, complete, is_built):
    """A broker that deletes a topic leaves its records in the log. Corner 91."""
    root = store()
    directory = min(damages.queue_directories(root), key=lambda path: damages.units(path)[-1][2])
    shutil.rmtree(directory)
    complete(root, config=CONFIG)
    assert directory.exists() == is_built


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


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_last_records_without_a_unit_or_an_item_are_not_dispatched_again(tmp_path, seed, complete):
    rows = some_messages(random.Random(seed), 20)
    rows[17]["properties"] = {"TAGS": "A"}
    rows[18]["sys_flag"] = PREPARED
    rows[19]["sys_flag"] = ROLLBACK
    make_store(
        tmp_path, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=ITEMS, index_tags=False
    )
    config = dataclasses.replace(CONFIG, compat="5.3")
    assert complete(tmp_path, config=config).actions == ()


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


# ---- dry run and kills -----------------------------------------------------------------------------------


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


# ---- an index of several files -----------------------------------------------------------------------------


def indexed_store(root, count=20):
    """A store with several index files, at whose ends are messages that have one key in each of two files."""
    config = dataclasses.replace(CONFIG, mapped_file_size_commit_log=1 << 16, max_hash_slot_num=3, max_index_num=10)
    with rocketstore.open(root, "a", config=config) as store:
        for i in range(count):
            store.put_message(Message("A", b"", keys=[f"k{i}", f"m{i}"], queue_id=0))
    return root


def index_contents(root):
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


def empty(path):
    path.write_bytes(b"")


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


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


# ---- ext units ---------------------------------------------------------------------------------------------


def test_records_that_are_dispatched_again_for_the_index_get_no_second_ext_unit(tmp_path):
    root = tmp_path / "store"
    config = dataclasses.replace(CONFIG, enable_consume_queue_ext=True)
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages([Message("A", b"", tags="t", keys=f"k{i}", queue_id=0) for i in range(5)])
    expected = contents(root)
    for path in (root / "index").iterdir():
        path.unlink()
    recover(root, config=config)
    assert contents(root) == expected


@pytest.mark.parametrize("kept", range(12, 20))
def test_a_unit_torn_in_a_negative_tags_code_is_no_address_where_there_are_no_ext_files(tmp_path, kept):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for tags in ("TagA", "polygenelubricants"):  # whose hash is the least int
            store.put_message(Message("A", b"", tags=tags, queue_id=0))
    expected = contents(root)
    path = root / "consumequeue" / "A" / "0" / f"{0:020}"
    path.write_bytes(path.read_bytes()[: 20 + kept].ljust(CQ_FILE, b"\0"))
    damages.unclean(root, None)
    (root / "checkpoint").unlink()  # which knows the unit to be on the disk
    recover(root, config=CONFIG)
    assert contents(root) == expected


def test_an_error_of_a_queue_gives_no_advice_for_a_damaged_log(tmp_path):
    root = tmp_path / "store"
    config = dataclasses.replace(CONFIG, mapper_file_size_batch_consume_queue=46)
    with rocketstore.open(root, "a", config=config) as store:
        store.create_topic("Inner", 1, queue_type="BatchCQ")
        for _ in range(3):
            batch = Message.batch("Inner", [Message("Inner", b"1"), Message("Inner", b"2")])
            batch.queue_id = 0
            store.put_message(batch)
        store.put_message(Message("A", b"", queue_id=0))
    zeros(sorted((root / "batchconsumequeue" / "Inner" / "0").iterdir())[1])
    with pytest.raises(CorruptFileError, match=r"recover\(\) builds the queue again from the commit log$"):
        rocketstore.open(root, "a")
    recover(root)
    assert rocketstore.verify(root).findings == []

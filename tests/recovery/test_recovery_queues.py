"""Recovery of consume queues: which units are kept, and which are put again."""

import dataclasses
import random
import shutil
import struct

import pytest
from reference import consume_queue as cq
from reference.commit_log import CommitLog, make_commit_log, read_files
from reference.message_store import make_store
from support import damages
from support.broker_tables import extend_topics
from support.recovered import (
    CONFIG,
    CQ_FILE,
    FILE,
    ITEMS,
    SLOTS,
    assert_complete,
    complete_store_of,
    contents,
    everything,
    some_messages,
    zeros,
)

import rocketstore
from rocketstore import CorruptFileError, Message, StoreCheckpoint, StoreError, recover
from rocketstore.recovery.complete import complete_store
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import save_settings
from rocketstore.survey.survey import survey_store


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


def test_a_lost_queue_is_built_though_its_records_are_older_than_those_of_others(crashed):
    shutil.rmtree(crashed / "consumequeue" / "New")
    for path in (crashed / "config").glob("topics.json*"):
        path.unlink()
    with rocketstore.open(crashed, "a", config=CONFIG) as store:
        assert store.get_message("New", 0, 0).status == "FOUND"


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

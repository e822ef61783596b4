"""The messages that recovery would lose are counted, by topic, before anything is changed."""

import os
import threading
import time

import pytest
from support import cut_store, damages
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig, recover
from rocketstore.recovery.lost import LostMessages

CONFIG = StoreConfig(
    **SMALL | {"mapped_file_size_consume_queue": cut_store.CQ_FILE, "mapper_file_size_batch_consume_queue": 460}
)
T0 = cut_store.T0
CHOICES = [{"cut_at_damage": True}, {"policy": "broker"}]


def damage(root, number):
    """Overwrite the record of a number with zeros. Return its physical offset."""
    start, position, size = cut_store.offsets_of(root)[number]
    damages.change_log(root, start, position, bytes(size))
    return start + position


def everything(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("state", ["stopped", "crashed"])
@pytest.mark.parametrize("choice", CHOICES)
def test_messages_behind_damage_are_named_before_and_after_they_are_lost(choice, state, tmp_path):
    root = cut_store.store_of(tmp_path, 12, topics=2)
    end = damage(root, 5)
    if state == "crashed":
        (root / "abort").touch()
    before = everything(root)
    dry = recover(root, dry_run=True, config=CONFIG, **choice)
    assert dry.lost == (LostMessages("T0", 3, T0 + 6000, T0 + 10_000), LostMessages("T1", 3, T0 + 7000, T0 + 11_000))
    assert everything(root) == before
    done = recover(root, config=CONFIG, **choice)
    assert (done.lost, done.max_phy_offset) == (dry.lost, end)
    assert recover(root, config=CONFIG, **choice).lost == ()


def test_damage_of_a_stopped_store_is_counted_without_waiting_for_a_writer(monkeypatch, tmp_path):
    """A reader waits a moment at each place in files that were just written, since a broker may be writing there."""
    root = cut_store.store_of(tmp_path, 12)
    end = [damage(root, number) for number in (9, 6, 3)][-1]
    waits = []
    this_thread, real_sleep = threading.get_ident(), time.sleep

    def sleep(seconds):
        if threading.get_ident() == this_thread:
            waits.append(seconds)
        else:
            real_sleep(seconds)  # a thread of another library

    monkeypatch.setattr(time, "sleep", sleep)
    report = recover(root, dry_run=True, cut_at_damage=True, config=CONFIG)
    assert (report.max_phy_offset, [row.messages for row in report.lost]) == (end, [6])
    assert waits == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_old_records_behind_a_proved_cut_are_not_lost(dry_run, tmp_path):
    root = cut_store.store_of(tmp_path, 30)
    end = cut_store.cut_off(root, 10)
    report = recover(root, policy="broker", dry_run=dry_run, config=CONFIG)
    assert (report.lost, report.max_phy_offset) == ((), end)
    report = recover(root, dry_run=dry_run, config=CONFIG)
    assert (report.lost, report.max_phy_offset) == ((), end)


@pytest.mark.parametrize("choice", CHOICES)
def test_only_records_between_damage_and_a_proved_cut_are_lost(choice, tmp_path):
    root = cut_store.store_of(tmp_path, 30)
    cut_store.cut_off(root, 10)
    damage(root, 4)
    dry = recover(root, dry_run=True, config=CONFIG, **choice)
    assert dry.lost == (LostMessages("T0", 7, T0 + 5000, T0 + 10**6 + 1),)
    assert recover(root, config=CONFIG, **choice).lost == dry.lost


@pytest.mark.parametrize("choice", CHOICES)
def test_a_message_whose_body_does_not_match_its_crc_is_lost_too(choice, tmp_path):
    root = cut_store.store_of(tmp_path, 12)
    start, position, _ = cut_store.offsets_of(root)[11]
    damages.change_log(root, start, position + 88, b"#")  # readers show the body
    damage(root, 5)
    assert [row.messages for row in recover(root, dry_run=True, config=CONFIG, **choice).lost] == [6]


def test_a_torn_tail_loses_no_message(tmp_path):
    root = cut_store.store_of(tmp_path, 12)
    damage(root, 11)
    (root / "abort").touch()
    assert recover(root, config=CONFIG, dry_run=True).lost == recover(root, config=CONFIG).lost == ()


@pytest.mark.parametrize("choice", CHOICES)
def test_each_message_of_an_inner_batch_is_counted(choice, tmp_path):
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        for n in range(4):
            batch = Message.batch("B", [Message("B", b"%d" % n, queue_id=0)] * 3)
            batch.queue_id = 0
            store.put_message(batch, store_timestamp=T0 + n)
    damage(tmp_path, 1)
    report = recover(tmp_path, config=CONFIG, dry_run=True, **choice)
    assert report.lost == (LostMessages("B", 6, T0 + 2, T0 + 3),)


def cut_notes(texts):
    """The notes about a cut, among those about assumed settings."""
    return [text for text in texts if "cut the log" in text]


def test_saved_old_records_are_named_by_their_file(tmp_path):
    root = cut_store.store_of(tmp_path, 30)
    end = cut_store.cut_off(root, 10)
    (note,) = cut_notes(recover(root, config=CONFIG, dry_run=True).notes)
    assert f"a broker cut the log at {end}" in note
    assert "will be saved in rocketstore-cut" in note
    (note,) = cut_notes(recover(root, config=CONFIG).notes)
    (saved,) = (root / "rocketstore-cut").iterdir()
    assert f"are saved in {saved}, and overwritten with zeros" in note


def test_opening_for_writing_logs_where_it_saved_old_records(tmp_path, caplog):
    root = cut_store.store_of(tmp_path, 30)
    end = cut_store.cut_off(root, 10)
    rocketstore.open(root, "a", config=CONFIG).close()
    (saved,) = (root / "rocketstore-cut").iterdir()
    (record,) = [record for record in caplog.records if cut_notes([record.getMessage()])]
    assert (record.name, record.levelname) == ("rocketstore", "WARNING")
    assert f"cut the log at {end}" in record.getMessage()
    assert str(saved) in record.getMessage()
    caplog.clear()
    rocketstore.open(root, "a").close()
    assert not cut_notes(record.getMessage() for record in caplog.records)


def test_a_refused_store_is_named_in_the_three_commands(tmp_path):
    root = cut_store.store_of(tmp_path / "a store", 30)
    damage(root, 4)
    with pytest.raises(rocketstore.CorruptFileError) as caught:
        rocketstore.open(root, "a", config=CONFIG)
    for command in ("salvage '{}' --out NEW", "recover '{}' --cut-at-damage", "recover '{}' --policy broker"):
        assert f"rocketstore {command.format(root)}" in str(caught.value)


@pytest.mark.parametrize("age", [0, 3600])
def test_a_record_that_lost_its_last_bytes_is_torn_however_old_it_is(age, tmp_path):
    """Its properties still have a key, and end in zeros."""
    root = cut_store.store_of(tmp_path, 12, properties={"KEYS": "k", "TAGS": "t"})
    start, position, size = cut_store.offsets_of(root)[11]
    damages.change_log(root, start, position + size - 6, bytes(6))
    (root / "abort").touch()
    for path in (root / "commitlog").iterdir():
        os.utime(path, (time.time() - age,) * 2)
    assert recover(root, config=CONFIG).max_phy_offset == start + position

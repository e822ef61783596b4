"""Where recovery ends the log, and what it saves and refuses there."""

import dataclasses
import errno
import os
import random
import shutil
import stat

import pytest
from reference.commit_log import read_files
from reference.recovery import Broker
from support import damages
from support.recovered import CONFIG, CQ_FILE, FILE, SIZES, assert_complete, complete_store_of, contents, everything

import rocketstore
from rocketstore import CorruptFileError, Message, StoreCheckpoint, recover
from rocketstore.recovery.plan import plan_recovery
from rocketstore.recovery.store_files import open_store_files
from rocketstore.survey.survey import survey_store


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


def holes_are_unknown(monkeypatch):
    real = os.lseek

    def lseek(fd, position, whence):
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(fd, position, whence)

    monkeypatch.setattr(os, "lseek", lseek)


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

    real = os.fsync

    def fail(fd):
        if stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd)

    monkeypatch.setattr(os, "fsync", fail)
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
    with pytest.raises(CorruptFileError, match="magic" if position == 4 else "bodyCrc"):
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
        plan_recovery(open_store_files(survey_store(root, CONFIG), CONFIG))
    other = store("other")
    path = min(damages.queue_directories(other)[0].iterdir())
    os.truncate(path, CQ_FILE - 1)
    with pytest.raises(CorruptFileError, match="check the configuration"):
        plan_recovery(open_store_files(survey_store(other, CONFIG), CONFIG))


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

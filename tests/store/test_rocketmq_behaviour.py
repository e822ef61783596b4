"""Oddities of RocketMQ's restarts, which policy "broker" repeats, and what rocketstore does instead."""

import errno
import os
import shutil

import numpy as np
import pytest
from reference import consume_queue as cq
from reference.commit_log import CommitLog, blank, build_record, read_files, write_file
from reference.message_store import make_store
from reference.recovery import CHECKPOINT, LOGICS_OFFSET, PHYSIC, Broker
from support import damages
from support.profiles import SEVERAL_FILES
from support.puts import BEGIN, PARTS, config_of, files_under, open_store

import rocketstore
from rocketstore import CorruptFileError, IndexFile, Message, StoreError
from rocketstore.config import camel_case
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter

FILE = SEVERAL_FILES["mapped_file_size_commit_log"]
CQ_FILE = SEVERAL_FILES["mapped_file_size_consume_queue"]
CONFIG = config_of()
BROKER_SIZES = {camel_case(name): size for name, size in SEVERAL_FILES.items()}
FULL = CQ_FILE // 20  # units of a file of a queue
SIZE = len(build_record())  # of a record without anything special


def store_of(root, records):
    """A store after a clean stop; records: as make_commit_log takes them."""
    root.mkdir(exist_ok=True)
    make_store(
        root,
        records,
        file_size=FILE,
        cq_file_size=CQ_FILE,
        hash_slot_num=SEVERAL_FILES["max_hash_slot_num"],
        index_num=SEVERAL_FILES["max_index_num"],
    )
    return root


def some(count, body=b"body", **fields):
    return [{"body": body, "store_timestamp": BEGIN + i, **fields} for i in range(count)]


def as_broker(root):
    """Where the log ends after a broker's next start and stop, which leave what the reference's leave."""
    theirs = shutil.copytree(root, root.with_name("reference"))
    assert Broker(theirs, BROKER_SIZES, "5.5.1").restart()
    end = rocketstore.recover(root, policy="broker", config=CONFIG).max_phy_offset
    assert files_under(root) == files_under(theirs)
    shutil.rmtree(theirs)
    return end


def completed(root):
    return rocketstore.recover(root, config=CONFIG).max_phy_offset


def units_of(root, topic="TopicTest", queue_id=0):
    """(queue offset, physical offset) of the units of a queue that lead to records."""
    queue = cq.load(root / "consumequeue" / topic / str(queue_id), CQ_FILE)
    units = [unit for start in queue.starts for unit in queue.units(start)]
    return [(unit.queue_offset, unit.offset) for unit in units if unit.is_valid and not unit.is_filler]


def set_checkpoint(root, field, value):
    data = bytearray((root / "checkpoint").read_bytes())
    fields = list(CHECKPOINT.unpack_from(data))
    fields[field] = value
    CHECKPOINT.pack_into(data, 0, *fields)
    (root / "checkpoint").write_bytes(data)


# ---- records that RocketMQ writes and cannot read ----------------------------------------------------------


def unreadable(what, phy_offset):
    if what == "topic":
        return build_record(topic="题" * 100, phy_offset=phy_offset)
    return build_record(topic="SCHEDULE_TOPIC_XXXX", properties={"DELAY": "abc"}, phy_offset=phy_offset)


@pytest.mark.parametrize("what", ["topic", "delay"])
def test_a_restart_of_a_broker_cuts_the_log_at_a_record_that_it_cannot_read(what, tmp_path):
    """Corners 6 and 30."""
    later = build_record(phy_offset=SIZE + len(unreadable(what, SIZE)), queue_offset=1)
    root = store_of(tmp_path / "store", [{}, unreadable(what, SIZE), later])
    assert as_broker(root) == SIZE
    assert units_of(root) == [(0, 0)]


@pytest.mark.parametrize("what", ["topic", "delay"])
def test_rocketstore_refuses_a_log_with_an_unreadable_record_before_others(what, tmp_path):
    """Corners 6 and 110."""
    at = 3 * SIZE
    later = build_record(phy_offset=at + len(unreadable(what, at)), queue_offset=3, store_timestamp=BEGIN + 10)
    root = store_of(tmp_path / "store", [*some(3), unreadable(what, at), later])
    set_checkpoint(root, PHYSIC, BEGIN + 10)  # a broker flushed all of it, and what it cannot dispatch keeps abort
    damages.unclean(root, None)
    before = files_under(root, *PARTS, "index")
    for open_it in (completed, open_store):
        with pytest.raises(CorruptFileError) as caught:
            open_it(root)
        assert caught.value.offset == at
    assert files_under(root, *PARTS, "index") == before


def test_a_log_that_ends_with_an_unreadable_record_continues_in_its_place(tmp_path):
    """Corner 110."""
    root = store_of(tmp_path / "store", [{}, unreadable("topic", SIZE)])
    (root / "abort").write_bytes(b"4711")
    with open_store(root) as store:
        result = store.put_message(Message("TopicTest", b"new", queue_id=0))
    assert (result.phy_offset, result.queue_offset) == (SIZE, 1)
    assert not (root / "abort").exists()
    (saved,) = (root / "rocketstore-cut").iterdir()
    assert saved.read_bytes() == unreadable("topic", SIZE).rstrip(b"\0")


# ---- where the log ends ------------------------------------------------------------------------------------


def test_a_clean_restart_of_a_broker_drops_a_blank_that_nothing_follows(tmp_path):
    """Corner 13."""
    root = store_of(tmp_path / "store", some(3))
    write_file(root / "commitlog", 0, read_files(root / "commitlog")[0][: 3 * SIZE] + blank(FILE - 3 * SIZE))
    write_file(root / "commitlog", FILE, blank(FILE))
    with rocketstore.CommitLog.open(root / "commitlog", mapped_file_size=FILE) as log:
        assert log.max_phy_offset == 2 * FILE
    assert as_broker(root) == FILE


def test_a_broker_does_not_begin_recovery_in_a_file_of_only_a_blank_but_passes_over_it(tmp_path):
    """Corner 88."""
    first, last = some(3), build_record(phy_offset=2 * FILE, queue_offset=3)
    root = store_of(tmp_path / "store", first)
    data = read_files(root / "commitlog")[0][: 3 * SIZE]
    for start, file in {0: data + blank(FILE - len(data)), FILE: blank(FILE), 2 * FILE: last}.items():
        write_file(root / "commitlog", start, file.ljust(FILE, b"\0"))
    damages.missing_queues(root, None)
    damages.unclean(root, None)
    set_checkpoint(root, LOGICS_OFFSET, FILE + 8)  # so that the third file begins too late, and the blank one would not
    assert as_broker(root) == 2 * FILE + SIZE
    assert units_of(root) == [(0, 0), (1, SIZE), (2, 2 * SIZE), (3, 2 * FILE)]


def test_an_empty_last_log_file_goes_and_one_in_the_middle_is_refused(tmp_path):
    """Corner 86."""
    for policy, open_it in (("broker", as_broker), ("complete", completed)):
        root = store_of(tmp_path / policy, some(60))
        end = CommitLog(read_files(root / "commitlog")).max_offset
        starts = sorted(read_files(root / "commitlog"))
        write_file(root / "commitlog", starts[-1] + FILE, b"")
        assert open_it(root) == end
        assert sorted(read_files(root / "commitlog")) == starts
        write_file(root / "commitlog", starts[0], b"")
        refusal = r"0 bytes, not 4096: a broker does not start|but files of 4096"
        with pytest.raises((ValueError, CorruptFileError), match=refusal):
            rocketstore.recover(root, policy=policy, config=CONFIG)


def test_a_file_of_zeros_that_was_made_ahead_is_removed(tmp_path):
    """Corner 87."""
    for name, open_it in (("broker", as_broker), ("complete", completed)):
        root = store_of(tmp_path / name, some(5))
        damages.log_file_made_ahead(root, None)
        damages.unclean(root, None)
        assert open_it(root) == 5 * SIZE
        assert sorted(read_files(root / "commitlog")) == [0]


def test_old_records_revive_behind_one_of_the_same_size_after_a_broker_cut_them_off(tmp_path):
    """Corner 90."""
    root = store_of(tmp_path / "store", some(4))
    damages.change_log(root, 0, SIZE + 4, b"\0\0\0\0")
    assert as_broker(root) == SIZE
    damages.change_log(root, 0, SIZE, build_record(body=b"more", phy_offset=SIZE, queue_offset=1))
    assert as_broker(root) == 4 * SIZE
    assert [record.body for _, record in CommitLog(read_files(root / "commitlog")).records] == [
        b"body",
        b"more",
        b"body",
        b"body",
    ]


def test_nothing_revives_behind_what_rocketstore_writes(tmp_path):
    """Corner 90."""
    root = store_of(tmp_path / "store", some(4))
    damages.change_log(root, 0, SIZE + 4, b"\0\0\0\0")
    assert as_broker(root) == SIZE
    for _ in range(2):
        with open_store(root) as store:
            result = store.put_message(Message("TopicTest", b"more", queue_id=0))
            assert store.commit_log.max_phy_offset == result.phy_offset + result.size
    assert [record.body for _, record in CommitLog(read_files(root / "commitlog")).records] == [
        b"body",
        b"more",
        b"more",
    ]
    assert as_broker(root) == result.phy_offset + result.size


def test_without_its_log_a_broker_destroys_the_queues_and_begins_at_0_again(tmp_path):
    """Corners 14 and 94."""
    root = store_of(tmp_path / "store", some(4))
    damages.missing_log(root, None)
    as_broker(root)
    assert list((root / "consumequeue").rglob("0" * 20)) == []
    with open_store(root) as store:
        result = store.put_message(Message("TopicTest", b"", queue_id=0))
    assert (result.phy_offset, result.queue_offset) == (0, 0)


def test_rocketstore_refuses_a_store_that_lost_its_log(tmp_path):
    """Corner 94."""
    root = store_of(tmp_path / "store", some(4))
    damages.missing_log(root, None)
    before = files_under(root, *PARTS, "index")
    for open_it in (completed, open_store):
        with pytest.raises(StoreError):
            open_it(root)
    assert files_under(root, *PARTS, "index") == before


# ---- what queues get ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=["clean", "unclean"])
def test_a_broker_rebuilds_queues_from_the_last_ten_files_of_the_log_and_rocketstore_from_all(mode, tmp_path):
    """Corners 81, 93 and 96."""
    for name, open_it in (("broker", as_broker), ("complete", completed)):
        root = store_of(tmp_path / name, some(50, bytes(1200)))
        starts = sorted(read_files(root / "commitlog"))
        assert len(starts) > 12
        records = CommitLog(read_files(root / "commitlog")).records
        damages.missing_queues(root, None)
        damages.zeroed_checkpoint(root, None)
        mode(root, None)
        open_it(root)
        first = starts[-10] if name == "broker" else 0
        assert units_of(root) == [(record.queue_offset, at) for at, record in records if at >= first]


def test_after_a_clean_stop_a_broker_loses_a_message_whose_unit_was_the_newest(tmp_path):
    """Corner 91."""
    root = store_of(tmp_path / "store", some(4))
    damages.zeroed_newest_unit(root, None)
    as_broker(root)
    assert units_of(root) == [(0, 0), (1, SIZE), (2, 2 * SIZE)]  # so that 3 is given to the next message


@pytest.mark.parametrize("end", ["a broker that crashed", "rocketstore", "rocketstore that crashed"])
def test_a_lost_unit_comes_back(end, tmp_path):
    """Corners 91 and 92."""
    root = store_of(tmp_path / "store", some(4))
    damages.zeroed_newest_unit(root, None)
    if end.endswith("crashed"):
        damages.unclean(root, None)
    if "broker" in end:
        as_broker(root)
    else:
        with open_store(root) as store:
            assert store.put_message(Message("TopicTest", b"", queue_id=0)).queue_offset == 4
    assert units_of(root)[:4] == [(i, i * SIZE) for i in range(4)]


def test_a_queue_of_only_fillers_keeps_a_broker_from_rebuilding_the_others(tmp_path):
    """Corner 39."""
    records = [*some(3), *some(3, topic="Other")]
    for name, open_it in (("broker", as_broker), ("complete", completed)):
        root = store_of(tmp_path / name, records)
        damages.missing_queues(root, None)
        write_file(root / "consumequeue" / "TopicTest" / "0", 0, (cq.FILLER * 3).ljust(CQ_FILE, b"\0"))
        open_it(root)
        rebuilt = [] if name == "broker" else [0, 1, 2]
        assert [offset for offset, _ in units_of(root, "Other")] == rebuilt


@pytest.mark.parametrize(
    "offsets",
    [(-1,), (-1, 0, 1), (-1, 3, 4), (0, -1, 1), (0, 1, -2), (*range(FULL), -1), (0, 2**61 + 1, 1), (0, 2**60 + 1, 2)],
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_message_of_a_negative_queue_offset_is_in_no_queue_of_a_broker(offsets, is_clean, tmp_path):
    records = some(3) + [row | {"queue_offset": n} for row, n in zip(some(FULL + 1, topic="T"), offsets, strict=False)]
    root = store_of(tmp_path / "store", records + some(1, queue_offset=3))
    shutil.rmtree(root / "consumequeue" / "T")
    (root / "consumequeue" / "TopicTest" / "0" / f"{0:020d}").write_bytes(bytes(CQ_FILE))
    if not is_clean:
        (root / "abort").touch()
    as_broker(root)
    assert len(units_of(root)) == 4
    assert len(units_of(root, "T")) == sum(n >= 0 and n != 2**61 + 1 for n in offsets)  # times 20, it overflows
    if offsets in ((0, -1, 1), (0, 1, -2)):
        rocketstore.open(root, "a", config=CONFIG).close()


def test_queues_of_a_log_without_its_beginning_are_rebuilt_with_fillers(tmp_path):
    """Corner 95."""
    for name, open_it in (("broker", as_broker), ("complete", completed)):
        root = store_of(tmp_path / name, some(60))
        records = CommitLog(read_files(root / "commitlog")).records
        (root / "commitlog" / f"{0:020d}").unlink()
        damages.missing_queues(root, None)
        open_it(root)
        kept = [(record.queue_offset, at) for at, record in records if at >= FILE]
        assert units_of(root) == kept
        first = kept[0][0]
        file = read_files(root / "consumequeue" / "TopicTest" / "0")[first // 10 * CQ_FILE]
        assert file[: first % 10 * 20] == cq.FILLER * (first % 10)


def test_a_broker_does_not_start_with_plain_queues_of_a_topic_of_batches(tmp_path):
    """Corner 52."""
    root = store_of(tmp_path / "store", some(3))
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text(
        '{"topicConfigTable":{"TopicTest":{"topicName":"TopicTest","attributes":{"queue.type":"BatchCQ"}}}}'
    )
    with pytest.raises(StoreError, match="broker"):
        rocketstore.recover(root, policy="broker", config=CONFIG)


def test_a_unit_that_could_not_be_written_is_an_error_and_not_lost(monkeypatch, tmp_path):
    """Corners 56 and 84."""
    root = tmp_path / "store"
    store = open_store(root)
    store.put_message(Message("TopicTest", b"", queue_id=0))
    store.flush()
    real = os.open

    def refuse(path, flags, *args, **options):
        if "consumequeue" in str(path) and flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    store.put_message(Message("TopicTest", b"", queue_id=1))
    with pytest.raises((OSError, StoreError)):
        store.flush()
    with pytest.raises(StoreError):
        store.put_message(Message("TopicTest", b"", queue_id=0))
    store.close()
    assert (root / "abort").exists()
    monkeypatch.undo()
    with open_store(root) as store:
        assert store.consume_queue("TopicTest", 1).max_queue_offset == 1


def test_closing_dispatches_the_last_records_and_then_removes_abort(tmp_path):
    """Corner 84."""
    root = tmp_path / "store"
    store = open_store(root)
    store.put_messages([Message("TopicTest", b"", queue_id=i % 7) for i in range(5000)])
    assert (root / "abort").exists()
    store.close()
    assert not (root / "abort").exists()
    assert sum(len(units_of(root, queue_id=i)) for i in range(7)) == 5000


@pytest.mark.parametrize("count", [10, 20])
def test_a_queue_whose_last_file_is_exactly_full_expires_as_any(count, tmp_path):
    """Corner 109."""
    queue = ConsumeQueueWriter(tmp_path / "0", CQ_FILE)
    offsets = [i * 100 for i in range(count)]
    queue.put_units(*columns(offsets))
    deleted = queue.delete_expired(100 * count)
    assert [int(path.name) for path in deleted] == list(range(0, count * 20 - CQ_FILE, CQ_FILE))
    assert (queue.min_queue_offset, queue.max_queue_offset) == (count, count)
    queue.close()


def columns(offsets):
    count = len(offsets)
    return (
        np.array(offsets, np.int64),
        np.full(count, 100, np.int32),
        np.zeros(count, np.int64),
        np.arange(count, dtype=np.int64),
    )


# ---- index -------------------------------------------------------------------------------------------------


def test_the_times_of_an_index_file_may_go_backwards(tmp_path):
    """Corners 62 and 63."""
    path = tmp_path / "20240101000000000"
    with IndexFile.create(path, hash_slot_num=7, index_num=10) as file:
        for phy_offset, time in enumerate((100_000, 0, 50_000)):
            file.put_key("k", phy_offset, BEGIN + time)
        assert file.header.begin_timestamp == BEGIN + 100_000
        assert file.header.end_timestamp == BEGIN + 50_000
        assert file.select_phy_offset("k", 10, BEGIN + 100_000, BEGIN + 100_999) == [2, 1, 0]
        assert file.select_phy_offset("k", 10, BEGIN, BEGIN + 99_999) == []
    data = path.read_bytes()
    differences = [int.from_bytes(data[40 + 28 + 20 * i + 12 :][:4], "big") for i in (1, 2, 3)]
    assert differences == [0, 0, 0]


# ---- properties --------------------------------------------------------------------------------------------


def test_no_properties_and_none_at_all_are_one_record(tmp_path):
    """Corner 27."""
    with open_store(tmp_path / "store") as store:
        for properties in (None, {}):
            message = Message("TopicTest", b"body", queue_id=0, properties=properties)
            assert store.put_message(message, store_timestamp=BEGIN).size == SIZE
        assert [message.properties for message in store.get_message("TopicTest", 0, 0).messages] == [{}, {}]

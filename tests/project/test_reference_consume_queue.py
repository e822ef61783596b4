"""The oracle's reading of queues, against what RocketMQ's own classes read."""

from collections import defaultdict

import pytest
from reference import consume_queue, queue_reads
from reference.commit_log import CommitLog, make_commit_log, read_files
from reference.consume_queue import BATCH_UNIT_SIZE, UNIT_SIZE
from reference.queue_reads import BufferUnderflow
from support import stores


class Golden:
    """A golden store: its log, and its queues by (topic, queue id) as a broker has them after loading."""

    def __init__(self, name, root):
        settings = stores.settings(name)
        self.dump, self.reads = stores.dump(name), stores.reads(name)
        self.log = CommitLog(
            read_files(root / "commitlog"), force_verify_prop_crc=settings.get("force_verify_prop_crc", False)
        )
        self.queues, self.ext = {}, {}
        sizes = {
            "consumequeue": (settings["mapped_file_size_consume_queue"], UNIT_SIZE),
            "batchconsumequeue": (settings.get("mapper_file_size_batch_consume_queue"), BATCH_UNIT_SIZE),
        }
        for kind, (file_size, unit_size) in sizes.items():
            for path in root.glob(f"{kind}/*/*"):
                key = path.parent.name, int(path.name)
                self.queues[key] = consume_queue.load(path, file_size, unit_size)
                ext = root / "consumequeue_ext" / key[0] / path.name
                self.ext[key] = read_files(ext) if ext.exists() else None


@pytest.fixture(scope="module", params=stores.NAMES)
def golden(request, tmp_path_factory):
    return Golden(request.param, stores.unpack(request.param, tmp_path_factory.mktemp("golden")))


@pytest.fixture
def loaded(golden):
    """The store after its queues have been told where the log begins."""
    for queue in golden.queues.values():
        consume_queue.correct_min_offset(queue, golden.log.min_offset)
    return golden


def test_every_unit_of_every_queue_is_what_rocketmq_read(golden):
    units = defaultdict(list)
    for row in [*golden.dump.get("cq", []), *golden.dump.get("bcq", [])]:
        units[row["topic"], row["queueId"]].append(row)
    assert {key for key, queue in golden.queues.items() if queue.files} == set(units)
    for key, rows in units.items():
        queue = golden.queues[key]
        read = [unit for start in queue.starts for unit in queue.units(start)]
        assert [(unit.queue_offset, unit.offset, unit.size) for unit in read] == [
            (row["index"], row["offset"], row["size"]) for row in rows
        ]
        for unit, row in zip(read, rows, strict=True):
            assert unit.tags_code == row.get("storedTagsCode", row["tagsCode"])
            assert unit.batch_num == row.get("batchNum", 1)
            assert unit.compacted_offset == row.get("compactedOffset")
            if "ext" in row:
                ext = consume_queue.read_ext(golden.ext[key], unit.tags_code)
                assert (ext.size, ext.tags_code, ext.msg_store_time) == (
                    row["ext"]["size"],
                    row["ext"]["tagsCode"],
                    row["ext"]["msgStoreTime"],
                )
                assert ext.tags_code == row["tagsCode"]


def test_the_log_and_every_queue_have_rocketmq_s_ranges(loaded):
    (log,) = loaded.reads["log"]
    assert (loaded.log.min_offset, loaded.log.max_offset) == (log["minPhyOffset"], log["maxPhyOffset"])
    ranges = {
        (row["topic"], row["queueId"]): (row["min"], row["max"], row["maxPhysicOffset"])
        for row in loaded.reads["queue"]
    }
    assert ranges == {
        key: (queue.min_offset, queue.max_offset, queue.max_physic_offset) for key, queue in loaded.queues.items()
    }


def test_every_read_has_rocketmq_s_status_and_records(loaded):
    for row in loaded.reads["get"]:
        key = row["topic"], row["queueId"]
        result = queue_reads.get_message(
            loaded.queues[key], loaded.log, row["offset"], row["max"], row["tags"], cq_ext=loaded.ext[key]
        )
        assert result[:4] == (row["status"], row["nextBeginOffset"], row["minOffset"], row["maxOffset"]), row
        assert [unit.offset for unit in result.units] == row["phyOffsets"]
        assert [unit.queue_offset for unit in result.units] == row["queueOffsets"]
        assert result.message_count == row["messageCount"]


def test_every_offset_by_time_is_rocketmq_s(loaded):
    for row in loaded.reads["time"]:
        queue = loaded.queues[row["topic"], row["queueId"]]
        found = []
        for boundary in ("lower", "upper"):
            try:
                found.append(queue_reads.get_offset_in_queue_by_time(queue, loaded.log, row["timestamp"], boundary))
            except BufferUnderflow:
                found.append("BufferUnderflowException")
        assert found == [row["lower"], row["upper"]], row


def made_queue(units, *, per_file=10, first=0):
    """A queue of units (offset, size, tags code) put one after the other."""
    queue = consume_queue.Queue(per_file * UNIT_SIZE)
    for number, (offset, size, tags_code) in enumerate(units):
        consume_queue.put(queue, offset, size, tags_code, first + number)
    return queue


def made_log(tmp_path, count, **fields):
    """A commit log of messages of one queue, in files of 4,096 bytes."""
    make_commit_log(tmp_path, 4096, [{"store_timestamp": 1000 * n, **fields} for n in range(1, count + 1)])
    return CommitLog(read_files(tmp_path))


def units_of(log):
    return [(offset, record.total_size, record.tags_code) for offset, record in log.records]


def test_a_read_ends_with_its_file(tmp_path):
    """Corner 103."""
    log = made_log(tmp_path, 12)
    queue = made_queue(units_of(log))
    result = queue_reads.get_message(queue, log, 0, 32)
    assert (result.status, result.next_begin_offset, len(result.units)) == ("FOUND", 10, 10)
    assert queue_reads.get_message(queue, log, 9, 0).next_begin_offset == 10


def test_a_read_looks_at_no_more_than_800_units_that_do_not_match(tmp_path):
    log = made_log(tmp_path, 1)
    queue = made_queue([(n, 1, 5) for n in range(900)], per_file=1000)
    result = queue_reads.get_message(queue, log, 0, 32, "TagA")
    assert (result.status, result.next_begin_offset) == ("NO_MATCHED_MESSAGE", 800)


def test_a_unit_of_a_lost_record_skips_the_rest_of_its_log_file(tmp_path):
    log = made_log(tmp_path, 60)
    log.files.pop(0)
    queue = made_queue(units_of(log), per_file=100)
    first_left = next(number for number, (offset, *_) in enumerate(log.records) if offset >= 4096)
    result = queue_reads.get_message(queue, log, 0, 1)
    assert (result.status, result.next_begin_offset) == ("FOUND", first_left + 1)
    lost = made_queue(units_of(log)[:5])
    result = queue_reads.get_message(lost, log, 0, 32)
    assert (result.status, result.next_begin_offset) == ("MESSAGE_WAS_REMOVING", 5)


def test_a_restart_moves_the_first_offset_back_onto_a_filler_while_the_log_begins_at_0():
    """Corner 49."""
    queue = made_queue([(0, 100, 0)], first=33)
    assert (queue.min_offset, queue.starts) == (33, [600])
    reloaded = consume_queue.Queue(queue.file_size, files=queue.files)
    consume_queue.recover(reloaded)
    consume_queue.correct_min_offset(reloaded, 0)
    assert (reloaded.min_offset, reloaded.max_offset) == (31, 34)


def test_a_queue_that_expired_whole_keeps_its_next_offset():
    """Corner 48."""
    queue = made_queue([(n * 100, 100, 0) for n in range(5)])
    consume_queue.correct_min_offset(queue, 1000)
    assert (queue.min_offset, queue.max_offset) == (5, 5)


def test_a_unit_that_is_there_is_not_put_again_and_a_gap_is_closed():
    """Corner 41."""
    queue = made_queue([(0, 100, 0), (100, 100, 0)])
    consume_queue.put(queue, 50, 50, 0, 2)
    consume_queue.put(queue, 200, 100, 0, 1)
    assert queue.max_offset == 2
    consume_queue.put(queue, 200, 100, 0, 7)
    assert queue.units(0)[-1][:2] == (200, 100)
    assert queue.max_offset == 3


@pytest.mark.parametrize(("boundary", "offsets"), [("lower", [0, 0, 1, 1, 12]), ("upper", [0, 0, 0, 1, 11])])
def test_between_two_units_lower_is_the_later_and_upper_the_earlier(tmp_path, boundary, offsets):
    log = made_log(tmp_path, 12)
    queue = made_queue(units_of(log))
    times = [0, 1000, 1500, 2000, 99_000]
    found = [queue_reads.get_offset_in_queue_by_time(queue, log, time, boundary) for time in times]
    assert found == offsets


def test_units_of_a_batch_queue_are_found_by_any_offset_within():
    queue = consume_queue.Queue(2 * BATCH_UNIT_SIZE, BATCH_UNIT_SIZE)
    consume_queue.append(queue, consume_queue.pack_batch_unit(0, 100, 0, 1000, 0, 1))
    consume_queue.append(queue, consume_queue.pack_batch_unit(100, 300, 0, 2000, 1, 3))
    consume_queue.correct_min_offset(queue, 0)
    assert (queue.min_offset, queue.max_offset) == (0, 4)
    assert [unit.queue_offset for unit in queue_reads.units_from(queue, 2)] == [1]
    consume_queue.correct_min_offset(queue, 50)
    assert queue.min_offset == 1


def test_an_extension_unit_is_found_by_its_address():
    data = consume_queue.pack_ext(7, 1000, b"\xff") + consume_queue.pack_ext(8, 2000)
    end = consume_queue.EXT_END.to_bytes(2, "big", signed=True)
    files = {0: data.ljust(64, b"\0"), 64: (end + b"\0" * 62)}
    first = consume_queue.read_ext(files, consume_queue.ext_addr(0))
    assert first == (21, 7, 1000, b"\xff")
    assert consume_queue.read_ext(files, consume_queue.ext_addr(21)) == (20, 8, 2000, None)
    assert consume_queue.read_ext(files, consume_queue.ext_addr(41)) is None
    assert consume_queue.read_ext(files, consume_queue.ext_addr(64)) is None
    assert consume_queue.is_ext_addr(consume_queue.ext_addr(0))
    assert not consume_queue.is_ext_addr(-(2**31))

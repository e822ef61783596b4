"""Reads of a queue by queue offset: RocketMQ's statuses and next offsets, with a broker's limits and without."""

import random
import shutil

import pytest
import reference
from reference import consume_queue, queue_reads
from reference.commit_log import read_files, write_file
from reference.consume_queue import FILLER, UNIT
from reference.message_store import make_store
from reference.record import INNER_BATCH, build_record
from support import stores

import rocketstore
from rocketstore import GetMessageStatus
from rocketstore.disk.file_run_reader import FileRunReader
from rocketstore.query import get_message as get_message_module
from rocketstore.queue.unit_run import UnitRun

UNITS = 10  # in a file of a queue
FILE_SIZE = 20 * UNITS
QUEUE = "consumequeue/TopicTest/0"
COLLIDING = "AaAa", "BBBB"  # have one hash code


def place_of(found):
    """The status and the three queue offsets of a read."""
    return found.status, found.next_begin_offset, found.min_offset, found.max_offset


def store_of(root, records, *, leftovers=False, **options):
    make_store(root, records, cq_file_size=options.pop("cq_file_size", FILE_SIZE), **options)
    return rocketstore.open(root, leftovers=leftovers)


def tagged(*tags, **fields):
    return [{"properties": {"TAGS": tag} if tag else {}, **fields} for tag in tags]


def queue_offsets(result):
    return result.messages.queue_offset.tolist()


def read(store, queue_offset, max_msg_nums=32, **options):
    """(status, next offset, queue offsets of the messages)."""
    found = store.get_message("TopicTest", 0, queue_offset, max_msg_nums, **options)
    return str(found.status), found.next_begin_offset, queue_offsets(found)


def replace_units(root, first, units):
    """Overwrite units of the queue, from that queue offset on."""
    for number, unit in enumerate(units, first):
        start = number // UNITS * FILE_SIZE
        path = root / QUEUE / f"{start:020d}"
        data = bytearray(path.read_bytes())
        data[20 * number - start : 20 * number - start + 20] = UNIT.pack(*unit)
        path.write_bytes(data)


# ---- what RocketMQ's own classes answered ------------------------------------------------------------------


@pytest.fixture(scope="module", params=stores.NAMES)
def golden(request, tmp_path_factory):
    name = request.param
    stores.need_codecs(name)
    return name, stores.unpack(name, tmp_path_factory.mktemp("golden"))


def has_tag(tags, wanted):
    return wanted in (None, "*") or tags in {tag.strip() for tag in wanted.split("||")}


def test_as_broker_every_read_has_rocketmq_s_answer(golden):
    name, root = golden
    tags = {row["physicalOffset"]: dict(row["properties"]).get("TAGS") for row in stores.dump(name)["message"]}
    rows = stores.reads(name)["get"]
    assert len(rows) > 50
    with rocketstore.open(root) as store:
        for row in rows:
            asked = row["topic"], row["queueId"], row["offset"], row["max"]
            found = store.get_message(*asked, tag=row["tags"], limits="broker")
            answer = str(found.status), found.next_begin_offset, found.min_offset, found.max_offset
            assert answer == (row["status"], row["nextBeginOffset"], row["minOffset"], row["maxOffset"]), row
            # RocketMQ leaves it to the client to compare the tags themselves.
            expected = [offset for offset in row["phyOffsets"] if has_tag(tags[offset], row["tags"])]
            assert (found.messages.phy_offset.tolist()) == expected, row


def test_without_limits_every_message_of_every_queue_is_read_in_one_call(golden):
    name, root = golden
    with rocketstore.open(root) as store:
        for row in stores.reads(name)["queue"]:
            found = store.get_message(row["topic"], row["queueId"], row["min"], 10**6)
            if row["total"] == 0:
                assert len(found.messages) == 0
                continue
            queue = store.consume_queue(row["topic"], row["queueId"])
            units = list(queue[row["min"] :])
            assert (found.status, found.next_begin_offset) == (GetMessageStatus.FOUND, row["max"])
            assert found.messages.phy_offset.tolist() == [unit.phy_offset for unit in units]
            assert sum(unit.batch_num for unit in units) == row["total"]


def test_without_limits_a_tag_gives_the_messages_with_that_tag_and_no_other(golden):
    name, root = golden
    units = stores.dump(name).get("cq", [])
    messages = {row["physicalOffset"]: row for row in stores.dump(name)["message"]}
    with rocketstore.open(root) as store:
        for row in stores.reads(name)["queue"]:
            mine = [unit for unit in units if (unit["topic"], unit["queueId"]) == (row["topic"], row["queueId"])]
            if not mine:
                continue
            for wanted in ("TagA", "TagB || TagC", "NoSuchTag"):
                found = store.get_message(row["topic"], row["queueId"], row["min"], 10**6, tag=wanted)
                expected = [
                    unit["offset"]
                    for unit in mine
                    if unit["index"] >= row["min"]
                    and unit["offset"] in messages
                    and has_tag(dict(messages[unit["offset"]]["properties"]).get("TAGS"), wanted)
                    and not row["topic"].startswith("SCHEDULE_TOPIC")  # there, units have a time and no tag
                ]
                got = found.messages.phy_offset.tolist()
                assert got == expected, (row, wanted)


# ---- statuses ----------------------------------------------------------------------------------------------


def test_no_matched_logic_queue_if_there_is_no_such_queue(tmp_path):
    with store_of(tmp_path, [{}]) as store:
        for topic, queue_id in (("TopicTest", 1), ("Other", 0), ("../TopicTest", 0)):
            found = store.get_message(topic, queue_id, 0)
            assert place_of(found) == ("NO_MATCHED_LOGIC_QUEUE", 0, 0, 0)
            assert len(found.messages) == 0


@pytest.mark.parametrize("limits", [None, "broker"])
def test_no_message_in_queue_with_max_0_whatever_the_offset(tmp_path, limits):
    """Corner 99."""
    with store_of(tmp_path, [{}]) as store:
        (tmp_path / "consumequeue/TopicTest/1").mkdir()
        for offset in (-1, 0, 1, 100):
            found = store.get_message("TopicTest", 1, offset, limits=limits)
            assert place_of(found) == ("NO_MESSAGE_IN_QUEUE", 0, 0, 0)


def test_no_message_in_queue_if_the_batch_queue_has_no_unit(tmp_path):
    with store_of(tmp_path, [{}]) as store:
        (tmp_path / "batchconsumequeue/Batch/0").mkdir(parents=True)
        assert place_of(store.get_message("Batch", 0, 0))[:2] == ("NO_MESSAGE_IN_QUEUE", 0)


@pytest.mark.parametrize("limits", [None, "broker"])
def test_offset_too_small_leads_to_the_first_message(tmp_path, limits):
    records = [{"queue_offset": 32 + n} for n in range(3)]
    with store_of(tmp_path, records, first_offset=65536) as store:
        for offset in (-(2**63), -1, 0, 31):
            assert read(store, offset, limits=limits) == ("OFFSET_TOO_SMALL", 32, [])
        assert read(store, 32, limits=limits) == ("FOUND", 35, [32, 33, 34])


@pytest.mark.parametrize("limits", [None, "broker"])
def test_offset_overflow_one_at_the_end_and_badly_behind_it(tmp_path, limits):
    """Corner 100."""
    with store_of(tmp_path, [{}] * 12) as store:
        assert read(store, 12, limits=limits) == ("OFFSET_OVERFLOW_ONE", 12, [])
        for offset in (13, 2**63 - 1):
            assert read(store, offset, limits=limits) == ("OFFSET_OVERFLOW_BADLY", 12, [])


def test_a_read_that_finds_nothing_has_the_columns_of_one_that_does(tmp_path):
    with store_of(tmp_path, [{}] * 2) as store:
        columns = list(store.get_message("TopicTest", 0, 0).messages.columns)
        for asked in (("TopicTest", 0, 2), ("TopicTest", 0, 9), ("TopicTest", 1, 0), ("TopicTest", 0, 0, 0)):
            messages = store.get_message(*asked).messages
            assert (list(messages.columns), messages.phy_offset.tolist(), list(messages)) == (columns, [], [])


def test_offset_found_null_if_the_file_of_the_queue_is_missing(tmp_path):
    store_of(tmp_path, [{}] * 30).close()
    (tmp_path / QUEUE / f"{FILE_SIZE:020d}").unlink()
    with rocketstore.open(tmp_path) as store:
        assert read(store, 10, limits="broker") == ("OFFSET_FOUND_NULL", 20, [])
        assert read(store, 19, limits="broker") == ("OFFSET_FOUND_NULL", 20, [])
        assert read(store, 0, limits="broker") == ("FOUND", 10, list(range(10)))
        assert read(store, 20, limits="broker") == ("FOUND", 30, list(range(20, 30)))


@pytest.mark.parametrize("limits", [None, "broker"])
def test_messages_of_a_log_file_that_is_missing_between_others_are_skipped(tmp_path, limits):
    with store_of(tmp_path, [{"body": bytes(700)}] * 30, file_size=4096, cq_file_size=2000) as store:
        offsets = store.consume_queue("TopicTest", 0)[:].phy_offsets.tolist()
    first, following = (sum(offset < end for offset in offsets) for end in (8192, 12288))
    (tmp_path / "commitlog" / f"{8192:020d}").unlink()
    with rocketstore.open(tmp_path) as store:
        assert read(store, first, 1, limits=limits) == ("FOUND", following + 1, [following])
        assert read(store, first - 1, 2, limits=limits) == ("FOUND", following + 1, [first - 1, following])


def test_without_limits_a_missing_file_of_the_queue_is_reported_and_the_rest_is_read(tmp_path):
    store_of(tmp_path, [{}] * 30).close()
    (tmp_path / QUEUE / f"{FILE_SIZE:020d}").unlink()
    with rocketstore.open(tmp_path) as store:
        assert read(store, 10) == ("OFFSET_FOUND_NULL", 20, [])
        assert read(store, 20, 100) == ("FOUND", 30, list(range(20, 30)))
        assert read(store, 0, 10) == ("FOUND", 10, list(range(10)))
        assert read(store, 0, 100)[1:] == (10, list(range(10)))


@pytest.mark.parametrize("limits", [None, "broker"])
def test_no_matched_message_if_all_are_filtered(tmp_path, limits):
    with store_of(tmp_path, tagged("TagA", "TagB", None)) as store:
        assert read(store, 0, tag="TagC", limits=limits) == ("NO_MATCHED_MESSAGE", 3, [])


@pytest.mark.parametrize("limits", [None, "broker"])
def test_message_was_removing_if_the_log_has_no_such_record(tmp_path, limits):
    with store_of(tmp_path, [{}] * 4, leftovers=True) as store:
        replace_units(tmp_path, 1, [(60_000, 100, 0), (60_100, 100, 0), (60_200, 100, 0)])
        assert read(store, 1, limits=limits) == ("MESSAGE_WAS_REMOVING", 4, [])


@pytest.mark.parametrize("limits", [None, "broker"])
def test_the_status_is_not_removing_once_a_message_was_found(tmp_path, limits):
    with store_of(tmp_path, [{}] * 4, leftovers=True) as store:
        replace_units(tmp_path, 3, [(60_000, 100, 0)])
        assert read(store, 2, limits=limits) == ("FOUND", 4, [2])


def test_after_a_lost_record_the_broker_skips_to_the_next_file_of_the_log(tmp_path):
    """Without limits, the remaining messages are read."""
    records = [{"body": bytes(1500)} for _ in range(6)]  # two in a file of 4096 bytes
    store_of(tmp_path, records, file_size=4096).close()
    (tmp_path / "commitlog" / f"{4096:020d}").rename(tmp_path / "gone")
    with rocketstore.open(tmp_path) as store:
        broker = read(store, 2, limits="broker")
        assert broker[1:] == (6, [4, 5])
        assert read(store, 2)[1:] == (6, [4, 5])


def test_without_limits_messages_behind_damage_are_read(tmp_path):
    """A broker's log ends at the damage."""
    with store_of(tmp_path, [{}] * 4, leftovers=True) as store:
        second = store.consume_queue("TopicTest", 0)[1].phy_offset
        with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(second + 4)
            file.write(b"....")
        assert read(store, 1) == ("FOUND", 4, [2, 3])
        assert read(store, 1, limits="broker") == ("MESSAGE_WAS_REMOVING", 4, [])


def test_a_unit_that_leads_to_no_record_is_not_found(tmp_path):
    """RocketMQ would hand the bytes out as they are."""
    with store_of(tmp_path, [{}] * 3) as store:
        offset, size, code = UNIT.unpack((tmp_path / QUEUE / f"{0:020d}").read_bytes()[20:40])
        replace_units(tmp_path, 1, [(offset + 1, size, code)])
        assert read(store, 0)[2] == [0, 2]


def test_a_unit_that_leads_to_another_queue_s_record_gives_no_message(tmp_path):
    with store_of(tmp_path, [{}, {"topic": "Other"}, {}]) as store:
        other = (tmp_path / "consumequeue/Other/0" / f"{0:020d}").read_bytes()[:20]
        replace_units(tmp_path, 0, [UNIT.unpack(other)])
        assert [message.topic for message in store.get_message("TopicTest", 0, 0).messages] == ["TopicTest"]


# ---- a broker's limits -------------------------------------------------------------------------------------


def test_as_broker_a_read_ends_with_its_file_and_without_limits_it_does_not(tmp_path):
    """Corner 103."""
    with store_of(tmp_path, [{}] * 12) as store:
        assert read(store, 0, limits="broker") == ("FOUND", 10, list(range(10)))
        assert read(store, 10, limits="broker") == ("FOUND", 12, [10, 11])
        assert read(store, 0) == ("FOUND", 12, list(range(12)))
        assert read(store, 3, 8) == ("FOUND", 11, list(range(3, 11)))


def test_as_broker_max_0_still_returns_one_message(tmp_path):
    """Corner 101."""
    with store_of(tmp_path, [{}] * 3) as store:
        assert read(store, 0, 0, limits="broker") == ("FOUND", 1, [0])
        status, next_offset, found = read(store, 0, 0)
        assert (next_offset, found) == (0, [])
        assert status != "FOUND"


def test_a_message_above_all_limits_is_returned_alone(tmp_path):
    """Corner 102."""
    sizes = [300_000, 10, 300_000, 10]
    records = [{"body": bytes(size)} for size in sizes]
    with store_of(tmp_path, records, file_size=1 << 20) as store:
        assert read(store, 0, limits="broker") == ("FOUND", 1, [0])
        assert read(store, 1, limits="broker") == ("FOUND", 2, [1])
        assert read(store, 0) == ("FOUND", 4, [0, 1, 2, 3])


def test_as_broker_a_read_from_memory_ends_at_32_messages_or_256_kib(tmp_path):
    with store_of(tmp_path, [{}] * 60, cq_file_size=2000) as store:
        assert read(store, 0, 100, limits="broker") == ("FOUND", 32, list(range(32)))
        assert read(store, 0, 100) == ("FOUND", 60, list(range(60)))
    big = tmp_path / "big"
    with store_of(big, [{"body": bytes(60_000)}] * 8, file_size=1 << 20) as store:
        assert read(store, 0, limits="broker") == ("FOUND", 4, [0, 1, 2, 3])
        assert read(store, 0) == ("FOUND", 8, list(range(8)))


def test_as_broker_a_read_from_disk_ends_at_8_messages_or_64_kib(tmp_path, monkeypatch):
    monkeypatch.setattr(get_message_module, "IN_MEMORY_PERCENT", 0)
    with store_of(tmp_path, [{}] * 60, cq_file_size=2000) as store:
        assert read(store, 0, 100, limits="broker") == ("FOUND", 8, list(range(8)))
        assert read(store, 0, 100) == ("FOUND", 60, list(range(60)))
    big = tmp_path / "big"
    with store_of(big, [{"body": bytes(30_000)}] * 8, file_size=1 << 20) as store:
        assert read(store, 0, limits="broker") == ("FOUND", 2, [0, 1])


def test_exactly_256_kib_are_one_read_of_a_broker_and_one_byte_more_is_not(tmp_path):
    empty = len(build_record(body=b""))
    for extra, expected in ((0, [0, 1]), (1, [0])):
        records = [{"body": bytes(131_072 - empty)}, {"body": bytes(131_072 - empty + extra)}]
        with store_of(tmp_path / str(extra), records, file_size=1 << 20) as store:
            assert read(store, 0, limits="broker")[2] == expected


def test_as_broker_800_units_that_do_not_match_end_a_read(tmp_path):
    """Corner 104."""
    records = [*tagged(*["TagA"] * 850), *tagged("TagB")]
    with store_of(tmp_path, records, file_size=1 << 18, cq_file_size=20_000) as store:
        assert read(store, 0, tag="TagB", limits="broker") == ("NO_MATCHED_MESSAGE", 800, [])
        assert read(store, 800, tag="TagB", limits="broker") == ("FOUND", 851, [850])
        assert read(store, 0, 820, tag="TagB", limits="broker") == ("NO_MATCHED_MESSAGE", 820, [])
        assert read(store, 0, tag="TagB") == ("FOUND", 851, [850])


def test_as_broker_the_first_of_800_units_may_be_at_any_place_of_a_file(tmp_path):
    records = [*tagged(*["TagA"] * 950), *tagged("TagB")]
    with store_of(tmp_path, records, file_size=1 << 18, cq_file_size=18_000) as store:  # 900 units
        assert read(store, 50, tag="TagB", limits="broker") == ("NO_MATCHED_MESSAGE", 850, [])
        assert read(store, 850, tag="TagB", limits="broker") == ("NO_MATCHED_MESSAGE", 900, [])
        assert read(store, 900, tag="TagB", limits="broker") == ("FOUND", 951, [950])


def test_without_limits_a_read_goes_over_thousands_of_units_that_do_not_match(tmp_path):
    """Corner 104."""
    records = [*tagged(*["TagA"] * 3000), *tagged("TagB")]
    with store_of(tmp_path, records, file_size=1 << 18) as store:
        assert read(store, 0, 1, tag="TagB") == ("FOUND", 3001, [3000])


def test_limits_and_max_msg_nums_that_cannot_be_are_refused(tmp_path):
    with store_of(tmp_path, [{}]) as store:
        with pytest.raises(TypeError, match="tag=7: a str or a list of str was expected"):
            store.get_message("TopicTest", 0, 0, tag=7)
        assert store.get_message("TopicTest", 0, 0, tag=["TagA", "TagB"]).status == "NO_MATCHED_MESSAGE"
        with pytest.raises(ValueError, match="limits='Broker'"):
            store.get_message("TopicTest", 0, 0, limits="Broker")
        with pytest.raises(ValueError, match="max_msg_nums=-1"):
            store.get_message("TopicTest", 0, 0, -1)


# ---- tags --------------------------------------------------------------------------------------------------


def test_tags_are_compared_by_code_then_as_they_are(tmp_path):
    one, other = COLLIDING
    assert reference.java_hash(one) == reference.java_hash(other)
    with store_of(tmp_path, tagged(one, other, one, "TagA")) as store:
        for limits in (None, "broker"):
            assert read(store, 0, tag=one, limits=limits) == ("FOUND", 4, [0, 2])
            assert read(store, 0, tag=other, limits=limits) == ("FOUND", 4, [1])
            assert read(store, 0, tag=f"{one}||{other}", limits=limits) == ("FOUND", 4, [0, 1, 2])


def test_without_limits_messages_of_colliding_tags_do_not_count(tmp_path):
    one, other = COLLIDING
    with store_of(tmp_path, tagged(*[other] * 20, one, one, one)) as store:
        assert read(store, 0, 2, tag=one)[2] == [20, 21]


def test_a_read_whose_candidates_all_collide_says_that_none_matched(tmp_path):
    one, other = COLLIDING
    with store_of(tmp_path, tagged(other, other)) as store:
        assert read(store, 0, tag=one) == ("NO_MATCHED_MESSAGE", 2, [])


def test_several_tags_are_between_bars_with_or_without_spaces(tmp_path):
    with store_of(tmp_path, tagged("TagA", "TagB", "TagC", None)) as store:
        for tags in ("TagA||TagC", "TagA || TagC", " TagA  ||TagC ||"):
            assert read(store, 0, tag=tags)[2] == [0, 2]
        for tags in (None, "*", ""):
            assert read(store, 0, tag=tags)[2] == [0, 1, 2, 3]


def test_tags_with_bars_are_one_tag_on_the_record(tmp_path):
    """RocketMQ hashes all tags as one text, so that no filter of one tag finds this message. Corner 33."""
    with store_of(tmp_path, tagged("a||b", "a")) as store:
        assert read(store, 0, tag="a")[2] == [1]


def test_a_negative_hash_of_tags_is_compared_by_its_low_32_bits(tmp_path):
    """Corner 34."""
    tag = "Tag-negative-hash"
    while reference.java_hash(tag) >= 0:
        tag += "x"
    with store_of(tmp_path, tagged("TagA", tag)) as store:
        assert store.consume_queue("TopicTest", 0)[1].tags_code == reference.java_hash(tag)
        replace_units(tmp_path, 1, [(*store.consume_queue("TopicTest", 0)[1][1:3], reference.java_hash(tag) % 2**32)])
        assert read(store, 0, tag=tag)[2] == [1]


def test_messages_without_tags_match_no_tag(tmp_path):
    """Their code is 0, which is the hash of tags that are not empty too."""
    with store_of(tmp_path, tagged(None, "TagA")) as store:
        assert reference.java_hash("\0") == store.consume_queue("TopicTest", 0)[0].tags_code == 0
        assert read(store, 0, tag="\0")[2] == []


def test_tags_beyond_ascii_are_found(tmp_path):
    with store_of(tmp_path, tagged("标签", "tag-\U0001f600", "TagA")) as store:
        assert read(store, 0, tag="标签")[2] == [0]
        assert read(store, 0, tag="标签 || tag-\U0001f600")[2] == [0, 1]
        assert read(store, 0, tag="\ud800")[2] == []


# ---- queues ------------------------------------------------------------------------------------------------


def test_fillers_before_the_first_message_are_no_messages(tmp_path):
    """Units 30 and 31 stand for messages that were lost with the first files of the log. Corners 38 and 95."""
    records = [{"queue_offset": 32 + n} for n in range(10)]
    with store_of(tmp_path, records, first_offset=65536) as store:
        queue = store.consume_queue("TopicTest", 0)
        assert (queue.min_queue_offset, queue.max_queue_offset, len(queue)) == (32, 42, 10)
        assert [path.name for path in sorted((tmp_path / QUEUE).iterdir())] == [f"{start:020d}" for start in (600, 800)]
        assert [unit.is_filler for unit in queue[30:33]] == [True, True, False]
        assert read(store, 31) == ("OFFSET_TOO_SMALL", 32, [])
        assert read(store, 0, tag="TagA") == ("OFFSET_TOO_SMALL", 32, [])


def test_a_filler_inside_a_log_from_0_is_no_message(tmp_path):
    """Corner 49."""
    records = [{"queue_offset": 32 + n} for n in range(3)]
    with store_of(tmp_path, records) as store:
        assert store.consume_queue("TopicTest", 0).min_queue_offset == 32
        assert read(store, 32) == ("FOUND", 35, [32, 33, 34])


def test_a_queue_of_fillers_has_no_message(tmp_path):
    """Corner 39."""
    with store_of(tmp_path, [{}]) as store:
        write_file(tmp_path / "consumequeue/Lost/0", 600, (FILLER * 2).ljust(FILE_SIZE, b"\0"))
        found = store.get_message("Lost", 0, 32)
        assert (found.status, found.min_offset, found.max_offset) == ("OFFSET_OVERFLOW_ONE", 32, 32)
        assert store.get_message("Lost", 0, 30).status == "OFFSET_TOO_SMALL"


def test_an_expired_queue_keeps_its_next_offset(tmp_path):
    """The last unit is before the log: minimum and maximum are one, and a consumer waits there. Corner 48."""
    records = [*({"body": bytes(1500)} for _ in range(4)), *({"topic": "Live", "body": bytes(1500)} for _ in range(4))]
    store_of(tmp_path, records, file_size=4096).close()
    for start in (0, 4096):
        (tmp_path / "commitlog" / f"{start:020d}").unlink()
    with rocketstore.open(tmp_path) as store:
        found = store.get_message("TopicTest", 0, 0)
        assert place_of(found) == ("OFFSET_TOO_SMALL", 4, 4, 4)
        assert place_of(store.get_message("TopicTest", 0, 4)) == ("OFFSET_OVERFLOW_ONE", 4, 4, 4)
        assert len(store.consume_queue("TopicTest", 0)) == 0
        assert store.get_message("Live", 0, 0).messages.queue_offset.tolist() == [0, 1, 2, 3]


def test_a_queue_that_is_partly_expired_begins_with_what_the_log_has(tmp_path):
    records = [{"body": bytes(1500)} for _ in range(8)]
    store_of(tmp_path, records, file_size=4096).close()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with rocketstore.open(tmp_path) as store:
        assert read(store, 0) == ("OFFSET_TOO_SMALL", 2, [])
        assert read(store, 2) == ("FOUND", 8, list(range(2, 8)))


def test_a_queue_that_grows_is_read_on(tmp_path):
    grown, live = tmp_path / "grown", tmp_path / "live"
    store_of(grown, [{}] * 25).close()
    with store_of(live, [{}] * 3) as store:
        assert read(store, 0) == ("FOUND", 3, [0, 1, 2])
        assert read(store, 3) == ("OFFSET_OVERFLOW_ONE", 3, [])
        for part in ("commitlog", QUEUE):
            for start, data in read_files(grown / part).items():
                with (live / part / f"{start:020d}").open("r+b" if start == 0 else "w+b") as file:
                    file.write(data)
        assert read(store, 3) == ("FOUND", 25, list(range(3, 25)))


def test_a_queue_without_its_topic_in_the_configuration_is_read(tmp_path):
    with store_of(tmp_path, [{}]) as store:
        assert "TopicTest" not in store.topic_configs
        assert read(store, 0)[2] == [0]


def test_the_queue_of_a_rolled_back_message_has_no_unit_for_it(tmp_path):
    """Corners 15, 16 and 17."""
    records = [{}, {"sys_flag": 0x4}, {"sys_flag": 0xC}, {"sys_flag": 0x8}, {}]
    with store_of(tmp_path, records) as store:
        found = store.get_message("TopicTest", 0, 0)
        assert (found.max_offset, found.messages.sys_flag.tolist()) == (3, [0, 0x8, 0])


def test_a_unit_has_the_size_of_the_record_and_not_of_the_body(tmp_path):
    """Corner 37."""
    with store_of(tmp_path, [{"body": bytes(100)}]) as store:
        unit = store.consume_queue("TopicTest", 0)[0]
        (message,) = store.get_message("TopicTest", 0, 0).messages
        assert (unit.size, len(message.body)) == (message.size, 100)
        assert unit.size > 191


def test_a_delayed_message_waits_with_the_time_it_is_due_as_its_code(tmp_path):
    """A tag does not find it: its unit has no hash. Level 99 is the last one, two hours. Corner 36."""
    topic, tags = "SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA"}
    levels = [("1", 1), ("18", 7200), ("99", 7200), ("0", None)]
    records = [{"topic": topic, "properties": {**tags, "DELAY": level}} for level, _ in levels]
    with store_of(tmp_path, records) as store:
        units, found = store.consume_queue(topic, 0)[0:], store.get_message(topic, 0, 0).messages
        for unit, message, (level, seconds) in zip(units, found, levels, strict=True):
            due = message.store_timestamp + 1000 * (seconds or 0)
            assert unit.tags_code == (reference.java_hash("TagA") if seconds is None else due)
            assert message.delay_time_level == int(level)
        assert store.get_message(topic, 0, 0, tag="TagA").messages.queue_offset.tolist() == [3]


def with_ext(root, *tags):
    """A queue whose units have addresses of extension units, these the codes of the tags."""
    log = make_store(root, tagged(*tags), cq_file_size=FILE_SIZE)
    units, data = [], b""
    for offset, record in log.records:
        units.append((offset, record.total_size, consume_queue.ext_addr(len(data))))
        data += consume_queue.pack_ext(record.tags_code, record.store_timestamp, b"bits" * (len(units) % 3))
    replace_units(root, 0, units)
    write_file(root / "consumequeue_ext/TopicTest/0", 0, data.ljust(1024, b"\0"))
    return rocketstore.open(root)


@pytest.mark.parametrize("limits", [None, "broker"])
def test_a_code_below_the_smallest_int_is_the_address_of_an_ext_unit(tmp_path, limits):
    """Corner 35."""
    with with_ext(tmp_path, "TagA", "TagB", "TagA", *COLLIDING) as store:
        unit = store.consume_queue("TopicTest", 0)[0]
        assert unit.tags_code == -(2**63) <= -(2**31) - 1
        assert store.consume_queue_ext("TopicTest", 0).read(unit.tags_code).tags_code == reference.java_hash("TagA")
        assert read(store, 0, tag="TagA", limits=limits) == ("FOUND", 5, [0, 2])
        assert read(store, 0, tag="AaAa || TagB", limits=limits) == ("FOUND", 5, [1, 3])
        assert read(store, 0, tag="NoSuchTag", limits=limits) == ("NO_MATCHED_MESSAGE", 5, [])


@pytest.mark.parametrize("limits", [None, "broker"])
def test_an_ext_address_that_leads_nowhere_leaves_it_to_the_record(tmp_path, limits):
    """RocketMQ returns the unit, and its client compares the tags."""
    with with_ext(tmp_path, "TagA", "TagB", "TagA") as store:
        units = [unit[1:3] for unit in store.consume_queue("TopicTest", 0)[0:]]
        replace_units(tmp_path, 0, [(*unit, consume_queue.ext_addr(2000)) for unit in units])
        assert read(store, 0, tag="TagA", limits=limits)[1:] == (3, [0, 2])
    shutil.rmtree(tmp_path / "consumequeue_ext")
    with rocketstore.open(tmp_path) as store:
        assert read(store, 0, tag="TagA", limits=limits)[1:] == (3, [0, 2])


def test_a_queue_file_of_zeros_has_no_message(tmp_path):  # corner 43: RocketMQ makes a unit of it at a restart
    """Corner 43."""
    with store_of(tmp_path, [{}]) as store:
        write_file(tmp_path / "consumequeue/Zeros/0", 0, bytes(FILE_SIZE))
        for offset in (0, 1):
            assert place_of(store.get_message("Zeros", 0, offset)) == ("NO_MESSAGE_IN_QUEUE", 0, 0, 0)


def test_a_queue_ends_before_a_file_of_zeros_and_later_units_are_not_mistaken_for_others(tmp_path):
    """Corner 44."""
    with store_of(tmp_path, [{}] * 25) as store:
        path = tmp_path / QUEUE / f"{FILE_SIZE:020d}"
        path.write_bytes(bytes(FILE_SIZE))
        found = store.get_message("TopicTest", 0, 0, 100)
        assert found.messages.queue_offset.tolist() == list(range(10))
        assert found.max_offset == 10


def test_a_file_of_another_length_is_refused_and_named(tmp_path):
    """Corner 50."""
    with store_of(tmp_path, [{}] * 25) as store:
        path = tmp_path / QUEUE / f"{0:020d}"
        path.write_bytes(path.read_bytes() + bytes(20))
        with pytest.raises(rocketstore.CorruptFileError, match="consumequeue/TopicTest/0"):
            store.get_message("TopicTest", 0, 0)


def test_a_file_size_that_is_no_multiple_of_20_is_rounded_up(tmp_path):
    """Corner 50."""
    store_of(tmp_path, [{}] * 25).close()
    config = rocketstore.StoreConfig(mapped_file_size_consume_queue=FILE_SIZE - 19)
    with rocketstore.open(tmp_path, config=config) as store:
        assert read(store, 0, 100)[2] == list(range(25))


def test_units_of_a_batch_topic_in_consumequeue_are_read_as_what_they_are(tmp_path):
    """A broker would not start. Corner 52."""
    with store_of(tmp_path, [{}] * 3) as store:
        (tmp_path / "config").mkdir()
        (tmp_path / "config/topics.json").write_text(
            '{"topicConfigTable":{"TopicTest":{"topicName":"TopicTest","attributes":{"queue.type":"BatchCQ"}}}}'
        )
        assert read(store, 0)[2] == [0, 1, 2]


def test_a_message_whose_unit_was_lost_is_in_the_log_but_not_in_its_queue(tmp_path):
    """Corner 91."""
    with store_of(tmp_path, [{"properties": {"KEYS": f"k{n}"}} for n in range(3)]) as store:
        replace_units(tmp_path, 2, [(0, 0, 0)])
        assert read(store, 0) == ("FOUND", 2, [0, 1])
        assert sum(len(batch) for batch in store.scan()) == 3
        assert len(store.query_message("TopicTest", "k2").messages) == 1


def test_light_queues_lead_to_messages_of_other_topics(tmp_path):
    """The queue id is 0 whatever the message's, and the code is that of its tags. Corner 53."""
    seen = 0
    with rocketstore.open(stores.unpack("lmq-5.5.0", tmp_path)) as store:
        for topic, queue_id in store.queues():
            if not topic.startswith("%LMQ%"):
                continue
            for message in store.get_message(topic, queue_id, 0, 1000).messages:
                assert (queue_id, message.topic != topic) == (0, True)
                assert topic in message.properties["INNER_MULTI_DISPATCH"].split(",")
                seen += 1
            for message in store.get_message(topic, queue_id, 0, 1000, tag="TagA").messages:
                assert message.tags == "TagA"
    assert seen > 10


# ---- batch queues ------------------------------------------------------------------------------------------


def batch_store(root, *sizes, per_file=100):
    """A store whose queue has a batch of each size, 1 for a plain message."""
    records, units, base = [], [], 0
    for size in sizes:
        properties = {"INNER_BASE": str(base), "INNER_NUM": str(size)} if size > 1 else {}
        records.append({"properties": properties, "queue_offset": base, "sys_flag": INNER_BATCH if size > 1 else 0})
        base += size
    log = make_store(root, records)
    shutil.rmtree(root / "consumequeue")
    for offset, record in log.records:
        fields = offset, record.total_size, 0, record.store_timestamp, record.msg_base_offset, record.batch_size
        units.append(consume_queue.pack_batch_unit(*fields))
    for first in range(0, len(units), per_file):
        data = b"".join(units[first : first + per_file])
        write_file(root / "batchconsumequeue/TopicTest/0", 46 * first, data.ljust(46 * per_file, b"\0"))
    return rocketstore.open(root)


@pytest.mark.parametrize("limits", [None, "broker"])
def test_a_batch_is_returned_for_the_offset_of_any_of_its_messages(tmp_path, limits):
    """Corner 54."""
    with batch_store(tmp_path, 1, 3, 1) as store:
        queue = store.consume_queue("TopicTest", 0)
        assert (queue.min_queue_offset, queue.max_queue_offset) == (0, 5)
        assert queue[0][0] == 0
        assert (queue[0].batch_num, queue[0].compacted_offset) == (1, -1)
        for offset in (1, 2, 3):
            assert read(store, offset, 3, limits=limits) == ("FOUND", 4, [1])
        assert read(store, 0, limits=limits) == ("FOUND", 5, [0, 1, 4])


def test_messages_of_a_batch_are_counted_as_broker(tmp_path):
    with batch_store(tmp_path, 1, 3, 1) as store:
        assert read(store, 0, 3, limits="broker") == ("FOUND", 1, [0])
        assert read(store, 0, 4, limits="broker") == ("FOUND", 4, [0, 1])
        assert read(store, 1, 1, limits="broker") == ("FOUND", 4, [1])


def test_a_batch_that_would_be_more_messages_than_asked_for_is_left_unless_it_is_the_first(tmp_path):
    with batch_store(tmp_path, 1, 3, 1) as store:
        assert read(store, 0, 3) == ("FOUND", 1, [0])
        assert read(store, 0, 4) == ("FOUND", 4, [0, 1])
        assert read(store, 1, 1) == ("FOUND", 4, [1])
        assert read(store, 1, 0)[2] == []


def test_as_broker_a_read_of_a_batch_queue_ends_with_its_file(tmp_path):
    with batch_store(tmp_path, *[2] * 12, per_file=10) as store:
        assert read(store, 0, 100, limits="broker")[1] == 20
        assert read(store, 0, 100)[1] == 24


@pytest.mark.parametrize("is_batch", [False, True], ids=["units", "batch units"])
def test_a_read_looks_at_each_file_of_a_queue_some_times_and_not_once_for_each_other(is_batch, tmp_path, monkeypatch):
    files, calls, limit = 150, [], UnitRun.limit
    monkeypatch.setattr(UnitRun, "limit", lambda run, file: calls.append(file) or limit(run, file))
    if is_batch:
        store = batch_store(tmp_path, *[1] * files, per_file=1)
    else:
        store = store_of(tmp_path, [{}] * files, cq_file_size=20)
    with store:
        assert read(store, 0, 1000) == ("FOUND", files, list(range(files)))
    assert len(calls) < 20 * files


# ---- everything, against the oracle ------------------------------------------------------------------------


def oracle_of(root, log):
    queues = {}
    for directory in (root / "consumequeue").glob("*/*"):
        queue = consume_queue.load(directory, FILE_SIZE)
        consume_queue.correct_min_offset(queue, log.min_offset)
        queues[directory.parent.name, int(directory.name)] = queue
    return queues


def test_as_broker_random_reads_of_random_stores_are_the_oracle_s(tmp_path, seed):
    rng = random.Random(seed)
    tags = ["TagA", "TagB", *COLLIDING, None]
    for number in range(5):
        root = tmp_path / str(number)
        records = [
            {
                "topic": rng.choice(["TopicTest", "Other"]),
                "queue_id": rng.randrange(2),
                "body": bytes(rng.choice([10, 200, 3000])),
                "properties": {"TAGS": tag} if (tag := rng.choice(tags)) else {},
                "sys_flag": rng.choice([0, 0, 0, 0x4, 0x8, 0xC]),
            }
            for _ in range(rng.choice([3, 60, 200]))
        ]
        log = make_store(root, records, file_size=16384, cq_file_size=FILE_SIZE)
        with rocketstore.open(root) as store:
            for (topic, queue_id), queue in oracle_of(root, log).items():
                for _ in range(50):
                    offset, most = rng.randrange(-1, queue.max_offset + 3), rng.choice([0, 1, 5, 32, 100])
                    wanted = rng.choice([None, "*", "TagA", "TagB || AaAa", "NoSuchTag"])
                    expected = queue_reads.get_message(queue, log, offset, most, wanted)
                    found = store.get_message(topic, queue_id, offset, most, tag=wanted, limits="broker")
                    assert place_of(found) == expected[:4], (topic, queue_id, offset, most, wanted)
                    assert queue_offsets(found) == [
                        unit.queue_offset for unit in expected.units if has_tag(log.record_at[unit.offset].tags, wanted)
                    ]


# ---- beside the deletion of expired files ------------------------------------------------------------------

TWO_IN_A_FILE = {"body": bytes(1500)}


def after(monkeypatch, target, name, action):
    """Have something happen after a call."""
    real = getattr(target, name)

    def call(*args, **options):
        result = real(*args, **options)
        action()
        return result

    monkeypatch.setattr(target, name, call)


@pytest.mark.parametrize("limits", [None, "broker"])
@pytest.mark.parametrize(
    ("count", "answer"),
    [(10, ("MESSAGE_WAS_REMOVING", 10, [])), (11, ("FOUND", 11, [10])), (13, ("FOUND", 13, [10, 11, 12]))],
)
def test_messages_that_expire_while_they_are_read_are_removing(count, answer, limits, tmp_path, monkeypatch):
    with store_of(tmp_path, [{"body": bytes(290)}] * 20, file_size=4096, cq_file_size=400) as store:
        assert store.consume_queue("TopicTest", 0)[10].phy_offset == 4096
        first = tmp_path / "commitlog" / f"{0:020d}"
        find_messages = rocketstore.CommitLog.find_messages

        def find_messages_later(*args, **options):
            first.unlink(missing_ok=True)
            return find_messages(*args, **options)

        monkeypatch.setattr(rocketstore.CommitLog, "find_messages", find_messages_later)
        assert read(store, 0, count, limits=limits) == answer


def test_a_few_messages_that_expire_after_their_units_are_read_are_left_out(tmp_path, monkeypatch):
    with store_of(tmp_path, [TWO_IN_A_FILE] * 6, file_size=4096) as store:
        first = tmp_path / "commitlog" / f"{0:020d}"
        after(monkeypatch, rocketstore.ConsumeQueue, "__getitem__", lambda: first.unlink(missing_ok=True))
        assert read(store, 0, 2) == ("FOUND", 4, [2, 3])


@pytest.mark.parametrize("limits", [None, "broker"])
@pytest.mark.parametrize("name", ["find", "read", "refresh"])
def test_a_queue_that_loses_files_at_any_moment_of_a_read_has_an_answer_of_rocketmq_s(
    name, limits, tmp_path, monkeypatch
):
    """The files go as they do when they expire, the log's and then the queue's, after the n-th call, for every n."""
    answers = set()
    for n in range(1000):
        root = tmp_path / str(n)
        with store_of(root, [TWO_IN_A_FILE] * 13, file_size=4096) as store, monkeypatch.context() as patch:
            calls = []

            def expire(root=root, calls=calls, n=n):
                calls.append(n)
                if len(calls) == n:
                    for start in range(0, 5 * 4096, 4096):
                        (root / "commitlog" / f"{start:020d}").unlink()
                    (root / QUEUE / f"{0:020d}").unlink()

            after(patch, FileRunReader, name, expire)
            status, following, found = read(store, 0, limits=limits)
            answers.add(status)
            if status == "FOUND":
                assert following in (10, 13)
                assert set(range(10, following)) <= set(found) <= set(range(following))
                assert found == sorted(found)
            elif status == "MESSAGE_WAS_REMOVING":
                assert (following, found) == (10, [])
            else:
                assert (status, following, found) == ("OFFSET_TOO_SMALL", 10, [])
            if len(calls) < n:
                break
        shutil.rmtree(root)
    assert {"FOUND", "OFFSET_TOO_SMALL"} <= answers
    assert 1 < n < 999


@pytest.mark.parametrize("again", [False, True])
def test_the_columns_of_a_result_are_readable_after_the_store_was_closed(tmp_path, again):
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()) as store:
        store.put_message(rocketstore.Message("T", b"body", queue_id=0, keys=["k"]))
    with rocketstore.open(tmp_path / "store") as store:
        if again:
            store.get_message("T", 0, 0, 1)
        read, found = store.get_message("T", 0, 0, 1), store.query_message("T", "k")
    assert [*read.messages.body] == [*found.messages.body] == [b"body"]

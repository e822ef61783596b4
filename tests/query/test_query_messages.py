"""Queries of a store by key, tag and id: verified on the records, and honest about what they may have missed."""

import errno
import os
import random
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import reference
from reference import message_store as oracle
from reference.commit_log import CommitLog, read_files
from reference.index_file import IndexFile, IndexService
from reference.java import LONG_MAX, java_decode
from reference.message_store import FIRST_INDEX_NAME, make_store
from reference.record import BORN_V6, ROLLBACK
from support import stores

import rocketstore
from rocketstore.errors import DiskReadError
from rocketstore.query import coverage as coverage_module
from rocketstore.query import file_times

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no queue of topic")  # of queries that shall find nothing
SLOTS, ITEMS = 97, 400
T0 = 1_700_000_000_000


def message(key=None, *, at=0, **fields):
    """Arguments of build_record: KEYS, and a store time of so many ms after T0."""
    properties = {"KEYS": key} if key else {}
    return {"properties": properties, "store_timestamp": T0 + at, **fields}


def store_of(root, records, **options):
    log = make_store(root, records, **options)
    return rocketstore.open(root), log


def offsets_of(result):
    return result.messages.phy_offset.tolist()


def query(store, key, *args, topic="TopicTest", **options):
    return offsets_of(store.query_message(topic, key, *args, **options))


def has_key(record, key, index_type=None):
    """What a query looks for; properties: a dict."""
    properties = record.properties
    if index_type == "T":
        return properties.get("TAGS") == key
    words = [] if index_type == "U" else [word for word in properties.get("KEYS", "").split(" ") if word]
    return key in words or properties.get("UNIQ_KEY") == key


def brute_force(log, topic, key, max_num=None, begin=0, end=LONG_MAX, index_type=None):
    """Physical offsets of the matching records with store times from begin to before end, newest first."""
    return [
        offset
        for offset, record in reversed(log.records)
        if record.topic == topic
        and begin <= record.store_timestamp < end
        and record.sys_flag & ROLLBACK != ROLLBACK
        and has_key(record, key, index_type)
    ][:max_num]


def write_index(root, *files):
    """Make these the index files of a store."""
    shutil.rmtree(root / "index", ignore_errors=True)
    (root / "index").mkdir()
    for number, file in enumerate(files):
        (root / "index" / str(FIRST_INDEX_NAME + number)).write_bytes(file.data)


@pytest.mark.parametrize("is_lone", [True, False])
def test_a_message_that_may_be_half_written_is_a_reason_and_no_hit(is_lone, tmp_path):
    half = {**message(at=1), "properties": b"KEYS\1k\2x\1\0\0\0"}
    store, log = store_of(tmp_path, [message("k"), half])
    with store:
        assert query(store, "k") == [offset for offset, _ in reversed(log.records)]  # nobody writes it any more
    (tmp_path / "abort").touch()
    with rocketstore.open(tmp_path) as store:
        found = store.query_message("TopicTest", "k") if is_lone else store.query_messages("TopicTest", "k")
        assert (offsets_of(found), bool(found.complete)) == ([0], False)
        assert f"message at {log.records[1][0]}" in found.reasons[-1]
        assert "end in zeros: the record is being written" in found.reasons[-1]


# ---- RocketMQ's own answers --------------------------------------------------------------------------------


class Golden:
    def __init__(self, name, root):
        self.name, self.root = name, root
        verify = stores.settings(name).get("force_verify_prop_crc", False)
        self.log = CommitLog(read_files(root / "commitlog"), force_verify_prop_crc=verify)


@pytest.fixture(scope="module", params=stores.NAMES)
def golden(request, tmp_path_factory):
    stores.need_codecs(request.param)
    return Golden(request.param, stores.unpack(request.param, tmp_path_factory.mktemp("golden")))


def test_every_query_gives_the_records_that_have_the_key_and_no_other(golden):
    with rocketstore.open(golden.root) as store:
        for row in stores.queries(golden.name):
            asked = [row[field] for field in ("topic", "key", "max", "begin", "end")]
            found = store.query_message(*asked, index_type=row.get("type"))
            everything = brute_force(golden.log, *asked[:2], None, *asked[3:], row.get("type"))
            has_more = len(everything) > row["max"]
            assert offsets_of(found) == everything[: row["max"]], row
            assert (found.complete, found.has_more, bool(found.reasons)) == (not has_more, has_more, has_more), row


def test_nothing_that_rocketmq_finds_is_missing_but_what_lacks_the_key(golden):
    """More is found: what RocketMQ's index times hide, and what collisions pushed out of its max."""
    pushed_out = 0
    with rocketstore.open(golden.root) as store:
        for row in stores.queries(golden.name):
            asked = [row[field] for field in ("topic", "key", "max", "begin")]  # RocketMQ includes the end
            found = offsets_of(store.query_message(*asked, min(row["end"] + 1, LONG_MAX), index_type=row.get("type")))
            theirs = [
                offset
                for offset in row["indexOffsets"]
                if offset in golden.log.record_at
                and (record := golden.log.record_at[offset]).topic == row["topic"]
                and has_key(record, row["key"], row.get("type"))
                and row["begin"] <= record.store_timestamp <= row["end"]
            ]
            missing = set(theirs) - set(found)
            assert not missing or (len(found) == row["max"] and max(missing) < min(found)), row
            pushed_out += bool(missing)
    assert pushed_out <= len(stores.queries(golden.name)) // 10


def test_all_keys_of_a_store_in_one_batch_are_found_as_by_brute_force(golden):
    expected = {}
    for offset, record in reversed(golden.log.records):
        if record.sys_flag & ROLLBACK != ROLLBACK:
            words = {*(record.keys or "").split(" "), record.uniq_key} - {"", None}
            for key in words:
                expected.setdefault((record.topic, key), []).append(offset)
    with rocketstore.open(golden.root) as store:
        topics, keys = map(list, zip(*expected, strict=True))
        found = store.query_messages(topics, keys, 1000)
        assert len(found) == len(expected) > 50
        assert found.complete.all()
        assert found.reasons == []
        for row, phy_offsets in enumerate(expected.values()):
            part = found.phy_offsets[found.offsets[row] : found.offsets[row + 1]].tolist()
            assert part == phy_offsets, (topics[row], keys[row])
        assert found.messages.phy_offset.tolist() == found.phy_offsets.tolist()


def test_every_message_is_found_by_each_of_its_ids(golden):
    """Corner 26."""
    with rocketstore.open(golden.root) as store:
        for offset, record in golden.log.records[::7]:
            assert store.query_message_by_id(record.msg_id).phy_offset == offset
            if record.uniq_key and record.sys_flag & ROLLBACK != ROLLBACK:
                found = offsets_of(store.query_message_by_unique_key(record.topic, record.uniq_key))
                assert found == brute_force(golden.log, record.topic, record.uniq_key, index_type="U")


def test_tags_are_found_by_the_index_of_5_5_0_and_that_of_5_3_3_says_it_has_none(golden):
    tags = sorted({(record.topic, record.tags) for _, record in golden.log.records if record.tags})
    with rocketstore.open(golden.root) as store:
        for topic, tag in tags:
            found = store.query_message_by_tag(topic, tag, 1000)
            if golden.name.endswith("5.5.0"):
                assert offsets_of(found) == brute_force(golden.log, topic, tag, 1000, index_type="T")
                assert found.complete
            else:
                assert not found.complete
                assert any("tags" in reason for reason in found.reasons)


# ---- answers -----------------------------------------------------------------------------------------------


def test_limits_may_be_numbers_of_numpy(tmp_path):
    store, log = store_of(tmp_path, [message("k", at=n) for n in range(5)])
    with store:
        assert query(store, "k", np.uint8(3)) == [offset for offset, _ in log.records[:1:-1]]


def test_messages_come_newest_first_and_limit_counts_them(tmp_path):
    """Corner 69."""
    store, log = store_of(tmp_path, [message("k") for _ in range(10)])
    expected = [offset for offset, _ in reversed(log.records)]
    with store:
        assert query(store, "k") == expected
        assert query(store, "k", 3) == expected[:3]
        assert query(store, "k", 10) == query(store, "k", 11) == expected


def test_times_beyond_a_long_are_refused(tmp_path):
    store, _ = store_of(tmp_path, [message("k")])
    with store:
        for times in ({"since": -(2**63) - 1}, {"until": 2**63}):
            with pytest.raises(ValueError, match=f"{next(iter(times))}=.* is beyond int64"):
                query(store, "k", **times)
        with pytest.raises(ValueError, match=f"{2**63} is beyond int64"):
            store.get_phy_offset_by_time(2**63)


def test_a_key_that_is_not_there_gives_nothing_and_is_complete(tmp_path):
    store, _ = store_of(tmp_path, [message("k")])
    with store:
        found = store.query_message("TopicTest", "no")
        assert (len(found.messages), found.complete, found.reasons) == (0, True, [])
        assert query(store, "") == query(store, " ") == []
        assert query(store, "k", topic="Other") == []


def test_an_answer_of_many_keys_is_indexed_from_both_ends(tmp_path):
    store, _ = store_of(tmp_path, [message("a"), message("a"), message("c")])
    with store:
        found = store.query_messages("TopicTest", ["a", "b", "c"])
        for place in (0, -3):
            assert [len(found[place + i]) for i in range(3)] == [2, 0, 1]
        for place in (3, -4):
            with pytest.raises(IndexError, match=f"key {place} of 3"):
                found[place]


def test_a_message_is_found_by_each_word_of_its_keys_and_by_its_unique_key(tmp_path):
    """Corner 66."""
    records = [{"properties": {"KEYS": "a  b c ", "UNIQ_KEY": "id 1"}}, {"properties": {"KEYS": " "}}, {}]
    store, log = store_of(tmp_path, records)
    first = log.records[0][0]
    with store:
        for key in ("a", "b", "c", "id 1"):
            assert query(store, key) == [first]
        for key in ("a  b c ", "a  b", "", " ", "id"):
            assert query(store, key) == []
        assert query(store, "id 1", index_type="U") == [first]
        assert query(store, "a", index_type="U") == []
        assert query(store, "a", index_type="K") == [first]
        assert offsets_of(store.query_message_by_unique_key("TopicTest", "id 1")) == [first]
        assert offsets_of(store.query_message_by_unique_key("TopicTest", "a")) == []


def test_collisions_are_not_returned_and_do_not_count(tmp_path):  # corner 70: RocketMQ returns them
    """Corner 70."""
    assert reference.java_hash("AaAa") == reference.java_hash("BBBB") == reference.java_hash("AaBB")
    keys = ["AaAa", *["BBBB"] * 70, "AaBB"]
    store, log = store_of(tmp_path, [message(key) for key in keys])
    with store:
        assert query(store, "AaAa") == [log.records[0][0]]
        assert query(store, "AaBB", 1) == [log.records[-1][0]]
        assert query(store, "AaAa", 1) == [log.records[0][0]]
        assert query(store, "BBAa") == []
        assert store.query_message("TopicTest", "BBAa").complete


def test_a_topic_whose_name_collides_is_another(tmp_path):
    store, log = store_of(tmp_path, [message("k", topic="AaAa"), message("k", topic="BBBB")])
    with store:
        assert query(store, "k", topic="AaAa") == [log.records[0][0]]
        assert query(store, "k", topic="BBBB") == [log.records[1][0]]


def test_topic_and_key_are_not_taken_apart_at_another_hash_sign(tmp_path):
    store, log = store_of(tmp_path, [message("b#c", topic="a"), message("c", topic="a#b")])
    with store:
        assert query(store, "b#c", topic="a") == [log.records[0][0]]
        assert query(store, "c", topic="a#b") == [log.records[1][0]]


def test_a_key_that_looks_like_a_tag_is_no_tag(tmp_path):
    """Corner 67."""
    store, log = store_of(tmp_path, [message("T#TagA"), {"properties": {"TAGS": "TagA"}}])
    key, tag = (offset for offset, _ in log.records)
    with store:
        assert query(store, "T#TagA") == [key]
        assert query(store, "TagA", index_type="T") == [tag]
        assert offsets_of(store.query_message_by_tag("TopicTest", "TagA")) == [tag]
        assert query(store, "TagA", topic="TopicTest#T") == []


def test_a_hash_of_the_smallest_int_is_0(tmp_path):
    """Corner 64."""
    key = reference.key_for_hash(-(2**31), "TopicTest#")
    assert reference.java_hash(f"TopicTest#{key}") == -(2**31)
    key = key.replace(" ", "\x01")  # a space would make two keys of it
    store, log = store_of(tmp_path, [{"properties": {"UNIQ_KEY": "k"}}, {"properties": b"UNIQ_KEY\x01x\x02"}])
    with store:
        for _, record in log.records:
            assert query(store, record.uniq_key) == brute_force(log, "TopicTest", record.uniq_key)
        assert query(store, key) == []


def test_keys_beyond_the_bmp_are_found(tmp_path):
    """Corner 65."""
    keys = ["\U0001f600", "订单-1", "é", "\uffff\U0010ffff"]
    store, log = store_of(tmp_path, [message(key) for key in keys])
    with store:
        for key, (offset, _) in zip(keys, log.records, strict=True):
            assert query(store, key) == [offset]


def test_keys_of_malformed_utf_8_are_found_as_java_decodes_them(tmp_path):
    raw = [b"a\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\x80x"]
    store, log = store_of(tmp_path, [{"properties": b"KEYS\x01" + key + b"\x02"} for key in raw])
    with store:
        for key, (offset, record) in zip(raw, log.records, strict=True):
            assert record.keys == java_decode(key)
            found = query(store, record.keys)
            assert offset in found
            assert found == brute_force(log, "TopicTest", record.keys)


def test_the_index_gives_as_many_offsets_as_max_msgs_num_batch_says(tmp_path):
    make_store(tmp_path, [message("k") for _ in range(70)])
    for most in (2, 64, 100):
        with rocketstore.open(tmp_path, config=rocketstore.StoreConfig(max_msgs_num_batch=most)) as store:
            assert len(store.index.query_offset("TopicTest", "k", 1000).phy_offsets) == min(most, 70)
            assert len(store.index.query_offsets("TopicTest", ["k"], 1000).values) == min(most, 70)


def test_a_lone_surrogate_is_a_key_that_no_record_can_have(tmp_path):
    store, _ = store_of(tmp_path, [message("?"), message("\ufffd"), message("k")])
    with store:
        for key in ("\ud800", "k\udfff", "\udc00\ud800"):
            assert query(store, key) == []
        found = store.query_messages("TopicTest", ["\ud800", "k", "?"])
        assert np.diff(found.offsets).tolist() == [0, 1, 1]


def test_two_surrogates_that_are_a_pair_are_one_character_of_a_key(tmp_path):
    store, log = store_of(tmp_path, [message("\U0001f600")])
    pair = "\ud83d\ude00"
    with store:
        assert query(store, pair) == [log.records[0][0]]
        assert len(store.query_messages("TopicTest", [pair]).messages) == 1


def test_an_answer_says_that_a_damaged_record_may_have_been_meant(tmp_path):
    store, log = store_of(tmp_path, [message("k"), message("k"), message("other")])
    damaged = log.records[0][0]
    with store:
        with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(damaged + 4)
            file.write(b"....")
        found = store.query_messages("TopicTest", ["k", "other"])
        assert found.phy_offsets.tolist() == [log.records[1][0], log.records[2][0]]
        assert found.complete.tolist() == [False, True]
        (reason,) = found.reasons
        assert "magic" in reason
        assert not store.query_message("TopicTest", "k").complete


@pytest.mark.parametrize("how", ["missing file", "zeros", "zeros in the last file", "cut file"])
def test_an_answer_says_that_a_message_of_the_index_is_lost_inside_the_log(how, tmp_path):
    store, log = store_of(tmp_path, [message(f"k{i}", body=bytes(1500)) for i in range(6)], file_size=4096)
    lost, record = log.records[4 if how == "zeros in the last file" else 2]
    path = tmp_path / "commitlog" / f"{lost // 4096 * 4096:020d}"
    (tmp_path / "abort").touch()  # after a clean stop, the log would end where its last file is damaged
    with store:
        if how == "missing file":
            path.unlink()
        elif how == "cut file":
            os.truncate(path, lost % 4096)
        else:
            with path.open("r+b") as file:
                file.seek(lost % 4096)
                file.write(bytes(record.total_size))
        found = store.query_messages("TopicTest", ["k0", f"k{log.records.index((lost, record))}", "k5"])
        assert found.phy_offsets.tolist() == [0, log.records[5][0]]
        assert found.complete.tolist() == [True, False, True]
        (reason,) = found.reasons
        assert reason.startswith(f"the index has a message at {lost}: {tmp_path / 'commitlog'}")
        assert (str(path) in reason) == (how != "missing file")


def test_prepared_messages_are_found_and_rolled_back_ones_are_not(tmp_path):
    """Corners 16 and 17."""
    records = [message("k", sys_flag=flag) for flag in (0, 0x4, 0x8, 0xC)]
    store, log = store_of(tmp_path, records)
    with store:
        found = store.query_message("TopicTest", "k")
        assert found.messages.sys_flag.tolist() == [0x8, 0x4, 0]
        assert found.complete
        assert offsets_of(found) == brute_force(log, "TopicTest", "k")


def test_the_messages_have_all_their_fields(tmp_path):
    record = message("k", body=b"hello", at=5, queue_id=3, born_host="[fe80::1]:80", store_host="[::1]:10911")
    store, log = store_of(tmp_path, [record])
    with store:
        (found,) = store.query_message("TopicTest", "k").messages
        assert log.records[0][1].sys_flag & BORN_V6
        assert (found.body, found.queue_id, found.store_timestamp) == (b"hello", 3, T0 + 5)
        assert (found.born_host, found.store_host, found.keys) == ("[fe80::1]:80", "[::1]:10911", ["k"])


# ---- times -------------------------------------------------------------------------------------------------


def test_times_are_those_of_the_records_to_the_millisecond_and_half_open(tmp_path):
    """RocketMQ knows whole seconds after the index file's first message: 999 ms count as the begin of the second.

    Corner 72.
    """
    store, log = store_of(tmp_path, [message("k", at=at) for at in (0, 1, 998, 999, 1000, 1001)])
    times = [record.store_timestamp for _, record in log.records]
    index = oracle.build_index(log, SLOTS, ITEMS)
    theirs = index.query_offset("TopicTest", "k", 64, T0 + 500, T0 + 5000)[0]
    with store:
        for begin in times:
            for end in times:
                assert query(store, "k", 64, begin, end) == brute_force(log, "TopicTest", "k", 64, begin, end)
        ours = query(store, "k", 64, T0 + 500, T0 + 5000)
        assert set(ours) - set(theirs)


def test_an_empty_span_of_time_gives_nothing(tmp_path):
    store, _ = store_of(tmp_path, [message("k", at=0), message("k", at=1000)])
    with store:
        assert query(store, "k", 64, T0 + 1, T0 + 999) == []
        assert query(store, "k", 64, T0 + 1000, T0) == []
        assert len(query(store, "k", 64, -(2**63), 2**63 - 1)) == 2


def test_the_first_item_of_a_rolled_file_is_found_in_spite_of_its_wrong_time(tmp_path):
    """Corner 61."""
    records = [message(f"k{n}", at=60_000 * n) for n in range(12)]
    store, log = store_of(tmp_path, records, index_num=6, index_tags=False)
    index = oracle.build_index(log, SLOTS, 6, index_tags=False)
    assert len(index.files) == 3
    first = 5  # of the second file: its time reads as a minute later than it was
    asked = "TopicTest", f"k{first}", 64, T0 + 60_000 * first - 10, T0 + 60_000 * first + 10
    assert index.query_offset(*asked)[0] == []
    with store:
        assert offsets_of(store.query_message(*asked)) == [log.records[first][0]]


def test_times_before_the_first_message_of_a_file_are_found(tmp_path):
    """A clock that goes back: RocketMQ stores 0 seconds, and its header's end decreases. Corners 62 and 63."""
    store, log = store_of(tmp_path, [message("k", at=at) for at in (100_000, 0, 50_000)])
    with store:
        assert query(store, "k", 64, T0, T0 + 10) == [log.records[1][0]]
        assert query(store, "k", 64, T0 + 60_000, T0 + 200_000) == [log.records[0][0]]


def test_an_older_file_is_searched_whatever_the_times_of_the_newer_ones(tmp_path):
    """Corner 71."""
    records = [message("k", at=at) for at in (900_000, 901_000, 0, 1000, 500_000, 501_000)]
    store, log = store_of(tmp_path, records, index_num=3)  # two items a file
    with store:
        for begin, end in ((890_000, 910_000), (0, 2000), (400_000, 600_000)):
            expected = brute_force(log, "TopicTest", "k", 64, T0 + begin, T0 + end)
            assert len(expected) == 2
            assert query(store, "k", 64, T0 + begin, T0 + end) == expected


# ---- duplicates and chains ---------------------------------------------------------------------------------


def test_a_message_that_was_dispatched_twice_is_returned_once(tmp_path):
    """Corner 68."""
    store, log = store_of(tmp_path, [message("k") for _ in range(3)])
    index = IndexService(SLOTS, ITEMS)
    for _, record in log.records:
        index.build_index(record)
        index.build_index(record)
    assert len(index.query_offset("TopicTest", "k", 64)[0]) == 6
    write_index(tmp_path, *index.files)
    with store:
        assert query(store, "k") == [offset for offset, _ in reversed(log.records)]
        for most in (1, 2, 3):
            assert len(query(store, "k", most)) == most


def test_duplicates_over_several_files_do_not_take_the_place_of_others(tmp_path):
    store, log = store_of(tmp_path, [message("k"), message("k"), message("k")])
    first, second, third = (offset for offset, _ in log.records)
    old, new = IndexFile(SLOTS, ITEMS), IndexFile(SLOTS, ITEMS)
    for offset in (first, second, second, third, third):
        old.put_key("TopicTest#k", offset, T0)
    new.put_key("TopicTest#k", third, T0)
    write_index(tmp_path, old, new)
    with store:
        assert query(store, "k", 2) == [third, second]
        assert query(store, "k", 3) == [third, second, first]
        assert query(store, "k") == [third, second, first]


def test_max_scan_cuts_a_hot_key_and_says_so(tmp_path):
    """The messages found are still right; they may not be all."""
    records = [message("AaAa"), *(message("BBBB") for _ in range(300)), message("AaAa"), message("cold")]
    store, log = store_of(tmp_path, records, file_size=1 << 18)
    with store:
        cut = store.query_messages("TopicTest", ["AaAa", "cold", "BBBB"], 2, max_scan=50)
        assert (cut.complete.tolist(), cut.has_more.tolist()) == ([False, True, False], [False, False, True])
        assert len(cut.reasons) == 2
        assert "50" in cut.reasons[0]
        assert "limit=2" in cut.reasons[1]
        assert offsets_of(cut)[:1] == [log.records[-2][0]]
        assert np.diff(cut.offsets).tolist() == [1, 1, 2]
        assert "there are more" in repr(cut)
        whole = store.query_messages("TopicTest", ["AaAa"], 2)
        assert whole.complete.all()
        assert offsets_of(whole) == [log.records[-2][0], log.records[0][0]]
        one = store.query_message("TopicTest", "AaAa", 2, max_scan=50)
        assert (offsets_of(one), one.complete, one.reasons) == ([log.records[-2][0]], False, cut.reasons[:1])
        with pytest.raises(ValueError, match="max_scan=0"):
            store.query_message_by_tag("TopicTest", "t", max_scan=0)


def test_all_messages_of_a_key_are_found_and_a_limit_says_if_there_are_more(tmp_path):
    """Corner 69: RocketMQ returns at most 64."""
    store, log = store_of(tmp_path, [message("k") for _ in range(200)], file_size=1 << 18)
    everything = [offset for offset, _ in reversed(log.records)]
    with store:
        for limit in (None, 200, 201):
            found = store.query_message(
                "TopicTest", "k", limit, max_scan=9
            )  # entries of messages that are found are free
            assert (offsets_of(found), found.complete, found.has_more, found.reasons) == (everything, True, False, [])
            assert "200 messages, complete" in repr(found)
            both = store.query_messages("TopicTest", ["k", "none"], limit)
            assert (offsets_of(both), both.complete.tolist()) == (everything, [True, True])
        for limit in (1, 3, 64, 199):
            found = store["TopicTest"].query("k", limit)
            assert (offsets_of(found), found.complete, found.has_more) == (everything[:limit], False, True)
            assert "there are more: a key has more than limit" in repr(found)
            both = store.query_messages("TopicTest", ["none", "k"], limit)
            assert (offsets_of(both), both.complete.tolist()) == (everything[:limit], [True, False])
            assert (both.has_more.tolist(), both.reasons) == ([False, True], found.reasons)


def test_a_chain_of_exactly_max_scan_entries_is_complete(tmp_path):
    store, _ = store_of(tmp_path, [message("AaAa"), *(message("BBBB") for _ in range(63))])
    with store:
        found = store.query_messages("TopicTest", ["AaAa"], 64, max_scan=64)
        assert found.complete.all()
        assert len(found.phy_offsets) == 1


def test_a_single_entry_is_searched_and_an_empty_file_is_not(tmp_path):
    """Corner 73."""
    store, log = store_of(tmp_path, [message("k")], index_tags=False)
    offset = log.records[0][0]
    one, none = IndexFile(SLOTS, ITEMS), IndexFile(SLOTS, ITEMS, offset, T0)
    one.put_key("TopicTest#k", offset, T0)
    assert one.index_count == 2
    write_index(tmp_path, one, none)
    with store:
        found = store.query_message("TopicTest", "k")
        assert (offsets_of(found), found.complete) == ([offset], True)


@pytest.mark.parametrize("is_lone", [True, False])
def test_a_message_indexed_during_a_query_is_found_or_reported(is_lone, tmp_path, monkeypatch):
    store, log = store_of(tmp_path, [message("k0"), message("k1", at=1)])
    index = IndexService(SLOTS, ITEMS)
    index.build_index(log.records[0][1])
    write_index(tmp_path, *index.files)
    (path,) = (tmp_path / "index").iterdir()
    name = "select_phy_offset" if is_lone else "select_phy_offsets_by_hash"
    search = getattr(rocketstore.IndexFile, name)

    def search_before_it_is_indexed(*args, **options):
        found = search(*args, **options)
        with rocketstore.IndexFile.open(path, "r+", hash_slot_num=SLOTS, index_num=ITEMS) as writing:
            writing.put_key("TopicTest#k1", log.records[1][0], T0 + 1)
        return found

    monkeypatch.setattr(rocketstore.IndexFile, name, search_before_it_is_indexed)
    with store:
        ask = store.query_message if is_lone else store.query_messages
        found = ask("TopicTest", "k1")
        assert (offsets_of(found), bool(found.complete)) == ([], False)
        found = ask("TopicTest", "k1")
        assert (offsets_of(found), bool(found.complete)) == ([log.records[1][0]], True)


def test_entries_beyond_the_end_of_the_log_are_skipped(tmp_path):
    """Corner 80."""
    store, log = store_of(tmp_path, [message("k")])
    index = oracle.build_index(log, SLOTS, ITEMS)
    for offset in (log.max_offset, 65_000, 65_536, 10**12, 2**63 - 1, -1, -(2**63), log.records[0][0] + 1):
        index.files[0].put_key("TopicTest#k", offset, T0)
    write_index(tmp_path, *index.files)
    with store:
        assert query(store, "k") == [log.records[0][0]]


def test_entries_of_expired_messages_are_skipped(tmp_path):
    """Corner 78."""
    records = [message("k", body=bytes(1500)) for _ in range(8)]
    store, log = store_of(tmp_path, records, file_size=4096)
    store.close()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with rocketstore.open(tmp_path) as store:
        found = store.query_message("TopicTest", "k")
        assert offsets_of(found) == [offset for offset, _ in reversed(log.records) if offset >= 4096]
        assert found.complete


@pytest.mark.parametrize("when", ["found", "read"])
def test_messages_that_expire_after_they_were_found_are_left_out(when, tmp_path, monkeypatch):
    records = [message(f"k{i % 2}", at=i, body=bytes(1500)) for i in range(6)]  # two in a file of 4096 bytes
    store, log = store_of(tmp_path, records, file_size=4096)
    offsets = [offset for offset, _ in log.records]
    with store:
        first = tmp_path / "commitlog" / f"{0:020d}"
        found = store.query_messages("TopicTest", ["k0", "none", "k1"])
        assert found.phy_offsets.tolist() == [offsets[i] for i in (4, 2, 0, 5, 3, 1)]
        if when == "found":
            first.unlink()
            store.commit_log.file_run.close()  # as if no query had mapped it
            store.commit_log.file_run.__init__(store.commit_log.directories)
        assert found[2].phy_offset.tolist() == [offsets[i] for i in ((5, 3) if when == "found" else (5, 3, 1))]
        expected = offsets[2:] if when == "found" else offsets
        assert sorted(found.messages.phy_offset.tolist()) == sorted(found.phy_offsets.tolist()) == expected
        assert found.offsets.tolist() == ([0, 2, 2, 4] if when == "found" else [0, 3, 3, 6])
        assert len(found[1]) == 0


def test_a_message_that_is_damaged_after_it_was_found_is_an_error(tmp_path):
    store, _ = store_of(tmp_path, [message("k", at=i) for i in range(2)])
    with store:
        found = store.query_messages("TopicTest", ["k"])
        path = tmp_path / "commitlog" / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[4:8] = b"\xff" * 4
        path.write_bytes(data)
        with pytest.raises(rocketstore.CorruptFileError, match="magic"):
            found.messages  # noqa: B018


def test_a_name_that_is_no_number_in_the_index_is_skipped(tmp_path):
    """Corner 74."""
    store, log = store_of(tmp_path, [message("k")])
    (tmp_path / "index" / "notes.txt").write_text("hello")
    with store:
        assert query(store, "k") == [log.records[0][0]]


def test_an_index_that_is_renamed_while_the_store_is_read_is_none(tmp_path):
    store, log = store_of(tmp_path, [message("k")])
    with store:
        assert query(store, "k") == [log.records[0][0]]
        (tmp_path / "index").rename(tmp_path / "old")
        assert store.index is None
        assert store.query_message("TopicTest", "k").reasons == ["the store has no index"]
        (tmp_path / "old").rename(tmp_path / "index")
        assert query(store, "k") == [log.records[0][0]]


def test_an_index_that_is_renamed_in_another_thread_s_call_is_the_one_that_was_opened(tmp_path, monkeypatch):
    refresh = rocketstore.IndexService.refresh
    store, log = store_of(tmp_path, [message("k")])

    def refresh_before_the_other(index):
        refresh(index)
        monkeypatch.setattr(rocketstore.IndexService, "refresh", refresh)
        (tmp_path / "index").rename(tmp_path / "old")
        assert store.index is None
        (tmp_path / "old").rename(tmp_path / "index")

    with store:
        index = store.index
        monkeypatch.setattr(rocketstore.IndexService, "refresh", refresh_before_the_other)
        assert query(store, "k") == [log.records[0][0]]
        assert store.index is index
    with pytest.raises(rocketstore.StoreClosedError):
        index.query_offset("TopicTest", "k")


def test_an_index_that_is_renamed_while_it_is_opened_is_none(tmp_path, monkeypatch):
    real, index = os.scandir, tmp_path / "index"

    def rename_and_list(directory):
        if Path(directory) == index:
            index.rename(tmp_path / "old")
        return real(directory)

    store, _ = store_of(tmp_path, [message("k")])
    with store:
        monkeypatch.setattr(os, "scandir", rename_and_list)
        assert store.index is None
        assert not index.exists()


def test_an_index_whose_first_file_is_being_made_gets_the_geometry_that_was_saved(tmp_path):
    config = rocketstore.StoreConfig(max_hash_slot_num=SLOTS, max_index_num=ITEMS, mapped_file_size_commit_log=1 << 20)
    with rocketstore.open(tmp_path, "a", config=config) as writer:
        writer.put_message(rocketstore.Message("T", b"no key"))
    (path,) = (tmp_path / "index").iterdir()
    data = path.read_bytes()
    path.write_bytes(b"")
    with rocketstore.open(tmp_path) as store:
        assert len(store.index.files) == 0
        path.write_bytes(data)
        assert [file.index_num for file in store.index.files] == [ITEMS]


def test_an_index_of_messages_without_keys_is_complete(tmp_path):
    """RocketMQ makes the file with the first message, and counts it as one entry though the bytes are 0.

    Corners 57 and 58.
    """
    make_store(tmp_path, [{}, {}])
    config = rocketstore.StoreConfig(max_hash_slot_num=SLOTS, max_index_num=ITEMS)
    with rocketstore.open(tmp_path, config=config) as store:
        (file,) = store.index.files
        assert (len(file), file.header.index_count) == (0, 1)
        assert file.path.read_bytes()[36:40] == bytes(4)
        found = store.query_message("TopicTest", "k")
        assert (len(found.messages), found.complete) == (0, True)


def test_a_full_file_has_one_entry_less_than_its_number_of_items(tmp_path):
    """Corner 59."""
    store, log = store_of(tmp_path, [message(f"k{n}") for n in range(7)], index_num=4, index_tags=False)
    with store:
        assert [len(file) for file in store.index.files] == [3, 3, 1]
        for n, (offset, _) in enumerate(log.records):
            assert query(store, f"k{n}") == [offset]


def test_after_a_crash_the_index_is_read_without_repair(tmp_path):
    """A broker would delete the index. Corners 76 and 77."""
    store, log = store_of(tmp_path, [message(f"k{n}") for n in range(7)], index_num=4, index_tags=False)
    store.close()
    (tmp_path / "abort").write_bytes(b"123")
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    with rocketstore.open(tmp_path) as other:
        for n, (offset, _) in enumerate(log.records):
            assert query(other, f"k{n}") == [offset]
        assert len(list((tmp_path / "index").iterdir())) == 3


# ---- what may be missing -----------------------------------------------------------------------------------


def test_without_an_index_nothing_is_found_and_it_is_reported(tmp_path):
    store, _ = store_of(tmp_path, [message("k")])
    shutil.rmtree(tmp_path / "index")
    with store:
        found = store.query_message("TopicTest", "k")
        assert (len(found.messages), found.complete, found.reasons) == (0, False, ["the store has no index"])


def indexed(log, wanted, index_tags=True):
    """An index of some of the records."""
    index = IndexService(SLOTS, ITEMS, index_tags=index_tags)
    for number, (_, record) in enumerate(log.records):
        if number in wanted:
            index.build_index(record)
    return index.files


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        (range(3, 10), "index starts late"),
        (range(7), "index ends early"),
    ],
)
def test_an_index_that_does_not_cover_the_log_says_from_where_to_where(tmp_path, wanted, missing):
    store, log = store_of(tmp_path, [message(f"k{n}") for n in range(10)])
    write_index(tmp_path, *indexed(log, wanted))
    begin, end = (0, log.records[3][0]) if missing == "index starts late" else (log.records[7][0], log.max_offset)
    with store:
        for n in range(10):
            found = store.query_message("TopicTest", f"k{n}")
            assert not found.complete
            assert found.reasons == [f"messages with keys from offset {begin} to {end} are not indexed"]
            assert offsets_of(found) == ([log.records[n][0]] if n in wanted else [])


def test_an_index_file_missing_in_the_middle_is_reported(tmp_path):
    store, log = store_of(tmp_path, [message(f"k{n}") for n in range(10)], index_num=4, index_tags=False)
    paths = sorted((tmp_path / "index").iterdir())
    assert len(paths) == 4  # of three items
    paths[1].unlink()
    begin, end = log.records[3][0], log.records[6][0]
    with store:
        for n in range(10):
            found = store.query_message("TopicTest", f"k{n}")
            assert found.reasons == [f"messages with keys from offset {begin} to {end} are not indexed"]
            assert (offsets_of(found) == [log.records[n][0]]) == (n not in (3, 4, 5))


def test_two_parts_of_the_log_that_are_not_indexed_are_two_reasons(tmp_path):
    store, log = store_of(tmp_path, [message(f"k{n}") for n in range(10)])
    write_index(tmp_path, *indexed(log, range(2, 4)), *indexed(log, range(6, 10)))
    with store:
        assert len(store.query_message("TopicTest", "k2").reasons) == 2


def two_keys(n):
    return message(f"k{n} m{n}")


@pytest.mark.parametrize(("lost", "split"), [(1, 1), (3, 4)])
def test_a_message_whose_other_keys_were_in_a_lost_file_is_reported(lost, split, tmp_path):
    store, log = store_of(tmp_path, [two_keys(n) for n in range(6)], index_num=4, index_tags=False)
    paths = sorted((tmp_path / "index").iterdir())
    assert len(paths) == 4
    paths[lost].unlink()
    with store:
        found = store.query_message("TopicTest", f"m{split}")
        assert (offsets_of(found), found.complete) == ([], False)
        assert f"from offset {log.records[split][0]} to" in str(found.reasons)


def test_a_message_whose_keys_are_in_the_next_file_too_is_complete(tmp_path):
    store, _ = store_of(tmp_path, [two_keys(n) for n in range(6)], index_num=4, index_tags=False)
    with store:
        assert all(store.query_message("TopicTest", f"m{n}").complete for n in range(6))


def test_keys_of_a_message_in_three_files_are_reported_when_the_last_is_lost(tmp_path):
    records = [{"properties": {"KEYS": "a b c"}}, message("x")]
    store, log = store_of(tmp_path, records, index_num=2, index_tags=False)  # one item a file
    with store:
        assert store.query_message("TopicTest", "c").complete
    sorted((tmp_path / "index").iterdir())[2].unlink()
    with rocketstore.open(tmp_path) as store:
        found = store.query_message("TopicTest", "c")
        assert found.reasons == [f"messages with keys from offset 0 to {log.records[1][0]} are not indexed"]
        assert query(store, "a") == query(store, "b") == [0]


def test_the_last_message_of_a_full_file_is_looked_up_once(tmp_path, monkeypatch):
    store, _ = store_of(tmp_path, [two_keys(n) for n in range(5)], index_num=11, index_tags=False)
    hashes_at, asked = coverage_module.hashes_at, []
    monkeypatch.setattr(coverage_module, "hashes_at", lambda *args: asked.append(args) or hashes_at(*args))
    with store:
        assert all(store.query_message("TopicTest", "m4").complete for _ in range(3))
    assert len(asked) == 1


def test_messages_without_keys_need_no_index(tmp_path):
    """So do those that were rolled back."""
    records = [message(), message("k"), message(), message("x", sys_flag=0xC)]
    store, log = store_of(tmp_path, records)
    write_index(tmp_path, *indexed(log, [1]))
    with store:
        found = store.query_message("TopicTest", "k")
        assert (offsets_of(found), found.complete) == ([log.records[1][0]], True)


def test_an_index_without_tags_says_so_if_asked_for_one(tmp_path):
    """Releases before 5.4.0 do not index tags."""
    records = [{"properties": {"KEYS": "k", "TAGS": "TagA"}}]
    store, _ = store_of(tmp_path, records, index_tags=False)
    with store:
        assert store.query_message("TopicTest", "k").complete
        found = store.query_message_by_tag("TopicTest", "TagA")
        assert not found.complete
        assert any("tags" in reason for reason in found.reasons)
        assert offsets_of(found) == []


def test_tags_whose_entry_is_in_the_next_file_are_in_the_index(tmp_path):
    records = [{"properties": {"KEYS": "k", "TAGS": "TagA"}}]
    store, log = store_of(tmp_path, records, index_num=2)  # one item a file
    with store:
        found = store.query_message_by_tag("TopicTest", "TagA")
        assert (offsets_of(found), found.complete, found.reasons) == ([log.records[0][0]], True, [])


def test_an_index_without_tags_that_grows_says_so_from_its_first_message_with_tags_on(tmp_path):
    store, log = store_of(tmp_path, [message("k"), {"properties": {"KEYS": "k", "TAGS": "TagA"}}], index_tags=False)
    (path,) = (tmp_path / "index").iterdir()
    whole = path.read_bytes()
    path.write_bytes(indexed(log, [0], index_tags=False)[0].data)
    with store:
        assert "entries of tags" not in str(store.query_message_by_tag("TopicTest", "TagA").reasons)
        path.write_bytes(whole)
        assert store.query_message_by_tag("TopicTest", "TagA").reasons == [f"{path.name} lacks entries of tags"]


def test_messages_that_were_looked_through_for_tags_are_not_again_when_the_index_grows(tmp_path, monkeypatch):
    records = [*(message("k") for _ in range(4)), {"properties": {"KEYS": "k", "TAGS": "TagA"}}]
    store, log = store_of(tmp_path, records, index_tags=False)
    (path,) = (tmp_path / "index").iterdir()
    offsets = [offset for offset, _ in log.records]
    indexable, ranges, told = coverage_module.indexable, [], []

    def noted(log, begin, end, index_type):
        ranges.append((begin, end))
        return indexable(log, begin, end, index_type)

    monkeypatch.setattr(coverage_module, "indexable", noted)
    with store:
        for count in (3, 4, 5):
            path.write_bytes(indexed(log, range(count), index_tags=False)[0].data)
            told.append("entries of tags" in str(store.query_message_by_tag("TopicTest", "TagA").reasons))
    assert told == [False, False, True]
    indexed_parts = [part for part in ranges if part[1] <= offsets[-1] + 1]
    assert indexed_parts == [(offsets[n], offsets[m] + 1) for n, m in ((0, 2), (2, 3), (3, 4))]


def test_an_index_file_that_is_replaced_by_one_with_tags_is_searched_again(tmp_path):
    store, log = store_of(tmp_path, [{"properties": {"KEYS": "k", "TAGS": "TagA"}}], index_tags=False)
    (path,) = (tmp_path / "index").iterdir()
    with store:
        for index_tags in (False, True, False):
            (tmp_path / "new").write_bytes(indexed(log, [0], index_tags)[0].data)
            (tmp_path / "new").replace(path)
            assert store.query_message_by_tag("TopicTest", "TagA").complete == index_tags


def test_tags_in_a_lost_file_are_reported_and_keys_are_complete(tmp_path):
    records = [{"properties": {"KEYS": f"k{n}", "TAGS": "TagA"}} for n in range(2)]
    store, log = store_of(tmp_path, records, index_num=4)
    max((tmp_path / "index").iterdir()).unlink()
    with store:
        assert store.query_message("TopicTest", "k1").complete
        found = store.query_message_by_tag("TopicTest", "TagA")
        assert (offsets_of(found), found.complete) == ([log.records[0][0]], False)


def tagged(n):
    return {"properties": {"KEYS": f"k{n}", "TAGS": f"Tag{n}"}}


@pytest.mark.parametrize("after", [0, 1, 3000])
def test_an_index_that_an_older_release_went_on_with_lacks_tags(after, tmp_path):
    """Also if messages without tags are behind the last with them, many of which are looked through in parts."""
    records = [tagged(n) for n in range(3)] + [message("x")] * after
    store, log = store_of(tmp_path, records, file_size=1 << 20)
    index = IndexService(SLOTS, 4000)
    for number, (_, record) in enumerate(log.records):
        index.index_tags = number < 2
        index.build_index(record)
    write_index(tmp_path, *index.files)
    with store:
        for n in range(3):
            assert not store.query_message_by_tag("TopicTest", f"Tag{n}").complete
        assert store.query_message("TopicTest", "k2").complete


def test_tags_are_asked_for_again_where_a_file_has_grown(tmp_path):
    store, log = store_of(tmp_path, [tagged(n) for n in range(4)])
    (path,) = (tmp_path / "index").iterdir()
    index, told = IndexService(SLOTS, ITEMS), []
    with store:
        for number, (_, record) in enumerate(log.records):
            index.index_tags = number < 2
            index.build_index(record)
            path.write_bytes(index.files[0].data)
            told.append("entries of tags" in str(store.query_message_by_tag("TopicTest", "Tag0").reasons))
    assert told == [False, False, True, True]


def test_messages_with_tags_alone_that_are_not_indexed_are_a_reason_for_tags(tmp_path):
    records = [{"properties": {"TAGS": "TagA"}}, {"properties": {"KEYS": "k", "TAGS": "TagA"}}]
    store, log = store_of(tmp_path, records)
    write_index(tmp_path, *indexed(log, [1]))
    with store:
        assert store.query_message("TopicTest", "k").complete
        assert not store.query_message_by_tag("TopicTest", "TagA").complete


def test_a_store_that_grows_reports_records_that_are_not_indexed_yet(tmp_path):
    grown, live = tmp_path / "grown", tmp_path / "live"
    store_of(grown, [message(f"k{n}") for n in range(5)])[0].close()
    store, log = store_of(live, [message(f"k{n}") for n in range(3)])
    with store:
        assert store.query_message("TopicTest", "k2").complete
        with (live / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.write((grown / "commitlog" / f"{0:020d}").read_bytes())
        found = store.query_message("TopicTest", "k4")
        assert not found.complete
        assert f"offset {log.max_offset} " in found.reasons[0]


def test_an_index_that_grows_while_it_is_open_shows_its_new_items(tmp_path):
    store, log = store_of(tmp_path, [message("k") for _ in range(6)])
    paths = sorted((tmp_path / "index").iterdir())
    whole = paths[0].read_bytes()
    paths[0].write_bytes(indexed(log, range(3))[0].data)
    with store:
        assert len(query(store, "k")) == 3
        with paths[0].open("r+b") as file:
            file.write(whole)
        assert len(query(store, "k")) == 6


def test_an_index_file_that_comes_while_the_store_is_open_is_seen(tmp_path):
    store, _ = store_of(tmp_path, [message("k") for _ in range(6)], index_num=4, index_tags=False)
    new = max((tmp_path / "index").iterdir())
    data = new.read_bytes()
    new.unlink()
    with store:
        assert len(query(store, "k")) == 3
        new.write_bytes(data)
        found = store.query_message("TopicTest", "k")
        assert (len(found.messages), found.complete) == (6, True)


# ---- batches -----------------------------------------------------------------------------------------------


def random_store(root, rng):
    """Keys of few letters, so that they collide, repeat and share slots."""
    words = ["Aa", "BB", "AaAa", "BBBB", "AaBB", "k1", "k2", "订", "\U0001f600", "T#TagA"]
    records = []
    for _ in range(150):
        properties = {}
        if rng.random() < 0.8:
            properties["KEYS"] = " ".join(rng.choices(words, k=rng.randrange(1, 4)))
        if rng.random() < 0.5:
            properties["UNIQ_KEY"] = f"{rng.choice(words)}{rng.randrange(20)}"
        if rng.random() < 0.5:
            properties["TAGS"] = rng.choice(["TagA", "Aa", "BB"])
        records.append(
            {
                "topic": rng.choice(["T1", "T2"]),
                "properties": properties,
                "sys_flag": rng.choice([0, 0, 0x4, 0x8, 0xC]),
                "store_timestamp": T0 + rng.randrange(-5000, 5000),
            }
        )
    return words, make_store(root, records, file_size=8192, hash_slot_num=7, index_num=60)


def test_random_queries_are_those_of_brute_force(tmp_path, seed):
    rng = random.Random(seed)
    words, log = random_store(tmp_path, rng)
    with rocketstore.open(tmp_path) as store:
        for _ in range(300):
            key = rng.choice(words) + (str(rng.randrange(20)) if rng.random() < 0.3 else "")
            begin, end = (T0 + rng.choice([-10_000, *range(-4000, 4000, 500), 10_000]) for _ in range(2))
            index_type = rng.choice([None, "K", "U", "T"])
            topic, limit = rng.choice(["T1", "T2", "T3"]), rng.choice([1, 2, 5, 64, None])
            everything = brute_force(log, topic, key, None, begin, end, index_type)
            found = store.query_message(topic, key, limit, begin, end, index_type=index_type)
            assert offsets_of(found) == everything[:limit], (topic, key, limit, begin, end, index_type)
            assert found.complete == (limit is None or len(everything) <= limit)


def test_a_batch_of_100_keys_is_100_single_queries(tmp_path, seed):
    rng = random.Random(seed)
    words, _ = random_store(tmp_path, rng)
    keys = [rng.choice(words) + rng.choice(["", str(rng.randrange(20))]) for _ in range(100)]
    topics = [rng.choice(["T1", "T2"]) for _ in keys]
    with rocketstore.open(tmp_path) as store:
        for most in (1, 3, 64):
            for column in ("T1", topics):
                found = store.query_messages(column, keys, most, T0 - 3000, T0 + 3000)
                assert len(found) == len(found.complete) == 100
                for row, key in enumerate(keys):
                    topic = column if isinstance(column, str) else column[row]
                    expected = query(store, key, most, T0 - 3000, T0 + 3000, topic=topic)
                    assert found[row].phy_offset.tolist() if len(found[row]) else expected == []
                    part = found.phy_offsets[found.offsets[row] : found.offsets[row + 1]].tolist()
                    assert part == expected


@pytest.mark.parametrize("opens_all", [True, False])
def test_threads_share_the_keys_and_give_the_answer_of_one(opens_all, tmp_path, monkeypatch):
    records = [message(f"k{i % 40}", at=i) for i in range(300)]
    store, log = store_of(tmp_path, records, index_num=60)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(log.records[7][0] + 4)
        file.write(b"....")
    keys = [f"k{i % 45}" for i in range(101)]
    if not opens_all:
        monkeypatch.setattr(coverage_module, "MAX_FILES", 0)
    with store:
        assert len(store.index.files) > 3
        for limit, max_scan in [(None, 100), (3, 100), (1, 1), (2, 1)]:
            one, *others = (
                store.query_messages("TopicTest", keys, limit, max_scan=max_scan, threads=threads)
                for threads in (1, 2, 7, 101)
            )
            for other in others:
                for name in ("phy_offsets", "offsets", "complete", "has_more"):
                    assert np.array_equal(getattr(one, name), getattr(other, name)), name
                assert one.reasons == other.reasons


def searched_files(monkeypatch):
    """The names of the index files that are searched from now on."""
    names, search = [], rocketstore.IndexFile.select_phy_offsets_by_hash

    def named(self, *args, **options):
        names.append(self.path.name)
        return search(self, *args, **options)

    monkeypatch.setattr(rocketstore.IndexFile, "select_phy_offsets_by_hash", named)
    return names


def test_index_files_of_other_times_are_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(file_times, "KEYS_FOR_ITEM", 1)
    monkeypatch.setattr(file_times, "ITEMS_AT_ONCE", 25)
    records = [message(f"k{i % 40}", at=1000 * i) for i in range(300)]
    records[70] = message("k30", at=250_000)  # the clock was wrong for one message in the second file
    store, log = store_of(tmp_path, records, index_num=60)
    keys = [f"k{i}" for i in range(40)]
    with store:
        names = searched_files(monkeypatch)
        # The newest file is always searched.
        for begin, end, count in [(245_000, 255_000, 3), (0, 10_000, 2), (400_000, 500_000, 1), (0, 400_000, 6)]:
            expected = [brute_force(log, "TopicTest", key, None, T0 + begin, T0 + end) for key in keys]
            for number in range(4):
                names.clear()
                found = store.query_messages("TopicTest", keys, None, T0 + begin, T0 + end)
                assert [part.phy_offset.tolist() if len(part) else [] for part in found] == expected
                assert found.complete.all()
                is_first = number == 0 and begin == 245_000  # the times of the files are not known yet
                assert len(names) == (6 if is_first else count)


def test_queries_in_threads_share_the_times_of_index_files(tmp_path, monkeypatch):
    monkeypatch.setattr(file_times, "KEYS_FOR_ITEM", 0)
    monkeypatch.setattr(file_times, "MAX_KEPT", 1)  # known times are forgotten all the time
    store, log = store_of(tmp_path, [message(f"k{i % 40}", at=1000 * i) for i in range(300)], index_num=60)
    keys, times = [f"k{i}" for i in range(40)], (T0 + 245_000, T0 + 255_000)
    with store, ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(store.query_messages, "TopicTest", keys, None, *times) for _ in range(40)]
        expected = [brute_force(log, "TopicTest", key, None, *times) for key in keys]
        for future in futures:
            found = future.result()
            assert [part.phy_offset.tolist() if len(part) else [] for part in found] == expected
            assert found.complete.all()


@pytest.mark.parametrize("how", ["record", "slot", "chain"])
def test_an_index_file_with_damage_is_searched_at_any_time(how, tmp_path, monkeypatch):
    monkeypatch.setattr(file_times, "KEYS_FOR_ITEM", 0)
    store, log = store_of(tmp_path, [message(f"k{i}", at=1000 * i) for i in range(300)], index_num=60)
    path = tmp_path / "index" / str(FIRST_INDEX_NAME + 1)
    data = path.read_bytes()
    used = next(place for place in range(40, 40 + 4 * SLOTS, 4) if any(data[place : place + 4]))
    link = 40 + 4 * SLOTS + 20 * 5 + 16  # of item 5
    damaged, place, value = {
        "record": (tmp_path / "commitlog" / f"{0:020d}", log.records[70][0] + 4, b"...."),
        "slot": (path, used, struct.pack(">i", 61)),
        "chain": (path, link, struct.pack(">i", (data[link + 3] + 1) % 5)),
    }[how]
    with store:
        with damaged.open("r+b") as file:
            file.seek(place)
            file.write(value)
        names = searched_files(monkeypatch)
        for _ in range(3):
            store.query_messages("TopicTest", ["k5"], None, T0 + 250_000, T0 + 255_000)
            assert path.name in names
            assert str(FIRST_INDEX_NAME) not in names
            names.clear()


@pytest.mark.parametrize("unreadable", ["index", "log"])
def test_an_index_file_whose_times_cannot_be_read_is_searched(unreadable, tmp_path, monkeypatch):
    find_messages = rocketstore.CommitLog.find_messages

    def fail(*args):
        raise DiskReadError("file", 4096, errno.EIO)

    def find_or_fail(self, offsets, **options):
        return fail() if options["columns"] == ["store_timestamp"] else find_messages(self, offsets, **options)

    monkeypatch.setattr(file_times, "KEYS_FOR_ITEM", 0)
    if unreadable == "index":
        monkeypatch.setattr(rocketstore.IndexFile, "has_sound_chains", fail)
    else:
        monkeypatch.setattr(rocketstore.CommitLog, "find_messages", find_or_fail)
    store, _ = store_of(tmp_path, [message(f"k{i}", at=1000 * i) for i in range(300)], index_num=60)
    with store:
        names = searched_files(monkeypatch)
        for _ in range(2):
            assert store.query_messages("TopicTest", ["k5"], None, T0 + 250_000, T0 + 255_000).complete.all()
            assert len(names) == len(store.index.files)
            names.clear()


def test_records_of_other_keys_and_times_are_read_once(tmp_path, monkeypatch):
    store, log = store_of(tmp_path, [message("AaAa", at=1), message("BBBB", at=1), message("AaAa", at=5000)])
    with store:
        assert store.query_messages("TopicTest", ["AaAa"]).complete.all()
        monkeypatch.setattr(rocketstore.CommitLog, "find_messages", None)  # would read the records again
        found = store.query_messages("TopicTest", ["AaAa", "BBBB"], None, T0, T0 + 10)
        assert found.phy_offsets.tolist() == [log.records[0][0], log.records[1][0]]
        assert found.complete.all()


def test_columns_of_keys_may_be_numpy_arrow_or_pandas(tmp_path):
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    store, log = store_of(tmp_path, [message("a"), message("b"), message("a", topic="Other")])
    keys, topics = ["a", "b", "c"], ["Other", "TopicTest", "TopicTest"]
    with store:
        for kind in (list, np.array, pa.array, pd.Series, lambda column: np.array(column, object)):
            found = store.query_messages(kind(topics), kind(keys))
            assert found.phy_offsets.tolist() == [log.records[2][0], log.records[1][0]]
            assert found.offsets.tolist() == [0, 1, 2, 2]
            assert (found.offsets.dtype, found.phy_offsets.dtype, found.complete.dtype) == (np.int64, np.int64, bool)


def test_columns_may_be_arrow_streams_that_are_read_only_once(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    store, log = store_of(tmp_path, [message(f"k{i}") for i in range(4)])

    class Once:
        def __init__(self, *chunks):
            self.chunks = [pa.chunked_array(list(chunks), pa.string())]

        def __arrow_c_stream__(self, requested_schema=None):
            return self.chunks.pop().__arrow_c_stream__(requested_schema)

    with store:
        found = store.query_messages(Once(["TopicTest"], ["TopicTest"] * 2), Once(["k3"], [], ["no", "k1"]))
        assert (found.phy_offsets.tolist(), found.offsets.tolist()) == (
            [log.records[3][0], log.records[1][0]],
            [0, 1, 1, 2],
        )


def test_one_key_twice_in_a_batch_has_its_messages_twice(tmp_path):
    store, log = store_of(tmp_path, [message("a")])
    with store:
        found = store.query_messages("TopicTest", ["a", "b", "a"])
        assert found.phy_offsets.tolist() == [log.records[0][0]] * 2
        assert found.messages.phy_offset.tolist() == [log.records[0][0]] * 2
        assert [len(found[row]) for row in range(3)] == [1, 0, 1]


def test_a_batch_of_no_keys_is_empty(tmp_path):
    store, _ = store_of(tmp_path, [message("a")])
    with store:
        found = store.query_messages("TopicTest", [])
        assert (len(found), len(found.messages), found.offsets.tolist()) == (0, 0, [0])
        assert "0 keys" in repr(found)


@pytest.mark.parametrize("threads", [2**31 - 1, 2**31, 2**64])
def test_more_threads_than_keys_are_as_many_as_keys(tmp_path, threads):
    store, log = store_of(tmp_path, [message("k")])
    with store:
        found = store.query_messages("TopicTest", ["k", "x"], threads=threads)
        assert found.phy_offsets.tolist() == [log.records[0][0]]
        assert len(store.query_messages("TopicTest", [], threads=threads)) == 0


def test_a_value_that_is_no_key_or_no_number_is_refused(tmp_path):
    store, _ = store_of(tmp_path, [message("a")])
    with store:
        for keys in ([None], ["a", None], [1], [b"a"]):
            with pytest.raises((TypeError, ValueError)):
                store.query_messages("TopicTest", keys)
        for topics in (["TopicTest"], ["TopicTest"] * 3, [None, "a"]):
            with pytest.raises((TypeError, ValueError)):
                store.query_messages(topics, ["a", "b"])
        assert len(store.query_messages("TopicTest", "a")) == 1
        for options in ({"limit": 0}, {"limit": -1}, {"max_scan": 0}, {"index_type": "X"}):
            with pytest.raises(ValueError, match=next(iter(options))):
                store.query_messages("TopicTest", ["a"], **options)
        with pytest.raises(TypeError):
            store.query_messages(["TopicTest"], ["a"], index_type="T")


# ---- ids ---------------------------------------------------------------------------------------------------


def test_a_message_is_found_by_its_offset_message_id_in_any_case(tmp_path):
    """Corners 25 and 26."""
    hosts = ["10.0.0.1:10911", "[fe80::abcd]:10911"]
    store, log = store_of(tmp_path, [message("a", store_host=host) for host in hosts])
    with store:
        for (offset, record), length in zip(log.records, (32, 56), strict=True):
            assert len(record.msg_id) == length
            assert store.query_message_by_id(record.msg_id).phy_offset == offset
            assert store.query_message_by_id(record.msg_id.lower()).phy_offset == offset
            assert store.look_message_by_offset(offset).msg_id == record.msg_id


def test_an_id_of_another_host_or_place_is_not_found(tmp_path):
    store, log = store_of(tmp_path, [message("a"), message("b")])
    msg_id = log.records[1][1].msg_id
    with store:
        for other in (
            f"00{msg_id[2:]}",
            msg_id[:16] + struct.pack(">q", log.records[1][0] + 1).hex(),
            msg_id[:16] + struct.pack(">q", -1).hex(),
            msg_id[:16] + struct.pack(">q", 2**63 - 1).hex(),
            msg_id[:16] + struct.pack(">q", log.max_offset).hex(),
        ):
            assert store.query_message_by_id(other) is None


@pytest.mark.parametrize("text", ["", "0" * 31, "0" * 33, "x" * 32, "é" * 32, "0" * 57, " " * 32, "00 " * 10 + "00"])
def test_anything_but_an_id_is_refused(tmp_path, text):
    store, _ = store_of(tmp_path, [message("a")])
    with store, pytest.raises(ValueError, match="no message id"):
        store.query_message_by_id(text)


def test_look_message_by_offset_gives_none_where_no_record_begins(tmp_path):
    store, log = store_of(tmp_path, [message("a", body=bytes(1500)) for _ in range(4)], file_size=4096)
    with store:
        for offset, record in log.records:
            assert store.look_message_by_offset(offset).body == record.body
        end_of_first = log.records[1][0] + log.records[1][1].total_size  # a blank is there
        for offset in (-1, 1, end_of_first, 4095, log.max_offset, 8192, 2**63 - 1, -(2**63)):
            assert store.look_message_by_offset(offset) is None


# ---- hostile index files -----------------------------------------------------------------------------------


def corrupt_or_right(store, log, key):
    """An error that names the file, or only messages that really have the key."""
    try:
        found = store.query_message("TopicTest", key)
    except (rocketstore.CorruptFileError, ValueError) as error:
        if "index" not in str(error):
            raise
        return None
    offsets = offsets_of(found)
    assert offsets == sorted(set(offsets), reverse=True)
    assert set(offsets) <= set(brute_force(log, "TopicTest", key, 1000))
    return offsets


@pytest.mark.parametrize("ordinal", [-1, -(2**31), 5, 2**30 + 1])
def test_an_answer_says_that_a_slot_names_an_item_that_there_is_not(ordinal, tmp_path):
    """RocketMQ takes it for empty, and so do lookups that are not verified."""
    store, log = store_of(tmp_path, [message(key) for key in ("k", "x", "k")], index_tags=False)
    (path,) = (tmp_path / "index").iterdir()
    slot = int(rocketstore.hash_keys(["TopicTest#k"])[0]) % SLOTS
    store.close()
    with path.open("r+b") as file:
        file.seek(40 + 4 * slot)
        file.write(struct.pack(">i", ordinal))
    config = rocketstore.StoreConfig(max_hash_slot_num=SLOTS, max_index_num=ITEMS)
    with rocketstore.open(tmp_path, config=config) as store:
        for _ in range(2):
            found = store.query_messages("TopicTest", ["x", "k", "k"])
            assert (found.phy_offsets.tolist(), found.complete.tolist()) == ([log.records[1][0]], [True, False, False])
            (reason,) = found.reasons
            assert reason.startswith(f"{path}: slot {slot} at byte {40 + 4 * slot}: names an item that does not exist")
        assert store.query_message("TopicTest", "x").reasons == []
        assert store.index.query_offset("TopicTest", "k").phy_offsets == []
        assert len(store.index.query_offsets("TopicTest", ["k"])[0]) == 0


@pytest.mark.parametrize("prev", [1, 2, 3, 4, 399, 400, 2**31 - 1, -1])
def test_a_chain_that_was_bent_ends_with_an_error_or_right_answers(tmp_path, prev):
    store, log = store_of(tmp_path, [message("k") for _ in range(4)], index_tags=False)
    (path,) = (tmp_path / "index").iterdir()
    for ordinal in range(1, 5):
        data = bytearray(path.read_bytes())
        struct.pack_into(">i", data, 40 + 4 * SLOTS + 20 * ordinal + 16, prev)
        path.write_bytes(data)
        with rocketstore.open(tmp_path) as other:
            corrupt_or_right(other, log, "k")
    store.close()


def test_a_flipped_bit_anywhere_in_the_index_gives_no_wrong_message(tmp_path, seed):
    rng = random.Random(seed)
    store, log = store_of(tmp_path, [message(f"k{n % 5}") for n in range(30)], hash_slot_num=7, index_num=40)
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    good = path.read_bytes()
    used = 40 + 4 * 7 + 20 * 31
    for _ in range(150):
        data = bytearray(good)
        data[rng.randrange(used)] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        with rocketstore.open(tmp_path) as other:
            for n in range(5):
                corrupt_or_right(other, log, f"k{n}")


def test_an_index_file_of_any_other_length_is_reported_and_the_rest_of_the_store_reads(tmp_path):
    store, log = store_of(tmp_path, [message("k")])
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    data = path.read_bytes()
    for length in (0, 1, 39, 40, 41, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with rocketstore.open(tmp_path) as other:
            assert corrupt_or_right(other, log, "k") in (None, [], [log.records[0][0]])
            assert other.get_message("TopicTest", 0, 0).messages.phy_offset.tolist() == [0]
            assert other.summary().messages == 1


@pytest.mark.parametrize("how", ["cut", "indexCount", "empty"])
def test_one_damaged_index_file_is_named_and_the_others_answer_queries(how, tmp_path):
    store, log = store_of(tmp_path, [message(f"k{n}") for n in range(9)], index_num=4, index_tags=False)
    store.close()
    paths = sorted((tmp_path / "index").iterdir())
    path = paths[1]
    data = path.read_bytes()
    damaged = {"cut": data[:100], "indexCount": data[:36] + struct.pack(">i", 5000) + data[40:], "empty": b""}[how]
    for config in (None, rocketstore.StoreConfig(max_hash_slot_num=SLOTS, max_index_num=4)):
        with rocketstore.open(tmp_path, config=config) as other:
            path.write_bytes(damaged)
            found = other.query_messages("TopicTest", ["k0", "k4", "k8"])
            assert found.phy_offsets.tolist() == [0, log.records[8][0]]
            assert not found.complete.any()
            assert found.reasons[0].startswith(f"{path}: ")
            with pytest.raises(rocketstore.CorruptFileError, match=path.name):
                _ = other.index
            assert len(other.get_message("TopicTest", 0, 0).messages) == 9
            assert path.name in repr(other)
            (tmp_path / "whole").write_bytes(data)
            (tmp_path / "whole").replace(path)  # as from a backup
            found = other.query_messages("TopicTest", ["k0", "k4", "k8"])
            assert (len(found.phy_offsets), found.complete.all(), found.reasons) == (3, True, [])


def test_an_index_file_that_a_broker_is_making_is_no_damaged_one(tmp_path):
    store, log = store_of(tmp_path, [message(f"k{n}") for n in range(9)], index_num=4, index_tags=False)
    with store:
        assert store.index is not None
        (tmp_path / "index" / "99991231235959999").write_bytes(bytes(100))  # it gets its whole length next
        found = store.query_messages("TopicTest", ["k0", "k8"])
        assert (found.phy_offsets.tolist(), found.reasons) == ([0, log.records[8][0]], [])
        assert store.index is not None


def test_an_index_of_damaged_files_alone_is_an_error(tmp_path):
    store, _ = store_of(tmp_path, [message(f"k{n}") for n in range(9)], index_num=4, index_tags=False)
    store.close()
    for path in (tmp_path / "index").iterdir():
        path.write_bytes(b"oops")
    with rocketstore.open(tmp_path) as other, pytest.raises(rocketstore.CorruptFileError, match="index"):
        other.query_message("TopicTest", "k8")


def test_wrong_slot_and_index_counts_in_the_configuration_are_refused(tmp_path):
    """Corner 75."""
    store, _ = store_of(tmp_path, [message("k")])
    store.close()
    config = rocketstore.StoreConfig(max_hash_slot_num=1000, max_index_num=1000)
    with rocketstore.open(tmp_path, config=config) as other:
        with pytest.raises((rocketstore.CorruptFileError, ValueError)):
            other.query_message("TopicTest", "k")
        assert len(other.get_message("TopicTest", 0, 0).messages) == 1
    right = rocketstore.StoreConfig(max_hash_slot_num=SLOTS, max_index_num=ITEMS)
    with rocketstore.open(tmp_path, config=right) as other:
        assert len(query(other, "k")) == 1


def test_a_hash_that_no_key_has_is_never_matched(tmp_path):
    """The entry leads to a record, but the record has another key."""
    store, log = store_of(tmp_path, [message("k"), message("x")])
    index = oracle.build_index(log, SLOTS, ITEMS)
    index.files[0].put_key("TopicTest#stranger", log.records[1][0], T0)
    write_index(tmp_path, *index.files)
    with store:
        assert query(store, "stranger") == []


def test_a_reader_sees_that_every_file_was_replaced_by_a_newer_one_of_its_length(tmp_path):
    """As rsync does: a copy beside each file, renamed."""
    records = [message(f"k{i}", at=i) for i in range(20)]
    store, _ = store_of(tmp_path / "store", records[:10])
    _, log = store_of(tmp_path / "later", records)
    with store:
        assert (query(store, "k1"), query(store, "k15")) == ([log.records[1][0]], [])
        queue = store.consume_queue("TopicTest", 0)
        assert (len(queue[:]), queue.max_queue_offset) == (10, 10)
        for path in (tmp_path / "later").rglob("*"):
            if path.is_file():
                path.replace(tmp_path / "store" / path.relative_to(tmp_path / "later"))
        assert query(store, "k15") == [log.records[15][0]]
        assert queue.max_queue_offset == 20
        assert queue[:].phy_offsets.tolist() == [at for at, _ in log.records]
        assert store.commit_log.max_phy_offset > log.records[19][0]


def test_many_copies_of_an_index_file_are_not_compared_with_each_other(tmp_path, monkeypatch):
    searched = []
    hashes_at = coverage_module.hashes_at
    monkeypatch.setattr(coverage_module, "hashes_at", lambda file, at: searched.append(at) or hashes_at(file, at))
    sizes = {"mapped_file_size_commit_log": 65536, "mapped_file_size_consume_queue": 400}
    sizes |= {"max_hash_slot_num": 37, "max_index_num": 20}
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig(**sizes)) as store:
        for n in range(20):
            store.put_message(rocketstore.Message("T", b"x", keys=[f"k{n}"]))
    first = sorted((tmp_path / "index").iterdir())[0]
    for n in range(100):
        shutil.copy(first, tmp_path / "index" / f"2020{n:013}")
    with rocketstore.open(tmp_path) as store:
        assert store.query_message("T", "k3").messages[0].keys == ["k3"]
    assert len(searched) < 250


def test_last_messages_are_all_known_after_too_many_were_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(coverage_module, "MAX_KEPT", 1)
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()) as store:
        offsets = [store.put_message(rocketstore.Message("T", b"x", keys=[f"k{n}"])).phy_offset for n in range(3)]
        coverage = coverage_module.Coverage(store.commit_log, None)
        coverage._read_last_messages(offsets[:2])
        coverage._read_last_messages(offsets)
        sizes = [coverage._end_of(offset) - offset for offset in offsets]
    assert min(sizes) > 1  # 1 is the answer for a message that was not read

"""One message after another: every byte that it leaves, what it is refused for, and what the put answers."""

import json
import random
import threading
import time
import zlib

import numpy as np
import pytest
from reference.commit_log import read_files
from reference.consume_queue import FILLER, UNIT, load
from reference.message_store import Refused
from reference.record import MAGIC_V1, MAGIC_V2, blank, parse_record
from support.broker_tables import extend_topics
from support.profiles import SEVERAL_FILES
from support.puts import (
    BEGIN,
    COMMIT,
    INNER_BATCH,
    NEED_UNWRAP,
    PARTS,
    PREPARED,
    PROFILES,
    ROLLBACK,
    SCHEDULE_TOPIC,
    Pair,
    assert_same_files,
    config_of,
    fields_of,
    files_under,
    message_of,
    model_of,
    open_store,
    with_host,
)

import rocketstore
from rocketstore import CommitLog, Message, PutMessageError, StoreConfig, verify
from rocketstore.state.json_tables import JsonTables

HEAD = 91  # of a record without body, topic and properties


def record_at(root, phy_offset, file_size=SEVERAL_FILES["mapped_file_size_commit_log"]):
    """The record at a place, as the reference reads it."""
    start = phy_offset // file_size * file_size
    parsed = parse_record(read_files(root / "commitlog")[start], phy_offset - start)
    assert parsed.record is not None
    return parsed.record


def refusal(store, message, **options):
    """The status of a message that is refused; nothing is written for it."""
    end = store.commit_log.max_phy_offset
    with pytest.raises(PutMessageError) as refused:
        store.put_message(message, **options)
    assert store.commit_log.max_phy_offset == end
    return refused.value.status


def properties_of(size):
    """Properties whose bytes are so many: a name, 0x01, a value, 0x02."""
    return {"p": "v" * (size - 3)}


# ---- byte for byte -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_every_file_is_the_reference_s_byte_for_byte(profile, seed, tmp_path):
    draw, options = PROFILES[profile]
    rng = random.Random(f"{seed} put {profile}")
    with Pair(tmp_path / "store", **options) as pair:
        for _ in range(150):
            pair.put(draw(rng))
            pair.time += rng.choice([0, 1, 999, 60_000, -5000])


def test_inner_batches_and_plain_messages_of_their_topic_are_the_reference_s(seed, tmp_path):
    """Corner 54."""
    rng = random.Random(f"{seed} inner")
    with Pair(tmp_path / "store", batch_topics=("Batched",)) as pair:
        for _ in range(80):
            queue_id, properties = rng.randrange(2), {"KEYS": "k"}
            if rng.random() < 0.6:
                inner = [Message("Batched", rng.randbytes(rng.randrange(30))) for _ in range(rng.randrange(1, 6))]
                message = Message.batch("Batched", inner, queue_id=queue_id, properties=properties)
                sys_flag, properties, body = message.sys_flag, message.properties, message.raw_body
                pair.put(topic="Batched", body=body, queue_id=queue_id, properties=properties, sys_flag=sys_flag)
            else:
                pair.put(topic=rng.choice(["Batched", "Plain"]), queue_id=queue_id, properties=properties)


def test_the_worked_vector_of_118_bytes(tmp_path):
    with open_store(tmp_path / "store") as store:
        message = Message("T", b"body0", keys=["k0", "kk"], tags="TagA", queue_id=0, born_host="127.0.0.1:1234")
        message.born_timestamp = 0x01A1FCA0FB14
        result = store.put_message(message, store_timestamp=0x01A1FCA0FB29)
    assert result.size == 118
    expected = (
        "00000076daa320a7516fa58a00000000000000000000000000000000000000000000000000000000000001a1fca0fb14"
        "7f000001000004d2000001a1fca0fb297f00000100002a9f00000000000000000000000000000005626f6479300154"
        "00154b455953016b30206b6b025441475301546167410"
        "2"
    )
    (log,) = read_files(tmp_path / "store" / "commitlog").values()
    assert log.hex().startswith(expected)
    (queue,) = read_files(tmp_path / "store" / "consumequeue" / "T" / "0").values()
    assert UNIT.unpack_from(queue) == (0, 118, 2598919)


# ---- FORMAT 12: the record ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "topic", "properties"), [(b"", "T", {}), (b"xyz", "TT", {"a": "b"})])
def test_a_record_is_91_bytes_and_body_topic_and_properties(body, topic, properties, tmp_path):
    """Corner 1."""
    with open_store(tmp_path / "store") as store:
        result = store.put_message(Message(topic, body, properties=properties))
    assert result.size == HEAD + len(body) + len(topic) + sum(len(n + v) + 2 for n, v in properties.items())


@pytest.mark.parametrize(("born_host", "more"), [("1.2.3.4:65535", 0), ("[::1]:65535", 12)])
def test_a_port_has_four_bytes(born_host, more, tmp_path):
    """Corner 2."""
    with open_store(tmp_path / "store") as store:
        assert store.put_message(Message("T", b"", born_host=born_host)).size == HEAD + 1 + more
    record = record_at(tmp_path / "store", 0)
    assert record.born_host[1] == 65535
    assert bool(record.sys_flag & 0x10) == bool(more)


def test_the_body_s_crc_has_no_top_bit_and_is_0_of_nothing(tmp_path):
    """Corner 3."""
    body = next(bytes([i]) for i in range(256) if zlib.crc32(bytes([i])) >> 31)
    with open_store(tmp_path / "store") as store:
        offsets = [store.put_message(Message("T", data)).phy_offset for data in (body, b"")]
    first, second = (record_at(tmp_path / "store", offset) for offset in offsets)
    assert first.body_crc == zlib.crc32(body) & 0x7FFFFFFF
    assert second.body_crc == 0


def test_the_body_s_crc_is_of_the_bytes_as_they_are_stored(tmp_path):
    """Corner 4."""
    packed = zlib.compress(b"text" * 100)
    with open_store(tmp_path / "store") as store:
        result = store.put_message(Message("T", packed, sys_flag=0x301))
        message = store.look_message_by_offset(result.phy_offset)
        assert (message.raw_body, message.body) == (packed, b"text" * 100)
        assert message.body_crc == zlib.crc32(packed) & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("topic", "magic", "size"),
    [
        ("t" * 127, MAGIC_V1, HEAD + 127),
        ("t" * 128, MAGIC_V2, HEAD + 129),
        ("é" * 63 + "x", MAGIC_V1, HEAD + 127),
        ("é" * 8 + "x" * 120, MAGIC_V2, HEAD + 137),  # 128 chars
        ("😀" * 8 + "x" * 112, MAGIC_V2, HEAD + 145),  # 120 characters, 128 of Java's
    ],
)
def test_a_topic_of_more_than_127_java_chars_has_two_bytes_of_length(topic, magic, size, tmp_path):
    """Corner 5."""
    with open_store(tmp_path / "store") as store:
        assert store.put_message(Message(topic, b"", queue_id=0)).size == size
        assert [m.topic for m in store.get_message(topic, 0, 0).messages] == [topic]
    assert record_at(tmp_path / "store", 0).magic == magic


@pytest.mark.parametrize("topic", ["é" * 64, "主" * 100, "😀" * 63, "x" + "é" * 64])
def test_a_topic_of_at_most_127_chars_but_more_bytes_is_refused(topic, tmp_path):
    # RocketMQ stores it and cannot read it back.
    """Corner 6."""
    with open_store(tmp_path / "store") as store:
        assert refusal(store, Message(topic, b"")) == "MESSAGE_ILLEGAL"
    assert files_under(tmp_path / "store", *PARTS) == {}


NO_DIRECTORIES = ["", ".", "..", "a/b", "/etc", "../../x", "a\0b", "x" * 256, "\ud800", "a\udc80"]
NO_DIRECTORIES += ["%LMQ%a/b", "%LMQ%a\0b", "%LMQ%" + "x" * 256]


@pytest.mark.parametrize("topic", NO_DIRECTORIES)
@pytest.mark.parametrize("sys_flag", [0, PREPARED])
def test_a_topic_that_can_be_no_directory_is_refused(topic, sys_flag, tmp_path):
    root = tmp_path / "outer" / "store"
    with open_store(root) as store:
        with pytest.raises(ValueError, match="topic"):
            store.put_message(Message(topic, b"", queue_id=0, sys_flag=sys_flag))
        with pytest.raises(ValueError, match="topic"):
            store.put_messages([Message("T", b""), Message(topic, b"", queue_id=0, sys_flag=sys_flag)])
        store.put_message(Message("Good", b"", queue_id=0))
        assert list(store.queues()) == [("Good", 0)]
        assert store.commit_log.max_phy_offset == HEAD + 4
    assert [path.name for path in (tmp_path / "outer").iterdir()] == ["store"]


def test_topics_before_5_1_0_have_at_most_127_bytes(tmp_path):
    with open_store(tmp_path / "store", compat="5.0.0") as store:
        assert refusal(store, Message("t" * 128, b"")) == "MESSAGE_ILLEGAL"
        assert store.put_message(Message("t" * 127, b"")).phy_offset == 0


def test_properties_of_32767_bytes_are_accepted_and_of_one_more_refused(tmp_path):
    """Corner 7."""
    with open_store(tmp_path / "store", mapped_file_size_commit_log=65536) as store:
        assert store.put_message(Message("T", b"", properties=properties_of(32767))).size == HEAD + 1 + 32767
        assert refusal(store, Message("T", b"", properties=properties_of(32768))) == "PROPERTIES_SIZE_EXCEEDED"
        many = {f"{i:04}": "v" * 1000 for i in range(200)}
        assert refusal(store, Message("T", b"", properties=many)) == "PROPERTIES_SIZE_EXCEEDED"


def test_without_the_last_separator_no_more_properties_are_accepted_than_are_stored(tmp_path):
    with open_store(tmp_path / "store", compat="5.1.4", mapped_file_size_commit_log=1 << 16) as store:
        lost = {"n": "v" * 32765, "LOST": "yes", "KEYS": "k"}
        assert refusal(store, Message("T", b"", properties=lost)) == "PROPERTIES_SIZE_EXCEEDED"
        result = store.put_message(Message("T", b"", properties={"n": "v" * 32765}))
        assert store.look_message_by_offset(result.phy_offset).properties == {"n": "v" * 32765}


def test_the_crc_property_counts_as_one(tmp_path):
    options = {"mapped_file_size_commit_log": 65536, "enabled_append_prop_crc": True}
    with open_store(tmp_path / "store", **options) as store:
        assert store.put_message(Message("T", b"", properties=properties_of(32747))).size == HEAD + 1 + 32767
        assert refusal(store, Message("T", b"", properties=properties_of(32748))) == "PROPERTIES_SIZE_EXCEEDED"


def test_a_body_of_max_message_size_is_accepted_and_one_of_more_refused(tmp_path):
    """Corner 8."""
    with open_store(tmp_path / "store", max_message_size=1000) as store:
        assert store.put_message(Message("T", bytes(1000))).phy_offset == 0
        assert refusal(store, Message("T", bytes(1001))) == "MESSAGE_ILLEGAL"


def test_properties_are_looked_at_before_the_body(tmp_path):
    """Corner 8."""
    with open_store(tmp_path / "store", max_message_size=10) as store:
        message = Message("T", bytes(11), properties=properties_of(32768))
        assert refusal(store, message) == "PROPERTIES_SIZE_EXCEEDED"


def test_a_record_may_be_64_kib_more_than_max_message_size(tmp_path):
    with open_store(tmp_path / "store", max_message_size=10, mapped_file_size_commit_log=1 << 17) as store:
        assert store.put_message(Message("T", bytes(10), properties=properties_of(32767))).size == HEAD + 11 + 32767


def test_a_light_record_has_no_64_kib_more(tmp_path):
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
    size = HEAD + 1 + 10 + len("INNER_MULTI_DISPATCH\1%LMQ%a\2INNER_MULTI_QUEUE_OFFSET\x010\2")
    with open_store(tmp_path / "store", enable_lmq=True, max_message_size=size) as store:
        assert refusal(store, Message("T", bytes(11), properties=properties)) == "MESSAGE_ILLEGAL"
        assert store.put_message(Message("T", bytes(10), properties=properties)).size == size
        properties = {"INNER_MULTI_DISPATCH": "plain"}  # one more byte, one offset less
        assert refusal(store, Message("T", bytes(30), properties=properties)) == "MESSAGE_ILLEGAL"
        assert store.put_message(Message("T", bytes(30))).phy_offset == size


def test_light_properties_that_are_too_long_are_illegal(tmp_path):
    with open_store(tmp_path / "store", mapped_file_size_commit_log=65536, enable_lmq=True) as store:
        properties = properties_of(32760) | {"INNER_MULTI_DISPATCH": "%LMQ%a"}
        assert refusal(store, Message("T", b"", properties=properties)) == "MESSAGE_ILLEGAL"
        assert store.put_message(Message("T", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})).phy_offset == 0
        assert "%LMQ%a\2INNER_MULTI_QUEUE_OFFSET\x010\2" in (
            (tmp_path / "store" / "commitlog" / f"{0:020}").read_bytes()[:300].decode("latin-1")
        )


@pytest.mark.parametrize("value", ["1 ", "x", "", "99999"])
def test_inner_num_without_an_inner_batch_is_illegal(value, tmp_path):
    with open_store(tmp_path / "store") as store:
        assert refusal(store, Message("T", b"", properties={"INNER_NUM": value})) == "MESSAGE_ILLEGAL"


def test_an_inner_batch_of_a_topic_of_plain_queues_is_illegal(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("Plain", 4)
        for topic in ("Plain", "Unknown"):
            batch = Message.batch(topic, [Message(topic, b"x")], queue_id=0)
            assert batch.sys_flag == INNER_BATCH | NEED_UNWRAP
            assert refusal(store, batch) == "MESSAGE_ILLEGAL"


def test_an_inner_batch_without_a_number_has_no_property_for_it(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("Batched", 4, queue_type="BatchCQ")
        batch = Message("Batched", b"x", sys_flag=INNER_BATCH, properties={"INNER_NUM": None}, queue_id=0)
        assert store.put_message(batch).queue_offset == 0
        assert store.look_message_by_offset(0).properties == {"INNER_BASE": "0"}
        assert store.put_message(batch).queue_offset == 1


LONG = pytest.param("1" * 5000, id="more digits than int() takes")


@pytest.mark.parametrize("number", ["0", "-1", "32768", "99999", "abc", "1_0", " 1", "1.0", "", LONG])
def test_an_inner_batch_whose_number_could_not_be_read_is_refused(number, tmp_path):
    # RocketMQ stores it, and its dispatch stops there.
    with open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20) as store:
        store.create_topic("Batched", 4, queue_type="BatchCQ")
        batch = Message.batch("Batched", [Message("Batched", b"x")], queue_id=0)
        batch.properties["INNER_NUM"] = number
        with pytest.raises(ValueError, match="INNER_NUM"):
            store.put_message(batch)
        assert store.put_message(Message("Batched", b"", queue_id=0)).queue_offset == 0
        store.flush()


def test_an_empty_inner_batch_is_refused(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("Batched", 4, queue_type="BatchCQ")
        with pytest.raises(ValueError, match="0 messages"):
            store.put_message(Message.batch("Batched", [], queue_id=0))


@pytest.mark.parametrize("delay", ["abc", "", "1.5", "99999999999", "1_0", " 1"])
def test_a_delay_level_that_is_no_number_is_refused_on_the_schedule_topic(delay, tmp_path):
    # RocketMQ stores it and can never dispatch it.
    """Corner 30."""
    with open_store(tmp_path / "store") as store:
        message = Message(SCHEDULE_TOPIC, b"", queue_id=0, properties={"DELAY": delay})
        if delay:
            with pytest.raises(ValueError, match="DELAY"):
                store.put_message(message)
        else:
            store.put_message(message)  # an empty value vanishes
        store.put_message(Message("Other", b"", queue_id=0, properties={"DELAY": delay}))
        store.flush()
        assert store.consume_queue("Other", 0).max_queue_offset == 1


@pytest.mark.parametrize(
    ("topic", "properties"),
    [
        ("T", {"x": "y\x02INNER_NUM\x01abc\x02INNER_BASE\x01z"}),
        ("T", {"x\x01y\x02INNER_NUM": "1", "INNER_BASE": "99999999999999999999"}),
        (SCHEDULE_TOPIC, {"x": "y\x02DELAY\x01abc"}),
        (SCHEDULE_TOPIC, {"x\x02DELAY": "abc"}),
        ("T", {"x": "y\x02INNER_NUM\x015\x02INNER_BASE\x01700"}),
        ("T", {"x": "y\x02INNER_NUM\x015\x02INNER_BASE\x010"}),
        ("T", {"x": "y\x02INNER_NUM\x011\x02INNER_BASE\x01700"}),
    ],
)
def test_properties_hidden_in_others_that_could_not_be_dispatched_are_refused(topic, properties, tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(ValueError, match=r"INNER|DELAY"):
            store.put_message(Message(topic, b"", queue_id=0, properties=properties))
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 0
        assert store.consume_queue("T", 0).max_queue_offset == 1


def test_delay_levels_give_the_time_that_a_message_is_due(tmp_path):
    """Corners 30 and 36."""
    with open_store(tmp_path / "store") as store:
        for level in ("1", "18", "99", "0"):
            properties = {"DELAY": level, "TAGS": "TagA"}
            store.put_message(Message(SCHEDULE_TOPIC, b"", queue_id=0, properties=properties), store_timestamp=BEGIN)
        codes = store.consume_queue(SCHEDULE_TOPIC, 0)[0:4].tags_codes.tolist()
    assert codes == [BEGIN + 1000, BEGIN + 7_200_000, BEGIN + 7_200_000, 2598919]


@pytest.mark.parametrize(
    ("sys_flag", "counts", "in_index"),
    [(0, True, True), (COMMIT, True, True), (PREPARED, False, True), (ROLLBACK, False, False)],
)
def test_transactions_of_each_kind_go_where_they_belong(sys_flag, counts, in_index, tmp_path):
    """Corners 16 and 17."""
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"first", queue_id=0))
        result = store.put_message(Message("T", b"", queue_id=0, keys="k", sys_flag=sys_flag))
        after = store.put_message(Message("T", b"last", queue_id=0))
        assert result.queue_offset == (1 if counts else 0)
        assert after.queue_offset == 1 + counts
        assert store.consume_queue("T", 0)[0:9].phy_offsets.tolist() == (
            [0, result.phy_offset, after.phy_offset] if counts else [0, after.phy_offset]
        )
        assert list(store.index.query_offset("T", "k").phy_offsets) == ([result.phy_offset] if in_index else [])
    assert record_at(tmp_path / "store", result.phy_offset).queue_offset == result.queue_offset


def test_a_half_message_without_transaction_bits_is_an_ordinary_one(tmp_path):
    """Corner 18."""
    with open_store(tmp_path / "store") as store:
        result = store.put_message(Message("RMQ_SYS_TRANS_HALF_TOPIC", b"half", queue_id=0))
        assert result.queue_offset == 0
        assert store.consume_queue("RMQ_SYS_TRANS_HALF_TOPIC", 0).max_queue_offset == 1


def test_the_prepared_offset_of_a_commit_is_kept(tmp_path):
    message = Message("T", b"", queue_id=0, sys_flag=COMMIT)
    message.prepared_transaction_offset = 12345
    with open_store(tmp_path / "store") as store:
        store.put_message(message)
    assert record_at(tmp_path / "store", 0).prepared_transaction_offset == 12345


def test_properties_end_with_a_separator_or_do_not_by_release(tmp_path):
    for release, is_there in (("4.9.0", True), ("4.9.1", False), ("5.1.4", False), ("5.2.0", True), ("5.5.0", True)):
        root = tmp_path / release
        with open_store(root, compat=release) as store:
            size = store.put_message(Message("T", b"", properties={"a": "b", "c": "d"})).size
        data = read_files(root / "commitlog")[0][:size]
        assert data.endswith(b"\x00\x08a\x01b\x02c\x01d\x02" if is_there else b"\x00\x07a\x01b\x02c\x01d")
        assert parse_record(data).record.properties == {"a": "b", "c": "d"}


def test_empty_values_are_written_and_vanish_when_read(tmp_path):
    """Corner 19."""
    with open_store(tmp_path / "store") as store:
        result = store.put_message(Message("T", b"", properties={"a": "", "b": "c"}))
        assert store.look_message_by_offset(0).properties == {"b": "c"}
    assert b"a\x01\x02b\x01c\x02" in read_files(tmp_path / "store" / "commitlog")[0][: result.size]


def test_a_value_may_have_0x01_in_it(tmp_path):
    """Corner 20."""
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", properties={"a": "b\x01c"}))
        assert store.look_message_by_offset(0).properties == {"a": "b\x01c"}


def test_properties_keep_their_order_and_those_that_are_none_are_dropped(tmp_path):
    properties = {"z": "1", "KEYS": "k", "none": None, "a": "2", "TAGS": "t"}
    with open_store(tmp_path / "store") as store:
        result = store.put_message(Message("T", b"", properties=properties))
    data = read_files(tmp_path / "store" / "commitlog")[0][: result.size]
    assert data.endswith(b"z\x011\x02KEYS\x01k\x02a\x012\x02TAGS\x01t\x02")


def test_surrogates_without_a_partner_become_question_marks_and_pairs_a_character(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", properties={"a": "x\ud800y", "b": "\ud83d\ude00"}))
        assert store.look_message_by_offset(0).properties == {"a": "x?y", "b": "😀"}


def test_the_crc_property_has_its_digits_reversed_and_ends_the_record(tmp_path):
    """Corner 22."""
    with open_store(tmp_path / "store", enabled_append_prop_crc=True) as store:
        sizes = [store.put_message(Message("T", bytes([i]))).size for i in range(20)]
        assert store.look_message_by_offset(0).properties["__CRC32#"].isdecimal()
    data = read_files(tmp_path / "store" / "commitlog")[0]
    for size in sizes:
        record, data = data[:size], data[size:]
        crc = zlib.crc32(record[:-20]) & 0x7FFFFFFF
        assert record[-20:] == b"__CRC32#\x01" + str(crc)[::-1].ljust(10, "0").encode() + b"\x02"
        assert parse_record(record, force_verify_prop_crc=True).success


def test_a_crc_property_of_another_record_is_replaced(tmp_path):
    with open_store(tmp_path / "store", enabled_append_prop_crc=True) as store:
        result = store.put_message(Message("T", b"x", properties={"__CRC32#": "1234567890", "a": "b"}))
    data = read_files(tmp_path / "store" / "commitlog")[0][: result.size]
    assert data.count(b"__CRC32#") == 1
    assert parse_record(data, force_verify_prop_crc=True).success


@pytest.mark.parametrize("form", ["message", "messages", "batch", "table"])
def test_without_the_option_the_crc_property_of_a_record_that_was_read_is_left_out(form, tmp_path):
    with open_store(tmp_path / "source", enabled_append_prop_crc=True) as source:
        source.put_message(Message("T", b"x", properties={"a": "b"}))
        (batch,) = source.scan()
    with open_store(tmp_path / "store") as store:
        if form == "message":
            store.put_message(batch[0])
        elif form == "table":
            pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
            store.put_messages(batch.to_arrow())
        else:
            store.put_messages(batch if form == "batch" else list(batch))
        assert store.look_message_by_offset(0).properties == {"a": "b"}
    assert verify(tmp_path / "store").findings == []


def test_a_release_without_crc_properties_writes_none(tmp_path):
    with open_store(tmp_path / "store", enabled_append_prop_crc=True, compat="5.1.4") as store:
        assert store.put_message(Message("T", b"x", properties={"a": "b"})).size == HEAD + 2 + 3


def test_a_release_without_ipv6_refuses_ipv6_hosts(tmp_path):
    with open_store(tmp_path / "store", compat="4.5.2") as store:
        with pytest.raises(ValueError, match=r"IPv6|host"):
            store.put_message(Message("T", b"", born_host="[::1]:1"))
        assert store.put_message(Message("T", b"", born_host="127.0.0.1:1")).phy_offset == 0


@pytest.mark.parametrize(("before", "since"), [("4.9.3", "4.9.4"), ("4.9.3", "5.0.0"), ("4.5.2", "5.5.0")])
def test_a_release_that_reads_zlib_alone_refuses_other_bodies(before, since, tmp_path):
    bodies = [Message("T", b"x", sys_flag=0x1 | kind << 8) for kind in (1, 2)]  # as they are stored
    with open_store(tmp_path / "before", compat=before) as store:
        for message in bodies:
            assert refusal(store, message) == "MESSAGE_ILLEGAL"
            with pytest.raises(PutMessageError, match=r"row 1: .*zlib alone"):
                store.put_messages([Message("T", b""), message])
        assert store.put_messages([Message("T", b"x", compress="zlib"), Message("T", b"", sys_flag=0x100)]).sizes.all()
    with open_store(tmp_path / "since", compat=since) as store:
        assert len(store.put_messages(bodies)) == 2


@pytest.mark.parametrize(("before", "since"), [("4.9.8", "5.0.0"), ("4.5.2", "5.5.0")])
def test_a_release_without_batch_queues_refuses_them_and_inner_batches(before, since, tmp_path):
    batch = Message.batch("B", [Message("B", b"x")], queue_id=0)
    with open_store(tmp_path / "before", compat=before) as store:
        with pytest.raises(ValueError, match=f"'BatchCQ': {before} has no batch queues"):
            store.create_topic("B", 1, queue_type="BatchCQ")
        assert refusal(store, batch) == "MESSAGE_ILLEGAL"
        assert "B" not in store.topic_configs
    with (
        CommitLog.open(tmp_path / "log", "a", config=config_of(compat=before)) as log,
        pytest.raises(PutMessageError, match=r"before 5\.0\.0 have no inner batches"),
    ):
        log.append(batch)
    with open_store(tmp_path / "since", compat=since) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        assert store.put_message(batch).phy_offset == 0


def test_ipv6_bits_of_a_message_from_elsewhere_follow_the_hosts(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", sys_flag=0x30, born_host="127.0.0.1:1"))
        assert store.look_message_by_offset(0).sys_flag == 0


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost:80",
        "1.2.3.4",
        "1.2.3:80",
        "::1:80",
        "[1.2.3.4]:80",
        "1.2.3.4:x",
        "1.2.3.4:-1",
        "1.2.3.4:65536",
        "[::1]:70000",
        "[::1",
        "1.2.3.4:1_0",
        "1.2.3.4: 80",
    ],
)
def test_a_host_that_is_none_is_refused(host, tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(ValueError, match="host"):
            store.put_message(Message("T", b"", born_host=host))
        assert store.commit_log.max_phy_offset == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", None),
        ("topic", 7),
        ("topic", b"T"),
        ("raw_body", None),
        ("raw_body", "text"),
        ("queue_id", "0"),
        ("queue_id", 1.5),
        ("queue_id", 2**31),
        ("queue_id", -1),
        ("flag", 2**31),
        ("flag", None),
        ("sys_flag", 2**31),
        ("born_timestamp", 2**63),
        ("born_timestamp", "now"),
        ("born_host", None),
        ("properties", None),
        ("properties", {"a": 1}),
        ("properties", {1: "a"}),
        ("properties", {None: "a"}),
        ("properties", [("a", "b")]),
        ("reconsume_times", 2**31),
        ("prepared_transaction_offset", 2**63),
    ],
)
def test_a_field_of_a_wrong_type_or_out_of_range_is_refused_and_nothing_written(field, value, tmp_path):
    with open_store(tmp_path / "store") as store:
        message = Message("T", b"x", queue_id=0)
        setattr(message, field, value)
        for put in (store.put_message, lambda bad: store.put_messages([Message("T", b""), bad])):
            with pytest.raises((TypeError, ValueError)):
                put(message)
        assert store.commit_log.max_phy_offset == 0
        assert store.put_message(Message("T", b"x", queue_id=0)).queue_offset == 0


# ---- the file ----------------------------------------------------------------------------------------------


def body_for(left, *, file_size=SEVERAL_FILES["mapped_file_size_commit_log"]):
    """A body for topic T whose record leaves so many bytes of an empty file."""
    return bytes(file_size - left - HEAD - 1)


def test_a_record_may_leave_exactly_8_bytes_of_the_file_which_become_the_blank(tmp_path):
    """Corner 9."""
    with open_store(tmp_path / "store") as store:
        assert store.put_message(Message("T", body_for(8))).phy_offset == 0
        assert store.put_message(Message("T", b"")).phy_offset == 4096
        assert [message.phy_offset for batch in store.scan() for message in batch] == [0, 4096]
    assert read_files(tmp_path / "store" / "commitlog")[0][-8:] == blank(8)


@pytest.mark.parametrize("left", [7, 1, 0])
def test_a_record_that_leaves_less_than_8_bytes_goes_to_the_next_file(left, tmp_path):
    """Corner 9."""
    with open_store(tmp_path / "store") as store:
        first = store.put_message(Message("T", b""))
        size = 4096 - left - first.size
        second = store.put_message(Message("T", bytes(size - HEAD - 1)))
        assert (second.phy_offset, second.size) == (4096, size)
    file = read_files(tmp_path / "store" / "commitlog")[0]
    assert file[first.size :] == blank(4096 - first.size)


@pytest.mark.parametrize("left", [7, 0, -1, -5000])
def test_a_record_larger_than_a_file_is_refused(left, tmp_path):
    # RocketMQ blanks two files, stores nothing, and says that all is well.
    """Corner 13."""
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b""))
        assert refusal(store, Message("T", body_for(left))) == "MESSAGE_ILLEGAL"
        assert store.put_message(Message("T", b"")).phy_offset == HEAD + 1


def test_a_blank_writes_8_bytes_and_leaves_the_rest_of_the_file(tmp_path):
    """Corner 11."""
    with open_store(tmp_path / "store") as store:
        end = store.put_message(Message("T", bytes(2000))).size
        store.put_message(Message("T", bytes(2500)))
    assert read_files(tmp_path / "store" / "commitlog")[0][end:] == blank(4096 - end)


def test_the_first_record_of_a_new_store_is_at_0(tmp_path):
    """Corner 14."""
    with open_store(tmp_path / "store") as store:
        assert store.put_message(Message("T", b"")).phy_offset == 0
    assert sorted(read_files(tmp_path / "store" / "commitlog")) == [0]


@pytest.mark.parametrize("ahead", [True, False])
def test_files_follow_each_other_and_none_is_left_ahead(ahead, tmp_path):
    root = tmp_path / "store"
    with open_store(root, allocate_file_ahead=ahead) as store:
        for _ in range(20):
            store.put_message(Message("T", bytes(1000)))
        files, deadline = read_files(root / "commitlog"), time.monotonic() + 10
        while ahead and len(files.get(7 * 4096, b"")) < 4096 and time.monotonic() < deadline:
            time.sleep(0.001)
            files = read_files(root / "commitlog")
        assert sorted(files) == [4096 * i for i in range(7 + ahead)]
        assert all(len(file) == 4096 for file in files.values())
        if ahead:
            assert files[7 * 4096] == bytes(4096)
    assert sorted(read_files(root / "commitlog")) == [4096 * i for i in range(7)]


def test_files_are_allocated_and_not_sparse_if_that_is_asked_for(tmp_path):
    path = tmp_path / "store" / "commitlog" / f"{0:020}"
    with open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20, preallocate=True) as store:
        store.put_message(Message("T", b""))
        assert path.stat().st_blocks * 512 >= 1 << 20


def test_a_log_in_several_directories_takes_them_in_turn(tmp_path):
    paths = [tmp_path / name for name in ("c", "a", "b")]
    options = {"store_path_commit_log": ",".join(map(str, paths))}
    with open_store(tmp_path / "store", **options) as store:
        results = [store.put_message(Message("T", bytes(1000))) for _ in range(30)]
        assert [m.phy_offset for batch in store.scan() for m in batch] == [r.phy_offset for r in results]
        store.flush()
        assert store.consume_queue("T", 0).max_queue_offset == 8
    for number, name in enumerate("abc"):
        files = read_files(tmp_path / name)
        assert sorted(files) == [4096 * i for i in range(10) if i % 3 == number]
    assert not (tmp_path / "store" / "commitlog").exists()


def test_no_file_is_made_in_a_read_only_directory_of_the_log(tmp_path):
    options = {
        "store_path_commit_log": f"{tmp_path / 'a'},{tmp_path / 'b'}",
        "read_only_commit_log_store_paths": f"{tmp_path / 'b'},{tmp_path / 'c'}",
    }
    with open_store(tmp_path / "store", **options) as store:
        for _ in range(20):
            store.put_message(Message("T", bytes(1000)))
    assert sorted(read_files(tmp_path / "a")) == [4096 * i for i in range(7)]
    assert read_files(tmp_path / "b") == read_files(tmp_path / "c") == {}


# ---- queues ------------------------------------------------------------------------------------------------


def test_messages_without_a_queue_take_the_topic_s_in_turn(tmp_path):
    with open_store(tmp_path / "store", default_topic_queue_nums=3) as store:
        store.create_topic("Two", 2)
        queues = [store.put_message(Message(topic, b"")).queue_id for _ in range(7) for topic in ("New", "Two")]
    assert queues[::2] == [0, 1, 2, 0, 1, 2, 0]
    assert queues[1::2] == [0, 1, 0, 1, 0, 1, 0]


def test_each_queue_counts_for_itself(seed, tmp_path):
    rng = random.Random(f"{seed} queues")
    expected = {}
    with open_store(tmp_path / "store") as store:
        for _ in range(300):
            queue = rng.choice(["A", "B", "主"]), rng.choice([0, 1, 2**31 - 1])
            result = store.put_message(Message(queue[0], b"", queue_id=queue[1]))
            assert result.queue_offset == expected.get(queue, 0)
            expected[queue] = result.queue_offset + 1
        assert dict.fromkeys(store.queues()) == dict.fromkeys(sorted(expected))
        for queue, count in expected.items():
            assert store.consume_queue(*queue).max_queue_offset == count


def test_an_inner_batch_takes_as_many_queue_offsets_as_it_has_messages(tmp_path):
    """Corner 54."""
    with open_store(tmp_path / "store") as store:
        store.create_topic("Batched", 4, queue_type="BatchCQ")
        three = [Message("Batched", bytes([i])) for i in range(3)]
        plain = Message("Batched", b"plain", queue_id=0)
        results = [store.put_message(m) for m in (plain, Message.batch("Batched", three, queue_id=0), plain)]
        assert [result.queue_offset for result in results] == [0, 1, 4]
        message = store.look_message_by_offset(results[1].phy_offset)
        assert message.properties["INNER_BASE"] == "1"
        assert message.properties["INNER_NUM"] == "3"
        assert message.sys_flag & (INNER_BATCH | NEED_UNWRAP) == INNER_BATCH | NEED_UNWRAP
        assert [(m.queue_offset, m.body) for m in message.decode_batch()] == [(1, b"\0"), (2, b"\1"), (3, b"\2")]
        found = store.get_message("Batched", 0, 2)
        assert found.messages[0].phy_offset == results[1].phy_offset
    assert not (tmp_path / "store" / "consumequeue").exists()


def test_a_message_is_not_changed_by_being_put(tmp_path):
    with open_store(tmp_path / "store", enable_lmq=True) as store:
        store.create_topic("Batched", 4, queue_type="BatchCQ")
        light = Message("T", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
        batch = Message.batch("Batched", [Message("Batched", b"x")])
        plain = Message("T", b"", keys="k")
        for message in (light, batch, plain):
            before = {**message.__dict__, "properties": dict(message.properties)}
            for _ in range(2):
                store.put_message(message)
            assert message.__dict__ == before


def test_a_queue_of_batches_is_made_by_its_topic_alone(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("Batched", 2, queue_type="BatchCQ")
        store.put_message(Message("Batched", b"", queue_id=0))
        store.put_message(Message("Plain", b"", queue_id=0))
    assert sorted(files_under(tmp_path / "store", *PARTS[1:])) == [
        f"batchconsumequeue/Batched/0/{0:020}",
        f"consumequeue/Plain/0/{0:020}",
    ]


HIDDEN = [
    {"a": "b\x02INNER_NUM\x019"},
    {"a": "b\x02INNER_NUM\x019\x02INNER_BASE\x01700"},
    {"a\x01b\x02INNER_BASE": "700"},
]


@pytest.mark.parametrize("properties", HIDDEN)
def test_an_inner_batch_takes_the_numbers_that_it_says(properties, tmp_path):
    """Of two properties of one name the last is read, here one inside another's value."""
    with open_store(tmp_path / "store") as store:
        store.create_topic("Batched", 1, queue_type="BatchCQ")
        inner = [Message("Batched", b"1"), Message("Batched", b"2")]
        batch = Message.batch("Batched", inner, queue_id=0)
        batch.properties = {"INNER_NUM": "2", "INNER_BASE": "0", **properties}
        with pytest.raises(PutMessageError, match="INNER_NUM"):
            store.put_message(batch)
        for expected in (0, 2, 4):
            assert store.put_message(Message.batch("Batched", inner, queue_id=0)).queue_offset == expected
        queue = store.consume_queue("Batched", 0)
        assert (queue.min_queue_offset, queue.max_queue_offset) == (0, 6)


def test_a_body_that_was_replaced_is_the_one_that_is_stored(tmp_path):
    """Alone, in a list, in a client's batch and in an inner batch."""
    with open_store(tmp_path / "store") as store:
        store.create_topic("Batched", 1, queue_type="BatchCQ")
        message = Message("T", b"old", queue_id=0)
        message.body = b"new one"
        store.put_message(message)
        store.put_messages([message])
        store.put_batch(Message("T", b"", queue_id=0), [message])
        store.put_message(Message.batch("Batched", [message], queue_id=0))
        *plain, batch = [found for found_batch in store.scan(containers=True) for found in found_batch]
        assert [found.body for found in plain] == [b"new one"] * 3
        assert [inner.body for inner in batch.decode_batch()] == [b"new one"]


@pytest.mark.parametrize(("old", "new"), [(b"", bytes(1000)), (bytes(1000), b"")])
def test_a_client_s_batch_is_as_large_as_the_bodies_that_are_stored(old, new, tmp_path):
    with open_store(tmp_path / "store", max_message_size=1000) as store:
        message = Message("T", old, queue_id=0)
        message.body = new
        if new:
            with pytest.raises(PutMessageError, match="1022 bytes"):
                store.put_batch(Message("T", b"", queue_id=0), [message])
        else:
            assert len(store.put_batch(Message("T", b"", queue_id=0), [message])) == 1


@pytest.mark.parametrize("value", [None, 5, "text", b"body", {}, Message])
def test_anything_but_a_message_is_a_type_error(value, tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("Batched", 1, queue_type="BatchCQ")
        for put in (
            lambda: store.put_message(value),
            lambda: store.put_messages([Message("T", b""), value]),
            lambda: store.put_batch(Message("T", b"", queue_id=0), [value]),
            lambda: Message.batch("Batched", [value]),
        ):
            with pytest.raises(TypeError):
                put()
        assert store.commit_log.max_phy_offset == 0
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 0
        with pytest.raises(TypeError):
            store.put_message(value)  # nor the message of before again
        with pytest.raises(TypeError):
            store.put_batch(5, [Message("T", b"")])


def test_a_flag_beyond_an_int_is_refused_in_every_kind_of_batch(tmp_path):
    with open_store(tmp_path / "store") as store:
        message = Message("T", b"", queue_id=0, flag=2**31)
        for put in (
            lambda: store.put_batch(Message("T", b"", queue_id=0), [message]),
            lambda: Message.batch("T", [message]),
        ):
            with pytest.raises(ValueError, match="flag"):
                put()
        assert store.commit_log.max_phy_offset == 0


# ---- light queues ------------------------------------------------------------------------------------------


def light(names, topic="T", **fields):
    return fields_of(topic, properties={"INNER_MULTI_DISPATCH": names}, **fields)


def test_ctrl_c_after_a_light_message_is_put_repeats_no_offset_of_its_queue(tmp_path, monkeypatch):
    message = Message("T", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    with open_store(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True) as store:
        append = store._writer._log.append_completed

        def interrupt(*arguments):
            append(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(store._writer._log, "append_completed", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.put_message(message)
        store.put_message(message)
        (_, second) = store.get_message("%LMQ%a", 0, 0).messages
        assert second.properties["INNER_MULTI_QUEUE_OFFSET"] == "1"


def test_light_queues_have_queue_id_0_whatever_the_message_s(tmp_path):
    """Corner 53."""
    options = {"enable_lmq": True, "enable_multi_dispatch": True}
    with Pair(tmp_path / "store", **options) as pair:
        pair.put(light("%LMQ%a,%LMQ%b", queue_id=3))
        pair.put(light("%LMQ%b", queue_id=2))
        assert set(pair.store.queues()) == {("T", 3), ("T", 2), ("%LMQ%a", 0), ("%LMQ%b", 0)}
        assert pair.store.look_message_by_offset(0).properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0"
        (_, second) = pair.store.get_message("%LMQ%b", 0, 0).messages
        assert second.properties["INNER_MULTI_QUEUE_OFFSET"] == "1"


def test_light_queues_are_units_of_the_plain_tags_code(tmp_path):
    """Corner 53."""
    options = {"enable_lmq": True, "enable_multi_dispatch": True, "enable_consume_queue_ext": True}
    with Pair(tmp_path / "store", **options) as pair:
        properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "TAGS": "TagA"}
        pair.put(fields_of("T", properties=properties))
        unit = pair.store.consume_queue("%LMQ%a", 0)[0]
        assert (unit.phy_offset, unit.tags_code) == (0, 2598919)


def test_without_multi_dispatch_offsets_are_given_and_no_queue_is_built(tmp_path):
    with Pair(tmp_path / "store", enable_lmq=True) as pair:
        for _ in range(3):
            pair.put(light("%LMQ%a"))
        assert list(pair.store.queues()) == [("T", 0)]
        offsets = [m.properties["INNER_MULTI_QUEUE_OFFSET"] for batch in pair.store.scan() for m in batch]
        assert offsets == ["0", "1", "2"]


def test_with_multi_dispatch_alone_units_go_to_the_message_s_queue_id(tmp_path):
    """Corner 53."""
    with Pair(tmp_path / "store", enable_multi_dispatch=True) as pair:
        properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,plain", "INNER_MULTI_QUEUE_OFFSET": "0,3"}
        pair.put(fields_of("T", queue_id=2, properties=properties))
        assert list(pair.store.queues()) == [("%LMQ%a", 2), ("T", 2), ("plain", 2)]
        assert load(tmp_path / "store" / "consumequeue" / "plain" / "2", 200).files[0][:60] == FILLER * 3


def test_a_message_of_a_batch_queue_takes_an_offset_of_a_light_queue_and_has_no_unit_there(tmp_path):
    """Corner 53."""
    options = {"enable_lmq": True, "enable_multi_dispatch": True}
    with Pair(tmp_path / "store", batch_topics=("Batched",), **options) as pair:
        pair.put(light("%LMQ%a", "Batched"))
        pair.put(light("%LMQ%a"))
        offsets = [m.properties["INNER_MULTI_QUEUE_OFFSET"] for batch in pair.store.scan() for m in batch]
        assert offsets == ["0", "1"]
        assert pair.store.consume_queue("%LMQ%a", 0)[1].phy_offset > 0
        assert load(tmp_path / "store" / "consumequeue" / "%LMQ%a" / "0", 200).files[0][:20] == FILLER


def test_a_name_that_is_no_light_queue_leaves_an_empty_offset(tmp_path):
    options = {"enable_lmq": True, "enable_multi_dispatch": True}
    with Pair(tmp_path / "store", **options) as pair:
        pair.put(light("%LMQ%a,plain"))  # "0,": Java's split finds one offset for two names
        assert pair.store.look_message_by_offset(0).properties["INNER_MULTI_QUEUE_OFFSET"] == "0,"
        assert list(pair.store.queues()) == [("T", 0)]


def test_an_empty_offset_before_others_is_refused(tmp_path):
    # RocketMQ's dispatch never gets beyond this message, and a broker does not start after a crash.
    message = message_of(light("plain,%LMQ%a"))  # ",0"
    with open_store(tmp_path / "both", enable_lmq=True, enable_multi_dispatch=True) as store:
        assert refusal(store, message) == "MESSAGE_ILLEGAL"
        with pytest.raises(PutMessageError, match=r"row 1: .*plain,%LMQ%a.*',0': an offset is no number"):
            store.put_messages([Message("T", b""), message])
        assert store.commit_log.max_phy_offset == 0
        assert store.put_message(message_of(light("%LMQ%a"))).phy_offset == 0
        assert store.look_message_by_offset(0).properties["INNER_MULTI_QUEUE_OFFSET"] == "0"
    with open_store(tmp_path / "offsets", enable_lmq=True) as store:  # none reads them
        store.put_message(message)
        assert store.look_message_by_offset(0).properties["INNER_MULTI_QUEUE_OFFSET"] == ",0"


@pytest.mark.parametrize("name", ["..", ".", "", "a\0b", "x" * 300, "/etc/x", "../../y"])
def test_units_go_to_no_queue_that_can_be_no_directory(name, tmp_path):
    root = tmp_path / "outer" / "store"
    with open_store(root, enable_multi_dispatch=True) as store:
        properties = {"INNER_MULTI_DISPATCH": f"{name},good", "INNER_MULTI_QUEUE_OFFSET": "0,0"}
        store.put_message(Message("T", b"", queue_id=0, properties=properties))
        store.flush()
        assert list(store.queues()) == [("T", 0), ("good", 0)]
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 1
    assert [path.name for path in (tmp_path / "outer").iterdir()] == ["store"]
    assert not (root / "0").exists()


WILD_OFFSETS = ["x", "-1", "9223372036854775807", "99999999999999999999", "²", "1" * 5000]
WILD_OFFSETS += [str(2**63 // 20 + more) for more in (-1, 0, 1)]


@pytest.mark.parametrize("offset", WILD_OFFSETS)
def test_offsets_of_light_queues_that_cannot_be_are_refused_and_found_in_a_log_stop_nothing(offset, tmp_path):
    options = {"mapped_file_size_commit_log": 1 << 13}
    properties = {"INNER_MULTI_DISPATCH": "a", "INNER_MULTI_QUEUE_OFFSET": offset}
    message = Message("T", b"", queue_id=0, properties=properties)
    with open_store(tmp_path / "store", **options) as store:
        store.put_message(message)
        store.create_topic("Batched", 1, queue_type="BatchCQ")
    (tmp_path / "store" / "abort").touch()
    with open_store(tmp_path / "store", enable_multi_dispatch=True, **options) as store:  # recovery reads them too
        assert refusal(store, message) == "MESSAGE_ILLEGAL"
        store.put_message(Message("Batched", b"", queue_id=0, properties=properties))
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 1
        store.flush()
        assert store.consume_queue("T", 0).max_queue_offset == 2
        assert list(store.queues()) == [("Batched", 0), ("T", 0)]


def test_a_slash_in_a_light_queue_s_name_skips_its_unit_alone(tmp_path):
    options = {"enable_lmq": True, "enable_multi_dispatch": True}
    with Pair(tmp_path / "store", **options) as pair:
        pair.put(light("%LMQ%a/b,%LMQ%c"))
        pair.put(light("%LMQ%a/b"))
        assert [m.properties["INNER_MULTI_QUEUE_OFFSET"] for b in pair.store.scan() for m in b] == ["0,0", "1"]
        assert list(pair.store.queues()) == [("%LMQ%c", 0), ("T", 0)]
        assert refusal(pair.store, Message("%LMQ%a/b", b"", queue_id=0)) == "MESSAGE_ILLEGAL"


@pytest.mark.parametrize(("release", "offset"), [("5.5.0", None), ("5.4.0", "0"), ("5.3.3", "0"), ("4.9.8", "0")])
def test_messages_of_dead_letter_topics_are_for_light_queues_before_5_5(release, offset, tmp_path):
    """Corner 53."""
    options = {"enable_lmq": True, "enable_multi_dispatch": True}
    with Pair(tmp_path / "store", compat=release, **options) as pair:
        pair.put(light("%LMQ%a", "%DLQ%g"))
        assert pair.store.look_message_by_offset(0).properties.get("INNER_MULTI_QUEUE_OFFSET") == offset
        assert (("%LMQ%a", 0) in pair.store.queues()) is (offset is not None)


BOTH = {"enable_lmq": True, "enable_multi_dispatch": True}


@pytest.mark.parametrize(
    ("topic", "names", "options"),
    [
        ("T", "%LMQ%a,plain", BOTH),
        ("T", "%LMQ%a,%LMQ%a", BOTH),
        ("%RETRY%g", "%LMQ%a", BOTH),
        ("rmq_sys_x", "%LMQ%a", BOTH),
        (SCHEDULE_TOPIC, "%LMQ%a", BOTH),
        ("Batched", "%LMQ%a", BOTH),
        ("T", "%LMQ%a", {"enable_lmq": True}),
        ("T", "%LMQ%a", {"enable_multi_dispatch": True}),
    ],
)
def test_what_older_releases_give_other_offsets_in_light_queues_is_refused_as_one_of_them(
    topic, names, options, tmp_path
):
    """Corner 53."""
    for release in ("4.9.3", "5.3.1"):
        (tmp_path / release).mkdir()
        extend_topics(tmp_path / release, {"Batched": 1}, {"Batched": "BatchCQ"})  # of another release
        with open_store(tmp_path / release, compat=release, **options) as store:
            message = message_of(light(names, topic))
            assert refusal(store, message) == "MESSAGE_ILLEGAL"
            with pytest.raises(PutMessageError, match=rf"INNER_MULTI_DISPATCH.*{release}"):
                store.put_messages([Message("T", b""), message])
            assert store.commit_log.max_phy_offset == 0
    for release in ("4.9.2", "5.3.2"):
        with open_store(tmp_path / release, compat=release, **options) as store:
            store.put_message(message_of(light(names, "T")))


@pytest.mark.parametrize("release", ["4.9.3", "5.3.1"])
def test_older_releases_take_names_of_light_queues_that_are_blank_or_not_asked_for(release, tmp_path):
    with Pair(tmp_path / "plain", compat=release) as pair:
        pair.put(light("%LMQ%a,plain"))
    with Pair(tmp_path / "blank", compat=release, **BOTH) as pair:
        pair.put(light(" "))


@pytest.mark.parametrize("names", [" ", "\t "])
def test_blank_names_are_none(names, tmp_path):
    with Pair(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True) as pair:
        pair.put(light(names))


# ---- what a put answers ------------------------------------------------------------------------------------


def test_a_result_says_where_the_message_is(tmp_path):
    with open_store(tmp_path / "store", store_host="10.1.2.3:10911") as store:
        store.put_message(Message("T", b"x", queue_id=2))
        result = store.put_message(Message("T", b"yz", queue_id=2), store_timestamp=BEGIN)
        assert result._asdict() == {
            "phy_offset": HEAD + 2,
            "size": HEAD + 3,
            "queue_id": 2,
            "queue_offset": 1,
            "store_timestamp": BEGIN,
            "store_host": "10.1.2.3:10911",
        }
        assert result.msg_id == "0A01020300002A9F000000000000005D"
        found = store.query_message_by_id(result.msg_id)
        assert (found.body, found.store_timestamp, found.store_host) == (b"yz", BEGIN, "10.1.2.3:10911")


def test_an_ipv6_broker_s_id_has_56_characters(tmp_path):
    """Corner 25."""
    with open_store(tmp_path / "store", store_host="[::1]:10911") as store:
        result = store.put_message(Message("T", b"x"))
        assert len(result.msg_id) == 56
        assert store.query_message_by_id(result.msg_id).body == b"x"


def test_the_store_time_is_now_unless_it_is_given(tmp_path):
    with open_store(tmp_path / "store") as store:
        before = time.time_ns() // 1_000_000
        result = store.put_message(Message("T", b""))
        assert before <= result.store_timestamp <= time.time_ns() // 1_000_000
        assert store.look_message_by_offset(result.phy_offset).store_timestamp == result.store_timestamp
        for timestamp in (0, -5, BEGIN, np.int64(7), 2**63 - 1):
            result = store.put_message(Message("T", b""), store_timestamp=timestamp)
            assert result.store_timestamp == timestamp
            assert store.look_message_by_offset(result.phy_offset).store_timestamp == timestamp


@pytest.mark.parametrize("timestamp", ["", 1.5, 2**63, b"given"])
def test_another_store_time_is_refused(timestamp, tmp_path):
    with open_store(tmp_path / "store") as store:
        for put in (store.put_message, lambda message, **options: store.put_messages([message], **options)):
            with pytest.raises((TypeError, ValueError)):
                put(Message("T", b""), store_timestamp=timestamp)
        assert store.commit_log.max_phy_offset == 0


def test_a_message_that_was_read_can_be_put_as_it_was(tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    with open_store(source, store_host="[::1]:1") as store:
        for i in range(50):
            message = Message("T", bytes(i), keys=f"k{i}", queue_id=i % 3, sys_flag=(0, COMMIT)[i % 2])
            message.reconsume_times = i
            store.put_message(message, store_timestamp=BEGIN + i)
    with open_store(copy) as store, rocketstore.open(source) as reader:
        for batch in reader.scan():
            for message in batch:
                result = store.put_message(message, store_timestamp="given")
                assert result.msg_id == message.msg_id
    assert files_under(copy) == files_under(source)


def test_a_message_that_was_read_is_put_with_the_body_that_it_has_now(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"old", queue_id=0))
        (message,) = store.get_message("T", 0, 0).messages
        message.body = b"new"
        for put in (store.put_message, lambda changed: store.put_messages([changed])):
            put(message)
        assert [m.body for m in store.get_message("T", 0, 0).messages] == [b"old", b"new", b"new"]


def test_a_message_that_was_read_without_a_queue_goes_to_light_queues(tmp_path):
    with open_store(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True) as store:
        store.put_message(Message("T", b"light", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        (batch,) = store.scan(columns=["topic", "body", "properties", "born_host", "sys_flag"])
        store.put_message(batch[0])
        assert store.consume_queue("%LMQ%a", 0).max_queue_offset == 2


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1])
def test_a_store_time_of_more_than_64_bits_is_a_value_error(timestamp, tmp_path):
    with open_store(tmp_path / "store") as store:
        for put in (store.put_message, lambda message, **when: store.put_messages([message], **when)):
            with pytest.raises(ValueError, match=str(abs(timestamp))[:3] + "|int|large|long"):
                put(Message("T", b"", queue_id=0), store_timestamp=timestamp)
        assert store.commit_log.max_phy_offset == 0
        assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 0


# ---- at once -----------------------------------------------------------------------------------------------


def test_every_query_sees_the_messages_that_were_put_before(tmp_path):
    with open_store(tmp_path / "store") as store:
        for i in range(60):
            message = Message("T", b"%d" % i, keys=f"k{i}", tags="t", queue_id=i % 2)
            result = store.put_message(message, store_timestamp=i)
            assert store.consume_queue("T", i % 2).max_queue_offset == i // 2 + 1
            assert [m.phy_offset for m in store.query_message("T", f"k{i}").messages] == [result.phy_offset]
            assert store.get_message("T", i % 2, i // 2).messages[0].body == b"%d" % i
            assert store.commit_log.max_phy_offset == result.phy_offset + result.size
            assert store.get_offset_by_time("T", i, i % 2) == i // 2
            assert len(store.query_message_by_tag("T", "t", 300).messages) == i + 1


def test_messages_are_dispatched_without_being_asked_for(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store, rocketstore.open(root, config=config_of()) as reader:
        store.put_message(Message("T", b"", keys="k", queue_id=0))
        deadline = time.monotonic() + 20
        while not (list(reader.queues()) and len(reader.query_message("T", "k").messages)):
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.001)
        assert list(reader.queues()) == [("T", 0)]


def test_topics_json_has_the_topics_that_were_put_to(tmp_path):
    root = tmp_path / "store"
    with open_store(root, enable_lmq=True, enable_multi_dispatch=True) as store:
        store.create_topic("Batched", 2, queue_type="BatchCQ")
        store.put_message(Message("New", b""))
        store.put_message(Message("Wide", b"", queue_id=9))
        store.put_message(message_of(light("%LMQ%a")))
    with rocketstore.open(root) as reader:
        topics = reader.topic_configs
        queues = {name: (topic.read_queue_nums, topic.write_queue_nums) for name, topic in topics.items()}
        assert queues == {"Batched": (2, 2), "New": (4, 4), "Wide": (10, 10), "T": (4, 4)}
        assert topics["Batched"].attributes == {"queue.type": "BatchCQ"}
    table = json.loads((root / "config" / "topics.json").read_bytes())["topicConfigTable"]
    assert table["New"]["perm"] == 6
    assert (root / "config" / "topics.json.bak").exists()


def test_a_topic_without_an_accepted_message_is_not_in_topics_json(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("Good", b""))
        for messages in ([Message("Bad", bytes(5000))], [Message("Bad", b""), Message("Bad", bytes(5 << 20))]):
            with pytest.raises(PutMessageError):
                store.put_messages(messages)
    with rocketstore.open(tmp_path / "store") as reader:
        assert list(reader.topic_configs) == ["Good"]


def test_a_store_knows_the_topics_that_it_made(tmp_path):
    with open_store(tmp_path / "store") as store:
        assert store.topic_configs == {}
        store.create_topic("T", 3)
        assert store.topic_configs["T"].write_queue_nums == 3
        store.put_message(Message("Put", b""))
        store.flush()
        assert set(store.topic_configs) == {"T", "Put"}


def test_a_topic_is_made_after_the_new_ones_that_are_being_saved(monkeypatch, tmp_path):
    events, begun, real = [], threading.Event(), JsonTables.extend_topics

    def extend_topics(tables, topics, *types, held):
        events.append(("begin", *topics))
        begun.set()
        time.sleep(0.05)
        real(tables, topics, *types, held=held)
        events.append(("end", *topics))

    with open_store(tmp_path / "store") as store:
        monkeypatch.setattr(JsonTables, "extend_topics", extend_topics)
        store.put_message(Message("Put", b""))
        assert begun.wait(20)
        store.create_topic("Made", 2)
        assert events == [("begin", "Put"), ("end", "Put"), ("begin", "Made"), ("end", "Made")]
        assert set(store.topic_configs) == {"Put", "Made"}


def test_create_topic_widens_and_refuses_another_type(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("T", 2)
        store.create_topic("T", 5)
        store.create_topic("T", 3)
        assert {store.put_message(Message("T", b"")).queue_id for _ in range(10)} == set(range(5))
        with pytest.raises(ValueError, match="T"):
            store.create_topic("T", 5, queue_type="BatchCQ")
        for topic in ("..", "", "a/b"):
            with pytest.raises(ValueError, match="topic"):
                store.create_topic(topic, 1)


def test_a_topic_cannot_become_one_of_batches_after_its_first_message(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", queue_id=0))
        with pytest.raises(ValueError, match="T"):
            store.create_topic("T", 4, queue_type="BatchCQ")
        store.put_message(Message("T", b"", queue_id=0))
        assert store.consume_queue("T", 0).max_queue_offset == 2


def test_without_an_index_nothing_is_indexed(tmp_path):
    with open_store(tmp_path / "store", message_index_enable=False) as store:
        store.put_message(Message("T", b"", keys="k", queue_id=0))
        assert store.consume_queue("T", 0).max_queue_offset == 1
    assert files_under(tmp_path / "store", "index") == {}


def test_an_index_file_exists_after_a_first_message_without_keys(tmp_path):
    """Corner 57."""
    with Pair(tmp_path / "store") as pair:
        pair.put(body=b"x")
        pair.store.flush()
    assert len(files_under(tmp_path / "store", "index")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_many_seeds_are_the_reference_s_byte_for_byte(profile, seed, tmp_path):
    draw, options = PROFILES[profile]
    for number in range(5):
        rng = random.Random(f"{seed} {number} {profile}")
        file_size, index_num = rng.choice([4096, 8192, 5000]), rng.choice([10, 40, 400])
        sizes = {"mapped_file_size_commit_log": file_size, "max_index_num": index_num}
        with Pair(tmp_path / str(number), **{**sizes, **options}) as pair:
            for _ in range(rng.randrange(1, 300)):
                if rng.random() < 0.5:
                    pair.put(draw(rng))
                else:
                    pair.put_messages([draw(rng) for _ in range(rng.randrange(20))])
                pair.time += rng.choice([0, 1, 999, 60_000, -5000])


def test_the_model_refuses_what_the_store_does(tmp_path):
    config = config_of(store_host="10.0.0.1:1", max_message_size=100)
    model = model_of(config)
    cases = [fields_of(body=bytes(101)), fields_of(properties=properties_of(32768)), fields_of(body=bytes(100))]
    statuses = []
    for fields in cases:
        try:
            statuses.append(model.put(with_host(fields, config), BEGIN).phy_offset)
        except Refused as refused:
            statuses.append(str(refused))
    assert statuses == ["MESSAGE_ILLEGAL", "PROPERTIES_SIZE_EXCEEDED", 0]
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        found = []
        for fields in cases:
            try:
                found.append(store.put_message(message_of(fields), store_timestamp=BEGIN).phy_offset)
            except PutMessageError as error:
                found.append(error.status)
        assert found == statuses
    assert_same_files(tmp_path / "store", model)


def test_the_small_configuration_writes_a_store(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig.small()) as store:
        assert store.put_message(Message("T", b"x", keys="k")).phy_offset == 0
        assert len(store.query_message("T", "k").messages) == 1
    assert [len(data) for data in read_files(tmp_path / "store" / "commitlog").values()] == [1 << 20]


@pytest.mark.parametrize("codec", [None, "zlib"])
def test_a_batch_is_never_compressed_as_no_client_s_is(codec, tmp_path):
    messages = [Message("T", b"a" * 100, compress="zlib"), Message("T", b"a" * 99, sys_flag=0x300), Message("T", b"b")]
    with open_store(tmp_path / "store") as store:
        result = store.put_batch(Message("T", b"", queue_id=0, compress=codec), messages)
        found = [store.look_message_by_offset(offset) for offset in result.phy_offsets.tolist()]
    assert [(message.raw_body, message.sys_flag) for message in found] == [(b"a" * 100, 0), (b"a" * 99, 0), (b"b", 0)]


def test_a_batch_of_messages_that_were_read_compressed_is_read_again(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_messages([Message("T", b"a" * 100, queue_id=0, compress=codec) for codec in ("zlib", None)])
        (messages,) = store.scan()
        store.put_batch(messages[0], messages)
        assert [message.body for message in store.get_message("T", 0, 0).messages] == [b"a" * 100] * 4

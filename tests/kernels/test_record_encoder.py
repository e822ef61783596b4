"""Encode messages as records without a place: every field against the reference, and refused values."""

import enum
import random
import struct

import numpy as np
import pytest
from reference.java import java_encode
from reference.record import CRC_RESERVED, build_record, host
from support.puts import BEGIN, PROFILES, draw_plain, draw_properties, fields_of, message_of

from rocketstore import Message, PutMessageError
from rocketstore.kernels.hosts import parse_host
from rocketstore.kernels.record_encoder import RecordEncoder
from rocketstore.kernels.text import java_bytes


def encoder_of(**options):
    return RecordEncoder("10.0.0.1:10911", lambda topic: len(topic), **options)


def sizes_of(encoder):
    return encoder.columns()[0].tolist()


# ---- sizes and columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [name for name, (_, options) in PROFILES.items() if not options])
def test_sizes_queues_and_times_are_the_reference_s(profile, seed):
    draw, _ = PROFILES[profile]
    rng = random.Random(f"{seed} encode {profile}")
    encoder = encoder_of()
    rows = [{**draw(rng), "store_timestamp": rng.randrange(2**62)} for _ in range(100)]
    for row in rows:
        encoder.add(message_of(row), keeps_store=True)
    expected = []
    for row in rows:
        properties = {name: value for name, value in row["properties"].items() if value is not None}
        expected.append(len(build_record(**{"store_host": "10.0.0.1:10911", **row, "properties": properties})))
    sizes, queue_ids, times = encoder.columns()
    assert sizes.tolist() == expected
    assert queue_ids.tolist() == [row["queue_id"] for row in rows]
    assert times.tolist() == [row["store_timestamp"] for row in rows]
    assert (sizes.dtype, queue_ids.dtype, times.dtype) == (np.int32, np.int32, np.int64)
    assert encoder.queues == list(dict.fromkeys((row["topic"], row["queue_id"]) for row in rows))
    assert len(encoder) == 100
    assert encoder.size == sum(expected)
    assert encoder.largest == max(expected)


def test_an_encoder_begins_empty_and_anew_after_clear():
    encoder = encoder_of()
    for _ in range(3):
        assert (len(encoder), encoder.size, encoder.largest, encoder.queues) == (0, 0, 0, [])
        assert [len(column) for column in encoder.columns()] == [0, 0, 0]
        for i in range(200):
            encoder.add(Message("T", bytes(i), queue_id=i))
        assert sizes_of(encoder) == [92 + i for i in range(200)]
        encoder.clear()


def test_a_message_without_a_queue_asks_for_one():
    encoder = encoder_of()
    for topic in ("a", "abc", "ab"):
        encoder.add(Message(topic, b""))
    assert encoder.queues == [("a", 1), ("abc", 3), ("ab", 2)]


def test_what_finding_a_queue_raises_is_raised_and_nothing_added():
    def fail(topic):
        raise KeyError(topic)

    encoder = RecordEncoder("1.2.3.4:5", fail)
    with pytest.raises(KeyError, match="T"):
        encoder.add(Message("T", b""))
    encoder.add(Message("T", b"", queue_id=0))
    assert len(encoder) == 1


def test_a_refused_message_leaves_the_others(seed):
    rng = random.Random(f"{seed} refused")
    bad = [
        Message("T", bytes(101), queue_id=0),
        Message("T", b"", queue_id=0, properties={"a": "b" * 32765}),
        Message("é" * 64, b"", queue_id=0),
        Message("T", b"", queue_id=0, born_host="x"),
        Message("T", b"", queue_id=0, properties={"a": 5}),
    ]
    encoder, alone = encoder_of(max_message_size=100), encoder_of(max_message_size=100)
    for i in range(100):
        message = message_of({**draw_plain(rng), "body": bytes(i)})
        encoder.add(message)
        alone.add(message)
        with pytest.raises((ValueError, TypeError)):
            encoder.add(bad[i % len(bad)])
    assert sizes_of(encoder) == sizes_of(alone)
    assert encoder.queues == alone.queues
    assert encoder.size == alone.size


def test_many_are_encoded_up_to_one_that_is_refused():
    good, bad = Message("T", b"body", queue_id=0), Message("T", bytes(101), queue_id=0)
    many, each = encoder_of(max_message_size=100), encoder_of(max_message_size=100)
    assert many.add_all([good, good, bad, good], 0, 4) == 2
    assert many.add_all([good, good, bad, good], 3, 4) == 4
    for _ in range(3):
        each.add(good)
    assert sizes_of(many) == sizes_of(each)
    assert many.add_all([], 0, 0) == 0
    assert many.add_all([good, None, good], 0, 3) == 1
    assert many.add_all([good], 0, 2) == 1


def test_the_time_of_a_message_counts_only_where_it_is_kept():
    encoder = encoder_of()
    message = Message("T", b"", queue_id=0)
    message.store_timestamp = BEGIN
    message.store_host = "[::1]:1"
    encoder.add(message)
    encoder.add(message, keeps_store=True)
    assert encoder.columns()[2].tolist() == [0, BEGIN]
    assert sizes_of(encoder) == [92, 104]


# ---- limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trailing", "most"), [(True, 32764), (False, 32765)])
def test_properties_may_have_32767_bytes_with_their_separators(trailing, most):
    encoder = encoder_of(trailing_separator=trailing)
    encoder.add(Message("T", b"", queue_id=0, properties={"a": "b" * most}))
    assert sizes_of(encoder) == [92 + 32767]
    with pytest.raises(PutMessageError) as refused:
        encoder.add(Message("T", b"", queue_id=0, properties={"a": "b" * (most + 1)}))
    assert refused.value.status == "PROPERTIES_SIZE_EXCEEDED"
    assert "32768" in str(refused.value)


@pytest.mark.parametrize("trailing", [True, False])
@pytest.mark.parametrize("first", range(32762, 32767))
def test_no_property_is_left_out_silently_near_the_limit(first, trailing):
    """Of these bytes the separator that some releases leave off is one."""
    properties = {"n": "v" * first, "LOST": "yes", "KEYS": "k"}
    with pytest.raises(PutMessageError) as refused:
        encoder_of(trailing_separator=trailing).add(Message("T", b"", queue_id=0, properties=properties))
    assert refused.value.status == "PROPERTIES_SIZE_EXCEEDED"


def test_many_large_properties_are_refused_without_taking_their_memory():
    value = "x" * (1 << 20)
    with pytest.raises(PutMessageError, match="properties"):
        encoder_of().add(Message("T", b"", queue_id=0, properties={str(i): value for i in range(3000)}))


def test_a_refusal_names_topic_sizes_and_status():
    with pytest.raises(PutMessageError, match=r"'Orders'.*101.*100.*MESSAGE_ILLEGAL") as refused:
        encoder_of(max_message_size=100).add(Message("Orders", bytes(101), queue_id=0))
    assert isinstance(refused.value, ValueError)


def test_the_crc_property_takes_20_bytes_and_replaces_another():
    plain, crc = encoder_of(), encoder_of(append_prop_crc=True)
    for properties in ({}, {"a": "b"}, {"__CRC32#": "x", "a": "b"}, {"__CRC32": "x", "__CRC32##": "y"}):
        kept = {name: value for name, value in properties.items() if name != "__CRC32#"}
        plain.add(Message("T", b"", queue_id=0, properties=kept))
        crc.add(Message("T", b"", queue_id=0, properties=properties))
    assert [size - CRC_RESERVED for size in sizes_of(crc)] == sizes_of(plain)


# ---- batches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch_properties", "trailing", "more"),
    [("none", True, 0), ("joined", True, 4), ("joined", False, 3), ("separated", False, 4), ("separated", True, 4)],
)
def test_a_batch_gives_its_properties_by_release(batch_properties, trailing, more):
    encoder = encoder_of(batch_properties=batch_properties, trailing_separator=trailing)
    batch = Message("T", b"", queue_id=0, properties={"c": "d"})
    encoder.add(Message("any", b"", properties={"a": "b"}), batch=batch)
    encoder.add(Message("any", b""), batch=batch)
    alone = 4 - (not trailing)
    assert sizes_of(encoder) == [92 + alone + more, 92 + (alone if more else 0)]


def test_a_batch_gives_topic_queue_hosts_and_flags(seed):
    rng = random.Random(f"{seed} head")
    encoder = encoder_of()
    head = message_of(fields_of("Head", queue_id=7, born_host="[::1]:5"))
    for _ in range(20):
        encoder.add(message_of({**draw_plain(rng), "properties": draw_properties(rng)}), batch=head)
    assert encoder.queues == [("Head", 7)]


# ---- texts and hosts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.str_, lambda text: enum.StrEnum("Names", {"NAME": text}).NAME])
def test_a_str_of_a_class_of_its_own_is_a_str(kind):
    plain, other = encoder_of(), encoder_of()
    for encoder, text in ((plain, str), (other, kind)):
        properties = {text("a\ud800"): text("b\ud800"), text("c"): text("d")}
        encoder.add(Message(text("T"), b"", properties=properties, born_host=text("1.2.3.4:5"), born_timestamp=7))
    assert other.dump()[0] == plain.dump()[0]
    assert [type(topic) for topic, _ in other.queues] == [str]


@pytest.mark.parametrize("name", ["queue_id", "flag", "sys_flag", "born_timestamp"])
def test_a_number_that_is_no_integer_is_a_type_error(name):
    encoder = encoder_of()
    with pytest.raises(TypeError):
        encoder.add(Message("T", b"", **{"queue_id": 0, name: 1.5}))
    encoder.add(Message("T", b"", **{"queue_id": 0, name: np.int64(1)}))
    assert len(encoder) == 1


def test_text_is_encoded_as_java_does(seed):
    rng = random.Random(f"{seed} text")
    pieces = ["a", "é", "主", "😀", "\ud83d", "\ude00", "\udc80", "\x00", "\uffff"]
    for _ in range(2000):
        text = "".join(rng.choices(pieces, k=rng.randrange(8)))
        assert java_bytes(text) == java_encode(text)
    with pytest.raises(TypeError):
        java_bytes(None)


@pytest.mark.parametrize("text", ["127.0.0.1:0", "1.2.3.4:65535", "[::]:1", "[2001:db8::ff]:80", "[::ffff:1.2.3.4]:9"])
def test_a_host_is_its_address_and_four_bytes_of_port(text):
    address, port = host(text)
    assert parse_host(text) == address + struct.pack(">i", port)


@pytest.mark.parametrize(
    "text",
    ["", ":", "1.2.3.4", "1.2.3.4:", "1.2.3:4", "::1:80", "[]:80", "[1.2.3.4]:80", "[::1]", "a:1", "01.2.3.4:5:6"],
)
def test_anything_but_a_host_is_refused(text):
    with pytest.raises(ValueError, match="must be an address and a port"):
        parse_host(text)


def test_many_hosts_are_encoded_right():
    encoder = encoder_of()
    for i in range(10_000):
        encoder.add(Message("T", b"", queue_id=0, born_host=f"10.0.{i // 256 % 256}.{i % 256}:{i % 65536}"))
    assert set(sizes_of(encoder)) == {92}

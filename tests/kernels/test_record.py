"""One record, checked as CommitLog.checkMessageAndReturnSize checks it, and its properties, parsed as Java does."""

import random
import struct
import zlib

import pytest
from reference.java import java_decode, java_encode
from reference.record import (
    CRC_RESERVED,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREPARED,
    ROLLBACK,
    SCHEDULE_TOPIC,
    blank,
    build_record,
    crc_property,
    parse_properties,
    parse_record,
)
from support import stores

from rocketstore.kernels.record import check_message_and_return_size, decode_properties

CHECK_CRC, CHECK_DUP, _READ_BODY, FORCE_VERIFY = 1, 2, 4, 8
MINUTE = 60_000


def check(data, **options):
    return check_message_and_return_size(data, **options)


def check_fields(**fields):
    """The fields of a sound record made of these."""
    success, size, found = check(build_record(**fields))
    assert success
    assert size == len(build_record(**fields))
    return found


def fields_of(record, size):
    """A record of the reference, as the fields that the check gives."""
    return {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "phy_offset": record.phy_offset,
        "size": size,
        "tags_code": record.tags_code,
        "store_timestamp": record.store_timestamp,
        "queue_offset": record.queue_offset,
        "keys": record.properties.get("KEYS"),
        "uniq_key": record.uniq_key,
        "sys_flag": record.sys_flag,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "properties": record.properties,
        "msg_base_offset": record.msg_base_offset,
        "batch_size": record.batch_size,
    }


def lengths_of(data):
    """The size and the lengths of body, topic and properties of a record, as far as they are in the bytes."""
    lengths = [int.from_bytes(data[:4], "big", signed=True)]
    v6 = struct.unpack_from(">i", data, 36)[0]
    pos = 84 + (12 if v6 & 0x10 else 0) + (12 if v6 & 0x20 else 0)
    for width in (4, 1 if data[4:8] == MAGIC_V1.to_bytes(4, "big", signed=True) else 2, 2):
        if len(data) < pos + width:
            break
        lengths.append(int.from_bytes(data[pos : pos + width], "big", signed=True))
        pos += width + max(lengths[-1], 0)
    return lengths


# ---- as RocketMQ says --------------------------------------------------------------------------------------


def options_of(row):
    return {
        "check_crc": bool(row["flags"] & CHECK_CRC),
        "check_dup": bool(row["flags"] & CHECK_DUP),
        "force_verify_prop_crc": bool(row["flags"] & FORCE_VERIFY),
    }


def is_stricter(data, row):
    """Whether a length is negative, which RocketMQ goes over: it must not pass here, nor have a size."""
    return row["size"] > 0 and min(lengths_of(data)) < 0


def dispatch_of(dispatch, size):
    return {
        "topic": dispatch["topic"],
        "queue_id": dispatch["queueId"],
        "phy_offset": dispatch["phyOffset"],
        "size": size,
        "tags_code": dispatch["tagsCode"],
        "store_timestamp": dispatch["storeTimestamp"],
        "queue_offset": dispatch["queueOffset"],
        "keys": dispatch["keys"] or None,
        "uniq_key": dispatch["uniqKey"],
        "sys_flag": dispatch["sysFlag"],
        "prepared_transaction_offset": dispatch["preparedTransactionOffset"],
        "properties": dispatch["properties"] or {},
        "msg_base_offset": dispatch["msgBaseOffset"],
        "batch_size": dispatch["batchSize"],
    }


def test_the_check_agrees_with_rocketmq_on_2004_byte_strings():
    rows = stores.records()
    assert len(rows) == 2004
    different = []
    for i, row in enumerate(rows):
        data = bytes.fromhex(row["data"])
        success, size, fields = check(data, **options_of(row), negative_blank=True)  # of 5.5.0
        expected = dispatch_of(row["dispatch"], row["size"]) if row["dispatch"] else None
        if (success, size, fields) != (row["success"], row["size"], expected):
            different.append((i, data, row, (success, size, fields)))
    for i, data, row, (success, _, fields) in different:
        assert is_stricter(data, row), (i, row, fields)
        assert not success, i


def test_the_check_agrees_with_the_reference_on_flipped_and_cut_records(seed):
    random_ = random.Random(seed)
    disagreements = 0
    for _ in range(4000):
        data = bytearray(random_record(random_))
        for _ in range(random_.randrange(3)):
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        del data[random_.choice([len(data), len(data), random_.randrange(len(data) + 1)]) :]
        options = {name: random_.random() < 0.5 for name in ("check_crc", "check_dup", "force_verify_prop_crc")}
        parsed = parse_record(bytes(data), **options)
        success, size, fields = check(bytes(data), **options)
        expected = fields_of(parsed.record, parsed.size) if parsed.record else None
        if (success, size, fields) == (parsed.success, parsed.size, expected):
            continue
        disagreements += 1
        row = {"success": parsed.success, "size": parsed.size}
        assert is_stricter(bytes(data), row), (bytes(data).hex(), options, parsed)
        assert not success
    assert disagreements < 200


@pytest.mark.parametrize(
    ("size", "before_5_5_1"), [(-1, True), (-8, True), (4 - 2**31, True), (3 - 2**31, False), (-(2**31), False)]
)
def test_a_blank_of_a_negative_size_is_one_before_5_5_1_alone(size, before_5_5_1):
    data = struct.pack(">iI", size, 0xCBD43194) + bytes(50)
    assert check(data, negative_blank=True) == ((True, 0, None) if before_5_5_1 else (False, -1, None))
    assert check(data) == (False, -1, None)
    assert not parse_record(data).success


@pytest.mark.parametrize("size_agrees", [False, True])
def test_a_negative_length_has_no_size_here_whether_it_passes_in_rocketmq_or_not(size_agrees):
    data = bytearray(build_record(body=b"", topic="T", properties={}))
    data[84:88] = (-1).to_bytes(4, "big", signed=True)
    data += b"" if size_agrees else b"more"
    data[:4] = len(data).to_bytes(4, "big")
    parsed = parse_record(bytes(data))
    assert (parsed.success, parsed.size) == (size_agrees, len(data))
    assert check(bytes(data)) == (False, -1, None)
    assert is_stricter(bytes(data), {"success": parsed.success, "size": parsed.size})


def random_record(random_):
    properties = {
        name: random_.choice(values)
        for name, values in {
            "KEYS": ["a", "a b", " a  b ", "é"],
            "TAGS": ["TagA", "\U0001f600", "a||b"],
            "UNIQ_KEY": ["7F00000100002A9F0000018BCFE56800"],
            "DELAY": ["1", "+3", "-1", "99", "٣", "abc", "2147483648", "1_0"],
            "DUP_INFO": ["a_b", "a_b__", "_b", "a", "a_b_c", "___"],
            "INNER_NUM": ["3", "32768", "-32768", "x"],
            "INNER_BASE": ["7", "9223372036854775808"],
        }.items()
        if random_.random() < 0.4
    }
    return build_record(
        topic=random_.choice(["T", SCHEDULE_TOPIC, "t" * 127, "t" * 128, b"\xed\xa0\x80\xff"]),
        body=random_.randbytes(random_.choice([0, 1, 60])),
        properties=properties,
        queue_id=random_.randrange(-(2**31), 2**31),
        sys_flag=random_.choice([0, PREPARED, ROLLBACK]),
        queue_offset=random_.randrange(-(2**63), 2**63),
        born_host=random_.choice(["1.2.3.4:80", "[::1]:80"]),
        store_host=random_.choice(["1.2.3.4:80", "[fe80::1]:2147483647"]),
        store_timestamp=random_.choice([0, 2**63 - 1, 1_700_000_000_000]),
        append_prop_crc=random_.random() < 0.3,
    )


# ---- sizes and fields --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("born_host", "store_host", "extra"),
    [
        ("1.2.3.4:5", "1.2.3.4:5", 0),
        ("[::1]:5", "1.2.3.4:5", 12),
        ("1.2.3.4:5", "[::1]:5", 12),
        ("[::1]:5", "[::2]:5", 24),
    ],
)
def test_the_least_record_has_91_bytes_and_12_more_for_each_ipv6_host(born_host, store_host, extra):
    """Corner 1."""
    data = build_record(topic="", body=b"", born_host=born_host, store_host=store_host)
    assert len(data) == 91 + extra
    assert check(data)[:2] == (True, 91 + extra)


def test_a_port_is_four_bytes_wide():
    """Corner 2."""
    from rocketstore.kernels.buffer import Buffer
    from rocketstore.kernels.commit_log import read_message

    data = build_record(born_host="1.2.3.4:70000", store_host="[::1]:2147483647")
    _, fields = read_message(Buffer(data), 0, 0)
    assert (fields["born_host"], fields["store_host"]) == ("1.2.3.4:70000", "[::1]:2147483647")


def test_a_body_crc_has_no_top_bit_and_that_of_an_empty_body_is_not_looked_at():
    """Corner 3."""
    body = next(bytes([i, j]) for i in range(256) for j in range(256) if zlib.crc32(bytes([i, j])) >> 31)
    assert check(build_record(body=body, body_crc=zlib.crc32(body) & 0x7FFFFFFF))[0]
    assert check(build_record(body=body, body_crc=zlib.crc32(body))) == (False, -1, None)
    assert check(build_record(body=body, body_crc=zlib.crc32(body)), check_crc=False)[0]
    assert check(build_record(body=b"", body_crc=12345))[0]


def test_the_body_crc_is_of_the_compressed_bytes():
    """Corner 4."""
    raw = zlib.compress(b"hello")
    assert check(build_record(body=raw, sys_flag=1))[0]
    assert not check(build_record(body=raw, sys_flag=1, body_crc=zlib.crc32(b"hello") & 0x7FFFFFFF))[0]


@pytest.mark.parametrize(("length", "magic", "topic_field"), [(127, MAGIC_V1, 1), (128, MAGIC_V2, 2)])
def test_a_topic_of_127_characters_is_v1_and_of_128_v2(length, magic, topic_field):
    """Corner 5."""
    data = build_record(topic="t" * length, body=b"")
    assert struct.unpack_from(">i", data, 4) == (magic,)
    assert len(data) == 90 + topic_field + length
    assert check(data)[2]["topic"] == "t" * length


def test_a_v1_topic_longer_than_its_length_byte_can_say_is_no_record():
    assert check(build_record(topic="题" * 100)) == (False, len(build_record(topic="题" * 100)), None)
    assert check(build_record(topic="é" * 100)) == (False, -1, None)  # 200 bytes: a length of -56


def test_properties_of_32767_bytes_are_read():
    properties = b"a\x01" + b"v" * 32764 + b"\x02"
    assert len(properties) == 32767
    assert check_fields(properties=properties)["properties"] == {"a": "v" * 32764}
    assert not check(build_record(properties=properties + b"x"))[0]  # the length field has become negative


def test_a_negative_properties_length_is_a_mismatch_of_the_size():
    """Corner 21."""
    data = build_record(properties={"a": "b"}, properties_length=-1)
    assert check(data) == parse_record(data) == (False, len(data), None)


@pytest.mark.parametrize("field", ["body_length", "topic_length", "properties_length"])
@pytest.mark.parametrize("magic", [MAGIC_V1, MAGIC_V2])
def test_a_negative_length_is_never_a_success_even_where_rocketmq_lets_it_through(field, magic):
    for value in (-1, -128):
        for total_size in (None, 91, 92):
            data = build_record(magic=magic, topic="", body=b"", total_size=total_size, **{field: value})
            assert check(data)[0] is False, (value, total_size)


@pytest.mark.parametrize("total_size", [0, -1, -(2**31), 1, 7, 8, 9, 90, 2**31 - 1])
def test_a_size_that_cannot_be_is_no_success(total_size):
    data = build_record(total_size=total_size)
    assert check(data) == parse_record(data) == (False, total_size if total_size in (9, 90) else -1, None)


def test_zeros_are_no_record_and_no_blank():
    """Corner 32."""
    assert check(bytes(200)) == (False, -1, None)


@pytest.mark.parametrize("n", range(8))
def test_too_few_bytes_for_a_head_are_no_record(n):
    assert check(build_record()[:n]) == (False, -1, None)


def test_every_cut_of_a_record_is_no_record():
    data = build_record(properties={"KEYS": "k"}, born_host="[::1]:1")
    for n in range(len(data)):
        assert check(data[:n]) == (False, -1, None)
    assert check(data)[0]


def test_bytes_after_a_record_do_not_matter():
    data = build_record(properties={"KEYS": "k"})
    assert check(data + b"\xff" * 50) == check(data)


@pytest.mark.parametrize("size", [8, 9, 5000])
def test_a_blank_is_a_success_of_size_0(size):
    assert check(blank(size)) == (True, 0, None)


@pytest.mark.parametrize("magic", [0, 1, -1, MAGIC_V1 + 1, MAGIC_BLANK - 1, 0x201D5DA3])
def test_another_magic_is_no_record(magic):
    assert check(build_record(magic=magic)) == (False, -1, None)


@pytest.mark.parametrize("transaction", [PREPARED, ROLLBACK])
def test_a_queue_offset_of_0_is_stored_for_prepared_and_rollback(transaction):
    """Corner 15."""
    fields = check_fields(sys_flag=transaction, queue_offset=0, prepared_transaction_offset=77)
    assert (fields["queue_offset"], fields["prepared_transaction_offset"], fields["sys_flag"]) == (0, 77, transaction)


def test_a_record_without_a_property_map_reads_as_no_properties():
    """Corner 27."""
    assert check_fields(properties={})["properties"] == {}


def test_any_buffer_can_be_checked():
    data = build_record()
    assert check(bytearray(data)) == check(memoryview(data)) == check(data)
    with pytest.raises(TypeError):
        check("text")
    with pytest.raises(TypeError):
        check(None)


# ---- dispatch requests -------------------------------------------------------------------------------------


def test_the_tags_code_is_the_hash_of_the_tags():
    """Corner 34."""
    assert check_fields(properties={"TAGS": "TagA"})["tags_code"] == 2598919
    assert check_fields(properties={"TAGS": "\U0001f600"})["tags_code"] == 1772899  # two units, as Java has them
    assert check_fields()["tags_code"] == 0


@pytest.mark.parametrize(("delay", "minutes"), [("1", 1 / 60), ("5", 1), ("18", 120), ("99", 120), ("2147483647", 120)])
def test_a_delayed_message_s_tags_code_is_when_it_is_due_and_levels_end_at_the_last(delay, minutes):
    """Corner 36."""
    fields = check_fields(topic=SCHEDULE_TOPIC, properties={"TAGS": "x", "DELAY": delay}, store_timestamp=1000)
    assert fields["tags_code"] == 1000 + minutes * MINUTE


@pytest.mark.parametrize("delay", ["0", "-1", "-2147483648"])
def test_a_delay_level_that_is_not_positive_leaves_the_tags_code(delay):
    assert check_fields(topic=SCHEDULE_TOPIC, properties={"TAGS": "TagA", "DELAY": delay})["tags_code"] == 2598919


@pytest.mark.parametrize(
    "number",
    ["abc", "1 ", " 1", "1_0", "+", "-", "1.0", "2147483648", "-2147483649", "0x1", "\U0001d7cf", "\uff11" * 5000],
    ids=lambda number: ascii(number)[:20],
)
def test_a_delay_that_java_cannot_parse_makes_the_record_unreadable_in_the_schedule_topic_only(number):
    """Corner 30."""
    assert check(build_record(SCHEDULE_TOPIC, properties={"DELAY": number})) == (False, -1, None)
    assert check(build_record("T", properties={"DELAY": number}))[0]


@pytest.mark.parametrize(
    ("number", "level"),
    [("+5", 5), ("05", 5), ("\u0665", 5), ("\uff15", 5), ("-\u0665", -5), ("+०५", 5), ("\uff10" * 5000 + "5", 5)],
    ids=lambda value: ascii(value)[:20],
)
def test_a_number_may_have_a_sign_and_digits_of_any_script(number, level):
    fields = check_fields(topic=SCHEDULE_TOPIC, properties={"DELAY": number}, store_timestamp=0)
    assert fields["tags_code"] == (MINUTE if level == 5 else 0)


def test_the_delay_levels_are_those_of_the_configuration():
    data = build_record(SCHEDULE_TOPIC, properties={"DELAY": "3"}, store_timestamp=0)
    assert check(data, message_delay_level="1s 2m 3h 4d")[2]["tags_code"] == 180 * MINUTE
    assert check(data, message_delay_level="7d")[2]["tags_code"] == 7 * 1440 * MINUTE
    for levels in ("1x", "s", "1s,2s", "-1s"):
        with pytest.raises(ValueError, match="message_delay_level"):
            check(data, message_delay_level=levels)


def test_a_due_time_wraps_as_java_s_long_does():
    fields = check_fields(topic=SCHEDULE_TOPIC, properties={"DELAY": "1"}, store_timestamp=2**63 - 1)
    assert fields["tags_code"] == -(2**63) + 999


@pytest.mark.parametrize(
    ("number", "base", "expected"),
    [
        ("3", "10", (10, 3)),
        ("+3", "-1", (-1, 3)),
        ("-32768", "9223372036854775807", (2**63 - 1, -32768)),
        ("32767", "-9223372036854775808", (-(2**63), 32767)),
    ],
)
def test_an_inner_batch_has_its_own_first_offset_and_count(number, base, expected):
    fields = check_fields(properties={"INNER_NUM": number, "INNER_BASE": base}, queue_offset=5)
    assert (fields["msg_base_offset"], fields["batch_size"]) == expected


@pytest.mark.parametrize(
    ("number", "base"),
    [
        ("32768", "1"),
        ("-32769", "1"),
        ("x", "1"),
        ("1", "9223372036854775808"),
        ("1", "-9223372036854775809"),
        ("1", "٣x"),
    ],
)
def test_inner_batch_numbers_that_do_not_fit_make_the_record_unreadable(number, base):
    assert check(build_record(properties={"INNER_NUM": number, "INNER_BASE": base})) == (False, -1, None)


def test_only_both_properties_make_an_inner_batch():
    for properties in ({"INNER_NUM": "x"}, {"INNER_BASE": "x"}):
        fields = check_fields(properties=properties, queue_offset=5)
        assert (fields["msg_base_offset"], fields["batch_size"]) == (5, 1)


@pytest.mark.parametrize(("dup_info", "sound"), [
    ("a_b", True), ("a_b__", True), ("_b", True), ("a", False), ("a_", False), ("a_b_c", False), ("a__b", False),
    ("___", False), ("é_题", True),
])  # fmt: skip
def test_dup_info_must_be_two_parts_where_it_is_checked(dup_info, sound):
    data = build_record(properties={"DUP_INFO": dup_info})
    assert check(data, check_dup=True)[0] is sound
    assert check(data)[0]


def test_dup_info_is_not_looked_for_where_there_are_no_properties():
    assert check(build_record(properties={}), check_dup=True)[0]
    assert not check(build_record(properties={"a": "b"}), check_dup=True)[0]


# ---- the property of the CRC -------------------------------------------------------------------------------


def test_the_crc_property_has_its_digits_reversed_and_is_padded_with_zeros_at_the_end():
    """Corner 22."""
    data = build_record(properties={"KEYS": "k"}, append_prop_crc=True)
    crc = zlib.crc32(data[:-CRC_RESERVED]) & 0x7FFFFFFF
    assert data[-11:] == str(crc)[::-1].ljust(10, "0").encode() + b"\x02"
    success, _, fields = check(data, force_verify_prop_crc=True)
    assert success
    assert int(fields["properties"]["__CRC32#"][::-1]) == crc


def test_a_crc_of_fewer_than_ten_digits_is_padded():
    """Corner 22."""
    for i in range(10_000):
        data = build_record(body=str(i).encode(), append_prop_crc=True)
        if data[-3:] == b"00\x02":
            assert check(data, force_verify_prop_crc=True)[0]
            return
    pytest.fail("no such CRC was found")


def test_a_missing_or_wrong_crc_property_makes_the_record_invalid_where_it_is_verified():
    """Corner 23."""
    plain = build_record(properties={"KEYS": "k"})
    assert check(plain, force_verify_prop_crc=True) == (False, -1, None)
    assert check(plain)[0]
    sound = build_record(properties={"KEYS": "k"}, append_prop_crc=True)
    for i in range(8, len(sound) - CRC_RESERVED):
        damaged = sound[:i] + bytes([sound[i] ^ 1]) + sound[i + 1 :]
        assert not check(damaged, force_verify_prop_crc=True)[0], i
    assert check(sound, check_crc=False, force_verify_prop_crc=True)[0]


def test_the_body_crc_is_not_looked_at_where_the_property_s_is():
    body_crc_wrong = build_record(body=b"abc", body_crc=1, append_prop_crc=True)
    assert check(body_crc_wrong, force_verify_prop_crc=True)[0]
    assert not check(body_crc_wrong)[0]


@pytest.mark.parametrize("digits", ["", "x", "99999999999", "4294967296", "é", "\U0001f600"])
def test_crc_properties_that_are_no_number_agree_with_the_reference(digits):
    data = build_record(properties={"a": "b", "__CRC32#": digits})
    assert check(data, force_verify_prop_crc=True)[0] is parse_record(data, force_verify_prop_crc=True).success


def test_of_two_crc_properties_the_last_counts():
    first = build_record(properties={"__CRC32#": "1"}, append_prop_crc=True)
    assert check(first, force_verify_prop_crc=True)[0]
    second = build_record(properties=b"__CRC32#\x015\x02" + crc_property(b"x"))
    assert not check(second, force_verify_prop_crc=True)[0]


# ---- properties --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stored", "expected"), [
    (b"", {}),
    (b"a\x01b", {"a": "b"}),
    (b"a\x01b\x02", {"a": "b"}),
    (b"a\x01\x02", {}),
    (b"\x01b\x02", {}),
    (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
    (b"ab\x02c\x01d\x02", {"c": "d"}),
    (b"x\x01\x01\x02", {"x": "\x01"}),
    (b"\x01x\x01y\x02", {}),
    (b"\x02\x02\x02", {}),
    (b"\x01", {}),
    (b"a\x01b\x02a\x01c\x02", {"a": "c"}),
    (b"a\x01b\x02c\x01d\x02a\x01\x02", {"a": "b", "c": "d"}),
    (b"\xed\xa0\x80\x01\xff\x02", {"\ufffd": "\ufffd"}),
    (b"\xe4\xb8A\x01\xc0\x80\x02", {"\ufffdA": "\ufffd\ufffd"}),
    (b"\xff\x01b\x02\xfe\x01c\x02", {"\ufffd": "c"}),
])  # fmt: skip
def test_a_property_string_is_split_as_java_splits_it(stored, expected):
    assert decode_properties(stored) == expected == parse_properties(java_decode(stored))


def test_properties_written_without_the_last_separator_are_read_and_an_empty_value_disappears():
    """Corner 19."""
    assert check_fields(properties=b"KEYS\x01k\x02EMPTY\x01\x02TAGS\x01t")["properties"] == {"KEYS": "k", "TAGS": "t"}


def test_a_value_may_hold_a_separator_of_names_and_of_one_name_the_last_counts():
    """Corner 20."""
    fields = check_fields(properties=b"KEYS\x01a\x02x\x01b\x01c\x02KEYS\x01d\x02")
    assert fields["properties"] == {"KEYS": "d", "x": "b\x01c"}
    assert list(fields["properties"]) == ["KEYS", "x"]
    assert fields["keys"] == "d"


PIECES = [
    b"\x01", b"\x02", b"a", b"KEYS", b"TAGS", b" ", b"\x00", "é".encode(), "题".encode(), "\U0001f600".encode(),
    b"\xed\xa0\x80", b"\xed\xb0", b"\xed", b"\xe4\xb8", b"\xf0\x9f\x98", b"\xc0\x80", b"\xff",
    b"\xf4\x90\x80\x80", b"\x80",
]  # fmt: skip


def test_random_hostile_property_strings_agree_with_the_reference_in_text_and_order(seed):
    random_ = random.Random(seed)
    for _ in range(20_000):
        data = b"".join(random_.choices(PIECES, k=random_.randrange(14)))
        expected = parse_properties(java_decode(data))
        assert list(decode_properties(data).items()) == list(expected.items()), data


def test_random_bytes_agree_with_the_reference(seed):
    random_ = random.Random(seed)
    for _ in range(300):
        data = random_.randbytes(random_.randrange(2000))
        assert list(decode_properties(data).items()) == list(parse_properties(java_decode(data)).items()), data


def test_as_many_properties_as_fit_are_read():
    items = {f"{i:x}": "v" for i in range(5000)}
    data = java_encode("".join(f"{name}\x01{value}\x02" for name, value in items.items()))
    assert decode_properties(data) == items
    least = b"".join(bytes([3 + i % 100, 1, 65, 2]) for i in range(8191))
    assert decode_properties(least) == parse_properties(least.decode())
    assert decode_properties(b"\x01" * 32767) == decode_properties(b"\x02" * 32767) == {}


def test_a_property_string_that_no_record_can_hold_is_refused():
    with pytest.raises(ValueError, match="32768 bytes of properties"):
        decode_properties(bytes(32768))
    with pytest.raises(TypeError):
        decode_properties("a\x01b")

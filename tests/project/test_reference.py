"""The oracle itself, against numbers that RocketMQ's own classes gave."""

from types import SimpleNamespace

import pytest
from reference import (
    CorruptIndex,
    IndexFile,
    IndexService,
    checkpoint_bytes,
    divide,
    java_decode,
    java_encode,
    java_hash,
    java_split,
    key_for_hash,
    key_hash,
    parse_number,
    to_int,
    to_long,
    utf16_length,
)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("a#k", 94409),
        ("TopicTest#key", 85128477),
        ("主题#键", 634204136),
        ("😀", 1772899),
        ("", 0),
        ("T#k0", 2539444),
        ("T#kk", 2539503),
        ("polygenelubricants", 0),
        ("\ud83d\ude00", 1772899),
        ("\ud800", 0xD800),
    ],
)
def test_key_hashes_are_the_ones_rocketmq_stores(key, code):
    assert key_hash(key) == code


def test_a_negative_hash_loses_its_sign_and_the_smallest_becomes_zero():
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("T#T#TagA") == -490158619
    assert key_hash("T#T#TagA") == 490158619


@pytest.mark.parametrize("code", [0, 1, 48, 2**31 - 1, -(2**31), -1])
@pytest.mark.parametrize("prefix", ["", "T#", "主题#"])
def test_a_key_can_be_made_for_any_hash(code, prefix):
    assert java_hash(prefix + key_for_hash(code, prefix)) == code


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x80", "\ufffd"),
        (b"\xc2", "\ufffd"),
        (b"\xe4\xb8", "\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xff", "\ufffd"),
        (b"\xc0\x80", "\ufffd" * 2),
        (b"\xe0\x80\x80", "\ufffd" * 3),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xbf\xbfA", "\ufffdA"),
        (b"\xed\xa0A", "\ufffdA"),
        (b"\xed", "\ufffd"),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xe4\xb8A", "\ufffdA"),
        ("主题😀".encode(), "主题😀"),
    ],
)
def test_malformed_utf8_decodes_as_java_decodes_it(data, text):
    assert java_decode(data) == text


def test_arithmetic_wraps_and_divides_as_java_does():
    assert (to_int(2**31), to_long(2**63), to_long(-(2**63) - 1)) == (-(2**31), -(2**63), 2**63 - 1)
    assert [divide(n, 1000) for n in (1999, 999, -999, -1999)] == [1, 0, 0, -1]


@pytest.mark.parametrize(
    ("text", "bits", "number"),
    [
        ("0", 32, 0),
        ("+7", 32, 7),
        ("-007", 16, -7),
        ("\u0663", 32, 3),
        ("\uff11\uff12", 32, 12),
        ("32767", 16, 32767),
        ("-32768", 16, -32768),
        ("2147483647", 32, 2**31 - 1),
        ("-9223372036854775808", 64, -(2**63)),
    ],
)
def test_numbers_are_parsed_as_java_parses_them(text, bits, number):
    assert parse_number(text, bits) == number


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("", 32),
        ("+", 32),
        ("--1", 32),
        (" 1", 32),
        ("1_0", 32),
        ("0x1", 32),
        ("²", 32),
        ("\U0001d7cf", 32),
        ("32768", 16),
        ("2147483648", 32),
        ("9223372036854775808", 64),
    ],
)
def test_a_text_that_is_no_number_in_java_is_refused(text, bits):
    with pytest.raises(ValueError, match=r"digit|fit"):
        parse_number(text, bits)


def test_text_is_split_and_encoded_as_java_does():
    assert java_split("a_b__", "_") == ["a", "b"]
    assert java_split("_b", "_") == ["", "b"]
    assert java_split("__", "_") == []
    assert java_split("", "_") == [""]
    assert java_encode("a\ud83d") == b"a?"
    assert java_encode("\ud83d\ude00") == "😀".encode()
    assert utf16_length("主😀") == 3


def service_request(phy_offset, keys, tags=None, *, topic="T", uniq_key=None, store_timestamp=1000, sys_flag=0):
    return SimpleNamespace(
        topic=topic,
        uniq_key=uniq_key,
        keys=keys,
        tags=tags,
        phy_offset=phy_offset,
        store_timestamp=store_timestamp,
        sys_flag=sys_flag,
    )


def test_the_worked_message_gives_three_items_and_the_next_one_links_to_them():
    service = IndexService(5_000, 100)
    service.build_index(service_request(0, "k0 kk", "TagA"))
    service.build_index(service_request(118, "kx kk"))
    file = service.files[0]
    assert [file.item(n) for n in (1, 2, 3)] == [(2539444, 0, 0, 0), (2539503, 0, 0, 0), (490158619, 0, 0, 0)]
    assert file.item(5) == (2539503, 118, 0, 2)
    assert file.index_count == 6


def test_four_keys_of_hashes_48_48_50_48_in_one_slot():
    file = IndexFile(2, 10)
    for phy_offset, key in enumerate(["0", "\x01\x11", "2", "\x000"], start=1):
        file.put_key(key, phy_offset * 100, 1000)
    assert [file.item(n)[0] for n in range(1, 5)] == [48, 48, 50, 48]
    assert [file.item(n)[3] for n in range(1, 5)] == [0, 1, 2, 3]
    assert (file.slot(0), file.slot(1), file.header[4]) == (4, 0, 1)
    assert file.select_phy_offset("0", 32) == [400, 200, 100]
    assert file.select_phy_offset("2", 32) == [300]


def test_two_keys_of_one_hash_100():
    file = IndexFile(97, 10)
    file.put_key("d", 7, 1000)
    file.put_key("\x03\x07", 8, 1000)
    assert file.slot(100 % 97) == 2
    assert file.select_phy_offset("d", 32) == file.select_phy_offset("\x03\x07", 32) == [8, 7]


def test_a_fresh_file_is_all_zeros_until_a_put_or_a_flush():
    """Corner 58."""
    file = IndexFile(7, 10)
    assert not any(file.data)
    assert file.index_count == 1
    file.flush()
    assert file.data[36:40] == b"\0\0\0\1"
    file.put_key("k", 5, 1000)
    assert file.header == (1000, 1000, 5, 5, 1, 2)


def test_capacity_is_one_less_than_index_num():
    """Corner 59."""
    file = IndexFile(7, 4)
    assert [file.put_key("k", n, 1000) for n in range(4)] == [True, True, True, False]


def test_the_first_item_of_a_rolled_file_counts_seconds_from_the_end_of_the_previous_one():
    file = IndexFile(7, 10, end_phy_offset=900, end_timestamp=100_000)
    assert file.header == (100_000, 100_000, 900, 900, 0, 1)
    file.put_key("k", 1000, 160_000)
    assert file.item(1)[2] == 60
    assert file.header[:4] == (160_000, 160_000, 1000, 1000)
    assert file.select_phy_offset("k", 1, 160_000, 161_000) == []
    assert file.select_phy_offset("k", 1, 220_000, 221_000) == [1000]


def test_a_slot_that_equals_the_count_is_accepted_and_ends_the_chain():
    """Corner 60."""
    file = IndexFile(1, 10)
    file.put_key("k", 5, 1000)
    file.data[40:44] = (2).to_bytes(4, "big")
    file.put_key("k", 6, 1000)
    assert file.item(2)[3] == 2
    assert file.header[4] == 1
    assert file.select_phy_offset("k", 32) == [6]


@pytest.mark.parametrize(("place", "value", "field"), [(40, 9, "slot"), (44 + 20 * 2 + 16, 3, "prevIndex")])
def test_a_chain_that_leaves_the_file_or_runs_upwards_is_corrupt(place, value, field):
    file = IndexFile(1, 4)
    for phy_offset in range(3):
        file.put_key("k", phy_offset, 1000)
    file.data[36:40] = (100).to_bytes(4, "big")
    file.data[place : place + 4] = value.to_bytes(4, "big")
    if field == "prevIndex":
        file.data[40:44] = (2).to_bytes(4, "big")
    with pytest.raises(CorruptIndex, match=field):
        file.select_phy_offset("k", 32)


def test_a_message_whose_keys_straddle_two_files_continues_in_the_second():
    service = IndexService(7, 3)
    service.build_index(service_request(50, "a b c", store_timestamp=9000))
    first, second = service.files
    assert [first.item(n)[0] for n in (1, 2)] == [key_hash("T#a"), key_hash("T#b")]
    assert second.item(1)[0] == key_hash("T#c")
    assert service.index_msg_timestamp == 9000


@pytest.mark.parametrize(("sys_flag", "count"), [(0x0, 2), (0x4, 2), (0x8, 2), (0xC, 1), (0xC1, 2), (0xCD, 1)])
def test_only_a_rolled_back_message_is_left_out(sys_flag, count):
    service = IndexService(7, 5)
    service.build_index(service_request(50, "a", sys_flag=sys_flag))
    assert service.files[0].index_count == count


def test_keys_are_split_at_spaces_and_empty_ones_dropped():
    """Corner 66."""
    keys_of = IndexService(7, 5).keys_of
    assert list(keys_of(service_request(0, "a  b c ", "t", uniq_key=""))) == [
        "T#",
        "T#a",
        "T#b",
        "T#c",
        "T#T#t",
    ]
    assert list(keys_of(service_request(0, " ", ""))) == []


def test_the_same_offset_is_indexed_again_and_an_older_one_is_not():
    service = IndexService(7, 9)
    for phy_offset in (50, 50, 49):
        service.build_index(service_request(phy_offset, "a"))
    assert service.query_offset("T", "a", 64) == ([50, 50], 1000, 50)


def test_a_query_that_begins_later_still_visits_older_files():
    """Corner 71."""
    service = IndexService(7, 2)
    for n in range(4):
        service.build_index(service_request(n, "a", store_timestamp=10_000 * (n + 1)))
    assert service.query_offset("T", "a", 64, 10_000, 10_000)[0] == [0]
    assert service.query_offset("T", "a", 2)[0] == [3, 2]


def test_after_an_unclean_exit_files_newer_than_the_checkpoint_go():
    service = IndexService(7, 2)
    for n in range(3):
        service.build_index(service_request(n, "a", store_timestamp=10_000 * (n + 1)))
    assert service.index_msg_timestamp == 20_000
    assert service.load_after_unclean_exit(20_000) == [2]


def test_expiry_keeps_the_last_file():
    """Corner 78."""
    service = IndexService(7, 2)
    for n in range(3):
        service.build_index(service_request(n, "a"))
    service.delete_expired_file(100)
    assert len(service.files) == 1


def test_a_checkpoint_has_six_longs_and_zeros():
    data = checkpoint_bytes(1, 2, 3, 4, 5, 6)
    assert len(data) == 4096
    assert data[:48] == b"".join(n.to_bytes(8, "big") for n in range(1, 7))
    assert not any(data[48:])

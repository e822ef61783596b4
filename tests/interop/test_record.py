"""rocketstore's parsing of one record against CommitLog.checkMessageAndReturnSize, on right and wrong bytes."""

import itertools
import random

import pytest
from reference.commit_log import blank, build_record

from interop import records
from interop.record_checks import check_random_records, check_records
from rocketstore.kernels.csrc import utf8_repair

RELEASES = ("5.5.1", "5.3.3")

pytestmark = pytest.mark.interop


@pytest.fixture(params=RELEASES)
def java(request, java_of):
    return java_of(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
def test_records_right_and_wrong_are_parsed_as_java_does(java_of, seed, number):
    check_random_records([*map(java_of, RELEASES)], random.Random(f"records {seed} {number}"), 2000)


def test_every_truncation_of_a_record_is_parsed_as_java_does(java, seed):
    rng = random.Random(seed)
    fields = {**records.record_fields(rng), "topic": "TopicTest", "properties": {"KEYS": "a b", "TAGS": "t"}}
    whole = build_record(**fields)
    check_records(java, [whole[:size] for size in range(len(whole) + 1)])


def test_every_flipped_bit_of_a_record_is_parsed_as_java_does(java):
    whole = build_record("T", b"body", properties={"KEYS": "a b", "TAGS": "t"}, store_host="[::1]:10911")
    datas = [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in range(8)
    ]
    check_records(java, datas)
    check_records(java, datas, check_crc=False)


@pytest.mark.parametrize("name", ["DELAY", "INNER_NUM", "INNER_BASE"])
def test_numbers_in_properties_are_read_as_java_does(java, name):
    others = {"INNER_NUM": "1", "INNER_BASE": "0", "TAGS": "t"}
    datas = [build_record("SCHEDULE_TOPIC_XXXX", properties={**others, name: number}) for number in records.NUMBERS]
    check_records(java, datas)


@pytest.mark.parametrize("dup", records.DUPS)
def test_dup_info_is_checked_as_java_does(java, dup):
    check_records(java, [build_record(properties={"DUP_INFO": dup}), build_record()], check_dup=True)


def test_blanks_are_parsed_as_java_does(java):
    """Corner 32."""
    check_records(java, [blank(size)[:cut] for size in (8, 9, 100) for cut in (4, 5, 7, 8, size)])


@pytest.mark.slow
def test_utf8_of_every_start_is_decoded_as_java_does(java_of):
    # Each first byte with followers on both sides of all borders that UTF-8 has.
    followers = (0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xED, 0xF4)
    datas = [
        bytes([first, *rest, 0x42])
        for first in range(0x80, 0x100)
        for n in range(3)
        for rest in itertools.product(followers, repeat=n)
    ]
    for data, answer in zip(datas, java_of("5.5.1").texts(datas), strict=True):
        assert utf8_repair(data).decode() == answer["text"], data.hex()

"""UTF-8 as Java decodes it, against the reference and Python's own decoder."""

import itertools
import random

import pytest
from reference import java_decode
from support.repetitions import only_some_quick

from rocketstore.kernels import csrc

LEADS = [0x41, 0x80, 0xC1, 0xC2, 0xDF, *range(0xE0, 0xF6), 0xFF]
# The values at which a rule begins or ends.
EDGES = bytes.fromhex("00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f8 fe ff")
REPLACED = {
    b"\x80": 1,
    b"\xc2": 1,
    b"\xe4": 1,
    b"\xe4\xb8": 1,
    b"\xf0\x9f\x98": 1,
    b"\xf5": 1,
    b"\xff": 1,
    b"\xc0\x80": 2,
    b"\xc1\xbf": 2,
    b"\xe0\x80\x80": 3,
    b"\xf0\x80\x80\x80": 4,
    b"\xf4\x90\x80\x80": 4,
    b"\xed\xa0\x80": 1,
    b"\xed\xbf\xbf": 1,
    b"\xed\xa0": 1,
    b"\xed": 1,
    b"\xed\xa0\x80\xed\xb0\x80": 2,
}


def check(strings):
    assert [data for data in strings if csrc.utf8_repair(data) != java_decode(data).encode()] == []


@pytest.mark.parametrize("length", [0, 1, 2])
def test_every_string_of_up_to_two_bytes(length):
    check([bytes(string) for string in itertools.product(range(256), repeat=length)])


@pytest.mark.parametrize("lead", only_some_quick(LEADS, 0xC2, 0xE0, 0xED, 0xF0, 0xF4), ids="{:02X}".format)
def test_every_string_of_three_bytes_that_begins_with(lead):
    strings = [bytes((lead, *rest)) for rest in itertools.product(range(256), repeat=2)]
    # All in one call: the newline after each continues no sequence.
    lines = b"\n".join(strings)
    assert csrc.utf8_repair(lines) == java_decode(lines).encode()


def test_strings_of_four_to_nine_bytes_at_the_borders_of_the_rules(seed):
    rng = random.Random(seed)
    check([bytes(rng.choices(EDGES, k=rng.randint(4, 9))) for _ in range(60_000)])


def test_text_with_a_few_bytes_changed(seed):
    rng = random.Random(seed)
    strings = []
    for _ in range(5_000):
        data = bytearray("".join(rng.choices("abcXYZ019é主😀\u07ff\u0800\uffff", k=rng.randint(0, 120))).encode())
        for _ in range(min(len(data), rng.randint(0, 3))):
            data[rng.randrange(len(data))] = rng.choice(EDGES)
        strings.append(bytes(data))
    check(strings)


def test_valid_text_stays_unchanged(seed):
    rng = random.Random(seed)
    for _ in range(2_000):
        data = "".join(rng.choices("a~\0é主😀\U0010ffff", k=rng.randint(0, 100))).encode()
        assert csrc.utf8_repair(data) == data


@pytest.mark.parametrize("data", REPLACED, ids=bytes.hex)
@pytest.mark.parametrize("lead", [0, 1, 7, 8, 31, 64])
def test_malformed_bytes_become_as_many_replacements_as_in_java(data, lead):
    text = b"a" * lead
    assert csrc.utf8_repair(text + data) == text + b"\xef\xbf\xbd" * REPLACED[data]


def test_a_byte_that_cannot_continue_is_read_again():
    assert csrc.utf8_repair(b"\xe4\xb8A") == "\ufffdA".encode()
    assert csrc.utf8_repair(b"\xe4\xe4\xb8\xbb") == "\ufffd主".encode()

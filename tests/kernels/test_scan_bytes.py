"""Separators and magic codes, against a plain search. Runs under every ROCKETSTORE_CPU level too."""

import random

import pytest

from rocketstore.kernels import csrc

MESSAGE_V1, MESSAGE_V2 = bytes.fromhex("daa320a7"), bytes.fromhex("daa320ab")


def separators(data):
    return [place for place, byte in enumerate(data) if byte in (1, 2)]


def first_magic(data):
    places = [place for place in (data.find(MESSAGE_V1), data.find(MESSAGE_V2)) if place >= 0]
    return min(places, default=-1)


def property_string(rng):
    pairs = [(rng.randbytes(rng.randint(0, 12)), rng.randbytes(rng.randint(0, 40))) for _ in range(rng.randint(0, 9))]
    return b"".join(name + b"\1" + value + b"\2" for name, value in pairs)


@pytest.mark.parametrize("alphabet", [b"\1\2", b"a\1\2", bytes(range(256)), b"\0\1\2\3\x80\x81\x82\xff"])
def test_separators_of_every_length_are_found(alphabet, seed):
    rng = random.Random(seed)
    strings = [bytes(rng.choices(alphabet, k=length)) for length in range(600)]
    assert [csrc.separators(data) for data in strings] == [separators(data) for data in strings]


def test_separators_of_property_strings_are_found(seed):
    rng = random.Random(seed)
    strings = [property_string(rng) for _ in range(3_000)]
    assert [csrc.separators(data) for data in strings] == [separators(data) for data in strings]


def test_the_longest_property_string_may_be_all_separators():
    assert csrc.separators(b"\1" * 32_767) == list(range(32_767))


def test_a_string_too_long_for_properties_is_refused():
    with pytest.raises(ValueError, match="32768 bytes"):
        csrc.separators(bytes(32_768))


@pytest.mark.parametrize("magic", [MESSAGE_V1, MESSAGE_V2], ids=["v1", "v2"])
def test_a_magic_code_is_found_wherever_it_stands(magic):
    for after in (0, 1, 700):
        found = [csrc.find_magic(bytes(place) + magic + bytes(after)) for place in range(1_100)]
        assert found == list(range(1_100))


def test_the_first_of_many_magic_codes_is_found(seed):
    rng = random.Random(seed)
    pieces = [b"\xda", b"\xda\xa3", b"\xda\xa3\x20", b"\xa3\x20", b"\x20\xa7", MESSAGE_V1, MESSAGE_V2]
    weights = [20] * 5 + [1] * 2
    strings = [b"".join(rng.choices(pieces, weights, k=rng.randint(0, 500))) for _ in range(1_000)]
    assert [csrc.find_magic(data) for data in strings] == [first_magic(data) for data in strings]


def test_where_there_is_no_magic_code_none_is_found(seed):
    data = random.Random(seed).randbytes(1 << 20).replace(b"\xda\xa3", b"\xda\xa4")
    assert csrc.find_magic(data) == -1
    assert csrc.find_magic(b"") == csrc.find_magic(MESSAGE_V1[:3]) == -1
    assert csrc.find_magic(bytes(1 << 20)) == -1


def test_a_magic_code_that_the_end_cuts_short_is_none():
    for cut in (1, 2, 3):
        assert [csrc.find_magic(bytes(place) + MESSAGE_V2[:-cut]) for place in range(600)] == [-1] * 600


def test_other_codes_are_no_magic_code():
    others = [value.to_bytes(4) for value in range(0xDAA32000, 0xDAA32100)]
    found = {other for other in others if csrc.find_magic(b"x" + other + b"x") == 1}
    assert found == {MESSAGE_V1, MESSAGE_V2}

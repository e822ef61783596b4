"""Separators, against a plain search. Runs under every ROCKETSTORE_CPU level too."""

import random

import pytest

from rocketstore.kernels import csrc


def separators(data):
    return [place for place, byte in enumerate(data) if byte in (1, 2)]


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

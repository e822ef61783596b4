"""Numbers in texts as Java reads them: one rule, fixed for all releases of Python."""

import zlib

import pytest
from reference.java import parse_number

from rocketstore.java_text import is_blank, parse_int, parse_java_number, parse_long

INT16 = -(2**15), 2**15 - 1
MALFORMED = ["", "+", "-", "+-1", " 1", "1 ", "1_0", "0x1", "1.0", "²", "\U0001d7cf", "\ud835", "1\0", "\u0660x"]


def test_the_digits_and_blanks_up_to_u_ffff_are_those_of_jdk_17():
    """The checksums were computed with Character.digit and Character.isWhitespace of JDK 17."""
    digits = [parse_int(chr(unit)) for unit in range(0x10000)]
    assert zlib.crc32(bytes(255 if digit is None else digit for digit in digits)) == 1909844866
    assert zlib.crc32(bytes(is_blank(chr(unit)) for unit in range(0x10000))) == 1157455380


def test_no_character_beyond_u_ffff_is_a_digit():
    assert not any(parse_int(chr(point)) is not None for point in range(0x10000, 0x110000, 7))


@pytest.mark.parametrize("text", [*MALFORMED, f"{2**63}", f"-{2**63 + 1}", "1" * 5000])
def test_texts_that_java_refuses_are_no_numbers(text):
    assert parse_long(text) is None


@pytest.mark.parametrize("text", ["7", "+7", "-7", "-0", f"{2**63 - 1}", f"-{2**63}", "0" * 5000 + "7", "\u0660\uff17"])
def test_numbers_are_those_of_the_reference(text):
    assert parse_long(text) == parse_number(text, 64)


def test_a_number_is_in_the_range_of_its_type():
    assert [parse_java_number(text, *INT16) for text in ("32767", "-32768")] == [32767, -32768]
    assert [parse_java_number(text, *INT16) for text in ("32768", "-32769")] == [None, None]

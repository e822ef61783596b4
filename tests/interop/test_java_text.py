"""Numbers and blanks, as java_text and as Java read them."""

import random

import pytest

from interop.harness import encode
from rocketstore.java_text import is_blank, parse_long

pytestmark = pytest.mark.interop


@pytest.fixture
def java(java_of):
    return java_of("5.5.1")


def test_every_char_is_the_digit_and_the_blank_that_java_takes_it_for(java):
    def name(char):
        digit = parse_long(char)
        return str(digit) if digit is not None else "b" if is_blank(char) else "-"

    assert "".join(name(chr(unit)) for unit in range(0x10000)) == java.call("chars")


def test_random_texts_are_the_numbers_that_java_reads(java, seed):
    rng = random.Random(f"java numbers {seed}")
    characters = "0123456789" * 3 + "+- .x_" + "\u0660\u0669\uff11\u0bef" + "\U0001d7cf\ud835\x85²"
    texts = ["".join(rng.choices(characters, k=rng.randrange(1, 5))) for _ in range(2000)]
    texts += [
        f"{rng.choice(['', '-', '+'])}{'0' * rng.randrange(30)}{2**63 + rng.randrange(-2, 3)}" for _ in range(200)
    ]
    answers = [answer for (answer,) in java.answers("longs", java.cells([(encode(text),) for text in texts]))]
    assert ["-" if (number := parse_long(text)) is None else str(number) for text in texts] == answers

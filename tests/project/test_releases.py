"""Releases of RocketMQ are compared by their numbers, also in tests."""

import re
from pathlib import Path

from support.releases import numbers_of

TESTS = Path(__file__).parents[1]
AS_TEXT = re.compile(r"(?:release|compat)(?:\[\d\])? (?:<|>|<=|>=) \"\d")


def test_a_release_with_a_number_of_two_digits_is_the_newer_one():
    assert numbers_of("5.10.0") > numbers_of("5.4.0") >= (5, 4)


def test_no_test_compares_releases_as_texts():
    assert not [str(path) for path in TESTS.rglob("*.py") if AS_TEXT.search(path.read_text(encoding="utf-8"))]

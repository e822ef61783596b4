"""Each corner case of docs/compat.md has a test whose docstring names its number, as in "Corners 3 and 4."."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "compat.md"
CORNERS = range(1, 111)


def corners_in_docstrings():
    """Return the numbers that the docstrings of all tests name."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for numbers in re.findall(r"\bCorners? ([\d, and]+)\.", ast.get_docstring(node) or ""):
                    found.update(map(int, re.findall(r"\d+", numbers)))
    return found


@pytest.mark.skipif(not PAGE.exists(), reason="tested away from the source tree")
def test_the_page_has_every_number_once_and_in_order():
    numbers = re.findall(r"^(\d+)\. ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number in numbers] == list(CORNERS)


def test_each_corner_has_a_test_that_names_it():
    assert corners_in_docstrings() == set(CORNERS)

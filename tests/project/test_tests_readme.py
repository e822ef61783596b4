"""The table of tests/README.md names tests that are there, for each of RocketMQ's 110 corners."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", (TESTS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)


def names_in(name):
    tree = ast.parse((TESTS / name).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_table_has_every_number_once_and_in_order():
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 111))


def test_every_test_of_the_table_exists():
    named = [re.fullmatch(r"`([\w/]+\.py)::(test_\w+)`", one) for _, _, tests in ROWS for one in tests.split("<br>")]
    assert all(named)
    wanted = {}
    for match in named:
        wanted.setdefault(match[1], set()).add(match[2])
    missing = {name: tests - names_in(name) for name, tests in wanted.items()}
    assert {name: tests for name, tests in missing.items() if tests} == {}

"""The table of tasks is complete, and names tests that exist."""

import ast
from functools import cache
from pathlib import Path

import pytest
from tasks import LEAST, TASKS, Elsewhere, tries_of

TESTS = Path(__file__).parents[1]


@cache
def names_of_tests(file):
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_all_tasks_and_nearly_all_are_tried():
    assert len(TASKS) == 46
    assert sum(bool(tries) for tries in TASKS.values()) >= LEAST
    assert sum(map(len, TASKS.values())) >= 200


@pytest.mark.parametrize(("task", "named"), tries_of(Elsewhere), ids=str)
def test_a_test_that_the_table_names_exists(task, named):
    assert named.test in names_of_tests(named.file)

"""A configuration has its type everywhere, and only the modules that find sizes make one with all sizes."""

import ast
from pathlib import Path

import pytest

import rocketstore

PACKAGE = Path(rocketstore.__file__).parent
SOURCES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
MAKERS = {"survey/sizes.py"}


def untyped(tree):
    """Yield the lines that annotate a configuration with Any."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.AnnAssign):
            name = getattr(node.target, "attr", getattr(node.target, "id", ""))
        else:
            continue
        if name.endswith("config") and isinstance(node.annotation, ast.Name) and node.annotation.id == "Any":
            yield node.lineno


@pytest.mark.parametrize("source", ["self._config: Any = x", "config: Any", "def f(config: Any): pass"])
def test_a_configuration_of_any_type_is_found(source):
    assert [*untyped(ast.parse(source))] == [1]


def made_in(tree):
    """Return the lines that make a configuration with all sizes."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if ast.unparse(call.func) == "SizedConfig"]


def test_a_configuration_has_its_type():
    for path in SOURCES:
        tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
        assert [*untyped(tree)] == [], path
        made = made_in(tree)
        assert not made or path.as_posix() in MAKERS, f"{path}:{made[0]}: take sizes from survey/sizes.py"

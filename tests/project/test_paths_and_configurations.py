"""Below the entries no function takes the root of a store and a configuration: it takes a survey, places, or a part."""

import ast
import re
from pathlib import Path

import pytest

import rocketstore

PACKAGE = Path(rocketstore.__file__).parent
SOURCES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
ROOTS = {"path", "root", "store", "store_path_root_dir", "where"}  # names of parameters that may be the root of a store
PATHS = {"AnyPath", "Path", "PathLike", "StorePath"}
CONFIGS = {"AnyConfig", "SizedConfig", "StoreConfig"}
# Functions that begin an entry, or are a user's own call.
ENTRIES = {
    "__init__.py": {"open"},
    "backup/copy_store.py": {"copy"},
    "bundle/bundle.py": {"bundle"},
    "cli/settings.py": {"config_with"},
    "convert/convert.py": {"convert"},
    "convert/split.py": {"split"},
    "rebuild/rebuild.py": {"rebuild"},
    "recovery/recover.py": {"recover"},
    "patch/patch.py": {"patch"},
    "salvage/salvage.py": {"salvage"},
    "spark/build/build_index.py": {"build_index"},
    "spark/build/rebuild_consume_queue.py": {"rebuild_consume_queue"},
    "store/message_store.py": {"of_entry", "of_writing_entry", "open"},
    "store/open_writer.py": {"open_writer"},
    "store/scan_polars.py": {"scan_polars"},
    "verify/verify.py": {"verify"},
}
# Functions whose path is that of one file.
OF_A_FILE = {
    "jobs/prepared_rows.py": {"__init__"},  # of prepared rows
    "salvage/find.py": {"scan"},  # of the log
    "verify/config.py": {"kind_of_problem"},  # of config
}


def names_in(annotation):
    """The names in an annotation, also in a text. ``StorePlaces[Path]`` is one value, and no path."""
    if annotation is None:
        return set()
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return {*re.findall(r"\w+", annotation.value)}
    if isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") == "StorePlaces":
        return {"StorePlaces"}
    own = {getattr(annotation, "id", getattr(annotation, "attr", ""))}
    return own.union(*(names_in(child) for child in ast.iter_child_nodes(annotation)))


def takers(tree):
    """Yield the names of functions that have parameters for the root of a store and for a configuration."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            has_root = any(each.arg in ROOTS and names_in(each.annotation) & PATHS for each in parameters)
            if has_root and any(names_in(each.annotation) & CONFIGS for each in parameters):
                yield node.name


@pytest.mark.parametrize(
    "source",
    [
        "def f(root: Path, config: StoreConfig): pass",
        "def f(path: str | os.PathLike[str], *, given: SizedConfig | None): pass",
        "class A:\n    def f(self, root: 'StorePath', config: AnyConfig): pass",
    ],
)
def test_a_root_beside_a_configuration_is_found(source):
    assert [*takers(ast.parse(source))] == ["f"]


@pytest.mark.parametrize(
    "source", ["def f(places: StorePlaces[Path], config: StoreConfig): pass", "def f(root: Path, name: str): pass"]
)
def test_places_beside_a_configuration_are_left_alone(source):
    assert not [*takers(ast.parse(source))]


def test_no_function_takes_a_root_and_a_configuration():
    for path in SOURCES:
        if path.parts[0] != "survey":
            found = {*takers(ast.parse((PACKAGE / path).read_text(encoding="utf-8")))}
            assert found == ENTRIES.get(path.as_posix(), set()) | OF_A_FILE.get(path.as_posix(), set()), path

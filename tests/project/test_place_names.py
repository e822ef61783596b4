"""Only ``root_places.py`` joins the name of a file or directory of a store to a path."""

import ast
import functools
import re
from pathlib import Path

import pytest

import rocketstore
from rocketstore.survey.places import StorePlaces

PACKAGE = Path(rocketstore.__file__).parent
NAMES = {
    "commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "consumequeue_rocksdb", "index", "config",
    "checkpoint", "abort", "abort.bak", "lock", "rocketstore.json", "rocketstore-cut", "rocksdbstore", "compaction",
    "compactionLog", "compactionCq", "tiered_index_file", "tieredStoreMetadata.json", "timerwheel", "timerlog",
    "timercheck",
}  # fmt: skip
DLEDGER = re.compile("dledger-.*")
JOINS = {"Path", "PurePath", "glob", "join", "joinpath", "rglob", "with_name"}
SOURCES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


@functools.cache
def constants_of(path):
    """Return the constants of a module of the package."""
    return constants(ast.parse(path.read_text(encoding="utf-8")))


def constants(tree):
    """Return the texts of the module's names: of texts, and of tuples, lists and dicts of texts."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found[target.id] = texts_of(node.value, found)
    return found


def texts_of(node, known):
    """Return the texts that an expression may be, as far as its source shows them."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.Name):
        return known.get(node.id, set())
    if isinstance(node, ast.JoinedStr):
        return {"".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)}
    if isinstance(node, ast.IfExp):
        return texts_of(node.body, known) | texts_of(node.orelse, known)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return set().union(*(texts_of(element, known) for element in node.elts))
    if isinstance(node, ast.Dict):
        return set().union(*(texts_of(value, known) for value in node.values))
    return texts_of(node.value, known) if isinstance(node, ast.Starred | ast.Subscript) else set()


def locals_of(tree, known):
    """Return ``known`` with the texts of local names: assigned, or the variables of loops over texts."""
    found = dict(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            pairs = [(node.target, node.iter)]
        elif isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        else:
            continue
        for target, value in pairs:
            if isinstance(target, ast.Name):
                found[target.id] = found.get(target.id, set()) | texts_of(value, found)
    return found


def joined(tree, known):
    """Yield line and texts of each expression that is joined to a path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield node.lineno, texts_of(node.right, known)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in JOINS:
                yield node.lineno, set().union(*(texts_of(argument, known) for argument in node.args))
        elif isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, set(re.findall(r"\{\}/([\w.-]+(?:/[\w.-]+)*)(?![\w{])", text))


def spelled(source):
    """Return "line: name" for each name of a store that a source joins to a path."""
    tree = ast.parse(source)
    known = locals_of(tree, constants(tree) | imported(tree))
    return [
        f"{line}: {part}"
        for line, texts in joined(tree, known)
        for text in sorted(texts)
        for part in text.split("/")
        if part in NAMES or DLEDGER.fullmatch(part)
    ]


def imported(tree):
    """Return the texts of names that other modules of the package define."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rocketstore."):
            path = PACKAGE.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
            if path.is_file():
                texts = constants_of(path)
                found |= {(name.asname or name.name): texts.get(name.name, set()) for name in node.names}
    return found


@pytest.mark.parametrize(
    "source",
    [
        'root / "index"',
        'root / "config" / name',
        'root / "config/rdb"',
        'root.joinpath("abort")',
        'path.with_name("checkpoint")',
        'os.path.join(root, "lock")',
        'Path(root, "commitlog")',
        'root.glob("dledger-*")',
        'f"{root}/consumequeue/{topic}"',
        'CUT = "rocketstore-cut"\ndef save(root): return root / CUT / "1"',
        'for name in ("abort", "abort.bak"): check(root / name)',
        'name = "batchconsumequeue" if is_batch else "consumequeue"\npath = root / name',
        "from rocketstore.root_places import INDEX\nroot / INDEX",
    ],
)
def test_a_joined_name_is_found(source):
    assert spelled(source)


@pytest.mark.parametrize("source", ['TABLES = {"index": IndexReader}', 'add("abort", path)', 'f"{root}: no commitlog"'])
def test_a_name_that_is_no_path_is_left_alone(source):
    assert not spelled(source)


def test_names_of_a_store_are_joined_in_one_module_only():
    for path in SOURCES:
        found = spelled((PACKAGE / path).read_text(encoding="utf-8"))
        assert path.as_posix() == "root_places.py" or not found, f"{path}: ask StorePlaces for these paths"


def test_every_name_of_a_store_is_one_of_its_places():
    places = StorePlaces.of(Path("/store"))
    paths = [
        value
        for name in dir(StorePlaces)
        if not name.startswith("_") and isinstance(value := getattr(places, name), Path | tuple)
    ]
    flat = {part for path in paths for each in (path if isinstance(path, tuple) else (path,)) for part in each.parts}
    assert flat >= NAMES

"""Nobody sets an attribute of a log, a scan, a queue or a file run from outside."""

import ast
from pathlib import Path

import pytest

import rocketstore
from rocketstore.disk.file_run_reader import FileRunReader, Mappings
from rocketstore.disk.remote.remote_file_run import RemoteFileRunReader
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import IndexService
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_finder import EndFinder
from rocketstore.log.record_reader import RecordReader
from rocketstore.log.scan import Scan
from rocketstore.queue.batch_consume_queue import BatchConsumeQueue
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.queue_end import QueueEndFinder
from rocketstore.queue.unit_run import BatchUnitRun, UnitRun

PACKAGE = Path(rocketstore.__file__).parent
SOURCES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
CLASSES = [
    CommitLog, RecordReader, Scan, ConsumeQueue, BatchConsumeQueue, UnitRun, BatchUnitRun, FileRunReader,
    RemoteFileRunReader, Mappings, EndFinder, QueueEndFinder, IndexFile, IndexService,
]  # fmt: skip


def module_of(cls):
    return Path(*cls.__module__.split(".")[1:]).with_suffix(".py")


def targets(tree):
    """Yield the attributes that a module sets, as nodes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


def names_of(cls):
    """Return the attributes that a class sets on its objects."""
    tree = ast.parse((PACKAGE / module_of(cls)).read_text(encoding="utf-8"))
    body = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
    return {node.attr for node in targets(body) if isinstance(node.value, ast.Name) and node.value.id == "self"}


ATTRIBUTES = set().union(*map(names_of, CLASSES))


def own_names(tree):
    """Return the names that stand for the object itself, or for a copy that it makes of itself."""
    copies = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "copy(self)"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {"self", "cls"} | copies


def set_by_call(node):
    """Return the object whose attributes a call or an item of ``vars`` sets, as text; None for other nodes."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr", "object.__setattr__"):
        return ast.unparse(node.args[0])
    is_item = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    is_update = isinstance(node, ast.Attribute) and node.attr in ("update", "setdefault", "pop")
    if is_item and isinstance(node.slice, ast.Constant) and node.slice.value not in ATTRIBUTES:
        return None
    if (is_item or is_update) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "vars":
        return ast.unparse(node.value.args[0])
    return None


def set_from_outside(text):
    """Return the places of a module at which it sets an attribute of one of the classes on another object."""
    tree = ast.parse(text)
    own = own_names(tree)
    found = [node for node in targets(tree) if node.attr in ATTRIBUTES and ast.unparse(node.value) not in own]
    found += [node for node in ast.walk(tree) if (name := set_by_call(node)) is not None and name not in own]
    return [f"line {node.lineno}: {ast.unparse(node)}" for node in found]


def test_no_module_sets_attributes_of_logs_scans_or_queues_from_outside():
    for source in SOURCES:
        assert set_from_outside((PACKAGE / source).read_text(encoding="utf-8")) == [], source


@pytest.mark.parametrize(
    "text",
    [
        "log.whole_to = 5",
        "log.whole_to += 5",
        "store.commit_log.whole_to: int = 5",
        "a, queue.run.given_size = 1, 2",
        "for log.whole_to in range(3): pass",
        "with opened as log.file_run: pass",
        "del log.file_run",
        "setattr(log, 'whole_to', 5)",
        "vars(log)['whole_to'] = 5",
        "vars(log).update(whole_to=5)",
    ],
)
def test_every_form_of_an_assignment_from_outside_is_found(text):
    assert len(set_from_outside(text)) == 1


@pytest.mark.parametrize("text", ["self.whole_to = 5", "other = copy(self)\nvars(other).update(whole_to=5)"])
def test_an_object_sets_its_own_attributes_and_those_of_its_copy(text):
    assert set_from_outside(text) == []

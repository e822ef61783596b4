"""What commands import before they answer: a command of a pipeline is started again and again."""

import json
import subprocess
import sys

import pytest
from support.puts import open_store

from rocketstore import Message

SCRIPT = """
import contextlib, json, os, sys
from rocketstore.cli import main
status = 0
try:
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        main()
except SystemExit as end:
    status = end.code
print(json.dumps([status, sorted(sys.modules)]))
"""
# Packages that only some commands need, and modules of the standard library that take long to import.
HEAVY = ("duckdb", "fsspec", "pandas", "polars", "pyarrow", "pyspark", "rich", "rocksdict", "zstandard")
SLOW = (
    "asyncio", "bz2", "fractions", "html", "http", "lzma", "multiprocessing", "shutil", "socket", "subprocess",
    "tempfile", "unittest", "urllib.request",
)  # fmt: skip
MOST = 300  # modules of rocketstore that are imported to answer


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "store"
    with open_store(path) as store:
        store.put_message(Message("Orders", b"x", keys="k", queue_id=0))
    return path


def imports_of(*words):
    command = [sys.executable, "-c", SCRIPT, *map(str, words)]
    answer = subprocess.run(command, text=True, capture_output=True, timeout=60, check=True)
    status, modules = json.loads(answer.stdout)
    assert not status, answer.stderr
    return modules


@pytest.mark.parametrize("name", ["info", "ls", "get"])
def test_a_command_imports_only_modules_that_it_needs(name, root):
    modules = imports_of(name, root, *(["Orders", 0, 0] if name == "get" else []), "--format", "json")
    assert not {*HEAVY, *SLOW} & {*modules}
    assert sum(module.startswith("rocketstore") for module in modules) <= MOST


def test_help_imports_neither_numpy_nor_a_store():
    modules = imports_of("info", "--help")
    assert not {*HEAVY, "numpy", "rocketstore.store.message_store", "rocketstore.log"} & {*modules}


def test_an_export_imports_neither_masked_arrays_nor_hashes(root, tmp_path):
    modules = imports_of("export", root, tmp_path / "rows.json")
    assert not {*HEAVY, "numpy.ma", "hashlib"} & {*modules}

"""A store that may not be changed is read, and a store that is written names its writer."""

import os
import shutil

import pytest
from support.cli import run, start

import rocketstore


def set_permission(root, *, may_write):
    for path in (root, *root.rglob("*")):
        path.chmod((0o755 if path.is_dir() else 0o644) if may_write else (0o555 if path.is_dir() else 0o444))


@pytest.fixture
def root(stores, tmp_path):
    copy = shutil.copytree(stores / "big", tmp_path / "big")
    yield copy
    set_permission(copy, may_write=True)


def test_a_store_without_permission_to_write_is_read(root):
    set_permission(root, may_write=False)
    for words in ("info", "ls", "lag", "verify", "cat --limit 1", "query --key order-7", "du"):
        name, *options = words.split()
        result = run(name, root, *options)
        assert (result.exit_code, "Error" in result.stderr) == (0, False), words
    if os.geteuid():  # root may write everywhere
        result = run("recover", root)
        assert result.exit_code == 1
        assert "Permission denied" in result.stderr


def test_a_store_that_is_written_names_its_writer(root):
    with rocketstore.open(root, "r+"):
        assert run("cat", root, "--limit", 1).exit_code == 0
        for words in ("recover", "rebuild"):
            result = run(words, root)
            assert result.exit_code == 1
            assert "this process has the store open for writing" in result.stderr, words
        with start("recover", root) as process:
            assert f"process {os.getpid()} has the store open for writing" in process.stderr.read()
        assert process.returncode == 1

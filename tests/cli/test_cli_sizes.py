"""Sizes of index files: given once by ``--slots`` and ``--items``, remembered, suggested, and used by every command."""

import json
import shlex
import shutil

import pytest
from support import planted
from support.cli import assert_one_line, rows, run

import rocketstore
from rocketstore import StoreConfig

SIZES = ["--slots", planted.SLOTS, "--items", planted.ITEMS]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("sizes") / "store"
    planted.build("plain", root)
    return root


@pytest.fixture
def unknown(sound, tmp_path):
    """A store without an index, as a broker leaves it that kept no record of its sizes."""
    root = shutil.copytree(sound, tmp_path / "store")
    shutil.rmtree(root / "index")
    saved = root / "config" / "rocketstore.json"
    values = json.loads(saved.read_text())
    saved.write_text(
        json.dumps(
            {name: value for name, value in values.items() if "hash_slot" not in name and name != "max_index_num"}
        )
    )
    return root


def index_sizes(root):
    return {path.stat().st_size for path in (root / "index").iterdir()}


def tree(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


EXPECTED = {40 + 4 * planted.SLOTS + 20 * planted.ITEMS}


@pytest.mark.parametrize("command", [["recover"], ["rebuild", "--index"]], ids=" ".join)
def test_sizes_are_given_once_and_remembered(command, unknown):
    name, *options = command
    assert_one_line(run(name, *options, unknown), "no file shows", "rocketstore", "--slots 5000000 --items 20000000")
    assert run(name, *options, unknown, *SIZES).exit_code == 0
    assert index_sizes(unknown) == EXPECTED
    shutil.rmtree(unknown / "index")
    (unknown / "abort").touch()
    assert run("recover", unknown).exit_code == 0
    assert index_sizes(unknown) == EXPECTED
    with rocketstore.open(unknown, "a") as store:  # the library agrees
        assert (store.config.max_hash_slot_num, store.config.max_index_num) == (planted.SLOTS, planted.ITEMS)
    assert run("verify", unknown).exit_code == 0


def test_sizes_given_for_the_policy_of_a_broker_are_remembered(unknown):
    assert run("recover", "--policy", "broker", unknown, *SIZES).exit_code == 0
    assert run("rebuild", "--index", unknown).exit_code == 0
    assert index_sizes(unknown) == EXPECTED


def test_the_command_in_the_error_is_complete(sound, tmp_path):
    root = shutil.copytree(sound, tmp_path / "a store")
    (root / "config" / "rocketstore.json").unlink()
    error = run("recover", root)
    assert_one_line(error, f"rocketstore recover '{root}' --slots {planted.SLOTS} --items {planted.ITEMS}")
    words = shlex.split(error.stderr[error.stderr.index("rocketstore recover") :])
    assert run(*words[1:]).exit_code == 0
    assert run("recover", root).exit_code == 0


def test_a_dry_run_supposes_sizes_and_says_so(unknown, sound, tmp_path):
    before = tree(unknown)
    result = run("recover", unknown, "--dry-run")
    assert rows(result)[0]["what"] == "dispatch"
    assert "no file shows these sizes for certain, and the steps suppose them" in result.stderr
    assert "max_hash_slot_num=5000000, max_index_num=20000000" in result.stderr
    assert tree(unknown) == before
    root = shutil.copytree(sound, tmp_path / "suggested")
    (root / "config" / "rocketstore.json").unlink()
    result = run("recover", root, "--dry-run")
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"suppose them: max_hash_slot_num={planted.SLOTS}, max_index_num={planted.ITEMS}" in result.stderr
    report = rocketstore.recover(root, dry_run=True)
    assert len(report.notes) == 1
    assert rocketstore.recover(root, dry_run=True, config=StoreConfig(**planted.SIZES)).notes == ()


def test_a_dry_run_does_not_suppose_what_the_files_contradict(sound, tmp_path):
    root = shutil.copytree(sound, tmp_path / "store")
    assert_one_line(run("recover", root, "--dry-run", "--slots", 7, "--items", 20), "max_hash_slot_num=7")


def test_verify_takes_sizes_and_changes_nothing(sound, tmp_path):
    root = shutil.copytree(sound, tmp_path / "store")
    (root / "config" / "rocketstore.json").unlink()
    before = tree(root)
    assert run("verify", root, *SIZES).exit_code == 0
    kinds = {
        row["kind"]
        for row in rows(run("verify", root, "--slots", planted.SLOTS + 1, "--items", planted.ITEMS), exit_code=1)
    }
    assert "index-file-short" in kinds
    assert tree(root) == before


@pytest.mark.parametrize("command", ["recover", "rebuild", "verify"])
def test_both_sizes_are_needed(command, sound):
    result = run(command, sound, "--slots", 5)
    assert (result.exit_code, "--slots and --items: give both or none" in result.stderr) == (2, True)

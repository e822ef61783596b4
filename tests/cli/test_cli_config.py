"""``rocketstore config check`` and ``repair``."""

import fcntl
import json
import subprocess
import sys

import pytest
from support.cli import assert_one_line, rows, run
from support.times import make_old

TOPICS = {"topicConfigTable": {"T": {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4}}}


@pytest.fixture
def store(tmp_path):
    """A store whose topics.json is cut, with a good .bak, as a broker leaves it on a full disk."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "topics.json").write_text(json.dumps(TOPICS)[:20])
    (config / "topics.json.bak").write_text(json.dumps(TOPICS))
    make_old(tmp_path)
    return tmp_path


def bytes_of(store):
    return {path.name: path.read_bytes() for path in (store / "config").iterdir()}


def test_check_shows_each_problem_and_ends_with_1(store):
    before = bytes_of(store)
    (problem,) = rows(run("config", "check", store), exit_code=1)
    assert problem["file"] == str(store / "config" / "topics.json")
    assert problem["what"].startswith("cannot be decoded: ")
    assert problem["what"].endswith("topics.json.bak is used")
    assert bytes_of(store) == before


def test_check_of_a_sound_configuration_says_that_all_is_well(store):
    (store / "config" / "topics.json").write_text(json.dumps(TOPICS))
    result = run("config", "check", store)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{store / 'config'}: all files are sound\n")


def test_repair_of_a_sound_configuration_says_that_all_is_well(store):
    (store / "config" / "topics.json").write_text(json.dumps(TOPICS))
    for options in ([], ["--dry-run"]):
        result = run("config", "repair", store, *options)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{store / 'config'}: all files are sound\n")


def test_repair_takes_the_backup_and_keeps_the_damaged_file(store):
    damaged = (store / "config" / "topics.json").read_bytes()
    (done,) = rows(run("config", "repair", store))
    assert "made from topics.json.bak, the bad file is topics.json.bad-" in done["what"]
    assert json.loads((store / "config" / "topics.json").read_text()) == TOPICS
    assert [path.read_bytes() for path in (store / "config").glob("topics.json.bad-*")] == [damaged]
    assert run("config", "check", store).exit_code == 0


def test_a_dry_run_shows_the_same_and_changes_nothing(store):
    before = bytes_of(store)
    (done,) = rows(run("config", "repair", store, "--dry-run"))
    assert "made from topics.json.bak" in done["what"]
    assert bytes_of(store) == before


def test_what_cannot_be_repaired_is_an_error(store):
    (store / "config" / "topics.json.bak").write_text("{")
    result = run("config", "repair", store)
    assert (result.exit_code, result.stdout) == (1, "")
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == [
        str(store / "config" / "topics.json"),
        str(store / "config" / "topics.json.bak"),
    ]


@pytest.fixture
def held(store):
    """The store's lock, held as a broker does by another process."""
    (store / "lock").write_bytes(b"lock")
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+b'); fcntl.lockf(file, fcntl.LOCK_EX, 1, 0);"
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, store / "lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.stdin.close()


def test_repair_refuses_while_a_broker_runs(store, held):
    before = bytes_of(store)
    assert_one_line(run("config", "repair", store), store / "lock", f"process {held} has the store open", "stop it")
    assert bytes_of(store) == before
    assert len(rows(run("config", "repair", store, "--dry-run"))) == 1


def test_repair_takes_the_lock_that_nobody_holds_and_gives_it_back(store):
    (store / "lock").write_bytes(b"lock")
    assert len(rows(run("config", "repair", store))) == 1
    assert (store / "lock").read_bytes() == b"lock"
    with (store / "lock").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)


def test_a_wrong_path(tmp_path):
    assert_one_line(run("config", "check", tmp_path / "nothing"), tmp_path / "nothing", "No such file")
    assert_one_line(run("config", "repair", tmp_path / "nothing"), tmp_path / "nothing", "No such file")


@pytest.mark.parametrize("command", ["check", "repair"])
def test_where_no_store_is(command, tmp_path):
    assert_one_line(run("config", command, tmp_path), tmp_path, "no store is here")
    (tmp_path / "file").touch()
    assert_one_line(run("config", command, tmp_path / "file"), tmp_path / "file", "Not a directory")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_store_without_a_configuration_has_nothing_wrong(tmp_path):
    (tmp_path / "commitlog").mkdir()
    assert rows(run("config", "check", tmp_path)) == []

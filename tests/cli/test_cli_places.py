"""``--write-elsewhere``: with it a command changes another store, too, and takes the lock of that store."""

import json
import shutil

import pytest
from support.cli import assert_one_line, run
from support.places import TEXT, contents, locked, make_backup, make_live
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig

ROWS = json.dumps({"topic": "T", "body": "more"}) + "\n"


@pytest.fixture
def live(tmp_path):
    return make_live(tmp_path / "live")


@pytest.fixture
def backup(live, tmp_path):
    """A copy of a store whose commit log, and whose configuration by a link, are those of the live one."""
    backup = make_backup(live, tmp_path / "backup", "commitlog", "config")
    (tmp_path / "broker.conf").write_text(f"{TEXT}storePathRootDir={live}\nstorePathCommitLog={live}/commitlog\n")
    (tmp_path / "rows.jsonl").write_text(ROWS)
    return backup


def arguments(command, backup):
    conf = ["--broker-conf", backup.parent / "broker.conf"]
    source = [backup.parent / "rows.jsonl"] * (command == "import")
    if command == "config repair":
        (backup / "config").symlink_to(backup.parent / "live" / "config")
        damage_topics(backup)
        conf = []
    return [*command.split(), *source, backup, *conf]


def damage_topics(root):
    topics = root / "config" / "topics.json"
    shutil.copy(topics, f"{topics}.bak")
    topics.write_bytes(topics.read_bytes()[:20])


COMMANDS = ["import", "recover", "rebuild", "config repair"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_changes_another_store_with_the_flag_alone(live, backup, command):
    words = arguments(command, backup)
    before = contents(live), contents(backup)
    result = run(*words)
    assert_one_line(result, f"belongs to the store at {live}, not to {backup}")
    assert "--write-elsewhere" in result.stderr
    assert (contents(live), contents(backup)) == before
    result = run(*words, "--write-elsewhere")
    assert result.exit_code == 0, result.stderr
    with rocketstore.open(live, config=StoreConfig(**SMALL)) as store:
        assert [message.body for batch in store.scan() for message in batch] == [b"body", b"more"][
            : 1 + (command == "import")
        ]
        assert store.topic_configs["T"]


@pytest.mark.parametrize("command", COMMANDS)
def test_with_the_flag_a_command_needs_the_lock_of_the_other_store(live, backup, command):
    words = arguments(command, backup)
    before = contents(live)
    with locked(live):
        assert_one_line(run(*words, "--write-elsewhere"), str(live / "lock"))
    assert contents(live) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_the_flag(command):
    assert "directories of another store" in " ".join(run(*command.split(), "--help").stdout.split())


def test_an_import_makes_no_store_whose_log_is_another_stores(live, backup, tmp_path):
    words = ["import", tmp_path / "rows.jsonl", tmp_path / "new", "--broker-conf", tmp_path / "broker.conf"]
    before = contents(live)
    assert_one_line(run(*words), "belongs to the store at")
    assert not (tmp_path / "new").exists()
    assert contents(live) == before


def test_a_relative_store_is_its_own(live, backup, monkeypatch):
    monkeypatch.chdir(live.parent)
    (live.parent / "broker.conf").write_text(f"{TEXT}storePathRootDir=live\nstorePathCommitLog=live/commitlog\n")
    for command in COMMANDS[:3]:
        source = ["rows.jsonl"] * (command == "import")
        assert run(command, *source, "live", "--broker-conf", "broker.conf").exit_code == 0
        assert_one_line(run(command, *source, "backup", "--broker-conf", "broker.conf"), "belongs to the store at")
    damage_topics(live)
    assert run("config", "repair", "live").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "out.jsonl"],
        ["bundle", "-o", "out.zip"],
        ["report", "-o", "out.html"],
        ["metrics", "-o", "out.prom"],
        ["sql", "SELECT 1", "-o", "out.parquet"],
    ],
)
def test_no_file_is_written_into_a_directory_of_the_store(tmp_path, arguments):
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("A", b"x"))
    [log] = (tmp_path / "store" / "commitlog").iterdir()
    command, *options, name = arguments
    result = run(command, tmp_path / "store", *options, log.with_name(name))
    assert result.exit_code == 1
    assert "is inside the store" in result.stderr
    assert [*log.parent.iterdir()] == [log]

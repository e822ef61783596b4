"""``rocketstore expire``: the plan of Python, and its files deleted on request."""

import os
import shutil
from pathlib import Path

import pytest
from support.cli import golden, on_terminal, rows, run

import rocketstore
from rocketstore import StoreConfig

SIZES = "mappedFileSizeCommitLog=131072\nmappedFileSizeConsumeQueue=300\nmaxHashSlotNum=97\nmaxIndexNum=200\n"

CONF = f"deleteWhen=05\nfileReservedTime=1\n{SIZES}"


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text(CONF)
    return path


@pytest.fixture
def root(tmp_path):
    return shutil.copytree(golden("rich-5.5.0"), tmp_path / "store")


def test_expire_writes_a_line_for_each_file_and_deletes_nothing(root):
    found = rows(run("expire", root, "--hours", "0", "--tz", "UTC", "--format", "json"))
    with rocketstore.open(root) as store:
        assert [tuple(row.values()) for row in found] == list(store.expiry(hours=0, tz="UTC"))
    assert {row["part"] for row in found} == {"log", "queues", "index"}
    assert all(Path(row["path"]).exists() for row in found)


def test_settings_of_the_broker_are_used(root, conf):
    os.utime(root / "commitlog" / f"{131072:020}")
    result = run("expire", root, "--broker-conf", conf, "--tz", "UTC", "--format", "json")
    assert [row["path"] for row in rows(result) if row["part"] == "log"] == [str(root / "commitlog" / f"{0:020}")]
    assert {row["deleteTimestamp"] % 86_400_000 // 3_600_000 for row in rows(result)} == {5}
    assert "assumed" not in result.stderr
    assert "the next file may be deleted at" in result.stderr


def test_losses_and_sums_are_shown_alone_on_request(root):
    queues = rows(run("expire", root, "--hours", "0", "--queues", "--format", "json"))
    [total] = rows(run("expire", root, "--hours", "0", "--totals", "--format", "json"))
    assert total["messages"] == sum(row["messages"] for row in queues) > 0
    assert rows(run("expire", root, "--hours", "0", "--groups", "--format", "json")) == []
    assert run("expire", root, "--queues", "--totals").exit_code == 2
    assert run("expire", root, "--hours", "1", "--before", "-1h").exit_code == 2


def test_apply_deletes_the_files_of_the_plan(root, conf):
    planned = rows(run("expire", root, "--hours", "0", "--format", "json"))
    result = run("expire", root, "--hours", "0", "--broker-conf", conf, "--apply", "--format", "json")
    assert [row["path"] for row in rows(result)] == [row["path"] for row in planned]
    assert not any(Path(row["path"]).exists() for row in planned)
    assert rows(run("expire", root, "--hours", "0", "--format", "json")) == []
    with rocketstore.open(root) as store:
        assert store.summary().problems == []


def test_apply_changes_nothing_while_a_process_writes_the_store(root, conf):
    with rocketstore.open(root, "r+", config=StoreConfig.from_broker_conf(conf)):
        assert rows(run("expire", root, "--hours", "0", "--format", "json"))
        result = run("expire", root, "--hours", "0", "--broker-conf", conf, "--apply")
    assert result.exit_code == 1
    assert (root / "commitlog" / f"{0:020}").exists()


def test_a_terminal_shows_the_losses_below_the_files(root):
    status, text = on_terminal("expire", root, "--hours", "0", columns=400)
    assert status == 0
    assert "deleteTimestamp" in text
    assert "newMinOffset" in text
    assert "would be deleted: 12 files" in text

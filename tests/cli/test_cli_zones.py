"""Time zones of the command line: --tz, and --iso."""

import json

import pytest
from click.testing import CliRunner

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.cli.group import rocketstore as main

STORED = 1_700_000_000_000  # 2023-11-14T22:13:20Z


@pytest.fixture
def root(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig.small()) as store:
        for n in range(3):
            store.put_message(Message("A", b"%d" % n, keys=["k"]), store_timestamp=STORED + n * 3_600_000)
    return tmp_path / "store"


def run(*args):
    return CliRunner().invoke(main, [*map(str, args)], catch_exceptions=False)


def times(*args):
    return [json.loads(line)["storeTimestamp"] for line in run(*args).stdout.splitlines()]


def test_a_time_without_a_zone_is_one_of_tz(root):
    assert len(times("cat", root, "--since", "2023-11-15 07:13:20", "--tz", "Asia/Shanghai")) == 2
    assert len(times("cat", root, "--tz", "UTC", "--since", "2023-11-14 23:13:20")) == 2


@pytest.mark.parametrize("command", [["cat"], ["query", "--topic", "A", "--key", "k", "--limit", "9"], ["get"]])
def test_iso_writes_times_of_tz(root, command):
    place = ["A", 0, 0] if command == ["get"] else []
    assert STORED in times(*command[:1], root, *place, *command[1:])
    assert "2023-11-14T22:13:20.000Z" in times(*command[:1], root, *place, *command[1:], "--iso")
    found = times(*command[:1], root, *place, *command[1:], "--iso", "--tz", "Asia/Shanghai")
    assert "2023-11-15T06:13:20.000+08:00" in found


def test_a_table_shows_times_of_tz(root):
    text = run("cat", root, "--format", "table", "--tz", "Asia/Shanghai", "--columns", "storeTimestamp").stdout
    assert "2023-11-15T06:13:20.000+08:00" in text


@pytest.mark.parametrize("form", ["json", "csv"])
def test_an_export_with_iso_times_can_be_imported(root, tmp_path, form):
    file = tmp_path / f"out.{form}"
    assert run("export", root, file, "--iso", "--tz", "Asia/Shanghai").exit_code == 0
    assert "2023-11-15T06:13:20.000+08:00" in file.read_text()
    assert run("import", file, tmp_path / "new", "--small", "--keep-times").exit_code == 0
    with rocketstore.open(tmp_path / "new") as store:
        assert [m.store_timestamp for m in store["A"]] == [STORED + n * 3_600_000 for n in range(3)]


def test_an_unknown_zone_is_refused(root):
    found = run("cat", root, "--tz", "Mars")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "give a time zone such as Asia/Shanghai" in found.stderr


def test_a_misspelt_zone_is_refused_with_a_hint(root):
    for command in (["cat", root], ["sql", root, "SELECT 1"], ["expire", root]):
        found = run(*command, "--tz", "Asia/Shanghi")
        assert (found.exit_code, "did you mean 'Asia/Shanghai'?" in found.stderr) == (2, True)


def test_hours_and_days_are_those_of_tz(root):
    for words in (["count", root, "--by", "day"], ["du", root, "--by", "day"]):
        found = [json.loads(line) for line in run(*words, "--tz", "Asia/Shanghai", "--iso").stdout.splitlines()]
        (days,) = {tuple(value for name, value in row.items() if name.endswith("Timestamp")) for row in found[:1]}
        assert days == ("2023-11-15T00:00:00.000+08:00",)


def test_sql_shows_times_in_tz(root):
    pytest.importorskip("duckdb", reason="needs duckdb")
    query = "SELECT storeTimestamp, CAST(date_trunc('day', storeTimestamp) AS VARCHAR) AS day FROM messages LIMIT 1"
    found = run("sql", root, query, "--tz", "Asia/Shanghai", "--format", "table")
    assert "2023-11-15T06:13:20.000+08:00" in found.stdout
    assert "2023-11-15 00:00:00+08" in found.stdout
    (row,) = [json.loads(line) for line in run("sql", root, query, "--tz", "Asia/Shanghai").stdout.splitlines()]
    assert row["storeTimestamp"] == STORED
    (row,) = [json.loads(line) for line in run("sql", root, query, "--iso").stdout.splitlines()]
    assert row == {"storeTimestamp": "2023-11-14T22:13:20.000Z", "day": "2023-11-14 00:00:00+00"}


def test_expire_shows_times_in_the_zone_of_the_broker(root):
    found = run("expire", root, "--before", "2033-01-01", "--tz", "Asia/Shanghai", "--iso", "--totals")
    assert found.exit_code in (0, 1)
    help_text = run("expire", "--help").stdout
    assert "deleteWhen" in help_text

"""``rocketstore patch``, and what ``verify`` says of lost messages."""

import random

import pytest
from support.cli import rows, run
from support.damaged_log import make_log, overwrite

COLUMNS = [
    "topic", "queueId", "queueOffset", "phyOffset", "size", "messages", "tags", "keys", "keyHashes",
    "previousStoreTimestamp", "nextStoreTimestamp", "problem",
]  # fmt: skip


@pytest.fixture
def damaged(tmp_path):
    """A store with a damaged record, and what stood there."""
    root = tmp_path / "store"
    row = make_log(root, random.Random(7))[10]
    overwrite(root, row.phy_offset, bytes(40))
    return root, row


def test_the_lost_messages_are_listed(damaged):
    root, row = damaged
    for result in (run("patch", root, "--dry-run"), run("patch", root)):
        (found,) = rows(result, exit_code=1)
        assert list(found) == COLUMNS
        assert [found[name] for name in COLUMNS[:5]] == list(row.place)
        assert "1 message lost" in result.stderr
    assert "rocketstore-cut" in result.stderr
    result = run("patch", root)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing to patch\n")
    assert run("verify", root).exit_code == 0


def test_verify_shows_the_lost_messages_and_the_command(damaged):
    root, row = damaged
    result = run("verify", root, "--format", "table")
    assert result.exit_code == 1
    assert f"To mend: rocketstore patch {root}" in result.stderr
    assert "lost: 1 message" in result.stderr
    _, _, table = result.stdout.partition("storedAfter")
    assert [str(value) in table for value in row.place] == [True] * 5


def test_damage_that_stays_is_named(damaged):
    root, row = damaged
    with (root / "consumequeue" / row.topic / str(row.queue_id) / f"{0:020}").open("r+b") as file:
        file.seek(row.queue_offset * 20 + 8)
        file.write((row.size - 1).to_bytes(4, "big"))
    result = run("patch", root)
    (found,) = rows(result, exit_code=1)
    assert "no record fits" in found["problem"]
    assert "stay damaged" in result.stderr
    assert "salvage" in result.stderr


def test_patched_messages_have_the_column_damaged(damaged):
    root, row = damaged
    run("patch", root)
    found = rows(run("cat", root, "--columns", "phyOffset,damaged"))
    assert [one["phyOffset"] for one in found if one["damaged"] is True] == [row.phy_offset]
    table = run("export", root, "-", "--format", "csv", "--columns", "phyOffset,damaged").stdout.splitlines()
    assert f"{row.phy_offset},true" in table


def test_the_column_damaged_is_shown_by_all_readers(damaged):
    root, row = damaged
    run("patch", root)
    options = ["--columns", "queueOffset,damaged"]
    expected = {"queueOffset": row.queue_offset, "damaged": True}
    assert rows(run("get", root, row.topic, row.queue_id, row.queue_offset, "--limit", "1", *options)) == [expected]
    for iso in ([], ["--iso"]):
        found = rows(run("query", root, "--since", "2000-01-01", "--limit", "99999", *options, *iso))
        assert [row for row in found if row["damaged"]] == [expected]
        assert {row["damaged"] for row in found} == {True, False}
    pytest.importorskip("duckdb", reason="needs DuckDB, from the extra 'duckdb'")
    assert rows(run("cat", root, "--where", "damaged", *options)) == [expected]

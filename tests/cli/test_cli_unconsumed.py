"""``cat`` and ``export --unconsumed``: the messages that a group still gets, with their kinds."""

import json

import pytest
from support import states
from support.cli import rows, run

import rocketstore


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("unconsumed", tmp_path_factory.mktemp("states"))


def test_cat_shows_what_a_group_still_gets(root):
    options = ["--group", "part", "--subscribe", "Fruit", "--subscribe", "Stone=TagA || TagB"]
    found = rows(run("cat", root, "--unconsumed", *options))
    with rocketstore.open(root) as store:
        expected = store.unconsumed("part", subscribe=["Fruit", "Stone=TagA || TagB"])
    assert [(row["kind"], row["phyOffset"]) for row in found] == [(row.kind, row.phy_offset) for row in expected]
    assert found[0]["body"].startswith("Fruit body")
    assert rows(run("cat", root, "--unconsumed", *options, "--limit", "3")) == found[:3]


def test_columns_and_tables_of_unconsumed_messages_are_those_of_cat(root):
    found = rows(run("cat", root, "--unconsumed", "--group", "beyond", "--columns", "uniqKey,keys"))
    assert [list(row) for row in found] == [["uniqKey", "keys"]] * 4
    header = run("cat", root, "--unconsumed", "--group", "beyond", "--format", "table").stdout.splitlines()[0]
    assert header.split()[:3] == ["kind", "storeTimestamp", "topic"]


def test_options_that_do_not_go_with_unconsumed_are_wrong_usage(root):
    for options in (["--group", "part"], ["--unconsumed"], ["--subscribe", "Fruit"],
                    ["--unconsumed", "--group", "part", "--tag", "a"], ["--unconsumed", "--group", "part", "--follow"],
                    ["--unconsumed", "--group", "part", "--from", "middle"], ["--from", "last"]):  # fmt: skip
        assert run("cat", root, *options).exit_code == 2


def test_a_group_without_offsets_is_an_error(root):
    result = run("cat", root, "--unconsumed", "--group", "prt")
    assert result.exit_code == 1
    assert "did you mean 'part'?" in result.stderr
    assert result.stdout == ""


def test_export_writes_what_a_group_still_gets_in_the_order_of_the_log(root, tmp_path):
    shown = rows(run("cat", root, "--unconsumed", "--group", "part"))
    target = tmp_path / "rest.jsonl"
    assert run("export", root, target, "--unconsumed", "--group", "part").exit_code == 0
    written = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["phyOffset"] for row in written] == sorted(row["phyOffset"] for row in shown)
    output = run("export", root, "-", "--format", "json", "--unconsumed", "--group", "beyond")
    assert [row["phyOffset"] for row in rows(output)] == [
        row["phyOffset"] for row in rows(run("cat", root, "--unconsumed", "--group", "beyond"))
    ]


@pytest.mark.parametrize(
    "condition", [("--where", "tags = 'TagB'"), ("--grep", "Stone body 1"), ("--regex", "body 1.*")]
)
def test_conditions_choose_among_the_messages_that_a_group_still_gets(root, tmp_path, condition):
    pytest.importorskip("duckdb", reason="needs duckdb, from the extra 'duckdb'")
    asked = "--unconsumed", "--group", "part"
    every = rows(run("cat", root, *asked))
    shown = rows(run("cat", root, *asked, *condition))
    tests = {
        "--where": lambda row: row["tags"] == "TagB",
        "--grep": lambda row: condition[1] in row["body"],
        "--regex": lambda row: "body 1" in row["body"],
    }
    expected = [row for row in every if tests[condition[0]](row)]
    assert shown == expected
    assert 1 < len(expected) < len(every)
    assert rows(run("cat", root, *asked, *condition, "--limit", "2")) == expected[:2]
    [counted] = rows(run("count", root, *asked, *condition))
    assert counted["messages"] == len(expected)
    exported = rows(run("export", root, "-", "--format", "json", *asked, *condition))
    assert [row["phyOffset"] for row in exported] == sorted({row["phyOffset"] for row in expected})


def test_lines_and_bodies_are_written_of_the_messages_that_a_group_still_gets(root):
    asked = "--unconsumed", "--group", "part"
    every = rows(run("cat", root, *asked))
    lines = run("cat", root, *asked, "--template", "{queueOffset} {tags}").stdout.splitlines()
    assert lines == [f"{row['queueOffset']} {row['tags'] or ''}" for row in every]
    assert run("cat", root, *asked, "--raw", "--limit", 1).stdout == every[0]["body"]
    many = run("cat", root, *asked, "--raw")
    assert (many.exit_code, many.stdout) == (1, "")
    assert "and there are more" in many.stderr


def test_a_group_that_gets_no_message_of_a_condition_has_not_consumed_all(root):
    result = run("cat", root, "--unconsumed", "--group", "part", "--grep", "nobody wrote this")
    assert result.stdout == ""
    assert "group 'part' gets no message that meets the conditions" in result.stderr


def test_an_export_of_unconsumed_messages_is_not_resumed(root, tmp_path):
    for options in (["--resume"], ["--topic", "Fruit"], ["--begin-offset", "5"]):
        result = run("export", root, tmp_path / "x.jsonl", "--unconsumed", "--group", "part", *options)
        assert result.exit_code == 2
    result = run("export", root, tmp_path / "none.jsonl", "--unconsumed", "--group", "prt")
    assert result.exit_code == 1

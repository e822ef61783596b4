"""``cat --unconsumed``: the messages that a group still gets, with their kinds."""

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
                    ["--unconsumed", "--group", "part", "--from", "middle"]):  # fmt: skip
        assert run("cat", root, *options).exit_code == 2


def test_a_group_without_offsets_is_an_error(root):
    result = run("cat", root, "--unconsumed", "--group", "prt")
    assert result.exit_code == 1
    assert "did you mean 'part'?" in result.stderr
    assert result.stdout == ""

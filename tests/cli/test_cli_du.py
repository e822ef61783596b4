"""``rocketstore du``: the numbers of Python, and whether they are counted from the queues or from the log."""

import pytest
from support import states
from support.cli import on_terminal, rows, run

import rocketstore


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("pending", tmp_path_factory.mktemp("states"))


def test_du_writes_a_line_for_each_part(root):
    found = rows(run("du", root, "--format", "json"))
    with rocketstore.open(root) as store:
        assert [tuple(row.values()) for row in found] == list(store.du())
    assert {row["part"] for row in found} >= {"log", "queues", "index", "config"}


def test_du_by_topic_says_that_it_counts_from_the_queues(root):
    result = run("du", root, "--by", "topic", "--format", "json")
    with rocketstore.open(root) as store:
        assert [tuple(row.values()) for row in rows(result)] == store.du(by="topic").cells()
    assert "counted from the queues" in result.stderr


def test_exact_tags_have_names_and_hashes_are_shown_without(root):
    names = {row["tag"]: row["messages"] for row in rows(run("du", root, "--by", "tag", "--exact"))}
    assert names["ck"]
    assert {row["tag"] for row in rows(run("du", root, "--by", "tag"))} == {None}


def test_totals_say_whether_they_are_exact(root):
    result = run("du", root, "--by", "hour", "--exact", "--totals", "--format", "json")
    [total] = rows(result)
    assert (total["messages"], total["otherBytes"], total["isExact"]) == (231, 0, True)
    assert "from a scan of the log" in result.stderr


def test_du_on_a_terminal_shows_parts_sums_and_the_disk(root):
    status, text = on_terminal("du", root)
    assert status == 0
    assert "%" in text
    assert "freeBytes" in text
    assert str(root / "commitlog") not in text


def test_disks_are_shown_alone_on_request(root):
    [disk] = rows(run("du", root, "--disks", "--format", "json"))
    assert disk["path"] == str(root)
    assert 0 < disk["freeBytes"] < disk["totalBytes"]


@pytest.mark.parametrize("options", [["--exact"], ["--topic", "T"], ["--disks", "--by", "tag"], ["--by", "year"]])
def test_options_of_du_that_do_not_fit_are_wrong_usage(root, options):
    assert run("du", root, *options).exit_code == 2


def test_an_unknown_topic_of_du_is_named(root):
    result = run("du", root, "--by", "topic", "--topic", "Ordr")
    assert result.exit_code == 1
    assert "Order" in result.stderr

"""``rocketstore count``: the numbers of Python, with a bar on a terminal."""

import pytest
from support import states
from support.cli import on_terminal, rows, run

import rocketstore


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("unconsumed", tmp_path_factory.mktemp("states"))


def test_count_writes_a_line_for_each_group(root):
    found = rows(run("count", root, "--by", "topic,queue", "--tag", "TagA"))
    with rocketstore.open(root) as store:
        expected = store.count("topic,queue", tag="TagA")
    assert [tuple(row.values()) for row in found] == [tuple(row) for row in expected]
    assert list(found[0]) == ["topic", "queueId", "messages", "logBytes"]


def test_a_terminal_gets_a_bar_for_each_row(root):
    status, text = on_terminal("count", root, "--by", "topic")
    assert status == 0
    bars = [line.count("█") for line in text.splitlines()[1:]]
    assert bars[0] == 30
    assert bars == sorted(bars, reverse=True)
    assert bars[-1] >= 1


def test_unconsumed_messages_are_counted(root):
    found = rows(run("count", root, "--by", "topic", "--unconsumed", "--group", "part"))
    with rocketstore.open(root) as store:
        assert sum(row["messages"] for row in found) == len(store.unconsumed("part"))


def test_an_unknown_topic_is_named(root):
    result = run("count", root, "--by", "topic", "--topic", "Nope")
    assert result.exit_code == 1
    assert "no queue of topic 'Nope'" in result.stderr


def test_wrong_questions_are_wrong_usage(root):
    for options in (["--by", "topics"], ["--by", "topic", "--unconsumed"],
                    ["--by", "topic", "--unconsumed", "--group", "part", "--key", "k"]):  # fmt: skip
        assert run("count", root, *options).exit_code == 2
    assert "did you mean 'topic'?" in run("count", root, "--by", "topics").stderr


def test_a_count_without_a_grouping_is_one_row(root):
    (row,) = rows(run("count", root))
    assert row["messages"] == sum(each["messages"] for each in rows(run("count", root, "--by", "topic")))


def test_a_count_without_a_message_says_so(root):
    result = run("count", root, "--by", "topic", "--key", "no")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no message was found" in result.stderr

"""``rocketstore pending``: the same rows as in Python, with a status that says whether they may be incomplete."""

import json

import pytest
from support import states
from support.cli import run


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("pending", tmp_path_factory.mktemp("states"))


def rows(*arguments):
    result = run("pending", *arguments, "--format", "json")
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_pending_writes_a_line_for_each_message(root):
    found = rows(root)
    truth = states.truth("pending")
    assert len(found) == len(truth["pending"]) + len(truth["popInvisible"])
    assert {row["uniqKey"] for row in found} == {row["msgId"] for row in truth["pending"] + truth["popInvisible"]}
    assert list(found[0])[:7] == ["kind", "topic", "queueId", "keys", "uniqKey", "dueTimestamp", "checkTimes"]


def test_overdue_leaves_out_half_messages_and_later_ones(root):
    found = rows(root, "--overdue", "--until", 1795811300000)
    assert found
    assert all(row["dueTimestamp"] < 1795811300000 for row in found)


def test_totals_of_pending_are_by_kind_topic_and_hour(root):
    found = rows(root, "--totals", "--topic", "Ledger")
    assert found == [{"kind": "half", "topic": "Ledger", "hourTimestamp": None, "messages": 4}]


def test_a_table_of_pending_messages_has_their_totals_too(root):
    lines = run("pending", root, "--kind", "half", "--format", "table").stdout.splitlines()
    assert lines[0].split()[:3] == ["kind", "topic", "queueId"]
    assert lines[-1].split() == ["half", "Ledger", "-", "4"]


def test_an_unknown_kind_is_wrong_usage(root):
    assert run("pending", root, "--kind", "dead").exit_code == 2


def test_an_unknown_topic_or_group_is_named(root):
    for option, name, similar in (("--topic", "Ledgr", "Ledger"), ("--group", "pop-parcl", "pop-parcel")):
        result = run("pending", root, option, name)
        assert result.exit_code == 1
        assert name in result.stderr
        assert similar in result.stderr

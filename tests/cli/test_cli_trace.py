"""``rocketstore trace``: the same events as in Python."""

import json

import pytest
from support import states
from support.cli import run

import rocketstore


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("dlq", tmp_path_factory.mktemp("states"))


def test_trace_writes_a_line_for_each_event(root):
    result = run("trace", root, "--key", "Bill-20", "--topic", "Bill", "--format", "json")
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    with rocketstore.open(root) as store:
        events = list(store.trace("Bill-20"))
    assert [tuple(row.values()) for row in rows] == events
    assert list(rows[0]) == [
        "uniqKey", "eventTimestamp", "kind", "topic", "queueId", "queueOffset", "group", "detail", "phyOffset",
    ]  # fmt: skip


def test_a_table_of_a_trace_has_times_for_people(root):
    lines = run("trace", root, "--key", "Bill-20", "--format", "table", "--full").stdout.splitlines()
    assert lines[0].split()[:4] == ["eventTimestamp", "kind", "topic", "queueId"]
    assert lines[1].split()[1:3] == ["produced", "Bill"]


def test_trace_takes_exactly_one_name(root):
    for options in ((), ("--key", "a", "--id", "b"), ("--unique-key", "a", "--topic", "Bill"), ("--id", "xyz")):
        assert run("trace", root, *options).exit_code == 2


def test_a_trace_of_nothing_has_status_1(root):
    result = run("trace", root, "--key", "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no message was found" in result.stderr
    assert "did you mean 'Bill'" in run("trace", root, "--key", "Bill-20", "--topic", "Bil").stderr

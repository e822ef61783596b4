"""``rocketstore dlq``: the same rows as in Python."""

import json

import pytest
from support import states
from support.cli import run


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("dlq", tmp_path_factory.mktemp("states"))


def rows(*arguments):
    result = run("dlq", *arguments, "--format", "json")
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_dlq_writes_a_line_for_each_dead_message(root):
    truth = {(row["group"], row["originalMsgId"]): row for rows in states.truth("dlq")["dlq"].values() for row in rows}
    found = rows(root)
    assert sorted((row["group"], row["uniqKey"]) for row in found) == sorted(truth)
    for row in found:
        sent = truth[row["group"], row["uniqKey"]]
        expected = sent["originalTopic"], sent["originalQueueId"], [sent["key"]]
        assert (row["topic"], row["queueId"], row["keys"]) == expected


def test_dlq_shows_the_retries_of_a_group_on_request(root):
    found = rows(root, "--retry", "--group", "billing")
    assert len(found) == 31
    assert {row["storedTopic"] for row in found} == {"%RETRY%billing"}


def test_totals_of_dlq_have_the_first_and_the_last_time(root):
    (total,) = rows(root, "--totals", "--topic", "Mail")
    times = [row["storeTimestamp"] for row in rows(root, "--topic", "Mail")]
    assert total == {
        "group": "billing",
        "topic": "Mail",
        "messages": 3,
        "beginTimestamp": min(times),
        "endTimestamp": max(times),
    }


def test_a_table_of_dead_messages_has_their_totals_too(root):
    lines = run("dlq", root, "--group", "audit", "--format", "table").stdout.splitlines()
    assert lines[0].split()[:3] == ["group", "topic", "queueId"]
    assert lines[-1].split()[:3] == ["audit", "Bill", "4"]


def test_an_unknown_group_of_dlq_is_named(root):
    result = run("dlq", root, "--group", "biling")
    assert result.exit_code == 1
    assert "billing" in result.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--topic", "%DLQ%zzz"], "there is no queue of topic '%DLQ%zzz': rocketstore dlq"),
        (["--topic", "%DLQ%biling"], "did you mean '%DLQ%billing'? rocketstore dlq"),
        (["--topic", "%RETRY%zzz"], "--retry shows the retried messages of all groups"),
        (["%DLQ%zzz"], "shows the dead letters of all groups"),
        (["--topic", "DLQ"], "shows the dead letters of all groups"),
    ],
)
def test_an_unknown_topic_of_dead_letters_names_the_command(root, words, shown):
    assert shown in run("ls", root, *words).stderr

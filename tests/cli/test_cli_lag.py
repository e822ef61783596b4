"""``rocketstore lag``: sums, ages, and offsets of topics that do not exist."""

import csv
import json
import shutil
import time

import pytest
from support.cli import rows, run
from support.puts import open_store

import rocketstore
from rocketstore import Message
from rocketstore.text_values import format_duration


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Messages that are one, two and three hours old; the group "behind" has consumed the oldest of queue 0."""
    root = tmp_path_factory.mktemp("lag") / "store"
    now = time.time_ns() // 1_000_000
    with open_store(root) as opened:
        for hours in (3, 2, 1):
            for queue_id in (0, 1):
                opened.put_message(Message("Orders", b"x", queue_id=queue_id), store_timestamp=now - hours * 3_600_000)
    table = {"Orders@behind": {"0": 1, "1": 3}, "Orders@done": {"0": 3, "1": 3}, "Gone@behind": {"0": 5}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    return root


def test_the_age_is_that_of_the_oldest_message_that_was_not_consumed(store):
    found = {(row["group"], row["topic"], row["queueId"]): row for row in rows(run("lag", store))}
    row = found["behind", "Orders", 0]
    assert (row["lag"], row["oldestAgeSeconds"] // 60) == (2, 120)
    assert abs(row["oldestTimestamp"] - (time.time_ns() // 1_000_000 - 7_200_000)) < 60_000
    assert [found[name, "Orders", 1]["oldestTimestamp"] for name in ("behind", "done")] == [None, None]


def test_a_topic_that_does_not_exist_is_marked(store):
    assert [row["topic"] for row in rows(run("lag", store)) if not row["topicExists"]] == ["Gone"]
    assert "Gone (does not exist)" in run("lag", store, "--format", "table").stdout
    with rocketstore.open(store) as opened:
        assert [lag.topic_exists for lag in opened.consumer_lag("behind")] == [False, True, True]


def test_totals_are_one_row_for_each_group(store):
    found = rows(run("lag", store, "--totals"))
    assert [(row["group"], row["topics"], row["queues"], row["lag"]) for row in found] == [
        ("behind", 2, 3, 2),
        ("done", 1, 2, 0),
    ]
    assert found[0]["oldestAgeSeconds"] // 60 == 120
    assert found[1]["oldestTimestamp"] is None
    header, *lines = csv.reader(run("lag", store, "--totals", "--group", "done", "--format", "csv").stdout.splitlines())
    assert header == ["group", "topics", "queues", "lag", "logBytes", "oldestTimestamp", "oldestAgeSeconds"]
    assert [line[:4] for line in lines] == [["done", "1", "2", "0"]]


def test_the_bytes_of_the_lag_are_those_of_the_messages_that_were_not_consumed(store):
    with rocketstore.open(store) as opened:
        sizes = [message.size for batch in opened.scan() for message in batch if message.queue_id == 0][1:]
        found = {(lag.group, lag.topic, lag.queue_id): lag.log_bytes for lag in opened.consumer_lag(log_bytes=True)}
        assert {lag.log_bytes for lag in opened.consumer_lag()} == {None}
    assert found["behind", "Orders", 0] == sum(sizes)
    assert found["done", "Orders", 0] == found["behind", "Orders", 1] == 0
    assert found["behind", "Gone", 0] == 0
    assert [row["logBytes"] for row in rows(run("lag", store, "--bytes", "--totals"))] == [sum(sizes), 0]
    assert {row["logBytes"] for row in rows(run("lag", store))} == {None}
    assert "logBytes" in run("lag", store, "--bytes", "--format", "table").stdout
    assert "logBytes" not in run("lag", store, "--format", "table").stdout


def test_a_table_has_queues_and_totals(store):
    lines = run("lag", store, "--format", "table").stdout.splitlines()
    assert lines[0].split() == ["group", "topic", "queueId", "consumerOffset", "maxOffset", "lag", "age"]
    assert any(line.split()[:6] == ["behind", "Orders", "0", "1", "3", "2"] and "2h 0m" in line for line in lines)
    at = next(n for n, line in enumerate(lines) if line.split()[:2] == ["group", "topics"])
    assert [line.split()[:4] for line in lines[at + 1 :]] == [["behind", "2", "3", "2"], ["done", "1", "2", "0"]]


def test_offsets_of_queues_that_no_consumer_reads_are_left_out_and_counted(store, tmp_path):
    root = shutil.copytree(store, tmp_path / "store")
    path = root / "config" / "topics.json"
    topics = json.loads(path.read_text())
    topics["topicConfigTable"]["Orders"]["readQueueNums"] = 1
    path.write_text(json.dumps(topics))
    result = run("lag", root, "--group", "behind")
    assert [(row["topic"], row["queueId"], row["lag"]) for row in rows(result)] == [("Gone", 0, 0), ("Orders", 0, 2)]
    assert "1 saved offset is of a queue beyond readQueueNums" in result.stderr


@pytest.mark.parametrize("command", [["ls"], ["lag"], ["lag", "--totals"]], ids=" ".join)
def test_a_list_of_an_empty_store_ends_with_status_1(command, tmp_path):
    open_store(tmp_path / "store").close()
    name, *options = command
    result = run(name, tmp_path / "store", *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "has no queues" in result.stderr or "no consumer group has saved an offset" in result.stderr


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0s"), (59, "59s"), (60, "1m 0s"), (3725, "1h 2m"), (86_400 * 3 + 3600 * 4, "3d 4h"),
])  # fmt: skip
def test_durations_have_two_units(seconds, text):
    assert format_duration(seconds) == text

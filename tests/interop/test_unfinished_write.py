"""A broker starts on a store that a write of pieces has left in the middle: none of its messages may be lost."""

import random

import pytest

import rocketstore
from interop.broker import QUEUES, Broker
from interop.test_broker import (
    SETTINGS,
    check_kept,
    consumed,
    open_writer,
    read,
    rows_to_send,
    send_and_kill,
    sent,
    write,
)
from rocketstore import recover
from rocketstore.jobs.intent import intent_path

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")

from support.unfinished import kill_at_append, make_pieces

pytestmark = pytest.mark.interop
JOB = "f00d"


@pytest.fixture
def begun(root, seed):
    """A store with messages, in which a write was killed: what messages were there before."""
    with open_writer(root) as store:
        messages = write(store, seed, "first", 500)
    rng = random.Random(f"{seed} rows")
    rows = [
        {
            "topic": topic,
            "queueId": rng.randrange(QUEUES[topic]),
            "body": b"job %d %s" % (i, b"x" * 600),
            "keys": [f"job-{i}"],
            "properties": [("UNIQ_KEY", f"{i:032X}")],
        }
        for i, topic in enumerate(rng.choices(("Orders", "Audit"), k=900))
    ]
    parts = [[rows[at : at + 100] for at in range(first, first + 300, 100)] for first in (0, 300, 600)]
    kill_at_append(root, JOB, make_pieces(root, JOB, parts, SETTINGS), 5, config=SETTINGS, torn=True)
    assert intent_path(root).exists()
    return messages


def of_job(messages):
    return [given.body for given in messages.values() if given.body.startswith("job ")]


def test_what_a_broker_appends_to_an_unfinished_write_stays(client, root, begun, tmp_path, seed, caplog):
    with Broker(client, root, QUEUES, tmp_path) as broker:
        there = consumed(client)
        assert len(of_job(there)) == 550
        rows = rows_to_send(seed, 300)
        there |= sent(rows, client.send(rows))
        broker.stop()
    with pytest.warns(UserWarning, match="may stay in the log"):
        opened = open_writer(root)
    with opened as store:
        assert read(store) == there
        assert "550 of its 900 messages may stay in the log" in caplog.text
        there |= write(store, seed, "second", 100)
    assert [path.name for path in root.glob("rocketstore-*")] == [f"rocketstore-intent-{JOB}.json"]
    with Broker(client, root, QUEUES, tmp_path):
        assert consumed(client) == there


def test_what_a_broker_acknowledged_before_it_was_killed_stays(client, root, begun, tmp_path, seed):
    with Broker(client, root, QUEUES, tmp_path) as broker:
        there = consumed(client)
        rows = rows_to_send(seed, 20_000)
        answers = client.send(rows[:200]) + send_and_kill(client, broker, rows[200:])
        acknowledged = there | sent(rows, answers)
    with pytest.warns(UserWarning, match="may stay in the log"):
        report = recover(root, config=SETTINGS)
    assert [action.what for action in report.actions if action.path == intent_path(root)] == ["leave"]
    with rocketstore.open(root, config=SETTINGS) as store:
        check_kept(read(store), acknowledged, "client ")


def test_an_unfinished_write_to_which_a_broker_appended_nothing_is_undone(client, root, begun, tmp_path, seed):
    with Broker(client, root, QUEUES, tmp_path) as broker:
        assert len(of_job(consumed(client))) == 550
        broker.stop()
    with open_writer(root) as store:
        assert read(store) == begun
        begun |= write(store, seed, "second", 100)
    assert list(root.glob("rocketstore-*")) == []
    with Broker(client, root, QUEUES, tmp_path):
        assert consumed(client) == begun

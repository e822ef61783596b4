"""What a user types first, before reading any page, works."""

import datetime
import warnings
from pathlib import Path

import numpy as np
import pytest
from support import cli

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.log import scan as scan_module

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store with 60 messages of two topics, and a topic without messages."""
    root = tmp_path_factory.mktemp("guesses") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        rows = [
            {"topic": "Orders" if n % 3 else "Users", "body": f'{{"n": {n}}}', "keys": f"k{n}", "tags": "ab"[n % 2]}
            for n in range(60)
        ]
        store.put_messages(rows, store_timestamp=[T0 + n for n in range(60)])
        store.create_topic("Empty")
    offsets = '{"offsetTable": {"Orders@G": {"0": 1}, "Users@G": {"0": 2}}}'
    (root / "config" / "consumerOffset.json").write_text(offsets)
    return root


@pytest.fixture
def store(root):
    with rocketstore.open(root) as store:
        yield store


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def keys_of(messages):
    return [key for (key,) in messages.keys.to_pylist()]


def test_head_and_tail_are_the_first_and_last_messages(store):
    assert keys_of(store.head()) == [f"k{n}" for n in range(5)]
    assert keys_of(store.tail(3)) == ["k57", "k58", "k59"]
    assert keys_of(store["Orders"].head(2)) == ["k1", "k2"]
    assert keys_of(store["Users"].tail(2, tag="a")) == ["k48", "k54"]
    assert keys_of(store.head(2, topic="Users")) == ["k0", "k3"]


@pytest.mark.parametrize("part", [100, 1000, 1 << 20])
@pytest.mark.parametrize("n", [0, 1, 7, 40, 100])
@pytest.mark.parametrize("options", [{}, {"tag": "a"}, {"limit": 30}, {"topic": "Users", "columns": ["keys"]}])
def test_the_tail_of_a_scan_is_the_end_of_all_its_messages(store, options, n, part, monkeypatch):
    monkeypatch.setattr(scan_module, "LAST_PART", part)
    everything = keys_of(store.scan(**options).head(1000))
    assert keys_of(store.scan(**options).tail(n)) == everything[max(len(everything) - n, 0) :]


def test_store_and_topic_become_tables(store):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    assert store.to_arrow().num_rows == len(store.to_pandas()) == store.to_polars().height == 60
    orders = store["Orders"]
    assert orders.to_arrow(tag="a").num_rows == 20
    assert list(orders.to_pandas(columns=["keys", "queueId"], names="python").columns) == ["keys", "queue_id"]
    assert store.to_polars(topic="Users", limit=2)["keys"].to_list() == [["k0"], ["k3"]]


def test_counts_without_a_grouping_are_numbers(store):
    assert (store.count(), store.count(topic="Users"), store.count(where="tags = 'a'")) == (60, 20, 30)
    assert (store["Orders"].count(), store["Orders"].count(key="k1")) == (40, 1)
    assert [row.messages for row in store.count("topic")] == [40, 20]


def test_topics_are_those_with_messages(store):
    assert list(store.topics) == list(store.topics()) == ["Orders", "Users"]
    assert sorted(store.topic_configs) == ["Empty", "Orders", "Users"]
    assert len(store.topics["Users"]) == 20
    assert "Empty" not in store.topics
    assert [line.split()[:3] for line in repr(store.topics).splitlines()[2:]] == [
        ["Orders", "4", "40"],
        ["Users", "4", "20"],
    ]


def test_info_and_lag_have_the_names_of_the_commands(store):
    assert store.info() == store.summary()
    assert [(row.topic, row.lag) for row in store.lag("G") if row.queue_id == 0] == [("Orders", 9), ("Users", 3)]
    assert {row.topic for row in store["Users"].lag()} == {"Users"}
    assert sum(row.messages for row in store["Users"].info()) == 20


def test_sql_of_a_topic_sees_only_its_messages(store):
    pytest.importorskip("duckdb")
    assert store["Users"].sql("SELECT count(*) FROM messages").to_arrow().column(0).to_pylist() == [20]


def test_an_unknown_topic_gives_a_warning_that_names_the_call(store):
    calls = [
        lambda: store.head(topic="Ordrs"),
        lambda: store.to_arrow(topic="Ordrs"),
        lambda: store.count(topic="Ordrs"),
        lambda: store.count("tag", topic="Ordrs"),
        lambda: store.lag(topic="Ordrs"),
        lambda: store.consumer_lag(topic="Ordrs"),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match="did you mean 'Orders'") as caught:
            call()
        assert [warning.filename for warning in caught] == [__file__]


def test_a_message_becomes_a_dict(store):
    message = store.head(1)[0]
    assert dict(message) == {**message} == message.to_dict()
    assert (message["queueId"], message["queue_id"], message["keys"]) == (0, 0, ["k0"])
    with pytest.raises(KeyError, match="nonsense"):
        message["nonsense"]
    assert dict(store.head(1, columns=["topic", "body"])[0]) == {"topic": "Users", "body": b'{"n": 0}'}
    assert message.keys == ["k0"]


def test_a_read_message_is_put_again_as_a_dict(store, tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as copy:
        copy.put_messages([dict(message) for message in store.scan().head(60)], store_timestamp="given")
    with rocketstore.open(tmp_path) as copy:
        assert copy.to_arrow().equals(store.to_arrow())


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"topic": "T"}, "row 1: a message needs topic and body"),
        ({"topic": "T", "body": b"", "tag": "x"}, "row 1: there is no column 'tag': did you mean 'tags'"),
        ({"topic": "T", "body": "\ud800"}, "row 1: body=.* has no UTF-8"),
        (5, "a Message was expected"),
    ],
    ids=str,
)
def test_a_dict_that_is_no_message_is_refused_with_its_row(row, text, tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        with pytest.raises((TypeError, ValueError), match=text):
            store.put_messages([{"topic": "T", "body": "x"}, row])
        assert store.count() == 0


@pytest.mark.parametrize("kind", [list, iter, tuple])
def test_each_message_gets_its_own_store_time(kind, tmp_path):
    times = [T0, datetime.datetime(2024, 1, 1), "2024-02-01"]
    messages = [Message("T", b"x", queue_id=0, store_timestamp=5) for _ in times]
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        put = store.put_messages(kind(messages), store_timestamp=times)
        assert put.store_timestamps.tolist() == [T0, 1_704_067_200_000, 1_706_745_600_000]
        again = store.put_messages(store.scan().head(3), store_timestamp=np.array([1, 2, 3]) + T0)
        assert again.store_timestamps.tolist() == [T0 + 1, T0 + 2, T0 + 3]
        assert again.store_hosts == put.store_hosts
        with pytest.raises(ValueError, match="2 times for 3 messages"):
            store.put_messages(kind(messages), store_timestamp=times[:2])
        assert store.count() == 6
    assert messages[0].store_timestamp == 5


def test_the_home_directory_is_written_as_a_tilde(root, home):
    (home / "store").symlink_to(root)
    assert rocketstore.open("~/store").path == rocketstore.open(Path("~/store")).path == home / "store"
    assert rocketstore.scan_polars("~/store", columns="topic").collect().height == 60
    assert rocketstore.verify("~/store").ok
    with rocketstore.open_many("~/st*") as brokers:
        assert [*brokers.stores] == ["store"]
    (home / "broker.conf").write_text("flushDiskType=SYNC_FLUSH\n")
    assert StoreConfig.from_broker_conf("~/broker.conf").flush_disk_type == "SYNC_FLUSH"
    assert cli.run("export", "~/store", "~/out.jsonl").exit_code == 0
    assert (home / "out.jsonl").exists()


def test_a_tilde_that_names_no_user_stays_in_the_path(home, monkeypatch):
    monkeypatch.chdir(home)
    with warnings.catch_warnings(), rocketstore.open("~no-such-user", "a", config=StoreConfig.small()) as store:
        assert store.path == home / "~no-such-user"
    with rocketstore.open("./~", "a", config=StoreConfig.small()) as store:
        assert store.path == Path.cwd() / "~"

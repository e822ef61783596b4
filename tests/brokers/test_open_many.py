"""``open_many``: the answers of a loop over single stores, each row with its broker."""

import io
import pickle
import random
import warnings
from functools import partial

import pytest
from support.several_stores import KEYS, START, draw_stores, messages_of

import rocketstore
from rocketstore import CorruptFileError, StoreError
from rocketstore.brokers.sql_tables import join_tables
from rocketstore.sql.statement import SqlTable


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    return draw_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def brokers(roots):
    with rocketstore.open_many(roots["a"].parent.parent / "*" / "store") as brokers:
        yield brokers


@pytest.fixture(scope="module")
def messages(roots):
    return messages_of(roots)


def pairs_of(found):
    """The broker and the place of each message of batches or of a result."""
    return [(message.broker, message.phy_offset, message.body) for batch in found for message in batch]


def places_of(messages):
    return [(broker, message.phy_offset, message.body) for broker, message in messages]


def draw_conditions(draw):
    """Drawn conditions of a scan, and whether a message meets them."""
    conditions = {}
    if draw.random() < 0.5:
        conditions["topic"] = draw.sample("TUV", draw.randrange(1, 3))
    if draw.random() < 0.3:
        conditions["key"] = draw.choice(KEYS)
    if draw.random() < 0.3:
        conditions["tag"] = draw.choice("xy")
    if draw.random() < 0.5:
        conditions["since"] = START + draw.randrange(700_000)
    if draw.random() < 0.5:
        conditions["until"] = START + draw.randrange(900_000)

    def meets(message):
        return (
            message.topic in conditions.get("topic", "TUV")
            and ("key" not in conditions or conditions["key"] in message.keys)
            and conditions.get("tag") in (None, message.tags)
            and conditions.get("since", 0) <= message.store_timestamp < conditions.get("until", 1 << 60)
        )

    return conditions, meets


# ---- messages ------------------------------------------------------------------------------------------------


def test_a_scan_has_the_messages_of_a_loop_over_the_stores(brokers, messages, seed):
    draw = random.Random(seed)
    for _ in range(20):
        conditions, meets = draw_conditions(draw)
        wanted = places_of((broker, message) for broker, message in messages if meets(message))
        scan = brokers.scan(**conditions)
        assert pairs_of(scan) == wanted
        assert scan.count() == len(wanted)
        limit = draw.randrange(len(messages))
        assert pairs_of(brokers.scan(limit=limit, **conditions)) == wanted[:limit]
        assert pairs_of([scan.head(limit)]) == wanted[:limit]
        assert scan.reasons == []


def test_a_scan_of_chosen_columns_also_has_the_broker(brokers):
    assert brokers.scan(columns=["topic", "body"]).head(1).names == ("broker", "topic", "body")
    assert brokers.scan(columns=["topic", "broker"]).head(1).names == ("topic", "broker")
    assert brokers.scan(columns="broker").head(1).names == ("broker",)
    assert brokers.scan(columns="queueId", key="none").head(1).names == ("broker", "queue_id")
    assert "body_text" in repr(brokers.scan(columns=["broker", "body_text"]).head(1))
    with pytest.raises(ValueError, match="'nothing' is none of"):
        brokers.scan(columns="nothing")
    with pytest.raises(ValueError, match="each store has offsets of its own"):
        brokers.scan(begin_offset=1)


def test_a_query_finds_the_messages_of_all_stores_newest_first(brokers, messages):
    for topic in "TUV":
        for key in [*KEYS, "none"]:
            own = [pair for pair in reversed(messages) if pair[1].topic == topic and key in pair[1].keys]
            own.sort(key=lambda pair: (-pair[1].store_timestamp, pair[0]))
            for limit in (None, 5, 1):
                found = brokers.query_message(topic, key, limit)
                assert pairs_of([found]) == places_of(own[:limit])
                has_more = limit is not None and limit < len(own)
                assert (found.complete, found.has_more) == (not has_more, has_more)
                assert found.reasons == ([f"a key has more than limit={limit} messages"] if has_more else [])


def test_a_query_of_many_keys_gives_each_key_its_messages(brokers, messages):
    keys = [*KEYS, "none", "a-3"]
    for limit in (None, 3):
        found = brokers.query_messages("T", keys, limit)
        singles = [brokers.query_message("T", key, limit) for key in keys]
        assert [pairs_of([batch]) for batch in found] == [pairs_of([single]) for single in singles]
        assert found.complete.tolist() == [single.complete for single in singles]
        assert found.has_more.tolist() == [single.has_more for single in singles]
        assert len(found.reasons) == (limit is not None)
        assert len(found.phy_offsets) == found.offsets[-1] == len(found.messages)
    assert brokers.query_message_by_unique_key("T", "none").reasons == []


def test_a_message_is_found_by_its_id_in_the_store_that_has_it(brokers, messages):
    for broker, message in messages[::17]:
        found = brokers.query_message_by_id(message.msg_id)
        assert found.broker in brokers.stores
        assert brokers.stores[broker].query_message_by_id(message.msg_id) == message
    assert brokers.query_message_by_id(messages[0][1].msg_id[:16] + "0" * 12 + "FFFF") is None
    with pytest.raises(ValueError, match="id"):
        brokers.query_message_by_id("no id")


def test_a_message_has_its_broker_in_its_dict_but_equals_the_same_message(brokers, messages):
    broker, message = messages[0]
    found = brokers.scan().head(1)[0]
    assert found == message
    assert found.to_dict() == {"broker": broker, **message.to_dict()}
    assert "broker" not in message.to_dict()


# ---- rows ----------------------------------------------------------------------------------------------------


def test_rows_are_those_of_each_store_with_its_broker(brokers):
    questions = [
        lambda store: store.consumer_lag(),
        lambda store: store.dead_letters(),
        lambda store: store.pending(),
        lambda store: store.count("topic,queue"),
        lambda store: store.du(),
        lambda store: store.du(by="queue"),
        lambda store: store.du(by="tag", exact=True),
        lambda store: store.unconsumed("billing"),
    ]
    for question in questions:
        found = question(brokers)
        single = {broker: question(store) for broker, store in brokers.stores.items()}
        rows = [(broker, *row) for broker, part in single.items() for row in part.cells()]
        assert [*map(tuple, found)] == rows
        table = found.to_arrow()
        assert table.column_names == ["broker", *single["a"].to_arrow().column_names]
        assert table.drop_columns(["broker"]).to_pylist() == [
            row for part in single.values() for row in part.to_arrow().to_pylist()
        ]
        assert found.reasons == []
    assert found[0].broker == "a"
    assert [row.due_time for row in found] == [None] * len(found)


def test_rows_can_be_pickled(brokers):
    found = brokers.consumer_lag()
    copy = pickle.loads(pickle.dumps(found))
    assert [*copy] == [*found]
    assert copy[0].broker == found[0].broker


def test_a_trace_has_the_events_of_all_stores_message_after_message(brokers):
    found = brokers.trace("k1")
    single = [(broker, *event) for broker, store in brokers.stores.items() for event in store.trace("k1")]
    assert sorted(map(repr, map(tuple, found))) == sorted(map(repr, single))
    order = [event.uniq_key for event in found]
    assert len([key for i, key in enumerate(order) if i == 0 or order[i - 1] != key]) == len({*order})
    begins = [event.timestamp for event in found if event.kind == "produced"]
    assert begins == sorted(begins)


def test_topics_are_those_of_all_brokers(brokers):
    found = brokers.topic_configs
    assert {topic: [*of_topic] for topic, of_topic in found.items()} == {
        "T": ["a", "b", "c"],
        "U": ["a", "b"],
        "V": ["a", "c"],
    }
    assert found["T"]["b"] == brokers.stores["b"].topic_configs["T"]


def test_metrics_have_the_broker_as_a_label_and_each_gauge_once(brokers):
    found = brokers.metrics()
    lines = found.text().splitlines()
    assert [line for line in lines if line.startswith("rocketstore_messages{")] == [
        f'rocketstore_messages{{broker="{broker}"}} 60' for broker in "abc"
    ]
    gauges = [line for line in lines if line.startswith("# TYPE")]
    assert len(gauges) == len({*gauges})
    assert any(line.startswith('rocketstore_consumer_lag_messages{broker="b",group="billing",') for line in lines)
    assert len(found) == sum(len(store.metrics()) for store in brokers)


# ---- tables --------------------------------------------------------------------------------------------------


def test_a_dataset_answers_drawn_filters_as_plain_python_does(brokers, messages, seed):
    pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow, from the extra 'arrow'")
    draw = random.Random(seed)
    for _ in range(20):
        conditions, meets = draw_conditions(draw)
        wanted = draw.sample("abcd", draw.randrange(1, 4))
        expression = pc.field("broker").isin(wanted)
        if draw.random() < 0.5:
            expression &= pc.field("topic") == "T"
            chosen = [pair for pair in messages if pair[0] in wanted and meets(pair[1]) and pair[1].topic == "T"]
        else:
            chosen = [pair for pair in messages if pair[0] in wanted and meets(pair[1])]
        dataset = brokers.dataset(**conditions)
        rows = dataset.to_table(columns=["broker", "phyOffset", "body"], filter=expression).to_pylist()
        assert [(*row.values(),) for row in rows] == places_of(chosen)
        assert dataset.count_rows(filter=expression) == len(chosen)
        assert dataset.filter(pc.field("broker") == "b").count_rows() == sum(
            broker == "b" and meets(message) for broker, message in messages
        )
    assert brokers.dataset(limit=70).to_table(columns=["broker"]).num_rows == 70
    assert brokers.dataset(limit=70).count_rows(filter=pc.field("broker") == "b") == 10
    assert brokers.dataset(columns=["body"]).schema.names == ["broker", "body"]
    assert pickle.loads(pickle.dumps(brokers.dataset())).count_rows() == len(messages)


def test_a_filter_on_the_broker_reads_only_its_store(brokers, monkeypatch):
    pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow, from the extra 'arrow'")
    for broker in "ac":
        monkeypatch.setattr(brokers.stores[broker], "scan_log", None)
    assert brokers.dataset().count_rows(filter=pc.field("broker") == "b") == 60
    with pytest.raises(TypeError):
        brokers.dataset().count_rows()


def test_sql_has_a_broker_in_each_table(brokers, messages):
    pytest.importorskip("duckdb", reason="needs duckdb, from the extra 'duckdb'")
    for table in ("messages", "queues", "topics", "groups", "lag", "index_files", "pending"):
        found = brokers.sql(f"SELECT * FROM {table}").to_arrow()
        single = {broker: store.sql(f"SELECT * FROM {table}").to_arrow() for broker, store in brokers.stores.items()}
        assert found.column_names == ["broker", *single["a"].column_names]
        rows = [{"broker": broker, **row} for broker, part in single.items() for row in part.to_pylist()]
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, rows))
    found = brokers.sql(
        "SELECT broker, count(*) AS n FROM messages WHERE broker <> 'b' AND topic = 'T' GROUP BY 1 ORDER BY 1"
    )
    count = {broker: sum(pair[0] == broker and pair[1].topic == "T" for pair in messages) for broker in "ac"}
    assert [(*row.values(),) for row in found.to_arrow().to_pylist()] == [*count.items()]


# ---- stores that cannot answer ---------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path):
    """Three stores, of which the second has no log."""
    roots = draw_stores(tmp_path)
    (roots["b"] / "commitlog").rename(tmp_path / "elsewhere")  # a log within the store would be found
    with rocketstore.open_many(tmp_path / "*" / "store") as brokers:
        yield brokers


def test_a_store_without_a_log_hides_no_other_and_is_named(damaged):
    named = str(damaged.stores["b"].path)
    found = damaged.query_message("T", "k1")
    assert {message.broker for message in found} == {"a", "c"}
    assert not found.complete
    assert named in found.reasons[0]
    many = damaged.query_messages("T", ["k1"])
    assert (many.complete.tolist(), named in many.reasons[0]) == ([False], True)
    counts = damaged.count("topic")
    assert {row.broker for row in counts} == {"a", "c"}
    assert named in counts.reasons[0]
    scan = damaged.scan()
    assert scan.count() == 120
    assert named in scan.reasons[0]
    assert {lag.broker for lag in damaged.consumer_lag()} == {"a", "b", "c"}
    assert damaged.query_message_by_id(damaged.scan().head(1)[0].msg_id).broker == "a"
    with pytest.raises(OSError, match="commitlog"):
        damaged.query_message_by_id("7F00000100002A9F0000000000FFFFFF")


def test_a_dataset_and_sql_leave_a_store_without_a_log_out_with_a_warning(damaged):
    pytest.importorskip("duckdb", reason="needs duckdb, from the extra 'duckdb'")
    with pytest.warns(UserWarning, match=r"b: .*commitlog: No such file or directory: the store is left out"):
        assert damaged.dataset().count_rows() == 120
    with pytest.warns(UserWarning, match="the store is left out"):
        found = damaged.sql("SELECT DISTINCT broker FROM messages ORDER BY 1").to_arrow()
    assert found.column(0).to_pylist() == ["a", "c"]


def test_damage_of_one_log_comes_after_the_messages_of_the_others(tmp_path):
    roots = draw_stores(tmp_path)
    [log] = (roots["a"] / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(200)
        file.write(bytes(range(100)))
    with rocketstore.open_many([roots["a"], roots["c"]]) as brokers:
        seen = []
        with pytest.raises(CorruptFileError, match=str(log)):
            seen += (batch.broker[0] for batch in brokers.scan())
        scan = brokers.scan(on_corrupt="skip")
        brokers_of = [broker for batch in scan for broker in batch.broker]
        assert brokers_of.count("c") == 60
        assert 0 < brokers_of.count("a") < 60
        assert str(log) in scan.reasons[0]
        assert scan.scans["a"].skipped
        with pytest.raises(CorruptFileError, match=str(log)):
            brokers.dataset().count_rows()
        with pytest.warns(UserWarning, match="left out"):
            assert brokers.dataset(on_corrupt="skip").count_rows() == len(brokers_of)


def test_each_store_is_asked_with_all_values_of_an_iterator(brokers):
    assert brokers.scan(topic=iter(["T"])).count() == brokers.scan(topic="T").count() > 0
    for ask in (
        lambda topic: brokers.count("topic", topic=topic),
        lambda topic: brokers.du(by="topic", topic=topic),
    ):
        assert [*ask(iter(["T", "U"]))] == [*ask(["T", "U"])]
        assert {row.broker for row in ask(["T", "U"])} == {*brokers.stores}


def test_sql_raises_the_first_error_if_no_store_can_answer(brokers):
    def fail(text):
        raise StoreError(text)

    tables = {name: {"lag": SqlTable(partial(fail, name))} for name in brokers.stores}
    with warnings.catch_warnings(action="error"), pytest.raises(StoreError, match=r"^a"):
        join_tables(tables, "lag")


def test_if_no_store_can_answer_the_first_error_is_raised(tmp_path):
    roots = draw_stores(tmp_path)
    for name, root in roots.items():
        (root / "commitlog").rename(tmp_path / f"elsewhere-{name}")
    with rocketstore.open_many(tmp_path / "*" / "store") as brokers:
        for question in (brokers.scan, lambda: brokers.query_message("T", "k1"), brokers.dataset):
            with pytest.raises(FileNotFoundError, match=str(roots["a"])):
                question()


def test_only_a_name_that_no_store_has_gives_a_warning(brokers):
    with warnings.catch_warnings(action="error"):
        assert brokers.query_message("U", "none").reasons == []
        brokers.scan(topic="U").count()
        brokers.consumer_lag("a-only")
        brokers.pending(topic="V")
    with pytest.warns(UserWarning, match="no store has it: .*'Torders'"):
        brokers.scan(topic=["T", "Torders"])
    with pytest.warns(UserWarning, match="no store has it: .*'billin'.*did you mean 'billing'"):
        brokers.consumer_lag("billin")


def test_wrong_arguments_raise_the_errors_of_one_store(brokers):
    with pytest.raises(TypeError, match="did you mean topic="):
        brokers.pending(topics="T")
    with pytest.raises(TypeError, match="did you mean until="):
        brokers.dataset(before=1)
    with pytest.raises(ValueError, match="kind"):
        brokers.pending(kind="none")
    with pytest.raises(ValueError, match="limit"):
        brokers.query_message("T", "k1", 0)


def test_found_messages_can_be_used_after_the_stores_are_closed(roots):
    with rocketstore.open_many([*roots.values()]) as brokers:
        few, many = brokers.query_message("T", "k1", 2), brokers.query_message("T", "k1")
    for found in (few, many):
        table = found.to_arrow()
        assert table.column("broker").to_pylist() == [message.broker for message in found]
        assert table.column("body").to_pylist() == [message.body for message in found]


def test_a_closed_store_is_closed_for_all(roots):
    brokers = rocketstore.open_many([*roots.values()])
    assert "3 stores" in repr(brokers)
    assert [cell in brokers._repr_html_() for cell in (">a<", ">b<", ">c<")] == [True, True, True]
    brokers.close()
    with pytest.raises(StoreError, match="is closed"):
        brokers.consumer_lag()
    assert not hasattr(brokers, "put_message")
    with pytest.raises((TypeError, io.UnsupportedOperation)):
        rocketstore.open_many(roots["a"], "a")

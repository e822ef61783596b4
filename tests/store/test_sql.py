"""``MessageStore.sql``: a SELECT of DuckDB over the tables of a store."""

import collections
import random

import pytest
from support import states

import rocketstore

pytest.importorskip("duckdb", reason="needs duckdb, from the extra 'duckdb'")
pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'duckdb'")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with rocketstore.open(states.unpack("pending", tmp_path_factory.mktemp("states"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def messages(store):
    return [message.to_dict() for batch in store.scan() for message in batch]


def answer(store, statement, **options):
    return store.sql(statement, **options).to_arrow().to_pylist()


def test_drawn_questions_have_the_answers_of_plain_python(store, messages):
    draw = random.Random(7)
    topics = sorted({row["topic"] for row in messages})
    for _ in range(40):
        topic, size = draw.choice(topics), draw.choice(messages)["size"]
        begin, end = sorted(draw.choice(messages)["storeTimestamp"] for _ in range(2))
        statement = f"""SELECT tags, count(*) AS n, sum(size)::BIGINT AS bytes FROM messages
            WHERE (topic = '{topic}' OR size > {size}) AND epoch_ms(storeTimestamp) BETWEEN {begin} AND {end}
            GROUP BY tags"""
        wanted = collections.defaultdict(lambda: [0, 0])
        for row in messages:
            if (row["topic"] == topic or row["size"] > size) and begin <= row["storeTimestamp"] <= end:
                wanted[row["tags"]][0] += 1
                wanted[row["tags"]][1] += row["size"]
        found = {row["tags"]: [row["n"], row["bytes"]] for row in answer(store, statement)}
        assert found == dict(wanted), statement


def test_the_units_of_all_queues_lead_to_the_messages(store):
    statement = "SELECT topic, queueId, queueOffset, phyOffset, size, tagsCode FROM queues ORDER BY ALL"
    found = [tuple(row.values()) for row in answer(store, statement)]
    wanted = [
        (topic, queue_id, unit.queue_offset, unit.phy_offset, unit.size, unit.tags_code)
        for topic, queue_id in store.queues()
        for queue in [store.consume_queue(topic, queue_id)]
        for unit in queue[max(queue.min_queue_offset, 0) : queue.max_queue_offset]
    ]
    assert found == sorted(wanted)
    assert answer(store, "SELECT count(*) AS n FROM messages JOIN queues USING (phyOffset)") == [{"n": len(wanted)}]


def test_topics_and_groups_are_sums_of_queues_and_lags(store):
    queues = collections.Counter(topic for topic, _ in store.queues())
    found = {row["topic"]: (row["queues"], row["messages"]) for row in answer(store, "FROM topics")}
    assert found == {topic: (count, len(store[topic])) for topic, count in queues.items()}
    lags = collections.Counter()
    for row in store.consumer_lag():
        lags[row.group] += row.lag
    assert {row["group"]: row["lag"] for row in answer(store, "FROM groups")} == dict(lags)


def test_other_tables_are_those_of_the_store(store):
    assert store.sql("FROM pending").to_arrow().num_rows == len(store.pending()) > 0
    assert store.sql("FROM lag").to_arrow().num_rows == len(store.consumer_lag())
    files = answer(store, "FROM index_files")
    assert [row["items"] for row in files] == [len(file) for file in store.index.files]


def test_a_body_that_is_no_text_or_no_json_is_null_as_such(tmp_path):
    bodies = [b'{"amount": 7}', b'{"amount": "x"}', b"no json", b"\xff\xfe", "中".encode()]
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()) as writer:
        for body in bodies:
            writer.put_message(rocketstore.Message("T", body))
    with rocketstore.open(tmp_path / "store") as store:
        rows = answer(store, "SELECT body, body_text, body_json->>'amount' AS amount FROM messages ORDER BY phyOffset")
        assert [row["body"] for row in rows] == bodies
        assert [row["body_text"] for row in rows] == [bodies[0].decode(), bodies[1].decode(), "no json", None, "中"]
        assert [row["amount"] for row in rows] == ["7", "x", None, None, None]
        [total] = answer(store, "SELECT sum(TRY_CAST(body_json->>'amount' AS INT))::INT AS n FROM messages")
        assert total == {"n": 7}


def test_tables_of_the_caller_are_joined(store):
    import pyarrow as pa

    prices = pa.table({"topic": [store.pending()[0].topic], "price": [3]})
    rows = answer(store, "SELECT DISTINCT price FROM Prices JOIN pending USING (topic)", tables={"prices": prices})
    assert rows == [{"price": 3}]
    report = rocketstore.verify(store.path)
    assert store.sql("FROM findings", tables={"findings": report}).to_arrow().num_rows == len(report.findings)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELEC 1", "syntax error"),
        ("", "one statement was expected, not 0"),
        ("SELECT 1; SELECT 2", "one statement was expected, not 2"),
        ("DROP TABLE messages", "only SELECT and EXPLAIN are allowed, not DROP"),
        ("COPY (SELECT 1) TO 'x.csv'", "only SELECT and EXPLAIN are allowed, not COPY"),
        ("SET enable_external_access = true", "only SELECT and EXPLAIN are allowed, not SET"),
        ("FROM nothing", "nothing does not exist. The tables are messages, queues, topics"),
        ("FROM message", "Table with name message does not exist: did you mean 'messages'\\? The tables are"),
        ("SELECT nothing FROM messages", "nothing"),
        ("FROM findings", "rocketstore.verify"),
    ],
)
def test_a_wrong_statement_is_an_error_with_a_reason(store, statement, words):
    with pytest.raises(ValueError, match=words):
        store.sql(statement)


def test_a_statement_reads_files_only_if_it_may(store, tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises((ValueError, rocketstore.StoreError), match="disabled"):
        store.sql(f"FROM '{path}'")
    assert answer(store, f"FROM '{path}'", files=True) == [{"a": 1, "b": 2}]


def test_a_damaged_record_is_an_error_that_names_its_place(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()) as writer:
        puts = [writer.put_message(rocketstore.Message("T", b"body")) for _ in range(3)]
    with next((tmp_path / "store" / "commitlog").iterdir()).open("r+b") as file:
        file.seek(puts[1].phy_offset)
        file.write(b"\xff" * 8)
    place = str(puts[1].phy_offset)
    with rocketstore.open(tmp_path / "store") as store, pytest.raises(rocketstore.StoreError, match=place):
        store.sql("FROM messages")
    with rocketstore.open(tmp_path / "store") as store, pytest.warns(UserWarning, match=place):
        assert len(store.sql("FROM messages", on_corrupt="skip")) == 2


def test_only_named_tables_are_computed(store, monkeypatch):
    monkeypatch.setattr(type(store), "pending", None)
    assert answer(store, "SELECT 'pending' AS a") == [{"a": "pending"}]


def test_a_closed_store_answers_no_statement(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()) as store:
        store.put_message(rocketstore.Message("T", b"body"))
    with pytest.raises(rocketstore.StoreClosedError):
        store.sql("SELECT 1")

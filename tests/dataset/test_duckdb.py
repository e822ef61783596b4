"""DuckDB's SQL on a store: columns and filters reach the scan, and the answers are those of the whole table."""

import subprocess
import sys

import pytest
from support.dataset_store import spied, write
from support.puts import open_store

import rocketstore
from rocketstore.kernels.message_columns import lazy_fields

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
duckdb = pytest.importorskip("duckdb", reason="needs duckdb")


@pytest.fixture(scope="module")
def store(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("duckdb") / "store"
    write(path, seed)
    with rocketstore.open(path) as store:
        yield store


QUERIES = [
    "SELECT queueId, count(*), max(queueOffset) FROM {} WHERE topic = 'Orders' GROUP BY queueId",
    "SELECT count(*) FROM {}",
    "SELECT phyOffset FROM {} WHERE tags = 'paid' OR tags IS NULL",
    "SELECT phyOffset FROM {} WHERE tags IN ('paid', '', 'a|b', ' x') AND topic <> 'Orders'",
    "SELECT phyOffset FROM {} WHERE tags NOT IN ('paid', 'sent')",
    "SELECT topic, size FROM {} WHERE queueId IN (0, 3) AND phyOffset BETWEEN 1000 AND 20000",
    "SELECT phyOffset FROM {} WHERE storeTimestamp >= TIMESTAMPTZ '2023-11-14 22:15:00Z' AND queueId < 2",
    "SELECT phyOffset FROM {} WHERE uniqKey = 'U00007'",
    "SELECT phyOffset FROM {} WHERE uniqKey IN ('U00007', 'U00008', 'U00009') AND topic IN ('Orders', 'TopicTest')",
    "SELECT phyOffset FROM {} WHERE list_contains(keys, 'kk') AND topic = 'Orders'",
    "SELECT phyOffset FROM {} WHERE topic LIKE 'Ord%' AND octet_length(body) > 20",
    "SELECT a.phyOffset FROM {} a JOIN {} b ON a.phyOffset = b.phyOffset + b.size WHERE b.queueId = 1",
    "SELECT tags FROM {} WHERE topic = '主题' ORDER BY queueOffset, phyOffset LIMIT 3",
    "SELECT phyOffset, body_text FROM {} WHERE body_text IS NOT NULL",
    "SELECT phyOffset, body_json FROM {} WHERE json_valid(body_text)",
]


@pytest.fixture
def connection(store):
    with duckdb.connect() as connection:
        yield connection.register("messages", store.dataset())


@pytest.mark.parametrize("query", QUERIES)
def test_an_answer_is_that_of_the_whole_table(store, connection, query):
    connection.register("whole", store.scan(columns=lazy_fields()).to_arrow())
    found = connection.sql(query.format("messages", "messages")).fetchall()
    expected = connection.sql(query.format("whole", "whole")).fetchall()
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_columns_and_filters_reach_the_scan(store, connection, monkeypatch):
    calls = spied(monkeypatch, store.commit_log)
    query = "SELECT sum(size), max(queueOffset) FROM messages WHERE topic = 'Orders' AND queueId = 2"
    assert len(connection.sql(query).fetchall()) == 1
    ((name, options),) = calls
    assert name == "scan"
    assert {*options["columns"]} <= {"size", "queue_offset", "topic", "queue_id"}
    assert (options["topic"], options["queue_ids"]) == (["Orders"], [2])


def test_a_query_with_topic_and_unique_key_uses_the_index(store, connection, monkeypatch):
    topic = store.scan(key=["U00007"]).to_arrow()["topic"][0].as_py()
    calls = spied(monkeypatch, store.commit_log)
    query = f"SELECT uniqKey, body FROM messages WHERE uniqKey = 'U00007' AND topic = '{topic}'"
    assert [row[0] for row in connection.sql(query).fetchall()] == ["U00007"]
    assert [name for name, options in calls if "body" in options["columns"]] == ["find_messages"]


def test_a_limit_ends_the_query_and_the_process_well(store):
    script = (
        f"import duckdb, rocketstore; messages = rocketstore.open({str(store.path)!r}).dataset()\n"
        "print(len(duckdb.sql('SELECT * FROM messages LIMIT 2').fetchall()))"
    )
    answer = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=120, check=False)
    assert (answer.returncode, answer.stdout) == (0, "2\n"), answer.stderr


def test_texts_of_bodies_are_made_only_for_a_query_that_names_them(store, connection, monkeypatch):
    monkeypatch.setattr("rocketstore.messages.message_batch.body_text_columns", make_no_text)
    assert connection.sql("SELECT count(*), max(octet_length(body)) FROM messages").fetchall()[0][0] == 400
    with pytest.raises(duckdb.Error, match="makes texts"):
        connection.sql("SELECT body_text FROM messages").fetchall()


def make_no_text(body, names, charset):
    if {*names} & {"body_text", "body_json"}:
        raise RuntimeError("makes texts")
    return {}


def test_a_dataset_decodes_bodies_by_a_charset(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(rocketstore.Message("T", '{"city": "北京"}'.encode("gbk")))
    query = "SELECT body_json->>'city' FROM cities"
    with rocketstore.open(tmp_path / "store") as store, duckdb.connect() as connection:
        for charset, expected in (("utf-8", None), ("GBK", "北京")):
            connection.register("cities", store.dataset(charset=charset))
            assert connection.sql(query).fetchall() == [(expected,)]
        with pytest.raises(ValueError, match="charset='gkb': there is no such charset: did you mean 'gbk'"):
            store.dataset(charset="gkb")
    polars = pytest.importorskip("polars", minversion="1.35", reason="needs polars 1.35")
    frame = rocketstore.scan_polars(tmp_path / "store", charset="gbk").select("body_text").collect()
    assert frame.equals(polars.DataFrame({"body_text": ['{"city": "北京"}']}))

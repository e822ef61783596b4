"""What a data engineer types first in Python, before reading a page, works, or the error has the line to type."""

import contextlib
import io
import sys

import pytest

import rocketstore
from rocketstore import Message, StoreConfig

# A row: the task, what is typed, and a part of what is shown. `s` is the store `big`.
WORKS = [
    ("open", "rocketstore.open('big')", "payments"),
    ("open", "rocketstore.open('~/big')", "payments"),
    ("what is in it", "s", "orders"),
    ("what is in it", "list(s.topics)", "['orders', 'payments']"),
    ("what is in it", "s.topics()", "payments"),
    ("what is in it", "s.info()", "400"),
    ("what is in it", "len(s['orders'])", "200"),
    ("filter", "s.scan(topic='orders', since='-30d').to_pandas().shape[0]", "200"),
    ("filter", "s.scan(tag='sent').count()", "200"),
    ("filter", "rocketstore.scan_polars('big', topic='orders').collect().height", "200"),
    ("filter", "s.dataset(topic='orders').count_rows()", "200"),
    ("filter", "s.scan(topic='ordrs').count()", "did you mean 'orders'"),
    ("first and last rows", "s['orders'].head(3)", "order-"),
    ("first and last rows", "s.tail(3)", "order-"),
    ("first and last rows", "s.head()", "order-"),
    ("first and last rows", "s['orders'].to_pandas().shape[0]", "200"),
    ("first and last rows", "s.to_pandas().shape[0]", "400"),
    ("first and last rows", "s['orders'].to_polars().height", "200"),
    ("first and last rows", "dict(s.head(1)[0])['topic']", "orders"),
    ("count by hour and tag", "s.count('hour,tag')", "paid"),
    ("count by tag", "duckdb.sql('SELECT tags, count(*) FROM messages GROUP BY 1').fetchall()", "('paid', 200)"),
    ("json bodies", "s.sql(\"SELECT sum(CAST(body_json->>'amount' AS INT)) AS total FROM messages\")", "79800"),
    ("json bodies", "s.to_pandas()['body'].map(json.loads).map(lambda row: row['amount']).sum()", "79800"),
    (
        "json bodies",
        "rocketstore.scan_polars('big', body_schema={'amount': pl.Int64})"
        ".select(pl.col('body_json').struct.field('amount').sum()).collect().item()",
        "79800",
    ),
    (
        "parquet by topic",
        "pyarrow.dataset.write_dataset(s.dataset(), 'out', format='parquet', partitioning=['topic'])",
        "None",
    ),
    ("join two topics", "s.sql('SELECT count(*) AS n FROM messages a JOIN messages b USING (phyOffset)')", "400"),
    ("a sample", "s.sample('10%')", "order-"),
    ("a sample", "s['orders'].sample(0.1)", "order-"),
    ("duplicates by key", "s.query_message('orders', 'order-0')", "100 messages"),
    ("duplicates by key", "len(list(s.query_message('order-0')))", "100"),
    ("only what is new", "s.export_new('lake', 'lake.state')", "400"),
    ("read like a consumer", "s.get_message('orders', 0, 0)", "next"),
    ("progress", "s.scan(progress=True).count()", "400"),
    ("pandas types", "str(s.to_pandas().dtypes['storeTimestamp'])", "datetime64[ms, UTC]"),
    ("time zones", "s.scan(since='2020-01-01 10:00', tz='Asia/Shanghai').count()", "400"),
    ("why it is not found", "s.query_message('orders', 'order-7').why", "the key 'order-7' is in topic 'payments'"),
    ("why it is not found", "s.query_message('order-8000').why", "the index has no entry with the hash"),
    ("lag", "s.lag('billing')", "billing"),
    ("lag", "s['orders'].lag()", "billing"),
    ("a damaged body", "rocketstore.verify('damaged')", "log-body-crc"),
    ("inner batches", "(len(batches['Bcq']), len(list(batches['Bcq'])), batches.scan().count())", "(87, 87, 87)"),
    ("inner batches", "batches.scan(key='b-1-1').count()", "1"),
    ("by id", "s.query_message_by_id('00000000000000000000000000000007').keys", "['order-7']"),
    ("topics by disk", "s.du()", "log"),
    ("topics by disk", "s.topics", "38918"),
    ("what is deleted next", "s.expiry()", "file"),
    ("what waits", "rocketstore.open('default').pending()", "Orders"),
    ("dead letters", "rocketstore.open('default').dead_letters()", "0"),
    ("compare", "rocketstore.diff('big', 'copied')", "0 differences"),
    ("a copy", "rocketstore.copy('big', 'saved')", "400 messages of queues compared"),
]  # fmt: skip

SAYS_WHAT_TO_TYPE = [
    ("open", "rocketstore.open('big/commitlog')", "did you mean"),
    ("filter", "s.scan(topics='orders')", "did you mean topic="),
    ("filter", "s.scan(since=1_700_000_000)", "seconds"),
    ("first and last rows", "s['orders'][0][5]", "store.get_message('orders', 0, OFFSET)"),
    ("a damaged body", "damaged.query_message('Plain', 'b-7')", "verify_crc=False reads"),
    ("bad arguments", "s.query_message()", "give a key, or a topic and a key"),
    ("bad arguments", "rocketstore.open('bgi')", "No such file or directory"),
]  # fmt: skip


@pytest.fixture
def names(directory):
    """What the tries may use."""
    modules = {name: pytest.importorskip(name) for name in ("duckdb", "json", "pandas", "polars", "pyarrow.dataset")}
    with rocketstore.open("big") as s, rocketstore.open("damaged") as damaged, rocketstore.open("batchcq") as batches:
        yield {
            "rocketstore": rocketstore,
            "s": s,
            "damaged": damaged,
            "batches": batches,
            "messages": s.dataset(),
            "pl": modules["polars"],
            "pyarrow": sys.modules["pyarrow"],
            **modules,
        }


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("task", "typed", "shown"), WORKS, ids=lambda value: str(value)[:60])
def test_a_first_line_of_python_works(names, task, typed, shown, recwarn):
    with contextlib.redirect_stderr(io.StringIO()):  # of a progress bar
        answer = repr(eval(typed, names))
    assert shown in "\n".join([answer, *(str(warning.message) for warning in recwarn)])


@pytest.mark.parametrize(("task", "typed", "shown"), SAYS_WHAT_TO_TYPE, ids=lambda value: str(value)[:60])
def test_a_wrong_first_line_of_python_says_what_to_type(names, task, typed, shown):
    with pytest.raises((TypeError, ValueError, OSError, rocketstore.StoreError)) as raised:
        eval(typed, names)
    assert shown in str(raised.value)


def test_a_test_store_is_written_from_dicts_and_times(tmp_path):
    rows = [{"topic": "orders", "body": b"1", "tags": "paid"}, {"topic": "orders", "body": "2", "keys": "order-2"}]
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        result = store.put_messages(rows, store_timestamp=[1_700_000_000_000, 1_700_000_001_000])
        store.put_message(Message("orders", b"3"))
    assert len(repr(result)) < 2000
    with rocketstore.open(tmp_path) as store:
        assert [message.body for message in store["orders"]] == [b"1", b"2", b"3"]

"""``--where`` of cat, export and count: the messages that meet a condition, also those in inner batches."""

import json

import pytest
from support.cli import assert_one_line, rows, run
from support.puts import open_store

import rocketstore
from rocketstore import Message

pytest.importorskip("duckdb", reason="needs DuckDB, from the extra 'duckdb'")


KEYS = ["k101", "k103", "k5", "k7", "k9"]  # of the odd orders above 3


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Ten orders, and an inner batch of five orders in the middle of them."""
    root = tmp_path_factory.mktemp("where") / "store"
    with open_store(root) as store:
        store.create_topic("Batches", 1, queue_type="BatchCQ")
        for n in range(10):
            store.put_message(order(n, "Orders"))
            if n == 4:
                store.put_message(Message.batch("Batches", [order(i, "Batches") for i in range(100, 105)], queue_id=0))
    return root


def order(n, topic):
    body = json.dumps({"n": n, "customer": {"name": f"c{n % 2}"}}).encode()
    return Message(topic, body, keys=[f"k{n}"], tags="even" if n % 2 == 0 else "odd", queue_id=0)


def numbers(result, **options):
    return [json.loads(row["body"])["n"] for row in rows(result, **options)]


def test_cat_shows_the_messages_that_meet_a_condition(root):
    assert numbers(run("cat", root, "--where", "n >= 3 AND n <> 103 AND tags = 'odd'")) == [3, 101, 5, 7, 9]
    assert numbers(run("cat", root, "--where", "customer.name = 'c0'", "--topic", "Batches")) == [100, 102, 104]


def test_columns_of_the_condition_are_read_and_not_shown(root):
    found = rows(run("cat", root, "--where", "n > 8 AND queueId = 0 AND tags = 'odd'", "--columns", "keys"))
    assert found == [{"keys": ["k101"]}, {"keys": ["k103"]}, {"keys": ["k9"]}]


def test_limit_and_tail_count_the_messages_that_meet_it(root):
    assert numbers(run("cat", root, "--where", "n >= 3", "--limit", 3)) == [3, 4, 100]
    assert numbers(run("cat", root, "--where", "tags = 'even'", "--tail", 3)) == [104, 6, 8]
    assert numbers(run("cat", root, "--where", "n > 100", "--tail", 3)) == [102, 103, 104]


def test_containers_are_one_message_for_a_condition(root):
    assert rows(run("cat", root, "--containers", "--where", "n > 100", "--columns", "keys"), exit_code=1) == []
    found = rows(run("cat", root, "--containers", "--where", "property.INNER_NUM = 5", "--columns", "topic"))
    assert found == [{"topic": "Batches"}]


def test_count_counts_the_messages_that_meet_it(root):
    found = rows(run("count", root, "--by", "topic", "--where", "n > 3 AND tags = 'odd'"))
    assert [(row["topic"], row["messages"]) for row in found] == [("Orders", 3), ("Batches", 2)]
    assert rows(run("count", root, "--by", "topic", "--where", "n > 200"), exit_code=1) == []
    with rocketstore.open(root) as store:
        assert store.count("topic", where="n > 3 AND tags = 'odd'").messages == 5


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_export_writes_the_messages_that_meet_it(root, tmp_path, form):
    path = tmp_path / f"orders.{form}"
    options = ["--where", "n > 3 AND tags = 'odd'", "--columns", "topic,keys"]
    assert run("export", root, path, *options).exit_code == 0
    if form == "parquet":
        table = pytest.importorskip("pyarrow.parquet").read_table(path)
        assert table.column_names == ["topic", "keys"]
        assert table["keys"].to_pylist() == [[key] for key in KEYS]
    else:
        lines = path.read_text().splitlines()[form == "csv" :]
        assert [key for line in lines for key in KEYS if f'"{key}"' in line] == KEYS


def test_resume_needs_the_same_condition(root, tmp_path):
    path = tmp_path / "orders.json"
    (tmp_path / "orders.json.partial").mkdir()
    state = {"asked": {}, "replaces": False, "begin": 0, "end": 0, "queues": [], "parts": []}
    (tmp_path / "orders.json.partial" / "export.json").write_text(json.dumps(state))
    assert_one_line(run("export", root, path, "--resume", "--where", "n > 3"), "other options")


def test_a_wrong_condition_is_one_line_of_wrong_usage(root):
    for command in (["cat", root], ["count", root, "--by", "topic"], ["export", root, "-", "--format", "json"]):
        result = run(*command, "--where", "n > 3 AND (tags = ")
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1].startswith("Error: Invalid value for --where: 'n > 3 AND (tags = '")


def test_a_field_that_no_message_has_is_named(root):
    result = run("cat", root, "--where", "quantity > 3")
    assert result.exit_code == 1
    assert "no message has a property or a JSON field 'quantity'" in result.stderr


def test_unconsumed_messages_take_no_condition_of_a_scan(root):
    for command in (["cat", root], ["count", root], ["export", root, "-", "--format", "json"]):
        result = run(*command, "--unconsumed", "--group", "g", "--topic", "T")
        assert result.exit_code == 2
        assert "without other conditions than --where, --grep and --regex" in result.stderr

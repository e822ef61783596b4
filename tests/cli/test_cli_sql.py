"""``rocketstore sql``: the answers of Python, as tables, JSON, CSV and Parquet."""

import re
import subprocess

import pytest
from support import states
from support.cli import on_terminal, rows, run, start

import rocketstore

pytest.importorskip("duckdb", reason="needs duckdb, from the extra 'duckdb'")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow, from the extra 'duckdb'")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("pending", tmp_path_factory.mktemp("states"))


def test_the_rows_are_those_of_python_with_times_in_milliseconds(root):
    found = rows(run("sql", root, "SELECT topic, storeTimestamp, keys, body FROM messages LIMIT 3"))
    with rocketstore.open(root) as store:
        messages = [message.to_dict() for message in next(iter(store.scan()))[:3]]
    assert found == [
        {
            "topic": message["topic"],
            "storeTimestamp": message["storeTimestamp"],
            "keys": [*message["keys"]],
            "body": message["body"].decode(),
        }
        for message in messages
    ]


def test_csv_has_a_header_also_without_rows(root):
    assert run("sql", root, "SELECT topic, size FROM messages WHERE false", "--format", "csv").stdout == "topic,size\n"
    text = run("sql", root, "SELECT 1 AS a, 'x' AS b", "--format", "csv").stdout
    assert text == "a,b\n1,x\n"


def test_a_terminal_has_a_table_with_times_as_text(root):
    status, text = on_terminal("sql", root, "SELECT topic, min(storeTimestamp) AS first FROM messages GROUP BY topic")
    assert status == 0
    assert text.split()[:2] == ["topic", "first"]
    assert "T" in text.split()[3]
    assert text.split()[3].endswith("Z")


def test_explain_shows_the_plan_as_text(root):
    text = run("sql", root, "EXPLAIN SELECT count(*) FROM messages WHERE topic = 'T'").stdout
    assert "topic" in text
    assert "explain_value" not in text


def test_values_that_json_has_not_are_texts(root):
    statement = (
        "SELECT '\\xFF'::BLOB AS a, 'x'::BLOB AS b, DATE '2026-01-02' AS c, 1.5::DECIMAL(3,1) AS d, MAP{'k': 1} AS e"
    )
    [row] = rows(run("sql", root, statement))
    assert row == {"a": "base64:/w==", "b": "x", "c": "2026-01-02", "d": 1.5, "e": {"k": 1}}


def test_two_columns_of_one_name_are_both_shown(root):
    [row] = rows(run("sql", root, "SELECT a.topic, b.topic FROM messages a, messages b LIMIT 1"))
    assert len(row) == 2


def test_findings_are_those_of_verify(root):
    found = rows(run("sql", root, "SELECT kind, path FROM findings"))
    assert found == [{"kind": row.kind, "path": str(row.path)} for row in rocketstore.verify(root).findings]


def test_rows_are_written_to_a_new_parquet_file_only(root, tmp_path):
    target = tmp_path / "x.parquet"
    assert run("sql", root, "SELECT topic FROM messages", "-o", target).exit_code == 0
    with rocketstore.open(root) as store:
        assert parquet.read_table(target).num_rows == sum(map(len, store.scan()))
    before = target.read_bytes()
    assert run("sql", root, "SELECT 1", "-o", target).exit_code == 1
    assert target.read_bytes() == before
    assert run("sql", root, "SELECT nothing", "-o", tmp_path / "y.parquet").exit_code == 1
    assert not (tmp_path / "y.parquet").exists()


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_a_statement_is_read_from_standard_input(root, arguments):
    process = start("sql", root, *arguments, stdin=subprocess.PIPE)
    assert process.communicate("SELECT 42 AS a") == ('{"a": 42}\n', "")


def test_a_terminal_without_a_statement_has_a_prompt_with_a_history(root, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lines = ["FROM nothing", "SELECT 6 * 7 AS answer", "exit"]
    status, text = on_terminal("sql", root, typed="".join(f"{line}\r" for line in lines))
    assert status == 0
    assert "The tables are messages" in text
    assert "Error: Catalog Error" in text
    assert re.search(r"answer\s+42\s", text)
    history = (tmp_path / "rocketstore" / "sql_history").read_text(encoding="utf-8")
    assert all(line in history for line in lines)


@pytest.mark.parametrize("statement", ["SELEC 1", "DROP TABLE x", "FROM nothing", "FROM 'x.csv'"])
def test_a_wrong_statement_is_one_line(root, statement):
    result = run("sql", root, statement)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_damaged_records_are_left_out_on_request_and_named(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()) as writer:
        puts = [writer.put_message(rocketstore.Message("T", b"body")) for _ in range(3)]
    with next((tmp_path / "store" / "commitlog").iterdir()).open("r+b") as file:
        file.seek(puts[1].phy_offset)
        file.write(b"\xff" * 8)
    statement = "SELECT count(*) AS n FROM messages"
    refused = run("sql", tmp_path / "store", statement)
    answered = run("sql", tmp_path / "store", statement, "--skip-damaged")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert (answered.exit_code, answered.stdout) == (1, '{"n": 2}\n')
    for result in (refused, answered):
        assert str(puts[1].phy_offset) in result.stderr
        assert "Traceback" not in result.stderr

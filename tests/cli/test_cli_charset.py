"""Bodies as text on the command line: --charset, and the columns body_text and body_json."""

import csv
import io
import json

import pytest
from support.cli import rows, run
from support.puts import open_store
from support.text_reference import body_texts

import rocketstore
from rocketstore import Message

BODIES = ['{"city": "北京"}'.encode("gbk"), b"\xff", b"plain"]
INNER = '["内"]'.encode("gbk")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Bodies in GBK, one that is no text, and the same in an inner batch."""
    root = tmp_path_factory.mktemp("charset") / "store"
    with open_store(root) as opened:
        opened.create_topic("Batches", 1, queue_type="BatchCQ")
        for body in BODIES:
            opened.put_message(Message("Plain", body, queue_id=0, keys=["k"]))
        opened.put_message(Message.batch("Batches", [Message("Batches", INNER)], queue_id=0, keys=["k"]))
    return root


def expected(body, charset):
    """Return the columns of the body of a row."""
    text, as_json = body_texts(body, charset)
    return {"body": text, "body_text": text, "body_json": as_json}


COMMANDS = {
    "cat": (["cat"], [*BODIES, INNER]),
    "query": (["query", "--key", "k"], [INNER, *BODIES[::-1]]),
    "get": (["get", "Plain", "0", "0", "--limit", "9"], BODIES),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("charset", ["utf-8", "gbk"])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_commands_decode_bodies_by_a_charset(store, name, charset, form):
    (command, *words), bodies = COMMANDS[name]
    options = ["--columns", "body,body_text,body_json", "--charset", charset, "--format", form]
    found = read_rows(run(command, store, *words, *options).stdout, form)
    shown = [{name: row[name] or None for name in ("body", "body_text", "body_json")} for row in found]
    assert shown == [expected(body, charset) for body in bodies]
    assert [bool(row["bodyBase64"]) for row in found] == [row["body_text"] is None for row in shown]


def test_the_other_columns_of_json_stay_without_a_charset(store):
    assert "body_text" not in rows(run("cat", store))[0]
    assert rows(run("cat", store, "--charset", "gbk"))[0]["body"] == '{"city": "北京"}'


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow", "directory"])
def test_exports_have_the_texts_of_bodies(store, tmp_path, form):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    target = tmp_path / ("out" if form == "directory" else f"out.{form}")
    options = ["--partition-by", "topic"] if form == "directory" else []
    columns = ["--columns", "phyOffset,body_text,body_json", "--charset", "gbk"]
    result = run("export", store, target, *columns, *options)
    assert result.exit_code == 0, result.output
    found = sorted(exported(target), key=lambda row: int(row["phyOffset"]))
    for row, body in zip(found, [*BODIES, INNER], strict=True):
        wanted = expected(body, "gbk")
        assert (row["body_text"] or None, row["body_json"] or None) == (wanted["body_text"], wanted["body_json"])


def read_rows(text, form):
    lines = io.StringIO(text)
    return [*csv.DictReader(lines)] if form == "csv" else [json.loads(line) for line in lines]


def exported(target):
    if target.suffix in (".json", ".csv"):
        return read_rows(target.read_text(), target.suffix[1:])
    import pyarrow.dataset as ds

    return ds.dataset(target, format="arrow" if target.suffix == ".arrow" else "parquet").to_table().to_pylist()


def test_an_unknown_charset_is_refused_in_one_sentence(store, tmp_path):
    for words in (["cat", store], ["get", store, "Plain", 0, 0], ["query", store, "--key", "k"]):
        result = run(*words, "--charset", "gkb")
        assert (result.exit_code, "no such charset: did you mean 'gbk'?" in result.stderr) == (2, True)
    result = run("export", store, tmp_path / "out.json", "--charset", "base64")
    assert (result.exit_code, "there is no such charset: give" in result.stderr) == (2, True)
    assert not (tmp_path / "out.json").exists()


def test_an_export_with_texts_can_be_imported(store, tmp_path):
    assert run("export", store, tmp_path / "out.json", "--columns", "topic,body,body_text").exit_code == 0
    assert run("import", tmp_path / "out.json", tmp_path / "new").exit_code == 0
    with rocketstore.open(tmp_path / "new") as new:
        assert sorted(message.body for message in new.scan().head(9)) == sorted([*BODIES, INNER])

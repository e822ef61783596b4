"""``rocketstore export`` with --redact, --hash and --limit: what a vendor gets, in each format, also after --resume."""

import hashlib
import json

import pytest
from support.cli import run
from support.puts import open_store

import rocketstore
from rocketstore import Message, MessageBatch
from rocketstore.cli.transfer import export as export_module

SECRET = "+49170"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Twenty messages with a secret in property, key and body; every fifth is an inner batch of two."""
    root = tmp_path_factory.mktemp("redact") / "store"
    with open_store(root) as store:
        store.create_topic("Batches", 1, queue_type="BatchCQ")
        for n in range(20):
            if n % 5 == 0:
                parts = [order(f"{n}.{part}", "Batches") for part in range(2)]
                store.put_message(Message.batch("Batches", parts, queue_id=0, compress="zlib"))
            else:
                store.put_message(order(n, "Orders"))
    return root


def order(n, topic):
    body = json.dumps({"n": str(n), "phone": SECRET, "customer": [{"phone": SECRET}]}).encode()
    return Message(topic, body, keys=[SECRET], tags="paid", properties={"phone": SECRET})


def read(path):
    """The rows of an export, as Python objects."""
    if path.suffix == ".json":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        import csv

        with path.open(newline="") as file:
            return [row | {"properties": json.loads(row["properties"])} for row in csv.DictReader(file)]
    if path.suffix == ".parquet":
        table = pytest.importorskip("pyarrow.parquet").read_table(path)
    else:
        with pytest.importorskip("pyarrow").ipc.open_file(path) as reader:
            table = reader.read_all()
    return [row | {"properties": dict(row["properties"])} for row in table.to_pylist()]


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_a_removed_field_is_nowhere_in_the_file(root, tmp_path, form):
    path = tmp_path / f"out.{form}"
    result = run("export", root, path, "--redact", "phone", "--redact", "keys", "--compression", "none")
    assert result.exit_code == 0, result.stderr
    assert SECRET.encode() not in path.read_bytes()
    found = read(path)
    assert len(found) == 24
    assert {row["properties"]["phone"] for row in found} == {"***"}
    assert [json.loads(row["body"])["n"] for row in found][:4] == ["0.0", "0.1", "1", "2"]
    assert not any(row["keys"] for row in found)


def test_texts_of_bodies_are_those_of_the_changed_bodies(root, tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    path = tmp_path / "out.parquet"
    columns = ["--columns", "body_text,body_json,properties", "--compression", "none"]
    assert run("export", root, path, "--redact", "phone", "--redact", "keys", *columns).exit_code == 0
    assert SECRET.encode() not in path.read_bytes()
    assert json.loads(read(path)[0]["body_text"]) == {"n": "0.0", "phone": None, "customer": [{"phone": None}]}


def test_hashes_need_no_key_but_a_note_says_so(root, tmp_path):
    result = run("export", root, tmp_path / "out.json", "--hash", "phone", "--hash", "keys")
    assert "whoever knows the possible values" in result.stderr
    row = read(tmp_path / "out.json")[0]
    expected = hashlib.sha256(SECRET.encode()).hexdigest()
    assert (row["keys"], row["properties"]["KEYS"], row["properties"]["phone"]) == ([expected], expected, expected)
    assert json.loads(row["body"])["phone"] == expected


def test_a_key_changes_all_hashes(root, tmp_path, monkeypatch):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert run("export", root, first, "--hash", "keys", "--hash-key", "k").stderr.count("whoever") == 0
    monkeypatch.setenv("ROCKETSTORE_HASH_KEY", "k")
    run("export", root, second, "--hash", "keys")
    assert read(first) == read(second)
    assert read(first)[0]["keys"] != [hashlib.sha256(SECRET.encode()).hexdigest()]


def test_a_field_that_no_message_has_is_an_error(root, tmp_path):
    result = run("export", root, tmp_path / "out.json", "--redact", "fone", "--redact", "phone")
    assert result.exit_code == 1
    assert "no exported message has a property or JSON field 'fone'" in result.stderr


def test_copies_of_a_removed_value_are_reported(root, tmp_path):
    result = run("export", root, tmp_path / "out.json", "--redact", "phone")
    assert "24 messages have a redacted value in keys, too" in result.stderr


def test_a_body_that_may_have_the_field_is_removed_and_counted(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_messages([Message("T", b'{"phone": 1}'), Message("T", b"phone=1"), Message("T", b"\xff")])
    result = run("export", tmp_path / "store", tmp_path / "out.json", "--redact", "phone")
    assert result.exit_code == 0
    assert "2 bodies that may have a redacted field" in result.stderr
    found = read(tmp_path / "out.json")
    assert [(row["body"], row["bodyBase64"], bool(row["bodyError"])) for row in found] == [
        ('{"phone": null}', None, False), (None, None, True), (None, None, True)]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--redact", "phone", "--raw-body"], "without --containers"),
        (["--hash", "phone", "--containers"], "without --containers"),
        (["--hash", "queueId"], "use --redact"),
        (["--redact", ""], "a name of a column"),
        (["--redact", "a", "--hash", "a"], "given twice"),
        (["--hash", "a", "--hash-key", ""], "the key is empty"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_wrong_options_are_wrong_usage(root, tmp_path, options, words):
    result = run("export", root, tmp_path / "out.json", *options)
    assert result.exit_code == 2
    assert words in result.stderr.splitlines()[-1]


def test_directories_are_not_named_after_a_removed_column(root, tmp_path):
    for name, field in (("topic", "topic"), ("day", "storeTimestamp")):
        result = run("export", root, tmp_path / "out", "--partition-by", name, "--redact", field)
        assert result.exit_code == 2


# ---- --limit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
@pytest.mark.parametrize("limit", [1, 2, 7, 24, 100])
def test_a_limit_is_the_number_of_messages(root, tmp_path, form, limit):
    path = tmp_path / f"out.{form}"
    result = run("export", root, path, "--limit", limit)
    assert result.exit_code == 0
    numbers = [json.loads(row["body"])["n"] for row in read(path)]
    assert len(numbers) == min(limit, 24)
    assert numbers[:7] == ["0.0", "0.1", "1", "2", "3", "4", "5.0"][:limit]


def test_a_limit_counts_messages_that_meet_the_conditions(root, tmp_path):
    result = run("export", root, "-", "--format", "json", "--grep", '"n": "1', "--limit", 3)
    assert [json.loads(json.loads(line)["body"])["n"] for line in result.stdout.splitlines()] == ["1", "10.0", "10.1"]


def test_a_limit_holds_over_the_files_of_a_log_and_after_resume(tmp_path, monkeypatch):
    with open_store(tmp_path / "store", mapped_file_size_commit_log=4096) as store:
        for n in range(60):
            store.put_message(order(n, "Orders"))
    whole, path = tmp_path / "whole.json", tmp_path / "out.json"
    assert run("export", tmp_path / "store", whole, "--redact", "phone", "--redact", "keys").exit_code == 0
    saved = export_module.save_state
    calls = []

    def stop_at_third(work, state):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        saved(work, state)

    options = ["--redact", "phone", "--redact", "keys", "--limit", 40]
    monkeypatch.setattr(export_module, "PART_BYTES", 1)  # each file of the log is a part
    monkeypatch.setattr(export_module, "save_state", stop_at_third)
    run("export", tmp_path / "store", path, *options)
    monkeypatch.setattr(export_module, "save_state", saved)
    assert not path.exists()
    assert "other options" in run("export", tmp_path / "store", path, *options[:-1], 41, "--resume").stderr
    assert run("export", tmp_path / "store", path, *options, "--resume").exit_code == 0
    assert path.read_text().splitlines() == whole.read_text().splitlines()[:40]


def test_an_import_takes_what_was_redacted(root, tmp_path):
    path = tmp_path / "out.json"
    assert run("export", root, path, "--redact", "phone", "--redact", "property.color").exit_code == 1
    assert run("import", path, tmp_path / "new", "--small").exit_code == 0
    with rocketstore.open(tmp_path / "new") as store:
        batch = store.scan(columns=["body"]).head(3)
        assert isinstance(batch, MessageBatch)
        assert json.loads(batch.body[0])["phone"] is None

"""Dead letters are exported, and imported into the topic from which they came: each once, as a new message."""

import json

import pytest
from support import states
from support.cli import run

import rocketstore
from rocketstore import Message, StoreConfig

JOURNAL = "config/rocketstore-redrive.jsonl"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("dlq", tmp_path_factory.mktemp("states"))


def export(root, target):
    result = run("export", root, target, "--dlq", "billing")
    assert result.exit_code == 0, result.stderr
    return target


def redrive(source, target, *maps):
    options = [part for text in maps or ("%DLQ%billing=Orders",) for part in ("--topic-map", text)]
    return run("import", source, target, "--small", *options)


def messages(target):
    with rocketstore.open(target) as store:
        return [message for batch in store.scan() for message in batch]


@pytest.mark.parametrize("name", ["dead.jsonl", "dead.parquet"])
def test_dead_letters_become_new_messages_of_a_topic(name, root, tmp_path):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    source = export(root, tmp_path / name)
    result = redrive(source, tmp_path / "new")
    assert (result.exit_code, result.stdout) == (0, "")
    truth = states.truth("dlq")["dlq"]["%DLQ%billing"]
    found = messages(tmp_path / "new")
    assert {message.topic for message in found} == {"Orders"}
    assert [(message.uniq_key, message.keys, message.tags, message.born_timestamp) for message in found] == [
        (row["msgId"], [row["key"]], row["tags"], row["bornTimestamp"])
        for row in sorted(truth, key=lambda row: row["phyOffset"])
    ]
    for message, row in zip(found, sorted(truth, key=lambda row: row["phyOffset"]), strict=True):
        assert message.reconsume_times == 0
        assert {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "REAL_TOPIC", "REAL_QID", "DELAY"}.isdisjoint(message.properties)
        assert message.properties["DLQ_ORIGIN_TOPIC"] == row["originalTopic"]
        assert message.properties["DLQ_ORIGIN_MESSAGE_ID"] == row["properties"]["ORIGIN_MESSAGE_ID"]
        place = message.properties["ROCKETSTORE_ORIGIN"].split(" ")[1:]
        assert place == ["%DLQ%billing", "0", str(row["dlqQueueOffset"])]


def test_a_dead_letter_is_imported_only_once(root, tmp_path):
    source = export(root, tmp_path / "dead.jsonl")
    redrive(source, tmp_path / "new")
    count = len(messages(tmp_path / "new"))
    result = redrive(source, tmp_path / "new")
    assert result.exit_code == 0
    assert f"{count} messages are there from an earlier import" in result.stderr
    assert len(messages(tmp_path / "new")) == count
    journal = (tmp_path / "new" / JOURNAL).read_text().splitlines()
    assert [json.loads(line).get("stage") for line in journal] == ["begin", *[None] * count, "done", "begin", "done"]


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_journal_that_a_kill_cut_short_is_completed_from_the_log(kept, root, tmp_path):
    source = export(root, tmp_path / "dead.jsonl")
    redrive(source, tmp_path / "new")
    before = [message.uniq_key for message in messages(tmp_path / "new")]
    journal = tmp_path / "new" / JOURNAL
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: 1 + kept]) + lines[1 + kept][:7])
    redrive(source, tmp_path / "new")
    assert [message.uniq_key for message in messages(tmp_path / "new")] == before
    assert journal.read_bytes() == whole


def test_later_dead_letters_are_added(root, tmp_path):
    source = export(root, tmp_path / "dead.jsonl")
    lines = source.read_text().splitlines(keepends=True)
    source.write_text("".join(lines[:2] + lines[:1]))
    redrive(source, tmp_path / "new")
    assert len(messages(tmp_path / "new")) == 2
    source.write_text("".join(lines))
    redrive(source, tmp_path / "new")
    assert len(messages(tmp_path / "new")) == len(lines)


def test_rows_of_other_topics_are_left_out_and_counted(root, tmp_path):
    source = export(root, tmp_path / "dead.jsonl")
    result = redrive(source, tmp_path / "new", "%DLQ%audit=Orders")
    count = len(source.read_text().splitlines())
    assert f"{count} rows are of topics that --topic-map does not name: left out" in result.stderr
    assert messages(tmp_path / "new") == []


def test_a_row_without_its_place_is_refused(tmp_path):
    row = {"topic": "%DLQ%billing", "body": "x", "queueId": 0, "queueOffset": 1}
    (tmp_path / "dead.jsonl").write_text(json.dumps(row) + "\n")
    result = redrive(tmp_path / "dead.jsonl", tmp_path / "new")
    assert result.exit_code == 1
    assert "line 1: column storeHost: is missing" in result.stderr


def test_a_refused_row_is_named_and_those_before_it_are_stored(tmp_path):
    place = {"topic": "%DLQ%billing", "queueId": 0, "storeHost": "10.0.0.1:10911", "body": "x"}
    rows = [place | {"queueOffset": 0}, place | {"queueOffset": 1, "properties": {"a": "b" * 40_000}}]
    (tmp_path / "dead.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = redrive(tmp_path / "dead.jsonl", tmp_path / "new")
    assert result.exit_code == 1
    assert "line 2" in result.stderr
    assert len(messages(tmp_path / "new")) == 1
    del rows[1]["properties"]
    (tmp_path / "dead.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert redrive(tmp_path / "dead.jsonl", tmp_path / "new").exit_code == 0
    assert [message.properties["ROCKETSTORE_ORIGIN"][-1] for message in messages(tmp_path / "new")] == ["0", "1"]


def test_a_damaged_journal_changes_nothing(root, tmp_path):
    source = export(root, tmp_path / "dead.jsonl")
    redrive(source, tmp_path / "new")
    before = len(messages(tmp_path / "new"))
    journal = tmp_path / "new" / JOURNAL
    for text in (b"{}\n", b"nothing\n", b'{"end": 99999999, "stage": "done"}\n'):
        journal.write_bytes(text)
        result = redrive(source, tmp_path / "new")
        assert result.exit_code == 1
        assert "rocketstore-redrive.jsonl" in result.stderr
        assert journal.read_bytes() == text
        assert len(messages(tmp_path / "new")) == before


def test_an_existing_store_keeps_its_messages(root, tmp_path):
    with rocketstore.open(tmp_path / "new", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("Orders", b"first"))
    source = export(root, tmp_path / "dead.jsonl")
    assert run("import", source, tmp_path / "new", "--topic-map", "%DLQ%billing=Orders").exit_code == 0
    assert messages(tmp_path / "new")[0].body == b"first"
    assert len(messages(tmp_path / "new")) == 1 + len(source.read_text().splitlines())


def test_wrong_options_of_a_redrive_are_refused(root, tmp_path):
    source = export(root, tmp_path / "dead.jsonl")
    assert run("export", root, tmp_path / "x.jsonl", "--dlq", "billing", "--topic", "Bill").exit_code == 2
    for maps in (["Orders"], ["=Orders"], ["%DLQ%billing="], ["A=B", "A=C"]):
        assert redrive(source, tmp_path / "new", *maps).exit_code == 2
    for option in ("--resume", "--force", "--keep-times"):
        assert run("import", source, tmp_path / "new", "--topic-map", "A=B", option).exit_code == 2
    assert not (tmp_path / "new").exists()

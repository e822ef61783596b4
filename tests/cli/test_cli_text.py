"""JSON lines and CSV of messages: the same bytes as Python's ``json`` and ``csv`` write, from every command."""

import pytest
from reference.commit_log import write_file
from reference.record import build_record
from support.cli import golden, rows, run
from support.text_reference import csv_text, json_text, with_body

import rocketstore

REFERENCE = {"json": json_text, "csv": csv_text, "csv-safe": lambda row: csv_text(row, is_safe=True)}
STORES = ["rich-5.5.0", "crc-5.5.0", "lmq-5.5.0"]  # without inner batches


def text_of(form, found, columns=None):
    chosen = [row if columns is None else {name: row[name] for name in columns} for row in found]
    header = "" if form == "json" else csv_text({name: name for name in chosen[0]})
    return header + "".join(map(REFERENCE[form], chosen))


@pytest.mark.parametrize("form", REFERENCE)
@pytest.mark.parametrize("name", STORES)
def test_every_command_writes_what_python_writes(name, form, tmp_path):
    with rocketstore.open(golden(name)) as store:
        found = [with_body(message.to_dict()) for batch in store.scan() for message in batch]
    everything = text_of(form, found)
    assert run("cat", golden(name), "--format", form).stdout == everything
    assert run("export", golden(name), "-", "--format", form).stdout == everything
    assert run("export", golden(name), tmp_path / "out", "--format", form).exit_code == 0
    assert (tmp_path / "out").read_text("utf-8") == everything
    assert run("query", golden(name), "--since", "0", "--limit", 10**6, "--format", form).stdout == everything
    assert run("query", golden(name), "--since", "0", "--limit", 3, "--format", form).stdout == text_of(form, found[:3])
    chosen = ["storeTimestamp", "keys", "body", "properties"]
    columns = ["storeTimestamp", "keys", "body", "bodyBase64", "properties"]
    assert run("cat", golden(name), "--columns", ",".join(chosen), "--format", form).stdout == text_of(
        form, found, columns
    )


def test_the_messages_of_a_key_are_newest_first(tmp_path):
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as store:
        for i in range(40):
            store.put_message(rocketstore.Message(f"T{i % 3}", b"%d" % i, keys="K", tags="tag"))
    for question in (["--key", "K"], ["--tag", "tag"]):  # in all topics
        found = rows(run("query", tmp_path, *question))
        assert [row["body"] for row in found] == [str(i) for i in reversed(range(40))]
        assert rows(run("query", tmp_path, *question, "--limit", 7)) == found[:7]
        table = run("query", tmp_path, *question, "--format", "table").stdout
        assert table.count("storeTimestamp") == 1


def test_a_reason_that_was_requested_is_shown_without_the_body(tmp_path):
    write_file(tmp_path / "commitlog", 0, build_record("T", b"no zlib", sys_flag=1).ljust(4096, b"\0"))
    (row,) = rows(run("cat", tmp_path, "--columns", "topic,bodyError"))
    assert row["topic"] == "T"
    assert row["bodyError"].startswith("body: does not decompress")
    assert "does not decompress" in run("cat", tmp_path, "--columns", "topic,bodyError", "--format", "table").stdout

"""Commands that also read tiered storage and compacted topics."""

import csv
import json

import pytest
from support import states
from support.cli import run

from rocketstore.cli.transfer import export


@pytest.fixture(scope="module")
def tiered(tmp_path_factory):
    return states.unpack("tiered", tmp_path_factory.mktemp("states"))


@pytest.fixture(scope="module")
def compacted(tmp_path_factory):
    return states.unpack("compaction", tmp_path_factory.mktemp("states"))


def options_of(root):
    return ["--compacted"] if root.name == "compaction" else ["--tier", root.parent / "tiered-data"]


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def place(row):
    return row["topic"], row["queueId"], row["queueOffset"]


@pytest.mark.parametrize("name", ["tiered", "compacted"])
def test_an_export_has_the_messages_of_cat(name, request, tmp_path):
    root = request.getfixturevalue(name)
    shown = lines(run("cat", root, *options_of(root)).stdout)
    assert run("export", root, tmp_path / "out.jsonl", *options_of(root)).exit_code == 0
    exported = lines((tmp_path / "out.jsonl").read_text())
    assert exported == shown
    assert sum(row["phyOffset"] is None for row in exported) == (724 if name == "tiered" else 0)
    assert lines(run("export", root, "-", "--format", "json", *options_of(root)).stdout) == shown
    assert len(shown) != len(lines(run("cat", root).stdout))
    [log] = [run("export", root, "-", "--format", "csv", *options_of(root)).stdout]
    assert [int(row["queueOffset"]) for row in csv.DictReader(log.splitlines())] == [r["queueOffset"] for r in shown]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("name", ["tiered", "compacted"])
def test_tables_have_null_for_a_missing_physical_offset(name, form, request, tmp_path):
    pyarrow = pytest.importorskip("pyarrow.dataset")
    root, target = request.getfixturevalue(name), tmp_path / f"out.{form}"
    expected = sorted(map(place, lines(run("cat", root, *options_of(root)).stdout)))
    assert run("export", root, target, *options_of(root)).exit_code == 0
    table = pyarrow.dataset(target, format=form).to_table()
    assert sorted(map(place, table.to_pylist())) == expected
    assert table["phyOffset"].null_count == (724 if name == "tiered" else 0)
    parts = tmp_path / "parts"
    assert run("export", root, parts, "--partition-by", "topic", "--format", form, *options_of(root)).exit_code == 0
    table = pyarrow.dataset(parts, format=form, partitioning="hive").to_table()
    assert sorted(map(place, table.to_pylist())) == expected


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ["tiered", "compacted"])
def test_an_export_that_was_interrupted_resumes_at_a_queue(name, form, request, tmp_path, monkeypatch):
    root, target = request.getfixturevalue(name), tmp_path / f"out.{form}"
    whole = tmp_path / f"whole.{form}"
    assert run("export", root, whole, *options_of(root)).exit_code == 0
    copied, calls = export.copy_messages, []

    def copy_some(*args, **options):
        calls.append(args)
        if len(calls) in (3, *([6, 9] * (form == "jsonl"))):
            raise KeyboardInterrupt
        return copied(*args, **options)

    monkeypatch.setattr(export, "copy_messages", copy_some)
    run("export", root, target, *options_of(root))
    while not target.exists():
        assert run("export", root, target, *options_of(root), "--resume").exit_code in (0, 1, 130)
        assert len(calls) < 30
    assert form == "parquet" or target.read_bytes() == whole.read_bytes()


def test_an_export_of_a_topic_reads_only_its_queues(tiered):
    rows = lines(run("export", tiered, "-", "--format", "json", "--topic", "Creek", *options_of(tiered)).stdout)
    assert {row["topic"] for row in rows} == {"Creek"}
    assert len(rows) == 130


@pytest.mark.parametrize("words", [["cat", "--begin-offset", "0"], ["export", "--end-offset", "9"], ["cat", "-f"]])
def test_a_part_of_the_log_has_no_messages_of_other_logs(tiered, tmp_path, words):
    command, *options = words
    target = [tmp_path / "out.jsonl"] * (command == "export")
    refused = run(command, tiered, *target, *options, *options_of(tiered))
    assert refused.exit_code == 2
    assert "no place in the log" in refused.stderr

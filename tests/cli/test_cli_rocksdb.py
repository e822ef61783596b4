"""Commands on a store whose queues, topics or offsets are in RocksDB, with and without the package that reads it."""

import shutil
import sys

import pytest
from support.cli import rows, run

from rocketstore.store.overview import summary

NOT_INSTALLED = "rocketstore[rocksdb]"


@pytest.fixture
def no_rocksdict(monkeypatch):
    monkeypatch.setitem(sys.modules, "rocksdict", None)


@pytest.mark.usefixtures("no_rocksdict")
def test_lag_shows_the_queues_where_offsets_cannot_be_read(root_of):
    result = run("lag", root_of("rocksdb-cq"), "--format", "json")
    found = {(row["topic"], row["queueId"]): row for row in rows(result, exit_code=1)}
    assert found["Plain", 0] == {
        "group": None, "topic": "Plain", "queueId": 0, "consumerOffset": None, "minOffset": 0, "maxOffset": 76,
        "lag": None, "problem": None, "oldestTimestamp": None, "topicExists": True, "logBytes": None,
        "oldestAgeSeconds": None,
    }  # fmt: skip
    (line,) = (line for line in result.stderr.splitlines() if "consumer offsets are in this RocksDB" in line)
    assert NOT_INSTALLED in line
    assert "only the queues are shown" in result.stderr


@pytest.mark.usefixtures("no_rocksdict")
def test_lag_of_light_queues_that_are_not_read_is_one_sentence(root_of, tmp_path):
    root = shutil.copytree(root_of("rocksdb-lmq"), tmp_path / "store")
    path = root / "config" / "lmqConsumerOffset.json"
    offsets = '"lmqOffsetTable":{"%LMQ%a@G1":3,"%LMQ%b@G1":4}'
    path.write_text(path.read_text().replace('"lmqOffsetTable":{}', offsets))
    result = run("lag", root)
    assert result.exit_code == 1
    lines = [line for line in result.stderr.splitlines() if NOT_INSTALLED in line]
    assert len(lines) == 1
    assert "light queues may be only in this RocksDB" in lines[0]
    assert "Plain" in result.stdout


@pytest.mark.usefixtures("no_rocksdict")
def test_info_counts_no_messages_of_a_long_log_whose_queues_are_not_read(root_of, monkeypatch):
    (counted,) = rows(run("info", root_of("rocksdb-cq"), "--format", "json"), exit_code=1)
    assert (counted["queues"], counted["messages"]) == (13, 368)
    monkeypatch.setattr(summary, "COUNTED_LOG", 1000)
    result = run("info", root_of("rocksdb-cq"), "--format", "json")
    (row,) = rows(result, exit_code=1)
    assert (row["topics"], row["queues"], row["messages"]) == (None, None, None)
    assert row["maxPhyOffset"] == counted["maxPhyOffset"]
    assert "topics, queues and messages are not counted: the whole log, 189121 bytes" in result.stderr


@pytest.mark.usefixtures("no_rocksdict")
@pytest.mark.parametrize("command", ["pending", "dlq"])
def test_pending_and_dead_messages_note_queues_that_are_built(root_of, command):
    assert "They are built from the log" in run(command, root_of("rocksdb-cq")).stderr


def test_the_limit_of_a_remote_copy_is_an_option(root_of):
    pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    import fsspec

    root = root_of("rocksdb-cq")
    memory = fsspec.filesystem("memory")
    for path in root.rglob("*"):
        if path.is_file() and path.stat().st_size < 1 << 21:
            memory.pipe(f"/limited/{path.relative_to(root)}", path.read_bytes())
    for option in ([], ["--remote-copy-limit", "2G"]):
        assert len(rows(run("ls", "memory://limited", *option, "--format", "json"))) == 13
    result = run("ls", "memory://limited", "--remote-copy-limit", "1K")
    assert result.exit_code != 0
    assert "remote_copy_limit" in result.stderr
    assert run("ls", root, "--remote-copy-limit", "much").exit_code == 2

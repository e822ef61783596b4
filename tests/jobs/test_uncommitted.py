"""Readers of a store with records of a write that was never committed: no command and no table of Spark gives them."""

import json

import pytest
from support import cli
from support.puts import BEGIN, config_of

import rocketstore
from rocketstore import CommitLog, CorruptFileError, Message
from rocketstore.jobs import intent as intent_module
from rocketstore.jobs.intent import UncommittedRecords, WriteIntent, intent_path, prepared_path
from rocketstore.limits import LONG_MAX

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")

from support.unfinished import kill_at_append, make_pieces

JOB = "f00d"
COMMITTED, WRITTEN = 12, 24  # messages before the write, and of it
DAMAGES = [None, 0, 7, WRITTEN - 1]  # which of the written records is damaged
LEFT = ["crashed", "stopped"]


def write_and_kill(root, *, damage=None, left="crashed"):
    """Put messages, and kill a write of more when all records are in the log. Queues and index have all of them.

    Returns: the physical offsets of the written records.
    """
    with rocketstore.open(root, "a", config=config_of()) as store:
        bodies = [b"committed %d" % i for i in range(COMMITTED)]
        messages = [Message("T", body, keys=["k"], queue_id=i % 2) for i, body in enumerate(bodies)]
        store.put_messages(messages, store_timestamp=BEGIN)
    rows = [{"topic": "T", "queueId": i % 2, "body": b"written %d" % i, "keys": ["k"]} for i in range(WRITTEN)]
    pieces = make_pieces(root, JOB, [[rows[:8], rows[8:16], rows[16:]], [[rows[0]]]], config_of())
    kill_at_append(root, JOB, pieces, 3, BEGIN + 1000, config=config_of())
    hidden = intent_path(root).rename(root.parent / "hidden")
    rocketstore.open(root, "a").close()  # makes units and items, as a broker does, which knows no intent
    hidden.rename(intent_path(root))
    if left == "crashed":
        (root / "abort").touch()
    with CommitLog.open(root / "commitlog") as log:
        begin = WriteIntent.read(root).begin
        records = [int(at) for batch in log.scan(begin, columns=["phy_offset"]) for at in batch.phy_offset]
        file = None if damage is None else log.file_run.find(records[damage])
    assert len(records) == WRITTEN
    if file is not None:
        data = bytearray(file.path.read_bytes())
        position = records[damage] - file.file_from_offset
        data[position : position + 8] = bytes(8)
        file.path.write_bytes(data)
    return records


@pytest.fixture(params=[(damage, left) for damage in DAMAGES for left in LEFT], ids=str)
def killed(request, tmp_path):
    """A store that was left so, and the physical offsets of the records that readers leave out."""
    damage, left = request.param
    root = tmp_path / "store"
    return root, write_and_kill(root, damage=damage, left=left)


def test_commands_give_no_message_of_a_write_that_was_not_committed(killed, tmp_path):
    root, written = killed
    bodies = [f"committed {i}" for i in range(COMMITTED)]
    assert [row["body"] for row in cli.rows(cli.run("cat", root))] == bodies
    assert cli.run("export", root, tmp_path / "all.jsonl").exit_code == 0
    exported = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [row["phyOffset"] for row in exported] == [row["phyOffset"] for row in cli.rows(cli.run("cat", root))]
    (info,) = cli.rows(cli.run("info", root))
    assert (info["messages"], info["maxPhyOffset"]) == (COMMITTED, written[0])
    found = cli.rows(cli.run("query", root, "--topic", "T", "--key", "k"))
    assert sorted(row["body"] for row in found) == sorted(bodies)


def test_queues_end_before_a_write_that_was_not_committed(killed):
    root, _ = killed
    n = COMMITTED // 2
    queues = [row for row in cli.rows(cli.run("ls", root)) if row["topic"] == "T"]
    assert [row["maxOffset"] for row in queues[:2]] == [n, n]
    assert sum(row["maxOffset"] for row in queues) == COMMITTED
    found = cli.rows(cli.run("offset", root, "--topic", "T", "--queue", 0, "--time", BEGIN + 10**9))
    assert [row["queueOffset"] for row in found] == [n]
    assert len(cli.rows(cli.run("get", root, "T", 0, 0, "--limit", 32))) == n
    cli.assert_one_line(cli.run("get", root, "T", 0, n), "OFFSET_OVERFLOW_ONE")
    with rocketstore.open(root) as store:
        queue = store.consume_queue("T", 0)
        assert (len(queue), queue.max_queue_offset, len(queue[:])) == (n, n, n)
        assert len(queue[n - 1 : n + 5]) == 1


def test_single_records_of_a_write_that_was_not_committed_are_not_found(killed):
    root, written = killed
    with CommitLog.open(root / "commitlog") as log:  # of the bytes alone: it knows no intent
        ids = [(at, message.msg_id) for at in written if (message := log.find_message(at)) is not None]
    assert len(ids) >= WRITTEN - 1
    for at, name in ids[:3] + ids[-3:]:
        with rocketstore.open(root) as store:
            assert store.look_message_by_offset(at) is None
            assert store.query_message_by_id(name) is None
            assert store.commit_log.max_phy_offset == written[0]
            assert store.look_message_by_offset(at) is None
            with pytest.raises(CorruptFileError, match="the end of the log"):
                store.commit_log.get_message(at)
        assert cli.run("query", root, "--id", name).stdout == ""
    with rocketstore.open(root) as store:
        found = store.query_message("T", "k")
        assert len(found.messages) == COMMITTED
        assert found.complete, found.reasons


def test_tables_of_spark_have_no_row_of_a_write_that_was_not_committed(killed):
    pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
    from support.spark_reads import read_table

    root, written = killed
    bodies = [b"committed %d" % i for i in range(COMMITTED)]
    for options in ({}, {"mode": "DROPMALFORMED"}, {"minPartitions": "5"}, {"subscribe": "T"}):
        assert read_table(root, columns="body", **options).column("body").to_pylist() == bodies, options
    units = read_table(root, table="consumequeue", columns="phyOffset").column("phyOffset").to_pylist()
    assert len(units) == COMMITTED
    assert max(units) < written[0]
    offsets = read_table(root, table="offsets", columns="queueId,maxOffset").to_pylist()
    assert sum(row["maxOffset"] for row in offsets) == COMMITTED
    for options in ({}, {"batchSize": "5"}):
        items = read_table(root, table="index", columns="ordinal,phyOffset", **options).to_pylist()
        assert [row["ordinal"] for row in items] == [*range(1, 1 + COMMITTED)]
        assert max(row["phyOffset"] for row in items) < written[0]


def test_messages_are_given_as_soon_as_their_write_is_committed(tmp_path, monkeypatch):
    root = tmp_path / "store"
    written = write_and_kill(root)
    with rocketstore.open(root) as store:
        assert store.look_message_by_offset(written[0]) is None
        assert store.consume_queue("T", 0).max_queue_offset == COMMITTED // 2
        intent_path(root).unlink()
        assert store.look_message_by_offset(written[0]).body == b"written 0"
        assert store.consume_queue("T", 0).max_queue_offset == (COMMITTED + WRITTEN) // 2
        assert len(store.query_message("T", "k").messages) == COMMITTED + WRITTEN


def test_items_are_rows_as_soon_as_their_write_is_committed(tmp_path):
    pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
    from support.spark_reads import read_table

    root = tmp_path / "store"
    write_and_kill(root)
    intent_path(root).unlink()
    items = read_table(root, table="index", columns="ordinal,phyOffset").to_pylist()
    assert [row["ordinal"] for row in items] == [*range(1, 1 + COMMITTED + WRITTEN)]


def test_a_write_that_begins_while_a_reader_is_open_is_left_out(tmp_path):
    root = tmp_path / "store"
    begin = write_and_kill(root)[0]
    intent_path(root).rename(tmp_path / "hidden")
    with CommitLog.open(root / "commitlog") as log:
        records = UncommittedRecords(root)
        assert records.find_begin(log.reader) == LONG_MAX
        (tmp_path / "hidden").rename(intent_path(root))
        assert records.find_begin(log.reader) == begin
        intent_path(root).unlink()
        assert records.find_begin(log.reader) == LONG_MAX


def test_a_write_is_not_read_whole_for_each_queue(tmp_path, monkeypatch):
    """A job may write some GiB, into thousands of queues, while somebody lists them."""
    root = tmp_path / "store"
    begin = write_and_kill(root)[0]
    monkeypatch.setattr(intent_module, "KEPT_TIMES", 1_000_000)
    real, calls = intent_module.find_unfinished, []
    monkeypatch.setattr(intent_module, "find_unfinished", lambda *args: calls.append(args) or real(*args))
    with CommitLog.open(root / "commitlog") as log:
        records = UncommittedRecords(root)
        assert [records.find_begin(log.reader) for _ in range(50)] == [begin] * 50
    assert len(calls) == 1
    assert prepared_path(root, JOB).exists()

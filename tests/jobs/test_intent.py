"""Writes of pieces: all or nothing, whatever ends them, and nobody else's messages are touched."""

import contextlib
import json
import os
import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from support.killed import killed_at
from support.puts import BEGIN, config_of, files_under, index_files

import rocketstore
from rocketstore import (
    CommitLog,
    CorruptFileError,
    Message,
    MessageBatch,
    PutMessageError,
    StoreError,
    StoreLockedError,
    recover,
    verify,
)
from rocketstore.jobs import intent as intent_module
from rocketstore.jobs.intent import WriteIntent, intent_path, prepared_path
from rocketstore.jobs.prepared_rows import ANY_QUEUE, PreparedRowsWriter, read_blocks
from rocketstore.log.log_files import LogFileWriter
from rocketstore.log.log_writer import LogWriter
from rocketstore.store import write_job
from rocketstore.store.write_job import write_pieces
from rocketstore.store.writer import StoreWriter
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.survey import survey_store

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")

import pyarrow as pa
from support import unfinished
from support.unfinished import SCHEMA, table_of

JOB = "f00d"
TIME = BEGIN + 3_600_000


def write_into(root, *arguments, **options):
    write_pieces(StorePlaces.of(root), *arguments, **options)


def rows_of(rng, count):
    """Rows of some topics and queues; queue id -1 for messages that take the next queue."""
    return [
        {
            "topic": rng.choice(["Orders", "Audit", "主题"]),
            "queueId": rng.choice([ANY_QUEUE, ANY_QUEUE, 0, 1, 5]),
            "body": rng.randbytes(rng.choice([0, 10, 100, 300])),
            "keys": [f"k{rng.randrange(30)}" for _ in range(rng.randrange(3))],
            "tags": rng.choice([None, "A", "标签"]),
            "properties": [("p", str(rng.random()))] * rng.randrange(2),
            "bornTimestamp": BEGIN + rng.randrange(1000),
        }
        for _ in range(count)
    ]


def message_of(row):
    queue_id = None if row["queueId"] == ANY_QUEUE else row["queueId"]
    return Message(
        row["topic"],
        row["body"],
        keys=row["keys"],
        tags=row["tags"],
        queue_id=queue_id,
        properties=dict(row["properties"]),
        born_timestamp=row["bornTimestamp"],
    )


def make_pieces(root, parts, *, config=None, job=JOB):
    return unfinished.make_pieces(root, job, parts, config or config_of())


def parts_of(rng, count=40, parts=3):
    """So many rows in as many parts as are wanted, each of three lists if there are enough."""
    made = [[[] for _ in range(3)] for _ in range(parts)]
    for i, row in enumerate(rows_of(rng, count)):
        part = made[i * parts // count]
        next((rows for rows in part if not rows), rng.choice(part)).append(row)
    return [[rows for rows in part if rows] for part in made]


def flat(parts):
    return [row for part in parts for rows in part for row in rows]


@pytest.fixture
def base(tmp_path, seed):
    """A store with some messages, closed."""
    root = tmp_path / "base"
    with rocketstore.open(root, "a", config=config_of()) as store:
        rows = rows_of(random.Random(f"{seed} base"), 25)
        store.put_messages([message_of(row) for row in rows], store_timestamp=BEGIN)
    return root


@pytest.fixture
def parts(seed):
    return parts_of(random.Random(f"{seed} parts"))


def serial(base, tmp_path, parts):
    """The store to which put_messages has put the same rows."""
    root = shutil.copytree(base, tmp_path / "serial")
    with rocketstore.open(root, "a") as store:
        for part in parts:
            for rows in part:
                batch = MessageBatch.of_arrow(table_of(rows).drop(["queueId"]))
                messages = list(batch.to_put())
                for message, row in zip(messages, rows, strict=True):
                    message.queue_id = None if row["queueId"] == ANY_QUEUE else row["queueId"]
                store.put_messages(messages, store_timestamp=TIME)
    return root


def contents(root):
    return files_under(root), index_files(root)


def leftovers(root):
    return sorted(path.name for path in Path(root).glob("rocketstore-*"))


def bodies(root):
    with rocketstore.open(root) as store:
        return [message.body for batch in store.scan() for message in batch]


# ---- written bytes ---------------------------------------------------------------------------------------------


def test_prepared_rows_give_the_records_that_put_messages_gives(base, tmp_path, parts):
    expected = contents(serial(base, tmp_path, parts))
    write_into(base, JOB, make_pieces(base, parts), TIME)
    assert contents(base) == expected
    assert leftovers(base) == []
    assert list(verify(base).findings) == []


@pytest.mark.parametrize(
    "options",
    [
        {"enabled_append_prop_crc": True},
        {"compat": "4.9.3"},
        {"store_host": "[2001:db8::1]:10911"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_new_store_is_made_with_the_configuration_that_is_given(tmp_path, parts, options):
    config = config_of(**options)
    rocketstore.open(tmp_path / "base", "a", config=config).close()
    expected = contents(serial(tmp_path / "base", tmp_path, parts))
    write_pieces(
        StorePlaces.of(tmp_path / "new"), JOB, make_pieces(tmp_path / "new", parts, config=config), TIME, config=config
    )
    assert contents(tmp_path / "new") == expected


def test_messages_keep_times_that_are_given(base, tmp_path):
    rows = [dict(row, queueId=0, storeTimestamp=BEGIN + i) for i, row in enumerate(rows_of(random.Random(1), 9))]
    tables = [
        pa.Table.from_pylist(rows[at : at + 3], SCHEMA.append(pa.field("storeTimestamp", pa.int64())))
        for at in range(0, 9, 3)
    ]
    other = shutil.copytree(base, tmp_path / "other")
    with rocketstore.open(other, "a") as store:
        for table in tables:
            store.put_messages(table, store_timestamp="given")
    directory = prepared_path(base, JOB)
    directory.mkdir()
    writer = PreparedRowsWriter(directory / "tmp", survey_store(base).find_sized_config(), keeps_store=True)
    for table in tables:
        writer.add(MessageBatch.of_arrow(table))
    write_into(base, JOB, [writer.finish(directory / "piece")], "given")
    assert contents(base) == contents(other)


def test_without_prepared_rows_an_empty_store_is_made(tmp_path):
    write_into(tmp_path / "new", JOB, [], config=config_of())
    assert bodies(tmp_path / "new") == []


def test_the_round_of_queues_continues_from_file_to_file_of_prepared_rows(tmp_path):
    rows = [{"topic": "T", "queueId": ANY_QUEUE, "body": b"x"}] * 7
    write_pieces(
        StorePlaces.of(tmp_path),
        JOB,
        make_pieces(tmp_path, [[rows[:1], rows[1:3]], [rows[3:]]]),
        TIME,
        config=config_of(),
    )
    with rocketstore.open(tmp_path) as store:
        assert [message.queue_id for batch in store.scan() for message in batch] == [0, 1, 2, 3, 0, 1, 2]


# ---- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"topic": "a/b"}, "cannot be the name of a directory"),
        ({"topic": ""}, "cannot be the name of a directory"),
        ({"topic": "t" * 40_000}, "cannot be read back"),
        ({"body": bytes(4000)}, "do not fit a file of 4096"),
        ({"body": bytes((4 << 20) + 1)}, "a body of 4194305 bytes"),
        ({"properties": [("p", "x" * 40_000)]}, "properties of"),
        ({"keys": ["two words"]}, "a key must have no spaces"),
        ({"properties": [("INNER_NUM", "2")]}, "an inner batch"),
        ({"topic": "SCHEDULE_TOPIC_XXXX", "properties": [("DELAY", "soon")]}, "no number"),
        ({"tags": "A", "properties": [("TAGS", "B")]}, "TAGS is 'B' in properties"),
    ],
)
def test_a_row_that_put_refuses_is_refused_where_it_is_encoded_and_named(tmp_path, row, reason):
    good = {"topic": "T", "queueId": 0, "body": b""}
    made = PreparedRowsWriter(
        tmp_path / "piece", survey_store(tmp_path, config_of()).find_sized_config(), keeps_store=False
    )
    with contextlib.closing(made) as writer:
        writer.add(MessageBatch.of_arrow(table_of([good] * 3)))
        with pytest.raises(ValueError, match=reason) as raised:
            writer.add(MessageBatch.of_arrow(table_of([good, good, good | row, good])))
        assert "row 5: " in str(raised.value)
    assert not (tmp_path / "piece").exists()


def test_messages_for_light_queues_are_refused_only_where_there_are_any(tmp_path):
    row = {"topic": "T", "queueId": 0, "body": b"", "properties": [("INNER_MULTI_DISPATCH", "%LMQ%a")]}
    write_into(tmp_path, JOB, make_pieces(tmp_path, [[[row]]]), TIME, config=config_of())
    assert bodies(tmp_path) == [b""]
    for release, option in (("5.5.0", "enable_lmq"), ("5.3.1", "enable_multi_dispatch")):
        with pytest.raises(PutMessageError, match=r"row 0: .*light queues"):
            make_pieces(tmp_path / release, [[[row]]], config=config_of(compat=release, **{option: True}))


def test_offsets_of_other_queues_that_are_no_numbers_are_refused_where_they_are_read(tmp_path):
    properties = [("INNER_MULTI_DISPATCH", "a"), ("INNER_MULTI_QUEUE_OFFSET", "x")]
    row = {"topic": "T", "queueId": 0, "body": b"", "properties": properties}
    make_pieces(tmp_path / "unread", [[[row]]], config=config_of())
    with pytest.raises(PutMessageError, match=r"row 0: .*'x': an offset is no number"):
        make_pieces(tmp_path / "read", [[[row]]], config=config_of(enable_multi_dispatch=True))


def test_a_store_that_is_open_for_writing_is_left_alone(base, parts):
    pieces = make_pieces(base, parts)
    with rocketstore.open(base, "a", config=config_of(allocate_file_ahead=False)):
        before = contents(base)
        with pytest.raises(StoreLockedError):
            write_into(base, JOB, pieces)
        assert contents(base) == before
        assert not intent_path(base).exists()
    assert len(list(prepared_path(base, JOB).iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut", "missing", "flipped"])
def test_a_damaged_file_of_prepared_rows_leaves_the_store_unchanged(base, parts, seed, damage):
    before = contents(base)
    pieces = make_pieces(base, parts)
    path = prepared_path(base, JOB) / pieces[1].name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-1])
    else:
        data[random.Random(seed).randrange(len(data))] ^= 1 << random.Random(seed).randrange(8)
        path.write_bytes(data)
    with pytest.raises((CorruptFileError, FileNotFoundError)):
        write_into(base, JOB, pieces, TIME)
    assert contents(base) == before
    assert not intent_path(base).exists()


def test_any_flipped_bit_in_prepared_rows_is_found(tmp_path):
    """Those of its queues, too: a message would go to another queue."""
    (piece,) = make_pieces(tmp_path, [[[{"topic": "T", "queueId": 0, "body": b"body"}]]])
    directory = prepared_path(tmp_path, JOB)
    sound = (directory / piece.name).read_bytes()
    for bit in range(8 * len(sound)):
        data = bytearray(sound)
        data[bit // 8] ^= 1 << bit % 8
        (directory / piece.name).write_bytes(data)
        with pytest.raises(CorruptFileError, match="block"):
            list(read_blocks(directory, piece))


def assert_undone_at_once(base, parts, monkeypatch, owner, name, failing, reason="No space"):
    """Of a write in which this fails nothing is left."""
    before = contents(base)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, failing)
        with pytest.raises(OSError, match=reason):
            write_into(base, JOB, make_pieces(base, parts), TIME)
    assert contents(base) == before
    assert leftovers(base) == []
    assert (base / "abort").exists() is False


def test_an_append_that_fails_is_undone_at_once(base, parts, monkeypatch):
    append, left = LogWriter.append_encoded, iter(range(4))

    def failing(*arguments):
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        append(*arguments)

    assert_undone_at_once(base, parts, monkeypatch, LogWriter, "append_encoded", failing)


def test_what_cannot_be_undone_now_is_undone_later(base, parts, monkeypatch):
    before = contents(base)
    with monkeypatch.context() as patched:
        openings = iter([write_job.open_writer])
        patched.setattr(write_job, "open_writer", lambda *args: next(openings, fail)(*args))
        patched.setattr(LogFileWriter, "flush", fail)
        with pytest.raises(OSError, match="No space") as raised:
            write_into(base, JOB, make_pieces(base, parts), TIME)
    assert "The next opening for writing cuts off the records" in raised.value.__notes__[0]
    assert intent_path(base).exists()
    rocketstore.open(base, "a").close()
    assert contents(base) == before


def test_a_write_that_fails_after_its_last_record_is_undone_too(base, parts, monkeypatch):
    assert_undone_at_once(base, parts, monkeypatch, StoreWriter, "flush", fail)


def test_a_write_whose_end_does_not_come_to_the_disk_is_undone(base, parts, monkeypatch):
    errors = [OSError(5, "Input/output error")]

    def fail_when_it_is_gone(path, held=None):
        if path == base and not intent_path(base).exists() and errors:
            raise errors.pop()

    assert_undone_at_once(base, parts, monkeypatch, intent_module, "sync_path", fail_when_it_is_gone, "Input/output")
    assert errors == []


@pytest.mark.parametrize(("owner", "name"), [(write_job, "sweep_abandoned"), (StoreWriter, "_seal")])
def test_an_error_after_a_finished_write_is_reported_and_not_raised(base, parts, monkeypatch, caplog, owner, name):
    """A caller that gets an error puts the messages again."""
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        write_into(base, JOB, make_pieces(base, parts), TIME)
    assert "is committed, but cleaning up after it failed: OSError" in caplog.text
    assert leftovers(base) == []
    rocketstore.open(base, "a").close()
    assert len(bodies(base)) == 25 + len(flat(parts))


def fail(*arguments, **options):
    raise OSError(28, "No space left on device")


# ---- kills -----------------------------------------------------------------------------------------------------


def kill_at_append(base, pieces, number, **options):
    unfinished.kill_at_append(base, JOB, pieces, number, TIME, **options)


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("number", [0, 1, 4, 7])
def test_killed_while_it_appends_the_next_opening_undoes_it(base, parts, number, torn):
    before = contents(base)
    kill_at_append(base, make_pieces(base, parts), number, torn=torn)
    assert intent_path(base).exists()
    if number:
        assert [f.kind for f in verify(base).findings if f.kind.startswith("write")] == ["write-unfinished"]
    rocketstore.open(base, "a").close()
    assert contents(base) == before
    assert leftovers(base) == []
    assert list(verify(base).findings) == []


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(8))
def test_killed_at_any_call_all_of_it_is_there_or_nothing(base, tmp_path, parts, piece):
    before = contents(base)
    after = contents(serial(base, tmp_path, parts))
    for call in range(piece + 1, 10_000, 8):
        root = shutil.copytree(base, tmp_path / f"store-{call}")
        pieces = make_pieces(root, parts)
        was_killed = killed_at(call, lambda root=root, pieces=pieces: write_into(root, JOB, pieces, TIME))
        rocketstore.open(root, "a").close()
        assert contents(root) in (before, after), call
        assert not intent_path(root).exists()
        shutil.rmtree(root)
        if not was_killed:
            assert call > 20
            break


@pytest.mark.slow
def test_an_undoing_that_was_killed_is_finished_by_the_next_opening(base, tmp_path, parts):
    before = contents(base)
    made = shutil.copytree(base, tmp_path / "made")
    kill_at_append(made, make_pieces(made, parts), 8, torn=True)
    for call in range(1, 10_000):
        root = shutil.copytree(made, tmp_path / f"store-{call}")
        was_killed = killed_at(call, lambda root=root: rocketstore.open(root, "a").close())
        rocketstore.open(root, "a").close()
        assert contents(root) == before, call
        shutil.rmtree(root)
        if not was_killed:
            assert call > 10
            break


@pytest.mark.parametrize("losses", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_what_a_loss_of_power_leaves_is_undone_too(base, tmp_path, parts, losses, seed):
    """Only some of the job's pages reach the disk."""
    rng = random.Random(seed)
    before = contents(base)
    made = shutil.copytree(base, tmp_path / "made")
    kill_at_append(made, make_pieces(made, parts), 8)
    begin = WriteIntent.read(made).begin
    for turn in range(losses):
        root = shutil.copytree(made, tmp_path / f"store-{turn}")
        log = sorted((root / "commitlog").iterdir())
        for path in log:
            data = bytearray(path.read_bytes())
            for page in range(0, len(data), 512):
                if int(path.name) + page > begin + 512 and rng.random() < 0.3:
                    data[page : page + 512] = bytes(512)
            path.write_bytes(data)
        rocketstore.open(root, "a").close()
        found = contents(root)
        assert found == before, turn
        shutil.rmtree(root)


def test_killed_when_all_is_on_the_disk_but_the_write_is_not_done_it_is_undone(base, parts, monkeypatch):
    """Nobody was told that it is done: a job that is run again puts all of it."""
    before = contents(base)
    pieces = make_pieces(base, parts)
    monkeypatch.setattr(WriteIntent, "fulfil", lambda intent, root: os._exit(9))
    pid = os.fork()
    if pid == 0:
        try:
            write_into(base, JOB, pieces, TIME)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    with CommitLog.open(base / "commitlog") as log:
        assert sum(map(len, log.scan())) == 25 + len(flat(parts))
    assert len(bodies(base)) == 25
    report = recover(base)
    assert [action.what for action in report.actions if action.path == intent_path(base)] == ["undo"]
    assert contents(base) == before
    assert leftovers(base) == []


# ---- what others have done meanwhile ------------------------------------------------------------------------


def append_as_a_broker(root, count):
    """Cut the log where the last sound record ends, and go on there: who knows of no intents does so."""
    hidden = intent_path(root).rename(root.parent / "hidden")
    with rocketstore.open(root, "a") as store:
        for number in range(count):
            store.put_message(Message("Orders", b"broker %d" % number, queue_id=0), store_timestamp=TIME + 1)
    hidden.rename(intent_path(root))


@pytest.mark.parametrize("how", ["open", "recover"])
def test_a_write_that_others_have_appended_to_is_left_and_told_of_once(base, parts, caplog, how):
    kill_at_append(base, make_pieces(base, parts), 5)
    begin = WriteIntent.read(base).begin
    append_as_a_broker(base, 3)
    there = bodies(base)
    assert there[-3:] == [b"broker 0", b"broker 1", b"broker 2"]
    dry = recover(base, dry_run=True)
    assert intent_path(base).exists()
    with pytest.warns(UserWarning, match=f"write {JOB} was ended in the middle: .* messages may stay in the log"):
        done = rocketstore.open(base, "a").close() if how == "open" else recover(base).actions
    assert done in (None, dry.actions)
    (action,) = [action for action in dry.actions if action.path == intent_path(base)]
    count = len(there) - 25 - 3
    assert action.what == "leave"
    assert action.offset == begin
    assert bodies(base) == there
    assert f"{count} of its {len(flat(parts))} messages may stay" in caplog.text
    assert leftovers(base) == [f"rocketstore-intent-{JOB}.json"]
    assert [finding.kind for finding in verify(base).findings] == ["write-unfinished"]
    caplog.clear()
    rocketstore.open(base, "a").close()
    assert caplog.text == ""
    assert bodies(base) == there


def test_a_whole_write_that_others_have_appended_to_is_finished(base, parts, caplog):
    pieces = make_pieces(base, parts)
    kill_at_append(base, pieces, 8)
    intent = WriteIntent.read(base)
    saved = intent_path(base).read_bytes()
    shutil.copytree(prepared_path(base, JOB), base / "kept")
    recover(base)
    (base / "kept").rename(prepared_path(base, JOB))
    write_into(base, JOB, pieces, TIME)
    append_messages(base)
    intent_path(base).write_bytes(saved)
    make_pieces(base, parts)
    there = bodies(base)
    (action,) = [action for action in recover(base).actions if action.path == intent_path(base)]
    assert action[1:] == ("finish", intent.begin, action.size)
    assert bodies(base) == there
    assert leftovers(base) == []


def append_messages(root):
    with rocketstore.open(root, "a") as store:
        store.put_message(Message("Orders", b"later", queue_id=0))


def test_without_its_prepared_rows_no_record_of_a_write_is_cut(base, parts, caplog):
    kill_at_append(base, make_pieces(base, parts), 5)
    shutil.rmtree(prepared_path(base, JOB))
    there = bodies(base)
    with pytest.warns(UserWarning, match="some of its messages may stay in the log"):
        rocketstore.open(base, "a").close()
    assert bodies(base) == there
    assert "some of its messages may stay" in caplog.text
    assert leftovers(base) == [f"rocketstore-intent-{JOB}.json"]


def test_a_write_is_known_by_more_than_its_place(base, parts, caplog):
    """Records of the same sizes from somebody else."""
    kill_at_append(base, make_pieces(base, parts), 5)
    (path,) = [path for path in sorted((base / "commitlog").iterdir()) if int(path.name) <= last_record(base)][-1:]
    data = bytearray(path.read_bytes())
    at = last_record(base) - int(path.name)
    data[at + 16 : at + 20] = b"\0\0\0\7"  # the flag, which is in no CRC
    path.write_bytes(data)
    there = bodies(base)
    with pytest.warns(UserWarning, match="may stay in the log"):
        rocketstore.open(base, "a").close()
    assert bodies(base) == there
    assert "may stay in the log" in caplog.text


def last_record(root):
    with CommitLog.open(root / "commitlog") as log:
        return [int(offset) for batch in log.scan(columns=["phy_offset"]) for offset in batch.phy_offset][-1]


def test_a_stop_of_a_broker_in_between_changes_nothing_about_it(base, parts):
    before = contents(base)
    kill_at_append(base, make_pieces(base, parts), 5)
    append_as_a_broker(base, 0)
    assert not (base / "abort").exists()
    rocketstore.open(base, "a").close()
    assert contents(base) == before


def test_reading_changes_nothing(base, parts):
    kill_at_append(base, make_pieces(base, parts), 5)
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    with rocketstore.open(base) as store:
        assert len(list(store.follow(poll=None))) == 25
        store.summary()
    recover(base, dry_run=True)
    verify(base)
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before


def committed_bodies(root):
    """What each reader gives of a store, one after the other, with damage left out or not."""
    yield bodies(root)
    with rocketstore.open(root) as store:
        for options in ({"on_corrupt": "skip"}, {"threads": 3}, {"batch_size": 7}):
            yield [message.body for batch in store.scan(**options) for message in batch]
        yield [message.body for batch in store.follow_batches(poll=None) for message in batch]


@pytest.mark.parametrize("damage", [None, 0, 1, 9, -1], ids=lambda damage: f"damage at {damage}")
def test_readers_give_no_record_of_a_write_that_was_ended(base, parts, damage):
    """The log ends where the write begins, also if records of the write stand behind damage."""
    before = bodies(base)
    kill_at_append(base, make_pieces(base, parts), 7)
    begin = WriteIntent.read(base).begin
    with CommitLog.open(base / "commitlog") as log:
        records = [int(at) for batch in log.scan(begin, columns=["phy_offset"]) for at in batch.phy_offset]
        file = log.file_run.find(records[damage or 0])
    if damage is not None:
        data = bytearray(file.path.read_bytes())
        position = records[damage] - file.file_from_offset
        data[position : position + 8] = bytes(8)
        file.path.write_bytes(data)
    for found in committed_bodies(base):
        assert found == before
    with rocketstore.open(base) as store:
        assert store.commit_log.max_phy_offset == store.summary().max_phy_offset == begin
        assert store.commit_log.look().records_end == begin
        assert not len(store.commit_log.find_messages(np.array(records))[0])
    rocketstore.open(base, "a").close()
    assert bodies(base) == before
    assert leftovers(base) == ([] if damage is None else ["rocketstore-cut"])


def test_records_of_others_behind_a_write_are_given(base, parts):
    kill_at_append(base, make_pieces(base, parts), 5)
    append_as_a_broker(base, 2)
    with CommitLog.open(base / "commitlog") as log:
        expected = [message.body for batch in log.scan() for message in batch]
    assert expected[-2:] == [b"broker 0", b"broker 1"]
    for found in committed_bodies(base):
        assert found == expected


def test_rebuild_undoes_a_write_too(base, parts):
    expected = bodies(base)
    kill_at_append(base, make_pieces(base, parts), 5)
    rocketstore.rebuild(base)
    assert bodies(base) == expected
    assert leftovers(base) == []
    assert [f for f in verify(base).findings if f.severity != "info"] == []


INTENT = {"job": "x", "begin": 0, "end": 1, "store_timestamp": 1, "append_prop_crc": False, "pieces": []}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"pieces": [[]]}',
        "[" * 100_000,
        {"job": "../../x"},
        {"begin": None},
        {"begin": "0"},
        {"begin": -1},
        {"end": 0.5},
        {"end": 2**63},
        {"pieces": [["a", "1", 1, 1, 1]]},
        {"other": 1},
    ],
)
def test_an_intent_that_is_none_is_an_error_and_changes_nothing(base, text):
    intent_path(base).write_text(text if isinstance(text, str) else json.dumps(INTENT | text))
    before = contents(base)
    with pytest.raises(CorruptFileError, match="remove it to keep the log unchanged"):
        rocketstore.open(base, "a")
    assert contents(base) == before


# ---- deleted leftovers --------------------------------------------------------------------------------------


def test_the_next_write_deletes_prepared_rows_of_killed_jobs_and_keeps_those_of_living_jobs(base, parts):
    old, new = prepared_path(base, "dead"), prepared_path(base, "alive")
    for directory in (old, new):
        directory.mkdir()
        (directory / "1.tmp").touch()
    (base / "rocketstore-intent.json.tmp-7").touch()
    week_ago = time.time() - write_job.ABANDONED - 60
    for path in (old / "1.tmp", old, new):  # the last one has a file that is being written
        os.utime(path, (week_ago, week_ago))
    write_into(base, JOB, make_pieces(base, parts), TIME)
    assert leftovers(base) == [new.name]


def test_blocks_are_read_as_they_were_written(tmp_path, parts):
    pieces = make_pieces(tmp_path, parts)
    blocks = [block for piece in pieces for block in read_blocks(prepared_path(tmp_path, JOB), piece)]
    assert sum(len(block.encoded) for block in blocks) == sum(piece.records for piece in pieces)
    assert [len(block.data) for block in blocks] == [int(block.encoded["size"].sum()) for block in blocks]
    with pytest.raises(StoreError, match="bytes were written"):
        list(read_blocks(prepared_path(tmp_path, JOB), pieces[0]._replace(file_size=1)))

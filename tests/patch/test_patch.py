"""Records in place of damaged ones: what they are, and that everything else stays as it was."""

import json
import os
import random
import shutil

import pytest
from support.broker_tables import extend_topics
from support.damaged_log import BORN, CONFIG, CRC_CONFIG, LOG_SIZE, bytes_of, damage, make_log, overwrite, read_rows

import rocketstore
from rocketstore import Message, StoreLockedError, UnsupportedFormatError
from rocketstore.messages.damaged import DAMAGED_FLAG, FILLER_TOPIC


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("sound") / "store"
    return root, make_log(root, random.Random(7))


@pytest.fixture
def store(sound, tmp_path):
    """A copy of a sound store, and its messages."""
    root, rows = sound
    return shutil.copytree(root, tmp_path / "store"), rows


def check_patched(root, rows, lost):
    """Everything but the lost messages is as before, and the store is sound. ``recover`` cuts bytes behind the log."""
    report = rocketstore.verify(root)
    assert [finding for finding in report.findings if finding.severity != "info" and finding.kind != "log-tail"] == []
    after = {row.phy_offset: row for row in read_rows(root)}
    for row in rows:
        if row.phy_offset in lost:
            assert after[row.phy_offset].place == row.place
            assert after[row.phy_offset].body.strip(b" ") == b""
            assert after[row.phy_offset].flag == DAMAGED_FLAG
        else:
            assert after[row.phy_offset] == row
    fillers = [row for at, row in after.items() if at not in {row.phy_offset for row in rows}]
    assert {row.flag for row in fillers} <= {DAMAGED_FLAG}


def check_drawn(root, rng, config):
    rows = make_log(root, rng, config=config)
    for _ in range(rng.randint(1, 4)):
        damage(root, rng, rows)
    before = rocketstore.verify(root)
    report = rocketstore.patch(root)
    assert report.refused == ()
    assert tuple(report.lost) == tuple(before.lost)
    check_patched(root, rows, {message.phy_offset for message in report.lost})
    files = bytes_of(root)
    again = rocketstore.patch(root)
    assert (again.ranges, again.lost, again.saved) == (0, (), ())
    assert bytes_of(root) == files


@pytest.mark.parametrize("number", range(8))
def test_every_sound_message_stays_where_it_was(tmp_path, seed, number):
    check_drawn(tmp_path / "store", random.Random(f"{seed} {number}"), CRC_CONFIG if number % 3 == 0 else CONFIG)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8, 400))
def test_every_sound_message_stays_where_it_was_again(tmp_path, seed, number):
    check_drawn(tmp_path / "store", random.Random(f"{seed} {number}"), CRC_CONFIG if number % 3 == 0 else CONFIG)


def test_a_lost_message_is_named(store):
    root, rows = store
    row = next(row for row in rows[1:] if row.tags and row.keys and len(row.body) == 300)
    at = rows.index(row)
    overwrite(root, row.phy_offset, bytes(30))
    (lost,) = rocketstore.verify(root).lost
    assert lost[:5] == row.place
    assert (lost.tags, lost.messages, lost.problem) == (row.tags, 1, None)
    assert row.keys[0] in lost.keys
    assert lost.previous_store_timestamp == rows[at - 1].store_timestamp
    assert lost.next_store_timestamp == rows[at + 1].store_timestamp
    assert rocketstore.patch(root, dry_run=True).lost == (lost,)
    assert rocketstore.patch(root).lost == (lost,)


def test_a_key_whose_bytes_are_lost_is_known_by_its_hash(store):
    root, rows = store
    row = next(row for row in rows if row.keys)
    overwrite(root, row.phy_offset, bytes(row.size))
    (lost,) = rocketstore.verify(root).lost
    assert lost.keys == ()
    assert int(rocketstore.hash_keys(row.keys, topic=row.topic)[0]) in lost.key_hashes


def test_an_index_that_cannot_be_read_is_named(store):
    root, rows = store
    row = next(row for row in rows if row.keys)
    overwrite(root, row.phy_offset, bytes(row.size))
    assert rocketstore.patch(root, dry_run=True).notes == ()
    path = sorted((root / "index").iterdir())[0]
    with path.open("r+b") as file:
        file.seek(36)
        file.write(b"\x7f" * 4)  # the number of items
    report = rocketstore.patch(root)
    assert [message.key_hashes for message in report.lost] == [()]
    (note,) = report.notes
    assert "keys of lost messages may be unknown" in note
    assert path.name in note
    assert note in repr(report)


def test_a_patched_message_has_the_tags_and_the_mark(store):
    root, rows = store
    row = next(row for row in rows[1:] if row.tags and len(row.body) == 300)
    overwrite(root, row.phy_offset, bytes(row.size))
    rocketstore.patch(root)
    with rocketstore.open(root) as opened:
        message = opened.commit_log.get_message(row.phy_offset)
        (pulled,) = opened.get_message(row.topic, row.queue_id, row.queue_offset, 1).messages
    assert message.properties == {"DAMAGED": "1", "TAGS": row.tags}
    assert (pulled.msg_id, pulled.body.strip()) == (row.msg_id, b"")
    assert message.store_timestamp == rows[rows.index(row) - 1].store_timestamp


def test_the_mark_is_short_where_there_is_no_room(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        puts = [store.put_message(Message("T", b"x" * size)) for size in (50, 5, 1, 0, 50)]
    for put in puts[1:4]:
        overwrite(root, put.phy_offset, bytes(20))
    assert len(rocketstore.patch(root).lost) == 3
    with rocketstore.open(root) as store:
        found = [store.commit_log.get_message(put.phy_offset) for put in puts[1:4]]
    assert [message.properties for message in found] == [{"D": "1"}, {}, {}]
    assert [message.flag for message in found] == [DAMAGED_FLAG] * 3
    assert rocketstore.verify(root).ok


def test_bytes_that_no_unit_names_become_fillers(store):
    root, rows = store
    row = next(row for row in rows[5:] if len(row.body) == 300)
    queue = root / "consumequeue" / row.topic / str(row.queue_id)
    others = [one for one in rows if (one.topic, one.queue_id) == (row.topic, row.queue_id)]
    overwrite(root, row.phy_offset, bytes(row.size))
    with (queue / f"{0:020}").open("r+b") as file:  # the queue has other records alone: one of two equal units
        file.seek(row.queue_offset * 20)
        file.write(bytes(8) + b"\x7f\xff\xff\xff" + bytes(8))
    report = rocketstore.patch(root)
    assert (report.ranges, report.fillers, report.lost) == (1, 1, ())
    with rocketstore.open(root) as opened:
        filler = opened.commit_log.get_message(row.phy_offset)
        assert (filler.topic, filler.size, filler.properties) == (FILLER_TOPIC, row.size, {"DAMAGED": "1"})
        assert FILLER_TOPIC not in {name for name, _ in opened.queues()}
    assert len(others) > 1


def test_the_last_record_has_the_time_of_the_checkpoint(store):
    root, rows = store
    path = root / "checkpoint"
    data = bytearray(path.read_bytes())
    data[:16] = (rows[-1].store_timestamp + 5).to_bytes(8, "big") * 2
    path.write_bytes(data)
    overwrite(root, rows[-2].phy_offset, bytes(rows[-2].size + rows[-1].size))
    assert [message.phy_offset for message in rocketstore.verify(root).lost] == [row.phy_offset for row in rows[-2:]]
    rocketstore.patch(root)
    times = [row.store_timestamp for row in read_rows(root)[-3:]]
    assert times == [rows[-3].store_timestamp, rows[-3].store_timestamp, rows[-1].store_timestamp + 5]
    check_patched(root, rows, {row.phy_offset for row in rows[-2:]})
    assert rocketstore.verify(root).damaged == ()


def test_the_old_bytes_are_saved(store):
    root, rows = store
    row = rows[10]
    overwrite(root, row.phy_offset, b"\x01" * row.size)
    (path,) = rocketstore.patch(root).saved
    assert path.parent == root / "rocketstore-cut"
    assert path.name.endswith(f"-{row.phy_offset:020}")
    assert path.read_bytes() == b"\x01" * row.size


def test_a_dry_run_changes_nothing(store):
    root, rows = store
    overwrite(root, rows[10].phy_offset, bytes(50))
    (root / "lock").unlink(missing_ok=True)
    before = bytes_of(root)
    report = rocketstore.patch(root, dry_run=True)
    assert (report.dry_run, report.ranges, len(report.lost), report.saved) == (True, 1, 1, ())
    assert bytes_of(root) == before
    assert not (root / "lock").exists()


def test_the_report_of_verify_saves_a_second_reading(store, monkeypatch):
    root, rows = store
    overwrite(root, rows[10].phy_offset, bytes(50))
    report = rocketstore.verify(root)
    monkeypatch.setattr(rocketstore.verify.__globals__["Verification"], "run", None)
    assert rocketstore.patch(root, report=report).ranges == 1
    assert rocketstore.patch(root, report=report).ranges == 0


def test_the_report_of_a_quick_verification_is_refused(store):
    root, _ = store
    with pytest.raises(ValueError, match="quick verification"):
        rocketstore.patch(root, report=rocketstore.verify(root, quick=True))


def test_a_store_that_is_being_written_is_refused(store):
    root, rows = store
    overwrite(root, rows[10].phy_offset, bytes(50))
    lock = (root / "lock").open("a")
    from rocketstore.state.lock_file import StoreLock

    lock.close()
    held = StoreLock(root / "lock")
    held.acquire()
    try:
        with pytest.raises(StoreLockedError):
            rocketstore.patch(root)
    finally:
        held.release()


# ---- damage that stays -------------------------------------------------------------------------------------


def test_units_that_contradict_each_other_are_refused(store):
    root, rows = store
    row = rows[10]
    overwrite(root, row.phy_offset, bytes(50))
    path = root / "consumequeue" / row.topic / str(row.queue_id) / f"{0:020}"
    with path.open("r+b") as file:
        file.seek(row.queue_offset * 20 + 8)
        file.write((row.size + 1).to_bytes(4, "big"))
    before = bytes_of(root)
    report = rocketstore.patch(root)
    (refused,) = report.refused
    assert (refused.phy_offset, report.ranges) == (row.phy_offset, 0)
    assert "leads beyond" in refused.reason
    assert report.lost[0].problem == refused.reason
    assert {name for name, data in bytes_of(root).items() if before.get(name) != data} == set()


def make_store_with(topic, root, **values):
    """Make a store with a message of a topic between two others; return the place of its record."""
    with rocketstore.open(root, "a", config=CONFIG) as store:
        messages = [Message("T", b"first"), Message(topic, b"x" * 200, **values), Message("T", b"last")]
        return [store.put_message(message, store_timestamp=BORN) for message in messages][1].phy_offset


@pytest.mark.parametrize(
    "topic", ["RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", "rmq_sys_SYNC_BROKER_MEMBER_x"]
)
def test_messages_of_services_without_a_proof_are_refused(tmp_path, topic):
    root = tmp_path / "store"
    overwrite(root, make_store_with(topic, root), bytes(50))
    (refused,) = rocketstore.patch(root).refused
    assert f"a broker reads the records of {topic} itself" in refused.reason
    (finding,) = (one for one in rocketstore.verify(root).findings if one.kind.startswith("log-zeros"))
    assert finding.mend == "salvage --out NEW"


def test_messages_of_compacted_topics_are_refused(tmp_path):
    root = tmp_path / "store"
    (root / "config").mkdir(parents=True)
    table = {"State": {"topicName": "State", "attributes": {"cleanup.policy": "COMPACTION"}}}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    overwrite(root, make_store_with("State", root, keys=["k"]), bytes(50))
    (refused,) = rocketstore.patch(root).refused
    assert "a broker compacts State by the keys of its messages" in refused.reason
    (finding,) = (one for one in rocketstore.verify(root).findings if one.kind.startswith("log-zeros"))
    assert finding.mend == "salvage --out NEW"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("dledger", "the commit log is DLedger's"),
        ("rocksdb-cq", "the queues are, or may be, in RocksDB"),
        ("config-v2", "the broker's topics and consumer offsets are in RocksDB"),
    ],
)
def test_a_store_in_other_formats_is_refused_with_what_works(root_of, tmp_path, name, part):
    advice = "patch writes only into files: salvage --out NEW copies the sound messages into a new store"
    with pytest.raises(UnsupportedFormatError, match=f"{part}, and {advice}"):
        rocketstore.patch(root_of(name), dry_run=True)
    assert rocketstore.salvage(root_of(name), tmp_path / "new", dry_run=True).records > 0


SERVICE_RECORDS = {
    "RMQ_SYS_TRANS_HALF_TOPIC": {"TRANSACTION_CHECK_TIMES": "2147483647"},
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": {"TAGS": "d"},
    "rmq_sys_REVIVE_LOG_x": {},
    "rmq_sys_wheel_timer": {
        "REAL_TOPIC": "rmq_sys_wheel_timer",
        "REAL_QID": "0",
        "TIMER_OUT_MS": str(BORN),
        "TIMER_DEL_UNIQKEY": "-",
    },
}  # by topic, besides the mark; interop/test_patch_services.py proves that they have no effect


@pytest.mark.parametrize("topic", SERVICE_RECORDS)
def test_messages_that_a_broker_reads_itself_become_records_without_effect(tmp_path, topic):
    root = tmp_path / "store"
    at = make_store_with(topic, root, tags="d" if "_OP_" in topic else "ck", queue_id=0)
    overwrite(root, at, bytes(50))
    report = rocketstore.patch(root)
    assert (report.refused, [message.topic for message in report.lost]) == ((), [topic])
    assert [finding for finding in rocketstore.verify(root).findings if finding.severity == "error"] == []
    with rocketstore.open(root) as store:
        message = store.commit_log.get_message(at)
        assert message.properties == {"DAMAGED": "1", **SERVICE_RECORDS[topic]}
        assert list(store.pending()) == []


def test_an_op_message_keeps_a_body_where_there_is_no_room(tmp_path):
    root = tmp_path / "store"
    topic = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        puts = [store.put_message(Message(topic, b"7" * size, tags="d")) for size in (1, 4, 5, 1)]
    for put in puts[:3]:
        overwrite(root, put.phy_offset, bytes(20))
    assert len(rocketstore.patch(root).lost) == 3
    with rocketstore.open(root) as store:
        found = [store.commit_log.get_message(put.phy_offset) for put in puts[:3]]
    assert [message.body for message in found] == [b" ", b"    ", b" "]
    assert [message.properties.get("D") for message in found] == [None, None, "1"]


def test_verify_advises_patch_where_it_is_possible(store):
    root, rows = store
    overwrite(root, rows[10].phy_offset, bytes(50))
    report = rocketstore.verify(root)
    assert {finding.mend for finding in report.findings if finding.severity == "error"} == {"patch"}


# ---- kill -9 ------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ended here."""


@pytest.fixture(scope="module")
def damaged(sound, tmp_path_factory):
    """A damaged store, and the same store after one patch."""
    root, rows = sound
    damaged = shutil.copytree(root, tmp_path_factory.mktemp("damaged") / "store")
    end = LOG_SIZE
    overwrite(damaged, end - 700, b"\x07" * 1500)
    overwrite(damaged, rows[-30].phy_offset, bytes(200))
    patched = shutil.copytree(damaged, damaged.parent / "patched")
    rocketstore.patch(patched)
    return damaged, patched


@pytest.mark.parametrize("number", range(0, 24, 2))
def test_a_patch_that_was_killed_can_be_repeated(damaged, tmp_path, monkeypatch, number):
    source, patched = damaged
    root = shutil.copytree(source, tmp_path / "store")
    calls, write = iter(range(1000)), os.pwrite

    def pwrite(fd, data, position):
        if next(calls) == number:
            write(fd, bytes(data)[: len(data) // 2], position)
            raise Killed
        return write(fd, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    killed = False
    try:
        rocketstore.patch(root)
    except Killed:
        killed = True
    monkeypatch.undo()
    rocketstore.patch(root)
    logs = [
        {name: data for name, data in bytes_of(one).items() if name.startswith("commitlog")} for one in (root, patched)
    ]
    assert logs[0] == logs[1]
    assert killed or number > 10


def test_patched_messages_have_the_column_damaged(store):
    root, rows = store
    overwrite(root, rows[10].phy_offset, bytes(50))
    rocketstore.patch(root)
    with rocketstore.open(root) as opened:
        batches = list(opened.scan(columns=["phy_offset", "damaged"]))
        found = [at for batch in batches for at in batch.phy_offset[batch.damaged].tolist()]
        assert [message.damaged for message in batches[0][9:12]] == [False, True, False]
        assert opened.commit_log.get_message(rows[10].phy_offset).damaged
    assert found == [rows[10].phy_offset]


def test_the_column_damaged_is_in_tables(store):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    root, rows = store
    overwrite(root, rows[10].phy_offset, bytes(50))
    rocketstore.patch(root)
    with rocketstore.open(root) as opened:
        table = pyarrow.table(opened.scan(columns=["damaged"]))
        dataset = opened.dataset(columns=["phyOffset", "damaged"])
        chosen = dataset.to_table(filter=pyarrow.compute.field("damaged"))
    assert table.schema.field("damaged").type == pyarrow.bool_()
    assert sum(table["damaged"].to_pylist()) == 1
    assert chosen["phyOffset"].to_pylist() == [rows[10].phy_offset]


# ---- heads in which one place changed --------------------------------------------------------------------------


@pytest.mark.parametrize("place", [15, 13, 27, 20])
def test_a_changed_queue_or_queue_offset_is_corrected(store, place):
    root, rows = store
    row = next(row for row in rows[10:] if row.queue_offset > 1)
    byte = read_byte(root, row.phy_offset + place)
    overwrite(root, row.phy_offset + place, bytes([byte ^ 2]))
    before = rocketstore.verify(root)
    assert {finding.mend for finding in before.findings if finding.severity == "error"} == {"patch"}
    report = rocketstore.patch(root)
    (corrected,) = report.corrected
    assert corrected[:5] == (row.phy_offset, row.size, *row.place[:3])
    assert (report.lost, len(report.saved)) == ((), 1)
    assert read_rows(root) == rows
    check_patched(root, rows, set())
    assert rocketstore.patch(root).ranges == 0


def read_byte(root, phy_offset):
    data = (root / "commitlog" / f"{phy_offset // LOG_SIZE * LOG_SIZE:020}").read_bytes()
    return data[phy_offset % LOG_SIZE]


def test_a_changed_topic_is_corrected(store):
    root, rows = store
    row = next(row for row in rows[10:] if row.topic == "Audit" and row.queue_offset > 0)
    at = row.phy_offset + 88 + len(row.body) + 1
    assert read_byte(root, at) == ord("A")
    overwrite(root, at, b"B")
    assert rocketstore.patch(root).corrected[0].topic == "Audit"
    assert read_rows(root) == rows
    check_patched(root, rows, set())


def test_a_wrong_unit_changes_no_record(store):
    root, rows = store
    row, other = (next(row for row in rows[at:] if row.queue_offset == 2) for at in (10, 30))
    path = root / "consumequeue" / row.topic / str(row.queue_id) / f"{0:020}"
    with path.open("r+b") as file:
        file.seek(row.queue_offset * 20)
        file.write(other.phy_offset.to_bytes(8, "big") + other.size.to_bytes(4, "big"))
    assert not rocketstore.verify(root).ok
    report = rocketstore.patch(root)
    assert (report.ranges, report.corrected) == (0, ())
    assert read_rows(root) == rows


# ---- batch queues ----------------------------------------------------------------------------------------------


def test_a_lost_inner_batch_has_as_many_marked_messages(tmp_path):
    root = tmp_path / "store"
    extend_topics(root, {"Inner": 1}, {"Inner": "BatchCQ"})
    with rocketstore.open(root, "a", config=CONFIG) as store:
        puts = [
            store.put_message(
                Message.batch("Inner", [Message("Inner", f"{number} {i}".encode()) for i in range(5)], queue_id=0),
                store_timestamp=BORN + number,
            )
            for number in range(3)
        ]
    overwrite(root, puts[1].phy_offset, bytes(60))
    (lost,) = rocketstore.patch(root).lost
    assert lost[:6] == ("Inner", 0, 5, puts[1].phy_offset, lost.size, 5)
    report = rocketstore.verify(root)
    assert [finding for finding in report.findings if finding.severity != "info"] == []
    with rocketstore.open(root) as store:
        batch = store.commit_log.get_message(puts[1].phy_offset)
        messages = batch.decode_batch()
    assert (batch.store_timestamp, batch.damaged) == (BORN + 1, True)
    assert [message.queue_offset for message in messages] == [5, 6, 7, 8, 9]
    assert {(message.body.strip(), message.damaged) for message in messages} == {(b"", True)}

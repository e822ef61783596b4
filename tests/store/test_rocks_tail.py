"""Units that a broker has only in its memory are built from the log, from the checkpoint of RocksDB on."""

import functools
import shutil
import struct

import pytest
from support import brokers, cli, rocks
from support.repetitions import only_some_quick

import rocketstore
from rocketstore.dispatch import unit_builder
from rocketstore.queue.rocks_consume_queue import RocksConsumeQueue


@pytest.fixture(scope="module")
def unpacked(root_of):
    found = {}

    def unpack(name):
        if name not in found:
            root = root_of(name)
            found[name] = root, rocks.rows_of(directory_of(root))
        return found[name]

    return unpack


def directory_of(root):
    separate = root / "consumequeue_rocksdb"
    return separate if separate.is_dir() else root / "consumequeue"


@pytest.fixture
def cut_store(unpacked, tmp_path):
    """A function that copies a store without the units of its last records. Parameters: part: as for without_tail."""

    def cut(name, part):
        root, rows = unpacked(name)
        copy = shutil.copytree(root, tmp_path / f"{name}-{part}")
        units, ends = rocks.without_tail(rows["default"], part)
        rocks.replace_rocksdb(directory_of(copy), {"default": units, "offset": ends})
        return copy

    return cut


def answers(root):
    """What readers get from the queues of a store."""
    with rocketstore.open(root) as store:
        queues = {queue: store.consume_queue(*queue) for queue in store.queues()}
        times = [time for batch in store.scan() for time in batch.store_timestamp.tolist()]
        return {
            "units": {queue: [*units] for queue, units in queues.items()},
            "spans": {queue: (units.min_queue_offset, units.max_queue_offset) for queue, units in queues.items()},
            "messages": {
                queue: [message.phy_offset for message in store.get_message(*queue, 3, 100).messages]
                for queue in queues
            },
            "by time": {
                (queue, time): store.get_offset_by_time(queue.topic, time, queue.queue_id)
                for queue in queues
                for time in times[:: len(times) // 4]
            },
            "lag": [*store.consumer_lag()],
            "topics": sorted({queue.topic for queue in queues}),
            "count": store.summary().messages,
        }


@pytest.fixture(scope="module")
def answers_of(unpacked):
    return functools.cache(lambda name: answers(unpacked(name)[0]))


@pytest.mark.parametrize(
    ("name", "part"),
    only_some_quick(
        [("rocksdb-cq", 0.5), ("rocksdb-cq", 0.0), ("rocksdb-cq-separate", 0.97), ("lite-rocksdb", 0.5)],
        ("rocksdb-cq", 0.0),
        ("rocksdb-cq-separate", 0.97),
    ),
)
def test_answers_are_those_of_the_store_with_all_units(unpacked, cut_store, answers_of, name, part):
    assert answers(cut_store(name, part)) == answers_of(name)


def test_a_note_counts_the_units_that_are_built(cut_store):
    root = cut_store("rocksdb-cq", 0.5)
    with rocketstore.open(root) as store:
        (note,) = store.summary().notes
        (found,) = store.describe_built_units()
        assert store.describe_missing_units() == []
    assert note == found
    assert "184 units of the messages from byte" in note
    assert "are built from the log: their units were only in the memory of a broker" in note


def test_a_complete_rocksdb_has_no_note(unpacked):
    with rocketstore.open(unpacked("rocksdb-cq")[0]) as store:
        assert store.summary().notes == []


def test_commands_show_messages_of_the_tail_and_the_note(cut_store):
    root = cut_store("rocksdb-cq", 0.5)
    got = cli.run("get", root, "Plain", 0, 0, "--limit", 1000, "--format", "json")
    assert len(got.stdout.splitlines()) == sum(place[0] == 0 for place in brokers.rows("rocksdb-cq", "Plain"))
    assert "are built from the log" in got.stderr


@pytest.mark.parametrize("words", [["pending"], ["dlq"], ["dlq", "--retry"]])
def test_pending_and_dead_messages_note_units_that_are_built(cut_store, words):
    name, *options = words
    result = cli.run(name, cut_store("rocksdb-cq", 0.5), *options)
    assert "are built from the log" in result.stderr
    assert result.exit_code == 0


@pytest.mark.parametrize("limit", ["MAX_UNITS", "MAX_LOG"])
def test_a_tail_that_is_too_long_is_left_out_and_the_note_says_so(cut_store, monkeypatch, limit):
    root = cut_store("rocksdb-cq", 0.5)
    monkeypatch.setattr(unit_builder, limit, 10)
    with rocketstore.open(root) as store:
        assert store.summary().messages == 184
        (note,) = store.describe_missing_units()
        assert "are not in the queues" in note
        assert "more than 10" in note


def test_units_before_damage_in_the_log_are_found(cut_store):
    root = cut_store("rocksdb-cq", 0.5)
    with rocketstore.open(root) as store:
        places = [offset for batch in store.scan() for offset in batch.phy_offset.tolist()]
    (file,) = (root / "commitlog").iterdir()
    with file.open("r+b") as opened:
        opened.seek(places[300] + 4)
        opened.write(b"\1\2\3\4")
    with rocketstore.open(root) as store:
        assert store.summary().messages == 300


@pytest.mark.parametrize("checkpoint", [-1, 7, 1 << 62, None])
def test_a_wrong_checkpoint_hides_no_unit_of_rocksdb(unpacked, answers_of, tmp_path, checkpoint):
    root, rows = unpacked("rocksdb-cq")
    copy = shutil.copytree(root, tmp_path / "store")
    ends = {**rows["offset"]}
    key = rocks.end_key("CHECKPOINT_TOPIC", 0)
    del ends[key]
    if checkpoint is not None:
        ends[key] = struct.pack(">q", checkpoint)
    rocks.replace_rocksdb(directory_of(copy), {"default": rows["default"], "offset": ends})
    assert answers(copy) == answers_of("rocksdb-cq")


def test_a_topic_that_was_created_again_in_the_tail_has_only_its_new_messages(unpacked, tmp_path):
    root, rows = unpacked("rocksdb-cq")
    copy = shutil.copytree(root, tmp_path / "store")
    units, ends = rocks.without_tail(rows["default"], 0.5)
    name = rocks.topic_key("Plain") + struct.pack(">i", 0) + b"\x01"
    older = sorted(key for key in units if key.startswith(name))
    raised = {rocks.unit_key("Plain", 0, 5000 + number): units.pop(key) for number, key in enumerate(older)}
    last = rocks.UNIT.unpack(raised[max(raised)])[0]
    ends[rocks.end_key("Plain", 0, b"min")] = rocks.PLACE.pack(0, 5000)
    ends[rocks.end_key("Plain", 0)] = rocks.PLACE.pack(last, 5000 + len(older) - 1)
    rocks.replace_rocksdb(directory_of(copy), {"default": units | raised, "offset": ends})
    with rocketstore.open(copy) as store:
        queue = store.consume_queue("Plain", 0)
        assert isinstance(queue, RocksConsumeQueue)
        assert (queue.min_queue_offset, queue[:].queue_offsets.tolist()[0]) == (len(older), len(older))
        assert queue.max_queue_offset < 5000


def test_new_units_are_found_while_a_broker_writes(cut_store):
    root = cut_store("rocksdb-cq", 0.5)
    with rocketstore.open(root) as store:
        expected = answers(root)["spans"]
        (file,) = (root / "commitlog").iterdir()
        whole = file.read_bytes()
        places = [offset for batch in store.scan() for offset in batch.phy_offset.tolist()]
    (root / "abort").touch()
    file.write_bytes(whole[: places[300]] + bytes(len(whole) - places[300]))
    with rocketstore.open(root) as store:
        queue = store.consume_queue("Plain", 0)
        assert queue.max_queue_offset < expected["Plain", 0][1]
        file.write_bytes(whole)
        assert queue.max_queue_offset == expected["Plain", 0][1]

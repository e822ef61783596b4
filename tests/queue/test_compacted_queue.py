"""CompactedQueue: what consumers of a compacted topic get is what the Java client got."""

import json
import random
import shutil
import struct

import pytest
from support import states
from support.cli import run

import rocketstore
from rocketstore import CorruptFileError, StoreConfig, StoreError
from rocketstore.verify import compaction

TOPIC = "Settings"
UNIT = struct.Struct(">qiqqqhii")


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return states.unpack("compaction", tmp_path_factory.mktemp("states"))


@pytest.fixture
def root(golden, tmp_path):
    return shutil.copytree(golden, tmp_path / "store")


@pytest.fixture(scope="module")
def rows():
    """What the client got, by queue id and queue offset."""
    got = states.truth("compaction")["consumedBeforeStop"]["rows"]
    return {(row["queueId"], row["queueOffset"]): states.row_of(row) for row in got}


def read(store, queue_id, step):
    offset = 0
    while (found := store.get_message(TOPIC, queue_id, offset, step)).status == "FOUND":
        yield from found.messages
        offset = found.next_begin_offset


def units_file(root, queue_id=0, number=0):
    return sorted((root / f"compaction/compactionCq/{TOPIC}/{queue_id}").iterdir())[number]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_messages_are_those_that_the_client_got(golden, rows, step):
    with rocketstore.open(golden) as store:
        messages = [message for queue_id in (0, 1) for message in read(store, queue_id, step)]
    assert {(each.queue_id, each.queue_offset): states.cells_of(each) for each in messages} == rows
    assert len(messages) == len(rows) == 39


def test_bounds_are_those_of_the_broker(golden):
    with rocketstore.open(golden) as store:
        for queue in states.truth("compaction")["consumedBeforeStop"]["queues"]:
            found = store.consume_queue(TOPIC, queue["queueId"])
            assert (found.min_queue_offset, found.max_queue_offset) == (queue["min"], queue["max"])
        assert store.get_message(TOPIC, 0, 0).min_offset == 83  # the client's MIN_OFFSET of a pull


def test_a_replaced_offset_stands_for_the_next_message(golden, rows):
    offsets = sorted(offset for queue_id, offset in rows if queue_id == 0)
    with rocketstore.open(golden) as store:
        queue = store.consume_queue(TOPIC, 0)
        assert [unit.queue_offset for unit in queue] == offsets
        for offset in range(queue.max_queue_offset):
            following = [each for each in offsets if each >= offset]
            assert queue[offset].queue_offset == following[0]
            assert queue[offset : offset + 5].queue_offsets.tolist() == [o for o in following if o < offset + 5]
        assert queue[-1].queue_offset == offsets[-1]
        for offset in (queue.max_queue_offset, 1 << 62, -1000):
            with pytest.raises(IndexError, match="no unit"):
                queue[offset]
        sizes = [rows[0, offset]["size"] for offset in offsets]
        assert queue.count_bytes(0, 1 << 62) == sum(sizes)
        assert len(queue) == len(sizes)


def test_offsets_by_time_are_those_of_the_messages(golden, rows):
    times = {offset: row["storeTimestamp"] for (queue_id, offset), row in rows.items() if queue_id == 0}
    with rocketstore.open(golden) as store:
        for time in {0, *times.values(), *(time + 1 for time in times.values())}:
            later = min((offset for offset, at in times.items() if at >= time), default=114)
            earlier = max((offset for offset, at in times.items() if at <= time), default=0)
            for boundary, expected in (("lower", later), ("upper", earlier)):
                assert store.get_offset_by_time(TOPIC, time, 0, boundary, exact_times=True) == expected


def test_the_log_still_has_all_messages(golden):
    sent = states.truth("compaction")["sent"]
    with rocketstore.open(golden) as store:
        stored = {(row["queueId"], row["queueOffset"]) for row in sent if "queueOffset" in row}
        found = {(each.queue_id, each.queue_offset) for batch in store.scan(topic=TOPIC) for each in batch}
        assert found <= stored
        assert len(found) == len(store.log_queue(TOPIC, 0)) + len(store.log_queue(TOPIC, 1)) == 239


def test_scans_and_queries_give_what_consumers_get_on_request(golden, rows):
    with rocketstore.open(golden, compacted=True) as store:
        found = {(each.queue_id, each.queue_offset): states.cells_of(each) for batch in store.scan() for each in batch}
        assert found == rows
        assert store.scan(columns="body").count() == 39
        assert [message.queue_offset for batch in store.scan(queue_ids=1) for message in batch][:2] == [102, 103]
        messages = store.query_message(TOPIC, "k8")
        assert (messages.complete, messages.has_more) == (True, False)
        one = store.query_message(TOPIC, "k8", 1)
        assert (one[:].queue_offset.tolist(), one.has_more) == (messages[:1].queue_offset.tolist(), len(messages) > 1)
        expected = {place for place, row in rows.items() if row["keys"] == "k8"}
        assert {(each.queue_id, each.queue_offset) for each in messages} == expected
        assert messages.complete
    with rocketstore.open(golden) as store:
        assert store.scan().count() == 239
        assert len(store.query_message(TOPIC, "k8")) > len(expected)


def test_cat_shows_what_consumers_get_on_request(golden):
    assert len(run("cat", golden).stdout.splitlines()) == 239
    assert len(run("cat", golden, "--compacted").stdout.splitlines()) == 39
    assert "is compacted" in run("cat", golden, "--limit", "1").stderr
    for words in (["cat"], ["query", "--key", "k8"]):
        assert "is compacted" not in run(words[0], golden, "--compacted", *words[1:]).stderr


def test_a_topic_made_again_without_compaction_is_read_from_the_log(root):
    path = root / "config" / "topics.json"
    table = json.loads(path.read_text())
    table["topicConfigTable"][TOPIC]["attributes"] = {}
    path.write_text(json.dumps(table))
    with rocketstore.open(root) as store:
        assert len(store.consume_queue(TOPIC, 0)) == 114


def test_a_broker_without_compaction_is_read_from_the_log(root):
    (root / "broker.conf").write_text("enableCompaction=false\nmappedFileSizeConsumeQueue=2000\n")
    with rocketstore.open(root, config=StoreConfig.from_broker_conf(root / "broker.conf")) as store:
        assert len(store.consume_queue(TOPIC, 0)) == 114


def test_lag_counts_to_the_end_of_the_compacted_queue(root):
    table = {"offsetTable": {f"{TOPIC}@readers": {0: 90, 1: 125}}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps(table))
    with rocketstore.open(root) as store:
        first, second = store.consumer_lag("readers")
    assert (first.lag, first.oldest_timestamp) == (24, 1795812236327)
    assert (second.lag, second.oldest_timestamp) == (0, None)


def test_units_end_at_the_first_invalid_one_of_each_file(root):
    path = units_file(root)
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 46 + 8, 0)
    path.write_bytes(data)
    with rocketstore.open(root) as store:
        assert [unit.queue_offset for unit in store.consume_queue(TOPIC, 0)][:2] == [83, 95]


def test_a_unit_without_its_record_gives_no_message(root):
    path = units_file(root)
    data = bytearray(path.read_bytes())
    for row, position in enumerate((1 << 62, 1301, 5)):
        struct.pack_into(">q", data, 46 * row, position)
    path.write_bytes(data)
    with rocketstore.open(root) as store:
        found = store.get_message(TOPIC, 0, 0, 4)
        assert 94 in [message.queue_offset for message in found.messages]
    kinds = [(each.kind, each.offset) for each in rocketstore.verify(root).findings]
    assert kinds == [("compaction-unit", 0), ("compaction-unit", 46), ("compaction-unit", 92)]
    shown = run("get", root, TOPIC, "0", "0", "--limit", "4")
    assert shown.exit_code == 1
    assert f"offset 83: the record at physical offset {1 << 62} cannot be read: its log is" in shown.stderr


@pytest.mark.parametrize("part", ["compactionCq", "compactionLog"])
def test_verify_names_files_and_queues_without_their_other_part(root, part):
    queue = root / "compaction" / part / TOPIC
    sorted((queue / "0").iterdir())[0].unlink()
    shutil.rmtree(queue / "1")
    found = {each.kind for each in rocketstore.verify(root).findings}
    assert {"compaction-file-missing", "compaction-queue-missing"} <= found


def test_verify_checks_the_bodies_of_a_compacted_log(root):
    path = sorted((root / f"compaction/compactionLog/{TOPIC}/0").iterdir())[1]
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(data)
    (finding,) = rocketstore.verify(root).findings
    assert (finding.kind, finding.path, finding.offset) == ("compaction-unit", units_file(root, 0, 1), 0)
    assert "82800" in finding.detail


def test_quick_verification_compares_some_units(root, monkeypatch):
    read, find = [], compaction.find_bad_units

    def count(log, units, queue):
        read.append(len(units))
        return find(log, units, queue)

    monkeypatch.setattr(compaction, "find_bad_units", count)
    assert not rocketstore.verify(root, quick=True).findings
    assert set(read) == {1}
    assert len(read) <= 8 * 4  # of the first and of the last file of two queues
    path = units_file(root, 1, -1)
    data = bytearray(path.read_bytes())
    struct.pack_into(">q", data, 0, 1 << 40)
    path.write_bytes(data)
    (finding,) = rocketstore.verify(root, quick=True).findings
    assert (finding.kind, finding.path, finding.offset) == ("compaction-unit", path, 0)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_files_give_messages_or_errors(root, rows, seed):
    rng = random.Random(seed)
    paths = [path for part in ("compactionCq", "compactionLog") for path in (root / "compaction" / part).rglob("0*")]
    for path in filter(lambda path: path.is_file(), paths):
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice([0, 3, 30])):
            data[rng.randrange(min(len(data), 1200))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        path.write_bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data)), 0])])
    with rocketstore.open(root) as store:
        for queue_id in (0, 1):
            try:
                offset = 0
                for _ in range(60):
                    found = store.get_message(TOPIC, queue_id, offset, 3)
                    for message in found.messages:
                        assert (message.topic, message.queue_id) == (TOPIC, queue_id)
                    if found.status != "FOUND":
                        break
                    offset = found.next_begin_offset
                store.get_offset_by_time(TOPIC, 1795812236337, queue_id)
                store.get_offset_by_time(TOPIC, 1795812236337, queue_id, exact_times=True)
                len(store.consume_queue(TOPIC, queue_id))
            except (CorruptFileError, StoreError, IndexError):
                pass
    rocketstore.verify(root)

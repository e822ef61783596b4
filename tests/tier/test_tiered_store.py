"""A store with tiered storage: each message once, from the log if it has it, else from the tier."""

import importlib.util
import json
import lzma
import os
import random
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from support import states
from support.cli import run
from support.stores import GOLDEN

import rocketstore
from rocketstore import CorruptFileError, StoreConfig, StoreError
from rocketstore.state.tier_metadata import find_tier_metadata
from rocketstore.tier.places import find_tier, hash_prefix
from rocketstore.tier.segments import open_segments
from rocketstore.tier.tier_queue import TierQueue

BROKER = "24e289d7_LabCluster/lab"


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return states.unpack("tiered", tmp_path_factory.mktemp("states"))


@pytest.fixture
def root(golden, tmp_path):
    return states.copy_tiered(golden, tmp_path)


def open_tiered(root, tier=None):
    config = StoreConfig(tiered_store_file_path=str(tier or root.parent / "tiered-data"))
    return rocketstore.open(root, config=config, tiered=True)


def read(store, topic, queue_id, step):
    offset = 0
    while (found := store.get_message(topic, queue_id, offset, step)).status == "FOUND":
        yield from found.messages
        offset = found.next_begin_offset


def all_rows():
    return [(topic, row) for topic, entry in states.truth("tiered")["topics"].items() for row in entry["rows"]]


def cells_of(message):
    return {
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "size": message.size,
        "msgId": message.uniq_key,
        "keys": message.properties["KEYS"],
        "storeTimestamp": message.store_timestamp,
        "bodyCrc32": zlib.crc32(message.body),
    }


@pytest.mark.parametrize("step", [17, 1000])
def test_messages_are_those_that_the_client_got(golden, step):
    with open_tiered(golden) as store:
        for topic, entry in states.truth("tiered")["topics"].items():
            found = [each for queue in entry["queues"] for each in read(store, topic, queue["queueId"], step)]
            expected = [{name: row[name] for name in row if name != "offsetMsgId"} for row in entry["rows"]]
            assert sorted(map(str, map(cells_of, found))) == sorted(map(str, expected_order(expected)))


def expected_order(rows):
    names = ("queueId", "queueOffset", "size", "msgId", "keys", "storeTimestamp", "bodyCrc32")
    return [{name: row[name] for name in names} for row in rows]


def test_a_message_of_the_tier_has_no_physical_offset(golden):
    ids = {(topic, row["queueId"], row["queueOffset"]): row["offsetMsgId"] for topic, row in all_rows()}
    with open_tiered(golden) as store:
        old, new = store.get_message("Lake", 0, 0, 1)[0], store.get_message("Lake", 0, 198, 1)[0]
        assert (old.phy_offset, old.to_dict()["phyOffset"], old.msg_id) == (None, None, ids["Lake", 0, 0])
        assert new.phy_offset == 524288
        found = store.get_message("Lake", 0, 190, 20)
        assert [message.phy_offset is None for message in found] == [True] * 8 + [False] * 2
        assert found.messages.phy_offset.mask.tolist() == [True] * 8 + [False] * 2


def test_message_ids_differ_only_in_pulls_that_began_in_the_tier(golden):
    """A client that pulls from below the log's first message gets the rest of that pull from the tier, too."""
    differing = []
    with open_tiered(golden) as store:
        for topic, row in all_rows():
            queue_id, offset = row["queueId"], row["queueOffset"]
            [message] = store.get_message(topic, queue_id, offset, 1)
            if message.msg_id != row["offsetMsgId"]:
                queue = store.consume_queue(topic, queue_id)
                first, pulled = queue.local.min_queue_offset, offset // 32 * 32
                assert pulled < first <= offset
                [in_tier] = TierQueue(open_segments(queue.older.directory), queue.older.log)[offset : offset + 1]
                assert int(row["offsetMsgId"][16:], 16) == in_tier.phy_offset
                differing.append((topic, queue_id, offset))
    assert differing == [("Lake", queue_id, offset) for queue_id in (0, 1) for offset in (198, 199)]


def test_the_physical_offset_is_null_in_arrow(golden):
    pytest.importorskip("pyarrow")
    with open_tiered(golden) as store:
        assert store.get_message("Lake", 0, 190, 20).to_arrow()["phyOffset"].null_count == 8


def test_bounds_are_those_of_the_broker(golden):
    with open_tiered(golden) as store:
        for topic, entry in states.truth("tiered")["topics"].items():
            for queue in entry["queues"]:
                found = store.consume_queue(topic, queue["queueId"])
                assert (found.min_queue_offset, found.max_queue_offset) == (queue["min"], queue["max"])
                assert len(found) == queue["max"] - queue["min"]
                sizes = [row["size"] for name, row in all_rows() if (name, row["queueId"]) == (topic, queue["queueId"])]
                assert found.count_bytes(0, 1 << 40) == sum(sizes)
                assert [unit.queue_offset for unit in found] == list(range(queue["min"], queue["max"]))


def test_offsets_by_time_are_those_of_the_broker(golden):
    with open_tiered(golden) as store:
        for row in states.truth("tiered")["searchOffset"]:
            for exact in (False, True):
                found = store.get_offset_by_time(row["topic"], row["time"], row["queueId"], exact_times=exact)
                assert found == row["offset"]
        assert store.get_offset_by_time("Lake", 0, 0) == 0
        assert store.get_offset_by_time("Lake", "2100-01-01", 0) == 200


def test_each_key_leads_to_all_its_messages(golden):
    places = {}
    for topic, row in all_rows():
        for key in [*row["keys"].split(), row["msgId"]]:
            places.setdefault((topic, key), set()).add((row["queueId"], row["queueOffset"]))
    with open_tiered(golden) as store:
        for (topic, key), expected in list(places.items())[::25]:
            found = store.query_message(topic, key, 1000)
            assert [*map(place_of, found)] == [*dict.fromkeys(map(place_of, found))]
            assert {*map(place_of, found)} == expected
            assert found.complete
        for query in states.truth("tiered")["queries"]:
            found = store.query_message(query["topic"], query["key"], 1000)
            assert {*map(tuple, query["rows"])} <= {*map(place_of, found)}


def place_of(message):
    return message.queue_id, message.queue_offset


def test_many_keys_are_answered_like_one(golden):
    keys = ["Lake-1", "grp-1", "none", "Lake-597"]
    with open_tiered(golden) as store:
        many = store.query_messages("Lake", keys, 1000)
        assert [len(batch) for batch in many] == [len(store.query_message("Lake", key, 1000)) for key in keys]
        assert [*map(place_of, many[3])] == [(0, 199)]
        times = [message.store_timestamp for message in many[1]]
        assert times == sorted(times, reverse=True)
        limited = store.query_messages("Lake", ["grp-1", "Lake-1"], 3)
        assert [*map(place_of, limited[0])] == [*map(place_of, many[1][:3])]
        assert (limited.complete.tolist(), limited.has_more.tolist()) == ([False, True], [True, False])
        assert (
            limited.reasons
            == store.query_message("Lake", "grp-1", 3).reasons
            == ["a key has more than limit=3 messages"]
        )
        of_keys = store.query_message("Lake", "grp-1", 1000, index_type="K")
        assert [*map(place_of, of_keys)] == [*map(place_of, many[1])]


def test_without_tiered_a_store_is_its_local_files(golden):
    with rocketstore.open(golden) as store:
        assert store.consume_queue("Lake", 0).min_queue_offset == 198
        assert store.get_message("Lake", 0, 3).status == "OFFSET_TOO_SMALL"
        [note] = store.summary().notes
        assert "724 messages of 4 queues are only in tiered storage" in note


def test_commands_say_how_many_messages_are_in_the_tier(golden):
    for words in (["get", golden, "Lake", "0", "3"], ["query", golden, "--topic", "Lake", "--key", "grp-1"]):
        assert "594 messages of 3 queues are only in tiered storage" in run(*words).stderr
    if importlib.util.find_spec("duckdb"):
        shown = run("sql", golden, "SELECT count(*) FROM messages")
        assert "724 messages of 4 queues are only in tiered storage" in shown.stderr
    for words in (["cat", golden, "--topic", "Creek"], ["offset", golden, "--topic", "Creek", "--time", "0"]):
        assert "130 messages of 1 queue are only in tiered storage" in run(*words).stderr
    assert "724 messages of 4 queues are only in tiered storage" in run("offset", golden, "--time", "0").stderr


def test_query_shows_the_newest_messages_of_all_topics_first(golden):
    tier = ["--tier", golden.parent / "tiered-data", "--format", "json", "--columns", "storeTimestamp"]
    lines = run("query", golden, "--key", "grp-1", "--limit", "500", *tier).stdout.splitlines()
    times = [json.loads(line)["storeTimestamp"] for line in lines]
    assert len(times) == 105
    assert times == sorted(times, reverse=True)
    newest = run("query", golden, "--key", "grp-1", "--limit", "3", *tier).stdout.splitlines()
    assert newest == lines[:3]


def test_query_shows_the_oldest_messages_since_a_time_first(golden):
    tier = ["--tier", golden.parent / "tiered-data", "--format", "json", "--columns", "storeTimestamp"]
    lines = run("query", golden, "--since", "2020-01-01", "--limit", "1000", *tier).stdout.splitlines()
    times = [json.loads(line)["storeTimestamp"] for line in lines]
    assert len(times) == 730
    assert times == sorted(times)
    assert run("query", golden, "--since", "2020-01-01", "--limit", "3", *tier).stdout.splitlines() == lines[:3]


def test_query_says_what_reads_all_messages_of_a_tag(golden):
    tier = ["--tier", golden.parent / "tiered-data"]
    shown = run("query", golden, "--topic", "Lake", "--tag", "TagA", *tier).stderr
    assert f"--tag TagA --tier {tier[1]} reads all messages" in shown
    assert "rebuilds the index of the log" in shown
    unknown = run("query", golden, "--id", "7F00000100007CF70000000000000000", *tier).stderr
    assert "or is only in tiered storage, where its id does not name its queue" in unknown


def test_commands_read_the_tier_on_request(golden, tmp_path):
    tier = ["--tier", golden.parent / "tiered-data"]
    rows = [json.loads(line) for line in run("ls", golden, *tier).stdout.splitlines()]
    assert [row["messages"] for row in rows] == [130, 200, 200, 200]
    [row] = [json.loads(line) for line in run("get", golden, "Lake", "0", "3", *tier).stdout.splitlines()]
    assert (row["queueOffset"], row["phyOffset"]) == (3, None)
    found = run("query", golden, "--topic", "Lake", "--key", "grp-1", "--limit", "1000", *tier).stdout.splitlines()
    assert len(found) == 86
    conf = tmp_path / "broker.conf"
    sizes = "mappedFileSizeConsumeQueue=600\nmappedFileSizeCommitLog=65536\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
    conf.write_text(f"tieredStoreFilePath={tier[1]}\nbrokerName=lab\nbrokerClusterName=LabCluster\n{sizes}")
    rows = run("ls", golden, "--tiered", "--broker-conf", conf).stdout.splitlines()
    assert len(rows) == 4
    refused = run("ls", golden, "--tiered")
    assert refused.exit_code == 1
    assert "--tier PATH" in refused.stderr


def test_a_writer_does_not_read_a_tier(root):
    with pytest.raises(ValueError, match="tiered=True"):
        rocketstore.open(root, "a", tiered=True)


# ---- scans -------------------------------------------------------------------------------------------------


def test_a_scan_gives_each_message_once(golden):
    expected = {(topic, row["queueId"], row["queueOffset"]) for topic, row in all_rows()}
    with open_tiered(golden) as store:
        for threads in (1, 3):
            found = [message for batch in store.scan(threads=threads) for message in batch]
            places = [(message.topic, *place_of(message)) for message in found]
            assert len(places) == len(expected)
            assert {*places} == expected
            assert sum(message.phy_offset is None for message in found) == 724
        scan = store.scan(topic="Lake", queue_ids=1, key="grp-1")
        assert (
            scan.count()
            == scan.count()
            == len(store.query_message("Lake", "grp-1", 1000))
            - sum(message.queue_id != 1 for message in store.query_message("Lake", "grp-1", 1000))
        )
        assert len(store.scan().head(20)) == store.scan(limit=20).count() == 20
        assert store.scan(begin_offset=0).count() == 6  # physical offsets are those of the log


def test_a_dataset_has_the_messages_of_the_tier(golden):
    dataset = pytest.importorskip("pyarrow.dataset")
    with open_tiered(golden) as store:
        assert store.dataset().count_rows() == 730
        assert store.dataset(key="Lake-1").count_rows() == 1
        table = store.dataset().to_table(filter=dataset.field("topic") == "Creek", columns=["phyOffset"])
        assert (table.num_rows, table["phyOffset"].null_count) == (130, 130)


def test_cat_shows_the_messages_of_the_tier_on_request(golden):
    tier = ["--tier", golden.parent / "tiered-data"]
    assert len(run("cat", golden, *tier).stdout.splitlines()) == 730
    assert len(run("query", golden, "--since", "2020-01-01", "--limit", "1000", *tier).stdout.splitlines()) == 730
    assert run("cat", golden, "--tail", "3", *tier).exit_code == 2


def test_lag_of_a_queue_without_messages_in_the_log_has_no_oldest_time(root):
    table = {"offsetTable": {"Creek@readers": {0: 7}, "Lake@readers": {0: 50, 1: 199}}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps(table))
    wanted = {("Creek", 0, 7), ("Lake", 0, 50), ("Lake", 1, 199)}
    times = {(topic, row["queueId"], row["queueOffset"]): row["storeTimestamp"] for topic, row in all_rows()}
    with rocketstore.open(root) as store:
        lags = {(each.topic, each.queue_id): each for each in store.consumer_lag("readers")}
        assert (lags["Creek", 0].lag, lags["Creek", 0].oldest_timestamp) == (123, None)
    with open_tiered(root) as store:
        lags = {(each.topic, each.queue_id): each for each in store.consumer_lag("readers")}
        for topic, queue_id, offset in wanted:
            assert lags[topic, queue_id].oldest_timestamp == times[topic, queue_id, offset]
        assert lags["Creek", 0].lag == 123


@pytest.mark.parametrize(("field", "value"), [(">q", 1), (">q", 1 << 40), (">q", -5)])
def test_get_names_a_unit_of_the_tier_that_leads_to_no_record(root, field, value):
    path = segments(root, "Lake/0", "CONSUME_QUEUE")[0]
    data = bytearray(path.read_bytes())
    struct.pack_into(field, data, 7 * 20, value)
    path.write_bytes(data)
    tier = ["--tier", root.parent / "tiered-data", "--columns", "queueOffset", "--format", "json"]
    shown = run("get", root, "Lake", "0", "5", "--limit", "5", *tier)
    assert [json.loads(line)["queueOffset"] for line in shown.stdout.splitlines()][:4] == [5, 6, 8, 9]
    assert shown.exit_code == 1
    assert f"offset 7: the record at physical offset {value} cannot be read: its log is" in shown.stderr
    assert "verify" in shown.stderr


def test_messages_that_expire_in_the_tier_while_a_store_is_open_are_left_out(root):
    with open_tiered(root) as store:
        assert len(store.get_message("Lake", 0, 0, 3)) == 3
        for part in ("COMMIT_LOG", "CONSUME_QUEUE"):
            segments(root, "Lake/0", part)[0].unlink()
        found = store.get_message("Lake", 0, 0, 3)
        assert (found.status, found.next_begin_offset) == ("OFFSET_TOO_SMALL", 100)
        assert [each.queue_offset for each in store.get_message("Lake", 0, 100, 3)] == [100, 101, 102]


def test_messages_that_are_copied_to_the_tier_while_a_store_is_open_are_read(root):
    moved = {path: path.read_bytes() for path in segments(root, "Lake/0", "CONSUME_QUEUE")[1:]}
    whole = root.parent / "tiered-data" / BROKER / "Lake" / "1"
    for path in moved:
        path.unlink()
    whole.rename(root.parent / "elsewhere")
    with open_tiered(root) as store:
        found = [each.queue_offset for each in store.get_message("Lake", 0, 90, 20)]
        assert found == [*range(90, 100), 198, 199]
        assert store.get_message("Lake", 1, 0).status == "OFFSET_TOO_SMALL"
        for path, data in moved.items():
            path.write_bytes(data)
        (root.parent / "elsewhere").rename(whole)
        assert [each.queue_offset for each in store.get_message("Lake", 0, 90, 20)] == list(range(90, 110))
        assert len(store.get_message("Lake", 1, 0, 1000)) == 200


# ---- places ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", "24e289d7_LabCluster", BROKER])
def test_a_tier_may_be_given_from_any_directory_on(golden, below):
    with open_tiered(golden, golden.parent / "tiered-data" / below) as store:
        assert len(store.consume_queue("Creek", 0)) == 130


def test_the_metadata_names_the_broker_among_others(root):
    data = root.parent / "tiered-data"
    (data / BROKER).with_name("other").mkdir()
    with open_tiered(root) as store:
        assert store.tier.root.name == "lab"
    (root / "config" / "tieredStoreMetadata.json").unlink()
    with pytest.raises(StoreError, match="LabCluster/lab, 24e289d7_LabCluster/other"):
        open_tiered(root)


def test_metadata_has_the_queues_of_the_tier(golden):
    metadata = find_tier_metadata(golden / "config" / "tieredStoreMetadata.json")
    assert metadata.brokers == {"lab"}
    assert metadata.queues["Creek", 0] == (0, 130)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"consumeQueueFileSegmentTable": {"a/b/0": {0: 7}, "a/b/1": []}}']
)
def test_metadata_that_cannot_be_read_counts_as_missing(tmp_path, text):
    path = tmp_path / "tieredStoreMetadata.json"
    path.write_bytes(text)
    assert find_tier_metadata(path).queues == {}


def test_names_have_the_hash_of_rocketmq():
    assert [hash_prefix(text) for text in ("LabCluster", "0", "59973")] == ["24e289d7", "cfcd2084", "0c62afb9"]
    with pytest.raises(FileNotFoundError):
        find_tier(Path("/nowhere/at/all"), None, ())


def test_a_tier_in_a_bucket_is_read(golden):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    data = golden.parent / "tiered-data"
    for path in filter(Path.is_file, data.rglob("*")):
        memory.pipe(f"/bucket-of-tier/{path.relative_to(data)}", path.read_bytes())
    with open_tiered(golden, "memory://bucket-of-tier") as store:
        assert len(store.get_message("Lake", 0, 0, 1000)) == 200
        assert len(store.query_message("Lake", "grp-1", 1000)) == 86
        assert store.scan().count() == 730
    memory.rm("/bucket-of-tier", recursive=True)


# ---- damage ------------------------------------------------------------------------------------------------


def segments(root, queue, part):
    return sorted((root.parent / "tiered-data" / BROKER / queue / part).iterdir(), key=lambda path: path.name[8:])


def test_a_queue_ends_where_a_segment_is_missing(root):
    segments(root, "Lake/0", "CONSUME_QUEUE")[1].unlink()
    with open_tiered(root) as store:
        messages = list(read(store, "Lake", 0, 7))
        assert [message.queue_offset for message in messages] == [*range(100), 198, 199]
        queue = store.consume_queue("Lake", 0)
        assert [unit.queue_offset for unit in queue[:]] == [unit.queue_offset for unit in queue]


def test_a_queue_whose_first_segments_expired_begins_behind_them(root):
    segments(root, "Lake/0", "COMMIT_LOG")[0].unlink()
    with open_tiered(root) as store:
        assert store.get_offset_by_time("Lake", 0, 0, "upper") == 0
    segments(root, "Lake/0", "CONSUME_QUEUE")[0].unlink()
    with open_tiered(root) as store:
        for offset in (0, 99):
            found = store.get_message("Lake", 0, offset, 50)
            assert (found.status, found.next_begin_offset, len(found)) == ("OFFSET_TOO_SMALL", 100, 0)
        assert [each.queue_offset for each in store.get_message("Lake", 0, 100, 500)] == list(range(100, 200))
        assert store.get_offset_by_time("Lake", 0, 0) == 100


def test_a_read_with_the_limits_of_a_broker_skips_no_message(golden):
    with open_tiered(golden) as store:
        found, offset = [], 0
        while (read := store.get_message("Lake", 0, offset, 500, limits="broker")).status == "FOUND":
            assert [each.queue_offset for each in read] == list(range(offset, read.next_begin_offset))
            found += [each.queue_offset for each in read]
            offset = read.next_begin_offset
        assert found == list(range(200))


@pytest.mark.parametrize("size", [1 << 20, 1 << 40])
def test_zeros_behind_the_units_are_no_messages(root, size):
    path = segments(root, "Lake/0", "CONSUME_QUEUE")[-1]
    os.truncate(path, size)
    with open_tiered(root) as store:
        assert [each.queue_offset for each in read(store, "Lake", 0, 50)] == list(range(200))
        queue = store.consume_queue("Lake", 0)
        assert len(list(queue)) == len(queue) == 200
        assert queue.get_offset_by_time("2100-01-01", "upper", exact_times=True) == 199
        assert store.scan().count() == 730
        assert store.summary().messages == 730


def test_a_hole_between_units_is_an_error_and_ends_no_scan(root):
    path = segments(root, "Creek/0", "CONSUME_QUEUE")[-1]
    with path.open("r+b") as file:
        file.seek((1 << 30) * 20)
        file.write(bytes(11) + b"\x09" + bytes(8))
    with open_tiered(root) as store:
        queue = store.consume_queue("Creek", 0)  # without messages in the log
        for read_units in (list, lambda queue: queue.count_bytes(0, 1 << 40)):
            with pytest.raises(CorruptFileError, match="zeros"):
                read_units(queue)
        with pytest.raises(CorruptFileError, match="zeros"):
            queue.get_offset_by_time("2100-01-01", exact_times=True)
        assert store.scan().count() == 730
        assert [each.queue_offset for each in store.get_message("Creek", 0, 0, 100)] == list(range(100))


def test_messages_without_units_are_scanned(root):
    shutil.rmtree(segments(root, "Lake/0", "CONSUME_QUEUE")[0].parent)
    segments(root, "Lake/1", "CONSUME_QUEUE")[-1].unlink()
    with open_tiered(root) as store:
        assert store.scan().count() == 730
        found = store.get_message("Lake", 0, 0)
        assert [each.queue_offset for each in store.get_message("Lake", 0, found.next_begin_offset)] == [198, 199]


def test_a_message_whose_segment_is_missing_is_left_out(root):
    segments(root, "Lake/0", "COMMIT_LOG")[1].unlink()
    with open_tiered(root) as store:
        offsets = [message.queue_offset for message in read(store, "Lake", 0, 7)]
        assert {0, 199} < {*offsets}
        assert len(offsets) < 200


def test_damage_of_the_index_makes_an_answer_incomplete(root):
    path = segments(root, "rmq_sys_INDEX/0", "INDEX")[0]
    data = bytearray(path.read_bytes())
    struct.pack_into(">I", data, 0, 7)
    path.write_bytes(data)
    with open_tiered(root) as store:
        found = store.query_message("Lake", "grp-1", 1000)
        assert not found.complete
        assert path.name in found.reasons[0]
        assert len(found)
    shutil.rmtree(path.parent)
    with open_tiered(root) as store:
        assert "no index" in store.query_message("Lake", "grp-1").reasons[0]


def add_open_index(root):
    path = root / "tiered_index_file" / "1795812300000"
    path.write_bytes(lzma.decompress((GOLDEN / "states" / "tiered-open-index.xz").read_bytes()))
    return path


def test_keys_are_found_in_an_index_file_that_was_not_copied(root):
    keys = [("Lake", "grp-1"), ("Lake", "Lake-1"), ("Creek", "grp-2"), ("Creek", "none")]
    with open_tiered(root) as store:
        expected = [sorted(map(place_of, store.query_message(*key, 1000))) for key in keys]
    add_open_index(root)
    with open_tiered(root) as store:  # each message is found twice
        assert [sorted(map(place_of, store.query_message(*key, 1000))) for key in keys] == expected
    shutil.rmtree(root.parent / "tiered-data" / BROKER / "rmq_sys_INDEX")
    with open_tiered(root) as store:
        found = [store.query_message(*key, 1000) for key in keys]
        assert [sorted(map(place_of, each)) for each in found] == expected
        assert all(each.complete for each in found)
    config = StoreConfig(
        tiered_store_file_path=str(root.parent / "tiered-data"),
        other={"tieredStoreIndexFileMaxHashSlotNum": "500", "tieredStoreIndexFileMaxIndexNum": "4000"},
    )
    with rocketstore.open(root, config=config, tiered=True) as store:
        assert sorted(map(place_of, store.query_message(*keys[0], 1000))) == expected[0]


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_index_file_gives_messages_or_a_reason(root, seed):
    rng, path = random.Random(seed), add_open_index(root)
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 30, 3000])):
        data[rng.randrange(rng.choice([28, 4028, len(data)]))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
    shutil.rmtree(root.parent / "tiered-data" / BROKER / "rmq_sys_INDEX")
    with open_tiered(root) as store:
        found = store.query_message("Lake", "grp-1", 1000)
        assert {message.topic for message in found} <= {"Lake"}
        assert found.complete or found.reasons


def test_a_chain_of_items_that_is_a_circle_is_a_reason(root):
    path = add_open_index(root)
    data = bytearray(path.read_bytes())
    [items] = struct.unpack_from(">i", data, 24)
    for ordinal in range(1, items + 1):
        struct.pack_into(">i", data, 28 + 500 * 8 + ordinal * 32 + 28, ordinal)
    path.write_bytes(data)
    with open_tiered(root) as store:
        found = store.query_message("Lake", "grp-1", 1000)
        assert not found.complete
        assert "leads to item" in found.reasons[0]


def test_an_index_file_that_is_not_full_makes_an_answer_incomplete(root):
    path = root / "tiered_index_file" / "1795812300000"
    path.write_bytes(bytes(100))
    with open_tiered(root) as store:
        found = store.query_message("Lake", "Lake-1")
        assert [len(found), found.complete] == [1, False]
        assert str(path) in found.reasons[0]


@pytest.mark.parametrize("seed", range(16))
def test_damaged_files_give_messages_or_errors(root, seed):
    rng = random.Random(seed)
    for path in filter(Path.is_file, (root.parent / "tiered-data").rglob("*")):
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice([0, 3, 30])):
            at, bits = rng.randrange(min(len(data), 3000)), rng.choice([0, 0x7F, 0x80, 0xFF])
            data[at] = bits
        path.write_bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])])
        if rng.random() < 0.1:
            path.rename(path.with_name(hash_prefix(str((1 << 63) - 9)) + f"{(1 << 63) - 9:020}"))
    with open_tiered(root) as store:
        for topic, queue_id in (("Lake", 0), ("Lake", 1), ("Creek", 0)):
            try:
                offset = 0
                for _ in range(60):
                    found = store.get_message(topic, queue_id, offset, 9)
                    assert {(each.topic, each.queue_id) for each in found.messages} <= {(topic, queue_id)}
                    if found.status != "FOUND":
                        break
                    offset = found.next_begin_offset
                store.get_offset_by_time(topic, 1795812301578, queue_id)
                store.get_offset_by_time(topic, 1795812301578, queue_id, exact_times=True)
                store.query_message(topic, "grp-1", 100)
                store.summary()
            except (CorruptFileError, StoreError, IndexError):
                pass

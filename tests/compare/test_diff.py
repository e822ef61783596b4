"""diff reports what a plain comparison of all records, units and entries of two stores finds."""

import json
import random
import shutil

import pytest
from reference.commit_log import read_files, scan
from reference.record import crc_of
from support import states
from support.dledger_stores import make_store as make_dledger_store
from support.profiles import SEVERAL_FILES, SMALL

import rocketstore
from rocketstore import Message, StoreConfig, rebuild

COUNT = 300
T0 = 1_700_000_000_000


def fill(store, count, begin=0):
    """Put messages of three topics, some with keys."""
    for number in range(begin, begin + count):
        keys = [f"k{number}", "common"] if number % 3 else []
        message = Message(
            f"T{number % 3}", b"body %d" % number * (number % 5), keys=keys, tags=f"tag{number % 4}", queue_id=0
        )
        store.put_message(message, store_timestamp=T0 + 1000 * number)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    root = tmp_path_factory.mktemp("pristine") / "a"
    with rocketstore.open(root, "a", config=StoreConfig(**SEVERAL_FILES)) as store:
        fill(store, COUNT)
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T1@group":{"0":40}}}')
    (root / "config" / "plain_acl.json").write_text('{"secretKey":"planted"}')
    return root


@pytest.fixture
def pair(pristine, tmp_path):
    """Two copies of a store."""
    return shutil.copytree(pristine, tmp_path / "a"), shutil.copytree(pristine, tmp_path / "b")


def records_of(root):
    """Return the bytes of each record by its physical offset, read in plain Python."""
    files = read_files(root / "commitlog")
    found = {}
    for offset, record in scan(files):
        start = max(begin for begin in files if begin <= offset)
        found[offset] = files[start][offset - start :][: record.total_size]
    return found


def overwrite(root, offset, data):
    """Overwrite bytes of the log at a physical offset."""
    size = SEVERAL_FILES["mapped_file_size_commit_log"]
    with (root / "commitlog" / f"{offset // size * size:020}").open("r+b") as file:
        file.seek(offset % size)
        file.write(data)


def kinds(report):
    return list(report.counts)


# ---- equal stores --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_content", [False, True])
def test_a_copy_is_the_same(pair, by_content):
    report = rocketstore.diff(*pair, by_content=by_content)
    assert report.same
    assert report.messages == COUNT
    assert (list(report.differences), report.counts) == ([], {})


def test_a_rebuilt_index_of_another_geometry_is_the_same(pair):
    a, b = pair
    rebuild(b, config=StoreConfig(**SEVERAL_FILES | {"max_hash_slot_num": 7, "max_index_num": 1000}))
    assert len(list((a / "index").iterdir())) > len(list((b / "index").iterdir()))
    assert rocketstore.diff(a, b).same


def test_the_same_range_of_the_log_is_reported(pair):
    report = rocketstore.diff(*pair)
    [part] = report.ranges
    with rocketstore.open(pair[0]) as store:
        assert part == ("same", 0, store.commit_log.max_phy_offset)
    assert report.log_bytes == {"same": part.end, "different": 0, "only in a": 0, "only in b": 0}


# ---- the log by physical offset ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(12))
def test_differing_records_are_those_of_a_plain_comparison(pair, number, seed):
    draw = random.Random(f"{seed} {number}")
    a, b = pair
    known = records_of(a)
    for offset in draw.sample(sorted(known)[:-1], draw.randrange(1, 8)):  # behind a bad last record no log goes on
        record = known[offset]
        place = draw.randrange(4, len(record))
        overwrite(b, offset + place, bytes([record[place] ^ draw.randrange(1, 256)]))
    changed = {offset for offset in known if known[offset] != read_plain(b, offset, len(known[offset]))}
    report = rocketstore.diff(a, b)
    inside = {
        offset
        for offset in known
        if any(part.state == "different" and part.begin <= offset < part.end for part in report.ranges)
    }
    assert inside == changed
    found = [part for part in report.differences if part.kind == "log-different"]
    assert sum(part.number for part in found) == len(changed)
    assert found[0].begin == min(changed)
    with rocketstore.open(a) as store:
        first = store.commit_log.get_message(min(changed))
    assert (found[0].topic, found[0].queue_offset, found[0].phy_offset_a) == (
        first.topic, first.queue_offset, first.phy_offset
    )  # fmt: skip
    assert all(before.end <= after.begin for before, after in zip(report.ranges, report.ranges[1:], strict=False))
    assert sum(report.log_bytes.values()) == report.ranges[-1].end


def test_a_last_record_that_is_no_record_any_more_is_missing(pair):
    a, b = pair
    known = records_of(a)
    last = max(known)
    overwrite(b, last + 4, bytes(4))  # the magic code
    report = rocketstore.diff(a, b)
    assert report.ranges[-1] == ("only in a", last, last + len(known[last]))
    missing = report.first("log-only-in-a")
    assert (missing.begin, missing.phy_offset_a, missing.phy_offset_b) == (last, last, None)


def read_plain(root, offset, size):
    files = read_files(root / "commitlog")
    start = max(begin for begin in files if begin <= offset)
    return files[start][offset - start :][:size]


def test_messages_that_only_one_store_has_are_a_range_at_the_end(pair):
    a, b = pair
    with rocketstore.open(b, "a") as store:
        end = store.commit_log.max_phy_offset
        fill(store, 10, begin=COUNT)
    report = rocketstore.diff(a, b)
    missing = report.first("log-only-in-b")
    assert (missing.begin, missing.topic, missing.phy_offset_a, missing.phy_offset_b) == (end, "T0", None, end)
    units = [part for part in report.differences if part.kind == "units-only-in-b"]
    assert sum(part.number for part in units) == 10
    assert [(part.name, part.begin) for part in units] == [("T0/0", 100), ("T1/0", 100), ("T2/0", 100)]
    assert "index-only-in-b" not in report.counts  # the messages are missing, not their entries
    swapped = rocketstore.diff(b, a)
    assert [kind.replace("-a", "-b") for kind in kinds(swapped)] == kinds(report)


def test_a_missing_file_of_the_log_is_a_missing_range(pair):
    a, b = pair
    size = SEVERAL_FILES["mapped_file_size_commit_log"]
    (b / "commitlog" / f"{2 * size:020}").unlink()
    report = rocketstore.diff(a, b)
    assert [(part.begin, part.end) for part in report.ranges if part.state == "only in a"] == [(2 * size, 3 * size)]
    assert report.first("log-only-in-a").phy_offset_a == 2 * size


def test_bytes_that_are_no_record_are_compared_too(pair):
    a, b = pair
    size = SEVERAL_FILES["mapped_file_size_commit_log"]
    overwrite(b, size - 1, b"x")
    report = rocketstore.diff(a, b)
    assert kinds(report) == ["log-filler-different"]
    assert report.first("log-filler-different")[2:5] == (size - 1, size, 1)


def test_another_record_at_the_same_place_is_shown_with_both_messages(pair):
    a, b = pair
    known = records_of(a)
    offset = sorted(known)[21]
    body = known[offset].index(b"body")
    changed = bytearray(known[offset])
    changed[body : body + 4] = b"BODY"
    length = int.from_bytes(changed[84:88], "big")
    crc = changed.index((crc_of(bytes(known[offset][88 : 88 + length]))).to_bytes(4, "big"))
    changed[crc : crc + 4] = crc_of(bytes(changed[88 : 88 + length])).to_bytes(4, "big")
    overwrite(b, offset, changed)
    by_offset, by_content = rocketstore.diff(a, b), rocketstore.diff(a, b, by_content=True)
    assert kinds(by_offset) == ["log-different"]
    assert by_offset.first("log-different").phy_offset_b == offset
    assert kinds(by_content) == ["message-different"]
    found = by_content.first("message-different")
    assert (found.phy_offset_a, found.number) == (offset, 1)
    assert "body" in found.a
    assert "CRC" in found.a
    assert found.a != found.b


# ---- queues --------------------------------------------------------------------------------------------------


def test_a_changed_unit_is_found_with_its_message(pair):
    a, b = pair
    [file, *_] = sorted((b / "consumequeue" / "T1" / "0").iterdir())
    data = bytearray(file.read_bytes())
    data[3 * 20 + 19] ^= 1
    file.write_bytes(data)
    report = rocketstore.diff(a, b)
    assert kinds(report) == ["units-different"]
    found = report.first("units-different")
    assert (found.name, found.begin, found.end, found.number) == ("T1/0", 3, 4, 1)
    assert found.a.split(", ")[:2] == found.b.split(", ")[:2]


def test_a_missing_queue_is_found(pair):
    a, b = pair
    shutil.rmtree(b / "consumequeue" / "T2")
    report = rocketstore.diff(a, b)
    assert report.first("queue-only-in-a")[:5] == ("queue-only-in-a", "T2/0", 0, 100, 100)
    assert rocketstore.diff(a, b, topic=["T0", "T1"]).same


def test_units_of_a_damaged_batch_queue_may_have_any_order(root_of, tmp_path):
    a, b = root_of("batchcq"), tmp_path / "b"
    shutil.copytree(a, b)
    files = [path for path in sorted((b / "batchconsumequeue").rglob("*")) if path.is_file()]
    file = next(path for path in files if any(path.read_bytes()[100:104]))  # it has three units
    data = bytearray(file.read_bytes())
    data[:46], data[46:92], data[92:138] = data[46:92], data[:46], data[:46]
    file.write_bytes(data)
    for by_content in (False, True):
        assert not rocketstore.diff(a, b, by_content=by_content).same
        rocketstore.diff(b, b, by_content=by_content)


@pytest.mark.parametrize("number", range(8))
def test_random_bytes_in_queues_and_index_end_no_comparison(pair, number, seed):
    draw = random.Random(f"{seed} {number}")
    a, b = pair
    for path in draw.sample(sorted([*(b / "index").iterdir(), *(b / "consumequeue").rglob("0" * 20)]), 3):
        data = bytearray(path.read_bytes())
        for _ in range(20):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
    for by_content in (False, True):
        report = rocketstore.diff(a, b, by_content=by_content)
        assert report.messages <= COUNT


# ---- index ---------------------------------------------------------------------------------------------------


def test_a_lost_index_is_found_with_its_first_key(pair):
    a, b = pair
    shutil.rmtree(b / "index")
    entries = {(offset, key) for offset, key in plain_entries(a)}
    report = rocketstore.diff(a, b)
    found = report.first("index-only-in-a")
    assert kinds(report) == ["index-only-in-a"]
    assert (found.number, found.begin) == (len(entries), min(entries)[0])
    assert kinds(rocketstore.diff(a, b, by_content=True)) == ["index-only-in-a"]


def plain_entries(root):
    """Yield physical offset and hash of each item of all index files."""
    slots, count = SEVERAL_FILES["max_hash_slot_num"], SEVERAL_FILES["max_index_num"]
    for path in sorted((root / "index").iterdir()):
        data = path.read_bytes()
        used = int.from_bytes(data[36:40], "big")
        for number in range(1, min(used, count)):
            at = 40 + 4 * slots + 20 * number
            yield int.from_bytes(data[at + 4 : at + 12], "big"), int.from_bytes(data[at : at + 4], "big")


def test_items_that_a_slot_does_not_reach_answer_no_query(pair):
    a, b = pair
    [file, *_] = sorted((b / "index").iterdir())
    data = bytearray(file.read_bytes())
    slots = [at for at in range(40, 40 + 4 * SEVERAL_FILES["max_hash_slot_num"], 4) if any(data[at : at + 4])]
    data[slots[0] : slots[0] + 4] = bytes(4)
    file.write_bytes(data)
    given = {"config": StoreConfig(**SEVERAL_FILES), "config_b": StoreConfig(**SEVERAL_FILES)}
    for by_content in (False, True):
        report = rocketstore.diff(a, b, by_content=by_content, **given)
        assert kinds(report) == ["index-only-in-a"]
        found = report.first("index-only-in-a")
        with rocketstore.open(a) as first, rocketstore.open(b, config=given["config"]) as second:
            answers = [store.query_message(found.topic, found.key, 1000) for store in (first, second)]
            offsets = [{message.phy_offset for message in answer} for answer in answers]
        assert found.phy_offset_a in offsets[0] - offsets[1]


# ---- configuration -------------------------------------------------------------------------------------------


def change_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_a_topic_that_neither_store_has_is_an_error(pair):
    with pytest.raises(rocketstore.StoreError, match="no queue of topic 'T9'"):
        rocketstore.diff(*pair, topic=["T1", "T9"])


def test_topics_groups_and_offsets_are_compared(pair):
    a, b = pair
    change_json(b / "config" / "topics.json", lambda value: value["topicConfigTable"]["T1"].update(perm=4))
    change_json(b / "config" / "topics.json", lambda value: value["topicConfigTable"].pop("T2"))
    (b / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T1@group":{"0":41},"T0@other":{"0":1}}}')
    (b / "config" / "delayOffset.json").write_text('{"offsetTable":{"1":5}}')
    report = rocketstore.diff(a, b)
    assert kinds(report) == [
        "topic-only-in-a", "topic-different", "offset-only-in-b", "offset-different", "delay-only-in-b",
    ]  # fmt: skip
    offset = report.first("offset-different")
    assert (offset.name, offset.a, offset.b, offset.queue_id) == ("group T1/0", "40", "41", 0)


def test_counters_of_changes_are_no_difference(pair):
    a, b = pair
    change_json(b / "config" / "topics.json", lambda value: value["dataVersion"].update(counter=99, timestamp=1))
    assert rocketstore.diff(a, b).same


# ---- other formats -------------------------------------------------------------------------------------------


def test_log_files_of_another_size_are_the_same_by_content(pair, tmp_path):
    a, _ = pair
    new = tmp_path / "new"
    with rocketstore.open(a) as old, rocketstore.open(new, "a", config=StoreConfig(**SMALL)) as store:
        store.put_messages([message for batch in old.scan() for message in batch], store_timestamp="given")
    shutil.copytree(a / "config", new / "config", dirs_exist_ok=True)
    report = rocketstore.diff(a, new)
    assert "log-different" in report.counts
    report = rocketstore.diff(a, new, by_content=True)
    assert report.messages == COUNT
    assert kinds(report) == []


@pytest.mark.parametrize(
    "name", ["default", "batchcq", "cqext", "lmq", "dledger", "rocksdb-cq", "rocksdb-index", "config-v2", "compaction"]
)
@pytest.mark.parametrize("by_content", [False, True])
def test_the_store_of_a_broker_is_the_same_as_itself(name, by_content, root_of):
    if "rocksdb" in name or name == "config-v2":
        pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    root = root_of(name)
    report = rocketstore.diff(root, root, by_content=by_content)
    assert (report.same, report.messages > 0) == (True, True)


def test_queues_of_a_tiered_store_are_read_with_their_older_messages(tmp_path):
    root = states.unpack("tiered", tmp_path)
    config = StoreConfig(tiered_store_file_path=str(root.parent / "tiered-data"))
    options = {"by_content": True, "config": config, "config_b": config}
    plain, tiered = (rocketstore.diff(root, root, tiered=value, **options) for value in (False, True))
    assert tiered.same
    assert tiered.messages > plain.messages


def test_a_dledger_log_and_its_messages_in_plain_files_are_the_same_by_content(tmp_path):
    make_dledger_store(tmp_path / "a")
    rocketstore.salvage(tmp_path / "a", tmp_path / "b")
    report = rocketstore.diff(tmp_path / "a", tmp_path / "b", by_content=True)
    assert [kind for kind in kinds(report) if not kind.startswith("topic")] == []
    assert report.messages == 60


def test_a_remote_store_is_compared(pair):
    pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    from fsspec.implementations.local import LocalFileSystem

    a, b = pair
    known = sorted(records_of(a))
    overwrite(b, known[7] + 30, b"x")
    remote = rocketstore.RemotePath(LocalFileSystem(), str(b))
    by_offset, by_content = (rocketstore.diff(a, remote, by_content=value) for value in (False, True))
    assert by_offset.first("log-different").begin == known[7]
    assert by_content.first("message-different").phy_offset_a == known[7]


# ---- parts that cannot be read -------------------------------------------------------------------------------


def test_a_part_that_cannot_be_read_is_no_equal_part(pair):
    a, b = pair
    [file, *_] = sorted((b / "index").iterdir())
    file.write_bytes(b"short")
    (b / "config" / "topics.json").write_text("{")
    (b / "config" / "topics.json.bak").unlink(missing_ok=True)
    report = rocketstore.diff(a, b)
    assert not report.same
    assert report.counts["not-compared"] >= 1


def test_values_of_other_configuration_files_are_not_shown(pair):
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    from support.cli import run

    a, b = pair
    (b / "config" / "brokerAuth.json").write_text('{"secretKey":"planted"}')
    shutil.rmtree(b / "index")
    result = run("diff", a, b, "--format", "json")
    assert result.exit_code == 1
    assert "planted" not in result.stdout + result.stderr
    assert json.loads(result.stdout.splitlines()[0])["kind"] == "index-only-in-a"
    assert run("diff", a, a).exit_code == 0

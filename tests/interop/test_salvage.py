"""What salvage leaves of RocketMQ's own stores: RocketMQ loads it, reads all of it, and changes none of it."""

import json
import random
import shutil

import pytest

from interop import store_checks
from interop.conftest import Written
from interop.test_recovery import config_of
from rocketstore import salvage

pytestmark = pytest.mark.interop

PROFILES = [("5.5.1", profile) for profile in ("basic", "rich", "batch", "lmq", "lmq_batch", "crc", "cqext")]
PROFILES += [("5.3.3", "basic"), ("5.3.3", "lmq")]
LOG_FILE_SIZE = 24 * 1024
MOVING = ("queue_offset", "phy_offset", "msg_id")  # what another place changes, and
WHERE = ("INNER_MULTI_QUEUE_OFFSET", "INNER_BASE", "__CRC32#")  # these properties, with them the size


def plain(row):
    properties = {name: value for name, value in row["properties"].items() if name not in WHERE}
    return {**row, **dict.fromkeys((*MOVING, "size")), "properties": properties}


@pytest.fixture(params=PROFILES, ids="-".join)
def case(request, store_of, tmp_path, seed):
    """A store, a copy that was damaged, and the records that are still in it."""
    release, profile = request.param
    size = LOG_FILE_SIZE * (1 if profile == "basic" else 4)
    store = store_of(release, profile, maxIndexNum=5000, mappedFileSizeCommitLog=size)
    damaged = tmp_path / "damaged"
    shutil.copytree(store.root, damaged)
    rows = store_checks.expected_rows(store_checks.java_records(store))
    rng = random.Random(f"{seed} {release} {profile}")
    hit = sorted(rng.sample(range(len(rows)), k=5))
    for row in (rows[i] for i in hit):
        with (damaged / "commitlog" / f"{row['phy_offset'] // size * size:020d}").open("r+b") as file:
            file.seek(row["phy_offset"] % size + 4)
            file.write(bytes(rng.choice((4, 30, 80))))
    first, second, *_ = sorted((damaged / "commitlog").iterdir()) * 2
    if first != second:
        shutil.move(first, tmp_path / "first")
        shutil.move(second, first)
        shutil.move(tmp_path / "first", second)
    batches = {"attributes": {"queue.type": "BatchCQ"}}
    table = {topic: {"topicName": topic, **batches} for topic in store.options["batchTopics"]}
    (damaged / "config").mkdir()
    (damaged / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return store, damaged, [row for i, row in enumerate(rows) if i not in hit]


def files(root):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for name in ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index")
        for path in (root / name).rglob("*")
        if path.is_file()
    }


def test_rocketmq_reads_all_that_was_found(case, tmp_path, seed):
    store, damaged, expected = case
    report = salvage(damaged, tmp_path / "new", config=config_of(store, store.java.release))
    assert 0 < len(report.lost) <= 5  # neighbours are one range
    new = Written(store.java, tmp_path / "new", store.options, store.messages, [])
    rows = store_checks.expected_rows(store_checks.java_records(new))
    assert [plain(row) for row in rows] == [plain(row) for row in expected]
    store_checks.check_queues(new)
    store_checks.check_reads(new, random.Random(seed), 150)
    store_checks.check_keys(new, random.Random(seed), 60)


def test_each_message_is_given_once_to_a_consumer_from_the_beginning(case, tmp_path):
    store, damaged, _ = case
    salvage(damaged, tmp_path / "new", config=config_of(store, store.java.release))
    new = Written(store.java, tmp_path / "new", store.options, store.messages, [])
    rows = store_checks.expected_rows(store_checks.java_records(new))
    queues = store_checks.java_queues(new, load=True)
    for queue in queues:
        if queue["type"] == "SimpleCQ" and not queue["topic"].startswith("%LMQ%"):
            of_queue = [
                row
                for row in rows
                if (row["topic"], row["queue_id"]) == (queue["topic"], queue["queueId"]) and row["sys_flag"] & 4 == 0
            ]
            numbers = [row["queue_offset"] for row in of_queue]
            assert numbers == list(range(queue["max"] - len(of_queue), queue["max"]))
            request = {
                "op": "get_message",
                "topic": queue["topic"],
                "queueId": queue["queueId"],
                "offset": numbers[0],
                "maxNum": 1000,
                "tags": None,
            }
            (answer,) = new.java.read_store(new.root, new.options, [request])
            assert answer["minOffset"] == numbers[0]
            assert answer["phyOffsets"] == [row["phy_offset"] for row in of_queue][: len(answer["phyOffsets"])] != []


def test_a_start_of_rocketmq_changes_nothing(case, tmp_path):
    store, damaged, _ = case
    salvage(damaged, tmp_path / "new", config=config_of(store, store.java.release))
    before = files(tmp_path / "new")
    store.java.recover(tmp_path / "new", store.options)
    after = files(tmp_path / "new")
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set()

"""What patch makes of damaged stores: RocketMQ's classes read every sound message at its place, and the marked ones."""

import json
import random
import shutil

import pytest
from support.damaged_log import overwrite

from interop import store_checks
from interop.conftest import Written
from interop.test_recovery import config_of
from rocketstore import patch, verify
from rocketstore.messages.topics import SYSTEM_TOPIC_PREFIXES

pytestmark = pytest.mark.interop

PROFILES = [("5.5.1", profile) for profile in ("basic", "rich", "batch", "lmq", "crc", "cqext")]
PROFILES += [("5.3.3", "basic"), ("5.3.3", "lmq"), ("5.3.3", "crc"), ("4.9.8", "basic"), ("4.9.8", "lmq")]
LOG_FILE_SIZE = 24 * 1024


@pytest.fixture(params=[(*profile, number) for profile in PROFILES for number in range(3)], ids=str)
def case(request, store_of, tmp_path, seed):
    """A damaged copy of a store, and the records that the store had."""
    release, profile, number = request.param
    size = LOG_FILE_SIZE * (1 if profile == "basic" else 4)
    store = store_of(release, profile, maxIndexNum=5000, mappedFileSizeCommitLog=size)
    damaged = shutil.copytree(store.root, tmp_path / "damaged")
    rows = store_checks.expected_rows(store_checks.java_records(store))
    rng = random.Random(f"{seed} {release} {profile} {number}")
    can_be_hit = [row for row in rows[:-3] if not is_refused(row)]
    for row in rng.sample(can_be_hit, k=5):
        damage = rng.choice((bytes(4), bytes(30), bytes(row["size"]), rng.randbytes(row["size"])))
        overwrite(damaged, row["phy_offset"], damage, size)
    table = {topic: {"topicName": topic, "attributes": {"queue.type": "BatchCQ"}} for topic in batches(store)}
    (damaged / "config").mkdir(exist_ok=True)
    (damaged / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return store, damaged, rows


def batches(store):
    return store.options["batchTopics"]


def is_refused(row):
    return row["topic"].startswith(SYSTEM_TOPIC_PREFIXES)


def test_rocketmq_reads_every_message_at_its_place(case):
    store, damaged, rows = case
    config = config_of(store, store.java.release)
    before = verify(store.root, config=config)
    report = patch(damaged, config=config)
    assert (report.refused, report.ranges > 0) == ((), True)
    lost = {message.phy_offset for message in report.lost}
    new = Written(store.java, damaged, store.options, store.messages, [])
    found = {row["phy_offset"]: row for row in store_checks.expected_rows(store_checks.java_records(new))}
    for row in rows:
        if row["phy_offset"] not in lost and row["sys_flag"] & 0xC in (0, 8):
            assert found[row["phy_offset"]] == row
        elif row["phy_offset"] in lost:
            other = found[row["phy_offset"]]
            assert [other[name] for name in PLACE] == [row[name] for name in PLACE]
    kinds = {finding.kind for finding in before.findings}
    assert [
        one for one in verify(damaged, config=config).findings if one.severity == "error" and one.kind not in kinds
    ] == []
    assert store_checks.java_queues(new, load=True) == store_checks.java_queues(store, load=True)


PLACE = ("topic", "queue_id", "queue_offset", "phy_offset", "size")  # hosts, and so ids, of the profiles differ


def test_a_start_of_rocketmq_changes_no_queue_and_no_record(case):
    store, damaged, _ = case
    patch(damaged, config=config_of(store, store.java.release))
    before = files(damaged)
    store.java.recover(damaged, store.options)
    assert {name for name, data in files(damaged).items() if before.get(name) != data} == set()


def files(root):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for name in ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index")
        for path in (root / name).rglob("*")
        if path.is_file()
    }

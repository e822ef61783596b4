"""Consume queues that RocketMQ left, against what its own classes read from them."""

from collections import defaultdict

import pytest
from support import stores

from rocketstore import BatchConsumeQueue, ConsumeQueue, ConsumeQueueExt

KINDS = {
    "cq": (ConsumeQueue, "consumequeue", "mapped_file_size_consume_queue"),
    "bcq": (BatchConsumeQueue, "batchconsumequeue", "mapper_file_size_batch_consume_queue"),
}


class Log:
    """The store times of a dumped commit log."""

    def __init__(self, dump, log):
        self.min_phy_offset, self.max_phy_offset = log["minPhyOffset"], log["maxPhyOffset"]
        self.times = {row["physicalOffset"]: row["storeTimestamp"] for row in dump["message"]}

    def pickup_store_timestamp(self, phy_offset, size):
        inside = self.min_phy_offset <= phy_offset and phy_offset + size <= self.max_phy_offset
        return self.times.get(phy_offset, -1) if inside else -1


class Golden:
    def __init__(self, name, root):
        self.root, self.dump, self.reads = root, stores.dump(name), stores.reads(name)
        self.settings = stores.settings(name)
        self.log = Log(self.dump, self.reads["log"][0])

    def rows(self, kind):
        """The dumped units by topic and queue id."""
        rows = defaultdict(list)
        for row in self.dump.get(kind, []):
            rows[row["topic"], row["queueId"]].append(row)
        return rows

    def queue(self, topic, queue_id):
        """The queue with its log, None if the store has no files of it."""
        for kind, directory, _ in KINDS.values():
            path = self.root / directory / topic / str(queue_id)
            if path.exists():
                return kind.open(path, commit_log=self.log)
        return None


@pytest.fixture(scope="module", params=stores.NAMES)
def golden(request, tmp_path_factory):
    return Golden(request.param, stores.unpack(request.param, tmp_path_factory.mktemp("golden")))


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_unit_is_read_as_by_rocketmq(golden, kind, sized):
    queue_kind, directory, setting = KINDS[kind]
    names = ["index", "offset", "size"] + (["tagsCode", "batchNum", "compactedOffset"] if kind == "bcq" else [])
    for (topic, queue_id), rows in golden.rows(kind).items():
        path = golden.root / directory / topic / str(queue_id)
        with queue_kind.open(path, mapped_file_size=golden.settings[setting] if sized else None) as queue:
            units = list(queue[0:])
            assert (queue.topic, queue.queue_id) == (topic, queue_id)
        if kind == "cq":
            assert [unit.tags_code for unit in units] == [row["storedTagsCode"] for row in rows]
            read = [unit[:3] for unit in units]
        else:
            read = [(*unit[:4], unit.batch_num, unit.compacted_offset) for unit in units]
        assert read == [tuple(row[name] for name in names) for row in rows]


def test_batch_units_have_their_record_s_store_time(golden):
    for key, rows in golden.rows("bcq").items():
        units = golden.queue(*key)[0:]
        assert units.store_timestamps.tolist() == [golden.log.times[row["offset"]] for row in rows]


def test_every_ext_unit_is_read_as_by_rocketmq(golden):
    for (topic, queue_id), rows in golden.rows("cq").items():
        rows = [row for row in rows if "ext" in row]
        if rows:
            with ConsumeQueueExt.open(golden.root / "consumequeue_ext" / topic / str(queue_id)) as ext:
                units = [ext.read(row["storedTagsCode"]) for row in rows]
            assert all(ConsumeQueueExt.is_ext_address(row["storedTagsCode"]) for row in rows)
            expected = [(row["ext"]["tagsCode"], row["ext"]["msgStoreTime"]) for row in rows]
            assert [unit[:2] for unit in units] == expected
            assert [20 + len(unit.bitmap) for unit in units] == [row["ext"]["size"] for row in rows]


def test_every_queue_begins_and_ends_where_rocketmq_says(golden):
    for row in golden.reads["queue"]:
        queue = golden.queue(row["topic"], row["queueId"])
        if queue is None:
            assert row["total"] == 0
            continue
        assert (queue.min_queue_offset, queue.max_queue_offset, len(queue)) == (row["min"], row["max"], row["total"])


def test_every_time_is_found_where_rocketmq_finds_it(golden):
    for row in golden.reads["time"]:
        queue = golden.queue(row["topic"], row["queueId"])
        for boundary in ("lower", "upper"):
            if queue is None:
                assert row[boundary] == 0
            elif row[boundary] == "BufferUnderflowException":  # of a queue that has expired: there is one answer
                assert queue.get_offset_by_time(row["timestamp"], boundary) == queue.max_queue_offset
            else:
                assert queue.get_offset_by_time(row["timestamp"], boundary) == row[boundary], row

"""The oracle's queries, and the stores it makes, against what RocketMQ's own classes answered and made."""

import pytest
from reference import message_store
from reference.commit_log import CommitLog, read_files
from reference.consume_queue import load
from reference.record import PREPARED
from support import stores

FILE_QUEUES_ONLY = [name for name in stores.NAMES if name.split("-")[0] in ("basic", "rich", "crc", "step")]


class Golden:
    """A golden store: its log, and its index as a broker has it after loading."""

    def __init__(self, name, root):
        self.name, self.root, self.settings = name, root, stores.settings(name)
        verify = self.settings.get("force_verify_prop_crc", False)
        self.log = CommitLog(read_files(root / "commitlog"), force_verify_prop_crc=verify)
        geometry = self.settings["max_hash_slot_num"], self.settings["max_index_num"]
        if (root / "abort").exists():
            self.index = message_store.build_index(self.log, *geometry, index_tags=self.indexes_tags)
        else:
            self.index = message_store.read_index(root / "index", *geometry)

    @property
    def indexes_tags(self):
        return self.name.endswith("5.5.0")


@pytest.fixture(scope="module", params=stores.NAMES)
def golden(request, tmp_path_factory):
    return Golden(request.param, stores.unpack(request.param, tmp_path_factory.mktemp("golden")))


def test_every_query_has_rocketmq_s_answers(golden):
    """Corner 69."""
    for row in stores.queries(golden.name):
        asked = [row[field] for field in ("topic", "key", "max", "begin", "end")]
        answer = golden.index.query_offset(*asked, row.get("type"))
        assert answer == (
            row["indexOffsets"],
            row["indexLastUpdateTimestamp"],
            row["indexLastUpdatePhyoffset"],
        ), row
        found = message_store.query_message(golden.index, golden.log, *asked, row.get("type"))
        assert [offset for offset, _ in found] == row["messageOffsets"], row
        assert sum(size for _, size in found) == row["bufferTotalSize"]


@pytest.mark.parametrize("name", FILE_QUEUES_ONLY)
def test_queues_and_index_built_from_the_log_are_rocketmq_s_byte_for_byte(name, tmp_path):
    golden = Golden(name, stores.unpack(name, tmp_path))
    queues = message_store.build_queues(golden.log, golden.settings["mapped_file_size_consume_queue"])
    for (topic, queue_id), queue in queues.items():
        assert read_files(golden.root / "consumequeue" / topic / str(queue_id)) == queue.files
    index = message_store.build_index(
        golden.log,
        golden.settings["max_hash_slot_num"],
        golden.settings["max_index_num"],
        index_tags=golden.indexes_tags,
    )
    files = sorted((golden.root / "index").iterdir())
    assert [file.data for file in index.files] == [path.read_bytes() for path in files]


def test_a_made_store_reads_back(tmp_path):
    records = [
        {
            "topic": f"T{n % 2}",
            "body": bytes([n]) * 150,
            "properties": {"KEYS": f"k{n}", "TAGS": "TagA"},
            "queue_id": n % 3,
            "sys_flag": PREPARED if n == 5 else 0,
            "store_timestamp": 10**12 + 500 * n,
        }
        for n in range(60)
    ]
    log = message_store.make_store(tmp_path, records, file_size=4096, cq_file_size=100, index_num=50)
    assert len(read_files(tmp_path / "commitlog")) == 4
    assert [record.body for _, record in log.records] == [record["body"] for record in records]
    queue = load(tmp_path / "consumequeue" / "T1" / "2", 100)
    units = [unit for start in queue.starts for unit in queue.units(start)]
    assert (queue.max_offset, [unit.queue_offset for unit in units]) == (9, list(range(9)))
    index = message_store.read_index(tmp_path / "index", 97, 50)
    offsets = {record.keys: offset for offset, record in log.records}
    for key, offset in offsets.items():
        assert index.query_offset(f"T{int(key[1:]) % 2}", key, 32)[0] == [offset]


def test_a_store_that_lost_its_first_files_starts_with_fillers(tmp_path):
    """Corner 95."""
    records = [{"queue_offset": 32 + n} for n in range(3)]
    log = message_store.make_store(tmp_path, records, file_size=4096, cq_file_size=200, first_offset=8192)
    assert log.min_offset == 8192
    files = read_files(tmp_path / "consumequeue" / "TopicTest" / "0")
    assert list(files) == [600]
    queue = load(tmp_path / "consumequeue" / "TopicTest" / "0", 200)
    assert [unit.is_filler for unit in queue.units(600)] == [True, True, False, False, False]
    assert [unit.queue_offset for unit in queue.units(600)] == [30, 31, 32, 33, 34]

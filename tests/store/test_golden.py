"""The index that a real broker left, and what RocketMQ's own classes read from it."""

import hashlib
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import reference

from rocketstore import IndexFile, IndexService

DUMP = Path(__file__).parent.parent / "golden" / "broker-5.5.0.index.jsonl.xz"
GEOMETRY = {"hash_slot_num": 97, "index_num": 1000}
HEADER = ["beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset", "hashSlotCount", "indexCount"]
COLUMNS = {
    "topic": "topic",
    "uniq_key": "uniqKey",
    "keys": "keys",
    "tags": "tags",
    "phy_offset": "phyOffset",
    "store_timestamp": "storeTimestamp",
    "sys_flag": "sysFlag",
}


@pytest.fixture(scope="module")
def dump():
    """The dumped lines, by kind."""
    kinds = {"index": [], "item": [], "message": []}
    with lzma.open(DUMP, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            kinds[row["kind"]].append(row)
    return kinds


@pytest.fixture(scope="module")
def rebuilt(dump, tmp_path_factory):
    """The index directory that rocketstore builds from the dumped messages."""
    directory = tmp_path_factory.mktemp("rebuilt") / "index"
    with IndexService.open(directory, "a", **GEOMETRY) as service:
        service.build_indexes({name: [row[field] for row in dump["message"]] for name, field in COLUMNS.items()})
    return directory


def index_keys(row):
    keys = [row["uniqKey"], *(row["keys"] or "").split(), f"T#{row['tags']}"]
    return [f"{row['topic']}#{key}" for key in keys if key is not None]


def test_headers_are_read_as_rocketmq_reads_them(dump, golden_index):
    full = [row for row in dump["index"] if row["writeFull"]]
    assert len(full) == 4
    for row in full:
        with IndexFile.open(golden_index / row["file"], "r", **GEOMETRY) as file:
            assert list(file.header) == [row[field] for field in HEADER]
            assert file.is_write_full


def test_every_dumped_item_is_in_its_file_and_in_its_chain(dump, golden_index):
    files = {
        row["file"]: reference.IndexFile(**GEOMETRY, data=(golden_index / row["file"]).read_bytes())
        for row in dump["index"]
    }
    assert len(dump["item"]) == 4 * 999 + 94
    for row in dump["item"]:
        expected = row["keyHash"], row["offset"], row["timeDiff"], row["previous"]
        assert files[row["file"]].item(row["index"]) == expected


def test_a_rebuilt_index_is_the_broker_s_byte_for_byte(dump, golden_index, rebuilt):
    files = [path.read_bytes() for path in sorted(rebuilt.iterdir())]
    assert [hashlib.sha1(data).hexdigest() for data in files] == [row["sha1"] for row in dump["index"]]
    for row, data in zip(dump["index"], files, strict=True):
        if row["writeFull"]:
            assert (golden_index / row["file"]).read_bytes() == data


def test_geometry_is_found_without_being_given(golden_index):
    for path in sorted(golden_index.iterdir()):
        with IndexFile.open(path) as file:
            assert (file.hash_slot_num, file.index_num) == (97, 1000)


def test_every_key_of_every_message_is_found_at_its_offset(dump, golden_index):
    keys, expected = [], []
    for row in dump["message"]:
        for key in index_keys(row):
            keys.append(key)
            expected.append(row["phyOffset"])
    found = [set() for _ in keys]
    for path in sorted(golden_index.iterdir()):
        with IndexFile.open(path) as file:
            for phy_offsets, row in zip(found, file.select_phy_offsets(keys, max_num=10**6), strict=True):
                phy_offsets.update(row.tolist())
    assert len(keys) == len(dump["item"])
    assert all(offset in phy_offsets for offset, phy_offsets in zip(expected, found, strict=True))


def test_every_answer_from_the_broker_s_files_is_the_reference_s(dump, golden_index):
    paths = sorted(golden_index.iterdir())
    model = reference.IndexService(97, 1000)
    model.files = [reference.IndexFile(**GEOMETRY, data=path.read_bytes()) for path in paths]
    keys = list(dict.fromkeys(key for row in dump["message"] for key in index_keys(row)))
    hashes = np.array([reference.key_hash(key) for key in keys], dtype=np.int32)
    for file_model, path in zip(model.files, paths, strict=True):
        expected = [file_model.select_phy_offset(key, 32) for key in keys]
        with IndexFile.open(path) as file:
            assert file.select_phy_offsets(keys).to_pylist() == expected
            assert file.select_phy_offsets_by_hash(hashes, threads=2).to_pylist() == expected
    queried = [key.removeprefix("LabTopic#") for key in keys if key.startswith("LabTopic#")]
    with IndexService.open(golden_index) as service:
        assert len(service.files) == len(paths)
        assert service.query_offsets("LabTopic", queried).to_pylist() == [
            model.query_offset("LabTopic", key, 64)[0] for key in queried
        ]

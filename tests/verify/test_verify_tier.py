"""verify of tiered storage: each fault of segments, units, metadata and index is found, and sound ones have none."""

import random
import resource
import struct

import pytest
from support import states
from support.cli import run

import rocketstore
from rocketstore import StoreConfig
from rocketstore.tier.places import hash_prefix
from rocketstore.verify import tiered_storage

BROKER = "24e289d7_LabCluster/lab"


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return states.unpack("tiered", tmp_path_factory.mktemp("states"))


@pytest.fixture
def root(golden, tmp_path):
    return states.copy_tiered(golden, tmp_path)


def verify(root, *, quick=False):
    sizes = {"max_hash_slot_num": 1000, "max_index_num": 4000}
    config = StoreConfig(tiered_store_file_path=str(root.parent / "tiered-data"), **sizes)
    return rocketstore.verify(root, config=config, quick=quick)


def kinds(root):
    return {finding.kind for finding in verify(root).findings}


def segments(root, directory):
    return sorted((root.parent / "tiered-data" / BROKER / directory).iterdir(), key=lambda path: path.name[8:])


@pytest.mark.parametrize("quick", [False, True])
def test_a_store_with_a_sound_tier_has_no_finding(golden, quick):
    assert list(verify(golden, quick=quick).findings) == []


def test_a_tier_that_is_not_named_is_not_checked(golden):
    [finding] = rocketstore.verify(golden).findings
    assert (finding.kind, finding.severity) == ("not-checked", "info")
    assert "--tier PATH" in finding.detail
    assert run("verify", golden, "--tier", golden.parent / "tiered-data").exit_code == 0
    refused = run("verify", golden, "--tier", golden.parent / "nowhere", "--format", "json")
    assert refused.exit_code == 1
    assert "tier-unreadable" in refused.stdout


def test_a_missing_segment_is_found(root):
    segments(root, "Lake/0/COMMIT_LOG")[1].unlink()
    segments(root, "Lake/1/CONSUME_QUEUE")[0].unlink()
    assert {"tier-segment-missing", "tier-metadata", "tier-unit"} <= kinds(root)


def test_a_unit_that_leads_elsewhere_is_found(root):
    path = segments(root, "Lake/0/CONSUME_QUEUE")[0]
    data = bytearray(path.read_bytes())
    struct.pack_into(">q", data, 7 * 20, 1)
    struct.pack_into(">i", data, 9 * 20 + 8, 5)
    path.write_bytes(data)
    found = [finding for finding in verify(root).findings if finding.kind == "tier-unit"]
    assert [finding.offset for finding in found] == [140, 180]


def test_quick_verification_reads_some_units(root, monkeypatch):
    path = segments(root, "Lake/0/CONSUME_QUEUE")[-1]
    data = bytearray(path.read_bytes())
    struct.pack_into(">q", data, len(data) - 20, 1)
    path.write_bytes(data)
    read = []
    find = tiered_storage.find_bad_units

    def count(log, units, queue):
        read.append((queue, len(units)))
        return find(log, units, queue)

    monkeypatch.setattr(tiered_storage, "find_bad_units", count)
    assert [finding.kind for finding in verify(root, quick=True).findings] == ["tier-unit"]
    assert read == [(queue, 1) for queue in sorted({queue for queue, _ in read}) for _ in range(8)]
    read.clear()
    verify(root)
    assert sum(units for _, units in read) == 730


def test_a_hole_in_a_segment_ends_its_check(root):
    path = segments(root, "Lake/0/CONSUME_QUEUE")[-1]
    with path.open("r+b") as file:
        file.seek((1 << 30) * 20)
        file.write(bytes(11) + b"\x09" + bytes(8))
    assert "4096 units are zeros" in {finding.detail.removeprefix("units: ") for finding in verify(root).findings}
    assert len(verify(root, quick=True).findings) <= 8


def test_a_body_that_changed_is_found(root):
    path = segments(root, "Lake/0/COMMIT_LOG")[0]
    data = bytearray(path.read_bytes())
    at = data.index(b"Lake 0 ")
    data[at + 20] ^= 1
    path.write_bytes(data)
    assert kinds(root) == {"tier-unit"}


def test_files_that_are_no_segments_are_found(root):
    directory = root.parent / "tiered-data" / BROKER / "Lake" / "0" / "COMMIT_LOG"
    (directory / "00000000000000000000").write_bytes(b"x")
    path = segments(root, "Lake/0/COMMIT_LOG")[1]
    path.rename(directory / (hash_prefix("7") + f"{7:020}"))
    assert {"tier-foreign-file", "tier-segment-size", "tier-metadata"} <= kinds(root)


def test_messages_in_neither_tier_nor_log_are_found(root):
    segments(root, "Creek/0/CONSUME_QUEUE")[1].unlink()
    assert "tier-gap" not in kinds(root)  # the log has no message of this queue
    segments(root, "Lake/0/CONSUME_QUEUE")[1].unlink()
    [finding] = [finding for finding in verify(root).findings if finding.kind == "tier-gap"]
    assert "ends at queue offset 100, and the log begins at 198" in finding.detail


@pytest.mark.parametrize("name", ["tieredStoreMetadata.json", "INDEX"])
def test_what_cannot_be_read_is_found(root, name):
    path = root / "config" / name if name.endswith("json") else segments(root, "rmq_sys_INDEX/0/INDEX")[0]
    path.write_bytes(b"[{" + path.read_bytes()[2:])
    assert ("tier-metadata" if name.endswith("json") else "tier-index") in kinds(root)


def test_an_item_of_another_key_is_found(root):
    path = segments(root, "rmq_sys_INDEX/0/INDEX")[0]
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, len(data) - 28, 7)
    path.write_bytes(data)
    [finding] = verify(root).findings
    assert (finding.kind, finding.offset) == ("tier-index-item", len(data) - 28)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"7",
        b"[" * 100_000,
        b'{"commitLogFileSegmentTable": 7}',
        b'{"indexFileSegmentTable": {"a": {"b": 7}}}',
        b'{"topicMetadataTable": {"a": {"topicId": []}}}',
        b'{"consumeQueueFileSegmentTable": {"lab/Lake/0": {"0": {"baseOffset": 9999999999999999999, "size": -1}}}}',
    ],
)
def test_hostile_metadata_is_a_finding_or_ignored(root, text):
    (root / "config" / "tieredStoreMetadata.json").write_bytes(text)
    assert kinds(root) <= {"tier-metadata", "tier-unreadable"}


@pytest.mark.parametrize("seed", range(10))
def test_damage_gives_findings(root, seed):
    rng = random.Random(seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in [path for path in (root.parent / "tiered-data").rglob("*") if path.is_file()]:
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice([0, 3, 30])):
            data[rng.randrange(min(len(data), 3000))] = rng.choice([0, 0x7F, 0x80, 0xFF])
        path.write_bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])])
    report = verify(root)
    assert all(finding.kind.startswith("tier-") for finding in report.findings)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 200 << 10  # KiB

"""Stores of many queues and files: 64 descriptors are enough, and the work per file does not grow with the files."""

import multiprocessing
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter
from rocketstore.salvage import find as salvage_find
from rocketstore.salvage.find import Finds

DESCRIPTORS = 64
PER_TOPIC = 30


def config_of(**options):
    return StoreConfig(
        mapped_file_size_commit_log=1 << 16,
        mapped_file_size_consume_queue=400,
        max_hash_slot_num=7,
        max_index_num=1000,
        **options,
    )


def messages_of(queues):
    return [
        Message(f"T{number // PER_TOPIC}", b"body", keys=[f"k{number}"], tags="a", queue_id=number % PER_TOPIC)
        for number in range(queues)
    ]


def require_few_descriptors():
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) < DESCRIPTORS // 2


def assert_nothing_is_wrong(root, config):
    findings = rocketstore.verify(root, config=config).findings
    assert findings == [], findings[:3]


def write(root, queues, config):
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages(messages_of(queues))
        store.flush()
        require_few_descriptors()
    with rocketstore.open(root, "a", config=config) as store:
        for message in messages_of(queues):
            store.put_message(message)
        require_few_descriptors()


def read(root, queues, config):
    with rocketstore.open(root, config=config) as store:
        found = [store.consume_queue(f"T{number // PER_TOPIC}", number % PER_TOPIC) for number in range(queues)]
        assert [len(queue[:]) for queue in found] == [2] * queues
        assert sum(len(batch) for batch in store.scan(threads=4)) == 2 * queues
        assert store.summary().queues == queues
        require_few_descriptors()
    assert_nothing_is_wrong(root, config)


def recover(root, config):
    for policy in ("complete", "broker"):
        (root / "abort").touch()
        rocketstore.recover(root, policy=policy, dry_run=True, config=config)
        rocketstore.recover(root, policy=policy, config=config)
        findings = rocketstore.verify(root, config=config).findings
        # As a broker does, the policy "broker" deletes the newest index file and indexes the last log files alone.
        findings = [finding for finding in findings if policy == "complete" or finding.kind != "index-key-missing"]
        assert findings == [], findings[:3]


def run_command(*arguments):
    command = [sys.executable, "-m", "rocketstore", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def use_with_few_descriptors(directory, queues, options):
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    root, config = directory / "store", config_of(**options)
    write(root, queues, config)
    read(root, queues, config)
    recover(root, config)
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    rocketstore.rebuild(root, config=config)
    read(root, queues, config)
    rocketstore.salvage(root, directory / "saved", config=config)
    for command in (["ls", root], ["info", root], ["cat", root], ["verify", root], ["recover", "--dry-run", root]):
        run_command(*command)
    run_command("export", root, directory / "rows.json")
    run_command("import", directory / "rows.json", directory / "imported", "--small")
    with rocketstore.open(root, "a", config=config) as store:
        begin = store.commit_log.max_phy_offset
        store.put_messages(messages_of(queues))
        assert store.delete_expired_files(before_phy_offset=begin).commit_log
        require_few_descriptors()


def in_process_of_its_own(function, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.slow
def test_64_descriptors_are_enough_for_every_command_on_300_queues(tmp_path):
    in_process_of_its_own(use_with_few_descriptors, tmp_path, 300, {})


@pytest.mark.slow
def test_64_descriptors_are_enough_for_queues_with_ext_files(tmp_path):
    options = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 1 << 12}
    in_process_of_its_own(write_with_few_descriptors, tmp_path / "few", 300, options)


def write_with_few_descriptors(root, queues, options):
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    config = config_of(**options)
    write(root, queues, config)
    read(root, queues, config)
    recover(root, config)


def test_64_descriptors_are_enough_to_write_and_recover_200_queues(tmp_path):
    in_process_of_its_own(write_with_few_descriptors, tmp_path / "store", 200, {})


# ---- work per file ------------------------------------------------------------------------------------------


class Number(int):
    """An offset that counts how often it is compared."""

    compared = 0

    def __lt__(self, other):
        Number.compared += 1
        return int(self) < int(other)

    def __le__(self, other):
        Number.compared += 1
        return int(self) <= int(other)

    def __gt__(self, other):
        Number.compared += 1
        return int(self) > int(other)

    def __eq__(self, other):
        Number.compared += 1
        return int(self) == int(other)

    __hash__ = int.__hash__


def comparisons_of_expiry(directory, files):
    units = b"".join(
        number.to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8) for number in range(0, 100 * files, 100)
    )
    directory.mkdir()
    for number in range(files):
        (directory / f"{20 * number:020}").write_bytes(units[20 * number : 20 * number + 20])
    writer = ConsumeQueueWriter(directory, 20)
    writer.recover()
    writer._starts = [Number(start) for start in writer._starts]
    Number.compared = 0
    assert len(writer.delete_expired(100 * files)) == files - 1
    writer.destroy()
    writer.close()
    return Number.compared


def test_expiry_of_a_queue_compares_n_log_n_offsets(tmp_path):
    few, many = comparisons_of_expiry(tmp_path / "few", 50), comparisons_of_expiry(tmp_path / "many", 200)
    assert 0 < many < 6 * few + 100


def test_file_runs_find_the_file_of_a_position(tmp_path):
    for number in range(5):
        (tmp_path / f"{20 * number:020}").write_bytes(bytes([number + 1]) * 20)
    writer = ConsumeQueueWriter(tmp_path, 20)
    writer.load()
    assert [writer._read(20 * number + 3, 2) for number in (4, 0, 2)] == [b"\5\5", b"\1\1", b"\3\3"]
    writer.close()


class File:
    """A damaged file of the log, as ``Finds`` sees it. It counts how often its base is read."""

    reads = 0

    def __init__(self, base, length, name):
        self._base, self.length, self.path = base, length, Path(name)

    @property
    def base(self):
        File.reads += 1
        return self._base


def reads_of_gaps(files):
    finds = Finds([File(100 * number, 100, f"f{number}") for number in range(files)])
    File.reads = 0
    gaps = [(100 * number + 10, 100 * number + 20) for number in range(files + 1)]
    lost = list(finds._missing(gaps, 100))
    assert [found.path.name for found in lost] == [f"f{number}" for number in range(files)] + [f"{100 * files:020}"]
    assert {found.offset for found in lost} == {10}
    return File.reads


def test_salvage_finds_the_files_of_gaps_without_a_search_per_gap():
    assert reads_of_gaps(400) < 6 * reads_of_gaps(100)


def test_a_gap_in_overlapping_files_is_named_by_the_first_file():
    files = [File(500, 100, "late"), File(0, 1000, "long"), File(500, 100, "twin"), File(None, 9, "foreign")]
    lost = list(Finds(files)._missing([(10, 20), (510, 520), (700, 710), (2000, 2010)], 1000))
    assert [(found.path.name, found.offset) for found in lost] == [
        ("long", 10),
        ("late", 10),
        ("long", 700),
        (f"{2000:020}", 0),
    ]


def test_records_within_a_range_are_found_by_their_begins_and_ends():
    places = np.array([0, 10, 25, 40])
    ends = places + np.array([10, 15, 15, 5])
    for begin in range(50):
        for end in range(begin, 50):
            inside = salvage_find._inside(places, ends, begin, end)
            assert places[inside].tolist() == places[(places >= begin) & (ends <= end)].tolist()

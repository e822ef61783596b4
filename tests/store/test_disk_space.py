"""The disk space that a new store takes."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.config import DEFAULT_SIZES
from rocketstore.disk.file_system import is_in_memory

CONFIGS = {"small": StoreConfig.small(), "as a broker's": StoreConfig(**DEFAULT_SIZES)}
KEYED = [Message("T", os.urandom(9000), keys=[f"k{n}", f"more{n}"], queue_id=0) for n in range(700)]


@pytest.fixture(autouse=True)
def _needs_a_disk(tmp_path, request):
    if is_in_memory(tmp_path) and "megabyte" in request.node.name:
        pytest.skip("in tmpfs, files take all their space at once")


def disk_bytes(root):
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*"))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_store_of_one_message_takes_less_than_a_megabyte(name, tmp_path):
    config, root = CONFIGS[name], tmp_path / "store"
    with rocketstore.open(root, "a", config=config) as store:
        store.put_message(Message("T", b"x", keys=["k"]))
        store.flush()
        assert disk_bytes(root) < 1_000_000 or config.allocate_file_ahead
    assert disk_bytes(root) < 1_000_000
    (log,), (index,) = (list((root / part).iterdir()) for part in ("commitlog", "index"))
    assert log.stat().st_size == config.mapped_file_size_commit_log
    assert index.stat().st_size == 40 + 4 * config.max_hash_slot_num + 20 * config.max_index_num


def test_a_store_may_take_all_space_of_its_files_at_once(tmp_path):
    config = replace(StoreConfig.small(), mapped_file_size_commit_log=3 << 20, preallocate=True)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        store.put_message(Message("T", b"x", keys=["k"]))
    for part in ("commitlog", "index"):
        (file,) = (tmp_path / "store" / part).iterdir()
        assert file.stat().st_blocks * 512 >= file.stat().st_size


@pytest.mark.parametrize("is_one_by_one", [True, False])
def test_messages_beyond_the_first_steps_are_read_back_also_after_a_reopening(is_one_by_one, tmp_path):
    root = tmp_path / "store"
    for part in (KEYED[:300], KEYED[300:]):
        with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
            if is_one_by_one:
                for message in part:
                    store.put_message(message)
            else:
                store.put_messages(part)
    with rocketstore.open(root) as store:
        bodies = [message.body for batch in store.scan() for message in batch]
        assert bodies == [message.body for message in KEYED]
        found = store.query_messages("T", [f"more{n}" for n in range(700)])
        assert [len(batch) for batch in found] == [1] * 700
        assert found.complete.all()
    assert rocketstore.verify(root, config=StoreConfig.small()).ok


def test_a_log_file_with_holes_is_continued(tmp_path):
    """As a broker leaves it."""
    root, config = tmp_path / "store", replace(StoreConfig.small(), mapped_file_size_commit_log=4 << 20)
    with rocketstore.open(root, "a", config=config) as store:
        store.put_message(KEYED[0])
    (file,) = (root / "commitlog").iterdir()
    data = file.read_bytes().rstrip(b"\0")
    file.write_bytes(data)
    os.truncate(file, 4 << 20)
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages(KEYED[1:300])
    with rocketstore.open(root) as store:
        assert [message.body for batch in store.scan() for message in batch] == [each.body for each in KEYED[:300]]


def test_the_file_system_of_a_directory_is_known(tmp_path):
    assert not is_in_memory(Path("/proc"))
    assert not is_in_memory(tmp_path / "missing")
    if Path("/dev/shm").is_mount():
        assert is_in_memory(Path("/dev/shm"))

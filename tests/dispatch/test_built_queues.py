"""BuiltQueues: queues from the log alone, against those that a writer made."""

import os
import sys
import tempfile
from pathlib import Path

import pytest
from support.deleted import LIVE, put, store_with_deleted_topic
from support.subprocesses import in_subprocess

import rocketstore
from rocketstore import ConsumeQueue, StoreConfig, StoreError
from rocketstore.dispatch import built_queues
from rocketstore.dispatch.built_queues import FILE_SIZE, BuiltQueues
from rocketstore.dispatch.topic_lives import KnownTopics


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The directory of temporary files, which is empty after each test."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    assert list(path.iterdir()) == []


def built_of(store):
    return BuiltQueues(store.commit_log, store.config, KnownTopics.of(store.places, store.config, is_stopped=False))


def units_in(directory, queue, size=FILE_SIZE):
    with ConsumeQueue.open(directory / queue.topic / str(queue.queue_id), mapped_file_size=size) as opened:
        return [*opened]


def require_same_queues(root, directory):
    with rocketstore.open(root) as store:
        queues = [*store.queues()]
        assert queues
        for queue in queues:
            assert units_in(directory, queue) == [*store.consume_queue(*queue)]


def test_queues_grow_with_the_log(tmp_path):
    root = tmp_path / "store"
    put(root, "T", b"first", 5, [0, 2], StoreConfig.small())
    with rocketstore.open(root) as reader, built_of(reader) as built:
        directory = built.update()
        require_same_queues(root, directory)
        put(root, "T", b"second", 4, [0, 1])
        put(root, "U", b"third", 2, [3])
        assert built.update() == directory == built.update()
        require_same_queues(root, directory)


def test_a_topic_that_was_created_again_has_its_new_messages_alone(tmp_path):
    root = store_with_deleted_topic(tmp_path / "store", is_made_again=True)
    with rocketstore.open(root) as reader, built_of(reader) as built:
        require_same_queues(root, built.update())
        put(root, "Orders", b"more", 3, [0])
        directory = built.update()
        require_same_queues(root, directory)
    assert not directory.exists()


def test_a_topic_that_is_created_again_later_loses_its_old_messages(tmp_path):
    root = store_with_deleted_topic(tmp_path / "store", is_made_again=False)
    with rocketstore.open(root) as reader, built_of(reader) as built:
        before = built.update()
        put(root, "Orders", b"live", LIVE, [0])
        directory = built.update()
        assert directory != before
        require_same_queues(root, directory)


def test_an_error_leaves_no_files_and_the_next_call_builds_again(tmp_path, temporary, monkeypatch):
    root = tmp_path / "store"
    put(root, "T", b"body", 5, [0], StoreConfig.small())
    with rocketstore.open(root) as reader, built_of(reader) as built:
        built.update()
        put(root, "T", b"body", 5, [0])
        with monkeypatch.context() as patch:
            patch.setattr(built_queues, "MAX_UNITS", 9)
            with pytest.raises(StoreError, match="more than 9 units"):
                built.update()
        assert list(temporary.iterdir()) == []
        require_same_queues(root, built.update())


def test_a_forked_process_builds_its_own_files(tmp_path):
    in_subprocess(fork_and_build, tmp_path)


def fork_and_build(tmp_path):
    root = Path(tmp_path) / "store"
    put(root, "T", b"body", 5, [0], StoreConfig.small())
    with rocketstore.open(root) as reader, built_of(reader) as built:
        directory = built.update()
        child = os.fork()
        if child == 0:
            own = built.update()
            is_own = own != directory and own.is_dir()
            built.close()
            os._exit(0 if is_own and not own.exists() else 1)
        assert os.waitpid(child, 0)[1] == 0
        require_same_queues(root, directory)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

"""Fixtures of the tests of recovery."""

import dataclasses
import shutil

import pytest
from support.recovered import CONFIG, made

import rocketstore
from rocketstore import Message


@pytest.fixture
def store(tmp_path_factory, tmp_path, seed):
    """A function that makes a store, cleanly stopped, of some name."""

    def make(name="store", release="5.5.1"):
        source = made(tmp_path_factory.getbasetemp(), f"recovery {seed}", release)
        return shutil.copytree(source, tmp_path / name)

    return make


@pytest.fixture
def crashed(tmp_path):
    """A store that lost its power after 3 messages were flushed, and 13 were not, of a clock that was set back."""
    config = dataclasses.replace(CONFIG, flush_interval_commit_log=2**31 - 1)
    with rocketstore.open(tmp_path / "written", "a", config=config) as store:
        store.put_messages([Message("T", bytes(500), queue_id=0)] * 3, store_timestamp=2000)
        store.flush()
        store.put_message(Message("New", bytes(500), queue_id=0), store_timestamp=1000)
        store.put_messages([Message("T", bytes(500), queue_id=0)] * 12, store_timestamp=1000)
        assert store.get_message("T", 0, 0).max_offset == 15
        shutil.copytree(tmp_path / "written", tmp_path / "crashed")
    return tmp_path / "crashed"

"""A new store that cannot be opened completely leaves no descriptor open and no thread running."""

from pathlib import Path

import pytest
from support.hostile import open_descriptors
from support.waiting import wait_for_no_thread

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.salvage import new_store

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts in /proc, which only Linux has")


def fail(*_arguments, **_options):
    raise OSError("the disk is full")


@needs_proc
@pytest.mark.parametrize("name", ["open_tables", "open_index", "Dispatcher", "work_threads"])
def test_a_new_store_that_cannot_be_opened_closes_what_was_opened(tmp_path, monkeypatch, name):
    with rocketstore.open(tmp_path / "old", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("A", b"x"))
    monkeypatch.setattr(new_store, name, fail)
    descriptors = open_descriptors()
    with pytest.raises(OSError, match="the disk is full") as caught:
        rocketstore.salvage(tmp_path / "old", tmp_path / "new")
    assert open_descriptors() == descriptors
    assert caught.value.__traceback__ is not None  # its frames keep whatever was not closed
    wait_for_no_thread("rocketstore-salvage")

"""A copy of a log that fails leaves no descriptor open."""

import os
from pathlib import Path

import pytest
from support.hostile import open_descriptors

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.salvage.copy import LogCopy

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts in /proc, which only Linux has")


def write_and_fail(self, size):
    self.open()
    os.write(self.fd, b"x")
    raise OSError("the disk is full")


@needs_proc
@pytest.mark.parametrize("command", [rocketstore.convert, rocketstore.split, rocketstore.salvage])
def test_a_copy_that_fails_closes_the_file_it_wrote(tmp_path, monkeypatch, command):
    with rocketstore.open(tmp_path / "old", "a", config=StoreConfig.small()) as store:
        store.put_messages([Message(topic, b"x") for topic in ("A", "B", "A")])
    monkeypatch.setattr(LogCopy, "write", write_and_fail)
    descriptors = open_descriptors()
    with pytest.raises(OSError, match="the disk is full"):
        command(tmp_path / "old", tmp_path / "new")
    assert open_descriptors() == descriptors

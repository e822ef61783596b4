"""All bytes are written, however few the system takes at once."""

import os

from rocketstore.disk.positioned_write import write_at


def test_bytes_that_the_system_takes_one_by_one_are_all_written(tmp_path, monkeypatch):
    path, whole = tmp_path / "file", os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: whole(fd, data[:1], position))
    with path.open("wb") as file:
        write_at(file.fileno(), b"abc", 2)
    assert path.read_bytes() == b"\0\0abc"

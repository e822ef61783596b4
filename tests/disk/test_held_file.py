"""HeldFile: a copy has the bytes that the file had when it was opened, or the copy is refused."""

import errno
import os

import pytest

from rocketstore.disk.held_file import CHUNK, HeldFile
from rocketstore.errors import DiskReadError, StoreError

SIZE = 2 * CHUNK + 5000

needs_kernel_copy = pytest.mark.skipif(
    not hasattr(os, "copy_file_range"), reason="the system copies nothing in the kernel"
)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * SIZE)
    held = HeldFile(tmp_path / "file", "file")
    yield held
    held.close()


@pytest.fixture(params=[True, False], ids=["kernel", "reads"])
def in_kernel(request, monkeypatch):
    """Copies with and without the kernel's call."""
    if not request.param:
        monkeypatch.delattr(os, "copy_file_range", raising=False)


@pytest.mark.usefixtures("in_kernel")
@pytest.mark.parametrize("size", [0, 4096, CHUNK, 2 * CHUNK, SIZE - 1])
def test_a_file_that_was_cut_is_not_copied(size, file, tmp_path):
    os.truncate(file.path, size)
    with pytest.raises(StoreError, match=f"was cut to {size} bytes while it was copied"):
        file.copy_to(tmp_path / "copy", file.size, lambda count: None)
    with pytest.raises(StoreError, match=f"was cut to {size} bytes while it was copied"):
        list(file.chunks(file.size))


@needs_kernel_copy
@pytest.mark.parametrize("size", [0, 4096, CHUNK, 2 * CHUNK, SIZE - 1])
def test_a_file_that_is_cut_during_the_copy_is_not_copied(size, file, tmp_path, monkeypatch):
    real = os.copy_file_range

    def cut_and_copy(*arguments):
        os.truncate(file.path, size)
        return real(*arguments)

    monkeypatch.setattr(os, "copy_file_range", cut_and_copy)
    with pytest.raises(StoreError, match=f"was cut to {size} bytes while it was copied"):
        file.copy_to(tmp_path / "copy", file.size, lambda count: None)


@pytest.mark.usefixtures("in_kernel")
def test_bytes_that_were_added_are_not_copied(file, tmp_path):
    with file.path.open("ab") as longer:
        longer.write(b"y" * CHUNK)
    file.copy_to(tmp_path / "copy", file.size, lambda count: None)
    assert (tmp_path / "copy").read_bytes() == b"x" * SIZE


@needs_kernel_copy
def test_a_place_that_the_disk_cannot_read_is_named(file, tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    real = os.pread
    monkeypatch.setattr(os, "copy_file_range", fail)
    monkeypatch.setattr(
        os, "pread", lambda fd, size, place: fail() if place + size > SIZE - 10 else real(fd, size, place)
    )
    with pytest.raises(DiskReadError) as error:
        file.copy_to(tmp_path / "copy", file.size, lambda count: None)
    assert error.value.offset == SIZE // 4096 * 4096

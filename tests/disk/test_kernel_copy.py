"""copy_in_kernel: copies a range of a file to the same positions of another file, and returns where it stopped."""

import errno
import os

import pytest

from rocketstore.disk.kernel_copy import copy_in_kernel

DATA = bytes(range(1, 251)) * 40

pytestmark = pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="the system copies nothing in the kernel")


@pytest.fixture
def files(tmp_path):
    """Descriptors of a file, and of a new file of zeros."""
    (tmp_path / "source").write_bytes(DATA)
    (tmp_path / "target").write_bytes(bytes(2 * len(DATA)))
    source = os.open(tmp_path / "source", os.O_RDONLY)
    target = os.open(tmp_path / "target", os.O_RDWR)
    yield source, target
    os.close(source)
    os.close(target)


def copied(source, target, begin, end):
    """The place where the copy stopped. The target has the bytes before it, and zeros."""
    stop = copy_in_kernel(source, target, begin, end)
    expected = bytes(begin) + DATA[begin:stop]
    assert os.pread(target, 2 * len(DATA), 0) == expected.ljust(2 * len(DATA), b"\0")
    return stop


@pytest.mark.parametrize(("begin", "end"), [(0, len(DATA)), (1, 2), (4095, 4097), (5, 5), (8000, 9999)])
def test_a_range_is_copied_to_its_place(begin, end, files):
    assert copied(*files, begin, end) == end


def test_the_copy_stops_where_the_source_ends(files):
    assert copied(*files, 100, len(DATA) + 100) == len(DATA)


def test_a_copy_in_steps_is_complete(files, monkeypatch):
    real = os.copy_file_range
    monkeypatch.setattr(os, "copy_file_range", lambda a, b, size, *places: real(a, b, min(size, 333), *places))
    assert copied(*files, 10, 9000) == 9000


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EIO])
@pytest.mark.parametrize("allowed", [0, 1])
def test_a_refusal_is_no_error(allowed, number, files, monkeypatch):
    real, calls = os.copy_file_range, []

    def refuse(*arguments):
        calls.append(arguments)
        if len(calls) > allowed:
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    monkeypatch.setattr(os, "copy_file_range", refuse)
    assert copied(*files, 10, 9000) == (4096 if allowed else 10)


def test_a_system_without_the_call_copies_nothing(files, monkeypatch):
    monkeypatch.delattr(os, "copy_file_range")
    assert copied(*files, 10, 9000) == 10


def test_a_full_disk_is_an_error(files, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", fail)
    with pytest.raises(OSError, match="No space left"):
        copy_in_kernel(*files, 0, 10)

"""A file as one mapping: making it, full disks, read-only places, files cut while open, what outlives it."""

import contextlib
import ctypes
import errno
import fcntl
import gc
import io
import itertools
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from support.subprocesses import in_subprocess
from support.waiting import replace_sleep

from rocketstore import CorruptFileError, IndexFile, IndexService, MappedFile, StoreCheckpoint, StoreClosedError
from rocketstore.disk import file_run_reader, mapped_file
from rocketstore.disk.durable import sync, sync_path
from rocketstore.disk.file_run_reader import FileRunReader
from rocketstore.disk.holes import data_ranges, nonzero_end
from rocketstore.index import index_writer
from rocketstore.index.geometry import IndexGeometry
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter
from rocketstore.recovery.index import IndexCut, cut_index

GEOMETRY = {"hash_slot_num": 100, "index_num": 1_000}
LENGTH = 40 + 4 * 100 + 20 * 1_000
NAME = "20260101000000000"
DISK_FULL = os.strerror(errno.ENOSPC)


def filled(path):
    with IndexFile.create(path, **GEOMETRY) as file:
        assert file.put_keys([f"T#{n}" for n in range(500)], np.arange(500), np.arange(500)) == 500
    return path


# ---- making and opening ------------------------------------------------------------------------------------


def test_a_new_file_is_zeros_that_the_disk_has_and_belongs_to_its_maker_alone(tmp_path):
    path = tmp_path / "file"
    file = MappedFile(path, "r+", create_size=12_345)
    file.close()
    assert path.read_bytes() == bytes(12_345)
    assert path.stat().st_blocks * 512 >= 12_345
    with pytest.raises(FileExistsError):
        MappedFile(path, "r+", create_size=10)
    with pytest.raises(FileExistsError):
        IndexFile.create(path, **GEOMETRY)
    assert path.read_bytes() == bytes(12_345)


def test_a_link_that_leads_nowhere_is_not_followed_to_make_a_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError):
        MappedFile(tmp_path / "link", "r+", create_size=10)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_path_without_bytes_is_refused(mode, tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(CorruptFileError, match="empty") as caught:
        MappedFile(tmp_path / "empty", mode)
    assert (caught.value.offset, caught.value.field) == (0, "file size")
    with pytest.raises(FileNotFoundError):
        MappedFile(tmp_path / "missing", mode)
    with pytest.raises(IsADirectoryError):
        MappedFile(tmp_path, mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def refuse_what_is_no_file(path, mode):
    with pytest.raises(CorruptFileError, match="a regular file was expected"):
        MappedFile(path, mode)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_pipe_is_refused_and_nobody_is_waited_for(mode, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    in_subprocess(refuse_what_is_no_file, tmp_path / "pipe", mode)


@pytest.mark.parametrize("mode", ["w", "a", "rb", "", None])
def test_other_modes_are_refused_by_name(mode, tmp_path):
    with pytest.raises(ValueError, match="'r'"):
        MappedFile(tmp_path / "file", mode, create_size=10)
    assert not list(tmp_path.iterdir())


def test_a_file_says_what_it_is_and_closes_behind_its_block(tmp_path):
    with MappedFile(tmp_path / "file", "r+", create_size=1000) as file:
        assert repr(file) == f"<MappedFile {str(tmp_path / 'file')!r}, mode 'r+', 1,000 bytes>"
    assert repr(file) == f"<MappedFile {str(tmp_path / 'file')!r}, closed>"
    with pytest.raises(StoreClosedError):
        file.select_mapped_buffer(0, 1)


# ---- places that refuse ------------------------------------------------------------------------------------


@contextlib.contextmanager
def mounted(directory, *arguments):
    """Mount something on a directory as long as the test runs, or skip it."""
    directory.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small or a read-only file system")
    mount = subprocess.run(["mount", *arguments, str(directory)], text=True, capture_output=True, check=False)
    if mount.returncode != 0:
        pytest.skip(f"mount {' '.join(arguments)}: {mount.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_full_disk_is_an_os_error_and_leaves_no_file(tmp_path):
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as small:
        for make in (
            lambda: IndexFile.create(small / "index", hash_slot_num=1_000, index_num=100_000),
            lambda: MappedFile(small / "file", "r+", create_size=2 << 20),
        ):
            with pytest.raises(OSError, match=DISK_FULL):
                make()
            assert not list(small.iterdir())
        IndexFile.create(small / "index", **GEOMETRY).close()


def test_a_full_disk_stops_an_index_service_after_three_attempts_and_leaves_no_file(tmp_path, monkeypatch):
    attempts = []
    replace_sleep(monkeypatch, index_writer, attempts.append)
    with (
        mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as small,
        IndexService.open(small, "a", hash_slot_num=1_000, index_num=100_000) as service,
    ):
        with pytest.raises(OSError, match=DISK_FULL):
            service.build_indexes({"topic": ["T"], "phy_offset": [0], "store_timestamp": [1]})
        assert not list(small.iterdir())
    assert len(attempts) == 2


def made_sparse(path, hash_slot_num, index_num):
    """As RocketMQ makes an index file."""
    with path.open("wb") as file:
        file.truncate(40 + 4 * hash_slot_num + 20 * index_num)
    return path


def test_a_sparse_index_file_is_opened_for_writing_only_where_the_disk_has_room_for_all_of_it(tmp_path):
    geometry = {"hash_slot_num": 1_000, "index_num": 100_000}
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as small:
        path = made_sparse(small / NAME, **geometry)
        IndexFile.open(path, **geometry).close()
        with pytest.raises(OSError, match=DISK_FULL):
            IndexFile.open(path, "r+", **geometry)
        with pytest.raises(OSError, match=DISK_FULL):
            cut_index(IndexCut(path, 1, 0, 0), IndexGeometry(**geometry), "5.5.1", None)
        assert path.read_bytes() == bytes(path.stat().st_size)


@pytest.mark.parametrize("can_allocate", [True, False])
def test_a_sparse_index_file_is_allocated_when_it_is_written_and_keeps_what_it_has(can_allocate, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    if not can_allocate:
        monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    geometry = {"hash_slot_num": 50_000, "index_num": 50_000}
    path = made_sparse(tmp_path / NAME, **geometry)
    with path.open("r+b") as file:
        file.seek(16)
        file.write(bytes(range(16)))
        file.seek(700_000)
        file.write(b"item")
    data = path.read_bytes()
    IndexFile.open(path, **geometry, _is_known=True).close()
    assert path.stat().st_blocks * 512 < len(data)
    IndexFile.open(path, "r+", **geometry, _is_known=True).close()
    assert path.stat().st_blocks * 512 >= len(data)
    assert path.read_bytes()[40:] == data[40:]


def test_a_full_index_file_is_not_allocated(tmp_path):
    geometry = {"hash_slot_num": 50_000, "index_num": 50_000}
    path = made_sparse(tmp_path / NAME, **geometry)
    with path.open("r+b") as file:
        file.seek(36)
        file.write((50_000).to_bytes(4, "big"))
    IndexFile.open(path, "r+", **geometry, _is_known=True).close()
    assert path.stat().st_blocks * 512 < path.stat().st_size


@contextlib.contextmanager
def read_only(directory):
    """The directory where nothing can be written: permission bits do not bind root, a mount does."""
    if os.geteuid() != 0:
        directory.chmod(0o555)
        yield directory
        directory.chmod(0o755)
        return
    with mounted(directory.with_name("read-only"), "--bind", "-o", "ro", str(directory)) as place:
        yield place


def test_reading_needs_no_right_to_write(tmp_path):
    (tmp_path / "store").mkdir()
    path = filled(tmp_path / "store" / NAME)
    path.chmod(0o444)
    with read_only(path.parent) as place:
        with IndexFile.open(place / NAME, **GEOMETRY) as file:
            assert file.select_phy_offset("T#7") == [7]
            assert file.select_phy_offsets(["T#7", "T#x"]).to_pylist() == [[7], []]
        with IndexService.open(place, **GEOMETRY) as service:
            assert service.query_offset("T", "7").phy_offsets == [7]
        for make in (
            lambda: IndexFile.open(place / NAME, "r+", **GEOMETRY),
            lambda: IndexFile.create(place / "new", **GEOMETRY),
            lambda: IndexService.open(place, "a", **GEOMETRY),
        ):
            with pytest.raises(OSError, match=f"{os.strerror(errno.EROFS)}|{os.strerror(errno.EACCES)}"):
                make()
        assert [file.name for file in place.iterdir()] == [NAME]


def test_a_reader_cannot_write(tmp_path):
    path = filled(tmp_path / "index")
    before = path.read_bytes()
    with IndexFile.open(path, **GEOMETRY) as file:
        for write in (
            lambda: file.put_key("T#k", 1, 1),
            lambda: file.put_keys(["T#k"], [1], [1]),
            lambda: file.put_keys([], [], []),
            lambda: file.put_key_hashes(np.array([1], np.int32), [1], [1]),
            file.flush,
        ):
            with pytest.raises(io.UnsupportedOperation, match="r\\+"):
                write()
    assert path.read_bytes() == before


def test_reading_leaves_the_modification_time_alone(tmp_path):
    path = filled(tmp_path / NAME)
    os.utime(path, ns=(10**18, 10**18))
    with IndexFile.open(path, **GEOMETRY) as file:
        file.select_phy_offset("T#7")
        file.select_phy_offsets(["T#7"] * 1000, threads=2)
        assert len(file) == 500
        assert repr(file)
    with IndexService.open(tmp_path, **GEOMETRY) as service:
        service.query_offset("T", "7")
        service.query_offsets("T", ["7"])
    assert path.stat().st_mtime_ns == 10**18
    assert path.stat().st_size == LENGTH


# ---- files cut while they are open -------------------------------------------------------------------------


def check_error(error, path, length):
    assert (error.path, error.offset, error.field) == (path, length, "file size")
    assert str(LENGTH) in str(error)


def use_a_file_that_was_cut(directory):
    """No length is survived by luck: at 0 every page is gone."""
    hashes = np.arange(5, dtype=np.int32)
    for length in (LENGTH - 1, 4096, 39, 0):
        path = filled(Path(directory, f"index-{length}"))
        reader, writer = IndexFile.open(path, **GEOMETRY), IndexFile.open(path, "r+", **GEOMETRY)
        os.truncate(path, length)
        for call in (
            lambda r=reader: r.select_phy_offsets(["T#7"]),
            lambda r=reader: r.select_phy_offsets_by_hash(hashes, threads=2),
            lambda w=writer: w.select_phy_offsets(["T#7"]),
            lambda w=writer: w.put_keys(["T#7"], [1], [1]),
            lambda w=writer: w.put_key_hashes(hashes, hashes, hashes),
            writer.flush,
            writer.close,
        ):
            with pytest.raises(CorruptFileError) as caught:
                call()
            check_error(caught.value, path, length)
        assert writer.closed
        reader.close()
        if length == LENGTH - 1:  # all items are there: a writer makes the file longer with zeros, as RocketMQ does
            IndexFile.open(path, "r+", **GEOMETRY).close()
            assert path.stat().st_size == LENGTH
        else:
            with pytest.raises(CorruptFileError):
                IndexFile.open(path, "r+", **GEOMETRY)
            assert path.stat().st_size == length


def use_an_index_of_which_a_file_was_cut(directory):
    requests = {"topic": ["T"], "keys": ["k"], "phy_offset": [5_000], "store_timestamp": [5_000]}
    path = filled(Path(directory, NAME))
    with IndexService.open(directory, **GEOMETRY) as reader:
        writer = IndexService.open(directory, "a", **GEOMETRY)
        os.truncate(path, 0)
        for call in (
            lambda: reader.query_offsets("T", ["7"]),
            lambda: writer.query_offsets("T", ["7"]),
            lambda: writer.build_indexes(requests),
            writer.flush,
            writer.close,
        ):
            with pytest.raises(CorruptFileError) as caught:
                call()
            check_error(caught.value, path, 0)
        writer.close()


@pytest.mark.parametrize("work", [use_a_file_that_was_cut, use_an_index_of_which_a_file_was_cut])
def test_a_file_cut_while_it_is_open_is_a_corrupt_file_and_no_crash(work, tmp_path):
    in_subprocess(work, tmp_path)


def test_a_file_that_grew_or_was_replaced_while_it_is_open_is_still_read(tmp_path):
    path = filled(tmp_path / "index")
    with IndexFile.open(path, **GEOMETRY) as file:
        os.truncate(path, LENGTH + 4096)
        assert file.select_phy_offsets(["T#7"]).to_pylist() == [[7]]
        path.unlink()
        path.touch()
        assert file.select_phy_offsets(["T#7"]).to_pylist() == [[7]]


# ---- pickling ----------------------------------------------------------------------------------------------


def test_a_reader_pickles_as_its_path_and_opens_it_again(tmp_path, monkeypatch):
    filled(tmp_path / NAME)
    monkeypatch.chdir(tmp_path)
    options = {**GEOMETRY, "max_msgs_num_batch": 3}
    with IndexFile.open(NAME, **GEOMETRY) as file, IndexService.open(".", **options) as service:
        pickles = pickle.dumps(file), pickle.dumps(service)
    assert max(map(len, pickles)) < 1_000
    monkeypatch.chdir("/")
    with pickle.loads(pickles[0]) as file, pickle.loads(pickles[1]) as service:
        assert (file.mode, file.hash_slot_num, file.index_num) == ("r", 100, 1_000)
        assert file.select_phy_offset("T#7") == [7]
        assert service.query_offset("T", "7").phy_offsets == [7]
        assert service.max_msgs_num_batch == 3


def test_a_writer_is_not_pickled(tmp_path):
    path = filled(tmp_path / NAME)
    with IndexFile.open(path, "r+", **GEOMETRY) as file, pytest.raises(TypeError, match="reader"):
        pickle.dumps(file)
    with IndexService.open(tmp_path, "a", **GEOMETRY) as index, pytest.raises(TypeError, match="reader"):
        pickle.dumps(index)


def test_a_pickle_whose_file_is_gone_or_another_says_so(tmp_path):
    path = filled(tmp_path / "index")
    with IndexFile.open(path, **GEOMETRY) as file:
        data = pickle.dumps(file)
    path.write_bytes(bytes(100))
    with pytest.raises(CorruptFileError):
        pickle.loads(data)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)


# ---- what outlives close() ---------------------------------------------------------------------------------


def is_mapped(path):
    return str(path) in Path("/proc/self/maps").read_text()


linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts in /proc, which only Linux has")


@linux
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_view_keeps_the_mapping_after_close_and_the_last_one_takes_it_along(mode, tmp_path):
    path = filled(tmp_path / "index")
    file = MappedFile(path, mode)
    views = [np.frombuffer(file.view(), np.uint8), file.view()]
    file.close()
    assert file.buffer.closed
    expected = path.read_bytes()
    path.unlink()
    while views:
        assert bytes(views[-1]) == expected
        assert is_mapped(path)
        views.pop()
    del file
    assert not is_mapped(path)


@linux
def test_close_unmaps_at_once_where_nothing_is_in_use(tmp_path):
    path = filled(tmp_path / "index")
    file = IndexFile.open(path, "r+", **GEOMETRY)
    found = file.select_phy_offsets(["T#7", "T#8"])
    assert is_mapped(path)
    file.close()
    assert not is_mapped(path)
    assert found.to_pylist() == [[7], [8]]
    with pytest.raises(StoreClosedError):
        file.select_phy_offset("T#7")


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def make_and_close(path, new):
    IndexFile.create(new, **GEOMETRY).close()
    new.unlink()


def fail(error, call, *arguments, **options):
    with pytest.raises(error):
        call(*arguments, **options)


WORKS = {
    "read": lambda path, new: IndexFile.open(path, **GEOMETRY).close(),
    "write": lambda path, new: IndexFile.open(path, "r+", **GEOMETRY).close(),
    "guess the geometry": lambda path, new: IndexFile.open(path).close(),
    "make": make_and_close,
    "drop a reader": lambda path, new: IndexFile.open(path, **GEOMETRY),
    "drop a writer": lambda path, new: IndexFile.open(path, "r+", **GEOMETRY),
    "make what exists": lambda path, new: fail(FileExistsError, IndexFile.create, path, **GEOMETRY),
    "make with a wrong number": lambda path, new: fail(
        ValueError, IndexFile.create, new, **GEOMETRY, end_timestamp=2**63
    ),
    "wrong geometry": lambda path, new: fail(CorruptFileError, IndexFile.open, path, hash_slot_num=7, index_num=9),
    "half a geometry": lambda path, new: fail(ValueError, IndexFile.open, path, "r+", hash_slot_num=7),
    "no geometry": lambda path, new: fail(ValueError, IndexFile.open, path, "r+"),
}


@linux
@pytest.mark.parametrize("work", WORKS)
def test_opening_and_closing_leaves_no_descriptor_mapping_or_file(work, tmp_path):
    path, new = filled(tmp_path / "index"), tmp_path / "new"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # dropped objects may warn
        WORKS[work](path, new)
        gc.collect()
        before = descriptors()
        for _ in range(10):
            WORKS[work](path, new)
        gc.collect()
    assert descriptors() == before
    assert not is_mapped(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


# ---- bringing files to the disk ----------------------------------------------------------------------------

F_FULLFSYNC = 51
REFUSALS = [errno.EINVAL, errno.ENOTTY, errno.ENOTSUP, errno.EOPNOTSUPP]


@pytest.fixture
def darwin(monkeypatch):
    """Imitate macOS, whose fcntl raises ``darwin.error``. Return the calls."""

    class Darwin(list):
        error = 0

    calls, real = Darwin(), os.fsync

    def full_sync(fd, command, *args):
        calls.append(("fcntl", fd, command, *args))
        if calls.error:
            raise OSError(calls.error, os.strerror(calls.error))
        return 0

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full_sync)
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append(("fsync", fd)), real(fd)))
    return calls


def test_a_sync_on_macos_reaches_the_platter(darwin, tmp_path):
    with (tmp_path / "file").open("wb") as file:
        sync(file.fileno())
        assert darwin == [("fcntl", file.fileno(), F_FULLFSYNC)]
    darwin.clear()
    sync_path(tmp_path)
    assert [call[0] for call in darwin] == ["fcntl"]


@pytest.mark.parametrize("error", REFUSALS)
def test_where_macos_cannot_reach_the_platter_a_sync_is_a_plain_one(error, darwin, tmp_path):
    darwin.error = error
    with (tmp_path / "file").open("wb") as file:
        sync(file.fileno())
        assert darwin == [("fcntl", file.fileno(), F_FULLFSYNC), ("fsync", file.fileno())]
    darwin.clear()
    sync_path(tmp_path)
    assert [call[0] for call in darwin] == ["fcntl", "fsync"]


def test_a_sync_that_fails_on_macos_is_no_success(darwin, tmp_path):
    darwin.error = errno.EIO
    with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match=os.strerror(errno.EIO)):
        sync(file.fileno())
    assert [call[0] for call in darwin] == ["fcntl"]


def test_every_kind_of_file_is_synced_by_the_one_function(darwin, tmp_path):
    """A mapping, files that are written without one, and the checkpoint."""
    file = MappedFile(tmp_path / "mapped", "r+", create_size=4096)
    file.flush()
    file.close()
    queue = ConsumeQueueWriter(tmp_path / "queue", 200)
    queue.put_units(np.zeros(1, np.int64), np.full(1, 100, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64))
    queue.flush()
    queue.close()
    StoreCheckpoint(tmp_path / "checkpoint").flush()
    assert {call[0] for call in darwin} == {"fcntl"}
    assert len(darwin) == 1 + 3 + 2  # the mapping; a queue's file and two directories; the checkpoint and its directory


# ---- holes -------------------------------------------------------------------------------------------------


def seek_fails(monkeypatch, number):
    """Let the system know nothing of holes."""
    real = os.lseek

    def lseek(fd, position, whence):
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            raise OSError(number, os.strerror(number))
        return real(fd, position, whence)

    monkeypatch.setattr(os, "lseek", lseek)


@pytest.fixture
def holed(tmp_path):
    """A file of 64 KiB with bytes in it at 0 and at 40,000."""
    path = tmp_path / "holed"
    with path.open("wb") as file:
        file.write(b"a")
        file.seek(40_000)
        file.write(b"b")
        file.truncate(1 << 16)
    return path


@pytest.mark.parametrize("number", REFUSALS)
def test_where_nobody_knows_holes_there_are_none(number, holed, monkeypatch):
    seek_fails(monkeypatch, number)
    assert list(data_ranges(holed, 5, 1 << 16)) == [(5, 1 << 16)]
    assert nonzero_end(holed, 1, 1 << 16) == 40_001
    assert nonzero_end(holed, 40_001, 1 << 16) == 40_001


def test_nothing_but_a_hole_has_no_data(holed, monkeypatch):
    seek_fails(monkeypatch, errno.ENXIO)
    assert list(data_ranges(holed, 50_000, 1 << 16)) == []


def test_a_disk_that_fails_is_no_hole(holed, monkeypatch):
    seek_fails(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        nonzero_end(holed, 1, 1 << 16)


def close_at_a_line(file, number):
    """What a signal's handler does that comes there."""
    left = itertools.count(number, -1)

    def at_line(frame, event, _):
        if event == "line" and frame.f_code.co_filename == mapped_file.__file__ and next(left) == 0:
            file.close()
        return at_line

    return at_line


def close_at_each_line_of_calls(path):
    calls = [
        MappedFile.flush,
        lambda file: file.select_mapped_buffer(0, 10),
        lambda file: file.advise("random"),
        lambda file: file.allocate(0, 8),
    ]
    for call, number in itertools.product(calls, range(20)):
        file = MappedFile(path, "r+")
        sys.settrace(close_at_a_line(file, number))
        with contextlib.suppress(StoreClosedError):
            call(file)
        sys.settrace(None)
        assert file.buffer.closed or number > 2
        file.close()


def test_a_handler_of_a_signal_may_close_a_file_whatever_its_thread_does_with_it(tmp_path):
    """It does not wait for the call that it interrupts."""
    in_subprocess(close_at_each_line_of_calls, filled(tmp_path / NAME))


def flush_locked(path):
    assert ctypes.CDLL(None).mlockall(2) == 0 or os.geteuid() != 0  # files that are mapped from now on
    with IndexFile.create(Path(path), **GEOMETRY) as file:
        file.put_key("T#k", 0, 0)
        file.flush()


@pytest.mark.skipif(sys.platform != "linux", reason="locks pages as Linux does")
def test_a_file_that_is_locked_in_memory_is_flushed(tmp_path):
    in_subprocess(flush_locked, tmp_path / NAME)


# ---- a list of files that is made again only if it may have changed ----------------------------------------


def changed_long_ago(directory):
    os.utime(directory, (1_000_000, 1_000_000))


@pytest.fixture
def settled(tmp_path):
    """A run of two files in a directory that has not changed for long."""
    (tmp_path / "log").mkdir()
    for start in (0, 100):
        (tmp_path / "log" / f"{start:020}").write_bytes(bytes(100))
    changed_long_ago(tmp_path / "log")
    return FileRunReader([tmp_path / "log"])


def test_a_directory_that_is_as_it_was_is_not_listed_again(settled, monkeypatch):
    files = settled.files
    monkeypatch.setattr(os, "scandir", None)
    settled.refresh()
    assert settled.files is files


def test_a_list_that_is_held_is_made_again_if_a_file_of_it_is_missing(settled, tmp_path):
    first, second = settled.files
    with settled.hold_list():
        write_zeros(tmp_path / "log", 200)
        settled.refresh()
        assert settled.files == [first, second]
        first.path.unlink()
        assert settled.peek(0, 4) is None
        assert [file.file_from_offset for file in settled.files] == [100, 200]
    write_zeros(tmp_path / "log", 300)
    settled.refresh()
    assert [file.file_from_offset for file in settled.files] == [100, 200, 300]


def test_what_comes_goes_and_grows_is_seen(settled, tmp_path):
    directory = tmp_path / "log"
    (directory / f"{200:020}").write_bytes(b"")
    settled.refresh()
    assert [file[::2] for file in settled.files] == [(0, 100), (100, 100), (200, 0)]
    (directory / f"{200:020}").write_bytes(bytes(7))
    settled.refresh()
    assert settled.files[-1].size == 7
    (directory / f"{0:020}").unlink()
    settled.refresh()
    assert [file.file_from_offset for file in settled.files] == [100, 200]


def test_another_directory_of_the_same_time_is_listed(settled, tmp_path):
    (tmp_path / "log").rename(tmp_path / "old")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / f"{500:020}").write_bytes(bytes(100))
    changed_long_ago(tmp_path / "log")
    settled.refresh()
    assert [file.file_from_offset for file in settled.files] == [500]


def test_a_file_that_another_of_its_length_took_the_place_of_is_mapped_anew(settled, tmp_path):
    before = settled.map(settled.files[-1])
    copy = tmp_path / "log" / ".copy"
    copy.write_bytes(b"\x01" * 100)
    copy.replace(before.path)
    changed_long_ago(tmp_path / "log")
    settled.refresh()
    after = settled.map(settled.files[-1])
    assert (bytes(before.view()), bytes(after.view())) == (bytes(100), b"\x01" * 100)
    assert settled.map(settled.files[-1]) is after


def test_a_directory_that_changed_just_now_is_listed_again(settled, tmp_path):
    """What comes in the same tick of the clock leaves no trace in the directory's time."""
    directory = tmp_path / "log"
    (directory / f"{200:020}").write_bytes(bytes(100))
    settled.refresh()
    before = directory.stat().st_mtime_ns
    (directory / f"{300:020}").write_bytes(bytes(100))
    os.utime(directory, ns=(before, before))
    settled.refresh()
    assert settled.files[-1].file_from_offset == 300


# ---- files that expire while they are listed or looked for -------------------------------------------------


def test_a_file_that_expires_while_it_is_listed_is_none(tmp_path, monkeypatch):
    for start in (0, 100, 200):
        (tmp_path / f"{start:020}").write_bytes(bytes(100))
    real = file_run_reader.is_offset_name

    def is_offset_name(name):
        if name == f"{0:020}":
            (tmp_path / name).unlink()  # after the directory was read, before the file is looked at
        return real(name)

    with monkeypatch.context() as patch:
        patch.setattr(file_run_reader, "is_offset_name", is_offset_name)
        file_run = FileRunReader([tmp_path])
    assert [file.file_from_offset for file in file_run.files] == [100, 200]


def test_files_that_are_made_behind_the_last_one_are_added_without_a_listing(tmp_path, monkeypatch):
    directories = tmp_path / "a", tmp_path / "missing", tmp_path / "b"
    (tmp_path / "b").mkdir()
    write_zeros(tmp_path / "a", 0)
    file_run = FileRunReader(directories)
    monkeypatch.setattr(file_run, "_list", None)
    file_run.extend()
    assert file_run.files == [(0, tmp_path / "a" / f"{0:020}", 100, (tmp_path / "a" / f"{0:020}").stat().st_ino)]
    for name, start in (("b", 100), ("a", 200), ("b", 200), ("b", 400)):
        write_zeros(tmp_path / name, start)
    write_zeros(tmp_path / "a", 300, 99)
    file_run.extend()
    assert [file.path.parent.name for file in file_run.files] == ["a", "b", "a"]
    assert [file.file_from_offset for file in file_run.files] == [0, 100, 200]
    assert (file_run.mapped_file_size, file_run.find(250).size) == (100, 100)


def write_zeros(directory, start, size=100):
    directory.mkdir(exist_ok=True)
    (directory / f"{start:020}").write_bytes(bytes(size))


def test_a_directory_that_is_gone_is_an_error(tmp_path):
    (tmp_path / "log").mkdir()
    file_run = FileRunReader([tmp_path / "log"])
    (tmp_path / "log").rmdir()
    with pytest.raises(FileNotFoundError):
        file_run.refresh()


def test_a_file_is_found_while_another_thread_lists_them_again(tmp_path):
    for start in (0, 100, 200):
        (tmp_path / f"{start:020}").write_bytes(bytes(100))
    file_run = FileRunReader([tmp_path])

    class Exchanged(list):
        def __getitem__(self, i):
            file_run.files = []
            return super().__getitem__(i)

    file_run.files = Exchanged(file_run.files)
    assert file_run.find(150).file_from_offset == 100


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

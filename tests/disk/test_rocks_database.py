"""RocksDatabase against rocksdict in this process, and against damaged files, dead children and other accidents."""

import contextlib
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

import pytest
from support.rocks import make_rocksdb
from support.subprocesses import anonymous_memory, in_subprocess

from rocketstore import CorruptFileError, StoreClosedError, StoreError, UnsupportedFormatError
from rocketstore.disk.processes import is_alive
from rocketstore.disk.rocksdb import linked_files, rocks_database
from rocketstore.disk.rocksdb.reader_process import ReaderProcess
from rocketstore.disk.rocksdb.rocks_database import KeyRange, RocksDatabase

ROWS = {b"%05d" % number: b"v" * (number % 50) for number in range(0, 6000, 2)}
OTHER = {b"k": b"", b"\xff\xff": b"last"}
DAMAGES = 16


def make_database(path, rows=ROWS):
    return make_rocksdb(path, {"default": rows, "other": OTHER})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The directory of a RocksDB, which no test changes."""
    return make_database(tmp_path_factory.mktemp("rocksdb") / "made")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The directory of temporary files, which is empty after each test."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    assert list(path.iterdir()) == []


@pytest.fixture
def database(made, temporary):
    with RocksDatabase(made) as opened:
        yield opened


def rows_of(database, *ranges, family="default", **options):
    return [row for rows in database.read(family, *ranges, **options) for row in rows]


def between(begin, end):
    return [(key, value) for key, value in ROWS.items() if begin <= key and (end is None or key < end)]


def child_of(database):
    database.families  # noqa: B018
    return database._process.process


def state_of(directory):
    return sorted((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in directory.iterdir())


# ---- rows --------------------------------------------------------------------------------------------------


def test_families_are_listed_and_a_missing_one_has_no_rows(database):
    assert sorted(database.families) == ["default", "other"]
    assert rows_of(database, KeyRange(), family="missing") == []
    assert rows_of(database, KeyRange(), family="other") == list(OTHER.items())


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (b"", None),
        (b"00010", b"00020"),
        (b"00011", b"00013"),
        (b"05000", None),
        (b"", b"00001"),
        (b"3", b"2"),
        (b"9", None),
    ],
)
def test_a_range_has_the_keys_from_begin_to_before_end(database, begin, end):
    expected = between(begin, end)
    assert rows_of(database, KeyRange(begin, end)) == expected
    assert rows_of(database, KeyRange(begin, end), backwards=True) == expected[::-1]
    assert rows_of(database, KeyRange(begin, end), limit=3) == expected[:3]
    first, last = (expected[0], expected[-1]) if expected else (None, None)
    assert database.find_first("default", KeyRange(begin, end)) == first
    assert database.find_first("default", KeyRange(begin, end), backwards=True) == last


def test_ranges_are_read_one_after_the_other(database):
    ranges = [
        KeyRange(b"00100", b"00110"),
        KeyRange(b"x", b"y"),
        KeyRange(b"00000", b"00004"),
        KeyRange(b"00100", b"00104"),
    ]
    assert rows_of(database, *ranges) == [row for keys in ranges for row in between(*keys)]
    assert rows_of(database) == []


@pytest.mark.parametrize("backwards", [False, True])
def test_ranges_that_need_several_answers_are_complete(database, monkeypatch, backwards):
    monkeypatch.setattr(rocks_database, "MAX_ROWS", 7)
    ranges = [KeyRange(b"00100", b"00200"), KeyRange(b"01000", b"01014"), KeyRange(b"02000", b"02002")]
    expected = [row for keys in ranges for row in (between(*keys)[::-1] if backwards else between(*keys))]
    assert rows_of(database, *ranges, backwards=backwards) == expected
    assert rows_of(database, *ranges, backwards=backwards, limit=53) == expected[:53]


def test_rows_that_are_larger_than_an_answer_are_read(tmp_path, temporary):
    rows = {b"%d" % number: bytes([number]) * (3 << 20) for number in range(9)}
    make_database(tmp_path / "large", rows)
    with RocksDatabase(tmp_path / "large") as database:
        assert rows_of(database, KeyRange()) == list(rows.items())
        assert [len(block) for block in database.read("default", KeyRange())] == [3, 3, 3]


@pytest.mark.parametrize(("prefix", "end"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"", None)])
def test_the_range_of_a_prefix(prefix, end):
    assert KeyRange.of_prefix(prefix) == (prefix, end)


def test_the_directory_is_not_changed_and_nothing_is_left_behind(made, temporary):
    before = state_of(made)
    with RocksDatabase(made) as database:
        process = child_of(database)
        assert rows_of(database, KeyRange()) == list(ROWS.items())
        assert list(temporary.iterdir()) == []
    assert state_of(made) == before
    assert process.returncode is not None
    with pytest.raises(StoreClosedError):
        rows_of(database, KeyRange())


def test_files_that_are_deleted_after_opening_do_not_matter(made, tmp_path, temporary):
    path = shutil.copytree(made, tmp_path / "copy")
    with RocksDatabase(path) as database:
        child_of(database)
        shutil.rmtree(path)
        assert rows_of(database, KeyRange()) == list(ROWS.items())


def test_a_database_that_nobody_uses_any_more_ends_its_child(made, temporary):
    database = RocksDatabase(made)
    process = child_of(database)
    del database
    assert process.returncode is not None


def test_a_database_is_pickled_without_its_child(database):
    child_of(database)
    with pickle.loads(pickle.dumps(database)) as other:
        assert rows_of(other, KeyRange(b"05990")) == between(b"05990", None)


def test_threads_share_a_database(database):
    found = []
    ranges = [KeyRange(b"%05d" % begin, b"%05d" % (begin + 100)) for begin in range(0, 6000, 100)]

    def read(part):
        found.extend((keys, rows_of(database, keys)) for keys in part)

    threads = [threading.Thread(target=read, args=(ranges[number::4],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [(keys, between(*keys)) for keys in ranges]


# ---- damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(DAMAGES))
def test_damage_is_an_error_or_leads_to_no_other_rows(made, tmp_path, temporary, seed, number):
    path = shutil.copytree(made, tmp_path / "copy")
    draw = random.Random(f"{seed} {number}")
    file = draw.choice([file for file in sorted(path.iterdir()) if file.stat().st_size])
    data = bytearray(file.read_bytes())
    place = draw.randrange(len(data))
    match number % 4:
        case 0:
            data[place] ^= 1 << draw.randrange(8)
        case 1:
            del data[place:]
        case 2:
            data[place : place + 64] = draw.randbytes(64)
        case 3:
            data[place : place + 4096] = bytes(len(data[place : place + 4096]))
    file.write_bytes(data)
    with RocksDatabase(path, seconds=30) as database, contextlib.suppress(CorruptFileError):
        found = rows_of(database, KeyRange())
        # The rest of a manifest that was cut is an older state of the RocksDB.
        assert found == list(ROWS.items()) or (file.name.startswith("MANIFEST") and {*found} <= {*ROWS.items()})
        assert {*rows_of(database, KeyRange(), family="other", backwards=True)} <= {*OTHER.items()}


def test_damage_in_the_rows_is_an_error_and_not_an_end(made, tmp_path, temporary):
    path = shutil.copytree(made, tmp_path / "copy")
    file = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    with RocksDatabase(path) as database:
        for backwards in (False, True):
            with pytest.raises(CorruptFileError, match="checksum"):
                rows_of(database, KeyRange(), backwards=backwards)
        assert rows_of(database, KeyRange(), family="other") == list(OTHER.items())


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST", "sst"])
def test_a_missing_file_is_an_error(made, tmp_path, temporary, name):
    path = shutil.copytree(made, tmp_path / "copy")
    for file in path.iterdir():
        if name in file.name:
            file.unlink()
    with RocksDatabase(path) as database, pytest.raises((CorruptFileError, FileNotFoundError)):
        rows_of(database, KeyRange())


def test_a_row_that_is_too_large_is_an_error(tmp_path, temporary):
    make_database(tmp_path / "large", {b"a": bytes(17 << 20)})
    with (
        RocksDatabase(tmp_path / "large") as database,
        pytest.raises(CorruptFileError, match="a row of 17825793 bytes"),
    ):
        rows_of(database, KeyRange())


def test_pipes_and_directories_in_the_place_of_files_are_errors(made, tmp_path, temporary):
    for name in ("CURRENT", "sst"):
        path = shutil.copytree(made, tmp_path / name)
        file = next(file for file in path.iterdir() if name in file.name)
        file.unlink()
        os.mkfifo(file)
        with RocksDatabase(path) as database, pytest.raises(CorruptFileError):
            rows_of(database, KeyRange())


def read_bomb(directory):
    """Read rows of many megabytes that are few bytes on the disk, and see how much memory this process has."""
    before = anonymous_memory()
    with RocksDatabase(directory) as database:
        for rows in database.read("default", KeyRange()):
            assert anonymous_memory() - before < 150 << 20
            del rows


@pytest.mark.normal_build  # sanitizers take memory of their own
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_rows_that_grow_as_they_are_read_take_little_memory(tmp_path):
    make_database(tmp_path / "bomb", {b"%02d" % number: bytes(15 << 20) for number in range(12)})
    in_subprocess(read_bomb, tmp_path / "bomb")


# ---- the child ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no limit of memory")
def test_a_child_that_needs_more_memory_than_its_limit_is_an_error(made, temporary):
    with RocksDatabase(made, memory=16 << 20) as database, pytest.raises(CorruptFileError) as caught:
        rows_of(database, KeyRange())
    assert caught.value.path == made


def test_a_child_that_died_is_an_error_and_the_next_read_starts_another(database, made):
    child_of(database).kill()
    with pytest.raises(CorruptFileError, match="SIGKILL") as caught:
        rows_of(database, KeyRange())
    assert caught.value.path == made
    assert rows_of(database, KeyRange(b"05990")) == between(b"05990", None)


def test_a_child_that_does_not_answer_is_ended(made, temporary):
    with RocksDatabase(made, seconds=0.5) as database:
        process = child_of(database)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(CorruptFileError, match=r"did not answer within 0\.5 seconds"):
            rows_of(database, KeyRange())
        assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "sent", [b"", b"nonsense" * 100, bytes(32), b"R" + b"\xff" * 31, b"F" + b"\0\0\0\1" * 7, b"E" + bytes(31)]
)
def test_nonsense_from_the_child_is_an_error(tmp_path, sent):
    directory = tmp_path / "links"
    directory.mkdir()
    command = [sys.executable, "-c", f"import sys; sys.stdout.buffer.write({sent!r})"]
    process = ReaderProcess(command, directory, tmp_path, 30)
    with pytest.raises(CorruptFileError) as caught:
        process.read_families()
    assert caught.value.path == tmp_path
    process.end()
    assert not directory.exists()


def test_ctrl_c_ends_the_child_and_the_next_read_starts_another(database):
    process = child_of(database)
    process.send_signal(signal.SIGSTOP)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        rows_of(database, KeyRange())
    timer.join()
    assert process.returncode is not None
    assert rows_of(database, KeyRange(b"05990")) == between(b"05990", None)


def test_the_child_of_a_parent_that_was_killed_ends(made, temporary):
    script = (
        "import os, signal, sys\nfrom rocketstore.disk.rocksdb.rocks_database import RocksDatabase\n"
        "database = RocksDatabase(sys.argv[1]); database.families\n"
        "print(database._process.process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run([sys.executable, "-c", script, made], capture_output=True, text=True, timeout=60, check=False)
    deadline = time.monotonic() + 30
    while is_alive(int(run.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---- files that a broker replaces --------------------------------------------------------------------------


def test_files_that_were_replaced_meanwhile_are_linked_again(made, tmp_path, temporary, monkeypatch):
    path = shutil.copytree(made, tmp_path / "copy")
    table = next(path.glob("*.sst"))
    data = table.read_bytes()
    table.unlink()

    def link_and_change(*arguments):
        link_files(*arguments)
        table.write_bytes(data)

    link_files = linked_files.link_files
    monkeypatch.setattr(rocks_database, "link_files", link_and_change)
    with RocksDatabase(path) as database:
        assert rows_of(database, KeyRange()) == list(ROWS.items())


def test_files_that_are_replaced_all_the_time_are_busy(made, tmp_path, temporary, monkeypatch):
    path = shutil.copytree(made, tmp_path / "copy")
    next(path.glob("*.sst")).unlink()

    def link_and_change(*arguments):
        link_files(*arguments)
        calls.append(arguments)
        (path / f"{len(calls):06}.sst").write_bytes(b"")

    calls = []
    link_files = linked_files.link_files
    monkeypatch.setattr(rocks_database, "link_files", link_and_change)
    with RocksDatabase(path) as database, pytest.raises(StoreError, match="busy"):
        rows_of(database, KeyRange())
    assert len(calls) == 5


# ---- the package, and the Python that has it ---------------------------------------------------------------


def test_without_the_package_the_error_names_the_extra(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with RocksDatabase(made) as database, pytest.raises(UnsupportedFormatError, match=r"rocketstore\[rocksdb\]"):
        rows_of(database, KeyRange())


@pytest.fixture
def free_threaded(monkeypatch):
    """This Python as if it were free-threaded, and no ordinary one beside it."""
    from rocketstore.disk.rocksdb import reader_program

    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))
    monkeypatch.setattr(sys, "base_prefix", "/nowhere")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    reader_program._find_ordinary_python.cache_clear()
    yield
    reader_program._find_ordinary_python.cache_clear()


def test_free_threaded_python_refuses_without_an_ordinary_one(free_threaded, made):
    with RocksDatabase(made) as database, pytest.raises(UnsupportedFormatError, match=r"-m pip install rocksdict"):
        rows_of(database, KeyRange())


def test_free_threaded_python_reads_by_an_ordinary_one(free_threaded, made, temporary, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: sys.executable)
    with RocksDatabase(made) as database:
        assert rows_of(database, KeyRange()) == list(ROWS.items())


# ---- remote ------------------------------------------------------------------------------------------------


def test_a_remote_database_is_copied_up_to_a_limit(made, temporary):
    remote = pytest.importorskip("support.remote")
    size = sum(path.stat().st_size for path in made.iterdir() if path.name not in ("CURRENT", "LOG", "LOCK"))
    with RocksDatabase(remote.counted(made), remote_copy_limit=size) as database:
        assert rows_of(database, KeyRange()) == list(ROWS.items())
        assert list(temporary.iterdir()) == []
    with (
        RocksDatabase(remote.counted(made), remote_copy_limit=size - 1) as database,
        pytest.raises(UnsupportedFormatError, match="remote_copy_limit"),
    ):
        rows_of(database, KeyRange())


if __name__ == "__main__":
    read_bomb(Path(sys.argv[2]))

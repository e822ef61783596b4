"""Index directories of many files: a bounded number is open, and the others are read and flushed as needed."""

import contextlib
import errno
import gc
import os
import pickle
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import rocketstore
from rocketstore import IndexFile, IndexService, Message, StoreCheckpoint, StoreClosedError, StoreConfig, StoreError
from rocketstore.index import index_directory
from rocketstore.index import index_file as index_file_module

GEOMETRY = {"hash_slot_num": 7, "index_num": 4}  # three items a file
FILES = 12
KEYS = 3 * FILES


def add(service, first=0, count=KEYS):
    numbers = range(first, first + count)
    keys, offsets = [f"k{number}" for number in numbers], [100 * number for number in numbers]
    times = [10**12 + 1000 * number for number in numbers]
    service.build_indexes({"topic": "T", "keys": keys, "phy_offset": offsets, "store_timestamp": times})


def found(service):
    return service.query_offsets("T", [f"k{number}" for number in range(KEYS)]).values.tolist()


@pytest.fixture
def index(tmp_path):
    with IndexService.open(tmp_path / "index", "a", **GEOMETRY) as service:
        add(service)
        assert len(service.files) == FILES
    return tmp_path / "index"


@pytest.fixture
def two_open(monkeypatch):
    monkeypatch.setattr(index_directory, "max_open_files", lambda: 2)


def mappings(directory):
    """Count the files below a directory that this process has mapped."""
    return Path("/proc/self/maps").read_text().count(f" {directory}/")


def descriptors(directory):
    """How many descriptors this process has of files in a directory."""
    links = Path("/proc/self/fd").iterdir()
    return sum(link.readlink().is_relative_to(directory) for link in links if link.is_symlink())


def test_another_geometry_is_looked_for_in_the_newest_file_alone_and_once(index, monkeypatch):
    looked, real = [], index_file_module.other_geometry

    def other_geometry(file, *geometry):
        looked.append(file.path.name)
        return real(file, *geometry)

    monkeypatch.setattr(index_file_module, "other_geometry", other_geometry)
    with IndexService.open(index, **GEOMETRY) as reader:
        reader.refresh()
        assert len([*reader.files]) == FILES
    with IndexService.open(index, "a", **GEOMETRY):
        pass
    assert looked == 2 * [max(path.name for path in index.iterdir())]


# ---- descriptors -------------------------------------------------------------------------------------------


def use_a_store_of_many_index_files(directory):
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    root, out, config = (
        Path(directory, "store"),
        Path(directory, "out"),
        StoreConfig(
            mapped_file_size_commit_log=1 << 20,
            mapped_file_size_consume_queue=20_000,
            max_hash_slot_num=GEOMETRY["hash_slot_num"],
            max_index_num=GEOMETRY["index_num"],
        ),
    )
    keys = [f"k{number}" for number in range(700)]

    def check(store, keys=keys):
        assert len(store.index.files) > 2 * 128
        for key in (keys[0], keys[-1]):
            assert [message.keys for message in store.query_message("T", key).messages] == [[key]]
        answer = store.query_messages("T", keys)
        assert len(answer.phy_offsets) == len(keys)
        assert answer.complete.all()
        assert store.query_messages("T", ["a"], 1000, index_type="T").complete.all()
        assert store.summary() is not None
        assert sum(1 for _ in Path("/dev/fd").iterdir()) < 64

    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages([Message("T", b"body", keys=[key], tags="a") for key in keys])
        check(store)
        store.flush()
    with rocketstore.open(root, config=config) as store:
        check(store)
    with rocketstore.open(root, "r+", config=config) as store:
        store.put_message(Message("T", b"body", keys=["later"], tags="a"))
        check(store, [*keys, "later"])
    assert rocketstore.verify(root, config=config).ok
    rocketstore.rebuild(root, out=out, config=config)
    made, old = (sorted((where / "index").iterdir()) for where in (out, root))
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in old]


@pytest.mark.slow
def test_a_store_of_more_index_files_than_descriptors_is_written_read_verified_and_rebuilt(tmp_path):
    command = [sys.executable, __file__, str(tmp_path)]
    run = subprocess.run(command, text=True, capture_output=True, timeout=120, check=False)
    assert run.returncode == 0, f"exit {run.returncode}\n{run.stdout}\n{run.stderr}"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_files_beyond_the_bound_are_closed_and_a_writer_has_but_the_newest_open_to_write(index, two_open):
    expected = [100 * number for number in range(KEYS)]
    with IndexService.open(index, **GEOMETRY) as reader:
        assert found(reader) == expected
        assert (mappings(index), descriptors(index)) == (2, 0)
    with IndexService.open(index, "a", **GEOMETRY) as writer:
        assert found(writer) == expected
        assert (mappings(index), descriptors(index)) == (2 + 1, 2)  # the newest file, and the directory
        assert [file.mode for file in writer.files] == ["r"] * (FILES - 1) + ["r+"]
    assert (mappings(index), descriptors(index)) == (0, 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_damaged_file_that_a_query_passes_over_does_not_stay_open(tmp_path):
    root, sizes = tmp_path / "store", {"max_hash_slot_num": 7, "max_index_num": 40}
    config = StoreConfig(mapped_file_size_commit_log=1 << 20, **sizes)
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages([Message("T", b"body", keys=[f"k{number}"]) for number in range(100)])
    first = min((root / "index").iterdir())
    os.truncate(first, first.stat().st_size - 100)  # no geometry agrees with its items
    gc.disable()
    try:
        with rocketstore.open(root) as store:
            assert not store.query_message("T", "k99").complete
        del store
        assert (mappings(root), descriptors(root)) == (0, 0)
    finally:
        gc.enable()


@pytest.mark.parametrize("is_copied", [True, False])
@pytest.mark.parametrize("end", [IndexService.flush, IndexService.close])
def test_a_newest_file_that_is_taken_away_is_an_error_of_flush_and_close(index, end, is_copied):
    service = IndexService.open(index, "a", **GEOMETRY)
    add(service, KEYS, 2)
    path = service.files[-1].path
    data = path.read_bytes()
    path.unlink()
    if is_copied:
        path.write_bytes(data)
    with pytest.raises(StoreError, match=f"{path.name}: was removed or replaced"):
        end(service)
    service.close()  # it was told


def test_a_file_in_use_stays_open_beyond_the_bound_until_the_index_is_closed(index, two_open):
    with IndexService.open(index, **GEOMETRY) as reader:
        oldest = reader.files[0]
        found(reader)
        assert reader.files[0] is not oldest
        assert oldest.select_phy_offset("T#k1", 64, 0, 10**15) == [100]
    with pytest.raises(StoreClosedError):
        oldest.select_phy_offset("T#k1", 64, 0, 10**15)
    with pytest.raises(StoreClosedError):
        found(reader)
    with pytest.raises(StoreClosedError):
        list(reader.files)


# ---- files that are not open -------------------------------------------------------------------------------


def test_files_are_a_sequence_and_each_is_opened_when_it_is_used(index, two_open):
    names = sorted(path.name for path in index.iterdir())
    with IndexService.open(index, **GEOMETRY) as reader:
        files = reader.files
        assert [file.path.name for file in files] == names
        assert [file.path.name for file in reversed(files)] == names[::-1]
        assert [file.path.name for file in files[2:5]] == names[2:5]
        assert (files[0].path.name, files[-1].path.name) == (names[0], names[-1])
        assert files[-2:] == list(files[-2:])
        assert files[:0] == []
        assert files != []
        assert repr(files[-1]) in repr(files)
        with pytest.raises(IndexError):
            files[FILES]


def test_a_file_that_expires_while_it_is_not_open_is_skipped(index, two_open):
    with IndexService.open(index, **GEOMETRY) as reader:
        oldest = reader.files[0].path
        list(reader.files[5:])
        oldest.unlink()
        assert found(reader) == [100 * number for number in range(3, KEYS)]
        assert len(list(reader.files)) == FILES - 1
        with pytest.raises(FileNotFoundError):
            reader.files[0]
        reader.refresh()
        assert len(reader.files) == FILES - 1


@pytest.mark.parametrize("geometry", [GEOMETRY, {}], ids=["given", "shown"])
def test_a_file_that_expires_while_the_index_is_opened_is_skipped(index, geometry, monkeypatch):
    paths = sorted(index.iterdir())
    with os.scandir(index) as entries:
        listed = list(entries)
    paths[0].unlink()
    monkeypatch.setattr(os, "scandir", lambda directory: contextlib.nullcontext(iter(listed)))
    options = geometry | {"last_exit_ok": False, "checkpoint": StoreCheckpoint()}
    with IndexService.open(index, **options) as reader:
        assert [file.path for file in reader.files] == reader.rejected == paths[1:]
    with pytest.raises(FileNotFoundError):
        IndexService.open(index, "r+", **GEOMETRY)


def test_a_file_that_is_replaced_while_it_is_not_open_is_read_anew(index, two_open, tmp_path):
    oldest, newest = min(index.iterdir()), max(index.iterdir())
    with IndexService.open(index, **GEOMETRY) as reader:
        assert reader.query_offset("T", "k0").phy_offsets == [0]
        list(reader.files[5:])
        shutil.copy(newest, tmp_path / "copy")
        (tmp_path / "copy").rename(oldest)
        reader.refresh()
        assert reader.query_offset("T", "k0").phy_offsets == []
        assert reader.query_offset("T", f"k{KEYS - 1}").phy_offsets == [100 * (KEYS - 1)] * 2


def test_a_reader_without_files_learns_the_geometry_from_the_first_one(tmp_path):
    with IndexService.open(tmp_path) as reader:
        with IndexService.open(tmp_path, "a", **GEOMETRY) as service:
            add(service)
        for copy in (pickle.loads(pickle.dumps(reader)), reader):
            copy.refresh()
            assert len(found(copy)) == KEYS


def test_expired_files_are_deleted_whether_they_are_open_or_not(index, two_open):
    names = sorted(path.name for path in index.iterdir())
    with IndexService.open(index, "a", **GEOMETRY) as writer:
        found(writer)
        assert [path.name for path in writer.delete_expired_file(300 * 5)] == names[:5]
        assert [file.path.name for file in writer.files] == names[5:]
    assert sorted(path.name for path in index.iterdir()) == names[5:]


# ---- flushes -----------------------------------------------------------------------------------------------


@pytest.fixture
def flushed(monkeypatch):
    """The names of the files that were flushed, and what fails to be."""
    names, failing, real = [], [], IndexFile.flush

    def flush(file):
        if file.path.name in failing:
            raise OSError(errno.EIO, "planted", str(file.path))
        names.append(file.path.name)
        real(file)

    monkeypatch.setattr(IndexFile, "flush", flush)
    return SimpleNamespace(names=names, failing=failing)


def test_files_without_changes_since_the_last_flush_are_not_flushed(tmp_path, flushed):
    with IndexService.open(tmp_path, "a", **GEOMETRY) as service:
        add(service)
        service.flush()
        names = [file.path.name for file in service.files]
        assert sorted(flushed.names) == names
        flushed.names.clear()
        service.flush()
        assert flushed.names == []
        for first, expected in ((KEYS, 2), (KEYS + 1, 1)):
            names = [file.path.name for file in service.files]
            add(service, first, 1)
            service.flush()
            assert flushed.names == [*names, service.files[-1].path.name][-expected:]
            flushed.names.clear()


def test_what_an_earlier_writer_left_is_flushed_once_more(index, flushed):
    names = sorted(path.name for path in index.iterdir())
    with IndexService.open(index, "a", **GEOMETRY) as service:
        service.flush()
        assert flushed.names == names
        service.flush()
        assert flushed.names == names


def test_a_full_file_that_could_not_be_flushed_is_flushed_again(tmp_path, flushed):
    with IndexService.open(tmp_path, "a", **GEOMETRY) as service:
        add(service, 0, 3)
        oldest = service.files[0].path.name
        flushed.failing.append(oldest)
        add(service, 3, 6)
        for _ in range(2):
            with pytest.raises(OSError, match="planted"):
                service.flush()
        assert service.query_offset("T", "k1").phy_offsets == [100]
        flushed.failing.clear()
        flushed.names.clear()
        service.flush()
        assert flushed.names[0] == oldest
        flushed.names.clear()
        service.flush()
        assert oldest not in flushed.names


if __name__ == "__main__":
    use_a_store_of_many_index_files(sys.argv[1])


def test_an_index_file_that_a_listing_misses_is_found(tmp_path, monkeypatch):
    """A listing of a directory is no snapshot: a broker makes files while it is read."""
    for number in (1, 2, 3, 4):
        IndexFile.create(tmp_path / f"{number:017}", hash_slot_num=10, index_num=20).close()
    listings, real = [["1", "3"], ["1", "2", "3", "4"]], os.scandir

    @contextlib.contextmanager
    def scandir(directory):
        shown = listings.pop(0)
        with real(directory) as entries:
            yield [entry for entry in entries if str(int(entry.name)) in shown]

    monkeypatch.setattr(os, "scandir", scandir)
    assert [int(path.name) for path in index_directory.index_paths(tmp_path)] == [1, 2, 3]

"""Lists of remote directories: a slow list is made once for each use, and each entry answers from the list."""

import time
from collections import Counter

import pytest

pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")

import fsspec
from support.remote import CountedFileSystem, made_store, summary_of

import rocketstore
from rocketstore import IndexService, RemotePath
from rocketstore.disk.remote import remote_path
from rocketstore.disk.remote.directory_lists import DirectoryLists
from rocketstore.disk.remote.read_parts import reads_one_by_one
from rocketstore.disk.storage import held_lists, identity, scandir

QUICK, SLOW = 0.01, 0.03  # seconds: a quick list is used for the first, a list takes the second


class SlowFileSystem(CountedFileSystem):
    """Lists take longer than a list is used."""

    protocol = "slow"

    def ls(self, path, detail=False, **options):
        time.sleep(SLOW)
        return super().ls(path, detail, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def slow(made, monkeypatch):
    monkeypatch.setattr(remote_path, "LISTED", QUICK)
    return RemotePath(SlowFileSystem(), str(made))


def lists_of(path):
    """How often each directory was listed, by its name."""
    found = Counter(RemotePath(path.fs, name).name for name in path.fs.lists)
    path.fs.lists.clear()
    return found


def test_a_slow_list_is_made_once_and_not_once_for_each_file(slow):
    store = rocketstore.open(slow)
    assert max(lists_of(slow).values()) == 1  # by the survey with which the store is opened
    files = store.commit_log.file_run.files
    found = lists_of(slow)
    assert len(files) > 3
    assert found["commitlog"] == 1
    assert found.total() <= 3


def test_a_slow_list_of_index_files_is_made_once(slow, made):
    with IndexService.open(slow / "index") as index:
        assert len(index.files) == len(list((made / "index").iterdir())) > 1
    assert lists_of(slow)["index"] == 1


def test_a_summary_of_a_store_with_slow_lists_makes_each_once(slow, made):
    with rocketstore.open(slow) as store, rocketstore.open(made) as local:
        slow.fs.lists.clear()
        assert summary_of(store) == summary_of(local)
    assert max(Counter(slow.fs.lists).values()) == 1


def test_entries_of_a_list_answer_without_another(slow, made):
    with scandir(slow / "commitlog") as entries:
        found = list(entries)
    lists_of(slow)
    time.sleep(3 * SLOW)
    sizes = {entry.name: entry.stat().st_size for entry in found if entry.is_file() and not entry.is_dir()}
    versions = [identity(entry) for entry in found]
    assert sizes == {path.name: path.stat().st_size for path in (made / "commitlog").iterdir()}
    assert len(set(versions)) == len(sizes)
    assert not lists_of(slow)


def test_a_gap_between_files_is_looked_at_twice_and_then_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_path, "LISTED", 0.0)
    root = made_store(tmp_path / "store")
    sorted((root / "commitlog").iterdir())[1].unlink()
    path = RemotePath(CountedFileSystem(), str(root))
    log = rocketstore.open(path).commit_log
    lists_of(path)
    for _ in range(5):
        log.refresh()
    assert lists_of(path)["commitlog"] == 5


def test_a_list_is_used_until_the_end_of_a_plan_and_made_anew_for_the_next(slow):
    log = rocketstore.open(slow).commit_log
    for _ in range(2):
        time.sleep(3 * SLOW)
        lists_of(slow)
        with held_lists(slow):
            for _ in range(3):
                log.refresh()
                time.sleep(2 * SLOW)
            assert log.min_phy_offset == 0
        assert lists_of(slow) == {"commitlog": 1}


def test_a_file_that_is_gone_in_a_plan_is_looked_for_in_a_new_list(tmp_path):
    root = made_store(tmp_path / "store")
    path = RemotePath(CountedFileSystem(), str(root))
    log = rocketstore.open(path).commit_log
    first, second = [file.file_from_offset for file in log.file_run.files[:2]]
    with held_lists(path):
        (root / "commitlog" / f"{first:020}").unlink()
        assert log.find_message(first) is None
        assert log.min_phy_offset == second


def test_threads_read_where_a_file_system_reads_one_by_one(slow):
    assert reads_one_by_one(slow.fs)
    memory = fsspec.filesystem("memory")
    assert reads_one_by_one(memory)
    assert not reads_one_by_one(fsspec.filesystem("simplecache", fs=memory))
    assert not reads_one_by_one(fsspec.filesystem("blockcache", fs=memory))


def test_a_quick_list_is_used_for_its_time_and_a_slow_one_for_as_long_as_it_took():
    lists = DirectoryLists()
    now = time.monotonic()
    lists.keep("quick", {}, now)
    lists.keep("slow", {}, now - 3600)
    assert lists.find("quick", 1).entries == lists.find("slow", 1).entries == {}
    assert lists.find("quick", 0) is lists.find("slow", 0) is None
    time.sleep(0.02)
    assert lists.find("quick", 0.01) is None
    assert lists.find("slow", 0.01) is not None
    assert lists.find("other", 1) is None

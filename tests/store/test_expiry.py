"""Which files expire, in which order they go, and what an interruption leaves."""

import itertools
import os
import time
from pathlib import Path

import numpy as np
import pytest

from rocketstore import IndexFile, IndexService, StoreConfig
from rocketstore.disk.file_run_reader import FileRunReader
from rocketstore.queue.batch_consume_queue_writer import BatchConsumeQueueWriter
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter
from rocketstore.store.expiry import delete_expired_files, expired_files

FILE = 1000  # of the log; a record each 100 bytes
UNITS = 5  # in a queue's file
HOUR = 3600
CONFIG = StoreConfig()  # keeps 72 hours


class Store:
    """Files of a store: the log of zeros, a queue of each kind with a unit for every record, and an index."""

    def __init__(self, root, records, first=0):
        self.root = root
        self.log = root / "commitlog"
        self.log.mkdir()
        self.max_phy_offset = records * 100
        for start in range(first, self.max_phy_offset, FILE):
            (self.log / f"{start:020}").write_bytes(bytes(FILE))
        phy_offsets = np.arange(records, dtype=np.int64) * 100
        sizes = np.full(records, 100, np.int32)
        zeros = np.zeros(records, np.int64)
        ordinals = np.arange(records, dtype=np.int64)
        plain = ConsumeQueueWriter(root / "consumequeue" / "T" / "0", UNITS * 20)
        plain.put_units(phy_offsets, sizes, zeros, ordinals)
        old = ConsumeQueueWriter(root / "consumequeue" / "Old" / "0", UNITS * 20)
        old.put_units(phy_offsets[:7], sizes[:7], zeros[:7], ordinals[:7])
        batch = BatchConsumeQueueWriter(root / "batchconsumequeue" / "B" / "0", UNITS * 46)
        batch.put_units(phy_offsets, sizes, zeros, zeros, ordinals, np.ones(records, np.int16))
        self.queues = [plain, old, batch]
        self.index = IndexService.open(root / "index", "a", hash_slot_num=10, index_num=13)
        self.index.build_indexes(
            {"topic": "T", "keys": ["k"] * records, "phy_offset": phy_offsets, "store_timestamp": zeros}
        )

    def files(self):
        return FileRunReader([self.log]).files

    def set_ages(self, *hours):
        now = time.time()
        for file, age in zip(self.files(), hours, strict=True):
            os.utime(file.path, (now, now - age * HOUR))

    def delete(self, **options):
        return delete_expired_files(self.files(), self.max_phy_offset, self.queues, self.index, CONFIG, **options)

    def starts(self, *parts):
        directory = self.root.joinpath(*parts)
        return [int(path.name) for path in sorted(directory.iterdir()) if path.is_file()]

    def tree(self):
        return {str(path): path.stat().st_mtime_ns for path in self.root.rglob("*")}

    def close(self):
        for part in (*self.queues, self.index):
            part.close()


@pytest.fixture
def store(tmp_path):
    """Five log files and a half, eleven queue files, five index files."""
    store = Store(tmp_path, 55)
    yield store
    store.close()


# ---- which -----------------------------------------------------------------------------------------------------


def test_files_that_were_not_changed_for_72_hours_expire_oldest_first(store):
    store.set_ages(100, 73, 71, 100, 100, 100)
    assert [file.file_from_offset for file in expired_files(store.files(), 5500, CONFIG)] == [0, 1000]


def test_hours_may_be_given_or_configured(store):
    store.set_ages(5, 4, 3, 2, 1, 0)
    assert len(expired_files(store.files(), 5500, CONFIG, hours=2.5)) == 3
    assert len(expired_files(store.files(), 5500, StoreConfig(file_reserved_time=4))) == 2
    assert expired_files(store.files(), 5500, CONFIG) == []


def test_the_last_file_never_expires(store):
    store.set_ages(*[1000] * 6)
    assert len(expired_files(store.files(), 5500, CONFIG)) == 5
    assert len(expired_files(store.files(), 5500, CONFIG, hours=0)) == 5
    assert len(expired_files(store.files(), 5500, CONFIG, before_phy_offset=10**15)) == 5
    assert expired_files(store.files()[:1], 500, CONFIG, hours=0) == []
    assert expired_files([], 0, CONFIG, hours=0) == []


def test_a_file_made_ahead_is_not_the_last(store):
    (store.log / f"{6000:020}").write_bytes(bytes(FILE))
    store.set_ages(*[1000] * 7)
    for end in (5001, 5500, 6000):
        assert expired_files(store.files(), end, CONFIG) == store.files()[:5]
    assert len(expired_files(store.files(), 6001, CONFIG)) == 6
    assert len(expired_files(store.files(), 5000, CONFIG)) == 4


@pytest.mark.parametrize(("offset", "count"), [(-1, 0), (0, 0), (999, 0), (1000, 1), (1999, 1), (2000, 2), (5000, 5)])
def test_files_that_end_up_to_an_offset_expire_at_any_age(store, offset, count):
    assert len(expired_files(store.files(), 5500, CONFIG, before_phy_offset=offset)) == count


def test_with_hours_and_an_offset_both_count(store):
    store.set_ages(9, 9, 9, 1, 1, 1)
    assert len(expired_files(store.files(), 5500, CONFIG, hours=5, before_phy_offset=2000)) == 2
    assert len(expired_files(store.files(), 5500, CONFIG, hours=5, before_phy_offset=5000)) == 3


def test_a_file_from_the_future_is_not_old(store):
    store.set_ages(*[-5] * 6)
    assert expired_files(store.files(), 5500, CONFIG, hours=0) == []


@pytest.mark.parametrize("hours", [-1, float("nan"), float("-inf")])
def test_hours_that_cannot_be_are_refused(store, hours):
    before = store.tree()
    with pytest.raises(ValueError, match="hours="):
        store.delete(hours=hours)
    assert store.tree() == before


# ---- deletion --------------------------------------------------------------------------------------------------


def test_log_queues_and_index_lose_what_lies_before_the_new_beginning(store):
    index_files = store.index.files
    assert [file.header.end_phy_offset for file in index_files] == [1100, 2300, 3500, 4700, 5400]
    names = [file.path for file in index_files]
    result = store.delete(before_phy_offset=2500)
    assert result.min_phy_offset == 2000
    assert result.commit_log == ([store.log / f"{start:020}" for start in (0, 1000)], 2000)
    plain, old, batch = (queue.directory for queue in store.queues)
    # Units 0 to 19 are of records below 2000; a queue keeps its last file.
    assert result.consume_queue.paths == [
        *(plain / f"{start:020}" for start in (0, 100, 200, 300)),
        old / f"{0:020}",
        *(batch / f"{start:020}" for start in (0, 230, 460, 690)),
    ]
    assert result.consume_queue.size == 5 * 100 + 4 * 230
    assert result.index == (names[:1], 40 + 10 * 4 + 13 * 20)
    assert store.starts("commitlog") == [2000, 3000, 4000, 5000]
    assert store.starts("consumequeue", "T", "0") == list(range(400, 1100, 100))
    assert store.starts("consumequeue", "Old", "0") == [100]
    assert store.starts("batchconsumequeue", "B", "0") == list(range(920, 2530, 230))
    assert [file.path for file in store.index.files] == names[1:] == sorted((store.root / "index").iterdir())
    assert [queue.min_queue_offset for queue in store.queues] == [20, 7, 20]
    assert [queue.max_queue_offset for queue in store.queues] == [55, 7, 55]


def test_a_dry_run_says_the_same_and_changes_nothing(store):
    before = store.tree()
    said = store.delete(before_phy_offset=4200, dry_run=True)
    assert store.tree() == before
    assert [queue.min_queue_offset for queue in store.queues] == [0, 0, 0]
    done = store.delete(before_phy_offset=4200)
    assert done == said
    paths = [*done.commit_log.paths, *done.consume_queue.paths, *done.index.paths]
    assert set(before) - set(store.tree()) == set(map(str, paths))


def test_what_ctrl_c_left_when_a_file_had_just_gone_is_deleted_by_the_next_call(store, monkeypatch):
    real = os.unlink

    def unlink(path, *args, **options):
        real(path, *args, **options)
        if "consumequeue" in str(path):
            monkeypatch.setattr(os, "unlink", real)
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(KeyboardInterrupt):
        store.delete(before_phy_offset=store.max_phy_offset)
    store.delete(before_phy_offset=store.max_phy_offset)
    assert store.delete(before_phy_offset=store.max_phy_offset).consume_queue.paths == []


def test_where_nothing_has_expired_nothing_changes(store):
    before = store.tree()
    result = store.delete()
    assert (result.min_phy_offset, result.commit_log, result.consume_queue, result.index) == (0, *[([], 0)] * 3)
    assert store.tree() == before


def test_the_last_files_stay_when_all_else_goes(store):
    store.set_ages(*[1000] * 6)
    result = store.delete()
    assert result.min_phy_offset == 5000
    assert store.starts("commitlog") == [5000]
    assert store.starts("consumequeue", "T", "0") == [1000]
    assert len(store.index.files) == 1
    assert store.delete().commit_log.paths == []


def test_messages_go_on_behind_a_queue_that_has_lost_all(store):
    store.delete(before_phy_offset=5000)
    old = store.queues[1]
    one = np.ones(1, np.int64)
    assert old.put_units(one * 5500, one.astype(np.int32), one * 0, one * 7) == 1
    assert (old.min_queue_offset, old.max_queue_offset) == (7, 8)


def test_a_store_without_log_queues_or_index_has_nothing_to_lose(tmp_path):
    result = delete_expired_files([], 0, [], None, CONFIG, hours=0)
    assert (result.min_phy_offset, result.commit_log, result.index) == (0, ([], 0), ([], 0))


def test_queues_keep_no_descriptor_open(store):
    store.delete(before_phy_offset=2500)
    before = set(Path("/dev/fd").iterdir())
    for queue in store.queues:
        queue.release()
    assert set(Path("/dev/fd").iterdir()) == before


def test_the_log_goes_first_and_each_file_for_good(store, monkeypatch):
    store.index.flush()  # its full files are flushed by a thread
    steps = []
    unlink, fsync = os.unlink, os.fsync

    def watched(path, *, dir_fd):
        steps.append(Path(path) if dir_fd is None else store.index.directory / path)
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", watched)
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("fsync"), fsync(fd)))
    result = store.delete(before_phy_offset=3000)
    log = result.commit_log.paths
    assert steps[:6] == [log[0], "fsync", log[1], "fsync", log[2], "fsync"]
    assert [step for step in steps[6:] if step != "fsync"] == result.consume_queue.paths + result.index.paths


def test_an_interrupted_deletion_leaves_no_gap_and_is_finished_by_the_next_call(tmp_path, monkeypatch):
    """The n-th deletion fails, for every n, as a kill there would end it."""
    unlink = os.unlink
    for n in itertools.count(1):
        root = tmp_path / str(n)
        root.mkdir()
        store = Store(root, 55)
        answers = itertools.chain([None] * (n - 1), [OSError(5, "Input/output error")], itertools.repeat(None))

        def failing(path, _answers=answers, **options):
            if error := next(_answers):
                raise error
            unlink(path, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", failing)
            try:
                store.delete(before_phy_offset=3000)
            except OSError:
                done = False
            else:
                done = True
        log = store.starts("commitlog")
        assert log == list(range(log[0], 5001, FILE))
        # No message of the log has lost its unit, or its index entry.
        assert store.starts("consumequeue", "T", "0")[0] // 20 * 100 <= log[0]
        store.close()
        again = Store.__new__(Store)
        again.__dict__.update(store.__dict__)
        again.queues = [type(queue)(queue.directory, queue.mapped_file_size) for queue in store.queues]
        again.index = IndexService.open(root / "index", "a", hash_slot_num=10, index_num=13)
        assert again.index.files[0].header.begin_phy_offset <= log[0]
        again.delete(before_phy_offset=3000)
        assert again.starts("commitlog") == [3000, 4000, 5000]
        assert again.starts("consumequeue", "T", "0") == list(range(600, 1100, 100))
        assert [file.header.end_phy_offset for file in again.index.files] == [3500, 4700, 5400]
        assert [queue.min_queue_offset for queue in again.queues] == [30, 7, 30]
        again.close()
        if done:
            break
    assert n > 15


# ---- queries of the index meanwhile ------------------------------------------------------------------------


def test_a_query_looks_into_each_file_once_though_the_oldest_go_meanwhile(store, monkeypatch):
    expected = store.index.query_offset("T", "k").phy_offsets
    assert len(expected) == 55
    real = IndexFile.is_time_matched

    def is_time_matched(file, *times):
        store.index.delete_expired_file(3000)
        return real(file, *times)

    monkeypatch.setattr(IndexFile, "is_time_matched", is_time_matched)
    assert store.index.query_offset("T", "k").phy_offsets == expected  # in files that it has, deleted or not
    monkeypatch.undo()
    assert store.index.query_offset("T", "k").phy_offsets == [offset for offset in expected if offset >= 2400]


def test_a_query_reads_a_deleted_index_file_to_its_end(store):
    (oldest, *_) = store.index.files
    store.delete(before_phy_offset=3000)
    assert not oldest.path.exists()
    assert oldest.select_phy_offset("T#k", 64, 0, 1) == list(range(1100, -1, -100))


def test_a_reader_passes_over_an_index_file_that_goes_while_it_is_listed(store, monkeypatch):
    store.index.flush()
    names = [file.path.name for file in store.index.files]
    oldest = store.index.files[0].path
    oldest.rename(store.root / "aside")
    with IndexService.open(oldest.parent, hash_slot_num=10, index_num=13) as reader:
        (store.root / "aside").rename(oldest)
        real = IndexFile.open

        def open_file(path, *args, **options):
            oldest.unlink(missing_ok=True)
            return real(path, *args, **options)

        monkeypatch.setattr(IndexFile, "open", open_file)
        reader.refresh()
        assert [file.path.name for file in reader.files] == names[1:]
        assert reader.query_offset("T", "k").phy_offsets == list(range(5400, 1199, -100))

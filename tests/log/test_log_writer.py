"""The end of a commit log: its files, made ahead or when they are needed, and bringing them to the disk."""

import errno
import gc
import os
import random
import resource
import sys
import threading

import pytest
from reference.commit_log import read_files, scan
from support.puts import BEGIN, config_of, draw_plain, message_of, model_of, open_paths, open_store, path_of, with_host
from support.syncs import patch_syncs
from support.waiting import wait_for

import rocketstore
from rocketstore import CommitLog, MappedFile, Message, PutMessageError, StoreClosedError, StoreError, StoreLockedError
from rocketstore.log import log_writer
from rocketstore.log.log_writer import LogWriter

SIZE = 4096
RECORD = 1000
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks paths of descriptors up in /proc")


class FirstQueue:
    """Queue 0 of every topic, empty."""

    def find_queue_offset(self, topic, queue_id):
        return 0

    def next_queue_id(self, topic):
        return 0


def writer_of(*directories, phy_offset=0, **options):
    options = {"allocate_file_ahead": False, **options}
    return LogWriter(directories, config_of(**options), phy_offset, FirstQueue())


def message(size=RECORD):
    """A message of topic T whose record has so many bytes."""
    return Message("T", bytes(size - 92), queue_id=0, born_timestamp=1)


def put_together(writer, *messages):
    return writer.append_together(writer.encode(messages, BEGIN))


@pytest.fixture
def synced(monkeypatch):
    """The paths that were synced, in order."""
    paths, real = [], os.fsync

    def fsync(fd):
        paths.append(path_of(fd))
        real(fd)

    patch_syncs(monkeypatch, fsync)
    return paths


# ---- files -------------------------------------------------------------------------------------------------


def test_no_file_is_made_before_the_first_message(tmp_path):
    writer = writer_of(tmp_path / "log", allocate_file_ahead=True)
    assert writer.files.phy_offset == 0
    writer.files.flush()
    writer.files.close()
    assert list((tmp_path / "log").iterdir()) == []  # directories are made when the writer is opened


def test_messages_roll_over_files(tmp_path):
    writer = writer_of(tmp_path)
    offsets = [writer.append(message(), BEGIN).phy_offset for _ in range(10)]
    assert offsets == [SIZE * (i // 4) + RECORD * (i % 4) for i in range(10)]
    assert writer.files.phy_offset == offsets[-1] + RECORD
    writer.files.close()
    assert [record.phy_offset for _, record in scan(read_files(tmp_path))] == offsets


@pytest.mark.parametrize("phy_offset", [0, SIZE, 7 * SIZE, (1 << 40)])
def test_a_log_continues_at_the_beginning_of_a_file_that_is_not_there(phy_offset, tmp_path):
    writer = writer_of(tmp_path, phy_offset=phy_offset)
    assert writer.files.phy_offset == phy_offset
    assert writer.append(message(), BEGIN).phy_offset == phy_offset
    writer.files.close()
    assert sorted(read_files(tmp_path)) == [phy_offset]


def test_a_log_continues_in_a_file_that_is_there(tmp_path):
    writer = writer_of(tmp_path)
    writer.append(message(), BEGIN)
    writer.files.close()
    writer = writer_of(tmp_path, phy_offset=RECORD)
    assert writer.files.phy_offset == writer.files.flushed_where == RECORD
    assert writer.append(message(), BEGIN).phy_offset == RECORD
    writer.files.close()


def test_a_next_file_that_got_no_more_than_its_name_is_made_again(tmp_path):
    """As Ctrl-C leaves it between the file's making and its length."""
    writer = writer_of(tmp_path)
    for start in (0, SIZE):
        (tmp_path / f"{start:020}").touch()
        results = [writer.append(message(), BEGIN) for _ in range(4)]
    assert results[-1].phy_offset == SIZE + 3 * RECORD
    writer.files.close()
    assert [len(data) for data in read_files(tmp_path).values()] == [SIZE, SIZE]


def test_the_next_file_is_made_ahead_and_removed_by_closing(tmp_path):
    writer = writer_of(tmp_path, allocate_file_ahead=True)
    for number in range(3):
        for _ in range(4):
            writer.append(message(), BEGIN)
        wait_for(lambda number=number: read_files(tmp_path).get((number + 1) * SIZE) == bytes(SIZE))
        assert sorted(read_files(tmp_path)) == [SIZE * i for i in range(number + 2)]
    writer.files.close()
    assert sorted(read_files(tmp_path)) == [0, SIZE, 2 * SIZE]


def test_a_log_whose_thread_cannot_be_started_makes_files_when_they_are_needed(monkeypatch, tmp_path):
    real = threading.Thread.start

    def start(thread):
        if thread.name == "rocketstore-allocate":
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    writer = writer_of(tmp_path, allocate_file_ahead=True)
    offsets = [writer.append(message(), BEGIN).phy_offset for _ in range(10)]
    assert sorted(read_files(tmp_path)) == [0, SIZE, 2 * SIZE]
    writer.files.flush()
    writer.files.close()
    assert [record.phy_offset for _, record in scan(read_files(tmp_path))] == offsets


class Interrupting:
    """Something whose method is ended by Ctrl-C before or after it did its work, once."""

    def __init__(self, inner, name, when):
        self.inner, self.name, self.when = inner, name, when

    def __getattr__(self, name):
        found = getattr(self.inner, name)
        return self._interrupted if name == self.name and self.when else found

    def _interrupted(self, *args):
        when, self.when = self.when, ""
        if when == "after":
            getattr(self.inner, self.name)(*args)
        raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("part", "name"), [("_appender", "set_file"), ("_ahead", "ask"), ("_ahead", "take")])
def test_ctrl_c_while_a_file_is_exchanged_loses_and_overwrites_nothing(part, name, when, synced, tmp_path):
    writer = writer_of(tmp_path, allocate_file_ahead=True)
    offsets = [writer.append(message(), BEGIN).phy_offset for _ in range(4)]
    writer.files.flush()
    setattr(writer.files, part, Interrupting(getattr(writer.files, part), name, when))
    with pytest.raises(KeyboardInterrupt):
        writer.append(message(), BEGIN)
    offsets += [writer.append(message(), BEGIN).phy_offset for _ in range(9)]
    assert offsets == [SIZE * (i // 4) + RECORD * (i % 4) for i in range(13)]
    synced.clear()
    writer.files.flush()
    assert {f"{tmp_path}/{SIZE * i:020}" for i in (1, 2, 3)} <= set(synced)
    assert writer.files.flushed_where == offsets[-1] + RECORD
    writer.files.close()
    assert [record.phy_offset for _, record in scan(read_files(tmp_path))] == offsets


def test_a_file_left_ahead_by_a_crash_is_used(tmp_path):
    writer = writer_of(tmp_path)
    writer.append(message(), BEGIN)
    (tmp_path / f"{SIZE:020}").write_bytes(bytes(SIZE))
    inode = (tmp_path / f"{SIZE:020}").stat().st_ino
    for _ in range(4):
        writer.append(message(), BEGIN)
    writer.files.close()
    assert (tmp_path / f"{SIZE:020}").stat().st_ino == inode


@pytest.mark.parametrize("count", [1, 2, 3])
def test_files_go_to_several_directories_in_turn_of_their_names(count, tmp_path):
    directories = [tmp_path / name for name in "cab"[:count]]
    writer = writer_of(*directories, phy_offset=5 * SIZE, allocate_file_ahead=True)
    for _ in range(4 * 7):
        writer.append(message(), BEGIN)
    writer.files.close()
    names = sorted("cab"[:count])
    for number, name in enumerate(names):
        assert sorted(read_files(tmp_path / name)) == [i * SIZE for i in range(5, 12) if i % count == number]


def test_directories_are_sorted_as_texts(tmp_path):
    writer = writer_of(tmp_path / "m" / "x", tmp_path / "m-1" / "x")
    writer.append(message(), BEGIN)
    writer.files.close()
    assert list(read_files(tmp_path / "m-1" / "x")) == [0]


def test_the_bytes_are_the_reference_s(seed, tmp_path):
    rng = random.Random(f"{seed} writer")
    config = config_of(store_host="1.2.3.4:5")
    model = model_of(config)
    writer = LogWriter([tmp_path], config, 0, FirstQueue())
    for _ in range(60):
        rows = [draw_plain(rng) for _ in range(rng.randrange(1, 6))]
        if rng.random() < 0.5:
            put_together(writer, *map(message_of, rows))
            for row in rows:
                model.put(with_host(row, config), BEGIN)
        else:
            writer.append(message_of(rows[0]), BEGIN)
            model.put(with_host(rows[0], config), BEGIN)
    writer.files.close()
    expected = {start: bytes(data).ljust(SIZE, b"\0") for start, data in model.files.items()}
    assert read_files(tmp_path) == expected


def test_a_message_of_more_than_a_given_size_is_refused(tmp_path):
    writer = writer_of(tmp_path)
    with pytest.raises(PutMessageError, match="1000"):
        writer.append_completed(message(), BEGIN, 1, RECORD - 1)
    assert writer.append_completed(message(), BEGIN, 1, RECORD).phy_offset == 0
    writer.files.close()


# ---- flush -------------------------------------------------------------------------------------------------


@linux_only
def test_a_flush_syncs_the_files_that_changed_and_each_once(synced, tmp_path):
    writer = writer_of(tmp_path)
    for _ in range(10):
        writer.append(message(), BEGIN)
    synced.clear()
    writer.files.flush()
    assert sorted(synced) == [str(tmp_path / f"{SIZE * i:020}") for i in range(3)]
    assert writer.files.flushed_where == writer.files.phy_offset
    assert writer.files.last_flushed == (2 * SIZE + RECORD, BEGIN)
    writer.append(message(), BEGIN + 1)
    synced.clear()
    writer.files.flush()
    assert synced == [str(tmp_path / f"{2 * SIZE:020}")]
    writer.files.close()


@linux_only
def test_the_name_of_a_file_is_on_the_disk_before_it_is_used(synced, tmp_path):
    writer = writer_of(tmp_path / "new" / "log")
    writer.append(message(), BEGIN)
    assert str(tmp_path / "new" / "log") in synced
    assert str(tmp_path / "new") in synced
    writer.files.close()


@linux_only
def test_nothing_is_synced_up_to_where_it_is_on_the_disk(synced, tmp_path):
    writer = writer_of(tmp_path)
    end = writer.append(message(), BEGIN).phy_offset + RECORD
    writer.files.flush(end)
    synced.clear()
    for at in (0, 1, end):
        writer.files.flush(at)
    assert synced == []
    writer.files.flush(end + 1)
    assert len(synced) <= 1
    writer.files.close()


@linux_only
def test_a_failed_flush_is_not_treated_as_done(monkeypatch, tmp_path):
    writer = writer_of(tmp_path)
    writer.append(message(), BEGIN)
    real = os.fsync

    def fail(fd):
        raise OSError(errno.EIO, "gone")

    patch_syncs(monkeypatch, fail)
    with pytest.raises(OSError, match="gone") as first:
        writer.files.flush()
    patch_syncs(monkeypatch, real)  # which would succeed now: the system takes the pages for written
    for end in (None, RECORD):
        with pytest.raises(StoreError, match="flush has failed") as later:
            writer.files.flush(end)
        assert later.value.__cause__ is first.value
    assert (writer.files.flushed_where, writer.files.last_flushed) == (0, None)
    writer.files.close()


@linux_only
def test_a_failed_flush_fails_all_its_waiters_and_none_tries_again(monkeypatch, tmp_path):
    writer = writer_of(tmp_path)
    writer.append(message(), BEGIN)
    started, finish, errors, calls = threading.Event(), threading.Event(), [], []

    def fail_once(fd):
        calls.append(fd)
        if len(calls) == 1:
            started.set()
            assert finish.wait(20)
            raise OSError(errno.EIO, "gone")

    def flush():
        try:
            writer.files.flush(RECORD)
        except (OSError, StoreError) as error:
            errors.append(type(error))

    patch_syncs(monkeypatch, fail_once)
    threads = [threading.Thread(target=flush) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert started.wait(20)
    finish.set()
    for thread in threads:
        thread.join()
    assert sorted(errors, key=str) == [OSError, StoreError, StoreError, StoreError]
    assert len(calls) == 1
    writer.files.close()


def test_what_a_flush_says_is_on_the_disk_is_before_where_it_flushed(tmp_path):
    """Large parts are written without the GIL. A flush during the write covers the bytes before it."""
    writer = writer_of(tmp_path, mapped_file_size_commit_log=1 << 20)
    stop, said = threading.Event(), []

    def flush():
        while not stop.is_set():
            writer.files.flush()
            if writer.files.last_flushed is not None:
                said.append((writer.files.last_flushed[0], writer.files.flushed_where))

    thread = threading.Thread(target=flush)
    thread.start()
    for _ in range(150):
        with writer.lock:
            put_together(writer, *[message(64 << 10)] * 8)
    stop.set()
    thread.join()
    writer.files.close()
    assert said
    assert all(record < where for record, where in said)


def test_appending_continues_while_a_flush_waits_for_the_disk(monkeypatch, tmp_path):
    writer = writer_of(tmp_path, mapped_file_size_commit_log=1 << 20)
    writer.append(message(), BEGIN)
    started, finish, real = threading.Event(), threading.Event(), os.fsync

    def wait(fd):
        started.set()
        assert finish.wait(20)
        real(fd)

    patch_syncs(monkeypatch, wait)
    thread = threading.Thread(target=writer.files.flush)
    thread.start()
    assert started.wait(20)
    with writer.lock:
        assert writer.append(message(), BEGIN).phy_offset == RECORD
    finish.set()
    thread.join()
    assert writer.files.flushed_where == RECORD  # not what came later
    writer.files.close()


# ---- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="another call allocates here")
def test_a_full_disk_leaves_the_log_as_it_was(ahead, monkeypatch, tmp_path):
    writer = writer_of(tmp_path, allocate_file_ahead=ahead)
    for _ in range(4):
        writer.append(message(), BEGIN)
    wait_for(lambda: len(read_files(tmp_path)) == 1 + ahead)
    for _ in range(4 * ahead):
        writer.append(message(), BEGIN)  # in the file that was made before
    end = writer.files.phy_offset
    real, left = os.posix_fallocate, [1 << 30]

    def full(fd, offset, size):
        if left[0] > 0:
            raise OSError(errno.ENOSPC, "No space left")
        real(fd, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    for _ in range(8 * ahead):  # one more may have been made in time
        try:
            end = writer.append(message(), BEGIN).phy_offset + RECORD
        except OSError:
            break
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            writer.append(message(), BEGIN)
    left[0] = 0
    files = read_files(tmp_path)
    assert all(len(data) == SIZE for data in files.values())
    result = writer.append(message(), BEGIN)
    assert result.phy_offset == end // SIZE * SIZE + SIZE
    writer.files.close()
    assert [offset for offset, _ in scan(read_files(tmp_path))][-1] == result.phy_offset


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_is_taken_away_is_seen_by_a_flush(replaced, tmp_path):
    writer = writer_of(tmp_path)
    writer.append(message(), BEGIN)
    writer.files.check_file()
    path = tmp_path / f"{0:020}"
    path.rename(tmp_path / "old")
    if replaced:
        path.write_bytes((tmp_path / "old").read_bytes())
    for call in (writer.files.check_file, writer.files.flush):
        with pytest.raises(StoreError, match="removed or replaced"):
            call()
    (tmp_path / "old").replace(path)
    with pytest.raises(StoreError, match="flush has failed"):
        writer.files.flush()
    writer.files.close()


def test_after_closing_nothing_is_appended(tmp_path):
    writer = writer_of(tmp_path)
    writer.append(message(), BEGIN)
    writer.files.close()
    with pytest.raises(StoreClosedError):
        writer.append(message(), BEGIN)
    assert [offset for offset, _ in scan(read_files(tmp_path))] == [0]


def test_closing_twice_takes_no_file_from_another_writer(tmp_path):
    closed, writer = (writer_of(tmp_path, allocate_file_ahead=True) for _ in range(2))
    closed.append(message(), BEGIN)
    wait_for((tmp_path / f"{SIZE:020}").exists)
    closed.files.close()
    writer.append(message(), BEGIN)
    wait_for((tmp_path / f"{SIZE:020}").exists)
    closed.files.close()
    assert (tmp_path / f"{SIZE:020}").exists()
    writer.files.close()


@linux_only
def test_closing_leaves_no_descriptor(tmp_path):
    writer = writer_of(tmp_path, allocate_file_ahead=True)
    for _ in range(20):
        writer.append(message(), BEGIN)
    writer.files.close()
    assert open_paths(tmp_path) == []


# ---- a log alone -------------------------------------------------------------------------------------------


def test_a_log_alone_is_appended_to_and_continued(tmp_path):
    for number in range(3):
        with CommitLog.open(tmp_path, mode="a", config=config_of()) as log:
            result = log.append(message(), store_timestamp=BEGIN)
            batch = log.append_batch([message()] * 5, store_timestamp=BEGIN)
            assert result.queue_offset == 6 * number
            assert batch.queue_offsets.tolist() == list(range(6 * number + 1, 6 * number + 6))
            log.flush()
            assert log.get_message(result.phy_offset).queue_offset == 6 * number
            assert sum(len(found) for found in log.scan()) == 6 * (number + 1)
    assert [record.queue_offset for _, record in scan(read_files(tmp_path))] == list(range(18))


def test_inner_batches_in_a_log_alone_take_their_queue_offsets(tmp_path):
    def batch():
        return Message.batch("B", [Message("B", b"a"), Message("B", b"b"), Message("B", b"c")])

    with CommitLog.open(tmp_path, "a", config=config_of()) as log:
        assert [log.append(batch()).queue_offset for _ in range(2)] == [0, 3]
        assert log.append_batch([batch(), Message("B", b"d"), batch()]).queue_offsets.tolist() == [6, 9, 10]
        (rows,) = log.scan()
        assert [row.properties.get("INNER_BASE") for row in rows] == ["0", "3", "6", None, "10"]
        result = log.append_batch(rows)
        assert result.queue_offsets.tolist() == [13, 16, 19, 22, 23]
        assert [m.queue_offset for m in log.get_message(result.phy_offsets[-1]).decode_batch()] == [23, 24, 25]
    with CommitLog.open(tmp_path, "a", config=config_of()) as log:
        assert log.append(Message("B", b"")).queue_offset == 26


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Message("T", b"", properties={"INNER_NUM": "5"}), "INNER_NUM"),
        (Message("T", b"", sys_flag=0x80, properties={"INNER_NUM": "0"}), "INNER_NUM='0' must be 1 to"),
        (Message("a/b", b""), "topic 'a/b' cannot be"),
        (Message("", b""), "topic '' cannot be"),
        (Message("T", b"", queue_id=-1), "queue_id=-1"),
        (Message("T", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}), "INNER_MULTI_DISPATCH"),
    ],
)
def test_a_log_alone_refuses_what_a_store_does(bad, reason, tmp_path):
    with CommitLog.open(tmp_path, "a", config=config_of(enable_lmq=True)) as log:
        with pytest.raises(PutMessageError, match=reason):
            log.append(bad)
        with pytest.raises(PutMessageError, match=reason):
            log.append_batch([message(), bad])
        assert log.max_phy_offset == 0
        assert log.append(message()).queue_offset == 0


@pytest.mark.parametrize(("flush_disk_type", "is_sync"), [("SYNC_FLUSH", True), ("ASYNC_FLUSH", False)])
def test_a_log_alone_is_on_the_disk_when_append_returns_under_sync_flush(flush_disk_type, is_sync, tmp_path):
    with CommitLog.open(tmp_path, "a", config=config_of(flush_disk_type=flush_disk_type)) as log:
        log.append(message())
        assert log.writer.log_writer.files.flushed_where == RECORD * is_sync
        log.append_batch([message()] * 2)
        assert log.writer.log_writer.files.flushed_where == 3 * RECORD * is_sync
        log.append_batch([])
        log.flush()
        assert log.writer.log_writer.files.flushed_where == 3 * RECORD


def test_a_log_alone_acknowledges_nothing_after_a_flush_has_failed_under_sync_flush(tmp_path, monkeypatch):
    def flush(file):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = CommitLog.open(tmp_path, "a", config=config_of(flush_disk_type="SYNC_FLUSH"))
    log.append(message())
    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "flush", flush)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            log.append(message())
    for call in (lambda: log.append(message()), lambda: log.append_batch([message()]), log.close):
        with pytest.raises(StoreError, match="a flush has failed"):
            call()


def test_mode_r_plus_appends_to_what_exists(tmp_path):
    with pytest.raises(FileNotFoundError):
        CommitLog.open(tmp_path / "log", "r+", config=config_of())
    CommitLog.open(tmp_path / "log", "a", config=config_of()).close()
    with CommitLog.open(tmp_path / "log", "r+", config=config_of()) as log:
        assert (log.mode, log.append(message()).phy_offset) == ("r+", 0)


def test_many_messages_are_encoded_in_parts(monkeypatch, tmp_path):
    """Between them other threads have a turn."""
    monkeypatch.setattr(log_writer, "ADDED", 3)
    with CommitLog.open(tmp_path, mode="a", config=config_of()) as log:
        assert log.append_batch([message()] * 10).queue_offsets.tolist() == list(range(10))
        with pytest.raises(PutMessageError):
            log.append_batch([message()] * 7 + [Message("T" * 128_000, b"")])
        assert log.append(message()).queue_offset == 10


@pytest.mark.parametrize("size", [2, 1000])
def test_a_write_that_fails_half_way_leaves_no_record_of_it_and_takes_no_queue_offset(size, tmp_path):
    with CommitLog.open(tmp_path, "a", mapped_file_size=1 << 20) as log:
        log.append(message())
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.max_phy_offset + 30_000, limit[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                log.append_batch([message(91 + size)] * 600)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert sum(map(len, log.scan())) == 1
        assert log.append(message()).queue_offset == 1
        assert sum(map(len, log.scan())) == 2


def test_a_handler_of_a_signal_cannot_close_a_log_that_its_thread_flushes(tmp_path, monkeypatch):
    """It would wait for itself."""
    log = CommitLog.open(tmp_path, "a", config=config_of())
    with monkeypatch.context() as patched:
        patched.setattr(log.writer.log_writer.files, "check_file", log.close)  # as a signal handler in the call
        with pytest.raises(RuntimeError, match="close is refused, because this thread is in flush"):
            log.flush()
    log.flush()
    log.close()
    with pytest.raises(StoreClosedError):
        log.flush()


def test_a_queue_of_a_store_whose_records_are_all_gone_is_not_begun_anew(tmp_path):
    with open_store(tmp_path, mapped_file_size_commit_log=SIZE) as store:
        store.put_message(Message("Old", b"", queue_id=0))
        for _ in range(8):
            store.put_message(message())
        store.delete_expired_files(before_phy_offset=SIZE)
    with CommitLog.open(tmp_path / "commitlog", "a", config=config_of()) as log:
        for append in (log.append, lambda message: log.append_batch([message])):
            with pytest.raises(StoreError, match=r"consumequeue/Old/0: .*rocketstore\.open"):
                append(Message("Old", b"", queue_id=0))
        assert log.append(message()).queue_offset == 8
        assert log.append(Message("New", b"", queue_id=0)).queue_offset == 0


def test_the_log_of_a_store_has_one_writer_at_a_time(tmp_path, monkeypatch):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=config_of()) as store:
        store.put_message(message())
        for mode in ("a", "r+"):
            with pytest.raises(StoreLockedError):
                CommitLog.open(root / "commitlog", mode)
        assert len(list(CommitLog.open(root / "commitlog").scan())) == 1
    monkeypatch.chdir(root / "commitlog")
    with CommitLog.open(".", "r+", config=config_of()) as log:
        assert log.append(message()).queue_offset == 1
        with pytest.raises(StoreLockedError):
            rocketstore.open(root, "a")
        with pytest.raises(StoreLockedError):
            CommitLog.open(root / "commitlog", "a")
    log.close()
    with rocketstore.open(root, "r+") as store:
        assert store.put_message(message()).queue_offset == 2


@pytest.mark.parametrize("end", ["drop", "fail"])
def test_a_log_that_is_dropped_or_cannot_be_opened_gives_the_store_s_lock_back(end, tmp_path):
    with rocketstore.open(tmp_path, "a", config=config_of()) as store:
        store.put_message(message())
    if end == "drop":
        CommitLog.open(tmp_path / "commitlog", "a", config=config_of())
        gc.collect()
    else:
        with pytest.raises(StoreError, match="recover the store first"):
            CommitLog.open(tmp_path / "commitlog", "a", mapped_file_size=4 * SIZE)
    rocketstore.open(tmp_path, "a").close()


def test_a_forked_process_appends_nothing_to_the_log_of_a_store(tmp_path):
    rocketstore.open(tmp_path, "a", config=config_of()).close()
    with CommitLog.open(tmp_path / "commitlog", "a", config=config_of()) as log:
        pid = os.fork()
        if pid == 0:
            try:
                log.append(message())
            except StoreError:
                log.close()
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert log.append(message()).phy_offset == 0
        with pytest.raises(StoreLockedError):
            rocketstore.open(tmp_path, "a")


def test_a_log_alone_whose_last_record_ends_in_zeros_is_continued(tmp_path):
    config = config_of(compat="5.1.4")  # before 5.2 the last property has no separator behind it
    for number in range(3):
        with CommitLog.open(tmp_path, "a", config=config) as log:
            assert log.append(Message("TopicTest", b"", properties={"n": "\0"})).queue_offset == number


def test_a_log_open_for_reading_is_not_appended_to(tmp_path):
    CommitLog.open(tmp_path, mode="a", config=config_of()).close()
    with CommitLog.open(tmp_path) as log:
        for call in (lambda: log.append(message()), lambda: log.append_batch([]), log.flush):
            with pytest.raises(OSError, match="mode 'a'"):
                call()


@pytest.mark.parametrize("size", [0, 3000, 8192])
def test_a_log_with_a_file_of_another_length_is_not_appended_to(size, tmp_path):
    with CommitLog.open(tmp_path, mode="a", config=config_of()) as log:
        log.append(message())
    length = (tmp_path / f"{0:020}").stat().st_size
    path = tmp_path / f"{0:020}"
    os.truncate(path, size)
    with pytest.raises(StoreError, match=f"{path.name}: {size} bytes, not {length}: recover"):
        CommitLog.open(tmp_path, mode="a", mapped_file_size=length)
    assert path.stat().st_size == size


def test_a_log_that_ends_in_something_else_is_not_appended_to(tmp_path):
    with CommitLog.open(tmp_path, mode="a", config=config_of()) as log:
        log.append(message(), store_timestamp=BEGIN)
    path = tmp_path / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[RECORD + 50] = 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="recover"):
        CommitLog.open(tmp_path, mode="a", config=config_of())
    assert path.read_bytes() == data


# ---- queue offsets -----------------------------------------------------------------------------------------


class AskedQueues(FirstQueue):
    """Queues whose next offset is 40. Topic Bad has none."""

    def __init__(self):
        self.asked = []

    def find_queue_offset(self, topic, queue_id):
        self.asked.append((topic, queue_id))
        if topic == "Bad":
            raise ValueError("no such queue")
        return 40


def test_the_offset_of_a_queue_is_found_once(tmp_path):
    queues = AskedQueues()
    writer = LogWriter([tmp_path], config_of(allocate_file_ahead=False), 0, queues)
    other = Message("Other", b"", queue_id=3)
    assert put_together(writer, message(), other, message()).queue_offsets.tolist() == [40, 40, 41]
    assert put_together(writer, other, message()).queue_offsets.tolist() == [41, 42]
    assert writer.append(message(), BEGIN).queue_offset == 43
    assert queues.asked == [("T", 0), ("Other", 3)]
    writer.files.close()


def test_nothing_is_written_if_the_offset_of_a_queue_cannot_be_found(tmp_path):
    writer = LogWriter([tmp_path], config_of(allocate_file_ahead=False), 0, AskedQueues())
    bad = Message("Bad", b"", queue_id=0)
    with pytest.raises(ValueError, match="no such queue"):
        put_together(writer, message(), bad, message())
    with pytest.raises(ValueError, match="no such queue"):
        writer.append(bad, BEGIN)
    assert writer.files.phy_offset == 0
    assert put_together(writer, message()).queue_offsets.tolist() == [40]
    writer.files.close()

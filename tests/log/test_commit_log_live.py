"""A commit log that a broker writes while it is read: never half a message, and an end that only moves on."""

import contextlib
import mmap
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from reference.commit_log import make_commit_log, write_file
from reference.record import blank, build_record
from support.logs import offsets_of, rows_of

from rocketstore import CommitLog, CorruptFileError, MappedFile
from rocketstore.disk.file_run_reader import FileRunReader
from rocketstore.kernels.commit_log import OK, read_message

FILE = 4096


@pytest.fixture
def no_waiting(monkeypatch):
    """Look again at once where a reader waits for a broker that may be writing."""
    for module in ("log.scan", "log.commit_log"):
        monkeypatch.setattr(f"rocketstore.{module}.ATTEMPT_SECONDS", 0, raising=False)


class Writer:
    """A broker: files made ahead, full of zeros, and records put into a mapping from the first byte to the last."""

    def __init__(self, directory, file_size=FILE):
        self.directory, self.file_size = Path(directory), file_size
        self.start, self.end, self.written = -file_size, 0, []
        self.roll()

    def roll(self):
        self.start += self.file_size
        self.end = self.start
        for start in (self.start, self.start + self.file_size):
            if not (self.directory / f"{start:020d}").exists():
                write_file(self.directory, start, bytes(self.file_size))
        with (self.directory / f"{self.start:020d}").open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)

    def record(self, i, **fields):
        """The next record, after a blank and in another file if it does not fit in this."""
        body = fields.pop("body", b"message %d " % i * 4)
        fields = {"properties": {"KEYS": f"k{i}", "TAGS": "t" * 20}, **fields}
        record = build_record(body=body, phy_offset=self.end, queue_offset=i, **fields)
        if len(record) + 8 > self.file_size - (self.end - self.start):
            at = self.end - self.start
            self.map[at : at + 8] = blank(self.file_size - at)[:8]
            self.roll()
            record = build_record(body=body, phy_offset=self.end, queue_offset=i, **fields)
        return record

    def steps(self, record, size=1):
        """Write a record so many bytes at a time, and give control after each step until only zeros are left."""
        at = self.end - self.start
        for i in range(0, len(record), size):
            self.map[at + i : at + min(i + size, len(record))] = record[i : i + size]
            if any(record[i + size :]):
                yield i
        self.written.append(self.end)
        self.end += len(record)

    def append(self, record):
        for _ in self.steps(record, 1 << 30):
            pass


def no_message(log, offset):
    """Whether reading at an offset finds nothing, in any way of reading."""
    with pytest.raises((CorruptFileError, IndexError)):
        log.get_message(offset)
    with pytest.raises((CorruptFileError, IndexError)):
        log.get_messages([offset])
    return log.find_message(offset) is None


VARIANTS = [
    {},
    {"properties": {}},
    {"properties": b"KEYS\x01k"},
    {"body": b""},
    {"body": b"", "properties": {}},
    {"body": bytes(30)},
    {"store_host": "[fe80::1]:10911", "born_host": "[::1]:1"},
    {"topic": "t" * 130},
    {"append_prop_crc": True},
]


@pytest.mark.parametrize("fields", VARIANTS, ids=[", ".join(fields) or "plain" for fields in VARIANTS])
def test_a_record_is_not_seen_before_its_last_byte_is_there(fields, tmp_path, no_waiting):
    writer = Writer(tmp_path)
    with CommitLog.open(tmp_path) as log:
        for i in range(3):
            record = writer.record(i, **fields)
            for _ in writer.steps(record):
                assert log.max_phy_offset == writer.end
                assert no_message(log, writer.end)
            assert log.max_phy_offset == writer.end
            assert log.get_message(writer.written[-1]).size == len(record)
        assert offsets_of(log.scan()) == writer.written


@pytest.mark.parametrize("threads", [1, 2])
def test_a_scan_does_not_see_half_a_record(threads, tmp_path, no_waiting):
    writer = Writer(tmp_path)
    writer.append(writer.record(0))
    with CommitLog.open(tmp_path) as log:
        for i, fields in enumerate(VARIANTS):
            seen = list(writer.written)
            for _ in writer.steps(writer.record(i, **fields), 7):
                assert offsets_of(log.scan(columns=["phy_offset"], threads=threads)) == seen
            assert offsets_of(log.scan(columns=["phy_offset"], threads=threads)) == writer.written


def test_a_log_that_is_cut_off_before_its_first_record_has_no_last_one(tmp_path):
    writer = Writer(tmp_path)
    writer.append(writer.record(0))
    with CommitLog.open(tmp_path) as log:
        assert (log.max_phy_offset, log.last_phy_offset) == (writer.end, 0)
        writer.map[:FILE] = bytes(FILE)
        assert (log.max_phy_offset, log.last_phy_offset) == (0, None)


def test_the_end_moves_on_over_files_that_are_made_meanwhile(tmp_path):
    writer = Writer(tmp_path)
    with CommitLog.open(tmp_path) as log:
        assert log.max_phy_offset == 0
        for i in range(100):
            writer.append(writer.record(i))
            assert log.max_phy_offset == writer.end
            assert log.last_phy_offset == writer.written[-1]
            assert log.get_message(writer.written[-1]).keys == [f"k{i}"]
        assert writer.start > 3 * FILE
        assert offsets_of(log.scan()) == writer.written


def test_a_blank_moves_the_end_to_the_next_file(tmp_path):
    writer = Writer(tmp_path)
    writer.append(writer.record(0))
    with CommitLog.open(tmp_path) as log:
        assert log.max_phy_offset == writer.end
        at = writer.end
        writer.map[at : at + 8] = blank(FILE - at)[:8]
        assert log.max_phy_offset == FILE
        assert no_message(log, at)


def test_an_empty_directory_that_a_broker_begins_to_write_into(tmp_path):
    with CommitLog.open(tmp_path) as log:
        assert (log.max_phy_offset, list(log.scan())) == (0, [])
        writer = Writer(tmp_path)
        writer.append(writer.record(0))
        assert log.max_phy_offset == writer.end
        assert log.get_message(0).keys == ["k0"]
        assert offsets_of(log.scan()) == [0]


def listing_that_misses(hidden, times):
    """Return a stand-in for os.scandir that leaves out some names the first times, as if they were made meanwhile."""
    calls = []

    @contextlib.contextmanager
    def scandir(directory):
        calls.append(directory)
        names = hidden if len(calls) <= times else ()
        with os.scandir(directory) as entries:
            yield [entry for entry in entries if entry.name not in names]

    return scandir


def test_a_file_that_a_listing_misses_is_no_gap(tmp_path, monkeypatch):
    writer = Writer(tmp_path)
    while writer.start < 4 * FILE:
        writer.append(writer.record(len(writer.written)))
    for missed in range(1, 5):
        with monkeypatch.context() as patch:
            scandir = listing_that_misses([f"{missed * FILE:020}"], times=1)
            patch.setattr("rocketstore.disk.file_run_reader.scandir", scandir)
            with CommitLog.open(tmp_path) as log:
                assert offsets_of(log.scan()) == writer.written


def test_a_file_that_every_listing_misses_is_a_gap(tmp_path, monkeypatch, no_waiting):
    writer = Writer(tmp_path)
    while writer.start < 4 * FILE:
        writer.append(writer.record(len(writer.written)))
    (tmp_path / f"{FILE:020}").unlink()
    with CommitLog.open(tmp_path) as log, pytest.raises(CorruptFileError, match="a file is missing or was cut"):
        offsets_of(log.scan())


def test_files_that_are_newer_than_the_first_listing_wait_for_the_next(tmp_path, monkeypatch):
    """The second listing may have a gap of its own, among files that were made since the first."""
    writer = Writer(tmp_path)
    while writer.start < 5 * FILE:
        writer.append(writer.record(len(writer.written)))
    calls = []

    @contextlib.contextmanager
    def scandir(directory):
        calls.append(directory)
        shown = [(0, 2), (0, 1, 2, 4), (0, 1, 2, 3, 4, 5, 6)][min(len(calls), 3) - 1]
        with os.scandir(directory) as entries:
            yield [entry for entry in entries if int(entry.name) // FILE in shown]

    monkeypatch.setattr("rocketstore.disk.file_run_reader.scandir", scandir)
    file_run = FileRunReader([tmp_path])
    assert [file.file_from_offset // FILE for file in file_run.files] == [0, 1, 2]
    file_run.refresh()
    assert [file.file_from_offset // FILE for file in file_run.files] == [0, 1, 2, 3, 4, 5, 6]


def test_a_message_in_a_file_made_after_opening_is_found_by_offset(tmp_path):
    writer = Writer(tmp_path)
    with CommitLog.open(tmp_path) as log:
        for i in range(200):
            writer.append(writer.record(i))
        assert log.get_message(writer.written[-1]).keys == ["k199"]
        assert log.get_messages(writer.written[::-7]).phy_offset.tolist() == writer.written[::-7]


def test_a_file_that_grows_is_read_to_its_new_end(tmp_path):
    path = tmp_path / f"{0:020d}"
    path.write_bytes(build_record(phy_offset=0))
    with CommitLog.open(tmp_path, mapped_file_size=FILE) as log:
        written = [0]
        for _ in range(10):
            end = path.stat().st_size
            assert log.max_phy_offset == end
            assert offsets_of(log.scan()) == written
            with path.open("ab") as file:
                file.write(build_record(phy_offset=end))
            written.append(end)
            assert log.get_message(end).phy_offset == end


def test_the_oldest_file_can_be_deleted_while_the_log_is_read(tmp_path):
    writer = Writer(tmp_path)
    for i in range(150):
        writer.append(writer.record(i))
    end = writer.end
    with CommitLog.open(tmp_path) as log:
        batches = iter(log.scan(batch_size=5))
        first = next(batches)
        assert log.min_phy_offset == 0
        for start in (0, FILE):
            (tmp_path / f"{start:020d}").unlink()
            assert log.min_phy_offset == start + FILE
            assert log.max_phy_offset == end
            assert offsets_of(log.scan()) == [offset for offset in writer.written if offset >= start + FILE]
            with pytest.raises(IndexError):
                log.get_messages([start])
        assert first[0].phy_offset == 0
        assert [m.keys for m in log.get_messages(writer.written[-2:])] == [["k148"], ["k149"]]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_a_scan_continues_behind_files_that_expire_before_it_comes_to_them(on_corrupt, threads, tmp_path, no_waiting):
    writer = Writer(tmp_path)
    for i in range(150):
        writer.append(writer.record(i))
    with CommitLog.open(tmp_path) as log:
        scan = log.scan(batch_size=1, threads=threads, on_corrupt=on_corrupt)
        batches = iter(scan)
        found = offsets_of([next(batches)])
        for start in (0, FILE):
            (tmp_path / f"{start:020d}").unlink()
        found += offsets_of(batches)
        assert found == sorted(found)
        assert [offset for offset in found if offset >= 2 * FILE] == [at for at in writer.written if at >= 2 * FILE]
        assert set(found) <= set(writer.written)
        assert scan.skipped == []
        assert scan.has_expired == (found != writer.written)
        assert offsets_of(scan)
        assert not scan.has_expired


def test_every_file_can_be_deleted_and_the_log_begin_again_further_on(tmp_path):
    make_commit_log(tmp_path, FILE, [{}])
    with CommitLog.open(tmp_path) as log:
        end = log.max_phy_offset
        (tmp_path / f"{0:020d}").unlink()
        assert log.max_phy_offset == end
        offsets = make_commit_log(tmp_path, FILE, [{}], first_offset=9 * FILE)
        assert log.min_phy_offset == 9 * FILE
        assert offsets_of(log.scan()) == offsets
        assert log.max_phy_offset == offsets[-1] + end


def test_the_end_is_where_a_write_that_was_undone_began(tmp_path):
    offsets = make_commit_log(tmp_path, FILE, [{"body": bytes(50)}] * 9)
    path = tmp_path / f"{0:020d}"
    whole = path.read_bytes()
    with CommitLog.open(tmp_path) as log:
        log.max_phy_offset  # noqa: B018  which is looked for from where it was
        with path.open("r+b") as file:
            file.seek(offsets[5])
            file.write(bytes(FILE - offsets[5]))
        assert log.max_phy_offset == offsets[5]
        for body in (bytes(500), bytes(10)):
            record = build_record(body=body, phy_offset=offsets[5])
            path.write_bytes((whole[: offsets[5]] + record).ljust(FILE, b"\0"))
            assert log.max_phy_offset == offsets[5] + len(record)


WRITER = """
import random, sys, time
sys.path.insert(0, sys.argv[1])
from test_commit_log_live import Writer
writer = Writer(sys.argv[2], 1 << 15)
print("ready", flush=True)
random_, end = random.Random(int(sys.argv[3])), time.monotonic() + float(sys.argv[4])
i = 0
while time.monotonic() < end:
    record = writer.record(i, body=b"%d " % i * random_.randrange(1, 60))
    for _ in writer.steps(record, random_.choice([1, 3, 16, 1 << 30])):
        pass
    i += 1
    time.sleep(random_.choice([0, 0, 0.0005]))
print(*writer.written)
"""


def check_bodies(rows):
    for row in rows:
        number = row["keys"][0][1:].encode()
        assert set(row["body"].split()) == {number}
        assert row["queue_offset"] == int(number)
        assert row["tags"] == "t" * 20


def read_while(log, is_running):
    """Read in every way until the writer stops. Returns how often the end had moved."""
    columns = ["phy_offset", "queue_offset", "keys", "tags", "body"]
    place = moved = 0
    while is_running():
        end = log.max_phy_offset
        assert end >= place
        moved += end > place
        rows = rows_of(log.scan(place, columns=columns, threads=1 + moved % 2, verify_crc=True))
        check_bodies(rows)
        if rows:
            check_bodies(rows_of([log.get_messages([row["phy_offset"] for row in rows[::-1]], columns=columns)]))
        last = log.last_phy_offset
        if last is not None:
            message = log.get_message(last)
            assert last + message.size == end or end % (1 << 15) == 0
            check_bodies([{name: getattr(message, name) for name in columns}])
        place = end
    return moved


@pytest.mark.parametrize("seconds", [1.5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_log_that_another_process_writes_is_read_without_half_a_record(seconds, tmp_path, seed):
    arguments = [Path(__file__).parent, tmp_path, str(seed), str(seconds)]
    with subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        written = []
        waiter = threading.Thread(target=lambda: written.extend(map(int, writer.stdout.read().split())))
        waiter.start()
        with CommitLog.open(tmp_path) as log:
            moved = read_while(log, waiter.is_alive)
            waiter.join()
            assert offsets_of(log.scan(columns=["phy_offset"])) == written
            assert log.last_phy_offset in (None, *written)
            assert log.max_phy_offset == written[-1] + log.get_message(written[-1]).size
    assert writer.returncode == 0
    assert moved > 3


def test_readers_in_threads_see_whole_records_while_a_thread_writes(tmp_path, seed):
    writer = Writer(tmp_path, 1 << 15)
    stop = time.monotonic() + 1
    failures = []

    def write():
        random_ = random.Random(seed)
        for i in range(10**6):
            for _ in writer.steps(
                writer.record(i, body=b"%d " % i * random_.randrange(1, 60)), random_.choice([1, 16, 1 << 30])
            ):
                if time.monotonic() > stop + 5:
                    return
            if time.monotonic() > stop:
                return

    def read():
        try:
            with CommitLog.open(tmp_path) as log:
                read_while(log, thread.is_alive)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in (thread, *readers):
        each.start()
    for each in (thread, *readers):
        each.join()
    if failures:
        raise failures[0]
    with CommitLog.open(tmp_path) as log:
        assert offsets_of(log.scan()) == writer.written


TOGGLE = """
import mmap, sys, time
with open(sys.argv[1], "r+b") as file:
    data = mmap.mmap(file.fileno(), 0)
size, zeros, end = data[:4], bytes(4), time.monotonic() + float(sys.argv[2])
print("ready", flush=True)
while time.monotonic() < end:
    for _ in range(2000):
        data[:4] = zeros
        data[:4] = size
"""


@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_record_whose_size_comes_while_it_is_looked_at_is_not_taken_before_its_end_is_there(seconds, tmp_path):
    record = bytearray(build_record(topic="Topic", body=b"hello", properties={"KEYS": "abcdefgh"}))
    record[-14:] = bytes(14)  # the properties are not written yet
    path = tmp_path / f"{0:020}"
    write_file(tmp_path, 0, bytes(record).ljust(FILE, b"\0"))
    command = [sys.executable, "-c", TOGGLE, path, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        data = MappedFile(path)
        seen = set()
        while writer.poll() is None:
            seen.update(read_message(data.buffer, 0, 0)[0] for _ in range(1000))
        data.close()
    assert OK not in seen

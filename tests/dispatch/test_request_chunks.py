"""RequestChunks: the result is the same for all chunk sizes and numbers of threads."""

import errno
import random

import numpy as np
import pytest
from reference.commit_log import CommitLog as Reference
from reference.commit_log import build_record, make_commit_log, read_files
from support.rebuilt import CONFIG, FILE, KINDS, fields, make_log, records_in_bodies
from support.waiting import wait_for_no_thread

from rocketstore import CommitLog, CorruptFileError
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.kernels.dispatch import RequestScanner


def mixed(rng):
    """With records of a few bytes and of nearly a file."""
    rows = [fields(rng, i, body=rng.randbytes(rng.choice((0, 5, 150, 2000)))) for i in range(30)]
    return rows + KINDS["transactions"](rng)[:20] + KINDS["no_keys"](rng)[:20]


LOGS = {"mixed": mixed, "records in bodies": records_in_bodies, "late": KINDS["late_queues"]}


@pytest.fixture(params=LOGS)
def log(request, tmp_path, seed):
    rows = LOGS[request.param](random.Random(f"{seed} {request.param}"))
    make_log(tmp_path, rows, first_offset=FILE if request.param == "late" else 0)
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=FILE) as log:
        yield log


def read(log, size, threads=2, begin=None, end=None, **options):
    """The chunks, joined: rows of requests with the names of their queues, and items; the chunks follow each other."""
    begin = log.min_phy_offset if begin is None else begin
    end = log.max_phy_offset if end is None else end
    chunks = RequestChunks(log, CONFIG, begin, end, size=size, threads=threads, **options)
    requests, items, last, at = [], [], None, begin
    for chunk in chunks:
        assert chunk.begin == at
        assert chunk.end > at
        at = chunk.end
        requests += [(*row[:6], chunks.queues[row[6]], row[7]) for row in chunk.requests.tolist()]
        items += chunk.items.tolist()
        last = chunk.last or last
    assert at == end
    assert len(set(chunks.queues)) == len(chunks.queues)
    return requests, items, last


def one_chunk(log):
    """The same by one scanner, file by file."""
    scanner = RequestScanner(message_delay_level=CONFIG.message_delay_level, indexes_tags=True)
    end = log.max_phy_offset
    for file in log.file_run.files:
        if file.file_from_offset < end:
            scanner.scan(*log.file_run.read(file.file_from_offset, 1), file.file_from_offset, end)
    requests, items = scanner.take()
    rows = [(*row[:6], scanner.queues[row[6]], row[7]) for row in requests.tolist()]
    return rows, items.tolist(), (scanner.last_phy_offset, scanner.last_store_timestamp)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_all_sizes_give_the_same(log, threads, seed):
    whole = one_chunk(log)
    assert len(whole[0]) > 20
    sizes = random.Random(f"{seed} {threads}").sample(range(12, 400), 2)
    for size in (*sizes, 3 * threads, 1000, FILE - 1, FILE, 10**9):
        assert read(log, size, threads) == whole, size


@pytest.mark.parametrize("room", [1, 100, 1000])
def test_chunks_that_end_early_give_the_same(log, room):
    whole = one_chunk(log)
    for size in (100, 1000, FILE):
        assert read(log, size, room=room) == whole, size


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_every_size_gives_the_same(log, threads):
    whole = one_chunk(log)
    for size in range(1, FILE + 2, 5 if threads == 1 else 31):
        assert read(log, size, threads) == whole, size


def test_any_part_between_records(log, seed):
    rng = random.Random(seed)
    offsets = [offset for offset, _ in Reference(read_files(log.directories[0])).records]
    requests, items, _ = one_chunk(log)
    for _ in range(20):
        begin, end = sorted(rng.choices([*offsets, log.max_phy_offset], k=2))
        part = read(log, rng.randrange(1, 900), begin=begin, end=end)
        assert part[0] == [row for row in requests if begin <= row[0] < end]
        assert part[1] == [row for row in items if begin <= row[0] < end]


def test_an_empty_part_has_no_chunk(log):
    chunks = RequestChunks(log, CONFIG, log.max_phy_offset, log.max_phy_offset, size=10, threads=2)
    assert list(chunks) == []


@pytest.mark.parametrize("size", [50, 300, 10**6])
def test_damage_is_an_error_at_its_place_whatever_the_chunks(tmp_path, seed, size):
    rng = random.Random(seed)
    make_log(tmp_path, mixed(rng))
    reference = Reference(read_files(tmp_path / "commitlog"))
    offset, _ = rng.choice(reference.records[3:-3])
    path = tmp_path / "commitlog" / f"{offset // FILE * FILE:020}"
    data = bytearray(path.read_bytes())
    data[offset % FILE + 4] ^= 0xFF
    path.write_bytes(data)
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=FILE) as log:
        chunks = RequestChunks(log, CONFIG, 0, reference.max_offset, size=size, threads=2)
        with pytest.raises(CorruptFileError, match="salvage") as caught:
            list(chunks)
    assert (caught.value.path, caught.value.offset, caught.value.field) == (path, offset % FILE, "magic")


def test_a_hole_in_the_log_is_an_error_at_its_place(tmp_path, seed):
    make_log(tmp_path, mixed(random.Random(seed)))
    end = Reference(read_files(tmp_path / "commitlog")).max_offset
    (tmp_path / "commitlog" / f"{FILE:020}").unlink()
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=FILE) as log:
        chunks = RequestChunks(log, CONFIG, 0, end, size=500, threads=2)
        with pytest.raises(CorruptFileError, match="salvage") as caught:
            list(chunks)
    assert (caught.value.path, caught.value.offset) == (tmp_path / "commitlog", FILE)


def test_where_files_cannot_be_mapped_they_are_read(tmp_path, seed, monkeypatch):
    """Also a record that is longer than one read, and damage behind it."""
    rng = random.Random(seed)
    rows = [fields(rng, i, body=rng.randbytes(rng.choice((10, 100, 70_000)))) for i in range(40)]
    size = 1 << 20
    offsets = make_commit_log(tmp_path / "commitlog", size, rows)
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=size) as log:
        whole = one_chunk(log)

    def refused(*args, **options):
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr("rocketstore.disk.mapped_file.Mapping", refused)
    monkeypatch.setattr("rocketstore.dispatch.request_chunks.SPAN", 100)
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=size) as log:
        for chunk in (900, 10**6):
            assert read(log, chunk) == whole
        end = log.max_phy_offset
    path = tmp_path / "commitlog" / f"{offsets[-1] // size * size:020}"
    data = bytearray(path.read_bytes())
    data[offsets[-1] % size + 4] ^= 0xFF
    path.write_bytes(data)
    with (
        CommitLog.open(tmp_path / "commitlog", mapped_file_size=size) as log,
        pytest.raises(CorruptFileError) as caught,
    ):
        list(RequestChunks(log, CONFIG, 0, end, size=1000, threads=2))
    assert (caught.value.path, caught.value.offset) == (path, offsets[-1] % size)


def test_an_iteration_that_is_ended_leaves_no_thread(log):
    chunks = iter(RequestChunks(log, CONFIG, log.min_phy_offset, log.max_phy_offset, size=30, threads=4))
    next(chunks)
    chunks.close()
    wait_for_no_thread("rocketstore-requests")


def test_a_record_of_its_own_is_what_it_says(tmp_path):
    """Columns are what a broker dispatches of a record."""
    row = fields(random.Random(1), 0, queue_offset=77, queue_id=3, body=b"b")
    make_log(tmp_path, [row])
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=FILE) as log:
        chunks = RequestChunks(log, CONFIG, 0, log.max_phy_offset, size=10, threads=1)
        (chunk,) = chunks
    record = Reference(read_files(tmp_path / "commitlog")).records[0][1]
    assert chunks.queues == [(row["topic"], 3)]
    (request,) = chunk.requests.tolist()
    assert request[:6] == (0, record.tags_code, row["store_timestamp"], 77, len(build_record(**row)), 1)
    assert chunk.items["phy_offset"].tolist() == [0] * len(chunk.items)
    assert np.all(chunk.items["store_timestamp"] == row["store_timestamp"])

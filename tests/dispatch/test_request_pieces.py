"""RequestPieces: wherever a log is cut, and however many threads read it, all is as in one piece."""

import errno
import random
import threading

import numpy as np
import pytest
from reference.commit_log import CommitLog as Reference
from reference.commit_log import build_record, make_commit_log, read_files
from support.rebuilt import CONFIG, FILE, KINDS, fields, make_log, records_in_bodies

from rocketstore import CommitLog
from rocketstore.dispatch.request_pieces import RequestPieces
from rocketstore.errors import CorruptFileError
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
    """The pieces, joined: rows of requests with the names of their queues, and items; the pieces follow each other."""
    begin = log.min_phy_offset if begin is None else begin
    end = log.max_phy_offset if end is None else end
    pieces = RequestPieces(log, CONFIG, begin, end, size=size, threads=threads, **options)
    requests, items, last, at = [], [], None, begin
    for piece in pieces:
        assert piece.begin == at
        assert piece.end > at
        at = piece.end
        requests += [(*row[:6], pieces.queues[row[6]], row[7]) for row in piece.requests.tolist()]
        items += piece.items.tolist()
        last = piece.last or last
    assert at == end
    assert len(set(pieces.queues)) == len(pieces.queues)
    return requests, items, last


def one_piece(log):
    """The same by one scanner, file by file."""
    scanner = RequestScanner(message_delay_level=CONFIG.message_delay_level, indexes_tags=True)
    end = log.max_phy_offset
    for file in log.queue.files:
        if file.file_from_offset < end:
            scanner.scan(*log.queue.read(file.file_from_offset, 1), file.file_from_offset, end)
    requests, items = scanner.take()
    rows = [(*row[:6], scanner.queues[row[6]], row[7]) for row in requests.tolist()]
    return rows, items.tolist(), (scanner.last_phy_offset, scanner.last_store_timestamp)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_all_sizes_give_the_same(log, threads, seed):
    whole = one_piece(log)
    assert len(whole[0]) > 20
    sizes = random.Random(f"{seed} {threads}").sample(range(12, 400), 2)
    for size in (*sizes, 3 * threads, 1000, FILE - 1, FILE, 10**9):
        assert read(log, size, threads) == whole, size


@pytest.mark.parametrize("room", [1, 100, 1000])
def test_pieces_that_end_early_give_the_same(log, room):
    whole = one_piece(log)
    for size in (100, 1000, FILE):
        assert read(log, size, room=room) == whole, size


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_every_size_gives_the_same(log, threads):
    whole = one_piece(log)
    for size in range(1, FILE + 2, 5 if threads == 1 else 31):
        assert read(log, size, threads) == whole, size


def test_any_part_between_records(log, seed):
    rng = random.Random(seed)
    offsets = [offset for offset, _ in Reference(read_files(log.directories[0])).records]
    requests, items, _ = one_piece(log)
    for _ in range(20):
        begin, end = sorted(rng.choices([*offsets, log.max_phy_offset], k=2))
        part = read(log, rng.randrange(1, 900), begin=begin, end=end)
        assert part[0] == [row for row in requests if begin <= row[0] < end]
        assert part[1] == [row for row in items if begin <= row[0] < end]


def test_nothing_is_no_piece(log):
    pieces = RequestPieces(log, CONFIG, log.max_phy_offset, log.max_phy_offset, size=10, threads=2)
    assert list(pieces) == []


@pytest.mark.parametrize("size", [50, 300, 10**6])
def test_damage_is_an_error_at_its_place_whatever_the_pieces(tmp_path, seed, size):
    rng = random.Random(seed)
    make_log(tmp_path, mixed(rng))
    reference = Reference(read_files(tmp_path / "commitlog"))
    offset, _ = rng.choice(reference.records[3:-3])
    path = tmp_path / "commitlog" / f"{offset // FILE * FILE:020}"
    data = bytearray(path.read_bytes())
    data[offset % FILE + 4] ^= 0xFF
    path.write_bytes(data)
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=FILE) as log:
        pieces = RequestPieces(log, CONFIG, 0, reference.max_offset, size=size, threads=2)
        with pytest.raises(CorruptFileError, match="salvage") as caught:
            list(pieces)
    assert (caught.value.path, caught.value.offset, caught.value.field) == (path, offset % FILE, "magic")


def test_a_hole_in_the_log_is_an_error_at_its_place(tmp_path, seed):
    make_log(tmp_path, mixed(random.Random(seed)))
    end = Reference(read_files(tmp_path / "commitlog")).max_offset
    (tmp_path / "commitlog" / f"{FILE:020}").unlink()
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=FILE) as log:
        pieces = RequestPieces(log, CONFIG, 0, end, size=500, threads=2)
        with pytest.raises(CorruptFileError, match="salvage") as caught:
            list(pieces)
    assert (caught.value.path, caught.value.offset) == (tmp_path / "commitlog", FILE)


def test_where_files_cannot_be_mapped_they_are_read(tmp_path, seed, monkeypatch):
    """Also a record that is longer than what is read at once, and damage behind it."""
    rng = random.Random(seed)
    rows = [fields(rng, i, body=rng.randbytes(rng.choice((10, 100, 70_000)))) for i in range(40)]
    size = 1 << 20
    offsets = make_commit_log(tmp_path / "commitlog", size, rows)
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=size) as log:
        whole = one_piece(log)

    def refused(*args, **options):
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr("rocketstore.disk.mapped_file.Mapping", refused)
    monkeypatch.setattr("rocketstore.dispatch.request_pieces.SPAN", 100)
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=size) as log:
        for piece in (900, 10**6):
            assert read(log, piece) == whole
        end = log.max_phy_offset
    path = tmp_path / "commitlog" / f"{offsets[-1] // size * size:020}"
    data = bytearray(path.read_bytes())
    data[offsets[-1] % size + 4] ^= 0xFF
    path.write_bytes(data)
    with (
        CommitLog.open(tmp_path / "commitlog", mapped_file_size=size) as log,
        pytest.raises(CorruptFileError) as caught,
    ):
        list(RequestPieces(log, CONFIG, 0, end, size=1000, threads=2))
    assert (caught.value.path, caught.value.offset) == (path, offsets[-1] % size)


def test_an_iteration_that_is_ended_leaves_no_thread(log):
    pieces = iter(RequestPieces(log, CONFIG, log.min_phy_offset, log.max_phy_offset, size=30, threads=4))
    next(pieces)
    pieces.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rocketstore-requests")]


def test_a_record_of_its_own_is_what_it_says(tmp_path):
    """Columns are what a broker dispatches of a record."""
    row = fields(random.Random(1), 0, queue_offset=77, queue_id=3, body=b"b")
    make_log(tmp_path, [row])
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=FILE) as log:
        pieces = RequestPieces(log, CONFIG, 0, log.max_phy_offset, size=10, threads=1)
        (piece,) = pieces
    record = Reference(read_files(tmp_path / "commitlog")).records[0][1]
    assert pieces.queues == [(row["topic"], 3)]
    (request,) = piece.requests.tolist()
    assert request[:6] == (0, record.tags_code, row["store_timestamp"], 77, len(build_record(**row)), 1)
    assert piece.items["phy_offset"].tolist() == [0] * len(piece.items)
    assert np.all(piece.items["store_timestamp"] == row["store_timestamp"])

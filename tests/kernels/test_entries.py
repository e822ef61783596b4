"""The kernels step over the heads of DLedger's entries."""

import struct

import numpy as np
import pytest
from reference.dledger import HEAD, build_entry, make_dledger, walk_entries

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import BLANK, END, OK, RecordScanner, bad_reason, find_record, read_message
from rocketstore.kernels.dispatch import RequestScanner
from rocketstore.kernels.verify import BAD_ENTRY_HEAD, ENTRY_ORDER, LogChecker

SIZE = 4096
RECORDS = [
    {"topic": "T", "body": b"x" * (7 * i), "properties": {"KEYS": f"k{i}", "UNIQ_KEY": f"u{i}"}} for i in range(12)
]


@pytest.fixture
def data(tmp_path):
    make_dledger(tmp_path, SIZE, RECORDS, first_offset=SIZE)
    return bytearray((tmp_path / "data" / f"{SIZE:020}").read_bytes())


@pytest.fixture
def entries(data):
    return list(walk_entries(bytes(data), SIZE))


def scan(data, offset=SIZE, end=2 * SIZE, **options):
    scanner = RecordScanner(["phy_offset", "size"], framing=HEAD)
    result = scanner.scan(Buffer(bytes(data)), SIZE, offset, end, **options)
    return np.asarray(scanner.take()["phy_offset"], np.int64).tolist(), *result


def end_of(entry):
    return entry.pos + HEAD + len(entry.record)


def test_a_scan_finds_the_record_of_each_entry(data, entries):
    found, stop, status = scan(data)
    assert found == [entry.pos + HEAD for entry in entries]
    assert len(found) == len(RECORDS)
    assert (stop, status) == (end_of(entries[-1]), END)


def test_a_scan_begins_at_an_entry_or_at_the_record_in_it(data, entries):
    wanted = [entry.pos + HEAD for entry in entries[3:]]
    assert scan(data, entries[3].pos)[0] == scan(data, entries[3].pos + HEAD)[0] == wanted
    assert scan(data, entries[3].pos, entries[4].pos)[0] == wanted[:1]


@pytest.mark.parametrize(("size", "status"), [(SIZE, BLANK), (8, None)])
def test_a_blank_of_an_entry_fills_its_file(data, entries, size, status):
    at = end_of(entries[-1]) - SIZE
    data[at : at + 8] = struct.pack(">ii", -1, size - at if size == SIZE else size)
    _, stop, found = scan(data)
    assert stop == SIZE + at
    assert found == status if status is not None else bad_reason(found)[0] == "size"


@pytest.mark.parametrize("place", [0, 4, 24, 44])
def test_a_head_that_does_not_fit_is_reported_and_its_record_found(data, entries, place):
    data[entries[5].pos - SIZE + place] ^= 0x40
    found, stop, status = scan(data)
    assert (len(found), stop) == (5, entries[5].pos)
    assert status not in (OK, END, BLANK)
    assert find_record(Buffer(bytes(data)), SIZE, stop + 1, 2 * SIZE, framing=HEAD) == entries[5].pos + HEAD
    assert len(scan(data, entries[5].pos + HEAD)[0]) == len(RECORDS) - 5


def test_a_search_finds_where_entries_begin(data, entries):
    buffer = Buffer(bytes(data))
    begins = [entry.pos for entry in entries]
    for offset in range(SIZE, end_of(entries[2])):
        wanted = next(begin for begin in begins if begin >= offset)
        assert find_record(buffer, SIZE, offset, 2 * SIZE, framing=HEAD) == wanted
        assert find_record(buffer, SIZE, offset, wanted, framing=HEAD) is None
        assert find_record(buffer, SIZE, offset, wanted + 1, framing=HEAD) == wanted


def test_one_record_is_read_at_its_own_offset_only(data, entries):
    buffer = Buffer(bytes(data))
    assert read_message(buffer, SIZE, entries[4].pos + HEAD)[1]["phy_offset"] == entries[4].pos + HEAD
    assert read_message(buffer, SIZE, entries[4].pos)[1] is None


def test_requests_lead_to_records(data, entries):
    scanner = RequestScanner(message_delay_level="1s", indexes_tags=False, framing=HEAD)
    assert scanner.scan(Buffer(bytes(data)), SIZE, SIZE, end_of(entries[-1])) == end_of(entries[-1])
    requests = scanner.take()[0]
    assert requests["phy_offset"].tolist() == [entry.pos + HEAD for entry in entries]
    assert requests["size"].tolist() == [len(entry.record) for entry in entries]
    data[entries[5].pos - SIZE] = 7
    with pytest.raises(CorruptFileError):
        scanner.scan(Buffer(bytes(data)), SIZE, SIZE, 2 * SIZE)


def check(data):
    checker = LogChecker(framing=HEAD)
    result = checker.scan(Buffer(bytes(data)), SIZE, SIZE, 2 * SIZE)
    return checker, result


def test_the_check_of_a_sound_log_finds_nothing(data, entries):
    checker, result = check(data)
    assert (checker.faults_found(), checker.n_records, result) == ({}, len(RECORDS), (end_of(entries[-1]), END))
    assert (checker.first_entry, checker.last_entry) == ((0, 0), (len(RECORDS) - 1, 0))


@pytest.mark.parametrize(("place", "kind"), [(4, BAD_ENTRY_HEAD), (31, BAD_ENTRY_HEAD), (44, BAD_ENTRY_HEAD)])
def test_the_check_goes_on_behind_a_bad_head(data, entries, place, kind):
    data[entries[5].pos - SIZE + place] ^= 0x10
    checker, _ = check(data)
    assert checker.n_records == len(RECORDS)
    assert checker.faults_found() == {kind: (1, [entries[5].pos])}


@pytest.mark.parametrize(("index", "term", "wrong"), [(9, 0, 2), (5, 3, 1), (5, -1, 1)])
def test_the_check_compares_indexes_and_terms(data, entries, index, term, wrong):
    entry = entries[5]
    made = build_entry(entry.record, entry.pos, index, term)
    data[entry.pos - SIZE : entry.pos - SIZE + len(made)] = made
    assert check(data)[0].faults_found()[ENTRY_ORDER][0] == wrong


@pytest.mark.parametrize("framing", [1, -48, 47])
def test_another_framing_is_refused(framing):
    with pytest.raises(ValueError, match="framing"):
        RecordScanner(["size"], framing=framing)
    with pytest.raises(ValueError, match="framing"):
        find_record(Buffer(b"12345678"), 0, 0, 8, framing=framing)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bits_and_cuts_end_in_a_status(data, seed):
    random = np.random.default_rng(seed)
    hostile = np.frombuffer(bytes(data), np.uint8).copy()
    for at in random.integers(0, 2000, 40):
        hostile[at] ^= 1 << random.integers(8)
    for cut in (SIZE, *random.integers(0, 2000, 8)):
        part = hostile[: int(cut)].tobytes()
        place, status = SIZE, OK
        scanner = RecordScanner(["phy_offset", "raw_body"], framing=HEAD)
        while place is not None and part:
            place, status = scanner.scan(Buffer(part), SIZE, place, SIZE + len(part))
            assert SIZE <= place <= SIZE + len(part)
            assert bad_reason(status)
            place = find_record(Buffer(part), SIZE, place + 1, SIZE + len(part), framing=HEAD)
        if part:
            LogChecker(framing=HEAD).scan(Buffer(part), SIZE, SIZE, SIZE + len(part))

"""A scan of DLedger's log, against a scan of the same records in a log of plain files."""

import shutil
import struct
import time

import pytest
from conftest import record

import rocketstore
from rocketstore import Message, StoreConfig

BYTES = 100 << 20  # of bodies
FILE_SIZE = 1 << 28
ROUNDS = 9
HEAD = struct.Struct(">iiqqqiiii")
PHY_OFFSET = 28  # its place in a record
COLUMNS = {"without bodies": ["phy_offset", "queue_offset", "store_timestamp"], "all columns": None}


def write_entries(source, target):
    """Write the records of a log file as entries of DLedger's log, which has no other file."""
    pos = at = index = 0
    target.parent.mkdir(parents=True)
    with target.open("wb") as file:
        while (size := int.from_bytes(source[at : at + 4], "big")) > 0:
            body = bytearray(source[at : at + size])
            body[PHY_OFFSET : PHY_OFFSET + 8] = (pos + HEAD.size).to_bytes(8, "big")
            file.write(HEAD.pack(1, size + HEAD.size, index, 0, pos, 0, 0, 0, size) + body)
            pos, at, index = pos + size + HEAD.size, at + size, index + 1
        file.truncate(FILE_SIZE)


@pytest.fixture(scope="module", params=[100, 1024], ids="body-{}".format)
def stores(request, scratch):
    """A store of plain files, one of the same messages whose log is DLedger's, their number and the bytes of a body."""
    plain, dledger, count = scratch / "plain", scratch / "dledger", BYTES // request.param
    with rocketstore.open(plain, "a", config=StoreConfig(mapped_file_size_commit_log=FILE_SIZE)) as store:
        for first in range(0, count, 10_000):
            numbers = range(first, min(first + 10_000, count))
            store.put_messages([Message("T", bytes(request.param), keys=[f"k{n}"]) for n in numbers])
    write_entries((plain / "commitlog" / f"{0:020}").read_bytes(), dledger / "dledger-n0" / "data" / f"{0:020}")
    yield plain, dledger, count, request.param
    for path in (plain, dledger):
        shutil.rmtree(path)


@pytest.mark.parametrize("columns", COLUMNS)
def test_dledger_scan(benchmark, stores, columns):
    plain, dledger, count, body = stores

    def scan(store):
        assert sum(map(len, store.scan(columns=COLUMNS[columns]))) == count

    with rocketstore.open(plain) as theirs, rocketstore.open(dledger) as ours:
        seconds = {theirs: [], ours: []}
        for _ in range(ROUNDS):
            for store, taken in seconds.items():
                start = time.perf_counter()
                scan(store)
                taken.append(time.perf_counter() - start)
        ratios = [a / b for a, b in zip(*seconds.values(), strict=True)]
        each = [sorted(seconds[store])[ROUNDS // 2] / count * 1e9 for store in (ours, theirs)]
        name = f"DLedger: scan, {body} B bodies, {columns}"
        record(name, each[0], "a log of plain files", each[1], ratios, goal=0.95)
        benchmark.pedantic(lambda: scan(ours), rounds=1)

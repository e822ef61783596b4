"""Other ways from a key to an offset, on the same 5,000,000 pairs and the same lookups. All but ours compare keys."""

import statistics
import time

import numpy as np
import pyarrow as pa
import pytest
from conftest import KEYS, record
from keys import TOPIC, arrow_keys, lookup_numbers

from rocketstore import IndexFile, hash_keys

PAIRS = min(5_000_000, KEYS)
LOOKUPS = 1_000_000
ROUNDS = 3

pytestmark = pytest.mark.usefixtures("benchmark")


@pytest.fixture(scope="module")
def pairs_of_5m():
    return arrow_keys(np.arange(PAIRS)), np.arange(PAIRS, dtype=np.int64) * 1200


@pytest.fixture(scope="module")
def queries():
    numbers = lookup_numbers(LOOKUPS, 11, PAIRS)
    return arrow_keys(numbers), numbers.astype(np.int64) * 1200


@pytest.fixture(scope="module")
def ours(pairs_of_5m, scratch):
    keys, offsets = pairs_of_5m
    with IndexFile.create(scratch / "50000000000000000") as file:
        start = time.perf_counter()
        file.put_keys(keys, offsets, np.full(PAIRS, 1_700_000_000_000), topic=TOPIC)
        built = time.perf_counter() - start
        yield file, built


def compare(name, benchmark, build_seconds, lookup, ours, queries):
    """Check a peer's answers, then time its lookups and ours in turn."""
    keys, expected = queries
    file, our_build = ours
    assert np.array_equal(np.asarray(lookup()), expected)
    theirs, us = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        lookup()
        middle = time.perf_counter()
        file.select_phy_offsets(keys, topic=TOPIC)
        theirs.append(middle - start)
        us.append(time.perf_counter() - middle)
    record("5M pairs: build", our_build / PAIRS * 1e9, name, build_seconds / PAIRS * 1e9, [build_seconds / our_build])
    record(
        "5M pairs: lookup",
        statistics.median(us) / LOOKUPS * 1e9,
        name,
        statistics.median(theirs) / LOOKUPS * 1e9,
        [a / b for a, b in zip(theirs, us, strict=True)],
    )
    benchmark.pedantic(lambda: file.select_phy_offsets(keys, topic=TOPIC), rounds=1)


def test_dict(benchmark, pairs_of_5m, ours, queries):
    strings, asked = pairs_of_5m[0].to_pylist(), queries[0].to_pylist()
    start = time.perf_counter()
    table = dict(zip(strings, pairs_of_5m[1].tolist(), strict=True))
    built = time.perf_counter() - start
    compare("dict", benchmark, built, lambda: [table[key] for key in asked], ours, queries)


def test_numpy_searchsorted(benchmark, pairs_of_5m, ours, queries):
    """By hash, as ours; the few keys of equal hash are told apart by nobody, so only the rest is compared."""
    keys, offsets = pairs_of_5m
    start = time.perf_counter()
    hashes = hash_keys(keys, topic=TOPIC)
    order = np.argsort(hashes, kind="stable")
    table = hashes[order]
    built = time.perf_counter() - start

    def lookup():
        found = offsets[order[np.searchsorted(table, hash_keys(queries[0], topic=TOPIC))]]
        wrong = found != queries[1]
        assert wrong.mean() < 0.01
        return np.where(wrong, queries[1], found)

    compare("NumPy searchsorted", benchmark, built, lookup, ours, queries)


def test_lmdb(benchmark, pairs_of_5m, ours, queries, scratch):
    lmdb = pytest.importorskip("lmdb", reason="needs lmdb: the dependency group bench")
    keys = [key.encode() for key in pairs_of_5m[0].to_pylist()]
    asked = [key.encode() for key in queries[0].to_pylist()]
    environment = lmdb.open(str(scratch / "lmdb"), map_size=4 << 30, sync=False)
    start = time.perf_counter()
    with environment.begin(write=True) as transaction:
        cursor = transaction.cursor()
        cursor.putmulti(zip(keys, (offset.to_bytes(8, "big") for offset in pairs_of_5m[1].tolist()), strict=True))
    built = time.perf_counter() - start

    def lookup():
        with environment.begin() as transaction:
            return [int.from_bytes(transaction.get(key), "big") for key in asked]

    compare("LMDB", benchmark, built, lookup, ours, queries)
    environment.close()


def test_duckdb(benchmark, pairs_of_5m, ours, queries, scratch):
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb: the dependency group bench")
    database = duckdb.connect(str(scratch / "duck.db"), config={"threads": 1})
    table = pa.table({"key": pairs_of_5m[0], "phy": pairs_of_5m[1]})
    asked = pa.table({"key": queries[0], "row": np.arange(LOOKUPS)})
    start = time.perf_counter()
    database.register("given", table)
    database.execute("create table pairs as select * from given")
    built = time.perf_counter() - start
    database.register("asked", asked)

    def lookup():
        rows = database.execute("select row, phy from asked join pairs using (key)").fetchnumpy()
        return rows["phy"][np.argsort(rows["row"])]

    compare("DuckDB join", benchmark, built, lookup, ours, queries)
    database.close()

"""The index that Spark builds of a store's log, against the one that rebuild does."""

import dataclasses
import random
import shutil
from itertools import product

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from reference.commit_log import CommitLog as Reference
from reference.commit_log import read_files
from support.puts import files_under
from support.rebuilt import (
    CONFIG,
    FILE,
    KINDS,
    batches_of,
    make_log,
    of_batches,
    options_of,
    rebuilt_beside,
    records_in_bodies,
)
from support.repetitions import only_some_quick
from support.stores import NAMES, settings, unpack

import rocketstore
from rocketstore import CommitLog, CorruptFileError, StoreConfig, StoreLockedError
from rocketstore.log.join_chunks import join_chunks
from rocketstore.spark import build_index
from rocketstore.spark.build import index_files, splits
from rocketstore.spark.build.build_index import ItemRun, count_items, scan_items, spanned, spill_items
from rocketstore.spark.build.spill import Slice, read_entries, slices_of
from rocketstore.spark.build.splits import LogReader, plan_splits
from rocketstore.state.lock_file import StoreLock

pytestmark = pytest.mark.spark

MODES = ("rescan", "spill")


@pytest.fixture(autouse=True)
def small_splits(monkeypatch):
    """So that small logs are read in several tasks, and in many pieces."""
    monkeypatch.setattr(splits, "MIN_SPLIT", 5000)
    monkeypatch.setattr(splits, "SPLITS", 3)
    monkeypatch.setattr(LogReader.__new__, "__defaults__", (700,))


@pytest.fixture
def store(tmp_path, seed):
    """A store of a log alone, of ordinary messages."""
    return make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))


def serial(root, config=CONFIG, tz="UTC"):
    """The index that rebuild makes, by name."""
    out = rebuilt_beside(root, config, consume_queue=False, tz=tz)
    return {path.name: path.read_bytes() for path in (out / "index").iterdir()}


def built(spark, root, config=CONFIG, tz="UTC", **options):
    out = root.with_name(f"{root.name}-built")
    report = build_index(spark, str(root), out, config=config, tz=tz, **options)
    found = {path.name: path.read_bytes() for path in out.iterdir()}
    assert [path.name for path in report.files] == sorted(found)
    shutil.rmtree(out)
    return found, report


# ---- same bytes --------------------------------------------------------------------------------------------


QUICK_KINDS = "keys_that_fill_a_file", "inner_batches"


@pytest.mark.parametrize("name", only_some_quick([*KINDS], *QUICK_KINDS))
def test_a_log_of_each_kind_of_record(spark, tmp_path, seed, name):
    config = dataclasses.replace(CONFIG, **options_of(name))
    root = make_log(tmp_path / "store", KINDS[name](random.Random(f"{seed} {name}")))
    of_batches(root, dict.fromkeys(batches_of(name), "BatchCQ"))
    found, report = built(spark, root, config, mode=random.Random(f"{seed} {name} mode").choice(MODES))
    assert found == serial(root, config)
    assert report.items == sum(max(int.from_bytes(data[36:40], "big") - 1, 0) for data in found.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "store-serial"]


@pytest.mark.parametrize(
    ("release", "mode"),
    only_some_quick([*product(["5.5.1", "5.3.3", "4.7.0"], MODES)], ("5.5.1", "spill"), ("4.7.0", "rescan")),
)
def test_as_each_release_builds_it(spark, tmp_path, seed, release, mode):
    rng = random.Random(f"{seed} {release}")
    rows = KINDS["plain"](rng) + KINDS["transactions"](rng) + KINDS["many_keys"](rng) + KINDS["no_keys"](rng)
    config = dataclasses.replace(CONFIG, compat=release)
    root = make_log(tmp_path / "store", rows, first_offset=3 * FILE)
    found, _ = built(spark, root, config, mode=mode)
    assert found == serial(root, config)
    assert len(found) > 3


def test_names_are_of_the_zone(spark, store):
    zones = [tuple(sorted(built(spark, store, tz=tz)[0])) for tz in ("UTC", "Asia/Shanghai", None)]
    assert zones == [tuple(sorted(serial(store, tz=tz))) for tz in ("UTC", "Asia/Shanghai", None)]
    assert zones[0] != zones[1]


# Formats of one release: what differs between releases is tested without Spark, by the serial build.
QUICK_STORES = "batch-5.5.0", "crash-5.5.0"


@pytest.mark.parametrize("name", only_some_quick(NAMES, *QUICK_STORES))
def test_golden_stores(spark, tmp_path, name):
    root = unpack(name, tmp_path)
    known = {field.name for field in dataclasses.fields(StoreConfig)}
    config = StoreConfig(**{key: value for key, value in settings(name).items() if key in known})
    try:
        expected = serial(root, config)
    except (CorruptFileError, ValueError) as error:
        with pytest.raises(type(error)):
            built(spark, root, config)
        return
    assert built(spark, root, config, mode=MODES[NAMES.index(name) % 2])[0] == expected


def test_an_empty_log(spark, tmp_path):
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    found, report = built(spark, tmp_path / "store")
    assert found == {}
    assert (report.files, report.items) == ([], 0)


def test_the_store_is_only_read(spark, store):
    before = files_under(store, ".")
    built(spark, store)
    assert files_under(store, ".") == before


# ---- splits ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "in bodies"])
def log(request, tmp_path, seed):
    rng = random.Random(seed)
    rows = KINDS["plain"](rng) if request.param == "plain" else records_in_bodies(rng)
    make_log(tmp_path, rows, first_offset=2 * FILE if request.param == "plain" else 0)
    with CommitLog.open(tmp_path / "commitlog", mapped_file_size=FILE) as log:
        yield log


def reader_of(log, piece=700):
    return LogReader(log, CONFIG, log.min_phy_offset, log.max_phy_offset, piece)


def items_of(log):
    (run,) = [*spill_items(reader_of(log).chunks(log.min_phy_offset, log.max_phy_offset), log.directories[0] / "all")]
    (entries,) = read_entries([Slice(run, 0, run.items)])
    return entries.tolist()


@pytest.mark.parametrize("size", [97, 130, 1000, FILE - 1, FILE, 5 * FILE])
def test_splits_of_any_size_make_one_log(log, tmp_path, monkeypatch, size):
    monkeypatch.setattr(splits, "MIN_SPLIT", size)
    monkeypatch.setattr(splits, "SPLITS", 10**9)
    reader = reader_of(log)
    cuts = plan_splits(reader)
    assert [cuts[0][0], cuts[-1][1]] == [reader.begin, reader.end]
    assert all(begin < stop for begin, stop in cuts)
    assert size != FILE or all(begin % FILE == 0 for begin, _ in cuts)
    again = []

    def read(begin, stop):
        again.append(begin)
        return count_items(reader.chunks(begin, stop))

    rows = []
    for begin, stop in cuts:
        first = reader.log.reader.first_record(begin, stop)
        if first is not None:
            try:
                rows += count_items(reader.chunks(first, stop))
            except CorruptFileError:
                continue
    whole = list(join_chunks(reader.begin, reader.end, rows, read))
    assert [run.begin for run in whole] == [reader.begin, *(run.end for run in whole[:-1])]
    assert whole[-1].end == reader.end
    expected = items_of(log)
    assert sum(run.items for run in whole) == len(expected)
    assert size > 100 or again
    for slices in slices_of(whole, [(0, len(expected)), (5, 6), (7, 31), (len(expected) - 1, len(expected))]):
        found = [row for items in scan_items(reader, slices) for row in items.tolist()]
        start = sum(run.items for run in whole[: whole.index(slices[0].run)]) + slices[0].start
        count = sum(stop - begin for _, begin, stop in slices)
        assert [(key_hash, phy, time) for phy, time, key_hash, _ in found] == expected[start : start + count]
        (one,) = spanned(slices)
        assert one.stop - one.start == count
        assert [row for items in scan_items(reader, [one]) for row in items.tolist()] == found


def test_what_the_tasks_of_a_rescan_get_does_not_grow_with_the_log():
    runs = [ItemRun(i << 24, (i + 1) << 24, 90_000, i << 24, i << 24, "", 0) for i in range(2000)]
    plans = index_files.plan_files(runs, 19_999_999)
    assert [len(spanned(plan)) for plan in plans] == [1] * 10
    assert spanned([]) == []


def test_a_hole_in_the_log_is_an_error_at_its_place(spark, store):
    (store / "commitlog" / f"{FILE:020}").unlink()
    with pytest.raises(CorruptFileError, match="salvage") as caught:
        build_index(spark, store, store.with_name("out"), config=CONFIG)
    assert (caught.value.path, caught.value.offset) == (store / "commitlog", FILE)
    assert list(store.parent.iterdir()) == [store]


@pytest.mark.parametrize("mode", MODES)
def test_damage_is_an_error_at_its_place(spark, store, seed, mode):
    rng = random.Random(seed)
    offset, _ = rng.choice(Reference(read_files(store / "commitlog")).records[3:-30])
    path = store / "commitlog" / f"{offset // FILE * FILE:020}"
    data = bytearray(path.read_bytes())
    data[offset % FILE + 4] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="salvage") as caught:
        build_index(spark, store, store.with_name("out"), mode=mode, config=CONFIG)
    assert (caught.value.path, caught.value.offset, caught.value.field) == (path, offset % FILE, "magic")
    assert list(store.parent.iterdir()) == [store]


def test_rows_that_do_not_begin_where_others_end_are_read_again():
    def row(begin, end):
        return ItemRun(begin, end, 0, -1, -1, "", 0)

    read = []
    rows = [row(0, 10), row(12, 30), row(30, 40), row(35, 60), row(70, 90)]
    whole = join_chunks(0, 100, rows, lambda begin, stop: read.append((begin, stop)) or [row(begin, stop + 5)])
    assert [run[:2] for run in whole] == [(0, 10), (10, 17), (17, 35), (35, 60), (60, 75), (75, 105)]
    assert read == [(10, 12), (17, 30), (60, 70), (75, 100)]


def test_sizes_that_another_command_was_given_once_are_used(spark, store):
    with pytest.raises(ValueError, match="no file shows max_hash_slot_num, max_index_num; "):
        build_index(spark, store, store.with_name("out"))
    rocketstore.rebuild(store, consume_queue=False, config=CONFIG)
    shutil.rmtree(store / "index")
    assert built(spark, store, config=None)[0] == serial(store)


# ---- refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "shuffle"}, "mode='shuffle'"),
        ({"tz": "Mars/Olympus"}, "tz='Mars/Olympus'"),
        ({"config": StoreConfig(mapped_file_size_commit_log=FILE)}, "no file shows max_hash_slot_num, max_index_num; "),
        ({"config": dataclasses.replace(CONFIG, message_index_enable=False)}, "message_index_enable is false"),
    ],
)
def test_options_that_cannot_be_are_refused_before_any_job(spark, store, options, message):
    with pytest.raises(ValueError, match=message):
        build_index(spark, store, store.with_name("out"), **{"config": CONFIG, **options})
    assert list(store.parent.iterdir()) == [store]


def test_a_store_that_is_being_written_and_an_out_that_is_there_are_refused(spark, store):
    lock = StoreLock(store / "lock")
    lock.acquire()
    try:
        with pytest.raises(StoreLockedError, match="is being written"):
            build_index(spark, store, store.with_name("out"), config=CONFIG)
    finally:
        lock.release()
    with pytest.raises(FileExistsError):
        build_index(spark, store, store, config=CONFIG)


# ---- failed attempts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_fails_leaves_nothing(spark, store, monkeypatch, mode):
    scratch = store.with_name("scratch")
    monkeypatch.setattr(index_files, "run_all", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_index(spark, store, store.with_name("out"), mode=mode, scratch=scratch, config=CONFIG)
    assert sorted(path.name for path in store.parent.rglob("*") if store not in path.parents) == ["scratch", "store"]

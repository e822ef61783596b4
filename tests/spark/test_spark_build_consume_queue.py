"""The consume queues that Spark builds of a store's log, against those that rebuild does."""

import dataclasses
import itertools
import os
import random
import shutil
import struct
import subprocess
import sys

import pytest
from support.profiles import SEVERAL_FILES

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pandas as pd
from pyspark import cloudpickle
from support.deleted import LIVE, OLD, put, store_with_deleted_topic
from support.puts import files_under
from support.rebuilt import (
    CONFIG,
    FILE,
    KINDS,
    QUEUE_PARTS,
    batches_of,
    fields,
    make_log,
    of_batches,
    options_of,
    rebuilt_beside,
)
from support.repetitions import only_some_quick
from support.spark_reads import environment_of_classic
from support.stores import NAMES, settings, unpack

from rocketstore import CommitLog, CorruptFileError, StoreConfig, StoreLockedError, rebuild
from rocketstore.rebuild.build import Build
from rocketstore.rebuild.rebuild import Rebuilder, RebuildOptions
from rocketstore.spark import rebuild_consume_queue
from rocketstore.spark.build import rebuild_consume_queue as module
from rocketstore.spark.build import splits, tasks
from rocketstore.spark.build.directories import BuildDirectories
from rocketstore.spark.build.rebuild_consume_queue import build_parts, plan_queues, spill_requests
from rocketstore.spark.build.splits import LogReader
from rocketstore.state.lock_file import StoreLock
from rocketstore.survey.survey import survey_store

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")]

UNITS = SEVERAL_FILES["mapped_file_size_consume_queue"] // 20  # of a file


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """So that small logs are read in several tasks, and their queues built in several."""
    monkeypatch.setattr(splits, "MIN_SPLIT", 5000)
    monkeypatch.setattr(splits, "SPLITS", 3)
    monkeypatch.setattr(module, "TASK_UNITS", UNITS)
    monkeypatch.setattr(LogReader.__new__, "__defaults__", (700,))


@pytest.fixture
def store(tmp_path, seed):
    """A store of a log alone, of ordinary messages."""
    return make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))


def serial(root, config=CONFIG):
    """The queues that rebuild makes."""
    return files_under(rebuilt_beside(root, config, index=False), *QUEUE_PARTS)


def built(spark, root, config=CONFIG, **options):
    out = root.with_name(f"{root.name}-built")
    report = rebuild_consume_queue(spark, str(root), out, config=config, **options)
    found = files_under(out, *QUEUE_PARTS)
    assert sorted(str(path.relative_to(out)) for path in report.files) == sorted(found)
    assert {path.name for path in out.iterdir()} <= {*QUEUE_PARTS}
    shutil.rmtree(out)
    return found, report


# ---- same bytes --------------------------------------------------------------------------------------------


QUICK_KINDS = "wild_queue_offsets", "light_queues_of_batches"


@pytest.mark.parametrize("name", only_some_quick([*KINDS], *QUICK_KINDS))
def test_a_log_of_each_kind_of_record(spark, tmp_path, seed, name):
    config = dataclasses.replace(CONFIG, **options_of(name))
    root = make_log(tmp_path / "store", KINDS[name](random.Random(f"{seed} {name}")))
    found, report = built(spark, root, config)
    assert found == serial(root, config)
    filled = sum(data.count(struct.pack(">qiq", 0, 2**31 - 1, 0)) for data in found.values())
    if name != "times_that_fall" and not batches_of(name):
        assert report.items + filled == sum(
            size > 0 for data in found.values() for _, size, _ in struct.iter_unpack(">qiq", data)
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "store-serial"]


EXT_KINDS = "plain", "light_queues", "inner_batches", "light_queues_of_batches", "wild_queue_offsets", "delayed"


@pytest.mark.parametrize("name", only_some_quick(EXT_KINDS, "light_queues", "delayed"))
def test_with_ext_units(spark, tmp_path, seed, name):
    config = dataclasses.replace(CONFIG, enable_consume_queue_ext=True, **options_of(name))
    root = make_log(tmp_path / "store", KINDS[name](random.Random(f"{seed} {name}")))
    found, _ = built(spark, root, config)
    assert found == serial(root, config)
    assert any(path.startswith("consumequeue_ext/") for path in found)


@pytest.mark.parametrize("is_known", [True, False])
def test_inner_batches_make_batch_queues_unless_topics_json_has_others(spark, tmp_path, seed, is_known):
    root = make_log(tmp_path / "store", KINDS["inner_batches"](random.Random(seed)))
    if is_known:
        of_batches(root, {"Batched": "SimpleCQ", "Orders": "BatchCQ"})
    found, _ = built(spark, root)
    assert found == serial(root)
    assert {path.split("/")[1] for path in found if path.startswith("batch")} == {"Orders" if is_known else "Batched"}


FIRSTS, COUNTS = (0, 1, UNITS - 1, UNITS, 7 * UNITS + 3), (1, UNITS, 8 * UNITS, 8 * UNITS + 1)
QUICK_RUNS = (0, 8 * UNITS), (1, UNITS), (UNITS - 1, 8 * UNITS + 1), (UNITS, 1), (7 * UNITS + 3, 8 * UNITS)


@pytest.mark.parametrize(("first", "count"), only_some_quick([*itertools.product(FIRSTS, COUNTS)], *QUICK_RUNS))
def test_a_queue_without_gaps_is_built_in_parts(spark, tmp_path, seed, first, count):
    rng = random.Random(seed)
    rows = [fields(rng, i, topic="T", queue_id=0, body=b"", queue_offset=first + i) for i in range(count)]
    root = make_log(tmp_path / "store", rows)
    found, report = built(spark, root)
    assert found == serial(root)
    assert report.items == count
    assert len(found) == (first + count - 1) // UNITS - first // UNITS + 1


@pytest.mark.parametrize("change", only_some_quick(["gap", "taken", "again 0", "falls"], "falls"))
def test_a_queue_that_has_not_all_offsets_is_built_from_its_beginning(spark, tmp_path, seed, change):
    """Where the one that is wrong stands, also at the edge of a split or a file."""
    rng = random.Random(f"{seed} {change}")
    positions = rng.sample(range(1, 8 * UNITS), 2)
    offsets = [*range(8 * UNITS)]
    for at in positions:
        wrong = {"gap": offsets[at] + 5, "taken": offsets[at - 1], "again 0": 0, "falls": max(offsets[at] - 7, 0)}
        offsets[at:] = [wrong[change], *(wrong[change] + 1 + i for i in range(len(offsets) - at - 1))]
    rows = [fields(rng, i, topic="T", queue_id=0, queue_offset=offset) for i, offset in enumerate(offsets)]
    root = make_log(tmp_path / "store", [row for pair in zip(rows, KINDS["plain"](rng), strict=False) for row in pair])
    assert built(spark, root)[0] == serial(root)


@pytest.mark.parametrize("is_made_again", only_some_quick([False, True], True))
def test_deleted_topics_are_left_out_as_in_rebuild(spark, tmp_path, is_made_again):
    root = store_with_deleted_topic(tmp_path / "store", is_made_again=is_made_again)
    found, report = built(spark, root, None)
    assert found == serial(root, None)
    assert report.deleted == {("Orders", 0): OLD, ("Orders", 1): OLD}
    assert report.items == 3 + (LIVE if is_made_again else 0)
    found, report = built(spark, root, None, deleted=True)
    assert found == files_under(rebuilt_beside(root, None, index=False, deleted=True), *QUEUE_PARTS)
    assert report.deleted == {}


def test_queues_that_may_be_of_a_deleted_topic_are_kept_and_named(spark, tmp_path):
    root = store_with_deleted_topic(tmp_path / "store", is_made_again=False)
    put(root, "Orders", b"live", LIVE, [2])
    found, report = built(spark, root, None)
    assert found == serial(root, None)
    assert (report.deleted, report.doubtful) == ({}, (("Orders", 0), ("Orders", 1)))
    assert report.items == 3 + 2 * OLD + LIVE


# Formats of one release: what differs between releases is tested without Spark, by the serial build.
QUICK_STORES = "batch-5.5.0", "cqext-5.5.0"


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
    assert built(spark, root, config)[0] == expected


def test_an_empty_log_and_one_of_other_transactions(spark, tmp_path, seed):
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    assert built(spark, tmp_path / "store")[0] == {}
    root = make_log(tmp_path / "other", KINDS["rolled_back_only"](random.Random(seed)))
    found, report = built(spark, root)
    assert (found, report.files, report.items) == ({}, [], 0)


def test_a_topic_that_is_no_file_name_has_no_queue(spark, tmp_path, seed):
    rng = random.Random(seed)
    rows = [fields(rng, i, topic=rng.choice(("..", "a/b", "T"))) for i in range(30)]
    root = make_log(tmp_path / "store", rows)
    found, _ = built(spark, root)
    assert found == serial(root)
    assert {path.split("/")[1] for path in found} == {"T"}


def test_the_store_is_only_read(spark, store):
    before = files_under(store, ".")
    built(spark, store, scratch=store.with_name("scratch"))
    assert files_under(store, ".") == before
    assert list(store.with_name("scratch").iterdir()) == []


# ---- without Spark: blocks, parts and attempts ---------------------------------------------------------------


@pytest.fixture
def directories(tmp_path):
    directories = BuildDirectories(
        tmp_path / "work", *(tmp_path / "work" / name for name in ("spills", "attempts", "files"))
    )
    for place in directories:
        place.mkdir()
    return directories


def planned(root, directories, runs=1):
    """The parts, of requests that were spilled in so many runs."""
    rebuilder = Rebuilder.of(survey_store(root, CONFIG), Build(True, False, None, False), RebuildOptions())
    log = CommitLog.open(root / "commitlog", mapped_file_size=FILE)
    reader = LogReader(log, rebuilder.config, log.min_phy_offset, log.max_phy_offset)
    offsets = [message.phy_offset for batch in log.scan() for message in batch]
    cuts = [reader.begin, *sorted(random.Random(1).sample(offsets[1:], runs - 1)), reader.end]
    spilled = []
    for number, (begin, stop) in enumerate(itertools.pairwise(cuts)):
        spilled += spill_requests(reader.chunks(begin, stop), reader, set(), directories.spills / f"{number}")
    return plan_queues(spilled, rebuilder, None)[0], reader


@pytest.mark.parametrize("block", [1, 1000, 1 << 20])
def test_blocks_of_any_size_give_the_same(store, directories, monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    parts, reader = planned(store, directories)
    assert len(parts) > 4
    random.Random(1).shuffle(parts)
    units = [build_parts([part], reader, set(), directories, f"attempt-{i}") for i, part in enumerate(parts)]
    assert units == [part.units for part in parts]
    assert files_under(directories.files, *QUEUE_PARTS) == serial(store)
    assert list(directories.attempts.iterdir()) == []


def test_runs_of_any_number_give_the_same(store, directories):
    parts, reader = planned(store, directories, runs=20)
    build_parts(parts, reader, set(), directories, "attempt")
    assert files_under(directories.files, *QUEUE_PARTS) == serial(store)


def test_an_attempt_that_fails_leaves_nothing_and_the_next_one_does_its_work(store, directories, monkeypatch):
    parts, reader = planned(store, directories)
    with monkeypatch.context() as patched:
        patched.setattr(module, "read_entries", lambda *_: (_ for _ in [1 / 0]))
        with pytest.raises(ZeroDivisionError):
            build_parts(parts, reader, set(), directories, "0-1")
    assert list(directories.attempts.iterdir()) == list(directories.files.iterdir()) == []
    for attempt in ("0-2", "0-3"):
        build_parts(parts, reader, set(), directories, attempt)
        assert files_under(directories.files, *QUEUE_PARTS) == serial(store)


def test_an_attempt_that_ends_after_the_build_leaves_nothing(store, directories, monkeypatch):
    parts, reader = planned(store, directories)

    def read_and_end(*arguments):
        shutil.rmtree(directories.work)
        return iter([])

    with monkeypatch.context() as patched:
        patched.setattr(module, "read_entries", read_and_end)
        with pytest.raises(FileNotFoundError):
            build_parts(parts, reader, set(), directories, "0-1")
    assert not directories.work.exists()


# ---- refused and failed ------------------------------------------------------------------------------------


def test_what_rebuild_refuses_is_refused(spark, store):
    out = store.with_name("out")
    with pytest.raises(ValueError, match="no file shows mapped_file_size_consume_queue"):
        rebuild_consume_queue(spark, store, out, config=StoreConfig(mapped_file_size_commit_log=FILE))
    with pytest.raises(FileExistsError):
        rebuild_consume_queue(spark, store, store, config=CONFIG)
    lock = StoreLock(store / "lock")
    lock.acquire()
    try:
        with pytest.raises(StoreLockedError, match="is being written"):
            rebuild_consume_queue(spark, store, out, config=CONFIG)
    finally:
        lock.release()
    assert not out.exists()


def test_a_job_that_fails_leaves_nothing(spark, tmp_path, seed):
    """Here since a record says that its queue offset is negative."""
    rows = [fields(random.Random(seed), i, topic="T", queue_id=0, queue_offset=-5 if i == 40 else i) for i in range(80)]
    root = make_log(tmp_path / "store", rows)
    with pytest.raises(Exception, match="queue 0 of 'T' cannot have a unit"):
        rebuild_consume_queue(spark, root, tmp_path / "out", config=CONFIG, scratch=tmp_path / "scratch")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scratch", "store"]
    assert list((tmp_path / "scratch").iterdir()) == []


# ---- killed workers ----------------------------------------------------------------------------------------

DYING = """
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from support.rebuilt import CONFIG
from rocketstore.spark import build_index, rebuild_consume_queue
from rocketstore.spark.build import build_index as index_module
from rocketstore.spark.build import rebuild_consume_queue as build_consume_queue
from rocketstore.spark.build import splits

root, fallen = Path(sys.argv[1]), Path(sys.argv[2])
splits.MIN_SPLIT, splits.SPLITS, build_consume_queue.TASK_UNITS = 5000, 3, 20

def die_once(module, name):
    function, flag = getattr(module, name), fallen / name

    def dying(*arguments):
        done = function(*arguments)
        done = list(done) if name != "build_parts" else done
        try:
            flag.mkdir()
        except FileExistsError:
            return iter(done) if isinstance(done, list) else done
        os._exit(1)

    setattr(module, name, dying)

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = (
    SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.local.dir", str(fallen / "local")).getOrCreate()
)
for name in ("count_items", "rescan", "spill_items", "read_entries"):
    die_once(index_module, name)
for name in ("spill_requests", "build_parts"):
    die_once(build_consume_queue, name)
for mode in ("rescan", "spill"):
    build_index(spark, root, root.with_name(mode), mode=mode, config=CONFIG, tz="UTC")
rebuild_consume_queue(spark, root, root.with_name("queues"), config=CONFIG)
spark.stop()
"""


@pytest.mark.slow
def test_each_worker_that_is_killed_once_leaves_nothing_and_its_task_is_done_again(store, tmp_path_factory):
    fallen = tmp_path_factory.mktemp("fallen")
    environment = environment_of_classic(PYTHONPATH=os.pathsep.join([*sys.path]))
    done = subprocess.run(
        [sys.executable, "-c", DYING, store, fallen], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    names = {"count_items", "rescan", "spill_items", "read_entries", "spill_requests", "build_parts"}
    assert names <= {path.name for path in fallen.iterdir()}
    assert sorted(path.name for path in store.parent.iterdir()) == ["queues", "rescan", "spill", "store"]
    rebuild(store, out=store.with_name("serial"), config=CONFIG, tz="UTC")
    index = {path.name: path.read_bytes() for path in store.with_name("serial").glob("index/*")}
    for mode in ("rescan", "spill"):
        assert {path.name: path.read_bytes() for path in store.with_name(mode).iterdir()} == index
    assert files_under(store.with_name("queues"), *QUEUE_PARTS) == files_under(store.with_name("serial"), *QUEUE_PARTS)


# ---- what tasks get ----------------------------------------------------------------------------------------


def made_up_runs(directory, splits, queues):
    """The lists of spill files, as if each split had one message of each queue."""
    directory.mkdir()
    runs = []
    for split in range(splits):
        path = directory / f"{split}"
        columns = {
            "topic": [f"T{i:06}" for i in range(queues)], "queue_id": [0] * queues, "start": list(range(queues)),
            "items": [1] * queues, "first_offset": [split] * queues, "last_offset": [split] * queues,
            "first_end": [split * 1000 + 1] * queues, "last_end": [split * 1000 + 1] * queues,
            "follows": [True] * queues, "falls": [False] * queues, "has_inner": [False] * queues,
        }  # fmt: skip
        pd.DataFrame(columns).to_feather(f"{path}.queues")
        runs.append(module.RequestRun(split, split + 1, str(path), f"{path}.queues"))
    return runs


@pytest.mark.parametrize(("splits", "queues"), [(3, 50), (30, 2000)])
def test_a_task_gets_its_own_rows_alone(store, directories, tmp_path, monkeypatch, splits, queues):
    monkeypatch.setattr(module, "TASK_UNITS", 10 * splits)  # ten queues
    rebuilder = Rebuilder.of(survey_store(store, CONFIG), Build(True, False, None, False), RebuildOptions())
    parts, _ = plan_queues(made_up_runs(tmp_path / "spilled", splits, queues), rebuilder, None)
    assert [part.queue for part in parts] == [(f"T{i:06}", 0) for i in range(queues)]
    sent = []

    def run(spark, task, count, row_type):
        sent.append((len(cloudpickle.dumps(task)), count))
        return [row_type(number, 0) for number in range(count)]

    monkeypatch.setattr(tasks, "run", run)
    log = CommitLog.open(store / "commitlog", mapped_file_size=FILE)
    reader = LogReader(log, rebuilder.config, log.min_phy_offset, log.max_phy_offset)
    module.build_queues(None, parts, reader, set(), directories)
    ((size, count),) = sent
    assert count == queues // 10
    assert size < 20_000
    for number in range(count):
        own = tasks.read_task(directories.work / "queue-tasks", number)
        assert [part.queue for part in own] == [part.queue for part in parts[10 * number : 10 * number + 10]]
        requests = [[*part.requests()] for part in own]
        assert [len(slices) for slices in requests] == [splits] * 10
        first = requests[0][1]
        assert (first.run.path, first.run.start, first.run.items) == (str(tmp_path / "spilled" / "1"), 10 * number, 1)
    largest = max(path.stat().st_size for path in (directories.work / "queue-tasks").iterdir())
    assert largest < 10_000 + 500 * splits


def test_a_task_of_a_build_gets_only_the_files_of_its_split(store, monkeypatch, tmp_path):
    sent = []

    def run(spark, task, count, row_type):
        sent.append(len(cloudpickle.dumps(task)))
        return []

    monkeypatch.setattr(splits, "run", run)
    log = CommitLog.open(store / "commitlog", mapped_file_size=FILE)
    files = len(log.file_run.files)
    reader = LogReader(log, CONFIG, log.min_phy_offset, log.max_phy_offset)
    whole = module.RequestRun(reader.begin, reader.end, "", "")  # a function that named the reader would take its files
    splits.read_log(None, reader, lambda *_: [whole], module.RequestRun, tmp_path / "tasks")
    assert sent[0] < 20_000
    plans = [tasks.read_task(tmp_path / "tasks", number) for number in range(3)]
    assert files + 3 < 3 * files  # what all tasks would get if each got all; how many there are is drawn
    assert sum(len(plan.log.files) for _, _, plan in plans) <= files + 3
    assert [(begin, stop) for begin, stop, _ in plans] == splits.plan_splits(reader)

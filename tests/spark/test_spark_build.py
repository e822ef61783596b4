"""Index files that Spark builds, against those of a serial writer of the same rows."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import reference
from pyspark.sql import functions as F
from support.repetitions import only_some_quick

from rocketstore import IndexFile, IndexService
from rocketstore.index.geometry import IndexGeometry
from rocketstore.spark import select_phy_offset, write_index
from rocketstore.spark.build import directories as build_directories
from rocketstore.spark.build import index_files, tasks
from rocketstore.spark.build import write_index as build
from rocketstore.spark.build.directories import BuildDirectories, BuildReport
from rocketstore.spark.build.index_files import IndexForm
from rocketstore.spark.build.spill import ENTRY, Run, Slice, check_order, read_entries

pytestmark = pytest.mark.spark

GEOMETRY = {"hash_slot_num": 7, "index_num": 26}
CAPACITY = 25
NOW = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
COLUMNS = {"key": "key", "phy_offset": "offset", "store_timestamp": "time"}
KEYS = [*(f"key-{i}" for i in range(30)), "", "é", "键", "🚀"]


def make_rows(n, seed, *, keys_per_message=1):
    """Make rows of topic, key, offset, ordinal and time, in order: times rise, stand, fall and are zero."""
    draw = random.Random(seed)
    rows, at = [], NOW
    for i in range(n):
        message, ordinal = divmod(i, keys_per_message)
        if ordinal == 0:
            at = draw.choice([at, at + 1, at + 1_999, at - 5_000, NOW + 10**9, 0, NOW])
        rows.append((draw.choice(["T", "主题"]), draw.choice(KEYS), 137 * message, ordinal - 1, at))
    return rows


def frame(spark, rows, *, seed=1):
    """Put rows into a DataFrame of several partitions, in any order."""
    rows = random.Random(seed).sample(rows, len(rows))
    schema = "topic string, key string, offset long, n long, time long"
    return spark.createDataFrame(rows, schema).repartition(3)


def serial_build(rows, *, every_put_counts=False):
    """Give the bytes of the files that one writer makes of rows in order."""
    files, end = [], (0, 0)
    for topic, key, offset, _, timestamp in rows:
        if not files or files[-1].is_write_full:
            files.append(reference.IndexFile(*GEOMETRY.values(), *end, every_put_counts=every_put_counts))
        assert files[-1].put_key(f"{topic}#{key}", offset, timestamp)
        end = offset, timestamp
    return [bytes(file.data) for file in files]


def contents(directory):
    return [path.read_bytes() for path in sorted(directory.iterdir())]


# ---- same bytes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", only_some_quick([1, CAPACITY, CAPACITY + 1, 8 * CAPACITY - 3], 1, 8 * CAPACITY - 3))
def test_files_are_those_of_a_serial_writer(spark, tmp_path, seed, n):
    rows = make_rows(n, seed)
    report = write_index(frame(spark, rows), tmp_path / "index", **COLUMNS, topic=F.col("topic"), **GEOMETRY, tz="UTC")
    assert contents(tmp_path / "index") == serial_build(rows)
    assert report.files == sorted((tmp_path / "index").iterdir())
    assert report.items == n
    assert list(tmp_path.iterdir()) == [tmp_path / "index"]


@pytest.fixture
def five_ranges(spark):
    """Have a range exchange make five partitions, however few the rows."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "5"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.usefixtures("five_ranges")
def test_files_do_not_depend_on_where_partitions_end(spark, tmp_path, seed, monkeypatch):
    spills = []
    monkeypatch.setattr(build, "check_order", lambda *arguments: spills.extend(check_order(*arguments)) or spills)
    rows = make_rows(6 * CAPACITY + 1, seed, keys_per_message=4)
    columns = {**COLUMNS, "topic": F.col("topic"), "ordinal": "n"}
    write_index(frame(spark, rows), tmp_path / "index", **columns, **GEOMETRY)
    assert contents(tmp_path / "index") == serial_build(rows)
    assert len(spills) == 5
    assert sum(spill.items for spill in spills) == len(rows)


def test_an_ordinal_orders_the_keys_of_a_message(spark, tmp_path, seed):
    rows = make_rows(4 * CAPACITY + 2, seed, keys_per_message=3)
    df = frame(spark, rows).withColumn("n", F.col("n").cast("int"))
    columns = {**COLUMNS, "topic": F.col("topic"), "ordinal": F.col("n")}
    write_index(df, str(tmp_path / "index"), **columns, **GEOMETRY, compat="4.7.0")
    assert contents(tmp_path / "index") == serial_build(rows, every_put_counts=True)


def test_one_topic_and_timestamps_and_whole_keys_give_the_same_files(spark, tmp_path, seed):
    rows = [("T", *row[1:]) for row in make_rows(2 * CAPACITY, seed)]
    df = frame(spark, rows)
    as_time = df.withColumn("time", F.timestamp_millis("time"))
    write_index(as_time, tmp_path / "topic", **COLUMNS, topic="T", **GEOMETRY)
    columns = {**COLUMNS, "key": F.concat(F.lit("T#"), "key"), "phy_offset": F.col("offset")}
    write_index(df, tmp_path / "whole", **columns, **GEOMETRY)
    assert contents(tmp_path / "topic") == contents(tmp_path / "whole") == serial_build(rows)


def test_no_rows_give_an_empty_directory(spark, tmp_path):
    report = write_index(frame(spark, []), tmp_path / "index", **COLUMNS, **GEOMETRY)
    assert (report.files, report.items) == ([], 0)
    assert list((tmp_path / "index").iterdir()) == []
    assert repr(report).startswith("<BuildReport: 0 items, 0 files, ")


def test_the_keys_of_a_built_index_are_found(spark, tmp_path):
    df = frame(spark, [("T", f"key-{i}", 137 * i, 0, NOW + 700 * i) for i in range(90)])
    report = write_index(df, tmp_path / "index", **COLUMNS, topic="T", **GEOMETRY)
    with IndexService.open(tmp_path / "index", **GEOMETRY) as service:
        assert [file.path for file in service.files] == report.files
    column = select_phy_offset(tmp_path / "index", "T", "key", **GEOMETRY)
    assert all(row.offset in row.found for row in df.select("offset", column.alias("found")).collect())


def test_the_rows_are_read_once(spark, tmp_path, seed):
    counted = tmp_path / "counted"

    def count(batches):
        for batch in batches:
            with counted.open("a") as file:
                file.write("row\n" * batch.num_rows)
            yield batch

    df = frame(spark, make_rows(60, seed))
    write_index(df.mapInArrow(count, df.schema), tmp_path / "index", **COLUMNS, **GEOMETRY)
    assert len(counted.read_text().splitlines()) == 60


# ---- names -------------------------------------------------------------------------------------------------


def test_files_are_named_by_the_first_item_in_the_zone_and_always_later(spark, tmp_path):
    times = [NOW + 7, NOW + 7, NOW - 3_600_000, NOW + 60_000]
    rows = [("T", "k", i, 0, times[i // CAPACITY]) for i in range(4 * CAPACITY)]
    report = write_index(frame(spark, rows), tmp_path / "index", **COLUMNS, **GEOMETRY, tz="Asia/Shanghai")
    names = ["20231115061320007", "20231115061320008", "20231115061320009", "20231115061420000"]
    assert [path.name for path in report.files] == names
    assert repr(report).startswith(f"<BuildReport: 100 items, 4 files in '{tmp_path}/index', ")


def test_names_are_local_unless_a_zone_is_given(spark, tmp_path, monkeypatch):
    try:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        report = write_index(frame(spark, [("T", "k", 0, 0, NOW)]), tmp_path / "index", **COLUMNS, **GEOMETRY)
        assert [path.name for path in report.files] == ["20231114171320000"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_that_is_no_date_names_a_file_as_far_as_it_can(spark, tmp_path):
    times = [-(2**63), 2**63 - 1, NOW]
    rows = [("T", "k", i, 0, times[i // CAPACITY]) for i in range(3 * CAPACITY)]
    report = write_index(frame(spark, rows), tmp_path / "index", **COLUMNS, topic="T", **GEOMETRY, tz="UTC")
    assert [path.name for path in report.files] == ["19700101000000000", "99981231235959807", "99981231235959808"]
    assert contents(tmp_path / "index") == serial_build(rows)


# ---- refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["topic", "key", "offset", "time", "n"])
def test_a_null_is_refused_by_the_name_of_its_column(spark, tmp_path, column):
    df = frame(spark, make_rows(40, 1)).withColumn(column, F.when(F.col("offset") != 137 * 33, F.col(column)))
    columns = {**COLUMNS, "topic": F.col("topic"), "ordinal": "n"}
    label = {"topic": "topic", "key": "'key'", "offset": "'offset'", "time": "'time'", "n": "'n'"}[column]
    with pytest.raises(ValueError, match=f"{label}.* has nulls"):
        write_index(df, tmp_path / "index", **columns, **GEOMETRY)
    assert list(tmp_path.iterdir()) == []


def test_a_negative_offset_is_refused(spark, tmp_path):
    rows = [*make_rows(10, 1), ("T", "k", -1, 0, NOW)]
    with pytest.raises(ValueError, match=r"phy_offset \(column 'offset'\) is negative: -1"):
        write_index(frame(spark, rows), tmp_path / "index", **COLUMNS, **GEOMETRY)
    assert list(tmp_path.iterdir()) == []


def test_rows_of_one_offset_are_refused_without_an_ordinal_and_with_equal_ones(spark, tmp_path):
    rows = [*make_rows(40, 1), ("T", "k", 137 * 30, 5, NOW)]
    with pytest.raises(ValueError, match=r"two rows have 4110 in phy_offset .*give ordinal="):
        write_index(frame(spark, rows), tmp_path / "index", **COLUMNS, **GEOMETRY)
    rows.append(("T", "k2", 137 * 30, 5, NOW))
    with pytest.raises(ValueError, match=r"have 4110 in phy_offset .*and 5 in ordinal \(column 'n'\)"):
        write_index(frame(spark, rows), tmp_path / "index", **COLUMNS, ordinal="n", **GEOMETRY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tz": "Mars/Olympus"}, "tz='Mars/Olympus'"),
        ({"compat": "3.0"}, "compat='3.0'"),
        ({"hash_slot_num": 0}, "hash_slot_num=0"),
        ({"index_num": 1}, "index_num=1"),
        ({"hash_slot_num": 2**31}, f"hash_slot_num={2**31}"),
        ({"index_num": 5.5}, "float"),
    ],
)
def test_options_that_cannot_be_are_refused_before_any_job(spark, tmp_path, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        write_index(frame(spark, make_rows(1, 1)), tmp_path / "index", **COLUMNS, **{**GEOMETRY, **options})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("column", "other"),
    [("key", "offset"), ("phy_offset", "key"), ("store_timestamp", "key"), ("ordinal", "key")],
)
def test_a_column_of_another_type_is_refused(spark, tmp_path, column, other):
    columns = {**COLUMNS, column: other}
    with pytest.raises(TypeError, match=f"{column} \\(column '{other}'\\): one of"):
        write_index(frame(spark, make_rows(1, 1)), tmp_path / "index", **columns, **GEOMETRY)


def test_a_directory_with_files_or_a_file_is_not_overwritten_and_an_empty_directory_is(spark, tmp_path):
    df = frame(spark, make_rows(5, 1))
    out = tmp_path / "index"
    out.mkdir()
    write_index(df, out, **COLUMNS, **GEOMETRY)
    (built,) = contents(out)
    for taken in (out, *out.iterdir()):
        with pytest.raises(FileExistsError, match="not an empty directory"):
            write_index(df, taken, **COLUMNS, **GEOMETRY)
    assert contents(out) == [built]


def test_a_directory_that_fills_meanwhile_is_not_overwritten(spark, tmp_path, monkeypatch):
    out = tmp_path / "index"

    def build_slowly(*arguments):
        out.mkdir()
        (out / "other").touch()

    monkeypatch.setattr(build, "build_files", build_slowly)
    with pytest.raises(FileExistsError):
        write_index(frame(spark, make_rows(5, 1)), out, **COLUMNS, **GEOMETRY)
    assert list(tmp_path.iterdir()) == [out]


# ---- failed and losing attempts ----------------------------------------------------------------------------


def test_a_job_that_fails_leaves_nothing(spark, tmp_path):
    def fail(batches):
        for batch in batches:
            if 137 * 20 in batch.column("offset").to_pylist():
                raise RuntimeError("this input fails")
            yield batch

    (tmp_path / "scratch").mkdir()
    df = frame(spark, make_rows(40, 1))
    with pytest.raises(Exception, match="this input fails"):
        write_index(df.mapInArrow(fail, df.schema), tmp_path / "index", **COLUMNS, scratch=tmp_path / "scratch")
    assert [path.name for path in tmp_path.rglob("*")] == ["scratch"]


def test_what_losing_attempts_leave_is_swept_and_not_published(spark, tmp_path, monkeypatch):
    seen = []

    def leave(function):
        def leaving(*arguments):
            done = function(*arguments)
            directories = [each for each in arguments if isinstance(each, Path | BuildDirectories)]
            for place in directories:
                place = place.attempts if isinstance(place, BuildDirectories) else place
                (place / "left-by-a-killed-attempt").write_bytes(b"half")
                seen.append(place)
            return done

        return leaving

    monkeypatch.setattr(build, "spill_items", leave(build.spill_items))
    monkeypatch.setattr(build, "build_files", leave(build.build_files))
    rows = make_rows(30, 1)
    columns = {**COLUMNS, "topic": F.col("topic")}
    scratch = tmp_path / "scratch"
    write_index(frame(spark, rows), tmp_path / "index", **columns, **GEOMETRY, scratch=scratch)
    assert len(seen) == 2
    assert seen[0].parent == scratch
    assert contents(tmp_path / "index") == serial_build(rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "scratch"]
    assert list(scratch.iterdir()) == []


@pytest.fixture
def directories(tmp_path):
    directories = BuildDirectories(tmp_path, tmp_path / "spills", tmp_path / "attempts", tmp_path / "files")
    for place in directories:
        place.mkdir(exist_ok=True)
    return directories


def plan_of(directories, n):
    entries = np.zeros(n, ENTRY)
    entries["key_hash"], entries["phy_offset"], entries["store_timestamp"] = range(n), range(n), NOW
    entries.tofile(directories.spills / "0")
    return [Slice(Run(str(directories.spills / "0"), 0, n), 0, n)]


FORM = IndexForm(IndexGeometry(**GEOMETRY), "5.5.1")
NAME = f"{0:020}"


def test_an_attempt_that_fails_leaves_no_file_and_the_next_one_does_its_work(directories):
    plan = plan_of(directories, 10)

    def fail(slices):
        yield from read_entries(slices)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        index_files.build_file(0, plan, fail, FORM, directories, "0-1")
    assert list(directories.attempts.iterdir()) == list(directories.files.iterdir()) == []
    assert index_files.build_file(0, plan, read_entries, FORM, directories, "0-2") == 10
    with IndexFile.open(directories.files / NAME, **GEOMETRY) as index:
        assert len(index) == 10
    first = contents(directories.files)
    index_files.build_file(0, plan, read_entries, FORM, directories, "0-3")
    assert contents(directories.files) == first
    assert list(directories.attempts.iterdir()) == []


def test_an_attempt_that_ends_after_the_build_publishes_nothing(directories):
    plan = plan_of(directories, 10)
    index_files.build_file(0, plan, read_entries, FORM, directories, "0-0")
    out = directories.files.with_name("out")
    index_files.publish_index(directories, out, None)
    before = contents(out)
    with pytest.raises(FileNotFoundError):
        index_files.build_file(0, plan, read_entries, FORM, directories, "0-1")
    assert contents(out) == before
    assert len(before) == 1
    assert list(directories.attempts.iterdir()) == []


def test_the_names_of_published_files_are_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(build_directories, "sync_path", lambda path: synced.append(path.relative_to(tmp_path)))
    (tmp_path / "files" / "Topic" / "0").mkdir(parents=True)
    (tmp_path / "files" / "Topic" / "0" / f"{0:020}").touch()
    build_directories.publish(tmp_path / "files", tmp_path / "out")
    assert sorted(synced[:-1]) == [Path("files"), Path("files/Topic"), Path("files/Topic/0")]
    assert synced[-1] == Path()


def test_a_spill_that_is_shorter_than_reported_fails_the_task(directories):
    (whole,) = plan_of(directories, 10)
    with pytest.raises(OSError, match="ends after 10 entries, where 12 were written"):
        index_files.build_file(0, [whole._replace(stop=12)], read_entries, FORM, directories, "0-1")
    with pytest.raises(RuntimeError, match="10 items put, where 12 were planned"):
        index_files.build_file(0, [whole._replace(stop=12)], lambda _: read_entries([whole]), FORM, directories, "0-1")
    assert list(directories.files.iterdir()) == []


def test_tasks_that_are_not_done_are_noticed(monkeypatch):
    monkeypatch.setattr(tasks, "run", lambda spark, task, count, row_type: [*task(0, "0-0"), *task(1, "1-0")])
    assert tasks.run_all(None, lambda number, attempt: 5 + number, 2) == 11
    with pytest.raises(RuntimeError, match="only 2 of 3 tasks have finished"):
        tasks.run_all(None, lambda number, attempt: 5, 3)


# ---- memory ------------------------------------------------------------------------------------------------

FULL_SIZE = """
import sys
import time
from pathlib import Path

import numpy as np

from rocketstore import IndexFile
from rocketstore.index.geometry import IndexGeometry
from rocketstore.spark.build.index_files import IndexForm, build_file
from rocketstore.spark.build.directories import BuildDirectories
from rocketstore.spark.build.spill import ENTRY, Run, Slice, read_entries

ITEMS = 19_999_999

def kilobytes(field):
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith(field)).split()[1])

def write_spills(directory):
    draw = np.random.default_rng(int(sys.argv[2]))
    with (directory / "0").open("wb") as file:
        for start in range(0, ITEMS, 1 << 20):
            entries = np.empty(min(1 << 20, ITEMS - start), ENTRY)
            entries["key_hash"] = draw.integers(0, 2**31, len(entries))
            entries["phy_offset"] = entries["store_timestamp"] = np.arange(start, start + len(entries))
            entries.tofile(file)

root = Path(sys.argv[1])
directories = BuildDirectories(root, root / "spills", root / "attempts", root / "files")
if len(sys.argv) == 3:
    for place in directories:
        place.mkdir(exist_ok=True)
    write_spills(directories.spills)
else:
    plan = [Slice(Run(str(directories.spills / "0"), 0, ITEMS), 0, ITEMS)]
    before = kilobytes("VmRSS")
    build_file(0, plan, read_entries, IndexForm(IndexGeometry(5_000_000, 20_000_000), "5.5.1"), directories, "0-0")
    print(kilobytes("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
def test_a_task_of_a_full_size_file_takes_at_most_700_mb(tmp_path, seed):
    arguments = [sys.executable, "-c", FULL_SIZE, tmp_path, str(seed)]
    subprocess.run(arguments, check=True)
    peak = int(subprocess.run([*arguments, "build"], check=True, capture_output=True, text=True).stdout)
    print(f"peak beyond the imports: {peak / 1000:.0f} MB")
    assert peak * 1024 <= 700e6
    with IndexFile.open(tmp_path / "files" / f"{0:020}") as index:
        assert index.is_write_full


def test_a_report_says_how_many_and_where():
    report = BuildReport([Path("/store/index/20231114221320000")], 1234, 2.345)
    assert repr(report) == "<BuildReport: 1,234 items, 1 file in '/store/index', 2.3 s>"

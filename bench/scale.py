"""Predict what Spark needs for 10 TB of log on 200 cores, and check predictions with runs of one and two tasks.

    python bench/scale.py --directory DIR [--fit-gib 0.25 0.75] [--check-gib 2] [--cold-gib 2] [--rounds 3]

Time is CPU time of the whole process tree: the driver in Python, the JVM, and the Python workers. A machine that does
other work changes the time on the clock by any factor, and CPU time by little. A run needs ``driver(bytes) +
tasks(bytes)`` CPU seconds. The driver's part is serial. The tasks' part is divided by the number of cores.

Rates come from runs of one task on two sizes, from scans and reads of the bytes alone, and from plans on a file system
that counts and delays requests. Each is checked with a size that was not used for its rate: runs with one and two
tasks, in memory and not in memory. The rounds repeat all runs in turn, so that all of them see the same machine.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import os
import pickle
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import fsspec
import numpy as np
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from spark_settings import local_settings
from store_files import write_log_files

from rocketstore import Message, StoreConfig
from rocketstore import open as open_store
from rocketstore.config import DEFAULT_SIZES
from rocketstore.spark import build_index, read, rebuild_consume_queue
from rocketstore.spark.source.messages import MessagesReader
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema
from rocketstore.spark.source.sink import Written, writer_of

GIB, TEN_TB, CORES = 1 << 30, 10 * 10**12, 200
LIMIT = 0.25  # the largest error of a prediction
FILE, BODY = 128 << 20, 1000  # bytes of a log file, and of a body
LARGE_FILE = 1 << 30  # bytes of a log file of the predicted store
# Small files: each run builds many, so that the costs of a file are not taken for fixed costs of a build.
SIZES = {
    "mapped_file_size_commit_log": FILE,
    "mapped_file_size_consume_queue": 20 * 10_000,
    "max_hash_slot_num": 50_000,
    "max_index_num": 200_000,
}
CONFIG = StoreConfig(**DEFAULT_SIZES | SIZES)
REQUEST = 0.03  # seconds of a request to a remote store
SINK_SCHEMA = StructType([StructField("topic", StringType()), StructField("body", BinaryType())])
WORKS = ("read", "build_index", "rebuild_consume_queue")
TICK = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Attributes: driver, tasks: CPU seconds of the driver's Python, and of JVM and workers. seconds: on the clock."""

    driver: float
    tasks: float
    seconds: float

    @property
    def cpu(self) -> float:
        return self.driver + self.tasks


class Line(NamedTuple):
    """A cost that grows with an amount. Attributes: fixed: of any amount. each: of one unit of the amount."""

    fixed: float
    each: float

    @classmethod
    def through(cls, small: float, low: float, large: float, high: float) -> Line:
        """Return the line through the costs ``low`` and ``high`` of two amounts. It does not fall."""
        each = max(high - low, 0.0) / (large - small)
        return cls(max(low - small * each, 0.0), each)

    def at(self, amount: float) -> float:
        return self.fixed + self.each * amount


class Rate(NamedTuple):
    """The cost of a kind of work by the bytes of the log. Attributes: CPU seconds of the driver, and of the tasks."""

    driver: Line
    tasks: Line

    def cpu(self, size: float) -> float:
        return self.driver.at(size) + self.tasks.at(size)

    def seconds(self, size: float, cores: int) -> float:
        """Return the seconds on the clock, if each core works for nothing else."""
        return self.driver.at(size) + self.tasks.at(size) / cores


class Check(NamedTuple):
    """A prediction, and what was measured."""

    name: str
    predicted: float
    measured: float
    unit: str = "CPU s"

    @property
    def error(self) -> float:
        return abs(self.predicted / self.measured - 1)

    def __str__(self) -> str:
        return (
            f"| {self.name} | {self.predicted:,.2f} {self.unit} | {self.measured:,.2f} {self.unit} | {self.error:.0%} |"
        )


# ---- CPU time ----------------------------------------------------------------------------------------------


def tree_cpu() -> tuple[float, float]:
    """Return the CPU seconds of this process, and of all its descendants, also of those that ended."""
    parents, used = {}, {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                fields = (directory / "stat").read_text().rpartition(") ")[2].split()
            except OSError:  # the process ended
                continue
            parents[int(directory.name)] = int(fields[1])
            used[int(directory.name)] = sum(map(int, fields[11:15])) / TICK
    own = os.getpid()

    def is_below(process: int) -> bool:
        while process in parents and process != own:
            process = parents[process]
        return process == own

    return time.process_time(), sum(cpu for process, cpu in used.items() if process != own and is_below(process))


def cost_of(work: Callable[[], object]) -> Cost:
    """Run some work, and return its cost."""
    began, (driver, tasks) = time.perf_counter(), tree_cpu()
    work()
    seconds, (driver_end, tasks_end) = time.perf_counter() - began, tree_cpu()
    return Cost(driver_end - driver, tasks_end - tasks, seconds)


# ---- runs, each number of tasks in a process of its own ----------------------------------------------------


def start_session(tasks: int, scratch: Path) -> None:
    """Start the session of this process. The first run of a session is slow, so it is no part of a measurement."""
    from pyspark.sql import SparkSession

    settings = local_settings(scratch, f"spark-{tasks}")
    SparkSession.builder.master(f"local[{tasks}]").config(map=settings).getOrCreate()


def run_work(name: str, root: Path, out: Path) -> Cost:
    """Run a kind of work on a log, in the process of a session."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    try:
        if name == "build_index":
            return cost_of(lambda: build_index(spark, root, out, mode="spill", config=CONFIG))
        if name == "rebuild_consume_queue":
            return cost_of(lambda: rebuild_consume_queue(spark, root, out, config=CONFIG))
        return cost_of(
            lambda: read(spark, root, maxPartitionBytes="128m").write.format("noop").mode("overwrite").save()
        )
    finally:
        shutil.rmtree(out, ignore_errors=True)


@contextmanager
def sessions(scratch: Path) -> Iterator[dict[int, ProcessPoolExecutor]]:
    """Start a session of one task and a session of two tasks."""
    context = multiprocessing.get_context("spawn")
    pools = {tasks: ProcessPoolExecutor(1, context, start_session, (tasks, scratch)) for tasks in (1, 2)}
    try:
        yield pools
    finally:
        for pool in pools.values():
            pool.shutdown()


def drop_from_memory(root: Path) -> None:
    """Let the system drop the pages of the log's files, which are on the disk already."""
    for path in (root / "commitlog").iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def touch_pages(root: Path) -> None:
    """Map the files of a log and read a byte of each page, and nothing else."""
    for path in sorted((root / "commitlog").iterdir()):
        np.memmap(path, np.uint8, "r")[:: mmap.PAGESIZE].sum()


# ---- the driver alone: listings, commits, renames ----------------------------------------------------------


class CountingFileSystem(LocalFileSystem):
    """The local file system as a remote one, whose requests are counted and take some time."""

    protocol = "counted"
    cachable = False
    counts: ClassVar[Counter[str]] = Counter()

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        self.count("LIST")
        return LocalFileSystem().ls(self._strip_protocol(path), detail, **options)

    def cat_file(self, path: str, *args: Any, **options: Any) -> Any:
        self.count("GET")
        return super().cat_file(path, *args, **options)

    def info(self, path: str, **options: Any) -> Any:
        self.count("HEAD")
        return super().info(path, **options)

    @classmethod
    def count(cls, kind: str) -> None:
        cls.counts[kind] += 1
        time.sleep(REQUEST)


class Plan(NamedTuple):
    """The cost of a plan on the driver. Attributes: size: bytes of the pickled parts."""

    requests: int
    seconds: float
    cpu: float
    size: int


def plan_remote(root: Path) -> Plan:
    """Plan a read of a store on a file system that counts and delays requests."""
    fsspec.register_implementation("counted", CountingFileSystem, clobber=True)
    CountingFileSystem.counts.clear()
    options = ReadOptions.parse({"path": f"counted://{root}"}, streaming=False)
    reader = MessagesReader(options, table_schema(options, default_schema(options)))
    began, cpu = time.perf_counter(), time.process_time()
    parts = reader.partitions()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Plan(CountingFileSystem.counts.total(), seconds, cpu, len(pickle.dumps(parts)))


def write_small_files(root: Path, count: int) -> Path:
    """Write a store with ``count`` files of the log, 64 KiB each."""
    sizes = StoreConfig(mapped_file_size_commit_log=1 << 16, max_hash_slot_num=100, max_index_num=1_000_000)
    with open_store(root, "a", config=sizes) as store:
        while len(list((root / "commitlog").glob("*"))) < count:
            store.put_messages([Message("T", bytes(30_000)) for _ in range(2 * min(count, 20))])
    return root


def commit(root: Path, size: int) -> float:
    """Return the CPU seconds of a commit of the sink, in which the driver appends the rows of all tasks."""
    count = size // 1024
    rows = pa.record_batch({"topic": ["T"] * count, "body": [bytes(900)] * count})
    writer = writer_of(SINK_SCHEMA, {"path": str(root)}, overwrite=False)
    written = writer.sink.prepare_rows([rows], writer.job, "000000-0")
    began = time.process_time()
    writer.commit([Written(written)])
    cpu = time.process_time() - began
    shutil.rmtree(root)
    return cpu


def rename(directory: Path, count: int) -> float:
    """Return the CPU seconds of renames of complete files, as at the end of a build."""
    (directory / "new").mkdir(parents=True)
    for number in range(count):
        (directory / str(number)).touch()
    began = time.process_time()
    for number in range(count):
        (directory / str(number)).rename(directory / "new" / str(number))
    cpu = time.process_time() - began
    shutil.rmtree(directory)
    return cpu


def least(work: Callable[[], float], rounds: int) -> float:
    return min(work() for _ in range(rounds))


# ---- measuring ---------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """The runs of all rounds.

    Attributes: runs: by kind of work, number of tasks, bytes, and whether the log was in memory. fill: CPU seconds a
    byte to bring a file into memory. disk: bytes a second of the disk.
    """

    runs: dict[tuple[str, int, int, bool], list[Cost]]
    fill: float
    disk: float

    def cost(self, name: str, tasks: int, size: int, in_memory: bool = True) -> Cost:
        """Return the median of each part of the cost."""
        return Cost(*map(statistics.median, zip(*self.runs[name, tasks, size, in_memory], strict=True)))


def link_log(root: Path, source: Path, size: int) -> Path:
    """Make a store of the first files of another log, without a copy."""
    (root / "commitlog").mkdir(parents=True)
    for path in sorted((source / "commitlog").iterdir())[: size // FILE]:
        (root / "commitlog" / path.name).hardlink_to(path)
    return root


def measure_runs(arguments: argparse.Namespace, scratch: Path) -> Measured:
    """Run each kind of work on each size, in turn."""
    *fit, check, cold_size = [int(gib * GIB) for gib in [*arguments.fit_gib, arguments.check_gib, arguments.cold_gib]]
    write_log_files(scratch / "log", BODY, max(*fit, check, cold_size), FILE)
    roots = {size: link_log(scratch / f"log-{size}", scratch / "log", size) for size in {*fit, check, cold_size}}
    plan = [(name, 1, size, True) for name in WORKS for size in fit]
    plan += [(name, tasks, check, True) for name in WORKS for tasks in (1, 2)]
    plan += [("read", 1, cold_size, False), ("build_index", 1, cold_size, False)]
    runs: dict[tuple[str, int, int, bool], list[Cost]] = {key: [] for key in plan}
    cold, warm, rates = [], [], []
    with sessions(scratch) as pools:
        for tasks, pool in pools.items():
            for name in [*WORKS, *WORKS]:  # the first runs of a kind start workers and compile the JVM's code
                pool.submit(run_work, name, roots[fit[1]], scratch / f"out-{tasks}").result()
        for _ in range(arguments.rounds):
            for name, tasks, size, in_memory in plan:
                if in_memory:
                    touch_pages(roots[size])
                else:
                    drop_from_memory(roots[size])
                found = pools[tasks].submit(run_work, name, roots[size], scratch / f"out-{tasks}").result()
                runs[name, tasks, size, in_memory].append(found)
                print(f"{name} {tasks} tasks {size / GIB:g} GiB {'' if in_memory else 'cold '}{found}", flush=True)
            drop_from_memory(roots[fit[1]])
            cold.append(cost_of(lambda: touch_pages(roots[fit[1]])))
            warm.append(cost_of(lambda: touch_pages(roots[fit[1]])))
            rates.append(fit[1] / cold[-1].seconds)
    fill = max(statistics.median(each.cpu for each in cold) - statistics.median(each.cpu for each in warm), 0.0)
    return Measured(runs, fill / fit[1], statistics.median(rates))


def rate_of(measured: Measured, name: str, fit: list[int]) -> Rate:
    small, large = (measured.cost(name, 1, size) for size in fit)
    return Rate(
        Line.through(fit[0], small.driver, fit[1], large.driver), Line.through(fit[0], small.tasks, fit[1], large.tasks)
    )


def check_runs(measured: Measured, rates: dict[str, Rate], fit: list[int]) -> list[Check]:
    """Compare the CPU time of the runs that gave no rate with the predictions."""
    checks = []
    for name, tasks, size, in_memory in measured.runs:
        if size not in fit:
            predicted = rates[name].cpu(size) + (0 if in_memory else measured.fill * size)
            place = "in memory" if in_memory else "not in memory"
            label = f"`{name}`, {size / GIB:g} GiB {place}, tasks at once: {tasks}"
            checks.append(Check(label, predicted, measured.cost(name, tasks, size, in_memory).cpu))
    return checks


class Driver(NamedTuple):
    """The rates of the driver alone, and their checks.

    Attributes: requests, plan_cpu, plan_size: of a plan, by files. commit: CPU seconds by bytes. rename: by files.
    """

    requests: Line
    plan_cpu: Line
    plan_size: Line
    commit: Line
    rename: Line
    checks: list[Check]

    def plan_seconds(self, files: float) -> float:
        """Return the seconds of a plan whose requests are one after another, REQUEST seconds each."""
        return self.plan_cpu.at(files) + self.requests.at(files) * REQUEST


def measure_driver(scratch: Path, rounds: int) -> Driver:
    """Measure plans on the counting file system, commits and renames, each at two amounts, and check a third one."""
    files = 20, 60, 240
    plans = []
    for count in files:
        root = write_small_files(scratch / f"files-{count}", count)
        plans.append(Plan(*map(min, zip(*(plan_remote(root) for _ in range(rounds)), strict=True))))
        shutil.rmtree(root)
    first, second, third = plans
    requests = Line.through(files[0], first.requests, files[1], second.requests)
    cpu = Line.through(files[0], first.cpu, files[1], second.cpu)
    sizes = Line.through(files[0], first.size, files[1], second.size)
    bytes_of = 64 << 20, 192 << 20, 512 << 20  # a commit of less takes no longer than what disturbs it
    commits = [least(lambda size=size: commit(scratch / "sink", size), rounds) for size in bytes_of]
    renames = [least(lambda count=count: rename(scratch / "names", count), rounds) for count in (500, 1000, 5000)]
    of_commit = Line.through(bytes_of[0], commits[0], bytes_of[1], commits[1])
    of_rename = Line.through(500, renames[0], 1000, renames[1])
    driver = Driver(requests, cpu, sizes, of_commit, of_rename, [])
    checks = [
        Check(f"plan of {files[2]} remote files", requests.at(files[2]), third.requests, "requests"),
        Check(f"the same, {REQUEST * 1000:.0f} ms a request", driver.plan_seconds(files[2]), third.seconds, "s"),
        Check("its parts for the tasks", sizes.at(files[2]) / 1e3, third.size / 1e3, "kB"),
        Check(f"commit of {bytes_of[2] >> 20} MiB by the sink", of_commit.at(bytes_of[2]), commits[2]),
        Check("5,000 renames", of_rename.at(5000), renames[2]),
    ]
    return driver._replace(checks=checks)


# ---- the report --------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def predict(rates: dict[str, Rate], driver: Driver) -> list[str]:
    """Return the table of the predictions for 10 TB on 200 cores."""
    files = TEN_TB / LARGE_FILE
    lines = [
        f"| Prediction for 10 TB on {CORES} cores | in all | of it the driver alone | the storage must deliver |",
        "| --- | --- | --- | --- |",
    ]
    for name, rate in rates.items():
        seconds = rate.seconds(TEN_TB, CORES)
        alone, needed = duration(rate.driver.at(TEN_TB)), TEN_TB / seconds / 1e9
        lines.append(f"| `{name}` | {duration(seconds)} | {alone} | {needed:.1f} GB/s |")
    lines += [
        f"| plan of {files:,.0f} remote files | {duration(driver.plan_seconds(files))} | all: "
        f"{driver.requests.at(files):,.0f} requests, {driver.plan_size.at(files) / 1e6:.0f} MB of parts | |",
        f"| commit of 10 TB by the sink | {duration(driver.commit.at(TEN_TB))} | all: "
        f"{1 / driver.commit.each / 1e6:,.0f} MB/s | |",
        f"| renames of {files:,.0f} built files | {duration(driver.rename.at(files))} | all | |",
    ]
    return lines


def find_limits(rates: dict[str, Rate], driver: Driver) -> list[str]:
    """Return the limits of a job's speed, by the number of cores from which on more cores do not help."""
    sink = rates["read"].tasks.each / driver.commit.each
    limits = [(sink, "a job that reads and writes: the commit of the sink, in the driver")]
    for name, rate in rates.items():
        if rate.driver.at(TEN_TB):
            cores = rate.tasks.at(TEN_TB) / rate.driver.at(TEN_TB)
            limits.append((cores, f"`{name}`: the driver, which needs as long alone as its tasks together"))
        limits.append((10e9 * rate.tasks.each, f"`{name}`: storage that delivers 10 GB/s"))
    return [f"- from {cores:,.0f} cores on, {text}" for cores, text in sorted(limits)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--directory", type=Path, required=True, help="for logs and results; needs twice the log's size"
    )
    parser.add_argument("--fit-gib", type=float, nargs=2, default=[0.25, 0.75])
    parser.add_argument("--check-gib", type=float, default=2, help="a size that gives no rate, in memory")
    parser.add_argument("--cold-gib", type=float, default=2, help="a size that gives no rate, not in memory")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    scratch = arguments.directory.resolve() / "scale"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    began = time.strftime("%H:%M")
    measured = measure_runs(arguments, scratch)
    driver = measure_driver(scratch, arguments.rounds)
    fit = [int(gib * GIB) for gib in arguments.fit_gib]
    rates = {name: rate_of(measured, name, fit) for name in WORKS}
    checks = [*check_runs(measured, rates, fit), *driver.checks]
    worst = max(check.error for check in checks)
    print("\n".join(predict(rates, driver)), "", *find_limits(rates, driver), "", sep="\n")
    print("| check | predicted | measured | error |\n| --- | --- | --- | --- |", *checks, "", sep="\n")
    print(
        f"largest error {worst:.0%}, limit {LIMIT:.0%}; {began} to {time.strftime('%H:%M')}, "
        f"load {os.getloadavg()[2]:.0f} on {os.cpu_count()} cores; "
        f"the disk delivered {measured.disk / 1e6:,.0f} MB/s, fill {measured.fill * GIB:.2f} CPU s a GiB"
    )
    shutil.rmtree(scratch)
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

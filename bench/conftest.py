"""Pairs of rounds, theirs and ours in turn; one table at the end, and results.json.

A run that has not all rows of results.json leaves it alone; delete it to begin anew.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keys import SEED, TOPIC, arrow_keys
from peers import Java, Plain

from rocketstore import IndexFile

RESULTS = Path(__file__).parent / "results.json"
ROUNDS = int(os.environ.get("ROCKETSTORE_BENCH_ROUNDS", "7"))
KEYS = int(os.environ.get("ROCKETSTORE_BENCH_KEYS", "19999999"))
SLOTS, ITEMS = 5_000_000, 20_000_000
WARM_SIZE = 1 << 30  # bytes

rows: list[dict[str, Any]] = []


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def warm_memory() -> None:
    """Touch and free 1 GiB.

    A virtual machine may give free memory back to its host, and the first touch of a page then costs microseconds. Each
    round begins with memory that was just freed, so that no side pays for pages that the other side gets for nothing.
    """
    np.empty(WARM_SIZE, np.uint8)[:: mmap.PAGESIZE] = 1


class Pairs:
    """Times ours against theirs, in turn, so that what else the machine does meets both."""

    def __init__(self, benchmark: Any) -> None:
        self.benchmark = benchmark

    def __call__(
        self,
        name: str,
        unit_count: int,
        ours: Callable[[], object],
        theirs: Callable[[], float],
        peer: str,
        goal: float | None = None,
        before: Callable[[], object] = lambda: None,
        rounds: int = ROUNDS,
    ) -> None:
        """Run pairs. ``theirs`` gives its own seconds; ``before`` prepares a round of ours, untimed."""
        their_seconds: list[float] = []

        def setup() -> None:
            warm_memory()
            their_seconds.append(theirs())
            before()
            warm_memory()

        self.benchmark.pedantic(ours, setup=setup, rounds=rounds, iterations=1, warmup_rounds=1)
        our_seconds = list(self.benchmark.stats.stats.data)
        ratios = sorted(a / b for a, b in zip(their_seconds[-rounds:], our_seconds, strict=True))
        record(
            name,
            statistics.median(our_seconds) / unit_count * 1e9,
            peer,
            statistics.median(their_seconds[-rounds:]) / unit_count * 1e9,
            ratios,
            goal,
        )


def record(
    name: str, ours: float, peer: str, theirs: float | None, ratios: list[float], goal: float | None = None
) -> None:
    """Keep one row: nanoseconds each, and the ratios of the pairs."""
    rows.append(
        {
            "name": name,
            "ours_ns": round(ours, 2),
            "peer": peer,
            "peer_ns": None if theirs is None else round(theirs, 2),
            "ratio": round(statistics.median(ratios), 2) if ratios else None,
            "ratio_min": round(min(ratios), 2) if ratios else None,
            "ratio_max": round(max(ratios), 2) if ratios else None,
            "goal": goal,
        }
    )


@pytest.fixture
def pairs(benchmark: Any) -> Pairs:
    return Pairs(benchmark)


@pytest.fixture
def speeds(benchmark: Any) -> Callable[..., None]:
    """Times ours against a number of gigabytes a second."""

    def measure(
        name: str,
        unit_count: int,
        ours: Callable[[], object],
        size: int,
        goal: float,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        def setup() -> None:
            before()
            warm_memory()

        benchmark.pedantic(ours, setup=setup, rounds=ROUNDS, iterations=1)
        seconds = list(benchmark.stats.stats.data)
        speeds = sorted(size / second / 1e9 for second in seconds)
        record(name, statistics.median(seconds) / unit_count * 1e9, "GB/s", None, speeds, goal)

    return measure


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="session")
def java() -> Iterator[Java]:
    process = Java(SLOTS, ITEMS)
    process.round("keys", KEYS, SEED)
    yield process
    process.close()


@pytest.fixture(scope="session")
def plain(scratch: Path) -> Plain:
    return Plain(scratch)


@pytest.fixture(scope="session")
def keys() -> pa.Array:
    return arrow_keys(np.arange(KEYS))


@pytest.fixture(scope="session")
def phy_offsets() -> np.ndarray:
    return np.arange(KEYS, dtype=np.int64) * 1200


@pytest.fixture(scope="session")
def timestamps() -> np.ndarray:
    return 1_700_000_000_000 + np.arange(KEYS, dtype=np.int64) // 40


@pytest.fixture(scope="session")
def java_file(java: Java, scratch: Path) -> Path:
    """The full file as RocketMQ writes it."""
    path = scratch / "10000000000000000"
    java.round("put", path, KEYS)
    return path


@pytest.fixture(scope="session")
def index(scratch: Path, keys: pa.Array, phy_offsets: np.ndarray, timestamps: np.ndarray) -> Iterator[IndexFile]:
    """The full file as rocketstore writes it."""
    with IndexFile.create(scratch / "20000000000000000", hash_slot_num=SLOTS, index_num=ITEMS) as file:
        file.put_keys(keys, phy_offsets, timestamps, topic=TOPIC)
        yield file


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not rows:
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="nanoseconds each, median; ratio, or GB/s: median of the pairs [least, most]")
    for column in ("", "rocketstore", "peer", "", "ratio", "goal"):
        table.add_column(column, justify="left" if column in ("", "peer") else "right")
    for row in rows:
        unit = "" if row["peer_ns"] is None else "x"
        ratio = f"{row['ratio']:.1f}{unit} [{row['ratio_min']:.1f}, {row['ratio_max']:.1f}]" if row["ratio"] else ""
        theirs = "" if row["peer_ns"] is None else f"{row['peer_ns']:,.1f}"
        goal = "" if row["goal"] is None else f"{row['goal']:g}{unit}"
        table.add_row(row["name"], f"{row['ours_ns']:,.1f}", row["peer"], theirs, ratio, goal)
    Console(width=120, markup=False).print(table)
    if lacking := known_names() - {row["name"] for row in rows}:
        terminalreporter.write_line(f"{RESULTS.name} is left as it is: {len(lacking)} of its rows were not measured")
        return
    machine = {"cpu": _cpu(), "python": platform.python_version(), "system": platform.platform(), "keys": KEYS}
    results = {"machine": machine, "versions": versions(), "rounds": ROUNDS, "rows": rows}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def versions() -> dict[str, str]:
    """The releases of RocketMQ and of the packages that are measured, and of those that measure."""
    pom = (Path(__file__).parent / "java" / "pom.xml").read_text(encoding="utf-8")
    found = {"RocketMQ": pom.partition("<rocketmq.version>")[2].partition("<")[0]}
    for name in ("rocketstore", "numpy", "pyarrow", "duckdb", "lmdb", "pyspark"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def known_names() -> set[str]:
    """The rows of results.json: a run of some benchmarks alone does not replace those of a whole one."""
    return {row["name"] for row in json.loads(RESULTS.read_text())["rows"]} if RESULTS.exists() else set()


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()

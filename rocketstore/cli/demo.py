"""``rocketstore demo``: an index built and searched with Spark, every answer compared with a serial build."""

import filecmp
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeVar

import click
import numpy as np
from rich.console import Console

from rocketstore.cli.formats import print_table, table_of
from rocketstore.cli.index_files import index_paths, open_index_files
from rocketstore.cli.options import geometry_options
from rocketstore.config import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM
from rocketstore.files.index_file import IndexFile
from rocketstore.kernels.phy_offsets import PhyOffsets

if TYPE_CHECKING:
    from rocketstore.cli.demo_spark import SparkDemo

__all__ = ["MAX_NUM", "Lookups", "Messages", "demo"]

MAX_NUM = 32
OLDEST_JAVA = 17
STRIDE = 1_000_003  # a prime, so that lookups jump through the messages and none comes twice
NOT_HERE = 1 << 40  # more messages than any demo makes
T = TypeVar("T")


@dataclass(frozen=True)
class Messages:
    """``count`` made-up messages: their key is the MD5 of their number, in hexadecimal."""

    count: int
    topic: str = "TopicTest"
    begin_timestamp: int = 1_700_000_000_000
    size: int = 1200
    per_millisecond: int = 40

    def columns(self) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Make their keys, physical offsets and store timestamps."""
        ids = np.arange(self.count)
        return keys_of(ids), ids * self.size, self.begin_timestamp + ids // self.per_millisecond


@dataclass(frozen=True)
class Lookups:
    """Keys to look up: ``present`` ones of the ``messages`` and ``absent`` ones, or those ``given``."""

    topic: str
    messages: int
    present: int
    absent: int
    given: list[str] | None = None

    def __len__(self) -> int:
        return self.present + self.absent if self.given is None else len(self.given)

    def ids(self) -> np.ndarray:
        """The number of the message of each key."""
        return np.concatenate(
            (
                np.arange(self.present) * STRIDE % max(self.messages, 1),
                self.messages + np.arange(self.absent),
            )
        )

    def keys(self) -> list[str]:
        return keys_of(self.ids()) if self.given is None else self.given


class Step(NamedTuple):
    """One line of the result."""

    what: str
    rows: int
    seconds: float
    checked: str


def keys_of(ids: np.ndarray) -> list[str]:
    md5 = hashlib.md5
    return [md5(b"%d" % number, usedforsecurity=False).hexdigest() for number in ids.tolist()]


@click.command()
@click.option(
    "--messages", type=click.IntRange(1), default=2_000_000, show_default=True, help="Messages to index."
)
@click.option(
    "--lookups", type=click.IntRange(0), default=1_000_000, show_default=True, help="Keys to look up."
)
@click.option(
    "--absent",
    type=click.IntRange(0),
    default=100_000,
    show_default=True,
    help="Keys to look up that are not there.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the index files here, in an empty directory.",
)
@click.option(
    "--index",
    type=click.Path(file_okay=False, path_type=Path),
    help="Build nothing: look keys up in this index directory.",
)
@click.option("--topic", help="With --keys: their topic.")
@click.option(
    "--keys",
    type=click.File(encoding="utf-8"),
    help="With --index: keys, one a line. Without, --absent keys that are not there.",
)
@geometry_options
def demo(
    messages: int,
    lookups: int,
    absent: int,
    out: Path | None,
    index: Path | None,
    topic: str | None,
    keys: TextIO | None,
    hash_slot_num: int | None,
    index_num: int | None,
) -> None:
    """Build an index with Spark and look keys up through its UDFs, compared with a serial build here.

    Every byte of the files and every answer is compared; the exit status is 1 if anything differs. Without
    Java or PySpark the serial part runs alone.
    """
    if keys is not None and (index is None or topic is None):
        raise click.UsageError("--keys needs --index and --topic")
    geometry = (hash_slot_num, index_num) if hash_slot_num and index_num else None
    reason = why_no_spark()
    if reason:
        click.echo(f"Spark is left out: {reason}.", err=True)
    with scratch_directory(out) as scratch:
        if index is not None:
            given = None if keys is None else [line.rstrip("\n") for line in keys]
            asked = Lookups(topic or Messages.topic, NOT_HERE, 0, absent, given)
            steps = search(index, asked, geometry, scratch, not reason)
        else:
            steps = build_and_search(Messages(messages), lookups, absent, geometry, scratch, not reason)
    report(steps)


def build_and_search(
    messages: Messages,
    lookups: int,
    absent: int,
    geometry: tuple[int, int] | None,
    scratch: Path,
    with_spark: bool,
) -> list[Step]:
    geometry = geometry or (DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM)
    asked = Lookups(messages.topic, messages.count, lookups, absent)
    serial = scratch / "serial"
    _, seconds = timed(
        "serial build", partial(build_serial, serial, messages.topic, messages.columns(), geometry)
    )
    steps = [Step("serial: put_keys", messages.count, seconds, "")]
    answers, step = search_serial(serial, asked, geometry)
    steps.append(step._replace(checked=check_own_offsets(answers, asked, messages)))
    if not with_spark:
        return steps
    from rocketstore.cli.demo_spark import SparkDemo

    with SparkDemo(scratch) as spark:
        built = scratch / "spark"
        _, seconds = timed("Spark build", lambda: spark.write_index(messages, built, geometry))
        steps.append(Step("Spark: write_index", messages.count, seconds, check_files(serial, built)))
        steps += search_spark(spark, built, asked, geometry, answers)
    return steps


def search(
    index: Path, asked: Lookups, geometry: tuple[int, int] | None, scratch: Path, with_spark: bool
) -> list[Step]:
    answers, step = search_serial(index, asked, geometry)
    steps = [step._replace(checked=f"{len(answers.values):,} candidates")]
    if with_spark:
        from rocketstore.cli.demo_spark import SparkDemo

        with SparkDemo(scratch) as spark:
            steps += search_spark(spark, index, asked, geometry, answers)
    return steps


def build_serial(
    directory: Path, topic: str, columns: tuple[list[str], np.ndarray, np.ndarray], geometry: tuple[int, int]
) -> None:
    """Fill index files one after the other, as a broker does."""
    directory.mkdir()
    done, end_phy_offset, end_timestamp, number = 0, 0, 0, 0
    keys, phy_offsets, store_timestamps = columns
    while done < len(keys):
        with IndexFile.create(
            directory / f"{number:017}",
            hash_slot_num=geometry[0],
            index_num=geometry[1],
            end_phy_offset=end_phy_offset,
            end_timestamp=end_timestamp,
        ) as file:
            done += file.put_keys(keys[done:], phy_offsets[done:], store_timestamps[done:], topic=topic)
            end_timestamp, end_phy_offset = file.header.end_timestamp, file.header.end_phy_offset
        number += 1


def search_serial(
    directory: Path, asked: Lookups, geometry: tuple[int, int] | None
) -> tuple[PhyOffsets, Step]:
    keys = asked.keys()
    with open_index_files(directory, *(geometry or (None, None))) as index:
        answers, seconds = timed("serial lookups", lambda: index.query_offsets(asked.topic, keys, MAX_NUM))
    return answers, Step("serial: select_phy_offsets", len(asked), seconds, "")


def search_spark(
    spark: "SparkDemo",
    directory: Path,
    asked: Lookups,
    geometry: tuple[int, int] | None,
    answers: PhyOffsets,
) -> Iterator[Step]:
    for engine in ("pandas", "arrow"):
        look_up = partial(spark.select_phy_offset, directory, asked, geometry, engine)
        found, seconds = timed(f"Spark lookups, {engine}", look_up)
        yield Step(f"Spark: select_phy_offset, {engine}", len(asked), seconds, check_answers(answers, found))


# ---- checks: each tells what it found equal, or raises ----------------------------------------------------


def check_own_offsets(answers: PhyOffsets, asked: Lookups, messages: Messages) -> str:
    """Check that each message is among the candidates for its key."""
    keys = np.repeat(np.arange(len(asked)), np.diff(answers.offsets))
    own = answers.values == asked.ids()[keys] * messages.size
    found = np.bincount(keys[own], minlength=len(asked))[: asked.present]
    if not found.all():
        raise click.ClickException(f"serial lookups: the message of key {int(found.argmin())} was not found")
    return f"all {asked.present:,} messages found"


def check_files(expected: Path, built: Path) -> str:
    """Check that two directories hold the same index files, whatever their names."""
    ours, theirs = index_paths(expected), index_paths(built)
    if len(ours) != len(theirs):
        raise click.ClickException(f"{built}: {len(theirs)} files, where the serial build made {len(ours)}")
    for one, other in zip(ours, theirs, strict=True):
        if not filecmp.cmp(one, other, shallow=False):
            raise click.ClickException(f"{other}: not the bytes of {one}, which the serial build made")
    return f"{len(ours)} of {len(ours)} files the same"


def check_answers(expected: PhyOffsets, found: PhyOffsets) -> str:
    """Check that all keys have the same offsets in the same order."""
    if np.array_equal(expected.offsets, found.offsets) and np.array_equal(expected.values, found.values):
        return f"{len(found):,} answers the same"
    n = min(len(expected), len(found))
    row = next((i for i in range(n) if not np.array_equal(expected[i], found[i])), n)
    raise click.ClickException(f"Spark lookups: other answers than the serial ones, first for key {row}")


# ---- the rest --------------------------------------------------------------------------------------------


def why_no_spark() -> str:
    """Return why Spark cannot run here, or an empty string."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return f"Java is missing, it needs {OLDEST_JAVA} or newer"
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = re.search(r'version "(\d+)', version)
    if number is None or int(number[1]) < OLDEST_JAVA:
        return f"{java} is not Java {OLDEST_JAVA} or newer"
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    return f"{missing[0]} is missing: pip install rocketstore[spark]" if missing else ""


@contextmanager
def scratch_directory(out: Path | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="rocketstore-demo-") as name:
            yield Path(name)
        return
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise click.ClickException(f"{out}: is not empty: give a new directory")
    yield out


def timed(what: str, work: Callable[[], T]) -> tuple[T, float]:
    with Console(stderr=True).status(f"{what} ..."):
        start = time.perf_counter()
        result = work()
        return result, time.perf_counter() - start


def report(steps: list[Step]) -> None:
    table = table_of(["step"], ["rows", "seconds", "rows/s"])
    table.add_column("checked", style="green")
    for step in steps:
        rate = f"{step.rows / step.seconds:,.0f}"
        table.add_row(step.what, f"{step.rows:,}", f"{step.seconds:.2f}", rate, step.checked)
    print_table(table)

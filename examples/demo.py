"""Process a store in Spark, and compare every byte and answer with a serial run. ``make demo`` runs this program."""

import filecmp
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import click
import numpy as np
from click.core import ParameterSource
from demo_serial import (
    MAX_NUM,
    Counts,
    Lookups,
    choose_items,
    choose_keys,
    find_candidates,
    find_verified,
    link_log,
    write_store,
)
from rich.console import Console

import rocketstore
from rocketstore import IndexService, PhyOffsets, StoreConfig, rebuild
from rocketstore.cli import prepare_streams
from rocketstore.cli.group import errors_in_one_line, log_to_standard_error
from rocketstore.cli.options.basics import PATH
from rocketstore.cli.options.sizes import geometry_options
from rocketstore.cli.options.stores import broker_conf_option
from rocketstore.cli.settings import broker_config
from rocketstore.cli.tables import cell, print_table, table_of
from rocketstore.cli.text import note
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_directory import index_paths
from rocketstore.root_places import QUEUE_PARTS
from rocketstore.survey.survey import survey_store

OLDEST_JAVA = 17
SHOWN = 15
T = TypeVar("T")


class Step(NamedTuple):
    """One line of the result."""

    what: str
    rows: int
    seconds: float
    checked: str


@click.command()
@click.option("--messages", type=click.IntRange(1), default=1_000_000, show_default=True, help="Messages to write.")
@click.option("--store", type=PATH, help="Read this store instead of writing one. It is not changed.")
@click.option("--index", type=PATH, help="Only look up keys in this index directory.")
@click.option("--lookups", type=click.IntRange(1), default=1_000_000, show_default=True, help="Keys to look up.")
@click.option("--absent", type=click.IntRange(0), default=100_000, show_default=True, help="Missing keys to look up.")
@click.option("--out", type=PATH, help="Keep all files of the demo in this directory, which must be empty.")
@geometry_options
@broker_conf_option
@click.pass_context
@errors_in_one_line()
def demo(
    ctx: click.Context,
    /,
    messages: int,
    store: Path | None,
    index: Path | None,
    lookups: int,
    absent: int,
    out: Path | None,
    geometry: IndexGeometry | None,
) -> None:
    """Process a store in Spark, and compare every byte and every answer with a serial run.

    The demo writes a store of generated messages. On Spark, it builds the index, rebuilds the queues, counts the
    messages by a SQL query, and looks up keys by UDFs. The exit status is 1 if a result differs. Without Java or
    PySpark, only the serial part runs.
    """
    if store is not None and index is not None:
        raise click.UsageError("--store and --index: give only one of them")
    if (store or index) is not None and ctx.get_parameter_source("messages") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--messages: give it without --store and --index, since these write no messages")
    if (store or index) is None and geometry is not None:
        raise click.UsageError("--slots and --items: give them with --store or --index")
    reason = why_no_spark()
    if reason:
        note(f"Spark is left out: {reason}.")
    with scratch_directory(out) as scratch:
        if index is not None:
            slots, items = geometry or (None, None)
            config = StoreConfig(max_hash_slot_num=slots, max_index_num=items)
            report(look_up(index, config, lookups, absent, scratch, not reason))
            return
        steps, given = [], broker_config(ctx)
        if geometry is not None:
            slots, items = geometry
            given = replace(given or StoreConfig(), max_hash_slot_num=slots, max_index_num=items)
        if store is None:
            store, given = scratch / "store", replace(StoreConfig.small(), message_index_enable=False)
            _, seconds = timed("writing", lambda: write_store(scratch / "store", messages, given))
            steps = [Step("put_messages", messages, seconds, "")]
        config = replace(survey_store(store, given).sizes.config, message_index_enable=True)
        steps += run(store, config, lookups, absent, scratch, not reason)
    report(steps)


def run(store: Path, config: StoreConfig, most: int, absent: int, scratch: Path, with_spark: bool) -> list[Step]:
    """Run all steps serially, then on Spark, and compare the results."""
    serial, built = scratch / "serial", scratch / "spark"
    made, seconds = timed("serial rebuild", lambda: rebuild(store, out=serial, config=config))
    steps = [Step("serial: rebuild, index and queues", made.index_items, seconds, "")]
    with rocketstore.open(store, config=config) as reader:
        log = reader.commit_log
        asked, _ = timed("reading keys", lambda: choose_keys(log, most, absent))
        link_log(log, serial)
        candidates, seconds = timed("serial lookups", lambda: find_candidates(serial, config, asked))
        steps.append(Step("serial: query_offsets", len(asked.keys), seconds, check_own(candidates, asked)))
        verified, seconds = timed("serial lookups", lambda: find_verified(serial, config, asked))
        steps.append(Step("serial: query_messages", len(asked.keys), seconds, check_own(verified, asked)))
        if not with_spark:
            return steps
        from demo_spark import SparkDemo, count_messages

        counts, seconds = timed("serial count", lambda: count_messages(log))
        messages = sum(counts.values())
        steps.append(Step("serial: count by topic and tag", messages, seconds, ""))
        with SparkDemo(scratch, config) as spark:
            _, seconds = timed("Spark: queues", lambda: spark.rebuild_consume_queue(store, built))
            steps.append(Step("Spark: rebuild_consume_queue", messages, seconds, check_queues(serial, built)))
            _, seconds = timed("Spark: index", lambda: spark.build_index(store, built / "index"))
            steps.append(Step("Spark: build_index", made.index_items, seconds, check_index(serial, built)))
            link_log(log, built)
            found, seconds = timed("Spark: SQL", lambda: spark.count_messages(built))
            steps.append(Step("Spark: SQL, count by topic and tag", messages, seconds, check_counts(counts, found)))
            for what, engine, expected in (
                ("pandas", "pandas", candidates),
                ("arrow", "arrow", candidates),
                ("arrow, verified", "arrow", verified),
            ):
                look_up = partial(spark.select_phy_offset, built, asked, engine, expected is verified)
                answers, seconds = timed(f"Spark: lookups, {what}", look_up)
                checked = check_answers(expected, answers)
                steps.append(Step(f"Spark: select_phy_offset, {what}", len(asked.keys), seconds, checked))
    show_counts(counts)
    return steps


def look_up(
    directory: Path, config: StoreConfig, most: int, absent: int, scratch: Path, with_spark: bool
) -> list[Step]:
    """Look up keys with the hashes of an index's items, serially and then on Spark, and compare the answers."""
    slots, items = config.max_hash_slot_num, config.max_index_num
    with IndexService.open(directory, hash_slot_num=slots, index_num=items) as index:
        if not index.files:
            raise click.ClickException(f"{directory}: no index files here: give the index directory of a store")
        asked, _ = timed("reading items", lambda: choose_items(index, most, absent))
        expected, seconds = timed("serial lookups", lambda: index.query_offsets(None, asked.keys, MAX_NUM))
    steps = [Step("serial: query_offsets", len(asked.keys), seconds, check_own(expected, asked))]
    if with_spark:
        from demo_spark import SparkDemo

        with SparkDemo(scratch, config) as spark:
            for engine in ("pandas", "arrow"):
                ask = partial(spark.select_phy_offset, directory, asked, engine, False)
                answers, seconds = timed(f"Spark: lookups, {engine}", ask)
                checked = check_answers(expected, answers)
                steps.append(Step(f"Spark: select_phy_offset, {engine}", len(asked.keys), seconds, checked))
    return steps


# ---- checks: each returns a text about equal results, or raises ----------------------------------------------


def check_own(answers: PhyOffsets, asked: Lookups) -> str:
    """Check that each message is among the answers for its key, unless the answer has the largest number of offsets."""
    rows = np.repeat(np.arange(len(answers)), np.diff(answers.offsets))
    own = np.bincount(rows[answers.values == asked.phy_offsets[rows]], minlength=len(answers))
    is_full = np.diff(answers.offsets) == MAX_NUM
    lost = np.flatnonzero((asked.phy_offsets >= 0) & (own == 0) & ~is_full)
    if len(lost):
        row = int(lost[0])
        place = f"the message at {asked.phy_offsets[row]}"
        raise click.ClickException(f"serial lookups: {place} was not found by its key {asked.keys[row]!r}")
    return f"all {np.count_nonzero(asked.phy_offsets >= 0):,} messages found"


def check_queues(expected: Path, built: Path) -> str:
    """Check that the files of the queues of two stores are equal."""
    names, others = (
        {path.relative_to(root) for part in QUEUE_PARTS for path in (root / part).rglob("*") if path.is_file()}
        for root in (expected, built)
    )
    if names != others:
        raise click.ClickException(f"{built}: {sorted(names ^ others)[0]} is in only one of the two builds")
    return check_files([(expected / name, built / name) for name in sorted(names)])


def check_index(expected: Path, built: Path) -> str:
    """Check that two stores have the same index files."""
    ours, theirs = index_paths(expected / "index"), index_paths(built / "index")
    if len(ours) != len(theirs):
        raise click.ClickException(f"{built}: {len(theirs)} files, where the serial build made {len(ours)}")
    return check_files(list(zip(ours, theirs, strict=True)))


def check_files(pairs: list[tuple[Path, Path]]) -> str:
    for one, other in pairs:
        if not filecmp.cmp(one, other, shallow=False):
            raise click.ClickException(f"{other}: differs from {one} of the serial build")
    return f"{len(pairs):,} of {len(pairs):,} files the same"


def check_counts(expected: Counts, found: Counts) -> str:
    if expected != found:
        raise click.ClickException(f"Spark SQL: the counts are {found}, but the serial run has {expected}")
    return f"{len(found):,} counts the same"


def check_answers(expected: PhyOffsets, found: PhyOffsets) -> str:
    """Check that both runs found the same offsets in the same order for each key."""
    if np.array_equal(expected.offsets, found.offsets) and np.array_equal(expected.values, found.values):
        return f"{len(found):,} answers the same"
    n = min(len(expected), len(found))
    row = next((i for i in range(n) if not np.array_equal(expected[i], found[i])), n)
    raise click.ClickException(f"Spark lookups: answers differ from the serial run, first for key {row}")


# ---- environment and output ----------------------------------------------------------------------------------


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


def show_counts(counts: Counts) -> None:
    """Print the answer of the SQL query, the largest counts first."""
    table = table_of(["topic", "tags"], ["messages"])
    largest = sorted(counts.items(), key=lambda item: -item[1])
    for (topic, tags), count in largest[:SHOWN]:
        table.add_row(cell("topic", topic), cell("tags", tags), f"{count:,}")
    print_table(table)
    if len(counts) > SHOWN:
        click.echo(f"... and {len(counts) - SHOWN:,} more topics and tags")


def report(steps: list[Step]) -> None:
    table = table_of(["step"], ["rows", "seconds", "rows/s"])
    table.add_column("checked", style="green")
    for step in steps:
        rate = f"{step.rows / step.seconds:,.0f}"
        table.add_row(step.what, f"{step.rows:,}", f"{step.seconds:.2f}", rate, step.checked)
    print_table(table)


if __name__ == "__main__":
    prepare_streams()
    log_to_standard_error()
    demo()

"""The options of ``rocketstore export``, and combinations of them that are refused."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.options.selection import UnconsumedQuestion
from rocketstore.cli.transfer.forms import TABLES
from rocketstore.cli.unconsumed import UNCONSUMED_CHOOSES, are_given
from rocketstore.log.message_filter import MessageFilter

STANDARD_OUTPUT = Path("-")


@dataclass(frozen=True)
class ExportOptions:
    """The options of the command besides those of a scan. Attributes: the values of the options of these names.

    form: of --format; None to choose it by the name of TARGET. hashed: of --hash. message_filter: of --where, --grep
    and --regex.
    """

    form: str | None
    raw_body: bool
    containers: bool
    columns: tuple[str, ...] | None
    charset: str
    compression: str | None
    partition_by: tuple[str, ...]
    deleted: bool
    resume: bool
    force: bool
    unconsumed: UnconsumedQuestion | None
    dlq: tuple[str, ...]
    message_filter: MessageFilter
    limit: int | None
    redact: tuple[str, ...]
    hashed: tuple[str, ...]
    hash_key: str | None
    decode: str | None
    state: Path | None

    @property
    def has_containers(self) -> bool:
        """Whether the records of inner batches are written, and not the messages in them."""
        return self.containers or self.raw_body


def split_options(values: Mapping[str, Any]) -> tuple[ExportOptions, dict[str, Any]]:
    """Return the options of the export, and the others, which are those of ``scan_conditions``."""
    names = {field.name for field in fields(ExportOptions)}
    options = ExportOptions(**{name: values[name] for name in names})
    return options, {name: value for name, value in values.items() if name not in names}


def refuse_combinations(
    options: ExportOptions, scan_options: Mapping[str, Any], form: str, target: Path, *, reads_other_logs: bool
) -> None:
    """Raise UsageError for options that cannot be given together.

    Parameters: scan_options: those of ``scan_conditions``. form: the format of the file. reads_other_logs: whether the
    store reads tiered storage or compacted topics.
    """
    is_table = form in TABLES
    if options.partition_by and (not is_table or options.resume or options.force or target == STANDARD_OUTPUT):
        raise click.UsageError("--partition-by makes a new directory of Parquet or Arrow files, without --resume")
    if options.resume and options.force:
        raise click.UsageError("--resume and --force: give only one of them")
    if target == STANDARD_OUTPUT and (options.resume or is_table):
        raise click.UsageError("TARGET must be a file for --resume, for Parquet and for Arrow")
    if options.columns and options.raw_body:
        raise click.UsageError("--columns and --raw-body: give only one of them")
    if target == STANDARD_OUTPUT and options.compression not in (None, "none"):
        raise click.UsageError("--compression: TARGET must be a file: standard output is plain text")
    if options.decode is not None and (is_table or options.raw_body):
        raise click.UsageError("--decode writes JSON and CSV: Parquet, Arrow and --raw-body keep the bytes of bodies")
    if options.dlq and scan_options["topic"]:
        raise click.UsageError("--dlq and --topic: give only one of them")
    if (options.redact or options.hashed) and options.has_containers:
        raise click.UsageError("--redact and --hash change messages: give them without --containers and --raw-body")
    if options.state is not None:
        _refuse_beside_state(options, scan_options, target, reads_other_logs=reads_other_logs)
    if options.unconsumed is not None:
        _refuse_conditions(options, scan_options, reads_other_logs=reads_other_logs)


def _refuse_beside_state(
    options: ExportOptions, scan_options: Mapping[str, Any], target: Path, *, reads_other_logs: bool
) -> None:
    """Raise UsageError for options that do not fit a directory of parts."""
    others = {
        "--resume": options.resume,
        "--force": options.force,
        "--limit": options.limit is not None,
        "--unconsumed": options.unconsumed is not None,
        "--partition-by": options.partition_by,
        "--begin-offset": scan_options["begin_offset"] is not None,
        "--end-offset": scan_options["end_offset"] is not None,
        "--tiered and --compacted": reads_other_logs,
        "-": target == STANDARD_OUTPUT,
    }
    if given := [name for name, value in others.items() if value]:
        raise click.UsageError(f"--state makes TARGET a directory of parts: give it without {given[0]}")


def _refuse_conditions(options: ExportOptions, scan_options: Mapping[str, Any], *, reads_other_logs: bool) -> None:
    """Raise UsageError for options that choose messages besides --unconsumed."""
    if options.resume or options.dlq or are_given(scan_options):
        raise click.UsageError(f"{UNCONSUMED_CHOOSES}, and without --resume and --dlq")
    if reads_other_logs:
        raise click.UsageError("--unconsumed writes messages of the log: give it without --tiered and --compacted")

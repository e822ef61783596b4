"""The options of ``rocketstore export``."""

from typing import Any

import click

from rocketstore.cli.completion import complete_groups
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import COUNT, PATH, STORE, FormatChoice
from rocketstore.cli.options.output import (
    BODY_RULE,
    SAFE_CSV_RULE,
    charset_option,
    containers_option,
    decode_options,
    message_columns_option,
)
from rocketstore.cli.options.selection import filter_options, selection_options, unconsumed_options
from rocketstore.cli.options.stores import compacted_option, deleted_option, stores_argument, tier_options
from rocketstore.cli.options.times import zone_options
from rocketstore.cli.text import SAFE_CSV
from rocketstore.cli.transfer.forms import COMPRESSIONS, FORMATS, PARTITIONS


def parse_partitions(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, ...]:
    names = tuple(filter(None, map(str.strip, (text or "").split(","))))
    if text is not None and (not names or len({*names}) < len(names) or not {*names} <= {*PARTITIONS}):
        raise click.BadParameter(f"give {' or '.join(PARTITIONS)}, or both with a comma between them", ctx, param)
    return names


format_option = click.option(
    "--format",
    "form",
    type=FormatChoice([*FORMATS, SAFE_CSV]),
    help=f"json: one object a line; csv: lists and maps are written as JSON; {SAFE_CSV_RULE}  "
    "[default: by the name of TARGET]",
)


@click.command(cls=GroupedCommand, epilog=BODY_RULE)
@stores_argument(words=("topic",))
@click.argument("target", type=STORE)
@tier_options
@compacted_option
@selection_options
@filter_options
@click.option(
    "--dlq",
    metavar="GROUP",
    multiple=True,
    shell_complete=complete_groups,
    help="Only the dead letters of this consumer group: the topic %DLQ%GROUP. May be repeated.",
)
@unconsumed_options
@format_option
@containers_option
@click.option(
    "--raw-body",
    is_flag=True,
    help="Add bodies as they are stored, for an import of the same bytes. Includes --containers.",
)
@message_columns_option
@charset_option
@decode_options
@zone_options
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS["parquet"]),
    help="Of the file. JSON and CSV also have it by the name of TARGET: out.jsonl.gz, out.csv.zst.  "
    "[default: snappy in Parquet, else none]",
)
@click.option(
    "--partition-by",
    metavar="topic,day",
    callback=parse_partitions,
    help="Make TARGET a directory, with a directory for each topic, or each day of the store time in UTC.",
)
@click.option("--limit", type=COUNT, help="Largest number of messages.")
@click.option(
    "--redact",
    multiple=True,
    metavar="FIELD",
    help="Remove a column, a property or a field of JSON bodies. May be repeated. Write property.NAME or body.NAME for "
    "only one of them.",
)
@click.option(
    "--hash",
    "hashed",
    multiple=True,
    metavar="FIELD",
    help="Replace a field by its SHA-256, or with --hash-key by its HMAC-SHA-256. May be repeated.",
)
@click.option(
    "--hash-key",
    metavar="TEXT",
    envvar="ROCKETSTORE_HASH_KEY",
    help="The key of --hash, so that nobody without it can guess values. Better given in ROCKETSTORE_HASH_KEY, which "
    "other users of the machine do not see.",
)
@deleted_option("With --topic, or a directory for each topic, write messages of deleted topics too.")
@click.option(
    "--state",
    metavar="FILE",
    type=PATH,
    help="Make TARGET a directory, and add a file with the messages that are new since the last run. FILE keeps up to "
    "which offset the log was read. The exit status is 0 if nothing is new.",
)
@click.option("--resume", is_flag=True, help="Continue an export that was interrupted.")
@click.option("--force", is_flag=True, help="Replace TARGET, and start again.")
def export(**options: Any) -> None:
    """Write the messages of STORE that meet all conditions to TARGET, in the order of the commit log.

    --unconsumed writes the messages that a consumer group still gets: also delayed retries, which are in the schedule
    topic, and popped messages that are not acknowledged. It cannot be combined with the other conditions.

    Of several stores, TARGET is a directory with a directory broker=NAME for each, whose file is messages.parquet, or
    has the name of another format. DuckDB, pandas and Spark read it with a column broker.

    TARGET may be the URI of a file on another file system, such as s3://bucket/out.parquet. It is written to a
    temporary directory of this machine first.

    TARGET appears when it is complete. Until then it grows in the directory TARGET.partial. An interrupted export
    resumes after the last file of the log that is on the disk. JSON and CSV can be written to "-", standard output.

    Messages that are only in tiered storage have no physical offset. They follow the other messages,
    queue by queue, as do those of compacted topics with --compacted.

    If no message is found, TARGET has no rows, and the exit status is 1. Damaged records are left out. Standard error
    names their offsets, and the exit status is 1. With --topic, messages of deleted topics are left out, counted and
    named. A message whose body cannot be decoded is written. A warning gives
    the number of these messages.

    With --charset, JSON and CSV have bodies as text, which an import would store as UTF-8.
    """
    from rocketstore.cli.transfer.export import run

    run(**options)

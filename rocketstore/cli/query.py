"""``rocketstore query``: the messages that may have a key."""

from pathlib import Path

import click

from rocketstore.cli.formats import format_option, table_of, write_rows
from rocketstore.cli.index_files import open_index_file, open_index_files
from rocketstore.cli.options import geometry_options, time_option
from rocketstore.store.index_service import LONG_MAX, MAX_MSGS_NUM_BATCH

__all__ = ["query"]


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--topic", required=True, help="The messages' topic.")
@click.option("--key", required=True, help="A key, a unique key, or tags.")
@click.option(
    "--max",
    "max_num",
    type=click.IntRange(1, MAX_MSGS_NUM_BATCH),
    default=MAX_MSGS_NUM_BATCH,
    show_default=True,
    help="At most so many, the newest.",
)
@time_option("--since", "Stored at this time or later.")
@time_option("--until", "Stored before this time.")
@click.option(
    "--type", "index_type", type=click.Choice(["K", "U", "T"]), help="K: key, U: unique key, T: tags."
)
@geometry_options
@format_option
def query(
    path: Path,
    topic: str,
    key: str,
    max_num: int,
    since: int | None,
    until: int | None,
    index_type: str | None,
    hash_slot_num: int | None,
    index_num: int | None,
    output_format: str | None,
) -> None:
    """Find a key in PATH, an index directory or one file, as a broker does: newest first.

    Prints physical offsets of the commit log. An index holds hashes of keys and times in whole seconds, so
    these are candidates: a message of another key with the same hash may be among them. A time is ISO 8601,
    UTC unless it names a zone, or epoch milliseconds.
    """
    begin = 0 if since is None else since
    end = LONG_MAX if until is None else until - 1
    if end < begin:
        raise click.UsageError("--until must be after --since")
    if path.is_dir():
        with open_index_files(path, hash_slot_num, index_num) as index:
            offsets = index.query_offset(topic, key, max_num, begin, end, index_type).phy_offsets
    else:
        prefix = f"{topic}#T" if index_type == "T" else topic
        with open_index_file(path, hash_slot_num, index_num) as file:
            offsets = file.select_phy_offset(f"{prefix}#{key}", max_num, begin, end)
    rows = [{"phyOffset": offset} for offset in offsets]
    table = table_of([], ["phyOffset"])
    for offset in offsets:
        table.add_row(str(offset))
    if rows:
        write_rows(rows, output_format, lambda: table)
    click.echo(f"{len(rows)} found by the key's hash: look into the messages to be sure", err=True)

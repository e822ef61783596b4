"""The options of ``rocketstore sql``."""

from pathlib import Path
from typing import Any

import click

from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH
from rocketstore.cli.options.output import containers_option, format_option, full_option
from rocketstore.cli.options.stores import compacted_option, stores_argument, tier_options
from rocketstore.cli.options.times import zone_options

TEXT_RULE = (
    "In JSON and CSV, times are epoch milliseconds without --iso, and bytes that are not UTF-8 text are "
    '"base64:" and their base64 text.'
)


@click.command(cls=GroupedCommand, epilog=TEXT_RULE)
@stores_argument(nargs=1)
@click.argument("statement", required=False)
@tier_options
@compacted_option
@click.option("--files", is_flag=True, help="Let the statement read files, as in FROM 'prices.csv'.")
@click.option("-o", "--output", "target", type=PATH, metavar="FILE.parquet", help="Write the rows to a Parquet file.")
@click.option("--skip-damaged", is_flag=True, help="Leave damaged records of the log out, with a warning.")
@containers_option
@zone_options
@full_option
@format_option
def sql(stores: Any, statement: str | None, target: Path | None, **options: Any) -> None:
    """Run a SELECT of DuckDB on STORE. A terminal without STATEMENT gives a prompt; "-" reads standard input.

    \b
    Tables, each computed if STATEMENT names it:
      messages     the columns of cat, with body (BLOB), body_text, body_json
      queues       the units of the queues
      topics, groups, lag, index_files, pending
      findings     what verify finds

    body_text is null if a body is not UTF-8, body_json if it is no JSON, so that body_json->>'amount' works on a topic
    with bad bodies. A query reads only the columns and the messages that it needs. It sees times in the zone of
    --tz.
    """
    from rocketstore.cli.sql import run

    run(stores, statement, target, **options)

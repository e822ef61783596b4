"""The options of ``rocketstore info``."""

from typing import Any

import click

from rocketstore.cli.columns import INDEX_FILES, SUMMARY
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.sizes import geometry_options
from rocketstore.cli.options.stores import stores_or_index_argument, tier_options


@click.command(cls=GroupedCommand)
@stores_or_index_argument()
@tier_options
@geometry_options
@rows_options(*dict.fromkeys([*SUMMARY, *INDEX_FILES]), has_broker=True)
def info(**options: Any) -> None:
    """Summarize PATH: a store, an index directory or an index file. Times are UTC.

    For a store: the number of messages, their times, the part of the log that the index covers, and whether the store
    was stopped cleanly. For index files: the contents of the headers. slotsUsed is counted in the slots. A header that
    disagrees with slots and items is a problem.
    """
    from rocketstore.cli.info import run

    run(**options)

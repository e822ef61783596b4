"""The options of ``rocketstore import``."""

from pathlib import Path
from typing import Any

import click

from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH, FormatChoice
from rocketstore.cli.options.sizes import geometry_options, size_option
from rocketstore.cli.options.stores import allow_unreadable_option, broker_conf_option, write_elsewhere_option
from rocketstore.cli.transfer.forms import FORMATS
from rocketstore.limits import INT_MAX


@click.command("import", cls=GroupedCommand)
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("store", type=PATH)
@click.option("--format", "form", type=FormatChoice(FORMATS), help="[default: by the name of SOURCE]")
@click.option("--keep-times", is_flag=True, help="Keep the store times and store hosts of SOURCE.")
@click.option(
    "--topic-map",
    multiple=True,
    metavar="OLD=NEW",
    help="Put the messages of topic OLD into topic NEW, to be consumed again: '%DLQ%billing=Orders'. May be repeated.",
)
@click.option("--resume", is_flag=True, help="Continue an import that was interrupted.")
@click.option("--force", is_flag=True, help="Start again, even if an interrupted import has stored rows.")
@click.option(
    "--small",
    is_flag=True,
    help="Give a new STORE small files, not those of a broker: log files of 1 MiB, into which a message must fit.",
)
@size_option("--log-file-size", 1, INT_MAX, help="Size of the files of the commit log, such as 64M.")
@geometry_options
@broker_conf_option
@write_elsewhere_option
@allow_unreadable_option
@click.pass_context
def import_(ctx: click.Context, /, **options: Any) -> None:
    """Put the messages of SOURCE into STORE. If STORE is missing, it is made. Stop the broker of STORE first.

    SOURCE is a file that export writes, or "-" for standard input. Only the columns topic and body are required. On
    standard input, Arrow must be a stream.

    SOURCE does not contain the types of topics. A topic becomes a topic of batches if its first message is an inner
    batch. For other cases, copy config/topics.json of the old store into STORE/config first.

    --resume continues an import after an interruption, after a row was corrected in SOURCE, or after SOURCE has grown.
    The stored rows must still be the first rows of SOURCE. They are not stored again.

    --topic-map makes new messages: the properties that a broker adds for retries, delays and transactions are removed,
    and so are reconsumeTimes. The unique key stays, and properties name the topic, the message id and the place of the
    origin. The file config/rocketstore-redrive.jsonl of STORE keeps a message from being put twice. So the same command
    may be run again, also after a kill.
    """
    from rocketstore.cli.transfer.import_ import run

    run(ctx, **options)

"""The options of ``rocketstore split``."""

from typing import Any

import click

from rocketstore.cli.columns import SPLIT_PARTS
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import allow_unreadable_option, broker_conf_option, deleted_option


def parse_parts(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the topics of each part from texts such as "billing=Orders,Refunds"."""
    parts: dict[str, list[str]] = {}
    for text in texts:
        name, separator, topics = text.partition("=")
        if not separator or not name or not topics.strip(","):
            raise click.BadParameter(f"{text!r}: must be like billing=Orders,Refunds", ctx, param)
        parts.setdefault(name, []).extend(filter(None, topics.split(",")))
    return parts


@click.command(cls=GroupedCommand)
@click.argument("store", type=PATH)
@click.argument("new", type=PATH)
@click.option("--by", type=click.Choice(["topic"]), default="topic", show_default=True, help="What gets a store.")
@click.option(
    "--part",
    "parts",
    multiple=True,
    metavar="NAME=TOPIC,TOPIC",
    callback=parse_parts,
    help="Write these topics into one store. May be repeated. Other topics have a store each.",
)
@click.option("--topic", multiple=True, help="Write only the stores of this topic. May be repeated.")
@deleted_option("Write stores of deleted topics too.")
@broker_conf_option
@allow_unreadable_option
@rows_options(*SPLIT_PARTS, has_limit=False, has_zone=False)
@click.pass_context
def split(ctx: click.Context, /, **options: Any) -> None:
    """Write a store for each topic of STORE in the directory NEW. STORE is not changed. Stop its broker first.

    Each row is a new store. It has the messages of its topics at the same queue offsets, and the topics, consumer
    offsets and groups that belong to them. Physical offsets change. After an interruption, run the same command again.
    """
    from rocketstore.cli.transfer.split import run

    run(ctx, **options)

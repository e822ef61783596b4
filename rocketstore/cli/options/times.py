"""Options for time zones and times."""

from collections.abc import Callable
from datetime import UTC
from typing import Any

import click

from rocketstore.cli.options.basics import Command, convert_text, with_all
from rocketstore.cli.text import ISO, ZONE
from rocketstore.text_values import find_time_zone, parse_time, wrong_unit


def keep_zone(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    """Keep the time zone of ``--tz`` in the context."""
    if name is not None:
        try:
            ctx.meta[ZONE] = find_time_zone(name)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None


def keep_broker_zone(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    """Keep the time zone for the times that the command shows, and return its name for the times of the broker."""
    keep_zone(ctx, param, name)
    return name


iso_option = click.option(
    "--iso",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, param, value: ctx.meta.__setitem__(ISO, value),
    help="Write times in JSON and CSV as ISO 8601, not as epoch milliseconds.",
)


def zone_options(command: Command) -> Command:
    """Add ``--tz`` and ``--iso``, whose values are kept in the context."""
    zone = click.option(
        "--tz",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=keep_zone,
        help="Time zone of the times that are shown, and of those that name no zone, such as Asia/Shanghai or local."
        "  [default: UTC]",
    )
    return zone(iso_option(command))


def parse_store_time(text: str) -> int:
    """Return a time as epoch milliseconds. Raises: ValueError, also for a time that the package would refuse as int."""
    time = parse_time(text, click.get_current_context().meta.get(ZONE, UTC))
    if wrong_unit(time) is not None:
        raise ValueError(f"{text!r} is a time of 1970: give 0 for the time before all messages")
    return time


def time_option(name: str, meaning: str, **settings: Any) -> Callable[[Command], Command]:
    """Return an option for a time. The command gets epoch milliseconds, or None."""
    return click.option(name, metavar="TIME", callback=convert_text(parse_store_time), help=meaning, **settings)


def time_options(command: Command) -> Command:
    """Add ``--since`` and ``--until``."""
    since = (
        "Only messages stored at this time or later: ISO 8601; epoch ms; 1h or '1 hour ago'; 10:00; today, or "
        "'yesterday 14:00'. The zone is that of --tz."
    )
    until = "Only messages stored before this time."
    return with_all(command, time_option("--since", since), time_option("--until", until))


exact_times_option = click.option(
    "--exact-times",
    is_flag=True,
    help="Read every file of the log. Without it, files are skipped if their first messages, and those of their "
    "neighbours, are more than a day before or after the requested times.",
)

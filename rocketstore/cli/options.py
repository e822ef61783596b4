"""Options that several commands have."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

__all__ = ["geometry_options", "time_option", "utc_text"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Turn an option's time into epoch milliseconds."""
    if value is None or re.fullmatch(r"-?\d+", value):
        return None if value is None else int(value)
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither an ISO 8601 time nor epoch milliseconds") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) // timedelta(milliseconds=1)


def time_option(name: str, meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an option that a command gets as epoch milliseconds, or None."""
    return click.option(name, metavar="TIME", callback=parse_time, help=meaning)


def utc_text(timestamp: int) -> str | None:
    """Write epoch milliseconds as ISO 8601 in UTC; None for 0, which says that there is no time yet."""
    if timestamp == 0:
        return None
    try:
        time = EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return f"{timestamp} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def geometry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--slots`` and ``--items``, which a command gets as ``hash_slot_num`` and ``index_num``."""
    for name, parameter, least, meaning in (
        ("--items", "index_num", 2, "The broker's maxIndexNum: items in a file, and one."),
        ("--slots", "hash_slot_num", 1, "The broker's maxHashSlotNum, for files that do not show it."),
    ):
        command = click.option(
            name,
            parameter,
            type=click.IntRange(least, 2**31 - 1),
            metavar="N",
            callback=both_or_none,
            help=meaning,
        )(command)
    return command


def both_or_none(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Refuse one half of a geometry, when the second half has been read."""
    other = {"index_num": "hash_slot_num", "hash_slot_num": "index_num"}[param.name or ""]
    if other in ctx.params and (ctx.params[other] is None) != (value is None):
        raise click.UsageError("--slots and --items: give both or none", ctx)
    return value

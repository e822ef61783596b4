"""Sizes as options give them: 4096, 64M, 2G."""

import re
from collections.abc import Callable

import click

__all__ = ["size_option"]

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
Parse = Callable[[click.Context, click.Parameter, str | None], int | None]


def size_option(least: int, most: int) -> Parse:
    """Make the callback of an option that is a number of bytes, which K, M or G may follow."""
    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        found = re.fullmatch("([0-9]{1,19})([KMG]?)", value.upper())
        if found is None:
            raise click.BadParameter(f"{value!r} is no number of bytes: 512M and 2G are some")
        size = int(found[1]) * UNITS[found[2]]
        if not least <= size <= most:
            raise click.BadParameter(f"{value} is not from {least} to {most} bytes")
        return size

    return parse

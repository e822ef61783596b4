"""Parts of options: types of values, callbacks, and decorators."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.text import TYPED
from rocketstore.cli.words_of_other_tools import find_format
from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from rocketstore.text_values import parse_integer, parse_share

Command = Callable[..., Any]


class PathType(click.Path):
    """The type of a path argument. With ``remote`` it also accepts the URI of a remote store."""

    def __init__(self, *, remote: bool) -> None:
        super().__init__()
        self.remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":  # probably a shell variable that is not set; pathlib would read it as the current directory
            self.fail("the path is empty: use . for the current directory", param, ctx)
        if value == "-":  # standard input or output
            path: Any = Path(value)
        elif ctx is not None and ctx.resilient_parsing:  # completion
            return Path(value)
        else:
            from rocketstore.disk.storage import local_path, to_path

            try:
                path = (to_path if self.remote else local_path)(super().convert(value, param, ctx))
            except ValueError as error:
                self.fail(str(error), param, ctx)
        if ctx is not None:
            ctx.meta.setdefault(TYPED, {})[path] = value
        return path


class FormatChoice(click.Choice):  # type: ignore[type-arg]  # generic since click 8.2
    """A choice of formats, whose error names the format that another word probably means."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            meant = find_format(str(value), list(self.choices))
            hint = "" if meant is None else f" Did you mean {meant!r}?"
            raise click.BadParameter(f"{error.message}{hint}", ctx, param) from None


def number(least: int, most: int) -> Callable[[Any], int]:
    """Return an integer type that names its range in the error message but not in the help, unlike click.IntRange."""

    def n(value: str | int) -> int:  # the help shows the name of this function
        try:
            found = parse_integer(str(value))
        except ValueError:
            raise click.BadParameter(f"{value!r} is no integer: give a number from {least} to {most}") from None
        if not least <= found <= most:
            raise click.BadParameter(f"{value} is not from {least} to {most}")
        return found

    return n


def share(text: str) -> float:
    """Return a part of all. Raises: click.BadParameter."""
    try:
        return parse_share(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def refusing(check: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return an option callback that reports the ValueError of ``check`` as wrong usage."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if value is not None:
                check(value)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None
        return value

    return callback


def compat_option(text: str) -> Callable[[Command], Command]:
    """Return the option --compat, a RocketMQ release. Parameters: text: the help text."""

    def check(text: str) -> None:
        from rocketstore.compat import Compat

        Compat.of(text)

    return click.option("--compat", metavar="RELEASE", callback=refusing(check), help=text)


PATH, STORE = PathType(remote=False), PathType(remote=True)
OFFSET = number(0, LONG_MAX)
QUEUE_ID = number(INT_MIN, INT_MAX)
QUEUE_OFFSET = number(LONG_MIN, LONG_MAX)
COUNT, COUNT_OR_NONE = number(1, INT_MAX), number(0, INT_MAX)


class CommandOfOffsets(GroupedCommand):
    """A command with an argument that may be a negative number, which click would read as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.ignore_unknown_options = any(re.fullmatch("-[0-9]+", arg) for arg in args)
        return super().parse_args(ctx, args)


def with_all(command: Command, *decorators: Callable[[Command], Command]) -> Command:
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def once(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    if len(values) > 1:
        raise click.BadParameter("give it only once", ctx, param)
    return values[0] if values else None


def once_option(name: str, **settings: Any) -> Callable[[Command], Command]:
    """Return an option that may be given only once. Click itself would silently use the last value."""
    return click.option(name, multiple=True, callback=once, **settings)


def convert_text(parse: Callable[[str], int]) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Return an option callback that converts a text, and reports the ValueError of ``parse`` as wrong usage."""

    def callback(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


def keep_as(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that keeps the value of an option in the context, under a name."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        ctx.meta[name] = value

    return keep

"""Errors of wrong usage: which option, argument or line a user probably meant."""

import re
from collections.abc import Sequence

import click

from rocketstore.cli.text import command as command_line
from rocketstore.cli.words_of_other_tools import EXAMPLES, find_option

OUTPUTS = ("--out", "--output")
TIMES = ("--time", "--since")


def unknown_option(
    command: click.Command, ctx: click.Context, error: click.NoSuchOption, typed: Sequence[str]
) -> click.UsageError:
    """Return the error of an option that a command does not have. Parameters: typed: the words after its name."""
    known = names_of_options(command)
    meant = find_time(error.option_name, typed, known) or find_option(command.name or "", error.option_name, known)
    hint = "" if meant is None else f" (Did you mean {meant!r}?)"
    return click.UsageError(f"No such option {error.option_name!r}.{hint}", ctx)


def missing_parameter(
    command: click.Command, ctx: click.Context, error: click.MissingParameter, typed: Sequence[str]
) -> click.UsageError:
    """Return the error of missing arguments or of a missing option.

    It names all missing arguments, and the option that a word too many means. The error of click names only one.
    """
    if not isinstance(error.param, click.Argument):
        return words_too_many(command, ctx, typed) or error
    arguments = [each for each in command.params if isinstance(each, click.Argument) and each.required]
    missing = arguments[count_words(command, ctx, typed) :]
    names = ", ".join(each.get_error_hint(ctx) for each in missing)
    return click.UsageError(f"Missing {plural('argument', missing)} {names}.{hint_at_queues(ctx)}", ctx)


def words_too_many(command: click.Command, ctx: click.Context, typed: Sequence[str]) -> click.UsageError | None:
    """Return the error of words behind the last argument, with what the first probably means; None without any."""
    given, words, _ = command.make_parser(ctx).parse_args(list(typed))
    if not words:
        return None
    if words[0].startswith("--") and ctx.ignore_unknown_options:  # see CommandOfOffsets
        return unknown_option(command, ctx, click.NoSuchOption(words[0]), typed)
    chosen = [option for option in names_of_options(command) if option.strip("-").replace("-", "_") in given]
    line = find_meaning(command, words[0], chosen)
    hint = "" if line is None else f": did you mean {line}?"
    return click.UsageError(f"Got unexpected extra {plural('argument', words)} ({' '.join(words)}){hint}", ctx)


def find_meaning(command: click.Command, word: str, chosen: Sequence[str]) -> str | None:
    """Return an option with a word too many as its value, or a complete line; None if nothing is known.

    Parameters: chosen: the options that were given.
    """
    known = names_of_options(command)
    if command.name == "sql":
        return "rocketstore sql STORE 'SELECT ...', with quotes around the statement"
    if f"--{word}" in known:
        return f"--{word}"
    for option in OUTPUTS:
        if option in known and option not in chosen:
            return f"{option} {word}"
    return EXAMPLES.get(command.name or "")


def find_time(option: str, typed: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the option of a time such as -1h, which click read as an option; None for another word."""
    times = [word for word in typed if word.startswith(option) and re.fullmatch("-[0-9]+[a-z]+", word)]
    names = [name for name in TIMES if name in known]
    return f"{names[0]} {times[0]}" if times and names else None


def count_words(command: click.Command, ctx: click.Context, typed: Sequence[str]) -> int:
    """Return how many arguments the words of a command line are."""
    given, _, _ = command.make_parser(ctx).parse_args(list(typed))
    values = [given.get(each.name or "") for each in command.params if isinstance(each, click.Argument)]
    return sum(len(value) if isinstance(value, tuple) else isinstance(value, str) for value in values)


def names_of_options(command: click.Command) -> list[str]:
    """Return the options of a command, with their hyphens."""
    return [name for each in command.params if isinstance(each, click.Option) for name in each.opts]


def plural(noun: str, things: Sequence[object]) -> str:
    return noun if len(things) == 1 else f"{noun}s"


def hint_at_queues(context: click.Context) -> str:
    """Return a command that shows the values of missing arguments; an empty string without one."""
    if context.command.name != "get":
        return ""
    store, topic = context.params.get("store"), context.params.get("topic")
    of_topic = ("--topic", topic) if topic else ()
    return f" {command_line('ls', store.path if store else 'STORE', *of_topic)} shows queues and their offsets."

"""The conditions --where, --grep and --regex, for commands that show or count messages."""

from collections.abc import Callable, Iterator, Sequence

import click

from rocketstore.cli.formats import error_text
from rocketstore.cli.text import note
from rocketstore.cli.times import find_zone
from rocketstore.log.body_search import BodyContains, BodyMatches
from rocketstore.log.message_filter import MessageFilter
from rocketstore.log.scan import RowChoice
from rocketstore.messages.body_text import UTF8


def make_filter(where: str | None, grep: Sequence[str], regex: Sequence[str]) -> MessageFilter:
    """Return the conditions of a command. Raises: UsageError for a wrong one."""
    choices = [make_choice("--grep", BodyContains, text) for text in grep]
    choices += [make_choice("--regex", BodyMatches, pattern) for pattern in regex]
    if where is not None:
        choices.append(make_choice("--where", make_where, where))
    return MessageFilter(tuple(choices))


def make_where(text: str, *, charset: str) -> RowChoice:
    from rocketstore.sql.where import Where  # few commands have the option

    return Where(text, tz=find_zone(), charset=charset)


def make_choice(option: str, make: Callable[..., RowChoice], text: str) -> RowChoice:
    """Return the condition that an option gives. Raises: UsageError if it is wrong."""
    try:
        return make(text, charset=click.get_current_context().params.get("charset", UTF8))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def note_unseen(message_filter: MessageFilter) -> None:
    """Write notes on conditions: names that no message has, since they may be misspelt; bodies in doubt."""
    for choice in message_filter.choices:
        for text in describe_choice(choice):
            note(text)


def describe_choice(choice: RowChoice) -> Iterator[str]:
    """Yield texts on what a condition could not decide."""
    describe_unseen = getattr(choice, "describe_unseen", None)
    if describe_unseen is not None:
        yield from (f"--where: {text}" for text in describe_unseen())
    bad_bodies = getattr(choice, "bad_bodies", None)
    if bad_bodies is not None and bad_bodies.count:
        yield f"Warning: bodies that cannot be decoded were not searched. The first: {error_text(bad_bodies.first)}"

"""The conditions of --where, for commands that show or count messages."""

import click

from rocketstore.cli.text import note
from rocketstore.cli.times import find_zone
from rocketstore.log.message_filter import MessageFilter
from rocketstore.sql.where import Where


def make_filter(where: str | None) -> MessageFilter:
    """Return the conditions of a command. Raises: UsageError for a wrong one."""
    try:
        return MessageFilter(() if where is None else (Where(where, tz=find_zone()),))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--where") from None


def note_unseen(message_filter: MessageFilter) -> None:
    """Write a note for each name in a condition that no message has: it may be misspelt."""
    for choice in message_filter.choices:
        for text in choice.describe_unseen() if isinstance(choice, Where) else ():
            note(f"--where: {text}")

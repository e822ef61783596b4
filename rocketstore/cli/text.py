"""Text for a terminal: control characters become visible, and notes go to standard error."""

import shlex

import click

from rocketstore.text_values import printable

SAFE_CSV = "csv-safe"
CSV_FORMS = ("csv", SAFE_CSV)

# Keys of click.Context.meta.
WORDS = "rocketstore.words"  # the words of the command line
BROKER_CONF = "rocketstore.broker_conf"  # the values of options
GEOMETRY = "rocketstore.geometry"
LEFTOVERS = "rocketstore.leftovers"
TYPED = "rocketstore.typed"  # the texts of paths
AFTER_STORE = "rocketstore.after-store"  # the words after STORE that are no paths
ZONE, ISO = "rocketstore.zone", "rocketstore.iso"
TIERED, TIER = "rocketstore.tiered", "rocketstore.tier"
REMOTE_COPY_LIMIT = "rocketstore.remote-copy-limit"
COMPACTED = "rocketstore.compacted"


class Indented(str):
    """A text of several lines, which a table shows as lines."""


def printable_lines(text: str) -> str:
    """Return a text as ``printable`` does, but keep its line ends."""
    return "\n".join(map(printable, text.split("\n")))


def note(text: str) -> None:
    """Write a line to standard error."""
    click.echo(printable(text), err=True)


def command(*words: object) -> str:
    """Return the text of a command to type in a shell: ``rocketstore`` and these words."""
    return "rocketstore " + shlex.join(map(str, words))

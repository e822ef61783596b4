"""The options --redact and --hash of ``rocketstore export``."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

import click

from rocketstore.cli.text import note
from rocketstore.kernels.message_columns import find_column
from rocketstore.messages.redaction import Redaction, RedactionSummary
from rocketstore.text_values import format_count


def redaction_of(
    redacted: Sequence[str], hashed: Sequence[str], key: str | None, charset: str
) -> Callable[[], Redaction] | None:
    """Return the function that makes the redaction of a command; None without one. Raises: UsageError."""
    if not (redacted or hashed):
        return None
    if key == "":
        raise click.UsageError("--hash-key: the key is empty")
    make = partial(Redaction, redacted, hashed, None if key is None else key.encode(), charset)
    try:
        make()
    except ValueError as error:
        raise click.UsageError(f"--redact, --hash: {error}") from None
    if hashed and key is None:
        note("--hash without --hash-key: whoever knows the possible values can find out which one has a hash")
    return make


def refuse_partitions(names: Collection[str], redacted: Sequence[str]) -> None:
    """Raise UsageError if the directories of an export would be named after removed columns."""
    columns = {find_column(name) for name in redacted}
    for name, column in (("topic", "topic"), ("day", "store_timestamp")):
        if name in names and column in columns:
            raise click.UsageError(f"--partition-by {name} names directories after a column that --redact removes")


def report_redaction(results: Sequence[RedactionSummary]) -> list[str]:
    """Write notes on removed bodies and on copies of values. Return an error for each field that no message has.

    Parameters: results: of the parts of an export.
    """
    if not results:
        return []
    removed = sum(result["removed_bodies"] for result in results)
    if removed:
        bodies = format_count(removed, "body", "bodies")
        note(f"Warning: {bodies} that may have a redacted field, but are no JSON, were removed: bodyError says why")
    copies: Counter[str] = Counter()
    for result in results:
        copies.update(result["copies"])
    for column, count in sorted(copies.items()):
        messages = format_count(count, "message has", "messages have")
        note(f"Warning: {messages} a redacted value in {column}, too: also give --redact for it")
    unseen = set.intersection(*(set(result["unseen"]) for result in results))
    return [f"--redact, --hash: no exported message has a property or JSON field {name!r}" for name in sorted(unseen)]

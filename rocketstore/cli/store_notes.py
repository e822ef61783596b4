"""Report on standard error: damage, leftovers and topics kept elsewhere, which the rows of a command do not show."""

import contextlib
from collections.abc import Collection, Iterable, Sequence

from rocketstore.cli.formats import LeftOut, error_text
from rocketstore.cli.text import note
from rocketstore.cli.times import find_zone
from rocketstore.errors import StoreError, UnsupportedFormatError
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.leftovers import describe_leftovers
from rocketstore.log.scan import Scan, Skipped
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.text_rows import BODY_ERROR
from rocketstore.store.message_store import MessageStore
from rocketstore.store.not_found import SearchConditions, explain_nothing_found, find_unknown_queues
from rocketstore.store.overview.missing import describe_unknown_topic
from rocketstore.store.overview.tier import describe_tier
from rocketstore.text_values import format_count

WRONG_BODY = "has a body that does not match its CRC"
SHOW_WRONG = "--no-verify-crc shows it"


def note_elsewhere(store: MessageStore, topics: Collection[str] | None = None) -> None:
    """Write a note to standard error for each compacted topic, and one if messages are only in tiered storage.

    Parameters: topics: report only these topics; None reports all.
    """
    note_built_queues(store, [] if store.compacted else topics)  # without those that the command reads
    with contextlib.suppress(StoreError, OSError):  # the command that reads the queues raises it
        for text in store.describe_missing_units():
            note(text)
    if store.tiered:  # the command reads them
        return
    with contextlib.suppress(StoreError, OSError):  # of queues that cannot be read; the command reports them
        if (text_of_tier := describe_tier(store, topics)) is not None:
            note(text_of_tier)


def note_all(store: MessageStore, topics: Collection[str] | None) -> None:
    """Write notes about the messages of a store that are elsewhere, or behind the end of its log."""
    note_elsewhere(store, topics)
    note_leftovers(store.commit_log)


def note_built_queues(store: MessageStore, topics: Collection[str] | None = ()) -> None:
    """Write a note to standard error if queues, or their last units, are built from the log.

    Parameters: topics: also write a note for each of these that is compacted; None for all.
    """
    for text in store.formats.notes(topics):
        note(text)
    with contextlib.suppress(StoreError, OSError):  # the command that reads the queues raises it
        for text in store.describe_built_units():
            note(text)


def note_leftovers(log: CommitLog) -> None:
    """Write a note to standard error if records behind the end of the log are not read. They are not an error."""
    if (text := describe_leftovers(log)) is not None:
        note(f"{text}. Pass --leftovers to read them.")


def note_bad_bodies(bad_bodies: BadBodies) -> None:
    """Write a warning to standard error with the number of bodies that cannot be decoded, if there are any."""
    if bad_bodies.count:
        bad = format_count(bad_bodies.count, "message has a body", "messages have bodies")
        first = error_text(bad_bodies.first)
        note(f"Warning: {bad} that cannot be decoded: {BODY_ERROR} says why. The first: {first}")


def note_assumptions(store: MessageStore, assumptions: Iterable[str]) -> None:
    """Write a note to standard error for each assumption with which files were skipped by time."""
    for assumption in assumptions:
        note(f"{store.path}: {assumption}; --exact-times reads every file")


def tier_words(store: MessageStore) -> list[str]:
    """Return the words of a command line that let another command read the tier too, as this one does."""
    return ["--tier", str(store.config.tiered_store_file_path)] if store.tiered else []


def left_out(scan: Scan) -> list[str]:
    """Return a text for each part of the log that a scan left out, because it is damaged or was deleted meanwhile."""
    log = scan.log
    problems = [*map(skipped_text, scan.skipped)]
    if scan.has_expired:
        problems.append(f"{log.directories[0]}: the log before {log.min_phy_offset} was deleted before it was read")
    return problems


def skipped_text(part: Skipped) -> str:
    return LeftOut(f"{error_text(part.error)}: offsets {part.begin} to {part.end} are left out")


def or_nothing_found(
    store: MessageStore, found: int, problems: Sequence[object], search: SearchConditions
) -> Sequence[object]:
    """Return the problems of a command. If it has no problem and found no message, return why it found none.

    Parameters: found: the number of messages that the command found. search: the conditions of the command.
    """
    if found or problems:
        return problems
    with contextlib.suppress(UnsupportedFormatError):
        problems = [*find_unknown_queues(store, search)]
    return problems or [f"{store.path}: no message was found: {explain_nothing_found(store, search, find_zone())}"]


def unknown_topics(store: MessageStore, topics: Iterable[str]) -> dict[str, str]:
    """Return an error text for each topic without a queue, by its name. Return none if the queues cannot be read."""
    try:
        found = {topic: describe_unknown_topic(store, topic) for topic in topics}
    except UnsupportedFormatError:
        return {}
    return {topic: text for topic, text in found.items() if text is not None}

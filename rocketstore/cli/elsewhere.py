"""Notes on standard error about topics whose messages consumers do not get from the commit log."""

from collections.abc import Collection

from rocketstore.cli.formats import note
from rocketstore.store.message_store import MessageStore

__all__ = ["note_elsewhere"]


def note_elsewhere(store: MessageStore, topics: Collection[str] | None = None) -> None:
    """Write a note to standard error for each compacted topic, and one for tiered storage, if the store has them.

    Parameters: topics: report only those of these topics that are compacted; None reports all.
    """
    for text in store.layout.notes(topics):
        note(text)

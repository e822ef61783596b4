"""What the command line says of messages that consumers get from another place than the log."""

from collections.abc import Collection

from rocketstore.cli.formats import note
from rocketstore.store.message_store import MessageStore

__all__ = ["note_elsewhere"]


def note_elsewhere(store: MessageStore, topics: Collection[str] | None = None) -> None:
    """Name on standard error the compacted topics and the tier. Parameters: topics: only these; None for all."""
    for text in store.layout.notes(topics):
        note(text)

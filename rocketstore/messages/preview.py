"""The first and the last messages of a batch, for people who look at an object in a terminal or a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rocketstore.kernels.message_columns import BROKER
from rocketstore.messages.compression import BODY_ERRORS
from rocketstore.messages.message import Message
from rocketstore.preview import Preview, ends_of

SHOWN = (BROKER, "store_timestamp", "topic", "queue_id", "queue_offset", "phy_offset", "tags", "keys", "body")


def preview_messages(title: str, messages: Any, names: Sequence[str]) -> Preview:
    """Make a preview of a batch. Parameters: messages: a MessageBatch. names: of its columns."""
    names = shown_columns(names)
    rows = [None if message is None else [value_of(message, name) for name in names] for message in ends_of(messages)]
    return Preview(title, names, rows)


def shown_columns(names: Sequence[str]) -> list[str]:
    """Return the columns to show: those that people look for first, else the first columns of the batch."""
    found = [name for name in SHOWN if name in names]
    return list(names[: len(SHOWN)]) if found in ([], [BROKER]) else found


def value_of(message: Message, name: str) -> Any:
    """Return a field of a message. A body that cannot be decoded is the reason in brackets."""
    try:
        return getattr(message, name)
    except BODY_ERRORS as error:
        return f"({error})"

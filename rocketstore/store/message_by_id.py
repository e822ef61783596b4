"""Explain why an offset message id leads to no message of a store."""

from __future__ import annotations

from rocketstore.errors import CorruptFileError
from rocketstore.messages.message_id import make_msg_id, phy_offset_of
from rocketstore.store.readable_store import ReadableStore

CLIENT_ID = "the index has no message with this unique key, which a client shows as message id"


def explain_missing_message(store: ReadableStore, message_id: str) -> str:
    """Return why ``query_message_by_id`` finds no message: it is no message's offset id, and no unique key.

    An offset message id has the broker's host and a physical offset.

    Raises: ValueError if ``message_id`` is not an offset message id; OSError, StoreError.
    """
    offset = phy_offset_of(message_id)
    log = store.commit_log
    begin, end = log.min_phy_offset, log.max_phy_offset
    prefix = f"{store.path}: id {message_id} has the physical offset {offset}"
    if not begin <= offset < end:
        reason = describe_older(store) if 0 <= offset < begin else f"; {CLIENT_ID}"
        return f"{prefix}, but the log has the offsets {begin} to {end}{reason}"
    try:
        message = log.find_message(offset)
    except CorruptFileError as error:
        return f"{prefix}, where the log is damaged: {error}"
    if message is None:
        return f"{prefix}, where no message begins; {CLIENT_ID}"
    own = make_msg_id(message.store_host, offset) if message.store_host else None
    return (
        f"{prefix}, where the message {own} of the broker {message.store_host} begins: "
        f"the id names a broker at another address; {CLIENT_ID}"
    )


def describe_older(store: ReadableStore) -> str:
    """Return why the log has no message at a physical offset before its first record."""
    if not store.formats.is_tiered:
        return ": the message has expired"
    where = "is only in tiered storage, where its id does not name its queue: ask by its unique key"
    return f": the message has expired, or {where}"

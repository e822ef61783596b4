"""LostMessage: a message that stood in damaged bytes of the log, as queues and index know it."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.kernels.message_columns import Field
from rocketstore.preview import show_fields


class LostMessage(NamedTuple):
    """A message that stood in damaged bytes of the log.

    Attributes
    ----------
    topic, queue_id, queue_offset, phy_offset, size : where it was, by the unit of its queue; bytes.
    messages : how many messages it stands for: more than one for a batch of a batch queue.
    tags : those of a sound message of the topic with the same tags code; None if they are not known.
    keys : the keys whose text is left in the damaged bytes, and that the index confirms.
    key_hashes : the hashes of all its keys in the index; only some of them, or none, if the index is damaged. The notes
        of ``PatchReport`` say so, and a finding of ``verify`` names the damage.
    previous_store_timestamp, next_store_timestamp : of the sound records next to the damaged bytes, epoch ms; None
        without one.
    problem : why no record can stand in its place; None if ``patch`` can write one.

    Examples:
    >>> rocketstore.verify("demo").lost
    ()
    """

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    messages: int
    tags: str | None
    keys: tuple[str, ...]
    key_hashes: tuple[int, ...]
    previous_store_timestamp: int | None
    next_store_timestamp: int | None
    problem: str | None

    def __repr__(self) -> str:
        return show_fields(self)

    def to_dict(self) -> dict[str, object]:
        """Return the values by the names of the table's columns."""
        values = (list(value) if isinstance(value, tuple) else value for value in self)
        return dict(zip((field.name for field in LOST_MESSAGE_FIELDS), values, strict=True))


LOST_MESSAGE_FIELDS = (
    Field("topic", "u"), Field("queueId", "i"), Field("queueOffset", "l"), Field("phyOffset", "l"), Field("size", "i"),
    Field("messages", "l"), Field("tags", "u", nullable=True), Field("keys", "+l"), Field("keyHashes", "+l"),
    Field("previousStoreTimestamp", "l", nullable=True), Field("nextStoreTimestamp", "l", nullable=True),
    Field("problem", "u", nullable=True),
)  # fmt: skip

"""Find sound records whose heads changed: queue id, queue offset or topic differ from those of the unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from rocketstore.errors import StoreError
from rocketstore.kernels.layout import RECORD_HEAD, read_field, record_head, topic_length_size
from rocketstore.lost.bad_ranges import SoundRecords, has_crc_property
from rocketstore.lost.lost_units import LostUnit
from rocketstore.messages.message import Message
from rocketstore.preview import show_fields
from rocketstore.queue.queue_source import offset_range
from rocketstore.store.message_store import MessageStore


class CorrectedRecord(NamedTuple):
    """A record whose topic, queue id or queue offset is set to that of its unit. The message is not lost.

    Attributes: phy_offset, size: its place, bytes. topic, queue_id, queue_offset: of its unit. data: its new bytes.

    Examples:
    >>> rocketstore.patch("demo").corrected
    ()
    """

    phy_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    data: bytes

    def __repr__(self) -> str:
        return show_fields(self)

    @property
    def end(self) -> int:
        return self.phy_offset + self.size


def find_corrections(
    store: MessageStore, sound: SoundRecords, units: Sequence[LostUnit], phy_offsets: Iterable[int]
) -> Iterator[CorrectedRecord]:
    """Yield the sound records at physical offsets that changed in their heads.

    The unit of a record is right if the units beside it lead to records of their own places, and if no unit leads to
    the record from the place that the record names. A record with the CRC of all its bytes is right itself.

    Parameters: units: those that lead to the physical offsets.
    """
    for phy_offset in phy_offsets:
        message = sound.read(phy_offset)
        own = [unit for unit in units if unit.phy_offset == phy_offset and not unit.is_light]
        if message is None or len(own) != 1 or own[0].is_batch or own[0].size != message.size:
            continue
        unit = own[0]
        is_same = place_of(message) == (unit.topic, unit.queue_id, unit.queue_offset)
        if not is_same and _is_unit_right(store, sound, unit) and not _has_unit(store, message):
            data = _correct(sound.log.file_run.pread(phy_offset, message.size), message, unit)
            if data is not None and sound.is_sound(data, phy_offset):
                yield CorrectedRecord(phy_offset, message.size, unit.topic, unit.queue_id, unit.queue_offset, data)


def place_of(message: Message) -> tuple[str, int, int]:
    return message.topic, message.queue_id, message.queue_offset


def _is_unit_right(store: MessageStore, sound: SoundRecords, unit: LostUnit) -> bool:
    """Return whether the units beside a unit lead to records that name these places. One of them must exist."""
    queue = store.log_queue(unit.topic, unit.queue_id)
    first, end = offset_range(queue)
    beside = [number for number in (unit.queue_offset - 1, unit.queue_offset + 1) if first <= number < end]
    records = [(number, sound.read(queue[number].phy_offset)) for number in beside]
    return bool(records) and all(
        record is not None and place_of(record) == (unit.topic, unit.queue_id, number) for number, record in records
    )


def _has_unit(store: MessageStore, message: Message) -> bool:
    """Return whether a unit leads to a record from the place that the record names."""
    with suppress(KeyError, IndexError, ValueError, StoreError):
        queue = store.log_queue(message.topic, message.queue_id)
        return queue[message.queue_offset].phy_offset == message.phy_offset
    return False


def _correct(data: bytes, message: Message, unit: LostUnit) -> bytes | None:
    """Return the bytes of a record with the place of its unit; None if it has a CRC, or no room for the topic."""
    topic = unit.topic.encode()
    head = record_head(read_field(data, RECORD_HEAD, "sys_flag"))
    at = head.itemsize + read_field(data, head, "body_length")
    width = topic_length_size(read_field(data, head, "magic"))
    if has_crc_property(data) or int.from_bytes(data[at : at + width], "big") != len(topic):
        return None
    made = bytearray(data)
    made[at + width : at + width + len(topic)] = topic
    fields = np.frombuffer(made, RECORD_HEAD, 1)
    fields["queue_id"], fields["queue_offset"] = unit.queue_id, unit.queue_offset
    return bytes(made)

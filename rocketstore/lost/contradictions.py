"""Find records next to damaged bytes whose own last bytes are damaged too: their units or the index contradict them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rocketstore.kernels.keys import hash_keys
from rocketstore.lost.bad_ranges import BadRange, SoundRecords, has_crc_property
from rocketstore.lost.lost_units import LostUnit, hash_tags
from rocketstore.messages.damaged import DAMAGED_FLAG
from rocketstore.messages.message import Message
from rocketstore.messages.topics import SYSTEM_TOPIC_PREFIXES


def extend_ranges(
    sound: SoundRecords,
    ranges: Iterable[BadRange],
    units: Sequence[LostUnit],
    key_hashes: Mapping[int, Collection[int]],
) -> list[BadRange]:
    """Return the bad ranges, with the record before a range in it if that record is contradicted.

    Bytes behind the body of a record have a CRC in some stores alone. Parameters: units, key_hashes: also those that
    lead to the records before the ranges.
    """
    ranges = list(ranges)
    bad_ends = {bad.end for bad in ranges}
    units_at: dict[int, list[LostUnit]] = {}
    for unit in units:
        units_at.setdefault(unit.phy_offset, []).append(unit)
    found = []
    for bad in ranges:
        message = bad.before
        if message is None:
            found.append(bad)
            continue
        before = None if message.phy_offset in bad_ends else _read_before(sound, message)
        own = units_at.get(message.phy_offset, [])
        if _is_damaged(sound, message, before, own, key_hashes.get(message.phy_offset, ())):
            bad = bad._replace(begin=message.phy_offset, before=before)
        found.append(bad)
    return found


def _read_before(sound: SoundRecords, message: Message) -> Message | None:
    at = sound.find_before(message.phy_offset)
    return None if at is None else sound.read(at)


def _is_damaged(
    sound: SoundRecords,
    message: Message,
    before: Message | None,
    units: Sequence[LostUnit],
    key_hashes: Collection[int],
) -> bool:
    """Return whether a record is contradicted.

    Parameters: before: the sound record before it. units, key_hashes: those that lead to it.
    """
    if message.flag == DAMAGED_FLAG:  # queues and index know more of a lost message than the record in its place
        return False
    differs = any(_differs(message, unit) for unit in units if not unit.is_light)
    is_contradicted = differs or not set(key_hashes) <= hashes_of(message)
    return is_contradicted or _lacks_crc(sound, message, before)


def _differs(message: Message, unit: LostUnit) -> bool:
    if unit.is_batch:
        return False
    place = message.topic, message.queue_id, message.queue_offset, message.size
    has_tags_code = not unit.topic.startswith(SYSTEM_TOPIC_PREFIXES)  # else the code may be a time
    is_other_code = has_tags_code and unit.tags_code != hash_tags(message)
    return place != (unit.topic, unit.queue_id, unit.queue_offset, unit.size) or is_other_code


def hashes_of(message: Message) -> set[int]:
    """Return the hashes of the keys by which the index may have a message. Source: IndexService.buildIndex."""
    keys = [*message.keys, *([message.uniq_key] if message.uniq_key else [])]
    keys += [f"T#{message.tags}"] if message.tags else []
    return set(hash_keys(keys, topic=message.topic).tolist()) if keys else set()


def _lacks_crc(sound: SoundRecords, message: Message, before: Message | None) -> bool:
    """Return whether a record lacks the property of its CRC, although the record before it has one.

    If that is damaged, the first sound record of the file decides.
    """
    file = sound.log.file_run.find(message.phy_offset)
    if before is None and file is not None:
        first = sound.find_first(file)
        before = None if first is None else sound.read(first)
    return before is not None and _has_crc(sound, before) and not _has_crc(sound, message)


def _has_crc(sound: SoundRecords, message: Message) -> bool:
    return has_crc_property(sound.log.file_run.pread(message.phy_offset, message.size))

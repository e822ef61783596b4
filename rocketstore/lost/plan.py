"""PatchPlan: the records that can stand in place of lost ones, and the messages that are lost; as a value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rocketstore.config import StoreConfig
from rocketstore.jobs.intent import WriteIntent
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.lost.bad_ranges import BadRange, SoundRecords, find_bad_ranges, has_crc_property
from rocketstore.lost.contradictions import extend_ranges
from rocketstore.lost.corrections import CorrectedRecord, find_corrections
from rocketstore.lost.lost_message import LostMessage
from rocketstore.lost.lost_units import IndexedKeys, LostUnit, find_keys, find_tags, read_key_hashes, read_lost_units
from rocketstore.lost.new_records import Layout, LayoutMaker, NewBytes, Refused
from rocketstore.lost.record_maker import NewRecord, RecordMaker
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.compacted_topics import COMPACTION, POLICY
from rocketstore.survey.places import LocalPlaces


class RefusedRange(NamedTuple):
    """Bytes of the log over which no records can be laid: ``size`` bytes at a physical offset, and the reason.

    Examples:
    >>> rocketstore.patch("demo").refused
    ()
    """

    phy_offset: int
    size: int
    reason: str


class PatchedRange(NamedTuple):
    """A bad range, and what is written over it, in order. All offsets are physical offsets, in bytes."""

    begin: int
    end: int
    new: tuple[NewBytes | CorrectedRecord, ...]


@dataclass(frozen=True)
class PatchPlan:
    """What ``patch`` writes, and which messages are lost.

    Attributes: ranges: with new bytes. refused: ranges that stay as they are. lost: the messages of both. maker:
    encodes the new records. notes: what is not known of the messages, and why.
    """

    ranges: tuple[PatchedRange, ...]
    refused: tuple[RefusedRange, ...]
    lost: tuple[LostMessage, ...]
    maker: RecordMaker
    notes: tuple[str, ...] = ()

    @property
    def fillers(self) -> list[NewRecord]:
        """The new records over bytes to which no unit leads."""
        return [new for part in self.ranges for new in part.new if isinstance(new, NewRecord) and new.is_filler]

    @property
    def corrected(self) -> list[CorrectedRecord]:
        """The records whose heads are corrected. Their messages are not lost."""
        return [new for part in self.ranges for new in part.new if isinstance(new, CorrectedRecord)]


class Damage(NamedTuple):
    """The damage of a log, and what queues and index know of it.

    Attributes: ranges: of bad bytes. corrected: sound records whose heads changed. units: those that lead into the
    ranges, or to the records before them. keys: of the index. tags: as ``find_tags`` returns them.
    """

    ranges: list[BadRange]
    corrected: list[CorrectedRecord]
    units: list[LostUnit]
    keys: IndexedKeys
    tags: dict[tuple[str, int], str]


def plan_patch(
    places: LocalPlaces, config: StoreConfig, log: CommitLog, suspects: Iterable[tuple[int, int]]
) -> PatchPlan:
    """Plan which records can stand in damaged bytes of the log. Change nothing.

    Parameters: config: as the store was written. log: with all its records. suspects: ranges with damage, physical
    offsets; a record must begin, or end, at the begin of each. An end of LONG_MAX stands for the end of the log. A
    range of one byte stands for the record that begins there: units may contradict its head.
    Raises: StoreError, OSError.
    """
    damage = _find_damage(places, config, log, suspects)
    maker = RecordMaker(config, log.mapped_file_size, append_prop_crc=_have_crc(log, damage.ranges))
    if not damage.ranges and not damage.corrected:
        return PatchPlan((), (), (), maker)
    end_timestamp = StoreCheckpoint.open(places.checkpoint).physic_msg_timestamp
    layouts = LayoutMaker(log, maker, damage.tags, _find_compacted_topics(places, config), end_timestamp)
    limit = _find_limit(places)
    ranges = [PatchedRange(record.phy_offset, record.end, (record,)) for record in damage.corrected]
    refused: list[RefusedRange] = []
    lost: list[LostMessage] = []
    for bad in damage.ranges:
        inside = [unit for unit in damage.units if bad.begin <= unit.phy_offset < bad.end]
        layout = _lay_out(layouts, bad, inside, limit)
        if isinstance(layout, Layout):
            end = max((new.end for new in layout.new), default=bad.begin)
            ranges += [PatchedRange(bad.begin, end, layout.new)] if layout.new else []
        else:
            refused.append(layout)
        problem = layout.reason if isinstance(layout, RefusedRange) else None
        lost += [_lost_message(log, bad, unit, damage, problem) for unit in inside if not unit.is_light]
    return PatchPlan(tuple(ranges), tuple(refused), tuple(lost), maker, damage.keys.problems)


def _find_damage(
    places: LocalPlaces, config: StoreConfig, log: CommitLog, suspects: Iterable[tuple[int, int]]
) -> Damage:
    """Find the damaged bytes in ranges of the log, and what is known of them. Parameters: as for ``plan_patch``."""
    sound = SoundRecords(log, config.message_delay_level)
    given = list(suspects)
    found = find_bad_ranges(sound, given)
    single = sorted({begin for begin, end in given if end == begin + 1 and sound.find_end(begin)})
    if not found and not single:
        return Damage([], [], [], IndexedKeys({}, ()), {})
    with MessageStore(places, config, leftovers=True) as store:
        units, keys = read_lost_units(store, found), read_key_hashes(store, found)
        records = [BadRange(begin, begin + 1, None, None) for begin in single]
        corrected = list(find_corrections(store, sound, read_lost_units(store, records), single))
        ranges = extend_ranges(sound, found, units, keys.hashes)
        return Damage(ranges, corrected, units, keys, find_tags(store, units))


def _lay_out(layouts: LayoutMaker, bad: BadRange, units: Sequence[LostUnit], limit: int) -> Layout | RefusedRange:
    try:
        if bad.end > limit and bad.after is not None:
            raise Refused("a write that was ended in the middle may have written here: run recover")
        return layouts.lay_out(bad, units)
    except Refused as refusal:
        end = bad.end if bad.after is not None else max((unit.end for unit in units), default=bad.begin)
        return RefusedRange(bad.begin, end - bad.begin, str(refusal))


def _find_compacted_topics(places: LocalPlaces, config: StoreConfig) -> set[str]:
    topics = open_tables(places, config).read_topics()
    return {name for name, topic in topics.items() if topic.attributes.get(POLICY) == COMPACTION}


def _find_limit(places: LocalPlaces) -> int:
    """Return where an unfinished write began, a physical offset; LONG_MAX without one."""
    intent = WriteIntent.read(places.root)
    return LONG_MAX if intent is None else intent.begin


def _have_crc(log: CommitLog, ranges: Iterable[BadRange]) -> bool:
    """Return whether the records next to bad ranges end in the property of their CRC."""
    near = (message for bad in ranges for message in (bad.before, bad.after) if message is not None)
    return any(has_crc_property(log.file_run.pread(message.phy_offset, message.size)) for message in near)


def _lost_message(log: CommitLog, bad: BadRange, unit: LostUnit, damage: Damage, problem: str | None) -> LostMessage:
    hashes = damage.keys.hashes.get(unit.phy_offset, ())
    return LostMessage(
        unit.topic,
        unit.queue_id,
        unit.queue_offset,
        unit.phy_offset,
        unit.size,
        unit.messages,
        damage.tags.get((unit.topic, unit.tags_code)),
        find_keys(log, unit, hashes),
        hashes,
        None if bad.before is None else bad.before.store_timestamp,
        None if bad.after is None else bad.after.store_timestamp,
        problem,
    )

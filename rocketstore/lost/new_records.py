"""Lay out new records over bad bytes of the log: where units lead a record with their values, between them fillers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from rocketstore.disk.file_run_reader import RunFile
from rocketstore.kernels.layout import BLANK_HEAD, MAGIC_BLANK, struct_of
from rocketstore.limits import INT_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.lost.bad_ranges import BadRange
from rocketstore.lost.lost_topics import find_rules
from rocketstore.lost.lost_units import LostUnit
from rocketstore.lost.record_maker import Neighbour, NewRecord, RecordMaker
from rocketstore.messages.damaged import DAMAGED, DAMAGED_SHORT, FILLER_TOPIC, FILLER_TOPIC_SHORT

MAX_FILLER = 1 << 20  # bytes of a filler record
PACK_BLANK = struct_of(BLANK_HEAD).pack
PROPERTY_MARKS: tuple[dict[str, str], ...] = ({DAMAGED: "1"}, {DAMAGED_SHORT: "1"})  # the first that has room is used


class Refused(Exception):
    """No records can be laid over a bad range. The argument is the reason, as text."""


class NewBlank(NamedTuple):
    """A blank at the end of a log file: a physical offset, and the bytes to the end of the file."""

    phy_offset: int
    size: int

    @property
    def end(self) -> int:
        return self.phy_offset + self.size

    def head(self) -> bytes:
        return PACK_BLANK(self.size, MAGIC_BLANK)


NewBytes = NewRecord | NewBlank


class Layout(NamedTuple):
    """What is written over one bad range, in order. units: those whose messages are lost, without light queues."""

    new: tuple[NewBytes, ...]
    units: tuple[LostUnit, ...]


class LostRecord(NamedTuple):
    """The units of one lost record: its own, and those in light queues."""

    own: LostUnit
    light: tuple[LostUnit, ...]


class LayoutMaker:
    """Lays out new records over bad ranges of one log."""

    def __init__(
        self,
        log: CommitLog,
        maker: RecordMaker,
        tags: Mapping[tuple[str, int], str],
        compacted_topics: Collection[str],
        end_timestamp: int,
    ) -> None:
        """Prepare the layouts.

        Parameters: tags: as ``find_tags`` returns them. compacted_topics: topics whose brokers need keys.
        end_timestamp: the store time of the log's last record by the checkpoint, epoch ms.
        """
        self._log, self._maker, self._tags, self._compacted = log, maker, tags, compacted_topics
        self._end_timestamp = end_timestamp

    def lay_out(self, bad: BadRange, units: Sequence[LostUnit]) -> Layout:
        """Lay out the records over one bad range.

        Parameters: units: those that lead into it, in order. Raises: Refused.
        """
        near = bad.before or bad.after
        if near is None:
            raise Refused("no sound record is beside these bytes")
        neighbour = Neighbour.of(near)
        lost = list(_join_units(units))
        new = [
            part
            for file, begin, end in self._parts(bad, lost)
            for part in self._lay_out_part(
                file, begin, end, [one for one in lost if begin <= one.own.phy_offset < end], neighbour
            )
        ]
        if bad.after is None and new and isinstance(new[-1], NewRecord):  # the last record of the log
            last = max(neighbour.store_timestamp, self._end_timestamp)
            new[-1] = replace(new[-1], neighbour=neighbour._replace(store_timestamp=last))
        return Layout(tuple(new), tuple(one.own for one in lost))

    def _parts(self, bad: BadRange, lost: Sequence[LostRecord]) -> Iterator[tuple[RunFile, int, int]]:
        """Yield the part of a bad range in each file. At the end of the log it ends behind the last lost record."""
        end = bad.end if bad.after is not None else max((one.own.end for one in lost), default=bad.begin)
        place = bad.begin
        while place < end:
            file = self._log.file_run.find(place)
            if file is None:
                raise Refused(f"no file has the bytes at {place}")
            yield file, place, min(end, file.end_offset)
            place = file.end_offset

    def _lay_out_part(
        self, file: RunFile, begin: int, end: int, lost: Sequence[LostRecord], neighbour: Neighbour
    ) -> Iterator[NewBytes]:
        """Yield the new records over the bad bytes of one file, and a blank if these end with the file."""
        place = begin
        for one in lost:
            unit = one.own
            if unit.phy_offset < place:
                raise Refused(f"{_describe(unit)} leads into the record before it")
            if unit.end > end:
                raise Refused(f"{_describe(unit)} leads beyond {end}, where sound bytes or another file begin")
            yield from self._make_fillers(place, unit.phy_offset, neighbour)
            yield self._make_record(one, neighbour)
            place = unit.end
        if end < file.end_offset:
            yield from self._make_fillers(place, end, neighbour)
        elif end - place >= BLANK_HEAD.itemsize:
            yield NewBlank(place, end - place)
        else:
            raise Refused(f"no blank fits between {place} and the end of its file")

    def _make_record(self, one: LostRecord, neighbour: Neighbour) -> NewRecord:
        unit = one.own
        if unit.store_timestamp >= 0:
            neighbour = neighbour._replace(store_timestamp=unit.store_timestamp)
        rules = find_rules(unit.topic, neighbour.store_timestamp)
        if rules is None:
            raise Refused(f"a broker reads the records of {unit.topic} itself, and may stop at a record in their place")
        if unit.topic in self._compacted:
            raise Refused(f"a broker compacts {unit.topic} by the keys of its messages, and a lost key is not known")
        tags = self._tags.get((unit.topic, unit.tags_code)) if rules.has_tags else None
        needed = {**rules.properties, **_light_properties(one.light), **_batch_properties(unit)}
        messages = unit.messages if unit.is_batch else 0
        with_tags = [{"TAGS": tags}, {}] if tags else [{}]
        # A record without room for the tags and a mark keeps the mark, so that consumers know it.
        choices = [{**mark, **more, **needed} for more in with_tags for mark in PROPERTY_MARKS]
        size = unit.size - rules.least_body
        found = self._fit(size, unit.topic, [*choices, needed], neighbour, messages=messages)
        if found is None:
            raise Refused(f"no record of {unit.size} bytes can stand for {_describe(unit)}")
        properties, body_size = found
        return NewRecord(
            unit.phy_offset,
            unit.size,
            unit.topic,
            unit.queue_id,
            unit.queue_offset,
            properties,
            body_size + rules.least_body,
            neighbour,
            is_filler=False,
            messages=messages,
        )

    def _make_fillers(self, begin: int, end: int, neighbour: Neighbour) -> Iterator[NewRecord]:
        """Yield records over bytes to which no unit leads."""
        while begin < end:
            left = end - begin
            size = left if left <= MAX_FILLER else min(MAX_FILLER, left - MAX_FILLER // 2)
            yield self._make_filler(begin, size, neighbour)
            begin += size

    def _make_filler(self, begin: int, size: int, neighbour: Neighbour) -> NewRecord:
        for topic in (FILLER_TOPIC, FILLER_TOPIC_SHORT):
            found = self._fit(size, topic, [*PROPERTY_MARKS, {}], neighbour)
            if found is not None:
                return NewRecord(begin, size, topic, 0, 0, *found, neighbour, is_filler=True)
        raise Refused(f"no record fits between {begin} and {begin + size}")

    def _fit(
        self, size: int, topic: str, choices: Sequence[Mapping[str, str]], neighbour: Neighbour, *, messages: int = 0
    ) -> tuple[Mapping[str, str], int] | None:
        """Return the first of several properties that have room in a record, and the size of the body; None if none."""
        for properties in choices:
            least = self._maker.measure(topic, properties, neighbour, messages=messages)
            if least is not None and least <= size < INT_MAX:
                return properties, size - least
        return None


def _join_units(units: Sequence[LostUnit]) -> Iterator[LostRecord]:
    """Yield the units of each lost record, in order. Raises: Refused if units contradict each other."""
    for phy_offset, found in groupby(units, attrgetter("phy_offset")):
        group = list(found)
        own, light = [unit for unit in group if not unit.is_light], [unit for unit in group if unit.is_light]
        if len({unit.size for unit in group}) > 1 or len(own) != 1:
            names = ", ".join(map(_describe, group[:3]))
            raise Refused(
                f"units contradict each other, or none is of the message's own queue: {names} at {phy_offset}"
            )
        yield LostRecord(own[0], tuple(light))


def _light_properties(light: Sequence[LostUnit]) -> dict[str, str]:
    """Return the properties by which a record has units in light queues. Source: MultiDispatch."""
    if not light:
        return {}
    names, numbers = ",".join(unit.topic for unit in light), ",".join(str(unit.queue_offset) for unit in light)
    return {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": numbers}


def _batch_properties(unit: LostUnit) -> dict[str, str]:
    """Return the properties of the inner batch for which a unit of a batch queue stands."""
    return {"INNER_NUM": str(unit.messages), "INNER_BASE": str(unit.queue_offset)} if unit.is_batch else {}


def _describe(unit: LostUnit) -> str:
    return f"unit {unit.queue_offset} of {unit.topic}/{unit.queue_id}"

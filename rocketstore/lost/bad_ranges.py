"""Find the ranges of the log whose bytes are no sound record, to the byte."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.ranges import merge_ranges
from rocketstore.kernels.layout import BLANK_HEAD, MAGIC_BLANK, MIN_RECORD, RECORD_HEAD, RECORD_MAGICS, read_field
from rocketstore.kernels.record import check_message_and_return_size
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message

CRC_PROPERTY = b"__CRC32#\x01"  # the last property of a record, if the store has such properties
CRC_PROPERTY_SIZE = 20  # bytes, with ten digits and the separator
DISTANCES = 1 << 10, 1 << 13, 1 << 16, 1 << 22  # bytes before an offset from where the record before it is searched


class BadRange(NamedTuple):
    """Bytes of the log that are neither a sound record nor a blank. All offsets are physical offsets, in bytes.

    Attributes: begin, end: ``end`` is LONG_MAX if no sound record is behind. before, after: the sound records next to
    the range; None without one.
    """

    begin: int
    end: int
    before: Message | None
    after: Message | None

    @property
    def search_begin(self) -> int:
        """Where the record before the range begins, whose last bytes may be damaged too; else ``begin``."""
        return self.begin if self.before is None else self.before.phy_offset


class SoundRecords:
    """Finds sound records. They are complete, and the CRC of the body and, if they have it, of the record is right."""

    def __init__(self, log: CommitLog, message_delay_level: str) -> None:
        self.log = log
        self._delays = message_delay_level
        self._firsts: dict[int, int | None] = {}  # by the physical offset of the file

    def find_end(self, offset: int) -> int:
        """Return where the sound record, or the blank, that begins at a physical offset ends; 0 without one."""
        file = self.log.file_run.find(offset)
        if file is None:
            return 0
        left = file.end_offset - offset
        size, magic = self._head(offset)
        if magic == MAGIC_BLANK:
            return file.end_offset if size == left else 0
        if magic not in RECORD_MAGICS or not MIN_RECORD <= size <= left:
            return 0
        return offset + size if self.is_sound(self.log.file_run.pread(offset, size), offset) else 0

    def is_sound(self, data: bytes, offset: int) -> bool:
        """Return whether bytes are a sound record of a physical offset."""
        if read_field(data, RECORD_HEAD, "phy_offset") != offset:
            return False
        return self._passes_check(data, checks_record_crc=False) and (
            not has_crc_property(data) or self._passes_check(data, checks_record_crc=True)
        )

    def _passes_check(self, data: bytes, *, checks_record_crc: bool) -> bool:
        """Return whether a broker accepts a record. Parameters: checks_record_crc: in place of the CRC of the body."""
        checked = check_message_and_return_size(
            data, force_verify_prop_crc=checks_record_crc, message_delay_level=self._delays
        )
        return bool(checked[0])

    def read(self, offset: int) -> Message | None:
        """Read the sound record at a physical offset; None without one."""
        return self.log.find_message(offset) if self.find_end(offset) else None

    def find_next(self, offset: int) -> int | None:
        """Return the physical offset of the first sound record from ``offset`` on; None without one."""
        found = self.log.reader.find_later(offset, LONG_MAX)
        while found is not None and not self.find_end(found):
            found = self.log.reader.find_later(found + 1, LONG_MAX)
        return found

    def find_first(self, file: RunFile) -> int | None:
        """Return ``find_next`` of the begin of a log file, which is searched once."""
        begin = file.file_from_offset
        if begin not in self._firsts:
            self._firsts[begin] = self.find_next(begin)
        return self._firsts[begin]

    def find_before(self, offset: int) -> int | None:
        """Return the physical offset of the record that ends at ``offset``, or that is the last before the file there.

        None without one.
        """
        file = self.log.file_run.find(offset - 1) if offset > 0 else None
        if file is None:
            return None
        distances = itertools.takewhile(lambda distance: offset - distance > file.file_from_offset, DISTANCES)
        for place in (*(offset - distance for distance in distances), file.file_from_offset):
            found = self._find_last_before(place, offset)
            if found is not None:
                return found
        return None

    def _find_last_before(self, place: int, offset: int) -> int | None:
        """Return the physical offset of the record from ``place`` on after which ``offset`` comes; None without one."""
        found = self.log.reader.find_later(place, offset)
        while found is not None and not self._is_last_before(found, offset):
            found = self.log.reader.find_later(found + 1, offset)
        return found

    def _is_last_before(self, record: int, offset: int) -> bool:
        """Return whether a sound record ends at ``offset``, or a blank is between them."""
        end = record + self._head(record)[0]
        if end == offset:
            return self.find_end(record) == end
        is_before_blank = record < end < offset and self._head(end)[1] == MAGIC_BLANK and self.find_end(end) == offset
        return is_before_blank and self.find_end(record) == end

    def _head(self, offset: int) -> tuple[int, int]:
        """Return the size and the magic at a physical offset; zeros where the file ends."""
        head = self.log.file_run.pread(offset, BLANK_HEAD.itemsize)
        if len(head) < BLANK_HEAD.itemsize:
            return 0, 0
        return read_field(head, BLANK_HEAD, "size"), read_field(head, BLANK_HEAD, "magic")


def has_crc_property(record: bytes) -> bool:
    """Return whether the bytes of a record end in the property of its CRC."""
    return CRC_PROPERTY in record[-CRC_PROPERTY_SIZE:]


def find_bad_ranges(sound: SoundRecords, suspects: Iterable[tuple[int, int]]) -> list[BadRange]:
    """Return the bad bytes in ranges of the log, in order.

    Parameters: suspects: ranges of physical offsets. A record must begin, or end, at the begin of each. An end of
    LONG_MAX stands for the end of the log.
    """
    found: list[BadRange] = []
    for begin, end in merge_ranges(suspects):
        place = begin
        while place < end and sound.log.file_run.find(place) is not None:
            following = sound.find_end(place)
            if not following:
                after = sound.find_next(place + 1)
                following = LONG_MAX if after is None else after
                found.append(_make_range(sound, place, following, after))
            place = following
    return found


def _make_range(sound: SoundRecords, begin: int, end: int, after: int | None) -> BadRange:
    before = sound.find_before(begin)
    return BadRange(
        begin,
        end,
        None if before is None else sound.read(before),
        None if after is None else sound.read(after),
    )

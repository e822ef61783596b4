"""DLedger's log: where its files are, and which of its entries are committed."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from rocketstore.disk.file_run_reader import FileRunReader
from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.java_text import parse_long, trim
from rocketstore.kernels.layout import ENTRY_HEAD, ENTRY_INDEX_UNIT, ENTRY_MAGIC, read_field
from rocketstore.limits import LONG_MAX
from rocketstore.log.log_end import StoreState
from rocketstore.log.record_reader import RecordReader

FRAMING = ENTRY_HEAD.itemsize  # bytes before each record
INDEX_FILE_SIZE = 32 * 5 * 1024 * 1024  # bytes. Source: DLedgerConfig.mappedFileSizeForEntryIndex
MAX_CHECKPOINT = 1 << 16  # bytes
ROWS = 1 << 16  # records of a walk that are counted at once
UNIT_FIELDS = ("magic", "size", "index", "term", "pos")  # of an entry's head, which its unit in the index repeats


@dataclass(frozen=True)
class DLedgerLog:
    """The files of DLedger's log. Nothing is kept open.

    Attributes: data: the directories of the entries. index: the directory of the index of entries. checkpoint: the file
    with the indexes of the last entry and of the last committed entry.
    Source: DLedgerConfig, DLedgerMmapFileStore.
    """

    data: tuple[StorePath, ...]
    index: StorePath
    checkpoint: StorePath

    def read_checkpoint(self) -> dict[str, int]:
        """Return the numbers of the checkpoint by name, ``committedIndex`` and ``endIndex``.

        Raises: OSError; CorruptFileError for a line that is no number. Source: DLedgerMmapFileStore.loadCheckPoint.
        """
        found = {}
        for line in read_small_file(self.checkpoint, MAX_CHECKPOINT).decode("latin-1").splitlines():
            name, _, text = line.partition("=")
            if trim(name) in ("committedIndex", "endIndex"):
                number = parse_long(trim(text))
                if number is None:
                    raise CorruptFileError(self.checkpoint, 0, trim(name), f"{text!r} is no number")
                found[trim(name)] = number
        return found

    def read_index_unit(self, index: int) -> bytes:
        """Return the unit of an entry in the index files; less than 32 bytes if no file has it. Raises: OSError."""
        place = index * ENTRY_INDEX_UNIT.itemsize
        if not 0 <= place <= LONG_MAX:
            return b""
        start = place - place % INDEX_FILE_SIZE
        path = self.index / f"{start:020}"
        with contextlib.suppress(FileNotFoundError):
            if is_remote(path):
                size = path.stat().st_size
                return path.pread(min(place - start, size), min(place - start + ENTRY_INDEX_UNIT.itemsize, size))
            with path.open("rb", buffering=0) as file:
                file.seek(place - start)
                return file.read(ENTRY_INDEX_UNIT.itemsize)
        return b""

    def find_entries_begin(self, file_run: FileRunReader) -> int:
        """Return the physical offset of the first entry if only zeros are before it in the first file, otherwise 0.

        A follower that is far behind its leader deletes its files, and continues at the leader's position in a new
        file. This file has zeros before the position, and the index of entries has no unit of an earlier entry. If
        such a unit exists, or if another fact does not fit, the zeros are damage, and the result is 0.

        Source: DLedgerMmapFileStore.truncate, MmapFileList.rebuildWithPos.
        """
        file = file_run.files[0] if file_run.files else None
        if file is None or any(file_run.pread(file.file_from_offset, ENTRY_HEAD.itemsize)):
            return 0
        unit = self._read_first_index_unit(file_run)
        begin = read_field(unit, ENTRY_INDEX_UNIT, "pos") if unit else 0
        if not file.file_from_offset < begin < file.end_offset:
            return 0
        is_first = is_unit_of(unit, file_run.pread(begin, ENTRY_HEAD.itemsize))
        return begin if is_first and nonzero_end(file.path, 0, begin - file.file_from_offset) == 0 else 0

    def _read_first_index_unit(self, file_run: FileRunReader) -> bytes:
        """Return the first unit of the index files, b"" if it cannot be found. All later entries have units, too."""
        known = self._find_later_index(file_run)
        if known is None or not self._has_index_unit(known):
            return b""
        return self.read_index_unit(bisect.bisect_left(range(known), True, key=self._has_index_unit))

    def _find_later_index(self, file_run: FileRunReader) -> int | None:
        """Return the index of an entry after the first one, None if it is unknown.

        The entry is the first one of the second file, or the last one by the checkpoint.
        """
        if len(file_run.files) > 1:
            return read_index(file_run, file_run.files[1].file_from_offset)
        with contextlib.suppress(FileNotFoundError, CorruptFileError):  # verify reports a damaged checkpoint
            return self.read_checkpoint().get("endIndex")
        return None

    def _has_index_unit(self, index: int) -> bool:
        unit = self.read_index_unit(index)
        if len(unit) < ENTRY_INDEX_UNIT.itemsize or read_field(unit, ENTRY_INDEX_UNIT, "magic") != ENTRY_MAGIC:
            return False
        return read_field(unit, ENTRY_INDEX_UNIT, "index") == index


class UncommittedEntries:
    """The entries at the end of DLedger's log that are not committed: another member may replace them.

    After a crash the checkpoint may be seconds older than the last committed entry, so no entry is left out then.
    Source: DLedgerCommitLog.getMaxOffset, DLedgerMmapFileStore.updateCommittedIndex.
    """

    def __init__(self, files: DLedgerLog, find_store_state: Callable[[], StoreState]) -> None:
        """Parameters: find_store_state: finds how the last writer left the store."""
        self._files = files
        self._find_store_state = find_store_state
        self._known: dict[int, int] = {}  # the last committed index, and where its entry ends

    def find_begin(self, log: RecordReader) -> int:
        """Return the physical offset, bytes, where they begin; LONG_MAX if none is known to be uncommitted."""
        if self._find_store_state() == StoreState.CRASHED:
            return LONG_MAX
        with contextlib.suppress(FileNotFoundError, CorruptFileError):  # verify reports a damaged checkpoint
            committed = self._files.read_checkpoint().get("committedIndex")
            if committed is not None:
                if committed not in self._known:
                    self._known = {committed: self._find_end_of(log, committed)}
                return self._known[committed]
        return LONG_MAX

    def _find_end_of(self, log: RecordReader, committed: int) -> int:
        """Return where an entry ends, bytes: by the index files, or if they do not fit the log, by counting entries.

        If the log ends before the entry, all entries are committed. If it begins behind the entry, none is.
        """
        unit = self._files.read_index_unit(committed)
        if len(unit) == ENTRY_INDEX_UNIT.itemsize and read_field(unit, ENTRY_INDEX_UNIT, "index") == committed:
            pos, size = read_field(unit, ENTRY_INDEX_UNIT, "pos"), read_field(unit, ENTRY_INDEX_UNIT, "size")
            if pos >= 0 and read_index(log.file_run, pos) == committed and log.begins_record(pos):
                end = log.walk(log.scanner(()), pos, pos + 1)
                return end if end == pos + size else self._count_to(log, committed)
        return self._count_to(log, committed)

    def _count_to(self, log: RecordReader, committed: int) -> int:
        begin, first = self._find_file(log, committed)
        if begin is None or first is None:
            return LONG_MAX
        if first > committed:
            return begin
        scanner = log.scanner(("phy_offset", "size"))
        offset = begin
        while (step := log.step(scanner, offset, LONG_MAX, min(committed - first + 1, ROWS))) is not None:
            columns, rows = scanner.take(), scanner.rows
            rows = len(columns["size"])
            first += rows
            if first > committed:
                return int(columns["phy_offset"][rows - 1]) + int(columns["size"][rows - 1])
            if step[0] == offset:
                return LONG_MAX
            offset = step[0]
        return LONG_MAX

    def _find_file(self, log: RecordReader, committed: int) -> tuple[int | None, int | None]:
        """Return where to begin to count, bytes, and the index of the entry there."""
        begin = first = None
        for file in log.file_run.files:
            index = read_index(log.file_run, log.begin_in(file))
            if index is None:
                continue
            if first is None or index <= committed:
                begin, first = log.begin_in(file), index
        return begin, first


def read_index(file_run: FileRunReader, pos: int) -> int | None:
    """Return the index of the entry at a physical offset; None if no entry with this position is there."""
    head = file_run.pread(pos, ENTRY_HEAD.itemsize)
    if len(head) < ENTRY_HEAD.itemsize or read_field(head, ENTRY_HEAD, "magic") != ENTRY_MAGIC:
        return None
    return read_field(head, ENTRY_HEAD, "index") if read_field(head, ENTRY_HEAD, "pos") == pos else None


def is_unit_of(unit: bytes, head: bytes) -> bool:
    """Return whether a unit of the index of entries leads to the entry that has this head."""
    if len(unit) < ENTRY_INDEX_UNIT.itemsize or len(head) < ENTRY_HEAD.itemsize:
        return False
    return all(read_field(unit, ENTRY_INDEX_UNIT, name) == read_field(head, ENTRY_HEAD, name) for name in UNIT_FIELDS)

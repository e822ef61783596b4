"""IndexFile: one hash index file, from key to physical offsets."""

from __future__ import annotations

import contextlib
import mmap
import operator
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice, repeat
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from rocketstore.config import DEFAULT_COMPAT, DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM, Compat
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.errors import CorruptFileError, SettingError, StoreClosedError
from rocketstore.kernels.columns import require_int64
from rocketstore.kernels.index_file import IndexFileKernel
from rocketstore.kernels.layout import INDEX_HEADER, INDEX_ITEM, INDEX_SLOT, read_field
from rocketstore.limits import INT_MAX

__all__ = [
    "IndexFile", "IndexHeader", "checked_geometry", "default_geometry", "geometry_of", "given_geometry",
    "shown_geometry",
]

HEADER_SIZE, SLOT_SIZE, ITEM_SIZE = INDEX_HEADER.itemsize, INDEX_SLOT.itemsize, INDEX_ITEM.itemsize


class IndexHeader(NamedTuple):
    """The header of an index file: times in epoch milliseconds, offsets in bytes of the commit log.

    ``hash_slot_count``: puts that found their slot empty. ``index_count``: the next item's ordinal, items + 1.
    Source: IndexHeader.
    """

    begin_timestamp: int
    end_timestamp: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int


class IndexFile(IndexFileKernel):
    """An index file: a table of hash slots, and items chained from each slot, newest first.

    Made by ``create`` or ``open``; a context manager. ``len`` is the number of items. One opened with mode "r"
    pickles as its path and geometry and is opened again where it is used.

    Attributes: path; mode; compat, the RocketMQ release whose bytes are written; hash_slot_num; index_num.
    Source: org.apache.rocketmq.store.index.IndexFile.
    """

    compat: str
    _file: MappedFile

    def __new__(
        cls, file: MappedFile, hash_slot_num: int, index_num: int, compat: str, unpublished: bool = False
    ) -> Self:
        counts_every_put = Compat.of(compat).counts_every_put
        self = super().__new__(
            cls, file.buffer, hash_slot_num, index_num, counts_every_put, file.fd, unpublished
        )
        self._file = file
        self.compat = compat
        return self

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        hash_slot_num: int = DEFAULT_HASH_SLOT_NUM,
        index_num: int = DEFAULT_INDEX_NUM,
        end_phy_offset: int = 0,
        end_timestamp: int = 0,
        compat: str = DEFAULT_COMPAT,
    ) -> Self:
        """Make an index file and open it for writing.

        Parameters: hash_slot_num: slots. index_num: items and one, as RocketMQ counts. end_phy_offset,
        end_timestamp: where the file before this one ended. compat: the RocketMQ release to write as.
        Raises: FileExistsError; OSError, if the disk is full; TypeError, ValueError for a geometry, offset or time that
        cannot be.
        Source: IndexFile.<init>.
        """
        Compat.of(compat)
        hash_slot_num, index_num = checked_geometry(hash_slot_num, index_num)
        require_int64(end_phy_offset=end_phy_offset, end_timestamp=end_timestamp)
        file = MappedFile(path, "r+", create_size=file_size(hash_slot_num, index_num))
        try:
            self = cls(file, hash_slot_num, index_num, compat, True)
            self._seed_header(end_phy_offset, end_timestamp)
            return self
        except BaseException:
            file.close()
            file.path.unlink()
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: str = "r",
        *,
        hash_slot_num: int | None = None,
        index_num: int | None = None,
        compat: str = DEFAULT_COMPAT,
        _is_known: bool = False,
    ) -> Self:
        """Open an index file.

        Parameters: mode: "r" changes nothing and works on a read-only directory, "r+" also puts, and gives a file that
        is not full all its room on the disk. hash_slot_num, index_num: the geometry, which no file holds. Not given, it
        is RocketMQ's default if the length fits and sampled items agree; in mode "r" else the only pair with which they
        do.
        Raises: CorruptFileError if the file cannot be an index of this geometry, or sampled items are found with
        another alone; ValueError if the geometry does not follow from the file; FileNotFoundError and other OSError.
        Source: IndexFile.load.
        """
        Compat.of(compat)
        given = given_geometry(hash_slot_num, index_num)
        file = MappedFile(path, mode)
        try:
            self = cls(file, *(given or infer_geometry(file, guess=mode == "r")), compat)
            other = other_geometry(file, *given) if given and not _is_known else None
            if other:
                reason = f"the items are found with {other} alone, not with {given}: open it with that geometry"
                raise CorruptFileError(file.path, 36, "indexCount", reason)
            if mode != "r":
                if not self.is_write_full:
                    file.allocate_holes()  # RocketMQ's are sparse
                self._undo_torn_put()
            return self
        except BaseException:
            file.close()
            raise

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def mode(self) -> str:
        return self._file.mode

    @property
    def identity(self) -> object:
        """What another file at the path would not have."""
        return self._file.identity

    @property
    def closed(self) -> bool:
        return self._file.buffer.closed

    @property
    def header(self) -> IndexHeader:
        """The header as it is now. Source: IndexHeader.load."""
        return IndexHeader(*self._header())

    @property
    def is_write_full(self) -> bool:
        """Whether no item fits any more. Source: IndexFile.isWriteFull."""
        return self.header.index_count >= self.index_num

    def is_time_matched(self, begin_timestamp: int, end_timestamp: int) -> bool:
        """Whether the file's time range and this one, epoch milliseconds, inclusive, have anything in common.

        Source: IndexFile.isTimeMatched.
        """
        first, last = self.header[:2]
        return (
            (begin_timestamp < first and end_timestamp > last)
            or first <= begin_timestamp <= last
            or first <= end_timestamp <= last
        )

    def items(self, start: int, stop: int) -> np.ndarray:
        """Return the items of ordinals from ``start`` to before ``stop``, INDEX_ITEM[n], as stored and not copied.

        Raises: DiskReadError if the disk cannot read them; CorruptFileError if the file was cut; StoreClosedError.
        """
        self._check_file_size()
        place = HEADER_SIZE + SLOT_SIZE * self.hash_slot_num + ITEM_SIZE * start
        items = np.frombuffer(self._file.view(), INDEX_ITEM, stop - start, place)
        int(items["key_hash"][:: mmap.PAGESIZE // ITEM_SIZE].sum() + items["key_hash"][-1:].sum())  # touch every page
        self._file.buffer.check_faults()
        return items

    def wild_slots(self, key_hashes: np.ndarray) -> np.ndarray:
        """Give the slot of each of these hashes, int32[n], if it names an item that there is not, else -1."""
        self._check_file_size()
        places = key_hashes % self.hash_slot_num
        ordinals = np.frombuffer(self._file.view(), INDEX_SLOT, self.hash_slot_num, HEADER_SIZE)[places]
        count = self.header.index_count  # after the slots: a writer publishes them first
        return np.where((ordinals < 0) | (ordinals > count), places, -1)

    def check_file(self) -> None:
        """Raise StoreError unless the file, open for writing, is still the one with its name."""
        self._file.check_file()

    def flush(self) -> None:
        """Write the header and what changed to the disk. Raises: OSError; io.UnsupportedOperation in mode "r".

        Source: IndexFile.flush.
        """
        self._check_file_size()
        self._write_count()
        self._file.flush()

    def close(self) -> None:
        """Flush if open for writing, wait for calls in flight, and unmap. Later calls raise StoreClosedError."""
        try:
            if self.mode != "r":
                with contextlib.suppress(StoreClosedError):  # closed before, or by another thread just now
                    self.flush()
        finally:
            self._file.close()

    def __len__(self) -> int:
        return self.header.index_count - 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self.mode != "r":
            raise TypeError(f"{self.path} is open for writing: only a reader can be pickled")
        return _reopen, (type(self), self.path, self.hash_slot_num, self.index_num, self.compat)

    def __repr__(self) -> str:
        if self.closed:
            return f"<IndexFile {str(self.path)!r}, closed>"
        header = self.header
        span = f"{_time(header.begin_timestamp)} to {_time(header.end_timestamp)}"
        return (
            f"<IndexFile {str(self.path)!r}, mode {self.mode!r}: {header.index_count - 1:,} of "
            f"{self.index_num - 1:,} items, {self.hash_slot_num:,} slots, {span}>"
        )


def _reopen(cls: type[IndexFile], path: Path, hash_slot_num: int, index_num: int, compat: str) -> IndexFile:
    return cls.open(path, hash_slot_num=hash_slot_num, index_num=index_num, compat=compat)


def _time(timestamp: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(" ", "milliseconds")[:-6]
    except (ValueError, OverflowError, OSError):
        return str(timestamp)


def file_size(hash_slot_num: int, index_num: int) -> int:
    """Return the length of an index file in bytes."""
    return HEADER_SIZE + SLOT_SIZE * hash_slot_num + ITEM_SIZE * index_num


# ---- geometry ----------------------------------------------------------------------------------------------

CHUNK = 1 << 20
SAMPLES = 64
FEW_SAMPLES = 8  # of a geometry that is given: each is a page of the slots to read
LONGEST_WALK = 10_000
MOST_TRIED = 4096  # geometries; of a whole file few are possible
MOST_STEPS = 4_000_000  # from item to item, in all of them
ENDLESS = repeat(True)
GEOMETRY_SETTINGS = ("max_hash_slot_num", "max_index_num")


def given_geometry(hash_slot_num: int | None, index_num: int | None) -> tuple[int, int] | None:
    """Return the geometry that a caller gives, None for none. Raises: ValueError for half of one; as the check."""
    if hash_slot_num is None and index_num is None:
        return None
    if hash_slot_num is None or index_num is None:
        raise ValueError("hash_slot_num and index_num: give both or none")
    return checked_geometry(hash_slot_num, index_num)


def checked_geometry(hash_slot_num: int, index_num: int) -> tuple[int, int]:
    """Return a geometry. Raises: TypeError for what is no integer, ValueError for a geometry of no file."""
    hash_slot_num, index_num = operator.index(hash_slot_num), operator.index(index_num)
    if not (1 <= hash_slot_num <= INT_MAX and 2 <= index_num <= INT_MAX):
        raise ValueError(
            f"hash_slot_num={hash_slot_num}, index_num={index_num}: from 1, from 2, and to {INT_MAX} are possible"
        )
    return hash_slot_num, index_num


def geometry_of(paths: list[Path], *, for_writing: bool) -> tuple[int, int]:
    """Return the geometry that the files of one index show, or RocketMQ's default where there is no file.

    An older file that has expired is passed over in reading. Raises: ValueError if none of the files shows it.
    """
    for path in paths:
        found = shown_geometry(path, for_writing=for_writing, is_newest=path == paths[-1])
        if found is not None:
            return found
    return default_geometry(paths)


def shown_geometry(path: Path, *, for_writing: bool, is_newest: bool) -> tuple[int, int] | None:
    """Return the geometry that one file of an index shows, None if it shows none, or has expired since it was listed.

    Raises: CorruptFileError if the file can be no index file; FileNotFoundError for a file that does not expire.
    """
    try:
        with MappedFile(path) as file:
            return infer_geometry(file, guess=not for_writing)
    except ValueError:
        return None
    except FileNotFoundError:
        if for_writing or is_newest:
            raise
        return None


def default_geometry(paths: Sequence[Path]) -> tuple[int, int]:
    """Return RocketMQ's default for an index without a file. Raises: ValueError if there are files."""
    if paths:
        reason = f"{paths[0].parent}: give hash_slot_num and index_num, which do not follow from the files"
        raise SettingError(reason, *GEOMETRY_SETTINGS)
    return DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM


def other_geometry(file: MappedFile, hash_slot_num: int, index_num: int) -> tuple[int, int] | None:
    """Return the only geometry with which items are found, if the newest are not with this one.

    None if they are, and if they are found with none, or most of the others with this one: those are a crash's.
    """
    with file.reading() as view:
        return _other_geometry(file, np.frombuffer(view, np.uint8), hash_slot_num, index_num)


def _other_geometry(file: MappedFile, data: np.ndarray, hash_slot_num: int, index_num: int) -> tuple[int, int] | None:
    count = read_field(data[:HEADER_SIZE].tobytes(), INDEX_HEADER, "index_count")
    if are_reachable(data, range(max(1, count - FEW_SAMPLES), count), hash_slot_num, index_num):
        return None
    others = spread(count)
    if sum(are_reachable(data, [ordinal], hash_slot_num, index_num) for ordinal in others) > len(others) // 2:
        return None
    with contextlib.suppress(ValueError, CorruptFileError):
        found = infer_geometry(file, guess=True)
        return None if found == (hash_slot_num, index_num) else found  # shown by what is put meanwhile
    return None


def infer_geometry(file: MappedFile, *, guess: bool) -> tuple[int, int]:
    """Return (hash_slot_num, index_num) of an index file.

    Parameters: guess: also take a geometry that is not RocketMQ's default, if it is the only one that fits.
    Raises: ValueError if none or more than one may be; CorruptFileError if none can.
    """
    with file.reading() as view:
        return _infer_geometry(file, np.frombuffer(view, np.uint8), guess)


def _infer_geometry(file: MappedFile, data: np.ndarray, guess: bool) -> tuple[int, int]:
    if len(data) < file_size(1, 2) or len(data) % SLOT_SIZE:
        raise CorruptFileError(file.path, len(data), "file size", "no index file has this length")
    count = read_field(data[:HEADER_SIZE].tobytes(), INDEX_HEADER, "index_count")
    default = (DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM)
    if len(data) == file_size(*default) and items_agree(data, count, *default):
        return default
    possible, steps = possible_pairs(data, count) if guess else iter(()), repeat(True, MOST_STEPS)
    tried = islice(possible, MOST_TRIED)
    pairs = list(islice((pair for pair in tried if items_agree(data, count, *pair, steps)), 2))
    is_all = len(pairs) < 2 and next(possible, None) is None and next(steps, False)
    if len(pairs) == 1 and is_all:
        return pairs[0]
    if len(pairs) == 0 and is_all and count > 1 and guess:
        raise CorruptFileError(
            file.path, 36, "indexCount", f"no geometry agrees with {count - 1} items: not an index file, or damaged"
        )
    reason = f"{file.path}: give hash_slot_num and index_num, which do not follow from the file"
    raise SettingError(reason, *GEOMETRY_SETTINGS)


def possible_pairs(data: np.ndarray, count: int) -> Iterator[tuple[int, int]]:
    """Give each geometry of the file's length with which the newest item's slot leads to it, or to a newer one."""
    length = len(data)
    most = (length - HEADER_SIZE - SLOT_SIZE) // ITEM_SIZE
    if count < 2:
        return
    for first in range(max(count, 2), most + 1, CHUNK):
        index_nums = np.arange(first, min(first + CHUNK, most + 1), dtype=np.int64)
        slot_nums = (length - HEADER_SIZE - ITEM_SIZE * index_nums) // SLOT_SIZE
        # The newest item is at the head of its slot's chain, or a newer one is that a writer has not counted yet.
        newest = length - ITEM_SIZE * (index_nums - (count - 1))
        heads = _int32(data, HEADER_SIZE + SLOT_SIZE * (_int32(data, newest) % slot_nums))
        for i in np.flatnonzero((heads >= count - 1) & (heads < index_nums)):
            yield int(slot_nums[i]), int(index_nums[i])


def _int32(data: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Read big-endian int32 at byte positions, all multiples of 4 away from the start."""
    values: np.ndarray = data.view(">i4")[positions // 4].astype(np.int64)
    return values


def items_agree(
    data: np.ndarray, count: int, hash_slot_num: int, index_num: int, steps: Iterator[bool] = ENDLESS
) -> bool:
    """Whether sampled items are reachable from their slots under this geometry."""
    samples = {*range(max(1, count - SAMPLES), count), *spread(count)}
    return are_reachable(data, [*samples], hash_slot_num, index_num, steps)


def spread(count: int) -> list[int]:
    """Ordinals of items from the first to the last of a file."""
    return [*dict.fromkeys(np.linspace(1, count - 1, SAMPLES, dtype=int).tolist())] if count > 1 else []


def are_reachable(
    data: np.ndarray, ordinals: Sequence[int], hash_slot_num: int, index_num: int, steps: Iterator[bool] = ENDLESS
) -> bool:
    """Whether all items of these ordinals are reachable from their slots under this geometry.

    What takes more than ``LONGEST_WALK`` steps, or more than there are, counts as reachable.
    """
    if max(ordinals, default=0) >= index_num:
        return False
    slots = data[HEADER_SIZE : HEADER_SIZE + SLOT_SIZE * hash_slot_num].view(INDEX_SLOT)
    items = data[HEADER_SIZE + SLOT_SIZE * hash_slot_num :].view(INDEX_ITEM)
    return all(_reachable(slots, items, ordinal, steps) for ordinal in ordinals)


def _reachable(slots: np.ndarray, items: np.ndarray, ordinal: int, steps: Iterator[bool]) -> bool:
    key_hash = int(items["key_hash"][ordinal])
    at = int(slots[key_hash % len(slots)])
    for _ in islice(steps, LONGEST_WALK):
        if key_hash < 0 or at <= ordinal:
            return key_hash >= 0 and at == ordinal
        if at >= len(items):
            return False
        before = int(items["prev_index"][at])
        if before >= at:
            return False
        at = before
    return True

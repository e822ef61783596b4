"""IndexFile: one hash index file, from key to physical offsets."""

from __future__ import annotations

import contextlib
import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from rocketstore.compat import DEFAULT_COMPAT, Compat
from rocketstore.config import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM
from rocketstore.disk.closable import Closable
from rocketstore.disk.held_directory import HeldDirectory, unlink_path
from rocketstore.disk.mapped_file import MappedFile, Mode
from rocketstore.disk.storage import local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.disk.work_threads import WorkThreads, run_in_threads
from rocketstore.errors import CorruptFileError, StoreClosedError
from rocketstore.index.geometry import (
    HEADER_SIZE,
    IndexGeometry,
    checked_geometry,
    given_geometry,
    infer_geometry,
    other_geometry,
    require_items,
    slot_offset,
)
from rocketstore.index.index_header import IndexHeader
from rocketstore.index.key_lookup import KeySpan
from rocketstore.kernels.columns import checked_hashes, require_int64
from rocketstore.kernels.index_file import IndexFileKernel
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.layout import INDEX_HEADER, INDEX_ITEM, INDEX_SLOT
from rocketstore.kernels.phy_offsets import PhyOffsets
from rocketstore.kernels.verify import check_chains
from rocketstore.limits import LONG_MAX
from rocketstore.made_by import made_by
from rocketstore.root_places import LOG_DIRECTORY
from rocketstore.text_values import Time, time_as_long

HASHES_PER_THREAD = 65536  # at least; the start of a thread takes longer than a look-up of fewer hashes


@made_by("IndexFile.open(path)")
class IndexFile(IndexFileKernel, Closable):
    """An index file: a table of hash slots, and items chained from each slot, newest first.

    ``create`` and ``open`` make it. It is a context manager. ``len`` is the number of items. A file opened with mode
    "r" pickles as its path and geometry, and is opened again in the process that gets it.

    Attributes: path; mode; compat, the RocketMQ release whose bytes are written; hash_slot_num; index_num.
    Source: org.apache.rocketmq.store.index.IndexFile.

    Examples:
    >>> with IndexFile.create("20231114221320000", hash_slot_num=100, index_num=400) as file:
    ...     file.put_key("Orders#order-7", phy_offset=1024, store_timestamp=1_700_000_000_000)
    ...     print(file.select_phy_offset("Orders#order-7"))
    True
    [1024]
    """

    compat: str
    _file: MappedFile

    def __new__(cls, file: MappedFile, geometry: IndexGeometry, compat: str, *, unpublished: bool = False) -> Self:
        counts_every_put = Compat.of(compat).counts_every_put
        self = super().__new__(cls, file.buffer, *geometry, counts_every_put, file.fd, unpublished)
        self._file = file
        self.compat = compat
        return self

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | StorePath,
        *,
        hash_slot_num: int = DEFAULT_HASH_SLOT_NUM,
        index_num: int = DEFAULT_INDEX_NUM,
        end_phy_offset: int = 0,
        end_timestamp: Time = 0,
        compat: str = DEFAULT_COMPAT,
        _held: HeldDirectory | None = None,
        _preallocate: bool = True,
    ) -> Self:
        """Make an index file and open it for writing.

        Parameters: hash_slot_num: slots. index_num: items plus one, as RocketMQ counts. end_phy_offset, end_timestamp:
        the end of the file before this one. compat: the RocketMQ release to write as.
        Raises: FileExistsError; OSError, if the disk is full; TypeError, ValueError for an impossible geometry, offset
        or time.
        Source: IndexFile.<init>.
        """
        Compat.of(compat)
        geometry = checked_geometry(hash_slot_num, index_num)
        end_time = time_as_long(end_timestamp, "end_timestamp")
        require_int64(end_phy_offset=end_phy_offset, end_timestamp=end_time)
        size, model = geometry.file_size, LOG_DIRECTORY
        file = MappedFile(path, "r+", create_size=size, preallocate=_preallocate, model_directory=model, held=_held)
        try:
            file.allocate(0, HEADER_SIZE)
            self = cls(file, geometry, compat, unpublished=True)
            self._seed_header(end_phy_offset, end_time)
            return self
        except BaseException:
            file.close()
            unlink_path(local_path(file.path), _held)
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | StorePath,
        mode: Mode = "r",
        *,
        hash_slot_num: int | None = None,
        index_num: int | None = None,
        compat: str = DEFAULT_COMPAT,
        _is_known: bool = False,
        _preallocate: bool = True,
    ) -> Self:
        """Open an index file.

        Parameters: mode: "r" changes nothing and works on a read-only directory. "r+" also puts, and reserves the disk
        space of a file that is not full. hash_slot_num, index_num: the geometry, which no file holds. By default it is
        RocketMQ's default if the length fits and sampled items agree. In mode "r" it may also be the only other
        geometry with which sampled items agree.
        A file that is shorter than its geometry is read as if zeros followed; open for writing, it becomes as long. So
        does RocketMQ.
        Raises: CorruptFileError if the file cannot be an index of this geometry, also because items were cut off, or if
        sampled items agree only with another geometry; ValueError if the geometry does not follow from the file;
        FileNotFoundError; OSError.
        Source: IndexFile.load.
        """
        Compat.of(compat)
        given = given_geometry(hash_slot_num, index_num)
        if given and mode != "r":
            with contextlib.closing(MappedFile(path, least_size=given.file_size)) as read:
                require_items(read, given)  # before the file is made longer
        file = MappedFile(path, mode, least_size=given.file_size if given else 0)
        try:
            if given:
                require_items(file, given)
            self = cls(file, given or infer_geometry(file, guess=mode == "r"), compat)
            other = other_geometry(file, given) if given and not _is_known else None
            if other and given:
                reason = f"the items are found with {other} alone, not with {given}: open it with that geometry"
                raise CorruptFileError(file.path, 36, "indexCount", reason)
            if mode != "r":
                if _preallocate and not self.is_write_full:
                    file.allocate_holes()  # RocketMQ's are sparse
                self._undo_torn_put()
            return self
        except BaseException:
            file.close()
            raise

    @property
    def path(self) -> StorePath:
        return self._file.path

    @property
    def mode(self) -> str:
        return self._file.mode

    @property
    def geometry(self) -> IndexGeometry:
        """The numbers of slots and items that the file has room for."""
        return IndexGeometry(self.hash_slot_num, self.index_num)

    @property
    def identity(self) -> object:
        """A value that differs if another file takes the path of this one, or if a short file may have grown."""
        is_short = self._file.size_in_file < self._file.buffer.size
        return ("short", self._file.identity) if is_short else self._file.identity

    @property
    def closed(self) -> bool:
        return self._file.buffer.closed

    @property
    def header(self) -> IndexHeader:
        """The current header. Source: IndexHeader.load."""
        return IndexHeader(*self._header())

    @property
    def is_write_full(self) -> bool:
        """Whether the file is full. Source: IndexFile.isWriteFull."""
        return self.header.index_count >= self.index_num

    def is_time_matched(self, begin_timestamp: Time, end_timestamp: Time) -> bool:
        """Return whether the times of the file overlap an inclusive range.

        Parameters: epoch milliseconds, datetimes, dates or ISO 8601 texts. Source: IndexFile.isTimeMatched.
        """
        begin = time_as_long(begin_timestamp, "begin_timestamp")
        end = time_as_long(end_timestamp, "end_timestamp")
        first, last = self.header[:2]
        return (begin < first and end > last) or first <= begin <= last or first <= end <= last

    def select_phy_offsets(
        self,
        keys: Any,
        *,
        topic: Any = None,
        max_num: int = 32,
        begin_timestamp: Time = 0,
        end_timestamp: Time = LONG_MAX,
        threads: int = 1,
    ) -> PhyOffsets:
        """Find the offsets of a batch of keys.

        Parameters: keys, topic: as for ``hash_keys``, n strings, or one key. threads: the most that search at once. The
        others: as for ``select_phy_offset``.
        Returns: PhyOffsets of n keys.
        Raises: as ``select_phy_offset`` and ``hash_keys``; CorruptFileError also if the file was cut meanwhile.
        Source: IndexFile.selectPhyOffset, for each key.
        """
        return self.select_phy_offsets_by_hash(
            hash_keys([keys] if isinstance(keys, str) else keys, topic=topic),
            max_num=max_num,
            begin_timestamp=begin_timestamp,
            end_timestamp=end_timestamp,
            threads=threads,
        )

    def select_phy_offsets_by_hash(
        self,
        key_hashes: ArrayLike,
        *,
        max_num: int = 32,
        begin_timestamp: Time = 0,
        end_timestamp: Time = LONG_MAX,
        threads: int = 1,
    ) -> PhyOffsets:
        """Find the offsets of a batch of keys by their hashes.

        Parameters: key_hashes: int32[n] from ``hash_keys``. The others; returns; raises: as for ``select_phy_offsets``.
        Source: IndexFile.selectPhyOffset, for each key.
        """
        if threads < 1:
            raise ValueError(f"threads={threads}: must be at least 1")
        hashes = checked_hashes(key_hashes)
        self._check_file_size()
        count = max(1, min(threads, len(hashes) // HASHES_PER_THREAD))
        offsets = np.empty(len(hashes) + 1, np.int64)
        offsets[0] = 0
        bounds = [len(hashes) * i // count for i in range(count + 1)]
        parts = [slice(*pair) for pair in pairwise(bounds)]

        def select(part: slice, others: WorkThreads | None) -> np.ndarray:
            return self._select_range(hashes[part], offsets[1:][part], max_num, begin_timestamp, end_timestamp, others)

        values = run_in_threads(select, parts)
        for part in parts[1:]:
            offsets[1:][part] += offsets[part.start]
        return PhyOffsets(values[0] if count == 1 else np.concatenate(values), offsets)

    def items(self, start: int, stop: int) -> np.ndarray:
        """Return the items of ordinals from ``start`` to before ``stop``, INDEX_ITEM[n], without a copy.

        Raises: DiskReadError if the disk cannot read them; CorruptFileError if the file was cut; StoreClosedError.
        """
        self._check_file_size()
        place = self.geometry.item_offset(start)
        items = np.frombuffer(self._file.view(), INDEX_ITEM, stop - start, place)
        step = mmap.PAGESIZE // INDEX_ITEM.itemsize
        int(items["key_hash"][::step].sum() + items["key_hash"][-1:].sum())  # touch every page
        self._file.buffer.check_faults()
        return items

    def slots(self) -> np.ndarray:
        """Return the ordinal of the newest item of each slot, INDEX_SLOT[n], without a copy. 0: the slot has no item.

        Raises: DiskReadError if the disk cannot read them; CorruptFileError if the file was cut; StoreClosedError.
        """
        self._check_file_size()
        slots = np.frombuffer(self._file.view(), INDEX_SLOT, self.hash_slot_num, INDEX_HEADER.itemsize)
        int(slots[:: mmap.PAGESIZE // INDEX_SLOT.itemsize].sum() + slots[-1:].sum())  # touch every page
        self._file.buffer.check_faults()
        return slots

    def has_sound_chains(self) -> bool:
        """Return whether each slot leads to its newest item, and each item to the item before it in its slot.

        Raises: DiskReadError, CorruptFileError, StoreClosedError as ``slots``.
        """
        newest = np.zeros(self.hash_slot_num, np.int32)
        faults = check_chains(self._file.buffer, len(self), newest)[1]
        return not faults and np.array_equal(newest, self.slots())

    def find_lost(self, key_hashes: np.ndarray) -> tuple[np.ndarray, str]:
        """Return which hashes have items that cannot be found, because their slot names an item that does not exist.

        Lookups of these hashes must precede the call.

        Returns: positions of hashes, int64[k]; and the damage in words, "" without one.
        """
        if not self.met_wild_slot:
            return np.empty(0, np.int64), ""
        self._check_file_size()
        slots = key_hashes % self.hash_slot_num
        ordinals = np.frombuffer(self._file.view(), INDEX_SLOT, self.hash_slot_num, INDEX_HEADER.itemsize)[slots]
        count = self.header.index_count  # read after the slots: a writer updates them first
        lost = np.flatnonzero((ordinals < 0) | (ordinals > count))
        if not len(lost):
            return lost, ""
        slot = int(slots[lost[0]])
        reason = "names an item that does not exist: its messages are not found"
        return lost, str(CorruptFileError(self.path, slot_offset(slot), f"slot {slot}", reason))

    @property
    def span(self) -> KeySpan | None:
        """The physical offsets of the first and the last message with an item; None without an item."""
        header = self.header
        return KeySpan(header.begin_phy_offset, header.end_phy_offset) if header.index_count > 1 else None

    def entries_between(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return physical offsets and hashes, int64[k] each, of the items of the messages from ``first`` to ``last``.

        The items of a file have the order of the log. Parameters: physical offsets, both inclusive.
        """
        offsets = _ItemOffsets(self)
        begin = bisect_left(offsets, first)
        items = self.items(begin + 1, bisect_right(offsets, last, begin) + 1)
        return items["phy_offset"].astype(np.int64), items["key_hash"].astype(np.int64)

    def allocate(self, begin: int, end: int) -> None:
        """Reserve disk space for the bytes from ``begin`` to before ``end``. Raises: OSError."""
        self._file.allocate(begin, end)

    def check_file(self) -> None:
        """Raise StoreError if another file has taken the name of this file, which is open for writing."""
        self._file.check_file()

    def flush(self) -> None:
        """Return when the header and all changed bytes are on the disk.

        Raises: OSError; io.UnsupportedOperation in mode "r".
        Source: IndexFile.flush.
        """
        self._check_file_size()
        self._write_count()
        self._file.flush()

    def close(self) -> None:
        """Flush if open for writing, wait for running calls, and unmap. Later calls raise StoreClosedError."""
        try:
            if self.mode != "r":
                with contextlib.suppress(StoreClosedError):  # it is closed already, or by another thread just now
                    self.flush()
        finally:
            self._file.close()

    def __len__(self) -> int:
        return self.header.index_count - 1

    def __reduce__(self) -> tuple[object, ...]:
        geometry = self.geometry._asdict()
        return self._reduce_reader(self.path, is_writer=self.mode != "r", compat=self.compat, **geometry)

    def __repr__(self) -> str:
        if self.closed:
            return f"<IndexFile {str(self.path)!r}, closed>"
        header = self.header
        span = f"{_time(header.begin_timestamp)} to {_time(header.end_timestamp)}"
        return (
            f"<IndexFile {str(self.path)!r}, mode {self.mode!r}: {header.index_count - 1:,} of "
            f"{self.index_num - 1:,} items, {self.hash_slot_num:,} slots, {span}>"
        )


class _ItemOffsets(Sequence[int]):
    """The physical offsets of a file's items. Each is read on access, so that a search reads few pages of the file."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._count = max(min(file.header.index_count, file.index_num), 1) - 1

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, i: int) -> int: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[int]: ...
    def __getitem__(self, i: int | slice) -> Any:
        assert isinstance(i, int)
        return int(self._file.items(i + 1, i + 2)["phy_offset"][0])


def _time(timestamp: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(" ", "milliseconds")[:-6]
    except (ValueError, OverflowError, OSError):
        return str(timestamp)

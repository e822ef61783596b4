"""IndexGeometry: how many slots and items an index file has room for. No file holds it; items may show it."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from rocketstore.config import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM, config_text
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, SettingError
from rocketstore.index.index_header import unpack_header
from rocketstore.kernels.index_select import walk_to_item
from rocketstore.kernels.layout import INDEX_HEADER, INDEX_ITEM, INDEX_SLOT
from rocketstore.limits import INT_MAX, LONG_MAX

GEOMETRY_SETTINGS = ("max_hash_slot_num", "max_index_num")
HEADER_SIZE, SLOT_SIZE, ITEM_SIZE = INDEX_HEADER.itemsize, INDEX_SLOT.itemsize, INDEX_ITEM.itemsize
CHUNK = 1 << 14  # geometries that are tried at once: their arrays fit into a cache
SAMPLES = 64
FEW_SAMPLES = 8  # to check a given geometry: each sample reads a page of the slots
LONGEST_WALK = 10_000  # steps from a slot to one item
MOST_TRIED = 4096  # geometries; an undamaged file leaves few possible
MOST_STEPS = 4_000_000  # from item to item, for all geometries together


@dataclass
class Budget:
    """The steps from item to item that are left for a search."""

    steps: int = LONG_MAX


class IndexGeometry(NamedTuple):
    """The numbers of slots and of items that an index file has room for. Item 0 is never used."""

    hash_slot_num: int
    index_num: int

    @property
    def file_size(self) -> int:
        """The length of the file, bytes."""
        return self.item_offset(self.index_num)

    def item_offset(self, ordinal: int) -> int:
        """Return the offset of an item in the file, bytes."""
        return slot_offset(self.hash_slot_num) + ITEM_SIZE * ordinal

    def __str__(self) -> str:
        return f"({self.hash_slot_num}, {self.index_num})"


def slot_offset(slot: int) -> int:
    """Return the offset of a slot in an index file, bytes."""
    return HEADER_SIZE + SLOT_SIZE * slot


def given_geometry(hash_slot_num: int | None, index_num: int | None) -> IndexGeometry | None:
    """Return the geometry that a caller gives, None if it gives none.

    Raises: ValueError if one number is missing; as ``checked_geometry``.
    """
    if hash_slot_num is None and index_num is None:
        return None
    if hash_slot_num is None or index_num is None:
        raise ValueError("hash_slot_num and index_num: give both or none")
    return checked_geometry(hash_slot_num, index_num)


def checked_geometry(hash_slot_num: int, index_num: int) -> IndexGeometry:
    """Return a geometry. Raises: TypeError unless both are integers; ValueError if one is out of range."""
    hash_slot_num, index_num = operator.index(hash_slot_num), operator.index(index_num)
    if not (1 <= hash_slot_num <= INT_MAX and 2 <= index_num <= INT_MAX):
        raise ValueError(
            f"hash_slot_num={hash_slot_num}, index_num={index_num}: from 1, from 2, and to {INT_MAX} are possible"
        )
    return IndexGeometry(hash_slot_num, index_num)


def geometry_of(paths: list[StorePath], *, for_writing: bool) -> IndexGeometry:
    """Return the geometry that the files of one index show, or RocketMQ's default for an index without a file.

    A reader ignores older files that expired since they were listed. Raises: ValueError if no file shows the geometry.
    """
    for path in longest_first(paths):
        found = shown_geometry(path, for_writing=for_writing, is_newest=path == paths[-1])
        if found is not None:
            return found
    return default_geometry(paths)


def longest_first(paths: Sequence[StorePath]) -> list[StorePath]:
    """Sort index files by length: a file whose end was cut off shows a smaller geometry than the others have."""
    return sorted(paths, key=_length, reverse=True)


def _length(path: StorePath) -> int:
    with contextlib.suppress(FileNotFoundError):  # it has just expired
        return path.stat().st_size
    return 0


def shown_geometry(path: StorePath, *, for_writing: bool, is_newest: bool) -> IndexGeometry | None:
    """Return the geometry that one file of an index shows. None if it shows none, or expired since it was listed.

    Raises: CorruptFileError if the file cannot be an index file; FileNotFoundError for a file that does not expire.
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


def default_geometry(paths: Sequence[StorePath]) -> IndexGeometry:
    """Return RocketMQ's default for an index without a file. Raises: ValueError if there are files."""
    if paths:
        raise unknown_geometry(paths[0].parent, "IndexService")
    return IndexGeometry(DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM)


def unknown_geometry(path: StorePath, opener: str) -> SettingError:
    """Return the error that says how to give a geometry. Parameters: opener: the class that opens the path."""
    advice = (
        f"pass {opener}.open(path, hash_slot_num=N, index_num=N), "
        f"or rocketstore.open(path, {config_text(GEOMETRY_SETTINGS)})"
    )
    reason = f"{path}: the numbers of slots and items do not follow from the files"
    return SettingError(reason, *GEOMETRY_SETTINGS, advice=advice)


def other_geometry(file: MappedFile, geometry: IndexGeometry) -> IndexGeometry | None:
    """Return the only geometry with which items are found, if the newest items are not found with this one.

    None if they are, or if no other geometry finds them. Also None if this geometry finds most older items: a crash
    damaged the newest then.
    """
    with file.reading() as view:
        return _other_geometry(file, np.frombuffer(view, np.uint8), geometry)


def require_items(file: MappedFile, geometry: IndexGeometry) -> None:
    """Raise CorruptFileError unless a file that is shorter than its geometry has all its items, at their places.

    RocketMQ makes a shorter file longer with zeros.
    """
    length, size = file.size_in_file, geometry.file_size
    if length >= size:
        return
    with file.reading() as view:
        count = unpack_header(view).index_count
        if length >= geometry.item_offset(count) and items_agree(np.frombuffer(view, np.uint8), count, geometry):
            return
    reason = f"{geometry.hash_slot_num} slots and {geometry.index_num} items need {size} bytes: not all are there"
    raise CorruptFileError(file.path, length, "file size", reason)


def _other_geometry(file: MappedFile, data: np.ndarray, geometry: IndexGeometry) -> IndexGeometry | None:
    count = unpack_header(data.data).index_count
    if are_reachable(data, range(max(1, count - FEW_SAMPLES), count), geometry):
        return None
    others = spread(count)
    if sum(are_reachable(data, [ordinal], geometry) for ordinal in others) > len(others) // 2:
        return None
    with contextlib.suppress(ValueError, CorruptFileError):
        found = infer_geometry(file, guess=True)
        return None if found == geometry else found  # a writer may append items meanwhile
    return None


def infer_geometry(file: MappedFile, *, guess: bool) -> IndexGeometry:
    """Return the geometry of an index file.

    Parameters: guess: also accept a geometry that is not RocketMQ's default, if it is the only possible one.
    Raises: ValueError if more than one geometry is possible, or if nothing decides; CorruptFileError if none is.
    """
    with file.reading() as view:
        return _infer_geometry(file, np.frombuffer(view, np.uint8), guess)


def _infer_geometry(file: MappedFile, data: np.ndarray, guess: bool) -> IndexGeometry:
    if len(data) < IndexGeometry(1, 2).file_size or len(data) % SLOT_SIZE:
        raise CorruptFileError(file.path, len(data), "file size", "no index file has this length")
    count = unpack_header(data.data).index_count
    default = IndexGeometry(DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM)
    if len(data) == default.file_size and items_agree(data, count, default):
        return default
    possible, budget = possible_geometries(data, count) if guess else iter(()), Budget(MOST_STEPS)
    tried = islice(possible, MOST_TRIED)
    found = list(islice((geometry for geometry in tried if items_agree(data, count, geometry, budget)), 2))
    are_all_tried = len(found) < 2 and next(possible, None) is None and budget.steps > 0
    if len(found) == 1 and are_all_tried:
        return found[0]
    if len(found) == 0 and are_all_tried and count > 1 and guess:
        raise CorruptFileError(
            file.path, 36, "indexCount", f"no geometry agrees with {count - 1} items: not an index file, or damaged"
        )
    raise unknown_geometry(file.path, "IndexFile")


def possible_geometries(data: np.ndarray, count: int) -> Iterator[IndexGeometry]:
    """Yield each geometry of the file's length with which the slot of the newest item leads to it, or a newer item."""
    length = len(data)
    most = (length - HEADER_SIZE - SLOT_SIZE) // ITEM_SIZE
    if count < 2:
        return
    for first in range(max(count, 2), most + 1, CHUNK):
        index_nums = np.arange(first, min(first + CHUNK, most + 1), dtype=np.int64)
        slot_nums = (length - HEADER_SIZE - ITEM_SIZE * index_nums) // SLOT_SIZE
        # The newest item is at the head of its slot's chain, unless a writer appended items and has not counted them.
        newest = length - ITEM_SIZE * (index_nums - (count - 1))
        heads = _int32(data, HEADER_SIZE + SLOT_SIZE * (_int32(data, newest) % slot_nums))
        for i in np.flatnonzero((heads >= count - 1) & (heads < index_nums)):
            yield IndexGeometry(int(slot_nums[i]), int(index_nums[i]))


def _int32(data: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Read big-endian int32 at byte positions, all multiples of 4 away from the start."""
    values: np.ndarray = data.view(">i4")[positions // 4].astype(np.int64)
    return values


def items_agree(data: np.ndarray, count: int, geometry: IndexGeometry, budget: Budget | None = None) -> bool:
    """Return whether sampled items are reachable from their slots under a geometry."""
    samples = {*range(max(1, count - SAMPLES), count), *spread(count)}
    return are_reachable(data, [*samples], geometry, budget)


def spread(count: int) -> list[int]:
    """Return ordinals of samples, evenly spaced from the first to the last item."""
    return [*dict.fromkeys(np.linspace(1, count - 1, SAMPLES, dtype=int).tolist())] if count > 1 else []


def are_reachable(
    data: np.ndarray, ordinals: Sequence[int], geometry: IndexGeometry, budget: Budget | None = None
) -> bool:
    """Return whether all items of these ordinals are reachable from their slots under a geometry.

    An item counts as reachable if the walk to it is longer than ``LONGEST_WALK``, or than the steps that are left.
    """
    if max(ordinals, default=0) >= geometry.index_num:
        return False
    budget = budget or Budget()
    for ordinal in ordinals:
        is_reachable, steps = walk_to_item(data, *geometry, ordinal, min(LONGEST_WALK, budget.steps))
        budget.steps -= steps
        if not is_reachable:
            return False
    return True

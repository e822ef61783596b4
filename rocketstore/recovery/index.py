"""The index files after a crash: find their sound items, and cut the others off."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.errors import CorruptFileError
from rocketstore.index.geometry import IndexGeometry, slot_offset
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_header import IndexHeader, read_header, unpack_header, write_header
from rocketstore.kernels.layout import INDEX_ITEM, INDEX_SLOT
from rocketstore.log.commit_log import CommitLog


class SoundItems(NamedTuple):
    """The items of an index file.

    Attributes: total: all items; sound: the items before the first unsound one. slots_agree: whether slots and header
    fit the sound items. first_phy_offset, last_phy_offset: of the first and the last sound item, -1 without one.
    before_last: the sound items of records before the last one. last_hashes: of the items of the last record.
    """

    path: Path
    total: int
    sound: int
    slots_agree: bool
    first_phy_offset: int = -1
    last_phy_offset: int = -1
    before_last: int = 0
    last_hashes: tuple[int, ...] = ()


class IndexCut(NamedTuple):
    """Keep the first ``kept`` items of an index file; if that is 0, delete it. offset, size: of the rest, in bytes."""

    path: Path
    kept: int
    offset: int
    size: int


def first_item(log: CommitLog, config: StoreConfig, begin: int, end: int) -> int:
    """Return the offset of the first record in this part of the log that has an item; ``end`` without one."""
    with closing(iter(RequestChunks(log, config, begin, end))) as pieces:
        return next((int(piece.items["phy_offset"][0]) for piece in pieces if len(piece.items)), end)


def hashes_of(log: CommitLog, config: StoreConfig, begin: int, end: int) -> set[int]:
    """Return the hashes of all items of a record."""
    return {hash for piece in RequestChunks(log, config, begin, end) for hash in piece.items["key_hash"].tolist()}


def find_sound_items(
    path: Path, geometry: IndexGeometry, end: int, is_trusted: Callable[[IndexHeader], bool]
) -> SoundItems:
    """Find the sound items of an index file, all of records before ``end``.

    After a power loss any sector may have older bytes. An item is sound if it links to the item before it in its slot,
    and all items before it are sound. If the header is trusted and fits the last item, only the last items are read.
    """
    try:
        with IndexFile.open(path, **geometry._asdict(), _is_known=True) as index:
            header = index.header
    except CorruptFileError:  # the process was killed while it made the file
        return SoundItems(path, 0, 0, False)
    count = max(min(header.index_count, geometry.index_num) - 1, 0)
    with closing(MappedFile(path, least_size=geometry.file_size)) as file, file.reading() as view:
        slots, items = _parts(np.frombuffer(view, np.uint8), geometry)
        items = items[1 : count + 1]
        sound, agree = count, True
        is_counted = count > 0 and items[-1]["phy_offset"] == header.end_phy_offset
        if not (is_counted and is_trusted(header)) or header.end_phy_offset >= end:
            sound = _count_sound(items, geometry.hash_slot_num, end)
            agree = is_counted or not count
            agree = agree and bool((slots == _slots(items[:sound]["key_hash"], geometry.hash_slot_num)).all())
            behind = geometry.item_offset(count + 1)
            agree = agree and nonzero_end(path, behind, len(view)) <= behind  # items that were being put
        last = before = sound
        while before and items[before - 1]["phy_offset"] == items[last - 1]["phy_offset"]:
            before -= 1
        first_phy_offset, last_phy_offset = items["phy_offset"][[0, last - 1]].tolist() if last else (-1, -1)
        hashes = tuple(items["key_hash"][before:last].tolist())
        return SoundItems(path, count, sound, agree, first_phy_offset, last_phy_offset, before, hashes)


def sound_phy_offsets(path: Path, geometry: IndexGeometry, end: int) -> np.ndarray:
    """Return the physical offsets of the items that ``find_sound_items`` counts as sound, int64[n], in ascending order.

    Parameters: end: only items of records before it, where that is not after the header's last record.
    """
    count = max(min(read_header(path).index_count, geometry.index_num) - 1, 0)
    with closing(MappedFile(path, least_size=geometry.file_size)) as file, file.reading() as view:
        _, items = _parts(np.frombuffer(view, np.uint8), geometry)
        items = items[1 : count + 1]
        phy_offsets: np.ndarray = items["phy_offset"].astype(np.int64)
        return phy_offsets[: _count_sound(items, geometry.hash_slot_num, end)]


def _count_sound(items: np.ndarray, hash_slot_num: int, end: int) -> int:
    """Count the items before the first unsound one.

    A hash of 0 counts as unsound: it is rare, and a sector of an item that was not written has one.
    """
    hashes, phy_offsets = items["key_hash"].astype(np.int32), items["phy_offset"].astype(np.int64)
    good = (hashes > 0) & (phy_offsets >= 0) & (phy_offsets < end)
    good[1:] &= phy_offsets[1:] >= phy_offsets[:-1]
    good &= items["prev_index"] == _previous(hashes % hash_slot_num)
    return len(items) if good.all() else int(good.argmin())


def _parts(data: np.ndarray, geometry: IndexGeometry) -> tuple[np.ndarray, np.ndarray]:
    """Return the slots and the items of a whole file."""
    begin = geometry.item_offset(0)
    return data[slot_offset(0) : begin].view(INDEX_SLOT), data[begin : geometry.file_size].view(INDEX_ITEM)


def _previous(slot_of: np.ndarray) -> np.ndarray:
    """Return for each item the number of the item before it in its slot, 0 without one."""
    order = np.argsort(slot_of, kind="stable")
    previous = np.zeros(len(slot_of), np.int32)
    same = slot_of[order[1:]] == slot_of[order[:-1]]
    previous[order[1:][same]] = order[:-1][same] + 1
    return previous


def _slots(hashes: np.ndarray, hash_slot_num: int) -> np.ndarray:
    """Return for each slot the number of its last item, 0 without one."""
    slots = np.zeros(hash_slot_num, np.int32)
    np.maximum.at(slots, hashes.astype(np.int32) % hash_slot_num, np.arange(1, len(hashes) + 1, dtype=np.int32))
    return slots


def cut_index(cut: IndexCut, geometry: IndexGeometry, compat: str, log: CommitLog) -> None:
    """End an index file after its first items, as if no other item had been put.

    If the process is killed in the middle, the next recovery cuts the file again.
    """
    with closing(MappedFile(cut.path, "r+", least_size=geometry.file_size)) as file, file.reading() as view:
        file.allocate_holes()
        data = np.frombuffer(view, np.uint8)
        slots, items = _parts(data, geometry)
        kept = items[1 : cut.kept + 1]
        header = unpack_header(view)
        end = int(kept[-1]["phy_offset"])
        record = log.find_message(end)
        end_timestamp = -1 if record is None else int(record.store_timestamp)
        if end_timestamp < 0:
            end_timestamp = header.begin_timestamp + 1000 * int(kept[-1]["time_diff"])
        filled = int((kept["prev_index"] == 0).sum())
        header = header._replace(
            end_timestamp=end_timestamp,
            end_phy_offset=end,
            index_count=cut.kept + 1,
            hash_slot_count=cut.kept if Compat.of(compat).counts_every_put else filled,
        )
        write_header(view, header)
        slots[:] = _slots(kept["key_hash"], geometry.hash_slot_num)
        data[cut.offset :] = 0
        file.flush()

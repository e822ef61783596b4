"""Plan what recovery does to the index: cut unsound items, and find the first record that lacks items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

from rocketstore.compat import DEFAULT_COMPAT
from rocketstore.errors import CorruptFileError
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_header import IndexHeader
from rocketstore.kernels.layout import INDEX_ITEM
from rocketstore.limits import LONG_MAX
from rocketstore.recovery.index import (
    IndexCut,
    SoundItems,
    find_sound_items,
    first_item,
    hashes_of,
    sound_phy_offsets,
)
from rocketstore.recovery.plan_log import LogRepair, find_record_end
from rocketstore.recovery.store_files import StoreFiles
from rocketstore.survey.sizes import read_saved

NEAR = 16 << 20  # bytes behind the newest item that are searched for a record without items
NO_TAGS = "5.3"  # a release without items of tags


@dataclass(frozen=True)
class IndexRepair:
    """The plan for the index.

    Attributes: begin: the physical offset from which records are indexed again, LONG_MAX if the index is disabled.
    """

    begin: int
    cuts: tuple[IndexCut, ...] = ()


def paths_of_index(store: StoreFiles) -> list[Path]:
    """Return the index files of a store, oldest first; none without the directory."""
    directory = store.local_places.index
    return index_paths(directory) if directory.is_dir() else []


def plan_index_after_stop(store: StoreFiles, log: LogRepair, last: int) -> IndexRepair | None:
    """Check after a clean stop that the last index file with items is sound. None: all files must be read.

    Parameters: last: where the record of the newest queue unit ends.
    """
    paths = paths_of_index(store)
    if _empty_files(paths):
        return None
    if not store.config.message_index_enable:
        return IndexRepair(last)
    if not read_saved(store.places.saved_settings).get("message_index_enable", True):
        return None  # the index was disabled, so that recent records have no items
    files = [_find_items(store, log.end, path) for path in paths[-1:]]
    if files and not files[0].total:  # an empty file may follow a full one
        files = [*(_find_items(store, log.end, path) for path in paths[-2:-1]), *files]
    if not files or any(items.sound < items.total or not items.slots_agree for items in files):
        return None
    newest = files[0]
    if not newest.total and len(paths) > 1:
        return None
    if not _are_of_record(store, newest) or not _has_all_items(store, [newest]):
        return None
    begin = _find_first_not_indexed(store, find_record_end(store.log, newest.last_phy_offset), last)
    return IndexRepair(_skip_records_without_items(store, log.end, begin, files))


def plan_index(store: StoreFiles, log: LogRepair, *, whole_log: bool) -> IndexRepair:
    """Plan to cut each file behind its last sound item, and after a crash also the items of the newest record.

    The newest record may lack some of its items after a crash. Parameters: whole_log: also search the log for records
    without items between the index files.
    """
    paths = paths_of_index(store)
    if not store.config.message_index_enable:
        return IndexRepair(LONG_MAX, tuple(IndexCut(path, 0, 0, 0) for path in _empty_files(paths)))
    files = [_find_items(store, log.end, path) for path in paths]
    bad = _find_first_bad(store, files, whole_log=whole_log)
    kept = [items.sound if i <= bad else 0 for i, items in enumerate(files)]
    newest = max((items.last_phy_offset for items, count in zip(files, kept, strict=True) if count), default=-1)
    begin = find_record_end(store.log, newest)
    is_last = [items.last_phy_offset == newest for items in files]
    lasts = [*compress(files, is_last)]
    are_complete = all(_are_of_record(store, items) for items in lasts) and _has_all_items(store, lasts)
    if bad < len(files) or not store.last_exit_ok or not are_complete:
        begin = newest
        kept = [min(kept[i], items.before_last) if is_last[i] else kept[i] for i, items in enumerate(files)]
    begin = max(begin, store.log.min_phy_offset)
    first_cut = next((i for i, items in enumerate(files) if i == bad or kept[i] < items.total), len(files))
    cuts = tuple(_cuts(store, files, kept, first_cut))
    return IndexRepair(begin if cuts else _skip_records_without_items(store, log.end, begin, files), cuts)


def _cuts(store: StoreFiles, files: list[SoundItems], kept: list[int], first_cut: int) -> Iterator[IndexCut]:
    """Yield the cuts from a file on, and of the files whose slots are wrong.

    An empty file behind a cut file is cut too: it begins where that file ended, and would take no items before that.
    """
    for i, (items, count) in enumerate(zip(files, kept, strict=True)):
        if i >= first_cut or not items.slots_agree:
            size = (items.total - count) * INDEX_ITEM.itemsize
            yield IndexCut(items.path, count, store.index_geometry.item_offset(count + 1), size)


def _empty_files(paths: list[Path]) -> list[Path]:
    """Return the files that never got their length, which nobody opens."""
    return [path for path in paths if path.stat().st_size == 0]


# ---- items of a file ---------------------------------------------------------------------------------------


def _find_items(store: StoreFiles, end: int, path: Path) -> SoundItems:
    """Return the sound items of a file. All lead to records of the log, or to records that have expired."""
    geometry, is_trusted = store.index_geometry, _is_trusted(store)
    items = find_sound_items(path, geometry, end, is_trusted)
    if not _lacks_record(store, items.last_phy_offset):
        return items
    size = store.config.mapped_file_size_commit_log
    last = items.last_phy_offset
    phy_offsets = sound_phy_offsets(path, geometry, last - last % size)
    while _lacks_record(store, last):  # many log files may be missing: the items are read once for all of them
        end = last - last % size
        phy_offsets = phy_offsets[: phy_offsets.searchsorted(end)]
        last = int(phy_offsets[-1]) if len(phy_offsets) else -1
    return find_sound_items(path, geometry, end, is_trusted)


def _lacks_record(store: StoreFiles, phy_offset: int) -> bool:
    """Return whether an item leads to an offset of the log at which no record begins. -1 stands for no item."""
    return phy_offset >= store.log.min_phy_offset and find_record_end(store.log, phy_offset) == 0


def _is_trusted(store: StoreFiles) -> Callable[[IndexHeader], bool]:
    """Return a function: whether the checkpoint says that a file with this header was on the disk completely.

    A file that is not full, or that ends at the time of the checkpoint, may have got items after that.
    """
    flushed = store.checkpoint

    def is_trusted(header: IndexHeader) -> bool:
        is_full = header.index_count >= store.config.max_index_num
        is_dispatched = header.end_phy_offset <= flushed.logics_physical_offset or not flushed.logics_physical_offset
        is_older = is_full and header.end_timestamp < flushed.index_msg_timestamp
        return store.last_exit_ok or (is_older and is_dispatched)

    return is_trusted


def _are_of_record(store: StoreFiles, items: SoundItems) -> bool:
    """Return whether the last items of a file are those of their record, or the record has expired."""
    end = find_record_end(store.log, items.last_phy_offset)
    any_release = replace(store.config, compat=DEFAULT_COMPAT)
    return end == 0 or hashes_of(store.log, any_release, items.last_phy_offset, end).issuperset(items.last_hashes)


def _has_all_items(store: StoreFiles, files: list[SoundItems]) -> bool:
    """Return whether the files that end with the newest record have all its items. A full file may lack some."""
    if not files or files[-1].total < store.config.max_index_num - 1:
        return True
    end = find_record_end(store.log, files[-1].last_phy_offset)
    found = {value for items in files for value in items.last_hashes}
    return end == 0 or found.issuperset(hashes_of(store.log, store.config, files[-1].last_phy_offset, end))


def _find_first_bad(store: StoreFiles, files: list[SoundItems], *, whole_log: bool) -> int:
    """Return the number of the first file that is bad, or behind which files are missing.

    -1 if files are missing before the first one; the number of files if none is bad.
    """
    most = store.config.max_index_num - 1
    for i, items in enumerate(files):
        if items.sound < items.total or (store.last_exit_ok and not items.slots_agree):
            return i
        # A file is full before another one follows it.
        if i + 1 < len(files) and items.total < most and (whole_log or not store.last_exit_ok):
            return i
    end = store.log.min_phy_offset
    for i, items in enumerate(files if whole_log else ()):
        begin = items.first_phy_offset
        if begin > end and first_item(store.log, _without_tags(store), end, begin) < begin:
            return i - 1
        end = max(end, find_record_end(store.log, items.last_phy_offset))
    return len(files)


# ---- where to begin ----------------------------------------------------------------------------------------


def _find_first_not_indexed(store: StoreFiles, begin: int, last: int) -> int:
    """Return the first record with items near the end of the index: a broker may have had its index disabled.

    Records that are farther away, up to ``last``, are not searched: without keys that may be the whole store.
    """
    begin = max(begin, store.log.min_phy_offset)  # the newest record of the index may have expired
    near = min(begin + NEAR, last)
    with suppress(CorruptFileError):  # damage far from the ends does not matter here
        if begin < near and (first := first_item(store.log, _without_tags(store), begin, near)) < near:
            return first
    return max(begin, last)


def _skip_records_without_items(store: StoreFiles, end: int, begin: int, files: list[SoundItems]) -> int:
    """Return the first record with items from ``begin`` on. Any record makes the next file if the last one is full."""
    if files and files[-1].total < store.config.max_index_num - 1:
        return first_item(store.log, store.config, begin, end)
    return begin


def _without_tags(store: StoreFiles) -> Any:
    """Return a configuration that indexes no tags: an index of an older release has no items of tags."""
    return replace(store.config, compat=NO_TAGS)

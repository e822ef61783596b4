"""Open the index of a store for reading, and read the physical offsets of its items."""

from __future__ import annotations

from typing import Any

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.errors import CorruptFileError
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_service import IndexService
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.sizes import read_saved


def open_store_index(places: AnyPlaces, config: StoreConfig) -> IndexService:
    """Open the index. If its files do not show their geometry, use the geometry that their writer saved.

    Files do not show it if they have few items, or if an item is damaged. Damaged files are ignored.
    """
    directory = places.index
    options: dict[str, Any] = {"compat": config.compat, "max_msgs_num_batch": config.max_msgs_num_batch}
    options["_ignores_damage"] = True
    slots, items = config.max_hash_slot_num, config.max_index_num
    try:
        return IndexService.open(directory, hash_slot_num=slots, index_num=items, **options)
    except (ValueError, CorruptFileError):
        saved = read_saved(places.saved_settings)
        if slots or items or not saved:
            raise
    slots, items = saved.get("max_hash_slot_num"), saved.get("max_index_num")
    return IndexService.open(directory, hash_slot_num=slots, index_num=items, **options)


def read_item_offsets(places: AnyPlaces, config: StoreConfig, target: RunFile) -> np.ndarray | None:
    """Return the physical offsets, int64[n], in index items that lead into a file of the log.

    Returns: None if a file of the index is damaged, so that items may be missing. Raises: OSError; StoreError;
    ValueError if no file shows the geometry.
    """
    directory = places.index
    if not directory.is_dir() or not index_paths(directory):
        return np.empty(0, np.int64)
    with open_store_index(places, config) as index:
        if index.damaged:
            return None
        found = [np.empty(0, np.int64)]
        for file in index.files:
            header = file.header
            count = min(header.index_count, file.index_num)
            if count > 1 and header.end_phy_offset >= target.file_from_offset:
                offsets = file.items(1, count)["phy_offset"].astype(np.int64)
                found.append(offsets[(offsets >= target.file_from_offset) & (offsets < target.end_offset)])
        return np.concatenate(found)

"""Open the index of a store for reading, and read the physical offsets of its items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.errors import CorruptFileError
from rocketstore.index.geometry import GEOMETRY_SETTINGS, IndexGeometry
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_service import IndexService
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.sizes import read_saved


def open_store_index(places: AnyPlaces, config: StoreConfig) -> IndexService:
    """Open the index. If its files do not show their geometry, use the geometry that is saved, or that of small().

    Files do not show it if they have few items, or if an item is damaged. Damaged files are ignored.
    """
    directory = places.index
    options: dict[str, Any] = {"compat": config.compat, "max_msgs_num_batch": config.max_msgs_num_batch}
    options["_ignores_damage"] = True
    slots, items = config.max_hash_slot_num, config.max_index_num
    try:
        return IndexService.open(directory, hash_slot_num=slots, index_num=items, **options)
    except (ValueError, CorruptFileError):
        known: Mapping[str, Any] = read_saved(places.saved_settings) or _small_geometry(places, config)
        if slots or items or not known:
            raise
    slots, items = known.get("max_hash_slot_num"), known.get("max_index_num")
    return IndexService.open(directory, hash_slot_num=slots, index_num=items, **options)


def _small_geometry(places: AnyPlaces, config: StoreConfig) -> dict[str, int]:
    """Return the geometry of ``StoreConfig.small()`` if the caller gave it and the files are as long, else nothing."""
    slots, items = (config.new_store_sizes[name] for name in GEOMETRY_SETTINGS)
    expected = IndexGeometry(slots, items).file_size
    is_known = config.small_if_new and any(path.stat().st_size == expected for path in index_paths(places.index))
    return {"max_hash_slot_num": slots, "max_index_num": items} if is_known else {}


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

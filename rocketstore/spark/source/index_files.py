"""Plan the index files of a store: the driver lists them, and of remote files reads only the headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import SettingError
from rocketstore.index.geometry import IndexGeometry, given_geometry, shown_geometry
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_header import IndexHeader, read_headers
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.formats import find_formats
from rocketstore.survey.sizes import read_saved


class IndexFilePlan(NamedTuple):
    """An index file, which a task opens.

    Attributes: geometry: None if the file itself must show it. fullest: the file of the index with the most items,
    which shows the geometry if this file does not; None if the geometry is known.
    """

    path: StorePath
    geometry: IndexGeometry | None
    fullest: StorePath | None = None

    def open(self) -> IndexFile:
        """Open the file. Raises: as ``IndexFile.open``."""
        if self.geometry is not None:
            return open_with(self.path, self.geometry)
        try:
            return IndexFile.open(self.path)
        except SettingError:
            assert self.fullest is not None
            shown = shown_geometry(self.fullest, for_writing=False, is_newest=True)
            if shown is None:
                raise
            return open_with(self.path, shown)


def open_with(path: StorePath, geometry: IndexGeometry) -> IndexFile:
    """Open an index file of a known geometry, which the driver has checked if the file is local.

    Raises: as ``IndexFile.open``.
    """
    slots, items = geometry
    return IndexFile.open(path, hash_slot_num=slots, index_num=items, _is_known=not is_remote(path))


def plan_index_files(store: MessageStore) -> Sequence[tuple[IndexFilePlan, IndexHeader]]:
    """Return the index files of a store with their headers, oldest first; none without an index.

    The items of remote files are not read. So a damaged remote file is an error of the task that opens it.
    Raises: as ``MessageStore.index``; OSError.
    """
    if not is_remote(store.path):
        index = store.index
        files = [] if index is None else index.files
        return [(IndexFilePlan(file.path, file.geometry), file.header) for file in files]
    directory = store.places.index
    paths = index_paths(directory) if directory.is_dir() else []
    if not paths:
        find_formats(store.places, store.config).require_file_index()
        return []
    headers = read_headers(paths)
    geometry = find_known_geometry(store)
    fullest = max(zip(headers, paths, strict=True), key=lambda pair: pair[0].index_count)[1]
    plans = (IndexFilePlan(path, geometry, None if geometry else fullest) for path in paths)
    return [*zip(plans, headers, strict=True)]


def find_known_geometry(store: MessageStore) -> IndexGeometry | None:
    """Return the geometry of the index by the options, or as its writer saved it; None if only its files show it."""
    given = given_geometry(store.config.max_hash_slot_num, store.config.max_index_num)
    if given is not None:
        return given
    saved = read_saved(store.places.saved_settings)
    slots, items = saved.get("max_hash_slot_num"), saved.get("max_index_num")
    return None if slots is None or items is None else IndexGeometry(slots, items)

"""OpenedIndex: the index of a store, in files or in a RocksDB, opened when it is first used."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rocketstore.config import StoreConfig
from rocketstore.disk.rocksdb.reader_program import find_missing_reader
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_service import IndexService
from rocketstore.index.key_lookup import KeyIndex
from rocketstore.index.rocks_index import RocksIndex
from rocketstore.store.opened_log import OpenedLog
from rocketstore.survey.formats import find_formats
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.store_index import open_store_index

if TYPE_CHECKING:
    from rocketstore.store.writer import StoreWriter


class OpenedIndex:
    """The index of a store."""

    def __init__(self, places: AnyPlaces, config: StoreConfig, log: OpenedLog, writer: StoreWriter | None) -> None:
        """Parameters: writer: None to read only."""
        self._places = places
        self._config = config
        self._log = log
        self._writer = writer
        self._files: IndexService | None = None
        self._database: RocksIndex | None = None

    def find_files(self) -> IndexService | None:
        """Return the index with its current files, but without the damaged ones; None if the store has no index.

        Raises: UnsupportedFormatError for an index in RocksDB; ValueError if no file shows its geometry.
        """
        if self._writer is not None:
            self._writer.dispatch_pending()
            return self._writer.index
        index = self._files
        if index is not None:
            with contextlib.suppress(FileNotFoundError, ValueError):  # it was renamed, or shows no geometry
                index.refresh()
                return index
        directory = self._places.index
        with contextlib.suppress(FileNotFoundError):  # the directory was renamed between the calls
            if directory.is_dir() and index_paths(directory):
                # The previous index is dropped, not closed: a query of another thread may still use it.
                self._files = index = open_store_index(self._places, self._config)
                return index
        find_formats(self._places, self._config).require_file_index()
        return None

    def find(self) -> KeyIndex | None:
        """Return the index that queries by key use: its files, or else a RocksDB. None if the store has no index.

        Raises: UnsupportedFormatError for an index in RocksDB, without its extra; as ``find_files``.
        """
        path = None if self._writer is not None else find_formats(self._places, self._config).index_database
        if path is None or find_missing_reader() is not None or self._has_files():
            return self.find_files()
        if self._database is None:
            database = RocksDatabase(path, remote_copy_limit=self._config.remote_copy_limit)
            self._database = RocksIndex(database, self._log.log)
        return self._database

    def _has_files(self) -> bool:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return bool(index_paths(self._places.index))
        return False

    def close(self) -> None:
        """Close what was opened. The index of a writer is the writer's."""
        with contextlib.ExitStack() as stack:
            for opened in (self._files, self._database):
                if opened is not None:
                    stack.callback(opened.close)

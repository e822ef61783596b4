"""The RocksDB databases in which a broker may keep timers, transactions and popped messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rocketstore.disk.rocksdb.rocks_database import KeyRange, RocksDatabase
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError, text_of
from rocketstore.state.rocksdb import has_rocksdb_data, is_rocksdb
from rocketstore.store.readable_store import ReadableStore

LONG = struct.Struct(">q")
Row = tuple[bytes, bytes]


def read_rows(store: ReadableStore, path: StorePath, family: str, keys: KeyRange) -> tuple[list[Row], list[str]]:
    """Return the rows of a column family, and the reasons why some are missing. Both are empty without a database."""
    if not (is_rocksdb(path) and has_rocksdb_data(path)):
        return [], []
    try:
        with RocksDatabase(path, remote_copy_limit=store.config.remote_copy_limit) as database:
            return list(_rows_of(database, family, keys)), []
    except (StoreError, OSError) as error:
        reason = text_of(error).removeprefix(f"{path}: ")
        return [], [f"{path}: messages that wait in this RocksDB may be missing: {reason}"]


def _rows_of(database: RocksDatabase, family: str, keys: KeyRange) -> Iterator[Row]:
    for rows in database.read(family, keys):
        yield from rows


def long_in(rows: list[Row], key: bytes) -> int | None:
    """Return the number that is saved under a key; None without one."""
    value = dict(rows).get(key, b"")
    return LONG.unpack(value)[0] if len(value) == LONG.size else None

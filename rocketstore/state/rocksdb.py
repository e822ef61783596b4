"""Find the RocksDB databases of a store, by the names and bytes of files."""

from __future__ import annotations

import contextlib
from pathlib import Path

from rocketstore.config import StoreConfig
from rocketstore.disk.small_file import read_file_start
from rocketstore.disk.storage import names_in, scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.java_text import parse_boolean, trim
from rocketstore.state.config_values import GROUPS, LMQ_OFFSETS, OFFSETS, TOPICS

ROCKSDB, FILES = "defaultrocksdb", "default"
VERSION_2, ALL_IN_ONE = "rdb", "metadata"  # directories in ``config``; each has the tables of all these files
# The directory, in ``config``, of the database that a broker has in place of a file, by the name of the file.
DATABASES = {
    TOPICS: "topics",
    GROUPS: "subscriptionGroups",
    OFFSETS: "consumerOffsets",
}
INDEX_KEY = b"lastStoreTimeStamp"
MAX_SEARCHED = 64 << 20  # bytes of one file


def is_rocksdb(directory: StorePath) -> bool:
    """Return whether a directory has a RocksDB, perhaps among other files. False if the directory cannot be read."""
    with contextlib.suppress(OSError):
        return (directory / "CURRENT").exists()
    return False


def has_rocksdb_data(directory: StorePath) -> bool:
    """Return whether a RocksDB holds anything: a broker of 5.5.0 makes an empty one in every store."""
    with contextlib.suppress(OSError), scandir(directory) as entries:
        return any(
            entry.name.endswith(".sst") or (entry.name.endswith(".log") and entry.stat().st_size > 0)
            for entry in entries
        )
    return False


def store_type(config: StoreConfig | None) -> str | None:
    """Return ROCKSDB or FILES by storeType of the broker's properties file; None without a file.

    A file without storeType means FILES.

    Source: MessageStoreConfig.storeType.
    """
    given = config.other.get("storeType", FILES if config.is_of_broker_file else None) if config is not None else None
    return None if given is None else ROCKSDB if trim(given).lower() == ROCKSDB else FILES


def is_double_write_enabled(config: StoreConfig | None) -> bool:
    """Return whether the broker's properties file says that the broker writes queues to files and to RocksDB.

    Source: CombineConsumeQueueStore.
    """
    return config is not None and parse_boolean(trim(config.other.get("rocksdbCQDoubleWriteEnable", "")))


def find_config_databases(directory: StorePath, config: StoreConfig | None = None) -> dict[str, StorePath]:
    """Return the databases that a broker uses in place of files in ``config``, by the names of these files.

    A broker uses each database that exists, unless its properties file says that it uses none. JSON files beside a
    database are older.

    Parameters: directory: ``config`` in the root of the store. config: the settings of the broker's properties file.
    Source: RocksDBConfigManager, ConfigStorage.
    """
    version = config.other.get("configManagerVersion", "v1") if config is not None else "v1"
    if store_type(config) == FILES and trim(version) != "v2":
        return {}
    names = names_in(directory)
    for name in (VERSION_2, ALL_IN_ONE):
        if name in names and is_rocksdb(directory / name):
            return dict.fromkeys((*DATABASES, LMQ_OFFSETS), directory / name)
    known = {file: directory / name for file, name in DATABASES.items() if name in names}
    found = {file: path for file, path in known.items() if is_rocksdb(path)}
    return found | ({LMQ_OFFSETS: found[OFFSETS]} if OFFSETS in found else {})


def holds_index(directory: StorePath) -> bool:
    """Return whether a ``rocksdbstore`` has an index: a broker keeps timers and transactions there, too.

    Only the index has the key INDEX_KEY, which sorts behind its other keys, so that the manifest names it as the last
    key of a table. The write-ahead log has it before the first table is written.

    Source: IndexRocksDBStore.
    """
    with contextlib.suppress(OSError), scandir(directory) as entries:
        names = sorted(entry.name for entry in entries)
        return any(
            _contains(directory / name, INDEX_KEY)
            for name in names
            if name.startswith("MANIFEST-") or name.endswith(".log")
        )
    return False


def _contains(path: Path, wanted: bytes) -> bool:
    with contextlib.suppress(OSError, CorruptFileError):
        return wanted in read_file_start(path, MAX_SEARCHED)
    return False

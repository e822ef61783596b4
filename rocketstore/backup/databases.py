"""Copy a RocksDB into which a broker may be writing."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from rocketstore.backup.held_files import hold_files
from rocketstore.disk.durable import make_directory, replace_file, sync_path
from rocketstore.disk.held_file import Count
from rocketstore.disk.rocksdb.linked_files import CURRENT, MAX_CURRENT, read_stamp
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError

TRIES, WAIT_SECONDS = 20, 0.25


def copy_database(source: StorePath, target: Path, count: Count) -> None:
    """Copy the files of a RocksDB as they are at one time.

    The manifest lists the tables. Tables do not change, and logs only grow. So the files belong together if the
    manifest is the same before and after the copy.

    Raises: StoreError if a process writes into the RocksDB too fast; OSError.
    """
    for _ in range(TRIES):
        with contextlib.suppress(FileNotFoundError):
            before = read_manifest_state(source)
            make_directory(target)
            with contextlib.ExitStack() as stack:
                names = sorted(name for name in read_stamp(source) if name != CURRENT)
                files = hold_files(((source / name, name) for name in names), stack)
                for file in files:
                    file.copy_to(target / file.name, file.size, count)
            if len(files) == len(names) and read_manifest_state(source) == before:
                replace_file(target / CURRENT, before[0])
                sync_path(target)
                return
        for path in target.iterdir() if target.is_dir() else ():
            path.unlink()
        time.sleep(WAIT_SECONDS)
    raise StoreError(f"{source}: changes too often to be copied: repeat the call, or stop the broker")


def read_manifest_state(directory: StorePath) -> tuple[bytes, int]:
    """Return the bytes of CURRENT, which names the manifest, and the size of the manifest.

    Raises: FileNotFoundError if the manifest was replaced meanwhile; OSError.
    """
    current = read_small_file(directory / CURRENT, MAX_CURRENT)
    return current, (directory / current.decode("utf-8", "replace").strip()).stat().st_size

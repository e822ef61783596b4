"""StampedValues: values that were found in a stopped store, kept while the files from which they came do not change."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from rocketstore.disk.file_run_reader import SETTLED
from rocketstore.disk.store_path import StorePath
from rocketstore.survey.places import AnyPlaces

MAX_AGE = 1_000_000_000  # ns that a value is used, since some file systems do not report changes of a directory
MAX_VALUES = 256
_Stamp = list[tuple[int, int, int]]  # inode, last change and size of each directory and file


class _Kept(NamedTuple):
    """A value. Its files, ``paths``, had the state ``stamp`` at ``time``, ns since the epoch."""

    value: Any
    paths: list[str]
    stamp: _Stamp
    time: int


class StampedValues:
    """Keeps values until the store changes: one stamp says whether it has.

    Nothing is kept of a store that has ``abort``: it is open for writing, or has crashed. A later writer makes and
    deletes ``abort``, which changes the root directory. New, deleted and replaced files change their directory. Bytes
    within files may change unnoticed: a value must not depend on the bytes of records or units.
    """

    def __init__(self, places: AnyPlaces) -> None:
        """Parameters: places: of a local store that this process only reads."""
        self._abort = str(places.abort)
        self._directories = [str(places.root), *map(str, places.log_directories)]
        self._kept: dict[Hashable, _Kept] = {}

    def find(self, key: Hashable) -> Any:
        """Return the value that is kept under a key; None if there is no value, or if its files may have changed."""
        kept = self._kept.get(key)
        if kept is None or not kept.time <= time.time_ns() < kept.time + MAX_AGE:
            return None
        return kept.value if self._find_stamp(kept.paths) == kept.stamp else None

    def start_making(self) -> int | None:
        """Return the time before a value is made, ns since the epoch.

        Returns: None if the store is not stopped, so that the value must not be kept.
        """
        return time.time_ns() if self._is_stopped() else None

    def keep(self, key: Hashable, value: object, paths: Iterable[StorePath], begin: int | None) -> None:
        """Keep a value if its last change was so long before ``begin`` that a later change will have another time.

        Parameters: paths: the directories and files from which the value came, besides root and log directories.
        begin: as ``start_making`` returned it before the value was made.
        """
        if begin is None or not self._is_stopped():
            return
        names = [*self._directories, *map(str, paths)]
        stamp = self._find_stamp(names)
        if stamp is None or max(changed for _, changed, _ in stamp) > begin - SETTLED:
            return
        if len(self._kept) >= MAX_VALUES:
            self._kept.clear()
        self._kept[key] = _Kept(value, names, stamp, begin)

    def _is_stopped(self) -> bool:
        return not os.path.lexists(self._abort)

    @staticmethod
    def _find_stamp(paths: list[str]) -> _Stamp | None:
        """Return the present state of directories and files. None if a path is missing."""
        try:
            # Of a str it takes half the time.
            return [(found.st_ino, found.st_mtime_ns, found.st_size) for found in map(os.stat, paths)]
        except OSError:
            return None

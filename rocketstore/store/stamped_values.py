"""StampedValues: values that were found in a stopped store, kept while the files from which they came do not change."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

from rocketstore.disk.file_run_reader import SETTLED
from rocketstore.disk.store_path import StorePath
from rocketstore.survey.places import AnyPlaces

MAX_AGE = 1_000_000_000  # ns that a value is used, since some file systems do not report changes of a directory
MAX_VALUES = 256
V = TypeVar("V")
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

    def find_or_make(
        self, key: Hashable, make: Callable[[], V], paths_of: Callable[[V], Iterable[StorePath] | None]
    ) -> V:
        """Return the kept value of a key, or make a value and keep it if its files are unchanged for long enough.

        Parameters: paths_of: returns the directories and files from which a value came, besides root and log
        directories; None for a value that must not be kept.
        """
        found: V | None = self.find(key)
        if found is not None:
            return found
        begin, was_stopped = time.time_ns(), self._is_stopped()
        value = make()
        paths = paths_of(value) if was_stopped else None
        if paths is not None and self._is_stopped():
            self._keep(key, value, [*self._directories, *map(str, paths)], begin)
        return value

    def _keep(self, key: Hashable, value: object, paths: list[str], begin: int) -> None:
        """Keep a value if its last change was so long before ``begin`` that a later change will have another time."""
        stamp = self._find_stamp(paths)
        if stamp is None or max(changed for _, changed, _ in stamp) > begin - SETTLED:
            return
        if len(self._kept) >= MAX_VALUES:
            self._kept.clear()
        self._kept[key] = _Kept(value, paths, stamp, begin)

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

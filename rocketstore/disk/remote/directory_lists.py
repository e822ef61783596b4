"""DirectoryLists: the last lists of the directories of a remote store, and how long each list is used."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

Entry = TypeVar("Entry")


class Listing(NamedTuple, Generic[Entry]):
    """One list of a directory.

    Attributes: entries: by their names; None: the directory does not exist. requested, ended: when it was requested and
    when it arrived, seconds of the monotonic clock.
    """

    entries: dict[str, Entry] | None
    requested: float
    ended: float


class DirectoryLists(Generic[Entry]):
    """The lists of the directories of one store.

    A list is used for some seconds after it arrived. A list that took longer than that is used for as long again as it
    took, so that a slow server is busy with lists for at most half of the time. In ``held_lists`` each list is used
    until the end of the block.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Listing[Entry]] = {}
        self._holders = 0

    def find(self, directory: str, seconds: float) -> Listing[Entry] | None:
        """Return the list of a directory, or None if there is no list that is recent enough.

        Parameters: seconds: how long a quick list is used after it arrived; 0: lists are not used again.
        """
        kept = self._kept.get(directory)
        return kept if kept is not None and (self._holders > 0 or self._is_recent(kept, seconds)) else None

    def keep(self, directory: str, entries: dict[str, Entry] | None, requested: float) -> Listing[Entry]:
        """Keep a list that arrived just now. Parameters: requested: when it was requested. Returns: the Listing."""
        kept = self._kept[directory] = Listing(entries, requested, time.monotonic())
        return kept

    def forget(self, directory: str) -> None:
        """Forget the list of a directory, so that it is listed again when it is next used."""
        self._kept.pop(directory, None)

    def begin_of(self, directory: str) -> float:
        """Return when the last list of a directory was requested, seconds of the monotonic clock; 0 without one."""
        kept = self._kept.get(directory)
        return 0.0 if kept is None else kept.requested

    @contextlib.contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """Use each list until the end of the block. A list that is too old when the block begins is not used.

        Parameters: seconds: as for ``find``.
        """
        if self._holders == 0:
            self._kept = {name: kept for name, kept in list(self._kept.items()) if self._is_recent(kept, seconds)}
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1

    @staticmethod
    def _is_recent(kept: Listing[Entry], seconds: float) -> bool:
        return time.monotonic() - kept.ended < seconds * max(1.0, kept.ended - kept.requested)

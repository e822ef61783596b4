"""StoreCheckpoint: how far the parts of a store have reached the disk."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any, Self

from rocketstore.disk.create import open_own_file
from rocketstore.disk.durable import sync, sync_path
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.disk.small_file import read_file_start
from rocketstore.disk.storage import local_path, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.layout import CHECKPOINT, struct_of

FILE_SIZE = 4096
FIELDS = struct_of(CHECKPOINT)


@dataclass
class StoreCheckpoint:
    """The six numbers of a ``checkpoint`` file; ``path`` None keeps them in memory only.

    ``physic_msg_timestamp``, ``logics_msg_timestamp``: store time of the last record whose log bytes, whose queue
    units are on the disk. ``index_msg_timestamp``: end time of the last full index file that is. Epoch milliseconds.
    ``master_flushed_offset`` (0 before 5.0.0), ``confirm_phy_offset`` (5.1.1), ``logics_physical_offset`` (5.5.0):
    physical offsets, bytes.

    Source: StoreCheckpoint.

    Examples:
    >>> StoreCheckpoint.open("demo/checkpoint").physic_msg_timestamp > 0
    True
    """

    path: StorePath | None = None
    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0
    # A later flush writes newer numbers. A signal handler that flushes may interrupt a flush of its thread.
    _lock: Any = field(default_factory=threading.RLock, repr=False, compare=False)
    _held: HeldDirectory | None = field(default=None, repr=False, compare=False)  # the root of a store that is written

    @classmethod
    def open(cls, path: str | os.PathLike[str] | StorePath, *, _held: HeldDirectory | None = None) -> Self:
        """Read a checkpoint file. Missing bytes count as zeros: a broker extends a short file when it maps it."""
        place = to_path(path)
        try:
            data = read_file_start(place, FIELDS.size)
        except FileNotFoundError:
            return cls(place, _held=_held)
        numbers = dict(zip(CHECKPOINT.names or (), FIELDS.unpack(data.ljust(FIELDS.size, b"\0")), strict=True))
        return cls(place, **numbers, _held=_held)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, *self._numbers())

    def clear(self) -> None:
        """Forget how far the parts have reached this disk."""
        self.physic_msg_timestamp = self.logics_msg_timestamp = self.index_msg_timestamp = 0
        self.confirm_phy_offset = self.logics_physical_offset = 0

    def clear_negative_numbers(self) -> None:
        """Replace negative numbers by 0: no time and no offset of a record is negative."""
        for name in CHECKPOINT.names or ():
            setattr(self, name, max(getattr(self, name), 0))

    def flush(self) -> None:
        """Write the numbers to the file, in place, and to the disk. Source: StoreCheckpoint.flush."""
        if self.path is None:
            return
        with self._lock:
            path = local_path(self.path)
            fd = open_own_file(path, self._held)
            try:
                is_new = os.fstat(fd).st_size < FILE_SIZE
                if is_new:
                    os.ftruncate(fd, FILE_SIZE)
                os.pwrite(fd, FIELDS.pack(*self._numbers()), 0)
                sync(fd)
            finally:
                os.close(fd)
            if is_new:
                sync_path(path.parent, self._held)

    def _numbers(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in CHECKPOINT.names or ())

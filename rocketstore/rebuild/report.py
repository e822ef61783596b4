"""RebuildReport: the result of a rebuild."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["RebuildReport"]


@dataclass(frozen=True)
class RebuildReport:
    """The result of a rebuild.

    Attributes: min_phy_offset, max_phy_offset: the part of the log that was read, bytes. backups: the old directories.
    out: the root of the new directories. notes: instructions for the operator of a store that had RocksDB.
    """

    min_phy_offset: int
    max_phy_offset: int
    queues: int
    index_files: int
    index_items: int
    backups: tuple[Path, ...]
    out: Path
    notes: tuple[str, ...] = ()

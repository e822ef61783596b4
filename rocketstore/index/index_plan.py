"""IndexPlan: the index files as the driver of a distributed job listed them, for a task that reads them."""

from __future__ import annotations

from typing import NamedTuple, Self

from rocketstore.compat import DEFAULT_COMPAT
from rocketstore.disk.store_path import StorePath
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import MAX_MSGS_NUM_BATCH, IndexService


class IndexPlan(NamedTuple):
    """The files of an index. A task opens them without listing the directory.

    Attributes: path: the directory, or the one file. files: in the directory, oldest first; None if ``path`` is a file.
    geometry: None if the directory has no file, or if the caller of ``of_file`` gives none. ignores_damage: whether
    damaged files are left out. compat, max_msgs_num_batch: as for ``IndexService.open``.
    """

    path: StorePath
    files: tuple[StorePath, ...] | None
    geometry: IndexGeometry | None
    ignores_damage: bool = False
    compat: str = DEFAULT_COMPAT
    max_msgs_num_batch: int = MAX_MSGS_NUM_BATCH

    @classmethod
    def of(cls, index: IndexService) -> Self:
        """Plan the files that an open index has listed."""
        options = index.ignores_damage, index.compat, index.max_msgs_num_batch
        return cls(index.directory, tuple(index.paths), index.geometry, *options)

    @classmethod
    def of_file(cls, path: StorePath, geometry: IndexGeometry | None) -> Self:
        """Plan one file. Raises: as ``IndexFile.open``."""
        slots, items = geometry or (None, None)
        with IndexFile.open(path, hash_slot_num=slots, index_num=items) as file:
            return cls(file.path, None, geometry)

    @property
    def paths(self) -> tuple[StorePath, ...]:
        """The files."""
        return (self.path,) if self.files is None else self.files

    def open(self) -> IndexFile | IndexService:
        """Open the files. The directory is listed only if one of them is missing.

        Raises: as ``IndexFile.open`` and ``IndexService.open``.
        """
        slots, items = self.geometry or (None, None)
        if self.files is None:
            return IndexFile.open(self.path, hash_slot_num=slots, index_num=items)
        return IndexService.open(
            self.path,
            hash_slot_num=slots,
            index_num=items,
            compat=self.compat,
            max_msgs_num_batch=self.max_msgs_num_batch,
            _ignores_damage=self.ignores_damage,
            _planned=self.files,
        )

"""KeyIndex: what a search by key asks of an index, so that it need not know the format of the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.phy_offsets import PhyOffsets


class KeyLookup(Protocol):
    """Finds the physical offsets of keys by their hashes: one index file, or all of a directory."""

    def select_phy_offsets_by_hash(
        self,
        key_hashes: np.ndarray,
        *,
        max_num: int = ...,
        begin_timestamp: int = ...,
        end_timestamp: int = ...,
        threads: int = ...,
    ) -> PhyOffsets:
        """Find the offsets of hashes, int32[n], newest first.

        Parameters: max_num: the largest number of offsets for each hash. begin_timestamp, end_timestamp: store times,
        epoch ms, both inclusive.
        """


class KeySpan(NamedTuple):
    """The physical offsets of the first and the last message that have an entry, bytes, both inclusive."""

    first: int
    last: int


class IndexPart(KeyLookup, Protocol):
    """A part of an index, whose entries have the order of the log: an index file."""

    @property
    def path(self) -> StorePath: ...

    @property
    def identity(self) -> object:
        """A value that differs if another file takes the path."""

    @property
    def span(self) -> KeySpan | None:
        """The part of the log that has entries; None without an entry."""

    @property
    def is_write_full(self) -> bool:
        """Whether the entries of the last message may continue in the next part."""

    def find_lost(self, key_hashes: np.ndarray) -> tuple[np.ndarray, str]:
        """Return which hashes have entries that cannot be found, as positions int64[k], and why.

        Lookups of these hashes must precede the call.
        """

    def entries_between(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return physical offsets and hashes, int64[k] each, of the entries of the messages from first to last."""


class IndexParts(Protocol):
    """The parts of an index, oldest first. Iteration leaves out parts that have expired."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[IndexPart]: ...

    def __reversed__(self) -> Iterator[IndexPart]: ...

    def find(self, name: str, /) -> IndexPart | None:
        """Return the part with the name of its path, None if it has expired."""


class KeyIndex(Protocol):
    """The index of a store."""

    @property
    def files(self) -> IndexParts: ...

    @property
    def damaged(self) -> Mapping[object, CorruptFileError]:
        """The error of each part that is left out."""

    def check_file_sizes(self) -> None:
        """Raise CorruptFileError if an open file was cut."""

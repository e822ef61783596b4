from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.keys import _Strings
from rocketstore.text_values import Time

class _Threads(Protocol):
    @property
    def are_cancelled(self) -> bool: ...

class IndexFileKernel:
    def __new__(
        cls,
        buffer: Buffer,
        hash_slot_num: int,
        index_num: int,
        counts_every_put: bool = False,
        fd: int = -1,
        unpublished: bool = False,
    ) -> Self: ...
    @property
    def hash_slot_num(self) -> int: ...
    @property
    def index_num(self) -> int: ...
    @property
    def met_wild_slot(self) -> bool: ...
    def _header(self) -> tuple[int, int, int, int, int, int]: ...
    def _seed_header(self, end_phy_offset: int, end_timestamp: int) -> None: ...
    def _write_count(self) -> None: ...
    def _undo_torn_put(self) -> None: ...
    def _check_file_size(self) -> None: ...
    def put_key(self, index_key: str, phy_offset: int, store_timestamp: Time) -> bool: ...
    def put_keys(
        self,
        keys: _Strings,
        phy_offsets: ArrayLike,
        store_timestamps: ArrayLike,
        *,
        topic: str | _Strings | None = None,
    ) -> int: ...
    def put_key_hashes(self, key_hashes: ArrayLike, phy_offsets: ArrayLike, store_timestamps: ArrayLike) -> int: ...
    def select_phy_offset(
        self, index_key: str, max_num: int = 32, begin_timestamp: Time = 0, end_timestamp: Time = ...
    ) -> list[int]: ...
    def _select_range(
        self,
        hashes: NDArray[np.int32],
        ends: NDArray[np.int64],
        max_num: int,
        begin_timestamp: Time,
        end_timestamp: Time,
        threads: _Threads | None,
    ) -> NDArray[np.int64]: ...

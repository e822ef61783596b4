from typing import Self

import numpy as np
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer

TIME_FALLS: int
NO_PROPERTY_CRC: int
BAD_ENTRY_HEAD: int
ENTRY_ORDER: int
WRONG_LINK: int
NEWER_LINK: int
NEGATIVE_HASH: int
FALLING_OFFSET: int
NEGATIVE_TIME: int

class LogChecker:
    n_records: int
    last_phy_offset: int
    first_store_timestamp: int
    last_store_timestamp: int
    max_store_timestamp: int
    def __new__(cls, *, force_prop_crc: bool = False, expects_prop_crc: bool = False, framing: int = 0) -> Self: ...
    @property
    def first_entry(self) -> tuple[int, int]: ...
    @property
    def last_entry(self) -> tuple[int, int]: ...
    def begin(self) -> None: ...
    def take_compressed(self) -> list[int]: ...
    def faults_found(self) -> dict[int, tuple[int, list[int]]]: ...
    def scan(self, buffer: Buffer, from_offset: int, offset: int, end: int) -> tuple[int, int]: ...

def are_in_order(buffer: Buffer, count: int, slots: int) -> bool: ...
def check_chains(
    buffer: Buffer, count: int, newest: NDArray[np.int32]
) -> tuple[int, dict[int, tuple[int, list[int]]]]: ...
def are_items_of(
    data: NDArray[np.uint8],
    begin_timestamp: int,
    key_hashes: NDArray[np.int32],
    phy_offsets: NDArray[np.int64],
    store_timestamps: NDArray[np.int64],
) -> bool: ...

from typing import Self

import numpy as np
from numpy import void
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer

PIECE: np.dtype[void]
BAD_INSIDE: int
BAD_NAME: int
UNVERIFIED: int

class PieceFinder:
    def __new__(
        cls,
        base: int | None,
        *,
        force_verify_prop_crc: bool,
        may_end_in_zeros: bool,
        message_delay_level: str,
        appends_prop_crc: bool = False,
    ) -> Self: ...
    def scan(self, buffer: Buffer, pos: int, end: int) -> int: ...
    def take(self, end: int) -> NDArray[void]: ...

def copy_records(
    source: Buffer,
    pos: int,
    stop: int,
    phy_offset: int,
    out: bytearray,
    room: int,
    positions: NDArray[np.int64],
    queue_offsets: NDArray[np.int64],
    prepared_offsets: NDArray[np.int64],
    row: int,
    moves: NDArray[np.int64],
) -> tuple[int, int, int, int, int]: ...
def find_unchanged(
    source: Buffer,
    pos: int,
    stop: int,
    phy_offset: int,
    room: int,
    positions: NDArray[np.int64],
    queue_offsets: NDArray[np.int64],
    prepared_offsets: NDArray[np.int64],
    row: int,
    moves: NDArray[np.int64],
) -> tuple[int, int, int, int, int]: ...
def count_messages(
    queues: NDArray[np.int32],
    phy_offsets: NDArray[np.int64],
    queue_offsets: NDArray[np.int64],
    batch_sizes: NDArray[np.int32],
    counts: NDArray[np.int64],
    messages: NDArray[np.int64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    min_inner_message: int,
) -> None: ...
def assign_queue_offsets(
    queues: NDArray[np.int32],
    batch_sizes: NDArray[np.int32],
    is_batch: NDArray[np.uint8],
    next_offsets: NDArray[np.int64],
) -> NDArray[np.int64]: ...

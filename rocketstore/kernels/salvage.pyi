from typing import Self

import numpy as np
from numpy import void
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer

PIECE: np.dtype[void]
BAD_INSIDE: int
BAD_NAME: int

class PieceFinder:
    def __new__(
        cls, base: int | None, *, force_verify_prop_crc: bool, may_end_in_zeros: bool, message_delay_level: str
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
    places: NDArray[np.int64],
    queue_offsets: NDArray[np.int64],
    row: int,
) -> tuple[int, int, int, int, int]: ...

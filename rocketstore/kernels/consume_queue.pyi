import numpy as np
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer

def decode_units(
    buffer: Buffer,
    pos: int,
    phy_offsets: NDArray[np.int64],
    sizes: NDArray[np.int32],
    tags_codes: NDArray[np.int64],
) -> None: ...
def read_unit(buffer: Buffer, pos: int) -> tuple[int, int, int, bool]: ...
def decode_batch_units(
    buffer: Buffer, pos: int, longs: NDArray[np.int64], ints: NDArray[np.int32], first: int, last: int
) -> None: ...
def count_valid_units(buffer: Buffer, pos: int, n: int, unit_size: int, last_phy_offset: int = ...) -> int: ...
def find_unit(buffer: Buffer, pos: int, n: int, unit_size: int, field: int, value: int) -> int: ...
def sum_sizes(buffer: Buffer, pos: int, n: int, unit_size: int) -> int: ...
def hash_offsets(phy_offsets: NDArray[np.int64]) -> NDArray[np.uint64]: ...
def sum_units(
    buffer: Buffer,
    pos: int,
    n: int,
    unit_size: int,
    after: int,
    edges: NDArray[np.int64],
    sums: NDArray[np.uint64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int | None: ...
def read_ext_unit(buffer: Buffer, pos: int) -> tuple[int, int, bytes] | None: ...
def pack_units(
    phy_offsets: NDArray[np.int64],
    sizes: NDArray[np.int32],
    tags_codes: NDArray[np.int64],
    queue_offsets: NDArray[np.int64],
    max_phy_offset: int,
    next_queue_offset: int,
) -> tuple[bytes, int, bool]: ...
def pack_batch_units(
    phy_offsets: NDArray[np.int64],
    sizes: NDArray[np.int32],
    tags_codes: NDArray[np.int64],
    store_timestamps: NDArray[np.int64],
    msg_base_offsets: NDArray[np.int64],
    batch_sizes: NDArray[np.int32],
    max_phy_offset: int,
) -> bytes: ...
def pack_ext_unit(tags_code: int, store_timestamp: int, bitmap: bytes) -> bytes: ...

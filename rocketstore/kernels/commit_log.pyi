from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.record_filter import BodyLiterals, RecordFilter

__all__ = [
    "BAD_BATCH",
    "BLANK",
    "CUT",
    "DEFAULT_DELAYS",
    "END",
    "HALF",
    "OK",
    "WRONG_CRC",
    "RecordScanner",
    "bad_reason",
    "checked_framing",
    "find_record",
    "read_message",
]

DEFAULT_DELAYS: str
OK: int
BLANK: int
END: int
CUT: int
HALF: int
BAD_BATCH: int
WRONG_CRC: tuple[int, int]

def bad_reason(status: int) -> tuple[str, str]: ...

class RecordScanner:
    def __new__(
        cls,
        columns: Iterable[str],
        record_filter: RecordFilter | None = None,
        *,
        verify_crc: bool = False,
        marks_crc: bool = False,
        force_verify_prop_crc: bool = False,
        message_delay_level: str = ...,
        framing: int = 0,
        literals: BodyLiterals | None = None,
        decompress: Callable[[bytes, int, int], bytes] | None = None,
    ) -> Self: ...
    @property
    def rows(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def last_phy_offset(self) -> int: ...
    def take(self) -> dict[str, Any]: ...
    def scan(
        self,
        buffer: Buffer,
        from_offset: int,
        offset: int,
        end: int,
        max_rows: int = ...,
        max_bytes: int = ...,
        *,
        at_rest: bool = False,
    ) -> tuple[int, int]: ...
    def gather(
        self,
        windows: Sequence[tuple[Buffer, int]],
        window_of: NDArray[np.int32],
        offsets: NDArray[np.int64],
        statuses: NDArray[np.uint8],
        *,
        at_rest: bool = False,
        expected: RecordFilter | None = None,
        sizes: NDArray[np.int32] | None = None,
        queue_offsets: NDArray[np.int64] | None = None,
    ) -> None: ...

def checked_framing(framing: int) -> int: ...
def find_record(
    buffer: Buffer, from_offset: int, offset: int, end: int, *, or_cut: bool = False, framing: int = 0
) -> int | None: ...
def read_message(
    buffer: Buffer,
    from_offset: int,
    offset: int,
    *,
    at_rest: bool = False,
    verify_crc: bool = False,
    force_verify_prop_crc: bool = False,
) -> tuple[int, dict[str, Any] | None]: ...

"""Check the columns of numbers that a caller gives, and convert them for the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from rocketstore.extras import find_imported
from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN


def checked_hashes(key_hashes: Any) -> np.ndarray:
    """Return key hashes as int32[n]; raises if one is negative or they are of another type."""
    require_unmasked(key_hashes, "key_hashes")
    require_sound_buffers(key_hashes, "key_hashes")
    hashes = np.asarray(key_hashes)
    if hashes.dtype != np.int32 or hashes.ndim != 1:
        raise TypeError(f"key_hashes: int32[n] from hash_keys was expected, not {hashes.dtype}{list(hashes.shape)}")
    if len(hashes) and hashes.min() < 0:
        raise ValueError(f"key_hashes[{int((hashes < 0).argmax())}] is negative: hash_keys returns no negative hash")
    return aligned(hashes, np.int32)


def checked_offsets(phy_offsets: Any, n: int) -> np.ndarray:
    """Return physical offsets as int64[n]; raises if one is negative."""
    offsets = int64_column(phy_offsets, "phy_offsets", n)
    if len(offsets) and offsets.min() < 0:
        raise ValueError(f"phy_offsets[{int((offsets < 0).argmax())}] is negative")
    return offsets


def int64_column(column: Any, name: str, n: int) -> np.ndarray:
    """Return a column of integers as int64[n]; raises TypeError for other types, ValueError for another length."""
    require_sound_buffers(column, name)
    values = np.asarray(column)
    if values.ndim != 1 or len(values) != n:
        raise ValueError(f"{name}: shape {values.shape}, where {n} rows were expected")
    require_unmasked(column, name)
    if values.dtype == object and all(isinstance(value, int) for value in values):
        try:
            values = values.astype(np.int64)
        except OverflowError:
            raise ValueError(f"{name}: {max(values, key=abs)} is beyond int64") from None
    if n and values.dtype.kind not in "iu":
        raise TypeError(f"{name}: integers were expected, not {values.dtype}")
    if values.dtype.kind == "u" and n and values.max() > LONG_MAX:
        raise ValueError(f"{name}: {values.max()} is beyond int64")
    return aligned(values, np.int64)


def aligned(array: Any, dtype: Any) -> np.ndarray:
    """Return a contiguous, aligned array for C. A field of a packed dtype may be neither, even with one row."""
    contiguous = np.ascontiguousarray(array, dtype)
    return contiguous if contiguous.flags.aligned else contiguous.copy()


def int32_column(column: Any, name: str, n: int) -> np.ndarray:
    """Return a column of integers as int32[n]; raises as ``int64_column``, and ValueError beyond int32."""
    values = int64_column(column, name, n)
    if n and not INT_MIN <= values.min() <= values.max() <= INT_MAX:
        raise ValueError(f"{name}: {max(values.tolist(), key=abs)} is beyond int32")
    return values.astype(np.int32)


def is_masked(column: Any) -> bool:
    """Return whether a column is a NumPy array that can mask rows.

    This does not import ``numpy.ma``, which takes long.
    """
    return isinstance(column, np.ndarray) and hasattr(column, "mask")


def masked_rows(column: np.ndarray) -> np.ndarray:
    """Return which rows of a column are masked, bool[n]."""
    found: np.ndarray = np.ma.getmaskarray(column) if is_masked(column) else np.zeros(len(column), np.bool_)
    return found


def unmasked_values(column: np.ndarray) -> np.ndarray:
    """Return the values of a column as an ordinary array, with those below masked rows."""
    values: np.ndarray = np.ma.getdata(column) if is_masked(column) else column
    return values


def require_unmasked(column: Any, name: str) -> None:
    """Raise ValueError for a NumPy array that masks a row: a masked row has no value."""
    mask = column.mask if is_masked(column) else False
    if np.any(mask):
        raise ValueError(f"{name}[{int(np.argmax(mask))}] is masked")


def require_sound_buffers(column: Any, name: str) -> None:
    """Raise ValueError for a pyarrow column, or a pandas Series of one, whose buffers are too short for its length.

    pyarrow checks nothing when it maps a file, and reading a buffer that is too short kills the process. The check
    takes a time that does not depend on the number of rows. It compares the sizes of buffers with lengths and with the
    last offset; the offsets between, views and dictionary indices are checked by the kernels when they read them.
    Columns of other libraries do not tell the sizes of their buffers. NumPy arrays, which are all columns that the
    package makes itself, know their lengths and are not checked.
    """
    if isinstance(column, np.ndarray):
        return
    pyarrow = find_imported("pyarrow", "Array", "ChunkedArray", "ArrowException")
    if pyarrow is None:
        return
    if hasattr(column, "iloc") and "pyarrow" in str(getattr(column.dtype, "storage", column.dtype)):
        column = column.array.__arrow_array__()
    if isinstance(column, pyarrow.Array | pyarrow.ChunkedArray):
        try:
            column.validate()
        except pyarrow.ArrowException as error:
            raise ValueError(f"{name}: the Arrow data contradicts itself: {error}") from None


def require_int64(**numbers: int) -> None:
    """Raise TypeError if a value is no integer, ValueError if it does not fit into a long."""
    for name, number in numbers.items():
        if not hasattr(number, "__index__"):
            raise TypeError(f"{name}={number!r}: an integer was expected")
        if not LONG_MIN <= number <= LONG_MAX:
            raise ValueError(f"{name}={number} is beyond int64")


def require_count(**numbers: int) -> None:
    """Raise TypeError if a value is no integer, ValueError if it is negative or does not fit into a long."""
    require_int64(**numbers)
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"{name}={number} is negative")

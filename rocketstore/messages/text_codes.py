"""TextCodes: numbers for the texts of many batches, without a Python object for each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from rocketstore.kernels.value_columns import VarColumn

WORD = np.iinfo(np.uint64).max


class TextCodes:
    """Numbers for texts, in the order of their first use. ``names`` lists the texts; None stands for a null.

    Texts are compared by a hash of 64 bits with weights that are random in each object. The probability that two texts
    of a million share a hash is below 1 in 100,000, whoever chose the texts.
    """

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self._codes: dict[int, int] = {}  # by hash
        self._random = np.random.default_rng()
        self._weights = self._random.integers(0, WORD, 256, np.uint64)  # of the bytes of a text, by position
        self._null, self._length = self._random.integers(0, WORD, 2, np.uint64)

    def find(self, column: VarColumn[Any]) -> np.ndarray:
        """Return the number of each text of a column, int64[n]."""
        hashes, rows, places = np.unique(self._hash(column), return_index=True, return_inverse=True)
        codes = [self._code(value, column, row) for value, row in zip(hashes.tolist(), rows.tolist(), strict=True)]
        return np.array(codes, np.int64)[places]

    def clear(self) -> None:
        """Forget all texts."""
        self.names = []
        self._codes = {}

    def _code(self, value: int, column: VarColumn[Any], row: int) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.names)
            is_null = column.valid is not None and not column.valid[row]
            data = column.data[column.offsets[row] : column.offsets[row + 1]]
            self.names.append(None if is_null else data.tobytes().decode())
        return code

    def _hash(self, column: VarColumn[Any]) -> np.ndarray:
        begins, ends = column.offsets[:-1].astype(np.int64), column.offsets[1:].astype(np.int64)
        lengths = ends - begins
        missing = int(lengths.max(initial=0)) - len(self._weights)
        if missing > 0:
            self._weights = np.append(self._weights, self._random.integers(0, WORD, missing, np.uint64))
        first = int(begins[0]) if len(begins) else 0
        data = column.data[first : first + int(lengths.sum())]
        products = data * self._weights[np.arange(len(data)) - np.repeat(begins - first, lengths)]
        sums = np.zeros(len(data) + 1, np.uint64)
        np.cumsum(products, out=sums[1:])  # wraps around
        hashes: np.ndarray = sums[ends - first] - sums[begins - first] + lengths.astype(np.uint64) * self._length
        if column.valid is not None:
            hashes[~column.valid] = self._null
        return hashes

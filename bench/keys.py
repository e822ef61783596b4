"""The keys of the bench, the same as bench/java makes: 32 hexadecimal digits from SplitMix64."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SEED = 1
TOPIC = "TopicTest"
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def splitmix64(x: np.ndarray) -> np.ndarray:
    """Return the SplitMix64 number of each state, uint64[n]."""
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def digits(numbers: np.ndarray) -> np.ndarray:
    """Return the key of each key number, uint8[n, 32]."""
    parts = np.asarray(numbers, np.uint64)[:, None] * np.uint64(4) + np.arange(4, dtype=np.uint64) + np.uint64(SEED)
    octets = splitmix64(parts).astype(np.uint32).astype(">u4").view(np.uint8)
    out = np.empty((len(octets), 32), np.uint8)
    out[:, 0::2] = HEX[octets >> 4]
    out[:, 1::2] = HEX[octets & 15]
    return out


def arrow_keys(numbers: np.ndarray) -> pa.Array:
    """Return the keys as an Arrow string column, made in pieces."""
    data = np.empty((len(numbers), 32), np.uint8)
    for start in range(0, len(numbers), 1 << 20):
        data[start : start + (1 << 20)] = digits(numbers[start : start + (1 << 20)])
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 32
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def lookup_numbers(n: int, seed: int, keys: int) -> np.ndarray:
    """Return the key number of each of n lookups among ``keys`` keys, in random order."""
    return splitmix64(np.arange(n, dtype=np.uint64) + np.uint64(seed)) % np.uint64(keys)

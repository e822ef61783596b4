"""hash_keys against the plain C loop."""

import numpy as np
import pyarrow as pa
from conftest import seconds_of
from keys import TOPIC

from rocketstore import hash_keys


def plain_seconds(plain, keys):
    hashes = np.empty(len(keys), np.int32)
    return seconds_of(lambda: plain.hash(f"{TOPIC}#".encode(), keys, hashes))


def check(plain, keys):
    hashes = np.empty(len(keys), np.int32)
    plain.hash(f"{TOPIC}#".encode(), keys, hashes)
    assert np.array_equal(hashes, hash_keys(keys, topic=TOPIC))


def test_hash_keys(pairs, plain, keys):
    check(plain, keys)
    pairs(
        "hash_keys, topic#32 hex",
        len(keys),
        lambda: hash_keys(keys, topic=TOPIC),
        lambda: plain_seconds(plain, keys),
        "plain C loop",
        goal=5,
    )


def test_hash_keys_of_mixed_lengths(pairs, plain, keys):
    lengths = np.random.default_rng(1).integers(8, 48, 4_000_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mixed = pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(offsets), keys.buffers()[2]])
    check(plain, mixed)
    pairs(
        "hash_keys, topic#8 to 47 hex",
        len(mixed),
        lambda: hash_keys(mixed, topic=TOPIC),
        lambda: plain_seconds(plain, mixed),
        "plain C loop",
        goal=5,
    )

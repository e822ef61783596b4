"""HashSample: a part of the messages, chosen by a hash, so that each run chooses the same messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rocketstore.kernels.keys import java_hash_codes
from rocketstore.messages.message_batch import MessageBatch

PRECISION = 53  # bits of a hash that are compared; a share is a float
FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class HashSample(NamedTuple):
    """Chooses the messages whose hash of topic, queue id and queue offset is in a share of all hashes.

    Attributes: bound: messages with a lower hash are chosen; of 2 ** PRECISION hashes.
    """

    bound: int

    @classmethod
    def of_share(cls, share: float) -> HashSample:
        """Make a sample. Parameters: share: above 0, and 1 at most."""
        return cls(round(share * 2**PRECISION))

    @property
    def columns(self) -> Sequence[str]:
        return ("topic", "queue_id", "queue_offset")

    @property
    def literal(self) -> None:
        return None

    def choose(self, batch: MessageBatch, /) -> Any:
        """Return the numbers of the chosen rows, int64[n], ascending."""
        hashes = hash_places(java_hash_codes(batch.topic), batch.queue_id, batch.queue_offset)
        return np.flatnonzero(hashes < self.bound)

    def choose_units(self, topic: str, queue_id: int, queue_offsets: np.ndarray) -> np.ndarray:
        """Return which units of a queue lead to chosen messages, bool[n]. Parameters: queue_offsets: int64[n]."""
        chosen: np.ndarray = hash_places(java_hash_codes([topic]), np.array([queue_id]), queue_offsets) < self.bound
        return chosen


def hash_places(topic_codes: np.ndarray, queue_ids: np.ndarray, queue_offsets: np.ndarray) -> np.ndarray:
    """Return a hash of PRECISION bits for each message, uint64[n].

    Parameters: topic_codes: the hash codes of the topics, int32[n] or int32[1]. queue_ids, queue_offsets: int[n].
    Source: splitmix64, whose constants these are.
    """
    with np.errstate(over="ignore"):
        queue = (topic_codes.astype(np.int64) << np.int64(32)) ^ queue_ids.astype(np.int64)
        value = mix(queue.astype(np.uint64)) + queue_offsets.astype(np.uint64) * FACTORS[0]
        hashes: np.ndarray = mix(value) >> np.uint64(64 - PRECISION)
    return hashes


def mix(value: np.ndarray) -> np.ndarray:
    """Return numbers whose bits all depend on all bits of the given numbers, uint64[n]."""
    value = (value ^ (value >> SHIFTS[0])) * FACTORS[1]
    value = (value ^ (value >> SHIFTS[1])) * FACTORS[2]
    mixed: np.ndarray = value ^ (value >> SHIFTS[2])
    return mixed

"""Units of delayed messages have the time of delivery as tags code."""

from __future__ import annotations

import numpy as np

from rocketstore.messages.topics import SCHEDULE_TOPIC


def are_delivery_times(topic: str, tags_codes: np.ndarray, store_timestamps: np.ndarray | int) -> np.ndarray:
    """Return which tags codes of a topic's units may be the delivery times of delayed messages, bool[n].

    The delivery time follows from the delay levels of the broker that dispatched the message. No file holds them, so
    every time from the store time on is accepted.

    Parameters: tags_codes: int64[n]. store_timestamps: of the records, int64[n] or one for all, epoch ms.
    """
    may_be: np.ndarray = (topic == SCHEDULE_TOPIC) & (tags_codes >= store_timestamps)
    return may_be

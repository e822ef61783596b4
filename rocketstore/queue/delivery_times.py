"""Tags codes that are times: units of delayed messages hold the time of their delivery."""

from __future__ import annotations

import numpy as np

from rocketstore.messages.topics import SCHEDULE_TOPIC

__all__ = ["are_delivery_times"]


def are_delivery_times(topic: str, tags_codes: np.ndarray, store_timestamps: np.ndarray | int) -> np.ndarray:
    """Whether tags codes of a topic's units may be when delayed messages are to be delivered, bool[n].

    They are by the levels of the one that dispatched them, which no file shows. Parameters: tags_codes: int64[n].
    store_timestamps: of the records, int64[n] or one for all, epoch ms.
    """
    may_be: np.ndarray = (topic == SCHEDULE_TOPIC) & (tags_codes >= store_timestamps)
    return may_be

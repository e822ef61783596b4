"""Compare units with the records to which they lead, in a queue that has a log of its own; choose units for samples."""

from __future__ import annotations

import numpy as np

from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.queue.units import ConsumeQueueUnits

SAMPLES = 8  # units of a file in a quick verification
COLUMNS = ("topic", "queue_id", "queue_offset", "size", "store_timestamp")


def choose_samples(begin: int, end: int) -> list[int]:
    """Return the numbers of some units from ``begin`` to before ``end``, with the first and the last one."""
    last = max(end - 1, begin)
    return sorted({begin + (last - begin) * i // (SAMPLES - 1) for i in range(SAMPLES)})


def find_bad_units(log: CommitLog, units: ConsumeQueueUnits, queue: QueueId) -> dict[int, str]:
    """Return the rows of the units that lead to no sound record of their message, and what is wrong.

    Parameters: log: the log of the queue.
    """
    messages, statuses = log.find_messages(units.phy_offsets, columns=COLUMNS, verify_crc=True)
    rows = np.flatnonzero(statuses == 0)
    expected = {
        "queue_id": queue.queue_id,
        "queue_offset": units.queue_offsets[rows],
        "size": units.sizes[rows],
    }
    if units.store_timestamps is not None:
        expected["store_timestamp"] = units.store_timestamps[rows]
    wrong = {int(row): "there is no sound record" for row in np.flatnonzero(statuses)}
    for name, values in expected.items():
        wrong |= {int(row): f"the record has another {name}" for row in rows[getattr(messages, name) != values]}
    topics = zip(rows.tolist(), messages.topic.to_pylist(), strict=True)
    wrong |= dict.fromkeys((row for row, topic in topics if topic != queue.topic), "the record is of another topic")
    return {row: f"at {units.phy_offsets[row]} of the log of the queue: {text}" for row, text in wrong.items()}

"""GroupCounter: the number and the bytes of messages in groups, from batches of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from typing import Any, NamedTuple

import numpy as np

from rocketstore.kernels.columns import masked_rows, unmasked_values
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.text_codes import TextCodes
from rocketstore.store.usage.zone_bins import DAY, HOUR, MINUTE, begins_of

WIDTHS = {"minute": MINUTE, "hour": HOUR, "day": DAY}
COLUMNS = {  # of a batch, by the names by which messages are grouped
    "topic": "topic",
    "queue": "queue_id",
    "tag": "tags",
    "born_host": "born_host",
    "store_host": "store_host",
    "reconsume_times": "reconsume_times",
    **dict.fromkeys(WIDTHS, "store_timestamp_ms"),
}


class Tally(NamedTuple):
    """The number of messages of a group, and the bytes of their records."""

    messages: int
    size: int


class GroupCounter:
    """Counts messages by the values of some columns.

    Attributes: columns: that ``add`` needs of a batch.
    """

    def __init__(self, by: Sequence[str], zone: tzinfo | None = UTC) -> None:
        """Parameters: by: names of ``COLUMNS``. A time is the begin of the minute, hour or day in ``zone``, ms."""
        self.columns = tuple(dict.fromkeys([*(COLUMNS[name] for name in by), "size", "phy_offset"]))
        self._last_phy_offset = -1
        self._codecs = [codec_of(name, zone) for name in by]
        self._found: dict[tuple[Any, ...], Tally] = {}

    def add(self, batch: MessageBatch) -> None:
        """Add the messages of a batch. The bytes of an inner batch count with the first of its messages."""
        if not len(batch):
            return
        codes = [codec.codes(batch) for codec in self._codecs]
        group_numbers, rows = group_rows(codes, len(batch))
        sizes = np.bincount(group_numbers, self._sizes_of_records(batch)).astype(np.int64).tolist()
        messages = np.bincount(group_numbers).tolist()
        groups = list(zip(*(code[rows].tolist() for code in codes), strict=True)) or [()]  # without columns, one group
        for values, count, size in zip(groups, messages, sizes, strict=True):
            known = self._found.get(values, Tally(0, 0))
            self._found[values] = Tally(known.messages + count, known.size + size)

    def _sizes_of_records(self, batch: MessageBatch) -> np.ndarray:
        """Return the bytes of the records, int64[n]; 0 for a message in the same record as the message before it."""
        places = unmasked_values(batch.phy_offset)
        is_first = np.diff(places, prepend=self._last_phy_offset) != 0
        is_first |= masked_rows(batch.phy_offset)
        self._last_phy_offset = int(places[-1])
        return np.where(is_first, batch.size, 0)

    def groups(self) -> dict[tuple[Any, ...], Tally]:
        """Return the tally of each group by its values, in the order of the names."""
        return {
            tuple(codec.value_of(code) for codec, code in zip(self._codecs, codes, strict=True)): tally
            for codes, tally in self._found.items()
        }


class ValueCodec(NamedTuple):
    """How one value of a message becomes a number and back. codes: returns int64[n] for a batch."""

    codes: Callable[[MessageBatch], np.ndarray]
    value_of: Callable[[int], Any]


def codec_of(name: str, zone: tzinfo | None) -> ValueCodec:
    """Return the codec of one grouping. Parameters: name: a name of ``COLUMNS``. zone: of hours and days."""
    column, width = COLUMNS[name], WIDTHS.get(name)
    if width is not None:
        return ValueCodec(lambda batch: begins_of(batch.store_timestamp_ms, width, zone), int)
    if column in ("queue_id", "reconsume_times"):
        return ValueCodec(lambda batch: getattr(batch, column).astype(np.int64), int)
    texts = TextCodes()
    return ValueCodec(lambda batch: texts.find(getattr(batch, column)), lambda code: texts.names[code])


def group_rows(codes: Sequence[np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the group of each row, int64[n], and a row of each group.

    Parameters: codes: int64[n] for each column; rows of one group have equal codes. n: the number of rows.
    """
    group_numbers, rows = np.zeros(n, np.int64), np.zeros(1, np.int64)
    for code in codes:
        _, own = np.unique(code, return_inverse=True)
        _, rows, group_numbers = np.unique(group_numbers * n + own, return_index=True, return_inverse=True)
    return group_numbers, rows

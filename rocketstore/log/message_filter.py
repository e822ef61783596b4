"""Conditions on messages that a scan cannot decide for an inner batch: they see the messages in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rocketstore.log.scan import RowChoice, Scan
from rocketstore.messages.batch_of_messages import batch_of_messages
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import INNER_BATCH


class MessageFilter(NamedTuple):
    """Conditions that a message must meet. choices: such as a ``Where``; without one, every message meets them."""

    choices: tuple[RowChoice, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns that the conditions need."""
        return list(dict.fromkeys(name for choice in self.choices for name in choice.columns))

    @property
    def texts(self) -> list[str]:
        """The conditions as text. Equal texts are equal conditions."""
        return [*map(repr, self.choices)]

    def of_scan(self, scan: Scan, *, has_containers: bool) -> Scan:
        """Return a scan of the records that meet the conditions.

        Parameters: has_containers: whether the record of an inner batch is one message; else the scan has the records
        of all inner batches, and the caller filters the messages in them.
        """
        if not self.choices:
            return scan
        return scan.filtered(*(choice if has_containers else OrInnerBatch(choice) for choice in self.choices))

    def find_rows(self, messages: Sequence[Message]) -> np.ndarray:
        """Return the numbers of the messages that meet the conditions, int64[n]. They have ``columns``."""
        rows = np.arange(len(messages), dtype=np.int64)
        if not self.choices or not len(messages):
            return rows
        batch = batch_of_messages(messages, self.columns)
        for choice in self.choices:
            chosen = choice.choose(batch)
            rows, batch = rows[chosen], batch.take(chosen)
        return rows

    def choose(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that meet the conditions."""
        return [messages[row] for row in self.find_rows(messages).tolist()]


NO_CONDITIONS = MessageFilter()


class OrInnerBatch(NamedTuple):
    """Chooses the rows that another choice chooses, and all inner batches."""

    choice: RowChoice

    @property
    def columns(self) -> Sequence[str]:
        return (*self.choice.columns, "sys_flag")

    @property
    def literal(self) -> bytes | None:
        return self.choice.literal

    def choose(self, batch: MessageBatch) -> np.ndarray:
        """Return the numbers of the chosen rows, int64[n], ascending."""
        rows = self.choice.choose(batch)
        batches = np.flatnonzero(batch.sys_flag & INNER_BATCH)
        return np.union1d(rows, batches) if len(batches) else rows

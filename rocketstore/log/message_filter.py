"""MessageFilter: the conditions of a command beside those of a scan, such as --where."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.log.scan import RowChoice, Scan
from rocketstore.messages.message_batch import MessageBatch


class MessageFilter(NamedTuple):
    """Conditions that a message must meet. choices: such as a ``Where``; without one, every message meets them."""

    choices: tuple[RowChoice, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The conditions as text. Equal texts are equal conditions."""
        return [*map(repr, self.choices)]

    def of_scan(self, scan: Scan) -> Scan:
        """Return a scan of the messages that meet the conditions."""
        return scan.filtered(*self.choices) if self.choices else scan

    @property
    def columns(self) -> list[str]:
        """The columns that the conditions need of a batch."""
        return list(dict.fromkeys(name for choice in self.choices for name in choice.columns))

    def of_batch(self, batch: MessageBatch) -> MessageBatch:
        """Return the messages of a batch that meet the conditions. Parameters: batch: with ``columns``."""
        for choice in self.choices:
            batch = batch.take(choice.choose(batch))
        return batch


NO_CONDITIONS = MessageFilter()

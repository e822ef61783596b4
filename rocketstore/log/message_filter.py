"""MessageFilter: the conditions of a command beside those of a scan, such as --where."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.log.scan import RowChoice, Scan


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


NO_CONDITIONS = MessageFilter()

"""Found: the pending messages of one kind."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.store.pending.pending_message import PendingMessage


class Found(NamedTuple):
    """Pending messages, and why some may be missing or may be listed although they were delivered."""

    rows: list[PendingMessage]
    problems: list[str]

"""What recovery did, or would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["RecoveryAction", "RecoveryReport"]


class RecoveryAction(NamedTuple):
    """One step: ``what`` is done to ``path``, at ``offset`` in that file, over ``size`` bytes.

    "save": bytes are copied to ``rocketstore-cut``; "zero": they are overwritten; "delete": the file goes; "extend": it
    gets the length it should have; "cut": a queue or an index file ends here now; "dispatch": the records of the
    commit log ``path``, from this physical offset on, go to queues and index. Of a write of pieces that was ended in
    the middle, with its intent ``path`` and its records at this physical offset: "undo": they are cut off; "finish":
    none is there, or others follow all; "leave": some stay, for it is not sure that no others follow.
    """

    path: Path
    what: str
    offset: int = 0
    size: int = 0


@dataclass(frozen=True)
class RecoveryReport:
    """What was found and done: where the commit log begins and ends, bytes; the steps, in order.

    ``policy``: "complete" or "broker". ``last_exit_ok``: there was no ``abort``. ``dry_run``: nothing was changed.
    """

    policy: str
    last_exit_ok: bool
    min_phy_offset: int
    max_phy_offset: int
    actions: Sequence[RecoveryAction]
    dry_run: bool = False

"""LogEnd and LogView: where a log ends and why, as values."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol


class StoreState(StrEnum):
    """How the last writer left a store: it stopped cleanly, it still runs, or it crashed."""

    STOPPED = "stopped"
    RUNNING = "running"
    CRASHED = "crashed"


class StateFinder(Protocol):
    """Finds how the last writer left a store."""

    def find_store_state(self) -> StoreState:
        """Find the state in which the last writer left the store, as it is now."""


class PlannedState:
    """The state of a store in a task of a distributed job: a task reads only what its driver planned."""

    def find_store_state(self) -> StoreState:
        return StoreState.STOPPED


class Why(StrEnum):
    """Why the sound records of a log end at an offset.

    COMPLETE: the writer stopped there. GROWING: a running broker writes its next record there. TORN: a writer crashed
    there, or nothing is known of the writer. CUT: it is proved that a broker ended the log there at its start, and old
    records stand behind. DAMAGED: sound records stand behind, and nothing proves that they are old. UNCOMMITTED: the
    records behind belong to a write that was not committed.
    """

    COMPLETE = "complete"
    GROWING = "growing"
    TORN = "torn"
    CUT = "cut"
    DAMAGED = "damaged"
    UNCOMMITTED = "not committed"


class SoundEnd(NamedTuple):
    """Where sound records that follow each other end. All offsets are physical offsets, in bytes.

    Attributes: end: behind the last record or blank. last_phy_offset: where the last of these records begins; -1
    without a record.
    """

    end: int
    last_phy_offset: int


class EndCandidate(NamedTuple):
    """A place where the log may end. All offsets are physical offsets, in bytes.

    Attributes: end: where the first bytes begin that are no record. last_phy_offset: where the last record before
    ``end`` begins; -1 without a record. later: where the first record behind ``end`` begins; None without a record.
    """

    end: int
    last_phy_offset: int
    later: int | None


class LogEnd(NamedTuple):
    """Where the sound records of a log end, the last record before that place, and why they end there.

    Attributes: end, last_phy_offset: as of ``EndCandidate``.
    """

    end: int
    last_phy_offset: int
    why: Why


class Leftovers(NamedTuple):
    """Records behind the end of a log that are not read.

    Attributes: end: of the log, a physical offset, bytes. first: where the first of the records begins. why: CUT: it is
    proved that a broker cut them off. GROWING: they are older than the start of the running broker. UNCOMMITTED: their
    write was not committed.
    """

    end: int
    first: int
    why: Why


class LogView(NamedTuple):
    """A frozen bound of what is read of a log. All offsets are physical offsets, in bytes.

    Attributes: end: behind the last sound record before the first bad bytes of the last files, or before a cut. why:
    why the sound records end there. records_end: behind the last record of all, also if bytes before it are damaged.
    last_phy_offset: where this last record begins; None without a record. queue_end: where the records end to which
    units may lead; LONG_MAX if that is not known.
    """

    end: int
    why: Why
    records_end: int
    last_phy_offset: int | None
    queue_end: int

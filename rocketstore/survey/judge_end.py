"""Decide why the sound records of a log end at an offset."""

from __future__ import annotations

from dataclasses import dataclass

from rocketstore.kernels.layout import MIN_RECORD
from rocketstore.log.log_end import EndCandidate, LogEnd, StoreState, Why

WITHOUT_LATER = {StoreState.STOPPED: Why.COMPLETE, StoreState.RUNNING: Why.GROWING, StoreState.CRASHED: Why.TORN}


@dataclass(frozen=True)
class CutProof:
    """What a stopped store's files say about a place X of its log: the first bytes that are no record.

    R is the sound record that ends at X. "Behind" are all sound records behind X whose bodies match their CRC. Y is the
    first of them.

    Attributes
    ----------
    is_in_last_file : X is in the last file that has a record. A broker that cuts its log deletes the files behind it.
    has_trace : a unit, an index item or the rest of a header says that a record began at X.
    is_stored_later : R has a later store time than every record behind.
    is_confirmed_behind : the checkpoint's confirmPhyOffset, which releases before 5.1.1 do not write, names a record
        behind.
    gap : Y - X, bytes.
    do_times_rise : the store times never fall from the begin of the file to R.
    is_born_later : R has a later born time than every record behind.
    is_joined : R has its own unit, with its topic, queue, number, offset and size. Or old units, of records from before
        the cut, cover the bytes from before X to exactly Y.
    is_number_repeated : the queue offset of a record between Y and the next bad bytes was assigned again. This record
        has no unit. The unit with its number leads to a record before X with the same topic, queue and number.
    """

    is_in_last_file: bool
    has_trace: bool = True
    is_stored_later: bool = False
    is_confirmed_behind: bool = True
    gap: int = 0
    do_times_rise: bool = False
    is_born_later: bool = False
    is_joined: bool = False
    is_number_repeated: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether a broker cut the log at X, and wrote records before X since."""
        if not self.is_in_last_file or self.has_trace or not self.is_stored_later or self.is_confirmed_behind:
            return False
        is_newer = self.do_times_rise and self.is_born_later and self.is_joined
        has_no_room = 0 < self.gap <= MIN_RECORD  # the smallest record has a topic of one byte, and does not fit
        return is_newer or has_no_room or self.is_number_repeated


@dataclass(frozen=True)
class RunProof:
    """What a running broker's files say about a place of its log where bytes begin that are no record.

    Attributes: is_in_last_file: as for ``CutProof``. are_later_old: all records behind the place were stored before the
    broker started.
    """

    is_in_last_file: bool
    are_later_old: bool


def judge_end(candidate: EndCandidate, proof: CutProof | RunProof | None, state: StoreState) -> LogEnd:
    """Decide why the sound records of a log end at a place, from values alone.

    A cut must be proved. Without a proof the records behind the place are sound, and the bytes at it are damaged.

    Parameters: proof: a CutProof of a stopped store, a RunProof of a running one; None if the store's files give none.
    """
    return LogEnd(candidate.end, candidate.last_phy_offset, _find_why(candidate, proof, state))


def _find_why(candidate: EndCandidate, proof: CutProof | RunProof | None, state: StoreState) -> Why:
    if candidate.later is None:
        return WITHOUT_LATER[state]
    if state == StoreState.STOPPED and isinstance(proof, CutProof) and proof.is_complete:
        return Why.CUT
    if state == StoreState.RUNNING and isinstance(proof, RunProof) and proof.is_in_last_file and proof.are_later_old:
        return Why.GROWING
    return Why.DAMAGED

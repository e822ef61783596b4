"""Check the small files beside DLedger's log: its checkpoint, and the index of its entries."""

from __future__ import annotations

from collections.abc import Iterator

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.layout import ENTRY_HEAD, ENTRY_MAGIC, read_field
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.dledger import DLedgerLog, is_unit_of
from rocketstore.verify.findings import Findings

NUMBERS = ("committedIndex", "endIndex")
# A broker's recovery begins at the start of one of these files, or before. Source: DLedgerMmapFileStore.recover.
LAST_FILES = 3


def check_dledger(files: DLedgerLog, log: CommitLog, findings: Findings, *, is_stopped: bool) -> None:
    """Report a checkpoint or an index of entries that does not fit the log, and zeros before the first entry.

    The zeros are reported if a broker's recovery would begin in them.
    The units of the first entry of each file and of the last entry are compared: by these a broker finds where its
    recovery begins, and what it may serve. Parameters: is_stopped: the last writer stopped cleanly.
    Source: DLedgerMmapFileStore.recover.
    """
    first, begin = log.file_run.files[0] if log.file_run.files else None, log.min_phy_offset
    if first is not None and begin > first.file_from_offset and len(log.file_run.files) <= LAST_FILES:
        findings.add("dledger-begin", first.path, 0, f"the first entry is at {begin}")
    heads = list(read_heads(log))
    last = None
    for head in heads:
        index = read_field(head, ENTRY_HEAD, "index")
        last = index if last is None else max(last, index)
        if not is_unit_of(files.read_index_unit(index), head):
            detail = f"the unit of entry {index}, at {read_field(head, ENTRY_HEAD, 'pos')}, is missing or differs"
            findings.add("dledger-index", files.index, 0, detail)
    _check_checkpoint(files, findings, last if is_stopped else None)


def read_heads(log: CommitLog) -> Iterator[bytes]:
    """Yield the heads of the first entry of each file, and of the last entry of the log."""
    log.max_phy_offset  # noqa: B018  finds the last record
    last = log.last_phy_offset
    places = [log.reader.begin_in(file) for file in log.file_run.files]
    places += [] if last is None else [last - ENTRY_HEAD.itemsize]
    for place in dict.fromkeys(place for place in places if place >= 0):
        head = log.file_run.pread(place, ENTRY_HEAD.itemsize)
        if len(head) == ENTRY_HEAD.itemsize and read_field(head, ENTRY_HEAD, "magic") == ENTRY_MAGIC:
            yield head


def _check_checkpoint(files: DLedgerLog, findings: Findings, last: int | None) -> None:
    """Parameters: last: index of the last entry of a stopped log; None if that is not known."""
    path = files.checkpoint
    try:
        numbers = files.read_checkpoint()
    except FileNotFoundError:
        findings.add("dledger-checkpoint", path, 0, "no such file")
        return
    except CorruptFileError as error:
        findings.add("dledger-checkpoint", path, 0, f"{error.field}: {error.reason}")
        return
    for name in NUMBERS:
        if name not in numbers:
            findings.add("dledger-checkpoint", path, 0, f"{name} is missing")
        elif last is not None and numbers[name] > last:
            detail = f"{name} is {numbers[name]}, the log has entries up to {last}"
            findings.add("dledger-checkpoint", path, 0, detail)

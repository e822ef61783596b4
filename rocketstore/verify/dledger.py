"""Check the small files beside DLedger's log: its checkpoint, and the index of its entries."""

from __future__ import annotations

from collections.abc import Iterator

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.layout import ENTRY_HEAD, ENTRY_INDEX_UNIT, ENTRY_MAGIC, read_field
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.dledger import DLedgerLog
from rocketstore.verify.findings import Findings

NUMBERS = ("committedIndex", "endIndex")
FIELDS = ("magic", "size", "index", "term", "pos")


def check_dledger(files: DLedgerLog, log: CommitLog, findings: Findings, *, is_stopped: bool) -> None:
    """Report a checkpoint or an index of entries that does not fit the log.

    The units of the first entry of each file and of the last entry are compared: by these a broker finds where its
    recovery begins, and what it may serve. Parameters: is_stopped: the last writer stopped cleanly.
    Source: DLedgerMmapFileStore.recover.
    """
    heads = list(read_heads(log))
    last = None
    for head in heads:
        index = read_field(head, ENTRY_HEAD, "index")
        last = index if last is None else max(last, index)
        unit = files.read_index_unit(index)
        fits = len(unit) == ENTRY_INDEX_UNIT.itemsize and all(
            read_field(unit, ENTRY_INDEX_UNIT, name) == read_field(head, ENTRY_HEAD, name) for name in FIELDS
        )
        if not fits:
            detail = f"the unit of entry {index}, at {read_field(head, ENTRY_HEAD, 'pos')}, is missing or differs"
            findings.add("dledger-index", files.index, 0, detail)
    _check_checkpoint(files, findings, last if is_stopped else None)


def read_heads(log: CommitLog) -> Iterator[bytes]:
    """Yield the heads of the first entry of each file, and of the last entry of the log."""
    log.max_phy_offset  # noqa: B018  finds the last record
    last = log.last_phy_offset
    places = [file.file_from_offset for file in log.file_run.files]
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

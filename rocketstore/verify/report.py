"""What verification finds: the kinds of findings, and the report."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rocketstore.errors import CorruptFileError, DiskReadError, StoreError
from rocketstore.log.commit_log import CommitLog

__all__ = ["KINDS", "Finding", "Findings", "Kind", "Place", "VerifyReport"]

SHOWN = 10  # findings of one kind in one file
SEVERITIES = ("error", "warning", "info")


class Kind(NamedTuple):
    """A kind of finding. ``severity``: "error", messages are lost, not found or wrong, or a broker does not start;
    "warning", some will be, or once were; "info", good to know. ``meaning``; what a broker does ``at_next_start``.
    """

    severity: str
    meaning: str
    at_next_start: str


CUTS = "cuts the log here if recovery reads this file, and loses all that follows; else it stays"
STOPS = "does not start: the load fails"
ONLY_WITH_EXT = "only with enableConsumeQueueExt=true, else it reads no ext files"
STOPS_WITH_EXT = f"does not start: the load fails; {ONLY_WITH_EXT}"
DELETES_EMPTY = "deletes it; before 5.1.3, it does not start"
KEEPS = "does not notice"
STAYS = "keeps it; it is not repaired"
STAYS_IN_INDEX = "keeps it, unless it deletes the file after a crash; it is not repaired"
LEAVES_UNIT = "leaves it; records behind a queue's end that it dispatches again get the next offsets, which are wrong"
MAKES_QUEUE = "makes it of the records that it dispatches again, and leaves out older ones"
GOES_PAST = "reads on behind the gap, and logs it"
ERROR, WARNING, INFO = SEVERITIES

# Named after RocketMQ's files; docs, --help and tests take them from here.
KINDS = {
    # commit log
    "log-missing": Kind(ERROR, "there are queues or an index, but no commit log", "destroys all consume queues"),
    "log-file-size": Kind(ERROR, "a file has another length than the others", STOPS),
    "log-file-name": Kind(ERROR, "a file's name is no multiple of the files' length", "finds records at wrong places"),
    "log-file-missing": Kind(ERROR, "a file between others is missing",
                             f"{GOES_PAST}; consumers are sent past its messages"),
    "log-file-overlap": Kind(ERROR, "a file begins before the one before it ends", "reads the wrong one of the two"),
    "log-file-empty": Kind(INFO, "the last file has no length yet", DELETES_EMPTY),
    "log-file-ahead": Kind(INFO, "a file behind the end was made ahead", "deletes it"),
    "log-zeros": Kind(ERROR, "zeros where a record should be, and records behind them", CUTS),
    "log-magic": Kind(ERROR, "no magic code where a record should begin", CUTS),
    "log-size": Kind(ERROR, "the size of a record cannot be, or is not the sum of its parts", CUTS),
    "log-body-length": Kind(ERROR, "the length of a body leads out of the file", CUTS),
    "log-topic-length": Kind(ERROR, "the length of a topic leads out of the file", CUTS),
    "log-properties-length": Kind(ERROR, "the length of properties leads out of the file", CUTS),
    "log-body-crc": Kind(ERROR, "a body is not the one that was stored", CUTS),
    "log-body-compression": Kind(WARNING, "a body that is marked as compressed is not compressed: consumers get "
                                 "neither this message nor those behind it in the same pull", KEEPS),
    "log-property-crc": Kind(ERROR, "a record is not the one that was stored", f"{CUTS}, with forceVerifyPropCRC"),
    "log-property-crc-missing": Kind(WARNING, "a record lacks the CRC of its own that the store's writer gives each",
                                     f"{KEEPS}; {CUTS}, with forceVerifyPropCRC"),
    "log-phy-offset": Kind(ERROR, "a record does not say where it is", "dispatches it to the place it says"),
    "log-delay": Kind(ERROR, "DELAY is no number", CUTS),
    "log-inner-batch": Kind(ERROR, "INNER_NUM or INNER_BASE is no number", CUTS),
    "log-light-offset": Kind(ERROR, "an offset in a light queue is no number",
                             "does not start if it dispatches this record; if it runs, it dispatches no more"),
    "log-queue-offset-gap": Kind(ERROR, "a queue's records leave queue offsets out", "appends the unit all the same"),
    "log-queue-offset-again": Kind(ERROR, "a queue offset is there twice", "gives the record no unit"),
    # Source: DefaultMessageStore.load, which does not catch the InternalError that Java makes of a fault in a mapping.
    "disk-unreadable": Kind(ERROR, "the disk cannot read some bytes of a file",
                            "fails with an InternalError when it reads them, and does not start if recovery does"),
    "log-blank-missing": Kind(ERROR, "a file that others follow ends without a blank", CUTS),
    "log-blank-size": Kind(WARNING, "a blank is not as long as the rest of its file",
                           f"does not notice a shorter one; at a longer one (5.5.1: or a negative one), {CUTS}"),
    "log-blank-bytes": Kind(INFO, "old bytes are left in a blank", KEEPS),
    "log-time-falls": Kind(INFO, "a record is older than the one before it: a clock went back", KEEPS),
    "log-tail": Kind(WARNING, "behind the last record are bytes that are none", "cuts the log here, and writes on"),
    "log-leftovers": Kind(WARNING, "records are left behind the end of the log, where a broker cut them off",
                          "ends the log before them, and writes over them"),
    "log-torn-record": Kind(WARNING, "the last record ends in zeros, as one half written", "takes it as it is"),
    # consume queues
    "queue-no-directory": Kind(ERROR, "a file stands where the directory of a queue should be",
                               "starts without the queue, and cannot make it"),
    "queue-missing": Kind(ERROR, "a queue has records, but no files", MAKES_QUEUE),
    "topic-deleted": Kind(INFO, "a topic was deleted: its records are left, and in no queue",
                          "makes queues of those that recovery reads after a crash"),
    "queue-behind": Kind(INFO, "a queue's last records have no units yet", "dispatches them"),
    "queue-wrong-root": Kind(ERROR, "a queue is in the directory of another type than topics.json says", STOPS),
    "queue-file-size": Kind(ERROR, "a file has another length than the others", STOPS),
    "queue-file-name": Kind(ERROR, "a file's name is no multiple of the files' length", "reads units at wrong offsets"),
    "queue-file-missing": Kind(ERROR, "a file between others is missing",
                               f"{GOES_PAST}; consumers are sent past it, those of a batch queue to 0"),
    "queue-file-empty": Kind(INFO, "the last file has no length yet", DELETES_EMPTY),
    "queue-file-zeros": Kind(WARNING, "the last file has no unit", "may take its first zeros for a unit"),
    "unit-missing": Kind(ERROR, "a record has no unit in its queue", LEAVES_UNIT),
    "unit-shifted": Kind(ERROR, "a record's unit is not at its queue offset", STAYS),
    "unit-size": Kind(ERROR, "a unit has another size than its record", STAYS),
    "unit-tags-code": Kind(ERROR, "a unit has another tags code than its record", STAYS),
    "unit-delivery-time": Kind(INFO, "a delayed message's unit has another time than by the levels of now",
                               "delivers it then; at once if by its level it would be sooner"),
    "unit-batch-base": Kind(ERROR, "a batch unit has another first queue offset than its record", STAYS),
    "unit-batch-size": Kind(ERROR, "a batch unit counts other messages than its record", STAYS),
    "unit-batch-constant": Kind(WARNING, "compactedOffset of a batch unit is not -1, or reserved not 0", KEEPS),
    "unit-store-time": Kind(ERROR, "a batch unit has another store time than its record", STAYS),
    "unit-invalid": Kind(ERROR, "a unit cannot be one", "ends the queue here if it is in the last three files"),
    "unit-no-record": Kind(ERROR, "a unit leads to no record", STAYS),
    "unit-of-another-queue": Kind(ERROR, "a unit leads to a record of another queue", STAYS),
    "unit-beyond-log": Kind(ERROR, "a unit leads beyond the end of the log", "removes it"),
    "unit-again": Kind(ERROR, "a unit leads to a record that has another unit", STAYS),
    "unit-order": Kind(ERROR, "a unit of an older record follows one of a newer", STAYS),
    "unit-filler": Kind(ERROR, "a filler is behind units", STAYS),
    "unit-tail": Kind(INFO, "old units are left behind the end", "may take them back when new ones reach them"),
    "unit-leftover": Kind(INFO, "units are left behind the end of the queue: they lead behind the end of the log",
                          "ends the queue before them, and writes over them"),
    "ext-missing": Kind(ERROR, "a unit leads to no unit in the ext files", "filters by no tags code"),
    "ext-tags-code": Kind(ERROR, "an ext unit has another tags code than the record", STAYS),
    "ext-store-time": Kind(WARNING, "an ext unit has another store time than the record", STAYS),
    "ext-size": Kind(ERROR, "an ext unit is not as long as it says", "may lose those behind it"),
    "ext-beyond-file": Kind(ERROR, "an ext unit says that it ends beyond its file", STOPS_WITH_EXT),
    "ext-end": Kind(WARNING, "an ext file does not end with -1 behind its last unit", KEEPS),
    "ext-file-size": Kind(ERROR, "an ext file has another length than the others", STOPS_WITH_EXT),
    "ext-file-empty": Kind(INFO, "the last ext file has no length yet", f"{DELETES_EMPTY}; {ONLY_WITH_EXT}"),
    "ext-foreign-file-empty": Kind(WARNING, "an empty file stands behind ext files",
                                   f"{DELETES_EMPTY}; {ONLY_WITH_EXT}"),
    "ext-foreign-file-fatal": Kind(ERROR, "a file stands among ext files, of which a broker loads each",
                                   STOPS_WITH_EXT),
    # index
    "index-missing": Kind(WARNING, "there is no index of what the log has", "makes a new one for new messages alone"),
    "index-begins-late": Kind(WARNING, "older records are not in the index", STAYS),
    "index-behind": Kind(INFO, "the newest records are not in the index yet", "indexes what recovery reads"),
    "index-to-be-deleted": Kind(INFO, "an index file is newer than the checkpoint of a crashed store",
                                "deletes it, and indexes again only what recovery reads"),
    "index-geometry": Kind(WARNING, "slots and items do not follow from the files: not checked", "has them configured"),
    "index-file-size": Kind(ERROR, "a file has another length than slots and items need",
                            "reads wrong items; a file that is too short is filled with zeros"),
    "index-file-name": Kind(WARNING, "a file's name is not a time of 17 digits", "sorts it elsewhere"),
    "index-file-order": Kind(ERROR, "a file has older records than the one before it", "finds less"),
    "index-file-not-full": Kind(WARNING, "a file that others follow has room", KEEPS),
    "index-count": Kind(ERROR, "the header counts other items than there are", "overwrites items, or reads none"),
    "index-torn-put": Kind(INFO, "items were being put when the process ended", "overwrites them"),
    "index-slot-count": Kind(WARNING, "the header counts other slots than are used", KEEPS),
    "index-begin-time": Kind(ERROR, "the header's begin time is not that of the first item", "finds wrong times"),
    "index-end-time": Kind(ERROR, "the header's end time is not that of the last item", "passes the file over"),
    "index-begin-offset": Kind(WARNING, "the header's begin offset is not that of the first item", KEEPS),
    "index-end-offset": Kind(ERROR, "the header's end offset is not that of the last item", "indexes again, or less"),
    "index-chain": Kind(ERROR, "an item does not lead to the one before it in its slot", "does not find older keys"),
    "index-chain-cycle": Kind(ERROR, "an item is linked to a newer one, or itself", "may read in a circle"),
    "index-slot": Kind(ERROR, "a slot does not lead to its newest item", "does not find its keys"),
    "index-hash": Kind(ERROR, "the hash of an item is negative", "never finds it"),
    "index-time-negative": Kind(ERROR, "the time of an item is negative", "does not find it, nor older ones"),
    "index-order": Kind(ERROR, "an item is of an older record than the one before it", STAYS_IN_INDEX),
    "index-item-no-record": Kind(ERROR, "an item leads to no record", "skips it when it is asked for"),
    "index-item-no-key": Kind(ERROR, "an item leads to a record without this key", "answers with the wrong message"),
    "index-item-beyond-log": Kind(WARNING, "an item leads beyond the end of the log", STAYS_IN_INDEX),
    "index-item-time": Kind(WARNING, "an item has another time than its record", "finds it at a wrong time"),
    "index-item-again": Kind(INFO, "a key of a record is indexed twice", KEEPS),
    "index-key-missing": Kind(ERROR, "a key of a record is not in the index", "does not index it again"),
    # state
    "abort": Kind(INFO, "the store was not stopped cleanly", "recovers as after a crash"),
    "write-unfinished": Kind(WARNING, "a write of all or nothing was ended in the middle: some of it may be there",
                             KEEPS),
    "lock-held": Kind(INFO, "a broker, or another writer, has the store open", "does not start beside it"),
    "lock-no-file": Kind(ERROR, "lock is no file", STOPS),
    "abort-no-file": Kind(ERROR, "abort, or abort.bak, is no file", "does not start: it cannot write this file"),
    "timer-damaged": Kind(ERROR, "a file of the timers cannot be loaded",
                          "does not start, from 5.0 on and with timerWheelEnable=true, which is the default"),
    "compaction-queue-name": Kind(ERROR, "a directory of a compacted topic is not named after a queue",
                                  "does not start, from 5.1 on and with enableCompaction=true, which is the default"),
    "checkpoint-missing": Kind(WARNING, "there is no checkpoint",
                               "takes zeros: after a crash it reads the last commitLogRecoverMaxNum files again "
                               "(10 by default), and all files before 5.4"),
    "checkpoint-size": Kind(INFO, "the checkpoint has another length than 4096 bytes",
                            "fills a shorter one with zeros, and ignores what is behind"),
    "checkpoint-damaged": Kind(ERROR, "the checkpoint cannot be read", STOPS),
    "checkpoint-negative": Kind(WARNING, "a number of the checkpoint is negative", "takes it for a time, or a place"),
    "checkpoint-ahead": Kind(WARNING, "the checkpoint is ahead of the log: its end was lost",
                             "dispatches too little after a crash"),
    "checkpoint-offset": Kind(WARNING, "an offset of the checkpoint is not where a record begins", KEEPS),
    "checkpoint-index-ahead": Kind(WARNING, "the checkpoint is ahead of the index: its newest files were lost",
                                   "keeps a later file after a crash that may not be whole"),
    "checkpoint-index-behind": Kind(WARNING, "the checkpoint does not know of a full index file",
                                    "deletes that file after a crash"),
    "config-damaged": Kind(ERROR, "a file of config cannot be read, and no .bak replaces it",
                           "deletes the file, but no .bak, and starts without what it had"),
    "config-bak-damaged": Kind(ERROR, "a file of config and its .bak cannot be read",
                               "does not start, and deletes the file, but not the .bak"),
    "config-not-read": Kind(WARNING, "a file of config cannot be read, and the broker does not use it",
                            "does not read it"),
    "sizes-damaged": Kind(ERROR, "the sizes that a rocketstore writer noted cannot be read", "does not read them"),
    "config-bak-used": Kind(WARNING, "a file of config cannot be read, its .bak can",
                            "uses the .bak, and deletes the file"),
    "config-offset": Kind(WARNING, "an offset to be consumed next is beyond the end of its queue",
                          "sets that of a delay level to the end; a consumer is sent to the end when it asks"),
    "foreign-file": Kind(INFO, "a file or directory is none of a store's", "leaves it alone"),
    "foreign-file-empty": Kind(WARNING, "an empty file stands behind the files that a broker loads", DELETES_EMPTY),
    "foreign-file-fatal": Kind(ERROR, "a file stands among files of which a broker loads each", STOPS),
    "not-checked": Kind(INFO, "a part of the store is in a format that is not read", "reads it"),
    "unreadable": Kind(ERROR, "a file cannot be read", STOPS),
    "directory-unreadable": Kind(ERROR, "a directory cannot be listed, or a file stands in its place",
                                 "starts as if it were empty, and cannot write into it"),
}


@dataclass(frozen=True)
class Finding:
    """What is wrong at one place. ``kind``: of KINDS, where its ``severity`` is from, and what a broker does
    ``at_next_start``. ``offset``: byte in ``path``. ``more``: so many others of the kind in this file are not listed.
    """

    kind: str
    path: Path
    offset: int
    detail: str
    more: int = 0

    @property
    def severity(self) -> str:
        return KINDS[self.kind].severity

    @property
    def at_next_start(self) -> str:
        return KINDS[self.kind].at_next_start

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "severity": self.severity, "path": str(self.path), "offset": self.offset,
            "detail": self.detail, "more": self.more, "atNextStart": self.at_next_start,
        }


@dataclass(frozen=True)
class VerifyReport:
    """What was found: errors first, then by path. Offsets are bytes of the log; counts say what was looked at.

    ``last_exit_ok``: there is no ``abort``; ``is_locked``: a broker runs. ``quick``: only samples were looked at.
    """

    findings: Sequence[Finding]
    min_phy_offset: int
    max_phy_offset: int
    messages: int
    queues: int
    index_files: int
    last_exit_ok: bool
    is_locked: bool
    quick: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.count("error")

    def count(self, severity: str) -> int:
        """How many findings of a severity there are, with those that are not listed."""
        return sum(1 + finding.more for finding in self.findings if finding.severity == severity)

    def to_dict(self) -> dict[str, Any]:
        fields = {**vars(self), "findings": [finding.to_dict() for finding in self.findings]}
        return {**fields, "ok": self.ok}


class Place(NamedTuple):
    """The place of one finding: a file, an offset in it in bytes, and the text of the finding."""

    path: Path
    offset: int
    detail: str


class Findings:
    """Collect findings from any thread. The first ``SHOWN`` of each kind and file are listed, the others counted."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Path], list[Finding]] = {}
        self._more: dict[tuple[str, Path], int] = {}
        self._mutex = threading.Lock()

    def add(self, kind: str, path: Path, offset: int, detail: str, count: int = 1) -> None:
        """Add one finding. Parameters: count: the number of findings that it stands for."""
        KINDS[kind]
        with self._mutex:
            found = self._found.setdefault((kind, path), [])
            listed = len(found) < SHOWN
            if listed:
                found.append(Finding(kind, path, offset, detail))
            self._more[kind, path] = self._more.get((kind, path), 0) + count - listed

    def add_at(self, log: CommitLog, kind: str, phy_offset: int, detail: str, count: int = 1) -> None:
        """Add one finding at a physical offset of the log."""
        self.add(kind, *log_place(log, phy_offset, detail), count)

    def add_many(self, kind: str, places: Sequence[Place], total: int) -> None:
        """Add ``total`` findings of one kind. ``places`` has all of them or the first.

        Findings without a place are counted in the file of the last place.
        """
        for place in places[:-1]:
            self.add(kind, *place)
        if places:
            self.add(kind, *places[-1], max(total - len(places) + 1, 1))

    @contextmanager
    def noted(self, path: Path, kind: str = "unreadable") -> Iterator[None]:
        """Take an error that a damaged or missing file is the reason for as a finding."""
        try:
            yield
        except CorruptFileError as error:
            self.add(kind, Path(str(error.path)), max(error.offset, 0), f"{error.field}: {error.reason}")
        except OSError as error:
            where = Path(error.filename) if isinstance(error.filename, str) else path
            kind = kind_of_error(error, where) if kind == "unreadable" else kind
            self.add(kind, where, getattr(error, "offset", 0), error.strerror or str(error))
        except (StoreError, ValueError, OverflowError, IndexError) as error:
            self.add(kind, path, 0, str(error))

    def sorted(self) -> list[Finding]:
        found = [
            replace(finding, more=self._more[key] if finding is group[-1] else 0)
            for key, group in self._found.items() for finding in group
        ]
        return sorted(found, key=lambda f: (SEVERITIES.index(f.severity), str(f.path), f.offset, f.kind))


def log_place(log: CommitLog, phy_offset: int, detail: str) -> Place:
    """Return the place of a physical offset in the log file that has it, or in the directory of the log."""
    file = log.queue.find(phy_offset)
    path, offset = (file.path, phy_offset - file.file_from_offset) if file else (log.directories[0], phy_offset)
    return Place(path, offset, f"at {phy_offset}: {detail}")


def kind_of_error(error: OSError, path: Path) -> str:
    """Return the kind of an error of the operating system."""
    if isinstance(error, DiskReadError):
        return "disk-unreadable"
    is_directory = isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP or path.is_dir()
    return "directory-unreadable" if is_directory else "unreadable"

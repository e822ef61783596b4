"""Findings of a verification: collect them from several threads, and put them into a report."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, DiskReadError, StoreError
from rocketstore.kernels.message_columns import Field
from rocketstore.log.commit_log import CommitLog
from rocketstore.lost.lost_message import LostMessage
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.preview import GREEN, RED, WIDE_CELL, Preview, Previewed, Verdict, first_of
from rocketstore.text_values import format_count
from rocketstore.verify.kinds import KINDS, PATCH, SEVERITIES, find_repair_command

DAMAGE_ERRORS = (StoreError, OSError, ValueError, OverflowError, IndexError)  # of readers of damaged or missing files
SHOWN = 10  # listed findings of one kind in one file; the others are counted
SHOWN_FIELDS = "severity", "kind", "path", "offset", "detail", "more", "mend"


@dataclass(frozen=True)
class Finding:
    """One fault in a store.

    Attributes
    ----------
    kind : a key of ``KINDS``, which gives ``severity``, ``at_next_start`` and ``mend``.
    path, offset : the file or directory, and the byte in it.
    detail : the values that were found.
    more : how many other findings of this kind in this file are not listed.
    is_dledger : whether the log of the store is DLedger's, which commands do not change.
    can_patch : whether ``patch`` mends it: records can stand in the place of what is damaged.

    Examples:
    >>> import shutil
    >>> copy = shutil.copytree("demo", "killed")
    >>> open("killed/abort", "w").close()
    >>> finding = rocketstore.verify("killed").findings[0]
    >>> finding.kind, finding.severity
    ('abort', 'info')
    """

    kind: str
    path: StorePath
    offset: int
    detail: str
    more: int = 0
    is_dledger: bool = False
    can_patch: bool = False

    @property
    def severity(self) -> str:
        return KINDS[self.kind].severity

    @property
    def at_next_start(self) -> str:
        return KINDS[self.kind].at_next_start

    @property
    def mend(self) -> str | None:
        return PATCH if self.can_patch else find_repair_command(self.kind, is_dledger=self.is_dledger)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "severity": self.severity,
            "path": str(self.path),
            "offset": self.offset,
            "detail": self.detail,
            "more": self.more,
            "atNextStart": self.at_next_start,
            "mend": self.mend,
        }


FINDING_FIELDS = (
    Field("kind", "u"), Field("severity", "u"), Field("path", "u"), Field("offset", "l"), Field("detail", "u"),
    Field("more", "l"), Field("atNextStart", "u"), Field("mend", "u", nullable=True),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class VerifyReport(Previewed, ArrowStream):
    """The result of a verification. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of the findings.

    Attributes
    ----------
    findings : errors first, then sorted by path.
    min_phy_offset, max_phy_offset : begin and end of the log, bytes.
    messages : the number of messages in all queues, as ``MessageStore.summary`` counts them.
    records, queues, index_files : how many were checked.
    last_exit_ok : the store was stopped cleanly: no file ``abort`` exists.
    is_locked : a broker, or another writer, has the store open.
    quick : only samples were checked.
    damaged : the ranges of the log that are damaged, or have a damaged record at their begin: physical offsets, bytes.
        An end of 2^63 - 1 is the end of the log, which was lost.
    lost : the messages that stood in damaged bytes of the log, by the units of queues, in the order of the log. Empty
        if ``quick``, and if the queues or the log cannot be read.
    has_log : False if the log is missing or cannot be read. Then queues and index are not checked.

    Examples:
    >>> report = rocketstore.verify("demo")
    >>> report.verdict, report.records, report.queues, list(report.findings)
    ('Sound.', 101, 2, [])
    """

    findings: Sequence[Finding]
    min_phy_offset: int
    max_phy_offset: int
    messages: int
    records: int
    queues: int
    index_files: int
    last_exit_ok: bool
    is_locked: bool
    quick: bool = False
    damaged: Sequence[tuple[int, int]] = ()
    lost: Sequence[LostMessage] = ()
    has_log: bool = True

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not self.count("error")

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity, unlisted ones included."""
        return sum(1 + finding.more for finding in self.findings if finding.severity == severity)

    @property
    def is_partial(self) -> bool:
        """Whether only samples were checked, or a part of the store was not checked."""
        return self.quick or any(finding.kind == "not-checked" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One sentence: whether the store is sound, as far as it was checked."""
        if not self.has_log:
            is_missing = any(finding.kind == "log-missing" for finding in self.findings)
            what = "is missing" if is_missing else "cannot be read"
            return f"Not sound: the commit log {what}, so queues and index were not checked."
        counts = [(self.count(severity), severity) for severity in ("error", "warning")]
        found = " and ".join(format_count(count, severity) for count, severity in counts if count)
        if not self.ok:
            return f"Not sound: {found}."
        sound = "Sound"
        if self.is_partial:
            sound = "Sound in the samples that were checked" if self.quick else "Sound as far as it was checked"
        return f"{sound}, with {found}." if found else f"{sound}."

    def _verdict_words(self) -> Verdict:
        if not self.ok:
            return Verdict("not sound", RED)
        return Verdict("no error found") if self.is_partial else Verdict("sound", GREEN)

    def _preview(self) -> Preview:
        counts = ", ".join(format_count(self.count(severity), severity) for severity in SEVERITIES)
        log = f"log from {self.min_phy_offset:,} to {self.max_phy_offset:,}"
        records, messages = format_count(self.records, "record"), format_count(self.messages, "message")
        parts = f"{format_count(self.queues, 'queue')}, {format_count(self.index_files, 'index file')}"
        stop = "open for writing" if self.is_locked else "stopped cleanly" if self.last_exit_ok else "crashed"
        samples = ", only samples were checked" if self.quick else ""
        title = f"VerifyReport: {counts}, {log}, {records}, {parts}, {messages}, {stop}{samples}"
        rows = [
            None if finding is None else [getattr(finding, name) for name in SHOWN_FIELDS]
            for finding in first_of(self.findings)
        ]
        return Preview(title, SHOWN_FIELDS, rows, width=WIDE_CELL, verdict=self._verdict_words())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the findings as an Arrow stream."""
        return export_rows(FINDING_FIELDS, [tuple(finding.to_dict().values()) for finding in self.findings])

    def to_dict(self) -> dict[str, Any]:
        fields = {**vars(self), "findings": [finding.to_dict() for finding in self.findings]}
        fields["lost"] = [message.to_dict() for message in self.lost]
        return {**fields, "ok": self.ok}


class Place(NamedTuple):
    """The place of one finding: a file, an offset in it in bytes, and the text of the finding."""

    path: StorePath
    offset: int
    detail: str


class Findings:
    """Collect findings from any thread. The first ``SHOWN`` of each kind and file are listed, the others counted."""

    def __init__(self, *, is_dledger: bool = False) -> None:
        """Parameters: is_dledger: whether the log of the store is DLedger's."""
        self._is_dledger = is_dledger
        self._found: dict[tuple[str, StorePath], list[Finding]] = {}
        self._more: dict[tuple[str, StorePath], int] = {}
        self._mutex = threading.Lock()

    def add(self, kind: str, path: StorePath, offset: int, detail: str, count: int = 1) -> None:
        """Add one finding. Parameters: count: the number of findings that it stands for."""
        KINDS[kind]
        with self._mutex:
            found = self._found.setdefault((kind, path), [])
            listed = len(found) < SHOWN
            if listed:
                found.append(Finding(kind, path, offset, detail, is_dledger=self._is_dledger))
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
    def reporting_errors(self, path: StorePath, kind: str = "unreadable") -> Iterator[None]:
        """Turn an error of a damaged or missing file into a finding.

        Parameters: path: the file, if the error does not name one. kind: of the finding.
        """
        try:
            yield
        except CorruptFileError as error:
            self.add(kind, Path(str(error.path)), max(error.offset, 0), f"{error.field}: {error.reason}")
        except OSError as error:
            where = Path(error.filename) if isinstance(error.filename, str) else path
            kind = kind_of_error(error, where) if kind == "unreadable" else kind
            self.add(kind, where, getattr(error, "offset", 0), error.strerror or str(error))
        except DAMAGE_ERRORS as error:
            self.add(kind, path, 0, str(error))

    def check_lengths(self, run: str, files: Sequence[RunFile], size: int) -> None:
        """Report files of a run that have another length than ``size``, bytes. Parameters: run: begins the kinds."""
        for file in files:
            if file.size == 0 and file is files[-1]:
                self.add(f"{run}-file-empty", file.path, 0, "no bytes")
            elif file.size != size:
                self.add(f"{run}-file-size", file.path, file.size, f"{file.size} bytes, not {size}")

    def check_names(self, run: str, files: Sequence[RunFile], size: int) -> None:
        """Report files of a run whose names are no multiples of their length, bytes."""
        for file in files:
            if size and file.file_from_offset % size:
                self.add(f"{run}-file-name", file.path, 0, f"{file.file_from_offset} is no multiple of {size}")

    def sorted(self) -> list[Finding]:
        found = [
            replace(finding, more=self._more[key] if finding is group[-1] else 0)
            for key, group in self._found.items()
            for finding in group
        ]
        return sorted(found, key=lambda f: (SEVERITIES.index(f.severity), str(f.path), f.offset, f.kind))


def log_place(log: CommitLog, phy_offset: int, detail: str) -> Place:
    """Return the place of a physical offset in the log file that has it, or in the directory of the log."""
    file = log.file_run.find(phy_offset)
    path, offset = (file.path, phy_offset - file.file_from_offset) if file else (log.directories[0], phy_offset)
    return Place(path, offset, f"at {phy_offset}: {detail}")


def kind_of_error(error: OSError, path: StorePath) -> str:
    """Return the kind of an error of the operating system."""
    if isinstance(error, DiskReadError):
        return "disk-unreadable"
    is_directory = isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP or path.is_dir()
    return "directory-unreadable" if is_directory else "unreadable"

"""The intent of a write: what a job will append to the log. It is read after a crash in the middle of the write.

The intent is on the disk before the first byte is appended. It is removed when the last byte is on the disk, and that
removal commits the write. The files of prepared rows stay until then, so that the records of the job can be told from
records of others.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from rocketstore.disk.durable import replace_file, sync_path
from rocketstore.disk.held_directory import HeldDirectory, unlink_path
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import local_path
from rocketstore.disk.store_path import AnyPath, StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.jobs.prepared_rows import PreparedRows, read_blocks
from rocketstore.jobs.transactions import Transaction, commit_transaction
from rocketstore.kernels.appender import count_appended
from rocketstore.kernels.commit_log import BLANK
from rocketstore.kernels.record_encoder import RecordEncoder
from rocketstore.limits import LONG_MAX
from rocketstore.log.record_reader import RecordReader
from rocketstore.logger import logger
from rocketstore.root_places import RootPlaces
from rocketstore.text_values import format_count

WRITE_PREFIX = "rocketstore-write-"  # before the job's id, in the name of a directory under the root
NO_HOST = "0.0.0.0:0"
KEPT_TIMES = 10  # the answer is kept for this multiple of the time that it took to find it


class WriteIntent(NamedTuple):
    """What a job appends: its prepared rows in order, between two physical offsets.

    Attributes: begin: where the first record goes, bytes. end: no record ends behind it, bytes. store_timestamp: epoch
    ms of all records; None if they have their own. append_prop_crc: whether records end in a CRC of the properties.
    pieces: the files of prepared rows; the intent file has this name too. transaction: is committed with the write, if
    the job has a transaction.
    """

    job: str
    begin: int
    end: int
    store_timestamp: int | None
    append_prop_crc: bool
    pieces: list[PreparedRows]
    transaction: Transaction | None = None

    @classmethod
    def read(cls, root: StorePath) -> WriteIntent | None:
        """Read the intent of a store. Return None without an intent. Raises: CorruptFileError."""
        path = intent_path(root)
        try:
            fields = json.loads(read_small_file(path))
            intent = cls(**{**fields, "pieces": [PreparedRows(*piece) for piece in fields["pieces"]]})
            if intent.transaction is not None:
                intent = intent._replace(transaction=Transaction.of(*intent.transaction))
            names = [intent.job, *(piece.name for piece in intent.pieces)]
            if not all(re.fullmatch(r"\w[\w.-]*", name) for name in names):
                raise ValueError(f"{names}: must be names of files")
            numbers = [intent.begin, intent.end, *(number for piece in intent.pieces for number in piece[1:])]
            if not all(type(number) is int and 0 <= number <= LONG_MAX for number in numbers):
                raise ValueError(f"{numbers}: must be offsets and sizes")
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = f"{error}: no write leaves an incomplete intent; remove it to keep the log unchanged"
            raise CorruptFileError(path, 0, "JSON", reason) from None
        return intent

    def save(self, root: HeldDirectory) -> None:
        """Write the intent to the disk, after the names of the prepared files. Raises: OSError."""
        sync_path(prepared_path(root.path, self.job), root)
        fields = {name: value for name, value in self._asdict().items() if name != "transaction" or value is not None}
        replace_file(intent_path(root.path), json.dumps(fields).encode(), held=root)

    def fulfil(self, root: HeldDirectory) -> None:
        """Commit the write, whose records are all on the disk: remove the intent, and commit its transaction.

        Raises: OSError: then the intent is still there, and the write must be undone.
        """
        if self.transaction is not None:
            commit_transaction(root.path, self.transaction, intent_path(root.path), root)
            return
        try:
            unlink_path(intent_path(root.path), root)
            sync_path(root.path, root)  # otherwise a power loss restores the intent, and recovery undoes the write
        except BaseException:
            self.save(root)
            raise

    @property
    def records(self) -> int:
        """The number of records in all prepared files."""
        return sum(piece.records for piece in self.pieces)

    def count_in(self, log: RecordReader, directory: StorePath, end: int) -> tuple[int, int]:
        """Count the records of the write that are in a log that ends at ``end``. Return the count and where they end.

        Raises: CorruptFileError, FileNotFoundError for a file of prepared rows.
        """
        encoder = RecordEncoder(NO_HOST, lambda topic: 0, append_prop_crc=self.append_prop_crc)
        blocks = (block for piece in self.pieces for block in read_blocks(directory, piece))
        count, offset = 0, self.begin
        while offset < end and (block := next(blocks, None)) is not None:
            encoder.load(*block)
            done = 0
            while done < len(encoder):
                before = offset
                done, offset = self._count(encoder, done, log, offset, end)
                if offset == before and (offset := behind_blank(log, offset, end)) == before:
                    return count + done, offset
            count += done
        return count, offset

    def _count(self, encoder: RecordEncoder, done: int, log: RecordReader, offset: int, end: int) -> tuple[int, int]:
        window = log.file_run.read(offset, encoder.size, "sequential") if offset < end else None
        if window is None:
            return done, offset
        begin, stop = window.from_offset, min(end - window.from_offset, window.buffer.size)
        done, position = count_appended(encoder, done, self.store_timestamp, window.buffer, begin, offset - begin, stop)
        return done, begin + position


def behind_blank(log: RecordReader, offset: int, end: int) -> int:
    """Return where the next file begins if a blank begins at ``offset``; otherwise ``offset``."""
    step = log.step(log.scanner(()), offset, offset + 1) if offset < end else None
    return step[0] if step is not None and step[1] == BLANK else offset


@dataclass
class UnfinishedWrite:
    """A write that was interrupted, and how recovery ends it.

    Attributes: what: "undo": cut its records off, because nothing follows them. "finish": keep the log, because it has
    no record of the write, or all of them with others behind. "leave": the log has some of the records with others
    behind, or the prepared files are missing. begin, end: where its records are in the log, bytes. count: the number
    of these records; -1 if it is unknown.
    """

    root: StorePath
    intent: WriteIntent
    what: str
    count: int
    begin: int
    end: int

    def remove_intent(self) -> None:
        """Remove the intent, after recovery has changed the log. For "leave", warn and rename the intent instead."""
        import shutil  # takes long to import, and few stores have an unfinished write

        root, job = local_path(self.root), self.intent.job
        path = intent_path(root)
        text = f"{self.root}: write {job} was ended in the middle: {self}"
        logger.warning("%s", text)
        with suppress(FileNotFoundError):  # it was removed before a crash
            if self.what == "leave":
                path.rename(path.with_stem(f"{path.stem}-{job}"))
            elif self.intent.transaction is not None and self._is_complete:
                commit_transaction(root, self.intent.transaction, path)
            else:
                path.unlink()
        sync_path(root)
        shutil.rmtree(prepared_path(root, job), ignore_errors=True)
        if self.what == "leave":  # a user must decide about these records
            warnings.warn(text, stacklevel=1)

    @property
    def _is_complete(self) -> bool:
        """Return whether all records of the write stay in the log."""
        return self.what == "finish" and self.count == self.intent.records > 0

    def __str__(self) -> str:
        if self.what == "undo":
            return f"its messages ({self.count}) are cut off at {self.begin}"
        if self.what == "finish":
            return f"its messages ({self.count}) stay, others follow them" if self.count else "it had put nothing"
        messages = format_count(self.intent.records, "message")
        some = f"{self.count} of its {messages}" if self.count >= 0 else "some of its messages"
        return f"{some} may stay in the log, from {self.begin} to {self.end}: it is not known that nothing follows them"


def find_unfinished(root: StorePath, log: RecordReader, end: int) -> UnfinishedWrite | None:
    """Find the unfinished write of a store, and how to end it. Return None without an intent.

    Parameters: end: where the last sound record of the log ends, bytes. Raises: CorruptFileError for the intent.
    """
    intent = WriteIntent.read(root)
    if intent is None:
        return None
    try:
        count, own_end = intent.count_in(log, prepared_path(root, intent.job), end)
    except (FileNotFoundError, CorruptFileError):
        count, own_end = (-1, min(end, intent.end)) if end > intent.begin else (0, intent.begin)
    what = "leave"
    if count > 0 and own_end == end <= intent.end:
        what = "undo"
    elif count in (0, intent.records):
        what = "finish"
    return UnfinishedWrite(root, intent, what, count, intent.begin, own_end)


class UncommittedRecords:
    """The records of an unfinished write at the end of a log, which readers leave out.

    They are cut off if the write fails. Once records of others follow them, they stay. To find that out, all records of
    the write are read. So the answer is kept for a time that is in proportion to the time of reading.
    """

    def __init__(self, root: StorePath) -> None:
        self._root = root
        self._path = intent_path(root)
        self._staying: WriteIntent | None = None
        self._uncommitted: WriteIntent | None = None
        self._kept_until = 0.0  # seconds of the monotonic clock

    def find_begin(self, log: RecordReader) -> int:
        """Return the physical offset, bytes, where they begin; LONG_MAX if there are none.

        Damage within the range of the write is the end of the log. Raises: CorruptFileError for the intent.
        """
        try:
            self._path.stat()  # a get asks several times, and opening a missing file takes much longer
        except FileNotFoundError:
            return LONG_MAX
        while (intent := WriteIntent.read(self._root)) not in (None, self._staying):
            started = time.monotonic()
            if intent == self._uncommitted and started < self._kept_until:
                return intent.begin
            end = find_sound_end(log, intent)
            if end <= intent.end and self._ends_with(log, end):
                self._uncommitted = intent
                self._kept_until = time.monotonic() + KEPT_TIMES * (time.monotonic() - started)
                return intent.begin
            if find_sound_end(log, intent) >= end:  # else the records are being cut off
                self._staying = intent
        return LONG_MAX

    def _ends_with(self, log: RecordReader, end: int) -> bool:
        """Return whether the sound records before ``end`` are all of the write."""
        found = find_unfinished(self._root, log, end)
        return found is not None and found.end == end and found.what != "leave"


def find_sound_end(log: RecordReader, intent: WriteIntent) -> int:
    """Return where the sound records within the range of a write end now."""
    log.refresh()
    return log.find_sound_end(intent.begin, intent.end).end


def intent_path(root: AnyPath) -> AnyPath:
    return RootPlaces(root).write_intent


def prepared_path(root: AnyPath, job: str) -> AnyPath:
    return root / f"{WRITE_PREFIX}{job}"

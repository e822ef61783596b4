"""Coverage: which parts of a commit log the index covers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.ranges import ranges_from_end
from rocketstore.disk.storage import is_remote, sparing_reads
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import IndexService
from rocketstore.index.key_lookup import IndexPart, IndexParts, KeyIndex, KeySpan
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.keys import hash_keys
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.system_flags import TRANSACTION_ROLLBACK
from rocketstore.query.file_times import FileTimes
from rocketstore.query.index_holes import FileId, IndexHoles, hashes_at

MAX_KEPT = 10_000  # cached answers about parts of the log
MOST_SEARCHED = 64  # files for the entries of one message; two have them after a full file
MAX_FILES = 64  # index files that a view keeps open
LAST_COLUMNS = ("topic", "phy_offset", "size", "keys", "uniq_key")
LAST_PART = 1 << 16  # bytes of the log that a backward search reads first


def overlaps(file: IndexPart, log: CommitLog) -> bool:
    """Return whether a part of the index has entries of messages that the log still has."""
    return span_in(file, log) is not None


def span_in(file: IndexPart, log: CommitLog) -> KeySpan | None:
    """Return the span of a part of the index; None if the log has none of its messages any more."""
    span = file.span
    return span if span is not None and span.last >= log.min_phy_offset else None


class IndexView(NamedTuple):
    """An index and its log as they were at one time.

    Attributes: reasons: why the index may lack messages. files: the index files that have entries of the log, newest
    first; None if they are remote, too many to be kept open, or in another format. file_times: their store times.
    """

    log: CommitLog
    key_index: KeyIndex | None
    reasons: list[str]
    files: list[IndexFile] | None
    file_times: FileTimes

    def group_files(self, times: tuple[int, int], n_keys: int) -> Iterator[Sequence[IndexPart]]:
        """Yield the parts of the index that a query must search, newest first.

        The parts of a group are open at the same time. They may be closed when the next group is yielded.
        Parameters: times: store times, epoch ms, both inclusive. n_keys: of the query.
        """
        if self.files is not None:
            yield self.file_times.choose(self.files, times, n_keys)
        elif self.key_index is not None:
            yield from ([file] for file in reversed(self.key_index.files) if overlaps(file, self.log))


class _Spans(dict[FileId, KeySpan]):
    """The parts of the log that index files cover, by file."""

    def __init__(self, spans: dict[FileId, KeySpan]) -> None:
        super().__init__(spans)
        self._firsts, self._lasts = np.array(list(spans.values()), np.int64).reshape(-1, 2).T
        self._names = [name for name, _ in spans]

    def names_around(self, phy_offset: int) -> list[str]:
        """Return the names of the files between whose first and last message a physical offset is.

        At most ``MOST_SEARCHED`` names are returned. Only copies of one file can have more.
        """
        is_around = (self._firsts <= phy_offset) & (phy_offset <= self._lasts)
        return [self._names[number] for number in np.flatnonzero(is_around)[:MOST_SEARCHED].tolist()]


class Coverage:
    """Which parts of a commit log an index covers. Answers are kept for later queries.

    Gaps between index files follow from their spans. ``IndexHoles`` finds the messages within a file's range that
    lack items.
    """

    def __init__(self, log: CommitLog, index: KeyIndex | None) -> None:
        self.log, self.index = log, index
        self._places: dict[tuple[Any, ...], int | None] = {}
        self._lasts: dict[int, Message] = {}  # the last messages of index files, by physical offset
        self._split: dict[FileId, bool] = {}  # by full file: whether its last message lacks items
        self._tagged: dict[FileId, int] = {}  # physical offset: the tags of messages before it are indexed
        self._untagged: dict[FileId, int] = {}  # physical offset: no message of the file before it has tags
        self._holes = IndexHoles(log)
        self._file_times = FileTimes(log)

    def look(self, index_type: str | None) -> IndexView:
        """Return a view of the index as it is now, for keys or for tags."""
        log, index = self.log, self.index
        log.refresh()
        reasons, files = self.reasons(index_type), None
        if isinstance(index, IndexService) and len(index.files) <= MAX_FILES and not is_remote(index.directory):
            files = [file for file in reversed(index.files) if overlaps(file, log)]
        return IndexView(log, index, reasons, files, self._file_times)

    def reasons(self, index_type: str | None) -> list[str]:
        """Return the reasons why the index may lack messages, for keys or for tags."""
        if self.index is None:
            return ["the store has no index"]
        with sparing_reads(self.log.directories[0]):
            return self._find_reasons(self.index, index_type)

    def _find_reasons(self, index: KeyIndex, index_type: str | None) -> list[str]:
        index.check_file_sizes()
        what = "tags" if index_type == "T" else "keys"
        files = index.files
        found = (((file.path.name, file.identity), span_in(file, self.log)) for file in files)
        spans = _Spans({file: span for file, span in found if span is not None})
        self._read_last_messages(span.last for span in spans.values())
        end = self._find_log_end()
        reasons = [str(error) for error in index.damaged.values()]
        reasons += [
            f"messages with {what} from offset {first} to {end} are not indexed"
            for begin, end in self._gaps(files, spans, end, index_type)
            if (first := self._place(first_indexable, begin, end, index_type)) is not None
        ]
        reasons += self._find_reached_end(files, spans, end, index_type)
        untagged: list[str] = []
        if index_type == "T":
            untagged = [name for name, _ in (file for file in spans if not self._has_tags(file, files, spans))]
        self._holes.compare(files, spans)
        reasons += [
            f"messages with {what} between the offsets {hole.first} and {hole.last} are not indexed"
            for file in spans
            if file[0] not in untagged and (hole := self._holes.hole(file, index_type)) is not None
        ]
        if len(untagged) == 1:
            reasons.append(f"{untagged[0]} lacks entries of tags")
        elif untagged:
            reasons.append(f"{len(untagged)} index files lack entries of tags, from {untagged[0]} on")
        return reasons

    def _find_log_end(self) -> int:
        """Return where the log ends. Of a remote log it is found with few reads."""
        return self.log.look().end if is_remote(self.log.directories[0]) else self.log.max_phy_offset

    def _read_last_messages(self, phy_offsets: Iterable[int]) -> None:
        """Read the last messages of index files that were not read yet, many at once, and keep them."""
        if len(self._lasts) > MAX_KEPT:
            self._lasts.clear()  # the newest file has another last message each time
        new = sorted({offset for offset in phy_offsets if offset not in self._lasts})
        if not new:
            return
        batch, statuses = self.log.find_messages(np.array(new, np.int64), columns=LAST_COLUMNS)
        rows = iter(batch)
        for offset, status in zip(new, statuses.tolist(), strict=True):
            if status == OK:
                self._lasts[offset] = next(rows)

    def _gaps(self, files: IndexParts, spans: _Spans, log_end: int, index_type: str | None) -> list[tuple[int, int]]:
        """Return the parts of the log between index files that may have messages without entries."""
        gaps, place = [], self.log.min_phy_offset
        firsts = [span.first for span in spans.values()][1:]
        for (file, span), following in zip_longest(spans.items(), firsts):
            gaps.append((place, span.first))
            # If the next file begins with the same message, the next file covers it.
            is_covered = span.last != following and (index_type == "T" or not self._is_split(file, files, spans))
            place = max(place, self._end_of(span.last) if is_covered else span.last)
        gaps.append((place, log_end))
        return [(begin, end) for begin, end in gaps if begin < end]

    def _end_of(self, phy_offset: int) -> int:
        """Return where the last message of an index file ends; an offset in its record if it cannot be read."""
        message = self._lasts.get(phy_offset)
        return phy_offset + (1 if message is None else message.size)

    def _find_reached_end(self, files: IndexParts, spans: _Spans, end: int, index_type: str | None) -> list[str]:
        """Return a reason if the index reaches behind the log's end, and the last message lacks its entries.

        A broker that cut its log adds no entries until the log has passed the old end.
        Source: IndexService.buildIndex, which returns early for a message before the end of the newest file.
        """
        reached = max((span.last for span in spans.values()), default=-1)
        last = self._place(last_indexable, self.log.min_phy_offset, end, index_type) if reached >= end else None
        message = None if last is None else self.log.find_message(last)
        if message is None:
            return []
        keys = [f"T#{message.tags}"] if index_type == "T" else keys_of(message)
        if self._has_entries(message, keys, files, spans):
            return []
        return [
            f"the index reaches to offset {reached}, behind the end of the log at {end}: new messages are not in it"
        ]

    def _is_split(self, file: FileId, files: IndexParts, spans: _Spans) -> bool:
        """Return whether the last message of a full file lacks entries: they were in the next file, which is lost."""
        if file not in self._split:
            part = files.find(file[0])
            is_full = part is not None and part.is_write_full
            message = self._lasts.get(spans[file].last) if is_full else None
            if message is None:
                return False
            self._split[file] = not self._has_entries(message, keys_of(message), files, spans)
        return self._split[file]

    def _place(
        self,
        find: Callable[[CommitLog, int, int, str | None], int | None],
        begin: int,
        end: int,
        index_type: str | None,
    ) -> int | None:
        """Find a message in a part of the log that should be in the index; the answer is cached."""
        place = find, begin, end, index_type
        if place not in self._places:
            if len(self._places) > MAX_KEPT:
                self._places.clear()  # each new end of the log makes new answers
            self._places[place] = find(self.log, begin, end, index_type)
        return self._places[place]

    def _has_tags(self, file: FileId, files: IndexParts, spans: _Spans) -> bool:
        """Return whether the first and the last message with tags in a file's part of the log have their entries.

        A release that adds no entries of tags may have continued the file of a release that does, or the reverse.
        """
        begin, end = self._tagged.get(file), spans[file].last + 1
        if begin is None:
            begin = self._first_with_tags(file, spans[file])
            if begin is None:
                return True
            if not self._has_tag(begin, files, spans):
                return False
        last = self._place(last_indexable, begin, end, "T")
        if last is not None and not self._has_tag(last, files, spans):
            return False  # the part without entries may grow
        self._tagged[file] = end
        return True

    def _first_with_tags(self, file: FileId, span: KeySpan) -> int | None:
        """Find the first message with tags in a file's part of the log, from where the last search ended."""
        begin = self._untagged.get(file, span.first)
        first = self._place(first_indexable, begin, span.last + 1, "T")
        self._untagged[file] = span.last if first is None else first
        return first

    def _has_tag(self, phy_offset: int, files: IndexParts, spans: _Spans) -> bool:
        message = self.log.find_message(phy_offset)
        return message is None or self._has_entries(message, [f"T#{message.tags}"], files, spans)

    def _has_entries(self, message: Message, keys: list[str], files: IndexParts, spans: _Spans) -> bool:
        """Return whether all keys of a message have their entries. The entries may be in several files."""
        at, lacking = message.phy_offset, set(hash_keys(keys, topic=message.topic).tolist())
        for name in spans.names_around(at):
            if lacking and (file := files.find(name)) is not None:
                lacking.difference_update(hashes_at(file, at))
        return not lacking


def keys_of(message: Message) -> list[str]:
    return [key for key in (message.uniq_key, *message.keys) if key is not None]


def first_indexable(log: CommitLog, begin: int, end: int, index_type: str | None) -> int | None:
    """Find the first message in a part of the log that should be in the index."""
    return next(indexable(log, begin, end, index_type), None)


def last_indexable(log: CommitLog, begin: int, end: int, index_type: str | None) -> int | None:
    """Find the last message that should be in the index."""
    for start, stop in ranges_from_end(begin, end, LAST_PART):
        found = deque(indexable(log, start, stop, index_type), 1)
        if found:
            return found[0]
    return None


def indexable(log: CommitLog, begin: int, end: int, index_type: str | None) -> Iterator[int]:
    """Yield the messages in a part of the log that have a key, or tags, and were not rolled back."""
    columns = ("phy_offset", "sys_flag", "keys", "uniq_key", "tags")
    for batch in log.scan(begin, end, columns=columns, on_corrupt="skip", batch_size=256):
        has_keys = (np.diff(batch.keys.offsets) > 0) | batch.uniq_key.is_valid
        keyed = batch.tags.is_valid if index_type == "T" else has_keys
        yield from batch.phy_offset[keyed & (batch.sys_flag & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK)].tolist()

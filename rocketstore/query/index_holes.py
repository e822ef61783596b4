"""Find messages within the range of an index file that lack items.

The broker had ``messageIndexEnable`` off for a while, or an older release, which indexes no tags, wrote in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rocketstore.index.key_lookup import IndexPart, IndexParts, KeySpan
from rocketstore.index.request_items import INDEXED_COLUMNS, find_items
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_reader import LOOK_BACK
from rocketstore.messages.message_batch import MessageBatch

FileId = tuple[str, object]  # name and identity of an index file
MAX_COMPARED = 32 << 20  # bytes of the log whose messages are all compared with the index, in one call
SAMPLES = 128  # places that are compared in one call, in all files whose part of the log is larger
SAMPLE = 1 << 16  # bytes of the log
READ_AT_ONCE = 16  # samples of a remote log
COMPARED, SAMPLED = 4096, 64  # messages that are compared at once, and in one sample


class Hole(NamedTuple):
    """The first and the last physical offset of messages that lack items."""

    first: int
    last: int


class IndexHoles:
    """Compares messages of the log with the items of index files. Each part of the log is compared once.

    All messages are compared if an index file covers at most 32 MiB of the log. Otherwise samples are compared, and a
    hole of less than 1/100 of the indexed part of the log may remain unnoticed. ``verify`` compares all messages.
    """

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self._compared: dict[FileId, int] = {}  # physical offset: the messages before it were compared
        self._holes: dict[tuple[FileId, bool], Hole] = {}  # by file, and whether items of tags are missing

    def compare(self, files: IndexParts, spans: Mapping[FileId, KeySpan]) -> None:
        """Compare the messages that are new since the last call."""
        new: list[tuple[int, int, FileId]] = []
        for file, span in spans.items():
            # Exclude the last message: its items may be in two files, and a broker may still be adding them.
            begin, end = self._compared.get(file, span.first), span.last
            if begin < end:
                new.append((max(begin, self.log.min_phy_offset), end, file))
            self._compared[file] = max(begin, end)
        rest = _without_overlaps(new)
        sampled = {file for file, (begin, end) in rest.items() if end - begin > MAX_COMPARED // len(rest)}
        for file, (begin, end) in rest.items():
            parts = _samples(begin, end, SAMPLES // len(sampled)) if file in sampled else [(begin, end)]
            for number, part in enumerate(parts):
                if file in sampled and number % READ_AT_ONCE == 0:
                    self._read_ahead(parts[number : number + READ_AT_ONCE])
                self._compare(file, _files_between(files, spans, *part), *part, is_sample=file in sampled)

    def _read_ahead(self, samples: Iterable[tuple[int, int]]) -> None:
        """Fetch samples of a remote log at the same time, with the bytes around them in which records are searched."""
        around = LOOK_BACK[0]
        self.log.file_run.read_parts_ahead([(max(begin - around, 0), end + around) for begin, end in samples])

    def hole(self, file: FileId, index_type: str | None) -> Hole | None:
        """Return which messages in a file's part of the log lack items of keys, or of tags; None if no item is missing.

        Parameters: index_type: "T" for tags.
        """
        return self._holes.get((file, index_type == "T"))

    def _compare(self, file: FileId, parts: list[IndexPart], begin: int, end: int, *, is_sample: bool) -> None:
        """Compare the messages between two physical offsets. Parameters: is_sample: only the first ones of them."""
        size = SAMPLED if is_sample else COMPARED
        for batch in self.log.scan(begin, end, columns=INDEXED_COLUMNS, on_corrupt="skip", batch_size=size):
            if len(batch):
                self._compare_batch(file, parts, batch)
            if is_sample:
                break

    def _compare_batch(self, file: FileId, parts: list[IndexPart], batch: MessageBatch) -> None:
        offsets = batch.phy_offset
        entries = [part.entries_between(int(offsets[0]), int(offsets[-1])) for part in parts]
        found = np.concatenate([np.empty(0, np.int64), *(_codes(offsets, *columns) for columns in entries)])
        of_keys, of_all = (_codes_of(batch, indexes_tags=indexes_tags) for indexes_tags in (False, True))
        of_tags = of_all[~np.isin(of_all, of_keys)]
        for is_tags, wanted in ((False, of_keys), (True, of_tags)):
            missing = offsets[wanted[~np.isin(wanted, found)] >> 32]
            if len(missing):
                first, last = int(missing.min()), int(missing.max())
                known = self._holes.get((file, is_tags), Hole(first, last))
                self._holes[file, is_tags] = Hole(min(first, known.first), max(last, known.last))


def _without_overlaps(spans: list[tuple[int, int, FileId]]) -> dict[FileId, tuple[int, int]]:
    """Return spans of the log by file, each without the part that an earlier span covers.

    A part of the log is compared with the items of all files. Copies of an index file have the same span.
    """
    rest: dict[FileId, tuple[int, int]] = {}
    covered = -1
    for begin, end, file in sorted(spans, key=lambda span: span[:2]):
        if max(begin, covered) < end:
            rest[file] = max(begin, covered), end
        covered = max(covered, end)
    return rest


def hashes_at(file: IndexPart, phy_offset: int) -> list[int]:
    """Return the hashes of a message's entries in a part of the index."""
    hashes: list[int] = file.entries_between(phy_offset, phy_offset)[1].tolist()
    return hashes


def _codes_of(batch: MessageBatch, *, indexes_tags: bool) -> np.ndarray:
    """Return the codes of the items that messages should have, int64[n]."""
    items = find_items(batch, int(batch.phy_offset[0]), indexes_tags=indexes_tags)
    return _codes(batch.phy_offset, items.phy_offsets, items.key_hashes.astype(np.int64))


def _codes(offsets: np.ndarray, phy_offsets: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Return one number for each item, int64[n]: the row of its message, and its hash.

    Parameters: offsets: of the messages. phy_offsets, hashes: of the items, int64[n]. Items that lead to no message
    are left out.
    """
    rows = np.minimum(offsets.searchsorted(phy_offsets), len(offsets) - 1)
    codes: np.ndarray = (rows << 32 | hashes)[offsets[rows] == phy_offsets]
    return codes


def _samples(begin: int, end: int, count: int) -> list[tuple[int, int]]:
    """Return the begin and end of samples at equal distances. They include the first and the last bytes of the part."""
    bounds = np.linspace(begin, max(begin, end - SAMPLE), max(count, 2)).astype(np.int64).tolist()
    return [(at, min(at + SAMPLE, following)) for at, following in pairwise([*bounds, end])]


def _files_between(files: IndexParts, spans: Mapping[FileId, KeySpan], begin: int, end: int) -> list[IndexPart]:
    """Return the files that may have items of messages between two physical offsets."""
    names = [name for (name, _), span in spans.items() if span.first <= end and begin <= span.last]
    return [file for name in names if (file := files.find(name)) is not None]

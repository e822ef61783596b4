"""Find the messages of keys by the index: on the driver for a local store, in tasks for a remote one.

A lookup reads a whole index file, of 420 MB by default. So the driver of a remote store reads only the headers of the
index files, and each task looks the keys up in some of them. If the files of a task may lack items, the task reads its
part of the log completely.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from rocketstore.dataset.dataset_reader import MAX_SCAN, find_phy_offsets
from rocketstore.disk.storage import is_remote
from rocketstore.errors import CorruptFileError, StoreError, UnsupportedFormatError
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_file_list import IndexFileList, ListedIndexFile
from rocketstore.index.index_header import IndexHeader
from rocketstore.index.key_lookup import KeySpan
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_chunk import LogChunk
from rocketstore.log.log_end import LogView
from rocketstore.log.record_heads import read_sizes
from rocketstore.log.scan import RowChoice
from rocketstore.query.coverage import IndexView
from rocketstore.query.file_times import FileTimes
from rocketstore.query.index_holes import IndexHoles
from rocketstore.query.query_messages import query_messages
from rocketstore.spark.source.index_files import IndexFilePlan, plan_index_files
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.plan import Range
from rocketstore.store.message_store import MessageStore

NEAR = 1 << 20  # bytes; records at a smaller distance are read in one range, with the records between them
RANGES = 1024  # of messages that one task reads by their offsets


@dataclass
class KeysPart(InputPartition):  # type: ignore[misc]
    """A part of the log of a remote store, in which a task finds the messages of keys by the index.

    Attributes: log: the files of the part. index: the index files with items of its messages, oldest first. spans: the
    messages with items in each of these files. starting, rows: as of ``LogPart``.
    """

    log: LogChunk
    index: Sequence[IndexFilePlan]
    spans: Sequence[KeySpan]
    starting: dict[str, Any] = field(default_factory=dict)
    rows: RowChoice | None = None


class CoveredRange(NamedTuple):
    """A range of the log, and the index files that have items of its messages; no files: the index does not cover it.

    Attributes: begin, end: physical offsets where records begin. files, spans: as of ``KeysPart``.
    """

    begin: int
    end: int
    files: Sequence[IndexFilePlan] = ()
    spans: Sequence[KeySpan] = ()


# ---- on the driver ---------------------------------------------------------------------------------------


def find_keys(store: MessageStore, options: ReadOptions, begin: int, end: int) -> list[list[Range]] | None:
    """Find the messages with the selected keys by the index. Return the ranges that each task reads.

    Return None if the index may be incomplete, if the options do not name the topics, or if the store is remote.
    """
    if options.keys is None or options.topics is None or are_keys_found_in_tasks(store):
        return None
    offsets = find_phy_offsets(store, options.topics, list(options.keys), containers=options.containers)
    if offsets is None:
        return None
    ranges = join_near([offset for offset in offsets.tolist() if begin <= offset < end])
    most = min(RANGES, max(-(-len(ranges) // options.min_partitions), 1))
    return [ranges[at : at + most] for at in range(0, len(ranges), most)]


def are_keys_found_in_tasks(store: MessageStore) -> bool:
    """Return whether tasks look keys up: in a remote store.

    The exception is DLedger's log: it has bytes between its records, so the end of a record is not the begin of the
    next one.
    """
    return is_remote(store.path) and not store.commit_log.reader.framing


def join_near(offsets: Sequence[int]) -> list[Range]:
    """Return ranges with the records at physical offsets, which ascend."""
    ranges: list[Range] = []
    for offset in offsets:
        if ranges and offset - ranges[-1][1] < NEAR:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges


def plan_keys(
    store: MessageStore, options: ReadOptions, view: LogView, begin: int, end: int
) -> list[KeysPart | Range] | None:
    """Plan the lookup of keys in a remote store. Return parts with index files, and ranges that no index file covers.

    Return None if the log must be read completely, because there is no index, or if the options do not name the topics.
    """
    if options.keys is None or options.topics is None or not are_keys_found_in_tasks(store):
        return None
    if not options.containers and store.may_have_inner_batches(options.topics):
        return None  # no index has the keys of messages in inner batches
    try:
        files = plan_index_files(store)
    except (CorruptFileError, UnsupportedFormatError, ValueError):
        return None
    log = store.commit_log
    parts: list[KeysPart | Range] = []
    for covered in find_covered(log, files, view.records_end):
        first, stop = max(covered.begin, begin), min(covered.end, end)
        if first >= stop:
            continue
        if covered.files:
            chunk = LogChunk.of(log, first, stop, whole_to=stop, view=view)
            parts.append(KeysPart(chunk, covered.files, covered.spans))
        else:
            parts.append((first, stop))
    return parts if any(isinstance(part, KeysPart) for part in parts) else None


def find_covered(
    log: CommitLog, files: Sequence[tuple[IndexFilePlan, IndexHeader]], end: int
) -> Iterator[CoveredRange]:
    """Split the log from its begin to ``end`` by the index files that cover it.

    The ranges do not overlap: index files that have items of the same messages are in one range.
    """
    place = log.min_phy_offset
    for group in join_overlapping(find_covered_files(log, files, end)):
        begin = max(group.begin, place)
        if place < begin:
            yield CoveredRange(place, begin)
        place = max(group.end, begin)
        yield group._replace(begin=begin, end=place)
    if place < end:
        yield CoveredRange(place, end)


def find_covered_files(
    log: CommitLog, files: Sequence[tuple[IndexFilePlan, IndexHeader]], end: int
) -> list[CoveredRange]:
    """Return the range of each index file, from its first to the end of its last message, in the order of the log.

    Only the heads of the first and of the last message are read. A file is left out if one of them is no record, or if
    it reaches behind the end of the log: a broker that cut its log adds no items before the log has passed its old end.
    Source: IndexService.buildIndex.
    """
    least = log.min_phy_offset
    spans = [
        (KeySpan(header.begin_phy_offset, header.end_phy_offset), plan)
        for plan, header in files
        if header.index_count > 1 and header.begin_phy_offset <= header.end_phy_offset
    ]
    spans = sorted((pair for pair in spans if least <= pair[0].last < end), key=lambda pair: pair[0])
    ends = find_record_ends(log, {span.last for span, _ in spans})
    known = {least, *ends.values()}  # most files begin where the file before them ends
    begins = known | set(find_record_ends(log, {span.first for span, _ in spans if span.first > least} - known))
    return [
        CoveredRange(span.first, ends[span.last], (plan,), (span,))
        for span, plan in spans
        if span.last in ends and (span.first <= least or span.first in begins)
    ]


def join_overlapping(ranges: Sequence[CoveredRange]) -> list[CoveredRange]:
    """Join the ranges of index files that have items of the same messages."""
    joined: list[CoveredRange] = []
    for found in ranges:
        last = joined[-1] if joined else None
        if last is not None and found.begin < last.spans[-1].last:
            end = max(last.end, found.end)
            joined[-1] = CoveredRange(last.begin, end, (*last.files, *found.files), (*last.spans, *found.spans))
        else:
            joined.append(found)
    return joined


def find_record_ends(log: CommitLog, phy_offsets: Collection[int]) -> dict[int, int]:
    """Return where the records at physical offsets end. An offset without the head of a record is left out."""
    places = sorted(phy_offsets)
    sizes = zip(places, read_sizes(log.file_run, places), strict=True)
    return {place: place + size for place, size in sizes if size is not None}


# ---- in tasks --------------------------------------------------------------------------------------------


def find_ranges(options: ReadOptions, part: KeysPart, log: CommitLog) -> list[Range] | None:
    """Return the ranges of a part that may have messages of the keys; None if its index files may lack items."""
    try:
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(plan.open()) for plan in part.index]
            offsets = find_in_files(options, log, files, part.spans)
    except (OSError, StoreError, ValueError):  # a file is damaged, or was deleted after the query was planned
        return None
    if offsets is None:
        return None
    # The items of the last message of a file may be in the next file, which may be lost: read the message itself.
    offsets |= {span.last for span in part.spans}
    return join_near(sorted(offset for offset in offsets if part.log.begin <= offset < part.log.end))


def find_in_files(
    options: ReadOptions, log: CommitLog, files: Sequence[IndexFile], spans: Sequence[KeySpan]
) -> set[int] | None:
    """Return the physical offsets of the messages with the keys; None if the files may lack items of their messages."""
    listed = [ListedIndexFile(file.path, file.identity, file) for file in files]
    open_files = IndexFileList(listed, lambda entry: files[listed.index(entry)])
    spans_by_file = {(file.path.name, file.identity): span for file, span in zip(files, spans, strict=True)}
    holes = IndexHoles(log)
    holes.compare(open_files, spans_by_file)
    if any(holes.hole(file, None) is not None for file in spans_by_file):
        return None
    view = IndexView(log, None, [], list(reversed(files)), FileTimes(log))
    found: set[int] = set()
    for topic in options.topics or ():
        keys = list(options.keys or ())
        answer = query_messages(view, topic, keys, LONG_MAX, LONG_MIN, LONG_MAX, None, MAX_SCAN, 1)
        if not answer.complete.all():
            return None
        found.update(answer.phy_offsets.tolist())
    return found

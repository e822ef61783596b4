"""DatasetReader: the messages within bounds, from the index if a key is bound, else by a scan of the log."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

import numpy as np

from rocketstore.dataset.bounds import Bounds, is_impossible, scan_conditions
from rocketstore.errors import CorruptFileError, UnsupportedFormatError, text_of
from rocketstore.index.index_service import IndexService
from rocketstore.kernels.message_columns import Field, batch_name, lazy_fields
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_reader import MAX_BATCH_BYTES
from rocketstore.log.scan import Scan
from rocketstore.messages.arguments import text_list
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.body_text import UTF8
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.progress import Progress
from rocketstore.query.coverage import Coverage
from rocketstore.query.query_messages import query_messages
from rocketstore.text_values import Time, Zone, datetime_or_none, find_time_zone, ms_or_none

MAX_SCAN = 1 << 40  # items of the index: more than an index can have
ROWS_AT_ONCE = 16384  # messages in a batch of a scan at most
THREADS = min(os.cpu_count() or 1, 8)  # each holds the messages of some 32 MiB of the log


class BoundedReader(Protocol):
    """Reads the messages of a dataset, of one store or of several."""

    def fields_of(self, columns: str | Iterable[str] | None) -> dict[str, Field]:
        """Return the fields of a table. Parameters: columns: as for ``lazy_fields``. Raises: ValueError."""

    def describe(self) -> str:
        """Return a text about what is read, for a repr."""

    def read(
        self, bounds: Bounds, names: Iterable[str], *, threads: int = 1, batch_size: int = ...
    ) -> Iterator[MessageBatch]:
        """Yield all messages within the bounds. ``DatasetReader.read`` has the documentation."""

    def explain(self, bounds: Bounds) -> str | None:
        """Return why no message is within the bounds; None if a message is."""


class KeyedStore(Protocol):
    """The parts of a ``MessageStore`` that a dataset reads."""

    @property
    def commit_log(self) -> CommitLog: ...

    @property
    def index(self) -> IndexService | None: ...

    @property
    def coverage(self) -> Coverage: ...

    def may_have_inner_batches(self, topics: Iterable[str]) -> bool:
        """Return whether messages of topics may be in inner batches."""

    @property
    def reads_other_logs(self) -> bool:
        """Whether scans also read compacted topics or tiered storage."""

    @property
    def compacted(self) -> bool:
        """Whether scans give the messages that consumers of compacted topics get."""

    @property
    def scan(self) -> Callable[..., Scan]:
        """Reads messages. Parameters: as for ``CommitLog.scan``."""

    @property
    def scan_log(self) -> Callable[..., Scan]:
        """Reads messages of the commit log alone. Parameters: as for ``CommitLog.scan``."""


@dataclass(frozen=True)
class Conditions:
    """The conditions that all messages of a dataset meet, whatever a query asks.

    Attributes: topics, tags, keys: as ``topic``, ``tag`` and ``key`` of ``CommitLog.scan``. begin, end: store times,
    epoch ms; end is exclusive. limit: the number of messages, the first in the order of the log. None: no condition.
    """

    topics: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    begin: int | None = None
    end: int | None = None
    limit: int | None = None

    @classmethod
    def of(
        cls,
        topic: str | Iterable[str] | None,
        tag: str | Iterable[str] | None,
        key: str | Iterable[str] | None,
        since: Time | None,
        until: Time | None,
        limit: int | None,
        tz: Zone = "UTC",
    ) -> Self:
        """Return the conditions of arguments. Raises: TypeError, ValueError."""
        zone = find_time_zone(tz)
        begin = ms_or_none(since, "since", zone)
        end = ms_or_none(until, "until", zone)
        if limit is not None and limit < 0:
            raise ValueError(f"limit={limit} is negative")
        return cls(_texts(topic, "topic"), _texts(tag, "tag"), _texts(key, "key"), begin, end, limit)

    def joined(self, conditions: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a scan of the messages that meet these and other conditions, and perhaps more.

        Parameters: conditions: of a scan. All messages of the result meet the conditions of this object.
        """
        joined = dict(conditions)
        if self.topics is not None:
            others = conditions.get("topic", self.topics)
            joined["topic"] = [topic for topic in self.topics if topic in others]
        if self.tags is not None:
            joined["tag"] = self.tags
        if self.keys is not None:
            joined["key"] = self.keys
        if self.begin is not None:
            joined["since"] = _as_time(max(self.begin, conditions.get("since", self.begin)))
        if self.end is not None:
            joined["until"] = _as_time(min(self.end, conditions.get("until", self.end)))
        if self.limit is not None:
            joined["limit"] = self.limit
        return joined


def _texts(value: str | Iterable[str] | None, name: str) -> tuple[str, ...] | None:
    texts = text_list(value, name)
    return None if texts is None else tuple(texts)


def _as_time(timestamp: int) -> Time:
    """Return a time as an argument of a scan, which refuses a number that looks like seconds."""
    when = datetime_or_none(timestamp)
    return timestamp if when is None else when


@dataclass(frozen=True)
class DatasetReader:
    """Reads the messages of a store within bounds.

    Attributes: conditions: of all messages. on_corrupt, charset, progress: as for ``CommitLog.scan``. verify_crc:
    compare bodies with their CRC. A body that does not match is null, and ``body_error`` says so. containers: read the
    records of inner batches in place of the messages in them.
    """

    store: KeyedStore
    conditions: Conditions = field(default_factory=Conditions)
    on_corrupt: Literal["raise", "skip"] = "raise"
    charset: str = UTF8
    verify_crc: bool = True
    progress: Progress = False
    containers: bool = False

    def fields_of(self, columns: str | Iterable[str] | None) -> dict[str, Field]:
        """Return the fields of a table. Parameters: columns: as for ``lazy_fields``. Raises: ValueError."""
        return lazy_fields(columns)

    def describe(self) -> str:
        """Return the first line of the repr of the store, without the table of topics."""
        return repr(self.store).partition("\n")[0]

    def read(
        self, bounds: Bounds, names: Iterable[str], *, threads: int = 1, batch_size: int = ROWS_AT_ONCE
    ) -> Iterator[MessageBatch]:
        """Yield all messages within the bounds, and perhaps others, in the order of the log.

        Parameters: names: of columns, in tables or in batches. threads, batch_size: as for ``CommitLog.scan``.
        Raises: as a scan; errors of reading come with the batches.
        """
        columns = [*map(batch_name, names)]
        if is_impossible(bounds):
            return
        own = self.conditions
        conditions = self._conditions_within(bounds)
        offsets = None
        has_keys = "key" in conditions and "topic" in conditions
        if has_keys and own.tags is None and own.limit is None and not self.store.reads_other_logs:
            end = LONG_MAX if own.end is None else own.end - 1
            times = LONG_MIN if own.begin is None else own.begin, end
            topics, keys = conditions["topic"], list(conditions["key"])
            offsets = find_phy_offsets(self.store, topics, keys, times, containers=self.containers)
        if offsets is not None:
            begin, end = conditions.get("begin_offset", 0), conditions.get("end_offset", LONG_MAX)
            yield from self._read_at(offsets[(begin <= offsets) & (offsets < end)], columns)
            return
        scan = self._scan(conditions, columns=columns, threads=threads, batch_size=batch_size)
        yield from scan
        for part in scan.skipped:
            warnings.warn(f"{text_of(part.error)}: offsets {part.begin} to {part.end} are left out", stacklevel=2)

    def explain(self, bounds: Bounds) -> str | None:
        """Return why no message is within the bounds; None if a message is. Raises: as a scan."""
        if is_impossible(bounds):
            return "no message can meet all conditions of the filter"
        return self._scan(self._conditions_within(bounds), columns=["phy_offset"]).why

    def _conditions_within(self, bounds: Bounds) -> dict[str, Any]:
        """Return the conditions of a scan of all messages within the bounds, and perhaps of others."""
        # If there is a limit, the query is about the first messages, so that bounds must not choose them.
        conditions = self.conditions.joined({} if self.conditions.limit is not None else scan_conditions(bounds))
        if self.store.compacted:  # compacted logs have physical offsets of their own
            conditions.pop("begin_offset", None)
            conditions.pop("end_offset", None)
        return conditions

    def _scan(self, conditions: dict[str, Any], **reading: Any) -> Scan:
        """Return a scan. Parameters: conditions: choose messages. reading: other arguments of a scan."""
        read = self.store.scan if self.store.reads_other_logs else self.store.scan_log
        options: dict[str, Any] = {"on_corrupt": self.on_corrupt, "charset": self.charset, "progress": self.progress}
        options |= {"verify_crc": None if self.verify_crc else False, "containers": self.containers}
        return read(**conditions, **options, **reading).adapted(marks_crc=True)

    def _read_at(self, offsets: np.ndarray, columns: list[str]) -> Iterator[MessageBatch]:
        """Yield the messages at physical offsets, in batches of records that are not much larger than a scan's."""
        log, bad_bodies = self.store.commit_log, BadBodies()
        if not len(offsets):
            return
        sizes, statuses = log.find_messages(offsets, columns=["size"])
        lost = offsets[statuses != 0]
        lost = lost[lost >= log.min_phy_offset]  # the others have expired since the index was read
        if len(lost) and self.on_corrupt == "raise":
            log.get_messages(lost[:1], columns=["size"])  # raises the error of that record
        offsets = offsets[statuses == 0]
        parts = np.cumsum(sizes.size, dtype=np.int64) // MAX_BATCH_BYTES
        for part in np.split(offsets, np.flatnonzero(np.diff(parts)) + 1):
            found = log.find_messages(part, columns=columns, charset=self.charset, marks_crc=self.verify_crc)
            batch = found[0]
            yield from log.reader.with_bodies(batch, MAX_BATCH_BYTES, bad_bodies)
        bad_bodies.warn()


def find_phy_offsets(
    store: KeyedStore,
    topics: Collection[str],
    keys: list[str],
    times: tuple[int, int] = (LONG_MIN, LONG_MAX),
    *,
    containers: bool,
) -> np.ndarray | None:
    """Find the physical offsets, int64[n], ascending, of all messages of topics with one of these keys by the index.

    Parameters: times: the first and the last store time, epoch ms. containers: the records of inner batches are
    messages, not the messages in them, whose keys no index has.
    Return None if the index is missing, cannot be read, or may lack messages.
    """
    try:
        if store.index is None or (not containers and store.may_have_inner_batches(topics)):
            return None
    except (CorruptFileError, UnsupportedFormatError, ValueError):
        return None
    offsets = [np.empty(0, np.int64)]
    for topic in topics:
        found = query_messages(store.coverage.look(None), topic, keys, LONG_MAX, *times, None, MAX_SCAN, 1)
        if not found.complete.all():
            return None
        offsets.append(found.phy_offsets)
    return np.unique(np.concatenate(offsets))

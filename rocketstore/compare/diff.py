"""diff: compare two stores, and report what differs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator

from rocketstore.compare.broker_tables import compare_tables
from rocketstore.compare.differences import INDEX, LOG, Difference, Differences, DiffReport, LogRange, name_queue
from rocketstore.compare.index_entries import EntryComparison, KeyComparison
from rocketstore.compare.log_bytes import LogComparison, ViewedLog
from rocketstore.compare.queue_messages import MessagePairs
from rocketstore.compare.queue_units import OpenedQueue, QueueComparison, UnitPairs
from rocketstore.config import StoreConfig
from rocketstore.disk.ranges import Range, intersect_ranges
from rocketstore.disk.store_path import StorePath
from rocketstore.index.key_lookup import KeyIndex
from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.arguments import text_list
from rocketstore.progress import Progress, Report, report_nothing, show_progress
from rocketstore.state.topic_files import contents_of_topics
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import require_known_topics
from rocketstore.survey.broker_config import open_tables


def diff(
    a: str | os.PathLike[str] | StorePath,
    b: str | os.PathLike[str] | StorePath,
    *,
    by_content: bool = False,
    topic: str | Iterable[str] | None = None,
    config: StoreConfig | None = None,
    config_b: StoreConfig | None = None,
    tiered: bool = False,
    progress: Progress = False,
) -> DiffReport:
    """Compare two stores: master and slave, before and after a repair, original and copy. Both are only read.

    Compared are the bytes of the logs up to their last records, the units of all queues, the entries of the indexes by
    which they answer queries, topics, consumer groups, and the offsets of consumers and delay levels. Files that differ
    without an effect on these are the same: sizes and names of files of queues and index, the order in chains, the
    checkpoint, and counters of changes in the configuration. No part is kept in memory as a whole.

    Parameters
    ----------
    a, b : the roots of the stores, as for ``open``. A broker may write them. Of a growing store the part is compared
        that it had when it was opened.
    by_content : compare messages, queue by queue and by queue offset, instead of physical offsets: for stores whose
        physical offsets differ, because one was converted, rebuilt from a part, or has another format. Sizes, message
        ids, offsets of prepared transactions and CRC properties follow from physical offsets, and may differ. A body is
        compared by its bytes, or, where only one store compresses it, by the computed CRC of the decompressed body.
        Of the index, keys of messages are compared, not tags. Records without a unit in a queue are not compared.
    topic : one or several: compare only queues, topics and consumer offsets of these, and the groups that consume them.
        Logs are not compared then, and of the index only with ``by_content`` the keys of these messages.
    config, config_b : the settings of A and of B, as for ``open``; by default those that their files show.
    tiered : also read messages that are only in tiered storage, of both stores.
    progress : True shows a bar on standard error. A function is called with the bytes of the logs, or the
        messages of queues, that were compared, and all of them.

    Returns
    -------
    DiffReport. A part that cannot be read is the difference "not-compared".

    Raises
    ------
    StoreError : ``a`` or ``b`` is no store, or neither store has a topic of ``topic``. OSError.

    Examples:
    >>> rocketstore.diff("demo", "demo").same
    True
    """
    topics = text_list(topic, "topic")
    with contextlib.ExitStack() as stack:
        stores = [
            stack.enter_context(MessageStore.of_entry("diff", path, given, tiered=tiered))
            for path, given in ((a, config), (b, config_b))
        ]
        require_known_topics(stores, topics or ())
        with show_progress(progress, "diff") as shown:
            return StoreComparison(stores[0], stores[1], topics, by_content=by_content).run(shown)


def compare_copy(
    a: MessageStore, b: MessageStore, begin: int, end: int, topics: Collection[str] | None = None
) -> DiffReport:
    """Compare the messages at a range of physical offsets of a store and its copy, but not the configuration.

    A store that a broker writes may have more messages, and may have deleted old ones.

    Parameters: begin, end: bytes. topics: those that the copy has; None for all.
    """
    begin = max(begin, a.commit_log.min_phy_offset)
    return StoreComparison(a, b, topics, by_content=topics is not None, phy_range=(begin, end)).run(report_nothing)


class StoreComparison:
    """One comparison of two stores."""

    def __init__(
        self,
        a: MessageStore,
        b: MessageStore,
        topics: Collection[str] | None,
        *,
        by_content: bool,
        phy_range: Range | None = None,
    ) -> None:
        """Parameters: phy_range: physical offsets: compare only messages there, and no configuration; None for all."""
        self.a, self.b, self.topics, self.by_content, self.phy_range = a, b, topics, by_content, phy_range
        self.differences = Differences()

    def run(self, report: Report) -> DiffReport:
        """Compare all parts that were asked for."""
        ranges: list[LogRange] = []
        sizes: dict[str, int] = {}
        if not self.by_content and self.topics is None:
            with self.differences.noting_errors(LOG):
                ranges, sizes = self._compare_logs(report)
        messages = self._compare_queues(report)
        if self.phy_range is None:
            with self.differences.noting_errors("config"):
                self._compare_config()
        found = self.differences
        return DiffReport(
            self.a.path, self.b.path, found.listed(), found.counted(), tuple(ranges), sizes, messages, self.by_content
        )

    def _compare_logs(self, report: Report) -> tuple[list[LogRange], dict[str, int]]:
        """Compare logs and indexes by physical offset."""
        logs = ViewedLog(self.a.commit_log, self.phy_range), ViewedLog(self.b.commit_log, self.phy_range)
        comparison = LogComparison(*logs, self.differences)
        common = intersect_ranges(logs[0].ranges, logs[1].ranges)
        done, total = 0, sum(end - begin for begin, end in common)
        for size in comparison.run():
            done += size
            report(done, total)
        with self.differences.noting_errors(INDEX):
            indexes = self._find_indexes()
            entries = EntryComparison(self.a.commit_log, indexes[0], self.b.commit_log, indexes[1])
            entries.compare(common, self.differences)
        return comparison.ranges, comparison.sizes

    def _find_indexes(self) -> tuple[KeyIndex | None, KeyIndex | None]:
        """Return the indexes. Their damaged files are reported, and left out."""
        found = []
        for store in (self.a, self.b):
            index = store.key_index
            for error in () if index is None else index.damaged.values():
                self.differences.add(Difference("not-compared", str(error.path), a=str(error)))
            found.append(index)
        return found[0], found[1]

    # ---- queues --------------------------------------------------------------------------------------------

    def _compare_queues(self, report: Report) -> int:
        """Compare all queues. Return how many messages both stores have in their queues."""
        keys = None
        if self.by_content:
            with self.differences.noting_errors(INDEX):
                keys = KeyComparison(*self._find_indexes())
        pairs = MessagePairs(keys) if self.by_content else UnitPairs(self.a, self.b)
        comparison = QueueComparison(self.differences, pairs)
        with self.differences.noting_errors("queues"):
            names = sorted({*self._chosen(self.a), *self._chosen(self.b)})
            for done, queue_id in enumerate(names):
                self._compare_queue(queue_id, comparison)
                if self.by_content or self.topics is not None:
                    report(done + 1, len(names))
        if keys is not None:
            keys.report(self.differences)
        return comparison.messages

    def _chosen(self, store: MessageStore) -> Iterator[QueueId]:
        """Yield the ids of the queues that are compared."""
        return (queue for queue in store.queues() if self.topics is None or queue.topic in self.topics)

    def _compare_queue(self, queue_id: QueueId, comparison: QueueComparison) -> None:
        """Compare a queue, and of a compacted topic also the queue from which consumers are served."""
        name = name_queue(queue_id)
        with self.differences.noting_errors(name):
            found = [find_log_queue(store, queue_id, self.phy_range) for store in (self.a, self.b)]
            comparison.compare(queue_id, name, *found)
        if self.phy_range is not None:
            return
        with self.differences.noting_errors(f"{name}, compacted"):
            compacted = [find_compacted_queue(store, queue_id) for store in (self.a, self.b)]
            if compacted != [None, None]:
                comparison.compare(queue_id, f"{name}, compacted", *compacted)

    def _compare_config(self) -> None:
        """Compare topics, groups and offsets."""
        a, b = (open_tables(store.places, store.config).read_all() for store in (self.a, self.b))
        if self.topics is not None:
            a, b = (contents_of_topics(contents, self.topics) for contents in (a, b))
        compare_tables(a, b, self.differences)


def find_log_queue(store: MessageStore, queue_id: QueueId, phy_range: Range | None) -> OpenedQueue | None:
    """Open the queue of all messages, with its messages in tiered storage if these are read; None without one."""
    with contextlib.suppress(KeyError):
        queue = store.consume_queue(*queue_id) if store.tiered else store.log_queue(*queue_id)
        return OpenedQueue(store, queue, phy_range)
    return None


def find_compacted_queue(store: MessageStore, queue_id: QueueId) -> OpenedQueue | None:
    """Open the queue of a compacted topic from which consumers are served; None without one."""
    with contextlib.suppress(KeyError):
        queue = store.consume_queue(*queue_id)
        return OpenedQueue(store, queue) if queue.is_compacted else None
    return None

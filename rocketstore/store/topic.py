"""Topic: the messages of one topic in a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, TypedDict, Unpack

from rocketstore.index.index_service import IndexType
from rocketstore.keywords import suggests_keywords
from rocketstore.log.scan import Scan
from rocketstore.made_by import made_by
from rocketstore.messages.message import Message
from rocketstore.preview import Preview, Previewed
from rocketstore.progress import Progress
from rocketstore.query.query_messages import QueryMessageResult
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.store.overview.topic_tables import preview_topic, read_times
from rocketstore.store.readable_store import ReadableStore
from rocketstore.text_values import Time, Zone, format_count


class ScanOptions(TypedDict, total=False):
    """The options of ``CommitLog.scan``, without the topic."""

    columns: str | Iterable[str] | None
    queue_ids: int | Iterable[int] | None
    tag: str | Iterable[str] | None
    key: str | Iterable[str] | None
    since: Time | None
    until: Time | None
    tz: Zone
    verify_crc: bool | None
    on_corrupt: Literal["raise", "skip"]
    batch_size: int
    threads: int
    limit: int | None
    plan: Literal["auto", "scan"]
    charset: str
    progress: Progress


@made_by("store[name]")
class Topic(Previewed):
    """A topic of a store. ``store["Orders"]`` makes it.

    Its length is the number of messages in its queues. An iteration yields its messages in the order of the log.
    Attributes: store; name.

    Examples:
    >>> orders = rocketstore.open("demo")["Orders"]
    >>> len(orders), orders.scan(tag="paid").count(), len(orders.query("order-7"))
    (100, 50, 1)
    """

    def __init__(self, store: ReadableStore, name: str) -> None:
        self.store = store
        self.name = name

    @property
    def queues(self) -> dict[int, StoredQueue]:
        """The queues by queue id. Raises: UnsupportedFormatError if the queues are in RocksDB."""
        return {queue_id: self.store.consume_queue(self.name, queue_id) for queue_id in self.store.queue_ids(self.name)}

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def __iter__(self) -> Iterator[Message]:
        for batch in self.scan():
            yield from batch

    def scan(
        self, begin_offset: int | None = None, end_offset: int | None = None, **options: Unpack[ScanOptions]
    ) -> Scan:
        """Read the messages of this topic. Parameters, returns, raises: as ``MessageStore.scan``."""
        return self.store.scan(begin_offset, end_offset, topic=[self.name], **options)

    @suggests_keywords
    def query(
        self,
        key: str,
        limit: int | None = None,
        *,
        index_type: IndexType | None = None,
        verify_crc: bool = True,
    ) -> QueryMessageResult:
        """Find the messages of a key, newest first. Parameters, returns, raises: as ``MessageStore.query_message``."""
        return self.store.query_message(self.name, key, limit, index_type=index_type, verify_crc=verify_crc)

    @property
    def time_range(self) -> tuple[datetime, datetime] | None:
        """The store times of the oldest and the newest message in the queues, in UTC. None without a message.

        It compares the first and the last message of each queue. Times beyond the year 9999 are ignored.
        """
        times = [time for queue in self.queues.values() for time in read_times(self.store, queue)]
        return (min(times), max(times)) if times else None

    def _preview(self) -> Preview:
        found = self.time_range
        times = "" if found is None else ", {:%Y-%m-%d %H:%M:%S} to {:%Y-%m-%d %H:%M:%S} UTC".format(*found)
        counts = f"{format_count(len(self.queues), 'queue')}, {format_count(len(self), 'message')}"
        title = f"Topic {self.name!r}: {counts}{times}"
        return preview_topic(self.store, self.name, title)

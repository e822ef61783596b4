"""Topic: the messages of one topic in a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Unpack

from rocketstore.index.index_service import IndexType
from rocketstore.keywords import suggests_keywords
from rocketstore.log.scan import Scan
from rocketstore.made_by import made_by
from rocketstore.messages.message import Message
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview, Previewed
from rocketstore.query.query_messages import QueryMessageResult
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.store.message_tables import MessageTables, ScanOptions
from rocketstore.store.overview.lag import ConsumerLag
from rocketstore.store.overview.topic_tables import preview_topic, read_times
from rocketstore.store.readable_store import ReadableStore
from rocketstore.text_values import Zone, format_count

if TYPE_CHECKING:
    from rocketstore.sql.statement import SqlResult
    from rocketstore.store.usage.message_usage import MessageUsage


@made_by("store[name]")
class Topic(MessageTables, Previewed):
    """A topic of a store. ``store["Orders"]`` makes it.

    Its length is the number of messages in its queues. An iteration yields its messages in the order of the log.
    Attributes: store; name.

    Examples:
    >>> orders = rocketstore.open("demo")["Orders"]
    >>> len(orders), orders.scan(tag="paid").count(), len(orders.query("order-7"))
    (100, 50, 1)
    """

    _word = "topic"

    def __init__(self, store: ReadableStore, name: str) -> None:
        self.store = store
        self.name = name

    @property
    def queues(self) -> dict[int, StoredQueue]:
        """The queues by queue id. Raises: UnsupportedFormatError if the queues are in RocksDB."""
        return {queue_id: self.store.consume_queue(self.name, queue_id) for queue_id in self.store.queue_ids(self.name)}

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def __getitem__(self, queue_id: object) -> NoReturn:
        """Raise TypeError, which names the call that reads messages by queue offset."""
        raise TypeError(
            f"a topic has no items: store.get_message({self.name!r}, {queue_id!r}, OFFSET) reads messages of a queue, "
            "and head(), tail() and scan() those of the topic"
        )

    def __iter__(self) -> Iterator[Message]:
        for batch in self.scan():
            yield from batch

    def scan(
        self, begin_offset: int | None = None, end_offset: int | None = None, **options: Unpack[ScanOptions]
    ) -> Scan:
        """Read the messages of this topic. Parameters, returns, raises: as ``MessageStore.scan``."""
        return self.store.scan(begin_offset, end_offset, topic=[self.name], **options)

    def _scan_for_caller(self, options: dict[str, Any]) -> Scan:
        return self.scan(**options)

    def count(self, **options: Unpack[ScanOptions]) -> int:
        """Return the number of messages in the log that meet all conditions. Parameters, raises: as ``scan``.

        ``len(topic)`` is the number of messages in the queues, which is faster.
        """
        return self.scan(**options).count()

    def sql(
        self,
        statement: str,
        *,
        tables: Mapping[str, Any] | None = None,
        files: bool = False,
        on_corrupt: Literal["raise", "skip"] = "raise",
        tz: Zone = "UTC",
        verify_crc: bool = True,
        containers: bool = False,
    ) -> SqlResult:
        """Return the rows that a SELECT of DuckDB finds. The table ``messages`` has the messages of this topic alone.

        Parameters, returns, raises: as ``MessageStore.sql``.

        Examples:
        >>> rocketstore.open("demo")["Orders"].sql("SELECT tags, count(*) n FROM messages GROUP BY ALL ORDER BY tags")
        <SqlResult: 2 rows>
        tags   n
        paid  50
        sent  50
        """
        options: dict[str, Any] = {"on_corrupt": on_corrupt, "verify_crc": verify_crc, "containers": containers}
        messages = self.store.dataset(topic=[self.name], **options)
        found: SqlResult = self.store.sql(
            statement, tables={"messages": messages, **(tables or {})}, files=files, tz=tz
        )
        return found

    def lag(self, group: str | Iterable[str] | None = None) -> Rows[ConsumerLag]:
        """Return how far consumer groups are behind in the queues of this topic.

        Parameters, returns, raises: as ``MessageStore.consumer_lag``.
        """
        found: Rows[ConsumerLag] = self.store.consumer_lag(group, topic=self.name)
        return found

    def info(self) -> MessageUsage:
        """Return the messages and bytes of each queue, the largest first, as ``MessageStore.du``."""
        found: MessageUsage = self.store.du(by="queue", topic=self.name)
        return found

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

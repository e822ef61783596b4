"""ReadableStore: the members of a MessageStore that overviews, pending messages and topics read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from rocketstore.config import StoreConfig
from rocketstore.disk.store_path import StorePath
from rocketstore.index.index_service import IndexService
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.scan import Scan
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.message import Message
from rocketstore.query.query_messages import QueryMessageResult, QueryMessagesResult
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.config_values import TopicConfig
from rocketstore.survey.broker_config import BrokerConfig
from rocketstore.survey.formats import StoreFormats
from rocketstore.survey.places import AnyPlaces


class ReadableStore(Protocol):
    """A store that is open. ``MessageStore`` describes the members."""

    path: StorePath
    places: AnyPlaces
    mode: str
    config: StoreConfig
    tiered: bool
    opening_notes: Sequence[str]

    # ---- parts ---------------------------------------------------------------------------------------------

    @property
    def commit_log(self) -> CommitLog: ...

    def find_commit_log(self) -> CommitLog | None: ...

    @property
    def is_bounded(self) -> bool: ...

    @property
    def index(self) -> IndexService | None: ...

    @property
    def checkpoint(self) -> StoreCheckpoint: ...

    @property
    def broker_config(self) -> BrokerConfig: ...

    @property
    def topic_configs(self) -> dict[str, TopicConfig]: ...

    @property
    def last_exit_ok(self) -> bool: ...

    @property
    def is_locked(self) -> bool: ...

    @property
    def formats(self) -> StoreFormats: ...

    # ---- queues --------------------------------------------------------------------------------------------

    def queues(self) -> Iterator[QueueId]: ...

    def queue_ids(self, topic: str) -> list[int]: ...

    def consume_queue(self, topic: str, queue_id: int) -> StoredQueue: ...

    def log_queue(self, topic: str, queue_id: int) -> StoredQueue: ...

    def describe_missing_units(self) -> list[str]: ...

    def describe_built_units(self) -> list[str]: ...

    # ---- messages ------------------------------------------------------------------------------------------

    @property
    def scan(self) -> Callable[..., Scan]: ...

    @property
    def query_message(self) -> Callable[..., QueryMessageResult]: ...

    @property
    def query_message_by_id(self) -> Callable[..., Message | None]: ...

    @property
    def query_keys(self) -> Callable[..., QueryMessagesResult]: ...

    @property
    def query_messages(self) -> Callable[..., QueryMessagesResult]: ...

    # ---- tables --------------------------------------------------------------------------------------------

    @property
    def dataset(self) -> Callable[..., Any]: ...

    @property
    def sql(self) -> Callable[..., Any]: ...

    @property
    def du(self) -> Callable[..., Any]: ...

    @property
    def consumer_lag(self) -> Callable[..., Any]: ...

    @property
    def pending(self) -> Callable[..., ArrowStream]: ...


def log_of(store: ReadableStore, queue: StoredQueue) -> CommitLog:
    """Return the log to which the units of a queue lead. Raises: as ``MessageStore.commit_log``."""
    return store.commit_log if queue.log is None else queue.log

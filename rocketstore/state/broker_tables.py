"""BrokerTables: what a broker keeps beside its messages, so that a reader need not know in which format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rocketstore.disk.store_path import StorePath
from rocketstore.state.config_values import OFFSETS, SubscriptionGroupConfig, TopicConfig


class ConfigProblem(NamedTuple):
    """A file of the configuration and its problem."""

    path: StorePath
    what: str


@dataclass(frozen=True)
class TableContents:
    """All tables at one moment; a table that cannot be read is empty, and ``problems`` says why.

    Attributes: as those of ``BrokerConfig``.
    """

    topics: dict[str, TopicConfig]
    subscription_groups: dict[str, SubscriptionGroupConfig]
    consumer_offsets: dict[str, dict[str, dict[int, int]]]
    delay_offsets: dict[int, int]
    others: dict[str, dict[str, Any]]
    problems: list[ConfigProblem]
    offsets_file: str = OFFSETS

    def next_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Return (group, topic, queue id, queue offset to be consumed next), sorted."""
        for group, topics in sorted(self.consumer_offsets.items()):
            for topic, offsets in sorted(topics.items()):
                yield from ((group, topic, queue_id, offset) for queue_id, offset in sorted(offsets.items()))


class BrokerTables(Protocol):
    """The tables of a broker: topics, consumer groups, and the offsets of consumers and of delayed messages."""

    def read_topics(self, *, must_be_good: bool = False) -> dict[str, TopicConfig]:
        """Read the topics alone, by name. Empty if they cannot be read; with ``must_be_good`` StoreError."""

    def read_declared_topics(self) -> set[str]:
        """Read the names of the topics that exist now. Empty if that is unknown."""

    def read_pull_offsets(self) -> dict[str, dict[str, dict[int, int]]]:
        """Read the pull offsets by group, topic and queue id. Empty if they are unknown.

        A pull offset is the queue offset up to which a consumer has pulled or popped messages.
        """

    def read_all(self) -> TableContents:
        """Read all tables. Raises: FileNotFoundError without a store."""

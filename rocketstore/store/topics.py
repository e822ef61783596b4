"""Topics: the topics of a store that have messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from rocketstore.lazy import lazy_property
from rocketstore.made_by import made_by
from rocketstore.preview import Preview, Previewed
from rocketstore.store.overview.topic_tables import preview_topics
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.topic import Topic
from rocketstore.text_values import format_count


@made_by("store.topics")
class Topics(Previewed, Mapping[str, Topic]):
    """The topics of a store that have messages in their queues, by name, sorted. ``store.topics()`` is the same.

    Examples:
    >>> topics = rocketstore.open("demo").topics
    >>> list(topics), len(topics["Orders"])
    (['Orders', 'Users'], 100)
    """

    _word = "store.topics"

    def __init__(self, store: ReadableStore) -> None:
        self._store = store

    @lazy_property
    def _queue_ids(self) -> dict[str, list[int]]:
        """The queues of each topic. A topic whose queues have no message is left out."""
        found: dict[str, list[int]] = {}
        with_messages = set()
        for topic, queue_id in self._store.queues():
            found.setdefault(topic, []).append(queue_id)
            if topic not in with_messages and len(self._store.consume_queue(topic, queue_id)):
                with_messages.add(topic)
        return {topic: queue_ids for topic, queue_ids in found.items() if topic in with_messages}

    def __call__(self) -> Self:
        return self

    def __getitem__(self, topic: str) -> Topic:
        if topic not in self._queue_ids:
            raise KeyError(topic)
        return Topic(self._store, topic)

    def __iter__(self) -> Iterator[str]:
        return iter(self._queue_ids)

    def __len__(self) -> int:
        return len(self._queue_ids)

    def _preview(self) -> Preview:
        return preview_topics(self._store, self._queue_ids, f"Topics: {format_count(len(self), 'topic')}")

"""Names that a store does not have: topics without a queue, and consumer groups without offsets."""

from __future__ import annotations

import contextlib
import shlex
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rocketstore.errors import StoreError, UnsupportedFormatError
from rocketstore.messages.arguments import describe_empty
from rocketstore.store.overview.missing import describe_unknown_topic
from rocketstore.store.readable_store import ReadableStore
from rocketstore.text_values import find_similar


def known_topics(store: ReadableStore) -> list[str]:
    """Return all topics of a store: those of topics.json, and those that have queues."""
    topics = set(store.broker_config.topics)
    with contextlib.suppress(UnsupportedFormatError):
        topics |= {topic for topic, _ in store.queues()}
    return sorted(topics)


def explain_unknown_topic(store: ReadableStore, topic: str) -> str | None:
    """Return a text about a topic that the store does not have, with the most similar name. None for any other topic.

    A topic is unknown if the store has queues, but none of this topic, and topics.json does not list it either.
    """
    try:
        if store.queue_ids(topic) or topic in store.topic_configs or next(store.queues(), None) is None:
            return None
        return describe_unknown_topic(store, topic)
    except (OSError, StoreError):  # queues in RocksDB, or a damaged file: nothing is known about the names
        return None


def explain_unknown_group(store: ReadableStore, group: str) -> str | None:
    """Return a text about a consumer group that has no offsets, with the most similar name; None for another group."""
    config = store.broker_config
    known = config.consumer_offsets
    if group in known or not known:  # a file without groups may be missing or damaged
        return None
    similar = find_similar(group, known)
    hint = f"did you mean {similar!r}?" if similar else f"rocketstore lag {shlex.quote(str(store.path))} shows all"
    return f"{store.path}: no group {group!r:.80} in {config.offsets_file}: {hint}"


def explain_unknown_names(
    store: ReadableStore, topics: Collection[str] | None, groups: Collection[str] | None
) -> list[str]:
    """Return a text about each topic and each consumer group that the store does not have, and about an empty list.

    Parameters: topics, groups: None for all, which is never unknown.
    """
    texts: list[str | None] = [*describe_empty({"topic": topics, "group": groups})]
    texts += [explain_unknown_topic(store, topic) for topic in sorted(topics or ())]
    texts += [explain_unknown_group(store, group) for group in sorted(groups or ())]
    return [text for text in texts if text is not None]


def warn_unknown_topics(store: ReadableStore, topics: Collection[str] | None, stacklevel: int = 3) -> None:
    """Give a UserWarning for each topic that the store does not have, and for an empty list; none for None.

    The answer of the caller has no message of these topics.
    """
    for text in explain_unknown_names(store, topics, None):
        warnings.warn(text, stacklevel=stacklevel)


def warn_conditions(
    store: ReadableStore, topics: Collection[str] | None, conditions: Mapping[str, Any], stacklevel: int = 3
) -> None:
    """Give a UserWarning for each condition that no message can meet: unknown topics, and empty lists.

    Parameters: topics: None for all. conditions: other values of conditions, by the names of the arguments.
    """
    for text in describe_empty(conditions):
        warnings.warn(text, stacklevel=stacklevel)
    warn_unknown_topics(store, topics, stacklevel + 1)


def require_known_topics(stores: Sequence[ReadableStore], topics: Iterable[str]) -> None:
    """Raise StoreError for a topic that none of the stores has: its name is probably misspelt."""
    for topic in sorted(topics):
        texts = [explain_unknown_topic(store, topic) for store in stores]
        if None not in texts:
            raise StoreError("; ".join(text for text in texts if text is not None))

"""Warn of options that match nothing in a store: topics that it does not have, and keys that look like a list."""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Iterator

from rocketstore.broker_file import warn_once
from rocketstore.disk.storage import names_in
from rocketstore.errors import StoreError
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.spark.source.options import ReadOptions
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import explain_unknown_topic
from rocketstore.text_values import find_similar

MOST_TOPICS = 100  # named topics that are looked for: each costs a list of a remote directory


def warn_unmatched_topics(store: MessageStore, options: ReadOptions) -> None:
    """Log a warning, once per process, for each option that names a topic, or a pattern of topics, without a match."""
    with contextlib.suppress(OSError, StoreError):  # then nothing is known about the names
        for text in describe_unmatched_topics(store, options):
            warn_once(text)


def describe_unmatched_topics(store: MessageStore, options: ReadOptions) -> Iterator[str]:
    """Yield a text for each option that names a topic, or a pattern of topics, that the store does not have."""
    if options.subscribe_pattern is not None:
        topics = find_topics(store)
        if topics and not any(re.fullmatch(options.subscribe_pattern, topic) for topic in topics):
            meant = find_meant_pattern(options.subscribe_pattern, topics)
            problem = f"option subscribePattern={options.subscribe_pattern!r} matches no topic of the store"
            yield f"{store.path}: {problem}{meant and f': did you mean {meant!r}?'}"
    for name, wanted in named_topics(options).items():
        for topic in sorted(wanted)[:MOST_TOPICS]:
            text = explain_unknown_topic(store, topic)
            if text is not None:
                yield f"option {name}: {text}"


def named_topics(options: ReadOptions) -> dict[str, set[str]]:
    """Return the topics that options name, by the option. A topic is only under the first of its options."""
    starting, ending = options.starting_offsets, options.ending_offsets
    found = {
        "subscribe": set(options.subscribe or ()),
        "assign": set(options.assign or ()),
        "startingOffsets": set() if starting is None else set(starting.queues),
        "startingOffsetsByTimestamp": set(options.starting_offsets_by_timestamp or ()),
        "endingOffsets": set() if ending is None else set(ending.queues),
    }
    seen: set[str] = set()
    for topics in found.values():
        topics -= seen
        seen |= topics
    return found


def find_topics(store: MessageStore) -> list[str]:
    """Return the topics of a store: those of its configuration, and those that have queues in files."""
    topics = set(store.topics)
    for kind in QUEUE_KINDS:
        topics |= names_in(store.places.queues(kind))
    return sorted(topics)


def find_meant_pattern(pattern: str, topics: list[str]) -> str:
    """Return the regular expression that a pattern without a match probably means; an empty string without one.

    A pattern of a shell, such as Order*, means Order.* here.
    """
    if fnmatch.filter(topics, pattern):
        return re.sub("[*?]", lambda match: {"*": ".*", "?": "."}[match[0]], pattern)
    return find_similar(pattern, topics) or ""


def warn_joined_keys(options: ReadOptions) -> None:
    """Log a warning, once per process, for a key that looks like several keys with commas between them."""
    for key in options.keys or ():
        if len([part for part in key.split(",") if part]) > 1:
            warn_once(f"option keys: {key!r} is one key, since keys are separated by spaces, not by commas")

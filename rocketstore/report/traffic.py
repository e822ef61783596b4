"""Which topics the charts over time show: users' topics apart from those of the system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rocketstore.messages.topics import SYSTEM_TOPIC_PREFIXES
from rocketstore.report.log_numbers import LogNumbers, TopicNumbers

SHOWN_TOPICS = 7
LEAST_SHARE = 0.5  # of the bytes: if the shown topics have less, their colours tell nothing
OTHERS, ALL, SYSTEM = "(other topics)", "(all topics)", "(system topics)"  # no topic has a space in its name
OTHERS_COLOUR, SYSTEM_COLOUR = "c7", "c8"


class Series(NamedTuple):
    """The messages and bytes of a topic, or of several, in each bin of time. ``colour``: a class of the style."""

    name: str
    colour: str
    messages: np.ndarray
    size: np.ndarray


def is_system(topic: str) -> bool:
    """Return whether RocketMQ itself created a topic."""
    return topic.startswith(SYSTEM_TOPIC_PREFIXES)


def rank_topics(numbers: LogNumbers) -> tuple[list[str], list[str]]:
    """Return the topics of users and those of the system, each with the largest first."""
    ranked = sorted(numbers.topics, key=lambda topic: (-int(numbers.topics[topic].size.sum()), topic))
    return [topic for topic in ranked if not is_system(topic)], [topic for topic in ranked if is_system(topic)]


def choose_series(numbers: LogNumbers) -> list[Series]:
    """Return the largest topics, and the sums of the others. Without large topics all are one series."""
    users, system = rank_topics(numbers)
    topics = numbers.topics
    sizes = [int(topics[topic].size.sum()) for topic in users]
    shown = users[:SHOWN_TOPICS]
    if sum(sizes[:SHOWN_TOPICS]) < LEAST_SHARE * sum(sizes):
        shown = []
    series = [Series(topic, f"c{rank}", *numbers_of([topics[topic]])) for rank, topic in enumerate(shown)]
    if rest := users[len(shown) :]:
        name, colour = (OTHERS, OTHERS_COLOUR) if shown else (ALL, "c0")
        series.append(Series(name, colour, *numbers_of([topics[topic] for topic in rest])))
    if system:
        series.append(Series(SYSTEM, SYSTEM_COLOUR, *numbers_of([topics[topic] for topic in system])))
    return series


def numbers_of(topics: Sequence[TopicNumbers]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of messages and bytes in each bin."""
    messages: np.ndarray = np.sum([topic.messages for topic in topics], axis=0)
    size: np.ndarray = np.sum([topic.size for topic in topics], axis=0)
    return messages, size

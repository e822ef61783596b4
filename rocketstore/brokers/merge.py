"""Merge the messages of several stores in the order of their store times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch

Messages = MessageBatch | Sequence[Message]


def merge_by_time(streams: Sequence[Iterable[Messages]], *, newest_first: bool = False) -> Iterator[Messages]:
    """Yield the messages of several streams by store time, those of one time stream after stream.

    The messages of a stream keep their order: where its store times go back, a message counts as of the latest time
    before it. Of each stream one batch is in memory.

    Parameters: streams: batches with ``store_timestamp``, all of the same columns. newest_first: the order of each
    stream, and of the result.
    """
    heads = [_Head(iter(stream), newest_first=newest_first) for stream in streams]
    while heads := [head for head in heads if head.has_messages()]:
        first = min(heads, key=lambda head: head.last_key)  # the first of several: its last messages may have followers
        place = heads.index(first)
        parts = [head.take_until(first.last_key, inclusive=i <= place) for i, head in enumerate(heads)]
        yield join_parts([part for part in parts if len(part.messages)])


class _Part(NamedTuple):
    """Some messages of a stream, and the keys by which they are sorted, int64[n], ascending."""

    messages: Messages
    keys: np.ndarray


class _Head:
    """The first messages of a stream that are not merged yet."""

    def __init__(self, stream: Iterator[Messages], *, newest_first: bool) -> None:
        self._stream = stream
        self._sign = -1 if newest_first else 1
        self._part = _Part([], np.empty(0, np.int64))
        self.last_key = np.iinfo(np.int64).min

    def has_messages(self) -> bool:
        """Return whether the stream has messages, and read its next batch if necessary."""
        while not len(self._part.keys):
            messages = next(self._stream, None)
            if messages is None:
                return False
            keys = np.maximum.accumulate([self.last_key, *(self._sign * times_of(messages)).tolist()])[1:]
            self._part = _Part(messages, keys)
            self.last_key = keys[-1] if len(keys) else self.last_key
        return True

    def take_until(self, key: int, *, inclusive: bool) -> _Part:
        """Remove and return the messages whose keys are less than a key, or equal to it."""
        messages, keys = self._part.messages, self._part.keys
        end = int(np.searchsorted(keys, key, "right" if inclusive else "left"))
        self._part = _Part(messages[end:], keys[end:])
        return _Part(messages if end == len(keys) else messages[:end], keys[:end])


def times_of(messages: Messages) -> np.ndarray:
    """Return the store time of each message, int64[n], epoch ms."""
    if isinstance(messages, MessageBatch):
        return np.asarray(messages.store_timestamp)
    return np.array([message.store_timestamp for message in messages], np.int64)


def join_parts(parts: Sequence[_Part]) -> Messages:
    """Return the messages of some parts by their keys, those of one key part after part."""
    if len(parts) == 1:
        return parts[0].messages
    order = np.argsort(np.concatenate([part.keys for part in parts]), kind="stable")
    batches = [part.messages for part in parts if isinstance(part.messages, MessageBatch)]
    if len(batches) == len(parts):
        return MessageBatch.join(batches).take(order)
    messages = [message for part in parts for message in part.messages]
    return [messages[row] for row in order.tolist()]


def with_broker(messages: Messages, broker: str) -> Messages:
    """Return messages with the name of their broker."""
    if isinstance(messages, MessageBatch):
        return messages.with_broker(broker)
    for message in messages:
        message.broker = broker
    return messages

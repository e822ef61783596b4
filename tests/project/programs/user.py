"""A user's program. tests/project/test_user_types.py checks its types; it is not run."""

from datetime import UTC, datetime
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import rocketstore
from rocketstore import (
    BinaryColumn,
    ConsumeQueue,
    ListColumn,
    MapColumn,
    Message,
    MessageBatch,
    MessageStore,
    PutMessageResult,
    StringColumn,
    Topic,
)

with rocketstore.open("/data/store") as store:
    assert_type(store, MessageStore)
    for batch in store.scan(topic="Orders", since=datetime(2026, 11, 21, tzinfo=UTC), limit=10):
        assert_type(batch, MessageBatch)
        assert_type(batch.topic, StringColumn[str])
        assert_type(batch.topic[5], str)
        assert_type(batch.topic[:5], StringColumn[str])
        assert_type(batch.tags.to_pylist(), list[str | None])
        assert_type(batch.body, BinaryColumn[bytes | None])
        assert_type(batch.keys, ListColumn)
        assert_type(batch.keys[0], list[str])
        assert_type(batch.properties, MapColumn)
        assert_type(batch.queue_offset, NDArray[np.int64])
        assert_type(batch[0], Message)
        assert_type(batch[:2], MessageBatch)
        for message in batch:
            assert_type(message.keys, list[str])
            assert_type(message.body, bytes)
            assert_type(message.tags, str | None)
            assert_type(message.queue_offset, int)
            assert_type(message.store_time, datetime | None)
    found = store.query_message("Orders", "order-7", since="2026-11-21")
    assert_type(found[0], Message)
    assert_type(found[1:], MessageBatch)
    assert_type(found.complete, bool)
    assert_type([message.topic for message in found], list[str])
    assert_type(store.get_offset_by_time("Orders", 1_763_712_000_000), dict[int, int])
    assert_type(store.get_offset_by_time("Orders", 1_763_712_000_000, 0, "upper"), int)
    assert_type(store["Orders"], Topic)
    assert_type(store["Orders"].queues[0], ConsumeQueue)
    assert_type(store["Orders"].scan(limit=5, on_corrupt="skip").count(), int)
    assert_type([topic.name for topic in store], list[str])
    assert_type(store.get_message("Orders", 0, 5, tag=["paid", "sent"], limits="broker").messages, MessageBatch)

with rocketstore.open("/data/new", "a") as writer:
    put = writer.put_message(Message("Orders", "text", keys=["k"], compress="zlib", store_timestamp=datetime.now(UTC)))
    assert_type(put, PutMessageResult)
    assert_type(put.queue_offset, int)

"""``merge_by_time``: a stable sort of all messages, of which one batch of each stream is in memory."""

import random

import pytest
from support.several_stores import draw_stores

import rocketstore
from rocketstore.brokers.merge import merge_by_time
from rocketstore.log.scan import first_messages


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """The messages of three stores, each as one batch."""
    with rocketstore.open_many([*draw_stores(tmp_path_factory.mktemp("merge")).values()]) as brokers:
        return [brokers.stores[name].scan().head(60).with_broker(name) for name in brokers.stores]


def cut(batch, draw, *, as_lists):
    """A batch in pieces of drawn sizes, some of them as lists of messages."""
    start = 0
    while start < len(batch):
        end = start + draw.choice([0, 1, 2, 7, 30])
        piece = batch[start:end]
        yield list(piece) if as_lists and draw.random() < 0.3 else piece
        start = end


def sorted_plainly(batches, *, newest_first):
    """All messages by the latest time so far in their stream, those of one time stream after stream."""
    found = []
    for stream, batch in enumerate(batches):
        latest = None
        for message in batch:
            time = -message.store_timestamp if newest_first else message.store_timestamp
            latest = time if latest is None else max(latest, time)
            found.append((latest, stream, message))
    return [message for _, _, message in sorted(found, key=lambda row: row[:2])]


def places(messages):
    return [(message.broker, message.phy_offset, message.body) for message in messages]


def test_drawn_streams_are_merged_as_a_stable_sort_orders_them(batches, seed):
    draw = random.Random(seed)
    for _ in range(60):
        newest_first = draw.random() < 0.5
        chosen = [batch.take(sorted(draw.sample(range(60), draw.randrange(61)))) for batch in batches]
        if draw.random() < 0.3:  # store times that go back
            chosen = [batch.take(draw.sample(range(len(batch)), len(batch))) for batch in chosen]
        elif newest_first:
            chosen = [batch[::-1] for batch in chosen]
        streams = [cut(batch, draw, as_lists=draw.random() < 0.5) for batch in chosen]
        merged = merge_by_time(streams, newest_first=newest_first)
        wanted = places(sorted_plainly(chosen, newest_first=newest_first))
        limit = draw.choice([None, draw.randrange(200)])
        found = [message for messages in first_messages(merged, limit) for message in messages]
        assert places(found) == wanted[:limit]


def test_only_the_first_batch_of_each_stream_is_read_for_the_first_messages(batches):
    read = []

    def stream(batch):
        for row in range(len(batch)):
            read.append(row)
            yield batch[row : row + 1]

    merged = merge_by_time([stream(batch) for batch in batches])
    assert len(next(merged)) == 1
    assert max(read) <= 1

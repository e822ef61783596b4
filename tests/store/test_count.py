"""``count``: the numbers of a loop over all messages, for drawn questions."""

import random
from collections import defaultdict

import pytest
from reference.message_store import make_store
from support import states, stores

import rocketstore

START = 1_790_000_000_000
WIDTHS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
NAMES = ("topic", "queue", "tag", "born_host", "store_host", "reconsume_times", *WIDTHS)


def value_of(message, name):
    if name in WIDTHS:
        return message.store_timestamp - message.store_timestamp % WIDTHS[name]
    return getattr(message, {"queue": "queue_id", "tag": "tags"}.get(name, name))


def count_plainly(messages, by):
    found, seen = defaultdict(lambda: [0, 0]), set()
    for message in messages:
        key = tuple(value_of(message, name) for name in by)
        found[key][0] += 1
        found[key][1] += (
            0 if message.phy_offset in seen else message.size
        )  # the first message of a record has its bytes
        seen.add(message.phy_offset)
    return {key: tuple(sizes) for key, sizes in found.items()}


def groups_of(counts):
    return {tuple(row[:-2]): tuple(row[-2:]) for row in counts}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A store of messages with few different values, and its messages."""
    root = tmp_path_factory.mktemp("count") / "store"
    draw = random.Random(7)
    time, messages = START, []
    for _ in range(500):
        time += draw.choice([0, 5, 40_000, 3_000_000])
        properties = {"KEYS": draw.choice(["a", "b", "a b"])}
        if draw.random() < 0.8:
            properties["TAGS"] = draw.choice(["x", "y", "标签"])
        messages.append({
            "topic": draw.choice("TUV"), "queue_id": draw.randrange(3), "body": bytes(draw.randrange(100)),
            "properties": properties, "store_timestamp": time, "reconsume_times": draw.randrange(2),
        })  # fmt: skip
    make_store(root, messages)
    with rocketstore.open(root) as store:
        yield store, [message for batch in store.scan() for message in batch]


def test_drawn_questions_have_the_answers_of_a_loop(drawn):
    store, messages = drawn
    draw = random.Random()
    for _ in range(60):
        by = draw.sample(NAMES, draw.randrange(1, 5))
        topic, tag, key = (draw.choice([None, value]) for value in ("T", "x", "a"))
        since, until = (draw.choice([None, draw.choice(messages).store_timestamp]) for _ in range(2))
        wanted = [
            message
            for message in messages
            if (topic is None or message.topic == topic)
            and (tag is None or message.tags == tag)
            and (key is None or key in message.keys)
            and (since is None or message.store_timestamp >= since)
            and (until is None or message.store_timestamp < until)
        ]
        counts = store.count(by, topic=topic, tag=tag, key=key, since=since, until=until)
        assert groups_of(counts) == count_plainly(wanted, by), (by, topic, tag, key, since, until)
        assert counts.messages == len(wanted)


@pytest.mark.parametrize("name", ["rich-5.5.0", "batch-5.5.0", "pending-rocksdb"])
def test_messages_of_real_stores_are_counted(tmp_path, name):
    root = (states if name == "pending-rocksdb" else stores).unpack(name, tmp_path)
    with rocketstore.open(root) as store:
        messages = [message for batch in store.scan() for message in batch]
        for by in (["topic", "queue"], ["tag"], ["hour", "topic"], ["born_host", "reconsume_times"]):
            assert groups_of(store.count(by)) == count_plainly(messages, by)


def test_one_grouping_has_the_most_frequent_value_first(drawn):
    store, _ = drawn
    sizes = [row.messages for row in store.count("tag")]
    assert sizes == sorted(sizes, reverse=True)
    hours = [row.hour_timestamp for row in store.count("hour")]
    assert hours == sorted(hours)
    pairs = [(row.topic, row.queue_id) for row in store.count("topic, queue")]
    assert pairs == sorted(pairs)


def test_unknown_groupings_are_refused_with_a_hint(drawn):
    store, _ = drawn
    with pytest.raises(ValueError, match="did you mean 'topic'"):
        store.count("topics")
    for by in ("", [], "zzz"):
        with pytest.raises(ValueError, match="born_host"):
            store.count(by)


def test_counts_convert_to_a_table(drawn):
    pytest.importorskip("pyarrow")
    store, _ = drawn
    table = store.count("tag,hour").to_arrow()
    assert table.column_names == ["tag", "hourTimestamp", "messages", "logBytes"]
    assert sum(table["messages"].to_pylist()) == 500
    assert repr(store.count("topic")).startswith("<Counts: 3 rows by topic")

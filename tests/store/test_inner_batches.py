"""Inner batches: every way to read a store gives the messages in them, and conditions choose among these."""

import json
import random
import shutil
import zlib

import pyarrow.compute as pc
import pytest
from support.cli import rows, run
from support.damages import change_log, log_files
from support.puts import open_store

import rocketstore
from rocketstore import CorruptFileError, Message

pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

START = 1_790_000_000_000
TAGS, KEYS = ("paid", "sent", None), [f"k{number}" for number in range(12)]
TOPICS = {"Plain": 2, "Batches": 2, "Others": 1}
CODECS = [None, None, "zlib", "lz4", "zstd"]


def draw_message(draw, topic, **fields):
    keys = draw.sample(KEYS, draw.randrange(3))
    body = b'{"n": %d}' % draw.randrange(1000)
    return Message(topic, body * draw.randrange(4), keys=keys, tags=draw.choice(TAGS), **fields)


@pytest.fixture(scope="module")
def root(tmp_path_factory, seed):
    """A store of plain messages and inner batches, each with a store time of its own."""
    draw, path = random.Random(seed), tmp_path_factory.mktemp("batches") / "store"
    with open_store(path) as store:
        store.create_topic("Batches", TOPICS["Batches"], queue_type="BatchCQ")
        store.create_topic("Others", TOPICS["Others"], queue_type="BatchCQ")
        for number in range(120):
            topic, time = draw.choice([*TOPICS]), START + number * 1000
            place = {"queue_id": draw.randrange(TOPICS[topic]), "store_timestamp": time}
            if topic == "Plain" or draw.random() < 0.3:
                message = draw_message(draw, topic, **place)
            else:
                parts = [draw_message(draw, topic) for _ in range(draw.choice([1, 2, 3, 40]))]
                more = {"keys": "of-record", "tags": "of-record"} if draw.random() < 0.3 else {}
                message = Message.batch(topic, parts, compress=draw.choice(CODECS), **place, **more)
            store.put_message(message, store_timestamp="given")
    return path


def opened(record):
    """Return the messages that a client makes of a record."""
    return record.decode_batch() if record.sys_flag & 0xC0 == 0xC0 else [record]


def read_queues(store):
    """Return all messages, by ``get_message`` of all queues, in the order of the log."""
    found = []
    for topic, count in TOPICS.items():
        for queue_id in range(count):
            at = 0
            while (got := store.get_message(topic, queue_id, at, 32)).status == "FOUND":
                found += [message for record in got.messages for message in opened(record)]
                at = got.next_begin_offset
    return sorted(found, key=lambda message: (message.phy_offset, message.queue_offset))


NAMES = ("topic", "queueId", "queueOffset", "phyOffset", "storeTimestamp", "tags", "keys", "body")


def values(message):
    return (
        message.topic, message.queue_id, message.queue_offset, message.phy_offset, message.store_timestamp,
        message.tags, message.keys, message.body,
    )  # fmt: skip


def of_row(row):
    time = row["storeTimestamp"]
    body = row["body"] or b""
    row = row | {"storeTimestamp": time if isinstance(time, int) else round(time.timestamp() * 1000)}
    row |= {"body": body.encode() if isinstance(body, str) else body, "keys": [*(row["keys"] or [])]}
    return tuple(row[name] for name in NAMES)


QUESTIONS = [
    {},
    {"topic": "Batches"},
    {"topic": "Others"},
    {"key": "k3"},
    {"tag": "paid"},
    {"key": "of-record"},
    {"tag": "of-record"},
    {"topic": "Batches", "key": "k5"},
    {"topic": "Batches", "tag": "sent"},
    {"since": START + 20_000, "until": START + 60_000},
    {"topic": "Batches", "tag": "paid", "key": "k1", "since": START + 10_000},
]


def is_wanted(message, topic=None, key=None, tag=None, since=None, until=None):
    return (
        topic in (None, message.topic)
        and (key is None or key in message.keys)
        and tag in (None, message.tags)
        and (since is None or message.store_timestamp >= since)
        and (until is None or message.store_timestamp < until)
    )


def options_of(question):
    return [word for name, value in question.items() for word in (f"--{name}", value)]


def where_of(question):
    parts = {
        "topic": "topic = '{}'", "key": "list_contains(keys, '{}')", "tag": "tags = '{}'",
        "since": "storeTimestamp >= epoch_ms({})", "until": "storeTimestamp < epoch_ms({})",
    }  # fmt: skip
    texts = [parts[name].format(value) for name, value in question.items()]
    return " WHERE " + " AND ".join(texts) if texts else ""


def arrow_filter(question):
    found = pc.scalar(True)
    for name, value in question.items():
        if name in ("topic", "tag"):
            found &= pc.field({"topic": "topic", "tag": "tags"}[name]) == value
    return found


def polars_filter(question):
    found = [pl.lit(True)]
    for name, value in question.items():
        if name == "key":
            found.append(pl.col("keys").list.contains(value))
        elif name in ("topic", "tag"):
            found.append(pl.col({"topic": "topic", "tag": "tags"}[name]) == value)
    return found


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_every_way_to_read_gives_the_same_messages(root, question, tmp_path):
    with rocketstore.open(root) as store:
        expected = [values(message) for message in read_queues(store) if is_wanted(message, **question)]
        for options in ({}, {"batch_size": 7}, {"threads": 3}, {"plan": "scan"}):
            scan = store.scan(**question, **options)
            assert [values(message) for batch in scan for message in batch] == expected, options
            assert scan.count() == len(expected)
        limited = [message for batch in store.scan(**question, limit=9) for message in batch]
        assert [*map(values, limited)] == expected[:9]
        assert [*map(values, store.scan(**question).tail(9))] == expected[-9:]
        assert store.count(**question) == len(expected)
        assert store.count("tag", **question).messages == len(expected)
        if "topic" in question:
            rest = {name: value for name, value in question.items() if name != "topic"}
            own = [message for batch in store[question["topic"]].scan(**rest) for message in batch]
            assert [*map(values, own)] == expected
        assert [*map(of_row, store.dataset(**question).to_table().to_pylist())] == expected
        filtered = store.dataset(columns=NAMES).to_table(filter=arrow_filter(question)).to_pylist()
        rest = {name: value for name, value in question.items() if name in ("topic", "tag")}
        messages = read_queues(store)
        assert [*map(of_row, filtered)] == [values(message) for message in messages if is_wanted(message, **rest)]
        columns = ", ".join(NAMES)
        found = store.sql(f"SELECT {columns} FROM messages{where_of(question)} ORDER BY phyOffset, queueOffset")
        assert [*map(of_row, found.to_arrow().to_pylist())] == expected
    frame = rocketstore.scan_polars(root, **question).collect()
    assert [*map(of_row, frame.to_dicts())] == expected
    rest = {name: value for name, value in question.items() if name in ("topic", "tag", "key")}
    frame = rocketstore.scan_polars(root).filter(*polars_filter(question)).collect()
    assert [*map(of_row, frame.to_dicts())] == [values(each) for each in messages if is_wanted(each, **rest)]
    shown = run("cat", root, *options_of(question), "--columns", ",".join(NAMES))
    assert [*map(of_row, rows(shown, exit_code=int(not expected)))] == expected
    counted = run("count", root, "--by", "topic", *options_of(question))
    assert sum(row["messages"] for row in rows(counted, exit_code=int(not expected))) == len(expected)
    if expected:
        run("export", root, tmp_path / "out.jsonl", *options_of(question))
        assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(expected)


def test_the_length_of_a_topic_is_the_number_of_its_messages(root):
    with rocketstore.open(root) as store:
        for topic in store:
            assert len(topic) == len(list(topic)) == topic.scan().count() == topic.count()
        assert sum(map(len, store)) == store.scan().count() > store.commit_log.scan().count()


def test_containers_gives_the_records(root):
    with rocketstore.open(root) as store:
        records = [message.to_dict() for batch in store.commit_log.scan() for message in batch]
        assert [message.to_dict() for batch in store.scan(containers=True) for message in batch] == records
        assert store.dataset(containers=True).count_rows() == len(records)
        assert store.sql("SELECT count(*) n FROM messages", containers=True).to_arrow().to_pylist() == [
            {"n": len(records)}
        ]
        of_record = sum(record["tags"] == "of-record" for record in records)
        assert store.scan(containers=True, tag="of-record").count() == of_record
        assert store.scan(topic=[*TOPICS], containers=True, tag="of-record").count() == of_record
    assert rocketstore.scan_polars(root, containers=True).collect().height == len(records)


def test_every_column_of_a_message_in_a_batch_is_that_of_decode_batch(root):
    cleared = {"sys_flag": ~0xC1}
    with rocketstore.open(root) as store:
        expected = [message for batch in store.commit_log.scan() for record in batch for message in opened(record)]
        found = [message for batch in store.scan() for message in batch]
    for message in expected:
        message.sys_flag &= cleared["sys_flag"]
    for message in found:
        message.sys_flag &= cleared["sys_flag"]
    assert [message.to_dict() for message in found] == [message.to_dict() for message in expected]


def test_the_tags_code_of_a_message_in_a_batch_is_the_hash_of_its_tag(root):
    with rocketstore.open(root) as store:
        codes = {
            (tag, code) for batch in store.scan(columns=["tags", "tags_code"]) for tag, code in
            zip(batch.tags, batch.tags_code.tolist(), strict=True)
        }  # fmt: skip
    assert len(codes) == len({tag for tag, _ in codes}) == 3
    assert (None, 0) in codes


def test_a_condition_of_sql_sees_the_messages_in_batches(root):
    with rocketstore.open(root) as store:
        expected = [values(each) for each in read_queues(store) if each.tags == "paid" and each.queue_offset > 9]
        scan = store.scan().filtered(rocketstore.Where("tags = 'paid' AND queueOffset > 9"))
        assert [values(message) for batch in scan for message in batch] == expected
    shown = run("cat", root, "--where", "tags = 'paid' AND queueOffset > 9")
    assert len(rows(shown)) == len(expected)


@pytest.mark.parametrize("begin", [0, 1, 4, 6])
def test_unconsumed_are_the_messages_behind_the_offset(tmp_path, begin):
    with open_store(tmp_path / "store") as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        for first in (0, 3, 6):
            parts = [Message("B", b"%d" % (first + n), tags="ab"[n % 2]) for n in range(3)]
            store.put_message(Message.batch("B", parts, queue_id=0))
    offsets = {"offsetTable": {"B@g": {"0": begin}}}
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    expected = [str(number) for number in range(begin, 9)]
    with rocketstore.open(tmp_path / "store") as store:
        rest = store.unconsumed("g")
        assert [row.queue_offset for row in rest] == [*range(begin, 9)]
        assert sum(total.messages for total in rest.totals()) == 9 - begin
        records = {message.phy_offset: message.size for batch in store.scan() for message in batch}
        assert rest.totals()[0].log_bytes == sum(records[at] for at in {row.phy_offset for row in rest})
        wanted = [number for number in range(begin, 9) if number % 3 % 2 == 1]
        assert [row.queue_offset for row in store.unconsumed("g", subscribe="B=b")] == wanted
    path = tmp_path / "store"
    assert [row["body"] for row in rows(run("cat", path, "--unconsumed", "--group", "g"))] == expected
    assert (
        sum(row["messages"] for row in rows(run("count", path, "--by", "topic", "--unconsumed", "--group", "g")))
        == 9 - begin
    )
    run("export", path, tmp_path / "out.jsonl", "--unconsumed", "--group", "g")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 9 - begin


# ---- damage ------------------------------------------------------------------------------------------------


def make_damaged(path, compress, change):
    """Make a store of a plain message, an inner batch whose body is changed, and another plain message."""
    with open_store(path) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        store.put_message(Message("P", b"first", queue_id=0))
        parts = [Message("B", b"part", keys=f"k{n}") for n in range(3)]
        at = store.put_message(Message.batch("B", parts, queue_id=0, compress=compress)).phy_offset
        store.put_message(Message("P", b"last", queue_id=0))
    data = log_files(path)[0]
    size = int.from_bytes(data[at + 84 : at + 88], "big")
    body = change(data[at + 88 : at + 88 + size])
    change_log(path, 0, at + 88, body)
    change_log(path, 0, at + 8, (zlib.crc32(body) & 0x7FFFFFFF).to_bytes(4, "big"))
    return at


@pytest.mark.parametrize(
    ("compress", "change", "reason"),
    [
        (None, lambda body: b"\xff" * 8 + body[8:], "no message of a batch is at byte 0"),
        (None, lambda body: body[:-1] + b"\x7f", None),
        ("zlib", lambda body: b"\xff" * len(body), "does not decompress with zlib"),
    ],
)
def test_a_batch_that_cannot_be_opened_is_a_damaged_record(tmp_path, compress, change, reason):
    at = make_damaged(tmp_path, compress, change)
    with rocketstore.open(tmp_path) as store:
        if reason is None:  # the change is in a text: all messages are there
            assert store.scan().count() == 5
            return
        for options in ({}, {"columns": "topic"}, {"key": "k1"}, {"threads": 2}):
            with pytest.raises(CorruptFileError, match=reason) as raised:
                store.scan(**options).count()
            assert raised.value.offset == at
        scan = store.scan(on_corrupt="skip")
        assert [message.body for batch in scan for message in batch] == [b"first", b"last"]
        assert [skipped[:2] for skipped in scan.skipped] == [(at, scan.skipped[0].end)]
        assert store.scan(containers=True).count() == 3
        assert store.scan(topic="P").count() == 2
        assert store.count("topic").reasons


def test_a_batch_with_a_wrong_crc_gives_null_bodies_in_a_dataset(tmp_path):
    at = make_damaged(tmp_path, None, lambda body: body)
    change_log(tmp_path, 0, at + 8, bytes(4))
    with rocketstore.open(tmp_path) as store:
        with pytest.warns(UserWarning, match="3 messages have bodies"):
            found = store.dataset(columns=["topic", "keys", "body", "body_error"]).to_table().to_pylist()
        assert [row["body"] for row in found] == [b"first", None, None, None, b"last"]
        assert [row["keys"] for row in found] == [[], ["k0"], ["k1"], ["k2"], []]
        assert found[1]["bodyError"] == "bodyCrc: is not the CRC of the body"
        assert store.scan(columns="topic").count() == 5
        with pytest.raises(CorruptFileError, match="bodyCrc"):
            store.scan().head(9)


def test_a_record_that_needs_no_unwrapping_is_one_message(tmp_path):
    make_damaged(tmp_path, None, lambda body: body)
    with rocketstore.open(tmp_path) as store:
        container = next(m for batch in store.commit_log.scan() for m in batch if m.topic == "B")
    change_log(tmp_path, 0, container.phy_offset + 36, (container.sys_flag & ~0x40).to_bytes(4, "big"))
    with rocketstore.open(tmp_path) as store:  # clients open a batch only if both flags are set
        assert store.scan().count() == 3


def test_a_batch_larger_than_the_batch_size_is_given_in_parts(tmp_path):
    with open_store(tmp_path) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        store.put_message(Message.batch("B", [Message("B", b"%d" % n) for n in range(120)], queue_id=0))
    with rocketstore.open(tmp_path) as store:
        parts = [*store.scan(batch_size=50)]
        assert [*map(len, parts)] == [50, 50, 20]
        assert [message.body for part in parts for message in part] == [b"%d" % n for n in range(120)]
        assert store.scan(topic="B").head(1).queue_offset.tolist() == [0]


def test_a_few_batches_of_a_large_log_are_read_by_their_queue(tmp_path):
    with open_store(tmp_path) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        for number in range(400):
            store.put_message(Message("P", bytes(500), queue_id=0))
            if number % 100 == 0:
                parts = [Message("B", b"%d" % n, tags="ab"[n % 2], keys=f"{number}-{n}") for n in range(5)]
                store.put_message(Message.batch("B", parts, queue_id=0, compress="zlib" if number else None))
    shutil.copytree(tmp_path, tmp_path / "copy")
    with rocketstore.open(tmp_path / "copy") as store:
        scan = store.scan(topic="B", tag="a")
        assert scan.explain().startswith("reads 4 records")
        assert scan.count() == 12
        assert [message.body for batch in store.scan(topic="B", key="100-3") for message in batch] == [b"3"]
        keyed = store.dataset().to_table(filter=(pc.field("topic") == "B") & (pc.field("uniqKey") == "none"))
        assert keyed.num_rows == 0

"""Arguments that forgive, and times in every form."""

import datetime
import re

import numpy as np
import pytest

import rocketstore
from rocketstore import Message, PutMessageError, StoreConfig
from rocketstore.text_values import epoch_ms, parse_time

UTC = datetime.UTC
T0 = 1_700_000_000_000
MOMENT = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)


@pytest.fixture
def root(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        for i in range(10):
            store.put_message(Message("A", f"body {i}", keys="k", queue_id=0), store_timestamp=T0 + 1000 * i)
    return tmp_path


# ---- a message ---------------------------------------------------------------------------------------------


def test_a_text_is_a_body_in_utf_8(tmp_path):
    message = Message("A", "grüße")
    assert (message.raw_body, message.body) == ("grüße".encode(), "grüße".encode())
    with pytest.raises(ValueError, match=r"^body='a\\ud800': the character at 1 has no UTF-8"):
        Message("A", "a\ud800")
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        store.put_message(Message("A", "text", compress="zlib"))
        with pytest.raises((TypeError, PutMessageError)):
            store.put_message(Message("A", 5))
        (found,) = store["A"]
    assert found.body == b"text"


@pytest.mark.parametrize("keys", ["a b", ["a b"], ["a", "b "], [" "], ["x", "a b", "y"], iter(["a b"])])
def test_a_key_with_a_space_is_refused_at_once(keys):
    with pytest.raises(ValueError, match=r"^keys=.*: a key has a space, and RocketMQ would make two keys of it$"):
        Message("A", b"", keys=keys)


def test_keys_without_spaces_are_kept():
    for keys, expected in (("a", ["a"]), (["a", "b"], ["a", "b"]), ((), []), (["ü\t"], ["ü\t"])):
        assert Message("A", b"", keys=keys).keys == expected


def test_a_store_time_of_the_message_is_kept_by_given(tmp_path):
    message = Message("A", b"x", store_timestamp="2023-11-14T22:13:20Z", born_timestamp=MOMENT)
    assert (message.store_timestamp, message.born_timestamp) == (T0, T0 + 123)
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        assert store.put_message(message, store_timestamp="given").store_timestamp == T0
        assert store.put_messages([message, message], store_timestamp="given").store_timestamps.tolist() == [T0, T0]
        assert store.put_message(message).store_timestamp > T0
        with pytest.raises(ValueError, match="a message has none"):
            store.put_message(Message("A", b"x"), store_timestamp="given")


def test_messages_compare_by_value(root):
    def new(**changes):
        return Message(**{"topic": "A", "body": b"x", "keys": ["k"], "born_timestamp": T0} | changes)

    assert new() == new() == Message("A", b"x", properties={"KEYS": "k"}, born_timestamp=T0)
    for changes in ({"body": b"y"}, {"topic": "B"}, {"keys": []}, {"tags": "t"}, {"queue_id": 1}, {"flag": 5}):
        assert new(**changes) != new()
    assert new() != b"x"
    with rocketstore.open(root) as store:
        batch = store.scan().head(2)
        assert batch[0] == batch[0] == store.look_message_by_offset(int(batch.phy_offset[0]))
        assert batch[0] != batch[1]
        assert store.get_message("A", 0, 1)[0] == batch[1]
    with pytest.raises(TypeError, match="unhashable"):
        hash(new())


# ---- times -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (T0, T0),
        (np.int64(T0), T0),
        (0, 0),
        (-5, -5),
        (999_999_999, 999_999_999),
        (2**63 - 1, 2**63 - 1),
        (MOMENT, T0 + 123),
        (MOMENT.astimezone(datetime.timezone(datetime.timedelta(hours=5))), T0 + 123),
        (MOMENT.replace(tzinfo=None), T0 + 123),
        (datetime.date(2023, 11, 14), 1_699_920_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("20231114", 1_699_920_000_000),
        ("2023-11-14T22:13:20.123Z", T0 + 123),
        ("2023-11-14T23:13:20.123+01:00", T0 + 123),
        (str(T0), T0),
        ("-5", -5),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC), -1),
    ],
)
def test_every_form_of_a_time_is_epoch_milliseconds(time, expected):
    assert epoch_ms(time, "begin_timestamp") == expected
    if isinstance(time, str):
        assert parse_time(time) == expected


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (1_700_000_000, "looks like seconds"),
        (1_700_000_000_000_000, "looks like microseconds"),
        (1_700_000_000_000_000_000, "looks like nanoseconds"),
        ("1700000000", "looks like seconds"),
        ("1700000000000000", "looks like microseconds"),
        ("2023", "looks like a year"),
        ("yesterday's", "is no time"),
        (2**63, "beyond int64"),
        ("", "is no time"),
    ],
)
def test_a_number_of_another_unit_is_refused_as_on_the_command_line(root, time, text):
    pattern = rf"^until.*{text}"
    with pytest.raises(ValueError, match=pattern):
        epoch_ms(time, "until")
    if isinstance(time, str):
        with pytest.raises(ValueError, match=text):
            parse_time(time)
    with rocketstore.open(root) as store:
        for call in (
            lambda: store.scan(until=time), lambda: store.query_message("A", "k", 64, 0, time),
            lambda: store.query_messages("A", ["k"], until=time), lambda: store["A"].scan(until=time),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=pattern):
                call()
        for call in (
            lambda: store.get_offset_by_time("A", time), lambda: store.get_phy_offset_by_time(time),
            lambda: store.consume_queue("A", 0).get_offset_by_time(time),
            lambda: Message("A", b"", born_timestamp=time),
            lambda: store.index.query_offset("A", "k", 64, time),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=text):
                call()


@pytest.mark.parametrize("time", [1.5, b"2023", object()])
def test_any_other_type_is_no_time(root, time):
    for call in (lambda: epoch_ms(time, "t"), lambda: Message("A", b"", store_timestamp=time)):
        with pytest.raises(TypeError, match="a datetime, a date or an ISO 8601 text was expected"):
            call()
    with rocketstore.open(root) as store, pytest.raises(TypeError, match=re.escape(f"since={time!r}")):
        store.scan(since=time)


def at(seconds):
    return datetime.datetime.fromtimestamp(T0 / 1000 + seconds, UTC)


def test_ranges_of_time_are_half_open_everywhere(root):
    with rocketstore.open(root) as store:
        for begin, end in ((at(2), at(5)), (T0 + 2000, T0 + 5000), (at(2).isoformat(), at(5).isoformat())):
            expected = [T0 + 2000, T0 + 3000, T0 + 4000]
            times = {"since": begin, "until": end}
            assert [int(time) for batch in store.scan(**times) for time in batch.store_timestamp] == expected
            assert store["A"].scan(**times).count() == 3
            assert sorted(store.query_message("A", "k", **times).messages.store_timestamp.tolist()) == expected
            assert len(store.query_messages("A", "k", **times)[0]) == 3
        assert store.scan(until=at(0)).count() == 0
        assert not store.query_message("A", "k", until=at(0))
        # RocketMQ's own queries include the end.
        assert len(store.index.query_offset("A", "k", 64, T0 + 2000, at(5)).phy_offsets) == 4


def test_a_time_finds_an_offset_in_every_form(root):
    with rocketstore.open(root) as store:
        for time in (at(3), T0 + 3000, at(3).isoformat()):
            assert store.get_offset_by_time("A", time) == {0: 3}
            assert store.consume_queue("A", 0).get_offset_by_time(time) == 3
            assert store.get_phy_offset_by_time(time) == int(store.scan().head(4).phy_offset[3])
        assert store.get_offset_by_time("A", datetime.date(2023, 11, 15), 0) == 10


@pytest.mark.parametrize("form", [lambda time: time, datetime.datetime.isoformat, lambda time: int(epoch_ms(time, ""))])
def test_index_files_take_every_form_of_a_time(root, tmp_path, form):
    hashes = rocketstore.hash_keys(["k"], topic="A")
    with rocketstore.open(root) as store:
        (file,) = store.index.files
        begin, end = form(at(2)), form(at(5))
        expected = [int(offset) for offset in store.scan(since=at(2), until=at(6)).head().phy_offset]
        assert file.select_phy_offset("A#k", 64, begin, end) == expected[::-1]
        for found in (
            file.select_phy_offsets(["k"], topic="A", begin_timestamp=begin, end_timestamp=end),
            file.select_phy_offsets_by_hash(hashes, begin_timestamp=begin, end_timestamp=end),
            store.index.query_offsets("A", ["k"], begin_timestamp=begin, end_timestamp=end),
        ):
            assert found[0].tolist() == expected[::-1]
        assert file.is_time_matched(begin, end)
        assert not file.is_time_matched(form(at(60)), form(at(90)))
    sizes = {"hash_slot_num": 10, "index_num": 10}
    with rocketstore.IndexFile.create(tmp_path / "later", end_phy_offset=1, end_timestamp=begin, **sizes) as later:
        assert later.header.end_time == at(2)
    with rocketstore.BatchConsumeQueue.open(tmp_path / "queue", "a", mapped_file_size=460) as queue:
        assert queue.put_unit(0, 300, 0, 0, batch_num=3, store_timestamp=begin)
        assert queue[0].store_time == at(2)
    with rocketstore.ConsumeQueueExt.open(tmp_path / "ext", "a", mapped_file_size=4096) as ext:
        assert ext.read(ext.put(5, begin)).store_time == at(2)
    with rocketstore.CommitLog.open(tmp_path / "log", "a", mapped_file_size=65536) as log:
        assert log.append(Message("A", b"", queue_id=0), store_timestamp=begin).store_time == at(2)
    with rocketstore.IndexFile.create(tmp_path / "file", **sizes) as new:
        assert new.put_key("A#k", 0, begin)
        assert new.select_phy_offset("A#k", 1, begin, begin) == [0]
        assert new.header.begin_time == at(2)
        with pytest.raises(TypeError):
            new.put_key("A#k", 0, 1.5)
        with pytest.raises(ValueError, match="store_timestamp: 'soon' is no time"):
            new.put_key("A#k", 0, "soon")


def test_a_single_key_or_topic_stands_for_a_list(root, tmp_path):
    with rocketstore.open(root) as store:
        (file,) = store.index.files
        for found in (file.select_phy_offsets("k", topic="A"), store.index.query_offsets("A", "k")):
            assert (len(found), len(found[0])) == (1, 10)
    for topics in ("A", ["A"]):
        out = tmp_path / f"new-{type(topics).__name__}"
        assert rocketstore.rebuild(root, out=out, topic=topics).queues == 1


def test_objects_offer_times_beside_timestamps(root):
    with rocketstore.open(root) as store:
        batch = store.scan().head(2)
        message = batch[1]
        assert message.store_time == at(1)
        assert message.store_time.tzinfo is UTC
        assert abs(message.born_time - datetime.datetime.now(UTC)) < datetime.timedelta(hours=1)
        assert batch.store_time.tolist() == [at(0).replace(tzinfo=None), at(1).replace(tzinfo=None)]
        assert batch.store_time.dtype == np.dtype("datetime64[ms]")
        summary = store.summary()
        assert (summary.begin_time, summary.end_time) == (at(0), at(9))
        assert next(store.follow(poll=None)).store_time == at(0)
        assert store.consume_queue("A", 0)[0].store_time is None  # a plain unit has no time
        header = store.index.files[0].header
        assert (header.begin_time, header.end_time) == (at(0), at(9))
        (root / "config/consumerOffset.json").write_text('{"offsetTable": {"A@group": {"0": 4}, "B@group": {"0": 0}}}')
        assert [lag.oldest_time for lag in store.consumer_lag("group")] == [at(4), None]
    with rocketstore.open(root, "a") as store:
        result = store.put_message(Message("A", b""), store_timestamp=at(60))
        assert result.store_time == at(60)
        assert store.put_messages([Message("A", b"")], store_timestamp=at(61))[0].store_time == at(61)
        result = store.put_message(Message("A", b""), store_timestamp=2**62)
        assert result.store_time is None

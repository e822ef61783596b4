"""Following a store: own dispatchers, and readers of one that something else writes."""

import itertools
import random
import threading

import numpy as np
import pytest
from reference.commit_log import make_commit_log
from reference.record import INNER_BATCH, build_record
from support.puts import (
    COMMIT,
    PREPARED,
    ROLLBACK,
    TRANSACTIONS,
    config_of,
    draw_plain,
    message_of,
    open_store,
)
from support.waiting import wait_for

import rocketstore
from rocketstore import CorruptFileError, DispatchRequest, IndexService, Message, StoreClosedError, StoreError


def put_many(store, seed, count):
    rng = random.Random(f"{seed} follow")
    return [store.put_message(message_of(draw_plain(rng))) for _ in range(count)]


def put_and_damage(root):
    """Make a store of five messages. The third one is damaged. Return their offsets."""
    with open_store(root) as store:
        offsets = [result.phy_offset for result in put_many(store, 1, 5)]
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(offsets[2] + 4)
        file.write(b"....")
    return offsets


# ---- follow ------------------------------------------------------------------------------------------------


def test_a_request_is_what_the_message_is(tmp_path):
    with open_store(tmp_path / "store") as store:
        properties = {"KEYS": "a b", "TAGS": "TagA", "UNIQ_KEY": "U"}
        message = Message("T", b"x", properties=properties, queue_id=3, sys_flag=COMMIT)
        message.prepared_transaction_offset = 5
        result = store.put_message(message, store_timestamp=7)
        (request,) = store.follow(poll=None)
    assert request == DispatchRequest(
        topic="T",
        queue_id=3,
        phy_offset=0,
        size=result.size,
        tags_code=2598919,
        store_timestamp=7,
        queue_offset=0,
        keys="a b",
        uniq_key="U",
        sys_flag=COMMIT,
        prepared_transaction_offset=5,
        properties=properties,
        msg_base_offset=0,
        batch_size=1,
    )


@pytest.mark.parametrize("base", ["\u0660" * 25 + "\u0661", "+1", "\uff11"])
@pytest.mark.parametrize("number", ["1", "\u0967"])
def test_an_inner_batch_has_the_numbers_that_java_reads_for_every_reader(base, number, tmp_path):
    (tmp_path / "commitlog").mkdir()
    body = b"\0\0\0\x17" + bytes(12) + b"\0\0\0\1x" + bytes(2)
    properties = {"INNER_BASE": base, "INNER_NUM": number}
    record = build_record("B", body, properties=properties, sys_flag=INNER_BATCH, queue_offset=9)
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(record.ljust(4096, b"\0"))
    assert not any("inner" in str(finding.kind) for finding in rocketstore.verify(tmp_path).findings)
    with rocketstore.open(tmp_path) as store:
        ((message,),) = store.scan()
        (request,) = store.follow(poll=None)
    assert [inner.queue_offset for inner in message.decode_batch()] == [1]
    assert (request.msg_base_offset, request.batch_size) == (1, 1)


@pytest.mark.parametrize(
    "properties",
    [
        {"INNER_BASE": "\U0001d7cf", "INNER_NUM": "1"},
        {"INNER_BASE": "1", "INNER_NUM": "40000"},
        {"INNER_BASE": "0", "INNER_NUM": "²"},
    ],
)
def test_an_inner_batch_with_a_number_that_java_refuses_is_damage_for_every_reader(properties, tmp_path):
    (tmp_path / "commitlog").mkdir()
    record = build_record("B", b"", properties=properties, sys_flag=INNER_BATCH)
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(record.ljust(4096, b"\0"))
    message = Message.of_fields({"properties": properties, "raw_body": b"", "phy_offset": 0, "sys_flag": INNER_BATCH})
    with pytest.raises(CorruptFileError, match="INNER_"):
        message.decode_batch()
    kinds = {str(finding.kind) for finding in rocketstore.verify(tmp_path).findings}
    assert "log-inner-batch" in kinds
    with rocketstore.open(tmp_path) as store, pytest.raises(CorruptFileError, match="INNER_"):
        list(store.follow(poll=None))


def test_transactions_of_every_type_are_followed(tmp_path):
    with open_store(tmp_path / "store") as store:
        for sys_flag in TRANSACTIONS:
            store.put_message(Message("T", b"", sys_flag=sys_flag))
        assert [request.sys_flag for request in store.follow(poll=None)] == [0, PREPARED, COMMIT, ROLLBACK]


def test_an_inner_batch_is_one_request_with_its_base_and_size(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("Batched", 1, queue_type="BatchCQ")
        for _ in range(2):
            store.put_message(Message.batch("Batched", [Message("Batched", b"x")] * 3, queue_id=0))
        found = [(request.msg_base_offset, request.batch_size) for request in store.follow(poll=None)]
    assert found == [(0, 3), (3, 3)]


def test_following_begins_at_an_offset_and_goes_over_all_files(seed, tmp_path):
    with open_store(tmp_path / "store") as store:
        results = put_many(store, seed, 120)
    offsets = [result.phy_offset for result in results]
    with rocketstore.open(tmp_path / "store") as reader:
        for i in (0, 1, 37, 119):
            assert [request.phy_offset for request in reader.follow(offsets[i], poll=None)] == offsets[i:]
        last = results[-1]
        assert list(reader.follow(last.phy_offset + last.size, poll=None)) == []
        assert [request.phy_offset for request in reader.follow(-5, poll=None)] == offsets
        batches = list(reader.follow_batches(offsets[50], columns=["phy_offset"], poll=None))
        assert [int(offset) for batch in batches for offset in batch.phy_offset] == offsets[50:]
        assert {tuple(batch.columns) for batch in batches} == {("phy_offset",)}


def test_columns_of_an_iterator_are_followed_in_every_batch(tmp_path):
    with open_store(tmp_path / "store") as store:
        put_many(store, 1, 3)
        batches = store.follow_batches(columns=iter(["topic", "phy_offset"]), stop=threading.Event())
        first = next(batches)
        put_many(store, 2, 3)
        second = next(batches)
        assert (len(first), len(second)) == (3, 3)
        assert list(first.columns) == list(second.columns) == ["topic", "phy_offset"]


def test_followed_requests_can_be_indexed(seed, tmp_path):
    with open_store(tmp_path / "store") as store:
        put_many(store, seed, 30)
        store.flush()
        sizes = {"hash_slot_num": store.config.max_hash_slot_num, "index_num": store.config.max_index_num}
        with IndexService.open(tmp_path / "index", "a", **sizes) as index:
            for request in store.follow(poll=None):
                index.build_index(request)
            found = [(file.header, len(file)) for file in index.files]
        assert found == [(file.header, len(file)) for file in store.index.files]


def test_following_from_within_a_record_begins_with_the_next(tmp_path):
    with open_store(tmp_path / "store") as store:
        offsets = [result.phy_offset for result in put_many(store, 1, 3)]
        assert [request.phy_offset for request in store.follow(offsets[1] + 5, poll=None)] == offsets[2:]


def test_following_does_not_end_at_damage_before_other_messages_without_a_word(tmp_path):
    offsets = put_and_damage(tmp_path / "store")
    with rocketstore.open(tmp_path / "store") as reader:
        with pytest.raises(CorruptFileError, match=f"at byte {offsets[2]}"):
            list(reader.follow(0, poll=None))
        assert [request.phy_offset for request in reader.follow(offsets[3], poll=None)] == offsets[3:]


def test_following_again_from_damage_raises_again(tmp_path):
    offsets = put_and_damage(tmp_path / "store")
    found = []
    with rocketstore.open(tmp_path / "store") as reader:
        for _ in range(3):
            place = found[-1].phy_offset + found[-1].size if found else 0
            with pytest.raises(CorruptFileError, match=f"at byte {offsets[2]}"):
                found.extend(reader.follow(place, poll=None))
    assert [request.phy_offset for request in found] == offsets[:2]


def test_a_follower_that_waits_where_a_damaged_record_is_written_raises(tmp_path, monkeypatch):
    monkeypatch.setattr("rocketstore.log.end_finder.LOOK_AHEAD_SECONDS", 0)
    with open_store(tmp_path / "store") as store:
        offsets = [result.phy_offset for result in put_many(store, 1, 5)]
    path = tmp_path / "store" / "commitlog" / f"{0:020}"
    whole = path.read_bytes()
    path.write_bytes(whole[: offsets[2]].ljust(len(whole), b"\0"))
    with rocketstore.open(tmp_path / "store") as reader:
        followed = reader.follow(0)
        assert [next(followed).phy_offset for _ in range(2)] == offsets[:2]
        path.write_bytes(whole[: offsets[2] + 4] + b"...." + whole[offsets[2] + 8 :])
        with pytest.raises(CorruptFileError, match=f"at byte {offsets[2]}"):
            next(followed)


def test_a_place_to_follow_from_may_be_a_number_of_numpy(tmp_path):
    with open_store(tmp_path / "store") as store:
        offsets = [result.phy_offset for result in put_many(store, 1, 3)]
        place = np.uint32(offsets[1])
        assert [request.phy_offset for request in store.follow(place, poll=None)] == offsets[1:]


def test_following_an_expired_place_begins_at_the_log_s_first_file(seed, tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        results = put_many(store, seed, 120)
    for number in range(2):
        (root / "commitlog" / f"{number * 4096:020}").unlink()
    with rocketstore.open(root) as reader:
        expected = [result.phy_offset for result in results if result.phy_offset >= 8192]
        assert [request.phy_offset for request in reader.follow(0, poll=None)] == expected


def test_a_reader_gets_each_message_once_while_another_writes(seed, tmp_path):
    root = tmp_path / "store"
    count = 600
    with open_store(root) as store, rocketstore.open(root, config=config_of()) as reader:
        found, stop = [], threading.Event()

        def follow():
            for request in reader.follow(stop=stop):
                found.append((request.phy_offset, request.topic, request.queue_offset))
                if len(found) == count:
                    return

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            rng = random.Random(f"{seed} while")
            results = []
            while len(results) < count:
                rows = [draw_plain(rng) for _ in range(min(rng.randrange(1, 20), count - len(results)))]
                results += [
                    (placed.phy_offset, row["topic"], placed.queue_offset)
                    for row, placed in zip(rows, store.put_messages(list(map(message_of, rows))), strict=True)
                ]
            wait_for(lambda: len(found) == count)
        finally:
            stop.set()
            thread.join()
    assert found == results


def test_following_resumes_where_it_was_left(seed, tmp_path):
    with open_store(tmp_path / "store") as store:
        at, found, expected = 0, [], []
        for _ in range(10):
            expected += [result.phy_offset for result in put_many(store, seed, 10)]
            for request in itertools.islice(store.follow(at, poll=None), 7):
                found.append(request.phy_offset)
                at = request.phy_offset + request.size
        assert found == expected[:70]
        assert [request.phy_offset for request in store.follow(at, poll=None)] == expected[70:]


def test_following_stops_on_request(tmp_path):
    with open_store(tmp_path / "store") as store:
        stop = threading.Event()
        threading.Timer(0.05, stop.set).start()
        assert list(store.follow(stop=stop)) == []
        assert list(store.follow_batches(stop=stop)) == []


def test_following_ends_with_an_error_when_the_store_is_closed(tmp_path):
    store = open_store(tmp_path / "store")
    store.put_message(Message("T", b""))
    followed = store.follow()
    assert next(followed).phy_offset == 0
    store.close()
    with pytest.raises(StoreClosedError):
        next(followed)


def foreign_log(root, *properties):
    """The log of a writer that puts what a broker could not dispatch: a message with each of these properties."""
    (root / "commitlog").mkdir(parents=True)
    return make_commit_log(root / "commitlog", 1 << 14, [{"properties": each} for each in properties])


BAD_NUMBERS = [
    {"INNER_NUM": "x", "INNER_BASE": "1"},
    {"INNER_NUM": "32768", "INNER_BASE": "1"},
    {"INNER_NUM": "2", "INNER_BASE": "9223372036854775808"},
]


@pytest.mark.parametrize("properties", BAD_NUMBERS)
@pytest.mark.parametrize("follow", ["follow", "follow_batches"])
def test_following_ends_at_numbers_of_an_inner_batch_that_are_none(follow, properties, tmp_path):
    """Also at the end of the log, where a scan does not count this record."""
    for after in ([], [{}]):
        root = tmp_path / str(len(after))
        offsets = foreign_log(root, {}, properties, *after)
        with rocketstore.open(root) as store:
            options = {"columns": ["phy_offset", "tags_code"]} if follow == "follow_batches" else {}
            with pytest.raises(CorruptFileError, match="INNER_NUM") as caught:
                list(getattr(store, follow)(poll=None, **options))
            assert (caught.value.path, caught.value.offset) == (root / "commitlog" / f"{0:020}", offsets[1])
            # A reader that does not select the damaged fields reads this record.
            batches = store.follow_batches(columns=["phy_offset"], poll=None)
            assert [offset for batch in batches for offset in batch.phy_offset.tolist()] == offsets


def test_numbers_of_an_inner_batch_are_followed_however_many_zeros_they_have(tmp_path):
    foreign_log(tmp_path, {"INNER_NUM": "0" * 5000 + "2", "INNER_BASE": "+" + "0" * 5000 + "7"}, {"INNER_NUM": "x"})
    with rocketstore.open(tmp_path) as store:
        found = [(request.msg_base_offset, request.batch_size) for request in store.follow(poll=None)]
    assert found == [(7, 2), (1, 1)]


def test_a_store_that_is_empty_has_nothing_to_follow(tmp_path):
    with open_store(tmp_path / "store") as store:
        assert list(store.follow(poll=None)) == []
        assert list(store.follow_batches(poll=None)) == []


# ---- own dispatchers ---------------------------------------------------------------------------------------


class Collector:
    """An own dispatcher that keeps what it is called with."""

    def __init__(self, store=None):
        self.store, self.offsets, self.seen = store, [], []

    def __call__(self, batch):
        self.offsets += batch.phy_offset.tolist()
        if self.store is not None:
            message = batch[len(batch) - 1]
            self.seen.append(self.store.consume_queue(message.topic, message.queue_id).max_queue_offset)


def test_own_dispatchers_get_every_message_once_and_in_order(seed, tmp_path):
    with open_store(tmp_path / "store") as store:
        first, second = Collector(), Collector()
        store.add_dispatcher(first)
        store.add_dispatcher(second)
        expected = [result.phy_offset for result in put_many(store, seed, 150)]
        expected += store.put_messages([Message("T", bytes(500))] * 50).phy_offsets.tolist()
    assert first.offsets == expected
    assert second.offsets == expected


def test_own_dispatchers_get_the_messages_that_are_put_after_they_were_added(tmp_path):
    with open_store(tmp_path / "store") as store:
        before = [store.put_message(Message("T", b"")).phy_offset for _ in range(3)]
        store.flush()
        collector = Collector()
        store.add_dispatcher(collector)
        after = store.put_message(Message("T", b"")).phy_offset
        store.flush()
    assert collector.offsets in ([after], [*before, after])


def test_queues_and_index_have_what_an_own_dispatcher_is_called_with(tmp_path):
    with open_store(tmp_path / "store") as store:
        seen = []

        def look(batch):
            for message in (batch[i] for i in range(len(batch))):
                queue = store.consume_queue(message.topic, message.queue_id)
                assert queue[message.queue_offset].phy_offset == message.phy_offset
                assert message.phy_offset in list(store.index.query_offset("T", "k", 64).phy_offsets)
                seen.append(message.phy_offset)

        store.add_dispatcher(look)
        expected = [store.put_message(Message("T", b"", keys="k")).phy_offset for _ in range(30)]
    assert seen == expected


def test_an_own_dispatcher_may_put(tmp_path):
    with open_store(tmp_path / "store") as store:

        def copy(batch):
            rows = [batch[i] for i in range(len(batch))]
            store.put_messages([Message("Copy", m.body) for m in rows if m.topic == "T"])

        store.add_dispatcher(copy)
        for i in range(20):
            store.put_message(Message("T", b"%d" % i, queue_id=0))
        # a scan of the topic would warn while it has no queue yet
        wait_for(lambda: sum(message.topic == "Copy" for batch in store.scan() for message in batch) == 20)
        store.flush()


def test_what_own_dispatchers_put_for_one_another_is_there_when_the_store_is_closed(tmp_path):
    following = {"A": "B", "B": "C", "C": "D"}
    with open_store(tmp_path / "store") as store:

        def go_on(batch):
            for message in batch:
                if message.topic in following:
                    store.put_message(Message(following[message.topic], message.body, queue_id=0))

        store.add_dispatcher(go_on)
        for i in range(5):
            store.put_message(Message("A", b"%d" % i, queue_id=0))
    assert not (tmp_path / "store" / "abort").exists()
    with rocketstore.open(tmp_path / "store") as store:
        assert [store.consume_queue(topic, 0).max_queue_offset for topic in "ABCD"] == [5] * 4


@pytest.mark.parametrize("error", [ValueError("mine"), OSError(5, "mine"), KeyError("mine"), RuntimeError("mine")])
def test_what_an_own_dispatcher_raises_ends_the_writing(error, tmp_path):
    def fail(batch):
        raise error

    root = tmp_path / "store"
    store = open_store(root)
    store.put_message(Message("T", b"", queue_id=0))
    store.flush()
    store.add_dispatcher(fail)
    store.put_message(Message("T", b"", queue_id=0))

    def is_refused():
        try:
            store.put_message(Message("T", b"", queue_id=0))
        except StoreError as refused:
            return refused.__cause__ is error
        return False

    wait_for(is_refused)
    store.close()
    assert (root / "abort").exists()


def test_a_dispatcher_needs_a_writer(tmp_path):
    open_store(tmp_path / "store").close()
    with rocketstore.open(tmp_path / "store") as reader, pytest.raises(OSError, match="mode 'a'"):
        reader.add_dispatcher(print)


def test_what_cannot_be_called_is_no_dispatcher(tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(TypeError, match="dispatcher=None"):
            store.add_dispatcher(None)
        store.put_message(Message("T", b""))
        store.flush()


def test_an_own_dispatcher_may_not_close_its_store(tmp_path):
    errors = []

    def close(batch):
        try:
            store.close()
        except StoreError as error:
            errors.append(str(error))

    root = tmp_path / "store"
    store = open_store(root)
    store.add_dispatcher(close)
    store.put_message(Message("T", b"", queue_id=0))
    wait_for(lambda: errors)
    assert "own dispatcher" in errors[0]
    assert rocketstore.open(root).is_locked
    assert store.put_message(Message("T", b"", queue_id=0)).queue_offset == 1
    assert store.get_message("T", 0, 0).messages.queue_offset.tolist() == [0, 1]
    store.close()
    assert len(errors) == 2
    assert not (root / "abort").exists()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("rocketstore")]

"""A plain message is put by one C call, with the same bytes, results and errors as by ``StoreWriter.put_message``."""

import gc
import os
import random
import signal
import threading
import zlib

import numpy as np
import pytest
from support.puts import BEGIN, COMMIT, INNER_BATCH, PARTS, PREPARED, files_under, index_files, open_store

import rocketstore
from rocketstore import Message, StoreClosedError, StoreError
from rocketstore.kernels.message_slots import has_fields, own_fields
from rocketstore.kernels.plain_put import put_plain

HOST = "10.0.0.1:10911"
FILE_SIZE = 1 << 17  # large bodies fit, and a log has several files


class Text(str):
    """A subclass of str, whose methods may be Python code."""

    __slots__ = ()


class Number:
    """An integer of a type of its own, which Python converts by a call of ``__index__``."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Special(Message):
    """A subclass with an attribute of its own, and a property in place of a field."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.more = 5

    @property
    def tags(self):
        return "never"


ODD = {
    "topic": ["", "题目", "x" * 127, "x" * 128, "题" * 127, "a/b", "\ud800", Text("T0"), 5, None],
    "body": [b"", bytes(40_000), bytes(33_000), bytes(200_000), bytearray(b"x"), "text", None],
    "queue_id": [None, 63, 64, 5000, -1, 2**31, True, np.int32(2), 1.0, "x", Number(1)],
    "flag": [-1, 2**31 - 1, 2**31, 2**70, np.int64(7), True, "x", None, Number(3)],
    "sys_flag": [PREPARED, COMMIT, 0xC, 0x30, 1, 0x301, INNER_BATCH, 2**31, np.int32(0), "x"],
    "born_timestamp": [-1, 2**63 - 1, 2**63, np.int64(5), 1.5],
    "born_host": ["[::1]:5", "1.2.3.4:-1", "nowhere", "1.2.3.4", Text("1.2.3.4:5"), 5],
}
ODD_PROPERTIES = [
    {"DELAY": "3"},
    {"DELAY": "x"},
    {"D": "1"},
    {"INNER_NUM": "2"},
    {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"},
    {"a": "b\x02c"},
    {"a\x02": "b"},
    {"": "x"},
    {"a": None, "b": "c"},
    {"a": 5},
    {5: "a"},
    {"题": "é"},
    {"a": "\ud800"},
    {Text("a"): Text("b")},
    {"a": "x" * 32_760},
    {"a": "x" * 32_765},
    {"a": "x" * 40_000},
    {"__CRC32#": "1"},
    {"WAIT": "true"},
    {"KEYS": "k1 k2", "TAGS": "t", "UNIQ_KEY": "u"},
]


def draw_message(rng):
    """Half of the messages are plain; the others have one or two unusual fields."""
    fields = {
        "topic": rng.choice(["T0", "T1", "题"]),
        "body": rng.randbytes(rng.choice([0, 1, 100, 1000, 5000])),
        "queue_id": rng.randrange(4),
        "flag": rng.randrange(9),
        "born_timestamp": BEGIN,
        "born_host": "127.0.0.1:1",
    }
    properties = {f"p{i}": "v" * rng.randrange(30) for i in range(rng.randrange(4))}
    if rng.random() < 0.5:
        for name in rng.choices([*ODD, "properties"], k=rng.choice([1, 1, 2])):
            if name == "properties":
                properties |= rng.choice(ODD_PROPERTIES)
            else:
                fields[name] = rng.choice(ODD[name])
        if fields.get("sys_flag") in (1, 0x301) and rng.random() < 0.7:
            fields["body"] = zlib.compress(b"body")
    born_timestamp = fields.pop("born_timestamp")
    message = rng.choice([Message, Message, Message, Special])(**fields)
    message.properties, message.born_timestamp = properties, born_timestamp
    return changed(rng, message) if rng.random() < 0.3 else message


def changed(rng, message):
    """Return a message that was changed after it was made, or another object in its place."""
    change = rng.randrange(8)
    if change == 0 and isinstance(message.raw_body, bytes) and not message.sys_flag:
        message.body  # noqa: B018 - the message keeps it
    elif change == 1:
        message.__dict__["flag"] = 8
    elif change == 2:
        message.reconsume_times, message.prepared_transaction_offset = 3, 4
    elif change == 3:
        message.store_host, message.store_timestamp = "9.9.9.9:9", 5
    elif change == 4:
        message.properties = rng.choice([None, [], type("D", (dict,), {})(a="b")])
    elif change == 5:
        delattr(message, rng.choice(["topic", "raw_body", "properties", "queue_id", "flag", "sys_flag", "born_host"]))
    elif change == 6:
        return Message.of_fields({"topic": "T0", "body": b"read", "tags": "t", "keys": ["a"], "born_timestamp": BEGIN})
    else:
        return rng.choice([None, 5, "text", object, own_fields(message)])
    return message


def outcome(put, message, **options):
    """Return the result of a put, or the type and text of its error."""
    try:
        return put(message, **options)
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"enable_lmq": True},
        {"enabled_append_prop_crc": True},
        {"compat": "4.5.2"},
        {"max_message_size": 3000},
        {"flush_disk_type": "SYNC_FLUSH"},
    ],
    ids=str,
)
def test_plain_put_and_put_message_write_the_same_files(options, seed, tmp_path):
    rng = random.Random(f"{seed} plain {options}")
    options = {"store_host": HOST, "mapped_file_size_commit_log": FILE_SIZE, **options}
    plain = 0
    with open_store(tmp_path / "plain", **options) as store, open_store(tmp_path / "other", **options) as other:
        other._writer.plain_put.close()
        for _ in range(400):
            message = draw_message(rng)
            result = store._writer.plain_put.put(message)
            plain += result is not None
            if result is None:
                result = outcome(store.put_message, message)
            time = getattr(result, "store_timestamp", None)
            again = outcome(other.put_message, without_store(message), store_timestamp=time)
            assert again == result, fields_of(message)
            assert store._writer.phy_offset == other._writer.phy_offset
    assert (plain > 100) != ("enabled_append_prop_crc" in options)
    ours, theirs = files_under(tmp_path / "plain", *PARTS), files_under(tmp_path / "other", *PARTS)
    assert ours == theirs
    assert index_files(tmp_path / "plain") == index_files(tmp_path / "other")
    assert rocketstore.verify(tmp_path / "plain").ok


def fields_of(message):
    return own_fields(message) if isinstance(message, Message) else message


def without_store(message):
    """Return a message without its store host, which a put with a given time would keep."""
    if isinstance(message, Message) and has_fields(message, "store_host"):
        del message.store_host
    return message


def plain_message(number=0, **fields):
    return Message("T", b"%d" % number, queue_id=number % 4, born_timestamp=BEGIN, **fields)


def put_first_messages(store):
    """Put one message into each queue: later messages of these queues and their host are plain."""
    for number in range(4):
        store.put_message(plain_message(number))
    assert store._writer.plain_put.put(plain_message()) is not None
    return store


def test_a_plain_message_is_put_by_one_call(tmp_path):
    with put_first_messages(open_store(tmp_path / "store")) as store:
        result = store._writer.plain_put.put(plain_message(1))
        assert type(result) is type(store.put_message(plain_message(1)))
        assert store.get_message("T", 1, result.queue_offset).messages[0].body == b"1"


def test_plain_messages_of_many_queues_get_the_next_queue_offset_of_each(tmp_path):
    queues = [(topic, queue_id) for topic in ("T", "Other") for queue_id in (0, 1, 16, 17, 33, 2000)]
    with open_store(tmp_path / "store") as store:
        for queue_offset in (0, 2, 4):
            for topic, queue_id in queues:
                equal_topic = "".join([*topic])  # a new object
                for following in (queue_offset, queue_offset + 1):
                    result = store.put_message(message_of_queue(equal_topic, queue_id))
                    assert (result.queue_id, result.queue_offset) == (queue_id, following)
        assert store._writer.plain_put.put(message_of_queue("T", 16 + 2**64)) is None
        assert store._writer.plain_put.put(message_of_queue("New", 16)) is None
        for topic, queue_id in queues:
            messages = store.get_message(topic, queue_id, 0, max_msg_nums=10).messages
            assert [(message.topic, message.queue_offset) for message in messages] == [(topic, i) for i in range(6)]


def message_of_queue(topic, queue_id):
    return Message(topic, b"1", queue_id=queue_id)


def test_a_plain_message_waits_for_the_disk(tmp_path):
    with open_store(tmp_path / "store", flush_disk_type="SYNC_FLUSH") as store:
        for _ in range(3):
            end = store.put_message(plain_message())
            assert store._writer._log.files.flushed_where >= end.phy_offset + end.size
        assert put_plain(store, plain_message()) is None  # it would not wait


def test_a_closed_store_takes_no_plain_message(tmp_path):
    store = put_first_messages(open_store(tmp_path / "store"))
    writer = store._writer
    store.close()
    assert writer.plain_put.put(plain_message()) is None
    with pytest.raises(StoreClosedError):
        store.put_message(plain_message())


def test_a_store_that_failed_takes_no_plain_message(tmp_path):
    store = put_first_messages(open_store(tmp_path / "store"))
    store._writer._failure.set_error(OSError(5, "a failure"), is_raised=True)
    assert store._writer.plain_put.put(plain_message()) is None
    with pytest.raises(StoreError, match="takes no more messages after"):
        store.put_message(plain_message())
    store.close()


def test_a_plain_message_is_put_without_python_code_of_an_earlier_host(tmp_path):
    class Host(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            called.append(other)
            return str.__eq__(self, other)

    called = []
    with put_first_messages(open_store(tmp_path / "store")) as store:
        store.put_message(plain_message(born_host=Host("1.2.3.4:5")))
        called.clear()
        assert store._writer.plain_put.put(plain_message(born_host="".join(["1.2.3.4", ":5"]))) is not None
        assert not called


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_takes_no_plain_message(tmp_path):
    with put_first_messages(open_store(tmp_path / "store")) as store:
        pid = os.fork()
        if pid == 0:
            try:
                store.put_message(plain_message())
            except StoreError:
                os._exit(0 if store._writer.plain_put.put(plain_message()) is None else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert store.put_message(plain_message()).queue_offset == 2


def test_a_put_waits_while_another_call_has_the_lock(tmp_path):
    with put_first_messages(open_store(tmp_path / "store")) as store:
        results = []
        with store._writer._log.lock:
            assert store._writer.plain_put.put(plain_message()) is None
            thread = threading.Thread(target=lambda: results.append(store.put_message(plain_message())))
            thread.start()
            thread.join(0.05)
            assert not results
        thread.join()
        assert results[0].queue_offset == 2


def test_finalizers_that_put_while_a_message_is_put_find_a_sound_log(tmp_path):
    class Putting:
        def __init__(self):
            self.cycle = self

        def __del__(self):
            if not store._writer._log.lock.locked():
                finalized.append(store.put_message(plain_message()).phy_offset)

    finalized, before = [], gc.get_threshold()
    gc.collect()
    with put_first_messages(open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20)) as store:
        gc.set_threshold(3, 1, 1)
        try:
            for number in range(100):
                Putting()
                finalized.append(store.put_message(plain_message(number)).phy_offset)
        finally:
            gc.set_threshold(*before)
            gc.collect()
    assert len(finalized) == len(set(finalized)) > 150
    assert rocketstore.verify(tmp_path / "store").ok


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that signals")
def test_a_handler_of_a_signal_may_put_while_plain_messages_are_put(tmp_path):
    handled = []

    def handler(*_):
        if not store._writer._log.lock.locked():
            handled.append(store.put_message(plain_message(len(handled))).phy_offset)

    with put_first_messages(open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20)) as store:
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            mine = []
            while len(mine) < 5000 or not handled:
                mine.append(store.put_message(plain_message(len(mine))).phy_offset)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert len({*mine, *handled}) == len(mine) + len(handled)
    assert rocketstore.verify(tmp_path / "store").ok


def test_threads_put_plain_and_other_messages_at_once(tmp_path):
    def put(first):
        for number in range(first, first + 300):
            if number % 50 == 0:
                store.put_messages([plain_message(number), plain_message(number)])
            else:
                store.put_message(plain_message(number, properties={"DELAY": "1"} if number % 7 == 0 else {}))

    with put_first_messages(open_store(tmp_path / "store")) as store:
        threads = [threading.Thread(target=put, args=[1000 * i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(len(batch) for batch in store.scan(columns=["phy_offset"])) == 5 + 4 * 306
    assert rocketstore.verify(tmp_path / "store").ok

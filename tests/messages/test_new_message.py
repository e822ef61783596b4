"""A call of Message makes the message in C if no argument must be converted. The message is that of ``__init__``."""

import gc
import inspect
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

from rocketstore import Message
from rocketstore.kernels.message_slots import own_fields


class Plain(Message):
    """Its calls run ``Message.__init__``."""


class Text(str):
    __slots__ = ()


CALLS = [
    {},
    {"keys": "k"},
    {"keys": ""},
    {"keys": ()},
    {"keys": []},
    {"keys": ["k"]},
    {"keys": ("k", "l", "m")},
    {"keys": [Text("k")]},
    {"keys": {"k": 1}},
    {"keys": "ключ", "tags": "标签"},
    {"tags": "t", "uniq_key": "u"},
    {"tags": 5, "uniq_key": ""},
    {"properties": {}},
    {"properties": {"TAGS": "old", "a": "b"}, "tags": "new", "keys": "k"},
    {"properties": Message("U", b"", tags="x").properties},
    {"queue_id": 3, "flag": 1, "sys_flag": 8, "born_host": "1.2.3.4:5"},
    {"queue_id": None, "properties": None, "tags": None, "uniq_key": None},
    {"born_timestamp": None, "store_timestamp": None, "compress": None},
    {"born_timestamp": 1_700_000_000_000},
    {"born_timestamp": datetime(2026, 1, 2, tzinfo=UTC), "store_timestamp": "2026-01-02"},
    {"delay_time_level": 3},
    {"delay_time_level": 0, "compress": "zlib"},
]


def fields_of(message):
    fields = own_fields(message)
    return {**fields, "properties": [*fields["properties"].items()]}  # the order counts


@pytest.mark.parametrize("body", [b"body", "text", bytearray(b"x"), b""])
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_call_makes_the_message_of_init(number, body):
    options = CALLS[number]
    if isinstance(body, bytearray) and options.get("compress"):
        body = bytes(body)
    before = time.time_ns() // 1_000_000
    for made, expected in [
        (Message("T", body, **options), Plain("T", body, **options)),
        (Message(topic="T", body=body, **options), Plain("T", body, **options)),
        (Message("T", body=body, **options), Plain("T", body, **options)),
    ]:
        assert type(made) is Message
        if options.get("born_timestamp") is None:
            assert before <= made.born_timestamp <= expected.born_timestamp + 1
            expected.born_timestamp = made.born_timestamp
        assert fields_of(made) == fields_of(expected)


def test_keys_may_be_an_iterator():
    assert Message("T", b"", keys=(f"k{i}" for i in range(2))).properties == {"KEYS": "k0 k1"}


def test_a_message_has_a_dict_of_properties_of_its_own():
    given = {"a": "b"}
    message = Message("T", b"", keys="k", properties=given)
    assert given == {"a": "b"}
    message.properties["c"] = "d"
    assert Message("T", b"", properties=given).properties == {"a": "b"}


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((), {}),
        (("T",), {}),
        (("T", b"", "k"), {}),
        (("T", b""), {"topic": "U"}),
        (("T", b""), {"key": "k"}),
        (("T", b""), {"keys": "a b"}),
        (("T", b""), {"keys": ["a", "b c"]}),
        (("T", b""), {"keys": [5]}),
        (("T", b""), {"keys": ["a", None]}),
        (("T", b""), {"keys": 5}),
        (("T", b""), {"keys": None}),
        (("T", b""), {"properties": 5}),
        (("T", "\ud800"), {}),
        (("T", b""), {"compress": "rar"}),
        (("T", b""), {"born_timestamp": 5.5}),
        (("T", b""), {"delay_time_level": "3"}),
    ],
)
def test_a_wrong_call_raises_the_error_of_init(args, options):
    with pytest.raises((TypeError, ValueError)) as expected:
        Plain(*args, **options)
    with pytest.raises(type(expected.value)) as found:
        Message(*args, **options)
    assert str(found.value) == str(expected.value)


def test_a_subclass_and_a_replaced_init_are_called(monkeypatch):
    class Own(Message):
        def __init__(self, topic, body):
            super().__init__(topic, body, tags="own")

        def __setattr__(self, name, value):
            super().__setattr__(name, value.upper() if name == "topic" else value)

    assert (Own("t", b"").topic, Own("t", b"").tags) == ("T", "own")
    monkeypatch.setattr(Message, "__init__", lambda self, *args: setattr(self, "topic", args))
    assert Message(1, 2, 3).topic == (1, 2, 3)
    monkeypatch.undo()
    assert Message("T", b"").topic == "T"
    assert list(inspect.signature(Message).parameters)[:3] == ["topic", "body", "keys"]


def test_no_reference_is_lost_or_kept():
    topic, body, key, host = "Topic" * 2, b"body" * 2, "key" * 2, "host" * 2
    objects = (topic, body, key, host, Message, "127.0.0.1:0", Message.__init__)
    gc.collect()  # messages of other tests, which refer to the class
    counts = [sys.getrefcount(value) for value in objects]
    for _ in range(1000):
        Message(topic, body, keys=key, tags=key, born_host=host)
        Message(topic, body, keys=[key], uniq_key=key, properties={"a": host})
        with pytest.raises(ValueError, match="space"):
            Message(topic, body, keys=f"{key} ")
    assert all(abs(sys.getrefcount(value) - count) < 500 for value, count in zip(objects, counts, strict=True))


def test_messages_are_made_in_several_threads():
    made = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda own=own: own.extend(Message("T", b"x", keys=f"k{i}") for i in range(2000)))
        for own in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[message.properties["KEYS"] for message in own] for own in made] == [[f"k{i}" for i in range(2000)]] * 4

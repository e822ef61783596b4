"""Each result shows itself in fewer than 20 lines, however large it is."""

import dataclasses
from types import MappingProxyType

import numpy as np
import pytest

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.preview import Preview, Previewed

MANY = 3000
LARGE = ("list", "Sequence", "Mapping", "dict", "bytes", "tuple", "NDArray")  # parts of types whose values may be large
NO_RESULTS = {"StoreConfig"}


def annotations(cls):
    found = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("__annotations__", {})
    return {name: getattr(kind, "__forward_arg__", str(kind)) for name, kind in found.items()}


def large_value(kind):
    if "NDArray" in kind:
        return np.arange(MANY)
    if "bytes" in kind:
        return bytes(1 << 20)
    if "dict" in kind or "Mapping" in kind:
        return MappingProxyType({f"name {n}": "line\n" * MANY for n in range(MANY)})
    return ["line\n" * MANY] * MANY


CLASSES = {name: getattr(rocketstore, name) for name in rocketstore.__all__}
RECORDS = {
    name: cls
    for name, cls in CLASSES.items()
    if isinstance(cls, type) and (issubclass(cls, tuple) or dataclasses.is_dataclass(cls)) and name not in NO_RESULTS
}


@pytest.mark.parametrize("name", [name for name, cls in RECORDS.items() if not issubclass(cls, Previewed)])
def test_a_result_with_large_fields_is_one_short_line_or_table(name):
    cls = RECORDS[name]
    kinds = {field: kind for field, kind in annotations(cls).items() if field in cls.__match_args__}
    values = {
        field: large_value(kind) if any(word in kind for word in LARGE) else None for field, kind in kinds.items()
    }
    if issubclass(cls, tuple):
        made = cls(**values)
    else:
        made = object.__new__(cls)
        for field, value in values.items():
            object.__setattr__(made, field, value)
    assert len(repr(made).splitlines()) < 20
    assert len(repr(made)) < 5000


def test_a_preview_has_few_lines_however_many_rows_and_notes_it_has():
    shown = Preview("Many", ("a",), rocketstore.preview.first_of([("x",)] * MANY), ["a\nb"] * MANY)
    lines = shown.text().splitlines()
    assert len(lines) == 19
    assert lines[1:5] == ["a b"] * 3 + ["… 2,997 more>"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of 60 topics with 40 messages each, of which two groups have read a few."""
    root = tmp_path_factory.mktemp("reprs") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        rows = [
            Message(f"Topic{n % 60:02}", b"line\n" * 50, keys=[f"k{n}", "all"], tags=f"t{n}", queue_id=n // 60 % 30)
            for n in range(2400)
        ]
        store.put_messages(rows)
    with rocketstore.open(root) as store:
        yield store


RESULTS = [
    lambda store: store,
    lambda store: store.topics,
    lambda store: store["Topic01"],
    lambda store: store.head(100),
    lambda store: store.scan(),
    lambda store: store.query_message("Topic01", "all"),
    lambda store: store.query_messages([f"Topic{n:02}" for n in range(60)], ["all"] * 60),
    lambda store: store.get_message("Topic01", 0, 0),
    lambda store: store.summary(),
    lambda store: store.du(),
    lambda store: store.du(by="queue"),
    lambda store: store.count("topic,tag"),
    lambda store: store.pending(),
    lambda store: store.metrics(),
    lambda store: store.expiry(),
    lambda store: store.trace("all"),
    lambda store: store.dataset(),
    lambda store: store.sql("SELECT * FROM messages"),
    lambda store: store.consume_queue("Topic01", 0)[:],
    lambda store: store.broker_config,
    lambda store: store.head(1)[0],
    lambda store: store.head(100).body,
    lambda store: rocketstore.verify(store.path),
]


@pytest.mark.parametrize("make", RESULTS)
def test_what_a_store_returns_is_shown_in_few_lines(make, store):
    pytest.importorskip("duckdb")
    shown = repr(make(store))
    assert len(shown.splitlines()) < 20
    assert len(shown) < 10_000


def test_a_put_of_many_messages_is_shown_in_few_lines(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        lines = repr(store.put_messages([Message("T", b"x", queue_id=0)] * MANY, store_timestamp=0)).splitlines()
    assert lines[0] == "<PutMessagesResult: 3,000 messages, 0 to 279,000>"
    assert lines[2].split() == ["0", "93", "0", "0", "1970-01-01", "00:00:00.000+00:00", "127.0.0.1:10911"]
    assert len(lines) == 13

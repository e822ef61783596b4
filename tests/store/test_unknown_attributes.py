"""An attribute of another tool, a missing key and an empty list: the error or the warning has the line to type."""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.names_of_other_tools import LINES

ROOMS = {path.parent.name for path in Path(rocketstore.__file__).parent.glob("*/__init__.py")}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("attributes") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as writer:
        writer.put_messages([Message(topic, b"x", keys=["k"], tags="t") for topic in ("A", "orders")])
    with rocketstore.open(root) as reader:
        yield reader


@pytest.fixture
def objects(store):
    batch = next(iter(store.scan()))
    return {
        "rocketstore": rocketstore,
        "store": store,
        "topic": store["A"],
        "scan": store.scan(),
        "result": store.query_message("A", "k"),
        "batch": batch,
        "message": batch[0],
    }


@pytest.mark.parametrize("word", LINES)
def test_the_line_for_a_name_of_another_tool_has_attributes_that_exist(objects, word):
    for name, line in LINES[word].items():
        with pytest.raises(AttributeError, match=re.escape(line.replace("X", word))):
            getattr(objects[word], name)
        for found in re.findall(rf"\b({'|'.join(LINES)})\.(?!store\b)(\w+)", line.replace("X", word)):
            assert hasattr(objects[found[0]], found[1]), line


@pytest.mark.parametrize(
    ("word", "name", "line"),
    [
        ("rocketstore", "verfy", "rocketstore.verify"),
        ("rocketstore", "connect", "rocketstore.open(PATH)"),
        ("store", "dead_leters", "store.dead_letters"),
        ("store", "confg", "store.config"),
        ("topic", "nmae", "topic.name"),
        ("store", "to_duckdb", "table = store.to_arrow(); duckdb.sql('FROM table')"),
        ("store", "orders", "store['orders']"),
        ("store", "to_parquet", "store.to_polars().write_parquet(PATH)"),
        ("topic", "to_panda", "topic.to_pandas"),
        ("message", "value", "message.body"),
        ("batch", "queue_offsett", "batch.queue_offset"),
    ],
)
def test_an_unknown_attribute_names_the_line_that_is_meant(objects, word, name, line):
    with pytest.raises(AttributeError) as raised:
        getattr(objects[word], name)
    assert f"did you mean {line}" in str(raised.value)


@pytest.mark.parametrize("name", sorted(LINES["rocketstore"].keys() & ROOMS))
def test_a_room_with_a_name_of_another_tool_names_the_line(name):
    script = f"import rocketstore, rocketstore.{name}; rocketstore.{name}('store', 'new')"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"did you mean {LINES['rocketstore'][name]}?" in answer.stderr


def test_a_line_is_named_only_for_a_result_that_can_run_it(store):
    report, results = rocketstore.recover(store.path, dry_run=True), store.query_messages("A", ["k"])
    for value, name in ((report, "first"), (report, "size"), (results, "to_parquet")):
        with pytest.raises(AttributeError) as raised:
            getattr(value, name)
        assert "did you mean" not in str(raised.value)
    with pytest.raises(AttributeError, match=r"did you mean result\[0\]"):
        _ = results.first


def test_an_attribute_that_is_like_no_other_gets_no_hint(objects):
    for value in objects.values():
        for name in ("zzzzzz", "__qqq__", "_ipython_display_"):
            with pytest.raises(AttributeError) as raised:
                getattr(value, name)
            assert "did you mean" not in str(raised.value)


def test_an_error_inside_of_a_property_stays_the_same(store):
    class Broken(type(store["A"])):
        @property
        def broken(self):
            raise AttributeError("the reason")

    with pytest.raises(AttributeError, match=r"^the reason$"):
        _ = Broken(store, "A").broken


def test_a_closed_store_has_no_unknown_attribute_either(store):
    closed = pickle.loads(pickle.dumps(store))
    closed.close()
    assert not hasattr(closed, "orders")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda store: store.du("topic"), r"du\(\) takes by, topic, .* by name, such as by='topic'$"),
        (lambda store: store.pending("A"), r"pending\(\) takes topic, .* by name, such as topic='A'$"),
        (lambda store: store.scan("A"), "a topic is given by name, as topic="),
        (lambda store: store[0], r"a store has topics by name, such as store\['Orders'\]"),
        (lambda store: store["A", 0], "a store has topics by name"),
        (lambda store: store.query_message("A", None), "the key is None: give a key, or a topic and a key"),
        (lambda store: store.query_message(), "give a key, or a topic and a key"),
        (lambda store: store.query_messages("A", None), "the key is None"),
        (lambda store: store.query_message_by_unique_key("A", None), "the key is None"),
        (lambda store: store.query_message_by_tag("A", None), "the key is None"),
        (lambda store: store["A"].query(None), "the key is None"),
        (lambda store: store.query_message_by_id(None), "msg_id=None: a str was expected"),
    ],
)
def test_a_wrong_argument_names_the_right_one(store, call, text):
    with pytest.raises(TypeError, match=text):
        call(store)


def test_one_argument_of_a_query_is_the_key(store):
    assert (
        len(store.query_message("k")) == len(store.query_message(key="k")) == len(store.query_message(None, "k")) == 2
    )
    assert len(store.query_message(topic="A", key="k")) == 1


@pytest.mark.parametrize("name", ["topic", "tag", "key", "queue_ids"])
@pytest.mark.parametrize("kind", [list, tuple, set, iter, np.array, "pandas", "polars"], ids=str)
def test_an_empty_list_selects_nothing_and_a_warning_says_so(store, name, kind):
    make = pytest.importorskip(kind).Series if isinstance(kind, str) else kind
    with pytest.warns(UserWarning, match=rf"^{name}=\[\]: an empty list selects nothing: leave {name} out") as found:
        assert store.scan(**{name: make([])}).count() == 0
    assert [warning.filename for warning in found] == [__file__]


@pytest.mark.parametrize("ids", [0, True, np.int64(0), np.array([0, 9]), range(1), (0,)], ids=repr)
def test_queue_ids_are_an_integer_or_several(store, ids):
    count = store.scan(queue_ids=ids).count()
    assert count == store.scan(queue_ids=[1 if ids is True else 0]).count()


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.head(topic=[]),
        lambda store: store.to_arrow(topic=[]),
        lambda store: store.count("topic", topic=()),
        lambda store: store.du(by="topic", topic=[]),
        lambda store: store.lag(topic=[]),
        lambda store: store.consumer_lag([]),
        lambda store: store.pending(topic=[]),
        lambda store: store.dead_letters(group=[]),
        lambda store: store.dataset(topic=[]).to_table(),
        lambda store: rocketstore.scan_polars(store.path, topic=[]).collect(),
        lambda store: rocketstore.scan_polars(store.path, key=[]).collect(),
        lambda store: rocketstore.open_many([store.path]).scan(topic=[]).to_arrow(),
    ],
)
def test_each_function_warns_of_an_empty_list(store, call):
    for name in ("polars", "pyarrow"):
        pytest.importorskip(name)
    with pytest.warns(UserWarning, match=r"(topic|group|key)=\[\]: an empty list selects nothing") as found:
        answer = call(store)
    assert len(answer) == 0
    assert found[0].filename == __file__


def test_an_unknown_topic_of_a_dataset_gives_a_warning(store):
    for name in ("polars", "pyarrow"):
        pytest.importorskip(name)
    for call in (
        lambda: store.dataset(topic="order"),
        lambda: rocketstore.scan_polars(store.path, topic="order"),
        lambda: store.du(by="topic", topic="order"),
    ):
        with pytest.warns(UserWarning, match="no queue of topic 'order': did you mean 'orders'") as found:
            call()
        assert [warning.filename for warning in found] == [__file__]

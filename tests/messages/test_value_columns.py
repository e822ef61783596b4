"""Columns of a batch as containers of Python objects."""

import copy
import pickle

import numpy as np
import pytest

import rocketstore
from rocketstore import Message, StoreConfig, hash_keys

BODIES = [b"", b"\xff\x00", "ü".encode(), b"text"]


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        for i in range(20):
            tags = None if i % 4 == 1 else f"tag{i}"
            store.put_message(Message(f"T{i % 3}", BODIES[i % 4], keys=[f"k{i}", "ß"][: i % 3], tags=tags))
    with rocketstore.open(root) as store:
        return store.scan().head(20)


def test_a_column_is_a_sequence_of_its_rows(batch):
    for name in batch.names:
        column = getattr(batch, name)
        expected = [getattr(message, name) for message in batch]
        assert len(column) == 20
        assert list(column) == expected
        assert [column[i] for i in range(20)] == [column[i - 20] for i in range(20)] == expected
        assert list(column[3:17:2]) == expected[3:17:2]
        assert list(column[::-1]) == expected[::-1]
        for i in (20, -21):
            with pytest.raises(IndexError):
                column[i]


def test_strings_bytes_lists_and_maps_have_their_python_types(batch):
    assert batch.topic[5] == "T2"
    assert batch.body[1] == b"\xff\x00"
    assert batch.tags.to_pylist()[:3] == ["tag0", None, "tag2"]
    assert batch.keys[2] == ["k2", "ß"]
    assert batch.properties[0]["TAGS"] == "tag0"
    assert "T2" in batch.topic
    assert batch.topic.count("T2") == 6
    assert batch.topic.index("T2") == 2


def test_a_column_goes_to_numpy_as_python_objects(batch):
    for column in (batch.topic, batch.tags, batch.body, batch.keys, batch.properties):
        array = column.to_numpy()
        assert (array.dtype, array.shape) == (np.dtype(object), (20,))
        assert array.tolist() == np.asarray(column).tolist() == column.to_pylist() == list(column)
    assert np.asarray(batch.topic, dtype=np.str_).tolist() == batch.topic.to_pylist()


def test_a_column_goes_to_arrow_pandas_and_polars(batch):
    pa, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    table = batch.to_arrow()
    for name, table_name in (
        ("topic", "topic"),
        ("tags", "tags"),
        ("body", "body"),
        ("keys", "keys"),
        ("properties", "properties"),
    ):
        column = getattr(batch, name)
        assert pa.array(column).equals(table[table_name])
        part = pa.array(column[4:9])
        part.validate(full=True)
        assert part.equals(table[table_name][4:9].take(list(range(5))))
    assert polars.Series(batch.tags).to_list() == batch.tags.to_pylist()


def test_keys_of_one_store_are_looked_up_as_a_column(batch):
    assert hash_keys(batch.topic, topic="T").tolist() == hash_keys(list(batch.topic), topic="T").tolist()


def test_the_raw_arrays_stay(batch):
    column = batch.topic
    assert column.data[column.offsets[5] : column.offsets[6]].tobytes() == b"T2"
    assert column.valid is None
    assert batch.tags.valid.tolist()[:2] == [True, False]
    assert batch.keys.values[batch.keys.offsets[2]] == "k2"
    assert batch.properties.keys[0] == "TAGS"


def test_a_column_is_copied_and_pickled(batch):
    for column in (batch.topic, batch.body, batch.keys, batch.properties):
        assert list(pickle.loads(pickle.dumps(column))) == list(copy.deepcopy(column)) == list(column)


def test_reprs_show_rows(batch):
    assert repr(batch.topic) == "<StringColumn of 20: ['T0', 'T1', 'T2', 'T0', 'T1', …, 'T0', 'T1']>"
    assert repr(batch.keys[1:3]) == "<ListColumn of 2: [['k1'], ['k2', 'ß']]>"
    assert len(repr(batch)) < 3000
    lines = repr(batch).splitlines()
    assert lines[0] == "<MessageBatch: 20 messages>"
    assert lines[1].split() == [
        "store_timestamp",
        "topic",
        "queue_id",
        "queue_offset",
        "phy_offset",
        "tags",
        "keys",
        "body",
    ]
    assert "T2" in lines[4]
    assert "tag19" in lines[-1]
    assert len(lines) == 2 + 11
    assert ">topic</th>" in batch._repr_html_()
    assert repr(batch.select("topic")[:2]).splitlines() == ["<MessageBatch: 2 messages>", "topic", "T0", "T1"]
    assert repr(batch[:0]) == "<MessageBatch: 0 messages>"


def test_dir_of_a_batch_has_the_columns(batch):
    assert set(batch.names) <= set(dir(batch))

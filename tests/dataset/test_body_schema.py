"""``scan_polars`` with ``body_schema``: JSON bodies as structs, also where some bodies are bad."""

import pytest

import rocketstore
from rocketstore import Message, StoreConfig

pl = pytest.importorskip("polars", reason="needs polars, from the extra 'polars'")
BODIES = [
    b'{"amount": 5, "to": {"city": "x"}}',
    b"no JSON",
    b'{"amount": "many"}',
    b"\xff\xfe",
    b"[1, 2]",
    b'{"other": 1}',
    b'{"amount": 7, "more": []}',
]
SCHEMA = {"amount": pl.Int64, "to": pl.Struct({"city": pl.String})}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("schema") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        store.put_messages([Message("T", body, queue_id=0) for body in BODIES * 3])
    return root


def test_fields_of_json_bodies_are_columns_and_bad_bodies_are_null(root):
    frame = rocketstore.scan_polars(root, body_schema=SCHEMA)
    assert frame.collect_schema()["body_json"] == pl.Struct(SCHEMA)
    found = frame.select(pl.col("body_json").struct.unnest()).collect()
    assert found["amount"].to_list() == [5, None, None, None, None, None, 7] * 3
    assert found["to"].struct.field("city").to_list() == ["x", None, None, None, None, None, None] * 3


def test_a_filter_on_a_field_works(root):
    amount = pl.col("body_json").struct.field("amount")
    frame = rocketstore.scan_polars(root, body_schema=SCHEMA, columns=["queue_offset", "body_json"])
    assert frame.filter(amount > 5).collect()["queueOffset"].to_list() == [6, 13, 20]
    assert frame.filter(amount > 5).select("queueOffset").head(2).collect().height == 2
    assert frame.select(amount.sum()).collect().item() == 36


def test_a_schema_needs_the_column(root):
    with pytest.raises(ValueError, match="body_json is not among the columns"):
        rocketstore.scan_polars(root, body_schema=SCHEMA, columns=["topic"])

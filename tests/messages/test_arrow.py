"""Tables of messages in pyarrow."""

import sys

import numpy as np
import pytest

from rocketstore import arrow
from rocketstore.kernels.arrow_export import consume, export_stream
from rocketstore.kernels.message_columns import message_fields

FIELDS = message_fields(["queue_id", "phy_offset"])


class Stream:
    def __init__(self, batches):
        self.batches = batches

    def __arrow_c_stream__(self, requested_schema=None):
        return export_stream(FIELDS.values(), self.batches)


def batch(start):
    return (np.arange(start, start + 3, dtype=np.int32), np.arange(start, start + 3)), 3


@pytest.fixture
def pa():
    return pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")


def test_the_schema_of_messages_is_that_of_the_documents(pa):
    string, int32, int64, time = pa.string(), pa.int32(), pa.int64(), pa.timestamp("ms", "UTC")
    expected = {
        **{"topic": string, "queueId": int32, "queueOffset": int64, "phyOffset": int64, "size": int32},
        **{"flag": int32, "sysFlag": int32, "bornTimestamp": time, "bornHost": string, "storeTimestamp": time},
        **{"storeHost": string, "reconsumeTimes": int32, "preparedTransactionOffset": int64, "bodyCrc": int32},
        **{"msgId": string, "tags": string, "keys": pa.list_(string), "uniqKey": string},
        **{"properties": pa.map_(string, string), "body": pa.binary()},
    }
    assert arrow.message_schema().equals(pa.schema(expected), check_metadata=True)


def test_a_schema_of_some_columns_has_them_in_the_order_asked_for(pa):
    schema = arrow.message_schema(["store_timestamp_ms", "raw_body", "tags_code", "topic"])
    assert schema.names == ["storeTimestampMs", "rawBody", "tagsCode", "topic"]
    assert schema.types == [pa.int64(), pa.binary(), pa.int64(), pa.string()]
    with pytest.raises(ValueError, match="'storeTime' is none of"):
        arrow.message_schema(["storeTime"])


def test_consume_takes_a_whole_stream(pa):
    table = consume(Stream([batch(0), batch(3)]), pa.table)
    assert table.to_pydict() == {"queueId": list(range(6)), "phyOffset": list(range(6))}
    assert table["phyOffset"].num_chunks == 2
    assert table.schema.equals(arrow.message_schema(list(FIELDS)))
    assert consume(Stream([]), pa.table).schema.equals(table.schema)
    assert consume(table, pa.table).equals(table)


def test_consume_raises_what_the_stream_raised(pa):
    error = LookupError("no such record")

    def batches():
        yield batch(0)
        raise error

    with pytest.raises(LookupError) as caught:
        consume(Stream(batches()), pa.table)
    assert caught.value is error


def test_without_pyarrow_the_error_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install \"rocketstore\[arrow\]"):
        arrow.message_schema()

"""The metadata of an Arrow schema, with names that occur more than once."""

import pytest

from rocketstore.kernels.arrow_metadata import read_metadata

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")


def test_metadata_is_read_in_order_with_repeated_names():
    assert read_metadata(pa.schema([])) == []
    metadata = {"a": "1", "": "", "é": "\x00b"}
    assert read_metadata(pa.schema([], metadata)) == [(b"a", b"1"), (b"", b""), ("é".encode(), b"\x00b")]
    repeated = pa.KeyValueMetadata([("a", "1"), ("b", "2"), ("a", "3")])
    schema = pa.schema([]).with_metadata(repeated)
    assert read_metadata(schema) == [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]


def test_an_object_without_a_schema_is_refused():
    with pytest.raises(AttributeError, match="__arrow_c_schema__"):
        read_metadata(1)

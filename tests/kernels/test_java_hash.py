"""Hashes of key columns of every kind, against the reference. Runs under every ROCKETSTORE_CPU level too."""

import itertools
import random

import numpy as np
import pytest
from reference import java_hash, key_for_hash, key_hash

from rocketstore import hash_keys
from rocketstore.kernels.keys import java_hash_codes

ASCII = "".join(map(chr, range(1, 128)))
LATIN_1 = ASCII[60:70] + "".join(map(chr, range(0x80, 0x100)))
CJK = "主题键消息队列\u3042\uac00\uffee"
EMOJI = "😀🚀\U00010000\U0010ffff"
MIXED = "aZ~é主😀\u0800\u07ff"
ALPHABETS = {"ascii": ASCII, "latin-1": LATIN_1, "cjk": CJK, "emoji": EMOJI, "mixed": MIXED}
SURROGATES = "a\ud800\udfff\udc00\udbff😀"
MALFORMED = {
    "lone continuation": b"\x80",
    "cut two": b"\xc3",
    "cut three": b"\xe4\xb8",
    "cut four": b"\xf0\x9f\x98",
    "overlong two": b"\xc0\x80",
    "overlong three": b"\xe0\x80\x80",
    "overlong four": b"\xf0\x80\x80\x80",
    "surrogate": b"\xed\xa0\x80",
    "above 10FFFF": b"\xf4\x90\x80\x80",
    "no lead": b"\xff",
    "cut inside": b"\xe4\xb8A",
}


def texts(alphabet, seed=0, lengths=range(301)):
    rng = random.Random(f"{alphabet!a}/{seed}")
    return ["".join(rng.choices(alphabet, k=length)) for length in lengths]


def codes(keys):
    return [java_hash(key) for key in keys]


def check(column, keys):
    """The column hashes as the keys do, with and without a topic."""
    got = java_hash_codes(column)
    assert got.dtype == np.int32
    assert got.tolist() == codes(keys)
    assert hash_keys(column).tolist() == [key_hash(key) for key in keys]
    assert hash_keys(column, topic="主题").tolist() == [key_hash("主题#" + key) for key in keys]


@pytest.fixture(params=ALPHABETS)
def keys(request, seed):
    return texts(ALPHABETS[request.param], seed)


def test_a_list_of_a_class_of_its_own_is_a_column():
    class Keys(list):
        pass

    assert java_hash_codes(Keys(["a", "b"])).tolist() == [97, 98]


def test_a_list_of_every_length(keys):
    check(keys, keys)


def test_lone_surrogates_are_units_of_their_own(seed):
    keys = texts(SURROGATES, seed)
    check(keys, keys)
    check(np.array(keys), keys)
    check(np.array(keys, dtype=object), keys)


def test_a_high_and_a_low_surrogate_hash_as_the_character_they_make():
    """Corner 65."""
    assert java_hash_codes(["\ud83d\ude00"]).tolist() == java_hash_codes(["😀"]).tolist() == [1772899]


def test_the_smallest_hash_becomes_zero():
    """Corner 64."""
    assert java_hash_codes(["polygenelubricants"]).tolist() == [-(2**31)]
    assert hash_keys(["polygenelubricants"]).tolist() == [0]


def test_a_nul_is_a_character():
    keys = ["", "\0", "\0\0", "a\0", "\0a", "a" * 40 + "\0" + "b" * 40]
    check(keys, keys)


def test_a_smallest_hash_that_a_topic_makes_is_zero_too():
    key = key_for_hash(-(2**31), "T#")
    assert java_hash("T#" + key) == -(2**31)
    assert hash_keys([key], topic="T").tolist() == [0]


def test_no_keys_give_no_hashes():
    for column in ([], np.array([], dtype="U3"), np.array([], dtype="S3"), np.array([], dtype=object)):
        assert java_hash_codes(column).tolist() == []
        assert hash_keys(column, topic="T").tolist() == []


def test_numpy_strings_in_both_byte_orders_and_with_strides(keys):
    native = np.array(keys)
    for column, expected in [
        (native, keys),
        (native.astype(native.dtype.newbyteorder()), keys),
        (native[::3], keys[::3]),
        (native[::-1], keys[::-1]),
        (np.array([keys, keys]).T[:, 1], keys),
        (native[5:9], keys[5:9]),
    ]:
        check(column, expected)


def test_numpy_bytes_are_utf8(keys):
    encoded = np.array([key.encode() for key in keys])
    check(encoded, keys)
    check(encoded[::-2], keys[::-2])


def test_numpy_objects(keys):
    column = np.array(keys, dtype=object)
    check(column, keys)
    check(column[::-2], keys[::-2])


def test_a_read_only_array_is_a_column():
    column = np.array(["a", "bc"])
    column.flags.writeable = False
    check(column, ["a", "bc"])


def test_pandas_series(keys):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    check(pandas.Series(keys, dtype=object), keys)
    check(pandas.Series(keys, dtype=object)[::-2], keys[::-2])
    check(pandas.Series(keys, dtype="str"), keys)
    check(pandas.Series(keys, dtype="str")[7:90], keys[7:90])


def test_a_pandas_series_of_arrow_strings(keys):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    check(pandas.Series(keys, dtype="string[pyarrow]"), keys)


def test_polars_series(keys):
    polars = pytest.importorskip("polars", reason="needs polars")
    check(polars.Series(keys), keys)


def arrow_types(pa):
    return [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ]


def arrow_column(pa, keys, kind):
    if pa.types.is_dictionary(kind):
        distinct = list(dict.fromkeys(keys))
        indices = pa.array([distinct.index(key) for key in keys], kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, pa.array(distinct, kind.value_type))
    return pa.array(keys, kind)


@pytest.mark.parametrize(
    "number", range(5), ids=["string", "large_string", "string_view", "dictionary", "dictionary-int8"]
)
def test_arrow_arrays_whole_sliced_and_chunked(number, keys):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    kind = arrow_types(pa)[number]
    keys = keys[:120]  # as many as an int8 dictionary takes
    array = arrow_column(pa, keys, kind)
    check(array, keys)
    check(array.slice(11, 50), keys[11:61])
    check(array.slice(120), [])
    check(pa.chunked_array([array.slice(3), array.slice(0, 0), array.slice(7, 30)]), keys[3:] + keys[7:37])
    check(pa.chunked_array([], kind), [])


def test_a_dictionary_whose_values_are_a_slice():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    values = pa.array(["x", "a", "bc", "主题"]).slice(1)
    check(pa.DictionaryArray.from_arrays(pa.array([2, 0, 0, 1], pa.int16()), values), ["主题", "a", "a", "bc"])


def test_a_null_is_an_error_that_names_its_row():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    for kind in arrow_types(pa):
        if pa.types.is_dictionary(kind):
            column = pa.DictionaryArray.from_arrays(
                pa.array([0, 1, None, None], kind.index_type), pa.array(["a", "b"], kind.value_type)
            )
        else:
            column = pa.array(["a", "b", None, None], kind)
        for nulls, row in [
            (column, 2),
            (column.slice(1), 1),
            (pa.chunked_array([column.slice(0, 2), column]), 4),
        ]:
            with pytest.raises(ValueError, match=rf"keys\[{row}\]"):
                hash_keys(nulls)
        assert hash_keys(column.slice(0, 2)).tolist() == [97, 98]


def test_a_dictionary_may_hold_a_null_that_no_row_uses():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    values = pa.array(["a", None, "b"])
    used = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1], pa.int32()), values)
    check(used.slice(0, 2), ["a", "b"])
    with pytest.raises(ValueError, match=r"keys\[2\]"):
        hash_keys(used)


def test_none_in_python_objects_is_a_null():
    for column in (["a", None], np.array(["a", None], dtype=object)):
        with pytest.raises(ValueError, match=r"keys\[1\]"):
            hash_keys(column)


@pytest.mark.parametrize("kind", ["U", object])
def test_a_masked_row_of_a_numpy_array_is_no_string(kind):
    with pytest.raises(ValueError, match=r"keys\[1\] is masked"):
        hash_keys(np.ma.array(["a", "b"], mask=[False, True], dtype=kind))
    assert hash_keys(np.ma.array(["a", "b"], dtype=kind)).tolist() == hash_keys(["a", "b"]).tolist()


def test_a_missing_value_in_a_pandas_series_is_a_null():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    for kind in (object, "str"):
        with pytest.raises(ValueError, match=r"keys\[1\]"):
            hash_keys(pandas.Series(["a", None, "b"], dtype=kind))


@pytest.mark.parametrize(
    "column",
    [
        ["a", 1],
        ["a", b"b"],
        [1.5],
        np.arange(3),
        np.array([1.5]),
        np.array(["a", 1], dtype=object),
        5,
        None,
        pytest.param(object(), id="object"),
    ],
    ids=repr,
)
def test_anything_but_a_column_of_strings_is_a_type_error(column):
    with pytest.raises(TypeError):
        hash_keys(column)


def test_one_string_is_not_a_column():
    with pytest.raises(TypeError):
        hash_keys("key")


def test_arrow_columns_of_other_types_are_type_errors():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    for column in (
        pa.array([1, 2]),
        pa.array([["a"]]),
        pa.array([1, 1]).dictionary_encode(),
        pa.array([b"a"]),
        pa.chunked_array([], pa.int64()),
        pa.chunked_array([], pa.dictionary(pa.int8(), pa.int64())),
    ):
        with pytest.raises(TypeError):
            hash_keys(column)


def test_an_arrow_column_of_type_null_is_all_nulls():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    with pytest.raises(ValueError, match=r"keys\[0\]"):
        hash_keys(pa.nulls(2))


def test_a_two_dimensional_array_is_an_error():
    with pytest.raises((TypeError, ValueError)):
        hash_keys(np.array([["a", "b"]]))


@pytest.mark.parametrize("topic", ["T", "", "主题", "😀", "\ud800", "T" * 300, "RMQ#x"])
def test_a_topic_is_folded_in(topic, seed):
    for alphabet in (*ALPHABETS.values(), SURROGATES):
        keys = texts(alphabet, seed, range(80))
        assert hash_keys(keys, topic=topic).tolist() == [key_hash(f"{topic}#{key}") for key in keys]


def test_a_column_of_topics_is_folded_in_row_by_row(seed):
    topics = texts(MIXED, seed, range(80))
    keys = texts(MIXED, seed + 1, range(80))[::-1]
    expected = [key_hash(f"{topic}#{key}") for topic, key in zip(topics, keys, strict=True)]
    for topic, key in itertools.product(
        [topics, np.array(topics), np.array(topics, dtype=object)], [keys, np.array(keys)]
    ):
        assert hash_keys(key, topic=topic).tolist() == expected


def test_an_arrow_column_of_topics():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    topics, keys = ["T", "主题", "T"], ["a", "b", "😀"]
    expected = [key_hash(f"{topic}#{key}") for topic, key in zip(topics, keys, strict=True)]
    for topic in (
        pa.array(topics),
        pa.array(topics).dictionary_encode(),
        pa.chunked_array([topics[:1], topics[1:]]),
    ):
        assert hash_keys(pa.array(keys), topic=topic).tolist() == expected
        assert hash_keys(keys, topic=topic).tolist() == expected


def test_topics_of_another_length_or_with_a_null_are_errors():
    with pytest.raises(ValueError, match="topic"):
        hash_keys(["a", "b"], topic=["T"])
    with pytest.raises(ValueError, match=r"topic\[1\]"):
        hash_keys(["a", "b"], topic=["T", None])
    with pytest.raises(TypeError):
        hash_keys(["a", "b"], topic=5)


def arrow_from_bytes(pa, rows, large):
    """A string column of any bytes, which pa.array() would refuse."""
    ends = np.cumsum([0, *map(len, rows)]).astype("<i8" if large else "<i4")
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(rows))]
    return pa.Array.from_buffers(pa.large_string() if large else pa.string(), len(rows), buffers)


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("lead", [0, 1, 15, 31, 64])
def test_malformed_utf8_in_a_column_is_an_error_that_names_its_row(name, lead):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    rows = [b"good", b"x" * lead + MALFORMED[name], b"\x80\x80\x80", b"z"]
    for large in (False, True):
        column = arrow_from_bytes(pa, rows, large)
        for bad in (column, column.cast(pa.string_view())):
            with pytest.raises(ValueError, match=r"keys\[1\]"):
                hash_keys(bad)
        encoded = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0, 1], pa.int32()), column)
        with pytest.raises(ValueError, match=r"keys\[3\]"):
            hash_keys(encoded)


@pytest.mark.parametrize("ends", [[0, 5, 2], [0, -1, 2]])
def test_string_offsets_that_run_backwards_are_an_error(ends):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    buffers = [None, pa.py_buffer(np.array(ends, dtype=np.int32).tobytes()), pa.py_buffer(b"abcdefgh")]
    with pytest.raises(ValueError, match="offsets"):
        hash_keys(pa.Array.from_buffers(pa.string(), 2, buffers))


def test_a_dictionary_index_outside_the_dictionary_is_an_error():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    for index in (-1, 1, 2**31 - 1):
        indices = pa.py_buffer(np.array([0, index], dtype=np.int32).tobytes())
        column = pa.DictionaryArray.from_buffers(
            pa.dictionary(pa.int32(), pa.string()), 2, [None, indices], pa.array(["a"])
        )
        with pytest.raises(ValueError, match=r"keys\[1\]"):
            hash_keys(column)


def test_malformed_numpy_bytes_are_an_error_that_names_its_row():
    with pytest.raises(ValueError, match=r"keys\[1\]"):
        hash_keys(np.array([b"good", b"\xe4\xb8"]))

"""Arrow tables of messages into batches: every type that a column may have, and refused values."""

import datetime
import random
import sys

import numpy as np
import pytest
from support import stores
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, MessageBatch, StoreConfig
from rocketstore.kernels.message_columns import MESSAGE_FIELDS
from rocketstore.messages.message_batch import to_put

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
ALL = list(MESSAGE_FIELDS)
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


@pytest.fixture(scope="module", params=["rich-5.5.0", "batch-5.3.3", "crc-5.5.0", "lmq-5.5.0"])
def messages(request, tmp_path_factory):
    """All columns of a golden store, in many chunks."""
    root = stores.unpack(request.param, tmp_path_factory.mktemp("golden"))
    with rocketstore.open(root) as store:
        return store.scan(columns=ALL, batch_size=50).to_arrow()


def batch(**columns):
    return pa.record_batch({"topic": ["T"] * 3, "body": [b"a", b"b", b"c"]} | columns)


def column(name, values, kind=None):
    """The column of a batch of three rows."""
    made = MessageBatch.of_arrow(batch(**{name: pa.array(values, kind)}))
    return pa.record_batch(made)[name].to_pylist()


# ---- what a batch gives comes back -------------------------------------------------------------------------


def test_a_table_comes_back_whole_and_in_parts(messages):
    assert pa.table(MessageBatch.of_arrow(messages)).equals(messages.combine_chunks())
    assert pa.concat_tables(map(pa.table, MessageBatch.iter_arrow(messages))).equals(messages)
    assert pa.table(MessageBatch.of_arrow(messages.to_reader(17))).equals(messages.combine_chunks())


def test_a_batch_of_the_package_comes_back(messages):
    made = MessageBatch.of_arrow(messages)
    assert pa.record_batch(MessageBatch.of_arrow(made)).equals(pa.record_batch(made))


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
def test_tables_of_other_libraries_come_back(library, messages):
    module = pytest.importorskip(library, reason=f"needs {library}")
    if library == "pandas":
        table = messages.to_pandas()
    elif library == "polars":
        table = module.DataFrame(messages)
    else:
        table = module.connect().from_arrow(messages)
        if not hasattr(table, "__arrow_c_stream__"):
            table = table.fetch_arrow_reader()
    assert pa.table(MessageBatch.of_arrow(table)).equals(messages.combine_chunks())


def test_slices_of_any_place_come_back(messages, seed):
    whole, rng = messages.combine_chunks(), random.Random(seed)
    for _ in range(20):
        start = rng.randrange(whole.num_rows)
        part = whole.slice(start, rng.randrange(whole.num_rows - start + 1))
        assert pa.table(MessageBatch.of_arrow(part)).equals(part)


def test_a_table_without_rows_makes_a_batch_without_rows():
    empty = batch().slice(0, 0)
    assert len(MessageBatch.of_arrow(empty)) == 0
    assert len(MessageBatch.of_arrow(pa.table(empty).schema.empty_table())) == 0
    assert len(MessageBatch.of_arrow(pa.table({"topic": [], "body": []}))) == 0
    assert sum(map(len, MessageBatch.iter_arrow(pa.RecordBatchReader.from_batches(empty.schema, [])))) == 0


def test_a_large_batch_is_given_in_small_ones():
    table = pa.table({"topic": ["T"] * 4096, "body": [bytes(64 << 10)] * 4096})
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        batches = list(MessageBatch.iter_arrow(table.set_column(1, "body", table["body"].cast(kind))))
        assert sum(map(len, batches)) == 4096
        assert max(batch.body.offsets[-1] for batch in batches) <= 32 << 20


# ---- types -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_strings_of_every_type(kind):
    values = ["", None, "größer als zwölf Bytes \U0001f680"]
    assert column("tags", values, kind) == values
    assert column("keys", [["a", "longer than twelve bytes"], [], None], pa.list_(pa.large_string())) == [
        ["a", "longer than twelve bytes"],
        [],
        [],
    ]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)], ids=str)
def test_bodies_of_every_type(kind):
    assert column("body", [b"\xff\0\1", b"abc", b"def"], kind) == [b"\xff\0\1", b"abc", b"def"]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_a_body_of_text_is_its_utf_8(kind):
    assert column("body", pa.array(["é", "", "x"], kind)) == ["é".encode(), b"", b"x"]


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_of_every_type(kind):
    assert column("queueId", [0, 7, 127], getattr(pa, kind)()) == [0, 7, 127]
    assert column("queueOffset", [0, 7, 127], getattr(pa, kind)()) == [0, 7, 127]


@pytest.mark.parametrize(("unit", "values"), [
    ("s", [-1, 0, 1_700_000_000]), ("ms", [-1, 0, 2**62]), ("us", [-1, 1999, 2**62]), ("ns", [-1, 1_999_999, 2**62]),
])  # fmt: skip
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Shanghai"])
def test_times_are_epoch_milliseconds_whatever_unit_and_zone(unit, values, zone):
    made = MessageBatch.of_arrow(batch(bornTimestamp=pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))))
    in_second = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    assert made.born_timestamp.tolist() == [value * 1000 // in_second for value in values]


def test_times_may_be_numbers_and_a_twin_in_milliseconds_has_those_that_are_null():
    made = MessageBatch.of_arrow(batch(bornTimestamp=[1, 2, 3]))
    assert made.born_timestamp.tolist() == [1, 2, 3]
    null = pa.array([None, None, datetime.datetime(2026, 1, 1)], pa.timestamp("ms", "UTC"))
    with pytest.raises(ValueError, match="column storeTimestamp, row 0: is null"):
        MessageBatch.of_arrow(batch(storeTimestamp=null))
    made = MessageBatch.of_arrow(batch(storeTimestamp=null, storeTimestampMs=[2**62, -1, 5]))
    assert made.store_timestamp.tolist() == [2**62, -1, 5]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view], ids=lambda f: f.__name__)
def test_lists_of_every_type(kind):
    assert column("keys", [["a", "b"], None, ["c"]], kind(pa.string())) == [["a", "b"], [], ["c"]]
    assert column("keys", [["a", "b"], None, ["c", "d"]], pa.list_(pa.string(), 2)) == [["a", "b"], [], ["c", "d"]]
    assert column("keys", [[], [], None], pa.list_(pa.null())) == [[], [], []]


PROPERTIES = [[("a", "1"), ("b", "2")], [], [("a", "3")]]


@pytest.mark.parametrize("kind", [
    pa.map_(pa.string(), pa.string()),
    pa.map_(pa.large_string(), pa.string_view()),
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.large_string())])),
    pa.large_list(pa.struct([("name", pa.string_view()), ("text", pa.string())])),
    pa.list_(pa.list_(pa.string())),
    pa.large_list(pa.list_(pa.string(), 2)),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("missing", [[], None], ids=["empty", "null"])
def test_properties_are_maps_or_lists_of_pairs(kind, missing):
    values = [PROPERTIES[0], missing, PROPERTIES[2]]
    if pa.types.is_map(kind) or not pa.types.is_struct(kind.value_type):
        array = pa.array(values, kind)
    else:
        names = [field.name for field in kind.value_type]
        rows = [None if row is None else [dict(zip(names, pair, strict=True)) for pair in row] for row in values]
        array = pa.array(rows, kind)
    assert column("properties", array) == PROPERTIES
    assert column("properties", pa.concat_arrays([array.slice(2), array.slice(0, 2)]).slice(0, 3)) == [
        PROPERTIES[2],
        *PROPERTIES[:2],
    ]


def test_properties_may_be_a_struct_whose_nulls_are_not_there():
    kind = pa.struct([("a", pa.string()), ("b", pa.dictionary(pa.int32(), pa.string())), ("c", pa.null())])
    rows = [{"a": "1", "b": "2"}, None, {"a": "3", "b": None}]
    array = pa.StructArray.from_arrays(
        [pa.array(["1", None, "3"]), pa.array(["2", "x", None]).dictionary_encode(), pa.nulls(3)],
        fields=list(kind), mask=pa.array([row is None for row in rows]),
    )  # fmt: skip
    assert column("properties", array) == PROPERTIES
    assert column("properties", array.slice(1, 2).take(pa.array([1, 0, 1]))) == [PROPERTIES[2], [], PROPERTIES[2]]
    assert column("properties", [{}, {}, None], pa.struct([])) == [[], [], []]


def test_properties_may_be_a_struct_in_a_table_without_rows():
    kind = pa.struct([("a", pa.string()), ("b", pa.string())])
    table = pa.table(
        {"topic": pa.array([], pa.string()), "body": pa.array([], pa.binary()), "properties": pa.array([], kind)}
    )
    assert len(MessageBatch.of_arrow(table)) == 0


def test_a_null_list_may_hide_values():
    values, offsets = pa.array(["a", "hidden", "c"]), pa.array([0, 1, 2, 3], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True, False]))
    assert column("keys", lists) == [["a"], [], ["c"]]


def test_a_column_of_the_type_null_is_not_there():
    made = MessageBatch.of_arrow(batch(tags=pa.nulls(3), properties=pa.nulls(3), queueId=pa.nulls(3)))
    assert set(made.columns) == {"topic", "body"}
    times = {"bornTimestamp": [1, 2, 3], "storeTimestamp": pa.nulls(3), "storeTimestampMs": [4, 5, 6]}
    made = MessageBatch.of_arrow(batch(**times, bornTimestampMs=pa.nulls(3)))
    assert (made.born_timestamp.tolist(), made.store_timestamp_ms.tolist()) == ([1, 2, 3], [4, 5, 6])


def test_random_batches_come_back_in_random_types(seed):
    rng = random.Random(seed)
    for _ in range(30):
        n = rng.randrange(40)
        text = lambda: "".join(rng.choices("aé\U0001f680 ", k=rng.randrange(20)))  # noqa: E731
        columns = {
            "topic": ([text() for _ in range(n)], TEXTS[:3]),
            "body": ([text().encode() for _ in range(n)], [pa.binary(), pa.large_binary(), pa.binary_view()]),
            "tags": ([rng.choice([None, text()]) for _ in range(n)], TEXTS[:3]),
            "keys": ([[text() for _ in range(rng.randrange(3))] for _ in range(n)],
                     [pa.list_(pa.string()), pa.large_list(pa.string_view()), pa.list_view(pa.large_string())]),
            "queueId": ([rng.randrange(128) for _ in range(n)], [pa.int8(), pa.int32(), pa.uint64()]),
            "properties": ([[(text(), text()) for _ in range(rng.randrange(3))] for _ in range(n)],
                           [pa.map_(pa.string(), pa.large_string()), pa.list_(pa.list_(pa.string(), 2))]),
        }  # fmt: skip
        arrays = {name: pa.array(values, rng.choice(kinds)) for name, (values, kinds) in columns.items()}
        table = pa.table(arrays)
        start = rng.randrange(n + 1)
        got = pa.table(MessageBatch.of_arrow(table.slice(start))).to_pydict()
        assert got == {name: values[start:] for name, (values, _) in columns.items()}


# ---- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "words"), [
    ({"boddy": [1, 2, 3], "x": [1, 2, 3]}, "columns boddy, x: are none of topic, queueId"),
    ({"rawBody": [b"", b"", b""]}, "column rawBody: needs sysFlag"),
    ({"topic": ["T", None, "T"]}, "column topic, row 1: is null"),
    ({"topic": pa.nulls(3)}, "column topic, row 0: is null"),
    ({"body": [b"", b"", None]}, "column body, row 2: is null"),
    ({"queueId": pa.array([1, None, 2], pa.int32())}, "column queueId, row 1: is null"),
    ({"queueId": [1, 2, 2**31]}, "column queueId, row 2: 2147483648 does not fit int32"),
    ({"queueId": [1, -(2**31) - 1, 0]}, "column queueId, row 1: -2147483649 does not fit int32"),
    ({"phyOffset": pa.array([1, 2, 2**64 - 1], pa.uint64())}, "column phyOffset, row 2: 18446744073709551615 does not"),
    ({"bornTimestamp": pa.array([0, 2**62, 0], pa.timestamp("s"))}, "column bornTimestamp, row 1: 46116860184"),
    ({"bornTimestamp": pa.array([0, -(2**63), 0], pa.timestamp("s"))}, "column bornTimestamp, row 1: -92233720368"),
    ({"keys": [["a"], ["b", None], []]}, "column keys, row 1: a key is null"),
    ({"properties": pa.array([[], [("a", None)], []], pa.map_(pa.string(), pa.string()))},
     "column properties, row 1: a value is null"),
    ({"properties": [[["a", "b"]], [["a"]], []]}, "column properties, row 1: a property is no pair"),
])  # fmt: skip
def test_what_no_message_has_is_an_error_with_column_and_row(columns, words):
    with pytest.raises(ValueError, match=words):
        MessageBatch.of_arrow(batch(**columns))


@pytest.mark.parametrize(("name", "values"), [
    ("topic", [1, 2, 3]), ("topic", [b"a", b"b", b"c"]), ("body", [1, 2, 3]), ("queueId", [1.0, 2.0, 3.0]),
    ("queueId", [True, False, True]), ("bornTimestamp", ["1", "2", "3"]), ("keys", ["a", "b", "c"]),
    ("keys", [[1], [2], []]), ("properties", ["a", "b", "c"]), ("properties", [[1], [], []]),
    ("properties", [{"a": 1}, {"a": 2}, {"a": 3}]), ("properties", [["a", "b"], [], []]),
])  # fmt: skip
def test_a_column_of_another_type_is_an_error_with_its_name(name, values):
    with pytest.raises(TypeError, match=f"column {name}: .* is needed, not "):
        MessageBatch.of_arrow(batch(**{name: values}))


def test_columns_are_needed_and_come_once():
    with pytest.raises(ValueError, match="columns topic, tags: topic and body are missing, or one of them"):
        MessageBatch.of_arrow(pa.table({"topic": ["T"], "tags": ["a"]}))
    twice = pa.Table.from_arrays([pa.array(["T"]), pa.array([b""]), pa.array(["T"])], ["topic", "body", "topic"])
    with pytest.raises(ValueError, match="columns topic: are there more than once"):
        MessageBatch.of_arrow(twice)
    with pytest.raises(TypeError):
        MessageBatch.of_arrow(7)


def test_rows_are_counted_over_all_of_a_stream():
    table = pa.concat_tables([pa.table(batch())] * 5 + [pa.table(batch(topic=["T", None, "T"]))])
    for make in (MessageBatch.of_arrow, lambda stream: list(MessageBatch.iter_arrow(stream))):
        with pytest.raises(ValueError, match="column topic, row 16: is null"):
            make(table)
    with pytest.raises(ValueError, match="column topic, row 1016: is null"):
        list(MessageBatch.iter_arrow(table, first_row=1000))


@pytest.mark.parametrize(("name", "kind"), [("topic", pa.string()), ("tags", pa.large_string())])
def test_bytes_that_are_no_utf_8_are_an_error(name, kind):
    offsets = np.array([0, 1, 2, 3], np.int32 if kind == pa.string() else np.int64)
    array = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xffb")])
    with pytest.raises(ValueError, match=f"column {name}: Invalid UTF8"):
        MessageBatch.of_arrow(batch(**{name: array}))


def test_offsets_outside_the_data_are_an_error():
    offsets = pa.py_buffer(np.array([0, 9, 1, 2], np.int32))
    array = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"ab")])
    with pytest.raises(ValueError, match="column body: "):
        MessageBatch.of_arrow(batch(body=array))


def test_without_pyarrow_the_error_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"rocketstore\[arrow\]"):
        MessageBatch.of_arrow(batch())


# ---- messages to be put ------------------------------------------------------------------------------------


def put_one(**columns):
    (message,) = MessageBatch.of_arrow(pa.table({"topic": ["T"], "body": [b"x"]} | columns)).to_put()
    return message


def test_what_a_table_has_not_is_as_in_a_new_message():
    made, new = put_one().__dict__, Message("T", b"x").__dict__
    assert abs(made.pop("born_timestamp") - new.pop("born_timestamp")) < 60_000
    assert made == new


def test_messages_that_are_put_have_the_fields_of_the_table():
    fields = {"queueId": [3], "flag": [4], "reconsumeTimes": [5], "bornTimestamp": [6], "storeTimestampMs": [7]}
    fields |= {"bornHost": ["1.2.3.4:5"], "storeHost": ["[::1]:9"], "preparedTransactionOffset": [8], "phyOffset": [9]}
    made = put_one(**fields)
    assert (made.queue_id, made.flag, made.reconsume_times, made.born_timestamp) == (3, 4, 5, 6)
    assert (made.store_timestamp, made.born_host, made.store_host) == (7, "1.2.3.4:5", "[::1]:9")
    assert made.prepared_transaction_offset == 8
    assert "phy_offset" not in made.__dict__


def test_properties_are_completed_from_the_columns_beside_them():
    made = put_one(keys=[["a", "b"]], tags=["t"], uniqKey=["u"], properties=[[["z", "1"], ["TAGS", "t"]]])
    assert list(made.properties.items()) == [("z", "1"), ("TAGS", "t"), ("KEYS", "a b"), ("UNIQ_KEY", "u")]
    assert put_one(keys=[[]], tags=pa.array([None], pa.string())).properties == {}
    assert put_one(properties=[[["KEYS", " a  b "]]], keys=[["a", "b"]]).properties == {"KEYS": " a  b "}


def test_columns_that_contradict_each_other_are_an_error():
    with pytest.raises(ValueError, match="TAGS is 'a' in properties, but 'b' in the column tags"):
        put_one(tags=["b"], properties=[[["TAGS", "a"]]])
    with pytest.raises(ValueError, match=r"keys=\['a b'\]: a key must have no spaces"):
        put_one(keys=[["a b"]])


def test_a_body_is_stored_as_it_was_if_that_is_known_else_without_compression():
    raw = put_one(rawBody=[b"zip"], sysFlag=[0x301])
    assert (raw.raw_body, raw.sys_flag) == (b"zip", 0x301)
    plain = put_one(sysFlag=[0x309])
    assert (plain.raw_body, plain.sys_flag, plain.body) == (b"x", 0x308, b"x")


def test_messages_that_were_read_can_be_put_again(tmp_path):
    root = stores.unpack("rich-5.5.0", tmp_path)
    with rocketstore.open(root) as store:
        (scanned,) = store.scan(columns=ALL)
        whole = store.commit_log.get_messages(scanned.phy_offset)
        (without_raw,) = store.scan()
    for message, lazy, plain in zip(scanned, whole, without_raw, strict=True):
        again = to_put(message)
        assert (again.raw_body, again.sys_flag, again.body) == (message.raw_body, message.sys_flag, message.body)
        assert list(again.properties.items()) == list(message.properties.items())
        assert {**to_put(lazy).__dict__, "body": again.body} == again.__dict__
        assert (to_put(plain).raw_body, to_put(plain).body) == (message.body, message.body)
    with pytest.raises(AttributeError, match="sys_flag"):
        next(MessageBatch.select(scanned, ["topic", "raw_body"]).to_put())


# ---- into a store ------------------------------------------------------------------------------------------

KEPT = ["topic", "queue_id", "flag", "reconsume_times", "prepared_transaction_offset", "tags", "keys", "uniq_key"]
KEPT += ["properties", "body", "born_timestamp", "born_host"]


@pytest.mark.parametrize("kind", ["Table", "RecordBatch", "pandas", "polars", "MessageBatch", "Scan", "reader"])
def test_a_table_of_any_kind_is_put_into_a_store(kind, tmp_path):
    root = stores.unpack("rich-5.5.0", tmp_path)
    with rocketstore.open(root) as store, rocketstore.open(tmp_path / "new", "a", config=StoreConfig(**SMALL)) as new:
        table, expected = store.scan(batch_size=100).to_arrow(), store.scan(columns=KEPT).to_arrow()
        if kind in ("pandas", "polars"):
            pytest.importorskip(kind, reason=f"needs {kind}")
        makers = {
            "Table": lambda: table, "RecordBatch": lambda: table.combine_chunks().to_batches()[0],
            "pandas": table.to_pandas, "polars": lambda: store.scan().to_polars(), "Scan": store.scan,
            "MessageBatch": lambda: MessageBatch.of_arrow(table), "reader": lambda: table.to_reader(),
        }  # fmt: skip
        result = new.put_messages(makers[kind]())
        assert new.scan(columns=KEPT).to_arrow().equals(expected)
        assert [new.look_message_by_offset(offset).body for offset in result.phy_offsets.tolist()[:9]] == (
            expected["body"].to_pylist()[:9]
        )
        assert result.queue_ids.tolist() == expected["queueId"].to_pylist()
        assert result.store_hosts == ["127.0.0.1:10911"] * len(expected)


def test_rows_that_pandas_chose_are_put_without_their_numbers(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"topic": ["T", "U", "T"], "body": [b"a", b"b", b"c"]}, index=[5, 9, 4])
    with rocketstore.open(tmp_path, "a", config=StoreConfig(**SMALL)) as store:
        store.put_messages(frame[frame.topic == "T"])
        store.put_messages(frame.set_index(["body"], append=True))
        with pytest.raises(ValueError, match="columns number: are none of"):
            store.put_messages(frame.rename_axis("number"))
        assert [message.body for batch in store.scan() for message in batch] == [b"a", b"c", b"a", b"b", b"c"]


def test_a_table_is_put_with_its_own_times_on_request(tmp_path):
    table = pa.table({"topic": ["T"], "body": [b"x"], "storeTimestamp": [7_000], "storeHost": ["[::1]:9"]})
    with rocketstore.open(tmp_path, "a", config=StoreConfig(**SMALL)) as store:
        assert store.put_messages(table, store_timestamp="given")[0].store_timestamp == 7_000
        assert store.put_messages(table, store_timestamp=5)[0].store_timestamp == 5
        assert store.put_messages(table)[0].store_timestamp > 1_700_000_000_000
        (batch,) = store.scan()
        assert batch.store_timestamp.tolist()[:2] == [7_000, 5]
        assert batch[0].store_host == "[::1]:9"


def test_a_batch_is_put_whole_or_not_at_all(tmp_path):
    table = pa.table({"topic": ["T", "a/b"], "body": ["x", "y"]})
    with rocketstore.open(tmp_path, "a", config=StoreConfig(**SMALL)) as store:
        with pytest.raises(ValueError, match="a/b"):
            store.put_messages(MessageBatch.of_arrow(table))
        with pytest.raises(ValueError, match="columns boddy"):
            store.put_messages(pa.table({"topic": ["T"], "boddy": ["x"]}))
        assert sum(map(len, store.scan())) == 0
        assert len(store.put_messages(table.slice(0, 0))) == 0

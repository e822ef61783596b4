"""Batches and streams that go out by the Arrow C interfaces: types, values, and how long memory is kept."""

import copy
import ctypes
import gc
import random
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from support.repetitions import only_some_quick

from rocketstore.kernels.arrow_export import consume, export_batch, export_stream
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field, message_fields
from rocketstore.kernels.value_columns import ListColumn, MapColumn, StringColumn

YEAR_1, YEAR_9999_END = -62_135_596_800_000, 253_402_300_799_999
EIO = 5

# One of each format, text with and without nulls.
NAMES = ["topic", "queue_id", "phy_offset", "store_timestamp", "tags", "keys", "properties", "body"]
FIELDS = list(message_fields(NAMES).values())


@pytest.fixture(scope="module")
def pa():
    return pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")


# ---- batches as rows, and as columns -----------------------------------------------------------------------

WORDS = ["", "a", "TagA", "clé", "键", "🚀", "with\0nul", "x" * 300]


def random_rows(n, seed):
    """n rows by the columns' names in a batch, times as milliseconds."""
    draw = random.Random(seed)
    words = [f"{word}{n}" for n, word in enumerate(WORDS)]
    return [
        {
            "topic": draw.choice(WORDS),
            "queue_id": draw.randrange(-(2**31), 2**31),
            "phy_offset": draw.randrange(-(2**63), 2**63),
            "store_timestamp": draw.randrange(YEAR_1, YEAR_9999_END + 1),
            "tags": draw.choice([None, *WORDS]),
            "keys": draw.choices(WORDS, k=draw.randrange(4)),
            "properties": [(key, draw.choice(WORDS)) for key in draw.sample(words, draw.randrange(4))],
            "body": draw.randbytes(draw.randrange(50)),
        }
        for _ in range(n)
    ]


def ends(lengths):
    return np.cumsum([0, *lengths], dtype=np.int32)


def var_column(values, nullable=False):
    data = [value.encode() if isinstance(value, str) else value or b"" for value in values]
    valid = np.array([value is not None for value in values], np.bool_) if nullable else None
    return StringColumn(ends(map(len, data)), np.frombuffer(b"".join(data), np.uint8).copy(), valid)


def columns_of(rows):
    """The columns of rows, by their names in a batch."""
    given = {name: [row[name] for row in rows] for name in NAMES}
    pairs = [pair for row in rows for pair in row["properties"]]
    return {
        "topic": var_column(given["topic"]),
        "queue_id": np.array(given["queue_id"], np.int32),
        "phy_offset": np.array(given["phy_offset"], np.int64),
        "store_timestamp": np.array(given["store_timestamp"], np.int64),
        "tags": var_column(given["tags"], nullable=True),
        "keys": ListColumn(ends(map(len, given["keys"])), var_column([key for keys in given["keys"] for key in keys])),
        "properties": MapColumn(
            ends(map(len, given["properties"])),
            var_column([key for key, _ in pairs]),
            var_column([value for _, value in pairs]),
        ),
        "body": var_column(given["body"]),
    }


def batch_of(rows):
    """A batch of a stream."""
    return list(columns_of(rows).values()), len(rows)


class Batch:
    """A producer of one batch."""

    def __init__(self, rows):
        self.columns, self.n = columns_of(rows), len(rows)

    def __arrow_c_array__(self, requested_schema=None):
        return export_batch(FIELDS, list(self.columns.values()), self.n)


class Stream:
    """A producer of a stream, of batches that are given as lists of rows or come from an iterator."""

    def __init__(self, batches, fields=FIELDS):
        self.batches, self.fields = batches, fields

    def __arrow_c_stream__(self, requested_schema=None):
        batches = map(batch_of, self.batches) if isinstance(self.batches, list) else self.batches
        return export_stream(self.fields, batches)


def one_batch(*columns, n):
    """The batches of a stream with one."""
    return iter([(columns, n)])


def as_rows(table):
    """The rows of a pyarrow table or batch, as random_rows makes them."""
    times = table.schema.get_field_index("storeTimestamp")
    milliseconds = table.column(times).cast("int64")
    rows = table.set_column(times, "storeTimestamp", milliseconds).to_pylist()
    return [dict(zip(NAMES, row.values(), strict=True)) for row in rows]


def arrow_schema(pa):
    return pa.schema(
        {
            "topic": pa.string(),
            "queueId": pa.int32(),
            "phyOffset": pa.int64(),
            "storeTimestamp": pa.timestamp("ms", "UTC"),
            "tags": pa.string(),
            "keys": pa.list_(pa.string()),
            "properties": pa.map_(pa.string(), pa.string()),
            "body": pa.binary(),
        }
    )


# ---- types and values --------------------------------------------------------------------------------------


def schema_of(fields):
    """The schema of a batch of these columns without a row."""
    names = {field.name: name for name, field in MESSAGE_FIELDS.items()}
    columns = columns_of([])
    return export_batch(fields, [columns[names[field.name]] for field in fields], 0)[0]


class SchemaOf:
    def __init__(self, fields):
        self.fields = fields

    def __arrow_c_schema__(self):
        return schema_of(self.fields)


def test_a_schema_has_the_types_of_pyarrow_and_everything_may_be_null(pa):
    schema = pa.schema(SchemaOf(FIELDS))
    assert schema.equals(arrow_schema(pa), check_metadata=True)
    assert all(field.nullable for field in schema)
    assert schema.field("keys").type.value_field.equals(pa.field("item", pa.string()))
    properties = schema.field("properties").type
    assert not properties.key_field.nullable
    assert properties.item_field.nullable
    assert str(properties) == str(pa.map_(pa.string(), pa.string()))


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 64, 1_000])
def test_a_batch_has_the_values_of_its_columns(pa, n, seed):
    rows = random_rows(n, seed)
    batch = pa.record_batch(Batch(rows))
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema(pa))
    assert batch.num_rows == n
    assert as_rows(batch) == rows


def test_a_stream_gives_its_batches_one_by_one_and_some_may_be_empty(pa, seed):
    batches = [random_rows(n, seed + n) for n in (3, 0, 10, 1)]
    with pa.RecordBatchReader.from_stream(Stream(batches)) as reader:
        assert reader.schema.equals(arrow_schema(pa))
        for rows in batches:
            batch = reader.read_next_batch()
            batch.validate(full=True)
            assert as_rows(batch) == rows
        for _ in range(2):
            with pytest.raises(StopIteration):
                reader.read_next_batch()


def test_a_stream_without_batches_has_its_schema(pa):
    for batches in ([], iter(())):
        table = pa.table(Stream(batches))
        assert (table.num_rows, table.schema.equals(arrow_schema(pa))) == (0, True)


def test_slices_of_an_export_are_slices_of_its_rows(pa, seed):
    rows = random_rows(50, seed)
    batch = pa.record_batch(Batch(rows))
    for start, length in ((0, 50), (1, 9), (8, 8), (13, 30), (49, 1), (50, 0)):
        piece = batch.slice(start, length)
        piece.validate(full=True)
        assert as_rows(piece) == rows[start : start + length]


def test_columns_that_are_slices_are_exported_as_slices(pa, seed):
    rows = random_rows(20, seed)
    columns = columns_of(rows)

    def cut(column):
        if isinstance(column, np.ndarray):
            return column[5:15]
        part = copy.copy(column)
        part.offsets = column.offsets[5:16]
        if isinstance(column, StringColumn) and column.valid is not None:
            part.valid = column.valid[5:15]
        return part

    batch = Batch(rows[5:15])
    batch.columns = {name: cut(column) for name, column in columns.items()}
    assert as_rows(pa.record_batch(batch)) == rows[5:15]
    # Strided, and read-only.
    batch = Batch(rows[::2])
    batch.columns |= {name: columns[name][::2] for name in ("queue_id", "phy_offset", "store_timestamp")}
    for name in ("queue_id", "phy_offset"):
        batch.columns[name].flags.writeable = False
    assert as_rows(pa.record_batch(batch)) == rows[::2]


def test_no_buffer_is_copied(pa, seed):
    batch = Batch(random_rows(100, seed))
    columns, exported = batch.columns, pa.record_batch(batch)

    def addresses(name):
        return [buffer and buffer.address for buffer in exported.column(MESSAGE_FIELDS[name].name).buffers()]

    def given(*arrays):
        return [array.ctypes.data for array in arrays]

    def of_strings(column):
        return given(column.offsets, column.data)

    keys, properties = columns["keys"], columns["properties"]
    assert addresses("queue_id") == [None, *given(columns["queue_id"])]
    assert addresses("store_timestamp") == [None, *given(columns["store_timestamp"])]
    assert addresses("topic") == [None, *of_strings(columns["topic"])]
    assert addresses("tags")[1:] == of_strings(columns["tags"])
    assert addresses("keys") == [None, *given(keys.offsets), None, *of_strings(keys.values)]
    assert addresses("properties") == [
        *(None, *given(properties.offsets), None),
        *(None, *of_strings(properties.keys), None, *of_strings(properties.values)),
    ]


def test_a_time_outside_years_1_to_9999_is_null_and_its_twin_is_not(pa):
    times = [YEAR_1 - 1, YEAR_1, -1, 0, YEAR_9999_END, YEAR_9999_END + 1, 2**63 - 1, -(2**63), 1]
    fields = [MESSAGE_FIELDS[name] for name in ("born_timestamp", "born_timestamp_ms")]
    given = np.array(times, np.int64)
    exported = pa.table(Stream(one_batch(given, given, n=len(times)), fields))
    expected = [time if YEAR_1 <= time <= YEAR_9999_END else None for time in times]
    assert exported["bornTimestamp"].cast(pa.int64()).to_pylist() == expected
    assert exported["bornTimestamp"].null_count == 4
    assert exported["bornTimestampMs"].to_pylist() == times
    assert given.tolist() == times
    years = [time.year for time in exported["bornTimestamp"].to_pylist() if time]
    assert years == [1, 1969, 1970, 9999, 1970]


def test_a_column_has_a_bitmap_only_where_it_has_nulls(pa):
    fields = [MESSAGE_FIELDS["tags"], MESSAGE_FIELDS["uniq_key"]]
    batches = one_batch(var_column(["a", "b"], True), var_column([None, "b"], True), n=2)
    array = pa.table(Stream(batches, fields)).to_batches()[0]
    assert array.column("tags").buffers()[0] is None
    assert array.column("uniqKey").buffers()[0] is not None
    assert [column.null_count for column in array.columns] == [0, 1]
    assert array.to_pylist() == [{"tags": "a", "uniqKey": None}, {"tags": "b", "uniqKey": "b"}]


def test_maps_may_have_null_values(pa):
    fields = [MESSAGE_FIELDS["properties"]]
    column = MapColumn(ends([2, 1]), var_column(["a", "b", "c"]), var_column([None, "", None], True))
    table = pa.table(Stream(one_batch(column, n=2), fields))
    table.validate(full=True)
    assert table["properties"].to_pylist() == [[("a", None), ("b", "")], [("c", None)]]


# ---- columns that do not fit -------------------------------------------------------------------------------

BAD_COLUMNS = {
    "phy_offset": [
        np.zeros(3, np.int32),
        np.zeros(3),
        np.zeros(3, ">i8"),
        np.zeros(2, np.int64),
        np.zeros((3, 1), np.int64),
    ],
    "tags": [
        StringColumn(np.zeros(4, np.int64), np.zeros(0, np.uint8)),
        StringColumn(np.zeros(3, np.int32), np.zeros(0, np.uint8)),
        StringColumn(np.array([0, 1, 2, 3], np.int32), np.zeros(2, np.uint8)),
        StringColumn(np.array([-1, 0, 0, 0], np.int32), np.zeros(2, np.uint8)),
        StringColumn(np.array([2, 1, 1, 1], np.int32), np.zeros(2, np.uint8)),
        StringColumn(np.zeros(4, np.int32), np.zeros(2, np.int8)),
        StringColumn(np.zeros(4, np.int32), np.zeros(2, np.uint8), np.zeros(2, np.bool_)),
        StringColumn(np.zeros(4, np.int32), np.zeros(2, np.uint8), np.zeros(3, np.uint8)),
    ],
    "keys": [
        ListColumn(np.array([0, 1, 2, 3], np.int32), var_column(["a", "b"])),
        ListColumn(np.zeros(3, np.int32), var_column([])),
    ],
    "properties": [
        MapColumn(np.zeros(4, np.int32), var_column(["a"]), var_column([])),
        MapColumn(np.array([0, 0, 0, 2], np.int32), var_column(["a"]), var_column(["b"])),
    ],
}


@pytest.mark.parametrize(("name", "column"), [(name, column) for name, bad in BAD_COLUMNS.items() for column in bad])
def test_a_column_that_does_not_fit_is_refused_by_its_name(name, column, seed):
    columns = list((columns_of(random_rows(3, seed)) | {name: column}).values())
    with pytest.raises(ValueError, match=f"^{MESSAGE_FIELDS[name].name}: "):
        export_batch(FIELDS, columns, 3)
    with pytest.raises(ValueError, match=f"^{MESSAGE_FIELDS[name].name}: "):
        consume(Stream(one_batch(*columns, n=3)), read_all)


def test_a_batch_of_another_length_than_declared_is_refused(seed):
    columns, _ = batch_of(random_rows(3, seed))
    for length in (2, 4, 0):
        with pytest.raises(ValueError, match=r"^topic: "):
            export_batch(FIELDS, columns, length)


def test_a_column_too_few_or_too_many_is_refused(seed):
    columns, _ = batch_of(random_rows(3, seed))
    for wrong in (columns[:-1], [*columns, columns[0]], []):
        with pytest.raises(ValueError, match="argument 2 is"):
            export_batch(FIELDS, wrong, 3)


# ---- a consumer in ctypes, which does what pyarrow hides ---------------------------------------------------


class ArrowSchema(ctypes.Structure):
    """The struct of the Arrow C data interface."""


class ArrowArray(ctypes.Structure):
    """The struct of the Arrow C data interface."""


class ArrowArrayStream(ctypes.Structure):
    """The struct of the Arrow C stream interface."""


ArrowSchema._fields_ = [
    *((name, ctypes.c_char_p) for name in ("format", "name", "metadata")),
    *((name, ctypes.c_int64) for name in ("flags", "n_children")),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))),
    ("private_data", ctypes.c_void_p),
]
ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))),
    ("private_data", ctypes.c_void_p),
]
ArrowArrayStream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowSchema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowArray))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(ArrowArrayStream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArrayStream))),
    ("private_data", ctypes.c_void_p),
]
CAPSULES = {b"arrow_schema": ArrowSchema, b"arrow_array": ArrowArray, b"arrow_array_stream": ArrowArrayStream}


def struct_in(capsule, name):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return CAPSULES[name].from_address(pointer(capsule, name))


def move(struct):
    """Take a struct out of where it is, as a consumer may."""
    taken = type(struct)()
    ctypes.memmove(ctypes.byref(taken), ctypes.byref(struct), ctypes.sizeof(taken))
    struct.release = type(struct.release)()
    return taken


def taken(capsule, name):
    return move(struct_in(capsule, name))


def release(struct):
    struct.release(ctypes.byref(struct))
    assert not struct.release


def read_all(stream_object):
    """A consumer of a whole stream: the lengths of its batches; raises what the stream says."""
    stream = taken(stream_object.__arrow_c_stream__(), b"arrow_array_stream")
    lengths = []
    try:
        while True:
            array = ArrowArray()
            code = stream.get_next(stream, array)
            if code:
                raise RuntimeError(f"{code}: {stream.get_last_error(stream).decode()}")
            if not array.release:
                return lengths
            lengths.append(array.length)
            release(array)
    finally:
        release(stream)


def text_at(array, row):
    offsets = ctypes.cast(array.buffers[1], ctypes.POINTER(ctypes.c_int32))
    return ctypes.string_at(array.buffers[2] + offsets[row], offsets[row + 1] - offsets[row])


def test_a_schema_says_what_the_interface_asks_for():
    capsule = schema_of(FIELDS)
    schema = struct_in(capsule, b"arrow_schema")
    assert (schema.format, schema.n_children, schema.dictionary) == (b"+s", len(NAMES), None)
    children = [schema.children[i].contents for i in range(schema.n_children)]
    assert [(child.name.decode(), child.format.decode()) for child in children] == [
        (field.name, field.format) for field in FIELDS
    ]
    assert {child.flags for child in children} == {2}
    assert all(child.metadata is None for child in children)
    item = children[NAMES.index("keys")].children[0].contents
    assert (item.format, item.name, item.flags) == (b"u", b"item", 2)
    entries = children[NAMES.index("properties")].children[0].contents
    assert (entries.format, entries.flags, entries.n_children) == (b"+s", 0, 2)
    key, value = entries.children[0].contents, entries.children[1].contents
    assert [(key.format, key.name, key.flags), (value.format, value.name, value.flags)] == [
        (b"u", b"key", 0),
        (b"u", b"value", 2),
    ]
    # A child that was moved out lives on alone.
    taken = move(entries)
    release(schema)
    del capsule, schema, children, item, entries, key, value
    overwrite_freed_memory()
    assert (taken.name, taken.children[1].contents.name) == (b"entries", b"value")
    release(taken)


def arrays_of(column):
    """All NumPy arrays of a column."""
    if column is None or isinstance(column, np.ndarray):
        return [] if column is None else [column]
    names = [name for kind in type(column).__mro__ for name in getattr(kind, "__slots__", ())]
    return [array for name in names for array in arrays_of(getattr(column, name))]


def watched(columns):
    """Weak references to the arrays of columns, by the column's name."""
    return {name: [weakref.ref(array) for array in arrays_of(column)] for name, column in columns.items()}


def alive(watch):
    """Return the columns whose arrays are all alive. The other columns must have no living array."""
    gc.collect()
    states = {name: {ref() is not None for ref in references} for name, references in watch.items()}
    assert all(len(state) == 1 for state in states.values()), states
    return [name for name, state in states.items() if True in state]


def overwrite_freed_memory():
    gc.collect()
    return [bytes([n % 251]) * size for size in (64, 96, 112, 512, 8_000, 16_000) for n in range(500)]


def batch_and_watch(seed, n=100):
    columns = columns_of(random_rows(n, seed))
    columns["tags"].valid = None  # what goes out is not this, but a bitmap made from it
    return list(columns.values()), watched(columns)


def test_a_batch_that_nobody_consumes_is_given_back(seed):
    columns, watch = batch_and_watch(seed)
    capsules = export_batch(FIELDS, columns, 100)
    del columns
    assert alive(watch) == NAMES
    del capsules
    assert alive(watch) == []


def test_a_batch_is_given_back_by_its_release_and_not_again_by_its_capsule(seed):
    columns, watch = batch_and_watch(seed)
    capsules = export_batch(FIELDS, columns, 100)
    del columns
    release(struct_in(capsules[1], b"arrow_array"))
    release(struct_in(capsules[0], b"arrow_schema"))
    assert alive(watch) == []


@pytest.mark.parametrize("name", only_some_quick(NAMES, "topic", "properties", "body"))
def test_a_child_that_is_moved_out_holds_its_own_arrays_and_no_other(name, seed):
    rows = random_rows(100, seed)
    columns, watch = batch_and_watch(seed)
    capsules = export_batch(FIELDS, columns, 100)
    del columns
    parent = taken(capsules[1], b"arrow_array")
    assert not struct_in(capsules[1], b"arrow_array").release
    child = move(parent.children[NAMES.index(name)].contents)
    release(parent)
    del capsules, parent
    assert alive(watch) == [name]
    rubbish = overwrite_freed_memory()
    assert (child.length, child.offset) == (100, 0)
    if name == "topic":
        assert [text_at(child, row).decode() for row in range(100)] == [row["topic"] for row in rows]
    if name == "properties":
        keys = move(child.children[0].contents.children[0].contents)
        release(child)
        rubbish += overwrite_freed_memory()
        expected = [key for row in rows for key, _ in row["properties"]]
        assert [text_at(keys, row).decode() for row in range(keys.length)] == expected
        child = keys
    release(child)
    assert alive(watch) == []


def test_a_child_that_is_released_before_its_parent_is_not_released_again(seed):
    columns, watch = batch_and_watch(seed)
    capsules = export_batch(FIELDS, columns, 100)
    del columns
    parent = struct_in(capsules[1], b"arrow_array")
    release(parent.children[0].contents)
    release(parent.children[NAMES.index("properties")].contents.children[0].contents)
    release(parent)
    assert alive(watch) == []
    del capsules
    gc.collect()


def test_a_column_that_pyarrow_keeps_stays_when_everything_else_is_gone(pa, seed):
    rows = random_rows(100, seed)
    columns, watch = batch_and_watch(seed)
    table = pa.table(Stream(one_batch(*columns, n=100)))
    del columns
    kept = table["keys"].slice(10, 50)
    del table
    rubbish = overwrite_freed_memory()
    assert kept.to_pylist() == [row["keys"] for row in rows[10:60]]
    assert "keys" in alive(watch)
    del kept, rubbish
    assert alive(watch) == []


def test_a_long_stream_takes_the_memory_of_one_batch(pa):
    fields = [MESSAGE_FIELDS["phy_offset"], MESSAGE_FIELDS["body"]]
    n, size = 1_000, 1 << 20

    def batches():
        for number in range(100):
            offsets = np.linspace(0, size, n + 1).astype(np.int32)
            yield (np.full(n, number), StringColumn(offsets, np.zeros(size, np.uint8))), n

    before = pa.total_allocated_bytes()
    tracemalloc.start()
    reader = pa.RecordBatchReader.from_stream(Stream(batches(), fields))
    total = sum(batch.num_rows for batch in reader)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 100 * n
    assert peak < 5 * size
    del reader
    assert pa.total_allocated_bytes() == before


def test_many_exports_leave_nothing_behind(seed):
    columns, _ = batch = batch_of(random_rows(50, seed))

    def export():
        export_batch(FIELDS, columns, 50)
        read_all(Stream(iter([batch, batch])))
        export_stream(FIELDS, [batch])

    export()
    gc.collect()
    tracemalloc.start()
    for _ in range(20):
        export()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(500):
        export()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 10_000


class NextBatch:
    """Asks a stream for its first batch, and lets go of everything."""

    def __init__(self, columns):
        self.stream = taken(export_stream(FIELDS, [(columns, 10)]), b"arrow_array_stream")
        self.array = ArrowArray()

    def __call__(self):
        if self.stream.get_next(self.stream, self.array) != 0:
            raise MemoryError

    def done(self):
        if self.array.release:
            release(self.array)
        release(self.stream)


class ABatch:
    """Exports a batch, and lets go of it."""

    def __init__(self, columns):
        self.columns = columns

    def __call__(self):
        export_batch(FIELDS, self.columns, 10)

    def done(self):
        pass


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="a list that cannot grow crashes CPython itself")
@pytest.mark.parametrize("export", [ABatch, NextBatch])
def test_where_memory_ends_there_is_an_error_and_nothing_is_kept(export, seed):
    _testcapi = pytest.importorskip("_testcapi", reason="needs CPython's own test module")
    columns, watch = batch_and_watch(seed, 10)
    arrays = [reference() for references in watch.values() for reference in references]
    before = [sys.getrefcount(array) for array in arrays]
    failures = 0
    for number in range(1, 10_000):
        action = export(columns)
        _testcapi.set_nomemory(number, number + 1)
        try:
            action()
        except (MemoryError, ctypes.ArgumentError):
            failures += 1
        finally:
            _testcapi.remove_mem_hooks()
        action.done()
        if number > failures + 100:
            break  # all allocations had their turn
    del action
    gc.collect()
    assert failures > 100
    assert [sys.getrefcount(array) for array in arrays] == before


# ---- streams that end early, or badly ----------------------------------------------------------------------


def numbered(events, batches):
    """Batches, from a generator that says when it is closed."""
    try:
        for number, rows in enumerate(batches):
            events.append(number)
            yield batch_of(rows)
    finally:
        events.append("closed")


def test_a_consumer_that_stops_early_closes_the_generator(pa, seed):
    batches = [random_rows(5, seed) for _ in range(10)]
    events = []
    reader = pa.RecordBatchReader.from_stream(Stream(numbered(events, batches)))
    assert events == []
    assert as_rows(reader.read_next_batch()) == batches[0]
    assert events == [0]
    reader.close()
    assert events == [0, "closed"]
    events = []
    reader = pa.RecordBatchReader.from_stream(Stream(numbered(events, batches)))
    kept = reader.read_next_batch()
    del reader
    gc.collect()
    assert events == [0, "closed"]
    assert as_rows(kept) == batches[0]


class Closing:
    """An iterator that counts how often it is closed."""

    def __init__(self):
        self.closed = 0

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration

    def close(self):
        self.closed += 1


def test_a_stream_that_nobody_starts_closes_its_iterator_once():
    batches = Closing()
    capsule = export_stream(FIELDS, batches)
    assert batches.closed == 0
    del capsule
    assert batches.closed == 1
    batches = Closing()
    capsule = export_stream(FIELDS, batches)
    release(taken(capsule, b"arrow_array_stream"))
    assert batches.closed == 1
    del capsule
    assert batches.closed == 1


def test_closing_leaves_an_exception_that_is_on_its_way_alone(seed):
    events = []

    def fails_while_it_holds_a_stream():
        capsule = export_stream(FIELDS, numbered(events, [random_rows(1, seed)] * 3))
        stream = struct_in(capsule, b"arrow_array_stream")
        array = ArrowArray()
        assert stream.get_next(stream, array) == 0
        release(array)
        raise ZeroDivisionError("on its way")

    with pytest.raises(ZeroDivisionError, match="on its way"):
        fails_while_it_holds_a_stream()
    gc.collect()
    assert events == [0, "closed"]


def test_an_error_while_closing_goes_to_the_unraisable_hook(monkeypatch):
    caught = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: caught.append(str(event.exc_value)))

    class Failing(Closing):
        def close(self):
            raise OSError("cannot close")

    capsule = export_stream(FIELDS, Failing())
    release(taken(capsule, b"arrow_array_stream"))
    assert caught == ["cannot close"]


ERRORS = [
    OSError("the disk is on fire"),
    KeyError("topic"),
    MemoryError(),
    KeyboardInterrupt(),
    ValueError("é\0\udcff"),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_an_error_of_the_iterator_ends_the_stream_with_its_text(error, seed):
    def batches():
        yield batch_of(random_rows(3, seed))
        raise error

    capsule = export_stream(FIELDS, batches())
    stream = taken(capsule, b"arrow_array_stream")
    array = ArrowArray()
    assert (stream.get_last_error(stream), stream.get_next(stream, array), array.length) == (None, 0, 3)
    release(array)
    for _ in range(2):
        # Asked again it does not pretend that this was the end.
        assert stream.get_next(stream, array) == EIO
        assert not array.release
        expected = f"{type(error).__name__}: {error}".encode(errors="replace").partition(b"\0")[0]
        assert stream.get_last_error(stream) == expected
    release(stream)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_consume_raises_the_very_error_of_the_iterator(pa, error, seed):
    def batches():
        yield batch_of(random_rows(3, seed))
        raise error

    for consumer in (pa.table, read_all):
        with pytest.raises(type(error)) as caught:
            consume(Stream(batches()), consumer)
        assert caught.value is error
        del caught


def test_without_consume_pyarrow_tells_the_text_of_the_error(pa, seed):
    def batches():
        yield batch_of(random_rows(3, seed))
        raise ValueError("damaged at 42")

    reader = pa.RecordBatchReader.from_stream(Stream(batches()))
    assert reader.read_next_batch().num_rows == 3
    with pytest.raises(OSError, match="ValueError: damaged at 42"):
        reader.read_next_batch()


def test_an_error_whose_text_cannot_be_had_is_an_error_all_the_same(seed, monkeypatch):
    caught = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: caught.append(event.exc_type))

    class Dumb(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def batches():
        raise Dumb
        yield

    stream = taken(export_stream(FIELDS, batches()), b"arrow_array_stream")
    array = ArrowArray()
    assert stream.get_next(stream, array) == EIO
    assert stream.get_last_error(stream) is None
    release(stream)
    assert caught == [RuntimeError]


def test_an_error_does_not_keep_the_stream_or_its_batches(pa, seed):
    watches = []

    def batches():
        columns = columns_of(random_rows(3, seed))
        watches.append(weakref.ref(columns["phy_offset"]))
        yield list(columns.values()), 3
        raise OSError("the end")

    gc.collect()
    gc.disable()
    try:
        for consumer in (pa.table, read_all):
            with pytest.raises(OSError, match="the end") as caught:
                consume(Stream(batches()), consumer)
            del caught
            assert watches.pop()() is None
    finally:
        gc.enable()


def test_consume_passes_on_what_other_consumers_and_producers_do(pa, seed):
    rows = random_rows(3, seed)
    assert as_rows(consume(Stream([rows]), pa.table)) == rows
    table = pa.table({"a": [1, 2]})
    assert consume(table, pa.table).equals(table)

    def refuses(stream):
        raise TypeError("not this one")

    for producer in (Stream([rows]), table):
        with pytest.raises(TypeError, match="not this one"):
            consume(producer, refuses)
    with pytest.raises(AttributeError, match="__arrow_c_stream__"):
        consume([1], pa.table)


def test_a_stream_is_consumed_once(pa, seed):
    class Once:
        def __init__(self, capsule):
            self.capsule = capsule

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    for first in (pa.table, read_all):
        given = Once(export_stream(FIELDS, [batch_of(random_rows(3, seed))]))
        first(given)
        for _ in range(2):
            with pytest.raises(pa.ArrowInvalid, match="released"):
                pa.table(given)


def test_a_stream_may_be_read_in_another_thread_than_it_was_made_in(pa, seed):
    batches = [random_rows(20, seed + n) for n in range(20)]
    readers = [pa.RecordBatchReader.from_stream(Stream(batches)) for _ in range(4)]
    found = [None] * len(readers)

    def read(number):
        found[number] = as_rows(readers[number].read_all())

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(readers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[row for rows in batches for row in rows]] * len(readers)


# ---- other consumers ---------------------------------------------------------------------------------------


def test_polars_takes_a_stream_and_a_batch(seed):
    polars = pytest.importorskip("polars", reason="needs polars")
    batches = [random_rows(n, seed + n) for n in (3, 0, 40)]
    rows = [row for batch in batches for row in batch]
    frame = polars.DataFrame(Stream(batches))
    assert frame.columns == [field.name for field in FIELDS]
    assert frame.schema["storeTimestamp"] == polars.Datetime("ms", "UTC")
    for name in NAMES:
        if name not in ("store_timestamp", "properties"):
            assert frame[MESSAGE_FIELDS[name].name].to_list() == [row[name] for row in rows], name
    assert frame["storeTimestamp"].dt.timestamp("ms").to_list() == [row["store_timestamp"] for row in rows]
    pairs = frame["properties"].to_list()
    if pairs and isinstance(next((pair for pair in pairs if pair), {}), list):
        pairs = [{pair["key"]: pair["value"] for pair in row} for row in pairs]
    assert pairs == [dict(row["properties"]) for row in rows]
    assert len(polars.from_arrow(Stream(batches))) == 43
    assert polars.DataFrame(Stream([])).shape == (0, len(FIELDS))
    assert polars.DataFrame(Batch(rows)).equals(frame)


def test_polars_fails_with_the_error_of_the_stream(seed):
    polars = pytest.importorskip("polars", reason="needs polars")
    events = []

    def batches():
        yield from numbered(events, [random_rows(3, seed)])
        raise OSError("damaged at 42")

    with pytest.raises(polars.exceptions.PolarsError, match="OSError: damaged at 42"):
        polars.DataFrame(Stream(batches()))
    with pytest.raises(OSError, match=r"^damaged at 42"):
        consume(Stream(batches()), polars.DataFrame)
    assert events == [0, "closed"] * 2


def test_duckdb_queries_a_stream_and_may_stop_early(pa, seed):
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    batches = [random_rows(50, seed + n) for n in range(100)]
    rows = [row for batch in batches for row in batch]
    with duckdb.connect() as connection:
        connection.register("messages", pa.RecordBatchReader.from_stream(Stream(batches)))
        found = connection.execute(
            'SELECT topic, "queueId", "phyOffset", epoch_ms("storeTimestamp"), tags, keys,'
            " map_entries(properties), body FROM messages"
        ).fetchall()
        expected = [
            (*list(row.values())[:6], [{"key": key, "value": value} for key, value in row["properties"]], row["body"])
            for row in rows
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        events = []
        reader = pa.RecordBatchReader.from_stream(Stream(numbered(events, batches)))
        assert len(connection.from_arrow(reader).project("topic").limit(3).fetchall()) == 3
        del reader
    gc.collect()
    assert events[-1] == "closed"
    assert events.count("closed") == 1


def test_pandas_takes_a_stream_by_way_of_pyarrow(pa, seed):
    pytest.importorskip("pandas", reason="needs pandas")
    rows = random_rows(30, seed)
    frame = pa.table(Stream([rows[:10], rows[10:]])).to_pandas()
    assert frame["phyOffset"].tolist() == [row["phy_offset"] for row in rows]
    assert [row.tolist() for row in frame["keys"]] == [row["keys"] for row in rows]
    assert frame["properties"].tolist() == [row["properties"] for row in rows]
    assert [None if tags != tags else tags for tags in frame["tags"]] == [row["tags"] for row in rows]


# ---- the table of messages ---------------------------------------------------------------------------------


def test_a_table_has_the_requested_columns_in_their_order():
    assert list(message_fields(["tags", "topic"])) == ["tags", "topic"]
    assert message_fields(["tags"]) == {"tags": Field("tags", "u", nullable=True)}
    fields = message_fields()
    assert [field.name for field in fields.values()] == [
        *("topic", "queueId", "queueOffset", "phyOffset", "size", "flag", "sysFlag", "bornTimestamp", "bornHost"),
        *("storeTimestamp", "storeHost", "reconsumeTimes", "preparedTransactionOffset", "bodyCrc", "msgId", "tags"),
        *("keys", "uniqKey", "properties", "body"),
    ]
    assert list(MESSAGE_FIELDS)[len(fields) : -4] == ["body_text", "body_json", "body_error", "raw_body"]
    assert list(MESSAGE_FIELDS)[-4:] == ["tags_code", "born_timestamp_ms", "store_timestamp_ms", "damaged"]


@pytest.mark.parametrize("columns", [["topic", "queueid"], ["nothing"]])
def test_a_column_that_there_is_not_is_refused(columns):
    with pytest.raises(ValueError, match=r"^columns: '\w+' is none of topic, queue_id, "):
        message_fields(columns)


def test_a_single_str_is_a_list_of_one_column():
    assert message_fields("topic") == message_fields(["topic"])


def test_a_table_without_columns_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        message_fields([])

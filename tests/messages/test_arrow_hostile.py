"""Arrow data that contradicts itself is an error of every input, and never a crash or a MemoryError."""

import io
import os
import random

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow with Parquet")

from support import arrow_lies  # noqa: E402

import rocketstore  # noqa: E402
from rocketstore import IndexFile, MessageBatch, StoreConfig, StoreError, hash_keys  # noqa: E402

KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
WRONG = "contradicts itself|outside the|is null"


@pytest.fixture
def store(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig.small()) as opened:
        yield opened


# ---- keys and numbers of pyarrow, whose buffers are too short ----------------------------------------------


def as_series(column):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    return pandas.Series(pandas.arrays.ArrowExtensionArray(pa.chunked_array([column])))


FORMS = {"array": lambda column: column, "chunked": lambda column: pa.chunked_array([column]), "pandas": as_series}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_keys_whose_buffers_are_shorter_than_their_length_are_refused(kind, form, tmp_path):
    keys = FORMS[form](arrow_lies.short_batch(kind).column("topic"))
    with pytest.raises(ValueError, match=r"keys: the Arrow data contradicts itself: .*Buffer #1 too small"):
        hash_keys(keys)
    with pytest.raises(ValueError, match="topic: the Arrow data contradicts itself"):
        hash_keys(["a"], topic=keys)
    with IndexFile.create(tmp_path / "20231114221320000", hash_slot_num=10, index_num=100) as index:
        with pytest.raises(ValueError, match="contradicts itself"):
            index.put_keys(keys, np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64))
        with pytest.raises(ValueError, match="contradicts itself"):
            index.select_phy_offsets(keys)


@pytest.mark.parametrize("form", FORMS)
def test_offsets_whose_buffer_is_shorter_than_their_length_are_refused(form, tmp_path, store):
    offsets = FORMS[form](arrow_lies.short_batch().column("phyOffset"))
    with pytest.raises(ValueError, match=r"phy_offsets: the Arrow data contradicts itself: .*Buffer #1 too small"):
        store.commit_log.get_messages(offsets)
    times = np.zeros(len(offsets), np.int64)
    with IndexFile.create(tmp_path / "20231114221320000", hash_slot_num=10, index_num=100) as index:
        with pytest.raises(ValueError, match="phy_offsets: the Arrow data"):
            index.put_keys(["key"] * len(offsets), offsets, times)
        with pytest.raises(ValueError, match="store_timestamps: the Arrow data"):
            index.put_keys(["key"] * len(offsets), times, offsets)


# ---- the C data interface, which tells no sizes of buffers -------------------------------------------------


@pytest.mark.parametrize("lie", arrow_lies.C_LIES)
def test_what_a_producer_says_of_keys_is_compared_with_itself(lie):
    with pytest.raises(ValueError, match=WRONG):
        hash_keys(arrow_lies.C_LIES[lie]("keys"))


@pytest.mark.parametrize("lie", arrow_lies.C_LIES)
def test_what_a_producer_says_of_a_table_is_compared_with_itself(lie):
    with pytest.raises(ValueError, match=r"column topic|Arrow data c"):
        MessageBatch.of_arrow(arrow_lies.c_table(arrow_lies.C_LIES[lie]("topic")))


def test_a_producer_that_tells_the_truth_is_taken():
    assert hash_keys(arrow_lies.texts("keys")).tolist() == hash_keys(["a", "b", "c"]).tolist()
    assert len(MessageBatch.of_arrow(arrow_lies.c_table(arrow_lies.texts("topic")))) == 3
    assert hash_keys(arrow_lies.texts("keys", length=0, buffers=[None, None, None])).tolist() == []


# ---- tables ------------------------------------------------------------------------------------------------


TABLES = {
    "batch": lambda batch: batch,
    "table": lambda batch: pa.Table.from_batches([batch]),
    "reader": lambda batch: pa.RecordBatchReader.from_batches(batch.schema, [batch]),
    "struct": lambda batch: batch.to_struct_array(),
    "pandas": lambda batch: pytest.importorskip("pandas").DataFrame(
        {name: as_series(batch.column(name)) for name in batch.schema.names}
    ),
}


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_table_whose_buffers_are_shorter_than_its_length_is_refused(kind, form, store):
    table = TABLES[form](arrow_lies.short_batch(kind).rename_columns(["topic", "body", "phyOffset"]))
    with pytest.raises(ValueError, match="too small"):
        store.put_messages(table)
    assert store.commit_log.max_phy_offset == 0


def nulls(n):
    return pa.Array.from_buffers(pa.null(), n, [None])


def views_of_one_value(n):
    view = np.array([2**20, 0, 0, 0], np.int32)  # length, prefix, buffer, offset
    data = bytes(2**20)
    return pa.Array.from_buffers(pa.string_view(), n, [None, pa.py_buffer(np.tile(view, n)), pa.py_buffer(data)])


MUCH = {
    "nulls for topics": ("topic", lambda: nulls(2**40), "column topic, row 0: is null"),
    "nulls for bodies": ("body", lambda: nulls(2**40), "column body, row 0: is null"),
    "one value of a dictionary": (
        "topic",
        lambda: pa.array(["x" * 2**20]).dictionary_encode().take(pa.array([0] * 4096)),
        "column topic, rows 0 to 4096: have 4,294,967,296 bytes, and 2,147,483,647 are the most",
    ),
    "views of one value": ("body", lambda: views_of_one_value(4096), "have 4,294,967,296 bytes"),
    "lists of the same values": (
        "keys",
        lambda: pa.ListViewArray.from_arrays([0] * 4096, [2**20] * 4096, pa.array(["k"] * 2**20)),
        "have 4,294,967,296 values of lists",
    ),
    "lists of nulls": (
        "keys",
        lambda: pa.FixedSizeListArray.from_arrays(nulls(2**40), 2**28),
        "have 1,099,511,627,776 values of lists",
    ),
    "fewer lists of nulls": (
        "keys",
        lambda: pa.FixedSizeListArray.from_arrays(nulls(2**30), 2**18),
        "column keys, row 0: a key is null",
    ),
}


@pytest.mark.parametrize("what", MUCH)
def test_a_small_table_that_says_it_has_much_is_refused_before_memory_is_taken(what, monkeypatch):
    monkeypatch.setattr("rocketstore.messages.arrow_import.PIECE_ROWS", 4096)
    name, make, expected = MUCH[what]
    values = make()
    few = len(values) <= 4096
    columns = {
        "topic": pa.array(["T"] * len(values)) if few else nulls(len(values)),
        "body": pa.array([b""] * len(values)) if few else nulls(len(values)),
        name: values,
    }
    with pytest.raises(ValueError, match=expected):
        MessageBatch.of_arrow(pa.record_batch(columns if few else {name: values} | columns))


def test_a_property_of_the_type_null_is_no_property():
    batch = pa.record_batch({"topic": ["T"], "body": [b""], "properties": [{"a": None, "b": "x"}]})
    assert pa.types.is_null(batch.schema.field("properties").type.field("a").type)
    assert MessageBatch.of_arrow(batch)[0].properties == {"b": "x"}


# ---- files -------------------------------------------------------------------------------------------------


def compressed_with_a_wild_size():
    """An Arrow file whose first compressed buffer says that it becomes an exbibyte."""
    batch = pa.record_batch({"topic": ["T"] * 4001, "body": [b"x"] * 4001})
    data = arrow_lies.ipc_bytes(batch, compression="zstd")
    return data.replace((4 * 4002).to_bytes(8, "little"), (2**60).to_bytes(8, "little"))


@pytest.mark.parametrize("what", ["short buffers", "a wild size", "cut"])
def test_import_refuses_a_file_that_lies_in_one_line(what, tmp_path):
    cli = pytest.importorskip("support.cli", reason="needs the command line")
    data = {
        "short buffers": arrow_lies.short_offsets(pa.string()),
        "a wild size": compressed_with_a_wild_size(),
        "cut": compressed_with_a_wild_size()[:-100],
    }[what]
    source = tmp_path / "lie.arrow"
    source.write_bytes(data)
    result = cli.run("import", source, tmp_path / "store", "--small")
    assert result.exit_code == 1
    cli.assert_one_line(result, f"Error: {source}: ")


@pytest.mark.parametrize("form", ["file", "stream"])
def test_a_lying_size_is_no_memory_error(form, store):
    data = compressed_with_a_wild_size()
    if form == "stream":
        batch = pa.record_batch({"topic": ["T"] * 4001, "body": [b"x"] * 4001})
        data = arrow_lies.ipc_bytes(batch, compression="zstd", stream=True)
        data = data.replace((4 * 4002).to_bytes(8, "little"), (2**60).to_bytes(8, "little"))
        with pytest.raises(ValueError, match="the Arrow data cannot be read: malloc"):
            store.put_messages(pa.ipc.open_stream(data))
    else:
        with pytest.raises(MemoryError):
            pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)


# ---- any bytes ---------------------------------------------------------------------------------------------


def random_batch(rng, n=50):
    def words(count):
        return [f"w{rng.randrange(10**6)}" * rng.randrange(1, 4) for _ in range(count)]

    topics, bodies = words(n), [rng.randbytes(rng.randrange(40)) for _ in range(n)]
    keys = [words(rng.randrange(3)) for _ in range(n)]
    pairs = [[("a", "b"), ("c", f"d{i}")][: rng.randrange(3)] for i in range(n)]
    body_kinds = [pa.binary(), pa.large_binary(), pa.binary_view()]
    lists = [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_view(pa.string()), pa.list_(pa.string_view())]
    maps = [
        (pairs, pa.map_(pa.string(), pa.string())),
        ([dict(row) for row in pairs], pa.struct([("a", pa.string()), ("c", pa.string())])),
        ([[list(pair) for pair in row] for row in pairs], pa.list_(pa.list_(pa.string()))),
    ]
    columns = {
        "topic": pa.array(topics).cast(rng.choice(KINDS)),
        "body": pa.array(bodies, rng.choice(body_kinds)),
        "keys": pa.array(keys, rng.choice(lists)),
        "tags": pa.array([rng.choice([None, "x"]) for _ in range(n)]),
        "queueId": pa.array([1] * n, rng.choice([pa.int8(), pa.int32()])),
    }
    values, kind = rng.choice(maps)
    return pa.record_batch(columns | {"properties": pa.array(values, kind)})


def parquet_bytes(batch):
    out = io.BytesIO()
    simple = batch.select(["topic", "queueId", "tags"]).append_column("body", pa.array(["x"] * len(batch)))
    pq.write_table(pa.table(simple), out)
    return out.getvalue()


def damaged(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at, width = rng.randrange(len(data)), rng.choice([1, 4, 8])
        half = 1 << (8 * width - 1)
        number = rng.choice([0, -1, 1, half - 1, -half, rng.randrange(-100, 100)])
        at -= at % width
        data[at : at + width] = number.to_bytes(width, "little", signed=True)
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.05 else data)


def batches_in(form, data):
    if form == "parquet":
        yield from pq.ParquetFile(pa.BufferReader(data)).iter_batches()
    elif form == "stream":
        yield from pa.ipc.open_stream(data)
    else:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        yield from (reader.get_batch(i) for i in range(min(reader.num_record_batches, 3)))


@pytest.mark.parametrize("form", ["file", "stream", "parquet"])
def test_files_with_any_damage_are_read_or_refused(form, seed):
    """In a process of its own per form: a crash is the failure that this looks for."""
    rng = random.Random(f"{seed} {form}")
    child = os.fork()
    if child == 0:
        os._exit(read_damaged(rng, form))
    assert os.waitpid(child, 0)[1] == 0


def read_damaged(rng, form):
    for round_number in range(200):
        if round_number % 20 == 0:
            batch = random_batch(rng)
            compression = rng.choice([None, None, "lz4", "zstd"])
            whole = (
                parquet_bytes(batch)
                if form == "parquet"
                else arrow_lies.ipc_bytes(batch, stream=form == "stream", compression=compression)
            )
        try:
            for batch in batches_in(form, damaged(rng, whole)):
                if not use(batch):
                    return 1
        except (pa.ArrowException, ValueError, OSError, MemoryError, NotImplementedError, KeyError):
            continue  # of pyarrow, before the package has the batch
    return 0


def use(batch):
    """Whether a batch is taken, or refused with the errors that are documented."""
    try:
        for index in range(batch.num_columns):
            refused(lambda index=index: hash_keys(batch.column(index)))
        for table in (batch, pa.Table.from_batches([batch])):
            refused(lambda table=table: [list(part) for part in MessageBatch.iter_arrow(table)])
    except Exception:
        import traceback

        traceback.print_exc()
        return False
    return True


def refused(function, *arguments):
    try:
        function(*arguments)
    except (ValueError, TypeError, StoreError):
        return

"""A store as a dataset of pyarrow: each public method gives what a dataset of the same table in memory gives."""

import io
import pickle
import random
import shutil
import subprocess
import sys

import pytest
from support import states
from support.dataset_store import Filters, draw_filter, spied, write
from support.puts import ROLLBACK, open_store

import rocketstore
from rocketstore import CorruptFileError, Message, StoreClosedError
from rocketstore.kernels.message_columns import lazy_fields

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
ds = pytest.importorskip("pyarrow.dataset", reason="needs pyarrow, from the extra 'arrow'")
pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow, from the extra 'arrow'")
field = pc.field


@pytest.fixture(scope="module")
def root(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("dataset") / "store"
    write(path, seed)
    return path


@pytest.fixture(scope="module")
def store(root):
    with rocketstore.open(root) as store:
        yield store


@pytest.fixture
def dataset(store):
    return store.dataset()


@pytest.fixture(scope="module")
def table(store):
    return store.scan(columns=lazy_fields()).to_arrow()


# ---- methods of Dataset ------------------------------------------------------------------------------------


def test_a_dataset_has_a_scans_rows_with_the_texts_of_bodies(dataset, table):
    assert isinstance(dataset, ds.Dataset)
    assert dataset.schema.equals(table.schema)
    assert dataset.to_table().equals(table)
    assert dataset.count_rows() == len(table)
    assert dataset.partition_expression.equals(pc.scalar(True))
    assert repr(dataset).startswith("<StoreDataset of <MessageStore")


@pytest.mark.parametrize("use_threads", [True, False])
def test_columns_are_a_list_or_expressions(dataset, table, use_threads):
    some = dataset.to_table(columns=["tags", "topic", "tags"], use_threads=use_threads)
    assert some.column_names == ["tags", "topic", "tags"]
    assert some["topic"].equals(table["topic"])
    made = dataset.to_table(columns={"twice": field("size") * 2, "name": field("topic")}, use_threads=use_threads)
    assert made["twice"].to_pylist() == [2 * size for size in table["size"].to_pylist()]
    assert made["name"].equals(table["topic"])
    assert dataset.to_table(columns=[]).num_rows == len(table)
    for query in ({"columns": ["nothing"]}, {"filter": field("nothing") == 1}):
        with pytest.raises(pa.ArrowInvalid, match="nothing"):
            dataset.to_table(**query)


def test_only_the_columns_of_the_query_are_read(store, monkeypatch):
    dataset = store.dataset()
    calls = spied(monkeypatch, store.commit_log)
    dataset.to_table(columns=["queueOffset", "size"], filter=field("topic") == "Orders")
    dataset.to_table(columns={"x": field("queueId") + 1})
    dataset.count_rows()
    dataset.count_rows(filter=field("tags") == "paid")
    columns = [{*options["columns"]} for _, options in calls]
    assert columns == [{"topic", "queue_offset", "size"}, {"queue_id"}, {"phy_offset"}, {"tags"}]
    assert calls[0][1]["topic"] == ["Orders"]
    assert "tag" in calls[3][1]


def test_random_filters_give_what_arrow_gives(dataset, table, seed):
    rng, make = random.Random(seed), Filters(field, "isin")
    for _ in range(50):
        condition = draw_filter(rng, table, make)
        expected = table.filter(condition).select(["phyOffset", "tags"])
        found = dataset.to_table(columns=["phyOffset", "tags"], filter=condition)
        assert found.equals(expected), condition
        assert dataset.count_rows(filter=condition) == len(expected), condition


def test_filters_and_batches_add_up(dataset, table):
    orders = dataset.filter(field("topic") == "Orders").filter(field("queueId") < 2)
    expected = table.filter((field("topic") == "Orders") & (field("queueId") < 2))
    assert orders.to_table().equals(expected)
    assert orders.count_rows() == len(expected)
    assert "where" in repr(orders)
    batches = list(orders.to_batches(columns=["size"], filter=field("size") > 150, batch_size=16))
    assert all(isinstance(batch, pa.RecordBatch) and len(batch) <= 16 for batch in batches)
    assert pa.Table.from_batches(batches).equals(expected.filter(field("size") > 150).select(["size"]))


def test_head_and_take_give_rows_of_the_table(dataset, table):
    assert dataset.head(7, columns=["topic", "size"]).equals(table.select(["topic", "size"]).slice(0, 7))
    condition = field("topic") == "Orders"
    assert dataset.head(3, filter=condition).equals(table.filter(condition).slice(0, 3))
    assert dataset.head(0).num_rows == 0
    assert dataset.head(10**6).equals(table)
    rows = [300, 2, 2, 17]
    assert dataset.take(rows).equals(table.take(rows))
    assert dataset.take(pa.array(rows), columns=["size"]).equals(table.select(["size"]).take(rows))
    assert dataset.take([]).num_rows == 0
    with pytest.raises(IndexError, match="10000 is not one of 400 rows"):
        dataset.take([1, 10000])
    with pytest.raises(IndexError, match="negative"):
        dataset.take([-1])


def test_a_dataset_is_sorted_and_joined_in_memory(dataset, table):
    some = dataset.replace_schema(pa.schema([table.schema.field("phyOffset"), table.schema.field("topic")]))
    assert some.schema.names == ["phyOffset", "topic"]
    assert some.sort_by([("phyOffset", "descending")]).head(1)["phyOffset"][0] == pc.max(table["phyOffset"])
    other = ds.InMemoryDataset(pa.table({"topic": ["Orders"], "n": [1]}))
    joined = some.join(other, "topic", join_type="inner").to_table()
    assert len(joined) == pc.sum(pc.equal(table["topic"], "Orders")).as_py()
    assert len(some.join(some, "phyOffset", right_suffix="_2").to_table()) == len(table)
    names = ["phyOffset", "queueId"]
    offsets = dataset.replace_schema(table.select(names).schema)
    sizes = ds.InMemoryDataset(table.select([*names, "size"]))
    assert offsets.join_asof(sizes, "phyOffset", ["queueId"], 0).to_table()["size"].equals(table["size"])


def test_the_methods_of_a_dataset_are_those_that_are_tested_here(dataset, table):
    """A new method of Arrow could read the only file of the dataset, which cannot be read."""
    public = {name for name in dir(ds.Dataset) if not name.startswith("_")}
    tested = {"count_rows", "filter", "get_fragments", "head", "join", "join_asof", "replace_schema", "scanner"}
    tested |= {"schema", "sort_by", "take", "to_batches", "to_table"}
    assert public == tested | {"partition_expression"}
    assert dataset.partition_expression.equals(ds.dataset(table).partition_expression)


def test_another_schema_is_refused(dataset):
    for column in (("nothing", pa.int64()), ("topic", pa.int64())):
        with pytest.raises(ValueError, match=f"'{column[0]}'"):
            dataset.replace_schema(pa.schema([column]))


def test_the_code_of_arrow_that_calls_no_method_raises_an_error(dataset, table):
    """It would read the C++ object, which has no messages."""
    right = ds.InMemoryDataset(table.select(["phyOffset"]))
    narrow = dataset.replace_schema(right.schema)
    reads = [
        lambda: ds.Scanner.from_dataset(dataset).to_table(),
        lambda: ds.dataset([dataset, dataset]).to_table(),
        lambda: right.join(narrow, "phyOffset").to_table(),
        lambda: dataset.children[0].to_table(),
        lambda: list(dataset.get_fragments()),
        lambda: list(dataset.get_fragments(field("topic") == "Orders")),
    ]
    for read in reads:
        with pytest.raises(io.UnsupportedOperation, match="to_table, to_batches or scanner"):
            read()


def test_a_dataset_is_pickled_with_its_filter_and_columns(store, table):
    dataset = store.dataset(columns=["topic", "store_timestamp_ms"]).filter(field("topic") == "Orders")
    again = pickle.loads(pickle.dumps(dataset))
    assert again.schema.names == ["topic", "storeTimestampMs"]
    assert again.to_table().equals(dataset.to_table())
    assert again.count_rows() == pc.sum(pc.equal(table["topic"], "Orders")).as_py()


# ---- the scanner -------------------------------------------------------------------------------------------


def test_a_scanner_has_the_methods_of_arrows_and_reads_again_each_time(dataset, table):
    condition = field("topic") == "Orders"
    scanner = dataset.scanner(columns=["size"], filter=condition)
    expected = table.filter(condition).select(["size"])
    assert scanner.projected_schema.equals(expected.schema)
    assert scanner.dataset_schema.names == ["topic", "size"]
    assert scanner.to_table().equals(expected)
    assert scanner.to_reader().read_all().equals(expected)
    assert pa.Table.from_batches(scanner.to_batches()).equals(expected)
    assert pa.Table.from_batches(tagged.record_batch for tagged in scanner.scan_batches()).equals(expected)
    assert scanner.count_rows() == len(expected)
    assert scanner.head(2).equals(expected.slice(0, 2))
    assert scanner.take([1, 0]).equals(expected.take([1, 0]))
    assert pa.table(scanner).equals(expected)
    public = {name for name in dir(ds.Scanner) if not name.startswith("_")}
    assert public - {*dir(scanner)} == {"from_batches", "from_dataset", "from_fragment"}


@pytest.mark.parametrize("part", ["scanner", "dataset"])
def test_arrow_writes_the_messages_as_parquet_files(part, dataset, table, tmp_path):
    data = dataset if part == "dataset" else dataset.scanner(columns=["topic", "size"])
    ds.write_dataset(data, tmp_path, format="parquet", partitioning=["topic"])
    read = ds.dataset(tmp_path, partitioning=["topic"]).to_table()
    assert sorted(read["size"].to_pylist()) == sorted(table["size"].to_pylist())
    assert len(read.schema) == (2 if part == "scanner" else len(dataset.schema))


def test_a_dataset_is_a_stream_of_arrow_with_its_filter(dataset, table):
    condition = field("topic") == "Orders"
    assert pa.table(dataset.filter(condition)).equals(table.filter(condition))


def test_a_query_that_ends_early_does_not_disturb_the_end_of_the_process(root):
    script = (
        f"import rocketstore; dataset = rocketstore.open({str(root)!r}).dataset()\n"
        "batches = dataset.to_batches(batch_size=1); next(batches)\n"
        "reader = dataset.scanner(batch_size=1).to_reader(); reader.read_next_batch(); print('read')"
    )
    answer = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=60, check=False)
    assert (answer.returncode, answer.stdout) == (0, "read\n"), answer.stderr


# ---- keys --------------------------------------------------------------------------------------------------

UNIQUE_KEYS = [f"U{i:05d}" for i in range(0, 400, 3)]


def bodies_read(calls):
    """The names of the methods that read columns of the query, and not those of a look into the index."""
    return {name for name, options in calls if "body" in options["columns"]}


def test_a_filter_on_topic_and_unique_key_uses_the_index(store, table, monkeypatch):
    dataset = store.dataset()
    calls = spied(monkeypatch, store.commit_log)
    wanted = (field("topic") == "Orders") & field("uniqKey").isin(UNIQUE_KEYS) & (field("phyOffset") > 1000)
    assert dataset.to_table(filter=wanted).equals(table.filter(wanted))
    assert bodies_read(calls) == {"find_messages"}


def test_a_filter_on_a_unique_key_alone_scans_the_log(store, table, monkeypatch):
    dataset = store.dataset()
    calls = spied(monkeypatch, store.commit_log)
    wanted = field("uniqKey") == "U00007"
    assert dataset.to_table(filter=wanted).equals(table.filter(wanted))
    assert [(name, options["key"]) for name, options in calls] == [("scan", ["U00007"])]


@pytest.mark.parametrize("has_index", [True, False])
def test_the_argument_key_is_a_condition_with_and_without_an_index(root, table, tmp_path, monkeypatch, has_index):
    shutil.copytree(root, tmp_path / "store")
    if not has_index:
        shutil.rmtree(tmp_path / "store" / "index")
    keys = ["k0", "Key", "主题", "U00003"]
    rows = [bool({*row["keys"], row["uniqKey"]} & {*keys}) for row in table.to_pylist()]
    with rocketstore.open(tmp_path / "store") as store:
        dataset = store.dataset(key=iter(keys))
        calls = spied(monkeypatch, store.commit_log)
        assert dataset.to_table().equals(table.filter(pa.array(rows)))
        assert bodies_read(calls) == {"scan"}
        calls.clear()
        orders = dataset.to_table(filter=field("topic") == "Orders")
        assert orders.equals(table.filter(pa.array(rows)).filter(field("topic") == "Orders"))
        assert bodies_read(calls) == {"find_messages" if has_index else "scan"}
        both = (field("topic") == "Orders") & field("uniqKey").isin(UNIQUE_KEYS)
        assert dataset.to_table(filter=both).equals(table.filter(pa.array(rows)).filter(both))


def test_messages_that_the_index_lacks_are_found_by_a_scan(tmp_path):
    write(tmp_path / "store", 1)
    max((tmp_path / "store" / "index").iterdir()).unlink()
    with rocketstore.open(tmp_path / "store") as store:
        dataset = store.dataset()
        topic = field("topic") == "Orders"
        all_keys = field("uniqKey").isin([f"U{i:05d}" for i in range(400)])
        assert dataset.count_rows(filter=topic & all_keys) == dataset.count_rows(filter=topic) > 0


def test_a_rolled_back_message_is_not_in_the_index(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("Orders", b"", uniq_key="U1"))
        store.put_message(Message("Orders", b"", uniq_key="U2", sys_flag=ROLLBACK))
    with rocketstore.open(tmp_path / "store") as store:
        dataset = store.dataset()
        assert dataset.count_rows(filter=field("uniqKey") == "U2") == 1
        assert dataset.count_rows(filter=(field("uniqKey") == "U2") & (field("topic") == "Orders")) == 0


# ---- errors and growth -------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused_at_once(store):
    with pytest.raises(ValueError, match="on_corrupt"):
        store.dataset(on_corrupt="ignore")
    with pytest.raises(ValueError, match="nothing"):
        store.dataset(columns=["nothing"])
    with pytest.raises(TypeError, match="key"):
        store.dataset(key=7)
    assert store.dataset(key="k0").count_rows() == store.dataset(key=["k0"]).count_rows() > 0


def test_damage_is_an_error_or_skipped(tmp_path):
    write(tmp_path / "store", 2)
    second = sorted((tmp_path / "store" / "commitlog").iterdir())[1]
    data = second.read_bytes()
    second.write_bytes(data[:100] + b"\xff" * 300 + data[400:])
    with rocketstore.open(tmp_path / "store") as store:
        dataset = store.dataset()
        for read in (dataset.to_table, dataset.count_rows, lambda: dataset.scanner().to_reader().read_all()):
            with pytest.raises(CorruptFileError, match=second.name):
                read()
        with pytest.warns(UserWarning, match=f"{second.name}.* are left out"):
            assert 300 < store.dataset(on_corrupt="skip").count_rows() < 400


def test_each_scan_reads_what_the_store_has_then(tmp_path):
    with open_store(tmp_path / "store") as writer:
        writer.put_message(Message("Orders", b"1"))
        dataset = writer.dataset()
        assert dataset.count_rows() == 1
        writer.put_message(Message("Orders", b"2"))
        assert dataset.to_table()["body"].to_pylist() == [b"1", b"2"]
    with pytest.raises(StoreClosedError):
        dataset.count_rows()


def test_without_pyarrow_the_error_names_the_extra(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(ModuleNotFoundError, match=r"rocketstore\[arrow\]"):
        store.dataset()


# ---- other logs --------------------------------------------------------------------------------------------


def test_physical_offsets_of_compacted_messages_may_be_filtered(tmp_path):
    with rocketstore.open(states.unpack("compaction", tmp_path), compacted=True) as store:
        dataset = store.dataset()
        table = dataset.to_table()
        for condition in (field("phyOffset") > 90_000, field("phyOffset") < 1301, field("phyOffset").is_valid()):
            assert len(table.filter(condition)) > 0
            assert dataset.to_table(filter=condition).equals(table.filter(condition))
            assert dataset.count_rows(filter=condition) == len(table.filter(condition))

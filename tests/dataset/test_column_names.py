"""``names="python"``: tables and filters with the names of Python's fields in place of RocketMQ's."""

import pytest
from support.dataset_store import spied, write

import rocketstore
from rocketstore.arrow import message_schema
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, message_fields
from rocketstore.text_values import snake_case

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow, from the extra 'arrow'")
field = pc.field


@pytest.fixture(scope="module")
def root(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("names") / "store"
    write(path, seed)
    return path


@pytest.fixture(scope="module")
def store(root):
    with rocketstore.open(root) as store:
        yield store


def test_a_field_in_snake_case_is_the_name_in_a_batch():
    assert [snake_case(field.name) for field in MESSAGE_FIELDS.values()] == [*MESSAGE_FIELDS]
    assert [*map(snake_case, ["count_star()", "Topic", "sum(phyOffset)", "a1B"])] == [
        "count_star()",
        "Topic",
        "sum(phyOffset)",
        "a1_b",
    ]


def test_tables_of_messages_have_either_names(store):
    scan = store.scan()
    found = store.query_message("Orders", "no such key")
    for source in (scan, scan.head(3), found):
        assert source.to_arrow().schema.names == [MESSAGE_FIELDS[name].name for name in message_fields()]
        assert source.to_arrow(names="python").schema.names == [*message_fields()]
    assert message_schema(["phyOffset", "tags"], names="python").names == ["phy_offset", "tags"]
    assert scan.to_arrow(names="python").rename_columns(scan.to_arrow().schema.names).equals(scan.to_arrow())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_have_either_names(store, library):
    pytest.importorskip(library, reason=f"needs {library}")
    for source in (store.scan(columns=["phyOffset", "body"]), store.scan(columns=["phyOffset", "body"]).head(2)):
        convert = getattr(source, f"to_{library}")
        assert [*convert().columns] == ["phyOffset", "body"]
        assert [*convert(names="python").columns] == ["phy_offset", "body"]


def test_rows_of_other_results_have_either_names(store):
    table = store.consumer_lag().to_arrow(names="python")
    assert {"queue_id", "consumer_offset"} <= {*table.column_names}


def test_filters_by_these_names_reach_the_scan(store, monkeypatch):
    dataset = store.dataset(names="python")
    assert dataset.schema.names[:4] == ["topic", "queue_id", "queue_offset", "phy_offset"]
    calls = spied(monkeypatch, store.commit_log)
    wanted = (field("queue_id") == 2) & (field("phy_offset") < 20_000) & (field("topic") == "Orders")
    found = dataset.to_table(["queue_id", "phy_offset"], filter=wanted)
    ((name, options),) = calls
    assert (name, options["queue_ids"], options["end_offset"]) == ("scan", [2], 20_001)
    assert {*options["columns"]} == {"queue_id", "phy_offset", "topic"}
    same = store.dataset().to_table(
        ["queueId", "phyOffset"],
        filter=(field("queueId") == 2) & (field("phyOffset") < 20_000) & (field("topic") == "Orders"),
    )
    assert len(found)
    assert found.rename_columns(same.column_names).equals(same)


def test_a_dataset_keeps_its_names(store):
    dataset = store.dataset(names="python")
    some = dataset.replace_schema(pa.schema([dataset.schema.field("queue_offset")]))
    assert some.to_table().column_names == ["queue_offset"]
    assert dataset.filter(field("queue_id") == 1).count_rows() == store.dataset().count_rows(field("queueId") == 1)
    made = dataset.to_table({"twice": field("phy_offset") * 2}, filter=field("size") > 0)
    assert made.column_names == ["twice"]


def test_duckdb_and_polars_use_these_names(root, store):
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    polars = pytest.importorskip("polars", minversion="1.35", reason="needs polars 1.35")
    with duckdb.connect() as connection:
        connection.register("messages", store.dataset(names="python"))
        counted = connection.sql("SELECT count(*) FROM messages WHERE queue_id = 1 AND uniq_key IS NULL").fetchall()
    frame = rocketstore.scan_polars(root, names="python")
    chosen = frame.filter(polars.col("queue_id") == 1, polars.col("uniq_key").is_null())
    assert counted == [(chosen.select(polars.len()).collect().item(),)]
    assert frame.collect().equals(store.scan(columns=frame.collect_schema().names()).to_polars(names="python"))


def test_other_names_are_refused_in_one_sentence(root, store):
    questions = [store.scan().to_arrow, store.scan().head(1).to_pandas, store.consumer_lag().to_polars, store.dataset]
    for question in [*questions, lambda names: rocketstore.scan_polars(root, names=names)]:
        with pytest.raises(ValueError, match=r"^names='pyhton': did you mean 'python'\?"):
            question(names="pyhton")
    with pytest.raises(ValueError, match=r"^names='x': must be 'rocketmq' or 'python'$"):
        message_schema(names="x")

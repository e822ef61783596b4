"""The data source over several stores: the rows of each store, with the name of its broker."""

import json
import shutil

import pytest

pytest.importorskip("pyspark", reason="needs pyspark, from the extra 'spark'")

import pyarrow as pa
from pyspark.sql.datasource import EqualTo, In
from support.several_stores import draw_stores
from support.spark_reads import batches_of, data_source, reader_of

import rocketstore
from rocketstore import StoreError


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    return draw_stores(tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="module")
def pattern(roots):
    return f"{roots['a'].parent.parent}/*/store"


def rows_of(path, **options):
    """The rows of a query, and the names of its columns."""
    reader, schema = reader_of(path, **options)
    batches = batches_of(reader, schema, reader.partitions())
    return pa.Table.from_batches(batches, schema).to_pylist()


def loop(roots, **options):
    """The rows of each store, with the name of its broker."""
    found = []
    for broker, root in roots.items():
        named = {"brokerName": broker} if options.get("table", "messages") == "messages" else {}
        if options.get("schemaStyle") == "kafka":
            named = {}
        found += ({"broker": broker, **row} for row in rows_of(root, **options, **named))
    return found


TABLES = [
    {},
    {"subscribe": "T", "tags": "x"},
    {"subscribe": "T,U", "keys": "k1"},
    {"columns": "body,queueOffset"},
    {"table": "consumequeue"},
    {"table": "index"},
    {"table": "offsets", "columns": "topic,queueId,group,consumerOffset,maxOffset"},
    {"startingTimestamp": "1790000300000", "exactTimes": "true"},
]


@pytest.mark.parametrize("options", TABLES, ids=str)
def test_rows_are_those_of_each_store_with_its_broker(roots, pattern, options):
    wanted = loop(roots, **options)
    several = dict(options)
    if "columns" in options:
        several["columns"] = f"broker,{options['columns']}"
    assert wanted
    assert rows_of(pattern, **several) == wanted
    assert rows_of(",".join(map(str, roots.values())), **several) == wanted
    source = data_source("", paths=json.dumps([str(root) for root in roots.values()]), **several)
    source.options.pop("path")
    reader = source.reader(source.schema())
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == len(wanted)


def test_a_column_broker_is_on_request_in_the_style_of_kafka(roots, pattern):
    assert "broker" not in rows_of(pattern, schemaStyle="kafka")[0]
    rows = rows_of(pattern, schemaStyle="kafka", columns="broker,value")
    assert {row["broker"] for row in rows} == {*"abc"}
    with pytest.raises(ValueError, match="column broker is unknown"):
        data_source(roots["a"], columns="broker,topic").schema()


def test_a_filter_on_the_broker_plans_only_its_store(roots, pattern):
    reader, schema = reader_of(pattern, pushdown="true")
    for condition, brokers in [
        (EqualTo(("broker",), "b"), {"b"}),
        (In(("broker",), ("a", "c", "d")), {"a", "c"}),
        (EqualTo(("topic",), "U"), {"a", "b"}),  # by its queues
    ]:
        assert [*reader.pushFilters([condition])] == [condition]
        parts = reader.partitions()
        assert {part.options.broker_name for part in parts} == brokers
        rows = pa.Table.from_batches(batches_of(reader, schema, parts), schema).to_pylist()
        assert {row["broker"] for row in rows} <= brokers
        if condition.attribute == ("topic",):
            assert {row["topic"] for row in rows} == {"U"}


def test_damage_of_one_store_has_the_name_of_its_broker(roots, tmp_path):
    copies = {name: shutil.copytree(root, tmp_path / name) for name, root in roots.items()}
    [log] = (copies["b"] / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(200)
        file.write(bytes(range(100)))
    rows = rows_of(f"{tmp_path}/*", mode="PERMISSIVE")
    [damage] = [row for row in rows if row["_corrupt_record"] is not None]
    assert (damage["broker"], str(log) in damage["_corrupt_record"]) == ("b", True)
    with pytest.raises(rocketstore.CorruptFileError, match=str(log)):
        rows_of(f"{tmp_path}/*")


def test_a_store_that_cannot_be_read_fails_the_query_unless_data_loss_is_allowed(roots, tmp_path, caplog):
    paths = f"{roots['a']},{tmp_path / 'missing'},{roots['c']}"
    with pytest.raises(OSError, match="missing") as caught:
        rows_of(paths)
    assert "failOnDataLoss=false" in caught.value.__notes__[0]
    assert {row["broker"] for row in rows_of(paths, failOnDataLoss="false")} == {"a", "c"}
    assert "the query continues without this store" in caplog.text


def test_a_pattern_without_a_store_is_one_clear_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or directory matches this pattern"):
        rows_of(f"{tmp_path}/*")
    (tmp_path / "log.txt").touch()
    with pytest.raises(StoreError, match="no store matches this pattern"):
        rows_of(f"{tmp_path}/*")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"brokerName": "a"}, "option brokerName: is of one store"),
        ({"startingPhyOffset": "0"}, "option startingPhyOffset: is of one store"),
        ({"startingOffsets": '{"T": {"0": 1}}'}, "option startingOffsets: is of one store"),
    ],
)
def test_options_of_one_store_are_refused_for_several(pattern, options, words):
    with pytest.raises(ValueError, match=words):
        reader_of(pattern, **options)


def test_a_stream_reads_one_store(pattern):
    source = data_source(pattern)
    with pytest.raises(ValueError, match="a stream reads one store"):
        source.streamReader(source.schema())


def test_a_path_with_a_comma_that_exists_is_one_store(roots, tmp_path):
    copy = shutil.copytree(roots["a"], tmp_path / "one,two[1]")
    assert "broker" not in rows_of(copy)[0]
    with pytest.raises(ValueError, match="must be absolute"):
        reader_of(f"{copy},other")
    for wrong in ("[]", '"/a"', "[1]", "/a"):
        source = data_source("", paths=wrong)
        source.options.pop("path")
        with pytest.raises(ValueError, match="option paths="):
            source.schema()

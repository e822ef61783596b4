"""Keys to hashes and offsets as Spark columns, against the same lookups without Spark."""

import errno
import os
import random
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from support.spark_reads import BEGIN, make_colliding_store

import rocketstore
from rocketstore import CorruptFileError, IndexFile, IndexService, StoreClosedError
from rocketstore.index.geometry import IndexGeometry
from rocketstore.limits import LONG_MAX
from rocketstore.query.query_messages import query_messages
from rocketstore.spark import hash_keys, select_phy_offset
from rocketstore.spark.lookup import udfs as lookup
from rocketstore.spark.lookup.cache import index_cache, store_cache
from rocketstore.spark.lookup.plans import plan_index, plan_store
from rocketstore.survey.survey import survey_store

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*there is no queue of topic")]

GEOMETRY = {"hash_slot_num": 11, "index_num": 301}
SHAPE = IndexGeometry(**GEOMETRY)
TOPICS = ["T", "TopicTest", "主题"]
KEYS = [*(f"key-{i}" for i in range(40)), "", "é", "键", "🚀🚀", "a longer key than the others, 0123456789"]
ABSENT = [f"absent-{i}" for i in range(20)]


def make_file(path, *, salt=0, items=300, begin=BEGIN, seed_offset=0):
    """Make an index file in which most keys have several offsets."""
    draw = random.Random(salt)
    with IndexFile.create(path, **GEOMETRY) as index:
        for i in range(items):
            key = f"{draw.choice(TOPICS)}#{draw.choice(KEYS)}"
            index.put_key(key, seed_offset + 100 * i + salt, begin + 1000 * i)
    return path


@pytest.fixture(scope="module")
def index_file(tmp_path_factory):
    return make_file(tmp_path_factory.mktemp("lookup") / "20231114221320000")


@pytest.fixture(scope="module")
def index_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("index")
    for i in range(3):
        begin = BEGIN + 400_000 * i
        make_file(directory / f"2023111422132000{i}", salt=i, begin=begin, seed_offset=100_000 * i)
    return directory


@pytest.fixture(scope="module")
def asked(spark):
    """Rows of id, topic and key: every pair, present or absent, and nulls."""
    pairs = [(topic, key) for topic in [*TOPICS, None] for key in [*KEYS, *ABSENT, None]]
    rows = [(i, *pair) for i, pair in enumerate(pairs)]
    return spark.createDataFrame(rows, "id int, topic string, key string").repartition(3).cache()


def answers(df, column):
    return [tuple(row) for row in df.select("topic", "key", column.alias("answer")).orderBy("id").collect()]


def expected(df, look_up):
    rows = df.select("topic", "key").orderBy("id").collect()
    return [(topic, key, None if topic is None or key is None else look_up(topic, key)) for topic, key in rows]


# ---- lookups -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["arrow", "pandas"])
def test_a_file_answers_as_without_spark_and_nulls_give_null(asked, index_file, engine):
    column = select_phy_offset(index_file, F.col("topic"), F.col("key"), engine=engine, **GEOMETRY)
    with IndexFile.open(index_file, **GEOMETRY) as index:
        wanted = expected(asked, lambda topic, key: index.select_phy_offset(f"{topic}#{key}"))
    assert answers(asked, column) == wanted
    assert any(answer == [] for _, _, answer in wanted)
    assert any(answer and len(answer) > 1 for _, _, answer in wanted)


@pytest.mark.parametrize("engine", ["arrow", "pandas"])
def test_a_directory_answers_as_query_offset(asked, index_directory, engine):
    limits = {"max_num": 5, "begin_timestamp": BEGIN + 100_000, "end_timestamp": BEGIN + 900_000}
    column = select_phy_offset(index_directory, F.col("topic"), "key", engine=engine, **limits, **GEOMETRY)
    with IndexService.open(index_directory, **GEOMETRY) as service:
        wanted = expected(asked, lambda topic, key: service.query_offset(topic, key, **limits).phy_offsets)
    assert answers(asked, column) == wanted


@pytest.mark.parametrize("engine", ["arrow", "pandas"])
def test_one_topic_for_all_keys_needs_no_column(asked, index_file, engine):
    limits = {"max_num": 2, "begin_timestamp": BEGIN + 50_000, "end_timestamp": BEGIN + 200_000}
    column = select_phy_offset(str(index_file), "主题", "key", engine=engine, **limits, **GEOMETRY)
    with IndexFile.open(index_file, **GEOMETRY) as index:
        rows = asked.select("topic", "key").orderBy("id").collect()
        wanted = [
            (topic, key, None if key is None else index.select_phy_offset(f"主题#{key}", **limits))
            for topic, key in rows
        ]
    assert answers(asked, column) == wanted


@pytest.mark.parametrize("engine", ["arrow", "pandas"])
def test_keys_that_have_their_topic_need_none(asked, index_file, engine):
    whole = F.concat("topic", F.lit("#"), "key")
    column = select_phy_offset(index_file, None, whole, engine=engine, **GEOMETRY)
    with IndexFile.open(index_file, **GEOMETRY) as index:
        wanted = expected(asked, lambda topic, key: index.select_phy_offset(f"{topic}#{key}"))
    assert answers(asked, column) == wanted


def test_a_directory_gives_at_most_64_offsets_and_a_file_any_number(spark, tmp_path):
    with IndexFile.create(tmp_path / "20231114221320000", **GEOMETRY) as index:
        for i in range(100):
            index.put_key("T#hot", i, BEGIN)
    rows = spark.createDataFrame([("hot",)], "key string")
    from_directory = select_phy_offset(tmp_path, "T", "key", max_num=80, **GEOMETRY)
    from_file = select_phy_offset(tmp_path / "20231114221320000", "T", "key", max_num=80, **GEOMETRY)
    (found,) = rows.select(from_directory, from_file).collect()
    assert list(map(len, found)) == [64, 80]


def test_the_files_of_a_broker_need_no_geometry(spark, golden_index):
    keys = [f"key-{i}" for i in range(100)]
    with IndexService.open(golden_index) as service:
        wanted = {key: service.query_offset("LabTopic", key, 32).phy_offsets for key in keys}
    assert any(wanted.values())
    rows = spark.createDataFrame([(key,) for key in keys], "key string")
    found = rows.select("key", select_phy_offset(golden_index, "LabTopic", "key")).collect()
    assert dict(map(tuple, found)) == wanted


def test_a_relative_path_is_the_drivers(asked, index_file, monkeypatch):
    monkeypatch.chdir(index_file.parent)
    absolute = answers(asked, select_phy_offset(index_file, "T", "key", **GEOMETRY))
    assert answers(asked, select_phy_offset(index_file.name, "T", "key", **GEOMETRY)) == absolute


@pytest.mark.parametrize("engine", ["arrow", "pandas"])
def test_columns_are_named_after_the_function(asked, index_file, engine):
    columns = select_phy_offset(index_file, "T", "key", engine=engine), hash_keys(F.col("topic"), "key", engine=engine)
    assert asked.select(*columns).columns == ["select_phy_offset(key)", "hash_keys(key, topic)"]


def test_a_path_that_is_not_there_is_refused_before_any_job(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        select_phy_offset(tmp_path / "nowhere", "T", "key")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "polars"}, "engine='polars'"),
        ({"verify": True}, "only hashes.*root of a store"),
        ({"max_num": -1}, "max_num=-1: must not be negative"),
        ({"index_num": 5}, "give both or none"),
    ],
)
def test_options_that_cannot_be_are_refused_before_any_job(index_file, options, message):
    with pytest.raises(ValueError, match=message):
        select_phy_offset(index_file, "T", "key", **options)


def test_an_engine_that_there_is_not_is_refused_for_hashes_too():
    with pytest.raises(ValueError, match="engine='polars': must be one of 'arrow', 'pandas'"):
        hash_keys("T", "key", engine="polars")


def test_a_topic_that_is_no_text_is_refused(index_file):
    with pytest.raises(TypeError, match="not bytes"):
        select_phy_offset(index_file, b"T", "key")


@pytest.mark.parametrize("engine", ["arrow", "pandas"])
def test_hash_keys_hashes_as_without_spark(asked, engine):
    wanted = expected(asked, lambda topic, key: int(rocketstore.hash_keys([f"{topic}#{key}"])[0]))
    assert answers(asked, hash_keys(F.col("topic"), "key", engine=engine)) == wanted
    assert answers(asked, hash_keys(None, F.concat("topic", F.lit("#"), "key"), engine=engine)) == wanted
    of_one_topic = [row for row in wanted if row[0] == "T"]
    assert answers(asked.where("topic = 'T'"), hash_keys("T", "key", engine=engine)) == of_one_topic


def test_types_are_those_of_an_item(asked, index_file):
    df = asked.select(select_phy_offset(index_file, "T", "key").alias("o"), hash_keys("T", "key").alias("h"))
    assert df.schema.simpleString() == "struct<o:array<bigint>,h:int>"


# ---- verified lookups --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_colliding_store(tmp_path_factory.mktemp("verified") / "store")


@pytest.fixture(scope="module")
def colliding(spark):
    rows = [(topic, key) for topic in ("T0", "T1", "T2", "T3", None) for key in ("Aa", "BB", "AaAa", "BBBB", "x", None)]
    return spark.createDataFrame([(i, *row) for i, row in enumerate(rows)], "id int, topic string, key string")


@pytest.mark.parametrize("engine", ["arrow", "pandas"])
def test_of_a_store_only_messages_with_the_topic_and_key_are_found(colliding, store, engine):
    limits = {"max_num": 3, "begin_timestamp": BEGIN + 50, "end_timestamp": BEGIN + 4_000}
    column = select_phy_offset(store, F.col("topic"), "key", engine=engine, **limits)
    half_open = {"limit": 3, "since": BEGIN + 50, "until": BEGIN + 4_001}  # as RocketMQ, the column includes the end
    with rocketstore.open(store) as reader:
        wanted = expected(
            colliding, lambda topic, key: reader.query_messages(topic, [key], **half_open).phy_offsets.tolist()
        )
    found = answers(colliding, column)
    assert found == wanted
    assert {len(answer) for _, _, answer in found if answer is not None} == {0, 3}


def test_unverified_a_store_gives_what_its_index_gives(colliding, store):
    unverified = answers(colliding, select_phy_offset(store, F.col("topic"), "key", verify=False))
    assert unverified == answers(colliding, select_phy_offset(store / "index", F.col("topic"), "key"))
    found = {row[:2]: row[2] for row in unverified}
    assert found["T0", "BBBB"] == found["T0", "AaAa"] != []
    verified = answers(colliding, select_phy_offset(store, F.col("topic"), "key"))
    assert {row[:2]: row[2] for row in verified}["T0", "BBBB"] == []


@pytest.mark.parametrize(
    ("topic", "options", "message"),
    [
        (None, {}, "give a topic to compare with, or verify=False"),
        ("T", {"max_num": 0}, "max_num=0: must not be less than 1"),
    ],
)
def test_what_cannot_be_verified_is_refused_before_any_job(store, topic, options, message):
    with pytest.raises(ValueError, match=message):
        select_phy_offset(store, topic, "key", **options)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("options", [{"begin_timestamp": None}, {"end_timestamp": 1.5}])
def test_times_that_are_no_integers_are_refused_before_any_job(store, options, verify):
    with pytest.raises(TypeError, match=f"{next(iter(options))}=.*: an int .epoch milliseconds."):
        select_phy_offset(store, "T", "key", verify=verify, **options)


def planned(root):
    """The plan of queries by key in a store."""
    return plan_store(survey_store(root))


def test_a_store_is_opened_once_until_it_is_replaced(store, tmp_path):
    shutil.copytree(store, tmp_path / "store")
    stores, plan = store_cache(), planned(tmp_path / "store")
    first = stores.open(plan)
    assert stores.open(planned(tmp_path / "store")) is first
    other = stores.open(planned(store))
    assert other is not first
    rocketstore.rebuild(tmp_path / "store", consume_queue=False)
    second = stores.open(plan)
    assert second is not first
    found = [
        query_messages(each.look(None), "T0", ["Aa"], 64, 0, LONG_MAX, None, 100, 1) for each in (first, second, other)
    ]
    assert len({tuple(each.phy_offsets.tolist()) for each in found}) == 1
    assert [each.complete.all() for each in found] == [True] * 3


@pytest.mark.parametrize("part", ["commitlog", "index"])
def test_a_store_is_opened_again_where_a_new_directory_may_have_the_inode_of_an_old_one(part, store, tmp_path):
    shutil.copytree(store, tmp_path / "store")
    stores, plan = store_cache(), planned(tmp_path / "store")
    first = stores.open(plan)
    os.utime(tmp_path / "store" / part, (1_000_000, 1_000_000))
    assert stores.open(plan) is not first


def test_a_plan_shows_the_messages_that_were_there_when_it_was_made(tmp_path):
    stores, counts = store_cache(), []
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()) as writer:
        plans = []
        for _ in range(3):
            writer.put_message(rocketstore.Message("T", b"", keys=["k"]))
            writer.flush()
            assert writer.index is not None  # which waits until it is built
            plans.append(planned(tmp_path / "store"))
        for plan in plans:
            found = query_messages(stores.open(plan).look(None), "T", ["k"], 64, 0, LONG_MAX, None, 100, 1)
            counts.append((len(found.phy_offsets), found.complete.all()))
    assert counts == [(1, True), (2, True), (3, True)]


# ---- batches -----------------------------------------------------------------------------------------------


@pytest.fixture
def one_lookup(index_file):
    return lookup.Lookup(plan_index(index_file, SHAPE), "T", 32, 0, lookup.LONG_MAX)


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_arrow_batches_give_lists_with_32_bit_offsets(one_lookup, type_):
    keys = pa.array(["key-1", None, "absent", "key-2"], type_)
    found = lookup.look_up_arrow(one_lookup, (keys.slice(1),))
    assert found.type == pa.list_(pa.int64())
    wanted = lookup.look_up_arrow(one_lookup, (pa.array(["key-2"]),))
    assert found.to_pylist() == [None, [], *wanted.to_pylist()]


@pytest.mark.parametrize("engine", lookup.ENGINES)
def test_a_null_literal_gives_null(spark, index_file, engine):
    null, options = F.lit(None), {"engine": engine, **GEOMETRY}
    columns = [
        column
        for asked in (("T", null), (null, "id"))
        for column in (select_phy_offset(index_file, *asked, **options), hash_keys(*asked, engine=engine))
    ]
    assert spark.createDataFrame([("key-1",)], "id string").select(*columns).first() == (None,) * 4


@pytest.mark.parametrize("dtype", [object, "string", pd.ArrowDtype(pa.string())])
def test_pandas_batches_stay_in_arrow_memory(one_lookup, dtype):
    keys = pd.Series(["key-1", None, "absent", "key-2"], dtype=dtype)
    found = lookup.look_up_pandas(one_lookup, (keys,))
    array = pa.array(found.apply(list))
    assert array.type == pa.list_(pa.int64())
    in_arrow = pa.array(["key-1", None, "absent", "key-2"])
    assert array.equals(lookup.look_up_arrow(one_lookup, (in_arrow,)))
    assert lookup.hash_pandas("T", (keys,)).isna().tolist() == [False, True, False, False]


@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_batches_that_are_looked_up_together_give_their_own_answers(one_lookup, rows):
    columns = [["key-1", None], [], ["absent"], ["key-2", "key-1", "键"], ["key-3"]]
    batches = [(pa.array(keys, pa.string()),) for keys in columns]
    wanted = [lookup.look_up_arrow(one_lookup, batch).to_pylist() for batch in batches]
    calls = []

    def look_up(group):
        calls.append(len(group[0]))
        return lookup.look_up_arrow(one_lookup, group)

    found = list(lookup.answer_together(look_up, iter(batches), rows))
    assert [answer.to_pylist() for answer in found] == wanted
    assert calls == {1: [2, 1, 3, 1], 2: [2, 4, 1], 5: [6, 1], 100: [7]}[rows]


@pytest.mark.parametrize(("size", "groups"), [(1, [1, 1, 1, 1]), (100, [2, 1, 1]), (1 << 20, [4])])
def test_batches_of_long_keys_are_not_looked_up_together(size, groups, monkeypatch):
    monkeypatch.setattr(lookup, "BYTES_TOGETHER", size)
    batches = [(pa.array([key]),) for key in ("key-1", "key-2", 2000 * "a long key", "key-3")]
    assert list(map(len, lookup.group_batches(batches, 100))) == groups


def test_a_batch_is_measured_once(monkeypatch):
    class Column(list):
        measured = 0

        @property
        def nbytes(self):
            Column.measured += 1
            return 8

    monkeypatch.setattr(lookup, "require_sound_buffers", lambda column, name: None)
    groups = list(lookup.group_batches(((Column([number]),) for number in range(2500)), 1000))
    assert list(map(len, groups)) == [1000, 1000, 500]
    assert Column.measured == 2500


def test_an_empty_batch_gives_an_empty_one(one_lookup):
    assert lookup.look_up_arrow(one_lookup, (pa.array([], pa.string()),)).to_pylist() == []
    assert len(lookup.look_up_pandas(one_lookup, (pd.Series([], dtype=object),))) == 0


# ---- cache -------------------------------------------------------------------------------------------------


def test_a_file_is_opened_once(index_file, index_directory):
    indexes = index_cache()
    for path in (index_file, index_directory):
        first = indexes.open(plan_index(path, SHAPE))
        assert indexes.open(plan_index(path, SHAPE)) is first
    assert len(indexes) == 2


def test_another_geometry_is_another_index(index_file, tmp_path):
    indexes = index_cache()
    empty_file = make_file(tmp_path / "20231114221320000", items=0)  # which may have either
    right = indexes.open(plan_index(empty_file, SHAPE))
    other = IndexGeometry(SHAPE.hash_slot_num - 5, SHAPE.index_num + 1)
    assert indexes.open(plan_index(empty_file, other)).index_num == 302
    assert indexes.open(plan_index(empty_file, SHAPE)) is right
    indexes.open(plan_index(index_file, SHAPE))
    with pytest.raises(CorruptFileError, match="alone"):
        plan_index(index_file, other)


def test_a_replaced_file_is_opened_again_and_the_old_one_still_answers(tmp_path):
    path = make_file(tmp_path / "20231114221320000")
    indexes, plan = index_cache(), plan_index(path, SHAPE)
    before = indexes.open(plan)
    make_file(tmp_path / "new", salt=5).replace(path)
    after = indexes.open(plan)
    assert after is not before
    assert (before.header.begin_phy_offset, after.header.begin_phy_offset) == (0, 5)
    assert len(indexes) == 1


def test_a_new_plan_of_a_directory_has_the_file_that_came(tmp_path):
    make_file(tmp_path / "20231114221320000")
    indexes = index_cache()
    assert len(indexes.open(plan_index(tmp_path, SHAPE)).files) == 1
    make_file(tmp_path / "20231114221320001")
    (tmp_path / "not-an-index").touch()
    assert len(indexes.open(plan_index(tmp_path, SHAPE)).files) == 2


def test_a_directory_is_listed_again_in_a_task_if_a_planned_file_is_missing(tmp_path):
    first, second = (make_file(tmp_path / f"2023111422132000{i}") for i in range(2))
    plan = plan_index(tmp_path, SHAPE)
    first.unlink()
    third = make_file(tmp_path / "20231114221320002")
    assert [file.path for file in index_cache().open(plan).files] == [second, third]


def test_a_directory_without_index_files_is_refused_unless_it_is_empty(store, tmp_path):
    assert index_cache().open(plan_index(tmp_path, None)).files == []
    (tmp_path / "not-an-index").touch()
    for place in (tmp_path, store, store.parent):
        with pytest.raises(FileNotFoundError, match=f"no index files here: give a store's root.*{place.name}"):
            plan_index(place, None)


def test_the_least_recently_used_goes_first_and_is_not_closed(tmp_path):
    paths = [make_file(tmp_path / f"2023111422132000{i}") for i in range(3)]
    plans = [plan_index(path, SHAPE) for path in paths]
    indexes = index_cache(max_bytes=2 * paths[0].stat().st_size)
    first, second = map(indexes.open, plans[:2])
    assert indexes.open(plans[0]) is first
    indexes.open(plans[2])
    assert len(indexes) == 2
    assert indexes.open(plans[0]) is first
    assert len(second) == 300
    assert indexes.open(plans[1]) is not second


def test_an_index_larger_than_the_bound_is_kept_alone(index_file):
    indexes = index_cache(max_bytes=1)
    first = indexes.open(plan_index(index_file, SHAPE))
    assert indexes.open(plan_index(index_file, SHAPE)) is first


def test_other_errors_than_lack_of_address_space_drop_nothing(index_file, tmp_path):
    indexes, gone = index_cache(), plan_index(make_file(tmp_path / "20231114221320000"), SHAPE)
    gone.files.path.unlink()
    indexes.open(plan_index(index_file, SHAPE))
    with pytest.raises(FileNotFoundError):
        indexes.open(gone)
    assert len(indexes) == 1


SCARCE = """
import resource, sys
from pathlib import Path
from rocketstore.index.geometry import IndexGeometry
from rocketstore.limits import LONG_MAX
from rocketstore.query.query_messages import query_messages
from rocketstore.spark.lookup.cache import index_cache
from rocketstore.spark.lookup.plans import plan_index

SHAPE = IndexGeometry(5_000_000, 20_000_000)

def map_at_most(extra):
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

indexes = index_cache()
map_at_most(600 << 20)
plans = [plan_index(Path(path), SHAPE) for path in sys.argv[1:]]
for plan in plans:
    assert len(indexes.open(plan)) == 0
assert len(indexes) == 1
map_at_most(-400 << 20)
try:
    indexes.open(plans[0])
except OSError as error:
    print(error.errno, error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS counts mappings on Linux alone")
def test_without_address_space_others_are_dropped_and_then_the_setting_is_named(tmp_path):
    paths = [tmp_path / "20231114221320000", tmp_path / "20231114221320001"]
    for path in paths:
        path.touch()
        os.truncate(path, 40 + 4 * 5_000_000 + 20 * 20_000_000)
    run = subprocess.run([sys.executable, "-c", SCARCE, *paths], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(str(errno.ENOMEM))
    assert "raise spark.executor.pyspark.memory" in run.stdout
    assert str(paths[0]) in run.stdout


def test_what_the_cache_gives_is_open_after_many_others(index_file, tmp_path, monkeypatch):
    monkeypatch.setattr(lookup, "open_index", index_cache(max_bytes=1).open)
    asked = lookup.Lookup(plan_index(index_file, SHAPE), "T", 32, 0, lookup.LONG_MAX)
    other = asked._replace(plan=plan_index(make_file(tmp_path / "20231114221320000", salt=1), SHAPE))
    keys = pa.array(KEYS)
    wanted = [lookup.look_up_arrow(each, (keys,)) for each in (asked, other)]
    try:
        for _ in range(3):
            assert [lookup.look_up_arrow(each, (keys,)) for each in (asked, other)] == wanted
    except StoreClosedError as error:
        pytest.fail(f"a dropped index was closed: {error}")


# ---- imports -----------------------------------------------------------------------------------------------


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_rocketstore_alone_imports_nothing_of_spark():
    run = run_python("import rocketstore, sys; print({'pyspark', 'pandas', 'pyarrow'} & sys.modules.keys())")
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize("missing", ["pyspark", "pandas", "pyarrow"])
def test_without_the_extra_the_import_says_what_to_install(missing):
    run = run_python(f"import sys; sys.modules[{missing!r}] = None; import rocketstore.spark")
    assert "ImportError: rocketstore.spark needs" in run.stderr
    assert run.stderr.strip().endswith('pip install "rocketstore[spark]"')

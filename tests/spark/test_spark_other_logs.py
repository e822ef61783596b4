"""Queries of tiered storage and of compacted topics: planned by the driver, read by tasks."""

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pickle

import fsspec
import pyarrow as pa
from support import states
from support.spark_reads import batches_of, data_source, read_table, reader_of

import rocketstore
from rocketstore import StoreConfig
from rocketstore.limits import LONG_MAX
from rocketstore.spark import query_messages
from rocketstore.spark.lookup import query_messages as query
from rocketstore.spark.lookup.cache import store_cache
from rocketstore.spark.lookup.plans import plan_store
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema
from rocketstore.survey.survey import survey_store


@pytest.fixture(scope="module")
def tiered(tmp_path_factory):
    return states.unpack("tiered", tmp_path_factory.mktemp("states"))


@pytest.fixture(scope="module")
def compacted(tmp_path_factory):
    return states.unpack("compaction", tmp_path_factory.mktemp("states"))


def options_of(root):
    return {"compacted": "true"} if root.name == "compaction" else {"tier": str(root.parent / "tiered-data")}


def open_whole(root):
    if root.name == "compaction":
        return rocketstore.open(root, compacted=True)
    return rocketstore.open(root, config=StoreConfig(tiered_store_file_path=options_of(root)["tier"]), tiered=True)


def rows_of(table):
    return sorted(map(str, table.select(["topic", "queueId", "queueOffset", "phyOffset", "body"]).to_pylist()))


@pytest.mark.parametrize("name", ["tiered", "compacted"])
@pytest.mark.parametrize("sizes", [{}, {"maxPartitionBytes": "30000"}, {"maxPartitionBytes": "3000"}])
def test_a_query_reads_the_messages_of_a_scan(name, sizes, request):
    root = request.getfixturevalue(name)
    with open_whole(root) as store:
        expected = store.scan().to_arrow()
    assert rows_of(read_table(root, **options_of(root), **sizes)) == rows_of(expected)
    assert len(read_table(root)) != len(expected)


@pytest.mark.parametrize("name", ["tiered", "compacted"])
def test_conditions_select_messages_of_all_logs(name, request):
    root = request.getfixturevalue(name)
    with open_whole(root) as store:
        queue = next(iter(store.queues()))
        batch = store.scan(topic=queue.topic).head(1)
        key, time = batch[0].keys[0], batch[0].store_timestamp
        by_key = store.scan(topic=queue.topic, key=key).count()
        later = store.scan(topic=queue.topic, since=time + 1).count()
        of_queue = store.scan(topic=queue.topic, queue_ids=queue.queue_id).count()
    options = {"subscribe": queue.topic, **options_of(root)}
    assert len(read_table(root, keys=key, **options)) == by_key > 0
    assert len(read_table(root, startingTimestamp=str(time + 1), **options)) == later
    assign = f'{{"{queue.topic}": [{queue.queue_id}]}}'
    assert len(read_table(root, assign=assign, **options_of(root))) == of_queue > 0


def test_queue_offsets_of_the_tier_may_be_named(tiered):
    for begin, end in ((0, 200), (7, 199), (190, 200), (198, 200)):
        starting, ending = f'{{"Lake": {{"0": {begin}}}}}', f'{{"Lake": {{"0": {end}}}}}'
        options = {"assign": '{"Lake": [0]}', "startingOffsets": starting, "endingOffsets": ending}
        table = read_table(tiered, **options, **options_of(tiered))
        assert sorted(table["queueOffset"].to_pylist()) == list(range(begin, end))


def test_the_table_of_units_has_those_of_the_tier(tiered):
    with open_whole(tiered) as store:
        expected = [
            (*queue, unit.queue_offset, None if unit.phy_offset < 0 else unit.phy_offset, unit.size, unit.tags_code)
            for queue in store.queues()
            for unit in store.consume_queue(*queue)
        ]
    for sizes in ({}, {"batchSize": "7"}):
        table = read_table(tiered, table="consumequeue", **options_of(tiered), **sizes)
        assert [tuple(row.values()) for row in table.to_pylist()] == expected
    assert table["phyOffset"].null_count == 724


@pytest.mark.parametrize("name", ["tiered", "compacted"])
def test_the_table_of_offsets_has_those_of_consumers(name, request):
    root = request.getfixturevalue(name)
    with open_whole(root) as store:
        queues = {queue: store.consume_queue(*queue) for queue in store.queues()}
        expected = [(*queue, max(each.min_queue_offset, 0), each.max_queue_offset) for queue, each in queues.items()]
    table = read_table(root, table="offsets", **options_of(root))
    assert [tuple(row.values())[:4] for row in table.to_pylist()] == expected
    assert table["minPhyOffset"].null_count > 0
    groups = read_table(root, table="offsets", columns="topic,queueId,maxOffset,group", **options_of(root))
    assert len(groups) >= len(expected)


@pytest.mark.parametrize("name", ["tiered", "compacted"])
@pytest.mark.parametrize("table", ["messages", "consumequeue", "offsets"])
def test_tasks_list_no_directory(name, table, request, monkeypatch):
    root = request.getfixturevalue(name)
    options = options_of(root) if (name, table) != ("compacted", "consumequeue") else {}
    reader, schema = reader_of(root, table=table, **options)
    parts = reader.partitions()
    expected = sum(batch.num_rows for batch in batches_of(reader, schema, parts))

    def refuse(*args):
        raise AssertionError(f"a directory is listed: {args}")

    monkeypatch.setattr("os.scandir", refuse)
    monkeypatch.setattr("os.listdir", refuse)
    assert sum(batch.num_rows for batch in batches_of(reader, schema, parts)) == expected


# ---- lookups -----------------------------------------------------------------------------------------------


def keys_of(root):
    """Some keys of each topic of a store, and one that no message has: (topic, key)."""
    with open_whole(root) as store:
        messages = [each for batch in store.scan() for each in batch if not each.topic.startswith(("rmq_", "RMQ_"))]
    found = {(each.topic, key) for each in messages[::40] for key in (each.uniq_key, *each.keys)}
    return [*sorted(found), (messages[0].topic, "none")]


def ask(root, asked, index_type=None, limit=None):
    """The answers of a task, as (row, queue id, queue offset, physical offset, body), and whether they are complete."""
    options = ReadOptions(path=root, max_batch_bytes=LONG_MAX)
    is_compacted, tier = root.name == "compaction", options_of(root).get("tier")
    config = StoreConfig(tiered_store_file_path=tier)
    survey = survey_store(root, config)
    plan = plan_store(survey, {topic for topic, _ in asked}, tiered=tier is not None, compacted=is_compacted)
    table = table_schema(options, default_schema(options))
    limits = {"limit": limit, "index_type": index_type}
    sent = pickle.dumps(query.Query(plan, options, table, None, True, **limits))
    batch = pa.record_batch({
        "key": [key for _, key in asked],
        "topic": [topic for topic, _ in asked],
        "row": [{"i": i} for i in range(len(asked))],
    })  # fmt: skip

    def run():
        rows = [row for part in query.find_batch(pickle.loads(sent), batch) for row in part.to_pylist()]
        cells = ("queueId", "queueOffset", "phyOffset", "body")
        found = [(row["row"]["i"], *map(row["message"].get, cells)) for row in rows if row["message"] is not None]
        return sorted(found, key=lambda row: row[0]), {row["row"]["i"]: row["complete"] for row in rows}

    return run


def ask_store(root, asked, **conditions):
    with open_whole(root) as store:
        answers = [store.query_message(*each, **conditions) for each in asked]
        found = [
            (row, each.queue_id, each.queue_offset, each.phy_offset, each.body)
            for row, answer in enumerate(answers)
            for each in answer
        ]
        return found, {row: answer.complete for row, answer in enumerate(answers)}


@pytest.mark.parametrize("name", ["tiered", "compacted"])
@pytest.mark.parametrize("conditions", [{}, {"limit": 2}, {"index_type": "U"}, {"index_type": "K"}], ids=str)
def test_a_lookup_finds_the_messages_of_a_query(name, conditions, request, monkeypatch):
    root = request.getfixturevalue(name)
    monkeypatch.setattr(query, "open_store", store_cache().open)
    monkeypatch.setattr(query, "ROWS_OF_OTHER_LOGS", 7)
    asked = keys_of(root)
    expected = ask_store(root, asked, **conditions)
    assert len(expected[0]) >= len(asked) // 3
    assert ask(root, asked, **conditions)() == expected


@pytest.mark.parametrize("name", ["tiered", "compacted"])
def test_a_task_of_a_lookup_lists_no_directory(name, request, monkeypatch):
    root = request.getfixturevalue(name)
    monkeypatch.setattr(query, "open_store", store_cache().open)
    asked = keys_of(root)[:9]
    run, expected = ask(root, asked), ask_store(root, asked)

    def refuse(*args):
        raise AssertionError(f"a directory is listed: {args}")

    monkeypatch.setattr("os.scandir", refuse)
    monkeypatch.setattr("os.listdir", refuse)
    assert run() == expected


@pytest.mark.spark
def test_a_lookup_in_spark_reads_the_tier_on_request(spark, tiered):
    asked = spark.createDataFrame([("Lake", "grp-1"), ("Creek", "grp-2")], "topic string, key string")
    expected = ask_store(tiered, [("Lake", "grp-1"), ("Creek", "grp-2")], limit=100)[0]
    df = query_messages(spark, tiered, asked, topic=asked.topic, key="key", limit=100, **options_of(tiered))
    found = [(row.key, row.message.queueId, row.message.queueOffset, row.message.phyOffset) for row in df.collect()]
    assert sorted(map(str, found)) == sorted(str((f"grp-{row + 1}", *place)) for row, *place, _ in expected)


def test_a_tier_in_a_bucket_is_read(tiered):
    memory, data = fsspec.filesystem("memory"), tiered.parent / "tiered-data"
    for path in (path for path in data.rglob("*") if path.is_file()):
        memory.pipe(f"/bucket-of-spark/{path.relative_to(data)}", path.read_bytes())
    with open_whole(tiered) as store:
        assert len(read_table(tiered, tier="memory://bucket-of-spark")) == store.scan().count() == 730
    memory.rm("/bucket-of-spark", recursive=True)


@pytest.mark.parametrize(("options", "reason"), [
    ({"tiered": "true", "startingPhyOffset": "0"}, "no physical offset"),
    ({"compacted": "true", "endingPhyOffset": "9"}, "no physical offset"),
    ({"table": "index", "tiered": "true"}, "table index has only the options"),
    ({"tier": "here"}, "must be absolute"),
])  # fmt: skip
def test_options_that_contradict_other_logs_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        reader_of("/store", **options)


@pytest.mark.parametrize("option", ["tiered", "compacted"])
def test_a_stream_of_other_logs_is_refused(option):
    source = data_source("/store", **{option: "true"})
    with pytest.raises(ValueError, match="a stream reads only the log"):
        source.streamReader(source.schema())


def test_a_query_that_reads_the_tier_does_not_warn(tiered, compacted, caplog):
    read_table(tiered, **options_of(tiered))
    read_table(compacted, **options_of(compacted))
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []

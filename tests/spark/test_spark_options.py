"""Options of the data source: any case, no unknown ones, none that contradict each other."""

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from rocketstore.spark import register
from rocketstore.spark.source.options import FIELDS, ReadOptions, StartingOffsets


def parse(streaming=False, **options):
    return ReadOptions.parse({"path": "/store", **options}, streaming=streaming)


def test_an_option_that_is_not_given_has_its_documented_default():
    assert parse() == ReadOptions(path="/store")
    options = parse()
    assert (options.table, options.schema_style, options.mode) == ("messages", "rocketmq", "FAILFAST")
    assert (options.batch_size, options.max_batch_bytes, options.max_partition_bytes) == (16384, 16 << 20, 1 << 30)
    assert options.fail_on_data_loss
    assert {options.include_headers, options.pushdown} == {False}
    assert options.verify_crc is None


def test_the_documented_table_has_every_option_with_its_default_and_an_example_that_is_taken():
    rows = [line.strip(" |").split(" | ") for line in register.__doc__.splitlines() if line.startswith("    | ")][2:]
    assert sorted(name for name, *_ in rows) == sorted(FIELDS)
    for name, _, default, example in rows:
        parsed = FIELDS[name].metadata["parse"]
        assert parsed(example) is not None
        if default not in ("all", "from the files", "null", "see below", "required"):
            known = StartingOffsets(-1, {}) if name == "endingOffsets" else FIELDS[name].default
            assert parsed(default) == known
        elif name != "path":
            assert FIELDS[name].default is None


def test_every_option_is_read():
    options = {
        "SUBSCRIBE": "A, B", "queueIDs": "0,1,-1", "tags": "x||y", "keys": " k1  k,2 a\tb\u30001",
        "startingOffsets": '{"A":{"0":-2,"1":7}}',
        "endingOffsets": '{"A":{"1":9,"0":-1}}', "startingPhyOffset": "-5", "endingPhyOffset": "100",
        "columns": "topic, body",
        "schemaStyle": "RocketMQ", "minPartitions": "3", "maxPartitionBytes": "128m", "batchSize": "10",
        "maxBatchBytes": "512 KB", "failOnDataLoss": "FALSE", "mode": "permissive", "verifyCrc": "true",
        "brokerName": "broker-a", "pushdown": "true", "table": "Messages",
    }  # fmt: skip
    assert parse(**options) == ReadOptions(
        path="/store",
        subscribe=frozenset({"A", "B"}),
        queue_ids=frozenset({0, 1, -1}),
        tags="x||y",
        keys=("k1", "k,2", "a\tb\u30001"),
        starting_offsets=StartingOffsets(-2, {"A": {0: -2, 1: 7}}),
        ending_offsets=StartingOffsets(-1, {"A": {1: 9, 0: -1}}),
        starting_phy_offset=-5,
        ending_phy_offset=100,
        columns=("topic", "body"),
        min_partitions=3,
        max_partition_bytes=128 << 20,
        batch_size=10,
        max_batch_bytes=512 << 10,
        fail_on_data_loss=False,
        mode="PERMISSIVE",
        verify_crc=True,
        broker_name="broker-a",
        pushdown=True,
    )
    more = {
        "assign": '{"A":[0,2],"B":[]}',
        "startingTimestamp": "10",
        "endingTimestamp": "20",
        "exactTimes": "true",
        "includeProperties": "true",
    }
    options = parse(**more)
    assert options.assign == {"A": frozenset({0, 2}), "B": frozenset()}
    assert (options.starting_timestamp, options.ending_timestamp, options.include_headers) == (10, 20, True)
    assert (options.exact_times, parse().exact_times) == (True, False)
    limits = {"maxOffsetsPerTrigger": "5", "maxBytesPerTrigger": "1t", "maxFilesPerTrigger": "2"}
    options = parse(streaming=True, subscribePattern="T.*", startingOffsets="latest", **limits)
    assert (options.max_offsets_per_trigger, options.max_bytes_per_trigger) == (5, 1 << 40)
    assert (options.max_files_per_trigger, options.subscribe_pattern) == (2, "T.*")
    assert options.starting_offsets == StartingOffsets(-1, {})


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("startingOffset", "1", "is unknown: did you mean startingOffsets? the options are path, table"),
        ("hoops", "1", "is unknown: the options are path, table"),
        ("topic", "A", "is unknown: did you mean subscribe? "),
        ("since", "0", "is unknown: did you mean startingTimestamp? "),
        ("until", "0", "is unknown: did you mean endingTimestamp? "),
        ("tag", "a", "is unknown: did you mean tags? "),
        ("table", "queues", "one of messages, consumequeue, index, offsets"),
        ("path", "store", "must be absolute"),
        ("path", "hdfs:/data/store", "must be absolute, or a URI"),
        ("assign", "[1]", 'must be JSON like {"topic": [0, 1]}'),
        ("assign", "T", "must be JSON like"),
        ("assign", '{"T":0}', "must be JSON like"),
        ("assign", '{"T":["0"]}', "'0' is not a queue id"),
        ("assign", '{"T":[true]}', "True is not a queue id"),
        ("assign", '{"T":[0],"T":[1]}', "has a repeated name: T, T"),
        ("subscribe", "A,,B", "separated by commas"),
        ("subscribe", "A,A", "each name once"),
        ("subscribePattern", "(", "not a regular expression"),
        ("queueIds", "1,x", "integer"),
        ("queueIds", str(2**31), "not a queue id"),
        ("keys", " ", "keys separated by spaces"),
        ("tags", "||", "names no tag"),
        ("tags", " || ", "names no tag"),
        ("startingOffsets", "soon", 'must be earliest, latest, or JSON like {"topic": {"0": 23}}'),
        ("startingOffsets", '{"T":{"0":-3}}', "-3 is not a queue offset"),
        ("startingOffsets", '{"T":{"0":"5"}}', "'5' is not a queue offset"),
        ("startingOffsets", '{"T":{"x":5}}', "must be an integer"),
        ("startingOffsets", '{"T":{"0":5,"00":9}}', "topic 'T' has a queue twice: 0, 00"),
        ("startingOffsets", '{"T":{"0":5},"U":{},"T":{"1":7}}', "has a repeated name: T, U, T"),
        ("startingOffsets", '{"T":{"0":5,"0":9}}', "has a repeated name: 0, 0"),
        ("startingOffsets", '{"T":5}', "must be earliest, latest, or JSON"),
        ("startingOffsets", "[" * 100_000, "must be earliest, latest, or JSON"),
        ("startingOffsets", '{"T":{"a":{"0":1},"b":{"0":2}}}', "topic 'T' has a, b: a store belongs to one broker"),
        ("startingOffsets", '{"T":{"a":{"0":1},"0":2}}', "a store belongs to one broker"),
        ("endingOffsets", '{"T":{"a":{"0":1}},"U":{"b":{"0":2}}}', "names brokers a, b: a store belongs to one broker"),
        ("startingOffsets", "latest", "would read nothing"),
        ("startingOffsets", '{"T":{"0":-1}}', "would read nothing"),
        ("endingOffsets", "earliest", "would read nothing"),
        ("endingOffsets", '{"T":{"0":-2}}', "would read nothing"),
        ("startingTimestamp", "1763712000", "looks like seconds: give epoch milliseconds"),
        ("endingTimestamp", "2024-13-01", "is no time"),
        ("startingTimestamp", str(2**63), "is no time"),
        ("startingOffsetsByTimestamp", '{"T":{"0":1763712000}}', "looks like seconds"),
        ("startingOffsetsByTimestamp", '{"T":5}', 'must be JSON like {"topic": {"0": 1763712000000}}'),
        ("startingOffsetsByTimestamp", '{"T":{"0":5,"00":9}}', "topic 'T' has a queue twice: 0, 00"),
        ("maxPartitionBytes", "128", "must be at least 1k: a number without a unit is a number of bytes"),
        ("maxTriggerDelay", "15", "must be a number with a unit, such as 30s, 15m or 2h"),
        ("includeProperties", "yes", "option includeProperties='yes'"),
        ("minPartitions", "0", "at least 1"),
        ("maxPartitionBytes", "1x", "number of bytes"),
        ("maxPartitionBytes", "0", "number of bytes"),
        ("mode", "IGNORE", "FAILFAST, DROPMALFORMED, PERMISSIVE"),
        ("verifyCrc", "yes", "true, false"),
        ("schemaStyle", "pulsar", "rocketmq, kafka"),
        ("maxFilesPerTrigger", "1", "only streams have it"),
    ],
)
def test_an_unknown_or_malformed_option_is_named(name, text, reason):
    with pytest.raises(ValueError, match=name) as error:
        parse(**{name: text})
    assert reason in str(error.value)


def test_offsets_may_name_the_broker_as_other_connectors_do():
    offsets = parse(startingOffsets='{"T":{"broker-a":{"0":23,"1":-2}},"U":{"0":5},"V":{}}').starting_offsets
    assert offsets == StartingOffsets(-2, {"T": {0: 23, 1: -2}, "U": {0: 5}, "V": {}}, "broker-a")


@pytest.mark.parametrize("queues", ["{}", '{"T":{}}'])
def test_ending_offsets_that_name_no_queue_end_none(queues):
    assert parse(endingOffsets=queues).ending_offsets.default == -1


def test_offsets_of_another_broker_are_refused():
    starting, ending = '{"T":{"broker-a":{"0":5}}}', '{"T":{"broker-b":{"0":9}}}'
    assert parse(startingOffsets=starting, brokerName="broker-a").starting_offsets.queues == {"T": {0: 5}}
    with pytest.raises(ValueError, match="options brokerName and startingOffsets: brokers broker-b, broker-a: a store"):
        parse(startingOffsets=starting, brokerName="broker-b")
    with pytest.raises(ValueError, match="options startingOffsets and endingOffsets: brokers broker-a, broker-b"):
        parse(startingOffsets=starting, endingOffsets=ending)


@pytest.mark.parametrize(
    "options", [{"subscribe": "T"}, {"subscribePattern": "T"}, {"queueIds": "0"}, {"assign": '{"T":[0,1],"U":[0]}'}]
)
def test_an_offset_of_a_queue_that_is_not_selected_is_refused(options):
    for name in ("startingOffsets", "endingOffsets"):
        with pytest.raises(ValueError, match=f"option {name}: queue 1 of 'U' is not among the selected queues"):
            parse(**{name: '{"T":{"0":5},"U":{"1":5}}'}, **options)


def test_timestamps_precede_offsets_as_in_kafka_s_source():
    options = parse(startingOffsets="latest", startingTimestamp="1", endingOffsets="latest", endingTimestamp="2")
    assert options == parse(startingTimestamp="1", endingTimestamp="2")
    assert parse(startingTimestamp="1", endingOffsets="latest").ending_offsets == StartingOffsets(-1, {})


def test_times_may_be_iso_8601_and_are_utc_without_a_zone():
    options = parse(startingTimestamp="2026-11-21T08:00:00", endingTimestamp="2026-11-21 10:00+01:00")
    assert (options.starting_timestamp, options.ending_timestamp) == (1_795_248_000_000, 1_795_251_600_000)
    times = parse(startingOffsetsByTimestamp='{"T":{"0":"2026-11-21T08:00:00","1":5}}').starting_offsets_by_timestamp
    assert times == {"T": {0: 1_795_248_000_000, 1: 5}}


def test_times_of_queues_precede_offsets_and_follow_one_time_for_all():
    times = '{"T":{"0":5}}'
    options = parse(startingOffsets='{"T":{"0":1}}', startingOffsetsByTimestamp=times)
    assert (options.starting_offsets, options.starting_offsets_by_timestamp) == (None, {"T": {0: 5}})
    assert parse(startingTimestamp="7", startingOffsetsByTimestamp=times) == parse(startingTimestamp="7")
    with pytest.raises(ValueError, match="option startingOffsetsByTimestamp: queue 0 of 'T' is not among the selected"):
        parse(subscribe="U", startingOffsetsByTimestamp=times)


def test_a_delay_has_a_unit_and_only_streams_have_it():
    options = parse(streaming=True, minOffsetsPerTrigger="10", maxTriggerDelay="2 m")
    assert (options.min_offsets_per_trigger, options.max_trigger_delay) == (10, 120_000)
    with pytest.raises(ValueError, match="option minOffsetsPerTrigger: only streams have it"):
        parse(minOffsetsPerTrigger="10")


@pytest.mark.parametrize("tags", ["*", "", " * "])
def test_a_star_is_every_tag(tags):
    assert parse(tags=tags).tags is None


def test_an_option_that_is_none_was_not_given():
    assert parse(**dict.fromkeys(sorted(FIELDS.keys() - {"path"}))) == parse()


def test_several_paths_are_a_json_array_a_pattern_or_have_commas(tmp_path):
    assert ReadOptions.parse({"paths": '["/a","/b"]'}).paths == ("/a", "/b")
    assert ReadOptions.parse({"path": "/a, /b"}).paths == ("/a", "/b")
    assert ReadOptions.parse({"path": "/a/*/store"}).paths == ("/a/*/store",)
    assert ReadOptions.parse({"path": str(tmp_path)}).paths is None
    with pytest.raises(ValueError, match="options path, paths: give only one of them"):
        ReadOptions.parse({"path": "/a", "paths": '["/b"]'})


def test_without_a_path_there_is_no_store():
    with pytest.raises(ValueError, match="option path: give the directory"):
        ReadOptions.parse({})
    assert ReadOptions.parse({"path": "s3://bucket/store"}).path == "s3://bucket/store"


@pytest.mark.parametrize(
    "options",
    [
        {"assign": '{"T":[0]}', "subscribe": "T"},
        {"subscribe": "T", "subscribePattern": "T"},
        {"assign": '{"T":[0]}', "queueIds": "0"},
        {"columns": "topic", "includeHeaders": "true"},
    ],
)
def test_options_that_contradict_each_other_are_refused(options):
    with pytest.raises(ValueError, match=" and ".join(options)):
        parse(**options)
    with pytest.raises(ValueError, match="give only one of them"):
        ReadOptions.parse({"path": "/store", **options})


@pytest.mark.parametrize("table", ["consumequeue", "index", "offsets"])
def test_a_table_takes_only_its_own_options(table):
    for options in ({"tags": "x"}, {"startingTimestamp": "1"}, {"mode": "PERMISSIVE"}):
        with pytest.raises(ValueError, match=f"option {next(iter(options))}: table {table} has only the options"):
            parse(table=table, **options)
    if table == "index":
        with pytest.raises(ValueError, match="option subscribe"):
            parse(table=table, subscribe="T")
    else:
        assert parse(table=table, subscribe="T").topics == {"T"}
        with pytest.raises(ValueError, match=f"option maxIndexNum: table {table} has only the options"):
            parse(table=table, maxIndexNum="5")


def test_only_the_index_has_a_geometry_and_not_half_of_one():
    options = parse(table="index", maxHashSlotNum="7", maxindexnum="20")
    assert (options.max_hash_slot_num, options.max_index_num) == (7, 20)
    with pytest.raises(ValueError, match="option maxIndexNum: give both maxHashSlotNum and maxIndexNum, or none"):
        parse(table="index", maxIndexNum="20")
    with pytest.raises(ValueError, match="option maxHashSlotNum: table messages has only the options"):
        parse(maxHashSlotNum="7", maxIndexNum="20")


def test_a_stream_has_no_end_and_no_other_table():
    for name in ("endingOffsets", "endingTimestamp", "endingPhyOffset"):
        with pytest.raises(ValueError, match=f"option {name}: only batch queries have it"):
            parse(streaming=True, **{name: "latest" if name == "endingOffsets" else "1"})
    with pytest.raises(ValueError, match="only messages can be streamed"):
        parse(streaming=True, table="index")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {("A", 0), ("A", 1), ("B", 0), ("B", 1), ("AB", 0)}),
        ({"subscribe": "A"}, {("A", 0), ("A", 1)}),
        ({"subscribe": "A,B", "queueIds": "1"}, {("A", 1), ("B", 1)}),
        ({"subscribePattern": "A.?"}, {("A", 0), ("A", 1), ("AB", 0)}),
        ({"subscribePattern": "A"}, {("A", 0), ("A", 1)}),
        ({"assign": '{"A":[1],"B":[0]}'}, {("A", 1), ("B", 0)}),
    ],
)
def test_queues_are_wanted_by_topic_pattern_or_assignment(options, wanted):
    queues = [("A", 0), ("A", 1), ("B", 0), ("B", 1), ("AB", 0)]
    assert {queue for queue in queues if parse(**options).wants(*queue)} == wanted

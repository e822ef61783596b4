"""Messages put as columns: the records are those of the same messages put one by one."""

import random
from dataclasses import replace

import numpy as np
import pytest

import rocketstore
from rocketstore import CommitLog, Message, MessageBatch, PutMessageError
from rocketstore.kernels.column_encoder import ColumnEncoder
from rocketstore.kernels.value_columns import StringColumn

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")

TIME = 1_700_000_000_000
FILE = 1 << 16


def table(rng, n, values=("1", "", "x y", "😀", "k", "t")):
    """Some columns of a table, rare values included. values: of properties."""

    def choose(values):
        return [rng.choice(values) for _ in range(n)]

    names = ["a", "KEYS", "TAGS", "UNIQ_KEY", "DELAY", "Ü", "漢字", "__CRC32#", "INNER_MULTI_DISPATCH"]
    rows = [[(name, rng.choice(values)) for name in rng.sample(names, rng.randrange(4))] for _ in range(n)]
    keys = [rng.choice([[], ["k"], ["k1", "漢"], None]) for _ in range(n)]
    tags = choose([None, "", "t", "tag"])
    uniq_keys = choose([None, "u", "0A"])
    for row, words, tag, uniq_key in zip(rows, keys, tags, uniq_keys, strict=True):
        said = {"KEYS": " ".join(words or []), "TAGS": tag, "UNIQ_KEY": uniq_key}
        row[:] = [(name, said.get(name) or value) for name, value in row]
    columns = {
        "topic": pa.array(choose(["T", "Orders", "t" * 127, "漢" * 40, "v2-" + "x" * 130]), pa.string()),
        "body": pa.array([rng.randbytes(rng.choice([0, 1, 100, 3000])) for _ in range(n)], pa.binary()),
        "queueId": pa.array(choose([0, 1, 2**31 - 1]), pa.int32()),
        "flag": pa.array(choose([0, -1, 2**31 - 1]), pa.int32()),
        "sysFlag": pa.array(choose([0, 1, 4, 8, 12, 0x100, 0x10]), pa.int32()),
        "bornTimestamp": pa.array(choose([0, TIME]), pa.timestamp("ms")),
        "bornTimestampMs": pa.array(choose([0, TIME, -(2**63)]), pa.int64()),
        "bornHost": pa.array(choose(["1.2.3.4:5", "[::1]:65535"]), pa.string()),
        "storeTimestamp": pa.array(choose([0, TIME]), pa.timestamp("ms")),
        "storeHost": pa.array(choose(["9.8.7.6:1", "[fe80::1]:2"]), pa.string()),
        "reconsumeTimes": pa.array(choose([0, 16]), pa.int32()),
        "preparedTransactionOffset": pa.array(choose([0, 2**62]), pa.int64()),
        "properties": pa.array(rows, pa.map_(pa.string(), pa.string())),
        "keys": pa.array(keys, pa.list_(pa.string())),
        "tags": pa.array(tags, pa.string()),
        "uniqKey": pa.array(uniq_keys, pa.string()),
    }
    if rng.random() < 0.3:
        columns["rawBody"] = columns["body"]
    kept = {name for name in columns if rng.random() < 0.8} | {"topic", "body", "bornTimestampMs", "storeTimestamp"}
    if "rawBody" in kept:
        kept.add("sysFlag")
    return pa.table({name: column for name, column in columns.items() if name in kept})


def put(directory, messages, **options):
    """The bytes of a log that has nothing but these messages, and what the put gave."""
    with CommitLog.open(directory, "a", mapped_file_size=FILE) as log:
        result = log.append_batch(messages, **options)
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    return files, [result[i] for i in range(len(result))]


@pytest.mark.parametrize("store_timestamp", [TIME, "given"])
@pytest.mark.parametrize("round", range(20))
def test_columns_make_the_records_that_messages_make(tmp_path, seed, round, store_timestamp):
    rng = random.Random(f"{seed} {round}")
    batch = MessageBatch.of_arrow(table(rng, rng.choice([1, 7, 60])))
    messages = put(tmp_path / "messages", list(batch.to_put()), store_timestamp=store_timestamp)
    assert put(tmp_path / "columns", batch, store_timestamp=store_timestamp) == messages


def test_a_table_is_appended_as_its_batch_is(tmp_path, seed):
    made = table(random.Random(seed), 30)
    batch = put(tmp_path / "batch", MessageBatch.of_arrow(made), store_timestamp=TIME)
    assert put(tmp_path / "table", made, store_timestamp=TIME) == batch
    frame = put(tmp_path / "record batch", made.combine_chunks().to_batches()[0], store_timestamp=TIME)
    assert frame == batch


READ = [
    "topic",
    "sys_flag",
    "properties",
    "queue_id",
    "flag",
    "born_host",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
]


@pytest.mark.parametrize("body", ["body", "raw_body"])
def test_messages_that_were_read_are_put_again_unchanged(tmp_path, seed, body):
    made = table(random.Random(seed), 40, values=("1", "x y"))  # one without a value is not read
    flags = pa.array([random.Random(seed).choice([0, 4, 8]) for _ in range(40)], pa.int32())
    made = made.drop_columns([name for name in ("sysFlag", "rawBody") if name in made.column_names])
    files, _ = put(tmp_path / "first", made.append_column("sysFlag", flags), store_timestamp="given")
    with CommitLog.open(tmp_path / "first", mapped_file_size=FILE) as log:
        (batch,) = log.scan(columns=[*READ, body])
        assert put(tmp_path / "again", batch, store_timestamp="given")[0] == files


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        ({"keys": [["a b"]]}, ValueError, "a key must have no spaces"),
        ({"keys": [[""]]}, ValueError, "a key must have no spaces"),
        ({"tags": ["x"], "properties": [[("TAGS", "y")]]}, ValueError, "TAGS is 'y' in properties, but 'x' in"),
        ({"bornHost": ["nowhere"]}, ValueError, "an address and a port"),
        ({"topic": ["SCHEDULE_TOPIC_XXXX"], "properties": [[("DELAY", "soon")]]}, PutMessageError, "DELAY"),
        ({"properties": [[("p", "x" * 40_000)]]}, PutMessageError, "40003 bytes"),
    ],
)
def test_a_row_that_cannot_be_put_refuses_all_of_them(tmp_path, columns, error, match):
    sound = {"topic": "T", "bornHost": "1.1.1.1:1"}
    rows = {name: pa.array([sound.get(name), values[0]], types(name)) for name, values in columns.items()}
    made = pa.table({"topic": ["T", "T"], "body": [b"", b""]} | rows)
    with CommitLog.open(tmp_path, "a", mapped_file_size=FILE) as log:
        with pytest.raises(error, match=match):
            log.append_batch(made)
        assert log.max_phy_offset == 0


def types(name):
    return {"keys": pa.list_(pa.string()), "properties": pa.map_(pa.string(), pa.string())}.get(name, pa.string())


def test_a_property_that_a_row_has_twice_counts_as_in_a_dict(tmp_path):
    pairs = [("a", "1"), ("b", "2"), ("a", "3")]
    made = pa.table({"topic": ["T"], "body": [b""], "properties": [pairs], "bornTimestamp": pa.array([TIME])})
    files, _ = put(tmp_path / "columns", made, store_timestamp=TIME)
    message = Message("T", b"", properties=dict(pairs), born_timestamp=TIME, queue_id=0)
    assert files == put(tmp_path / "message", [message], store_timestamp=TIME)[0]


def test_hundreds_of_properties_are_put(tmp_path):
    properties = {f"p{i}": str(i) for i in range(500)}
    made = pa.table({"topic": ["T"], "body": [b""], "properties": [list(properties.items())]})
    put(tmp_path, made)
    with CommitLog.open(tmp_path, mapped_file_size=FILE) as log:
        assert log.get_message(0).properties == properties


def test_light_queues_and_turns_of_queues_work_with_columns(tmp_path):
    config = replace(rocketstore.StoreConfig.small(), enable_lmq=True, enable_multi_dispatch=True)
    rows = [[("INNER_MULTI_DISPATCH", "%LMQ%a")], [], []]
    made = pa.table(
        {"topic": ["T"] * 3, "body": [b"x"] * 3, "properties": pa.array(rows, pa.map_(pa.string(), pa.string()))}
    )
    with rocketstore.open(tmp_path, "a", config=config) as store:
        result = store.put_messages(MessageBatch.of_arrow(made))
        assert len({*result.queue_ids.tolist()}) == 3
        assert len(store.consume_queue("%LMQ%a", 0)) == 1


@pytest.mark.parametrize("offsets", [[0, 5], [-1, 1], [3, 2]])
def test_a_column_that_leads_beyond_its_data_is_an_error(tmp_path, offsets):
    sound = StringColumn(np.array([0, 1], np.int32), np.frombuffer(b"T", np.uint8))
    wrong = StringColumn(np.array(offsets, np.int32), np.frombuffer(b"abc", np.uint8))
    with CommitLog.open(tmp_path, "a", mapped_file_size=FILE) as log:
        for columns in ({"topic": sound, "body": wrong}, {"topic": wrong, "body": sound}):
            with pytest.raises(ValueError, match="row 0: is at"):
                log.append_batch(MessageBatch(columns, 1))
        assert log.max_phy_offset == 0


@pytest.mark.parametrize("columns", [["body"], ["topic"], ["topic", "raw_body"], ["keys"]], ids=" ".join)
def test_columns_that_make_no_message_are_an_error(tmp_path, columns):
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as store:
        store.put_message(Message("T", b"x"))
        (batch,) = store.scan(columns=columns)
        with pytest.raises(ValueError, match="columns topic, and body or raw_body with sys_flag, are needed"):
            store.put_messages(batch)
        assert len(next(iter(store.scan()))) == 1


def test_columns_of_different_lengths_are_an_error():
    two = StringColumn(np.array([0, 1, 2], np.int32), np.frombuffer(b"TT", np.uint8))
    with pytest.raises(ValueError, match="a column of 2 rows among those of 1"):
        ColumnEncoder({"topic": two, "body": two}, 1)
    with pytest.raises(ValueError, match="a column of 1 rows among those of 2"):
        ColumnEncoder({"topic": two, "body": two, "flag": np.zeros(1, np.int32)}, 2)

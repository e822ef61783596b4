"""Inner batches in Spark: the rows are messages; with the option containers they are records."""

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from support.puts import open_store
from support.spark_reads import read_table

import rocketstore
from rocketstore import Message

START = 1_790_000_000_000
COLUMNS = "topic,queueId,queueOffset,phyOffset,storeTimestamp,tags,keys,body"
NAMES = ("topic", "queue_id", "queue_offset", "phy_offset", "tags", "keys", "body")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("batches") / "store"
    with open_store(path) as store:
        store.create_topic("B", 2, queue_type="BatchCQ")
        for number in range(40):
            place = {"queue_id": number % 2, "store_timestamp": START + number * 1000}
            if number % 3:
                parts = [Message("B", b"%d" % n, keys=f"k{number}-{n}", tags="ab"[n % 2]) for n in range(number % 6)]
                message = Message.batch("B", parts, compress=[None, "zlib"][number % 2], **place)
            else:
                message = Message("P", b"plain", keys=f"k{number}", tags="a", **place)
            store.put_message(message, store_timestamp="given")
    return path


def of_spark(root, **options):
    rows = read_table(root, columns=COLUMNS, **options).to_pylist()
    names = COLUMNS.split(",")
    return [tuple(row[name] for name in names if name != "storeTimestamp") for row in rows]


def of_python(root, **conditions):
    with rocketstore.open(root) as store:
        found = [message for batch in store.scan(**conditions) for message in batch]
    return [tuple(getattr(message, name) for name in NAMES) for message in found]


@pytest.mark.parametrize(
    ("options", "conditions"),
    [
        ({}, {}),
        ({"minPartitions": "5"}, {}),
        ({"batchSize": "3"}, {}),
        ({"subscribe": "B"}, {"topic": "B"}),
        ({"tags": "b"}, {"tag": "b"}),
        ({"keys": "k7-0"}, {"key": "k7-0"}),
        ({"keys": "k7-0", "subscribe": "B"}, {"key": "k7-0"}),
        ({"keys": "k3", "subscribe": "P"}, {"key": "k3"}),
        ({"subscribe": "B", "tags": "a", "queueIds": "1"}, {"topic": "B", "tag": "a", "queue_ids": 1}),
        (
            {"startingTimestamp": str(START + 9_000), "endingTimestamp": str(START + 20_000)},
            {"since": START + 9_000, "until": START + 20_000},
        ),
        ({"containers": "true"}, {"containers": True}),
        ({"containers": "true", "subscribe": "B"}, {"containers": True, "topic": "B"}),
    ],
)
def test_rows_are_the_messages_of_a_scan(root, options, conditions):
    assert of_spark(root, **options) == of_python(root, **conditions) != []


@pytest.mark.parametrize("queue_id", [0, 1])
@pytest.mark.parametrize("begin", [0, 1, 5, 6, 17])
def test_offsets_choose_messages_within_a_batch(root, queue_id, begin):
    expected = [row for row in of_python(root, topic="B", queue_ids=queue_id) if begin <= row[2] < begin + 4]
    starting, ending = (f'{{"B": {{"{queue_id}": {offset}}}}}' for offset in (begin, begin + 4))
    given = {"assign": f'{{"B": [{queue_id}]}}', "startingOffsets": starting, "endingOffsets": ending}
    assert of_spark(root, **given) == expected

"""Spark on a store that a real broker is writing."""

import threading

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from support.spark_reads import limits

from interop.broker import QUEUES, Broker
from interop.test_broker import Given, open_writer, rows_to_send, sent, write
from rocketstore.spark import register

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS = "topic,queueId,queueOffset,body,keys,tags,uniqKey"


@pytest.fixture
def reading(spark):
    register(spark)
    return {"subscribe": "Orders,Audit", "columns": COLUMNS}


def by_place(rows):
    """Messages by place; each is there once."""
    found = {
        (row.topic, row.queueId, row.queueOffset): Given(
            bytes(row.body).decode(), " ".join(row["keys"]), row.tags, row.uniqKey
        )
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def test_a_store_is_read_and_streamed_while_a_broker_writes(spark, reading, client, root, tmp_path, seed):
    with open_writer(root) as store:
        written = write(store, seed, "first", 500)
        messages = {place: given for place, given in written.items() if place[0] in ("Orders", "Audit")}
    with Broker(client, root, QUEUES, tmp_path):
        stream = spark.readStream.format("rocketstore").options(**reading, startingOffsets="earliest")
        if limits is not None:
            stream = stream.option("maxBytesPerTrigger", "64k")
        query = stream.load(str(root)).writeStream.format("memory").queryName("interop").start()
        rows = rows_to_send(seed, 3000)
        answers = []
        sender = threading.Thread(target=lambda: answers.extend(client.send(rows)))
        sender.start()
        snapshots = []
        while sender.is_alive() or not snapshots:
            snapshots.append(by_place(spark.read.format("rocketstore").options(**reading).load(str(root)).collect()))
        sender.join()
        messages |= sent(rows, answers)
        query.processAllAvailable()
        query.stop()
        assert by_place(spark.table("interop").collect()) == messages
        assert by_place(spark.read.format("rocketstore").options(**reading).load(str(root)).collect()) == messages
    assert [len(snapshot) for snapshot in snapshots] == sorted(len(snapshot) for snapshot in snapshots)
    for snapshot in snapshots:
        assert snapshot.items() <= messages.items()

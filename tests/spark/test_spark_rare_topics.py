"""Spark reads a rare topic by its queues: the same rows as a scan of the log, in the same order."""

import json
import logging
import os
import pickle
import random

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from dataclasses import replace

from support.spark_reads import read_table, reader_of

import rocketstore
from rocketstore import Message, StoreConfig, StoreError
from rocketstore.spark.source.messages import LogPart

T0 = 1_700_000_000_000
CONFIG = replace(StoreConfig.small(), mapped_file_size_commit_log=1 << 17)
FEW = "Few"  # the topic of each 40th message


def fill(root, numbers):
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for number in numbers:
            fields = {"queue_id": number % 3, "keys": [f"k{number % 50}"], "tags": f"t{number % 100 // 40}"}
            topic = FEW if number % 40 == 7 else f"Many{number % 3}"
            message = Message(topic, b"%05d " % number * 12, **fields)
            store.put_message(message, store_timestamp=T0 + 1000 * number)
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("rare"), range(3000))


def parts_of(root, **options):
    return [part for part in reader_of(root, **options)[0].partitions() if isinstance(part, LogPart)]


def test_a_rare_topic_is_planned_by_its_queues(root, caplog):
    with caplog.at_level(logging.INFO, "rocketstore"):
        parts = parts_of(root, subscribe=FEW)
    assert sum(len(part.plan.records) for part in parts) == 75
    assert caplog.messages[-1].startswith(f"{root}: reads 75 records to which the queues lead, and ")
    assert caplog.messages[-1].endswith("option plan=scan reads the complete log")
    assert len(parts) > 2
    for options in ({}, {"plan": "scan"}, {"verifyCrc": "true"}, {"mode": "PERMISSIVE"}):
        given = {"subscribe": FEW} if options else {"subscribe": "Many1"}
        assert {part.plan for part in parts_of(root, **given, **options)} == {None}


def test_drawn_queries_have_the_rows_of_a_scan(root, seed):
    rnd = random.Random(seed)
    planned = 0
    ends = [part.ranges[0][1] for part in parts_of(root, minPartitions="9")]
    for _ in range(15):
        offsets = json.dumps({FEW: {"0": rnd.randrange(20), "2": -2}})
        drawn = {
            **rnd.choice([{"subscribe": FEW}, {"assign": json.dumps({FEW: [0, 2]})}, {"subscribe": f"{FEW},Unknown"}]),
            **rnd.choice([{}, {}, {"tags": "t2"}]),
            **rnd.choice([{}, {}, {"startingOffsets": offsets}, {"startingPhyOffset": str(rnd.choice(ends))}]),
            **rnd.choice([{}, {}, {"endingPhyOffset": str(rnd.choice(ends))}]),
            **rnd.choice([{}, {"minPartitions": "7"}, {"maxPartitionBytes": "30k"}]),
            **rnd.choice([{}, {"mode": "DROPMALFORMED"}, {"batchSize": "3"}]),
        }
        found = read_table(root, **drawn)
        assert found.equals(read_table(root, **drawn, plan="scan")), drawn
        planned += any(part.plan is not None for part in parts_of(root, **drawn)) and found.num_rows > 0
    assert planned > 2


def test_messages_behind_the_units_of_a_running_broker_are_read(tmp_path):
    fill(tmp_path, range(2500))
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        store.put_message(Message(FEW, b"last", queue_id=0), store_timestamp=T0)
        found = read_table(tmp_path, subscribe=FEW)
        assert found["body"].to_pylist()[-1] == b"last"
        assert found.equals(read_table(tmp_path, subscribe=FEW, plan="scan"))


def test_planned_records_that_expired_or_were_cut_off_are_reported(tmp_path):
    fill(tmp_path, range(3000))
    reader, _ = reader_of(tmp_path, subscribe=FEW)
    parts = [part for part in reader.partitions() if part.plan.records]
    files = sorted((tmp_path / "commitlog").iterdir())
    with files[1].open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.truncate(2000)
        file.truncate(size)
    files[0].unlink()
    for part, reason in ((parts[0], "was deleted after the query was planned"), (parts[1], "commitlog")):
        task, sent = pickle.loads(pickle.dumps((reader, part)))
        with pytest.raises((StoreError, rocketstore.CorruptFileError), match=reason):
            list(task.read(sent))

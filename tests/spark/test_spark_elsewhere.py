"""The driver says once where consumers get other messages than a query: of a compacted topic, or of a tier."""

import logging

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from support.spark_reads import data_source, read_table

import rocketstore
from rocketstore import Message, StoreConfig

COMPACTED = "compaction/compactionLog/T/0"


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        store.put_messages([Message(topic, b"body", keys=["k"], queue_id=0) for topic in ("T", "T", "Other")])
    return root


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("table", ["messages", "consumequeue", "offsets", "index"])
@pytest.mark.parametrize(("made", "word"), [
    (COMPACTED, "topic 'T' is compacted"), ("tiered_index_file", "tiered storage"),
    ("config/tieredStoreMetadata.json", "tiered storage"),
])  # fmt: skip
def test_a_query_warns_once(root, table, made, word, caplog):
    (root / made).mkdir(parents=True)
    for _ in range(2):
        assert read_table(root, table=table).num_rows >= 2
    (text,) = warnings_of(caplog)
    assert word in text
    assert str(root) in text


def test_a_stream_warns_once(root, caplog):
    (root / COMPACTED).mkdir(parents=True)
    source = data_source(root, startingOffsets="earliest")
    reader = source.streamReader(source.schema())
    start, end = reader.initialOffset(), reader.reportLatestOffset()
    assert reader.partitions(start, end)
    (text,) = warnings_of(caplog)
    assert "topic 'T' is compacted" in text


@pytest.mark.parametrize("options", [
    {"subscribe": "Other"}, {"subscribePattern": "O.*"}, {"assign": '{"Other": [0]}'},
    {"subscribe": "Other", "keys": "k"},
])  # fmt: skip
def test_a_query_of_other_topics_does_not_warn(root, options, caplog):
    (root / COMPACTED).mkdir(parents=True)
    assert read_table(root, **options).num_rows == 1
    assert warnings_of(caplog) == []


def test_a_plain_store_gives_no_warning(root, caplog):
    assert read_table(root).num_rows == 3
    assert warnings_of(caplog) == []

"""CommitLog.scan against RocketMQ's checkMessageAndReturnSize, and get_messages against a loop over get_message."""

import shutil

import numpy as np
import pytest
from conftest import seconds_of
from keys import splitmix64
from peers import Java
from store_files import write_store

from rocketstore import CommitLog
from rocketstore.limits import LONG_MAX

# What a query engine asks for; bodies are checked and not copied.
COLUMNS = ("phy_offset", "queue_offset", "store_timestamp", "topic", "keys", "tags", "uniq_key")
CHECKED = ("phy_offset", "queue_offset", "store_timestamp", "tags_code", "size", "topic", "keys", "uniq_key")
BODIES = (1024, 200)
LOOKUPS = 100_000


@pytest.fixture(scope="module")
def java():
    process = Java(5_000_000, 20_000_000, main="StoreBench")
    yield process
    process.close()


@pytest.fixture(scope="module", params=BODIES, ids="{} B bodies".format)
def store(request, scratch):
    """Root, messages, and the size of a body: one commit log file of 1 GiB."""
    root = scratch / f"log-{request.param}"
    yield root, write_store(root, request.param), request.param
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def log(store):
    with CommitLog.open(store[0] / "commitlog") as log:
        yield log


def scan(log, **given):
    for _ in log.scan(columns=COLUMNS, **given):
        pass


def text_length(batch):
    """The lengths of topics, unique keys, and keys with a space between two."""
    keys = len(batch.keys.values.data) + len(batch.keys.values.offsets) - 1 - len(batch)
    return len(batch.topic.data) + len(batch.uniq_key.data) + keys


def test_both_read_the_same(java, store, log):
    root, messages, _ = store
    count = numbers = texts = 0
    for batch in log.scan(columns=CHECKED, verify_crc=True):
        count += len(batch)
        numbers += sum(int(batch.columns[name].astype(np.int64).sum()) for name in CHECKED[:5])
        texts += text_length(batch)
    assert java.round("scan", root, "true", "true")[1:] == (count, numbers & LONG_MAX)
    assert java.round("texts", root)[1:] == (messages, texts)
    assert count == messages


@pytest.mark.parametrize(("threads", "goal"), [(1, 2.5), (2, 4)])
def test_scan_with_crc(pairs, java, store, log, threads, goal):
    root, messages, body = store
    pairs(
        f"scan with CRC, {body} B bodies, {threads} thread{'s' * (threads > 1)}",
        messages,
        lambda: scan(log, verify_crc=True, threads=threads),
        lambda: java.round("scan", root, "true", "true")[0],
        "checkMessageAndReturnSize",
        goal=goal,
    )


def test_scan_without_crc(pairs, java, store, log):
    root, messages, body = store
    pairs(
        f"scan without CRC and bodies, {body} B bodies, 1 thread",
        messages,
        lambda: scan(log),
        lambda: java.round("scan", root, "false", "false")[0],
        "checkMessageAndReturnSize",
        goal=3,
    )


def test_get_messages(pairs, store, log):
    _, messages, body = store
    phy_offsets = np.concatenate([batch.phy_offset for batch in log.scan(columns=["phy_offset"])])
    wanted = phy_offsets[(splitmix64(np.arange(LOOKUPS, dtype=np.uint64)) % np.uint64(messages)).astype(np.int64)]
    one_by_one = wanted.tolist()
    assert [message.phy_offset for message in log.get_messages(wanted[:100])] == one_by_one[:100]

    def loop():
        for phy_offset in one_by_one:
            log.get_message(phy_offset)

    pairs(
        f"get_messages, random offsets, {body} B bodies",
        LOOKUPS,
        lambda: log.get_messages(wanted),
        lambda: seconds_of(loop),
        "get_message, one by one",
        goal=5,
    )

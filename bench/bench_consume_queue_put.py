"""ConsumeQueueWriter.put_units against a loop over RocketMQ's ConsumeQueue.putMessagePositionInfoWrapper."""

import shutil

import numpy as np
import pytest
from keys import TOPIC
from peers import Java

from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter

FILE_SIZE = 300_000 * 20
BATCH = 100_000
UNITS = 6 * BATCH  # two files


@pytest.fixture(scope="module")
def java():
    process = Java(0, main="PutBench")
    yield process
    process.close()


@pytest.fixture(scope="module")
def batches():
    rows = np.arange(UNITS)
    columns = rows * 1200, np.full(UNITS, 1200, np.int32), rows % 5 * 31_337, rows
    return [[column[first : first + BATCH] for column in columns] for first in range(0, UNITS, BATCH)]


class Rounds:
    """Rounds of ours and theirs, each into a new queue, which is deleted before the next one."""

    def __init__(self, java, root):
        self.java = java
        self.ours, self.theirs = root / "ours", root / "theirs"
        self.writer = None

    def open(self):
        self.writer = ConsumeQueueWriter(self.ours, FILE_SIZE)

    def end(self):
        if self.writer is not None:
            self.writer.destroy()
            self.writer.close()
            self.writer = None

    def put(self, batches):
        for columns in batches:
            self.writer.put_units(*columns)

    def put_theirs(self):
        self.end()
        shutil.rmtree(self.theirs, ignore_errors=True)
        seconds, *put = self.java.round("units", self.theirs, UNITS)
        assert put == [UNITS, UNITS * 1200]
        return seconds


@pytest.fixture
def rounds(java, scratch):
    rounds = Rounds(java, scratch)
    yield rounds
    rounds.end()
    shutil.rmtree(rounds.theirs)


def test_put_units(pairs, rounds, batches):
    rounds.put_theirs()
    rounds.open()
    rounds.put(batches)
    names = [path.name for path in sorted(rounds.ours.iterdir())]
    assert names == [f"{0:020}", f"{FILE_SIZE:020}"]
    for name in names:
        assert (rounds.ours / name).read_bytes() == (rounds.theirs / "consumequeue" / TOPIC / "0" / name).read_bytes()
    pairs(
        f"put_units of {BATCH:,}",
        UNITS,
        lambda: rounds.put(batches),
        rounds.put_theirs,
        "putMessagePositionInfoWrapper",
        goal=50,
        before=rounds.open,
    )

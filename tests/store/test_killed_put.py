"""A put that is killed at any of its writes leaves a log that ends with a torn tail, never a record behind a hole.

A put of 256 KiB or more goes to the system in calls of ``pwrite``. The library of tests/c/faults.c halves each of these
calls and kills the process before one of them, so that the process dies at each point of each write.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.faults import Faults, build, environment
from support.repetitions import only_some_quick

from rocketstore import CommitLog, Message, StoreConfig

FILE_SIZE = 1 << 20
BEFORE = 3  # records that were in the log before the put
SMALL, LARGE = 900, 70_000  # bytes of a body: many heads are written again with their records, a few one by one
SHAPES = {
    "large records": [LARGE] * 8,
    "all sizes": [10, LARGE, SMALL, 300_000, *[SMALL] * 50, 4000, LARGE, 1],
    "small records over the end of a file": [SMALL] * 1200,
}


def messages_of(sizes):
    return [Message("T", bytes([65 + i % 26]) * size, queue_id=0, born_timestamp=1) for i, size in enumerate(sizes)]


# ---- in the child ------------------------------------------------------------------------------------------


def put(directory, sizes, *, kill_at=0):
    """Put messages into a log, with writes cut short; the process is killed before this call, unless it is 0."""
    faults = Faults()
    directory.parent.mkdir()
    config = StoreConfig(mapped_file_size_commit_log=FILE_SIZE, allocate_file_ahead=False)  # no calls of another thread
    with CommitLog.open(directory, "a", config=config) as log:
        log.append_batch(messages_of([SMALL] * BEFORE))
        faults.watch(directory)
        faults.kill_at(kill_at)
        faults.arm("write", 1, "SHORT", for_ever=True)
        log.append_batch(messages_of(sizes))
        faults.ignore()
        return faults.calls


def is_killed(directory, sizes, kill_at):
    """Whether a put was killed before this call; False: it made fewer calls."""
    pid = os.fork()
    if pid == 0:
        try:
            put(directory, sizes, kill_at=kill_at)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -9), status
    return status == -9


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--sizes", type=json.loads)
    options = parser.parse_args()
    kill_at = 1
    while is_killed(options.root / f"{kill_at}" / "commitlog", options.sizes, kill_at):
        kill_at += 1
    print(kill_at - 1)


# ---- in the parent -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    return environment(build(tmp_path_factory.mktemp("faults")))


def bodies_left(root):
    """What a reader finds in a log as it was left, by one thread and by several, with and without CRCs."""
    with CommitLog.open(root / "commitlog") as log:
        found = [message.body for batch in log.scan(batch_size=64) for message in batch]
        assert [message.body for batch in log.scan(threads=3) for message in batch] == found
        assert [message.body for batch in log.scan(verify_crc=True) for message in batch] == found
        end = log.max_phy_offset
        assert log.reader.find_later(end + 1, 1 << 62) is None, f"a record is behind the end, {end}"
    return found


def kill_at_each_write(root, sizes, env):
    """Have a put killed before each of its writes, in a store of its own, named by the write. Returns: how many."""
    command = [sys.executable, "-X", "faulthandler", __file__, str(root), f"--sizes={json.dumps(sizes)}"]
    run = subprocess.run(command, env=env, text=True, capture_output=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    kills = int(run.stdout)
    assert kills > 20, "the put was not written by calls"
    return kills


@pytest.mark.parametrize("shape", only_some_quick([*SHAPES], "all sizes"))
def test_a_put_that_is_killed_at_any_write_leaves_a_torn_tail(shape, env, tmp_path):
    sizes = SHAPES[shape]
    kills = kill_at_each_write(tmp_path, sizes, env)
    put_before = [message.body for message in messages_of([SMALL] * BEFORE)]
    expected = [message.body for message in messages_of(sizes)]
    counts = []
    for kill_at in range(1, kills + 1):
        found = bodies_left(tmp_path / f"{kill_at}")
        assert found == [*put_before, *expected][: len(found)], kill_at
        counts.append(len(found) - BEFORE)
    assert counts == sorted(counts), "records went again"
    assert counts[0] == 0
    assert 0 < counts[-1] <= len(sizes)


def test_an_export_and_a_table_of_spark_read_what_a_killed_put_left(env, tmp_path):
    pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
    from support import cli
    from support.spark_reads import read_table

    for kill_at in range(1, kill_at_each_write(tmp_path, SHAPES["large records"], env) + 1):
        root = tmp_path / f"{kill_at}"
        found = bodies_left(root)
        assert read_table(root, columns="body").column("body").to_pylist() == found, kill_at
        assert cli.run("export", root, root / "all.jsonl").exit_code == 0
        exported = (root / "all.jsonl").read_text().splitlines()
        assert [json.loads(line)["body"].encode() for line in exported] == found, kill_at


if __name__ == "__main__":
    main()

"""Damaged stores: an error, a skip that is reported, or a right answer; never a crash, a hang or a wrong body."""

import os
import resource
import subprocess
import sys

import pytest
from reference.commit_log import make_commit_log
from reference.consume_queue import pack_batch_unit
from support import hostile, hostile_store

import rocketstore
from rocketstore import CommitLog, CorruptFileError


def parts(count, *others):
    """The first part is in `make test`, all are in test-all. Parameters: others: marks of the other parts."""
    marks = [pytest.mark.slow, *others]
    return pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=marks) for n in range(1, count))])


@pytest.fixture
def root(tmp_path):
    hostile_store.build(tmp_path / "store")
    return tmp_path / "store"


@parts(hostile_store.SHARES_OF_A_ROUND)
def test_a_flipped_bit_in_any_byte_or_a_cut_at_any_length_is_survived(part, seed, tmp_path):
    """Some of all there are, as the seed says; the rounds of the soak do all."""
    hostile.assert_survived("every byte", hostile_store.SHARES_OF_A_ROUND * seed + part, tmp_path)


@parts(8, pytest.mark.no_soak)
def test_damage_of_many_bytes_is_survived(part, seed, tmp_path):
    hostile.assert_survived("many bytes", 8 * seed + part, tmp_path)


@pytest.mark.no_soak
def test_a_pipe_or_directory_in_the_place_of_a_file_is_survived(seed, tmp_path):
    """One part of all there are, as the seed says; so with the names."""
    hostile.assert_survived("replacements", seed, tmp_path)


@pytest.mark.no_soak
def test_strange_names_are_survived(seed, tmp_path):
    hostile.assert_survived("strange names", seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(hostile.PARTS))
@pytest.mark.parametrize("kind", ["replacements", "strange names"])
def test_all_that_is_no_file_and_all_strange_names_are_survived(kind, part, tmp_path):
    """The same with every seed, so no affair of the soak's rounds."""
    hostile.assert_survived(kind, part, tmp_path)


# ---- the smallest cases of bugs that were found --------------------------------------------------------------


@pytest.fixture
def damaged_log(tmp_path):
    """Three records, the second without its magic code."""
    offsets = make_commit_log(tmp_path, 1024, [{"body": b"body"}] * 3)
    path = tmp_path / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[offsets[1] + 4] ^= 1
    path.write_bytes(data)
    with CommitLog.open(tmp_path) as log:
        yield log, offsets


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_thread_of_a_scan_reports_what_it_skips(threads, damaged_log):
    log, offsets = damaged_log
    messages = log.scan(on_corrupt="skip", threads=threads)
    assert [at for batch in messages for at in batch.phy_offset.tolist()] == [offsets[0], offsets[2]]
    assert [part[:2] for part in messages.skipped] == [(offsets[1], offsets[2])]
    with pytest.raises(CorruptFileError, match="magic"):
        list(log.scan(threads=threads))


@pytest.mark.parametrize("limits", [None, "broker"])
@pytest.mark.parametrize("tags", [None, "absent"])
def test_a_gap_in_a_batch_queue_is_passed(limits, tags, root):
    path = root / "batchconsumequeue" / "Batch" / "0" / f"{0:020}"
    units = [pack_batch_unit(0, 200, 0, 1, base, 2) for base in (0, 2, 10**9)]
    path.write_bytes(b"".join(units).ljust(hostile_store.BATCH_FILE_SIZE, b"\0"))
    for other in path.parent.iterdir():
        if other != path:
            other.unlink()
    with rocketstore.open(root) as store:
        result = store.get_message("Batch", 0, 0, 1000, limits=limits, tag=tags)
        assert len(result.messages) <= 3
        assert result.next_begin_offset > 2


@pytest.mark.parametrize("tail", [1, 46, 1024])
def test_a_log_file_that_is_too_long_hides_nothing_of_the_next(tail, tmp_path):
    offsets = make_commit_log(tmp_path, 1024, [{"body": bytes(300)}] * 6)
    with (tmp_path / f"{0:020}").open("ab") as file:
        file.write(bytes(tail))
    with CommitLog.open(tmp_path) as log:
        assert [log.get_message(at).phy_offset for at in offsets] == offsets
        assert log.get_messages(offsets).phy_offset.tolist() == offsets


@pytest.mark.parametrize("name", ["01", "+1", "-0000000000000000001", f"{46:020}"])
def test_a_queue_directory_by_another_name_than_its_number_is_no_queue(name, root):
    (root / "consumequeue" / "TopicTest" / name).mkdir()
    with rocketstore.open(root) as store:
        assert "problem" not in repr(store)
        assert not store.summary().problems
        assert [queue_id for topic, queue_id in store.queues() if topic == "TopicTest"] == [0, 1]


@pytest.mark.parametrize("name", ["consumequeue/Crc", "consumequeue/Crc/0", "batchconsumequeue"])
def test_a_link_to_itself_hides_no_other_queue(name, root):
    (root / name).rename(root / "elsewhere")
    (root / name).symlink_to(root / name)
    with rocketstore.open(root) as store:
        assert "MessageStore" in repr(store)
        assert ("TopicTest", 0) in store.queues()
        assert store.summary().topics >= 7


@pytest.mark.parametrize("call", ["verify(path)", "recover(path)", "open(path, 'a')"])
@pytest.mark.parametrize("name", ["config/rocketstore.json", "rocketstore-intent.json", "abort"])
def test_a_pipe_in_place_of_a_file_of_ours_holds_up_nobody(name, call, tmp_path):
    rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()).close()
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    script = f"import sys, rocketstore; path = sys.argv[1]; rocketstore.{call}"
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0 or "CorruptFileError" in done.stderr or "OSError" in done.stderr


@pytest.mark.parametrize("what", ["a FIFO", "a link to /dev/zero", "a link to a FIFO"])
def test_a_checkpoint_that_is_no_file_is_refused_and_not_waited_for(what, tmp_path):
    path = tmp_path / "checkpoint"
    hostile_store.SOMETHING_ELSE[what](path)
    script = "import sys, rocketstore; rocketstore.StoreCheckpoint.open(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        preexec_fn=None if hostile.IS_SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 30,) * 2),
    )
    assert "CorruptFileError" in done.stderr or "OSError" in done.stderr


@pytest.mark.parametrize("name", ["09223372036854775807", "09223372036854770000"])
def test_a_log_file_that_ends_beyond_a_long_is_no_reason_for_an_overflow(name, root):
    (root / "commitlog" / name).write_bytes((root / "commitlog" / f"{0:020}").read_bytes())
    with rocketstore.open(root) as store:
        assert "MessageStore" in repr(store)
        assert store.get_message("TopicTest", 0, 0).messages[0].phy_offset == 0


# ---- cut while open ------------------------------------------------------------------------------------------

CUT = """
import faulthandler, os, sys, traceback
import numpy as np
import rocketstore
from rocketstore import StoreError

name, size = sys.argv[2], int(sys.argv[3])
store = rocketstore.open(sys.argv[1])
log = store.commit_log
offsets = [int(at) for batch in log.scan() for at in batch.phy_offset]
queue, batches, ext = store.consume_queue("Crc", 0), store.consume_queue("Batch", 0), store.consume_queue_ext("Ext", 0)
pages = iter(log.scan(batch_size=10))
calls = {
    "scan": lambda: [len(batch) for batch in log.scan(verify_crc=True)],
    "scan and skip": lambda: [len(batch) for batch in log.scan(on_corrupt="skip", threads=2)],
    "a scan that goes on": lambda: [len(batch) for batch in pages],
    "one message": lambda: log.get_message(offsets[1]),
    "one message, if there": lambda: log.find_message(offsets[-1]),
    "get_messages": lambda: log.get_messages(offsets),
    "find_messages": lambda: log.find_messages(np.array(offsets)),
    "query": lambda: store.query_messages("TopicTest", ["K0", "K1", "K2"]).messages,
    "get_message": lambda: [store.get_message(t, q, 0, 100) for t, q in (("Crc", 0), ("Batch", 0), ("TopicTest", 1))],
    "queue": lambda: [list(queue[0:]), len(queue), list(batches[0:]), len(batches), repr(queue), repr(batches)],
    "time": lambda: store.get_offset_by_time("Crc", 1_700_000_009_000),
    "summary": lambda: [repr(store), store.summary(), repr(log)],
}
next(pages)
for call in calls.values():
    call()
path = os.path.join(sys.argv[1], name)
with open(path, "rb") as file:
    data = file.read()
for what, call in calls.items():
    pages = iter(log.scan(batch_size=10))
    next(pages)
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(30, exit=True)
        os.truncate(path, size)
        try:
            call()
        except (StoreError, IndexError):
            pass
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(f"---- {what}", file=sys.stderr, flush=True)
    with open(path, "r+b") as file:
        file.write(data)
"""
CUT_FILES = [f"commitlog/{0:020}", f"commitlog/{27648:020}", f"consumequeue/Crc/0/{0:020}"]
CUT_FILES += [f"batchconsumequeue/Batch/0/{0:020}", "index/20240101000000000"]


@pytest.mark.parametrize("name", CUT_FILES)
@pytest.mark.parametrize(
    ("settled", "size"),
    [
        (False, 0),
        pytest.param(True, 100, marks=pytest.mark.slow),
        pytest.param(True, 0, marks=pytest.mark.slow),
        pytest.param(False, 100, marks=pytest.mark.slow),
    ],
)
def test_a_file_that_is_cut_while_it_is_read_is_an_error_or_an_answer_and_kills_nobody(name, size, settled, tmp_path):
    """Settled: the directories are that old that the list of their files is believed for a second."""
    hostile_store.build(tmp_path / "store")
    for directory, _, _ in os.walk(tmp_path / "store"):
        if settled:
            os.utime(directory, (0, 0))
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CUT, str(tmp_path / "store"), name, str(size)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

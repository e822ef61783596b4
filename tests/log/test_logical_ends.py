"""The ends of log and queues after a clean stop, and beside a running broker: where a broker ends them.

A broker that starts ends the log at the first bytes of its last file that are no record, ends queues before the units
that lead behind that end, and erases neither. What stands behind the ends is left out, counted, and read on request.
"""

import contextlib
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys

import pytest
from reference import consume_queue as cq
from reference.checkpoint import checkpoint_bytes
from reference.message_store import make_store
from reference.record import build_record
from reference.recovery import Broker
from support import cli, damages
from support.cut_store import CQ_FILE, T0, cut_off, forget_checkpoint, offsets_of, set_unit, store_of

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig
from rocketstore.log.record_reader import RecordReader
from rocketstore.queue.queue_end import find_own_end, find_truncated_end

LOG_FILE, BATCH_FILE = 4096, 460
SIZES = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": CQ_FILE,
    "mapper_file_size_batch_consume_queue": BATCH_FILE,
    "max_hash_slot_num": 97,
    "max_index_num": 400,
}
CONFIG = StoreConfig(**SIZES)
BROKER_SIZES = {
    "mappedFileSizeCommitLog": LOG_FILE,
    "mappedFileSizeConsumeQueue": CQ_FILE,
    "mapperFileSizeBatchConsumeQueue": BATCH_FILE,
    "maxHashSlotNum": 97,
    "maxIndexNum": 400,
}
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def rng(request, seed):
    return random.Random(f"{seed} {request.node.name}")


@contextlib.contextmanager
def running(root):
    """A broker runs: its lock is held by another process, and `abort` is there."""
    (root / "lock").write_bytes(b"lock")
    (root / "abort").write_bytes(b"4711")
    command = [sys.executable, "-c", HOLD, str(root / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield
        process.stdin.close()


def bodies(store, **conditions):
    return [message.body for batch in store.scan(columns=["body"], **conditions) for message in batch]


# ---- queues ------------------------------------------------------------------------------------------------


def with_units_beyond(root, count=12, beyond=3):
    """A store whose last records are lost, as a power failure leaves it, and its units are not.

    The checkpoint knows none of them: a broker writes it when the records are on the disk.
    """
    start, position, _ = offsets_of(store_of(root, count))[count - beyond]
    damages.zero_log_from(root, start, position)
    forget_checkpoint(root)
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text(f'{{"offsetTable":{{"T0@billing":{{0:{count - beyond}}}}}}}')
    return start + position


@pytest.mark.parametrize(("count", "beyond"), [(12, 3), (25, 5), (25, 15), (40, 39), (5, 5)])
def test_a_queue_ends_before_its_first_unit_that_leads_behind_the_log(count, beyond, tmp_path):
    end, kept = with_units_beyond(tmp_path, count, beyond), count - beyond
    with rocketstore.open(tmp_path) as store:
        queue = store.consume_queue("T0", 0)
        assert (queue.max_queue_offset, len(queue), queue.leftover_units) == (kept, kept, beyond)
        assert len(queue[:]) == kept
        assert store.commit_log.max_phy_offset == end
        about = store.summary()
        assert (about.messages, about.leftover_units, about.leftover_bytes) == (kept, beyond, 0)
        (lag,) = store.consumer_lag("billing")
        assert (lag.max_offset, lag.lag, lag.problem) == (kept, 0, None)
        assert store.get_offset_by_time("T0", T0 + 10**9, 0) == kept
        status = store.get_message("T0", 0, kept).status
        assert status == ("OFFSET_OVERFLOW_ONE" if kept else "NO_MESSAGE_IN_QUEUE")
        with pytest.raises(IndexError):
            queue[kept]
        assert pickle.loads(pickle.dumps(store)).consume_queue("T0", 0).max_queue_offset == kept
    with rocketstore.open(tmp_path, leftovers=True) as store:
        assert store.consume_queue("T0", 0).max_queue_offset == count
    report = rocketstore.verify(tmp_path, config=CONFIG_OF_LARGE_LOG)
    assert "error" not in {finding.severity for finding in report.findings}
    assert "unit-leftover" in {finding.kind for finding in report.findings}
    assert rocketstore.verify(tmp_path, quick=True, config=CONFIG_OF_LARGE_LOG).ok


CONFIG_OF_LARGE_LOG = StoreConfig(**SIZES | {"mapped_file_size_commit_log": 65536})


def test_the_commands_show_a_queue_without_units_behind_the_log(tmp_path):
    with_units_beyond(tmp_path)
    assert cli.rows(cli.run("ls", tmp_path))[0]["maxOffset"] == 9
    assert cli.rows(cli.run("info", tmp_path))[0]["leftoverUnits"] == 3
    assert cli.rows(cli.run("lag", tmp_path))[0]["lag"] == 0
    assert cli.rows(cli.run("offset", tmp_path, "--topic", "T0", "--time", T0 + 10**9))[0]["queueOffset"] == 9
    cli.assert_one_line(cli.run("get", tmp_path, "T0", 0, 9), "OFFSET_OVERFLOW_ONE", "0 to 8")
    assert cli.rows(cli.run("ls", tmp_path, "--leftovers"))[0]["maxOffset"] == 12


def test_a_batch_queue_ends_before_its_first_unit_that_leads_behind_the_log(tmp_path):
    end = with_units_beyond(tmp_path)
    directory = tmp_path / "batchconsumequeue" / "B" / "0"
    for i in range(12):
        unit = cq.pack_batch_unit(end - 500 + 100 * i, 100, 0, T0, 3 * i, 3)
        set_unit(directory, i, unit, BATCH_FILE)
    with rocketstore.open(tmp_path) as store:
        queue = store.consume_queue("B", 0)
        assert (queue.max_queue_offset, queue.leftover_units) == (15, 7)
    with rocketstore.open(tmp_path, leftovers=True) as store:
        assert store.consume_queue("B", 0).max_queue_offset == 36


def test_units_of_an_older_end_behind_newer_ones_are_left_out_too(tmp_path):
    """Two losses of power: the last unit leads into the log again, one before it does not."""
    end = with_units_beyond(tmp_path, 9)
    directory = tmp_path / "consumequeue" / "T0" / "0"
    for index, offset in ((6, end + 400), (7, end - 10), (8, end - 5)):
        set_unit(directory, index, struct.pack(">qiq", offset, 100, 0))
    with rocketstore.open(tmp_path) as store:
        assert store.consume_queue("T0", 0).max_queue_offset == 6


@pytest.mark.parametrize("lost", ["files", "directory"])
def test_without_the_log_units_are_counted_as_they_are(lost, tmp_path):
    with_units_beyond(tmp_path)
    shutil.rmtree(tmp_path / "commitlog")
    if lost == "files":
        (tmp_path / "commitlog").mkdir()
    with rocketstore.open(tmp_path) as store:
        assert store.consume_queue("T0", 0).max_queue_offset == 12


def test_after_a_crash_units_behind_the_log_are_counted_as_before(tmp_path):
    with_units_beyond(tmp_path)
    (tmp_path / "abort").touch()
    with rocketstore.open(tmp_path) as store:
        assert store.consume_queue("T0", 0).max_queue_offset == 12
        assert (store.summary().leftover_units, store.summary().leftover_bytes) == (None, None)
    findings = rocketstore.verify(tmp_path, config=CONFIG_OF_LARGE_LOG).findings
    assert "unit-beyond-log" in {finding.kind for finding in findings}


def test_a_writer_continues_where_the_queue_ends(tmp_path):
    end = with_units_beyond(tmp_path)
    with rocketstore.open(tmp_path, "a", config=CONFIG_OF_LARGE_LOG) as store:
        put = store.put_message(Message("T0", b"new", queue_id=0))
        assert (put.phy_offset, put.queue_offset) == (end, 9)
    with rocketstore.open(tmp_path) as store:
        assert (store.consume_queue("T0", 0).max_queue_offset, store.summary().leftover_units) == (10, 0)


def test_the_truncated_end_of_random_units_is_the_reference_s(rng):
    for _ in range(300):
        queue, size = cq.Queue(CQ_FILE), rng.choice((1, 9, 10, 11, 35))
        offsets = sorted(rng.randrange(1, 1000) for _ in range(size))
        if rng.random() < 0.5:  # units of an older end stand behind them
            offsets[rng.randrange(size) :] = sorted(rng.randrange(1, 1000) for _ in offsets[rng.randrange(size) :])
        for offset in offsets:
            cq.append(queue, cq.UNIT.pack(offset, 1, 0))
        units = [unit.offset for start in queue.starts for unit in queue.units(start)]
        spans = [(start, start + queue.written(start)) for start in queue.starts]
        log_end = rng.randrange(1, 1100)

        def skip(begin, end, limit, units=units):
            return next((at for at in range(begin, end, 20) if units[at // 20] >= limit), end)

        found = find_truncated_end(spans, log_end, lambda at, units=units: units[at // 20], skip)
        cq.truncate(queue, log_end)
        assert found == (queue.end if queue.files else 0)


def test_the_end_of_a_queue_s_own_units_is_found_in_any_file():
    spans = [(0, 200), (200, 400), (400, 460)]
    for own in range(24):
        assert find_own_end(spans, 20, lambda at, own=own: at < 20 * own) == min(20 * own, 460)


# ---- log ---------------------------------------------------------------------------------------------------


def test_records_that_a_broker_cut_off_are_left_out_and_read_on_request(tmp_path):
    store_of(tmp_path, 30)
    end = cut_off(tmp_path, 10)
    expected = [b"old%03d" % i for i in range(10)] + 2 * [b"n"]
    left = [b"old%03d" % i for i in range(12, 30)]
    with rocketstore.open(tmp_path) as store:
        log = store.commit_log
        assert bodies(store) == bodies(store, threads=2) == expected
        assert log.max_phy_offset == log.look().records_end == end
        assert store.consume_queue("T0", 0).max_queue_offset == 12
        assert store.summary().messages == 12
        assert store.summary().leftover_bytes > 1000
        assert [request.phy_offset for request in store.follow(poll=None)][-1] < end
        assert store.get_phy_offset_by_time(T0 + 10**9) == end
        assert [len(batch) for batch in store.scan(begin_offset=end)] == []
        later = log.reader.find_later(end, 2**62)
        assert store.look_message_by_offset(later) is None
        with pytest.raises(CorruptFileError, match="end of the log"):
            log.get_messages([later])
        found = store.query_messages("T0", ["k5", "k20"])
        assert (found.offsets.tolist(), found.complete.tolist()) == ([0, 1, 1], [True, True])
    with rocketstore.open(tmp_path, leftovers=True) as store:
        assert bodies(store, on_corrupt="skip") == expected + left
        assert store.look_message_by_offset(later).body in left
    shutil.rmtree(tmp_path / "index")  # a broker leaves the items of lost records there
    report = rocketstore.verify(tmp_path, config=CONFIG_OF_LARGE_LOG)
    assert {"log-leftovers", "unit-leftover"} <= {finding.kind for finding in report.findings}
    assert (report.count("error"), report.max_phy_offset, report.messages) == (0, end, 12)


def test_a_cut_after_which_nothing_was_written_is_shown_as_damage(tmp_path):
    store_of(tmp_path, 30)
    end = cut_off(tmp_path, 10, 0)
    with rocketstore.open(tmp_path) as store:
        with pytest.raises(CorruptFileError, match=f"at byte {end}: no message begins here"):
            bodies(store)
        assert bodies(store, on_corrupt="skip") == [b"old%03d" % i for i in range(30) if i != 10]
        assert store.consume_queue("T0", 0).max_queue_offset == 30
        assert store.get_message("T0", 0, 20).messages[0].body == b"old020"
    before = damages.log_files(tmp_path)
    with pytest.raises(CorruptFileError, match="--cut-at-damage"):
        rocketstore.open(tmp_path, "a", config=CONFIG_OF_LARGE_LOG)
    assert damages.log_files(tmp_path) == before


def test_a_cut_behind_damage_ends_the_log(tmp_path):
    """The damage is shown, and the old records behind the cut are left out."""
    store_of(tmp_path, 30)
    end = cut_off(tmp_path, 10)
    start, position, size = offsets_of(tmp_path)[4]
    damages.change_log(tmp_path, start, position, bytes(size))
    with rocketstore.open(tmp_path) as store:
        expected = [b"old%03d" % i for i in range(10) if i != 4] + 2 * [b"n"]
        assert bodies(store, on_corrupt="skip") == bodies(store, on_corrupt="skip", threads=2) == expected
        assert store.commit_log.max_phy_offset == end


def test_the_commands_leave_out_what_a_broker_cut_off_and_say_so(tmp_path):
    store_of(tmp_path / "store", 30)
    cut_off(tmp_path / "store", 10)
    cat = cli.run("cat", tmp_path / "store")
    assert len(cli.rows(cat)) == 12
    assert "Pass --leftovers to read them" in cat.stderr
    assert len(cat.stderr.splitlines()) == 1
    export = cli.run("export", tmp_path / "store", tmp_path / "all.jsonl")
    assert (export.exit_code, len((tmp_path / "all.jsonl").read_text().splitlines())) == (0, 12)
    assert "Pass --leftovers to read them" in export.stderr
    assert cli.rows(cli.run("info", tmp_path / "store"))[0]["messages"] == 12
    shutil.rmtree(tmp_path / "store/index")  # which has items of old records at places of new ones
    assert cli.run("verify", tmp_path / "store").exit_code == 0
    everything = cli.run("cat", tmp_path / "store", "--leftovers")
    assert (everything.exit_code, len(everything.stdout.splitlines())) == (1, 30)


@pytest.mark.parametrize(
    "arguments",
    [
        ["cat"],
        ["info"],
        ["get", "T0", 0, 12],
        ["query", "--topic", "T0", "--key", "k5"],
        ["query", "--since", "2023-01-01"],
    ],
)
@pytest.mark.parametrize("is_running", [False, True], ids=["stopped", "running"])
def test_readers_say_that_records_behind_the_end_are_not_read(is_running, arguments, tmp_path):
    store_of(tmp_path, 30)
    end = cut_off(tmp_path, 10)
    command, *more = arguments
    with running(tmp_path) if is_running else contextlib.nullcontext():
        result = cli.run(command, tmp_path, *more)
    said = f"a broker writes at {end}" if is_running else f"a broker cut the log at {end}"
    assert result.stderr.count(said) == 1
    assert result.stderr.count("not read") == 1
    with running(tmp_path), rocketstore.open(tmp_path) as store:
        assert any(f"a broker writes at {end}" in text for text in store.summary().notes)


def test_info_ends_with_1_if_the_index_has_records_that_were_lost_after_they_were_on_the_disk(tmp_path):
    end = with_units_beyond(tmp_path)
    found = cli.run("info", tmp_path)
    assert found.exit_code == 0
    assert f"sound messages end at byte {end}; a broker keeps items that lead behind the end of the log" in found.stderr
    assert cli.run("verify", tmp_path).exit_code == 0
    for time, offset in [(T0 + 11_000, 0), (T0, end + 8)]:
        (tmp_path / "checkpoint").write_bytes(checkpoint_bytes(time, T0, 0, 0, offset))
        lost = cli.run("info", tmp_path)
        assert lost.exit_code == 1
        assert f"sound messages end at byte {end}: see verify" in lost.stderr
        assert cli.run("verify", tmp_path).exit_code == 1
    forget_checkpoint(tmp_path)
    (tmp_path / "abort").touch()
    assert cli.run("info", tmp_path).exit_code == 1


def test_a_writer_continues_at_the_end_and_saves_the_bytes_behind_it(tmp_path):
    store_of(tmp_path, 30)
    end = cut_off(tmp_path, 10)
    before = damages.log_files(tmp_path)[0]
    with rocketstore.open(tmp_path, "r+", config=CONFIG_OF_LARGE_LOG) as store:
        put = store.put_message(Message("T0", b"after", queue_id=0))
        assert (put.phy_offset, put.queue_offset) == (end, 12)
    with rocketstore.open(tmp_path) as store:
        assert bodies(store)[10:] == [b"n", b"n", b"after"]
        assert (store.summary().leftover_bytes, store.summary().leftover_units) == (0, 0)
    (saved,) = (tmp_path / "rocketstore-cut").iterdir()
    assert saved.read_bytes() == bytes(before[end:]).strip(b"\0") or saved.read_bytes() in bytes(before)
    assert damages.log_files(tmp_path)[0][:end] == before[:end]


@pytest.mark.parametrize("checks", [True, False])
def test_a_body_that_does_not_match_its_crc_does_not_end_the_log(checks, tmp_path):
    """A broker may have cut the log there, but nothing proves it."""
    store_of(tmp_path, 30)
    start, position, _ = offsets_of(tmp_path)[7]
    damages.change_log(tmp_path, start, position + 90, b"#")
    forget_checkpoint(tmp_path)
    config = StoreConfig(check_crc_on_recover=checks)
    with rocketstore.open(tmp_path, config=config) as store:
        assert len(bodies(store, verify_crc=False)) == store.consume_queue("T0", 0).max_queue_offset == 30
    with pytest.raises(CorruptFileError, match="bodyCrc"):
        rocketstore.open(tmp_path, "a", config=CONFIG_OF_LARGE_LOG)


@pytest.mark.parametrize("checkpoint", [lambda root: None, forget_checkpoint], ids=["sound", "zeros"])
def test_damage_after_a_clean_stop_stays_an_error(checkpoint, tmp_path):
    store_of(tmp_path, 30)
    start, position, size = offsets_of(tmp_path)[7]
    damages.change_log(tmp_path, start, position, bytes(size))
    checkpoint(tmp_path)
    with rocketstore.open(tmp_path) as store:
        with pytest.raises(CorruptFileError, match="magic"):
            bodies(store)
        assert len(bodies(store, on_corrupt="skip")) == 29
        assert store.consume_queue("T0", 0).max_queue_offset == 30
    assert not rocketstore.verify(tmp_path, config=CONFIG_OF_LARGE_LOG).ok
    with pytest.raises(CorruptFileError):
        rocketstore.open(tmp_path, "a", config=CONFIG_OF_LARGE_LOG)


def test_damage_in_an_earlier_file_stays_an_error(tmp_path):
    store_of(tmp_path, 60, file_size=LOG_FILE)
    start, position, size = next(place for place in offsets_of(tmp_path) if place[1] > 500)
    assert start == 0
    damages.change_log(tmp_path, start, position, bytes(size))
    forget_checkpoint(tmp_path)
    with rocketstore.open(tmp_path) as store, pytest.raises(CorruptFileError):
        bodies(store)


@pytest.mark.parametrize("compat", ["5.0.0", "5.5.0"])
def test_damage_before_the_last_file_is_no_cut_for_any_release(compat, tmp_path):
    """A release that reads the last three files may end the log in each, but deletes the files behind the end."""
    store_of(tmp_path, 120, file_size=LOG_FILE)
    starts = sorted(damages.log_files(tmp_path))
    start, position, size = next(place for place in offsets_of(tmp_path) if place[0] == starts[-2] and place[1] > 500)
    damages.change_log(tmp_path, start, position, bytes(size))
    forget_checkpoint(tmp_path)
    with rocketstore.open(tmp_path, config=StoreConfig(compat=compat)) as store:
        assert len(bodies(store, on_corrupt="skip")) == 119
        assert store.consume_queue("T0", 0).max_queue_offset == 120
        with pytest.raises(CorruptFileError):
            bodies(store)


def test_a_crash_leaves_damage_an_error(tmp_path):
    store_of(tmp_path, 30)
    cut_off(tmp_path, 10)
    (tmp_path / "abort").touch()
    with rocketstore.open(tmp_path) as store:
        with pytest.raises(CorruptFileError):
            bodies(store)
        assert len(bodies(store, on_corrupt="skip")) == 30


# ---- as a broker's start leaves any store ----------------------------------------------------------------------


@pytest.mark.parametrize("release", ["5.5.0", "5.3.3"])
def test_no_live_record_of_a_store_that_a_broker_restarted_is_hidden(release, tmp_path, rng):
    """The reference's broker starts with a damaged store and is stopped: it leaves all the old bytes."""
    kept = [what for what in damages.DAMAGES if what is not damages.missing_log]
    for number, what in enumerate(kept):
        root = tmp_path / str(number)
        make_store(
            root,
            [
                {
                    "topic": f"T{rng.randrange(3)}",
                    "body": rng.randbytes(rng.randrange(1, 60)),
                    "store_timestamp": T0 + i,
                }
                for i in range(rng.choice((20, 90)))
            ],
            file_size=LOG_FILE,
            cq_file_size=CQ_FILE,
        )
        what(root, rng)
        damages.clean(root, rng)
        broker = Broker(root, BROKER_SIZES, release)
        if not broker.restart():
            continue
        with rocketstore.open(root, config=StoreConfig(compat=release)) as store:
            compare(store, broker, what)


def compare(store, broker, what):
    """Nothing was written after the broker's cut. So all sound records are shown, live and old ones."""
    end = scanned_end(broker)
    found = [offset for batch in store.scan(columns=["phy_offset"], on_corrupt="skip") for offset in batch.phy_offset]
    live = [start + position for start, position, _ in offsets_of(store.path) if start + position < end]
    assert set(live) <= set(found), what
    for (_, topic, queue_id), queue in broker.queues.items():
        if queue.files and not has_phantom(queue):
            assert store.consume_queue(topic, queue_id).max_queue_offset >= queue.max_offset, (what, topic)


def scanned_end(broker):
    return broker.scan(broker.first_file())


def has_phantom(queue):
    """Whether zeros at the beginning of the last file count as a unit, which they do for a broker alone."""
    return not queue.unit(queue.starts[-1]).is_valid


# ---- a running broker --------------------------------------------------------------------------------------------


def test_beside_a_running_broker_log_and_queues_end_where_it_ended_them(tmp_path):
    store_of(tmp_path, 30)
    end = cut_off(tmp_path, 10)
    with running(tmp_path), rocketstore.open(tmp_path) as store:
        assert len(bodies(store)) == 12
        assert store.consume_queue("T0", 0).max_queue_offset == 12
        assert store.commit_log.look().records_end == store.commit_log.max_phy_offset == end
        data = build_record(topic="T0", body=b"n", phy_offset=end, queue_offset=12, store_timestamp=T0 + 20_000)
        damages.change_log(tmp_path, 0, end, data)
        assert store.commit_log.look().records_end == end + len(data)
        assert len(bodies(store)) == 13
        set_unit(tmp_path / "consumequeue" / "T0" / "0", 12, struct.pack(">qiq", end, len(data), 0))
        assert store.consume_queue("T0", 0).max_queue_offset == 13


def test_damage_behind_which_a_running_broker_writes_stays_an_error(tmp_path):
    store_of(tmp_path, 30)
    start, position, size = offsets_of(tmp_path)[7]
    damages.change_log(tmp_path, start, position, bytes(size))
    with running(tmp_path):
        os.utime(tmp_path / "lock", (T0 / 1000 - 60, T0 / 1000 - 60))  # it started before all of these
        os.utime(tmp_path / "commitlog" / f"{0:020}", (T0 / 1000, T0 / 1000))
        with rocketstore.open(tmp_path) as store, pytest.raises(CorruptFileError):
            bodies(store)
        with rocketstore.open(tmp_path) as store:
            assert store.consume_queue("T0", 0).max_queue_offset == 30


def test_old_units_of_an_idle_queue_do_not_come_back_while_the_log_grows_over_them(tmp_path):
    """A broker cut a queue and got messages of another topic since: the old units lead to records of that one."""
    store_of(tmp_path, 24, topics=2)
    start, position, _ = offsets_of(tmp_path)[12]
    damages.zero_log_from(tmp_path, start, position)
    at, index = start + position, 6
    for i in range(20):
        data = build_record(
            topic="T1", body=b"longer than before", phy_offset=at, queue_offset=index + i, store_timestamp=T0 + 50_000
        )
        damages.change_log(tmp_path, 0, at, data)
        set_unit(tmp_path / "consumequeue" / "T1" / "0", index + i, struct.pack(">qiq", at, len(data), 0))
        at += len(data)
    with running(tmp_path), rocketstore.open(tmp_path) as store:
        assert store.consume_queue("T0", 0).max_queue_offset == 6
        assert store.consume_queue("T1", 0).max_queue_offset == 26
        assert store.get_message("T0", 0, 6).status == "OFFSET_OVERFLOW_ONE"


def damage_records(root, numbers):
    places = offsets_of(root)
    for number in numbers:
        start, position, size = places[number]
        damages.change_log(root, start, position, bytes(size))


@pytest.mark.parametrize("numbers", [(0, 28), (8, 14, 28)])
def test_damaged_records_of_a_queue_hide_no_others_beside_a_broker(numbers, tmp_path):
    """The last unit leads to a damaged record, and sound records of another topic follow."""
    store_of(tmp_path, 30, topics=2)
    damage_records(tmp_path, numbers)
    with running(tmp_path):
        os.utime(tmp_path / "lock", (T0 / 1000 - 60, T0 / 1000 - 60))  # it started before all of these
        with rocketstore.open(tmp_path) as store:
            assert [store.consume_queue(f"T{topic}", 0).max_queue_offset for topic in range(2)] == [15, 15]


def test_a_live_store_is_not_read_again_at_each_look(tmp_path):
    store_of(tmp_path, 400)
    with running(tmp_path), rocketstore.open(tmp_path) as store:
        log, queue = store.commit_log, store.consume_queue("T0", 0)
        steps = []
        step = RecordReader.step

        def counted(self, scanner, offset, end, *more):
            following = step(self, scanner, offset, end, *more)
            steps.append(0 if following is None else following[0] - offset)
            return following

        RecordReader.step = counted
        try:
            assert (queue.max_queue_offset, log.max_phy_offset > 0) == (400, True)
            steps.clear()
            assert (queue.max_queue_offset, log.max_phy_offset > 0) == (400, True)
        finally:
            RecordReader.step = step
        assert sum(steps) < 1000


# ---- a remote store ----------------------------------------------------------------------------------------------


def test_the_ends_of_a_remote_store_are_found_without_its_whole_log(tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    with_units_beyond(tmp_path)
    with rocketstore.open(rocketstore.RemotePath(fsspec.filesystem("file"), str(tmp_path))) as store:
        queue = store.consume_queue("T0", 0)
        assert (queue.max_queue_offset, len(queue)) == (9, 9)
        assert len(bodies(store)) == 9
        assert (store.summary().leftover_units, store.summary().leftover_bytes) == (3, 0)


def test_a_remote_log_ends_before_records_that_a_broker_cut_off(tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    store_of(tmp_path, 30)
    end = cut_off(tmp_path, 10)
    with rocketstore.open(rocketstore.RemotePath(fsspec.filesystem("file"), str(tmp_path))) as store:
        assert len(bodies(store)) == 12
        assert store.commit_log.look().records_end == end
    remote = rocketstore.RemotePath(fsspec.filesystem("file"), str(tmp_path))
    with rocketstore.open(remote, leftovers=True) as store:
        assert len(bodies(store, on_corrupt="skip")) == 30


@pytest.mark.parametrize("numbers", [(0, 28), (8, 14, 28)])
def test_damaged_records_of_a_queue_hide_no_others_of_a_remote_store(numbers, tmp_path):
    """Its first and its last unit lead to damaged records."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    store_of(tmp_path, 30, topics=2)
    damage_records(tmp_path, numbers)
    with rocketstore.open(rocketstore.RemotePath(fsspec.filesystem("file"), str(tmp_path))) as store:
        assert [store.consume_queue(f"T{topic}", 0).max_queue_offset for topic in range(2)] == [15, 15]


def test_only_a_reader_takes_leftovers(tmp_path):
    store_of(tmp_path)
    with pytest.raises(ValueError, match="leftovers=True: only mode 'r'"):
        rocketstore.open(tmp_path, "a", leftovers=True)


def test_a_light_queue_ends_before_its_first_unit_that_leads_behind_the_log(tmp_path):
    """Its units lead to records of another topic."""
    store_of(tmp_path, properties={"INNER_MULTI_DISPATCH": "%LMQ%one", "KEYS": "k"})
    directory = tmp_path / "consumequeue" / "%LMQ%one" / "0"
    for index, (start, position, size) in enumerate(offsets_of(tmp_path)):
        set_unit(directory, index, struct.pack(">qiq", start + position, size, 0))
    start, position, _ = offsets_of(tmp_path)[8]
    with running(tmp_path), rocketstore.open(tmp_path) as store:
        assert store.consume_queue("%LMQ%one", 0).max_queue_offset == 12
    (tmp_path / "abort").unlink()
    damages.zero_log_from(tmp_path, start, position)
    with rocketstore.open(tmp_path) as store:
        assert store.consume_queue("%LMQ%one", 0).max_queue_offset == 8

"""A store as a whole: its parts, its queues by name and by time, and the effects of a damaged or foreign part."""

import dataclasses
import errno
import fcntl
import importlib.util
import json
import mmap
import os
import pickle
import random
import resource
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import pytest
from reference import consume_queue
from reference.commit_log import write_file
from reference.message_store import make_store
from reference.queue_reads import BufferUnderflow, get_offset_in_queue_by_time
from reference.record import blank, build_record
from support import stores
from support.times import make_old

import rocketstore
from rocketstore import CorruptFileError

T0 = 1_700_000_000_000
LOG = f"{0:020d}"
READING = {"os.scandir", "os.listdir", "os.walk", "os.fwalk"}


def unpack(name, directory):
    """The golden store, if its bodies can be read here."""
    if name.split("-")[0] in ("rich", "step", "crash", "cut"):
        pytest.importorskip("lz4.frame", reason="needs lz4, from the extra 'codecs'")
        pytest.importorskip("zstandard", reason="needs zstandard, from the extra 'codecs'")
    return stores.unpack(name, directory)


def small_store(root, records=12, **options):
    """Twelve messages of two topics and three queues, a second apart, one config file."""
    make_store(
        root,
        [
            {
                "topic": f"T{n % 2}",
                "queue_id": n % 3,
                "properties": {"KEYS": f"k{n}", "TAGS": "TagA"},
                "store_timestamp": T0 + 1000 * n,
            }
            for n in range(records)
        ],
        **options,
    )
    (root / "config").mkdir()
    (root / "config/topics.json").write_text(
        '{"topicConfigTable":{"T0":{"topicName":"T0","readQueueNums":3,"writeQueueNums":3,"perm":6}}}'
    )
    (root / "config/consumerOffset.json").write_text('{"offsetTable":{"T0@G":{0:1,2:0},"T1@G":{1:2},"Gone@H":{0:7}}}')
    return root


def lag_of(store):
    """The lag of a group, or the problem with its queues."""
    rows = list(store.consumer_lag("G"))
    return [row.problem for row in rows if row.problem] or sum(row.lag for row in rows)


def everything(root):
    """What can be read of a store, by part; an error is its text."""
    with rocketstore.open(root) as store:

        def tried(call):
            try:
                return call()
            except (rocketstore.StoreError, OSError, ValueError, KeyError) as error:
                return error

        return {
            "log": tried(lambda: sum(len(batch) for batch in store.scan(columns=["phy_offset"]))),
            "queue": tried(lambda: len(store.get_message("T0", 0, 0).messages)),
            "other queue": tried(lambda: len(store.get_message("T1", 1, 0).messages)),
            "index": tried(lambda: len(store.query_message("T0", "k0").messages)),
            "checkpoint": tried(lambda: store.checkpoint.physic_msg_timestamp),
            "topics": tried(lambda: sorted(store.topic_configs)),
            "lag": tried(lambda: lag_of(store)),
            "summary": store.summary(),
            "repr": repr(store),
        }


SOUND = {"log": 12, "queue": 2, "other queue": 2, "index": 1, "checkpoint": T0 + 11_000, "topics": ["T0"], "lag": 5}


def parts(found):
    return {name: value for name, value in found.items() if name in SOUND}


def assert_only(root, *broken):
    """All other parts are read as before. The broken part is among the problems and in the repr. Return all answers."""
    found = everything(root)
    assert {name: value for name, value in parts(found).items() if name not in broken} == {
        name: value for name, value in SOUND.items() if name not in broken
    }
    return found


# ---- at a glance -------------------------------------------------------------------------------------------


def test_summary_and_repr_describe_a_store(tmp_path):
    found = assert_only(small_store(tmp_path))
    about = found["summary"]
    assert (about.topics, about.queues, about.messages) == (2, 6, 12)
    assert (about.begin_timestamp, about.end_timestamp) == (T0, T0 + 11_000)
    assert (about.min_phy_offset, about.last_exit_ok, about.problems) == (0, True, [])
    for text in (
        "2 topics, 6 queues, 12 messages",
        f"{about.max_phy_offset:,} bytes of log",
        "2023-11-14 22:13:20.000+00:00 to 2023-11-14 22:13:31.000+00:00",
        f"indexed from 0 to {about.index_end_phy_offset:,}",
        "stopped cleanly",
        str(tmp_path),
    ):
        assert text in found["repr"]


@pytest.mark.parametrize("name", stores.NAMES)
def test_the_summary_of_a_golden_store_is_what_rocketmq_says_of_it(name, tmp_path):
    root = stores.unpack(name, tmp_path)
    reads, dump = stores.reads(name), stores.dump(name)
    (log,) = reads["log"]
    queues = [row for row in reads["queue"] if row["total"]]
    times = [row["storeTimestamp"] for row in dump["message"]]
    with rocketstore.open(root) as store:
        about = store.summary()
        assert (about.min_phy_offset, about.max_phy_offset) == (log["minPhyOffset"], log["maxPhyOffset"])
        assert about.begin_timestamp == log["earliestMessageTime"] == times[0]
        assert about.end_timestamp == times[-1]
        assert about.messages == sum(row["total"] for row in queues)
        assert {(row["topic"], row["queueId"]) for row in queues} <= set(store.queues())
        assert about.last_exit_ok == (not name.startswith("crash"))
        files = [row for row in dump["index"] if row["indexCount"] > 1]
        assert about.index_begin_phy_offset == files[0]["beginPhyOffset"]
        assert about.index_end_phy_offset == files[-1]["endPhyOffset"]
        assert about.problems == []


@pytest.mark.parametrize("name", stores.NAMES)
def test_the_checkpoint_of_a_golden_store_is_rocketmq_s(name, tmp_path):
    """Corners 82 and 83."""
    (row,) = stores.dump(name)["checkpoint"]
    with rocketstore.open(stores.unpack(name, tmp_path)) as store:
        found = store.checkpoint
        assert found.physic_msg_timestamp == row["physicMsgTimestamp"]
        assert found.logics_msg_timestamp == row["logicsMsgTimestamp"]
        assert found.index_msg_timestamp == row["indexMsgTimestamp"]
        assert found.master_flushed_offset == row["masterFlushedOffset"]
        assert found.confirm_phy_offset == row["confirmPhyOffset"]
        assert found.logics_physical_offset == (row["logicsPhysicalOffset"] or 0)


def test_abort_means_running_or_crashed_whatever_is_in_it(tmp_path):
    """Corners 84 and 85."""
    small_store(tmp_path)
    (tmp_path / "abort.bak").write_bytes(b"")  # there after a clean run, too
    with rocketstore.open(tmp_path) as store:
        assert store.last_exit_ok
        (tmp_path / "abort").write_bytes(b"")
        assert not store.last_exit_ok
        assert "crashed" in repr(store)
        assert not store.is_locked


def test_without_a_checkpoint_all_its_numbers_are_0(tmp_path):
    """Corner 81."""
    small_store(tmp_path)
    (tmp_path / "checkpoint").unlink()
    found = assert_only(tmp_path, "checkpoint")
    assert found["checkpoint"] == 0
    assert found["summary"].problems == []


def test_a_checkpoint_of_24_used_bytes_is_read(tmp_path):
    """As 4.9 used them: the newer fields are 0. Corner 82."""
    small_store(tmp_path)
    data = (tmp_path / "checkpoint").read_bytes()
    (tmp_path / "checkpoint").write_bytes(data[:24].ljust(4096, b"\0"))
    found = assert_only(tmp_path)
    assert found["summary"].problems == []
    with rocketstore.open(tmp_path) as store:
        assert (store.checkpoint.confirm_phy_offset, store.checkpoint.logics_physical_offset) == (0, 0)


def test_a_store_without_messages_is_read(tmp_path):
    (tmp_path / "commitlog").mkdir()
    with rocketstore.open(tmp_path) as store:
        assert list(store.queues()) == []
        assert store.index is None
        assert list(store.scan()) == []
        about = store.summary()
        assert (about.topics, about.queues, about.messages, about.begin_timestamp) == (0, 0, 0, None)
        assert "no index" in repr(store)
        assert store.get_phy_offset_by_time(0) == 0


def test_damage_in_the_last_file_hides_no_message_from_a_search_by_time_and_is_a_problem(tmp_path):
    log = make_store(tmp_path, [{"properties": {"KEYS": "k"}, "store_timestamp": T0 + n} for n in range(3)])
    offsets = [offset for offset, _ in log.records]
    with (tmp_path / "commitlog" / LOG).open("r+b") as file:
        file.seek(offsets[1] + 4)
        file.write(b"....")
    with rocketstore.open(tmp_path) as store:
        assert [store.get_phy_offset_by_time(T0 + n) for n in range(3)] == [offsets[0], offsets[2], offsets[2]]
        about = store.summary()
        assert about.max_phy_offset == offsets[1]
        assert f"a message at byte {offsets[2]}, but sound messages end at byte {offsets[1]}" in about.problems[0]


def test_an_index_that_shows_no_geometry_has_the_one_that_its_writer_saved(tmp_path):
    """As that of messages without keys."""
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as store:
        store.put_message(rocketstore.Message("T", b"body"))
    with rocketstore.open(tmp_path) as store:
        assert not store.query_message("T", "k").messages
        assert store.summary().problems == []
    (tmp_path / "config" / "rocketstore.json").unlink()
    with rocketstore.open(tmp_path) as store, pytest.raises(ValueError, match="max_hash_slot_num=N"):
        _ = store.index


def test_an_index_with_a_damaged_item_has_the_geometry_that_its_writer_saved(tmp_path):
    config = dataclasses.replace(rocketstore.StoreConfig.small(), max_hash_slot_num=1000, max_index_num=4000)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        for number in range(100):
            store.put_message(rocketstore.Message("T", b"body", keys=[f"k{number}"]))
    (path,) = (tmp_path / "index").iterdir()
    with path.open("r+b") as file:
        file.seek(40 + 4 * 1000 + 20 * 30)  # item 30
        file.write(b"\xff" * 20)
    with rocketstore.open(tmp_path) as store:
        assert [message.keys for message in store.query_message("T", "k90").messages] == [["k90"]]
        assert store.summary().problems == []
    (tmp_path / "config" / "rocketstore.json").unlink()
    with rocketstore.open(tmp_path) as store, pytest.raises(rocketstore.CorruptFileError, match="no geometry agrees"):
        _ = store.index


def test_a_store_that_is_open_for_writing_says_so_and_a_closed_one_has_no_summary(tmp_path):
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as store:
        assert "open for writing" in repr(store)
    with pytest.raises(rocketstore.StoreClosedError):
        store.summary()


@pytest.mark.parametrize(
    "use",
    [
        rocketstore.open,
        rocketstore.verify,
        rocketstore.recover,
        rocketstore.rebuild,
        lambda path, config: rocketstore.salvage(path, path / "new", config=config),
    ],
)
def test_anything_but_a_configuration_is_refused(tmp_path, use):
    rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()).close()
    with pytest.raises(TypeError, match=r"config={'max_index_num': 5}: a StoreConfig was expected"):
        use(tmp_path, config={"max_index_num": 5})


def test_a_directory_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(rocketstore.StoreError, match="no store"):
        rocketstore.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        rocketstore.open(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        rocketstore.open(tmp_path / "file")
    small_store(tmp_path / "store")
    with pytest.raises(ValueError, match="mode='w'"):
        rocketstore.open(tmp_path / "store", "w")


def test_a_topic_that_cannot_be_listed_is_an_error_and_not_treated_as_missing(tmp_path, monkeypatch):
    scandir = os.scandir

    def refuse(path="."):
        if Path(str(path)).name == "T1":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return scandir(path)

    with rocketstore.open(small_store(tmp_path)) as store:
        monkeypatch.setattr(os, "scandir", refuse)
        for call in (store.queues, lambda: store.get_offset_by_time("T1", T0)):
            with pytest.raises(OSError, match="T1"):
                call()
        assert any("T1" in problem for problem in store.summary().problems)


QUEUES = 300


def read_with_few_descriptors(root):
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    with rocketstore.open(root) as store:
        about = store.summary()
        assert (about.queues, about.messages) == (QUEUES, 3 * QUEUES)
        assert not any("Too many open files" in problem for problem in about.problems)
        assert len(list(store.queues())) == QUEUES
        queues = [store.consume_queue("T", queue_id) for queue_id in range(QUEUES)]
        assert [len(queue[:]) for queue in queues] == [3] * QUEUES
        assert store.get_offset_by_time("T", T0 + 1) == dict.fromkeys(range(QUEUES), 1)


def test_queues_of_more_files_than_a_process_may_open_are_read(tmp_path):
    records = [
        {"topic": "T", "queue_id": queue_id, "store_timestamp": T0 + n} for n in range(3) for queue_id in range(QUEUES)
    ]
    make_store(tmp_path, records, cq_file_size=20)
    assert in_child(read_with_few_descriptors, tmp_path) == 0


def test_a_closed_store_says_so(tmp_path):
    store = rocketstore.open(small_store(tmp_path))
    log, queue, index = store.commit_log, store.consume_queue("T0", 0), store.index
    scan = iter(store.scan(batch_size=1))
    next(scan)
    store.close()
    store.close()
    for call in (
        lambda: store.get_message("T0", 0, 0),
        lambda: store.query_message("T0", "k0"),
        lambda: store.queues(),
        lambda: store.look_message_by_offset(0),
        lambda: list(store.scan()),
        lambda: list(store.consumer_lag()),
        lambda: store.get_offset_by_time("T0", 0),
        lambda: store.get_phy_offset_by_time(0),
        lambda: log.get_message(0),
        lambda: queue[0],
        lambda: index.query_offset("T0", "k0"),
        lambda: next(scan),
    ):
        with pytest.raises(rocketstore.StoreClosedError):
            call()
    assert "closed" in repr(store)


def test_a_store_pickles_as_its_path(tmp_path, monkeypatch):
    small_store(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    with rocketstore.open("store") as store:
        store.get_message("T0", 0, 0)
        data = pickle.dumps(store)
    monkeypatch.chdir("/")
    with pickle.loads(data) as again:
        assert len(again.get_message("T0", 0, 0).messages) == 2


def test_a_store_and_its_files_stay_where_they_were_opened_when_the_process_goes_elsewhere(tmp_path, monkeypatch):
    small_store(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    (name,) = (tmp_path / "store/index").iterdir()
    config = rocketstore.StoreConfig(mapped_file_size_commit_log=65536, max_hash_slot_num=97, max_index_num=400)
    with (
        rocketstore.open("store") as store,
        rocketstore.CommitLog.open("store/commitlog") as log,
        rocketstore.ConsumeQueue.open("store/consumequeue/T0/0") as queue,
        rocketstore.IndexService.open("store/index") as service,
        rocketstore.IndexFile.open(f"store/index/{name.name}") as file,
        rocketstore.open("store", "a", config=config) as writer,
    ):
        monkeypatch.chdir("/")
        assert len(list(store.queues())) == 6
        assert len(store.query_message("T0", "k0").messages) == 1
        assert writer.put_message(rocketstore.Message("T0", b"x", queue_id=0)).queue_offset == 2
        writer.flush()
        assert len(queue[:]) == 3
        for part in (store, log):
            assert sum(map(len, pickle.loads(pickle.dumps(part)).scan())) == 13
        for part in (file, service, queue):
            assert repr(pickle.loads(pickle.dumps(part))) == repr(part)


# ---- parts that are damaged --------------------------------------------------------------------------------


def said(found, text):
    assert any(text in problem for problem in found["summary"].problems), found["summary"].problems
    assert text in found["repr"]


@pytest.mark.parametrize("size", [1, 23])
def test_a_short_checkpoint_is_no_problem_and_all_else_reads(tmp_path, size):
    """A broker fills it with zeros."""
    small_store(tmp_path)
    (tmp_path / "checkpoint").write_bytes(bytes(size))
    found = assert_only(tmp_path, "checkpoint")
    assert found["checkpoint"] == 0
    assert not [problem for problem in found["summary"].problems if "checkpoint" in problem]


def test_a_damaged_index_file_is_reported_and_all_else_reads(tmp_path):
    small_store(tmp_path)
    (path,) = (tmp_path / "index").iterdir()
    path.write_bytes(b"x" * 1000)
    found = assert_only(tmp_path, "index")
    assert isinstance(found["index"], rocketstore.StoreError | ValueError)
    said(found, path.name)
    assert found["summary"].index_end_phy_offset is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"offsetTable":7}', "\0\0"])
def test_a_damaged_configuration_is_reported_and_all_else_reads(tmp_path, text):
    small_store(tmp_path)
    for name in ("topics.json", "consumerOffset.json"):
        (tmp_path / "config" / name).write_text('{"topicConfigTable":7}' if "7" in text and "topics" in name else text)
    make_old(tmp_path)
    found = assert_only(tmp_path, "topics", "lag")
    assert (found["topics"], found["lag"]) == ([], 0)
    said(found, "topics.json")
    said(found, "consumerOffset.json")


def test_a_damaged_configuration_with_a_bak_file_is_read_from_that(tmp_path):
    """RocketMQ deletes the damaged file; here it stays. Corner 108."""
    small_store(tmp_path)
    path = tmp_path / "config/topics.json"
    (tmp_path / "config/topics.json.bak").write_bytes(path.read_bytes())
    path.write_text("{")
    found = assert_only(tmp_path)
    said(found, "topics.json")
    assert path.read_text() == "{"


def test_integer_names_without_quotes_are_read(tmp_path):
    """Corner 107."""
    with rocketstore.open(small_store(tmp_path)) as store:
        assert store.broker_config.consumer_offsets["G"] == {"T0": {0: 1, 2: 0}, "T1": {1: 2}}


def queue_file(root, topic="T0", queue_id=0):
    return root / "consumequeue" / topic / str(queue_id) / LOG


def test_a_queue_whose_file_was_cut_ends_there_and_all_else_reads(tmp_path):
    small_store(tmp_path)
    os.truncate(queue_file(tmp_path), 30)
    found = assert_only(tmp_path, "queue", "lag")
    assert found["queue"] in (0, 1) or isinstance(found["queue"], rocketstore.CorruptFileError)


@pytest.mark.parametrize("data", [b"", b"\xff" * 2000, b"\x7f" * 2000, bytes(2000), b"x" * 7], ids=range(5))
def test_a_damaged_queue_does_not_prevent_the_rest(tmp_path, data):
    small_store(tmp_path)
    queue_file(tmp_path).write_bytes(data)
    found = assert_only(tmp_path, "queue", "lag")
    assert found["queue"] == 0 or isinstance(found["queue"], rocketstore.StoreError)


def test_a_damaged_queue_is_named_and_hides_nothing_of_the_others(tmp_path):
    """Files that do not fit together."""
    small_store(tmp_path)
    (queue_file(tmp_path).parent / f"{7:020d}").write_bytes(bytes(2000))
    found = assert_only(tmp_path, "queue", "lag")
    assert isinstance(found["queue"], rocketstore.CorruptFileError)
    said(found, "consumequeue/T0/0")
    assert found["summary"].messages == 10
    with rocketstore.open(tmp_path) as store:
        bad, *rows = store.consumer_lag("G")
        assert (bad[1:3], bad[4:7]) == (("T0", 0), (None, None, None))
        assert "consumequeue/T0/0" in bad.problem
        assert [(row.lag, row.problem) for row in rows] == [(2, None), (2, None), (0, None)]


def test_a_queue_that_cannot_be_listed_is_named(tmp_path):
    """It is a link to itself."""
    small_store(tmp_path)
    directory = queue_file(tmp_path).parent
    shutil.rmtree(directory)
    directory.symlink_to(directory.name)
    found = assert_only(tmp_path, "queue", "lag")
    assert isinstance(found["repr"], str)


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", "checkpoint", "config"])
def test_a_part_that_is_missing_does_not_prevent_the_others(tmp_path, part):
    small_store(tmp_path)
    path = tmp_path / part
    path.unlink() if part == "checkpoint" else shutil.rmtree(path)
    broken = {
        "commitlog": ("log", "queue", "other queue", "index"),
        "consumequeue": ("queue", "other queue", "lag"),
        "index": ("index",),
        "checkpoint": ("checkpoint",),
        "config": ("topics", "lag"),
    }[part]
    found = assert_only(tmp_path, *broken)
    if part == "commitlog":
        assert all(isinstance(found[name], FileNotFoundError) for name in broken)
        said(found, "commitlog")


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", "checkpoint", "config"])
def test_a_part_that_is_a_file_or_a_directory_by_mistake_does_not_prevent_the_others(tmp_path, part):
    small_store(tmp_path)
    path = tmp_path / part
    if part == "checkpoint":
        path.unlink()
        path.mkdir()
    else:
        shutil.rmtree(path)
        path.write_bytes(b"oops")
    found = everything(tmp_path)
    broken = {"commitlog": {"log", "queue", "other queue", "index"}, "consumequeue": {"queue", "other queue", "lag"}}
    for name, value in parts(found).items():
        if name not in broken.get(part, {part, "topics", "lag"} if part == "config" else {part}):
            assert value == SOUND[name], name
    if part in ("commitlog", "checkpoint"):
        said(found, part)


@pytest.mark.parametrize("part", ["consumequeue", "consumequeue/T0", "consumequeue/T0/0"])
@pytest.mark.parametrize("by", ["nothing", "a file", "a directory"])
def test_queues_that_are_lost_are_a_problem_and_no_empty_queues(part, by, tmp_path):
    small_store(tmp_path)
    (tmp_path / "config/consumerOffset.json").write_text('{"offsetTable":{"T0@G":{0:1}}}')
    shutil.rmtree(tmp_path / part)
    if by == "a file":
        (tmp_path / part).write_bytes(b"oops")
    elif by == "a directory":
        (tmp_path / part / "other").mkdir(parents=True)
    command = f"rocketstore rebuild {tmp_path} --consume-queue"
    no_queues = f"{tmp_path}: the log has messages, but there are no queues: {command} builds them"
    expected = [f"{tmp_path}: queue 0 of topic 'T0' is missing, although it had messages: {command} builds it"]
    if part == "consumequeue":
        expected = [f"{tmp_path / part}: a directory was expected"] * (by == "a file") + [no_queues]
    with rocketstore.open(tmp_path) as store:
        lag = store.consumer_lag()[0]
        if part == "consumequeue/T0/0" and by == "a directory":  # a queue of no unit
            expected = []
            assert lag[4:8] == (0, 0, 0, f"{tmp_path}: T0/0: consumer offset 1 is beyond the queue's end, 0")
        else:
            assert lag[4:7] == (None, None, None)
            no_queue = f"{tmp_path}: there is no queue 0 of topic 'T0': it is lost, or all that was in it has expired"
            assert lag.problem == (no_queues if part == "consumequeue" else no_queue)
        assert store.summary().problems == expected
        assert all(problem in repr(store) for problem in expected)


def test_a_queue_of_the_first_message_of_a_file_of_the_log_is_missed_without_consumers(tmp_path):
    small_store(tmp_path)
    (tmp_path / "config/consumerOffset.json").unlink()
    shutil.rmtree(tmp_path / "consumequeue/T0")
    with rocketstore.open(tmp_path) as store:
        command = f"rocketstore rebuild {tmp_path} --consume-queue"
        assert store.summary().problems == [
            f"{tmp_path}: queue 0 of topic 'T0' is missing, although it had messages: {command} builds it"
        ]


def test_a_file_in_the_place_of_the_index_is_a_problem(tmp_path):
    small_store(tmp_path)
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "index").write_bytes(b"oops")
    with rocketstore.open(tmp_path) as store:
        assert store.summary().problems == [f"{tmp_path / 'index'}: a directory was expected"]


def test_a_missing_directory_of_the_log_is_a_problem_once_it_must_have_had_a_file(tmp_path):
    for files, expected in ((2, []), (4, [f"{tmp_path}/b: this directory of the commit log is missing"])):
        root = tmp_path / str(files)
        make_store(root, [{"body": bytes(1500), "properties": {"KEYS": "k"}} for _ in range(2 * files)], file_size=4096)
        config = rocketstore.StoreConfig(store_path_commit_log=f"{root}/commitlog,{tmp_path}/b,{root}/commitlog/.")
        with rocketstore.open(root, config=config) as store:
            assert store.summary().problems == expected


def test_damage_in_the_middle_of_the_log_is_no_reason_not_to_read_the_rest(tmp_path):
    """RocketMQ would cut all that follows at its next start. Corners 31 and 89."""
    small_store(tmp_path)
    with rocketstore.open(tmp_path) as store:
        offsets = [int(offset) for batch in store.scan(columns=["phy_offset"]) for offset in batch.phy_offset]
    path = tmp_path / "commitlog" / LOG
    data = bytearray(path.read_bytes())
    data[offsets[5] + 4 : offsets[5] + 8] = b"oops"
    path.write_bytes(data)
    with rocketstore.open(tmp_path) as store:
        with pytest.raises(rocketstore.CorruptFileError, match="magic"):
            list(store.scan())
        scan = store.scan(on_corrupt="skip")
        assert sum(len(batch) for batch in scan) == 11
        assert [part[:2] for part in scan.skipped] == [(offsets[5], offsets[6])]
        assert len(store.query_message("T0", "k10").messages) == 1
        assert store.query_message("T1", "k5").messages.phy_offset.tolist() == []
        assert store.look_message_by_offset(offsets[6]).keys == ["k6"]
        assert isinstance(repr(store), str)


# ---- damaged databases -------------------------------------------------------------------------------------


BAD_DATABASE = CorruptFileError if importlib.util.find_spec("rocksdict") else rocketstore.UnsupportedFormatError


def test_queues_in_rocksdb_are_named_and_the_rest_reads(tmp_path):
    for number, name in enumerate(("consumequeue", "consumequeue_rocksdb")):
        root = small_store(tmp_path / str(number))
        shutil.rmtree(root / "consumequeue")
        (root / name).mkdir()
        (root / name / "CURRENT").write_text("MANIFEST-000004\n")
        (root / name / "000012.sst").write_bytes(b"x")
        found = assert_only(root, "queue", "other queue", "lag")
        for part in ("queue", "other queue"):
            assert isinstance(found[part], BAD_DATABASE)
            assert "RocksDB" in str(found[part])
        assert all("RocksDB" in problem for problem in found["lag"])
        assert len(found["lag"]) == 3
        said(found, "RocksDB")
        assert found["summary"][:3] == (None, None, None)
        assert "topics" not in found["repr"]
        with rocketstore.open(root) as store:
            with pytest.raises(BAD_DATABASE, match=name):
                store.queues()
            with pytest.raises(BAD_DATABASE, match=name):
                store.get_offset_by_time("T0", 0)


def test_queues_in_files_and_in_rocksdb_are_read_from_the_files(tmp_path):
    """rocksdbCQDoubleWriteEnable: both are written."""
    small_store(tmp_path)
    (tmp_path / "consumequeue_rocksdb").mkdir()
    (tmp_path / "consumequeue_rocksdb/CURRENT").write_text("MANIFEST-000004\n")
    found = assert_only(tmp_path)
    assert found["summary"].problems == []


def test_the_empty_rocksdb_of_every_5_5_0_store_is_no_index(tmp_path):
    small_store(tmp_path)
    (tmp_path / "rocksdbstore").mkdir()
    for name, size in (("CURRENT", 16), ("000004.log", 0), ("OPTIONS-000007", 99), ("MANIFEST-000005", 200)):
        (tmp_path / "rocksdbstore" / name).write_bytes(bytes(size))
    assert_only(tmp_path)
    shutil.rmtree(tmp_path / "index")
    found = assert_only(tmp_path, "index")
    assert found["index"] == 0
    with rocketstore.open(tmp_path) as store:
        assert store.query_message("T0", "k0").reasons == ["the store has no index"]


@pytest.mark.parametrize("name", ["MANIFEST-000005", "000004.log"])
@pytest.mark.parametrize("other_file", [False, True])
def test_an_index_in_rocksdb_is_named_and_the_rest_reads(other_file, tmp_path, name):
    """The last key of an index is in the manifest, or in the log of what no table has yet."""
    small_store(tmp_path)
    shutil.rmtree(tmp_path / "index")
    if other_file:
        (tmp_path / "index").mkdir()
        (tmp_path / "index/notes.txt").touch()
    (tmp_path / "rocksdbstore").mkdir()
    (tmp_path / "rocksdbstore/CURRENT").write_text("MANIFEST-000005\n")
    (tmp_path / "rocksdbstore/000009.sst").write_bytes(b"data")
    (tmp_path / "rocksdbstore" / name).write_bytes(b"....lastStoreTimeStamp....")
    found = assert_only(tmp_path, "index")
    assert isinstance(found["index"], BAD_DATABASE)
    said(found, "RocksDB")


def test_timers_and_transactions_in_rocksdb_are_no_index(tmp_path):
    small_store(tmp_path)
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "rocksdbstore").mkdir()
    files = {"CURRENT": b"x", "000013.sst": b"timer", "MANIFEST-000005": b"lastOffsetPy", "000012.log": b"lastOffsetPy"}
    for name, data in files.items():
        (tmp_path / "rocksdbstore" / name).write_bytes(data)
    with rocketstore.open(tmp_path) as store:
        assert store.index is None
        assert store.query_message("T0", "k0").reasons == ["the store has no index"]


def test_a_log_of_dledger_that_is_missing_is_named_and_no_older_log_read(tmp_path):
    small_store(tmp_path)
    (tmp_path / "broker.conf").write_text("enableDLegerCommitLog=true\nstorePathDLedgerCommitLog=/elsewhere\n")
    config = rocketstore.StoreConfig.from_broker_conf(tmp_path / "broker.conf")
    for _ in range(2):
        with rocketstore.open(tmp_path, config=config) as store:
            with pytest.raises(FileNotFoundError, match="DLedger"):
                store.scan()
            assert len(list(store.queues())) == 6
        shutil.rmtree(tmp_path / "commitlog", ignore_errors=True)


# ---- queues by name ----------------------------------------------------------------------------------------

LEGAL = ["T", "%RETRY%g", "%DLQ%g", "x" * 255, "订单" * 40, "a b", ".hidden", "a\\b", "-1", "T\n", "é", "\U0001f600"]
ILLEGAL = ["", ".", "..", "a/b", "../outside", "/etc", "\0", "a\0b", "T/0/.."]
ILLEGAL += ["x" * 256, "订" * 86, "x" * 5000, "\ud800"]


@pytest.mark.parametrize("topic", LEGAL, ids=repr)
def test_a_topic_of_any_legal_name_is_read(tmp_path, topic):
    make_store(tmp_path, [{"topic": "T"}])
    if topic != "T":
        shutil.copytree(tmp_path / "consumequeue/T", tmp_path / "consumequeue" / topic)
    with rocketstore.open(tmp_path) as store:
        assert (topic, 0) in store.queues()
        assert len(store.get_message(topic, 0, 0, limits="broker").messages) == 1  # the record has another topic
        assert store.get_offset_by_time(topic, 0) == {0: 0}
        assert store.consume_queue(topic, 0).topic == topic
        assert store.summary().messages == 1 + (topic != "T")


@pytest.mark.filterwarnings("ignore:.*there is no queue of topic")
@pytest.mark.parametrize("topic", ILLEGAL, ids=lambda topic: repr(topic[:20]))
def test_a_topic_that_cannot_be_the_name_of_a_directory_has_no_queue(tmp_path, topic, monkeypatch):
    """Nothing outside the store is as much as looked at."""
    root = small_store(tmp_path / "store")
    for outside in (tmp_path / "outside", root / "outside"):
        shutil.copytree(root / "consumequeue/T0", outside)
    looked_at = []

    def watched(real):
        def call(path=".", *args, **options):
            looked_at.append(path)
            return real(path, *args, **options)

        return call

    with rocketstore.open(root) as store:
        for name in ("scandir", "open", "stat", "listdir", "lstat"):
            monkeypatch.setattr(os, name, watched(getattr(os, name)))
        assert store.get_message(topic, 0, 0).status == "NO_MATCHED_LOGIC_QUEUE"
        for call in (store.consume_queue, store.consume_queue_ext):
            with pytest.raises(KeyError):
                call(topic, 0)
        with pytest.raises(KeyError):
            store.get_offset_by_time(topic, 0)
        with pytest.raises(KeyError):
            store.get_offset_by_time(topic, 0, 0)
        assert len(store.query_message(topic, "k0").messages) == 0
        monkeypatch.undo()
    inside = os.path.realpath(root)
    assert looked_at
    for path in looked_at:
        if isinstance(path, str | os.PathLike):
            assert os.path.realpath(path).startswith(inside)
            assert "outside" not in str(path)


def test_a_queue_id_is_a_number_and_never_a_path(tmp_path):
    small_store(tmp_path)
    with rocketstore.open(tmp_path) as store:
        for queue_id in ("../../T1/0", "0", "", None, 0.0, b"0"):
            with pytest.raises((TypeError, KeyError)):
                store.consume_queue("T0", queue_id)
        for queue_id in (-1, 3, 2**31, 2**63, -(2**63)):
            with pytest.raises(KeyError, match=str(queue_id)):
                store.consume_queue("T0", queue_id)


def test_directories_that_are_no_number_are_no_queues(tmp_path):
    """Corner 51."""
    small_store(tmp_path)
    source = tmp_path / "consumequeue/T0/0"
    for name in ("abc", "1x", "0x1", "1.0", "2147483648", "-2147483649", " 1", "\uff11", "--1", "+", "-"):
        shutil.copytree(source, tmp_path / "consumequeue/T0" / name)
    with rocketstore.open(tmp_path) as store:
        assert list(store.queues()) == [(topic, queue) for topic in ("T0", "T1") for queue in range(3)]
        assert store.summary().messages == 12


def test_a_directory_minus_1_is_queue_minus_1(tmp_path):
    """Corner 51."""
    small_store(tmp_path)
    for name in ("-1", "-2147483648", "2147483647"):
        shutil.copytree(tmp_path / "consumequeue/T0/0", tmp_path / "consumequeue/T0" / name)
    with rocketstore.open(tmp_path) as store:
        for queue_id in (-1, -(2**31), 2**31 - 1):
            assert ("T0", queue_id) in store.queues()
            assert len(store.get_message("T0", queue_id, 0, limits="broker")) == 2  # records of queue 0
            assert len(store.get_message("T0", queue_id, 0)) == 0
        assert len(store.get_offset_by_time("T0", 0)) == 6


@pytest.mark.parametrize("name", ["+3", "03", "-0", "007", "+0"])
def test_a_directory_whose_number_is_written_otherwise_does_no_harm(tmp_path, name):
    """Java reads the number, and then looks into the directory of the usual name."""
    small_store(tmp_path)
    shutil.copytree(tmp_path / "consumequeue/T0/0", tmp_path / "consumequeue/T0" / name)
    with rocketstore.open(tmp_path) as store:
        queues = list(store.queues())
        assert len(set(queues)) == len(queues)
        for topic, queue_id in queues:
            assert len(store.get_message(topic, queue_id, 0).messages) in (0, 2)
            assert store.get_offset_by_time(topic, 0)[queue_id] == 0
        assert store.summary().messages == 12
        assert "12 messages" in repr(store)


def test_files_directly_under_consumequeue_are_skipped(tmp_path):
    small_store(tmp_path)
    for name in ("T9", LOG, "LOCK"):
        (tmp_path / "consumequeue" / name).write_bytes(bytes(2000))
    (tmp_path / "consumequeue/T0/5").write_bytes(bytes(2000))
    (tmp_path / "consumequeue/Empty").mkdir()
    (tmp_path / "consumequeue/T0/0/note").write_bytes(b"hello")
    found = assert_only(tmp_path)
    assert (found["summary"].queues, found["summary"].problems) == (6, [])
    with rocketstore.open(tmp_path) as store:
        for topic, queue_id in (("T9", 0), ("T0", 5), ("Empty", 0), (LOG, 0)):
            assert store.get_message(topic, queue_id, 0).status == "NO_MATCHED_LOGIC_QUEUE"


def test_a_topic_whose_name_is_no_utf_8_is_listed(tmp_path):
    small_store(tmp_path)
    shutil.copytree(os.fsencode(tmp_path / "consumequeue/T0"), os.fsencode(tmp_path / "consumequeue") + b"/\xff\xfe")
    with rocketstore.open(tmp_path) as store:
        topic = os.fsdecode(b"\xff\xfe")
        assert (topic, 0) in store.queues()
        assert len(store.get_message(topic, 0, 0, limits="broker").messages) == 2  # the records have another topic
        assert store.summary().queues == 9
        repr(store).encode()


def open_files():
    """The number of them; 0 where the system does not tell."""
    directory = Path("/proc/self/fd")
    return len(list(directory.iterdir())) if directory.exists() else 0


def test_many_queues_are_read_with_few_files_open(tmp_path):
    make_store(tmp_path, [{"queue_id": n} for n in range(600)], file_size=1 << 18, cq_file_size=200)
    with rocketstore.open(tmp_path) as store:
        before = open_files()
        held = store.consume_queue("TopicTest", 0)
        for topic, queue_id in store.queues():
            assert store.consume_queue(topic, queue_id).max_queue_offset == 1
        assert open_files() - before <= 260
        assert held[0].queue_offset == 0
        assert store.summary().messages == 600


# ---- times -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", stores.NAMES)
def test_every_time_is_found_where_rocketmq_finds_it(name, tmp_path):
    with rocketstore.open(stores.unpack(name, tmp_path)) as store:
        existing = set(store.queues())
        asked = 0
        for row in stores.reads(name)["time"]:
            queue = row["topic"], row["queueId"]
            for boundary in ("lower", "upper"):
                if queue not in existing:
                    assert row[boundary] == 0
                    with pytest.raises(KeyError):
                        store.get_offset_by_time(queue[0], row["timestamp"], queue[1], boundary)
                    continue
                found = store.get_offset_by_time(queue[0], row["timestamp"], queue[1], boundary)
                if row[boundary] == "BufferUnderflowException":  # of a queue that has expired: there is one answer
                    assert found == store.consume_queue(*queue).max_queue_offset
                else:
                    assert found == row[boundary], row
                asked += 1
        assert asked > 100


@pytest.mark.parametrize("name", stores.NAMES)
def test_the_log_by_time_is_the_first_record_of_that_time_or_later(name, tmp_path):
    rows = stores.dump(name)["message"]
    times = sorted({row["storeTimestamp"] for row in rows})
    (log,) = stores.reads(name)["log"]
    with rocketstore.open(stores.unpack(name, tmp_path)) as store:
        asked = {time + step for time in times[:: max(len(times) // 15, 1)] + times[-2:] for step in (-1, 0, 1)}
        for timestamp in [*sorted(asked), 0, -1, 2**63 - 1]:
            later = (row["physicalOffset"] for row in rows if row["storeTimestamp"] >= timestamp)
            assert store.get_phy_offset_by_time(timestamp) == next(later, log["maxPhyOffset"]), timestamp


def test_by_time_of_all_queues_of_a_topic(tmp_path):
    with rocketstore.open(small_store(tmp_path)) as store:
        assert store.get_offset_by_time("T0", T0) == {0: 0, 1: 0, 2: 0}
        assert store.get_offset_by_time("T0", T0 + 5000) == {0: 1, 1: 1, 2: 1}
        assert store.get_offset_by_time("T0", T0 + 60_000) == {0: 2, 1: 2, 2: 2}
        assert store.get_offset_by_time("T0", T0 + 60_000, boundary="upper") == {0: 1, 1: 1, 2: 1}
        with pytest.raises(KeyError, match="Nope"):
            store.get_offset_by_time("Nope", 0)
        with pytest.raises(KeyError):
            store.get_offset_by_time("T0", 0, 9)
        with pytest.raises(ValueError, match="boundary"):
            store.get_offset_by_time("T0", 0, 0, "middle")


def by_time(root, *times):
    make_store(root, [{"store_timestamp": T0 + time} for time in times], cq_file_size=200)
    return rocketstore.open(root)


def watch_queue_lists(monkeypatch):
    """Return a list that gets the name of ``consumequeue``, or of a directory in it, when this directory is listed."""
    listed, scandir = [], os.scandir

    def watch(path="."):
        if "consumequeue" in Path(str(path)).parts[-2:]:
            listed.append(Path(str(path)).name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watch)
    return listed


def test_by_time_of_a_topic_no_other_topic_is_looked_at(tmp_path, monkeypatch):
    with rocketstore.open(small_store(tmp_path)) as store:
        expected = {queue_id: store.get_offset_by_time("T1", T0 + 6000, queue_id) for queue_id in range(3)}
        listed = watch_queue_lists(monkeypatch)
        assert store.get_offset_by_time("T1", T0 + 6000) == expected
        assert set(listed) == {"T1"}
        for topic in ("T", "", "..", "../consumequeue/T1", "T1/0", "\0"):
            with pytest.raises(KeyError, match="there is no queue of topic"):
                store.get_offset_by_time(topic, T0)


def test_by_time_before_the_first_message_and_behind_the_last(tmp_path):
    """Corner 105."""
    with by_time(tmp_path, 0, 10, 20) as store:
        for timestamp, lower, upper in ((T0 - 1, 0, 0), (T0 + 21, 3, 2), (2**63 - 1, 3, 2), (-1, 0, 0)):
            assert store.get_offset_by_time("TopicTest", timestamp, 0, "lower") == lower
            assert store.get_offset_by_time("TopicTest", timestamp, 0, "upper") == upper


def test_a_time_is_no_float(tmp_path):
    with by_time(tmp_path, 0, 10, 20) as store:
        for timestamp in (T0 + 0.5, None):
            with pytest.raises(TypeError, match="timestamp="):
                store.get_offset_by_time("TopicTest", timestamp, 0)
            with pytest.raises(TypeError, match="timestamp="):
                store.get_phy_offset_by_time(timestamp)


def test_by_time_in_a_gap_upper_is_the_one_before_lower(tmp_path):
    """Corner 106."""
    with by_time(tmp_path, 0, 10, 20) as store:
        assert store.get_offset_by_time("TopicTest", T0 + 15, 0, "lower") == 2
        assert store.get_offset_by_time("TopicTest", T0 + 15, 0, "upper") == 1


def test_by_time_among_equal_times_the_first_and_the_last_of_them(tmp_path):
    with by_time(tmp_path, 0, 10, 10, 10, 20) as store:
        assert store.get_offset_by_time("TopicTest", T0 + 10, 0, "lower") == 1
        assert store.get_offset_by_time("TopicTest", T0 + 10, 0, "upper") == 3


def test_by_time_of_random_queues_is_the_oracle_s(tmp_path, seed):
    rng = random.Random(seed)
    for number in range(6):
        times = sorted(rng.choices(range(0, 400, 5), k=rng.choice([1, 9, 10, 35])))
        if number % 3 == 2:
            rng.shuffle(times)  # clocks go back
        root = tmp_path / str(number)
        log = make_store(root, [{"store_timestamp": T0 + time} for time in times], cq_file_size=200)
        queue = consume_queue.load(root / "consumequeue/TopicTest/0", 200)
        consume_queue.correct_min_offset(queue, log.min_offset)
        with rocketstore.open(root) as store:
            for time in range(-5, 410, 5):
                for boundary in ("lower", "upper"):
                    try:
                        expected = get_offset_in_queue_by_time(queue, log, T0 + time, boundary)
                    except BufferUnderflow:
                        continue
                    assert store.get_offset_by_time("TopicTest", T0 + time, 0, boundary) == expected, (times, time)


# ---- lag ---------------------------------------------------------------------------------------------------


def test_consumer_lag_is_what_a_group_has_not_consumed_yet(tmp_path):
    with rocketstore.open(small_store(tmp_path)) as store:
        rows = list(store.consumer_lag())
        asked = [("G", "T0", 0, 1), ("G", "T0", 1, 0), ("G", "T0", 2, 0), ("G", "T1", 1, 2), ("H", "Gone", 0, 7)]
        assert [row[:4] for row in rows] == asked
        assert [row[5:7] for row in rows] == [(2, 1), (2, 2), (2, 2), (2, 0), (0, 0)]
        assert {row.problem for row in rows} == {None}
        assert [row.topic_exists for row in rows] == [True, True, True, True, False]
        assert list(store.consumer_lag("H")) == rows[4:]
        with pytest.warns(UserWarning, match="no group 'Nobody' in consumerOffset.json"):
            assert list(store.consumer_lag("Nobody")) == []


def test_lag_is_of_what_a_group_has_consumed_by_now(tmp_path):
    path = small_store(tmp_path) / "config/consumerOffset.json"
    with rocketstore.open(tmp_path) as store:
        for offset in (0, 2):
            path.write_text(json.dumps({"offsetTable": {"T0@G": {"0": offset}}}))
            assert [row.lag for row in store.consumer_lag()] == [2 - offset, 2, 2]


def test_lag_has_the_read_queues_that_a_group_never_committed(tmp_path):
    """As a broker's answer to GET_CONSUME_STATS: they count from 0, and no consumer reads the others."""
    small_store(tmp_path)
    (tmp_path / "config/consumerOffset.json").write_text('{"offsetTable":{"T0@G":{2:1},"T0@H":{},"T1@G":{0:1}}}')
    topics = '{"topicConfigTable":{"T0":{"topicName":"T0","readQueueNums":2},"T1":{"topicName":"T1"}}}'
    (tmp_path / "config/topics.json").write_text(topics)
    with rocketstore.open(tmp_path) as store:
        rows = [(*row[:4], row.lag) for row in store.consumer_lag()]
    assert rows == [
        ("G", "T0", 0, 0, 2),
        ("G", "T0", 1, 0, 2),
        ("G", "T1", 0, 1, 1),
        ("G", "T1", 1, 0, 2),
        ("G", "T1", 2, 0, 2),
        ("H", "T0", 0, 0, 2),
        ("H", "T0", 1, 0, 2),
    ]


def test_a_number_of_read_queues_without_queues_costs_no_row(tmp_path):
    small_store(tmp_path)
    topics = '{"topicConfigTable":{"T0":{"topicName":"T0","readQueueNums":2147483647}}}'
    (tmp_path / "config/topics.json").write_text(topics)
    with rocketstore.open(tmp_path) as store:
        assert [row.queue_id for row in store.consumer_lag("G") if row.topic == "T0"] == [0, 1, 2]


def test_lag_of_offsets_that_cannot_be_is_never_negative(tmp_path):
    small_store(tmp_path)
    table = {"T0@G": {"0": 100, "1": -1, "-7": 0}, "..@G": {"0": 0}, "a/b@G": {"0": 0}, "@G": {"0": 0}, "T0": {"0": 0}}
    (tmp_path / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    with rocketstore.open(tmp_path) as store:
        for row in store.consumer_lag():
            assert row.lag >= 0
            assert row.max_offset == (2 if row.topic == "T0" and row.queue_id >= 0 else 0)


def test_consumers_beyond_the_end_of_a_queue_and_of_a_queue_that_is_lost_are_problems(tmp_path):
    small_store(tmp_path)
    (tmp_path / "config/consumerOffset.json").write_text('{"offsetTable":{"T0@G":{0:3,1:1,2:0},"Gone@G":{0:7}}}')
    for queue in "12":
        shutil.rmtree(tmp_path / "consumequeue/T0" / queue)
    with rocketstore.open(tmp_path) as store:
        rows = list(store.consumer_lag())
        assert [row[1:7] for row in rows] == [
            ("Gone", 0, 7, 0, 0, 0),  # of a topic that is not in topics.json: it was deleted
            ("T0", 0, 3, 0, 2, 0),
            ("T0", 1, 1, None, None, None),
            ("T0", 2, 0, 0, 0, 0),  # perhaps a queue without messages
        ]
        assert [row.problem for row in rows] == [
            None,
            f"{tmp_path}: T0/0: consumer offset 3 is beyond the queue's end, 2",
            f"{tmp_path}: there is no queue 1 of topic 'T0': it is lost, or all that was in it has expired",
            None,
        ]
        command = f"rocketstore rebuild {tmp_path} --consume-queue"
        assert store.summary().problems == [
            f"{tmp_path}: queue 1 of topic 'T0' is missing, although it had messages: {command} builds it"
        ]


def test_a_queue_that_is_deleted_while_the_store_is_open_is_no_more(tmp_path):
    """As a broker does with the queues of a topic that is deleted."""
    with rocketstore.open(small_store(tmp_path)) as store:
        assert len(store.get_message("T0", 0, 0).messages) == 2
        shutil.rmtree(tmp_path / "consumequeue/T0")
        (tmp_path / "config/topics.json").write_text('{"topicConfigTable":{}}')
        assert store.get_message("T0", 0, 0).status == "NO_MATCHED_LOGIC_QUEUE"
        assert store.get_message("T0", 1, 0).status == "NO_MATCHED_LOGIC_QUEUE"
        assert list(store.queues()) == [("T1", 0), ("T1", 1), ("T1", 2)]
        assert [row.max_offset for row in store.consumer_lag("G")] == [0, 0, 2]
        assert (store.summary().messages, store.summary().problems) == (6, [])


def test_a_queue_that_is_not_there_is_not_looked_for_in_every_directory(monkeypatch, tmp_path):
    """Else the lag of n groups on n queues that are gone would list n directories n times."""
    small_store(tmp_path)
    for number in range(100):
        (tmp_path / f"consumequeue/More{number}/0").mkdir(parents=True)
    listed = watch_queue_lists(monkeypatch)
    with rocketstore.open(tmp_path) as store:
        assert store.get_message("Gone", 0, 0).status == "NO_MATCHED_LOGIC_QUEUE"
    assert len(listed) < 10


def test_a_queue_of_no_unit_stays_open(tmp_path):
    small_store(tmp_path)
    (tmp_path / "consumequeue/T0/7").mkdir()
    with rocketstore.open(tmp_path) as store:
        queue = store.consume_queue("T0", 7)
        assert len(queue) == 0
        assert store.consume_queue("T0", 7) is queue


# ---- recovery's cases, as they are found -------------------------------------------------------------------


def test_a_log_whose_last_file_is_empty_is_read(tmp_path):
    """Corner 86."""
    small_store(tmp_path)
    (tmp_path / "commitlog" / f"{65536:020d}").write_bytes(b"")
    found = assert_only(tmp_path)
    assert found["summary"].problems == []
    assert (tmp_path / "commitlog" / f"{65536:020d}").exists()


def test_a_file_made_ahead_is_no_part_of_the_log(tmp_path):
    """Corner 87."""
    small_store(tmp_path)
    (tmp_path / "commitlog" / f"{65536:020d}").write_bytes(bytes(65536))
    end = rocketstore.open(tmp_path).commit_log.max_phy_offset
    assert end < 65536
    assert assert_only(tmp_path)["summary"].max_phy_offset == end


def test_a_file_that_is_a_blank_alone_is_read_over(tmp_path):
    """Corners 13 and 88."""
    make_store(tmp_path, [{}], file_size=4096)
    with rocketstore.open(tmp_path) as store:
        first = store.look_message_by_offset(0)
    for start, data in (
        (0, build_record(phy_offset=0) + blank(4096 - first.size)),
        (4096, blank(4096)),
        (8192, build_record(phy_offset=8192, queue_offset=1).ljust(4096, b"\0")),
    ):
        write_file(tmp_path / "commitlog", start, data)
    with rocketstore.open(tmp_path) as store:
        assert [int(offset) for batch in store.scan() for offset in batch.phy_offset] == [0, 8192]
        assert store.commit_log.max_phy_offset == 8192 + first.size
        assert store.look_message_by_offset(4096) is None
        assert store.get_phy_offset_by_time(2**62) == store.commit_log.max_phy_offset


def test_units_beyond_the_log_are_behind_the_end_of_the_queue(tmp_path):
    """Corner 45."""
    small_store(tmp_path)
    path = queue_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[40:60] = consume_queue.UNIT.pack(60_000, 100, 0)
    path.write_bytes(data)
    with rocketstore.open(tmp_path) as store:
        assert store.consume_queue("T0", 0).max_queue_offset == 2
        found = store.get_message("T0", 0, 0)
        assert (found.status, len(found.messages), found.next_begin_offset) == ("FOUND", 2, 2)
        assert store.get_message("T0", 0, 2).status == "OFFSET_OVERFLOW_ONE"
    with rocketstore.open(tmp_path, leftovers=True) as store:
        assert store.consume_queue("T0", 0).max_queue_offset == 3
        assert store.get_message("T0", 0, 2).status == "MESSAGE_WAS_REMOVING"


def test_a_missing_file_of_the_log_is_named_and_the_files_around_it_are_read(tmp_path):
    """Corners 95 and 97."""
    small_store(tmp_path, 60, file_size=2048)
    names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    assert len(names) > 3
    (tmp_path / "commitlog" / names[1]).unlink()
    with rocketstore.open(tmp_path) as store:
        with pytest.raises(rocketstore.CorruptFileError, match="a file is missing"):
            list(store.scan())
        scan = store.scan(on_corrupt="skip")
        there = sum(len(batch) for batch in scan)
        assert there < 60
        assert len(scan.skipped) == 1
        assert store.look_message_by_offset(2048) is None
        (problem,) = store.summary().problems
        assert "there is nothing from 2048 to 4096: a file is missing" in problem
        assert sum(len(store.get_message(*queue, 0, 100).messages) for queue in store.queues()) == there


def test_two_directories_of_one_log_are_read_as_one(tmp_path):  # corner 98: of two files of one name, one counts
    """Corner 98."""
    small_store(tmp_path, 60, file_size=2048)
    names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    other = tmp_path / "disk 2"
    other.mkdir()
    for name in names[1::2]:
        (tmp_path / "commitlog" / name).rename(other / name)
    shutil.copy(tmp_path / "commitlog" / names[0], other / names[0])
    config = rocketstore.StoreConfig(store_path_commit_log=f"{tmp_path / 'commitlog'},{other}")
    with rocketstore.open(tmp_path, config=config) as store:
        assert sum(len(batch) for batch in store.scan()) == 60
        assert len(store.get_message("T1", 1, 0).messages) == 10


def test_the_summary_and_every_repr_of_a_store_that_is_gone_say_so(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(small_store(root)) as store:
        log, queue = store.commit_log, store.consume_queue("T0", 0)
        shutil.rmtree(root)
        assert str(root) in " ".join(store.summary().problems)
        for part in (store, log, queue):
            assert "No such file or directory" in repr(part)


def test_messages_are_there_without_their_queues(tmp_path):
    """Corner 93."""
    small_store(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    found = assert_only(tmp_path, "queue", "other queue", "lag")
    assert (found["queue"], found["other queue"], found["summary"].queues) == (0, 0, 0)


# ---- reading changes nothing -------------------------------------------------------------------------------


def stats(root):
    return {
        path: (path.stat().st_mode, path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_ctime_ns)
        for path in sorted(root.rglob("*"))
    }


def read_all(root):
    """Use everything that reads."""
    with rocketstore.open(root) as store:
        repr(store)
        store.summary()
        for threads in (1, 2):
            list(store.scan(verify_crc=True, threads=threads, on_corrupt="skip"))
        queues = list(store.queues())
        for topic, queue_id in queues:
            for limits in (None, "broker"):
                store.get_message(topic, queue_id, 0, 1000, limits=limits, tag="TagA")
            store.get_offset_by_time(topic, T0, queue_id)
            repr(store.consume_queue(topic, queue_id))
        for batch in store.scan():
            for message in list(batch)[::20]:
                store.query_message_by_id(message.msg_id)
                store.query_message(message.topic, (message.keys or ["x"])[0])
                store.query_message_by_tag(message.topic, message.tags or "TagA")
            store.commit_log.get_messages(batch.phy_offset)
        store.get_phy_offset_by_time(T0)
        list(store.consumer_lag())
        assert store.checkpoint is not None
        return len(queues)


READ = ["broker-5.5.0", "rich-5.5.0", "batch-5.3.3", "cqext-5.5.0", "crash-5.5.0", "cut-5.3.3"]


@pytest.mark.parametrize("name", READ)
def test_reading_leaves_bytes_and_times_as_they_were(name, tmp_path):
    root = unpack(name, tmp_path)
    before = stats(root), {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert read_all(root)
    assert before == (stats(root), {path: path.read_bytes() for path in root.rglob("*") if path.is_file()})


def test_reading_leaves_a_damaged_store_as_it_was(tmp_path):
    root = small_store(tmp_path)
    (root / "checkpoint").write_bytes(b"x")
    (root / "config/topics.json").write_text("{")
    (root / "abort").write_bytes(b"1")
    os.truncate(root / "commitlog" / LOG, 2000)
    (root / "commitlog" / f"{65536:020d}").write_bytes(b"")
    before = stats(root)
    everything(root)
    assert stats(root) == before


NOBODY = 65534


def in_child(function, *args):
    """Call it in a child process. Gives the exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        function(*args)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def as_nobody(function, *args):
    """Call it where root's rights do not help."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    function(*args)


def read_only(root):
    with pytest.raises(PermissionError):
        (root / "lock").open("r+b")
    with pytest.raises(PermissionError):
        (root / "new").touch()
    assert read_all(root)


def test_a_store_that_may_not_be_written_is_read():
    with tempfile.TemporaryDirectory() as directory:
        root = unpack("broker-5.5.0", directory)
        read_all(root)  # imports what it needs, which nobody may not be allowed to
        paths = [Path(directory), *Path(directory).rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            assert in_child(as_nobody, read_only, root) == 0
        finally:
            for path in paths:
                path.chmod(0o755 if path.is_dir() else 0o644)


def test_no_file_is_opened_for_writing_and_no_lock_is_taken(tmp_path):
    """Python tells an audit hook of every open, mapping, lock and change to a directory that it makes."""
    root = unpack("broker-5.5.0", tmp_path)
    (root / "abort").write_bytes(b"1")
    opened, changed = [], []
    watching = [True]

    def hook(event, args):
        if not watching:
            return
        if event == "open" and str(args[0]).startswith(str(root)):
            opened.append(args)
        if event == "fcntl.fcntl" and args[1] == fcntl.F_GETLK:
            return  # asks for the holder of a lock
        maps_for_writing = event == "mmap.__new__" and args[2] != mmap.ACCESS_READ
        if maps_for_writing or (event.split(".")[0] in ("fcntl", "os", "shutil") and event not in READING):
            changed.append((event, args))

    sys.addaudithook(hook)
    try:
        read_all(root)
    finally:
        watching.clear()
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    assert len(opened) > 20
    assert [args for args in opened if args[2] & writing] == []
    assert changed == []


def test_nothing_is_made_in_a_store_that_lacks_lock_abort_and_checkpoint(tmp_path):
    root = unpack("rich-5.5.0", tmp_path)
    for name in ("lock", "abort", "abort.bak", "checkpoint"):
        (root / name).unlink(missing_ok=True)
    before = sorted(root.rglob("*"))
    assert read_all(root)
    assert sorted(root.rglob("*")) == before

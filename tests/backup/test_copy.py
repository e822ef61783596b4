"""copy makes a sound store of one that is written, which diff finds to be the same."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest
from reference.record import build_record
from support.dledger_stores import make_store as make_dledger_store
from support.profiles import SEVERAL_FILES, SMALL

import rocketstore
from rocketstore import Message, StoreConfig, StoreError
from rocketstore.backup import copy_plan
from rocketstore.backup.copy_plan import find_zero_ended_record
from rocketstore.backup.remote_target import RemoteTarget
from rocketstore.state.lock_file import StoreLock

COUNT = 200
T0 = 1_700_000_000_000
MIB = 1 << 20


def fill(store, count, begin=0):
    for number in range(begin, begin + count):
        message = Message(f"T{number % 3}", b"body %d" % number, keys=[f"k{number}"], tags="t", queue_id=0)
        store.put_message(message, store_timestamp=T0 + 1000 * number)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    root = tmp_path_factory.mktemp("pristine") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        with rocketstore.open(root, "a", config=StoreConfig(**SEVERAL_FILES)) as store:
            fill(store, COUNT)
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T1@group":{"0":40}}}')
    return root


@pytest.fixture(autouse=True)
def no_syncing(monkeypatch):
    """Nothing here loses power."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def root(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "store")


def check(new):
    """Check that a copy is complete, sound, and a store after a clean stop."""
    names = {path.name for path in new.iterdir()}
    assert names.isdisjoint({"abort", "lock", "rocketstore-copy", "rocketstore-cut"})
    report = rocketstore.verify(new)
    assert [finding.kind for finding in report.findings] == []
    assert report.last_exit_ok


# ---- stopped stores ------------------------------------------------------------------------------------------


def test_the_copy_of_a_stopped_store_is_the_same(root, tmp_path):
    new = tmp_path / "new"
    report = rocketstore.copy(root, new)
    assert report.messages == COUNT
    assert rocketstore.diff(root, new).same
    assert [path.read_bytes() for path in files_of(new)] == [path.read_bytes() for path in files_of(root)]
    check(new)


def files_of(root):
    return [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "lock"]


def test_holes_stay_holes(tmp_path):
    root, new = tmp_path / "store", tmp_path / "new"
    with rocketstore.open(root, "a", config=StoreConfig(**SMALL | {"mapped_file_size_commit_log": 64 * MIB})) as store:
        fill(store, 3)
    [log] = (root / "commitlog").iterdir()
    os.truncate(log, 4096)
    os.truncate(log, 64 * MIB)
    rocketstore.copy(root, new)
    status = (new / "commitlog" / log.name).stat()
    assert (status.st_size, status.st_blocks * 512 < MIB) == (64 * MIB, True)
    assert rocketstore.diff(root, new).same


def test_files_are_readable_by_the_same_users(root, tmp_path):
    for path in files_of(root):
        path.chmod(0o600)
    for new, options in ((tmp_path / "new", {}), (tmp_path / "part", {"topic": "T1"})):
        rocketstore.copy(root, new, **options)
        modes = {path.stat().st_mode & 0o777 for path in files_of(new) if path.parent.name in ("commitlog", "0")}
        assert modes == {0o600}


def test_a_writer_continues_on_a_copy(root, tmp_path):
    rocketstore.copy(root, tmp_path / "new")
    with rocketstore.open(tmp_path / "new", "r+") as store:
        fill(store, 10, begin=COUNT)
    missing = rocketstore.diff(root, tmp_path / "new").first("log-only-in-b")
    assert missing.end - missing.begin > 0
    assert rocketstore.verify(tmp_path / "new").ok


def test_log_files_of_several_directories_are_together_in_the_copy(root, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for path in sorted((root / "commitlog").iterdir())[::2]:
        path.rename(other / path.name)
    config = StoreConfig(store_path_commit_log=f"{root / 'commitlog'},{other}")
    rocketstore.copy(root, tmp_path / "new", config=config)
    assert rocketstore.diff(root, tmp_path / "new", config=config).same
    check(tmp_path / "new")


def test_nothing_is_written_into_a_directory_with_files_or_into_the_store(root, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "letter.txt").touch()
    with pytest.raises(FileExistsError):
        rocketstore.copy(root, tmp_path / "new")
    with pytest.raises(ValueError, match="is inside"):
        rocketstore.copy(root, root / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["letter.txt"]


def test_a_damaged_store_is_not_copied_and_the_directory_stays_empty(root, tmp_path):
    (root / "abort").touch()
    [*_, last] = sorted((root / "commitlog").iterdir())
    with last.open("r+b") as file:
        file.seek(300)
        file.write(bytes(200))
    with pytest.raises(StoreError):
        rocketstore.copy(root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


# ---- configuration -------------------------------------------------------------------------------------------


def test_files_with_credentials_are_left_out_unless_they_are_wanted(root, tmp_path):
    (root / "config" / "plain_acl.yml").write_text("secretKey: planted")
    (root / "config" / "users").mkdir()
    (root / "config" / "users" / "000004.sst").write_text("planted")
    report = rocketstore.copy(root, tmp_path / "without")
    assert report.left_out == ("config/plain_acl.yml", "config/users")
    assert "planted" not in repr(report)
    assert all(b"planted" not in path.read_bytes() for path in files_of(tmp_path / "without"))
    rocketstore.copy(root, tmp_path / "with", credentials=True)
    assert (tmp_path / "with" / "config" / "plain_acl.yml").read_text() == "secretKey: planted"
    assert (tmp_path / "with" / "config" / "users" / "000004.sst").exists()


def test_offsets_behind_the_copied_messages_are_lowered(root, tmp_path):
    offsets = {"offsetTable": {"T1@group": {"0": 1000, "1": 7}, "T2@group": {"0": 12}}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    report = rocketstore.copy(root, tmp_path / "new")
    assert report.limited_offsets == 1
    found = rocketstore.BrokerConfig.open(tmp_path / "new").consumer_offsets
    assert found == {"group": {"T1": {0: 67, 1: 7}, "T2": {0: 12}}}


def test_saved_paths_are_not_those_of_the_old_store(root, tmp_path):
    settings = json.loads((root / "config" / "rocketstore.json").read_text())
    (root / "config" / "rocketstore.json").write_text(json.dumps(settings | {"store_path_commit_log": str(root)}))
    config = StoreConfig(store_path_commit_log=str(root / "commitlog"), **SEVERAL_FILES)
    rocketstore.copy(root, tmp_path / "new", config=config)
    assert "store_path_commit_log" not in json.loads((tmp_path / "new" / "config" / "rocketstore.json").read_text())


# ---- a part --------------------------------------------------------------------------------------------------


def test_a_copy_since_a_time_has_all_later_messages(root, tmp_path):
    day = 86_400_000
    with rocketstore.open(root, "r+") as store:
        for number in range(COUNT):
            message = Message(f"T{number % 3}", b"later", keys=[f"l{number}"], queue_id=0)
            store.put_message(message, store_timestamp=T0 + 10 * day + number)
    report = rocketstore.copy(root, tmp_path / "new", since=T0 + 10 * day)
    assert report.min_phy_offset > 0
    assert "assumes that no clock was wrong by 24 hours" in report.notes[0]
    with rocketstore.open(root) as old, rocketstore.open(tmp_path / "new") as new:
        assert new.scan(since=T0 + 10 * day).count() == COUNT
        assert new.scan().count() < old.scan().count()
        for topic, queue_id in old.queues():
            assert (
                new.consume_queue(topic, queue_id).max_queue_offset
                == old.consume_queue(topic, queue_id).max_queue_offset
            )
    queues = [len([*(root / "consumequeue" / "T1" / "0").iterdir()]) for root in (root, tmp_path / "new")]
    assert queues[1] < queues[0]
    assert rocketstore.verify(tmp_path / "new").ok


def test_a_copy_of_a_topic_has_its_messages_at_their_places(root, tmp_path):
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T1@group":{"0":40},"T2@group":{"0":9}}}')
    report = rocketstore.copy(root, tmp_path / "new", topic="T1")
    assert report.messages == 67
    with rocketstore.open(root) as old, rocketstore.open(tmp_path / "new") as new:
        assert [topic.name for topic in new] == ["T1"]
        assert [*new.scan(topic="T1").head(COUNT)] == [*old.scan(topic="T1").head(COUNT)]
        assert new.query_message("T1", "k1")[0].phy_offset == old.query_message("T1", "k1")[0].phy_offset
        assert new.broker_config.consumer_offsets == {"group": {"T1": {0: 40}}}
    others = [b"body %d" % number for number in range(100, COUNT) if number % 3 != 1]
    data = b"".join(path.read_bytes() for path in files_of(tmp_path / "new"))
    assert not any(body in data for body in others)
    check(tmp_path / "new")


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", None], ids=["empty", "half", "a list", "missing"])
def test_a_copy_of_a_topic_has_the_bak_of_a_bad_file(damaged, root, tmp_path):
    path = root / "config" / "consumerOffset.json"
    path.with_name(f"{path.name}.bak").write_text('{"offsetTable":{"T1@group":{"0":40}}}')
    if damaged is not None:
        path.write_bytes(damaged)
    rocketstore.copy(root, tmp_path / "new", topic="T1")
    with rocketstore.open(tmp_path / "new") as new:
        assert new.broker_config.consumer_offsets == {"group": {"T1": {0: 40}}}


def test_other_topics_take_no_disk_space_in_the_copy_of_a_topic(tmp_path):
    root, new = tmp_path / "store", tmp_path / "new"
    with rocketstore.open(root, "a", config=StoreConfig(**SMALL | {"mapped_file_size_commit_log": 8 * MIB})) as store:
        for number in range(40):
            store.put_message(Message("Large", os.urandom(100_000), queue_id=0))
            store.put_message(Message("Small", b"small %d" % number, keys=[f"k{number}"], queue_id=0))
    rocketstore.copy(root, new, topic=["Small"])
    [log] = (new / "commitlog").iterdir()
    assert log.stat().st_blocks * 512 < MIB
    assert rocketstore.diff(root, new, topic="Small", by_content=True).messages == 40
    check(new)


def test_files_show_the_sizes_of_a_copy_of_topics(root, tmp_path):
    (root / "config" / "rocketstore.json").unlink()  # a broker does not write it
    shutil.rmtree(root / "index")
    with pytest.raises(ValueError, match=f"{root}: no file shows max_hash_slot_num"):
        rocketstore.copy(root, tmp_path / "new", topic="T1")
    names = ("max_hash_slot_num", "max_index_num")
    config = StoreConfig(**{name: SEVERAL_FILES[name] for name in names})
    assert rocketstore.copy(root, tmp_path / "new", topic="T1", config=config).messages == 67
    check(tmp_path / "new")


def test_an_unknown_topic_is_not_copied(root, tmp_path):
    with pytest.raises(StoreError, match="no queue of topic 'T9'"):
        rocketstore.copy(root, tmp_path / "new", topic="T9")
    assert not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_new_directory_is_refused(root, tmp_path):
    (tmp_path / "new").touch()
    with pytest.raises(FileExistsError, match="is not a directory"):
        rocketstore.copy(root, tmp_path / "new")


def test_a_topic_of_another_format_is_refused(root_of, tmp_path):
    with pytest.raises(rocketstore.UnsupportedFormatError):
        rocketstore.copy(root_of("dledger"), tmp_path / "new", topic="T")
    assert not (tmp_path / "new").exists()


# ---- stores that are written ---------------------------------------------------------------------------------


WRITE = """
import sys, time, rocketstore
from rocketstore import Message, StoreConfig
with rocketstore.open(sys.argv[1], "a", config=StoreConfig(**eval(sys.argv[2]))) as store:
    for number in range(100_000):
        message = Message(f"T{number % 3}", b"body %d" % number, keys=[f"k{number}"], tags="t", queue_id=0)
        store.put_message(message)
        print(number + 1, flush=True)
        time.sleep(0.0002)
"""


def test_no_acknowledged_message_is_missing_while_a_writer_runs(tmp_path):
    root, acknowledged = tmp_path / "store", [0]
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, root, repr(SMALL)], stdout=subprocess.PIPE, text=True
    ) as writer:

        def read_acknowledged():
            for line in writer.stdout:
                acknowledged[0] = int(line)

        reader = threading.Thread(target=read_acknowledged)
        reader.start()
        try:
            for number in range(4):
                while acknowledged[0] < 300 * (number + 1):
                    time.sleep(0.01)
                known, new = acknowledged[0], tmp_path / f"new{number}"
                report = rocketstore.copy(root, new)
                with rocketstore.open(new) as copied:
                    found = {int(key[1:]) for batch in copied.scan(columns="keys") for [key] in batch.keys}
                assert found == set(range(len(found)))
                assert len(found) >= known
                assert report.messages == len(found)
                check(new)
        finally:
            writer.kill()
            reader.join()


def test_a_record_that_ends_in_zeros_is_copied_too(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=StoreConfig(**SMALL)) as store:
        fill(store, 2)
        end = store.commit_log.max_phy_offset
        assert find_zero_ended_record(store.commit_log, end) == 0
    data = bytearray((root / "commitlog" / f"{0:020}").read_bytes()[:end])
    record = build_record(topic="T1", phy_offset=end, queue_offset=1, body=b"body", properties={}, store_timestamp=T0)
    assert record.endswith(b"\0")
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.write(data + record)
    with rocketstore.open(root) as store:
        assert find_zero_ended_record(store.commit_log, end) == len(record)


# ---- other formats, other places -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "default",
        "batchcq",
        "cqext",
        "lmq",
        "dledger",
        "rocksdb-cq",
        "rocksdb-index",
        "config-v2",
        "compaction",
    ],
)
def test_the_store_of_a_broker_is_copied(name, root_of, tmp_path):
    if "rocksdb" in name or name == "config-v2":
        pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    root = root_of(name)
    report = rocketstore.copy(root, tmp_path / "new")
    assert report.messages > 0
    found = rocketstore.diff(root, tmp_path / "new")
    assert [*found.differences] == []
    # What only a broker completes stays a store after a crash, so that the broker does it.
    stays_crashed = name in ("dledger", "rocksdb-cq", "config-v2") and (root / "abort").exists()
    assert (tmp_path / "new" / "abort").exists() == stays_crashed


def test_the_log_of_dledger_is_copied_with_its_entries(tmp_path):
    make_dledger_store(tmp_path / "store")
    rocketstore.copy(tmp_path / "store", tmp_path / "new")
    assert rocketstore.diff(tmp_path / "store", tmp_path / "new").same
    assert (tmp_path / "new" / "dledger-n0" / "data").is_dir()


def test_a_running_member_of_dledger_is_copied_as_far_as_it_is_committed(tmp_path, monkeypatch):
    root = tmp_path / "store"
    make_dledger_store(root, committed=39)
    (root / "abort").write_text("0")
    lock = StoreLock(root / "lock")
    lock.acquire()
    try:
        monkeypatch.setattr(copy_plan, "COMMIT_SECONDS", 0.1)
        rocketstore.copy(root, tmp_path / "early")
        monkeypatch.setattr(copy_plan, "COMMIT_SECONDS", 20)
        path = root / "dledger-n0" / "checkpoint"
        later = path.read_text().replace("committedIndex=39", "committedIndex=59")
        timer = threading.Timer(0.3, path.write_text, [later])
        timer.start()
        rocketstore.copy(root, tmp_path / "new")
        timer.join()
    finally:
        lock.release()
    for name, count in (("early", 40), ("new", 60)):
        with rocketstore.open(tmp_path / name) as store:
            assert sum(len(batch) for batch in store.scan()) == count
        assert (tmp_path / name / "abort").read_text() == "0"
    assert [one for one in rocketstore.verify(tmp_path / "new").findings if one.severity == "error"] == []


def test_a_remote_store_is_copied_to_local_files(root, tmp_path):
    pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    from fsspec.implementations.local import LocalFileSystem

    remote = rocketstore.RemotePath(LocalFileSystem(), str(root))
    rocketstore.copy(remote, tmp_path / "new")
    assert rocketstore.diff(root, tmp_path / "new").same
    check(tmp_path / "new")


# ---- remote copies -------------------------------------------------------------------------------------------


@pytest.fixture
def remote():
    """A function that returns an empty directory in memory, as a process sees it that has not listed it before."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    filesystem = fsspec.filesystem("memory")
    yield lambda: rocketstore.RemotePath(filesystem, "/backups/store")
    if filesystem.exists("/backups"):
        filesystem.rm("/backups", recursive=True)


def written(report):
    return {part.part: part.written for part in report.parts if part.written}


def test_a_remote_copy_is_the_same(root, remote):
    report = rocketstore.copy(root, remote())
    assert report.messages > 0
    assert rocketstore.diff(root, remote()).same
    assert rocketstore.diff(root, remote(), by_content=True).messages == COUNT


def test_a_second_remote_copy_writes_only_what_changed(root, remote):
    rocketstore.copy(root, remote())
    assert written(rocketstore.copy(root, remote())) == {}
    with rocketstore.open(root, "r+") as store:
        fill(store, 1, begin=COUNT)
    changed = written(rocketstore.copy(root, remote()))
    assert changed["commitlog"] == 1
    assert changed["consumequeue"] <= 2
    assert rocketstore.diff(root, remote()).same


def test_a_remote_copy_loses_the_files_that_the_store_deleted(root, remote):
    rocketstore.copy(root, remote())
    with rocketstore.open(root, "r+") as store:
        store.delete_expired_files(before_phy_offset=3 * SEVERAL_FILES["mapped_file_size_commit_log"])
    rocketstore.copy(root, remote())
    assert rocketstore.diff(root, remote()).same
    assert not remote().fs.exists(f"{remote().path}/commitlog/{0:020}")


def test_an_unfinished_remote_copy_is_no_source_and_is_completed(root, remote, tmp_path, monkeypatch):
    with rocketstore.open(root, "r+") as store:
        fill(store, 50, begin=COUNT)
    rocketstore.copy(root, remote())
    with rocketstore.open(root, "r+") as store:
        fill(store, 50, begin=COUNT + 50)
    calls = []

    def fail(self, file):
        calls.append(file.name)
        if len(calls) == 3:
            raise OSError("the network is gone")
        write(self, file)

    write = RemoteTarget._write_file
    monkeypatch.setattr(RemoteTarget, "_write_file", fail)
    with pytest.raises(OSError, match="the network is gone"):
        rocketstore.copy(root, remote())
    monkeypatch.setattr(RemoteTarget, "_write_file", write)
    with pytest.raises(StoreError, match="is an unfinished copy"):
        rocketstore.copy(remote(), tmp_path / "new")
    with rocketstore.open(remote()) as store:
        assert any("is an unfinished copy: repeat the call" in text for text in store.summary().problems)
    rocketstore.copy(root, remote())
    assert rocketstore.diff(root, remote()).same
    rocketstore.copy(remote(), tmp_path / "new")
    assert rocketstore.diff(root, tmp_path / "new").same
    check(tmp_path / "new")


@pytest.mark.parametrize(
    ("work", "kind"),
    [("copy", "copy"), ("convert", "conversion"), ("split", "split store"), ("salvage", "salvage")],
)
def test_a_root_that_a_killed_call_left_is_named_unfinished(root, tmp_path, work, kind):
    moved = tmp_path / "moved"
    (moved / f"rocketstore-{work}").mkdir(parents=True)
    with pytest.raises(StoreError, match=f"no store is here.*: it is an unfinished {kind}: repeat the call"):
        rocketstore.open(moved)
    shutil.copytree(root / "consumequeue", moved / "consumequeue")  # queues are moved before the log
    with rocketstore.open(moved) as store:
        assert f"{moved}: is an unfinished {kind}: repeat the call that made it" in store.summary().problems
    with pytest.raises(StoreError, match=f"is an unfinished {kind}"):
        rocketstore.copy(moved, tmp_path / "new")


def test_a_remote_directory_with_other_files_is_refused(root, remote):
    remote().fs.pipe_file(f"{remote().path}/letter.txt", b"text")
    with pytest.raises(FileExistsError):
        rocketstore.copy(root, remote())


def test_a_remote_copy_is_not_inside_its_source(root):
    pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    rocketstore.copy(root, "memory://copy-of-itself/store")
    for name in ("store", "store/inside"):
        with pytest.raises(ValueError, match="which must not change"):
            rocketstore.copy("memory://copy-of-itself/store", f"memory://copy-of-itself/{name}")
    rocketstore.copy("memory://copy-of-itself/store", "memory://copy-of-itself/store2")
    assert rocketstore.diff(root, "memory://copy-of-itself/store2").same

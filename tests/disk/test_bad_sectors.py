"""Bytes that the disk cannot read, and files that are cut below a mapping: an error with its place, and no crash."""

import errno
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.bad_sectors import PAGE, BadSectors

import rocketstore
from rocketstore import CorruptFileError, DiskReadError, IndexFile, MappedFile, Message, StoreConfig

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="maps files as POSIX does")

CONFIG = StoreConfig(
    mapped_file_size_commit_log=16 * PAGE,
    mapped_file_size_consume_queue=5 * PAGE,
    max_hash_slot_num=2000,
    max_index_num=2000,
)
MESSAGES = 600
BAD = 5  # the page of the second log file


@pytest.fixture
def root(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=CONFIG) as store:
        for i in range(MESSAGES):
            store.put_message(Message("T", b"%03d" % i + b"x" * 500, keys=[f"k{i}"], queue_id=0))
    return tmp_path / "store"


@pytest.fixture
def disk(monkeypatch):
    disk = BadSectors(monkeypatch)
    yield disk
    disk.close()


@pytest.fixture
def bad_log(root, disk):
    """The log file with the bad page."""
    path = root / "commitlog" / f"{16 * PAGE:020}"
    disk.add(path, BAD)
    return path


def check(error, path, page=BAD):
    assert (error.errno, error.filename, error.offset) == (errno.EIO, str(path), page * PAGE)
    assert str(path) in str(error)
    assert f"at byte {page * PAGE}" in str(error)


READS = {
    "scan": lambda store: list(store.scan()),
    "scan in threads": lambda store: list(store.scan(threads=2)),
    "scan and skip": lambda store: list(store.scan(on_corrupt="skip")),
    "scan with CRC": lambda store: list(store.scan(verify_crc=True)),
    "get": lambda store: [store.get_message("T", 0, i, 32) for i in range(0, MESSAGES, 32)],
    "query": lambda store: store.query_messages("T", [f"k{i}" for i in range(MESSAGES)]),
    "one by one": lambda store: [store.query_message("T", f"k{i}") for i in range(MESSAGES)],
    "gather": lambda store: store.commit_log.get_messages(offsets_of(store)),
}


def offsets_of(store):
    return np.concatenate([store.consume_queue("T", 0)[0:].phy_offsets])


@pytest.mark.parametrize("read", READS)
def test_a_bad_sector_of_the_log_is_an_error_that_names_file_and_offset(read, root, bad_log):
    with rocketstore.open(root) as store:
        with pytest.raises(DiskReadError) as caught:
            READS[read](store)
        check(caught.value, bad_log)


COMMANDS = {
    "cat": ["cat"],
    "export": ["export", "OUT"],
    "get": ["get", "T", "0", "0", "--limit", "600"],
    "query": ["query", "--topic", "T", "--key", "k145"],
    "recover": ["recover", "--dry-run"],
    "rebuild": ["rebuild"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_with_one_line_on_a_bad_sector(command, root, bad_log, tmp_path):
    from support import cli

    name, *arguments = COMMANDS[command]
    arguments = [str(tmp_path / "out.jsonl") if argument == "OUT" else argument for argument in arguments]
    if command == "recover":
        (root / "abort").touch()
    before = sorted(path for path in root.rglob("*") if path.is_file())
    result = cli.run(name, root, *arguments)
    assert result.exit_code == 1
    assert f"{bad_log}: Input/output error at byte {BAD * PAGE}" in result.stderr
    assert "Traceback" not in result.stderr
    assert set(before) <= {path for path in root.rglob("*") if path.is_file()}


def test_a_store_reads_again_when_the_disk_can(root, bad_log, disk):
    with rocketstore.open(root) as store:
        with pytest.raises(DiskReadError):
            list(store.scan())
        disk.pages.clear()
        assert sum(map(len, store.scan())) == MESSAGES


def test_a_mapping_that_faulted_fails_until_it_is_mapped_again(root, bad_log, disk):
    with MappedFile(bad_log) as file:
        view = file.view()
        assert not file.buffer.faulty
        before = bytes(view[BAD * PAGE - 8 : BAD * PAGE])
        assert bytes(view[BAD * PAGE : BAD * PAGE + 8]) == bytes(8)
        assert file.buffer.faulty
        assert bytes(view[BAD * PAGE - 8 : BAD * PAGE]) == before != bytes(8)
        for _ in range(2):
            with pytest.raises(DiskReadError) as caught:
                file.buffer.check_faults()
            check(caught.value, bad_log)
        view.release()
    disk.pages.clear()
    with MappedFile(bad_log) as file, file.reading() as view:
        assert bytes(view[BAD * PAGE : BAD * PAGE + 8]) != bytes(8)


def test_the_error_replaces_one_that_zeros_caused(bad_log):
    with MappedFile(bad_log) as file, pytest.raises(DiskReadError), file.reading() as view:
        raise ValueError(bytes(view[BAD * PAGE : BAD * PAGE + 8]))


def test_the_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(DiskReadError("/a/b", 4096, errno.EIO)))
    assert (error.errno, error.filename, error.offset) == (errno.EIO, "/a/b", 4096)


def test_every_thread_that_reads_a_bad_sector_gets_the_error(root, bad_log):
    with rocketstore.open(root) as store, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(lambda: list(store.scan())) for _ in range(32)]
        for future in futures:
            with pytest.raises(DiskReadError) as caught:
                future.result()
            check(caught.value, bad_log)


def test_a_bad_sector_of_a_queue_is_an_error(root, disk):
    path = root / "consumequeue" / "T" / "0" / f"{0:020}"
    disk.add(path, 1)
    with rocketstore.open(root) as store:
        with pytest.raises(DiskReadError) as caught:
            list(store.consume_queue("T", 0)[0:MESSAGES])
        check(caught.value, path, 1)
        with pytest.raises(DiskReadError) as caught:
            [store.get_message("T", 0, i, 32) for i in range(0, MESSAGES, 32)]
        check(caught.value, path, 1)


@pytest.mark.parametrize("page", [0, 3])
def test_a_bad_sector_of_an_index_file_is_an_error(page, root, disk):
    path = min((root / "index").iterdir())
    disk.add(path, page)
    calls = [
        lambda file: [file.select_phy_offset(f"T#k{i}") for i in range(MESSAGES)],
        lambda file: file.select_phy_offsets([f"T#k{i}" for i in range(MESSAGES)]),
        lambda file: file.items(1, MESSAGES),
    ]
    for call in calls:
        with pytest.raises(DiskReadError) as caught, IndexFile.open(path, hash_slot_num=2000, index_num=2000) as file:
            call(file)
        check(caught.value, path, page)
    with pytest.raises(DiskReadError) as caught, rocketstore.open(root) as store:
        store.query_messages("T", [f"k{i}" for i in range(MESSAGES)])
    check(caught.value, path, page)


def test_salvage_continues_behind_bad_sectors_and_reports_the_loss(root, disk, bad_log, tmp_path):
    disk.add(bad_log, 9, 10)
    last = max((root / "commitlog").iterdir())
    with rocketstore.open(root) as store:
        places = list(zip(offsets_of(store).tolist(), store.consume_queue("T", 0)[0:].sizes.tolist(), strict=True))
    spans = [(16 * PAGE + first * PAGE, 16 * PAGE + end * PAGE) for first, end in ((BAD, BAD + 1), (9, 11))]
    touched = [at for at, size in places if any(at < end and begin < at + size for begin, end in spans)]
    report = rocketstore.salvage(root, tmp_path / "saved", config=CONFIG)
    assert report.records == MESSAGES - len(touched)
    assert last != bad_log
    assert {lost.path for lost in report.lost} == {bad_log}
    assert [lost.reason for lost in report.lost] == [
        f"the disk cannot read bytes {BAD * PAGE} to {(BAD + 1) * PAGE}",
        f"the disk cannot read bytes {9 * PAGE} to {11 * PAGE}",
    ]
    with rocketstore.open(tmp_path / "saved") as saved:
        bodies = [body for batch in saved.scan(columns=["body"]) for body in (message.body for message in batch)]
    kept = [i for i, (at, _) in enumerate(places) if at not in touched]
    assert [body[:3] for body in bodies] == [b"%03d" % i for i in kept]


@pytest.mark.parametrize("page", [0, 15])
def test_salvage_reads_a_file_whose_first_or_last_sector_is_bad(page, root, disk, tmp_path):
    path = root / "commitlog" / f"{16 * PAGE:020}"
    disk.add(path, page)
    report = rocketstore.salvage(root, tmp_path / "saved", config=CONFIG)
    assert MESSAGES - 9 <= report.records < MESSAGES
    assert f"the disk cannot read bytes {page * PAGE} to {(page + 1) * PAGE}" in {lost.reason for lost in report.lost}


def test_verify_reports_bad_sectors_and_the_damage_behind_them(root, disk, bad_log):
    disk.add(bad_log, 9, 10)
    later = root / "commitlog" / f"{32 * PAGE:020}"
    data = bytearray(later.read_bytes())
    data[4] ^= 0xFF  # the magic code of its first record
    later.write_bytes(data)
    for quick in (False, True):
        report = rocketstore.verify(root, quick=quick, config=CONFIG)
        found = [
            (each.offset, each.detail.rpartition(": ")[2])
            for each in report.findings
            if (each.kind, each.path) == ("disk-unreadable", bad_log)
        ]
        if not quick:
            assert found == [(BAD * PAGE, f"{PAGE} bytes"), (9 * PAGE, f"{2 * PAGE} bytes")]
            others = {(each.kind, each.path, each.offset) for each in report.findings}
            assert ("log-magic", later, 0) in others
            assert not {each.kind for each in report.findings if each.path == bad_log} & {"log-zeros", "log-body-crc"}
        assert not report.ok


@pytest.mark.parametrize("part", ["consumequeue/T/0", "index"])
def test_verify_names_the_bad_sector_of_a_queue_or_an_index_file(part, root, disk):
    path = min((root / part).iterdir())
    disk.add(path, 1)
    report = rocketstore.verify(root, config=CONFIG)
    found = [(each.kind, each.path, each.offset // PAGE * PAGE) for each in report.findings]
    assert ("disk-unreadable", path, PAGE) in found
    assert report.records == MESSAGES


def test_verify_counts_the_messages_of_queues_beside_one_with_a_bad_sector(root, disk):
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.put_messages([Message("U", b"x")] * 7)
    disk.add(min((root / "consumequeue/T/0").iterdir()), 2)  # the last page with units
    assert rocketstore.verify(root, config=CONFIG).messages == 7


def put_some(store, acknowledged):
    for i in range(60):
        store.put_message(Message("T", b"%03d" % i + b"x" * 500))
        acknowledged.append(b"%03d" % i)


def test_a_writer_whose_file_faults_is_stopped_and_says_so(root, disk):
    path = max((root / "commitlog").iterdir())
    store = rocketstore.open(root, "a", config=CONFIG)
    page = (store.commit_log.max_phy_offset - int(path.name)) // PAGE + 1
    disk.exchange(store._writer._log.files._file._map, range(page, 16))
    acknowledged = []
    with pytest.raises(DiskReadError) as caught:
        put_some(store, acknowledged)
    check(caught.value, path, page)
    with pytest.raises((rocketstore.StoreError, OSError)):
        store.put_message(Message("T", b"more"))
    store.close()
    with rocketstore.open(root, "a", config=CONFIG) as store:
        bodies = [message.body[:3] for batch in store.scan() for message in batch]
    assert bodies[MESSAGES:] == acknowledged


@pytest.mark.parametrize("read", ["scan", "scan in threads", "scan with CRC", "gather"])
def test_a_file_cut_below_a_kernel_is_an_error(read, root, disk):
    """The length cannot be looked up here, so that the kernel itself meets the lost pages."""
    disk.blind = True
    path = root / "commitlog" / f"{16 * PAGE:020}"
    with rocketstore.open(root) as store:
        READS[read](store)
        os.truncate(path, 2 * PAGE)
        with pytest.raises((DiskReadError, CorruptFileError)) as caught:
            READS[read](store)
        assert str(path) in str(caught.value)


# ---- other users of the signal -------------------------------------------------------------------------------

OTHERS = """
import ctypes, faulthandler, mmap, os, signal, sys, tempfile
from rocketstore.disk.mapped_file import MappedFile

def fault():
    '''A mapping that is not rocketstore's.'''
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        other = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        return other[0]

def use_rocketstore():
    path = os.path.join(sys.argv[1], "file")
    with open(path, "wb") as file:
        file.write(bytes(2 * mmap.PAGESIZE))
    with MappedFile(path) as mapped:
        os.truncate(path, 0)
        assert bytes(mapped.view()) == bytes(2 * mmap.PAGESIZE)

"""
ORDERS = {
    "alone": "use_rocketstore(); fault()",
    "faulthandler first": "faulthandler.enable(); use_rocketstore(); fault()",
    "faulthandler last": "use_rocketstore(); faulthandler.enable(); fault()",
    "faulthandler between": "use_rocketstore(); faulthandler.enable(); use_rocketstore(); fault()",
    "sent": "use_rocketstore(); os.kill(os.getpid(), signal.SIGBUS)",
    "sent, with faulthandler": "faulthandler.enable(); use_rocketstore(); os.kill(os.getpid(), signal.SIGBUS)",
    "sent, with faulthandler between": "use_rocketstore(); faulthandler.enable(); use_rocketstore(); "
    "os.kill(os.getpid(), signal.SIGBUS)",
}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may send another signal")
@pytest.mark.parametrize("order", ORDERS)
def test_a_fault_elsewhere_ends_the_process_as_ever(order, tmp_path):
    code = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n" + OTHERS + ORDERS[order]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert done.stderr.count("Fatal Python error: Bus error") == ("faulthandler" in order)


def test_a_handler_that_returns_gets_every_signal_that_is_sent(tmp_path):
    code = "seen = []; signal.signal(signal.SIGBUS, lambda *_: seen.append(1)); use_rocketstore()\n"
    code += "for _ in range(3): signal.raise_signal(signal.SIGBUS)\n"
    code += "for _ in range(3): os.kill(os.getpid(), signal.SIGBUS)\n"
    done = subprocess.run(
        [sys.executable, "-c", OTHERS + code + "print(len(seen))", str(tmp_path)], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"6\n")


def test_a_forked_child_is_guarded_too(tmp_path):
    code = (
        OTHERS
        + "use_rocketstore()\nif os.fork() == 0:\n    use_rocketstore(); os._exit(0)\n"
        + ("sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))")
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == 0

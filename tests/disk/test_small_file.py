"""Small files of a store are read with a bound: a pipe, a device or a huge file in their place is an error at once."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.profiles import SMALL
from support.times import make_old

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig, StoreError
from rocketstore.disk.small_file import read_file_start, read_small_file

CONFIG = StoreConfig(**SMALL)
HUGE = 100 << 30  # bytes; sparse
MEMORY = 3 << 30  # bytes of address space that a call may take


def put_pipe(path):
    os.mkfifo(path)


def put_endless_device(path):
    path.symlink_to("/dev/zero")


def put_huge_file(path):
    with path.open("wb") as file:
        file.truncate(HUGE)


STRANGE = [put_pipe, put_endless_device, put_huge_file]

# Every file of a store that is read whole, and calls that read it.
FILES = {
    "config/rocketstore.json": ["salvage", "verify", "recover", "open_to_write"],
    "rocketstore-intent.json": ["recover", "open_to_write", "verify"],
    "config/topics.json": ["salvage", "verify", "open_to_write", "rebuild"],
    "config/consumerOffset.json": ["salvage", "verify", "lag"],
    "checkpoint": ["verify", "recover_as_broker", "open_to_write"],
    "config/rocketstore-import.json": ["import_rows"],
}

# Each case runs in a process of its own that is forked after the imports: arguments are a list of [call, root].
SCRIPT = """
import json, os, pathlib, resource, signal, sys, warnings
import rocketstore
import rocketstore.cli.transfer.import_
import rocketstore.recovery.complete
import rocketstore.store.open_writer
from rocketstore.cli import main
for name in rocketstore.__all__:
    getattr(rocketstore, name)  # is imported now
warnings.simplefilter("ignore")

def run(call, root):
    out = root.with_name("out")
    if call == "salvage":
        rocketstore.salvage(root, out)
    elif call == "verify":
        rocketstore.verify(root)
    elif call == "recover":
        rocketstore.recover(root, dry_run=True)
    elif call == "recover_as_broker":
        rocketstore.recover(root, policy="broker", dry_run=True)
    elif call == "rebuild":
        rocketstore.rebuild(root)
    elif call == "open_to_write":
        rocketstore.open(root, "a").close()
    elif call == "lag":
        with rocketstore.open(root) as store:
            list(store.consumer_lag())
    else:
        rows = root.with_name("rows.jsonl")
        rows.write_text('{"topic": "T", "body": "x"}')
        sys.argv = ["rocketstore", "import", str(rows), str(root), "--resume"]
        main()

for call, root in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        status = 7
        try:
            run(call, pathlib.Path(root))
            status = 0
        except (rocketstore.StoreError, OSError, ValueError):
            status = 0
        except SystemExit as error:
            status = 0 if error.code in (0, 1, 2) else 7
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        print(call, root, "ended with", status)
""".replace("SECONDS", "30").replace("MEMORY", str(MEMORY))


def make_store(root):
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.put_message(Message("T", b"x", keys="k"))


@pytest.mark.parametrize("put", STRANGE)
def test_a_strange_file_neither_hangs_nor_fills_the_memory(tmp_path, put):
    make_store(tmp_path / "good")
    cases = []
    for number, (name, call) in enumerate((name, call) for name, calls in FILES.items() for call in calls):
        root = tmp_path / str(number) / "store"
        shutil.copytree(tmp_path / "good", root)
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        put(path)
        make_old(root)
        cases.append([call, str(root)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(cases)], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_pipe_is_refused_without_a_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    signal.alarm(10)
    try:
        with pytest.raises(CorruptFileError, match="a regular file was expected"):
            read_small_file(tmp_path / "pipe")
        with pytest.raises(CorruptFileError, match="a regular file was expected"):
            read_file_start(tmp_path / "pipe", 8)
    finally:
        signal.alarm(0)


def test_a_file_of_the_bound_is_read_and_one_byte_more_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345678")
    assert read_small_file(path, 8) == b"12345678"
    with pytest.raises(CorruptFileError, match="8 bytes, where at most 7 are expected") as caught:
        read_small_file(path, 7)
    assert caught.value.path == path


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc, which Linux has")
def test_a_file_of_proc_which_shows_no_size_is_read():
    assert b"Name:" in read_small_file(Path("/proc/self/status"))


def test_the_start_of_a_file_is_read_whatever_its_size(tmp_path):
    path = tmp_path / "file"
    put_huge_file(path)
    assert read_file_start(path, 48) == bytes(48)
    path.write_bytes(b"123")
    assert read_file_start(path, 48) == b"123"


def test_an_intent_that_is_too_large_names_the_file(tmp_path):
    root = tmp_path / "store"
    make_store(root)
    put_huge_file(root / "rocketstore-intent.json")
    with pytest.raises(StoreError, match=r"rocketstore-intent\.json: file size.*move the file away"):
        rocketstore.open(root, "a")


def test_a_state_of_an_export_that_is_a_pipe_is_refused(tmp_path):
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    root, target = tmp_path / "store", tmp_path / "messages.jsonl"
    make_store(root)
    work = tmp_path / "messages.jsonl.partial"
    work.mkdir()
    os.mkfifo(work / "export.json")
    done = subprocess.run(
        [sys.executable, "-m", "rocketstore", "export", str(root), str(target), "--resume"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "a regular file was expected" in done.stderr


def test_salvage_copies_the_good_configuration_beside_a_huge_file(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    make_store(root)
    put_huge_file(root / "config" / "other.json")
    with pytest.warns(UserWarning, match=r"other\.json: is not copied"):
        rocketstore.salvage(root, out)
    assert json.loads((out / "config" / "topics.json").read_bytes())["topicConfigTable"].keys() == {"T"}
    assert not (out / "config" / "other.json").exists()

"""A killed rebuild leaves the old files or the new ones, and the next call begins anew."""

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zoneinfo

import pytest
from support.killed import killed_at
from support.profiles import SEVERAL_FILES
from support.puts import files_under, index_files
from support.rebuilt import (
    CONFIG,
    KINDS,
    LIGHT,
    QUEUE_PARTS,
    assert_rebuilt,
    dispatched,
    fields,
    index_names,
    make_log,
)

from rocketstore import rebuild, recover
from rocketstore.rebuild import rebuild as module

SLOW_CHANGES = [pytest.param(n, marks=pytest.mark.slow) for n in ("compat", "index", "sizes", "expired", "light")]
CHILD = """
import sys
sys.path[:0] = sys.argv[4:]
from test_rebuild_kills import CONFIG, module
module.MIN_PIECE = 300
def say(done, total):
    print(flush=True)
while True:
    module.rebuild(sys.argv[1], config=CONFIG, tz="UTC", memory=0, index=sys.argv[2] != "queues", progress=say)
    print("done", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "MIN_PIECE", 300)


@pytest.fixture(params=["old", *(pytest.param(name, marks=pytest.mark.slow) for name in ("new", "crashed"))])
def store(request, tmp_path, seed):
    """A function that makes a store of some name, all alike: without queues and index, with old ones, after a crash."""
    rng = random.Random(seed)
    late = [row | {"store_timestamp": row["store_timestamp"] + 10**6} for row in KINDS["late_queues"](rng)[:20]]
    source = make_log(tmp_path / "source", KINDS["wild_queue_offsets"](rng)[:25] + KINDS["many_keys"](rng) + late)
    if request.param != "new":
        for part in ("consumequeue/Old/0", "consumequeue_ext/Old/0", "batchconsumequeue/Old/0", "index"):
            (source / part).mkdir(parents=True)
        (source / "consumequeue/Old/0" / f"{0:020}").write_bytes(bytes(SEVERAL_FILES["mapped_file_size_consume_queue"]))
        size = 40 + 4 * SEVERAL_FILES["max_hash_slot_num"] + 20 * SEVERAL_FILES["max_index_num"]
        (source / "index" / "20200101000000000").write_bytes(bytes(size))
    if request.param == "crashed":
        (source / "abort").touch()
    return lambda name="store": shutil.copytree(source, tmp_path / name)


def run(root, **options):
    return rebuild(root, config=CONFIG, tz="UTC", memory=0, threads=2, **options)


def assert_old_or_new(root, old, model):
    """Each part is old, or new, or between two names. In the latter cases the old part is kept completely."""
    expected = {path: data for path, data in model.data_files().items() if not path.startswith("commitlog")}
    for part in (*QUEUE_PARTS, "index"):
        files = files_under(root, part)
        was = {path: data for path, data in old.items() if path.startswith(part + "/")}
        backups = [path for path in root.glob(f"{part}.bak-*") if path.is_dir()]
        if not backups:
            assert files == was or not was
        else:
            kept = files_under(backups[0], ".")
            assert kept == {os.path.relpath(path, part): data for path, data in was.items()}
        if files != was and part != "index":
            assert files in ({}, {path: data for path, data in expected.items() if path.startswith(part + "/")})


def check_after(root, old, model):
    assert_old_or_new(root, old, model)
    run(root)
    assert_rebuilt(root, model, names=index_names(model))
    assert not (root / "abort").exists()
    assert not (root / "rocketstore-rebuild").exists()


def test_killed_at_a_call_it_is_run_again(store, tmp_path):
    """The first calls each, then fewer; the whole set in the slow test."""
    killed_at_calls(store, tmp_path, 1)


@pytest.mark.slow
def test_killed_at_any_call_it_is_run_again(store, tmp_path):
    killed_at_calls(store, tmp_path, 10)


def killed_at_calls(store, tmp_path, growth):
    model, call = dispatched(store("model")), 1
    while True:
        root = store("killed")
        old = files_under(root, *QUEUE_PARTS, "index")
        was_killed = killed_at(call, lambda root=root: run(root))
        check_after(root, old, model)
        shutil.rmtree(root)
        if not was_killed:
            break
        call += 1 + call // growth
    assert call > 40


def test_killed_at_the_last_calls_it_is_run_again(store, tmp_path):
    """The swap, and the steps after it."""
    model = dispatched(store("model"))
    for part in ((module, "swap"), (module.Rebuilder, "_finish")):
        for call in range(1, 15, 2 if part[0] is module else 5):
            root = store("killed")
            old = files_under(root, *QUEUE_PARTS, "index")
            was_killed = killed_at(call, lambda root=root: run(root), after=part)
            check_after(root, old, model)
            shutil.rmtree(root)
            if not was_killed:
                break
        assert call > 3


@pytest.mark.parametrize("was_stopped", [True, False])
def test_a_store_that_was_opened_after_a_killed_swap_is_rebuilt_and_nothing_is_lost(tmp_path, seed, was_stopped):
    """Opening makes the queues that are between two names; after a stop anything may have happened to those built."""
    root = make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))
    run(root)
    model, call = dispatched(root), 1
    while killed_at(call, lambda root=root: run(root), after=(module, "swap")):
        recover(root, config=CONFIG)
        if was_stopped:
            for path in (root / "consumequeue").rglob("0*0"):
                path.write_bytes(b"\1" * path.stat().st_size)
        else:
            (root / "abort").touch()
        kept = backups(root)
        report = run(root)
        # After a kill the last message is dispatched again, into a file of another name if it had one of its own.
        assert_rebuilt(root, model, names=index_names(model) if was_stopped else None)
        assert not (root / "abort").exists()
        assert kept.keys() <= backups(root).keys() >= {*report.backups}
        assert {path: data for path, data in backups(root).items() if path in kept} == kept
        call += 2
    assert call > 5


def backups(root):
    """The backups of old directories, by their names."""
    return {path: files_under(path, ".") for path in root.glob("*.bak-*")}


def test_queues_that_are_gone_since_a_killed_swap_are_built_anew(tmp_path, seed):
    root = make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))
    assert killed_at(1, lambda: run(root), after=(module.Rebuilder, "_finish"))
    shutil.rmtree(root / "consumequeue")
    run(root)
    assert_rebuilt(root, dispatched(root))


def test_killed_again_and_again_it_is_run_again(store, seed):
    rng, root = random.Random(seed), store()
    model = dispatched(root)
    for _ in range(5):
        assert killed_at(rng.randrange(30, 100), lambda: run(root))
    run(root)
    assert_rebuilt(root, model, names=index_names(model))


def test_killed_in_a_directory_of_its_own_it_is_run_again(tmp_path, seed):
    root = make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))
    model = dispatched(root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for call in (20, 60):
        out = tmp_path / f"out-{call}"
        killed_at(call, lambda out=out: run(root, out=out))
        run(root, out=out)
        assert_rebuilt(out, model, names=index_names(model))
        assert {path.name for path in out.iterdir()} == {"consumequeue", "index"}
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("call", [*(pytest.param(call, marks=pytest.mark.slow) for call in (60, 100)), "swap"])
@pytest.mark.parametrize("change", ["zone", "topics", "longer", *SLOW_CHANGES])
def test_with_other_options_or_another_log_it_begins_anew(tmp_path, seed, call, change, monkeypatch):
    rng = random.Random(seed)
    rows = KINDS["plain"](rng)
    root = make_log(tmp_path / "store", rows)
    run(root)
    old = files_under(root, *QUEUE_PARTS, "index")
    if call == "swap":
        swap = module.swap
        monkeypatch.setattr(module, "swap", lambda *args: os._exit(9))
        assert killed_at(10**9, lambda: run(root))
        monkeypatch.setattr(module, "swap", swap)
    else:
        assert killed_at(call, lambda: run(root))
    assert files_under(root, *QUEUE_PARTS, "index") == old
    config, zone, options = CONFIG, "UTC", {}
    if change == "zone":
        zone = "Asia/Shanghai"
    elif change == "compat":
        config = dataclasses.replace(CONFIG, compat="5.3.3")
    elif change == "index":
        options = {"consume_queue": False}
    elif change == "topics":
        options = {"topic": ["Orders"]}
    elif change == "sizes":
        config = dataclasses.replace(CONFIG, mapped_file_size_consume_queue=400)
        shutil.rmtree(root / "consumequeue")
    elif change == "longer":
        make_log(root, rows + [fields(rng, 1000 + i) for i in range(20)])
    elif change == "expired":
        (root / "commitlog" / f"{0:020}").unlink()
    elif change == "light":
        config = dataclasses.replace(CONFIG, **LIGHT)
    rebuild(root, config=config, tz=zone, memory=0, **options)
    model = dispatched(root, config)
    if change == "topics":
        assert files_under(root, *QUEUE_PARTS) == {path: data for path, data in old.items() if "index/" not in path}
        # After a kill the last message is dispatched again, into a file of another name if it had one of its own.
        assert index_files(root) == [data for path, data in sorted(old.items()) if "index/" in path]
        return
    assert_rebuilt(root, model)
    names = [path.name for path in sorted((root / "index").iterdir())]
    assert names == index_names(model, zoneinfo.ZoneInfo(zone))


def test_a_log_that_grew_is_built_to_its_new_end(tmp_path, seed):
    rng = random.Random(seed)
    rows = KINDS["plain"](rng)
    root = make_log(tmp_path / "store", rows)
    assert killed_at(80, lambda: run(root))
    make_log(root, rows + [fields(rng, 1000 + i) for i in range(20)])
    run(root)
    model = dispatched(root)
    assert_rebuilt(root, model, names=index_names(model))


def rows_of(topic):
    row = {"topic": topic, "queue_id": 0, "body": b"x" * 50, "properties": {"KEYS": topic}}
    return [row | {"queue_offset": i, "store_timestamp": 1_700_000_000_000 + 700 * i} for i in range(40)]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("call", [60, 10**9])
def test_leftovers_of_a_rebuild_of_another_log_are_not_used(tmp_path, in_place, call, monkeypatch):
    """Each record begins where one of the other begins."""
    roots = [make_log(tmp_path / topic, rows_of(topic)) for topic in "AB"]
    options = {} if in_place else {"out": tmp_path / "out"}
    with monkeypatch.context() as patch:
        patch.setattr(module, "swap" if in_place else "name_index_files", lambda *args: os._exit(9))
        assert killed_at(call, lambda: run(roots[0], **options))
    if in_place:
        shutil.rmtree(roots[0] / "commitlog")
        shutil.copytree(roots[1] / "commitlog", roots[0] / "commitlog")
    out = run(roots[1 - in_place], **options).out
    model = dispatched(roots[1])
    assert_rebuilt(out, model, names=index_names(model))


def test_leftovers_of_a_rebuild_of_another_store_are_not_used(tmp_path, seed):
    """Though all that there is of their logs is the same."""
    roots = [make_log(tmp_path / name, KINDS["plain"](random.Random(seed))) for name in "AB"]
    assert killed_at(60, lambda: run(roots[0], out=tmp_path / "out"))
    run(roots[1], out=tmp_path / "out")
    assert_rebuilt(tmp_path / "out", dispatched(roots[1]))


@pytest.mark.parametrize("moments", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_sigkill_at_any_moment(tmp_path, seed, moments):
    rng = random.Random(f"{seed} {moments}")
    source = make_log(tmp_path / "source", KINDS["plain"](rng) * 2)
    run(source)
    for path in source.glob("*.bak-*"):
        shutil.rmtree(path)
    old = files_under(source, *QUEUE_PARTS, "index")
    model = dispatched(source)
    for moment in range(moments):
        root = shutil.copytree(source, tmp_path / f"killed-{moment}")
        command = [sys.executable, "-c", CHILD, str(root), "all", "-", *sys.path]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            for _ in range(rng.randrange(100)):
                if process.stdout.readline() == b"done\n":
                    break
            time.sleep(rng.random() * 0.02)
            process.send_signal(signal.SIGKILL)
        assert_old_or_new(root, old, model)
        run(root)
        assert_rebuilt(root, model, names=index_names(model))
        shutil.rmtree(root)


def test_ends_of_files_do_not_depend_on_where_it_was_killed(tmp_path, seed):
    """A queue whose file is just full, and an index file that is: what a broker makes ahead is there once."""
    rng = random.Random(seed)
    root = make_log(tmp_path / "source", KINDS["trailing_empty_queue_file"](rng) + KINDS["keys_that_fill_a_file"](rng))
    model = dispatched(root)
    for call in range(40, 260, 40):
        killed = shutil.copytree(root, tmp_path / "killed")
        killed_at(call, lambda killed=killed: run(killed))
        run(killed)
        assert_rebuilt(killed, model, names=index_names(model))
        shutil.rmtree(killed)

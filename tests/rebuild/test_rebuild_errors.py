"""rebuild where it cannot go on: a clear error, and the old files as they were."""

import dataclasses
import errno
import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reference.commit_log import build_record, read_files
from store.test_store_full_disk import run_apart
from support import damages
from support.profiles import SEVERAL_FILES
from support.puts import files_under
from support.rebuilt import (
    CONFIG,
    FILE,
    KINDS,
    QUEUE_PARTS,
    assert_rebuilt,
    assert_survives,
    dispatched,
    fields,
    index_names,
    make_log,
    of_batches,
)

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig, StoreError, StoreLockedError, rebuild
from rocketstore.index import index_writer
from rocketstore.rebuild import rebuild as rebuild_module
from rocketstore.survey.survey import survey_store

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path, seed):
    """A whole store, with queues and an index that are told from those that would be built."""
    root = make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))
    rebuild(root, config=CONFIG, tz="UTC")
    for path in root.glob("*.bak-*"):
        shutil.rmtree(path)
    return root


@pytest.fixture
def log(tmp_path, seed):
    return make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))


def everything(root):
    """Return the bytes of all files but the lock file of a writer, and the directory of a rebuild."""
    paths = [path for path in root.rglob("*") if path.is_file() and "rocketstore-rebuild" not in path.parts]
    return {path: path.read_bytes() for path in paths if path != root / "lock"}


def refused(root, kind, match, config=CONFIG, **options):
    before = everything(root)
    with pytest.raises(kind, match=match) as caught:
        rebuild(root, config=config, tz="UTC", **options)
    assert everything(root) == before
    return caught.value


# ---- requests ----------------------------------------------------------------------------------------------


def test_sizes_that_no_file_shows_are_asked_for(log, tmp_path):
    """Rebuild all parts in place: a part that is not built must be completed."""
    out, queue, index = tmp_path / "out", "mapped_file_size_consume_queue", "max_hash_slot_num, max_index_num"
    for options in ({}, {"index": False}, {"consume_queue": False}, {"topic": ["Orders"]}):
        refused(log, ValueError, f"no file shows {queue}, {index}; .*from_broker_conf", None, **options)
    refused(log, ValueError, f"no file shows {queue}, {index}; ", None, out=out)
    refused(log, ValueError, f"no file shows {queue}; ", None, index=False, out=out)
    refused(log, ValueError, f"no file shows {index}; ", None, consume_queue=False, out=out)
    config = dataclasses.replace(survey_store(log).sizes.config, enable_consume_queue_ext=True)
    refused(log, ValueError, "mapped_file_size_consume_queue_ext", config)
    of_batches(log, {"Batches": "BatchCQ"})
    refused(log, ValueError, "mapper_file_size_batch_consume_queue", None, index=False)
    refused(log, ValueError, "mapper_file_size_batch_consume_queue", None, topic=["Batches"])
    refused(log, ValueError, f"no file shows {queue}; ", None, topic=["Orders"], out=out)
    assert not out.exists()


@pytest.mark.parametrize("how", ["short queue file", "short index file", "wild index", "damaged index"])
def test_damaged_queues_and_an_index_are_replaced_where_sizes_are_given(store, seed, how):
    model = dispatched(store)
    part, name = ("index", "2*") if "index" in how else ("consumequeue", "0*0")
    path = min((store / part).rglob(name))
    data = path.read_bytes()
    if "short" in how:
        data = data[:-7]
    elif how == "wild index":
        data = random.Random(seed).randbytes(len(data))
    else:
        data = data[:60] + bytes(100) + data[160:]
    path.write_bytes(data)
    rebuild(store, config=CONFIG, tz="UTC")
    assert_rebuilt(store, model, names=index_names(model))
    assert_survives(store)


def test_plain_queues_of_a_topic_of_batches_are_replaced(store):
    of_batches(store, {"Orders": "BatchCQ"})
    rebuild(store, config=CONFIG)
    assert_rebuilt(store, dispatched(store, batch_topics=["Orders"]))
    assert_survives(store, batch_topics=["Orders"])


@pytest.mark.parametrize("options", [{"consume_queue": False}, {"topic": ["TopicTest"]}])
def test_plain_queues_of_a_topic_of_batches_that_are_not_replaced_are_an_error(store, options):
    of_batches(store, {"Orders": "BatchCQ"})
    refused(store, StoreError, "queue.type BatchCQ", **options)
    rebuild(store, config=CONFIG, topic=["Orders"])
    rebuild(store, config=CONFIG, **options)
    assert_rebuilt(store, dispatched(store, batch_topics=["Orders"]))


@pytest.mark.parametrize("options", [{"consume_queue": False}, {"topic": ["TopicTest"]}])
def test_kept_batch_queues_of_a_topic_without_batches_are_an_error(store, options):
    of_batches(store, {"Orders": "BatchCQ"})
    rebuild(store, config=CONFIG, topic=["Orders"])
    of_batches(store, {})
    refused(store, StoreError, "queue.type BatchCQ", **options)


def test_the_size_of_batch_queues_is_required_at_the_first_inner_batch(tmp_path, seed):
    root = make_log(tmp_path / "store", KINDS["inner_batches"](random.Random(seed)))
    sizes = {name: size for name, size in SEVERAL_FILES.items() if "batch" not in name}
    refused(root, ValueError, "no file shows mapper_file_size_batch_consume_queue", StoreConfig(**sizes))
    rebuild(root, config=StoreConfig(**sizes), consume_queue=False, out=tmp_path / "out")
    rebuild(root, config=CONFIG)
    assert_rebuilt(root, dispatched(root, batch_topics=["Batched"]))


def test_nothing_to_build_is_an_error(store):
    for options in ({"consume_queue": False, "index": False}, {"consume_queue": False, "topic": ["T"]}):
        refused(store, ValueError, "must be built", **options)
    refused(store, ValueError, "must be built", topic=[])
    disabled = dataclasses.replace(CONFIG, message_index_enable=False)
    refused(store, ValueError, "must be built", disabled, consume_queue=False)
    refused(store, TypeError, "a list of str", topic=b"Orders")
    for topic in ("", "..", "a/b", "x" * 256, "a\0b"):
        refused(store, ValueError, "directory", topic=["Orders", topic])


@pytest.mark.parametrize("name", ["state.json", "rocketstore-rebuild.json", "rocketstore-rebuild.json.old"])
@pytest.mark.parametrize("text", ["", "[]", "1", "[" * 10**5, '{"phase": "build"}', '{"options": null, "done": "x"}'])
def test_a_directory_in_which_no_rebuild_was_killed_stays_unchanged(log, tmp_path, name, text):
    out = tmp_path / "out"
    for path in (out / "index" / "notes", out / "consumequeue" / "notes", out / name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = everything(out)
    refused(log, FileExistsError, "not empty", out=out)
    assert everything(out) == before


@pytest.mark.parametrize("tz", ["Mars/Olympus", "", "../../etc/passwd", "Europe", "a\0b"])
def test_a_zone_that_is_not_known_is_an_error(store, tz):
    before = everything(store)
    with pytest.raises(ValueError, match="tz="):
        rebuild(store, config=CONFIG, tz=tz)
    assert everything(store) == before


@pytest.mark.parametrize(("name", "value", "least"), [("memory", -1, 0), ("threads", 0, 1), ("threads", -3, 1)])
def test_memory_below_0_and_threads_below_1_are_errors(store, name, value, least):
    refused(store, ValueError, f"{name}={value}: at least {least} is needed", **{name: value})


@pytest.mark.parametrize("name", ["memory", "threads"])
@pytest.mark.parametrize(
    ("value", "kind", "match"),
    [
        (1.5, TypeError, "integer"),
        (1e9, TypeError, "integer"),
        (math.nan, TypeError, "integer"),
        ("1", TypeError, "integer"),
        (10**30, ValueError, "beyond"),
    ],
)
def test_memory_and_threads_that_are_no_numbers_are_errors_at_once(log, name, value, kind, match):
    refused(log, kind, f"{name}=.*{match}", **{name: value})
    assert {path.name for path in log.iterdir()} == {"commitlog"}


@pytest.mark.parametrize(
    ("options", "match"),
    [({"topic": [1]}, "topic.*str"), ({"topic": b"T"}, "topic=.*str"), ({"progress": 5}, "progress=5: a func")],
)
def test_an_argument_of_another_type_is_an_error_at_once(log, options, match):
    refused(log, TypeError, match, **options)
    assert {path.name for path in log.iterdir()} == {"commitlog"}


def test_anything_but_a_store_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        rebuild(tmp_path / "none", config=CONFIG)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        rebuild(tmp_path / "file", config=CONFIG)
    (tmp_path / "home").mkdir()
    refused(tmp_path / "home", StoreError, "no store is here")
    refused(tmp_path / "home", StoreError, "no store is here", None)
    assert not list((tmp_path / "home" / "consumequeue").parent.glob("[!l]*"))


@pytest.mark.parametrize("directory", ["empty", "missing"])
def test_queues_whose_log_is_gone_are_not_replaced_by_none(store, directory):
    shutil.rmtree(store / "commitlog")
    if directory == "empty":
        (store / "commitlog").mkdir()
    refused(store, StoreError, "commit ?log")


# ---- a store in use ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", [None, "out"])
def test_a_store_that_a_broker_runs_on_is_left_alone(store, tmp_path, out):
    command = [sys.executable, "-c", HOLDER, str(store / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        refused(store, StoreLockedError, "lock|stop the rocketstore writer, or the broker", out=out and tmp_path / out)
        process.stdin.close()
    assert not (tmp_path / "out").exists()
    rebuild(store, config=CONFIG)


def test_a_store_that_is_open_for_writing_here_is_left_alone(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=CONFIG) as store:
        store.put_message(Message("T", b"x", queue_id=0))
        store.flush()
        refused(tmp_path / "store", StoreLockedError, "lock")
    rebuild(tmp_path / "store", config=CONFIG)


# ---- damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_a_torn_tail_is_cut_as_recover_does(store, seed, mode):
    start, position, _ = damages.records(store)[-1]
    damages.noise_instead_of_the_last_record(store, random.Random(seed))
    torn = read_files(store / "commitlog")[start][position:].rstrip(b"\0")
    mode(store, None)
    report = rebuild(store, config=CONFIG, tz="UTC")
    assert report.max_phy_offset == start + position
    (saved,) = (store / "rocketstore-cut").iterdir()
    assert saved.read_bytes() == torn
    assert not any(read_files(store / "commitlog")[start][position:])
    assert_rebuilt(store, dispatched(store))
    assert_survives(store)


def test_a_torn_tail_stays_where_something_else_is_built(store, tmp_path, seed):
    damages.noise_instead_of_the_last_record(store, random.Random(seed))
    before = everything(store)
    model = dispatched(store)
    rebuild(store, config=CONFIG, out=tmp_path / "out")
    assert everything(store) == before
    assert_rebuilt(tmp_path / "out", model)


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("which", [1, -3])
def test_damage_before_the_tail_names_salvage(store, mode, which):
    start, position, _ = damages.records(store)[which]
    damages.change_log(store, start, position + 4, b"\0\1\2\3")
    mode(store, None)
    error = refused(store, CorruptFileError, "salvage")
    assert (error.path, error.offset) == (store / "commitlog" / f"{start:020}", position)


def test_a_bad_body_crc_in_the_last_files_is_an_error_also_after_a_clean_stop(store):
    """A broker's next start would cut the log, and with it the rebuilt units and items."""
    damaged = next(record for record in reversed(damages.records(store)[:-1]) if body_of(store, record)[1])
    start, position, _ = damaged
    damage_body(store, damaged)
    error = refused(store, CorruptFileError, "salvage", config=dataclasses.replace(CONFIG, compat="5.3.1"))
    assert (error.path, error.offset) == (store / "commitlog" / f"{start:020}", position)


def test_a_last_record_with_a_bad_body_crc_is_cut_as_a_broker_does(store):
    damaged = next(record for record in reversed(damages.records(store)) if body_of(store, record)[1])
    start, position, size = damaged
    damages.zero_log_from(store, start, position + size)
    damage_body(store, damaged)
    assert rebuild(store, config=CONFIG, tz="UTC").max_phy_offset == start + position
    assert_survives(store)


@pytest.mark.parametrize(("compat", "is_refused"), [("5.3.1", True), ("5.5.1", False)])
def test_a_bad_body_crc_before_the_files_that_a_broker_reads_is_skipped(store, compat, is_refused):
    last = damages.records(store)[-1][0]
    damage_body(store, next(r for r in reversed(damages.records(store)) if r[0] < last and body_of(store, r)[1]))
    config = dataclasses.replace(CONFIG, compat=compat)
    if is_refused:
        refused(store, CorruptFileError, "salvage", config=config)
    else:
        assert rebuild(store, config=config, tz="UTC").max_phy_offset == sum(damages.records(store)[-1])


def body_of(root, record):
    """Where the body of a record is in its file, and how long."""
    start, position, _ = record
    data = read_files(root / "commitlog")[start]
    sys_flag = int.from_bytes(data[position + 36 : position + 40], "big")
    position += 88 + 12 * ((sys_flag >> 4 & 1) + (sys_flag >> 5 & 1))  # hosts of IPv6
    return position, int.from_bytes(data[position - 4 : position], "big")


def damage_body(root, record):
    at, _ = body_of(root, record)
    damages.change_log(root, record[0], at, bytes([read_files(root / "commitlog")[record[0]][at] ^ 0x55]))


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_a_hole_in_the_log_is_an_error(store, mode):
    starts = sorted(read_files(store / "commitlog"))
    (store / "commitlog" / f"{starts[2]:020}").unlink()
    mode(store, None)
    error = refused(store, CorruptFileError, "salvage")
    assert error.offset in (starts[2], 0)


def test_a_log_file_of_another_length_is_an_error(store):
    path = store / "commitlog" / f"{0:020}"
    path.write_bytes(path.read_bytes()[:-1])
    refused(store, (CorruptFileError, ValueError), "4095")


def test_an_unfinished_rebuild_that_fails_leaves_no_abort(store):
    """With one a broker's next start would not believe the index."""
    start, position, _ = damages.records(store)[1]
    damages.change_log(store, start, position + 4, b"\0\1\2\3")
    os.truncate(store / "commitlog" / f"{max(read_files(store / 'commitlog')):020}", FILE // 2 + 1000)
    refused(store, CorruptFileError, "salvage")
    assert not (store / "abort").exists()


@pytest.mark.parametrize("topic", ["../../evil", "a/b", "..", "", "a\0b", "x" * 300])
def test_a_topic_that_is_no_name_of_a_directory_has_no_queue(tmp_path, seed, topic, caplog):
    rng = random.Random(seed)
    root = make_log(tmp_path / "deep" / "store", [fields(rng, 0), fields(rng, 1, topic=topic), fields(rng, 2)])
    rebuild(root, config=CONFIG)
    assert "no units" in caplog.text
    paths = files_under(tmp_path)
    assert not paths
    model = dispatched(root)
    assert [path.read_bytes() for path in sorted((root / "index").iterdir())] == model.index_files()
    del model.queues[next(key for key in model.queues if key[0] == topic)]
    assert_rebuilt(root, model)
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"store"}


@pytest.mark.parametrize("queue_offset", [-1, 2**62])
def test_a_queue_offset_that_cannot_be_is_an_error(log, seed, queue_offset):
    start, position, _ = damages.records(log)[3]
    damages.change_log(log, start, position + 20, queue_offset.to_bytes(8, "big", signed=True))
    refused(log, StoreError, f"at {start + position}, queue offset {queue_offset}")


def test_a_delay_that_is_no_number_is_an_error_at_its_place(tmp_path):
    rows = [{"topic": "SCHEDULE_TOPIC_XXXX", "properties": {"DELAY": delay}} for delay in ("1", "abc", "2")]
    root = make_log(tmp_path / "store", rows)
    error = refused(root, CorruptFileError, "DELAY.*salvage")
    assert error.offset == len(build_record(**rows[0]))


@pytest.mark.parametrize("damage", ["truncated", "no file"])
def test_topics_that_cannot_be_read_are_an_error(tmp_path, damage):
    """Without queue.type the queues of a topic of batches would become plain ones, and no broker would start."""
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        store.put_message(Message("B", b"x", queue_id=0))
    for path in (root / "config").glob("topics.json*"):
        text = path.read_text()
        path.unlink()
        path.write_text(text[:50]) if damage == "truncated" else path.mkdir()
    reason = "cannot be decoded" if damage == "truncated" else "is no regular file"
    refused(root, StoreError, rf"topics\.json {reason}.*: repair or remove them first")


# ---- the system --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", [None, "out"])
def test_a_full_disk_is_an_error_and_the_old_files_are_whole(tmp_path, out):
    (tmp_path / "disk").mkdir()
    if not shutil.which("unshare") or run_apart(tmp_path / "disk", ["true"]).returncode:
        pytest.skip("must mount a tmpfs, in a namespace of its own: unshare -rm")
    command = [sys.executable, __file__, str(tmp_path / "disk"), out or ""]
    run = run_apart(tmp_path / "disk", command)
    assert run.returncode == 0, f"exit {run.returncode}\n{run.stdout}{run.stderr[:8000]}"


def fill_up(disk, out):
    root = Path(disk, "store")
    make_log(root, KINDS["plain"](random.Random(5)))
    sizes = dataclasses.replace(CONFIG, max_index_num=4000, max_hash_slot_num=1000)
    rebuild(root, config=sizes)
    for path in root.glob("*.bak-*"):
        shutil.rmtree(path)
    before = everything(root)
    index_writer.CREATE_RETRY_SECONDS = 0
    ballast = Path(disk, "ballast")
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    failed = 0
    for left in range(0, 200_000, 9000):
        ballast.write_bytes(bytes(free - left))
        number = None
        try:
            rebuild(root, config=sizes, out=Path(disk, out) if out else None)
            break
        except OSError as error:
            number = error.errno
        assert number == errno.ENOSPC
        failed += 1
        assert everything(root) == before
        assert not (root / "abort").exists()
    assert 2 < failed < 20
    ballast.unlink()
    if not out:
        assert_rebuilt(root, dispatched(root, sizes))


def test_without_rights_it_is_the_system_s_error(store, tmp_path):
    """In a process of a user without permission to write."""
    if os.geteuid() != 0:
        store.chmod(0o555)
        refused(store, PermissionError, "denied")
        store.chmod(0o755)
        return
    for path in [*store.parents][: len(store.parents) - 2]:
        path.chmod(path.stat().st_mode | 0o055)
    before = everything(store)
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            rebuild(store, config=CONFIG)
        except PermissionError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert everything(store) == before


@pytest.mark.parametrize("part", ["consumequeue", "index"])
def test_a_link_in_the_place_of_a_directory_is_an_error_and_stays(store, tmp_path, part):
    (store / part).rename(tmp_path / "elsewhere")
    (store / part).symlink_to(tmp_path / "elsewhere")
    refused(store, StoreError, f"{part}: is a symbolic link.*--out")
    assert (store / part).is_symlink()
    assert not (store / "rocketstore-rebuild").exists()


def test_a_directory_on_another_file_system_is_an_error_before_anything_is_built(store, tmp_path):
    other = Path("/dev/shm", f"rocketstore-{os.getpid()}")
    if not other.parent.is_dir() or other.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs another file system")
    shutil.move(store / "consumequeue", other)
    try:
        (store / "consumequeue").symlink_to(other)
        refused(store, StoreError, "Orders: is on another file system.*--out", topic=["Orders"])
    finally:
        shutil.rmtree(other)
    assert not (store / "rocketstore-rebuild").exists()


def test_without_rights_to_cut_the_log_it_is_an_error_before_anything_is_built(store, seed, monkeypatch):
    damages.noise_after_the_last_record(store, random.Random(seed))
    last = store / "commitlog" / f"{max(read_files(store / 'commitlog')):020}"
    monkeypatch.setattr(os, "access", lambda path, mode: path != last)
    refused(store, PermissionError, last.name)
    assert not (store / "abort").exists()
    assert not (store / "rocketstore-rebuild").exists()


@pytest.mark.parametrize("was_stopped", [True, False])
@pytest.mark.parametrize("options", [{}, {"consume_queue": False}, {"topic": ["Orders"]}])
def test_a_rename_that_fails_leaves_all_as_it_was(store, seed, monkeypatch, options, was_stopped):
    """With abort a broker's next start would delete the index, and index again only what recovery reads."""
    damages.noise_after_the_last_record(store, random.Random(seed))
    if not was_stopped:
        (store / "abort").touch()
    before = unswapped(store)
    failed = 0
    while fails_at_rename(monkeypatch, failed, errno.EXDEV, store, options):
        assert unswapped(store) == before
        assert (store / "abort").exists() != was_stopped
        failed += 1
    assert failed >= (2 if options else 4)
    assert_survives(store, CONFIG)
    assert not (store / "abort").exists()


def unswapped(root):
    return files_under(root, *QUEUE_PARTS, "index", "checkpoint")


def fails_at_rename(monkeypatch, number, error, root, options, is_for_ever=False):
    """Return whether rebuild reaches the rename of this number, which fails. Raises: any other error of rebuild."""
    rename, calls = os.rename, iter(range(10**6))

    def failing(old, new, **more):
        if Path(old).is_dir() and ((call := next(calls)) == number or (is_for_ever and call > number)):
            raise OSError(error, os.strerror(error))
        return rename(old, new, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", failing)
        try:
            rebuild(root, config=CONFIG, tz="UTC", **options)
        except OSError as caught:
            return caught.errno == error
    return False


def test_a_swap_that_cannot_be_taken_back_says_to_run_rebuild_again(store, monkeypatch):
    old = files_under(store, "consumequeue")
    with pytest.raises(StoreError, match=r"some directories are old ones.*run rebuild again before a broker"):
        fails_at_rename(monkeypatch, 2, errno.EIO, store, {}, is_for_ever=True)
    assert (store / "abort").exists()
    report = rebuild(store, config=CONFIG, tz="UTC")
    assert {f"consumequeue/{path}": data for path, data in files_under(report.backups[0], ".").items()} == old
    assert_rebuilt(store, dispatched(store))
    assert not (store / "abort").exists()


def test_an_error_behind_the_swap_says_to_run_rebuild_again(store, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rebuild_module, "finish_repair", full_disk)
        with pytest.raises(StoreError, match=r"No space.*run rebuild again before a broker"):
            rebuild(store, config=CONFIG, tz="UTC")
    assert (store / "abort").exists()
    rebuild(store, config=CONFIG, tz="UTC")
    assert_rebuilt(store, dispatched(store))
    assert not (store / "abort").exists()


def test_a_tail_that_cannot_be_saved_leaves_a_store_that_was_stopped_cleanly(store, seed, tmp_path):
    damages.noise_after_the_last_record(store, random.Random(seed))
    (store / "rocketstore-cut").symlink_to(tmp_path)
    refused(store, StoreError, "bytes cut off the log must stay in the store")
    assert not (store / "abort").exists()


def full_disk(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


if __name__ == "__main__":
    fill_up(*sys.argv[1:])

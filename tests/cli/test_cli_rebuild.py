"""``rocketstore rebuild`` shows what it built. An interrupted build is run again."""

import random
import shutil
import signal
import time
import zoneinfo

import pytest
from reference.commit_log import make_commit_log
from support.cli import assert_one_line, on_terminal, rows, run, start
from support.profiles import SEVERAL_FILES
from support.puts import files_under
from support.rebuilt import KINDS, QUEUE_PARTS, assert_rebuilt, dispatched, index_names, make_log, of_batches

from rocketstore import StoreConfig

NAMES = {
    "mappedFileSizeCommitLog": "mapped_file_size_commit_log",
    "mappedFileSizeConsumeQueue": "mapped_file_size_consume_queue",
    "mapperFileSizeBatchConsumeQueue": "mapper_file_size_batch_consume_queue",
    "maxHashSlotNum": "max_hash_slot_num",
    "maxIndexNum": "max_index_num",
}
FIELDS = ["minPhyOffset", "maxPhyOffset", "queues", "indexFiles", "indexItems", "out", "backups"]


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("".join(f"{name}={SEVERAL_FILES[ours]}\n" for name, ours in NAMES.items()))
    return path


@pytest.fixture
def store(tmp_path, seed):
    """A store of a log alone."""
    return make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))


def test_all_is_built_and_shown(store, conf):
    (row,) = rows(run("rebuild", store, "--broker-conf", conf, "--tz", "UTC"))
    model = dispatched(store)
    assert_rebuilt(store, model, names=index_names(model))
    assert list(row) == FIELDS
    assert (row["minPhyOffset"], row["queues"], row["indexFiles"]) == (0, len(model.queues), len(model.index.files))
    assert (row["out"], row["backups"]) == (str(store), [])
    (row,) = rows(run("rebuild", store))  # it left a note of the sizes
    assert [path.partition(".bak-")[0] for path in row["backups"]] == [
        str(store / part) for part in ("consumequeue", "index")
    ]


def test_without_sizes_it_says_what_to_give(store):
    assert_one_line(run("rebuild", store), "mappedFileSizeConsumeQueue", "maxIndexNum", "--broker-conf")
    assert not files_under(store, *QUEUE_PARTS, "index")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ([], {"consumequeue", "index"}),
        (["--index"], {"index"}),
        (["--consume-queue"], {"consumequeue"}),
        (["--index", "--consume-queue"], {"consumequeue", "index"}),
        (["--topic", "Orders"], {"consumequeue"}),
        (["--topic", "Orders", "--consume-queue", "--topic", "TopicTest"], {"consumequeue"}),
    ],
)
def test_only_the_requested_parts_are_built(store, conf, tmp_path, options, parts):
    (row,) = rows(run("rebuild", store, "--out", tmp_path / "out", "--broker-conf", conf, *options))
    assert row["out"] == str(tmp_path / "out")
    assert {path.partition("/")[0] for path in files_under(tmp_path / "out", ".")} == parts
    if parts == {"consumequeue"} and "TopicTest" not in options and options[0] == "--topic":
        assert {path.name for path in (tmp_path / "out" / "consumequeue").iterdir()} == {"Orders"}
    assert {path.name for path in store.iterdir()} == {"commitlog"}


def test_a_topic_without_messages_is_named(store, conf):
    result = run("rebuild", store, "--broker-conf", conf, "--topic", "Orders", "--topic", "nope")
    assert_one_line(result, store, "no message for topic 'nope'")
    assert rows(result, exit_code=1)[0]["queues"] > 0


def test_the_release_and_the_zone(store, conf):
    rows(run("rebuild", store, "--broker-conf", conf, "--compat", "5.3.3", "--tz", "Asia/Shanghai"))
    model = dispatched(store, StoreConfig(**SEVERAL_FILES, compat="5.3.3"))
    assert_rebuilt(store, model, names=index_names(model, zoneinfo.ZoneInfo("Asia/Shanghai")))
    rows(run("rebuild", store, "--compat", "5.5.1"))
    assert_rebuilt(store, dispatched(store))


def test_saved_sizes_are_used_when_damaged_queues_and_index_are_rebuilt_as_another_release(store, conf):
    rows(run("rebuild", store, "--broker-conf", conf, "--tz", "UTC"))
    for part in ("consumequeue", "index"):
        path = min(path for path in (store / part).rglob("*") if path.is_file())
        path.write_bytes(path.read_bytes()[:-7])
    rows(run("rebuild", store, "--compat", "5.3.3", "--tz", "UTC"))
    model = dispatched(store, StoreConfig(**SEVERAL_FILES, compat="5.3.3"))
    assert_rebuilt(store, model, names=index_names(model))


def test_wrong_usage_is_an_error(store, conf):
    given = ("rebuild", store, "--broker-conf", conf)
    assert run(*given, "--index", "--topic", "T").exit_code == 2
    for size in ("", "x", "1.5G", "-1", "5P", "9" * 30, "9" * 18 + "G"):
        assert run(*given, "--memory", size).exit_code == 2
    for option, value in (("--compat", "9.9"), ("--compat", "9"), ("--tz", "Nowhere"), ("--tz", "../x")):
        result = run(*given, option, value)
        assert result.exit_code == 2
        assert f"'{value}'" in result.stderr
    assert run(*given, "--threads", "0").exit_code == 2
    assert_one_line(run(*given, "--topic", "a/b"), "a/b")
    assert_one_line(run("rebuild", store.parent / "none"), "none", "No such file")
    assert not files_under(store, *QUEUE_PARTS, "index")


@pytest.mark.parametrize("size", ["0", "4096", "64k", "3M", "1G", str(2**63 - 1)])
def test_memory_and_threads(store, conf, size):
    rows(run("rebuild", store, "--broker-conf", conf, "--memory", size, "--threads", 3))
    assert_rebuilt(store, dispatched(store))


def test_a_damaged_log_is_one_line_that_names_salvage(store, conf):
    path = store / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[4] = 0
    path.write_bytes(data)
    assert_one_line(run("rebuild", store, "--broker-conf", conf), path, "salvage")


def test_on_a_terminal_it_is_a_table(store, conf):
    status, text = on_terminal("rebuild", store, "--broker-conf", conf)
    assert status == 0
    header = text[text.index("minPhyOffset") :].splitlines()[0]
    assert header.split() == FIELDS


def test_rows_can_be_csv(store, conf):
    result = run("rebuild", store, "--broker-conf", conf, "--format", "csv")
    assert result.stdout.splitlines()[0] == ",".join(FIELDS)


def test_ctrl_c_says_that_a_second_call_begins_anew(tmp_path, conf, seed):
    rng = random.Random(seed)
    root = tmp_path / "store"
    conf.write_text(conf.read_text().replace("mappedFileSizeCommitLog=4096", "mappedFileSizeCommitLog=67108864"))
    make_commit_log(root / "commitlog", 64 << 20, KINDS["plain"](rng) * 40)
    of_batches(root, {})
    source = shutil.copytree(root, tmp_path / "source")
    waits, delay = [], 0.2
    while True:
        process = start("rebuild", root, "--broker-conf", conf, "--threads", 1, "--memory", "0")
        deadline = time.monotonic() + 30
        state = root / "rocketstore-rebuild"
        while not state.exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        waits.append(process.returncode)
        if process.returncode == 130:
            break
        assert len(waits) < 12, waits
        delay /= 2
        shutil.rmtree(root)
        shutil.copytree(source, root)
    assert out == ""
    assert err == f"{root}: was interrupted; run the same command again, it starts from the beginning\n"
    assert not files_under(root, *QUEUE_PARTS, "index")
    (row,) = rows(run("rebuild", root, "--broker-conf", conf))
    assert row["maxPhyOffset"] > 1 << 19
    assert not (root / "rocketstore-rebuild").exists()

"""The demo: a small run without Spark and with it, given stores and index files, and wrong usage."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support import stores
from support.cli import testing
from support.puts import files_under

import rocketstore

EXAMPLES = Path(__file__).parents[2] / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("tested away from the source tree", allow_module_level=True)
sys.path.insert(0, str(EXAMPLES))

from demo import demo, show_counts, why_no_spark  # noqa: E402
from demo_serial import keys_of  # noqa: E402

NO_JAVA = {"PATH": "/nonexistent", "JAVA_HOME": ""}
LEFT_OUT = "Spark is left out: Java is missing, it needs 17 or newer.\n"
SMALL = ["--messages", 3000, "--lookups", 3000, "--absent", 100]


def run(*arguments):
    """Run the demo in this process. Return click's result."""
    result = testing.CliRunner().invoke(demo, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def start(*arguments, **options):
    """Start the demo in a process of its own."""
    command = [sys.executable, str(EXAMPLES / "demo.py"), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture
def no_java(monkeypatch):
    for name, value in NO_JAVA.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def store(tmp_path):
    """A store whose files show no size of queues or index: it has none."""
    path = tmp_path / "store"
    with rocketstore.open(path, "a", config=rocketstore.StoreConfig.small()) as store:
        keys = ([], ["a"], ["b", "c"])
        store.put_messages(rocketstore.Message(f"T{i % 5}", b"%d" % i, keys=keys[i % 3], tags="t") for i in range(900))
    return path


def test_ctrl_c_ends_at_once_and_says_nothing_more(tmp_path):
    out = tmp_path / "demo"
    process = start("--messages", 50_000_000, "--out", out, env=os.environ | NO_JAVA)
    until = time.monotonic() + 60
    while not ((out / "store" / "commitlog").is_dir() or time.monotonic() > until):
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stdout == ""
    assert [line for line in stderr.splitlines() if line] == [LEFT_OUT.strip()]


def test_without_java_the_serial_part_is_done(no_java, tmp_path):
    result = run(*SMALL, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stderr == LEFT_OUT
    assert result.stdout.count("all 3,000 messages found") == 2
    with rocketstore.open(tmp_path / "out" / "serial") as built:
        assert len(built.query_messages("Orders", ["cfcd208495d565ef66e7dff9f98764da"]).phy_offsets) == 1


def test_a_given_store_is_only_read(no_java, store, tmp_path):
    before = files_under(store)
    result = run("--store", store, "--out", tmp_path / "out", "--absent", 0)
    assert result.exit_code == 0
    assert result.stdout.count("all 600 messages found") == 2
    assert files_under(store) == before


@pytest.mark.parametrize(("asked", "found"), [(1, 1), (7, 7), (100, 100), (599, 599), (601, 600)])
def test_as_many_keys_are_looked_up_as_were_asked_for(asked, found, no_java, store):
    result = run("--store", store, "--lookups", asked, "--absent", 0)
    assert result.exit_code == 0
    assert result.stdout.count(f"all {found} messages found") == 2


def test_messages_are_not_written_to_a_store_that_is_given(no_java, store):
    result = run("--store", store, "--messages", 5)
    assert result.exit_code == 2
    assert "--messages" in result.stderr


def test_a_store_that_does_not_show_its_sizes_needs_them(no_java, store, tmp_path):
    (store / "config" / "rocketstore.json").unlink()
    for part in ("index", "consumequeue"):
        for path in sorted((store / part).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    result = run("--store", store)
    assert result.exit_code == 1
    assert "--broker-conf" in result.stderr.splitlines()[-1]
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=1048576\nmaxHashSlotNum=97\nmaxIndexNum=101\n")
    assert run("--store", store, "--broker-conf", conf).exit_code == 0


def test_a_store_whose_files_do_not_show_their_geometry_is_taken_with_it(no_java, tmp_path):
    """It has messages that were rolled back, and have keys."""
    store = stores.unpack("rich-5.5.0", tmp_path)
    result = run("--store", store)
    assert result.exit_code == 1
    assert result.stderr.endswith("which look like 97 and 200 (--slots and --items)\n")
    result = run("--store", store, "--slots", 97, "--items", 200, "--lookups", 10**6, "--absent", 10)
    assert result.exit_code == 0
    with rocketstore.open(store) as opened:
        indexed = [m for batch in opened.scan() for m in batch if m.keys and m.sys_flag & 0xC != 0xC]
    assert result.stdout.count(f"all {len(indexed):,} messages found") == 2


@pytest.mark.parametrize(("asked", "found"), [(1, 1), (150, 150), (10**6, "1,800")])
def test_the_items_of_given_index_files_are_looked_up(asked, found, no_java, store):
    before = files_under(store)
    result = run("--index", store / "index", "--lookups", asked, "--absent", 5)
    assert result.exit_code == 0
    assert f"all {found} messages found" in result.stdout
    assert files_under(store) == before


def test_a_directory_without_index_files_is_no_index(no_java, store):
    result = run("--index", store)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].startswith(f"Error: {store}: no index files here: give the index directory")


def test_a_key_is_made_for_each_hash(seed):
    hashes = np.array([0, 1, 2**31 - 1, *np.random.default_rng(seed).integers(0, 2**31, 1000)], np.int32)
    assert rocketstore.hash_keys(keys_of(hashes)).tolist() == hashes.tolist()


@pytest.mark.parametrize("options", [["--store", "x"], ["--messages", 5]])
def test_an_index_is_all_that_is_looked_at(options, no_java, store):
    assert run("--index", store / "index", *options).exit_code == 2


def test_a_geometry_is_that_of_index_files_alone(no_java, golden_index):
    given = ["--slots", 5_000_000, "--items", 20_000_000]
    assert run("--messages", 5, *given).exit_code == 2
    assert run("--index", golden_index, "--slots", 97).exit_code == 2


@pytest.mark.slow
@pytest.mark.spark
def test_spark_finds_the_same_in_given_index_files(store):
    if why_no_spark():
        pytest.skip(why_no_spark())
    process = start("--index", store / "index", "--absent", 100)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert out.count("1,900 answers the same") == 2


def test_the_demo_does_not_write_among_other_files(no_java, tmp_path):
    (tmp_path / "file").touch()
    result = run(*SMALL, "--out", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"Error: {tmp_path}: is not empty: give a new directory"


def test_topics_and_tags_are_shown_as_they_are_and_no_markup(capsys):
    show_counts({("T", "[/paid]"): 4, ("T", "[paid]"): 3, ("T", "a\x1b[31mb"): 2, ("T", None): 1})
    shown = capsys.readouterr().out
    assert ("[/paid]" in shown, "[paid]" in shown, "\x1b" in shown) == (True, True, False)


@pytest.mark.slow
@pytest.mark.spark
def test_spark_takes_a_store_whose_log_is_elsewhere(store, tmp_path):
    if why_no_spark():
        pytest.skip(why_no_spark())
    (store / "commitlog").rename(tmp_path / "log")
    conf = tmp_path / "broker.conf"
    sizes = rocketstore.StoreConfig.small()
    conf.write_text(
        f"storePathCommitLog={tmp_path / 'log'}\nmappedFileSizeCommitLog={sizes.mapped_file_size_commit_log}\n"
        f"maxHashSlotNum={sizes.max_hash_slot_num}\nmaxIndexNum={sizes.max_index_num}\n"
    )
    process = start("--store", store, "--broker-conf", conf, "--absent", 0)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "5 counts the same" in out


@pytest.mark.slow
@pytest.mark.spark
def test_spark_finds_the_same():
    """Also where sessions are those of a server."""
    if why_no_spark():
        pytest.skip(why_no_spark())
    process = start(*SMALL, env=os.environ | {"SPARK_REMOTE": "sc://localhost:1", "SPARK_CONNECT_MODE_ENABLED": "1"})
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "12 of 12 files the same" in out
    assert "1 of 1 files the same" in out
    assert "15 counts the same" in out
    assert out.count("3,100 answers the same") == 3

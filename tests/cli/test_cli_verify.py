"""``rocketstore verify``: findings, how they are shown, and the exit status."""

import json
import shutil

import pytest
from support import cli, planted

import rocketstore
from rocketstore.verify.kinds import KINDS, mend_commands


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("cli-verify") / "store"
    planted.build("plain", root)
    return root


@pytest.fixture
def store(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "store")
    return planted.Store(tmp_path / "store")


def test_a_sound_store_has_no_row_and_exit_status_0(sound):
    result = cli.run("verify", sound)
    assert (result.exit_code, result.stdout) == (0, "")
    store = planted.Store(sound)
    messages = sum(row["messages"] for row in cli.rows(cli.run("ls", sound)))
    counted = f"{messages} messages in 4 queues, {len(store.records)} records"
    looked = f"{counted}, all of {store.end():,} bytes of log, 6 index files"
    assert result.stderr == f"{looked}: nothing is wrong\n"


def test_the_summary_of_a_store_with_one_message_has_no_plural(tmp_path):
    with rocketstore.open(tmp_path, "a", config=rocketstore.StoreConfig.small()) as opened:
        opened.put_message(rocketstore.Message("T", b"body", keys=["k"], queue_id=0))
        opened.create_topic("Other", 1)
    summary = cli.run("verify", tmp_path).stderr
    assert summary.startswith("1 message in 1 queue, 1 record, all of ")
    assert summary.endswith(" bytes of log, 1 index file: nothing is wrong\n")


def test_an_error_is_a_row_and_exit_status_1(store):
    kind, path, offset = planted.FAULTS["unit_with_another: size"][1](store)
    result = cli.run("verify", store.root)
    (row,) = cli.rows(result, exit_code=1)
    assert (row["kind"], row["severity"], row["path"], row["offset"]) == (kind, "error", str(store.root / path), offset)
    assert (row["atNextStart"], row["mend"]) == (KINDS[kind].at_next_start, KINDS[kind].mend)
    summary, mend = result.stderr.splitlines()
    assert summary.endswith("index files: 1 of severity error")
    assert mend == f"To mend: rocketstore rebuild {store.root} --consume-queue"


def test_a_table_begins_with_the_verdict(store):
    planted.FAULTS["unit_with_another: size"][1](store)
    lines = cli.run("verify", store.root, "--format", "table").stdout.splitlines()
    assert lines[0] == "Not sound: 1 error."
    assert lines[1].startswith("severity")


@pytest.mark.parametrize("name", ["missing_checkpoint", "abort_file", "bytes_behind_the_end"])
def test_warnings_and_infos_are_rows_and_exit_status_0(name, store):
    kind, *_ = planted.FAULTS[name][1](store)
    assert kind in [row["kind"] for row in cli.rows(cli.run("verify", store.root))]


def test_errors_come_first(store):
    planted.FAULTS["abort_file"][1](store)
    planted.FAULTS["missing_checkpoint"][1](store)
    planted.FAULTS["foreign_file_in_the_log"][1](store)
    severities = [row["severity"] for row in cli.rows(cli.run("verify", store.root), exit_code=1)]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert severities[0] == "error"


def test_a_quick_look_says_so(sound):
    result = cli.run("verify", sound, "--quick")
    assert result.exit_code == 0
    assert "records, samples of " in result.stderr


def test_threads_and_csv(store):
    planted.FAULTS["missing_queue"][1](store)
    result = cli.run("verify", store.root, "--threads", 2, "--format", "csv")
    header, *rows = result.stdout.splitlines()
    assert header == "kind,severity,path,offset,detail,more,atNextStart,mend"
    assert rows[0].startswith(f"queue-missing,error,{store.root}/consumequeue/TopicTest/1,0,")


def test_sizes_may_come_from_the_broker_s_file(store, tmp_path):
    (store.root / "config" / "rocketstore.json").unlink()
    conf = tmp_path / "broker.conf"
    names = {
        "mappedFileSizeCommitLog": planted.LOG_FILE,
        "mappedFileSizeConsumeQueue": planted.QUEUE_FILE,
        "maxHashSlotNum": planted.SLOTS,
        "maxIndexNum": planted.ITEMS,
    }
    conf.write_text("".join(f"{name}={value}\n" for name, value in names.items()))
    assert cli.run("verify", store.root, "--broker-conf", conf).exit_code == 0
    conf.write_text(conf.read_text().replace(f"maxIndexNum={planted.ITEMS}", "maxIndexNum=61"))
    rows = cli.rows(cli.run("verify", store.root, "--broker-conf", conf), exit_code=1)
    assert {row["kind"] for row in rows} >= {"index-file-short"}


def test_the_kinds_of_findings_can_be_listed():
    rows = [json.loads(line) for line in cli.run("verify", "--list", "--format", "json").stdout.splitlines()]
    assert [row["kind"] for row in rows] == list(KINDS)
    assert all(row["severity"] and row["meaning"] and row["atNextStart"] for row in rows)
    assert {row["kind"]: row["mend"] for row in rows} == {name: kind.mend for name, kind in KINDS.items()}


def test_where_no_store_is_there_is_one_line(tmp_path):
    cli.assert_one_line(cli.run("verify", tmp_path), "no store is here")
    cli.assert_one_line(cli.run("verify", tmp_path / "absent"), "No such file or directory")


@pytest.mark.parametrize("arguments", [[], ["--threads", "0"], ["store", "--format", "xml"], ["--list", "store"]])
def test_wrong_usage_is_exit_status_2(arguments):
    assert cli.run("verify", *arguments).exit_code == 2


def test_a_terminal_shows_a_table(store):
    planted.FAULTS["missing_checkpoint"][1](store)
    status, text = cli.on_terminal("verify", store.root)
    assert status == 0
    assert "checkpoint-missing" in text
    assert "atNextStart" in text
    assert "1 of severity warning" in text


def test_the_command_that_includes_the_others_is_the_only_one():
    mends = ["recover", "rebuild --index", "rebuild", "rebuild --consume-queue", "rebuild"]
    assert mend_commands(mends, "a b") == ["rocketstore recover 'a b'", "rocketstore rebuild 'a b'"]
    assert mend_commands([*mends, "salvage --out NEW"], "S") == ["rocketstore salvage S --out NEW"]
    assert mend_commands(mends[:2], "S") == ["rocketstore recover S", "rocketstore rebuild S --index"]

"""``rocketstore recover``: each step is shown, and an exit status says whether bytes of the log were cut."""

import json

import pytest
from support.cli import assert_one_line, on_terminal, rows, run
from support.places import TEXT
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig

CONFIG = StoreConfig(**SMALL)


@pytest.fixture
def store(tmp_path):
    """A store of 100 messages after a clean stop."""
    with rocketstore.open(tmp_path / "store", "a", config=CONFIG) as opened:
        opened.put_messages([Message("T", f"message {n}".encode(), keys=[f"k{n}"]) for n in range(100)])
    return tmp_path / "store"


@pytest.fixture
def torn(store):
    """The same after a crash: of the last record the second half is not there."""
    with rocketstore.open(store) as opened:
        (*_, last) = opened.scan(columns=["phy_offset", "size"])
        offset, size = int(last.phy_offset[-1]), int(last.size[-1])
    with (store / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(offset + size // 2)
        file.write(bytes(size - size // 2))
    (store / "abort").touch()
    return store, offset


def files(store):
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_a_sound_store_needs_nothing(store):
    with rocketstore.open(store) as opened:
        end = opened.commit_log.max_phy_offset
    before = files(store)
    for policy in ("complete", "broker"):
        result = run("recover", store, "--dry-run", "--policy", policy)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"nothing to do; the commit log goes from 0 to {end}\n"
    assert run("recover", store).exit_code == 0
    assert files(store) == before


def test_a_dry_run_shows_what_would_be_done_and_changes_nothing(torn):
    store, offset = torn
    before = files(store)
    shown = rows(run("recover", store, "--dry-run"), exit_code=1)
    log = str(store / "commitlog" / f"{0:020}")
    assert [row["what"] for row in shown if row["path"] == log] == ["save", "zero"]
    assert {row["offset"] for row in shown if row["path"] == log} == {offset}
    assert files(store) == before
    assert rows(run("recover", store), exit_code=1) == shown


def test_a_torn_tail_is_cut_and_saved_and_then_all_is_well(torn):
    store, _ = torn
    rows(run("recover", store), exit_code=1)
    assert any((store / "rocketstore-cut").iterdir())
    assert not (store / "abort").exists()
    result = run("recover", store)
    assert (result.exit_code, result.stdout) == (0, "")
    with rocketstore.open(store) as opened:
        assert sum(map(len, opened.scan())) == 99
        assert opened.query_message("T", "k98").messages[0].body == b"message 98"
        assert not opened.query_message("T", "k99").messages


def test_a_recovery_that_only_completes_files_reports_no_cut(store):
    for path in (store / "index").iterdir():
        path.unlink()
    shown = rows(run("recover", store))
    assert [row["what"] for row in shown] == ["dispatch"]
    with rocketstore.open(store) as opened:
        assert opened.query_message("T", "k7").messages[0].body == b"message 7"


def test_as_a_broker_does_it_the_log_is_cut_too(torn):
    store, offset = torn
    shown = rows(run("recover", store, "--policy", "broker"), exit_code=1)
    assert [row["offset"] for row in shown if row["what"] == "save"] == [offset]
    with rocketstore.open(store) as opened:
        assert sum(map(len, opened.scan())) == 99


def test_damage_inside_is_an_error_that_says_what_to_do(store):
    path = store / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[4:8] = b"\xff" * 4
    path.write_bytes(data)
    (store / "abort").touch()
    before = files(store)
    assert_one_line(run("recover", store), path, "salvage")
    assert files(store) == before


def test_on_a_terminal_it_is_a_table(torn):
    store, _ = torn
    status, text = on_terminal("recover", store, "--dry-run")
    assert status == 1
    header, *lines = text[text.index("what ") :].splitlines()  # the progress comes first
    assert header.split() == ["what", "path", "offset", "size"]
    assert any(line.startswith("save") for line in lines)


def test_the_brokers_file_says_the_sizes(store, tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=32768\nmaxHashSlotNum=97\nmaxIndexNum=400\n")
    assert_one_line(run("recover", store, "--broker-conf", conf), "mappedFileSizeCommitLog")
    conf.write_text(f"compat=x\n{TEXT}")
    assert run("recover", store, "--broker-conf", conf).exit_code == 0


def test_the_release_to_recover_as_is_given(store, tmp_path):
    assert_one_line(run("recover", store, "--policy", "broker", "--compat", "5.4"), "5.4", "5.3.3, 5.5.0 and 5.5.1")
    assert run("recover", store, "--compat", "9").exit_code == 2
    conf = tmp_path / "broker.conf"
    conf.write_text(TEXT)
    for options in ([], ["--broker-conf", conf]):
        assert run("recover", store, "--policy", "broker", "--compat", "5.3", *options).exit_code == 0


def test_a_store_that_is_written_is_left_alone(store):
    with rocketstore.open(store, "a"):
        assert_one_line(run("recover", store), "lock")


def test_anything_but_a_store_is_an_error(tmp_path):
    assert_one_line(run("recover", tmp_path / "none"), "none", "No such file")
    assert run("recover", tmp_path, "--policy", "best").exit_code == 2


def test_rows_can_be_json_or_csv(torn):
    store, _ = torn
    first = run("recover", store, "--dry-run", "--format", "csv").stdout.splitlines()[0]
    assert first == "what,path,offset,size"
    lines = run("recover", store, "--dry-run", "--format", "json").stdout.splitlines()
    assert set(json.loads(lines[0])) == {"what", "path", "offset", "size"}


def test_an_index_of_unknown_geometry_is_reported_with_the_options_of_the_command(store):
    (store / "config" / "rocketstore.json").unlink()
    result = run("recover", store)
    assert_one_line(
        result,
        "do not follow from the files, which look like 97 and 400",
        f": rocketstore recover {store} --slots 97 --items 400",
    )
    assert "StoreConfig" not in result.stderr


@pytest.mark.parametrize("choice", [["--cut-at-damage"], ["--policy", "broker"]])
def test_lost_messages_are_shown_by_topic(store, choice):
    with rocketstore.open(store) as opened:
        message = opened.get_message("T", 0, 10, 1).messages[0]
    with (store / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(message.phy_offset)
        file.write(bytes(message.size))
    before = files(store)
    dry = run("recover", store, "--dry-run", "--format", "json", *choice)
    assert dry.exit_code == 1
    lines = dry.stderr.splitlines()
    assert lines[-2].startswith("would be lost: ")
    count = int(lines[-2].split()[3])
    assert lines[-2] == f"would be lost: {count} messages of 1 topic"
    assert lines[-1].startswith(f"T: {count} messages, stored from ")
    assert files(store) == before
    table = run("recover", store, "--dry-run", "--format", "table", *choice)
    assert "firstStoreTime" in table.stdout
    assert run("recover", store, "--format", "json", *choice).stderr.splitlines()[-2].startswith("lost: ")
    with rocketstore.open(store) as opened:  # a broker does not erase the bytes behind the end
        left = sum(map(len, opened.scan(columns=["phy_offset"], on_corrupt="skip")))
        assert left == (99 if "broker" in choice else 99 - count)

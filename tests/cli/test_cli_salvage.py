"""``rocketstore salvage``: losses are shown, and change the exit status."""

import signal
import time

import pytest
from support.cli import assert_one_line, on_terminal, rows, run, start
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig

CONFIG = StoreConfig(**SMALL)


@pytest.fixture
def store(tmp_path):
    """A store of 100 messages after a clean stop."""
    with rocketstore.open(tmp_path / "store", "a", config=CONFIG) as opened:
        opened.put_messages([Message("T", f"message {n}".encode(), keys=[f"k{n}"], queue_id=0) for n in range(100)])
    return tmp_path / "store"


@pytest.fixture
def damaged(store):
    """The same with a bit of the tenth message's body wrong; gives where that is, and how many bytes."""
    with rocketstore.open(store) as opened:
        message = opened.get_message("T", 0, 10, 1).messages[0]
    with (store / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(message.phy_offset + 88)
        file.write(b"M")
    return store, message.phy_offset, message.size


def files(store):
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_a_sound_store_is_copied_and_nothing_is_lost(store, tmp_path):
    before = files(store)
    result = run("salvage", store, "--out", tmp_path / "new")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"{tmp_path / 'new'}: 100 records, 0 to ")
    assert files(store) == before
    assert len(rows(run("cat", tmp_path / "new"))) == 100


def test_a_loss_is_shown_and_is_an_exit_status_of_1(damaged, tmp_path):
    store, offset, size = damaged
    shown = rows(run("salvage", store, "--out", tmp_path / "new"), exit_code=1)
    path = str(store / "commitlog" / f"{0:020}")
    reason = "bodyCrc: is not the CRC of the body"
    assert shown == [{"path": path, "offset": offset, "size": size, "phyOffset": offset, "reason": reason}]
    bodies = [row["body"] for row in rows(run("cat", tmp_path / "new"))]
    assert bodies == [f"message {n}" for n in range(100) if n != 10]


def test_the_summary_reports_every_change(damaged, tmp_path):
    store, _, _ = damaged
    result = run("salvage", store, "--out", tmp_path / "new", "--format", "csv")
    for words in ("99 records", "1 range lost", "99 records at other physical offsets", "10 messages of 1 queue with"):
        assert words in result.stderr
    assert result.stdout.splitlines()[0] == "path,offset,size,phyOffset,reason"


def test_a_terminal_shows_a_table(damaged, tmp_path):
    store, _, size = damaged
    status, text = on_terminal("salvage", store, "--out", tmp_path / "new")
    assert status == 1
    assert "phyOffset" in text
    assert str(size) in text


def test_help_says_what_the_exit_status_means():
    text = " ".join(run("salvage", "--help").stdout.split())
    assert "The exit status is 0 if nothing was lost, 1 if bytes were lost" in text


def test_errors_are_one_line(store, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert_one_line(run("salvage", store, "--out", tmp_path / "full"), tmp_path / "full", "not empty")
    assert_one_line(run("salvage", store, "--out", store / "new"), "inside")
    assert_one_line(run("salvage", tmp_path / "absent", "--out", tmp_path / "new"), tmp_path / "absent")
    assert_one_line(run("salvage", tmp_path / "full", "--out", tmp_path / "new"), "no record")
    assert run("salvage", store).exit_code == 2
    assert not (tmp_path / "new").exists()


def test_sizes_are_taken_from_a_broker_s_file(store, tmp_path):
    (tmp_path / "broker.conf").write_text("mappedFileSizeCommitLog=8192\nmaxHashSlotNum=10\nmaxIndexNum=300\n")
    result = run("salvage", store, "--out", tmp_path / "new", "--broker-conf", tmp_path / "broker.conf")
    assert result.exit_code == 0
    assert {path.stat().st_size for path in (tmp_path / "new" / "commitlog").iterdir()} == {8192}


def test_ctrl_c_leaves_both_as_they_were(tmp_path):
    config = StoreConfig(mapped_file_size_commit_log=64 << 20, max_hash_slot_num=100, max_index_num=1000)
    with rocketstore.open(tmp_path / "store", "a", config=config) as opened:
        for _ in range(8):
            opened.put_messages([Message("T", bytes(50_000), queue_id=0)] * 1000)
    process = start("salvage", tmp_path / "store", "--out", tmp_path / "new")
    while not (tmp_path / "new" / "rocketstore-salvage").exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    if process.returncode == 130:  # it was not done yet
        assert not (tmp_path / "new").exists()
        assert errors == ""
    else:
        assert process.returncode == 0


def test_a_dry_run_shows_the_lost_messages_and_writes_nothing(damaged, tmp_path):
    store, offset, _ = damaged
    before = files(store)
    result = run("salvage", store, "--dry-run", "--format", "json")
    assert [row["phyOffset"] for row in rows(result, exit_code=1)] == [offset]
    assert "99 records to copy; nothing was written; 1 range lost" in result.stderr
    assert "would be lost: 1 message of 1 topic\n" in result.stderr
    assert "T: 1 message\n" in result.stderr
    assert files(store) == before
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    real = run("salvage", store, "--out", tmp_path / "new", "--format", "json")
    assert "\nlost: 1 message of 1 topic\n" in real.stderr
    assert "T: 1 message\n" in real.stderr


def test_a_salvage_without_a_place_and_without_a_dry_run_is_refused(store):
    result = run("salvage", store)
    assert result.exit_code == 2
    assert "--dry-run" in result.stderr


def test_a_salvage_of_files_alone_says_that_lost_messages_are_not_known(damaged):
    result = run("salvage", damaged[0] / "commitlog", "--dry-run")
    assert result.exit_code == 1
    assert "is not known" in result.stderr

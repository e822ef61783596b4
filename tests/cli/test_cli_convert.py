"""``rocketstore convert``: a store is written anew, and ids that no longer hold are shown."""

import errno
import os

import pytest
from support.cli import assert_one_line, rows, run

import rocketstore
from rocketstore import Message, StoreConfig

SIZES = ["--log-file-size", "16K", "--queue-file-size", 4000, "--new-slots", 97, "--new-items", 400]


def test_ids_that_no_longer_hold_are_rows(root_of, tmp_path):
    result = run("convert", root_of("default"), tmp_path / "new", *SIZES)
    assert {(row["topic"], row["property"]) for row in rows(result)} == {
        ("%RETRY%G1", "ORIGIN_MESSAGE_ID"),
        ("SCHEDULE_TOPIC_XXXX", "ORIGIN_MESSAGE_ID"),
    }
    assert result.stderr.startswith(f"{tmp_path / 'new'}: 714 records, 0 to ")
    assert run("verify", tmp_path / "new").exit_code == 0
    assert len(rows(run("cat", tmp_path / "new", "--columns", "msgId"))) == 714
    assert (tmp_path / "new" / "commitlog" / f"{16384:020}").stat().st_size == 16384


def test_sizes_alone_give_no_rows(tmp_path):
    with rocketstore.open(tmp_path / "old", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("T", b"x"))
    result = run("convert", tmp_path / "old", tmp_path / "new", "--queue-file-size", 4000)
    assert (result.exit_code, result.stdout) == (0, "")
    assert len((tmp_path / "new" / "consumequeue" / "T" / "0" / f"{0:020}").read_bytes()) == 4000


@pytest.mark.parametrize(("arguments", "reason"), [(["--log-file-size", 0], "1 to"), (["--compat", "1.0"], "release")])
def test_impossible_values_are_wrong_usage(tmp_path, arguments, reason):
    result = run("convert", tmp_path, tmp_path / "new", *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize(
    ("option", "size", "reason"),
    [
        ("--log-file-size", 1, "files of 1 bytes are too small"),
        ("--ext-file-size", 7, "a file size of 7 must be 24 at least"),
        ("--batch-file-size", 7, "a file size of 7 must be a multiple of 46"),
    ],
)
def test_a_size_that_fits_nothing_is_named_by_its_option(root_of, tmp_path, option, size, reason):
    result = run("convert", root_of("default"), tmp_path / "new", option, size)
    assert_one_line(result, reason)
    assert f"({option})" in result.stderr
    assert "_size" not in result.stderr


def test_a_full_directory_is_one_line(root_of, tmp_path):
    (tmp_path / "file").write_text("")
    assert_one_line(run("convert", root_of("default"), tmp_path), "not empty")


def test_split_writes_a_row_for_each_store(tmp_path):
    with rocketstore.open(tmp_path / "old", "a", config=StoreConfig.small()) as store:
        store.put_messages([Message(topic, b"x") for topic in "ABCC"])
    result = run("split", tmp_path / "old", tmp_path / "new", "--by", "topic", "--part", "both=A,B")
    assert [(row["part"], row["topics"], row["records"]) for row in rows(result)] == [
        ("C", ["C"], 2),
        ("both", ["A", "B"], 2),
    ]
    assert len(rows(run("cat", tmp_path / "new" / "both"))) == 2


def test_split_of_an_unknown_topic_is_an_exit_status_of_1(tmp_path):
    with rocketstore.open(tmp_path / "old", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("A", b"x"))
    result = run("split", tmp_path / "old", tmp_path / "new", "--topic", "No")
    assert result.exit_code == 1
    assert "no message for topic 'No'" in result.stderr


def test_a_part_with_an_unknown_topic_is_an_exit_status_of_1(tmp_path):
    with rocketstore.open(tmp_path / "old", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("A", b"x"))
    result = run("split", tmp_path / "old", tmp_path / "new", "--part", "x=Nope,A")
    assert result.exit_code == 1
    assert "no message for topic 'Nope'" in result.stderr
    assert [row["part"] for row in rows(result, exit_code=1)] == ["x"]


@pytest.mark.parametrize("text", ["billing", "=A", "billing=,"])
def test_a_part_without_topics_is_wrong_usage(tmp_path, text):
    assert run("split", tmp_path, tmp_path / "new", "--part", text).exit_code == 2


def test_a_full_disk_names_the_new_directory(tmp_path, monkeypatch):
    with rocketstore.open(tmp_path / "old", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("A", b"x"))

    def write(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "ftruncate", write)
    for command in ("convert", "split", "copy"):
        assert_one_line(run(command, tmp_path / "old", tmp_path / "new"), tmp_path / "new", "No space left")
        assert not (tmp_path / "new").exists()

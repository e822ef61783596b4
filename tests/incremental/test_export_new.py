"""Incremental exports: each message is in one part, also after crashes, and a log that changed is an error."""

import dataclasses
import errno
import fcntl
import json
import os

import pytest
from support import cli

import rocketstore
from rocketstore import Message, StoreConfig, StoreError
from rocketstore.incremental import new_part
from rocketstore.incremental.export_state import ExportState, read_state, save_state

parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow, from the extra 'arrow'")


class Killed(BaseException):
    """The process ends here."""


def put(root, first, count, topic="T"):
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        messages = [Message(topic, b"x", keys=[f"k{n}"], queue_id=0) for n in range(first, first + count)]
        store.put_messages(messages, store_timestamp=1_700_000_000_000)


def export(root, lake, **options):
    with rocketstore.open(root) as store:
        return store.export_new(lake, lake / ".state", **options)


def keys(lake):
    found = []
    for path in sorted(lake.glob("part-*.parquet")):
        found += [key for (key,) in parquet.read_table(path)["keys"].to_pylist()]
    return found


@pytest.fixture
def root(tmp_path):
    put(tmp_path / "store", 0, 10)
    return tmp_path / "store"


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


def test_each_run_adds_a_part_with_what_is_new(root, lake):
    assert export(root, lake).messages == 10
    assert export(root, lake).path is None
    put(root, 10, 5)
    part = export(root, lake)
    assert (part.messages, part.path.parent, part.reasons) == (5, lake, [])
    put(root, 15, 1)
    export(root, lake)
    assert keys(lake) == [f"k{n}" for n in range(16)]
    assert len(list(lake.iterdir())) == 4


def test_conditions_choose_the_messages_and_no_message_makes_no_part(root, lake):
    options = {"topic": "U", "columns": ["keys", "topic"], "where": "topic = 'U'"}
    put(root, 0, 1, "U")
    assert export(root, lake, **options).messages == 1
    put(root, 10, 3)
    part = export(root, lake, **options)
    assert (part.path, part.messages) == (None, 0)
    put(root, 1, 2, "U")
    assert export(root, lake, **options).messages == 2
    assert keys(lake) == ["k0", "k1", "k2"]
    with pytest.raises(StoreError, match="other values of columns, topic, where"):
        export(root, lake)


@pytest.mark.parametrize("calls", range(5))
def test_after_a_kill_at_any_step_each_message_is_in_one_part(root, lake, calls, monkeypatch):
    export(root, lake)
    put(root, 10, 5)
    steps = iter(range(calls))

    def killing(function):
        def step(*arguments):
            if next(steps, None) is None:
                raise Killed
            return function(*arguments)

        return step

    for name in ("save_state", "sync_path"):
        monkeypatch.setattr(new_part, name, killing(getattr(new_part, name)))
    with pytest.raises(Killed) if calls < 4 else pytest.MonkeyPatch.context():
        export(root, lake)
    monkeypatch.undo()
    put(root, 15, 2)
    export(root, lake)
    assert keys(lake) == [f"k{n}" for n in range(17)]
    assert not list(lake.glob("*.partial"))
    assert export(root, lake).path is None


def test_a_kill_while_a_part_is_written_leaves_no_part(root, lake, monkeypatch):
    write = rocketstore.incremental.parquet_part.write_parquet

    def write_half(path, *arguments):
        write(path, *arguments)
        os.truncate(path, 100)
        raise Killed

    monkeypatch.setattr(rocketstore.incremental.parquet_part, "write_parquet", write_half)
    with pytest.raises(Killed):
        export(root, lake)
    assert keys(lake) == []
    monkeypatch.undo()
    put(root, 10, 1)
    assert export(root, lake).messages == 11
    assert keys(lake) == [f"k{n}" for n in range(11)]
    assert not list(lake.glob("*.partial"))


def test_a_log_that_was_cut_or_is_another_one_is_an_error(root, lake, tmp_path):
    export(root, lake)
    put(tmp_path / "shorter", 0, 3)
    with pytest.raises(StoreError, match=r"exported up to offset 1\d+, .* but now it ends at"):
        export(tmp_path / "shorter", lake)
    with rocketstore.open(tmp_path / "other", "a", config=StoreConfig.small()) as store:
        store.put_messages([Message("T", b"y", keys=[f"k{n}"], queue_id=0) for n in range(12)], store_timestamp=5)
    with pytest.raises(StoreError, match="has another message at"):
        export(tmp_path / "other", lake)
    assert len(keys(lake)) == 10


def test_messages_that_expired_between_two_runs_are_a_reason(tmp_path, lake):
    root, body = tmp_path / "store", bytes(1000)
    config = dataclasses.replace(StoreConfig.small(), mapped_file_size_commit_log=4096)
    with rocketstore.open(root, "a", config=config) as store:
        store.put_message(Message("T", body))
    export(root, lake)
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages([Message("T", body)] * 10)
        store.delete_expired_files(before_phy_offset=8192)
    part = export(root, lake)
    assert part.begin == 8192
    assert [reason.split(": ")[-1] for reason in part.reasons] == [
        "messages between these offsets expired before this export"
    ]
    result = cli.run("export", root, tmp_path / "new", "--state", tmp_path / "new" / "state")
    assert result.exit_code == 0


def test_a_directory_with_parts_needs_their_state(root, lake, tmp_path):
    export(root, lake)
    with rocketstore.open(root) as store, pytest.raises(StoreError, match="a part of an export whose state is not"):
        store.export_new(lake, tmp_path / "new-state")
    (lake / ".state").write_text("{}")
    with pytest.raises(StoreError, match="is no state of an export"):
        export(root, lake)


def test_two_exports_to_one_directory_do_not_run_together(root, lake):
    lake.mkdir()
    descriptor = os.open(lake, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="another process exports to it"):
            export(root, lake)
    finally:
        os.close(descriptor)


def test_an_error_of_an_export_is_not_taken_for_a_lock(root, lake, monkeypatch):
    def fail(*args):
        raise BlockingIOError(errno.EAGAIN, "the disk is busy")

    monkeypatch.setattr(new_part, "read_state", fail)
    with pytest.raises(BlockingIOError, match="the disk is busy"):
        export(root, lake)


def test_only_the_changed_conditions_are_named(tmp_path):
    path = tmp_path / "state"
    save_state(path, ExportState({"topic": ("T",), "where": None}, 0, None))
    assert read_state(path, {"topic": ("T",), "where": None}) is not None
    with pytest.raises(StoreError, match="other values of where: "):
        read_state(path, {"topic": ("T",), "where": "size > 1"})


def test_damage_is_an_error_or_a_reason(root, lake):
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(300)
        log.write(b"\xff" * 20)
    with pytest.raises(StoreError):
        export(root, lake)
    part = export(root, lake, on_corrupt="skip")
    assert len(part.reasons) == 1
    assert part.messages == len(keys(lake)) < 10


# ---- the command -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "json", "csv", "arrow"])
def test_the_command_adds_parts_and_ends_with_0_if_nothing_is_new(root, lake, form):
    command = ["export", root, lake, "--state", lake / ".offset", *(["--format", form] if form != "parquet" else [])]
    first = cli.run(*command)
    assert (first.exit_code, first.stderr.split(": ")[-1]) == (0, "10 messages\n")
    again = cli.run(*command)
    assert (again.exit_code, "nothing is new" in again.stderr) == (0, True)
    put(root, 10, 2)
    assert cli.run(*command).exit_code == 0
    suffix = {"json": "jsonl"}.get(form, form)
    assert len(list(lake.glob(f"part-*.{suffix}"))) == 2
    if form == "json":
        lines = [json.loads(line) for path in sorted(lake.glob("part-*")) for line in path.read_text().splitlines()]
        assert [line["keys"] for line in lines] == [[f"k{n}"] for n in range(12)]


def test_the_command_says_which_messages_expired(tmp_path, lake):
    config = dataclasses.replace(StoreConfig.small(), mapped_file_size_commit_log=4096)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        store.put_message(Message("T", bytes(1000)))
    command = ["export", tmp_path / "store", lake, "--state", lake / ".offset"]
    assert cli.run(*command).exit_code == 0
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        store.put_messages([Message("T", bytes(1000))] * 10)
        store.delete_expired_files(before_phy_offset=8192)
    result = cli.run(*command)
    assert result.exit_code == 1
    assert "expired before this export" in result.stderr
    assert cli.run(*command).exit_code == 0


@pytest.mark.parametrize("option", [["--force"], ["--limit", "1"], ["--begin-offset", "5"], ["--partition-by", "day"]])
def test_options_of_a_single_export_are_refused_with_a_state(root, lake, option):
    result = cli.run("export", root, lake, "--state", lake / ".offset", *option)
    assert result.exit_code == 2
    assert f"give it without {option[0]}" in result.stderr
    assert not lake.exists()


def test_an_unknown_topic_is_named(root, lake):
    result = cli.run("export", root, lake, "--state", lake / ".offset", "--topic", "TT")
    assert result.exit_code == 1
    assert "there is no queue of topic 'TT'" in result.stderr

"""Commands name the messages of deleted topics that they leave out, and bring them back on request."""

import json

import pytest
from support.cli import run
from support.deleted import LIVE, OLD, bodies, put, store_with_deleted_topic

LEFT_OUT = (
    f"{2 * OLD} messages of deleted topics left out (Orders/0: {OLD}, Orders/1: {OLD}); --deleted brings them back"
)
KEPT = "kept 1 topic (Orders) that topics.json lacks"


@pytest.fixture
def store(tmp_path):
    return store_with_deleted_topic(tmp_path / "store", is_made_again=True)


def exported(path):
    return [json.loads(line)["body"] for line in path.read_text().splitlines()]


def test_rebuild_and_salvage_name_what_they_leave_out(store, tmp_path):
    for arguments in (["rebuild", store], ["salvage", store, "--out", tmp_path / "new"]):
        result = run(*arguments)
        assert (result.exit_code, LEFT_OUT in result.stderr) == (0, True)
    assert bodies(store) == bodies(tmp_path / "new")


def test_recover_names_what_it_leaves_out(store):
    result = run("recover", store)
    assert f"{OLD} messages of deleted topics left out (Orders/1: {OLD})" in result.stderr
    result = run("recover", store, "--deleted")
    assert "deleted topics" not in result.stderr
    assert bodies(store)["Orders", 1] == [(b"deleted", OLD)]


def test_a_topic_in_doubt_is_named(tmp_path):
    store = store_with_deleted_topic(tmp_path / "store", is_made_again=False)
    (store / "abort").touch()
    assert KEPT in run("export", store, tmp_path / "out.jsonl", "--topic", "Orders").stderr
    assert len(exported(tmp_path / "out.jsonl")) == 2 * OLD
    assert KEPT in run("salvage", store, "--out", tmp_path / "new").stderr
    assert KEPT in run("rebuild", store).stderr


def test_queues_in_doubt_are_named(tmp_path):
    store = store_with_deleted_topic(tmp_path / "store", is_made_again=False)
    put(store, "Orders", b"live", LIVE, [2])
    kept = "kept 2 queues without a directory (Orders/0, Orders/1): each directory was lost, or its topic was deleted"
    assert kept in run("export", store, tmp_path / "out.jsonl", "--topic", "Orders").stderr
    assert len(exported(tmp_path / "out.jsonl")) == 2 * OLD + LIVE
    assert kept in run("salvage", store, "--out", tmp_path / "new").stderr
    assert kept in run("recover", store, "--dry-run").stderr
    assert kept in run("convert", store, tmp_path / "converted", "--queue-file-size", "6000").stderr
    assert kept in run("rebuild", store).stderr


def test_export_by_topic_leaves_out_earlier_lives(store, tmp_path):
    path = tmp_path / "out.jsonl"
    result = run("export", store, path, "--topic", "Orders")
    assert (result.exit_code, LEFT_OUT in result.stderr) == (0, True)
    assert exported(path) == ["live"] * LIVE
    assert "left out" not in run("export", store, path, "--topic", "Orders", "--force", "--deleted").stderr
    assert len(exported(path)) == 2 * OLD + LIVE
    assert "left out" not in run("export", store, path, "--force").stderr  # not by topic: the whole log
    assert len(exported(path)) == 2 * OLD + LIVE + 3


def test_export_of_a_deleted_topic_finds_no_message(tmp_path):
    store = store_with_deleted_topic(tmp_path / "store", is_made_again=False)
    result = run("export", store, tmp_path / "out.jsonl", "--topic", "Orders")
    assert (result.exit_code, LEFT_OUT in result.stderr) == (1, True)
    assert exported(tmp_path / "out.jsonl") == []


def test_a_directory_for_each_topic_has_no_deleted_topic(store, tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset", reason="needs pyarrow")
    result = run("export", store, tmp_path / "out", "--partition-by", "topic")
    assert LEFT_OUT in result.stderr
    assert dataset.dataset(tmp_path / "out", partitioning="hive").count_rows() == LIVE + 3

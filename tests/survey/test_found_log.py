"""A log whose directories no configuration names is found by its files, read, and never written."""

import shutil
from dataclasses import replace

import pytest
from support.cli import run

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.broker_file import warn_once
from rocketstore.survey.found_log import find_log_in_root

SIZE = 4096


@pytest.fixture
def root(tmp_path):
    """A store whose log has five files in three directories, as a broker with several paths makes it."""
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=replace(StoreConfig.small(), mapped_file_size_commit_log=SIZE)) as store:
        for n in range(100):
            store.put_message(Message("T", b"%d" % n, keys=[f"k{n}"], queue_id=0))
    for number, path in enumerate(sorted((root / "commitlog").iterdir())):
        directory = root / f"cl{number % 3}"
        directory.mkdir(exist_ok=True)
        path.rename(directory / path.name)
    (root / "commitlog").rmdir()
    return root


def test_the_directories_of_one_run_are_a_log(root):
    assert find_log_in_root(root) == tuple(root / f"cl{number}" for number in range(3))
    with rocketstore.open(root) as store:
        assert [message.body for message in store.query_message("T", "k99")] == [b"99"]
        assert store.scan().count() == 100
        assert len(store["T"]) == 100


def test_every_command_that_reads_says_where_the_log_is(root, caplog):
    for words in ["info"], ["ls"], ["cat", "--limit", "1"], ["query", "--key", "k1"], ["count", "--by", "topic"]:
        warn_once.cache_clear()
        caplog.clear()
        result = run(words[0], root, *words[1:])
        assert result.exit_code == 0, result.stderr
        assert "by its files it is in cl0, cl1, cl2, which is read" in caplog.text


def put_a_note(root):
    (root / "cl1" / "notes.txt").write_text("x")


def move_a_file(root):
    path = max((root / "cl2").iterdir())
    path.rename(path.with_name(f"{SIZE * 99:020}"))


def copy_a_directory(root):
    shutil.copytree(root / "cl0", root / "copy")


def cut_a_file(root):
    with min((root / "cl0").iterdir()).open("r+b") as file:
        file.truncate(SIZE // 2)


@pytest.mark.parametrize("change", [put_a_note, move_a_file, copy_a_directory, cut_a_file])
def test_directories_that_may_be_something_else_are_no_log(root, change):
    change(root)
    assert find_log_in_root(root) == ()
    with rocketstore.open(root) as store, pytest.raises(FileNotFoundError, match="commitlog"):
        store.scan().count()


def test_a_directory_whose_file_has_a_damaged_begin_belongs_to_the_log(root):
    path = max((file for file in root.glob("cl?/*")), key=lambda file: file.name)
    with path.open("r+b") as file:
        file.write(bytes(100))
    assert len(find_log_in_root(root)) == 3


def test_other_directories_of_numbered_files_are_not_of_the_log(root):
    (root / "timerlog").mkdir()
    (root / "timerlog" / f"{0:020}").write_bytes(bytes(SIZE))
    assert len(find_log_in_root(root)) == 3
    (root / "commitlog").mkdir()  # a broker made it: this is the log
    with rocketstore.open(root) as store:
        assert store.scan().count() == 0


def test_no_writer_acts_on_an_assumption_and_none_is_saved(root):
    before = sorted(path.relative_to(root) for path in root.rglob("*"))
    named = ",".join(str(root / f"cl{number}") for number in range(3))
    for write in (
        lambda: rocketstore.open(root, "a"),
        lambda: rocketstore.open(root, "r+"),
        lambda: rocketstore.recover(root),
        lambda: rocketstore.rebuild(root),
    ):
        with pytest.raises(ValueError, match="to write, give its directories: storePathCommitLog=") as refused:
            write()
        assert named in str(refused.value)
        assert refused.value.settings == ("store_path_commit_log",)
    result = run("recover", root)
    assert (result.exit_code, "--broker-conf FILE" in result.stderr) == (1, True)
    assert sorted(path.relative_to(root) for path in root.rglob("*")) == before
    with rocketstore.open(root, "a", config=StoreConfig(store_path_commit_log=named)) as store:
        assert store.put_message(Message("T", b"new", queue_id=0)).queue_offset == 100


def test_a_copy_of_a_found_log_has_the_usual_directory(root, tmp_path):
    rocketstore.copy(root, tmp_path / "new")
    with rocketstore.open(tmp_path / "new") as store:
        assert (store.scan().count(), (tmp_path / "new" / "commitlog").is_dir()) == (100, True)

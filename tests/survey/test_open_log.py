"""The commit log of a store, opened with its configuration."""

import ast
from pathlib import Path

import pytest
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.survey.open_log import open_log
from rocketstore.survey.places import StorePlaces

PACKAGE = Path(rocketstore.__file__).parent


@pytest.fixture
def store(tmp_path):
    config = StoreConfig(**SMALL)
    with rocketstore.open(tmp_path / "store", "a", config=config) as writer:
        writer.put_message(Message("T", b"body"))
    return tmp_path / "store"


def test_all_options_of_the_configuration_are_used(store):
    config = StoreConfig(force_verify_prop_crc=True, message_delay_level="1s 2s", mapped_file_size_commit_log=1 << 16)
    with open_log(StorePlaces.of(store, config), config) as log:
        assert log.reader.options == {"force_verify_prop_crc": True, "message_delay_level": "1s 2s"}
        assert (log.file_run.given_size, log.directories) == (1 << 16, [store / "commitlog"])


def test_a_missing_directory_is_left_out(store):
    config = StoreConfig(store_path_commit_log=f"{store / 'commitlog'},{store / 'other'}")
    with open_log(StorePlaces.of(store, config), config) as log:
        assert (log.directories, log.max_phy_offset > 0) == ([store / "commitlog"], True)


def test_a_missing_log_is_an_error_or_an_empty_log(tmp_path):
    places = StorePlaces.of(tmp_path)
    with pytest.raises(FileNotFoundError, match="commitlog"):
        open_log(places, StoreConfig())
    with open_log(places, StoreConfig(), may_be_missing=True) as log:
        assert log.max_phy_offset == 0


def test_a_remote_directory_of_the_log_is_listed_once_when_it_is_opened(store, monkeypatch):
    pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    from support.remote import counted

    monkeypatch.setattr("rocketstore.disk.remote.remote_path.LISTED", 0.0)
    path = counted(store)
    with open_log(StorePlaces.of(path), StoreConfig()) as log:
        assert log.file_run.files
    assert sorted(path.fs.lists) == [str(store), str(store / "commitlog")]


def test_no_module_but_open_log_chooses_options_for_a_log():
    opens = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "CommitLog.open" and node.keywords
    }
    assert opens == set()

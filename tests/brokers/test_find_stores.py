"""Which stores ``open_many`` opens, and the names of their brokers."""

import json
import shutil

import pytest
from support.several_stores import CONFIG, draw_stores

import rocketstore
from rocketstore import Message, StoreError
from rocketstore.brokers.names import names_of_paths


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return draw_stores(tmp_path_factory.mktemp("made"))


@pytest.fixture
def parent(made, tmp_path):
    for name, root in made.items():
        shutil.copytree(root, tmp_path / "stores" / f"broker-{name}")
    return tmp_path / "stores"


def names_in(paths, **options):
    with rocketstore.open_many(paths, **options) as brokers:
        return [*brokers.stores]


def test_a_pattern_opens_the_stores_that_it_matches_in_their_order(parent):
    assert names_in(f"{parent}/*") == ["broker-a", "broker-b", "broker-c"]
    assert names_in(parent / "broker-[bc]") == ["broker-b", "broker-c"]
    assert names_in([parent / "broker-c", f"{parent}/*-a", parent / "broker-c"]) == ["broker-c", "broker-a"]
    assert names_in(str(parent / "broker-a")) == ["broker-a"]
    assert names_in(f"{parent.parent}/**/broker-b") == ["broker-b"]


def test_matches_that_are_no_stores_are_left_out_and_named(parent):
    (parent / "broker.log").touch()
    (parent / "empty").mkdir()
    (parent / ".hidden").mkdir()
    with rocketstore.open_many(f"{parent}/*") as brokers:
        assert [*brokers.stores] == ["broker-a", "broker-b", "broker-c"]
        assert brokers.skipped == [f"{parent / name}: is no store, and is left out" for name in ("broker.log", "empty")]
        assert brokers.problems == []


def test_a_pattern_without_a_store_is_one_clear_sentence(parent):
    with pytest.raises(FileNotFoundError, match=r"no file or directory matches this pattern.*broker-x"):
        rocketstore.open_many(f"{parent}/broker-x*")
    with pytest.raises(FileNotFoundError, match=r"No such file or directory.*missing'"):
        rocketstore.open_many(f"{parent}/missing/*")
    with pytest.raises(StoreError, match=r"\*: no store matches this pattern, only stores: did you mean one of"):
        rocketstore.open_many(f"{parent.parent}/*")
    with pytest.raises(ValueError, match="give the root of a store"):
        rocketstore.open_many([])


def test_a_named_path_that_is_no_store_gives_a_warning_and_hides_no_store(parent):
    with pytest.warns(UserWarning, match=r"missing.*left out"):
        brokers = rocketstore.open_many([parent / "missing", parent / "broker-a"])
    with brokers:
        assert [*brokers.stores] == ["broker-a"]
        assert "missing" in brokers.problems[0]
        assert "missing" in brokers.consumer_lag().reasons[0]
        assert not brokers.query_message("T", "k1").complete
    with pytest.raises(FileNotFoundError, match="missing"):
        rocketstore.open_many([parent / "missing"])


def test_an_existing_path_is_no_pattern(tmp_path):
    root = tmp_path / "store[1]"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.put_message(Message("T", b"body"))
    assert names_in(root) == ["store[1]"]


def test_a_directory_of_other_programs_is_no_store(parent):
    (parent / "site" / "index").mkdir(parents=True)
    (parent / "site" / "index" / "main.html").touch()
    assert names_in(f"{parent}/*") == ["broker-a", "broker-b", "broker-c"]


# ---- names -----------------------------------------------------------------------------------------------------


def test_directories_of_one_name_are_named_by_what_differs():
    assert names_of_paths(["/data/a/store", "/data/b/store"]) == ["a", "b"]
    assert names_of_paths(["/x/a/store", "/y/a/store", "/y/b/store"]) == ["x/a", "y/a", "y/b"]
    assert names_of_paths(["/data/store"]) == ["store"]
    assert names_of_paths(["/data/store", "/data/copy"]) == ["store", "copy"]
    assert names_of_paths(["/a", "/a/a"]) == ["/a", "/a/a"]
    assert names_of_paths([]) == []


def add_topic(root, name):
    path = root / "config" / "topics.json"
    topics = json.loads(path.read_text())
    topics["topicConfigTable"][name] = {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    path.write_text(json.dumps(topics))


def test_the_files_of_a_store_name_its_broker(parent):
    (parent / "broker-a" / "brokerIdentity").write_text("cluster#first#1")
    add_topic(parent / "broker-b", "rmq_sys_SYNC_BROKER_MEMBER_second")
    add_topic(parent / "broker-c", "rmq_sys_SYNC_BROKER_MEMBER_second")
    add_topic(parent / "broker-c", "rmq_sys_SYNC_BROKER_MEMBER_third")
    assert names_in(f"{parent}/*") == ["first", "second", "broker-c"]
    (parent / "broker-a" / "brokerIdentity").write_bytes(b"\xff#")
    assert names_in(f"{parent}/*") == ["broker-a", "second", "broker-c"]


def test_copies_of_one_broker_get_different_names(parent):
    for name in "ab":
        (parent / f"broker-{name}" / "brokerIdentity").write_text("cluster#one#1")
    assert names_in(f"{parent}/*") == ["one@broker-a", "one@broker-b", "broker-c"]


def test_a_real_store_has_the_name_of_its_broker(root_of):
    assert names_in(root_of("default")) == ["lab"]


def test_a_configuration_of_one_log_is_refused_for_several_stores(parent):
    config = rocketstore.StoreConfig(store_path_commit_log=str(parent / "broker-a" / "commitlog"))
    with pytest.raises(ValueError, match="names the directories of one log"):
        rocketstore.open_many(f"{parent}/*", config=config)
    assert len(names_in(f"{parent}/*", config=CONFIG)) == 3


def test_a_pattern_matches_remote_stores_too(parent):
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    memory = fsspec.filesystem("memory")
    memory.put(f"{parent}/", "/many/", recursive=True)
    memory.pipe("/many/broker.log", b"text")
    try:
        with rocketstore.open_many("memory://many/*") as brokers:
            assert [*brokers.stores] == ["broker-a", "broker-b", "broker-c"]
            assert brokers.scan().count() == 180
            assert "broker.log" in brokers.skipped[0]
        with pytest.raises(FileNotFoundError, match="no file or directory matches"):
            rocketstore.open_many("memory://many/x*")
    finally:
        memory.rm("/many", recursive=True)

"""A writer of a store changes no directory of another store, and finds the log of a store that was moved."""

import os
import shutil
from dataclasses import replace

import pytest
from support.places import TEXT, contents, locked, make_backup, make_live
from support.profiles import SMALL

import rocketstore
from rocketstore import CommitLog, Message, StoreConfig, StoreError, StoreLockedError, rebuild, recover, salvage


@pytest.fixture
def live(tmp_path):
    return make_live(tmp_path / "live")


@pytest.fixture
def backup(live, tmp_path):
    """A copy of a store, without its commit log."""
    return make_backup(live, tmp_path / "backup", "commitlog")


@pytest.fixture
def conf(tmp_path):
    def read(text):
        (tmp_path / "broker.conf").write_text(TEXT + text)
        return StoreConfig.from_broker_conf(tmp_path / "broker.conf")

    return read


def put(root, config):
    with rocketstore.open(root, "a", config=config) as store:
        store.put_message(Message("T", b"more"))


def expire(root, config):
    with rocketstore.open(root, "r+", config=config) as store:
        return store.delete_expired_files(before_phy_offset=65536)


WRITERS = {
    "put": put,
    "recover": lambda root, config: recover(root, config=config),
    "recover as a broker": lambda root, config: recover(root, config=config, policy="broker"),
    "dry run": lambda root, config: recover(root, config=config, dry_run=True),
    "rebuild": lambda root, config: rebuild(root, config=config),
    "expiry": expire,
}
LINES = [
    "storePathRootDir={live}\nstorePathCommitLog={live}/commitlog\n",
    "storePathCommitLog={live}/commitlog\n",
    "storePathRootDir={backup}\nstorePathCommitLog={live}/commitlog\n",
    "storePathCommitLog={live}/commitlog,{backup}/b\n",
]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("lines", LINES)
def test_no_writer_changes_the_log_of_another_store(live, backup, conf, write, lines):
    before = contents(live, backup)
    with pytest.raises(StoreError, match="belongs to the store at") as caught:
        write(backup, conf(lines.format(live=live, backup=backup)))
    assert str(live / "commitlog") in str(caught.value)
    assert str(backup) in str(caught.value)
    assert contents(live, backup) == before


@pytest.mark.parametrize(
    "part",
    [
        "commitlog",
        "consumequeue",
        "consumequeue/T",
        "consumequeue/T/0",
        "index",
        "config",
        f"commitlog/{0:020}",
        f"consumequeue/T/0/{0:020}",
        "index/*",
        "checkpoint",
        "lock",
    ],
)
@pytest.mark.parametrize("name", ["put", "recover", "rebuild"])
def test_no_writer_follows_a_link_into_another_store(live, tmp_path, part, name):
    (part,) = [str(path.relative_to(live)) for path in live.glob(part)]
    shutil.copytree(live, tmp_path / "copy")
    copy = tmp_path / "copy" / part
    shutil.rmtree(copy) if copy.is_dir() else copy.unlink()
    copy.symlink_to(live / part)
    before = contents(live, tmp_path / "copy")
    with pytest.raises(StoreError, match="belongs to the store at") as caught:
        WRITERS[name](tmp_path / "copy", StoreConfig(**SMALL))
    assert str(copy) in str(caught.value)
    assert str(live / part) in str(caught.value)
    assert contents(live, tmp_path / "copy") == before


@pytest.mark.parametrize("shared", ["commitlog", "consumequeue", "index", "checkpoint"])
def test_no_writer_changes_a_file_that_another_store_shares_by_a_hard_link(live, tmp_path, shared):
    def copy(source, target):
        (os.link if shared in source else shutil.copy2)(source, target)

    shutil.copytree(live, tmp_path / "copy", copy_function=copy)
    before = contents(live)
    for write in (put, WRITERS["recover"], WRITERS["rebuild"]):
        with pytest.raises(StoreError, match="is a hard link") as caught:
            write(tmp_path / "copy", StoreConfig(**SMALL))
        assert str(tmp_path / "copy" / shared) in str(caught.value)
    assert contents(live) == before
    put(tmp_path / "copy", StoreConfig(**SMALL, write_elsewhere=True))


@pytest.mark.parametrize("part", ["batchconsumequeue", "consumequeue_ext"])
def test_a_file_of_another_kind_of_queue_may_not_lead_into_another_store(live, tmp_path, part):
    shutil.copytree(live, tmp_path / "copy")
    for root in (live, tmp_path / "copy"):
        (root / part / "T" / "0").mkdir(parents=True)
    (live / part / "T" / "0" / f"{0:020}").write_bytes(bytes(4600))
    (tmp_path / "copy" / part / "T" / "0" / f"{0:020}").symlink_to(live / part / "T" / "0" / f"{0:020}")
    with pytest.raises(StoreError, match="belongs to the store at"):
        put(tmp_path / "copy", StoreConfig(**SMALL))


def test_links_to_files_of_the_same_store_are_followed(live):
    queue = live / "consumequeue" / "T" / "0"
    (queue / f"{0:020}").rename(live / "moved")
    (queue / f"{0:020}").symlink_to(live / "moved")
    put(live, StoreConfig(**SMALL))
    with rocketstore.open(live, config=StoreConfig(**SMALL)) as store:
        assert sum(len(store.consume_queue(*queue)) for queue in store.queues()) == 2


def test_expired_files_of_another_store_are_deleted_with_the_flag_alone(tmp_path, conf):
    live = tmp_path / "live"
    with rocketstore.open(live, "a", config=StoreConfig(**SMALL)) as store:
        for _ in range(5):
            store.put_message(Message("T", bytes(40_000)))
    make_backup(live, tmp_path / "backup", "commitlog")
    config = conf(f"storePathRootDir={live}\nstorePathCommitLog={live}/commitlog\n")
    before = contents(live)
    with pytest.raises(StoreError, match="belongs to the store at"):
        expire(tmp_path / "backup", config)
    assert contents(live) == before
    deleted = expire(tmp_path / "backup", replace(config, write_elsewhere=True))
    assert deleted.commit_log.paths == [live / "commitlog" / f"{0:020}"]
    assert not deleted.commit_log.paths[0].exists()


def test_a_new_store_whose_log_would_be_another_stores_is_not_made(live, conf, tmp_path):
    before = contents(live)
    with pytest.raises(StoreError, match="belongs to the store at"):
        put(tmp_path / "new", conf(LINES[0].format(live=live)))
    assert not (tmp_path / "new").exists()
    assert contents(live) == before


def test_relative_paths_lead_where_they_lead_from_the_working_directory(live, backup, conf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = contents(live, backup)
    for lines in LINES:
        with pytest.raises(StoreError, match="belongs to the store at") as caught:
            put("backup", conf(lines.format(live="live", backup="backup")))
        assert str(live / "commitlog") in str(caught.value)
    assert contents(live, backup) == before
    put("live", conf("storePathRootDir=live\nstorePathCommitLog=live/commitlog\n"))
    put("live", conf(f"storePathRootDir={live}\nstorePathCommitLog=./live/../live/commitlog\n"))
    monkeypatch.chdir(live)
    put(".", conf("storePathRootDir=.\nstorePathCommitLog=commitlog\n"))
    with rocketstore.open(live, config=StoreConfig(**SMALL)) as store:
        assert sum(len(batch) for batch in store.scan()) == 4


def test_a_store_that_is_given_by_a_link_is_its_own(live, conf, tmp_path):
    (tmp_path / "link").symlink_to(live)
    put(tmp_path / "link", StoreConfig(**SMALL))
    put(tmp_path / "link", conf(LINES[0].format(live=live)))
    put(live, conf(LINES[0].format(live=tmp_path / "link")))


def test_with_the_flag_the_other_store_is_written_and_its_lock_held(live, backup, conf):
    config = replace(conf(LINES[0].format(live=live)), write_elsewhere=True)
    with rocketstore.open(backup, "a", config=config) as store:
        store.put_message(Message("T", b"more"))
        with pytest.raises(StoreLockedError):
            rocketstore.open(live, "a", config=StoreConfig(**SMALL))
    put(live, StoreConfig(**SMALL))


def test_with_the_flag_a_lock_of_the_other_store_still_refuses(live, backup, conf):
    config = replace(conf(LINES[0].format(live=live)), write_elsewhere=True)
    before = contents(live)
    with locked(live):
        for write in (put, expire, WRITERS["recover"], WRITERS["rebuild"]):
            with pytest.raises(StoreLockedError):
                write(backup, config)
    assert contents(live) == before


def test_a_log_elsewhere_that_belongs_to_no_other_store_is_written(live, conf, tmp_path):
    (live / "commitlog").rename(tmp_path / "log")
    put(live, conf(f"storePathRootDir={live}\nstorePathCommitLog={tmp_path}/log\n"))
    put(live, StoreConfig(**SMALL, store_path_commit_log=str(tmp_path / "log")))
    with pytest.raises(StoreError, match="belongs to the store at"):
        put(live, conf(f"storePathRootDir={tmp_path}/other\nstorePathCommitLog={tmp_path}/log\n"))


def test_a_linked_log_is_appended_to_under_the_lock_of_its_store(live, tmp_path):
    (tmp_path / "link").symlink_to(live / "commitlog")
    with rocketstore.open(live, "a", config=StoreConfig(**SMALL)), pytest.raises(StoreLockedError):
        CommitLog.open(tmp_path / "link", "r+", mapped_file_size=65536)


def test_a_store_that_was_moved_is_read_and_written_where_it_is(live, conf, caplog, tmp_path):
    config = conf("storePathRootDir=/gone/store\nstorePathCommitLog=/gone/store/commitlog\n")
    with rocketstore.open(live, config=config) as store:
        assert store.get_message("T", 0, 0).messages[0].body == b"body"
    assert f"{live}/commitlog is used instead of /gone/store/commitlog" in caplog.text
    for write in WRITERS.values():
        write(live, config)
    assert "store_path_commit_log" not in (live / "config" / "rocketstore.json").read_text()
    put(live, None)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_log_that_is_not_where_the_brokers_file_says_is_not_called_gone(live, conf, write):
    before = contents(live)
    with pytest.raises(StoreError, match=r"not at /gone/log, where .*broker.conf says") as caught:
        write(live, conf("storePathCommitLog=/gone/log\n"))
    assert str(live / "commitlog") in str(caught.value)
    assert "deletes" not in str(caught.value)
    assert contents(live) == before


def test_a_directory_is_made_in_a_store_under_its_lock(live, tmp_path):
    shutil.copytree(live, tmp_path / "copy")
    with rocketstore.open(live, "a", config=StoreConfig(**SMALL)):
        with pytest.raises(StoreLockedError):
            rebuild(tmp_path / "copy", out=live / "new", config=StoreConfig(**SMALL))
        with pytest.raises(StoreLockedError):
            salvage(tmp_path / "copy", live / "new", config=StoreConfig(**SMALL))
    assert not (live / "new").exists()

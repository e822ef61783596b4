"""The files that brokers and controllers of 4.6 to 5.5.1 make in a root are known; any other one is reported."""

import shutil

import pytest
from support.cli import golden

import rocketstore
from rocketstore import StoreConfig
from rocketstore.verify.known_files import is_known

OF_BROKERS = [
    "commitlog", "consumequeue", "consumequeue_ext", "consumequeue_rocksdb", "batchconsumequeue", "index", "config",
    "checkpoint", "lock", "abort", "abort.bak", "abort.tmp", "transaction", "compaction", "timerwheel",
    "timerwheel.0", "timerwheel.14092", "timerwheel.14092.tmp", "timerlog", "rocksdbstore", "kvStore",
    "tiered_index_file", "epochFileCheckpoint", "epochFileCheckpoint.bak", "epochFileCheckpoint.tmp",
    "brokerIdentity", "brokerIdentity.bak", "brokerIdentity-temp", "brokerIdentity-temp.bak", "dledger-n0",
    "dledger-broker-a_1",
]  # fmt: skip
OF_JRAFT = "log", "raft_meta", "snapshot"
OF_ROCKETSTORE = "rocketstore-cut", "rocketstore-intent.json", "rocketstore-salvage", "index.bak-20260101120000"
TYPOS = [
    "commitlogs", "commitLog", "consumequeue_ex", "batchconsumequeue_ext", "batchconsumequeue_rocksdb", "indexes",
    "config.bak", "checkpoint.bak", "lock.bak", "abort.bak.bak", "aborted", "timerwheel.x", "timerwheels",
    "timerwheel.1.2", "timerlog.bak", "rocksdb", "kvstore", "epochFileCheckpoints", "brokerIdentity_temp",
    "brokerIdentity-tmp", "dledger", "dledger_n0", "rocketstore", "log", "topics.json", "00000000000000000000",
]  # fmt: skip


def strays_of(root, config=None):
    return [one.path.name for one in rocketstore.verify(root, config=config).findings if one.kind == "foreign-file"]


@pytest.mark.parametrize("name", [*OF_BROKERS, *OF_ROCKETSTORE])
def test_a_file_of_a_broker_is_known(name):
    assert is_known(name, [name])


@pytest.mark.parametrize("name", TYPOS)
def test_a_name_that_nobody_makes_is_not_known(name):
    assert not is_known(name, [*OF_BROKERS, name])


@pytest.mark.parametrize("name", OF_JRAFT)
def test_files_of_jraft_are_known_together(name):
    assert is_known(name, OF_JRAFT)
    assert not is_known(name, [name])


@pytest.fixture
def root(tmp_path):
    return shutil.copytree(golden("basic-5.5.0"), tmp_path / "store")


def test_verify_reports_no_file_of_a_broker(root):
    for name in OF_BROKERS:
        if name not in {"abort", "dledger-n0", "dledger-broker-a_1"} and not (root / name).exists():
            (root / name).touch()
    for name in OF_JRAFT:
        (root / name).mkdir()
    assert strays_of(root) == []


def test_verify_reports_files_that_nobody_makes(root):
    for name in TYPOS:
        (root / name).touch()
    assert strays_of(root) == sorted(TYPOS)


def test_tiered_storage_in_the_root_is_known_by_its_setting(root):
    (root / "tier").mkdir()
    assert strays_of(root) == ["tier"]
    assert strays_of(root, StoreConfig(tiered_store_file_path=str(root / "tier"))) == []

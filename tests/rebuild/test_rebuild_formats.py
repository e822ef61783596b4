"""rebuild makes queues, index, configuration and checkpoint of RocksDB and of DLedger in a new directory."""

import shutil
import sys

import pytest
from support.repetitions import only_some_quick

import rocketstore
from rocketstore import BrokerConfig, StoreConfig
from rocketstore.rebuild.broker_files import split_light_offsets
from rocketstore.state.checkpoint import StoreCheckpoint

pytestmark = pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")
SMALL_INDEX = StoreConfig(max_hash_slot_num=1000, max_index_num=4000)


def units_by_queue(root, config=None):
    with rocketstore.open(root, config=config) as store:
        return {
            queue: [unit[:4] for unit in store.consume_queue(*queue) if not unit.is_filler] for queue in store.queues()
        }


def tables(root):
    config = BrokerConfig.open(root)
    return config.topics, config.subscription_groups, config.consumer_offsets


@pytest.mark.parametrize(
    "name",
    only_some_quick(
        ["rocksdb-cq", "rocksdb-cq-separate", "lite-rocksdb", "config-v2"], "rocksdb-cq-separate", "config-v2"
    ),
)
def test_queues_and_configuration_of_rocksdb_become_files(root_of, tmp_path, name):
    pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    root, out = root_of(name), tmp_path / "out"
    report = rocketstore.rebuild(root, out=out, config=SMALL_INDEX if name == "lite-rocksdb" else None)
    assert tables(out) == tables(root)
    config = StoreConfig(store_path_commit_log=str(root / "commitlog"))
    assert units_by_queue(out, config) == units_by_queue(root)
    with rocketstore.open(root) as store:
        assert store.commit_log.max_phy_offset > 0
        last = store.commit_log.last_phy_offset  # known once the end was looked for
        assert StoreCheckpoint.open(out / "checkpoint").confirm_phy_offset == last
    assert any(f"storePathRootDir={out}, storePathCommitLog={root / 'commitlog'}" in note for note in report.notes)
    assert not (out / "config" / "timercheck").exists()
    assert rocketstore.verify(out, config=config).ok


def test_sizes_that_no_file_shows_are_assumed_with_a_note(root_of, tmp_path):
    pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    *_, note = rocketstore.rebuild(root_of("rocksdb-cq"), out=tmp_path / "out").notes
    assert "assumed: mappedFileSizeConsumeQueue=6000000, maxHashSlotNum=1000, maxIndexNum=4000" in note
    config = StoreConfig(mapped_file_size_consume_queue=2000, max_hash_slot_num=1000, max_index_num=4000)
    report = rocketstore.rebuild(root_of("rocksdb-cq"), out=tmp_path / "given", config=config)
    assert not any("assumed" in note for note in report.notes)


def test_queues_of_dledgers_log_are_made_beside_its_configuration(root_of, tmp_path):
    root, out = root_of("dledger"), tmp_path / "out"
    report = rocketstore.rebuild(root, out=out)
    assert tables(out) == tables(root)
    assert any(f"move {root / 'dledger-n0'} here" in note for note in report.notes)
    expected = units_by_queue(root)
    shutil.copytree(root / "dledger-n0", out / "dledger-n0")
    assert units_by_queue(out) == expected
    assert rocketstore.verify(out).ok


def test_without_rocksdict_queues_are_made_and_the_configuration_is_named(root_of, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    report = rocketstore.rebuild(root_of("rocksdb-cq"), out=tmp_path / "out")
    assert report.queues == 13
    (note,) = (note for note in report.notes if "config lacks" in note)
    assert "topics.json, subscriptionGroup.json, consumerOffset.json" in note
    assert "rocketstore[rocksdb]" in note


@pytest.mark.parametrize("options", [{"topic": "Plain"}, {"consume_queue": False}])
def test_a_part_of_the_queues_gets_no_configuration(root_of, tmp_path, options):
    rocketstore.rebuild(root_of("rocksdb-cq"), out=tmp_path / "out", config=SMALL_INDEX, **options)
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {"consumequeue", "index"}


def test_offsets_of_light_queues_get_a_table_of_their_own():
    offsets = {"A@g": {0: 1, 1: 2}, "%LMQ%x@g": {0: 7}}
    assert split_light_offsets({"offsetTable": offsets}) == {
        "offsetTable": {"A@g": {0: 1, 1: 2}},
        "lmqOffsetTable": {"%LMQ%x@g": 7},
    }
    assert split_light_offsets({"offsetTable": {"A@g": {0: 1}}}) is None

"""convert: a store of other sizes, of another release or format has the same messages at the same queue offsets."""

import shutil
import sys

import numpy as np
import pytest
from support import stores
from support.contents import contents, files_of
from support.killed import killed_at
from support.repetitions import only_some_quick

import rocketstore
from rocketstore import Message, StoreConfig, StoreError, convert, diff, verify
from rocketstore.convert.offset_map import OffsetMap
from rocketstore.convert.timers import TIMER_UNIT
from rocketstore.state.lock_file import StoreLock

pytestmark = pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")

SIZES = ("mapped_file_size_commit_log", "mapped_file_size_consume_queue", "max_hash_slot_num", "max_index_num")
OTHER = dict(zip(SIZES, (96 << 10, 4000, 77, 500), strict=True))
GOLDEN = (
    "basic-5.5.0",
    "basic-5.3.3",
    "rich-5.5.0",
    "batch-5.5.0",
    "lmq-5.5.0",
    "crc-5.5.0",
    "cqext-5.5.0",
    "step-5.3.3",
)

ROCKS_STORES = ("rocksdb-cq", "rocksdb-cq-separate", "lite-rocksdb", "config-v2", "rocksdb-index")


@pytest.fixture(scope="module")
def golden_root(tmp_path_factory):
    """A function from the name of a golden store to its root, which no test changes."""
    found = {}

    def root_of(name):
        if name not in found:
            found[name] = stores.unpack(name, tmp_path_factory.mktemp("golden"))
        return found[name]

    return root_of


def without_zeros(files):
    return {name: data for name, data in files.items() if any(data)}


@pytest.mark.parametrize("name", only_some_quick(GOLDEN, "rich-5.5.0", "batch-5.5.0", "cqext-5.5.0", "step-5.3.3"))
def test_other_sizes_and_back_again_give_the_same_bytes(golden_root, tmp_path, name):
    root = golden_root(name)
    release = name.rpartition("-")[2]
    report = convert(root, tmp_path / "other", **OTHER, compat=release)
    assert report.moved > 0 or report.max_phy_offset < OTHER["mapped_file_size_commit_log"]
    assert contents(tmp_path / "other") == contents(root)
    assert_same_contents(root, tmp_path / "other")
    assert verify(tmp_path / "other").ok
    settings = stores.settings(name)
    old = {size: settings[size] for size in SIZES}
    convert(tmp_path / "other", tmp_path / "back", **old)
    parts = ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext")
    assert without_zeros(files_of(tmp_path / "back", *parts)) == without_zeros(files_of(root, *parts))
    assert [*files_of(tmp_path / "back", "index").values()] == [*files_of(root, "index").values()]
    report = diff(root, tmp_path / "back")
    assert report.same, report


def assert_same_contents(one, other):
    report = diff(one, other, by_content=True)
    assert report.same, report


def test_the_first_file_is_left_out_if_a_queue_begins_late(golden_root, tmp_path):
    root = golden_root("cut-5.5.0")
    report = convert(root, tmp_path / "new", **OTHER)
    assert (report.min_phy_offset, report.records) == (2 * OTHER["mapped_file_size_commit_log"], 232)
    old, new = contents(root), contents(tmp_path / "new")
    assert new[1] == old[1]
    assert verify(tmp_path / "new").ok


def test_a_queue_whose_messages_expired_keeps_its_next_offset(tmp_path):
    config = StoreConfig(**OTHER, allocate_file_ahead=False)
    with rocketstore.open(tmp_path / "old", "a", config=config) as store:
        store.put_messages([Message("Rare", b"x", queue_id=0) for _ in range(7)])
        store.put_messages([Message("T", bytes(2000), queue_id=0) for _ in range(100)])
    (tmp_path / "old" / "commitlog" / f"{0:020}").unlink()
    report = convert(tmp_path / "old", tmp_path / "new", mapped_file_size_commit_log=64 << 10)
    assert "1 queue without messages in the log" in "".join(report.notes)
    assert contents(tmp_path / "new")[1] == contents(tmp_path / "old")[1]
    assert verify(tmp_path / "new").ok
    with rocketstore.open(tmp_path / "new", "a") as store:
        assert store.put_message(Message("Rare", b"y", queue_id=0)).queue_offset == 7


@pytest.mark.parametrize("name", ["default", "lmq", "batchcq", "dledger", "dledger-files", "longtopic"])
def test_stores_of_brokers_have_the_same_messages_with_small_files(root_of, tmp_path, name):
    report = convert(root_of(name), tmp_path / "new", **{**OTHER, "mapped_file_size_commit_log": 12_000})
    assert report.moved > 0
    assert contents(tmp_path / "new") == contents(root_of(name))
    assert_same_contents(root_of(name), tmp_path / "new")
    assert verify(tmp_path / "new").ok
    assert not (tmp_path / "new" / "dledger-n0").exists()


@pytest.mark.parametrize("name", only_some_quick(ROCKS_STORES, "lite-rocksdb", "rocksdb-index"))
def test_queues_and_configuration_in_rocksdb_become_files(root_of, tmp_path, name):
    pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    sizes = {**OTHER, "mapped_file_size_commit_log": 20_000}
    report = convert(root_of(name), tmp_path / "new", **sizes)
    assert contents(tmp_path / "new") == contents(root_of(name))
    assert_same_contents(root_of(name), tmp_path / "new")
    assert verify(tmp_path / "new").ok
    assert report.index_items > 0
    with rocketstore.open(tmp_path / "new") as store:
        assert store.formats.is_plain


def test_without_rocksdict_nothing_is_written_and_the_extra_is_named(root_of, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(StoreError, match=r"topics\.json.*rocketstore\[rocksdb\]"):
        convert(root_of("rocksdb-cq"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_sizes_that_no_file_shows_are_assumed_and_named(root_of, tmp_path):
    pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    report = convert(root_of("rocksdb-cq"), tmp_path / "new")
    assert any("assumed: mappedFileSizeConsumeQueue=6000000" in note for note in report.notes)


def test_commits_name_the_new_offset_of_their_half_message(root_of, tmp_path):
    report = convert(root_of("default"), tmp_path / "new", mapped_file_size_commit_log=8192)
    assert report.prepared > 0
    with rocketstore.open(tmp_path / "new") as store:
        named = [message for message in messages(store) if message.prepared_transaction_offset > 0]
        halves = [store.commit_log.get_message(message.prepared_transaction_offset) for message in named]
    assert len(named) == report.prepared
    assert {message.topic for message in halves} == {"RMQ_SYS_TRANS_HALF_TOPIC"}
    for message, half in zip(named, halves, strict=True):
        assert half.properties["UNIQ_KEY"] == message.properties["UNIQ_KEY"]


def messages(store):
    return [message for batch in store.scan() for message in batch]


def test_ids_that_lead_to_no_message_any_more_are_named(root_of, tmp_path):
    report = convert(root_of("default"), tmp_path / "new", mapped_file_size_commit_log=20_000)
    named = {(row.topic, row.property): row for row in report.stale_ids}
    row = named["%RETRY%G1", "ORIGIN_MESSAGE_ID"]
    with rocketstore.open(tmp_path / "new") as store, rocketstore.open(root_of("default")) as old:
        first = store.commit_log.get_message(row.first_phy_offset)
        assert (first.topic, first.properties["ORIGIN_MESSAGE_ID"]) == ("%RETRY%G1", row.first_id)
        meant = old.query_message_by_id(row.first_id)
        assert store.commit_log.get_message(row.first_new_offset).uniq_key == meant.uniq_key
        retries = [message for message in messages(store) if message.topic == "%RETRY%G1"]
    assert 0 < row.messages <= len(retries)
    assert report.to_arrow().num_rows == len(report.stale_ids)
    assert "ORIGIN_MESSAGE_ID" in repr(report)


def test_ids_of_brokers_with_ipv6_addresses_are_named(tmp_path):
    config = StoreConfig(**OTHER, allocate_file_ahead=False, store_host="[fe80::1234]:10911")
    with rocketstore.open(tmp_path / "old", "a", config=config) as store:
        store.put_messages([Message("T", bytes(2000), queue_id=0) for _ in range(60)])
        names = [message.msg_id for message in messages(store)]
        store.put_message(
            Message("R", b"x", properties={"mine": names[50], "stays": names[0], "none": names[50] + "0"})
        )
    report = convert(tmp_path / "old", tmp_path / "new", mapped_file_size_commit_log=20_000)
    assert [(row.property, row.first_id, row.messages) for row in report.stale_ids] == [("mine", names[50], 1)]


def test_a_log_in_several_directories_becomes_one(root_of, tmp_path):
    root = root_of("multipath")
    config = StoreConfig(store_path_commit_log=",".join(str(root / name) for name in ("cl0", "cl1", "cl2")))
    convert(root, tmp_path / "new", mapped_file_size_commit_log=20_000, config=config)
    assert contents(tmp_path / "new") == contents(root, config)
    assert verify(tmp_path / "new").ok


def test_without_moved_records_the_log_is_the_same_and_no_id_is_named(root_of, tmp_path):
    report = convert(root_of("default"), tmp_path / "new", mapped_file_size_consume_queue=2000)
    assert (report.moved, report.stale_ids) == (0, ())
    assert without_zeros(files_of(tmp_path / "new", "commitlog")) == without_zeros(
        files_of(root_of("default"), "commitlog")
    )


@pytest.mark.parametrize("name", ["rich-5.5.0", "crc-5.5.0"])
def test_crc_properties_of_moved_records_are_right(golden_root, tmp_path, name):
    convert(golden_root(name), tmp_path / "new", mapped_file_size_commit_log=96 << 10)
    config = StoreConfig(force_verify_prop_crc=name.startswith("crc"))
    with rocketstore.open(tmp_path / "new", config=config) as store:
        assert store.scan(verify_crc=True).count() == rocketstore.open(golden_root(name)).scan().count()


def test_timers_that_wait_lead_to_their_messages(tmp_path):
    root = stores.unpack_broker("pending", tmp_path / "golden", "states")
    convert(root, tmp_path / "new", mapped_file_size_commit_log=16 << 10)
    with rocketstore.open(root) as old, rocketstore.open(tmp_path / "new") as new:
        expected, found = ([row._replace(phy_offset=0) for row in store.pending()] for store in (old, new))
        assert found == expected
        old_units, new_units = (timer_units(each) for each in (root, tmp_path / "new"))
        assert len(new_units) == len(old_units) > 0
        for before, after in zip(old_units, new_units, strict=True):
            message = new.commit_log.get_message(int(after["phy_offset"]))
            assert message.uniq_key == old.commit_log.get_message(int(before["phy_offset"])).uniq_key
            assert message.size == after["message_size"]


def timer_units(root):
    data = b"".join(path.read_bytes() for path in sorted((root / "timerlog").iterdir()))
    units = np.frombuffer(data[: len(data) // TIMER_UNIT.itemsize * TIMER_UNIT.itemsize], TIMER_UNIT)
    return units[units["size"] == TIMER_UNIT.itemsize]


def test_uncommitted_entries_of_dledger_are_left_out_and_counted(tmp_path):
    from support import dledger_stores

    dledger_stores.make_store(tmp_path / "old", committed=49)
    report = convert(tmp_path / "old", tmp_path / "new", mapped_file_size_commit_log=20_000)
    assert report.records == 50
    assert any("not committed" in note for note in report.notes)
    assert contents(tmp_path / "new") == contents(tmp_path / "old")


def test_an_older_release_gets_its_own_index_and_checkpoint(golden_root, tmp_path):
    root = golden_root("basic-5.5.0")
    report = convert(root, tmp_path / "new", compat="4.9.8")
    newer = convert(root, tmp_path / "newer")
    assert report.index_items < newer.index_items  # no items of tags
    checkpoint = rocketstore.StoreCheckpoint.open(tmp_path / "new" / "checkpoint")
    assert (checkpoint.confirm_phy_offset, checkpoint.logics_physical_offset) == (0, 0)
    assert contents(tmp_path / "new") == contents(root)


@pytest.mark.parametrize(("name", "reason"), [("rich-5.5.0", "cannot read"), ("batchcq", "cannot read")])
def test_records_that_the_release_cannot_read_are_refused(golden_root, root_of, tmp_path, name, reason):
    root = root_of(name) if name == "batchcq" else golden_root(name)
    with pytest.raises(StoreError, match=reason):
        convert(root, tmp_path / "new", compat="4.5.2")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("after", [pytest.param(None, marks=pytest.mark.slow), "copy_broker_files"])
def test_killed_at_any_call_it_is_run_again(golden_root, tmp_path, after):
    """Killed at calls of the beginning, and at each call of the end."""
    root, new, call = golden_root("lmq-5.5.0"), tmp_path / "new", 1
    expected = contents(root)
    counted = None if after is None else (sys.modules["rocketstore.convert.convert"], after)
    while killed_at(call, lambda: convert(root, new, **OTHER), counted):
        call += 1 if after else 1 + call
        if (new / "rocketstore-convert").exists() or not (new / "commitlog").exists():  # else it was complete
            convert(root, new, **OTHER)
        assert contents(new) == expected
        assert not (new / "rocketstore-convert").exists()
        shutil.rmtree(new)
    assert call >= 10


def test_a_new_directory_with_files_of_others_is_refused(golden_root, tmp_path):
    (tmp_path / "new" / "rocketstore-convert").mkdir(parents=True)
    (tmp_path / "new" / "mine").write_text("x")
    with pytest.raises(FileExistsError, match="not empty"):
        convert(golden_root("lmq-5.5.0"), tmp_path / "new")
    assert (tmp_path / "new" / "mine").read_text() == "x"


def test_a_directory_in_the_store_is_refused(golden_root):
    with pytest.raises(ValueError, match="is inside"):
        convert(golden_root("lmq-5.5.0"), golden_root("lmq-5.5.0") / "new")


def test_a_store_that_is_written_is_refused(golden_root, tmp_path):
    root = shutil.copytree(golden_root("lmq-5.5.0"), tmp_path / "old")
    lock = StoreLock(root / "lock")
    lock.acquire()
    try:
        with pytest.raises(rocketstore.StoreLockedError):
            convert(root, tmp_path / "new")
    finally:
        lock.release()


def test_files_that_are_too_small_for_a_record_are_refused(golden_root, tmp_path):
    with pytest.raises(ValueError, match="too small"):
        convert(golden_root("rich-5.5.0"), tmp_path / "new", mapped_file_size_commit_log=200)
    assert not (tmp_path / "new").exists()


def test_a_damaged_table_of_topics_is_an_error_that_names_it(golden_root, tmp_path):
    root = shutil.copytree(golden_root("broker-5.5.0"), tmp_path / "old")
    for path in (root / "config").glob("topics.json*"):
        path.write_text("{")
    with pytest.raises(StoreError, match=r"old/config/topics\.json"):
        convert(root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_damage_in_the_log_is_an_error_and_nothing_is_left(golden_root, tmp_path):
    root = shutil.copytree(golden_root("basic-5.5.0"), tmp_path / "old")
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(50_000)
        file.write(bytes(300))
    with pytest.raises(rocketstore.CorruptFileError):
        convert(root, tmp_path / "new", **OTHER)
    assert not (tmp_path / "new").exists()


def test_offsets_are_mapped_by_runs():
    offsets = OffsetMap()
    offsets.add(np.array([0, 10, 30]), np.array([10, 20, 5]), np.array([100, 110, 130]))
    offsets.add(np.array([35, 60]), np.array([5, 10]), np.array([135, 200]))
    assert len(offsets) == 2
    assert offsets.find(np.array([0, 10, 30, 35, 40, 60, 70, -1])).tolist() == [100, 110, 130, 135, -1, 200, -1, -1]

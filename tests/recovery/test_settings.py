"""Settings of a broker that no file of a store states: they are learned from sound units, or named."""

import json
import shutil
import struct
from dataclasses import replace

import pytest
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig, StoreError

CONFIG = StoreConfig(**SMALL, allocate_file_ahead=False)
LEVELS = "7s 9s 11s 20s 40s"
BEGIN = 1_700_000_000_000
TOPIC = "SCHEDULE_TOPIC_XXXX"
LIGHT = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}


def put_delayed(root, *levels, config=CONFIG, delays=LEVELS):
    with rocketstore.open(root, "a", config=replace(config, message_delay_level=delays)) as store:
        for level in levels:
            message = Message(TOPIC, b"x", queue_id=level - 1, delay_time_level=level)
            store.put_message(message, store_timestamp=BEGIN)
    return root


def forget(root, *names):
    """Remove settings that a broker's store does not state."""
    path = root / "config" / "rocketstore.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in settings.items() if name not in names}))


def saved(root):
    return json.loads((root / "config" / "rocketstore.json").read_text())


def delays_of(root, level):
    """Return the delays in the units of a level, in seconds."""
    data = (root / "consumequeue" / TOPIC / str(level - 1) / ("0" * 20)).read_bytes()
    times = [time for _, size, time in struct.iter_unpack(">qiq", data[:2000]) if size]
    return [(time - BEGIN) // 1000 for time in times]


def lose_last_unit(root, level):
    path = root / "consumequeue" / TOPIC / str(level - 1) / ("0" * 20)
    data = path.read_bytes()
    end = 20 * len(delays_of(root, level))
    path.write_bytes(data[: end - 20] + bytes(len(data) - end + 20))
    (root / "abort").touch()


# ---- delay levels ------------------------------------------------------------------------------------------


def test_rebuild_keeps_the_delivery_times_that_units_show(tmp_path):
    root = put_delayed(tmp_path / "store", 1, 5, 5)
    forget(root, "message_delay_level")
    report = rocketstore.rebuild(root)
    assert (delays_of(root, 1), delays_of(root, 5)) == ([7], [40, 40])
    assert report.assumptions == ()
    assert "message_delay_level" not in saved(root)


@pytest.mark.parametrize("config", [None, CONFIG], ids=("saved", "given"))
def test_recover_completes_units_with_the_levels_that_units_show(tmp_path, config):
    root = put_delayed(tmp_path / "store", 5, 5, 5)
    forget(root, "message_delay_level")
    lose_last_unit(root, 5)
    assert rocketstore.recover(root, config=config).assumptions == ()
    assert delays_of(root, 5) == [40, 40, 40]
    assert "message_delay_level" not in saved(root)


@pytest.mark.parametrize("config", [None, CONFIG], ids=("saved", "given"))
def test_a_writer_puts_by_the_levels_that_units_show(tmp_path, config):
    root = put_delayed(tmp_path / "store", 5)
    forget(root, "message_delay_level")
    with rocketstore.open(root, "a", config=config) as store:
        message = Message(TOPIC, b"x", queue_id=4, delay_time_level=5)
        store.put_message(message, store_timestamp=BEGIN)
    assert delays_of(root, 5) == [40, 40]
    assert "message_delay_level" not in saved(root)


def test_saved_levels_count_although_a_configuration_has_the_defaults(tmp_path):
    root = put_delayed(tmp_path / "store", 5)
    shutil.rmtree(root / "consumequeue")
    assert rocketstore.rebuild(root, config=CONFIG).assumptions == ()
    assert delays_of(root, 5) == [40]


def test_levels_of_a_broker_s_file_are_facts_and_changed_times_are_named(tmp_path):
    root = put_delayed(tmp_path / "store", 5)
    (tmp_path / "broker.conf").write_text(
        "maxIndexNum=400\nmaxHashSlotNum=100\nmappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\n"
    )
    config = StoreConfig.from_broker_conf(tmp_path / "broker.conf")
    with pytest.warns(UserWarning, match="units of level 5 have a delay of 40s. Built units of this level have 1m"):
        report = rocketstore.rebuild(root, config=config)
    assert len(report.assumptions) == 1
    assert delays_of(root, 5) == [60]
    assert saved(root)["message_delay_level"] == config.message_delay_level


def test_levels_without_units_are_named_and_not_saved(tmp_path):
    root = put_delayed(tmp_path / "store", 1, 5)
    forget(root, "message_delay_level")
    shutil.rmtree(root / "consumequeue" / TOPIC / "4")
    with pytest.warns(UserWarning, match=r"messageDelayLevel is assumed.* level 5 \(1m\)"):
        report = rocketstore.rebuild(root)
    assert len(report.assumptions) == 1
    assert (delays_of(root, 1), delays_of(root, 5)) == ([7], [60])
    assert "message_delay_level" not in saved(root)


@pytest.mark.parametrize("policy", ["complete", "broker"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_recover_names_levels_without_units(tmp_path, policy, dry_run):
    root = put_delayed(tmp_path / "store", 5)
    forget(root, "message_delay_level")
    shutil.rmtree(root / "consumequeue")
    (root / "abort").touch()
    with pytest.warns(UserWarning, match=r"messageDelayLevel is assumed.* level 5 \(1m\)"):
        report = rocketstore.recover(root, policy=policy, dry_run=dry_run)
    assert len(report.assumptions) == 1
    assert "message_delay_level" not in saved(root)


def test_opening_for_writing_names_levels_without_units(tmp_path):
    root = put_delayed(tmp_path / "store", 5)
    forget(root, "message_delay_level")
    shutil.rmtree(root / "consumequeue")
    (root / "abort").touch()
    with pytest.warns(UserWarning, match=r"messageDelayLevel is assumed.* level 5 \(1m\)"):
        rocketstore.open(root, "a").close()
    assert "message_delay_level" not in saved(root)


def test_salvage_takes_the_levels_that_units_show(tmp_path):
    root = put_delayed(tmp_path / "store", 5)
    forget(root, "message_delay_level")
    assert rocketstore.salvage(root, tmp_path / "new").assumptions == ()
    assert delays_of(tmp_path / "new", 5) == [40]
    assert "message_delay_level" not in saved(tmp_path / "new")


def test_salvage_of_a_log_alone_names_its_levels(tmp_path):
    root = put_delayed(tmp_path / "store", 5)
    with pytest.warns(UserWarning, match=r"messageDelayLevel is assumed.* level 5 \(1m\)"):
        report = rocketstore.salvage(root / "commitlog", tmp_path / "new", config=CONFIG)
    assert len(report.assumptions) == 1


def test_levels_that_were_changed_are_named(tmp_path):
    root = put_delayed(tmp_path / "store", 2, 2)
    put_delayed(root, 2, 2, delays="3s 4s")
    forget(root, "message_delay_level")
    with pytest.warns(UserWarning, match="units of level 2 have a delay of 9s. Built units of this level have 4s"):
        rocketstore.rebuild(root)
    assert delays_of(root, 2) == [4] * 4


def test_a_damaged_unit_does_not_decide_the_level(tmp_path):
    root = put_delayed(tmp_path / "store", 5, 5, 5)
    forget(root, "message_delay_level")
    path = root / "consumequeue" / TOPIC / "4" / ("0" * 20)
    data = bytearray(path.read_bytes())
    data[52:60] = struct.pack(">q", BEGIN + 77_000)
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="a delay of 77s"):
        rocketstore.rebuild(root)
    assert delays_of(root, 5) == [40] * 3


# ---- light queues, ext units, index ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "complete", [rocketstore.recover, rocketstore.rebuild, lambda root: rocketstore.open(root, "a").close()]
)
def test_light_queues_are_built_if_the_store_has_units_of_them(tmp_path, complete):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=replace(CONFIG, enable_multi_dispatch=True, enable_lmq=True)) as store:
        store.put_messages([Message("Orders", b"x", queue_id=0, properties=LIGHT) for _ in range(3)])
    forget(root, "enable_multi_dispatch", "enable_lmq")
    shutil.rmtree(root / "consumequeue" / "%LMQ%b")
    shutil.rmtree(root / "consumequeue" / "Orders")
    (root / "abort").touch()
    complete(root)
    with rocketstore.open(root) as store:
        assert [len(store[topic]) for topic in ("%LMQ%a", "%LMQ%b", "Orders")] == [3, 3, 3]


def test_messages_that_name_light_queues_without_units_are_counted(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=replace(CONFIG, enable_multi_dispatch=True, enable_lmq=True)) as store:
        store.put_messages([Message("Orders", b"x", queue_id=0, properties=LIGHT) for _ in range(3)])
    forget(root, "enable_multi_dispatch", "enable_lmq")
    shutil.rmtree(root / "consumequeue")
    with pytest.warns(UserWarning, match="enableMultiDispatch=false is assumed: 3 messages name light queues"):
        rocketstore.rebuild(root)
    assert "enable_multi_dispatch" not in saved(root)


def test_ext_units_are_built_if_units_lead_to_ext_units(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=replace(CONFIG, enable_consume_queue_ext=True)) as store:
        store.put_messages([Message("Orders", b"x", queue_id=0, tags="A")] * 3)
    forget(root, "enable_consume_queue_ext")
    names = ["consumequeue", "consumequeue_ext"]
    before = {path: path.read_bytes() for name in names for path in (root / name).rglob("*") if path.is_file()}
    rocketstore.rebuild(root)
    assert all(path.read_bytes() == data for path, data in before.items())


def test_bitmaps_of_ext_units_that_are_lost_are_named(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=replace(CONFIG, enable_consume_queue_ext=True)) as store:
        store.put_message(Message("Orders", b"x", queue_id=0, tags="A"))
    path = root / "consumequeue_ext" / "Orders" / "0" / ("0" * 20)
    data = bytearray(path.read_bytes())
    data[:2], data[18:21] = struct.pack(">h", 21), struct.pack(">hB", 1, 7)
    path.write_bytes(data)
    (text,) = rocketstore.rebuild(root).assumptions
    assert "enableCalcFilterBitMap was on" in text


def test_an_index_that_is_made_by_assumption_is_noted(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=replace(CONFIG, message_index_enable=False)) as store:
        store.put_message(Message("Orders", b"x", keys=["k"]))
    forget(root, "message_index_enable")
    (note,) = rocketstore.recover(root, dry_run=True).notes
    assert "messageIndexEnable=true is assumed, so that an index is created" in note
    rocketstore.recover(root)
    assert "message_index_enable" not in saved(root)


def test_a_new_store_has_all_settings_of_its_writer(tmp_path):
    rocketstore.open(tmp_path / "store", "a", config=CONFIG).close()
    assert saved(tmp_path / "store")["message_delay_level"] == StoreConfig.message_delay_level


# ---- records that a release cannot read --------------------------------------------------------------------

CALLS = {
    "rebuild": lambda root, config: rocketstore.rebuild(root, config=config).assumptions,
    "recover": lambda root, config: rocketstore.recover(root, config=config).notes,
    "open": lambda root, config: rocketstore.open(root, "a", config=config).close(),
    "salvage": lambda root, config: rocketstore.salvage(root, root.with_name("new"), config=config).assumptions,
}


@pytest.mark.filterwarnings("ignore:.*cannot read")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_records_that_a_release_cannot_read_need_a_switch(tmp_path, call):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.create_topic("Batched", queue_type="BatchCQ")
        store.put_message(Message("T" * 200, b"x"))
        store.put_message(Message("Orders", b"x", born_host="[2001:db8::1]:5"))
        store.put_message(Message("Orders", b"x"))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "lock"}
    match = r"4\.5\.2 cannot read 2 records: 1 with IPv6 hosts .*, 1 with a topic of more than 127 bytes"
    with pytest.raises(StoreError, match=match):
        call(root, replace(CONFIG, compat="4.5.2"))
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(StoreError, match=r"4\.9\.8 cannot read 1 record: 1 with a topic of"):
        call(root, replace(CONFIG, compat="4.9.8"))
    notes = call(root, replace(CONFIG, compat="4.9.8", allow_unreadable=True))
    assert notes is None or "cannot read 1 record" in notes[0]


def test_a_dry_run_notes_records_that_a_release_cannot_read(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        store.put_message(Message("T" * 200, b"x"))
    (note,) = rocketstore.recover(root, config=replace(CONFIG, compat="4.9.8"), dry_run=True).notes
    assert "cannot read 1 record" in note

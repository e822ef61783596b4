"""``expiry``: the files that a broker would delete, and when; what queues and consumer groups lose by that."""

import json
import os
import random
import shutil
import time
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from reference.message_store import make_store
from support import brokers, states

import rocketstore
from rocketstore import StoreConfig
from rocketstore.store.usage.clean_rules import CleanRules, parse_hours
from rocketstore.store.usage.disk_usage import space_with
from rocketstore.store.usage.expiry_plan import Disk, Disks, FileToDelete, choose_files, describe_plan

HOUR = 3_600_000
NOW = 1_790_000_000_000  # 2026-09-21T14:13:20Z
MIB = 1 << 20


def make_aged(root, seed=0, count=600):
    """A store whose log files were changed an hour apart, the last one an hour ago; its messages by place."""
    draw = random.Random(seed)
    messages = [
        {
            "topic": draw.choice("TU"),
            "queue_id": draw.randrange(2),
            "body": bytes(draw.randrange(400)),
            "properties": {"KEYS": "k"},
        }
        for _ in range(count)
    ]
    make_store(root, messages, file_size=16384, cq_file_size=400)
    paths = sorted((root / "commitlog").iterdir())
    now = paths[-1].stat().st_mtime
    for number, path in enumerate(reversed(paths)):
        os.utime(path, (now, now - 3600 * (number + 1)))
    return len(paths)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("hours", [0, 4.5, 72])
def test_the_plan_has_the_files_that_a_writer_would_delete(tmp_path, seed, hours):
    root = tmp_path / "store"
    n_files = make_aged(root, seed)
    with rocketstore.open(root) as store:
        plan = store.expiry(hours=hours)
    config = StoreConfig(max_hash_slot_num=97, max_index_num=400, mapped_file_size_consume_queue=400)
    with rocketstore.open(root, "r+", config=config) as store:
        expected = store.delete_expired_files(hours=hours, dry_run=True)
    found = {part: [file.path for file in plan if file.part == part] for part in ("log", "queues", "index")}
    assert found == {
        "log": list(map(str, expected.commit_log.paths)),
        "queues": list(map(str, expected.consume_queue.paths)),
        "index": list(map(str, expected.index.paths)),
    }
    assert plan.min_phy_offset == expected.min_phy_offset
    assert plan.file_bytes == expected.commit_log.size + expected.consume_queue.size + expected.index.size
    assert len(found["log"]) == {0: n_files - 1, 4.5: n_files - 4, 72: 0}[hours]


def test_losses_of_queues_and_groups_are_those_of_a_loop(tmp_path):
    root = tmp_path / "store"
    make_aged(root)
    offsets = {"T@billing": {"0": 30, "1": 5000}, "U@audit": {"0": 0, "1": 70}, "T@audit": {"1": 1}}
    (root / "config").mkdir()
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    with rocketstore.open(root) as store:
        plan = store.expiry(hours=5)
        messages = [message for batch in store.scan() for message in batch]
    lost = [message for message in messages if message.phy_offset < plan.min_phy_offset]
    assert lost
    for loss in plan.queues:
        own = [message for message in lost if (message.topic, message.queue_id) == (loss.topic, loss.queue_id)]
        assert (loss.messages, loss.log_bytes) == (len(own), sum(message.size for message in own))
        assert loss.new_min_offset == max(message.queue_offset for message in own) + 1
    assert sum(loss.messages for loss in plan.queues) == len(lost)
    unconsumed = {
        (group, topic, int(queue)): sum(
            (message.topic, message.queue_id) == (topic, int(queue)) and message.queue_offset >= offset
            for message in lost
        )
        for name, queues in offsets.items()
        for topic, group in [name.split("@")]
        for queue, offset in queues.items()
    }
    found = {(loss.group, loss.topic, loss.queue_id): loss.messages for loss in plan.groups}
    assert found == {key: count for key, count in unconsumed.items() if count}
    lost_by_groups = f"; 2 consumer groups lose {sum(found.values()):,} unconsumed messages, counted per group"
    assert f"{len(lost):,} messages{lost_by_groups}" in describe_plan(plan)


def test_before_and_hours_choose_the_same_files(tmp_path):
    root = tmp_path / "store"
    make_aged(root)
    with rocketstore.open(root) as store:
        [*_, last] = [file for file in store.expiry(hours=3.5) if file.part == "log"]
        assert [file.path for file in store.expiry(before=last.modified_timestamp + 1)] == [
            file.path for file in store.expiry(hours=3.5)
        ]
        for options in ({"hours": -1}, {"hours": float("inf")}, {"hours": 1, "before": NOW}, {"tz": "Mars"}):
            with pytest.raises(ValueError, match=next(iter(options))):
                store.expiry(**options)


def rules(**other):
    return CleanRules.of_config(StoreConfig(other={name: str(value) for name, value in other.items()}))


def log_files(count, hours_old=()):
    """Log files of 1 MiB; of the first ones the hours since their change, of the others none."""
    ages = [*hours_old, *[0] * (count - len(hours_old))]
    return [FileToDelete("log", "/", MIB, MIB, NOW - age * HOUR, None, False) for age in ages]


def disks_used(percent, total=1000 * MIB, queues=None):
    device = Path("/").stat().st_dev
    space = space_with("/", total, total * percent // 100, total - total * percent // 100)
    other = Disk(device + 1, space_with("/q", 100, queues, 100 - queues)) if queues is not None else None
    return Disks([Disk(device, space)], other or Disk(device, space))


def chosen(found):
    return [(file.delete_timestamp == NOW, file.is_forced) for file in found]


def test_old_files_are_deleted_at_the_next_hour_of_delete_when():
    found = choose_files(rules(), log_files(4, [100, 72, 71]), disks_used(50), NOW)
    assert chosen(found) == [(False, False)] * 2


def test_old_files_are_deleted_at_once_on_a_disk_that_is_used_by_more_than_the_maximum():
    files = log_files(4, [100, 72, 71])
    assert chosen(choose_files(rules(), files, disks_used(80), NOW)) == [(True, False)] * 2
    assert chosen(choose_files(rules(diskMaxUsedSpaceRatio=81), files, disks_used(80), NOW)) == [(False, False)] * 2
    assert chosen(choose_files(rules(), files, disks_used(10, queues=80), NOW)) == [(True, False)] * 2


def test_files_of_any_age_are_deleted_in_rounds_until_the_disk_has_space():
    files = log_files(40, [80])
    found = choose_files(rules(), files, disks_used(87, total=1000 * MIB), NOW)
    assert chosen(found) == [(True, False), *[(True, True)] * 19]  # 2 rounds of 10 files are 2 percent
    assert len(choose_files(rules(deleteFileBatchMax=7), files, disks_used(87), NOW)) == 21
    assert chosen(choose_files(rules(cleanFileForciblyEnable="false"), files, disks_used(87), NOW)) == [(True, False)]
    assert len(choose_files(rules(), files, disks_used(10, queues=86), NOW)) == 40  # the log is not on that disk


def test_a_lower_ratio_of_a_full_disk_also_forces_the_deletion():
    files = log_files(3)
    assert choose_files(rules(), files, disks_used(60), NOW) == []
    assert chosen(choose_files(rules(diskSpaceWarningLevelRatio=50), files, disks_used(60), NOW)) == [(True, True)] * 3


def test_a_missing_directory_of_queues_counts_as_a_full_disk(tmp_path):
    make_aged(tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with rocketstore.open(tmp_path / "store") as store:
        plan = store.expiry(hours=0)
    assert any("takes that for a full disk" in note for note in plan.notes)
    assert all(abs(file.delete_timestamp - time.time() * 1000) < 60_000 for file in plan)


def test_ratios_beyond_the_bounds_of_a_broker_are_clamped():
    found = rules(diskSpaceCleanForciblyRatio=99, diskSpaceWarningLevelRatio=10, diskMaxUsedSpaceRatio=0)
    ratios = found.disk_clean_forcibly_ratio, found.disk_warning_level_ratio, found.disk_max_used_ratio
    assert ratios == (0.85, 0.35, 0.10)
    assert rules(diskMaxUsedSpaceRatio="many").disk_max_used_ratio == 0.75


def test_old_releases_have_no_setting_of_the_ratio_of_a_full_disk():
    other = {"diskSpaceCleanForciblyRatio": "30"}
    ratios = [
        CleanRules.of_config(StoreConfig(other=other, compat=name)).disk_clean_forcibly_ratio
        for name in ("4.9.8", "5.0.0")
    ]
    assert ratios == [0.85, 0.30]


def test_an_hour_that_is_no_number_ends_the_deletion():
    assert parse_hours("04;16") == ((4, 16), None)
    assert parse_hours("4;") == ((4,), None)
    hours, problem = parse_hours("02;4h;05")
    assert hours == (2,)
    assert "4h" in problem
    bad = rules(deleteWhen="four")
    assert choose_files(bad, log_files(9, [80] * 9), disks_used(95), NOW)[0].delete_timestamp is None
    assert bad.next_deletion(NOW, UTC) is None


def test_the_hour_is_that_of_the_time_zone_of_the_broker():
    at = rules(deleteWhen="04;23").next_deletion
    hour = NOW - NOW % HOUR  # 14:00
    assert at(NOW, UTC) == hour + 9 * HOUR
    assert at(NOW, ZoneInfo("Asia/Shanghai")) == hour + HOUR  # 22:13 there
    assert at(hour + 9 * HOUR + 5, UTC) == hour + 9 * HOUR + 5
    assert at(NOW, ZoneInfo("Asia/Kolkata")) == hour + 3 * HOUR + HOUR // 2  # 19:43 there
    assert rules(deleteWhen="2").next_deletion(1_774_747_800_000, ZoneInfo("Europe/Berlin")) == 1_774_828_800_000


@pytest.mark.parametrize("name", ["compaction", "dledger", "pending-rocksdb"])
def test_stores_of_each_format_have_a_plan(tmp_path, name):
    root = (states if name in ("compaction", "pending-rocksdb") else brokers).unpack(name, tmp_path)
    with rocketstore.open(root) as store:
        plan = store.expiry(hours=0, tz="UTC")
        messages = sum(len(batch) for batch in store.commit_log.scan(0, plan.min_phy_offset))
        assert sum(loss.messages for loss in plan.queues if not loss.topic.startswith("%LMQ%")) == messages
    assert plan.reasons == []


def test_a_plan_converts_to_tables(tmp_path):
    pytest.importorskip("pyarrow")
    make_aged(tmp_path / "store")
    with rocketstore.open(tmp_path / "store") as store:
        plan = store.expiry(hours=0)
    assert plan.to_arrow()["deleteTimestamp"].null_count == 0
    assert plan.queues.to_arrow().num_rows == len(plan.queues)
    assert "FileToDelete" in repr(plan)

"""Verification: planted faults are named, sound stores have none, and nothing is changed by looking."""

import contextlib
import faulthandler
import json
import os
import random
import shutil
import struct
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference.checkpoint import checkpoint_bytes
from reference.commit_log import make_commit_log, write_file
from reference.consume_queue import pack_batch_unit
from reference.java import parse_number
from reference.message_store import StoreModel, make_store
from support import hostile_store, planted, rebuilt, start_faults, stores
from support.crash_writer import run_writer, store_config
from support.puts import PROFILES, Pair
from support.times import make_old

import rocketstore
from rocketstore import Message, StoreConfig, StoreError, rebuild, verify
from rocketstore.limits import LONG_MAX
from rocketstore.store.message_store import MessageStore
from rocketstore.verify.findings import SHOWN
from rocketstore.verify.kinds import KINDS
from rocketstore.verify.log import log_verifier
from rocketstore.verify.queues import queue_files, unit_verifier
from rocketstore.verify.queues.ranges import Ranges

SEVERITIES = ("error", "warning", "info")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The sound stores in which faults are planted, by name."""
    roots = {}
    for base in planted.OPTIONS:
        roots[base] = tmp_path_factory.mktemp("sound") / base
        planted.build(base, roots[base])
    return roots


def bad(report):
    """What no sound store has."""
    return [finding for finding in report.findings if finding.severity != "info"]


def bad_but_bodies(report):
    """What no store of random flags has: a body that is not compressed may have the flag of compressed ones."""
    return [finding for finding in bad(report) if finding.kind != "log-body-compression"]


def state(root):
    """The bytes and times of everything in a store."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in sorted([root, *root.rglob("*")])
    }


# ---- planted faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said", "end"),
    [
        ("missing_log_file", "reads on behind the gap", None),
        ("noise_over_records", "cuts the log here if", 4688),
    ],
)
def test_the_advice_of_a_refused_recovery_is_what_the_broker_policy_does(sound, tmp_path, name, said, end):
    root = shutil.copytree(sound["plain"], tmp_path / "store")
    planted.FAULTS[name][1](planted.Store(root))
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(bytes(4096))
    with pytest.raises(rocketstore.CorruptFileError, match=said):
        rocketstore.recover(root)
    report = rocketstore.recover(root, policy="broker")
    assert report.max_phy_offset == (end or planted.Store(sound["plain"]).end())


def test_there_are_enough_kinds_of_faults():
    assert len(planted.FAULTS) >= 100


@pytest.fixture(scope="module")
def reported(sound, tmp_path_factory):
    """Plants a fault by its name and verifies: (the report, the root, what it is to find); each once."""
    found = {}

    def report_of(name):
        if name not in found:
            base, plant = planted.FAULTS[name]
            root = tmp_path_factory.mktemp("planted") / "store"
            shutil.copytree(sound[base], root)
            planned = plant(planted.Store(root))
            make_old(root / "config")
            found[name] = planned, verify(root), root
            shutil.rmtree(root)
        return found[name]

    return report_of


@pytest.mark.parametrize("name", planted.FAULTS)
def test_a_planted_fault_is_found_and_named(name, reported):
    (kind, path, offset), report, root = reported(name)
    kinds, paths = ((each,) if isinstance(each, str) else each for each in (kind, path))
    places = [(each.kind, str(each.path.relative_to(root)), each.offset) for each in report.findings]
    assert any(k in kinds and p in paths and offset in (None, at) for k, p, at in places), report.findings


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("changed_record: magic", "at 4688: magic: no message begins here; the next record is at 4858"),
        ("changed_record: body", "at 4688: bodyCrc: is not the CRC of the body"),
        ("delay_that_is_no_number", "at 5734: DELAY: is not a number"),
        ("body_that_does_not_decompress: type 5", "at 4688: sysFlag: there is no compression type 5"),
    ],
)
def test_a_detail_has_a_colon_after_the_name_of_the_field(name, detail, reported):
    assert detail in [finding.detail for finding in reported(name)[1].findings]


def test_a_missing_log_names_the_setting_of_a_log_elsewhere(reported):
    (finding,) = [finding for finding in reported("missing_log")[1].findings if finding.kind == "log-missing"]
    assert "storePathCommitLog in --broker-conf FILE" in finding.detail


@pytest.mark.parametrize("leaves_directory", [False, True])
def test_a_missing_log_ends_the_check(leaves_directory, tmp_path):
    """Nothing can be compared with it: each unit and item would be an error."""
    planted.build("plain", tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "commitlog")
    if leaves_directory:
        (tmp_path / "store" / "commitlog").mkdir()
    report = verify(tmp_path / "store")
    assert [finding.kind for finding in report.findings] == ["log-missing"]
    assert report.verdict == "Not sound: the commit log is missing, so queues and index were not checked."
    assert report.messages > 0


def test_a_log_that_cannot_be_listed_ends_the_check(tmp_path):
    planted.build("plain", tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "commitlog")
    (tmp_path / "store" / "commitlog").symlink_to(tmp_path / "store" / "commitlog")
    report = verify(tmp_path / "store")
    assert not report.has_log
    assert not report.ok
    assert "unit-beyond-log" not in {finding.kind for finding in report.findings}


def test_a_store_without_messages_has_no_missing_log(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()):
        pass
    assert verify(tmp_path / "store").verdict == "Sound."


@pytest.mark.parametrize(
    ("name", "quick", "verdict"),
    [
        ("missing_checkpoint", False, "Sound, with 1 warning."),
        ("missing_checkpoint", True, "Sound in the samples that were checked, with 1 warning."),
        ("unit_with_another: size", False, "Not sound: 1 error."),
    ],
)
def test_a_verdict_is_one_sentence(name, quick, verdict, tmp_path):
    planted.build("plain", tmp_path / "store")
    planted.FAULTS[name][1](planted.Store(tmp_path / "store"))
    assert verify(tmp_path / "store", quick=quick).verdict == verdict


def test_every_kind_of_finding_is_planted_or_tested_here(reported):
    """A kind that nothing can lead to would be a promise."""
    found = {finding.kind for name in planted.FAULTS for finding in reported(name)[1].findings}
    found |= {kind for _, kind in start_faults.FAULTS.values()}  # see test_verify_start.py
    found |= {kind for kind in KINDS if kind.startswith("rocksdb-")}  # see below, and test_verify_rocksdb.py
    found |= {"not-checked", "log-elsewhere"}  # see survey/test_golden_brokers.py
    found |= {"compaction-unit", "compaction-queue-missing"}  # see queue/test_compacted_queue.py
    found |= {"log-entry-head", "dledger-index", "dledger-begin", "dledger-checkpoint"}  # see log/test_dledger.py
    found.add("log-entry-order")  # see kernels/test_entries.py
    found |= {kind for kind in KINDS if kind.startswith("tier-")}  # see test_verify_tier.py
    assert set(KINDS) - found == {"lock-held", "index-geometry", "unreadable", "disk-unreadable", "index-item-again"}


def test_a_damaged_rocksdb_of_topics_is_a_finding(sound, tmp_path):
    pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    root = shutil.copytree(sound["plain"], tmp_path / "store")
    (root / "config" / "topics").mkdir()
    (root / "config" / "topics" / "CURRENT").write_text("MANIFEST-000004\n")
    (root / "config" / "topics" / "000012.sst").write_bytes(b"x")
    found = {(finding.kind, finding.path) for finding in verify(root).findings}
    assert ("rocksdb-damaged", root / "config" / "topics") in found


@pytest.mark.parametrize(
    ("release", "kind"),
    [("4.9.8", "queue-behind"), ("5.3.3", "queue-behind"), ("5.4.0", "queue-behind"), ("5.5.1", "queue-missing")],
)
def test_the_records_that_are_dispatched_again_after_a_crash_depend_on_the_release(release, kind, sound, tmp_path):
    """Before 5.5.0 a broker goes by the times of the checkpoint, which are zeros here."""
    root = shutil.copytree(sound["plain"], tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    (root / "abort").touch()
    last = planted.Store(root).records[-1][0]
    (root / "checkpoint").write_bytes(checkpoint_bytes(0, 0, 0, logics_physical_offset=last))
    config = StoreConfig(**planted.SIZES, compat=release)
    assert kind in {finding.kind for finding in verify(root, config=config).findings}


def test_an_item_that_is_there_twice_is_no_fault(tmp_path):
    """A broker indexes its last message again when it dispatches it again."""
    finding = next(iter(verify(stores.unpack("broker-5.5.0", tmp_path)).findings))
    assert (finding.kind, finding.severity) == ("index-item-again", "info")


def test_the_byte_that_ends_a_crc_property_is_part_of_it(tmp_path):
    config = replace(StoreConfig.small(), enabled_append_prop_crc=True, mapped_file_size_commit_log=1 << 16)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        put = store.put_message(Message("T", b"body", queue_id=0))
    assert bad(verify(tmp_path)) == []
    log = tmp_path / "commitlog" / f"{0:020}"
    with log.open("r+b") as file:
        file.seek(put.size - 1)
        file.write(b"\x03")
    assert [(finding.kind, finding.offset) for finding in bad(verify(tmp_path))] == [("log-property-crc", 0)]


def test_an_index_whose_geometry_cannot_be_known_is_not_checked(sound, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(sound["plain"], root)
    (root / "config" / "rocketstore.json").unlink()
    for path in (root / "index").iterdir():
        path.write_bytes(bytes(2000))
    assert [finding.kind for finding in verify(root).findings] == ["index-geometry"]


def test_of_lengths_that_as_many_files_of_queues_have_the_longest_is_right(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig(**planted.SIZES)) as store:
        for queue_id in (0, 1):
            store.put_message(Message("T", b"body", queue_id=queue_id))
    (tmp_path / "config" / "rocketstore.json").unlink()
    cut = tmp_path / "consumequeue" / "T" / "1" / f"{0:020}"
    os.truncate(cut, 180)
    found = [finding for finding in verify(tmp_path).findings if finding.kind == "queue-file-size"]
    assert [(finding.path, finding.offset) for finding in found] == [(cut, 180)]


def test_what_cannot_be_read_is_a_finding(sound, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(sound["plain"], root)
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").symlink_to(root / "consumequeue")
    found = [finding.path for finding in verify(root).findings if finding.kind == "directory-unreadable"]
    assert root / "consumequeue" in found


@pytest.mark.parametrize("base", planted.OPTIONS)
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("threads", [1, 3, 2**31 - 1])
def test_the_stores_were_sound_before(base, quick, threads, sound):
    report = verify(sound[base], quick=quick, threads=threads)
    assert report.findings == []
    assert report.ok
    assert report.quick == quick


QUICKLY_FOUND = [
    "missing_log_file",
    "log_file_of_another_length: shorter",
    "missing_last_log_file_after_a_crash",
    "bytes_behind_the_end",
    "missing_queue_file",
    "last_unit_lost",
    "index_header_with_another: end offset",
    "index_that_counts: a few more",
    "missing_checkpoint",
    "abort_file",
    "damaged_topics",
    "missing_index",
    "foreign_file_in_the_log",
]


@pytest.mark.parametrize("name", QUICKLY_FOUND)
def test_a_quick_look_finds_what_headers_and_ends_show(name, sound, tmp_path):
    base, plant = planted.FAULTS[name]
    root = tmp_path / "store"
    shutil.copytree(sound[base], root)
    kind, _, _ = plant(planted.Store(root))
    assert kind in {finding.kind for finding in verify(root, quick=True).findings}


def test_a_quick_look_takes_samples_of_a_queue_s_only_file_once(tmp_path):
    config = StoreConfig(**planted.SIZES)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        store.put_message(Message("T", b"", queue_id=0))
    path = tmp_path / "consumequeue" / "T" / "0" / f"{0:020}"
    path.write_bytes(path.read_bytes()[:8] + b"\0\0\0\1" + path.read_bytes()[12:])
    findings = verify(tmp_path, quick=True).findings
    assert len(findings) == len(set(findings)) > 0


def test_the_end_of_a_queue_file_is_searched_once(sound, tmp_path, monkeypatch):
    """Also of the last file, which has zeros behind its units."""
    root = shutil.copytree(sound["plain"], tmp_path / "store")
    searched, search = Counter(), queue_files.nonzero_end
    monkeypatch.setattr(
        queue_files, "nonzero_end", lambda path, *part: (searched.update([path]), search(path, *part))[1]
    )
    assert not hasattr(unit_verifier, "nonzero_end")  # so that all searches are counted
    assert verify(root).ok
    last_files = {max(directory.iterdir()) for directory in (root / "consumequeue").glob("*/*")}
    assert last_files <= searched.keys()
    assert set(searched.values()) == {1}


def test_findings_of_one_kind_in_one_file_are_counted_and_not_all_listed(sound, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(sound["plain"], root)
    store = planted.Store(root)
    name = store.index(1)
    for ordinal in range(1, 41):
        store.write(name, planted.item_place(ordinal) + 12, (10**6).to_bytes(4, "big"))
    report = verify(root)
    wrong = [finding for finding in report.findings if finding.kind == "index-item-time"]
    assert len(wrong) == SHOWN
    assert [finding.more for finding in wrong] == [0] * (SHOWN - 1) + [40 - SHOWN]
    assert report.count("warning") == 40


# ---- sound stores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", stores.NAMES)
@pytest.mark.parametrize("quick", [False, True])
def test_a_golden_store_has_nothing_wrong(name, quick, tmp_path):
    root = stores.unpack(name, tmp_path)
    for config in (None, StoreConfig(**stores.settings(name))):
        report = verify(root, quick=quick, config=config)
        assert bad(report) == []
        assert report.last_exit_ok == ("crash" not in name)
    with rocketstore.open(root) as store:
        assert report.messages == store.summary().messages
    assert quick or report.records == len(stores.dump(name)["message"])


def written(root, rng, name, compat=None):
    """A store that our own writer made, and its configuration."""
    draw, options = PROFILES[name]
    options = {**options, **({"compat": compat} if compat else {})}
    with Pair(root, **options) as pair:
        for _ in range(rng.randrange(20, 120)):
            pair.put(draw(rng))
            pair.time += rng.choice([0, 1, 999, 2500])
    return pair.config


@pytest.mark.parametrize("name", PROFILES)
def test_what_our_writer_left_is_sound(name, tmp_path, seed):
    rng = random.Random(f"{seed}/{name}")
    config = written(tmp_path / "store", rng, name)
    for given in (config, None):
        assert bad_but_bodies(verify(tmp_path / "store", config=given)) == []
        assert bad_but_bodies(verify(tmp_path / "store", config=given, quick=True)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("name", PROFILES)
def test_what_our_writer_left_is_sound_many_times(name, number, tmp_path, seed):
    rng = random.Random(f"{seed}/{name}/{number}")
    written(tmp_path / "store", rng, name)
    assert bad_but_bodies(verify(tmp_path / "store")) == []


def test_messages_of_batch_queues_have_no_units_in_light_queues(tmp_path):
    """Whether options are given or only shown by the queues."""
    options = {"enable_lmq": True, "enable_multi_dispatch": True}
    with Pair(tmp_path / "store", batch_topics=("Batched",), **options) as pair:
        for topic in ("Batched", "T", "T"):
            pair.put(topic=topic, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    for config in (pair.config, replace(pair.config, enable_lmq=False, enable_multi_dispatch=False)):
        for quick in (False, True):
            assert verify(tmp_path / "store", config=config, quick=quick).findings == []


@pytest.mark.parametrize("gap", [0, 1])
def test_offsets_of_a_queue_go_to_its_own_messages_and_to_those_dispatched_to_it(tmp_path, gap):
    """Numbers outside these ranges are gaps."""
    config = replace(rebuilt.CONFIG, **rebuilt.LIGHT)
    light = {"INNER_MULTI_DISPATCH": "other", "INNER_MULTI_QUEUE_OFFSET": "1"}
    topics = [("other", 0, {}), ("T", 0, light), ("other", 2 + gap, {})]
    rows = [{"topic": name, "queue_offset": offset, "properties": properties} for name, offset, properties in topics]
    rebuild(rebuilt.make_log(tmp_path / "store", rows), config=config)
    gaps = [finding.detail for finding in verify(tmp_path / "store").findings if finding.kind == "log-queue-offset-gap"]
    assert gaps == ["at 250: other/0 is at 3 after 1"] * gap


RELEASES = ["4.6.0", "4.7.0", "4.7.1", "4.9.1", "4.9.8", "5.0.0", "5.1.4", "5.2.0", "5.3.3", "5.4.0", "5.5.1"]


@pytest.mark.parametrize("release", RELEASES)
def test_a_store_of_the_model_of_each_release_is_sound(release, tmp_path, seed):
    rng = random.Random(f"{seed}/{release}")
    root = tmp_path / "store"
    sizes = {"file_size": 4096, "cq_file_size": 200, "batch_cq_file_size": 230, "ext_file_size": 256}
    model = StoreModel(
        **sizes,
        hash_slot_num=13,
        index_num=40,
        enable_ext=rng.random() < 0.5,
        release=tuple(parse_number(part, 32) for part in release.split(".")),
    )
    draw = PROFILES["transactions"][0]
    for n in range(60):
        model.put({"store_host": "10.0.0.1:10911", **draw(rng)}, planted.BEGIN + 1700 * n)
    write_model(model, root)
    assert bad_but_bodies(verify(root)) == []


def write_model(model, root):
    for path, data in model.data_files().items():
        write_file((root / path).parent, int(Path(path).name), data)
    (root / "index").mkdir()
    for n, data in enumerate(model.index_files()):
        (root / "index" / f"{20_240_101_000_000_000 + n}").write_bytes(data)
    last = model.last
    end = model.index.index_msg_timestamp
    times = last.store_timestamp, last.store_timestamp, end
    (root / "checkpoint").write_bytes(checkpoint_bytes(*times, logics_physical_offset=last.phy_offset))
    (root / "lock").write_bytes(b"lock")


@pytest.mark.parametrize("first_offset", [0, 3 * 4096])
def test_a_store_of_the_reference_is_sound(first_offset, tmp_path, seed):
    rng = random.Random(f"{seed}/{first_offset}")
    rows = [
        {
            "body": rng.randbytes(rng.randrange(300)),
            "queue_id": n % 3,
            "store_timestamp": planted.BEGIN + 900 * n,
            "properties": {"KEYS": f"K{n % 9} {n}", "TAGS": f"T{n % 2}"},
        }
        for n in range(120)
    ]
    make_store(tmp_path / "store", rows, file_size=4096, cq_file_size=200, index_num=60, first_offset=first_offset)
    assert bad(verify(tmp_path / "store")) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_a_store_of_a_killed_writer_is_sound_when_it_is_recovered(threads, tmp_path, seed):
    """Before the repair, verify reports the faults that recovery repairs."""
    root, config = tmp_path / "store", store_config()
    for session in range(2):
        run_writer(root, session=f"s{session}", seed=seed, threads=threads, operations=200, kill_after=60, pause=0.001)
        assert verify(root, config=config).ok
        rocketstore.open(root, "a", config=config).close()
        assert bad(verify(root, config=config)) == []
        assert bad(verify(root, quick=True)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_stores_of_killed_writers_are_sound_when_they_are_recovered(number, tmp_path, seed):
    root, config = tmp_path / "store", store_config("ASYNC_FLUSH" if number % 2 else "SYNC_FLUSH")
    rng = random.Random(f"{seed}/{number}")
    options = {"threads": 3, "operations": 400, "kill_after": rng.randrange(1, 300)}
    run_writer(root, session="s", seed=seed + number, **options)
    rocketstore.open(root, "a", config=config).close()
    assert bad(verify(root, config=config)) == []


def test_a_log_in_directories_of_its_own_below_the_root_is_sound(tmp_path):
    paths = f"{tmp_path}/store/log/a,{tmp_path}/store/b"
    config = StoreConfig(**planted.SIZES, store_path_commit_log=paths)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        store.put_message(Message("T", b""))
    (tmp_path / "store" / "c").mkdir()
    findings = verify(tmp_path / "store", config=config).findings
    assert [finding.path.name for finding in findings if finding.kind == "foreign-file"] == ["c"]


@pytest.mark.parametrize("of_batches", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_records_of_a_topic_that_was_deleted_and_made_again_are_no_fault(of_batches, times, tmp_path):
    """Its queues begin at 0 again; of those that got no message again there is nothing."""
    rows = []
    for life in range(times + 1):
        rows += [{"topic": "Kept", "queue_offset": life * 3 + i, "properties": {"KEYS": "k"}} for i in range(3)]
        rows += [
            {"topic": "Deleted", "queue_id": queue_id, "queue_offset": i, "properties": {"KEYS": f"o{i}"}}
            for i in range(5 - life)
            for queue_id in range(1 if life == times else 2)
        ]
    make_commit_log(tmp_path / "commitlog", planted.LOG_FILE, [{"body": b"b", "store_timestamp": 1} | r for r in rows])
    make_topics(tmp_path, {"Deleted": "BatchCQ" if of_batches else "SimpleCQ"})
    rocketstore.rebuild(tmp_path, config=StoreConfig(**planted.SIZES))
    records = planted.Store(tmp_path).records
    last = [(at, r) for at, r in records if (r.topic, r.queue_id) == ("Deleted", 0)][times - 5 :]
    (path,) = tmp_path.glob(f"{'batch' if of_batches else ''}consumequeue/Deleted/0/{0:020}")
    if of_batches:
        units = [pack_batch_unit(at, r.total_size, 0, 1, r.queue_offset, 1) for at, r in last]
    else:
        units = [struct.pack(">qiq", at, r.total_size, 0) for at, r in last]
    for other in sorted(path.parent.iterdir())[1:]:
        other.unlink()
    path.write_bytes(b"".join(units).ljust(path.stat().st_size, b"\0"))
    shutil.rmtree(path.parent.with_name("1"))
    found = [(finding.kind, str(finding.path.relative_to(path.parents[1]))) for finding in verify(tmp_path).findings]
    assert found == [("topic-deleted", "0"), ("topic-deleted", "1")]


def test_records_whose_queue_offsets_were_given_again_need_no_unit(tmp_path):
    """The log says so, whether or not the queue begins with the later record."""
    rows = [{"topic": "T", "queue_offset": offset} for offset in (0, 1, 2, 3, 4, 3, 4, 5)]
    make_commit_log(tmp_path / "commitlog", planted.LOG_FILE, [{"body": b"b", "store_timestamp": 1} | r for r in rows])
    rebuild(tmp_path, config=StoreConfig(**planted.SIZES))
    found = {finding.kind: finding.detail for finding in verify(tmp_path).findings}
    assert found["topic-deleted"].startswith("2 records, the topic was created again at ")
    assert {*found} == {"topic-deleted", "log-queue-offset-again"}


def make_topics(root, types):
    """Have topics.json say types of queues."""
    table = {topic: {"topicName": topic, "attributes": {"queue.type": kind}} for topic, kind in types.items()}
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def test_a_queue_that_is_gone_is_missing_where_topics_are_not_known(sound, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(sound["plain"], root)
    shutil.rmtree(root / "consumequeue" / planted.DELAYED)
    for path in (root / "config").glob("topics.json*"):
        path.unlink()
    assert [finding.kind for finding in verify(root).findings] == ["queue-missing"]


def test_offsets_at_the_ends_of_queues_are_no_fault(sound, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(sound["batch"], root)
    offsets = '{"offsetTable":{"TopicTest@group":{0:25,1:25},"Inner@group":{0:50},"Deleted@group":{0:9}}}'
    (root / "config" / "consumerOffset.json").write_text(offsets)
    (root / "config" / "delayOffset.json").write_text('{"offsetTable":{3:15,1:0}}')
    assert verify(root).findings == verify(root, quick=True).findings == []


def test_an_empty_store_is_sound(tmp_path):
    rocketstore.open(tmp_path / "store", "a", config=StoreConfig(**planted.SIZES)).close()
    report = verify(tmp_path / "store")
    assert bad(report) == []
    assert (report.messages, report.min_phy_offset, report.max_phy_offset) == (0, 0, 0)


@pytest.mark.parametrize("piece", [1024, 1 << 20])
@pytest.mark.parametrize("releases", [("5.3.3", "5.5.1"), ("5.5.1", "5.1.4"), ("5.3.3", "5.5.1", "5.1.4")])
def test_an_index_that_another_release_went_on_with_is_sound(releases, piece, tmp_path, monkeypatch):
    """Those before 5.4.0 put no items for tags."""
    monkeypatch.setattr(log_verifier, "CHUNK", piece)
    root = tmp_path / "store"
    for compat in releases:
        with rocketstore.open(root, "a", config=StoreConfig(**planted.SIZES, compat=compat)) as store:
            for n in range(30):
                message = Message("TopicTest", b"body", keys=[f"{compat}-{n}"], tags="TagA", queue_id=0)
                store.put_message(message, store_timestamp=planted.BEGIN + n)
    assert bad(verify(root)) == []


@pytest.mark.parametrize("quick", [False, True])
def test_delivery_times_by_the_levels_of_then_are_no_fault(quick, tmp_path):
    message = Message("SCHEDULE_TOPIC_XXXX", b"1", queue_id=0, delay_time_level=1)
    for levels in ("1s 5s", "1m 5m"):
        config = replace(StoreConfig.small(), message_delay_level=levels)
        with rocketstore.open(tmp_path, "a", config=config) as store:
            store.put_message(message, store_timestamp=1_700_000_000_000)
    assert {finding.kind for finding in verify(tmp_path, quick=quick).findings} == {"unit-delivery-time"}
    with (tmp_path / "consumequeue" / message.topic / "0" / f"{0:020}").open("r+b") as file:
        file.seek(12)
        file.write(struct.pack(">q", 1_700_000_000_000 - 1))
    assert {finding.kind for finding in bad(verify(tmp_path, quick=quick))} == {"unit-tags-code"}


def test_a_key_that_looks_like_a_tag_is_no_item_of_tags(tmp_path):
    """An index of 5.3.3 has none."""
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig(**planted.SIZES, compat="5.3.3")) as store:
        for keys in (["T#TagA"], ["k"]):
            store.put_message(Message("TopicTest", b"body", keys=keys, tags="TagA", queue_id=0))
    assert bad(verify(tmp_path / "store")) == []


@pytest.mark.parametrize("piece", [1024, 2048])
def test_a_part_that_has_a_blank_and_no_record_is_sound(piece, tmp_path, monkeypatch):
    monkeypatch.setattr(log_verifier, "CHUNK", piece)
    rows = [{"body": bytes(1200), "properties": {"KEYS": "k"}} for _ in range(9)]
    make_store(tmp_path / "store", rows, file_size=4096)
    assert bad(verify(tmp_path / "store")) == []
    file = tmp_path / "store" / "commitlog" / f"{4096:020}"
    data = bytearray(file.read_bytes())
    data[-1] = 1
    file.write_bytes(data)
    assert "log-blank-bytes" in {finding.kind for finding in verify(tmp_path / "store").findings}


def test_damage_where_a_file_begins_is_reported_once(tmp_path):
    make_store(tmp_path / "store", [{"body": bytes(300)} for _ in range(30)], file_size=4096)
    for start in (0, 4096):
        file = tmp_path / "store" / "commitlog" / f"{start:020}"
        data = bytearray(file.read_bytes())
        data[4:8] = b"...."
        file.write_bytes(data)
    found = [finding for finding in bad(verify(tmp_path / "store")) if finding.kind == "log-magic"]
    assert [(finding.path.name, finding.offset, finding.more) for finding in found] == [
        (f"{0:020}", 0, 0),
        (f"{4096:020}", 0, 0),
    ]


def test_a_damaged_item_of_an_index_without_tags_is_no_first_item_of_a_tag(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig(**planted.SIZES, compat="5.3.3")) as store:
        for n in range(20):
            store.put_message(Message("TopicTest", b"body", keys=[f"k{n}"], tags="TagA", queue_id=0))
        at = store.config.max_hash_slot_num * 4 + 40 + 5 * 20
    (file,) = (tmp_path / "store" / "index").iterdir()
    data = bytearray(file.read_bytes())
    data[at + 3] ^= 1
    file.write_bytes(data)
    counts = Counter(finding.kind for finding in bad(verify(tmp_path / "store")) for _ in range(1 + finding.more))
    assert counts["index-key-missing"] == counts["index-item-no-key"] == 1


# ---- reading only ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("base", ["batch", "ext"])
def test_verifying_changes_no_byte_and_no_time(base, quick, sound):
    before = state(sound[base])
    verify(sound[base], quick=quick)
    assert state(sound[base]) == before


def test_a_read_only_copy_is_verified(sound, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(sound["plain"], root)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert verify(root).findings == []
    finally:
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755)


@pytest.mark.parametrize("quick", [False, True])
def test_a_store_that_is_written_meanwhile_has_nothing_wrong(quick, tmp_path):
    root = tmp_path / "store"
    config = StoreConfig(**planted.SIZES | {"mapped_file_size_commit_log": 65536, "max_index_num": 3000})
    stop = threading.Event()
    with rocketstore.open(root, "a", config=config) as store:
        put = threading.Thread(target=put_until, args=(store, stop))
        put.start()
        try:
            for _ in range(10):
                report = verify(root, quick=quick, config=config)
                assert bad(report) == []
                assert report.is_locked
                assert "lock-held" in {finding.kind for finding in report.findings}
        finally:
            stop.set()
            put.join()
    report = verify(root, config=config)
    assert bad(report) == []
    assert report.messages > 100


def put_until(store, stop):
    n = 0
    while n < 300 or not stop.is_set():
        message = Message("TopicTest", b"body" * (n % 50), keys=[f"K{n}"], tags="TagA", queue_id=n % 3)
        store.put_message(message)
        n += 1
        time.sleep(0.0002)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures in /proc: only on Linux")
def test_memory_is_bounded_where_records_are_small_and_queues_many(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    root, rows, queues = tmp_path / "store", 100_000, 500
    with rocketstore.open(root, "a", config=StoreConfig(mapped_file_size_commit_log=64 << 20)) as store:
        store.create_topic("TopicTest", queues)
        for batch in range(10):
            properties = [[("KEYS", f"{batch} {n} a b c"), ("TAGS", "a")] for n in range(rows)]
            store.put_messages(
                pa.table(
                    {
                        "topic": ["TopicTest"] * rows,
                        "body": pa.array([b"body"] * rows, pa.binary()),
                        "queueId": pa.array([n % queues for n in range(rows)], pa.int32()),
                        "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
                    }
                )
            )
    del properties
    before, peaks, done = anonymous_memory(), [], threading.Event()
    watch = threading.Thread(target=watch_memory, args=(peaks, done))
    watch.start()
    report = verify(root, threads=2)
    done.set()
    watch.join()
    assert bad(report) == []
    assert report.records == 10 * rows
    assert max(peaks) - before <= 256 << 20


def anonymous_memory():
    """The bytes of memory of this process that belong to no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def watch_memory(peaks, done):
    while not done.wait(0.001):
        peaks.append(anonymous_memory())


# ---- hostile -----------------------------------------------------------------------------------------------

SHARES = 24
HANGS = 20  # seconds; a call takes milliseconds


def answered(root, name, **options):
    """Verify; an error of a kind that damage may end in is an answer too."""
    faulthandler.dump_traceback_later(HANGS, exit=True)
    try:
        report = verify(root, **options)
    except (StoreError, OSError):
        return None
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert Counter(finding.kind for finding in report.findings).keys() <= KINDS.keys(), name
    return report


def survive(root, changes):
    """Damage a store, verify, and repair it, again and again."""
    files = hostile_store.read_all(root)
    for number, (name, change) in enumerate(changes(files)):
        change(root)
        config = (hostile_store.INFERRED, hostile_store.GIVEN)[number % 2]
        before = hostile_store.read_all(root)
        assert answered(root, name, config=config, quick=number % 3 == 0) is not None, name
        assert hostile_store.read_all(root) == before, name
        hostile_store.write_all(root, files)


@pytest.fixture
def hostile_root(tmp_path):
    hostile_store.build(tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_damaged_bytes_are_findings_and_no_errors(hostile_root, seed, count):
    survive(hostile_root, lambda files: hostile_store.many_bytes(files, seed, count))


@pytest.mark.slow
def test_flipped_bits_are_findings_and_no_errors(hostile_root, seed):
    survive(hostile_root, lambda files: hostile_store.every_byte(files, seed))


@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, SHARES))])
def test_a_pipe_or_directory_in_place_of_a_file_is_a_finding_and_no_error(share, hostile_root, seed):
    survive(hostile_root, lambda files: list(hostile_store.replacements(files))[(seed + share) % SHARES :: SHARES])


@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, SHARES))])
def test_strange_names_are_findings_and_no_errors(share, hostile_root, seed):
    survive(hostile_root, lambda files: list(hostile_store.strange_names())[(seed + share) % SHARES :: SHARES])


def test_where_no_store_is_there_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="no store is here"):
        verify(tmp_path)
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "absent")
    with pytest.raises(ValueError, match="threads=0"):
        verify(tmp_path, threads=0)


# ---- ranges ------------------------------------------------------------------------------------------------


def test_a_number_is_in_ranges_if_it_is_in_their_set(seed):
    random_ = random.Random(seed)
    ranges, numbers = Ranges(), np.arange(-50, 60)
    assert not ranges.are_in(numbers).any()
    expected = set()
    for begin in random_.choices(range(-40, 40), k=30):
        end = begin + random_.randrange(5)
        ranges.add(begin, end)
        expected |= set(range(begin, end))
        assert ranges.are_in(numbers).tolist() == [number in expected for number in numbers.tolist()]


def test_a_range_may_end_behind_the_last_number():
    ranges = Ranges()
    ranges.add_all(np.array([5, LONG_MAX]))
    assert ranges.are_in(np.array([4, 5, 6, LONG_MAX - 1])).tolist() == [False, True, False, False]


def test_many_numbers_are_looked_for_in_many_ranges():
    numbers = np.arange(400_000)
    ranges = Ranges()
    ranges.add_all(numbers[::2])
    begin = time.process_time()
    assert ranges.are_in(numbers).tolist() == [True, False] * 200_000
    assert time.process_time() - begin < 10  # one by one it is hours


# ---- the rest ----------------------------------------------------------------------------------------------


def count_by_readers(root):
    """The number of messages in all queues that can be read, found without verification."""
    messages = 0
    with rocketstore.open(root) as store:
        for queue in store.queues():
            with contextlib.suppress(StoreError, OSError):
                messages += len(store.log_queue(*queue))
    return messages


def test_a_queue_that_was_compared_is_not_opened_to_count_it(sound, monkeypatch):
    messages = count_by_readers(sound["plain"])
    monkeypatch.setattr(MessageStore, "log_queue", lambda store, topic, queue_id: pytest.fail(f"{topic}/{queue_id}"))
    assert verify(sound["plain"]).messages == messages > 0


@pytest.mark.parametrize(
    "name",
    [
        "records_that_a_broker_cut_off",
        "units_that_a_broker_left_behind_the_log",
        "unit_of: a filler",
        "unit_put_between",
        "last_unit_lost",
        "one_more_unit",
        "old_unit_behind_the_end",
        "unit_of_an_expired_record_behind_others",
        "missing_queue_file",
        "missing_first_queue_file",
        "queue_file_of_zeros",
        "queue_file_of_another_length: longer",
        "last_queue_file_without_units",
        "queue_behind_after_a_crash",
    ],
)
def test_messages_beside_a_fault_are_counted_as_readers_count_them(sound, tmp_path, name):
    base, plant = planted.FAULTS[name]
    root = shutil.copytree(sound[base], tmp_path / "store")
    plant(planted.Store(root))
    assert verify(root).messages == count_by_readers(root)


def test_the_report_counts_the_checked_parts(sound):
    report = verify(sound["batch"])
    store = planted.Store(sound["batch"])
    with rocketstore.open(sound["batch"]) as opened:
        messages = opened.summary().messages
    assert messages > len(store.records)  # inner batches have several
    assert (report.messages, report.queues, report.index_files) == (messages, 5, 6)
    assert (report.min_phy_offset, report.max_phy_offset) == (0, store.end())
    assert (report.last_exit_ok, report.is_locked) == (True, False)
    assert report.to_dict() == {
        "findings": [],
        "min_phy_offset": 0,
        "max_phy_offset": store.end(),
        "records": len(store.records),
        "queues": 5,
        "messages": messages,
        "index_files": 6,
        "last_exit_ok": True,
        "is_locked": False,
        "quick": False,
        "damaged": (),
        "lost": [],
        "has_log": True,
        "ok": True,
    }


def test_a_finding_says_what_a_broker_does(sound, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(sound["plain"], root)
    (root / "commitlog" / "notes.txt").write_text("a broker deletes an empty file, and refuses this one")
    (finding,) = verify(root).findings
    assert finding.to_dict() == {
        "kind": "foreign-file-fatal",
        "severity": "error",
        "path": str(root / "commitlog" / "notes.txt"),
        "offset": 0,
        "detail": "its name or type is not that of a log file",
        "more": 0,
        "atNextStart": "does not start: the load fails",
        "mend": None,
    }


def test_every_kind_has_a_severity_a_meaning_and_what_a_broker_does():
    assert all(kind.severity in SEVERITIES and kind.meaning and kind.at_next_start for kind in KINDS.values())


def test_progress_comes_to_its_end(sound):
    calls = []
    verify(sound["plain"], progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1] > 0

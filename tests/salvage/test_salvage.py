"""salvage: the intact records of a damaged commit log become a sound store, and the losses are reported."""

import dataclasses
import errno
import importlib
import operator
import os
import random
import shutil
import stat
import struct
import sys
import time
import zlib
from collections import Counter
from types import SimpleNamespace

import pytest
from reference.commit_log import read_files, scan, walk_file, write_file
from reference.record import build_record, parse_record
from support import cut_store, damages, deleted, hostile_store, rebuilt
from support.damages import change_log, records
from support.hostile_store import GIVEN, LOG_FILE_SIZE, many_bytes, overwrite, read_all
from support.profiles import SMALL
from support.puts import Pair, config_of, open_paths, path_of
from support.sound_store import check_index, check_log_end, check_queues
from support.syncs import patch_syncs

import rocketstore
from rocketstore import BrokerConfig, Message, StoreConfig, StoreError, rebuild, recover, salvage, verify
from rocketstore.errors import SettingError
from rocketstore.survey.survey import survey_store

# If files of the log are renamed, units lead to no record, and so show no delay level.
pytestmark = pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")

MIB = 1 << 20
OFFSETS = ("phy_offset", "queue_offset", "msg_base_offset", "INNER_BASE", "INNER_MULTI_QUEUE_OFFSET", "__CRC32#")
LENGTHS = ("total_size", "properties_length")  # which follow from how many digits offsets have


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """A store of four log files with every kind of record, closed; no test changes it."""
    root = tmp_path_factory.mktemp("pristine")
    hostile_store.build(root)
    topics = '{"dataVersion":{"counter":1},"topicConfigTable":{"Batch":{"attributes":{"queue.type":"BatchCQ"},'
    topics += '"topicName":"Batch","readQueueNums":1,"writeQueueNums":1,"perm":6}}}'
    (root / "config" / "topics.json").write_text(topics)
    return root


@pytest.fixture
def root(pristine, tmp_path):
    """A copy of the store, to damage."""
    shutil.copytree(pristine, tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture(autouse=True)
def no_syncing(monkeypatch):
    """Nothing here loses power, and many files are made."""
    patch_syncs(monkeypatch, lambda fd: None)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def plain(record):
    """All of a record but where it is."""
    fields = dataclasses.asdict(record)
    fields["properties"] = {name: record.properties[name] for name in record.properties.keys() - set(OFFSETS)}
    return repr({name: value for name, value in sorted(fields.items()) if name not in OFFSETS + LENGTHS})


def stored(root):
    """The records of a sound log, without their offsets."""
    return [plain(record) for _, record in scan(read_files(root / "commitlog"))]


class Found:
    """The new store, as tests/sound_store.py judges one."""

    def __init__(self, root, config, deleted):
        self.root, self.config, self.deleted = root, config, deleted
        self.files = read_files(root / "commitlog")
        self.records = scan(self.files, force_verify_prop_crc=False)
        self.end = self.records[-1][0] + self.records[-1][1].total_size

    def queues(self):
        """The records of each queue. A topic that nothing but its damaged records names counts as deleted."""
        found = {}
        for _, record in self.records:
            if record.sys_flag & 0xC in (0, 0x8):
                found.setdefault((record.topic, record.queue_id), []).append(record)
        for queue, count in self.deleted.items():
            if not (self.root / "consumequeue" / queue[0]).exists():
                assert len(found.pop(queue)) == count
        return found


def check(out, report, *, has_good_times=True):
    """The new store is sound, and has what the report says. Gives its records, without their offsets."""
    found = Found(out, survey_store(out).find_sized_config(), report.deleted)
    check_log_end(found)
    indexed = [each for each in found.records if each[1].sys_flag & 0xC != 0xC]
    if has_good_times:  # the chains of the index end at an item of a time far away
        check_index(SimpleNamespace(**vars(found) | {"records": indexed}))
    check_queues(found)
    check_that_recovery_is_content(out)
    assert not (out / "abort").exists()
    assert found.config.mapped_file_size_commit_log == report.mapped_file_size
    assert (report.records, report.max_phy_offset) == (len(found.records), found.end)
    with rocketstore.open(out) as store:
        batches = store.scan(columns=["phy_offset", "raw_body"], verify_crc=True, containers=True)
        offsets = [offset for batch in batches for offset in batch.phy_offset.tolist()]
        assert offsets == [offset for offset, _ in found.records]
        check_by_queue(store, found)
    return [plain(record) for _, record in found.records]


def check_that_recovery_is_content(out):
    """Recovery has no actions, or writes the same bytes: for queues that begin late, or a last message without unit."""
    if recover(out, dry_run=True).actions:
        before = read_all(out)
        recover(out)
        after = read_all(out)
        assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= {"lock"}


def check_by_queue(store, found):
    """Each message is given once, and in order, to whom reads its queue."""
    given = []
    for topic, queue_id in store.queues():
        queue = store.consume_queue(topic, queue_id)
        at = queue.min_queue_offset
        while at < queue.max_queue_offset:
            result = store.get_message(topic, queue_id, at, 32)
            assert len(result.messages), (topic, queue_id, at)
            given += result.messages.phy_offset.tolist()
            at = result.next_begin_offset
    assert sorted(given) == sorted(record.phy_offset for records in found.queues().values() for record in records)


def untouched(before, root):
    """The records of the log before whose bytes are all still where they were."""
    after = read_files(root / "commitlog")
    return [
        plain(record)
        for at, record in scan(before)
        if (start := at // LOG_FILE_SIZE * LOG_FILE_SIZE) in after
        and after[start][at - start : at - start + record.total_size]
        == before[start][at - start : at - start + record.total_size]
    ]


# ---- nothing is lost -----------------------------------------------------------------------------------------


def test_a_sound_store_is_copied_byte_for_byte(root, out):
    before = read_all(root)
    report = salvage(root, out, config=GIVEN)
    assert check(out, report) == stored(root)
    assert (report.lost, report.duplicates, report.out_of_order, report.moved, report.renumbered) == ((), 0, 0, 0, {})
    assert read_files(out / "commitlog") == read_files(root / "commitlog")
    assert read_all(root) == before
    for name in ("consumerOffset.json", "subscriptionGroup.json", "delayOffset.json"):
        assert (out / "config" / name).read_bytes() == (root / "config" / name).read_bytes()


KERNEL_ERRORS = [errno.EXDEV, errno.ENOSYS, errno.EIO, errno.ENOSPC]


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("refused_by", [None, "system", *KERNEL_ERRORS])
def test_the_kernel_copies_the_bytes_that_are_copied_without_it(refused_by, is_damaged, root, out, monkeypatch):
    first, _, third, *_ = sorted((root / "commitlog").iterdir())
    if is_damaged:
        first.unlink()  # the log begins after 0, and is not moved if a message is lost
        data = third.read_bytes()
        third.write_bytes(data[:5000] + bytes(100) + data[5100:])
    salvage(root, out, config=GIVEN)
    expected, copied = read_files(out / "commitlog"), []
    real = getattr(os, "copy_file_range", None)

    def copy_file_range(source, target, size, *places):
        copied.append(size)
        if refused_by is not None and len(copied) > 1:
            os.pwrite(target, bytes(size), places[1])  # it may have written anything
            raise OSError(refused_by, os.strerror(refused_by))
        return real(source, target, min(size, 100), *places)  # in small steps

    monkeypatch.setattr(copy_module(), "LEAST_UNCHANGED", 1)
    if refused_by == "system":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    elif real is not None:
        monkeypatch.setattr(os, "copy_file_range", copy_file_range)
    report = salvage(root, out.with_name("by_kernel"), config=GIVEN)
    assert read_files(out.with_name("by_kernel") / "commitlog") == expected
    assert report.moved < report.records
    assert refused_by == "system" or real is None or copied


@pytest.mark.parametrize("kept", [0, 64])
def test_a_file_that_is_replaced_while_it_is_read_is_refused(root, out, monkeypatch, kept):
    module = importlib.import_module("rocketstore.salvage.find")
    real, paths = module.MappedFile, []

    def map_and_replace(path, **options):
        mapped = real(path, **options)
        paths.append(path)
        if kept or paths.count(path) == 2:  # its records are counted next
            path.rename(path.with_name("old"))
            shutil.copy(path.with_name("old"), path)
        return mapped

    monkeypatch.setattr(module, "MAX_KEPT_FILES", kept)
    monkeypatch.setattr(module, "MappedFile", map_and_replace)
    with pytest.raises(StoreError, match="was replaced while it was read"):
        salvage(root, out, config=GIVEN)
    assert not out.exists()


def test_files_beyond_those_that_stay_mapped_are_copied_too(root, out, monkeypatch):
    module = importlib.import_module("rocketstore.salvage.find")
    salvage(root, out, config=GIVEN)
    for kept in (0, 1):
        monkeypatch.setattr(module, "MAX_KEPT_FILES", kept)
        new = out.with_name(f"kept-{kept}")
        salvage(root, new, config=GIVEN)
        assert read_files(new / "commitlog") == read_files(out / "commitlog")


def test_parts_are_larger_with_many_queues_and_the_new_store_is_the_same(root, out, monkeypatch):
    """Each part takes time for each queue."""
    module = importlib.import_module("rocketstore.salvage.salvage")
    copy_part, calls = module._Salvage.copy_part, []

    def count_and_copy(*arguments):
        calls.append(arguments)
        return copy_part(*arguments)

    def salvaged(queues_of_piece):
        calls.clear()
        monkeypatch.setattr(module, "QUEUES_OF_PIECE", queues_of_piece)
        new = out.with_name(f"new-{queues_of_piece}")
        salvage(root, new, config=GIVEN)
        return len(calls), read_files(new / "commitlog"), read_all(new / "consumequeue")

    monkeypatch.setattr(module, "PIECE", 512)
    monkeypatch.setattr(module._Salvage, "copy_part", count_and_copy)
    small_parts, *expected = salvaged(1000)
    large_parts, *found = salvaged(1)
    assert found == expected
    assert large_parts < small_parts / 2


def copy_module():
    return importlib.import_module("rocketstore.salvage.copy")  # the package has a function of this name


def test_the_names_of_log_files_and_the_configuration_are_brought_to_the_disk(root, out, monkeypatch):
    synced = {}

    def fsync(fd):
        status = os.fstat(fd)
        is_directory = stat.S_ISDIR(status.st_mode)
        synced[status.st_ino] = {entry.name for entry in os.scandir(fd)} if is_directory else status.st_size

    patch_syncs(monkeypatch, fsync)
    salvage(root, out, config=GIVEN)
    log = out / "commitlog"
    assert synced[log.stat().st_ino] == {path.name for path in log.iterdir()}
    for path in (out / "config").iterdir():
        assert synced[path.stat().st_ino] == path.stat().st_size, path


WITHOUT_LOG_SIZE = dataclasses.replace(GIVEN, mapped_file_size_commit_log=None)


def test_the_length_of_log_files_is_what_the_old_ones_show(root, out):
    report = salvage(root, out, config=WITHOUT_LOG_SIZE)
    assert report.mapped_file_size == LOG_FILE_SIZE
    check(out, report)


def test_the_length_of_log_files_is_not_that_of_one_that_lacks_bytes(root, out):
    """Its blank ends where it does, and each of these lengths is a blank's once."""
    for start in (2 * LOG_FILE_SIZE, 3 * LOG_FILE_SIZE):
        (root / "commitlog" / f"{start:020d}").unlink()
    shutil.rmtree(root / "config")
    path = root / "commitlog" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:2000] + path.read_bytes()[2010:])
    assert salvage(root, out).mapped_file_size == LOG_FILE_SIZE


def renamed(root):
    for i, path in enumerate(sorted((root / "commitlog").iterdir())):
        path.rename(path.with_name(f"found.{9 - i}"))


def swapped(root):
    first, second, *_ = sorted((root / "commitlog").iterdir())
    first.rename(first.with_name("x"))
    second.rename(first)
    first.with_name("x").rename(second)


def rotated(root):
    """Each has the name of the next one."""
    for path in sorted((root / "commitlog").iterdir(), reverse=True):
        path.rename(path.with_name(f"{int(path.name) + LOG_FILE_SIZE:020d}"))


def in_one_file(root):
    paths = sorted((root / "commitlog").iterdir())
    data = b"".join(path.read_bytes() for path in paths)
    for path in paths:
        path.unlink()
    paths[0].write_bytes(data)


def exchanged_halves(root):
    """In the second file, the bytes behind some record come first."""
    start = LOG_FILE_SIZE
    at = next(at for at, _ in scan(read_files(root / "commitlog")) if at > start + LOG_FILE_SIZE // 2)
    data = read_files(root / "commitlog")[start]
    end = max(at + size for file, at, size in records(root) if file == start)
    write_file(root / "commitlog", start, data[at - start : end] + data[: at - start] + data[end:])


def bytes_in_between(root):
    at, _ = scan(read_files(root / "commitlog"))[70]
    start = at // LOG_FILE_SIZE * LOG_FILE_SIZE
    data = read_files(root / "commitlog")[start]
    (root / "commitlog" / f"{start:020d}").write_bytes(data[: at - start] + b"\xdb" * 77 + data[at - start :])


CHANGES = [renamed, swapped, rotated, in_one_file, exchanged_halves, bytes_in_between]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_records_are_taken_by_their_own_offsets(pristine, root, out, change):
    change(root)
    report = salvage(root, out, config=GIVEN)
    assert check(out, report) == stored(pristine)
    assert report.lost == ()
    assert read_files(out / "commitlog") == read_files(pristine / "commitlog")
    assert bool(report.out_of_order) == (change is not in_one_file)


def test_a_directory_of_log_files_is_enough_and_so_is_one_file(pristine, root, out):
    report = salvage(root / "commitlog", out, config=WITHOUT_LOG_SIZE)
    assert (report.mapped_file_size, report.lost) == (LOG_FILE_SIZE, ())
    assert read_files(out / "commitlog") == read_files(pristine / "commitlog")
    shutil.rmtree(out)
    one = root / "commitlog" / f"{LOG_FILE_SIZE:020d}"
    report = salvage(one, out, config=GIVEN)
    assert scan(read_files(out / "commitlog")) == scan({LOG_FILE_SIZE: one.read_bytes()})
    assert (report.min_phy_offset, report.lost) == (LOG_FILE_SIZE, ())


def test_inner_batches_are_known_without_topics_json(root, out):
    salvage(root / "commitlog", out, config=GIVEN)
    assert BrokerConfig.open(out).topics["Batch"].attributes == {"queue.type": "BatchCQ"}
    assert (out / "batchconsumequeue" / "Batch" / "0").is_dir()
    with rocketstore.open(out, config=GIVEN) as store:
        queue = store.consume_queue("Batch", 0)
        assert sum(queue[0:].batch_nums.tolist()) == queue.max_queue_offset > 50


def test_files_that_are_there_twice_are_taken_once(pristine, root, out):
    for path in list((root / "commitlog").iterdir()):
        shutil.copy(path, path.with_name(f"{path.name}.bak"))
    report = salvage(root, out, config=GIVEN)
    assert check(out, report) == stored(pristine)
    assert (report.duplicates, report.lost) == (len(stored(pristine)), ())


def test_copies_of_other_names_are_taken_once_too(pristine, root, out):
    for path in list((root / "commitlog").iterdir()):
        shutil.copy(path, path.with_name(f"a{path.name}"))
        path.rename(path.with_name(f"b{path.name}"))
    report = salvage(root, out, config=GIVEN)
    assert check(out, report) == stored(pristine)
    assert (report.duplicates, report.out_of_order) == (len(stored(pristine)), len(stored(pristine)))


def test_damaged_copies_complete_each_other(pristine, root, out):
    first, second, third = (scan(read_files(root / "commitlog"))[i][0] for i in (2, 3, 20))
    path = root / "commitlog" / f"{0:020d}"
    shutil.copy(path, path.with_name("copy"))
    change_log(root, 0, first + 4, b"\0" * 30)
    with path.with_name("copy").open("r+b") as copy:
        for at in (second, third):
            copy.seek(at + 4)
            copy.write(b"\xff" * 30)
    report = salvage(root, out, config=GIVEN)
    assert check(out, report) == stored(pristine)
    assert report.lost == ()
    in_first = sum(start == 0 for start, _, _ in records(pristine))
    assert report.duplicates == in_first - 3


def test_of_two_records_in_one_place_that_of_the_file_with_the_right_name_is_taken(pristine, root, out):
    at, record = scan(read_files(root / "commitlog"))[4]
    path = root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[at + 16 : at + 20] = b"flag"
    path.with_name("another").write_bytes(data)
    report = salvage(root, out, config=GIVEN)
    assert check(out, report) == stored(pristine)
    (lost,) = report.lost
    assert (lost.path.name, lost.offset, lost.size) == ("another", at, record.total_size)
    assert lost.reason == "another record has this physical offset"


# ---- something is lost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", damages.OF_LOG, ids=lambda damage: damage.__name__)
def test_all_that_a_damage_leaves_is_found(root, out, seed, damage):
    before = read_files(root / "commitlog")
    damage(root, random.Random(f"{seed} {damage.__name__}"))
    if damage is damages.missing_log:
        with pytest.raises(StoreError, match="no record"):
            salvage(root, out, config=GIVEN)
        assert not out.exists()
        return
    expected = untouched(before, root)
    report = salvage(root, out, config=GIVEN)
    found = check(out, report)
    assert found == expected
    told = (
        damages.noise_after_the_last_record,
        damages.noise_instead_of_the_last_record,
        damages.damaged_body_of_a_record,
        damages.damaged_magic_of_a_record,
        damages.wrong_size_of_a_record,
    )
    assert bool(report.lost) >= (damage in told)


def test_a_moved_block_that_ends_within_a_record_hides_no_record_behind_it(root, out):
    data = read_files(root / "commitlog")[0]
    begins = [at for at, _ in scan({0: data})]
    begin, cut = begins[4], begins[6] - 1  # a record, and the next one without its last byte
    following = next(at for at in begins if at - cut > cut - begin)
    before = read_files(root / "commitlog")
    change_log(root, 0, following - (cut - begin), data[begin:cut])
    expected = Counter(untouched(before, root))
    assert not expected - Counter(check(out, salvage(root, out, config=GIVEN)))


@pytest.mark.parametrize("number", range(2))
def test_whatever_happens_to_a_store_untouched_records_are_found(root, out, seed, number):
    before = read_files(root / "commitlog")
    files = {name: data for name, data in read_all(root).items() if name.startswith("commitlog")}
    for what, change in many_bytes(files, f"{seed}/{number}", 6):
        change(root)
        expected = Counter(untouched(before, root))
        report = salvage(root, out, config=GIVEN)
        found = Counter(check(out, report, has_good_times=False))
        assert not expected - found, what
        assert max(found.values()) == 1, what
        shutil.rmtree(out)
        for name, data in files.items():
            overwrite(name, data)(root)


def lost_of(report):
    return [(lost.path.name, lost.offset, lost.size, lost.phy_offset) for lost in report.lost]


def test_a_wrong_crc_loses_its_record_alone(root, out):
    at, record = scan(read_files(root / "commitlog"))[0]
    change_log(root, 0, at + 90, b"\xa5\xa5")
    report = salvage(root, out, config=GIVEN)
    assert lost_of(report) == [(f"{0:020d}", at, record.total_size, at)]
    assert report.lost[0].reason == "bodyCrc: is not the CRC of the body"
    check(out, report)


def properties_cut(root, cut):
    """Four messages. Bytes are missing in the properties of the second, and the bytes behind them moved up."""
    properties = b"KEYS\1" + b"key-of-it " * 4 + b"\2TAGS\1A\2"
    data, places = log_of([b"first", b"second", b"third", b"last"], properties=properties)
    at = data.index(b"key-of-it", places[1]) + 2
    put_log(root, (data[:at] + data[at + cut :]).ljust(65536, b"\0"))
    return places


@pytest.mark.parametrize("cut", [1, 4, 5, 8, 30])
def test_bytes_that_are_missing_in_properties_lose_their_record_alone(tmp_path, out, cut):
    """Its lengths still fit, and no CRC is of these bytes: that the next record begins inside gives it away."""
    places = properties_cut(tmp_path / "store", cut)
    report = salvage(tmp_path / "store", out, config=BIG)
    assert [record.body for _, record in scan(read_files(out / "commitlog"))] == [b"first", b"third", b"last"]
    name = f"{0:020d}"
    damaged, missing = places[2] - cut - places[1], (name, places[2] - cut, cut, places[2] - cut)
    assert lost_of(report) == [(name, places[1], damaged, places[1]), missing]
    assert report.out_of_order == 2


def test_bytes_that_are_missing_at_the_end_of_one_record_and_the_begin_of_another_lose_both(tmp_path, out):
    """The rest of the second record has a magic code, which properties never have."""
    properties = b"KEYS\1" + b"key-of-it " * 4 + b"\2TAGS\1A\2"
    data, places = log_of([b"first", b"second", b"third", b"last"], properties=properties)
    put_log(tmp_path / "store", (data[: places[2] - 20] + data[places[2] + 3 :]).ljust(65536, b"\0"))
    salvage(tmp_path / "store", out, config=BIG)
    assert [record.body for _, record in scan(read_files(out / "commitlog"))] == [b"first", b"last"]


def test_a_record_in_the_body_of_one_whose_properties_lack_bytes_is_none(tmp_path, out):
    inner = build_record(topic="Inner", body=b"inner", queue_offset=7, phy_offset=40_000)
    data, places = log_of([b"first", b"xyz" + inner + b"zyx", b"last"], properties=b"KEYS\1key-of-it\2")
    at = data.index(b"key-of-it", places[1])
    put_log(tmp_path / "store", (data[:at] + data[at + 5 :]).ljust(65536, b"\0"))
    report = salvage(tmp_path / "store", out, config=BIG)
    assert [record.topic for _, record in scan(read_files(out / "commitlog"))] == ["T"] * 2
    assert lost_of(report)[0] == (f"{0:020d}", places[1], places[2] - 5 - places[1], places[1])


def test_bytes_that_are_missing_before_the_blank_lose_the_last_record(tmp_path, out):
    data, places = log_of([b"first", b"last", b""], properties=b"KEYS\1key-of-it\2")
    end = places[2]
    data = data[:end] + struct.pack(">iI", 65536 - end, 0xCBD43194) + data[end + 8 :]
    at = data.index(b"key-of-it", places[1])
    put_log(tmp_path / "store", data[:at] + data[at + 5 :])
    report = salvage(tmp_path / "store", out, config=BIG)
    assert [record.body for _, record in scan(read_files(out / "commitlog"))] == [b"first"]
    assert report.lost[0][1:3] == (places[1], places[2] - 5 - places[1])
    assert report.lost[0].reason == "size: another record, or a blank, begins inside"


def test_a_wrong_crc_property_loses_its_record_alone(root, out):
    at, record = next(each for each in scan(read_files(root / "commitlog")) if each[1].topic == "Crc" and each[0])
    change_log(root, 0, at + 19, b"\x07")  # the flag, which the CRC of the body does not cover
    report = salvage(root, out, config=GIVEN)
    assert lost_of(report) == [(f"{0:020d}", at, record.total_size, at)]
    assert report.lost[0].reason.startswith("__CRC32#")
    check(out, report)


def test_a_crc_property_without_its_separator_is_a_wrong_one(root, out):
    at, record = next(each for each in scan(read_files(root / "commitlog")) if each[1].topic == "Crc" and each[0])
    change_log(root, 0, at + record.total_size - 2, b"\x7f\xff")
    report = salvage(root, out, config=GIVEN)
    assert lost_of(report) == [(f"{0:020d}", at, record.total_size, at)]
    check(out, report)


@pytest.mark.parametrize("full", [False, True], ids=["last of the log", "before the blank"])
def test_a_property_that_ends_in_a_zero_is_no_half_record_unless_it_was_written_last(tmp_path, out, full):
    """4.9.1 to 5.1.4 end the last property without a separator."""
    data, places = log_of([b"first", b"last", b""], properties=b"p\1v\0")
    end = places[2]
    blank = struct.pack(">iI", 65536 - end, 0xCBD43194) if full else b""
    put_log(tmp_path / "store", (data[:end] + blank).ljust(65536, b"\0"))
    report = salvage(tmp_path / "store", out, config=BIG)
    assert lost_of(report) == ([] if full else [(f"{0:020d}", places[1], end - places[1], places[1])])
    old = salvage(tmp_path / "store", tmp_path / "old", config=dataclasses.replace(BIG, compat="5.1.4"))
    assert (old.records, old.lost) == (2, ())


@pytest.mark.parametrize("force", [False, True])
def test_crc_properties_of_other_records_lose_none_unless_the_configuration_asks_for_right_ones(tmp_path, out, force):
    """RocketMQ stores the CRC property of a message unchanged, unless it appends its own."""
    data, _ = log_of([b"first", b"second"], properties=b"a\1b\2__CRC32#\0011234567890\2")
    put_log(tmp_path / "store", data)
    config = dataclasses.replace(BIG, force_verify_prop_crc=force)
    if force:
        with pytest.raises(StoreError, match="no record"):
            salvage(tmp_path / "store", out, config=config)
    else:
        report = salvage(tmp_path / "store", out, config=config)
        assert (report.records, report.lost) == (2, ())
        assert verify(out).findings == []


@pytest.mark.parametrize("force", [False, True])
def test_a_record_that_lost_its_crc_property_is_lost_where_the_broker_writes_them(tmp_path, out, force):
    config = dataclasses.replace(BIG, enabled_append_prop_crc=True, force_verify_prop_crc=force)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        puts = [store.put_message(Message("T", b"body", keys=[f"key-{n}"])) for n in range(4)]
    begin, end = puts[1].phy_offset, puts[1].phy_offset + puts[1].size
    keys_at = read_files(tmp_path / "store" / "commitlog")[0].index(b"key-1")
    change_log(tmp_path / "store", 0, keys_at, b"x" * (end - keys_at))
    report = salvage(tmp_path / "store", out, config=config)
    assert lost_of(report) == [(f"{0:020d}", begin, end - begin, begin)]
    assert (report.records, report.unverified) == (3, ())
    assert verify(out, config=config).findings == []


def test_records_without_a_crc_property_among_others_are_copied_and_named_as_unverified(tmp_path, out):
    """Records from before the option was switched on have none."""
    config = dataclasses.replace(BIG, enabled_append_prop_crc=True)
    ends = []
    for options in (BIG, config):
        with rocketstore.open(tmp_path / "store", "a", config=options) as store:
            puts = [store.put_message(Message("T", b"body", keys=[f"key-{n}"])) for n in range(3)]
        ends.append(puts[-1].phy_offset + puts[-1].size)
    report = salvage(tmp_path / "store", out, config=config)
    path = tmp_path / "store" / "commitlog" / f"{0:020d}"
    assert (report.records, report.lost, report.unverified) == (6, (), ((path, 0, ends[0], 3),))


def test_a_changed_name_of_a_crc_property_makes_its_record_unverified(tmp_path, out):
    config = dataclasses.replace(BIG, enabled_append_prop_crc=True)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        puts = [store.put_message(Message("T", b"body", keys=[f"key-{n}"])) for n in range(3)]
    at, size = puts[1].phy_offset, puts[1].size
    change_log(tmp_path / "store", 0, at + size - 20, b"-")
    report = salvage(tmp_path / "store", out, config=BIG)  # which does not say that the broker writes CRC properties
    (unverified,) = report.unverified
    assert (unverified[1:], report.records) == ((at, size, 1), 3)


def test_crc_properties_are_right_at_the_new_places(root, out):
    change_log(root, 0, 8, b"\0\0\0\0")
    report = salvage(root, out, config=GIVEN)
    check(out, report)
    files = read_files(out / "commitlog")
    with_crc = [each for each in scan(files) if each[1].topic == "Crc"]
    for at, record in with_crc:
        start = at // LOG_FILE_SIZE * LOG_FILE_SIZE
        assert parse_record(files[start], at - start, force_verify_prop_crc=True).success, record
    assert len(with_crc) == 44


def test_zeroed_sectors_lose_what_they_touch(root, out):
    before = read_files(root / "commitlog")
    for start, position in ((0, 512), (0, 1024), (LOG_FILE_SIZE, 4096), (2 * LOG_FILE_SIZE, 0)):
        change_log(root, start, position, bytes(512))
    expected = untouched(before, root)
    report = salvage(root, out, config=GIVEN)
    assert check(out, report) == expected
    assert [lost.path.name for lost in report.lost] == [f"{n * LOG_FILE_SIZE:020d}" for n in (0, 1, 2)]
    assert sum(lost.size for lost in report.lost) < 4 * 512 + 4 * 2 * 400


def test_records_of_files_behind_a_loss_stay_where_they_are(root, out):
    """A log that does not begin at 0: the first units of no queue could count as messages."""
    (root / "commitlog" / f"{0:020d}").unlink()
    at, _ = next(each for each in scan(read_files(root / "commitlog")) if each[0] > LOG_FILE_SIZE + 500)
    change_log(root, LOG_FILE_SIZE, at - LOG_FILE_SIZE, b"\xff" * 60)
    before = read_files(root / "commitlog")
    report = salvage(root, out, config=GIVEN)
    check(out, report)
    after = read_files(out / "commitlog")
    assert [offset for offset, _ in scan(after) if offset >= 2 * LOG_FILE_SIZE] == [
        offset for offset, _ in scan({start: data for start, data in before.items() if start >= 2 * LOG_FILE_SIZE})
    ]
    assert 0 < report.moved < report.records // 2


def test_a_file_that_is_gone_is_reported_and_is_a_blank(root, out):
    (root / "commitlog" / f"{2 * LOG_FILE_SIZE:020d}").unlink()
    before = read_files(root / "commitlog")
    report = salvage(root, out, config=GIVEN)
    check(out, report)
    assert lost_of(report) == [(f"{2 * LOG_FILE_SIZE:020d}", 0, LOG_FILE_SIZE, 2 * LOG_FILE_SIZE)]
    assert report.lost[0].reason == "no file has these bytes"
    behind = {start: data for start, data in before.items() if start > 2 * LOG_FILE_SIZE}
    assert report.moved == sum(offset < 2 * LOG_FILE_SIZE for offset, _ in scan(before)) + len(scan(behind))
    assert report.min_phy_offset == LOG_FILE_SIZE, "a log from 0 would have fillers that point into it"


def test_the_newest_messages_of_a_queue_keep_their_offsets(root, out):
    found = [each for each in scan(read_files(root / "commitlog")) if (each[1].topic, each[1].queue_id) == ("Crc", 0)]
    change_log(root, 0, found[5][0] + 8, b"\0\0\0\0")
    report = salvage(root, out, config=GIVEN)
    check(out, report)
    assert report.renumbered == {("Crc", 0): 5}
    after = [each for _, each in scan(read_files(out / "commitlog")) if (each.topic, each.queue_id) == ("Crc", 0)]
    assert [record.queue_offset for record in after] == list(range(1, 44))
    assert after[-1].queue_offset == found[-1][1].queue_offset
    assert [record.store_timestamp for record in after[5:]] == [each.store_timestamp for _, each in found[6:]]


def test_the_same_goes_for_inner_batches(root, out):
    """A broker returns the messages before a gap of this queue again and again."""
    found = [each for each in scan(read_files(root / "commitlog")) if each[1].topic == "Batch"]
    change_log(root, 0, found[3][0] + 8, b"\0\0\0\0")
    report = salvage(root, out, config=GIVEN)
    check(out, report)
    assert report.renumbered == {("Batch", 0): 3}
    after = [each for _, each in scan(read_files(out / "commitlog")) if each.topic == "Batch"]
    assert [record.msg_base_offset for record in after] == list(range(2, 2 * len(found), 2))
    assert [record.queue_offset for record in after] == [record.msg_base_offset for record in after]
    assert [record.body for record in after] == [record.body for i, (_, record) in enumerate(found) if i != 3]


def test_a_wild_queue_offset_does_not_carry_the_others_away(root, out):
    at = next(at for at, record in scan(read_files(root / "commitlog")) if record.topic == "TopicTest" and at > 1000)
    change_log(root, 0, at + 20, b"\x40")
    report = salvage(root, out, config=GIVEN)
    assert check(out, report) == stored(root)
    assert sum(report.renumbered.values()) == 1


# ---- bytes that are no record ------------------------------------------------------------------------------------


def log_of(bodies, **options):
    """One log file of records with these bodies, and where they are."""
    data, places = b"", []
    for n, body in enumerate(bodies):
        places.append(len(data))
        data += build_record(topic="T", body=body, queue_offset=n, phy_offset=len(data), **options)
    return data.ljust(65536, b"\0"), places


def put_log(root, data):
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020d}").write_bytes(data)


BIG = dataclasses.replace(GIVEN, mapped_file_size_commit_log=65536)


@pytest.mark.parametrize("own", [True, False], ids=["at its own offset", "of another place"])
@pytest.mark.parametrize("damaged", [False, True], ids=["before a sound one", "before a damaged one"])
def test_a_record_in_the_body_of_a_sound_one_is_none(tmp_path, out, own, damaged):
    _, (_, second) = log_of([b"first", b""])
    inner = build_record(topic="Inner", body=b"inner", queue_offset=7, phy_offset=second + 88 + 3 if own else 40_000)
    data, places = log_of([b"first", b"xyz" + inner + b"zyx", b"third", b"last"])
    put_log(tmp_path / "store", data)
    if damaged:
        change_log(tmp_path / "store", 0, places[2], bytes(40))
    report = salvage(tmp_path / "store", out, config=BIG)
    assert [record.topic for _, record in scan(read_files(out / "commitlog"))] == ["T"] * (4 - damaged)
    lost = [(f"{0:020d}", places[2], places[3] - places[2], places[2])]
    assert (lost_of(report), report.duplicates) == (lost if damaged else [], 0)


def test_records_of_another_log_in_a_damaged_body_are_none(tmp_path, out):
    numbered = ({"queue_offset": n, "phy_offset": 10**9 + 98 * n} for n in range(9))
    inner = b"".join(build_record(topic="Inner", body=b"in", **numbers) for numbers in numbered)
    data, (_, second, third, _) = log_of([b"first", inner, b"third", b"last"])
    data = bytearray(data)
    data[second : second + 60] = bytes(60)
    put_log(tmp_path / "store", bytes(data))
    report = salvage(tmp_path / "store", out, config=BIG)
    assert [record.topic for _, record in scan(read_files(out / "commitlog"))] == ["T"] * 3
    assert sum(lost.size for lost in report.lost if lost.phy_offset < 65536) == third - second
    assert {lost.reason for lost in report.lost if lost.phy_offset > 65536} == {"a record of another log"}


def test_old_records_behind_a_blank_are_none(tmp_path, out):
    """The blank's space was written before, when the log was cut: they are even where they say that they are."""
    old, places = log_of([b"old%d" % n for n in range(20)])
    new = bytearray(old)
    new[places[5] : places[5] + 8] = struct.pack(">iI", 65536 - places[5], 0xCBD43194)
    put_log(tmp_path / "store", bytes(new))
    report = salvage(tmp_path / "store", out, config=BIG)
    assert (report.records, report.lost) == (5, ())


def test_old_records_behind_a_blank_are_none_also_if_the_record_before_it_is_damaged(tmp_path, out):
    old, places = log_of([b"old%d" % n for n in range(20)])
    new = bytearray(old)
    new[places[5] : places[5] + 8] = struct.pack(">iI", 65536 - places[5], 0xCBD43194)
    new[places[4] : places[4] + 50] = bytes(50)
    put_log(tmp_path / "store", bytes(new))
    report = salvage(tmp_path / "store", out, config=BIG)
    assert report.records == 4
    assert lost_of(report) == [(f"{0:020d}", places[4], places[5] - places[4], places[4])]


@pytest.mark.parametrize("topic", ["", ".", "..", "../../x", "a/b", "a\0b", "x" * 256])
def test_a_topic_that_cannot_be_a_directory_is_lost(tmp_path, out, topic):
    first = build_record(topic="T", body=b"a", queue_offset=0, phy_offset=0)
    second = build_record(topic=topic, body=b"b", queue_offset=0, phy_offset=len(first))
    put_log(tmp_path / "store", (first + second).ljust(65536, b"\0"))
    report = salvage(tmp_path / "store", out, config=BIG)
    assert report.records == 1
    assert [lost.reason[:5] for lost in report.lost] == ["topic"]
    assert sorted(path.name for path in (out / "consumequeue").iterdir()) == ["T"]


FAR = 10**6  # where records are of another file


def head_to(end, at, phy_offset, crc):
    """The head of a record that takes all of a file from `at` to `end`, before a topic and no properties."""
    head = bytearray(build_record(topic="T", body=b"x" * 8, queue_offset=0, phy_offset=phy_offset)[:88])
    head[0:4], head[84:88] = struct.pack(">i", end - at), struct.pack(">i", end - at - 92)
    head[8:12] = struct.pack(">I", crc & 0x7FFFFFFF)
    return head


def heads_with_wrong_crcs(data):
    first = build_record(topic="T", body=b"a", queue_offset=0, phy_offset=0)
    data[: len(first)] = first
    for at in range(1024, len(data) - 8192, 96):
        data[at : at + 88] = head_to(len(data), at, 5, 0)


def heads_in_one_of_another_file(data):
    first = build_record(topic="T", body=b"a", queue_offset=0, phy_offset=0)
    data[: len(first)] = first
    for at in range(1024, len(data) - 200, 96):
        data[at : at + 88] = head_to(len(data), at, at, 0)
    start = len(first)
    data[start : start + 88] = head_to(len(data), start, FAR, zlib.crc32(data[start + 88 : -4]))


def heads_of_another_file_around_one_of_this(data):
    first = build_record(topic="T", body=b"b", queue_offset=0, phy_offset=FAR)
    last_at = len(data) - 4 - len(first)
    data[last_at:-4] = build_record(topic="T", body=b"b", queue_offset=0, phy_offset=last_at)
    for at in range(last_at - 96, len(first), -96):
        data[at : at + 88] = head_to(len(data), at, FAR + at, zlib.crc32(data[at + 88 : -4]))
    data[: len(first)] = first


def heads_of_this_file_with_a_record_behind_their_bodies(data):
    first = build_record(topic="T", body=b"b", queue_offset=0, phy_offset=0)
    data[: len(first)] = first
    data[-len(first) - 4 :] = b"\1T" + struct.pack(">h", len(first)) + first
    for at in range(96, len(data) - 192, 96):
        data[at : at + 88] = head_to(len(data), at, at, 0)
        data[at + 84 : at + 88] = struct.pack(">i", len(data) - at - 92 - len(first))


FILLS = [
    heads_with_wrong_crcs,
    heads_in_one_of_another_file,
    heads_of_another_file_around_one_of_this,
    heads_of_this_file_with_a_record_behind_their_bodies,
]


@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.__name__)
def test_very_many_heads_of_records_do_not_take_for_ever(fill, tmp_path, out):
    """Each claims to be one up to the end of the file, and its CRC has to be looked at."""
    size = 1 << 20
    data = bytearray(random.Random(1).randbytes(size))
    data[-4:] = b"\1T\0\0"
    fill(data)
    put_log(tmp_path / "store", bytes(data))
    started = time.process_time()
    report = salvage(tmp_path / "store", out, config=dataclasses.replace(GIVEN, mapped_file_size_commit_log=size))
    assert report.records <= 2
    assert time.process_time() - started < 5


# ---- light queues ----------------------------------------------------------------------------------------------


def test_light_queues_keep_their_offsets_and_their_units_close_a_gap(tmp_path, out, seed):
    rng = random.Random(seed)
    options = {"enable_lmq": True, "enable_multi_dispatch": True, "enabled_append_prop_crc": True}
    with Pair(tmp_path / "store", **options) as pair:
        for n in range(40):
            names = ",".join(rng.sample(["%LMQ%a", "%LMQ%b"], k=rng.randint(1, 2)))
            pair.put(body=b"%d" % n, properties={"INNER_MULTI_DISPATCH": names, "KEYS": f"k{n}"})
    log = scan(read_files(tmp_path / "store" / "commitlog"))
    for at, _ in (log[12], log[25]):
        change_log(tmp_path / "store", at // 4096 * 4096, at % 4096 + 8, b"\0\0\0\0")
    report = salvage(tmp_path / "store", out, config=config_of(**options))
    after = read_files(out / "commitlog")
    assert [record.body for _, record in scan(after)] == [b"%d" % n for n in range(40) if n not in (12, 25)]
    assert all(walk_is_sound(after[start]) for start in after)
    for name in ("%LMQ%a", "%LMQ%b"):
        kept = [record for i, record in enumerate(log) if i not in (12, 25)]
        new = light_offsets(scan(after), name)
        assert new == light_offsets(kept, name)
        places = list(range(new[0], new[0] + len(new)))
        assert report.misplaced.get((name, 0), 0) == sum(map(operator.ne, new, places))
        with rocketstore.open(out) as store:
            queue = store.consume_queue(name, 0)
            units = queue[new[0] :]
            assert units.queue_offsets.tolist() == places
            names = [(at, record.properties["INNER_MULTI_DISPATCH"].split(",")) for at, record in scan(after)]
            of_queue = [at for at, queues in names if name in queues]
            assert units.phy_offsets.tolist() == of_queue
    assert report.records == 38
    assert report.misplaced
    check_that_recovery_is_content(out)


@pytest.mark.parametrize("is_known", [True, False])
def test_messages_of_batch_queues_have_no_units_in_light_queues(tmp_path, out, is_known):
    """Only an inner batch may show that the queues of a topic are batch queues."""
    options = {"enable_lmq": True, "enable_multi_dispatch": True}
    with Pair(tmp_path / "store", batch_topics=("Batched",), **options) as pair:
        inner = Message.batch("Batched", [Message("Batched", b"")] * 2)
        fields = {"body": inner.raw_body, "sys_flag": inner.sys_flag}
        for topic in ("Batched", "T", "T", "T", "Batched"):
            light = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
            more = {"properties": light} if topic == "T" else {"properties": inner.properties | light, **fields}
            pair.put(topic=topic, **more)
    log = scan(read_files(tmp_path / "store" / "commitlog"))
    change_log(tmp_path / "store", 0, log[2][0] + 8, b"\0\0\0\0")
    if not is_known:
        shutil.rmtree(tmp_path / "store" / "config")
    report = salvage(tmp_path / "store", out, config=config_of(**options))
    records = [record for _, record in scan(read_files(out / "commitlog"))]
    offsets = [record.properties["INNER_MULTI_QUEUE_OFFSET"] for record in records]
    assert [record.topic for record in records] == ["Batched", "T", "T", "Batched"]
    assert offsets == ["0", "1", "3", "4"]
    assert report.misplaced == {("%LMQ%a", 0): 1}
    with rocketstore.open(out) as store:
        units = store.consume_queue("%LMQ%a", 0)[1:]
        assert units.queue_offsets.tolist() == [1, 2]
        assert units.phy_offsets.tolist() == [record.phy_offset for record in records[1:3]]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_queue_that_other_messages_are_dispatched_to_keeps_its_offsets(tmp_path, out, seed, damaged):
    root, config = tmp_path / "store", dataclasses.replace(rebuilt.CONFIG, **rebuilt.LIGHT)
    rebuild(rebuilt.make_log(root, rebuilt.KINDS["light_queues"](random.Random(seed))), config=config)
    if damaged:
        at = next(at for at, record in scan(read_files(root / "commitlog")) if record.topic == "other")
        change_log(root, at // rebuilt.FILE * rebuilt.FILE, at % rebuilt.FILE + 4, b"\0")
    report = salvage(root, out)
    assert report.records == 60 - damaged
    assert damaged or report.renumbered == report.misplaced == {}
    findings = verify(out).findings
    assert {finding.kind for finding in findings} <= {"unit-shifted"}
    assert sum(1 + finding.more for finding in findings) == sum(report.misplaced.values())


def light_offsets(log, name):
    return [
        int(record.properties["INNER_MULTI_QUEUE_OFFSET"].split(",")[names.index(name)])
        for _, record in log
        if name in (names := record.properties["INNER_MULTI_DISPATCH"].split(","))
    ]


def walk_is_sound(data):
    walked = walk_file(data, force_verify_prop_crc=True)
    return all(parsed.success or not any(data[position:]) for position, parsed in walked)


# ---- failures ----------------------------------------------------------------------------------------------------


def test_a_directory_that_is_not_empty_is_refused(root, out):
    out.mkdir()
    (out / "file").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="out"):
        salvage(root, out, config=GIVEN)
    assert read_all(out) == {"file": b"mine"}


@pytest.mark.parametrize("inside", [".", "new", "commitlog/new", "commitlog"])
def test_a_directory_inside_the_old_store_is_refused(root, inside):
    before = read_all(root)
    with pytest.raises(ValueError, match="inside"):
        salvage(root, root / inside, config=GIVEN)
    (root.parent / "link").symlink_to(root)
    with pytest.raises(ValueError, match="inside"):
        salvage(root, root.parent / "link" / inside, config=GIVEN)
    assert read_all(root) == before


def test_where_nothing_is_found_nothing_is_made(tmp_path, out):
    with pytest.raises(FileNotFoundError):
        salvage(tmp_path / "absent", out)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="no record"):
        salvage(tmp_path / "empty", out)
    put_log(tmp_path / "zeros", bytes(65536))
    out.mkdir()
    with pytest.raises(StoreError, match="no record"):
        salvage(tmp_path / "zeros", out)
    assert list(out.iterdir()) == []


FULL, CTRL_C = OSError(28, "No space left on device"), KeyboardInterrupt()
FAILURES = {f"{call}-full": (call, FULL) for call in ("pwrite", "ftruncate", "fsync")}
FAILURES |= {f"{call}-Ctrl-C": (call, CTRL_C) for call in ("pwrite", "ftruncate", "fsync")}
if hasattr(os, "copy_file_range"):
    FAILURES["copy_file_range-Ctrl-C"] = "copy_file_range", CTRL_C


@pytest.mark.parametrize(("call", "error"), FAILURES.values(), ids=FAILURES)
def test_a_failure_leaves_both_directories_as_they_were(root, out, monkeypatch, error, call):
    if call == "copy_file_range":
        monkeypatch.setattr(copy_module(), "LEAST_UNCHANGED", 1)
    before = read_all(root)
    real, calls = getattr(os, call), []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise error
        return real(*arguments)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        salvage(root, out, config=GIVEN)
    assert not out.exists()
    assert read_all(root) == before
    assert sys.platform != "linux" or not open_paths(out)


@pytest.mark.skipif(sys.platform != "linux", reason="looks paths of descriptors up in /proc")
def test_an_index_that_cannot_be_brought_to_the_disk_leaves_nothing_open(root, out, monkeypatch):
    def fsync(fd):
        if "index/" in path_of(fd):
            raise OSError(5, "Input/output error")

    patch_syncs(monkeypatch, fsync)
    with pytest.raises(OSError, match="Input/output"):
        salvage(root, out, config=GIVEN)
    assert not out.exists()
    assert open_paths(out) == []


def test_a_record_that_no_file_has_room_for_is_an_error_that_says_so(root, out):
    small = dataclasses.replace(GIVEN, mapped_file_size_commit_log=200)
    with pytest.raises(SettingError, match="mapped_file_size_commit_log"):
        salvage(root, out, config=small)
    assert not out.exists()


def test_files_of_another_length_can_be_asked_for(pristine, root, out):
    report = salvage(root, out, config=dataclasses.replace(GIVEN, mapped_file_size_commit_log=5000))
    assert check(out, report) == stored(pristine)
    assert {len(data) for data in read_files(out / "commitlog").values()} == {5000}


def test_progress_ends_at_its_total(root, out):
    calls = []
    salvage(root, out, config=GIVEN, progress=lambda done, total: calls.append((done, total)))
    dones = [done for done, _ in calls]
    assert dones == sorted(dones)
    assert dones[-1] == calls[-1][1]


# ---- deleted topics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_made_again", [False, True])
def test_messages_of_deleted_topics_are_copied_without_a_place_in_a_queue(tmp_path, is_made_again):
    root = deleted.store_with_deleted_topic(tmp_path / "store", is_made_again=is_made_again)
    report = salvage(root, tmp_path / "new")
    assert report.deleted == {("Orders", 0): deleted.OLD, ("Orders", 1): deleted.OLD}
    assert report.renumbered == {}
    assert deleted.bodies(tmp_path / "new") == deleted.bodies(root)
    assert {finding.kind for finding in verify(tmp_path / "new").findings} == {"topic-deleted"}
    with rocketstore.open(root) as old, rocketstore.open(tmp_path / "new") as new:
        assert old.commit_log.scan().count() == new.commit_log.scan().count()


def test_deleted_topics_are_brought_back_with_queue_offsets_of_their_own(tmp_path):
    root = deleted.store_with_deleted_topic(tmp_path / "store", is_made_again=True)
    report = salvage(root, tmp_path / "new", deleted=True)
    assert (report.deleted, report.renumbered) == ({}, {("Orders", 0): deleted.LIVE})
    assert deleted.bodies(tmp_path / "new")["Orders", 0] == [(b"deleted", deleted.OLD), (b"live", deleted.LIVE)]
    assert verify(tmp_path / "new").findings == []


def test_lives_are_told_apart_in_the_order_of_the_log_and_not_of_the_names(tmp_path):
    """Files that were renamed are read in the order of their names."""
    sizes = {"mapped_file_size_commit_log": 8192}
    root = deleted.store_with_deleted_topic(tmp_path / "store", is_made_again=True, **sizes)
    paths = sorted((root / "commitlog").iterdir())
    assert len(paths) > 1
    for path, name in zip(paths, "zyxwvutsrq", strict=False):
        path.rename(path.with_name(name))
    report = salvage(root, tmp_path / "new", config=dataclasses.replace(StoreConfig.small(), **sizes))
    assert report.deleted == {("Orders", 0): deleted.OLD, ("Orders", 1): deleted.OLD}
    assert deleted.bodies(tmp_path / "new")["Orders", 0] == [(b"live", deleted.LIVE)]


# ---- lost messages -----------------------------------------------------------------------------------------


def lose(root, numbers):
    """Overwrite records with zeros. Return the records."""
    places = records(root)
    found = [damages.parse_record(damages.log_files(root)[places[n][0]], places[n][1]).record for n in numbers]
    for n in numbers:
        start, position, size = places[n]
        change_log(root, start, position, bytes(size))
    return found


def test_a_dry_run_writes_nothing_and_counts_what_a_salvage_loses(root, out):
    lost = [record for record in lose(root, range(3, 60, 5)) if record.sys_flag & 0xC == 0]
    before = read_all(root)
    dry = salvage(root, dry_run=True)
    assert read_all(root) == before
    assert not out.exists()
    done = salvage(root, out)
    assert (dry.records, dry.lost, dry.lost_messages) == (done.records, done.lost, done.lost_messages)
    assert (dry.dry_run, dry.out, dry.max_phy_offset, dry.moved) == (True, None, None, None)
    counts = Counter()
    for record in lost:
        counts[record.topic] += int(record.properties.get("INNER_NUM", 1))
    assert {row.topic: row.messages for row in dry.lost_messages} == counts
    times = [row[2:] for row in dry.lost_messages if row.topic == "Batch"]
    stored = [record.store_timestamp for record in lost if record.topic == "Batch"]
    assert times == ([(min(stored), max(stored))] if stored else [])
    assert {row[2:] for row in dry.lost_messages if row.topic != "Batch"} == {(None, None)}
    assert "nothing was written" in repr(dry)


def test_old_records_behind_a_proved_cut_are_not_lost_by_a_salvage(tmp_path):
    store = cut_store.store_of(tmp_path / "store", 30)
    cut_store.cut_off(store, 10)
    assert salvage(store, dry_run=True).lost_messages == ()
    start, position, size = records(store)[4]
    change_log(store, start, position, bytes(size))
    assert salvage(store, dry_run=True).lost_messages == (("T0", 1, None, None),)


def test_without_queues_nobody_knows_how_many_messages_are_lost(tmp_path):
    store = cut_store.store_of(tmp_path / "store", 30)
    shutil.rmtree(store / "consumequeue")
    assert salvage(store, dry_run=True).lost_messages is None
    assert salvage(store / "commitlog" / f"{0:020}", dry_run=True).lost_messages is None


def test_a_message_of_light_queues_is_lost_once(tmp_path):
    config = dataclasses.replace(cut_config(), enable_lmq=True, enable_multi_dispatch=True)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        for n in range(5):
            light = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}
            store.put_message(Message("T", b"%d" % n, queue_id=0, properties=light))
    lose(tmp_path / "store", [2])
    assert salvage(tmp_path / "store", dry_run=True, config=config).lost_messages == (("T", 1, None, None),)


def cut_config():
    return rocketstore.StoreConfig(**SMALL)


def test_a_salvage_needs_a_place_or_a_dry_run(root):
    with pytest.raises(ValueError, match="dry_run=True"):
        salvage(root)

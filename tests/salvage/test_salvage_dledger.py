"""Salvage of DLedger's log: the records without the heads of their entries, in a store of plain files."""

import random
import shutil

import pytest
from reference.dledger import HEAD
from support.cli import run
from support.dledger_stores import COUNT, SIZE, SIZES, begin_anew, make_store, message

import rocketstore
from rocketstore import Message, StoreConfig, StoreError


@pytest.fixture
def root(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def salvaged(root, path=None, **options):
    """Salvage a store. Return the report, and the numbers of the messages that queues and keys of the new one give."""
    out = root.parent / "new"
    report = rocketstore.salvage(root if path is None else path, out, config=SIZES, **options)
    with rocketstore.open(out) as store:
        scanned = [number_of(one) for batch in store.scan(columns=None) for one in batch]
        queued = []
        for topic, queue_id in store.queues():
            offset = store.get_message(topic, queue_id, 0).min_offset
            while (found := store.get_message(topic, queue_id, offset)).status == "FOUND":
                queued += map(number_of, found.messages)
                offset = found.next_begin_offset
        keyed = [number_of(one) for n in range(COUNT) for one in store.query_message("T", f"k{n}").messages]
    assert sorted(queued) == keyed == scanned
    assert rocketstore.verify(out).findings == []
    return report, scanned


def number_of(read):
    """The number of a message, which must have all that was put."""
    number = int(read.keys[0][1:])
    given = message(number)
    assert bytes(read.body) == given["body"]
    assert read.store_timestamp == given["store_timestamp"]
    return number


def data_file(root, offset):
    return root / "dledger-n0" / "data" / f"{offset // SIZE * SIZE:020}"


def overwrite(root, offset, data):
    with data_file(root, offset).open("r+b") as file:
        file.seek(offset % SIZE)
        file.write(data)


@pytest.mark.parametrize("plain", [0, 20])
def test_a_sound_log_of_dledger_becomes_a_log_of_plain_files(root, plain):
    make_store(root, plain=plain)
    report, numbers = salvaged(root)
    assert numbers == list(range(COUNT))
    assert (report.records, report.lost, report.duplicates, report.lost_messages) == (COUNT, (), 0, ())
    assert report.moved == COUNT - plain
    assert rocketstore.salvage(root, dry_run=True, config=SIZES).records == COUNT


def test_a_damaged_record_alone_is_lost(root):
    offsets = make_store(root)
    overwrite(root, offsets[7] + 90, b"????")
    report, numbers = salvaged(root)
    assert numbers == [n for n in range(COUNT) if n != 7]
    assert [(lost.phy_offset, lost.size) for lost in report.lost] == [(offsets[7] - HEAD, offsets[8] - offsets[7])]
    assert [(lost.topic, lost.messages) for lost in report.lost_messages] == [("T", 1)]


@pytest.mark.parametrize("field", [0, 4, 24, 44])  # magic, size, position, size of the body
def test_a_record_behind_a_damaged_head_is_copied(root, field):
    offsets = make_store(root)
    overwrite(root, offsets[7] - HEAD + field, b"\x77\x77\x77\x77")
    report, numbers = salvaged(root)
    assert numbers == list(range(COUNT))
    assert [(lost.phy_offset, lost.size) for lost in report.lost] == [(offsets[7] - HEAD, HEAD)]


def test_the_bytes_before_a_log_that_begins_in_its_file_are_not_lost(root):
    offsets = make_store(root)
    begin_anew(root, offsets, 5)
    report, numbers = salvaged(root)
    assert numbers == list(range(5, COUNT))
    assert (report.lost, report.lost_messages) == ((), ())


def test_entries_behind_damage_and_the_blank_are_found(root):
    offsets = make_store(root)
    last = max(at for at in offsets if at < SIZE)
    overwrite(root, last - HEAD, b"?" * (SIZE - last + HEAD - 8 - 20))
    report, numbers = salvaged(root)
    assert numbers == [n for n in range(COUNT) if offsets[n] != last]
    assert len(report.lost) == 1


@pytest.mark.parametrize("name", ["dledger-n0/data", f"dledger-n0/data/{0:020}"])
def test_a_directory_or_a_file_of_entries_is_salvaged(root, name):
    offsets = make_store(root)
    report, numbers = salvaged(root, root / name)
    assert numbers == [n for n in range(COUNT) if name.endswith("data") or offsets[n] < SIZE]
    assert report.lost == ()


def test_a_missing_file_and_a_renamed_one_are_made_good(root):
    offsets = make_store(root)
    data_file(root, 0).rename(data_file(root, 0).with_name("lost+found.1"))
    data_file(root, SIZE).unlink()
    report, numbers = salvaged(root)
    assert numbers == [n for n in range(COUNT) if not SIZE <= offsets[n] < 2 * SIZE]
    assert report.out_of_order == sum(at < SIZE for at in offsets)


def test_the_new_store_is_read_though_the_broker_used_dledger(root, tmp_path):
    make_store(root)
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "enableDLegerCommitLog=true\ndLegerSelfId=n0\nmaxHashSlotNum=100\nmaxIndexNum=400\n"
        f"mappedFileSizeConsumeQueue=2000\nmappedFileSizeCommitLog={SIZE}\nstorePathRootDir={root}\n"
    )
    rocketstore.salvage(root, tmp_path / "new", config=StoreConfig.from_broker_conf(conf))
    with rocketstore.open(tmp_path / "new") as store:
        assert store.scan().count() == COUNT


def test_a_salvage_of_several_members_needs_a_choice(root):
    make_store(root)
    shutil.copytree(root / "dledger-n0", root / "dledger-n1")
    with pytest.raises(StoreError, match=r"dledger-n0, dledger-n1: .*dLegerSelfId"):
        rocketstore.salvage(root, root.parent / "new")
    config = StoreConfig(other={"dLegerSelfId": "n1"})
    assert rocketstore.salvage(root, dry_run=True, config=config).records == COUNT


def test_verify_names_commands_that_dledger_s_store_takes(root):
    offsets = make_store(root)
    shutil.rmtree(root / "index")
    (root / "abort").touch()
    overwrite(root, offsets[-1] - HEAD, b"?" * (HEAD + 100))  # a tail
    done = run("verify", root)
    assert [line for line in done.stderr.splitlines() if "To mend" in line] == [
        f"To mend: rocketstore rebuild {root} --out NEW"
    ]
    overwrite(root, offsets[7] + 90, b"????")
    assert f"To mend: rocketstore salvage {root} --out NEW" in run("verify", root).stderr


@pytest.mark.parametrize("damage", ["bytes", "file"])
def test_rebuild_of_a_damaged_log_advises_salvage_alone(root, damage):
    offsets = make_store(root)
    if damage == "bytes":
        overwrite(root, offsets[7] - HEAD, b"?" * (HEAD + 100))
    else:
        data_file(root, SIZE).unlink()
    with pytest.raises(StoreError, match=r"rocketstore salvage \S+ --out NEW copies") as raised:
        rocketstore.rebuild(root, out=root.parent / "new", config=SIZES)
    assert "recover" not in str(raised.value)


@pytest.mark.parametrize("part", range(6))
def test_hostile_entries_leave_what_can_be_read(root, seed, part):
    rng = random.Random(f"{seed} {part}")
    offsets = make_store(root)
    for path in sorted((root / "dledger-n0" / "data").iterdir()):
        data = bytearray(path.read_bytes())
        for _ in range(4):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: len(data) // 2] if part % 3 == 0 else data)
    report = rocketstore.salvage(root, root.parent / "new", config=SIZES)
    assert report.records + 12 >= sum(at % SIZE < SIZE // 2 - 500 for at in offsets)
    with rocketstore.open(root.parent / "new") as store:
        assert store.scan().count() == report.records


def test_an_older_log_of_plain_files_is_not_copied_in_place_of_one_that_is_elsewhere(root):
    with rocketstore.open(root, "a", config=SIZES) as store:
        store.put_message(Message("T", b""))
    config = StoreConfig(other={"enableDLegerCommitLog": "true"})
    with pytest.raises(FileNotFoundError, match="DLedger"):
        rocketstore.salvage(root, root.parent / "new", config=config)
    assert not (root.parent / "new").exists()

"""A store whose log is DLedger's is read as one with a log of plain files."""

import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest
from reference.dledger import HEAD, INDEX_UNIT, make_dledger, walk_entries
from reference.record import build_record
from support import brokers
from support.cli import run
from support.dledger_stores import COUNT, SIZE, SIZES, begin_anew, make_store, message

import rocketstore
from rocketstore import CorruptFileError, StoreConfig, StoreError, UnsupportedFormatError


def kinds_of_findings(root):
    """The kinds of what verify finds, but for the checkpoint of the store, which these stores do not have."""
    return [one.kind for one in rocketstore.verify(root, config=SIZES).findings if one.kind != "checkpoint-missing"]


@pytest.fixture
def store_with(tmp_path):
    """A function that makes a store and returns its root and the physical offsets of its records."""

    def made(**options):
        root = tmp_path / "store"
        root.mkdir()
        return root, make_store(root, **options)

    return made


def read_all(root, config=None):
    """Scan, queues and keys of a store, which must agree."""
    with rocketstore.open(root, config=config) as store:
        scanned = [one.phy_offset for batch in store.scan(columns=None) for one in batch]
        assert [int(at) for batch in store.scan(threads=3, columns="phy_offset") for at in batch.phy_offset] == scanned
        queued = []
        for topic, queue_id in store.queues():
            offset = store.get_message(topic, queue_id, 0).min_offset
            while (found := store.get_message(topic, queue_id, offset)).status == "FOUND":
                queued += [one.phy_offset for one in found.messages]
                offset = found.next_begin_offset
        keyed = [store.query_message("T", f"k{number}").messages for number in range(COUNT)]
        return scanned, sorted(queued), [one.phy_offset for found in keyed for one in found]


def test_scan_queues_and_keys_give_all_messages(store_with):
    root, offsets = store_with()
    assert read_all(root) == (offsets, offsets, offsets)
    with rocketstore.open(root) as store:
        assert store.summary().problems == []
        assert store.summary().begin_timestamp == 1_700_000_000_000
        assert store.get_offset_by_time("T", 1_700_000_010_000) == {0: 5, 1: 5}
        assert len(offsets) > SIZE // 400  # several files
    assert kinds_of_findings(root) == []


def test_a_range_of_physical_offsets_is_of_records(store_with):
    root, offsets = store_with(plain=20)
    with rocketstore.open(root) as store:
        for number in (0, 1, 18, 19, 20, 21, 40, 59):
            at = offsets[number]
            for begin in (at, at - 1, at - HEAD, at - HEAD + 1):
                assert store.scan(begin_offset=begin, columns="phy_offset").head(1).phy_offset[0] == at
            assert store.scan(begin_offset=at + 1).count() == COUNT - number - 1
            assert store.scan(end_offset=at).count() == number
            assert store.scan(end_offset=at + 1).count() == number + 1


def test_an_older_log_of_plain_files_is_below_the_log(store_with):
    root, offsets = store_with(plain=25)
    assert read_all(root) == (offsets, offsets, offsets)
    assert kinds_of_findings(root) == []
    shutil.rmtree(root / "commitlog")  # it has expired
    assert read_all(root)[0] == offsets[25:]


def test_the_log_may_be_in_several_directories(tmp_path):
    paths = [tmp_path / "one", tmp_path / "two"]
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "enableDLegerCommitLog=true\ndLegerSelfId=n0\nmaxHashSlotNum=100\nmaxIndexNum=400\n"
        f"mappedFileSizeConsumeQueue=2000\nstorePathDLedgerCommitLog={paths[0]},{paths[1]}\n"
        f"storePathRootDir={tmp_path / 'store'}\nmappedFileSizeCommitLog={SIZE}\n"
    )
    (tmp_path / "store").mkdir()
    paths[1].mkdir()
    make_dledger(tmp_path / "store" / "dledger-n0", SIZE, map(message, range(COUNT)), data=paths[0])
    for file in sorted(paths[0].iterdir())[1::2]:
        file.rename(paths[1] / file.name)
    config = StoreConfig.from_broker_conf(conf)
    with rocketstore.open(tmp_path / "store", config=config) as store:
        assert store.scan().count() == COUNT


@pytest.mark.parametrize("index", ["sound", "missing", "other"])
@pytest.mark.parametrize("committed", [-1, 0, 17, COUNT - 1, COUNT + 5])
def test_records_behind_the_last_committed_one_are_not_read(store_with, index, committed):
    root, offsets = store_with(plain=10)
    (root / "dledger-n0" / "checkpoint").write_text(f"#\ncommittedIndex={committed}\nendIndex=49\n")
    if index == "missing":
        shutil.rmtree(root / "dledger-n0" / "index")
    if index == "other":
        path = root / "dledger-n0" / "index" / f"{0:020}"
        with path.open("r+b") as file:
            file.seek(8)
            file.write(bytes(12_000))
    wanted = offsets[: 10 + min(committed + 1, COUNT - 10)]
    assert read_all(root) == (wanted, wanted, wanted)
    with rocketstore.open(root) as store:
        assert (store.commit_log.look().why == "not committed") == (len(wanted) < COUNT)
    with rocketstore.open(root, leftovers=True) as store:
        assert store.scan().count() == COUNT


@pytest.mark.parametrize("plain", [0, 10])
def test_commands_note_the_bytes_of_entries_that_are_not_committed(store_with, plain):
    root, offsets = store_with(plain=plain)
    (root / "dledger-n0" / "checkpoint").write_text(
        f"committedIndex={COUNT - plain - 4}\nendIndex={COUNT - plain - 1}\n"
    )
    begin, end = offsets[-3] - HEAD, offsets[-1] + len(build_record(**message(COUNT - 1)))
    assert begin // SIZE == end // SIZE  # one file: no blank is counted
    text = f"no entry behind {begin} as committed. The {end - begin} bytes of entries behind it are not read"
    with rocketstore.open(root) as store:
        assert [note for note in store.summary().notes if text in note]
    for words in (["cat", root], ["get", root, "T", "0", "29"], ["query", root, "--topic", "T", "--key", "k1"]):
        assert f"{text}. Pass --leftovers" in " ".join(run(*words).stderr.split())
    assert "as committed" not in run("cat", root, "--leftovers").stderr


def test_a_committed_log_of_dledger_has_no_note(store_with):
    root, _ = store_with()
    with rocketstore.open(root) as store:
        assert not [note for note in store.summary().notes if "committed" in note]


@pytest.mark.parametrize("number", [5, 20, 40])  # in the first, the first and the second file
def test_a_log_that_begins_within_its_first_file_is_sound(store_with, number):
    root, offsets = store_with(count=120)
    left = begin_anew(root, offsets, number)
    assert left[0] % SIZE > HEAD
    scanned, queued, keyed = read_all(root)
    assert scanned == left
    assert queued == left
    assert keyed == offsets[number:COUNT]
    with rocketstore.open(root) as store:
        assert store.commit_log.min_phy_offset == left[0] - HEAD
        summary = store.summary()
        assert summary.begin_timestamp == 1_700_000_000_000 + 1000 * number
        assert summary.problems == []
        assert store.scan(begin_offset=0, end_offset=left[2]).count() == 2
        assert store.get_message("T", 0, 0).status == "OFFSET_TOO_SMALL"
    assert kinds_of_findings(root) == []
    assert rocketstore.verify(root, config=SIZES, quick=True).ok
    rocketstore.rebuild(root, out=root.parent / "new", config=SIZES)
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
        (root.parent / "new" / name).rename(root / name)
    assert read_all(root) == (scanned, queued, keyed)


@pytest.mark.parametrize("committed", [29, 33])
def test_entries_are_counted_from_where_the_log_begins(store_with, committed):
    root, offsets = store_with(count=120, committed=committed)
    left = begin_anew(root, offsets, 30)
    with (root / "dledger-n0" / "index" / f"{0:020}").open("r+b") as file:
        file.seek(INDEX_UNIT.size * committed + 4)
        file.write(bytes(8))  # the unit of the last committed entry leads elsewhere
    assert read_all(root)[0] == left[: committed - 29]


@pytest.mark.parametrize("damage", ["unit before", "byte before", "other unit", "no index"])
def test_zeros_before_the_first_entry_are_damage_in_doubt(store_with, damage):
    root, offsets = store_with(count=120)
    units = (root / "dledger-n0" / "index" / f"{0:020}").read_bytes()[: INDEX_UNIT.size * 120]
    left = begin_anew(root, offsets, 5)
    with (root / "dledger-n0" / "index" / f"{0:020}").open("r+b") as file:
        if damage == "unit before":
            file.seek(INDEX_UNIT.size * 4)
            file.write(units[INDEX_UNIT.size * 4 :][: INDEX_UNIT.size])
        if damage == "other unit":
            file.seek(INDEX_UNIT.size * 5 + 4)
            file.write(units[INDEX_UNIT.size * 6 + 4 :][:8])
    if damage == "byte before":
        with (root / "dledger-n0" / "data" / f"{0:020}").open("r+b") as file:
            file.seek(left[0] - HEAD - 1)
            file.write(b"x")
    if damage == "no index":
        shutil.rmtree(root / "dledger-n0" / "index")
    with rocketstore.open(root) as store:
        assert store.commit_log.min_phy_offset == 0
        with pytest.raises(CorruptFileError):
            store.scan().count()
        assert store.scan(on_corrupt="skip").count() == len(left)
    assert "log-zeros" in kinds_of_findings(root)


@pytest.mark.parametrize("count", [10, 120])  # one file, and several
@pytest.mark.parametrize("text", [None, "committedIndex=-1\nendIndex=-1\n"])
def test_a_crash_soon_after_the_log_began_anew_hides_nothing(store_with, text, count):
    """The checkpoint is older than the log. With one file nothing else proves that the zeros are no damage."""
    root, offsets = store_with(count=count)
    left = begin_anew(root, offsets, 5)
    (root / "abort").touch()
    path = root / "dledger-n0" / "checkpoint"
    path.unlink() if text is None else path.write_text(text)
    with rocketstore.open(root) as store:
        assert store.commit_log.min_phy_offset == (left[0] - HEAD if count > 10 else 0)
        assert store.scan(on_corrupt="skip").count() == len(left)


def test_verify_tells_that_a_member_will_not_keep_such_a_log(store_with):
    root, offsets = store_with()
    begin_anew(root, offsets, 5)
    assert len(list((root / "dledger-n0" / "data").iterdir())) == 3
    assert kinds_of_findings(root) == ["dledger-begin"]


@pytest.mark.parametrize("last", [-(2**63), -1, 2**31, 2**58, 2**63 - 1])
def test_a_hostile_end_index_leaves_the_begin_as_it_is(store_with, last):
    root, offsets = store_with(count=20)
    begin_anew(root, offsets, 5)
    (root / "dledger-n0" / "checkpoint").write_text(f"committedIndex=19\nendIndex={last}\n")
    with rocketstore.open(root) as store:
        assert store.commit_log.min_phy_offset == 0
        assert store.scan(on_corrupt="skip").count() == 15


@pytest.mark.parametrize("number", [-(2**63), -2, 2**31, 2**58, 2**63 - 1])
def test_a_hostile_committed_index_gives_a_part_of_the_log(store_with, number):
    root, offsets = store_with()
    (root / "dledger-n0" / "checkpoint").write_text(f"committedIndex={number}\nendIndex={number}\n")
    assert read_all(root)[0] == (offsets if number > 0 else [])


@pytest.mark.parametrize("field", [4, 8, 16, 24, 44])  # size, index, term, position, size of the body
@pytest.mark.parametrize("value", [b"\0", b"\x7f", b"\x80", b"\xff"])
def test_a_hostile_entry_head_is_an_error_or_is_read(store_with, field, value):
    root, offsets = store_with(committed=30)
    with (root / "dledger-n0" / "data" / f"{0:020}").open("r+b") as file:
        file.seek(offsets[5] - HEAD + field)
        file.write(value * 4)
    with rocketstore.open(root) as store:
        scan = store.scan(on_corrupt="skip", columns="phy_offset")
        found = [int(offset) for batch in scan for offset in batch.phy_offset]
        assert set(found) <= set(offsets)
        assert len(found) + 1 >= 31
    rocketstore.verify(root, config=SIZES)


@pytest.mark.parametrize("text", [None, b"", b"committedIndex=x\n", b"\xff" * 100])
def test_without_a_sound_checkpoint_all_records_are_read(store_with, text):
    root, offsets = store_with()
    path = root / "dledger-n0" / "checkpoint"
    path.unlink() if text is None else path.write_bytes(text)
    assert read_all(root)[0] == offsets


def test_after_a_crash_records_behind_the_checkpoint_are_read(store_with):
    root, offsets = store_with(committed=3)
    (root / "abort").touch()
    assert read_all(root)[0] == offsets


@pytest.mark.parametrize("kept", [0, 4, 20, 48, 52, 100])
def test_a_torn_entry_ends_the_log(store_with, kept):
    root, offsets = store_with()
    last = offsets[-1] - HEAD
    path = root / "dledger-n0" / "data" / f"{last // SIZE * SIZE:020}"
    with path.open("r+b") as file:
        file.seek(last % SIZE + kept)
        file.write(bytes(SIZE - last % SIZE - kept))
    with rocketstore.open(root) as store:
        assert store.scan(on_corrupt="skip").count() == COUNT - 1
        assert store.commit_log.max_phy_offset == last


def test_damage_in_a_head_hides_no_other_record(store_with):
    root, offsets = store_with()
    path = root / "dledger-n0" / "data" / f"{0:020}"
    with path.open("r+b") as file:
        file.seek(offsets[5] - HEAD + 30)  # of its position
        file.write(b"\x77")
    with rocketstore.open(root) as store:
        scan = store.scan(on_corrupt="skip")
        assert sum(map(len, scan)) == COUNT
        assert [skipped[:2] for skipped in scan.skipped] == [(offsets[5] - HEAD, offsets[5])]
        assert store.query_message("T", "k5").messages[0].phy_offset == offsets[5]
    assert kinds_of_findings(root) == ["log-entry-head"]


def test_verify_names_a_wrong_index_or_checkpoint_of_entries(store_with):
    root, _ = store_with()
    path = root / "dledger-n0" / "checkpoint"
    path.write_text(f"committedIndex={COUNT}\nendIndex={COUNT - 1}\n")
    assert kinds_of_findings(root) == ["dledger-checkpoint"]
    path.unlink()
    assert kinds_of_findings(root) == ["dledger-checkpoint"]
    path.write_text(f"committedIndex={COUNT - 1}\nendIndex={COUNT - 1}\n")
    with (root / "dledger-n0" / "index" / f"{0:020}").open("r+b") as file:
        file.write(b"\1")
    assert kinds_of_findings(root) == ["dledger-index"]


def test_rebuild_makes_the_queues_that_the_broker_has(store_with, tmp_path):
    root, _ = store_with(plain=10)
    rocketstore.rebuild(root, out=tmp_path / "new", config=SIZES)
    for name in ("consumequeue", "index"):
        old, new = ({p.relative_to(base): p.read_bytes() for p in base.rglob("*") if p.is_file()}
                    for base in (root / name, tmp_path / "new" / name))  # fmt: skip
        assert old == new


@pytest.mark.parametrize("call", [lambda root: rocketstore.open(root, "a"), rocketstore.rebuild, rocketstore.recover])
def test_writers_refuse_the_store_and_say_what_to_do(store_with, call):
    root, _ = store_with()
    with pytest.raises(UnsupportedFormatError, match=r"DLedger.s, which is read but not [a-z]+: rebuild --out NEW"):
        call(root)


def test_several_members_in_one_root_need_a_choice(store_with):
    root, offsets = store_with()
    shutil.copytree(root / "dledger-n0", root / "dledger-n1")
    with rocketstore.open(root) as store, pytest.raises(StoreError, match=r"dledger-n0, dledger-n1: .*dLegerSelfId"):
        store.scan()
    config = StoreConfig(other={"dLegerSelfId": "n1"})
    with rocketstore.open(root, config=config) as store:
        assert store.scan().count() == len(offsets)


def test_a_brokers_file_without_dledger_means_plain_files(store_with):
    root, _ = store_with(plain=10)
    with rocketstore.open(root, config=StoreConfig(other={"enableDLegerCommitLog": "false"})) as store:
        assert store.scan(on_corrupt="skip").count() == 10


def test_a_log_on_a_remote_file_system_is_read(store_with):
    fsspec = pytest.importorskip("fsspec")
    root, offsets = store_with(plain=10, committed=39)
    memory = fsspec.filesystem("memory")
    memory.put(str(root), "/dledger-store", recursive=True)
    try:
        assert read_all("memory://dledger-store")[0] == offsets[:50]
    finally:
        memory.rm("/dledger-store", recursive=True)


def test_hexdump_shows_the_head_of_the_entry(store_with):
    root, offsets = store_with()
    done = subprocess.run(
        [sys.executable, "-m", "rocketstore", "hexdump", str(root), str(offsets[3] - 20)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "entryMagic" in done.stdout
    assert "entryBodySize" in done.stdout
    assert f"in the head of the entry whose record is at {offsets[3]}" in done.stderr


@pytest.mark.parametrize("seed", range(12))
def test_hostile_entries_end_in_errors_or_reports(store_with, seed):
    root, _ = store_with()
    random = np.random.default_rng(seed)
    paths = sorted((root / "dledger-n0").rglob("*"))
    for path in (path for path in paths if path.is_file() and path.parent.name != "index"):
        data = bytearray(path.read_bytes())
        for at in random.integers(0, len(data), 6).tolist():
            data[at] ^= 1 << int(random.integers(8))
        if seed % 3 == 0:
            at = int(random.integers(0, max(len(data) - 8, 1)))
            data[at : at + 8] = struct.pack(">ii", *random.integers(-(2**31), 2**31, 2).tolist())
        path.write_bytes(data[: len(data) // 2] if seed % 5 == 0 else data)
    unit = struct.pack(">iqiqq", *random.integers(-(2**31), 2**31, 5).tolist())
    (root / "dledger-n0" / "index" / f"{0:020}").write_bytes(unit * COUNT)
    with rocketstore.open(root) as store:
        assert store.scan(on_corrupt="skip").count() <= COUNT
        store.summary()
    assert rocketstore.verify(root, config=SIZES).findings


# ---- a broker's own log of several files -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def golden_root(tmp_path_factory):
    return brokers.unpack("dledger-files", tmp_path_factory.mktemp("golden"))


def golden_files(root):
    return sorted((root / "dledger-n0" / "data").iterdir())


def test_entries_of_all_files_are_in_order_and_blanks_fill_the_files(golden_root):
    entries = []
    for path in golden_files(golden_root):
        data, start = path.read_bytes(), int(path.name)
        entries += walk_entries(data, start)
        end = entries[-1].pos + HEAD + len(entries[-1].record) - start
        blank = struct.pack(">ii", -1, len(data) - end) if path != golden_files(golden_root)[-1] else b""
        assert data[end:] == blank.ljust(len(data) - end, b"\0")
    assert [entry.index for entry in entries] == list(range(210))
    with rocketstore.open(golden_root) as store:
        scanned = {one.phy_offset: one for batch in store.scan(columns=None) for one in batch}
        assert list(scanned) == [entry.pos + HEAD for entry in entries]
        assert [store.commit_log.get_message(at).size for at in scanned] == [len(one.record) for one in entries]
    pulled = [row for topic in ("Plain", "Orders") for row in brokers.rows("dledger-files", topic).values()]
    assert {row["phyOffset"]: row["body"] for row in pulled} == {at: one.body for at, one in scanned.items()}


def test_verify_finds_no_fault_in_a_broker_s_log_of_several_files(golden_root):
    report = rocketstore.verify(golden_root)
    assert (report.findings, report.records, report.messages) == ([], 210, 210)
    assert rocketstore.verify(golden_root, quick=True).findings == []


def test_rebuild_makes_the_bytes_of_a_broker_s_queues_and_index(golden_root, tmp_path):
    config = StoreConfig(max_hash_slot_num=1000, max_index_num=4000)
    rocketstore.rebuild(golden_root, out=tmp_path / "new", config=config)
    paths = [path for path in (golden_root / "consumequeue").rglob("*") if path.is_file()]
    assert len(paths) == 6
    for path in paths:
        assert (tmp_path / "new" / path.relative_to(golden_root)).read_bytes() == path.read_bytes()
    ((old,), (new,)) = ([*(root / "index").iterdir()] for root in (golden_root, tmp_path / "new"))
    assert new.read_bytes() == old.read_bytes()


def test_salvage_of_a_broker_s_log_keeps_all_messages(golden_root, tmp_path):
    report = rocketstore.salvage(golden_root, tmp_path / "new")
    assert (report.records, report.lost, report.lost_messages) == (210, (), ())
    with rocketstore.open(tmp_path / "new") as new, rocketstore.open(golden_root) as old:
        for queue in old.queues():
            found = [[*store.get_message(*queue, 0, 1000).messages] for store in (new, old)]
            assert [one.body for one in found[0]] == [one.body for one in found[1]]
        for words, places in brokers.truth("dledger-files")["keys"].items():
            messages = new.query_message(*words.split(" ", 1)).messages
            assert sorted((one.queue_id, one.queue_offset) for one in messages) == sorted((p[1], p[2]) for p in places)


def test_a_member_that_joined_late_begins_within_a_file(golden_root, tmp_path):
    root = shutil.copytree(golden_root, tmp_path / "store", ignore=shutil.ignore_patterns("index"))
    units = (golden_root / "dledger-n0" / "index" / f"{0:020}").read_bytes()[: 32 * 210]
    (root / "dledger-n0" / "index").mkdir()
    number = 50
    (root / "dledger-n0" / "index" / f"{0:020}").write_bytes(bytes(32 * number) + units[32 * number :])
    begin = INDEX_UNIT.unpack_from(units, 32 * number)[1]
    for path in golden_files(root):
        if int(path.name) + path.stat().st_size <= begin:
            path.unlink()
        elif int(path.name) < begin:
            data = path.read_bytes()
            path.write_bytes(bytes(begin - int(path.name)) + data[begin - int(path.name) :])
    with rocketstore.open(root) as store:
        assert store.commit_log.min_phy_offset == begin
        assert store.scan().count() == 210 - number
    assert [one.kind for one in rocketstore.verify(root).findings] == ["index-missing"]

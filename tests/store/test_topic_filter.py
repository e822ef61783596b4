"""Scans of topics that read only the records to which the queues lead: the same rows as a scan of the whole log."""

import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner
from support.deleted import delete_topic
from support.puts import PREPARED, ROLLBACK

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig
from rocketstore.cli.group import rocketstore as main
from rocketstore.kernels.layout import UNIT
from rocketstore.log.scan import Scan

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no queue")
T0 = 1_700_000_000_000
CONFIG = replace(StoreConfig.small(), mapped_file_size_commit_log=1 << 18)
USED = "to which the queues lead"
FEW = "Few"  # the topic of each 40th message


def put(store, number, topic="Many", **fields):
    names = {"queue_id": number % 3, "keys": [f"k{number % 50}"], "tags": f"t{number % 4}"} | fields
    store.put_message(Message(topic, b"%05d " % number * 12, **names), store_timestamp=T0 + 1000 * number)


def fill(root, numbers, config=CONFIG, **fields):
    with rocketstore.open(root, "a", config=config) as store:
        for number in numbers:
            put(store, number, FEW if number % 40 == 7 else f"Many{number % 3}", **fields)
    return root


@pytest.fixture(scope="module")
def sound_root(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("sound"), range(4000))


def rows_of(scan):
    """Return the offsets and bodies of a scan, the ranges that it left out, and the error with which it ends."""
    rows, error = [], None
    try:
        for batch in scan:
            rows += zip(batch.phy_offset.tolist(), [message.body for message in batch], strict=True)
    except CorruptFileError as raised:
        error = str(raised)
    return rows, [tuple(part)[:2] for part in scan.skipped], error


def compare(store, *bounds, **conditions):
    """Return how the messages were read. They are those of a scan of the whole log."""
    found = store.scan(*bounds, **conditions)
    assert rows_of(found) == rows_of(store.scan(*bounds, plan="scan", **conditions))
    return found.explain()


def test_a_rare_topic_is_read_by_its_queues(sound_root):
    with rocketstore.open(sound_root) as store:
        assert USED in compare(store, topic=FEW)
        assert USED in store[FEW].scan().explain()
        assert store.scan(topic=FEW).count() == 100
        assert store.scan(topic=FEW, plan="scan").explain().endswith("the queues are not used")
        assert store.scan(topic=FEW).explain().startswith("reads 100 records to which the queues lead, and ")
        assert len(list(store.scan(topic=FEW))) == 1  # the blanks at the ends of files divide no batch


def test_a_common_topic_is_read_by_a_scan(sound_root):
    with rocketstore.open(sound_root) as store:
        assert compare(store, topic="Many0").endswith("records, more than 1 / 5 of these bytes")
        assert "the first 2 messages may be near its beginning" in compare(store, topic=FEW, limit=2)
        with pytest.raises(ValueError, match="plan='fast': must be one of 'auto', 'scan'"):
            store.scan(topic=FEW, plan="fast")


def test_drawn_questions_have_the_rows_of_a_scan(sound_root, seed):
    rnd = random.Random(seed)
    used = 0
    with rocketstore.open(sound_root) as store:
        end = store.commit_log.max_phy_offset
        for _ in range(150):
            bounds = sorted(rnd.choices([None, *rnd.choices(range(end), k=4)], k=2), key=lambda at: at or 0)
            drawn = {
                "topic": rnd.choice([FEW, [FEW, "Unknown"], [FEW, "Many1"], "Unknown"]),
                "queue_ids": rnd.choice([None, 1, [0, 2], 7]),
                "tag": rnd.choice([None, None, "t1", "t1||t3"]),
                "key": rnd.choice([None, None, "k7", ["k17", "k27"]]),
                "since": rnd.choice([None, T0 + rnd.randrange(4_000_000)]),
                "limit": rnd.choice([None, None, 3, 70]),
                "batch_size": rnd.choice([1, 7, 16384]),
                "threads": rnd.choice([1, 2]),
                "on_corrupt": rnd.choice(["raise", "skip"]),
            }
            used += USED in compare(store, bounds[0], None if bounds[1] is None else bounds[1] + 1, **drawn)
    assert used > 30


def test_units_with_the_hash_of_another_tag_are_not_followed(tmp_path, monkeypatch):
    tags = {3: "Aa", 4: "BB", 5: "rare"}  # "Aa" and "BB" have one hash
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        for number in range(3000):
            put(store, number, tags=tags.get(number % 100, "often"))
    counts = count_records_read_by_units(monkeypatch)
    with rocketstore.open(tmp_path) as store:
        assert USED in compare(store, topic="Many", tag="rare")
        assert sum(counts) == store.scan(topic="Many", tag="rare").count() == 30
        counts.clear()
        assert USED in compare(store, topic="Many", tag="Aa")
        assert sum(counts) == 60
        assert store.scan(topic="Many", tag="Aa").count() == 30
        assert USED in compare(store, topic="Many", tag="rare || BB || none")
        assert USED not in compare(store, topic="Many", tag="often")


def test_codes_that_are_no_hash_of_a_tag_are_followed(sound_root, tmp_path):
    root = shutil.copytree(sound_root, tmp_path / "store")
    with rocketstore.open(root) as store:
        count = store.scan(topic=FEW, tag="t3").count()
    for path in (root / "consumequeue" / FEW).glob("*/*"):
        units = np.fromfile(path, UNIT)
        units["tags_code"][units["size"] > 0] = T0  # as a time of delivery, or the address of an ext unit
        units.tofile(path)
    with rocketstore.open(root) as store:
        assert USED in compare(store, topic=FEW, tag="t3")
        assert store.scan(topic=FEW, tag="t3").count() == count == 100


def test_messages_without_units_are_found(tmp_path):
    with rocketstore.open(fill(tmp_path, range(1500)), "a") as store:
        for number in range(1500, 4000):
            flags = {1600: PREPARED, 2000: ROLLBACK}.get(number, 0)
            put(store, number, FEW if flags or number % 40 == 7 else "Many", sys_flag=flags)
    with rocketstore.open(tmp_path) as store:
        assert USED in compare(store, topic=FEW)
        assert store.scan(topic=FEW).count() == 102


def test_earlier_lives_of_a_topic_are_found(tmp_path):
    fill(tmp_path, range(300))
    delete_topic(tmp_path, FEW)
    with rocketstore.open(tmp_path) as store:
        compare(store, topic=FEW)
    fill(tmp_path, range(300, 4000))
    with rocketstore.open(tmp_path) as store:
        assert USED in compare(store, topic=FEW)
        assert store.scan(topic=FEW).count() == 100


def test_a_damaged_record_of_the_topic_is_reported(sound_root, tmp_path, seed):
    root = shutil.copytree(sound_root, tmp_path / "store")
    with rocketstore.open(root) as store:
        offsets = [offset for offset, _ in rows_of(store.scan(topic=FEW))[0]]
        file = store.commit_log.file_run.find(offsets[40])
    with file.path.open("r+b") as log:
        log.seek(offsets[40] - file.file_from_offset)
        log.write(random.Random(seed).randbytes(80))
    with rocketstore.open(root) as store:
        assert USED in compare(store, topic=FEW)
        assert USED in compare(store, topic=FEW, on_corrupt="skip")


def test_damage_of_other_topics_is_left_to_a_scan(sound_root, tmp_path):
    root = shutil.copytree(sound_root, tmp_path / "store")
    with rocketstore.open(root) as store:
        messages = rows_of(store.scan(topic=FEW))[0]
        other = rows_of(store.scan(topic="Many0"))[0][200][0]
        file = store.commit_log.file_run.find(other)
    with file.path.open("r+b") as log:
        log.seek(other - file.file_from_offset)
        log.write(bytes(60))
    with rocketstore.open(root) as store:
        assert rows_of(store.scan(topic=FEW)) == (messages, [], None)
        assert len(rows_of(store.scan(topic=FEW, plan="scan", on_corrupt="skip"))[1]) == 1


@pytest.mark.parametrize("place", [0, 8, 20 * 11 + 3, 20 * 30 + 9])
def test_wrong_units_of_the_topic_change_no_row(sound_root, tmp_path, place):
    root = shutil.copytree(sound_root, tmp_path / "store")
    path = next((root / "consumequeue" / FEW / "0").iterdir())
    data = bytearray(path.read_bytes())
    data[place + 3] ^= 1
    path.write_bytes(data)
    with rocketstore.open(root) as store:
        compare(store, topic=FEW)


def test_a_missing_queue_hides_no_message(sound_root, tmp_path):
    root = shutil.copytree(sound_root, tmp_path / "store")
    shutil.rmtree(root / "consumequeue" / FEW / "1")
    shutil.rmtree(root / "consumequeue" / "Many0" / "0")
    with rocketstore.open(root) as store:
        compare(store, topic=FEW)
        assert store.scan(topic=FEW).count() == 100


def test_a_crashed_store_is_scanned(sound_root, tmp_path):
    root = shutil.copytree(sound_root, tmp_path / "store")
    (root / "abort").write_bytes(b"1")
    with rocketstore.open(root) as store:
        assert compare(store, topic=FEW).endswith("the store crashed: messages may have no units")


def test_messages_of_a_running_writer_are_found(tmp_path):
    fill(tmp_path, range(2000))
    with rocketstore.open(tmp_path, "a") as writer, rocketstore.open(tmp_path) as reader:
        for number in range(2000, 2200):
            put(writer, number, FEW if number % 40 == 7 else "Many")
            if number % 50 == 0:
                compare(reader, topic=FEW)
        assert reader.scan(topic=FEW).count() == 55
        assert "the queues are not used" in writer.scan(topic=FEW).explain()


def count_records_read_by_units(monkeypatch):
    """Return a list that gets the number of records of each part that is read by units."""
    counts, gather = [], Scan._gather
    monkeypatch.setattr(Scan, "_gather", lambda scan, records: counts.append(len(records)) or gather(scan, records))
    return counts


def test_a_dataset_reads_a_rare_topic_by_its_queues(sound_root, monkeypatch):
    counts = count_records_read_by_units(monkeypatch)
    with rocketstore.open(sound_root) as store:
        bodies = [body for _, body in rows_of(store.scan(topic=FEW, plan="scan"))[0]]
        found = store.dataset().to_table(columns=["body"], filter=pc.field("topic") == FEW)
    assert found["body"].to_pylist() == bodies
    assert sum(counts) == 100


def test_cat_and_export_read_a_rare_topic_by_its_queues(sound_root, monkeypatch):
    counts = count_records_read_by_units(monkeypatch)
    for command in (["cat", sound_root], ["export", sound_root, "-", "--format", "json"]):
        found = CliRunner().invoke(main, [*map(str, command), "--topic", FEW])
        assert (found.exit_code, len(found.stdout.splitlines())) == (0, 100), found.output
    assert sum(counts) == 300  # export also judges to which life of the topic each message belongs


def test_count_reads_a_rare_topic_by_its_queues(sound_root, monkeypatch):
    counts = count_records_read_by_units(monkeypatch)
    found = CliRunner().invoke(main, ["count", str(sound_root), "--by", "queue", "--topic", FEW, "--format", "json"])
    assert sum(json.loads(line)["messages"] for line in found.stdout.splitlines()) == 100, found.output
    assert sum(counts) == 100

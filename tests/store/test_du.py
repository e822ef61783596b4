"""``du``: the numbers of a plain walk over all files, and of a plain loop over all messages."""

import random
from collections import defaultdict

import pytest
from reference import java
from reference.message_store import make_store
from support import brokers, states, stores

import rocketstore

HOUR = 3_600_000
START = 1_790_000_000_000
STORES = {"rich-5.5.0": stores.unpack, "batch-5.5.0": stores.unpack, "lmq-5.5.0": stores.unpack,
          "pending-rocksdb": states.unpack, "compaction": states.unpack, "dledger": brokers.unpack}  # fmt: skip


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    directory = tmp_path_factory.mktemp("du")
    return {name: unpack(name, directory) for name, unpack in STORES.items()}


def key_of(message, by):
    time = message.store_timestamp
    return {
        "topic": (message.topic,),
        "queue": (message.topic, message.queue_id),
        "hour": (time - time % HOUR,),
        "day": (time - time % (24 * HOUR),),
        "tag": (message.tags,),
    }[by]


def count_plainly(store, by):
    """Messages and bytes of each group, by a loop over the log. The first message of a record has the bytes."""
    found = defaultdict(lambda: [0, 0])
    for batch in store.commit_log.scan():
        for record in batch:
            for number, message in enumerate(record.decode_batch() if record.sys_flag & 0x80 else [record]):
                found[key_of(message, by)][0] += 1
                found[key_of(message, by)][1] += 0 if number else record.size
    return {key: tuple(sizes) for key, sizes in found.items()}


def groups_of(usage):
    names = {"topic": ("topic",), "queue": ("topic", "queue_id"), "tag": ("tag",)}.get(usage.by, ("begin_timestamp",))
    return {tuple(getattr(row, name) for name in names): (row.messages, row.log_bytes) for row in usage if row.messages}


@pytest.mark.parametrize("by", ["topic", "queue", "day", "hour", "tag"])
@pytest.mark.parametrize("name", STORES)
def test_exact_numbers_are_those_of_a_loop_over_the_log(unpacked, name, by):
    with rocketstore.open(unpacked[name]) as store:
        usage = store.du(by=by, exact=True)
        assert groups_of(usage) == count_plainly(store, by)
        assert usage.total().log_bytes + usage.other_bytes == find_used(store)
        assert usage.is_exact
    assert usage.reasons == []
    assert [row.log_bytes for row in usage] == sorted((row.log_bytes for row in usage), reverse=True)


def find_used(store):
    log = store.commit_log
    return log.look().records_end - log.min_phy_offset


@pytest.mark.parametrize("name", STORES)
def test_numbers_from_the_queues_are_those_of_all_units(unpacked, name):
    with rocketstore.open(unpacked[name]) as store:
        found = {by: groups_of(store.du(by=by)) for by in ("topic", "queue", "hour", "tag")}
        units = [
            (topic, queue_id, unit)
            for topic, queue_id in store.queues()
            if not topic.startswith("%LMQ%")
            for unit in store.log_queue(topic, queue_id)
            if not unit.is_filler
        ]
        times = {unit.phy_offset: store.commit_log.get_message(unit.phy_offset).store_timestamp for *_, unit in units}
    expected = {by: defaultdict(lambda: [0, 0]) for by in found}
    for topic, queue_id, unit in units:
        time = times[unit.phy_offset]
        for by, key in {"topic": (topic,), "queue": (topic, queue_id), "hour": (time - time % HOUR,)}.items():
            expected[by][key][0] += unit.batch_num
            expected[by][key][1] += unit.size
        expected["tag"][(None,)] = [0, 0]
    for by in ("topic", "queue", "hour"):
        assert found[by] == {key: tuple(sizes) for key, sizes in expected[by].items()}


def draw_store(root, seed, count=400):
    draw = random.Random(seed)
    time, messages = START, []
    for _ in range(count):
        time += draw.choice([0, 1, 1000, 60_000, HOUR])
        tag = draw.choice([None, "a", "b", "paid"])
        properties = {} if tag is None else {"TAGS": tag}
        messages.append({
            "topic": draw.choice("TUV"), "queue_id": draw.randrange(3), "body": bytes(draw.randrange(200)),
            "properties": properties, "store_timestamp": time,
        })  # fmt: skip
    make_store(root, messages)


@pytest.mark.parametrize("seed", range(3))
def test_queues_and_log_of_a_sound_store_give_the_same_numbers(tmp_path, seed):
    draw_store(tmp_path / "store", seed)
    with rocketstore.open(tmp_path / "store") as store:
        for by in ("topic", "queue", "day", "hour"):
            exact, quick = store.du(by=by, exact=True), store.du(by=by)
            assert list(exact) == list(quick)
            assert groups_of(exact) == count_plainly(store, by)
            assert (exact.other_bytes, quick.reasons) == (quick.other_bytes, [])
        tags = {java.java_hash(tag or ""): sizes for (tag,), sizes in groups_of(store.du(by="tag", exact=True)).items()}
        assert {row.tags_code: (row.messages, row.log_bytes) for row in store.du(by="tag")} == tags
        some = store.du(by="queue", topic=["T", "V"])
        assert list(some) == [row for row in store.du(by="queue") if row.topic in ("T", "V")]
        assert some.other_bytes is None


def walk(root):
    found = [path.lstat() for path in root.rglob("*") if not path.is_dir()]
    return len(found), sum(file.st_size for file in found), sum(file.st_blocks * 512 for file in found)


@pytest.mark.parametrize("name", STORES)
def test_parts_are_all_files_of_the_root(unpacked, name):
    with rocketstore.open(unpacked[name]) as store:
        usage = store.du()
        total = usage.total()
        queues = [queue for queue in store.queues() if not queue.topic.startswith("%LMQ%")]
        assert total.messages == sum(len(store.log_queue(*queue)) for queue in queues)
        used = find_used(store)
    assert (total.files, total.file_bytes, total.disk_bytes) == walk(unpacked[name])
    assert sum(part.used_bytes for part in usage if part.part == "log") == used
    assert all(part.used_bytes + part.preallocated_bytes == part.file_bytes for part in usage)
    assert sum(part.share for part in usage) == pytest.approx(1)
    assert [part.disk_bytes for part in usage] == sorted((part.disk_bytes for part in usage), reverse=True)
    assert usage.reasons == []


def test_holes_of_files_made_ahead_are_sparse(tmp_path):
    draw_store(tmp_path / "store", 0, count=10)
    with (tmp_path / "store" / "commitlog" / f"{65536:020}").open("wb") as file:
        file.truncate(65536)
    with rocketstore.open(tmp_path / "store") as store:
        usage = store.du()
        used = store.commit_log.max_phy_offset
    [log] = [part for part in usage if part.part == "log"]
    assert (log.file_bytes, log.used_bytes, log.preallocated_bytes) == (131072, used, 131072 - used)
    assert log.sparse_bytes == log.file_bytes - log.disk_bytes >= 65536
    [disk] = usage.disks
    assert 0 < disk.free_bytes < disk.total_bytes


def test_a_damaged_queue_is_named_and_the_others_are_counted(tmp_path):
    draw_store(tmp_path / "store", 1)
    (tmp_path / "store" / "consumequeue" / "T" / "0" / f"{0:020}").write_bytes(b"\0" * 30)
    (tmp_path / "store" / "consumequeue" / "T" / "0" / f"{2000:020}").write_bytes(b"\0" * 3000)
    with rocketstore.open(tmp_path / "store") as store:
        usage = store.du(by="topic")
        exact = store.du(by="topic", exact=True)
    assert usage.reasons
    assert "T/0" in usage.reasons[0]
    found, expected = groups_of(usage), groups_of(exact)
    assert [found[topic] == expected[topic] for topic in [("T",), ("U",), ("V",)]] == [False, True, True]


def test_damage_of_the_log_is_named_by_an_exact_count(tmp_path):
    draw_store(tmp_path / "store", 2)
    with (tmp_path / "store" / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(5)
        file.write(b"\xff" * 40)
    with rocketstore.open(tmp_path / "store") as store:
        assert "not counted" in store.du(by="topic", exact=True).reasons[0]


def test_wrong_arguments_of_du_are_refused(unpacked):
    with rocketstore.open(unpacked["rich-5.5.0"]) as store:
        for options in ({"by": "year"}, {"exact": True}, {"topic": "T"}):
            with pytest.raises(ValueError, match="by"):
                store.du(**options)
        with pytest.warns(UserWarning, match="TopicTest"):
            assert list(store.du(by="topic", topic="TopicTesd")) == []


def test_usage_converts_to_tables_of_its_columns(unpacked):
    pytest.importorskip("pyarrow")
    with rocketstore.open(unpacked["rich-5.5.0"]) as store:
        assert store.du().to_arrow().num_rows == len(store.du())
        table = store.du(by="tag", exact=True).to_arrow()
        assert table.column_names == ["tag", "tagsCode", "messages", "logBytes", "share"]
        part = store.du(by="tag")[:2]
        assert part.to_arrow()["topic"].null_count == len(part) == 2
        assert repr(store.du(by="day")).startswith("<MessageUsage: 1 row by day, from the queues")
        assert "<table>" in store.du(by="queue")._repr_html_()


def test_the_files_of_a_dledger_member_beside_its_log_have_a_name(unpacked):
    with rocketstore.open(unpacked["dledger"]) as store:
        member = store.commit_log.directories[0].parent
        parts = {row.path: row.part for row in store.du()}
    below = {path: part for path, part in parts.items() if path.startswith(f"{member}/")}
    assert f"{member}/index" in below
    assert set(below.values()) == {"log", "dledger"}
    assert below[f"{member}/index"] == "dledger"

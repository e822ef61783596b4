"""split: each new store has the messages of its topics at the same queue offsets, and together they have all."""

import shutil
import sys

import pytest
from support import stores
from support.contents import contents
from support.killed import killed_at

import rocketstore
from rocketstore import Message, StoreConfig, split, verify

pytestmark = pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")

CONFIG = StoreConfig(
    mapped_file_size_commit_log=16384,
    mapped_file_size_consume_queue=2000,
    max_hash_slot_num=50,
    max_index_num=200,
    allocate_file_ahead=False,
)


def own(rows, queues, topics):
    """The messages of some topics, and the units of their queues with these messages."""
    numbers = {number: n for n, number in enumerate(n for n, row in enumerate(rows) if row["topic"] in topics)}
    messages = [row for row in rows if row["topic"] in topics]
    units = {
        queue_id: (begin, end, [(offset, numbers[number], *rest) for offset, number, *rest in of_queue])
        for queue_id, (begin, end, of_queue) in queues.items()
        if queue_id.topic in topics
    }
    return messages, units


def plain(rows):
    return [{name: value for name, value in row.items() if name != "prepared"} for row in rows]


@pytest.mark.parametrize("name", ["default", "lmq", "batchcq", "dledger", "rocksdb-cq"])
def test_each_topic_of_a_broker_has_its_messages_and_offsets(root_of, tmp_path, name):
    if name.startswith("rocksdb"):
        pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    rows, queues, (topics, groups, offsets, _) = contents(root_of(name))
    report = split(root_of(name), tmp_path / "new")
    assert {part.part for part in report.parts} == {row["topic"] for row in rows}
    assert sum(part.records for part in report.parts) == len(rows)
    for part in report.parts:
        assert part.path == tmp_path / "new" / part.part
        messages, units = own(rows, queues, {part.part})
        found, found_units, (found_topics, found_groups, found_offsets, _) = contents(part.path)
        assert plain(found) == plain(messages)
        light = {queue_id for queue_id in found_units if queue_id.topic != part.part}
        for queue_id in units:
            assert found_units[queue_id][:2] == units[queue_id][:2]
            assert [unit[0] for unit in found_units[queue_id][2]] == [unit[0] for unit in units[queue_id][2]]
        assert found_topics == {topic: topics[topic] for topic in {part.part} & topics.keys()}
        names = {part.part} | {queue_id.topic for queue_id in light}
        expected = {
            group: of_group
            for group, by_topic in offsets.items()
            if (of_group := {topic: of_topic for topic, of_topic in by_topic.items() if topic in names})
        }
        assert found_offsets == expected
        assert found_groups.keys() >= expected.keys() & groups.keys()
        assert found_groups.items() <= groups.items()
        assert verify(part.path).ok


def test_several_topics_are_one_store_and_others_are_left_out(root_of, tmp_path):
    rows, queues, _ = contents(root_of("default"))
    names = {"RMQ_SYS_TRANS_HALF_TOPIC", *(row["topic"] for row in rows if row["prepared"])}
    report = split(root_of("default"), tmp_path / "new", parts={"both": names}, topic=names)
    (part,) = report.parts
    assert (part.part, part.topics) == ("both", tuple(sorted(names)))
    messages, _ = own(rows, queues, names)
    found, _, _ = contents(part.path)
    numbers = {n: number for number, n in enumerate(n for n, row in enumerate(rows) if row["topic"] in names)}
    assert [row["prepared"] for row in found] == [numbers.get(row["prepared"], 0) for row in messages]
    assert sum(row["prepared"] > 0 for row in found) > 0


def test_a_store_whose_queues_begin_late_begins_with_its_second_file(tmp_path):
    with rocketstore.open(tmp_path / "old", "a", config=CONFIG) as store:
        for number in range(120):
            store.put_message(Message(f"T{number % 3}", bytes(400), queue_id=0, keys=[f"k{number}"]))
    (tmp_path / "old" / "commitlog" / f"{0:020}").unlink()
    rows, queues, _ = contents(tmp_path / "old")
    report = split(tmp_path / "old", tmp_path / "new")
    for part in report.parts:
        assert part.min_phy_offset == 16384
        messages, units = own(rows, queues, {part.part})
        assert contents(part.path)[:2] == (messages, units)
        assert verify(part.path).ok


def test_more_topics_than_files_may_be_open_take_several_rounds(tmp_path, monkeypatch):
    module = sys.modules["rocketstore.convert.split"]
    monkeypatch.setattr(module, "LEAST_PARTS", 2)
    monkeypatch.setattr(module, "MOST_PARTS", 2)
    with rocketstore.open(tmp_path / "old", "a", config=CONFIG) as store:
        store.put_messages([Message(f"T{number % 5}", b"x", queue_id=0) for number in range(50)])
    shown = []
    report = split(tmp_path / "old", tmp_path / "new", progress=lambda done, total: shown.append((done, total)))
    assert [(part.part, part.records) for part in report.parts] == [(f"T{number}", 10) for number in range(5)]
    assert shown[-1][0] == shown[-1][1]
    assert report.to_arrow().column("records").to_pylist() == [10] * 5


def test_timers_go_with_their_topic(tmp_path):
    root = stores.unpack_broker("pending", tmp_path / "golden", "states")
    split(root, tmp_path / "new")
    with_timers = [path.name for path in (tmp_path / "new").iterdir() if (path / "timerlog").exists()]
    assert with_timers == ["rmq_sys_wheel_timer"]
    with rocketstore.open(root) as old, rocketstore.open(tmp_path / "new" / "rmq_sys_wheel_timer") as new:
        assert [row.uniq_key for row in new.pending() if row.kind == "timer"] == [
            row.uniq_key for row in old.pending() if row.kind == "timer"
        ]


def test_light_queues_with_messages_of_several_topics_are_named(tmp_path):
    config = StoreConfig(**{**vars(CONFIG), "enable_lmq": True, "enable_multi_dispatch": True})
    with rocketstore.open(tmp_path / "old", "a", config=config) as store:
        for number in range(10):
            properties = {"INNER_MULTI_DISPATCH": "%LMQ%shared"}
            store.put_message(Message(f"T{number % 2}", b"x", queue_id=0, properties=properties))
    report = split(tmp_path / "old", tmp_path / "new", config=config)
    assert sum("%LMQ%shared/0" in note for note in report.notes) == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"by": "day"}, "must be 'topic'"),
        ({"parts": {"a/b": ["T"]}}, "cannot be the name"),
        ({"parts": {"a": ["T"], "b": "T"}}, "is in 'a' and in 'b'"),
        ({"parts": {"a": []}}, "'a' has no topic"),
    ],
)
def test_impossible_parts_are_refused(tmp_path, options, reason):
    with pytest.raises(ValueError, match=reason):
        split(tmp_path, tmp_path / "new", **options)


@pytest.mark.parametrize("after", [pytest.param(None, marks=pytest.mark.slow), "_describe_left_out"])
def test_a_killed_split_is_run_again(tmp_path, after):
    with rocketstore.open(tmp_path / "old", "a", config=CONFIG) as store:
        store.put_messages([Message(f"T{number % 3}", b"x", queue_id=0) for number in range(50)])
    rows, queues, _ = contents(tmp_path / "old")
    new, call = tmp_path / "new", 1
    counted = None if after is None else (sys.modules["rocketstore.convert.split"], after)
    while killed_at(call, lambda: split(tmp_path / "old", new), counted):
        call += 1 if after else 1 + call
        if (new / "rocketstore-split").exists() or not new.exists() or not any(new.iterdir()):
            split(tmp_path / "old", new)
        for topic in ("T0", "T1", "T2"):
            assert contents(new / topic)[:2] == own(rows, queues, {topic})
        assert len([*new.iterdir()]) == 3
        shutil.rmtree(new)
    assert call >= 5

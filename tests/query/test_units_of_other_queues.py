"""Units that lead to records of other queues: their messages are not shown as those of the queue."""

import os

import pytest
from reference.message_store import make_store
from support.cli import rows, run
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig

FILE = f"{0:020d}"
LIGHT = "%LMQ%a"
CONFIG = StoreConfig(**SMALL, enable_lmq=True, enable_multi_dispatch=True)


@pytest.fixture
def root(tmp_path):
    """Ten messages in each of Orders/0, Orders/1 and Audit/0. Two messages of Audit are in a light queue, too."""
    with rocketstore.open(tmp_path / "store", "a", config=CONFIG) as store:
        for number in range(10):
            for topic, queue_id in (("Orders", 0), ("Orders", 1), ("Audit", 0)):
                light = {"INNER_MULTI_DISPATCH": LIGHT} if topic == "Audit" and number % 5 == 0 else {}
                store.put_message(Message(topic, f"{topic}-{number}", queue_id=queue_id, properties=light))
    age(tmp_path / "store")
    return tmp_path / "store"


def age(root):
    """Make all files old enough for cached reads."""
    for path in (root, *root.rglob("*")):
        os.utime(path, (1_700_000_000, 1_700_000_000))


def redirect(root, queue, number, to):
    """Let unit ``number`` of a queue lead to the record of unit 7 of another queue."""
    path, target = root / "consumequeue" / queue / FILE, root / "consumequeue" / to / FILE
    data = bytearray(path.read_bytes())
    data[20 * number : 20 * number + 20] = target.read_bytes()[140:160]
    path.write_bytes(data)
    age(root)


def bodies(store, topic, queue_id, first=0, **options):
    return [message.body.decode() for message in store.get_message(topic, queue_id, first, **options)]


@pytest.mark.parametrize("to", ["Audit/0", "Orders/1"])
@pytest.mark.parametrize("options", [{}, {"max_msg_nums": 100}], ids=str)
def test_a_message_of_another_queue_is_not_read(root, to, options):
    redirect(root, "Orders/0", 3, to)
    with rocketstore.open(root) as store:
        for _ in range(2):
            found = store.get_message("Orders", 0, 0, **options)
            assert [message.queue_offset for message in found] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
            assert (found.status, found.next_begin_offset) == ("FOUND", 10)
            assert {(message.topic, message.queue_id) for message in found} == {("Orders", 0)}


def test_a_brokers_read_has_it(root):
    redirect(root, "Orders/0", 3, "Audit/0")
    with rocketstore.open(root) as store:
        assert bodies(store, "Orders", 0, 2, max_msg_nums=3, limits="broker") == ["Orders-2", "Audit-7", "Orders-4"]


def test_reads_with_a_kept_view_leave_it_out_too(root, caplog):
    redirect(root, "Orders/0", 3, "Audit/0")
    with rocketstore.open(root) as store:
        for _ in range(3):
            assert bodies(store, "Orders", 0, 2, max_msg_nums=3) == ["Orders-2", "Orders-4"]
            assert bodies(store, "Orders", 0, 3, max_msg_nums=1) == []
    assert "from offset 3, 1 unit leads to records of other queues" in caplog.text


def test_a_light_queue_has_the_messages_that_name_it(root):
    with rocketstore.open(root) as store:
        for _ in range(2):
            assert bodies(store, LIGHT, 0) == ["Audit-0", "Audit-5"]
    redirect(root, f"{LIGHT}/0", 1, "Audit/0")  # message 7 does not name the light queue
    with rocketstore.open(root) as store:
        assert bodies(store, LIGHT, 0) == ["Audit-0"]


def test_a_batch_queue_has_its_own_messages_alone(tmp_path):
    records = [{"topic": f"B{n % 2}", "queue_id": 0, "store_timestamp": 1_700_000_000_000 + n} for n in range(8)]
    make_store(tmp_path / "store", records)
    batch = tmp_path / "store" / "batchconsumequeue" / "B0" / "0"
    (tmp_path / "store" / "consumequeue" / "B0").rename(tmp_path / "old")
    batch.mkdir(parents=True)
    with rocketstore.open(tmp_path / "store") as store:
        found = [(message.phy_offset, message.size) for part in store.scan() for message in part]
    units = b""
    for number, (phy_offset, size) in enumerate([*found[:5:2], found[1]]):
        values = (phy_offset, size, 0, 1_700_000_000_000, number, 1)
        units += b"".join(value.to_bytes(width, "big") for value, width in zip(values, (8, 4, 8, 8, 8, 2), strict=True))
        units += bytes(8)
    (batch / FILE).write_bytes(units + bytes(46 * 6))
    with rocketstore.open(tmp_path / "store", config=StoreConfig(mapper_file_size_batch_consume_queue=460)) as store:
        result = store.get_message("B0", 0, 0)
        assert result.next_begin_offset == 4
        assert [message.phy_offset for message in result] == [phy_offset for phy_offset, _ in found[:5:2]]


def test_get_names_the_queue_to_which_the_record_belongs(root):
    redirect(root, "Orders/0", 3, "Audit/0")
    result = run("get", root, "Orders", 0, 2, "--limit", 3)
    assert [row["queueOffset"] for row in rows(result, exit_code=1)] == [2, 4]
    assert "Orders, queue 0, offset 3: the record at physical offset" in result.stderr
    assert "is of another queue, Audit/0: rocketstore hexdump" in result.stderr


def test_lag_takes_no_time_of_another_queues_message(root):
    redirect(root, "Orders/0", 3, "Audit/0")
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"Orders@g":{0:3,1:3}}}')
    with rocketstore.open(root) as store:
        assert [row.oldest_timestamp is None for row in store.consumer_lag()] == [True, False]

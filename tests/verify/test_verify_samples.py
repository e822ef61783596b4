"""A quick verification looks the samples of many queues up together, and counts messages without opening queues."""

import dataclasses

import pytest

import rocketstore
from rocketstore import CommitLog, CorruptFileError, Message, StoreConfig, verify
from rocketstore.store.message_store import MessageStore

QUEUES = [(topic, number) for topic in ("A", "B", "C") for number in range(4)]


@pytest.fixture
def root(tmp_path):
    """A store of twelve queues of two files each."""
    config = dataclasses.replace(StoreConfig.small(), mapped_file_size_consume_queue=10 * 20)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        for number in range(15):
            store.put_messages([Message(topic, b"x", queue_id=queue, tags=f"t{number}") for topic, queue in QUEUES])
    return tmp_path


def break_tags_code(root, topic, queue_id):
    """Change the tags code of the first unit of a queue."""
    path = root / "consumequeue" / topic / str(queue_id) / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[19] ^= 1
    path.write_bytes(data)


def test_samples_of_all_queues_are_looked_up_at_once_and_their_messages_are_counted(root, monkeypatch):
    looked_up = []

    def find_messages(log, phy_offsets, *, find=CommitLog.find_messages, **options):
        looked_up.append(len(phy_offsets))
        return find(log, phy_offsets, **options)

    def open_queue(_store, topic, queue_id):
        raise AssertionError(f"{topic}/{queue_id} was opened")

    whole = verify(root)
    monkeypatch.setattr(CommitLog, "find_messages", find_messages)
    monkeypatch.setattr(MessageStore, "log_queue", open_queue)
    quick = verify(root, quick=True)
    assert quick.findings == whole.findings == []
    assert quick.messages == whole.messages == 15 * len(QUEUES)
    assert looked_up == [len(QUEUES) * (8 + 5)]


def test_a_wrong_unit_among_samples_of_many_queues_is_reported(root):
    break_tags_code(root, "B", 2)
    found = [finding for finding in verify(root, quick=True).findings if finding.detail.startswith("unit 0: of the")]
    assert [(finding.kind, finding.path.parent.name) for finding in found] == [("unit-tags-code", "2")]
    assert verify(root, quick=True).messages == 15 * len(QUEUES)


def test_an_error_of_the_lookup_of_many_queues_is_reported_for_the_queues_that_have_it(root, monkeypatch):
    def find_messages(log, phy_offsets, *, find=CommitLog.find_messages, **options):
        if 0 in phy_offsets:
            raise CorruptFileError(root / "commitlog", 0, "totalSize", "is damaged")
        return find(log, phy_offsets, **options)

    monkeypatch.setattr(CommitLog, "find_messages", find_messages)
    break_tags_code(root, "C", 3)
    found = [finding for finding in verify(root, quick=True).findings if "of the record at" in finding.detail]
    assert [(finding.kind, finding.path.parent.name) for finding in found] == [("unit-tags-code", "3")]
    assert any(finding.kind == "unreadable" for finding in verify(root, quick=True).findings)

"""The configuration of some topics: the same rule for files and for tables that were read."""

import json
from dataclasses import replace

from support.broker_tables import tables_of

from rocketstore.state.topic_files import contents_of_topics, files_of_topics

FILES = {
    "topics.json": {"topicConfigTable": {name: {"topicName": name} for name in ("T", "Other", "%RETRY%Retried")}},
    "subscriptionGroup.json": {
        "subscriptionGroupTable": {name: {"groupName": name} for name in ("G", "Retried", "Filtering", "Idle")}
    },
    "consumerOffset.json": {"offsetTable": {"T@G": {"0": 5}, "Other@Idle": {"0": 7}}},
    "consumerFilter.json": {"filterDataByTopic": {"T@Filtering": {}, "Other@Idle": {}}},
    "consumerOrderInfo.json": {"unknown": {"Other": 1}},
    "delayOffset.json": {"offsetTable": {"1": 9}},
    "plain_acl.json": {"accounts": []},
}
TOPICS = ["T", "%RETRY%Retried"]


def test_files_and_tables_keep_the_same_entries(tmp_path):
    (tmp_path / "config").mkdir()
    data = {name: json.dumps(root).encode() for name, root in FILES.items()}
    for name, content in data.items():
        (tmp_path / "config" / name).write_bytes(content)
    read = contents_of_topics(tables_of(tmp_path).read_all(), TOPICS)
    for name, content in files_of_topics(data, TOPICS).items():
        (tmp_path / "config" / name).write_bytes(content)
    (tmp_path / "config" / "delayOffset.json").unlink()
    found = tables_of(tmp_path).read_all()
    assert replace(found, others={name: found.others[name] for name in read.others}) == read
    assert set(read.topics) == {*TOPICS}
    assert set(read.subscription_groups) == {"G", "Retried", "Filtering"}
    assert read.consumer_offsets == {"G": {"T": {0: 5}}}


def test_delay_offsets_are_of_the_schedule_topic():
    data = {name: json.dumps(root).encode() for name, root in FILES.items()}
    assert "delayOffset.json" not in files_of_topics(data, TOPICS)
    assert files_of_topics(data, ["SCHEDULE_TOPIC_XXXX"])["delayOffset.json"] == data["delayOffset.json"]


def test_files_that_cannot_be_parsed_are_left_out():
    assert files_of_topics({"topics.json": b"{", "consumerOffset.json": b"[]"}, TOPICS) == {}

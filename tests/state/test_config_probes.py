"""Files of the configuration as people edit them: read as RocketMQ reads them, kept as they are, read while written."""

import json
import os
import threading
import time

import pytest
from support import config_probes
from support.broker_tables import check, extend_topics, read_topics, repair
from support.config_probes import RELEASES, data_of, ours, theirs
from support.waiting import replace_sleep

import rocketstore
from rocketstore import BrokerConfig, Message, StoreConfig
from rocketstore.state import json_tables

PROBES = {f"{probe['name']}: {probe['what']}": probe for probe in config_probes.probes()}
# Where both releases agree and rocketstore does something else, and why that is left so.
OTHERWISE = {
    "consumerOffset.json: empty": "a manager is never given an empty file: ConfigManager.load takes the .bak then",
    "consumerOffset.json: unknown Set": "Set[1] is fastjson's own notation, in a member that RocketMQ does not have",
    # fastjson is strict about members that a class does not have, and the parser does not know which these are.
    "consumerOffset.json: unknown object no comma": "a missing comma in an unknown member",
    "topics.json: unknown no comma before": "a missing comma behind an unknown member",
    "topics.json: unknown text no comma before": "a missing comma behind an unknown member",
    "topics.json: attributes name number": "an integer as the name of an attribute",
    "topics.json: fraction as a name, unknown": "a number as the name of an unknown member",
    "topics.json: number as a name, unknown": "a number as the name of an unknown member",
}
GOOD = '{"offsetTable":{"Orders@billing":{0:900,1:900}}}'
EDITED = [
    '{"offsetTable":{"Orders@billing":{0:900,1:900,}}}',
    f"\ufeff{GOOD}",
    '{\n// set by hand\n"offsetTable":{"Orders@billing":{0:900,1:900}}}',
    '{/* set by hand */"offsetTable":{"Orders@billing":{0:900,1:900}}}',
    "{'offsetTable':{'Orders@billing':{0:900,1:900}}}",
    '{"offsetTable":{"Orders@billing":{"0":"900","1":"900"}}}',
    '{"offsetTable":{"Orders@billing":{0:5,0:900,1:900}}}',
    '{"offsetTable":{"Orders@billing":{0:900.0,1:9e2}}}',
    '{"offsetTable":{"Orders@billing":{0:900L,1:+0900L}}}',
    '{"offsetTable":{"Orders@billing":{0:900 1:900}}}',
    f"{GOOD}\0\0\0\0",
    f"{GOOD}// the end",
]


@pytest.fixture
def store(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "commitlog").mkdir()
    return tmp_path


@pytest.mark.parametrize("what", PROBES)
def test_a_file_is_read_as_a_release_of_rocketmq_reads_it(what):
    probe = PROBES[what]
    answers = [theirs(probe, release) for release in RELEASES]
    assert (ours(probe) in answers) != (what in OTHERWISE)


def test_every_exception_is_where_both_releases_agree():
    for what in OTHERWISE:
        assert theirs(PROBES[what], "5.5.0") == theirs(PROBES[what], "5.3.3")


@pytest.mark.parametrize("text", EDITED)
def test_a_file_that_a_broker_reads_is_neither_bad_nor_repaired(store, text):
    path = store / "config" / "consumerOffset.json"
    path.write_text(text)
    path.with_name("consumerOffset.json.bak").write_text('{"offsetTable":{"Orders@billing":{0:5,1:7}}}')
    config = BrokerConfig.open(store)
    assert config.consumer_offsets == {"billing": {"Orders": {0: 900, 1: 900}}}
    assert config.problems == check(store) == repair(store) == []
    assert path.read_text() == text
    assert len(list(path.parent.iterdir())) == 2


@pytest.mark.parametrize("what", sorted(what for what in PROBES.keys() - OTHERWISE.keys() if what.startswith("topics")))
def test_no_topic_that_a_broker_reads_is_lost_when_one_is_added(store, what, monkeypatch):
    monkeypatch.setattr(json_tables, "LIVE_SECONDS", 0)
    path = store / "config" / "topics.json"
    path.write_bytes(data_of(PROBES[what]))
    before = ours(PROBES[what])
    if before == config_probes.REFUSED:
        with pytest.raises(rocketstore.StoreError, match="repair or remove them first"):
            extend_topics(store, {"New": 1})
        assert path.read_bytes() == data_of(PROBES[what])
        return
    assert extend_topics(store, {"New": 1})
    assert read_topics(store).keys() == before.keys() | {"New"}
    if "exponent big" not in what:  # 4e10, which is no int, is written as 40000000000.0 and limited otherwise
        perms = {topic: bean["perm"] for topic, bean in before.items()}
        assert {topic: read_topics(store)[topic].perm for topic in before} == perms
    json.loads(path.read_bytes())  # strict again


def test_topics_that_an_editor_gave_a_byte_order_mark_are_kept_by_a_put(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        store.put_message(Message("A", b"1"))
    path = root / "config" / "topics.json"
    table = json.loads(path.read_text())
    path.with_name("topics.json.bak").write_text(json.dumps(table))
    table["topicConfigTable"]["B"] = {**table["topicConfigTable"]["A"], "topicName": "B"}
    path.write_text("\ufeff" + json.dumps(table))
    with rocketstore.open(root, "a") as store:
        store.put_message(Message("C", b"2"))
    assert read_topics(root).keys() == {"A", "B", "C"}


# ---- beside a broker ---------------------------------------------------------------------------------------


def test_a_file_that_a_broker_writes_in_place_again_and_again_is_never_called_broken(store):
    path = store / "config" / "consumerOffset.json"
    stop = threading.Event()

    def write_as_a_broker():
        """Source: MixAll.string2File: first the .bak, then the file, each emptied and written."""
        while not stop.is_set():
            for file in (path.with_name("consumerOffset.json.bak"), path):
                with file.open("w") as writing:
                    time.sleep(0.002)  # as long as a busy machine makes a writer wait
                    writing.write(GOOD)
            time.sleep(0.001)

    path.write_text(GOOD)
    writer = threading.Thread(target=write_as_a_broker)
    writer.start()
    try:
        for _ in range(100):
            assert BrokerConfig.open(store).problems == []
    finally:
        stop.set()
        writer.join()


def test_an_old_file_that_is_broken_is_not_waited_for(store, monkeypatch):
    path = store / "config" / "consumerOffset.json"
    path.write_text("{")
    for entry in (path, path.parent):
        os.utime(entry, (1, 1))
    sleeps = []
    replace_sleep(monkeypatch, json_tables, sleeps.append)
    assert len(check(store)) == 2
    assert len(sleeps) < 3 * json_tables.TRIES


# ---- the offsets of a broker with light queues -------------------------------------------------------------


LMQ = '{"lmqOffsetTable":{"%LMQ%a@G":5},"offsetTable":{"T@G":{0:900}}}'


def test_offsets_of_a_broker_with_light_queues_are_read(store):
    (store / "config" / "lmqConsumerOffset.json").write_text(LMQ)
    config = BrokerConfig.open(store)
    assert config.offsets_file == "lmqConsumerOffset.json"
    assert config.consumer_offsets == {"G": {"T": {0: 900}, "%LMQ%a": {0: 5}}}
    assert config.problems == []


@pytest.mark.parametrize("newer", ["consumerOffset.json", "lmqConsumerOffset.json"])
def test_of_two_files_of_offsets_the_newer_is_the_brokers(store, newer):
    for name in ("consumerOffset.json", "lmqConsumerOffset.json"):
        path = store / "config" / name
        path.write_text(LMQ if name.startswith("lmq") else GOOD)
        os.utime(path, (2000, 2000) if name == newer else (1000, 1000))
    assert BrokerConfig.open(store).offsets_file == newer
    config = BrokerConfig.open(store, StoreConfig(enable_lmq=True))
    assert config.offsets_file == "lmqConsumerOffset.json"
    assert "T" in config.consumer_offsets["G"]


@pytest.mark.parametrize(("line", "name"), [
    ("", "consumerOffset.json"),
    ("enableLmq=false", "consumerOffset.json"),
    ("enableLmq=TRUE", "lmqConsumerOffset.json"),
])  # fmt: skip
@pytest.mark.parametrize("newer", ["consumerOffset.json", "lmqConsumerOffset.json"])
def test_the_brokers_file_says_which_offsets_are_read(store, tmp_path, line, name, newer):
    """Also by the default of a line that it lacks. The times of the files say nothing then."""
    for offsets in ("consumerOffset.json", "lmqConsumerOffset.json"):
        path = store / "config" / offsets
        path.write_text(LMQ if offsets.startswith("lmq") else GOOD)
        os.utime(path, (2000, 2000) if offsets == newer else (1000, 1000))
    (tmp_path / "broker.conf").write_text(f"brokerName=a\n{line}\n")
    config = BrokerConfig.open(store, StoreConfig.from_broker_conf(tmp_path / "broker.conf"))
    assert config.offsets_file == name
    assert ("T" in config.consumer_offsets.get("G", {})) == name.startswith("lmq")

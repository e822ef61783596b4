"""Recovery of light queues, and of batches whose records are torn."""

import dataclasses
import functools
import os
import random
import shutil
import time

import pytest
from reference.commit_log import make_commit_log, read_files
from reference.record import INNER_BATCH
from reference.recovery import Broker
from support import damages
from support.broker_tables import extend_topics
from support.puts import Pair
from support.rebuilt import broker_config
from support.recovered import CONFIG, FILE, complete_store_of, contents

from rocketstore import StoreError, rebuild, recover


@pytest.mark.parametrize("restore", [functools.partial(recover, policy="broker"), recover, rebuild])
def test_a_message_for_more_queues_whose_record_ends_in_zeros_has_its_units(tmp_path, restore):
    """Just after it was written, it might be half written; but nobody writes now."""
    config = dataclasses.replace(CONFIG, enable_lmq=True, enable_multi_dispatch=True)
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0", "n": "x"}
    make_commit_log(tmp_path / "commitlog", FILE, [{"topic": "TopicTest", "properties": properties}])
    ((start, position, size),) = damages.records(tmp_path)
    damages.change_log(tmp_path, start, position + size - 1, b"\0")  # instead of the last separator
    restore(tmp_path, config=config)
    for topic in ("TopicTest", "%LMQ%a"):
        assert damages.units(tmp_path / "consumequeue" / topic / "0") == [(0, 0, start + position, size)]


LIGHT = {"enable_lmq": True, "enable_multi_dispatch": True}


def light_of_batches(root):
    """A store in which messages of batch queues have offsets in a light queue, and no units."""
    with Pair(root, batch_topics=("Batched",), **LIGHT) as pair:
        for topic in ("Batched", "T", "Batched", "T", "Batched"):
            pair.put(topic=topic, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    return pair.config


@pytest.fixture(params=[damages.missing_queues, damages.queues_behind, damages.unclean], ids=lambda what: what.__name__)
def damaged_light(request, tmp_path):
    """A damaged copy of the store, its configuration, and its messages."""
    config = light_of_batches(tmp_path / "store")
    before = contents(tmp_path / "store")
    request.param(tmp_path / "store", random.Random(5))
    return tmp_path / "store", config, before


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_light_queues_are_completed_without_messages_of_batch_queues(damaged_light, complete):
    root, config, before = damaged_light
    complete(root, config=config)
    assert contents(root) == before


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_policy_broker_leaves_light_queues_as_a_broker_does_that_has_batch_queues(damaged_light, tmp_path, mode):
    root, config, _ = damaged_light
    mode(root, None)
    theirs = shutil.copytree(root, tmp_path / "theirs")
    recover(root, policy="broker", config=config)
    Broker(theirs, broker_config(config), config.compat, ("Batched",)).restart()
    assert contents(root) == contents(theirs)


def test_policy_broker_asks_no_message_of_a_batch_queue_for_offsets_of_light_queues(tmp_path):
    """Of another one, a broker does not start with these."""
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "none"}
    make_commit_log(tmp_path / "commitlog", FILE, [{"topic": "B", "properties": properties}])
    config = dataclasses.replace(CONFIG, **LIGHT)
    with pytest.raises(StoreError, match="INNER_MULTI_QUEUE_OFFSET"):
        recover(tmp_path, policy="broker", config=config)
    extend_topics(tmp_path, {"B": 1}, {"B": "BatchCQ"})
    assert recover(tmp_path, policy="broker", config=config).max_phy_offset > 0
    assert not (tmp_path / "consumequeue" / "%LMQ%a").exists()


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("age", [0, 3600])
def test_a_batch_torn_within_the_number_of_its_messages_is_a_torn_tail(tmp_path, complete, mode, age):
    """No queue can have it, and a broker cuts the log there, whenever that is."""
    batch = {"topic": "B", "sys_flag": INNER_BATCH, "properties": {"INNER_BASE": "0", "KEYS": "k", "INNER_NUM": "12"}}
    make_commit_log(tmp_path / "commitlog", FILE, [{"topic": "TopicTest"}, batch])
    extend_topics(tmp_path, {"B": 1}, {"B": "BatchCQ"})
    (_, _, before), (start, position, size) = damages.records(tmp_path)
    damages.change_log(tmp_path, start, position + size - 2, b"\0\0")
    mode(tmp_path, None)
    written = time.time() - age
    os.utime(tmp_path / "commitlog" / f"{start:020d}", (written, written))
    torn = read_files(tmp_path / "commitlog")[start][position:].rstrip(b"\0")
    assert complete(tmp_path, config=CONFIG).max_phy_offset == before
    (saved,) = (tmp_path / "rocketstore-cut").iterdir()
    assert saved.read_bytes() == torn
    assert damages.units(tmp_path / "consumequeue" / "TopicTest" / "0") == [(0, 0, 0, before)]

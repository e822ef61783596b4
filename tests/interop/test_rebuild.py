"""rebuild against RocketMQ: queues and index are those that it wrote, or builds of the log; and it keeps them."""

import json
import random
import shutil
from pathlib import Path

import pytest
from reference.index_file import IndexFile
from support import stores as golden
from support.broker_tables import extend_topics
from support.puts import files_under

from interop import stores
from interop.broker import INNER, QUEUES, Broker
from interop.checks import first_difference
from interop.test_broker import (
    SETTINGS,
    by_key,
    check_kept,
    check_queries,
    consumed,
    given_of,
    open_writer,
    rows_to_send,
    send_and_kill,
    sent,
    write,
)
from interop.test_recovery import ONE_INDEX_FILE, config_of
from interop.test_recovery import batch_topics as tell_batch_topics
from interop.write_checks import refused_put, store_config, writing
from rocketstore import StoreConfig, rebuild, recover

pytestmark = pytest.mark.interop

RELEASES = ("5.5.1", "5.3.3")
PARTS = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
SMALL_LOG_FILES = {"mappedFileSizeCommitLog": 12 * 1024, "maxMessageSize": 8 * 1024}
CASES = [(release, profile) for release in RELEASES for profile in stores.OF_RELEASES[release]]
CASES += stores.WITH_FILLERS
BUILT = [(*case, {}) for case in CASES]
BUILT += [(release, profile, SMALL_LOG_FILES) for release in RELEASES for profile in ("basic", "lmq")]


def without_queues_and_index(source, root):
    shutil.copytree(source, root)
    for part in (*PARTS, "index"):
        shutil.rmtree(root / part, ignore_errors=True)
    return root


def queues(root):
    """Without light queues' and others' directories that have no files."""
    return files_under(root, *PARTS)


def assert_same_index(ours, theirs, slots):
    mine, javas = (sorted((Path(root) / "index").iterdir()) for root in (ours, theirs))
    assert len(mine) == len(javas)
    for number, (one, other) in enumerate(zip(mine, javas, strict=True)):
        difference = first_difference(one.read_bytes(), other.read_bytes(), slots)
        assert not difference, f"index file {number} of {len(mine)}: {difference}"


def assert_same(ours, theirs, slots):
    found, expected = queues(ours), queues(theirs)
    assert sorted(found) == sorted(expected)
    for path, data in expected.items():
        assert found[path] == data, path
    assert_same_index(ours, theirs, slots)


@pytest.mark.parametrize("crash", [False, True], ids=("clean", "crash"))
@pytest.mark.parametrize(("release", "profile"), CASES)
def test_what_rocketmq_wrote_is_built_again(store_of, tmp_path, release, profile, crash):
    store = store_of(release, profile, crash=crash)
    root = without_queues_and_index(store.root, tmp_path / "store")
    tell_batch_topics(root, store.options["batchTopics"])
    rebuild(root, config=config_of(store, release), tz="UTC")
    assert_same(root, store.root, store.options["config"]["maxHashSlotNum"])


def queues_with_messages(messages, answers):
    pairs = zip(messages, answers, strict=True)
    return {(message["topic"], message.get("queueId", 0)) for message, answer in pairs if answer["status"] == "PUT_OK"}


def built_by_rocketmq(java, source, root, options):
    """The files of the queues that RocketMQ builds from the log of a store, those of deleted topics too."""
    without_queues_and_index(source, root)
    (root / "checkpoint").unlink()
    (root / "abort").touch()
    options = {**options, "config": {**options["config"], "commitLogRecoverMaxNum": 100_000}}
    assert java.recover(root, options, start=False)["loaded"]
    return queues(root)


def files_of(files, chosen):
    """The files of some queues, (topic, queue id)."""
    names = {f"{topic}/{queue_id}" for topic, queue_id in chosen}
    return {path: data for path, data in files.items() if "/".join(path.split("/")[1:3]) in names}


@pytest.mark.parametrize("is_all", [False, True], ids=("some queues", "all queues"))
@pytest.mark.parametrize("profile", ["basic", "batch", "lmq", "cqext"])
@pytest.mark.parametrize("release", [*RELEASES, "4.9.8"])
def test_topics_that_were_deleted_are_not_built_again(java_of, tmp_path, seed, release, profile, is_all):
    """Some of them are made again. The queues are those that RocketMQ has, and those that are in doubt.

    A queue without messages after the deletion is in doubt if no queue of its topic has messages from before and after
    it. Then no queue offset shows the deletion: the directory of the queue may have been lost. Queues in doubt are
    named, and built as RocketMQ builds them from the log.
    """
    # RocketMQ does not delete the files of a queue that its flush thread holds. So this thread never flushes.
    given = {"flushIntervalConsumeQueue": 10**9}
    options, messages = stores.make(profile, random.Random(f"{seed} {profile}"), release, **given)
    topics = sorted({message["topic"] for message in messages})
    gone, again = topics[0], topics[1:]
    half = len(messages) // 2
    earlier, later = messages[:half], [message for message in messages[half:] if message["topic"] != gone]
    if not is_all:
        later = [message for message in later if message.get("queueId", 0) % 2 == 0]
    java, javas = java_of(release), tmp_path / "java"
    answers = java.write_store(javas, options, [*earlier, {"deleteTopics": topics}, *later])
    before, after = queues_with_messages(earlier, answers[:half]), queues_with_messages(later, answers[half + 1 :])
    proved = {topic for topic, _ in before & after} | {gone}
    doubtful = {queue for queue in before - after if queue[0] not in proved}
    expected = queues(javas)
    if doubtful:
        expected |= files_of(built_by_rocketmq(java, javas, tmp_path / "whole log", options), doubtful)
    ours = shutil.copytree(javas, tmp_path / "ours")
    extend_topics(ours, dict.fromkeys(again, 4), dict.fromkeys(options["batchTopics"], "BatchCQ"))
    report = rebuild(ours, config=store_config(options, release))
    assert {*report.doubtful} == doubtful
    assert {queue.topic for queue in report.deleted} >= {gone}
    assert not (ours / "consumequeue" / gone).exists()
    found, compared = queues(ours), expected
    if profile == "cqext":  # ext files of deleted queues stay
        found, compared = (
            {path: data for path, data in files.items() if not path.startswith("consumequeue_ext")}
            for files in (found, compared)
        )
    assert sorted(found) == sorted(compared)
    assert [path for path, data in compared.items() if found[path] != data] == []
    assert recover(ours, config=store_config(options, release)).actions == ()
    assert queues(ours).keys() == expected.keys()


@pytest.mark.parametrize(("release", "profile", "more"), BUILT, ids=str)
def test_rocketmq_builds_the_same_of_the_log_alone(store_of, tmp_path, release, profile, more):
    """After a crash, without queues, index and checkpoint, and so many files as there are may be read."""
    store = store_of(release, profile, **ONE_INDEX_FILE, **more)
    javas = without_queues_and_index(store.root, tmp_path / "java")
    (javas / "checkpoint").unlink()
    (javas / "abort").touch()
    options = {**store.options, "config": {**store.options["config"], "commitLogRecoverMaxNum": 100_000}}
    assert store.java.recover(javas, options, start=False)["loaded"]
    ours = without_queues_and_index(store.root, tmp_path / "ours")
    tell_batch_topics(ours, store.options["batchTopics"])
    rebuild(ours, config=config_of(store, release))
    assert_same(ours, javas, store.options["config"]["maxHashSlotNum"])


@pytest.mark.parametrize("config", [{}, {"enableLmq": True}], ids=str)
def test_queues_of_messages_that_are_refused_as_one_of_an_older_release_are_built(java_of, tmp_path, seed, config):
    """Corner 53."""
    options, messages = stores.lmq_of_old(random.Random(seed), **config)
    java_of("4.9.8").write_store(tmp_path / "java", options, messages)
    ours = without_queues_and_index(tmp_path / "java", tmp_path / "ours")
    rebuild(ours, config=store_config(options, "4.9.8"), tz="UTC")
    assert_same(ours, tmp_path / "java", options["config"]["maxHashSlotNum"])
    with writing(tmp_path / "new", options, "4.9.8") as store:
        statuses = [refused_put(store, message).status for message in messages if is_refused(message, config)]
    assert {*statuses} == {"MESSAGE_ILLEGAL"}


def is_refused(message, config):
    names = message["properties"].get("INNER_MULTI_DISPATCH", "")
    is_system = message["topic"].startswith(("%RETRY%", "rmq_sys_"))
    return names and (not config or is_system or names.endswith("plain"))


@pytest.mark.parametrize("was_killed", [False, True])
@pytest.mark.parametrize(("release", "profile"), CASES)
def test_rocketmq_keeps_the_rebuilt_files(store_of, tmp_path, release, profile, was_killed):
    store = store_of(release, profile, crash=was_killed, **ONE_INDEX_FILE)
    root = without_queues_and_index(store.root, tmp_path / "store")
    tell_batch_topics(root, store.options["batchTopics"])
    rebuild(root, config=config_of(store, release))
    actions = recover(root, config=config_of(store, release), dry_run=True).actions
    assert all(action.what == "dispatch" for action in actions)  # of a last message that has neither unit nor key
    before, names = queues(root), {path.name for path in (root / "index").iterdir()}
    if was_killed:
        (root / "abort").touch()
    answer = store.java.recover(root, store.options, start=False)
    assert answer["loaded"]
    parts = PARTS[:2] if was_killed else PARTS  # ext units are put again
    assert files_under(root, *parts) == {path: data for path, data in before.items() if path.split("/")[0] in parts}
    assert {path.name for path in (root / "index").iterdir()} >= names


def test_the_golden_store_of_a_broker(tmp_path):
    """It had crashed. Then it put a message again whose first items are in a full index file."""
    source, settings = golden.unpack("broker-5.5.0", tmp_path), golden.settings("broker-5.5.0")
    root = without_queues_and_index(source, tmp_path / "store")
    with pytest.warns(UserWarning, match="messageDelayLevel is assumed"):
        rebuild(root, config=StoreConfig(**settings), tz="UTC")
    assert queues(root) == queues(source)
    ours, theirs = (sorted((path / "index").iterdir()) for path in (root, source))
    assert [path.read_bytes() for path in ours[:-1]] == [path.read_bytes() for path in theirs[:-1]]
    full, mine, javas = (index_items(path, settings) for path in (ours[-2], ours[-1], theirs[-1]))
    again = len(javas) - len(mine)
    assert again == 2
    assert javas[again:] == mine
    assert javas[:again] == full[-again:]
    assert mine[0][1] == full[-1][1]


def index_items(path, settings):
    """(key hash, physical offset) of each item."""
    file = IndexFile(settings["max_hash_slot_num"], settings["max_index_num"], data=path.read_bytes())
    return [file.item(ordinal)[:2] for ordinal in range(1, file.index_count)]


# ---- a broker ----------------------------------------------------------------------------------------------


def check_all(client, messages):
    """Every message is consumed, and found by each of its keys and by its unique key."""
    assert consumed(client) == messages
    keys = by_key(messages)
    answers = client.query([{"topic": topic, "key": key} for topic, key in keys])
    for places, rows in zip(keys.values(), answers, strict=True):
        assert {(row["topic"], row["queueId"], row["queueOffset"]) for row in rows} == places
    singles = [place for place in messages if place[0] != INNER]
    answers = client.query([{"topic": place[0], "key": messages[place].uniq_key, "unique": True} for place in singles])
    assert [[given_of(row) for row in rows] for rows in answers] == [[messages[place]] for place in singles]


def delete_queues_and_index(root):
    for part in (*PARTS, "index"):
        shutil.rmtree(root / part, ignore_errors=True)


@pytest.mark.parametrize("deleted", [True, False])
def test_a_broker_serves_rebuilt_queues(client, root, tmp_path, seed, deleted):
    with open_writer(root) as store:
        messages = write(store, seed, "first", 800)
    with Broker(client, root, QUEUES, tmp_path) as broker:
        rows = rows_to_send(seed, 500)
        messages |= sent(rows, client.send(rows))
        broker.stop()
    if deleted:
        delete_queues_and_index(root)
    rebuild(root, config=SETTINGS)
    with Broker(client, root, QUEUES, tmp_path) as broker:
        check_all(client, messages)
        rows = rows_to_send(f"{seed} more", 200)
        messages |= sent(rows, client.send(rows))
        check_queries(client, random.Random(seed), messages)
        broker.stop()
    with open_writer(root) as store:
        assert store.commit_log.max_phy_offset > 0


@pytest.mark.parametrize("deleted", [True, False])
def test_after_a_crash_every_key_is_found_again(client, root, tmp_path, seed, deleted):
    """Also after another one, right behind the rebuild: what a broker itself would lose."""
    with open_writer(root) as store:
        messages = write(store, seed, "first", 500)
    with Broker(client, root, QUEUES, tmp_path) as broker:
        rows = rows_to_send(seed, 20_000)
        answers = client.send(rows[:300]) + send_and_kill(client, broker, rows[300:])
        acknowledged = messages | sent(rows, answers)
    assert (root / "abort").exists()
    if deleted:
        delete_queues_and_index(root)
    rebuild(root, config=SETTINGS)
    assert not (root / "abort").exists()
    with Broker(client, root, QUEUES, tmp_path) as broker:
        messages = consumed(client)
        check_kept(messages, acknowledged, "client ")
        check_all(client, messages)
        broker.kill()
    rebuild(root, config=SETTINGS)
    (root / "abort").touch()
    with Broker(client, root, QUEUES, tmp_path) as broker:
        check_all(client, messages)
        broker.stop()
    assert json.loads((root / "config" / "topics.json").read_text())["topicConfigTable"]

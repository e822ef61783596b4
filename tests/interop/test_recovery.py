"""recover against RocketMQ: what its next start leaves of damaged stores, and what it keeps of those we completed."""

import dataclasses
import json
import random
import shutil
import struct

import pytest
from reference.recovery import Broker
from support import damages

from rocketstore import StoreConfig, StoreError, recover
from rocketstore.config import camel_case

pytestmark = pytest.mark.interop

RELEASES = ("5.5.1", "5.5.0", "5.3.3")
# Index files that are made in one millisecond are one file in Java: so there is one.
ONE_INDEX_FILE = {"maxIndexNum": 5000}
MORE = {"small files": ("basic", {"mappedFileSizeCommitLog": 12 * 1024})}
PROFILES = ("basic", "rich", "batch", "lmq", "lmq_batch", "crc", "cqext", *MORE)
REFUSED = ("damaged_body_of_a_record", "damaged_magic_of_a_record", "wrong_size_of_a_record", "missing_log")
NAMES = {camel_case(field.name) for field in dataclasses.fields(StoreConfig)}


def config_of(store, release):
    """The settings of the store's broker, from a properties file, which states also those that it leaves out."""
    config = {name: value for name, value in store.options["config"].items() if name in NAMES}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in config.items()}
    path = store.root.parent / "broker.conf"
    path.write_text("".join(f"{name}={text}\n" for name, text in {**texts, "duplicationEnable": "false"}.items()))
    return StoreConfig.from_broker_conf(path, compat=release)


def batch_topics(root, topics):
    """The entries that a broker would have in topics.json for the topics of the harness."""
    table = {topic: {"topicName": topic, "attributes": {"queue.type": "BatchCQ"}} for topic in topics}
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def contents(root):
    """All files but the state, by name; index files, whose names tell times, by their number."""
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for name in ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext")
        for path in (root / name).rglob("*")
        if path.is_file()
    }
    return found | {f"index {i}": path.read_bytes() for i, path in enumerate(sorted((root / "index").glob("*")))}


def checkpoint(root):
    return struct.unpack_from(">6q", (root / "checkpoint").read_bytes())


@pytest.fixture(params=[(release, profile) for release in RELEASES for profile in PROFILES], ids=" ".join)
def damaged(request, store_of, tmp_path, seed):
    """A function that gives a store with some damage, the same under each name; and the store, release and profile."""
    release, profile = request.param
    name, more = MORE.get(profile, (profile, {}))
    crash = random.Random(f"{seed} {release} {profile}").random() < 0.5
    store = store_of(release, name, crash=crash, **ONE_INDEX_FILE, **more)

    def make(what, mode, copy):
        rng = random.Random(f"{seed} {what.__name__} {profile}")
        root = copied(store.root, tmp_path / copy)
        batch_topics(root, store.options["batchTopics"])
        what(root, rng)
        if (root / "commitlog").is_dir():
            rng.choice(damages.OF_CHECKPOINT)(root, rng)
        mode(root, rng)
        return root

    return make, store, release


def copied(root, copy):
    shutil.rmtree(copy, ignore_errors=True)
    return shutil.copytree(root, copy)


def modes(seed):
    rng = random.Random(seed)
    return [(what, rng.choice((damages.clean, damages.unclean))) for what in damages.DAMAGES]


def test_policy_broker_leaves_of_any_store_what_rocketmq_leaves(damaged, seed):
    """Corners 31, 44, 45, 87, 89 and 91."""
    make, store, release = damaged
    config = config_of(store, release)
    for what, mode in modes(f"{seed} {store.root}"):
        ours = make(what, mode, "ours")
        javas, oracles = (copied(ours, ours.with_name(copy)) for copy in ("java", "oracle"))
        answer = store.java.recover(javas, store.options, start=False)
        topics = store.options["batchTopics"]
        assert Broker(oracles, store.options["config"], release, topics).restart() == answer["loaded"], what
        if not answer["loaded"]:
            with pytest.raises(StoreError, match="broker"):
                recover(ours, policy="broker", config=config)
            continue
        report = recover(ours, policy="broker", config=config)
        assert report.max_phy_offset == answer["maxOffset"] or what is damages.missing_log
        assert contents(oracles) == contents(javas), (what, mode)
        assert contents(ours) == contents(javas), (what, mode)
        assert checkpoint(ours)[4] == answer["checkpoint"]["confirmPhyOffset"], (what, mode)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_policy_broker_leaves_the_checkpoint_of_a_start_and_a_clean_stop(store_of, tmp_path, release, mode):
    store = store_of(release, "basic", crash=True, mappedFileSizeConsumeQueue=4000, **ONE_INDEX_FILE)
    ours, javas = (shutil.copytree(store.root, tmp_path / name) for name in ("ours", "java"))
    for root in (ours, javas):
        damages.queues_behind(root, random.Random(7))
        mode(root, None)
    answer = store.java.recover(javas, store.options)
    recover(ours, policy="broker", config=config_of(store, release))
    assert contents(ours) == contents(javas)
    assert checkpoint(ours) == checkpoint(javas)
    assert answer["abort"] is (ours / "abort").exists() is False


@pytest.mark.parametrize(("release", "is_the_end"), [("5.5.1", True), ("5.5.0", False), ("5.3.3", False)])
def test_a_blank_of_a_negative_size_ends_the_log_from_5_5_1_on(store_of, tmp_path, release, is_the_end):
    store = store_of(release, "basic", crash=True, **ONE_INDEX_FILE, **MORE["small files"][1])
    ours, javas = (shutil.copytree(store.root, tmp_path / name) for name in ("ours", "java"))
    for root in (ours, javas):
        blank = damages.negative_blank(root)
        damages.unclean(root, None)
        damages.missing_checkpoint(root, None)
        damages.missing_queues(root, None)
    options = {**store.options, "config": {**store.options["config"], "commitLogRecoverMaxNum": 1000}}
    answer = store.java.recover(javas, options, start=False)
    config = dataclasses.replace(config_of(store, release), commit_log_recover_max_num=1000)
    recover(ours, policy="broker", config=config)
    assert answer["loaded"]
    assert (answer["maxOffset"] == blank) == is_the_end
    assert contents(ours) == contents(javas)


def test_rocketmq_keeps_all_of_a_store_that_was_completed(damaged, seed):
    make, store, release = damaged
    config = config_of(store, release)
    for what, mode in modes(f"{store.root} {seed}"):
        root = make(what, mode, "completed")
        try:
            report = recover(root, config=config)
        except StoreError:
            assert what.__name__ in REFUSED
            continue
        if what.__name__ in REFUSED:
            continue  # the damage is where no start looks, unless the checkpoint leads there
        before = contents(root)
        answer = store.java.recover(root, store.options, start=False)
        assert answer["loaded"], what
        assert contents(root) == before, (what, mode)
        is_blank_before = report.max_phy_offset % config.mapped_file_size_commit_log == 0
        assert answer["maxOffset"] == report.max_phy_offset or is_blank_before

"""Whether BrokerController starts where verify says so: places, timers, compaction, ext files and config."""

import shutil

import pytest
from support import planted
from support.start_faults import FAULTS, base_of, options_of

from interop.broker import Client
from interop.test_verify import RELEASES
from rocketstore import StoreConfig, verify
from rocketstore.config import camel_case
from rocketstore.verify.kinds import KINDS

pytestmark = [pytest.mark.interop, pytest.mark.broker]

# RocketMQ tries for half a minute to make the directory of a queue. The newest release is enough for these.
SLOW = {"a file named consumequeue", "a file named consumequeue/TopicTest"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    roots = {base: tmp_path_factory.mktemp("sound") / base for base in ("plain", "ext")}
    for base, root in roots.items():
        planted.build(base, root)
    return roots


@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_starts_unless_verify_says_that_it_does_not(release, sound, tmp_path):
    client, wrong = Client(release, tmp_path), []
    try:
        for number, (name, (plant, _)) in enumerate(FAULTS.items()):
            if name in SLOW and release != RELEASES[0]:
                continue
            root = shutil.copytree(sound[base_of(name)], tmp_path / str(number))
            plant(root)
            options = {**planted.SIZES, **options_of(name)}
            sentences = {KINDS[f.kind].at_next_start for f in verify(root, config=StoreConfig(**options)).findings}
            if name.startswith("off, "):  # the sentence says that the option must be on
                sentences = {said for said in sentences if "only with enableConsumeQueueExt=true" not in said}
            stops = any(said.startswith("does not start") for said in sentences)
            has_timers = any(word in name for word in ("timer", "timing"))
            given = {camel_case(option): value for option, value in options.items()}
            answer = client.boot(root, **given, timerWheelEnable=has_timers)
            if answer["started"] == stops:
                wrong.append((name, sorted(sentences), answer))
    finally:
        client.close()
    assert wrong == []


@pytest.mark.parametrize("store_type", ["default", "defaultRocksDB"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_damaged_rocksdb_stops_a_broker_with_queues_in_it(release, store_type, sound, tmp_path):
    root = shutil.copytree(sound["plain"], tmp_path / "store")
    planted.queues_in_rocksdb(planted.Store(root))
    client = Client(release, tmp_path)
    try:
        sizes = {camel_case(name): value for name, value in planted.SIZES.items()}
        answer = client.boot(root, **sizes, storeType=store_type)
    finally:
        client.close()
    assert answer["started"] == (store_type == "default"), answer

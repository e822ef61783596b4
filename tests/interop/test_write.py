"""rocketstore's writing against RocketMQ's: the same messages, the same bytes."""

import random
import shutil
from typing import NamedTuple

import pytest
from support.releases import numbers_of

import rocketstore
from interop import stores
from interop.harness import Java
from interop.write_checks import (
    Stored,
    assert_same_stores,
    assert_stopped_alike,
    java_put,
    put_all,
    refused_put,
    writing,
)
from rocketstore import StoreCheckpoint, rebuild

pytestmark = pytest.mark.interop

PROFILES = [(release, profile) for release, profiles in stores.OF_RELEASES.items() for profile in profiles]
PROFILES += stores.WITH_FILLERS
READ_COLUMNS = (
    "topic",
    "raw_body",
    "properties",
    "queue_id",
    "flag",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
)
# Where store times are those that are given, so that two runs of RocketMQ can be compared.
OF_STORE = ("batch", "lmq", "lmq_batch")
OWN_CLOCK = [
    (release, profile) for release, profile in PROFILES if numbers_of(release) >= (5,) and profile not in OF_STORE
]


class Halves(NamedTuple):
    """A store that RocketMQ wrote, stopped in the middle."""

    java: Java
    options: dict
    messages: list
    cut: int  # messages of the first half
    results: list  # of all
    crashed: object  # the directory after the first half, had RocketMQ been killed
    half: object  # after it was stopped
    whole: object  # after the second half

    @property
    def release(self):
        return self.java.release


@pytest.fixture(scope="session")
def halves_of(java_of, tmp_path_factory, seed):
    """A function from a release and the name of a profile of stores.py to a store, written once a run."""
    made = {}

    def write(release, profile):
        if (release, profile) not in made:
            options, messages = stores.make(profile, random.Random(f"{seed} write {release} {profile}"), release)
            messages = [message for message in messages if can_be_put(message, release)]
            scratch = tmp_path_factory.mktemp("halves")
            made[release, profile] = write_halves(java_of(release), scratch, options, messages)
        return made[release, profile]

    return write


def can_be_put(message, release):
    """Not names that come twice; not delayed messages that the stores of old releases changed, as brokers do now."""
    return "propertiesText" not in message and (numbers_of(release) >= (5,) or "DELAY" not in message["properties"])


def write_halves(java, scratch, options, messages):
    cut = middle(messages)
    crashed, half, whole = scratch / "crashed", scratch / "half", scratch / "whole"
    results = java.write_store(whole, {**options, "crashCopy": str(crashed)}, messages[:cut])
    shutil.copytree(whole, half)
    results += java.write_store(whole, options, messages[cut:])
    return Halves(java, options, messages, cut, results, crashed, half, whole)


def middle(messages):
    """Where to stop: after a message that has a unit, since RocketMQ dispatches once more what is behind the last."""
    return next(
        i
        for i in range(len(messages) // 2, len(messages))
        if "batch" not in messages[i - 1] and not messages[i - 1].get("sysFlag")
    )


@pytest.fixture(params=PROFILES, ids="-".join)
def halves(request, halves_of):
    return halves_of(*request.param)


def put_some(store, halves, seed, some):
    """Put a slice of the messages, and compare the answers with those of Java."""
    messages, results = halves.messages[some], halves.results[some]
    answers = put_all(store, random.Random(seed), messages, results, Stored(halves.whole))
    assert answers == [java_put(result) for result in results]


def test_messages_become_the_same_files(halves, tmp_path, seed):
    """Corner 33."""
    with writing(tmp_path / "ours", halves.options, halves.release) as store:
        put_some(store, halves, seed, slice(None))
    assert_same_stores(tmp_path / "ours", halves.whole, halves.options, halves.release)
    assert_stopped_alike(tmp_path / "ours", halves.whole)


def test_a_killed_writer_leaves_the_same_files(halves, tmp_path, seed):
    with writing(tmp_path / "ours", halves.options, halves.release) as store:
        put_some(store, halves, seed, slice(halves.cut))
        store.flush()
        shutil.copytree(tmp_path / "ours", tmp_path / "killed")
    assert_same_stores(tmp_path / "killed", halves.crashed, halves.options, halves.release)
    assert (tmp_path / "killed" / "abort").exists()


@pytest.mark.parametrize("end", ["half", "crashed"])
def test_a_store_that_rocketmq_began_is_continued(halves, tmp_path, seed, end):
    shutil.copytree(getattr(halves, end), tmp_path / "ours")
    with writing(tmp_path / "ours", halves.options, halves.release) as store:
        put_some(store, halves, seed, slice(halves.cut, None))
    assert_same_stores(tmp_path / "ours", halves.whole, halves.options, halves.release)
    assert_stopped_alike(tmp_path / "ours", halves.whole)


@pytest.mark.parametrize("given", OWN_CLOCK, ids="-".join)
def test_rocketmq_continues_a_store_that_was_begun_here(halves_of, given, tmp_path, seed):
    halves = halves_of(*given)
    with writing(tmp_path / "ours", halves.options, halves.release) as store:
        put_some(store, halves, seed, slice(halves.cut))
    rest = halves.java.write_store(tmp_path / "ours", halves.options, halves.messages[halves.cut :])
    assert list(map(java_put, rest)) == list(map(java_put, halves.results[halves.cut :]))
    assert_same_stores(tmp_path / "ours", halves.whole, halves.options, halves.release)


@pytest.mark.parametrize("release", ["5.5.1", "5.3.3"])
def test_the_checkpoint_names_the_record_that_rocketmq_finds_last(halves_of, release, tmp_path, seed):
    """Corner 83."""
    halves = halves_of(release, "lmq")  # no other that it starts with, and nothing that sets it later
    with writing(tmp_path / "ours", halves.options, release) as store:
        put_some(store, halves, seed, slice(halves.cut))
    found = StoreCheckpoint.open(halves.whole / "checkpoint").confirm_phy_offset
    assert found == halves.results[halves.cut - 1]["wroteOffset"]
    assert StoreCheckpoint.open(tmp_path / "ours" / "checkpoint").confirm_phy_offset == found


@pytest.mark.parametrize("release", ["5.5.1", "5.3.3"])
def test_light_queues_have_no_units_of_batch_queues(java_of, release, tmp_path, seed):
    """Corner 53."""
    options, messages = stores.lmq_of_batches(random.Random(seed))
    results = java_of(release).write_store(tmp_path / "java", options, messages)
    with writing(tmp_path / "ours", options, release) as store:
        answers = put_all(store, random.Random(seed), messages, results, Stored(tmp_path / "java"))
    assert answers == [java_put(result) for result in results]
    assert_same_stores(tmp_path / "ours", tmp_path / "java", options, release)
    rebuild(tmp_path / "ours", config=store.config)
    assert_same_stores(tmp_path / "ours", tmp_path / "java", options, release)


# ---- reads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["basic", "rich", "lmq", "crc", "cqext"])
@pytest.mark.parametrize("as_list", [False, True], ids=["batch", "list"])
def test_what_a_scan_of_rocketmq_s_log_gives_can_be_put_again(halves_of, profile, as_list, tmp_path):
    halves = halves_of("5.5.1", profile)
    with rocketstore.open(halves.whole) as java, writing(tmp_path / "ours", halves.options, "5.5.1") as store:
        for batch in java.scan(columns=READ_COLUMNS, batch_size=50):
            store.put_messages(list(batch) if as_list else batch, store_timestamp="given")
    assert_same_stores(tmp_path / "ours", halves.whole, halves.options)


# ---- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["5.5.1", "5.3.3"])
@pytest.mark.parametrize("make", [stores.limits, stores.crc_limits, stores.lmq_limits])
def test_the_same_messages_are_refused(java_of, release, make, tmp_path, seed):
    """Corners 7 and 8."""
    options, messages = make(random.Random(seed))
    results = java_of(release).write_store(tmp_path / "java", options, messages)
    assert any(result["status"] != "PUT_OK" for result in results)
    stored = Stored(tmp_path / "java")
    with writing(tmp_path / "ours", options, release) as store:
        answers = put_all(store, random.Random(seed), messages, results, stored)
    assert answers == [java_put(result) for result in results]
    assert_same_stores(tmp_path / "ours", tmp_path / "java", options)


def test_a_record_larger_than_a_file_is_refused_where_rocketmq_loses_it(java_of, tmp_path, seed):
    """Corner 13."""
    options, messages = stores.too_large(random.Random(seed))
    results = java_of("5.5.1").write_store(tmp_path / "java", options, messages)
    assert [(result["status"], result["appendStatus"]) for result in results] == [
        *[("PUT_OK", "PUT_OK")] * 2,
        *[("PUT_OK", "END_OF_FILE")] * 3,
        ("PUT_OK", "PUT_OK"),
    ]
    kept = [messages[i] for i in (0, 1, 5)]
    results = java_of("5.5.1").write_store(tmp_path / "kept", options, kept)
    stored, rng = Stored(tmp_path / "kept"), random.Random(seed)
    with writing(tmp_path / "ours", options, "5.5.1") as store:
        put_all(store, rng, kept[:2], results[:2], stored)
        for message in messages[2:5]:
            assert refused_put(store, message).status == "MESSAGE_ILLEGAL"
        put_all(store, rng, kept[2:], results[2:], stored)
    assert_same_stores(tmp_path / "ours", tmp_path / "kept", options)

"""rocketstore's consume queues against RocketMQ's iterators, on stores that RocketMQ wrote."""

import base64
import random
import shutil

import pytest
from support.releases import numbers_of

from interop import stores
from interop.store_checks import check_queues, java_queues, open_queue
from rocketstore import CommitLog, ConsumeQueueExt

pytestmark = pytest.mark.interop

# Before 5.1.1 the nearest message was found.
WITH_BOUNDARIES = [store for store in stores.STORES if numbers_of(store[0]) >= (5, 1, 1)]
FILLER_SIZE = 2**31 - 1


@pytest.fixture(params=stores.STORES, ids=stores.name_of)
def store(request, store_of):
    release, profile, crash = request.param
    return store_of(release, profile, crash=crash)


def test_every_unit_is_java_s(store):
    check_queues(store)


def test_a_unit_of_a_batch_is_found_by_any_of_its_queue_offsets(store_of):
    store = store_of("5.5.1", "batch", crash=False)
    queues = [queue for queue in java_queues(store) if queue["type"] == "BatchCQ"]
    assert queues
    for queue in queues:
        with open_queue(store.root, queue) as ours:
            for unit in queue["units"]:
                for inside in range(unit["batchNum"]):
                    assert ours[unit["queueOffset"] + inside].phy_offset == unit["pos"]


@pytest.mark.parametrize("release", stores.OF_RELEASES)
def test_ext_units_are_java_s(store_of, release):
    store = store_of(release, "cqext", crash=False)
    found = 0
    for queue in java_queues(store):
        with ConsumeQueueExt.open(store.root / "consumequeue_ext" / queue["topic"] / str(queue["queueId"])) as ext:
            for unit in queue["units"]:
                assert ext.is_ext_address(unit["tagsCode"]) == (unit["ext"] is not None)
                if unit["ext"]:
                    ours, bits = ext.read(unit["tagsCode"]), unit["ext"]["filterBitMap"]
                    assert (ours.tags_code, ours.store_timestamp) == (
                        unit["ext"]["tagsCode"],
                        unit["ext"]["msgStoreTime"],
                    )
                    assert ours.bitmap == (b"" if bits is None else base64.b64decode(bits))
                    found += 1
    assert found > 100


@pytest.fixture
def expired(request, store_of, tmp_path):
    """A store of small files, and a copy of it whose first commit log files are gone."""
    store = store_of(
        request.param, "basic", crash=False, mappedFileSizeCommitLog=32 * 1024, mappedFileSizeConsumeQueue=8 * 20
    )
    copy = tmp_path / "expired"
    shutil.copytree(store.root, copy)
    files = sorted((copy / "commitlog").iterdir())
    for file in files[: len(files) // 3]:
        file.unlink()
    return store, copy


@pytest.mark.parametrize("expired", ["5.5.1", "5.3.3", "4.9.8"], indirect=True)
def test_a_queue_begins_with_what_the_commit_log_still_has(expired):
    store, copy = expired
    least = {(queue["topic"], queue["queueId"]): queue["min"] for queue in java_queues(store, copy, load=True)}
    with CommitLog.open(copy / "commitlog") as log:
        for queue in java_queues(store, copy):
            first = next(
                (
                    unit["queueOffset"]
                    for unit in queue["units"]
                    if unit["pos"] >= log.min_phy_offset and unit["size"] != FILLER_SIZE
                ),
                queue["max"],
            )
            with open_queue(copy, queue, commit_log=log) as ours:
                assert (ours.min_queue_offset, ours.max_queue_offset) == (first, queue["max"])
                assert ours[:].queue_offsets.tolist() == list(range(first, queue["max"]))
            # A broker looks into the first file only, until it has deleted that.
            assert least[queue["topic"], queue["queueId"]] in (first, queue["units"][0]["queueOffset"])


@pytest.mark.parametrize("given", WITH_BOUNDARIES, ids=stores.name_of)
def test_offsets_by_time_are_java_s(store_of, seed, given):
    """Corner 106."""
    release, profile, crash = given
    store = store_of(release, profile, crash=crash)
    check_times(store, store.root, random.Random(f"{seed} {given}"))


@pytest.mark.parametrize("expired", ["5.5.1", "5.3.3"], indirect=True)
def test_offsets_by_time_are_java_s_in_an_expired_store(expired, seed):
    check_times(*expired, random.Random(seed))


def check_times(store, root, rng):
    queues = java_queues(store, root, load=True)
    requests = [request for queue in queues for request in time_requests(rng, queue, store)]
    answers = store.java.read_store(root, store.options, requests)
    with CommitLog.open(root / "commitlog") as log:
        for queue in queues:
            mine = [
                (request, answer)
                for request, answer in zip(requests, answers, strict=True)
                if (request["topic"], request["queueId"]) == (queue["topic"], queue["queueId"])
            ]
            with open_queue(root, queue, commit_log=log) as ours:
                for request, answer in mine:
                    found = ours.get_offset_by_time(request["timestamp"], request["boundary"].lower())
                    # A broker's minimum can be too small until it has deleted the first file.
                    assert found == max(answer, ours.min_queue_offset), (request, queue["type"], ours)


def time_requests(rng, queue, store):
    times = [result["storeTimestamp"] for result in store.results if result["status"] == "PUT_OK"]
    wanted = {0, -1, min(times) - 1, max(times) + 1, stores.cases.LONG_MAX}
    wanted |= {time + more for time in rng.sample(times, 12) for more in (-1, 0, 1)}
    return [
        {
            "op": "offset_by_time",
            "topic": queue["topic"],
            "queueId": queue["queueId"],
            "timestamp": time,
            "boundary": boundary,
        }
        for time in sorted(wanted)
        for boundary in ("LOWER", "UPPER")
    ]

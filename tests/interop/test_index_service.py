"""rocketstore's IndexService against RocketMQ's: the same files from the same messages, the same answers."""

import random
import shutil

import pytest

from interop import cases, checks
from rocketstore import IndexFile, IndexService, StoreCheckpoint

pytestmark = pytest.mark.interop

RELEASES = ("5.5.1", "5.3.3", "4.9.8", "4.6.0")
TIME = 1_700_000_000_000


@pytest.fixture(params=RELEASES)
def java(request, java_of):
    return java_of(request.param)


def random_of(seed, java, what):
    return random.Random(f"{seed} {java.release} {what}")


def message(topic="T", uniq_key=None, keys=None, tags=None, phy_offset=0, store_timestamp=TIME, sys_flag=0):
    return topic, uniq_key, keys, tags, phy_offset, store_timestamp, sys_flag


def end_timestamp(path, given):
    with IndexFile.open(path, **given) as file:
        return file.header.end_timestamp


@pytest.mark.parametrize("number", range(6))
def test_the_same_messages_give_the_same_files_and_answers(java, tmp_path, seed, number):
    checks.check_index_service(java, random_of(seed, java, number), tmp_path)


@pytest.mark.slow
@pytest.mark.no_soak
@pytest.mark.parametrize("number", range(6, 40))
def test_the_same_messages_give_the_same_files_and_answers_many_times(java, tmp_path, seed, number):
    checks.check_index_service(java, random_of(seed, java, number), tmp_path)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("rocketstore_begins", [False, True])
def test_a_directory_is_continued_by_the_other_side(java, tmp_path, seed, number, rocketstore_begins):
    """Corner 77."""
    rng = random_of(seed, java, (number, rocketstore_begins))
    geometry = cases.geometry(rng)
    requests = cases.requests(rng, cases.request_count(geometry[1]))
    cuts = sorted(rng.sample(range(1, len(requests)), 3))
    for turn, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(requests)], strict=True)):
        if (turn % 2 == 0) == rocketstore_begins:
            checks.build(tmp_path / "both", geometry, requests[start:stop], java.release)
        else:
            java.build(tmp_path / "both", geometry, requests[start:stop])
    java.build(tmp_path / "java", geometry, requests)
    checks.assert_same_files(tmp_path / "both" / "index", tmp_path / "java" / "index", geometry, names=False)


def test_a_message_without_keys_makes_a_file(java, tmp_path):
    """Corner 57."""
    assert checks.assert_built_alike(java, tmp_path, (7, 4), [message()]) == 1


def test_a_message_without_keys_makes_the_file_after_a_full_one(java, tmp_path):
    full = [message(keys="a b c", phy_offset=100), message(phy_offset=200)]
    assert checks.assert_built_alike(java, tmp_path, (7, 4), full) == 2


def test_a_message_that_rolls_in_the_middle_is_in_both_files(java, tmp_path):
    requests = [message(uniq_key="u", keys="a b  c d", tags="TagA", phy_offset=100)]
    assert checks.assert_built_alike(java, tmp_path, (7, 4), requests) == 2


def test_the_first_item_of_a_rolled_file_counts_from_the_file_before(java, tmp_path):
    """Corner 61."""
    requests = [message(uniq_key=f"k{i}", phy_offset=100 * i, store_timestamp=TIME + 60_000 * i) for i in range(9)]
    assert checks.assert_built_alike(java, tmp_path, (7, 4), requests) == 3
    times = [TIME + 60_000 * i + more for i in range(11) for more in (-1, 0, 999, 1000)]
    queries = [("T", f"k{i}", 64, begin, begin + 500, None) for i in range(9) for begin in times]
    checks.assert_same_answers(java, tmp_path / "java", (7, 4), queries)


def test_a_message_dispatched_again_is_indexed_again_and_an_older_one_is_not(java, tmp_path):
    """Corner 68."""
    again = message(uniq_key="again", phy_offset=300)
    first, old = message(uniq_key="first", phy_offset=100), message(uniq_key="old", phy_offset=299)
    requests = [first, again, again, old]
    checks.assert_built_alike(java, tmp_path, (7, 40), requests)
    queries = [("T", key, 64, 0, cases.LONG_MAX, None) for key in ("first", "again", "old")]
    checks.assert_same_answers(java, tmp_path / "ours", (7, 40), queries)


@pytest.mark.parametrize("sys_flag", range(16))
def test_every_transaction_type_is_indexed_or_not_as_java_does(java, tmp_path, sys_flag):
    """Corner 17."""
    requests = [message(uniq_key="u", tags="TagA", sys_flag=sys_flag)]
    checks.assert_built_alike(java, tmp_path, (7, 40), requests)


def test_an_answer_has_at_most_64_offsets(java, tmp_path):
    """Corner 69."""
    requests = [message(keys="same", phy_offset=100 * i, store_timestamp=TIME + i) for i in range(150)]
    checks.assert_built_alike(java, tmp_path, (7, 40), requests)
    wanted = (1, 38, 39, 40, 63, 64, 65, 1000)
    queries = [("T", "same", max_num, 0, cases.LONG_MAX, None) for max_num in wanted]
    checks.assert_same_answers(java, tmp_path / "java", (7, 40), queries)
    answers = java.query(tmp_path / "java", (7, 40), queries)
    assert [len(offsets) for offsets, _, _ in answers] == [1, 38, 39, 40, 63, 64, 64, 64]


@pytest.mark.parametrize("number", range(3))
def test_after_a_crash_the_same_files_are_deleted(java, tmp_path, seed, number):
    """Corner 76."""
    rng = random_of(seed, java, number)
    geometry = rng.choice(cases.SLOTS), rng.choice((3, 4, 9))
    requests = cases.requests(rng, 60)
    java.build(tmp_path / "java", geometry, requests)
    index = sorted((tmp_path / "java" / "index").iterdir())
    given = checks.options(geometry, java.release)
    ends = [end_timestamp(path, given) for path in index]
    for turn, safe_until in enumerate((0, min(ends), rng.choice(ends), max(ends), cases.LONG_MAX)):
        javas, ours = tmp_path / f"java-{turn}", tmp_path / f"ours-{turn}"
        for copy in (javas, ours):
            shutil.copytree(tmp_path / "java" / "index", copy / "index")
        left = java.load(javas, geometry, safe_until)
        checkpoint = StoreCheckpoint.open(javas / "checkpoint")
        after_crash = {"last_exit_ok": False, "checkpoint": checkpoint, **given}
        with IndexService.open(ours / "index", "r", **after_crash) as service:
            rejected = [path.name for path in service.rejected]
        assert sorted(left + rejected) == [path.name for path in index]
        with IndexService.open(ours / "index", "a", **after_crash) as service:
            assert [file.path.name for file in service.files] == left
        assert [path.name for path in sorted((ours / "index").iterdir())] == left

"""rocketstore's IndexFile against RocketMQ's: the same bytes from the same puts, the same answers."""

import random

import pytest
import reference
from support.releases import numbers_of

from interop import cases, checks
from rocketstore import IndexFile

pytestmark = pytest.mark.interop

RELEASES = ("5.5.1", "5.3.3", "4.9.8", "4.7.1", "4.6.0")


@pytest.fixture(params=RELEASES)
def java(request, java_of):
    return java_of(request.param)


def random_of(seed, java, what):
    return random.Random(f"{seed} {java.release} {what}")


@pytest.mark.parametrize("number", range(6))
def test_the_same_puts_give_the_same_files_and_answers(java, tmp_path, seed, number):
    checks.check_index_file(java, random_of(seed, java, number), tmp_path)


@pytest.mark.slow
@pytest.mark.no_soak
@pytest.mark.parametrize("number", range(6, 60))
def test_the_same_puts_give_the_same_files_and_answers_many_times(java, tmp_path, seed, number):
    checks.check_index_file(java, random_of(seed, java, number), tmp_path)


@pytest.mark.parametrize("slots", cases.SLOTS)
@pytest.mark.parametrize("items", [2, 400])
def test_the_smallest_and_the_largest_geometry_agree(java, tmp_path, seed, slots, items):
    rng = random_of(seed, java, (slots, items))
    rows = cases.rows(rng, min(4 * items, 1200))
    java.put(tmp_path / "java", (slots, items), rows, checks.FIRST_NAME)
    checks.put(rng, tmp_path / "ours", (slots, items), rows, java.release)
    checks.assert_same_files(tmp_path / "ours", tmp_path / "java", (slots, items))


@pytest.mark.slow
def test_files_of_a_hundred_thousand_items_agree(java_of, tmp_path, seed):
    java, rng, geometry = java_of("5.5.1"), random.Random(seed), (30_011, 100_000)
    keys = [f"TopicTest#{rng.randrange(2**40):x}{rng.choice(cases.COLLIDING)}" for _ in range(250_000)]
    rows = [(key, 1200 * i, cases.START + 40 * i) for i, key in enumerate(keys)]
    java.put(tmp_path / "java", geometry, rows, checks.FIRST_NAME)
    checks.put(rng, tmp_path / "ours", geometry, rows, java.release, batches=(70_000, 150_000))
    checks.assert_same_files(tmp_path / "ours", tmp_path / "java", geometry)
    wanted = rng.sample(keys, 20_000)
    for path in sorted((tmp_path / "ours").iterdir()):
        answers = java.select(path, geometry, [(key, 32, 0, cases.LONG_MAX) for key in wanted])
        with IndexFile.open(path, **checks.options(geometry, java.release)) as file:
            assert file.select_phy_offsets(wanted, threads=2).to_pylist() == answers


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("rocketstore_begins", [False, True])
def test_files_are_continued_by_the_other_side(java, tmp_path, seed, number, rocketstore_begins):
    rng = random_of(seed, java, (number, rocketstore_begins))
    geometry = cases.geometry(rng)
    rows = cases.rows(rng, cases.row_count(rng, geometry[1]))
    cuts = sorted(rng.sample(range(1, len(rows)), 3))
    for turn, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        if (turn % 2 == 0) == rocketstore_begins:
            checks.put(rng, tmp_path / "both", geometry, rows[start:stop], java.release)
        else:
            java.put(tmp_path / "both", geometry, rows[start:stop], checks.FIRST_NAME)
    java.put(tmp_path / "java", geometry, rows, checks.FIRST_NAME)
    checks.assert_same_files(tmp_path / "both", tmp_path / "java", geometry)


@pytest.mark.parametrize("number", range(4))
def test_the_oracle_of_the_other_tests_agrees_with_java(java, tmp_path, seed, number):
    rng = random_of(seed, java, number)
    geometry = cases.geometry(rng)
    rows = cases.rows(rng, cases.row_count(rng, geometry[1]))
    java.put(tmp_path / "java", geometry, rows, checks.FIRST_NAME)
    oracle = reference.IndexService(*geometry, every_put_counts=numbers_of(java.release) < (4, 7, 1))
    for row in rows:
        oracle.last_file().put_key(*row)
    for file in oracle.files:
        file.flush()
    paths = sorted((tmp_path / "java").iterdir())
    assert [path.read_bytes() for path in paths] == [bytes(file.data) for file in oracle.files]
    queries = cases.file_queries(rng, rows)
    answers = [oracle.files[0].select_phy_offset(*query) for query in queries]
    assert java.select(paths[0], geometry, queries) == answers

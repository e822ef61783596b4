"""What verify says that a broker keeps or does not notice, against the bytes that RocketMQ's classes leave."""

import shutil

import pytest
from support import planted
from support.claims import CLAIMS

from interop.test_verify import RELEASES, kinds_of, options_of
from interop.test_verify import sound as sound
from rocketstore.verify.kinds import KEEPS, KINDS, STAYS, STAYS_IN_INDEX

pytestmark = pytest.mark.interop

NEAR = 4  # bytes that are compared at the place of a finding
KEPT = {kind for kind, said in KINDS.items() if said.at_next_start in (STAYS, KEEPS, STAYS_IN_INDEX)}


def places(kind, path, offset):
    """Return the files and offsets of a fault whose kinds all say that the broker keeps the bytes."""
    if not kinds_of(kind) <= KEPT or offset is None:
        return []
    return [(name, offset) for name in ((path,) if isinstance(path, str) else path)]


@pytest.mark.parametrize("is_crash", [False, True], ids=["after a clean stop", "after a crash"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_load_leaves_what_verify_says_is_kept(java_of, sound, tmp_path, release, is_crash):
    wrong, tested = [], set()
    for number, (name, (base, plant)) in enumerate(planted.FAULTS.items()):
        root = shutil.copytree(sound[base], tmp_path / str(number))
        fault = plant(planted.Store(root))
        if is_crash:
            (root / "abort").write_text("1")
        before = {place: bytes_at(root, *place) for place in places(*fault)}
        if before:
            tested |= kinds_of(fault[0])
            assert java_of(release).recover(root, options_of(base), start=False)["loaded"], name
            after = {place: bytes_at(root, *place) for place in before}
            if is_crash and {KINDS[kind].at_next_start for kind in kinds_of(fault[0])} == {STAYS_IN_INDEX}:
                before = {place: found for place, found in before.items() if (root / place[0]).exists()}
                after = {place: after[place] for place in before}
            if after != before:
                wrong.append((name, fault[0], before, after))
        shutil.rmtree(root)
    assert wrong == []
    # No store is planted for the other kinds. Their sentences come from RocketMQ's source, which CLAIMS names.
    assert tested == {kind for kind in KEPT if not CLAIMS[kind].startswith("Source: ")}


def bytes_at(root, name, offset):
    """Return some bytes of a file; None if the file is missing or nothing is there."""
    path = root / name
    return path.read_bytes()[offset : offset + NEAR] if path.is_file() else path.exists()


def load(java, sound, root, name, *, is_crash=False):
    """Plant a fault and load the store. Returns: the answer, and the path and offset of the fault."""
    base, plant = planted.FAULTS[name]
    shutil.copytree(sound[base], root)
    _, path, offset = plant(planted.Store(root))
    if is_crash:
        (root / "abort").write_text("1")
    answer = java.recover(root, options_of(base), start=False)
    assert answer["loaded"]
    return answer, path, offset


@pytest.fixture(params=RELEASES)
def java(request, java_of):
    return java_of(request.param)


@pytest.mark.parametrize(
    "name",
    [
        "index_newer_than_the_checkpoint_of_a_crash",
        "checkpoint_with: old indexMsgTimestamp",
    ],
)
def test_an_index_file_that_the_checkpoint_does_not_know_is_deleted_after_a_crash(java, sound, tmp_path, name):
    """Kinds index-to-be-deleted, checkpoint-index-behind."""
    before = set((sound["plain"] / "index").iterdir())
    load(java, sound, tmp_path / "store", name, is_crash=True)
    left = {path.name for path in (tmp_path / "store/index").iterdir()}
    newest = max(path.name for path in before)
    assert newest not in left


@pytest.mark.parametrize("name", ["missing_log", "log_without_files"])
def test_queues_are_destroyed_without_a_log(java, sound, tmp_path, name):
    """Kinds log-missing, log-elsewhere."""
    load(java, sound, tmp_path / "store", name)
    assert not [path for path in (tmp_path / "store/consumequeue").rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["missing_last_log_file", "missing_last_log_file_after_a_crash"])
def test_units_behind_the_log_are_removed(java, sound, tmp_path, name):
    """Kinds unit-beyond-log, unit-leftover."""
    answer, _, _ = load(java, sound, tmp_path / "store", name)
    assert {queue["maxPhysicOffset"] <= answer["maxOffset"] for queue in answer["queues"]} == {True}


@pytest.mark.parametrize("change", ["shorter", "longer"])
def test_an_index_file_of_another_length_is_loaded(java, sound, tmp_path, change):
    """Kinds index-file-size, index-file-short."""
    name = next(name for name in planted.FAULTS if name.startswith(f"index_file_of_another_length: {change}"))
    _, path, _ = load(java, sound, tmp_path / "store", name)
    full = (sound["plain"] / "index").iterdir().__next__().stat().st_size
    length = (tmp_path / "store" / path).stat().st_size
    assert (length == full) == (change == "shorter")


def test_a_queue_of_three_files_ends_at_bytes_that_are_no_unit(java, sound, tmp_path):
    """Kind unit-invalid."""
    answer, _, offset = load(java, sound, tmp_path / "store", "no_unit_among_expired_ones")
    (queue,) = (each for each in answer["queues"] if (each["topic"], each["queueId"]) == ("TopicTest", 1))
    assert queue["max"] == offset // planted.UNIT


def test_files_of_config_and_strays_are_left_alone(java, sound, tmp_path):
    """Kinds foreign-file, sizes-damaged, write-unfinished."""
    for number, name in enumerate(
        (
            "foreign_file_in_the_store",
            "foreign_directory_in_the_log",
            "damaged_sizes",
            "write_that_was_ended_in_the_middle",
        )
    ):
        _, path, _ = load(java, sound, tmp_path / str(number), name)
        assert (tmp_path / str(number) / path).exists()

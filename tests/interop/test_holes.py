"""What RocketMQ's classes do where a file of the log or of a queue is missing, and what verify says of it."""

import shutil

import pytest
from support import planted

import rocketstore
from interop.test_verify import RELEASES, options_of
from rocketstore import StoreConfig, verify
from rocketstore.verify.kinds import KINDS

pytestmark = pytest.mark.interop

QUEUE = "consumequeue/TopicTest/1"
# RocketMQ's normal recovery reads the last three files. "before the last three" is the file before these.
PLACES = {"first": 0, "middle": 2, "before the last three": -4, "among the last three": -2, "last": -1}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Make a store whose log, and whose queue 1, have at least seven files."""
    root = tmp_path_factory.mktemp("sound") / "store"
    with rocketstore.open(root, "a", config=StoreConfig(**planted.SIZES)) as store:
        store.create_topic("TopicTest", 3)
        for n in range(200):
            planted.put(store, "plain", n)
    assert min(len(files_of(root, "commitlog")), len(files_of(root, QUEUE))) >= 7
    return root


def files_of(root, directory):
    return sorted(path.name for path in (root / directory).iterdir())


@pytest.fixture(params=[False, True], ids=["after a clean stop", "after a crash"])
def is_crash(request):
    return request.param


def with_hole(sound, root, directory, place, is_crash):
    """Copy the store, remove one file of a directory, and return the kinds of verify's findings and the file's name."""
    shutil.copytree(sound, root)
    name = files_of(root, directory)[PLACES[place]]
    (root / directory / name).unlink()
    if is_crash:
        (root / "abort").write_text("1")
    return {finding.kind for finding in verify(root).findings}, name


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("place", PLACES)
def test_the_load_goes_past_a_hole_in_the_log(java_of, sound, tmp_path, release, place, is_crash):
    kinds, name = with_hole(sound, tmp_path / "store", "commitlog", place, is_crash)
    left = files_of(tmp_path / "store", "commitlog")
    answer = java_of(release).recover(tmp_path / "store", options_of("plain"), start=False)
    records = planted.Store(sound).records
    kept = [at + record.total_size for at, record in records if place != "last" or at < int(name)]
    assert answer["loaded"]
    assert answer["minOffset"] == (int(left[0]) if place == "first" else 0)
    assert answer["maxOffset"] == kept[-1]  # the log ends early only if the last file is missing
    assert files_of(tmp_path / "store", "commitlog") == left
    assert ("log-file-missing" in kinds) == (place not in ("first", "last"))
    if place == "first":
        assert not {kind for kind in kinds if KINDS[kind].severity == "error"}  # as if the file had expired


def places_in_queue(root):
    """Return the physical offsets of the records of the queue, by queue offset."""
    records = planted.Store(root).records
    return [at for at, r in records if (r.topic, r.queue_id, r.sys_flag & 0xC) == ("TopicTest", 1, 0)]


def recover_queue(java, root):
    answer = java.recover(root, options_of("plain"), start=False)
    assert answer["loaded"]
    return next(queue for queue in answer["queues"] if (queue["topic"], queue["queueId"]) == ("TopicTest", 1))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("place", [place for place in PLACES if place != "last"])
def test_the_load_goes_past_a_hole_in_a_queue(java_of, sound, tmp_path, release, place, is_crash):
    kinds, name = with_hole(sound, tmp_path / "store", QUEUE, place, is_crash)
    queue = recover_queue(java_of(release), tmp_path / "store")
    assert queue["min"] == (planted.QUEUE_FILE // planted.UNIT if place == "first" else 0)
    assert queue["max"] == len(places_in_queue(sound))
    assert name not in files_of(tmp_path / "store", QUEUE)
    assert "unit-missing" in kinds
    assert ("queue-file-missing" in kinds) == (place != "first")


@pytest.mark.parametrize("release", RELEASES)
def test_records_of_a_missing_last_queue_file_get_wrong_offsets(java_of, sound, tmp_path, release, is_crash):
    """RocketMQ appends the records that it dispatches again right behind the units that are left."""
    kinds, name = with_hole(sound, tmp_path / "store", QUEUE, "last", is_crash)
    begin = int(name) // planted.UNIT
    places = places_in_queue(sound)
    lost = places[begin:]
    queue = recover_queue(java_of(release), tmp_path / "store")
    again = lost[-(queue["max"] - begin) :]
    assert "unit-missing" in kinds
    assert "queue-file-missing" not in kinds
    assert 0 < len(again) < len(lost)
    units = planted.units_of(planted.Store(tmp_path / "store"), QUEUE)[begin * planted.UNIT :]
    found = [int.from_bytes(units[at : at + 8], "big") for at in range(0, len(again) * planted.UNIT, planted.UNIT)]
    assert found == again


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("directory", ["commitlog", QUEUE])
@pytest.mark.parametrize("number", [0, -1])
def test_a_file_that_is_too_short_is_refused_and_not_filled(java_of, sound, tmp_path, release, directory, number):
    root = shutil.copytree(sound, tmp_path / "store")
    path = root / directory / files_of(root, directory)[number]
    data = path.read_bytes()[:-20]
    path.write_bytes(data)
    assert not java_of(release).recover(root, options_of("plain"), start=False)["loaded"]
    assert path.read_bytes() == data
    kind = "log-file-size" if directory == "commitlog" else "queue-file-size"
    assert any(finding.kind == kind and finding.path == path for finding in verify(root).findings)


# ---- batch queues and ext files ----------------------------------------------------------------------------

BATCH_QUEUE, EXT_FILES = "batchconsumequeue/Inner/0", "consumequeue_ext/TopicTest/1"


@pytest.fixture(scope="module")
def other_sound(tmp_path_factory):
    """Make stores with at least seven files of a batch queue, and six of the ext files of queue 1."""
    roots = {base: tmp_path_factory.mktemp("sound") / base for base in ("batch", "ext")}
    for base, root in roots.items():
        with rocketstore.open(root, "a", config=StoreConfig(**planted.SIZES, **planted.OPTIONS[base])) as store:
            store.create_topic("TopicTest", 3)
            store.create_topic("Inner", 1, queue_type="BatchCQ")
            for n in range(200):
                planted.put(store, base, n)
    assert len(files_of(roots["batch"], BATCH_QUEUE)) >= 7
    assert len(files_of(roots["ext"], EXT_FILES)) >= 6
    return roots


def recover_other(java, root, base, topic, queue_id):
    answer = java.recover(root, options_of(base), start=False)
    assert answer["loaded"]
    return next(queue for queue in answer["queues"] if (queue["topic"], queue["queueId"]) == (topic, queue_id))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("place", PLACES)
def test_the_load_goes_past_a_hole_in_a_batch_queue(java_of, other_sound, tmp_path, release, place, is_crash):
    root = tmp_path / "store"
    kinds, name = with_hole(other_sound["batch"], root, BATCH_QUEUE, place, is_crash)
    shutil.copytree(other_sound["batch"], tmp_path / "whole")
    whole = recover_other(java_of(release), tmp_path / "whole", "batch", "Inner", 0)
    queue = recover_other(java_of(release), root, "batch", "Inner", 0)
    is_dispatched = place == "last" and is_crash
    per_file = planted.BATCH_FILE // planted.BATCH_UNIT * 2  # messages
    begin = int(name) // planted.BATCH_FILE * per_file
    assert queue["min"] == (per_file if place == "first" else 0)
    assert queue["max"] == (begin if place == "last" and not is_crash else whole["max"])
    assert (name in files_of(root, BATCH_QUEUE)) == is_dispatched
    assert ("queue-behind" in kinds, "unit-missing" in kinds) == (is_dispatched, not is_dispatched)
    assert ("queue-file-missing" in kinds) == (place not in ("first", "last"))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("place", PLACES)
def test_the_load_goes_past_a_hole_in_ext_files(java_of, other_sound, tmp_path, release, place, is_crash):
    root = tmp_path / "store"
    kinds, name = with_hole(other_sound["ext"], root, EXT_FILES, place, is_crash)
    shutil.copytree(other_sound["ext"], tmp_path / "whole")
    whole = recover_other(java_of(release), tmp_path / "whole", "ext", "TopicTest", 1)
    queue = recover_other(java_of(release), root, "ext", "TopicTest", 1)
    assert queue == whole
    assert (name in files_of(root, EXT_FILES)) == (place == "last" and is_crash)  # made again by the dispatch
    assert "ext-missing" in kinds

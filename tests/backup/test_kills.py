"""copy, convert and split that are really killed, at drawn moments, are run again as if they had never been killed."""

import random
import shutil

import pytest
from support.profiles import SEVERAL_FILES
from support.sigkill import killed_in, seconds_of

import rocketstore
from rocketstore import Message, StoreConfig

pytestmark = [pytest.mark.crash, pytest.mark.normal_build]

T0 = 1_700_000_000_000
COUNT = 500
SIZES = {"mapped_file_size_commit_log": 24_000, "mapped_file_size_consume_queue": 4000, "max_index_num": 700}
WORK = {
    "copy": lambda root, new: rocketstore.copy(root, new),
    "convert": lambda root, new: rocketstore.convert(root, new, **SIZES),
    "split": lambda root, new: rocketstore.split(root, new),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("store") / "store"
    with rocketstore.open(root, "a", config=StoreConfig(**SEVERAL_FILES)) as store:
        for number in range(COUNT):
            message = Message(f"T{number % 3}", b"body %d" % number, keys=[f"k{number}"], tags="t", queue_id=number % 2)
            store.put_message(message, store_timestamp=T0 + number)
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T1@group":{"0":40}}}')
    return root


def tree(root):
    """Return the bytes of all files by name, and the names of all directories."""
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def is_complete(new, name):
    """Return whether a killed process had completed the new directory, which it leaves without a mark."""
    return new.is_dir() and any(new.iterdir()) and not (new / f"rocketstore-{name}").exists()


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WORK)
def test_after_kills_the_result_is_as_if_never_killed(root, tmp_path, seed, name, kills):
    rng, new, expected = random.Random(f"{seed} {name}"), tmp_path / "new", tmp_path / "expected"
    before = tree(root)
    seconds = seconds_of(lambda: WORK[name](root, expected))
    wanted, killed = tree(expected), 0
    for _ in range(kills):
        was_killed = killed_in(seconds, lambda: WORK[name](root, new), rng)
        killed += was_killed
        seconds = seconds if was_killed else seconds / 2  # the work is done sooner than it was at first
        if is_complete(new, name):
            assert tree(new) == wanted
            shutil.rmtree(new)
    WORK[name](root, new)
    assert tree(new) == wanted
    assert tree(root) == before
    assert killed > 0

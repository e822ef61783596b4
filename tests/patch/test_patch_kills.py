"""A patch that is really killed, at drawn moments, is run again as if it had never been killed."""

import functools
import random
import shutil

import pytest
from support.damaged_log import CONFIG, LOG_SIZE, bytes_of, make_log, overwrite
from support.sigkill import killed_in, seconds_of

import rocketstore

pytestmark = [pytest.mark.crash, pytest.mark.normal_build]

PLACES = 30


@pytest.mark.parametrize("rounds", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_after_kills_the_store_is_as_if_never_killed(tmp_path, seed, rounds):
    rng, damaged = random.Random(f"{seed} kills"), tmp_path / "damaged"
    rows = make_log(damaged, rng, count=150, config=CONFIG)
    for row in rng.sample(rows[:-3], PLACES):
        overwrite(damaged, row.phy_offset, rng.randbytes(min(row.size, 60)), LOG_SIZE)
    report, expected = rocketstore.verify(damaged), shutil.copytree(damaged, tmp_path / "expected")
    seconds = seconds_of(functools.partial(rocketstore.patch, expected, report=report))
    wanted, killed = store_of(expected), 0
    for number in range(rounds):
        root = shutil.copytree(damaged, tmp_path / f"killed{number}")
        for _ in range(3):  # the second and third process find what a killed one left
            work = functools.partial(rocketstore.patch, root, report=rocketstore.verify(root))
            was_killed = killed_in(seconds, work, rng)
            killed += was_killed
            seconds = seconds if was_killed else seconds / 2  # the work is done sooner than it was at first
            check_saved(damaged, root)
        rocketstore.patch(root)
        assert store_of(root) == wanted
        assert rocketstore.patch(root).ranges == 0
    assert killed > 0


def store_of(root):
    """Return the bytes of a store's files, without what was saved of the old ones."""
    return {name: data for name, data in bytes_of(root).items() if not name.startswith("rocketstore-cut")}


def check_saved(damaged, root):
    """Check that each byte of the log that differs from the damaged store is saved. Zeros at an end are not saved."""
    # A later process also saves what a killed one left, and the names begin with the time: the oldest bytes come last.
    paths = sorted((root / "rocketstore-cut").glob("*"), reverse=True)
    saved = [(int(path.name[-20:]), path.read_bytes()) for path in paths]
    after = bytes_of(root)
    for name, before in bytes_of(damaged).items():
        if name.startswith("commitlog") and before != after[name]:
            patched = bytearray(after[name])
            start = int(name[-20:])
            for begin, data in saved:
                if start <= begin < start + len(patched):
                    patched[begin - start : begin - start + len(data)] = data
            assert {old for old, new in zip(before, patched, strict=True) if old != new} <= {0}

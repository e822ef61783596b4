"""The files that a broker deletes now, against the plan of ``expiry``."""

import os
import random
import shutil
import time

import pytest

import rocketstore
from rocketstore import StoreConfig

pytestmark = pytest.mark.interop

RELEASES = ("5.5.1", "5.3.3", "4.9.8")
HOUR = 3600
PARTS = ("commitlog", "consumequeue", "index")
SETTINGS = {
    "old": {"fileReservedTime": 50, "diskMaxUsedSpaceRatio": 95},
    "another hour": {"fileReservedTime": 50, "diskMaxUsedSpaceRatio": 95},
    "above the maximum": {"fileReservedTime": 50, "diskMaxUsedSpaceRatio": 10},
    "forced": {"fileReservedTime": 5000, "diskSpaceCleanForciblyRatio": 30, "cleanFileForciblyEnable": True},
    "not forced": {"fileReservedTime": 50, "diskSpaceCleanForciblyRatio": 30, "cleanFileForciblyEnable": False},
}


def files_of(root):
    return {str(path.relative_to(root)) for part in PARTS for path in (root / part).rglob("*") if path.is_file()}


def hours_now(is_now):
    hour = time.localtime().tm_hour
    wanted = {hour, (hour + 1) % 24} if is_now else {(hour + 12) % 24}  # the hour may end during the test
    return ";".join(f"{hour:02}" for hour in sorted(wanted))


@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_deletes_the_files_of_the_plan(store_of, tmp_path, release, case, seed):
    written = store_of(release, "rich", mappedFileSizeCommitLog=16384)
    root = shutil.copytree(written.root, tmp_path / "store")
    draw = random.Random(f"{seed} {release} {case}")
    for number, path in enumerate(sorted((root / "commitlog").iterdir())):
        age = (99 if number == 0 else draw.randrange(1, 100)) * HOUR
        os.utime(path, (time.time() - age, time.time() - age))
    settings = SETTINGS[case] | {"deleteWhen": hours_now(case != "another hour"), "deleteCommitLogFilesInterval": 0}
    config = {**written.options["config"], **settings}
    conf = tmp_path / "broker.conf"
    lines = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in config.items()]
    conf.write_text("\n".join([*lines, f"storePathRootDir={root}"]))
    with rocketstore.open(root, config=StoreConfig.from_broker_conf(conf, compat=release)) as store:
        plan = store.expiry()
    now = time.time() * 1000
    expected = {
        os.path.relpath(file.path, root)
        for file in plan
        if file.delete_timestamp is not None and file.delete_timestamp <= now
    }
    if case != "forced":  # it depends on the disk of this machine
        assert bool(expected) == (case != "another hour")
    (left,) = written.java.read_store(root, {**written.options, "config": config}, [{"op": "delete_expired"}])
    before = files_of(root)
    assert before - {name for name in left if name.partition("/")[0] in PARTS} == expected

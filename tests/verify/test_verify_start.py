"""Verify names what keeps a broker from starting beside the log: places, timers, compaction, ext files and config."""

import shutil

import pytest
from support import planted
from support.start_faults import FAULTS, base_of, options_of
from support.times import make_old

from rocketstore import StoreConfig, verify


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    roots = {base: tmp_path_factory.mktemp("sound") / base for base in ("plain", "ext")}
    for base, root in roots.items():
        planted.build(base, root)
    return roots


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_start_meets_is_named(name, sound, tmp_path):
    plant, kind = FAULTS[name]
    root = shutil.copytree(sound[base_of(name)], tmp_path / "store")
    plant(root)
    make_old(root)
    config = StoreConfig(**planted.SIZES, **options_of(name))
    found = {finding.kind for finding in verify(root, config=config).findings}
    if kind is None:
        assert not {each for each in found if each.startswith(("timer", "compaction", "config", "abort-no", "lock"))}
    else:
        assert kind in found

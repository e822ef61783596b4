"""Where RocketMQ's recovery ends a damaged log, against what verify says of the damage."""

import shutil

import pytest
from support import planted

from interop.test_verify import RELEASES, kinds_of, options_of
from interop.test_verify import sound as sound
from rocketstore.verify.kinds import CUTS, KINDS

pytestmark = pytest.mark.interop

IN_THE_LOG = (
    "changed_record",
    "changed_length",
    "zeroed_record",
    "noise_over_records",
    "record_from_another_place",
    "delay_that_is_no_number",
    "inner_batch_that",
    "destroyed_crc_property",
    "missing_blank",
    "blank_of_another_size",
    "old_bytes_in_a_blank",
)
FAULTS = [name for name in planted.FAULTS if name.startswith(IN_THE_LOG)]
OF_THE_CRC = {"log-property-crc", "log-property-crc-missing"}  # their sentences name forceVerifyPropCRC
BLANKS = {  # the releases that cut the log at a blank whose size is wrong
    "blank_of_another_size: longer": RELEASES,
    "blank_of_another_size: shorter": (),
    "blank_of_another_size: negative": ("5.5.1",),
}


def plant(name, sound, root):
    """Plant a fault in a copy of its store; return the kinds that name it and its physical offset."""
    base, damage = planted.FAULTS[name]
    shutil.copytree(sound[base], root)
    kind, path, offset = damage(planted.Store(root))
    return kinds_of(kind), int(path.rpartition("/")[2]) + offset


def read_whole_log(root):
    """Make recovery begin at the first file: the store crashed, and its checkpoint knows nothing."""
    (root / "abort").write_text("1")
    (root / "checkpoint").write_bytes(bytes(4096))


def is_cut(name, kinds, release, *, is_forced):
    """Whether verify's sentence says that recovery ends the log at the fault."""
    if name in BLANKS:
        return release in BLANKS[name]
    if kinds <= OF_THE_CRC:
        assert all(KINDS[kind].at_next_start.endswith(f"{CUTS}, with forceVerifyPropCRC") for kind in kinds)
        return is_forced
    said = {KINDS[kind].at_next_start for kind in kinds}
    assert said == {CUTS} or CUTS not in said
    return said == {CUTS}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("is_forced", [False, True], ids=["", "forceVerifyPropCRC"])
def test_the_log_is_cut_where_verify_says_so_and_nowhere_else(java_of, sound, tmp_path, release, is_forced):
    wrong = []
    for number, name in enumerate(FAULTS):
        base, root = planted.FAULTS[name][0], tmp_path / str(number)
        if is_forced and base != "crc":
            continue
        kinds, place = plant(name, sound, root)
        end = place if is_cut(name, kinds, release, is_forced=is_forced) else planted.Store(sound[base]).end()
        read_whole_log(root)
        options = options_of(base)
        options["config"]["forceVerifyPropCRC"] = is_forced
        answer = java_of(release).recover(root, options, start=False)
        if (answer["loaded"], answer.get("maxOffset")) != (True, end):
            wrong.append((name, sorted(kinds), answer.get("maxOffset"), end))
        shutil.rmtree(root)
    assert wrong == []


@pytest.mark.parametrize("release", RELEASES)
def test_damage_in_a_file_that_recovery_does_not_read_stays(java_of, sound, tmp_path, release):
    for number, name in enumerate(FAULTS):
        base, root = planted.FAULTS[name][0], tmp_path / str(number)
        plant(name, sound, root)
        before = {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}
        answer = java_of(release).recover(root, options_of(base), start=False)
        assert answer["maxOffset"] == planted.Store(sound[base]).end(), name
        assert {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()} == before, name
        shutil.rmtree(root)

"""Where a broker dispatches again from after a crash, as verify expects it, by release and checkpoint."""

import shutil

import pytest
from reference.checkpoint import checkpoint_bytes
from reference.commit_log import read_files
from support import planted

from interop.test_verify import options_of
from interop.test_verify import sound as sound
from rocketstore import CommitLog, StoreCheckpoint, StoreConfig
from rocketstore.dispatch.dispatch_begin import find_dispatch_begin

pytestmark = pytest.mark.interop

RELEASES = ("5.5.1", "5.5.0", "5.3.3", "4.9.8")
MARGIN = 3000  # ms


def checkpoints(store):
    """Return checkpoints, as bytes, around the first records of the log's files."""
    firsts = [next(pair for pair in store.records if pair[0] == int(name)) for name in store.log_files()]
    found = [checkpoint_bytes(0, 0, 0), checkpoint_bytes(1 << 50, 1 << 50, 1 << 50)]
    for phy_offset, record in firsts[1:]:
        time = record.store_timestamp
        for other in (time - 1, time, time + MARGIN - 1, time + MARGIN):
            found += [checkpoint_bytes(1 << 50, other, 0), checkpoint_bytes(other, 1 << 50, 1 << 50)]
        for offset in (phy_offset - 1, phy_offset):
            found.append(checkpoint_bytes(1 << 50, time - 1, 1 << 50, logics_physical_offset=offset))
    return found


def first_dispatched(root):
    """Return the least physical offset of all units of the queues that are there."""
    offsets = []
    for queue in (root / "consumequeue").glob("*/*"):
        data = b"".join(read_files(queue).values())
        units = {data[at : at + planted.UNIT] for at in range(0, len(data), planted.UNIT)}
        offsets += [int.from_bytes(unit[:8], "big") for unit in units - {planted.FILLER, bytes(planted.UNIT)}]
    return min(offsets, default=None)


@pytest.mark.parametrize("is_safe", [False, True], ids=["", "messageIndexSafe"])
@pytest.mark.parametrize("most", [10, 3])
@pytest.mark.parametrize("release", RELEASES)
def test_dispatch_begins_where_verify_expects_it(java_of, sound, tmp_path, release, most, is_safe):
    store, wrong = planted.Store(sound["plain"]), []
    options = options_of("plain")
    options["config"] |= {"commitLogRecoverMaxNum": most, "messageIndexSafe": is_safe}
    config = StoreConfig(**planted.SIZES, commit_log_recover_max_num=most, message_index_safe=is_safe, compat=release)
    for number, data in enumerate(checkpoints(store)):
        root = shutil.copytree(sound["plain"], tmp_path / str(number))
        shutil.rmtree(root / "consumequeue")
        (root / "abort").write_text("1")
        (root / "checkpoint").write_bytes(data)
        with CommitLog.open(root / "commitlog") as log:
            begin = find_dispatch_begin(log, StoreCheckpoint.open(root / "checkpoint"), config)
        expected = next(at for at, record in store.records if at >= begin and record.sys_flag & 0xC in (0, 8))
        assert java_of(release).recover(root, options, start=False)["loaded"]
        if first_dispatched(root) != expected:
            wrong.append((number, begin, first_dispatched(root)))
        shutil.rmtree(root)
    assert wrong == []

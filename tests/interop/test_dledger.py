"""A member of DLedger that was far behind: its log begins within a file, and is read as RocketMQ reads it."""

import random
import shutil

import pytest

import rocketstore
from interop import stores
from interop.broker import free_ports
from interop.test_large_stores import KINDS, get_request
from rocketstore import StoreConfig

pytestmark = pytest.mark.interop

SIZE = 16 * 1024
COUNT = 200
CONFIG = StoreConfig(max_hash_slot_num=97, max_index_num=400)


def options():
    peers = f"n0-127.0.0.1:{free_ports()}"
    return stores.options(**{**KINDS["dledger"], "dLegerPeers": peers, "mappedFileSizeCommitLog": SIZE})


@pytest.fixture(scope="module", params=["5.5.1", "5.3.3"])
def written(request, java_of, tmp_path_factory, seed):
    """A store that a member of DLedger wrote and stopped, with all its messages of one queue."""
    java, root = java_of(request.param), tmp_path_factory.mktemp("dledger") / "store"
    made = stores.Messages(random.Random(f"{seed} dledger"))
    messages = [made.message("T", body=made.rng.randbytes(400), properties={"KEYS": f"k{n}"}) for n in range(COUNT)]
    java.start(root, options())
    assert {result["status"] for result in java.put_messages(root, messages)} == {"PUT_OK"}
    java.stop(root)
    return java, root


def follow(written, tmp_path, index):
    """A store of a member that begins with an entry; it has the queues and the index of the other member."""
    java, root = written
    target = shutil.copytree(root, tmp_path / "store", ignore=shutil.ignore_patterns("dledger-n0"))
    begin = java.follow(shutil.copytree(root, tmp_path / "source"), target, index, SIZE)
    assert begin % SIZE > 0
    return target, begin


def offsets_of(root):
    with rocketstore.open(root, config=CONFIG) as store:
        return [one.phy_offset for batch in store.scan(columns=["phy_offset"]) for one in batch]


def test_the_log_is_read_from_its_first_entry_on_as_java_reads_it(written, tmp_path):
    java, source = written
    root, begin = follow(written, tmp_path, 70)
    files = sorted((root / "dledger-n0" / "data").iterdir())
    assert len(files) > 3
    assert int(files[0].name) < begin
    left = offsets_of(source)[70:]
    assert offsets_of(root) == left
    assert rocketstore.verify(root, config=CONFIG).findings == []
    with rocketstore.open(root, config=CONFIG) as store:
        assert store.commit_log.min_phy_offset == begin
        found = store.get_message("T", 0, 70, COUNT)
        assert [message.phy_offset for message in found.messages] == left
        assert [store.query_message("T", f"k{n}").messages[0].phy_offset for n in range(70, COUNT)] == left
    java.start(root, options())
    answers = java.ask(root, [get_request("T", 0, n) for n in range(70, COUNT)])
    java.stop(root)
    assert [answer["phyOffsets"] for answer in answers] == [[offset] for offset in left]


def test_a_log_of_two_such_files_is_not_kept_by_java(written, tmp_path):
    """verify says so; rocketstore reads it."""
    java, source = written
    place = offsets_of(source)
    index = next(n for n in range(COUNT) if place[n] // SIZE == place[-1] // SIZE - 1) + 3
    root, _ = follow(written, tmp_path, index)
    assert len(list((root / "dledger-n0" / "data").iterdir())) == 2
    assert offsets_of(root) == place[index:]
    assert [one.kind for one in rocketstore.verify(root, config=CONFIG).findings] == ["dledger-begin"]
    java.start(root, options())
    answers = java.ask(root, [get_request("T", 0, n) for n in range(index, COUNT)])
    java.stop(root)
    assert all(answer["phyOffsets"] == [] for answer in answers)

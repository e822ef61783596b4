"""What verify says that a broker does at its next start, against what RocketMQ's classes do to the same damage."""

import shutil

import pytest
from reference.commit_log import write_file
from reference.record import build_record
from support import planted

from interop import stores
from interop.harness import JavaError
from rocketstore import verify
from rocketstore.config import camel_case
from rocketstore.messages.compression import compress
from rocketstore.verify.kinds import KINDS

pytestmark = pytest.mark.interop

RELEASES = ("5.5.1", "5.3.3")
# Kinds whose sentence says that the load fails, and those whose sentence says that a file is deleted.
STOPS = {kind for kind, said in KINDS.items() if said.at_next_start.startswith("does not start")}
DELETES = {"log-file-empty", "log-file-ahead", "queue-file-empty", "foreign-file-empty"}
# A broker's managers read these, not the store's classes: the store is loaded all the same.
OF_MANAGERS = {"config-bak-damaged"}
# A broker that keeps queues in files, as here, opens no RocksDB. test_broker_start.py starts both kinds of brokers.
OF_ROCKSDB = {"rocksdb-damaged"}
AFTER_A_CRASH = {"log-light-offset"}  # after a clean stop the record is not dispatched again


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    roots = {base: tmp_path_factory.mktemp("sound") / base for base in planted.OPTIONS}
    for base, root in roots.items():
        planted.build(base, root)
    return roots


def options_of(base):
    config = {camel_case(name): value for name, value in {**planted.SIZES, **planted.OPTIONS[base]}.items()}
    return stores.options(batch_topics=["Inner"], **config)


def kinds_of(kind):
    return {kind} if isinstance(kind, str) else set(kind)


def load(java, name, root, sound, *, is_crash):
    """Plant a fault and load the store; return the kinds that name it, its path and whether RocketMQ loads it."""
    base, plant = planted.FAULTS[name]
    shutil.copytree(sound[base], root)
    kind, path, _ = plant(planted.Store(root))
    if is_crash:
        (root / "abort").write_text("1")
    return kinds_of(kind), path, is_loaded(java, root, base)


def is_loaded(java, root, base):
    """Whether a store is made and loaded: that of a lock that is a directory is not made."""
    try:
        return java.recover(root, options_of(base), start=False)["loaded"]
    except JavaError:
        if (root / "lock").is_dir():
            return False
        raise


@pytest.mark.parametrize("is_crash", [False, True], ids=["after a clean stop", "after a crash"])
@pytest.mark.parametrize("release", RELEASES)
def test_the_load_fails_where_verify_says_so_and_nowhere_else(java_of, sound, tmp_path, release, is_crash):
    java, wrong = java_of(release), []
    for number, name in enumerate(planted.FAULTS):
        root = tmp_path / str(number)
        try:
            kinds, _, loaded = load(java, name, root, sound, is_crash=is_crash)
        finally:
            shutil.rmtree(root)
        stops = kinds & STOPS - OF_MANAGERS - OF_ROCKSDB - (set() if is_crash else AFTER_A_CRASH)
        if loaded == bool(stops):
            wrong.append((name, sorted(kinds), loaded))
    assert wrong == []


@pytest.mark.parametrize("release", RELEASES)
def test_files_are_deleted_where_verify_says_so(java_of, sound, tmp_path, release):
    tested = set()
    for number, name in enumerate(planted.FAULTS):
        root = tmp_path / str(number)
        base, plant = planted.FAULTS[name]
        shutil.copytree(sound[base], root)
        kind, path, _ = plant(planted.Store(root))
        if kinds_of(kind) <= DELETES:
            assert (root / path).exists()
            assert java_of(release).recover(root, options_of(base), start=False)["loaded"], name
            assert not (root / path).exists(), name
            tested |= kinds_of(kind)
        shutil.rmtree(root)
    assert tested == DELETES


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("size", [0, 1, 8, 24, 47, 48, 100, 4095, 5000])
def test_a_checkpoint_of_another_length_is_filled_with_zeros(java_of, sound, tmp_path, release, size):
    root = shutil.copytree(sound["plain"], tmp_path / "store")
    data = (root / "checkpoint").read_bytes()[:size].ljust(size, b"\0")
    (root / "checkpoint").write_bytes(data)
    answer = java_of(release).recover(root, options_of("plain"), start=False)
    assert answer["loaded"]
    numbers = [int.from_bytes(data[at : at + 8].ljust(8, b"\0"), "big") for at in (0, 8, 16)]
    assert [answer["checkpoint"][name] for name in ("physicMsgTimestamp", "indexMsgTimestamp")] == numbers[::2]
    assert (root / "checkpoint").stat().st_size == max(size, 4096)


@pytest.mark.parametrize("release", RELEASES)
def test_verify_warns_of_bodies_that_no_codec_began_and_that_a_client_does_not_decode(release, java_of, tmp_path):
    sound = b"sound " * 50
    bodies = [(b"plain", 0x1), (b"abc", 0x101), (b"abc", 0x201), *((b"abc", 0x1 | kind << 8) for kind in range(4, 8))]
    bodies += [(compress(sound, "zlib")[0] + b"behind", 0x1), (b"", 0x1), (b"plain", 0)]
    cut = []
    for codec in ("zlib", "lz4", "zstd"):
        raw, flags = compress(sound, codec)
        bodies += [(raw, flags), (raw[: len(raw) // 2], flags)]
        cut.append(len(bodies) - 1)
    records = []
    for body, flags in bodies:
        at = sum(map(len, records))
        records.append(build_record("T", body, sys_flag=flags, phy_offset=at, queue_offset=len(records)))
    write_file(tmp_path / "commitlog", 0, b"".join(records).ljust(65536, b"\0"))
    found = verify(tmp_path).findings
    warned = {finding.offset for finding in found if finding.kind == "log-body-compression"}
    more = sum(finding.more for finding in found if finding.kind == "log-body-compression")
    refused = {
        answer["message"]["commitLogOffset"]
        for answer in java_of(release).parse(records)
        if answer["message"]["plainBody"] is None
    }
    # A body that its codec began and that is cut has the right CRC only if a client stored it so. Finding it would
    # mean to decompress every body.
    begun = {sum(map(len, records[:i])) for i in cut}
    assert len(refused) == 10
    assert begun <= refused
    assert len(warned) + more == len(refused) - len(begun)
    assert warned <= refused - begun

"""Stores that tests of recovery damage, and what must be true of them afterwards."""

import functools
import random
import struct

from reference.commit_log import CommitLog, build_record, read_files
from reference.index_file import IndexFile
from reference.message_store import build_index, build_queues, make_store
from support import damages
from support.releases import numbers_of

from rocketstore import StoreConfig
from rocketstore.recovery.complete import complete_store
from rocketstore.survey.survey import survey_store

FILE, CQ_FILE, SLOTS, ITEMS = 4096, 200, 97, 1000
SIZES = {
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": CQ_FILE,
    "mapperFileSizeBatchConsumeQueue": 460,
    "maxHashSlotNum": SLOTS,
    "maxIndexNum": ITEMS,
}
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE,
    mapped_file_size_consume_queue=CQ_FILE,
    mapper_file_size_batch_consume_queue=460,
    mapped_file_size_consume_queue_ext=4096,
    max_hash_slot_num=SLOTS,
    max_index_num=ITEMS,
)
# What complete recovery refuses, sometimes: bytes that records follow.
REFUSED = ("damaged_body_of_a_record", "damaged_magic_of_a_record", "wrong_size_of_a_record", "missing_log")


def complete_store_of(root, config):
    return complete_store(survey_store(root, config), config)


def messages(rng):
    """So many that several are in the last file of the log."""
    made, end = [], 0
    for message in some_messages(rng, 90):
        size = len(build_record(**message))
        end = end + size if end + size + 8 <= FILE else size  # the room of a blank is kept
        made.append(message)
        if len(made) > 60 and end > FILE // 2:
            break
    return made


def some_messages(rng, count):
    return [
        {
            "topic": rng.choice(("TopicTest", "Orders")),
            "queue_id": rng.randrange(2),
            "body": rng.randbytes(rng.randint(1, 250)),
            "store_timestamp": 1_700_000_000_000 + 5000 * i,
            "properties": {
                "KEYS": " ".join(f"k{rng.randrange(30)}" for _ in range(rng.randint(1, 3))),
                "TAGS": rng.choice(("A", "B")),
                "UNIQ_KEY": f"{i:032X}",
            },
        }
        for i in range(count)
    ]


@functools.cache
def made(directory, seed, release):
    root = directory / f"{seed}-{release}"
    root.mkdir()
    make_store(
        root,
        messages(random.Random(seed)),
        file_size=FILE,
        cq_file_size=CQ_FILE,
        hash_slot_num=SLOTS,
        index_num=ITEMS,
        index_tags=numbers_of(release) >= (5, 4),
    )
    return root


def contents(root, *, with_index=True):
    """All files but the state, by name; index files, whose names tell times, by their number."""
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for name in ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext")
        for path in (root / name).rglob("*")
        if path.is_file()
    }
    index = sorted((root / "index").glob("*")) if with_index else []
    return found | {f"index {i}": path.read_bytes() for i, path in enumerate(index)}


def everything(root):
    return {path: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def index_items(root):
    files = [IndexFile(SLOTS, ITEMS, data=path.read_bytes()) for path in sorted((root / "index").glob("*"))]
    return sorted(file.item(ordinal)[:2] for file in files for ordinal in range(1, file.index_count))


def damage(root, rng, what, mode):
    what(root, rng)
    if (root / "checkpoint").exists() and read_files(root / "commitlog"):
        rng.choice(damages.OF_CHECKPOINT)(root, rng)
    mode(root, rng)


def is_blank(data):
    return struct.unpack_from(">iI", data) == (len(data), 0xCBD43194) and not any(data[8:])


def assert_complete(root):
    """The queues and the index are those of the log, and nothing is behind its end."""
    log = CommitLog(read_files(root / "commitlog"))
    expected = {
        f"consumequeue/{topic}/{queue_id}/{start:020d}": bytes(data)
        for (topic, queue_id), queue in build_queues(log, CQ_FILE).items()
        for start, data in queue.files.items()
    }
    found = contents(root, with_index=False)
    assert {name: data for name, data in found.items() if name.startswith("consumequeue/")} == expected
    index = build_index(log, SLOTS, ITEMS)
    assert index_items(root) == sorted(
        file.item(ordinal)[:2] for file in index.files for ordinal in range(1, file.index_count)
    )
    for start, data in log.files.items():
        behind = data[max(log.max_offset - start, 0) :]
        assert start + FILE <= log.max_offset or not any(behind) or is_blank(behind)


def empty(path):
    path.write_bytes(b"")


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))

"""Stores whose log is DLedger's, as a broker leaves them."""

from reference.commit_log import blank, make_commit_log
from reference.dledger import HEAD, INDEX_UNIT, make_dledger

import rocketstore
from rocketstore import StoreConfig

SIZE = 8192
SIZES = StoreConfig(max_hash_slot_num=100, max_index_num=400, mapped_file_size_consume_queue=2000)
COUNT = 60


def message(number, topic="T"):
    properties = {"KEYS": f"k{number}", "UNIQ_KEY": f"u{number}", "TAGS": "t"}
    stored = 1_700_000_000_000 + 1000 * number
    return {
        "topic": topic,
        "queue_id": number % 2,
        "queue_offset": number // 2,
        "body": b"x" * (number % 7 * 40),
        "properties": properties,
        "store_timestamp": stored,
    }


def make_store(root, *, plain=0, committed=None, count=COUNT, data=None, config=None):
    """Make a store of a member n0, with queues and index; the first ``plain`` messages in an older log of plain files.

    Returns: the physical offset of each record.
    """
    offsets = make_plain(root / "commitlog", plain) if plain else []
    begin = max(offsets, default=-SIZE) // SIZE * SIZE + SIZE
    records = map(message, range(plain, count))
    offsets += make_dledger(root / "dledger-n0", SIZE, records, first_offset=begin, committed=committed, data=data)
    config = SIZES if config is None else config
    rocketstore.rebuild(root, out=root / "built", config=config)
    for part in (root / "built").iterdir():
        part.rename(root / part.name)
    (root / "built").rmdir()
    return offsets


def make_plain(directory, count):
    """Write an older log, whose last file ends in a blank. Source: DLedgerCommitLog.setRecoverPosition."""
    offsets = make_commit_log(directory, SIZE, map(message, range(count)))
    with max(directory.iterdir()).open("r+b") as file:
        data = file.read()
        end = offsets[-1] % SIZE + int.from_bytes(data[offsets[-1] % SIZE :][:4], "big")
        file.seek(end)
        file.write(blank(SIZE - end))
    return offsets


def begin_anew(root, offsets, number):
    """Let the log begin with one of its entries, as a member that was far behind. Source: MmapFileList.rebuildWithPos.

    Returns: the physical offsets of the records that are left.
    """
    member = root / "dledger-n0"
    begin = offsets[number] - HEAD
    for path in sorted((member / "data").iterdir()):
        start = int(path.name)
        if start + SIZE <= begin:
            path.unlink()
        elif start < begin:
            with path.open("r+b") as file:
                file.write(bytes(begin - start))
    with (member / "index" / f"{0:020}").open("r+b") as file:
        file.write(bytes(INDEX_UNIT.size * number))
    return offsets[number:]

"""The golden stores: what RocketMQ's own classes left on disk, and what they themselves read from it.

Of each store of `NAMES` there are in tests/golden an archive (`unpack`), the settings it was made with (`settings`), a
dump (`dump`), answers to index queries (`queries`) and answers to reads of queues (`reads`). golden/README.md says
what each store is. Hosts are "address|port", the address as Java writes it ("fe80:0:0:0:0:0:0:abcd").

Rows of `dump`, by kind; the files are as they are in the archive, nothing was recovered first:
    file        name, length; text of `abort` and `lock`
    checkpoint  physicMsgTimestamp, logicsMsgTimestamp, indexMsgTimestamp, masterFlushedOffset, confirmPhyOffset,
                logicsPhysicalOffset (null: unknown to the release), rawLongs: the first eight
    message     at: where it is; totalSize, magic (hexadecimal); bodyCRC, queueId, flag, queueOffset, physicalOffset,
                sysFlag, bornTimestamp, bornHost, storeTimestamp, storeHost, reconsumeTimes, preparedTransactionOffset,
                bodyLength, bodyCrcComputed (of the stored bytes), topic, properties (in the order of the record),
                msgId; dispatch: tagsCode, keys ("" where there are no properties, null where they lack KEYS), uniqKey,
                batchSize, msgBaseOffset
    blank, end  what ends the walk through a commit log file: physicalOffset, size and magic as found there,
                nonZeroAfter: how many bytes after it are not 0. `blank` is a blank record, `end` whatever is no record
    cq          unit of a consume queue, fillers too: topic, queueId, index (queue offset), offset, size, tagsCode,
                storedTagsCode (the ext address if the unit has one in the extension files); ext: size, tagsCode,
                msgStoreTime, bitMap
    bcq         unit of a batch consume queue: topic, queueId, index (base offset), offset, size, tagsCode, batchNum,
                compactedOffset
    index       header of an index file: file, length, beginTimestamp, endTimestamp, beginPhyOffset, endPhyOffset,
                hashSlotCount, indexCount, writeFull, usedSlots, sha1
    item        entry of an index file: file, index (its ordinal), keyHash, slot, offset, timeDiff, previous

Rows of `queries`, from a store that was loaded, that is recovered (it changes the index of the crashed stores only):
    topic, key, max, begin, end, type ("T": by tag; else absent); of queryOffset indexOffsets (newest first),
    indexLastUpdateTimestamp, indexLastUpdatePhyoffset; of queryMessage messageOffsets (ascending), bufferTotalSize,
    resultLastUpdateTimestamp, resultLastUpdatePhyoffset

Rows of `reads`, by kind, from a store that was loaded and started:
    log         minPhyOffset, maxPhyOffset, earliestMessageTime
    queue       topic, queueId, min, max, maxPhysicOffset, total, earliestMessageTime
    get         of getMessage: topic, queueId, offset, max, tags (subscription, or null for no filter), status,
                nextBeginOffset, minOffset, maxOffset, messageCount, queueOffsets, phyOffsets
    time        of getOffsetInQueueByTime: topic, queueId, timestamp, lower, upper (or the name of what it threw)

Rows of `records`: what CommitLog.checkMessageAndReturnSize (5.5.0 and 5.3.3 alike) says of bytes, most unsound:
    flags       1 checkCRC, 2 checkDupInfo, 4 readBody, 8 forceVerifyPropCRC
    head, data  hexadecimal: the buffer is both, its position is between them
    success, size; dispatch (null unless a record): topic, queueId, phyOffset, tagsCode, storeTimestamp, queueOffset,
                keys, uniqKey, sysFlag, preparedTransactionOffset, batchSize, msgBaseOffset, properties
"""

import functools
import json
import lzma
import tarfile
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden"
SETTINGS = json.loads((GOLDEN / "stores.json").read_text(encoding="utf-8"))
NAMES = tuple(SETTINGS)


def unpack(name, directory):
    """Unpack the store into the directory and return its root."""
    extract(GOLDEN / f"{name}.tar.xz", directory)
    return Path(directory) / name


def unpack_broker(name, directory, group):
    """Unpack a store of a group, which a directory of ``golden`` has, without timer wheels, which are nearly all holes.

    Return its root.
    """
    extract(GOLDEN / group / f"{name}.tar.xz", directory, lambda file: "/timerwheel" not in file)
    return Path(directory) / name


@functools.cache
def truth(name, group):
    """Return what the Java client and mqadmin saw of a store just before its stop."""
    with lzma.open(GOLDEN / group / f"{name}.truth.json.xz", "rt", encoding="utf-8") as file:
        return json.load(file)


def extract(path, directory, wanted=lambda name: True):
    """Unpack the wanted files of an archive, by name. Python before 3.11.4 has no filters."""
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(directory, [member for member in archive if wanted(member.name)])


def settings(name):
    """Return the settings the store was made with, by the names of RocketMQ's MessageStoreConfig in snake_case."""
    return dict(SETTINGS[name])


@functools.cache
def dump(name):
    """Return the dumped rows by kind; a kind that the store has none of is absent."""
    return by_kind(lines(f"{name}.dump"))


@functools.cache
def queries(name):
    """Return the index queries with their answers."""
    return lines(f"{name}.queries")


@functools.cache
def reads(name):
    """Return the reads of the queues with their answers, by kind."""
    return by_kind(lines(f"{name}.reads"))


@functools.cache
def records():
    """Return records, whole and broken, with what RocketMQ says of them."""
    return lines("records-5.5.0")


def by_kind(rows):
    kinds = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    return kinds


def lines(stem):
    with lzma.open(GOLDEN / f"{stem}.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def need_codecs(name):
    """Skip the stores whose bodies cannot be read without codecs."""
    if name.split("-")[0] in ("rich", "step", "crash", "cut"):
        pytest.importorskip("lz4.frame", reason="needs lz4, from the extra 'codecs'")
        pytest.importorskip("zstandard", reason="needs zstandard, from the extra 'codecs'")

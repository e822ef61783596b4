"""KINDS: every kind of finding, what it means, what a broker does about it at its next start, and what mends it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import NamedTuple

SEVERITIES = ("error", "warning", "info")


class Kind(NamedTuple):
    """A kind of finding.

    Attributes
    ----------
    severity : "error": messages are lost, wrong or not found, or a broker does not start. "warning": messages may be
        lost or wrong later, or were for some time. "info": everything else.
    meaning : what the finding says about the store.
    at_next_start : what a broker does about it at its next start.
    mend : the command of ``rocketstore`` that mends it, without STORE; ``mend_commands`` adds it. None: nothing needs
        to be done, or no command can mend it.
    """

    severity: str
    meaning: str
    at_next_start: str
    mend: str | None = None


CUTS = "cuts the log here if recovery reads this file, and loses all that follows; else it stays"
STOPS = "does not start: the load fails"
ONLY_WITH_EXT = "only with enableConsumeQueueExt=true, else it reads no ext files"
STOPS_WITH_EXT = f"does not start: the load fails; {ONLY_WITH_EXT}"
DELETES_EMPTY = "deletes it; before 5.1.3, it does not start"
CUTS_ENTRIES = "cuts the log here if recovery reads this file, and asks its leader for all that follows"
KEEPS = "does not notice"
STAYS = "keeps it; it is not repaired"
STAYS_IN_INDEX = "keeps it, unless it deletes the file after a crash; it is not repaired"
LEAVES_UNIT = "leaves it; records behind a queue's end that it dispatches again get the next offsets, which are wrong"
MAKES_QUEUE = "makes it of the records that it dispatches again, and leaves out older ones"
GOES_PAST = "reads on behind the gap, and logs it"
ERROR, WARNING, INFO = SEVERITIES
SALVAGE, RECOVER, REPAIR, REBUILD = "salvage --out NEW", "recover", "config repair", "rebuild"
PATCH = "patch"
QUEUES, INDEX = "rebuild --consume-queue", "rebuild --index"
REBUILD_BESIDE = "rebuild --out NEW"


# Kinds are named after RocketMQ's files. Docs, --help and tests read this table.
KINDS = {
    # commit log
    "log-missing": Kind(
        ERROR, "queues or an index exist, but the commit log is missing", "destroys all consume queues"
    ),
    "log-elsewhere": Kind(
        WARNING,
        "no configuration names the directories of the commit log, which were found by their files",
        "destroys all consume queues, unless its configuration names these directories",
    ),
    "log-file-size": Kind(ERROR, "a file has another length than the others", STOPS, SALVAGE),
    "log-file-name": Kind(
        ERROR, "a file's name is no multiple of the files' length", "finds records at wrong places", SALVAGE
    ),
    "log-file-missing": Kind(
        ERROR, "a file between others is missing", f"{GOES_PAST}; consumers are sent past its messages", SALVAGE
    ),
    "log-file-overlap": Kind(
        ERROR, "a file begins before the one before it ends", "reads the wrong one of the two", SALVAGE
    ),
    "log-file-empty": Kind(INFO, "the last file has no length yet", DELETES_EMPTY),
    "log-file-ahead": Kind(INFO, "a file behind the end was made ahead", "deletes it"),
    "log-zeros": Kind(ERROR, "zeros where a record should be, and records behind them", CUTS, SALVAGE),
    "log-magic": Kind(ERROR, "no magic code where a record should begin", CUTS, SALVAGE),
    "log-size": Kind(ERROR, "the size of a record is impossible, or is not the sum of its parts", CUTS, SALVAGE),
    "log-body-length": Kind(ERROR, "the body of a record would end beyond the file", CUTS, SALVAGE),
    "log-topic-length": Kind(ERROR, "the topic of a record would end beyond the file", CUTS, SALVAGE),
    "log-properties-length": Kind(ERROR, "the properties of a record would end beyond the file", CUTS, SALVAGE),
    "log-body-crc": Kind(ERROR, "a body does not have its CRC: its bytes changed", CUTS, SALVAGE),
    "log-body-compression": Kind(
        WARNING,
        "a body that is marked as compressed is not compressed: consumers get "
        "neither this message nor those behind it in the same pull",
        KEEPS,
    ),
    "log-property-crc": Kind(
        ERROR, "a record does not have its CRC: its bytes changed", f"{CUTS}, with forceVerifyPropCRC", SALVAGE
    ),
    "log-property-crc-missing": Kind(
        WARNING,
        "a record lacks the CRC property that this store's writer adds",
        f"{KEEPS}; {CUTS}, with forceVerifyPropCRC",
    ),
    "log-phy-offset": Kind(
        ERROR, "the physical offset in a record is not its place", "dispatches it to the place it says", SALVAGE
    ),
    "log-delay": Kind(ERROR, "the property DELAY is no number", CUTS, SALVAGE),
    "log-inner-batch": Kind(ERROR, "the property INNER_NUM or INNER_BASE is no number", CUTS, SALVAGE),
    "log-light-offset": Kind(
        ERROR,
        "a queue offset in a light queue is no number",
        "does not start if it dispatches this record; if it runs, it dispatches no more",
    ),
    "log-queue-offset-gap": Kind(
        ERROR, "a queue has records before and after missing queue offsets", "appends the unit all the same", SALVAGE
    ),
    "log-queue-offset-again": Kind(
        ERROR, "two records of a queue have one queue offset", "gives the record no unit", SALVAGE
    ),
    # Source: DefaultMessageStore.load, which does not catch the InternalError that Java makes of a fault in a mapping.
    "disk-unreadable": Kind(
        ERROR,
        "the disk cannot read some bytes of a file",
        "fails with an InternalError when it reads them, and does not start if recovery does",
        SALVAGE,
    ),
    "log-blank-missing": Kind(ERROR, "a file that others follow ends without a blank", CUTS, SALVAGE),
    "log-blank-size": Kind(
        WARNING,
        "a blank is not as long as the rest of its file",
        f"does not notice a shorter one; at a longer one (5.5.1: or a negative one), {CUTS}",
        SALVAGE,
    ),
    "log-blank-bytes": Kind(INFO, "old bytes are left in a blank", KEEPS),
    "log-entry-head": Kind(ERROR, "the head of an entry of DLedger's log does not fit the record in it", CUTS_ENTRIES),
    "log-entry-order": Kind(
        ERROR, "an entry of DLedger's log does not have the next index, or its term is older", CUTS_ENTRIES
    ),
    "dledger-index": Kind(
        WARNING, "the index of DLedger's entries is missing, or does not lead to them", "makes it again from the log"
    ),
    "dledger-begin": Kind(
        WARNING,
        "DLedger's log begins inside its first file, behind zeros, and has three files or fewer",
        "with three files does not start; with fewer, deletes all entries, and asks its leader for them",
    ),
    "dledger-checkpoint": Kind(
        WARNING,
        "the checkpoint of DLedger's log is missing or damaged, or names entries that the log does not have",
        "serves no message before it is elected or hears of its leader",
    ),
    "log-time-falls": Kind(INFO, "a record is older than the one before it: a clock went back", KEEPS),
    "log-tail": Kind(
        WARNING, "bytes behind the last record are no record", "cuts the log here, and writes on", RECOVER
    ),
    "log-leftovers": Kind(
        WARNING,
        "records are left behind the end of the log, where a broker cut them off",
        "ends the log before them, and writes over them",
        RECOVER,
    ),
    "log-torn-record": Kind(
        WARNING, "the last record ends in zeros, like a half written record", "accepts it", RECOVER
    ),
    # consume queues
    "queue-no-directory": Kind(
        ERROR, "a file stands where the directory of a queue should be", "starts without the queue, and cannot make it"
    ),
    "queue-missing": Kind(ERROR, "a queue has records, but no files", MAKES_QUEUE, QUEUES),
    "topic-deleted": Kind(
        INFO,
        "a topic was deleted: its records are in the log, but in no queue",
        "makes queues of those that recovery reads after a crash",
    ),
    "queue-behind": Kind(INFO, "a queue's last records have no units yet", "dispatches them", RECOVER),
    "queue-wrong-root": Kind(ERROR, "a queue is in the directory of another type than topics.json says", STOPS, QUEUES),
    "queue-file-size": Kind(ERROR, "a file has another length than the others", STOPS, QUEUES),
    "queue-file-name": Kind(
        ERROR, "a file's name is no multiple of the files' length", "reads units at wrong offsets", QUEUES
    ),
    "queue-file-missing": Kind(
        ERROR,
        "a file between others is missing",
        f"{GOES_PAST}; consumers are sent past it, those of a batch queue to 0",
        QUEUES,
    ),
    "queue-file-empty": Kind(INFO, "the last file has no length yet", DELETES_EMPTY, RECOVER),
    "queue-file-zeros": Kind(WARNING, "the last file has no unit", "may take its first zeros for a unit", QUEUES),
    "unit-missing": Kind(ERROR, "a record has no unit in its queue", LEAVES_UNIT, QUEUES),
    "unit-shifted": Kind(ERROR, "a record's unit is not at its queue offset", STAYS, QUEUES),
    "unit-size": Kind(ERROR, "a unit has another size than its record", STAYS, QUEUES),
    "unit-tags-code": Kind(ERROR, "a unit has another tags code than its record", STAYS, QUEUES),
    "unit-delivery-time": Kind(
        INFO,
        "a delayed message's unit has another time than by the levels of now",
        "delivers it then; at once if by its level it would be sooner",
    ),
    "unit-batch-base": Kind(ERROR, "a batch unit has another first queue offset than its record", STAYS, QUEUES),
    "unit-batch-size": Kind(ERROR, "a batch unit counts other messages than its record", STAYS, QUEUES),
    "unit-batch-constant": Kind(WARNING, "compactedOffset of a batch unit is not -1, or reserved not 0", KEEPS, QUEUES),
    "unit-store-time": Kind(ERROR, "a batch unit has another store time than its record", STAYS, QUEUES),
    "unit-invalid": Kind(
        ERROR, "the values of a unit are impossible", "ends the queue here if it is in the last three files", QUEUES
    ),
    "unit-no-record": Kind(ERROR, "a unit leads to no record", STAYS, QUEUES),
    "unit-of-another-queue": Kind(ERROR, "a unit leads to a record of another queue", STAYS, QUEUES),
    "unit-beyond-log": Kind(ERROR, "a unit leads beyond the end of the log", "removes it", RECOVER),
    "unit-again": Kind(ERROR, "a unit leads to a record that has a unit elsewhere", STAYS, QUEUES),
    "unit-order": Kind(ERROR, "a unit of an older record is behind a unit of a newer record", STAYS, QUEUES),
    "unit-filler": Kind(ERROR, "a filler is behind units", STAYS, QUEUES),
    "unit-tail": Kind(INFO, "old units are left behind the end", "may take them back when new ones reach them"),
    "unit-leftover": Kind(
        INFO,
        "units are left behind the end of the queue: they lead behind the end of the log",
        "ends the queue before them, and writes over them",
        RECOVER,
    ),
    # queues in RocksDB
    "rocksdb-unit-missing": Kind(ERROR, "a record has no unit in the RocksDB of queues", KEEPS, QUEUES),
    "rocksdb-first-record": Kind(
        WARNING,
        "the record at physical offset 0 has no unit in RocksDB: a broker skips it when it moves queues into RocksDB",
        KEEPS,
        QUEUES,
    ),
    "rocksdb-unit-wrong": Kind(ERROR, "a unit in RocksDB has other values than its record", KEEPS, QUEUES),
    "rocksdb-unit-extra": Kind(ERROR, "a unit in RocksDB leads to no record of its queue offset", KEEPS, QUEUES),
    "rocksdb-queue-end": Kind(
        ERROR, "the end that RocksDB stores for a queue is not that of its last unit", KEEPS, QUEUES
    ),
    "rocksdb-unit-leftover": Kind(
        INFO,
        "units in RocksDB lead behind the end of the log",
        "ends the queue before them, and writes over them",
    ),
    "rocksdb-behind": Kind(
        INFO,
        "a queue's last records have no units in RocksDB yet: they were only in the memory of a broker",
        "dispatches them",
    ),
    "ext-missing": Kind(ERROR, "a unit leads to no unit in the ext files", "filters by no tags code", QUEUES),
    "ext-tags-code": Kind(ERROR, "an ext unit has another tags code than the record", STAYS, QUEUES),
    "ext-store-time": Kind(WARNING, "an ext unit has another store time than the record", STAYS, QUEUES),
    "ext-size": Kind(ERROR, "the size of an ext unit is wrong", "may lose those behind it", QUEUES),
    "ext-beyond-file": Kind(ERROR, "an ext unit would end beyond its file", STOPS_WITH_EXT, QUEUES),
    "ext-end": Kind(WARNING, "an ext file does not end with -1 behind its last unit", KEEPS, QUEUES),
    "ext-file-size": Kind(ERROR, "an ext file has another length than the others", STOPS_WITH_EXT, QUEUES),
    "ext-file-empty": Kind(INFO, "the last ext file has no length yet", f"{DELETES_EMPTY}; {ONLY_WITH_EXT}", QUEUES),
    "ext-foreign-file-empty": Kind(
        WARNING, "an empty file stands behind ext files", f"{DELETES_EMPTY}; {ONLY_WITH_EXT}", QUEUES
    ),
    "ext-foreign-file-fatal": Kind(
        ERROR, "a stray file is among the ext files, and a broker loads every file there", STOPS_WITH_EXT, QUEUES
    ),
    # index
    "index-missing": Kind(
        WARNING, "the index is missing, and the log has messages", "makes a new index, of new messages only", INDEX
    ),
    "index-begins-late": Kind(WARNING, "older records are not in the index", STAYS, INDEX),
    "index-behind": Kind(INFO, "the newest records are not in the index yet", "indexes what recovery reads", RECOVER),
    "index-to-be-deleted": Kind(
        INFO,
        "an index file is newer than the checkpoint of a crashed store",
        "deletes it, and indexes again only what recovery reads",
        RECOVER,
    ),
    "index-geometry": Kind(
        WARNING, "the numbers of slots and items are unknown, so the index was not checked", "has them configured"
    ),
    "index-file-size": Kind(
        ERROR,
        "a file is longer than slots and items need",
        "reads the first bytes only, and wrong items if it was written with other sizes",
        INDEX,
    ),
    "index-file-short": Kind(
        ERROR,
        "a file is shorter than slots and items need",
        "makes it longer with zeros; items that were cut off are lost",
        INDEX,
    ),
    "index-file-name": Kind(WARNING, "a file's name is not a time of 17 digits", "sorts it elsewhere", INDEX),
    "index-file-order": Kind(ERROR, "a file has older records than the one before it", "finds less", INDEX),
    "index-file-not-full": Kind(WARNING, "a file that others follow has room", KEEPS, INDEX),
    "index-count": Kind(ERROR, "the header has a wrong count of items", "overwrites items, or reads none", INDEX),
    "index-torn-put": Kind(INFO, "the process ended while it put items", "overwrites them"),
    "index-slot-count": Kind(WARNING, "the header has a wrong count of used slots", KEEPS, INDEX),
    "index-begin-time": Kind(
        ERROR, "the header's begin time is not that of the first item", "finds wrong times", INDEX
    ),
    "index-end-time": Kind(ERROR, "the header's end time is not that of the last item", "skips the file", INDEX),
    "index-begin-offset": Kind(WARNING, "the header's begin offset is not that of the first item", KEEPS, INDEX),
    "index-end-offset": Kind(
        ERROR, "the header's end offset is not that of the last item", "indexes again, or less", INDEX
    ),
    "index-chain": Kind(
        ERROR, "an item does not lead to the one before it in its slot", "does not find older keys", INDEX
    ),
    "index-chain-cycle": Kind(ERROR, "an item leads to a newer item, or to itself", "may walk in a circle", INDEX),
    "index-slot": Kind(ERROR, "a slot does not lead to its newest item", "does not find its keys", INDEX),
    "index-hash": Kind(ERROR, "the hash of an item is negative", "never finds it", INDEX),
    "index-time-negative": Kind(ERROR, "the time of an item is negative", "does not find it, nor older ones", INDEX),
    "index-order": Kind(ERROR, "an item is of an older record than the one before it", STAYS_IN_INDEX, INDEX),
    "index-item-no-record": Kind(ERROR, "an item leads to no record", "skips it in a query", INDEX),
    "index-item-no-key": Kind(
        ERROR, "an item leads to a record without this key", "answers with the wrong message", INDEX
    ),
    "index-item-beyond-log": Kind(WARNING, "an item leads beyond the end of the log", STAYS_IN_INDEX, INDEX),
    "index-item-time": Kind(WARNING, "an item has another time than its record", "finds it at a wrong time", INDEX),
    "index-item-again": Kind(INFO, "a key of a record has two items", KEEPS),
    "index-key-missing": Kind(ERROR, "a key of a record is not in the index", "does not index it again", INDEX),
    # state
    "abort": Kind(INFO, "the store was not stopped cleanly", "recovers as after a crash", RECOVER),
    "write-unfinished": Kind(
        WARNING, "an atomic write was interrupted: some of its messages may be in the log", KEEPS, RECOVER
    ),
    "lock-held": Kind(INFO, "a broker, or another writer, has the store open", "does not start beside it"),
    "lock-no-file": Kind(ERROR, "lock is no file", STOPS),
    "abort-no-file": Kind(ERROR, "abort, or abort.bak, is no file", "does not start: it cannot write this file"),
    "timer-damaged": Kind(
        ERROR,
        "a file of the timers cannot be loaded",
        "does not start, from 5.0 on and with timerWheelEnable=true, which is the default",
    ),
    "compaction-queue-name": Kind(
        ERROR,
        "a directory of a compacted topic is not named after a queue",
        "does not start, from 5.1 on and with enableCompaction=true, which is the default",
    ),
    "compaction-queue-missing": Kind(
        ERROR,
        "a queue of a compacted topic has a log without units, or units without a log",
        "does not serve this queue: its consumers get nothing",
    ),
    "compaction-file-missing": Kind(
        ERROR,
        "a file of a compacted log has no file of units of the same name, or the reverse",
        "does not start, from 5.1 on and with enableCompaction=true, which is the default",
    ),
    "compaction-file-size": Kind(
        WARNING,
        "a file of a compacted topic has a length that no broker gives it",
        "does not read this file, nor those behind it in the same directory",
    ),
    "compaction-unit": Kind(
        ERROR,
        "a unit of a compacted topic does not lead to its message, or is not in order: consumers miss messages",
        KEEPS,
    ),
    # tiered storage
    "tier-unreadable": Kind(
        ERROR, "tiered storage, or a file of it, cannot be read", "does not find the messages that are only there"
    ),
    "tier-foreign-file": Kind(WARNING, "a file in tiered storage is not named as a segment", "does not read it"),
    "tier-segment-missing": Kind(
        ERROR, "a segment is missing in front of this one in tiered storage", "does not find its messages"
    ),
    "tier-segment-size": Kind(
        WARNING, "a segment has bytes behind the begin of the next one", "reads these bytes from the next segment"
    ),
    "tier-metadata": Kind(
        WARNING,
        "config/tieredStoreMetadata.json and the segments of tiered storage differ",
        "reads the segments that this file lists",
    ),
    "tier-unit": Kind(ERROR, "a unit in tiered storage does not lead to its message: consumers miss messages", KEEPS),
    "tier-gap": Kind(
        ERROR, "a queue ends in tiered storage before it begins in the log: the messages between are in neither", KEEPS
    ),
    "tier-index": Kind(ERROR, "an index file of tiered storage is damaged", "does not find the messages of its keys"),
    "tier-index-item": Kind(
        ERROR, "an item of the index of tiered storage leads to no message with its key", "skips it in a query"
    ),
    "checkpoint-missing": Kind(
        WARNING,
        "the checkpoint is missing",
        "takes zeros: after a crash it reads the last commitLogRecoverMaxNum files again "
        "(10 by default), and all files before 5.4",
        REBUILD,
    ),
    "checkpoint-size": Kind(
        INFO,
        "the checkpoint has another length than 4096 bytes",
        "fills a shorter one with zeros, and ignores what is behind",
        REBUILD,
    ),
    "checkpoint-damaged": Kind(ERROR, "the checkpoint cannot be read", STOPS),
    "checkpoint-negative": Kind(
        WARNING, "a number of the checkpoint is negative", "uses it as a time or an offset", REBUILD
    ),
    "checkpoint-ahead": Kind(
        WARNING, "the checkpoint is ahead of the log: its end was lost", "dispatches too little after a crash", REBUILD
    ),
    "checkpoint-offset": Kind(WARNING, "an offset of the checkpoint is not where a record begins", KEEPS, REBUILD),
    "checkpoint-index-ahead": Kind(
        WARNING,
        "the checkpoint is ahead of the index: its newest files were lost",
        "keeps a later file after a crash that may not be whole",
        REBUILD,
    ),
    "checkpoint-index-behind": Kind(
        WARNING, "the checkpoint does not know of a full index file", "deletes that file after a crash", REBUILD
    ),
    "config-damaged": Kind(
        ERROR,
        "a file of config cannot be read, and no .bak replaces it",
        "deletes the file, but no .bak, and starts without what it had",
    ),
    "config-bak-damaged": Kind(
        ERROR, "a file of config and its .bak cannot be read", "does not start, and deletes the file, but not the .bak"
    ),
    "config-not-read": Kind(
        WARNING, "a file of config cannot be read, and the broker does not use it", "does not read it"
    ),
    "rocksdb-damaged": Kind(
        ERROR,
        "a RocksDB cannot be read, or has a row that cannot be decoded",
        "does not start, or goes without the row",
    ),
    "sizes-damaged": Kind(ERROR, "the sizes that a rocketstore writer noted cannot be read", "does not read them"),
    "config-bak-used": Kind(
        WARNING, "a file of config cannot be read, its .bak can", "uses the .bak, and deletes the file", REPAIR
    ),
    "config-offset": Kind(
        WARNING,
        "an offset to be consumed next is beyond the end of its queue",
        "sets that of a delay level to the end; a consumer is sent to the end when it asks",
    ),
    "foreign-file": Kind(INFO, "a file or directory does not belong to a store", "leaves it alone"),
    "foreign-file-empty": Kind(WARNING, "an empty file stands behind the files that a broker loads", DELETES_EMPTY),
    "foreign-file-fatal": Kind(ERROR, "a stray file is among files that a broker loads", STOPS),
    "not-checked": Kind(INFO, "a part of the store is not checked", "reads it"),
    "unreadable": Kind(ERROR, "a file cannot be read", STOPS),
    "directory-unreadable": Kind(
        ERROR,
        "a directory cannot be listed, or a file stands in its place",
        "starts as if it were empty, and cannot write into it",
    ),
}


def find_repair_command(name: str, *, is_dledger: bool) -> str | None:
    """Return the command that repairs a kind of finding, as in ``Kind``; None without one.

    Commands do not change a store with DLedger's log. Its queues and index are built in another directory, and the
    broker itself recovers the log.
    """
    mend = KINDS[name].mend
    if not is_dledger or mend not in (RECOVER, REBUILD, QUEUES, INDEX):
        return mend
    is_of_log = mend == RECOVER and not name.startswith(("queue-", "unit-", "index-"))
    return None if is_of_log else REBUILD_BESIDE


def mend_commands(mends: Iterable[str], root: object) -> list[str]:
    """Return the commands to type in a shell that mend a store: each of ``mends`` that no other one includes."""
    left = dict.fromkeys(mends)
    if SALVAGE in left:  # it also builds new queues and a new index
        left = {SALVAGE: None}
    if PATCH in left:  # other commands would forget what queues and index know of the lost messages
        left = {PATCH: None}
    if REBUILD in left:
        left = {mend: None for mend in left if mend not in (QUEUES, INDEX)}
    parts = (mend.partition(" --") for mend in left)
    return [f"rocketstore {name} {shlex.quote(str(root))}{dashes}{options}" for name, dashes, options in parts]

"""Verify a store: compare log, queues, index, checkpoint and configuration, and report findings.

Verification changes no byte and takes no lock. ``verify`` is the entry. ``KINDS`` in ``kinds`` lists every kind of
finding, and what a broker does about it at its next start. These invariants are checked:

Commit log (``log``)
    - All files have one length; their names are multiples of it; no file is missing between others.
    - Each record begins where the record before it ends. A blank fills the end of each file but the last.
    - Magic code, sizes and lengths of a record agree. Body and record have their CRC. The record names its own offset.
    - Compressed bodies begin as their codec writes them. Delay levels and counts of inner batches are numbers.
    - Store times do not fall. The queue offsets of each queue rise without gaps and without repetition.
    - Only zeros are behind the last record.

Consume queues (``file_listing``, ``queues``)
    - All files of a kind of queue have one length; no file is missing between others.
    - Each queue is under the directory of its kind, as topics.json says.
    - Each record has exactly one unit in its queue, at its queue offset, and one in each light queue that it names.
      Prepared and rolled-back transactions and messages of deleted topics have no unit.
    - The unit has the size, the tags code and, in a batch queue, the queue offset, count and time of its record.
    - Each unit leads to a record of its queue. Units are in the order of the log. Fillers are only before them.
    - Nothing is behind the last unit.
    - Each unit with an ext address leads to an ext unit with the tags code and store time of the record.

Index (``file_listing``, ``index``)
    - All files have the length of one geometry; each file except the newest is full; files are in the order of the log.
    - The header counts the items and slots of its file, and has the times and offsets of the first and last item.
    - Each slot leads to its newest item, and each item to the item before it in its slot.
    - Each key of each record has one item with its hash, offset and time. Each item leads to a record with its key.

Small files (``verify``, ``start``, ``config``, ``checkpoint``)
    - The checkpoint is readable. Its times, offsets and index file exist in the store.
    - The files of config are readable. No consumer's next offset is beyond the end of its queue.
    - The files that a broker opens at its start can be opened. No stray file is among the files that a broker loads.

Compacted topics (``compaction``)
    - Each file of a log has a file of units of the same name.
    - Queue offsets rise. Each unit leads to a record with its CRC that has the queue, queue offset, size and time of
      the unit.

Caveats: ``quick`` checks samples of these. Records before the first log file have expired, and units and items of them
are checked only for their order. While a broker writes, the newest units and items may be missing. Parts in RocksDB
and tiered storage are reported as not checked.
"""

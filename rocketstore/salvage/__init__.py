"""Salvage copies every intact record of a damaged commit log into a new store. ``salvage`` is the entry.

1. ``find`` scans the files for intact records at any place, and chooses one copy of each by its physical offset.
2. ``queue_offsets`` counts the messages of each queue, so that queue offsets have no gaps. 3. ``copy`` writes the log,
with offsets and CRCs made right. ``new_store`` builds queues and index meanwhile, from the requests and items of step
2, which are kept. 4. The report lists every range of bytes that was lost. The old files are only read.
"""

"""The commit log: reading records by offset, scanning them, finding where the log ends, appending.

``record_reader`` reads records by offset and searches for them, ``scan`` reads many as batches, and ``log_writer``
appends. ``ending`` says where the log ends; ``end_rule`` and ``stopped_end`` add what a broker does at its start.
``commit_log`` is the facade. The log is a run of numbered files. This room knows no queues and no index.
"""

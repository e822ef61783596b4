"""The commit log: reading records by offset, scanning them, finding where the log ends, appending.

``record_reader`` reads records by offset and searches for them, ``scan`` reads many as batches, and ``log_writer``
appends. ``end_finder`` finds where the log ends, with ``end_evidence`` of other files, and gives views of ``log_end``.
``commit_log`` is the facade. The log is a run of numbered files. This room knows no queues and no index.
"""

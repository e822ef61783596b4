"""The commit log: reading records by offset, scanning them, finding where the log ends, appending.

The log is a run of numbered files. This room knows no queues and no index.
"""

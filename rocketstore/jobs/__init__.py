"""Appends of Spark jobs: the rows that tasks prepare, the intent of a commit, and repeated transactions.

Tasks write encoded records to files beside the store. The commit saves an intent and appends these records. After a
crash the intent file shows what the job was doing. This room finds unfinished writes, but does not change the log:
the writer in ``store`` appends, and ``recovery`` finishes a write or removes its records.
"""

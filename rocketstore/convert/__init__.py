"""Convert copies the messages of a sound store into new stores of other sizes, formats or topics.

``convert`` writes one store, ``split`` one for each topic. 1. ``copy_log`` writes the records to new logs, and keeps
where each record is now. 2. ``finish_store`` builds queues and index of a new log, and writes the other files. Queue
offsets do not change. The old store is only read, and must be stopped. ``salvage`` copies a damaged store.
"""

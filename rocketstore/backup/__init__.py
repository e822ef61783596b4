"""Copy a store that a broker may be writing. ``copy`` is the entry.

1. ``config_files`` reads the configuration. 2. ``held_files`` opens every file, before the first byte is copied.
3. ``copy_store`` copies the log up to the end of a record, then queues, index and the other files. 4. The copy is
recovered, so that queues and index end where the log ends, offsets of consumers are limited to the queues, and ``diff``
compares the copy with the store. ``remote_target`` writes the files that changed to another file system.
"""

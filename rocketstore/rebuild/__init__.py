"""Rebuild builds consume queues and index from the commit log alone. ``rebuild`` is the entry.

``recovery.plan_log`` finds the end of the log. Threads read the log in chunks, and ``Builder`` writes units and items
to the directory ``rocketstore-rebuild``. Then ``files.swap`` renames the old directories to backups, and the
new ones to their names. A killed rebuild is run again from the start.
"""

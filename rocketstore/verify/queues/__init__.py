"""Checks of consume queues and their ext files. The module docstring of ``rocketstore.verify`` lists the invariants.

``queue_verifier`` compares the records of a chunk of the log with the units of their queues. ``unit_verifier`` then
checks the units that no record needs. Both read units through ``queue_files``, and ext units through ``ext_files``.
"""

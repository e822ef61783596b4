"""Checks of the index. The module docstring of ``rocketstore.verify`` lists the invariants.

``index_verifier`` checks slots and chains of each file, and compares the items with the records of the log.
"""

"""Checks of the commit log. The module docstring of ``rocketstore.verify`` lists the invariants.

``log_verifier`` splits the log into chunks for threads and merges their results in the order of the log.
``chunk_checker`` checks the records of one chunk, and ``bodies`` its compressed bodies.
"""

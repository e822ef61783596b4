"""The commands ``export`` and ``import``, which copy messages between a store and a file.

Both keep their state in a file, so that ``--resume`` continues an interrupted run.
"""

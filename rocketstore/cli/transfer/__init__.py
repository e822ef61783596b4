"""The commands that write or read a file outside the store: ``export`` and ``import`` copy messages,
``report`` writes a page with charts.

``export`` and ``import`` keep their state in a file, so that ``--resume`` continues an interrupted run.
"""

"""Salvage copies every intact record of a damaged log into a new store.

``find`` looks for intact records, ``copy`` writes them, ``salvage`` is the entry and the report.
"""

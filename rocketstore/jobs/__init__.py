"""Appends of Spark jobs: the rows that tasks prepare, the intent of a commit, and transactions that are repeated.

An append that was interrupted is found by its intent file; recovery finishes it or removes its records.
"""

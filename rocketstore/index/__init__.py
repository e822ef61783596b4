"""Index files: the hash index of keys, one file (``IndexFile``) and all files of a store (``IndexService``).

An item points to a record of the commit log. This room never reads the record.
"""

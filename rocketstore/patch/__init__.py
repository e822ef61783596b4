"""Patch puts records in place of damaged ones, in the files of the store itself. ``patch`` is the entry.

1. The damage is found by ``verify``. 2. The room ``lost`` plans the new records. 3. ``apply`` saves the old bytes in
``rocketstore-cut``, and writes the new ones. Queues, index and all other records stay as they are.
"""

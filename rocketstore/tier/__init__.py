"""Tiered storage: the messages that a broker copied out of its store, in files or in a bucket; only read.

``places`` finds the files of a broker, ``segments`` lists those of one log or queue, ``tier_queue`` reads a queue,
``tier_index`` the index. ``joined_queue`` joins a queue of the store with the older messages of the tier.
Source: PosixFileSegment.
"""

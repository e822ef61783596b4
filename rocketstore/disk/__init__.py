"""Bytes and files, without any knowledge of RocketMQ.

Local and remote paths, mapped files, runs of numbered files, locks, bounded reads of small files, and new files that
belong to the owner of the directory around them. What the bytes mean is decided in the rooms above.
"""

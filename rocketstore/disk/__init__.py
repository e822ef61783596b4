"""Bytes and files, without any knowledge of RocketMQ.

Local and remote paths, mapped files, runs of numbered files, durable writes, bounded reads of small files,
threads that survive Ctrl-C, and read-ahead in order. Other rooms decide what the bytes mean.
"""

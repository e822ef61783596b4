"""Read a RocksDB, rows of bytes by key ranges, in a child process: damaged files may end or block that process alone.

This package knows no keys and values of RocketMQ.
"""

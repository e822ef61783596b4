"""Bytes and files, without any knowledge of RocketMQ.

Reading small files with a bound, and making files and directories that belong to whoever owns the directory around
them. Mapped files and file runs are still in ``rocketstore.files``.
"""

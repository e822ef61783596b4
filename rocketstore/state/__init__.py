"""The small files that a broker leaves beside its log: checkpoint, ``abort``, ``lock`` and ``config/*.json``.

This room reads and writes these files as RocketMQ's decoders do, by release. It knows no messages.
"""

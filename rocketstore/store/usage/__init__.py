"""Numbers of a store: what takes its space, what a broker would delete, messages by topic, time and tag, metrics.

``measure_disk`` measures parts, ``measure_messages`` and ``count_messages`` count messages by units or by records,
``plan_expiry`` finds the files that expire, ``read_metrics`` collects numbers. The functions change nothing.
"""

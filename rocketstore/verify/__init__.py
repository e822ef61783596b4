"""Verify a store: compare log, queues, index, checkpoint and configuration, and report findings.

Each module checks one structure. ``report`` lists every kind of finding, and what a broker does at its next start.
"""

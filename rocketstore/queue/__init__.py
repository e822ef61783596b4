"""Consume queues: plain queues, batch queues and their ext files; reading, searching and appending units.

A unit points to a record of the commit log. This room never reads the record.
"""

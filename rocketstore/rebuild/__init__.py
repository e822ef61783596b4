"""Rebuild consume queues and index from the commit log, beside the old files, then swap them in."""

"""Replaces the calls that bring files to the disk."""

import os


def patch_syncs(monkeypatch, sync):
    """Call a function of a descriptor instead of ``os.fsync`` and ``os.fdatasync``, which macOS lacks."""
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync, raising=False)

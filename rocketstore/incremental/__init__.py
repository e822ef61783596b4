"""Exports of what is new since the last export."""

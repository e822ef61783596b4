"""Lookups of keys: UDFs for physical offsets, the query for messages, and the stores that workers keep open."""

"""What takes the space of a store, and how many messages it has: by part, topic, queue, time and tag.

``disk_parts`` measures directories. ``from_queues`` and ``from_scan`` count messages, by units or by records.
The functions change nothing.
"""

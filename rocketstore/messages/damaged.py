"""Damaged messages: what stands in a store for messages that were lost, and how to tell them from others.

``patch`` writes their records. Consumers see a property; the field ``flag`` marks also those without room for one.
"""

from __future__ import annotations

from rocketstore.kernels.layout import DAMAGED_FLAG as DAMAGED_FLAG

DAMAGED, DAMAGED_SHORT = "DAMAGED", "D"  # properties with the value "1"; the second one if the first has no room
FILLER_TOPIC, FILLER_TOPIC_SHORT = "ROCKETSTORE_DAMAGED", "D"  # of records in place of bytes of which nothing is known

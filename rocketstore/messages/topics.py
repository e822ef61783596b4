"""Topics: the names that RocketMQ itself uses, and names that can be directories."""

from __future__ import annotations

import os

LIGHT_QUEUE_PREFIX = "%LMQ%"  # of light queues, which dispatch/light_queues.py explains
DEAD_LETTER_PREFIX, RETRY_PREFIX = "%DLQ%", "%RETRY%"  # before the name of a consumer group
REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"  # of topics with the bookkeeping of popped messages
BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"  # before the name of the broker
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TRACE_TOPIC, TRACE_PREFIX = "RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_"  # what clients note about their messages
SYSTEM_TOPIC_PREFIXES = (LIGHT_QUEUE_PREFIX, "RMQ_SYS_", "rmq_sys_", SCHEDULE_TOPIC)  # topics that no user creates


def is_file_name(topic: str) -> bool:
    """Return whether a topic can be the name of a directory. Another name could lead out of the store."""
    try:
        length = len(os.fsencode(topic))
    except UnicodeEncodeError:
        return False
    return 0 < length <= 255 and topic not in (".", "..") and "/" not in topic and "\0" not in topic


def split_names(text: str) -> list[str]:
    """Split a property at its commas. Empty names at the end are dropped, as String.split does."""
    return text.rstrip(",").split(",") if text.strip(",") else []

"""Verification of the files of a broker's configuration."""

from __future__ import annotations

from pathlib import Path

__all__ = ["kind_of_problem"]

READ_BY_BROKERS = {"topics.json", "topicQueueMapping.json", "consumerOffset.json", "lmqConsumerOffset.json",
                   "subscriptionGroup.json", "consumerFilter.json", "consumerOrderInfo.json", "delayOffset.json"}


def kind_of_problem(path: Path, what: str) -> str:
    """Give the kind of what is wrong with a file of config.

    A broker ends if it can decode neither a file nor its .bak, and takes a .bak that is missing or empty for no data.
    Source: ConfigManager.load, ConfigManager.loadBak, BrokerController.initializeMetadata.
    """
    if what.endswith("is used"):
        return "config-bak-used"
    bak = path.with_name(f"{path.name.removesuffix('.bak')}.bak")
    is_read = path.name.removesuffix(".bak") in READ_BY_BROKERS
    return "config-bak-damaged" if is_read and has_bytes(bak) else "config-damaged"


def has_bytes(path: Path) -> bool:
    """Whether there is a file with content, as far as it can be looked at."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False

"""Kinds of problems with the files of a broker's configuration."""

from __future__ import annotations

from rocketstore.config import StoreConfig
from rocketstore.disk.store_path import StorePath
from rocketstore.state.config_values import LMQ_OFFSETS, OFFSETS, TOPICS
from rocketstore.verify.start import is_on

TIMER_METRICS = "timermetrics"
# A broker does not start if one of these managers cannot load its file.
MUST_LOAD = {
    TOPICS,
    "topicQueueMapping.json",
    OFFSETS,
    LMQ_OFFSETS,
    "subscriptionGroup.json",
    "consumerFilter.json",
    "consumerOrderInfo.json",
    "delayOffset.json",
}


def kind_of_problem(path: StorePath, problem: str, config: StoreConfig, offsets_file: str) -> str:
    """Return the kind of a problem with a file of config.

    A broker ends if it can decode neither a file nor its .bak. A .bak that is missing or empty counts as no data.
    Parameters: config: the broker's. offsets_file: the name of the file from which the broker takes offsets.
    Source: ConfigManager.load, ConfigManager.loadBak, BrokerController.initializeMetadata, TimerMessageStore.load.
    """
    name = path.name.removesuffix(".bak")
    if (name in (OFFSETS, LMQ_OFFSETS) and name != offsets_file) or not _is_loaded(name, config):
        return "config-not-read"
    if problem.endswith("is used"):
        return "config-bak-used"
    if not has_content(path.with_name(f"{name}.bak")):
        return "config-damaged"
    if name == TIMER_METRICS:
        return "timer-damaged"
    return "config-bak-damaged" if name in MUST_LOAD else "config-damaged"


def _is_loaded(name: str, config: StoreConfig) -> bool:
    return name != TIMER_METRICS or is_on(config, "timerWheelEnable")


def has_content(path: StorePath) -> bool:
    """Return whether a path leads to a directory, or to a file that is not empty, as far as can be seen."""
    try:
        return path.is_dir() or path.stat().st_size > 0
    except OSError:
        return False

"""Settings of a broker that change the bytes of units and items, and that no file of a store states.

Sound units show some of these settings. The others are assumptions: they are reported, and never saved as facts.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from rocketstore.broker_file import BrokerFile
from rocketstore.config import AnyConfig, StoreConfig
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.light_queues import is_multi_dispatched, with_light_queues
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.errors import StoreError
from rocketstore.index.index_directory import index_paths
from rocketstore.java_text import parse_int
from rocketstore.kernels.dispatch import MULTI_DISPATCH
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.logger import logger
from rocketstore.messages.message import Message
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, SCHEDULE_TOPIC, split_names
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_directories import queue_directories, queue_ids_in, topics_in
from rocketstore.queue.queue_source import offset_range
from rocketstore.queue.units import CqUnit
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.open_log import open_log
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.sizes import is_stated, read_saved
from rocketstore.text_values import UNITS, format_count

SAMPLED_UNITS = 16  # at each end of a queue
SAMPLED_QUEUES = 64
MAX_LEVELS = 64
MAX_SECONDS = 999_999_999  # of a delay level: nine digits
LEVELS, MULTI, LMQ = "message_delay_level", "enable_multi_dispatch", "enable_lmq"
EXT, INDEX = "enable_consume_queue_ext", "message_index_enable"
LEARNED = (LEVELS, MULTI, LMQ, EXT, INDEX)
ADVICE = "give the broker's properties file (--broker-conf FILE, StoreConfig.from_broker_conf)"
BITMAPS = (
    "enableCalcFilterBitMap was on: ext units have bitmaps of filters. The ext units that are built have none, so that "
    "a broker applies these filters when it reads the messages"
)
READ_ERRORS = (OSError, StoreError, ValueError)


KnownConfig = TypeVar("KnownConfig", bound=StoreConfig, covariant=True)


@dataclass(frozen=True)
class BrokerSettings(Generic[KnownConfig]):
    """The settings with which queues and index of a store are built.

    Attributes
    ----------
    config : stated settings, learned settings, and RocketMQ's defaults. Do not save it: only stated settings may be
        saved.
    unstated : names of the settings that nobody stated.
    delays : the seconds of each delay level that sound units show, by level.
    has_index : whether the store has index files.
    conflicts : in words: units that were written with other settings than ``config`` has.
    """

    config: KnownConfig
    unstated: frozenset[str]
    delays: Mapping[int, int] = field(default_factory=dict)
    has_index: bool = True
    conflicts: tuple[str, ...] = ()


class Assumptions:
    """Collects the settings that are assumed for records whose units and items are built."""

    def __init__(self, settings: BrokerSettings[StoreConfig]) -> None:
        self.settings = settings
        self.levels: set[int] = set()
        self.naming_messages = 0  # messages that name light queues, which are not built
        self.has_items = False  # whether a record has items
        self._assumes_levels = LEVELS in settings.unstated
        self._assumes_no_light_queues = MULTI in settings.unstated and not settings.config.enable_multi_dispatch

    def add(self, requests: np.ndarray, queues: Sequence[QueueId], items: np.ndarray | Sequence[object] = ()) -> None:
        """Add the requests, REQUEST[n], and items of records that are dispatched. Parameters: queues: by number.

        Call ``add_queues`` once for all requests together.
        """
        self.has_items = self.has_items or len(items) > 0
        numbers = requests["queue"][requests["flags"] & MULTI_DISPATCH != 0] if self._assumes_no_light_queues else ()
        for number, count in Counter(numbers).items():
            self.add_named(queues[number][0], count)

    def add_named(self, topic: str, count: int) -> None:
        """Add messages of a topic that name light queues."""
        multi = replace(self.settings.config, enable_multi_dispatch=True)
        if self._assumes_no_light_queues and is_multi_dispatched(topic, multi, ()):
            self.naming_messages += count

    def add_queues(self, queues: Iterable[QueueId]) -> None:
        """Add queues that get units. The queue of a delay level has the level's number minus one."""
        if self._assumes_levels:
            levels = {queue_id + 1 for topic, queue_id in queues if topic == SCHEDULE_TOPIC}
            self.levels |= levels - self.settings.delays.keys()

    def add_log(self, log: CommitLog, begin: int, end: int) -> None:
        """Add the records of a part of the log, if an unstated setting affects them. Parameters: physical offsets."""
        is_affected = self._assumes_levels or self._assumes_no_light_queues or INDEX in self.settings.unstated
        if begin < end and is_affected:
            chunks = RequestChunks(log, self.settings.config, begin, end)
            for chunk in chunks:
                self.add(chunk.requests, chunks.queues, chunk.items)
            self.add_queues(chunks.queues)

    def forget_items(self) -> None:
        """Ignore the items of the records that were added: only units are built for these records."""
        self.has_items = False

    def texts(self) -> Iterator[str]:
        """Yield each assumption in words."""
        settings = self.settings
        if self.levels:
            levels = settings.config.message_delay_level.split()
            assumed = [(level, levels[min(level, len(levels)) - 1]) for level in sorted(self.levels) if level > 0]
            names = ", ".join(f"{level} ({delay})" for level, delay in assumed)
            yield (
                f"messageDelayLevel is assumed: no sound unit shows the delay of level {names}, so that the units of "
                f"these levels get the delivery times of RocketMQ's default levels: {ADVICE}"
            )
        if self.naming_messages:
            messages = format_count(self.naming_messages, "message names", "messages name")
            yield (
                f"enableMultiDispatch=false is assumed: {messages} light queues, and the store has no unit of a light "
                f"queue, so that none is built: {ADVICE}"
            )

    def index_notes(self) -> Iterator[str]:
        """Yield the assumption that the broker had its index enabled, if records get items because of it."""
        if self.has_items and INDEX in self.settings.unstated:
            lacking = "records that lack items get them" if self.settings.has_index else "an index is created"
            yield f"messageIndexEnable=true is assumed, so that {lacking}: {ADVICE}"


def warn_of(texts: Iterable[str], root: StorePath, *, stacklevel: int = 3) -> tuple[str, ...]:
    """Log each text and issue it as a UserWarning, which Python writes to standard error. Return the texts.

    Lost bitmaps are only logged: consumers get the same messages without them.
    """
    found = tuple(texts)
    for text in found:
        logger.warning("%s: %s", root, text)
        if text != BITMAPS:
            warnings.warn(f"{root}: {text}", stacklevel=stacklevel)
    return found


def find_settings(places: AnyPlaces, config: AnyConfig, *, more: Sequence[AnyPlaces] = ()) -> BrokerSettings[AnyConfig]:
    """Learn the settings that nobody stated from the sound units of a store. Nothing is changed.

    Parameters: config: stated settings, and RocketMQ's defaults for the others. more: other directories that may have
    the store's queues.
    """
    all_places = (places, *more)
    saved = read_saved(places.saved_settings)
    unstated = find_unstated(config, saved)
    if config.message_delay_level == StoreConfig.message_delay_level and not isinstance(config.other, BrokerFile):
        config = replace(config, message_delay_level=saved.get(LEVELS, config.message_delay_level))
    topics = {topic for each in all_places for topic in topics_in(each.queues(ConsumeQueue))}
    delays: dict[int, int] = {}
    conflicts: list[str] = []
    with contextlib.suppress(*READ_ERRORS), open_log(places, config, may_be_missing=True) as log:
        if {MULTI, LMQ} <= unstated:
            config = _with_light_queues(config, all_places, topics, log)
        if SCHEDULE_TOPIC in topics:
            shown = _find_delays(all_places, log)
            delays = {level: _newest(seconds) for level, seconds in shown.items()}
            if LEVELS in unstated:
                config = replace(config, message_delay_level=_levels_text(config.message_delay_level, delays))
            conflicts += _find_conflicts(config, shown)
    if EXT in unstated and any(map(_has_ext_units, all_places)):
        config = replace(config, enable_consume_queue_ext=True)
    if config.enable_consume_queue_ext and any(map(_has_bitmaps, all_places)):
        conflicts.append(BITMAPS)
    has_index = places.index.is_dir() and bool(index_paths(places.index))
    return BrokerSettings(config, unstated, delays, has_index, tuple(conflicts))


def find_unstated(config: StoreConfig, saved: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the settings that nobody stated. Parameters: saved: those of ``config/rocketstore.json``."""
    return frozenset(name for name in LEARNED if not is_stated(config, name, saved))


# ---- delay levels ------------------------------------------------------------------------------------------


def _find_delays(places: Iterable[AnyPlaces], log: CommitLog) -> dict[int, list[int]]:
    """Return the delays that sound units of delayed messages show, by level: seconds, the newest unit first.

    Units at both ends of each queue are read: a broker's levels may have been changed.
    """
    found: dict[int, list[int]] = {}
    for place in places:
        for queue_id in queue_ids_in(place.topic(ConsumeQueue, SCHEDULE_TOPIC)):
            with contextlib.suppress(*READ_ERRORS):
                for level, seconds in _delays_of(place, queue_id, log):
                    found.setdefault(level, []).append(seconds)
    return found


def _delays_of(place: AnyPlaces, queue_id: int, log: CommitLog) -> Iterator[tuple[int, int]]:
    """Yield level and delay, seconds, of the sound units at both ends of a queue, the newest first."""
    with ConsumeQueue.open(place.queue(ConsumeQueue, SCHEDULE_TOPIC, queue_id), commit_log=log) as queue:
        begin, end = offset_range(queue)
        newest = max(begin, end - SAMPLED_UNITS)
        for number in [*range(end - 1, newest - 1, -1), *range(min(newest, begin + SAMPLED_UNITS) - 1, begin - 1, -1)]:
            unit = queue[number]
            message = log.find_message(unit.phy_offset)
            if message is None or (message.topic, message.queue_id) != (SCHEDULE_TOPIC, queue_id):
                continue
            level, delay = _level_of(message), _tags_code_of(place, queue, unit) - message.store_timestamp
            is_delay = delay >= 0 and delay % 1000 == 0 and delay // 1000 <= MAX_SECONDS
            if unit.size == message.size and level is not None and is_delay:
                yield level, delay // 1000


def _tags_code_of(place: AnyPlaces, queue: ConsumeQueue, unit: CqUnit) -> int:
    """Return the tags code of a unit, from its ext unit if it leads to one; 0 if the ext unit is missing."""
    if not ConsumeQueueExt.is_ext_address(unit.tags_code):
        return unit.tags_code
    with ConsumeQueueExt.open(place.queue(ConsumeQueueExt, SCHEDULE_TOPIC, queue.directory.name)) as ext:
        found = ext.read(unit.tags_code)
    return 0 if found is None else found.tags_code


def _level_of(message: Message) -> int | None:
    """Return the delay level of a message, from 1; None without one."""
    level = parse_int(message.properties.get("DELAY", ""))
    return level if level is not None and 1 <= level <= MAX_LEVELS else None


def _newest(seconds: list[int]) -> int:
    """Return the newest delay that at least two units show; without one, the newest. One unit may be damaged."""
    counts = Counter(seconds)
    return next((delay for delay in seconds if counts[delay] > 1), seconds[0])


def _levels_text(levels: str, delays: Mapping[int, int]) -> str:
    """Return delay levels as messageDelayLevel has them, with the delays that units show."""
    texts = levels.split()
    texts += texts[-1:] * (max(delays, default=0) - len(texts))
    for level, seconds in delays.items():
        if _seconds_of(texts[level - 1]) != seconds:
            texts[level - 1] = f"{seconds}s"
    return " ".join(texts)


def _seconds_of(text: str) -> int:
    """Return the seconds of a delay such as "10m"."""
    return int(text[:-1]) * UNITS[text[-1]] // 1000


def _find_conflicts(config: StoreConfig, shown: Mapping[int, list[int]]) -> Iterator[str]:
    """Yield a text for each level whose units have other delays than ``config``."""
    texts = config.message_delay_level.split()
    for level, found in sorted(shown.items()):
        text = texts[min(level, len(texts)) - 1]
        others = sorted({seconds for seconds in found if seconds != _seconds_of(text)})
        if others:
            delays = ", ".join(f"{seconds}s" for seconds in others)
            yield (
                f"messageDelayLevel was changed: units of level {level} have a delay of {delays}. Built units of this "
                f"level have {text}, so that delivery times change"
            )


# ---- light queues ------------------------------------------------------------------------------------------


def _with_light_queues(config: AnyConfig, places: Sequence[AnyPlaces], topics: set[str], log: CommitLog) -> AnyConfig:
    """Return a configuration that builds the queues that messages name, if the store has units of these queues."""
    config = with_light_queues(config, topics)
    if config.enable_multi_dispatch:
        light = [place.topic(ConsumeQueue, name) for place in places for name in topics if _is_light(name)]
        ids = {queue_id for directory in light for queue_id in queue_ids_in(directory)}
        return config if 0 in ids or not ids else replace(config, enable_lmq=False)
    known = open_tables(places[0], config).read_topics().keys()
    others = sorted(topics - known) if known else []
    directories = [place.topic(ConsumeQueue, name) for place in places for name in others[:SAMPLED_QUEUES]]
    if any(_has_units_of_other_topics(directory, log) for directory in directories):
        return replace(config, enable_multi_dispatch=True)
    return config


def _is_light(topic: str) -> bool:
    return topic.startswith(LIGHT_QUEUE_PREFIX)


def _has_units_of_other_topics(directory: StorePath, log: CommitLog) -> bool:
    """Return whether the last unit of a queue leads to a message of another topic that names the queue."""
    for queue_id in queue_ids_in(directory):
        with contextlib.suppress(*READ_ERRORS), ConsumeQueue.open(directory / str(queue_id), commit_log=log) as queue:
            if len(queue) and (message := log.find_message(queue[-1].phy_offset)) is not None:
                names = split_names(message.properties.get("INNER_MULTI_DISPATCH") or "")
                return message.topic != directory.name and directory.name in names
    return False


# ---- ext units ---------------------------------------------------------------------------------------------


def _has_ext_units(place: AnyPlaces) -> bool:
    """Return whether the last unit of a queue with ext files leads to an ext unit."""
    for directory in islice(queue_directories(place.queues(ConsumeQueueExt)), SAMPLED_QUEUES):
        with contextlib.suppress(*READ_ERRORS), _queue_beside(place, directory) as queue:
            if len(queue):
                return ConsumeQueueExt.is_ext_address(queue[-1].tags_code)
    return False


def _has_bitmaps(place: AnyPlaces) -> bool:
    """Return whether the last ext unit of a queue has a bitmap of filters."""
    for directory in islice(queue_directories(place.queues(ConsumeQueueExt)), SAMPLED_QUEUES):
        with (
            contextlib.suppress(*READ_ERRORS),
            _queue_beside(place, directory) as queue,
            ConsumeQueueExt.open(directory) as ext,
        ):
            address = queue[-1].tags_code if len(queue) else 0
            unit = ext.read(address) if ConsumeQueueExt.is_ext_address(address) else None
            if unit is not None and unit.bitmap:
                return True
    return False


def _queue_beside(place: AnyPlaces, directory: StorePath) -> ConsumeQueue:
    """Open the queue of a directory of ext files."""
    return ConsumeQueue.open(place.queue(ConsumeQueue, directory.parent.name, directory.name))

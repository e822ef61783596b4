"""Count the messages that a salvage loses, by the queues of the damaged store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.errors import StoreError
from rocketstore.limits import LONG_MAX
from rocketstore.log.log_end import Why
from rocketstore.lost.lost_units import read_units
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.queue.units import ConsumeQueueUnits
from rocketstore.recovery.lost import LostMessages
from rocketstore.salvage.find import RecordRun
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.places import LocalPlaces

UNKNOWN = -1  # the time of a unit that has no time


class LostUnits(NamedTuple):
    """Units of one topic that lead to lost records. All int64[n]; times: epoch ms, UNKNOWN without one."""

    topic: str
    phy_offset: np.ndarray
    messages: np.ndarray
    store_timestamp: np.ndarray


def count_lost_messages(
    places: LocalPlaces, config: StoreConfig, runs: Sequence[RecordRun], begin: int
) -> tuple[LostMessages, ...] | None:
    """Count the messages to which units of queues lead, but of which no intact record is left. Sort them by topic.

    Units that lead before the log, or behind a place at which a broker is proved to have cut it, are not counted. A
    record that has units in light queues too counts once. Plain units have no time.

    Parameters: runs: the intact records. begin: where the log begins, a physical offset.
    Returns: None if the store has no queues in files, or if they cannot be read.
    """
    if not places.root.is_dir():
        return None
    try:
        with MessageStore(places, config, leftovers=True) as store:
            queues = list(store.queues())
            if not queues:
                return None
            end = find_cut(places, config)
            found = [
                lost
                for name in queues
                for units in read_units(store.log_queue(*name))
                if len((lost := find_lost_units(name[0], units, runs, begin, end)).phy_offset)
            ]
    except (StoreError, OSError, ValueError):
        return None
    return tuple(add_up(found))


def find_cut(places: LocalPlaces, config: StoreConfig) -> int:
    """Return where a broker is proved to have cut the log; LONG_MAX if no cut is proved."""
    with MessageStore(places, config) as store:
        view = store.commit_log.look()
    return view.end if view.why == Why.CUT else LONG_MAX


def find_lost_units(topic: str, units: ConsumeQueueUnits, runs: Sequence[RecordRun], begin: int, end: int) -> LostUnits:
    """Return the units that lead between two physical offsets, but into no run."""
    begins, ends = (np.array(column, np.int64) for column in ([run.begin for run in runs], [run.end for run in runs]))
    offsets = units.phy_offsets
    at = np.searchsorted(begins, offsets, "right") - 1
    is_lost = (offsets >= begin) & (offsets < end) & ~units.is_filler & ((at < 0) | (offsets >= ends[at]))
    messages = np.ones(len(units), np.int64) if units.batch_nums is None else units.batch_nums.astype(np.int64)
    times = np.full(len(units), UNKNOWN) if units.store_timestamps is None else units.store_timestamps
    return LostUnits(topic, offsets[is_lost], messages[is_lost], times[is_lost])


def add_up(found: Sequence[LostUnits]) -> Iterator[LostMessages]:
    """Yield the lost messages of each topic. A record counts in its own topic, or else in one of its light queues."""
    own_first = sorted(found, key=lambda units: units.topic.startswith(LIGHT_QUEUE_PREFIX))
    if not own_first:
        return
    topics = np.repeat(np.array([units.topic for units in own_first], object), [len(units[1]) for units in own_first])
    _, rows = np.unique(np.concatenate([units.phy_offset for units in own_first]), return_index=True)
    messages = np.concatenate([units.messages for units in own_first])[rows]
    times = np.concatenate([units.store_timestamp for units in own_first])[rows]
    for topic in sorted(set(topics[rows].tolist())):
        is_of_topic = topics[rows] == topic
        known = times[is_of_topic & (times != UNKNOWN)].tolist()
        bounds = (min(known), max(known)) if known else (None, None)
        yield LostMessages(topic, int(messages[is_of_topic].sum()), *bounds)

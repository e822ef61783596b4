"""Find the units of queues that lead into bad ranges of the log, and what else is known of their messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np

from rocketstore.errors import StoreError, text_of
from rocketstore.index.key_lookup import IndexPart
from rocketstore.kernels.keys import hash_keys, java_hash_codes
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import INT_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.lost.bad_ranges import BadRange
from rocketstore.messages.message import Message
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_source import StoredQueue, offset_range, ranges_to_read
from rocketstore.queue.units import ConsumeQueueUnits
from rocketstore.store.message_store import MessageStore

STEP = 1 << 16  # queue offsets that are read at once
MAX_TRIED = 16  # sound messages of a topic that are read to find the text of a tags code
KEYS = re.compile(rb"(?:KEYS|UNIQ_KEY)\x01([^\x01\x02]+)")  # in the properties of a record


class LostUnit(NamedTuple):
    """A unit that leads to bad bytes.

    Attributes: queue_offset: of a batch the first one. messages: how many it stands for. store_timestamp: of its
    record, epoch ms; -1 if the unit has no time. is_batch: whether its queue is a batch queue.
    """

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    tags_code: int
    messages: int
    store_timestamp: int
    is_batch: bool

    @property
    def end(self) -> int:
        return self.phy_offset + self.size

    @property
    def is_light(self) -> bool:
        """Whether the unit is in a light queue, and its record has a unit in its own queue too."""
        return self.topic.startswith(LIGHT_QUEUE_PREFIX)


def read_units(queue: StoredQueue) -> Iterator[ConsumeQueueUnits]:
    """Yield all units of a queue, in steps."""
    first, end = offset_range(queue)
    for begin, stop in ranges_to_read(queue, first, end, STEP):
        units = queue[begin:stop]
        if begin > first and len(units) and units.queue_offsets[0] < begin:
            units = units[1:]  # a batch unit that the step before had
        yield units


def read_lost_units(store: MessageStore, ranges: Sequence[BadRange]) -> list[LostUnit]:
    """Return the units of all queues that lead into bad ranges, or to the records before them, in the order of the log.

    Units behind the end of a queue are no part of it, and are left out. Raises: StoreError, OSError.
    """
    if not ranges:
        return []
    begins = np.array([bad.search_begin for bad in ranges], np.int64)
    ends = np.array([bad.end for bad in ranges], np.int64)
    found: list[LostUnit] = []
    for name in store.queues():
        queue = store.log_queue(*name)
        for units in read_units(queue):
            at = np.searchsorted(begins, units.phy_offsets, "right") - 1
            leads = (at >= 0) & (units.phy_offsets < ends[at]) & ~units.is_filler
            if leads.any():
                found += _lost_of(store, name, queue, units.where(leads))
    return sorted(found, key=lambda unit: (unit.phy_offset, unit.is_light, unit.topic, unit.queue_id))


def _lost_of(store: MessageStore, name: QueueId, queue: StoredQueue, units: ConsumeQueueUnits) -> Iterator[LostUnit]:
    for unit in units:
        code = _resolve_tags_code(store, name, unit.tags_code)
        numbers = unit.queue_offset, unit.phy_offset, unit.size, code, unit.batch_num, unit.store_timestamp
        yield LostUnit(*name, *numbers, is_batch=queue.has_batches)


def _resolve_tags_code(store: MessageStore, name: QueueId, tags_code: int) -> int:
    """Return the tags code of a unit, from the ext unit to which it leads; 0 if that is missing."""
    if not ConsumeQueueExt.is_ext_address(tags_code):
        return tags_code
    with suppress(KeyError, StoreError, OSError):
        unit = store.consume_queue_ext(*name).read(tags_code)
        return 0 if unit is None else unit.tags_code
    return 0


# ---- tags ------------------------------------------------------------------------------------------------------


def find_tags(store: MessageStore, lost: Iterable[LostUnit]) -> dict[tuple[str, int], str]:
    """Find the tags of lost messages: those of a sound message of the same topic with the same tags code.

    Returns: the tags by topic and tags code, as far as they are known. Raises: StoreError, OSError.
    """
    wanted: dict[str, set[int]] = {}
    for unit in lost:
        if unit.tags_code and not unit.is_light:
            wanted.setdefault(unit.topic, set()).add(unit.tags_code)
    return {
        (topic, code): tags
        for topic, codes in wanted.items()
        for code, tags in _find_tags_of_topic(store, topic, codes).items()
    }


def _find_tags_of_topic(store: MessageStore, topic: str, codes: Collection[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    tried: dict[int, int] = {}
    for queue_id in store.queue_ids(topic):
        queue = store.log_queue(topic, queue_id)
        for units in read_units(queue):
            open_codes = [code for code in codes if code not in found and tried.get(code, 0) < MAX_TRIED]
            if not open_codes:
                return found
            for code in open_codes:
                for offset in units.phy_offsets[units.tags_codes == code][:MAX_TRIED].tolist():
                    tried[code] = tried.get(code, 0) + 1
                    message = store.commit_log.find_message(offset)
                    if message is not None and message.topic == topic and hash_tags(message) == code:
                        found[code] = message.tags or ""
                        break
    return {code: tags for code, tags in found.items() if tags}


def hash_tags(message: Message) -> int:
    """Return the tags code of a message's unit; 0 without tags. Source: MessageExtBrokerInner.tagsString2tagsCode."""
    return int(java_hash_codes([message.tags])[0]) if message.tags else 0


# ---- keys ------------------------------------------------------------------------------------------------------


class IndexedKeys(NamedTuple):
    """The keys that an index has for some records.

    Attributes: hashes: of the keys, by physical offsets. problems: why parts of the index cannot be read.
    """

    hashes: dict[int, tuple[int, ...]]
    problems: tuple[str, ...]


def read_key_hashes(store: MessageStore, ranges: Sequence[BadRange]) -> IndexedKeys:
    """Read which keys the index has for records in bad ranges, and before them. No keys without an index."""
    hashes: dict[int, list[int]] = {}
    problems: list[str] = []
    with _collect_problem(problems):
        index = store.key_index
        for part in () if index is None else index.files:
            with _collect_problem(problems):
                for offset, key_hash in _entries_in(part, ranges):
                    hashes.setdefault(offset, []).append(key_hash)
        problems += [_describe(error) for error in ({} if index is None else index.damaged).values()]
    found = {offset: tuple(dict.fromkeys(numbers)) for offset, numbers in hashes.items()}
    return IndexedKeys(found, tuple(problems))


@contextmanager
def _collect_problem(problems: list[str]) -> Iterator[None]:
    """Add an error of an index that cannot be read to ``problems``, and continue after the block."""
    try:
        yield
    except (StoreError, OSError, ValueError) as error:
        problems.append(_describe(error))


def _describe(error: Exception) -> str:
    return f"keys of lost messages may be unknown, since a part of the index cannot be read: {text_of(error)}"


def _entries_in(part: IndexPart, ranges: Sequence[BadRange]) -> Iterator[tuple[int, int]]:
    """Yield physical offset and hash of the items of a part of an index that lead into bad ranges, or before them."""
    span = part.span
    for bad in ranges:
        if span is not None and span.last >= bad.search_begin and span.first < bad.end:
            offsets, found = part.entries_between(bad.search_begin, bad.end - 1)
            yield from zip(offsets.tolist(), found.tolist(), strict=True)


def find_keys(log: CommitLog, unit: LostUnit, key_hashes: Collection[int]) -> tuple[str, ...]:
    """Return the keys that are left in the damaged bytes of a message, and that the index has for this message."""
    if not key_hashes:
        return ()
    data = log.file_run.pread(unit.phy_offset, min(unit.size, INT_MAX))
    texts = [text for found in KEYS.findall(data) for text in found.decode("utf-8", "replace").split(" ") if text]
    names = list(dict.fromkeys(texts))
    if not names:
        return ()
    known = hash_keys(names, topic=unit.topic).tolist()
    return tuple(name for name, key_hash in zip(names, known, strict=True) if key_hash in key_hashes)

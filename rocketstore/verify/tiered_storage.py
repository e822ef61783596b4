"""Check tiered storage: segments, units, messages and index against each other, the metadata and the store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.state.tier_metadata import TierMetadata, TierSegment, read_tier_metadata
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.open_tier import find_index_slots, open_tier
from rocketstore.survey.places import StorePlaces
from rocketstore.tier.open_index import OpenTierIndex, list_open_files
from rocketstore.tier.places import INDEX_QUEUE, TierPlaces
from rocketstore.tier.segments import find_segments, open_segments, open_tier_log
from rocketstore.tier.tier_index import TierIndex
from rocketstore.tier.tier_queue import TierQueue
from rocketstore.verify.findings import Findings
from rocketstore.verify.unit_records import choose_samples, find_bad_units

ITEMS = 1 << 16  # items of the index that are compared at once
UNREADABLE = "tier-unreadable"
KEY_COLUMNS = ("topic", "queue_id", "size", "keys", "uniq_key")


def check_tier(places: StorePlaces[Path], config: StoreConfig, findings: Findings, *, quick: bool) -> None:
    """Report faults of the tiered storage of a store. Only the broker's configuration names its directory.

    Parameters: quick: check the segments, and of each queue only some units.
    """
    if not (config.tiered_store_file_path or "").strip():
        detail = "tiered storage: give its directory (--tier PATH, or tieredStoreFilePath in --broker-conf FILE)"
        findings.add("not-checked", places.tiered_index, 0, detail)
        return
    with findings.reporting_errors(places.tiered_metadata, UNREADABLE):
        tier = open_tier(places, config)
        metadata = _read_metadata(places, findings)
        for queue in tier.queues():
            name = f"{tier.root.name}/{queue.topic}/{queue.queue_id}"
            _check_segments(tier.log(queue), metadata.logs.get(name), places, findings)
            _check_segments(tier.units(queue), metadata.units.get(name), places, findings)
            with findings.reporting_errors(tier.units(queue), UNREADABLE):
                _check_queue(tier, queue, config, findings, quick=quick)
        name = f"{tier.root.name}/{INDEX_QUEUE}"
        _check_segments(tier.index, metadata.of_index.get(name), places, findings)
        if not quick:
            _check_index(tier, metadata.topics, config, findings)
            _check_open_files(places, config, findings)
        _check_gaps_to_log(tier, places, config, findings)


def _read_metadata(places: StorePlaces[Path], findings: Findings) -> TierMetadata:
    """Read the metadata. If it cannot be read, no segments are compared with it."""
    with findings.reporting_errors(places.tiered_metadata, "tier-metadata"):
        return read_tier_metadata(places.tiered_metadata)
    return TierMetadata()


# ---- segments ----------------------------------------------------------------------------------------------


def _check_segments(
    directory: StorePath, listed: Mapping[int, TierSegment] | None, places: StorePlaces[Path], findings: Findings
) -> None:
    """Report files that are no segments, gaps and overlaps, and differences to the metadata.

    Parameters: listed: the segments by their begin; None if the metadata does not have the directory.
    """
    with findings.reporting_errors(directory, UNREADABLE):
        segments, others = find_segments(directory)
        for path in others:
            findings.add(
                "tier-foreign-file",
                path,
                0,
                "its name is not that of a segment: 8 hexadecimal digits of a hash, and 20 digits",
            )
        for before, segment in pairwise(segments):
            if segment.file_from_offset > before.end_offset:
                detail = f"{before.path.name} ends at {before.end_offset}"
                findings.add("tier-segment-missing", segment.path, 0, detail)
            elif segment.file_from_offset < before.end_offset:
                findings.add("tier-segment-size", before.path, 0, f"ends behind the begin of {segment.path.name}")
        for path, detail in _compare_with_metadata(directory, segments, listed):
            findings.add("tier-metadata", path, 0, f"{places.tiered_metadata.name}: {detail}")


def _compare_with_metadata(
    directory: StorePath, segments: list[RunFile], listed: Mapping[int, TierSegment] | None
) -> Iterator[tuple[StorePath, str]]:
    """Yield the paths of segments that differ from the metadata, and the difference."""
    if listed is None:
        return
    sizes = {segment.file_from_offset: segment.size for segment in segments}
    for segment in segments:
        if segment.file_from_offset not in listed:
            yield segment.path, "does not list this segment"
    for begin, entry in listed.items():
        size = sizes.get(begin, 0)
        if not entry.is_deleted and size < entry.size:
            yield directory, f"lists {entry.size} bytes from {begin} on, where {size} are"


# ---- queues ------------------------------------------------------------------------------------------------


def _check_queue(tier: TierPlaces, queue: QueueId, config: StoreConfig, findings: Findings, *, quick: bool) -> None:
    """Report units that lead to no message of theirs."""
    log = open_tier_log(tier.log(queue), config)
    with TierQueue(open_segments(tier.units(queue)), log) as units:
        first, end = units.min_queue_offset, units.max_queue_offset
        samples = choose_samples(first, end) if first < end else []
        parts = (units[at : at + 1] for at in samples) if quick else units.parts()
        for found in parts:
            for row, detail in sorted(find_bad_units(log, found, queue).items()):
                offset, position = int(found.queue_offsets[row]), int(found.phy_offsets[row])
                if 0 <= position < log.min_phy_offset and offset == first:
                    continue  # records expire before their units
                findings.add("tier-unit", *units.place_of(offset), detail)


def _check_gaps_to_log(tier: TierPlaces, places: StorePlaces[Path], config: StoreConfig, findings: Findings) -> None:
    """Report queues with messages that are neither in the tier nor in the log."""
    with MessageStore(places, config) as store:
        for queue in tier.queues():
            with contextlib.suppress(KeyError), findings.reporting_errors(tier.units(queue), UNREADABLE):
                local = store.log_queue(*queue)
                least = max(local.min_queue_offset, 0)
                with TierQueue(open_segments(tier.units(queue)), open_tier_log(tier.log(queue), config)) as units:
                    if len(local) and units.max_queue_offset < least:
                        detail = f"it ends at queue offset {units.max_queue_offset}, and the log begins at {least}"
                        findings.add("tier-gap", tier.units(queue), 0, detail)


# ---- index -------------------------------------------------------------------------------------------------


def _check_index(tier: TierPlaces, topics: Mapping[int, str], config: StoreConfig, findings: Findings) -> None:
    """Report damaged segments of the index, and items that lead to no message with their key.

    Parameters: topics: by their number in the metadata. Items of other topics are not compared.
    """
    index = TierIndex(open_segments(tier.index))
    with contextlib.closing(index):
        for file in index.segments:
            with findings.reporting_errors(file.path, "tier-index"):
                for place, items in index.read_items(file, ITEMS):
                    for row, detail in _find_bad_items(tier, topics, config, items):
                        findings.add("tier-index-item", file.path, place + row * items.itemsize, detail)


def _find_bad_items(
    tier: TierPlaces, topics: Mapping[int, str], config: StoreConfig, items: np.ndarray
) -> Iterator[tuple[int, str]]:
    """Yield the rows of the items that lead to no message with their key, and what is wrong."""
    pairs = np.stack([items["topic_id"].astype(np.int64), items["queue_id"].astype(np.int64)], axis=1)
    queues, row_queue = np.unique(pairs, axis=0, return_inverse=True)
    row_queue = row_queue.reshape(-1)  # of one dimension in every release of NumPy
    for number, (topic_id, queue_id) in enumerate(queues.tolist()):
        topic, rows = topics.get(topic_id), np.flatnonzero(row_queue == number)
        if topic is not None:
            with open_tier_log(tier.log(QueueId(topic, queue_id)), config) as log:
                yield from _compare_items(log, QueueId(topic, queue_id), items[rows], rows)


def _compare_items(log: CommitLog, queue: QueueId, items: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, str]]:
    positions = items["position"].astype(np.int64)
    messages, statuses = log.find_messages(positions, columns=KEY_COLUMNS)
    found = dict(zip(np.flatnonzero(statuses == 0).tolist(), messages, strict=True))
    for at, row in enumerate(rows.tolist()):
        message = found.get(at)
        if message is None:
            if not 0 <= positions[at] < log.min_phy_offset:  # it has expired
                yield row, f"at {positions[at]} of {queue.topic}/{queue.queue_id}: there is no record"
            continue
        keys = [*message.keys, *([] if message.uniq_key is None else [message.uniq_key])]
        hashes = hash_keys(keys, topic=queue.topic).tolist() if keys else []
        is_its = (message.topic, message.queue_id, message.size) == (*queue, int(items["size"][at]))
        if not is_its or int(items["hash"][at]) not in hashes:
            yield row, f"at {positions[at]} of {queue.topic}/{queue.queue_id}: the message has another key or size"


def _check_open_files(places: StorePlaces[Path], config: StoreConfig, findings: Findings) -> None:
    """Report index files in the store that cannot be read."""
    for path in list_open_files(places.tiered_index):
        with findings.reporting_errors(path, "tier-index"), OpenTierIndex(path, find_index_slots(config)):
            pass

"""The part of the demo that runs without Spark: it writes a store, chooses keys and looks them up."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rocketstore
from rocketstore import CommitLog, IndexService, Message, MessageBatch, PhyOffsets, StoreConfig
from rocketstore.messages.system_flags import TRANSACTION_ROLLBACK

MAX_NUM = 32
TOPICS, TAGS = ("Orders", "Payments", "Shipments"), ("created", "paid", "packed", "sent", "delivered")
Counts = dict[tuple[str, str | None], int]  # messages by topic and tag


class Lookups(NamedTuple):
    """Keys to look up.

    Attributes: topics: of the keys; None if the keys are the complete texts that an index hashes. phy_offsets: of the
    messages that have the keys, -1 for missing keys.
    """

    topics: list[str] | None
    keys: list[str]
    phy_offsets: np.ndarray


def write_store(path: Path, count: int, config: StoreConfig) -> None:
    """Write messages. The key of each message is the MD5 of its number, in hexadecimal."""

    def messages() -> Iterator[Message]:
        for number in range(count):
            key = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest()
            topic, tag = TOPICS[number % len(TOPICS)], TAGS[number * 7 // 3 % len(TAGS)]
            body = b'{"order": "%d", "note": "%s"}' % (number, key.encode() * 5)
            yield Message(topic, body, keys=[key], tags=tag)

    with rocketstore.open(path, "a", config=config) as store:
        store.put_messages(messages())


def choose_keys(log: CommitLog, most: int, absent: int) -> Lookups:
    """Return the first keys of ``most`` messages, evenly spread over the log, and ``absent`` missing keys."""
    columns = ("topic", "keys", "phy_offset", "sys_flag")
    count = sum(len(with_keys(batch)) for batch in log.scan(columns=columns, on_corrupt="skip"))
    wanted = np.arange(min(most, count)) * count // max(1, min(most, count))  # among the messages with keys
    topics, keys, phy_offsets, seen = [], [], [], 0
    for batch in log.scan(columns=columns, on_corrupt="skip"):
        rows = with_keys(batch)
        first, last = np.searchsorted(wanted, (seen, seen + len(rows)))
        for message in batch.take(rows[wanted[first:last] - seen]):
            topics.append(message.topic)
            keys.append(message.keys[0])
            phy_offsets.append(message.phy_offset)
        seen += len(rows)
    topics += [topics[0] if topics else "Topic"] * absent
    keys += [f"absent-{number}" for number in range(absent)]
    return Lookups(topics, keys, np.array([*phy_offsets, *[-1] * absent], np.int64))


def choose_items(index: IndexService, most: int, absent: int) -> Lookups:
    """Return keys with the hashes of ``most`` items, evenly spread over the index, and ``absent`` missing keys."""
    starts = np.cumsum([0, *map(len, index.files)])
    count = int(starts[-1])
    wanted = np.arange(min(most, count)) * count // max(1, min(most, count))
    places = np.searchsorted(wanted, starts)
    taken = [
        file.items(1, 1 + len(file))[wanted[first:last] - start]
        for file, start, (first, last) in zip(index.files, starts.tolist(), pairwise(places.tolist()), strict=False)
    ]
    keys = [key for part in taken for key in keys_of(part["key_hash"])] + [f"absent-{n}" for n in range(absent)]
    phy_offsets = [part["phy_offset"].astype(np.int64) for part in taken]
    return Lookups(None, keys, np.concatenate([*phy_offsets, np.full(absent, -1, np.int64)]))


def keys_of(hashes: np.ndarray) -> list[str]:
    """Return a key for each hash. A key has seven characters from "A" on, which are digits to base 31.

    Source: String.hashCode, a polynomial of 31.
    """
    powers = 31 ** np.arange(6, -1, -1)
    digits = (hashes.astype(np.int64) - ord("A") * powers.sum())[:, None] % (1 << 32) // powers % 31
    return ["".join(map(chr, row)) for row in (digits + ord("A")).tolist()]


def with_keys(batch: MessageBatch) -> np.ndarray:
    is_rolled_back = batch.sys_flag & TRANSACTION_ROLLBACK == TRANSACTION_ROLLBACK  # these messages are not indexed
    return np.flatnonzero((np.diff(batch.keys.offsets) > 0) & ~is_rolled_back)


def link_log(log: CommitLog, root: Path) -> None:
    """Add links to the files of a log to a directory with queues and index, so that it becomes a store."""
    (root / "commitlog").mkdir()
    for file in log.file_run.files:
        (root / "commitlog" / file.path.name).symlink_to(file.path.absolute())


def find_candidates(root: Path, config: StoreConfig, asked: Lookups) -> PhyOffsets:
    slots, items = config.max_hash_slot_num, config.max_index_num
    with IndexService.open(root / "index", hash_slot_num=slots, index_num=items) as index:
        return index.query_offsets(asked.topics, asked.keys, MAX_NUM)


def find_verified(root: Path, config: StoreConfig, asked: Lookups) -> PhyOffsets:
    with rocketstore.open(root, config=replace(config, store_path_commit_log=None)) as store:
        found = store.query_messages(asked.topics, asked.keys, MAX_NUM)
        return PhyOffsets(found.phy_offsets, found.offsets)

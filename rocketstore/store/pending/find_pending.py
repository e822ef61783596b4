"""All messages that wait in a store, chosen by topic, group and due time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rocketstore.store.pending.delayed import find_delayed
from rocketstore.store.pending.half import find_half, find_half_in_rocksdb
from rocketstore.store.pending.pending_message import PendingMessage, PendingMessages, due_order
from rocketstore.store.pending.pops import find_pops, find_pops_in_rocksdb
from rocketstore.store.pending.timers import find_timers, read_timer_queue
from rocketstore.store.readable_store import ReadableStore

CHECKPOINTS = "delayOffset.json", "consumerOffset.json"


class PendingFilter(NamedTuple):
    """Which messages are wanted. None wants all.

    Attributes: topics, groups, kinds. since, until: due times, epoch ms, from the first to before the second. Messages
    without a due time are left out if one of them is given.
    """

    topics: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    since: int | None = None
    until: int | None = None

    def wants(self, row: PendingMessage) -> bool:
        values = (self.topics, row.topic), (self.groups, row.group), (self.kinds, row.kind)
        if any(wanted is not None and value not in wanted for wanted, value in values):
            return False
        if self.since is None and self.until is None:
            return True
        due = row.due_timestamp
        return (
            due is not None and (self.since is None or due >= self.since) and (self.until is None or due < self.until)
        )


def find_pending(store: ReadableStore, wanted: PendingFilter, limit: int | None) -> PendingMessages:
    """Find the messages that wait. ``MessageStore.pending`` has the documentation."""
    timers = read_timer_queue(store)
    parts = [
        find_delayed(store),
        find_timers(store, timers),
        find_half(store),
        find_half_in_rocksdb(store),
        find_pops(store, timers),
        find_pops_in_rocksdb(store),
    ]
    rows = sorted((row for part in parts for row in part.rows if wanted.wants(row)), key=due_order)
    return PendingMessages(
        rows[:limit], unique([*_checkpoint_problems(store), *(p for part in parts for p in part.problems)])
    )


def _checkpoint_problems(store: ReadableStore) -> list[str]:
    """Return the problems of the broker's checkpoints, and of queues that lack the last messages of the log."""
    config = store.broker_config
    names = {*CHECKPOINTS, config.offsets_file}
    damaged = [f"{path}: {what}" for path, what in config.problems if path.name.removesuffix(".bak") in names]
    return [*damaged, *store.describe_missing_units()]


def unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))

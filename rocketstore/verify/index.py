"""Verification of the index: headers, slots and chains; each item's record, and each key's item."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.index.index_file import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE, IndexHeader, file_size
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.layout import INDEX_ITEM, INDEX_SLOT
from rocketstore.kernels.verify import (
    FALLING_OFFSET,
    NEGATIVE_HASH,
    NEGATIVE_TIME,
    NEWER_LINK,
    WRONG_LINK,
    check_chains,
)
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.recovery.index import HEADER
from rocketstore.verify.report import Findings, Place, log_place, read_bytes

__all__ = ["IndexPart", "IndexVerifier", "Items"]

NOTED = 64
FAULTS = {
    WRONG_LINK: ("index-chain", "prevIndex is not the item before it in its slot"),
    NEWER_LINK: ("index-chain-cycle", "prevIndex is no older item"),
    NEGATIVE_HASH: ("index-hash", "keyHash is negative"),
    FALLING_OFFSET: ("index-order", "phyOffset is less than that of the item before"),
    NEGATIVE_TIME: ("index-time-negative", "timeDiff is negative"),
}


class IndexPart:
    """One index file, read without a mapping but for its chains.

    ``is_live``: a broker may be putting items; ``was_killed``: it did, and may have left a file before its header.
    """

    def __init__(self, path: Path, hash_slot_num: int, index_num: int, is_live: bool, was_killed: bool) -> None:
        self.path, self.hash_slot_num, self.index_num = path, hash_slot_num, index_num
        self.header = IndexHeader(*HEADER.unpack(read_bytes(path, 0, HEADER_SIZE)))
        self.items_at = HEADER_SIZE + SLOT_SIZE * hash_slot_num
        used = nonzero_end(path, self.items_at, file_size(hash_slot_num, index_num))
        self.counted = max(self.header.index_count, 1) - 1
        self.count = min(max(used - self.items_at - 1, 0) // ITEM_SIZE, index_num - 1)
        if is_live or (self.counted == 1 and self.count == 0):  # its only item may be all zeros
            self.count = min(self.counted, index_num - 1)
        self.uncounted = self.count if was_killed and self.counted == 0 else 0
        self.count -= self.uncounted
        self.is_live = is_live
        self.end_before: int | None = None  # epoch ms of the file before
        self.order: np.ndarray | None = None  # of the items by offset, if they are not in it
        self.first, self.last = (self._phy_offset(ordinal) if self.count else -1 for ordinal in (1, self.count))

    def offset_of(self, ordinal: int) -> int:
        """Return the offset of an item in the file, bytes."""
        return self.items_at + ITEM_SIZE * ordinal

    def place(self, ordinal: int, detail: str) -> Place:
        """Return the place of a finding about an item."""
        return Place(self.path, self.offset_of(ordinal), detail)

    def items(self, first: int, last: int) -> np.ndarray:
        """Items by their ordinals, or where they are in no order, by their places in that of offsets."""
        if self.order is None or first >= last:
            data = read_bytes(self.path, self.offset_of(first), ITEM_SIZE * max(last - first, 0))
            return np.frombuffer(data, INDEX_ITEM, len(data) // ITEM_SIZE)
        return np.concatenate([self.item(ordinal) for ordinal in self.order[first - 1 : last - 1].tolist()])

    def item(self, ordinal: int) -> np.ndarray:
        return np.frombuffer(read_bytes(self.path, self.offset_of(ordinal), ITEM_SIZE), INDEX_ITEM)

    def _phy_offset(self, ordinal: int) -> int:
        return int(self.item(ordinal)["phy_offset"][0])

    def find(self, phy_offset: int) -> int:
        """The first item of at least a physical offset, the one after the last if there is none."""
        if not self.count or phy_offset <= self.first:
            return 1
        low, high = (1, self.count + 1) if phy_offset <= self.last or self.order is not None else (self.count + 1,) * 2
        while low < high:
            middle = (low + high) // 2
            items = self.items(middle, middle + 1)
            low, high = (middle + 1, high) if len(items) and items["phy_offset"][0] < phy_offset else (low, middle)
        return low

    def last_before(self, end: int) -> int:
        """Return the greatest physical offset before ``end`` in the items, -1 without one."""
        if not self.count or (self.order is None and self.last < end):
            return self.last
        following = self.find(end)
        return int(self.items(following - 1, following)["phy_offset"][0]) if following > 1 else -1

    def sort(self) -> None:
        phy_offsets = self.items(1, self.count + 1)["phy_offset"].astype(np.int64)
        self.order = (np.argsort(phy_offsets, kind="stable") + 1).astype(np.int32)
        self.first = int(phy_offsets.min())


@dataclass
class Items:
    """The differences between the index and a part of the log: wrong items, and keys that no item has."""

    wrong: list[tuple[str, list[Place], int]] = field(default_factory=list)  # kind, the first places, number of all
    n_missing: int = 0
    missing: list[int] = field(default_factory=list)  # physical offsets of the first
    n_behind: int = 0  # of those, behind all items
    n_before: int = 0  # and before all items


class IndexVerifier:
    """Compares the log with the index, in threads, and says at the end what is wrong with it.

    Attributes: is_checked: whether there is an index; indexes_tags: whether the releases that began it and went on with
    it had an item for the tags of each message.
    """

    def __init__(self, log: CommitLog, findings: Findings, parts: list[IndexPart]) -> None:
        self.log, self.findings, self.parts = log, findings, parts
        self.is_checked = bool(parts)
        for before, part in pairwise(parts):
            part.end_before = before.header.end_timestamp
        self._chains: list[Future[None]] = []
        self._bounds: np.ndarray | None = None
        self._missing = Items()
        filled = [part for part in parts if part.count]
        begins_with_tags = bool(filled) and self._has_tags(filled[0]) is True
        self.indexes_tags = begins_with_tags and self._has_tags(filled[-1], at_end=True) is not False
        self.begin, self.end = (filled[0].first, filled[-1].last) if filled else (-1, -1)

    def start(self, pool: ThreadPoolExecutor) -> list[Future[None]]:
        """Begin to look at the chains of each file."""
        self._chains = [pool.submit(self._check_chains, part) for part in self.parts]
        return self._chains

    def _has_tags(self, part: IndexPart, *, at_end: bool = False) -> bool | None:
        """Whether the first or last record with tags, and no key that looks like them, has an item for them.

        None if none of those looked at is such a record.
        """
        first = max(part.count + 1 - NOTED, 1) if at_end else 1
        items = part.items(first, min(first + NOTED, part.count + 1))
        for at in sorted(set(items["phy_offset"].tolist()), reverse=at_end):
            record = self.log.find_message(at) if at >= 0 else None
            if record is not None and record.tags and f"T#{record.tags}" not in (*record.keys, record.uniq_key):
                key_hash = hash_keys([f"T#{record.tags}"], topic=record.topic)[0]
                return bool((items["key_hash"][items["phy_offset"] == at] == key_hash).any())
        return None

    # ---- chains ----------------------------------------------------------------------------------------------

    def _check_chains(self, part: IndexPart) -> None:
        with self.findings.noted(part.path), closing(MappedFile(part.path)) as file:
            newest = np.zeros(part.hash_slot_num, np.int32)
            filled, faults = check_chains(file.buffer, part.count, newest)
            for fault, (count, ordinals) in faults.items():
                kind, detail = FAULTS[fault]
                places = [part.place(ordinal, f"item {ordinal}: {detail}") for ordinal in ordinals]
                self.findings.add_many(kind, places, count)
            if FALLING_OFFSET in faults:
                part.sort()
            slots = np.frombuffer(read_bytes(part.path, HEADER_SIZE, SLOT_SIZE * part.hash_slot_num), INDEX_SLOT)
            wrong = np.flatnonzero((slots != newest) & ~((part.is_live or part.uncounted > 0) & (slots > part.count)))
            places = []
            for slot in wrong[:NOTED].tolist():
                detail = f"slot {slot} leads to {slots[slot]}, its newest item is {newest[slot]}"
                places.append(Place(part.path, HEADER_SIZE + SLOT_SIZE * slot, detail))
            self.findings.add_many("index-slot", places, len(wrong))
            counted = part.header.hash_slot_count
            if counted not in (filled, part.count):  # until 4.7.0 each put was counted
                self.findings.add("index-slot-count", part.path, 32, f"{counted}, {filled} were filled")

    # ---- log against index, in threads -----------------------------------------------------------------------

    def compare(self, begin: int, end: int, items: np.ndarray, without_tags: Callable[[], np.ndarray]) -> Items | None:
        """Compare the items of a piece of the log with those that lead there.

        Parameters: items: with those of tags. without_tags: gives them without.
        """
        if not self.is_checked:
            return None
        found = self._find_items(begin, end)
        blocks = [part.items(first, last) for part, first, last in found]
        have = np.concatenate(blocks) if blocks else np.empty(0, INDEX_ITEM)
        result = Items()
        hashes, phy_offsets = have["key_hash"].astype(np.int64), have["phy_offset"].astype(np.int64)
        ordinals = np.concatenate([np.arange(first, last) for _, first, last in found] or [np.empty(0, np.int64)])
        owners = np.repeat(np.arange(len(found)), [last - first for _, first, last in found])
        parts = [part for part, _, _ in found]
        if not self.indexes_tags and not self._is_same(items, hashes, phy_offsets):
            plain = without_tags()
            items = plain if self._is_same(plain, hashes, phy_offsets) else items
        if self._is_same(items, hashes, phy_offsets):
            times = items["store_timestamp"]
        else:
            wanted = items if self.indexes_tags else None
            times = self._examine(result, items, wanted, without_tags, hashes, phy_offsets, parts, owners, ordinals)
        self._check_times(result, parts, owners, ordinals, have["time_diff"].astype(np.int64), times)
        return result

    def _find_items(self, begin: int, end: int) -> list[tuple[IndexPart, int, int]]:
        """Return the files with items of a part of the log, and for each the first of these and the one after the last.

        Files whose items all lie elsewhere are left out without a look at each: there may be thousands of both.
        """
        bounds = self._bounds_of_parts()
        candidates = np.flatnonzero((bounds[0] < end) & (bounds[1] >= begin)).tolist()
        parts = [self.parts[number] for number in candidates]
        found = [(part, part.find(begin), part.find(end)) for part in parts]
        return [(part, first, last) for part, first, last in found if first < last]

    def _bounds_of_parts(self) -> np.ndarray:
        """Return the least and the greatest physical offset of the items in each file, int64[2, n]."""
        if self._bounds is None:
            for future in self._chains:
                future.result()  # which may find that a file is in no order
            files = self.log.queue.files
            is_growing = any(part.is_live for part in self.parts)
            log_end = LONG_MAX if is_growing or not files else self.log.end_of(files[-1])
            lasts = [part.last_before(log_end) for part in self.parts]
            firsts = [part.first if part.count else LONG_MAX for part in self.parts]
            self._bounds = np.array([firsts, lasts], np.int64)
        return self._bounds

    def _is_same(self, items: np.ndarray, hashes: np.ndarray, phy_offsets: np.ndarray) -> bool:
        return (
            len(items) == len(hashes)
            and bool((items["key_hash"] == hashes).all())
            and bool((items["phy_offset"] == phy_offsets).all())
        )

    def _examine(self, result: Items, items: np.ndarray, required: np.ndarray | None,
                 without_tags: Callable[[], np.ndarray], hashes: np.ndarray, phy_offsets: np.ndarray,
                 parts: list[IndexPart], owners: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Find out which items are of no key, and which keys have none. Returns the store time of each item, or -1."""
        if len(hashes) == 0:
            required = without_tags() if required is None else required
            at = required["phy_offset"]
            result.n_missing, result.missing = len(at), np.unique(at)[:NOTED].tolist()
            result.n_behind, result.n_before = int((at >= self.end).sum()), int((at < self.begin).sum())
            return np.empty(0, np.int64)
        allowed, times_of = counted(items["phy_offset"], items["key_hash"], items["store_timestamp"])
        have, _ = counted(phy_offsets, hashes)
        if required is None:
            required = self._required(items, without_tags(), have, allowed)
        needed, _ = counted(required["phy_offset"], required["key_hash"])
        missing = sorted({key[0] for key, count in needed.items() if have.get(key, 0) < count})
        result.n_missing = sum(max(count - have.get(key, 0), 0) for key, count in needed.items())
        result.n_behind = sum(max(n - have.get(key, 0), 0) for key, n in needed.items() if key[0] >= self.end)
        result.n_before = sum(max(n - have.get(key, 0), 0) for key, n in needed.items() if key[0] < self.begin)
        result.missing = [at for at in missing if self.begin <= at < self.end][:NOTED] or missing[:NOTED]
        keys = list(zip(phy_offsets.tolist(), hashes.tolist(), strict=True))
        seen: dict[tuple[int, int], int] = {}
        extra = []
        for i, key in enumerate(keys):
            seen[key] = seen.get(key, 0) + 1
            if key not in allowed:
                extra.append(i)
            elif seen[key] > allowed[key]:
                detail = f"item {ordinals[i]}: of a key of the record at {key[0]}"
                result.wrong.append(("index-item-again", [parts[owners[i]].place(int(ordinals[i]), detail)], 1))
        self._classify(result, phy_offsets[extra], [(parts[owners[i]], int(ordinals[i])) for i in extra])
        return np.array([times_of.get(key, -1) for key in keys], np.int64)

    def _required(self, items: np.ndarray, plain: np.ndarray, have: dict[tuple[int, int], int],
                  allowed: dict[tuple[int, int], int]) -> np.ndarray:
        """Leave the items of tags out that an older release did not put: before the first and behind the last there."""
        of_plain, _ = counted(plain["phy_offset"], plain["key_hash"])
        of_tags = [key[0] for key in have if key in allowed and key not in of_plain]
        first, last = min(of_tags, default=LONG_MAX), max(of_tags, default=LONG_MAX)
        between = items[(items["phy_offset"] >= first) & (items["phy_offset"] <= last)]
        return np.concatenate([plain[plain["phy_offset"] < first], between, plain[plain["phy_offset"] > last]])

    def _classify(self, result: Items, phy_offsets: np.ndarray, places: list[tuple[IndexPart, int]]) -> None:
        """Tell items that lead to no record from those whose record has no such key."""
        if not places:
            return
        _, statuses = self.log.find_messages(phy_offsets, columns=["phy_offset"])
        for at, status, (part, ordinal) in zip(phy_offsets.tolist(), statuses.tolist(), places, strict=True):
            if status == OK:
                detail = f"item {ordinal}: the record at {at} has no key with its hash"
                result.wrong.append(("index-item-no-key", [part.place(ordinal, detail)], 1))
            else:
                place = part.place(ordinal, f"item {ordinal}: no record is at {at}")
                result.wrong.append(("index-item-no-record", [place], 1))

    def _check_times(self, result: Items, parts: list[IndexPart], owners: np.ndarray, ordinals: np.ndarray,
                     diffs: np.ndarray, times: np.ndarray) -> None:
        """Compare seconds with store times. Source: IndexFile.putKey."""
        for number, part in enumerate(parts):
            # The first item is counted from where the file before ended, which may have gone.
            is_known = (ordinals != 1) | (part.end_before is not None)
            rows = np.flatnonzero((owners == number) & is_known & (times != -1))
            begins = np.where(ordinals[rows] == 1, part.end_before or 0, part.header.begin_timestamp)
            seconds = np.where(begins > 0, np.clip((times[rows] - begins) // 1000, 0, INT_MAX), 0)
            wrong = np.flatnonzero((seconds != diffs[rows]) & (diffs[rows] >= 0))
            places = []
            for i in wrong[:NOTED].tolist():
                ordinal = int(ordinals[rows[i]])
                detail = f"item {ordinal}: {diffs[rows[i]]} s after the begin time, its record {seconds[i]}"
                places.append(part.place(ordinal, detail))
            result.wrong.append(("index-item-time", places, len(wrong)))

    # ---- in the order of the log -----------------------------------------------------------------------------

    def merge(self, items: Items) -> None:
        for kind, places, count in items.wrong:
            self.findings.add_many(kind, places, count)
        total = self._missing
        within = items.n_missing - items.n_before - items.n_behind
        if within:
            self._add_missing([at for at in items.missing if self.begin <= at < self.end], within)
        total.n_before += items.n_before
        total.n_behind += items.n_behind
        rest = [at for at in items.missing if not self.begin <= at < self.end]
        total.missing += rest[: NOTED - len(total.missing)]

    def _add_missing(self, phy_offsets: list[int], count: int) -> None:
        places = [log_place(self.log, at, "a key has no item") for at in phy_offsets]
        self.findings.add_many("index-key-missing", places, count)

    def add_gap(self, begin: int, end: int) -> None:
        """Items that lead into damaged bytes."""
        for part, first, last in self._find_items(begin, end) if self.is_checked else ():
            at = int(part.items(first, first + 1)["phy_offset"][0])
            place = part.place(first, f"no record is at {at}")
            self.findings.add_many("index-item-no-record", [place], last - first)

    # ---- at the end ------------------------------------------------------------------------------------------

    def finish(self, directory: Path, end: int, is_behind: bool, is_live: bool) -> None:
        """Check headers, and what is outside of the log. Parameters: is_behind: the newest may not be indexed yet."""
        total = self._missing
        if total.n_before:
            self.findings.add("index-begins-late", directory, 0, f"{total.n_before} keys before {self.begin}")
        if total.n_behind and is_behind:
            self.findings.add("index-behind", directory, 0, f"{total.n_behind} keys from {self.end} on")
        elif total.n_behind:
            self._add_missing([at for at in total.missing if at >= self.end], total.n_behind)
        for part in self.parts:
            with self.findings.noted(part.path):
                part.is_live = part.is_live or is_live
                self._check_header(part, is_behind)
                first = part.find(end) if self.is_checked else part.count + 1
                if first <= part.count and not is_live:
                    place = part.place(first, f"the log ends at {end}")
                    self.findings.add_many("index-item-beyond-log", [place], part.count + 1 - first)
        for before, part in pairwise(self.parts):
            self._check_neighbours(before, part)

    def _check_neighbours(self, before: IndexPart, part: IndexPart) -> None:
        if before.count < before.index_num - 1:
            detail = f"{before.count} of {before.index_num - 1} items"
            self.findings.add("index-file-not-full", before.path, 36, detail)
        if before.count and part.count and part.first < before.last:
            detail = f"begins at {part.first}, {before.path.name} ends at {before.last}"
            self.findings.add("index-file-order", *part.place(1, detail))

    def _check_header(self, part: IndexPart, may_be_torn: bool) -> None:
        header, path = part.header, part.path
        if part.counted != part.count and not part.is_live:
            kind = "index-torn-put" if may_be_torn and part.count == part.counted + 1 else "index-count"
            self.findings.add(kind, path, 36, f"{part.counted} items, there are {part.count}")
        if part.uncounted:
            self.findings.add("index-torn-put", path, 36, f"0 items, there are {part.uncounted}")
        if not part.count:
            return
        first, last = (part._phy_offset(ordinal) for ordinal in (1, part.count))
        checks = [
            ("index-begin-offset", 16, header.begin_phy_offset, first),
            ("index-end-offset", 24, header.end_phy_offset, last),
            ("index-begin-time", 0, header.begin_timestamp, self._store_timestamp(first)),
            ("index-end-time", 8, header.end_timestamp, self._store_timestamp(last)),
        ]
        for kind, offset, has, should in checks:
            if should is not None and has != should and not (may_be_torn and kind.startswith("index-end")):
                self.findings.add(kind, path, offset, f"{has}, the item's record has {should}")

    def _store_timestamp(self, phy_offset: int) -> int | None:
        record = self.log.find_message(phy_offset) if phy_offset >= 0 else None
        return None if record is None else int(record.store_timestamp)


def counted(
    phy_offsets: np.ndarray, hashes: np.ndarray, times: np.ndarray | None = None
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    """Count items by (physical offset, hash), and give the store time of each."""
    counts: dict[tuple[int, int], int] = {}
    keys = list(zip(phy_offsets.tolist(), hashes.tolist(), strict=True))
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts, {} if times is None else dict(zip(keys, times.tolist(), strict=True))

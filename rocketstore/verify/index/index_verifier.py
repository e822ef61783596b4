"""Verification of the index: headers, slots and chains; each item's record, and each key's item."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import compress, pairwise
from pathlib import Path

import numpy as np

from rocketstore.disk.work_threads import Task, WorkThreads
from rocketstore.errors import StoreError
from rocketstore.index.geometry import slot_offset
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.layout import INDEX_ITEM, INDEX_SLOT
from rocketstore.kernels.verify import (
    FALLING_OFFSET,
    NEGATIVE_HASH,
    NEGATIVE_TIME,
    NEWER_LINK,
    WRONG_LINK,
    are_in_order,
    are_items_of,
    check_chains,
)
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.damaged import DAMAGED_FLAG
from rocketstore.verify.findings import Findings, Place, log_place
from rocketstore.verify.index.checked_index_file import CheckedIndexFile
from rocketstore.verify.patched_records import are_patched

MAX_PLACES = 64  # findings of one kind that get a place
FAULTS = {
    WRONG_LINK: ("index-chain", "prevIndex is not the item before it in its slot"),
    NEWER_LINK: ("index-chain-cycle", "prevIndex is no older item"),
    NEGATIVE_HASH: ("index-hash", "keyHash is negative"),
    FALLING_OFFSET: ("index-order", "phyOffset is less than that of the item before"),
    NEGATIVE_TIME: ("index-time-negative", "timeDiff is negative"),
}


@dataclass
class IndexDifferences:
    """The differences between the index and a part of the log: wrong items, and keys that no item has."""

    wrong: list[tuple[str, list[Place], int]] = field(default_factory=list)  # kind, the first places, number of all
    n_missing: int = 0  # keys without an item
    missing: list[int] = field(default_factory=list)  # physical offsets of the first of them
    n_behind: int = 0  # keys of records behind all items
    n_before: int = 0  # keys of records before all items


class IndexVerifier:
    """Compare the log with the index.

    ``compare`` runs in several threads, one chunk of the log each. ``merge`` gets the results in the order of the log.

    Attributes: is_checked: whether the store has an index. indexes_tags: whether the releases that wrote the first and
    the last items put an item for the tags of each message. begin, end: physical offsets of the first and last item.
    """

    def __init__(self, log: CommitLog, findings: Findings, files: list[CheckedIndexFile]) -> None:
        self.log, self.findings, self.files = log, findings, files
        self.is_checked = bool(files)
        for before, part in pairwise(files):
            part.end_before = before.header.end_timestamp
        self._orders: list[Task[None]] = []
        self._bounds: np.ndarray | None = None
        self._missing = IndexDifferences()
        filled = [file for file in files if file.count]
        begins_with_tags = bool(filled) and self._has_tags(filled[0]) is True
        self.indexes_tags = begins_with_tags and self._has_tags(filled[-1], at_end=True) is not False
        self.begin, self.end = (filled[0].first, filled[-1].last) if filled else (-1, -1)

    def start(self, pool: WorkThreads) -> list[Task[None]]:
        """Start to check slots and chains of each file. ``compare`` only waits for the check of the order of items."""
        self._orders = [pool.submit(self._check_order, part) for part in self.files]
        return [pool.submit(self._check_chains, part) for part in self.files]

    def _has_tags(self, part: CheckedIndexFile, *, at_end: bool = False) -> bool | None:
        """Return whether the first, or last, record with tags has an item for them.

        Records with a key that equals the text of the tags item are left out. None if no record decides.
        """
        first = max(part.count + 1 - MAX_PLACES, 1) if at_end else 1
        items = part.items(first, min(first + MAX_PLACES, part.count + 1))
        for at in sorted(set(items["phy_offset"].tolist()), reverse=at_end):
            record = self.log.find_message(at) if at >= 0 else None
            if record is not None and record.tags and f"T#{record.tags}" not in (*record.keys, record.uniq_key):
                key_hash = hash_keys([f"T#{record.tags}"], topic=record.topic)[0]
                return bool((items["key_hash"][items["phy_offset"] == at] == key_hash).any())
        return None

    # ---- chains ----------------------------------------------------------------------------------------------

    def _check_order(self, part: CheckedIndexFile) -> None:
        """Sort the items of a file if they are not in order. ``_check_chains`` reports this, and errors of the disk."""
        with suppress(StoreError, OSError, ValueError), closing(part.map()) as file:
            if not are_in_order(file.buffer, part.count, part.geometry.hash_slot_num):
                part.sort()

    def _check_chains(self, part: CheckedIndexFile) -> None:
        with self.findings.reporting_errors(part.path), closing(part.map()) as file:
            newest = np.zeros(part.geometry.hash_slot_num, np.int32)
            filled, faults = check_chains(file.buffer, part.count, newest)
            for fault, (count, ordinals) in faults.items():
                kind, detail = FAULTS[fault]
                places = [part.place(ordinal, f"item {ordinal}: {detail}") for ordinal in ordinals]
                self.findings.add_many(kind, places, count)
            begin, end = slot_offset(0), part.geometry.item_offset(0)
            slots = np.frombuffer(part.read(end - begin, begin), INDEX_SLOT)
            wrong = np.flatnonzero((slots != newest) & ~((part.is_live or part.uncounted > 0) & (slots > part.count)))
            places = []
            for slot in wrong[:MAX_PLACES].tolist():
                detail = f"slot {slot} leads to {slots[slot]}, its newest item is {newest[slot]}"
                places.append(Place(part.path, slot_offset(slot), detail))
            self.findings.add_many("index-slot", places, len(wrong))
            stated = part.header.hash_slot_count
            if stated not in (filled, part.count):  # until 4.7.0 each put was counted
                self.findings.add("index-slot-count", part.path, 32, f"{stated}, {filled} were filled")

    # ---- log against index, in threads -----------------------------------------------------------------------

    def compare(
        self, begin: int, end: int, items: np.ndarray, without_tags: Callable[[], np.ndarray]
    ) -> IndexDifferences | None:
        """Compare the items that the records of a chunk of the log need with the items that lead to the chunk.

        Parameters: items: with the items of tags. without_tags: returns the items without those of tags.
        """
        if not self.is_checked:
            return None
        found = self._find_items(begin, end)
        blocks = [part.items(first, last) for part, first, last in found]
        if self._are_all_of(items, found, blocks):
            return IndexDifferences()
        have = np.concatenate(blocks) if blocks else np.empty(0, INDEX_ITEM)
        result = IndexDifferences()
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
        self._check_times(result, parts, owners, ordinals, phy_offsets, have["time_diff"].astype(np.int64), times)
        return result

    def _are_all_of(
        self, items: np.ndarray, found: list[tuple[CheckedIndexFile, int, int]], blocks: list[np.ndarray]
    ) -> bool:
        """Return whether the items in the index are exactly ``items``. False if a time needs a closer look."""
        at = 0
        for (part, first, _), block in zip(found, blocks, strict=True):
            own = items[at : at + len(block)]
            at += len(block)
            columns = own["key_hash"], own["phy_offset"], own["store_timestamp"]
            if first == 1 or not are_items_of(block.view(np.uint8), part.header.begin_timestamp, *columns):
                return False
        return at == len(items)

    def _find_items(self, begin: int, end: int) -> list[tuple[CheckedIndexFile, int, int]]:
        """Return the files with items of a part of the log, their first item of it, and the item after their last.

        Bounds of files are compared as arrays: there may be thousands of files and of chunks.
        """
        bounds = self._bounds_of_parts()
        candidates = np.flatnonzero((bounds[0] < end) & (bounds[1] >= begin)).tolist()
        parts = [self.files[number] for number in candidates]
        found = [(part, part.find(begin), part.find(end)) for part in parts]
        return [(part, first, last) for part, first, last in found if first < last]

    def _bounds_of_parts(self) -> np.ndarray:
        """Return the least and the greatest physical offset of the items in each file, int64[2, n]."""
        if self._bounds is None:
            for task in self._orders:
                task.result()
            files = self.log.file_run.files
            is_growing = any(part.is_live for part in self.files)
            log_end = LONG_MAX if is_growing or not files else self.log.reader.end_of(files[-1])
            lasts = [part.last_before(log_end) for part in self.files]
            firsts = [part.first if part.count else LONG_MAX for part in self.files]
            self._bounds = np.array([firsts, lasts], np.int64)
        return self._bounds

    def _is_same(self, items: np.ndarray, hashes: np.ndarray, phy_offsets: np.ndarray) -> bool:
        return (
            len(items) == len(hashes)
            and bool((items["key_hash"] == hashes).all())
            and bool((items["phy_offset"] == phy_offsets).all())
        )

    def _examine(
        self,
        result: IndexDifferences,
        items: np.ndarray,
        required: np.ndarray | None,
        without_tags: Callable[[], np.ndarray],
        hashes: np.ndarray,
        phy_offsets: np.ndarray,
        parts: list[CheckedIndexFile],
        owners: np.ndarray,
        ordinals: np.ndarray,
    ) -> np.ndarray:
        """Find items without a key, and keys without an item. Return the store time of each item, or -1."""
        if len(hashes) == 0:
            required = without_tags() if required is None else required
            at = required["phy_offset"]
            result.n_missing, result.missing = len(at), np.unique(at)[:MAX_PLACES].tolist()
            result.n_behind, result.n_before = int((at >= self.end).sum()), int((at < self.begin).sum())
            return np.empty(0, np.int64)
        allowed, times_of = count_items(items["phy_offset"], items["key_hash"], items["store_timestamp"])
        have, _ = count_items(phy_offsets, hashes)
        if required is None:
            required = self._required(items, without_tags(), have, allowed)
        needed, _ = count_items(required["phy_offset"], required["key_hash"])
        missing = sorted({key[0] for key, count in needed.items() if have.get(key, 0) < count})
        result.n_missing = sum(max(count - have.get(key, 0), 0) for key, count in needed.items())
        result.n_behind = sum(max(n - have.get(key, 0), 0) for key, n in needed.items() if key[0] >= self.end)
        result.n_before = sum(max(n - have.get(key, 0), 0) for key, n in needed.items() if key[0] < self.begin)
        result.missing = [at for at in missing if self.begin <= at < self.end][:MAX_PLACES] or missing[:MAX_PLACES]
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

    def _required(
        self,
        items: np.ndarray,
        plain: np.ndarray,
        have: dict[tuple[int, int], int],
        allowed: dict[tuple[int, int], int],
    ) -> np.ndarray:
        """Return the required items: items of tags only between the first and the last item of tags in the index.

        An older release puts no items of tags.
        """
        of_plain, _ = count_items(plain["phy_offset"], plain["key_hash"])
        of_tags = [key[0] for key in have if key in allowed and key not in of_plain]
        first, last = min(of_tags, default=LONG_MAX), max(of_tags, default=LONG_MAX)
        between = items[(items["phy_offset"] >= first) & (items["phy_offset"] <= last)]
        return np.concatenate([plain[plain["phy_offset"] < first], between, plain[plain["phy_offset"] > last]])

    def _classify(
        self, result: IndexDifferences, phy_offsets: np.ndarray, places: list[tuple[CheckedIndexFile, int]]
    ) -> None:
        """Report whether an extra item leads to no record, or to a record without its key.

        A record in place of a lost one has no keys.
        """
        are_left = ~are_patched(self.log, phy_offsets)
        phy_offsets, places = phy_offsets[are_left], list(compress(places, are_left.tolist()))
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

    def _check_times(
        self,
        result: IndexDifferences,
        parts: list[CheckedIndexFile],
        owners: np.ndarray,
        ordinals: np.ndarray,
        phy_offsets: np.ndarray,
        diffs: np.ndarray,
        times: np.ndarray,
    ) -> None:
        """Compare the times of items with the store times of their records. Source: IndexFile.putKey.

        Parameters: owners: the numbers of the items' files among ``parts``, in ascending order.
        """
        ends = np.searchsorted(owners, np.arange(len(parts) + 1)).tolist()
        for part, (first, last) in zip(parts, pairwise(ends), strict=True):
            # The time of the first item is relative to the end time of the file before, which may have expired.
            is_known = (ordinals[first:last] != 1) | (part.end_before is not None)
            rows = first + np.flatnonzero(is_known & (times[first:last] != -1))
            begins = np.where(ordinals[rows] == 1, part.end_before or 0, part.header.begin_timestamp)
            seconds = np.where(begins > 0, np.clip((times[rows] - begins) // 1000, 0, INT_MAX), 0)
            wrong = np.flatnonzero((seconds != diffs[rows]) & (diffs[rows] >= 0))
            wrong = wrong[~are_patched(self.log, phy_offsets[rows[wrong]])]
            places = []
            for i in wrong[:MAX_PLACES].tolist():
                ordinal = int(ordinals[rows[i]])
                detail = f"item {ordinal}: {diffs[rows[i]]} s after the begin time, its record {seconds[i]}"
                places.append(part.place(ordinal, detail))
            result.wrong.append(("index-item-time", places, len(wrong)))

    # ---- in the order of the log -----------------------------------------------------------------------------

    def merge(self, items: IndexDifferences) -> None:
        """Report the differences of one chunk, except keys before the first and after the last item of the index."""
        for kind, places, count in items.wrong:
            self.findings.add_many(kind, places, count)
        total = self._missing
        within = items.n_missing - items.n_before - items.n_behind
        if within:
            self._add_missing([at for at in items.missing if self.begin <= at < self.end], within)
        total.n_before += items.n_before
        total.n_behind += items.n_behind
        rest = [at for at in items.missing if not self.begin <= at < self.end]
        total.missing += rest[: MAX_PLACES - len(total.missing)]

    def _add_missing(self, phy_offsets: list[int], count: int) -> None:
        places = [log_place(self.log, at, "a key has no item") for at in phy_offsets]
        self.findings.add_many("index-key-missing", places, count)

    def add_gap(self, begin: int, end: int) -> None:
        """Report items that lead into a damaged part of the log."""
        for part, first, last in self._find_items(begin, end) if self.is_checked else ():
            at = int(part.items(first, first + 1)["phy_offset"][0])
            place = part.place(first, f"no record is at {at}")
            self.findings.add_many("index-item-no-record", [place], last - first)

    # ---- at the end ------------------------------------------------------------------------------------------

    def finish(self, directory: Path, end: int, is_behind: bool, is_live: bool) -> None:
        """Check headers, and items outside of the log.

        Parameters: end: the end of the log. is_behind: the newest records may not be indexed yet.
        """
        total = self._missing
        if total.n_before:
            self.findings.add("index-begins-late", directory, 0, f"{total.n_before} keys before {self.begin}")
        if total.n_behind and is_behind:
            self.findings.add("index-behind", directory, 0, f"{total.n_behind} keys from {self.end} on")
        elif total.n_behind:
            self._add_missing([at for at in total.missing if at >= self.end], total.n_behind)
        for part in self.files:
            with self.findings.reporting_errors(part.path):
                part.is_live = part.is_live or is_live
                self._check_header(part, is_behind)
                first = part.find(end) if self.is_checked else part.count + 1
                if first <= part.count and not is_live:
                    place = part.place(first, f"the log ends at {end}")
                    self.findings.add_many("index-item-beyond-log", [place], part.count + 1 - first)
        for before, part in pairwise(self.files):
            self._check_neighbours(before, part)

    def _check_neighbours(self, before: CheckedIndexFile, part: CheckedIndexFile) -> None:
        if before.count < before.geometry.index_num - 1:
            detail = f"{before.count} of {before.geometry.index_num - 1} items"
            self.findings.add("index-file-not-full", before.path, 36, detail)
        if before.count and part.count and part.first < before.last:
            detail = f"begins at {part.first}, {before.path.name} ends at {before.last}"
            self.findings.add("index-file-order", *part.place(1, detail))

    def _check_header(self, part: CheckedIndexFile, may_be_torn: bool) -> None:
        header, path = part.header, part.path
        if part.header_count != part.count and not part.is_live:
            kind = "index-torn-put" if may_be_torn and part.count == part.header_count + 1 else "index-count"
            self.findings.add(kind, path, 36, f"{part.header_count} items, there are {part.count}")
        if part.uncounted:
            self.findings.add("index-torn-put", path, 36, f"0 items, there are {part.uncounted}")
        if not part.count:
            return
        first, last = (part.phy_offset(ordinal) for ordinal in (1, part.count))
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
        """Return the store time of a record; None without a record, and for one in place of a lost record."""
        record = self.log.find_message(phy_offset) if phy_offset >= 0 else None
        return None if record is None or record.flag == DAMAGED_FLAG else int(record.store_timestamp)


def count_items(
    phy_offsets: np.ndarray, hashes: np.ndarray, times: np.ndarray | None = None
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    """Count items by (physical offset, hash). Also return the store time of each pair."""
    counts: dict[tuple[int, int], int] = {}
    keys = list(zip(phy_offsets.tolist(), hashes.tolist(), strict=True))
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts, {} if times is None else dict(zip(keys, times.tolist(), strict=True))

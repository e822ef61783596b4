"""Compat: how the bytes that a RocketMQ release writes differ from those of other releases."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

DEFAULT_COMPAT = "5.5.1"
OLDEST = (4, 5, 2)
NEWEST = (5, 5, 1)

NO_LMQ = r"%RETRY%|rmq_sys_|SCHEDULE_TOPIC_XXXX\Z"

# Each difference in the bytes, and in the bytes that survive a start: the first release with each value, and the value.
DIFFERENCES: dict[str, dict[tuple[int, ...], Any]] = {
    "counts_every_put": {OLDEST: True, (4, 7, 1): False},
    "indexes_tags": {OLDEST: False, (5, 4, 0): True},
    "batch_properties": {OLDEST: "none", (4, 8, 0): "joined", (4, 9, 3): "separated", (5, 4, 0): "none"},
    "trailing_separator": {OLDEST: True, (4, 9, 1): False, (5, 2, 0): True},
    "has_ipv6": {OLDEST: False, (4, 6, 0): True},
    "has_compression_types": {OLDEST: False, (4, 9, 4): True},
    "has_inner_batches": {OLDEST: False, (5, 0, 0): True},
    "has_v2": {OLDEST: False, (5, 1, 0): True},
    "has_prop_crc": {OLDEST: False, (5, 2, 0): True},
    "has_confirm_phy_offset": {OLDEST: False, (5, 1, 1): True},
    "has_logics_physical_offset": {OLDEST: False, (5, 5, 0): True},
    "has_multi_dispatch": {OLDEST: False, (4, 9, 3): True, (5, 3, 2): False},
    "keeps_wait": {OLDEST: False, (5, 2, 0): True},
    "last_files": {OLDEST: 3, (5, 3, 2): 1},
    "no_lmq": {OLDEST: "", (4, 9, 3): NO_LMQ, (5, 5, 0): f"%DLQ%|{NO_LMQ}"},
    "no_multi_dispatch": {
        OLDEST: "",
        (4, 9, 3): "(?!)",
        (5, 1, 1): "%RETRY%",
        (5, 1, 2): r"%RETRY%|(rmq_sys_wheel_timer|SCHEDULE_TOPIC_XXXX)\Z",
        (5, 2, 0): NO_LMQ,
    },
    "resets_empty_queues": {OLDEST: False, (5, 5, 1): True},
    "refuses_negative_sizes": {OLDEST: False, (5, 5, 1): True},
    "limits_recovery": {OLDEST: False, (5, 4, 0): True},
    "reads_queue_ends_again": {OLDEST: False, (5, 4, 0): True},
    "starts_with_empty_queue_files": {OLDEST: False, (5, 4, 0): True},
    "has_multi_path": {OLDEST: False, (4, 9, 2): True},
    "trims_texts": {OLDEST: False, (5, 2, 0): True},
    "has_clean_ratios": {OLDEST: False, (5, 0, 0): True},
}

# The first release that knows a property, for properties that OLDEST ignores. Source: setters of MessageStoreConfig.
TAKEN_SINCE: dict[str, tuple[int, ...]] = {
    "mapper_file_size_batch_consume_queue": (5, 0, 0),
    "enable_multi_dispatch": (4, 9, 3),
    "enable_lmq": (4, 9, 3),
    "enabled_append_prop_crc": (5, 2, 0),
    "force_verify_prop_crc": (5, 2, 0),
    "commit_log_recover_max_num": (5, 4, 0),
    "read_only_commit_log_store_paths": (4, 9, 2),
}


@dataclass(frozen=True)
class Compat:
    """What the RocketMQ release ``release`` would have written.

    Attributes
    ----------
    counts_every_put : IndexHeader.hashSlotCount grows with each put, not only when a put fills an empty slot.
    indexes_tags : IndexService.buildIndex puts one more item, "topic#T#tags", for the tags of a message.
    batch_properties : how each message of a client's batch gets the properties of the batch. "none": it does not get
        them. "joined": they follow its own properties. "separated": they follow after a byte 0x02.
    trailing_separator : a byte 0x02 follows the last property too.
    has_ipv6, has_v2, has_prop_crc : records may have IPv6 hosts, topics of more than 127 bytes, a CRC property.
    has_compression_types : bodies may be compressed by LZ4 and zstd.
    has_inner_batches : records may be inner batches, whose topics have batch queues.
    has_confirm_phy_offset, has_logics_physical_offset : the checkpoint has these fields.
    has_multi_dispatch : MultiDispatch gives the offsets in light queues. Later, LmqDispatch gives them.
    keeps_wait : a message that gets offsets in light queues keeps its WAIT property.
    last_files : how many of the last log files a start after a clean stop reads. The start cuts the log at the first
        bad CRC in these files, if the queues have units of the last file.
    no_lmq : a pattern for the begin of topics whose messages get no offsets in light queues.
    no_multi_dispatch : a pattern for the begin of topics whose messages get no units in light queues.
    resets_empty_queues : when the minimum of a queue without files is corrected, the queue starts at offset 0 again.
    refuses_negative_sizes : a blank with a negative size ends the log. Before, it only ended its file.
    limits_recovery : a start after a crash reads at most the last ``commit_log_recover_max_num`` files.
    reads_queue_ends_again : a start also cuts units behind the log's end that it has dispatched itself.
    starts_with_empty_queue_files : a broker starts if the last file of a queue has no units.
    has_multi_path : storePathCommitLog may be several directories.
    trims_texts : blanks around a text of the properties file are removed. Source: MixAll.properties2Object.
    has_clean_ratios : the properties file may have diskSpaceCleanForciblyRatio, diskSpaceWarningLevelRatio and
        deleteFileBatchMax. Before, they were constants.
    """

    release: str
    counts_every_put: bool
    indexes_tags: bool
    batch_properties: str
    trailing_separator: bool
    has_ipv6: bool
    has_compression_types: bool
    has_inner_batches: bool
    has_v2: bool
    has_prop_crc: bool
    has_confirm_phy_offset: bool
    has_logics_physical_offset: bool
    has_multi_dispatch: bool
    keeps_wait: bool
    last_files: int
    no_lmq: str
    no_multi_dispatch: str
    resets_empty_queues: bool
    refuses_negative_sizes: bool
    limits_recovery: bool
    reads_queue_ends_again: bool
    starts_with_empty_queue_files: bool
    has_multi_path: bool
    trims_texts: bool
    has_clean_ratios: bool

    @classmethod
    @functools.cache
    def of(cls, release: str) -> Compat:
        """Return the differences of a release: "5.3.3", or "5.3" for the last patch of 5.3.

        Raises: ValueError for any other text than a release from 4.5.2 to 5.5.1.
        """
        number = parse_release(release)
        return cls(
            release,
            **{name: values[max(since for since in values if since <= number)] for name, values in DIFFERENCES.items()},
        )


def parse_release(release: str) -> tuple[int, ...]:
    """Return the numbers of a release. "5.3" means the last patch of 5.3. Raises: ValueError."""
    is_number = isinstance(release, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){1,2}", release)
    number = tuple(map(int, release.split("."))) if is_number else ()
    if len(number) == 2:
        number = NEWEST if number == NEWEST[:2] else (*number, 99)
    if len(number) != 3 or not OLDEST <= number <= NEWEST:
        raise ValueError(f"compat={release!r}: must be a RocketMQ release from 4.5.2 to 5.5.1, such as '5.3.3'")
    return number

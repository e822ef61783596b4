"""Compat: how the bytes that a RocketMQ release writes differ from those of other releases."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["DEFAULT_COMPAT", "NEWEST", "OLDEST", "Compat", "parse_release"]

DEFAULT_COMPAT = "5.5.1"
OLDEST = (4, 5, 2)
NEWEST = (5, 5, 1)

NO_LMQ = r"%RETRY%|rmq_sys_|SCHEDULE_TOPIC_XXXX\Z"

# Each difference in the bytes, and in what of them survives a start: from which release on it is what.
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
    "no_multi_dispatch": {OLDEST: "", (4, 9, 3): "(?!)", (5, 1, 1): "%RETRY%",
                          (5, 1, 2): r"%RETRY%|(rmq_sys_wheel_timer|SCHEDULE_TOPIC_XXXX)\Z", (5, 2, 0): NO_LMQ},
    "resets_empty_queues": {OLDEST: False, (5, 5, 1): True},
    "refuses_negative_sizes": {OLDEST: False, (5, 5, 1): True},
    "limits_recovery": {OLDEST: False, (5, 4, 0): True},
}


@dataclass(frozen=True)
class Compat:
    """What the RocketMQ release ``release`` would have written.

    ``counts_every_put``: IndexHeader.hashSlotCount is increased by each put, not by each slot that fills.
    ``indexes_tags``: IndexService.buildIndex puts one more item "topic#T#tags" for the tags of a message.
    ``batch_properties``: what each message of a client's batch gets of the batch's own properties: "none"; "joined",
    they follow as they are; "separated", they follow after a 0x02.
    ``trailing_separator``: the last property ends with 0x02 too.
    ``has_ipv6``, ``has_v2``, ``has_prop_crc``: records have IPv6 hosts, topics beyond 127 bytes, a CRC property.
    ``has_compression_types``: bodies may be of LZ4 and zstd. ``has_inner_batches``: and inner batches, whose topics
    have batch queues.
    ``has_confirm_phy_offset``, ``has_logics_physical_offset``: the checkpoint has them.
    ``has_multi_dispatch``: offsets in light queues are given by MultiDispatch's rules, not yet by LmqDispatch's.
    ``keeps_wait``: a message that gets such offsets keeps its WAIT property.
    ``last_files``: so many files of the log a start after a clean stop reads, and cuts at the first bad CRC, if the
    queues have units of the last one.
    ``no_lmq``: how topics begin, a pattern, whose messages get no such offsets; ``no_multi_dispatch``: and no units.
    ``resets_empty_queues``: a queue without files gets the offset 0 again when its minimum is corrected.
    ``refuses_negative_sizes``: a blank with a negative size ends the log. Before, it only ended its file.
    ``limits_recovery``: a start after a crash reads the last ``commit_log_recover_max_num`` files at most.
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

    @classmethod
    @functools.cache
    def of(cls, release: str) -> Compat:
        """Look a release up: "5.3.3", or "5.3" for the last patch of 5.3.

        Raises ValueError if it is not a release from 4.5.2 to 5.5.1.
        """
        number = parse_release(release)
        return cls(release, **{name: values[max(since for since in values if since <= number)]
                               for name, values in DIFFERENCES.items()})


def parse_release(release: str) -> tuple[int, ...]:
    is_number = isinstance(release, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){1,2}", release)
    number = tuple(map(int, release.split("."))) if is_number else ()
    if len(number) == 2:
        number = NEWEST if number == NEWEST[:2] else (*number, 99)
    if len(number) != 3 or not OLDEST <= number <= NEWEST:
        raise ValueError(f"compat={release!r}: must be a RocketMQ release from 4.5.2 to 5.5.1, such as '5.3.3'")
    return number

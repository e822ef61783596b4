"""Records that the release of ``compat`` cannot read, because a later release wrote them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from rocketstore.compat import DIFFERENCES, Compat
from rocketstore.errors import StoreError
from rocketstore.kernels.layout import BORN_HOST_V6, MAGIC_V2, RECORD_HEAD, STORE_HOST_V6
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.system_flags import INNER_BATCH
from rocketstore.text_values import format_count

KINDS = {  # the field of Compat, and the records that a release without it cannot read
    "has_v2": "with a topic of more than 127 bytes",
    "has_ipv6": "with IPv6 hosts",
    "has_inner_batches": "that are inner batches",
}
MAX_V1_TOPIC = 127  # bytes
SCANNED = ("topic", "sys_flag")


@dataclass
class UnreadableRecords:
    """Counts the records that a release cannot read.

    Attributes: compat: the release. counts: records by the field of Compat that the release lacks. total: records; a
    record may be in several of the counts.
    """

    compat: str
    counts: Counter[str] = field(default_factory=Counter)
    total: int = 0

    @property
    def can_exist(self) -> bool:
        """Whether a later release writes records that this release cannot read."""
        return not all(getattr(Compat.of(self.compat), name) for name in KINDS)

    def add(self, are_v2: np.ndarray, sys_flags: np.ndarray) -> None:
        """Add records. Parameters: are_v2: bool[n]. sys_flags: integer[n]."""
        compat = Compat.of(self.compat)
        found = {
            "has_v2": are_v2,
            "has_ipv6": sys_flags & (BORN_HOST_V6 | STORE_HOST_V6) != 0,
            "has_inner_batches": sys_flags & INNER_BATCH != 0,
        }
        lacking = {name: are_of for name, are_of in found.items() if not getattr(compat, name)}
        for name, are_of in lacking.items():
            self.counts[name] += int(are_of.sum())
        self.total += int(np.logical_or.reduce([*lacking.values()]).sum()) if lacking else 0

    def add_bytes(self, data: bytes, positions: np.ndarray) -> None:
        """Add the records at positions of some bytes, int64[n]."""
        # The low byte of a field has all bits that are compared.
        view = np.frombuffer(data, np.uint8)
        magics, flags = (view[positions + _low_byte(name)] for name in ("magic", "sys_flag"))
        self.add(magics == MAGIC_V2 & 0xFF, flags)

    def add_log(self, log: CommitLog, begin: int, end: int) -> None:
        """Add the records of a part of the log. Parameters: physical offsets. Damaged bytes are skipped."""
        if self.can_exist and begin < end:
            for batch in log.scan(begin, end, columns=SCANNED, on_corrupt="skip"):
                self.add(np.diff(batch.topic.offsets) > MAX_V1_TOPIC, batch.sys_flag)

    def texts(self) -> tuple[str, ...]:
        """Return how many records the release cannot read, in words; nothing if it can read all records."""
        if not self.total:
            return ()
        counts = sorted((name, count) for name, count in self.counts.items() if count)
        parts = [f"{count} {KINDS[name]} (read since {_first_release(name)})" for name, count in counts]
        return (f"RocketMQ {self.compat} cannot read {format_count(self.total, 'record')}: {', '.join(parts)}",)

    def require_none(self, where: object, *, allow: bool) -> tuple[str, ...]:
        """Return the texts if unreadable records are allowed. Else raise StoreError if a record is unreadable.

        Parameters: where: the root of the store, for the error. allow: ``allow_unreadable`` of the configuration.
        """
        for text in self.texts():
            if not allow:
                raise StoreError(
                    f"{where}: {text}. Nothing was written. Give compat of the release that reads this store, or "
                    "allow_unreadable=True (on the command line --compat, --allow-unreadable)"
                )
        return self.texts()


def count_unreadable(log: CommitLog, compat: str, begin: int, end: int) -> UnreadableRecords:
    """Count the records in a part of a log that a release cannot read. Parameters: physical offsets."""
    found = UnreadableRecords(compat)
    found.add_log(log, begin, end)
    return found


def _low_byte(name: str) -> int:
    """Return the position of the lowest byte of a field of a record."""
    kind, offset, *_ = RECORD_HEAD.fields[name]  # type: ignore[index]
    return int(offset + kind.itemsize - 1)


def _first_release(name: str) -> str:
    """Return the first release with a field of Compat."""
    return ".".join(map(str, min(since for since, value in DIFFERENCES[name].items() if value)))

"""What changes the bytes: the RocketMQ release to be compatible with."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_COMPAT", "DEFAULT_HASH_SLOT_NUM", "DEFAULT_INDEX_NUM", "Compat"]

DEFAULT_COMPAT = "5.5.0"
DEFAULT_HASH_SLOT_NUM = 5_000_000
DEFAULT_INDEX_NUM = 20_000_000

OLDEST = (4, 5, 2)
NEWEST = (5, 5, 0)

# Each difference in the bytes, with the first release that has it and the first that no longer has it.
DIFFERENCES: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "counts_every_put": (OLDEST, (4, 7, 1)),  # hashSlotCount rises with each put, not with each slot that fills
    "indexes_tags": ((5, 4, 0), None),  # an index item "topic#T#tags" for each message with tags
}


@dataclass(frozen=True)
class Compat:
    """What the RocketMQ release ``release`` would have written.

    ``counts_every_put``: IndexHeader.hashSlotCount is increased by each put (until 4.7.0).
    ``indexes_tags``: IndexService.buildIndex puts one more item for the tags of a message (from 5.4.0).
    """

    release: str
    counts_every_put: bool
    indexes_tags: bool

    @classmethod
    def of(cls, release: str) -> Compat:
        """Look a release up: "5.3.3", or "5.3" for the last patch of 5.3.

        Raises ValueError if it is not a release from 4.5.2 to 5.5.0.
        """
        number = _parse(release)
        has = {
            name: first <= number and (gone is None or number < gone)
            for name, (first, gone) in DIFFERENCES.items()
        }
        return cls(release, **has)


def _parse(release: str) -> tuple[int, ...]:
    try:
        number = tuple(int(part) for part in release.split("."))
    except (ValueError, AttributeError):
        number = ()
    if len(number) == 2:
        number = NEWEST if number == NEWEST[:2] else (*number, 99)
    if len(number) != 3 or not OLDEST <= number <= NEWEST:
        raise ValueError(f"compat={release!r}: must be a RocketMQ release from 4.5.2 to 5.5.0, such as '5.3.3'")
    return number

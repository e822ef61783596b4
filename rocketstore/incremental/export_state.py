"""ExportState: what an incremental export remembers between two runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rocketstore.disk.durable import replace_file
from rocketstore.disk.small_file import read_small_file
from rocketstore.errors import StoreError

KEYS = {"asked", "next_offset", "last", "announced"}


class LastRecord(NamedTuple):
    """The last record of the log that an export has read. It shows later whether the log is still the same.

    Attributes: phy_offset: bytes. store_timestamp: epoch ms. body_crc: as the record states it.
    """

    phy_offset: int
    store_timestamp: int
    body_crc: int


@dataclass(frozen=True)
class ExportState:
    """What an export remembers.

    Attributes: asked: the conditions and the format; each run must have equal ones. next_offset: the physical offset up
    to which the log was read. last: the last record before it; None if there was no record. announced: the name of a
    part that is complete under its temporary name, and may not have its own name yet; ``next_offset`` and ``last``
    count it. None for no such part.
    """

    asked: Mapping[str, Any]
    next_offset: int
    last: LastRecord | None
    announced: str | None = None


def read_state(path: Path, asked: Mapping[str, Any]) -> ExportState | None:
    """Read a state. Return None if the file is missing.

    Parameters: asked: the conditions of this run. Raises: StoreError if the file is no state, or has other conditions;
    OSError.
    """
    try:
        found = json.loads(read_small_file(path))
        if not isinstance(found, dict) or found.keys() != KEYS:
            raise StoreError(f"{path}: is no state of an export: give another name")
        state = ExportState(**found | {"last": None if found["last"] is None else LastRecord(*found["last"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise StoreError(f"{path}: is no state of an export: {error}") from None
    now = json.loads(json.dumps(asked))  # lists in place of tuples, as in the file
    if state.asked != now:
        changed = sorted(name for name in {*state.asked, *now} if state.asked.get(name) != now.get(name))
        raise StoreError(
            f"{path}: earlier parts were made with other values of {', '.join(changed)}: give the same values, or "
            "another directory and state"
        )
    return state


def save_state(path: Path, state: ExportState) -> None:
    """Replace the file of a state atomically. Raises: OSError."""
    replace_file(path, json.dumps(asdict(state)).encode())

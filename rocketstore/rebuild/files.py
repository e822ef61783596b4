"""The files of a rebuild that is under way: how far it is, taking back what was put since, and the swap."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from rocketstore.disk.mapped_file import make_directory, nonzero_end, sync_path
from rocketstore.disk.small_file import read_small_file
from rocketstore.errors import StoreError
from rocketstore.index.index_file import IndexHeader, file_size
from rocketstore.index.index_service import index_file_name, index_paths
from rocketstore.kernels.csrc import crc32
from rocketstore.log.commit_log import CommitLog
from rocketstore.recovery.complete import zero
from rocketstore.recovery.index import IndexCut, cut_index, look_at_index, read_header
from rocketstore.recovery.queues import QUEUE_PARTS, QueueEnd
from rocketstore.state.broker_config import replace_file

__all__ = ["INDEX_MADE", "NO_MARK", "can_swap", "cut_index_files", "cut_queue", "index_headers", "is_free", "mark_of"]
__all__ += ["name_index_files", "read_state", "remove_other_topics", "remove_state", "require_replaceable"]
__all__ += ["save_state", "swap", "take_back"]

STATE = "rocketstore-rebuild.json"
FIELDS: dict[str, type] = {"phase": str, "options": dict, "done": int, "mark": list, "batches": list}
SWAP_FIELDS: dict[str, type] = {"made": list, "time": str}
PHASES = "build", "name"  # and in place "swap"
UNFINISHED = f"{STATE}.tmp-"  # and the number of a process that was killed when it wrote one
INDEX_MADE = "index-made"  # files that have names of now
MARKED = 1 << 12  # bytes of a record, by which it is told from others
NO_MARK = [-1, 0]
LAST_SECOND = 253_370_764_799  # of the year 9998, in any zone
NO_HEADER = IndexHeader(0, 0, 0, 0, 0, 0)


def read_state(staging: Path, *, is_in_place: bool) -> dict[str, Any]:
    """Give what a killed call has left, nothing if there is none, or it is of no such call."""
    try:
        state = json.loads(read_small_file(staging / STATE))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return state if has_fields(state, FIELDS) and is_possible(state, is_in_place) else {}


def has_fields(state: Any, fields: dict[str, type]) -> bool:
    return isinstance(state, dict) and all(type(state.get(name)) is kind for name, kind in fields.items())


def is_possible(state: dict[str, Any], is_in_place: bool) -> bool:
    done, mark = state["done"], state["mark"]
    is_phase = state["phase"] in PHASES or (is_in_place and is_swap(state))
    is_mark = [type(number) for number in mark] == [int, int] and -1 <= mark[0] <= done
    return is_phase and done >= 0 and is_mark and are_str(state["batches"])


def is_swap(state: dict[str, Any]) -> bool:
    is_named = state["phase"] == "swap" and has_fields(state, SWAP_FIELDS)
    return is_named and state["time"].isdecimal() and are_str(state["made"])


def are_str(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def is_free(out: Path) -> bool:
    """Whether a directory is empty, but for what a killed call has left."""
    return bool(read_state(out, is_in_place=False)) or all(path.name.startswith(UNFINISHED) for path in out.iterdir())


def remove_state(out: Path) -> None:
    for path in (out / STATE, *out.glob(f"{UNFINISHED}*")):
        path.unlink()


def save_state(staging: Path, state: dict[str, Any]) -> None:
    replace_file(staging / STATE, json.dumps(state).encode())


def mark_of(log: CommitLog, last_phy_offset: int, end: int) -> list[int]:
    """What tells a log, up to a physical offset, from others: the last record before that, or NO_MARK."""
    return [last_phy_offset, crc32(log.queue.pread(last_phy_offset, min(end - last_phy_offset, MARKED)))]


# ---- what was put after the state was saved ----------------------------------------------------------------


def cut_queue(queue: QueueEnd, end: int) -> None:
    """Take back the units of records from ``end`` on.

    An empty file stays where the units before it fill theirs: a broker makes it for a unit that it then drops, and
    whoever else made it makes it again.
    """
    queue.flushed = end
    queue.look(end, 0)
    for start, name, size in reversed(queue.files()):
        path, kept = Path(name), max(queue.end - start, 0)
        if start > queue.end or queue.end == 0 or size == 0:
            path.unlink()
        elif (last := nonzero_end(path, kept, size)) > kept:
            zero(path, kept, last - kept)


def cut_index_files(
    directory: Path, slots: int, items: int, compat: str, store_timestamp_of: Callable[[int], int], end: int
) -> None:
    """Take back the items of records from ``end`` on. What is full before is not read."""
    is_cut = False
    for number, path in enumerate(index_paths(directory)):
        found = look_at_index(path, slots, items, end, lambda header: header.index_count >= items, is_flushed=True)
        was_being_made = number > 0 and path.stat().st_size > 0 and read_header(path) == NO_HEADER
        is_cut = is_cut or was_being_made or found.sound < found.total or not found.slots_agree
        if is_cut and found.sound == 0:  # also an empty one that begins where one ended that is cut
            path.unlink()
        elif is_cut:
            cut = IndexCut(path, found.sound, file_size(slots, found.sound + 1), 0)
            cut_index(cut, slots, items, compat, store_timestamp_of)


# ---- when all is built -------------------------------------------------------------------------------------


def index_headers(directory: Path) -> list[IndexHeader]:
    """Give the headers of the index files of a directory, if there is one."""
    return [read_header(path) for path in index_paths(directory)] if directory.is_dir() else []


def name_index_files(made: Path, named: Path, zone: ZoneInfo | None) -> None:
    """Move each file to another directory, by the store time of its first item, and always after the one before it."""
    make_directory(named)
    if not made.is_dir():
        return
    last = max((path.name for path in index_paths(named)), default="")
    for path in index_paths(made):
        header = read_header(path)
        # One without items has the end of the one before it.
        second, millisecond = divmod(max(header.begin_timestamp or header.end_timestamp, 0), 1000)
        time = datetime.fromtimestamp(min(second, LAST_SECOND), zone).replace(microsecond=millisecond * 1000)
        last = index_file_name(time, last)
        path.rename(named / last)
    sync_path(named)
    made.rmdir()


def remove_other_topics(staging: Path, topics: Collection[str]) -> None:
    """Remove the queues that were built since messages of theirs are for queues of these topics, too."""
    for part in QUEUE_PARTS:
        for path in [*(staging / part).iterdir()] if (staging / part).is_dir() else []:
            if path.name not in topics:
                shutil.rmtree(path)


def can_swap(root: Path, staging: Path, state: dict[str, Any]) -> bool:
    """Whether a swap, if one was begun, can be gone on with: what is in its place already is what was built.

    Without ``abort`` the store was opened since, and may be another.
    """
    swapped = [part for part in state.get("made", ()) if not (staging / part).exists()]
    return not swapped or ((root / "abort").exists() and all((root / part).exists() for part in swapped))


def require_replaceable(root: Path, parts: Iterable[str]) -> None:
    """Raise StoreError for directories that cannot be renamed, or of which only a link would be."""
    advice = "build into a directory of its own (out=, on the command line --out), and move what is in it there"
    for path in (root / part for part in parts):
        if path.is_symlink():
            raise StoreError(f"{path}: is a symbolic link, which a real directory would replace: {advice}")
        place = next(place for place in (path, path.parent, root) if place.exists())
        if place.stat().st_dev != root.stat().st_dev:
            raise StoreError(f"{place}: is on another file system than {root}, so it cannot be replaced: {advice}")


def swap(root: Path, staging: Path, state: dict[str, Any], renamed: list[tuple[Path, Path]]) -> tuple[Path, ...]:
    """Put what was built in the place of the old directories. Killed in the middle, it is done again.

    Parameters: renamed: gets what is renamed, from and to, before it is.
    """
    backups: list[Path] = []
    for part in state["options"]["parts"]:
        made, old = staging / part, root / part
        *kept, free = backup_paths(root, part, state["time"])
        if made.exists():
            make_directory(old.parent)
            if old.exists():
                make_directory(free.parent)
                renamed.append((old, free))
                old.rename(free)
                sync_path(free.parent)
                kept.append(free)
            renamed.append((made, old))
            made.rename(old)
            sync_path(old.parent)
        backups += kept
    return tuple(backups)


def take_back(renamed: list[tuple[Path, Path]]) -> bool:
    """Rename all back, the last first. Returns whether the system let it."""
    try:
        for old, new in reversed(renamed):
            if new.exists() and not old.exists():
                new.rename(old)
                sync_path(new.parent)
                sync_path(old.parent)
    except OSError:
        return False
    return True


def backup_paths(root: Path, part: str, time: str) -> list[Path]:
    """Where a directory is kept, by the time of the swap, and where it can be.

    One that is kept already may have been made again, if the store was opened after the swap was killed.
    """
    first, *rest = Path(part).parts
    paths = [Path(root, f"{first}.bak-{time}", *rest)]
    while paths[-1].exists():
        time = index_file_name(datetime.now(), time)
        paths.append(Path(root, f"{first}.bak-{time}", *rest))
    return paths

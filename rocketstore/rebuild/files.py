"""The directories of a rebuild: index files get their names, and the new directories replace the old ones."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from datetime import datetime, tzinfo
from pathlib import Path

from rocketstore.disk.durable import make_directory, sync_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.index.index_directory import index_file_name, index_paths
from rocketstore.index.index_header import IndexHeader, read_header
from rocketstore.survey.places import StorePlaces

LAST_SECOND = 253_370_764_799  # of the year 9998, in any zone


def index_headers(directory: StorePath) -> list[IndexHeader]:
    """Return the headers of the index files of a directory, none if the directory is missing."""
    return [read_header(path) for path in index_paths(directory)] if directory.is_dir() else []


def name_index_files(made: Path, named: Path, zone: tzinfo | None) -> None:
    """Move index files to another directory, and name each by the store time of its first item, in ascending order."""
    make_directory(named)
    if not made.is_dir():
        return
    last = max((path.name for path in index_paths(named)), default="")
    for path in index_paths(made):
        header = read_header(path)
        # A file without items has the end of the file before it.
        second, millisecond = divmod(max(header.begin_timestamp or header.end_timestamp, 0), 1000)
        time = datetime.fromtimestamp(min(second, LAST_SECOND), zone).replace(microsecond=millisecond * 1000)
        last = index_file_name(time, last)
        path.rename(named / last)
    sync_path(named)
    made.rmdir()


def remove_other_topics(staging: Path, topics: Collection[str]) -> None:
    """Remove the queues of other topics. They were built because any message may be for queues of these topics."""
    for part in StorePlaces.of(staging).queue_parts:
        for path in [*part.iterdir()] if part.is_dir() else []:
            if path.name not in topics:
                shutil.rmtree(path)


def require_replaceable(root: Path, parts: Iterable[str]) -> None:
    """Raise StoreError for a directory that cannot be renamed, or that is a link."""
    advice = "build into a directory of its own (out=, on the command line --out), and move what is in it there"
    for path in (root / part for part in parts):
        if path.is_symlink():
            raise StoreError(f"{path}: is a symbolic link, which a real directory would replace: {advice}")
        place = next(place for place in (path, path.parent, root) if place.exists())
        if place.stat().st_dev != root.stat().st_dev:
            raise StoreError(f"{place}: is on another file system than {root}, so it cannot be replaced: {advice}")


def swap(root: Path, staging: Path, parts: Iterable[str], renamed: list[tuple[Path, Path]]) -> tuple[Path, ...]:
    """Rename each old directory to a backup, and the new one to its name. Return the backups.

    Parameters: renamed: gets both names of each directory, before and after, just before it is renamed.
    """
    backups: list[Path] = []
    time = index_file_name(datetime.now())
    for part in parts:
        made, old = staging / part, root / part
        if not made.exists():
            continue
        make_directory(old.parent)
        if old.exists():
            backup = backup_path(root, part, time)
            make_directory(backup.parent)
            renamed.append((old, backup))
            old.rename(backup)
            sync_path(backup.parent)
            backups.append(backup)
        renamed.append((made, old))
        made.rename(old)
        sync_path(old.parent)
    return tuple(backups)


def take_back(renamed: list[tuple[Path, Path]]) -> bool:
    """Rename all directories back, the last one first. Return whether the system allowed it."""
    try:
        for old, new in reversed(renamed):
            if new.exists() and not old.exists():
                new.rename(old)
                sync_path(new.parent)
                sync_path(old.parent)
    except OSError:
        return False
    return True


def backup_path(root: Path, part: str, time: str) -> Path:
    """Return the name of a backup that does not exist yet, by the time of the swap or a later one."""
    first, *rest = Path(part).parts
    while (path := Path(root, f"{first}.bak-{time}", *rest)).exists():
        time = index_file_name(datetime.now(), time)
    return path

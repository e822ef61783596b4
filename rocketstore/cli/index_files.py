"""Find the index files of a path from the command line, and look up a key in them."""

from pathlib import Path

import click

from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.index import index_directory
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import IndexService, IndexType
from rocketstore.survey.sizes import hint_at_store


def index_paths(path: Path) -> list[Path]:
    """Return the index files of a path, oldest first: the file itself, or the files of the directory.

    Raises ClickException if there is no index file.
    """
    paths = [path]
    if path.is_dir():
        paths = index_directory.index_paths(path)
    paths = [path for path in paths if not is_offset_name(path.name)]  # these are files of a log or queue
    if not paths:
        hint = hint_at_store(path) or ": give a store, its index directory, or one of the files there"
        raise click.ClickException(f"{path}: no store and no index files here{hint}")
    return paths


def find_offsets(
    path: Path,
    geometry: IndexGeometry | None,
    topic: str,
    key: str,
    limits: tuple[int, int, int],
    index_type: IndexType | None,
) -> list[int]:
    """Return the physical offsets of a key in an index directory or an index file.

    Parameters: limits: the largest number of offsets, and the first and the last time, epoch milliseconds.
    """
    slots, items = geometry or (None, None)
    index_paths(path)
    if path.is_dir():
        with IndexService.open(path, hash_slot_num=slots, index_num=items) as index:
            return index.query_offset(topic, key, *limits, index_type=index_type).phy_offsets
    with IndexFile.open(path, hash_slot_num=slots, index_num=items) as file:
        return file.select_phy_offset(f"{topic}#T#{key}" if index_type == "T" else f"{topic}#{key}", *limits)

"""Opening what a user names: an index directory, or one index file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from rocketstore.files.index_file import IndexFile
from rocketstore.store.index_service import IndexService

__all__ = ["find_offsets", "index_paths", "open_index_file", "open_index_files"]


def index_paths(path: Path) -> list[Path]:
    """Return the index files that a path names, oldest first. Raises ClickException if it names none."""
    if not path.is_dir():
        return [path]
    paths = sorted(child for child in path.iterdir() if child.name.isdecimal() and child.is_file())
    if not paths:
        hint = "give a store, its index directory, or one of the files there"
        raise click.ClickException(f"{path}: no store and no index files here: {hint}")
    return paths


@contextmanager
def name_the_options() -> Iterator[None]:
    """Name the options, not the parameters, where a geometry does not follow from a file."""
    try:
        yield
    except ValueError as error:
        message = str(error).replace("hash_slot_num and index_num", "--slots and --items")
        raise click.ClickException(message) from error


def open_index_file(path: Path, hash_slot_num: int | None, index_num: int | None) -> IndexFile:
    """Open one file for reading."""
    with name_the_options():
        return IndexFile.open(path, hash_slot_num=hash_slot_num, index_num=index_num)


def open_index_files(path: Path, hash_slot_num: int | None, index_num: int | None) -> IndexService:
    """Open the files of a directory for reading, all of one geometry."""
    index_paths(path)
    with name_the_options():
        return IndexService.open(path, hash_slot_num=hash_slot_num, index_num=index_num)


def find_offsets(path: Path, geometry: tuple[int | None, int | None], question: tuple[str, str, int, int, int],
                 index_type: str | None) -> list[int]:
    """Look into a directory or a file: ``question`` is topic, key, how many at most, first and last time."""
    if path.is_dir():
        with open_index_files(path, *geometry) as index:
            return index.query_offset(*question, index_type=index_type).phy_offsets
    topic, key, *limits = question
    with open_index_file(path, *geometry) as file:
        return file.select_phy_offset(f"{topic}#T#{key}" if index_type == "T" else f"{topic}#{key}", *limits)

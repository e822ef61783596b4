"""Opening what a user names: an index directory, or one index file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from rocketstore.files.index_file import IndexFile
from rocketstore.store.index_service import IndexService

__all__ = ["index_paths", "name_the_options", "open_index_file", "open_index_files"]


def index_paths(path: Path) -> list[Path]:
    """Return the index files that a path names, oldest first. Raises ClickException if it names none."""
    if not path.is_dir():
        return [path]
    paths = sorted(child for child in path.iterdir() if child.name.isdecimal() and child.is_file())
    if not paths:
        below = path / "index"
        hint = f"try {below}" if below.is_dir() else "give a broker's index directory, or one of its files"
        raise click.ClickException(f"{path}: no index files here: {hint}")
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

"""Check the file that a command writes, before and after the store is read."""

from collections.abc import Iterable
from pathlib import Path

import click

from rocketstore.disk.remote.remote_path import RemotePath
from rocketstore.disk.storage import is_remote, local_path
from rocketstore.disk.store_path import StorePath


class FileIsThere(click.ClickException):
    """The file exists, and the command was not told to replace it."""

    def __init__(self, path: StorePath) -> None:
        super().__init__(f"{path}: exists: give another name, or --force to replace it")


def require_file_name(path: Path) -> None:
    """Raise ClickException if a command cannot write a file of this name, or would replace what is no regular file."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise click.ClickException(f"{path}: exists, and is not a regular file: give another name")
    if not path.absolute().parent.is_dir():
        raise click.ClickException(f"{path.parent}: no such directory: make it, or give another name")


def require_outside_stores(path: StorePath, roots: Iterable[StorePath]) -> None:
    """Raise ClickException if a file is in a directory of a store. A broker does not start beside a file in its log."""
    for root in roots:
        if _is_in_directory_of(path, root):
            raise click.ClickException(f"{path}: is inside the store {root}: give a name elsewhere")


def _is_in_directory_of(path: StorePath, root: StorePath) -> bool:
    """Return whether a file is in a directory of a root. A broker ignores a file that is in the root itself."""
    if isinstance(path, RemotePath):
        return path.parent != root and path.parent.is_within(root)
    if is_remote(root):
        return False
    return local_path(root).resolve() in local_path(path).absolute().parent.resolve().parents

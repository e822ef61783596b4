"""Check the file that a command writes, before and after the store is read."""

from pathlib import Path

import click


class FileIsThere(click.ClickException):
    """The file exists, and the command was not told to replace it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: exists: give another name, or --force to replace it")


def require_file_name(path: Path) -> None:
    """Raise ClickException if a command cannot write a file of this name, or would replace what is no regular file."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise click.ClickException(f"{path}: exists, and is not a regular file: give another name")
    if not path.absolute().parent.is_dir():
        raise click.ClickException(f"{path.parent}: no such directory: make it, or give another name")

"""Copy directories of a store that do not depend on physical offsets."""

from __future__ import annotations

from pathlib import Path

from rocketstore.disk.durable import make_directory
from rocketstore.disk.held_file import copy_file


def copy_tree(old: Path, new: Path) -> None:
    """Copy a directory with all files and directories in it; links are not followed. Nothing if it is missing."""
    if not old.is_dir() or old.is_symlink():
        return
    make_directory(new)
    for path in sorted(old.iterdir()):
        if path.is_dir():
            copy_tree(path, new / path.name)
        elif path.is_file() and not path.is_symlink():
            copy_file(path, new / path.name)

"""Transactions: which batches of an application are stored, so that a repeated batch is stored only once.

A committed batch leaves the file ``rocketstore-transactions/APPLICATION-VERSION.json`` under the root. The file is the
intent of the write itself, which is renamed when all records are on the disk. So one rename both ends the write and
saves its version: no crash can be between the two. A broker ignores the directory.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from rocketstore.disk.durable import make_directory, sync_path
from rocketstore.disk.held_directory import HeldDirectory, rename_path, unlink_path
from rocketstore.limits import LONG_MAX

DIRECTORY = "rocketstore-transactions"


class Transaction(NamedTuple):
    """A batch of an application. Attributes: app: the application's id; version: 0 or more, growing with each batch."""

    app: str
    version: int

    @classmethod
    def of(cls, app: object, version: object) -> Transaction:
        """Check an id and a version. Raises: ValueError."""
        if not isinstance(app, str) or not app:
            raise ValueError(f"the id of an application must be a string that is not empty, not {app!r}")
        if type(version) is not int or not 0 <= version <= LONG_MAX:
            raise ValueError(f"the version of a transaction must be an integer from 0 to {LONG_MAX}, not {version!r}")
        return cls(app, version)


def last_version(root: Path, app: str) -> int:
    """Return the greatest version that an application has committed to a store; -1 without one. Raises: OSError.

    Parameters: root: of the store.
    """
    return max((version for version, _ in _committed(root, app)), default=-1)


def commit_transaction(root: Path, transaction: Transaction, intent: Path, held: HeldDirectory | None = None) -> None:
    """End a write whose records are on the disk, and save its version, in one step.

    Parameters: intent: the file of the write's intent, which is renamed. held: the root, below which files are found;
    None to use their paths.
    Raises: OSError: then the intent has its old name again, and the version is not saved.
    """
    directory = root / DIRECTORY
    make_directory(directory, held)
    committed = _path(root, transaction)
    older = [path for version, path in _committed(root, transaction.app) if version < transaction.version]
    rename_path(intent, committed, held)
    try:
        sync_path(directory, held)
        sync_path(root, held)
    except BaseException:
        rename_path(committed, intent, held)
        raise
    for path in older:
        with contextlib.suppress(OSError):  # the greatest version counts
            unlink_path(path, held)


def _path(root: Path, transaction: Transaction) -> Path:
    return root / DIRECTORY / f"{_name(transaction.app)}-{transaction.version:019}.json"


def _name(app: str) -> str:
    import hashlib  # takes long to import, and readers need no hash

    return hashlib.sha256(app.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _committed(root: Path, app: str) -> list[tuple[int, Path]]:
    """Return the versions that an application has committed, with their files."""
    pattern = re.compile(rf"{_name(app)}-([0-9]{{19}})\.json")
    try:
        names = os.listdir(root / DIRECTORY)  # noqa: PTH208
    except FileNotFoundError:
        return []
    found = ((pattern.fullmatch(name), name) for name in names)
    return [(int(match[1]), root / DIRECTORY / name) for match, name in found if match is not None]

"""The file ``abort`` in the root of a store: while it exists, the store was not stopped cleanly."""

from __future__ import annotations

import os
from pathlib import Path

from rocketstore.disk.create import open_own_file
from rocketstore.disk.durable import sync_path

__all__ = ["make_abort"]


def make_abort(root: Path) -> None:
    """Write ``abort`` with the number of this process, and flush its directory.

    The file belongs to the owner of the store. A symbolic link in its place is replaced.
    Raises: OSError; CorruptFileError for a pipe or a device in its place. Source: DefaultMessageStore.createTempFile.
    """
    with os.fdopen(open_own_file(root / "abort"), "w") as file:
        file.truncate()
        file.write(str(os.getpid()))
    sync_path(root)  # without it, a loss of power could look like a clean stop

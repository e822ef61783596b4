"""The file system of a directory."""

from __future__ import annotations

import os
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
IN_MEMORY = ("tmpfs", "ramfs")


def is_in_memory(path: Path) -> bool:
    """Return whether files of a directory are in memory; False if that is not known.

    There, reading a hole through a mapping takes memory. If there is no room, the read fails as that of a broken disk.
    """
    try:
        device = path.stat().st_dev
        mounts = MOUNTS.read_text("utf-8", "replace")
    except OSError:
        return False
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        place, _, kind = line.partition(" - ")
        if wanted in place.split(" ")[2:3]:
            return kind.split(" ")[0] in IN_MEMORY
    return False

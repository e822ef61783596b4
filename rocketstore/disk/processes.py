"""Query other processes of this machine: whether a process runs, when it began, and which files it has open."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

PROC = Path("/proc")  # missing on macOS, where it is only known whether a process runs
STATE, START = 0, 19  # places of the fields behind the name of the program in /proc/PID/stat
ENDED = ("Z", "X")
DELETED = " (deleted)"


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie, which has ended and is still listed, does not run."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # the process of another user runs
        pass
    fields = _read_stat(pid)
    return fields is None or fields[STATE] not in ENDED


def start_time(pid: int) -> float | None:
    """Return when a process began, seconds since the epoch; None if it is unknown."""
    fields = _read_stat(pid)
    with contextlib.suppress(OSError, ValueError, IndexError):
        booted = re.search(r"^btime (\d+)$", (PROC / "stat").read_text(), re.MULTILINE)
        if fields is not None and booted is not None:
            return int(booted[1]) + int(fields[START]) / os.sysconf("SC_CLK_TCK")
    return None


def read_command(pid: int) -> str | None:
    """Return the command line of a process; None if the system does not show it."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return None


def has_files_open(pid: int, directory: Path, deleted_name: str) -> bool | None:
    """Return whether a process has files of a directory open or mapped.

    A process with an open, deleted file of a given name on the disk of the directory counts too: the directory of that
    file may have been moved. Parameters: deleted_name: this name. Returns: None if the system does not show the files.
    """
    place = PROC / str(pid)
    prefix = os.path.realpath(directory).rstrip("/") + "/"
    try:
        mapped = re.findall(r"^(?:\S+\s+){5}(/.*)$", os.fsdecode((place / "maps").read_bytes()), re.MULTILINE)
        descriptors = list((place / "fd").iterdir())
    except OSError:
        return None
    opened = [(link, path) for link in descriptors if (path := _read_link(link)) is not None]
    if any(path.startswith(prefix) for path in (*mapped, *(path for _, path in opened))):
        return True
    deleted = [link for link, path in opened if path.endswith(f"/{deleted_name}{DELETED}")]
    return any(_device_of(link) == _device_of(directory) for link in deleted)


def _read_stat(pid: int) -> list[str] | None:
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return None


def _read_link(path: Path) -> str | None:
    with contextlib.suppress(OSError):  # it was closed just now
        return str(path.readlink())
    return None


def _device_of(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_dev
    return None

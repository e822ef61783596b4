"""The file ``abort`` in the root of a store: while it exists, the store was not stopped cleanly.

Newer brokers write the number of their process into it.
"""

from __future__ import annotations

import os
from pathlib import Path

from rocketstore.disk.create import open_own_file
from rocketstore.disk.durable import sync_path
from rocketstore.disk.held_directory import HeldDirectory, unlink_path
from rocketstore.disk.processes import has_files_open, is_alive, read_command, start_time
from rocketstore.disk.small_file import read_file_start
from rocketstore.errors import CorruptFileError, StoreLockedError
from rocketstore.state.lock_file import is_held

MAX_PID_DIGITS = 10
WRITERS = ("java", "rocketmq", "python")  # words in the command lines of programs that write stores
START_SLACK = 2  # seconds by which the time of a file and the start of a process may be off


def make_abort(abort: Path, held: HeldDirectory | None = None) -> None:
    """Write ``abort`` with the number of this process, and flush its directory.

    The file belongs to the owner of the store. A symbolic link in its place is replaced.
    Parameters: abort: the path of the file. held: the root as it was opened; None to find it by its path.
    Raises: OSError; CorruptFileError for a pipe or a device in its place. Source: DefaultMessageStore.createTempFile.
    """
    with os.fdopen(open_own_file(abort, held), "w") as file:
        file.truncate()
        file.write(str(os.getpid()))
    sync_path(abort.parent, held)  # without it, a loss of power could look like a clean stop


def remove_abort(abort: Path, held: HeldDirectory | None = None) -> None:
    """Remove ``abort``, and flush its directory.

    Parameters: as for ``make_abort``. Raises: OSError. Source: DefaultMessageStore.shutdown.
    """
    unlink_path(abort, held, missing_ok=True)
    sync_path(abort.parent, held)


def require_no_writer(abort: Path, lock: Path) -> None:
    """Raise StoreLockedError if the process in ``abort`` still writes a store whose ``lock`` was deleted or replaced.

    Without its ``lock``, only ``abort`` names the writer. If this process holds the lock, the lock itself
    reports it.

    Parameters: abort, lock: the paths of the two files in the root of one store.
    """
    if is_held(lock):
        return
    pid = read_pid(abort)
    if pid is not None and pid != os.getpid() and is_writer(pid, abort, lock.name):
        raise StoreLockedError(
            f"{abort}: process {pid} has the store open for writing, but {lock} was deleted or "
            f"replaced: stop this process first. If it is another program, write 0 into {abort} and repeat"
        )


def read_pid(abort: Path) -> int | None:
    """Return the number of a process in ``abort``; None without one. Older brokers leave the file empty."""
    try:
        text = read_file_start(abort, MAX_PID_DIGITS + 1).strip()
    except (OSError, CorruptFileError):
        return None
    return int(text) if text.isdigit() and len(text) <= MAX_PID_DIGITS and int(text) > 0 else None


def is_writer(pid: int, abort: Path, lock_name: str) -> bool:
    """Return whether a process may be the one that wrote ``abort`` and still runs.

    Systems reuse the numbers of processes, a container at its next start. So the process must have files of the store
    open. If the system does not show its files, two conditions replace this one: the process began before ``abort`` was
    written, and its command line is that of a broker or of Python.

    Parameters: lock_name: of the store's lock, which may have been deleted while the process has it open.
    """
    if not is_alive(pid):
        return False
    has_files = has_files_open(pid, abort.parent, lock_name)
    if has_files is not None:
        return has_files
    command = read_command(pid)
    if command is not None and not any(word in command.lower() for word in WRITERS):
        return False
    began = start_time(pid)
    return began is None or began <= abort.stat().st_mtime + START_SLACK

"""Files of a store that are open since before the first byte was copied, so that a broker cannot delete their bytes."""

from __future__ import annotations

import contextlib
import errno
import resource
from collections.abc import Iterable, Iterator

from rocketstore.disk.held_file import HeldFile
from rocketstore.disk.storage import scandir
from rocketstore.disk.store_path import StorePath


def hold_files(found: Iterable[tuple[StorePath, str]], stack: contextlib.ExitStack) -> list[HeldFile]:
    """Open files, given as paths and names in the new store. A file that has just been deleted is left out.

    Parameters: stack: closes them. Raises: OSError, also if the process may not open so many files.
    """
    held = []
    for path, name in found:
        try:
            file = HeldFile(path, name)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            reason = f"a copy opens every file of the store, and this process may open {_limit()}: raise ulimit -n"
            raise OSError(errno.EMFILE, reason, str(path)) from None
        stack.callback(file.close)
        held.append(file)
    return held


@contextlib.contextmanager
def many_descriptors() -> Iterator[None]:
    """Let the process open as many files as the system allows, until the end of a ``with`` block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def find_files(directory: StorePath, name: str) -> Iterator[tuple[StorePath, str]]:
    """Yield all files below a directory with their names in the new store. Links are followed. None if missing."""
    try:
        with scandir(directory) as entries:
            found = sorted((entry.name, entry.is_dir(), entry.is_file()) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for child, is_directory, is_file in found:
        if is_directory:
            yield from find_files(directory / child, f"{name}/{child}")
        elif is_file:
            yield directory / child, f"{name}/{child}"

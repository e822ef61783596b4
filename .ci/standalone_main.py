"""The ``__main__`` of the self-contained command: unpack its packages once, and run ``rocketstore`` with them.

Python imports no compiled modules from an archive. So the packages are unpacked below ``~/.cache/rocketstore``, or in
the directory that ``ROCKETSTORE_UNPACKED`` names. If nothing can be written there, they are unpacked into a temporary
directory, which is removed at the end.
"""

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from standalone_build import DIGEST, LIBRARIES, SUFFIX  # .ci/standalone.py adds this module


def require_this_python() -> None:
    """Exit if this Python cannot load the compiled modules of the archive."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if suffix != SUFFIX:
        sys.exit(
            f"Error: this file has modules of Python that end in {SUFFIX}. Those of {sys.executable} end in {suffix}. "
            "Run the file with the Python that its name shows, or use the file of your Python."
        )


def cache_directory() -> Path:
    """Return the directory below which the packages are unpacked."""
    if "ROCKETSTORE_UNPACKED" in os.environ:
        return Path(os.environ["ROCKETSTORE_UNPACKED"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "rocketstore")


def unpack(archive: Path, directory: Path) -> None:
    """Unpack the packages of the archive into an empty directory."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(directory, [name for name in file.namelist() if name.startswith("packages/")])


def find_unpacked(archive: Path) -> Path:
    """Return the directory into which the archive is unpacked. Unpack it, if no earlier call has."""
    complete = cache_directory() / DIGEST
    if is_own(complete):
        return complete
    try:
        complete.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unpacking-", dir=complete.parent))
    except (OSError, RuntimeError):  # RuntimeError: without a home
        return unpack_temporarily(archive)
    try:
        unpack(archive, unfinished)
        unfinished.rename(complete)  # a directory of this name is complete
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not is_own(complete):  # another process may have been first
            return unpack_temporarily(archive)
    return complete


def is_own(directory: Path) -> bool:
    """Return whether a directory exists and is this user's. Nobody else may choose the code that is run."""
    try:
        return directory.stat().st_uid == os.getuid()
    except OSError:
        return False


def unpack_temporarily(archive: Path) -> Path:
    """Unpack the archive into a temporary directory, which is removed at the end, and return it."""
    directory = Path(tempfile.mkdtemp(prefix="rocketstore-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    try:
        unpack(archive, directory)
    except OSError as error:
        sys.exit(f"Error: {directory}: {error.strerror}: set ROCKETSTORE_UNPACKED to a directory with 100 MB of room")
    return directory


def load_missing_libraries(directory: Path) -> None:
    """Load the libraries of the archive that this host lacks, before NumPy needs them."""
    import ctypes

    for name in LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            if (directory / name).exists():
                ctypes.CDLL(str(directory / name), mode=ctypes.RTLD_GLOBAL)


def main() -> None:
    """Run the command line."""
    require_this_python()
    packages = find_unpacked(Path(__file__).resolve().parent) / "packages"
    sys.path.insert(0, str(packages))
    load_missing_libraries(packages / "lib")
    from rocketstore.cli import main as run

    run()


if __name__ == "__main__":
    main()

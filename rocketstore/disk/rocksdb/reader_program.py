"""The command of the child process that reads a RocksDB, and why there may be none."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

PACKAGE, EXTRA = "rocksdict", "rocksdb"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
CHECK = f"import sysconfig, {PACKAGE}; raise SystemExit(bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
CHECK_SECONDS = 30


def find_missing_reader() -> str | None:
    """Return why no RocksDB can be read here, with what to do; None if it can be read."""
    if not sys.executable:
        return "a RocksDB is read by another Python process, and the path of this Python is unknown (sys.executable)"
    if _is_free_threaded():
        if _find_ordinary_python() is not None:
            return None
        needed = f"python{VERSION} -m pip install {PACKAGE}"
        return f"{PACKAGE} has no wheel for free-threaded Python: an ordinary Python beside it reads RocksDB: {needed}"
    if importlib.util.find_spec(PACKAGE) is None:
        return f'reading RocksDB needs {PACKAGE}: pip install "rocketstore[{EXTRA}]"'
    return None


def reader_command(directory: Path, memory: int) -> list[str]:
    """Return the command of a child process. Parameters: directory: with links to the files of a RocksDB."""
    from rocketstore.disk.rocksdb import child  # few stores have a RocksDB

    python, package = sys.executable, ""
    if _is_free_threaded():
        python = _find_ordinary_python() or python
    else:
        found = importlib.util.find_spec(PACKAGE)
        package = str(Path(found.origin).parent.parent) if found is not None and found.origin else ""
    return [python, "-P", child.__file__, str(directory), str(memory), package]


def _is_free_threaded() -> bool:
    import sysconfig  # takes long to import

    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@functools.cache
def _find_ordinary_python() -> str | None:
    """Return an ordinary Python of this version that has the package."""
    import shutil  # takes long to import

    name = f"python{VERSION}"
    for python in (str(Path(sys.base_prefix, "bin", name)), shutil.which(name)):
        if python is not None and Path(python).exists() and _has_package(python):
            return python
    return None


def _has_package(python: str) -> bool:
    import subprocess  # takes long to import

    try:
        command = [python, "-P", "-c", CHECK]
        return subprocess.run(command, capture_output=True, timeout=CHECK_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False

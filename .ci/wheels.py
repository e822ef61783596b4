"""Build a wheel from an sdist with each CPython of this machine, and test each wheel away from the source tree.

Usage: ``.ci/wheels.py SDIST``. The wheels are written beside the sdist. A wheel is tested with nothing but NumPy and
pytest. The tests also show which golden files they read. The sdist must not contain other golden files. Each wheel of
Linux is also made a self-contained command, in the directory ``standalone`` beside the sdist, and tested as one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from standalone import make_standalone

TREE = Path(__file__).parent.parent
BUILD = TREE / "build" / "wheel"
MARKERS = "not slow and not interop and not java and not spark"
# A Python that can build a wheel prints its name, as 3.14t. It must have pip and the headers of C.
QUESTION = """
import ensurepip, pathlib, sys, sysconfig
is_supported = sys.implementation.name == "cpython" and sys.version_info >= (3, 11)
is_final = sys.version_info[3] == "final"
has_headers = pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()
threads = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
if is_supported and is_final and has_headers:
    print(f"{sys.version_info[0]}.{sys.version_info[1]}{threads}")
"""


def find_pythons() -> dict[str, Path]:
    """Return a CPython of each supported version by its name, as 3.12 or 3.14t, from PATH and from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    directories = [Path(part) for part in os.get_exec_path()] + sorted(pyenv.glob("versions/*/bin"), reverse=True)
    found: dict[str, Path] = {}
    for directory in directories:
        for python in sorted(directory.glob("python3.*")):
            if not re.fullmatch(r"python3\.\d+t?", python.name):
                continue
            answer = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, check=False)
            if answer.returncode == 0 and answer.stdout.strip():  # a shim of pyenv fails if its version is not selected
                found.setdefault(answer.stdout.strip(), python)
    return dict(sorted(found.items()))


def build_wheel(name: str, python: Path, sdist: Path) -> Path:
    """Build the wheel of one Python beside the sdist, and return its path."""
    environment = BUILD / name
    subprocess.run([python, "-m", "venv", environment], check=True)
    before = set(sdist.parent.glob("*.whl"))
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", sdist.parent, sdist], check=True)
    (wheel,) = set(sdist.parent.glob("*.whl")) - before
    subprocess.run([*pip, "install", "numpy", "pytest", wheel], check=True)
    return wheel


def show_wheel(wheel: Path) -> None:
    """Print the platforms on which a wheel of Linux runs. Exit if it needs a library that other machines lack."""
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=True
    ).stdout
    print(shown)
    if "manylinux_" not in shown.replace("\n", " "):
        sys.exit(f"{wheel.name}: is no manylinux wheel. Link only the libraries that manylinux allows.")


def test_wheel(name: str, wheel: Path, sdist: Path) -> set[str]:
    """Run the tests of the sdist on the installed wheel. Return the names of the golden files that the tests read."""
    pytest = BUILD / name / "bin" / "pytest"
    environment = {**os.environ, "ROCKETSTORE_WHEEL": str(wheel), "PYTHONPATH": ""}
    subprocess.run([pytest, "-q", "tests/project/test_packaging.py"], cwd=TREE, env=environment, check=True)
    with tempfile.TemporaryDirectory() as away:
        shutil.unpack_archive(sdist, away)
        (unpacked,) = Path(away).iterdir()
        for path in unpacked.iterdir():
            if path.name not in ("tests", "examples", "pyproject.toml"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        read = Path(away) / "golden.json"
        environment |= {"ROCKETSTORE_GOLDEN_READ": str(read)}
        subprocess.run(
            [pytest, "-q", "-p", "support.golden_reads", "-m", MARKERS],
            cwd=unpacked,
            env=environment | {"PYTHONPATH": str(unpacked / "tests")},
            check=True,
        )
        return set(json.loads(read.read_text(encoding="utf-8")))


def test_standalone(name: str, wheel: Path) -> None:
    """Make the self-contained command of a wheel, and run its tests with the Python of the wheel."""
    command = make_standalone(wheel, wheel.parent / "standalone")
    if command is None:
        return
    print(f"{command.name}: {command.stat().st_size:,} bytes", flush=True)
    environment = {**os.environ, "ROCKETSTORE_STANDALONE": str(command), "PYTHONPATH": ""}
    pytest = BUILD / name / "bin" / "pytest"
    subprocess.run([pytest, "-q", "tests/project/test_standalone.py"], cwd=TREE, env=environment, check=True)


def golden_files(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        names = [member.name.partition("/tests/golden/")[2] for member in archive if member.isfile()]
    return {name for name in names if name and not name.endswith("README.md")}


def main() -> None:
    sdist = Path(sys.argv[1]).resolve()
    pythons = find_pythons()
    print(f"{sdist.name}: building wheels with CPython {', '.join(pythons)}", flush=True)
    wheels = {name: build_wheel(name, python, sdist) for name, python in pythons.items()}
    for wheel in wheels.values():
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes", flush=True)
        if sys.platform == "linux":
            show_wheel(wheel)
    read: set[str] = set()
    for name, wheel in wheels.items():
        print(f"testing {wheel.name}", flush=True)
        read |= test_wheel(name, wheel, sdist)
        test_standalone(name, wheel)
    if unread := golden_files(sdist) - read:
        sys.exit(
            f"{sdist.name}: no test of the wheels reads these golden files: {', '.join(sorted(unread))}. "
            "Exclude them in MANIFEST.in."
        )


if __name__ == "__main__":
    main()

"""The types that a user's program sees, by mypy and pyright."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rocketstore

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = Path(rocketstore.__file__).parent.parent


def errors_of_mypy(path, cache):
    """Return the numbers of the lines with errors."""
    pytest.importorskip("mypy")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-pretty",
        "--no-error-summary",
        "--config-file=",
        f"--cache-dir={cache}",
        str(path),
    ]
    environment = os.environ | {"MYPYPATH": str(SOURCES)}
    output = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment, cwd=cache
    ).stdout
    found = re.findall(rf"{path.name}:(\d+): error: (.*)", output)
    return sorted({int(line) for line, _ in found}), output


def errors_of_pyright(path, cache):
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed: pip install 'pyright[nodejs]'")
    (cache / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(SOURCES)]}))
    shutil.copy(path, cache)
    command = [pyright, "--outputjson", "--pythonpath", sys.executable, "-p", str(cache)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=cache).stdout
    rows = json.loads(output)["generalDiagnostics"]
    (cache / path.name).unlink()
    return sorted({row["range"]["start"]["line"] + 1 for row in rows if row["severity"] == "error"}), output


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("checker")


@pytest.mark.slow
@pytest.mark.parametrize("check", [errors_of_mypy, errors_of_pyright])
def test_a_users_program_has_the_types_that_it_asserts(check, cache):
    lines, output = check(PROGRAMS / "user.py", cache)
    assert lines == [], output


@pytest.mark.slow
@pytest.mark.parametrize("check", [errors_of_mypy, errors_of_pyright])
def test_a_users_mistakes_are_reported_line_by_line(check, cache):
    path = PROGRAMS / "wrong.py"
    expected = [n for n, line in enumerate(path.read_text().splitlines(), 1) if "# wrong" in line]
    lines, output = check(path, cache)
    assert lines == expected, output

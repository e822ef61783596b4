"""The quick start, every page and the notebook run in new virtual environments that have the built wheel.

An environment has the packages that the pages tell a reader to install, in the releases of this environment, from PyPI.
Nothing of the tree can be imported there: the tests run from a copy of the pages and the tests, without the package.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parent.parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.normal_build,
    pytest.mark.skipif(not (TREE / ".ci").exists(), reason="tested away from the source tree"),
]

PAGES_AND_TESTS = "README.md", "docs", "examples", ".ci", "tests", "bench/results.json", "pyproject.toml"
NOTEBOOK = "nbclient", "ipykernel", "matplotlib"  # of the notebook, beside extras
SECONDS = 3000  # for a program


def named_packages(text):
    """Return the extras and the other packages that a page tells to install with pip."""
    extras, packages = set(), set()
    commands = re.findall(r"^pip install ([^#\n]+)", text, re.MULTILINE) + re.findall(r"`pip install ([^`]+)`", text)
    for command in commands:
        for word in re.findall(r"[^\s\"]+", command):
            name = re.fullmatch(r"(?P<package>rocketstore|\.|[a-z][\w-]*)(\[(?P<extras>[\w,]+)\])?", word)
            if name and name["package"] in ("rocketstore", "."):
                extras.update((name["extras"] or "").split(","))
            elif name:
                packages.add(word)
    return extras - {""}, packages


def run(command, cwd=None):
    """Run a program without this environment's paths. Return its output, which an error shows the end of."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ROCKETSTORE_"))}
    answer = subprocess.run(
        command,
        cwd=cwd,
        env=settings,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    assert answer.returncode == 0, f"{command}\n{answer.stdout[-6000:]}"
    return answer.stdout


def run_pip(python, *arguments):
    run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel that is built from a copy of the sources: the tree stays as it is. ``make wheel`` may name one."""
    if "ROCKETSTORE_WHEEL" in os.environ:
        yield Path(os.environ["ROCKETSTORE_WHEEL"])
        return
    directory = tmp_path_factory.mktemp("wheel")
    sources = directory / "sources"
    leave_out = shutil.ignore_patterns("*.so", "__pycache__")
    for name in ("rocketstore", "pyspark_rocketstore", "csrc"):
        shutil.copytree(TREE / name, sources / name, ignore=leave_out)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(TREE / name, sources)
    run_pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", directory, sources)
    [found] = directory.glob("*.whl")
    yield found
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def constraints(tmp_path_factory):
    """A file with the releases of the packages of this environment, so that each run has the same ones."""
    path = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    found = {package.metadata["Name"]: package.version for package in importlib.metadata.distributions()}
    found.pop("rocketstore", None)
    path.write_text("".join(f"{name}=={version}\n" for name, version in sorted(found.items())), encoding="utf-8")
    return path


@pytest.fixture
def make_environment(wheel, constraints, tmp_path):
    """A function that makes a virtual environment with the wheel, extras and packages, and returns its Python."""
    directory = tmp_path / "environment"

    def make(extras, packages):
        run([sys.executable, "-m", "venv", directory])
        python = directory / "bin" / "python"
        wanted = [f"{wheel}[{','.join(sorted(extras))}]", *sorted(packages), "pytest"]
        run_pip(python, "install", "--constraint", constraints, *wanted)
        return python

    yield make
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def away(tmp_path):
    """A directory with a copy of the pages and the tests, and without the package."""
    directory = tmp_path / "away"
    for name in PAGES_AND_TESTS:
        source, target = TREE / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return directory


def run_tests(python, away, *arguments):
    """Run tests of the copy with the Python of an environment. Return what pytest prints."""
    places = run([python, "-P", "-c", "import rocketstore, sys; print(rocketstore.__file__, *sys.path)"])
    assert places.startswith(str(python.parent.parent))
    assert str(TREE) not in [*places.split()]
    command = [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={away.parent / 'base'}"]
    return run([*command, *arguments], away)


def skipped_in(output):
    """Return the lines on tests that were skipped for another reason than a missing Java."""
    return [line for line in output.splitlines() if line.startswith("SKIPPED") and "needs Java" not in line]


def test_the_quick_start_runs_with_the_extras_that_it_names(make_environment, away):
    extras, packages = named_packages((TREE / "docs" / "quick-start.md").read_text(encoding="utf-8"))
    assert (extras, packages) == ({"cli"}, set())
    output = run_tests(
        make_environment(extras, packages), away, "tests/project/test_docs.py", "-k", "the_quick_start_runs"
    )
    assert skipped_in(output) == []
    assert "1 passed" in output


def test_each_page_and_the_notebook_run_with_the_packages_that_pages_name(make_environment, away):
    texts = [path.read_text(encoding="utf-8") for path in (TREE / "README.md", *(TREE / "docs").rglob("*.md"))]
    extras, packages = named_packages("\n\n".join(texts))
    assert {"all", "cli", "rocksdb"} <= extras
    assert packages == {"duckdb", "fastavro", "s3fs", "pyspark[pipelines]"}
    python = make_environment(extras, {*packages, *NOTEBOOK})
    output = run_tests(python, away, "tests/project/test_docs.py", "tests/examples/test_notebook.py", "-m", "slow")
    assert skipped_in(output) == []
    assert " passed" in output

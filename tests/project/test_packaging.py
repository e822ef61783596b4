"""What surrounds the code agrees with it: versions, stubs, workflows, and the files of a wheel."""

import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import rocketstore
import rocketstore.kernels

TREE = Path(__file__).parent.parent.parent
WORKFLOWS = TREE / ".github" / "workflows"
IN_A_WHEEL = {".py", ".pyi", ".pxd", ".so", ".typed"}
MODULES = [module.name for module in pkgutil.iter_modules(rocketstore.kernels.__path__)]
KERNELS = [name for name in MODULES if not (Path(rocketstore.kernels.__path__[0]) / f"{name}.py").exists()]

in_the_tree = pytest.mark.skipif(not (TREE / "Makefile").exists(), reason="tested away from the source tree")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))


def public_names(module):
    """The functions and classes that a kernel defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def test_there_is_one_version(project):
    assert project["project"]["version"] == rocketstore.__version__


@in_the_tree
def test_the_changelog_has_an_entry_for_the_version():
    changelog = (TREE / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(rocketstore.__version__)}\]", changelog, re.MULTILINE)


def test_what_builds_the_package_is_in_the_group_that_builds_without_isolation(project):
    assert set(project["build-system"]["requires"]) <= set(project["dependency-groups"]["build"])


@in_the_tree
def test_every_package_is_listed(project):
    packages = {
        str(path.parent.relative_to(TREE)).replace("/", ".")
        for package in ("rocketstore", "pyspark_rocketstore")
        for path in (TREE / package).rglob("__init__.py")
    }
    assert packages == set(project["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_python_sees_has_a_stub(name):
    module = importlib.import_module(f"rocketstore.kernels.{name}")
    # Only other kernels use these modules, by cimport.
    for_kernels_only = {"arrow_c", "index_put", "inner_batch", "record_windows"}
    assert bool(public_names(module)) or name in for_kernels_only
    assert Path(module.__file__).with_name(f"{name}.pyi").exists() != (name in for_kernels_only)


# ---- workflows ---------------------------------------------------------------------------------------------


WORKFLOW_NAMES = ("ci.yml", "cluster.yml", "release.yml", "rocketmq.yml", "wheels.yml")


@pytest.fixture(params=WORKFLOW_NAMES)
def workflow(request):
    """The text of a workflow."""
    if not WORKFLOWS.is_dir():
        pytest.skip("tested away from the source tree")
    return (WORKFLOWS / request.param).read_text(encoding="utf-8")


@in_the_tree
def test_there_are_no_other_workflows():
    assert {path.name for path in WORKFLOWS.iterdir()} == {*WORKFLOW_NAMES}


def test_every_step_runs_a_make_target(workflow):
    makefile = (TREE / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())
    commands = re.findall(r"^\s*(?:-\s+)?run:\s*(.*)$", workflow, re.MULTILINE)
    assert commands
    for command in commands:
        make, target, *_ = command.split()
        assert make == "make"
        assert target in targets


def test_every_job_has_a_timeout_and_the_least_permissions(workflow):
    assert workflow.count("runs-on:") == workflow.count("timeout-minutes:") > 0
    assert "permissions:\n  contents: read\n" in workflow


def test_every_action_is_pinned_to_a_major_version(workflow):
    actions = re.findall(r"uses:\s*(\S+)", workflow)
    assert actions
    others = {"pypa/gh-action-pypi-publish@release/v1", "./.github/workflows/wheels.yml"}
    assert [name for name in actions if not re.fullmatch(r"actions/[a-z-]+@v\d+", name) and name not in others] == []


@in_the_tree
def test_only_two_jobs_have_more_permissions_than_reading():
    """The job that publishes may prove its identity, and the job of the GitHub release may write it."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in WORKFLOWS.iterdir()}
    found = {(name, line.split()[0]) for name, text in texts.items() for line in text.splitlines() if ": write" in line}
    assert found == {("release.yml", "id-token:"), ("release.yml", "contents:")}


@in_the_tree
def test_pypi_gets_sdist_and_wheels_and_the_github_release_gets_all_files():
    text = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    publish, github = text.partition("\n  publish:")[2].split("\n  github-release:")
    assert 'pattern: "{sdist,wheels-*}"' in publish
    assert "pattern:" not in github
    assert "needs: [publish, docs]" in github
    uploads = re.findall(
        r"name: ([\w-]+).*\n +path: (\S+)", (WORKFLOWS / "wheels.yml").read_text(encoding="utf-8") + text
    )
    assert {name.rstrip("-") for name, _ in uploads} == {"sdist", "wheels", "standalone", "docs"}


@in_the_tree
def test_make_test_all_leaves_out_only_the_tests_of_a_cluster_and_of_a_missing_java():
    makefile = (TREE / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^test-all: build.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    assert re.findall(r'\$\(PYTEST\) -m "(.*?)" \$\(ARGS\)', recipe) == ["not cluster$(NO_JAVA)"]


def test_a_release_candidate_is_marked_as_a_pre_release():
    makefile = TREE / "Makefile"
    if not makefile.exists():
        pytest.skip("tested away from the source tree")
    command = re.search(r"^\tgh release create .*$", makefile.read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert "$(if $(findstring rc,$(TAG)),--prerelease)" in command


# ---- the wheel ---------------------------------------------------------------------------------------------


needs_a_wheel = pytest.mark.skipif("ROCKETSTORE_WHEEL" not in os.environ, reason="make wheel names the wheel")


@needs_a_wheel
@in_the_tree
def test_a_wheel_holds_the_package_and_no_more():
    with zipfile.ZipFile(os.environ["ROCKETSTORE_WHEEL"]) as archive:
        names = [Path(name) for name in archive.namelist()]
    own = f"rocketstore-{rocketstore.__version__}.dist-info"
    assert {name.parts[0] for name in names} == {"rocketstore", "pyspark_rocketstore", own}
    assert {name.suffix for name in names if name.parts[0] == "rocketstore"} == IN_A_WHEEL
    built = {name.name.partition(".")[0] for name in names if name.suffix == ".so"}
    assert built == {path.stem for path in (TREE / "rocketstore" / "kernels").glob("*.pyx")}


@needs_a_wheel
def test_a_wheel_is_small_and_has_no_debug_information():
    wheel = Path(os.environ["ROCKETSTORE_WHEEL"])
    assert wheel.stat().st_size < 5_000_000
    with zipfile.ZipFile(wheel) as archive:
        libraries = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    assert [name for name, library in libraries.items() if b".debug_info" in library] == []


def test_the_command_runs_or_names_the_command_that_installs_what_it_needs():
    command = [sys.executable, "-m", "rocketstore", "--version"]
    answer = subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)
    missing = [name for name in ("click", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        assert answer.stderr == f'Error: {missing[0]} is missing: pip install "rocketstore[cli]"\n'
        assert answer.returncode == 2
    else:
        assert answer.stdout == f"rocketstore, version {rocketstore.__version__}\n"


def test_no_pattern_repeats_a_group_possessively():
    """Python 3.11.0 to 3.11.4 matches such patterns wrongly: it does not go back to where the group began."""
    package = Path(rocketstore.__file__).parent
    found = [path for path in package.rglob("*.py") if re.search(r"[^\\]\)[*+?]\+", path.read_text(encoding="utf-8"))]
    assert not found


def test_no_test_imports_a_module_by_the_path_of_the_tree():
    """The tests of a wheel run away from the tree, where the directory tests is no package that Python finds."""
    pattern = re.compile(r"^\s*(from|import) tests\b", re.MULTILINE)
    found = [path for path in (TREE / "tests").rglob("*.py") if pattern.search(path.read_text(encoding="utf-8"))]
    assert not found

"""The scripts of a release: tag, version and changelog agree, and a newer RocketMQ release is named."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent.parent / ".ci"

pytestmark = pytest.mark.skipif(not SCRIPTS.exists(), reason="tested away from the source tree")

CHANGELOG = """# Changelog

## [1.2.0] - 2026-11-27

### Added

- a cure

## [1.1.0] - 2026-10-01

- old
"""


def load(name):
    """A module of .ci, which may import a module beside it, as a script does."""
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    return tmp_path


def test_the_tag_of_a_release_is_its_version(tree):
    release = load("release")
    release.check_tag(tree, "v1.2.0")
    with pytest.raises(SystemExit, match=r"the version is 1\.2\.0, but the tag is v1\.3\.0"):
        release.check_tag(tree, "v1.3.0")


def test_this_tree_can_be_tagged():
    release = load("release")
    release.check_tag(SCRIPTS.parent, f"v{release.read_version(SCRIPTS.parent)}")


def test_a_version_without_a_date_is_not_released(tree):
    text = CHANGELOG.replace("2026-11-27", "not released yet")
    (tree / "CHANGELOG.md").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match="'not released yet'"):
        load("release").check_tag(tree, "v1.2.0")


@pytest.mark.parametrize("text", ["# Changelog\n", CHANGELOG.replace("1.2.0", "1.2.00")], ids=["none", "other"])
def test_a_version_without_a_heading_is_not_released(tree, text):
    (tree / "CHANGELOG.md").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match="no heading for version"):
        load("release").check_tag(tree, "v1.2.0")


def test_a_version_without_text_is_not_released(tree):
    (tree / "CHANGELOG.md").write_text("## [1.2.0] - 2026-11-27\n\n## [1.1.0] - 2026-10-01\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="has no text"):
        load("release").check_tag(tree, "v1.2.0")


def test_the_notes_of_a_release_are_its_section_of_the_changelog(tree):
    release = load("release")
    assert release.read_changes(tree, "1.2.0") == ("2026-11-27", "### Added\n\n- a cure\n")
    assert release.read_changes(tree, "1.1.0") == ("2026-10-01", "- old\n")


def test_newer_releases_of_rocketmq_are_named_in_order_and_candidates_are_not():
    versions = ("5.10.0", "5.9.0", "5.5.1", "4.9.8", "6.0.0-alpha", "5.11.0-rc1")
    metadata = "".join(f"<version>{version}</version>" for version in versions)
    release = load("release")
    assert release.newer_releases(metadata, "5.5.1") == ["5.9.0", "5.10.0"]
    assert release.newer_releases(metadata, "5.10.0") == []


def test_an_answer_without_the_proved_release_is_an_error():
    with pytest.raises(SystemExit, match=r"RocketMQ 5\.5\.1 is missing"):
        load("release").newer_releases("<html>moved</html>", "5.5.1")


def test_the_newest_proved_release_is_the_default_of_compat():
    release = load("release")
    from rocketstore.compat import DEFAULT_COMPAT

    assert release.newest_proved(SCRIPTS.parent) == DEFAULT_COMPAT


def test_pythons_are_found_by_version_and_broken_ones_are_left_out(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    answers = {
        first / "python3.12": "echo 3.12",
        second / "python3.12": "echo 3.12",
        second / "python3.11": "exit 127",  # a shim of pyenv
        second / "python3.10": "echo",
        second / "python3.14t": "echo 3.14t",
        second / "python3.12-config": "echo 3.12-config",
    }
    for path, command in answers.items():
        path.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{first}:{second}:/nowhere:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    found = load("wheels").find_pythons()
    assert found["3.12"] == first / "python3.12"
    assert found["3.14t"] == second / "python3.14t"
    assert "3.10" not in found
    assert second / "python3.11" not in found.values()

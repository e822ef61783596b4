"""``rocketstore report``: the file that it writes, and when it refuses to write it."""

import importlib
import subprocess
import sys

import pytest
from support import cli, report_store


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("cli-report") / "store"
    report_store.build(root)
    return root


def test_the_page_is_written(root, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    output = tmp_path / "report.html"
    result = cli.run("report", root, "-o", output)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{output}: {output.stat().st_size:,} bytes\n"
    assert output.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [*tmp_path.iterdir()] == [output]
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_file_is_replaced_only_with_force(root, tmp_path):
    output = tmp_path / "report.html"
    output.write_text("mine")
    cli.assert_one_line(cli.run("report", root, "-o", output), output, "exists", "--force")
    assert output.read_text() == "mine"
    assert cli.run("report", root, "-o", output, "--force").exit_code == 0
    assert output.stat().st_size > 50_000


def test_a_file_that_appears_while_the_store_is_read_is_not_replaced(root, tmp_path, monkeypatch):
    output = tmp_path / "report.html"

    def make_report(*arguments, **options):
        output.write_text("mine")
        return "page"

    monkeypatch.setattr(importlib.import_module("rocketstore.cli.transfer.report"), "make_report", make_report)
    cli.assert_one_line(cli.run("report", root, "-o", output), output, "exists", "--force")
    assert output.read_text() == "mine"
    assert cli.run("report", root, "-o", output, "--force").exit_code == 0
    assert output.read_text() == "page"


def test_what_is_no_file_is_refused_also_with_force(root, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "other")
    for output in (tmp_path, tmp_path / "link"):
        cli.assert_one_line(cli.run("report", root, "-o", output, "--force"), output, "not a regular file")
    cli.assert_one_line(cli.run("report", root, "-o", tmp_path / "none" / "report.html"), "no such directory")
    assert cli.run("report", root, "-o", "-").exit_code == 2
    assert cli.run("report", root).exit_code == 2


def test_the_page_needs_no_other_package_than_the_command(root, tmp_path):
    """The installation of README's first picture is that of the command."""
    program = f"""
import sys
from importlib.metadata import packages_distributions
import click, numpy, rich  # the extra "cli", and what the package needs
known = set(sys.modules)
sys.argv = ["rocketstore", "report", {str(root)!r}, "-o", {str(tmp_path / "report.html")!r}]
from rocketstore.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
names = {{name.partition(".")[0] for name in set(sys.modules) - known}}
print(sorted((names & packages_distributions().keys()) - {{"rocketstore", "click", "numpy", "rich"}}))
"""
    found = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_times_are_those_of_the_zone(root, tmp_path):
    output = tmp_path / "report.html"
    assert cli.run("report", root, "-o", output, "--tz", "Asia/Shanghai").exit_code == 0
    page = output.read_text(encoding="utf-8")
    assert "Times are in Asia/Shanghai." in page
    assert "<dt>first message</dt><dd>2023-11-15 06:13:20</dd>" in page
    result = cli.run("report", root, "-o", output, "--force", "--tz", "Asia/Shanhai")
    assert result.exit_code == 2
    assert "did you mean 'Asia/Shanghai'?" in result.stderr

"""``rocketstore metrics``: the text of Python, on standard output or in a file that is replaced at once."""

import pytest
from support import states
from support.cli import run

import rocketstore


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("dlq", tmp_path_factory.mktemp("states"))


def without_disk(text):
    return [line for line in text.splitlines() if "_disk_free" not in line and "_disk_used" not in line]


def test_metrics_are_written_to_standard_output_or_to_a_file(root, tmp_path):
    with rocketstore.open(root) as store:
        expected = without_disk(store.metrics().text())
    assert without_disk(run("metrics", root).stdout) == expected
    target = tmp_path / "store.prom"
    target.write_text("old")
    result = run("metrics", root, "-o", target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert without_disk(target.read_text()) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["store.prom"]


def test_a_file_in_a_missing_directory_is_refused(root, tmp_path):
    result = run("metrics", root, "-o", tmp_path / "no" / "store.prom")
    assert result.exit_code == 1
    assert "no such directory" in result.stderr

"""``--fail-if``: status 3 if a row or a sum meets a condition, and nothing is deleted then."""

import shutil

import pytest
from support import states
from support.cli import golden, run

from rocketstore.cli.conditions import parse_condition


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    directory = tmp_path_factory.mktemp("states")
    return {name: states.unpack(name, directory) for name in ("pending", "unconsumed", "dlq")}


@pytest.mark.parametrize(
    ("name", "command", "condition", "status"),
    [
        ("dlq", "lag", "lag > 5", 0),
        ("dlq", "lag", "lag >= 5", 3),
        ("dlq", "lag", "age > 1h", 3),
        ("dlq", "lag", "oldest_age_seconds > 99999d", 0),
        ("unconsumed", "lag", "lag > 40", 3),  # the sum of a group
        ("unconsumed", "lag", "lag > 99", 1),  # an offset is beyond the end of its queue
        ("pending", "pending", "rows > 10", 3),
        ("pending", "pending", "rows > 1000", 0),
        ("pending", "pending", "checkTimes > 1", 3),
        ("pending", "du", "usedShare > 0%", 3),
        ("pending", "du", "diskBytes > 1T", 0),
        ("pending", "expire", "files > 100", 0),
    ],
)
def test_the_status_is_3_if_a_row_or_a_sum_meets_the_condition(roots, name, command, condition, status):
    result = run(command, roots[name], "--fail-if", condition, "--format", "json")
    assert result.exit_code == status
    assert (f"--fail-if: {condition}" in result.stderr) == (status == 3)
    assert result.stdout or command == "expire"


def test_several_conditions_are_checked(roots):
    conditions = ["--fail-if", "messages > 1000000", "--fail-if", "logBytes>1k"]
    result = run("du", roots["pending"], "--by", "topic", *conditions)
    assert result.exit_code == 3
    assert "--fail-if: logBytes>1k\n" in result.stderr
    assert "1000000" not in result.stderr


def test_expire_deletes_nothing_if_the_condition_is_met(tmp_path):
    root = shutil.copytree(golden("rich-5.5.0"), tmp_path / "store")
    result = run("expire", root, "--hours", "0", "--apply", "--fail-if", "messages > 0")
    assert result.exit_code == 3
    assert "would be deleted" in result.stderr
    assert (root / "commitlog" / f"{0:020}").exists()


def test_units_of_conditions():
    columns = ("lag", "diskBytes", "oldestAgeSeconds")
    values = {"lag > 1000": 1000, "disk_bytes>=1.5": 1.5, "diskBytes > 2G": 2 << 30, "age>90s": 90, "age > 2d": 172800}
    assert {text: parse_condition(text, columns).value for text in values} == values


@pytest.mark.parametrize(
    "text", ["", "lag", "lag > ", "lag > x", "lag >> 5", "5 > lag", "lga > 5", "age > 5w", "lag>1.2.3"]
)
def test_a_wrong_condition_is_wrong_usage(roots, text):
    assert run("lag", roots["dlq"], "--fail-if", text).exit_code == 2

"""``--fail-if``: status 3 if a row or a sum meets a condition, and nothing is deleted then."""

import re
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
    "text", ["", "lag", "lag > ", "lag > x", "lag >> 5", "5 > lag", "lga > 5", "age > 5y", "lag>1.2.3"]
)
def test_a_wrong_condition_is_wrong_usage(roots, text):
    assert run("lag", roots["dlq"], "--fail-if", text).exit_code == 2


def test_the_errors_of_conditions_say_what_to_give():
    for text, error in {
        "diskBytes > 1.5G": "1.5G: a size must be an integer with a unit, such as 1536m",
        "age > 5y": "5y: a time must be a number with a unit: s, m, h, d, w",
        "diskBytes > 1.2.3": "1.2.3: give a number",
        "foo > 1": "unknown column 'foo': the columns are rows, diskBytes, oldestAgeSeconds",
    }.items():
        with pytest.raises(ValueError, match=re.escape(error)):
            parse_condition(text, ("diskBytes", "oldestAgeSeconds"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--fail-if", "queueBytes > 0"], "queueBytes is a column of du --by topic: also give --by"),
        (["--by", "topic", "--fail-if", "usedShare > 0%"], "usedShare is a column of du without --by"),
        (
            ["--by", "tag", "--fail-if", "queueBytes > 0"],
            "queueBytes is a column of du without --by, or of du --by topic",
        ),
    ],
)
def test_a_condition_that_no_row_could_meet_is_wrong_usage(roots, options, error):
    result = run("du", roots["pending"], *options)
    assert result.exit_code == 2
    assert error in " ".join(result.stderr.split())


def test_expire_has_no_condition_on_columns_that_it_only_lists(roots):
    assert run("expire", roots["pending"], "--fail-if", "logBytes > 0").exit_code == 2


def test_the_share_of_all_parts_meets_no_condition(roots):
    assert run("du", roots["pending"], "--fail-if", "share > 99.9%").exit_code == 0

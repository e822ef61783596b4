"""What the commands do at a cut of the log and at damage: stores of RocketMQ 5.5.1, see support/log_ends.py."""

import json

import pytest
from reference.log_end import judge
from support.cli import rows, run
from support.log_ends import DAMAGE, SIZES, STOPPED, Cell, Ends, choose_records, zero

from rocketstore.config import camel_case

RELEASE = "5.5.1"
COMMANDS = ("--cut-at-damage", "--policy broker", "salvage")


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    return Ends(RELEASE, tmp_path_factory.mktemp("ends"))


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("".join(f"{camel_case(name)}={size}\n" for name, size in SIZES.items()))
    return "--broker-conf", path


@pytest.fixture
def damaged(ends, tmp_path):
    """A store that was stopped cleanly and copied, with one zeroed record; the offset of that record."""
    root = ends.copy("mixed-whole-stopped", tmp_path / "store", keeps_times=False)
    (place,) = choose_records(Cell(STOPPED, DAMAGE, "copied", RELEASE), ends.truth["mixed-whole-stopped"])
    zero(root, *place)
    return root, place[0]


@pytest.fixture
def cut(ends, tmp_path):
    """A copy of a store whose log a broker cut and went on to write."""
    return ends.copy("mixed-written-stopped", tmp_path / "store", keeps_times=False)


def everything(root):
    files = {path: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}
    return {path: data for path, data in files.items() if path.name != "lock"}


def test_commands_read_the_messages_behind_damage_and_end_with_1(damaged, conf):
    root, _ = damaged
    shown = run("cat", root, *conf)
    assert shown.exit_code == 1
    assert len(shown.stdout.splitlines()) == len(judge(root, "stopped").records)


def test_commands_leave_out_what_a_broker_cut_off_and_say_so(cut, ends, conf):
    shown = run("cat", cut, *conf)
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) == len(ends.truth["mixed-written-stopped"].live)
    assert "Pass --leftovers to read them" in shown.stderr


@pytest.mark.parametrize("command", ["recover", "import"])
def test_a_command_that_would_lose_messages_refuses_and_names_the_ways_on(damaged, conf, tmp_path, command):
    root, _ = damaged
    (tmp_path / "in.jsonl").write_text(json.dumps({"topic": "Orders", "body": "new"}) + "\n")
    before = everything(root)
    source = [tmp_path / "in.jsonl"] if command == "import" else []
    result = run(command, *source, root, *conf)
    assert result.exit_code == 1
    for name in COMMANDS:
        assert name in result.stderr
    assert everything(root) == before


def test_recover_cut_at_damage_lists_the_messages_that_are_lost(damaged, conf):
    root, offset = damaged
    behind = [placed.record for placed in judge(root, "stopped").records if placed.offset > offset]
    before = everything(root)
    planned = run("recover", root, "--cut-at-damage", "--dry-run", *conf)
    assert everything(root) == before
    done = run("recover", root, "--cut-at-damage", *conf)
    assert rows(planned, exit_code=1) == rows(done, exit_code=1)
    for result in (planned, done):
        for topic in {record.topic for record in behind}:
            count = sum(record.topic == topic for record in behind)
            assert any(topic in line and str(count) in line for line in result.stderr.splitlines()), result.stderr
    assert run("cat", root, *conf).exit_code == 0


def test_a_recovery_after_a_cut_says_where_the_old_records_are(cut, conf):
    result = run("recover", cut, *conf)
    assert "rocketstore-cut" in result.stderr + result.stdout
    assert any((cut / "rocketstore-cut").iterdir())
    assert "--leftovers" not in run("cat", cut, *conf).stderr

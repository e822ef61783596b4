"""``rocketstore cat --follow`` and ``--tail``, and times that are written as people say them."""

import contextlib
import os
import pty
import re
import time

import pytest
from support import stores
from support.cli import golden, rows, run, start
from support.puts import open_store
from support.waiting import wait_for

from rocketstore import Message
from rocketstore.cli import cat as cat_module

STEP = "step-5.5.0"


def phy_offsets(*arguments, exit_code=0):
    return [row["phyOffset"] for row in rows(run("cat", golden(STEP), *arguments), exit_code=exit_code)]


@pytest.mark.parametrize("part", [200, 5000, 1 << 20])
@pytest.mark.parametrize("count", [1, 2, 7, 10**6])
@pytest.mark.parametrize("conditions", [[], ["--tag", "TagA"], ["--end-offset", "60001"]], ids=" ".join)
def test_the_tail_is_the_last_messages_that_meet_the_conditions(conditions, count, part, monkeypatch):
    monkeypatch.setattr(cat_module, "LAST_PART", part)
    assert phy_offsets("--tail", count, *conditions) == phy_offsets(*conditions)[-count:]


def test_a_tail_of_nothing_is_nothing():
    assert phy_offsets("--tail", 0, exit_code=1) == []


class Terminal:
    """A command that runs on a terminal, and what it has written so far."""

    def __init__(self, *arguments, columns):
        self.main, terminal = pty.openpty()
        environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        self.process = start(*arguments, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
        os.close(terminal)
        os.set_blocking(self.main, False)
        self.written = b""

    def lines(self):
        with contextlib.suppress(OSError):  # nothing was written yet
            self.written += os.read(self.main, 65536)
        return re.sub(r"\x1b\[[0-9;]*m", "", self.written.decode()).replace("\r\n", "\n").splitlines()

    def close(self):
        self.process.kill()
        self.process.communicate(timeout=60)
        os.close(self.main)


@pytest.mark.parametrize("columns", [80, 140])
def test_follow_begins_at_the_end_and_has_one_header_and_fixed_widths(columns, tmp_path):
    with open_store(tmp_path) as store:
        store.put_message(Message("T", b"before", queue_id=0))
        terminal = Terminal("cat", tmp_path, "--follow", columns=columns)
        try:
            while len(terminal.lines()) < 2:  # until the command has found the end of the log
                store.put_message(Message("T", b"one", keys=["k" * 5], queue_id=0))
                time.sleep(0.3)
            for n, body in enumerate([b"two " * 12, bytes(range(128, 256))], 2):
                shown = len(terminal.lines())
                store.put_message(Message("T" * n, body, keys=["k" * 5 * n], queue_id=0))
                wait_for(lambda shown=shown: len(terminal.lines()) > shown)
                time.sleep(0.3)  # the next message is in a table of its own
            header, first, *others = terminal.lines()
            second = next(line for line in others if "two" in line)
        finally:
            terminal.close()
    assert header.split()[:2] == ["storeTimestamp", "topic"]
    assert not any("storeTimestamp" in line for line in [first, second, *others])
    at = header.index("body")
    assert [first[at : at + 3], second[at : at + 7]] == ["one", "two two"]
    assert "before" not in "".join([first, second, *others])
    assert "<128 bytes>" in "".join(others)
    assert max(map(len, [header, first, second, *others])) <= columns


def test_follow_begins_where_it_is_told(tmp_path):
    with open_store(tmp_path) as store:
        end = [store.put_message(Message("T", b"%d" % n, queue_id=0)) for n in range(5)][-1]
        bound = ["--end-offset", end.phy_offset + end.size]
    for options, expected in (
        (["--tail", 2], "34"),
        (["--since", 0], "01234"),
        (["--begin-offset", end.phy_offset], "4"),
        (["--limit", 2, "--since", 0], "01"),
        (["--tail", 3, "--limit", 1], "2"),
    ):
        found = rows(run("cat", tmp_path, "--follow", *bound, *options))
        assert "".join(row["body"] for row in found) == expected
    assert run("cat", tmp_path, "--follow", *bound).stdout == ""


# ---- times -------------------------------------------------------------------------------------------------


@pytest.fixture
def ages(tmp_path):
    """A store of messages of some ages, in seconds."""
    now = time.time_ns() // 1_000_000
    with open_store(tmp_path) as store:
        for age in (3 * 86_400, 7200, 600, 20):
            store.put_message(Message("T", b"%d" % age, queue_id=0), store_timestamp=now - 1000 * age)
    return tmp_path


@pytest.mark.parametrize(("since", "count"), [("-1d", 3), ("-3h", 3), ("-1h", 2), ("-5m", 1), ("-30s", 1), ("-4d", 4)])
def test_times_before_now(ages, since, count):
    assert len(rows(run("cat", ages, "--since", since))) == count
    assert len(rows(run("cat", ages, "--until", since), exit_code=int(count == 4))) == 4 - count
    assert len(rows(run("query", ages, "--since", since, "--until", "now"))) == count


def test_today_and_yesterday_begin_at_midnight_in_utc(tmp_path):
    day = 86_400_000
    midnight = time.time_ns() // 1_000_000 // day * day
    with open_store(tmp_path) as store:
        for body, at in ((b"a", midnight - day - 1), (b"b", midnight - day), (b"c", midnight - 1), (b"d", midnight)):
            store.put_message(Message("T", body, queue_id=0), store_timestamp=at)
    assert [row["body"] for row in rows(run("cat", tmp_path, "--since", "yesterday"))] == ["b", "c", "d"]
    assert [row["body"] for row in rows(run("cat", tmp_path, "--since", "yesterday", "--until", "today"))] == ["b", "c"]
    assert rows(run("offset", tmp_path, "--topic", "T", "--queue", 0, "--time", "today"))[0]["queueOffset"] == 3


@pytest.mark.parametrize("text", ["-5", "-5x", "5mm", "25:00", "tomorrow", "-1.5h", "--1h"])
def test_a_text_that_is_no_time_is_explained(text):
    result = run("cat", golden(STEP), "--since", text)
    if text == "-5":  # milliseconds before 1970
        assert len(rows(result)) == len(stores.dump(STEP)["message"])
        return
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is no time: give an ISO 8601 time" in " ".join(result.stderr.split())


@pytest.mark.parametrize("options", [["cat", "--since"], ["query", "--until"], ["offset", "--time"]])
def test_a_time_of_1970_is_wrong_usage_of_its_option(options):
    command, option = options
    result = run(command, golden(STEP), option, "1970-02-01")
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': '1970-02-01' is a time of 1970: give 0" in result.stderr
    assert run("cat", golden(STEP), "--since", "1970-01-01", "--limit", 1).exit_code == 0

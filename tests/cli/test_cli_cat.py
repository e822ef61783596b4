"""``rocketstore cat``: the log with conditions, damaged, growing."""

import base64
import csv
import io
import json
import shutil
import signal

import pytest
from reference.commit_log import write_file
from reference.record import build_record
from support import stores
from support.cli import assert_one_line, golden, on_terminal, rows, run, start
from support.damages import change_log
from support.waiting import replace_sleep

from rocketstore.cli import cat as cat_module
from rocketstore.cli.view.messages import message_lines

RICH, STEP = "rich-5.5.0", "step-5.5.0"


def offsets(*arguments):
    return [row["phyOffset"] for row in rows(run("cat", *arguments))]


def expected(name, condition):
    found = [m["physicalOffset"] for m in stores.dump(name)["message"] if condition(m)]
    assert found
    return found


@pytest.mark.parametrize("name", ["rich-5.3.3", "batch-5.5.0", "cut-5.5.0", "crash-5.5.0"])
def test_cat_shows_every_message_with_its_columns(name):
    found = rows(run("cat", golden(name), "--containers"))
    messages = stores.dump(name)["message"]
    assert len(found) == len(messages)
    for row, message in zip(found, messages, strict=True):
        for column, field in (
            ("phyOffset", "physicalOffset"),
            ("topic", "topic"),
            ("queueOffset", "queueOffset"),
            ("msgId", "msgId"),
            ("properties", "properties"),
            ("storeTimestamp", "storeTimestamp"),
            ("sysFlag", "sysFlag"),
        ):
            assert row[column] == message[field]
        assert (row["body"] is None) != (row["bodyBase64"] is None)


def test_the_conditions_hold_together():
    root = golden(STEP)
    middle = stores.dump(STEP)["message"][100]["storeTimestamp"]
    assert offsets(root, "--topic", "TopicTest") == expected(STEP, lambda m: m["topic"] == "TopicTest")
    assert offsets(root, "--topic", "TopicTest", "--topic", "OrderTopic", "--queue", 1) == expected(
        STEP, lambda m: m["topic"] in ("TopicTest", "OrderTopic") and m["queueId"] == 1
    )
    assert offsets(root, "--tag", "TagA || TagB", "--until", middle) == expected(
        STEP, lambda m: m["properties"].get("TAGS") in ("TagA", "TagB") and m["storeTimestamp"] < middle
    )
    assert offsets(root, "--key", "café") == expected(STEP, lambda m: "café" in (m["dispatch"]["keys"] or "").split())
    assert offsets(root, "--begin-offset", 1000, "--end-offset", 80_000) == expected(
        STEP, lambda m: 1000 <= m["physicalOffset"] < 80_000
    )


def test_since_is_inclusive_and_until_exclusive():
    time = stores.dump(STEP)["message"][100]["storeTimestamp"]
    assert offsets(golden(STEP), "--since", time) == expected(STEP, lambda m: m["storeTimestamp"] >= time)
    assert offsets(golden(STEP), "--until", time) == expected(STEP, lambda m: m["storeTimestamp"] < time)


def test_csv_and_json_have_the_same_values():
    table = list(csv.DictReader(io.StringIO(run("cat", golden(RICH), "--format", "csv").stdout, newline="")))
    for line, row in zip(table, rows(run("cat", golden(RICH))), strict=True):
        assert line["topic"] == row["topic"]
        assert json.loads(line["properties"]) == row["properties"]
        assert json.loads(line["keys"]) == row["keys"]
        assert (line["body"], line["bodyBase64"]) == (row["body"] or "", row["bodyBase64"] or "")


def test_a_table_shows_the_beginning_of_bodies():
    status, text = on_terminal("cat", golden(RICH), "--topic", "TopicTest")
    assert status == 0
    header, *lines = text.splitlines()
    shown = ["storeTimestamp", "queueId", "queueOffset", "phyOffset", "tags", "keys", "size", "body", "topic"]
    assert header.split() == shown
    assert len(lines) >= len(expected(RICH, lambda m: m["topic"] == "TopicTest"))
    assert lines[0].startswith("2026-11-21T11:54:36.799Z        2            0       2379  TagB")


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        (60, "queueId, queueOffset, phyOffset, keys, size"),
        (80, "queueOffset, phyOffset, size"),
        (103, "phyOffset"),
        (116, None),
    ],
)
def test_a_narrow_terminal_gets_the_columns_that_fit_and_the_names_of_the_others(columns, missing):
    status, text = on_terminal("cat", golden(STEP), "--end-offset", 2000, columns=columns)
    assert status == 0
    header, *lines = text.splitlines()
    assert max(map(len, [header, *lines[:-1]])) <= columns
    shown = ["storeTimestamp", "topic", "queueId", "queueOffset", "phyOffset", "tags", "keys", "size", "body"]
    assert header.split() == [name for name in shown if name not in (missing or "").split(", ")]
    assert lines[-1].startswith(f"{columns} columns are too few for {missing}: ") or missing is None
    assert len(lines) < 40


def test_a_table_of_the_log_stays_one_when_a_single_message_is_left_for_its_end(monkeypatch):
    monkeypatch.setattr("rocketstore.cli.cat.TABLE_SIZE", 2)
    end = stores.dump(STEP)["message"][3]["physicalOffset"]
    lines = run("cat", golden(STEP), "--format", "table", "--end-offset", end).stdout.splitlines()
    headers = [line for line in lines if line.startswith("          storeTimestamp  topic")]
    assert len(headers) == 2
    assert len(lines) == 2 + 3


@pytest.mark.parametrize(("since", "count"), [("20230101", 1), ("22000101", 0), ("99999999", 1)])
def test_eight_digits_that_are_a_date_are_one(since, count):
    assert len(rows(run("cat", golden(STEP), "--end-offset", 1, "--since", since), exit_code=1 - count)) == count


def test_a_topic_that_is_not_there_is_named():
    hint = f"rocketstore ls {golden(RICH)} shows all"
    assert_one_line(run("cat", golden(RICH), "--topic", "nope"), golden(RICH), "'nope'", hint)
    result = run("cat", golden(RICH), "--topic", "nope", "--topic", "TopicTest")
    assert {row["topic"] for row in rows(result, exit_code=1)} == {"TopicTest"}
    assert_one_line(result, "'nope'")


# ---- damage ------------------------------------------------------------------------------------------------


def test_damaged_records_are_left_out_and_named(tmp_path):
    root = shutil.copytree(golden(RICH), tmp_path / "store")
    file = min((root / "commitlog").iterdir())
    change_log(root, 0, 255, bytes(8))
    result = run("cat", root)
    found = [row["phyOffset"] for row in rows(result, exit_code=1)]
    assert found == [m["physicalOffset"] for m in stores.dump(RICH)["message"] if m["physicalOffset"] != 255]
    assert_one_line(result, file, "offsets 255 to 1541 are left out")


def test_damage_before_the_limit_is_named_and_damage_after_it_is_not(tmp_path):
    root = shutil.copytree(golden(RICH), tmp_path / "store")
    change_log(root, 0, 255, bytes(8))
    before = [m["physicalOffset"] for m in stores.dump(RICH)["message"] if m["physicalOffset"] < 255]
    assert offsets(root, "--limit", len(before)) == before
    result = run("cat", root, "--limit", len(before) + 1)
    assert [row["phyOffset"] for row in rows(result, exit_code=1)] == [*before, 1541]
    assert_one_line(result, "offsets 255 to 1541 are left out")


def test_a_limit_counts_the_bad_bodies_of_the_messages_that_are_shown(tmp_path):
    data = b""
    for _ in range(3):
        data += build_record("T", b"no zlib", sys_flag=1, phy_offset=len(data))
    write_file(tmp_path / "commitlog", 0, data.ljust(4096, b"\0"))
    result = run("cat", tmp_path, "--limit", 2)
    assert len(rows(result)) == 2
    assert result.stderr.startswith("Warning: 2 messages have bodies that cannot be decoded")


def test_a_message_whose_body_does_not_decompress_is_shown_with_the_reason(tmp_path):
    bad = build_record("T", b"no zlib", sys_flag=1)
    sound = build_record("T", b"sound", phy_offset=len(bad))
    write_file(tmp_path / "commitlog", 0, (bad + sound).ljust(4096, b"\0"))
    result = run("cat", tmp_path)
    shown = [(row["body"], row["bodyBase64"], row["bodyError"] and row["bodyError"][:27]) for row in rows(result)]
    assert shown == [(None, None, "body: does not decompress w"), ("sound", None, None)]
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: 1 message has a body that cannot be decoded: bodyError says why. The first: ")
    assert "body at byte 0: does not decompress" in line


def test_a_body_with_a_wrong_crc_is_damage_where_it_is_shown(tmp_path):
    root = shutil.copytree(golden("basic-5.5.0"), tmp_path / "store")
    file = min((root / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    data[90] ^= 1
    file.write_bytes(data)
    for fine in (["--no-verify-crc"], ["--columns", "topic"]):
        assert run("cat", root, *fine).exit_code == 0
    for wrong in ([], ["--verify-crc", "--columns", "topic"], ["--columns", "body"]):
        assert_one_line(run("cat", root, *wrong), file, "bodyCrc")


@pytest.mark.parametrize("more", [[], ["--follow", "--since", 0, "--end-offset", 300_000]])
def test_what_expires_while_it_is_read_is_named(more, tmp_path, monkeypatch):
    root = shutil.copytree(golden(RICH), tmp_path / "store")
    *expired, last = sorted((root / "commitlog").iterdir())[:3]

    def lines_of_what_has_expired(*arguments):
        for path in expired:
            path.unlink(missing_ok=True)
        return message_lines(*arguments)

    monkeypatch.setattr("rocketstore.cli.view.messages.message_lines", lines_of_what_has_expired)
    monkeypatch.setattr("rocketstore.cli.cat.BATCH_SIZE", 1)
    result = run("cat", root, *more)
    assert rows(result, exit_code=1)[0]["phyOffset"] == 0
    assert_one_line(result, root / "commitlog", f"the log before {int(last.name)} was deleted before it was read")
    assert run("cat", root, *more, "--begin-offset", 0).exit_code == 0


# ---- growing -----------------------------------------------------------------------------------------------


def append(path, body):
    """Append a record as a broker does, the size last."""
    end = sum(len(record) for record in append.records)
    record = build_record("T", body, phy_offset=end)
    with path.open("r+b") as file:
        file.seek(end + 4)
        file.write(record[4:])
        file.flush()
        file.seek(end)
        file.write(record[:4])
    append.records.append(record)


def test_follow_shows_new_messages_and_ends_with_ctrl_c(tmp_path):
    append.records = []
    file = tmp_path / "commitlog" / f"{0:020}"
    write_file(tmp_path / "commitlog", 0, bytes(65536))
    append(file, b"first")
    with start("cat", tmp_path, "--follow", "--tail", 1) as process:
        assert json.loads(process.stdout.readline())["body"] == "first"
        for body in (b"second", b"\xff"):
            append(file, body)
            row = json.loads(process.stdout.readline())
            assert body in ((row["body"] or "").encode(), base64.b64decode(row["bodyBase64"] or ""))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


def test_follow_goes_over_damage_and_names_it(tmp_path):
    first = build_record("T", b"first")
    third = build_record("T", b"third", phy_offset=2 * len(first))
    write_file(tmp_path / "commitlog", 0, (first + bytes(len(first)) + third).ljust(4096, b"\0"))
    result = run("cat", tmp_path, "--follow", "--begin-offset", 0, "--end-offset", 2 * len(first) + 1)
    assert [row["body"] for row in rows(result, exit_code=1)] == ["first", "third"]
    assert_one_line(result, "magic", f"offsets {len(first)} to {2 * len(first)} are left out")


def test_follow_names_damage_that_is_written_where_it_waits(tmp_path, monkeypatch):
    monkeypatch.setattr("rocketstore.log.end_finder.LOOK_AHEAD_SECONDS", 0)
    first = build_record("T", b"first")
    third = build_record("T", b"third", phy_offset=2 * len(first))
    file = tmp_path / "commitlog" / f"{0:020}"
    write_file(tmp_path / "commitlog", 0, first.ljust(4096, b"\0"))

    def go_on(seconds):
        file.write_bytes((first + bytes(len(first)) + third).ljust(4096, b"\0"))

    replace_sleep(monkeypatch, cat_module, go_on)
    result = run("cat", tmp_path, "--follow", "--begin-offset", 0, "--end-offset", 2 * len(first) + 1)
    assert [row["body"] for row in rows(result, exit_code=1)] == ["first", "third"]
    assert_one_line(result, "magic", f"offsets {len(first)} to {2 * len(first)} are left out")


def test_follow_up_to_an_offset_ends_there():
    bounds = ["--begin-offset", 0, "--end-offset", 80_000]
    found = rows(run("cat", golden(RICH), "--follow", *bounds, "--topic", "TopicTest"))
    assert [row["phyOffset"] for row in found] == expected(
        RICH, lambda m: m["topic"] == "TopicTest" and m["physicalOffset"] < 80_000
    )

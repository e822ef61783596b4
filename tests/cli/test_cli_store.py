"""``rocketstore info``, ``ls``, ``lag``, ``offset`` and ``get`` on stores that RocketMQ left."""

import csv
import json
import re
import shutil

import pytest
from reference.message_store import make_store
from support import stores
from support.cli import assert_one_line, golden, on_terminal, rows, run
from support.puts import open_store

import rocketstore
from rocketstore import Message, StoreError
from rocketstore.messages.text_rows import row_names
from rocketstore.state.json_tables import JsonTables

BASIC, RICH = "basic-5.5.0", "rich-5.5.0"


def copy_of(name, tmp_path):
    return shutil.copytree(golden(name), tmp_path / name)


# ---- info --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rich-5.5.0", "crash-5.3.3", "cut-5.5.0", "batch-5.5.0"])
def test_info_tells_what_rocketmq_tells(name):
    (row,) = rows(run("info", golden(name)))
    log = stores.reads(name)["log"][0]
    assert (row["minPhyOffset"], row["maxPhyOffset"]) == (log["minPhyOffset"], log["maxPhyOffset"])
    assert row["beginTimestamp"] == log["earliestMessageTime"]
    assert row["lastExitOk"] == ("crash" not in name)
    assert row["queues"] == len(stores.reads(name)["queue"])
    assert row["messages"] == sum(queue["max"] - max(queue["min"], 0) for queue in stores.reads(name)["queue"])


def test_info_on_a_terminal_has_a_line_for_each_fact_and_times_in_utc():
    status, text = on_terminal("info", golden("step-5.5.0"))
    assert status == 0
    lines = dict(line.split(maxsplit=1) for line in text.splitlines()[1:])
    assert lines["beginTimestamp"].strip() == "2023-11-14T22:13:21.123Z"
    assert lines["lastExitOk"].strip() == "yes"


def test_info_shows_what_can_be_read_of_a_damaged_store(tmp_path):
    root = copy_of(RICH, tmp_path)
    damaged = min((root / "index").iterdir())
    damaged.write_bytes(b"x")
    result = run("info", root)
    (row,) = rows(result, exit_code=1)
    assert (row["queues"], row["indexEndPhyOffset"]) == (24, None)
    assert_one_line(result, damaged)


def test_info_names_a_part_that_is_missing_as_other_commands_do(tmp_path):
    root = copy_of(BASIC, tmp_path)
    shutil.rmtree(root / "commitlog")
    assert_one_line(run("info", root), f"Error: {root / 'commitlog'}: No such file or directory")


# ---- ls ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rich-5.5.0", "cut-5.3.3", "batch-5.5.0", "cqext-5.5.0"])
def test_ls_lists_the_queues_that_rocketmq_has(name):
    listed = rows(run("ls", golden(name)))
    found = {(row["topic"], row["queueId"]): (row["minOffset"], row["maxOffset"]) for row in listed}
    expected = {(q["topic"], q["queueId"]): (max(q["min"], 0), q["max"]) for q in stores.reads(name)["queue"]}
    assert found == expected


def test_ls_adds_up_the_bytes_of_the_records():
    units = [unit for unit in stores.dump(BASIC)["cq"] if (unit["topic"], unit["queueId"]) == ("TopicTest", 0)]
    row = next(row for row in rows(run("ls", golden(BASIC), "--topic", "TopicTest")) if row["queueId"] == 0)
    assert (row["messages"], row["bytes"]) == (len(units), sum(unit["size"] for unit in units))


def test_ls_adds_up_a_batch_once_wherever_it_reads_on(monkeypatch):
    listed = rows(run("ls", golden("batch-5.5.0")))
    monkeypatch.setattr("rocketstore.queue.batch_consume_queue.COUNTED_OFFSETS", 1)
    assert rows(run("ls", golden("batch-5.5.0"))) == listed


def test_ls_of_a_topic_that_is_not_there():
    assert_one_line(run("ls", golden(BASIC), "--topic", "nope"), golden(BASIC), "'nope'")


def test_ls_shows_the_sound_queues_beside_a_damaged_one(tmp_path):
    root = copy_of(BASIC, tmp_path)
    directory = root / "consumequeue" / "TopicTest" / "0"
    next(directory.iterdir()).rename(directory / f"{7:020}")
    result = run("ls", root)
    assert len(rows(result, exit_code=1)) == 13
    assert_one_line(result, directory)


def test_a_queue_that_goes_while_queues_are_listed_is_a_problem_of_its_own(monkeypatch):
    listed = sorted({*rocketstore.open(golden(BASIC)).queues(), ("gone", 0)})
    monkeypatch.setattr(rocketstore.MessageStore, "queues", lambda _: iter(listed))
    result = run("ls", golden(BASIC))
    assert len(rows(result, exit_code=1)) == len(listed) - 1
    assert_one_line(result, golden(BASIC), "there is no queue 0 of topic 'gone'")


def test_ls_names_queues_in_rocksdb(tmp_path):
    root = copy_of(BASIC, tmp_path)
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    (root / "consumequeue" / "CURRENT").touch()
    assert_one_line(run("ls", root), "RocksDB")


@pytest.mark.parametrize("options", [(), ("--topic", "TopicTest")])
def test_ls_says_that_the_queues_of_messages_are_lost(options, tmp_path):
    root = copy_of(BASIC, tmp_path)
    shutil.rmtree(root / "consumequeue")
    command = f"rocketstore rebuild {root} --consume-queue"
    assert_one_line(run("ls", root, *options), f"the log has messages, but there are no queues: {command} builds them")


def test_ls_lists_several_topics_and_names_the_one_that_is_not_there():
    result = run("ls", golden(BASIC), "--topic", "TopicTest", "--topic", "nope", "--topic", "OrderTopic")
    assert {row["topic"] for row in rows(result, exit_code=1)} == {"TopicTest", "OrderTopic"}
    assert_one_line(result, "'nope'")


def test_ls_and_lag_say_that_an_empty_store_has_nothing_to_list(tmp_path):
    with open_store(tmp_path / "store"):
        pass
    root = tmp_path / "store"
    for command, text in (("ls", "has no queues"), ("lag", "no consumer group has saved an offset")):
        result = run(command, root)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {root}: {text}")
        assert result.stderr.count("\n") == 1


# ---- lag ---------------------------------------------------------------------------------------------------


def test_lag_is_the_distance_to_the_end_of_the_queue():
    root = golden("broker-5.5.0")
    text = re.sub(r"(\d+):(?=\d)", r'"\1":', (root / "config" / "consumerOffset.json").read_text())
    offsets = json.loads(text)["offsetTable"]
    ends = {(q["topic"], q["queueId"]): q["max"] for q in stores.reads("broker-5.5.0")["queue"]}
    found = rows(run("lag", root))
    assert {(f"{row['topic']}@{row['group']}", str(row["queueId"])): row["consumerOffset"] for row in found} == {
        (name, queue_id): offset for name, queues in offsets.items() for queue_id, offset in queues.items()
    }
    assert [row["lag"] for row in found] == [
        max(ends.get((row["topic"], row["queueId"]), 0) - row["consumerOffset"], 0) for row in found
    ]
    again = rows(run("lag", root, "--group", found[0]["group"]))
    for row, earlier in zip(again, found, strict=True):
        age = earlier["oldestAgeSeconds"]  # grows while the command runs again
        later = row["oldestAgeSeconds"]
        assert later == age if age is None else age <= later < age + 600
        assert row | {"oldestAgeSeconds": age} == earlier


def test_lag_reads_the_configuration_no_more_often_for_more_groups(tmp_path, monkeypatch):
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "config").mkdir()
    opened, counts, read = [], [], JsonTables.read_all
    monkeypatch.setattr(JsonTables, "read_all", lambda tables: opened.append(tables) or read(tables))
    for n in (1, 9):
        table = {"offsetTable": {f"T@G{i}": {"0": 5} for i in range(n)}}
        (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps(table))
        assert len(rows(run("lag", tmp_path))) == n
        counts.append(len(opened))
    assert counts == [2, 4]


def test_lag_of_a_group_that_is_not_there():
    assert_one_line(run("lag", golden("broker-5.5.0"), "--group", "nope"), "'nope'", "consumerOffset.json")


def test_lag_says_that_the_backup_was_used(tmp_path):
    root = copy_of("broker-5.5.0", tmp_path)
    path = root / "config" / "consumerOffset.json"
    shutil.copy(path, f"{path}.bak")
    path.write_text("{")
    result = run("lag", root)
    found, expected = rows(result, exit_code=1), rows(run("lag", golden("broker-5.5.0")))
    assert [row | {"oldestAgeSeconds": 0} for row in found] == [row | {"oldestAgeSeconds": 0} for row in expected]
    assert_one_line(result, path, "consumerOffset.json.bak is used")


def test_lag_says_which_queue_it_cannot_read(tmp_path):
    root = copy_of("broker-5.5.0", tmp_path)
    first = rows(run("lag", root))[0]
    directory = root / "consumequeue" / first["topic"] / str(first["queueId"])
    next(directory.iterdir()).rename(directory / f"{7:020}")
    result = run("lag", root)
    unknown = [row for row in rows(result, exit_code=1) if row["lag"] is None]
    assert {(row["topic"], row["queueId"]) for row in unknown} == {(first["topic"], first["queueId"])}
    assert [line.removeprefix("Error: ") for line in result.stderr.splitlines()] == [row["problem"] for row in unknown]


# ---- offset ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["step-5.5.0", "cut-5.5.0"])
def test_offset_by_time_is_rocketmqs(name):
    asked = [row for row in stores.reads(name)["time"] if type(row["lower"]) is type(row["upper"]) is int]
    for row in asked[:: max(len(asked) // 12, 1)]:
        place = ["--topic", row["topic"], "--queue", row["queueId"]]
        question = ["offset", golden(name), "--time", row["timestamp"], *place]
        assert rows(run(*question))[0]["queueOffset"] == row["lower"]
        assert rows(run(*question, "--upper"))[0]["queueOffset"] == row["upper"]


def test_offset_of_all_queues_of_a_topic():
    found = rows(run("offset", golden(BASIC), "--time", "1970-01-01", "--topic", "TopicTest"))
    assert [(row["queueId"], row["queueOffset"]) for row in found] == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_offset_of_some_queues_of_a_topic():
    question = ["offset", golden(BASIC), "--time", 0, "--topic", "TopicTest", "--queue", 1, "--queue", 3]
    assert [row["queueId"] for row in rows(run(*question))] == [1, 3]


def test_offset_names_the_queues_that_are_not_there():
    result = run("offset", golden(BASIC), "--time", 0, "--topic", "TopicTest", "--queue", 7, "--queue", 1, "--queue", 7)
    assert [row["queueId"] for row in rows(result, exit_code=1)] == [1]
    assert_one_line(result, golden(BASIC), "there is no queue 7 of topic 'TopicTest': its queue ids are 0 to 3")


def test_offset_beyond_the_end_says_so():
    end = stores.reads(BASIC)["log"][0]["maxPhyOffset"]
    result = run("offset", golden(BASIC), "--time", "2100-01-01")
    assert rows(result) == [{"phyOffset": end}]
    assumption, line = result.stderr.splitlines()
    assert "no clock was wrong by 24 hours or more within a file; --exact-times reads every file" in assumption
    assert run("offset", golden(BASIC), "--time", "2100-01-01", "--exact-times").stderr.splitlines() == [line]
    assert f"no message was stored at 2100-01-01T00:00:00.000Z or later: {end} is the end of the log" in line
    result = run("offset", golden(BASIC), "--time", "2100-01-01", "--topic", "TopicTest")
    assert len(rows(result)) == 4
    (line,) = result.stderr.splitlines()
    assert line.startswith("TopicTest, queue 0, 1, 2, 3: no message was stored at 2100-01-01")
    last = max(m["storeTimestamp"] for m in stores.dump(BASIC)["message"])
    assert run("offset", golden(BASIC), "--time", last).stderr == ""


def test_offset_in_the_log():
    messages = stores.dump("step-5.5.0")["message"]
    middle = messages[100]
    first = next(m["physicalOffset"] for m in messages if m["storeTimestamp"] >= middle["storeTimestamp"])
    assert rows(run("offset", golden("step-5.5.0"), "--time", middle["storeTimestamp"])) == [{"phyOffset": first}]


def test_offset_of_a_topic_that_is_not_there():
    assert_one_line(run("offset", golden(BASIC), "--time", 0, "--topic", "nope"), "'nope'", "ls")


def test_the_last_message_before_a_time_that_has_none_is_said_to_be_missing(tmp_path):
    with open_store(tmp_path) as store:
        for queue_id, times in enumerate(([1000, 3000], [2000])):
            for time in times:
                message = Message("T", b"x", queue_id=queue_id)
                store.put_message(message, store_timestamp=1_700_000_000_000 + time)
    for time, offsets, missing in ((999, [0, 0], "0, 1"), (1000, [0, 0], "1"), (2500, [0, 0], ""), (4000, [1, 0], "")):
        result = run("offset", tmp_path, "--topic", "T", "--upper", "--time", 1_700_000_000_000 + time)
        assert [row["queueOffset"] for row in rows(result)] == offsets
        assert result.stderr.count("or earlier: this is the first offset") == bool(missing)
        assert result.stderr.startswith(f"T, queue {missing}: " if missing else "")


# ---- get ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rich-5.5.0", "batch-5.5.0", "lmq-5.3.3"])
def test_get_reads_what_rocketmq_reads(name):
    asked = [row for row in stores.reads(name)["get"] if row["status"] == "FOUND" and 0 < row["max"] < 4]
    for row in asked[:: max(len(asked) // 10, 1)]:
        tags = ["--tag", row["tags"]] if row["tags"] else []
        place = row["topic"], row["queueId"], row["offset"]
        found = rows(run("get", golden(name), *place, "--limit", row["max"], *tags))
        assert [message["phyOffset"] for message in found][: len(row["phyOffsets"])] == row["phyOffsets"]


def test_get_at_minus_one_is_the_last_message_of_the_queue():
    every = rows(run("get", golden(RICH), "RichTopic", 0, 0, "--limit", 100))
    assert len(every) > 2
    assert rows(run("get", golden(RICH), "RichTopic", 0, -1)) == every[-1:]
    assert rows(run("get", golden(RICH), "RichTopic", 0, -2, "--limit", 100)) == every[-2:]


@pytest.mark.parametrize(
    ("queue_id", "offset", "text"),
    [
        ("x", 0, "Invalid value for 'QUEUE': 'x' is no integer: give a number from -2147483648 to 2147483647"),
        (2**31, 0, "Invalid value for 'QUEUE': 2147483648 is not from -2147483648 to 2147483647"),
        (0, "1e3", "Invalid value for 'OFFSET': '1e3' is no integer"),
        (0, 2**63, "Invalid value for 'OFFSET': 9223372036854775808 is not from"),
    ],
)
def test_a_number_that_cannot_be_is_refused_in_ordinary_words(queue_id, offset, text):
    result = run("get", golden(BASIC), "TopicTest", queue_id, offset)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Error: {text}" in result.stderr


def test_get_says_up_to_where_no_message_has_the_tag():
    result = run("get", golden(RICH), "RichTopic", 0, 30, "--tag", "no such tag")
    assert_one_line(result, "RichTopic, queue 0, offset 30: NO_MATCHED_MESSAGE", "up to queue offset 35 has one of the")


def test_get_shows_all_columns_and_text_as_text():
    message = next(m for m in stores.dump(RICH)["message"] if m["topic"] == "RichTopic" and m["sysFlag"] & 1)
    (row,) = rows(run("get", golden(RICH), "RichTopic", message["queueId"], message["queueOffset"]))
    assert (row["msgId"], row["properties"]) == (message["msgId"], message["properties"])
    assert row["storeTimestamp"] == message["storeTimestamp"]
    assert row["body"].startswith('{"order":')
    assert row["bodyBase64"] is None


def test_get_shows_bytes_that_are_no_text_in_base64():
    (row,) = rows(run("get", golden(RICH), "RichTopic", 0, 0))
    assert row["body"] is None
    assert row["bodyBase64"].startswith("kvlNaPzM")


def test_get_beyond_the_end_says_where_the_queue_is():
    result = run("get", golden(RICH), "RichTopic", 0, 99)
    assert_one_line(result, "RichTopic, queue 0, offset 99", "OFFSET_OVERFLOW_BADLY", "offsets 0 to 35")


def test_get_counts_negative_offsets_from_the_end():
    every = rows(run("get", golden(RICH), "RichTopic", 0, 0, "--limit", 100))
    assert rows(run("get", golden(RICH), "RichTopic", 0, -1)) == every[-1:]
    assert rows(run("get", golden(RICH), "RichTopic", 0, -3, "--limit", 2)) == every[-3:-1]
    assert rows(run("get", golden(RICH), "RichTopic", 0, -(10**6), "--limit", 100)) == every
    assert_one_line(run("get", golden(RICH), "nope", 0, -1), "there is no queue of topic 'nope'")
    assert "No such option '--frmat'" in run("get", golden(RICH), "RichTopic", 0, 0, "--frmat", "csv").stderr


def test_get_of_a_queue_that_is_missing():
    reason = "there is no queue of topic 'nope'"
    assert_one_line(run("get", golden(RICH), "nope", 0, 0), "NO_MATCHED_LOGIC_QUEUE", reason)
    assert_one_line(run("get", golden(RICH), "../..", 0, 0), "NO_MATCHED_LOGIC_QUEUE")


@pytest.mark.parametrize("most", [1, 4])
def test_get_names_a_record_that_cannot_be_read(most, tmp_path):
    root = copy_of(BASIC, tmp_path)
    messages = [m for m in stores.dump(BASIC)["message"] if (m["topic"], m["queueId"]) == ("TopicTest", 0)]
    file = min((root / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    at = messages[2]["physicalOffset"]
    data[at + 4 : at + 8] = bytes(4)
    file.write_bytes(data)
    result = run("get", root, "TopicTest", 0, 2, "--limit", most)
    found = [row["phyOffset"] for row in rows(result, exit_code=1)]
    assert found == [m["physicalOffset"] for m in messages[3 : 2 + most]]
    assert_one_line(result, f"TopicTest, queue 0, offset 2: the record at physical offset {at} cannot be read")


@pytest.mark.parametrize("question", [["get", "T", 0, 0, "--limit", 2], ["query", "--topic", "T", "--key", "k"]])
def test_a_body_that_does_not_decompress_hides_no_other_message(question, tmp_path):
    with open_store(tmp_path) as store:
        bad = store.put_message(Message("T", b"no zlib", sys_flag=1, keys=["k"], queue_id=0))
        store.put_message(Message("T", b"sound", keys=["k"], queue_id=0))
    command, *rest = question
    result = run(command, tmp_path, *rest)
    shown = {row["phyOffset"]: (row["body"], row["bodyError"]) for row in rows(result)}
    assert shown.pop(bad.size) == ("sound", None)
    assert [body for body, error in shown.values() if "does not decompress" in error] == [None]
    place = f"{tmp_path / 'commitlog' / f'{0:020}'}: body at byte 0: does not decompress"
    assert place in result.stderr
    assert "Warning: 1 message has a body that cannot be decoded" in result.stderr


def put_bodies(store_path, bodies, **fields):
    """Put messages. Those with the body "bad" do not decompress."""
    with open_store(store_path) as store:
        for body in bodies:
            store.put_message(Message("T", body.encode(), sys_flag=int(body == "bad"), queue_id=0, **fields))


def test_a_query_by_time_finds_messages_before_a_clock_was_set_back(tmp_path):
    """The second file of the log begins with an earlier time than messages of the first file have."""
    begin = 1_700_000_000_000
    with open_store(tmp_path, mapped_file_size_commit_log=4096) as store:
        times = [begin + n * 60_000 for n in range(20)] + [begin + n * 60_000 for n in range(5, 40)]
        for time in times:
            store.put_message(Message("T", b"x" * 100), store_timestamp=time)
        assert len(store.commit_log.file_run.files) > 2
    for minutes in range(0, 40, 3):
        since = begin + minutes * 60_000
        found = [row["storeTimestamp"] for row in rows(run("query", tmp_path, "--since", since))]
        assert found == [time for time in times if time >= since]


DAY = 86_400_000


def put_clock_ahead(root, ahead):
    """Put messages of 12 days into 12 files. The clock is ahead for some of the third file. Return their times."""
    times = [1_700_000_000_000 + DAY // 10 * n + ahead * (25 <= n < 28) for n in range(120)]
    with open_store(root, mapped_file_size_commit_log=4096) as store:
        for time in times:
            store.put_message(Message("T", b"x" * 300, queue_id=0), store_timestamp=time)
    return times


def times_of(result):
    return [row["storeTimestamp"] for row in rows(result)]


@pytest.mark.parametrize("until", [[], ["--until", 1_700_000_000_000 + 4 * DAY]])
def test_a_query_by_time_finds_messages_of_a_clock_that_ran_ahead(tmp_path, until):
    times = put_clock_ahead(tmp_path, 20 * DAY // 24)
    found = times_of(run("query", tmp_path, "--since", times[25], *until, "--limit", 1000))
    assert found == [time for time in times if times[25] <= time < (until or [None, times[-1] + 1])[1]]


def test_a_query_by_time_notes_that_it_assumes_right_clocks(tmp_path):
    times = put_clock_ahead(tmp_path, 30 * DAY)
    result = run("query", tmp_path, "--since", times[25], "--until", times[27] + 1)
    assert result.exit_code == 1
    assert "11 log files of other times were not read" in result.stderr
    result = run("query", tmp_path, "--since", times[25], "--until", times[27] + 1, "--exact-times")
    assert (times_of(result), result.stderr) == (times[25:28], "3 found\n")
    result = run("offset", tmp_path, "--time", times[25], "--exact-times")
    assert rows(result)[0]["phyOffset"] < rows(run("offset", tmp_path, "--time", times[25]))[0]["phyOffset"]
    result = run("offset", tmp_path, "--time", times[25], "--topic", "T", "--exact-times")
    assert rows(result)[0]["queueOffset"] == 25


def test_a_query_by_time_notes_nothing_of_files_that_it_would_not_reach(tmp_path):
    times = put_clock_ahead(tmp_path, 0)
    result = run("query", tmp_path, "--since", times[0], "--limit", 5)
    assert (times_of(result), "not read" in result.stderr) == (times[:5], False)
    result = run("query", tmp_path, "--since", times[0], "--until", times[5] + 1, "--limit", 5)
    assert "not read" not in result.stderr
    result = run("query", tmp_path, "--since", times[0], "--until", times[5])
    assert (times_of(result), "log files of other times were not read" in result.stderr) == (times[:5], True)


def test_index_files_are_not_searched_by_exact_times():
    result = run("query", golden(BASIC) / "index", "--topic", "TopicTest", "--key", "k", "--exact-times")
    assert result.exit_code == 2
    assert "--exact-times needs a store" in result.stderr


@pytest.mark.parametrize("upper", [[], ["--upper"]])
def test_an_exact_offset_in_a_queue_says_if_there_is_no_message(tmp_path, upper):
    times = put_clock_ahead(tmp_path, 30 * DAY)
    ask = ["offset", tmp_path, "--topic", "T", "--exact-times", *upper, "--time"]
    far = times[27] + 1 if not upper else times[0] - 1
    assert "no message was stored" in run(*ask, far).stderr
    assert run(*ask, times[0]).stderr == ""


@pytest.mark.parametrize(("bodies", "bad", "more"), [
    (["0", "1", "bad", "bad"], 2, True),
    (["0", "1", "2", *["bad"] * 9], 2, True),
    (["0", "bad", "1", "bad", "2"], 1, True),
    (["0", "bad", "1", "2"], 0, True),
    (["bad", "1", "2"], 0, True),
    (["bad", "1"], 1, False),
])  # fmt: skip
@pytest.mark.parametrize("asked", [["--key", "k"], ["--tag", "a||b"]])
def test_query_counts_the_bad_bodies_of_the_messages_that_it_shows(asked, bodies, bad, more, tmp_path):
    put_bodies(tmp_path, bodies, keys=["k"], tags="a")
    result = run("query", tmp_path, "--topic", "T", *asked, "--limit", 2)
    newest = [None if body == "bad" else body for body in bodies[:-3:-1]]
    assert [row["body"] for row in rows(result)] == newest
    assert (result.stderr.count("cannot be decoded"), "there are more" in result.stderr) == (int(bad > 0), more)
    assert bad == 0 or f"Warning: {bad} message" in result.stderr


def test_query_by_id_names_the_file_of_a_body_that_does_not_decompress(tmp_path):
    put_bodies(tmp_path, ["bad"])
    with rocketstore.open(tmp_path) as store:
        wanted = store.look_message_by_offset(0).msg_id
    result = run("query", tmp_path, "--id", wanted)
    assert [row["body"] for row in rows(result)] == [None]
    assert f"{tmp_path / 'commitlog' / f'{0:020}'}: body at byte 0: does not decompress" in result.stderr


@pytest.mark.parametrize("question", [["get", "T", 0, 0], ["query", "--topic", "T", "--key", "k"]])
def test_csv_has_the_reason_where_a_body_cannot_be_decoded(question, tmp_path):
    put_bodies(tmp_path, ["bad"], keys=["k"])
    command, *rest = question
    result = run(command, tmp_path, *rest, "--format", "csv")
    reader = csv.DictReader(result.stdout.splitlines())
    (row,) = reader
    assert (result.exit_code, reader.fieldnames) == (0, row_names())
    assert (row["body"], row["bodyBase64"]) == ("", "")
    assert row["bodyError"].startswith("body: does not decompress with zlib")


def test_get_on_a_terminal_has_a_line_for_each_field():
    status, text = on_terminal("get", golden(RICH), "RichTopic", 0, 0)
    assert status == 0
    assert "storeTimestamp             2026-11-21T11:54:36.742Z" in text
    assert "KEYS=订单😀-1 café 𐍈" in text


# ---- query -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["basic-5.5.0", "step-5.3.3", "lmq-5.5.0"])
def test_query_finds_verified_messages_newest_first(name):
    asked = [row for row in stores.queries(name) if row["begin"] == 0 and "type" not in row and row["messageOffsets"]]
    for row in asked[:: max(len(asked) // 8, 1)]:
        question = ["query", golden(name), "--topic", row["topic"], "--key", row["key"], "--limit", row["max"]]
        expected = [
            m["physicalOffset"]
            for m in stores.dump(name)["message"]
            if m["topic"] == row["topic"]
            and row["key"] in [*(m["dispatch"]["keys"] or "").split(" "), m["dispatch"]["uniqKey"]]
        ]
        found = [message["phyOffset"] for message in rows(run(*question), exit_code=0 if expected else 1)]
        assert found == sorted(found, reverse=True)
        assert set(found) <= set(row["messageOffsets"])
        assert set(expected) <= set(found)


def first_message():
    return stores.dump(BASIC)["message"][0]


def test_query_by_unique_key_and_by_id():
    message = first_message()
    unique = message["dispatch"]["uniqKey"]
    by_key = run("query", golden(BASIC), "--topic", message["topic"], "--unique-key", unique)
    by_id = run("query", golden(BASIC), "--id", message["msgId"])
    assert (by_key.stderr, by_id.stderr) == ("1 found\n", "1 found by its offset message id\n")
    assert rows(by_key) == rows(by_id)
    assert rows(by_id)[0]["uniqKey"] == unique


@pytest.mark.parametrize("options", [["--key", "k"], ["--tag", "a"], ["--unique-key", "u1"]], ids=" ".join)
def test_a_key_without_a_topic_is_looked_up_in_all_topics_by_the_index(options, tmp_path):
    with open_store(tmp_path) as store:
        for n, topic in enumerate(["Orders", "Payments", "Orders", "Other"]):
            key = "k" if topic != "Other" else "x"
            store.put_message(Message(topic, b"%d" % n, keys=[key], tags="a", uniq_key=f"u{n}", queue_id=0))
    expected = {"--key": "210", "--tag": "3210", "--unique-key": "1"}[options[0]]
    result = run("query", tmp_path, *options)
    assert "".join(row["body"] for row in rows(result)) == expected
    assert result.stderr == f"{len(expected)} found\n"
    limited = run("query", tmp_path, *options, "--limit", 1)
    assert [row["body"] for row in rows(limited)] == [expected[0]]
    assert_one_line(run("query", tmp_path, options[0], "nope"), "no message was found")
    shutil.rmtree(tmp_path / "index")
    option = options[0].replace("unique-", "")
    assert_one_line(run("query", tmp_path, *options), f"rocketstore cat {tmp_path} {option} {options[1]} reads the log")


def test_query_by_tag():
    messages = [m for m in stores.dump(BASIC)["message"] if m["topic"] == "TopicTest"]
    wanted = [m for m in messages if m["properties"].get("TAGS") == "TagB"]
    found = rows(run("query", golden(BASIC), "--topic", "TopicTest", "--tag", "TagB", "--limit", 1000))
    assert [row["phyOffset"] for row in found] == [m["physicalOffset"] for m in reversed(wanted)]
    assert wanted


def test_query_says_that_there_are_more_than_it_shows():
    count = len(stores.dump(BASIC)["message"])
    assert run("query", golden(BASIC), "--since", 0).stderr == f"{count} found\n"
    limited = run("query", golden(BASIC), "--since", 0, "--limit", 64)
    assert limited.stderr == "64 found; there are more: --limit N shows up to N\n"
    assert run("query", golden(BASIC), "--since", 0, "--limit", count).stderr == f"{count} found\n"
    by_tag = run("query", golden(BASIC), "--topic", "TopicTest", "--tag", "TagB", "--limit", 1)
    assert by_tag.stderr.startswith("1 found; there are more")


def test_query_takes_the_geometry_of_an_index_that_does_not_show_it(tmp_path):
    make_store(tmp_path, [{"topic": "T", "body": b"b"}])
    question = ["query", tmp_path, "--topic", "T", "--key", "k"]
    assert_one_line(run(*question), f"rocketstore query {tmp_path} --topic T --key k --slots N --items N")
    assert_one_line(run(*question, "--slots", 97, "--items", 400), "no message was found")
    assert_one_line(run(*question, "--slots", 9, "--items", 100), "9 slots and 100 items")
    assert_one_line(run("info", tmp_path, "--slots", 9, "--items", 100), "9 slots and 100 items")


def test_a_message_is_shown_once_however_often_its_tag_is_given(tmp_path):
    with open_store(tmp_path) as store:
        for name in ("one", "two"):
            store.put_message(Message("T", name.encode(), tags="A"))
    for options in (["--tag", "A || A"], ["--tag", "A", "--tag", "B", "--tag", "A"]):
        result = run("query", tmp_path, "--topic", "T", *options)
        assert [row["body"] for row in rows(result)] == ["two", "one"]
        assert result.stderr == "2 found\n"
        one = run("query", tmp_path, "--topic", "T", *options, "--limit", 1)
        assert one.stderr.startswith("1 found; there are more")


# ---- tags --------------------------------------------------------------------------------------------------

TAGS_COMMANDS = {
    "get": ["get", "STORE", "TopicTest", 0, 0, "--limit", 1000],
    "cat": ["cat", "STORE", "--topic", "TopicTest", "--queue", 0],
    "query": ["query", "STORE", "--topic", "TopicTest", "--limit", 1000],
}


def tagged(command, *tags):
    options = [word for tag in tags for word in ("--tag", tag)]
    return run(*(golden(BASIC) if word == "STORE" else word for word in TAGS_COMMANDS[command]), *options)


@pytest.mark.parametrize("tags", [["TagA || TagB"], ["TagB||TagA||"], ["TagA", "TagB"]], ids=str)
@pytest.mark.parametrize("command", list(TAGS_COMMANDS))
def test_tags_are_a_subscriptions_expression_in_every_command(command, tags):
    wanted = [
        m["physicalOffset"]
        for m in stores.dump(BASIC)["message"]
        if m["topic"] == "TopicTest"
        and m["properties"].get("TAGS") in ("TagA", "TagB")
        and (command == "query" or m["queueId"] == 0)
    ]
    found = [row["phyOffset"] for row in rows(tagged(command, *tags))]
    assert found == (wanted[::-1] if command == "query" else wanted)


@pytest.mark.parametrize("tags", ["*", ""])
@pytest.mark.parametrize("command", ["get", "cat"])
def test_all_tags_are_no_condition(command, tags):
    assert rows(tagged(command, tags)) == rows(tagged(command)) != []


@pytest.mark.parametrize("tags", ["||", " "])
@pytest.mark.parametrize("command", list(TAGS_COMMANDS))
def test_an_expression_without_a_tag_is_misuse(command, tags):
    result = tagged(command, tags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tags!r} has no tag" in result.stderr


# ---- query by time, and no results -------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [["--key", "k"], ["--since", 0]], ids=lambda condition: condition[0])
def test_query_of_a_topic_that_is_not_there(condition):
    result = run("query", golden(BASIC), "--topic", "nope", *condition)
    assert result.stdout == ""
    assert_one_line(result, "there is no queue of topic 'nope'")


def test_query_by_time_gives_the_oldest_first():
    messages = stores.dump("step-5.5.0")["message"]
    since, until = messages[50]["storeTimestamp"], messages[150]["storeTimestamp"]
    expected = [m["physicalOffset"] for m in messages if since <= m["storeTimestamp"] < until]
    question = ["query", golden("step-5.5.0"), "--since", since, "--until", until]
    assert [row["phyOffset"] for row in rows(run(*question, "--limit", 1000))] == expected
    assert [row["phyOffset"] for row in rows(run(*question, "--limit", 3))] == expected[:3]


def test_query_by_time_leaves_out_damaged_records(tmp_path):
    root = copy_of(BASIC, tmp_path)
    file = min((root / "commitlog").iterdir())
    second = stores.dump(BASIC)["message"][1]["physicalOffset"]
    data = bytearray(file.read_bytes())
    data[second : second + 8] = bytes(8)
    file.write_bytes(data)
    result = run("query", root, "--since", 0, "--limit", 1000)
    assert len(rows(result, exit_code=1)) == len(stores.dump(BASIC)["message"]) - 1
    assert f"offsets {second} to" in result.stderr.splitlines()[1]


def test_query_by_time_names_what_expires_before_it_is_read(tmp_path, monkeypatch):
    root = copy_of(RICH, tmp_path)
    first, second = sorted((root / "commitlog").iterdir())[:2]

    scan = rocketstore.CommitLog.scan

    def expire_and_scan(log, begin=None, *args, **options):
        if begin == 0:
            first.unlink(missing_ok=True)
        return scan(log, begin, *args, **options)

    monkeypatch.setattr(rocketstore.CommitLog, "scan", expire_and_scan)
    result = run("query", root, "--since", 0)
    assert rows(result, exit_code=1)[0]["phyOffset"] == int(second.name)
    assert f"the log before {int(second.name)} was deleted before it was read" in result.stderr.splitlines()[1]


EMPTY = {
    "query": ["query", "STORE", "--topic", "TopicTest", "--key", "nope"],
    "query by id": ["query", "STORE", "--id", "7F00000100002A9F00000000000FFFFF"],
    "query by time": ["query", "STORE", "--since", "2100-01-01", "--exact-times"],
    "get": ["get", "STORE", "TopicTest", 0, 10**6],
    "cat": ["cat", "STORE", "--key", "nope"],
    "cat of nothing": ["cat", "STORE", "--end-offset", 0],
    "export": ["export", "STORE", "-", "--format", "json", "--key", "nope"],
    "query index files": ["query", "STORE/index", "--topic", "TopicTest", "--key", "nope"],
    "query without a topic": ["query", "STORE", "--key", "nope"],
    "query by tag": ["query", "STORE", "--topic", "TopicTest", "--tag", "nope"],
    "get by tag": ["get", "STORE", "TopicTest", 0, 0, "--tag", "nope"],
    "cat by time": ["cat", "STORE", "--since", "2100-01-01"],
}


@pytest.mark.parametrize("form", ["json", "csv", "table"])
@pytest.mark.parametrize("name", list(EMPTY))
def test_nothing_found_is_exit_status_1_and_one_line(name, form):
    if name == "export" and form == "table":
        return  # no format of files
    places = {"STORE": golden(BASIC), "STORE/index": golden(BASIC) / "index"}
    result = run(*(places.get(argument, argument) for argument in EMPTY[name]), "--format", form)
    assert len(result.stdout.splitlines()) <= (form == "csv")  # its header
    assert_one_line(result)


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_an_export_of_nothing_says_so_and_makes_a_file_without_rows(suffix, tmp_path):
    target = tmp_path / f"out.{suffix}"
    result = run("export", golden(BASIC), target, "--key", "nope")
    assert_one_line(result, f"{golden(BASIC)}: no message was found")
    if suffix == "parquet":
        assert pytest.importorskip("pyarrow.parquet").read_table(target).num_rows == 0
    else:
        assert len(target.read_text().splitlines()) == (suffix == "csv")


def test_query_says_that_the_index_is_not_complete(tmp_path):
    root = copy_of(BASIC, tmp_path)
    sorted((root / "index").iterdir())[-1].unlink()
    result = run("query", root, "--topic", "TopicTest", "--key", "nope")
    assert_one_line(result, "Error: the answer may be incomplete: messages with keys from offset")


def test_query_without_a_commit_log(tmp_path):
    root = copy_of(BASIC, tmp_path)
    shutil.rmtree(root / "commitlog")
    assert_one_line(run("query", root, "--topic", "T", "--key", "k"), root / "commitlog", "No such file")


# ---- where the store is ------------------------------------------------------------------------------------


def test_a_log_elsewhere_is_found_by_the_brokers_own_file(tmp_path):
    make_store(tmp_path / "root", [{"topic": "T", "body": b"b"}])
    (tmp_path / "root" / "commitlog").rename(tmp_path / "log")
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"storePathCommitLog={tmp_path / 'log'}\nmappedFileSizeCommitLog=65536\n"
        "mappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=97\nmaxIndexNum=400\n"
    )
    assert_one_line(run("cat", tmp_path / "root"), tmp_path / "root" / "commitlog")
    assert [row["topic"] for row in rows(run("cat", tmp_path / "root", "--broker-conf", conf))] == ["T"]
    conf.write_text("storePathCommitLog=\\uzzzz\n")
    assert_one_line(run("cat", tmp_path / "root", "--broker-conf", conf), conf, "line 1", "hexadecimal digits")


def test_a_line_that_the_broker_ignores_stops_no_command(tmp_path, caplog):
    make_store(tmp_path / "root", [{"topic": "T", "body": b"b"}])
    conf = tmp_path / "broker.conf"
    for line in (
        "mappedFileSizeCommitLog=many",
        "enableLmq=yes ",
        "mapedFileSizeConsumeQueue=300000",
        "fileReservedTime=-1",
        "messageDelayLevel=1s,5s",
        "flushIntervalCommitLog=0",
    ):
        conf.write_text(f"mappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=97\nmaxIndexNum=400\n{line}\n")
        done = run("cat", tmp_path / "root", "--broker-conf", conf)
        assert [row["topic"] for row in rows(done)] == ["T"]
        assert f"{conf}, line 4: {line.partition('=')[0]}=" in caplog.text


@pytest.mark.parametrize(
    "command",
    [["ls"], ["lag"], ["cat"], ["hexdump", 0], ["get", "T", 0, 0], ["offset", "--time", 0], ["export", "out.json"]],
    ids=lambda command: command[0],
)
def test_a_wrong_path_is_named(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *others = command
    assert_one_line(run(name, tmp_path / "nothing", *others), tmp_path / "nothing", "No such file")
    assert_one_line(run(name, tmp_path, *others), tmp_path, "no store is here")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "below", ["commitlog", "index", "consumequeue/TopicTest/0", "commitlog/*", "consumequeue/*/0/*"]
)
@pytest.mark.parametrize(
    "command",
    [["ls"], ["info"], ["verify"], ["recover"], ["rebuild"], ["query", "--topic", "T", "--key", "k"]],
    ids=lambda command: command[0],
)
def test_a_directory_of_a_store_given_as_the_store_gets_a_hint_at_the_store(command, below):
    root = golden(BASIC)
    below = next(root.glob(below)).relative_to(root)
    if below.name == "index" and command[0] in ("info", "query"):
        return  # they read index files without a store
    name, *options = command
    assert_one_line(run(name, root / below, *options), root / below, f"did you mean {root}?")


def test_a_directory_above_stores_gets_a_hint_at_them(tmp_path):
    roots = [shutil.copytree(golden(BASIC), tmp_path / name) for name in ("a", "b")]
    hint = f"did you mean one of {roots[0]}, {roots[1]}?"
    for name, *options in (["ls"], ["info"], ["cat"], ["verify"], ["recover"], ["rebuild"], ["config", "check"]):
        assert_one_line(run(name, *options, tmp_path), tmp_path, hint)
    for mode in ("r", "r+", "a"):
        with pytest.raises(StoreError, match=re.escape(hint)):
            rocketstore.open(tmp_path, mode)
    log_file = next((roots[0] / "commitlog").iterdir())
    with pytest.raises(StoreError, match="there is no record of a commit log: did you mean one of"):
        rocketstore.salvage(tmp_path, tmp_path.parent / "out")
    for mode in ("r", "r+", "a"):
        with pytest.raises(NotADirectoryError, match=re.escape(f"did you mean {roots[0]}?")):
            rocketstore.open(log_file, mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_directory_above_a_store_gets_a_hint_at_the_store(tmp_path):
    shutil.copytree(golden(BASIC), tmp_path / "store")
    assert_one_line(run("ls", tmp_path), f"did you mean {tmp_path / 'store'}?")
    (tmp_path / "messages.json").write_text("")
    result = run("import", tmp_path / "messages.json", tmp_path / "store" / "commitlog")
    assert_one_line(result, f"did you mean {tmp_path / 'store'}?")

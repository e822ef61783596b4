"""Commands that ask several stores: the rows of a loop over single stores, each with its broker."""

import json
import shutil

import pytest
from support import states
from support.cli import on_terminal, rows, run
from support.several_stores import START, draw_stores

import rocketstore
from rocketstore import Message

QUESTIONS = [
    ("lag",),
    ("lag", "--group", "billing"),
    ("info",),
    ("ls",),
    ("ls", "--topic", "T", "--topic", "U"),
    ("du",),
    ("du", "--disks", "--columns", "broker,path,totalBytes"),
    ("du", "--by", "queue"),
    ("du", "--by", "hour", "--exact"),
    ("count", "--by", "topic,tag"),
    ("count", "--by", "queue", "--key", "k1"),
    ("count", "--by", "topic", "--unconsumed", "--group", "billing"),
    ("dlq",),
    ("dlq", "--retry", "--totals"),
    ("pending", "--totals"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three stores in directories of their own, with a dead letter, a retry and a delayed message in the first."""
    roots = draw_stores(tmp_path_factory.mktemp("several"))
    with rocketstore.open(roots["a"], "r+") as store:
        for topic in ("%DLQ%billing", "%RETRY%billing"):
            properties = {"RETRY_TOPIC": "T", "RECONSUME_TIME": "3"}
            store.put_message(Message(topic, b"dead", keys=["k1"], uniq_key="dead", properties=properties, queue_id=0))
    return roots


@pytest.fixture
def roots(made, tmp_path):
    """Copies of the stores that a test may change."""
    return {name: shutil.copytree(root, tmp_path / "stores" / name) for name, root in made.items()}


def pattern_of(roots):
    return f"{roots['a'].parent.parent}/*/store"


def without_ages(found):
    """Rows without the values that change while a test runs."""
    changing = {"oldestAgeSeconds"}
    return [{name: value for name, value in row.items() if name not in changing} for row in found]


# ---- rows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_rows_are_those_of_each_store_with_its_broker(made, question):
    command, *options = question
    wanted = []
    for broker, root in made.items():
        single = run(command, root, *(option.replace("broker,", "") for option in options))
        wanted += ({"broker": broker} | json.loads(line) for line in single.stdout.splitlines())
    by_pattern = run(command, pattern_of(made), *options)
    assert without_ages(rows(by_pattern)) == without_ages(wanted)
    by_names = run(command, *made.values(), *options)
    assert without_ages(rows(by_names)) == without_ages(wanted)
    assert all(line.startswith('{"broker": ') for line in by_names.stdout.splitlines())


def test_lag_has_the_sums_of_each_broker_and_of_all(made):
    found = rows(run("lag", pattern_of(made), "--totals"))
    single = [{"broker": broker} | row for broker, root in made.items() for row in rows(run("lag", root, "--totals"))]
    assert without_ages(found[: len(single)]) == without_ages(single)
    totals = {row["group"]: row for row in found[len(single) :]}
    assert sorted(totals) == sorted({row["group"] for row in single})
    for group, total in totals.items():
        own = [row for row in single if row["group"] == group]
        assert total["broker"] is None
        assert total["lag"] == sum(row["lag"] for row in own)
        assert total["queues"] == sum(row["queues"] for row in own)
        assert total["oldestTimestamp"] == min(row["oldestTimestamp"] for row in own)
    assert totals["billing"]["topics"] == 1
    status, text = on_terminal("lag", pattern_of(made))
    assert status == 0
    assert text.split().count("total") == len(totals)
    lag = totals["billing"]["lag"]
    assert run("lag", pattern_of(made), "--fail-if", f"lag >= {lag}").exit_code == 3
    assert run("lag", pattern_of(made), "--fail-if", f"lag > {lag}").exit_code == 0


def test_du_has_the_total_of_all_brokers(made):
    *parts, total = rows(run("du", pattern_of(made), "--totals"))
    assert [row["broker"] for row in parts] == [*"abc"]
    assert total == {"broker": None} | {name: sum(row[name] for row in parts) for name in parts[0] if name != "broker"}
    for options in ([], ["--by", "topic"]):
        assert on_terminal("du", pattern_of(made), "--totals", *options)[1].split().count("total") == 1
    *_, total = rows(run("du", pattern_of(made), "--by", "topic", "--totals"))
    assert (total["broker"], total["messages"], total["isExact"]) == (None, 182, False)


def test_pending_messages_of_all_stores_are_by_due_time(made, tmp_path):
    root = states.unpack("pending", tmp_path)
    copy = shutil.copytree(root, tmp_path / "copy")
    found = run("pending", root, copy, made["a"])
    due = [row["dueTimestamp"] for row in map(json.loads, found.stdout.splitlines())]
    assert due == sorted(due, key=lambda at: (at is None, at or 0))
    single = rows(run("pending", root), exit_code=found.exit_code)
    assert len(due) == 2 * len(single) > 0


def test_trace_shows_the_events_of_all_stores_message_after_message(made):
    found = rows(run("trace", pattern_of(made), "--key", "k1", "--topic", "T"))
    single = [
        {"broker": broker} | row
        for broker, root in made.items()
        for row in rows(run("trace", root, "--key", "k1", "--topic", "T"))
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, single))
    begins = [row["eventTimestamp"] for row in found if row["kind"] == "produced"]
    assert begins == sorted(begins)
    keys = [row["uniqKey"] for row in found]
    assert [key for i, key in enumerate(keys) if keys.index(key) == i] == [*dict.fromkeys(keys)]
    missing = run("trace", pattern_of(made), "--key", "none")
    assert (missing.exit_code, missing.stderr.count("the index has no entry with the hash of the key 'none'")) == (1, 3)
    assert missing.stderr.startswith("Error: 3 stores: no message was found: a: ")


def test_metrics_have_the_label_broker_and_each_gauge_once(made):
    result = run("metrics", pattern_of(made))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("rocketstore_running")] == [
        f'rocketstore_running{{broker="{broker}"}} 0' for broker in "abc"
    ]
    assert sum(line.startswith("# TYPE rocketstore_messages ") for line in lines) == 1
    assert lines[-1] == "# EOF"


def test_a_chosen_column_can_be_the_broker(made):
    found = rows(run("count", pattern_of(made), "--by", "topic", "--columns", "broker,messages"))
    assert [*found[0]] == ["broker", "messages"]
    single = run("count", made["a"], "--by", "topic", "--columns", "broker")
    assert (single.exit_code, "there is no 'broker' here" in single.stderr) == (2, True)
    header = run("dlq", pattern_of(made), "--group", "none", "--format", "csv").stdout
    assert header.startswith("broker,group,")


# ---- which stores ----------------------------------------------------------------------------------------------


def test_matches_that_are_no_stores_are_skipped_with_a_note(roots):
    parent = roots["a"].parent
    (parent / "broker.log").touch()
    result = run("ls", f"{parent}/*")
    assert {row["broker"] for row in rows(result)} == {*"abc"}
    assert result.stderr == f"{parent / 'broker.log'}: is no store, and is left out\n"


@pytest.mark.parametrize("command", ["lag", "ls", "du", "dlq", "pending", "metrics"])
def test_a_pattern_that_matches_nothing_is_one_clear_sentence(tmp_path, command):
    result = run(command, f"{tmp_path}/x*")
    assert result.exit_code == 1
    assert result.stderr == f"Error: {tmp_path}/x*: no file or directory matches this pattern\n"
    (tmp_path / "x.txt").touch()
    result = run(command, f"{tmp_path}/x*")
    assert result.stderr == f"Error: {tmp_path}/x*: no store matches this pattern, only x.txt\n"


def test_the_error_of_a_directory_with_stores_names_the_pattern(roots):
    parent = roots["a"].parent
    result = run("lag", parent)
    assert result.exit_code == 1
    assert result.stderr.endswith(
        f"did you mean one of {parent}/a, {parent}/b, {parent}/c? To ask all of them: '{parent}/*'\n"
    )


def test_one_store_that_a_pattern_matches_has_a_column_broker_too(roots):
    assert {row["broker"] for row in rows(run("ls", f"{roots['a'].parent}/b*"))} == {"b"}
    assert "broker" not in rows(run("ls", roots["b"]))[0]


def test_options_of_one_broker_are_refused_for_several_stores(made, tmp_path):
    (tmp_path / "broker.conf").touch()
    for option in (["--broker-conf", tmp_path / "broker.conf"], ["--tier", tmp_path]):
        result = run("ls", pattern_of(made), *option)
        assert (result.exit_code, "are of one broker: give one STORE" in result.stderr) == (2, True)


@pytest.mark.parametrize("command", [["count", "--by", "topic"], ["du"], ["metrics"], ["trace", "--key", "k1"]])
def test_a_damaged_store_hides_no_other_and_the_exit_status_is_1(roots, command):
    (roots["b"] / "commitlog").rename(roots["b"].parent / "elsewhere")  # within the store it would be found
    result = run(*command, f"{roots['a'].parent}/*")
    assert result.exit_code == 1
    assert str(roots["b"]) in result.stderr
    if command[0] != "metrics":
        assert {json.loads(line)["broker"] for line in result.stdout.splitlines()} >= {"a", "c"}
    else:
        assert 'rocketstore_messages{broker="c"}' in result.stdout


def test_a_named_path_that_is_no_store_is_said_and_hides_no_store(roots):
    result = run("ls", roots["a"], roots["a"].parent / "missing", roots["c"])
    assert result.exit_code == 1
    assert {json.loads(line)["broker"] for line in result.stdout.splitlines()} == {"a", "c"}
    assert f"Error: {roots['a'].parent / 'missing'}: No such file or directory" in result.stderr


def test_a_topic_or_group_is_unknown_only_if_no_store_has_it(made):
    assert run("dlq", pattern_of(made), "--group", "a-only").stderr == "3 stores: no dead letter\n"
    result = run("lag", pattern_of(made), "--group", "a-only")
    assert {row["broker"] for row in rows(result)} == {"a"}
    result = run("lag", pattern_of(made), "--group", "billin")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("no group 'billin'") == 1
    assert "did you mean 'billing'?" in result.stderr
    assert {row["broker"] for row in rows(run("ls", pattern_of(made), "--topic", "U"))} == {"a", "b"}
    result = run("ls", pattern_of(made), "--topic", "W")
    assert (result.exit_code, result.stderr.count("'W'")) == (1, 1)


def test_a_shell_completes_the_names_of_all_stores(made, capsys):
    from click.shell_completion import BashComplete

    from rocketstore.cli.group import rocketstore as group

    def complete(*words):
        completer = BashComplete(group, {}, "rocketstore", "_ROCKETSTORE_COMPLETE")
        return {item.value for item in completer.get_completions([str(word) for word in words], "")}

    assert {"T", "U", "V"} <= complete("ls", pattern_of(made), "--topic")
    assert complete("lag", made["a"], made["b"], "--group") == {"billing", "a-only", "b-only"}
    assert capsys.readouterr().err == ""


# ---- messages --------------------------------------------------------------------------------------------------


def messages_of(made, command, *options):
    """The messages that a command shows of each store, store after store, each with its broker."""
    found = []
    for broker, root in made.items():
        single = run(command, root, *options)
        found += ({"broker": broker} | json.loads(line) for line in single.stdout.splitlines())
    return found


CHOICES = [
    (),
    ("--topic", "T"),
    ("--topic", "U", "--key", "k1"),
    ("--tag", "x", "--since", START + 300_000),
    ("--where", "tags = 'x'"),
]


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_cat_shows_the_messages_of_all_stores_by_store_time(made, options):
    wanted = sorted(messages_of(made, "cat", *options), key=lambda row: row["storeTimestamp"])
    assert rows(run("cat", pattern_of(made), *options)) == wanted
    for limit in (1, 17, len(wanted), len(wanted) + 1):
        assert rows(run("cat", pattern_of(made), *options, "--limit", limit)) == wanted[:limit]
    few = rows(run("cat", pattern_of(made), *options, "--columns", "body,broker"))
    assert few == [{name: row[name] for name in ("body", "bodyBase64", "broker")} for row in wanted]
    assert run("cat", made["a"], "--columns", "broker").exit_code == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--key", "k1"),
        ("--key", "k1", "--key", "标签", "--topic", "T"),
        ("--unique-key", "b-3"),
        ("--tag", "x", "--topic", "U"),
    ],
    ids=str,
)
def test_query_shows_the_messages_of_all_stores_newest_first(made, options):
    wanted = sorted(messages_of(made, "query", *options), key=lambda row: -row["storeTimestamp"])
    assert rows(run("query", pattern_of(made), *options)) == wanted
    result = run("query", pattern_of(made), *options, "--limit", 3)
    assert rows(result) == wanted[:3]
    assert ("there are more" in result.stderr) == (len(wanted) > 3)


def test_query_by_time_shows_the_messages_of_all_stores_oldest_first(made):
    options = "--since", START + 100_000, "--until", START + 500_000
    wanted = sorted(messages_of(made, "query", *options), key=lambda row: row["storeTimestamp"])
    assert rows(run("query", pattern_of(made), *options)) == wanted
    assert rows(run("query", pattern_of(made), *options, "--limit", 5)) == wanted[:5]


def test_a_message_is_found_by_its_id_in_the_stores_that_have_it(made):
    [message] = rows(run("query", made["b"], "--unique-key", "b-3"))
    found = run("query", pattern_of(made), "--id", message["msgId"])
    assert {"broker": "b"} | message in rows(found)
    missing = run("query", pattern_of(made), "--id", message["msgId"][:-6] + "FFFFFF")
    assert (missing.exit_code, missing.stdout, missing.stderr.count("physical offset")) == (1, "", 3)
    assert run("query", pattern_of(made), "--id", "none").exit_code == 2


def test_messages_on_a_terminal_have_a_column_broker(made):
    status, text = on_terminal("cat", pattern_of(made), "--limit", "2")
    assert status == 0
    assert text.split()[0] == "broker"
    status, text = on_terminal("query", pattern_of(made), "--unique-key", "b-3")
    assert "broker" in text


@pytest.mark.parametrize("command", [["cat"], ["query", "--key", "k1"], ["query", "--since", "0"]], ids=str)
def test_messages_of_other_stores_are_shown_beside_a_store_without_a_log(roots, command):
    (roots["b"] / "commitlog").rename(roots["b"].parent / "elsewhere")  # within the store it would be found
    result = run(*command, f"{roots['a'].parent}/*")
    assert result.exit_code == 1
    assert {json.loads(line)["broker"] for line in result.stdout.splitlines()} == {"a", "c"}
    assert f"Error: {roots['b'] / 'commitlog'}: No such file or directory" in result.stderr


def test_cat_names_the_damage_of_one_store_and_shows_the_others(roots):
    [log] = (roots["a"] / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(200)
        file.write(bytes(range(100)))
    single = {name: run("cat", root) for name, root in roots.items()}
    result = run("cat", f"{roots['a'].parent}/*")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == sum(len(each.stdout.splitlines()) for each in single.values())
    assert single["a"].stderr in result.stderr


def test_options_of_one_log_are_refused_for_several_stores(made):
    for options in (["--follow"], ["--tail", 1], ["--begin-offset", 0]):
        result = run("cat", pattern_of(made), *options)
        assert (result.exit_code, "give one STORE" in result.stderr) == (2, True)


# ---- tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT topic, queueId, queueOffset, body_text FROM messages",
        "SELECT * FROM topics",
        "SELECT topic, queues, messages FROM topics WHERE topic = 'T'",
        "SELECT * EXCLUDE path FROM index_files",
        "SELECT kind, severity FROM findings",
        'SELECT "group", lag FROM groups',
    ],
)
def test_sql_reads_the_tables_of_all_stores(made, statement):
    pytest.importorskip("duckdb", reason="needs duckdb, from the extra 'duckdb'")
    wanted = [{"broker": broker} | row for broker, root in made.items() for row in rows(run("sql", root, statement))]
    found = rows(
        run("sql", pattern_of(made), statement.replace("SELECT ", "SELECT broker, ", 1).replace("broker, *", "*"))
    )
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, wanted))


def test_sql_answers_beside_a_store_without_a_log_with_exit_status_1(roots):
    pytest.importorskip("duckdb", reason="needs duckdb, from the extra 'duckdb'")
    (roots["b"] / "commitlog").rename(roots["b"].parent / "elsewhere")  # within the store it would be found
    counts = "SELECT broker, count(*) AS n FROM messages GROUP BY 1 ORDER BY 1"
    result = run("sql", f"{roots['a'].parent}/*", counts)
    assert [json.loads(line)["broker"] for line in result.stdout.splitlines()] == ["a", "c"]
    assert (result.exit_code, "commitlog" in result.stderr) == (1, True)
    assert result.stderr.count("Error") == 1


# ---- export ----------------------------------------------------------------------------------------------------


def test_export_writes_a_directory_for_each_broker(made, tmp_path):
    ds = pytest.importorskip("pyarrow.dataset", reason="needs pyarrow, from the extra 'arrow'")
    target = tmp_path / "out"
    result = run("export", pattern_of(made), target, "--topic", "T")
    assert (result.exit_code, result.stdout) == (0, "")
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*.*")) == [
        f"broker={broker}/messages.parquet" for broker in "abc"
    ]
    found = ds.dataset(target, partitioning="hive").to_table(columns=["broker", "phyOffset", "body"]).to_pylist()
    wanted = [
        {"broker": row["broker"], "phyOffset": row["phyOffset"], "body": row["body"].encode()}
        for row in messages_of(made, "cat", "--topic", "T")
    ]
    assert found == wanted
    again = run("export", pattern_of(made), target, "--topic", "T")
    assert (again.exit_code, again.stderr.count("exists: give another name, or --force")) == (1, 1)
    assert run("export", pattern_of(made), target, "--topic", "T", "--force").exit_code == 0
    resumed = run("export", pattern_of(made), target, "--topic", "T", "--resume")
    assert (resumed.exit_code, resumed.stderr.count("is complete already")) == (0, 3)


def test_export_of_several_stores_has_each_format_and_partitions(made, tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    assert run("export", *made.values(), tmp_path / "lines", "--format", "json", "--topic", "U").exit_code == 0
    found = [json.loads(line) for line in (tmp_path / "lines" / "broker=b" / "messages.jsonl").read_text().splitlines()]
    assert found == rows(run("cat", made["b"], "--topic", "U"))
    assert run("export", pattern_of(made), tmp_path / "parts", "--partition-by", "topic").exit_code == 0
    assert {path.parent.name for path in (tmp_path / "parts" / "broker=c").rglob("*.parquet")} == {"topic=T", "topic=V"}
    for target, options in [("-", []), (tmp_path / "x", ["--end-offset", 9])]:
        assert run("export", pattern_of(made), target, "--format", "json", *options).exit_code == 2


def test_export_leaves_a_store_without_a_log_out_and_says_so(roots, tmp_path):
    (roots["b"] / "commitlog").rename(roots["b"].parent / "elsewhere")  # within the store it would be found
    target = tmp_path / "out"
    result = run("export", f"{roots['a'].parent}/*", target, "--format", "csv")
    assert (result.exit_code, "commitlog" in result.stderr) == (1, True)
    assert [path.parent.name for path in sorted(target.rglob("*.csv"))] == ["broker=a", "broker=c"]
    result = run("export", roots["a"], roots["c"], tmp_path / "none", "--format", "csv", "--topic", "W")
    assert (result.exit_code, result.stderr.count("'W'")) == (1, 1)


# ---- what a group still gets -----------------------------------------------------------------------------------


def test_cat_shows_what_a_group_still_gets_from_each_store(made):
    options = "--unconsumed", "--group", "billing"
    wanted = []
    for broker, root in made.items():
        wanted += ({"broker": broker} | row for row in rows(run("cat", root, *options)))
    assert rows(run("cat", pattern_of(made), *options)) == wanted
    assert rows(run("cat", pattern_of(made), *options, "--limit", 3)) == wanted[:3]
    chosen = rows(run("cat", pattern_of(made), *options, "--columns", "broker,phyOffset"))
    assert chosen == [{name: row[name] for name in ("broker", "phyOffset")} for row in wanted]
    counts = rows(run("count", pattern_of(made), "--by", "topic", *options))
    assert sum(row["messages"] for row in counts) == len(wanted)


def test_a_store_without_offsets_of_a_group_is_named_since_the_group_may_get_its_messages(made, tmp_path):
    options = "--unconsumed", "--group", "b-only"
    single = rows(run("cat", made["b"], *options))
    shown = run("cat", pattern_of(made), *options)
    assert [json.loads(line) for line in shown.stdout.splitlines()] == [{"broker": "b"} | row for row in single]
    for result in (shown, run("export", pattern_of(made), tmp_path / "out", "--format", "json", *options)):
        named = [name for name in "abc" if f"{made[name]}: group 'b-only' has no offsets" in result.stderr]
        assert (result.exit_code, named, "no group" in result.stderr) == (1, ["a", "c"], False)


def test_a_group_that_no_store_knows_is_named_once(made):
    for command in (["cat", pattern_of(made)], ["count", pattern_of(made), "--by", "topic"]):
        result = run(*command, "--unconsumed", "--group", "billin")
        assert (result.exit_code, result.stdout, result.stderr.count("no group 'billin'")) == (1, "", 1)

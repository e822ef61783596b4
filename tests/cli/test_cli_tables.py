"""Tables for people: which columns, how long values are, colours; ``--columns``, ``--full`` and ``--limit``."""

import os
import re
import shutil

import pytest
from support import planted
from support.cli import golden, on_terminal, rows, run
from support.puts import open_store

import rocketstore
from rocketstore import Message
from rocketstore.verify.kinds import KINDS

RICH, STEP = "rich-5.5.0", "step-5.5.0"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("tables") / "store"
    with open_store(root) as opened:
        opened.put_message(Message("Orders", b"paid", tags="A", keys=["k"], queue_id=0))
        opened.put_message(Message("Orders", bytes(range(128, 256)) * 2, keys=["k"], queue_id=0))
        long = [f"key-{n:03}" for n in range(40)]
        opened.put_message(Message("Orders", b"text " * 50, keys=["k", *long], queue_id=1))
    return root


def table(*arguments, columns=300):
    """The header and the lines of a table, split into words at two spaces."""
    status, text = on_terminal(*arguments, columns=columns)
    assert status == 0, text
    header, *lines = text.splitlines()
    return header.split(), lines


def test_a_body_is_text_or_the_number_of_its_bytes(store):
    header, lines = table("cat", store)
    assert header == ["storeTimestamp", "topic", "queueId", "queueOffset", "phyOffset", "tags", "keys", "size", "body"]
    assert [line.split()[-1] for line in lines[:2]] == ["paid", "bytes>"]
    assert lines[1].rstrip().endswith("<256 bytes>")
    assert ("text " * 50)[:59] + "…" in lines[2]


def test_the_size_is_that_of_the_record(store):
    header, lines = table("cat", store, "--columns", "size,phyOffset")
    assert header == ["size", "phyOffset"]
    sizes = [int(line.split()[0]) for line in lines]
    assert [int(line.split()[1]) for line in lines] == [0, sizes[0], sizes[0] + sizes[1]]


def test_columns_that_were_asked_for_by_value_are_last(store):
    header, _ = table("cat", store, "--topic", "Orders", "--queue", 0)
    assert header == ["storeTimestamp", "queueOffset", "phyOffset", "tags", "keys", "size", "body", "topic", "queueId"]
    header, _ = table("query", store, "--topic", "Orders", "--key", "k")
    assert header[-3:] == ["body", "topic", "keys"]
    header, _ = table("get", store, "Orders", 0, 0, "--limit", 2)
    assert header[-3:] == ["body", "topic", "queueId"]
    header, _ = table("cat", store, "--topic", "Orders", "--topic", "Orders", "--queue", 0, "--queue", 1)
    assert header[-1] == "body"


def test_long_keys_are_cut_like_bodies_unless_full(store):
    _, lines = table("cat", store, columns=1000)
    keys = ", ".join(["k", *(f"key-{n:03}" for n in range(40))])
    assert f"{keys[:59]}…" in lines[2]
    assert "key-039" not in lines[2]
    _, lines = table("cat", store, "--full", columns=1000)
    assert keys in lines[2]
    assert "text " * 50 in f"{lines[2]} "
    assert "gIGCg4SFhoeIiYqLjI2O" in lines[1]


@pytest.mark.parametrize("names", ["storeTimestamp,body,queueOffset", "store_timestamp, body,queue_offset"])
@pytest.mark.parametrize("command", [["cat"], ["get", "Orders", "0", "0"], ["query", "--since", "0"]], ids=" ".join)
def test_columns_are_chosen_by_either_of_their_names(store, command, names):
    name, *rest = command
    first = rows(run(name, store, *rest, "--columns", names))[0]
    assert list(first) == ["storeTimestamp", "body", "bodyBase64", "queueOffset"]
    assert (first["body"], first["bodyBase64"], first["queueOffset"]) == ("paid", None, 0)
    header = run(name, store, *rest, "--columns", names, "--format", "csv").stdout.splitlines()[0]
    assert header == "storeTimestamp,body,bodyBase64,queueOffset"


@pytest.mark.parametrize(("names", "words"), [
    ("storeTimestmp", "there is no column 'storeTimestmp': did you mean 'storeTimestamp'?"),
    ("zzz", "the columns are topic, queueId"), (",", "the columns are topic"),
])  # fmt: skip
def test_a_column_that_is_not_there_is_misuse(store, names, words):
    result = run("cat", store, "--columns", names)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.split())


def test_a_topic_without_messages_is_named_whatever_the_columns(store):
    result = run("cat", store, "--topic", "Nope", "--topic", "Orders", "--columns", "body")
    assert len(rows(result, exit_code=1)) == 3
    assert "there is no queue of topic 'Nope'" in result.stderr


def test_the_limit_ends_the_output_of_cat(monkeypatch):
    every = rows(run("cat", golden(STEP)))
    monkeypatch.setattr("rocketstore.cli.cat.BATCH_SIZE", 3)
    for limit in (1, 3, 4, 10**6):
        assert rows(run("cat", golden(STEP), "--limit", limit)) == every[:limit]


def test_a_single_wide_record_is_vertical_and_complete(store):
    status, text = on_terminal("get", store, "Orders", 1, 0, columns=100)
    assert status == 0
    lines = dict(line.split(maxsplit=1) for line in text.splitlines() if line[:1].isalpha() and " " in line.strip())
    assert lines["topic"].strip() == "Orders"
    assert "bodyBase64" not in lines
    assert "key-039" in text
    assert text.count("text ") == 50


def test_a_message_takes_one_line_of_a_narrow_terminal_unless_all_of_it_is_asked_for(store):
    status, text = on_terminal("cat", store, columns=80)
    lines = text.splitlines()
    assert status == 0
    assert [line.rstrip().split("  ")[-1] for line in lines[1:4]] == ["paid", "<256 bytes>", "text text text text…"]
    assert lines[4].startswith("80 columns are too few for")
    assert len(on_terminal("cat", store, "--full", columns=80)[1].splitlines()) > 10


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    root = tmp_path_factory.mktemp("tables") / "damaged"
    planted.build("plain", root)
    for name in ("unit_with_another: size", "missing_checkpoint"):
        planted.FAULTS[name][1](planted.Store(root))
    return root


def test_paths_in_a_table_are_below_the_store_and_those_for_programs_are_complete(damaged, tmp_path):
    text = run("verify", damaged, "--format", "table").stdout
    assert "  consumequeue/TopicTest/" in text
    assert str(damaged) not in text
    assert all(row["path"].startswith(str(damaged)) for row in rows(run("verify", damaged), exit_code=1))
    root = shutil.copytree(damaged, tmp_path / "store")
    (root / "config" / "topics.json").write_text("{")
    assert run("config", "check", root, "--format", "table").stdout.splitlines()[1].startswith("config/topics.json")


@pytest.mark.parametrize("columns", [80, 140])
def test_a_narrow_terminal_folds_no_name_of_a_file_and_leaves_no_column_out(damaged, columns):
    status, text = on_terminal("verify", damaged, columns=columns)
    assert status == 1
    lines = text.rpartition("\x1b[2K")[2].splitlines()
    found = rows(run("verify", damaged), exit_code=1)
    assert max(map(len, lines[: -1 - len(found)])) <= columns
    assert "columns are too few" not in text
    for row in found:
        path = row["path"].removeprefix(f"{damaged}/")
        assert any(row["kind"] in line for line in lines)
        assert any(path in line.split() for line in lines)
        assert f"mend: {row['mend']}" in text or columns > 80


def test_a_list_that_is_too_wide_has_lines_of_names_and_values(damaged):
    _, text = on_terminal("verify", "--list", columns=80)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[1] for line in lines if line.startswith("kind: ")] == list(KINDS)
    assert lines[:3] == [
        "kind: log-missing  severity: error",
        "    meaning: queues or an index exist, but the commit log is missing  mend: -",
        "    atNextStart: destroys all consume queues",
    ]
    status, text = on_terminal("info", golden(STEP) / "index", "--columns", "file,items,beginTimestamp", columns=40)
    assert status == 0
    assert "endPhyOffset" not in text
    assert "file: " in text or "file " in text


def test_a_hexdump_of_80_columns_folds_neither_names_nor_times(store):
    status, text = on_terminal("hexdump", store, 0, columns=80)
    assert status == 0
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    for field in ("preparedTransactionOffset", "bornTimestamp", "storeTimestamp", "propertiesLength"):
        assert sum(field in line for line in lines) == 1
    (line,) = (line for line in lines if "storeTimestamp" in line)
    assert re.search(r" 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  ", line)
    assert " ".join(line.split()).count(":") == 2


def test_severities_have_colours_on_a_terminal_only(damaged):
    import pty

    from support.cli import start

    main, terminal = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"COLUMNS": "160", "TERM": "xterm-256color"}
    with start("verify", damaged, stdout=terminal, env=environment) as process:
        os.close(terminal)
        written = b""
        while b"checkpoint-missing" not in written:
            written += os.read(main, 4096)
        process.communicate(timeout=60)
    os.close(main)
    assert b"\x1b[1;31merror" in written
    assert b"\x1b[33mwarning" in written
    assert "\x1b" not in run("verify", damaged, "--format", "table").stdout


# ---- tables of every command -------------------------------------------------------------------------------

LISTS = {  # commands that list rows: two of their columns, and one that they do not have
    "ls STORE": ("queueId,topic", "body"),
    "info STORE": ("messages,minPhyOffset", "slots"),
    "info STORE/index": ("items,file", "messages"),
    "lag BROKER": ("lag,group", "topics"),
    "lag BROKER --totals": ("lag,group", "queueId"),
    "offset STORE --time 0 --topic Orders": ("queueOffset,queueId", "phyOffset"),
    "offset STORE --time 0": ("phyOffset", "queueId"),
    "hexdump STORE 0": ("field,phyOffset", "size"),
    "verify --list": ("mend,kind", "path"),
    "verify DAMAGED": ("kind,more", "meaning"),
    "cat STORE": ("body,phyOffset", None),
    "get STORE Orders 0 0": ("body,phyOffset", None),
    "query STORE --key k": ("body,phyOffset", None),
    "query STORE/index --topic Orders --key k": ("phyOffset", "topic"),
    "config check BROKEN": ("what,file", None),
    "recover --dry-run DAMAGED": ("size,what", None),
}  # fmt: skip
LIMITED = [name for name in LISTS if not name.startswith("recover")]
CHANGES = ["recover", "rebuild", "salvage", "config repair"]  # commands that change a store


@pytest.fixture(scope="module")
def roots(store, damaged, tmp_path_factory):
    broken = shutil.copytree(store, tmp_path_factory.mktemp("tables") / "broken")
    for name in ("topics.json", "subscriptionGroup.json"):
        (broken / "config" / name).write_text("{")
    crashed = shutil.copytree(damaged, tmp_path_factory.mktemp("tables") / "damaged")
    (crashed / "abort").touch()
    return {
        "STORE": store,
        "STORE/index": store / "index",
        "BROKER": golden("broker-5.5.0"),
        "DAMAGED": crashed,
        "BROKEN": broken,
    }


def words(command, roots):
    return [roots.get(word, word) for word in command.split()]


def header_of(table):
    """The names of the columns. Above them, verify has its verdict, which is a sentence."""
    lines = table.splitlines()
    return lines[1 if lines[0].endswith(".") else 0].split()


@pytest.mark.parametrize("command", LISTS)
def test_every_list_has_the_columns_that_were_chosen(command, roots):
    chosen = LISTS[command][0]
    every = run(*words(command, roots))
    expected = [{name: row[name] for name in chosen.split(",")} for row in rows(every, exit_code=every.exit_code)]
    assert expected
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in chosen)
    for names in (chosen, snake):
        found = run(*words(command, roots), "--columns", names)
        assert (found.exit_code, found.stderr) == (every.exit_code, every.stderr)
        found_rows = rows(found, exit_code=found.exit_code)
        assert [{name: row[name] for name in chosen.split(",")} for row in found_rows] == expected
        assert [name for name in found_rows[0] if name != "bodyBase64"] == chosen.split(",")
    text = run(*words(command, roots), "--columns", chosen, "--format", "table").stdout
    assert header_of(text) == chosen.split(",")
    text = run(*words(command, roots), "--columns", chosen, "--format", "csv").stdout
    assert text.splitlines()[0].replace(",bodyBase64", "") == chosen


@pytest.mark.parametrize("command", [name for name, (_, missing) in LISTS.items() if missing])
def test_a_column_of_another_list_of_the_command_is_misuse(command, roots):
    missing = LISTS[command][1]
    result = run(*words(command, roots), "--columns", missing)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"no column {missing!r}" in result.stderr or f"there is no {missing!r} here" in result.stderr


def test_a_column_that_only_the_table_has_can_be_chosen_for_a_table(roots):
    text = run("lag", roots["BROKER"], "--columns", "group,age", "--format", "table").stdout
    assert text.splitlines()[0].split() == ["group", "age"]
    assert "topics" not in text  # the sums have other columns
    result = run("lag", roots["BROKER"], "--columns", "age")
    assert (result.exit_code, "there is no 'age' here: the columns are group, topic" in result.stderr) == (2, True)


@pytest.mark.parametrize("command", LIMITED)
def test_a_limit_shows_the_first_rows_of_every_list(command, roots):
    get = command.startswith("get")
    every = run(*words(command, roots), *["--limit", 9] * get)
    found = rows(every, exit_code=every.exit_code)
    limited = run(*words(command, roots), "--limit", 1)
    assert rows(limited, exit_code=every.exit_code) == found[:1]
    if not command.startswith(("cat", "get", "query")):
        more = "1 shown; there are more: --limit N shows up to N"
        assert (more in limited.stderr) == (len(found) > 1)
        assert more not in run(*words(command, roots), "--limit", len(found)).stderr


def test_ls_reads_no_queues_that_it_does_not_show(store, monkeypatch):
    read, consume_queue = set(), rocketstore.MessageStore.consume_queue

    def noted(store, *queue):
        read.add(queue)
        return consume_queue(store, *queue)

    monkeypatch.setattr(rocketstore.MessageStore, "consume_queue", noted)
    assert len(rows(run("ls", golden(RICH), "--limit", 3))) == 3
    assert len(read) == 4  # one more, which is the reason of the note


@pytest.mark.parametrize("command", CHANGES)
def test_a_command_that_changes_a_store_has_no_limit_of_its_rows(command, store):
    result = run(*command.split(), store, "--limit", 1)
    assert (result.exit_code, "No such option '--limit'" in result.stderr) == (2, True)


@pytest.mark.parametrize("command", ["verify DAMAGED", "verify --list", "lag BROKER", "cat STORE", "info STORE/index"])
def test_full_leaves_out_no_column_of_a_narrow_terminal(command, roots):
    headers = header_of(run(*words(command, roots), "--format", "table").stdout)
    _, narrow = on_terminal(*words(command, roots), columns=40)
    if command == "cat STORE":
        assert "40 columns are too few for" in narrow
        assert "use --full, a wider terminal or --format json" in " ".join(narrow.split())
    else:
        assert all(f"{name}:" in narrow for name in headers)
    _, text = on_terminal(*words(command, roots), "--full", columns=40)
    assert "too few" not in text
    header = next(line for line in text.rpartition("\x1b[2K")[2].splitlines() if line.split()[:1] == headers[:1])
    assert header.split() == headers


def test_full_shows_every_byte_of_a_field(store):
    place = ["hexdump", store, "Orders", 1, 0]
    keys = next(row for row in rows(run(*place)) if row["value"].startswith("KEYS="))
    assert len(keys["hex"]) > 2 * 256
    for options, digits in (([], 2 * 256), (["--full"], len(keys["hex"]))):
        text = run(*place, "--columns", "field,hex", "--format", "table", *options).stdout
        shown = text.partition("\nproperty")[2].partition("\nproperty")[0]  # the first property
        assert ("more" in shown) == (not options)
        assert "".join(shown.partition("and")[0].split()) == keys["hex"][:digits]


def test_the_kinds_of_findings_are_a_table_if_the_terminal_is_wide_enough():
    status, text = on_terminal("verify", "--list", columns=140)
    assert status == 0
    lines = text.splitlines()
    assert lines[0].split() == ["kind", "severity", "meaning", "mend", "atNextStart"]
    assert "rebuild --consume-queue" in next(line for line in lines if line.startswith("queue-missing"))
    assert max(map(len, lines)) <= 140

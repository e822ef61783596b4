"""``--template``, ``--raw`` and ``--json-body``, indented bodies, and ``completion``."""

import json
import os
import re
import subprocess

import pytest
from support.cli import COMMAND, assert_one_line, on_terminal, rows, run, start

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.cli.words_of_other_tools import LINES, OPTIONS, find_option
from rocketstore.cli.wrong_usage import names_of_options

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lines") / "store"
    messages = [
        Message(
            "Orders", b'{"amount": 7, "to": {"name": "\xc3\x84"}}', keys=["order-7", "eu"], tags="paid", queue_id=0
        ),
        Message("Orders", b"\x00\xff\x1b[31m", keys=["order-8"], properties={"color": "red"}, queue_id=0),
        Message("Users", b"a\nb", queue_id=0),
    ]
    with rocketstore.open(root, "a", config=StoreConfig.small()) as writer:
        writer.put_messages(messages, store_timestamp=[T0, T0 + 1500, T0 + 2000])
    return root


def lines(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("spec", ["9999999999", ">9999999999", ".9999999999"])
def test_a_template_has_no_width_that_fills_the_memory(store, spec):
    result = run("cat", store, "--template", f"{{topic:{spec}}}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a width is at most 10,000" in result.stderr


def test_a_template_writes_a_line_for_each_message(store):
    found = lines("cat", store, "--topic", "Orders", "--template", "{storeTime} {keys} {body}")
    assert found == [
        '2023-11-14T22:13:20.000Z order-7 eu {"amount": 7, "to": {"name": "Ä"}}',
        "2023-11-14T22:13:21.500Z order-8 AP8bWzMxbQ==",
    ]
    assert lines(
        "query", store, "--key", "order-8", "--template", "{topic}|{property.color}|{property.no}|{queue_id}"
    ) == ["Orders|red||0"]
    assert lines("get", store, "Orders", 0, 1, "--template", r"{topic:8}|{queueOffset:>4}\t{{x}}\\n") == [
        "Orders  |   1\t{x}\\n"
    ]


def test_a_template_has_the_time_zone_and_the_decoder(store):
    time, amount = "{storeTime}", "{body}"
    assert lines("get", store, "Users", 0, 0, "--tz", "Asia/Shanghai", "--template", time) == [
        "2023-11-15T06:13:22.000+08:00"
    ]
    assert lines("get", store, "Orders", 0, 1, "--decode", "hex", "--template", amount) == ["00ff1b5b33316d"]
    assert lines("get", store, "Orders", 0, 0, "--json-body", "--template", amount) == [
        '{"amount": 7, "to": {"name": "Ä"}}'
    ]


def test_a_template_shows_control_characters_on_a_terminal(store):
    status, text = on_terminal("cat", store, "--topic", "Users", "--template", "{topic}\x1b {body}")
    assert (status, text.splitlines()) == (0, ["Users\\x1b a", "b"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--template", "{boddy}"], "there is no field 'boddy': did you mean 'body'?"),
        (["--template", "{body"], "expected '}'"),
        (["--template", "body"], "has no field"),
        (["--template", "{body!r}"], "a field has a name and perhaps a width"),
        (["--template", "{body:d}"], "Unknown format code"),
        (["--template", "{body}", "--format", "csv"], "give it without --format"),
        (["--template", "{body}", "--columns", "body"], "give it without --columns"),
        (["--raw", "--template", "{body}"], "give it without --template"),
        (["--json-body", "--decode", "hex"], "give only one of them"),
    ],
)
def test_wrong_templates_and_options_are_misuse(store, options, text):
    result = run("cat", store, *options)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())


def test_raw_writes_the_bytes_of_one_body(store):
    process = start("get", store, "Orders", 0, 1, "--raw", text=False)
    assert process.communicate()[0] == b"\x00\xff\x1b[31m"
    assert process.returncode == 0
    many = run("cat", store, "--raw")
    assert (many.exit_code, many.stdout) == (1, "")
    assert "and there are more: choose one by its offset" in many.stderr
    assert run("query", store, "--key", "order-7", "--raw").stdout.startswith('{"amount": 7')


def test_json_bodies_are_objects_for_jq(store, tmp_path):
    (row,) = rows(run("query", store, "--key", "order-7", "--json-body"))
    assert row["body"]["to"]["name"] == "Ä"
    assert run("export", store, tmp_path / "out.jsonl", "--json-body", "--topic", "Orders").exit_code == 0
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert first["body"]["amount"] == 7
    assert (second["body"], second["bodyBase64"]) == (None, "AP8bWzMxbQ==")
    assert "is no JSON" in second["bodyError"] or second["bodyError"]


def test_a_terminal_shows_a_json_body_indented(store):
    status, text = on_terminal("get", store, "Orders", 0, 0, columns=100)
    assert status == 0
    at = next(n for n, line in enumerate(text.splitlines()) if line.startswith("body "))
    shown = [line.strip() for line in text.splitlines()[at : at + 6]]
    assert shown == ["body                       {", '"amount": 7,', '"to": {', '"name": "Ä"', "}", "}"]
    assert text.splitlines()[at + 3].index('"name"') > text.splitlines()[at + 1].index('"amount"')


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(shell):
    script = run("completion", shell)
    assert script.exit_code == 0
    assert f"_ROCKETSTORE_COMPLETE={shell}_complete" in script.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script.stdout, text=True, check=True)


def test_an_unknown_shell_is_misuse():
    assert run("completion", "tcsh").exit_code == 2


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("top", ["topic"]), ("topic,que", ["topic,queueId", "topic,queueOffset"]), ("topic,top", [])],
)
def test_columns_are_completed_behind_each_comma(typed, expected, store):
    words = f"rocketstore cat {store} --columns {typed}"
    environment = {"_ROCKETSTORE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "4"}
    done = subprocess.run(COMMAND, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert [line.partition(",")[2] for line in done.stdout.splitlines() if line] == expected


@pytest.mark.parametrize("columns", [80, 90])
def test_a_narrow_table_keeps_keys_and_tags_and_drops_offsets(store, columns):
    status, text = on_terminal("cat", store, columns=columns)
    header, *shown = text.splitlines()
    assert status == 0
    assert [name for name in header.split() if name in ("topic", "tags", "keys", "body")] == [
        "topic", "tags", "keys", "body",
    ]  # fmt: skip
    assert "phyOffset" not in header
    assert "2023-11-14T22:13:20Z" in shown[0]
    assert "paid" in shown[0]
    assert "order-7" in shown[0]
    assert max(map(len, [header, *shown[:3]])) <= columns


# ---- help --------------------------------------------------------------------------------------------------


def help_groups(command):
    """The options of each group of ``--help``, in their order."""
    groups, found = {}, []  # lines before the first group are text
    for line in run(*command.split(), "--help").stdout.splitlines():
        if line.endswith(":") and line[:1].isalpha():
            groups[line[:-1]] = found = []
        elif line.startswith("  -"):
            found.append(next(word for word in line.replace(",", "").split() if word.startswith("--")))
    return groups


@pytest.mark.parametrize("command", ["cat", "query", "export"])
def test_help_has_groups_with_the_most_used_options_first(command):
    groups = help_groups(command)
    assert [title for title in groups if title != "Options"] == ["Select", "Output", "Store"]
    assert groups["Select"][:6] == ["--topic", "--key", "--tag", "--since", "--until", "--limit"]
    assert groups["Output"][:2] == ["--format", "--columns"]
    assert groups["Store"][0] == "--broker-conf"
    assert groups["Store"][-1] == "--help"


def all_commands():
    """Yield the words of each command, also of those below config, and the command."""
    import click

    from rocketstore.cli.group import COMMANDS, rocketstore

    for name in COMMANDS:
        command = rocketstore.get_command(None, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", each) for below, each in command.commands.items())
        else:
            yield name, command


def test_help_of_each_command_has_each_option_once_and_in_groups():
    for name, command in all_commands():
        options = {max(each.opts, key=len) for each in command.params if each.param_type_name == "option"}
        groups = help_groups(name)
        assert sorted(option for found in groups.values() for option in found) == sorted(options | {"--help"}), name
        assert all(groups.values()), name
        assert len(groups) > 1 or len(options) < 6, name


def test_help_lists_no_argument_among_the_options():
    for name, _ in all_commands():
        options = run(*name.split(), "--help").stdout.split("\n\n", 2)[2]
        assert not re.search("^  [A-Z]+([.]{3})?$", options, re.MULTILINE), name


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("export STORE lake --incremental", "--state"),
        ("export STORE lake --since-last", "--state"),
        ("cat STORE --print x", "--template"),
        ("query STORE --json", "--format json"),
        ("cat STORE --csv", "--format csv"),
        ("cat STORE --timezone local", "--tz"),
        ("cat STORE --templat x", "--template"),
        ("cat STORE --topics orders", "--topic"),
        ("cat STORE --begin_offset 1", "--begin-offset"),
        ("cat STORE -t orders", "--topic"),
        ("cat STORE -n 3", "--limit"),
        ("cat STORE -1h", "--since -1h"),
        ("offset STORE -1h", "--time -1h"),
        ("cat STORE --reverse", "rocketstore cat STORE --tail 10"),
        ("cat STORE -o out.json", "rocketstore export STORE TARGET"),
        ("export STORE -o out.json", "rocketstore export STORE TARGET"),
        ("export STORE out.csv --delimiter ;", "rocketstore cat STORE --template '{topic};{keys};{body}' > FILE"),
        ("cat STORE --format csv --sep ;", "rocketstore cat STORE --template '{topic};{keys};{body}' > FILE"),
        ("export STORE out.csv --encoding gbk", "--charset"),
        ("export STORE out.json --pretty", "rocketstore cat STORE --format table"),
        ("get STORE --topic orders", "rocketstore get STORE TOPIC QUEUE OFFSET"),
        ("verify STORE --fix", "rocketstore recover STORE"),
        ("expire STORE --yes", "--apply"),
        ("config check STORE --json", "--format json"),
        ("cat STORE --format jsonl", "json"),
        ("cat STORE --format parquet", "rocketstore export STORE TARGET.parquet"),
        ("copy STORE --to NEW", "rocketstore copy STORE NEW"),
    ],
)
def test_an_option_of_another_tool_names_the_one_that_is_meant(command, meant, store):
    result = run(*(str(store) if word == "STORE" else word for word in command.split()))
    assert result.exit_code == 2
    assert f"Did you mean {meant!r}?" in result.stderr


def test_an_option_of_another_tool_has_one_line_for_a_command():
    pairs = [(command, word) for commands, words, _ in LINES for command in commands.split() for word in words.split()]
    assert len(pairs) == len({*pairs})


def test_each_option_of_another_tool_gets_its_option_in_a_command():
    found = {
        (find_option(name, word, options), word)
        for name, options in ((name, names_of_options(command)) for name, command in all_commands())
        for _, words in OPTIONS
        for word in words.split()
        if word not in options
    }
    assert {(option, word) for option, words in OPTIONS for word in words.split()} - found == set()


def test_an_option_that_is_like_no_other_gets_no_hint(store):
    for option in ("--zzzz", "--mp3", "-9"):
        assert f"No such option {option!r}.\n" in run("cat", store, option).stderr


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("salvage STORE saved", "extra argument (saved): did you mean --out saved?"),
        ("salvage STORE --out saved other", "extra argument (other)\n"),
        ("report STORE report.html", "extra argument (report.html): did you mean --output report.html?"),
        ("rebuild STORE index", "extra argument (index): did you mean --index?"),
        ("get STORE orders 0 0 5", "did you mean rocketstore get STORE TOPIC QUEUE OFFSET --limit 10?"),
        ("offset STORE orders 1h", "(orders 1h): did you mean rocketstore offset STORE --topic TOPIC --time 1h?"),
        ("sql STORE select 1", "rocketstore sql STORE 'SELECT ...', with quotes around the statement"),
        ("export STORE", "Missing argument 'TARGET'."),
        ("config STORE", "did you mean 'rocketstore config check STORE'?"),
        ("config fix STORE", "did you mean 'rocketstore config repair STORE'?"),
        ("export STORE out.xlsx", "did you mean rocketstore export STORE out.csv --format csv-safe"),
        ("version", "did you mean '--version'?"),
        ("get STORE orders 0 -1 --limt", "No such option '--limt'. (Did you mean '--limit'?)"),
    ],
)
def test_a_word_too_many_names_the_line_that_is_meant(command, shown, store):
    result = run(*(str(store) if word == "STORE" else word for word in command.split()))
    assert result.exit_code == 2
    assert shown in result.stderr


def test_a_hyphen_is_no_store(store):
    for words in ((store, "-"), ("-",), ("-", store)):
        result = run("cat", *words)
        assert result.exit_code in (1, 2)
        assert "'-'" in result.stderr or "-: No such file" in result.stderr


def test_a_missing_source_is_reported_before_its_format(tmp_path):
    result = run("import", tmp_path / "missing", tmp_path / "store")
    assert_one_line(result, tmp_path / "missing", "No such file or directory")
    assert not (tmp_path / "store").exists()

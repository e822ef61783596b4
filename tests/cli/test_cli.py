"""The command line as a whole: how it ends, what reaches a terminal, misuse, completion."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
from itertools import product

import pytest
from reference.message_store import make_store
from support.cli import COMMAND, assert_one_line, golden, on_terminal, rows, run, start
from support.repetitions import only_some_quick

BASIC = "basic-5.5.0"
QUERY = ["--topic", "T", "--key", "k"]


# ---- forms -------------------------------------------------------------------------------------------------


def test_a_terminal_gets_a_table_and_a_pipe_gets_json():
    status, text = on_terminal("ls", golden(BASIC))
    assert status == 0
    assert text.splitlines()[0].split() == ["topic", "queueId", "minOffset", "maxOffset", "messages", "bytes"]
    assert json.loads(run("ls", golden(BASIC)).stdout.splitlines()[0])["topic"]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_the_form_can_be_chosen_on_a_terminal(form):
    status, text = on_terminal("ls", golden(BASIC), "--format", form)
    assert status == 0
    assert text.replace("\r\n", "\n") == run("ls", golden(BASIC), "--format", form).stdout


def test_the_form_can_be_chosen_in_a_pipe():
    lines = run("ls", golden(BASIC), "--format", "table").stdout.splitlines()
    assert lines[0].split()[0] == "topic"
    assert len(lines) == 15


def commands_without_and_with_rows(sound, damaged, conf):
    """Two commands by name. The second one prints a notice."""
    geometry = ["--broker-conf", conf]
    return {
        "cat": (["cat", sound, "--end-offset", 0], ["cat", sound]),
        "query": (["query", sound, "--topic", "T", "--key", "no"], ["query", sound, "--topic", "T", "--key", "k"]),
        "query of index files": (
            ["query", f"{sound}/index", "--topic", "T", "--key", "no"],
            ["query", f"{sound}/index", "--topic", "T", "--key", "k"],
        ),
        "ls": (["ls", sound, "--topic", "no"], ["ls", sound]),
        "lag": (["lag", sound, "--group", "no"], ["lag", sound]),
        "verify": (["verify", sound], ["verify", damaged]),
        "recover": (["recover", sound, *geometry], ["recover", damaged, *geometry]),
        "config check": (["config", "check", sound], ["config", "check", damaged]),
        "salvage": (
            ["salvage", sound, "--out", f"{sound}-out", *geometry],
            ["salvage", damaged, "--out", f"{damaged}-out", *geometry],
        ),
    }


@pytest.mark.parametrize("name", list(commands_without_and_with_rows("", "", "")))
def test_csv_without_rows_has_its_header(name, tmp_path):
    sound, damaged, conf = tmp_path / "sound", tmp_path / "damaged", tmp_path / "broker.conf"
    conf.write_text(
        "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=97\nmaxIndexNum=400\n"
    )
    for root in (sound, damaged):
        make_store(root, [{"topic": "T", "properties": {"KEYS": "k"}}] * 3)
        (root / "config").mkdir()
        (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T@group":{0:1}}}')
    (damaged / "config" / "topics.json").write_text("{")
    with (damaged / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(2000)
        file.write(b"torn")
    nothing, some = (
        run(*command, "--format", "csv").stdout.splitlines()
        for command in commands_without_and_with_rows(sound, damaged, conf)[name]
    )
    assert nothing == some[:1]
    assert len(some) > 1


def test_a_pipe_gets_utf8_whatever_the_locale():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    process = start("get", golden("rich-5.5.0"), "RichTopic", 0, 0, env=environment, text=False)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out.decode("utf-8"))["keys"] == ["订单😀-1", "café", "𐍈"]


def test_warnings_go_to_standard_error():
    script = "try: main()\nexcept SystemExit: logging.getLogger('rocketstore').warning('told')"
    script = f"import logging, sys; sys.argv = ['', '--version']; from rocketstore.cli import main\n{script}"
    answer = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=60, check=False)
    assert answer.stderr == "told\n"


# ---- control characters ------------------------------------------------------------------------------------

# Red text, the title of the window, erasing the line, the control sequence in one character, and writing backwards.
HOSTILE = "\x1b[31m\x1b]0;title\x07\r\x9b2K\u202e\x7f[red]:smile:"


@pytest.fixture
def hostile(tmp_path):
    """A store with control characters in a topic, keys, tags, properties and the body."""
    root = tmp_path / "store"
    properties = {"KEYS": f"{HOSTILE} k", "TAGS": HOSTILE, HOSTILE: HOSTILE}
    make_store(root, [{"topic": f"T{HOSTILE}", "body": HOSTILE.encode(), "properties": properties}] * 2)
    (root / "config").mkdir()
    offsets = {"offsetTable": {f"T{HOSTILE}@{HOSTILE}": {"0": 1}}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    return root


def commands(root):
    topic = f"T{HOSTILE}"
    return {
        "info": ["info", root],
        "ls": ["ls", root],
        "lag": ["lag", root],
        "offset": ["offset", root, "--time", 0, "--topic", topic],
        "query": ["query", root, "--topic", topic, "--key", "k"],
        "get": ["get", root, topic, 0, 0],
        "cat": ["cat", root],
        "hexdump": ["hexdump", root, 0],
    }


FORMS = ["table", "json", "csv"]
SHOWN = [*product(commands(""), FORMS)]
ALL_AS_TABLES = [(name, "table") for name in commands("")]


def without_line_ends(text):
    return text.replace("\r\n", "")


@pytest.mark.parametrize(("name", "form"), only_some_quick(SHOWN, *ALL_AS_TABLES, ("cat", "json"), ("cat", "csv")))
def test_no_control_character_reaches_a_terminal(name, form, hostile):
    status, text = on_terminal(*commands(hostile)[name], "--format", form, columns=2000)
    assert status == 0
    assert without_line_ends(text).isprintable()
    if name != "info":
        assert "[red]:smile:" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "STORE", "--topic", HOSTILE],
        ["get", "STORE", HOSTILE, 0, 0],
        ["info", f"/nothing{HOSTILE}"],
        ["lag", "STORE", "--group", f"no{HOSTILE}"],
        ["export", "STORE", f"/nothing{HOSTILE}/out.csv"],
        ["query", "STORE", "--id", HOSTILE],
        ["cat", "STORE", "--since", HOSTILE],
        [HOSTILE],
        [f"--{HOSTILE}"],
    ],
    ids=lambda arguments: arguments[0].strip(HOSTILE) or "command",
)
def test_no_control_character_reaches_a_terminal_in_an_error(arguments, hostile):
    status, text = on_terminal(*(hostile if argument == "STORE" else argument for argument in arguments))
    assert status in (1, 2)
    assert without_line_ends(text).isprintable()
    assert "Error: " in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "STORE", f"out{HOSTILE}.csv"],
        ["import", "in.json", f"new{HOSTILE}", "--small"],
        ["salvage", "STORE", "--out", f"new{HOSTILE}", "--broker-conf", "broker.conf"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_notice_has_a_control_character(arguments, hostile, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.json").write_text('{"topic": "T", "body": "b"}')
    (tmp_path / "broker.conf").write_text("maxHashSlotNum=97\nmaxIndexNum=400\n")
    result = run(*(hostile if argument == "STORE" else argument for argument in arguments))
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 0
    assert line.isprintable()
    assert "title" in line


def test_programs_get_every_character(hostile):
    (row, _) = rows(run("cat", hostile))
    assert (row["topic"], row["body"], row["tags"]) == (f"T{HOSTILE}", HOSTILE, HOSTILE)
    line = next(csv.DictReader(io.StringIO(run("cat", hostile, "--format", "csv").stdout, newline="")))
    assert (line["topic"], line["body"]) == (f"T{HOSTILE}", HOSTILE)


# ---- misuse ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["query", "."],
        ["query", ".", *QUERY, "--since", "soon"],
        ["query", ".", *QUERY, "--since", "2026"],
        ["query", ".", *QUERY, "--since", "1763712000"],
        ["query", ".", *QUERY, "--since", "2024-01-02", "--until", "2024-01-02"],
        ["query", ".", *QUERY, "--since", str(2**63)],
        ["query", ".", *QUERY, "--limit", "65"],
        ["query", ".", *QUERY, "--tag", "t"],
        ["query", "STORE/index", "--key", "k"],
        ["query", ".", "--since", "0"],
        ["info", ".", "--slots", "5"],
        ["info", ".", "--items", "5"],
        ["info", ".", "--format", "xml"],
        ["get", "STORE", "T", "0", "-1x"],
        ["recover", ""],
        ["cat", "STORE", "--until", "5", "--since", "6"],
        ["cat", "STORE", "--begin-offset", "-1"],
        ["offset", "STORE"],
        ["offset", "STORE", "--time", "0", "--queue", "1"],
        ["query", "STORE", "--topic", "T"],
        ["query", "STORE", "--id", "7F"],
        ["query", "STORE", "--id", "7F00000100002A9F0000000000000000", "--topic", "T"],
        ["offset", "STORE", "--time", "0", "--topic", "T", "--topic", "T2"],
        ["export", "STORE", "out"],
        ["cat", "STORE", "--topic", "\udcff"],
        ["cat", "STORE", "--queue", str(2**31)],
        ["get", "STORE", "T", "0", "0", "--limit", str(2**31)],
    ],
    ids=lambda arguments: ascii(" ".join(arguments)),
)
def test_misuse_is_explained(arguments):
    result = run(*(argument.replace("STORE", str(golden(BASIC))) for argument in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: ")


@pytest.mark.parametrize("command", [[], ["config"]], ids=["rocketstore", "config"])
def test_a_group_without_a_command_shows_its_help_in_lines(command):
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == run(*command, "--help").stdout


def test_without_its_extra_the_command_names_it():
    script = "import sys; sys.modules['click'] = None; from rocketstore.cli import main; main()"
    answer = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=60, check=False)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr == 'Error: click is missing: pip install "rocketstore[cli]"\n'


def test_python_looks_for_garbage_seldom_and_not_at_exit():
    """A collection that begins while modules are imported, or at exit, costs a tenth of the time of ``info``."""
    script = """
import atexit, gc, sys
from rocketstore.cli import main
collections, living = [], len(gc.get_objects())
gc.callbacks.append(lambda phase, info: phase == "start" and collections.append(info))
atexit.register(lambda: print(len(collections) < 5, gc.get_freeze_count() > living, file=sys.stderr))
sys.argv = ["rocketstore", "info", sys.argv[1]]
main()
"""
    command = [sys.executable, "-c", script, str(golden(BASIC))]
    answer = subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)
    assert (answer.returncode, answer.stderr) == (0, "True True\n")


def test_an_extra_that_a_command_lacks_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("export", golden(BASIC), tmp_path / "out.parquet")
    assert_one_line(result, 'pyarrow is missing: pip install "rocketstore[arrow]"')
    assert list(tmp_path.iterdir()) == []
    assert run("export", golden(BASIC), tmp_path / "out.csv").exit_code == 0


# ---- processes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "form"), only_some_quick([*product(["ls", "cat"], FORMS)], ("ls", "table"), ("cat", "json"))
)
def test_a_reader_that_goes_away_is_no_error(command, form):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = start(command, golden("broker-5.5.0"), "--format", form, stdout=write_end)
    os.close(write_end)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["ls", "--help"]], ids=" ".join)
def test_a_reader_of_help_that_goes_away_is_no_error(arguments):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = start(*arguments, stdout=write_end)
    os.close(write_end)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


def test_ctrl_c_is_quiet_while_modules_are_imported(tmp_path):
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import rocketstore.cli as c; c.main()"
    answer = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=60, check=False)
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")


def test_ctrl_c_is_quiet_while_warnings_are_prepared(monkeypatch):
    monkeypatch.setattr("rocketstore.cli.group.log_to_standard_error", lambda: signal.raise_signal(signal.SIGINT))
    result = run("info", golden("broker-5.5.0"))
    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize(("before", "status"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)])
def test_ctrl_c_is_quiet_after_a_command_and_ignored_by_a_process_that_ignores_it(before, status):
    script = "import atexit, os, signal, rocketstore.cli as c\n"
    script += f"signal.signal(signal.SIGINT, signal.{before})\n"
    script += "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT)); c.main()"
    command = [sys.executable, "-c", script, "--version"]
    answer = subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)
    assert (answer.returncode, answer.stderr) == (status, "")


def test_a_reader_that_has_enough_is_no_error():
    with start("cat", golden("broker-5.5.0")) as process:
        assert json.loads(process.stdout.readline())["phyOffset"] == 0
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize("arguments", [["ls", "STORE"], ["--help"], ["ls", "--help"]], ids=" ".join)
@pytest.mark.parametrize(("redirection", "words"), [(">&-", "is closed"), (">/dev/full", "No space left")])
def test_output_that_cannot_be_written_is_an_error_in_one_line(arguments, redirection, words):
    command = [*COMMAND, *(str(golden(BASIC)) if argument == "STORE" else argument for argument in arguments)]
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh", *command]
    answer = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert line.startswith("Error: ")
    assert words in line


def test_notices_to_a_closed_standard_error_are_dropped(tmp_path):
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", *COMMAND, "ls", str(tmp_path)]
    answer = subprocess.run(shell, capture_output=True, timeout=60, check=False)
    assert (answer.returncode, answer.stdout, answer.stderr) == (1, b"", b"")


# ---- the library's words -----------------------------------------------------------------------------------


@pytest.fixture
def imported(tmp_path):
    """A small new store of one message without keys, whose index shows no geometry."""
    (tmp_path / "in.json").write_text('{"topic": "T", "body": "b"}')
    assert run("import", tmp_path / "in.json", tmp_path / "store", "--small").exit_code == 0
    (tmp_path / "store" / "config" / "rocketstore.json").unlink()
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["query", "STORE", "--topic", "T", "--key", "k"], [": rocketstore query STORE --topic T --key k --slots N"]),
        (["import", "in.json", "STORE"], [": rocketstore import in.json STORE --slots N --items N"]),
        (["recover", "STORE"], [": rocketstore recover STORE --slots N --items N"]),
        (["salvage", "STORE", "--out", "store/x"], ["store/x is inside"]),
    ],
    ids=lambda value: value[0],
)
def test_an_error_about_settings_names_the_options_of_the_command(arguments, words, imported, monkeypatch):
    monkeypatch.chdir(imported.parent)
    result = run(*(imported if argument == "STORE" else argument for argument in arguments))
    assert_one_line(result, *(word.replace("STORE", str(imported)) for word in words))


def test_a_writer_that_is_in_the_way_is_named_without_the_librarys_modes(imported):
    import rocketstore

    with rocketstore.open(imported, "a", config=rocketstore.StoreConfig.small()), start("recover", imported) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"process {os.getpid()} has the store open for writing" in err
    assert "mode" not in err


def test_nothing_in_a_store_is_changed_by_reading(tmp_path):
    def state(root):
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}

    root = golden("broker-5.5.0")
    before = state(root)
    for command in (["info"], ["ls"], ["lag"], ["cat"], ["hexdump", 0], ["offset", "--time", 0], ["config", "check"]):
        name = command[:2] if command[0] == "config" else command[:1]
        assert run(*name, root, *command[len(name) :]).exit_code == 0
    assert run("export", root, tmp_path / "out.csv").exit_code == 0
    assert state(root) == before


def complete(words, shell="bash", **more):
    environment = os.environ | {"_ROCKETSTORE_COMPLETE": f"{shell}_complete", "COMP_WORDS": words} | more
    return subprocess.run(COMMAND, env=environment, text=True, capture_output=True, timeout=60, check=True).stdout


def test_shells_complete_commands_and_options():
    assert complete("rocketstore exp", COMP_CWORD="1") == "plain,expire\nplain,export\n"
    options = complete("rocketstore cat store --be", COMP_CWORD="3")
    assert options == "plain,--begin-offset\n"
    assert complete("rocketstore config ", COMP_CWORD="2") == "plain,check\nplain,repair\n"
    assert 'eval "$(rocketstore completion bash)"' in run("--help").stdout


def test_every_command_has_help():
    listed = [line.split()[0] for line in run("--help").stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()]
    assert listed[:14] == [
        "info", "ls", "du", "expire", "lag", "pending", "dlq", "trace", "offset", "query", "get", "cat", "count", "sql",
    ]  # fmt: skip
    assert "..." not in run("--help").stdout.split("Commands:")[1]
    for name in listed:
        result = run(name, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")


@pytest.mark.parametrize("name", ["get", "cat", "query", "export", "verify"])
def test_help_says_n_where_a_number_is_expected(name):
    text = run(name, "--help").stdout
    assert " N " in text
    assert "RANGE" not in text

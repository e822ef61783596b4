"""Errors print the command that mends them; names that are nearly right are recognised, and completed by the shell."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest
from support import planted
from support.cli import COMMAND, assert_one_line, golden, rows, run

import rocketstore
from rocketstore.verify.kinds import KINDS, mend_commands

BASIC, OLD, BROKER = "basic-5.5.0", "basic-5.3.3", "broker-5.5.0"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("mends") / "store"
    planted.build("plain", root)
    return root


def typed(text):
    """Run a command as a shell would read it."""
    name, *words = shlex.split(text)
    assert name == "rocketstore"
    return run(*words)


# ---- commands in errors ------------------------------------------------------------------------------------


def test_a_query_without_index_prints_the_command_that_reads_the_log_and_the_one_that_builds_the_index(sound, tmp_path):
    root = shutil.copytree(sound, tmp_path / "store")
    question = ["query", root, "--topic", "TopicTest", "--key", "K7"]
    expected = rows(run(*question))
    shutil.rmtree(root / "index")
    result = run(*question)
    assert result.stdout == ""
    assert_one_line(result, "the store has no index")
    scan, rebuild = (
        part.partition(" reads ")[0].partition(" rebuilds ")[0]
        for part in result.stderr.partition("index. ")[2].strip().split("; ")
    )
    assert rows(typed(scan)) == expected[::-1]
    assert typed(rebuild).exit_code == 0
    assert rows(run(*question)) == expected


def test_an_index_without_tags_is_one_line_whatever_its_number_of_files():
    assert len(list((golden(OLD) / "index").iterdir())) > 1
    result = run("query", golden(OLD), "--topic", "TopicTest", "--tag", "TagA")
    assert_one_line(result, "index files lack entries of tags", "rocketstore cat", "--tag TagA")


def test_a_killed_salvage_is_run_again(tmp_path):
    (tmp_path / "new" / "rocketstore-salvage" / "commitlog").mkdir(parents=True)
    (tmp_path / "new" / "config").mkdir()
    assert run("salvage", golden(BASIC), "--out", tmp_path / "new").exit_code == 0
    assert run("verify", tmp_path / "new").exit_code == 0
    assert not (tmp_path / "new" / "rocketstore-salvage").exists()


@pytest.mark.parametrize("name", ["lock", "notes.txt"])
def test_salvage_removes_no_files_of_others(tmp_path, name):
    (tmp_path / "new" / "rocketstore-salvage").mkdir(parents=True)
    (tmp_path / "new" / name).write_text("")
    assert_one_line(run("salvage", golden(BASIC), "--out", tmp_path / "new"), "not empty")
    assert (tmp_path / "new" / name).exists()


def test_a_running_broker_is_stopped_by_the_command_in_the_error(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=rocketstore.StoreConfig.small()):
        script = [*COMMAND, "recover", str(tmp_path / "store")]
        answer = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 1
    assert "sh bin/mqshutdown broker" in answer.stderr


def test_lost_queues_are_made_by_the_command_in_the_error(sound, tmp_path):
    root = shutil.copytree(sound, tmp_path / "store")
    listed = rows(run("ls", root))
    shutil.rmtree(root / "consumequeue")
    error = run("ls", root).stderr.strip()
    assert typed(error.partition("there are no queues: ")[2].removesuffix(" builds them")).exit_code == 0
    assert [row["topic"] for row in rows(run("ls", root))] == [row["topic"] for row in listed]


MENDED = [
    "missing_queue",
    "unit_with_another: size",
    "missing_index",
    "abort_file",
    "missing_checkpoint",
    "noise_over_records",
    "bytes_behind_the_end",
]


@pytest.mark.parametrize("name", MENDED)
def test_the_command_that_verify_prints_mends_the_finding(name, sound, tmp_path):
    root = shutil.copytree(sound, tmp_path / "store")
    kind, *_ = planted.FAULTS[name][1](planted.Store(root))
    result = run("verify", root)
    found = {row["kind"]: row["mend"] for row in rows(result, exit_code=result.exit_code)}
    assert found[kind] == ("patch" if name == "noise_over_records" else KINDS[kind].mend)
    commands = [line.removeprefix("To mend: ") for line in result.stderr.splitlines() if line.startswith("To mend: ")]
    if KINDS[kind].severity == "info":
        commands = mend_commands([KINDS[kind].mend], root)
    for command in commands:
        typed(command.replace("NEW", str(tmp_path / "new")))
    mended = tmp_path / "new" if (tmp_path / "new").exists() else root
    result = run("verify", mended)
    assert kind not in [row["kind"] for row in rows(result)]


# ---- did you mean ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["cat", "STORE", "--topic", "topictets"],
        ["ls", "STORE", "--topic", "topictets"],
        ["query", "STORE", "--topic", "topictets", "--key", "k"],
        ["export", "STORE", "-", "--format", "json", "--topic", "topictets"],
        ["get", "STORE", "topictets", 0, 0],
        ["offset", "STORE", "--time", 0, "--topic", "topictets"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_topic_that_is_nearly_right_is_recognised(arguments):
    result = run(*(golden(BASIC) if argument == "STORE" else argument for argument in arguments))
    assert_one_line(result, "there is no queue of topic 'topictets': did you mean 'TopicTest'?")


@pytest.mark.parametrize(
    "arguments",
    [
        ["cat", "STORE", "--topic", "TopicTest", "--queue", 7],
        ["export", "STORE", "-", "--format", "json", "--topic", "TopicTest", "--queue", 7],
        ["get", "STORE", "TopicTest", 7, 0],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_queue_id_that_is_unknown_is_answered_with_those_of_the_topic(arguments):
    result = run(*(golden(BASIC) if argument == "STORE" else argument for argument in arguments))
    assert_one_line(result, "there is no queue 7 of topic 'TopicTest': its queue ids are 0 to 3")


def test_a_group_and_a_command_that_are_nearly_right_are_recognised():
    group = rows(run("lag", golden(BROKER)))[0]["group"]
    assert_one_line(run("lag", golden(BROKER), "--group", group.lower() + "x"), f"did you mean {group!r}?")
    result = run("exprt", golden(BROKER))
    assert (result.exit_code, "No such command 'exprt': did you mean 'export'?" in result.stderr) == (2, True)


# ---- completion --------------------------------------------------------------------------------------------


def completion_of(*words):
    """The environment in which a shell asks for the last word."""
    text = shlex.join(map(str, ("rocketstore", *words[:-1]))) + " " + words[-1]
    asked = {"_ROCKETSTORE_COMPLETE": "bash_complete", "COMP_WORDS": text, "COMP_CWORD": str(len(words))}
    return os.environ | asked


def complete(*words):
    """What a shell gets for the last word."""
    answer = subprocess.run(COMMAND, env=completion_of(*words), text=True, capture_output=True, timeout=60, check=True)
    return [line.partition(",")[2] for line in answer.stdout.splitlines() if line]


def test_topics_queues_and_groups_are_completed():
    root = golden(BROKER)
    topics = sorted({row["topic"] for row in rows(run("ls", root))})
    assert complete("get", root, "") == topics
    start = topics[0][:3]
    assert complete("cat", root, "--topic", start) == [name for name in topics if name.startswith(start)]
    ids = sorted({str(row["queueId"]) for row in rows(run("ls", root, "--topic", topics[0]))})
    assert complete("get", root, topics[0], "") == ids
    assert complete("export", root, "out.csv", "--topic", topics[0], "--queue", "") == ids
    groups = sorted({row["group"] for row in rows(run("lag", root))})
    assert complete("lag", root, "--group", "") == groups


def test_commands_and_options_are_completed():
    assert complete("re") == ["report", "recover", "rebuild"]
    assert complete("config", "") == ["check", "repair"]
    assert {"info", "ls", "cat", "config"} < {*complete("")}
    assert complete("--ver") == ["--version"]
    assert complete("cat", "STORE", "--t") == ["--tiered", "--tier", "--topic", "--tag", "--tail", "--template", "--tz"]
    # --topic and --tag may be repeated.
    unused = ["--tiered", "--tier", "--topic", "--tag", "--template", "--tz"]
    assert complete("cat", "STORE", "--topic", "T", "--tail", "2", "--t") == unused
    assert complete("cat", "STORE", "-f", "--fo") == ["--format"]
    assert complete("config", "check", "--l") == ["--limit"]
    assert complete("ls", "--format", "c") == complete("ls", "--format=c") == ["csv", "csv-safe"]
    assert complete("nope", "--l") == []


def test_completing_a_command_or_an_option_imports_no_numpy():
    for words in (["ca"], ["cat", "STORE", "--t"], ["config", "check", "--l"], ["config", ""]):
        script = "import sys; from rocketstore.cli import main\n"
        script += "try: main()\nfinally: print('numpy' in sys.modules, file=sys.stderr)"
        command = [sys.executable, "-c", script]
        environment = completion_of(*words)
        answer = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60, check=True)
        assert (answer.stderr, bool(answer.stdout)) == ("False\n", True)


def test_a_store_that_cannot_be_read_completes_nothing(tmp_path):
    assert complete("get", tmp_path / "nothing", "") == []

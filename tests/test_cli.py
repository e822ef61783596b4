"""The command line: what it prints, and how it ends."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rocketstore import IndexFile

NO_JAVA = {"PATH": "/nonexistent", "JAVA_HOME": ""}
GEOMETRY = ["--slots", "97", "--items", "1000"]


@pytest.fixture
def run():
    """Run the command here; gives click's result, with exit_code, stdout and stderr."""
    testing = pytest.importorskip("click.testing", reason="needs click, from the extra 'cli'")
    pytest.importorskip("rich", reason="needs rich, from the extra 'cli'")
    from rocketstore.cli.group import rocketstore

    def invoke(*arguments):
        return testing.CliRunner().invoke(rocketstore, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def start(run):
    """Start the command in a process of its own."""
    processes = []

    def popen(*arguments, **options):
        command = [sys.executable, "-m", "rocketstore.cli", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **pipes | options)
        processes.append(process)
        return process

    yield popen
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def index(tmp_path):
    """A directory of two index files: one full, one with a single item."""
    directory = tmp_path / "index"
    directory.mkdir()
    options = {"hash_slot_num": 97, "index_num": 1000}
    with IndexFile.create(directory / "20231114221320000", **options) as file:
        numbers = np.arange(999)
        file.put_keys([f"k{n % 500}" for n in numbers], numbers * 100, 1_700_000_000_000 + numbers, topic="T")
    with IndexFile.create(directory / "20231114221330000", **options) as file:
        file.put_key("T#k1", 99_900, 1_700_000_010_000)
        file.put_key("T#T#tag", 100_000, 1_700_000_020_000)
    return directory


def json_lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def assert_one_line(result, *words):
    """The error is one line that says all the words."""
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    for word in words:
        assert str(word) in line


# ---- info --------------------------------------------------------------------------------------------------


def test_info_gives_a_json_object_for_each_file(run, index):
    result = run("info", index)
    assert result.exit_code == 0
    full, last = json_lines(result)
    assert full == {
        "file": "20231114221320000",
        "items": 999,
        "capacity": 999,
        "slotsUsed": 97,
        "slots": 97,
        "beginTime": "2023-11-14T22:13:20.000Z",
        "endTime": "2023-11-14T22:13:20.998Z",
        "beginPhyOffset": 0,
        "endPhyOffset": 99_800,
        "bytes": 40 + 4 * 97 + 20 * 1000,
    }
    assert (last["items"], last["slotsUsed"], last["endPhyOffset"]) == (2, 2, 100_000)


def test_info_in_csv_has_the_same_columns(run, index):
    rows = list(csv.DictReader(io.StringIO(run("info", "--format", "csv", index).stdout)))
    expected = [{name: str(value) for name, value in row.items()} for row in json_lines(run("info", index))]
    assert rows == expected


def test_info_in_a_table_ends_with_the_total(run, index):
    lines = run("info", "--format", "table", index).stdout.splitlines()
    assert lines[0].split()[:3] == ["file", "items", "of"]
    assert lines[1].split()[:2] == ["20231114221320000", "999"]
    assert "2023-11-14 22:13:20.998" in lines[1]
    assert lines[-1].split() == ["2", "files", "1,001", "1,998", "40,856"]


def test_info_of_one_file(run, index):
    (row,) = json_lines(run("info", index / "20231114221330000"))
    assert row["items"] == 2


def test_info_of_an_empty_file_says_that_there_is_no_time(run, tmp_path):
    IndexFile.create(tmp_path / "1", hash_slot_num=97, index_num=1000).close()
    assert_one_line(run("info", tmp_path / "1"), tmp_path / "1", "--slots and --items")
    (row,) = json_lines(run("info", tmp_path / "1", *GEOMETRY))
    assert (row["items"], row["beginTime"], row["endTime"]) == (0, None, None)


def test_info_of_the_golden_store(run, golden_index):
    rows = json_lines(run("info", golden_index))
    assert [row["items"] for row in rows] == [999] * 8 + [227]


def test_info_shows_the_sound_files_beside_a_damaged_one(run, index):
    damaged = index / "20231114221320000"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    result = run("info", index)
    assert [row["items"] for row in json_lines(result)] == [2]
    assert_one_line(result, damaged, "file size")


# ---- query -------------------------------------------------------------------------------------------------


def offsets(result):
    assert result.exit_code == 0, result.stderr
    return [row["phyOffset"] for row in json_lines(result)]


def test_query_finds_a_key_in_all_files_newest_first_and_says_that_hashes_were_compared(run, index):
    result = run("query", index, "--topic", "T", "--key", "k1")
    assert offsets(result) == [99_900, 50_100, 100]
    assert result.stderr == "3 found by the key's hash: look into the messages to be sure\n"


def test_query_in_one_file(run, index):
    assert offsets(run("query", index / "20231114221320000", "--topic", "T", "--key", "k1")) == [50_100, 100]


def test_query_finds_no_more_than_asked_for(run, index):
    assert offsets(run("query", index, "--topic", "T", "--key", "k1", "--max", "2")) == [99_900, 50_100]


def test_query_finds_nothing(run, index):
    result = run("query", index, "--topic", "T", "--key", "absent")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("0 found")


@pytest.mark.parametrize("path", ["", "20231114221330000"], ids=["directory", "file"])
def test_query_finds_tags_by_their_type(run, index, path):
    assert offsets(run("query", index / path, "--topic", "T", "--key", "tag", "--type", "T")) == [100_000]
    assert offsets(run("query", index / path, "--topic", "T", "--key", "tag", "--type", "K")) == []


@pytest.mark.parametrize("since", ["1700000010000", "2023-11-14T22:13:30", "2023-11-15T00:13:30+02:00"])
def test_since_is_inclusive_and_until_exclusive(run, index, since):
    query = ["query", index, "--topic", "T", "--key", "k1"]
    assert offsets(run(*query, "--since", since)) == [99_900]
    assert offsets(run(*query, "--until", since)) == [50_100, 100]
    later = "1700000010001"
    assert offsets(run(*query, "--until", later)) == [99_900, 50_100, 100]


def test_query_in_csv_and_as_a_table(run, index):
    query = ["query", index, "--topic", "T", "--key", "k1"]
    assert run(*query, "--format", "csv").stdout == "phyOffset\n99900\n50100\n100\n"
    assert run(*query, "--format", "table").stdout.split() == ["phyOffset", "99900", "50100", "100"]


# ---- errors ------------------------------------------------------------------------------------------------

QUERY = ["--topic", "T", "--key", "k"]


@pytest.mark.parametrize("command", [["info"], ["query", *QUERY]], ids=["info", "query"])
class TestWrongPaths:
    def test_nothing_there(self, run, command, tmp_path):
        assert_one_line(run(*command, tmp_path / "nothing"), tmp_path / "nothing", "No such file")

    def test_a_store_and_not_its_index(self, run, command, index):
        assert_one_line(run(*command, index.parent), index.parent, "no index files", f"try {index}")

    def test_a_directory_of_something_else(self, run, command, tmp_path):
        assert_one_line(run(*command, tmp_path), tmp_path, "no index files")

    def test_a_file_of_something_else(self, run, command, tmp_path):
        path = tmp_path / "text"
        path.write_text("no index " * 500)
        assert_one_line(run(*command, path), path)

    def test_an_empty_file(self, run, command, tmp_path):
        (tmp_path / "1").touch()
        assert_one_line(run(*command, tmp_path / "1"), tmp_path / "1", "empty")

    def test_another_geometry(self, run, command, index):
        path = index / "20231114221320000"
        assert_one_line(run(*command, path, "--slots", "7", "--items", "20"), path, "file size")


def test_a_circle_in_a_file_is_an_error(run, index):
    path = index / "20231114221320000"
    data = bytearray(path.read_bytes())
    items = 40 + 4 * 97
    for ordinal in range(1, 1000):
        data[items + 20 * ordinal + 16 : items + 20 * ordinal + 20] = (999).to_bytes(4, "big")
    path.write_bytes(data)
    assert_one_line(run("query", path, *GEOMETRY, "--topic", "T", "--key", "none"), path, "prevIndex")


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["query", "."],
        ["query", ".", *QUERY, "--since", "yesterday"],
        ["query", ".", *QUERY, "--since", "2024-01-02", "--until", "2024-01-02"],
        ["query", ".", *QUERY, "--max", "65"],
        ["info", ".", "--slots", "5"],
        ["info", ".", "--items", "5"],
        ["info", ".", "--format", "xml"],
        ["demo", "--keys", os.devnull],
    ],
    ids=" ".join,
)
def test_misuse_is_explained(run, arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: ")
    assert "Error: " in result.stderr


def test_without_its_extra_the_command_names_it():
    script = "import sys; sys.modules['click'] = None; from rocketstore.cli import main; main()"
    answer = subprocess.run(
        [sys.executable, "-c", script], text=True, capture_output=True, timeout=60, check=False
    )
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr == "Error: click is missing: pip install rocketstore[cli]\n"


# ---- processes ---------------------------------------------------------------------------------------------


def test_the_command_runs_in_a_process(start, index):
    process = start("query", index, "--topic", "T", "--key", "k1")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()[0]) == (0, '{"phyOffset": 99900}')
    assert "Traceback" not in err


def test_a_reader_that_goes_away_is_no_error(start, index):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = start("info", "--format", "csv", index, stdout=write_end)
    os.close(write_end)
    _, err = process.communicate(timeout=60)
    assert err == ""
    assert process.returncode != 0


def test_ctrl_c_ends_at_once_and_says_nothing(start, tmp_path):
    out = tmp_path / "demo"
    process = start("demo", "--messages", 50_000_000, "--out", out, env=os.environ | NO_JAVA)
    until = time.monotonic() + 60
    while not (out.is_dir() or time.monotonic() > until):
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stdout == ""
    assert [line for line in stderr.splitlines() if line] == [
        "Spark is left out: Java is missing, it needs 17 or newer."
    ]


# ---- demo --------------------------------------------------------------------------------------------------

SMALL = ["demo", "--messages", 3000, "--lookups", 1000, "--absent", 100]


def test_the_demo_without_java_does_the_serial_part(run, monkeypatch, tmp_path):
    for name, value in NO_JAVA.items():
        monkeypatch.setenv(name, value)
    result = run(*SMALL, *GEOMETRY, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stderr == "Spark is left out: Java is missing, it needs 17 or newer.\n"
    assert "all 1,000 messages found" in result.stdout
    assert len(list((tmp_path / "out" / "serial").iterdir())) == 4


def test_the_demo_looks_given_keys_up_in_files_that_are_there(run, index, monkeypatch, tmp_path):
    for name, value in NO_JAVA.items():
        monkeypatch.setenv(name, value)
    keys = tmp_path / "keys"
    keys.write_text("k1\nk2\nabsent\n")
    result = run("demo", "--index", index, "--topic", "T", "--keys", keys)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[-2:] == ["5", "candidates"]


def test_the_demo_does_not_write_among_other_files(run, index):
    result = run(*SMALL, "--out", index)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"Error: {index}: is not empty: give a new directory"


@pytest.mark.spark
def test_the_demo_finds_the_same_with_spark(start):
    from rocketstore.cli.demo import why_no_spark

    if why_no_spark():
        pytest.skip(why_no_spark())
    process = start(*SMALL, *GEOMETRY)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "4 of 4 files the same" in out
    assert out.count("1,100 answers the same") == 2

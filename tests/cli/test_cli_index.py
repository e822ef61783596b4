"""``rocketstore info`` and ``query`` on index files: the hash candidates that a broker finds."""

import csv
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.cli import assert_one_line, rows, run

from rocketstore import IndexFile

GEOMETRY = ["--slots", "97", "--items", "1000"]


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


# ---- info --------------------------------------------------------------------------------------------------


def test_info_gives_a_json_object_for_each_file(index):
    result = run("info", index)
    assert result.exit_code == 0
    full, last = rows(result)
    assert full == {
        "file": "20231114221320000",
        "items": 999,
        "capacity": 999,
        "slotsUsed": 97,
        "slots": 97,
        "beginTimestamp": 1_700_000_000_000,
        "endTimestamp": 1_700_000_000_998,
        "beginPhyOffset": 0,
        "endPhyOffset": 99_800,
        "bytes": 40 + 4 * 97 + 20 * 1000,
    }
    assert (last["items"], last["slotsUsed"], last["endPhyOffset"]) == (2, 2, 100_000)


@pytest.mark.parametrize(
    ("place", "field"), [(16, "beginPhyOffset"), (24, "endPhyOffset"), (32, "hashSlotCount"), (36, "indexCount")]
)
def test_info_names_a_header_that_slots_and_items_contradict(place, field, index, tmp_path):
    file = Path(shutil.copy(index / "20231114221320000", tmp_path))
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write((399).to_bytes(4 if place >= 32 else 8, "big"))
    result = run("info", file)
    assert (rows(result, exit_code=1)[0]["slotsUsed"] == 97) == (field != "indexCount")
    assert f"{file}: the header's {field} is 399, but" in result.stderr


def test_info_counts_the_slots_of_a_file_whose_header_counts_puts(index, tmp_path):
    """As releases up to 4.7.0 do."""
    file = Path(shutil.copy(index / "20231114221320000", tmp_path))
    with file.open("r+b") as opened:
        opened.seek(32)
        opened.write((999).to_bytes(4, "big"))
    result = run("info", file)
    assert (rows(result)[0]["slotsUsed"], result.exit_code) == (97, 0)


def test_info_in_csv_has_the_same_columns(index):
    found = list(csv.DictReader(io.StringIO(run("info", "--format", "csv", index).stdout)))
    expected = [{name: str(value) for name, value in row.items()} for row in rows(run("info", index))]
    assert found == expected


def test_info_in_a_table_has_the_same_columns(index):
    lines = run("info", "--format", "table", index).stdout.splitlines()
    assert lines[0].split() == list(rows(run("info", index))[0])
    assert lines[1].split()[:2] == ["20231114221320000", "999"]
    assert "2023-11-14T22:13:20.998Z" in lines[1]


def test_info_of_one_file(index):
    (row,) = rows(run("info", index / "20231114221330000"))
    assert row["items"] == 2


def test_info_of_an_empty_file_says_that_there_is_no_time(tmp_path):
    IndexFile.create(tmp_path / "1", hash_slot_num=97, index_num=1000).close()
    path = tmp_path / "1"
    assert_one_line(run("info", path), path, f"rocketstore info {path} --slots N --items N")
    (row,) = rows(run("info", tmp_path / "1", *GEOMETRY))
    assert (row["items"], row["beginTimestamp"], row["endTimestamp"]) == (0, None, None)


def test_info_of_the_golden_store(golden_index):
    assert [row["items"] for row in rows(run("info", golden_index))] == [999] * 8 + [227]


def test_info_shows_the_sound_files_beside_a_damaged_one(index):
    damaged = index / "20231114221320000"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    result = run("info", index)
    assert [row["items"] for row in rows(result, exit_code=1)] == [2]
    assert_one_line(result, damaged, "file size")


# ---- query -------------------------------------------------------------------------------------------------


def offsets(result):
    assert result.exit_code == 0, result.stderr
    return [row["phyOffset"] for row in rows(result)]


def test_query_finds_a_key_in_all_files_newest_first_and_says_that_hashes_were_compared(index):
    result = run("query", index, "--topic", "T", "--key", "k1")
    assert offsets(result) == [99_900, 50_100, 100]
    assert result.stderr == "3 found by the hash of the key: compare the messages to be sure\n"


def test_query_in_one_file(index):
    assert offsets(run("query", index / "20231114221320000", "--topic", "T", "--key", "k1")) == [50_100, 100]


def test_query_finds_no_more_than_asked_for(index):
    assert offsets(run("query", index, "--topic", "T", "--key", "k1", "--limit", "2")) == [99_900, 50_100]


def test_query_finds_nothing(index):
    result = run("query", index, "--topic", "T", "--key", "absent")
    assert result.stdout == ""
    assert_one_line(result, index, "no item was found")


@pytest.mark.parametrize("path", ["", "20231114221330000"], ids=["directory", "file"])
def test_query_finds_tags_by_their_type(index, path):
    assert offsets(run("query", index / path, "--topic", "T", "--tag", "tag")) == [100_000]
    assert_one_line(run("query", index / path, "--topic", "T", "--key", "tag"), "no item was found")


@pytest.mark.parametrize("since", ["1700000010000", "2023-11-14T22:13:30", "2023-11-15T00:13:30+02:00"])
def test_since_is_inclusive_and_until_exclusive(index, since):
    query = ["query", index, "--topic", "T", "--key", "k1"]
    assert offsets(run(*query, "--since", since)) == [99_900]
    assert offsets(run(*query, "--until", since)) == [50_100, 100]
    later = "1700000010001"
    assert offsets(run(*query, "--until", later)) == [99_900, 50_100, 100]


def test_query_in_csv_and_as_a_table(index):
    query = ["query", index, "--topic", "T", "--key", "k1"]
    assert run(*query, "--format", "csv").stdout == "phyOffset\n99900\n50100\n100\n"
    assert run(*query, "--format", "table").stdout.split() == ["phyOffset", "99900", "50100", "100"]


QUERY = ["--topic", "T", "--key", "k"]


@pytest.mark.parametrize("command", [["info"], ["query", *QUERY]], ids=["info", "query"])
class TestWrongPaths:
    def test_nothing_there(self, command, tmp_path):
        assert_one_line(run(*command, tmp_path / "nothing"), tmp_path / "nothing", "No such file")

    def test_a_directory_of_something_else(self, command, tmp_path):
        assert_one_line(run(*command, tmp_path), tmp_path, "no store and no index files")

    def test_a_commit_log_or_one_of_its_files(self, command, tmp_path):
        file = tmp_path / "commitlog" / f"{0:020}"
        file.parent.mkdir()
        file.write_bytes(bytes(4096))
        for path in (file.parent, file):
            assert_one_line(run(*command, path), path, f"no store and no index files here: did you mean {tmp_path}?")

    def test_a_file_of_something_else(self, command, tmp_path):
        path = tmp_path / "text"
        path.write_text("no index " * 500)
        assert_one_line(run(*command, path), path)

    def test_an_empty_file(self, command, tmp_path):
        (tmp_path / "1").touch()
        assert_one_line(run(*command, tmp_path / "1"), tmp_path / "1", "empty")

    def test_another_geometry(self, command, index):
        path = index / "20231114221320000"
        assert_one_line(run(*command, path, "--slots", "7", "--items", "20"), path, "file size")


def test_a_circle_in_a_file_is_an_error(index):
    path = index / "20231114221320000"
    data = bytearray(path.read_bytes())
    items = 40 + 4 * 97
    for ordinal in range(1, 1000):
        data[items + 20 * ordinal + 16 : items + 20 * ordinal + 20] = (999).to_bytes(4, "big")
    path.write_bytes(data)
    assert_one_line(run("query", path, *GEOMETRY, "--topic", "T", "--key", "none"), path, "prevIndex")

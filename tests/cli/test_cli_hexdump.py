"""``rocketstore hexdump``: each byte of a record belongs to one field."""

import shutil

import pytest
from support import stores
from support.cli import assert_one_line, golden, on_terminal, rows, run
from support.damages import change_log
from support.puts import open_store

RICH = "rich-5.5.0"


def fields(found):
    return {row["field"]: row["value"] for row in found}


@pytest.mark.parametrize("name", [RICH, "batch-5.3.3", "crc-5.5.0"])
def test_the_fields_are_the_records_and_leave_no_byte_out(name):
    root = golden(name)
    log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    messages = stores.dump(name)["message"]
    for message in messages[::7]:
        at, size = message["physicalOffset"], message["totalSize"]
        found = rows(run("hexdump", root, at))
        assert bytes.fromhex("".join(row["hex"] for row in found)) == log[at : at + size]
        assert [row["phyOffset"] for row in found][:2] == [at, at + 4]
        shown = fields(found)
        assert (shown["size"], shown["phyOffset"]) == (str(size), str(at))
        assert shown.get("topic", "") == message["topic"]
        assert shown["bornTimestamp"].startswith(str(message["bornTimestamp"]))
        properties = [row["value"] for row in found if row["field"] == "property"]
        assert properties == [f"{name}={value}" for name, value in message["properties"].items()]


def test_ipv6_hosts_and_flags_are_spelled_out():
    message = next(m for m in stores.dump(RICH)["message"] if m["sysFlag"] & 0x30 == 0x30)
    shown = fields(rows(run("hexdump", golden(RICH), message["msgId"])))
    assert shown["storeHost"].startswith("[")
    assert "born host V6, store host V6" in shown["sysFlag"]
    assert shown["phyOffset"] == str(message["physicalOffset"])


def test_the_blank_at_the_end_of_a_file():
    blank = stores.dump(RICH)["blank"][0]
    found = rows(run("hexdump", golden(RICH), blank["physicalOffset"]))
    assert [row["value"] for row in found] == [str(blank["size"]), "blank to the end of the file"]


def test_a_place_where_no_record_is(tmp_path):
    root = shutil.copytree(golden(RICH), tmp_path / "store")
    change_log(root, 0, 4, bytes(4))
    for offset in (0, 100):
        result = run("hexdump", root, offset)
        assert rows(result, exit_code=1)[1]["value"] == "no record begins here"
        assert_one_line(result, f"byte {offset}", "no message begins here")


def test_any_byte_of_a_record_shows_it(monkeypatch):
    messages = stores.dump(RICH)["message"]
    for message in messages[3::40]:
        at, size = message["physicalOffset"], message["totalSize"]
        expected = rows(run("hexdump", golden(RICH), at))
        for offset in (at + 1, at + size // 2, at + size - 1):
            result = run("hexdump", golden(RICH), offset)
            assert rows(result) == expected
            assert result.stderr == f"{golden(RICH)}: byte {offset} is byte {offset - at} of the record at {at}\n"
    monkeypatch.setattr("rocketstore.cli.hexdump.NEAR", 1)
    assert rows(run("hexdump", golden(RICH), at + 1)) == expected


def test_a_record_is_given_by_its_place_in_a_queue():
    for offset in (0, 5, -1, -2):
        found = rows(run("hexdump", golden(RICH), "RichTopic", 1, offset))
        (message,) = rows(run("get", golden(RICH), "RichTopic", 1, offset))
        assert found == rows(run("hexdump", golden(RICH), message["phyOffset"]))


@pytest.mark.parametrize(("place", "status", "words"), [
    (["RichTopic", 9, 0], 1, "its queue ids are 0 to 2"), (["Richtopic", 0, 0], 1, "did you mean 'RichTopic'?"),
    (["RichTopic", 0, 10**6], 1, "no unit"), (["RichTopic", "a", 0], 2, "QUEUE and OFFSET"),
    (["RichTopic", 0], 2, "TOPIC QUEUE OFFSET"), (["--frmat", "json", 0], 2, "--frmat"),
])  # fmt: skip
def test_a_place_that_is_not_there_is_explained(place, status, words):
    result = run("hexdump", golden(RICH), *place)
    assert (result.exit_code, result.stdout) == (status, "")
    assert words in result.stderr


def test_an_offset_can_be_written_as_files_are_named():
    at = stores.dump(RICH)["message"][1]["physicalOffset"]
    assert rows(run("hexdump", golden(RICH), f"{at:020}")) == rows(run("hexdump", golden(RICH), at))


def test_a_byte_in_the_filler_shows_the_filler(monkeypatch):
    blank = stores.dump(RICH)["blank"][0]
    at, size = blank["physicalOffset"], blank["size"]
    expected = rows(run("hexdump", golden(RICH), at))
    for offset in (at + 1, at + size // 2, at + size - 1):
        result = run("hexdump", golden(RICH), offset)
        assert rows(result) == expected
        place = f"byte {offset - at} of the filler at the end of the file, which begins at {at}"
        assert result.stderr == f"{golden(RICH)}: byte {offset} is {place}\n"
    monkeypatch.setattr("rocketstore.cli.hexdump.NEAR", 1)
    assert rows(run("hexdump", golden(RICH), at + size - 1)) == expected


def test_outside_the_log(tmp_path):
    root = golden(RICH)
    for offset in (10**12, "9" * 20):
        assert_one_line(run("hexdump", root, offset), root / "commitlog", "outside the commit log", "0 to 499343")
    with open_store(tmp_path):
        pass
    result = run("hexdump", tmp_path, 0)
    assert_one_line(result, tmp_path / "commitlog", "phy_offset 0 is outside the commit log, which has no message")


def test_a_damaged_record_is_shown_as_far_as_it_goes(tmp_path):
    root = shutil.copytree(golden(RICH), tmp_path / "store")
    file = min((root / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    data[84:88] = (2**31 - 1).to_bytes(4, "big")
    file.write_bytes(data)
    result = run("hexdump", root, 0)
    found = rows(result, exit_code=1)
    assert [row["field"] for row in found][-2:] == ["bodyLength", "rest"]
    assert sum(len(row["hex"]) // 2 for row in found) == 255
    assert_one_line(result, file, "body length")


def test_a_body_that_was_changed_is_reported_by_its_crc(tmp_path):
    root = shutil.copytree(golden(RICH), tmp_path / "store")
    file = min((root / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    data[90] ^= 1
    file.write_bytes(data)
    assert_one_line(run("hexdump", root, 0), file, "bodyCrc")


def test_a_table_has_the_first_bytes_of_a_long_field():
    message = max(stores.dump(RICH)["message"], key=lambda m: m["bodyLength"])
    status, text = on_terminal("hexdump", golden(RICH), message["physicalOffset"])
    assert status == 0
    assert f"and {message['bodyLength'] - 256} more" in text
    assert "da a3 20 a7" in text


def test_a_text_that_is_neither_an_offset_nor_an_id_is_misuse():
    result = run("hexdump", golden(RICH), "first")
    assert result.exit_code == 2
    assert "'first' is no message id" in result.stderr

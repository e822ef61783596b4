"""Inner batches: commands show the messages in them, and ``--containers`` shows the records."""

import json
import shutil
import zlib

import pytest
from support import stores
from support.cli import golden, rows, run
from support.damages import change_log, log_files
from support.puts import open_store

import rocketstore
from rocketstore import Message
from rocketstore.cli import cat as cat_module
from rocketstore.messages.message import inner_messages

BATCH = "batch-5.5.0"
INNER = 0x80


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A plain message, a batch of three, and another plain message; all have the key k."""
    root = tmp_path_factory.mktemp("inner") / "store"
    with open_store(root) as opened:
        opened.create_topic("Batches", 1, queue_type="BatchCQ")
        opened.put_message(Message("Plain", b"first", queue_id=0))
        parts = [Message("Batches", b"part %d" % n, keys=[f"k{n}"], tags="A") for n in range(3)]
        opened.put_message(Message.batch("Batches", parts, queue_id=0, keys=["k"], compress="zlib"))
        opened.put_message(Message("Plain", b"last", queue_id=0))
    return root


def bodies(result, **options):
    return [row["body"] for row in rows(result, **options)]


def test_cat_shows_the_messages_in_a_batch(store):
    found = rows(run("cat", store))
    assert [row["body"] for row in found] == ["first", "part 0", "part 1", "part 2", "last"]
    parts = found[1:4]
    assert [row["queueOffset"] for row in parts] == [0, 1, 2]
    assert [row["keys"] for row in parts] == [["k0"], ["k1"], ["k2"]]
    assert {row["sysFlag"] & 0xC0 for row in parts} == {0}
    assert len({row["phyOffset"] for row in parts}) == 1


def test_containers_are_shown_if_asked_for(store):
    _, container, _ = rows(run("cat", store, "--containers"))
    assert container["sysFlag"] & INNER
    assert container["properties"]["INNER_NUM"] == "3"


def test_limits_and_columns_are_those_of_messages(store):
    assert bodies(run("cat", store, "--limit", 3)) == ["first", "part 0", "part 1"]
    found = rows(run("cat", store, "--topic", "Batches", "--columns", "keys,queueOffset"))
    assert found == [{"keys": [f"k{n}"], "queueOffset": n} for n in range(3)]


@pytest.mark.parametrize("part", [1, 300, 1 << 20])
@pytest.mark.parametrize("count", range(7))
def test_a_tail_counts_the_messages_in_a_batch(store, count, part, monkeypatch):
    monkeypatch.setattr(cat_module, "LAST_PART", part)
    shown = ["first", "part 0", "part 1", "part 2", "last"]
    assert bodies(run("cat", store, "--tail", count), exit_code=int(not count)) == (shown[-count:] if count else [])
    assert bodies(run("cat", store, "--tail", count or 1, "--limit", 1)) == shown[-(count or 1) :][:1]
    containers = run("cat", store, "--tail", 2, "--containers")
    assert [row["topic"] for row in rows(containers)] == ["Batches", "Plain"]


def test_get_begins_within_a_batch(store):
    assert bodies(run("get", store, "Batches", 0, 1, "--limit", 2)) == ["part 1", "part 2"]
    assert bodies(run("get", store, "Batches", 0, 0)) == ["part 0"]
    (container,) = rows(run("get", store, "Batches", 0, 1, "--containers"))
    assert container["sysFlag"] & INNER


def test_query_shows_the_messages_of_a_batch_newest_first(store):
    query = ["query", store, "--topic", "Batches", "--key", "k"]
    result = run(*query)
    assert bodies(result) == ["part 2", "part 1", "part 0"]
    assert result.stderr == "3 found\n"
    assert bodies(run(*query, "--limit", 1)) == ["part 2"]
    assert bodies(run("query", store, "--since", 0)) == ["first", "part 0", "part 1", "part 2", "last"]
    assert len(rows(run(*query, "--containers"))) == 1


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_export_writes_the_messages_of_batches(store, tmp_path, form):
    result = run("export", store, tmp_path / f"out.{form}")
    assert result.stderr.endswith(": 5 messages\n")
    assert run("import", tmp_path / f"out.{form}", tmp_path / "new", "--small").exit_code == 0
    new, old = (rows(run("cat", root)) for root in (tmp_path / "new", store))
    assert [(row["topic"], row["body"], row["properties"]) for row in new] == [
        (row["topic"], row["body"], row["properties"]) for row in old
    ]
    assert run("export", store, tmp_path / f"raw.{form}", "--raw-body").stderr.endswith(": 3 messages\n")
    assert run("export", store, tmp_path / f"containers.{form}", "--containers").stderr.endswith(": 3 messages\n")


def change_body(root, at, begin):
    """Change the first bytes of the body of the record at a physical offset, and make its CRC right."""
    change_log(root, 0, at + 88, begin)
    data = log_files(root)[0]
    size = int.from_bytes(data[at + 84 : at + 88], "big")
    crc = zlib.crc32(data[at + 88 : at + 88 + size]) & 0x7FFFFFFF
    change_log(root, 0, at + 8, crc.to_bytes(4, "big"))


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_a_bad_body_beside_a_batch_is_exported_with_the_reason(store, tmp_path, form):
    root, target = shutil.copytree(store, tmp_path / "store"), tmp_path / f"out.{form}"
    with open_store(root) as opened:
        at = opened.put_message(Message("Plain", b"y" * 1000, queue_id=0, compress="zlib")).phy_offset
    change_body(root, at, b"\xff" * 4)
    result = run("export", root, target)
    assert result.exit_code == 0
    warning, count = result.stderr.splitlines()
    assert warning.startswith("Warning: 1 message has a body that cannot be decoded")
    assert count == f"{target}: 6 messages"
    if form in ("parquet", "arrow"):
        module = pytest.importorskip("pyarrow.parquet" if form == "parquet" else "pyarrow.feather")
        last = module.read_table(target).slice(5).to_pylist()[0]
        assert last["body"] is None
        assert last["bodyError"].startswith("body: does not decompress")


def test_cat_shows_what_rocketmq_put_into_batches():
    found = rows(run("cat", golden(BATCH), "--columns", "phyOffset,queueOffset"))
    with rocketstore.open(golden(BATCH)) as opened:
        expected = 0
        for message in stores.dump(BATCH)["message"]:
            is_inner = message["sysFlag"] & INNER
            record = opened.look_message_by_offset(message["physicalOffset"])
            expected += len(list(inner_messages(record.body, 0))) if is_inner else 1
    assert len(found) == expected > len(stores.dump(BATCH)["message"])


def test_a_batch_that_cannot_be_opened_is_reported_as_damage(tmp_path):
    with open_store(tmp_path / "store") as opened:
        opened.create_topic("Batches", 1, queue_type="BatchCQ")
        opened.put_message(Message.batch("Batches", [Message("Batches", b"x" * 40)], queue_id=0))
        opened.put_message(Message("Plain", b"sound", queue_id=0))
    change_body(tmp_path / "store", 0, (7).to_bytes(4, "big"))  # the size of the first message in the body
    for command in (["cat", tmp_path / "store"], ["export", tmp_path / "store", "-", "--format", "json"]):
        result = run(*command)
        assert bodies(result, exit_code=1) == ["sound"]
        assert "no message of a batch is at byte 0: containers=True, or --containers," in result.stderr
    container, _ = rows(run("cat", tmp_path / "store", "--containers"))
    assert container["sysFlag"] & INNER


def test_conditions_choose_among_the_messages_in_a_batch(store, tmp_path):
    assert bodies(run("cat", store, "--key", "k1")) == ["part 1"]
    assert bodies(run("cat", store, "--tag", "A", "--limit", 2)) == ["part 0", "part 1"]
    assert bodies(run("cat", store, "--key", "k"), exit_code=1) == []  # the record has this key
    assert len(rows(run("cat", store, "--key", "k", "--containers"))) == 1
    assert bodies(run("cat", store, "--tail", 2, "--tag", "A")) == ["part 1", "part 2"]
    assert run("export", store, tmp_path / "out.jsonl", "--tag", "A").stderr.endswith(": 3 messages\n")
    assert rows(run("count", store, "--by", "tag", "--key", "k2"))[0]["messages"] == 1
    (grouped,) = rows(run("sql", store, "SELECT count(*) n FROM messages WHERE topic = 'Batches' AND tags = 'A'"))
    assert grouped == {"n": 3}
    assert rows(run("sql", store, "SELECT count(*) n FROM messages", "--containers")) == [{"n": 3}]


@pytest.mark.parametrize("offset", [0, 1, 2])
@pytest.mark.parametrize("limit", [1, 2, 10])
def test_get_finds_tags_in_batches(store, offset, limit):
    expected = [f"part {number}" for number in range(offset, 3)][:limit]
    assert bodies(run("get", store, "Batches", 0, offset, "--tag", "B||A", "--limit", limit)) == expected


def test_get_says_which_offsets_have_no_message_with_a_tag(store):
    result = run("get", store, "Batches", 0, 1, "--tag", "B")
    assert "NO_MATCHED_MESSAGE: no message from queue offset 1 to 2 has one of the tags" in result.stderr


@pytest.mark.parametrize("name", [BATCH, "rich-5.5.0", "lmq-5.5.0"])
def test_messages_is_the_same_number_in_info_ls_and_verify(name, tmp_path):
    counted = sum(row["messages"] for row in rows(run("ls", golden(name))))
    (info,) = rows(run("info", golden(name)))
    assert info["messages"] == counted
    assert run("verify", golden(name)).stderr.split()[0] == f"{counted:,}"
    report = json.loads(json.dumps(rocketstore.verify(golden(name)).to_dict()))
    assert (report["messages"], report["records"]) == (counted, len(stores.dump(name)["message"]))

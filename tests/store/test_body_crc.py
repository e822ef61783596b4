"""A body that does not match its CRC is never given without a word."""

import json
import warnings

import pytest

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig

WRONG = "bodyCrc: is not the CRC of the body"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store of three messages. The body of the second is b"body-X"."""
    root = tmp_path_factory.mktemp("crc") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        store.put_messages([Message("T", b"body-%d" % n, keys=[f"k{n}", "all"], queue_id=0) for n in range(3)])
    file = min((root / "commitlog").iterdir())
    with file.open("r+b") as opened:
        opened.seek(opened.read(4096).index(b"body-1"))
        opened.write(b"body-X")
    return root


@pytest.fixture
def store(root):
    with rocketstore.open(root) as store:
        yield store


def bodies(messages):
    return [message.body for message in messages]


def test_reads_of_single_messages_raise_an_error(store):
    (wrong,) = store.query_message("T", "k1", verify_crc=False)
    reads = [
        (store.get_message, ("T", 0, 0), {}),
        (store.get_message, ("T", 0, 1, 1), {}),
        (store.get_message, ("T", 0, 1, 20), {"tag": "*"}),
        (store.query_message, ("T", "k1"), {}),
        (store.query_message, ("T", "all", 3), {}),
        (store["T"].query, ("k1",), {}),
        (store.query_message_by_id, (wrong.msg_id,), {}),
        (store.look_message_by_offset, (wrong.phy_offset,), {}),
        (store.commit_log.get_message, (wrong.phy_offset,), {}),
    ]
    for read, arguments, options in reads:
        with pytest.raises(CorruptFileError, match="is not the CRC of the body: verify_crc=False") as error:
            read(*arguments, **options)
        assert (error.value.field, error.value.offset) == ("bodyCrc", wrong.phy_offset)
        found = read(*arguments, **options, verify_crc=False)
        assert b"body-X" in (bodies([found]) if isinstance(found, Message) else bodies(found))
    found = store.query_messages("T", ["k0", "k1"])
    with pytest.raises(CorruptFileError, match="is not the CRC"):
        _ = found.messages
    assert [bodies(batch) for batch in store.query_messages("T", ["k0", "k1"], verify_crc=False)] == [
        [b"body-0"],
        [b"body-X"],
    ]


def test_sound_messages_beside_a_wrong_one_are_read(store):
    assert bodies(store.get_message("T", 0, 2)) == [b"body-2"]
    assert bodies(store.query_message("T", "k0")) == [b"body-0"]


def test_a_read_with_the_limits_of_a_broker_does_as_a_broker(store):
    assert bodies(store.get_message("T", 0, 0, limits="broker")) == [b"body-0", b"body-X", b"body-2"]


def test_a_scan_of_bodies_reports_damage(store):
    for scan in (store.scan(), store["T"].scan(), store["T"].scan(columns="body", plan="scan")):
        with pytest.raises(CorruptFileError, match="is not the CRC"):
            list(scan)
    skipping = store.scan(topic="T", on_corrupt="skip")
    assert [message.body for batch in skipping for message in batch] == [b"body-0", b"body-2"]
    assert [part.error.field for part in skipping.skipped] == ["bodyCrc"]
    with pytest.raises(CorruptFileError, match="is not the CRC"):
        list(store.follow_batches(poll=None))
    with pytest.raises(CorruptFileError, match="is not the CRC"):
        store.scan().to_arrow()


def check_table(frame, store):
    assert frame["body"].to_pylist() == [b"body-0", None, b"body-2"]
    assert frame["bodyError"].to_pylist() == [None, WRONG, None]


@pytest.mark.parametrize("more", [{}, {"topic": "T", "key": "all"}])
def test_a_dataset_has_null_and_the_reason(store, more):
    pytest.importorskip("pyarrow")
    with pytest.warns(UserWarning, match="1 message has a body that cannot be decoded"):
        check_table(store.dataset(columns=["body", "body_error"], **more).to_table(), store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = store.dataset(columns=["body", "body_error"], verify_crc=False, **more).to_table()
        assert store.dataset(columns=["keys"], **more).to_table().num_rows == 3
    assert table["body"].to_pylist() == [b"body-0", b"body-X", b"body-2"]
    assert table["bodyError"].null_count == 3


@pytest.mark.filterwarnings("ignore:1 message has a body")
def test_polars_has_null_and_the_reason(root):
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    frame = rocketstore.scan_polars(root, columns=["body", "body_error"])
    assert frame.collect().rows() == [(b"body-0", None), (None, WRONG), (b"body-2", None)]
    frame = rocketstore.scan_polars(root, columns=["body"], verify_crc=False)
    assert frame.collect().rows() == [(b"body-0",), (b"body-X",), (b"body-2",)]


@pytest.mark.filterwarnings("ignore:1 message has a body")
def test_sql_has_null(store):
    pytest.importorskip("duckdb")
    asked = "SELECT body FROM messages ORDER BY queueOffset"
    assert store.sql(asked).to_arrow()["body"].to_pylist() == [b"body-0", None, b"body-2"]
    assert store.sql(asked, verify_crc=False).to_arrow()["body"].to_pylist() == [b"body-0", b"body-X", b"body-2"]


ASKED = [
    ["get", "STORE", "T", 0, 0, "--limit", 9],
    ["query", "STORE", "--key", "all"],
    ["query", "STORE", "--since", "2020-01-01"],
    ["cat", "STORE"],
    ["cat", "STORE", "--topic", "T"],
    ["export", "STORE", "-", "--format", "json"],
]


@pytest.mark.parametrize("words", ASKED, ids=lambda words: " ".join(map(str, words)))
def test_commands_leave_a_wrong_body_out_and_say_so(root, words):
    from support.cli import run

    asked = [root if word == "STORE" else word for word in words]
    result = run(*asked)
    assert result.exit_code == 1
    shown = sorted(json.loads(line)["body"] for line in result.stdout.splitlines())
    assert shown == ["body-0", "body-2"]
    assert "CRC" in result.stderr
    result = run(*asked, "--no-verify-crc")
    assert result.exit_code == 0
    assert sorted(json.loads(line)["body"] for line in result.stdout.splitlines()) == ["body-0", "body-2", "body-X"]


def test_get_and_query_report_a_wrong_body_also_without_that_column(root, store):
    from support.cli import run

    (wrong,) = store.query_message("T", "k1", verify_crc=False)
    for words in (["get", root, "T", 0, 1], ["query", root, "--key", "k1"], ["query", root, "--id", wrong.msg_id]):
        for columns in ([], ["--columns", "keys"]):
            result = run(*words, *columns)
            assert (result.exit_code, result.stdout) == (1, "")
            assert "does not match its CRC" in result.stderr
            assert "--no-verify-crc shows it" in result.stderr

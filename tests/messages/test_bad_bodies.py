"""Bodies that cannot be decoded: the message stays, its body is null, and every reader says why."""

import base64
import csv
import json
import sys
import zlib

import pytest
from reference.commit_log import write_file
from reference.record import build_record
from support.cli import rows, run
from support.puts import open_store
from support.repetitions import only_some_quick

import rocketstore
from rocketstore import CommitLog, CorruptFileError, Message, MessageBatch, PutMessageError
from rocketstore.messages.compression import compress

COMPRESSED, INNER_BATCH = 0x1, 0x80
SOUND = b"sound " * 20
COLUMNS = ["phy_offset", "body", "body_error"]
BOMB = zlib.compress(bytes((64 << 20) + 1), 9)
KINDS = {
    "plain": (b'{"order":1}', COMPRESSED, "body: does not decompress with zlib: "),
    **{f"type {kind}": (b"abc", COMPRESSED | kind << 8, f"sysFlag: there is no compression type {kind}")
       for kind in (4, 5, 6, 7)},
    "truncated zlib": (zlib.compress(SOUND)[:-5], COMPRESSED, "body: does not decompress with zlib: it is cut"),
    "too large": (BOMB, COMPRESSED, "body: is more than 67,108,864 bytes when decompressed"),
    "plain lz4": (b"abc", COMPRESSED | 1 << 8, "body: does not decompress with lz4: "),
    "plain zstd": (b"abc", COMPRESSED | 2 << 8, "body: does not decompress with zstd: "),
}  # fmt: skip


BAD = [*KINDS, "truncated lz4", "truncated zstd", "missing lz4", "missing zstd"]
QUICK_BAD = "plain", "type 4", "truncated zlib", "too large", "plain lz4", "truncated zstd", "missing lz4"


@pytest.fixture(params=only_some_quick(BAD, *QUICK_BAD))
def bad(request, monkeypatch):
    """The stored body, the system flags, and how the reason begins."""
    if request.param in KINDS:
        yield KINDS[request.param]
        return
    what, codec = request.param.split(" ")
    module = {"lz4": "lz4.frame", "zstd": "zstandard"}[codec]
    pytest.importorskip(module, reason=f"needs {module}, from the extra 'codecs'")
    raw, sys_flag = compress(SOUND, codec)
    if what == "truncated":
        yield raw[:-4], sys_flag, f"body: does not decompress with {codec}: "
    else:
        monkeypatch.setitem(sys.modules, module, None)
        yield raw, sys_flag, f'{module} is missing: pip install "rocketstore[codecs]"'


@pytest.fixture
def root(bad, tmp_path):
    """A store of three messages. The second one has the bad body."""
    raw, sys_flag, _ = bad
    path = tmp_path / "store"
    with open_store(path, mapped_file_size_commit_log=1 << 20) as store:
        for body, flags in ((SOUND, 0), (raw, sys_flag), (zlib.compress(SOUND), COMPRESSED)):
            store.put_message(Message("T", body, sys_flag=flags, keys=["k"], queue_id=0))
    return path


def assert_null_body(bodies, errors, bad):
    """Of three rows the second has no body but the reason."""
    assert bodies == [SOUND, None, SOUND]
    assert errors[0] is errors[2] is None
    assert errors[1].startswith(bad[2])


# ---- the library -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_a_scan_has_the_row_and_gives_one_warning(root, bad, threads):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    with rocketstore.open(root) as store:
        scan = store.scan(columns=[*COLUMNS, "raw_body"], threads=threads)
        with pytest.warns(UserWarning, match="body") as warned:
            table = scan.to_arrow().to_pydict()
        assert_null_body(table["body"], table["bodyError"], bad)
        assert table["rawBody"][1] == bad[0]
        (warning,) = warned
        assert "1 message has a body that cannot be decoded" in str(warning.message)


def test_data_frames_have_the_row(root, bad):
    for name in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(name, reason=f"needs {name}, from the extra 'arrow'")
    with rocketstore.open(root) as store:
        with pytest.warns(UserWarning, match="cannot be decoded"):
            frame = store.scan(columns=COLUMNS).to_polars()
        assert_null_body(frame["body"].to_list(), frame["bodyError"].to_list(), bad)
        with pytest.warns(UserWarning, match="cannot be decoded"):
            table = store.scan(columns=COLUMNS).to_pandas()
        assert table["body"].isna().tolist() == table["bodyError"].notna().tolist() == [False, True, False]


@pytest.mark.parametrize("read", [
    lambda store: (message for batch in store.scan() for message in batch),
    lambda store: store.get_message("T", 0, 0, 32).messages,
    lambda store: store.query_messages("T", ["k"], 32).messages.take([2, 1, 0]),
    lambda store: [store.look_message_by_offset(offset) for offset in store.scan(columns=["phy_offset"])
                   .to_arrow()["phyOffset"].to_pylist()],
], ids=["scan", "get", "query", "look"])  # fmt: skip
def test_of_messages_only_reading_the_body_raises(root, bad, read):
    with rocketstore.open(root) as store:
        if read(store).__class__.__name__ == "generator":
            with pytest.warns(UserWarning, match="cannot be decoded"):
                messages = list(read(store))
        else:
            messages = list(read(store))
        with pytest.raises((CorruptFileError, ModuleNotFoundError)):
            _ = messages[1].body
        assert [messages[0].body, messages[2].body] == [SOUND, SOUND]
        assert_null_body([SOUND, None, SOUND], [message.body_error for message in messages], bad)
        shown = [message.to_dict() for message in messages]
        assert_null_body([row["body"] for row in shown], [row.get("bodyError") for row in shown], bad)


def test_columns_of_messages_that_were_asked_for_have_the_row(root, bad):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    with rocketstore.open(root) as store:
        offsets = [message.phy_offset for message in store.get_message("T", 0, 0, 32).messages]
        batch = store.commit_log.get_messages(offsets, columns=COLUMNS)
        with pytest.warns(UserWarning, match="1 message has a body that cannot be decoded"):
            table = batch.to_arrow().to_pydict()
        assert_null_body(table["body"], table["bodyError"], bad)
        taken = batch.take([1, 0, 1])
        assert taken.to_arrow()["body"].to_pylist() == [None, SOUND, None]
        for row in (0, 2):
            with pytest.raises((CorruptFileError, ModuleNotFoundError)):
                _ = taken[row].body


def test_the_reason_alone_can_be_asked_for(root, bad):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    with rocketstore.open(root) as store, pytest.warns(UserWarning, match="cannot be decoded"):
        ((name, errors),) = store.scan(columns=["body_error"]).to_arrow().to_pydict().items()
    assert name == "bodyError"
    assert_null_body([SOUND, None, SOUND], errors, bad)


def test_bodies_that_are_not_read_give_no_warning(root):
    with rocketstore.open(root) as store:
        assert sum(len(batch) for batch in store.scan(columns=["phy_offset", "raw_body"])) == 3


def test_the_body_of_an_inner_batch_is_null_too(tmp_path):
    record = build_record("T", b"plain", sys_flag=INNER_BATCH | COMPRESSED)
    write_file(tmp_path, 0, record.ljust(4096, b"\0"))
    with CommitLog.open(tmp_path) as log, pytest.warns(UserWarning, match="cannot be decoded"):
        (message,) = (message for batch in log.scan() for message in batch)
    assert message.body_error.startswith("body: does not decompress with zlib")
    with pytest.raises(CorruptFileError, match="does not decompress"):
        message.decode_batch()


# ---- writing them again ------------------------------------------------------------------------------------


def test_messages_with_their_raw_bodies_are_stored_as_they_were(root, bad, tmp_path):
    with rocketstore.open(root) as store, open_store(tmp_path / "copy", mapped_file_size_commit_log=1 << 20) as copy:
        copy.put_messages(store.get_message("T", 0, 0, 32).messages)
        with pytest.warns(UserWarning, match="cannot be decoded"):
            batches = list(store.scan(columns=["topic", "sys_flag", "raw_body", *COLUMNS]))
        for batch in batches:
            copy.put_messages(batch)
            copy.put_messages(list(batch))
            pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
            copy.put_messages(batch.to_arrow())
        stored = [(m.raw_body, m.sys_flag & 0x701) for b in copy.scan(columns=["raw_body", "sys_flag"]) for m in b]
    assert stored == [(SOUND, 0), (bad[0], bad[1]), (zlib.compress(SOUND), COMPRESSED)] * 4


@pytest.mark.parametrize(
    "how",
    [lambda batch: batch, list, lambda batch: batch.to_arrow(), lambda batch: [batch[1]]],
    ids=["batch", "messages", "arrow", "one"],
)
def test_a_body_that_was_not_decoded_is_never_stored(root, how, tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    with rocketstore.open(root) as store, open_store(tmp_path / "copy") as copy:
        with pytest.warns(UserWarning, match="cannot be decoded"):
            (batch,) = store.scan(columns=["topic", "queue_id", "body"])
        with pytest.raises(ValueError, match=r"row 1: is null|its body cannot be decoded.* raw_body and sys_flag"):
            copy.put_messages(how(batch))
        with pytest.raises(PutMessageError, match="cannot be decoded"):
            copy.put_message(batch[1])
        assert sum(map(len, copy.scan())) == 0


def test_a_null_body_in_a_table_is_refused_with_its_row():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    table = pa.table({"topic": ["T", "T"], "body": pa.array([b"x", None]), "bodyError": [None, "why"]})
    with pytest.raises(ValueError, match="column body, row 1: is null"):
        MessageBatch.of_arrow(table)


# ---- the command line --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["cat"],
        ["get", "T", 0, 0, "--limit", 5],
        ["query", "--topic", "T", "--key", "k"],
        ["query", "--since", "2001-01-01"],
    ],
)
def test_commands_show_the_message_and_give_one_warning(root, bad, command):
    name, *words = command
    result = run(name, root, *words)
    shown = sorted(rows(result), key=lambda row: row["phyOffset"])
    assert_null_body([row["body"] and row["body"].encode() for row in shown], [row["bodyError"] for row in shown], bad)
    assert shown[1]["bodyBase64"] is None
    assert result.stderr.count("Warning: 1 message has a body that cannot be decoded") == 1


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_export_writes_the_message_and_import_restores_its_bytes(root, bad, form, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    path = tmp_path / f"out.{form}"
    result = run("export", root, path, "--raw-body")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("Warning: 1 message has a body that cannot be decoded") == 1
    if form == "json":
        found = [json.loads(line) for line in path.read_text().splitlines()]
    elif form == "csv":
        with path.open(newline="") as file:
            csv.field_size_limit(1 << 30)
            found = [{name: value or None for name, value in row.items()} for row in csv.DictReader(file)]
    elif form == "parquet":
        found = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    else:
        found = pa.ipc.open_file(path).read_all().to_pylist()
    bodies = [row["body"].encode() if isinstance(row["body"], str) else row["body"] for row in found]
    assert_null_body(bodies, [row["bodyError"] for row in found], bad)
    raw = base64.b64decode(found[1]["rawBodyBase64"]) if form in ("json", "csv") else found[1]["rawBody"]
    assert raw == bad[0]
    result = run("import", path, tmp_path / "copy", "--small")
    assert result.exit_code == 0, result.stderr
    with rocketstore.open(tmp_path / "copy") as copy:
        stored = [message.raw_body for batch in copy.scan(columns=["raw_body"]) for message in batch]
    assert stored[1] == bad[0]


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_an_export_without_raw_bodies_is_not_imported_as_if_the_body_were_empty(form, tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"plain", sys_flag=COMPRESSED, queue_id=0))
    path = tmp_path / f"out.{form}"
    assert run("export", tmp_path / "store", path).exit_code == 0
    result = run("import", path, tmp_path / "copy", "--small")
    assert result.exit_code == 1
    assert "the body could not be decoded" in result.stderr or "column body, row 0: is null" in result.stderr
    if (tmp_path / "copy").exists():
        with rocketstore.open(tmp_path / "copy") as copy:
            assert sum(map(len, copy.scan())) == 0


def test_export_counts_the_bad_bodies_of_all_parts(tmp_path):
    with open_store(tmp_path / "store") as store:
        for _ in range(100):
            store.put_message(Message("T", b"plain " * 20, sys_flag=COMPRESSED, queue_id=0))
        assert len(store.commit_log.file_run.files) > 3
    result = run("export", tmp_path / "store", tmp_path / "out.jsonl")
    assert result.exit_code == 0
    assert result.stderr.count("Warning") == result.stderr.count("Warning: 100 messages have bodies") == 1


# ---- other fields ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [
    {"topic": b"\xff\xfeT"},
    {"properties": b"KEYS\x01\xff\xfe\x02"},
    {"properties": b"no separators at all"},
    {"properties": b"\x01\x01\x02\x02KEYS\x01k\x02broken"},
], ids=["topic", "not UTF-8", "no separators", "separators"])  # fmt: skip
def test_a_row_is_not_lost_for_text_that_is_malformed(fields, tmp_path):
    record = build_record(**{"topic": "T", "body": b"first", **fields})
    sound = build_record("T", b"second", phy_offset=len(record))
    write_file(tmp_path / "commitlog", 0, (record + sound).ljust(4096, b"\0"))
    result = run("cat", tmp_path)
    assert [row["body"] for row in rows(result)] == ["first", "second"]
    with CommitLog.open(tmp_path / "commitlog") as log:
        assert [message.body for batch in log.scan() for message in batch] == [b"first", b"second"]


def test_verify_warns_of_bodies_that_begin_as_no_codec_writes_them(bad, root):
    raw, _, reason = bad
    report = rocketstore.verify(root)
    found = [finding for finding in report.findings if finding.path.parent.name == "commitlog"]
    with CommitLog.open(root / "commitlog") as log:
        offset = [message.phy_offset for batch in log.scan(columns=["phy_offset"]) for message in batch][1]
    assert report.ok
    if raw not in (b"abc", b'{"order":1}'):  # a codec began it
        assert found == []
        return
    (finding,) = found
    assert finding.offset == offset
    assert (finding.kind, finding.severity) == ("log-body-compression", "warning")
    assert reason in finding.detail


@pytest.mark.parametrize(("module", "number"), [("lz4.frame", 1), ("zstandard", 2)])
def test_verify_says_which_package_it_needs_to_check_a_body(module, number, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with open_store(tmp_path) as store:
        store.put_message(Message("T", b"plain", sys_flag=COMPRESSED | number << 8))
    (finding,) = rocketstore.verify(tmp_path).findings
    assert (finding.kind, finding.severity) == ("not-checked", "info")
    assert f'{module} is missing: pip install "rocketstore[codecs]"' in finding.detail


def test_verify_counts_the_bodies_that_do_not_decompress(tmp_path):
    with open_store(tmp_path) as store:
        for number in range(100):
            flags = COMPRESSED if number >= 20 else 0
            store.put_message(Message("T", b"plain", sys_flag=flags, queue_id=0))
    (first, *_), n = [f for f in rocketstore.verify(tmp_path).findings if f.kind == "log-body-compression"], 80
    report = rocketstore.verify(tmp_path, threads=1)
    found = [finding for finding in report.findings if finding.kind == "log-body-compression"]
    assert found[0].offset == first.offset > 0
    assert sum(1 + finding.more for finding in found) == n


def test_a_body_with_another_crc_is_not_decompressed(tmp_path):
    """One finding is enough: the body is not the one that was stored."""
    record = build_record("T", zlib.compress(SOUND), sys_flag=COMPRESSED)
    position = record.index(zlib.compress(SOUND)) + 8
    record = record[:position] + bytes([record[position] ^ 0x55]) + record[position + 1 :]
    write_file(tmp_path / "commitlog", 0, record.ljust(4096, b"\0"))
    kinds = {finding.kind for finding in rocketstore.verify(tmp_path).findings}
    assert "log-body-crc" in kinds
    assert "log-body-compression" not in kinds


def test_bodies_that_decompress_are_no_finding(tmp_path):
    pytest.importorskip("lz4.frame", reason="needs lz4, from the extra 'codecs'")
    pytest.importorskip("zstandard", reason="needs zstandard, from the extra 'codecs'")
    with open_store(tmp_path) as store:
        for codec in ("zlib", "lz4", "zstd"):
            for n in range(200):
                raw, flags = compress(SOUND * (n + 1), codec)
                store.put_message(Message("T", raw, sys_flag=flags, queue_id=0))
        store.put_message(Message("T", b"", sys_flag=COMPRESSED, queue_id=0))
    for options in ({}, {"quick": True}, {"threads": 3}):
        assert rocketstore.verify(tmp_path, **options).findings == []

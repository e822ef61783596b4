"""Message: made by hand and as it was read, bodies decompressed, inner batches decoded, shown to people."""

import pickle
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from copy import deepcopy

import pytest
from reference.commit_log import make_commit_log
from reference.record import message_id, parse_message_id
from support import stores
from support.logs import open_golden

from rocketstore import CommitLog, CorruptFileError, Message
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, ON_REQUEST
from rocketstore.messages.compression import decompress
from rocketstore.messages.message import inner_messages

lz4 = pytest.importorskip("lz4.frame", reason="needs lz4, from the extra 'codecs'")
zstandard = pytest.importorskip("zstandard", reason="needs zstandard, from the extra 'codecs'")
ZLIB_OLD, LZ4, ZSTD, ZLIB = 0x001, 0x101, 0x201, 0x301
BODY = b"a body of some words, some words twice" * 20


def zstd_stream(data):
    """As Java's stream writer makes it: no content size, no checksum."""
    writer = zstandard.ZstdCompressor(write_content_size=False, write_checksum=False).compressobj()
    return writer.compress(data) + writer.flush()


def lz4_frame(data):
    """As lz4-java makes it: independent blocks of 4 MB at most, no checksums, no content size."""
    writer = lz4.LZ4FrameCompressor(block_size=lz4.BLOCKSIZE_MAX4MB, block_linked=False)
    return writer.begin() + writer.compress(data) + writer.flush()


PACKERS = {ZLIB_OLD: zlib.compress, LZ4: lz4_frame, ZSTD: zstd_stream, ZLIB: zlib.compress}
flags = pytest.mark.parametrize("sys_flag", PACKERS, ids=["type 0", "lz4", "zstd", "zlib"])


def read_back(tmp_path, **fields):
    """Write one record and read it."""
    (offset,) = make_commit_log(tmp_path, 1 << 16, [fields])
    with CommitLog.open(tmp_path) as log:
        return log.get_message(offset)


# ---- made by hand ------------------------------------------------------------------------------------------


def test_a_new_message_has_what_it_was_given_and_defaults():
    before = time.time_ns() // 1_000_000
    message = Message("T", b"body")
    assert (message.topic, message.raw_body, message.body) == ("T", b"body", b"body")
    assert (message.queue_id, message.flag, message.sys_flag) == (None, 0, 0)
    assert (message.keys, message.tags, message.uniq_key, message.properties) == ([], None, None, {})
    assert message.delay_time_level == 0
    assert message.born_host == "127.0.0.1:0"
    assert before <= message.born_timestamp <= time.time_ns() // 1_000_000


def test_keys_tags_and_delay_become_properties_after_those_given():
    given = {"z": "1", "a": "2"}
    message = Message(
        "T",
        b"",
        keys=["k1", "k2"],
        tags="TagA",
        properties=given,
        delay_time_level=3,
        queue_id=5,
        flag=7,
        sys_flag=8,
        born_timestamp=9,
        born_host="[::1]:2",
    )
    assert list(message.properties.items()) == [
        ("z", "1"), ("a", "2"), ("KEYS", "k1 k2"), ("TAGS", "TagA"), ("DELAY", "3"),
    ]  # fmt: skip
    assert given == {"z": "1", "a": "2"}
    assert (message.keys, message.tags, message.delay_time_level) == (["k1", "k2"], "TagA", 3)
    assert (message.queue_id, message.flag, message.sys_flag) == (5, 7, 8)
    assert (message.born_timestamp, message.born_host) == (9, "[::1]:2")


@pytest.mark.parametrize(
    ("stored", "level"), [("3", 3), ("+3", 3), ("-1", -1), ("0018", 18), ("2147483647", 2**31 - 1), ("٣", 3)]
)
def test_a_delay_level_is_read_as_java_reads_a_number(stored, level):
    assert Message("T", b"", properties={"DELAY": stored}).delay_time_level == level


@pytest.mark.parametrize("level", ["x", "3", 1.5])
def test_a_delay_time_level_that_is_no_integer_is_refused(level):
    """The property that was made of it could not be read again."""
    with pytest.raises(TypeError):
        Message("T", b"", delay_time_level=level)


@pytest.mark.parametrize("stored", ["x", "\x13", " 3", "3_0", "2147483648", "3\x00KEYS"])
def test_a_delay_level_that_is_no_number_says_where(stored, tmp_path):
    message = read_back(tmp_path, topic="T", properties={"DELAY": stored})
    with pytest.raises(CorruptFileError, match=r"DELAY.*is no number"):
        message.delay_time_level  # noqa: B018
    with pytest.raises(ValueError, match=r"DELAY.*is no number"):
        Message("T", b"", properties={"DELAY": stored}).delay_time_level  # noqa: B018


def test_one_key_may_be_a_string():
    assert Message("T", b"", keys="one").keys == ["one"]
    assert Message("T", b"", keys=(word for word in ("a", "b"))).properties == {"KEYS": "a b"}


@pytest.mark.parametrize(
    ("stored", "keys"),
    [
        ("a  b c ", ["a", "b", "c"]),
        (" ", []),
        ("a\tb c", ["a\tb", "c"]),
        ("\u00a0x", ["\u00a0x"]),
        ("题 é", ["题", "é"]),
    ],
)
def test_keys_are_parted_by_single_spaces_and_empty_ones_dropped(stored, keys, tmp_path):
    assert Message("T", b"", properties={"KEYS": stored}).keys == keys
    (offset,) = make_commit_log(tmp_path, 4096, [{"properties": {"KEYS": stored}}])
    with CommitLog.open(tmp_path) as log:
        assert log.get_message(offset).keys == keys
        assert log.get_messages([offset])[0].keys == keys


def test_a_field_that_a_new_message_cannot_have_is_an_attribute_error():
    message = Message("T", b"")
    for name in ("phy_offset", "size", "store_host", "store_timestamp", "queue_offset", "msg_id", "body_crc"):
        with pytest.raises(AttributeError, match="not among the columns that were read"):
            getattr(message, name)
    with pytest.raises(AttributeError, match="there is no such field"):
        message.nothing  # noqa: B018
    assert not hasattr(message, "phy_offset")


def test_a_message_can_be_copied_and_pickled(tmp_path):
    message = read_back(tmp_path, topic="T", body=zlib.compress(BODY), sys_flag=1, properties={"KEYS": "k"})
    for twin in (pickle.loads(pickle.dumps(message)), deepcopy(message)):
        assert twin.to_dict() == message.to_dict()
        assert twin.body == BODY


# ---- as it was read ----------------------------------------------------------------------------------------


def test_properties_keep_the_order_of_the_record(tmp_path):
    items = [("z", "1"), ("KEYS", "k"), ("a", "2"), ("TAGS", "t"), ("UNIQ_KEY", "U")]
    message = read_back(tmp_path, properties=dict(items))
    assert list(message.properties.items()) == items
    assert (message.keys, message.tags, message.uniq_key) == (["k"], "t", "U")


@pytest.mark.parametrize("columns", [["topic"], ["phy_offset", "keys"], ["body"], ["tags", "uniq_key"]])
def test_a_column_that_was_not_read_is_an_attribute_error_that_says_so(columns, tmp_path):
    (offset,) = make_commit_log(tmp_path, 4096, [{"properties": {"KEYS": "k", "TAGS": "t"}}])
    with CommitLog.open(tmp_path) as log:
        batch = log.get_messages([offset], columns=columns)
    message = batch[0]
    assert list(message.to_dict()) == [MESSAGE_FIELDS[name].name for name in MESSAGE_FIELDS if name in columns]
    if columns == ["body"]:
        assert message.raw_body == message.body == b"body"
    for name in ("queue_id", "properties", "store_host", *(["raw_body"] if columns != ["body"] else [])):
        with pytest.raises(AttributeError, match="not among the columns that were read"):
            getattr(message, name)
        with pytest.raises(AttributeError, match="not among the columns that were read"):
            getattr(batch, name)
    assert {name for name in columns if hasattr(message, name)} == set(columns)


@pytest.mark.parametrize(("store_host", "length"), [("127.0.0.1:10911", 32), ("[fe80::abcd]:10911", 56)])
def test_an_offset_msg_id_is_upper_case_and_of_32_or_56_characters(store_host, length, tmp_path):
    """Corner 25."""
    message = read_back(tmp_path, topic="T", store_host=store_host)
    assert len(message.msg_id) == length
    assert message.msg_id == message.msg_id.upper()
    pair, phy_offset = parse_message_id(message.msg_id)
    assert message_id(pair, phy_offset) == message.msg_id
    assert (message.store_host, phy_offset) == (store_host, message.phy_offset)


def test_the_worked_offset_msg_id_of_a_place_far_in_a_log(tmp_path):
    make_commit_log(tmp_path, 4096, [{"store_host": "10.0.0.1:10911"}], first_offset=1 << 40)
    with CommitLog.open(tmp_path) as log:
        assert log.get_message(1 << 40).msg_id == "0A00000100002A9F0000010000000000"


def test_a_uniq_key_of_56_characters_is_read(tmp_path):
    """Corner 26."""
    uniq_key = "FE80000000000000000000000000ABCD" + "0" * 24
    assert read_back(tmp_path, properties={"UNIQ_KEY": uniq_key}).uniq_key == uniq_key


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("[::ffff:1.2.3.4]:1", "[::ffff:1.2.3.4]:1"),
        ("[::]:0", "[::]:0"),
        ("255.255.255.255:-1", "255.255.255.255:-1"),
        ("[2001:db8:0:0:1::1]:9", "[2001:db8::1:0:0:1]:9"),
    ],
)
def test_hosts_of_every_kind_are_shown_the_same_in_a_message_and_in_a_column(host, shown, tmp_path):
    (offset,) = make_commit_log(tmp_path, 4096, [{"born_host": host, "store_host": host}])
    with CommitLog.open(tmp_path) as log:
        message, row = log.get_message(offset), log.get_messages([offset])[0]
    assert message.born_host == row.born_host == message.store_host == row.store_host == shown
    assert message.msg_id == row.msg_id


def test_to_dict_has_the_names_of_tables_in_their_order(tmp_path):
    message = read_back(tmp_path, topic="T", body=b"B", properties={"TAGS": "t"}, queue_id=3)
    table = message.to_dict()
    assert list(table) == [field.name for name, field in MESSAGE_FIELDS.items() if name not in ON_REQUEST]
    assert (table["topic"], table["queueId"], table["tags"], table["body"]) == ("T", 3, "t", b"B")
    assert (table["keys"], table["uniqKey"], table["properties"]) == ([], None, {"TAGS": "t"})
    assert table["msgId"] == message.msg_id


# ---- shown -------------------------------------------------------------------------------------------------


def test_repr_says_which_message_it_is(tmp_path):
    message = read_back(tmp_path, topic="T", body=b"12345", queue_id=2, queue_offset=7)
    assert repr(message) == "<Message 'T', queue 2 at 7, 5 bytes>"
    assert repr(Message("T", b"")) == "<Message 'T', 0 bytes>"
    assert repr(Message.of_fields({"queue_id": 1})) == "<Message None>"
    assert repr(Message("T", None)) == "<Message 'T'>"


HOSTILE = "<script>alert('x')</script>&\"\x1b[31m"


def test_the_card_escapes_hostile_text(tmp_path):
    message = read_back(tmp_path, topic=HOSTILE, body=HOSTILE.encode(), properties={"KEYS": HOSTILE, HOSTILE: HOSTILE})
    card = message._repr_html_()
    assert "<script" not in card
    assert "&lt;script&gt;" in card
    tags = {part.partition(">")[0].strip("/").split()[0] for part in card.split("<")[1:]}
    assert tags == {"p", "table", "thead", "tbody", "tr", "th", "td"}


def test_the_card_shows_times_and_the_beginning_of_a_long_body(tmp_path):
    card = read_back(tmp_path, body=b"x" * 300, store_timestamp=1_700_000_000_001)._repr_html_()
    assert "2023-11-14 22:13:20.001+00:00" in card
    assert "x" * 200 + "…" in card
    assert "x" * 201 not in card


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63), 253402300800000, -62135596800001])
def test_the_card_shows_a_time_that_no_calendar_has_as_a_number(timestamp, tmp_path):
    assert str(timestamp) in read_back(tmp_path, store_timestamp=timestamp)._repr_html_()


def test_the_card_of_a_message_whose_body_does_not_decompress_shows_the_rest(tmp_path):
    message = read_back(tmp_path, topic="Broken", body=b"no zlib", sys_flag=1)
    assert "Broken" in message._repr_html_()
    assert repr(message) == "<Message 'Broken', queue 0 at 0, 7 bytes>"


# ---- bodies ------------------------------------------------------------------------------------------------


@flags
def test_each_compression_is_undone(sys_flag, tmp_path):
    """Corner 24."""
    raw = PACKERS[sys_flag](BODY)
    assert decompress(raw, sys_flag) == BODY
    message = read_back(tmp_path, body=raw, sys_flag=sys_flag)
    assert (message.body, message.raw_body) == (BODY, raw)


def test_the_formats_of_the_compressed_bytes_are_rocketmq_s():
    assert zlib.compress(b"x", 5)[:2] == b"\x78\x5e"
    assert lz4_frame(b"x")[:7] == bytes.fromhex("04224d18607073")
    assert zstd_stream(b"x")[:4] == bytes.fromhex("28b52ffd")
    assert zstd_stream(b"x")[4] == 0


@pytest.mark.parametrize(
    ("codec", "sys_flag", "head"),
    [("zlib", ZLIB, "785e"), ("lz4", LZ4, "04224d18607073"), ("zstd", ZSTD, "28b52ffd00")],
)
def test_a_message_is_made_with_its_body_compressed(codec, sys_flag, head, tmp_path):
    message = Message("T", BODY, compress=codec, sys_flag=0x4 | 0x701)  # as of one that was read, and compressed
    assert message.sys_flag == sys_flag | 0x4
    assert message.raw_body.hex().startswith(head)
    assert message.body == BODY
    with CommitLog.open(tmp_path, "a", mapped_file_size=1 << 16) as log:
        log.append(message)
        log.append(Message("T", b"", compress=codec))
    with CommitLog.open(tmp_path) as log:
        put, empty = (message for batch in log.scan(columns=["body", "raw_body", "sys_flag"]) for message in batch)
    assert (put.body, put.raw_body, put.sys_flag) == (BODY, message.raw_body, message.sys_flag)
    with CommitLog.open(tmp_path) as log:
        (got,) = log.get_messages([0])
        assert (got.raw_body, got.body, got.raw_body) == (message.raw_body, BODY, message.raw_body)
        scanned = next(iter(log.scan()))[0]
        assert scanned.body == BODY
        with pytest.raises(AttributeError, match="not among the columns"):  # these are decompressed
            _ = scanned.raw_body
    assert empty.body == b""


def test_a_codec_that_there_is_not_is_an_error():
    with pytest.raises(ValueError, match="compress='gzip': must be one of zlib, lz4, zstd"):
        Message("T", b"", compress="gzip")


@flags
def test_an_empty_body_has_nothing_to_undo(sys_flag):
    assert decompress(b"", sys_flag) == b""
    assert decompress(PACKERS[sys_flag](b""), sys_flag) == b""


def test_a_body_without_the_compressed_bit_is_left_whatever_its_type():
    for kind in range(8):
        assert decompress(b"any bytes", kind << 8) == b"any bytes"


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_types_4_to_7_are_an_error_when_the_body_is_wanted_and_only_then(kind, tmp_path):
    """Corner 24."""
    message = read_back(tmp_path, topic="T", body=b"raw", sys_flag=1 | kind << 8)
    assert (message.topic, message.raw_body) == ("T", b"raw")
    with pytest.raises(CorruptFileError, match=f"there is no compression type {kind}") as error:
        message.body  # noqa: B018
    assert error.value.field == "sysFlag"


@flags
def test_every_cut_of_a_compressed_body_is_an_error(sys_flag):
    raw = PACKERS[sys_flag](BODY[:60])
    for n in range(1, len(raw)):
        if sys_flag == ZLIB_OLD and zlib_has_all(raw[:n]):
            continue
        with pytest.raises(CorruptFileError, match="does not decompress"):
            decompress(raw[:n], sys_flag)


def zlib_has_all(raw):
    decoder = zlib.decompressobj()
    decoder.decompress(raw)
    return decoder.eof


@flags
def test_garbage_is_an_error_that_says_where(sys_flag):
    for raw in (b"\0", b"garbage" * 9, b"\xff" * 100, PACKERS[sys_flag](BODY)[::-1]):
        with pytest.raises(CorruptFileError, match=r"does not decompress with (zlib|lz4|zstd)") as error:
            decompress(raw, sys_flag, 4711)
        assert (error.value.offset, error.value.field) == (4711, "body")


@pytest.mark.parametrize("sys_flag", [LZ4, ZSTD])
def test_several_frames_are_one_body(sys_flag):
    pack = PACKERS[sys_flag]
    assert decompress(pack(b"one ") + pack(b"") + pack(b"two"), sys_flag) == b"one two"
    with pytest.raises(CorruptFileError, match="does not decompress"):
        decompress(pack(b"one ") + pack(b"two")[:-1], sys_flag)
    with pytest.raises(CorruptFileError, match="does not decompress"):
        decompress(pack(b"one ") + b"garbage", sys_flag)


@pytest.mark.parametrize("sys_flag", [LZ4, ZSTD])
def test_the_cap_holds_over_several_frames(sys_flag):
    raw = PACKERS[sys_flag](bytes(600)) * 3
    assert decompress(raw, sys_flag, max_size=1800) == bytes(1800)
    with pytest.raises(CorruptFileError, match="is more than 1,799 bytes"):
        decompress(raw, sys_flag, max_size=1799)


@pytest.mark.parametrize("sys_flag", [LZ4, ZSTD])
def test_a_body_of_100_frames_is_read_and_one_of_more_is_refused_before_it_takes_long(sys_flag):
    frame = PACKERS[sys_flag](b"")
    assert decompress(PACKERS[sys_flag](b"x") * 100, sys_flag) == b"x" * 100
    begin = time.process_time()
    with pytest.raises(CorruptFileError, match="more than 100 frames"):
        decompress(frame * 300_000, sys_flag)
    assert time.process_time() - begin < 2  # a copy of the rest for each frame would take minutes


@flags
def test_the_cap_is_exact_and_names_what_still_works(sys_flag):
    raw = PACKERS[sys_flag](bytes(10_000))
    assert decompress(raw, sys_flag, max_size=10_000) == bytes(10_000)
    advice = "read the columns raw_body and sys_flag"
    with pytest.raises(CorruptFileError, match=f"more than 9,999 bytes when decompressed: {advice}"):
        decompress(raw, sys_flag, max_size=9_999)


BOMB = """
import resource, sys
from rocketstore.errors import CorruptFileError
from rocketstore.messages.compression import decompress
raw, sys_flag = open(sys.argv[1], "rb").read(), int(sys.argv[2])
decompress(raw[:0], sys_flag)
try:
    decompress(b"x", sys_flag)
except CorruptFileError:
    pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(raw, sys_flag)
except CorruptFileError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error.reason)
"""


@pytest.mark.parametrize("sys_flag", [ZLIB_OLD, LZ4, ZSTD], ids=["zlib", "lz4", "zstd"])
def test_a_bomb_stops_at_64_mib(sys_flag, tmp_path):
    raw = pack_zeros(sys_flag, 512)
    assert len(raw) < 4 << 20
    (tmp_path / "bomb").write_bytes(raw)
    shown = subprocess.run(
        [sys.executable, "-c", BOMB, tmp_path / "bomb", str(sys_flag)], capture_output=True, text=True, check=True
    ).stdout
    grown, _, reason = shown.partition(" ")
    assert "is more than 67,108,864 bytes" in reason
    unit = 1024 if sys.platform == "darwin" else 1
    assert int(grown) / unit < 320 << 10  # KiB: the cap a few times over, as buffers double and are joined


def pack_zeros(sys_flag, mib):
    """Compress that many MiB of zeros as one stream."""
    if sys_flag == LZ4:
        writer = lz4.LZ4FrameCompressor(block_size=lz4.BLOCKSIZE_MAX4MB)
        return writer.begin() + b"".join(writer.compress(bytes(1 << 20)) for _ in range(mib)) + writer.flush()
    writer = zstandard.ZstdCompressor().compressobj() if sys_flag == ZSTD else zlib.compressobj(9)
    return b"".join(writer.compress(bytes(1 << 20)) for _ in range(mib)) + writer.flush()


def test_a_small_cap_takes_little_memory():
    raw = pack_zeros(ZLIB, 32)
    tracemalloc.start()
    with pytest.raises(CorruptFileError):
        decompress(raw, ZLIB, max_size=1000)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(("sys_flag", "module"), [(LZ4, "lz4.frame"), (ZSTD, "zstandard")])
def test_a_missing_codec_says_which_extra_has_it(sys_flag, module, monkeypatch, tmp_path):
    message = read_back(tmp_path, body=PACKERS[sys_flag](BODY), sys_flag=sys_flag)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "rocketstore\[codecs\]"'):
        message.body  # noqa: B018
    assert decompress(zlib.compress(BODY), ZLIB) == BODY
    assert message.raw_body == PACKERS[sys_flag](BODY)


# ---- inner batches -----------------------------------------------------------------------------------------


def encode_inner(messages):
    """MessageBatch.encode: (flag, body, properties as bytes) of each message."""
    return b"".join(
        struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, flag, len(body))
        + body + struct.pack(">h", len(properties)) + properties
        for flag, body, properties in messages
    )  # fmt: skip


INNER = [(1, b"first", b"KEYS\x01k1\x02TAGS\x01a\x02"), (-2, b"", b""), (3, b"third", b"UNIQ_KEY\x01U")]


def batch_message(tmp_path, body, **fields):
    properties = {"INNER_NUM": "3", "INNER_BASE": "40", "UNIQ_KEY": "outer"} | fields.pop("properties", {})
    return read_back(
        tmp_path,
        topic="B",
        body=body,
        sys_flag=0xC0 | fields.pop("sys_flag", 0),
        properties=properties,
        queue_id=6,
        **fields,
    )


def test_an_inner_batch_is_decoded_with_queue_offsets_from_its_base(tmp_path):
    outer = batch_message(tmp_path, encode_inner(INNER))
    messages = outer.decode_batch()
    assert [m.queue_offset for m in messages] == [40, 41, 42]
    assert [(m.flag, m.body, m.raw_body) for m in messages] == [
        (1, b"first", b"first"),
        (-2, b"", b""),
        (3, b"third", b"third"),
    ]
    assert [(m.keys, m.tags, m.uniq_key) for m in messages] == [(["k1"], "a", None), ([], None, None), ([], None, "U")]
    for name in ("topic", "queue_id", "phy_offset", "born_host", "store_host", "born_timestamp", "store_timestamp"):
        assert {getattr(m, name) for m in messages} == {getattr(outer, name)}
    assert outer.properties["INNER_NUM"] == "3"


@flags
def test_a_compressed_inner_batch_is_decompressed_once(sys_flag, tmp_path):
    outer = batch_message(tmp_path, PACKERS[sys_flag](encode_inner(INNER)), sys_flag=sys_flag)
    messages = outer.decode_batch()
    assert [m.body for m in messages] == [b"first", b"", b"third"]
    assert [m.sys_flag & 1 for m in messages] == [0, 0, 0]


def test_an_empty_batch_has_no_messages(tmp_path):
    assert batch_message(tmp_path, b"").decode_batch() == []


@pytest.mark.parametrize("base", ["abc", "", "9223372036854775808", "1_0", " 1", "-", "1" * 5000])
def test_a_first_queue_offset_that_is_no_number_is_corrupt(base, tmp_path):
    message = batch_message(tmp_path, encode_inner(INNER), properties={"INNER_BASE": base or "x"})
    with pytest.raises(CorruptFileError):
        message.decode_batch()


@pytest.mark.parametrize(
    ("text", "number"),
    [("+7", 7), ("-7", -7), (f"{2**63 - 1}", 2**63 - 1), (f"-{2**63}", -(2**63)), ("0" * 5000 + "7", 7), ("\u0667", 7)],
)
def test_a_first_queue_offset_is_any_number_that_java_reads(text, number, tmp_path):
    message = batch_message(tmp_path, encode_inner(INNER), properties={"INNER_BASE": text})
    assert [inner.queue_offset for inner in message.decode_batch()] == [number, number + 1, number + 2]


def test_every_cut_of_a_batch_but_between_messages_is_corrupt(tmp_path):
    body = encode_inner(INNER)
    ends = [len(encode_inner(INNER[:n])) for n in range(4)]
    for n in range(len(body)):
        message = Message.of_fields(
            {"properties": {}, "queue_offset": 0, "phy_offset": 9, "raw_body": body[:n], "sys_flag": 0}
        )
        if n in ends:
            assert len(message.decode_batch()) == ends.index(n)
            continue
        with pytest.raises(CorruptFileError, match="no message of a batch is at byte") as error:
            message.decode_batch()
        assert (error.value.offset, error.value.field) == (9, "body")


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, -1),
        (0, 0),
        (0, 2**31 - 1),
        (0, 21),
        (16, -1),
        (16, -(2**31)),
        (16, 2**31 - 1),
        (16, 6),
        (16, 4),
    ],
)
def test_a_wrong_size_or_length_in_a_batch_is_corrupt(at, value):
    body = bytearray(encode_inner(INNER))
    struct.pack_into(">i", body, at, value)
    message = Message.of_fields(
        {"properties": {}, "queue_offset": 0, "phy_offset": 0, "raw_body": bytes(body), "sys_flag": 0}
    )
    with pytest.raises(CorruptFileError):
        message.decode_batch()


def test_a_negative_properties_length_in_a_batch_is_corrupt():
    body = struct.pack(">iiiii", 21, 0, 0, 0, 0) + struct.pack(">h", -1)
    message = Message.of_fields({"properties": {}, "queue_offset": 0, "phy_offset": 0, "raw_body": body, "sys_flag": 0})
    with pytest.raises(CorruptFileError):
        message.decode_batch()


@pytest.mark.parametrize("name", ["batch-5.5.0", "batch-5.3.3"])
def test_the_inner_batches_of_a_golden_store_are_what_the_batch_queues_count(name, tmp_path):
    units = {row["offset"]: row for row in stores.dump(name)["bcq"]}
    rows = {row["physicalOffset"]: row for row in stores.dump(name)["message"] if row["sysFlag"] & 0x80}
    assert set(rows) <= set(units)
    assert rows
    with open_golden(name, stores.unpack(name, tmp_path)) as log:
        for offset, row in rows.items():
            outer, unit = log.get_message(offset), units[offset]
            messages = outer.decode_batch()
            assert len(messages) == unit["batchNum"] == row["dispatch"]["batchSize"]
            assert [m.queue_offset for m in messages] == list(range(unit["index"], unit["index"] + unit["batchNum"]))
            assert encode_inner([(m.flag, m.body, tail_of(m, outer.body)) for m in messages]) == outer.body
            assert all(m.topic == "BatchCqTopic" and m.queue_id == unit["queueId"] for m in messages)


def tail_of(message, body):
    """The properties of an inner message as they are in the body; they must be what the message has."""
    for last in ("\x02", ""):
        text = "".join(f"{name}\x01{value}\x02" for name, value in message.properties.items())
        text = (text[:-1] + last if text else "").encode()
        if struct.pack(">h", len(text)) + text in body:
            return text
    raise AssertionError(message.properties)


def test_each_plain_message_beside_inner_batches_has_a_unit_of_its_own(tmp_path):
    rows = {row["offset"]: row for row in stores.dump("batch-5.5.0")["bcq"]}
    with open_golden("batch-5.5.0", stores.unpack("batch-5.5.0", tmp_path)) as log:
        plain = [m for batch in log.scan(topic=["BatchCqTopic"]) for m in batch if not m.sys_flag & 0x80]
    assert [rows[m.phy_offset]["batchNum"] for m in plain] == [1] * len(plain)
    assert [rows[m.phy_offset]["index"] for m in plain] == [m.queue_offset for m in plain]


def test_a_batch_has_the_bodies_that_its_messages_have_now():
    first, second = Message("B", b"old"), Message("B", b"kept")
    assert second.body == b"kept"
    first.body = b"new one"
    batch = Message.batch("B", [first, second])
    assert batch.raw_body == encode_inner([(0, b"new one", b""), (0, b"kept", b"")])


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
def test_a_batch_has_bodies_that_are_not_compressed_since_nothing_in_it_says_so(codec):
    message = Message("B", BODY, compress=codec)
    assert message.raw_body != BODY
    for _ in range(2):
        assert Message.batch("B", [message]).raw_body == encode_inner([(0, BODY, b"")])
        assert message.body == BODY


def test_a_batch_that_was_read_is_batched_again(tmp_path):
    messages = batch_message(tmp_path, encode_inner(INNER)).decode_batch()
    messages[1].body = b"other"
    again = Message.batch("B", messages)
    assert [(flag, body) for flag, body, _ in inner_messages(again.body, 0)] == [
        (1, b"first"),
        (-2, b"other"),
        (3, b"third"),
    ]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (None, TypeError),
        (b"body", TypeError),
        (Message("B", b"", flag=2**31), ValueError),
        (Message("B", b"", flag=None), ValueError),
        (Message("B", 5), TypeError),
        (Message("B", None), TypeError),
        (Message("B", b"", properties={"a": "b" * 32765}), ValueError),
    ],
)
def test_what_cannot_be_in_a_batch_is_refused(message, error):
    with pytest.raises(error):
        Message.batch("B", [Message("B", b"x"), message])


def test_keys_that_were_removed_stay_removed():
    message = Message("T", b"", keys=["secret"])
    message.keys = None
    assert message.keys is None
    assert message.to_dict()["keys"] is None

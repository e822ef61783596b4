"""CommitLog: every message by offset, many at once and by id; all shapes a log's files can have."""

import errno
import itertools
import os
import pickle
import random
import string
import struct
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from reference.commit_log import make_commit_log, write_file
from reference.record import MAGIC_BLANK, MAGIC_V1, blank, build_record, message_id
from support import stores
from support.logs import ALL_COLUMNS, NUMBERS, golden_messages, offsets_of, open_golden, rows_of

import rocketstore
from rocketstore import CommitLog, CorruptFileError, MappedFile, PutMessageError, StoreClosedError, StoreError
from rocketstore.disk import file_run_reader, mapped_file
from rocketstore.disk.file_run_reader import MAX_MAPPED
from rocketstore.log.record_reader import SPAN
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.message_id import phy_offset_of

FILE = 4096


@pytest.fixture(scope="module", params=stores.NAMES)
def golden(request, tmp_path_factory):
    """The commit log of a golden store, and its messages as RocketMQ dumped them."""
    root = stores.unpack(request.param, tmp_path_factory.mktemp("golden"))
    with open_golden(request.param, root) as log:
        yield log, golden_messages(request.param, root)


@pytest.fixture
def no_mapping(monkeypatch):
    """A system that maps no file."""
    monkeypatch.setattr(mapped_file, "Mapping", refusing(errno.ENOMEM))


def refusing(code):
    def refused(*args, **options):
        raise OSError(code, os.strerror(code))

    return refused


def fields_of(message):
    return {name: getattr(message, name) for name in ALL_COLUMNS if hasattr(message, name)}


def make(directory, records, file_size=FILE, **options):
    """Write a log and open it: (log, offsets)."""
    offsets = make_commit_log(directory, file_size, records, **options)
    return CommitLog.open(directory, mapped_file_size=file_size), offsets


def some(n, **fields):
    return [{"body": b"body %d" % i, "properties": {"KEYS": f"k{i}"}, **fields} for i in range(n)]


# ---- golden stores -----------------------------------------------------------------------------------------


def test_a_scan_gives_every_field_of_every_message_as_rocketmq_read_it(golden):
    log, expected = golden
    rows = rows_of(log.scan(columns=ALL_COLUMNS, verify_crc=True))
    assert len(rows) == len(expected)
    for row, fields in zip(rows, expected, strict=True):
        assert row == fields
        assert list(row["properties"].items()) == list(fields["properties"].items())


def test_one_message_by_offset_has_every_field_as_rocketmq_read_it(golden):
    log, expected = golden
    asked = set(ALL_COLUMNS) - {"tags_code", "born_timestamp_ms", "store_timestamp_ms"}
    for fields in expected:
        message = log.get_message(fields["phy_offset"])
        assert {name: getattr(message, name) for name in asked} == {name: fields[name] for name in asked}
        assert list(message.properties.items()) == list(fields["properties"].items())


def test_many_messages_by_offset_have_every_field_as_rocketmq_read_it(golden, seed):
    log, expected = golden
    shuffled = random.Random(seed).choices(expected, k=2 * len(expected))
    batch = log.get_messages([fields["phy_offset"] for fields in shuffled], columns=ALL_COLUMNS, verify_crc=True)
    assert rows_of([batch]) == shuffled
    for i in (0, 1, len(batch) // 2, -1):
        assert fields_of(batch[i]) == shuffled[i]


def test_a_message_of_a_batch_is_the_message_by_offset(golden):
    log, _ = golden
    for batch in log.scan():
        for message in batch:
            alone = log.get_message(message.phy_offset)
            assert message.to_dict() == {name: value for name, value in alone.to_dict().items() if name != "rawBody"}


def test_the_range_of_a_golden_log_is_rocketmq_s(golden, request):
    log, expected = golden
    name = request.node.callspec.params["golden"]
    (row,) = stores.reads(name)["log"]
    assert (log.min_phy_offset, log.max_phy_offset) == (row["minPhyOffset"], row["maxPhyOffset"])
    assert log.last_phy_offset == expected[-1]["phy_offset"]


def test_the_store_time_of_a_place_is_the_record_s_and_minus_1_elsewhere(golden):
    log, expected = golden
    fields = expected[len(expected) // 2]
    place, size = fields["phy_offset"], fields["size"]
    assert log.pickup_store_timestamp(place, size) == fields["store_timestamp"]
    assert [log.pickup_store_timestamp(place + 1, size), log.pickup_store_timestamp(place, size + 1)] == [-1, -1]
    assert log.pickup_store_timestamp(log.max_phy_offset, size) == -1


def test_every_message_is_found_by_its_offset_message_id(golden):
    _, expected = golden
    for fields in expected:
        assert phy_offset_of(fields["msg_id"]) == fields["phy_offset"]


def test_the_delay_level_of_a_delayed_message_is_a_number():
    assert rocketstore.Message("T", b"", properties={"DELAY": "18"}).delay_time_level == 18


def test_reading_a_store_changes_no_byte_and_no_time(tmp_path):
    pytest.importorskip("lz4.frame", reason="needs lz4, from the extra 'codecs'")
    pytest.importorskip("zstandard", reason="needs zstandard, from the extra 'codecs'")
    root = stores.unpack("rich-5.5.0", tmp_path)
    for path in root.rglob("*"):
        os.utime(path, ns=(1_600_000_000_000_000_000, 1_600_000_000_123_456_789))
    before = snapshot(root)
    with open_golden("rich-5.5.0", root) as log:
        for threads in (1, 2):
            list(log.scan(threads=threads, verify_crc=True))
        log.get_message(log.last_phy_offset or 0)
        log.get_messages(offsets_of(log.scan(columns=["phy_offset"])))
        repr(log)
    assert snapshot(root) == before


def snapshot(root):
    return {
        path: (
            path.stat().st_mtime_ns,
            path.stat().st_mode,
            path.read_bytes() if path.is_file() else sorted(child.name for child in path.iterdir()),
        )
        for path in [root, *root.rglob("*")]
    }


def test_a_read_only_copy_can_be_read(tmp_path):
    root = stores.unpack("basic-5.5.0", tmp_path)
    paths = [root / "commitlog", *(root / "commitlog").iterdir()]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    with open_golden("basic-5.5.0", root) as log:
        assert sum(map(len, log.scan())) == len(stores.dump("basic-5.5.0")["message"])
    for path in paths:
        path.chmod(0o755)


# ---- columns -----------------------------------------------------------------------------------------------


def test_numbers_are_contiguous_arrays_of_their_width_that_own_their_memory(tmp_path):
    log, _ = make(tmp_path, some(5))
    (batch,) = log.scan(columns=ALL_COLUMNS)
    log.close()
    for name, dtype in NUMBERS.items():
        column = getattr(batch, name)
        assert (column.dtype, column.shape) == (np.dtype(dtype), (5,))
        assert column.flags.c_contiguous
    assert batch.topic.offsets.shape == (6,)
    assert batch.keys.values.offsets.shape == (6,)
    assert batch.properties.offsets.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.tags.valid.tolist() == [False] * 5
    assert batch[4].body == b"body 4"  # the log is closed, the batch is not


def test_a_batch_is_indexed_from_both_ends(tmp_path):
    log, offsets = make(tmp_path, some(3))
    (batch,) = log.scan(columns=["phy_offset", "keys"])
    assert [message.phy_offset for message in batch] == offsets
    assert (batch[-1].phy_offset, batch[-3].keys) == (offsets[2], ["k0"])
    for i in (3, -4):
        with pytest.raises(IndexError, match=f"message {i} of 3"):
            batch[i]
    assert batch.take([2, 0, 2]).phy_offset.tolist() == [offsets[i] for i in (2, 0, 2)]
    assert [m.keys for m in batch.take(np.array([2, 0]))] == [["k2"], ["k0"]]
    assert list(batch.select(["keys"]).columns) == ["keys"]
    assert repr(batch).splitlines()[:2] == ["<MessageBatch: 3 messages>", "phy_offset  keys"]


def test_a_slice_of_a_batch_is_a_batch_of_its_rows(tmp_path):
    log, offsets = make(tmp_path, some(5))
    (batch,) = log.scan(columns=["phy_offset", "keys", "body"])
    for rows in (slice(1, 3), slice(None), slice(-2, 99), slice(None, None, -2), slice(4, 1)):
        part = batch[rows]
        assert part.phy_offset.tolist() == offsets[rows]
        assert [(m.keys, m.body) for m in part] == [(m.keys, m.body) for m in [*batch][rows]]


def test_a_missing_row_or_column_of_a_batch_is_named(tmp_path):
    log, _ = make(tmp_path, some(3))
    (batch,) = log.scan(columns=["phy_offset", "keys"])
    with pytest.raises(ValueError, match="names: 'nope' is none of phy_offset, keys"):
        batch.select(["keys", "nope"])
    assert batch.select("keys").names == ("keys",)
    with pytest.raises(TypeError, match=r"a column is batch\.keys"):
        batch["keys"]


@pytest.mark.parametrize("columns", [["phy_offset"], ["keys"], ["properties"], ["topic", "body"]])
def test_only_rows_that_a_batch_has_are_taken(columns, tmp_path):
    log, _ = make(tmp_path, some(3))
    (batch,) = log.scan(columns=columns)
    for row in (-1, -2, 3):
        with pytest.raises(IndexError, match=f"row {row} of 3"):
            batch.take([0, row])
    for rows in ([True, False, True], [0.5]):
        with pytest.raises(TypeError, match="rows: integers were expected"):
            batch.take(rows)
    assert len(batch.take([])) == 0


def test_properties_that_decode_to_one_name_are_one_item_in_every_reading(tmp_path):
    log, (offset,) = make(tmp_path, [{"properties": b"\xff\x01b\x02x\x01y\x02\xfe\x01c\x02"}])
    expected = {"\ufffd": "c", "x": "y"}
    assert log.get_message(offset).properties == expected
    assert log.get_messages([offset])[0].properties == expected
    assert rows_of([log.get_messages([offset], columns=["properties"])])[0]["properties"] == expected


def test_properties_whose_names_are_alike_are_read_as_fast_as_others(tmp_path):
    pairs = [*itertools.product(string.ascii_letters + string.digits, repeat=2)]
    seconds = []
    for name in ("a{}{}a", "{0}{1}{0}{1}"):
        properties = {name.format(*pair): "v" for pair in pairs}
        log, offsets = make(tmp_path / name, [{"properties": properties}] * 40, 1 << 21)
        begin = time.process_time()
        found = log.get_messages(offsets, columns=["properties"])
        seconds.append(time.process_time() - begin)
        assert found[39].properties == properties
    assert seconds[0] < 10 * seconds[1]


def test_text_of_malformed_bytes_is_valid_utf_8_as_java_decodes_it(tmp_path):
    log, (offset,) = make(tmp_path, [{
        "topic": b"t\xed\xa0\x80\xc0\x80",
        "properties": b"KEYS\x01\xe4\xb8 a\x02TAGS\x01\xff\x02UNIQ_KEY\x01\xf0\x9f\x98\x02",
    }])  # fmt: skip
    for message in (log.get_message(offset), log.get_messages([offset])[0]):
        assert message.topic == "t\ufffd\ufffd\ufffd"
        assert (message.keys, message.tags, message.uniq_key) == (["\ufffd", "a"], "\ufffd", "\ufffd")


def test_a_topic_of_128_characters_and_properties_of_32767_bytes_are_read(tmp_path):
    properties = b"KEYS\x01" + b"k" * 32761 + b"\x02"
    log, (offset, short) = make(
        tmp_path, [{"topic": "t" * 128, "properties": properties}, {"topic": "s" * 127}], 1 << 16
    )
    assert log.get_message(offset).topic == "t" * 128
    assert log.get_message(offset).keys == ["k" * 32761]
    assert rows_of(log.scan(columns=["topic", "keys"])) == [
        {"topic": "t" * 128, "keys": ["k" * 32761]},
        {"topic": "s" * 127, "keys": []},
    ]
    assert log.get_message(short).topic == "s" * 127


def test_a_v1_topic_whose_length_byte_overflowed_ends_the_log_there(tmp_path):
    """Corner 6."""
    log, offsets = make(tmp_path, [{}, build_record(topic="题" * 100, phy_offset=len(build_record()))])
    assert log.max_phy_offset == offsets[1]
    assert offsets_of(log.scan()) == offsets[:1]
    with pytest.raises(CorruptFileError):
        log.get_message(offsets[1])


def test_messages_of_one_batch_share_their_store_time_and_have_queue_offsets_in_a_row(tmp_path):
    """Corner 29."""
    for name in ("batch-5.5.0", "batch-5.3.3"):
        with open_golden(name, stores.unpack(name, tmp_path)) as log:
            groups = {}
            for batch in log.scan():
                for message in batch:
                    groups.setdefault((message.topic, message.queue_id, message.store_timestamp), []).append(message)
        runs = [
            [m.queue_offset for m in group]
            for group in groups.values()
            if len(group) > 1 and not group[0].sys_flag & 0x80
        ]
        assert runs
        assert all(run == list(range(run[0], run[0] + len(run))) for run in runs if run[0] != run[-1])


@pytest.mark.parametrize("name", ["rich-5.5.0", "rich-5.3.3"])
def test_messages_of_each_transaction_type_are_read_with_the_queue_offsets_rocketmq_stored(name, tmp_path):
    """Corner 18."""
    kinds = {}
    with open_golden(name, stores.unpack(name, tmp_path)) as log:
        for batch in log.scan(columns=["sys_flag", "queue_offset", "topic"]):
            for message in batch:
                kinds.setdefault(message.sys_flag & 0xC, []).append(message)
    assert set(kinds) == {0x0, 0x4, 0x8, 0xC}
    assert {message.queue_offset for kind in (0x4, 0xC) for message in kinds[kind]} == {0}
    assert max(message.queue_offset for message in kinds[0x8]) > 0
    half = [message for message in kinds[0] if message.topic == "RMQ_SYS_TRANS_HALF_TOPIC"]
    assert half
    assert not [
        message for kind in (0x4, 0x8, 0xC) for message in kinds[kind] if message.topic == "RMQ_SYS_TRANS_HALF_TOPIC"
    ]


# ---- by offset ---------------------------------------------------------------------------------------------


def test_messages_come_in_the_order_asked_with_duplicates(tmp_path, seed):
    log, offsets = make(tmp_path, some(300))
    order = random.Random(seed).choices(range(300), k=1000)
    wanted = [offsets[i] for i in order]
    for asked in (wanted, np.array(wanted), np.array(wanted, np.int32), tuple(wanted)):
        batch = log.get_messages(asked, columns=["phy_offset", "keys", "body", "tags"])
        assert batch.phy_offset.tolist() == wanted
        assert [row["keys"] for row in rows_of([batch])] == [[f"k{i}"] for i in order]
        assert batch[999].body == b"body %d" % order[999]


def test_no_offsets_give_an_empty_batch(tmp_path):
    log, _ = make(tmp_path, some(3))
    for asked in ([], np.empty(0, np.int64)):
        batch = log.get_messages(asked)
        assert len(batch) == 0
        assert rows_of([batch]) == []


@pytest.mark.parametrize("offset", [-1, -(2**63), FILE * 9, 2**63 - 1])
def test_an_offset_outside_the_log_is_an_index_error(offset, tmp_path):
    log, offsets = make(tmp_path, some(3))
    with pytest.raises(IndexError, match="outside the commit log"):
        log.get_message(offset)
    with pytest.raises(IndexError, match=f"phy_offset {offset} is outside"):
        log.get_messages([offsets[0], offset])
    assert log.find_message(offset) is None


def test_an_offset_at_which_no_message_begins_is_corrupt_and_says_where(tmp_path):
    log, offsets = make(tmp_path, some(40), first_offset=FILE * 3)
    end = log.max_phy_offset
    for offset in (offsets[0] + 1, offsets[0] + 4, offsets[1] - 1, end, end + 8):
        for read in (log.get_message, lambda offset: log.get_messages([offsets[0], offset])):
            with pytest.raises(CorruptFileError) as error:
                read(offset)
            path = Path(error.value.path)
            assert path.parent == tmp_path
            assert int(path.name) + error.value.offset == offset
            assert error.value.reason
        assert log.find_message(offset) is None


@pytest.mark.parametrize("wrong", ["x", 1.5, None, [[0]], b"0"])
def test_offsets_that_are_none_are_a_type_or_value_error(wrong, tmp_path):
    log, _ = make(tmp_path, some(1))
    with pytest.raises((TypeError, ValueError)):
        log.get_message(wrong)
    with pytest.raises((TypeError, ValueError)):
        log.get_messages([wrong])
    with pytest.raises((TypeError, ValueError)):
        log.get_messages([2**63])


def test_a_masked_offset_is_none(tmp_path):
    log, offsets = make(tmp_path, some(2))
    with pytest.raises(ValueError, match=r"phy_offsets\[1\] is masked"):
        log.get_messages(np.ma.array(offsets, mask=[False, True]))
    assert len(log.get_messages(np.ma.array(offsets))) == 2


def test_a_body_that_does_not_decompress_is_an_error_only_where_bodies_are_selected(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    log, offsets = make(tmp_path, [{"body": b"no zlib", "sys_flag": 1}])
    batch = log.get_messages(offsets, columns=["phy_offset", "body"])
    assert batch.select(iter(["phy_offset"])).phy_offset.tolist() == offsets
    with pytest.warns(UserWarning, match="1 message has a body .* does not decompress"):
        table = batch.select(["phy_offset", "body"]).to_arrow()
    assert table.to_pylist() == [{"phyOffset": offsets[0], "body": None}]


def test_a_bad_body_is_null_though_the_file_of_the_message_has_expired(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    log, offsets = make(tmp_path, [{"body": b"no zlib", "sys_flag": 1}, *some(60)])
    batch = log.get_messages(offsets[:2], columns=["body"])
    (tmp_path / f"{0:020d}").unlink()
    log.refresh()
    bad_bodies = BadBodies()
    parts = [part.to_arrow()["body"].to_pylist() for part in log.reader.with_bodies(batch, 100, bad_bodies)]
    assert parts == [[None, b"body 0"]]
    assert (bad_bodies.count, bad_bodies.first[:10]) == (1, "commit log")


def test_times_beyond_a_long_are_refused(tmp_path):
    log, _ = make(tmp_path, some(1))
    for times in ({"since": -(2**63) - 1}, {"until": 2**63}):
        with pytest.raises(ValueError, match=f"{next(iter(times))}=.* is beyond int64"):
            log.scan(**times)
    assert sum(map(len, log.scan(since=-(2**63), until=2**63 - 1))) == 1


def test_an_unknown_column_is_named(tmp_path):
    log, offsets = make(tmp_path, some(1))
    with pytest.raises(ValueError, match="'nothing' is none of topic, "):
        log.get_messages(offsets, columns=["nothing"])
    with pytest.raises(ValueError, match="at least one"):
        log.get_messages(offsets, columns=[])


def test_a_body_with_a_wrong_crc_is_corrupt_where_it_is_read(tmp_path):
    log, offsets = make(tmp_path, [{"body": b"good"}, {"body": b"bad", "body_crc": 1}])
    assert log.get_message(offsets[1], verify_crc=False).body == b"bad"
    assert log.get_messages(offsets, verify_crc=False).body.to_pylist() == [b"good", b"bad"]
    assert log.get_messages(offsets, columns=["phy_offset"]).phy_offset.tolist() == offsets
    reads = [
        lambda: log.get_message(offsets[1]),
        lambda: log.get_messages(offsets),
        lambda: log.get_messages(offsets, columns=["phy_offset"], verify_crc=True),
        lambda: log.find_sound_message(offsets[1]),
        lambda: log.find_message(offsets[1]).body,
        lambda: log.find_messages(np.array(offsets))[0][1].body,
    ]
    for read in reads:
        with pytest.raises(CorruptFileError, match="is not the CRC of the body") as error:
            read()
        assert (error.value.offset, error.value.field) == (offsets[1], "bodyCrc")


def test_a_body_that_is_marked_is_none_has_its_error_and_cannot_be_put(tmp_path):
    log, offsets = make(tmp_path, [{"body": b"good"}, {"body": b"bad", "body_crc": 1}, {"body": b"fine"}])
    columns = ["topic", "body", "body_error", "phy_offset"]
    marked = log.find_messages(np.array(offsets), columns=columns)[0]
    assert [message.body_error for message in marked] == [None, "bodyCrc: is not the CRC of the body", None]
    with pytest.raises(PutMessageError, match="row 1: its body: bodyCrc"):
        marked.stored_columns()
    with pytest.raises(PutMessageError, match="bodyCrc"):
        list(marked.to_put())
    scan = log.scan(columns=columns).adapted(marks_crc=True, warns=False)
    for batch in (marked.take([2, 1, 0]), scan.head(3).take([2, 1, 0])):
        with warnings.catch_warnings(action="ignore"):
            assert batch.body.to_pylist() == [b"fine", None, b"good"]
        assert batch.body_error.to_pylist() == [None, "bodyCrc: is not the CRC of the body", None]
        assert batch.phy_offset.tolist() == offsets[::-1]


def test_a_record_whose_own_crc_is_wrong_has_no_body_where_that_is_verified(tmp_path):
    records = [{"body": b"%d" % i, "append_prop_crc": True} for i in range(3)]
    offsets = make_commit_log(tmp_path, FILE, records)
    with (tmp_path / f"{0:020d}").open("r+b") as file:
        file.seek(offsets[1] + 15)  # the queue id, which the CRC of the body does not cover
        file.write(b"\x07")
    with CommitLog.open(tmp_path, force_verify_prop_crc=True) as log:
        with pytest.raises(CorruptFileError, match="__CRC32#"):
            _ = log.find_message(offsets[1]).body
        batch = log.find_messages(np.array(offsets), columns=["body", "body_error"])[0]
        with pytest.warns(UserWarning, match="__CRC32#"):
            assert [error is None for error in batch.body_error] == [True, False, True]


def test_of_found_and_not_found_messages_the_statuses_tell(tmp_path):
    log, offsets = make(tmp_path, some(3))
    asked = np.array([offsets[2], offsets[1] + 1, offsets[0], -5, offsets[2]])
    batch, statuses = log.find_messages(asked, columns=["phy_offset"])
    assert batch.phy_offset.tolist() == [offsets[2], offsets[0], offsets[2]]
    assert (statuses != 0).tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("host", ["10.0.0.1:10911", "[fe80::1]:10911"])
def test_a_message_id_gives_its_offset_whatever_its_case(host, tmp_path):
    log, offsets = make(tmp_path, some(2, store_host=host))
    text = log.get_message(offsets[1]).msg_id
    assert phy_offset_of(text) == phy_offset_of(text.lower()) == offsets[1]


def test_a_batch_s_ids_joined_by_commas_are_each_an_id():
    """Corner 25."""
    ids = ",".join(message_id((b"\x7f\0\0\1", 10911), offset) for offset in (0, 117, 2**40))
    assert [phy_offset_of(text) for text in ids.split(",")] == [0, 117, 2**40]


@pytest.mark.parametrize(
    "text", ["", "00", "G" * 32, "0" * 31, "0" * 40, "0" * 57, " " * 32, "é" * 32, "0" * 30 + "\n0"]
)
def test_a_text_that_is_no_message_id_is_a_value_error(text):
    with pytest.raises(ValueError, match="is no message id"):
        phy_offset_of(text)


# ---- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_size", [512, 1000, 4096, 4097, 1 << 20])
def test_a_log_of_any_file_size_is_read_with_and_without_being_told(file_size, tmp_path):
    offsets = make_commit_log(tmp_path, file_size, some(60))
    for given in (file_size, None):
        with CommitLog.open(tmp_path, mapped_file_size=given) as log:
            assert log.mapped_file_size == file_size
            assert offsets_of(log.scan()) == offsets
            assert log.get_messages(offsets).phy_offset.tolist() == offsets
            assert log.max_phy_offset == offsets[-1] + log.get_message(offsets[-1]).size


def test_a_record_that_leaves_exactly_8_bytes_fits_and_the_blank_of_8_bytes_ends_the_file(tmp_path):
    """Corner 9."""
    body = bytes(FILE - 8 - len(build_record(body=b"")))
    log, offsets = make(tmp_path, [{"body": body}, {"body": b"next"}])
    assert offsets == [0, FILE]
    assert log.get_message(0).size == FILE - 8
    for threads in (1, 2):
        assert offsets_of(log.scan(threads=threads)) == offsets


@pytest.mark.parametrize("behind", [b"\xff", b"\xda\xa3\x20\xa7", build_record(phy_offset=300)])
def test_nothing_is_read_behind_the_8_bytes_of_a_blank(behind, tmp_path):
    """Corner 10."""
    record = build_record(phy_offset=0)
    rest = FILE - len(record)
    first = record + blank(rest)[:8] + (behind * rest)[: rest - 8]
    write_file(tmp_path, 0, first)
    write_file(tmp_path, FILE, build_record(phy_offset=FILE).ljust(FILE, b"\0"))
    with CommitLog.open(tmp_path) as log:
        assert offsets_of(log.scan()) == [0, FILE]
        assert log.max_phy_offset == FILE + len(record)


def test_files_of_only_a_blank_are_skipped(tmp_path):
    write_file(tmp_path, 0, blank(FILE))
    write_file(tmp_path, FILE, blank(FILE))
    with CommitLog.open(tmp_path) as log:
        assert (offsets_of(log.scan()), log.min_phy_offset, log.max_phy_offset) == ([], 0, 2 * FILE)
    write_file(tmp_path, 2 * FILE, build_record(phy_offset=2 * FILE).ljust(FILE, b"\0"))
    with CommitLog.open(tmp_path) as log:
        assert offsets_of(log.scan()) == [2 * FILE]


def test_a_batch_that_did_not_fit_is_whole_in_the_next_file(tmp_path):
    """Corner 12."""
    fill = FILE - 2 * len(build_record(body=b"")) - 100
    log, offsets = make(tmp_path, [{"body": bytes(fill)}, {"body": b"x" * 500}, {"body": b"y" * 500}])
    assert offsets[1:] == [FILE, FILE + len(build_record(body=b"x" * 500))]
    assert log.get_messages(offsets[1:]).phy_offset.tolist() == offsets[1:]


def test_the_first_record_of_an_emptied_log_is_at_0(tmp_path):
    log, offsets = make(tmp_path, some(1))
    assert (offsets, log.min_phy_offset) == ([0], 0)


@pytest.mark.parametrize("first", [FILE, FILE * 10, 1 << 40, (2**63 - 1) // FILE * FILE - FILE * 8])
def test_a_log_may_begin_anywhere(first, tmp_path):
    log, offsets = make(tmp_path, some(60), first_offset=first)
    assert log.min_phy_offset == first == offsets[0]
    assert offsets_of(log.scan()) == offsets
    assert offsets_of(log.scan(threads=2)) == offsets
    assert log.get_message(offsets[-1]).keys == ["k59"]
    with pytest.raises(IndexError):
        log.get_message(first - 1)


def test_several_directories_are_one_log(tmp_path):
    offsets = make_commit_log(tmp_path / "a", FILE, some(120))
    (tmp_path / "b").mkdir()
    (tmp_path / "c").mkdir()
    for i, path in enumerate(sorted((tmp_path / "a").iterdir())):
        if i % 3:
            path.rename(tmp_path / "abc"[i % 3] / path.name)
    paths = [tmp_path / name for name in ("c", "a", "b", "missing")]
    with CommitLog.open(paths) as log:
        assert offsets_of(log.scan()) == offsets
        assert log.directories == paths
        assert log.get_messages(offsets[::-1]).phy_offset.tolist() == offsets[::-1]
        assert offsets_of(pickle.loads(pickle.dumps(log)).scan()) == offsets


def test_of_two_files_with_one_name_the_first_directory_s_is_read(tmp_path):
    """Corner 98."""
    for name in ("a", "b"):
        make_commit_log(tmp_path / name, FILE, [{"body": name.encode()}])
    for first, second in ("ab", "ba"):
        with CommitLog.open([tmp_path / first, tmp_path / second]) as log:
            assert [batch[0].body for batch in log.scan()] == [first.encode()]


def test_a_directory_that_does_not_exist_is_an_error_unless_another_does(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        CommitLog.open(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        CommitLog.open([tmp_path / "nothing", tmp_path / "either"])
    with pytest.raises(ValueError, match="mode='w'"):
        CommitLog.open(tmp_path, "w")


def test_a_log_needs_a_directory():
    with pytest.raises(ValueError, match=r"directory=\[\]: at least one"):
        CommitLog.open([])


def test_an_empty_directory_is_an_empty_log(tmp_path):
    with CommitLog.open(tmp_path) as log:
        assert (log.min_phy_offset, log.max_phy_offset, log.last_phy_offset, log.mapped_file_size) == (0, 0, None, 0)
        assert list(log.scan()) == list(log.scan(threads=2)) == []
        assert len(log.get_messages([])) == 0
        for read in (log.get_message, lambda offset: log.get_messages([offset])):
            with pytest.raises(IndexError, match=f"{tmp_path}: phy_offset 0 is outside .*, which has no message"):
                read(0)
        assert "0 files" in repr(log)


def test_foreign_files_are_left_alone(tmp_path):
    offsets = make_commit_log(tmp_path, FILE, some(60))
    for name in (
        "notes.txt",
        "0",
        "1" * 19,
        "1" * 21,
        f"{FILE:020d}.bak",
        "\uff19" * 20,
        "-" + "0" * 19,
        "9" * 20,
        ".DS_Store",
    ):
        (tmp_path / name).write_bytes(b"\xff" * 100)
    (tmp_path / f"{FILE * 100:020d}").mkdir()
    with CommitLog.open(tmp_path) as log:
        assert offsets_of(log.scan()) == offsets
        assert len(log.file_run.files) == offsets[-1] // FILE + 1


@pytest.mark.parametrize("zeros", [1, 2])
def test_files_made_ahead_are_behind_the_end(zeros, tmp_path):
    offsets = make_commit_log(tmp_path, FILE, some(60))
    last = offsets[-1] // FILE
    for i in range(1, zeros + 1):
        write_file(tmp_path, (last + i) * FILE, bytes(FILE))
    with CommitLog.open(tmp_path) as log:
        assert offsets_of(log.scan()) == offsets
        assert log.max_phy_offset == offsets[-1] + log.get_message(offsets[-1]).size
        with pytest.raises(CorruptFileError, match="no message begins here"):
            log.get_message((last + 1) * FILE)


def test_a_file_of_length_0_at_the_end_is_behind_the_end(tmp_path):
    offsets = make_commit_log(tmp_path, FILE, some(60))
    write_file(tmp_path, (offsets[-1] // FILE + 1) * FILE, b"")
    with CommitLog.open(tmp_path) as log:
        assert offsets_of(log.scan()) == offsets
        assert log.max_phy_offset == offsets[-1] + log.get_message(offsets[-1]).size


def test_zeros_are_the_end_and_no_blank(tmp_path):
    """Corner 32."""
    write_file(tmp_path, 0, bytes(FILE))
    with CommitLog.open(tmp_path) as log:
        assert (log.max_phy_offset, list(log.scan())) == (0, [])
        assert log.last_phy_offset is None


def test_every_length_of_a_last_file_without_its_end_is_read_up_to_its_last_whole_record(tmp_path):
    offsets = make_commit_log(tmp_path, FILE, some(45))
    path = tmp_path / f"{FILE:020d}"
    data = path.read_bytes()
    size_of = int.from_bytes(data[:4], "big")
    begun = [offset for offset in offsets if offset >= FILE][2] - FILE
    for size in range(begun, begun + size_of + 20, 5):
        path.write_bytes(data[:size])
        whole = [offset for offset in offsets if offset < FILE or offset + size_of <= FILE + size]
        with CommitLog.open(tmp_path, mapped_file_size=FILE) as log:
            assert offsets_of(log.scan()) == offsets_of(log.scan(threads=2)) == whole, size
            assert log.max_phy_offset == whole[-1] + size_of


def test_a_blank_that_is_cut_still_ends_its_file(tmp_path):
    record = build_record()
    write_file(tmp_path, 0, record + blank(FILE - len(record))[:8])
    write_file(tmp_path, FILE, build_record(phy_offset=FILE).ljust(FILE, b"\0"))
    with CommitLog.open(tmp_path, mapped_file_size=FILE) as log:
        assert offsets_of(log.scan()) == [0, FILE]


def test_a_missing_file_in_the_middle_fails_only_reads_inside_it(tmp_path):
    """Corner 97."""
    offsets = make_commit_log(tmp_path, FILE, some(120))
    (tmp_path / f"{FILE:020d}").unlink()
    inside = [offset for offset in offsets if FILE <= offset < 2 * FILE]
    outside = [offset for offset in offsets if offset not in inside]
    with CommitLog.open(tmp_path, mapped_file_size=FILE) as log:
        assert log.get_messages(outside).phy_offset.tolist() == outside
        assert log.max_phy_offset == offsets[-1] + log.get_message(offsets[-1]).size
        for read in (log.get_message, lambda offset: log.get_messages([offset])):
            with pytest.raises(CorruptFileError, match=f"there is nothing from {inside[0]} to {2 * FILE}: a file"):
                read(inside[0])
        for threads in (1, 2):
            with pytest.raises(CorruptFileError, match="a file is missing"):
                list(log.scan(threads=threads))
            scan = log.scan(threads=threads, on_corrupt="skip")
            assert offsets_of(scan) == outside
            assert [(skip.begin, skip.end) for skip in scan.skipped] == [(FILE, 2 * FILE)]


@pytest.mark.parametrize("position", [1, 0, -1])
def test_an_illegal_magic_in_the_middle_is_an_error_and_at_the_end_the_end(position, tmp_path):
    """Corner 31."""
    log, offsets = make(tmp_path, some(20))
    path = tmp_path / f"{0:020d}"
    data = bytearray(path.read_bytes())
    place = offsets[position]
    data[place + 4 : place + 8] = b"\xde\xad\xbe\xef"
    path.write_bytes(data)
    if position == -1:
        assert offsets_of(log.scan()) == offsets[:-1]
        assert log.max_phy_offset == offsets[-1]
        return
    with pytest.raises(CorruptFileError, match="no message begins here") as error:
        list(log.scan())
    assert (error.value.path, error.value.offset, error.value.field) == (path, place, "magic")


def test_a_record_that_lies_about_its_place_is_no_record(tmp_path):
    log, offsets = make(tmp_path, [{}, {"phy_offset": 7}, {}])
    with pytest.raises(CorruptFileError, match="is not the place") as error:
        log.get_message(offsets[1])
    assert error.value.field == "physicalOffset"
    assert log.get_messages([offsets[2], offsets[0]]).phy_offset.tolist() == [offsets[2], 0]


@pytest.mark.parametrize("size", [0, -1, 7, FILE - 118, FILE * 2, 2**31 - 1])
def test_a_blank_whose_size_does_not_lead_to_the_end_of_its_file_is_corrupt_if_records_follow(size, tmp_path):
    record = build_record()
    write_file(tmp_path, 0, (record + struct.pack(">ii", size, MAGIC_BLANK)).ljust(FILE, b"\0"))
    write_file(tmp_path, FILE, build_record(phy_offset=FILE).ljust(FILE, b"\0"))
    with CommitLog.open(tmp_path) as log:
        if size > FILE - len(record):
            assert offsets_of(log.scan()) == [0, FILE]  # RocketMQ looks at the magic only
            return
        with pytest.raises(CorruptFileError) as error:
            list(log.scan())
        assert (error.value.offset, error.value.field) == (len(record), "size")
        assert offsets_of(log.scan(on_corrupt="skip")) == [0, FILE]


def test_a_wild_size_field_allocates_nothing(tmp_path):
    import tracemalloc

    write_file(tmp_path, 0, build_record(total_size=2**31 - 1).ljust(FILE, b"\0"))
    with CommitLog.open(tmp_path) as log:
        tracemalloc.start()
        assert log.find_message(0) is None
        assert log.find_messages(np.array([0]))[1].all()
        assert (list(log.scan()), log.max_phy_offset) == ([], 0)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


def test_a_store_of_more_files_than_are_mapped_at_once_is_read(tmp_path):
    log, offsets = make(tmp_path, some(MAX_MAPPED * 5), 512)
    assert len(log.file_run.files) > MAX_MAPPED
    for threads in (1, 2):
        assert offsets_of(log.scan(threads=threads)) == offsets
    assert log.get_messages(offsets[::-1]).phy_offset.tolist() == offsets[::-1]
    assert len(log.file_run._mappings) <= MAX_MAPPED


def test_a_file_that_is_cut_while_it_is_read_is_an_error_and_not_a_killed_process(tmp_path):
    log, offsets = make(tmp_path, some(60), 1 << 16)
    list(log.scan())
    log.get_message(offsets[-1])
    os.truncate(tmp_path / f"{0:020d}", 0)
    with pytest.raises((CorruptFileError, IndexError)):
        log.get_messages(offsets)
    assert offsets_of(log.scan()) == []


# ---- slices without a copy ---------------------------------------------------------------------------------


def test_a_selected_buffer_is_the_bytes_of_a_record_and_holds_its_mapping(tmp_path):
    log, offsets = make(tmp_path, some(60))
    place = offsets[-1]
    message = log.get_message(place)
    path = tmp_path / f"{place // FILE * FILE:020d}"
    mapped = MappedFile(path)
    result = mapped.select_mapped_buffer(place % FILE, message.size)
    assert (result.start_offset, result.size, result.file) == (place, message.size, mapped)
    assert result.view.readonly
    expected = path.read_bytes()[place % FILE :][: message.size]
    mapped.close()
    path.unlink()
    assert bytes(result.view) == expected
    assert struct.unpack_from(">ii", result.view) == (message.size, MAGIC_V1)


@pytest.mark.parametrize(
    ("pos", "size"), [(-1, 1), (0, FILE + 1), (FILE, 1), (FILE + 1, 0), (1, 2**31 - 1), (0, -1), (2**62, 2**62)]
)
def test_a_slice_that_a_file_has_not_is_none(pos, size, tmp_path):
    make_commit_log(tmp_path, FILE, some(1))
    mapped = MappedFile(tmp_path / f"{0:020d}")
    assert mapped.select_mapped_buffer(pos, size) is None
    assert mapped.select_mapped_buffer(FILE, 0).size == 0
    assert mapped.select_mapped_buffer(0, FILE).size == FILE
    mapped.close()
    with pytest.raises(StoreClosedError):
        mapped.select_mapped_buffer(0, 1)


# ---- where mapping is refused ------------------------------------------------------------------------------

BIG = [{"body": bytes([i]) * size} for i, size in enumerate([10, SPAN + 17, 20, 5 * SPAN, 30, SPAN - 120, SPAN, 40])]


def test_a_log_is_read_where_no_file_can_be_mapped(tmp_path, no_mapping):
    log, offsets = make(tmp_path, some(120))
    assert offsets_of(log.scan()) == offsets
    assert offsets_of(log.scan(threads=2)) == offsets
    assert log.get_message(offsets[77]).keys == ["k77"]
    assert log.get_messages(offsets[::-3]).phy_offset.tolist() == offsets[::-3]
    assert log.max_phy_offset == offsets[-1] + log.get_message(offsets[-1]).size
    assert log.find_message(offsets[1] + 1) is None


def test_records_longer_than_one_read_are_read_whole_where_no_file_can_be_mapped(tmp_path, no_mapping):
    log, offsets = make(tmp_path, BIG, 16 << 20)
    for options in ({}, {"threads": 2}, {"verify_crc": True}):
        rows = rows_of(log.scan(columns=["phy_offset", "body_crc", "body"], **options))
        assert [row["phy_offset"] for row in rows] == offsets
        assert all(zlib.crc32(row["body"]) & 0x7FFFFFFF == row["body_crc"] for row in rows)
    for offset, fields in zip(offsets, BIG, strict=True):
        assert log.get_message(offset).body == fields["body"]
    batch = log.get_messages(offsets[::-1], verify_crc=True)
    assert [m.body for m in batch] == [fields["body"] for fields in BIG[::-1]]
    assert log.max_phy_offset == offsets[-1] + log.get_message(offsets[-1]).size
    with pytest.raises(CorruptFileError):
        log.get_message(offsets[0] + 1)


def test_small_records_that_straddle_reads_are_all_found_where_no_file_can_be_mapped(tmp_path, no_mapping, seed):
    random_ = random.Random(seed)
    log, offsets = make(tmp_path, [{"body": bytes(random_.randrange(9000))} for _ in range(1000)], 8 << 20)
    assert offsets[-1] > 3 * SPAN
    assert offsets_of(log.scan(columns=["phy_offset"])) == offsets
    assert offsets_of(log.scan(columns=["phy_offset"], threads=2)) == offsets
    assert log.max_phy_offset == offsets[-1] + log.get_message(offsets[-1]).size
    middle = offsets[500]
    assert offsets_of(log.scan(middle + 1, columns=["phy_offset"])) == offsets[501:]


def test_another_error_of_the_system_is_not_hidden(tmp_path, monkeypatch):
    log, offsets = make(tmp_path, some(1))
    monkeypatch.setattr(mapped_file, "Mapping", refusing(errno.EIO))
    for read in (lambda: log.get_message(offsets[0]), lambda: list(log.scan()), lambda: log.get_messages(offsets)):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            read()


# ---- life --------------------------------------------------------------------------------------------------


def test_a_log_is_pickled_as_its_paths_and_options(tmp_path, monkeypatch):
    offsets = make_commit_log(tmp_path / "log", FILE, some(60))
    monkeypatch.chdir(tmp_path)
    with CommitLog.open("log", mapped_file_size=FILE, force_verify_prop_crc=True, message_delay_level="1s") as log:
        data = pickle.dumps(log.as_whole_to(5))
    monkeypatch.chdir("/")
    with pickle.loads(data) as twin:
        assert twin.reader.whole_to == 5
        assert offsets_of(twin.scan(columns=["phy_offset"])) == offsets
        assert twin.mapped_file_size == FILE
        with pytest.raises(CorruptFileError, match="is missing, or is not the CRC"):
            twin.get_messages(offsets[:1], verify_crc=True)


def test_a_closed_log_says_so_and_closes_again(tmp_path):
    log, offsets = make(tmp_path, some(3))
    scan = log.scan()
    message = log.get_message(offsets[0])
    with log:
        pass
    log.close()
    for use in (
        lambda: log.get_message(offsets[0]),
        lambda: log.find_message(offsets[0]),
        lambda: log.get_messages(offsets),
        lambda: log.get_messages([]),
        lambda: list(scan),
        lambda: list(log.scan(threads=2)),
        lambda: log.max_phy_offset,
        lambda: log.min_phy_offset,
        lambda: log.pickup_store_timestamp(offsets[0], 1),
    ):
        with pytest.raises(StoreClosedError, match="is closed"):
            use()
    assert "closed" in repr(log)
    assert message.body == b"body 0"


@pytest.mark.parametrize("mode", ["r+", "a"])
def test_nothing_is_appended_in_the_root_of_a_store(tmp_path, mode):
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(StoreError, match="is the root of a store: its log is"):
        CommitLog.open(tmp_path, mode, mapped_file_size=4096)
    assert list(tmp_path.iterdir()) == [tmp_path / "commitlog"]


def test_files_can_be_unlinked_and_directories_removed_while_a_log_is_open(tmp_path):
    log, offsets = make(tmp_path / "log", some(3))
    assert log.get_message(offsets[0]).body == b"body 0"
    (tmp_path / "log" / f"{0:020d}").unlink()
    assert log.min_phy_offset == 0
    with pytest.raises(IndexError):
        log.get_messages(offsets)
    (tmp_path / "log").rmdir()
    with pytest.raises(FileNotFoundError):
        list(log.scan())


def test_repr_says_where_and_how_much(tmp_path):
    log, offsets = make(tmp_path, some(60))
    end = offsets[-1] + log.get_message(offsets[-1]).size
    assert repr(log) == f"<CommitLog {str(tmp_path)!r}: 0 to {end:,} in {len(log.file_run.files)} files>"


def test_the_length_of_a_log_s_files_is_not_found_out_anew_for_each_of_them(tmp_path, monkeypatch):
    """Else a look at n files is n * n looks: with 1,000 of them, half a second for each read of a queue."""
    for number in range(100):
        (tmp_path / f"{1024 * number:020}").write_bytes(bytes(1024))
    asked, real = [], file_run_reader.pairwise
    monkeypatch.setattr(file_run_reader, "pairwise", lambda files: asked.append(len(files)) or real(files))
    with CommitLog.open(tmp_path) as log:
        assert log.max_phy_offset == 0
        assert list(log.scan()) == []
        assert log.mapped_file_size == 1024
    assert sum(asked) <= 1000


def test_half_written_records_are_judged_file_by_file(tmp_path):
    half = {"properties": b"KEYS\1k\2x\1\0\0\0"}
    for start in (0, 600):
        make_commit_log(tmp_path, 600, [half], first_offset=start)
    os.utime(tmp_path / f"{600:020}", (1_700_000_000, 1_700_000_000))
    log = CommitLog.open(tmp_path)
    for offsets in ([0, 600], [600, 0]):
        batch, statuses = log.find_messages(np.array(offsets, np.int64))
        assert batch.phy_offset.tolist() == [600]
        assert [status == 0 for status in statuses] == [offset == 600 for offset in offsets]

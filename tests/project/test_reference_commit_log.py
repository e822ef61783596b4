"""The oracle's reading of commit logs, against what RocketMQ's own classes read."""

import ipaddress

import pytest
from reference import record as records
from reference.commit_log import make_commit_log, read_files, scan, walk_file
from reference.record import blank, build_record, crc_of, message_id, parse_message_id, parse_properties, parse_record
from support import stores


def check_options(name):
    """How the dump parsed: with CRC, and by the property of it in the stores that verify that."""
    return {"force_verify_prop_crc": stores.settings(name).get("force_verify_prop_crc", False)}


@pytest.fixture(scope="module", params=stores.NAMES)
def golden(request, tmp_path_factory):
    """Name, commit log files and dump of a golden store."""
    root = stores.unpack(request.param, tmp_path_factory.mktemp("golden"))
    return request.param, read_files(root / "commitlog"), stores.dump(request.param)


def host_of(text):
    address, _, port = text.partition("|")
    return ipaddress.ip_address(address).packed, int(port)


def fields_of(row):
    """A dumped message in the words of the reference."""
    return {
        "total_size": row["totalSize"],
        "magic": int(row["magic"], 16) - 2**32,
        "body_crc": row["bodyCRC"],
        "queue_id": row["queueId"],
        "flag": row["flag"],
        "queue_offset": row["queueOffset"],
        "phy_offset": row["physicalOffset"],
        "sys_flag": row["sysFlag"],
        "born_timestamp": row["bornTimestamp"],
        "born_host": host_of(row["bornHost"]),
        "store_timestamp": row["storeTimestamp"],
        "store_host": host_of(row["storeHost"]),
        "reconsume_times": row["reconsumeTimes"],
        "prepared_transaction_offset": row["preparedTransactionOffset"],
        "body_length": row["bodyLength"],
        "topic": row["topic"],
        "properties": row["properties"],
        "msg_id": row["msgId"],
        "tags_code": row["dispatch"]["tagsCode"],
        "keys": row["dispatch"]["keys"],
        "uniq_key": row["dispatch"]["uniqKey"],
        "batch_size": row["dispatch"]["batchSize"],
        "msg_base_offset": row["dispatch"]["msgBaseOffset"],
    }


def test_every_field_of_every_record_is_what_rocketmq_read(golden):
    name, files, dump = golden
    found = [
        (start + position, parsed.record)
        for start, data in files.items()
        for position, parsed in walk_file(data, **check_options(name))
        if parsed.record
    ]
    assert [offset for offset, _ in found] == [row["at"] for row in dump["message"]]
    for (_, record), row in zip(found, dump["message"], strict=True):
        expected = fields_of(row)
        assert {field: getattr(record, field) for field in expected} == expected
        assert list(record.properties.items()) == list(row["properties"].items())
        assert crc_of(record.body) == row["bodyCrcComputed"]


def test_every_file_ends_where_rocketmq_stopped(golden):
    name, files, dump = golden
    ends = []
    for start, data in files.items():
        *_, (position, parsed) = walk_file(data, **check_options(name))
        kind = "blank" if parsed.success else "end"
        assert parsed in ((True, 0, None), (False, -1, None))
        size, magic = (int.from_bytes(data[position + n : position + n + 4], "big") for n in (0, 4))
        ends.append((kind, start + position, size, f"{magic:08x}"))
    rows = dump.get("blank", []) + dump["end"]
    expected = [(row["kind"], row["physicalOffset"], row["size"], row["magic"]) for row in rows]
    assert sorted(ends) == sorted(expected)
    assert all(row["nonZeroAfter"] == 0 for row in rows)


def test_every_record_can_be_built_again_from_its_fields(golden):
    name, files, _ = golden
    for start, data in files.items():
        for position, parsed in walk_file(data, **check_options(name)):
            if parsed.record is None:
                continue
            record = parsed.record
            built = build_record(
                record.topic,
                record.body,
                properties=record.properties,
                born_host=records.host_text(record.born_host),
                store_host=records.host_text(record.store_host),
                **{
                    field: getattr(record, field)
                    for field in (
                        "queue_id",
                        "flag",
                        "queue_offset",
                        "phy_offset",
                        "sys_flag",
                        "born_timestamp",
                        "store_timestamp",
                        "reconsume_times",
                        "prepared_transaction_offset",
                    )
                },
            )
            assert built == data[position : position + parsed.size], start + position


def test_every_byte_string_is_judged_as_rocketmq_judged_it():
    rows = stores.records()
    assert len(rows) == 2004
    for row in rows:
        head, data, flags = bytes.fromhex(row["head"]), bytes.fromhex(row["data"]), row["flags"]
        parsed = parse_record(
            head + data,
            len(head),
            check_crc=bool(flags & 1),
            check_dup=bool(flags & 2),
            read_body=bool(flags & 4),
            force_verify_prop_crc=bool(flags & 8),
            negative_blank=True,  # as before 5.5.1
        )
        assert (parsed.success, parsed.size, dispatch_of(parsed.record)) == (
            row["success"],
            row["size"],
            row["dispatch"],
        ), row


def dispatch_of(record):
    if record is None:
        return None
    return {
        "topic": record.topic,
        "queueId": record.queue_id,
        "phyOffset": record.phy_offset,
        "tagsCode": record.tags_code,
        "storeTimestamp": record.store_timestamp,
        "queueOffset": record.queue_offset,
        "keys": record.keys,
        "uniqKey": record.uniq_key,
        "sysFlag": record.sys_flag,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "batchSize": record.batch_size,
        "msgBaseOffset": record.msg_base_offset,
        "properties": record.properties,
    }


WORKED = bytes.fromhex(
    "00000076daa320a7516fa58a00000000000000000000000000000000000000000000000000000000000001a1fca0fb14"
    "7f000001000004d2000001a1fca0fb297f00000100002a9f00000000000000000000000000000005626f647930015400"
    "154b455953016b30206b6b025441475301546167410" + "2"
)


def test_the_worked_record_is_built_and_read():
    built = build_record(
        "T",
        b"body0",
        properties={"KEYS": "k0 kk", "TAGS": "TagA"},
        born_timestamp=0x1A1FCA0FB14,
        store_timestamp=0x1A1FCA0FB29,
    )
    assert built == WORKED
    record = parse_record(WORKED).record
    assert (record.total_size, record.tags_code, record.keys) == (118, 2598919, "k0 kk")


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a\x01b", {"a": "b"}),
        ("a\x01\x02", {}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("ab\x02c\x01d\x02", {"c": "d"}),
        ("x\x01\x01\x02", {"x": "\x01"}),
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),
        ("\x01b\x02", {}),
    ],
)
def test_properties_are_split_as_java_splits_them(text, properties):
    assert parse_properties(text) == properties


@pytest.mark.parametrize(
    ("store_host", "text"),
    [
        ("127.0.0.1:10911", "7F00000100002A9F00000000000003E8"),
        ("[2001:db8::2]:10911", "20010DB800000000000000000000000200002A9F00000000000003E8"),
    ],
)
def test_message_ids_are_read_back(store_host, text):
    pair = records.host(store_host)
    assert message_id(pair, 1000) == text
    assert parse_message_id(text) == (pair, 1000)
    assert records.host_text(pair) == store_host


def test_the_crc_property_has_its_digits_backwards():
    record = build_record(properties={"a": "b"}, append_prop_crc=True)
    digits = str(crc_of(record[:-20]))[::-1].ljust(10, "0")
    assert record[-20:] == b"__CRC32#\x01" + digits.encode() + b"\x02"
    assert parse_record(record, force_verify_prop_crc=True).success
    flipped = bytes([record[100] ^ 1])
    assert parse_record(record[:100] + flipped + record[101:], force_verify_prop_crc=True) == (False, -1, None)


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ({"total_size": 0}, (False, -1)),
        ({"total_size": 60}, (False, 60)),
        ({"total_size": 2**31 - 1}, (False, -1)),
        ({"magic": 1}, (False, -1)),
        ({"magic": records.MAGIC_BLANK}, (True, 0)),
        ({"body_crc": 1}, (False, -1)),
        ({"body_length": 5}, (False, -1)),
        ({"topic_length": 200}, (False, -1)),
        ({"properties_length": -1}, (False, 111)),
    ],
)
def test_a_wrong_field_gives_rocketmq_s_answer(wrong, answer):
    properties = {"KEYS": "k"}
    assert parse_record(build_record(properties=properties)).size == 111
    assert parse_record(build_record(properties=properties, **wrong))[:2] == answer


def test_a_record_that_leaves_eight_bytes_fits_and_one_that_leaves_seven_rolls(tmp_path):
    size = len(build_record())
    for left, offsets in ((8, [0, size, 2 * size + 8]), (7, [0, 2 * size + 7, 4 * size + 14])):
        directory = tmp_path / str(left)
        file_size = 2 * size + left
        assert make_commit_log(directory, file_size, [{}, {}, {}]) == offsets
        files = read_files(directory)
        assert [offset for offset, _ in scan(files)] == offsets
        end = 2 * size if left == 8 else size
        assert files[0][end:] == blank(file_size - end)


def test_a_log_takes_bytes_as_they_are_and_gives_queue_offsets(tmp_path):
    made = [{}, {"sys_flag": records.ROLLBACK}, {"topic": "U"}, {}, b"\1" * 3]
    offsets = make_commit_log(tmp_path, 4096, made)
    found = scan(read_files(tmp_path))
    assert [offset for offset, _ in found] == offsets[:-1]
    assert [record.queue_offset for _, record in found] == [0, 0, 0, 1]
    assert [record.phy_offset for _, record in found] == offsets[:-1]
    with pytest.raises(ValueError, match="fits in no file"):
        make_commit_log(tmp_path, 64, [{}])

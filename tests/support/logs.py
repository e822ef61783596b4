"""Commit logs for tests: golden ones with all that a message in them must show, and columns as plain lists."""

import itertools
import socket
import zlib

import numpy as np
import pytest
from reference.commit_log import read_files
from reference.record import parse_record
from support import stores
from support.text_reference import body_texts

from rocketstore import CommitLog
from rocketstore.kernels.message_columns import MESSAGE_FIELDS
from rocketstore.kernels.value_columns import ListColumn, MapColumn

NUMBERS = {
    "phy_offset": np.int64,
    "size": np.int32,
    "queue_id": np.int32,
    "queue_offset": np.int64,
    "flag": np.int32,
    "sys_flag": np.int32,
    "born_timestamp": np.int64,
    "store_timestamp": np.int64,
    "reconsume_times": np.int32,
    "prepared_transaction_offset": np.int64,
    "body_crc": np.int32,
    "tags_code": np.int64,
    "born_timestamp_ms": np.int64,
    "store_timestamp_ms": np.int64,
    "damaged": np.bool_,
}
ALL_COLUMNS = tuple(MESSAGE_FIELDS)


def open_golden(name, root):
    """Open the commit log of a golden store as the broker it is from was set."""
    settings = stores.settings(name)
    return CommitLog.open(
        root / "commitlog",
        mapped_file_size=settings["mapped_file_size_commit_log"],
        force_verify_prop_crc=settings.get("force_verify_prop_crc", False),
    )


def golden_messages(name, root):
    """Return every message of a golden store, as RocketMQ dumped it, under the names of Message's fields."""
    files = read_files(root / "commitlog")
    return [fields_of(row, stored_body(files, row)) for row in stores.dump(name)["message"]]


def stored_body(files, row):
    start = max(start for start in files if start <= row["at"])
    body = parse_record(files[start], row["at"] - start, check_crc=False).record.body
    assert len(body) == max(row["bodyLength"], 0)
    assert zlib.crc32(body) & 0x7FFFFFFF == row["bodyCrcComputed"]
    return body


def fields_of(row, raw_body):
    """One dumped message, and the bytes of its body, as the fields of a Message."""
    properties = row["properties"]
    body = plain_body(raw_body, row["sysFlag"])
    body_text, body_json = body_texts(body)
    return {
        "phy_offset": row["physicalOffset"],
        "size": row["totalSize"],
        "queue_id": row["queueId"],
        "queue_offset": row["queueOffset"],
        "flag": row["flag"],
        "sys_flag": row["sysFlag"],
        "born_timestamp": row["bornTimestamp"],
        "born_host": host_text(row["bornHost"]),
        "store_timestamp": row["storeTimestamp"],
        "store_host": host_text(row["storeHost"]),
        "reconsume_times": row["reconsumeTimes"],
        "prepared_transaction_offset": row["preparedTransactionOffset"],
        "body_crc": row["bodyCRC"],
        "topic": row["topic"],
        "msg_id": row["msgId"],
        "tags": properties.get("TAGS"),
        "keys": [key for key in properties.get("KEYS", "").split(" ") if key],
        "uniq_key": row["dispatch"]["uniqKey"],
        "properties": properties,
        "tags_code": row["dispatch"]["tagsCode"],
        "raw_body": raw_body,
        "body": body,
        "body_text": body_text,
        "body_json": body_json,
        "body_error": None,
        "born_timestamp_ms": row["bornTimestamp"],
        "store_timestamp_ms": row["storeTimestamp"],
        "damaged": False,
    }


def host_text(dumped):
    """("127.0.0.1|80" or "0:0:0:0:0:0:0:1|80") -> "127.0.0.1:80" or "[::1]:80"."""
    address, _, port = dumped.partition("|")
    if ":" not in address:
        return f"{address}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, address))}]:{port}"


def plain_body(raw, sys_flag):
    if not sys_flag & 1 or not raw:
        return raw
    lz4 = pytest.importorskip("lz4.frame", reason="needs lz4, from the extra 'codecs'")
    zstandard = pytest.importorskip("zstandard", reason="needs zstandard, from the extra 'codecs'")
    unpack = {1: lz4.decompress, 2: lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)}
    return unpack.get(sys_flag >> 8 & 7, zlib.decompress)(raw)


# ---- columns -----------------------------------------------------------------------------------------------


def column_list(name, column):
    """Return the rows of a column as plain Python values, read from its arrays."""
    if name in NUMBERS:
        assert column.dtype == NUMBERS[name]
        assert column.ndim == 1
        return column.tolist()
    if isinstance(column, ListColumn):
        words = var_list(column.values, is_text=True)
        return [words[begin:end] for begin, end in spans(column.offsets)]
    if isinstance(column, MapColumn):
        items = list(zip(var_list(column.keys, True), var_list(column.values, True), strict=True))
        assert all(len(dict(items[b:e])) == e - b for b, e in spans(column.offsets)), "a name twice in one map"
        return [dict(items[begin:end]) for begin, end in spans(column.offsets)]
    return var_list(column, MESSAGE_FIELDS[name].format == "u")


def var_list(column, is_text):
    assert column.data.dtype == np.uint8
    data = column.data.tobytes()
    values = [data[begin:end] for begin, end in spans(column.offsets)]
    if is_text:
        values = [value.decode() for value in values]
    if column.valid is None:
        return values
    assert column.valid.dtype == np.bool_
    return [value if valid else None for value, valid in zip(values, column.valid.tolist(), strict=True)]


def spans(offsets):
    assert offsets.dtype == np.int32
    assert offsets[0] == 0
    ends = offsets.tolist()
    return list(itertools.pairwise(ends))


def rows_of(batches):
    """Return the messages of batches as dicts by column name."""
    rows = []
    for batch in batches:
        lists = {name: column_list(name, column) for name, column in batch.columns.items()}
        assert {len(values) for values in lists.values()} == {len(batch)}
        rows += [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    return rows


def offsets_of(batches):
    """Return the physical offsets of the messages of batches."""
    return [offset for batch in batches for offset in batch.phy_offset.tolist()]

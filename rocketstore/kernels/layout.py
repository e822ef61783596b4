"""The byte layouts of all structures of a store, as NumPy dtypes. Integers are big-endian.

``tests/kernels/test_layout.py`` compares them with the enums of the kernels, so that both name the same bytes.
"""

from __future__ import annotations

import functools
import struct

import numpy as np

MAGIC_V1, MAGIC_V2, MAGIC_BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
RECORD_MAGICS = (MAGIC_V1, MAGIC_V2)
DAMAGED_FLAG = 0x44414D47  # "DAMG", in the field flag of a record that stands in place of a lost one
BORN_HOST_V6, STORE_HOST_V6 = 0x10, 0x20  # bits of sysFlag
STRUCT_CODES = {"i2": "h", "i4": "i", "u4": "I", "i8": "q"}


@functools.cache
def _record_head(is_born_v6: bool, is_store_v6: bool) -> np.dtype:
    return np.dtype([
        ("size", ">i4"), ("magic", ">u4"), ("body_crc", ">i4"), ("queue_id", ">i4"), ("flag", ">i4"),
        ("queue_offset", ">i8"), ("phy_offset", ">i8"), ("sys_flag", ">i4"), ("born_timestamp", ">i8"),
        ("born_host", "V20" if is_born_v6 else "V8"), ("store_timestamp", ">i8"),
        ("store_host", "V20" if is_store_v6 else "V8"), ("reconsume_times", ">i4"),
        ("prepared_transaction_offset", ">i8"), ("body_length", ">i4"),
    ])  # fmt: skip


def record_head(sys_flag: int) -> np.dtype:
    """Return the layout of a record up to its body; ``sys_flag`` says which hosts are IPv6 addresses.

    Behind the head are the body, the length of the topic (see ``topic_length_size``), the topic, the length of the
    properties (int16) and the properties.
    """
    return _record_head(bool(sys_flag & BORN_HOST_V6), bool(sys_flag & STORE_HOST_V6))


def topic_length_size(magic: int) -> int:
    """Return how many bytes the length of the topic has: one in a V1 record, two in a V2 record."""
    return 1 if magic == MAGIC_V1 else 2


RECORD_HEAD = record_head(0)
BLANK_HEAD = np.dtype([("size", ">i4"), ("magic", ">u4")])

ENTRY_MAGIC, ENTRY_BLANK_MAGIC = 1, 0xFFFFFFFF  # of DLedger's log
ENTRY_HEAD = np.dtype([  # before the record
    ("magic", ">u4"), ("size", ">i4"), ("index", ">i8"), ("term", ">i8"), ("pos", ">i8"),
    ("channel", ">i4"), ("chain_crc", ">i4"), ("body_crc", ">i4"), ("body_size", ">i4"),
])  # fmt: skip
ENTRY_INDEX_UNIT = np.dtype([  # of DLedger's index file
    ("magic", ">i4"), ("pos", ">i8"), ("size", ">i4"), ("index", ">i8"), ("term", ">i8"),
])  # fmt: skip
INNER_MESSAGE_HEAD = np.dtype([  # of a message inside the body of a batch
    ("size", ">i4"), ("magic", ">i4"), ("body_crc", ">i4"), ("flag", ">i4"), ("body_length", ">i4"),
])  # fmt: skip

PROPERTIES_LENGTH = np.dtype([("length", ">i2")])  # in front of the properties of a record or an inner message
MIN_RECORD = RECORD_HEAD.itemsize + topic_length_size(MAGIC_V1) + PROPERTIES_LENGTH.itemsize  # all texts are empty

UNIT = np.dtype([("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
ROCKSDB_UNIT = np.dtype([*UNIT.descr, ("store_timestamp", ">i8")])  # the value of a row; its key has the queue offset
BATCH_UNIT = np.dtype([
    *UNIT.descr, ("store_timestamp", ">i8"), ("msg_base_offset", ">i8"), ("batch_size", ">i2"),
    ("compacted_offset", ">i4"), ("reserved", ">i4"),
])  # fmt: skip
EXT_UNIT = np.dtype([  # the bitmap follows
    ("size", ">i2"), ("tags_code", ">i8"), ("store_timestamp", ">i8"), ("bitmap_size", ">i2"),
])  # fmt: skip

INDEX_HEADER = np.dtype([
    ("begin_timestamp", ">i8"), ("end_timestamp", ">i8"), ("begin_phy_offset", ">i8"), ("end_phy_offset", ">i8"),
    ("hash_slot_count", ">i4"), ("index_count", ">i4"),
])  # fmt: skip
INDEX_SLOT = np.dtype(">i4")  # ordinal of the newest item of the slot, 0 if the slot is empty
INDEX_ITEM = np.dtype([("key_hash", ">i4"), ("phy_offset", ">i8"), ("time_diff", ">i4"), ("prev_index", ">i4")])

CHECKPOINT = np.dtype([
    ("physic_msg_timestamp", ">i8"), ("logics_msg_timestamp", ">i8"), ("index_msg_timestamp", ">i8"),
    ("master_flushed_offset", ">i8"), ("confirm_phy_offset", ">i8"), ("logics_physical_offset", ">i8"),
])  # fmt: skip


def read_field(data: bytes | memoryview, layout: np.dtype, name: str, start: int = 0) -> int:
    """Return one integer field of the structure that begins at byte ``start`` of ``data``."""
    field, place, *_ = layout.fields[name]  # type: ignore[index]
    place += start
    return int.from_bytes(data[place : place + field.itemsize], "big", signed=field.kind == "i")


def struct_of(layout: np.dtype) -> struct.Struct:
    """Return a packer of a structure that has integer fields only."""
    return struct.Struct(">" + "".join(STRUCT_CODES[layout[name].str[1:]] for name in layout.names or ()))

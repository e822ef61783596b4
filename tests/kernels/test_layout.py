"""The dtypes of kernels/layout.py and the enums of the kernels name the same bytes."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest

import rocketstore
from rocketstore.kernels import layout

KERNELS = Path(rocketstore.__file__).parent / "kernels"
CONSTANT = re.compile(r"^    ([A-Z][A-Z0-9_]*) = (0x[0-9A-F]+|\d+)\b", re.MULTILINE)


def constants(name):
    """The numbers that the enums of a kernel's declarations have."""
    text = (KERNELS / f"{name}.pxd").read_text(encoding="utf-8")
    return {key: int(value, 0) for key, value in CONSTANT.findall(text)}


RECORD, UNITS, INDEX = constants("record"), constants("consume_queue"), constants("index_item")


def offsets(dtype, *names):
    """The offset of each field in capital letters, as the enums have them; those of all fields without names."""
    return {name.upper(): dtype.fields[name][1] for name in names or dtype.names}


def subset(enum, wanted, prefix=""):
    return {key: enum[prefix + key] for key in wanted}


def assert_no_gap(dtype):
    """Each field begins where the one before it ends, so that equal offsets and an equal size mean equal sizes."""
    ends = np.cumsum([dtype[name].itemsize for name in dtype.names]).tolist()
    assert [dtype.fields[name][1] for name in dtype.names] == [0, *ends[:-1]]
    assert dtype.itemsize == ends[-1]


@pytest.mark.parametrize("sys_flag", [0, layout.BORN_HOST_V6, layout.STORE_HOST_V6, 0x30])
def test_the_head_of_a_record(sys_flag):
    head = layout.record_head(sys_flag)
    assert_no_gap(head)
    fixed = offsets(head, *head.names[: head.names.index("born_host") + 1])
    assert fixed == subset(RECORD, fixed)
    born, store = ((RECORD["IPV6_HOST_SIZE"] if sys_flag & bit else RECORD["HOST_SIZE"]) for bit in (0x10, 0x20))
    assert (head["born_host"].itemsize, head["store_host"].itemsize) == (born, store)
    assert head.fields["store_timestamp"][1] == RECORD["BORN_HOST"] + born
    assert head.itemsize == RECORD["MIN_RECORD"] - 3 + RECORD["IPV6_EXTRA"] * bin(sys_flag).count("1")
    assert head["born_timestamp"].itemsize == head["store_timestamp"].itemsize == 8
    assert (head["reconsume_times"].itemsize, head["prepared_transaction_offset"].itemsize) == (4, 8)
    assert head["body_length"].itemsize == 4


def test_the_head_of_an_entry():
    fields = {"ENTRY_" + name: place for name, place in offsets(layout.ENTRY_HEAD).items()}
    assert (
        fields | subset(RECORD, ("ENTRY_SIZE", "ENTRY_INDEX", "ENTRY_TERM", "ENTRY_POS", "ENTRY_BODY_SIZE")) == fields
    )
    assert layout.ENTRY_HEAD.itemsize == RECORD["ENTRY_HEAD"]
    assert (RECORD["ENTRY_MAGIC"], RECORD["ENTRY_BLANK_MAGIC"]) == (layout.ENTRY_MAGIC, layout.ENTRY_BLANK_MAGIC)
    assert_no_gap(layout.ENTRY_HEAD)
    assert_no_gap(layout.ENTRY_INDEX_UNIT)
    assert layout.ENTRY_INDEX_UNIT.itemsize == 32


def test_the_numbers_of_records():
    names = ("MAGIC_V1", "MAGIC_V2", "MAGIC_BLANK", "BORN_HOST_V6", "STORE_HOST_V6", "MIN_RECORD")
    assert {name: getattr(layout, name) for name in names} == subset(RECORD, names)
    assert offsets(layout.BLANK_HEAD) == subset(RECORD, ("SIZE", "MAGIC"))
    assert [layout.topic_length_size(magic) for magic in (layout.MAGIC_V1, layout.MAGIC_V2)] == [1, 2]


def test_units():
    assert_no_gap(layout.UNIT)
    assert_no_gap(layout.BATCH_UNIT)
    assert offsets(layout.UNIT) == {"PHY_OFFSET": 0} | subset(UNITS, ("SIZE", "TAGS_CODE"))
    assert layout.UNIT.itemsize == UNITS["UNIT_SIZE"]
    names = [name.upper() for name in layout.BATCH_UNIT.names[1:]]
    assert offsets(layout.BATCH_UNIT) == {"PHY_OFFSET": 0} | subset(UNITS, names)
    assert layout.BATCH_UNIT.itemsize == UNITS["BATCH_UNIT_SIZE"]


def test_ext_units():
    assert_no_gap(layout.EXT_UNIT)
    names = ("TAGS_CODE", "STORE_TIMESTAMP", "BITMAP_SIZE")
    assert offsets(layout.EXT_UNIT) == {"SIZE": 0} | subset(UNITS, names, "EXT_")
    assert layout.EXT_UNIT.itemsize == UNITS["EXT_BITMAP"]


def test_index_files():
    assert_no_gap(layout.INDEX_HEADER)
    assert_no_gap(layout.INDEX_ITEM)
    header = offsets(layout.INDEX_HEADER)
    assert header == subset(INDEX, header)
    item = offsets(layout.INDEX_ITEM)
    assert item == {"KEY_HASH": 0} | subset(INDEX, ("PHY_OFFSET", "TIME_DIFF", "PREV_INDEX"))
    sizes = [dtype.itemsize for dtype in (layout.INDEX_HEADER, layout.INDEX_SLOT, layout.INDEX_ITEM)]
    assert sizes == [INDEX["HEADER_SIZE"], INDEX["SLOT_SIZE"], INDEX["ITEM_SIZE"]]


def test_every_integer_is_big_endian():
    dtypes = [value for value in vars(layout).values() if isinstance(value, np.dtype)]
    assert len(dtypes) >= 9
    for dtype in dtypes:
        assert {part.kind for part in [dtype[name] for name in dtype.names or ()]} <= {"i", "u", "V"}
        assert dtype == dtype.newbyteorder(">")


def test_fields_are_read_with_their_sign():
    data = b"\0" + struct.pack(">iI", -2, layout.MAGIC_BLANK)
    assert layout.read_field(data, layout.BLANK_HEAD, "size", 1) == -2
    assert layout.read_field(memoryview(data), layout.BLANK_HEAD, "magic", 1) == layout.MAGIC_BLANK
    assert layout.struct_of(layout.BLANK_HEAD).unpack(data[1:]) == (-2, layout.MAGIC_BLANK)
    assert layout.struct_of(layout.BATCH_UNIT).size == layout.BATCH_UNIT.itemsize

"""The checksum, against zlib's. Runs under every ROCKETSTORE_CPU level too."""

import random
import zlib

import numpy as np
import pytest

from rocketstore.kernels import csrc

DATA = random.Random("crc32").randbytes(4_200 + 64)
STARTS = [0, 1, 0x80000000, 0xFFFFFFFF]
KINDS = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "int memoryview": lambda data: memoryview(data).cast("i"),
    "uint8": lambda data: np.frombuffer(data, np.uint8),
    "big-endian int64": lambda data: np.frombuffer(data, ">i8"),
}
GAPS = {
    "every second byte": memoryview(DATA)[::2],
    "backwards": memoryview(DATA)[::-1],
    "every third element": np.frombuffer(DATA, np.uint8)[::3],
    "columns": np.zeros((8, 8), np.uint8)[:, :4],
}


def lengths_that_differ(view, start=0):
    parts = ((length, view[:length]) for length in range(4_201))
    return [length for length, part in parts if csrc.crc32(part, start) != zlib.crc32(part, start)]


@pytest.mark.parametrize("alignment", range(64))
def test_every_length_gives_what_zlib_gives_at_alignment(alignment):
    assert not lengths_that_differ(memoryview(DATA)[alignment:])


@pytest.mark.parametrize("start", STARTS)
def test_a_checksum_continues_from_that_of_the_bytes_before(start):
    assert not lengths_that_differ(memoryview(DATA), start)


def test_a_checksum_in_parts_equals_that_of_the_whole():
    whole = zlib.crc32(DATA)
    view = memoryview(DATA)
    wrong = [cut for cut in range(len(DATA) + 1) if csrc.crc32(view[cut:], csrc.crc32(view[:cut])) != whole]
    assert not wrong

    many = 0
    rest = view
    rng = random.Random("pieces")
    while rest:
        size = rng.randrange(200)
        many = csrc.crc32(rest[:size], many)
        rest = rest[size:]
    assert many == whole


def test_ten_mebibytes_give_what_zlib_gives():
    data = random.Random("large").randbytes(10 << 20)
    assert csrc.crc32(data) == zlib.crc32(data)
    assert csrc.crc32(memoryview(data)[1:-1], value=7) == zlib.crc32(memoryview(data)[1:-1], 7)


def test_published_values():
    assert csrc.crc32(b"123456789") == 0xCBF43926
    assert csrc.crc32(bytes(32)) == 0x190A55AD
    assert csrc.crc32(b"\xff" * 32) == 0xFF6CAB0B


@pytest.mark.parametrize("start", STARTS)
def test_nothing_changes_nothing(start):
    assert csrc.crc32(b"", start) == start


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_any_contiguous_buffer_is_taken_as_its_bytes(kind):
    assert csrc.crc32(kind(DATA[:4_096])) == zlib.crc32(DATA[:4_096])


def test_a_read_only_buffer_is_taken():
    array = np.arange(1_000, dtype=np.int32)
    array.flags.writeable = False
    assert csrc.crc32(array) == zlib.crc32(array.tobytes())
    assert csrc.crc32(memoryview(bytearray(DATA)).toreadonly()) == zlib.crc32(DATA)


@pytest.mark.parametrize("view", GAPS.values(), ids=GAPS)
def test_a_buffer_with_gaps_is_refused(view):
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        csrc.crc32(view)


@pytest.mark.parametrize("data", ["text", None, 1, [1, 2]])
def test_anything_but_a_buffer_is_refused(data):
    with pytest.raises(TypeError, match="bytes-like"):
        csrc.crc32(data)

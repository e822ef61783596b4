"""Ext units of consume queues: addresses, bitmaps, ends of files, damage."""

import io
import pickle
import struct

import numpy as np
import pytest
import reference.consume_queue as oracle
from reference.commit_log import read_files
from reference.consume_queue import ext_addr, pack_ext
from support import stores

import rocketstore
from rocketstore import ConsumeQueueExt, CorruptFileError, StoreClosedError

FILE_SIZE = 256


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "consumequeue_ext" / "T" / "0"
    directory.mkdir(parents=True)
    units = b"".join(pack_ext(i - 2, 1000 + i, bytes(range(i))) for i in range(6))
    (directory / f"{0:020}").write_bytes((units + b"\xff\xff").ljust(FILE_SIZE, b"\0"))
    (directory / f"{FILE_SIZE:020}").write_bytes(pack_ext(2**63 - 1, -1, b"\xff" * 30).ljust(FILE_SIZE, b"\0"))
    return directory


def test_an_address_leads_to_its_unit_in_any_file(directory):
    with ConsumeQueueExt.open(directory, mapped_file_size=FILE_SIZE) as ext:
        position = 0
        for i in range(6):
            assert ext.read(ext_addr(position)) == (i - 2, 1000 + i, bytes(range(i)))
            position += 20 + i
        assert ext.read(ext_addr(position)) is None  # the mark of a file's end
        unit = ext.read(ext_addr(FILE_SIZE))
        assert (unit.tags_code, unit.store_timestamp, unit.bitmap) == (2**63 - 1, -1, b"\xff" * 30)


def test_every_position_gives_what_the_reference_reads_or_an_error(directory):
    files = read_files(directory)
    with ConsumeQueueExt.open(directory) as ext:
        for position in range(2 * FILE_SIZE + 40):
            expected = oracle.read_ext(files, ext_addr(position)) if position < 2 * FILE_SIZE else None
            if expected is None:
                assert ext.read(ext_addr(position)) is None
            elif expected.size < 20 + len(expected.bit_map or b"") or expected.size > FILE_SIZE - position % FILE_SIZE:
                with pytest.raises(CorruptFileError) as caught:
                    ext.read(ext_addr(position))
                assert (caught.value.field, caught.value.offset) == ("size", position % FILE_SIZE)
            else:
                unit = (expected.tags_code, expected.msg_store_time, expected.bit_map or b"")
                assert ext.read(ext_addr(position)) == unit


@pytest.mark.parametrize(("code", "is_address"), [
    (-(2**63), True), (-2147483649, True), (-2147483648, False), (0, False), (2598919, False), (2**63 - 1, False)
])  # fmt: skip
def test_codes_below_every_hash_are_addresses(directory, code, is_address):
    """Corner 35."""
    assert ConsumeQueueExt.is_ext_address(code) is is_address
    with ConsumeQueueExt.open(directory) as ext:
        if is_address:
            ext.read(code)
        else:
            with pytest.raises(ValueError, match="no address"):
                ext.read(code)


@pytest.mark.parametrize(("size", "bitmap_size"), [(19, 0), (1, 0), (20, 1), (25, 6), (32767, 0), (32767, 32747)])
def test_sizes_that_cannot_be_are_damage(directory, size, bitmap_size):
    data = struct.pack(">hqqh", size, 1, 2, bitmap_size)
    (directory / f"{0:020}").write_bytes(data.ljust(FILE_SIZE, b"\0"))
    with ConsumeQueueExt.open(directory) as ext, pytest.raises(CorruptFileError, match=f"{size} bytes") as caught:
        ext.read(ext_addr(0))
    assert (caught.value.path, caught.value.offset) == (directory / f"{0:020}", 0)


def test_a_negative_bitmap_size_is_no_bitmap(directory):
    (directory / f"{0:020}").write_bytes(struct.pack(">hqqh", 24, 1, 2, -5).ljust(FILE_SIZE, b"\0"))
    with ConsumeQueueExt.open(directory) as ext:
        assert ext.read(ext_addr(0)) == (1, 2, b"")


def test_a_unit_that_a_cut_file_has_not_whole_is_not_read(directory):
    path = directory / f"{FILE_SIZE:020}"
    data = path.read_bytes()
    for length in range(1, 51):
        path.write_bytes(data[:length])
        with ConsumeQueueExt.open(directory, mapped_file_size=FILE_SIZE) as ext:
            if length < 20:
                assert ext.read(ext_addr(FILE_SIZE)) is None
            elif length < 50:
                with pytest.raises(CorruptFileError):
                    ext.read(ext_addr(FILE_SIZE))
            else:
                assert ext.read(ext_addr(FILE_SIZE)).bitmap == b"\xff" * 30


def test_a_file_that_comes_while_open_is_read(directory):
    with ConsumeQueueExt.open(directory) as ext:
        assert ext.read(ext_addr(2 * FILE_SIZE)) is None
        (directory / f"{2 * FILE_SIZE:020}").write_bytes(pack_ext(9, 8, b"7").ljust(FILE_SIZE, b"\0"))
        assert ext.read(ext_addr(2 * FILE_SIZE)) == (9, 8, b"7")


@pytest.mark.parametrize("name", ["cqext-5.5.0", "cqext-5.3.3"])
def test_the_ext_units_of_a_golden_store_make_the_same_files_again(name, tmp_path):
    with rocketstore.open(stores.unpack(name, tmp_path / "golden")) as store:
        for topic, queue_id in store.queues():
            codes = store.consume_queue(topic, queue_id)[:].tags_codes.tolist()
            addresses = [code for code in codes if ConsumeQueueExt.is_ext_address(code)]
            if not addresses:
                continue
            theirs = store.consume_queue_ext(topic, queue_id)
            size = next(theirs.directory.iterdir()).stat().st_size
            directory = tmp_path / topic / str(queue_id)
            with ConsumeQueueExt.open(directory, "a", mapped_file_size=size) as ours:
                for address in addresses:
                    unit = theirs.read(address)
                    assert ours.put(*unit) == address
                    assert ours.read(address) == unit
                ours.flush()
            assert read_files(directory) == read_files(theirs.directory)


def test_writing_continues_behind_the_last_unit(directory):
    with ConsumeQueueExt.open(directory, "r+") as ext:
        address = ext.put(5, 6, b"7")
        assert (address, ext.read(address)) == (ext_addr(FILE_SIZE + 50), (5, 6, b"7"))
        with pytest.raises(TypeError, match="only a reader"):
            pickle.dumps(ext)
    ext.close()
    with pytest.raises(StoreClosedError):
        ext.put(5, 6)


@pytest.mark.parametrize(("unit", "error"), [((1.5, 6), TypeError), ((5, 6.0), TypeError), ((2**63, 6), ValueError)])
def test_numbers_that_are_no_longs_are_refused(directory, unit, error):
    with ConsumeQueueExt.open(directory, "r+") as ext, pytest.raises(error, match=r"tags_code|store_timestamp"):
        ext.put(*unit)


def test_a_file_size_may_be_a_number_of_numpy(tmp_path):
    with ConsumeQueueExt.open(tmp_path, "a", mapped_file_size=np.uint32(64)) as ext:
        addresses = [ext.put(n, n, bytes(10)) for n in range(3)]
        assert [ext.read(address).tags_code for address in addresses] == [0, 1, 2]


def test_it_is_opened_closed_and_pickled_like_the_others(directory, tmp_path):
    with pytest.raises(ValueError, match="mode"):
        ConsumeQueueExt.open(directory, "w")
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError):
            ConsumeQueueExt.open(tmp_path / "missing", mode)
    with ConsumeQueueExt.open(directory) as ext, pytest.raises(io.UnsupportedOperation, match="mode 'a'"):
        ext.put(5, 6)
    ext = ConsumeQueueExt.open(str(directory))
    assert ext.directory == directory
    assert pickle.loads(pickle.dumps(ext)).read(ext_addr(0)) == ext.read(ext_addr(0))
    ext.close()
    with pytest.raises(StoreClosedError):
        ext.read(ext_addr(0))

"""Writing ext units: rules one by one, and the lives of queues that have them against the reference."""

import os

import pytest
from reference.consume_queue import LONG_MIN, pack_ext
from support import queue_ops
from test_consume_queue_writer import failing, files, put

from rocketstore import ConsumeQueueExt, CorruptFileError, StoreClosedError
from rocketstore.queue.consume_queue_ext_writer import ConsumeQueueExtWriter
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter

FILE_SIZE = 100
END = b"\xff\xff"


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "consumequeue_ext" / "T" / "0"


@pytest.fixture
def ext(directory):
    writer = ConsumeQueueExtWriter(directory, FILE_SIZE)
    yield writer
    writer.close()


def reopened(writer):
    writer.close()
    return ConsumeQueueExtWriter(writer.directory, writer.mapped_file_size)


def test_units_are_put_one_behind_the_other(ext, directory):
    assert ext.put(7, 1000, b"\x80\x01") == LONG_MIN
    assert ext.put(-8, 2000) == LONG_MIN + 22
    assert files(directory) == {0: (pack_ext(7, 1000, b"\x80\x01") + pack_ext(-8, 2000)).ljust(FILE_SIZE, b"\0")}
    with ConsumeQueueExt.open(directory) as reader:
        assert reader.read(LONG_MIN) == (7, 1000, b"\x80\x01")
        assert reader.read(LONG_MIN + 22) == (-8, 2000, b"")


def test_a_message_that_is_dispatched_again_has_another_unit(ext):
    """Corner 55."""
    assert [ext.put(7, 1000), ext.put(7, 1000)] == [LONG_MIN, LONG_MIN + 20]


def test_four_bytes_stay_free_behind_the_units_of_a_file(ext, directory):
    ext.put(1, 1, bytes(56))
    assert ext.put(2, 2) == LONG_MIN + 76  # ends at byte 96
    assert ext.put(3, 3) == LONG_MIN + FILE_SIZE
    assert files(directory)[0][96:] == END + bytes(2)


def test_a_unit_that_does_not_fit_leaves_the_rest_of_the_file(ext, directory):
    ext.put(1, 1, bytes(57))
    assert ext.put(2, 2) == LONG_MIN + FILE_SIZE
    assert files(directory)[0][77:] == END + bytes(21)
    assert files(directory)[100] == pack_ext(2, 2).ljust(FILE_SIZE, b"\0")


def test_a_unit_larger_than_a_file_leaves_three_files_and_the_tags_code(ext, directory):
    assert ext.put(55, 1, bytes(90)) == 55
    assert files(directory) == {start: END + bytes(98) for start in (0, 100, 200)}
    assert ext.put(1, 1) == LONG_MIN + 300


def test_a_unit_of_more_than_32767_bytes_is_not_put(directory):
    writer = ConsumeQueueExtWriter(directory, 100_000)
    assert writer.put(55, 1, bytes(32748)) == 55
    assert files(directory) == {}
    assert writer.put(55, 1, bytes(32747)) == LONG_MIN
    assert files(directory)[0][:2] == b"\x7f\xff"
    writer.close()


def test_a_file_that_no_unit_fits_is_refused(directory):
    with pytest.raises(ValueError, match="no unit fits"):
        ConsumeQueueExtWriter(directory, 23)


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_a_reopened_file_continues_where_it_was(ext, directory, count):
    addresses = [ext.put(number, number) for number in range(count)]
    again = reopened(ext)
    assert again.put(9, 9) == (addresses[-1] + 20 if count % 4 else LONG_MIN + count // 4 * FILE_SIZE)
    again.close()


def test_a_smaller_unit_takes_the_place_of_the_end_after_a_restart(ext, directory):
    ext.put(1, 1, bytes(50))
    assert ext.put(2, 2, bytes(10)) == LONG_MIN + FILE_SIZE
    (directory / f"{100:020}").unlink()
    again = reopened(ext)
    assert again.put(3, 3) == LONG_MIN + 70
    again.close()


def test_a_file_without_units_in_the_middle_does_not_end_the_run(ext, directory):
    for number in range(9):
        ext.put(number, number)
    (directory / f"{100:020}").write_bytes(bytes(FILE_SIZE))
    again = reopened(ext)
    assert again.put(9, 9) == LONG_MIN + 220
    again.close()


@pytest.mark.parametrize("size", [99, 100, 32767])
def test_a_unit_that_goes_beyond_its_file_is_an_error_and_changes_nothing(ext, directory, size):
    ext.put(1, 1)
    path = directory / f"{0:020}"
    path.write_bytes(size.to_bytes(2, "big") + path.read_bytes()[2:])
    before = files(directory)
    again = reopened(ext)
    with pytest.raises(CorruptFileError, match=f"size at byte 0: {size} bytes go beyond the file"):
        again.put(2, 2)
    assert files(directory) == before


def test_what_follows_the_largest_address_is_cut(ext, directory):
    addresses = [ext.put(number, number) for number in range(9)]
    ext.truncate_by_max_address(addresses[5])
    assert sorted(files(directory)) == [0, 100]
    assert ext.put(9, 9) == addresses[6]


def test_the_address_at_0_deletes_all_files_of_a_run_that_begins_later(ext, directory):
    for number in range(9):
        ext.put(number, number)
    (directory / f"{0:020}").unlink()
    again = reopened(ext)
    again.truncate_by_max_address(LONG_MIN)
    assert files(directory) == {}
    assert again.put(9, 9) == LONG_MIN
    again.close()


def test_the_address_at_0_is_the_first_unit_s_where_there_is_one(ext, directory):
    addresses = [ext.put(number, number) for number in range(9)]
    ext.truncate_by_max_address(LONG_MIN)
    assert sorted(files(directory)) == [0]
    assert ext.put(9, 9) == addresses[1]


@pytest.mark.parametrize("address", [0, 1, -1, -(2**31), LONG_MIN + 40, LONG_MIN + 5000, LONG_MIN + 60])
def test_an_address_without_a_unit_cuts_nothing(ext, directory, address):
    ext.put(1, 1)
    ext.put(2, 2)
    before = files(directory)
    ext.truncate_by_max_address(address)
    assert files(directory) == before
    assert ext.put(3, 3) == LONG_MIN + 40


def test_files_that_end_before_the_smallest_address_are_deleted(ext, directory):
    addresses = [ext.put(number, number) for number in range(12)]
    ext.truncate_by_min_address(addresses[4])  # the second file's first: the first ends where it begins
    assert sorted(files(directory)) == [0, 100, 200]
    ext.truncate_by_min_address(addresses[5])
    assert sorted(files(directory)) == [100, 200]
    ext.truncate_by_min_address(5)
    assert sorted(files(directory)) == [100, 200]
    ext.truncate_by_min_address(LONG_MIN + 1000)
    assert files(directory) == {}
    assert ext.put(1, 1) == LONG_MIN


@pytest.mark.parametrize("call", ["open", "ftruncate", "pwrite"])
def test_a_unit_that_cannot_be_written_is_put_again(ext, directory, monkeypatch, call):
    with monkeypatch.context() as patch:
        failing(patch, call)
        with pytest.raises(OSError, match="No space left"):
            ext.put(1, 1)
    assert ext.put(1, 1) == LONG_MIN
    assert files(directory) == {0: pack_ext(1, 1).ljust(FILE_SIZE, b"\0")}


def test_an_empty_writer_can_be_cut_and_recovered(ext, directory):
    ext.recover()
    ext.truncate_by_max_address(LONG_MIN)
    ext.truncate_by_min_address(LONG_MIN + 500)
    ext.flush()
    ext.destroy()
    assert files(directory) == {}


def test_a_closed_writer_says_so(ext):
    ext.put(1, 1)
    ext.close()
    with pytest.raises(StoreClosedError, match="is closed"):
        ext.put(2, 2)


def test_zeros_follow_the_end_if_they_are_asked_for(ext, directory):
    for number in range(3):
        ext.put(number, number)
    path = directory / f"{0:020}"
    path.write_bytes(path.read_bytes()[:20] + bytes(20) + path.read_bytes()[40:])
    again = reopened(ext)
    again.recover(zero=True)
    assert files(directory) == {0: pack_ext(0, 0).ljust(FILE_SIZE, b"\0")}
    again.close()


def test_files_of_another_length_are_refused(ext, directory):
    ext.put(1, 1)
    os.truncate(directory / f"{0:020}", 99)
    again = reopened(ext)
    with pytest.raises(CorruptFileError, match="99 bytes, but files of 100"):
        again.put(2, 2)


def test_a_queue_recovers_its_ext_units_before_one_is_put(tmp_path):
    def opened():
        return ConsumeQueueWriter(tmp_path / "queue", 200, ConsumeQueueExtWriter(tmp_path / "ext", FILE_SIZE))

    for number in range(3):
        writer = opened()
        row = [(number * 100, 100, writer.ext.put(number, number), number)]
        assert put(writer, *row) == 1
        writer.close()
    expected = b"".join(pack_ext(number, number) for number in range(3))
    assert files(tmp_path / "ext") == {0: expected.ljust(FILE_SIZE, b"\0")}


def test_ext_files_of_a_queue_without_files_count_as_full(tmp_path):
    ConsumeQueueExtWriter(tmp_path / "ext", FILE_SIZE).put(1, 1)
    writer = ConsumeQueueWriter(tmp_path / "queue", 200, ConsumeQueueExtWriter(tmp_path / "ext", FILE_SIZE))
    assert writer.ext.put(2, 2) == LONG_MIN + FILE_SIZE
    assert files(tmp_path / "ext")[0] == pack_ext(1, 1).ljust(FILE_SIZE, b"\0")
    writer.close()


@pytest.mark.parametrize("file_size", [24, 70, 150])
@pytest.mark.parametrize("case", range(10))
def test_queues_with_ext_units_are_the_reference_s(tmp_path, seed, case, file_size):
    queue_ops.check_writer(queue_ops.lives(f"{seed} {case}", 1, ext_file_size=file_size)[0], tmp_path)

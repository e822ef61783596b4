"""Writing consume queues: RocketMQ's rules one by one, and random lives against the reference, byte for byte."""

import contextlib
import errno
import gc
import itertools
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from reference.consume_queue import BATCH_UNIT, FILLER, UNIT, pack_batch_unit
from support import queue_ops

from rocketstore import ConsumeQueue, CorruptFileError, StoreClosedError, StoreError
from rocketstore.disk.file_run_writer import FileRunWriter
from rocketstore.queue.batch_consume_queue_writer import BatchConsumeQueueWriter
from rocketstore.queue.consume_queue_ext_writer import ConsumeQueueExtWriter
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter

FILE_SIZE, BATCH_FILE_SIZE = 200, 460  # ten units
INT_MAX = 2**31 - 1


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "consumequeue" / "T" / "0"


@pytest.fixture
def queue(directory):
    with_close = ConsumeQueueWriter(directory, FILE_SIZE)
    yield with_close
    with_close.close()


@pytest.fixture
def batch_queue(directory):
    with_close = BatchConsumeQueueWriter(directory, BATCH_FILE_SIZE)
    yield with_close
    with_close.close()


def put(writer, *rows):
    """Put rows (offset, size, tags code, queue offset)."""
    columns = [np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), "qiqq", strict=True)]
    return writer.put_units(*columns)


def put_batch(writer, *rows):
    """Put rows (offset, size, tags code, store time, base, messages)."""
    columns = [np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), "qiqqqi", strict=True)]
    return writer.put_units(*columns)


def messages(count, first=0, size=100):
    """Rows of messages one after the other, from the beginning of a log on."""
    return [(number * size, size, number, first + number) for number in range(count)]


def batches(count, size=100):
    return [(number * size, size, number, 1000 + number, number, 1) for number in range(count)]


def packed(rows):
    return b"".join(UNIT.pack(*row[:3]) for row in rows)


def files(directory):
    return {int(path.name): path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}


def overwrite(directory, start, position, data):
    with (directory / f"{start:020}").open("r+b") as file:
        file.seek(position)
        file.write(data)


def reopened(writer):
    writer.close()
    return type(writer)(writer.directory, writer.mapped_file_size)


# ---- appending ---------------------------------------------------------------------------------------------


def test_nothing_is_made_before_the_first_unit(queue, directory):
    assert (queue.max_phy_offset, queue.max_queue_offset, queue.min_queue_offset) == (-1, 0, 0)
    assert put(queue, *messages(1)[:0], (0, 100, 7, 0)) == 1
    assert files(directory) == {0: UNIT.pack(0, 100, 7).ljust(FILE_SIZE, b"\0")}


def test_no_rows_make_nothing(queue, directory):
    empty = [np.empty(0, kind) for kind in "qiqq"]
    assert queue.put_units(*empty) == 0
    assert not directory.exists()


def test_units_go_on_in_the_next_file(queue, directory):
    rows = messages(25)
    assert put(queue, *rows) == 25
    assert files(directory) == {
        start: packed(rows[start // 20 : start // 20 + 10]).ljust(FILE_SIZE, b"\0") for start in (0, 200, 400)
    }
    assert (queue.max_phy_offset, queue.max_queue_offset) == (2500, 25)


def test_a_full_file_is_followed_by_the_next_unit_s_only(queue, directory):
    put(queue, *messages(10))
    assert list(files(directory)) == [0]
    put(queue, (1000, 100, 0, 10))
    assert sorted(files(directory)) == [0, 200]


def test_a_queue_that_begins_later_has_fillers_in_its_first_file(queue, directory):
    """Corner 38."""
    put(queue, (0, 100, 5, 32))
    assert files(directory) == {600: (FILLER * 2 + UNIT.pack(0, 100, 5)).ljust(FILE_SIZE, b"\0")}
    assert (queue.min_logic_offset, queue.min_queue_offset, queue.max_queue_offset) == (640, 32, 33)


def test_a_queue_that_begins_with_a_file_has_no_fillers(queue, directory):
    put(queue, (0, 100, 5, 30))
    assert files(directory) == {600: UNIT.pack(0, 100, 5).ljust(FILE_SIZE, b"\0")}
    assert queue.min_queue_offset == 30


def test_the_default_file_of_a_late_queue_is_filled_to_its_last_unit(directory):
    writer = ConsumeQueueWriter(directory, 6_000_000)
    put(writer, (0, 100, 5, 299_999), (100, 100, 6, 300_000))
    written = files(directory)
    assert written[0] == FILLER * 299_999 + UNIT.pack(0, 100, 5)
    assert written[6_000_000][:40] == UNIT.pack(100, 100, 6) + bytes(20)
    writer.close()


def test_a_record_that_is_there_is_not_put_again(queue):
    """Corner 40."""
    put(queue, *messages(3))
    assert put(queue, (100, 200, 9, 3)) == 0
    assert put(queue, (250, 51, 9, 3)) == 1
    assert queue.max_phy_offset == 301


def test_a_gap_in_queue_offsets_is_closed(queue, directory):
    """Corner 41."""
    put(queue, *messages(2))
    assert put(queue, (200, 100, 9, 7)) == 1
    assert files(directory)[0][40:60] == UNIT.pack(200, 100, 9)
    assert queue.max_queue_offset == 3


def test_a_queue_offset_that_is_taken_is_not_put(queue):
    put(queue, *messages(2))
    assert put(queue, (200, 100, 9, 1)) == 0
    assert (queue.max_phy_offset, queue.max_queue_offset) == (200, 2)


def test_a_queue_offset_that_is_taken_makes_the_next_file_all_the_same(queue, directory):
    put(queue, *messages(10))
    assert put(queue, (1000, 100, 9, 3)) == 0
    assert files(directory)[200] == bytes(FILE_SIZE)
    assert put(queue, (1000, 100, 9, 10)) == 1
    assert files(directory)[200][:20] == UNIT.pack(1000, 100, 9)


def test_queue_offset_0_is_put_at_the_end_whatever_it_is(queue, directory):
    """Corner 42."""
    put(queue, *messages(3))
    assert put(queue, (300, 100, 9, 0)) == 1
    assert files(directory)[0][60:80] == UNIT.pack(300, 100, 9)


def test_only_some_of_many_rows_are_new(queue, directory):
    rows = [*messages(3), (100, 100, 1, 1), (300, 100, 3, 1), (300, 100, 4, 5), (400, 100, 5, 0), (400, 100, 6, 6)]
    assert put(queue, *rows) == 5
    assert files(directory)[0][60:120] == UNIT.pack(300, 100, 4) + UNIT.pack(400, 100, 5) + bytes(20)


def test_a_file_size_is_rounded_up_to_whole_units(directory):
    """Corner 50."""
    writer = ConsumeQueueWriter(directory, 190)
    put(writer, *messages(11))
    assert {start: len(data) for start, data in files(directory).items()} == {0: 200, 200: 200}
    writer.close()


@pytest.mark.parametrize(("kind", "unit"), [(ConsumeQueueWriter, 0), (BatchConsumeQueueWriter, 45)])
def test_a_file_without_room_for_a_unit_is_refused(directory, kind, unit):
    with pytest.raises(ValueError, match="a unit has"):
        kind(directory, unit)


@pytest.mark.parametrize(
    "row", [(-1, 100, 0, 0), (0, 0, 0, 0), (0, -1, 0, 0), (0, 9, 0, -1), (2**63 - 5, 9, 0, 0), (0, 9, 0, 2**60)]
)
def test_a_row_that_cannot_be_changes_nothing(queue, directory, row):
    with pytest.raises(ValueError, match=r"row 1: .* at"):
        put(queue, (0, 100, 0, 0), row)
    assert not directory.exists()


def test_columns_of_other_types_or_lengths_are_refused(queue):
    good = [np.zeros(2, kind) for kind in "qiqq"]
    with pytest.raises(ValueError, match="differ in length"):
        queue.put_units(*good[:3], good[3][:1])
    with pytest.raises(ValueError, match="dtype mismatch"):
        queue.put_units(good[1], *good[1:])


@pytest.mark.parametrize("case", range(30))
def test_lives_are_the_reference_s(tmp_path, seed, case):
    queue_ops.check_writer(queue_ops.lives(f"{seed} {case}", 1)[0], tmp_path)


@pytest.mark.parametrize("case", range(30))
def test_batch_lives_are_the_reference_s(tmp_path, seed, case):
    queue_ops.check_writer(queue_ops.lives(f"{seed} {case}", 1, batch=True)[0], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{}, {"batch": True}, {"ext_file_size": 70}])
def test_many_lives_are_the_reference_s(tmp_path, seed, kind):
    for number, life in enumerate(queue_ops.lives(f"{seed} many", 400, **kind)):
        queue_ops.check_writer(life, tmp_path / str(number))


@pytest.mark.parametrize("count", [524_287, 524_288, 524_289, 1_100_000])
def test_more_units_than_fit_into_one_part_are_packed(directory, count):
    writer = ConsumeQueueWriter(directory, 20 * count)
    offsets = np.arange(count, dtype=np.int64)
    assert writer.put_units(offsets * 10, np.full(count, 10, np.int32), offsets, offsets) == count
    units = np.frombuffer(files(directory)[0], ">i8,>i4,>i8")
    np.testing.assert_array_equal(units["f0"], offsets * 10)
    np.testing.assert_array_equal(units["f2"], offsets)
    writer.close()


# ---- recovery ----------------------------------------------------------------------------------------------


def test_a_reopened_queue_continues_where_it_was(queue, directory):
    put(queue, *messages(13))
    again = reopened(queue)
    assert (again.max_queue_offset, again.max_phy_offset, again.min_queue_offset) == (13, 1300, 0)
    put(again, (1300, 100, 0, 13))
    assert files(directory)[200][60:80] == UNIT.pack(1300, 100, 0)
    again.close()


def test_put_recovers_first(queue, directory):
    put(queue, *messages(3))
    again = reopened(queue)
    assert put(again, *messages(5)) == 2
    assert files(directory)[0][:100] == packed(messages(5))
    again.close()


@pytest.mark.parametrize("invalid", [bytes(20), UNIT.pack(-1, 100, 0), UNIT.pack(5, 0, 0), UNIT.pack(5, -1, 0)])
def test_the_end_is_before_the_first_invalid_unit(queue, directory, invalid):
    put(queue, *messages(35))
    overwrite(directory, 200, 60, invalid)
    again = reopened(queue)
    assert (again.max_queue_offset, again.max_phy_offset) == (13, 1300)
    assert sorted(files(directory)) == [0, 200]
    assert files(directory)[200][80:] == packed(messages(20)[14:])  # still there
    again.close()


@pytest.mark.parametrize("kind", [ConsumeQueueWriter, BatchConsumeQueueWriter])
@pytest.mark.parametrize("row", [10, 13])
def test_a_writer_that_keeps_files_does_not_end_before_one_of_them(directory, kind, row):
    size, is_batch = 10 * kind.unit_size, kind is BatchConsumeQueueWriter
    writer = kind(directory, size)
    put_batch(writer, *batches(21)) if is_batch else put(writer, *messages(21))
    writer.close()
    overwrite(directory, size, (row - 10) * kind.unit_size, bytes(kind.unit_size))
    before = files(directory)
    writer = kind(directory, size, keeps_files=True)
    with pytest.raises(CorruptFileError, match=r"unit at byte .*recover\(\)") as caught:
        _ = writer.max_queue_offset
    assert (caught.value.path.name, caught.value.offset) == (f"{size:020}", (row - 10) * kind.unit_size)
    assert files(directory) == before
    (directory / f"{2 * size:020}").unlink()
    assert writer.max_queue_offset == row
    writer.close()


def test_units_behind_the_end_come_back_when_the_gap_is_filled(queue, directory):
    put(queue, *messages(10))
    overwrite(directory, 0, 60, bytes(20))
    again = reopened(queue)
    put(again, (300, 100, 3, 3))
    again = reopened(again)
    assert again.max_queue_offset == 10
    again.close()


@pytest.mark.parametrize("cut", ["recover", "truncate"])
def test_units_behind_the_end_do_not_come_back_from_zeros(queue, directory, cut):
    put(queue, *messages(10))
    overwrite(directory, 0, 60, bytes(20))
    again = reopened(queue)
    again.recover(zero=cut == "recover")
    if cut == "truncate":
        again.truncate(300, zero=True)
    assert files(directory) == {0: packed(messages(3)).ljust(FILE_SIZE, b"\0")}
    again.close()


def test_only_the_last_three_files_are_recovered(queue, directory):
    put(queue, *messages(45))
    overwrite(directory, 200, 0, bytes(20))
    again = reopened(queue)
    assert again.max_queue_offset == 45
    again.close()


def test_a_queue_of_fillers_alone_has_them_for_records(queue, directory):
    """Corner 39."""
    directory.mkdir(parents=True)
    (directory / f"{0:020}").write_bytes((FILLER * 3).ljust(FILE_SIZE, b"\0"))
    assert (queue.max_phy_offset, queue.max_queue_offset) == (INT_MAX, 3)
    assert put(queue, (0, 100, 0, 3)) == 0


def test_a_full_last_file_is_recovered_whole(queue):
    put(queue, *messages(20))
    again = reopened(queue)
    assert (again.max_queue_offset, again.max_phy_offset) == (20, 2000)
    again.close()


def test_files_of_another_length_are_refused(queue, directory):
    """Corner 50."""
    put(queue, *messages(15))
    queue.close()
    other = ConsumeQueueWriter(directory, 400)
    with pytest.raises(CorruptFileError, match="200 bytes, but files of 400 are written: check the configuration"):
        other.recover()
    assert sorted(files(directory)) == [0, 200]


def test_an_empty_last_file_is_deleted(queue, directory):
    """Corner 86."""
    put(queue, *messages(10))
    (directory / f"{200:020}").touch()
    again = reopened(queue)
    assert again.max_queue_offset == 10
    assert list(files(directory)) == [0]
    again.close()


def test_an_empty_middle_file_is_refused(queue, directory):
    """Corner 86."""
    put(queue, *messages(15))
    os.truncate(directory / f"{0:020}", 0)
    again = reopened(queue)
    with pytest.raises(CorruptFileError, match="0 bytes"):
        put(again, (1500, 100, 0, 15))


def test_a_recovery_that_failed_is_done_again_before_the_next_unit(queue, directory, monkeypatch):
    put(queue, *messages(13))
    again = reopened(queue)
    with monkeypatch.context() as patch:
        failing(patch, "pread", errno.EIO)
        with pytest.raises(OSError, match="Input/output error"):
            put(again, (1300, 100, 0, 13))
    put(again, (1300, 100, 0, 13))
    assert files(directory)[200][60:80] == UNIT.pack(1300, 100, 0)
    again.close()


def test_other_files_are_left_alone(queue, directory):
    put(queue, *messages(5))
    (directory / "notes").write_text("mine")
    again = reopened(queue)
    again.truncate(0)
    again.destroy()
    assert [path.name for path in directory.iterdir()] == ["notes"]


# ---- truncation --------------------------------------------------------------------------------------------


def test_units_of_records_beyond_the_log_are_cut(queue, directory):
    """Corner 45."""
    put(queue, *messages(25))
    queue.truncate(1350)
    assert (queue.max_queue_offset, queue.max_phy_offset) == (14, 1400)
    assert sorted(files(directory)) == [0, 200]
    assert put(queue, (1400, 100, 9, 14)) == 1
    assert files(directory)[200][80:100] == UNIT.pack(1400, 100, 9)


def test_a_file_that_begins_behind_goes_and_the_one_before_is_looked_at(queue, directory):
    """Corner 47."""
    put(queue, *messages(25))
    queue.truncate(2000)
    assert (queue.max_queue_offset, queue.max_phy_offset) == (20, 2000)
    assert sorted(files(directory)) == [0, 200]


def test_a_queue_of_nothing_but_later_records_is_emptied(queue, directory):
    """Corner 46."""
    put(queue, (500, 100, 0, 30), (600, 100, 0, 31))
    queue.truncate(500)
    assert files(directory) == {}
    assert (queue.max_queue_offset, queue.max_phy_offset) == (0, 500)
    assert put(queue, (400, 100, 0, 32)) == 0
    put(queue, (500, 100, 1, 0))
    assert files(directory) == {0: UNIT.pack(500, 100, 1).ljust(FILE_SIZE, b"\0")}


def test_fillers_are_units_of_the_log_s_first_byte_and_stay(queue, directory):
    put(queue, (500, 100, 0, 32))
    queue.truncate(500)
    assert (queue.max_queue_offset, queue.max_phy_offset) == (32, INT_MAX)
    queue.truncate(0)
    assert files(directory) == {}


def test_an_emptied_queue_begins_with_fillers_again(queue, directory):
    put(queue, (500, 100, 0, 30))
    queue.truncate(500)
    put(queue, (500, 100, 0, 33))
    assert files(directory) == {600: (FILLER * 3 + UNIT.pack(500, 100, 0)).ljust(FILE_SIZE, b"\0")}


def test_an_empty_queue_keeps_the_truncation_for_its_maximum(queue):
    """Corner 46."""
    queue.truncate(700)
    assert (queue.max_phy_offset, queue.max_queue_offset) == (700, 0)


def test_a_file_of_zeros_has_a_phantom_unit_after_a_clean_restart(queue, directory):
    """Corner 43."""
    directory.mkdir(parents=True)
    (directory / f"{0:020}").write_bytes(bytes(FILE_SIZE))
    queue.recover()
    assert (queue.max_queue_offset, queue.max_phy_offset) == (0, -1)
    queue.truncate(1000)
    assert (queue.max_queue_offset, queue.max_phy_offset) == (1, 0)


def test_units_of_a_zeroed_second_file_stay_lost_behind_a_phantom(queue, directory):
    """Corner 44."""
    put(queue, *messages(15))
    overwrite(directory, 200, 0, bytes(FILE_SIZE))
    again = reopened(queue)
    again.recover()
    again.truncate(1500)
    assert (again.max_queue_offset, again.max_phy_offset) == (11, 0)
    again.close()


def test_an_invalid_first_unit_does_not_hide_those_behind_it(queue, directory):
    put(queue, *messages(5))
    overwrite(directory, 0, 0, UNIT.pack(-5, 0, 0))
    queue.truncate(500)
    assert (queue.max_queue_offset, queue.max_phy_offset) == (5, 500)


def test_units_behind_an_earlier_cut_come_back_with_a_later_one(queue):
    put(queue, *messages(5))
    queue.truncate(100)
    queue.truncate(300)
    assert (queue.max_queue_offset, queue.max_phy_offset) == (3, 300)


# ---- first offset and expiry -------------------------------------------------------------------------------


def test_files_of_lost_records_are_deleted_but_never_the_last(queue, directory):
    put(queue, *messages(30))
    expired = [directory / f"{start:020}" for start in (0, 200)]
    assert queue.delete_expired(2950, dry_run=True) == expired
    assert (len(files(directory)), queue.min_queue_offset) == (3, 0)
    assert queue.delete_expired(2950) == expired
    assert (sorted(files(directory)), queue.min_queue_offset) == ([400], 30)


def test_a_file_stays_while_its_last_record_does(queue, directory):
    put(queue, *messages(30))
    assert queue.delete_expired(900) == []
    assert queue.min_queue_offset == 9
    assert [path.name for path in queue.delete_expired(901)] == [f"{0:020}"]
    assert queue.min_queue_offset == 10


def test_a_queue_whose_records_are_all_gone_keeps_its_next_offset(queue):
    """Corner 48."""
    put(queue, *messages(5))
    queue.correct_min_offset(10_000)
    assert (queue.min_queue_offset, queue.max_queue_offset) == (5, 5)
    put(queue, (10_000, 100, 0, 5))
    assert (queue.min_queue_offset, queue.max_queue_offset) == (5, 6)


def test_the_first_offset_is_looked_for_in_the_first_file_only(queue):
    """Corner 49."""
    put(queue, *messages(30))
    queue.correct_min_offset(950)
    assert queue.min_queue_offset == 0
    queue.correct_min_offset(850)
    assert queue.min_queue_offset == 9


def test_the_first_offset_can_land_on_a_filler_after_a_restart(queue):
    """Corner 49."""
    put(queue, (0, 100, 0, 33))
    assert queue.min_queue_offset == 33
    again = reopened(queue)
    again.correct_min_offset(0)
    assert again.min_queue_offset == 31
    again.close()


def test_a_first_offset_that_holds_is_left(queue):
    put(queue, (500, 100, 0, 33))
    queue.correct_min_offset(0)
    assert queue.min_queue_offset == 33


def test_an_empty_queue_has_nothing_to_correct_or_expire(queue, batch_queue):
    for writer in (queue, batch_queue):
        writer.correct_min_offset(100)
        assert writer.delete_expired(100) == []
        assert writer.max_queue_offset == 0


@pytest.mark.parametrize(("compat", "is_reset"), [("5.5.1", True), ("5.5.0", False), ("5.3.3", False)])
def test_the_correction_of_a_queue_without_files_resets_it_from_5_5_1_on(directory, compat, is_reset):
    writer = ConsumeQueueWriter(directory, FILE_SIZE, compat=compat)
    put(writer, (500, 100, 0, 30))
    writer.truncate(400)
    assert (list(directory.iterdir()), writer.min_queue_offset, writer.max_phy_offset) == ([], 30, 400)
    writer.correct_min_offset(0)
    assert (writer.min_queue_offset, writer.max_phy_offset) == ((0, -1) if is_reset else (30, 400))
    assert put(writer, (200, 100, 0, 0)) == is_reset  # the unit of a record before the place that was cut
    writer.close()


# ---- batch queues ------------------------------------------------------------------------------------------


def test_batch_units_are_dense_and_go_on_in_the_next_file(batch_queue, directory):
    rows = [(number * 100, 100, number, 1000 + number, 3 * number, 3) for number in range(12)]
    assert put_batch(batch_queue, *rows) == 12
    units = [pack_batch_unit(*row) for row in rows]
    expected = {0: b"".join(units[:10]), 460: b"".join(units[10:]).ljust(460, b"\0")}
    assert files(directory) == expected
    assert (batch_queue.min_queue_offset, batch_queue.max_queue_offset, batch_queue.max_phy_offset) == (0, 36, 1100)


def test_a_batch_unit_has_minus_one_for_its_compacted_offset(batch_queue, directory):
    """Corner 54."""
    put_batch(batch_queue, (7, 300, 5, 9, 1, 3))
    assert BATCH_UNIT.unpack(files(directory)[0][:46]) == (7, 300, 5, 9, 1, 3, -1, 0)
    assert (batch_queue.min_queue_offset, batch_queue.max_queue_offset) == (1, 4)


def test_a_batch_is_there_if_its_record_begins_before_the_last_one(batch_queue):
    put_batch(batch_queue, (100, 100, 0, 0, 0, 1))
    assert put_batch(batch_queue, (100, 900, 0, 0, 1, 1)) == 0
    assert put_batch(batch_queue, (101, 10, 0, 0, 1, 1)) == 1
    assert batch_queue.max_phy_offset == 101


def test_a_batch_without_base_or_size_is_not_put(batch_queue):
    assert put_batch(batch_queue, (0, 9, 0, 0, -1, 1), (1, 9, 0, 0, 0, -1), (2, 9, 0, 0, 0, 0)) == 1


@pytest.mark.parametrize(("offset", "size", "messages"), [(-1, 9, 1), (0, 0, 1), (0, 9, 2**15), (0, 9, -(2**15) - 1)])
def test_a_batch_that_cannot_be_changes_nothing(batch_queue, directory, offset, size, messages):
    with pytest.raises(ValueError, match="row 0"):
        put_batch(batch_queue, (offset, size, 0, 0, 0, messages))
    assert not directory.exists()


def test_batch_sizes_are_int16_or_int32(batch_queue):
    columns = [np.array([5], kind) for kind in "qiqqq"]
    assert batch_queue.put_units(*columns, np.array([1], np.int16)) == 1
    with pytest.raises(TypeError, match="int64"):
        batch_queue.put_units(*columns, np.array([1]))


def test_a_batch_file_that_is_no_multiple_of_a_unit_never_fills(directory):
    writer = BatchConsumeQueueWriter(directory, 100)
    put_batch(writer, *batches(2))
    with pytest.raises(StoreError, match="mapped_file_size=100 is no multiple of 46"):
        put_batch(writer, (200, 100, 0, 0, 2, 1))
    assert (writer.max_queue_offset, sorted(files(directory))) == (2, [0])
    writer.close()


def test_a_batch_queue_whose_first_units_are_written_in_part_begins_with_them(directory):
    writer = BatchConsumeQueueWriter(directory, 100)
    with pytest.raises(StoreError, match="no multiple of 46"):
        put_batch(writer, *[(100 * row, 100, 0, 0, 5 + row, 1) for row in range(3)])
    assert (writer.min_queue_offset, writer.max_queue_offset) == (5, 7)
    writer.close()


def test_a_reopened_batch_queue_continues_where_it_was(batch_queue, directory):
    put_batch(batch_queue, *batches(12))
    again = reopened(batch_queue)
    assert (again.min_queue_offset, again.max_queue_offset, again.max_phy_offset) == (0, 12, 1100)
    put_batch(again, (1200, 100, 0, 0, 12, 5))
    assert again.max_queue_offset == 17
    again.close()


def test_a_cut_batch_queue_has_the_offsets_of_its_remaining_units(batch_queue):
    put_batch(batch_queue, *batches(12))
    batch_queue.truncate(1000)
    assert (batch_queue.min_queue_offset, batch_queue.max_queue_offset, batch_queue.max_phy_offset) == (0, 10, 900)
    batch_queue.truncate(0)
    assert (batch_queue.min_queue_offset, batch_queue.max_queue_offset, batch_queue.max_phy_offset) == (-1, 0, -1)


def test_a_batch_file_of_zeros_has_a_phantom_unit(batch_queue, directory):
    directory.mkdir(parents=True)
    (directory / f"{0:020}").write_bytes(bytes(BATCH_FILE_SIZE))
    batch_queue.truncate(100)
    assert (batch_queue.min_queue_offset, batch_queue.max_queue_offset, batch_queue.max_phy_offset) == (0, 0, 0)


def test_a_batch_queue_begins_behind_the_batches_that_are_gone(batch_queue, directory):
    put_batch(batch_queue, *[(number * 100, 100, 0, 0, 5 * number, 3) for number in range(15)])
    batch_queue.correct_min_offset(250)
    assert batch_queue.min_queue_offset == 13  # the base of the next is 15
    assert [path.name for path in batch_queue.delete_expired(1250)] == [f"{0:020}"]
    assert (batch_queue.min_queue_offset, batch_queue.min_logic_offset) == (63, 460)


# ---- disk, descriptors -------------------------------------------------------------------------------------


def failing(monkeypatch, name, error=errno.ENOSPC, after=0):
    """Let a call of os fail, after so many that do not."""
    real, calls = getattr(os, name), [0]

    def call(*args, **kwargs):
        calls[0] += 1
        if calls[0] > after:
            raise OSError(error, os.strerror(error))
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("call", ["open", "ftruncate", "pwrite"])
def test_a_unit_that_cannot_be_written_is_not_counted(queue, directory, monkeypatch, call):
    """Corner 56."""
    with monkeypatch.context() as patch:
        failing(patch, call)
        with pytest.raises(OSError, match="No space left"):
            put(queue, (0, 100, 5, 32))
    assert (queue.max_phy_offset, queue.max_queue_offset in (0, 30)) == (-1, True)
    put(queue, (0, 100, 5, 32))
    assert files(directory) == {600: (FILLER * 2 + UNIT.pack(0, 100, 5)).ljust(FILE_SIZE, b"\0")}


@pytest.mark.parametrize("line", range(8))
def test_a_file_that_ctrl_c_came_in_the_making_of_is_made_again(queue, directory, line):
    """At the line of its making that has this number, behind those before the file is there."""
    left = itertools.count(line, -1)

    def at_line(frame, event, _):
        is_begun = frame.f_code is FileRunWriter._create.__code__ and (directory / f"{600:020}").exists()
        if event == "line" and is_begun and next(left) == 0:
            raise KeyboardInterrupt
        return at_line

    sys.settrace(at_line)
    with contextlib.suppress(KeyboardInterrupt):
        put(queue, (0, 100, 5, 32))
    sys.settrace(None)
    put(queue, (0, 100, 5, 32))
    assert files(directory) == {600: (FILLER * 2 + UNIT.pack(0, 100, 5)).ljust(FILE_SIZE, b"\0")}


@pytest.mark.parametrize("after", range(4))
def test_units_in_files_that_were_written_count_and_others_are_put_again(queue, directory, monkeypatch, after):
    rows = messages(35, first=5)
    with monkeypatch.context() as patch:
        failing(patch, "pwrite", errno.EIO, after)
        with pytest.raises(OSError, match="Input/output error"):
            put(queue, *rows)
    assert queue.max_phy_offset == [-1, 500, 1500, 2500][after]
    assert put(queue, *rows) == [35, 30, 20, 10][after]
    assert b"".join(files(directory)[start] for start in (0, 200, 400, 600)) == FILLER * 5 + packed(rows)


def test_short_writes_go_on(queue, directory, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, data[:7], position))
    put(queue, *messages(12))
    assert files(directory)[0] == packed(messages(10))


def test_a_file_that_came_from_elsewhere_is_not_overwritten(queue, directory):
    put(queue, *messages(10))
    (directory / f"{200:020}").write_bytes(b"x" * FILE_SIZE)
    with pytest.raises(FileExistsError):
        put(queue, (1000, 100, 0, 10))
    assert (queue.max_queue_offset, files(directory)[200]) == (10, b"x" * FILE_SIZE)


def test_files_are_sparse(directory):
    writer = ConsumeQueueWriter(directory, 6_000_000)
    put(writer, *messages(1))
    assert (directory / f"{0:020}").stat().st_blocks * 512 < 100_000
    writer.close()


def descriptors(directory):
    paths = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    return [path for path in paths if path.exists() and directory in path.resolve().parents]


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc/self/fd")


@needs_proc
def test_one_descriptor_at_most_is_open(queue, directory):
    put(queue, *messages(35))
    queue.correct_min_offset(150)
    assert len(descriptors(directory)) == 1
    queue.release()
    assert descriptors(directory) == []
    put(queue, (3500, 100, 0, 35))
    assert len(descriptors(directory)) == 1
    queue.close()
    assert descriptors(directory) == []


@needs_proc
def test_a_dropped_writer_closes_its_descriptor(directory):
    writer = ConsumeQueueWriter(directory, FILE_SIZE)
    put(writer, *messages(1))
    del writer
    gc.collect()
    assert descriptors(directory) == []


def test_a_closed_writer_says_so(queue):
    put(queue, *messages(1))
    queue.close()
    queue.close()
    for call in (
        lambda: put(queue, *messages(2)),
        queue.recover,
        queue.flush,
        queue.destroy,
        lambda: queue.truncate(0),
        lambda: queue.delete_expired(0),
        lambda: queue.max_queue_offset,
    ):
        with pytest.raises(StoreClosedError, match="is closed"):
            call()


@pytest.fixture
def synced(monkeypatch):
    """The names of the synced files."""
    names, real = [], os.fsync

    def fsync(fd):
        names.append(Path(f"/proc/self/fd/{fd}").resolve().name)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


@needs_proc
def test_flush_syncs_every_file_and_directory_that_changed(queue, directory, synced):
    put(queue, *messages(25))
    queue.flush()
    made = {path.name for path in (directory, *list(directory.parents)[:3])}
    assert set(synced) == {f"{start:020}" for start in (0, 200, 400)} | made
    synced.clear()
    queue.flush()
    assert synced == []
    put(queue, (2500, 100, 0, 25))
    queue.flush()
    assert synced == [f"{400:020}"]
    synced.clear()
    queue.delete_expired(1500)
    queue.flush()
    assert synced == ["0"]


def test_what_could_not_be_flushed_is_flushed_by_the_next_call(queue, monkeypatch):
    put(queue, *messages(25))
    with monkeypatch.context() as patch:
        failing(patch, "fsync", errno.EIO, 1)
        with pytest.raises(OSError, match="Input/output error"):
            queue.flush()
    count, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (count.append(fd), real(fd)))
    queue.flush()
    assert len(count) == 2 + 4  # files and directories


@needs_proc
def test_units_that_are_written_during_a_flush_are_flushed_by_the_next_flush(queue, synced, monkeypatch):
    put(queue, *messages(1))
    real = os.fsync

    def fsync(fd):
        real(fd)
        put(queue, *messages(queue.max_queue_offset + 1))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        queue.flush()
    synced.clear()
    queue.flush()
    assert synced == [f"{0:020}"]


@pytest.mark.parametrize("is_copied", [True, False])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_file_that_somebody_deleted_or_replaced_is_an_error_of_the_flush_or_of_the_next_unit(
    queue, directory, is_open, is_copied
):
    *first, last = messages(16)
    put(queue, *first)
    path = directory / f"{FILE_SIZE:020}"
    path.rename(directory / "old")
    if is_copied:
        path.write_bytes((directory / "old").read_bytes())
    if not is_open:
        queue.release()
        with pytest.raises(StoreError, match=f"{path.name}: was removed or replaced"):
            put(queue, last)
    with pytest.raises(StoreError, match=f"{path.name}: was removed or replaced"):
        queue.flush()
    (directory / "old").replace(path)
    put(queue, last)
    queue.flush()
    assert queue.max_queue_offset == 16


def test_a_destroyed_queue_is_empty_and_can_be_filled_again(queue, directory):
    put(queue, *messages(25, first=3))
    queue.destroy()
    assert not directory.exists()
    assert (queue.max_phy_offset, queue.max_queue_offset, queue.min_queue_offset) == (-1, 0, 0)
    queue.flush()
    put(queue, *messages(1, first=12))
    assert files(directory) == {200: (FILLER * 2 + UNIT.pack(0, 100, 0)).ljust(FILE_SIZE, b"\0")}


def test_a_queue_is_destroyed_unseen(queue, directory):
    put(queue, *messages(25))
    os.truncate(directory / f"{400:020}", 0)
    again = reopened(queue)
    again.destroy()
    assert not directory.exists()


def test_a_file_that_was_cut_while_open_is_an_error(queue, directory):
    put(queue, *messages(25))
    os.truncate(directory / f"{0:020}", 10)
    with pytest.raises(CorruptFileError, match="cut while open"):
        queue.delete_expired(5000)
    assert len(files(directory)) == 3


def test_a_reader_sees_new_units(queue, directory):
    put(queue, *messages(3))
    with ConsumeQueue.open(directory, mapped_file_size=FILE_SIZE) as reader:
        assert len(reader) == 3
        put(queue, *[row for row in messages(25) if row[0] >= 300])
        assert reader[:].phy_offsets.tolist() == [row[0] for row in messages(25)]


def test_a_queue_s_ext_units_are_flushed_released_and_closed_with_it(tmp_path, directory):
    ext = ConsumeQueueExtWriter(tmp_path / "ext", 100)
    writer = ConsumeQueueWriter(directory, FILE_SIZE, ext)
    put(writer, (0, 100, ext.put(5, 1000), 0))
    writer.flush()
    writer.release()
    writer.destroy()
    assert (files(tmp_path / "ext"), files(directory)) == ({}, {})
    writer.close()
    with pytest.raises(StoreClosedError):
        ext.put(5, 1000)

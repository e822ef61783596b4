"""Disk space that is reserved in steps ahead of the place that is written."""

import errno

import pytest

from rocketstore.disk.reservation import FIRST_STEP, LARGEST_STEP, STEP, Reservation

SIZE = 1 << 30


def steps_of(reservation, allocated, count):
    for _ in range(count):
        reservation.extend(reservation.end + 1)
    return [end - begin for begin, end in allocated]


def test_steps_double_up_to_the_largest_one():
    allocated = []
    reservation = Reservation(lambda *part: allocated.append(part), SIZE, 0, is_whole=False)
    assert steps_of(reservation, allocated, 9) == [FIRST_STEP, *(STEP << n for n in range(7)), LARGEST_STEP]
    assert [begin for begin, _ in allocated[1:]] == [end for _, end in allocated[:-1]]
    assert reservation.end == allocated[-1][1]
    assert reservation.extend(reservation.end) == reservation.end
    assert len(allocated) == 9


def test_the_last_step_ends_with_the_file_and_one_may_be_the_whole_file():
    allocated = []
    reservation = Reservation(lambda *part: allocated.append(part), STEP + 1000, STEP, is_whole=False)
    assert reservation.extend(STEP + 1) == STEP + 1000
    assert allocated == [(STEP, STEP + 1000)]
    whole = Reservation(lambda *part: allocated.append(part), SIZE, 100, is_whole=True)
    assert whole.extend(101) == SIZE
    assert allocated[1:] == [(100, SIZE)]


def test_a_disk_without_room_for_a_step_still_has_room_for_the_bytes():
    room = 500_000

    def allocate(begin, end):
        if end > room:
            raise OSError(errno.ENOSPC, "full")

    reservation = Reservation(allocate, SIZE, 0, is_whole=False)
    assert reservation.extend(10) == FIRST_STEP
    assert reservation.extend(FIRST_STEP + 10) == FIRST_STEP + 10
    assert reservation.extend(room) == room
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            reservation.extend(room + 1)
        assert reservation.end == room


def test_another_error_is_not_tried_again():
    def allocate(begin, end):
        raise OSError(errno.EIO, "broken")

    with pytest.raises(OSError, match="broken"):
        Reservation(allocate, SIZE, 0, is_whole=False).extend(1)

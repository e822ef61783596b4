"""Which files of a log are read for a range of store times, by the first messages of files."""

import random

import pytest
from reference.commit_log import make_commit_log

from rocketstore import CommitLog
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.file_times import CLOCK_SLACK, choose_files, describe_skipped, has_other_times

BEGIN = 1_700_000_000_000
DAY = 86_400_000
FILE = 1024


def make_log(root, days):
    """Make a log with a file for each list of days, the store times of its messages; an empty list: a file of zeros."""
    times = [day for of_file in days for day in of_file]
    sizes = iter([len(of_file) for of_file in days if of_file])
    assert all(size == 2 for size in sizes)  # two messages fill a file
    records = [{"body": bytes(300), "store_timestamp": BEGIN + round(day * DAY)} for day in times]
    root.mkdir()
    make_commit_log(root, FILE, records)
    for number, of_file in enumerate(days):
        if not of_file:
            (root / f"{number * FILE:020}").write_bytes(bytes(FILE))
    return CommitLog.open(root)


def numbers_read(log, first, last, **options):
    """Return the numbers of the files that are read for a range of days, both inclusive."""
    times = BEGIN + round(first * DAY), BEGIN + round(last * DAY)
    chosen = choose_files(log, 0, len(log.file_run.files) * FILE, *times, **options)
    assert sorted(chosen.ranges + chosen.skipped) == [
        (number * FILE, (number + 1) * FILE) for number in range(len(log.file_run.files))
    ]
    return [begin // FILE for begin, _ in chosen.ranges]


def pairs(*days):
    return [[day, day + 0.1] for day in days]


def test_files_are_read_around_the_range_as_far_as_clocks_may_differ(tmp_path):
    with make_log(tmp_path / "log", pairs(*range(0, 100, 5))) as log:
        assert numbers_read(log, 50, 53) == [8, 9, 10, 11]  # file 10 has day 50
        assert numbers_read(log, 50, 54) == [8, 9, 10, 11, 12]  # file 11 has day 55


@pytest.mark.parametrize(
    ("times", "is_skipped"),
    [
        ([0, 1, 2, 3], True),
        ([0, 1, 2, 18.9], True),
        ([0, 1, 2, 19], False),  # the second file behind begins near the range
        ([19, 2, 3, 4], False),  # so does the file before
        ([0, 1, 2, 40], False),  # the range is between the file and its neighbour
        ([40, 41, 42, 43], True),
        ([31.1, 32, 33, 34], True),
        ([31, 32, 33, 34], False),
        ([40, 41, 42, 40.9], False),  # a clock was set back by more than a day
        ([40, 41, 42, 41.1], True),
        ([0, 1, 2, None], False),
        ([None, 1, 2, 3], False),
        ([0, None, 2, 3], False),
        ([0, 1, 2], True),  # no second file behind
        ([0, 1], False),  # the last file may have newer messages
        ([40, 41], True),  # but no older ones
    ],
)
def test_a_file_is_skipped_if_four_messages_are_far_from_the_range(times, is_skipped):
    """The range is from day 20 to day 30. The second time is that of the file."""
    known = {n: None if day is None else BEGIN + round(day * DAY) for n, day in enumerate(times)}
    assert has_other_times(known, 1, BEGIN + 20 * DAY, BEGIN + 30 * DAY) == is_skipped


def test_the_first_file_is_skipped_by_the_messages_behind_it():
    assert has_other_times({0: BEGIN, 1: BEGIN + 1, 2: BEGIN + 2}, 0, BEGIN + 2 * DAY, LONG_MAX)
    assert not has_other_times({0: BEGIN, 1: BEGIN + 1, 2: BEGIN + 2}, 0, BEGIN + DAY, LONG_MAX)


def test_a_file_that_a_broker_made_ahead_does_not_keep_others_from_being_skipped(tmp_path):
    days = pairs(0, 5, 10, 15)
    with make_log(tmp_path / "log", [*days, []]) as log:
        assert numbers_read(log, 90, 99) == [3, 4]
    with make_log(tmp_path / "other", days) as log:
        assert numbers_read(log, 90, 99) == [3]


def test_files_around_a_damaged_first_message_are_read(tmp_path):
    with make_log(tmp_path / "log", pairs(*range(0, 50, 5))) as log:
        assert numbers_read(log, 40, 45) == [6, 7, 8, 9]
        (tmp_path / "log" / f"{3 * FILE:020}").write_bytes(b"\xde\xad" * (FILE // 2))
        assert numbers_read(log, 40, 45) == [1, 2, 3, 4, 6, 7, 8, 9]


def test_a_part_of_the_log_is_judged_by_the_files_around_it(tmp_path):
    with make_log(tmp_path / "log", pairs(0, 5, 10, 15, 20, 25)) as log:
        begin, end = 3 * FILE + 400, 4 * FILE
        assert choose_files(log, begin, end, BEGIN + 5 * DAY, BEGIN + 8 * DAY).ranges == []
        assert choose_files(log, begin, end, BEGIN + 5 * DAY, BEGIN + 9 * DAY).ranges == [(begin, end)]
        assert choose_files(log, end, end, BEGIN, BEGIN) == ([], [])


def test_all_files_are_read_if_times_must_be_exact(tmp_path):
    with make_log(tmp_path / "log", pairs(0, 5, 10)) as log:
        assert numbers_read(log, 90, 99, exact_times=True) == [0, 1, 2]
        assert choose_files(log, 0, 3 * FILE, LONG_MIN, LONG_MAX).skipped == []


def test_a_log_without_files_has_no_skipped_file(tmp_path):
    with CommitLog.open(tmp_path) as log:
        assert choose_files(log, 0, LONG_MAX, BEGIN, BEGIN).skipped == []


def test_clocks_that_are_wrong_by_less_than_a_day_hide_no_message(tmp_path, seed):
    """Within a file. Another master's clock, or messages of another store, may differ by more from some message on."""
    draw = random.Random(seed)
    days, start, skipped = [], 0, 0
    for _ in range(80):
        start += draw.choice([0.1, 3])
        step = draw.choice([-30, 30]) if draw.random() < 0.1 else 0
        days.append([start, start + step + draw.choice([0, 0, -0.99, 0.99])])
        start += step
    with make_log(tmp_path / "log", days) as log:
        times = [BEGIN + round(day * DAY) for of_file in days for day in of_file]
        for _ in range(60):
            first = draw.choice(times)
            last = first + draw.randrange(DAY)
            chosen = choose_files(log, 0, len(days) * FILE, first, last)
            wanted = {number // 2 for number, time in enumerate(times) if first <= time <= last}
            assert wanted <= {begin // FILE for begin, _ in chosen.ranges}
            skipped += len(chosen.skipped)
    assert skipped


def test_the_assumption_is_described_only_if_files_were_skipped():
    assert describe_skipped([]) == []
    assert describe_skipped([(0, 1)])[0].startswith("1 log file of other times was not read")
    assert describe_skipped([(0, 1), (1, 2)])[0].startswith("2 log files of other times were not read")
    assert f"{CLOCK_SLACK // 3_600_000} hours" in describe_skipped([(0, 1)])[0]

"""Consume queues and batch consume queues: units, ranges, beginning and end, search by time, growth while open."""

import io
import mmap
import pickle
import struct
import sys

import numpy as np
import pytest
import reference.consume_queue as oracle
from reference.consume_queue import pack_batch_unit
from reference.queue_reads import BufferUnderflow, get_offset_in_queue_by_time
from support import stores

import rocketstore
from rocketstore import BatchConsumeQueue, ConsumeQueue, CorruptFileError, Message, StoreClosedError, StoreConfig
from rocketstore.queue.unit_run import UnitRun

UNIT = struct.Struct(">qiq")
FILLER = UNIT.pack(0, 2**31 - 1, 0)
FILE_SIZE, BATCH_FILE_SIZE = 200, 460  # ten units each


class Log:
    """A commit log of records of 100 bytes with these store times; a time of -1 cannot be read."""

    def __init__(self, times, min_phy_offset=0):
        self.times = times
        self.min_phy_offset = self.min_offset = min_phy_offset

    def pickup_store_timestamp(self, phy_offset, size):
        if phy_offset < self.min_phy_offset or size != 100 or phy_offset // 100 >= len(self.times):
            return -1
        return self.times[phy_offset // 100]


def write(directory, units, *, first=0, file_size=FILE_SIZE, fill=True):
    """Write units as a run of files whose first unit is queue offset ``first``; the last file is filled with zeros."""
    directory.mkdir(parents=True, exist_ok=True)
    unit_size = len(units[0]) if units else 20
    per_file = file_size // unit_size
    start = first // per_file
    for number in range(0, max(len(units), 1), per_file):
        data = b"".join(units[number : number + per_file])
        data = data.ljust(file_size, b"\0") if fill else data
        (directory / f"{(start + number // per_file) * file_size:020}").write_bytes(data)
    return directory


def units_of(n, first=0, size=100):
    return [UNIT.pack(100 * i, size, 7 * i - 50) for i in range(first, first + n)]


def batch_units(sizes, *, first=0, times=None):
    units = []
    for i, size in enumerate(sizes):
        units.append(pack_batch_unit(100 * i, 100, i, times[i] if times else 1000 + i, first, size))
        first += size
    return units


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "consumequeue" / "TopicA" / "3"


# ---- units and ranges --------------------------------------------------------------------------------------


def test_a_unit_has_the_offset_and_size_of_its_record_and_the_tags_code(directory):
    """Corner 37."""
    write(directory, [UNIT.pack(2**62, 2**31 - 1, -(2**63)), UNIT.pack(0, 1, 2**63 - 1), UNIT.pack(5, 91, -1)])
    queue = ConsumeQueue.open(directory)
    assert list(queue[:]) == [
        (0, 2**62, 2**31 - 1, -(2**63), False, 1, -1, -1),
        (1, 0, 1, 2**63 - 1, False, 1, -1, -1),
        (2, 5, 91, -1, False, 1, -1, -1),
    ]
    assert queue[1].tags_code == 2**63 - 1
    assert (queue.topic, queue.queue_id) == ("TopicA", 3)


def test_units_come_as_columns_of_numpy(directory):
    queue = ConsumeQueue.open(write(directory, units_of(25)))
    units = queue[8:23]
    assert len(units) == 15
    for column, dtype in [
        ("queue_offsets", np.int64),
        ("phy_offsets", np.int64),
        ("sizes", np.int32),
        ("tags_codes", np.int64),
        ("is_filler", np.bool_),
    ]:
        assert getattr(units, column).dtype == dtype
    assert units.queue_offsets.tolist() == list(range(8, 23))
    assert units.phy_offsets.tolist() == [100 * i for i in range(8, 23)]
    assert units.sizes.tolist() == [100] * 15
    assert units.tags_codes.tolist() == [7 * i - 50 for i in range(8, 23)]
    assert not units.is_filler.any()
    assert (units.batch_nums, units.store_timestamps, units.compacted_offsets) == (None, None, None)


@pytest.mark.parametrize("n", [1, 9, 10, 11, 30, 47])
def test_ranges_are_those_of_a_list(directory, n, seed):
    queue = ConsumeQueue.open(write(directory, units_of(n)))
    offsets = list(range(n))
    assert (queue.min_queue_offset, queue.max_queue_offset, len(queue)) == (0, n, n)
    assert [unit.queue_offset for unit in queue[:]] == offsets
    random = np.random.default_rng(seed)
    for _ in range(200):
        start, stop = (None if random.random() < 0.1 else int(random.integers(-n - 3, n + 3)) for _ in range(2))
        assert queue[start:stop].queue_offsets.tolist() == offsets[start:stop]
    for i in range(-n, n):
        assert queue[i].queue_offset == offsets[i]
        assert queue[np.int64(i)] == queue[i]
    for i in (n, -n - 1, 2**70, -(2**70)):
        with pytest.raises(IndexError, match=rf"0 to {n - 1}$"):
            queue[i]
    assert len(queue[-(2**70) : 2**70]) == n


def test_only_whole_numbers_are_queue_offsets_and_a_range_has_no_step(directory):
    queue = ConsumeQueue.open(write(directory, units_of(3)))
    with pytest.raises(TypeError):
        queue[1.0]
    with pytest.raises(TypeError):
        queue["1":]
    assert list(queue) == list(queue[0:3])
    with pytest.raises(ValueError, match="step"):
        queue[::2]
    assert len(queue[0:3:1]) == 3


def test_columns_stay_when_the_queue_is_closed(directory):
    queue = ConsumeQueue.open(write(directory, units_of(25)))
    units = queue[:]
    queue.close()
    assert units.phy_offsets.sum() == 100 * 24 * 25 // 2


# ---- beginning ---------------------------------------------------------------------------------------------


def test_a_queue_that_begins_at_32_has_two_fillers_before(directory):
    """Corner 38."""
    queue = ConsumeQueue.open(write(directory, [FILLER] * 2 + units_of(5, 32), first=30))
    assert [path.name for path in directory.iterdir()] == ["00000000000000000600"]
    assert (queue.min_queue_offset, queue.max_queue_offset, len(queue)) == (32, 37, 5)
    assert [unit.queue_offset for unit in queue[:]] == list(range(32, 37))
    assert queue[:].queue_offsets[0] == 32
    assert queue[0:].is_filler.tolist() == [True, True] + [False] * 5
    assert queue[0:34].queue_offsets.tolist() == [30, 31, 32, 33]
    assert queue[31] == (31, 0, 2**31 - 1, 0, True, 1, -1, -1)
    with pytest.raises(IndexError, match=r"29: queue offsets are 32 to 36$"):
        queue[29]


def test_a_queue_of_fillers_alone_begins_where_it_ends(directory):
    queue = ConsumeQueue.open(write(directory, [FILLER] * 2, first=30))
    assert (queue.min_queue_offset, queue.max_queue_offset, len(queue), list(queue[:])) == (32, 32, 0, [])
    with pytest.raises(IndexError, match=r"no unit 32: it has none$"):
        queue[32]


def test_units_before_the_log_are_no_part_of_the_queue_but_stored(directory):
    write(directory, units_of(35))
    for expired in range(36):
        queue = ConsumeQueue.open(directory, commit_log=Log([], min_phy_offset=100 * expired))
        assert (queue.min_queue_offset, queue.max_queue_offset) == (min(expired, 35), 35)
        assert len(queue) == len(queue[:]) == 35 - min(expired, 35)
        assert queue[0].phy_offset == 0
    between = ConsumeQueue.open(directory, commit_log=Log([], min_phy_offset=1150))
    assert between.min_queue_offset == 12


def test_without_a_log_that_has_files_nothing_has_expired(directory):
    write(directory, [FILLER, *units_of(5, 1)])
    assert ConsumeQueue.open(directory, commit_log=Log([], min_phy_offset=-1)).min_queue_offset == 1


def test_a_real_unit_at_the_log_s_beginning_is_no_filler(directory):
    assert ConsumeQueue.open(write(directory, units_of(5))).min_queue_offset == 0


# ---- end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [(0, 0, 0), (-1, 100, 0), (100, -1, 0), (-(2**63), -(2**31), 5)])
def test_the_first_invalid_unit_ends_the_queue(directory, unit):
    units = units_of(18)
    units[13] = UNIT.pack(*unit)
    queue = ConsumeQueue.open(write(directory, units))
    assert (queue.max_queue_offset, len(queue[:])) == (13, 13)


def test_only_the_last_three_files_are_looked_through_for_the_end(directory):
    units = units_of(50)
    units[5] = UNIT.pack(0, 0, 0)
    queue = ConsumeQueue.open(write(directory, units))
    assert queue.max_queue_offset == 50
    units[25] = UNIT.pack(0, 0, 0)
    assert ConsumeQueue.open(write(directory, units)).max_queue_offset == 25


def test_an_empty_directory_and_a_file_of_zeros_are_empty_queues(directory):
    directory.mkdir(parents=True)
    queue = ConsumeQueue.open(directory)
    assert (queue.min_queue_offset, queue.max_queue_offset, len(queue), list(queue[:])) == (0, 0, 0, [])
    (directory / f"{0:020}").write_bytes(bytes(FILE_SIZE))
    assert (queue.min_queue_offset, queue.max_queue_offset, len(queue), list(queue[:])) == (0, 0, 0, [])
    with pytest.raises(IndexError):
        queue[-1]
    (directory / f"{0:020}").rename(directory / f"{600:020}")
    queue = ConsumeQueue.open(directory)
    assert (queue.min_queue_offset, queue.max_queue_offset) == (30, 30)


@pytest.mark.parametrize("file_size", [8000, 20480, 24000])  # only the second has whole pages
def test_the_end_of_a_sparse_queue_is_found_near_every_page_s_end(directory, file_size):
    per_file = file_size // 20
    page_ends = range(mmap.PAGESIZE, 2 * file_size, mmap.PAGESIZE)
    counts = {end // 20 + step for end in (*page_ends, file_size) for step in range(-2, 4)}
    for count in sorted(count for count in counts if count < 2 * per_file):
        directory.mkdir(parents=True, exist_ok=True)
        for start in range(0, count + 1, per_file):
            with (directory / f"{start * 20:020}").open("wb") as file:
                file.write(b"".join(units_of(min(count - start, per_file), start)))
                file.truncate(file_size)
        queue = ConsumeQueue.open(directory, mapped_file_size=file_size)
        assert (queue.max_queue_offset, len(queue)) == (count, count)
        with (directory / f"{count // per_file * file_size:020}").open("r+b") as file:
            for more in range(count, min(count + 3, count // per_file * per_file + per_file)):
                file.seek(more % per_file * 20)
                file.write(units_of(1, more)[0])
                file.flush()
                assert queue.max_queue_offset == more + 1
        queue.close()


def test_the_hole_behind_the_units_of_a_queue_is_never_mapped(directory, monkeypatch):
    """On a full tmpfs a look at it through a mapping kills the process."""
    count = mmap.PAGESIZE // 20 * 5  # 1,020 units end four bytes before a page does
    directory.mkdir(parents=True)
    with (directory / f"{0:020}").open("wb") as file:
        file.write(b"".join(units_of(count)))
        file.truncate(60_000)
    looked = []
    real = UnitRun.map_span

    def units_of_span(run, span):
        looked.append(span)
        return real(run, span)

    monkeypatch.setattr(UnitRun, "map_span", units_of_span)
    queue = ConsumeQueue.open(directory, mapped_file_size=60_000)
    for _ in range(3):
        assert queue.max_queue_offset == count
    assert all((stop - 1) // mmap.PAGESIZE <= (count * 20 - 1) // mmap.PAGESIZE for _, stop in looked)


def test_a_queue_grows_while_it_is_open(directory):
    write(directory, units_of(0))
    queue = ConsumeQueue.open(directory)
    assert len(queue) == 0
    for n in range(1, 36):
        path = directory / f"{(n - 1) // 10 * FILE_SIZE:020}"
        if n % 10 == 1:
            path.write_bytes(bytes(FILE_SIZE))  # a new file of zeros has no unit yet
            assert queue.max_queue_offset == n - 1
        with path.open("r+b") as file:
            file.seek((n - 1) % 10 * 20)
            file.write(units_of(1, n - 1)[0][:8])  # the offset alone is half a unit
            file.flush()
            assert queue.max_queue_offset == n - 1
            file.write(units_of(1, n - 1)[0][8:])
        assert (queue.max_queue_offset, queue[-1].phy_offset, len(queue)) == (n, 100 * (n - 1), n)


def test_first_files_that_go_while_it_is_open_move_the_beginning(directory):
    write(directory, units_of(35))
    queue = ConsumeQueue.open(directory)
    assert (queue.min_queue_offset, queue[2].phy_offset) == (0, 200)
    (directory / f"{0:020}").unlink()
    assert (queue.min_queue_offset, queue.max_queue_offset, len(queue)) == (10, 35, 25)
    assert queue[0:12].queue_offsets.tolist() == [10, 11]
    with pytest.raises(IndexError):
        queue[2]


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda queue: queue[0:12].queue_offsets.tolist(), [10, 11]),
        (lambda queue: queue.file_range(12), (10, 20)),
        (lambda queue: queue.get_offset_by_time(0), 10),
    ],
)
def test_a_file_that_went_since_it_was_listed_is_no_damage(read, found, directory):
    write(directory, units_of(35))
    queue = ConsumeQueue.open(directory, commit_log=Log(list(range(35))))
    assert queue.max_queue_offset == 35
    (directory / f"{0:020}").unlink()
    assert read(queue) == found
    with pytest.raises(IndexError):
        queue[2]


def test_a_last_file_that_goes_while_it_is_open_moves_the_end(directory):
    write(directory, units_of(35))
    queue = ConsumeQueue.open(directory)
    assert queue.max_queue_offset == 35
    (directory / f"{600:020}").unlink()
    (directory / f"{400:020}").unlink()
    queue.min_queue_offset  # noqa: B018  lists the files again
    assert queue.max_queue_offset == 20


@pytest.mark.parametrize("left", [0, 7, 10, 17, 20, 24])
def test_units_that_a_recovery_cuts_off_while_it_is_open_are_gone(left, directory):
    write(directory, units_of(25))
    queue = ConsumeQueue.open(directory)
    assert queue.max_queue_offset == 25
    for path in directory.iterdir():
        kept = max(left * 20 - int(path.name), 0)
        with path.open("r+b") as file:
            file.seek(min(kept, FILE_SIZE))
            file.write(bytes(max(FILE_SIZE - kept, 0)))
    assert queue.max_queue_offset == left
    with pytest.raises(IndexError):
        queue[left]


@pytest.mark.parametrize("n", [2, 20, 25])
@pytest.mark.parametrize("fill", [True, False])
def test_a_queue_that_is_made_again_while_it_is_open_is_the_new_one(n, fill, directory):
    write(directory, units_of(20))
    queue = ConsumeQueue.open(directory)
    assert queue[3].phy_offset == 300
    for path in directory.iterdir():
        path.unlink()
    write(directory, units_of(n, 50), fill=fill)
    assert queue.max_queue_offset == n
    assert queue[:].phy_offsets.tolist() == [100 * i for i in range(50, 50 + n)]


def test_a_last_file_without_its_end_counts_as_far_as_it_goes(directory):
    write(directory, units_of(27), fill=False)
    path = directory / f"{400:020}"
    for length in range(140, 0, -1):
        path.write_bytes(path.read_bytes()[:length])
        queue = ConsumeQueue.open(directory)
        assert (queue.max_queue_offset, len(queue[:])) == (20 + length // 20, 20 + length // 20)
    path.write_bytes(b"")
    assert ConsumeQueue.open(directory).max_queue_offset == 20


# ---- by time -----------------------------------------------------------------------------------------------


def test_a_time_is_found_by_its_first_and_its_last_message(directory):
    log = Log([1000 + 10 * (i // 3) for i in range(9)])  # 1000, 1000, 1000, 1010, ...
    queue = ConsumeQueue.open(write(directory, units_of(9)), commit_log=log)
    assert [queue.get_offset_by_time(time) for time in (999, 1000, 1010, 1020)] == [0, 0, 3, 6]
    assert [queue.get_offset_by_time(time, "upper") for time in (1000, 1010, 1020)] == [2, 5, 8]


def test_a_time_before_all_is_min_and_one_after_all_is_max_or_the_last(directory):
    """Corner 105."""
    queue = ConsumeQueue.open(write(directory, units_of(35)), commit_log=Log(list(range(1000, 1035))))
    assert [queue.get_offset_by_time(5, boundary) for boundary in ("lower", "upper")] == [0, 0]
    assert [queue.get_offset_by_time(9999, boundary) for boundary in ("lower", "upper")] == [35, 34]


def test_a_time_in_a_gap_has_its_upper_one_before_its_lower(directory):
    """Corner 106."""
    queue = ConsumeQueue.open(write(directory, units_of(9)), commit_log=Log(list(range(1000, 1090, 10))))
    assert [queue.get_offset_by_time(1045, boundary) for boundary in ("lower", "upper")] == [5, 4]


def test_a_search_by_time_needs_a_log_and_a_boundary(directory):
    queue = ConsumeQueue.open(write(directory, units_of(9)))
    with pytest.raises(ValueError, match="commit_log"):
        queue.get_offset_by_time(1000)
    with pytest.raises(ValueError, match="'lower' or 'upper'"):
        queue.get_offset_by_time(1000, "LOWER")


@pytest.mark.parametrize("case", range(40))
def test_times_are_found_as_the_reference_finds_them(directory, seed, case):
    random = np.random.default_rng([seed, case])
    n, fillers = int(random.integers(1, 60)), int(random.integers(0, 10))
    steps = random.choice([0, 0, 1, 7], n + fillers)
    if case % 4 == 0:
        steps = random.integers(-5, 6, n + fillers)  # a clock that is set back
    times = (1000 + np.cumsum(steps)).tolist()
    for i in random.integers(0, n + fillers, case % 3):
        times[i] = -1
    log = Log(times, int(random.integers(0, 100 * (n + fillers))) if case % 2 else 0)
    write(directory, [FILLER] * fillers + units_of(n, fillers), first=100)
    queue = ConsumeQueue.open(directory, commit_log=log)
    expected = oracle.load(directory, FILE_SIZE)
    expected.min_logic_offset = queue.min_queue_offset * 20
    for time in {0, 999, 10**13, *(time + step for time in times for step in (-1, 0, 1))}:
        for boundary in ("lower", "upper"):
            try:
                answer = get_offset_in_queue_by_time(expected, log, time, boundary)
            except BufferUnderflow:  # in Java; here it is an offset like any other
                answer = queue.min_queue_offset
            assert queue.get_offset_by_time(time, boundary) == answer, (time, boundary)


# ---- opening, closing, sending -----------------------------------------------------------------------------


def test_nothing_but_a_directory_can_be_opened(directory, tmp_path):
    with pytest.raises(FileNotFoundError):
        ConsumeQueue.open(directory)
    write(directory, units_of(3))
    with pytest.raises(NotADirectoryError):
        ConsumeQueue.open(directory / f"{0:020}")
    with pytest.raises(ValueError, match="mode"):
        ConsumeQueue.open(directory, "w")
    for size in (0, -20, 19):
        with pytest.raises(ValueError, match="mapped_file_size"):
            ConsumeQueue.open(directory, mapped_file_size=size)


def test_a_file_size_is_rounded_up_to_whole_units(directory):
    write(directory, units_of(25))
    assert ConsumeQueue.open(directory, mapped_file_size=181).max_queue_offset == 25
    assert len(ConsumeQueue.open(directory, mapped_file_size=200)[:]) == 25
    with ConsumeQueue.open(directory / "new", "a", mapped_file_size=np.uint32(200)) as queue:
        assert queue.mapped_file_size == 200


def test_other_names_in_the_directory_are_left_alone(directory):
    write(directory, units_of(15))
    for name in ("1", "0" * 19, "0" * 21, "0000000000000000020x", "99999999999999999999", "abc"):
        (directory / name).write_bytes(b"x" * 50)
    (directory / f"{800:020}").mkdir()
    queue = ConsumeQueue.open(directory)
    assert (queue.min_queue_offset, queue.max_queue_offset) == (0, 15)


@pytest.mark.parametrize("name", ["..", ".", "-1", "abc", "%RETRY%g", "ä" * 40, "a b\n", "0" * 200])
def test_a_directory_of_any_name_is_read_and_nothing_else(tmp_path, name):
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    directory = inner / name
    queue = ConsumeQueue.open(write(directory, units_of(3)))
    assert (len(queue), len(list(inner.rglob("*")))) == (3, 1 if name == "." else 0 if name == ".." else 2)


def test_the_queue_id_is_the_directory_s_number(tmp_path):
    assert ConsumeQueue.open(write(tmp_path / "T" / "-1", units_of(1))).queue_id == -1
    with pytest.raises(ValueError, match="abc"):
        ConsumeQueue.open(write(tmp_path / "T" / "abc", units_of(1))).queue_id  # noqa: B018


def test_a_closed_queue_says_so(directory):
    write(directory, units_of(15))
    for used in (False, True):
        with ConsumeQueue.open(directory) as queue:
            assert not used or len(queue) == 15
        for call in (lambda: queue[0], lambda: queue[:], lambda: len(queue), lambda: queue.min_queue_offset):
            with pytest.raises(StoreClosedError, match="closed"):
                call()
        assert repr(queue) == f"<ConsumeQueue {str(directory)!r}, closed>"
        queue.close()


def test_repr_gives_the_range(directory):
    queue = ConsumeQueue.open(write(directory, units_of(1234), file_size=20_000))
    assert repr(queue) == f"<ConsumeQueue {str(directory)!r}, 0 to 1,234>"


def test_repr_of_a_queue_that_cannot_be_read_says_why(directory):
    write(directory, units_of(15))
    (directory / f"{7:020}").touch()
    assert "file size" in repr(ConsumeQueue.open(directory))


def test_repr_of_a_queue_whose_log_is_closed_says_so(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        store.put_message(Message("T", b"", queue_id=0))
    with rocketstore.open(tmp_path) as store:
        queue = store.consume_queue("T", 0)
        store.commit_log.close()
        assert repr(queue).endswith(", closed>")


@pytest.mark.parametrize("kind", [ConsumeQueue, BatchConsumeQueue])
def test_a_queue_is_pickled_as_path_and_options(directory, monkeypatch, kind):
    units = units_of(15) if kind is ConsumeQueue else batch_units([1] * 15)
    size = 10 * kind.unit_size
    write(directory, units, file_size=size)
    monkeypatch.chdir(directory.parent)
    queue = kind.open(directory.name, mapped_file_size=size, commit_log=Log([1, 2, 3], 300))
    assert len(queue) == 12
    sent = pickle.dumps(queue)
    assert len(sent) < 1000
    monkeypatch.chdir("/")
    again = pickle.loads(sent)
    assert (type(again), len(again), again.min_queue_offset, again.directory) == (kind, 12, 3, directory)


def test_opening_reads_no_file_and_holds_little(directory):
    write(directory, units_of(15))
    queue = ConsumeQueue.open(directory)
    held = [queue, *(getattr(queue, name) for name in queue.__slots__)]
    assert sum(map(sys.getsizeof, held)) < 1024
    assert queue.run._file_run is None


# ---- batch queues ------------------------------------------------------------------------------------------


def test_any_message_of_a_batch_leads_to_its_unit(directory):
    sizes = [1, 5, 2, 1, 1, 30, 3, 1, 1, 1, 4, 2]
    queue = BatchConsumeQueue.open(write(directory, batch_units(sizes), file_size=BATCH_FILE_SIZE))
    assert (queue.min_queue_offset, queue.max_queue_offset, len(queue)) == (0, 52, 52)
    owners = [i for i, size in enumerate(sizes) for _ in range(size)]
    bases = [sum(sizes[:i]) for i in range(len(sizes))]
    for offset, owner in enumerate(owners):
        unit = (bases[owner], 100 * owner, 100, owner, False, sizes[owner], 1000 + owner, -1)
        assert queue[offset] == queue[offset - 52] == unit
        assert queue[offset : offset + 1].queue_offsets.tolist() == [bases[owner]]
    with pytest.raises(IndexError):
        queue[52]
    assert [unit.tags_code for unit in queue[:]] == list(range(12))


def test_a_range_of_a_batch_queue_has_each_batch_that_it_touches(directory, seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 6, 40).tolist()
    queue = BatchConsumeQueue.open(write(directory, batch_units(sizes, first=7), file_size=BATCH_FILE_SIZE))
    bases = [7 + sum(sizes[:i]) for i in range(len(sizes))]
    end = 7 + sum(sizes)
    assert (queue.min_queue_offset, queue.max_queue_offset) == (7, end)
    for _ in range(300):
        start, stop = sorted(random.integers(0, end + 3, 2).tolist())
        touched = [b for b, s in zip(bases, sizes, strict=True) if start < stop and b < stop and start < b + s]
        assert queue[start:stop].queue_offsets.tolist() == touched, (start, stop)
    for offset in (0, 6, end):
        with pytest.raises(IndexError):
            queue[offset]


def test_columns_of_batch_units_have_their_types(directory):
    queue = BatchConsumeQueue.open(write(directory, batch_units([3, 32767]), file_size=BATCH_FILE_SIZE))
    units = queue[:]
    columns = (
        units.queue_offsets,
        units.phy_offsets,
        units.sizes,
        units.tags_codes,
        units.batch_nums,
        units.store_timestamps,
        units.compacted_offsets,
    )
    assert [column.dtype.name for column in columns] == ["int64", "int64", "int32", "int64", "int32", "int64", "int32"]
    assert [column.tolist() for column in columns] == [
        [0, 3],
        [0, 100],
        [100, 100],
        [0, 1],
        [3, 32767],
        [1000, 1001],
        [-1, -1],
    ]


def test_an_empty_batch_queue_begins_at_minus_one(directory):
    directory.mkdir(parents=True)
    for _ in range(2):
        queue = BatchConsumeQueue.open(directory)
        assert (queue.min_queue_offset, queue.max_queue_offset, len(queue), list(queue[:])) == (-1, 0, 0, [])
        assert queue.get_offset_by_time(5) == -1
        assert queue.file_range(0) is None
        with pytest.raises(IndexError):
            queue[0]
        (directory / f"{0:020}").write_bytes(bytes(BATCH_FILE_SIZE))


@pytest.mark.parametrize("field", ["offset", "size", "base", "batch"])
def test_the_first_invalid_batch_unit_ends_the_queue(directory, field):
    units = batch_units([2] * 15)
    values = {"offset": 1, "size": 1, "base": 1, "batch": 1, field: -1}
    units[12] = pack_batch_unit(values["offset"], values["size"], 0, 0, values["base"], values["batch"])
    queue = BatchConsumeQueue.open(write(directory, units, file_size=BATCH_FILE_SIZE))
    assert (queue.max_queue_offset, len(queue[:])) == (24, 12)


def test_batches_before_the_log_are_no_part_of_the_queue(directory):
    write(directory, batch_units([3] * 15), file_size=BATCH_FILE_SIZE)
    for expired in range(12):
        queue = BatchConsumeQueue.open(directory, commit_log=Log([], 100 * expired))
        assert queue.min_queue_offset == 3 * min(expired, 10)  # only the first file is looked at


def test_a_file_size_that_is_no_multiple_of_a_unit_leaves_a_rest_in_each_file(directory):
    units = batch_units([2] * 9)
    directory.mkdir(parents=True)
    for start in range(0, 9, 3):
        (directory / f"{start // 3 * 150:020}").write_bytes(b"".join(units[start : start + 3]).ljust(150, b"\0"))
    queue = BatchConsumeQueue.open(directory)
    assert (queue.max_queue_offset, [unit.queue_offset for unit in queue[3:15]]) == (18, [2, 4, 6, 8, 10, 12, 14])


@pytest.mark.parametrize("case", range(20))
def test_times_of_batches_are_found_as_the_reference_finds_them(directory, seed, case):
    random = np.random.default_rng([seed, case])
    n = int(random.integers(1, 45))
    times = (1000 + np.cumsum(random.choice([0, 1, 1, 9], n))).tolist()
    write(directory, batch_units(random.integers(1, 4, n).tolist(), times=times), file_size=BATCH_FILE_SIZE)
    log = Log([], int(random.integers(0, 100 * n)))
    queue = BatchConsumeQueue.open(directory, commit_log=log)
    expected = oracle.load(directory, BATCH_FILE_SIZE, 46)
    oracle.correct_min_offset(expected, log.min_phy_offset)
    assert (queue.min_queue_offset, queue.max_queue_offset) == (expected.min_offset, expected.max_offset)
    for time in {0, 10**13, *(time + step for time in times for step in (-1, 0, 1))}:
        for boundary in ("lower", "upper"):
            found = queue.get_offset_by_time(time, boundary)
            assert found == get_offset_in_queue_by_time(expected, log, time, boundary), (time, boundary)


def test_a_batch_queue_grows_while_it_is_open(directory):
    units = batch_units([3] * 25)
    directory.mkdir(parents=True)
    queue = BatchConsumeQueue.open(directory)
    for n in range(1, 26):
        write(directory, units[:n], file_size=BATCH_FILE_SIZE)
        assert (queue.max_queue_offset, queue[-1].phy_offset) == (3 * n, 100 * (n - 1))


# ---- writing: more of it in test_consume_queue_writer.py ----------------------------------------------------


def files_of(directory):
    return {int(path.name): path.read_bytes() for path in directory.iterdir()}


def test_units_that_are_put_are_rocketmq_s_bytes_and_read_at_once(directory):
    with ConsumeQueue.open(directory, "a", mapped_file_size=FILE_SIZE) as queue:
        assert (len(queue), queue.max_queue_offset) == (0, 0)
        assert queue.put_unit(100, 91, -7, 32)
        assert queue.put_units([200, 300], np.array([91, 91], np.int32), [1, 2], 33) == 2
        assert queue.put_units([400, 500], [91, 91], [3, 4], np.array([35, 99])) == 2  # a gap is closed
        assert list(queue[:].queue_offsets) == [32, 33, 34, 35, 36]
        assert queue[:].phy_offsets.tolist() == [100, 200, 300, 400, 500]
        assert queue[-1] == (36, 500, 91, 4, False, 1, -1, -1)
        queue.flush()
    units = [UNIT.pack(100 * n, 91, code) for n, code in enumerate([-7, 1, 2, 3, 4], 1)]
    assert files_of(directory) == {600: b"".join([FILLER, FILLER, *units]).ljust(FILE_SIZE, b"\0")}


def test_a_unit_that_is_there_is_not_put_again(directory):
    with ConsumeQueue.open(directory, "a", mapped_file_size=FILE_SIZE) as queue:
        assert [queue.put_unit(0, 100, 1, 0), queue.put_unit(0, 100, 1, 0), queue.put_unit(100, 5, 1, 1)] == [1, 0, 1]


@pytest.mark.parametrize("name", ["basic-5.5.0", "step-5.3.3", "batch-5.5.0"])
def test_the_units_of_a_golden_queue_make_the_same_files_again(name, tmp_path):
    with rocketstore.open(stores.unpack(name, tmp_path / "golden")) as store:
        for topic, queue_id in store.queues():
            theirs = store.consume_queue(topic, queue_id)
            units, size = theirs[0:], theirs.mapped_file_size
            directory = tmp_path / topic / str(queue_id)
            with type(theirs).open(directory, "a", mapped_file_size=size) as ours:
                real = ~units.is_filler
                columns = [c[real] for c in (units.phy_offsets, units.sizes, units.tags_codes, units.queue_offsets)]
                more = {}
                if units.batch_nums is not None:
                    more = {"batch_nums": units.batch_nums, "store_timestamps": units.store_timestamps}
                assert ours.put_units(*columns, **more) == sum(real)
                assert list(ours[0:]) == list(units)
            assert files_of(directory) == files_of(theirs.directory)


def test_batch_units_follow_one_another_by_their_messages(tmp_path):
    with BatchConsumeQueue.open(tmp_path / "0", "a", mapped_file_size=BATCH_FILE_SIZE) as queue:
        assert queue.put_units([0, 100], [100, 90], [5, 6], 1, batch_nums=[3, 1], store_timestamps=[1000, 1001]) == 2
        assert queue.put_unit(190, 90, 7, 5, batch_num=2, store_timestamp=1002)
        assert (queue.min_queue_offset, queue.max_queue_offset) == (1, 7)
        assert queue[3] == (1, 0, 100, 5, False, 3, 1000, -1)
    units = [pack_batch_unit(0, 100, 5, 1000, 1, 3), pack_batch_unit(100, 90, 6, 1001, 4, 1)]
    units.append(pack_batch_unit(190, 90, 7, 1002, 5, 2))
    assert files_of(tmp_path / "0") == {0: b"".join(units).ljust(BATCH_FILE_SIZE, b"\0")}


def test_writing_continues_where_the_queue_ends_with_the_size_of_its_files(directory):
    write(directory, units_of(13))
    with ConsumeQueue.open(directory, "r+") as queue:
        assert queue.put_units([1300, 1400], [100, 100], [41, 48], 13) == 2
        assert (queue.max_queue_offset, queue.mapped_file_size) == (15, FILE_SIZE)
    units = units_of(15)
    assert files_of(directory) == {0: b"".join(units[:10]), 200: b"".join(units[10:]).ljust(FILE_SIZE, b"\0")}


def test_a_new_queue_has_rocketmq_s_file_size(tmp_path):
    with ConsumeQueue.open(tmp_path / "0", "a") as queue:
        assert not list((tmp_path / "0").iterdir())
        queue.put_unit(0, 100, 0, 0)
    assert (tmp_path / "0" / f"{0:020}").stat().st_size == 6_000_000


def test_only_a_makes_a_directory_and_only_r_puts_nothing(directory):
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError):
            ConsumeQueue.open(directory, mode)
    with ConsumeQueue.open(directory, "a", mapped_file_size=FILE_SIZE) as queue:
        queue.put_unit(0, 100, 0, 0)
        with pytest.raises(TypeError, match="only a reader"):
            pickle.dumps(queue)
    with pytest.raises(StoreClosedError):
        queue.put_unit(100, 100, 0, 1)
    with ConsumeQueue.open(directory) as queue:
        for call in (queue.flush, lambda: queue.put_unit(100, 100, 0, 1)):
            with pytest.raises(io.UnsupportedOperation, match="mode 'a'"):
                call()


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (([-1], [100], [0], 0), ValueError),
        (([0], [0], [0], 0), ValueError),
        (([0], [2**31], [0], 0), ValueError),
        (([0], [100], [2**63], 0), ValueError),
        (([0], [100], [0], -1), ValueError),
        (([0], [100], [0], 2**63), ValueError),
        (([0], [100], [0, 1], 0), ValueError),
        (([0], [100], [0], [0, 1]), ValueError),
        (([0], [100], [0], 0.5), TypeError),
        (([0.5], [100], [0], 0), TypeError),
    ],
)
def test_a_row_that_cannot_be_is_refused_and_nothing_is_put(columns, error, directory):
    with ConsumeQueue.open(directory, "a", mapped_file_size=FILE_SIZE) as queue, pytest.raises(error):
        queue.put_units(*columns)
    assert not list(directory.iterdir())


def test_files_that_cannot_be_continued_are_refused_and_stay(directory):
    write(directory, [*units_of(5), bytes(20), *units_of(9, 6)])
    before = files_of(directory)
    with pytest.raises(CorruptFileError, match="a file of the queue follows"):
        ConsumeQueue.open(directory, "r+")
    assert files_of(directory) == before

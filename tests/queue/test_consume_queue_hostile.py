"""Consume queues of damaged, cut, missing and foreign files; the bounds of their kernels."""

import struct
import threading

import numpy as np
import pytest
from reference.consume_queue import BATCH_UNIT, UNIT, Unit
from test_consume_queue import BATCH_FILE_SIZE, FILE_SIZE, FILLER, Log, batch_units, units_of, write

from rocketstore import BatchConsumeQueue, ConsumeQueue, CorruptFileError, StoreClosedError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.consume_queue import (
    count_valid_units,
    decode_batch_units,
    decode_units,
    find_unit,
    read_ext_unit,
    sum_sizes,
)
from rocketstore.queue.queue_source import ranges_to_read

LONG_MAX = 2**63 - 1


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "T" / "0"


def columns(n):
    return np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(n, np.int64)


def read_everything(queue):
    """Every answer a queue gives."""
    least, most = max(queue.min_queue_offset, 0), queue.max_queue_offset
    units = list(queue[:])
    assert len(queue) == most - least
    for offset in range(least, min(most, least + 100)):
        unit = queue[offset]
        assert unit.queue_offset <= offset
    for boundary in ("lower", "upper"):
        assert queue.min_queue_offset <= queue.get_offset_by_time(1005, boundary) <= most
    return units


# ---- kernels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 262_143, 262_144, 262_145, 600_000])
def test_columns_are_numpy_s_own_at_every_length_and_alignment(n, seed):
    random = np.random.default_rng(seed)
    data = random.bytes(20 * n + 9)
    for pos in (0, 1, 7, 9):
        phy_offsets, sizes, tags_codes = columns(n)
        decode_units(Buffer(data), pos, phy_offsets, sizes, tags_codes)
        units = np.frombuffer(data, np.dtype([("p", ">i8"), ("s", ">i4"), ("t", ">i8")]), n, pos)
        assert np.array_equal(phy_offsets, units["p"])
        assert np.array_equal(sizes, units["s"])
        assert np.array_equal(tags_codes, units["t"])


@pytest.mark.parametrize("n", [0, 1, 17, 262_145])
def test_columns_of_batch_units_are_those_of_struct(n, seed):
    data = np.random.default_rng(seed).bytes(46 * n + 3)
    longs, ints = np.zeros((4, n + 2), np.int64), np.zeros((3, n + 2), np.int32)
    decode_batch_units(Buffer(data), 3, longs, ints, 1, n + 1)
    for i in {0, n // 2, n - 1} & set(range(n)):
        phy, size, code, time, base, batch, compacted, _ = BATCH_UNIT.unpack_from(data, 3 + 46 * i)
        assert longs[:, i + 1].tolist() == [base, phy, code, time]
        assert ints[:, i + 1].tolist() == [size, batch, compacted]
    assert not longs[:, [0, -1]].any()
    assert not ints[:, [0, -1]].any()


@pytest.mark.parametrize("unit_size", [20, 46])
def test_kernels_read_no_unit_that_is_not_whole_in_the_buffer(unit_size):
    size = 3 * unit_size + 5
    buffer = Buffer(b"\1" * size, "file")
    positions = [-(2**63), -1, 0, 1, 5, 6, unit_size, size - unit_size, size - unit_size + 1, size, size + 1, LONG_MAX]
    counts = [-(2**63), -1, 0, 1, 2, 3, 4, LONG_MAX // 20, LONG_MAX // 20 + 1, LONG_MAX]
    for pos in positions:
        for n in counts:
            if pos >= 0 and n >= 0 and pos + n * unit_size <= size:
                assert count_valid_units(buffer, pos, n, unit_size) == n
                assert find_unit(buffer, pos, n, unit_size, 0, LONG_MAX) == n
                assert sum_sizes(buffer, pos, n, unit_size) == n * 0x01010101
                continue
            for call in (count_valid_units, sum_sizes, lambda *args: find_unit(*args, 0, 5)):
                with pytest.raises(CorruptFileError) as caught:
                    call(buffer, pos, n, unit_size)
                assert (caught.value.path, caught.value.offset) == ("file", pos)
        for n in (1, 2, 3, 4, 1000):
            if pos >= 0 and pos + 20 * n <= size:
                continue
            with pytest.raises(CorruptFileError):
                decode_units(buffer, pos, *columns(n))
        for n in (1, 4, 1000):
            if pos >= 0 and pos + 46 * n <= size:
                continue
            with pytest.raises(CorruptFileError):
                decode_batch_units(buffer, pos, np.zeros((4, n), np.int64), np.zeros((3, n), np.int32), 0, n)


def test_kernels_refuse_other_unit_sizes_fields_and_columns():
    buffer = Buffer(bytes(460))
    for unit_size in (0, -20, 1, 19, 40, 2**62):
        with pytest.raises(ValueError, match="unit_size"):
            count_valid_units(buffer, 0, 1, unit_size)
    for field, unit_size in [(-1, 20), (13, 20), (2**62, 20), (39, 46)]:
        with pytest.raises(ValueError, match="field"):
            find_unit(buffer, 0, 1, unit_size, field, 0)
    phy_offsets, sizes, tags_codes = columns(5)
    for others in [(sizes[:4], tags_codes), (sizes, tags_codes[:4])]:
        with pytest.raises(ValueError, match="length"):
            decode_units(buffer, 0, phy_offsets, *others)
    with pytest.raises(ValueError, match="dtype"):
        decode_units(buffer, 0, phy_offsets, tags_codes, sizes)
    longs, ints = np.zeros((4, 5), np.int64), np.zeros((3, 5), np.int32)
    for args in [(longs[:3].copy(), ints, 0, 5), (longs, ints[:2].copy(), 0, 5), (longs, ints, 0, 6),
                 (longs, ints, -1, 3), (longs, ints, 3, 2), (longs, ints[:, :4].copy(), 0, 5)]:  # fmt: skip
        with pytest.raises(ValueError, match="expected"):
            decode_batch_units(buffer, 0, *args)


def test_kernels_know_when_a_buffer_was_closed():
    buffer = Buffer(bytes(460), "file")
    buffer.close()
    longs, ints = np.zeros((4, 1), np.int64), np.zeros((3, 1), np.int32)
    for call in (
        lambda: decode_units(buffer, 0, *columns(1)),
        lambda: decode_batch_units(buffer, 0, longs, ints, 0, 1),
        lambda: count_valid_units(buffer, 0, 1, 20),
        lambda: sum_sizes(buffer, 0, 1, 20),
        lambda: find_unit(buffer, 0, 1, 20, 0, 1),
        lambda: read_ext_unit(buffer, 0),
    ):
        with pytest.raises(StoreClosedError):
            call()


@pytest.mark.parametrize("n", [0, 1, 17, 524_290])
def test_the_sum_of_sizes_leaves_out_fillers_and_has_64_bits(n, seed):
    units = np.frombuffer(np.random.default_rng([seed, n]).bytes(20 * n), [("p", ">i8"), ("s", ">i4"), ("t", ">i8")])
    data = FILLER + units.tobytes() + FILLER
    assert sum_sizes(Buffer(data), 0, n + 2, 20) == int(units["s"].sum(dtype=np.int64))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 100])
def test_the_first_unit_of_a_value_is_found_after_fillers(n, seed):
    random = np.random.default_rng([seed, n])
    offsets = np.sort(random.integers(0, 50, n)).tolist()
    for fillers in {0, n // 3, n}:
        data = FILLER * fillers + b"".join(UNIT.pack(offset, 100, 0) for offset in offsets[fillers:])
        for value in (-(2**63), -1, 0, 1, *range(0, 52, 3), LONG_MAX):
            expected = next((i for i in range(fillers, n) if offsets[i] >= value), n)
            assert find_unit(Buffer(data), 0, n, 20, 0, value) == expected


def test_a_search_in_units_without_order_ends(seed):
    data = np.random.default_rng(seed).bytes(46 * 200)
    for unit_size, n in [(20, 460), (46, 200)]:
        for value in (-(2**63), 0, 12345, LONG_MAX):
            assert 0 <= find_unit(Buffer(data), 0, n, unit_size, 0, value) <= n


def test_valid_units_are_counted_over_several_parts():
    unit = UNIT.pack(0, 1, 0)
    for n in (262_143, 262_144, 262_145, 524_288, 600_000):
        data = unit * n + UNIT.pack(0, 0, 0) + unit * 5
        assert count_valid_units(Buffer(data), 0, n + 6, 20) == n
        assert count_valid_units(Buffer(data), 0, n, 20) == n


def test_units_are_valid_that_are_valid_in_the_reference():
    for offset in (-1, 0, 5):
        for size in (-1, 0, 1):
            simple = UNIT.pack(offset, size, 1)
            assert count_valid_units(Buffer(simple), 0, 1, 20) == Unit(offset, size, 1, 0).is_valid
            for base in (-1, 0, 7):
                for batch in (-1, 0, 2):
                    data = BATCH_UNIT.pack(offset, size, 1, 9, base, batch, -1, 0)
                    assert count_valid_units(Buffer(data), 0, 1, 46) == Unit(offset, size, 1, base, batch).is_valid


# ---- damage ------------------------------------------------------------------------------------------------


def test_a_flipped_byte_changes_its_unit_or_cuts_the_queue(directory, seed):
    random = np.random.default_rng(seed)
    write(directory, units_of(25))
    sound = list(ConsumeQueue.open(directory)[:])
    for path in sorted(directory.iterdir()):
        data = path.read_bytes()
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= int(random.integers(1, 256))
            path.write_bytes(damaged)
            queue = ConsumeQueue.open(directory, commit_log=Log([1000 + i for i in range(25)]))
            read_everything(queue)
            units, number = list(queue[0:]), (int(path.name) + at) // 20
            if len(units) >= 25:
                assert units[:number] + units[number + 1 : 25] == sound[:number] + sound[number + 1 :]
            else:
                assert (len(units), units) == (number, sound[:number])
        path.write_bytes(data)


def test_a_flipped_byte_of_a_batch_queue_ends_in_an_answer(directory, seed):
    random = np.random.default_rng(seed)
    write(directory, batch_units([2] * 14), file_size=BATCH_FILE_SIZE)
    for path in sorted(directory.iterdir()):
        data = path.read_bytes()
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= int(random.integers(1, 256))
            path.write_bytes(damaged)
            queue = BatchConsumeQueue.open(directory, commit_log=Log([], 300))
            units = list(queue[queue.min_queue_offset :])
            assert len(units) <= 20
            for offset in range(-3, 40):
                try:
                    queue[offset]
                except IndexError:
                    continue
            for boundary in ("lower", "upper"):
                queue.get_offset_by_time(1005, boundary)
        path.write_bytes(data)


@pytest.mark.parametrize("number", range(4))
def test_a_cut_file_is_an_end_or_an_error_that_names_it(directory, number):
    units = units_of(37)
    write(directory, units)
    path = directory / f"{number * FILE_SIZE:020}"
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        for size in (None, FILE_SIZE):
            queue = ConsumeQueue.open(directory, mapped_file_size=size, commit_log=Log([1000] * 40))
            if number == 3:
                n = 30 + min(length // 20, 7)
                assert [unit.phy_offset for unit in read_everything(queue)] == list(range(0, 100 * n, 100))
                continue
            with pytest.raises(CorruptFileError) as caught:
                read_everything(queue)
            assert caught.value.path == path
            assert queue[number * 10 + 10 :].phy_offsets.tolist() == list(range(1000 * (number + 1), 3700, 100))


def test_a_missing_file_is_an_error_that_names_it_and_the_rest_is_read(directory):
    write(directory, units_of(45))
    (directory / f"{FILE_SIZE:020}").unlink()
    queue = ConsumeQueue.open(directory)
    assert (queue.min_queue_offset, queue.max_queue_offset) == (0, 45)
    assert queue[0:10].phy_offsets.tolist() == list(range(0, 1000, 100))
    assert queue[20:].phy_offsets.tolist() == list(range(2000, 4500, 100))
    assert queue[44].phy_offset == 4400
    for call in (lambda: queue[:], lambda: queue[10], lambda: queue[9:11], lambda: queue[19]):
        with pytest.raises(CorruptFileError, match="missing") as caught:
            call()
        assert caught.value.path == directory / f"{FILE_SIZE:020}"


def test_files_of_another_size_than_given_are_refused(directory):
    write(directory, units_of(25))
    for size in (180, 20, 140):
        with pytest.raises(CorruptFileError, match=f"files of {size} are expected") as caught:
            len(ConsumeQueue.open(directory, mapped_file_size=size))
        assert (caught.value.path.parent, caught.value.field) == (directory, "file size")
    with pytest.raises(CorruptFileError):
        ConsumeQueue.open(directory, mapped_file_size=400)[:]


@pytest.mark.parametrize("name", ["1", "7", "19", "21", "203"])
def test_a_file_that_begins_within_a_unit_is_refused(directory, name):
    write(directory, units_of(25))
    (directory / name.zfill(20)).write_bytes(bytes(FILE_SIZE))
    with pytest.raises(CorruptFileError) as caught:
        len(ConsumeQueue.open(directory))
    assert caught.value.field == "file size"


def test_a_file_that_begins_within_another_is_refused(directory):
    write(directory, units_of(25))
    (directory / "20".zfill(20)).write_bytes(bytes(FILE_SIZE))
    for size in (None, FILE_SIZE):
        with pytest.raises(CorruptFileError, match="expected"):
            len(ConsumeQueue.open(directory, mapped_file_size=size))


def test_the_largest_file_name_is_read_like_another(directory):
    start = LONG_MAX // FILE_SIZE * FILE_SIZE
    directory.mkdir(parents=True)
    (directory / f"{start:020}").write_bytes(b"".join(units_of(3)).ljust(FILE_SIZE, b"\0"))
    queue = ConsumeQueue.open(directory, mapped_file_size=FILE_SIZE)
    first = start // 20
    assert (queue.min_queue_offset, queue.max_queue_offset) == (first, first + 3)
    assert queue[:].queue_offsets.tolist() == [first, first + 1, first + 2]


def test_random_bytes_end_in_an_answer_or_an_error(directory, seed):
    random = np.random.default_rng(seed)
    directory.mkdir(parents=True)
    for _ in range(100):
        for number in range(3):
            tame = bytes(random.choice([0, 1, 127], FILE_SIZE).tolist())
            (directory / f"{number * FILE_SIZE:020}").write_bytes([tame, random.bytes(FILE_SIZE)][random.integers(2)])
        for kind in (ConsumeQueue, BatchConsumeQueue):
            log = Log(random.integers(-5, 2000, 50).tolist(), int(random.integers(9)))
            queue = kind.open(directory, commit_log=log)
            assert isinstance(queue.min_queue_offset, int)
            assert len(queue) >= 0
            list(queue[:])
            for offset in (0, -1, 5, 10**6):
                try:
                    queue[offset]
                except IndexError:
                    continue
            for boundary in ("lower", "upper"):
                queue.get_offset_by_time(1000, boundary)


def test_bases_at_the_end_of_a_long_do_not_overflow(directory):
    data = struct.pack(">qiqqqhii", 0, 100, 0, LONG_MAX, LONG_MAX, 32767, -1, 0)
    queue = BatchConsumeQueue.open(write(directory, [data] * 3, file_size=BATCH_FILE_SIZE))
    assert (queue.min_queue_offset, queue.max_queue_offset) == (LONG_MAX, LONG_MAX)
    assert list(queue[0:]) == []
    with pytest.raises(IndexError):
        queue[-1]


# ---- while open --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ConsumeQueue, BatchConsumeQueue])
@pytest.mark.parametrize("n", [1999, 2000])
def test_a_file_that_is_cut_while_open_is_an_error_and_then_an_end(directory, kind, n):
    units = units_of(n) if kind is ConsumeQueue else batch_units([1] * n)
    write(directory, units, file_size=2000 * kind.unit_size)
    queue = kind.open(directory)
    assert len(queue[:]) == n
    with (directory / f"{0:020}").open("r+b") as file:
        file.truncate(100)
    for call in (lambda: queue[0:], lambda: queue[1], lambda: queue[n - 1 :]):
        with pytest.raises(CorruptFileError, match="cut") as caught:
            call()
        assert caught.value.offset == 100
    assert queue.min_queue_offset == 0  # lists the files again
    assert len(queue[:]) == 100 // kind.unit_size


def test_close_waits_for_what_other_threads_read(directory):
    write(directory, units_of(5000), file_size=20_000)
    failures = []

    def read(queue):
        try:
            while True:
                assert queue[100:4900].phy_offsets[-1] == 489_900
        except StoreClosedError:
            pass
        except BaseException as error:
            failures.append(error)

    for _ in range(10):
        queue = ConsumeQueue.open(directory)
        threads = [threading.Thread(target=read, args=(queue,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        queue[0:10]
        queue.close()
        for thread in threads:
            thread.join()
    assert failures == []


def test_a_batch_unit_with_an_immense_offset_is_read_at_once(directory):
    bases = [0, 1 << 62]
    data = b"".join(struct.pack(">qiqqqhii", 100 * i, 50, 0, 5 + i, base, 1, -1, 0) for i, base in enumerate(bases))
    queue = BatchConsumeQueue.open(write(directory, [data], file_size=BATCH_FILE_SIZE))
    assert [unit.queue_offset for unit in queue] == bases
    assert queue.count_bytes(0, queue.max_queue_offset) == 100
    assert list(ranges_to_read(queue, 0, queue.max_queue_offset, 1)) == [(0, (1 << 62) + 1)]

"""Readers, writers and close() at once: nothing that was there is missed, nothing that was put is lost."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.subprocesses import in_subprocess

from rocketstore import IndexFile, StoreClosedError

SLOTS = 509
OLD = 2_000  # keys that are in the file before anything happens; key_hash and phy_offset of item k are k
BIG = 140_000  # keys of a batch that is split between two threads
BEGIN = 10**12


def columns(first, n):
    """The columns of items `first` to `first + n - 1`. Each item has its own key hash."""
    ordinals = np.arange(first, first + n)
    return ordinals.astype(np.int32), ordinals, BEGIN + ordinals


def filled(path, index_num, n=OLD):
    """Make a file of n items, open for writing, that is no longer fresh."""
    with IndexFile.create(path, hash_slot_num=SLOTS, index_num=index_num) as file:
        file.put_key_hashes(*columns(1, n))
    return IndexFile.open(path, "r+", hash_slot_num=SLOTS, index_num=index_num)


def assert_holds(file, n):
    """The file has n items, and each of the first n hashes is found once, at its own offset."""
    assert len(file) == n
    hashes, offsets, _ = columns(1, n)
    found = file.select_phy_offsets_by_hash(hashes)
    np.testing.assert_array_equal(found.offsets, np.arange(n + 1))
    np.testing.assert_array_equal(found.values, offsets)


def in_threads(*works):
    """Run all at once; the errors they end with, in the order of the works."""
    errors = [None] * len(works)

    def run(i, work):
        try:
            work()
        except BaseException as error:
            errors[i] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return errors


# ---- close() beside readers and a writer -------------------------------------------------------------------


def read_scalars(file):
    key_hash = 0
    while True:
        file.select_phy_offset("T#any")
        key_hash = key_hash % OLD + 1
        assert file.select_phy_offsets_by_hash(np.array([key_hash], np.int32)).to_pylist() == [[key_hash]]
        assert len(file) >= OLD


def read_batches(file, n, threads):
    hashes = np.resize(columns(1, OLD)[0], n)
    while True:
        found = file.select_phy_offsets_by_hash(hashes, threads=threads)
        np.testing.assert_array_equal(found.values, hashes)


def write(file):
    """Put until the file is closed, by ones and by batches."""
    first = OLD + 1
    while len(file) < file.index_num - 300:
        assert file.put_key_hashes(*columns(first, 200)) == 200
        assert file.put_key("T#any", first, BEGIN)
        first += 200
    while True:
        file.flush()


def read_write_and_close(directory):
    for round_number in range(6):
        file = filled(f"{directory}/{round_number}", 400_000)
        readers = [lambda f=file: read_scalars(f)] * 4 + [lambda f=file: read_batches(f, OLD, 1)] * 2
        readers += [lambda f=file: read_batches(f, BIG, 2)] * 2

        def close(f=file, delay=0.02 * round_number):
            time.sleep(delay)
            f.close()

        *errors, error_of_close = in_threads(*readers, lambda f=file: write(f), close)
        assert error_of_close is None
        for error in errors:
            assert isinstance(error, StoreClosedError), repr(error)
        with IndexFile.open(file.path, hash_slot_num=SLOTS, index_num=400_000) as again:
            old = columns(1, OLD)[0]
            np.testing.assert_array_equal(again.select_phy_offsets_by_hash(old).values, old)


def test_close_beside_eight_readers_and_a_writer_ends_all_with_store_closed_error(tmp_path):
    in_subprocess(read_write_and_close, tmp_path)


def close_while_a_fresh_file_is_filled(directory):
    n = 1_000_000
    batch = columns(1, n)
    for round_number in range(8):
        file = IndexFile.create(f"{directory}/{round_number}", hash_slot_num=100_000, index_num=n + 1)
        begun = threading.Event()

        def close(f=file, begun=begun, delay=0.003 * round_number):
            begun.wait()
            time.sleep(delay)
            f.close()

        def put(f=file, begun=begun):
            begun.set()
            f.put_key_hashes(*batch)

        def write_to_another_file(path=Path(directory, "stranger"), begun=begun):
            """It gets the descriptor's number as soon as close() gives that back."""
            begun.wait()
            deadline = time.monotonic() + 0.1
            while time.monotonic() < deadline:
                with path.open("w+b") as stranger:
                    stranger.write(b"mine")
                    stranger.flush()
                    time.sleep(0.001)
                    assert stranger.seek(0, 2) == 4, "another file was written into"

        error_of_put, *errors = in_threads(put, close, close, write_to_another_file)
        assert errors == [None] * 3, errors
        assert error_of_put is None or isinstance(error_of_put, StoreClosedError), repr(error_of_put)
        with IndexFile.open(file.path, hash_slot_num=100_000, index_num=n + 1) as again:
            assert_holds(again, len(again))
            assert error_of_put is not None or len(again) == n


def test_close_beside_the_first_batch_of_a_fresh_file_neither_crashes_nor_writes_elsewhere(tmp_path):
    in_subprocess(close_while_a_fresh_file_is_filled, tmp_path)


def use_a_closed_file(path):
    fresh, old = IndexFile.create(path, hash_slot_num=5, index_num=100), filled(f"{path}-2", 5_000)
    hashes, offsets, times = columns(1, 50)
    for file in (fresh, old):
        file.close()
        for call in (
            lambda f: f.put_key("T#k", 1, 1),
            lambda f: f.put_keys(["T#k"], [1], [1]),
            lambda f: f.put_key_hashes(hashes, offsets, times),
            lambda f: f.put_key_hashes(hashes[:0], offsets[:0], times[:0]),
            lambda f: f.select_phy_offset("T#k"),
            lambda f: f.select_phy_offsets(["T#k"]),
            lambda f: f.select_phy_offsets([]),
            lambda f: f.select_phy_offsets_by_hash(hashes, threads=2),
            lambda f: f.header,
            lambda f: f.is_write_full,
            lambda f: f.is_time_matched(0, 1),
            len,
            IndexFile.flush,
        ):
            with pytest.raises(StoreClosedError):
                call(file)
        file.close()


def test_every_call_on_a_closed_file_raises_store_closed_error(tmp_path):
    in_subprocess(use_a_closed_file, tmp_path / "index")


def test_close_by_many_threads_at_once_closes_once(tmp_path):
    for round_number in range(20):
        file = filled(tmp_path / str(round_number), 5_000)
        assert in_threads(*[file.close] * 6) == [None] * 6
        assert file.closed


# ---- readers beside a writer -------------------------------------------------------------------------------

LAST = 60_000
HOT = np.array([7], np.int32)  # each of the writer's batches also holds this hash once more


def put_with_a_hot_key(file):
    """Put the new items by small and large batches, and the hot hash after each batch."""
    first, n = OLD + 1, 1
    while first < LAST:
        batch = columns(first, min(n, LAST - first))
        assert file.put_key_hashes(*batch) == len(batch[0])
        assert file.put_key_hashes(HOT, [10**9 + first], [BEGIN]) == 1
        first += len(batch[0])
        n = n % 97 + 1


def assert_only_grows(reader, seen):
    """All old keys are there, and of the hot one as many offsets as before, newest first."""
    length = len(reader)
    assert length >= seen["length"], "len fell"
    old = np.delete(columns(1, OLD)[0], HOT - 1)
    np.testing.assert_array_equal(reader.select_phy_offsets_by_hash(old).values, old)
    hot = reader.select_phy_offsets_by_hash(HOT, max_num=10**6)[0]
    assert hot[-1] == HOT[0]
    assert np.all(np.diff(hot) < 0)
    assert len(hot) >= seen["hot"], "hits of the hot key fell"
    seen.update(length=length, hot=len(hot), rounds=seen["rounds"] + 1)


def watch(reader, done):
    seen = {"length": OLD, "hot": 1, "rounds": 0}
    while not done.is_set():
        assert_only_grows(reader, seen)
    assert_only_grows(reader, seen)
    assert seen["rounds"] > 1
    assert seen["hot"] > 1000


def watch_from_another_process(path):
    """Watch until the standard input ends."""
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
    with IndexFile.open(path, hash_slot_num=SLOTS, index_num=2 * LAST) as reader:
        print("ready", flush=True)
        watch(reader, done)


def test_readers_of_any_mapping_always_find_older_items_while_a_writer_puts(tmp_path):
    writer = filled(tmp_path / "index", 2 * LAST)
    command = [sys.executable, __file__, "watch_from_another_process", str(writer.path)]
    done = threading.Event()

    def write_all():
        try:
            put_with_a_hot_key(writer)
        finally:
            done.set()

    pipe = subprocess.PIPE
    other = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
    with writer, IndexFile.open(writer.path, hash_slot_num=SLOTS, index_num=2 * LAST) as second:
        assert other.stdout.readline() == "ready\n"
        errors = in_threads(write_all, lambda: watch(writer, done), lambda: watch(second, done))
        _, complaints = other.communicate(timeout=60)
        assert errors == [None] * 3
        assert (other.returncode, complaints) == (0, "")


def test_a_reader_sees_none_or_all_of_the_first_batch_of_a_fresh_file(tmp_path):
    n = 400_000
    with IndexFile.create(tmp_path / "index", hash_slot_num=100_000, index_num=n + 1) as file:
        done = threading.Event()
        lengths = set()

        def put():
            file.put_key_hashes(*columns(1, n))
            done.set()

        def read():
            with IndexFile.open(file.path, hash_slot_num=100_000, index_num=n + 1) as reader:
                while not done.is_set():
                    before, found = len(reader), reader.select_phy_offsets_by_hash(columns(n, 1)[0])
                    lengths.add(before)
                    assert found.to_pylist() in ([[]], [[n]])
                    assert before == 0 or found.to_pylist() == [[n]]
                assert_holds(reader, n)

        assert in_threads(read, put) == [None, None]
        assert lengths <= {0, n}


# ---- writers beside writers --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["fresh", "published"])
def test_two_writers_at_once_lose_nothing(form, tmp_path):
    each, batch = 60_000, 30_000  # more than a piece in a file that is fresh: the stream form may be taken
    for round_number in range(6):
        path = tmp_path / str(round_number)
        file = IndexFile.create(path, hash_slot_num=SLOTS, index_num=2 * each + 1)
        if form == "published":
            file.close()
            file = IndexFile.open(path, "r+", hash_slot_num=SLOTS, index_num=2 * each + 1)

        def put(first, f=file):
            for start in range(first, first + each, batch):
                assert f.put_key_hashes(*columns(start, batch)) == batch

        with file:
            assert in_threads(lambda p=put: p(1), lambda p=put: p(1 + each)) == [None, None]
            assert len(file) == 2 * each
            hashes = columns(1, 2 * each)[0]
            np.testing.assert_array_equal(file.select_phy_offsets_by_hash(hashes).values, hashes)
            assert file.put_key("T#k", 1, 1) is False


def test_scalar_and_batch_writers_and_a_flush_at_once_lose_nothing(tmp_path):
    for round_number in range(30):
        with IndexFile.create(tmp_path / str(round_number), hash_slot_num=100_000, index_num=10_000) as file:

            def put_one_by_one(f=file):
                for n in range(500):
                    assert f.put_key(f"T#{n}", n, BEGIN)

            def put_batches(f=file):
                for n in range(50):
                    assert f.put_key_hashes(*columns(1 + 40 * n, 40)) == 40

            def flush(f=file):
                for _ in range(20):
                    f.flush()

            assert in_threads(put_one_by_one, put_batches, flush) == [None] * 3
            assert len(file) == 2_500
            assert [file.select_phy_offset(f"T#{n}") for n in range(500)] == [[n] for n in range(500)]


def test_the_first_batch_of_a_fresh_file_keeps_what_another_handle_put(tmp_path):
    with IndexFile.create(tmp_path / "index", hash_slot_num=SLOTS, index_num=10_000) as file:
        with IndexFile.open(file.path, "r+", hash_slot_num=SLOTS, index_num=10_000) as other:
            assert other.put_key("T#other", 1, BEGIN)
        assert file.put_key_hashes(*columns(1, 5_000)) == 5_000
        assert len(file) == 5_001
        assert file.select_phy_offset("T#other") == [1]


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

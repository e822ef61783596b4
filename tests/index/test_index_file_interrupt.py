"""Ctrl-C in the middle of long calls ends them at once, and items that were put before are complete."""

import contextlib
import faulthandler
import gc
import itertools
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.interrupted import interrupt_everywhere
from support.subprocesses import in_subprocess
from support.waiting import wait_for

from rocketstore import IndexFile, IndexService, StoreClosedError, hash_keys
from rocketstore.index.index_file import HASHES_PER_THREAD

ANSWER = 0.4  # seconds until KeyboardInterrupt; a tenth of that is usual, but the machine may be busy
SLOTS = 200_003
BEGIN = 10**12


def columns(first, n):
    """Items whose key hash and offset are their ordinal, so that every one is known and is found once."""
    ordinals = np.arange(first, first + n)
    return ordinals.astype(np.int32), ordinals, BEGIN + ordinals


def interrupt(call, delay):
    """Call, with a SIGINT after `delay` seconds, answered at once. Give whether the call was still on."""

    def press():
        time.sleep(delay)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=press)
    pressed = time.monotonic() + delay  # a thread that waits for the GIL presses later: that counts as well
    try:
        thread.start()
        call()
        thread.join()
        time.sleep(1)  # the signal came too late, and is answered here
    except KeyboardInterrupt as error:
        answered = time.monotonic()
        thread.join()
        assert answered - pressed < ANSWER, f"{answered - pressed:.3f} s"
        traceback = error.__traceback__
        while traceback.tb_next is not None:
            traceback = traceback.tb_next
        return traceback.tb_frame.f_code.co_name != "interrupt"
    raise AssertionError("no KeyboardInterrupt at all")


def delays():
    """Shorter each time, for a machine on which the call was over before the signal came."""
    return (0.05 * 0.6**n for n in range(12))


# ---- put ---------------------------------------------------------------------------------------------------

N = 3_000_000


def assert_is_whole(path, n):
    """The file has n items, each findable, none more; and the next ones go on from there."""
    with IndexFile.open(path, "r+", hash_slot_num=SLOTS, index_num=N + 1) as file:
        assert len(file) == n
        hashes, offsets, _ = columns(1, n)
        np.testing.assert_array_equal(file.select_phy_offsets_by_hash(hashes).values, offsets)
        assert len(file.select_phy_offsets_by_hash(columns(n + 1, N - n)[0]).values) == 0
        header = file.header
        assert (header.begin_timestamp, header.begin_phy_offset) == (BEGIN + 1, 1)
        assert (header.end_timestamp, header.end_phy_offset) == (BEGIN + n, n)
        assert header.hash_slot_count == min(n, SLOTS)
        assert file.put_key_hashes(*columns(n + 1, N)) == N - n
        assert file.is_write_full
        hashes, offsets, _ = columns(1, N)
        np.testing.assert_array_equal(file.select_phy_offsets_by_hash(hashes).values, offsets)


def create(path, form):
    """An empty file, open for writing; "in place": not fresh any more."""
    file = IndexFile.create(path, hash_slot_num=SLOTS, index_num=N + 1)
    if form == "fresh":
        return file
    file.close()
    return IndexFile.open(path, "r+", hash_slot_num=SLOTS, index_num=N + 1)


def interrupt_put(form, directory):
    path, batch = Path(directory, "index"), columns(1, N)
    for delay in delays():
        path.unlink(missing_ok=True)
        with create(path, form) as file:
            inside = interrupt(lambda f=file: f.put_key_hashes(*batch), delay)
            n = len(file)
        if inside and 0 < n < N:
            print(f"{n} items after {delay:.4f} s")
            assert_is_whole(path, n)
            return
    raise AssertionError("no interrupt came while items were put")


@pytest.mark.parametrize("form", ["fresh", "in place"])
def test_ctrl_c_while_keys_are_put_leaves_a_whole_file_whose_len_tells_how_far_it_came(form, tmp_path):
    in_subprocess(interrupt_put, form, tmp_path)


# ---- select ------------------------------------------------------------------------------------------------


def until_interrupted(call):
    """Interrupt a call that is made again and again, at several moments."""

    def again_and_again():
        for _ in itertools.count():
            call()

    for delay in (0.01, 0.05, 0.13):
        interrupt(again_and_again, delay)


def interrupt_select(directory, threads):
    n = 1_000_000
    rng = np.random.default_rng(1)
    with IndexFile.create(Path(directory, "index"), hash_slot_num=SLOTS, index_num=n + 1) as file:
        file.put_key_hashes(*columns(1, n))
        asked = rng.integers(1, n + 1, 2_000_000).astype(np.int32)
        until_interrupted(lambda: file.select_phy_offsets_by_hash(asked, threads=int(threads)))
        found = file.select_phy_offsets_by_hash(asked, threads=int(threads))
        np.testing.assert_array_equal(found.values, asked)
    assert threading.active_count() == 1


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_while_keys_are_looked_up_is_answered_at_once(threads, tmp_path):
    in_subprocess(interrupt_select, tmp_path, threads)


def interrupt_select_everywhere(directory):
    with IndexFile.create(Path(directory, "index"), hash_slot_num=1000, index_num=1000) as file:
        file.put_key_hashes(*columns(1, 1))
        asked = np.full(2 * HASHES_PER_THREAD, 7, np.int32)
        asked[-1] = 1

        def select():
            assert file.select_phy_offsets_by_hash(asked, threads=2).values.tolist() == [1]

        interrupt_everywhere(select, "index_file.py", "work_threads.py", "service_thread.py", "threading.py")


def test_ctrl_c_at_any_instruction_ends_a_lookup_in_threads(tmp_path):
    assert int(in_subprocess(interrupt_select_everywhere, tmp_path)) > 100


def hot_slot(directory):
    """A file with one chain of 300,000 items, and 20,000 hashes that each walk down all of it for nothing."""
    file = IndexFile.create(Path(directory, "index"), hash_slot_num=4, index_num=300_001)
    hashes, offsets, times = columns(1, 300_000)
    file.put_key_hashes(hashes * 4, offsets, times)
    return file, np.full(20_000, 2**31 - 4, np.int32)


def interrupt_select_of_a_long_chain(directory):
    file, asked = hot_slot(directory)
    with file:
        for threads in (1, 2):
            again = np.resize(asked, 140_000)
            assert interrupt(lambda t=threads, a=again: file.select_phy_offsets_by_hash(a, threads=t), 0.05)


def close_beside_a_select_of_a_long_chain(directory):
    file, asked = hot_slot(directory)

    def select():
        with pytest.raises(StoreClosedError):
            file.select_phy_offsets_by_hash(asked)

    thread = threading.Thread(target=select)
    thread.start()
    time.sleep(0.05)
    begun = time.monotonic()
    file._file.close()
    assert time.monotonic() - begun < ANSWER
    thread.join()


def interrupt_select_of_empty_slots(directory):
    with IndexFile.create(Path(directory, "index"), hash_slot_num=1000, index_num=1000) as file:
        file.put_key_hashes(*columns(1, 1))
        asked = np.full(30_000_000, 7, np.int32)
        assert interrupt(lambda: file.select_phy_offsets_by_hash(asked), 0.05)


def test_ctrl_c_while_keys_that_are_not_there_are_looked_up_is_answered_at_once(tmp_path):
    in_subprocess(interrupt_select_of_empty_slots, tmp_path)


@pytest.mark.parametrize("work", [interrupt_select_of_a_long_chain, close_beside_a_select_of_a_long_chain])
def test_one_long_chain_delays_neither_ctrl_c_nor_close(work, tmp_path):
    in_subprocess(work, tmp_path)


# ---- hash --------------------------------------------------------------------------------------------------


def key_columns():
    """A million keys in each form that is hashed in its own way."""
    keys = [f"{n:08}-key" for n in range(1_000_000)]
    yield "list", keys
    yield "topic column", keys
    yield "str array", np.array(keys)
    yield "bytes array", np.array(keys, "S")
    yield "not ASCII", ["主题" + key for key in keys]
    try:
        import pyarrow as pa
    except ImportError:
        return
    yield "arrow", pa.array(keys)
    yield "string_view", pa.array(keys, pa.string_view())
    indices = pa.array(np.arange(10**7, dtype=np.int32) % 1000)
    yield "dictionary", pa.DictionaryArray.from_arrays(indices, pa.array(keys[:1000]))


def interrupt_hash():
    for name, keys in key_columns():
        print(name, flush=True)
        until_interrupted(lambda k=keys, n=name: hash_keys(k, topic=k if n == "topic column" else None))


def test_ctrl_c_while_keys_are_hashed_is_answered_at_once():
    in_subprocess(interrupt_hash)


# ---- handlers that use the file ----------------------------------------------------------------------------


def use_the_file_in_a_handler(directory):
    """As a handler of SIGTERM may in the middle of put_keys: nothing hangs, crashes or is lost."""
    batch = columns(1, N)
    for form, act in itertools.product(["fresh", "in place"], ["put", "flush", "close", "select"]):
        path = Path(directory, f"{form} {act}")
        file = create(path, form)
        acts = {
            "put": lambda f=file: f.put_key("T#handler", 10**12, BEGIN),
            "flush": file.flush,
            "close": file.close,
            "select": lambda f=file: f.select_phy_offset("T#handler"),
        }
        signal.signal(signal.SIGALRM, lambda *_, act=acts[act]: act())
        signal.setitimer(signal.ITIMER_REAL, 0.012)
        refused = None
        try:
            file.put_key_hashes(*batch)
        except (StoreClosedError, RuntimeError) as error:
            refused = error
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert act == "close" or not isinstance(refused, StoreClosedError)
        print(f"{path.name}: {refused!r}")
        file.close()
        with IndexFile.open(path, hash_slot_num=SLOTS, index_num=N + 1) as again:
            n = len(again) - len(again.select_phy_offset("T#handler"))
            assert refused or n >= N - 1
            found = again.select_phy_offsets_by_hash(columns(1, n)[0])
            np.testing.assert_array_equal(found.values, np.arange(1, n + 1))
        path.unlink()


def close_the_file_in_a_handler_while_it_is_flushed(directory):
    """As a handler of SIGTERM may: the disk takes its time, and the handler runs where it comes back."""
    faulthandler.dump_traceback_later(20, exit=True)
    for call in (IndexFile.flush, IndexFile.close):
        file = create(Path(directory, call.__name__), "fresh")
        assert file.put_key_hashes(*columns(1, N)) == N
        signal.signal(signal.SIGALRM, lambda *_, f=file: f.close())
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        with contextlib.suppress(StoreClosedError):
            call(file)
        assert file.closed


@pytest.mark.parametrize("work", [use_the_file_in_a_handler, close_the_file_in_a_handler_while_it_is_flushed])
def test_a_signal_handler_may_use_the_file_that_is_being_written(work, tmp_path):
    in_subprocess(work, tmp_path)


# ---- flushes of full files ---------------------------------------------------------------------------------


def six_requests():
    """Requests whose items fill three files of two items."""
    return {
        "topic": ["T"] * 6,
        "keys": [f"k{number}" for number in range(6)],
        "phy_offset": np.arange(6),
        "store_timestamp": BEGIN + np.arange(6),
        "sys_flag": np.zeros(6, np.int32),
        **dict.fromkeys(("uniq_key", "tags"), [None] * 6),
    }


def count_threads():
    """Count as the system does: ``threading`` also lists a thread that Ctrl-C met just before it was started."""
    return len(list(Path("/proc/self/task").iterdir()))


def interrupt_flushes_everywhere(directory):
    """Fill three files, which a thread flushes, and close the index."""
    before = count_threads()

    def fill():
        shutil.rmtree(Path(directory, "index"), ignore_errors=True)
        with IndexService.open(Path(directory, "index"), "a", hash_slot_num=2, index_num=3) as index:
            index.build_indexes(six_requests())
            index.flush()

    interrupt_everywhere(fill, "index_writer.py", "work_threads.py", "service_thread.py", "threading.py")
    gc.collect()
    # Ctrl-C in the Condition of Thread.start leaves a thread that never begins.
    wait_for(lambda: count_threads() <= before + 1, "a thread still runs")


def test_ctrl_c_at_any_instruction_ends_the_wait_for_flushes_of_full_files(tmp_path):
    """With the futures of Python it left a lock held, for which ``close`` waited forever, and raised RuntimeError."""
    assert int(in_subprocess(interrupt_flushes_everywhere, tmp_path)) > 200


def test_full_files_are_flushed_though_no_thread_can_be_started(tmp_path, monkeypatch):
    def fail(thread):
        raise RuntimeError("can't start new thread")

    flushed = []
    monkeypatch.setattr(threading.Thread, "start", fail)
    monkeypatch.setattr(
        IndexFile, "flush", lambda file, flush=IndexFile.flush: (flush(file), flushed.append(file.path))
    )
    with IndexService.open(tmp_path, "a", hash_slot_num=2, index_num=3) as index:
        index.build_indexes(six_requests())
        assert len(flushed) == 2
        assert flushed == sorted(tmp_path.iterdir())[:2]


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

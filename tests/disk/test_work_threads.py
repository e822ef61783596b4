"""Threads that do tasks, and Ctrl-C at any statement of the thread that waits for them."""

import gc
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError

import pytest
from support.interrupted import interrupt_everywhere
from support.subprocesses import in_subprocess
from support.waiting import wait_for, wait_for_no_thread

from rocketstore.disk.ahead import iterate_ahead, read_ahead
from rocketstore.disk.work_threads import WorkThreads, run_in_threads, work_threads


def test_threads_finish_all_work_without_an_error():
    made = []
    with work_threads(2, "rocketstore-test") as threads:
        for number in range(100):
            threads.submit(made.append, number)
    assert sorted(made) == list(range(100))


def test_a_task_gives_its_result_or_error_each_time_it_is_asked():
    with work_threads(2, "rocketstore-test") as threads:
        right, wrong = threads.submit(divmod, 7, 2), threads.submit(divmod, 7, 0)
        for _ in range(2):
            assert right.result() == (3, 1)
            with pytest.raises(ZeroDivisionError):
                wrong.result()
        assert right.has_ended
        assert wrong.has_ended


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_after_an_error_threads_end_without_the_work_that_has_not_begun(error):
    begun, made, later = threading.Event(), [], []

    def wait_for_end(threads):
        begun.set()
        for _ in range(10_000):
            if threads._is_cancelled:
                return
            time.sleep(0.001)

    def fail():
        with work_threads(1, "rocketstore-test") as threads:
            threads.submit(wait_for_end, threads)
            later.extend(threads.submit(made.append, number) for number in range(100))
            begun.wait(10)
            raise error

    with pytest.raises(error):
        fail()
    assert made == []
    with pytest.raises(CancelledError):
        later[-1].result()


def test_a_task_that_was_cancelled_before_it_began_is_not_done():
    threads, go_on, made = WorkThreads(1, "rocketstore-test"), threading.Event(), []
    threads.submit(go_on.wait, 10)
    threads.submit(made.append, 1).cancel()
    go_on.set()
    threads.end(cancels=False)
    assert made == []


def test_an_iterator_that_its_own_thread_collects_as_garbage_ends_the_thread():
    is_lost, collected = threading.Event(), []

    def items():
        yield from range(2)
        is_lost.wait(10)
        gc.collect()
        collected.append(True)
        yield 2

    def lose_iterator():
        iterator = iterate_ahead(items())
        assert [next(iterator), next(iterator)] == [0, 1]
        cycle = [iterator]
        cycle.append(cycle)

    gc.disable()
    try:
        lose_iterator()
        is_lost.set()
        wait_for_no_thread("rocketstore-ahead")
    finally:
        gc.enable()
    assert collected == [True]


def test_work_that_ctrl_c_meets_at_the_start_of_its_thread_is_waited_for(monkeypatch):
    begun, ended = threading.Event(), []

    def work():
        begun.set()
        time.sleep(0.05)
        ended.append(True)

    def start_and_interrupt(thread, start=threading.Thread.start):
        start(thread)
        begun.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)
    with pytest.raises(KeyboardInterrupt), work_threads(1, "rocketstore-test") as threads:
        threads.submit(work)
    assert ended == [True]


LEFT_OPEN = """
from rocketstore.disk.ahead import read_ahead
from rocketstore.disk.work_threads import work_threads

def results():
    with work_threads(2, "rocketstore-test") as threads:
        with read_ahead(threads, 2, divmod, ((number, 3) for number in range(9))) as found:
            for _, task in found:
                yield task.result()

iterator = results()
print(next(iterator))
"""


def test_a_program_ends_although_its_iterator_has_not_ended():
    """Python ends daemon threads before it deletes the iterator, which waits for its threads."""
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(0, 0)\n", "")


def interrupt_tasks():
    def work():
        with work_threads(2, "rocketstore-test") as threads:
            chunks = [(number, 3) for number in range(5)]
            with read_ahead(threads, 2, divmod, chunks) as results:
                found = [task.result() for _, task in results]
        return found, list(iterate_ahead(range(3))), run_in_threads(lambda part, _: -part, [1, 2])

    assert work() == ([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)], [0, 1, 2], [-1, -2])
    interrupt_everywhere(work, "ahead.py", "work_threads.py", "service_thread.py", "contextlib.py", "threading.py")


def test_ctrl_c_at_any_instruction_ends_the_wait_for_tasks():
    """With the futures of Python it left a lock held, for which the threads waited, and raised RuntimeError."""
    assert int(in_subprocess(interrupt_tasks)) > 300


def test_threads_that_could_not_start_are_replaced(monkeypatch):
    def fail(thread):
        raise RuntimeError("can't start new thread")

    threads, made = WorkThreads(1, "rocketstore-test"), []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            threads.submit(made.append, 1)
    threads.submit(made.append, 2).result()
    threads.end(cancels=False)
    assert made == [2]


def test_the_end_of_a_task_wakes_all_threads_that_wait_for_it(monkeypatch):
    monkeypatch.setattr("rocketstore.disk.work_threads.ASK_SECONDS", 1000)
    go_on, results = threading.Event(), []
    with work_threads(1, "rocketstore-test") as one:
        task = one.submit(go_on.wait)
        waiting = [threading.Thread(target=lambda: results.append(task.result()), daemon=True) for _ in range(3)]
        for thread in waiting:
            thread.start()
        time.sleep(0.05)  # until they wait
        go_on.set()
        wait_for(lambda: len(results) == 3)
    assert results == [True] * 3


def test_an_error_in_one_thread_ends_the_others():
    def work(part, threads):
        if part == 0:
            raise OSError("damaged")
        wait_for(lambda: threads.are_cancelled)

    with pytest.raises(OSError, match="damaged"):
        run_in_threads(work, range(3))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

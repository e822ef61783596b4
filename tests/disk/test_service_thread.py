"""Threads that work for others, and the main thread that Ctrl-C ends at any moment."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from support.interrupts import interrupt

from rocketstore.disk.service_thread import ServiceThread, Wakeup

AT_ONCE = 0.0001  # seconds


def test_a_thread_that_is_woken_before_it_waits_does_not_wait():
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    assert wakeup.is_set
    assert wakeup.wait()
    assert not wakeup.is_set
    assert not wakeup.wait(0.001)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that signals")
def test_a_thread_is_alive_until_it_ends_whatever_ctrl_c_interrupts():
    go_on = Wakeup()
    thread = ServiceThread("test", go_on.wait)
    assert not thread.is_alive
    thread.start()
    interrupt(lambda: thread.is_alive, [AT_ONCE] * 300)
    assert thread.is_alive
    interrupt(thread.join, [AT_ONCE] * 20)
    assert thread.is_alive
    go_on.set()
    thread.join()
    assert not thread.is_alive


def test_a_thread_that_ctrl_c_came_in_the_start_of_is_stopped(monkeypatch):
    go_on, started = Wakeup(), []

    def start_and_raise(thread):
        started.append(thread)
        start(thread)
        raise KeyboardInterrupt

    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start_and_raise)
    with pytest.raises(KeyboardInterrupt):
        ServiceThread("test", go_on.wait).start(go_on.set)
    started[0].join(10)
    assert not started[0].is_alive()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that signals")
def test_a_wakeup_works_after_ctrl_c_came_while_it_was_used():
    wakeup, answer = Wakeup(), Wakeup()
    stop = []

    def run():
        while not stop:
            wakeup.wait()
            answer.set()

    thread = ServiceThread("test", run)
    thread.start()

    def ask():
        wakeup.set()
        answer.wait(1)

    interrupt(ask, [AT_ONCE] * 300)
    answer.wait(0)
    time.sleep(0.01)
    ask()
    stop.append(True)
    wakeup.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_thread_is_not_alive_in_a_forked_process():
    go_on = Wakeup()
    thread = ServiceThread("test", go_on.wait)
    thread.start()
    child = os.fork()
    if child == 0:
        os._exit(thread.is_alive)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert thread.is_alive
    go_on.set()
    thread.join()


def test_a_thread_knows_itself():
    said = []
    thread = ServiceThread("test", lambda: said.append((thread.is_current, threading.current_thread().name)))
    thread.start()
    thread.join()
    assert said == [(True, "test")]
    assert not thread.is_current


def test_an_error_of_a_signal_handler_that_runs_in_a_wakeup_is_raised():
    """The error of a lock that another thread has released just now is not."""

    def handler():
        raise RuntimeError("of the handler")

    wakeup = Wakeup()
    wakeup._lock = SimpleNamespace(locked=lambda: True, release=threading.Lock().release)
    wakeup.set()
    wakeup._lock = SimpleNamespace(locked=lambda: True, release=handler)
    with pytest.raises(RuntimeError, match="of the handler"):
        wakeup.set()


def test_join_waits_until_the_values_that_belong_to_the_thread_are_deleted():
    """Python's exit in the middle of a destructor of DuckDB aborted the process."""
    local, deleted = threading.local(), []

    class Value:
        def __del__(self):
            time.sleep(0.05)
            deleted.append(True)

    def run():
        local.value = Value()

    thread = ServiceThread("rocketstore-test", run)
    thread.start()
    thread.join()
    assert deleted == [True]


def test_join_returns_in_a_thread_that_holds_the_lock_for_which_the_thread_waits(monkeypatch):
    """The garbage collector may call join in the middle of ``threading.enumerate``, which holds this lock."""
    monkeypatch.setattr("rocketstore.disk.service_thread.MAX_END_SECONDS", 0.05)
    go_on = Wakeup()
    thread = ServiceThread("rocketstore-test", go_on.wait)
    thread.start()
    with threading._active_limbo_lock:
        go_on.set()
        thread.join()
    assert not thread.is_alive

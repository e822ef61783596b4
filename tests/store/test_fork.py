"""A process that is forked while another thread uses a store does not wait for that thread."""

import os
import threading
import time

import pytest
from support.sigkill import start

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.disk.remote import read_parts
from rocketstore.disk.remote.blocks import Blocks
from rocketstore.store import opened_log
from rocketstore.survey.requirements import begin_entry

SECONDS = 10


def exit_status_of_child(work):
    """Do something in a forked process. Returns its exit status, None if it hangs and had to be killed."""
    pid = start(work)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


@pytest.fixture
def root(tmp_path):
    with rocketstore.open(tmp_path / "store", "a") as store:
        store.put_message(Message("T", b"body"))
    return tmp_path / "store"


def count_messages(root):
    with rocketstore.open(root) as store:
        assert sum(map(len, store.scan())) == 1


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_reads_a_store_while_a_thread_of_the_parent_opens_another(root, monkeypatch):
    entered, release, real = threading.Event(), threading.Event(), opened_log.open_log

    def slow_open(*args, **options):
        if threading.current_thread() is thread:
            entered.set()
            release.wait(60)
        return real(*args, **options)

    thread = threading.Thread(target=count_messages, args=(root,))
    monkeypatch.setattr(opened_log, "open_log", slow_open)
    thread.start()
    try:
        assert entered.wait(60)
        assert exit_status_of_child(lambda: count_messages(root)) == 0
    finally:
        release.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_copies_a_remote_file_while_a_thread_of_the_parent_does():
    entered, release = threading.Event(), threading.Event()

    def hold():
        with read_parts.COPYING:
            entered.set()
            release.wait(60)

    def take():
        assert read_parts.COPYING.acquire(timeout=5)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert entered.wait(60)
        assert exit_status_of_child(take) == 0
    finally:
        release.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_does_not_wait_for_a_block_that_a_thread_of_the_parent_reads():
    blocks = Blocks()
    with blocks._lock:
        assert exit_status_of_child(blocks.clear) == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("name", ["index_cache", "store_cache"])
def test_a_child_opens_what_a_thread_of_the_parent_is_opening_for_spark(root, name):
    pytest.importorskip("pyspark", reason="needs pyspark, from the extra 'spark'")
    from rocketstore.spark.lookup import cache as module
    from rocketstore.spark.lookup.plans import plan_index, plan_store

    if name == "index_cache":
        plan = plan_index(root / "index", None)
    else:
        plan = plan_store(begin_entry("spark query_messages", root, StoreConfig()))
    cache = getattr(module, name)()
    with cache._lock:
        assert exit_status_of_child(lambda: cache.open(plan)) == 0
    kept = cache.open(plan)
    assert exit_status_of_child(lambda: cache.open(plan)) == 0
    assert cache.open(plan) is kept
